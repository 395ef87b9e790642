// SPDX-License-Identifier: GPL-2.0
/* Records on their way to user space: a ring for each CPU, written in NMIs. */
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/vmalloc.h>

#include "perftax.h"

DECLARE_WAIT_QUEUE_HEAD(perftax_readers);

/*
 * Of .shared, for those who map it: they come with mmap_lock held, inside which
 * the CPUs must not be held. The session's lock has these inside.
 */
static DEFINE_MUTEX(mapping);

static void wake_readers(struct irq_work *unused)
{
	wake_up_interruptible(&perftax_readers);
}

int perftax_ring_alloc(struct perftax_out *out, const struct file *owner, size_t bytes,
		       unsigned int record_bytes)
{
	struct perftax_ring *shared = vmalloc_user(PAGE_SIZE + bytes);

	if (!shared)
		return -ENOMEM;
	out->bytes = PAGE_SIZE + bytes;
	out->owner = owner;
	out->capacity = bytes / record_bytes;
	out->head = 0;
	init_irq_work(&out->wake, wake_readers);
	*shared = (struct perftax_ring) {
		.version = PERFTAX_VERSION,
		.record_bytes = record_bytes,
		.data_bytes = bytes,
		.capacity = out->capacity,
	};
	mutex_lock(&mapping);
	out->shared = shared;
	mutex_unlock(&mapping);
	return 0;
}

/* Whoever has mapped it keeps its pages. */
void perftax_ring_free(struct perftax_out *out)
{
	struct perftax_ring *shared = out->shared;

	if (!shared)
		return;
	mutex_lock(&mapping);
	out->shared = NULL;
	mutex_unlock(&mapping);
	irq_work_sync(&out->wake);
	vfree(shared);
	memset(out, 0, sizeof(*out));
}

/* Returns how many did not fit. What user space has made of the ring's page is not believed. */
u64 perftax_ring_write(struct perftax_out *out, const void *records, u64 count,
		       unsigned int record_bytes)
{
	/* Pairs with the release of .tail in user space: it has read what is overwritten here. */
	u64 used = out->head - smp_load_acquire(&out->shared->tail);
	u64 room = used <= out->capacity ? out->capacity - used : 0;
	u64 fits = min(count, room), at;
	void *data = (void *)out->shared + PAGE_SIZE;

	div64_u64_rem(out->head, out->capacity, &at);
	if (at + fits > out->capacity) {
		u64 first = out->capacity - at;

		memcpy(data + at * record_bytes, records, first * record_bytes);
		memcpy(data, records + first * record_bytes, (fits - first) * record_bytes);
	} else {
		memcpy(data + at * record_bytes, records, fits * record_bytes);
	}
	out->head += fits;
	/* Pairs with the acquire of .head in user space: what it then reads is written. */
	smp_store_release(&out->shared->head, out->head);
	irq_work_queue(&out->wake);
	return count - fits;
}

int perftax_ring_map(struct perftax_out *out, const struct file *file, struct vm_area_struct *vma)
{
	int error;

	mutex_lock(&mapping);
	if (!out->shared)
		error = -ENXIO;
	else if (out->owner != file)
		error = -EBADF;
	else if (vma->vm_end - vma->vm_start > out->bytes)
		error = -EINVAL;
	else
		error = remap_vmalloc_range(vma, out->shared, 0);
	mutex_unlock(&mapping);
	return error;
}

bool perftax_ring_waits(const struct perftax_out *out)
{
	return out->shared && out->head != READ_ONCE(out->shared->tail);
}
