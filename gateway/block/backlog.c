#include "gateway/block/backlog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "gateway/block/claim.h"
#include "gateway/block/claim_settle.h"
#include "gateway/block/repair.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/stats.h"

enum {
    IDLE_MS = 20,
    ROUND_MS = 10000, /* a round begins no upload after this: it holds the keys of all it began */
    SHOW_MS = 200,
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 10000,
};

/* One block of the page. */
struct load {
    struct gateway_key_lock hold;
    bool held;
    struct gateway_record record; /* as it is under the hold */
    enum gateway_tier tier;       /* of its file */
    struct g4_request hot;        /* the read of that */
    enum kvt_err read;            /* and how that ended */
};

struct gateway_backlog {
    struct gateway_context *context;
    struct gateway_backlog_options options;
    struct gateway_backlog_cursor cursor;
    uint64_t left; /* rows that this pass through the backlog is yet to see */
    struct gateway_row rows[GATEWAY_BACKLOG_PAGE];
    struct load loads[GATEWAY_BACKLOG_PAGE];
    struct gateway_claim claims[GATEWAY_BACKLOG_PAGE];
    struct gateway_change changes[GATEWAY_BACKLOG_PAGE];
    struct gateway_stats_traffic traffic;
    uint64_t random;
    uint64_t backoff_ms;
    uint64_t shown_ms;
    _Atomic uint64_t moved_ms; /* when an upload succeeded, or there was nothing to do, last */
    _Atomic enum kvt_err last;
    _Atomic bool stop;
    pthread_t thread;
    bool started;
};

enum kvt_err
gateway_backlog_new(struct gateway_backlog **out, struct gateway_context *context,
                    const struct gateway_backlog_options *options, struct kvt_error *err)
{
    struct gateway_backlog *backlog = kvt_calloc(1, sizeof(*backlog));

    *out = backlog;
    if (backlog == NULL)
        return kvt_error_set(err, KVT_NOMEM, "backlog");
    backlog->context = context;
    backlog->options = *options;
    backlog->traffic.stats = context->stats;
    backlog->random = kvt_clock_mono_ns();
    atomic_store(&backlog->moved_ms, kvt_clock_mono_ms());
    return KVT_OK;
}

/* Do requests come?  Then they go first, unless so much waits that they would soon have to wait for
 * the bucket themselves. */
static bool
is_busy(struct gateway_backlog *backlog)
{
    const bool asked = gateway_stats_traffic_seen(&backlog->traffic);
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(backlog->context->catalog, &stats);
    return asked && stats.owed_bytes <= backlog->context->write_back.backlog_max / 2;
}

static void
on_landed(void *arg, struct g4_request *request, size_t index)
{
    struct gateway_backlog *backlog = arg;
    struct gateway_claim *claim = &backlog->claims[index];

    gateway_claim_landed(backlog->context, claim, request);
    if (claim->state != GATEWAY_CLAIM_OCCUPIED) /* no need to look at the bytes again */
        gateway_body_release(&backlog->context->body_limits, &backlog->loads[index].hot);
}

/* Take the block, if nobody else has it and it still waits, and send it. */
static void
send(struct gateway_backlog *backlog, struct gateway_store_batch *flight, size_t index)
{
    struct gateway_context *context = backlog->context;
    const char *key = backlog->rows[index].key;
    struct load *load = &backlog->loads[index];

    *load = (struct load){.read = KVT_CANCELLED};
    backlog->claims[index] = (struct gateway_claim){.key = key};
    gateway_key_lock_init(&load->hold, key);
    load->held = gateway_key_lock_try(context->key_locks, &load->hold, 1);
    if (!load->held || gateway_catalog_get(context->catalog, key, &load->record) != KVT_OK ||
        !gateway_record_waits(&load->record))
        return;
    load->tier =
        gateway_tier_fastest(&context->tiers, load->record.tiers & GATEWAY_VOLUMES) == GATEWAY_WARM
            ? GATEWAY_TIER_WARM
            : GATEWAY_TIER_HOT;
    load->read = gateway_body_read_block(&context->body_limits,
                                         gateway_tier_volume(&context->tiers, 1u << load->tier),
                                         key, &load->record, &load->hot);
    if (load->read != KVT_OK)
        return;
    gateway_claim_init(&backlog->claims[index], key, &load->record, &load->hot);
    gateway_store_batch_renew(flight); /* it is no batch that somebody waits for */
    gateway_claim_send(context, flight, &backlog->claims[index], index);
    if (is_busy(backlog))
        gateway_store_batch_drain(flight);
}

/* The rows of what the bucket has by now.  One that a power cut takes back is owed again, and its
 * next upload finds the object. */
static size_t
publish(struct gateway_backlog *backlog, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct gateway_change *change = &backlog->changes[used];

        if (backlog->claims[i].state != GATEWAY_CLAIM_STORED)
            continue;
        *change = (struct gateway_change){.key = backlog->rows[i].key,
                                          .record = backlog->loads[i].record};
        change->record.owed = false;
        change->record.tiers |= backlog->claims[i].tier;
        memcpy(change->record.etag, backlog->claims[i].etag, sizeof(change->record.etag));
        used++;
    }
    if (gateway_catalog_change(backlog->context->catalog, backlog->changes, used,
                               GATEWAY_APPLIED) != KVT_OK)
        return 0;
    gateway_stats_add(backlog->context->stats, GATEWAY_STAT_BACKLOG_UPLOADED, used);
    return used;
}

/* Did it fail in a way that another try may mend?  */
static bool
has_failed(struct gateway_backlog *backlog, size_t index)
{
    const struct load *load = &backlog->loads[index];
    const struct gateway_claim *claim = &backlog->claims[index];
    enum kvt_err why = load->read;

    if (why == KVT_CANCELLED || why == KVT_CORRUPT || why == KVT_NOTFOUND)
        return false; /* not tried, or nothing to try it with */
    if (why == KVT_OK)
        why = claim->status;
    if (why == KVT_OK || (claim->state == GATEWAY_CLAIM_REFUSED && why == KVT_PRECONDITION))
        return false;
    atomic_store(&backlog->last, why);
    return true;
}

/* Let go of the block; one whose hot copy is bad, or that came second, is dealt with. */
static void
let_go(struct gateway_backlog *backlog, size_t index)
{
    struct gateway_context *context = backlog->context;
    const struct gateway_claim *claim = &backlog->claims[index];
    struct load *load = &backlog->loads[index];

    if (!load->held)
        return;
    if (claim->state == GATEWAY_CLAIM_REFUSED && claim->status == KVT_PRECONDITION)
        gateway_repair_second(context, claim->key, load->hot.buffer, load->hot.buffer_size);
    gateway_key_lock_release(context->key_locks, &load->hold, 1);
    if (load->read == KVT_CORRUPT)
        gateway_repair_file(context, claim->key, load->tier, load->hot.buffer,
                            load->hot.buffer_size, load->hot.error.text);
    else if (load->read == KVT_NOTFOUND)
        gateway_repair_file(context, claim->key, load->tier, NULL, 0, NULL);
    gateway_body_release(&context->body_limits, &load->hot);
}

/* The next rows, as many as there are.  A pass is over what waits when it begins: what comes
 * meanwhile is for the next one, or what failed would have no turn while there is load. */
static size_t
next_page(struct gateway_backlog *backlog)
{
    struct gateway_catalog *catalog = backlog->context->catalog;
    struct gateway_catalog_stats stats;
    size_t count = 0;

    if (backlog->left == 0) {
        gateway_catalog_stats(catalog, &stats);
        backlog->left = stats.owed_blocks;
        backlog->cursor = (struct gateway_backlog_cursor){0};
    }
    if (gateway_catalog_backlog(catalog, &backlog->cursor, backlog->rows, GATEWAY_BACKLOG_PAGE,
                                &count) != KVT_OK)
        return 0;
    return count;
}

/* The next page begins behind those that were seen; where none were, a pass begins. */
static void
turn_page(struct gateway_backlog *backlog, size_t seen)
{
    if (seen == 0 || seen >= backlog->left) {
        backlog->left = 0;
        return;
    }
    backlog->left -= seen;
    backlog->cursor.modified_ms = backlog->rows[seen - 1].record.modified_ms;
    memcpy(backlog->cursor.key, backlog->rows[seen - 1].key, sizeof(backlog->cursor.key));
}

void
gateway_backlog_round(struct gateway_backlog *backlog, struct gateway_backlog_round *round)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + ROUND_MS;
    struct gateway_context *context = backlog->context;
    struct gateway_store_batch *flight = NULL;
    size_t count = 0;

    *round = (struct gateway_backlog_round){0};
    if (context->tiers.hot != NULL && gateway_bucket_tier_writable(context->tiers.buckets))
        count = next_page(backlog);
    if (count > 0 &&
        gateway_store_batch_new(&flight, backlog->options.uploads, on_landed, backlog) != KVT_OK)
        count = 0;
    while (round->seen < count && !atomic_load(&context->stopping) && kvt_clock_mono_ms() < end_ms)
        send(backlog, flight, round->seen++);
    turn_page(backlog, round->seen);
    if (round->seen == 0) {
        gateway_store_batch_free(flight);
        return;
    }
    gateway_store_batch_free(flight);
    gateway_claim_settle(context, backlog->claims, round->seen);
    round->uploaded = publish(backlog, round->seen);
    for (size_t i = 0; i < round->seen; i++) {
        round->failed += has_failed(backlog, i) ? 1 : 0;
        let_go(backlog, i);
    }
    gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_FAILED, round->failed);
    if (round->uploaded > 0) {
        atomic_store(&backlog->moved_ms, kvt_clock_mono_ms());
        atomic_store(&backlog->last, KVT_OK);
    }
}

void
gateway_backlog_state(struct gateway_backlog *backlog, struct gateway_backlog_state *state)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct gateway_backlog_cursor first = {0};
    struct gateway_catalog_stats stats;
    struct gateway_row row;
    size_t count = 0;

    gateway_catalog_stats(backlog->context->catalog, &stats);
    *state = (struct gateway_backlog_state){.blocks = stats.owed_blocks,
                                            .bytes = stats.owed_bytes,
                                            .last = atomic_load(&backlog->last)};
    if (gateway_catalog_backlog(backlog->context->catalog, &first, &row, 1, &count) != KVT_OK ||
        count == 0)
        return;
    if (row.record.modified_ms < now_ms)
        state->oldest_ms = now_ms - row.record.modified_ms;
    state->stuck =
        kvt_clock_mono_ms() - atomic_load(&backlog->moved_ms) > backlog->options.stuck_ms;
}

static void
show(struct gateway_backlog *backlog)
{
    struct gateway_stats *stats = backlog->context->stats;
    struct gateway_backlog_state state;

    if (kvt_clock_mono_ms() - backlog->shown_ms < SHOW_MS)
        return;
    backlog->shown_ms = kvt_clock_mono_ms();
    gateway_backlog_state(backlog, &state);
    if (state.blocks == 0)
        atomic_store(&backlog->moved_ms, kvt_clock_mono_ms());
    gateway_stats_set(stats, GATEWAY_STAT_BACKLOG_BLOCKS, state.blocks);
    gateway_stats_set(stats, GATEWAY_STAT_BACKLOG_BYTES, state.bytes);
    gateway_stats_set(stats, GATEWAY_STAT_BACKLOG_AGE, state.oldest_ms / 1000);
}

/* How long until the next round: not at all while it goes well. */
static uint64_t
pause_ms(struct gateway_backlog *backlog, const struct gateway_backlog_round *round)
{
    if (round->uploaded > 0) {
        backlog->backoff_ms = 0;
        return 0;
    }
    if (round->failed == 0)
        return IDLE_MS;
    backlog->backoff_ms = backlog->backoff_ms == 0 ? BACKOFF_MIN_MS : 2 * backlog->backoff_ms;
    if (backlog->backoff_ms > BACKOFF_MAX_MS)
        backlog->backoff_ms = BACKOFF_MAX_MS;
    kvt_log_warn("gateway.backlog", "uploads_failed", "%zu blocks stay in the backlog: %s",
                 round->failed, kvt_err_text(atomic_load(&backlog->last)));
    return IDLE_MS + kvt_random_below(&backlog->random, backlog->backoff_ms);
}

static void *
backlog_main(void *arg)
{
    struct gateway_backlog *backlog = arg;

    while (!atomic_load(&backlog->stop)) {
        struct gateway_backlog_round round;
        uint64_t until_ms;

        gateway_backlog_round(backlog, &round);
        until_ms = kvt_clock_mono_ms() + pause_ms(backlog, &round);
        show(backlog);
        while (kvt_clock_mono_ms() < until_ms && !atomic_load(&backlog->stop)) {
            kvt_clock_sleep_ms(IDLE_MS);
            show(backlog);
        }
    }
    return NULL;
}

enum kvt_err
gateway_backlog_start(struct gateway_backlog *backlog, struct kvt_error *err)
{
    const int sys = pthread_create(&backlog->thread, NULL, backlog_main, backlog);

    if (sys != 0)
        return kvt_error_sys(err, sys, "start the uploads of the backlog");
    backlog->started = true;
    return KVT_OK;
}

void
gateway_backlog_stop(struct gateway_backlog *backlog)
{
    if (backlog == NULL)
        return;
    atomic_store(&backlog->stop, true);
    if (backlog->started)
        (void)pthread_join(backlog->thread, NULL);
    kvt_free(backlog);
}
