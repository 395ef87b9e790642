// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that PEBS writes: the processor does so at any instruction, also in
 * user mode, so that it must be mapped there, too (page-table isolation off),
 * and never fault.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/pgtable.h>

#include "perftax.h"

/* The smallest page of those that map a piece of kernel memory. */
static size_t smallest_page(const void *memory, size_t bytes)
{
	unsigned long at = (unsigned long)memory, end = at + bytes;
	size_t smallest = SIZE_MAX;

	while (at < end) {
		unsigned int level;
		size_t page;

		if (!lookup_address(at, &level))
			return 0;
		page = page_level_size(level);
		smallest = min(smallest, page);
		at = ALIGN_DOWN(at, page) + page;
	}
	return smallest;
}

static void *pages(int node, size_t bytes, u32 flags)
{
	/* More than there is must fail, not push others out. */
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN;

	/* Page by page: all of the vmalloc area is in every page table since 5.8. */
	if (flags & PERFTAX_START_SMALL)
		return __vmalloc(bytes, gfp);
	/*
	 * One piece of the kernel's linear map, which is made of large pages,
	 * where there is such a piece; else pages as large as can be had.
	 */
	return kvmalloc_node(bytes, gfp, node);
}

int perftax_buffer_alloc(struct perftax_buffer *buffer, int cpu, size_t bytes, u32 flags)
{
	int node = cpu_to_node(cpu);

	buffer->bytes = flags & PERFTAX_START_HUGE ? ALIGN(bytes, PMD_SIZE) : PAGE_ALIGN(bytes);
	buffer->store = kzalloc_node(sizeof(*buffer->store), GFP_KERNEL, node);
	buffer->records = pages(node, buffer->bytes, flags);
	if (!buffer->store || !buffer->records)
		goto free;
	buffer->page_bytes = smallest_page(buffer->records, buffer->bytes);
	if (flags & PERFTAX_START_HUGE && buffer->page_bytes < PMD_SIZE)
		goto free;
	return 0;

free:
	perftax_buffer_free(buffer);
	return -ENOMEM;
}

void perftax_buffer_free(struct perftax_buffer *buffer)
{
	kvfree(buffer->records);
	kfree(buffer->store);
	memset(buffer, 0, sizeof(*buffer));
}
