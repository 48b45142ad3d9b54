#include "advisor/answer/finder_private.h"
#include "advisor/index/evicted.h"
#include "base/core/alloc.h"

/* A question to RAM and to what was evicted from it.  The order that advisor/index/evicted.h asks
 * for, RAM, filter, transaction, is kept for each block. */
struct merge {
    struct advisor_store *store;
    struct advisor_evicted *cold;
    struct index *index;
    struct advisor_store_block block; /* of the store */
    struct index_holder *keys;        /* who has it, by name */
    uint32_t key_capacity;
    uint32_t ns; /* the store's number */
};

/* The number of a namespace never changes: a transaction of its own will do. */
static enum kvt_err
number_of(struct advisor_store *store, const char *namespace_, uint32_t *ns)
{
    struct advisor_txn txn;
    const enum kvt_err rc = advisor_finder_begin(store, namespace_, &txn, ns);

    if (rc == KVT_OK)
        advisor_store_end(&txn);
    return rc;
}

/* KVT_NOTFOUND: none of these blocks was evicted; merge_end() in any case. */
static enum kvt_err
merge_begin(struct merge *merge, const struct advisor_finder *finder, const char *namespace_,
            const uint64_t *hashes, size_t count)
{
    enum kvt_err rc;

    *merge = (struct merge){
        .store = finder->store, .cold = finder->memory->cold, .index = finder->memory->index};
    if (merge->cold == NULL || advisor_evicted_count(merge->cold) == 0)
        return KVT_NOTFOUND;
    rc = number_of(merge->store, namespace_, &merge->ns);
    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        if (advisor_evicted_may_have(merge->cold, merge->ns, hashes[i]))
            return KVT_OK;
    return rc == KVT_OK ? KVT_NOTFOUND : rc;
}

static void
merge_end(struct merge *merge)
{
    advisor_store_block_release(&merge->block);
    kvt_free(merge->keys);
}

static enum kvt_err
name_places(struct merge *merge, const struct advisor_txn *txn)
{
    const uint32_t count = merge->block.place_count;
    enum kvt_err rc = KVT_OK;

    if (count > merge->key_capacity) {
        void *more = kvt_realloc(merge->keys, count, sizeof(*merge->keys));

        if (more == NULL)
            return KVT_NOMEM;
        merge->keys = more;
        merge->key_capacity = count;
    }
    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        rc = advisor_store_holder(txn, merge->block.places[i].holder, &merge->keys[i]);
    return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
}

/* The places of a block that were evicted, in merge->block, and their names. */
static enum kvt_err
read_cold(struct merge *merge, uint64_t hash)
{
    struct advisor_txn txn;
    enum kvt_err rc;

    merge->block.hash = hash;
    merge->block.ns = merge->ns;
    merge->block.place_count = 0;
    if (!advisor_evicted_may_have(merge->cold, merge->ns, hash))
        return KVT_OK;
    rc = advisor_store_read(merge->store, &txn, NULL);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_evicted_get(&txn, merge->ns, hash, &merge->block);
    if (rc == KVT_OK)
        rc = name_places(merge, &txn);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        merge->block.place_count = 0;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- match ---- */

enum kvt_err
advisor_finder_evicted_masks(const struct advisor_finder *finder, const char *namespace_,
                             const uint64_t *hashes, size_t hash_count, uint8_t *masks)
{
    struct merge merge;
    enum kvt_err rc = merge_begin(&merge, finder, namespace_, hashes, hash_count);

    for (size_t i = 0; i < hash_count && rc == KVT_OK; i++) {
        rc = read_cold(&merge, hashes[i]);
        for (uint32_t p = 0; p < merge.block.place_count; p++)
            masks[i] |= (uint8_t)KVT_TIER_MASK(merge.keys[p].tier);
    }
    merge_end(&merge);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- one place ---- */

enum kvt_err
advisor_finder_evicted_ranks(const struct advisor_finder *finder, const char *namespace_,
                             uint64_t hash, const struct index_holder *holder, uint32_t *ranks)
{
    struct merge merge;
    enum kvt_err rc = merge_begin(&merge, finder, namespace_, &hash, 1);

    if (rc == KVT_OK)
        rc = read_cold(&merge, hash);
    for (uint32_t p = 0; p < merge.block.place_count && rc == KVT_OK; p++)
        if (advisor_finder_same_holder(&merge.keys[p], holder))
            *ranks |= merge.block.places[p].ranks;
    merge_end(&merge);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- find ---- */

/* A holder of the first block.  Those of evicted blocks are known by name: a number of the index
 * that nobody gave is not made for a question. */
struct candidate {
    struct index_match match; /* holder UINT32_MAX: its number is not known */
    struct index_holder key;
};

struct descent {
    struct candidate *candidates; /* the numbered ones first, in their order */
    size_t count;
    size_t numbered;
    size_t capacity;
    struct index_place *places; /* of one block in RAM, in the order of holders */
    size_t place_capacity;
};

static enum kvt_err
read_ram(const struct merge *merge, struct descent *descent, uint32_t ns, uint64_t hash,
         size_t *count)
{
    *count = 0;
    /* Some may come between two looks. */
    for (;;) {
        void *more;

        *count = index_places(merge->index, ns, hash, descent->places, descent->place_capacity);
        if (*count <= descent->place_capacity)
            return KVT_OK;
        more = kvt_realloc(descent->places, *count, sizeof(*descent->places));
        if (more == NULL)
            return KVT_NOMEM;
        descent->places = more;
        descent->place_capacity = *count;
    }
}

static struct candidate *
by_key(const struct descent *descent, const struct index_holder *key)
{
    for (size_t i = 0; i < descent->count; i++)
        if (advisor_finder_same_holder(&descent->candidates[i].key, key))
            return &descent->candidates[i];
    return NULL;
}

static enum kvt_err
add(struct descent *descent, const struct index_holder *key, uint32_t number)
{
    void *more = kvt_grow(descent->candidates, &descent->capacity, descent->count + 1,
                          sizeof(*descent->candidates));

    if (more == NULL)
        return KVT_NOMEM;
    descent->candidates = more;
    descent->candidates[descent->count++] =
        (struct candidate){.match = {.holder = number}, .key = *key};
    return KVT_OK;
}

/* Both are in the order of numbers. */
static size_t
deepen_numbered(struct descent *descent, size_t place_count, uint32_t depth)
{
    size_t alive = 0;
    size_t at = 0;

    for (size_t i = 0; i < descent->numbered && at < place_count; i++) {
        struct candidate *candidate = &descent->candidates[i];

        while (at < place_count && descent->places[at].holder < candidate->match.holder)
            at++;
        if (at == place_count || descent->places[at].holder != candidate->match.holder ||
            candidate->match.blocks != depth)
            continue;
        candidate->match.blocks++;
        alive++;
    }
    return alive;
}

/* Is one of the places at this holder, whose number is learned so? */
static bool
is_placed(const struct merge *merge, const struct descent *descent, size_t place_count,
          struct candidate *candidate)
{
    for (size_t i = 0; i < place_count; i++) {
        const uint32_t number = descent->places[i].holder;
        struct index_holder key;

        if (candidate->match.holder == UINT32_MAX) {
            index_holder_info(merge->index, number, &key, NULL, NULL);
            if (advisor_finder_same_holder(&key, &candidate->key))
                candidate->match.holder = number;
        }
        if (number == candidate->match.holder)
            return true;
    }
    return false;
}

/* Those whose first block was evicted: what follows may be in RAM. */
static size_t
deepen_named(const struct merge *merge, struct descent *descent, size_t place_count, uint32_t depth)
{
    size_t alive = 0;

    for (size_t i = descent->numbered; i < descent->count; i++) {
        struct candidate *candidate = &descent->candidates[i];

        if (candidate->match.blocks != depth || !is_placed(merge, descent, place_count, candidate))
            continue;
        candidate->match.blocks++;
        alive++;
    }
    return alive;
}

static enum kvt_err
deepen_cold(struct merge *merge, struct descent *descent, uint32_t depth, size_t *alive)
{
    for (uint32_t i = 0; i < merge->block.place_count; i++) {
        struct candidate *candidate = by_key(descent, &merge->keys[i]);

        if (candidate == NULL && depth == 0) {
            const enum kvt_err rc = add(descent, &merge->keys[i], UINT32_MAX);

            if (rc != KVT_OK)
                return rc;
            candidate = &descent->candidates[descent->count - 1];
        }
        if (candidate == NULL || candidate->match.blocks != depth)
            continue;
        candidate->match.blocks++;
        (*alive)++;
    }
    return KVT_OK;
}

static enum kvt_err
descend(struct merge *merge, struct descent *descent, uint32_t ns, const struct wire_query *query)
{
    size_t alive = 1;
    enum kvt_err rc = KVT_OK;

    for (uint32_t depth = 0; depth < query->hash_count && rc == KVT_OK && alive > 0; depth++) {
        size_t place_count = 0;

        rc = read_ram(merge, descent, ns, query->hashes[depth], &place_count);
        for (size_t i = 0; i < place_count && depth == 0 && rc == KVT_OK; i++) {
            struct index_holder key;

            index_holder_info(merge->index, descent->places[i].holder, &key, NULL, NULL);
            rc = add(descent, &key, descent->places[i].holder);
            descent->numbered = descent->count;
        }
        if (rc == KVT_OK)
            rc = read_cold(merge, query->hashes[depth]);
        alive = deepen_numbered(descent, place_count, depth) +
                deepen_named(merge, descent, place_count, depth);
        if (rc == KVT_OK)
            rc = deepen_cold(merge, descent, depth, &alive);
        if (alive == 1 && query->early_exit)
            break;
    }
    return rc;
}

enum kvt_err
advisor_finder_evicted(const struct advisor_finder *finder, uint32_t ns,
                       const struct wire_query *query, struct wire_query_holder *holders,
                       size_t capacity, size_t *count)
{
    struct descent descent = {0};
    struct merge merge;
    enum kvt_err rc =
        merge_begin(&merge, finder, query->namespace_, query->hashes, query->hash_count);

    if (rc == KVT_OK)
        rc = descend(&merge, &descent, ns, query);
    if (rc == KVT_OK) {
        advisor_finder_sort(descent.candidates, descent.count, sizeof(*descent.candidates));
        *count = descent.count < capacity ? descent.count : capacity;
        for (size_t i = 0; i < *count; i++)
            advisor_finder_name(&holders[i], &descent.candidates[i].key,
                                descent.candidates[i].match.blocks);
    }
    merge_end(&merge);
    kvt_free(descent.candidates);
    kvt_free(descent.places);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}
