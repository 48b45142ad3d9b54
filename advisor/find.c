#include "advisor/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/publishers.h"
#include "base/alloc.h"
#include "wire/token.h"

/* ---- from RAM ---- */

static enum kvt_err
ram_matches(const struct advisor_finder *finder, uint32_t ns, const struct wire_query *query,
            struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    const struct index_question question = {
        .hashes = query->hashes,
        .count = query->hash_count,
        .ns = ns,
        .key = INDEX_BY_SEQUENCE,
        .early_exit = query->early_exit,
    };
    struct index_match *matches = kvt_calloc(capacity, sizeof(*matches));
    struct index_found *found = NULL;
    enum kvt_err rc = matches == NULL ? KVT_NOMEM : index_found_new(&found);

    if (rc == KVT_OK)
        rc = index_find(finder->memory->index, &question, found);
    if (rc == KVT_OK)
        *count = index_found_best(found, matches, capacity);
    for (size_t i = 0; i < *count; i++) {
        struct index_holder key;
        uint64_t blocks;
        uint64_t bytes;

        index_holder_info(finder->memory->index, matches[i].holder, &key, &blocks, &bytes);
        memcpy(holders[i].name, key.name, sizeof(holders[i].name));
        holders[i].dp_rank = key.dp_rank;
        holders[i].tier = key.tier;
        holders[i].blocks = matches[i].blocks;
    }
    index_found_free(found);
    kvt_free(matches);
    return rc;
}

/* ---- from the store ---- */

struct wanted {
    const char *name;
    uint32_t ns;
    bool found;
};

static enum kvt_err
compare_namespace(void *arg, uint32_t number, const char *name)
{
    struct wanted *wanted = arg;

    if (strcmp(name, wanted->name) != 0)
        return KVT_OK;
    wanted->ns = number;
    wanted->found = true;
    return KVT_CANCELLED;
}

static enum kvt_err
find_namespace(const struct advisor_txn *txn, const char *name, uint32_t *ns)
{
    struct wanted wanted = {.name = name};
    const enum kvt_err rc = advisor_store_namespaces(txn, compare_namespace, &wanted);

    *ns = wanted.ns;
    if (wanted.found)
        return KVT_OK;
    return rc == KVT_OK ? KVT_NOTFOUND : rc;
}

static int
compare_longest(const void *left, const void *right)
{
    const struct index_match *a = left;
    const struct index_match *b = right;

    if (a->blocks != b->blocks)
        return a->blocks > b->blocks ? -1 : 1;
    return a->holder < b->holder ? -1 : a->holder > b->holder;
}

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
store_prefixes(const struct advisor_txn *txn, uint32_t ns, const uint64_t *hashes,
               size_t hash_count, struct index_match *matches, size_t capacity, size_t *count)
{
    struct advisor_store_block block = {0};
    enum kvt_err rc = KVT_OK;

    *count = 0;
    for (size_t depth = 0; depth < hash_count; depth++) {
        size_t alive = 0;

        rc = advisor_store_get_block(txn, ns, hashes[depth], &block);
        if (rc != KVT_OK)
            break;
        if (depth == 0)
            for (uint32_t i = 0; i < block.place_count && *count < capacity; i++)
                matches[(*count)++] = (struct index_match){block.places[i].holder, 0};
        for (size_t i = 0; i < *count; i++)
            if (matches[i].blocks == depth && holds(&block, matches[i].holder)) {
                matches[i].blocks++;
                alive++;
            }
        if (alive == 0)
            break;
    }
    advisor_store_block_release(&block);
    qsort(matches, *count, sizeof(*matches), compare_longest);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static enum kvt_err
store_matches(const struct advisor_finder *finder, const struct wire_query *query,
              struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    struct index_match *matches = kvt_calloc(capacity, sizeof(*matches));
    struct advisor_txn txn;
    enum kvt_err rc;
    uint32_t ns;

    if (matches == NULL)
        return KVT_NOMEM;
    rc = advisor_store_read(finder->store, &txn, NULL);
    if (rc == KVT_OK)
        rc = find_namespace(&txn, query->namespace_, &ns);
    if (rc == KVT_OK)
        rc = store_prefixes(&txn, ns, query->hashes, query->hash_count, matches, capacity, count);
    for (size_t i = 0; i < *count && rc == KVT_OK; i++) {
        struct index_holder key;

        rc = advisor_store_holder(&txn, matches[i].holder, &key);
        memcpy(holders[i].name, key.name, sizeof(holders[i].name));
        holders[i].dp_rank = key.dp_rank;
        holders[i].tier = key.tier;
        holders[i].blocks = matches[i].blocks;
    }
    advisor_store_end(&txn);
    kvt_free(matches);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- the questions ---- */

static bool
from_ram(const struct advisor_finder *finder)
{
    return finder->memory != NULL && advisor_memory_whole(finder->memory);
}

static enum kvt_err
find_matches(const struct advisor_finder *finder, const struct wire_query *query,
             struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    uint32_t ns;

    if (!from_ram(finder))
        return store_matches(finder, query, holders, capacity, count);
    if (index_namespace_find(finder->memory->index, query->namespace_, &ns) != KVT_OK)
        return KVT_OK;
    return ram_matches(finder, ns, query, holders, capacity, count);
}

/* The same question by sequence hashes. */
static enum kvt_err
find_by_tokens(const struct advisor_finder *finder, const struct wire_query *query,
               struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    struct wire_query chained = *query;
    enum kvt_err rc;

    chained.hashes = kvt_calloc(query->hash_count, sizeof(*chained.hashes));
    if (chained.hashes == NULL)
        return KVT_NOMEM;
    chained.hashes[0] = query->hashes[0];
    for (uint32_t i = 1; i < query->hash_count; i++)
        chained.hashes[i] = wire_token_chain(chained.hashes[i - 1], query->hashes[i]);
    rc = find_matches(finder, &chained, holders, capacity, count);
    kvt_free(chained.hashes);
    return rc;
}

enum kvt_err
advisor_find_matches(const struct advisor_finder *finder, const struct wire_query *query,
                     struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    enum kvt_err rc = KVT_OK;

    *count = 0;
    if (query->hash_count > 0 && capacity > 0)
        rc = query->by_tokens ? find_by_tokens(finder, query, holders, capacity, count)
                              : find_matches(finder, query, holders, capacity, count);
    for (size_t i = 0; i < *count; i++)
        holders[i].uncertain = false;
    if (finder->publishers != NULL && rc == KVT_OK)
        advisor_publishers_mark(finder->publishers, holders, *count);
    return rc;
}

static enum kvt_err
store_masks(const struct advisor_finder *finder, const char *namespace_, const uint64_t *hashes,
            size_t hash_count, uint8_t *masks)
{
    struct advisor_store_block block = {0};
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(finder->store, &txn, NULL);
    uint32_t ns;

    if (rc == KVT_OK)
        rc = find_namespace(&txn, namespace_, &ns);
    for (size_t i = 0; i < hash_count && rc == KVT_OK; i++) {
        rc = advisor_store_get_block(&txn, ns, hashes[i], &block);
        for (uint32_t p = 0; p < block.place_count && rc == KVT_OK; p++) {
            struct index_holder key;

            rc = advisor_store_holder(&txn, block.places[p].holder, &key);
            masks[i] |= (uint8_t)KVT_TIER_MASK(key.tier);
        }
        if (rc == KVT_NOTFOUND)
            rc = KVT_OK;
    }
    advisor_store_end(&txn);
    advisor_store_block_release(&block);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_find_masks(const struct advisor_finder *finder, const char *namespace_,
                   const uint64_t *hashes, size_t hash_count, uint8_t *masks)
{
    uint32_t ns;

    if (hash_count > 0)
        memset(masks, 0, hash_count);
    if (!from_ram(finder))
        return store_masks(finder, namespace_, hashes, hash_count, masks);
    if (index_namespace_find(finder->memory->index, namespace_, &ns) == KVT_OK)
        index_match(finder->memory->index, ns, hashes, hash_count, masks);
    return KVT_OK;
}

static enum kvt_err
fill_block(const struct advisor_txn *txn, const struct advisor_store_block *row,
           struct advisor_find_block *block)
{
    block->id =
        (struct kvt_block_id){.hash = row->hash, .parent = row->parent, .position = row->position};
    block->tokens_hash = row->tokens_hash;
    block->size = row->size;
    block->hits = row->hits;
    block->cold_hits = row->cold_hits;
    block->last_access_ms = row->last_access_ms;
    block->touched_ms = row->touched_ms;
    block->place_count = row->place_count;
    for (uint32_t i = 0; i < row->place_count; i++) {
        enum kvt_err rc;

        block->ranks |= row->places[i].ranks;
        if (i >= ADVISOR_FIND_PLACES_MAX)
            continue;
        block->places[i].ranks = row->places[i].ranks;
        rc = advisor_store_holder(txn, row->places[i].holder, &block->places[i].holder);
        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    }
    return KVT_OK;
}

enum kvt_err
advisor_find_block(const struct advisor_finder *finder, const char *namespace_, uint64_t hash,
                   struct advisor_find_block *block)
{
    struct advisor_store_block row = {0};
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(finder->store, &txn, NULL);
    uint32_t ns;

    memset(block, 0, sizeof(*block));
    if (rc == KVT_OK)
        rc = find_namespace(&txn, namespace_, &ns);
    if (rc == KVT_OK)
        rc = advisor_store_get_block(&txn, ns, hash, &row);
    if (rc == KVT_OK)
        rc = fill_block(&txn, &row, block);
    advisor_store_end(&txn);
    advisor_store_block_release(&row);
    return rc;
}

size_t
advisor_find_children(const struct advisor_finder *finder, const char *namespace_, uint64_t hash,
                      uint64_t *children, size_t capacity)
{
    uint32_t ns;

    if (finder->memory == NULL ||
        index_namespace_find(finder->memory->index, namespace_, &ns) != KVT_OK)
        return 0;
    return index_children(finder->memory->index, ns, hash, children, capacity);
}

/* ---- all places ---- */

struct pair {
    struct index_block block;
    uint32_t ns;
    uint32_t holder;
};

/* The index must not be called from its own walk: copy now, name afterwards. */
struct pairs {
    struct pair *rows;
    size_t count;
    size_t capacity;
    bool failed;
};

static void
add_pair(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct pairs *pairs = arg;

    if (pairs->count == pairs->capacity) {
        const size_t capacity = pairs->capacity == 0 ? 1024 : pairs->capacity * 2;
        void *more = kvt_realloc(pairs->rows, capacity, sizeof(*pairs->rows));

        if (more == NULL) {
            pairs->failed = true;
            return;
        }
        pairs->rows = more;
        pairs->capacity = capacity;
    }
    pairs->rows[pairs->count++] = (struct pair){*block, ns, holder};
}

static enum kvt_err
ram_rows(const struct advisor_finder *finder, uint64_t cursor, size_t max, uint64_t *next,
         advisor_find_row_fn *callback, void *arg)
{
    struct index *index = finder->memory->index;
    struct pairs pairs = {0};

    *next = index_walk(index, cursor, max, add_pair, &pairs);
    for (size_t i = 0; i < pairs.count && !pairs.failed; i++) {
        struct advisor_find_row row = {.block = pairs.rows[i].block};
        uint64_t blocks;
        uint64_t bytes;

        index_namespace_name(index, pairs.rows[i].ns, row.namespace_);
        index_holder_info(index, pairs.rows[i].holder, &row.holder, &blocks, &bytes);
        callback(arg, &row);
    }
    kvt_free(pairs.rows);
    return pairs.failed ? KVT_NOMEM : KVT_OK;
}

struct store_walk {
    const struct advisor_txn *txn;
    advisor_find_row_fn *callback;
    void *arg;
};

static enum kvt_err
walk_block(void *arg, const struct advisor_store_block *block)
{
    const struct store_walk *walk = arg;
    struct advisor_find_row row = {
        .block = {.id = {.hash = block->hash, .parent = block->parent, .position = block->position},
                  .tokens_hash = block->tokens_hash,
                  .size = block->size},
    };
    enum kvt_err rc = advisor_store_namespace(walk->txn, block->ns, row.namespace_);

    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        row.block.ranks = block->places[i].ranks;
        rc = advisor_store_holder(walk->txn, block->places[i].holder, &row.holder);
        if (rc == KVT_OK)
            walk->callback(walk->arg, &row);
    }
    return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
}

enum kvt_err
advisor_find_rows(const struct advisor_finder *finder, uint64_t cursor, size_t max, uint64_t *next,
                  advisor_find_row_fn *callback, void *arg)
{
    struct advisor_txn txn;
    struct store_walk walk = {&txn, callback, arg};
    enum kvt_err rc;

    *next = 0;
    if (from_ram(finder))
        return ram_rows(finder, cursor, max, next, callback, arg);
    rc = advisor_store_read(finder->store, &txn, NULL);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_blocks(&txn, cursor, max, next, walk_block, &walk);
    advisor_store_end(&txn);
    return rc;
}
