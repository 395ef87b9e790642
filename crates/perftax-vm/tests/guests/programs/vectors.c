/* vectors ROUNDS LINES: two threads store through LINES lines in turn, by vectors of 16 bytes, ROUNDS times in all. Each line is fetched by a
 * store alone, the first of its four; nobody loads any.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define MOST_LINES 4096
#define VECTORS_A_LINE 4

typedef uint64_t vector __attribute__((vector_size(16)));

static volatile vector buffer[MOST_LINES * VECTORS_A_LINE] __attribute__((aligned(64)));
static _Atomic unsigned turn __attribute__((aligned(64)));
static unsigned rounds, lines;

static void *work(void *argument)
{
    for (unsigned round = (unsigned)(uintptr_t)argument; round < rounds; round += 2) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != round)
            __builtin_ia32_pause();
        for (unsigned i = 0; i < lines * VECTORS_A_LINE; i++)
            buffer[i] = (vector){ round, i };
        atomic_store_explicit(&turn, round + 1, memory_order_release);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[2];

    if (count != 3)
        return 2;
    rounds = (unsigned)atoi(arguments[1]);
    lines = (unsigned)atoi(arguments[2]) % (MOST_LINES + 1);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
