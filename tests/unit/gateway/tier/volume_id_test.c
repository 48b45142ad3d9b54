/*
 * What is tested: gateway/tier/volume_id.h over a real catalog: the first start, the next one, a
 * folder that is empty because nothing is mounted there, another volume, a file that is no id,
 * catalogs and volumes of the time before there were ids, a start that ended between file and
 * catalog; and that a gateway does not open where it says no.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "gateway/block/context_open.h"
#include "gateway/tier/volume_id.h"

#include "tests/unit/gateway/support/support.h"

struct fixture {
    char folder[128];
    char hot[160];
    char file[192];
    struct gateway_catalog *catalog;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    const struct gateway_catalog_options options = {.path = f->file,
                                                    .bytes_max = 16u << 20,
                                                    .capacity = {1u << 20},
                                                    .revision = KVT_KEY_KVBM_B};

    (void)test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->file, sizeof(f->file), "%s/catalog", f->folder);
    assert_int_equal(gateway_catalog_open(&f->catalog, &options, NULL), KVT_OK);
    (void)snprintf(f->hot, sizeof(f->hot), "%s/hot", f->folder);
    (void)snprintf(f->file, sizeof(f->file), "%s/volume", f->hot);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_catalog_close(f->catalog);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

static enum kvt_err
check(const struct fixture *f, bool fresh, struct kvt_error *err)
{
    *err = (struct kvt_error){.code = KVT_OK};
    return gateway_volume_id_check(f->catalog, GATEWAY_TIER_HOT, f->hot, fresh, err);
}

static void
write_file(const struct fixture *f, const char *text)
{
    assert_int_equal(kvt_folder_make(f->hot, NULL), KVT_OK);
    assert_int_equal(kvt_file_write(f->file, text, strlen(text), 0600, NULL), KVT_OK);
}

/* The id in the file is the catalog's. */
static void
expect_one(const struct fixture *f)
{
    char id[GATEWAY_VOLUME_ID_TEXT];
    char wanted[64];
    char *text;
    size_t size;

    assert_int_equal(gateway_catalog_volume(f->catalog, GATEWAY_TIER_HOT, id), KVT_OK);
    (void)snprintf(wanted, sizeof(wanted), "kvtier-volume 1 %s\n", id);
    assert_int_equal(kvt_file_read(&text, &size, f->file, 64, NULL), KVT_OK);
    assert_string_equal(text, wanted);
    kvt_free(text);
}

/* A row that tells of a block on the hot volume. */
static void
add_block(const struct fixture *f)
{
    char key[KVT_KEY_MAX];
    struct gateway_change change = {
        .key = test_gateway_key(key, 1),
        .record = {.state = GATEWAY_STORED, .tiers = GATEWAY_HOT, .length = 1000}};

    assert_int_equal(gateway_catalog_change(f->catalog, &change, 1, GATEWAY_APPLIED), KVT_OK);
    assert_int_equal(change.status, KVT_OK);
}

static void
first_start_and_the_next(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;
    char id[GATEWAY_VOLUME_ID_TEXT];

    assert_int_equal(gateway_catalog_volume(f->catalog, GATEWAY_TIER_HOT, id), KVT_NOTFOUND);
    assert_string_equal(id, "");
    assert_int_equal(check(f, false, &err), KVT_OK);
    expect_one(f);
    assert_int_equal(check(f, false, &err), KVT_OK);
    assert_int_equal(check(f, true, &err), KVT_OK); /* left set: it is the same volume */
    expect_one(f);
}

static void
not_mounted(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;
    char before[GATEWAY_VOLUME_ID_TEXT];
    char after[GATEWAY_VOLUME_ID_TEXT];

    assert_int_equal(check(f, false, &err), KVT_OK);
    assert_int_equal(gateway_catalog_volume(f->catalog, GATEWAY_TIER_HOT, before), KVT_OK);
    add_block(f);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(check(f, false, &err), KVT_NOTFOUND);
    assert_non_null(strstr(err.text, f->hot));
    assert_non_null(strstr(err.text, "(1 blocks; on all volumes 0 are nowhere else)"));
    assert_non_null(strstr(err.text, "hot.new=true"));
    assert_int_equal(access(f->file, F_OK), -1); /* and nothing was written there */
    assert_int_equal(check(f, true, &err), KVT_OK);
    expect_one(f);
    assert_int_equal(gateway_catalog_volume(f->catalog, GATEWAY_TIER_HOT, after), KVT_OK);
    assert_string_not_equal(before, after);
    assert_int_equal(check(f, false, &err), KVT_OK);
}

static void
another_volume(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;

    assert_int_equal(check(f, false, &err), KVT_OK);
    write_file(f, "kvtier-volume 1 0123456789abcdef\n");
    assert_int_equal(check(f, false, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "another hot volume"));
    assert_int_equal(check(f, true, &err), KVT_OK);
    expect_one(f);
}

static void
no_id(void **state)
{
    static const char *const texts[] = {
        "",
        "kvtier-volume 1 0123456789abcde\n",
        "kvtier-volume 1 0123456789abcdef",
        "kvtier-volume 1 0123456789abcdefa\n",
        "kvtier-volume 2 0123456789abcdef\n",
        "kvtier-volume 1 0123456789ABCDEF\n",
        "kvtier-volume 1 0123456789abcdef\nmore\n",
    };
    struct fixture *f = *state;
    struct kvt_error err;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_file(f, texts[i]);
        if (check(f, false, &err) != KVT_INVALID || strstr(err.text, f->file) == NULL)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(check(f, true, &err), KVT_INVALID);
    }
}

static void
before_there_were_ids(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;
    char objects[192];

    add_block(f);
    assert_int_equal(kvt_folder_make(f->hot, NULL), KVT_OK);
    assert_int_equal(check(f, false, &err), KVT_NOTFOUND);
    (void)snprintf(objects, sizeof(objects), "%s/objects", f->hot);
    assert_int_equal(kvt_folder_make(objects, NULL), KVT_OK);
    assert_int_equal(check(f, false, &err), KVT_OK);
    expect_one(f);
}

/* The file is written before the catalog's row. */
static void
ended_in_between(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;
    char id[GATEWAY_VOLUME_ID_TEXT];

    write_file(f, "kvtier-volume 1 0123456789abcdef\n");
    assert_int_equal(check(f, false, &err), KVT_OK);
    assert_int_equal(gateway_catalog_volume(f->catalog, GATEWAY_TIER_HOT, id), KVT_OK);
    assert_string_equal(id, "0123456789abcdef");
}

/* What only the volume has is there again when it is mounted. */
static void
gateway_without_its_disk(void **state)
{
    struct test_gateway g;
    struct gateway_context *context;
    struct kvt_error err;
    char away[192];

    (void)state;
    test_gateway_open(&g, 1u << 20, 0);
    assert_int_equal(test_gateway_put(&g, 1, 1000), KVT_OK);
    gateway_context_close(g.context);
    (void)snprintf(away, sizeof(away), "%s.away", g.hot);
    assert_int_equal(rename(g.hot, away), 0);
    assert_int_equal(kvt_folder_make(g.hot, NULL), KVT_OK);
    assert_int_equal(gateway_context_open(&context, &g.options, &err), KVT_NOTFOUND);
    assert_null(context);
    assert_int_equal(rmdir(g.hot), 0); /* it is as empty as it was */
    assert_int_equal(rename(away, g.hot), 0);
    g.context = NULL;
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_get(&g, 1, 1000, NULL), KVT_OK);
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_start_and_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_mounted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_volume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(before_there_were_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ended_in_between, set_up, tear_down),
        cmocka_unit_test(gateway_without_its_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
