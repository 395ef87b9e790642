/* Uses an eighth of a second of CPU time. */
#include <time.h>

int main(void)
{
    while (clock() < CLOCKS_PER_SEC / 8)
        ;
    return 0;
}
