#include "advisor/answer/finder.h"

#include <stdlib.h>
#include <string.h>

#include "advisor/answer/finder_private.h"
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
advisor_finder_sort(struct index_match *matches, size_t count)
{
    if (count > 1)
        qsort(matches, count, sizeof(*matches), compare_longest);
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
