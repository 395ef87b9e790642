/* Threads that share memory in a way that is known: the microbenchmark of `perftax comm`.
 *
 *     sharing KIND FRACTION THREADS OPERATIONS
 *
 * Each of THREADS threads does OPERATIONS operations. A share FRACTION (0 to 1) of them, drawn at random, touches what others touch, too;
 * the others store to 16 lines of the thread's own. KIND says what a shared operation is:
 *
 *     true               a store to one of four words, each in a line of its own, that all threads store to
 *     false              a store to a word that is the thread's own, in a line with seven other threads' words
 *     mixed              half of the one, half of the other
 *     read-write         thread 0 stores to one of four words, the others load one
 *     producer-consumer  threads in pairs: one fills a line and says so, the other waits for it and reads all of it
 *     lock               a mutex, two words that it protects, and the mutex again
 *     ring               threads in pairs: a queue of 64 lines between them
 *
 * In the last three the threads of a pair wait for each other, yielding.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, WORDS = 8, MOST_THREADS = 256, SLOTS = 64, OWN_LINES = 16 };

typedef struct {
    _Alignas(LINE) volatile uint64_t word[WORDS];
} line;

/* What threads share. */
static line common[4];
static line apart[MOST_THREADS / WORDS];
static line mailbox[MOST_THREADS / 2];
static struct {
    _Alignas(LINE) atomic_int full;
} flag[MOST_THREADS / 2];
static line slots[MOST_THREADS / 2][SLOTS];
static struct {
    _Alignas(LINE) atomic_ulong head;
    _Alignas(LINE) atomic_ulong tail;
} ring[MOST_THREADS / 2];
static _Alignas(LINE) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static line protected[2];
/* What they do not. */
static line own[MOST_THREADS][OWN_LINES];

static int kind;
static uint32_t threshold;
static unsigned long operations;
static int threads;
static pthread_barrier_t start;

static const char *const kinds[] = { "true", "false", "mixed", "read-write", "producer-consumer", "lock", "ring" };

static uint32_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

static void to_common(uint32_t random)
{
    common[random % 4].word[1] = random;
}

static void to_apart(int me, uint32_t random)
{
    apart[me / WORDS].word[me % WORDS] = random;
}

static void through_mailbox(int me)
{
    int pair = me / 2;
    uint64_t sum = 0;
    if (me % 2 == 0) {
        while (atomic_load(&flag[pair].full))
            sched_yield();
        for (int i = 0; i < WORDS; i++)
            mailbox[pair].word[i] = i;
        atomic_store(&flag[pair].full, 1);
    } else {
        while (!atomic_load(&flag[pair].full))
            sched_yield();
        for (int i = 0; i < WORDS; i++)
            sum += mailbox[pair].word[i];
        atomic_store(&flag[pair].full, 0);
    }
}

static void under_lock(uint32_t random)
{
    pthread_mutex_lock(&mutex);
    protected[0].word[0] += random;
    protected[1].word[0] += random;
    pthread_mutex_unlock(&mutex);
}

static void through_ring(int me)
{
    int pair = me / 2;
    uint64_t sum = 0;
    if (me % 2 == 0) {
        unsigned long head = atomic_load(&ring[pair].head);
        while (head - atomic_load(&ring[pair].tail) == SLOTS)
            sched_yield();
        for (int i = 0; i < WORDS; i++)
            slots[pair][head % SLOTS].word[i] = i;
        atomic_store(&ring[pair].head, head + 1);
    } else {
        unsigned long tail = atomic_load(&ring[pair].tail);
        while (atomic_load(&ring[pair].head) == tail)
            sched_yield();
        for (int i = 0; i < WORDS; i++)
            sum += slots[pair][tail % SLOTS].word[i];
        atomic_store(&ring[pair].tail, tail + 1);
    }
}

static void shared(int me, uint32_t random)
{
    switch (kind) {
    case 0:
        to_common(random);
        break;
    case 1:
        to_apart(me, random);
        break;
    case 2:
        if (random & 1 << 16)
            to_common(random);
        else
            to_apart(me, random);
        break;
    case 3:
        if (me == 0)
            to_common(random);
        else
            (void)common[random % 4].word[1];
        break;
    case 4:
        through_mailbox(me);
        break;
    case 5:
        under_lock(random);
        break;
    default:
        through_ring(me);
    }
}

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    /* Both of a pair draw alike: as many are filled as are read. */
    uint64_t choice = 88172645463325252ull + (kind == 4 || kind == 6 ? me / 2 : me) * 7919ull;
    uint64_t place = 362436069ull + me * 104729ull;
    pthread_barrier_wait(&start);
    for (unsigned long i = 0; i < operations; i++) {
        uint32_t random = draw(&place);
        if (draw(&choice) < threshold)
            shared(me, random);
        else
            own[me][random % OWN_LINES].word[random / OWN_LINES % WORDS] = random;
    }
    return NULL;
}

static int usage(void)
{
    fputs("usage: sharing KIND FRACTION THREADS OPERATIONS\n"
          "KIND: true, false, mixed, read-write, producer-consumer, lock, ring\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return usage();
    int count = sizeof kinds / sizeof *kinds;
    for (kind = 0; kind < count && strcmp(argv[1], kinds[kind]); kind++)
        ;
    double fraction = atof(argv[2]);
    threads = atoi(argv[3]);
    operations = strtoul(argv[4], NULL, 10);
    int in_pairs = kind == 4 || kind == 6;
    if (kind == count || fraction < 0 || fraction > 1 || threads < 1 || threads > MOST_THREADS || (in_pairs && threads % 2))
        return usage();
    threshold = fraction >= 1 ? UINT32_MAX : (uint32_t)(fraction * 4294967296.0);
    pthread_barrier_init(&start, NULL, threads);
    pthread_t all[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, (void *)(intptr_t)i))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return 0;
}
