#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/measure.h"

enum { CHECKED_CHAINS = 500 };

double
measure_cpu_s(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

enum kvt_err
measure_hand_over(struct subject *subject, struct subject_batch *batch, struct measure_took *took,
                  struct kvt_error *err)
{
    const double cpu_s = measure_cpu_s();
    const uint64_t start_ns = kvt_clock_mono_ns();
    const enum kvt_err rc = subject_apply(subject, batch, 0, batch->event_count);

    took->wall_s += (double)(kvt_clock_mono_ns() - start_ns) / 1e9;
    took->cpu_s += measure_cpu_s() - cpu_s;
    took->blocks += batch->block_count;
    took->events += batch->event_count;
    subject_batch_clear(batch);
    return rc == KVT_OK
               ? rc
               : kvt_error_set(err, rc, "the index refused an event: %s", kvt_err_name(rc));
}

static enum kvt_err
hand_over_full(struct subject *subject, struct subject_batch *batch, struct measure_took *took,
               struct kvt_error *err)
{
    if (batch->block_count < SUBJECT_BATCH_BLOCKS)
        return KVT_OK;
    return measure_hand_over(subject, batch, took, err);
}

static enum kvt_err
fill_whole(struct subject *subject, const struct corpus *corpus, struct subject_batch *batch,
           struct measure_took *took, struct kvt_error *err)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t hashes[CORPUS_CHAIN_MAX];
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < corpus->chains && rc == KVT_OK; i++) {
        const uint32_t chain = corpus->order[i];
        const uint32_t count = corpus_locals(corpus, chain, locals);

        corpus_sequence(locals, count, hashes);
        rc = subject_batch_store(batch, corpus_worker_id(corpus_worker(corpus, chain)), 0, 0,
                                 hashes, locals, count);
        if (rc == KVT_OK)
            rc = hand_over_full(subject, batch, took, err);
    }
    return rc;
}

/* The chains of a group grow by one block each in turn. */
static enum kvt_err
fill_group(struct subject *subject, const struct corpus *corpus, const uint32_t *group,
           uint32_t size, uint64_t *memory, struct subject_batch *batch, struct measure_took *took,
           struct kvt_error *err)
{
    const uint32_t length = corpus->length;
    uint64_t locals[CORPUS_CHAIN_MAX];
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < size; i++) {
        uint64_t *chain = memory + (size_t)2 * length * i;

        (void)corpus_locals(corpus, group[i], locals);
        memcpy(chain, locals, length * sizeof(*locals));
        corpus_sequence(locals, length, chain + length);
    }
    for (uint32_t at = 0; at < length; at++)
        for (uint32_t i = 0; i < size && rc == KVT_OK; i++) {
            const uint64_t *chain = memory + (size_t)2 * length * i;
            const uint64_t *hashes = chain + length;
            const uint64_t worker = corpus_worker_id(corpus_worker(corpus, group[i]));

            rc = subject_batch_store(batch, worker, at == 0 ? 0 : hashes[at - 1], at, &hashes[at],
                                     &chain[at], 1);
            if (rc == KVT_OK)
                rc = hand_over_full(subject, batch, took, err);
        }
    return rc;
}

static enum kvt_err
fill_open(struct subject *subject, const struct corpus *corpus, struct subject_batch *batch,
          struct measure_took *took, struct kvt_error *err)
{
    uint64_t *memory = kvt_calloc((size_t)2 * corpus->length * corpus->open, sizeof(*memory));
    enum kvt_err rc = memory == NULL ? KVT_NOMEM : KVT_OK;

    for (uint32_t i = 0; i < corpus->chains && rc == KVT_OK; i += corpus->open) {
        const uint32_t left = corpus->chains - i;

        rc = fill_group(subject, corpus, corpus->order + i,
                        left < corpus->open ? left : corpus->open, memory, batch, took, err);
    }
    kvt_free(memory);
    return rc;
}

enum kvt_err
measure_fill(struct subject *subject, const struct corpus *corpus, struct measure_took *took,
             struct kvt_error *err)
{
    struct subject_batch *batch;
    enum kvt_err rc = subject_batch_new(&batch);

    *took = (struct measure_took){.blocks = 0};
    if (rc == KVT_OK && corpus->open == 0)
        rc = fill_whole(subject, corpus, batch, took, err);
    else if (rc == KVT_OK)
        rc = fill_open(subject, corpus, batch, took, err);
    if (rc == KVT_OK)
        rc = measure_hand_over(subject, batch, took, err);
    subject_batch_free(batch);
    return rc;
}

enum kvt_err
measure_remove(struct subject *subject, const struct corpus *corpus, struct measure_took *took,
               struct kvt_error *err)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t hashes[CORPUS_CHAIN_MAX];
    uint32_t *order = kvt_calloc(corpus->chains, sizeof(*order));
    struct subject_batch *batch = NULL;
    enum kvt_err rc = order == NULL ? KVT_NOMEM : subject_batch_new(&batch);

    *took = (struct measure_took){.blocks = 0};
    if (rc == KVT_OK) {
        memcpy(order, corpus->order, corpus->chains * sizeof(*order));
        corpus_shuffle(order, corpus->chains, corpus->seed ^ 0xDEAD);
    }
    for (uint32_t i = 0; i < corpus->chains && rc == KVT_OK; i++) {
        const uint32_t count = corpus_locals(corpus, order[i], locals);

        corpus_sequence(locals, count, hashes);
        rc = subject_batch_remove(batch, corpus_worker_id(corpus_worker(corpus, order[i])), hashes,
                                  count);
        if (rc == KVT_OK)
            rc = hand_over_full(subject, batch, took, err);
    }
    if (rc == KVT_OK)
        rc = measure_hand_over(subject, batch, took, err);
    subject_batch_free(batch);
    kvt_free(order);
    return rc;
}

/* ---- checks ---- */

struct check {
    struct subject *subject;
    const struct corpus *corpus;
    struct index_find_result *found;
    struct index_match *matches;
    uint32_t *lengths; /* by holder number */
};

static enum kvt_err
check_chain(const struct check *check, uint32_t chain, struct kvt_error *err)
{
    const struct corpus *corpus = check->corpus;
    const bool shared = chain / corpus->workers < corpus->shared;
    const uint32_t wanted_count = shared ? corpus->workers : 1;
    uint64_t locals[CORPUS_CHAIN_MAX];
    const struct index_question question = {.hashes = locals,
                                            .count = corpus_locals(corpus, chain, locals),
                                            .ns = check->subject->ns,
                                            .key = INDEX_BY_TOKENS};
    enum kvt_err rc = index_find(check->subject->index, &question, check->found);
    size_t count;

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "a lookup failed");
    count = index_find_result_count(check->found);
    if (count != wanted_count ||
        index_find_result_best(check->found, check->matches, INDEX_HOLDERS_MAX) != count)
        return kvt_error_set(err, KVT_CORRUPT, "chain %" PRIu32 ": %zu holders, not %" PRIu32,
                             chain, count, wanted_count);
    memset(check->lengths, 0, INDEX_HOLDERS_MAX * sizeof(*check->lengths));
    for (size_t i = 0; i < count; i++)
        check->lengths[check->matches[i].holder] = check->matches[i].blocks;
    for (uint32_t worker = 0; worker < corpus->workers; worker++) {
        const bool mine = worker == chain % corpus->workers;
        const uint32_t wanted = mine ? corpus->length : shared ? corpus->length / 2 : 0;
        uint32_t holder;

        rc = subject_holder(check->subject, corpus_worker_id(corpus->first_worker + worker),
                            &holder);
        if (rc != KVT_OK || check->lengths[holder] != wanted)
            return kvt_error_set(err, KVT_CORRUPT,
                                 "chain %" PRIu32 ", worker %" PRIu32 ": %" PRIu32 ", not %" PRIu32,
                                 chain, worker, rc == KVT_OK ? check->lengths[holder] : 0, wanted);
    }
    return KVT_OK;
}

enum kvt_err
measure_check(struct subject *subject, const struct corpus *corpus, struct kvt_error *err)
{
    struct check check = {.subject = subject, .corpus = corpus};
    const uint32_t step = corpus->chains < CHECKED_CHAINS ? 1 : corpus->chains / CHECKED_CHAINS;
    enum kvt_err rc = index_find_result_new(&check.found);

    check.matches = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*check.matches));
    check.lengths = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*check.lengths));
    if (rc == KVT_OK && (check.matches == NULL || check.lengths == NULL))
        rc = KVT_NOMEM;
    for (uint32_t i = 0; i < CHECKED_CHAINS && i * step < corpus->chains && rc == KVT_OK; i++)
        rc = check_chain(&check, corpus->order[i * step], err);
    kvt_free(check.lengths);
    kvt_free(check.matches);
    index_find_result_free(check.found);
    return rc;
}
