// SPDX-License-Identifier: GPL-2.0
/* Work in the kernel whose events are known: so many locked operations. */
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "perftax.h"

/* Operations between two looks at signals and at the scheduler. */
#define TURNS_AT_ONCE	1000000ull

int perftax_work(struct perftax_work *work)
{
	u64 left = work->operations, began = ktime_get_ns(), number = 0;

	if (work->reserved)
		return -EINVAL;
	while (left && !signal_pending(current)) {
		u64 turns = min(left, TURNS_AT_ONCE);

		left -= turns;
		asm volatile("1: lock incq %0\n\t"
			     "dec %1\n\t"
			     "jnz 1b"
			     : "+m" (number), "+r" (turns) : : "cc");
		cond_resched();
	}
	work->operations = number;
	work->elapsed_ns = ktime_get_ns() - began;
	return 0;
}
