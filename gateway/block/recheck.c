#include "gateway/block/recheck.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"
#include "gateway/block/repair.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_context.h"
#include "gateway/tier/store_batch.h"

enum {
    ROUND_MAX = 64, /* keys asked about at once */
    TIME_BITS = 24, /* of a slot: tenths of a second, which come round in 19 days */
    TENTH_MS = 100,
    WAIT_MS = 500,
};

#define TIME_MASK ((UINT64_C(1) << TIME_BITS) - 1)

struct gateway_recheck {
    uint64_t after;                                /* tenths of a second; 0: nothing is doubted */
    _Atomic uint64_t slots[GATEWAY_RECHECK_SLOTS]; /* high bits of the key's hash, then when */
    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t changed;
        char keys[GATEWAY_RECHECK_MAX][KVT_KEY_MAX];
        size_t first;
        size_t count;
        bool stop;
    } shared;
    pthread_t thread;
    bool started;
};

enum kvt_err
gateway_recheck_new(struct gateway_recheck **out, uint64_t after_ms)
{
    struct gateway_recheck *doubts = kvt_calloc(1, sizeof(*doubts));

    *out = NULL;
    if (doubts == NULL)
        return KVT_NOMEM;
    doubts->after = (after_ms + TENTH_MS - 1) / TENTH_MS;
    if (doubts->after > TIME_MASK / 2)
        doubts->after = TIME_MASK / 2;
    if (pthread_mutex_init(&doubts->shared.lock, NULL) != 0) {
        kvt_free(doubts);
        return KVT_NOMEM;
    }
    if (!kvt_cond_init(&doubts->shared.changed)) {
        (void)pthread_mutex_destroy(&doubts->shared.lock);
        kvt_free(doubts);
        return KVT_NOMEM;
    }
    *out = doubts;
    return KVT_OK;
}

void
gateway_recheck_free(struct gateway_recheck *doubts)
{
    if (doubts == NULL)
        return;
    (void)pthread_cond_destroy(&doubts->shared.changed);
    (void)pthread_mutex_destroy(&doubts->shared.lock);
    kvt_free(doubts);
}

static _Atomic uint64_t *
slot_of(struct gateway_recheck *doubts, uint64_t hash)
{
    return &doubts->slots[hash % GATEWAY_RECHECK_SLOTS];
}

/* What a slot holds for a key of which the bucket has spoken just now. */
static uint64_t
mark_of(uint64_t hash)
{
    return (hash & ~TIME_MASK) | ((kvt_clock_mono_ms() / TENTH_MS + 1) & TIME_MASK);
}

void
gateway_recheck_seen(struct gateway_recheck *doubts, const char *key)
{
    const uint64_t hash = XXH3_64bits(key, strlen(key));

    if (doubts->after != 0)
        atomic_store_explicit(slot_of(doubts, hash), mark_of(hash), memory_order_relaxed);
}

/* It is doubted again when it is touched again. */
static void
set_unseen(struct gateway_recheck *doubts, const char *key)
{
    atomic_store_explicit(slot_of(doubts, XXH3_64bits(key, strlen(key))), 0, memory_order_relaxed);
}

static bool
push(struct gateway_recheck *doubts, const char *key)
{
    size_t at;
    bool room;

    (void)pthread_mutex_lock(&doubts->shared.lock);
    room = doubts->shared.count < GATEWAY_RECHECK_MAX;
    if (room) {
        at = (doubts->shared.first + doubts->shared.count++) % GATEWAY_RECHECK_MAX;
        memcpy(doubts->shared.keys[at], key, strlen(key) + 1);
        (void)pthread_cond_signal(&doubts->shared.changed);
    }
    (void)pthread_mutex_unlock(&doubts->shared.lock);
    return room;
}

void
gateway_recheck_touch(struct gateway_recheck *doubts, const char *key)
{
    const uint64_t hash = XXH3_64bits(key, strlen(key));
    _Atomic uint64_t *slot = slot_of(doubts, hash);
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    const uint64_t mark = mark_of(hash);

    if (doubts->after == 0)
        return;
    if ((seen & ~TIME_MASK) == (hash & ~TIME_MASK) && seen != 0 &&
        ((mark - seen) & TIME_MASK) < doubts->after)
        return;
    /* Of several who come at once one asks. */
    if (atomic_compare_exchange_strong_explicit(slot, &seen, mark, memory_order_relaxed,
                                                memory_order_relaxed) &&
        !push(doubts, key))
        set_unseen(doubts, key);
}

/* ---- asking ---- */

enum answer {
    ANSWER_NONE, /* it was not asked, or did not say */
    ANSWER_THERE,
    ANSWER_GONE,
    ANSWER_OTHER,     /* not the block of the row */
    ANSWER_ELSEWHERE, /* in the other bucket */
};

struct round {
    struct gateway_context *context;
    char keys[ROUND_MAX][KVT_KEY_MAX];
    enum answer answers[ROUND_MAX];
    size_t count;
};

static void
on_head(void *arg, struct g4_request *request, size_t index)
{
    struct round *round = arg;
    struct gateway_record record;

    if (request->status == KVT_NOTFOUND) {
        round->answers[index] = ANSWER_GONE;
        return;
    }
    if (gateway_bucket_tier_ended(round->context->tiers.buckets, request->status) != KVT_OK)
        return;
    round->answers[index] = ANSWER_THERE;
    if (gateway_catalog_get(round->context->catalog, request->key, &record) != KVT_OK)
        return;
    if (gateway_repair_is_other(round->context, &record, request))
        round->answers[index] = ANSWER_OTHER;
    else if (gateway_record_elsewhere(&record, request))
        round->answers[index] = ANSWER_ELSEWHERE;
}

static void
act(struct gateway_context *context, const char *key, enum answer answer)
{
    switch (answer) {
    case ANSWER_THERE: gateway_recheck_seen(context->recheck, key); break;
    case ANSWER_GONE: gateway_repair_gone(context, key); break;
    case ANSWER_OTHER: gateway_repair_other(context, key); break;
    case ANSWER_ELSEWHERE: (void)gateway_repair_elsewhere(context, key); break;
    case ANSWER_NONE: set_unseen(context->recheck, key); break;
    }
}

static void
take(struct gateway_recheck *doubts, struct round *round)
{
    (void)pthread_mutex_lock(&doubts->shared.lock);
    while (doubts->shared.count > 0 && round->count < ROUND_MAX) {
        memcpy(round->keys[round->count++], doubts->shared.keys[doubts->shared.first], KVT_KEY_MAX);
        doubts->shared.first = (doubts->shared.first + 1) % GATEWAY_RECHECK_MAX;
        doubts->shared.count--;
    }
    (void)pthread_mutex_unlock(&doubts->shared.lock);
}

size_t
gateway_recheck_round(struct gateway_context *context)
{
    struct round *round = kvt_calloc(1, sizeof(*round));
    struct gateway_store_batch *flight = NULL;
    size_t count = 0;

    if (round == NULL)
        return 0;
    round->context = context;
    take(context->recheck, round);
    if (round->count > 0 && gateway_bucket_tier_healthy(context->tiers.buckets) &&
        gateway_store_batch_new(&flight, round->count, on_head, round) == KVT_OK) {
        for (count = 0; count < round->count; count++)
            gateway_store_batch_head(flight, gateway_bucket_tier_store(context->tiers.buckets),
                                     round->keys[count], count);
        gateway_store_batch_drain(flight);
    }
    gateway_store_batch_free(flight);
    for (size_t i = 0; i < round->count; i++)
        act(context, round->keys[i], round->answers[i]);
    kvt_free(round);
    return count;
}

/* ---- the thread ---- */

static bool
wait_for_some(struct gateway_recheck *doubts, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool go_on;

    (void)pthread_mutex_lock(&doubts->shared.lock);
    if (doubts->shared.count == 0 && !doubts->shared.stop)
        (void)kvt_cond_wait(&doubts->shared.changed, &doubts->shared.lock, &deadline);
    go_on = !doubts->shared.stop;
    (void)pthread_mutex_unlock(&doubts->shared.lock);
    return go_on;
}

static void *
doubts_main(void *arg)
{
    struct gateway_context *context = arg;

    while (wait_for_some(context->recheck, WAIT_MS))
        /* A round that asked nothing had no memory, or the bucket is away. */
        kvt_clock_sleep_ms(1 + gateway_recheck_round(context) * 1000 / GATEWAY_RECHECK_RATE);
    return NULL;
}

enum kvt_err
gateway_recheck_start(struct gateway_context *context, struct kvt_error *err)
{
    const int sys = pthread_create(&context->recheck->thread, NULL, doubts_main, context);

    if (sys != 0)
        return kvt_error_sys(err, sys, "start asking the bucket what it still has");
    context->recheck->started = true;
    return KVT_OK;
}

void
gateway_recheck_stop(struct gateway_context *context)
{
    struct gateway_recheck *doubts = context->recheck;

    if (!doubts->started)
        return;
    (void)pthread_mutex_lock(&doubts->shared.lock);
    doubts->shared.stop = true;
    (void)pthread_cond_signal(&doubts->shared.changed);
    (void)pthread_mutex_unlock(&doubts->shared.lock);
    (void)pthread_join(doubts->thread, NULL);
    doubts->started = false;
}
