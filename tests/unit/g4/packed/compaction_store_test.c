/*
 * What is tested: g4/packed/compaction.h and g4/packed/packed_store.h on stores that are no model:
 * a directory without a lock, and a real MinIO or versitygw (argument 1) with one: packed,
 * deleted, copied forward, and read after each; and on the directory by many threads all the while.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "g4/packed/compaction.h"
#include "g4/packed/packed_store.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { BLOCKS = 40, BODY_MAX = 5000, KEPT = 3, READERS = 3, FRESH_MS = 1 };

static const char ns[] = "tenant/model-é";

struct scene {
    struct g4_store *store;
    struct g4_store *reader; /* the same bucket, as gateways read it */
    struct g4_selftest proved;
    bool locks;
    bool there[BLOCKS];
    struct fetched fetched;
};

static size_t
body_of(unsigned block, uint8_t body[BODY_MAX])
{
    const size_t size = 1 + block * 997 % BODY_MAX;

    fill(body, size, block + 1);
    return size;
}

static struct kvt_key
key_of(unsigned block, char text[KVT_KEY_MAX])
{
    const struct kvt_block_id id = {.hash = ~(uint64_t)block, .parent = block, .position = block};
    struct kvt_key key;

    assert_int_equal(
        kvt_key_format(text, KVT_KEY_MAX, KVT_KEY_KVBM_B, ns, block % KVT_RANKS_MAX, &id), KVT_OK);
    assert_int_equal(kvt_key_parse(text, &key), KVT_OK);
    return key;
}

/* One run, or with `blocks` a retirement, under a lock of its own where there are locks. */
static void
compact(struct scene *scene, struct g4_compaction_report *report,
        struct g4_compaction_retirement *blocks, size_t count)
{
    struct g4_compaction_options options = {.store = scene->store,
                                            .namespace_ = ns,
                                            .settings = g4_compaction_defaults(),
                                            .writer = "tester",
                                            .delete_if_match = scene->proved.delete_if_match};
    struct kvt_error err = {.code = KVT_OK};

    options.settings.age_ms = 0;
    options.settings.bytes_min = 1;
    options.settings.block_max = BODY_MAX;
    options.settings.segment_bytes = (size_t)BODY_MAX * BLOCKS / 8;
    if (scene->locks) {
        const struct g4_lock_options lock = {
            .store = scene->store, .proved = &scene->proved, .instance = "tester"};

        assert_int_equal(g4_compaction_lock(&options.lock, &lock, ns, &err), KVT_OK);
    }
    if (blocks != NULL)
        assert_int_equal(g4_compaction_retire(&options, blocks, count, &err), KVT_OK);
    else if (g4_compaction_run(&options, report, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(g4_lock_release(options.lock, NULL), KVT_OK);
}

static void
open_reader(struct scene *scene, struct g4_store *inner)
{
    const struct g4_packed_store_options options = {
        .namespaces = ns, .instance = "reader", .alone = true, .fresh_ms = FRESH_MS};

    assert_int_equal(g4_packed_store_open(&scene->reader, inner, &options, NULL), KVT_OK);
}

/* OK means with its bytes. */
static enum kvt_err
read_one(struct scene *scene, unsigned block, struct fetched *found)
{
    uint8_t body[BODY_MAX];
    const size_t size = body_of(block, body);
    char text[KVT_KEY_MAX];
    enum kvt_err rc;

    (void)key_of(block, text);
    rc = get(scene->reader, text, found);
    if (rc == KVT_OK && (found->size != size || memcmp(found->body, body, size) != 0))
        return KVT_CORRUPT;
    return rc;
}

static void
check(struct scene *scene)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_int_equal(read_one(scene, i, &scene->fetched),
                         scene->there[i] ? KVT_OK : KVT_NOTFOUND);
}

/* A thread that reads what is never deleted. */
struct reading {
    struct scene *scene;
    atomic_bool stop;
    atomic_uint reads;
    atomic_int failed; /* the first error, or KVT_OK */
};

static void *
read_all_the_while(void *arg)
{
    struct reading *reading = arg;
    struct fetched *found = kvt_calloc(1, sizeof(*found));

    for (unsigned i = 0; !atomic_load(&reading->stop); i = (i + KEPT) % (BLOCKS / KEPT * KEPT)) {
        const enum kvt_err rc = read_one(reading->scene, i, found);

        if (rc != KVT_OK)
            atomic_store(&reading->failed, (int)rc);
        atomic_fetch_add(&reading->reads, 1);
    }
    kvt_free(found);
    return NULL;
}

static void
put_all(struct scene *scene)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint8_t body[BODY_MAX];
        const size_t size = body_of(i, body);
        char text[KVT_KEY_MAX];

        (void)key_of(i, text);
        assert_int_equal(put_absent(scene->store, text, body, size, NULL), KVT_OK);
        scene->there[i] = true;
    }
}

static void
life_of_a_namespace(struct scene *scene)
{
    struct g4_compaction_report report;
    struct g4_compaction_retirement gone[BLOCKS];
    struct fetched *found = &scene->fetched;
    size_t count = 0;

    /* What has no metadata of ours stays as it is, and so does what is no block. */
    assert_int_equal(put_plain(scene->store, "tenant/model-é/0/99:1", "x", 1), KVT_OK);
    assert_int_equal(put_plain(scene->store, "tenant/model-é/opaque", "x", 1), KVT_OK);
    check(scene);
    compact(scene, &report, NULL, 0);
    assert_int_equal(report.packed, BLOCKS);
    assert_int_equal(report.removed, BLOCKS);
    assert_int_equal(report.bad, 0);
    check(scene);
    for (unsigned i = 0; i < BLOCKS; i++) {
        char text[KVT_KEY_MAX];
        const struct kvt_key key = key_of(i, text);

        assert_int_equal(head(scene->store, text, found), KVT_NOTFOUND);
        if (i % KEPT == 0)
            continue;
        gone[count++] = (struct g4_compaction_retirement){.block = g4_segment_entry_of(&key)};
        scene->there[i] = false;
    }
    compact(scene, NULL, gone, count);
    kvt_clock_sleep_ms(2 * FRESH_MS);
    check(scene);
    compact(scene, &report, NULL, 0);
    assert_true(report.forwarded > 0 && report.segments_deleted > 0);
    assert_int_equal(report.bad, 0);
    assert_true(report.segment_bytes * 10 <= report.live_bytes * 13);
    check(scene);
    assert_int_equal(get(scene->store, "tenant/model-é/opaque", found), KVT_OK);
}

static void
on_a_directory(void **state)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    struct g4_directory_options options = {.threads = 2};
    struct reading reading = {.scene = scene};
    pthread_t threads[READERS];
    struct g4_store *inner;
    char path[128];

    (void)state;
    options.path = test_folder_make(path, sizeof(path));
    assert_int_equal(g4_directory_open(&scene->store, &options, NULL), KVT_OK);
    assert_int_equal(g4_selftest(scene->store, &scene->proved, NULL), KVT_OK);
    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    open_reader(scene, inner);
    put_all(scene);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_while, &reading), 0);
    life_of_a_namespace(scene);
    atomic_store(&reading.stop, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&reading.failed), KVT_OK);
    assert_true(atomic_load(&reading.reads) > 0);
    g4_store_close(scene->reader);
    g4_store_close(scene->store);
    test_folder_remove(path);
    kvt_free(scene);
}

static void
on_a_server(void **state)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    const enum server_kind *kind = *state;
    struct server *server = server_start(*kind);
    struct g4_store *inner;

    if (server == NULL) {
        kvt_free(scene);
        skip();
    }
    assert_int_equal(g4_s3_open(&scene->store, server_options(server), NULL), KVT_OK);
    assert_int_equal(g4_selftest_locks(scene->store, &scene->proved, NULL), KVT_OK);
    scene->locks = true;
    assert_int_equal(g4_s3_open(&inner, server_options(server), NULL), KVT_OK);
    open_reader(scene, inner);
    put_all(scene);
    life_of_a_namespace(scene);
    g4_store_close(scene->reader);
    g4_store_close(scene->store);
    server_stop(server);
    kvt_free(scene);
}

int
main(int argc, char **argv)
{
    enum server_kind kind =
        argc > 1 && strcmp(argv[1], "versitygw") == 0 ? SERVER_VERSITYGW : SERVER_MINIO;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_directory),
        cmocka_unit_test_prestate(on_a_server, &kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
