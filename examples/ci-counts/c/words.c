/* Counts the words of a text, sorts them by how often they come, and hashes the table: parsing, sorting and hashing by the C library's means. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096

struct word {
    char text[32];
    unsigned count;
};

static struct word table[SLOTS];

/* FNV-1a, 32 bits. */
__attribute__((noinline)) static uint32_t hash(const char *text) {
    uint32_t sum = 2166136261u;
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 16777619u;
#ifdef ONE_MORE
    __asm__ volatile("nop");
#endif
    return sum;
}

__attribute__((noinline)) static void count(const char *text) {
    uint32_t slot = hash(text) % SLOTS;
    while (table[slot].count && strcmp(table[slot].text, text))
        slot = (slot + 1) % SLOTS;
    if (!table[slot].count++)
        strcpy(table[slot].text, text);
}

static int by_count(const void *a, const void *b) {
    const struct word *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    if (!file) {
        perror(argv[1]);
        return 1;
    }
    char text[32];
    unsigned length = 0, words = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (isalpha(c)) {
            if (length < sizeof text - 1)
                text[length++] = (char)tolower(c);
        } else if (length) {
            text[length] = 0;
            count(text);
            words++;
            length = 0;
        }
    }
    qsort(table, SLOTS, sizeof *table, by_count);
    printf("%u words; most often:", words);
    for (int i = 0; i < 5 && table[i].count; i++)
        printf(" %s %u", table[i].text, table[i].count);
    putchar('\n');
    return 0;
}
