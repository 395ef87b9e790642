/* A fixed amount of work without system calls: loads, stores, calls and branches, some of them hard to predict. */

static unsigned long table[512];

__attribute__((noinline)) static unsigned long step(unsigned long state, unsigned long i)
{
    unsigned long at = (state >> 40) % 512;
    if (state & 1UL << 33)
        table[at] += i;
    else
        table[at] ^= state;
    return state * 6364136223846793005UL + table[(at + 7) % 512] + 1442695040888963407UL;
}

int main(void)
{
    unsigned long state = 1;
    for (unsigned long i = 0; i < 1000000; i++)
        state = step(state, i);
    return state == 0;
}
