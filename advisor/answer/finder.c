#include "advisor/answer/finder.h"

#include <stdlib.h>
#include <string.h>

#include "advisor/answer/finder_private.h"
#include "advisor/answer/pair_page.h"
#include "advisor/answer/store_lookup.h"
#include "advisor/index/evicted.h"
#include "advisor/publisher/publishers.h"
#include "base/core/alloc.h"
#include "kvtier/token.h"

/* ---- what the three ways share ---- */

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

enum kvt_err
advisor_finder_begin(struct advisor_store *store, const char *name, struct advisor_txn *txn,
                     uint32_t *ns)
{
    struct wanted wanted = {.name = name};
    enum kvt_err rc = advisor_store_read(store, txn, NULL);

    *ns = 0;
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_namespaces(txn, compare_namespace, &wanted);
    *ns = wanted.ns;
    if (wanted.found)
        return KVT_OK;
    advisor_store_end(txn);
    return rc == KVT_OK ? KVT_NOTFOUND : rc;
}

static int
compare_longest(const void *left, const void *right)
{
    const struct index_match *a = left;
    const struct index_match *b = right;

    if (a->blocks != b->blocks)
        return a->blocks > b->blocks ? -1 : 1;
    return (a->holder > b->holder) - (a->holder < b->holder);
}

void
advisor_finder_sort(void *matches, size_t count, size_t size)
{
    if (count > 1)
        qsort(matches, count, size, compare_longest);
}

bool
advisor_finder_same_holder(const struct index_holder *a, const struct index_holder *b)
{
    return a->tier == b->tier && a->dp_rank == b->dp_rank && strcmp(a->name, b->name) == 0;
}

void
advisor_finder_name(struct wire_query_holder *to, const struct index_holder *key, uint32_t blocks)
{
    memcpy(to->name, key->name, sizeof(to->name));
    to->dp_rank = key->dp_rank;
    to->tier = key->tier;
    to->blocks = blocks;
}

bool
advisor_finder_from_ram(const struct advisor_finder *finder)
{
    return finder->memory != NULL && advisor_ram_index_whole(finder->memory);
}

/* ---- find ---- */

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
    struct index_find_result *found = NULL;
    enum kvt_err rc = matches == NULL ? KVT_NOMEM : index_find_result_new(&found);

    if (rc == KVT_OK)
        rc = index_find(finder->memory->index, &question, found);
    if (rc == KVT_OK)
        *count = index_find_result_best(found, matches, capacity);
    for (size_t i = 0; i < *count; i++) {
        struct index_holder key;

        index_holder_info(finder->memory->index, matches[i].holder, &key, NULL, NULL);
        advisor_finder_name(&holders[i], &key, matches[i].blocks);
    }
    index_find_result_free(found);
    kvt_free(matches);
    return rc;
}

static enum kvt_err
find_matches(const struct advisor_finder *finder, const struct wire_query *query,
             struct wire_query_holder *holders, size_t capacity, size_t *count)
{
    enum kvt_err rc;
    uint32_t ns;

    if (!advisor_finder_from_ram(finder))
        return advisor_finder_stored(finder, query, holders, capacity, count);
    if (index_namespace_find(finder->memory->index, query->namespace_, &ns) != KVT_OK)
        return KVT_OK;
    rc = ram_matches(finder, ns, query, holders, capacity, count);
    return rc == KVT_OK ? advisor_finder_evicted(finder, ns, query, holders, capacity, count) : rc;
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
        chained.hashes[i] = kvt_token_chain(chained.hashes[i - 1], query->hashes[i]);
    rc = find_matches(finder, &chained, holders, capacity, count);
    kvt_free(chained.hashes);
    return rc;
}

enum kvt_err
advisor_finder_matches(const struct advisor_finder *finder, const struct wire_query *query,
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

/* ---- match ---- */

enum kvt_err
advisor_finder_masks(const struct advisor_finder *finder, const char *namespace_,
                     const uint64_t *hashes, size_t hash_count, uint8_t *masks)
{
    uint32_t ns;

    if (hash_count == 0)
        return KVT_OK;
    memset(masks, 0, hash_count);
    if (!advisor_finder_from_ram(finder))
        return advisor_finder_stored_masks(finder, namespace_, hashes, hash_count, masks);
    if (index_namespace_find(finder->memory->index, namespace_, &ns) != KVT_OK)
        return KVT_OK;
    index_match(finder->memory->index, ns, hashes, hash_count, masks);
    return advisor_finder_evicted_masks(finder, namespace_, hashes, hash_count, masks);
}

/* ---- children ---- */

size_t
advisor_finder_children(const struct advisor_finder *finder, const char *namespace_, uint64_t hash,
                        uint64_t *children, size_t capacity)
{
    uint32_t ns;

    if (finder->memory == NULL ||
        index_namespace_find(finder->memory->index, namespace_, &ns) != KVT_OK)
        return 0;
    return index_children(finder->memory->index, ns, hash, children, capacity);
}

/* ---- one block ---- */

/* One block, from its row, from the log or RAM, and from what was evicted. */

static void
add_place(struct advisor_finder_block *block, const struct index_holder *holder, uint32_t ranks)
{
    const uint32_t shown = block->place_count < ADVISOR_FINDER_PLACES_MAX
                               ? block->place_count
                               : ADVISOR_FINDER_PLACES_MAX;

    block->ranks |= ranks;
    for (uint32_t i = 0; i < shown; i++) {
        struct advisor_finder_place *place = &block->places[i];

        if (advisor_finder_same_holder(&place->holder, holder)) {
            place->ranks |= ranks;
            return;
        }
    }
    if (shown < ADVISOR_FINDER_PLACES_MAX)
        block->places[shown] = (struct advisor_finder_place){*holder, ranks};
    block->place_count++;
}

static enum kvt_err
add_row(const struct advisor_txn *txn, const struct advisor_store_block *row,
        struct advisor_finder_block *block)
{
    /* Gateways know neither parents nor token hashes: RAM may have heard of them from workers. */
    if (block->id.hash == 0 && block->id.parent == 0)
        block->id = (struct kvt_block_id){
            .hash = row->hash, .parent = row->parent, .position = row->position};
    if (block->tokens_hash == 0)
        block->tokens_hash = row->tokens_hash;
    block->size = row->size;
    block->hits = row->hits;
    block->cold_hits = row->cold_hits;
    block->last_access_ms = row->last_access_ms;
    block->touched_ms = row->touched_ms;
    for (uint32_t i = 0; i < row->place_count; i++) {
        struct index_holder holder;
        const enum kvt_err rc = advisor_store_holder(txn, row->places[i].holder, &holder);

        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
        add_place(block, &holder, row->places[i].ranks);
    }
    return KVT_OK;
}

/* What RAM has of it; places in G4 are those of the row. */
static enum kvt_err
add_ram(struct index *index, uint32_t ns, uint64_t hash, struct advisor_finder_block *block)
{
    struct index_place *places = NULL;
    struct index_view view;
    size_t capacity = 0;
    size_t count;
    enum kvt_err rc = index_get(index, ns, hash, &view);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    block->id = view.block.id;
    block->tokens_hash = view.block.tokens_hash;
    block->size = view.block.size;
    while ((count = index_places(index, ns, hash, places, capacity)) > capacity) {
        void *more = kvt_realloc(places, count, sizeof(*places));

        if (more == NULL) {
            rc = KVT_NOMEM;
            break;
        }
        places = more;
        capacity = count;
    }
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        struct index_holder holder;

        index_holder_info(index, places[i].holder, &holder, NULL, NULL);
        if (holder.tier != KVT_TIER_G4)
            add_place(block, &holder, places[i].ranks);
    }
    kvt_free(places);
    return rc;
}

/* What the store has of it: `logged` says whether the log is read too. */
static enum kvt_err
add_stored(const struct advisor_finder *finder, const char *namespace_, uint64_t hash, bool logged,
           struct advisor_finder_block *block)
{
    struct advisor_store_block row = {0};
    struct advisor_txn txn;
    uint32_t ns;
    enum kvt_err rc = advisor_finder_begin(finder->store, namespace_, &txn, &ns);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = logged ? advisor_store_lookup(&txn, ns, &hash, 1, &row)
                : advisor_store_get_block(&txn, ns, hash, &row);
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = advisor_evicted_get(&txn, ns, hash, &row);
    if ((rc == KVT_OK || rc == KVT_NOTFOUND) && row.place_count > 0)
        rc = add_row(&txn, &row, block);
    advisor_store_end(&txn);
    advisor_store_block_release(&row);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_finder_block(const struct advisor_finder *finder, const char *namespace_, uint64_t hash,
                     struct advisor_finder_block *block)
{
    const bool from_ram = advisor_finder_from_ram(finder);
    enum kvt_err rc = KVT_OK;
    uint32_t ns;

    memset(block, 0, sizeof(*block));
    /* RAM first: what leaves it is in the store by then. */
    if (from_ram && index_namespace_find(finder->memory->index, namespace_, &ns) == KVT_OK)
        rc = add_ram(finder->memory->index, ns, hash, block);
    if (rc == KVT_OK)
        rc = add_stored(finder, namespace_, hash, !from_ram, block);
    if (rc == KVT_OK && block->place_count == 0)
        rc = KVT_NOTFOUND;
    return rc;
}

/* ---- all rows, a page a call ---- */

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
