#include "g4/packed/packed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

/* One packed block of a manifest, by what follows its namespace in its key. */
struct name {
    char text[G4_PACKED_NAME - sizeof(uint32_t)];
    uint32_t block; /* which one of the manifest */
};

_Static_assert(sizeof(struct name) == G4_PACKED_NAME, "a name has no holes");
_Static_assert(sizeof("31/16777215:") + 2 * (KVT_KEY_BASE58_MAX - 1) + 1 <=
                   G4_PACKED_NAME - sizeof(uint32_t),
               "every name fits");

/* A manifest that is read by whoever holds it, and freed by the last. */
struct loaded {
    struct g4_manifest manifest;
    atomic_uint holders;

    struct {
        pthread_mutex_t lock; /* guards the making of `names` */
        struct name *names;   /* of packed blocks, sorted; made when first listed */
        size_t count;
    } listing;
};

struct g4_packed {
    struct g4_manifest_log log;
    char namespace_[KVT_NAMESPACE_MAX];

    struct {
        pthread_mutex_t lock; /* guards this struct, of `loaded` the pointer */
        struct loaded *loaded;
        uint64_t doubts;    /* how often the manifest was known to be old */
        uint64_t looked_at; /* `doubts` when the last look that succeeded began */
        uint64_t looked_ms; /* and the time, monotonic; 0: there was none */
    } shared;
};

static void
loaded_drop(struct loaded *loaded)
{
    if (loaded == NULL || atomic_fetch_sub(&loaded->holders, 1) != 1)
        return;
    g4_manifest_release(&loaded->manifest);
    (void)pthread_mutex_destroy(&loaded->listing.lock);
    kvt_free(loaded->listing.names);
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

    if (loaded == NULL)
        return NULL;
    atomic_init(&loaded->holders, 1);
    (void)pthread_mutex_init(&loaded->listing.lock, NULL);
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

/* Number of the manifest that is loaded; 0: none. */
static uint64_t
loaded_number(struct g4_packed *packed)
{
    struct loaded *loaded = loaded_hold(packed);
    const uint64_t number = loaded->manifest.number;

    loaded_drop(loaded);
    return number;
}

enum kvt_err
g4_packed_refresh(struct g4_packed *packed, struct kvt_error *err)
{
    const uint64_t known = loaded_number(packed);
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct loaded *next = loaded_new();
    uint64_t doubts;
    enum kvt_err rc;

    if (next == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for a manifest");
    pthread_mutex_lock(&packed->shared.lock);
    doubts = packed->shared.doubts;
    pthread_mutex_unlock(&packed->shared.lock);
    next->manifest.number = known; /* only a newer one is read */
    rc = g4_manifest_log_load(&packed->log, &next->manifest, err);
    if (rc == KVT_OK && next->manifest.number > known)
        loaded_replace(packed, next);
    else
        loaded_drop(next);
    if (rc != KVT_OK)
        return rc;
    pthread_mutex_lock(&packed->shared.lock);
    if (began_ms >= packed->shared.looked_ms) {
        packed->shared.looked_ms = began_ms;
        packed->shared.looked_at = doubts;
    }
    pthread_mutex_unlock(&packed->shared.lock);
    return KVT_OK;
}

uint64_t
g4_packed_age_ms(struct g4_packed *packed)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t age_ms = UINT64_MAX;

    pthread_mutex_lock(&packed->shared.lock);
    if (packed->shared.looked_ms != 0 && packed->shared.looked_at == packed->shared.doubts)
        age_ms = now_ms > packed->shared.looked_ms ? now_ms - packed->shared.looked_ms : 0;
    pthread_mutex_unlock(&packed->shared.lock);
    return age_ms;
}

void
g4_packed_doubt(struct g4_packed *packed)
{
    pthread_mutex_lock(&packed->shared.lock);
    packed->shared.doubts++;
    pthread_mutex_unlock(&packed->shared.lock);
}

void
g4_packed_totals(struct g4_packed *packed, struct g4_packed_totals *totals)
{
    struct loaded *loaded = loaded_hold(packed);
    const struct g4_manifest *manifest = &loaded->manifest;

    *totals = (struct g4_packed_totals){.number = manifest->number,
                                        .time_ms = manifest->time_ms,
                                        .blocks = manifest->block_count,
                                        .segments = manifest->segment_count};
    for (size_t i = 0; i < manifest->segment_count; i++) {
        totals->pending += manifest->segments[i].pending;
        totals->live_bytes += manifest->segments[i].live_bytes;
        totals->segment_bytes += manifest->segments[i].size;
    }
    loaded_drop(loaded);
}

/* ---- finding ---- */

bool
g4_packed_find(struct g4_packed *packed, const struct kvt_key *key, struct g4_packed_place *place)
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
g4_packed_knows(struct g4_packed *packed, const struct kvt_key *key)
{
    struct g4_packed_place place;

    return g4_packed_find(packed, key, &place);
}

/* ---- listing ---- */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* Pending blocks have objects: those are in the bucket's own listing. */
static enum kvt_err
make_names(struct g4_packed *packed, struct loaded *loaded)
{
    const struct g4_manifest *manifest = &loaded->manifest;
    const size_t before = strlen(packed->namespace_) + 1;
    struct name *names = kvt_calloc(manifest->block_count + 1, sizeof(*names));
    char key[KVT_KEY_MAX];
    size_t count = 0;

    if (names == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < manifest->block_count; i++) {
        const struct g4_manifest_block *block = &manifest->blocks[i];

        if (block->state != G4_MANIFEST_PACKED ||
            g4_segment_entry_key(key, packed->namespace_, &block->entry) != KVT_OK)
            continue;
        names[count].block = (uint32_t)i;
        memcpy(names[count++].text, key + before, strlen(key + before) + 1);
    }
    qsort(names, count, sizeof(*names), compare_names);
    loaded->listing.names = names;
    loaded->listing.count = count;
    return KVT_OK;
}

static void
key_of(const struct g4_packed *packed, const struct name *name, char key[KVT_KEY_MAX])
{
    (void)snprintf(key, KVT_KEY_MAX, "%s/%s", packed->namespace_, name->text);
}

/* The first name whose key is behind `after`, and not before `prefix`. */
static size_t
first_name(const struct g4_packed *packed, const struct loaded *loaded, const char *prefix,
           const char *after)
{
    size_t low = 0;
    size_t high = loaded->listing.count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        char key[KVT_KEY_MAX];

        key_of(packed, &loaded->listing.names[middle], key);
        if (strcmp(key, after) <= 0 || strcmp(key, prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum kvt_err
g4_packed_list(struct g4_packed *packed, const char *prefix, const char *after, const char *until,
               struct g4_listed *rows, size_t capacity, size_t *count)
{
    struct loaded *loaded = loaded_hold(packed);
    enum kvt_err rc = KVT_OK;

    *count = 0;
    pthread_mutex_lock(&loaded->listing.lock);
    if (loaded->listing.names == NULL)
        rc = make_names(packed, loaded);
    pthread_mutex_unlock(&loaded->listing.lock);
    for (size_t i = rc == KVT_OK ? first_name(packed, loaded, prefix, after) : SIZE_MAX;
         i < loaded->listing.count && *count < capacity; i++) {
        const struct name *name = &loaded->listing.names[i];
        const struct g4_segment_entry *entry = &loaded->manifest.blocks[name->block].entry;
        struct g4_listed *row = &rows[*count];

        key_of(packed, name, row->key);
        if (strncmp(row->key, prefix, strlen(prefix)) != 0 ||
            (until != NULL && strcmp(row->key, until) > 0))
            break;
        row->size = entry->length;
        row->modified_ms = entry->modified_ms;
        g4_segment_entry_etag(entry, row->etag);
        (*count)++;
    }
    loaded_drop(loaded);
    return rc;
}
