/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the services send each other: a request, and the same back as its answer. */
#include <stdint.h>

struct frame {
    uint64_t trace_high, trace_low; /* W3C's trace */
    uint64_t span;                  /* the call */
    uint32_t where;                 /* who is to be slow: see enum where */
    uint32_t delay_us;              /* by how much */
};

enum where {
    NOBODY,
    FRONT_BLOCKED,
    FRONT_ON_CPU,
    WAY_TO_APP,
    APP_BLOCKED,
    APP_ON_CPU,
    WAY_TO_STORE,
    STORE_BLOCKED,
    STORE_PAGE_FAULT,
    STORE_SYSTEM_CALL,
};
