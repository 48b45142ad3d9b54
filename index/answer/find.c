#include <assert.h>
#include <endian.h>
#include <xxhash.h>

#include "index/answer/find_result.h"
#include "index/block/state.h"

/*
 * The way of a question: the first block through the table, then down its run as long as hashes
 * agree, then the next block through the table again.  By token hashes, only a block that is looked
 * up needs its sequence hash, so that is one hash for a run and not one for a block.
 */

enum { CHAIN_SEED = 1337, LINE = 64, BOX_LINES = 5 };

struct way {
    struct index *index;
    const struct index_question *question;
    struct index_find_result *found;
    size_t at;      /* hashes of the question that were found */
    uint64_t hash;  /* sequence hash of the next one */
    uint32_t guess; /* its number, as the table's tags have it */
    bool more;
};

/* Sequence hash of a block, by Dynamo's chain. */
static uint64_t
chain(uint64_t before, uint64_t tokens)
{
    const uint64_t both[2] = {htole64(before), htole64(tokens)};

    return XXH3_64bits_withSeed(both, sizeof(both), CHAIN_SEED);
}

static inline uint64_t
differ(const _Atomic uint64_t *have, const uint64_t *wanted)
{
    return atomic_load_explicit(have, memory_order_relaxed) ^ *wanted;
}

/* How many hashes are the same, `max` at most. */
static uint32_t
same(const _Atomic uint64_t *have, const uint64_t *wanted, uint32_t max)
{
    const uint64_t *const begin = wanted;
    const uint64_t *const end = wanted + max;

    for (; end - wanted >= 8; have += 8, wanted += 8) {
        const uint64_t low = differ(have, wanted) | differ(have + 1, wanted + 1) |
                             differ(have + 2, wanted + 2) | differ(have + 3, wanted + 3);
        const uint64_t high = differ(have + 4, wanted + 4) | differ(have + 5, wanted + 5) |
                              differ(have + 6, wanted + 6) | differ(have + 7, wanted + 7);

        if ((low | high) != 0)
            break;
    }
    while (wanted < end && differ(have, wanted) == 0) {
        have++;
        wanted++;
    }
    return (uint32_t)(wanted - begin);
}

/* Token hashes that are not known are 0, which a question's hash may be by chance: that block is
 * looked up. */
static uint32_t
known(const uint64_t *wanted, uint32_t count)
{
    uint32_t at = 1;

    while (at < count && wanted[at] != 0)
        at++;
    return at;
}

/* What the last look at a run needs, long before it. */
static void
prefetch_holding(const struct index_run_holders *holders)
{
    const char *list = (const char *)index_holder_list_of(holders);

    if (list != NULL)
        for (int i = 0; i < BOX_LINES; i++)
            __builtin_prefetch(list + (ptrdiff_t)i * LINE);
}

/* Find out what comes after the `count` blocks from `number` on, and start loading it. */
static uint64_t
look_ahead(struct way *way, uint32_t number, uint32_t count)
{
    const struct index_question *question = way->question;
    const struct index_run_allocator *allocator = &way->index->allocator;
    const bool by_tokens = question->key == INDEX_BY_TOKENS;
    uint64_t next = question->hashes[way->at + count];
    const struct index_run *run;
    uint32_t offset;

    if (by_tokens)
        next = chain(index_state_seq(way->index, number + count - 1), next);
    way->guess = index_table_guess(&index_state_namespace(way->index, question->ns)->table,
                                   index_state_mix(way->index, next));
    if (way->guess == 0)
        return next;
    __builtin_prefetch(&allocator->seq[way->guess]);
    if (by_tokens)
        __builtin_prefetch(&allocator->tok[way->guess]);
    run = index_state_run(way->index, way->guess, &offset);
    if (run != NULL)
        __builtin_prefetch(run);
    return next;
}

enum look { LOOK_DONE, LOOK_CHANGED, LOOK_NOMEM };

/* Follow one run from block `number` on; LOOK_CHANGED: it changed meanwhile. */
static enum look
follow(struct way *way, uint32_t number)
{
    const struct index_question *question = way->question;
    const struct index_run_allocator *allocator = &way->index->allocator;
    const bool by_tokens = question->key == INDEX_BY_TOKENS;
    const _Atomic uint64_t *hashes = by_tokens ? allocator->tok : allocator->seq;
    uint32_t offset;
    const struct index_run *run = index_state_run(way->index, number, &offset);
    uint32_t version;
    uint32_t length;
    uint32_t count = 1;
    uint64_t next = 0;

    if (run == NULL)
        return LOOK_CHANGED;
    version = index_run_read(run);
    length = atomic_load_explicit(&run->length, memory_order_relaxed);
    if ((version & 1) != 0 || offset >= length ||
        atomic_load_explicit(&run->ns, memory_order_relaxed) != question->ns ||
        index_state_seq(way->index, number) != way->hash)
        return LOOK_CHANGED;
    prefetch_holding(&run->holders);
    length -= offset;
    if (length > question->count - way->at)
        length = (uint32_t)(question->count - way->at);
    else if (by_tokens) /* what comes after the whole run takes its last hash */
        __builtin_prefetch(&allocator->seq[number + length - 1]);
    count += same(hashes + number + 1, question->hashes + way->at + 1, length - 1);
    if (by_tokens &&
        (atomic_load_explicit(&run->flags, memory_order_relaxed) & INDEX_RUN_TOKENS) == 0)
        count = known(question->hashes + way->at, count);
    way->guess = 0;
    if (way->at + count < question->count)
        next = look_ahead(way, number, count);
    if (index_find_result_narrow(way->found, &run->holders, offset, offset + count,
                                 (uint32_t)way->at) != KVT_OK)
        return LOOK_NOMEM;
    if (!index_run_unchanged(run, version))
        return LOOK_CHANGED;
    way->at += count;
    way->hash = next;
    index_find_result_accept(way->found, (uint32_t)way->at);
    way->more = way->at < question->count &&
                index_find_result_followers(way->found) > (question->early_exit ? 1 : 0);
    return LOOK_DONE;
}

/* Go as far as it goes; LOOK_CHANGED: one run changed all the time. */
static enum look
go(struct way *way)
{
    unsigned tries = 0;

    while (way->more) {
        uint32_t number = way->guess;
        enum look look;

        if (number == 0 || index_state_seq(way->index, number) != way->hash)
            number = index_state_find(way->index, way->question->ns, way->hash);
        if (number == 0)
            break;
        look = follow(way, number);
        if (look == LOOK_NOMEM || (look == LOOK_CHANGED && ++tries == INDEX_READ_RETRIES))
            return look;
        if (look == LOOK_DONE)
            tries = 0;
        else
            way->guess = 0; /* it is another block's by now, or was never this one's */
    }
    return LOOK_DONE;
}

enum kvt_err
index_find(struct index *index, const struct index_question *question,
           struct index_find_result *found)
{
    struct way way = {.index = index, .question = question, .found = found};
    enum look look;
    unsigned slot;

    assert(index != NULL && question != NULL && found != NULL);
    assert(question->hashes != NULL || question->count == 0);
    index_find_result_begin(found);
    if (question->count == 0)
        return KVT_OK;
    way.more = true;
    way.hash = question->hashes[0]; /* by tokens too: that is where the chain starts */
    slot = index_epoch_enter(&index->epoch);
    look = go(&way);
    index_epoch_leave(&index->epoch, slot);
    if (look == LOOK_CHANGED) {
        (void)pthread_mutex_lock(&index->lock);
        look = go(&way);
        (void)pthread_mutex_unlock(&index->lock);
        assert(look != LOOK_CHANGED);
    }
    if (look == LOOK_DONE)
        return KVT_OK;
    index_find_result_begin(found);
    return KVT_NOMEM;
}
