/*
 * Names in the store: every key has one, no two keys share one, none is another's folder, and they
 * sort as the keys do.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/random.h"
#include "g4/object/object_name.h"

#include "tests/support/seed.h"

#define BUCKET "0123456789abcdef"

static const char *
name_of(struct g4_object_name *name, const char *bucket, const char *key)
{
    assert_int_equal(g4_object_name_make(name, bucket, key), KVT_OK);
    return name->text;
}

static void
keys_of_blocks_and_listed_files_stay_as_they_are(void **state)
{
    static const char *const keys[] = {
        "0/0:11111111",
        "tenant/llama-3.1-8b-fp16/3/7:11111112:11111113",
        "0:11111111.meta",
        "tenant/m/7:11111112:11111113.lock",
        "weights/v1/part-1.safetensors",
        "hello.txt",
        "tenant/m/kvtier-stores/3.lock",
    };
    struct g4_object_name name;

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_string_equal(name_of(&name, "", keys[i]), keys[i]);
        /* In a client's own bucket nothing is a block, and nothing stays. */
        assert_string_not_equal(name_of(&name, BUCKET, keys[i]), keys[i]);
    }
}

static void
keys_that_a_store_could_change_are_escaped(void **state)
{
    static const char *const keys[] = {"/0/0:11111111",
                                       "//.kvtier-bucket/x",
                                       ".kvtier-bucket/x",
                                       "acme/../globex/secret.txt",
                                       "a//b.txt",
                                       "a/",
                                       ".",
                                       "..",
                                       "foo",
                                       "foo/bar",
                                       "a.txt/b.txt",
                                       "x/.txt",
                                       "t/.kvt/segment/1",
                                       "0/0:1111",
                                       "a\\b.txt",
                                       "tab\t.txt",
                                       "new\nline.txt",
                                       "\xc3\xa9.txt",
                                       " .txt",
                                       "0/0:11111111/x.txt",
                                       "m.bin/0/0:11111111",
                                       ".hidden.txt",
                                       "a%2fb.txt"};
    struct g4_object_name name;

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        name_of(&name, "", keys[i]);
        if (strncmp(name.text, G4_OBJECT_NAME_ESCAPED "configured/", 23) != 0)
            fail_msg("%s is stored as %s", keys[i], name.text);
    }
}

static void
a_name_in_the_store_is_safe(const char *name)
{
    size_t length = 0;

    assert_in_range(strlen(name), 1, G4_OBJECT_NAME_MAX - 1);
    for (const char *at = name;; at++) {
        if (*at == '/' || *at == '\0') {
            assert_in_range(length, 1, 255);
            assert_false(length == 1 && at[-1] == '.');
            assert_false(length == 2 && at[-1] == '.' && at[-2] == '.');
            length = 0;
            if (*at == '\0')
                return;
            continue;
        }
        assert_true((unsigned char)*at > 0x20 && (unsigned char)*at < 0x7f && *at != '\\');
        length++;
    }
}

/* Short keys over few characters, so that they are often near each other; some very long. */
static void
draw_key(uint64_t *random, char key[G4_CLIENT_KEY_MAX])
{
    static const char bytes[] = "//..aazZ09:!()~-_=\t\x7f\xc3\xa9kvt";
    static const char *const words[] = {".kvtier-", "0/0:",  "11111111",    "..", "//",    ".txt",
                                        ".meta",    ".lock", "configured/", "/",  "a.bin", ")/"};
    const size_t limit = kvt_random_below(random, 20) == 0 ? G4_CLIENT_KEY_MAX - 1
                                                           : kvt_random_below(random, 40) + 1;
    size_t size = 0;

    if (limit > 100) {
        size = kvt_random_below(random, limit);
        memset(key, "a/"[kvt_random_below(random, 2)], size);
    }
    while (size < limit) {
        const char *word = words[kvt_random_below(random, sizeof(words) / sizeof(words[0]))];

        if (kvt_random_below(random, 2) == 0 && size + strlen(word) < limit) {
            memcpy(key + size, word, strlen(word));
            size += strlen(word);
        } else {
            key[size++] = bytes[kvt_random_below(random, sizeof(bytes) - 1)];
        }
    }
    key[size] = '\0';
}

static int
sign(int value)
{
    return (value > 0) - (value < 0);
}

static void
check_alone(const char *bucket, const char *key, const struct g4_object_name *name,
            enum g4_object_form *form)
{
    char again[G4_CLIENT_KEY_MAX];
    struct g4_object_name record;
    const enum kvt_err rc = g4_object_name_key(bucket, name->text, again);

    a_name_in_the_store_is_safe(name->text);
    assert_true(g4_object_name_form(bucket, name->text, form));
    assert_int_equal(rc, *form == G4_OBJECT_HASHED ? KVT_NOTFOUND : KVT_OK);
    assert_string_equal(again, *form == G4_OBJECT_HASHED ? "" : key);
    assert_int_equal(g4_object_name_record(bucket, name->text, &record), *form == G4_OBJECT_HASHED);
    if (*form == G4_OBJECT_HASHED)
        a_name_in_the_store_is_safe(record.text);
}

/* `inner` is a folder on the way to `outer`. */
static bool
is_folder_of(const char *inner, const char *outer)
{
    const size_t size = strlen(inner);

    return strncmp(inner, outer, size) == 0 && outer[size] == '/';
}

static void
check_pair(const char *bucket, const char *left, const char *right)
{
    struct g4_object_name names[2];
    enum g4_object_form forms[2];
    struct g4_object_name text;

    name_of(&names[0], bucket, left);
    name_of(&names[1], bucket, right);
    check_alone(bucket, left, &names[0], &forms[0]);
    check_alone(bucket, right, &names[1], &forms[1]);
    assert_int_equal(strcmp(left, right) == 0, strcmp(names[0].text, names[1].text) == 0);
    assert_false(is_folder_of(names[0].text, names[1].text));
    if (forms[0] == forms[1] && forms[0] != G4_OBJECT_HASHED)
        assert_int_equal(sign(strcmp(left, right)), sign(strcmp(names[0].text, names[1].text)));
    if (strncmp(left, right, strlen(left)) == 0) {
        assert_int_equal(g4_object_name_prefix(&text, bucket, forms[1], left), KVT_OK);
        assert_memory_equal(names[1].text, text.text, strlen(text.text));
    }
    if (strcmp(left, right) < 0) {
        g4_object_name_after(&text, bucket, forms[1], left, false);
        assert_true(strcmp(text.text, names[1].text) <= 0);
        g4_object_name_after(&text, bucket, forms[1], left, true);
        if (strncmp(left, right, strlen(left)) != 0)
            assert_true(strcmp(text.text, names[1].text) <= 0);
    }
}

static void
names_are_injective_and_in_order(void **state)
{
    static char left[G4_CLIENT_KEY_MAX];
    static char right[G4_CLIENT_KEY_MAX];
    uint64_t random = test_seed();

    (void)state;
    for (int i = 0; i < 40000; i++) {
        draw_key(&random, left);
        draw_key(&random, right);
        if (i % 3 == 0) { /* one begins as the other */
            const size_t size = strlen(left);

            memcpy(right, left, size);
            if (size + 3 < sizeof(right))
                memcpy(right + size, i % 2 == 0 ? "/" : "a", 2);
        }
        check_pair(i % 2 == 0 ? "" : BUCKET, left, right);
    }
}

static void
a_hashed_key_is_in_its_record(void **state)
{
    static char key[G4_CLIENT_KEY_MAX];
    char again[G4_CLIENT_KEY_MAX];
    struct g4_object_name name;
    struct g4_object_name record;

    (void)state;
    memset(key, 'k', sizeof(key) - 1);
    name_of(&name, "", key);
    assert_memory_equal(name.text, G4_OBJECT_NAME_HASHED "configured/", 24);
    assert_true(g4_object_name_record("", name.text, &record));
    assert_memory_equal(record.text, G4_OBJECT_NAME_RECORD "configured/", 28);
    assert_string_equal(strrchr(record.text, '/'), strrchr(name.text, '/'));
    g4_object_name_beginning("", name.text, again);
    assert_int_equal(strlen(again), 200);
    assert_memory_equal(again, key, 200);
}

static void
a_key_out_of_its_limits_has_no_name(void **state)
{
    static char key[G4_CLIENT_KEY_MAX + 1];
    struct g4_object_name name;

    (void)state;
    memset(key, 'k', G4_CLIENT_KEY_MAX);
    assert_int_equal(g4_object_name_make(&name, "", key), KVT_RANGE);
    assert_string_equal(name.text, "");
    assert_int_equal(g4_object_name_make(&name, "", ""), KVT_INVALID);
    assert_int_equal(g4_object_name_make(&name, "../x", "a"), KVT_INVALID);
}

static void
a_name_that_no_key_gives_is_refused(void **state)
{
    static const char *const names[] = {"foo",
                                        "a//b.txt",
                                        G4_OBJECT_NAME_ESCAPED "configured/a",
                                        G4_OBJECT_NAME_ESCAPED "configured/hello.txt!",
                                        G4_OBJECT_NAME_ESCAPED "configured/hello.dtxt!",
                                        G4_OBJECT_NAME_ESCAPED BUCKET "/a!",
                                        G4_OBJECT_NAME_ESCAPED "configured/a)/b!",
                                        G4_OBJECT_NAME_HASHED "configured/x)/y!",
                                        ".kvtier-bucket/x",
                                        ""};
    char key[G4_CLIENT_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (g4_object_name_key("", names[i], key) != KVT_INVALID)
            fail_msg("%s is the name of %s", names[i], key);
        assert_string_equal(key, "");
    }
}

/* MinIO refuses a listing after "a/." or "a//b". */
static void
a_listing_begins_at_a_text_that_every_store_takes(void **state)
{
    static const char *const keys[][2] = {
        {"acme/.", "acme/"},    {"acme/../x", "acme/"}, {"acme//x", "acme/"}, {"/a", ""},
        {"acme/a b", "acme/a"}, {"0/0:111", "0/0:111"}, {"a\\b.txt", "a"},    {".x", ""}};
    struct g4_object_name after;

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        g4_object_name_after(&after, "", G4_OBJECT_IDENTITY, keys[i][0], false);
        assert_string_equal(after.text, keys[i][1]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_blocks_and_listed_files_stay_as_they_are),
        cmocka_unit_test(keys_that_a_store_could_change_are_escaped),
        cmocka_unit_test(names_are_injective_and_in_order),
        cmocka_unit_test(a_hashed_key_is_in_its_record),
        cmocka_unit_test(a_key_out_of_its_limits_has_no_name),
        cmocka_unit_test(a_name_that_no_key_gives_is_refused),
        cmocka_unit_test(a_listing_begins_at_a_text_that_every_store_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
