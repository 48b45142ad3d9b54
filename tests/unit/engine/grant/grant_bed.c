#include "tests/unit/engine/grant/grant_bed.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/unit/engine/support/block_bytes.h"

static enum kvt_err
fabric_open(struct engine_fabric **fabric, bool near, struct kvt_error *err)
{
    const struct engine_fabric_options options = {.near = near ? "sysv,posix,self" : "",
                                                  .far = near ? "" : "tcp"};

    return engine_fabric_open(fabric, &options, err);
}

/* Whoever finds it may read it, or show it himself.  On the thread that registers it. */
static void
on_store(void *arg, const struct kvbm_label *label)
{
    const struct grant_bed *bed = arg;
    const uint8_t *bytes =
        (const uint8_t *)kvbm_storage_address(engine_blockset_storage(bed->set), 0) -
        engine_blockset_data_at(&bed->shape, 0);
    bool shown = !bed->alone;

    for (uint32_t i = 0; i < GRANT_BED_BLOCKS && !shown; i++) {
        const struct engine_blockset_entry *entry =
            (const struct engine_blockset_entry *)(bytes +
                                                   engine_blockset_entry_at(&bed->shape, i));

        shown = atomic_load(&entry->generation) % 2 == 1 && entry->hash == label->id.hash;
    }
    assert(shown && "found before it can be read");
}

void
grant_bed_open(struct grant_bed *bed, bool near, uint64_t hold_ms, uint64_t rest_ms)
{
    const struct kvbm_layout layout = blocks_layout(1, 0, GRANT_BED_HEADS);
    const struct kvbm_pool_options pool = {.block_count = GRANT_BED_BLOCKS,
                                           .dedup = KVT_POOL_DEDUP_REJECT,
                                           .on_store = on_store,
                                           .arg = bed};
    struct kvt_error err;

    memset(bed, 0, sizeof(*bed));
    bed->near = near;
    (void)test_folder_make(bed->folder, sizeof(bed->folder));
    (void)snprintf(bed->endpoint, sizeof(bed->endpoint), "ipc://%s/grants", bed->folder);
    if (fabric_open(&bed->fabric, near, &err) != KVT_OK ||
        engine_blockset_shape(&bed->shape, &layout, GRANT_BED_BLOCKS, &err) != KVT_OK ||
        engine_blockset_open(&bed->set, bed->fabric, &layout, GRANT_BED_BLOCKS, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(kvbm_pool_new(&bed->pool, &pool), KVT_OK);
    if (engine_grants_open(&bed->grants,
                           &(struct engine_grants_options){
                               .fabric = bed->fabric,
                               .set = bed->set,
                               .pool = bed->pool,
                               .endpoint = bed->endpoint,
                               .places = GRANT_BED_PLACES,
                               .hold_ms = hold_ms,
                               .rest_ms = rest_ms,
                           },
                           &err) != KVT_OK)
        fail_msg("%s", err.text);
    engine_blockset_describe(bed->set, bed->description, &bed->size);
}

void
grant_bed_close(struct grant_bed *bed)
{
    engine_grants_close(bed->grants);
    kvbm_pool_free(bed->pool); /* asserts that nothing is held */
    engine_blockset_close(bed->set);
    engine_fabric_close(bed->fabric);
    test_folder_remove(bed->folder);
}

enum kvt_err
grant_hand_open(struct grant_hand *hand, bool near, const char *endpoint,
                const uint8_t *description, size_t size)
{
    struct kvt_error err;
    enum kvt_err rc;

    memset(hand, 0, sizeof(*hand));
    rc = fabric_open(&hand->fabric, near, &err);
    if (rc == KVT_OK)
        rc = engine_import_open(&hand->import, hand->fabric, description, size, NULL,
                                GRANT_BED_WAIT, &err);
    if (rc == KVT_OK)
        rc = engine_writer_open(&hand->writer, hand->fabric, hand->import, endpoint, GRANT_BED_WAIT,
                                &err);
    if (rc != KVT_OK)
        grant_hand_close(hand);
    return rc;
}

void
grant_hand_close(struct grant_hand *hand)
{
    engine_writer_close(hand->writer);
    engine_import_close(hand->import);
    engine_fabric_close(hand->fabric);
    memset(hand, 0, sizeof(*hand));
}

enum kvt_err
grant_hand_acquire(struct grant_hand *hand, const uint64_t *names, size_t count, uint64_t hold_ms,
                   struct engine_grant *grant)
{
    struct kvbm_label labels[ENGINE_GRANT_BLOCKS_MAX + 1] = {0}; /* one is too many */

    for (size_t i = 0; i < count; i++)
        labels[i].id = (struct kvt_block_id){.hash = names[i], .position = (uint32_t)i};
    return engine_writer_acquire(hand->writer, labels, count, hold_ms, grant, NULL);
}

enum kvt_err
grant_hand_put(struct grant_hand *hand, struct engine_grant *grant)
{
    const size_t size = engine_import_shape(hand->import)->layout.block_size;
    const void *blocks[ENGINE_GRANT_BLOCKS_MAX] = {NULL};
    uint8_t *bytes = kvt_calloc(grant->count, size);
    enum kvt_err rc = bytes == NULL ? KVT_NOMEM : KVT_OK;

    for (size_t i = 0; i < grant->count && rc == KVT_OK; i++)
        if (grant->blocks[i].status == KVT_OK) {
            blocks_write(bytes + i * size, size, grant->blocks[i].hash);
            blocks[i] = bytes + i * size;
        }
    if (rc == KVT_OK)
        rc = engine_writer_put(hand->writer, grant, blocks, NULL);
    kvt_free(bytes);
    return rc;
}

size_t
grant_bed_names(struct grant_bed *bed, struct grant_hand *hand)
{
    const size_t size = engine_blockset_layout(bed->set)->block_size;
    struct kvbm_label labels[GRANT_BED_BLOCKS];
    uint32_t at = 0;
    const size_t count = kvbm_pool_walk(bed->pool, &at, labels, GRANT_BED_BLOCKS);
    uint8_t *into = kvt_calloc(1, size);

    assert_non_null(into);
    for (size_t i = 0; i < count; i++) {
        const uint64_t name = labels[i].id.hash;
        struct engine_import_read read = {.host = into};
        struct kvt_handle handle;

        assert_int_equal(kvbm_pool_find(bed->pool, name, &handle), KVT_OK);
        assert_true(blocks_are(
            kvbm_storage_address(engine_blockset_storage(bed->set), handle.block), size, name));
        read.ref = (struct engine_block_ref){.block = handle.block, .hash = name};
        assert_int_equal(
            engine_import_run(hand->import,
                              &(struct engine_import_request){
                                  .reads = &read, .count = 1, .wait_ms = GRANT_BED_WAIT},
                              NULL),
            KVT_OK);
        assert_true(blocks_are(into, size, name));
        kvbm_pool_drop(bed->pool, handle);
    }
    kvt_free(into);
    return count;
}

bool
grant_bed_is_idle(struct grant_bed *bed)
{
    return engine_grants_stats(bed->grants).held == 0 && kvbm_pool_stats(bed->pool).active == 0;
}

void
grant_bed_wait_idle(struct grant_bed *bed)
{
    const uint64_t until = kvt_clock_mono_ms() + GRANT_BED_WAIT;

    while (!grant_bed_is_idle(bed)) {
        assert_true(kvt_clock_mono_ms() < until);
        kvt_clock_sleep_ms(2);
    }
}
