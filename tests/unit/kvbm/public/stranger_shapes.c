/*
 * What is tested: a program that has the public headers and libkvbm alone describes layouts, finds
 * parts of blocks in memory, converts and reshapes them between TP sizes and back, every byte
 * compared with a model; descriptors survive and damaged ones are refused; volumes of every kind
 * and of its own do what a table of blocks does, also after they were opened again; and what is
 * wrong is refused with its code, in whatever structure it is said.
 */
#include <string.h>

#include "kvtier/kvbm.h"
#include "kvtier/transfer.h"
#include "kvtier/volume.h"

#include "tests/unit/kvbm/public/stranger.h"

enum { BLOCKS = 3, RANKS_MAX = 8, ROUNDS = 40, LAYERS_MAX = 3 };

/* A rank's blocks, all of one content: `first` is its first head of the model's. */
struct rank {
    struct kvt_geometry shape;
    struct kvt_layout *layout;
    struct kvt_layout_info info;
    struct kvt_memory memory;
    uint64_t parts[LAYERS_MAX];
    uint8_t *bytes;
    uint32_t first;
};

static struct kvt_geometry
deal_model(void)
{
    return (struct kvt_geometry){.size = sizeof(struct kvt_geometry),
                                 .layers = 1 + below(LAYERS_MAX),
                                 .outer = 1 + below(2),
                                 .page_size = 1u << below(4),
                                 .dtype_bytes = 1u << below(4)};
}

static void
open_rank(struct rank *rank, struct kvt_geometry shape, uint32_t tp_size, uint32_t tp_rank)
{
    const uint32_t dim = shape.inner_dim; /* of one head */
    const uint32_t heads = 8 / tp_size;
    uint64_t allocation;

    memset(rank, 0, sizeof(*rank));
    shape.heads = heads;
    shape.inner_dim = heads * dim;
    shape.tp_size = tp_size;
    shape.tp_rank = tp_rank;
    rank->shape = shape;
    rank->first = tp_rank * heads;
    rank->info.size = sizeof(rank->info);
    CHECK(kvt_layout_new(&rank->layout, &shape, NULL) == KVT_OK);
    kvt_layout_info(rank->layout, &rank->info);
    allocation = kvt_layout_allocation(rank->layout, BLOCKS) + 1;
    rank->bytes = malloc(rank->info.parts * allocation);
    CHECK(rank->bytes != NULL);
    memset(rank->bytes, 0xee, rank->info.parts * allocation);
    for (uint32_t i = 0; i < rank->info.parts; i++)
        rank->parts[i] = (uint64_t)(uintptr_t)rank->bytes + i * allocation + 1; /* odd places */
    rank->memory = (struct kvt_memory){.size = sizeof(rank->memory),
                                       .layout = rank->layout,
                                       .parts = rank->parts,
                                       .part_count = rank->info.parts,
                                       .blocks = BLOCKS};
}

static void
close_rank(struct rank *rank)
{
    kvt_layout_free(rank->layout);
    free(rank->bytes);
}

static void
deal_place(struct kvt_geometry *shape)
{
    shape->kind = (enum kvt_layout_kind)(1 + below(3));
    shape->alignment = 1u << below(9);
    shape->order =
        shape->kind != KVT_LAYOUT_UNIVERSAL && below(2) == 0 ? KVT_LAYOUT_HND : KVT_LAYOUT_NHD;
}

/* Go over a rank's share of a block: write it, or compare it. */
static void
visit(struct rank *rank, uint32_t block, uint64_t content, bool writing)
{
    const struct kvt_geometry *shape = &rank->shape;
    const bool layered = shape->kind == KVT_LAYOUT_LAYERED;
    struct spot spot;

    for (spot.layer = 0; spot.layer < shape->layers; spot.layer++)
        for (spot.outer = 0; spot.outer < shape->outer; spot.outer++)
            for (spot.head = 0; spot.head < shape->heads; spot.head++)
                for (spot.token = 0; spot.token < shape->page_size; spot.token++) {
                    const struct spot global = {spot.layer, spot.outer, rank->first + spot.head,
                                                spot.token};
                    uint64_t at = packed_at(shape, &spot, rank->info.row);
                    uint8_t *bytes;

                    if (layered)
                        at %= rank->info.layer_size;
                    bytes = (uint8_t *)(uintptr_t)rank->parts[layered ? spot.layer : 0] +
                            block * rank->info.block_stride + at;
                    for (uint32_t i = 0; i < rank->info.row; i++)
                        if (writing)
                            bytes[i] = byte_of(content, &global, i);
                        else
                            CHECK(bytes[i] == byte_of(content, &global, i));
                }
}

/* Blocks of a group of one TP size, put together for each rank of another. */
static void
reshape(const struct rank *from, uint32_t from_size, struct rank *to, uint32_t to_size,
        uint32_t block, uint64_t content)
{
    const struct kvt_memory *sources[RANKS_MAX];

    for (uint32_t i = 0; i < from_size; i++)
        sources[i] = &from[i].memory;
    for (uint32_t i = 0; i < to_size; i++) {
        struct kvt_rank_part parts[RANKS_MAX];
        uint32_t heads = 0;
        size_t count;

        CHECK(kvt_layout_ranks(to[i].layout, from[0].layout, parts, RANKS_MAX, &count, NULL) ==
              KVT_OK);
        for (size_t j = 0; j < count; j++)
            heads += parts[j].heads;
        CHECK(heads == to[i].shape.heads);
        CHECK(kvt_memory_reshape(&to[i].memory, block, sources, from_size, block, NULL) == KVT_OK);
        visit(&to[i], block, content, false);
    }
}

static void
tp_sizes(void)
{
    struct kvt_geometry shape = deal_model();
    const uint32_t from_size = 1u << below(4);
    const uint32_t to_size = 1u << below(4);
    const uint32_t block = below(BLOCKS);
    const uint64_t content = 1 + below(1000000);
    struct rank from[RANKS_MAX];
    struct rank to[RANKS_MAX];
    struct rank back[RANKS_MAX];

    shape.inner_dim = 1 + below(7);
    deal_place(&shape);
    for (uint32_t i = 0; i < from_size; i++) {
        open_rank(&from[i], shape, from_size, i);
        visit(&from[i], block, content, true);
    }
    deal_place(&shape);
    for (uint32_t i = 0; i < to_size; i++)
        open_rank(&to[i], shape, to_size, i);
    deal_place(&shape);
    for (uint32_t i = 0; i < from_size; i++)
        open_rank(&back[i], shape, from_size, i);
    reshape(from, from_size, to, to_size, block, content);
    reshape(to, to_size, back, from_size, block, content);
    for (uint32_t i = 0; i < from_size; i++) {
        uint32_t crcs[2];

        CHECK(kvt_memory_checksum(&from[i].memory, block, &crcs[0], NULL) == KVT_OK);
        CHECK(kvt_memory_checksum(&back[i].memory, block, &crcs[1], NULL) == KVT_OK);
        CHECK(crcs[0] == crcs[1]);
        close_rank(&from[i]);
        close_rank(&back[i]);
    }
    for (uint32_t i = 0; i < to_size; i++)
        close_rank(&to[i]);
}

/* Some layers of a block from one shape to another; views say where they are. */
static void
shapes(void)
{
    struct kvt_geometry shape = deal_model();
    const uint32_t layer = below(shape.layers);
    const uint32_t layers = 1 + below(shape.layers - layer);
    const struct spot spot = {layer, shape.outer - 1, 0, 0};
    struct kvt_view view;
    struct rank from;
    struct rank to;

    shape.inner_dim = 1 + below(7);
    deal_place(&shape);
    open_rank(&from, shape, 1, 0);
    deal_place(&shape);
    open_rank(&to, shape, 1, 0);
    visit(&from, 1, 5, true);
    visit(&to, 2, 6, true);
    CHECK(kvt_memory_copy(&to.memory, 2, &from.memory, 1, layer, layers, NULL) == KVT_OK);
    CHECK(kvt_memory_view(&to.memory, 2, layer, shape.outer - 1, &view, NULL) == KVT_OK);
    CHECK(*(uint8_t *)(uintptr_t)view.address == byte_of(5, &spot, 0));
    CHECK(view.count * view.bytes == to.info.region_size);
    CHECK(kvt_memory_copy(&to.memory, 2, &from.memory, 1, KVT_LAYOUT_ALL, 0, NULL) == KVT_OK);
    visit(&to, 2, 5, false);
    CHECK(kvt_memory_view(&to.memory, 2, KVT_LAYOUT_ALL, KVT_LAYOUT_ALL, &view, NULL) ==
          (to.info.parts > 1 ? KVT_UNSUPPORTED : KVT_OK));
    CHECK(kvt_memory_view(&to.memory, BLOCKS, 0, 0, &view, NULL) == KVT_RANGE);
    CHECK(kvt_memory_view(&to.memory, 0, shape.layers, 0, &view, NULL) == KVT_RANGE);
    CHECK(kvt_memory_copy(&to.memory, 0, &from.memory, BLOCKS, 0, 1, NULL) == KVT_RANGE);
    CHECK(kvt_memory_copy(&to.memory, 0, &from.memory, 0, 0, shape.layers + 1, NULL) == KVT_RANGE);
    CHECK(kvt_memory_copy(&to.memory, 0, &from.memory, 0, shape.layers - 1, 2, NULL) == KVT_RANGE);
    close_rank(&from);
    close_rank(&to);
}

static void
descriptors(void)
{
    struct kvt_geometry shape = deal_model();
    struct kvt_geometry said = {.size = sizeof(said)};
    struct kvt_layout_info info = {.size = sizeof(info)};
    uint8_t bytes[KVT_LAYOUT_BYTES];
    const uint32_t bit = below(8 * KVT_LAYOUT_BYTES);
    struct kvt_layout *back;
    struct rank rank;

    shape.inner_dim = 1 + below(7);
    deal_place(&shape);
    open_rank(&rank, shape, 4, below(4));
    kvt_layout_serialize(rank.layout, bytes);
    CHECK(kvt_layout_deserialize(&back, bytes, sizeof(bytes), NULL) == KVT_OK);
    kvt_layout_geometry(back, &said);
    kvt_layout_info(back, &info);
    CHECK(memcmp(&said, &rank.shape, sizeof(said)) == 0);
    CHECK(info.fingerprint == rank.info.fingerprint && info.fingerprint != 0);
    CHECK(kvt_layout_compatible(back, rank.layout, NULL) == KVT_OK);
    kvt_layout_free(back);
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    CHECK(kvt_layout_deserialize(&back, bytes, sizeof(bytes), NULL) != KVT_OK && back == NULL);
    close_rank(&rank);
}

/* ---- volumes ---- */

enum { NAMES = 12, ROOM = 8, BLOCK_SIZE = 4096, ASKED = 5, TURNS = 60 };

static struct table {
    bool there[NAMES];
    unsigned closed;
} table; /* what a volume must hold, and the driver's own table */

static void
own_get(void *context, struct kvt_volume_item *items, size_t count)
{
    CHECK(context == &table && count <= KVT_VOLUME_SLICE);
    for (size_t i = 0; i < count; i++) {
        items[i].status = table.there[items[i].id.hash] ? KVT_OK : KVT_NOTFOUND;
        memset(items[i].bytes, (int)(items[i].id.hash + 1), items[i].size);
    }
}

static void
own_put(void *context, struct kvt_volume_item *items, size_t count)
{
    CHECK(context == &table);
    for (size_t i = 0; i < count; i++)
        items[i].status = table.there[items[i].id.hash] ? KVT_EXISTS : KVT_OK;
}

static void
own_close(void *context)
{
    ((struct table *)context)->closed++;
}

static struct kvt_volume *
open_volume(enum kvt_volume_kind kind, const char *path)
{
    const struct kvt_volume_driver driver = {
        .size = sizeof(driver), .get = own_get, .put = own_put, .close = own_close};
    const struct kvt_volume_options options = {.size = sizeof(options),
                                               .kind = kind,
                                               .path = path,
                                               .blocks = ROOM,
                                               .block_size = BLOCK_SIZE,
                                               .fingerprint = 77};
    struct kvt_volume *volume;

    if (kind == 0)
        CHECK(kvt_volume_open_driver(&volume, &driver, &table, BLOCK_SIZE, NULL) == KVT_OK);
    else
        CHECK(kvt_volume_open(&volume, &options, NULL) == KVT_OK);
    return volume;
}

static unsigned
stored(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NAMES; i++)
        count += table.there[i] ? 1 : 0;
    return count;
}

/* What an item must answer; and the table after it. */
static enum kvt_err
expect(enum kvt_volume_verb verb, uint64_t name, bool bounded)
{
    const bool there = table.there[name];

    if (verb == KVT_VOLUME_GET)
        return there ? KVT_OK : KVT_NOTFOUND;
    if (verb == KVT_VOLUME_PUT) {
        if (there)
            return KVT_EXISTS;
        if (bounded && stored() == ROOM)
            return KVT_FULL;
        table.there[name] = true;
        return KVT_OK;
    }
    table.there[name] = there && verb == KVT_VOLUME_HAS;
    return there ? KVT_OK : KVT_NOTFOUND;
}

static void
turn(struct kvt_volumes *set, bool own)
{
    static uint8_t bytes[ASKED][BLOCK_SIZE];
    const enum kvt_volume_verb verb = (enum kvt_volume_verb)below(own ? 2 : KVT_VOLUME_VERB_COUNT);
    const uint32_t first = below(NAMES);
    struct kvt_volume_item items[ASKED];
    const struct kvt_volume_request request = {
        .size = sizeof(request), .volume = 9, .verb = verb, .items = items, .count = ASKED};
    enum kvt_err result;

    for (uint32_t i = 0; i < ASKED; i++) {
        const uint64_t name = (first + i) % NAMES;

        items[i] = (struct kvt_volume_item){.id = {.hash = name, .position = 3}};
        if (verb == KVT_VOLUME_REMOVE || verb == KVT_VOLUME_HAS)
            continue;
        memset(bytes[i], verb == KVT_VOLUME_PUT ? (int)(name + 1) : 0, BLOCK_SIZE);
        items[i].bytes = bytes[i];
        items[i].size = BLOCK_SIZE;
    }
    result = kvt_volumes_run(set, &request, NULL);
    for (uint32_t i = 0; i < ASKED; i++) {
        const enum kvt_err expected = expect(verb, items[i].id.hash, !own);

        CHECK(items[i].status == expected);
        CHECK(result != KVT_OK || expected == KVT_OK || expected == KVT_EXISTS);
        for (uint32_t at = 0; verb == KVT_VOLUME_GET && expected == KVT_OK && at < BLOCK_SIZE; at++)
            CHECK(bytes[i][at] == items[i].id.hash + 1);
    }
}

static void
volumes(enum kvt_volume_kind kind, const char *path)
{
    struct kvt_volume_stats stats = {.size = sizeof(stats)};
    struct kvt_volumes *set;

    memset(&table, 0, sizeof(table));
    CHECK(kvt_volumes_new(&set, NULL) == KVT_OK);
    CHECK(kvt_volumes_register(set, 9, open_volume(kind, path), 4, NULL) == KVT_OK);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(set, kind == 0);
        if (i != TURNS / 2 || kind == KVT_VOLUME_RAM)
            continue;
        CHECK(kvt_volumes_unregister(set, 9, false) == KVT_OK);
        CHECK(table.closed == (kind == 0));
        CHECK(kvt_volumes_register(set, 9, open_volume(kind, path), 4, NULL) == KVT_OK);
    }
    CHECK(kvt_volumes_stats(set, 9, &stats) == KVT_OK && stats.hits + stats.misses > 0);
    CHECK(kvt_volumes_stats(set, 10, &stats) == KVT_NOTFOUND && stats.hits == 0);
    kvt_volumes_free(set);
}

/* ---- in another set, as another process's would be ---- */

/* Blocks of this end's memory through a peer into a volume of its own, and back; under names, and
 * as memory that is elsewhere. */
static void
copy_elsewhere(struct kvt_volumes *ours, struct kvt_volumes *theirs, bool own)
{
    const struct kvt_memory_options host = {.size = sizeof(host),
                                            .kind = KVT_STORAGE_SYSTEM,
                                            .block_count = BLOCKS,
                                            .block_size = BLOCK_SIZE};
    const struct kvt_volume_storage_options tier = {.size = sizeof(tier),
                                                    .set = ours,
                                                    .volume = 4,
                                                    .block_count = BLOCKS,
                                                    .own = own,
                                                    .block_size = BLOCK_SIZE,
                                                    .first = 200};
    const struct kvt_transfer_options plain = {.size = sizeof(plain)};
    const uint32_t content = 1 + below(200);
    struct kvt_storage_name name = {.id = {.hash = 7, .parent = 6, .position = 1}, .block = 2};
    struct kvt_copy copy = {0, 2, KVT_OK};
    uint8_t bytes[BLOCK_SIZE];
    struct kvt_volume_item item = {.id = name.id, .bytes = bytes, .size = BLOCK_SIZE};
    const struct kvt_volume_request request = {
        .size = sizeof(request), .volume = 9, .items = &item, .count = 1};
    struct kvt_storage *memory;
    struct kvt_storage *remote;
    struct kvt_transfer *transfer;
    uint8_t *block;

    CHECK(kvt_storage_open_memory(&memory, &host, NULL) == KVT_OK);
    CHECK(kvt_storage_open_volume(&remote, &tier, NULL) == KVT_OK);
    CHECK(kvt_transfer_new(&transfer, &plain, NULL) == KVT_OK);
    block = kvt_storage_address(memory, 0);
    memset(block, (int)content, BLOCK_SIZE);
    if (!own) {
        CHECK(kvt_copy_blocks(transfer, memory, remote, &copy, 1, NULL) == KVT_PRECONDITION);
        name.block = BLOCKS;
        CHECK(kvt_storage_bind(remote, &name, 1) == KVT_RANGE);
        name.block = 2;
        CHECK(kvt_storage_bind(remote, &name, 1) == KVT_OK);
    }
    CHECK(kvt_path_between(memory, remote) == KVT_PATH_REMOTE);
    CHECK(kvt_copy_blocks(transfer, memory, remote, &copy, 1, NULL) == KVT_OK);
    if (own) { /* it is written again at will */
        memset(block, (int)content + 1, BLOCK_SIZE);
        CHECK(kvt_copy_blocks(transfer, memory, remote, &copy, 1, NULL) == KVT_OK);
    } else {
        CHECK(kvt_volumes_run(theirs, &request, NULL) == KVT_OK);
        CHECK(memcmp(bytes, block, BLOCK_SIZE) == 0);
    }
    copy = (struct kvt_copy){2, 1, KVT_OK};
    CHECK(kvt_copy_blocks(transfer, remote, memory, &copy, 1, NULL) == KVT_OK);
    CHECK(memcmp(kvt_storage_address(memory, 1), block, BLOCK_SIZE) == 0);
    kvt_transfer_free(transfer);
    kvt_storage_close(remote);
    kvt_storage_close(memory);
}

static void
elsewhere(const char *path)
{
    struct kvt_volume_options options = {.size = sizeof(options),
                                         .kind = KVT_VOLUME_RAM,
                                         .blocks = ROOM,
                                         .block_size = BLOCK_SIZE,
                                         .fingerprint = 5,
                                         .path = path,
                                         .number = 9};
    struct kvt_peer_options show = {.size = sizeof(show), .path = path, .fingerprint = 5};
    struct kvt_volumes *theirs;
    struct kvt_volumes *ours;
    struct kvt_volume *volume;
    struct kvt_peer *peer;

    CHECK(kvt_volumes_new(&theirs, NULL) == KVT_OK && kvt_volumes_new(&ours, NULL) == KVT_OK);
    CHECK(kvt_volume_open(&volume, &options, NULL) == KVT_OK);
    CHECK(kvt_volumes_register(theirs, 9, volume, 4, NULL) == KVT_OK);
    CHECK(kvt_peer_open(&peer, &show, NULL) == KVT_INVALID && peer == NULL);
    show.set = theirs;
    CHECK(kvt_peer_open(&peer, &show, NULL) == KVT_OK);
    options.kind = KVT_VOLUME_PEER;
    CHECK(kvt_volume_open(&volume, &options, NULL) == KVT_OK);
    CHECK(kvt_volumes_register(ours, 4, volume, 4, NULL) == KVT_OK);
    copy_elsewhere(ours, theirs, false);
    copy_elsewhere(ours, theirs, true);
    kvt_peer_close(peer);
    kvt_volumes_free(ours);
    kvt_volumes_free(theirs);
}

/* ---- what is wrong ---- */

/* The size of a later header, and a member that it has. */
struct later {
    union {
        struct kvt_geometry geometry;
        struct kvt_memory_options memory;
        struct kvt_transfer_options transfer;
        struct kvt_volume_options volume;
    } ours;
    uint64_t more;
};

static void
refusals(void)
{
    struct kvt_memory_options options = {
        .size = sizeof(options), .kind = KVT_STORAGE_SYSTEM, .block_count = 2, .block_size = 4096};
    struct kvt_transfer_options plain = {.size = sizeof(plain)};
    struct later later = {.ours.transfer = {.size = sizeof(later)}};
    struct kvt_copy copies[2] = {{0, 1, KVT_OK}, {0, 2, KVT_OK}};
    struct kvt_copy_request request = {.size = sizeof(request), .copies = copies, .count = 1};
    struct kvt_storage *storage;
    struct kvt_storage *small;
    struct kvt_transfer *transfer;
    struct kvt_ticket *ticket;
    struct kvt_error err;

    CHECK(kvt_storage_open_memory(&storage, &options, NULL) == KVT_OK);
    options.kind = KVT_STORAGE_DEVICE;
    CHECK(kvt_storage_open_memory(&small, &options, &err) == KVT_UNSUPPORTED && small == NULL);
    options.kind = KVT_STORAGE_DISK;
    CHECK(kvt_storage_open_memory(&small, &options, &err) == KVT_INVALID && small == NULL);
    options.kind = KVT_STORAGE_SYSTEM;
    options.block_size = 4095;
    CHECK(kvt_storage_open_memory(&small, &options, &err) == KVT_INVALID && small == NULL);
    options.block_size = 8192;
    CHECK(kvt_storage_open_memory(&small, &options, &err) == KVT_OK);

    later.more = 1;
    CHECK(kvt_transfer_new(&transfer, &later.ours.transfer, &err) == KVT_UNSUPPORTED);
    later.more = 0;
    CHECK(kvt_transfer_new(&transfer, &later.ours.transfer, &err) == KVT_OK);
    kvt_transfer_free(transfer);
    plain.bounce = storage; /* two blocks are too few */
    CHECK(kvt_transfer_new(&transfer, &plain, &err) == KVT_INVALID && transfer == NULL);
    plain.bounce = NULL;
    CHECK(kvt_transfer_new(&transfer, &plain, &err) == KVT_OK);
    CHECK(kvt_transfer_start(transfer, &request, 0, &ticket, &err) == KVT_INVALID);
    request.source = request.target = storage;
    CHECK(kvt_transfer_run(transfer, &request, &err) == KVT_OK);
    request.count = 2;
    CHECK(kvt_transfer_run(transfer, &request, &err) == KVT_RANGE);
    CHECK(copies[0].status == KVT_RANGE && copies[1].status == KVT_RANGE);
    request.count = 1;
    copies[0].target = 0;
    CHECK(kvt_transfer_run(transfer, &request, &err) == KVT_INVALID);
    request.target = small;
    CHECK(kvt_transfer_run(transfer, &request, &err) == KVT_INVALID);
    request.count = KVT_COPIES_MAX + 1;
    CHECK(kvt_transfer_start(transfer, &request, 0, &ticket, &err) == KVT_INVALID);
    CHECK(strstr(err.text, "4097") != NULL && ticket == NULL);
    kvt_transfer_free(transfer);
    kvt_storage_close(small);
    kvt_storage_close(storage);
}

int
main(void)
{
    char path[256];
    char index[300];

    throw_dice();
    for (unsigned i = 0; i < ROUNDS; i++) {
        tp_sizes();
        shapes();
        descriptors();
    }
    (void)scratch(path, sizeof(path));
    (void)snprintf(index, sizeof(index), "%s.index", path);
    volumes(0, NULL);
    volumes(KVT_VOLUME_RAM, NULL);
    volumes(KVT_VOLUME_FILE, path);
    CHECK(unlink(path) == 0 && unlink(index) == 0);
    volumes(KVT_VOLUME_DIRECTORY, path);
    for (unsigned i = 0; i < NAMES; i++) {
        (void)snprintf(index, sizeof(index), "%s/%016x.kv", path, i);
        CHECK((unlink(index) == 0) == table.there[i]);
    }
    CHECK(rmdir(path) == 0);
    elsewhere(path);
    refusals();
    return 0;
}
