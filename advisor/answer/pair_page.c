#include "advisor/answer/pair_page.h"

#include "base/core/alloc.h"

static void
add_pair(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct advisor_pairs *pairs = arg;

    void *more = kvt_grow(pairs->rows, &pairs->capacity, pairs->count + 1, sizeof(*pairs->rows));

    if (more == NULL) {
        pairs->failed = true;
        return;
    }
    pairs->rows = more;
    pairs->rows[pairs->count++] = (struct advisor_pair){*block, ns, holder};
}

enum kvt_err
advisor_pairs_take(struct advisor_pairs *pairs, struct index *index, uint64_t cursor, size_t max,
                   uint64_t *next)
{
    *next = index_walk(index, cursor, max, add_pair, pairs);
    return pairs->failed ? KVT_NOMEM : KVT_OK;
}

void
advisor_pairs_release(struct advisor_pairs *pairs)
{
    kvt_free(pairs->rows);
    *pairs = (struct advisor_pairs){0};
}
