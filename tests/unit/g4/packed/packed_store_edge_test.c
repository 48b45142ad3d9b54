/*
 * What is tested: g4/packed/packed_store.h while somebody else packs, who dies at every request in
 * turn, either before a block is changed or between any two requests of that: what was
 * acknowledged is what is read.  The same where the packer comes back between any two requests of
 * a change that found it at any of its own, and where it is the change that dies.
 * And a bucket whose pages of a listing have no rows.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "g4/packed/packed_store.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/memory_bucket.h"

#define SPACE    "b"
#define YEARS_MS (UINT64_C(10) * 365 * 24 * 3600 * 1000)

enum { REQUESTS_MAX = 200, FRESH_MS = 1 };

/* The requests of a change of what is not packed, in their order. */
enum { DELETE_OBJECT = 1 };
enum { WRITE_LOOK = 1, WRITE_OBJECT, WRITE_LOOK_BEHIND };

struct scene {
    struct memory_bucket memory;
    struct memory_bucket_client user;
    struct memory_bucket_client packer;
    struct g4_store *store;  /* the user's */
    struct g4_store *packed; /* the packer's */
    uint64_t step;           /* the packer's request that it dies of */
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    struct fetched fetched;
};

static struct g4_store *
open_packed(struct g4_store *inner, const char *name)
{
    const struct g4_packed_store_options options = {
        .namespaces = SPACE, .instance = name, .alone = true, .fresh_ms = FRESH_MS};
    const struct g4_selftest proved = {.put_if_absent = true};
    struct g4_store *store;

    assert_int_equal(g4_packed_store_open(&store, inner, &options, NULL), KVT_OK);
    g4_packed_store_prove(store, &proved);
    return store;
}

/* One block, "right", that the user's store knows as not packed. */
static struct scene *
scene_new(void)
{
    const struct kvt_block_id id = {.hash = 7, .parent = 6, .position = 100};
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    scene->memory.now_ms -= YEARS_MS; /* what is on it is old by the clock of those who pack */
    scene->user.memory = scene->packer.memory = &scene->memory;
    scene->store = open_packed(memory_bucket_open(&scene->user), "gw0");
    scene->packed = open_packed(memory_bucket_open(&scene->packer), "gw1");
    assert_int_equal(kvt_key_format(scene->key, KVT_KEY_MAX, KVT_KEY_KVBM_B, SPACE, 1, &id),
                     KVT_OK);
    assert_int_equal(put_absent(scene->store, scene->key, "right", 5, scene->etag), KVT_OK);
    assert_int_equal(get(scene->store, scene->key, &scene->fetched), KVT_OK);
    scene->user.calls = 0;
    return scene;
}

static void
scene_free(struct scene *scene)
{
    g4_store_close(scene->store);
    g4_store_close(scene->packed);
    memory_bucket_clear(&scene->memory);
    kvt_free(scene);
}

/* Pack, unless the packer dies of it. */
static void
pack(struct scene *scene)
{
    struct g4_compaction_settings settings = g4_compaction_defaults();
    struct g4_compaction_report report;

    settings.age_ms = 0;
    settings.bytes_min = 1;
    settings.block_max = 4096; /* whose memory is quickly had */
    settings.segment_bytes = 65536;
    do {
        if (g4_packed_store_compact(scene->packed, 0, &settings, &report, NULL) != KVT_OK)
            return;
    } while (report.more);
}

/* The packer dies behind its request `at`, of this life; 0: it lives. */
static void
pack_until(struct scene *scene, uint64_t at)
{
    scene->packer.calls = 0;
    scene->packer.at = at;
    scene->packer.death = MEMORY_BUCKET_DIES_AFTER;
    pack(scene);
    scene->packer.at = 0;
}

/* It lives again, and finishes what there is. */
static void
settle(struct scene *scene)
{
    scene->packer.dead = false;
    pack_until(scene, 0);
}

static void
pack_between(void *arg, const struct g4_request *request)
{
    struct scene *scene = arg;

    (void)request;
    pack_until(scene, scene->step);
}

/* The block as both see it once they look again: `body`, or NULL for none. */
static void
expect_block(struct scene *scene, const char *body)
{
    struct g4_store *const stores[] = {scene->store, scene->packed};

    kvt_clock_sleep_ms(2 * FRESH_MS);
    for (size_t i = 0; i < 2; i++) {
        const enum kvt_err rc = get(stores[i], scene->key, &scene->fetched);

        assert_int_equal(rc, body == NULL ? KVT_NOTFOUND : KVT_OK);
        if (body != NULL) {
            assert_int_equal(scene->fetched.size, strlen(body));
            assert_memory_equal(scene->fetched.body, body, strlen(body));
        }
    }
}

/*
 * Change the block at every step of packing.
 *
 * @param before  the packer works before this request that the change makes; 0: before all of it
 * @param body    what there is afterwards
 */
static void
at_every_step(unsigned before, void (*change)(struct scene *), const char *body)
{
    bool died = true;
    uint64_t at;

    for (at = 1; died; at++) {
        struct scene *scene = scene_new();

        assert_true(at < REQUESTS_MAX);
        scene->step = at;
        if (before > 0) {
            scene->user.at = before;
            scene->user.between = pack_between;
            scene->user.arg = scene;
        } else {
            pack_until(scene, scene->step);
        }
        change(scene);
        died = scene->packer.dead;
        scene->packer.dead = false;
        expect_block(scene, body);
        settle(scene);
        expect_block(scene, body);
        scene_free(scene);
    }
    assert_true(at > 8); /* there was something to die of */
}

/* ---- deletions ---- */

static void
remove_it(struct scene *scene)
{
    assert_int_equal(del(scene->store, scene->key), KVT_OK);
}

static void
remove_what_matches(struct scene *scene)
{
    assert_int_equal(del_match(scene->store, scene->key, scene->etag), KVT_OK);
}

static void
remove_another(struct scene *scene)
{
    assert_int_equal(del_match(scene->store, scene->key, "another"), KVT_PRECONDITION);
}

static void
a_deletion_meets_what_was_packed(void **state)
{
    (void)state;
    at_every_step(0, remove_it, NULL);
    at_every_step(0, remove_what_matches, NULL);
    at_every_step(0, remove_another, "right");
}

static void
a_deletion_meets_a_packer(void **state)
{
    (void)state;
    at_every_step(DELETE_OBJECT, remove_it, NULL);
    at_every_step(DELETE_OBJECT, remove_what_matches, NULL);
    at_every_step(DELETE_OBJECT, remove_another, "right");
}

/* ---- overwriting ---- */

static void
write_over_it(struct scene *scene)
{
    assert_int_equal(put(scene->store, scene->key, "left", 4, NULL), KVT_OK);
}

static void
write_over_what_matches(struct scene *scene)
{
    assert_int_equal(put_match(scene->store, scene->key, "left", 4, scene->etag), KVT_OK);
}

static void
write_over_another(struct scene *scene)
{
    char etag[G4_ETAG_MAX] = "another";

    assert_int_equal(put_match(scene->store, scene->key, "left", 4, etag), KVT_PRECONDITION);
}

static void
a_change_meets_what_was_packed(void **state)
{
    (void)state;
    at_every_step(0, write_over_it, "left");
    at_every_step(0, write_over_what_matches, "left");
    at_every_step(0, write_over_another, "right");
}

static void
a_change_meets_a_packer(void **state)
{
    (void)state;
    for (unsigned before = WRITE_LOOK; before <= WRITE_LOOK_BEHIND; before++) {
        at_every_step(before, write_over_it, "left");
        at_every_step(before, write_over_what_matches, "left");
        if (before < WRITE_LOOK_BEHIND) /* nothing was written */
            at_every_step(before, write_over_another, "right");
    }
}

/* ---- changes of what is half packed ---- */

/* The requests of a change that come before it has the lock, and more than all of them. */
enum { REQUESTS_UNLOCKED = 5, REQUESTS_OF_A_CHANGE = 24 };

static void
settle_between(void *arg, const struct g4_request *request)
{
    (void)request;
    settle(arg);
}

/* The first of the packer's requests behind which the manifest has the block. */
static uint64_t
first_named(void)
{
    bool named = false;
    uint64_t step;

    for (step = 0; !named; step++) {
        struct scene *scene = scene_new();

        assert_true(step < REQUESTS_MAX);
        pack_until(scene, step + 1);
        named = memory_bucket_count(&scene->memory, SPACE "/.kvt/manifest/") > 0;
        scene_free(scene);
    }
    return step;
}

/* The packer has died behind its request `step`. */
static struct scene *
half_packed(uint64_t step, bool *died)
{
    struct scene *scene = scene_new();

    pack_until(scene, step);
    *died = scene->packer.dead;
    scene->packer.dead = false;
    scene->user.arg = scene;
    kvt_clock_sleep_ms(2 * FRESH_MS);
    return scene;
}

/* Somebody finishes the packing before the request `before` of the change. */
static void
finished_before_each_request(void (*change)(struct scene *))
{
    bool died = true;

    for (uint64_t step = first_named(); died; step++)
        for (uint64_t before = 1; before <= REQUESTS_UNLOCKED; before++) {
            struct scene *scene = half_packed(step, &died);

            scene->user.calls = 0;
            scene->user.at = before;
            scene->user.between = settle_between;
            change(scene);
            expect_block(scene, "left");
            settle(scene);
            expect_block(scene, "left");
            scene_free(scene);
        }
}

static void
a_change_meets_the_rest_of_packing(void **state)
{
    (void)state;
    finished_before_each_request(write_over_it);
    finished_before_each_request(write_over_what_matches);
}

/* Is the block there, as it was or as it was to be? */
static void
expect_either(struct scene *scene)
{
    kvt_clock_sleep_ms(2 * FRESH_MS);
    assert_int_equal(get(scene->packed, scene->key, &scene->fetched), KVT_OK);
    assert_true(scene->fetched.size == 5 || scene->fetched.size == 4);
    assert_memory_equal(scene->fetched.body, scene->fetched.size == 5 ? "right" : "left",
                        scene->fetched.size);
}

/* Who changes a block dies at his request `at`. */
static void
dies_at_each_request(bool matches)
{
    bool died = true;

    for (uint64_t step = first_named(); died; step++) {
        bool changed = false;

        for (uint64_t at = 1; !changed; at++) {
            struct scene *scene = half_packed(step, &died);
            char etag[G4_ETAG_MAX];

            assert_true(at < REQUESTS_OF_A_CHANGE);
            memcpy(etag, scene->etag, sizeof(etag));
            scene->user.calls = 0;
            scene->user.at = at;
            scene->user.death = MEMORY_BUCKET_DIES_AFTER;
            changed = (matches ? put_match(scene->store, scene->key, "left", 4, etag)
                               : put(scene->store, scene->key, "left", 4, NULL)) == KVT_OK &&
                      !scene->user.dead;
            expect_either(scene);
            settle(scene);
            expect_either(scene);
            scene_free(scene);
        }
    }
}

static void
a_change_that_dies_loses_nothing(void **state)
{
    (void)state;
    dies_at_each_request(false);
    dies_at_each_request(true);
}

/* Whoever is first is read, whatever happens to the object that a PUT over nothing saw. */
static void
an_addition_meets_the_rest_of_packing(void **state)
{
    bool died = true;
    unsigned added = 0;

    (void)state;
    for (uint64_t step = first_named(); died; step++)
        for (uint64_t before = 1; before <= REQUESTS_UNLOCKED; before++) {
            struct scene *scene = half_packed(step, &died);

            enum kvt_err rc;

            scene->user.calls = 0;
            scene->user.at = before;
            scene->user.between = settle_between;
            rc = put_absent(scene->store, scene->key, "left", 4, NULL);
            assert_true(rc == KVT_OK || rc == KVT_EXISTS);
            added += rc == KVT_OK;
            expect_block(scene, rc == KVT_OK ? "left" : "right");
            settle(scene);
            expect_block(scene, rc == KVT_OK ? "left" : "right");
            scene_free(scene);
        }
    assert_true(added > 0);
}

/* What clients say of a block is in no segment: equal bytes are not the same block then. */
static void
what_clients_say_is_not_packed(void **state)
{
    char attributes[] = "x-amz-meta-note: mine\n";
    struct scene *scene = scene_new();
    struct g4_packed_totals totals;
    struct g4_request request = {.verb = G4_PUT,
                                 .key = scene->key,
                                 .attributes = attributes,
                                 .body = "right",
                                 .body_size = 5,
                                 .meta = {.present = true, .length = 5}};

    (void)state;
    request.meta.crc32c = g4_check_crc32c("right", 5);
    kvt_clock_sleep_ms(2 * FRESH_MS);
    scene->user.at = WRITE_OBJECT;
    scene->user.between = settle_between;
    scene->user.arg = scene;
    assert_int_equal(g4_store_perform(scene->store, &request), KVT_OK);
    assert_non_null(memory_bucket_find(&scene->memory, scene->key));
    kvt_clock_sleep_ms(2 * FRESH_MS);
    expect_block(scene, "right");
    assert_int_equal(g4_packed_store_totals(scene->store, 0, &totals, NULL), KVT_OK);
    assert_int_equal(totals.blocks, 0);
    scene_free(scene);
}

/* ---- a manifest that nobody can read ---- */

static void
plain_blocks_need_no_manifest(void **state)
{
    struct scene *scene = scene_new();
    struct fetched *found = &scene->fetched;
    const struct kvt_block_id id = {.hash = 9, .parent = 8, .position = 100};
    struct g4_store *bucket = memory_bucket_open(&scene->user);
    char manifest[KVT_KEY_MAX];
    char plain[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];

    (void)state;
    settle(scene); /* the one block is packed */
    assert_int_equal(kvt_key_format(plain, KVT_KEY_MAX, KVT_KEY_KVBM_B, SPACE, 1, &id), KVT_OK);
    assert_int_equal(g4_manifest_key(manifest, SPACE, 1000), KVT_OK);
    assert_int_equal(put(bucket, manifest, "garbage", 7, NULL), KVT_OK);
    kvt_clock_sleep_ms(2 * FRESH_MS);
    assert_int_equal(get(scene->store, plain, found), KVT_IO); /* it may be packed */
    assert_int_equal(put_absent(scene->store, plain, "plain", 5, etag), KVT_OK);
    assert_int_equal(get(scene->store, plain, found), KVT_OK);
    assert_memory_equal(found->body, "plain", 5);
    assert_int_equal(head(scene->store, plain, found), KVT_OK);
    assert_int_equal(put_absent(scene->store, plain, "more", 4, NULL), KVT_EXISTS);
    assert_int_equal(get(scene->store, scene->key, found), KVT_IO);
    assert_int_equal(put_match(scene->store, plain, "more", 4, etag), KVT_IO);
    assert_int_equal(del(scene->store, plain), KVT_IO);
    assert_int_equal(del(bucket, manifest), KVT_OK);
    assert_int_equal(get(scene->store, plain, found), KVT_NOTFOUND);
    assert_int_equal(get(scene->store, scene->key, found), KVT_OK);
    g4_store_close(bucket);
    scene_free(scene);
}

/* ---- listings ---- */

#define BLANK "blank"

enum { BLANKS = 3 };

/* A bucket that begins each listing with pages of keys which nobody may be told of. */
struct blank {
    struct g4_store *inner;
    unsigned left;
};

static enum kvt_err
submit_blank(void *self, struct g4_request *request)
{
    struct blank *blank = self;

    if (request->verb != G4_LIST || strcmp(request->key, SPACE "/") != 0)
        return g4_store_submit(blank->inner, request);
    if (request->token[0] == '\0')
        blank->left = BLANKS;
    else if (strcmp(request->token, BLANK) == 0)
        request->token[0] = '\0';
    if (blank->left == 0)
        return g4_store_submit(blank->inner, request);
    blank->left--;
    (void)snprintf(request->token, sizeof(request->token), BLANK);
    request->done(request, request->arg);
    return KVT_OK;
}

static void
close_blank(void *self)
{
    g4_store_close(((struct blank *)self)->inner);
}

static void
a_page_without_rows_is_not_the_last(void **state)
{
    static const struct g4_store_driver driver = {
        .name = "blank", .submit = submit_blank, .close = close_blank};
    struct scene *scene = scene_new();
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    struct blank blank = {.inner = memory_bucket_open(&scene->user)};
    struct g4_store *inner;
    struct g4_store *store;
    char token[G4_TOKEN_MAX] = "";
    size_t count;

    (void)state;
    assert_int_equal(g4_store_new(&inner, &driver, &blank), KVT_OK);
    store = open_packed(inner, "gw2");
    for (unsigned packed = 0; packed < 2; packed++) {
        assert_int_equal(list(store, SPACE "/", token, rows, &count), KVT_OK);
        assert_int_equal(count, 1);
        assert_string_equal(rows[0].key, scene->key);
        assert_string_equal(token, "");
        settle(scene);
    }
    kvt_free(rows);
    g4_store_close(store);
    scene_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deletion_meets_what_was_packed),
        cmocka_unit_test(a_deletion_meets_a_packer),
        cmocka_unit_test(a_change_meets_what_was_packed),
        cmocka_unit_test(a_change_meets_a_packer),
        cmocka_unit_test(a_change_meets_the_rest_of_packing),
        cmocka_unit_test(a_change_that_dies_loses_nothing),
        cmocka_unit_test(an_addition_meets_the_rest_of_packing),
        cmocka_unit_test(what_clients_say_is_not_packed),
        cmocka_unit_test(plain_blocks_need_no_manifest),
        cmocka_unit_test(a_page_without_rows_is_not_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
