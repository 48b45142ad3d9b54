#include <assert.h>
#include <endian.h>
#include <string.h>
#include <sys/mman.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"

#include "engine/memory/fabric.h"
#include "engine/memory/fabric_internal.h"

/* A description, all numbers little-endian:
 *   0   8  magic
 *   8   4  bytes of it all
 *  12   4  crc32c of all but these four
 *  16   8  address in its owner
 *  24   8  size, a multiple of PAGE_SIZE; and LANDING where others may put
 *  32   8  of each rail: u16 bytes of the worker's address, u16 bytes of the key
 *  40      of each rail: address, key
 */
static const char magic[8] = {'K', 'V', 'T', 'R', 'E', 'G', 'N', '1'};

enum { HEAD_SIZE = 40, PAGE_SIZE = 4096, KEY_MAX = 256, LANDING = 1 };

static void
put16(uint8_t *at, size_t value)
{
    const uint16_t wire = htole16((uint16_t)value);

    memcpy(at, &wire, sizeof(wire));
}

static void
put32(uint8_t *at, uint32_t value)
{
    const uint32_t wire = htole32(value);

    memcpy(at, &wire, sizeof(wire));
}

static void
put64(uint8_t *at, uint64_t value)
{
    const uint64_t wire = htole64(value);

    memcpy(at, &wire, sizeof(wire));
}

static size_t
get16(const uint8_t *at)
{
    uint16_t wire;

    memcpy(&wire, at, sizeof(wire));
    return le16toh(wire);
}

static uint32_t
get32(const uint8_t *at)
{
    uint32_t wire;

    memcpy(&wire, at, sizeof(wire));
    return le32toh(wire);
}

static uint64_t
get64(const uint8_t *at)
{
    uint64_t wire;

    memcpy(&wire, at, sizeof(wire));
    return le64toh(wire);
}

/* Regions ---------------------------------------------------------------------------------- */

static void
unmap(struct engine_region *region, size_t rail)
{
    const ucp_context_h context = region->fabric->rails[rail].context;

    if (region->keys[rail] != NULL)
        ucp_rkey_buffer_release(region->keys[rail]);
    if (region->memory[rail] != NULL)
        (void)ucp_mem_unmap(context, region->memory[rail]);
}

/* Shared memory of UCX's own when `address` is NULL. */
static enum kvt_err
map(struct engine_region *region, size_t rail, void *address)
{
    const ucp_context_h context = region->fabric->rails[rail].context;
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = region->size,
        .flags = UCP_MEM_MAP_ALLOCATE,
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t status;

    if (address != NULL) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.address = address;
        params.flags = 0;
    }
    status = ucp_mem_map(context, &params, &region->memory[rail]);
    if (status != UCS_OK) {
        region->memory[rail] = NULL;
        return engine_rail_err(status);
    }
    status = ucp_mem_query(region->memory[rail], &attr);
    if (status == UCS_OK)
        status = ucp_rkey_pack(context, region->memory[rail], &region->keys[rail],
                               &region->key_sizes[rail]);
    if (status != UCS_OK)
        return engine_rail_err(status);
    region->address = attr.address;
    return region->key_sizes[rail] <= KEY_MAX ? KVT_OK : KVT_RANGE;
}

/* It has one for the fabric's life, but when nobody was ever told of it. */
static enum kvt_err
take_place(struct engine_region *region)
{
    if (atomic_fetch_add(&region->fabric->places_taken, 1) >= ENGINE_FABRIC_REGIONS_MAX) {
        (void)atomic_fetch_sub(&region->fabric->places_taken, 1);
        return KVT_FULL;
    }
    region->place = kvt_calloc(1, sizeof(*region->place));
    if (region->place != NULL)
        return KVT_OK;
    (void)atomic_fetch_sub(&region->fabric->places_taken, 1);
    return KVT_NOMEM;
}

static void
leave_place(struct engine_region *region)
{
    if (region->place == NULL)
        return;
    (void)atomic_fetch_sub(&region->fabric->places_taken, 1);
    kvt_free(region->place);
    region->place = NULL;
}

/* Somebody far away may still ask for what was there, and is answered by the fabric's thread from
 * that very address: without memory there it would end this process. */
static void
keep_place(struct engine_region *region)
{
    struct engine_fabric *fabric = region->fabric;
    struct engine_place *place = region->place;

    if (region->address == NULL || !fabric->rails[ENGINE_FAR].open)
        return;
    if (place == NULL) { /* nobody was told of it */
        if (region->own)
            (void)munmap(region->address, region->size);
        return;
    }
    place->address =
        mmap(region->address, region->size, region->landing ? PROT_READ | PROT_WRITE : PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                 (region->own ? MAP_FIXED : MAP_FIXED_NOREPLACE),
             -1, 0);
    if (place->address == MAP_FAILED)
        return; /* somebody else has memory there by now */
    place->size = region->size;
    place->next = fabric->places;
    fabric->places = place;
    region->place = NULL;
}

/* On the fabric's thread, which is the one that answers. */
static void
unmap_all(struct engine_fabric *fabric, void *arg)
{
    struct engine_region *region = arg;

    for (struct engine_region **at = &fabric->open; *at != NULL; at = &(*at)->next)
        if (*at == region) {
            *at = region->next;
            break;
        }
    unmap(region, ENGINE_FAR); /* it borrows the near one's memory */
    unmap(region, ENGINE_NEAR);
    keep_place(region);
}

static enum kvt_err
map_all(struct engine_region *region)
{
    struct engine_fabric *fabric = region->fabric;
    enum kvt_err rc = KVT_OK;

    if (fabric->rails[ENGINE_NEAR].open) {
        rc = map(region, ENGINE_NEAR, NULL);
    } else {
        void *memory =
            mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
            return KVT_NOMEM;
        region->own = true;
        region->address = memory;
    }
    if (rc == KVT_OK && fabric->rails[ENGINE_FAR].open)
        rc = map(region, ENGINE_FAR, region->address);
    return rc;
}

/* Who is far away is answered from it. */
static void
note_open(struct engine_fabric *fabric, void *arg)
{
    struct engine_region *region = arg;

    region->next = fabric->open;
    fabric->open = region;
}

static enum kvt_err
open_region(struct engine_region **out, struct engine_fabric *fabric, size_t size, bool landing,
            struct kvt_error *err)
{
    struct engine_region *region;
    enum kvt_err rc;

    *out = NULL;
    if (size == 0 || size % PAGE_SIZE != 0)
        return kvt_error_set(err, KVT_INVALID, "region: %zu bytes are no multiple of %d", size,
                             PAGE_SIZE);
    region = kvt_calloc(1, sizeof(*region));
    if (region != NULL && pthread_mutex_init(&region->lock, NULL) != 0) {
        kvt_free(region);
        region = NULL;
    }
    if (region == NULL)
        return kvt_error_set(err, KVT_NOMEM, "region: out of memory");
    region->fabric = fabric;
    region->size = size;
    region->landing = landing;
    (void)atomic_fetch_add(&fabric->regions, 1);
    rc = take_place(region);
    if (rc == KVT_OK)
        rc = map_all(region);
    if (rc != KVT_OK) {
        leave_place(region);
        engine_region_close(region);
        return kvt_error_set(err, rc, "region: %zu bytes that others can read: %s", size,
                             kvt_err_text(rc));
    }
    engine_fabric_call(fabric, note_open, region);
    *out = region;
    return KVT_OK;
}

enum kvt_err
engine_region_open(struct engine_region **out, struct engine_fabric *fabric, size_t size,
                   struct kvt_error *err)
{
    return open_region(out, fabric, size, false, err);
}

enum kvt_err
engine_landing_open(struct engine_region **out, struct engine_fabric *fabric, size_t size,
                    struct kvt_error *err)
{
    return open_region(out, fabric, size, true, err);
}

/* What comes from afar the fabric's thread writes. */
void
engine_landing_take(struct engine_region *region, size_t offset, void *into, size_t size)
{
    assert(region->landing && offset <= region->size && size <= region->size - offset);
    (void)pthread_mutex_lock(&region->lock);
    memcpy(into, (const uint8_t *)region->address + offset, size);
    (void)pthread_mutex_unlock(&region->lock);
}

void *
engine_region_address(const struct engine_region *region)
{
    return region->address;
}

void
engine_region_close(struct engine_region *region)
{
    if (region == NULL)
        return;
    engine_fabric_call(region->fabric, unmap_all, region);
    kvt_free(region->place);
    (void)atomic_fetch_sub(&region->fabric->regions, 1);
    (void)pthread_mutex_destroy(&region->lock);
    kvt_free(region);
}

void
engine_region_describe(const struct engine_region *region,
                       uint8_t out[ENGINE_FABRIC_DESCRIPTION_MAX], size_t *size)
{
    struct engine_fabric *fabric = region->fabric;
    size_t at = HEAD_SIZE;

    _Static_assert(HEAD_SIZE + ENGINE_RAILS * (ENGINE_RAIL_ADDRESS_MAX + KEY_MAX) <=
                       ENGINE_FABRIC_DESCRIPTION_MAX,
                   "every description fits");
    /* The far rail is read by the fabric's thread, which takes this lock before it looks again. */
    (void)pthread_mutex_lock(&fabric->shared.lock);
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    memset(out, 0, HEAD_SIZE);
    memcpy(out, magic, sizeof(magic));
    put64(out + 16, (uint64_t)(uintptr_t)region->address);
    put64(out + 24, region->size | (region->landing ? LANDING : 0));
    for (size_t i = 0; i < ENGINE_RAILS; i++) {
        const struct engine_rail *rail = &fabric->rails[i];

        if (!rail->open)
            continue;
        put16(out + 32 + 4 * i, rail->address_size);
        put16(out + 34 + 4 * i, region->key_sizes[i]);
        memcpy(out + at, rail->address, rail->address_size);
        at += rail->address_size;
        memcpy(out + at, region->keys[i], region->key_sizes[i]);
        at += region->key_sizes[i];
    }
    put32(out + 8, (uint32_t)at);
    put32(out + 12, kvbm_crc32c(kvbm_crc32c(0, out, 12), out + 16, at - 16));
    *size = at;
}

void
engine_fabric_leave_places(struct engine_fabric *fabric)
{
    while (fabric->places != NULL) {
        struct engine_place *place = fabric->places;

        fabric->places = place->next;
        (void)munmap(place->address, place->size);
        kvt_free(place);
    }
}

/* Windows ---------------------------------------------------------------------------------- */

struct rail_part {
    const uint8_t *address;
    size_t address_size;
    const uint8_t *key;
    size_t key_size;
};

struct opening {
    struct engine_window *window;
    struct rail_part rails[ENGINE_RAILS];
    enum kvt_err rc;
};

static enum kvt_err
read_description(struct opening *opening, const uint8_t *bytes, size_t size, struct kvt_error *err)
{
    size_t at = HEAD_SIZE;

    if (size < HEAD_SIZE || size > ENGINE_FABRIC_DESCRIPTION_MAX ||
        memcmp(bytes, magic, sizeof(magic)) != 0 || get32(bytes + 8) != size)
        return kvt_error_set(err, KVT_INVALID, "window: no description of a region");
    if (get32(bytes + 12) != kvbm_crc32c(kvbm_crc32c(0, bytes, 12), bytes + 16, size - 16))
        return kvt_error_set(err, KVT_CORRUPT, "window: the description is damaged");
    opening->window->address = get64(bytes + 16);
    opening->window->size = get64(bytes + 24) & ~(uint64_t)LANDING;
    opening->window->landing = (get64(bytes + 24) & LANDING) != 0;
    for (size_t i = 0; i < ENGINE_RAILS; i++) {
        struct rail_part *part = &opening->rails[i];

        *part = (struct rail_part){.address_size = get16(bytes + 32 + 4 * i),
                                   .key_size = get16(bytes + 34 + 4 * i)};
        if (part->address_size + part->key_size > size - at)
            return kvt_error_set(err, KVT_INVALID, "window: a description that ends too early");
        part->address = bytes + at;
        part->key = part->address + part->address_size;
        at += part->address_size + part->key_size;
    }
    return KVT_OK;
}

static const void *
memory_here(const struct engine_window *window)
{
    void *address;

    return ucp_rkey_ptr(window->key, window->address, &address) == UCS_OK ? address : NULL;
}

/* On the fabric's thread: the first rail that has a way, if any. */
static void
open_window(struct engine_fabric *fabric, void *arg)
{
    struct opening *opening = arg;
    struct engine_window *window = opening->window;

    opening->rc = KVT_UNAVAILABLE;
    for (size_t i = 0; i < ENGINE_RAILS && opening->rc == KVT_UNAVAILABLE; i++) {
        const struct rail_part *part = &opening->rails[i];

        if (part->key_size == 0)
            continue;
        opening->rc =
            engine_peer_find(&window->peer, &fabric->rails[i], part->address, part->address_size);
        if (opening->rc == KVT_OK &&
            ucp_ep_rkey_unpack(window->peer->endpoint, part->key, &window->key) != UCS_OK) {
            engine_peer_leave(window->peer);
            opening->rc = KVT_UNAVAILABLE;
        }
        if (opening->rc == KVT_OK && i == ENGINE_NEAR)
            window->memory = memory_here(window);
    }
}

static bool
reserve_window(struct engine_fabric *fabric)
{
    bool room;

    (void)pthread_mutex_lock(&fabric->shared.lock);
    room = fabric->shared.windows < ENGINE_FABRIC_WINDOWS_MAX;
    fabric->shared.windows += room ? 1 : 0;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    return room;
}

static void
return_window(struct engine_fabric *fabric)
{
    (void)pthread_mutex_lock(&fabric->shared.lock);
    fabric->shared.windows--;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
}

enum kvt_err
engine_window_open(struct engine_window **out, struct engine_fabric *fabric, const uint8_t *bytes,
                   size_t size, struct kvt_error *err)
{
    struct opening opening = {0};
    enum kvt_err rc;

    *out = NULL;
    opening.window = kvt_calloc(1, sizeof(*opening.window));
    if (opening.window == NULL)
        return kvt_error_set(err, KVT_NOMEM, "window: out of memory");
    opening.window->fabric = fabric;
    rc = read_description(&opening, bytes, size, err);
    if (rc != KVT_OK)
        goto fail;
    if (!reserve_window(fabric)) {
        rc = kvt_error_set(err, KVT_FULL, "window: there are %d", ENGINE_FABRIC_WINDOWS_MAX);
        goto fail;
    }
    engine_fabric_call(fabric, open_window, &opening);
    rc = opening.rc;
    if (rc == KVT_OK) {
        *out = opening.window;
        return KVT_OK;
    }
    return_window(fabric);
    (void)kvt_error_set(err, rc, "window: its owner cannot be reached from here");
fail:
    kvt_free(opening.window);
    return rc;
}

size_t
engine_window_size(const struct engine_window *window)
{
    return window->size;
}

const void *
engine_window_memory(const struct engine_window *window)
{
    return window->memory;
}

static void
close_window(struct engine_fabric *fabric, void *arg)
{
    struct engine_window *window = arg;

    (void)fabric;
    ucp_rkey_destroy(window->key);
    engine_peer_leave(window->peer);
}

void
engine_window_close(struct engine_window *window)
{
    if (window == NULL)
        return;
    assert(atomic_load(&window->moves) == 0);
    engine_fabric_call(window->fabric, close_window, window);
    return_window(window->fabric);
    kvt_free(window);
}
