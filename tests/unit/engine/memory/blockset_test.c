/*
 * What is tested: blocks that others read: every byte as its owner has it, whole and by layer; a
 * reference to what is no longer there is an error with words, and zeros; damage is told from
 * staleness; sets that are dropped, other layouts and damaged descriptions are refused; no
 * allocation that fails leaks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/layout/block_layout.h"

#include "engine/memory/blockset_import.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/block_bytes.h"

enum { COUNT = 8, WAIT = 20000, HEADS = 8 };

struct scene {
    struct engine_fabric *ours;
    struct engine_fabric *theirs;
    struct engine_blockset *set;
    struct engine_import *import;
    struct kvbm_layout layout;
    uint8_t *into;
};

static struct engine_fabric *
fabric_open(bool near)
{
    const struct engine_fabric_options options = {.near = near ? "sysv,posix,self" : "",
                                                  .far = near ? "" : "tcp"};
    struct engine_fabric *fabric;
    struct kvt_error err;

    if (engine_fabric_open(&fabric, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return fabric;
}

static struct engine_blockset *
set_open(struct engine_fabric *fabric, const struct kvbm_layout *layout)
{
    struct engine_blockset *set;
    struct kvt_error err;

    if (engine_blockset_open(&set, fabric, layout, COUNT, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return set;
}

static struct engine_import *
import_of(struct engine_blockset *set, struct engine_fabric *fabric, const struct kvbm_layout *want)
{
    uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct engine_import *import;
    struct kvt_error err;
    size_t size;

    engine_blockset_describe(set, bytes, &size);
    if (engine_import_open(&import, fabric, bytes, size, want, WAIT, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return import;
}

static void
begin(struct scene *scene, bool near)
{
    scene->layout = blocks_layout(1, 0, HEADS);
    scene->ours = fabric_open(near);
    scene->theirs = fabric_open(near);
    scene->set = set_open(scene->theirs, &scene->layout);
    scene->import = import_of(scene->set, scene->ours, &scene->layout);
    scene->into = kvt_calloc(1, scene->layout.block_size);
    assert_non_null(scene->into);
}

static void
end(struct scene *scene)
{
    kvt_free(scene->into);
    engine_import_close(scene->import);
    engine_blockset_close(scene->set);
    engine_fabric_close(scene->ours);
    engine_fabric_close(scene->theirs);
}

static void
put(struct scene *scene, uint32_t block, uint64_t hash, struct engine_block_ref *ref)
{
    engine_blockset_hide(scene->set, block);
    blocks_write(kvbm_storage_address(engine_blockset_storage(scene->set), block),
                 scene->layout.block_size, hash);
    engine_blockset_show(scene->set, block, hash, ref);
}

static enum kvt_err
pull(struct scene *scene, const struct engine_block_ref *ref, struct kvt_error *err)
{
    struct engine_import_read read = {.ref = *ref, .host = scene->into, .status = KVT_IO};
    const struct engine_import_request request = {.reads = &read, .count = 1, .wait_ms = WAIT};
    enum kvt_err rc;

    memset(scene->into, 0xee, scene->layout.block_size);
    rc = engine_import_run(scene->import, &request, err);
    assert_int_equal(rc, read.status);
    return rc;
}

static void
expect_right(struct scene *scene, const struct engine_block_ref *ref)
{
    struct kvt_error err;

    if (pull(scene, ref, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_true(blocks_are(scene->into, scene->layout.block_size, ref->hash));
}

static void
expect_wrong(struct scene *scene, const struct engine_block_ref *ref, enum kvt_err status,
             const char *words)
{
    struct kvt_error err;

    assert_int_equal(pull(scene, ref, &err), status);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" is not in: %s", words, err.text);
    for (size_t i = 0; i < scene->layout.block_size; i++)
        assert_int_equal(scene->into[i], 0);
}

static void
a_reference_is_good_until_its_block_is_hidden(void **state)
{
    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        struct engine_block_ref old;
        struct engine_block_ref now;
        struct engine_block_ref named;
        struct scene scene;

        begin(&scene, near != 0);
        named = (struct engine_block_ref){.block = 3, .hash = 77};
        expect_wrong(&scene, &named, KVT_NOTFOUND, "or nothing");
        put(&scene, 3, 77, &old);
        expect_right(&scene, &old);
        expect_right(&scene, &named);
        named.hash = 78;
        expect_wrong(&scene, &named, KVT_NOTFOUND, "block 3: its owner has put something else");
        engine_blockset_hide(scene.set, 3);
        expect_wrong(&scene, &old, KVT_NOTFOUND, "block 3: its owner has put something else");
        named.hash = 77;
        expect_wrong(&scene, &named, KVT_NOTFOUND, "or nothing");
        put(&scene, 3, 77, &now); /* the same content again is another generation */
        assert_true(now.generation != old.generation && now.sum == old.sum);
        expect_wrong(&scene, &old, KVT_NOTFOUND, "something else");
        expect_right(&scene, &now);
        end(&scene);
    }
}

static void
a_dropped_set_says_so(void **state)
{
    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
        struct engine_import *import;
        struct engine_block_ref ref;
        struct scene scene;
        struct kvt_error err;
        size_t size;

        begin(&scene, near != 0);
        put(&scene, 0, 5, &ref);
        expect_right(&scene, &ref);
        engine_blockset_describe(scene.set, bytes, &size);
        engine_blockset_close(scene.set);
        expect_wrong(&scene, &ref, KVT_NOTFOUND, "its owner dropped the set");
        scene.set = set_open(scene.theirs, &scene.layout); /* maybe in the same place */
        put(&scene, 0, 5, NULL);
        expect_wrong(&scene, &ref, KVT_NOTFOUND, "its owner dropped the set");
        assert_int_equal(engine_import_open(&import, scene.ours, bytes, size, NULL, WAIT, &err),
                         KVT_NOTFOUND);
        assert_null(import);
        end(&scene);
    }
}

/* Bytes that change without the set being told are no stale block, and no block at all. */
static void
damage_is_found(void **state)
{
    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        struct engine_block_ref ref;
        struct scene scene;
        uint8_t *bytes;

        begin(&scene, near != 0);
        put(&scene, 1, 9, &ref);
        bytes = kvbm_storage_address(engine_blockset_storage(scene.set), 1);
        for (size_t at = 0; at < scene.layout.block_size; at += 997) {
            bytes[at] ^= 4;
            expect_wrong(&scene, &ref, KVT_CORRUPT, "block 1");
            bytes[at] ^= 4;
        }
        expect_right(&scene, &ref);
        ref.sum ^= 1;
        expect_wrong(&scene, &ref, KVT_CORRUPT, "block 1");
        end(&scene);
    }
}

static void
a_storage_shows_what_is_committed(void **state)
{
    const uint64_t hash = 31;
    struct kvbm_storage_name name = {.block = 2, .id = {.hash = 31}, .status = KVT_IO};
    struct kvbm_storage_io io = {.block = 2};
    const uint32_t block = 2;
    const struct engine_block_ref ref = {.block = 2, .hash = 31};
    struct kvbm_storage *storage;
    struct scene scene;

    (void)state;
    begin(&scene, true);
    storage = engine_blockset_storage(scene.set);
    assert_int_equal(storage->block_count, COUNT);
    io.host = kvt_aligned(KVBM_STORAGE_ALIGN, storage->block_size);
    blocks_write(io.host, scene.layout.block_size, hash);
    for (unsigned way = 0; way < 3; way++) {
        kvbm_storage_write(storage, &io, 1);
        assert_int_equal(kvbm_storage_commit(storage, &name, 1), KVT_OK);
        expect_right(&scene, &ref);
        if (way == 0)
            kvbm_storage_write(storage, &io, 1);
        else if (way == 1)
            kvbm_storage_bind(storage, &name, 1);
        else
            assert_int_equal(kvbm_storage_forget(storage, &block, 1), KVT_OK);
        expect_wrong(&scene, &ref, KVT_NOTFOUND, "block 2");
    }
    kvt_free(io.host);
    end(&scene);
}

static void
many_blocks_have_each_their_status(void **state)
{
    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        struct engine_import_read reads[3 * COUNT] = {{.status = KVT_IO}};
        const struct engine_import_request request = {
            .reads = reads, .count = 3 * COUNT, .wait_ms = WAIT};
        _Atomic bool stop = true;
        struct engine_import_request stopped = request;
        struct scene scene;
        uint8_t *into;

        begin(&scene, near != 0);
        into = kvt_calloc(3 * COUNT, scene.layout.block_size);
        for (uint32_t i = 0; i < 3 * COUNT; i++) {
            reads[i].host = into + i * scene.layout.block_size;
            put(&scene, i % COUNT, 100 + i, &reads[i].ref);
        }
        reads[2 * COUNT].ref.block = COUNT;
        assert_int_equal(engine_import_run(scene.import, &request, NULL), KVT_NOTFOUND);
        for (uint32_t i = 0; i < 3 * COUNT; i++) {
            assert_int_equal(reads[i].status, i < 2 * COUNT    ? KVT_NOTFOUND
                                              : i == 2 * COUNT ? KVT_RANGE
                                                               : KVT_OK);
            if (i > 2 * COUNT)
                assert_true(blocks_are(reads[i].host, scene.layout.block_size, 100 + i));
        }
        stopped.stop = &stop;
        assert_int_equal(engine_import_run(scene.import, &stopped, NULL), KVT_CANCELLED);
        stopped = request;
        stopped.wait_ms = 0;
        assert_int_equal(engine_import_run(scene.import, &stopped, NULL), KVT_TIMEOUT);
        kvt_free(into);
        end(&scene);
    }
}

/* Layer by layer, in whatever order, it is the same block; where layers share a sum, they come
 * together or not at all. */
static void
layers_are_read_by_themselves(void **state)
{
    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        static struct engine_import_run runs[ENGINE_IMPORT_RUNS_MAX];
        struct engine_import_read read = {.runs = runs};
        const struct engine_import_request request = {.reads = &read, .count = 1, .wait_ms = WAIT};
        struct scene scene;
        uint32_t together = 1;

        begin(&scene, near != 0);
        put(&scene, 4, 12, &read.ref);
        while (engine_import_runs(scene.import, &(struct engine_import_slice){.layers = together},
                                  &scene.layout, scene.into, runs, ENGINE_IMPORT_RUNS_MAX,
                                  &read.count, NULL) == KVT_UNSUPPORTED)
            together++;
        assert_true(together > 1 && together < BLOCKS_LAYERS);
        for (uint32_t layer = BLOCKS_LAYERS; layer > 0; layer -= together) {
            const struct engine_import_slice slice = {.layer = layer - together,
                                                      .layers = together};

            assert_int_equal(engine_import_runs(scene.import, &slice, &scene.layout, scene.into,
                                                runs, ENGINE_IMPORT_RUNS_MAX, &read.count, NULL),
                             KVT_OK);
            assert_int_equal(read.count, HEADS);
            assert_int_equal(engine_import_run(scene.import, &request, NULL), KVT_OK);
        }
        assert_true(blocks_are(scene.into, scene.layout.block_size, 12));
        ((uint8_t *)kvbm_storage_address(engine_blockset_storage(scene.set), 4))[0] ^= 1;
        assert_int_equal(engine_import_run(scene.import, &request, NULL), KVT_CORRUPT);
        runs[0].size--;
        assert_int_equal(engine_import_run(scene.import, &request, NULL), KVT_INVALID);
        end(&scene);
    }
}

static void
other_layouts_are_refused_in_words(void **state)
{
    uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct kvt_geometry geometry;
    struct engine_import *import;
    struct engine_blockset *set;
    struct kvbm_layout want;
    struct scene scene;
    struct kvt_error err;
    size_t size;

    (void)state;
    begin(&scene, true);
    engine_blockset_describe(scene.set, bytes, &size);
    for (unsigned which = 0; which < 5; which++) {
        static const char *const words[] = {"page", "layers", "dtype", "heads", "kind"};

        geometry = scene.layout.geometry;
        geometry.page_size *= which == 0 ? 2 : 1;
        geometry.layers *= which == 1 ? 2 : 1;
        geometry.dtype_bytes *= which == 2 ? 2 : 1;
        geometry.tp_size *= which == 3 ? 2 : 1;
        geometry.kind = which == 4 ? KVT_LAYOUT_CONTIGUOUS : geometry.kind;
        assert_int_equal(kvbm_layout_make(&want, &geometry, NULL), KVT_OK);
        assert_int_equal(engine_import_open(&import, scene.ours, bytes, size, &want, WAIT, &err),
                         KVT_PRECONDITION);
        assert_null(import);
        if (strstr(err.text, words[which]) == NULL)
            fail_msg("\"%s\" is not in: %s", words[which], err.text);
    }
    geometry = scene.layout.geometry;
    geometry.kind = KVT_LAYOUT_LAYERED;
    assert_int_equal(kvbm_layout_make(&want, &geometry, NULL), KVT_OK);
    assert_int_equal(engine_blockset_open(&set, scene.theirs, &want, COUNT, &err), KVT_UNSUPPORTED);
    assert_null(set);
    end(&scene);
}

static void
damaged_descriptions_are_refused(void **state)
{
    uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct engine_import *import;
    struct scene scene;
    struct kvt_error err;
    size_t size;

    (void)state;
    begin(&scene, true);
    engine_blockset_describe(scene.set, bytes, &size);
    for (size_t shorter = 0; shorter < size; shorter++)
        assert_int_equal(engine_import_open(&import, scene.ours, bytes, shorter, NULL, WAIT, &err),
                         KVT_INVALID);
    for (size_t at = 0; at < size; at++) {
        enum kvt_err rc;

        bytes[at] ^= 0x20;
        rc = engine_import_open(&import, scene.ours, bytes, size, NULL, WAIT, &err);
        bytes[at] ^= 0x20;
        assert_true(rc == KVT_INVALID || rc == KVT_CORRUPT);
        assert_null(import);
    }
    end(&scene);
}

static bool
attempt(void *arg)
{
    const struct engine_fabric_options options = {.near = "sysv,posix,self", .far = ""};
    struct kvbm_layout layout = blocks_layout(1, 0, HEADS);
    uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct engine_import_read read = {.host = arg};
    const struct engine_import_request request = {.reads = &read, .count = 1, .wait_ms = WAIT};
    struct engine_fabric *fabric;
    struct engine_blockset *set = NULL;
    struct engine_import *import = NULL;
    bool whole = false;
    size_t size;

    if (engine_fabric_open(&fabric, &options, NULL) != KVT_OK)
        return false;
    if (engine_blockset_open(&set, fabric, &layout, COUNT, NULL) == KVT_OK) {
        engine_blockset_show(set, 0, 1, &read.ref);
        engine_blockset_describe(set, bytes, &size);
        if (engine_import_open(&import, fabric, bytes, size, &layout, WAIT, NULL) == KVT_OK)
            whole = engine_import_run(import, &request, NULL) == KVT_OK;
    }
    engine_import_close(import);
    engine_blockset_close(set);
    engine_fabric_close(fabric);
    return whole;
}

static void
no_allocation_that_fails_leaks(void **state)
{
    static uint8_t into[1 << 20];

    (void)state;
    assert_true(test_sweep_allocations(attempt, into) >= 6);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reference_is_good_until_its_block_is_hidden),
        cmocka_unit_test(a_dropped_set_says_so),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_storage_shows_what_is_committed),
        cmocka_unit_test(many_blocks_have_each_their_status),
        cmocka_unit_test(layers_are_read_by_themselves),
        cmocka_unit_test(other_layouts_are_refused_in_words),
        cmocka_unit_test(damaged_descriptions_are_refused),
        cmocka_unit_test(no_allocation_that_fails_leaks),
    };

    return cmocka_run_group_tests_name("engine/blockset", tests, NULL, NULL);
}
