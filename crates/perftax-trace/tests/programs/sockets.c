/*
 * sockets PORT CLIENTS REQUESTS [AT_ONCE]: a thread serves that port by epoll, one read at a time; so many clients send so many requests each, one when the answer to the one before is
 * there, or so many at once. Every fiftieth request is answered after 3 ms; answers are written in two parts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BYTES 32

static struct sockaddr_in address;
static int requests, at_once = 1, clients;

static void check(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static void *client(void *unused)
{
    static const char request[BYTES * 64];
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    check(fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int sent = 0; sent < requests; sent += at_once) {
        char answer[BYTES];

        check(write(fd, request, BYTES * at_once) != BYTES * at_once, "send");
        for (long wanted = (long)BYTES * at_once; wanted > 0;) {
            ssize_t came = read(fd, answer, wanted < BYTES ? wanted : BYTES);

            check(came <= 0, "receive");
            wanted -= came;
        }
    }
    close(fd);
    return unused;
}

int main(int words, char **word)
{
    int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0), polling = epoll_create1(0), open = 0, seen = 0;
    struct epoll_event event = { EPOLLIN, { .fd = listening } };

    check(words < 4, "sockets PORT CLIENTS REQUESTS [AT_ONCE]");
    address = (struct sockaddr_in){ AF_INET, htons(atoi(word[1])), { htonl(INADDR_LOOPBACK) }, { 0 } };
    clients = atoi(word[2]);
    requests = atoi(word[3]);
    if (words > 4)
        at_once = atoi(word[4]);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 64), "listen");
    epoll_ctl(polling, EPOLL_CTL_ADD, listening, &event);
    for (int i = 0; i < clients; i++) {
        pthread_t thread;

        check(pthread_create(&thread, 0, client, 0), "thread");
        pthread_detach(thread);
    }
    for (int served = 0; served < clients || open > 0;) {
        struct epoll_event ready[16];
        int count = epoll_wait(polling, ready, 16, -1);

        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            char request[BYTES];

            if (fd == listening) {
                event.data.fd = accept(listening, 0, 0);
                check(event.data.fd < 0, "accept");
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(polling, EPOLL_CTL_ADD, event.data.fd, &event);
                served++;
                open++;
                continue;
            }
            if (read(fd, request, BYTES) <= 0) {
                close(fd);
                open--;
                continue;
            }
            if (++seen % 50 == 0) {
                struct timespec pause = { 0, 3000000 };

                nanosleep(&pause, 0);
            }
            check(write(fd, request, 8) != 8 || write(fd, request, BYTES - 8) != BYTES - 8, "answer");
        }
    }
    return 0;
}
