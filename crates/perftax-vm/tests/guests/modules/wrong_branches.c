// SPDX-License-Identifier: GPL-2.0
/*
 * Gives AMD's driver the table entry that it had until Linux 2.6.35: the generic
 * event "branches" at C4h, which are taken branches, instead of C2h.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>

#define RETIRED_TAKEN_BRANCHES 0xc4

static int remember(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*(unsigned long *)instance->data = regs_get_kernel_argument(regs, 0);
	return 0;
}

static int replace(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	unsigned long event = *(unsigned long *)instance->data;

	if ((int)event == PERF_COUNT_HW_BRANCH_INSTRUCTIONS)
		regs_set_return_value(regs, RETIRED_TAKEN_BRANCHES);
	return 0;
}

static struct kretprobe table = {
	.kp.symbol_name = "amd_pmu_event_map",
	.entry_handler = remember,
	.handler = replace,
	.data_size = sizeof(unsigned long),
	.maxactive = 16,
};

static int __init wrong_branches_init(void)
{
	return register_kretprobe(&table);
}

static void __exit wrong_branches_exit(void)
{
	unregister_kretprobe(&table);
}

module_init(wrong_branches_init);
module_exit(wrong_branches_exit);
MODULE_DESCRIPTION("A wrong table of generic events, to show that it is found");
MODULE_LICENSE("GPL");
