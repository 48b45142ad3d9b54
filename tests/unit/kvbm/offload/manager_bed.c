#include "tests/unit/kvbm/offload/manager_bed.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/pool/mutable_block.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/gate.h"

static struct bed *shown; /* to the volume's driver */

static void
fill(void *bytes, uint64_t hash)
{
    uint64_t *words = bytes;

    for (size_t i = 0; i < BED_SIZE / sizeof(*words); i++)
        words[i] = hash * 0x9e3779b97f4a7c15 + i;
}

static bool
is_filled(const void *bytes, uint64_t hash)
{
    const uint64_t *words = bytes;

    for (size_t i = 0; i < BED_SIZE / sizeof(*words); i++)
        if (words[i] != hash * 0x9e3779b97f4a7c15 + i)
            return false;
    return true;
}

/* ---- a volume that keeps names only ---- */

static void
wait_until_open(void)
{
    while (atomic_load(&shown->shut))
        kvt_clock_sleep_ms(1);
}

static void
far_put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    wait_until_open();
    while (atomic_load(&shown->puts_shut))
        kvt_clock_sleep_ms(1);
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err answer = (enum kvt_err)atomic_load(&shown->answer);

        atomic_fetch_add(&shown->puts, 1);
        if (!is_filled(items[i].bytes, items[i].id.hash))
            atomic_fetch_add(&shown->wrong, 1);
        items[i].status = answer;
        if (answer == KVT_OK && atomic_exchange(&shown->has[items[i].id.hash], true))
            items[i].status = KVT_EXISTS;
    }
}

static void
far_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    wait_until_open();
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&shown->gets, 1);
        items[i].status = (enum kvt_err)atomic_load(&shown->refusal);
        if (items[i].status == KVT_OK && !atomic_load(&shown->has[items[i].id.hash]))
            items[i].status = KVT_NOTFOUND;
        if (items[i].status == KVT_OK)
            fill(items[i].bytes, items[i].id.hash);
    }
}

static void
far_close(struct kvbm_volume *volume)
{
    kvt_free(volume);
}

static const struct kvbm_volume_driver far_driver = {
    .kind = "test", .get = far_get, .put = far_put, .close = far_close};

static void
register_volume(struct bed *bed, uint64_t id)
{
    struct kvbm_volume *volume = kvt_calloc(1, sizeof(*volume));

    assert_non_null(volume);
    *volume = (struct kvbm_volume){&far_driver, BED_SIZE};
    assert_int_equal(kvbm_volumes_register(bed->volumes, id, volume, 4, NULL), KVT_OK);
}

static void
open_volume(struct bed *bed)
{
    assert_int_equal(kvbm_volumes_new(&bed->volumes, NULL), KVT_OK);
    register_volume(bed, BED_VOLUME);
    register_volume(bed, BED_VOLUME_UP);
    bed->options.volumes = bed->volumes;
    bed->options.volume = BED_VOLUME;
}

/* ---- the bed ---- */

static void
open_tier(struct bed *bed, enum kvt_tier tier, bool gated)
{
    struct kvbm_manager_tier *at = &bed->options.tiers[tier];

    *at = (struct kvbm_manager_tier){.high_ppm = 750000, .low_ppm = 500000};
    bed->gated[tier] = gated;
    assert_int_equal(
        kvbm_pool_new(&at->pool, &(struct kvbm_pool_options){.block_count = BED_BLOCKS}), KVT_OK);
    if (gated)
        at->storage = gate_open(BED_BLOCKS, BED_SIZE);
    else
        assert_int_equal(
            kvbm_storage_open_memory(&at->storage, KVBM_STORAGE_SYSTEM, BED_BLOCKS, BED_SIZE, NULL),
            KVT_OK);
}

struct bed *
bed_open(unsigned tiers, unsigned gated)
{
    static struct bed bed;

    memset(&bed, 0, sizeof(bed));
    shown = &bed;
    assert_int_equal(
        kvbm_storage_open_memory(&bed.bounce, KVBM_STORAGE_SYSTEM, KVT_BOUNCE_MIN, BED_SIZE, NULL),
        KVT_OK);
    assert_int_equal(
        kvbm_transfer_open(&bed.transfer,
                           &(struct kvbm_transfer_options){.queue_max = 4, .bounce = bed.bounce},
                           NULL),
        KVT_OK);
    bed.options = (struct kvbm_manager_options){
        .transfer = bed.transfer, .queue_max = 16, .room_wait_ms = 50, .retry_ms = 0};
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        if ((tiers & KVT_TIER_MASK(tier)) != 0)
            open_tier(&bed, (enum kvt_tier)tier,
                      tier == KVT_TIER_G3 || (gated & KVT_TIER_MASK(tier)) != 0);
    if ((tiers & KVT_TIER_MASK(KVT_TIER_G4)) != 0)
        open_volume(&bed);
    return &bed;
}

void
bed_start(struct bed *bed)
{
    assert_int_equal(kvbm_manager_new(&bed->manager, &bed->options, NULL), KVT_OK);
}

void
bed_close(struct bed *bed)
{
    kvbm_manager_free(bed->manager);
    if (bed->volumes != NULL)
        kvbm_volumes_free(bed->volumes);
    kvbm_transfer_free(bed->transfer);
    kvbm_storage_close(bed->bounce);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        struct kvbm_manager_tier *at = &bed->options.tiers[tier];

        if (at->pool != NULL)
            assert_int_equal(kvbm_pool_stats(at->pool).active, 0); /* nothing is held for ever */
        kvbm_pool_free(at->pool);
        kvbm_storage_close(at->storage);
    }
    assert_int_equal(atomic_load(&bed->wrong), 0);
    assert_int_equal(kvt_alloc_live(), 0);
}

bool
bed_settle(struct bed *bed)
{
    return kvbm_manager_drain(bed->manager, 10000);
}

struct kvbm_pool *
bed_pool(struct bed *bed, enum kvt_tier tier)
{
    return bed->options.tiers[tier].pool;
}

static bool
write_bytes(struct kvbm_storage *storage, uint32_t block, uint64_t hash)
{
    uint8_t bytes[BED_SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_storage_io io = {.host = bytes, .block = block};

    fill(bytes, hash);
    kvbm_storage_write(storage, &io, 1);
    return io.status == KVT_OK;
}

bool
bed_try_make(struct bed *bed, enum kvt_tier tier, uint64_t hash, uint32_t position,
             struct kvt_handle *handle)
{
    const struct kvbm_label label = {{hash, position > 0 ? hash - 1 : 0, position}, hash, 0};
    struct kvbm_pool *pool = bed_pool(bed, tier);
    enum kvt_err rc;

    if (kvbm_pool_allocate(pool, 1, handle) != KVT_OK)
        return false;
    rc = kvbm_block_begin(pool, *handle, NULL);
    if (rc == KVT_OK && !write_bytes(bed->options.tiers[tier].storage, handle->block, hash))
        rc = KVT_IO;
    if (rc == KVT_OK)
        rc = kvbm_block_complete(pool, *handle, &label, NULL);
    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, handle, NULL);
    if (rc == KVT_OK || rc == KVT_EXISTS)
        return true;
    kvbm_pool_drop(pool, *handle);
    return false;
}

struct kvt_handle
bed_make_held(struct bed *bed, enum kvt_tier tier, uint64_t hash, uint32_t position)
{
    struct kvt_handle handle;

    assert_true(bed_try_make(bed, tier, hash, position, &handle));
    return handle;
}

void
bed_make(struct bed *bed, enum kvt_tier tier, uint64_t hash)
{
    kvbm_pool_drop(bed_pool(bed, tier), bed_make_held(bed, tier, hash, 0));
}

void
bed_make_far(struct bed *bed, uint64_t hash)
{
    atomic_store(&bed->has[hash], true);
}

static enum kvt_err
read_bytes(struct bed *bed, enum kvt_tier tier, struct kvt_handle handle, uint64_t hash,
           bool *right)
{
    uint8_t bytes[BED_SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct kvbm_storage_io io = {.host = bytes, .block = handle.block};

    kvbm_storage_read(bed->options.tiers[tier].storage, &io, 1);
    *right = io.status == KVT_OK && is_filled(bytes, hash) &&
             kvbm_pool_label(bed_pool(bed, tier), handle).id.hash == hash;
    return io.status;
}

bool
bed_is_right(struct bed *bed, enum kvt_tier tier, struct kvt_handle handle, uint64_t hash)
{
    bool right;

    (void)read_bytes(bed, tier, handle, hash, &right);
    return right;
}

bool
bed_is_wrong(struct bed *bed, enum kvt_tier tier, struct kvt_handle handle, uint64_t hash)
{
    bool right;

    return read_bytes(bed, tier, handle, hash, &right) == KVT_OK && !right;
}

void
bed_chain(struct kvbm_label *labels, uint64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        labels[i] =
            (struct kvbm_label){{first + i, i > 0 ? first + i - 1 : 0, (uint32_t)i}, first, 0};
}

uint32_t
bed_used(struct bed *bed, enum kvt_tier tier)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(bed_pool(bed, tier));

    return stats.blocks - stats.free;
}

bool
bed_has(struct bed *bed, enum kvt_tier tier, uint64_t hash)
{
    return tier == KVT_TIER_G4 ? atomic_load(&bed->has[hash])
                               : kvbm_pool_has(bed_pool(bed, tier), hash);
}

struct kvt_onboard_result
bed_fetch(struct bed *bed, const struct kvbm_onboard_request *request, struct kvt_handle *handles)
{
    struct kvt_onboard_result result;
    struct kvbm_onboard *onboard;
    size_t taken;

    assert_int_equal(kvbm_onboard_start(&onboard, bed->manager, request, NULL), KVT_OK);
    while (kvbm_onboard_wait(onboard, 0, &result) == KVT_BUSY) {
        kvbm_manager_step(bed->manager);
        kvt_clock_sleep_ms(1);
    }
    taken = kvbm_onboard_take(onboard, handles);
    assert_int_equal(taken, request->prefetch ? 0 : result.arrived);
    assert_int_equal(kvbm_onboard_take(onboard, handles), 0);
    kvbm_onboard_release(onboard);
    return result;
}
