/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A register that says which message a thread works on: `perftax trace record --tag reg:r13` samples it.
 *
 *     perftax_register_begin(id);    the thread works on message id from now on
 *     perftax_register_end();        and on none any more
 *
 * ids are numbers below 2^48 but 0. Either is two instructions, whether somebody listens or not; nothing is written to memory, and nothing
 * has to be prepared. In exchange latencies are known to a sampling gap only: where that is too coarse, perftax_tag.h marks exactly.
 *
 * r13 is set aside by the compiler: build all of the program with `-ffixed-r13` (GCC; Clang where it knows it, with
 * -DPERFTAX_REGISTER_RESERVED added). Where GCC sees this header it knows for that file even without the option; a file without either
 * uses r13 for something of its own, and gives it back when its functions return, as libraries do: the ABI says that a function keeps r13.
 * While such code runs the tag is not to be seen, and perftax fills in what was the same before and after.
 *
 * The other way round it must be kept, too. A function of yours that code *without* a reserved r13 calls (a thread's start routine, a
 * comparator for qsort, a signal handler, a callback) and that begins or ends messages, itself or in what it calls, gives back what it
 * found:
 *
 *     int compare(const void *a, const void *b)
 *     {
 *         PERFTAX_REGISTER_GUEST;     r13 is the caller's again when the function returns, in C++ also by an exception
 *
 * So does whoever leaves a message by longjmp: setjmp has kept r13, too. C11, C++11 or later, x86-64 Linux. No other file is needed. Rust
 * has no stable way to reserve a register on x86-64, and most other languages none at all: they mark (crate perftax-tag).
 */
#ifndef PERFTAX_TAG_REGISTER_H
#define PERFTAX_TAG_REGISTER_H

#include <stdint.h>

#if !defined(__x86_64__) || !defined(__LP64__)
#error "perftax_tag_register.h knows x86-64"
#endif

/* The top 16 bits of a tag: no address has them, and no text. The others are the message's; 0: none. */
#define PERFTAX_REGISTER_MAGIC 0xd3a5ull
#define PERFTAX_REGISTER_TAG(id) (PERFTAX_REGISTER_MAGIC << 48 | ((uint64_t)(id) & 0xffffffffffffull))

#if defined(__clang__)
#ifndef PERFTAX_REGISTER_RESERVED
#error "Clang: build with -ffixed-r13 -DPERFTAX_REGISTER_RESERVED; without the first r13 would be overwritten under the compiler's feet"
#endif
static inline uint64_t perftax_register_word(void)
{
    uint64_t word;

    __asm__ volatile("movq %%r13, %0" : "=r"(word));
    return word;
}

static inline void perftax_register_put(uint64_t word)
{
    __asm__ volatile("movq %0, %%r13" : : "r"(word));
}
#else
/* A variable, not an asm statement: so GCC itself keeps r13 free in every file that includes this, with or without the option. */
register uint64_t perftax_register __asm__("r13");

static inline uint64_t perftax_register_word(void)
{
    return perftax_register;
}

static inline void perftax_register_put(uint64_t word)
{
    perftax_register = word;
}
#endif

static inline void perftax_register_begin(uint64_t id)
{
    perftax_register_put(PERFTAX_REGISTER_TAG(id));
}

static inline void perftax_register_end(void)
{
    perftax_register_put(PERFTAX_REGISTER_TAG(0));
}

/* The message that the thread works on; 0: none, or r13 holds something else. */
static inline uint64_t perftax_register_message(void)
{
    uint64_t word = perftax_register_word();

    return word >> 48 == PERFTAX_REGISTER_MAGIC ? word & 0xffffffffffffull : 0;
}

static inline void perftax_register_give_back(const uint64_t *found)
{
    perftax_register_put(*found);
}

#define PERFTAX_REGISTER_GUEST                                                                                     \
    uint64_t perftax_register_found __attribute__((cleanup(perftax_register_give_back), unused)) = perftax_register_word()

#endif
