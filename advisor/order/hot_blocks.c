#include "advisor/order/hot_blocks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The rows a block may have.  Hashes of blocks are random already, but for small ones of tests. */
static struct advisor_hot_block *
rows_of(struct advisor_hot_blocks *hottest, uint64_t hash, uint32_t ns)
{
    const uint64_t mixed = (hash ^ ((uint64_t)ns << 32)) * 0x9e3779b97f4a7c15u;
    const uint64_t set = (mixed >> 32) % (ADVISOR_HOT_BLOCKS_ROWS / ADVISOR_HOT_BLOCKS_WAYS);

    return &hottest->rows[set * ADVISOR_HOT_BLOCKS_WAYS];
}

static void
halve(struct advisor_hot_blocks *hottest, uint64_t now_ms)
{
    if (hottest->halved_ms == 0 || now_ms < hottest->halved_ms)
        hottest->halved_ms = now_ms;
    /* After a day nothing is left in any case. */
    for (unsigned i = 0; i < 64 && now_ms - hottest->halved_ms >= ADVISOR_HOT_BLOCKS_HALVE_MS;
         i++) {
        hottest->halved_ms += ADVISOR_HOT_BLOCKS_HALVE_MS;
        for (size_t row = 0; row < ADVISOR_HOT_BLOCKS_ROWS; row++) {
            hottest->rows[row].reads /= 2;
            hottest->rows[row].doubt /= 2;
        }
    }
    if (now_ms - hottest->halved_ms >= ADVISOR_HOT_BLOCKS_HALVE_MS)
        hottest->halved_ms = now_ms;
}

void
advisor_hot_blocks_add(struct advisor_hot_blocks *hottest, const struct advisor_hot_block *block,
                       uint64_t now_ms)
{
    struct advisor_hot_block *rows = rows_of(hottest, block->hash, block->ns);
    struct advisor_hot_block *least = &rows[0];

    halve(hottest, now_ms);
    for (size_t i = 0; i < ADVISOR_HOT_BLOCKS_WAYS; i++) {
        struct advisor_hot_block *row = &rows[i];

        if (row->reads > 0 && row->hash == block->hash && row->ns == block->ns) {
            const uint64_t reads = row->reads + block->reads;
            const uint64_t doubt = row->doubt;

            *row = *block; /* its parent may be known only now */
            row->reads = reads;
            row->doubt = doubt;
            return;
        }
        if (row->reads < least->reads)
            least = row;
    }
    {
        const uint64_t doubt = least->reads;

        *least = *block;
        least->reads += doubt;
        least->doubt = doubt;
    }
}

static int
by_reads(const void *left, const void *right)
{
    const struct advisor_hot_block *a = left;
    const struct advisor_hot_block *b = right;

    if (a->reads - a->doubt != b->reads - b->doubt)
        return a->reads - a->doubt > b->reads - b->doubt ? -1 : 1;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

size_t
advisor_hot_blocks_top(const struct advisor_hot_blocks *hottest, struct advisor_hot_block *out,
                       size_t capacity)
{
    struct advisor_hot_block sorted[ADVISOR_HOT_BLOCKS_ROWS];
    size_t count = 0;

    for (size_t i = 0; i < ADVISOR_HOT_BLOCKS_ROWS; i++)
        if (hottest->rows[i].reads > hottest->rows[i].doubt)
            sorted[count++] = hottest->rows[i];
    qsort(sorted, count, sizeof(sorted[0]), by_reads);
    if (count > capacity)
        count = capacity;
    memcpy(out, sorted, count * sizeof(*out));
    return count;
}
