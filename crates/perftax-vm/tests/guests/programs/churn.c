// Creates threads (or processes) one after the other, each waited for, and says how many nanoseconds one took: churn thread|fork COUNT TURNS.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long done;

static void *work(void *turns)
{
    for (long i = 0; i < (long)turns; i++)
        done++;
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    long times = atol(words[2]);
    void *turns = (void *)atol(words[3]);
    double began = now();
    for (long i = 0; i < times; i++) {
        pthread_t thread;
        int status = 0;
        if (!strcmp(words[1], "thread")) {
            if (pthread_create(&thread, 0, work, turns) || pthread_join(thread, 0))
                return 1;
            continue;
        }
        pid_t child = fork();
        if (child == 0) {
            work(turns);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return 1;
    }
    fprintf(stderr, "each %.0f\n", (now() - began) / times);
    return 0;
}
