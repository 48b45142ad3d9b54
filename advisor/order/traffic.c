#include "advisor/order/traffic.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/selection/tier_kind.h"
#include "base/core/alloc.h"

/* A second, a minute, five, a quarter, an hour, four, twelve, a day, two, four, a week, two, a
 * month. */
const uint64_t advisor_traffic_bounds[ADVISOR_TRAFFIC_AGES] = {
    1, 60, 300, 900, 3600, 14400, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000};

static const char *const tier_names[ADVISOR_TRAFFIC_TIERS] = {"hot", "cold", "warm"};

#define FLOW(verb, from, to, always)                                                               \
    {                                                                                              \
        KVT_ORDER_##verb, ADVISOR_TIER_KIND_##from, ADVISOR_TIER_KIND_##to, always                 \
    }

const struct advisor_traffic_flow advisor_traffic_flows[ADVISOR_TRAFFIC_FLOWS] = {
    FLOW(DEMOTE, HOT, COLD, true),   FLOW(DEMOTE, HOT, WARM, false),
    FLOW(DEMOTE, HOT, FAR, false),   FLOW(DEMOTE, WARM, COLD, false),
    FLOW(DEMOTE, WARM, FAR, false),  FLOW(DEMOTE, COLD, FAR, false),
    FLOW(PROMOTE, COLD, HOT, true),  FLOW(PROMOTE, WARM, HOT, false),
    FLOW(PROMOTE, FAR, HOT, false),  FLOW(PROMOTE, COLD, WARM, false),
    FLOW(PROMOTE, FAR, WARM, false), FLOW(PROMOTE, FAR, COLD, false),
    FLOW(WARM, COLD, HOT, true),     FLOW(WARM, WARM, HOT, false),
    FLOW(WARM, FAR, HOT, false),     FLOW(WARM, COLD, WARM, false),
    FLOW(WARM, FAR, WARM, false),    FLOW(WARM, FAR, COLD, false),
    FLOW(DELETE, COLD, GONE, true),
};

struct move_series {
    struct kvt_metric *blocks;
    struct kvt_metric *failed;
    struct kvt_metric *bytes;
    struct kvt_metric *copied;
};

enum { HOT_WAYS = 8, HOT_ROWS = 1024 };

struct hot_blocks {
    struct advisor_hot_block rows[HOT_ROWS]; /* reads 0: free */
    uint64_t halved_ms;
};

struct advisor_traffic {
    struct kvt_metric *reads[KVT_READ_RESULTS];
    struct kvt_metric *read_bytes[ADVISOR_TRAFFIC_TIERS];
    struct move_series moves[ADVISOR_TRAFFIC_VERBS];
    struct kvt_metric *edges[ADVISOR_TRAFFIC_FLOWS]; /* blocks; NULL of the one that is no edge */
    struct kvt_histogram ages;

    pthread_mutex_t lock; /* guards what follows; nothing else is taken under it */
    struct advisor_traffic_slot slots[ADVISOR_TRAFFIC_SLOTS];  /* by number modulo their count */
    struct advisor_traffic_moves flows[ADVISOR_TRAFFIC_FLOWS]; /* all */
    struct hot_blocks hottest;
};

static struct kvt_metric *
add_counter(struct kvt_metrics *metrics, const char *name, const char *key, const char *value,
            const char *help)
{
    char label[64];

    (void)snprintf(label, sizeof(label), "%s=\"%s\"", key, value);
    return kvt_metrics_add(metrics, KVT_METRIC_COUNTER, name, label, help);
}

static void
register_moves(struct kvt_metrics *metrics, struct move_series *series, const char *verb)
{
    char label[64];

    (void)snprintf(label, sizeof(label), "verb=\"%s\",result=\"done\"", verb);
    series->blocks =
        kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "kvtier_advisor_moved_blocks_total", label,
                        "Blocks of orders that have a result, by what was ordered.");
    (void)snprintf(label, sizeof(label), "verb=\"%s\",result=\"failed\"", verb);
    series->failed =
        kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "kvtier_advisor_moved_blocks_total", label,
                        "Blocks of orders that have a result, by what was ordered.");
    series->bytes = add_counter(metrics, "kvtier_advisor_moved_bytes_total", "verb", verb,
                                "Bytes of the blocks that were moved, by what was ordered.");
    series->copied = add_counter(metrics, "kvtier_advisor_copied_bytes_total", "verb", verb,
                                 "Bytes that gateways copied for orders.");
}

static void
register_edges(struct kvt_metrics *metrics, struct advisor_traffic *traffic)
{
    for (size_t i = 0; i < ADVISOR_TRAFFIC_FLOWS; i++) {
        const struct advisor_traffic_flow *flow = &advisor_traffic_flows[i];
        char label[64];

        if (flow->to == ADVISOR_TIER_KIND_GONE)
            continue;
        (void)snprintf(label, sizeof(label), "verb=\"%s\",from=\"%s\",to=\"%s\"",
                       kvt_order_verb_name(flow->verb), advisor_tier_kind_name(flow->from),
                       advisor_tier_kind_name(flow->to));
        traffic->edges[i] =
            kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "kvtier_advisor_edge_blocks_total", label,
                            "Blocks that orders moved between two tiers of a "
                            "gateway; without copies made ahead.");
    }
}

enum kvt_err
advisor_traffic_new(struct advisor_traffic **out, struct kvt_metrics *metrics)
{
    static const char *const results[KVT_READ_RESULTS] = {"hot", "cold", "miss"};
    struct advisor_traffic *traffic = kvt_calloc(1, sizeof(*traffic));

    *out = NULL;
    if (traffic == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&traffic->lock, NULL) != 0) {
        kvt_free(traffic);
        return KVT_NOMEM;
    }
    for (unsigned i = 0; i < KVT_READ_RESULTS; i++)
        traffic->reads[i] = add_counter(metrics, "kvtier_advisor_reads_total", "result", results[i],
                                        "Reads at all gateways, by where they were answered.");
    for (unsigned i = 0; i < ADVISOR_TRAFFIC_TIERS; i++)
        traffic->read_bytes[i] =
            add_counter(metrics, "kvtier_advisor_read_bytes_total", "tier", tier_names[i],
                        "Bytes read at all gateways, by the tier they came from.");
    for (unsigned verb = 1; verb < ADVISOR_TRAFFIC_VERBS; verb++)
        register_moves(metrics, &traffic->moves[verb],
                       kvt_order_verb_name((enum kvt_order_verb)verb));
    register_edges(metrics, traffic);
    traffic->ages = (struct kvt_histogram){.bounds = advisor_traffic_bounds,
                                           .bound_count = ADVISOR_TRAFFIC_AGES};
    kvt_metrics_add_histogram(metrics, &traffic->ages, "kvtier_advisor_reuse_age_seconds",
                              "Time between a read of a block and its use before.");
    *out = traffic;
    return KVT_OK;
}

void
advisor_traffic_free(struct advisor_traffic *traffic)
{
    if (traffic == NULL)
        return;
    (void)pthread_mutex_destroy(&traffic->lock);
    kvt_free(traffic);
}

/* Under the lock: the slot of now, empty when its time has just begun. */
static struct advisor_traffic_slot *
slot_of(struct advisor_traffic *traffic, uint64_t now_ms)
{
    const uint64_t number = now_ms / ADVISOR_TRAFFIC_SLOT_MS;
    struct advisor_traffic_slot *slot = &traffic->slots[number % ADVISOR_TRAFFIC_SLOTS];

    if (slot->number != number)
        *slot = (struct advisor_traffic_slot){.number = number};
    return slot;
}

void
advisor_traffic_reads(struct advisor_traffic *traffic, const uint64_t reads[KVT_READ_RESULTS],
                      uint64_t now_ms)
{
    struct advisor_traffic_slot *slot;

    if (traffic == NULL)
        return;
    (void)pthread_mutex_lock(&traffic->lock);
    slot = slot_of(traffic, now_ms);
    for (unsigned i = 0; i < KVT_READ_RESULTS; i++) {
        kvt_metric_inc(traffic->reads[i], (int64_t)reads[i]);
        slot->reads[i] += reads[i];
    }
    (void)pthread_mutex_unlock(&traffic->lock);
}

void
advisor_traffic_bytes(struct advisor_traffic *traffic, unsigned tier, uint64_t bytes,
                      uint64_t now_ms)
{
    if (traffic == NULL)
        return;
    assert(tier < ADVISOR_TRAFFIC_TIERS);
    kvt_metric_inc(traffic->read_bytes[tier], (int64_t)bytes);
    (void)pthread_mutex_lock(&traffic->lock);
    slot_of(traffic, now_ms)->read_bytes[tier] += bytes;
    (void)pthread_mutex_unlock(&traffic->lock);
}

/* ---- the hottest ---- */

/* A count for each of millions of blocks would take too much memory.  A read counts in one of the
 * few rows that its hash may have.  Where none is free the row with the fewest reads is taken over:
 * the new block begins with that many uncertain reads. */

/* The rows a block may have.  Hashes of blocks are random already, but for small ones of tests. */
static struct advisor_hot_block *
rows_of(struct hot_blocks *hottest, uint64_t hash, uint32_t ns)
{
    const uint64_t mixed = (hash ^ ((uint64_t)ns << 32)) * 0x9e3779b97f4a7c15u;
    const uint64_t set = (mixed >> 32) % (HOT_ROWS / HOT_WAYS);

    return &hottest->rows[set * HOT_WAYS];
}

static void
halve(struct hot_blocks *hottest, uint64_t now_ms)
{
    if (hottest->halved_ms == 0 || now_ms < hottest->halved_ms)
        hottest->halved_ms = now_ms;
    /* After a day nothing is left in any case. */
    for (unsigned i = 0; i < 64 && now_ms - hottest->halved_ms >= ADVISOR_HOT_BLOCKS_HALVE_MS;
         i++) {
        hottest->halved_ms += ADVISOR_HOT_BLOCKS_HALVE_MS;
        for (size_t row = 0; row < HOT_ROWS; row++) {
            hottest->rows[row].reads /= 2;
            hottest->rows[row].uncertain /= 2;
        }
    }
    if (now_ms - hottest->halved_ms >= ADVISOR_HOT_BLOCKS_HALVE_MS)
        hottest->halved_ms = now_ms;
}

/* `block->reads` reads of it. */
static void
add_hot(struct hot_blocks *hottest, const struct advisor_hot_block *block, uint64_t now_ms)
{
    struct advisor_hot_block *rows = rows_of(hottest, block->hash, block->ns);
    struct advisor_hot_block *least = &rows[0];

    halve(hottest, now_ms);
    for (size_t i = 0; i < HOT_WAYS; i++) {
        struct advisor_hot_block *row = &rows[i];

        if (row->reads > 0 && row->hash == block->hash && row->ns == block->ns) {
            const uint64_t reads = row->reads + block->reads;
            const uint64_t uncertain = row->uncertain;

            *row = *block; /* its parent may be known only now */
            row->reads = reads;
            row->uncertain = uncertain;
            return;
        }
        if (row->reads < least->reads)
            least = row;
    }
    {
        const uint64_t uncertain = least->reads;

        *least = *block;
        least->reads += uncertain;
        least->uncertain = uncertain;
    }
}

static int
by_reads(const void *left, const void *right)
{
    const struct advisor_hot_block *a = left;
    const struct advisor_hot_block *b = right;

    if (a->reads - a->uncertain != b->reads - b->uncertain)
        return a->reads - a->uncertain > b->reads - b->uncertain ? -1 : 1;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static size_t
hottest_of(const struct hot_blocks *hottest, struct advisor_hot_block *out, size_t capacity)
{
    struct advisor_hot_block sorted[HOT_ROWS];
    size_t count = 0;

    for (size_t i = 0; i < HOT_ROWS; i++)
        if (hottest->rows[i].reads > hottest->rows[i].uncertain)
            sorted[count++] = hottest->rows[i];
    qsort(sorted, count, sizeof(sorted[0]), by_reads);
    if (count > capacity)
        count = capacity;
    memcpy(out, sorted, count * sizeof(*out));
    return count;
}

void
advisor_traffic_block(struct advisor_traffic *traffic, const struct advisor_hot_block *block,
                      uint64_t age_ms, uint64_t now_ms)
{
    if (traffic == NULL)
        return;
    kvt_histogram_add(&traffic->ages, (age_ms + 999) / 1000);
    (void)pthread_mutex_lock(&traffic->lock);
    add_hot(&traffic->hottest, block, now_ms);
    (void)pthread_mutex_unlock(&traffic->lock);
}

static void
add_moves(struct advisor_traffic_moves *to, const struct advisor_traffic_moves *moves)
{
    to->blocks += moves->blocks;
    to->failed += moves->failed;
    to->bytes += moves->bytes;
    to->copied += moves->copied;
}

static size_t
find_flow(const struct advisor_traffic_flow *flow)
{
    size_t i = 0;

    while (i < ADVISOR_TRAFFIC_FLOWS &&
           (advisor_traffic_flows[i].verb != flow->verb ||
            advisor_traffic_flows[i].from != flow->from || advisor_traffic_flows[i].to != flow->to))
        i++;
    return i;
}

void
advisor_traffic_moved(struct advisor_traffic *traffic, const struct advisor_traffic_flow *flow,
                      const struct advisor_traffic_moves *moves, uint64_t now_ms)
{
    const size_t at = find_flow(flow);
    const struct move_series *series;

    if (traffic == NULL || flow->verb == KVT_ORDER_NONE || flow->verb > KVT_ORDER_VERB_LAST)
        return;
    series = &traffic->moves[flow->verb];
    kvt_metric_inc(series->blocks, (int64_t)moves->blocks);
    kvt_metric_inc(series->failed, (int64_t)moves->failed);
    kvt_metric_inc(series->bytes, (int64_t)moves->bytes);
    kvt_metric_inc(series->copied, (int64_t)moves->copied);
    if (at == ADVISOR_TRAFFIC_FLOWS)
        return;
    if (traffic->edges[at] != NULL)
        kvt_metric_inc(traffic->edges[at], (int64_t)moves->blocks);
    (void)pthread_mutex_lock(&traffic->lock);
    add_moves(&traffic->flows[at], moves);
    add_moves(&slot_of(traffic, now_ms)->flows[at], moves);
    (void)pthread_mutex_unlock(&traffic->lock);
}

static uint64_t
value_of(struct kvt_metric *metric)
{
    return (uint64_t)kvt_metric_get(metric);
}

static void
look_at_slots(struct advisor_traffic *traffic, uint64_t now_ms, struct advisor_traffic_view *view)
{
    const uint64_t last = now_ms / ADVISOR_TRAFFIC_SLOT_MS;

    (void)pthread_mutex_lock(&traffic->lock);
    memcpy(view->flows, traffic->flows, sizeof(view->flows));
    for (unsigned i = 0; i < ADVISOR_TRAFFIC_SLOTS; i++) {
        const uint64_t number = last - (ADVISOR_TRAFFIC_SLOTS - 1) + i;
        const struct advisor_traffic_slot *slot = &traffic->slots[number % ADVISOR_TRAFFIC_SLOTS];

        view->slots[i] = (struct advisor_traffic_slot){.number = number};
        if (slot->number == number)
            view->slots[i] = *slot;
    }
    (void)pthread_mutex_unlock(&traffic->lock);
}

void
advisor_traffic_look(struct advisor_traffic *traffic, uint64_t now_ms,
                     struct advisor_traffic_view *view)
{
    memset(view, 0, sizeof(*view));
    if (traffic == NULL)
        return;
    for (unsigned i = 0; i < KVT_READ_RESULTS; i++)
        view->reads[i] = value_of(traffic->reads[i]);
    for (unsigned i = 0; i < ADVISOR_TRAFFIC_TIERS; i++)
        view->read_bytes[i] = value_of(traffic->read_bytes[i]);
    for (unsigned verb = 1; verb < ADVISOR_TRAFFIC_VERBS; verb++)
        view->moves[verb] =
            (struct advisor_traffic_moves){.blocks = value_of(traffic->moves[verb].blocks),
                                           .failed = value_of(traffic->moves[verb].failed),
                                           .bytes = value_of(traffic->moves[verb].bytes),
                                           .copied = value_of(traffic->moves[verb].copied)};
    for (unsigned i = 0; i <= ADVISOR_TRAFFIC_AGES; i++)
        view->ages[i] = value_of(traffic->ages.buckets[i]);
    look_at_slots(traffic, now_ms, view);
}

size_t
advisor_traffic_hottest(struct advisor_traffic *traffic, struct advisor_hot_block *out,
                        size_t capacity)
{
    struct hot_blocks *copy = kvt_calloc(1, sizeof(*copy));
    size_t count;

    if (traffic == NULL || copy == NULL) {
        kvt_free(copy);
        return 0;
    }
    /* Sorted without the lock: the writer waits for it. */
    (void)pthread_mutex_lock(&traffic->lock);
    *copy = traffic->hottest;
    (void)pthread_mutex_unlock(&traffic->lock);
    count = hottest_of(copy, out, capacity);
    kvt_free(copy);
    return count;
}
