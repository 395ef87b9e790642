/* passed PORT N: a client asks one process, at PORT, which asks another one, at PORT + 1, for each of N requests; each 10th of them waits for 3 ms there. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in at(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int listening(int port)
{
    const struct sockaddr_in address = at(port);
    const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) || listen(listener, 4))
        exit(3);
    return listener;
}

static int connected(int port)
{
    const struct sockaddr_in address = at(port);
    const int client = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    if (connect(client, (const struct sockaddr *)&address, sizeof address))
        exit(4);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return client;
}

static void ask(int connection, uint64_t *number)
{
    if (write(connection, number, sizeof *number) != sizeof *number || read(connection, number, sizeof *number) != sizeof *number)
        exit(5);
}

/* Serves one connection to its end; passes requests on, or answers them. */
static int serve(int listener, int next)
{
    const int connection = accept(listener, NULL, NULL);
    uint64_t number;

    while (read(connection, &number, sizeof number) == sizeof number) {
        if (next >= 0)
            ask(next, &number);
        else if (number % 10 == 0) {
            const struct timespec some = {0, 3000000};
            nanosleep(&some, NULL);
        }
        if (write(connection, &number, sizeof number) != sizeof number)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const int port = atoi(argv[1]), first = listening(port), second = listening(port + 1);
    const unsigned long n = strtoul(argv[2], NULL, 10);
    if (fork() == 0) {
        close(first);
        _exit(serve(second, -1));
    }
    if (fork() == 0) {
        close(second);
        _exit(serve(first, connected(port + 1)));
    }
    close(first);
    close(second);
    const int client = connected(port);
    for (uint64_t i = 1; i <= n; i++) {
        const struct timespec some = {0, 200000};
        uint64_t number = i;

        ask(client, &number);
        nanosleep(&some, NULL);
    }
    close(client);
    while (wait(NULL) > 0)
        ;
    return 0;
}
