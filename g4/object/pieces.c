#include "g4/object/pieces.h"

#include <assert.h>
#include <string.h>

#include "g4/object/check.h"

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

void
g4_pieces_begin(struct g4_pieces_feed *feed, uint64_t size)
{
    *feed = (struct g4_pieces_feed){.pieces = {.shift = G4_PIECES_SHIFT_MIN}, .size = size};
    while (size > (uint64_t)g4_pieces_size(&feed->pieces) * G4_PIECES_MAX)
        feed->pieces.shift++;
    assert(feed->pieces.shift <= G4_PIECES_SHIFT_MAX);
}

void
g4_pieces_take(struct g4_pieces_feed *feed, const void *bytes, size_t size)
{
    struct g4_pieces *pieces = &feed->pieces;
    const uint8_t *at = bytes;

    if (pieces->shift == 0)
        return;
    while (size > 0 && feed->done < feed->size) {
        const uint64_t number = feed->done >> pieces->shift;
        const uint64_t end =
            (number << pieces->shift) + g4_pieces_length(pieces, feed->size, number);
        const size_t step = end - feed->done < size ? (size_t)(end - feed->done) : size;

        pieces->crc32c[number] = g4_check_crc32c_more(pieces->crc32c[number], at, step);
        feed->done += step;
        at += step;
        size -= step;
    }
    feed->done += size; /* more than were to come: then it is no such body */
}

bool
g4_pieces_end(const struct g4_pieces_feed *feed, uint64_t size, uint32_t *crc32c)
{
    const bool whole = feed->pieces.shift != 0 && feed->size == size && feed->done == size;

    *crc32c = whole ? join(&feed->pieces, size) : 0;
    return whole;
}

uint32_t
g4_pieces_describe(struct g4_pieces *pieces, const void *body, size_t size)
{
    struct g4_pieces_feed feed;
    uint32_t crc32c;

    g4_pieces_begin(&feed, size);
    g4_pieces_take(&feed, body, size);
    (void)g4_pieces_end(&feed, size, &crc32c);
    *pieces = feed.pieces;
    return crc32c;
}

bool
g4_pieces_fit(const struct g4_pieces *pieces, uint64_t size, uint32_t crc32c)
{
    return pieces->shift >= G4_PIECES_SHIFT_MIN && pieces->shift <= G4_PIECES_SHIFT_MAX &&
           size <= (uint64_t)G4_PIECES_MAX << pieces->shift && join(pieces, size) == crc32c;
}
