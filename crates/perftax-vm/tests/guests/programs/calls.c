/* main calls outer, which calls middle, which calls leaf twice: a loop of as many turns as the second argument says. */
#include <stdlib.h>

static volatile int sink;

__attribute__((noinline)) void leaf(int turns) {
    for (int i = 0; i < turns; i++)
        sink += i;
}

__attribute__((noinline)) void middle(int turns) {
    leaf(turns);
    sink++;
    leaf(turns);
    sink++;
}

__attribute__((noinline)) void outer(int turns) {
    middle(turns);
    sink++;
}

int main(int argc, char **argv) {
    for (int i = 0; i < atoi(argv[1]); i++)
        outer(atoi(argv[argc - 1]));
    return 0;
}
