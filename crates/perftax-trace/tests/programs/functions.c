/*
 * functions PAIRS: requests are begun and finished in pairs, of which both are under way at once; every tenth pair's second one is never finished. Then handle() is called so
 * often, which calls itself up to twice.
 */
#include <stdio.h>
#include <stdlib.h>

struct request {
    long pad[2];
    unsigned number;
};

static volatile unsigned seen;

static void work(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

__attribute__((noinline)) void begin(struct request *request)
{
    seen += request->number;
}

__attribute__((noinline)) void finish(int code, struct request *request)
{
    seen += request->number + code;
}

__attribute__((noinline)) unsigned handle(unsigned depth)
{
    work(500);
    return depth == 0 ? 1 : handle(depth - 1) + 1;
}

int main(int words, char **word)
{
    static struct request first, second;
    long pairs = words > 1 ? atol(word[1]) : 1000;
    for (long i = 0; i < pairs; i++) {
        first.number = 2 * i;
        second.number = 2 * i + 1;
        begin(&first);
        begin(&second);
        work(2000);
        finish(0, &first);
        if (i % 10 != 9)
            finish(0, &second);
    }
    for (long i = 0; i < pairs; i++)
        seen += handle(i % 3);
    return seen == 0xffffffff;
}
