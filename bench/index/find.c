#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/measure.h"

enum { CHECKED_SEQUENCES = 8 };

static int
compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

void
measure_sort(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof(*times), compare);
}

/* Hashes of every sequence that is looked up, as the router has them. */
static uint64_t *
make_queries(const struct corpus *corpus, enum index_key key)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t *queries = kvt_calloc((size_t)corpus->per_worker * corpus->length, sizeof(*queries));

    for (uint32_t i = 0; i < corpus->per_worker && queries != NULL; i++) {
        uint64_t *query = queries + (size_t)i * corpus->length;

        corpus_query(corpus, i, locals);
        if (key == INDEX_BY_SEQUENCE)
            corpus_sequence(locals, corpus->length, query);
        else
            memcpy(query, locals, corpus->length * sizeof(*query));
    }
    return queries;
}

struct lookup {
    struct subject *subject;
    const struct corpus *corpus;
    struct index_find_result *found;
    struct index_match *matches;
    uint64_t *queries;
};

static enum kvt_err
time_lookups(const struct lookup *lookup, const struct measure_lookups *lookups, uint64_t *times,
             struct kvt_error *err)
{
    const struct corpus *corpus = lookup->corpus;
    const uint32_t best = lookups->best == 0 ? INDEX_HOLDERS_MAX : lookups->best;
    const size_t wanted = best < corpus->workers ? best : corpus->workers;
    uint64_t query[CORPUS_CHAIN_MAX];

    for (size_t i = 0; i < lookups->count; i++) {
        const uint64_t number =
            corpus_mix(corpus->seed ^ (lookups->first + i)) % corpus->per_worker;
        const struct index_question question = {
            .hashes = query,
            .count = corpus->length,
            .ns = lookup->subject->ns,
            .key = lookups->key,
        };
        uint64_t start_ns;
        enum kvt_err rc;
        size_t got;

        /* The router has just made it. */
        memcpy(query, lookup->queries + number * corpus->length, corpus->length * sizeof(*query));
        start_ns = kvt_clock_mono_ns();
        rc = index_find(lookup->subject->index, &question, lookup->found);
        got = index_find_result_best(lookup->found, lookup->matches, best);

        times[i] = kvt_clock_mono_ns() - start_ns;
        if (rc != KVT_OK || got != wanted ||
            index_find_result_count(lookup->found) != corpus->workers)
            return kvt_error_set(err, rc == KVT_OK ? KVT_CORRUPT : rc,
                                 "query %zu: %zu of %zu holders, %zu wanted", i, got,
                                 index_find_result_count(lookup->found), wanted);
    }
    return KVT_OK;
}

/* ---- checks ---- */

static enum kvt_err
check_lengths(const struct lookup *lookup, uint32_t sequence, uint32_t right, struct kvt_error *err)
{
    const struct corpus *corpus = lookup->corpus;
    const size_t count = index_find_result_best(lookup->found, lookup->matches, INDEX_HOLDERS_MAX);
    uint32_t *lengths = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*lengths));
    enum kvt_err rc = lengths == NULL ? KVT_NOMEM : KVT_OK;

    if (rc == KVT_OK && count != (right == 0 ? 0 : corpus->workers))
        rc = kvt_error_set(err, KVT_CORRUPT, "sequence %" PRIu32 ", %" PRIu32 " right: %zu holders",
                           sequence, right, count);
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        lengths[lookup->matches[i].holder] = lookup->matches[i].blocks;
        if (i > 0 && lookup->matches[i].blocks > lookup->matches[i - 1].blocks)
            rc = kvt_error_set(err, KVT_CORRUPT, "the best holders are not in their order");
    }
    for (uint32_t i = 0; i < corpus->workers && count > 0 && rc == KVT_OK; i++) {
        const uint32_t depth = corpus_depth(corpus, sequence, i);
        uint32_t holder;

        rc = subject_holder(lookup->subject, corpus_worker_id(i), &holder);
        if (rc == KVT_OK && lengths[holder] != (depth < right ? depth : right))
            rc = kvt_error_set(err, KVT_CORRUPT,
                               "sequence %" PRIu32 ", holder %" PRIu32 ": %" PRIu32 " of %" PRIu32,
                               sequence, i, lengths[holder], depth < right ? depth : right);
    }
    kvt_free(lengths);
    return rc;
}

/* Every holder's length, for the whole query, a half-right one and an unknown one. */
static enum kvt_err
check_sequence(const struct lookup *lookup, uint32_t sequence, enum index_key key,
               struct kvt_error *err)
{
    const uint32_t length = lookup->corpus->length;
    const uint32_t rights[] = {length, length / 2, 0};
    uint64_t hashes[CORPUS_CHAIN_MAX];
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]) && rc == KVT_OK; i++) {
        const struct index_question question = {
            .hashes = hashes, .count = length, .ns = lookup->subject->ns, .key = key};

        memcpy(hashes, lookup->queries + (size_t)sequence * length, length * sizeof(*hashes));
        for (uint32_t at = rights[i]; at < length; at++)
            hashes[at] = ~hashes[at];
        rc = index_find(lookup->subject->index, &question, lookup->found);
        if (rc == KVT_OK)
            rc = check_lengths(lookup, sequence, rights[i], err);
    }
    return rc;
}

enum kvt_err
measure_find(struct subject *subject, const struct corpus *corpus,
             const struct measure_lookups *lookups, uint64_t *times, struct kvt_error *err)
{
    struct lookup lookup = {.subject = subject, .corpus = corpus};
    enum kvt_err rc = index_find_result_new(&lookup.found);

    lookup.queries = make_queries(corpus, lookups->key);
    lookup.matches = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*lookup.matches));
    if (rc == KVT_OK && (lookup.queries == NULL || lookup.matches == NULL))
        rc = KVT_NOMEM;
    if (rc == KVT_OK && lookups->first == 0)
        for (uint32_t i = 0; i < CHECKED_SEQUENCES && i < corpus->per_worker && rc == KVT_OK; i++)
            rc = check_sequence(&lookup, i, lookups->key, err);
    if (rc == KVT_OK)
        rc = time_lookups(&lookup, lookups, times, err);
    if (rc == KVT_OK)
        measure_sort(times, lookups->count);
    kvt_free(lookup.matches);
    kvt_free(lookup.queries);
    index_find_result_free(lookup.found);
    return rc;
}
