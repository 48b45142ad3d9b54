#include "tests/unit/kvbm/attach/attach_bed.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/gate.h"

enum {
    QUEUE = 16,
    DEPTH = 8,
    VOLUME = 1,
    LEAVE_LIMIT = 60000, /* ms */
    ROOM_WAIT = 20000,   /* ms; with less, a busy machine drops blocks that a test looks for */
};

void
attach_bed_fill(void *bytes, uint64_t hash)
{
    uint64_t *words = bytes;

    for (size_t i = 0; i < ATTACH_BED_SIZE / sizeof(*words); i++)
        words[i] = hash;
}

bool
attach_bed_filled(const void *bytes, uint64_t hash)
{
    const uint64_t *words = bytes;

    for (size_t i = 0; i < ATTACH_BED_SIZE / sizeof(*words); i++)
        if (words[i] != hash)
            return false;
    return true;
}

static uint64_t
hash_of(uint32_t chain, uint32_t position)
{
    return 1 + chain * 64 + position;
}

struct kvt_block_info
attach_bed_name(uint32_t chain, uint32_t position)
{
    return (struct kvt_block_info){
        .size = sizeof(struct kvt_block_info),
        .id = {.hash = hash_of(chain, position),
               .parent = position > 0 ? hash_of(chain, position - 1) : 0,
               .position = position},
        .prefix_hash = hash_of(chain, position < DEPTH ? position : DEPTH - 1),
    };
}

/* ---- what the worker would be told ---- */

static void
tell(struct attach_bed_slot *slot, const struct kvbm_label *label, uint8_t from, uint8_t to)
{
    const uint64_t hash = label->id.hash % ATTACH_BED_NAMES;

    (void)pthread_mutex_lock(&slot->bed->lock);
    if (slot->told[hash] != from)
        slot->bed->wrong_turns++;
    slot->told[hash] = to;
    (void)pthread_mutex_unlock(&slot->bed->lock);
}

static void
on_store(void *arg, const struct kvbm_label *label)
{
    tell(arg, label, 0, 1);
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    tell(arg, label, 1, 0);
}

static void
watch(void *arg, struct kvbm_pool *pool)
{
    struct attach_bed_slot *slot = arg;

    (void)pthread_mutex_lock(&slot->bed->lock);
    if ((slot->pool == NULL) == (pool == NULL))
        slot->bed->wrong_turns++;
    slot->pool = pool;
    (void)pthread_mutex_unlock(&slot->bed->lock);
}

/* ---- the object tier ---- */

static bool
object_has(void *arg, const struct kvt_block_id *ids, size_t count, bool *present)
{
    struct attach_bed *bed = arg;

    (void)pthread_mutex_lock(&bed->lock);
    for (size_t i = 0; i < count; i++)
        present[i] = bed->objects[ids[i].hash % ATTACH_BED_NAMES];
    (void)pthread_mutex_unlock(&bed->lock);
    return true;
}

static void
object_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    for (size_t i = 0; i < count; i++) {
        attach_bed_fill(items[i].bytes, items[i].id.hash);
        items[i].status = KVT_OK;
    }
}

/* The volume of a bed. */
struct objects {
    struct kvbm_volume head;
    struct attach_bed *bed;
};

static void
object_put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct attach_bed *bed = ((struct objects *)volume)->bed;

    (void)pthread_mutex_lock(&bed->lock);
    for (size_t i = 0; i < count; i++) {
        bed->wrong_bytes += items[i].id.hash < ATTACH_BED_HONEST &&
                            !attach_bed_filled(items[i].bytes, items[i].id.hash);
        bed->objects[items[i].id.hash % ATTACH_BED_NAMES] = true;
        items[i].status = KVT_OK;
    }
    (void)pthread_mutex_unlock(&bed->lock);
}

static void
object_close(struct kvbm_volume *volume)
{
    kvt_free(volume);
}

static const struct kvbm_volume_driver objects_driver = {
    .kind = "test", .get = object_get, .put = object_put, .close = object_close};

static void
open_objects(struct attach_bed *bed)
{
    struct objects *objects = kvt_calloc(1, sizeof(*objects));

    assert_non_null(objects);
    objects->head = (struct kvbm_volume){&objects_driver, ATTACH_BED_SIZE};
    objects->bed = bed;
    assert_int_equal(kvbm_volumes_new(&bed->volumes, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(bed->volumes, VOLUME, &objects->head, QUEUE, NULL),
                     KVT_OK);
}

/* ---- up and down ---- */

static void
open_tiers(struct attach_bed *bed)
{
    struct kvbm_attach_service_below *below = &bed->below;
    struct kvt_error err;

    assert_int_equal(kvbm_transfer_new(&bed->transfer, QUEUE, &err), KVT_OK);
    assert_int_equal(
        kvbm_pool_new(&below->g2.pool, &(struct kvbm_pool_options){.block_count = ATTACH_BED_G2}),
        KVT_OK);
    assert_int_equal(kvbm_storage_open_memory(&below->g2.storage, KVBM_STORAGE_SYSTEM,
                                              ATTACH_BED_G2, ATTACH_BED_SIZE, &err),
                     KVT_OK);
    assert_int_equal(
        kvbm_pool_new(&below->g3.pool, &(struct kvbm_pool_options){.block_count = ATTACH_BED_G3}),
        KVT_OK);
    below->g3.storage = gate_open(ATTACH_BED_G3, ATTACH_BED_SIZE);
    open_objects(bed);
    assert_int_equal(kvbm_manager_new(&bed->manager,
                                      &(struct kvbm_manager_options){
                                          .tiers[KVT_TIER_G2] = {.pool = below->g2.pool,
                                                                 .storage = below->g2.storage,
                                                                 .high_ppm = 900000,
                                                                 .low_ppm = 600000},
                                          .tiers[KVT_TIER_G3] = {.pool = below->g3.pool,
                                                                 .storage = below->g3.storage,
                                                                 .high_ppm = 900000,
                                                                 .low_ppm = 600000},
                                          .volumes = bed->volumes,
                                          .volume = VOLUME,
                                          .transfer = bed->transfer,
                                          .queue_max = 1,
                                          .room_wait_ms = ROOM_WAIT,
                                          .retry_ms = 100,
                                          .iteration_ms = 10,
                                      },
                                      &err),
                     KVT_OK);
    below->transfer = bed->transfer;
    below->manager = bed->manager;
    below->room_wait_ms = ROOM_WAIT;
    below->has = object_has;
    below->arg = bed;
}

void
attach_bed_open(struct attach_bed *bed)
{
    const struct kvt_geometry geometry = {
        .kind = KVT_LAYOUT_CONTIGUOUS,
        .layers = 4,
        .outer = 2,
        .page_size = 16,
        .inner_dim = ATTACH_BED_SIZE / (4 * 2 * 16 * 2),
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = 1,
    };
    struct kvbm_attach_options options = {
        .engines_max = ATTACH_BED_ENGINES,
        .blocks_max = ATTACH_BED_BLOCKS_MAX,
        .layout = &bed->layout,
        .below = &bed->below,
        .on_store = on_store,
        .on_remove = on_remove,
        .watch = watch,
    };
    struct kvt_error err;

    memset(bed, 0, sizeof(*bed));
    assert_int_equal(pthread_mutex_init(&bed->lock, NULL), 0);
    (void)test_folder_make(bed->folder, sizeof(bed->folder));
    (void)snprintf(bed->path, sizeof(bed->path), "%s/s", bed->folder);
    assert_int_equal(kvbm_layout_make(&bed->layout, &geometry, &err), KVT_OK);
    assert_int_equal(bed->layout.block_size, ATTACH_BED_SIZE);
    open_tiers(bed);
    options.path = bed->path;
    for (size_t i = 0; i < ATTACH_BED_ENGINES; i++) {
        bed->slots[i].bed = bed;
        options.args[i] = &bed->slots[i];
    }
    assert_int_equal(kvbm_attach_open(&bed->attach, &options, &err), KVT_OK);
}

/* Nothing of any engine is held, watched or told. */
static void
check_rest(struct attach_bed *bed)
{
    assert_int_equal(kvbm_pool_stats(bed->below.g2.pool).active, 0);
    assert_int_equal(kvbm_pool_stats(bed->below.g3.pool).active, 0);
    (void)pthread_mutex_lock(&bed->lock);
    for (size_t i = 0; i < ATTACH_BED_ENGINES; i++) {
        static const uint8_t none[ATTACH_BED_NAMES];

        assert_null(bed->slots[i].pool);
        assert_memory_equal(bed->slots[i].told, none, sizeof(none));
    }
    assert_int_equal(bed->wrong_turns, 0);
    assert_int_equal(bed->wrong_bytes, 0);
    (void)pthread_mutex_unlock(&bed->lock);
}

void
attach_bed_rest(struct attach_bed *bed)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + LEAVE_LIMIT;
    struct kvbm_attach_stats stats;

    for (;;) {
        kvbm_attach_stats(bed->attach, &stats);
        if (stats.engines == 0)
            break;
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    assert_true(kvbm_manager_drain(bed->manager, LEAVE_LIMIT));
    check_rest(bed);
}

void
attach_bed_compare(struct attach_bed *bed)
{
    struct kvbm_label labels[ATTACH_BED_BLOCKS_MAX];

    (void)pthread_mutex_lock(&bed->lock);
    for (size_t i = 0; i < ATTACH_BED_ENGINES; i++) {
        const struct attach_bed_slot *slot = &bed->slots[i];
        size_t told = 0;
        uint32_t at = 0;
        size_t count;

        if (slot->pool == NULL)
            continue;
        count = kvbm_pool_walk(slot->pool, &at, labels, ATTACH_BED_BLOCKS_MAX);
        for (size_t j = 0; j < count; j++)
            assert_int_equal(slot->told[labels[j].id.hash % ATTACH_BED_NAMES], 1);
        for (size_t j = 0; j < ATTACH_BED_NAMES; j++)
            told += slot->told[j];
        assert_int_equal(told, count);
    }
    assert_int_equal(bed->wrong_turns, 0);
    (void)pthread_mutex_unlock(&bed->lock);
}

void
attach_bed_close(struct attach_bed *bed)
{
    kvbm_attach_close(bed->attach);
    kvbm_manager_free(bed->manager);
    kvbm_volumes_free(bed->volumes);
    kvbm_transfer_free(bed->transfer);
    check_rest(bed);
    kvbm_pool_free(bed->below.g2.pool);
    kvbm_pool_free(bed->below.g3.pool);
    kvbm_storage_close(bed->below.g2.storage);
    kvbm_storage_close(bed->below.g3.storage);
    test_folder_remove(bed->folder);
    (void)pthread_mutex_destroy(&bed->lock);
}

struct kvt_attach *
attach_bed_engine(const struct attach_bed *bed, uint32_t blocks)
{
    struct kvt_attach *attach;
    struct kvt_error err;

    assert_int_equal(
        kvt_attach_open(&attach,
                        &(struct kvt_attach_options){.size = sizeof(struct kvt_attach_options),
                                                     .socket = bed->path,
                                                     .block_count = blocks},
                        &err),
        KVT_OK);
    return attach;
}
