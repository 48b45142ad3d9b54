/*
 * What is tested: g4/packed/packed_store.h on a folder: two of them on one bucket, as two gateways
 * are, beside a model that knows of no packing: PUT, GET, parts, HEAD, DELETE, conditions and
 * listings say the same whatever is packed, and when; a damaged segment is bad data and can be
 * repaired; what belongs to the packer is nobody's; the promises every store makes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "g4/packed/packed_store.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"

enum { KEYS = 48, BODY_MAX = 900, STEPS = 600, STORES = 2, MANY = 1150, FRESH_MS = 1 };

static const char *const spaces[] = {"a/model", "b"};

/* What there is, by key. */
struct model {
    char key[KVT_KEY_MAX];
    bool there;
    uint64_t content; /* what its body follows from */
    char etag[G4_ETAG_MAX];
    uint64_t modified_ms; /* 0: not looked at yet */
};

struct scene {
    char folder[128];
    struct g4_store *bucket; /* without packing */
    struct g4_store *stores[STORES];
    struct model models[KEYS]; /* sorted by key */
    size_t turn;               /* whose turn it was last */
    uint64_t random;
    struct fetched fetched;
};

static void
block_key(char out[KVT_KEY_MAX], const char *namespace_, unsigned number)
{
    const struct kvt_block_id id = {.hash = UINT64_C(0x9e3779b97f4a7c15) * (number + 1),
                                    .parent = number,
                                    .position = number % 3 * 100};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, namespace_, number % 12, &id),
                     KVT_OK);
}

static int
compare_models(const void *a, const void *b)
{
    return strcmp(((const struct model *)a)->key, ((const struct model *)b)->key);
}

/* Blocks of two packed namespaces and of one that is not, and names that are no blocks'. */
static void
name_models(struct scene *scene)
{
    static const char *const names[] = {"a",         "a/",      "a/model", "a/model0",
                                        "a/model/z", "b/.kvtx", "b/0",     "c"};

    for (unsigned i = 0; i < KEYS; i++) {
        struct model *model = &scene->models[i];

        if (i < sizeof(names) / sizeof(names[0]))
            (void)snprintf(model->key, sizeof(model->key), "%s", names[i]);
        else
            block_key(model->key, i % 5 == 0 ? "c" : spaces[i % 2], i);
    }
    qsort(scene->models, KEYS, sizeof(scene->models[0]), compare_models);
}

static struct g4_store *
open_packed(struct scene *scene, const char *namespaces, const char *name)
{
    const struct g4_directory_options options = {.path = scene->folder};
    const struct g4_selftest proved = {.put_if_absent = true};
    struct g4_store *inner;
    struct g4_store *store;

    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    assert_int_equal(
        g4_packed_store_open(
            &store, inner,
            &(struct g4_packed_store_options){
                .namespaces = namespaces, .instance = name, .alone = true, .fresh_ms = FRESH_MS},
            NULL),
        KVT_OK);
    g4_packed_store_prove(store, &proved);
    return store;
}

static struct scene *
scene_new(void)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    struct g4_directory_options options;

    options = (struct g4_directory_options){
        .path = test_folder_make(scene->folder, sizeof(scene->folder))};
    assert_int_equal(g4_directory_open(&scene->bucket, &options, NULL), KVT_OK);
    for (size_t i = 0; i < STORES; i++)
        scene->stores[i] = open_packed(scene, "a/model,b", i == 0 ? "gw0" : "gw1");
    scene->random = test_seed();
    name_models(scene);
    return scene;
}

static void
scene_free(struct scene *scene)
{
    for (size_t i = 0; i < STORES; i++)
        g4_store_close(scene->stores[i]);
    g4_store_close(scene->bucket);
    test_folder_remove(scene->folder);
    kvt_free(scene);
}

/* The one whose turn it is.  What the other did is more than FRESH_MS ago. */
static struct g4_store *
take_turn(struct scene *scene)
{
    const size_t turn = kvt_random_below(&scene->random, STORES);

    if (turn != scene->turn)
        kvt_clock_sleep_ms(2 * FRESH_MS);
    scene->turn = turn;
    return scene->stores[turn];
}

/* Pack all there is to pack. */
static void
pack(struct scene *scene, size_t index)
{
    struct g4_compaction_settings settings = g4_compaction_defaults();
    struct g4_compaction_report report;
    struct kvt_error err;

    settings.age_ms = 0;
    settings.bytes_min = 1;
    settings.block_max = BODY_MAX;
    settings.segment_bytes = 12000;
    do {
        if (g4_packed_store_compact(take_turn(scene), index, &settings, &report, &err) != KVT_OK)
            fail_msg("%s", err.text);
    } while (report.more);
}

/* ---- the model and the stores ---- */

static size_t
body_of(const struct model *model, uint8_t body[BODY_MAX])
{
    const size_t size = 1 + model->content * 37 % BODY_MAX;

    fill(body, size, model->content + 1);
    return size;
}

static void
check_read(struct scene *scene, struct g4_store *store, struct model *model)
{
    struct fetched *found = &scene->fetched;
    uint8_t body[BODY_MAX];
    uint8_t part[BODY_MAX];
    const size_t size = body_of(model, body);
    struct g4_request request = {.verb = G4_GET,
                                 .key = model->key,
                                 .buffer = part,
                                 .buffer_capacity = sizeof(part),
                                 .range_at = kvt_random_below(&scene->random, size),
                                 .range_size = 1 + kvt_random_below(&scene->random, BODY_MAX)};
    size_t left = size - (size_t)request.range_at;

    assert_int_equal(get(store, model->key, found), model->there ? KVT_OK : KVT_NOTFOUND);
    if (!model->there) {
        assert_int_equal(head(store, model->key, found), KVT_NOTFOUND);
        return;
    }
    assert_int_equal(found->size, size);
    assert_memory_equal(found->body, body, size);
    assert_string_equal(found->etag, model->etag);
    assert_int_equal(head(store, model->key, found), KVT_OK);
    assert_int_equal(found->meta.length, size);
    assert_int_equal(found->meta.crc32c, g4_check_crc32c(body, size));
    assert_string_equal(found->etag, model->etag);
    if (model->modified_ms == 0)
        model->modified_ms = found->modified_ms;
    assert_int_equal(found->modified_ms / 1000, model->modified_ms / 1000);
    if (left > request.range_size)
        left = request.range_size;
    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_int_equal(request.buffer_size, left);
    assert_int_equal(request.object_size, size);
    assert_memory_equal(part, body + request.range_at, left);
}

static void
write_one(struct scene *scene, struct g4_store *store, struct model *model)
{
    struct model next = *model;
    uint8_t body[BODY_MAX];
    const size_t size =
        (next.content = kvt_random_below(&scene->random, 1000), body_of(&next, body));
    enum kvt_err rc;

    next.modified_ms = 0;
    switch (kvt_random_below(&scene->random, 3)) {
    case 0: /* over exactly what is there */
        (void)snprintf(next.etag, sizeof(next.etag), "%s", model->there ? model->etag : "none");
        rc = put_match(store, model->key, body, size, next.etag);
        assert_int_equal(rc == KVT_OK, model->there);
        break;
    case 1: /* over another */
        (void)snprintf(next.etag, sizeof(next.etag), "none");
        rc = put_match(store, model->key, body, size, next.etag);
        assert_true(rc == KVT_PRECONDITION || (!model->there && rc == KVT_NOTFOUND));
        break;
    default:
        rc = put_absent(store, model->key, body, size, next.etag);
        assert_int_equal(rc, model->there ? KVT_EXISTS : KVT_OK);
        break;
    }
    if (rc != KVT_OK)
        return;
    next.there = true;
    *model = next;
}

static void
remove_one(struct scene *scene, struct g4_store *store, struct model *model)
{
    enum kvt_err rc;

    switch (kvt_random_below(&scene->random, 3)) {
    case 0: /* exactly what is there */
        rc = del_match(store, model->key, model->there ? model->etag : "none");
        break;
    case 1: /* another */
        rc = del_match(store, model->key, "none");
        assert_int_equal(rc, model->there ? KVT_PRECONDITION : KVT_NOTFOUND);
        return;
    default: rc = del(store, model->key); break;
    }
    assert_true(rc == KVT_OK || (rc == KVT_NOTFOUND && !model->there));
    model->there = false;
}

/* Every page of a listing, against the model. */
static void
check_list(struct scene *scene, struct g4_store *store)
{
    static const char *const prefixes[] = {"", "a", "a/model/", "b/", "a/model/1", "c/", "b/.kvt/"};
    const char *prefix = prefixes[kvt_random_below(&scene->random, 7)];
    const char *after = kvt_random_below(&scene->random, 2) == 0
                            ? NULL
                            : scene->models[kvt_random_below(&scene->random, KEYS)].key;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .after = after, .listed = rows};
    size_t at = 0;

    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_string_equal(request.token, "");
    for (unsigned i = 0; i < KEYS; i++) {
        const struct model *model = &scene->models[i];
        uint8_t body[BODY_MAX];

        if (!model->there || strncmp(model->key, prefix, strlen(prefix)) != 0 ||
            (after != NULL && strcmp(model->key, after) <= 0))
            continue;
        assert_true(at < request.listed_count);
        assert_string_equal(rows[at].key, model->key);
        assert_int_equal(rows[at].size, body_of(model, body));
        assert_string_equal(rows[at].etag, model->etag);
        at++;
    }
    assert_int_equal(at, request.listed_count);
    kvt_free(rows);
}

static void
like_a_store_that_packs_nothing(void **state)
{
    struct scene *scene = scene_new();

    (void)state;
    for (unsigned i = 0; i < STEPS; i++) {
        struct g4_store *store = take_turn(scene);
        struct model *model = &scene->models[kvt_random_below(&scene->random, KEYS)];

        switch (kvt_random_below(&scene->random, 12)) {
        case 0: remove_one(scene, store, model); break;
        case 1: pack(scene, kvt_random_below(&scene->random, 2)); break;
        case 2: check_list(scene, store); break;
        case 3:
        case 4:
        case 5:
        case 6: write_one(scene, store, model); break;
        default: check_read(scene, store, model); break;
        }
    }
    pack(scene, 0);
    pack(scene, 1);
    for (unsigned i = 0; i < KEYS; i++)
        for (size_t at = 0; at < STORES; at++)
            check_read(scene, scene->stores[at], &scene->models[i]);
    scene_free(scene);
}

/* ---- many, and bad ones ---- */

static void
pages_of_packed_and_plain_blocks(void **state)
{
    struct scene *scene = scene_new();
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char(*keys)[KVT_KEY_MAX] = kvt_calloc(MANY, KVT_KEY_MAX);
    char token[G4_TOKEN_MAX] = "";
    size_t count;
    size_t at = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        block_key(keys[i], spaces[0], i);
        assert_int_equal(put_absent(scene->stores[0], keys[i], "body", 4, NULL), KVT_OK);
        if (i == MANY / 2)
            pack(scene, 0);
    }
    qsort(keys, MANY, KVT_KEY_MAX, (int (*)(const void *, const void *))strcmp);
    do {
        assert_int_equal(list(scene->stores[1], "a/", token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++)
            assert_string_equal(rows[i].key, keys[at++]);
    } while (token[0] != '\0');
    assert_int_equal(at, MANY);
    kvt_free(keys);
    kvt_free(rows);
    scene_free(scene);
}

/* Flip a bit in the body of every block of every segment. */
static void
damage_segments(struct scene *scene)
{
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    size_t count;

    assert_int_equal(list(scene->bucket, "b/.kvt/segment/", token, rows, &count), KVT_OK);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        struct fetched *found = &scene->fetched;

        assert_int_equal(get(scene->bucket, rows[i].key, found), KVT_OK);
        found->body[G4_SEGMENT_HEADER_SIZE] ^= 1;
        assert_int_equal(put(scene->bucket, rows[i].key, found->body, found->size, NULL), KVT_OK);
    }
    kvt_free(rows);
}

static void
damage_is_no_data(void **state)
{
    struct scene *scene = scene_new();
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];

    (void)state;
    block_key(key, spaces[1], 1);
    assert_int_equal(put_absent(scene->stores[0], key, "right", 5, etag), KVT_OK);
    pack(scene, 1);
    assert_int_equal(get(scene->bucket, key, &scene->fetched), KVT_NOTFOUND); /* it is packed */
    damage_segments(scene);
    assert_int_equal(get(scene->stores[1], key, &scene->fetched), KVT_CORRUPT);
    assert_int_equal(put_match(scene->stores[1], key, "right", 5, etag), KVT_OK);
    assert_int_equal(get(scene->stores[0], key, &scene->fetched), KVT_OK);
    assert_memory_equal(scene->fetched.body, "right", 5);
    pack(scene, 1);
    assert_int_equal(get(scene->stores[0], key, &scene->fetched), KVT_OK);
    scene_free(scene);
}

/* A segment that went without the manifest's knowledge. */
static void
loss_is_no_absence(void **state)
{
    struct scene *scene = scene_new();
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    char key[KVT_KEY_MAX];
    size_t count;

    (void)state;
    block_key(key, spaces[1], 1);
    assert_int_equal(put_absent(scene->stores[0], key, "right", 5, NULL), KVT_OK);
    pack(scene, 1);
    assert_int_equal(list(scene->bucket, "b/.kvt/segment/", token, rows, &count), KVT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(del(scene->bucket, rows[0].key), KVT_OK);
    assert_int_equal(get(scene->stores[1], key, &scene->fetched), KVT_CORRUPT);
    assert_int_equal(del(scene->stores[1], key), KVT_OK);
    assert_int_equal(get(scene->stores[0], key, &scene->fetched), KVT_NOTFOUND);
    kvt_free(rows);
    scene_free(scene);
}

/* ---- the rest ---- */

static void
what_is_the_packers(void **state)
{
    static const char key[] = "b/.kvt/compaction.lock";
    struct scene *scene = scene_new();

    (void)state;
    assert_int_equal(put(scene->bucket, key, "x", 1, NULL), KVT_OK);
    assert_int_equal(get(scene->stores[0], key, &scene->fetched), KVT_NOTFOUND);
    assert_int_equal(head(scene->stores[0], key, &scene->fetched), KVT_NOTFOUND);
    assert_int_equal(put(scene->stores[0], key, "y", 1, NULL), KVT_DENIED);
    assert_int_equal(del(scene->stores[0], key), KVT_NOTFOUND);
    assert_int_equal(get(scene->bucket, key, &scene->fetched), KVT_OK);
    assert_int_equal(put(scene->stores[0], "c/.kvt/compaction.lock", "y", 1, NULL), KVT_OK);
    scene_free(scene);
}

/* More than a page of segments: no page of the listing is without rows, or the last word. */
static void
past_all_that_is_the_packers(void **state)
{
    struct scene *scene = scene_new();
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    char key[KVT_KEY_MAX];
    size_t count;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "b/.kvt/segment/%u", i);
        assert_int_equal(put(scene->bucket, key, "x", 1, NULL), KVT_OK);
    }
    assert_int_equal(list(scene->stores[0], "b/", token, rows, &count), KVT_OK);
    assert_int_equal(count, 0);
    assert_string_equal(token, "");
    assert_int_equal(put(scene->bucket, "b/.kvu", "x", 1, NULL), KVT_OK);
    assert_int_equal(list(scene->stores[0], "", token, rows, &count), KVT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].key, "b/.kvu");
    assert_string_equal(token, "");
    kvt_free(rows);
    scene_free(scene);
}

static void
nothing_is_packed_unproved(void **state)
{
    const struct g4_compaction_settings settings = g4_compaction_defaults();
    struct scene *scene = scene_new();
    const struct g4_directory_options options = {.path = scene->folder};
    const struct g4_packed_store_options packed = {.namespaces = "b", .instance = "gw2"};
    struct g4_compaction_report report;
    const struct g4_selftest unsafe = {.put_if_absent = true};
    struct g4_store *inner;
    struct g4_store *store;

    (void)state;
    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    assert_int_equal(g4_packed_store_open(&store, inner, &packed, NULL), KVT_OK);
    assert_int_equal(g4_packed_store_compact(store, 0, &settings, &report, NULL), KVT_AGAIN);
    g4_packed_store_prove(store, &unsafe);
    assert_int_equal(g4_packed_store_compact(store, 0, &settings, &report, NULL), KVT_UNSUPPORTED);
    g4_packed_store_stop(store);
    assert_int_equal(g4_packed_store_compact(store, 0, &settings, &report, NULL), KVT_CANCELLED);
    g4_store_close(store);
    scene_free(scene);
}

static void
which_namespaces(void **state)
{
    static const char *const wrong[] = {"", "a,", ",a", "a,,b", "a,b,a", "/a", "a/", "a b"};
    struct scene *scene = scene_new();
    struct g4_packed_store_options options = {.instance = "gw"};
    struct g4_store *store;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options.namespaces = wrong[i];
        assert_int_equal(g4_packed_store_open(&store, scene->bucket, &options, &err), KVT_INVALID);
        assert_null(store);
    }
    assert_int_equal(g4_packed_store_count(scene->stores[0]), 2);
    assert_string_equal(g4_packed_store_name(scene->stores[0], 0), "a/model");
    assert_string_equal(g4_packed_store_name(scene->stores[0], 1), "b");
    assert_null(g4_packed_store_name(scene->stores[0], 2));
    scene_free(scene);
}

static bool
attempt_open(void *arg)
{
    struct scene *scene = arg;
    const struct g4_directory_options directory = {.path = scene->folder, .threads = 1};
    const struct g4_packed_store_options options = {.namespaces = "a/model,b", .instance = "gw"};
    struct g4_store *inner;
    struct g4_store *store;
    enum kvt_err rc;

    if (g4_directory_open(&inner, &directory, NULL) != KVT_OK)
        return false;
    rc = g4_packed_store_open(&store, inner, &options, NULL);
    g4_store_close(rc == KVT_OK ? store : inner);
    return rc == KVT_OK;
}

static void
failing_memory(void **state)
{
    struct scene *scene = scene_new();

    (void)state;
    assert_true(test_sweep_allocations(attempt_open, scene) > 5);
    scene_free(scene);
}

static void
what_every_store_promises(void **state)
{
    struct scene *scene = scene_new();

    (void)state;
    test_contract_attributes(scene->stores[0], "b/");
    test_contract_empty_and_foreign(scene->stores[0], "b/");
    test_contract_conditions(scene->stores[0], "b/");
    test_contract_room(scene->stores[0], "b/");
    test_contract_parts(scene->stores[0], "b/");
    scene_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_store_that_packs_nothing),
        cmocka_unit_test(pages_of_packed_and_plain_blocks),
        cmocka_unit_test(damage_is_no_data),
        cmocka_unit_test(loss_is_no_absence),
        cmocka_unit_test(what_is_the_packers),
        cmocka_unit_test(past_all_that_is_the_packers),
        cmocka_unit_test(nothing_is_packed_unproved),
        cmocka_unit_test(which_namespaces),
        cmocka_unit_test(failing_memory),
        cmocka_unit_test(what_every_store_promises),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
