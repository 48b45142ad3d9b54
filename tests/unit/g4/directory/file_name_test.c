/*
 * What is tested: g4/directory/file_name.h: one name for one key, and back; and that names order
 * folders as keys.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "g4/directory/file_name.h"

#include "tests/support/seed.h"

enum { ROUNDS = 20000 };

static void
names_are_readable_and_safe(void **state)
{
    char name[G4_FILE_NAME_MAX];

    (void)state;
    g4_file_name_format("acme/llama/0/1:CUrLYDFnmBa:13A3sGnbCSf", name);
    assert_string_equal(name, "=acme%2Fllama%2F0%2F1:CUrLYDFnmBa:13A3sGnbCSf");
    g4_file_name_format("..", name);
    assert_string_equal(name, "=..");
    g4_file_name_format("a b%\n\xc3\xa9", name);
    assert_string_equal(name, "=a%20b%25%0A%C3%A9");
}

static void
long_keys_are_hashed(void **state)
{
    char key[KVT_KEY_MAX];
    char name[G4_FILE_NAME_MAX];
    char back[KVT_KEY_MAX];

    (void)state;
    memset(key, 'k', sizeof(key));
    key[KVT_KEY_MAX - 1] = '\0';
    g4_file_name_format(key, name);
    assert_int_equal(name[0], '#');
    assert_int_equal(strlen(name), 65);
    assert_true(g4_file_name_parse(name, back));
    assert_string_equal(back, "");
}

static void
other_names_are_refused(void **state)
{
    static const char *const names[] = {"",      "=",     "a",      "=a/b",  "=a%2f", "=a%41",
                                        "=a%00", "=a%2",  "=a b",   "#12",   "+a",    ".x",
                                        "=%",    "new-1", "=a\xff", "=a%ZZ", "%3Da",  "usage"};
    char key[KVT_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(g4_file_name_parse(names[i], key));
        assert_string_equal(key, "");
    }
    assert_int_equal(g4_file_name_folder_parse("+k"), 'k');
    assert_int_equal(g4_file_name_folder_parse("+%2F"), '/');
    assert_int_equal(g4_file_name_folder_parse("+"), -1);
    assert_int_equal(g4_file_name_folder_parse("+ab"), -1);
    assert_int_equal(g4_file_name_folder_parse("+%61"), -1);
    assert_int_equal(g4_file_name_folder_parse("k"), -1);
}

static void
paths_name_one_folder_a_byte(void **state)
{
    char path[G4_PATH_MAX];
    size_t ends[4];

    (void)state;
    g4_file_name_path("a/b", 3, path, ends);
    assert_string_equal(path, "+a/+%2F/+b");
    assert_int_equal(ends[1], 2);
    assert_int_equal(ends[2], 7);
    assert_int_equal(ends[3], 10);
    g4_file_name_path("a/b", 0, path, ends);
    assert_string_equal(path, ".");
}

static void
random_keys_come_back(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const size_t size = 1 + (size_t)kvt_random_below(&random, 120);
        char key[KVT_KEY_MAX];
        char name[G4_FILE_NAME_MAX];
        char back[KVT_KEY_MAX];

        for (size_t i = 0; i < size; i++)
            key[i] = (char)(1 + kvt_random_below(&random, 255));
        key[size] = '\0';
        g4_file_name_format(key, name);
        assert_null(strchr(name, '/'));
        assert_true(g4_file_name_parse(name, back));
        if (name[0] == '=')
            assert_string_equal(back, key);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_readable_and_safe),
        cmocka_unit_test(long_keys_are_hashed),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(paths_name_one_folder_a_byte),
        cmocka_unit_test(random_keys_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
