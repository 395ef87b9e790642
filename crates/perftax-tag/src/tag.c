/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The header's functions, for those that cannot include it. */
#include "perftax_tag.h"

void perftax_tag_record(uint64_t id, uint32_t kind);
void perftax_tag_record(uint64_t id, uint32_t kind)
{
    perftax_tag_mark(id, kind);
}
