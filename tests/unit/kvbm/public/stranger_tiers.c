/*
 * What is tested: a program that has the public headers and libkvbm alone lets blocks go down four
 * tiers and has them back, every byte compared, stepping by itself and with the library's thread;
 * filters, prefetches and counters are what kvtier/offload.h says, also for callers compiled with
 * a smaller or a larger structure, and what is wrong is refused with its code.
 */
#include <string.h>

#include "kvtier/kvbm.h"
#include "kvtier/offload.h"
#include "kvtier/storage.h"
#include "kvtier/transfer.h"
#include "kvtier/volume.h"

#include "tests/unit/kvbm/public/stranger.h"

enum { BLOCKS = 32, SIZE = 8192, NAMES = 150, VOLUME = 3, WAIT = 20000 };

struct tier {
    struct kvt_pool *pool;
    struct kvt_storage *storage;
};

static struct tier tiers[KVT_TIER_G4];
static struct kvt_volumes *volumes;
static struct kvt_transfer *transfer;
static struct kvt_offload *offload;
static struct kvt_offload_tier rows[KVT_TIER_G4];
static unsigned asked;

static void
fill(uint8_t *bytes, uint64_t hash)
{
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)mixed(hash * SIZE + i);
}

static bool
is_filled(const uint8_t *bytes, uint64_t hash)
{
    for (size_t i = 0; i < SIZE; i++)
        if (bytes[i] != (uint8_t)mixed(hash * SIZE + i))
            return false;
    return true;
}

static struct kvt_block_info
name_of(uint64_t hash)
{
    return (struct kvt_block_info){.size = sizeof(struct kvt_block_info),
                                   .id = {hash, hash > 1 ? hash - 1 : 0, (uint32_t)hash - 1}};
}

static void
open_tiers(void)
{
    const struct kvt_memory_options memory = {.size = sizeof(memory),
                                              .kind = KVT_STORAGE_SYSTEM,
                                              .block_count = BLOCKS,
                                              .block_size = SIZE};
    const struct kvt_volume_options ram = {
        .size = sizeof(ram), .kind = KVT_VOLUME_RAM, .blocks = 2 * NAMES, .block_size = SIZE};
    const struct kvt_transfer_options queues = {.size = sizeof(queues)};
    struct kvt_volume *volume;
    char path[256];
    const struct kvt_disk_options disk = {.size = sizeof(disk),
                                          .path = scratch(path, sizeof(path)),
                                          .block_count = BLOCKS,
                                          .block_size = SIZE,
                                          .buffered = true};

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        const struct kvt_pool_options pool = {.size = sizeof(pool), .block_count = BLOCKS};

        CHECK(kvt_pool_new(&tiers[tier].pool, &pool, NULL) == KVT_OK);
        CHECK((tier == KVT_TIER_G3
                   ? kvt_storage_open_disk(&tiers[tier].storage, &disk, NULL)
                   : kvt_storage_open_memory(&tiers[tier].storage, &memory, NULL)) == KVT_OK);
        rows[tier] = (struct kvt_offload_tier){
            .size = sizeof(rows[tier]), .pool = tiers[tier].pool, .storage = tiers[tier].storage};
    }
    CHECK(kvt_volumes_new(&volumes, NULL) == KVT_OK);
    CHECK(kvt_volume_open(&volume, &ram, NULL) == KVT_OK);
    CHECK(kvt_volumes_register(volumes, VOLUME, volume, 4, NULL) == KVT_OK);
    CHECK(kvt_transfer_new(&transfer, &queues, NULL) == KVT_OK);
}

static void
close_tiers(void)
{
    kvt_volumes_free(volumes);
    kvt_transfer_free(transfer);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        struct kvt_pool_usage usage = {.size = sizeof(usage)};

        kvt_pool_usage(tiers[tier].pool, &usage);
        CHECK(usage.active == 0);
        kvt_pool_free(tiers[tier].pool);
        kvt_storage_close(tiers[tier].storage);
    }
}

static struct kvt_offload_options
options_of(uint64_t iteration_ms)
{
    return (struct kvt_offload_options){.size = sizeof(struct kvt_offload_options),
                                        .g1 = &rows[KVT_TIER_G1],
                                        .g2 = &rows[KVT_TIER_G2],
                                        .g3 = &rows[KVT_TIER_G3],
                                        .volumes = volumes,
                                        .volume = VOLUME,
                                        .transfer = transfer,
                                        .room_wait_ms = 1000,
                                        .iteration_ms = iteration_ms};
}

static struct kvt_shared
make(uint64_t hash)
{
    const struct kvt_block_info info = name_of(hash);
    struct kvt_unique unique;
    struct kvt_shared shared;

    CHECK(kvt_pool_allocate(tiers[KVT_TIER_G1].pool, 1, &unique, WAIT) == KVT_OK);
    CHECK(kvt_unique_begin(tiers[KVT_TIER_G1].pool, unique, NULL) == KVT_OK);
    fill(kvt_storage_address(tiers[KVT_TIER_G1].storage, unique.handle.block), hash);
    CHECK(kvt_unique_complete(tiers[KVT_TIER_G1].pool, unique, &info, NULL) == KVT_OK);
    CHECK(kvt_unique_register(tiers[KVT_TIER_G1].pool, unique, &shared, NULL) == KVT_OK);
    return shared;
}

static void
start(const struct kvt_offload_options *options)
{
    struct kvt_error err = {.text = ""};
    const enum kvt_err rc = kvt_offload_new(&offload, options, &err);

    if (rc != KVT_OK)
        (void)fprintf(stderr, "%s: %s\n", kvt_err_name(rc), err.text);
    CHECK(rc == KVT_OK);
}

/* Until it is finished, whoever steps. */
static struct kvt_onboard_result
finish(struct kvt_onboard *onboard, bool threaded)
{
    struct kvt_onboard_result result = {.size = sizeof(result)};

    while (kvt_onboard_wait(onboard, threaded ? WAIT : 0, &result) == KVT_BUSY) {
        CHECK(!threaded);
        CHECK(kvt_offload_drain(offload, WAIT));
    }
    return result;
}

static void
down_and_up(uint64_t iteration_ms)
{
    const bool threaded = iteration_ms > 0;
    struct kvt_offload_options options;
    struct kvt_offload_stats down = {.size = sizeof(down)};
    struct kvt_onboard_stats up = {.size = sizeof(up)};

    open_tiers();
    options = options_of(iteration_ms);
    start(&options);
    for (uint64_t hash = 1; hash <= NAMES; hash++) {
        const struct kvt_shared shared = make(hash);

        if (hash == 1) /* what is used stays */
            CHECK(kvt_offload_push(offload, shared, WAIT) == KVT_OK);
        kvt_shared_drop(tiers[KVT_TIER_G1].pool, &shared, 1);
        if (!threaded)
            kvt_offload_step(offload);
        if (hash % 8 == 0) {
            kvt_offload_make_room(offload, KVT_TIER_G1, 8, threaded ? WAIT : 0);
            CHECK(kvt_offload_drain(offload, WAIT));
        }
    }
    CHECK(kvt_offload_drain(offload, WAIT));
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        CHECK(kvt_offload_stats(offload, (enum kvt_tier)tier, &down) == KVT_OK);
        CHECK(down.blocks > 0 && down.bytes == down.blocks * SIZE && down.failed == 0);
        CHECK(down.pushed == (tier == KVT_TIER_G1) && down.lowered > 0);
    }
    CHECK(kvt_offload_stats(offload, KVT_TIER_G4, &down) == KVT_NOTFOUND && down.blocks == 0);
    for (uint64_t first = 1; first <= NAMES; first += 5) {
        struct kvt_onboard_request request = {.size = sizeof(request), .count = 5};
        struct kvt_block_info blocks[5];
        struct kvt_onboard_result result;
        struct kvt_onboard *onboard;
        struct kvt_shared held[5];

        for (uint64_t i = 0; i < 5; i++)
            blocks[i] = name_of(first + i);
        request.blocks = blocks;
        request.prefetch = first % 3 == 0;
        CHECK(kvt_onboard_start(&onboard, offload, &request, NULL) == KVT_OK);
        result = finish(onboard, threaded);
        CHECK(result.status == KVT_OK || (request.prefetch && result.status == KVT_AGAIN));
        CHECK(kvt_onboard_take(onboard, held) == (request.prefetch ? 0 : 5));
        kvt_onboard_release(onboard);
        for (size_t i = 0; i < 5 && !request.prefetch; i++)
            CHECK(is_filled(kvt_storage_address(tiers[KVT_TIER_G1].storage, held[i].handle.block),
                            first + i));
        if (!request.prefetch)
            kvt_shared_drop(tiers[KVT_TIER_G1].pool, held, 5);
    }
    kvt_onboard_stats(offload, false, &up);
    CHECK(up.onboards > 0 && up.missing == 0 && up.failed == 0 && up.waiting == 0);
    CHECK(up.from[KVT_TIER_G4] > 0);
    kvt_onboard_stats(offload, true, &up);
    CHECK(up.onboards > 0);
    kvt_offload_free(offload);
    close_tiers();
}

static bool
is_even(void *arg, enum kvt_tier from, const struct kvt_block_info *info, uint32_t priority)
{
    CHECK(arg == &asked && from == KVT_TIER_G1 && info->size == sizeof(*info) && priority == 0);
    asked++;
    return info->id.hash % 2 == 0;
}

static void
filtered(void)
{
    struct kvt_offload_options options;
    struct kvt_offload_stats down = {.size = offsetof(struct kvt_offload_stats, failed)};

    open_tiers();
    asked = 0;
    rows[KVT_TIER_G1].filter = is_even;
    rows[KVT_TIER_G1].filter_arg = &asked;
    rows[KVT_TIER_G1].idle_iterations = 3;
    options = options_of(0);
    start(&options);
    for (uint64_t hash = 1; hash <= 10; hash++) {
        const struct kvt_shared shared = make(hash);

        kvt_shared_drop(tiers[KVT_TIER_G1].pool, &shared, 1);
    }
    for (int i = 0; i < 10; i++)
        kvt_offload_step(offload);
    CHECK(kvt_offload_drain(offload, WAIT));
    CHECK(asked == 10);
    for (uint64_t hash = 1; hash <= 10; hash++) {
        CHECK(kvt_pool_has(tiers[KVT_TIER_G1].pool, hash)); /* copied, not moved */
        CHECK(kvt_pool_has(tiers[KVT_TIER_G2].pool, hash) == (hash % 2 == 0));
    }
    memset((uint8_t *)&down + down.size, 0xee, sizeof(down) - down.size);
    CHECK(kvt_offload_stats(offload, KVT_TIER_G1, &down) == KVT_OK);
    CHECK(down.blocks == 5 && down.filtered == 5);
    CHECK(down.failed == UINT64_C(0xeeeeeeeeeeeeeeee)); /* not ours to write */
    kvt_offload_free(offload);
    close_tiers();
}

/* The same, with room behind for what we have never heard of. */
struct larger_options {
    struct kvt_offload_options known;
    uint64_t news;
};

static void
refused(void)
{
    struct larger_options larger = {.news = 0};
    struct kvt_offload_options options;
    struct kvt_block_info blocks[2] = {name_of(1), name_of(2)};
    struct kvt_onboard_request request = {.size = sizeof(request), .blocks = blocks, .count = 2};
    struct kvt_onboard *onboard;
    struct kvt_error err;

    open_tiers();
    larger.known = options_of(0);
    larger.known.size = sizeof(larger);
    CHECK(kvt_offload_new(&offload, &larger.known, &err) == KVT_OK);
    kvt_offload_free(offload);
    larger.news = 1;
    CHECK(kvt_offload_new(&offload, &larger.known, &err) == KVT_UNSUPPORTED && offload == NULL);
    options = options_of(0);
    options.g1 = options.g2 = options.g3 = NULL;
    CHECK(kvt_offload_new(&offload, &options, &err) == KVT_INVALID && offload == NULL);
    options = options_of(0);
    rows[KVT_TIER_G2].low_ppm = 950000; /* above the high one */
    CHECK(kvt_offload_new(&offload, &options, &err) == KVT_INVALID && offload == NULL);
    rows[KVT_TIER_G2].low_ppm = 0;
    rows[KVT_TIER_G2].storage = NULL;
    CHECK(kvt_offload_new(&offload, &options, &err) == KVT_INVALID && offload == NULL);
    options.g2 = NULL; /* not there at all is fine */
    CHECK(kvt_offload_new(&offload, &options, &err) == KVT_OK);
    blocks[1].size--;
    CHECK(kvt_onboard_start(&onboard, offload, &request, &err) == KVT_INVALID && onboard == NULL);
    blocks[1].size++;
    request.target = KVT_TIER_G2;
    CHECK(kvt_onboard_start(&onboard, offload, &request, &err) == KVT_INVALID && onboard == NULL);
    request.target = (enum kvt_tier)0;
    request.count = 0;
    CHECK(kvt_onboard_start(&onboard, offload, &request, &err) == KVT_INVALID && onboard == NULL);
    request.count = 2;
    CHECK(kvt_onboard_start(&onboard, offload, &request, &err) == KVT_OK);
    CHECK(kvt_onboard_wait(onboard, 0, NULL) == KVT_BUSY);
    kvt_onboard_cancel(onboard);
    kvt_offload_step(offload);
    CHECK(kvt_onboard_wait(onboard, 0, NULL) == KVT_CANCELLED);
    kvt_onboard_release(onboard);
    kvt_onboard_release(NULL);
    kvt_offload_free(offload);
    kvt_offload_free(NULL);
    close_tiers();
}

int
main(void)
{
    throw_dice();
    down_and_up(0);
    down_and_up(1);
    filtered();
    refused();
    return 0;
}
