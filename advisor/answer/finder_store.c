#include "advisor/answer/finder_private.h"
#include "advisor/answer/store_lookup.h"
#include "advisor/index/evicted.h"
#include "base/core/alloc.h"

/* ---- blocks of a question ---- */

static void
release(struct advisor_store_block *blocks, size_t count)
{
    for (size_t i = 0; blocks != NULL && i < count; i++)
        advisor_store_block_release(&blocks[i]);
    kvt_free(blocks);
}

/* All of them, with all their places; release() them whatever comes back. */
static enum kvt_err
look_up(const struct advisor_txn *txn, uint32_t ns, const uint64_t *hashes, size_t count,
        struct advisor_store_block **blocks)
{
    enum kvt_err rc;

    *blocks = kvt_calloc(count, sizeof(**blocks));
    if (*blocks == NULL)
        return KVT_NOMEM;
    rc = advisor_store_lookup(txn, ns, hashes, count, *blocks);
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        rc = advisor_evicted_get(txn, ns, hashes[i], &(*blocks)[i]);
        rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
    }
    return rc;
}

/* ---- find ---- */

static bool
holds(const struct advisor_store_block *block, uint32_t holder)
{
    for (uint32_t i = 0; i < block->place_count; i++)
        if (block->places[i].holder == holder)
            return true;
    return false;
}

/* Walk down the prefix with the holders of the first block, until none of them is left. */
static enum kvt_err
prefixes(const struct advisor_store_block *blocks, size_t block_count, struct index_match **matches,
         size_t *count)
{
    *count = blocks[0].place_count;
    *matches = kvt_calloc(*count + 1, sizeof(**matches));
    if (*matches == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < *count; i++)
        (*matches)[i].holder = blocks[0].places[i].holder;
    for (size_t depth = 0; depth < block_count; depth++) {
        size_t alive = 0;

        for (size_t i = 0; i < *count; i++) {
            struct index_match *match = &(*matches)[i];

            if (match->blocks == depth && holds(&blocks[depth], match->holder)) {
                match->blocks++;
                alive++;
            }
        }
        if (alive == 0)
            break;
    }
    advisor_finder_sort(*matches, *count, sizeof(**matches));
    return KVT_OK;
}

static enum kvt_err
name_holders(const struct advisor_txn *txn, const struct index_match *matches, size_t count,
             struct wire_query_holder *holders)
{
    for (size_t i = 0; i < count; i++) {
        struct index_holder key;
        const enum kvt_err rc = advisor_store_holder(txn, matches[i].holder, &key);

        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
        advisor_finder_name(&holders[i], &key, matches[i].blocks);
    }
    return KVT_OK;
}

enum kvt_err
advisor_finder_stored(const struct advisor_finder *finder, const struct wire_query *query,
                      struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    struct advisor_store_block *blocks = NULL;
    struct index_match *matches = NULL;
    struct advisor_txn txn;
    size_t found = 0;
    uint32_t ns;
    enum kvt_err rc = advisor_finder_begin(finder->store, query->namespace_, &txn, &ns);

    *count = 0;
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = look_up(&txn, ns, query->hashes, query->hash_count, &blocks);
    if (rc == KVT_OK)
        rc = prefixes(blocks, query->hash_count, &matches, &found);
    if (found > capacity)
        found = capacity;
    if (rc == KVT_OK)
        rc = name_holders(&txn, matches, found, holders);
    if (rc == KVT_OK)
        *count = found;
    advisor_store_end(&txn);
    release(blocks, query->hash_count);
    kvt_free(matches);
    return rc;
}

/* ---- match ---- */

static enum kvt_err
mask(const struct advisor_txn *txn, const struct advisor_store_block *block, uint8_t *tiers)
{
    for (uint32_t i = 0; i < block->place_count; i++) {
        struct index_holder key;
        const enum kvt_err rc = advisor_store_holder(txn, block->places[i].holder, &key);

        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
        *tiers |= (uint8_t)KVT_TIER_MASK(key.tier);
    }
    return KVT_OK;
}

enum kvt_err
advisor_finder_stored_masks(const struct advisor_finder *finder, const char *namespace_,
                            const uint64_t *hashes, size_t hash_count, uint8_t *masks)
{
    struct advisor_store_block *blocks = NULL;
    struct advisor_txn txn;
    uint32_t ns;
    enum kvt_err rc = advisor_finder_begin(finder->store, namespace_, &txn, &ns);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = look_up(&txn, ns, hashes, hash_count, &blocks);
    for (size_t i = 0; i < hash_count && rc == KVT_OK; i++)
        rc = mask(&txn, &blocks[i], &masks[i]);
    advisor_store_end(&txn);
    release(blocks, hash_count);
    return rc;
}
