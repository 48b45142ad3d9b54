/*
 * What is tested: kvbm/transfer/transfer_manager.h between every two kinds of storage, and
 * kvbm/transfer/pipeline.h: every byte, whole blocks and some layers, from any layout to any
 * other, elements of 1 to 8 bytes, against a model that moves one byte at a time; bounce buffers;
 * priorities; what a failing block, a failing allocation and a cancelled ticket leave behind.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/storage/disk.h"
#include "kvbm/storage/layered_storage.h"
#include "kvbm/transfer/pipeline.h"
#include "kvbm/volume/volume_storage.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/gate.h"
#include "tests/unit/kvbm/support/peer_process.h"

enum { BLOCKS = 6, SIZE_MAX_HERE = 1 << 16, BOUNCE = 28, PLACES = 8, ROUNDS = 12 };

/* FAR: another process's memory, as far as anybody here can tell. */
enum place { HOST_A, HOST_B, DEVICE_A, DEVICE_B, REMOTE, DISK, LAYERS, FAR };

static uint64_t state;
static char folder[256];
static struct far far;

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)kvt_random_below(&state, bound);
}

static struct kvbm_storage *
open_disk(size_t block_size, size_t part_size)
{
    static unsigned number;
    struct kvbm_storage *disk;
    struct kvt_error err;
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/tier-%u", folder, number++);
    assert_int_equal(kvbm_disk_open(&disk,
                                    &(struct kvbm_disk_options){
                                        .path = path,
                                        .block_count = BLOCKS,
                                        .block_size = block_size,
                                        .direct = true,
                                        .part_size = part_size,
                                        .depth = 4,
                                    },
                                    &err),
                     KVT_OK);
    return disk;
}

static struct kvbm_storage *
open_place(enum place place, size_t block_size, size_t part_size)
{
    struct kvbm_storage *storage;
    struct kvt_error err;

    switch (place) {
    case HOST_A:
    case HOST_B:
        assert_int_equal(
            kvbm_storage_open_memory(&storage, KVBM_STORAGE_SYSTEM, BLOCKS, block_size, &err),
            KVT_OK);
        return storage;
    case DEVICE_A:
    case DEVICE_B: return gate_open(BLOCKS, block_size);
    case REMOTE:
        storage = gate_open(BLOCKS, block_size);
        storage->kind = KVBM_STORAGE_REMOTE;
        return storage;
    case DISK: return open_disk(block_size, part_size);
    case LAYERS:
    case FAR: break; /* side_open() sees to them */
    }
    abort();
}

/* What is in each block of a storage, beside it. */
struct side {
    struct kvbm_storage *storage;
    struct kvbm_layout layout;
    uint8_t *model;  /* BLOCKS blocks */
    uint8_t *apart;  /* of LAYERS: an engine's memory, every layer by itself */
    uint64_t volume; /* of FAR; 0: none */
};

static uint8_t *
scratch(void)
{
    static uint8_t bytes[SIZE_MAX_HERE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

    return bytes;
}

/* An engine's memory: blocks with room between them at odd places, a layer by itself unless it is
 * universal.  The storage's blocks are packed, so the layout that a transfer is told of is too. */
static void
lay_apart(struct side *side, const struct kvt_geometry *geometry)
{
    struct kvt_geometry placed = *geometry;
    struct kvbm_layout layout;
    struct kvt_error err;
    uint64_t parts[8];
    uint64_t size;

    if (placed.kind == KVT_LAYOUT_CONTIGUOUS)
        placed.kind = KVT_LAYOUT_LAYERED;
    placed.alignment = 1u << (13 + below(3));
    assert_int_equal(kvbm_layout_make(&layout, &placed, &err), KVT_OK);
    size = kvbm_layout_allocation(&layout, BLOCKS) + 24;
    side->apart = kvt_calloc(kvbm_layout_parts(&layout), size);
    assert_non_null(side->apart);
    for (uint32_t i = 0; i < kvbm_layout_parts(&layout); i++)
        parts[i] = (uint64_t)(uintptr_t)side->apart + i * size + 3 * (i + 1);
    assert_int_equal(kvbm_storage_open_layers(&side->storage, KVBM_STORAGE_SYSTEM,
                                              &(struct kvbm_layout_memory){&layout, parts, BLOCKS},
                                              &err),
                     KVT_OK);
}

static void
lay_far(struct side *side, size_t block_size)
{
    side->volume = far_add(&far, BLOCKS, block_size);
    assert_int_equal(kvbm_storage_open_volume(&side->storage,
                                              &(struct kvbm_storage_volume_options){
                                                  .set = far.set,
                                                  .volume = side->volume,
                                                  .block_count = BLOCKS,
                                                  .block_size = block_size,
                                                  .own = true,
                                                  .first = 1000,
                                              },
                                              NULL),
                     KVT_OK);
}

static void
side_open(struct side *side, enum place place, const struct kvt_geometry *geometry,
          size_t block_size)
{
    struct kvt_error err;

    assert_int_equal(kvbm_layout_make(&side->layout, geometry, &err), KVT_OK);
    side->apart = NULL;
    side->volume = 0;
    if (place == LAYERS)
        lay_apart(side, geometry);
    else if (place == FAR)
        lay_far(side, block_size);
    else
        side->storage = open_place(place, block_size, side->layout.layer_stride);
    side->model = kvt_calloc(BLOCKS, block_size);
    assert_non_null(side->model);
    for (size_t i = 0; i < BLOCKS * block_size; i++)
        side->model[i] = (uint8_t)kvt_random_next(&state);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        struct kvbm_storage_io io = {.host = scratch(), .block = block};

        memcpy(scratch(), side->model + block * block_size, block_size);
        kvbm_storage_write(side->storage, &io, 1);
        assert_int_equal(io.status, KVT_OK);
    }
}

static void
side_check(const struct side *side)
{
    const size_t size = side->storage->block_size;

    for (uint32_t block = 0; block < BLOCKS; block++) {
        struct kvbm_storage_io io = {.host = scratch(), .block = block};

        kvbm_storage_read(side->storage, &io, 1);
        assert_int_equal(io.status, KVT_OK);
        assert_memory_equal(scratch(), side->model + block * size, size);
    }
}

static void
side_close(struct side *side)
{
    kvbm_storage_close(side->storage);
    if (side->volume != 0)
        far_remove(&far, side->volume);
    kvt_free(side->apart);
    kvt_free(side->model);
}

/* The model: where a byte of a block lies in its packed bytes. */
static size_t
packed(const struct kvt_geometry *g, uint32_t head, uint32_t layer, uint32_t outer, uint32_t token,
       uint32_t byte)
{
    const size_t heads = g->heads;
    const size_t row = g->inner_dim / heads * g->dtype_bytes;
    const size_t page = g->page_size;

    if (g->kind == KVT_LAYOUT_UNIVERSAL)
        return (((head * g->layers + layer) * g->outer + outer) * page + token) * row + byte;
    if (g->order == KVT_LAYOUT_HND)
        return (((layer * g->outer + outer) * heads + head) * page + token) * row + byte;
    return (((layer * g->outer + outer) * page + token) * heads + head) * row + byte;
}

static void
model_copy(struct side *target, uint32_t to, const struct side *source, uint32_t from,
           uint32_t layer, uint32_t layers)
{
    const struct kvt_geometry *t = &target->layout.geometry;
    const struct kvt_geometry *s = &source->layout.geometry;
    uint8_t *out = target->model + to * target->storage->block_size;
    const uint8_t *in = source->model + from * source->storage->block_size;

    for (uint32_t head = 0; head < t->heads; head++)
        for (uint32_t l = layer; l < layer + layers; l++)
            for (uint32_t outer = 0; outer < t->outer; outer++)
                for (uint32_t token = 0; token < t->page_size; token++)
                    for (uint32_t byte = 0; byte < target->layout.row; byte++)
                        out[packed(t, head, l, outer, token, byte)] =
                            in[packed(s, head, l, outer, token, byte)];
}

/* A layer is 4 KiB a head, so that a disk can have checksums of layers. */
static struct kvt_geometry
deal(void)
{
    struct kvt_geometry geometry = {
        .layers = 1 + below(4),
        .outer = 1 + below(2),
        .page_size = 16,
        .dtype_bytes = 1u << below(4),
        .alignment = 1,
        .tp_size = 1,
        .heads = 1u << below(3),
    };

    geometry.inner_dim = 256 * geometry.heads / geometry.outer / geometry.dtype_bytes;
    return geometry;
}

static void
deal_place(struct kvt_geometry *geometry)
{
    geometry->kind = (enum kvt_layout_kind)(1 + below(3));
    geometry->order =
        geometry->kind == KVT_LAYOUT_UNIVERSAL ? KVT_LAYOUT_NHD : (enum kvt_layout_order)below(2);
}

struct rig {
    struct kvbm_storage *bounce;
    struct kvbm_transfer *transfer;
};

static int
set_up(void **rig_out)
{
    static struct rig rig;
    struct kvt_error err;

    (void)test_folder_make(folder, sizeof(folder));
    far_open(&far, folder);
    assert_int_equal(
        kvbm_storage_open_memory(&rig.bounce, KVBM_STORAGE_SYSTEM, BOUNCE, SIZE_MAX_HERE, &err),
        KVT_OK);
    assert_int_equal(
        kvbm_transfer_open(&rig.transfer, &(struct kvbm_transfer_options){8, rig.bounce}, &err),
        KVT_OK);
    *rig_out = &rig;
    return 0;
}

static int
tear_down(void **state_in)
{
    struct rig *rig = *state_in;

    kvbm_transfer_free(rig->transfer);
    kvbm_storage_close(rig->bounce);
    far_close(&far);
    test_folder_remove(folder);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

/* Permute all blocks; a disk moves whole layers only, which a universal block has none of, and to
 * the peer whole blocks only. */
static void
one_round(struct rig *rig, enum place from, enum place to)
{
    struct kvt_geometry geometry = deal();
    struct kvt_copy copies[BLOCKS];
    struct kvbm_transfer_request request;
    struct side source;
    struct side target;
    const uint32_t turn = below(BLOCKS);
    size_t size;

    deal_place(&geometry);
    size = (size_t)geometry.layers * geometry.outer * geometry.page_size * geometry.inner_dim *
           geometry.dtype_bytes;
    assert_true(size <= SIZE_MAX_HERE);
    side_open(&source, from, &geometry, size);
    if ((from != DISK && from != FAR) || (to != DISK && to != FAR))
        deal_place(&geometry);
    side_open(&target, to, &geometry, size);
    request = (struct kvbm_transfer_request){
        .path = kvbm_path_between(source.storage, target.storage),
        .source = source.storage,
        .target = target.storage,
        .copies = copies,
        .count = 1 + below(BLOCKS),
        .source_layout = &source.layout,
        .target_layout = &target.layout,
        .layer = below(geometry.layers),
    };
    request.layers = 1 + below(geometry.layers - request.layer);
    if (to == FAR || (from == DISK && source.layout.geometry.kind == KVT_LAYOUT_UNIVERSAL) ||
        (to == DISK && target.layout.geometry.kind == KVT_LAYOUT_UNIVERSAL)) {
        request.layer = 0;
        request.layers = geometry.layers;
    }
    for (uint32_t i = 0; i < request.count; i++) {
        copies[i] = (struct kvt_copy){i, (i + turn) % BLOCKS, KVT_IO};
        model_copy(&target, copies[i].target, &source, i, request.layer, request.layers);
    }
    assert_int_equal(kvbm_transfer_run(rig->transfer, &request), KVT_OK);
    for (uint32_t i = 0; i < request.count; i++)
        assert_int_equal(copies[i].status, KVT_OK);
    side_check(&target);
    side_check(&source);
    /* And whole blocks as they are. */
    for (uint32_t i = 0; i < BLOCKS; i++) {
        copies[i] = (struct kvt_copy){i, (i + turn) % BLOCKS, KVT_IO};
        memcpy(target.model + copies[i].target * size, source.model + i * size, size);
    }
    assert_int_equal(
        kvbm_copy_blocks(rig->transfer, source.storage, target.storage, copies, BLOCKS), KVT_OK);
    side_check(&target);
    side_close(&target);
    side_close(&source);
}

static void
every_byte_between_every_two_storages(void **rig)
{
    state = test_seed();
    for (unsigned from = 0; from < PLACES; from++)
        for (unsigned to = 0; to < PLACES; to++)
            for (unsigned round = 0; round < ROUNDS / TEST_ALONE_SHARE; round++)
                one_round(*rig, (enum place)from, (enum place)to);
}

static const struct kvt_geometry example = {
    .kind = KVT_LAYOUT_CONTIGUOUS,
    .layers = 8,
    .outer = 2,
    .page_size = 16,
    .inner_dim = 64,
    .dtype_bytes = 2,
    .alignment = 1,
    .tp_size = 1,
    .heads = 4,
};

enum { EXAMPLE_SIZE = 8 * 2 * 16 * 64 * 2 };

static void
on_landed(void *arg, uint32_t layers)
{
    uint32_t *seen = arg;

    assert_true(layers > *seen);
    *seen = layers;
}

/* From disk through host memory to a device in another layout, and back, layer by layer. */
static void
layers_go_over_two_hops(void **rig_in)
{
    struct rig *rig = *rig_in;
    static const uint32_t steps[] = {0, 1, 3, 8, 100, UINT32_MAX};

    state = test_seed();
    for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
        struct kvt_geometry geometry = example;
        struct kvt_relay relays[BLOCKS];
        struct side disk;
        struct side middle;
        struct side device;
        uint32_t seen = 0;
        struct kvbm_pipeline_request request;

        side_open(&disk, DISK, &geometry, EXAMPLE_SIZE);
        side_open(&middle, HOST_A, &geometry, EXAMPLE_SIZE);
        geometry.kind = KVT_LAYOUT_UNIVERSAL;
        side_open(&device, DEVICE_A, &geometry, EXAMPLE_SIZE);
        request = (struct kvbm_pipeline_request){
            .transfer = rig->transfer,
            .source = disk.storage,
            .middle = middle.storage,
            .target = device.storage,
            .relays = relays,
            .count = BLOCKS - 1,
            .source_layout = &disk.layout,
            .target_layout = &device.layout,
            .step = steps[k],
            .landed = on_landed,
            .arg = &seen,
        };
        for (uint32_t i = 0; i < request.count; i++) {
            relays[i] = (struct kvt_relay){i, (i + 2) % BLOCKS, BLOCKS - 1 - i, KVT_IO};
            model_copy(&device, relays[i].target, &disk, i, 0, geometry.layers);
        }
        assert_int_equal(kvbm_pipeline_run(&request), KVT_OK);
        assert_int_equal(seen, geometry.layers);
        side_check(&device);
        /* Back to the disk: the middle has the source's layout, the universal one, and a disk takes
         * whole layers of its own. */
        seen = 0;
        request.source = device.storage;
        request.target = disk.storage;
        request.source_layout = &device.layout;
        request.target_layout = &disk.layout;
        for (uint32_t i = 0; i < request.count; i++) {
            relays[i] = (struct kvt_relay){i, i, (i + 1) % BLOCKS, KVT_IO};
            model_copy(&disk, relays[i].target, &device, i, 0, geometry.layers);
        }
        assert_int_equal(kvbm_pipeline_run(&request), KVT_OK);
        assert_int_equal(seen, geometry.layers);
        side_check(&disk);
        side_close(&device);
        side_close(&middle);
        side_close(&disk);
    }
}

/* Counts that are none: every block says so. */
static void
too_many_blocks_are_refused(void **rig_in)
{
    static struct kvt_relay relays[KVT_COPIES_MAX + 1];
    const struct kvbm_layout layout = {.geometry = example};
    struct rig *rig = *rig_in;
    struct kvbm_pipeline_request request = {.transfer = rig->transfer,
                                            .relays = relays,
                                            .source_layout = &layout,
                                            .target_layout = &layout};

    assert_int_equal(kvbm_pipeline_run(&request), KVT_INVALID);
    request.count = KVT_COPIES_MAX + 1;
    assert_int_equal(kvbm_pipeline_run(&request), KVT_INVALID);
    for (size_t i = 0; i < request.count; i++)
        assert_int_equal(relays[i].status, KVT_INVALID);
}

/* A block that fails on either hop is named; the others arrive. */
static void
a_failing_block_stays_behind(void **rig_in)
{
    struct rig *rig = *rig_in;

    state = test_seed();
    for (unsigned hop = 0; hop < 2; hop++) {
        struct kvt_relay relays[4];
        struct side source;
        struct side middle;
        struct side target;
        struct kvbm_pipeline_request request;

        side_open(&source, DEVICE_A, &example, EXAMPLE_SIZE);
        side_open(&middle, HOST_A, &example, EXAMPLE_SIZE);
        side_open(&target, DEVICE_B, &example, EXAMPLE_SIZE);
        request = (struct kvbm_pipeline_request){
            .transfer = rig->transfer,
            .source = source.storage,
            .middle = middle.storage,
            .target = target.storage,
            .relays = relays,
            .count = 4,
            .source_layout = &source.layout,
            .target_layout = &target.layout,
        };
        for (uint32_t i = 0; i < 4; i++) {
            relays[i] = (struct kvt_relay){i, i, i, KVT_OK};
            if (i != 2)
                model_copy(&target, i, &source, i, 0, example.layers);
        }
        gate_fail(hop == 0 ? source.storage : target.storage, 2, KVT_CORRUPT, hop == 1);
        assert_int_equal(kvbm_pipeline_run(&request), KVT_CORRUPT);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(relays[i].status, i == 2 ? KVT_CORRUPT : KVT_OK);
        gate_fail(hop == 0 ? source.storage : target.storage, 2, KVT_OK, false);
        if (hop == 0) {
            side_check(&target);
        } else {
            /* Its bytes did arrive, and nobody may trust them: only the others are compared. */
            for (uint32_t i = 0; i < 4; i++) {
                struct kvbm_storage_io io = {.host = scratch(), .block = i};

                if (i == 2)
                    continue;
                kvbm_storage_read(target.storage, &io, 1);
                assert_memory_equal(scratch(), target.model + i * EXAMPLE_SIZE, EXAMPLE_SIZE);
            }
        }
        /* The same through bounce buffers. */
        {
            struct kvt_copy copies[4] = {{0, 3, 0}, {1, 2, 0}, {2, 1, 0}, {3, 0, 0}};

            gate_fail(hop == 0 ? source.storage : target.storage, 1, KVT_IO, hop == 1);
            assert_int_equal(
                kvbm_copy_blocks(rig->transfer, source.storage, target.storage, copies, 4), KVT_IO);
            for (uint32_t i = 0; i < 4; i++)
                assert_int_equal(copies[i].status,
                                 (hop == 0 ? copies[i].source : copies[i].target) == 1 ? KVT_IO
                                                                                       : KVT_OK);
        }
        side_close(&target);
        side_close(&middle);
        side_close(&source);
    }
}

static void
requests_that_cannot_work_are_refused(void **rig_in)
{
    struct rig *rig = *rig_in;
    struct kvt_geometry geometry = example;
    struct kvt_copy copy = {0, 0, KVT_OK};
    struct kvbm_layout other;
    struct side a;
    struct side b;
    struct side c;
    struct kvt_ticket *ticket;
    struct kvbm_transfer_request request;

    state = test_seed();
    side_open(&a, HOST_A, &example, EXAMPLE_SIZE);
    side_open(&b, DISK, &example, EXAMPLE_SIZE);
    request = (struct kvbm_transfer_request){
        .path = KVT_PATH_H2DISK,
        .source = a.storage,
        .target = b.storage,
        .copies = &copy,
        .count = 1,
        .source_layout = &a.layout,
    };
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_INVALID);
    request.target_layout = &b.layout;
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_INVALID);
    request.layer = 7;
    request.layers = 2;
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_INVALID);
    request.layers = 1;
    geometry.dtype_bytes = 1;
    assert_int_equal(kvbm_layout_make(&other, &geometry, NULL), KVT_OK);
    request.target_layout = &other;
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_PRECONDITION);
    geometry = example;
    geometry.layers = 9; /* larger than the storage's blocks */
    assert_int_equal(kvbm_layout_make(&other, &geometry, NULL), KVT_OK);
    request.source_layout = &other;
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_INVALID);
    request.source = b.storage; /* another layout, from a disk to a disk */
    geometry = example;
    geometry.order = KVT_LAYOUT_HND;
    assert_int_equal(kvbm_layout_make(&other, &geometry, NULL), KVT_OK);
    request.source_layout = &b.layout;
    request.target_layout = &other;
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_UNSUPPORTED);
    request.source = a.storage;
    /* Some layers of a universal block are no whole parts of a disk's block. */
    geometry = example;
    geometry.kind = KVT_LAYOUT_UNIVERSAL;
    assert_int_equal(kvbm_layout_make(&other, &geometry, NULL), KVT_OK);
    request.source_layout = request.target_layout = &other;
    assert_int_equal(kvbm_transfer_run(rig->transfer, &request), KVT_INVALID);
    assert_int_equal(copy.status, KVT_INVALID);
    /* Nor are some layers of any block what a peer takes. */
    side_open(&c, FAR, &example, EXAMPLE_SIZE);
    request.path = KVT_PATH_REMOTE;
    request.target = c.storage;
    request.source_layout = request.target_layout = &a.layout;
    assert_int_equal(kvbm_transfer_run(rig->transfer, &request), KVT_INVALID);
    side_check(&c);
    side_close(&c);
    side_close(&b);
    side_close(&a);
}

static _Atomic unsigned order_count;

struct turn {
    unsigned place;
};

static void
on_done(void *arg)
{
    struct turn *turn = arg;

    turn->place = atomic_fetch_add(&order_count, 1);
}

/* While the path is busy, what comes later but matters more goes first. */
static void
urgent_tickets_go_first(void **rig_in)
{
    struct rig *rig = *rig_in;
    static const enum kvt_priority priorities[] = {KVT_PRIORITY_NORMAL, KVT_PRIORITY_NORMAL,
                                                   KVT_PRIORITY_HIGH, KVT_PRIORITY_URGENT,
                                                   KVT_PRIORITY_HIGH};
    static const unsigned places[] = {3, 4, 1, 0, 2};
    struct kvt_ticket *tickets[5];
    struct kvt_ticket *first;
    struct kvt_copy copies[6] = {{0, 0, 0}};
    struct turn turns[5];
    struct side host;
    struct side device;
    struct kvbm_transfer_request request;
    struct kvt_transfer_stats stats;

    state = test_seed();
    side_open(&host, HOST_A, &example, EXAMPLE_SIZE);
    side_open(&device, DEVICE_A, &example, EXAMPLE_SIZE);
    request = (struct kvbm_transfer_request){.path = KVT_PATH_H2D,
                                             .source = host.storage,
                                             .target = device.storage,
                                             .copies = &copies[5],
                                             .count = 1};
    atomic_store(&order_count, 0);
    gate_shut(device.storage, true);
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &first), KVT_OK);
    gate_wait_for_visitor(device.storage);
    for (size_t i = 0; i < 5; i++) {
        request.copies = &copies[i];
        request.priority = priorities[i];
        request.done = on_done;
        request.arg = &turns[i];
        assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &tickets[i]), KVT_OK);
    }
    kvbm_transfer_stats(rig->transfer, KVT_PATH_H2D, &stats);
    assert_int_equal(stats.waiting, 5);
    gate_shut(device.storage, false);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(kvt_ticket_wait(tickets[i], 20000), KVT_OK);
        assert_int_equal(turns[i].place, places[i]);
        kvt_ticket_release(tickets[i]);
    }
    assert_int_equal(kvt_ticket_wait(first, 20000), KVT_OK);
    kvt_ticket_release(first);
    side_close(&device);
    side_close(&host);
}

/* A ticket that has begun ends at the next slice; every copy says what became of it. */
static void
begun_tickets_end_early(void **rig_in)
{
    enum { MANY = 4096 };
    struct rig *rig = *rig_in;
    static struct kvt_copy copies[MANY];
    struct kvt_ticket *ticket;
    struct kvbm_transfer_request request;
    struct side host;
    struct side device;
    size_t cancelled = 0;

    state = test_seed();
    side_open(&host, HOST_A, &example, EXAMPLE_SIZE);
    side_open(&device, DEVICE_A, &example, EXAMPLE_SIZE);
    for (uint32_t i = 0; i < MANY; i++)
        copies[i] = (struct kvt_copy){i % BLOCKS, i % BLOCKS, KVT_IO};
    request = (struct kvbm_transfer_request){.path = KVT_PATH_H2D,
                                             .source = host.storage,
                                             .target = device.storage,
                                             .copies = copies,
                                             .count = MANY};
    gate_shut(device.storage, true);
    assert_int_equal(kvbm_transfer_start(rig->transfer, &request, &ticket), KVT_OK);
    gate_wait_for_visitor(device.storage);
    assert_int_equal(kvt_ticket_cancel(ticket), KVT_BUSY);
    gate_shut(device.storage, false);
    assert_int_equal(kvt_ticket_wait(ticket, 20000), KVT_CANCELLED);
    assert_int_equal(copies[0].status, KVT_OK);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(copies[i].status == KVT_OK || copies[i].status == KVT_CANCELLED);
        cancelled += copies[i].status == KVT_CANCELLED;
    }
    assert_true(cancelled > 0 && cancelled < MANY);
    kvt_ticket_release(ticket);
    side_close(&device);
    side_close(&host);
}

struct sweep {
    struct rig *rig;
    struct side *source;
    struct side *middle;
    struct side *target;
};

static bool
attempt(void *arg)
{
    const struct sweep *sweep = arg;
    struct kvt_copy copies[3] = {{0, 0, KVT_OK}, {1, 1, KVT_OK}, {2, 2, KVT_OK}};
    struct kvt_relay relays[3] = {{0, 0, 0, KVT_OK}, {1, 1, 1, KVT_OK}, {2, 2, 2, KVT_OK}};
    enum kvt_err rc = kvbm_copy_blocks(sweep->rig->transfer, sweep->source->storage,
                                       sweep->target->storage, copies, 3);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(copies[i].status, rc);
    if (rc != KVT_OK)
        return false;
    rc = kvbm_pipeline_run(&(struct kvbm_pipeline_request){
        .transfer = sweep->rig->transfer,
        .source = sweep->source->storage,
        .middle = sweep->middle->storage,
        .target = sweep->target->storage,
        .relays = relays,
        .count = 3,
        .source_layout = &sweep->source->layout,
        .target_layout = &sweep->target->layout,
    });
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(relays[i].status, rc);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_a_status(void **rig)
{
    struct side source;
    struct side middle;
    struct side target;
    struct sweep sweep = {*rig, &source, &middle, &target};

    state = test_seed();
    side_open(&source, DEVICE_A, &example, EXAMPLE_SIZE);
    side_open(&middle, HOST_A, &example, EXAMPLE_SIZE);
    side_open(&target, DEVICE_B, &example, EXAMPLE_SIZE);
    assert_true(test_sweep_allocations(attempt, &sweep) > 10);
    side_close(&target);
    side_close(&middle);
    side_close(&source);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_byte_between_every_two_storages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layers_go_over_two_hops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_blocks_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failing_block_stays_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_that_cannot_work_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(urgent_tickets_go_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(begun_tickets_end_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_a_status, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
