/* A loop of six instructions that runs three million times: gcc -O1 -g -o sum sum.c. */
int main(void)
{
    volatile long sum = 0;
    for (long i = 0; i < 3000000; i++)
        sum += i;
    return 0;
}
