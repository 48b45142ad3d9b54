#include "advisor/answer/finder_private.h"
#include "advisor/answer/pair_page.h"
#include "advisor/index/evicted.h"
#include "base/core/alloc.h"

/* All places: RAM's, then those that were evicted from it and are not there any more.  A cursor
 * with this bit is a hash of evicted blocks, without its lowest bit. */
#define COLD_CURSOR (UINT64_C(1) << 63)

static struct advisor_evicted *
cold_of(const struct advisor_finder *finder)
{
    struct advisor_evicted *cold = finder->memory->cold;

    return cold != NULL && advisor_evicted_count(cold) > 0 ? cold : NULL;
}

/* ---- RAM ---- */

static enum kvt_err
ram_rows(const struct advisor_finder *finder, uint64_t cursor, size_t max, uint64_t *next,
         advisor_finder_row_fn *callback, void *arg)
{
    struct index *index = finder->memory->index;
    struct advisor_pairs pairs = {0};
    enum kvt_err rc = advisor_pairs_take(&pairs, index, cursor, max, next);

    for (size_t i = 0; i < pairs.count && rc == KVT_OK; i++) {
        struct advisor_finder_row row = {.block = pairs.rows[i].block};

        index_namespace_name(index, pairs.rows[i].ns, row.namespace_);
        index_holder_info(index, pairs.rows[i].holder, &row.holder, NULL, NULL);
        if (cold_of(finder) != NULL)
            rc = advisor_finder_evicted_ranks(finder, row.namespace_, row.block.id.hash,
                                              &row.holder, &row.block.ranks);
        if (rc == KVT_OK)
            callback(arg, &row);
    }
    advisor_pairs_release(&pairs);
    return rc;
}

/* ---- evicted ---- */

struct cold_walk {
    const struct advisor_txn *txn;
    struct index *index;
    advisor_finder_row_fn *callback;
    void *arg;
    struct index_place *places; /* of one block in RAM */
    size_t capacity;
};

static enum kvt_err
read_ram(struct cold_walk *walk, const struct advisor_finder_row *row, size_t *count)
{
    uint32_t ns;

    *count = 0;
    if (index_namespace_find(walk->index, row->namespace_, &ns) != KVT_OK)
        return KVT_OK;
    for (;;) {
        void *more;

        *count = index_places(walk->index, ns, row->block.id.hash, walk->places, walk->capacity);
        if (*count <= walk->capacity)
            return KVT_OK;
        more = kvt_realloc(walk->places, *count, sizeof(*walk->places));
        if (more == NULL)
            return KVT_NOMEM;
        walk->places = more;
        walk->capacity = *count;
    }
}

static bool
in_ram(const struct cold_walk *walk, size_t count, const struct index_holder *holder)
{
    for (size_t i = 0; i < count; i++) {
        struct index_holder key;

        index_holder_info(walk->index, walk->places[i].holder, &key, NULL, NULL);
        if (advisor_finder_same_holder(&key, holder))
            return true;
    }
    return false;
}

static enum kvt_err
cold_row(void *arg, const struct advisor_store_block *block)
{
    struct cold_walk *walk = arg;
    struct advisor_finder_row row = {
        .block = {.id = {.hash = block->hash, .parent = block->parent, .position = block->position},
                  .tokens_hash = block->tokens_hash,
                  .size = block->size},
    };
    size_t count;
    enum kvt_err rc = advisor_store_namespace(walk->txn, block->ns, row.namespace_);

    if (rc == KVT_OK)
        rc = read_ram(walk, &row, &count);
    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        row.block.ranks = block->places[i].ranks;
        rc = advisor_store_holder(walk->txn, block->places[i].holder, &row.holder);
        if (rc == KVT_OK && !in_ram(walk, count, &row.holder))
            walk->callback(walk->arg, &row);
    }
    return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
}

static enum kvt_err
cold_rows(const struct advisor_finder *finder, uint64_t cursor, size_t max, uint64_t *next,
          advisor_finder_row_fn *callback, void *arg)
{
    struct advisor_txn txn;
    struct cold_walk walk = {
        .txn = &txn, .index = finder->memory->index, .callback = callback, .arg = arg};
    uint64_t from = cursor << 1;
    enum kvt_err rc = advisor_store_read(finder->store, &txn, NULL);

    if (rc != KVT_OK)
        return rc;
    /* Two hashes that differ in the bit a cursor lacks are of one page. */
    do
        rc = advisor_evicted_blocks(&txn, from, max, &from, cold_row, &walk);
    while (rc == KVT_OK && from != 0 && (from >> 1 | COLD_CURSOR) == cursor);
    advisor_store_end(&txn);
    kvt_free(walk.places);
    *next = rc == KVT_OK && from != 0 ? from >> 1 | COLD_CURSOR : 0;
    return rc;
}

enum kvt_err
advisor_finder_rows(const struct advisor_finder *finder, uint64_t cursor, size_t max,
                    uint64_t *next, advisor_finder_row_fn *callback, void *arg)
{
    enum kvt_err rc;

    *next = 0;
    if (!advisor_finder_from_ram(finder))
        return KVT_AGAIN;
    if ((cursor & COLD_CURSOR) != 0)
        return cold_rows(finder, cursor, max, next, callback, arg);
    rc = ram_rows(finder, cursor, max, next, callback, arg);
    if (rc == KVT_OK && *next == 0 && cold_of(finder) != NULL)
        *next = COLD_CURSOR;
    return rc;
}
