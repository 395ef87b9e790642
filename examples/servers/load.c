/*
 * load PORT CLIENTS SECONDS USUAL RARE: so many clients on connections of their own to that port of this machine send USUAL again and again, each when the answer to the one before is
 * there, and RARE for every hundredth. An answer is as long as the first one to the same request. Prints a line for each of the two: how many were
 * answered, median and 99th percentile of their latency, microseconds. In requests \r and \n are written so.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000000
#define SILENCE_MS 200

static struct sockaddr_in address;
static char *requests[2];
static long lengths[2];
static double seconds;
static int count;

struct kept {
    long count;
    float *us;
};

struct client {
    pthread_t thread;
    struct kept kept[2];
};

static void check(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int connected(void)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    check(fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void ask(int fd, int kind)
{
    size_t length = strlen(requests[kind]);

    check(write(fd, requests[kind], length) != (ssize_t)length, "send");
}

/* Bytes of an answer: what comes until nothing does. */
static long learned(int kind)
{
    static char answer[1 << 20];
    int fd = connected();
    long length = 0;
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    ask(fd, kind);
    while (poll(&ready, 1, length ? SILENCE_MS : 10000) == 1) {
        ssize_t came = read(fd, answer, sizeof answer);

        check(came <= 0, "the connection was closed");
        length += came;
    }
    check(length == 0, "no answer");
    close(fd);
    return length;
}

static void *work(void *argument)
{
    static __thread char answer[1 << 16];
    struct client *client = argument;
    int fd = connected();
    double end = now() + seconds;

    for (long i = 1; now() < end; i++) {
        int kind = i % 100 == 0;
        struct kept *kept = &client->kept[kind];
        double sent = now();

        ask(fd, kind);
        for (long left = lengths[kind]; left > 0;) {
            ssize_t came = read(fd, answer, sizeof answer < (size_t)left ? sizeof answer : (size_t)left);

            check(came <= 0, "the connection was closed");
            left -= came;
        }
        if (kept->count == MOST / count)
            break;
        kept->us[kept->count++] = 1e6 * (now() - sent);
    }
    close(fd);
    return argument;
}

static int order(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* \r and \n, as they are written. */
static char *unescaped(const char *text)
{
    char *out = malloc(strlen(text) + 1), *to = out;

    for (; *text; text++)
        if (text[0] == '\\' && (text[1] == 'r' || text[1] == 'n'))
            *to++ = *++text == 'r' ? '\r' : '\n';
        else
            *to++ = *text;
    *to = 0;
    return out;
}

int main(int words, char **word)
{
    struct client *clients;

    count = words == 6 ? atoi(word[2]) : 0;
    if (count < 1) {
        fprintf(stderr, "load PORT CLIENTS SECONDS USUAL RARE\n");
        return 2;
    }
    clients = calloc(count, sizeof *clients);
    address = (struct sockaddr_in){ AF_INET, htons(atoi(word[1])), { htonl(INADDR_LOOPBACK) }, { 0 } };
    seconds = atof(word[3]);
    for (int kind = 0; kind < 2; kind++) {
        requests[kind] = unescaped(word[4 + kind]);
        lengths[kind] = learned(kind);
    }
    for (int i = 0; i < count; i++) {
        for (int kind = 0; kind < 2; kind++)
            check(!(clients[i].kept[kind].us = malloc(MOST / count * sizeof(float))), "memory");
        check(pthread_create(&clients[i].thread, 0, work, &clients[i]), "thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(clients[i].thread, 0);
    for (int kind = 0; kind < 2; kind++) {
        float *all = malloc(MOST * sizeof(float));
        long n = 0;

        for (int i = 0; i < count; i++) {
            memcpy(all + n, clients[i].kept[kind].us, clients[i].kept[kind].count * sizeof(float));
            n += clients[i].kept[kind].count;
        }
        qsort(all, n, sizeof *all, order);
        printf("%ld %.1f %.1f\n", n, n ? all[n / 2] : 0, n ? all[n * 99 / 100] : 0);
    }
    return 0;
}
