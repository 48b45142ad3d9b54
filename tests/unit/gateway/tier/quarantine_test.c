/*
 * What is tested: gateway/tier/quarantine.h: entries are kept once, bounded, listed newest first,
 * there again after a restart, and halves of entries are not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "gateway/tier/quarantine.h"

#include "tests/support/seed.h"

enum { THREADS = 4, PER_THREAD = 20 };

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

/* A crash can leave a body without its line, a line without its body, or a file not yet named. */
static void
halves_are_cleared(void **state)
{
    static const char *const halves[] = {"0000000000000001.body", "0000000000000002.json",
                                         "0000000000000003.body.a1B2c3"};
    struct gateway_quarantine *quarantine;
    struct kvt_buffer list;
    char folder[128];
    char path[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    quarantine = open_at(folder, 3);
    assert_int_equal(add(quarantine, "a", "one"), KVT_OK);
    gateway_quarantine_close(quarantine);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, halves[i]);
        assert_int_equal(kvt_file_write(path, "x", 1, 0600, NULL), KVT_OK);
    }
    (void)snprintf(path, sizeof(path), "%s/notes.txt", folder);
    assert_int_equal(kvt_file_write(path, "x", 1, 0600, NULL), KVT_OK);
    quarantine = open_at(folder, 3);
    assert_int_equal(access(path, F_OK), 0); /* not ours */
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, halves[i]);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(gateway_quarantine_count(quarantine), 1);
    kvt_buffer_init(&list, 1u << 16);
    gateway_quarantine_list(quarantine, 10, &list);
    assert_non_null(strstr(kvt_buffer_text(&list), "\"key\":\"a\""));
    kvt_buffer_release(&list);
    gateway_quarantine_close(quarantine);
    test_folder_remove(folder);
}

/* What could not be written is not counted, and may be tried again. */
static void
failed_entry_leaves_nothing(void **state)
{
    struct gateway_quarantine *quarantine;
    char folder[128];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    quarantine = open_at(folder, 3);
    test_folder_remove(folder);
    assert_int_not_equal(add(quarantine, "a", "one"), KVT_OK);
    assert_int_equal(gateway_quarantine_count(quarantine), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(add(quarantine, "a", "one"), KVT_OK);
    assert_int_equal(gateway_quarantine_count(quarantine), 1);
    gateway_quarantine_close(quarantine);
    test_folder_remove(folder);
}

static void *
add_many(void *arg)
{
    static _Atomic unsigned number;
    char body[32];

    for (unsigned i = 0; i < PER_THREAD; i++) {
        (void)snprintf(body, sizeof(body), "body %u", atomic_fetch_add(&number, 1));
        assert_int_equal(add(arg, "a", body), KVT_OK);
    }
    return NULL;
}

/* Files are written side by side; the bound holds afterwards, and no half is left. */
static void
bound_holds_with_threads(void **state)
{
    struct gateway_quarantine *quarantine;
    pthread_t threads[THREADS];
    struct kvt_buffer list;
    char folder[128];
    size_t lines = 0;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    quarantine = open_at(folder, 2);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, quarantine), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(gateway_quarantine_count(quarantine), 2);
    kvt_buffer_init(&list, 1u << 16);
    gateway_quarantine_list(quarantine, 10, &list);
    for (const char *at = kvt_buffer_text(&list); (at = strstr(at, "\"key\"")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 2);
    kvt_buffer_release(&list);
    gateway_quarantine_close(quarantine);
    quarantine = open_at(folder, 100);
    assert_int_equal(gateway_quarantine_count(quarantine), 2);
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
        cmocka_unit_test(halves_are_cleared),
        cmocka_unit_test(failed_entry_leaves_nothing),
        cmocka_unit_test(bound_holds_with_threads),
        cmocka_unit_test(opening_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
