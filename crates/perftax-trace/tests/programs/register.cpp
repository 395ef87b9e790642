// register.c's header in C++: the tag outlives an exception, and a guest gives r13 back.
#include <cstdio>

#include "perftax_tag_register.h"

static void guest(uint64_t id, bool throws)
{
    PERFTAX_REGISTER_GUEST;
    perftax_register_begin(id);
    if (throws)
        throw id;
}

int main()
{
    perftax_register_begin(7);
    guest(8, false);
    if (perftax_register_message() != 7)
        return 1;
    try {
        guest(9, true);
    } catch (uint64_t id) {
        if (id != 9 || perftax_register_message() != 7)
            return 2;
    }
    perftax_register_end();
    return perftax_register_message() == 0 && perftax_register_word() >> 48 == PERFTAX_REGISTER_MAGIC ? 0 : 3;
}
