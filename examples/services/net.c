/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* net PORT HOST PORT WHERE: a network between two services: it passes frames on, and holds up those that are for it. A thread a connection; perftax does not see it. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

static struct sockaddr_in to = {.sin_family = AF_INET};
static uint32_t own;

static int whole(int from, void *bytes, size_t size)
{
    return recv(from, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

static void *pass(void *connection)
{
    const int near = (int)(intptr_t)connection, far = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct frame frame;

    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(far, (struct sockaddr *)&to, sizeof to)) {
        perror("net: connect");
        exit(1);
    }
    while (whole(near, &frame, sizeof frame)) {
        if (frame.where == own) {
            const struct timespec delay = {0, frame.delay_us * 1000L};
            nanosleep(&delay, NULL);
        }
        if (send(far, &frame, sizeof frame, 0) != sizeof frame || !whole(far, &frame, sizeof frame) ||
            send(near, &frame, sizeof frame, 0) != sizeof frame)
            break;
    }
    close(near);
    close(far);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    const int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    if (argc != 5)
        return 2;
    at.sin_port = htons((uint16_t)atoi(argv[1]));
    to.sin_port = htons((uint16_t)atoi(argv[3]));
    own = (uint32_t)atoi(argv[4]);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1 || bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 64)) {
        perror("net");
        return 1;
    }
    for (;;) {
        pthread_t thread;
        const int connection = accept(listening, NULL, NULL);

        if (connection < 0 || pthread_create(&thread, NULL, pass, (void *)(intptr_t)connection))
            return 1;
        pthread_detach(thread);
    }
}
