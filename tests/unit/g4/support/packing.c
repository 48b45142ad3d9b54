#include "tests/unit/g4/support/packing.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { HOUR_MS = 3600000 };

static const struct g4_selftest proved = {
    .put_if_absent = true,
    .put_if_match = true,
    .if_match_missing = true,
    .list_after_write = true,
    .meta_kept = true,
    .etag_changes = true,
    .one_creator = true,
    .one_changer = true,
    .server_clock = true,
};

/* ---- blocks ---- */

void
packing_key(unsigned block, char out[KVT_KEY_MAX])
{
    const struct kvt_block_id id = {
        .hash = UINT64_C(0x9e3779b97f4a7c15) * (block + 1), .parent = block, .position = block / 2};

    assert_int_equal(
        kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, PACKING_NAMESPACE, block % 2, &id),
        KVT_OK);
}

unsigned
packing_block(const char *key)
{
    unsigned block = 0;
    char own[KVT_KEY_MAX];

    for (; block < PACKING_BLOCKS; block++) {
        packing_key(block, own);
        if (strcmp(own, key) == 0)
            break;
    }
    return block;
}

static size_t
body_of(unsigned block, uint8_t body[PACKING_BODY_MAX])
{
    const size_t size = PACKING_BODY_MAX / 3 + block * 37 % (2 * PACKING_BODY_MAX / 3);

    fill(body, size, block + 1);
    return size;
}

static struct kvt_key
parsed(unsigned block)
{
    char key[KVT_KEY_MAX];
    struct kvt_key out;

    packing_key(block, key);
    assert_int_equal(kvt_key_parse(key, &out), KVT_OK);
    return out;
}

/* ---- users ---- */

struct g4_store *
packing_reader(struct packing *packing)
{
    const struct g4_packed_store_options options = {
        .namespaces = PACKING_NAMESPACE, .instance = "reader", .alone = true, .fresh_ms = HOUR_MS};
    struct g4_store *reader;

    assert_int_equal(
        g4_packed_store_open(&reader, memory_bucket_open(&packing->user), &options, NULL), KVT_OK);
    return reader;
}

struct packing *
packing_new(uint64_t seed)
{
    struct packing *packing = kvt_calloc(1, sizeof(*packing));

    assert_non_null(packing);
    packing->random = seed;
    packing->memory.now_ms = 5000;
    packing->user.memory = &packing->memory;
    packing->store = memory_bucket_open(&packing->user);
    assert_int_equal(g4_packed_new(&packing->newest, packing->store, PACKING_NAMESPACE, 0), KVT_OK);
    packing->stale = packing_reader(packing);
    packing->fresh = packing_reader(packing);
    packing->rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*packing->rows));
    assert_non_null(packing->rows);
    packing->settings = (struct g4_compaction_settings){
        .block_max = PACKING_BODY_MAX,
        .mean_max = PACKING_BODY_MAX,
        .bytes_min = 400,
        .segment_bytes = 1600,
        .segment_blocks = 16,
        .live_min_ppm = 800000,
        .bytes_max = 1 << 20,
    };
    return packing;
}

void
packing_free(struct packing *packing)
{
    g4_packed_free(packing->newest);
    g4_store_close(packing->stale);
    g4_store_close(packing->fresh);
    kvt_free(packing->rows);
    g4_store_close(packing->store);
    memory_bucket_clear(&packing->memory);
    kvt_free(packing);
}

void
packing_put(struct packing *packing, unsigned block)
{
    const struct kvt_key id = parsed(block);
    uint8_t body[PACKING_BODY_MAX];
    const size_t size = body_of(block, body);
    struct fetched *found = kvt_calloc(1, sizeof(*found));
    char key[KVT_KEY_MAX];
    struct g4_packed_place place;
    enum kvt_err rc = KVT_NOTFOUND;

    packing_key(block, key);
    for (int i = 0; i < 3 && rc != KVT_OK; i++) {
        assert_int_equal(g4_packed_refresh(packing->newest, NULL), KVT_OK);
        if (g4_packed_find(packing->newest, &id, &place) &&
            place.block.state == G4_MANIFEST_PACKED) {
            assert_int_equal(place.block.entry.crc32c, g4_check_crc32c(body, size));
            rc = KVT_OK;
            break;
        }
        rc = put_absent(packing->store, key, body, size, NULL);
        if (rc == KVT_EXISTS)
            rc = head(packing->store, key, found);
    }
    assert_int_equal(rc, KVT_OK);
    packing->truth[block] = PACKING_STORED;
    kvt_free(found);
}

enum kvt_err
packing_lock(struct g4_store *store, const struct g4_lock_clock *clock, struct g4_lock **out)
{
    const struct g4_lock_options options = {
        .store = store, .proved = &proved, .instance = "packer", .clock = clock};

    return g4_compaction_lock(out, &options, PACKING_NAMESPACE, NULL);
}

struct g4_compaction_options
packing_options(const struct packing *packing, struct g4_store *store, struct g4_lock *held,
                const struct g4_lock_clock *clock)
{
    return (struct g4_compaction_options){.store = store,
                                          .namespace_ = PACKING_NAMESPACE,
                                          .lock = held,
                                          .clock = clock,
                                          .settings = packing->settings,
                                          .writer = "packer",
                                          .delete_if_match = packing->delete_if_match};
}

enum kvt_err
packing_delete(struct packing *packing, unsigned block)
{
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    const struct kvt_key id = parsed(block);
    struct g4_compaction_retirement one = {.block = g4_segment_entry_of(&id)};
    struct g4_lock *held = NULL;
    char key[KVT_KEY_MAX];
    enum kvt_err rc;

    packing_key(block, key);
    rc = del(packing->store, key);
    assert_true(rc == KVT_OK || rc == KVT_NOTFOUND);
    packing->truth[block] = PACKING_UNKNOWN;
    assert_int_equal(g4_packed_refresh(packing->newest, NULL), KVT_OK);
    if (g4_packed_knows(packing->newest, &id)) {
        rc = packing_lock(packing->store, &clock, &held);
        if (rc == KVT_OK) {
            const struct g4_compaction_options options =
                packing_options(packing, packing->store, held, &clock);

            rc = g4_compaction_retire(&options, &one, 1, NULL);
            (void)g4_lock_release(held, NULL);
        }
        assert_true(rc == KVT_OK || rc == KVT_BUSY);
        if (rc != KVT_OK)
            return rc;
    }
    packing->truth[block] = PACKING_ABSENT;
    return KVT_OK;
}

/* ---- what can be read ---- */

static void
check_one(struct packing *packing, struct g4_store *reader, unsigned block, struct fetched *found)
{
    uint8_t body[PACKING_BODY_MAX];
    const size_t size = body_of(block, body);
    char key[KVT_KEY_MAX];
    enum kvt_err rc;

    packing_key(block, key);
    rc = get(reader, key, found);
    if (packing->truth[block] == PACKING_STORED)
        assert_int_equal(rc, KVT_OK);
    else if (packing->truth[block] == PACKING_ABSENT)
        assert_int_equal(rc, KVT_NOTFOUND);
    assert_true(rc == KVT_OK || rc == KVT_NOTFOUND);
    if (rc == KVT_OK) {
        assert_int_equal(found->size, size);
        assert_memory_equal(found->body, body, size);
    }
}

void
packing_check(struct packing *packing)
{
    struct fetched *found = kvt_calloc(1, sizeof(*found));
    char token[G4_TOKEN_MAX] = "";
    size_t count;

    /* Nothing is listed by an old manifest. */
    assert_int_equal(list(packing->fresh, PACKING_NAMESPACE "/z", token, packing->rows, &count),
                     KVT_OK);
    for (unsigned i = 0; i < PACKING_BLOCKS; i++) {
        /* A reader left behind may still find what was deleted since. */
        if (packing->truth[i] == PACKING_STORED)
            check_one(packing, packing->stale, i, found);
        check_one(packing, packing->fresh, i, found);
    }
    kvt_free(found);
}

void
packing_check_tidy(struct packing *packing)
{
    const struct g4_manifest_log log = {.store = packing->store, .namespace_ = PACKING_NAMESPACE};
    struct g4_manifest manifest = {.number = 0};
    uint64_t bodies = 0;
    uint64_t live = 0;

    assert_int_equal(g4_manifest_log_load(&log, &manifest, NULL), KVT_OK);
    for (size_t i = 0; i < manifest.block_count; i++) {
        char key[KVT_KEY_MAX];

        assert_int_equal(manifest.blocks[i].state, G4_MANIFEST_PACKED);
        assert_int_equal(g4_segment_entry_key(key, PACKING_NAMESPACE, &manifest.blocks[i].entry),
                         KVT_OK);
        assert_null(memory_bucket_find(&packing->memory, key));
    }
    for (size_t i = 0; i < manifest.segment_count; i++) {
        const struct g4_manifest_segment *segment = &manifest.segments[i];
        char key[KVT_KEY_MAX];

        assert_int_equal(g4_segment_key(key, PACKING_NAMESPACE, &segment->name), KVT_OK);
        assert_non_null(memory_bucket_find(&packing->memory, key));
        live += segment->live_bytes;
        bodies += segment->size - G4_SEGMENT_HEADER_SIZE - G4_SEGMENT_TRAILER_SIZE -
                  (uint64_t)segment->blocks * G4_SEGMENT_ENTRY_SIZE;
    }
    assert_true(bodies * 10 <= live * 13);
    assert_int_equal(memory_bucket_count(&packing->memory, PACKING_NAMESPACE "/.kvt/segment/"),
                     manifest.segment_count);
    assert_in_range(memory_bucket_count(&packing->memory, PACKING_NAMESPACE "/.kvt/manifest/"), 0,
                    G4_MANIFEST_KEEP);
    g4_manifest_release(&manifest);
}

/* ---- compactors ---- */

enum kvt_err
packing_compact(struct packing *packing, struct memory_bucket_client *client,
                struct g4_compaction_report *report)
{
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    struct g4_store *store = memory_bucket_open(client);
    struct g4_lock *held;
    enum kvt_err rc = packing_lock(store, &clock, &held);

    memset(report, 0, sizeof(*report));
    report->more = true;
    if (rc == KVT_OK) {
        const struct g4_compaction_options options = packing_options(packing, store, held, &clock);

        rc = g4_compaction_run(&options, report, NULL);
        (void)g4_lock_release(held, NULL);
    }
    g4_store_close(store);
    return rc;
}

void
packing_settle(struct packing *packing)
{
    struct g4_compaction_report report = {.more = true};

    for (int i = 0; i < 4 && report.more; i++) {
        struct memory_bucket_client client = {.memory = &packing->memory};

        assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    }
    assert_false(report.more);
    assert_int_equal(report.bad, 0);
}

void
packing_sleep(struct packing *packing)
{
    packing->memory.now_ms += 3 * G4_LOCK_TTL_DEFAULT_MS;
}

void
packing_prepare(struct packing *packing)
{
    for (unsigned i = 0; i < PACKING_BLOCKS / 2; i++)
        packing_put(packing, i);
    packing_settle(packing);
    for (unsigned i = 0; i < PACKING_BLOCKS / 2; i += 3)
        assert_int_equal(packing_delete(packing, i), KVT_OK);
    for (unsigned i = PACKING_BLOCKS / 2; i < PACKING_BLOCKS - 8; i++)
        packing_put(packing, i);
}
