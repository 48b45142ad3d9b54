/*
 * What is tested: layouts, storages, transfers and volumes of the public headers with each of their
 * allocations failed once: a refusal leaves nothing behind, and what a driver was given stays the
 * caller's; structures of callers that know fewer members and more; the GPU's storages over a
 * driver of our own.  What they do with bytes is tested by stranger_*.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvtier/transfer.h"
#include "kvtier/volume.h"

#include "tests/support/seed.h"

enum { BLOCKS = 4, SIZE = 4096 };

static const struct kvt_geometry geometry = {
    .size = sizeof(geometry),
    .kind = KVT_LAYOUT_LAYERED,
    .layers = 2,
    .outer = 2,
    .page_size = 16,
    .inner_dim = 32,
    .dtype_bytes = 2,
    .alignment = 4096,
    .tp_size = 1,
};

struct bed {
    char folder[256];
    char path[300];
    unsigned closed;
};

static void
set_up(struct bed *bed)
{
    (void)test_folder_make(bed->folder, sizeof(bed->folder));
    (void)snprintf(bed->path, sizeof(bed->path), "%s/disk", bed->folder);
    bed->closed = 0;
}

static void
refuse(void *context, struct kvt_storage_io *ios, size_t count)
{
    (void)context;
    (void)ios; /* a driver that forgets what it was asked for */
    (void)count;
}

static void
close_own(void *context)
{
    ((struct bed *)context)->closed++;
}

static enum kvt_err
open_ends(struct bed *bed, struct kvt_storage *ends[4], const struct kvt_memory *memory)
{
    const struct kvt_memory_options host = {.size = sizeof(host),
                                            .kind = KVT_STORAGE_SYSTEM,
                                            .block_count = BLOCKS,
                                            .block_size = 2 * SIZE};
    const struct kvt_disk_options disk = {.size = sizeof(disk),
                                          .path = bed->path,
                                          .block_count = BLOCKS,
                                          .block_size = 2 * SIZE,
                                          .buffered = true};
    const struct kvt_storage_driver driver = {
        .size = sizeof(driver), .read = refuse, .write = refuse, .close = close_own};
    enum kvt_err rc = kvt_storage_open_memory(&ends[0], &host, NULL);

    if (rc == KVT_OK)
        rc = kvt_storage_open_engine(&ends[1], KVT_STORAGE_SYSTEM, memory, NULL, NULL);
    if (rc == KVT_OK)
        rc = kvt_storage_open_disk(&ends[2], &disk, NULL);
    if (rc == KVT_OK)
        rc = kvt_storage_open_driver(&ends[3], &driver, bed, BLOCKS, 2 * SIZE, NULL);
    return rc;
}

/* One block down to the disk and back into the engine's tensors, then from a driver that fails. */
static enum kvt_err
copy_around(struct kvt_transfer *transfer, struct kvt_storage *ends[4])
{
    struct kvt_copy copy = {0, 1, KVT_OK};
    enum kvt_err rc;

    memset(kvt_storage_address(ends[0], 0), 0x5a, 2 * SIZE);
    rc = kvt_copy_blocks(transfer, ends[0], ends[2], &copy, 1, NULL);
    assert_int_equal(copy.status, rc);
    if (rc != KVT_OK)
        return rc;
    copy = (struct kvt_copy){1, 3, KVT_OK};
    rc = kvt_copy_blocks(transfer, ends[2], ends[0], &copy, 1, NULL);
    if (rc != KVT_OK)
        return rc;
    rc = kvt_copy_blocks(transfer, ends[3], ends[0], &copy, 1, NULL);
    assert_true(rc == KVT_IO || rc == KVT_NOMEM);
    return rc == KVT_IO ? KVT_OK : rc;
}

static bool
attempt_copies(void *arg)
{
    static _Alignas(4096) uint8_t tensors[2][BLOCKS * SIZE];
    const uint64_t parts[2] = {(uintptr_t)tensors[0], (uintptr_t)tensors[1]};
    struct bed *bed = arg;
    struct kvt_memory memory = {
        .size = sizeof(memory), .parts = parts, .part_count = 2, .blocks = BLOCKS};
    const struct kvt_transfer_options options = {.size = sizeof(options)};
    struct kvt_storage *ends[4] = {NULL, NULL, NULL, NULL};
    struct kvt_transfer *transfer = NULL;
    struct kvt_layout *layout;
    enum kvt_err rc = kvt_layout_new(&layout, &geometry, NULL);

    bed->closed = 0;
    memory.layout = layout;
    if (rc == KVT_OK)
        rc = open_ends(bed, ends, &memory);
    if (rc == KVT_OK)
        rc = kvt_transfer_new(&transfer, &options, NULL);
    if (rc == KVT_OK)
        rc = copy_around(transfer, ends);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvt_transfer_free(transfer);
    assert_int_equal(bed->closed, 0);
    for (unsigned i = 0; i < 4; i++)
        kvt_storage_close(ends[i]);
    assert_true(rc != KVT_OK || bed->closed == 1);
    kvt_layout_free(layout);
    return rc == KVT_OK;
}

static void
every_allocation_of_copies_may_fail(void **unused)
{
    struct bed bed;

    (void)unused;
    set_up(&bed);
    assert_true(test_sweep_allocations(attempt_copies, &bed) > 15);
    test_folder_remove(bed.folder);
}

static void
no_items(void *context, struct kvt_volume_item *items, size_t count)
{
    (void)context;
    (void)items;
    (void)count;
}

static bool
attempt_volumes(void *arg)
{
    const struct kvt_volume_driver driver = {
        .size = sizeof(driver), .get = no_items, .put = no_items, .close = close_own};
    const struct kvt_volume_options ram = {
        .size = sizeof(ram), .kind = KVT_VOLUME_RAM, .blocks = 2, .block_size = SIZE};
    static uint8_t bytes[SIZE];
    struct kvt_volume_item item = {.bytes = bytes, .size = SIZE};
    struct kvt_volume_request request = {
        .size = sizeof(request), .verb = KVT_VOLUME_PUT, .items = &item, .count = 1};
    struct bed *bed = arg;
    struct kvt_volumes *set = NULL;
    struct kvt_volume *volume = NULL;
    enum kvt_err rc = kvt_volumes_new(&set, NULL);

    bed->closed = 0;
    for (uint64_t id = 0; id < 2 && rc == KVT_OK; id++) {
        rc = id == 0 ? kvt_volume_open(&volume, &ram, NULL)
                     : kvt_volume_open_driver(&volume, &driver, bed, SIZE, NULL);
        assert_true(bed->closed == 0);
        if (rc == KVT_OK && kvt_volumes_register(set, id, volume, 1, NULL) != KVT_OK) {
            kvt_volume_close(volume);
            assert_int_equal(bed->closed, id);
            rc = KVT_NOMEM;
        }
        request.volume = id;
        if (rc == KVT_OK)
            rc = kvt_volumes_run(set, &request, NULL);
        if (id == 1 && rc == KVT_IO) /* what a driver forgets is not stored */
            rc = KVT_OK;
        assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    }
    kvt_volumes_free(set);
    assert_true(rc != KVT_OK || bed->closed == 1);
    return rc == KVT_OK;
}

static void
every_allocation_of_volumes_may_fail(void **unused)
{
    struct bed bed;

    (void)unused;
    assert_true(test_sweep_allocations(attempt_volumes, &bed) > 8);
}

/* Callers that were compiled with another version of the headers. */
static void
sizes_of_structures(void **unused)
{
    struct {
        struct kvt_geometry known;
        uint64_t newer;
    } larger = {.known = geometry};
    struct {
        struct kvt_layout_info known;
        uint64_t newer;
    } info = {.known = {.size = sizeof(info)}, .newer = 7};
    struct kvt_layout_info small = {.size = offsetof(struct kvt_layout_info, layer_size),
                                    .layer_size = 99};
    struct kvt_geometry less = geometry;
    struct kvt_layout *layout;
    struct kvt_error err;

    (void)unused;
    larger.known.size = sizeof(larger);
    larger.newer = 1;
    assert_int_equal(kvt_layout_new(&layout, &larger.known, &err), KVT_UNSUPPORTED);
    assert_null(layout);
    less.size = offsetof(struct kvt_geometry, heads);
    assert_int_equal(kvt_layout_new(&layout, &less, &err), KVT_INVALID);
    larger.newer = 0;
    assert_int_equal(kvt_layout_new(&layout, &larger.known, &err), KVT_OK);
    kvt_layout_info(layout, &info.known);
    assert_int_equal(info.known.block_size, 2 * 2 * 16 * 32 * 2);
    assert_int_equal(info.newer, 0);
    kvt_layout_info(layout, &small);
    assert_int_equal(small.block_size, info.known.block_size);
    assert_int_equal(small.layer_size, 99); /* it is past the end that the caller knows */
    kvt_layout_free(layout);
}

/* Device, pinned and an engine's device memory, over a driver that has no GPU. */
static void
on_a_device(void **unused)
{
    struct kvt_memory_options options = {
        .size = sizeof(options), .block_count = BLOCKS, .block_size = SIZE};
    const struct kvt_transfer_options plain = {.size = sizeof(plain)};
    struct kvt_device_info info = {.size = sizeof(info)};
    struct kvt_copy copy = {0, 2, KVT_OK};
    struct kvt_transfer *transfer;
    struct kvt_storage *storages[2];
    struct kvt_device *device;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvt_device_open(&device, "/nowhere/libcuda.so", 0, &err), KVT_UNSUPPORTED);
    assert_null(device);
    assert_int_equal(kvt_device_open(&device, KVBM_FAKE_CUDA, 0, &err), KVT_OK);
    kvt_device_info(device, &info);
    assert_true(info.driver > 0 && info.name[0] != '\0');
    options.device = device;
    options.kind = KVT_STORAGE_DEVICE;
    assert_int_equal(kvt_storage_open_memory(&storages[0], &options, &err), KVT_OK);
    options.kind = KVT_STORAGE_PINNED;
    assert_int_equal(kvt_storage_open_memory(&storages[1], &options, &err), KVT_OK);
    assert_null(kvt_storage_address(storages[0], 0));
    assert_int_equal(kvt_path_between(storages[0], storages[1]), KVT_PATH_D2H);
    assert_int_equal(kvt_transfer_new(&transfer, &plain, &err), KVT_OK);
    memset(kvt_storage_address(storages[1], 0), 0x77, SIZE);
    assert_int_equal(kvt_copy_blocks(transfer, storages[1], storages[0], &copy, 1, &err), KVT_OK);
    copy = (struct kvt_copy){2, 3, KVT_OK};
    assert_int_equal(kvt_copy_blocks(transfer, storages[0], storages[1], &copy, 1, &err), KVT_OK);
    assert_memory_equal(kvt_storage_address(storages[1], 3), kvt_storage_address(storages[1], 0),
                        SIZE);
    kvt_transfer_free(transfer);
    kvt_storage_close(storages[1]);
    kvt_storage_close(storages[0]);
    kvt_device_close(device);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_copies_may_fail),
        cmocka_unit_test(every_allocation_of_volumes_may_fail),
        cmocka_unit_test(sizes_of_structures),
        cmocka_unit_test(on_a_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
