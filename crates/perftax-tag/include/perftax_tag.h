/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks: a program says which message (request, packet, transaction) a thread works on, and `perftax trace record` listens.
 *
 *     perftax_begin(id);     the thread starts to work on message id
 *     perftax_switch(id);    it goes on with message id, which has begun already; 0: with none
 *     perftax_end(id);       message id is done
 *
 * What else may be said of a message that is under way:
 *
 *     perftax_child(id, parent);                     it is part of message parent, of whatever process
 *     perftax_name(id, "GET /cart");                 what it is called
 *     perftax_identity(id, high, low, span);         what others call it: a trace of 128 bits, a span of 64
 *     perftax_send(id); perftax_receive(id);         it goes to another process, comes from one
 *     perftax_carrier(n);                            the thread goes on with carrier n (a goroutine, a fibre; 0: with none), which
 *                                                    takes the messages along that were begun or switched to while it was on a thread
 *
 * perftax_send goes before the write, perftax_receive after the read: what is received was sent before, by whatever clock, and that is
 * what `perftax trace join` tells hosts' clocks apart by. A name (trace and span) belongs to one sender and one receiver: the one sends,
 * the other receives and may answer under the same name, once each. Whoever passes a message on to a third one, or sends it again, gives
 * it another span.
 *
 * ids are any numbers below 2^62 but 0, unique among the messages that are under way at one time. A message may begin in one thread
 * and end in another; between them `perftax_switch` says who works on it. Nested messages: the last begun or switched to is meant.
 *
 * `perftax trace record -p PID` may come and go while the program runs: it finds perftax_tag_state by its name, so a program that is to
 * be listened to later keeps its symbols (no strip, or -rdynamic).
 *
 * Where the listener asks for it (`perftax trace record --counters`), each mark also says how many instructions and cycles the thread has
 * had in user mode: the thread opens two counters on itself, maps their pages and reads them by RDPMC, without a system call. x86-64; where
 * they cannot be had the ring says why, and marks go on without. A filter of system calls that kills for perf_event_open kills then, too:
 * no listener asks it of a process that has one. A child that was made around pthread_atfork (_Fork, clone) must not mark meanwhile.
 *
 * Where nobody listens a mark is a load and a branch. Where somebody does, it is a time stamp and sixteen bytes in a ring of the
 * thread's own, without a system call; a full ring drops marks and counts them. Nothing here blocks, allocates from the heap or fails.
 *
 * C99 or C++11, GCC or Clang, Linux on x86-64 or AArch64. One header; any number of files may include it. Threads and fork are
 * fine: a child writes rings of its own. Link with -pthread where libc is older than glibc 2.34, and with -Wl,-z,nodelete what may be
 * unloaded (plugins): threads call it when they end.
 */
#ifndef PERFTAX_TAG_H
#define PERFTAX_TAG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a mark says. */
#define PERFTAX_BEGIN  1
#define PERFTAX_END    2
#define PERFTAX_SWITCH 3

/*
 * What is said beyond that takes several places of 16 bytes: a counter and a word whose lower two bits are 0, then what is said
 * (bits 2 to 7), how many places follow (8 to 15), and a number (16 to 63). Whoever reads goes by that; a ring that holds any has the
 * second magic.
 */
#define PERFTAX_SAYS_CHILD    1 /* one more: id, parent */
#define PERFTAX_SAYS_SEND     2 /* one more: id, 0 */
#define PERFTAX_SAYS_RECEIVE  3 /* one more: id, 0 */
#define PERFTAX_SAYS_IDENTITY 4 /* two more: id, span; the trace's high and low half */
#define PERFTAX_SAYS_NAME     5 /* one more: id, 0; then the text, of as many bytes as the number says */
#define PERFTAX_SAYS_CARRIER  6 /* one more: carrier, 0 */
#define PERFTAX_SAYS_COUNTS   7 /* one more: the thread's instructions and cycles in user mode; all ones: not known just then */

/* Bytes of a text that are kept. */
#define PERFTAX_NAME_LONGEST 1024

/* The file of a thread's ring: this, in its first page, then `capacity` marks. */
#define PERFTAX_RING_MAGIC   0x324b52414d585450ull /* "PTXMARK2"; before 2026-11-28 "PTXMARK1", which has marks alone */
#define PERFTAX_RING_HEADER  4096
struct perftax_mark_ring {
    uint64_t magic;
    uint32_t pid, tid;
    uint64_t capacity;       /* marks; a power of two */
    uint64_t began;          /* counter when it was made */
    uint8_t reserved[32];
    uint64_t head;           /* marks written; the program's */
    uint64_t dropped;        /* marks that found no room; the program's */
    uint64_t listener;       /* perftax_tag_state when it was made: whose it is */
    uint32_t counters;       /* PERFTAX_COUNTERS_READ …; 0: nobody asked for them */
    uint32_t counters_error; /* errno, where they were refused */
    uint8_t apart[32];
    uint64_t tail;           /* marks read; the listener's */
};

/* Whether marks come with counts. */
#define PERFTAX_COUNTERS_READ    1
#define PERFTAX_COUNTERS_REFUSED 2
/* In the folder of rings: the listener wants them. */
#define PERFTAX_COUNTERS_WANTED  "counters"

/* One mark: the time stamp counter (AArch64: the virtual counter), and id << 2 | kind. */
struct perftax_mark {
    uint64_t counter;
    uint64_t message;
};

/* 0: not asked yet whether anybody listens; 1: nobody; 2: whoever has started the program; above: one who came later, by number. */
extern __attribute__((weak, visibility("default"))) uint32_t perftax_tag_state;
uint32_t perftax_tag_state = 0;

/* Where rings are made. A listener who comes later writes this, then the state, into the program's memory. */
#define PERFTAX_TAG_PATH 256
extern __attribute__((weak, visibility("default"))) char perftax_tag_folder[PERFTAX_TAG_PATH];
char perftax_tag_folder[PERFTAX_TAG_PATH] = { 0 };

/* The thread's ring; none before its first mark. */
extern __attribute__((weak, visibility("default"))) __thread struct perftax_mark_ring *perftax_tag_ring;
__thread struct perftax_mark_ring *perftax_tag_ring = 0;

/* The pages of the thread's counters, instructions and cycles; none where marks come without them. */
struct perf_event_mmap_page;
extern __attribute__((weak, visibility("default"))) __thread volatile struct perf_event_mmap_page *perftax_tag_pages[2];
__thread volatile struct perf_event_mmap_page *perftax_tag_pages[2] = { 0, 0 };

/* The listener that could not be given a ring. */
extern __attribute__((weak, visibility("default"))) __thread uint32_t perftax_tag_refused;
__thread uint32_t perftax_tag_refused = 0;

/* Numbers that perftax_new_id has given out. */
extern __attribute__((weak, visibility("default"))) uint64_t perftax_tag_last_id;
uint64_t perftax_tag_last_id = 0;

#ifdef __cplusplus
}
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<linux/perf_event.h>)
#include <linux/perf_event.h>
#define PERFTAX_TAG_COUNTS 1
#endif
#endif

/* Folder in which rings are made; set by the listener for the programs that it starts. */
#define PERFTAX_TAG_FOLDER   "PERFTAX_MARKS"
/* Marks in a ring; the listener may ask for another power of two. */
#define PERFTAX_TAG_CAPACITY "PERFTAX_MARKS_CAPACITY"
#define PERFTAX_TAG_USUAL    65536

#if defined(__x86_64__)
static inline uint64_t perftax_tag_counter(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
static inline uint64_t perftax_tag_counter(void)
{
    uint64_t counter;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
}
#else
#error "perftax_tag.h knows x86-64 and AArch64"
#endif

#ifdef PERFTAX_TAG_COUNTS
static inline void perftax_tag_uncount(void)
{
    int i;

    for (i = 0; i < 2; i++) {
        if (perftax_tag_pages[i])
            munmap((void *)perftax_tag_pages[i], 4096);
        perftax_tag_pages[i] = 0;
    }
}

/*
 * A group of two on the thread itself, in user mode, pinned: it counts whenever the thread runs, or not at all. Descriptors are closed
 * again: the mappings keep the counters. 0, or errno.
 */
static __attribute__((noinline, cold, unused)) int perftax_tag_count(void)
{
    static const uint64_t events[2] = { PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES };
    int files[2] = { -1, -1 }, i, error = 0;

    for (i = 0; i < 2 && !error; i++) {
        struct perf_event_attr attr;
        void *page;

        memset(&attr, 0, sizeof attr);
        attr.size = PERF_ATTR_SIZE_VER0;
        attr.type = PERF_TYPE_HARDWARE;
        attr.config = events[i];
        attr.pinned = i == 0;
        attr.exclude_kernel = attr.exclude_hv = 1;
        files[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, files[0], PERF_FLAG_FD_CLOEXEC);
        if (files[i] < 0) {
            error = errno;
            break;
        }
        page = mmap(0, 4096, PROT_READ, MAP_SHARED, files[i], 0);
        if (page == MAP_FAILED)
            error = errno;
        else
            perftax_tag_pages[i] = (volatile struct perf_event_mmap_page *)page;
        if (!error && !perftax_tag_pages[i]->cap_user_rdpmc)
            error = EOPNOTSUPP;
    }
    for (i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (error)
        perftax_tag_uncount();
    return error;
}

/* What a counter has counted of the thread (struct perf_event_mmap_page in linux/perf_event.h says how); all ones where it does not count. */
static inline uint64_t perftax_tag_counted(volatile struct perf_event_mmap_page *page)
{
    uint32_t lock, index, low, high;
    uint64_t count;

    do {
        lock = page->lock;
        __asm__ volatile("" ::: "memory");
        index = page->index;
        count = (uint64_t)page->offset;
        if (index) {
            unsigned spare = 64u - page->pmc_width;

            __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
            count += (uint64_t)((int64_t)((uint64_t)high << 32 << spare | (uint64_t)low << spare) >> spare);
        }
        __asm__ volatile("" ::: "memory");
    } while (page->lock != lock);
    return index ? count : ~0ull;
}
#else
static inline void perftax_tag_uncount(void)
{
}

static inline int perftax_tag_count(void)
{
    return EOPNOTSUPP;
}
#endif

static inline size_t perftax_tag_bytes(uint64_t capacity)
{
    return PERFTAX_RING_HEADER + (size_t)capacity * sizeof(struct perftax_mark);
}

/*
 * The thread ends, or has another listener: the ring stays, as a file, for the one that it was made for. Each file that includes this
 * has a key of its own, and all of them may have been set: what counts is the thread's ring.
 */
static inline void perftax_tag_leave(void *any)
{
    struct perftax_mark_ring *ring = perftax_tag_ring;

    (void)any;
    /* First: a signal's handler may mark in between. */
    perftax_tag_ring = 0;
    perftax_tag_uncount();
    if (ring)
        munmap(ring, perftax_tag_bytes(ring->capacity));
}

/* Before the parent's rings are written to by a child, which has none of its parent's counters. */
static inline void perftax_tag_forked(void)
{
    perftax_tag_pages[0] = perftax_tag_pages[1] = 0;
    perftax_tag_ring = 0;
}

static pthread_key_t perftax_tag_key;
static pthread_once_t perftax_tag_once = PTHREAD_ONCE_INIT;

static inline void perftax_tag_ask(void)
{
    const char *folder = getenv(PERFTAX_TAG_FOLDER);
    uint32_t not_asked = 0, state = 1;
    int can = !pthread_key_create(&perftax_tag_key, perftax_tag_leave) && !pthread_atfork(0, 0, perftax_tag_forked);

    /* Somebody may have come already. */
    if (__atomic_load_n(&perftax_tag_state, __ATOMIC_ACQUIRE) != 0)
        return;
    if (can && folder && *folder && strlen(folder) < sizeof perftax_tag_folder) {
        strcpy(perftax_tag_folder, folder);
        state = 2;
    }
    __atomic_compare_exchange_n(&perftax_tag_state, &not_asked, state, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Makes the thread's ring; where it cannot, the thread says nothing to this listener. */
static __attribute__((noinline, cold, unused)) struct perftax_mark_ring *perftax_tag_join(void)
{
    const char *wanted = getenv(PERFTAX_TAG_CAPACITY);
    uint64_t capacity = wanted ? strtoull(wanted, 0, 10) : 0;
    struct perftax_mark_ring *ring = perftax_tag_ring;
    uint32_t state;
    char path[PERFTAX_TAG_PATH + 64];
    void *mapped = MAP_FAILED;
    int file, gone;

    pthread_once(&perftax_tag_once, perftax_tag_ask);
    if (ring)
        perftax_tag_leave(ring);
    state = __atomic_load_n(&perftax_tag_state, __ATOMIC_ACQUIRE);
    if (state < 2 || perftax_tag_refused == state)
        return 0;
    if (capacity < 64 || capacity > (1u << 26) || (capacity & (capacity - 1)))
        capacity = PERFTAX_TAG_USUAL;
    /* Two numbers of a thread: the second tells it from one that had the first before. */
    snprintf(path, sizeof path, "%s/%ld.%ld.%llx.marks", perftax_tag_folder, (long)getpid(), (long)syscall(SYS_gettid),
             (unsigned long long)perftax_tag_counter());
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    gone = file < 0 && errno == ENOENT;
    /* Room is made now: a full disk must not be a signal later. */
    if (file >= 0 && !posix_fallocate(file, 0, (off_t)perftax_tag_bytes(capacity)))
        mapped = mmap(0, perftax_tag_bytes(capacity), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (file >= 0)
        close(file);
    if (mapped == MAP_FAILED) {
        if (file >= 0)
            unlink(path);
        perftax_tag_refused = state;
        /* Without a folder there is no listener. */
        if (gone)
            __atomic_compare_exchange_n(&perftax_tag_state, &state, 1u, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return 0;
    }
    ring = (struct perftax_mark_ring *)mapped;
    ring->pid = (uint32_t)getpid();
    ring->tid = (uint32_t)syscall(SYS_gettid);
    ring->capacity = capacity;
    ring->began = perftax_tag_counter();
    ring->listener = state;
    snprintf(path, sizeof path, "%s/" PERFTAX_COUNTERS_WANTED, perftax_tag_folder);
    if (!access(path, F_OK)) {
        ring->counters_error = (uint32_t)perftax_tag_count();
        ring->counters = ring->counters_error ? PERFTAX_COUNTERS_REFUSED : PERFTAX_COUNTERS_READ;
    }
    __atomic_store_n(&ring->magic, PERFTAX_RING_MAGIC, __ATOMIC_RELEASE);
    perftax_tag_ring = ring;
    pthread_setspecific(perftax_tag_key, ring);
    return ring;
}

/* The thread's ring, for somebody who listens; none: nobody does, or there cannot be one. */
static inline struct perftax_mark_ring *perftax_tag_listened(void)
{
    uint32_t state = __atomic_load_n(&perftax_tag_state, __ATOMIC_RELAXED);
    struct perftax_mark_ring *ring;

    if (__builtin_expect(state == 1, 1)) {
        /* Whoever listened has gone: what was opened for them is given back. */
        if (__builtin_expect(perftax_tag_ring != 0, 0))
            perftax_tag_leave(0);
        return 0;
    }
    ring = perftax_tag_ring;
    if (__builtin_expect(!ring || ring->listener != state, 0))
        ring = perftax_tag_join();
    return ring;
}

/* What the thread has counted so far, as two places from `head` on. */
static inline void perftax_tag_put_counts(struct perftax_mark_ring *ring, uint64_t head, uint64_t counter)
{
#ifdef PERFTAX_TAG_COUNTS
    struct perftax_mark *marks = (struct perftax_mark *)((char *)ring + PERFTAX_RING_HEADER);
    struct perftax_mark *said = &marks[head & (ring->capacity - 1)], *counts = &marks[(head + 1) & (ring->capacity - 1)];

    counts->counter = perftax_tag_counted(perftax_tag_pages[0]);
    counts->message = perftax_tag_counted(perftax_tag_pages[1]);
    said->counter = counter;
    said->message = 1 << 8 | PERFTAX_SAYS_COUNTS << 2;
#else
    (void)ring, (void)head, (void)counter;
#endif
}

/* A mark with what the thread has counted, of the same time: all of it, or nothing where there is no room. */
static __attribute__((noinline, unused)) void perftax_tag_mark_counted(struct perftax_mark_ring *ring, uint64_t id, uint32_t kind)
{
    uint64_t head = ring->head, counter;
    struct perftax_mark *mark;

    if (__builtin_expect(head + 2 - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= ring->capacity, 0)) {
        ring->dropped++;
        return;
    }
    counter = perftax_tag_counter();
    perftax_tag_put_counts(ring, head, counter);
    mark = (struct perftax_mark *)((char *)ring + PERFTAX_RING_HEADER) + ((head + 2) & (ring->capacity - 1));
    mark->counter = counter;
    mark->message = id << 2 | kind;
    __atomic_store_n(&ring->head, head + 3, __ATOMIC_RELEASE);
}

static inline void perftax_tag_mark(uint64_t id, uint32_t kind)
{
    struct perftax_mark_ring *ring = perftax_tag_listened();
    struct perftax_mark *mark;
    uint64_t head;

    if (__builtin_expect(!ring, 1))
        return;
    if (__builtin_expect(ring->counters == PERFTAX_COUNTERS_READ, 0)) {
        perftax_tag_mark_counted(ring, id, kind);
        return;
    }
    head = ring->head;
    if (__builtin_expect(head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= ring->capacity, 0)) {
        ring->dropped++;
        return;
    }
    mark = (struct perftax_mark *)((char *)ring + PERFTAX_RING_HEADER) + (head & (ring->capacity - 1));
    mark->counter = perftax_tag_counter();
    mark->message = id << 2 | kind;
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
}

/* Something of several places: all of them, or none where there is no room. `text`: bytes that follow the words. */
static __attribute__((noinline, unused)) void perftax_tag_says(uint32_t what, const uint64_t *words, uint32_t pairs,
                                                               const char *text, uint32_t bytes)
{
    struct perftax_mark_ring *ring = perftax_tag_listened();
    uint32_t more = pairs + (bytes + 15) / 16, i;
    uint64_t head, counter;
    struct perftax_mark *marks, *mark;
    int counts;

    if (!ring)
        return;
    marks = (struct perftax_mark *)((char *)ring + PERFTAX_RING_HEADER);
    head = ring->head;
    /* Who goes on with another carrier is at other messages from there on. */
    counts = what == PERFTAX_SAYS_CARRIER && ring->counters == PERFTAX_COUNTERS_READ;
    if (head + more + 2 * (unsigned)counts - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= ring->capacity) {
        ring->dropped++;
        return;
    }
    counter = perftax_tag_counter();
    if (counts) {
        perftax_tag_put_counts(ring, head, counter);
        head += 2;
    }
    mark = &marks[head & (ring->capacity - 1)];
    mark->counter = counter;
    mark->message = (uint64_t)bytes << 16 | more << 8 | what << 2;
    for (i = 0; i < more; i++) {
        mark = &marks[(head + 1 + i) & (ring->capacity - 1)];
        if (i < pairs) {
            mark->counter = words[2 * i];
            mark->message = words[2 * i + 1];
        } else {
            uint32_t from = (i - pairs) * 16, left = bytes - from;

            mark->counter = mark->message = 0;
            memcpy(mark, text + from, left < 16 ? left : 16);
        }
    }
    __atomic_store_n(&ring->head, head + 1 + more, __ATOMIC_RELEASE);
}

static inline int perftax_tag_is_off(void)
{
    return __builtin_expect(__atomic_load_n(&perftax_tag_state, __ATOMIC_RELAXED) == 1, 1);
}

static inline void perftax_begin(uint64_t id)
{
    perftax_tag_mark(id, PERFTAX_BEGIN);
}

static inline void perftax_end(uint64_t id)
{
    perftax_tag_mark(id, PERFTAX_END);
}

static inline void perftax_switch(uint64_t id)
{
    perftax_tag_mark(id, PERFTAX_SWITCH);
}

static inline void perftax_child(uint64_t id, uint64_t parent)
{
    uint64_t words[2];

    if (perftax_tag_is_off())
        return;
    words[0] = id;
    words[1] = parent;
    perftax_tag_says(PERFTAX_SAYS_CHILD, words, 1, 0, 0);
}

/* Of `bytes` bytes, which need no NUL. */
static inline void perftax_name_of(uint64_t id, const char *name, size_t bytes)
{
    uint64_t words[2];

    if (perftax_tag_is_off())
        return;
    words[0] = id;
    words[1] = 0;
    perftax_tag_says(PERFTAX_SAYS_NAME, words, 1, name, bytes < PERFTAX_NAME_LONGEST ? (uint32_t)bytes : PERFTAX_NAME_LONGEST);
}

static inline void perftax_name(uint64_t id, const char *name)
{
    if (!perftax_tag_is_off())
        perftax_name_of(id, name, strlen(name));
}

static inline void perftax_identity(uint64_t id, uint64_t trace_high, uint64_t trace_low, uint64_t span)
{
    uint64_t words[4];

    if (perftax_tag_is_off())
        return;
    words[0] = id;
    words[1] = span;
    words[2] = trace_high;
    words[3] = trace_low;
    perftax_tag_says(PERFTAX_SAYS_IDENTITY, words, 2, 0, 0);
}

static inline void perftax_tag_one(uint32_t what, uint64_t id)
{
    uint64_t words[2];

    if (perftax_tag_is_off())
        return;
    words[0] = id;
    words[1] = 0;
    perftax_tag_says(what, words, 1, 0, 0);
}

static inline void perftax_send(uint64_t id)
{
    perftax_tag_one(PERFTAX_SAYS_SEND, id);
}

static inline void perftax_receive(uint64_t id)
{
    perftax_tag_one(PERFTAX_SAYS_RECEIVE, id);
}

static inline void perftax_carrier(uint64_t carrier)
{
    perftax_tag_one(PERFTAX_SAYS_CARRIER, carrier);
}

/* A number that no other process of this PID namespace gives a message while it and this process run, and that a double holds (2^53). */
static inline uint64_t perftax_new_id(void)
{
    uint64_t count = __atomic_add_fetch(&perftax_tag_last_id, 1, __ATOMIC_RELAXED);

    return ((uint64_t)getpid() & 0x3fffff) << 31 | (count & 0x7fffffff);
}

#endif
