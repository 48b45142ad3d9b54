/*
 * What is tested: gateway/block/put.h, get.h, remove.h, move.h, recover.h and fault.h over a real
 * hot volume and a bucket that lies on demand.  No read gives other bytes, no acknowledged block is
 * lost, what was cut short is settled, and every kind of damage becomes a miss (or the other
 * copy) and an entry.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "gateway/block/context_open.h"
#include "gateway/block/removal.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 5000, HOT = 1 << 20 };

static struct test_gateway *
opened(struct test_gateway *gateway, uint64_t hot, uint64_t cold)
{
    test_gateway_open(gateway, hot, cold);
    return gateway;
}

static uint64_t
count_of(struct test_gateway *g, enum gateway_stat stat)
{
    return gateway_stats_get(&g->stats, stat);
}

static void
stores_and_serves(void **state)
{
    struct test_gateway g;
    unsigned tier;

    (void)state;
    opened(&g, HOT, 0);
    assert_int_equal(test_gateway_has(&g, 1), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_has(&g, 1), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK); /* again: no second write */
    assert_int_equal(count_of(&g, GATEWAY_STAT_PRESENT), 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE - 1), KVT_PRECONDITION);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    test_gateway_close(&g);
}

/* Before anything of the bucket is touched: the driver is not even looked for. */
static void
a_loaded_store_is_not_packed(void **state)
{
    struct gateway_context_options options;
    struct gateway_context *context;
    struct kvt_error err;
    struct test_gateway g;

    (void)state;
    opened(&g, 0, 0);
    options = g.options;
    options.cold_store = NULL;
    options.cold = (struct gateway_bucket_tier_options){.kind = GATEWAY_BUCKET_TIER_DRIVER,
                                                        .driver = {.path = "/nowhere/driver.so"}};
    options.packed = TEST_NAMESPACE;
    assert_int_equal(gateway_context_open(&context, &options, &err), KVT_INVALID);
    assert_null(context);
    assert_non_null(strstr(err.text, "packed.namespaces"));
    test_gateway_close(&g);
}

/* A second gateway on one state folder would number events and count bytes a second time. */
static void
one_gateway_a_state_folder(void **state)
{
    struct gateway_context_options options;
    struct gateway_context *second;
    struct kvt_error err;
    struct test_gateway g;

    (void)state;
    opened(&g, 0, 0);
    options = g.options;
    options.cold_store = NULL;
    options.cold = (struct gateway_bucket_tier_options){.folder = g.cold, .threads = 1};
    assert_int_equal(gateway_context_open(&second, &options, &err), KVT_BUSY);
    assert_null(second);
    assert_non_null(strstr(err.text, g.state));
    gateway_context_close(g.context);
    assert_int_equal(gateway_context_open(&second, &options, &err), KVT_OK);
    gateway_context_close(second);
    g.context = NULL;
    test_gateway_close(&g);
}

static void
caps_hold(void **state)
{
    struct test_gateway g;
    unsigned tier;

    (void)state;
    opened(&g, SIZE, 2 * SIZE);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK); /* no room in the hot volume */
    assert_int_equal(test_gateway_put(&g, 3, 1), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(test_gateway_tiers(&g, 2, NULL), GATEWAY_COLD);
    assert_int_equal(test_gateway_tiers(&g, 3, NULL), 0);
    assert_int_equal(test_gateway_get(&g, 2, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    test_gateway_close(&g);
}

/* A condition whose answer was lost looks like one that is not kept: not for good. */
static void
a_disturbed_self_test_is_repeated(void **state)
{
    const struct g4_fault_rule lost = {
        .verb = G4_PUT, .fault = G4_FAULT_FAIL, .after = 2, .count = 1, .status = KVT_PRECONDITION};
    struct g4_directory_options cold = {.threads = 2};
    struct g4_store *inner;
    struct test_gateway g;
    struct kvt_error err;

    (void)state;
    opened(&g, HOT, 0);
    gateway_context_close(g.context);
    cold.path = g.cold;
    assert_int_equal(g4_directory_open(&inner, &cold, &err), KVT_OK);
    assert_int_equal(test_faulty_store_open(&g.bucket, inner), KVT_OK);
    g.options.cold_store = g.bucket;
    assert_int_equal(gateway_context_open(&g.context, &g.options, &err), KVT_OK);
    test_faulty_store_set(g.bucket, &lost);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    assert_false(gateway_bucket_tier_writable(g.context->tiers.buckets));
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    assert_true(gateway_bucket_tier_writable(g.context->tiers.buckets));
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    test_gateway_close(&g);
}

/* The bucket takes the block and the answer is lost: not acknowledged, and found again later.
 * Until the intent is settled the bucket answers: a life that ended may have acknowledged it. */
static void
lost_answer_is_settled(void **state)
{
    struct test_gateway g;
    enum gateway_state row;

    (void)state;
    opened(&g, HOT, 0);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_TIMEOUT, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_TIMEOUT, 1);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_AGAIN);
    assert_int_equal(test_gateway_has(&g, 1), KVT_UNAVAILABLE); /* nobody can tell */
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_INTENT);
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_has(&g, 1), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_has(&g, 2), KVT_NOTFOUND);
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_INTENT); /* a reader settles nothing */
    assert_int_equal(gateway_recover_pending(g.context), 2);
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_STORED);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_tiers(&g, 2, NULL), 0);
    assert_int_equal(test_gateway_get(&g, 2, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    test_gateway_close(&g);
}

/* A refusal leaves neither row nor hot copy. */
static void
refusal_leaves_nothing(void **state)
{
    struct g4_request head;
    struct test_gateway g;
    char key[KVT_KEY_MAX];

    (void)state;
    opened(&g, HOT, 0);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_DENIED, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_DENIED);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), 0);
    assert_int_equal(test_gateway_store_head(g.context->tiers.hot, test_gateway_key(key, 1), &head),
                     KVT_NOTFOUND);
    test_gateway_close(&g);
}

/* A bucket that hangs is found out by the first request that ends late, whoever sent it. */
static void
hanging_bucket(void **state)
{
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    uint64_t seen;
    uint64_t hit;

    (void)state;
    opened(&g, 0, 0);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_IO, 3);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(test_gateway_put(&g, i, SIZE), KVT_AGAIN);
    assert_true(gateway_bucket_tier_healthy(g.context->tiers.buckets));
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_FAIL, KVT_TIMEOUT, 100);
    assert_int_equal(gateway_recover_pending(g.context), 0);
    assert_false(gateway_bucket_tier_healthy(g.context->tiers.buckets));
    test_faulty_store_count(g.bucket, G4_HEAD, &seen, &hit);
    assert_int_equal(hit, 1); /* not once for every intent */
    test_gateway_fault(&g, G4_HEAD, G4_FAULT_NONE, KVT_OK, 0);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    atomic_store(&g.context->stopping, true); /* nor is there time for more when stopping */
    assert_int_equal(gateway_recover_pending(g.context), 0);
    atomic_store(&g.context->stopping, false);
    assert_int_equal(gateway_recover_pending(g.context), 3);

    assert_int_equal(test_gateway_put(&g, 4, SIZE), KVT_OK);
    test_gateway_fault(&g, G4_DELETE, G4_FAULT_FAIL, KVT_TIMEOUT, 1);
    assert_int_equal(gateway_remove(g.context, test_gateway_key(key, 4)), KVT_TIMEOUT);
    assert_false(gateway_bucket_tier_healthy(g.context->tiers.buckets));
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_TIMEOUT, 1);
    assert_int_equal(test_gateway_put(&g, 5, SIZE), KVT_AGAIN);
    assert_false(gateway_bucket_tier_healthy(g.context->tiers.buckets));
    test_gateway_close(&g);
}

static void
bucket_away(void **state)
{
    struct test_gateway g;
    unsigned tier;

    (void)state;
    opened(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_UNAVAILABLE, 1);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_UNAVAILABLE);
    assert_false(gateway_bucket_tier_healthy(g.context->tiers.buckets));
    assert_int_equal(test_gateway_put(&g, 3, SIZE), KVT_UNAVAILABLE); /* without asking */
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(test_gateway_get(&g, 9, SIZE, NULL), KVT_UNAVAILABLE); /* not a miss */
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    test_gateway_close(&g);
}

/* ---- what lies under a key already ---- */

static void
plant(struct test_gateway *g, uint64_t number, const void *body, size_t size,
      const struct g4_meta *meta)
{
    char key[KVT_KEY_MAX];

    assert_int_equal(
        test_gateway_store_put(g->bucket, test_gateway_key(key, number), body, size, meta), KVT_OK);
}

static void
objects_of_others(void **state)
{
    uint8_t body[SIZE];
    struct g4_meta meta = {.present = true, .length = SIZE, .fingerprint = 7, .writer = "gw1"};
    struct test_gateway g;

    (void)state;
    opened(&g, HOT, 0);
    test_gateway_fill(body, SIZE, 1);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    plant(&g, 1, body, SIZE, &meta); /* another gateway's: found, served, remembered */
    assert_int_equal(test_gateway_has(&g, 1), KVT_OK);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), 0);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);

    test_gateway_fill(body, SIZE, 2);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    plant(&g, 2, body, SIZE, &meta); /* the same bytes: success without a write */
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    assert_int_equal(count_of(&g, GATEWAY_STAT_PRESENT), 1);

    plant(&g, 3, body, SIZE, &meta); /* sound, but other content: the first writer wins */
    assert_int_equal(test_gateway_put(&g, 3, SIZE), KVT_PRECONDITION);
    assert_int_equal(test_gateway_tiers(&g, 3, NULL), 0);

    plant(&g, 4, "garbage", 7,
          &(struct g4_meta){0}); /* no metadata: a miss in a namespace, evidence, and it stays */
    assert_int_equal(test_gateway_has(&g, 4), KVT_NOTFOUND);
    assert_int_equal(test_gateway_get(&g, 4, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(gateway_quarantine_count(g.context->quarantine), 1);
    assert_int_equal(count_of(&g, GATEWAY_STAT_FOREIGN), 1);
    assert_int_equal(test_gateway_put(&g, 4, SIZE), KVT_PRECONDITION);

    plant(&g, 5, "", 0, &(struct g4_meta){0}); /* empty */
    assert_int_equal(test_gateway_has(&g, 5), KVT_NOTFOUND);
    assert_int_equal(test_gateway_get(&g, 5, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 5, SIZE), KVT_OK);

    test_gateway_fill(body, SIZE, 6);
    plant(&g, 6, body, SIZE, &(struct g4_meta){0}); /* KVBM's own: our bytes without our metadata */
    assert_int_equal(test_gateway_put(&g, 6, SIZE), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 6, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* ---- damage ---- */

static bool
find_file(const char *folder, char *out, size_t size)
{
    DIR *dir = opendir(folder);
    struct dirent *item;
    bool found = false;

    while (dir != NULL && !found && (item = readdir(dir)) != NULL) {
        char path[512];
        struct stat info;

        if (item->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, item->d_name);
        if (stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode)) {
            found = find_file(path, out, size);
        } else if (info.st_size > SIZE) {
            (void)snprintf(out, size, "%s", path);
            found = true;
        }
    }
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

enum damage { CUT, FLIP, EMPTY, FOREIGN, GONE, DAMAGES };

/* Damage the only block file below the folder. */
static void
damage(const char *folder, enum damage kind)
{
    char path[512];
    struct stat info;
    uint8_t byte;
    int fd;

    assert_true(find_file(folder, path, sizeof(path)));
    assert_int_equal(stat(path, &info), 0);
    if (kind == GONE) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    switch (kind) {
    case CUT: assert_int_equal(ftruncate(fd, info.st_size - 100), 0); break;
    case EMPTY: assert_int_equal(ftruncate(fd, 0), 0); break;
    case FLIP:
        assert_int_equal(pread(fd, &byte, 1, info.st_size - 50), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, info.st_size - 50), 1);
        break;
    case FOREIGN:
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, path, sizeof(path), 6000), sizeof(path));
        break;
    case GONE:
    case DAMAGES: break;
    }
    (void)close(fd);
}

/* Does the newest entry hold the bytes that the damage left? */
static void
evidence_is_kept(struct test_gateway *g, enum damage kind)
{
    static const size_t left[DAMAGES] = {
        [CUT] = SIZE - 100, [FLIP] = SIZE, [FOREIGN] = 6000 + 512 - 4096};
    struct kvt_buffer list;
    char size[32];

    if (kind == GONE)
        return;
    kvt_buffer_init(&list, 1u << 16);
    gateway_quarantine_list(g->context->quarantine, 1, &list);
    kvt_buffer_append(&list, "", 1);
    (void)snprintf(size, sizeof(size), "\"size\":%zu,", left[kind]);
    assert_non_null(strstr(kvt_buffer_text(&list), size));
    kvt_buffer_release(&list);
}

static void
damaged_hot_copies(void **state)
{
    (void)state;
    for (int kind = CUT; kind < DAMAGES; kind++) {
        struct test_gateway g;
        unsigned tier;

        opened(&g, HOT, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        damage(g.hot, (enum damage)kind);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK); /* from the bucket */
        assert_int_equal(tier, 1);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), kind == GONE ? 0 : 1);
        evidence_is_kept(&g, (enum damage)kind);
        assert_false(find_file(g.hot, (char[512]){0}, 512));
        test_gateway_close(&g);
    }
}

static void
damaged_bucket_objects(void **state)
{
    (void)state;
    for (int kind = CUT; kind < DAMAGES; kind++) {
        struct test_gateway g;

        opened(&g, 0, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        damage(g.cold, (enum damage)kind);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_NOTFOUND);
        assert_int_equal(test_gateway_has(&g, 1), KVT_NOTFOUND);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL), 0);
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), kind == GONE ? 0 : 1);
        evidence_is_kept(&g, (enum damage)kind);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
        test_gateway_close(&g);
    }
}

/* The same through the wire: what a store hands over may be cut or flipped on its way. */
static void
lying_bucket(void **state)
{
    static const enum g4_fault lies[] = {G4_FAULT_TRUNCATE, G4_FAULT_FLIP};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct test_gateway g;

        opened(&g, 0, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        test_gateway_fault(&g, G4_GET, lies[i], KVT_OK, 1);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_NOTFOUND);
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), 1);
        test_gateway_close(&g);
    }
}

/* ---- removal ---- */

static void
removal_is_two_phase(void **state)
{
    struct g4_request head;
    struct test_gateway g;
    enum gateway_state row;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);
    uint64_t bytes;

    (void)state;
    opened(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(gateway_removal_mark(g.context, &name, 1), KVT_OK);
    (void)test_gateway_tiers(&g, 1, &row);
    assert_int_equal(row, GATEWAY_RETIRING);
    assert_int_equal(test_gateway_has(&g, 1), KVT_NOTFOUND);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(g.bucket, name, &head), KVT_OK); /* still there */

    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK); /* cancels the mark */
    assert_int_equal(gateway_removal_finish(g.context, name, &bytes), KVT_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(count_of(&g, GATEWAY_STAT_REPAIRED), 1); /* written anew, not just accepted */

    assert_int_equal(gateway_removal_mark(g.context, &name, 1), KVT_OK);
    test_gateway_reopen(&g); /* a crash between the phases */
    assert_int_equal(test_gateway_has(&g, 1), KVT_NOTFOUND);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), 0);
    assert_int_equal(test_gateway_store_head(g.bucket, name, &head), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(g.context->tiers.hot, name, &head), KVT_NOTFOUND);
    assert_int_equal(gateway_remove(g.context, name), KVT_OK);
    test_gateway_close(&g);
}

/* Somebody packs a namespace: its removals wait, and what is behind them does not. */
static void
a_busy_namespace_stops_no_other(void **state)
{
    struct gateway_put_item item = {.key = "zz.md", .body = "note", .size = 4};
    char keys[2][KVT_KEY_MAX];
    const char *const names[] = {test_gateway_key(keys[0], 1), test_gateway_key(keys[1], 2),
                                 "zz.md"};
    struct gateway_record record;
    struct test_gateway g;

    (void)state;
    opened(&g, HOT, 0);
    item.crc32c = g4_check_crc32c("note", 4);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_ALWAYS), KVT_OK);
    assert_int_equal(gateway_removal_mark(g.context, names, 3), KVT_OK);
    test_gateway_fault(&g, G4_DELETE, G4_FAULT_FAIL, KVT_AGAIN, 1);
    assert_int_equal(gateway_recover_pending(g.context), 1); /* the second was not even tried */
    assert_int_equal(gateway_catalog_get(g.context->catalog, "zz.md", &record), KVT_NOTFOUND);
    assert_int_equal(gateway_recover_pending(g.context), 2);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL) + test_gateway_tiers(&g, 2, NULL), 0);
    test_gateway_close(&g);
}

/* ---- moves ---- */

static void
moves_keep_a_copy(void **state)
{
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);
    uint64_t bytes;
    unsigned tier;

    (void)state;
    opened(&g, HOT, 0);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes),
                     KVT_OK); /* nothing is gone already */
    assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_OK);
        assert_int_equal(bytes, again == 0 ? SIZE : 0);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_OK);
        assert_int_equal(bytes, again == 0 ? SIZE : 0);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    }
    /* A bad copy in the bucket is repaired from the hot one before that goes. */
    damage(g.cold, FLIP);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    assert_int_equal(gateway_quarantine_count(g.context->quarantine), 1);
    /* One that is gone is not made anew: somebody removed the block. */
    assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_OK);
    damage(g.cold, GONE);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_OK);
    /* With no good copy to verify, the hot one stays. */
    assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_OK);
    test_gateway_fault(&g, G4_GET, G4_FAULT_FAIL, KVT_TIMEOUT, 1);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_TIMEOUT);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_gateway_close(&g);
}

/* Copies are read within memory.max.  Without room nothing is decided about them, and all that was
 * taken is given back. */
static void
copies_wait_for_memory(void **state)
{
    struct gateway_budget budget = {.max = SIZE};
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);
    uint64_t bytes;

    (void)state;
    opened(&g, HOT, 0);
    g.options.budget = &budget;
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    budget.used = 1; /* somebody's */
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_AGAIN);
    damage(g.hot, FLIP);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK); /* from the bucket */
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    budget.used = 0;
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);
    assert_int_equal(budget.used, 0);
    assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_AGAIN); /* one, not two */
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);
    budget.max = UINT64_C(2) * SIZE;
    assert_int_equal(test_gateway_promote(g.context, name, &bytes), KVT_OK);
    assert_int_equal(test_gateway_demote(g.context, name, &bytes), KVT_OK);
    assert_int_equal(budget.used, 0);
    test_gateway_close(&g);
}

static void
promotion_respects_the_cap(void **state)
{
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    (void)state;
    opened(&g, SIZE, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    assert_int_equal(test_gateway_promote(g.context, test_gateway_key(key, 2), &bytes), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&g, 2, NULL), GATEWAY_COLD);
    assert_int_equal(test_gateway_demote(g.context, test_gateway_key(key, 1), &bytes), KVT_OK);
    assert_int_equal(test_gateway_promote(g.context, test_gateway_key(key, 2), &bytes), KVT_OK);
    test_gateway_close(&g);
}

/* A hot file no row speaks of goes; one that a row speaks of stays. */
static void
orphans_are_swept(void **state)
{
    struct g4_request head;
    char token[G4_TOKEN_MAX] = "";
    struct test_gateway g;
    char key[KVT_KEY_MAX];

    (void)state;
    opened(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_store_put(g.context->tiers.hot, test_gateway_key(key, 2), "x", 1,
                                            &(struct g4_meta){0}),
                     KVT_OK);
    do
        assert_int_equal(gateway_recover_orphans(g.context, GATEWAY_HOT, token), KVT_OK);
    while (token[0] != '\0');
    assert_int_equal(test_gateway_store_head(g.context->tiers.hot, key, &head), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(g.context->tiers.hot, test_gateway_key(key, 1), &head),
                     KVT_OK);
    test_gateway_close(&g);
}

static void
opaque_objects(void **state)
{
    struct gateway_put_item item = {.key = "models/a-b.bin", .body = "one", .size = 3};
    struct gateway_catalog_stats stats;
    struct test_gateway g;

    (void)state;
    opened(&g, HOT, 0);
    item.crc32c = g4_check_crc32c("one", 3);
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_ALWAYS), KVT_OK);
    item.body = "seven!!";
    item.size = 7;
    item.crc32c = g4_check_crc32c("seven!!", 7);
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_IF_ABSENT), KVT_EXISTS);
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_ALWAYS), KVT_OK); /* overwritten */
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_int_equal(stats.used[1], 7);
    assert_int_equal(stats.used[0], 0);
    assert_int_equal(stats.events, 0);
    assert_int_equal(gateway_remove(g.context, item.key), KVT_OK);
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_int_equal(stats.entries, 0);
    item.key = ".kvtier-probe";
    assert_int_equal(gateway_put_opaque(g.context, &item, G4_ALWAYS), KVT_INVALID);
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_and_serves),
        cmocka_unit_test(one_gateway_a_state_folder),
        cmocka_unit_test(a_loaded_store_is_not_packed),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(a_disturbed_self_test_is_repeated),
        cmocka_unit_test(lost_answer_is_settled),
        cmocka_unit_test(refusal_leaves_nothing),
        cmocka_unit_test(hanging_bucket),
        cmocka_unit_test(bucket_away),
        cmocka_unit_test(objects_of_others),
        cmocka_unit_test(damaged_hot_copies),
        cmocka_unit_test(damaged_bucket_objects),
        cmocka_unit_test(lying_bucket),
        cmocka_unit_test(removal_is_two_phase),
        cmocka_unit_test(a_busy_namespace_stops_no_other),
        cmocka_unit_test(moves_keep_a_copy),
        cmocka_unit_test(copies_wait_for_memory),
        cmocka_unit_test(promotion_respects_the_cap),
        cmocka_unit_test(orphans_are_swept),
        cmocka_unit_test(opaque_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
