/*
 * What is tested: a program that has the public headers and libkvbm alone copies blocks between
 * host memory, an engine's tensors at odd places, a file and memory of its own, whole and by layer,
 * from layout to layout, with elements of 1 to 8 bytes; every byte of every block that was a target
 * is compared with a model after each step.  Then: reads that fail and a file that lies touch the
 * blocks they concern and no others; what is taken back is not copied; a full queue is an answer;
 * events come; two hops give what one gives.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "kvtier/transfer.h"

#include "tests/unit/kvbm/public/stranger.h"

enum { BLOCKS = 6, ENDS = 4, WORLDS = 24, STEPS = 40, LAYERS_MAX = 4 };
enum { MEMORY, ENGINE, DISK, OWN };

/* A storage, the shape of its blocks, and what must be in them: a content for each layer, 0 where
 * nobody knows. */
struct end {
    struct kvt_geometry shape;
    struct kvt_layout *layout;
    struct kvt_layout_info info;
    struct kvt_storage *storage;
    uint8_t *bytes; /* of ENGINE and OWN */
    uint64_t parts[LAYERS_MAX];
    uint64_t content[BLOCKS][LAYERS_MAX];
};

static struct world {
    struct end ends[ENDS];
    struct kvt_storage *bounce;
    struct kvt_transfer *transfer;
    char path[256];
    uint64_t block_size;
    uint64_t next_content;
    uint32_t fail_block; /* of OWN: reads of it fail; UINT32_MAX: none */
    int gate;            /* of OWN: reads wait for a byte; -1: they do not */
} world;

static void
own_move(struct kvt_storage_io *ios, size_t count, bool writing)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = world.ends[OWN].bytes + ios[i].block * world.block_size + ios[i].offset;

        CHECK(ios[i].offset + ios[i].bytes <= world.block_size && ios[i].block < BLOCKS);
        ios[i].status = !writing && ios[i].block == world.fail_block ? KVT_IO : KVT_OK;
        memcpy(writing ? at : ios[i].host, writing ? ios[i].host : at, ios[i].bytes);
    }
}

static void
own_read(void *context, struct kvt_storage_io *ios, size_t count)
{
    char byte;

    CHECK(context == &world);
    if (world.gate >= 0)
        CHECK(read(world.gate, &byte, 1) == 1);
    own_move(ios, count, false);
}

static void
own_write(void *context, struct kvt_storage_io *ios, size_t count)
{
    CHECK(context == &world);
    own_move(ios, count, true);
}

/* ---- a world ---- */

/* A model whose blocks a storage can hold: a multiple of KVT_STORAGE_ALIGN. */
static struct kvt_geometry
deal_model(void)
{
    static const uint32_t dims[] = {1, 2, 3, 5, 6, 8, 12};
    struct kvt_geometry shape = {.size = sizeof(shape),
                                 .layers = 1 + below(LAYERS_MAX),
                                 .outer = 1 + below(2),
                                 .page_size = 1,
                                 .dtype_bytes = 1u << below(4),
                                 .tp_size = 1,
                                 .heads = 1u << below(3)};
    shape.inner_dim = shape.heads * dims[below(7)];
    while ((uint64_t)shape.page_size * shape.inner_dim * shape.dtype_bytes * shape.outer *
               shape.layers % KVT_STORAGE_ALIGN !=
           0)
        shape.page_size *= 2;
    return shape;
}

static void
deal_place(struct kvt_geometry *shape)
{
    shape->kind = (enum kvt_layout_kind)(1 + below(3));
    shape->alignment = 1u << below(14);
    shape->order =
        shape->kind != KVT_LAYOUT_UNIVERSAL && below(2) == 0 ? KVT_LAYOUT_HND : KVT_LAYOUT_NHD;
}

static void
open_engine(struct end *end)
{
    const uint64_t allocation = kvt_layout_allocation(end->layout, BLOCKS);
    struct kvt_memory memory = {.size = sizeof(memory),
                                .layout = end->layout,
                                .parts = end->parts,
                                .part_count = end->info.parts,
                                .blocks = BLOCKS};
    const uint32_t odd = below(64);

    end->bytes = malloc(end->info.parts * (allocation + 64) + KVT_STORAGE_ALIGN);
    CHECK(end->bytes != NULL);
    for (uint32_t i = 0; i < end->info.parts; i++)
        end->parts[i] = (uint64_t)(uintptr_t)end->bytes + i * (allocation + 64) + odd;
    CHECK(kvt_storage_open_engine(&end->storage, KVT_STORAGE_SYSTEM, &memory, NULL, NULL) ==
          KVT_OK);
}

static void
open_end(unsigned which, struct kvt_geometry shape)
{
    struct end *end = &world.ends[which];
    const struct kvt_memory_options memory = {.size = sizeof(memory),
                                              .kind = KVT_STORAGE_SYSTEM,
                                              .block_count = BLOCKS,
                                              .block_size = world.block_size};
    const struct kvt_storage_driver own = {
        .size = sizeof(own), .read = own_read, .write = own_write};

    memset(end, 0, sizeof(*end));
    deal_place(&shape);
    end->shape = shape;
    end->info.size = sizeof(end->info);
    CHECK(kvt_layout_new(&end->layout, &shape, NULL) == KVT_OK);
    kvt_layout_info(end->layout, &end->info);
    CHECK(end->info.block_size == world.block_size);
    if (which == MEMORY) {
        CHECK(kvt_storage_open_memory(&end->storage, &memory, NULL) == KVT_OK);
    } else if (which == ENGINE) {
        open_engine(end);
    } else if (which == DISK) {
        const bool by_layer = end->info.layer_size % KVT_STORAGE_ALIGN == 0;
        const struct kvt_disk_options disk = {.size = sizeof(disk),
                                              .path = world.path,
                                              .block_count = BLOCKS,
                                              .block_size = world.block_size,
                                              .part_size = by_layer ? end->info.layer_size : 0,
                                              .buffered = true,
                                              .keep = true};

        CHECK(kvt_storage_open_disk(&end->storage, &disk, NULL) == KVT_OK);
    } else {
        end->bytes = malloc(BLOCKS * world.block_size);
        CHECK(end->bytes != NULL);
        CHECK(kvt_storage_open_driver(&end->storage, &own, &world, BLOCKS, world.block_size,
                                      NULL) == KVT_OK);
    }
}

static void
open_world(size_t queue_max)
{
    const struct kvt_geometry model = deal_model();
    struct kvt_memory_options bounce = {.size = sizeof(bounce),
                                        .kind = KVT_STORAGE_SYSTEM,
                                        .block_count = KVT_BOUNCE_MIN + below(8)};
    struct kvt_transfer_options options = {.size = sizeof(options), .queue_max = queue_max};

    world.gate = -1;
    world.fail_block = UINT32_MAX;
    world.block_size = (uint64_t)model.page_size * model.inner_dim * model.dtype_bytes *
                       model.outer * model.layers;
    (void)scratch(world.path, sizeof(world.path));
    for (unsigned i = 0; i < ENDS; i++)
        open_end(i, model);
    bounce.block_size = world.block_size;
    CHECK(kvt_storage_open_memory(&world.bounce, &bounce, NULL) == KVT_OK);
    options.bounce = world.bounce;
    CHECK(kvt_transfer_new(&world.transfer, &options, NULL) == KVT_OK);
}

static void
close_world(void)
{
    char index[300];

    kvt_transfer_free(world.transfer);
    kvt_storage_close(world.bounce);
    for (unsigned i = 0; i < ENDS; i++) {
        kvt_storage_close(world.ends[i].storage);
        kvt_layout_free(world.ends[i].layout);
        free(world.ends[i].bytes);
    }
    (void)snprintf(index, sizeof(index), "%s.index", world.path);
    CHECK(unlink(world.path) == 0 && unlink(index) == 0);
}

/* ---- what must be where ---- */

/* Where byte `at` of a block's packed bytes lies. */
static uint8_t *
place_of(const struct end *end, uint32_t block, uint64_t at)
{
    const bool layered = end->shape.kind == KVT_LAYOUT_LAYERED;

    if (end == &world.ends[MEMORY])
        return (uint8_t *)kvt_storage_address(end->storage, block) + at;
    if (end == &world.ends[OWN])
        return end->bytes + block * world.block_size + at;
    return (uint8_t *)(uintptr_t)end->parts[layered ? at / end->info.layer_size : 0] +
           block * end->info.block_stride + (layered ? at % end->info.layer_size : at);
}

/* Go over the known bytes of a block: write them, or compare them. */
static void
visit(struct end *end, uint32_t block, bool writing)
{
    const struct kvt_geometry *shape = &end->shape;
    struct spot spot;

    for (spot.layer = 0; spot.layer < shape->layers; spot.layer++) {
        const uint64_t content = end->content[block][spot.layer];

        for (spot.outer = 0; content != 0 && spot.outer < shape->outer; spot.outer++)
            for (spot.head = 0; spot.head < shape->heads; spot.head++)
                for (spot.token = 0; spot.token < shape->page_size; spot.token++) {
                    const uint64_t first = packed_at(shape, &spot, end->info.row);

                    for (uint32_t i = 0; i < end->info.row; i++) {
                        uint8_t *at = place_of(end, block, first + i);

                        if (writing)
                            *at = byte_of(content, &spot, i);
                        else
                            CHECK(*at == byte_of(content, &spot, i));
                    }
                }
    }
}

static void
fill(struct end *end, uint32_t block)
{
    for (uint32_t layer = 0; layer < end->shape.layers; layer++)
        end->content[block][layer] = ++world.next_content;
    visit(end, block, true);
}

static bool
knows_layers(const struct end *end, uint32_t block, uint32_t layer, uint32_t layers)
{
    for (uint32_t i = 0; i < layers; i++)
        if (end->content[block][layer + i] == 0)
            return false;
    return true;
}

/* A file is looked at through memory: what it says is checked by a copy that has been checked. */
static void
compare(struct end *end, uint32_t block)
{
    struct end *memory = &world.ends[MEMORY];
    struct kvt_copy copy = {block, BLOCKS - 1, KVT_IO};

    if (end != &world.ends[DISK]) {
        visit(end, block, false);
        return;
    }
    if (!knows_layers(end, block, 0, end->shape.layers))
        return;
    CHECK(kvt_transfer_run(world.transfer,
                           &(struct kvt_copy_request){.size = sizeof(struct kvt_copy_request),
                                                      .source = end->storage,
                                                      .target = memory->storage,
                                                      .copies = &copy,
                                                      .count = 1,
                                                      .source_layout = end->layout,
                                                      .target_layout = memory->layout},
                           NULL) == KVT_OK);
    memcpy(memory->content[BLOCKS - 1], end->content[block], sizeof(end->content[block]));
    visit(memory, BLOCKS - 1, false);
}

/* ---- steps ---- */

struct step {
    struct end *from;
    struct end *to;
    uint32_t layer;
    uint32_t layers;
    struct kvt_copy copies[BLOCKS];
    size_t count;
};

/* Can a file move some layers of its blocks by themselves? */
static bool
takes_layers(const struct end *end)
{
    return end != &world.ends[DISK] || (end->shape.kind != KVT_LAYOUT_UNIVERSAL &&
                                        end->info.layer_size % KVT_STORAGE_ALIGN == 0);
}

static bool
deal_step(struct step *step)
{
    const uint32_t layers = world.ends[0].shape.layers;

    step->from = &world.ends[below(ENDS)];
    step->to = &world.ends[below(ENDS)];
    step->layer = 0;
    step->layers = layers;
    if (takes_layers(step->from) && takes_layers(step->to) && below(2) == 0) {
        step->layer = below(layers);
        step->layers = 1 + below(layers - step->layer);
    }
    step->count = 0;
    /* Within one storage the lower half is read and the upper one written. */
    for (uint32_t block = 0; block < BLOCKS; block++) {
        const bool same = step->from == step->to;
        const uint32_t source = same ? below(BLOCKS / 2) : below(BLOCKS);

        if (below(2) == 0 || (same && block < BLOCKS / 2) ||
            !knows_layers(step->from, source, step->layer, step->layers))
            continue;
        step->copies[step->count++] = (struct kvt_copy){source, block, KVT_IO};
    }
    return step->count > 0;
}

static struct kvt_copy_request
request_of(struct step *step)
{
    return (struct kvt_copy_request){.size = sizeof(struct kvt_copy_request),
                                     .source = step->from->storage,
                                     .target = step->to->storage,
                                     .copies = step->copies,
                                     .count = step->count,
                                     .priority = (enum kvt_priority)below(KVT_PRIORITY_COUNT),
                                     .source_layout = step->from->layout,
                                     .target_layout = step->to->layout,
                                     .layer = step->layer,
                                     .layers = step->layers};
}

/* Write into the model what each copy says of itself, and look at every target. */
static void
settle(struct step *step)
{
    for (size_t i = 0; i < step->count; i++)
        for (uint32_t layer = step->layer; layer < step->layer + step->layers; layer++)
            step->to->content[step->copies[i].target][layer] =
                step->copies[i].status == KVT_OK
                    ? step->from->content[step->copies[i].source][layer]
                    : 0;
    for (size_t i = 0; i < step->count; i++)
        compare(step->to, step->copies[i].target);
}

static void
run_step(void)
{
    struct kvt_error err;
    struct kvt_copy_request request;
    struct step step;
    enum kvt_err rc;

    if (below(4) == 0)
        fill(&world.ends[MEMORY], below(BLOCKS));
    if (!deal_step(&step))
        return;
    request = request_of(&step);
    if (step.from == step.to && step.layers == world.ends[0].shape.layers && below(2) == 0)
        rc = kvt_copy_blocks(world.transfer, step.from->storage, step.to->storage, step.copies,
                             step.count, &err);
    else
        rc = kvt_transfer_run(world.transfer, &request, &err);
    if (rc != KVT_OK)
        (void)fprintf(stderr, "%s: %s\n", kvt_err_name(rc), err.text);
    CHECK(rc == KVT_OK);
    settle(&step);
}

/* A read that fails and a byte that rots are one block's trouble each. */
static void
faults(void)
{
    struct end *own = &world.ends[OWN];
    struct end *disk = &world.ends[DISK];
    struct end *memory = &world.ends[MEMORY];
    struct step step = {own, memory, 0, own->shape.layers, {{0}}, BLOCKS};
    struct kvt_storage_info info = {.size = sizeof(info)};
    struct kvt_copy_request request;
    uint8_t byte;
    int fd;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(own, i);
        step.copies[i] = (struct kvt_copy){i, BLOCKS - 1 - i, KVT_OK};
    }
    world.fail_block = below(BLOCKS);
    request = request_of(&step);
    CHECK(kvt_transfer_run(world.transfer, &request, NULL) == KVT_IO);
    for (uint32_t i = 0; i < BLOCKS; i++)
        CHECK(step.copies[i].status == (i == world.fail_block ? KVT_IO : KVT_OK));
    settle(&step);
    world.fail_block = UINT32_MAX;

    step.to = disk;
    request = request_of(&step);
    CHECK(kvt_transfer_run(world.transfer, &request, NULL) == KVT_OK);
    settle(&step);
    fd = open(world.path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(pread(fd, &byte, 1, (off_t)(3 * world.block_size + 17)) == 1);
    byte ^= 4;
    CHECK(pwrite(fd, &byte, 1, (off_t)(3 * world.block_size + 17)) == 1);
    CHECK(close(fd) == 0);
    step.from = disk;
    step.to = memory;
    for (uint32_t i = 0; i < BLOCKS; i++)
        step.copies[i] = (struct kvt_copy){i, i, KVT_OK};
    request = request_of(&step);
    CHECK(kvt_transfer_run(world.transfer, &request, NULL) == KVT_CORRUPT);
    for (uint32_t i = 0; i < BLOCKS; i++)
        CHECK(step.copies[i].status == (i == 3 ? KVT_CORRUPT : KVT_OK));
    settle(&step);
    kvt_storage_info(disk->storage, &info);
    CHECK(info.corrupt == 1 && info.kind == KVT_STORAGE_DISK && info.block_count == BLOCKS);
}

/* ---- tickets ---- */

static void
count_done(void *arg)
{
    (*(unsigned *)arg)++;
}

/* One ticket runs and waits for the gate, two wait behind it, a fourth finds no room. */
static void
tickets(void)
{
    struct step steps[4];
    struct kvt_ticket *held[4];
    struct kvt_transfer_stats stats = {.size = sizeof(stats)};
    const int events = eventfd(0, 0);
    unsigned done = 0;
    int gate[2];

    CHECK(events >= 0 && pipe(gate) == 0);
    world.gate = gate[0];
    fill(&world.ends[OWN], 0);
    for (unsigned i = 0; i < 4; i++) {
        struct kvt_copy_request request;

        steps[i] = (struct step){&world.ends[OWN],           &world.ends[MEMORY], 0,
                                 world.ends[0].shape.layers, {{0, i, KVT_IO}},    1};
        request = request_of(&steps[i]);
        request.priority = KVT_PRIORITY_NORMAL;
        request.done = count_done;
        request.arg = &done;
        request.event_fd = events;
        if (i == 1) /* the first is running */
            do
                kvt_transfer_stats(world.transfer, KVT_PATH_REMOTE, &stats);
            while (stats.waiting > 0);
        CHECK(kvt_transfer_start(world.transfer, &request, 0, &held[i], NULL) ==
              (i == 3 ? KVT_AGAIN : KVT_OK));
    }
    CHECK(held[3] == NULL && kvt_ticket_wait(held[0], 0) == KVT_TIMEOUT);
    CHECK(kvt_ticket_cancel(held[1]) == KVT_OK && done == 1);
    CHECK(kvt_ticket_wait(held[1], 0) == KVT_CANCELLED);
    CHECK(kvt_ticket_cancel(held[1]) == KVT_BUSY);
    for (int i = 0; i < 4096; i++)
        CHECK(write(gate[1], "x", 1) == 1);
    CHECK(kvt_ticket_wait(held[0], UINT64_MAX) == KVT_OK);
    CHECK(kvt_ticket_wait(held[2], UINT64_MAX) == KVT_OK);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(steps[i].copies[0].status == (i == 1 ? KVT_CANCELLED : KVT_OK));
        kvt_ticket_release(held[i]);
        if (i != 1)
            settle(&steps[i]);
    }
    for (uint64_t sum = 0, more = 0; sum < 3; sum += more) {
        struct pollfd poll_fd = {.fd = events, .events = POLLIN};

        CHECK(poll(&poll_fd, 1, 10000) == 1 && read(events, &more, sizeof(more)) == 8);
    }
    CHECK(done == 3);
    world.gate = -1;
    CHECK(close(gate[0]) == 0 && close(gate[1]) == 0 && close(events) == 0);
}

/* ---- two hops ---- */

static unsigned landings;

static void
landed(void *arg, uint32_t layers)
{
    CHECK(arg == &world && layers > 0 && layers <= world.ends[0].shape.layers);
    landings++;
}

static void
two_hops(void)
{
    struct end *own = &world.ends[OWN];
    struct end *engine = &world.ends[ENGINE];
    struct kvt_relay relays[BLOCKS];
    const struct kvt_pipeline_request request = {.size = sizeof(request),
                                                 .source = own->storage,
                                                 .middle = world.bounce,
                                                 .target = engine->storage,
                                                 .relays = relays,
                                                 .count = BLOCKS,
                                                 .source_layout = own->layout,
                                                 .target_layout = engine->layout,
                                                 .step = 1 + below(LAYERS_MAX),
                                                 .landed = landed,
                                                 .arg = &world};

    landings = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fill(own, i);
        relays[i] = (struct kvt_relay){i, i, BLOCKS - 1 - i, KVT_IO};
        memcpy(engine->content[BLOCKS - 1 - i], own->content[i], sizeof(own->content[i]));
    }
    CHECK(kvt_transfer_pipeline(world.transfer, &request, NULL) == KVT_OK);
    CHECK(landings > 0);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        CHECK(relays[i].status == KVT_OK);
        compare(engine, i);
    }
    relays[1].middle = 1000;
    CHECK(kvt_transfer_pipeline(world.transfer, &request, NULL) == KVT_RANGE);
    CHECK(relays[0].status == KVT_RANGE);
}

int
main(void)
{
    throw_dice();
    for (unsigned i = 0; i < WORLDS; i++) {
        open_world(2);
        for (uint32_t block = 0; block < BLOCKS; block++)
            fill(&world.ends[MEMORY], block);
        for (unsigned step = 0; step < STEPS; step++)
            run_step();
        faults();
        two_hops();
        tickets();
        close_world();
    }
    return 0;
}
