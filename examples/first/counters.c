/* Two threads that count, each for itself, in one cache line: gcc -O1 -g -pthread -o counters counters.c. With an argument each counter has a line of its own. */
#include <pthread.h>
#include <stdio.h>

struct counter { volatile long count; };
static struct counter together[2] __attribute__((aligned(64)));
static struct { struct counter counter; char pad[56]; } apart[2] __attribute__((aligned(64)));

static void *count(void *which)
{
    struct counter *counter = which;
    for (long i = 0; i < 20000000; i++)
        counter->count++;
    return NULL;
}

int main(int words, char **word)
{
    (void)word;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, words > 1 ? &apart[i].counter : &together[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", together[0].count + together[1].count + apart[0].counter.count + apart[1].counter.count);
    return 0;
}
