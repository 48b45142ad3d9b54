#include "tests/unit/engine/support/leader_bed.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/clock.h"
#include "kvbm/pool/mutable_block.h"

enum { SETTLE_MS = 20000 };

static void
tell(struct bed_told *told, const struct kvbm_label *label, bool there)
{
    (void)pthread_mutex_lock(&told->lock);
    assert(label->id.hash < BED_NAMES && told->there[label->id.hash] != there);
    told->there[label->id.hash] = there;
    (void)pthread_mutex_unlock(&told->lock);
}

static void
on_store(void *arg, const struct kvbm_label *label)
{
    tell(arg, label, true);
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    tell(arg, label, false);
}

static struct kvbm_layout
layout_of(void)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = 2,
        .outer = 2,
        .page_size = 4,
        .inner_dim = 8,
        .dtype_bytes = 2,
        .alignment = 64,
        .tp_size = 1,
        .heads = 1,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

static void
open_pool(struct bed *bed, enum kvt_tier tier, uint32_t blocks)
{
    const struct kvbm_pool_options options = {
        .block_count = blocks,
        .dedup = KVT_POOL_DEDUP_REJECT,
        .order = KVT_POOL_ORDER_LINEAGE,
        .on_store = on_store,
        .on_remove = on_remove,
        .arg = &bed->told[tier],
    };

    (void)pthread_mutex_init(&bed->told[tier].lock, NULL);
    if (blocks > 0)
        assert_int_equal(kvbm_pool_new(&bed->pools[tier], &options), KVT_OK);
}

void
bed_open(struct bed *bed, const struct bed_options *options)
{
    struct engine_leader_options leader = options->leader;
    struct fake_options fake = {
        .layout = layout_of(),
        .blocks = {[KVT_TIER_G2] = options->g2, [KVT_TIER_G3] = options->g3},
        .ending = options->ending,
        .delay_us = 1500,
        .seed = test_seed(),
    };

    memset(bed, 0, sizeof(*bed));
    bed->ending = options->ending;
    if (options->objects)
        bed->objects = fake_objects_open();
    fake.objects = bed->objects;
    bed->worker = fake_worker_open(&fake);
    assert_non_null(bed->worker);
    open_pool(bed, KVT_TIER_G2, options->g2);
    open_pool(bed, KVT_TIER_G3, options->g3);
    if (leader.instance == 0)
        leader.instance = 1;
    leader.worker = bed->worker;
    leader.g2 = bed->pools[KVT_TIER_G2];
    leader.g3 = bed->pools[KVT_TIER_G3];
    assert_int_equal(engine_leader_open(&bed->leader, &leader, NULL), KVT_OK);
}

/* Matches are taken down, and what was stored and shown let go, a moment after. */
static void
settle(struct bed *bed)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SETTLE_MS;
    struct engine_leader_stats stats;

    for (;;) {
        uint32_t active = 0;

        while (bed->ending == FAKE_WHEN_TOLD && fake_worker_step(bed->worker))
            continue;
        engine_leader_stats(bed->leader, &stats);
        for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++)
            if (bed->pools[tier] != NULL)
                active += kvbm_pool_stats(bed->pools[tier]).active;
        if (stats.pins == 0 && stats.matches == 0 && active == 0)
            return;
        if (kvt_clock_mono_ms() > until_ms)
            fail_msg("%llu pins, %u matches, %u held blocks are left",
                     (unsigned long long)stats.pins, stats.matches, active);
        kvt_clock_sleep_ms(2);
    }
}

static void
check_content(struct bed *bed, enum kvt_tier tier)
{
    struct bed_told *told = &bed->told[tier];
    struct kvbm_label labels[BED_NAMES];
    bool there[BED_NAMES] = {false};
    uint32_t at = 0;
    size_t count;

    if (bed->pools[tier] == NULL)
        return;
    count = kvbm_pool_walk(bed->pools[tier], &at, labels, BED_NAMES);
    for (size_t i = 0; i < count; i++)
        there[labels[i].id.hash] = true;
    assert_memory_equal(there, told->there, sizeof(there));
    for (size_t i = 0; i < count; i++) {
        struct kvt_handle handle;

        assert_int_equal(kvbm_pool_find(bed->pools[tier], labels[i].id.hash, &handle), KVT_OK);
        assert_true(fake_worker_is(bed->worker, tier, handle.block, labels[i].id.hash));
        kvbm_pool_drop(bed->pools[tier], handle);
    }
}

void
bed_close(struct bed *bed)
{
    settle(bed);
    bed_end(bed);
}

struct closing {
    struct engine_worker *worker;
    _Atomic bool over;
};

static void *
step(void *arg)
{
    struct closing *closing = arg;

    while (!atomic_load(&closing->over))
        if (!fake_worker_step(closing->worker))
            kvt_clock_sleep_ms(1);
    return NULL;
}

/* A leader waits for the jobs that it has begun. */
static void
close_leader(struct bed *bed)
{
    struct closing closing = {.worker = bed->worker, .over = false};
    pthread_t thread;

    if (bed->ending == FAKE_WHEN_TOLD)
        assert_int_equal(pthread_create(&thread, NULL, step, &closing), 0);
    engine_leader_close(bed->leader);
    atomic_store(&closing.over, true);
    if (bed->ending == FAKE_WHEN_TOLD)
        (void)pthread_join(thread, NULL);
}

void
bed_end(struct bed *bed)
{
    close_leader(bed);
    for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++) {
        check_content(bed, (enum kvt_tier)tier);
        kvbm_pool_free(bed->pools[tier]);
        (void)pthread_mutex_destroy(&bed->told[tier].lock);
    }
    engine_worker_close(bed->worker);
    if (bed->objects != NULL)
        fake_objects_close(bed->objects);
}

void
bed_labels(struct kvbm_label *labels, uint64_t first, uint32_t position, size_t count)
{
    for (size_t i = 0; i < count; i++)
        labels[i] = (struct kvbm_label){
            .id = {.hash = first + i,
                   .parent = position + i == 0 ? 0 : first + i - 1,
                   .position = position + (uint32_t)i},
            .prefix_hash = first - position,
        };
}

bool
bed_make(struct bed *bed, enum kvt_tier tier, uint64_t first, uint32_t position, size_t count)
{
    struct kvbm_pool *pool = bed->pools[tier];

    for (size_t i = 0; i < count; i++) {
        struct kvbm_label label;
        struct kvt_handle handle;
        enum kvt_err rc;

        bed_labels(&label, first + i, position + (uint32_t)i, 1);
        label.prefix_hash = first - position;
        if (kvbm_pool_allocate(pool, 1, &handle) != KVT_OK)
            return false;
        assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
        fake_worker_write(bed->worker, tier, handle.block, first + i, 0, 0);
        assert_int_equal(kvbm_block_complete(pool, handle, &label, NULL), KVT_OK);
        rc = kvbm_pool_register(pool, &handle, NULL);
        if (rc != KVT_OK && rc != KVT_EXISTS) { /* its name is just leaving */
            kvbm_pool_drop(pool, handle);
            return false;
        }
        if (tier == KVT_TIER_G2)
            engine_leader_arrived(bed->leader, &handle, 1);
        kvbm_pool_drop(pool, handle);
    }
    return true;
}

void
bed_check(struct bed *bed, const struct kvt_handle *handles, uint64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct kvbm_label label = kvbm_pool_label(bed->pools[KVT_TIER_G2], handles[i]);

        assert(label.id.hash == first + i);
        assert(fake_worker_is(bed->worker, KVT_TIER_G2, handles[i].block, first + i));
    }
}

void
bed_forget(struct bed *bed, enum kvt_tier tier)
{
    settle(bed);
    (void)kvbm_pool_clear(bed->pools[tier]);
}

struct engine_match_view
bed_until(struct engine_match *match, enum engine_state state)
{
    struct engine_match_view view;

    assert_int_equal(engine_match_wait(match, ENGINE_STATE_BIT(state), BED_WAIT_MS, &view), KVT_OK);
    return view;
}

void
bed_check_match(struct bed *bed, struct engine_match *match, size_t count)
{
    struct kvt_handle handles[BED_CHAIN];

    assert_int_equal(engine_match_blocks(match, handles, BED_CHAIN), count);
    bed_check(bed, handles, 1, count);
}
