#include "g4/pieces.h"

#include <assert.h>
#include <string.h>

#include "g4/check.h"

size_t
g4_pieces_size(const struct g4_pieces *pieces)
{
    return (size_t)1 << pieces->shift;
}

size_t
g4_pieces_length(const struct g4_pieces *pieces, uint64_t size, uint64_t number)
{
    const uint64_t begin = number << pieces->shift;
    const size_t most = g4_pieces_size(pieces);

    if (number >= G4_PIECES_MAX || begin >= size)
        return 0;
    return size - begin < most ? (size_t)(size - begin) : most;
}

/* The crc of all pieces behind each other. */
static uint32_t
join(const struct g4_pieces *pieces, uint64_t size)
{
    const uint64_t last = size == 0 ? 0 : (size - 1) >> pieces->shift;
    const uint32_t whole = g4_check_crc32c_shift(g4_pieces_size(pieces));
    uint32_t crc = 0;

    for (uint64_t i = 0; i < last; i++)
        crc = g4_check_crc32c_join(crc, pieces->crc32c[i], whole);
    if (size == 0)
        return 0;
    return g4_check_crc32c_join(crc, pieces->crc32c[last],
                                g4_check_crc32c_shift(g4_pieces_length(pieces, size, last)));
}

uint32_t
g4_pieces_describe(struct g4_pieces *pieces, const void *body, size_t size)
{
    memset(pieces, 0, sizeof(*pieces));
    pieces->shift = G4_PIECES_SHIFT_MIN;
    while (size > g4_pieces_size(pieces) * G4_PIECES_MAX)
        pieces->shift++;
    assert(pieces->shift <= G4_PIECES_SHIFT_MAX);
    for (size_t i = 0; g4_pieces_length(pieces, size, i) > 0; i++)
        pieces->crc32c[i] = g4_check_crc32c((const uint8_t *)body + (i << pieces->shift),
                                            g4_pieces_length(pieces, size, i));
    return join(pieces, size);
}

bool
g4_pieces_fit(const struct g4_pieces *pieces, uint64_t size, uint32_t crc32c)
{
    return pieces->shift >= G4_PIECES_SHIFT_MIN && pieces->shift <= G4_PIECES_SHIFT_MAX &&
           size <= (uint64_t)G4_PIECES_MAX << pieces->shift && join(pieces, size) == crc32c;
}
