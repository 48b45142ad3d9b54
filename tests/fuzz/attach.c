/*
 * Property: whatever an engine puts into its ring, the worker's side of it neither fails an
 * assertion nor gives a block twice, its numbers add up, and when the engine is gone nothing of it
 * is held or told.  Half of the inputs are a ring's memory as it is; the other half are made into
 * requests, whose handles are mostly those that were given, so that they go deep.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kvbm/attach/attach_service_internal.h"
#include "kvbm/attach/ring.h"

#include "tests/fuzz/target.h"

enum {
    BLOCKS = 12,
    BELOW = 10, /* blocks of G2 */
    SIZE = 4096,
    NAMES = 32,
    GIVEN_MAX = 64,
    REQUESTS_MAX = 64,
    RING = 1024,
    VOLUME = 1,
};

struct engine {
    struct kvbm_attach_service *service;
    struct kvt_handle given[GIVEN_MAX]; /* the last so many */
    size_t given_count;
    bool told[NAMES];
    bool watched;
};

/* What outlives an input. */
static struct kvbm_attach_service_below below;
static struct kvbm_storage *memory;

static bool
object_has(void *arg, const struct kvt_block_id *ids, size_t count, bool *present)
{
    (void)arg;
    for (size_t i = 0; i < count; i++)
        present[i] = ids[i].hash % 3 == 0;
    return count % 5 != 4;
}

static void
object_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    for (size_t i = 0; i < count; i++) {
        memset(items[i].bytes, (int)items[i].id.hash, SIZE);
        items[i].status = items[i].id.hash % 4 == 3 ? KVT_CORRUPT : KVT_OK;
    }
}

static void
object_put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    (void)volume;
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_OK;
}

static void
object_close(struct kvbm_volume *volume)
{
    (void)volume; /* lives as long as the program */
}

static void
open_below(void)
{
    static const struct kvbm_volume_driver driver = {
        .kind = "test", .get = object_get, .put = object_put, .close = object_close};
    static struct kvbm_volume objects = {&driver, SIZE};
    struct kvbm_manager_options options = {
        .volume = VOLUME, .queue_max = 1, .retry_ms = 1, .iteration_ms = 10};

    if (memory != NULL)
        return;
    if (kvbm_transfer_new(&below.transfer, 16, NULL) != KVT_OK ||
        kvbm_pool_new(&below.g2.pool, &(struct kvbm_pool_options){.block_count = BELOW}) !=
            KVT_OK ||
        kvbm_storage_open_memory(&below.g2.storage, KVBM_STORAGE_SYSTEM, BELOW, SIZE, NULL) !=
            KVT_OK ||
        kvbm_storage_open_memory(&memory, KVBM_STORAGE_DEVICE, BLOCKS, SIZE, NULL) != KVT_OK ||
        kvbm_volumes_new(&options.volumes, NULL) != KVT_OK ||
        kvbm_volumes_register(options.volumes, VOLUME, &objects, 8, NULL) != KVT_OK)
        abort();
    options.transfer = below.transfer;
    options.tiers[KVT_TIER_G2] = (struct kvbm_manager_tier){
        .pool = below.g2.pool, .storage = below.g2.storage, .high_ppm = 900000, .low_ppm = 500000};
    if (kvbm_manager_new(&below.manager, &options, NULL) != KVT_OK)
        abort();
    below.has = object_has;
}

static void
on_store(void *arg, const struct kvbm_label *label)
{
    struct engine *engine = arg;

    assert(label->id.hash != 0 && label->id.position <= KVT_POSITION_MAX);
    if (label->id.hash >= NAMES)
        return;
    assert(!engine->told[label->id.hash]);
    engine->told[label->id.hash] = true;
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    struct engine *engine = arg;

    if (label->id.hash >= NAMES)
        return;
    assert(engine->told[label->id.hash]);
    engine->told[label->id.hash] = false;
}

static void
watch(void *arg, struct kvbm_pool *pool)
{
    struct engine *engine = arg;

    assert(engine->watched == (pool == NULL));
    engine->watched = pool != NULL;
}

/* ---- input ---- */

struct input {
    const uint8_t *bytes;
    size_t size;
};

static uint8_t
take(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->bytes++;
}

/* Mostly one that was given, sometimes one beside it. */
static struct kvt_handle
take_handle(struct input *input, const struct engine *engine)
{
    const uint8_t which = take(input);
    struct kvt_handle handle = {which % (BLOCKS + 1), which / (BLOCKS + 1)};

    if (engine->given_count > 0 && which < 192) {
        handle = engine->given[which % engine->given_count];
        if (which % 64 == 63)
            handle.generation++;
    }
    return handle;
}

static struct kvbm_attach_name
take_name(struct input *input)
{
    const uint8_t hash = take(input);
    const uint8_t position = take(input);
    struct kvbm_attach_name name = {
        .hash = hash % NAMES,
        .parent = position % 8 > 0 ? hash : 0,
        .prefix_hash = hash,
        .position = position % 8,
    };

    if (position == 255) {
        name.position = UINT32_MAX;
        name.hash = UINT64_MAX - hash;
    }
    return name;
}

/* A request of the right shape; returns its size. */
static size_t
make_request(struct input *input, const struct engine *engine, struct kvbm_attach_message *request)
{
    const uint32_t op = take(input) % (KVBM_ATTACH_OP_END + 1);
    const uint32_t count = take(input) % 20;
    size_t item = 0;

    request->head = (struct kvbm_attach_record){.id = 7, .op = op, .count = count};
    request->head.value = op == KVBM_ATTACH_ALLOCATE ? take(input) % (BLOCKS + 2) : count % 3;
    for (uint32_t i = 0; i < count; i++) {
        switch (op) {
        case KVBM_ATTACH_REGISTER:
            item = sizeof(request->entries[0]);
            request->entries[i].handle = take_handle(input, engine);
            request->entries[i].name = take_name(input);
            break;
        case KVBM_ATTACH_DROP:
            item = sizeof(request->handles[0]);
            request->handles[i] = take_handle(input, engine);
            break;
        case KVBM_ATTACH_MATCH:
            item = sizeof(request->numbers[0]);
            request->numbers[i] = take(input) % NAMES;
            break;
        case KVBM_ATTACH_ONBOARD:
        case KVBM_ATTACH_PREFETCH:
            item = sizeof(request->names[0]);
            request->names[i] = take_name(input);
            break;
        default: request->head.count = count == 19; break;
        }
    }
    return sizeof(request->head) + count * item;
}

/* ---- what must hold ---- */

static void
keep_given(struct engine *engine, struct kvt_handle handle)
{
    assert(handle.block < BLOCKS && handle.generation != 0);
    engine->given[engine->given_count++ % GIVEN_MAX] = handle;
    if (engine->given_count > GIVEN_MAX)
        engine->given_count = GIVEN_MAX;
}

static void
check_answer(struct engine *engine, const struct kvbm_attach_message *request, size_t size,
             const struct kvbm_attach_message *answer, size_t answer_size)
{
    const struct kvbm_attach_record *head = &answer->head;
    uint32_t free = 0;

    assert(answer_size >= sizeof(*head) && answer_size <= sizeof(*answer));
    assert(head->status < KVT_ERR_COUNT && head->zero == 0);
    assert(size < sizeof(*head) || (head->id == request->head.id && head->op == request->head.op));
    switch (head->op) {
    case KVBM_ATTACH_ALLOCATE:
    case KVBM_ATTACH_MATCH:
    case KVBM_ATTACH_ONBOARD:
        assert(answer_size == sizeof(*head) + head->count * sizeof(answer->handles[0]));
        for (uint32_t i = 0; i < head->count; i++)
            keep_given(engine, answer->handles[i]);
        break;
    case KVBM_ATTACH_REGISTER:
        assert(answer_size == sizeof(*head) + head->count * sizeof(answer->results[0]));
        for (uint32_t i = 0; i < head->count; i++)
            if (answer->results[i].status == KVT_OK || answer->results[i].status == KVT_EXISTS)
                keep_given(engine, answer->results[i].handle);
        break;
    default: break;
    }
    /* No block is held in both ways, and none that the pool calls free is held. */
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const struct kvbm_attach_service_hold *hold = &engine->service->holds[i];

        assert(!hold->unique || hold->shares == 0);
        free += !hold->unique && hold->shares == 0;
    }
    assert(kvbm_pool_stats(engine->service->pool).active >= BLOCKS - free);
}

static void
serve(struct engine *engine, const struct kvbm_attach_message *request, size_t size)
{
    static struct kvbm_attach_message answer;
    const size_t answer_size = kvbm_attach_service_serve(engine->service, request, size, &answer);

    check_answer(engine, request, size, &answer, answer_size);
}

static void
serve_ring(struct engine *engine, const uint8_t *bytes, size_t size)
{
    static struct kvbm_attach_message request;
    static uint8_t ring_bytes[RING];
    struct kvbm_ring_shared shared;
    struct kvbm_ring ring;
    size_t got;

    memset(&shared, 0, sizeof(shared));
    memset(ring_bytes, 0, sizeof(ring_bytes));
    if (size > sizeof(uint16_t)) {
        uint16_t put;

        memcpy(&put, bytes, sizeof(put));
        atomic_store(&shared.put, put);
        bytes += sizeof(put);
        size -= sizeof(put);
    }
    memcpy(ring_bytes, bytes, size < RING ? size : RING);
    kvbm_ring_init(&ring, &shared, ring_bytes, RING);
    for (int i = 0; i < REQUESTS_MAX; i++) {
        if (kvbm_ring_take(&ring, &request, sizeof(request), &got) != KVT_OK)
            break;
        assert(got <= sizeof(request));
        serve(engine, &request, got);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kvbm_attach_message request;
    struct input input = {bytes, size};
    struct engine engine = {.given_count = 0};
    const bool raw = take(&input) % 2 == 1;

    open_below();
    if (kvbm_attach_service_new(&engine.service,
                                &(struct kvbm_attach_service_options){.below = &below,
                                                                      .memory = memory,
                                                                      .on_store = on_store,
                                                                      .on_remove = on_remove,
                                                                      .watch = watch,
                                                                      .arg = &engine},
                                NULL) != KVT_OK)
        abort();
    if (raw)
        serve_ring(&engine, input.bytes, input.size);
    for (int i = 0; !raw && i < REQUESTS_MAX && input.size > 0; i++) {
        serve(&engine, &request, make_request(&input, &engine, &request));
        if (take(&input) % 4 == 0)
            (void)kvbm_attach_service_work(engine.service);
    }
    kvbm_attach_service_free(engine.service);
    for (size_t i = 0; i < NAMES; i++)
        assert(!engine.told[i]);
    assert(!engine.watched);
    /* What an onboard had begun may still land. */
    (void)kvbm_pool_clear(below.g2.pool);
    if (kvbm_pool_stats(below.g2.pool).free < BELOW && !kvbm_manager_drain(below.manager, 10000))
        abort();
    (void)kvbm_pool_clear(below.g2.pool);
    assert(kvbm_pool_stats(below.g2.pool).free == BELOW);
    return 0;
}
