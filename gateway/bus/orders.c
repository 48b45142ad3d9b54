#include "gateway/bus/orders.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "gateway/block/removal.h"
#include "gateway/bus/delete_guard.h"
#include "gateway/move/move.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/packer.h"
#include "wire/message/signed_order.h"
#include "wire/message/subject.h"
#include "wire/nats/stream.h"

enum {
    FETCH_WAIT_MS = 500,
    AWAY_WAIT_MS = 500,
    WORKING_MS = 10000, /* how often the queue is told that an order is still being worked on */
    MATCHES_MAX = 8,
    KEYS_MAX = 4096,
    LEAVING_PAGE = 256,   /* rows */
    LEAVING_PAGES = 4096, /* more rows to be settled: no order makes room before that */
};

struct gateway_orders {
    struct gateway_context *context;
    struct wire_bus *bus;
    struct gateway_bus_report *report;
    struct wire_key_ring keys;
    struct gateway_mover *mover;
    struct wire_stream *stream;
    struct kvt_order_item *items; /* KVT_ORDER_ITEMS_MAX */
    struct wire_message *messages[GATEWAY_ORDERS_FETCH];
    size_t first; /* of the messages fetched and not yet done */
    size_t count;
    uint64_t told_ms; /* when the queue heard of them last */
    _Atomic size_t queued;
    _Atomic bool stop;
    pthread_t thread;
    bool started;
};

/* ---- which objects an item means ---- */

/* The key of one shard as the catalog spells it.  The advisor may not know the parent (or know it
 * only whole), and the key carries a fragment of it: so the row is looked up by everything before
 * it. KVT_NOTFOUND: no such row. */
static enum kvt_err
find_key(struct gateway_context *context, const char *namespace_, const struct kvt_block_id *block,
         uint32_t rank, char out[KVT_KEY_MAX])
{
    struct gateway_row rows[MATCHES_MAX];
    struct gateway_scan scan = {.rows = rows, .capacity = MATCHES_MAX};
    const uint64_t parent =
        kvt_key_parent_fragment(context->identity.revision, block->position, block->parent);
    char prefix[KVT_KEY_MAX];
    char *colon;
    enum kvt_err rc;

    rc =
        kvt_key_format(prefix, sizeof(prefix), context->identity.revision, namespace_, rank, block);
    if (rc != KVT_OK)
        return rc;
    colon = strrchr(prefix, ':');
    if (block->position > 0 && colon != NULL)
        colon[1] = '\0';
    scan.prefix = prefix;
    rc = gateway_catalog_scan(context->catalog, &scan);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < scan.count; i++) {
        struct kvt_key key;

        if (kvt_key_parse(rows[i].key, &key) != KVT_OK || key.position != block->position)
            continue;
        if (block->position == 0 && strcmp(rows[i].key, prefix) != 0)
            continue;
        if (block->position > 0 && block->parent != 0 && key.parent_fragment != parent)
            continue;
        memcpy(out, rows[i].key, KVT_KEY_MAX);
        return KVT_OK;
    }
    return KVT_NOTFOUND;
}

/* ---- executing ---- */

struct execution {
    struct gateway_context *context;
    const struct kvt_order *order;
    struct gateway_move move; /* of a verb that moves */
    void (*working)(void *arg);
    void *arg;
    uint64_t told_ms;
    uint32_t pinned[KVT_ORDER_ITEMS_MAX];  /* of each item the shards that stay as they are */
    uint32_t refused[KVT_ORDER_ITEMS_MAX]; /* of each item the shards that may not be deleted */
    const char *refused_why;               /* the first of them */
    struct {
        pthread_mutex_t lock;            /* guards what is behind it */
        struct kvt_order_result *result; /* its counts and its text */
    } shared;
};

/* What became of one item. */
struct outcome {
    enum kvt_err worst;
    uint64_t bytes;
    char text[sizeof(((struct kvt_order_result *)NULL)->text)]; /* of the first failure */
};

static void
tell(void *arg)
{
    struct execution *execution = arg;
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (execution->working == NULL || now_ms - execution->told_ms < WORKING_MS)
        return;
    execution->told_ms = now_ms;
    execution->working(execution->arg);
}

static void
note(char text[], size_t size, const char *what, const char *why)
{
    if (text[0] == '\0')
        (void)snprintf(text, size, "%.90s: %s", what, why);
}

static enum kvt_err
move_one(const struct execution *execution, const char *key, uint64_t *bytes)
{
    *bytes = 0;
    switch (execution->order->verb) {
    case KVT_ORDER_DEMOTE:
    case KVT_ORDER_PROMOTE:
    case KVT_ORDER_WARM: return gateway_move(execution->context, key, &execution->move, bytes);
    case KVT_ORDER_DELETE: return gateway_removal_finish(execution->context, key, bytes);
    case KVT_ORDER_PIN:
        return gateway_catalog_pin(execution->context->catalog, key, execution->order->until_ms);
    case KVT_ORDER_UNPIN: return gateway_catalog_unpin(execution->context->catalog, key);
    case KVT_ORDER_COMPACT: /* is of no block */
    case KVT_ORDER_NONE: break;
    }
    return KVT_INVALID;
}

static void
count_outcome(struct execution *execution, const struct outcome *outcome)
{
    struct kvt_order_result *result = execution->shared.result;

    (void)pthread_mutex_lock(&execution->shared.lock);
    if (outcome->worst == KVT_OK)
        result->done++;
    else
        result->failed++;
    result->bytes_moved += outcome->bytes;
    if (outcome->worst != KVT_OK && result->text[0] == '\0')
        memcpy(result->text, outcome->text, sizeof(result->text));
    (void)pthread_mutex_unlock(&execution->shared.lock);
}

/* What is not there needs nothing done by these. */
static bool
absence_is_done(enum kvt_order_verb verb)
{
    return verb == KVT_ORDER_DEMOTE || verb == KVT_ORDER_DELETE || verb == KVT_ORDER_UNPIN;
}

/* Of an item that failed with `rc`, for people. */
static const char *
why(const struct execution *execution, size_t index, uint32_t bit, enum kvt_err rc)
{
    if ((execution->pinned[index] & bit) != 0)
        return "pinned";
    if ((execution->refused[index] & bit) != 0)
        return execution->refused_why;
    if (rc == KVT_FULL && execution->order->verb == KVT_ORDER_PIN)
        return "over half of the hot capacity";
    return kvt_err_text(rc);
}

/* All shards of one block. */
static uint64_t
execute_item(void *arg, size_t index)
{
    struct execution *execution = arg;
    const struct kvt_order_item *item = &execution->order->items[index];
    struct outcome outcome = {.worst = KVT_OK};

    for (uint32_t rank = 0; rank < KVT_RANKS_MAX; rank++) {
        const uint32_t bit = UINT32_C(1) << rank;
        char key[KVT_KEY_MAX];
        uint64_t bytes = 0;
        enum kvt_err rc;

        if ((item->ranks & bit) == 0)
            continue;
        rc = find_key(execution->context, execution->order->namespace_, &item->block, rank, key);
        if (rc == KVT_OK && ((execution->pinned[index] | execution->refused[index]) & bit) != 0)
            rc = KVT_DENIED;
        else if (rc == KVT_OK)
            rc = move_one(execution, key, &bytes);
        else
            kvt_hash_format(item->block.hash, key);
        outcome.bytes += bytes;
        if (rc == KVT_OK || (rc == KVT_NOTFOUND && absence_is_done(execution->order->verb)))
            continue;
        outcome.worst = rc;
        note(outcome.text, sizeof(outcome.text), key, why(execution, index, bit, rc));
    }
    if (execution->pinned[index] != 0)
        gateway_stats_add(execution->context->stats, GATEWAY_STAT_ITEMS_PINNED, 1);
    count_outcome(execution, &outcome);
    return outcome.bytes;
}

/* Which shards stay as they are.  Looked up before anything is done: one whose pin ends in the
 * middle is not marked for its removal, and must not be called removed either. */
static enum kvt_err
find_pinned(struct execution *execution)
{
    const struct kvt_order *order = execution->order;
    struct gateway_catalog *catalog = execution->context->catalog;
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(catalog, &stats);
    for (uint32_t i = 0; i < order->item_count && stats.pinned_blocks > 0; i++) {
        for (uint32_t rank = 0; rank < KVT_RANKS_MAX; rank++) {
            const uint32_t bit = UINT32_C(1) << rank;
            char key[KVT_KEY_MAX];
            uint64_t until_ms;
            enum kvt_err rc;

            if ((order->items[i].ranks & bit) == 0 ||
                find_key(execution->context, order->namespace_, &order->items[i].block, rank,
                         key) != KVT_OK)
                continue;
            rc = gateway_catalog_pinned(catalog, key, now_ms, &until_ms);
            if (rc == KVT_OK)
                execution->pinned[i] |= bit;
            else if (rc != KVT_NOTFOUND)
                return rc;
        }
    }
    return KVT_OK;
}

/* ---- what may be deleted ---- */

/* Bytes of the tier that are marked for their removal.  KVT_FULL: too many to be counted. */
static enum kvt_err
count_leaving(struct gateway_context *context, unsigned tier, uint64_t *bytes)
{
    struct gateway_row *rows = kvt_calloc(LEAVING_PAGE, sizeof(*rows));
    struct gateway_scan scan = {.pending = true, .rows = rows, .capacity = LEAVING_PAGE};
    enum kvt_err rc = rows == NULL ? KVT_NOMEM : KVT_OK;

    *bytes = 0;
    for (unsigned page = 0; rc == KVT_OK && !scan.end; page++) {
        rc = page == LEAVING_PAGES ? KVT_FULL : gateway_catalog_scan(context->catalog, &scan);
        for (size_t i = 0; rc == KVT_OK && i < scan.count; i++)
            if (rows[i].record.state == GATEWAY_RETIRING &&
                (gateway_record_counted(&rows[i].record) & tier) != 0)
                *bytes += rows[i].record.length;
    }
    kvt_free(rows);
    return rc;
}

/* What the order's cause is to be compared with. */
static enum kvt_err
find_facts(struct gateway_context *context, const struct kvt_delete_cause *cause,
           const struct gateway_deletions *deletions, struct gateway_delete_facts *facts)
{
    struct gateway_catalog_stats stats;
    enum gateway_tier tier;

    gateway_catalog_stats(context->catalog, &stats);
    *facts = (struct gateway_delete_facts){
        .rows = stats.entries,
        .deleted = gateway_deletions_sum(deletions, kvt_clock_unix_ms()),
        .mark_ppm = context->deletes.mark_ppm,
        .share_ppm = context->deletes.share_ppm};
    if (cause->kind != KVT_DELETE_ROOM ||
        !gateway_tier_of_holder(&context->tiers, cause->tier, &tier))
        return KVT_OK;
    facts->tier = 1u << tier;
    facts->used = stats.used[tier];
    facts->capacity = gateway_tier_capacity(&context->tiers, context->catalog, tier);
    return stats.pending == 0 ? KVT_OK : count_leaving(context, facts->tier, &facts->leaving);
}

/* One row of an item: may it go?  One that is marked already goes on going. */
static enum kvt_err
admit(struct execution *execution, struct gateway_delete_guard *guard, uint32_t index,
      uint32_t rank, uint64_t *rows)
{
    const struct kvt_order *order = execution->order;
    struct gateway_record record;
    char key[KVT_KEY_MAX];
    const char *refusal;
    enum kvt_err rc =
        find_key(execution->context, order->namespace_, &order->items[index].block, rank, key);

    if (rc == KVT_OK)
        rc = gateway_catalog_get(execution->context->catalog, key, &record);
    if (rc == KVT_NOTFOUND || (rc == KVT_OK && record.state == GATEWAY_RETIRING))
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    refusal = gateway_delete_guard_admit(guard, gateway_record_counted(&record), record.length);
    if (refusal == NULL) {
        ++*rows;
        return KVT_OK;
    }
    execution->refused[index] |= UINT32_C(1) << rank;
    if (execution->refused_why == NULL)
        execution->refused_why = refusal;
    return KVT_OK;
}

/* That something was refused, for the status, the metrics and the log. */
static void
tell_refused(const struct execution *execution, uint32_t items, const char *refusal)
{
    const struct kvt_order *order = execution->order;
    struct gateway_delete_limits *limits = &execution->context->deletes;

    _Static_assert(GATEWAY_STAT_DELETES_REFUSED_JOB - GATEWAY_STAT_DELETES_REFUSED_OTHER ==
                       (int)KVT_DELETE_JOB - (int)KVT_DELETE_OTHER,
                   "counters stand in the order of the causes");
    gateway_stats_add(
        execution->context->stats,
        (enum gateway_stat)(GATEWAY_STAT_DELETES_REFUSED_OTHER + (unsigned)order->cause.kind),
        items);
    atomic_store(&limits->refused_kind, (unsigned)order->cause.kind);
    atomic_store(&limits->refused_order, order->id);
    atomic_store(&limits->refused_ms, kvt_clock_unix_ms());
    kvt_log_warn("gateway.orders", "delete_refused",
                 "order %" PRIu64 " of epoch %" PRIu64 " (%s, cause %s): %u of %u blocks stay: %s",
                 order->id, order->epoch, order->reason, kvt_delete_cause_name(order->cause.kind),
                 (unsigned)items, (unsigned)order->item_count, refusal);
}

/* Which rows of the order may be deleted.  KVT_DENIED: none, and the result says why. */
static enum kvt_err
guard_deletion(struct execution *execution)
{
    const struct kvt_order *order = execution->order;
    struct gateway_catalog *catalog = execution->context->catalog;
    struct gateway_delete_guard guard;
    struct gateway_delete_facts facts;
    struct gateway_deletions deletions;
    const char *refusal;
    uint64_t rows = 0;
    uint32_t refused = 0;
    enum kvt_err rc = gateway_catalog_deletions(catalog, &deletions);

    if (rc == KVT_OK)
        rc = find_facts(execution->context, &order->cause, &deletions, &facts);
    if (rc != KVT_OK)
        return rc;
    refusal = gateway_delete_guard_begin(&guard, &order->cause, &facts);
    if (refusal != NULL) {
        note(execution->shared.result->text, sizeof(execution->shared.result->text), "refused",
             refusal);
        tell_refused(execution, order->item_count, refusal);
        return KVT_DENIED;
    }
    for (uint32_t i = 0; i < order->item_count; i++) {
        for (uint32_t rank = 0; rc == KVT_OK && rank < KVT_RANKS_MAX; rank++)
            if ((order->items[i].ranks & ~execution->pinned[i] & (UINT32_C(1) << rank)) != 0)
                rc = admit(execution, &guard, i, rank, &rows);
        refused += execution->refused[i] != 0;
    }
    if (rc == KVT_OK && order->cause.kind == KVT_DELETE_OTHER && rows > 0) {
        gateway_deletions_add(&deletions, kvt_clock_unix_ms(), rows);
        rc = gateway_catalog_keep_deletions(catalog, &deletions); /* before anything goes */
    }
    if (rc == KVT_OK && refused > 0)
        tell_refused(execution, refused, execution->refused_why);
    return rc;
}

/* A deletion is two-phase: all its rows are marked in one durable step before any copy goes. */
static enum kvt_err
mark_all(const struct execution *execution)
{
    const struct kvt_order *order = execution->order;
    char(*keys)[KVT_KEY_MAX] = kvt_calloc(KEYS_MAX, KVT_KEY_MAX);
    const char **names = kvt_calloc(KEYS_MAX, sizeof(*names));
    enum kvt_err rc = keys == NULL || names == NULL ? KVT_NOMEM : KVT_OK;
    size_t count = 0;

    for (uint32_t i = 0; rc == KVT_OK && i < order->item_count; i++) {
        for (uint32_t rank = 0; rc == KVT_OK && rank < KVT_RANKS_MAX; rank++) {
            const uint32_t wanted =
                order->items[i].ranks & ~(execution->pinned[i] | execution->refused[i]);

            if ((wanted & (UINT32_C(1) << rank)) == 0 ||
                find_key(execution->context, order->namespace_, &order->items[i].block, rank,
                         keys[count]) != KVT_OK)
                continue;
            names[count] = keys[count];
            if (++count == KEYS_MAX) {
                rc = gateway_removal_mark(execution->context, names, count);
                count = 0;
            }
        }
    }
    if (rc == KVT_OK)
        rc = gateway_removal_mark(execution->context, names, count);
    kvt_free(keys);
    kvt_free(names);
    return rc;
}

/* A whole namespace is one item, done or not. */
static bool
compact(struct execution *execution)
{
    const struct gateway_packer_asker asker = {.working = tell, .arg = execution};
    struct kvt_order_result *result = execution->shared.result;
    struct gateway_context *context = execution->context;
    struct g4_compaction_report total = {0};
    struct kvt_error err;
    enum kvt_err rc;

    if (gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR))
        rc = kvt_error_set(&err, KVT_UNSUPPORTED,
                           "far.kind is set: what moves between buckets is not packed");
    else
        rc = gateway_packer_run(context->packer, execution->order->namespace_, "order", &asker,
                                &total, &err);
    if (rc == KVT_CANCELLED && atomic_load(&context->stopping))
        return false;
    result->done = rc == KVT_OK;
    result->failed = rc != KVT_OK;
    result->bytes_moved = total.copied_bytes;
    if (rc != KVT_OK)
        note(result->text, sizeof(result->text), err.text, kvt_err_text(rc));
    return true;
}

/* Between which tiers.  Without names: from the hot volume down, or up to it.  KVT_INVALID: a
 * holder that is not this gateway's, or twice the same. */
static enum kvt_err
find_move(const struct gateway_context *context, const struct kvt_order *order,
          struct gateway_move *move, struct kvt_error *err)
{
    const char *const names[] = {order->from, order->to};
    enum gateway_tier tiers[2];

    *move = order->verb == KVT_ORDER_DEMOTE
                ? (struct gateway_move){.from = GATEWAY_HOT, .to = GATEWAY_BUCKETS}
                : (struct gateway_move){.from = GATEWAY_BUCKETS, .to = GATEWAY_HOT};
    move->keep = order->keep;
    if (!kvt_order_verb_moves(order->verb) || (order->from[0] == '\0' && order->to[0] == '\0'))
        return KVT_OK;
    for (size_t i = 0; i < 2; i++) {
        char known[256];
        size_t used = 0;

        if (gateway_tier_of_holder(&context->tiers, names[i], &tiers[i]))
            continue;
        known[0] = '\0';
        for (unsigned tier = 0; tier < GATEWAY_TIERS && used < sizeof(known); tier++)
            if (gateway_tier_exists(&context->tiers, (enum gateway_tier)tier))
                used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                         used == 0 ? "" : ", ", context->tiers.holder[tier]);
        return kvt_error_set(err, KVT_INVALID, "no holder %s here: %.90s", names[i], known);
    }
    if (tiers[0] == tiers[1])
        return kvt_error_set(err, KVT_INVALID, "from %s to itself", order->from);
    move->from = 1u << tiers[0];
    move->to = 1u << tiers[1];
    return KVT_OK;
}

/* Does it take a copy away that a pin keeps?  Along an edge that leads down every verb does. */
static bool
heeds_pins(const struct gateway_context *context, const struct kvt_order *order,
           const struct gateway_move *move)
{
    return order->verb == KVT_ORDER_DEMOTE || order->verb == KVT_ORDER_DELETE ||
           (kvt_order_verb_moves(order->verb) &&
            gateway_tier_fastest(&context->tiers, move->from | move->to) == move->from);
}

bool
gateway_orders_execute(struct gateway_context *context, struct gateway_mover *mover,
                       const struct kvt_order *order, struct kvt_order_result *result,
                       void (*working)(void *arg), void *arg)
{
    struct execution execution = {.context = context,
                                  .order = order,
                                  .working = working,
                                  .arg = arg,
                                  .told_ms = kvt_clock_mono_ms(),
                                  .shared = {PTHREAD_MUTEX_INITIALIZER, result}};
    const struct gateway_mover_work work = {
        .count = order->item_count, .perform = execute_item, .working = tell, .arg = &execution};
    struct kvt_error err = {.code = KVT_OK};

    *result = (struct kvt_order_result){
        .epoch = order->epoch, .id = order->id, .verb = order->verb, .code = KVT_OK};
    if (order->verb == KVT_ORDER_COMPACT)
        return compact(&execution);
    result->code = find_move(context, order, &execution.move, &err);
    if (result->code != KVT_OK) {
        result->failed = order->item_count;
        (void)snprintf(result->text, sizeof(result->text), "%.127s", err.text);
        return true;
    }
    if (heeds_pins(context, order, &execution.move))
        result->code = find_pinned(&execution);
    if (result->code == KVT_OK && order->verb == KVT_ORDER_DELETE)
        result->code = guard_deletion(&execution);
    if (result->code == KVT_OK && order->verb == KVT_ORDER_DELETE)
        result->code = mark_all(&execution);
    if (result->code != KVT_OK) {
        result->failed = order->item_count;
        note(result->text, sizeof(result->text), "begin", kvt_err_text(result->code));
        return true;
    }
    if (!gateway_mover_run(mover, context, &work))
        return false;
    gateway_stats_add(context->stats, GATEWAY_STAT_ITEMS_DONE, result->done);
    gateway_stats_add(context->stats, GATEWAY_STAT_ITEMS_FAILED, result->failed);
    return true;
}

/* ---- taking orders ---- */

enum kvt_err
gateway_orders_accept(struct gateway_context *context, const struct kvt_order *order,
                      uint64_t now_ms, struct kvt_error *err)
{
    struct gateway_move move;
    enum kvt_err rc;

    if (strcmp(order->gateway, context->identity.name) != 0)
        return kvt_error_set(err, KVT_DENIED, "addressed to %s", order->gateway);
    if (order->verb == KVT_ORDER_NONE || order->verb > KVT_ORDER_VERB_LAST)
        return kvt_error_set(err, KVT_INVALID, "verb %u", (unsigned)order->verb);
    if (now_ms >= order->expires_ms)
        return kvt_error_set(err, KVT_TIMEOUT, "expired %" PRIu64 " ms ago",
                             now_ms - order->expires_ms);
    if (order->verb == KVT_ORDER_PIN && order->until_ms != 0 && now_ms >= order->until_ms)
        return kvt_error_set(err, KVT_TIMEOUT, "the pin ended %" PRIu64 " ms ago",
                             now_ms - order->until_ms);
    if (order->epoch == 0)
        return kvt_error_set(err, KVT_INVALID, "epoch 0");
    rc = find_move(context, order, &move, err);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_catalog_epoch(context->catalog, order->epoch);
    if (rc == KVT_DENIED)
        return kvt_error_set(err, rc, "epoch %" PRIu64 " is over", order->epoch);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "epoch: %s", kvt_err_text(rc));
}

bool
gateway_orders_recall(struct gateway_context *context, const struct kvt_order *order,
                      struct kvt_order_result *result)
{
    return strcmp(order->gateway, context->identity.name) == 0 &&
           gateway_catalog_recall(context->catalog, order->epoch, order->id, result) == KVT_OK &&
           result->verb == order->verb;
}

/* All that were fetched wait for the one being executed: none of them is to be delivered anew. */
static void
still_working(void *arg)
{
    struct gateway_orders *orders = arg;

    orders->told_ms = kvt_clock_mono_ms();
    for (size_t i = orders->first; i < orders->count; i++)
        wire_stream_working(orders->stream, orders->messages[i]);
}

/* Report, then acknowledge: a crash in between brings the order again, and the same answer. */
static void
conclude(struct gateway_orders *orders, struct wire_message *message, const struct kvt_order *order,
         struct kvt_order_result *result)
{
    enum kvt_err rc = KVT_UNAVAILABLE;

    while (rc != KVT_OK && !atomic_load(&orders->stop)) {
        rc = gateway_bus_report_result(orders->report, order->namespace_, result);
        if (rc == KVT_OK)
            break;
        kvt_log_warn("gateway.orders", "not_reported", "order %" PRIu64 ": %s", order->id,
                     kvt_err_text(rc));
        kvt_clock_sleep_ms(AWAY_WAIT_MS);
        still_working(orders);
    }
    if (rc == KVT_OK && wire_stream_ack(orders->stream, message) != KVT_OK)
        kvt_log_debug("gateway.orders", "not_acknowledged", "order %" PRIu64 " will come again",
                      order->id);
}

static void
refuse(struct gateway_orders *orders, struct wire_message *message, const struct kvt_order *order,
       enum kvt_err rc, const struct kvt_error *err)
{
    struct kvt_order_result result = {.epoch = order->epoch,
                                      .id = order->id,
                                      .verb = order->verb,
                                      .code = rc,
                                      .failed = order->item_count};

    gateway_stats_add(orders->context->stats, GATEWAY_STAT_ORDERS_REFUSED, 1);
    kvt_log_warn("gateway.orders", "order_refused", "order %" PRIu64 " of epoch %" PRIu64 ": %s",
                 order->id, order->epoch, err->text);
    (void)snprintf(result.text, sizeof(result.text), "%.120s", err->text);
    conclude(orders, message, order, &result);
}

static void
handle(struct gateway_orders *orders, struct wire_message *message)
{
    struct kvt_order order = {.items = orders->items};
    struct kvt_order_result result;
    struct kvt_error err;
    const void *bytes;
    size_t size;
    enum kvt_err rc;

    bytes = wire_message_bytes(message, &size);
    rc = wire_order_decode(bytes, size, &orders->keys, orders->context->identity.name, &order,
                           KVT_ORDER_ITEMS_MAX, &err);
    if (rc != KVT_OK) {
        /* Nobody we know sent this: no answer, and never again. */
        gateway_stats_add(orders->context->stats, GATEWAY_STAT_ORDERS_REFUSED, 1);
        kvt_log_warn("gateway.orders", "order_refused", "%s:%" PRIu64 ": %s",
                     wire_message_subject(message), wire_message_stream_seq(message), err.text);
        wire_stream_reject(orders->stream, message);
        return;
    }
    if (gateway_orders_recall(orders->context, &order, &result)) {
        kvt_log_info("gateway.orders", "order_repeated", "order %" PRIu64 " is done already",
                     order.id);
        conclude(orders, message, &order, &result);
        return;
    }
    rc = gateway_orders_accept(orders->context, &order, kvt_clock_unix_ms(), &err);
    if (rc == KVT_DENIED || rc == KVT_INVALID || rc == KVT_TIMEOUT) {
        refuse(orders, message, &order, rc, &err);
        return;
    }
    if (rc != KVT_OK) {
        kvt_log_error("gateway.orders", "not_accepted", "order %" PRIu64 ": %s", order.id,
                      err.text);
        return; /* comes again */
    }
    if (!gateway_orders_execute(orders->context, orders->mover, &order, &result, still_working,
                                orders))
        return; /* we are stopping: it comes again */
    gateway_stats_add(orders->context->stats,
                      result.failed == 0 ? GATEWAY_STAT_ORDERS_DONE : GATEWAY_STAT_ORDERS_FAILED,
                      1);
    kvt_log_info("gateway.orders", "order_done",
                 "%s order %" PRIu64 ": %u done, %u failed, %" PRIu64 " bytes%s%s",
                 kvt_order_verb_name(order.verb), order.id, (unsigned)result.done,
                 (unsigned)result.failed, result.bytes_moved, result.text[0] == '\0' ? "" : "; ",
                 result.text);
    rc = gateway_catalog_finished(orders->context->catalog, &result);
    if (rc != KVT_OK)
        kvt_log_warn("gateway.orders", "not_remembered", "order %" PRIu64 ": %s", order.id,
                     kvt_err_text(rc));
    conclude(orders, message, &order, &result);
}

static void *
orders_main(void *arg)
{
    struct gateway_orders *orders = arg;

    while (!atomic_load(&orders->stop)) {
        const enum kvt_err rc = wire_stream_fetch(
            orders->stream, orders->messages, GATEWAY_ORDERS_FETCH, FETCH_WAIT_MS, &orders->count);

        if (rc != KVT_OK && orders->count == 0)
            kvt_clock_sleep_ms(AWAY_WAIT_MS);
        orders->told_ms = kvt_clock_mono_ms();
        for (orders->first = 0; orders->first < orders->count; orders->first++) {
            struct wire_message *message = orders->messages[orders->first];

            atomic_store(&orders->queued, orders->count - orders->first);
            if (kvt_clock_mono_ms() - orders->told_ms >= WORKING_MS)
                still_working(orders);
            if (!atomic_load(&orders->stop))
                handle(orders, message);
            wire_message_free(message);
        }
        atomic_store(&orders->queued, 0);
    }
    return NULL;
}

enum kvt_err
gateway_orders_start(struct gateway_orders **out, struct gateway_context *context,
                     struct wire_bus *bus, struct gateway_bus_report *report,
                     const struct gateway_orders_options *settings, struct kvt_error *err)
{
    struct gateway_orders *orders = kvt_calloc(1, sizeof(*orders));
    char subject[WIRE_SUBJECT_MAX];
    struct wire_stream_options options = {.stream = WIRE_STREAM_ORDERS, .subject = subject};
    char durable[KVT_NAME_MAX + 16];
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (orders == NULL)
        return kvt_error_set(err, KVT_NOMEM, "orders");
    orders->context = context;
    orders->bus = bus;
    orders->report = report;
    orders->keys = settings->keys;
    orders->items = kvt_calloc(KVT_ORDER_ITEMS_MAX, sizeof(*orders->items));
    rc = orders->items == NULL ? KVT_NOMEM
                               : wire_subject_named(WIRE_SUBJECT_ORDERS, subject, sizeof(subject),
                                                    context->identity.name);
    /* A consumer's name may hold less than a gateway's. */
    (void)snprintf(durable, sizeof(durable), "gateway-%s", context->identity.name);
    for (char *at = durable; *at != '\0'; at++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", *at) == NULL)
            *at = '_';
    options.durable = durable;
    if (rc == KVT_OK)
        rc = wire_stream_open(&orders->stream, bus, &options);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "orders");
        goto fail;
    }
    rc = gateway_mover_new(&orders->mover, context, &settings->mover, err);
    if (rc != KVT_OK)
        goto fail;
    sys = pthread_create(&orders->thread, NULL, orders_main, orders);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "take orders");
        goto fail;
    }
    orders->started = true;
    *out = orders;
    return KVT_OK;

fail:
    gateway_orders_stop(orders);
    return rc;
}

void
gateway_orders_stop(struct gateway_orders *orders)
{
    if (orders == NULL)
        return;
    atomic_store(&orders->stop, true);
    if (orders->started)
        (void)pthread_join(orders->thread, NULL);
    gateway_mover_free(orders->mover);
    wire_stream_close(orders->stream);
    kvt_free(orders->items);
    kvt_free(orders);
}

size_t
gateway_orders_queued(const struct gateway_orders *orders)
{
    return orders == NULL ? 0 : atomic_load(&orders->queued);
}
