#include "g4/packed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "g4/check.h"

/* A manifest that is read by whoever holds it, and freed by the last. */
struct loaded {
    struct g4_manifest manifest;
    atomic_uint holders;
};

struct g4_packed {
    struct g4_manifest_log log;
    char namespace_[KVT_NAMESPACE_MAX];

    struct {
        pthread_mutex_t lock; /* guards `loaded`, the pointer */
        struct loaded *loaded;
    } shared;
};

static void
loaded_drop(struct loaded *loaded)
{
    if (loaded == NULL || atomic_fetch_sub(&loaded->holders, 1) != 1)
        return;
    g4_manifest_release(&loaded->manifest);
    kvt_free(loaded);
}

static struct loaded *
loaded_hold(struct g4_packed *packed)
{
    struct loaded *loaded;

    pthread_mutex_lock(&packed->shared.lock);
    loaded = packed->shared.loaded;
    atomic_fetch_add(&loaded->holders, 1);
    pthread_mutex_unlock(&packed->shared.lock);
    return loaded;
}

/* Takes over `next`, unless somebody was quicker with a newer one. */
static void
loaded_replace(struct g4_packed *packed, struct loaded *next)
{
    struct loaded *old = next;

    pthread_mutex_lock(&packed->shared.lock);
    if (packed->shared.loaded->manifest.number < next->manifest.number) {
        old = packed->shared.loaded;
        packed->shared.loaded = next;
    }
    pthread_mutex_unlock(&packed->shared.lock);
    loaded_drop(old);
}

static struct loaded *
loaded_new(void)
{
    struct loaded *loaded = kvt_calloc(1, sizeof(*loaded));

    if (loaded != NULL)
        atomic_init(&loaded->holders, 1);
    return loaded;
}

enum kvt_err
g4_packed_new(struct g4_packed **out, struct g4_store *store, const char *namespace_,
              uint64_t request_ms)
{
    struct g4_packed *packed;

    *out = NULL;
    if (namespace_[0] == '\0' || strlen(namespace_) >= KVT_NAMESPACE_MAX)
        return KVT_INVALID;
    packed = kvt_calloc(1, sizeof(*packed));
    if (packed == NULL)
        return KVT_NOMEM;
    packed->shared.loaded = loaded_new();
    if (packed->shared.loaded == NULL) {
        kvt_free(packed);
        return KVT_NOMEM;
    }
    (void)pthread_mutex_init(&packed->shared.lock, NULL);
    memcpy(packed->namespace_, namespace_, strlen(namespace_));
    packed->log = (struct g4_manifest_log){
        .store = store, .namespace_ = packed->namespace_, .request_ms = request_ms};
    *out = packed;
    return KVT_OK;
}

void
g4_packed_free(struct g4_packed *packed)
{
    if (packed == NULL)
        return;
    loaded_drop(packed->shared.loaded);
    (void)pthread_mutex_destroy(&packed->shared.lock);
    kvt_free(packed);
}

enum kvt_err
g4_packed_refresh(struct g4_packed *packed, struct kvt_error *err)
{
    const uint64_t known = g4_packed_number(packed);
    struct loaded *next = loaded_new();
    enum kvt_err rc;

    if (next == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for a manifest");
    next->manifest.number = known; /* only a newer one is read */
    rc = g4_manifest_log_load(&packed->log, &next->manifest, err);
    if (rc == KVT_OK && next->manifest.number > known)
        loaded_replace(packed, next);
    else
        loaded_drop(next);
    return rc;
}

uint64_t
g4_packed_number(struct g4_packed *packed)
{
    struct loaded *loaded = loaded_hold(packed);
    const uint64_t number = loaded->manifest.number;

    loaded_drop(loaded);
    return number;
}

/* ---- finding ---- */

struct place {
    struct g4_manifest_block block;
    struct g4_segment_name segment;
    uint64_t number; /* of the manifest that says so */
};

static bool
find(struct g4_packed *packed, const struct kvt_key *key, struct place *place)
{
    const struct g4_segment_entry wanted = g4_segment_entry_of(key);
    struct loaded *loaded = loaded_hold(packed);
    const struct g4_manifest_block *block = NULL;

    memset(place, 0, sizeof(*place));
    place->number = loaded->manifest.number;
    if (strcmp(key->namespace_, packed->namespace_) == 0)
        block = g4_manifest_find(&loaded->manifest, &wanted);
    if (block != NULL) {
        place->block = *block;
        place->segment = loaded->manifest.segments[block->segment].name;
    }
    loaded_drop(loaded);
    return block != NULL;
}

bool
g4_packed_has(struct g4_packed *packed, const struct kvt_key *key, struct g4_meta *meta)
{
    struct place place;

    memset(meta, 0, sizeof(*meta));
    if (!find(packed, key, &place) || place.block.state != G4_MANIFEST_PACKED)
        return false;
    *meta = g4_segment_entry_meta(&place.block.entry);
    return true;
}

bool
g4_packed_knows(struct g4_packed *packed, const struct kvt_key *key)
{
    struct place place;

    return find(packed, key, &place);
}

/* ---- reading ---- */

/* A block's bytes in its segment, checked by nobody yet; NOTFOUND: the segment is gone. */
static enum kvt_err
read_range(struct g4_packed *packed, const struct place *place, void *buffer, struct kvt_error *err)
{
    const struct g4_segment_entry *entry = &place->block.entry;
    char key[KVT_KEY_MAX];
    struct g4_request request = {.verb = G4_GET,
                                 .key = key,
                                 .buffer = buffer,
                                 .buffer_capacity = entry->length,
                                 .range_at = entry->offset,
                                 .range_size = entry->length};
    enum kvt_err rc = g4_segment_key(key, packed->namespace_, &place->segment);

    if (packed->log.request_ms != 0)
        request.deadline_ms = kvt_clock_mono_ms() + packed->log.request_ms;
    if (rc == KVT_OK)
        rc = g4_store_perform(packed->log.store, &request);
    if (rc != KVT_OK && err != NULL)
        *err = request.error;
    if (rc == KVT_RANGE || (rc == KVT_OK && request.buffer_size != entry->length))
        rc = kvt_error_set(err, KVT_CORRUPT, "a segment ends within a block");
    return rc;
}

static enum kvt_err
read_block(struct g4_packed *packed, const struct place *place, void *buffer, size_t capacity,
           struct g4_meta *meta, struct kvt_error *err)
{
    const struct g4_meta stored = g4_segment_entry_meta(&place->block.entry);
    enum kvt_err rc;

    if (stored.length > capacity)
        return kvt_error_set(err, KVT_RANGE, "a block of %zu bytes, room for %zu",
                             (size_t)stored.length, capacity);
    rc = read_range(packed, place, buffer, err);
    if (rc == KVT_OK)
        rc = g4_check_body(&stored, NULL, buffer, (size_t)stored.length, err);
    if (rc == KVT_OK)
        *meta = stored;
    return rc;
}

enum kvt_err
g4_packed_get(struct g4_packed *packed, const struct kvt_key *key, void *buffer, size_t capacity,
              struct g4_meta *meta, struct kvt_error *err)
{
    memset(meta, 0, sizeof(*meta));
    for (int i = 0; i < G4_PACKED_TRIES; i++) {
        struct place place;
        enum kvt_err rc;

        if (!find(packed, key, &place) || place.block.state != G4_MANIFEST_PACKED)
            return kvt_error_set(err, KVT_NOTFOUND, "not packed");
        rc = read_block(packed, &place, buffer, capacity, meta, err);
        if (rc != KVT_NOTFOUND)
            return rc;
        rc = g4_packed_refresh(packed, err);
        if (rc != KVT_OK)
            return rc;
        if (g4_packed_number(packed) == place.number)
            return kvt_error_set(err, KVT_CORRUPT, "the segment of a packed block is lost");
    }
    return kvt_error_set(err, KVT_UNAVAILABLE, "segments of %.80s go faster than they can be read",
                         packed->namespace_);
}
