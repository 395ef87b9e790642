/* A load that jumps by 20 every two seconds, of servers that take their turns in random order.
   Usage: redis-load SECONDS PORT...; a line a turn: server, requests a second, requests, median and 99th percentile of their time, ns. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
enum { SERVERS = 8, MOST = 20000 };
static int line[SERVERS], servers;
static long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static int by_size(const void *a, const void *b) { long long x = *(const long long *)a, y = *(const long long *)b; return (x > y) - (x < y); }
static void turn(int server, int rate)
{
    static long long took[MOST];
    char text[256];
    int count = 0;
    long long step = 1000000000LL / rate, next = now(), end = next + 2000000000LL;
    while (next < end && count < MOST) {
        struct timespec at = { next / 1000000000LL, next % 1000000000LL };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
        int length = count % 2 ? sprintf(text, "GET key:%d\r\n", rand() % 1000) : sprintf(text, "SET key:%d %064d\r\n", rand() % 1000, count);
        long long sent = now();
        if (write(line[server], text, length) != length || read(line[server], text, sizeof text) <= 0) { perror("redis"); exit(1); }
        took[count++] = now() - sent;
        /* Whoever is late does not hurry: the next turn has its time, too. */
        next += step * (1 + (now() - next) / step);
    }
    qsort(took, count, sizeof took[0], by_size);
    printf("%d %d %d %lld %lld\n", server, rate, count, took[count / 2], took[count * 99 / 100]);
    fflush(stdout);
}
int main(int words, char **word)
{
    long long end = now() + atoi(word[1]) * 1000000000LL;
    prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < SERVERS && i + 2 < words; i++) {
        servers = i + 1;
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(word[i + 2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int one = 1;
        line[i] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(line[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        /* One that has just been started listens soon. */
        for (int tries = 0; connect(line[i], (void *)&to, sizeof to); tries++) {
            if (tries == 500) { perror("connect"); return 1; }
            usleep(10000);
        }
    }
    while (now() < end) {
        int order[SERVERS];
        for (int i = 0; i < servers; i++) order[i] = i;
        for (int i = servers - 1; i > 0; i--) { int j = rand() % (i + 1), t = order[i]; order[i] = order[j]; order[j] = t; }
        for (int i = 0; i < servers; i++) { turn(order[i], 500); turn(order[i], 10000); }
    }
    return 0;
}
