#include "base/core/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t
kvt_random_next(uint64_t *state)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);

    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

uint64_t
kvt_random_below(uint64_t *state, uint64_t bound)
{
    uint64_t limit;
    uint64_t value;

    if (bound == 0)
        return 0;
    /* Values under (2^64 mod bound) would make the small results likelier: draw again. */
    limit = (0 - bound) % bound;
    do {
        value = kvt_random_next(state);
    } while (value < limit);
    return value % bound;
}

double
kvt_random_unit(uint64_t *state)
{
    return (double)(kvt_random_next(state) >> 11) * 0x1.0p-53;
}

void
kvt_random_system(void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort(); /* no generator: every nonce would be guessable */
        at += got;
        size -= (size_t)got;
    }
}
