#include "worker/replay/ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

enum {
    INDEX_BYTES_A_PLACE = 512, /* generous: the index's own tables grow in powers of two */
    INDEX_BYTES_MIN = 16 << 20,
    SNAPSHOT_STEP = 256,
};

static const enum kvt_tier tier_of[WORKER_LEDGER_TIERS] = {KVT_TIER_G1, KVT_TIER_G2, KVT_TIER_G3};

static enum kvt_err
open_tier(struct worker_ledger *ledger, struct worker_ledger_tier *tier, enum kvt_tier which,
          uint32_t dp_rank)
{
    struct index_holder holder = {.tier = which, .dp_rank = dp_rank};

    tier->ledger = ledger;
    tier->tier = which;
    tier->dp_rank = dp_rank;
    (void)snprintf(holder.name, sizeof(holder.name), "%s", ledger->worker);
    return index_holder(ledger->index, &holder, &tier->holder);
}

enum kvt_err
worker_ledger_open(struct worker_ledger *ledger, const struct worker_settings *settings,
                   const char *worker, struct worker_counters *counters, struct kvt_error *err)
{
    const uint64_t places = (uint64_t)settings->g1_blocks + settings->g2_blocks +
                            settings->g3_blocks +
                            (uint64_t)settings->attach_engines * settings->attach_blocks;
    enum kvt_err rc;

    memset(ledger, 0, sizeof(*ledger));
    if (pthread_mutex_init(&ledger->walking, NULL) != 0)
        return kvt_error_set(err, KVT_NOMEM, "local index of %s", worker);
    ledger->settings = settings;
    ledger->counters = counters;
    (void)snprintf(ledger->worker, sizeof(ledger->worker), "%s", worker);
    rc = index_new(&ledger->index, INDEX_BYTES_MIN + places * INDEX_BYTES_A_PLACE);
    if (rc == KVT_OK)
        rc = index_namespace(ledger->index, settings->namespace_, &ledger->ns);
    for (size_t i = 0; rc == KVT_OK && i < WORKER_LEDGER_TIERS; i++)
        rc = open_tier(ledger, &ledger->tiers[i], tier_of[i], 0);
    for (uint32_t i = 0; rc == KVT_OK && i < settings->attach_engines; i++)
        rc = open_tier(ledger, &ledger->engines[i], KVT_TIER_G1, i + 1);
    if (rc != KVT_OK) {
        worker_ledger_close(ledger);
        return kvt_error_set(err, rc, "local index of %s", worker);
    }
    return KVT_OK;
}

void
worker_ledger_close(struct worker_ledger *ledger)
{
    assert(ledger->publisher == NULL);
    if (ledger->settings != NULL)
        (void)pthread_mutex_destroy(&ledger->walking);
    ledger->settings = NULL;
    index_free(ledger->index);
    ledger->index = NULL;
}

static struct kvt_event
event_of(const struct worker_ledger_tier *tier, const struct kvbm_label *label,
         enum kvt_event_type type)
{
    return (struct kvt_event){
        .sequence_hash = label->id.hash,
        .prefix_hash = label->prefix_hash,
        .parent = label->id.parent,
        .block_size = tier->ledger->settings->layout.block_size,
        .position = label->id.position,
        .ranks = 1,
        .location = tier->location,
        .type = (uint8_t)type,
    };
}

static void
publish(struct worker_ledger_tier *tier, const struct kvbm_label *label, enum kvt_event_type type)
{
    struct kvt_event event;

    if (!tier->published)
        return;
    event = event_of(tier, label, type);
    wire_event_publisher_publish(tier->ledger->publisher, &event);
}

/* Index first, bus second, both ways: a dump that includes sequence n shows no less than n. */
void
worker_ledger_on_store(void *arg, const struct kvbm_label *label)
{
    struct worker_ledger_tier *tier = arg;
    const struct index_block block = {
        .id = label->id,
        .size = tier->ledger->settings->layout.block_size,
        .ranks = 1,
    };

    if (index_store(tier->ledger->index, tier->ledger->ns, tier->holder, &block, NULL) != KVT_OK) {
        worker_counter_add(&tier->ledger->counters->index_full, 1);
        kvt_log_warn("worker.ledger", "not_indexed",
                     "%s: block %016" PRIx64 " at position %" PRIu32
                     " does not fit the local index",
                     tier->ledger->worker, label->id.hash, label->id.position);
    }
    publish(tier, label, KVT_EVENT_STORE);
}

void
worker_ledger_on_remove(void *arg, const struct kvbm_label *label)
{
    struct worker_ledger_tier *tier = arg;

    /* NOTFOUND: it was not indexed when it came, which was logged. */
    if (index_remove(tier->ledger->index, tier->ledger->ns, tier->holder, label->id.hash, 1) !=
        KVT_OK)
        kvt_log_debug("worker.ledger", "not_indexed", "%s: removed a block not in the local index",
                      tier->ledger->worker);
    publish(tier, label, KVT_EVENT_REMOVE);
}

enum kvt_err
worker_ledger_pool(struct kvbm_pool **out, struct worker_ledger *ledger, enum kvt_tier tier,
                   const struct worker_pool_order *order, uint32_t blocks, struct kvt_error *err)
{
    const struct kvbm_pool_options options = {
        .block_count = blocks,
        .dedup = KVT_POOL_DEDUP_REJECT,
        .order = order->order,
        .ordering = order->ordering,
        .ordering_options = worker_pool_order_options,
        .block_bytes = ledger->settings->layout.block_size,
        .on_store = worker_ledger_on_store,
        .on_remove = worker_ledger_on_remove,
        .arg = &ledger->tiers[tier - KVT_TIER_G1],
    };
    const enum kvt_err rc = kvbm_pool_new(out, &options);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "%s: pool of %" PRIu32 " blocks", ledger->worker, blocks);
    return KVT_OK;
}

/* Tiers and engines in a row. */
static struct worker_ledger_tier *
tier_at(struct worker_ledger *ledger, uint32_t number)
{
    return number < WORKER_LEDGER_TIERS ? &ledger->tiers[number]
                                        : &ledger->engines[number - WORKER_LEDGER_TIERS];
}

/* The cursor is (tier, slot), tier in the high half. */
static size_t
snapshot(void *arg, uint64_t *cursor, struct kvt_event *events, size_t capacity)
{
    struct worker_ledger *ledger = arg;
    const uint32_t tiers = WORKER_LEDGER_TIERS + ledger->settings->attach_engines;
    struct kvbm_label labels[SNAPSHOT_STEP];
    uint32_t number = (uint32_t)(*cursor >> 32);
    uint32_t slot = (uint32_t)*cursor;
    size_t count = 0;

    while (number < tiers && count < capacity) {
        const struct worker_ledger_tier *tier = tier_at(ledger, number);
        const size_t room = capacity - count < SNAPSHOT_STEP ? capacity - count : SNAPSHOT_STEP;
        size_t found = 0;

        (void)pthread_mutex_lock(&ledger->walking);
        if (tier->published)
            found = kvbm_pool_walk(tier->pool, &slot, labels, room);
        (void)pthread_mutex_unlock(&ledger->walking);
        for (size_t i = 0; i < found; i++)
            events[count++] = event_of(tier, &labels[i], KVT_EVENT_STORE);
        if (found < room) {
            number++;
            slot = 0;
        }
    }
    *cursor = (uint64_t)number << 32 | slot;
    return count;
}

void
worker_ledger_watch(void *arg, struct kvbm_pool *pool)
{
    struct worker_ledger_tier *tier = arg;
    struct worker_ledger *ledger = tier->ledger;

    (void)pthread_mutex_lock(&ledger->walking);
    tier->pool = pool;
    tier->published = pool != NULL && ledger->publisher != NULL && ledger->settings->publish_g1;
    (void)pthread_mutex_unlock(&ledger->walking);
}

/* Where blocks of this worker can be; the engines' are there whether an engine is or not. */
static uint32_t
make_locations(struct worker_ledger *ledger, struct kvt_location *locations)
{
    static const char *const names[WORKER_LEDGER_TIERS] = {"device", "host", "disk"};
    uint32_t count = 0;

    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++) {
        struct worker_ledger_tier *tier = &ledger->tiers[i];

        if (tier->pool == NULL || (i == 0 && !ledger->settings->publish_g1))
            continue;
        tier->location = (uint16_t)count;
        locations[count] = (struct kvt_location){.tier = tier->tier};
        (void)snprintf(locations[count].name, sizeof(locations[count].name), "%s", names[i]);
        count++;
    }
    for (uint32_t i = 0; ledger->settings->publish_g1 && i < ledger->settings->attach_engines;
         i++) {
        ledger->engines[i].location = (uint16_t)count;
        locations[count] =
            (struct kvt_location){.tier = KVT_TIER_G1, .dp_rank = ledger->engines[i].dp_rank};
        (void)snprintf(locations[count].name, sizeof(locations[count].name), "engine");
        count++;
    }
    return count;
}

enum kvt_err
worker_ledger_attach(struct worker_ledger *ledger, struct wire_bus *bus,
                     struct kvbm_pool *const pools[WORKER_LEDGER_TIERS], struct kvt_error *err)
{
    struct kvt_location locations[WORKER_LEDGER_TIERS + WORKER_LEDGER_ENGINES];
    enum kvt_err rc;

    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++)
        ledger->tiers[i].pool = pools[i];
    if (bus == NULL)
        return KVT_OK;
    rc = wire_event_publisher_open(&ledger->publisher,
                                   &(struct wire_event_publisher_options){
                                       .bus = bus,
                                       .namespace_ = ledger->settings->namespace_,
                                       .worker = ledger->worker,
                                       .mode = ledger->settings->transport,
                                       .locations = locations,
                                       .location_count = make_locations(ledger, locations),
                                       .snapshot = snapshot,
                                       .snapshot_arg = ledger,
                                   },
                                   err);
    if (rc != KVT_OK)
        return rc;
    /* Nothing is registered yet, so no event was missed between the two loops. */
    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++)
        ledger->tiers[i].published = pools[i] != NULL && (i > 0 || ledger->settings->publish_g1);
    return KVT_OK;
}

void
worker_ledger_leave(struct worker_ledger *ledger)
{
    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++)
        ledger->tiers[i].published = false;
    for (size_t i = 0; i < WORKER_LEDGER_ENGINES; i++)
        assert(ledger->engines[i].pool == NULL); /* engines leave first */
    wire_event_publisher_close(ledger->publisher, true);
    ledger->publisher = NULL;
}

struct dump {
    struct worker_ledger *ledger;
    struct kvt_buffer *out;
    size_t rows;
};

static void
dump_place(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct dump *dump = arg;
    struct kvt_buffer *out = dump->out;
    const struct worker_ledger *ledger = dump->ledger;
    enum kvt_tier tier = KVT_TIER_G1;
    uint32_t dp_rank = 0;

    (void)ns;
    dump->rows++;
    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++)
        if (ledger->tiers[i].holder == holder)
            tier = ledger->tiers[i].tier;
    for (uint32_t i = 0; i < ledger->settings->attach_engines; i++)
        if (ledger->engines[i].holder == holder)
            dp_rank = ledger->engines[i].dp_rank;
    kvt_buffer_printf(out, "{\"namespace\":");
    kvt_buffer_json_string(out, ledger->settings->namespace_);
    kvt_buffer_printf(out, ",\"hash\":\"%016" PRIx64 "\",\"parent\":\"%016" PRIx64 "\"",
                      block->id.hash, block->id.parent);
    kvt_buffer_printf(out, ",\"position\":%" PRIu32 ",\"size\":%" PRIu64 ",\"holder\":",
                      block->id.position, block->size);
    kvt_buffer_json_string(out, ledger->worker);
    kvt_buffer_printf(out, ",\"dp_rank\":%" PRIu32 ",\"tier\":\"%s\",\"ranks\":%" PRIu32 "}\n",
                      dp_rank, kvt_tier_name(tier), block->ranks);
}

size_t
worker_ledger_dump(struct worker_ledger *ledger, uint64_t *cursor, size_t max,
                   struct kvt_buffer *out)
{
    struct dump dump = {ledger, out, 0};

    *cursor = index_walk(ledger->index, *cursor, max, dump_place, &dump);
    return dump.rows;
}
