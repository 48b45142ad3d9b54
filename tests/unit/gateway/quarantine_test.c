/*
 * What is tested: gateway/quarantine.h: entries are kept once, bounded, listed newest first, and
 * there again after a restart.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "gateway/quarantine.h"

#include "tests/support/seed.h"

static struct gateway_quarantine *
open_at(const char *folder, size_t max)
{
    struct gateway_quarantine *quarantine;
    struct kvt_error err;

    assert_int_equal(gateway_quarantine_open(&quarantine, folder, max, &err), KVT_OK);
    return quarantine;
}

static enum kvt_err
add(struct gateway_quarantine *quarantine, const char *key, const char *body)
{
    const struct gateway_quarantine_item item = {
        .key = key, .tier = "cold", .reason = "because \"so\"", .body = body, .size = strlen(body)};

    return gateway_quarantine_add(quarantine, &item);
}

static void
entries_are_kept(void **state)
{
    struct gateway_quarantine *quarantine;
    struct kvt_buffer list;
    char folder[128];
    char path[256];
    char *body;
    size_t size;
    const char *file;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    quarantine = open_at(folder, 3);
    assert_int_equal(add(quarantine, "a", "one"), KVT_OK);
    assert_int_equal(add(quarantine, "a", "one"), KVT_EXISTS); /* the same damage */
    assert_int_equal(add(quarantine, "a", "two"), KVT_OK);
    assert_int_equal(add(quarantine, "b", ""), KVT_OK);
    assert_int_equal(gateway_quarantine_count(quarantine), 3);
    gateway_quarantine_close(quarantine);

    quarantine = open_at(folder, 3);
    assert_int_equal(gateway_quarantine_count(quarantine), 3);
    assert_int_equal(add(quarantine, "c", "three"), KVT_OK); /* the oldest goes */
    assert_int_equal(gateway_quarantine_count(quarantine), 3);
    kvt_buffer_init(&list, 1u << 16);
    gateway_quarantine_list(quarantine, 10, &list);
    file = strstr(kvt_buffer_text(&list), "\"key\":\"c\"");
    assert_non_null(file);
    assert_true(file < strstr(kvt_buffer_text(&list), "\"key\":\"b\"")); /* newest first */
    assert_non_null(strstr(kvt_buffer_text(&list), "because \\\"so\\\""));
    file = strstr(file, "\"file\":\"") + strlen("\"file\":\"");
    (void)snprintf(path, sizeof(path), "%s/%.*s", folder, (int)strcspn(file, "\""), file);
    assert_int_equal(kvt_file_read(&body, &size, path, 100, NULL), KVT_OK);
    assert_string_equal(body, "three");
    kvt_free(body);
    kvt_buffer_clear(&list);
    gateway_quarantine_list(quarantine, 1, &list);
    assert_null(strstr(kvt_buffer_text(&list), "\"key\":\"b\""));
    kvt_buffer_release(&list);
    gateway_quarantine_close(quarantine);

    quarantine = open_at(folder, 1); /* a smaller bound holds at once */
    assert_int_equal(gateway_quarantine_count(quarantine), 1);
    gateway_quarantine_close(quarantine);
    test_folder_remove(folder);
}

static bool
attempt(void *arg)
{
    struct gateway_quarantine *quarantine;
    const enum kvt_err rc = gateway_quarantine_open(&quarantine, arg, 3, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && quarantine == NULL));
    gateway_quarantine_close(quarantine);
    return rc == KVT_OK;
}

static void
opening_survives_every_failing_allocation(void **state)
{
    char folder[128];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    assert_true(test_sweep_allocations(attempt, folder) > 0);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_kept),
        cmocka_unit_test(opening_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
