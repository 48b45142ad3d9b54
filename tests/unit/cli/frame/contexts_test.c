/*
 * What is tested: cli/frame/contexts.h: what is written is read again, whatever the names and
 * values are, against an array; the limits; no memory at any allocation; files that others may
 * write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/contexts.h"

#include "tests/support/seed.h"

enum { ROUNDS = 60, NAMES = 12, PATH_SIZE = 256 };

static char folder[PATH_SIZE];

static int
set_up(void **state)
{
    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    return setenv("XDG_CONFIG_HOME", folder, 1);
}

static int
tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* What YAML makes of it unless it is quoted. */
static const char *const awkward[] = {"true",  "~",   "0x10", "a: b # c", "\"quoted\" \\ 'so'",
                                      " lead", "- x", "\t",   "é",        "{a: 1}"};

static void
what_is_written_is_read_again(void **state)
{
    char model[NAMES][CLI_CONTEXT_KEYS][64] = {{{0}}};
    bool there[NAMES] = {false};
    uint64_t random = test_seed();
    struct kvt_error err;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned which = (unsigned)(kvt_random_next(&random) % NAMES);
        const unsigned key = (unsigned)(kvt_random_next(&random) % CLI_CONTEXT_KEYS);
        struct cli_context_entry *entry;
        struct cli_contexts *contexts;
        char name[16];
        int lock;

        (void)snprintf(name, sizeof(name), "n%u", which);
        assert_int_equal(cli_contexts_lock(&contexts, &lock, &err), KVT_OK);
        entry = cli_contexts_find(contexts, name);
        assert_int_equal(entry != NULL, there[which]);
        if (entry != NULL && kvt_random_next(&random) % 4 == 0) {
            cli_contexts_remove(contexts, entry);
            memset(model[which], 0, sizeof(model[which]));
            there[which] = false;
        } else {
            if (entry == NULL)
                assert_int_equal(cli_contexts_add(contexts, name, &entry, &err), KVT_OK);
            (void)snprintf(
                model[which][key], sizeof(model[which][key]), "%s",
                awkward[kvt_random_next(&random) % (sizeof(awkward) / sizeof(awkward[0]))]);
            kvt_free(entry->values[key]);
            entry->values[key] = kvt_strdup(model[which][key]);
            there[which] = true;
        }
        assert_int_equal(cli_contexts_save(contexts, &err), KVT_OK);
        cli_contexts_free(contexts);
        (void)close(lock);
        assert_int_equal(cli_contexts_load(&contexts, &err), KVT_OK);
        for (unsigned i = 0; i < NAMES; i++) {
            (void)snprintf(name, sizeof(name), "n%u", i);
            entry = cli_contexts_find(contexts, name);
            assert_int_equal(entry != NULL, there[i]);
            for (unsigned k = 0; entry != NULL && k < CLI_CONTEXT_KEYS; k++)
                assert_string_equal(entry->values[k] == NULL ? "" : entry->values[k], model[i][k]);
        }
        cli_contexts_free(contexts);
    }
}

static void
no_more_than_the_limit(void **state)
{
    struct cli_context_entry *entry;
    struct cli_contexts *contexts;
    struct kvt_error err;
    char name[16];

    (void)state;
    assert_int_equal(cli_contexts_load(&contexts, &err), KVT_OK);
    for (int i = 0; i < CLI_CONTEXTS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%d", (i * 37) % CLI_CONTEXTS_MAX);
        assert_int_equal(cli_contexts_add(contexts, name, &entry, &err), KVT_OK);
    }
    assert_int_equal(cli_contexts_add(contexts, "one-more", &entry, &err), KVT_FULL);
    for (size_t i = 1; i < contexts->count; i++)
        assert_true(strcmp(contexts->entries[i - 1].name, contexts->entries[i].name) < 0);
    cli_contexts_free(contexts);
    assert_false(cli_contexts_name_ok(""));
    assert_false(cli_contexts_name_ok("-"));
    assert_false(cli_contexts_name_ok("../x"));
    assert_false(cli_contexts_name_ok("a b"));
    assert_true(cli_contexts_name_ok("prod-eu.1_a"));
}

static void
no_memory_at_any_allocation(void **state)
{
    struct cli_context_entry *entry;
    struct cli_contexts *contexts;
    struct kvt_error err;
    enum kvt_err rc = KVT_NOMEM;
    size_t live;
    size_t n = 0;
    int lock;

    (void)state;
    assert_int_equal(cli_contexts_lock(&contexts, &lock, &err), KVT_OK);
    assert_int_equal(cli_contexts_add(contexts, "a", &entry, &err), KVT_OK);
    entry->values[0] = kvt_strdup("http://a");
    assert_int_equal(cli_contexts_save(contexts, &err), KVT_OK);
    cli_contexts_free(contexts);
    (void)close(lock);
    live = kvt_alloc_live();
    for (; rc != KVT_OK; n++) {
        assert_true(n < 1000);
        kvt_alloc_fail_after(n);
        rc = cli_contexts_load(&contexts, &err);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(rc == KVT_OK || contexts == NULL);
        if (rc != KVT_OK)
            assert_int_equal(kvt_alloc_live(), live);
    }
    assert_true(n > 2);
    cli_contexts_free(contexts);
}

static void
what_others_may_write_is_not_read(void **state)
{
    struct cli_contexts *contexts;
    struct kvt_error err;
    char path[PATH_SIZE + 32];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/kvtier", folder);
    assert_int_equal(kvt_folder_make(path, &err), KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/kvtier/contexts.yaml", folder);
    assert_int_equal(kvt_file_write(path, "current: \"\"\n", 12, 0600, &err), KVT_OK);
    assert_int_equal(cli_contexts_load(&contexts, &err), KVT_OK);
    cli_contexts_free(contexts);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(cli_contexts_load(&contexts, &err), KVT_DENIED);
    assert_null(contexts);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_than_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_at_any_allocation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_others_may_write_is_not_read, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
