/* relay N: messages that a process passes on to another one, which answers; each 10th of them waits for 3 ms there. N messages, or, with 0, until it is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

static void rest(long ns)
{
    const struct timespec some = {0, ns};
    nanosleep(&some, NULL);
}

static int back(int asked)
{
    uint64_t id;

    while (read(asked, &id, sizeof id) == sizeof id) {
        perftax_receive(id);
        perftax_begin(id);
        perftax_identity(id, 7, 7, id);
        if (id % 10 == 0)
            rest(3000000);
        perftax_send(id);
        perftax_end(id);
        if (write(asked, &id, sizeof id) != sizeof id)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int both[2];
    const unsigned long n = argc == 2 ? strtoul(argv[1], NULL, 10) : 1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both))
        return 1;
    const pid_t child = fork();
    if (child == 0) {
        close(both[0]);
        _exit(back(both[1]));
    }
    close(both[1]);
    for (uint64_t id = 1; n == 0 || id <= n; id++) {
        uint64_t answer;

        perftax_begin(id);
        perftax_name(id, id % 10 ? "soon" : "late");
        perftax_identity(id, 7, 7, id);
        perftax_send(id);
        if (write(both[0], &id, sizeof id) != sizeof id || read(both[0], &answer, sizeof answer) != sizeof answer)
            return 1;
        perftax_receive(id);
        perftax_end(id);
        rest(200000);
    }
    close(both[0]);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
