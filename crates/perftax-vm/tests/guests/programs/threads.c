/* Four threads that share a lock, and a timer's signals. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

static volatile int ticks;
static int total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void tick(int signal) { ticks += signal == SIGALRM; }

static void *work(void *by) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        total += (int)(long)by;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    struct itimerval every = {{0, 1000}, {0, 1000}};
    pthread_t threads[4];
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", total);
    return total != 2000;
}
