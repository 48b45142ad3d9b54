/*
 * What is tested: kvbm/transfer/queue_ticket.h where what was asked for says KVT_TIMEOUT itself,
 * as a storage over a network may.  Whoever waits for an end gets that answer; it is not taken for
 * a wait that was too short, which would go on for ever.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/transfer/pipeline.h"
#include "kvbm/transfer/transfer_manager.h"
#include "kvbm/volume/volume_set.h"
#include "kvbm/volume/volume_storage.h"
#include "kvtier/storage.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/gate.h"

enum { BLOCKS = 16, SIZE = 4096, QUEUE = 4, VOLUME = 3 };

/* A transfer manager with bounce buffers, host memory, and two storages without addresses. */
struct bed {
    struct kvbm_storage *bounce;
    struct kvbm_storage *host;
    struct kvbm_storage *near;
    struct kvbm_storage *late; /* what is written to its block 1 times out */
    struct kvbm_transfer *transfer;
};

static int
set_up(void **state)
{
    static struct bed bed;
    struct kvt_error err;

    assert_int_equal(kvbm_storage_open_memory(&bed.bounce, KVBM_STORAGE_SYSTEM, BLOCKS, SIZE, &err),
                     KVT_OK);
    assert_int_equal(kvbm_storage_open_memory(&bed.host, KVBM_STORAGE_SYSTEM, BLOCKS, SIZE, &err),
                     KVT_OK);
    bed.near = gate_open(BLOCKS, SIZE);
    bed.late = gate_open(BLOCKS, SIZE);
    gate_fail(bed.late, 1, KVT_TIMEOUT, true);
    assert_int_equal(
        kvbm_transfer_open(&bed.transfer,
                           &(struct kvbm_transfer_options){QUEUE, .bounce = bed.bounce}, &err),
        KVT_OK);
    *state = &bed;
    return 0;
}

static int
tear_down(void **state)
{
    struct bed *bed = *state;

    kvbm_transfer_free(bed->transfer);
    kvbm_storage_close(bed->late);
    kvbm_storage_close(bed->near);
    kvbm_storage_close(bed->host);
    kvbm_storage_close(bed->bounce);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

static void
assert_second_timed_out(const struct kvt_copy *copies)
{
    assert_int_equal(copies[0].status, KVT_OK);
    assert_int_equal(copies[1].status, KVT_TIMEOUT);
    assert_int_equal(copies[2].status, KVT_OK);
}

static void
a_copy_that_times_out_has_ended(void **state)
{
    struct bed *bed = *state;
    struct kvt_copy copies[3] = {{0, 0, KVT_IO}, {1, 1, KVT_IO}, {2, 2, KVT_IO}};

    assert_int_equal(kvbm_copy_blocks(bed->transfer, bed->host, bed->late, copies, 3), KVT_TIMEOUT);
    assert_second_timed_out(copies);
}

static void
so_has_a_second_hop(void **state)
{
    struct bed *bed = *state;
    struct kvt_copy copies[3] = {{0, 0, KVT_IO}, {1, 1, KVT_IO}, {2, 2, KVT_IO}};

    assert_int_equal(kvbm_copy_blocks(bed->transfer, bed->near, bed->late, copies, 3), KVT_TIMEOUT);
    assert_second_timed_out(copies);
}

static void
so_has_a_step_of_a_pipeline(void **state)
{
    const struct kvt_geometry geometry = {.kind = KVT_LAYOUT_CONTIGUOUS,
                                          .layers = 4,
                                          .outer = 1,
                                          .page_size = 1,
                                          .inner_dim = 256,
                                          .dtype_bytes = 4,
                                          .alignment = 1,
                                          .tp_size = 1,
                                          .heads = 1};
    struct kvt_relay relays[3] = {{0, 0, 0, KVT_IO}, {1, 1, 1, KVT_IO}, {2, 2, 2, KVT_IO}};
    struct bed *bed = *state;
    struct kvbm_layout layout;
    struct kvt_error err;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, &err), KVT_OK);
    assert_int_equal(kvbm_pipeline_run(&(struct kvbm_pipeline_request){
                         .transfer = bed->transfer,
                         .source = bed->near,
                         .middle = bed->host,
                         .target = bed->late,
                         .relays = relays,
                         .count = 3,
                         .source_layout = &layout,
                         .target_layout = &layout,
                     }),
                     KVT_TIMEOUT);
    assert_int_equal(relays[0].status, KVT_OK);
    assert_int_equal(relays[1].status, KVT_TIMEOUT);
    assert_int_equal(relays[2].status, KVT_OK);
}

/* ---- volumes ---- */

static void
time_out(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_TIMEOUT;
}

static void
close_nothing(struct kvbm_volume *volume)
{
    (void)volume;
}

static const struct kvbm_volume_driver late_driver = {
    .kind = "late", .get = time_out, .put = time_out, .close = close_nothing};

static void
volumes_and_tiers_on_them_time_out(void **state)
{
    static uint8_t bytes[SIZE];
    struct bed *bed = *state;
    struct kvbm_volume volume = {&late_driver, SIZE};
    struct kvt_volume_item item = {.id = {.hash = 7}, .bytes = bytes, .size = SIZE};
    struct kvt_copy copy = {0, 0, KVT_IO};
    struct kvbm_storage *tier;
    struct kvbm_volumes *set;
    struct kvt_error err;

    assert_int_equal(kvbm_volumes_new(&set, &err), KVT_OK);
    assert_int_equal(kvbm_volumes_register(set, VOLUME, &volume, QUEUE, &err), KVT_OK);
    assert_int_equal(kvbm_volumes_run(set, &(struct kvbm_volume_request){.volume = VOLUME,
                                                                         .verb = KVT_VOLUME_PUT,
                                                                         .items = &item,
                                                                         .count = 1}),
                     KVT_TIMEOUT);
    assert_int_equal(item.status, KVT_TIMEOUT);
    assert_int_equal(
        kvbm_storage_open_volume(&tier,
                                 &(struct kvbm_storage_volume_options){.set = set,
                                                                       .volume = VOLUME,
                                                                       .block_count = BLOCKS,
                                                                       .block_size = SIZE,
                                                                       .own = true,
                                                                       .first = 1},
                                 &err),
        KVT_OK);
    assert_int_equal(kvbm_copy_blocks(bed->transfer, bed->host, tier, &copy, 1), KVT_TIMEOUT);
    assert_int_equal(copy.status, KVT_TIMEOUT);
    kvbm_storage_close(tier);
    kvbm_volumes_free(set);
}

/* ---- the same through the public headers ---- */

static void
late_moves(void *context, struct kvt_storage_io *ios, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ios[i].status = KVT_TIMEOUT;
}

static void
late_items(void *context, struct kvt_volume_item *items, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_TIMEOUT;
}

static void
programs_hear_of_it(void **state)
{
    static uint8_t bytes[SIZE];
    const struct kvt_memory_options host = {
        .size = sizeof(host), .kind = KVT_STORAGE_SYSTEM, .block_count = 1, .block_size = SIZE};
    const struct kvt_storage_driver storage = {
        .size = sizeof(storage), .read = late_moves, .write = late_moves};
    const struct kvt_volume_driver driver = {
        .size = sizeof(driver), .get = late_items, .put = late_items};
    const struct kvt_transfer_options options = {.size = sizeof(options)};
    struct kvt_volume_item item = {.id = {.hash = 7}, .bytes = bytes, .size = SIZE};
    struct kvt_copy copy = {0, 0, KVT_IO};
    struct kvt_transfer *transfer;
    struct kvt_storage *memory;
    struct kvt_storage *late;
    struct kvt_volume *volume;
    struct kvt_volumes *set;

    (void)state;
    assert_int_equal(kvt_storage_open_memory(&memory, &host, NULL), KVT_OK);
    assert_int_equal(kvt_storage_open_driver(&late, &storage, NULL, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(kvt_transfer_new(&transfer, &options, NULL), KVT_OK);
    assert_int_equal(kvt_copy_blocks(transfer, memory, late, &copy, 1, NULL), KVT_TIMEOUT);
    assert_int_equal(copy.status, KVT_TIMEOUT);
    assert_int_equal(kvt_volumes_new(&set, NULL), KVT_OK);
    assert_int_equal(kvt_volume_open_driver(&volume, &driver, NULL, SIZE, NULL), KVT_OK);
    assert_int_equal(kvt_volumes_register(set, VOLUME, volume, QUEUE, NULL), KVT_OK);
    assert_int_equal(kvt_volumes_run(set,
                                     &(struct kvt_volume_request){
                                         .size = sizeof(struct kvt_volume_request),
                                         .volume = VOLUME,
                                         .verb = KVT_VOLUME_GET,
                                         .items = &item,
                                         .count = 1,
                                     },
                                     NULL),
                     KVT_TIMEOUT);
    kvt_volumes_free(set);
    kvt_transfer_free(transfer);
    kvt_storage_close(late);
    kvt_storage_close(memory);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_that_times_out_has_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_has_a_second_hop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_has_a_step_of_a_pipeline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(volumes_and_tiers_on_them_time_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(programs_hear_of_it, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
