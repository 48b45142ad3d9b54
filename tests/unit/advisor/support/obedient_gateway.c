#include "tests/unit/advisor/support/obedient_gateway.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"

#include "tests/support/seed.h"

enum { FILE_MODE = 0644, ORDERS_A_STEP = 64 };

#define BEFORE_NOW_MS (UINT64_C(30) * 86400000)

static const char *const names[OBEDIENT_TIERS_MAX] = {"hot@gw0", "cold@b", "warm@gw0", "cold@far"};
const char *const obedient_owners[OBEDIENT_OWNERS] = {"acme/llama", "zeta/llama", "zeta/qwen"};

static void
open_rig(struct obedient *gateway, const struct kvt_ordering *ordering, uint64_t promote_after)
{
    struct test_rig_options options = {.path = gateway->folder,
                                       .mode = ADVISOR_MODE_ENFORCE,
                                       .promote_after = promote_after,
                                       .ordering = ordering};
    char file[300];

    (void)snprintf(file, sizeof(file), "%s/policy.yaml", gateway->folder);
    if (gateway->has_policy)
        options.policy = file;
    test_rig_open(&gateway->rig, &options);
}

struct obedient *
obedient_new_with(const char *policy, const struct kvt_ordering *ordering, uint64_t promote_after,
                  uint32_t chain)
{
    struct obedient *gateway = kvt_calloc(1, sizeof(*gateway));
    char file[300];
    struct kvt_error err;

    assert_non_null(gateway);
    (void)test_folder_make(gateway->folder, sizeof(gateway->folder));
    gateway->has_policy = policy != NULL;
    if (policy != NULL) {
        (void)snprintf(file, sizeof(file), "%s/policy.yaml", gateway->folder);
        assert_int_equal(kvt_file_write(file, policy, strlen(policy), FILE_MODE, &err), KVT_OK);
    }
    open_rig(gateway, ordering, promote_after);
    gateway->now_ms = kvt_clock_unix_ms() - BEFORE_NOW_MS;
    for (int i = 0; i < OBEDIENT_OWNERS; i++)
        gateway->event_seq[i] = 1;
    gateway->tiers = OBEDIENT_TIERS;
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++) {
        gateway->depth[i] = i % chain;
        gateway->parent[i] = i % chain == 0 ? 0 : i;
    }
    return gateway;
}

void
obedient_restart(struct obedient *gateway)
{
    test_rig_close(&gateway->rig);
    open_rig(gateway, NULL, 2);
    test_rig_run(&gateway->rig);
}

struct obedient *
obedient_new(const char *policy, const struct kvt_ordering *ordering, uint32_t chain)
{
    return obedient_new_with(policy, ordering, 2, chain);
}

void
obedient_free(struct obedient *gateway)
{
    test_rig_close(&gateway->rig);
    test_folder_remove(gateway->folder);
    kvt_free(gateway);
}

void
obedient_install(struct obedient *gateway, const char *policy)
{
    const struct advisor_rulebook_change change = {
        .text = policy, .size = strlen(policy), .source = "test"};
    struct policy_problems problems;
    struct kvt_error err;
    uint64_t version;

    assert_int_equal(
        advisor_rulebook_install(gateway->rig.rulebook, NULL, &change, &problems, &version, &err),
        KVT_OK);
}

/* Those of one owner, at most a batch's. */
static void
publish(struct obedient *gateway, int tier, const uint32_t *blocks, size_t count, bool store,
        uint8_t owner)
{
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = gateway->event_seq[owner],
                                    .time_ms = gateway->now_ms,
                                    .worker = "gateway:gw0",
                                    .location_count = (uint32_t)gateway->tiers,
                                    .events = gateway->events};

    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", obedient_owners[owner]);
    for (int i = 0; i < gateway->tiers; i++) {
        batch.locations[i].tier = KVT_TIER_G4;
        (void)snprintf(batch.locations[i].name, sizeof(batch.locations[i].name), "%s", names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t block = blocks[i];

        if (gateway->owner[block] != owner)
            continue;
        gateway->held[tier][block] = store;
        gateway->events[batch.event_count++] =
            (struct kvt_event){.type = store ? KVT_EVENT_STORE : KVT_EVENT_REMOVE,
                               .sequence_hash = block + 1,
                               .parent = gateway->terse ? 0 : gateway->parent[block],
                               .position = gateway->depth[block],
                               .block_size = OBEDIENT_SIZE,
                               .location = (uint16_t)tier,
                               .ranks = 1};
    }
    if (batch.event_count == 0)
        return;
    gateway->event_seq[owner] += batch.event_count;
    test_rig_batch(&gateway->rig, ++gateway->stream_seq, &batch);
    test_rig_run(&gateway->rig);
}

void
obedient_publish(struct obedient *gateway, int tier, const uint32_t *blocks, size_t count,
                 bool store)
{
    for (size_t at = 0; at < count; at += KVT_EVENTS_PER_BATCH_MAX)
        for (uint32_t owner = 0; owner < OBEDIENT_OWNERS; owner++)
            publish(gateway, tier, blocks + at,
                    count - at < KVT_EVENTS_PER_BATCH_MAX ? count - at : KVT_EVENTS_PER_BATCH_MAX,
                    store, (uint8_t)owner);
}

void
obedient_hold(struct obedient *gateway, const uint32_t *blocks, size_t count)
{
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = gateway->worker_seq + 1,
                                    .time_ms = gateway->now_ms,
                                    .worker = "w0",
                                    .locations = {{.tier = KVT_TIER_G1}},
                                    .location_count = 1,
                                    .events = gateway->events};

    assert_true(count <= KVT_EVENTS_PER_BATCH_MAX);
    if (count == 0)
        return;
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s",
                   obedient_owners[gateway->owner[blocks[0]]]);
    for (size_t i = 0; i < count; i++)
        gateway->events[batch.event_count++] =
            (struct kvt_event){.type = KVT_EVENT_STORE,
                               .sequence_hash = blocks[i] + 1,
                               .parent = gateway->parent[blocks[i]],
                               .position = gateway->depth[blocks[i]],
                               .block_size = OBEDIENT_SIZE,
                               .ranks = 1};
    gateway->worker_seq += count;
    test_rig_batch(&gateway->rig, ++gateway->stream_seq, &batch);
    test_rig_run(&gateway->rig);
}

void
obedient_store(struct obedient *gateway, int tier, uint32_t from, uint32_t to)
{
    uint32_t *blocks = kvt_calloc(to - from, sizeof(*blocks));

    assert_non_null(blocks);
    for (uint32_t i = from; i < to; i++)
        blocks[i - from] = i;
    obedient_publish(gateway, tier, blocks, to - from, true);
    kvt_free(blocks);
}

uint64_t
obedient_used(const struct obedient *gateway, int tier)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < OBEDIENT_BLOCKS; i++)
        bytes += gateway->held[tier][i] ? OBEDIENT_SIZE : 0;
    return bytes;
}

uint64_t
obedient_used_by(const struct obedient *gateway, int tier, uint8_t owner)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < OBEDIENT_BLOCKS; i++)
        bytes += gateway->held[tier][i] && gateway->owner[i] == owner ? OBEDIENT_SIZE : 0;
    return bytes;
}

static void
fill(struct obedient *gateway, struct kvt_report *report)
{
    (void)snprintf(report->gateway, sizeof(report->gateway), "gw0");
    (void)snprintf(report->namespace_, sizeof(report->namespace_), "acme/llama");
    report->healthy = true;
    report->incarnation = 1;
    report->seq = ++gateway->report_seq;
    report->time_ms = gateway->now_ms;
    report->tier_count = (uint32_t)gateway->tiers;
    for (int i = 0; i < gateway->tiers; i++) {
        (void)snprintf(report->tiers[i].name, KVT_NAME_MAX, "%s", names[i]);
        report->tiers[i].used_bytes = obedient_used(gateway, i);
        report->tiers[i].capacity_bytes = gateway->capacity[i];
    }
}

void
obedient_read(struct obedient *gateway, int tier, const uint32_t *blocks, size_t count)
{
    struct kvt_report report = {.accesses = gateway->accesses, .access_count = (uint32_t)count};

    assert_true(count <= KVT_REPORT_ACCESSES_MAX);
    fill(gateway, &report);
    if (count > 0)
        (void)snprintf(report.namespace_, sizeof(report.namespace_), "%s",
                       obedient_owners[gateway->owner[blocks[0]]]);
    for (size_t i = 0; i < count; i++)
        gateway->accesses[i] = (struct kvt_report_access){
            .hash = blocks[i] + 1, .bytes = OBEDIENT_SIZE, .count = 1, .tier_index = (uint8_t)tier};
    test_rig_report(&gateway->rig, gateway->report_seq, &report);
    test_rig_run(&gateway->rig);
}

void
obedient_tell_pins(struct obedient *gateway, uint32_t page, uint32_t lost)
{
    struct kvt_report_pin *rows = kvt_calloc(page, sizeof(*rows));
    struct kvt_report report = {.pins = {.round = ++gateway->pin_round, .rows = rows}};
    uint32_t number = 0;

    assert_non_null(rows);
    for (uint32_t block = 0; block <= OBEDIENT_BLOCKS; block++) {
        const bool last = block == OBEDIENT_BLOCKS;
        const uint32_t count = report.pins.count;

        if (count > 0 && (last || count == page ||
                          (gateway->pinned[block] &&
                           gateway->owner[block] != gateway->owner[rows[count - 1].hash - 1]))) {
            fill(gateway, &report);
            (void)snprintf(report.namespace_, sizeof(report.namespace_), "%s",
                           obedient_owners[gateway->owner[rows[0].hash - 1]]);
            report.pins.told += count;
            if (number++ != lost)
                test_rig_report(&gateway->rig, gateway->report_seq, &report);
            report.pins.count = 0;
        }
        if (!last && gateway->pinned[block])
            rows[report.pins.count++] = (struct kvt_report_pin){.hash = block + 1};
    }
    fill(gateway, &report);
    report.pins.last = true;
    if (number != lost)
        test_rig_report(&gateway->rig, gateway->report_seq, &report);
    test_rig_run(&gateway->rig);
    kvt_free(rows);
}

/* To the planner itself: the engine's clock is not the test's. */
static void
report(struct obedient *gateway, struct kvt_order_result *result)
{
    struct kvt_report report = {.results = result, .result_count = result == NULL ? 0 : 1};

    fill(gateway, &report);
    assert_true(advisor_planner_report(gateway->rig.planner, &report, gateway->now_ms));
    test_rig_run(&gateway->rig);
}

static int
tier_of(const char *name)
{
    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        if (strcmp(names[t], name) == 0)
            return t;
    fail_msg("no such tier: %s", name);
    return -1;
}

bool
obedient_ends(const struct kvt_order *order, int *from, int *to)
{
    const bool up = order->verb != KVT_ORDER_DEMOTE;

    *from = *to = -1;
    if (!kvt_order_verb_moves(order->verb))
        return false;
    *from = up ? OBEDIENT_COLD : OBEDIENT_HOT;
    *to = up ? OBEDIENT_HOT : OBEDIENT_COLD;
    if (order->from[0] != '\0') {
        *from = tier_of(order->from);
        *to = tier_of(order->to);
        assert_int_not_equal(*from, *to);
        /* Between hot volume and bucket nothing is said: older gateways would not know it.  Only
         * where the copy above is to stay it must be, for that is told with the names. */
        assert_true(order->keep || !((*from == OBEDIENT_HOT && *to == OBEDIENT_COLD) ||
                                     (*from == OBEDIENT_COLD && *to == OBEDIENT_HOT)));
    }
    assert_false(order->keep && order->from[0] == '\0'); /* the wire has no place for it */
    return true;
}

static bool
is_volume(int tier)
{
    return tier == OBEDIENT_HOT || tier == OBEDIENT_WARM;
}

/* Blocks that come to tiers and go from them. */
struct changes {
    uint32_t *gone[OBEDIENT_TIERS_MAX];
    uint32_t *come[OBEDIENT_TIERS_MAX];
    size_t gone_count[OBEDIENT_TIERS_MAX];
    size_t come_count[OBEDIENT_TIERS_MAX];
};

static void
begin(struct changes *changes, size_t count)
{
    *changes = (struct changes){.gone_count = {0}};
    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++) {
        changes->gone[t] = kvt_calloc(count + 1, sizeof(uint32_t));
        changes->come[t] = kvt_calloc(count + 1, sizeof(uint32_t));
        assert_true(changes->gone[t] != NULL && changes->come[t] != NULL);
    }
}

static void
end(struct obedient *gateway, struct changes *changes)
{
    for (int t = OBEDIENT_TIERS_MAX - 1; t >= 0; t--) {
        obedient_publish(gateway, t, changes->come[t], changes->come_count[t], true);
        obedient_publish(gateway, t, changes->gone[t], changes->gone_count[t], false);
        kvt_free(changes->come[t]);
        kvt_free(changes->gone[t]);
    }
}

/* What is done to one block that may go; returns the bytes that this copies or frees. */
static uint64_t
move(struct obedient *gateway, const struct kvt_order *order, uint32_t block,
     struct changes *changes)
{
    uint64_t bytes = 0;
    bool keep = order->keep;
    int from;
    int to;

    if (order->verb == KVT_ORDER_PIN || order->verb == KVT_ORDER_UNPIN)
        gateway->pinned[block] = order->verb == KVT_ORDER_PIN;
    for (int t = 0; t < OBEDIENT_TIERS_MAX && order->verb == KVT_ORDER_DELETE; t++)
        if (gateway->held[t][block]) {
            changes->gone[t][changes->gone_count[t]++] = block;
            bytes = OBEDIENT_SIZE;
        }
    if (!obedient_ends(order, &from, &to) ||
        (!gateway->held[from][block] && !gateway->held[to][block]))
        return bytes;
    keep = keep || (is_volume(to) && !is_volume(from)); /* the bucket's copy stays */
    gateway->copied += order->keep ? 1 : 0;
    if (gateway->held[from][block])
        gateway->edges[from][to] += order->keep ? 0 : 1;
    if (gateway->held[from][block] && !keep)
        changes->gone[from][changes->gone_count[from]++] = block;
    if (gateway->held[to][block])
        return 0;
    changes->come[to][changes->come_count[to]++] = block;
    return OBEDIENT_SIZE;
}

/* What gateway/bus/delete_guard.h asks of a deletion: it refuses none of the planner's. */
static void
guard(const struct obedient *gateway, const struct kvt_order *order, uint32_t block,
      uint64_t used[OBEDIENT_TIERS_MAX])
{
    const struct kvt_delete_cause *cause = &order->cause;

    assert_int_not_equal(cause->kind, KVT_DELETE_OTHER);
    if (cause->kind == KVT_DELETE_JOB) {
        assert_true(cause->job > 0);
        return;
    }
    assert_true(cause->policy_version > 0 && cause->rule[0] != '\0');
    for (int t = 0; t < OBEDIENT_TIERS_MAX && cause->kind == KVT_DELETE_ROOM; t++) {
        uint64_t capacity = gateway->capacity[t];

        if (strcmp(names[t], cause->tier) != 0 || !gateway->held[t][block])
            continue;
        if (capacity == 0 || (cause->capacity != 0 && cause->capacity < capacity))
            capacity = cause->capacity;
        assert_true(used[t] > (uint64_t)((unsigned __int128)capacity * cause->stop_ppm / 1000000));
        used[t] -= OBEDIENT_SIZE;
    }
}

static void
obey(struct obedient *gateway, const struct kvt_order *order)
{
    uint64_t used[OBEDIENT_TIERS_MAX] = {0};
    struct kvt_order_result result = {.epoch = order->epoch, .id = order->id, .verb = order->verb};
    const bool leaves =
        (order->verb == KVT_ORDER_DEMOTE && !order->keep) || order->verb == KVT_ORDER_DELETE;
    struct changes changes;

    for (int i = 0; i < OBEDIENT_OWNERS && order->verb == KVT_ORDER_COMPACT; i++)
        gateway->compacted[i] += strcmp(order->namespace_, obedient_owners[i]) == 0;
    for (int t = 0; t < OBEDIENT_TIERS_MAX && order->verb == KVT_ORDER_DELETE; t++)
        used[t] = obedient_used(gateway, t);
    begin(&changes, order->item_count);
    for (uint32_t i = 0; i < order->item_count; i++) {
        const uint32_t block = (uint32_t)order->items[i].block.hash - 1;

        assert_true(block < OBEDIENT_BLOCKS);
        if (gateway->look != NULL)
            gateway->look(gateway->arg, order, block);
        if (leaves && gateway->pinned[block]) {
            result.failed++;
            continue;
        }
        if (order->verb == KVT_ORDER_DELETE)
            guard(gateway, order, block, used);
        result.done++;
        gateway->moved[order->verb]++;
        result.bytes_moved += move(gateway, order, block, &changes);
    }
    gateway->orders++;
    gateway->refused += result.failed;
    end(gateway, &changes);
    report(gateway, &result);
}

size_t
obedient_step(struct obedient *gateway, uint64_t ms)
{
    struct kvt_order *orders = kvt_calloc(ORDERS_A_STEP, sizeof(*orders));
    size_t blocks = 0;
    size_t count = 0;

    assert_non_null(orders);
    gateway->now_ms += ms;
    report(gateway, NULL);
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig); /* durable first */
    while (count < ORDERS_A_STEP &&
           advisor_planner_next(gateway->rig.planner, &orders[count], gateway->now_ms)) {
        struct kvt_order *order = &orders[count++];
        /* Copied: the items are the planner's until its next call. */
        struct kvt_order_item *items = kvt_calloc(order->item_count + 1, sizeof(*items));

        assert_non_null(items);
        if (order->item_count > 0)
            memcpy(items, order->items, order->item_count * sizeof(*items));
        order->items = items;
        blocks += order->item_count;
    }
    for (size_t i = 0; i < count; i++) {
        void (*look)(void *, const struct kvt_order *, size_t) = gateway->look;

        obey(gateway, &orders[i]);
        if (gateway->twice) {
            gateway->look = NULL;
            obey(gateway, &orders[i]);
            gateway->look = look;
        }
        kvt_free(orders[i].items);
    }
    kvt_free(orders);
    return blocks;
}

struct obedient *
obedient_full(uint32_t chain, uint32_t blocks, const char *policy)
{
    struct obedient *gateway = obedient_new(policy, NULL, chain);

    gateway->capacity[OBEDIENT_HOT] = (uint64_t)blocks * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, blocks);
    obedient_store(gateway, OBEDIENT_HOT, 0, blocks);
    return gateway;
}

void
obedient_run(struct obedient *gateway, int steps, uint64_t ms)
{
    for (int i = 0; i < steps; i++)
        (void)obedient_step(gateway, ms);
}
