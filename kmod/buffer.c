// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that PEBS writes: the processor does so at any instruction, also in
 * user mode, so that it must be mapped there, too (page-table isolation off),
 * and never fault.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "perftax.h"

int perftax_buffer_alloc(struct perftax_buffer *buffer, int cpu, size_t bytes)
{
	int node = cpu_to_node(cpu);

	buffer->bytes = PAGE_ALIGN(bytes);
	buffer->store = kzalloc_node(sizeof(*buffer->store), GFP_KERNEL, node);
	/*
	 * Contiguous where there is such a piece; else page by page: all of
	 * the kernel's vmalloc area is in every page table since 5.8.
	 */
	buffer->records = kvzalloc_node(buffer->bytes, GFP_KERNEL | __GFP_NORETRY, node);
	if (buffer->store && buffer->records)
		return 0;
	perftax_buffer_free(buffer);
	return -ENOMEM;
}

void perftax_buffer_free(struct perftax_buffer *buffer)
{
	kvfree(buffer->records);
	kfree(buffer->store);
	memset(buffer, 0, sizeof(*buffer));
}
