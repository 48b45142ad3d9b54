#include "bench/index/corpus.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

enum {
    CHAIN_SEED = 1337, /* of Dynamo's chain of sequence hashes */
    SEQUENCES_MIN = 4,
    SEQUENCES_MAX = 4096,
    CHURN_WORKERS = 64,
    CHURN_CHAIN = 64,
    CHURN_PER_WORKER = 64,
    CHURN_FIRST_WORKER = 1 << 20,
    CHURN_SEED = 0xC4,
};

#define STREAM_SHARED (UINT64_C(1) << 63)
#define STREAM_OWN    (UINT64_C(1) << 62)

uint64_t
corpus_mix(uint64_t x)
{
    uint64_t z = x + UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t
corpus_local(uint64_t seed, uint64_t stream, uint64_t position)
{
    return corpus_mix(corpus_mix(seed ^ stream) + position);
}

uint64_t
corpus_worker_id(uint32_t worker)
{
    return corpus_mix(UINT64_C(0x5745) + worker) >> 11;
}

void
corpus_shuffle(uint32_t *items, uint32_t count, uint64_t seed)
{
    for (uint32_t i = count; i-- > 1;) {
        const uint64_t other = corpus_mix(seed ^ i) % (i + UINT64_C(1));
        const uint32_t item = items[i];

        items[i] = items[other];
        items[other] = item;
    }
}

void
corpus_sequence(const uint64_t *locals, uint32_t count, uint64_t *hashes)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t link[2] = {i == 0 ? 0 : hashes[i - 1], locals[i]};

        hashes[i] = i == 0 ? locals[0] : XXH3_64bits_withSeed(link, sizeof(link), CHAIN_SEED);
    }
}

static enum kvt_err
make_order(struct corpus *corpus)
{
    corpus->chains = corpus->workers * corpus->per_worker;
    corpus->order = kvt_calloc(corpus->chains, sizeof(*corpus->order));
    if (corpus->order == NULL)
        return KVT_NOMEM;
    for (uint32_t i = 0; i < corpus->chains; i++)
        corpus->order[i] = i;
    corpus_shuffle(corpus->order, corpus->chains, corpus->seed);
    return KVT_OK;
}

enum kvt_err
corpus_load(struct corpus *corpus, const char *load, size_t memberships, uint64_t seed)
{
    static const struct {
        const char *name;
        uint32_t workers;
        uint32_t length;
        uint32_t open;
        double share;
    } loads[] = {
        {"A", 256, 64, 0, 0.5},
        {"B", 256, 64, 0, 0},
        {"C", 256, 64, 1024, 0.5},
        {"D", 64, 1024, 0, 0.5},
    };

    *corpus = (struct corpus){.seed = seed, .shape = CORPUS_CHAINS};
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        const size_t each = memberships / ((size_t)loads[i].workers * loads[i].length);

        if (strcmp(loads[i].name, load) != 0)
            continue;
        corpus->workers = loads[i].workers;
        corpus->length = loads[i].length;
        corpus->open = loads[i].open;
        corpus->per_worker = each == 0 ? 1 : (uint32_t)each;
        corpus->shared = (uint32_t)round(corpus->per_worker * loads[i].share);
        return make_order(corpus);
    }
    return KVT_INVALID;
}

enum kvt_err
corpus_churn(struct corpus *corpus, uint64_t seed)
{
    *corpus = (struct corpus){
        /* Streams are XORed into seeds: this one must be far from the other corpus's. */
        .seed = corpus_mix(seed ^ CHURN_SEED),
        .shape = CORPUS_CHAINS,
        .workers = CHURN_WORKERS,
        .first_worker = CHURN_FIRST_WORKER,
        .length = CHURN_CHAIN,
        .per_worker = CHURN_PER_WORKER,
        .shared = CHURN_PER_WORKER / 2,
    };
    return make_order(corpus);
}

enum kvt_err
corpus_points(struct corpus *corpus, uint32_t depth, uint32_t holders, const char *shape,
              size_t memberships, uint64_t seed)
{
    size_t sequences;

    *corpus = (struct corpus){.seed = seed, .workers = holders, .length = depth};
    if (strcmp(shape, "full") == 0)
        corpus->shape = CORPUS_FULL;
    else if (strcmp(shape, "cutoff") == 0)
        corpus->shape = CORPUS_CUTOFF;
    else if (strcmp(shape, "branch") == 0)
        corpus->shape = CORPUS_BRANCHED;
    else
        return KVT_INVALID;
    if (depth < CORPUS_BRANCH || depth + CORPUS_BRANCH > CORPUS_CHAIN_MAX || holders == 0)
        return KVT_INVALID;
    sequences = memberships / ((size_t)depth * holders);
    if (sequences < SEQUENCES_MIN)
        sequences = SEQUENCES_MIN;
    if (sequences > SEQUENCES_MAX)
        sequences = SEQUENCES_MAX;
    corpus->per_worker = (uint32_t)sequences;
    return make_order(corpus);
}

void
corpus_release(struct corpus *corpus)
{
    kvt_free(corpus->order);
    *corpus = (struct corpus){.order = NULL};
}

uint32_t
corpus_worker(const struct corpus *corpus, uint32_t chain)
{
    return corpus->first_worker + chain % corpus->workers;
}

uint32_t
corpus_depth(const struct corpus *corpus, uint32_t sequence, uint32_t holder)
{
    const uint64_t draw = corpus_mix(corpus->seed ^ corpus_mix((uint64_t)sequence << 32 | holder));

    switch (corpus->shape) {
    case CORPUS_CUTOFF: return 1 + (uint32_t)(draw % corpus->length);
    case CORPUS_BRANCHED:
        return CORPUS_BRANCH * (1 + (uint32_t)(draw % (corpus->length / CORPUS_BRANCH)));
    case CORPUS_CHAINS:
    case CORPUS_FULL: break;
    }
    return corpus->length;
}

uint32_t
corpus_locals(const struct corpus *corpus, uint32_t chain, uint64_t locals[CORPUS_CHAIN_MAX])
{
    const uint32_t row = chain / corpus->workers;
    const uint32_t worker = chain % corpus->workers;
    uint32_t common;
    uint32_t own;

    /* The beginning is the row's, the rest the chain's; rest positions count on, or from 0. */
    if (corpus->shape == CORPUS_CHAINS) {
        common = row < corpus->shared ? corpus->length / 2 : 0;
        own = corpus->length - common;
    } else {
        common = corpus_depth(corpus, row, worker);
        own = corpus->shape == CORPUS_BRANCHED ? CORPUS_BRANCH : 0;
    }
    assert(common + own <= CORPUS_CHAIN_MAX);
    for (uint32_t i = 0; i < common; i++)
        locals[i] = corpus_local(corpus->seed, STREAM_SHARED | row, i);
    for (uint32_t i = 0; i < own; i++)
        locals[common + i] = corpus->shape == CORPUS_CHAINS
                                 ? corpus_local(corpus->seed, chain, common + i)
                                 : corpus_local(corpus->seed, STREAM_OWN | chain, i);
    return common + own;
}

void
corpus_query(const struct corpus *corpus, uint32_t sequence, uint64_t *locals)
{
    for (uint32_t i = 0; i < corpus->length; i++)
        locals[i] = corpus_local(corpus->seed, STREAM_SHARED | sequence, i);
}

void
corpus_checksum(const struct corpus *corpus, size_t *memberships, uint64_t *sum)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t hashes[CORPUS_CHAIN_MAX];

    *memberships = 0;
    *sum = 0;
    for (uint32_t i = 0; i < corpus->chains; i++) {
        const uint32_t count = corpus_locals(corpus, i, locals);

        corpus_sequence(locals, count, hashes);
        *memberships += count;
        *sum += hashes[count - 1];
    }
}
