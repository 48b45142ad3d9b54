/*
 * What is tested: gateway/s3/key_cursor.h and gateway/s3/long_keys.h, through listings of a bucket
 * whose keys have names of all three forms.
 * How: keys of every odd kind are put; every listing of them, in pages of every size, is compared
 * with a model that sorts and folds the same keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/text/hex.h"
#include "g4/s3/sigv4.h"
#include "gateway/s3/key_cursor.h"
#include "gateway/tier/object_key.h"

#include "tests/unit/gateway/support/scene.h"

enum { KEYS = 400, RAW = 8192, PREFIXES = 14, DELIMITERS = 4, AFTERS = 8 };

struct fixture {
    struct test_scene scene;
    char (*keys)[G4_CLIENT_KEY_MAX];
    size_t count;
    struct kvt_buffer expected; /* "K key\n", "P prefix\n", both encoded */
    struct kvt_buffer found;
};

static int
compare(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void
add(struct fixture *f, const char *key)
{
    assert_true(f->count < KEYS);
    (void)snprintf(f->keys[f->count++], G4_CLIENT_KEY_MAX, "%s", key);
}

/* `times` of a text, and an end. */
static void
add_long(struct fixture *f, const char *text, unsigned times, const char *end)
{
    char key[G4_CLIENT_KEY_MAX] = "";

    for (unsigned i = 0; i < times; i++)
        (void)snprintf(key + strlen(key), sizeof(key) - strlen(key), "%s", text);
    (void)snprintf(key + strlen(key), sizeof(key) - strlen(key), "%s", end);
    add(f, key);
}

static void
make_keys(struct fixture *f)
{
    static const char *const odd[] = {"a",
                                      "a/",
                                      "a/b",
                                      "a/b/c.txt",
                                      "a//b",
                                      "/a",
                                      "//a",
                                      ".",
                                      "..",
                                      "a/../b",
                                      "./a",
                                      "a/.",
                                      "tab\there",
                                      "new\nline",
                                      "\x01",
                                      "\x7f",
                                      "\xc3\xa4/\xf4\x8f\xbf\xbf",
                                      "\xef\xbf\xbf",
                                      ".kvtier-bucket/x",
                                      ".kvtier-key/configured/a!",
                                      "x/.kvt/0",
                                      "zz",
                                      "z",
                                      "~",
                                      "+plus.txt",
                                      "-dash.bin",
                                      "a.txt",
                                      "a.txt/b.txt",
                                      "a/b.txt",
                                      "A/b.md",
                                      "b/c/d/e.bin",
                                      "b/c/d.bin",
                                      "b/c-d.bin",
                                      "b_c.bin",
                                      "%41",
                                      "a b",
                                      "a+b",
                                      "0/0:11111112",
                                      "0:11111112.meta",
                                      "q/?x=1&y",
                                      "!",
                                      "(20",
                                      ")/",
                                      "c!",
                                      "c)",
                                      "c)/x"};
    char end[32];

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        add(f, odd[i]);
    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(end, sizeof(end), "f/%02u%s", i, i % 3 == 0 ? ".txt" : "");
        add(f, end);
        (void)snprintf(end, sizeof(end), "%03u", (i * 37) % 60);
        add_long(f, "long/", 150, end);
        (void)snprintf(end, sizeof(end), "%u/x%02u", i % 7, i);
        add_long(f, "other key/", 60, end);
    }
    for (unsigned i = 0; i < 20; i++)
        add_long(f, "k", 180 + i * 10, "");
    for (unsigned i = 0; i < 20; i++)
        add_long(f, "_", 90 + i, i % 2 == 0 ? "/e" : "f");
    add_long(f, "k", G4_CLIENT_KEY_MAX - 1, "");
    qsort(f->keys, f->count, sizeof(f->keys[0]), compare);
}

static unsigned
status_of(struct fixture *f, const char *method, const char *key, const char *body)
{
    struct gateway_request *request;
    struct kvt_buffer raw;
    unsigned status;

    kvt_buffer_init(&raw, RAW);
    kvt_buffer_puts(&raw, "/kvtier/");
    g4_sigv4_encode(&raw, key, true);
    request =
        test_scene_ask(&f->scene, method, kvt_buffer_text(&raw), body, strlen(body), NULL, NULL);
    status = request->status;
    test_scene_done(&f->scene, request);
    kvt_buffer_release(&raw);
    return status;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_scene_open(&f->scene, 0);
    f->keys = kvt_calloc(KEYS, sizeof(*f->keys));
    kvt_buffer_init(&f->expected, 4u << 20);
    kvt_buffer_init(&f->found, 4u << 20);
    make_keys(f);
    for (size_t i = 0; i < f->count; i++)
        if (gateway_object_key_is_block(f->keys[i], NULL) || strstr(f->keys[i], ".meta") != NULL ||
            (i > 0 && strcmp(f->keys[i - 1], f->keys[i]) == 0)) {
            memmove(f->keys + i, f->keys + i + 1, (f->count - i - 1) * sizeof(f->keys[0]));
            f->count--;
            i--;
        }
    for (size_t i = 0; i < f->count; i++)
        if (status_of(f, "PUT", f->keys[i], f->keys[i]) != 200)
            fail_msg("PUT %s", f->keys[i]);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    kvt_buffer_release(&f->expected);
    kvt_buffer_release(&f->found);
    kvt_free(f->keys);
    test_scene_close(&f->scene);
    kvt_free(f);
    return 0;
}

static void
append_row(struct kvt_buffer *out, char kind, const char *text)
{
    kvt_buffer_printf(out, "%c ", kind);
    g4_sigv4_encode(out, text, true);
    kvt_buffer_puts(out, "\n");
}

static void
expect(struct fixture *f, const char *prefix, const char *delimiter, const char *after)
{
    char fold[G4_CLIENT_KEY_MAX] = "";

    kvt_buffer_clear(&f->expected);
    for (size_t i = 0; i < f->count; i++) {
        const char *key = f->keys[i];
        const char *cut;

        if (strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
        cut = delimiter[0] == '\0' ? NULL : strstr(key + strlen(prefix), delimiter);
        if (cut == NULL) {
            if (strcmp(key, after) > 0)
                append_row(&f->expected, 'K', key);
            continue;
        }
        if (strncmp(key, fold, strlen(fold)) == 0 && fold[0] != '\0')
            continue;
        (void)snprintf(fold, sizeof(fold), "%.*s", (int)(cut - key) + (int)strlen(delimiter), key);
        if (strcmp(fold, after) > 0 && strcmp(key, after) > 0)
            append_row(&f->expected, 'P', fold);
    }
}

/* The rows of one page, in order of keys; false: it was the last. */
static bool
read_page(struct fixture *f, const char *raw, const char *next_tag, char next[RAW])
{
    struct gateway_request *request = test_scene_ask(&f->scene, "GET", raw, NULL, 0, NULL, NULL);
    const char *text = kvt_buffer_text(&request->answer);
    const char *keys = text;
    const char *prefixes = strstr(text, "<CommonPrefixes>");
    char key[4 * G4_CLIENT_KEY_MAX];
    char prefix[4 * G4_CLIENT_KEY_MAX];
    bool has_key = true;
    bool has_prefix = prefixes != NULL;

    if (request->status != 200)
        fail_msg("%s: %u %s", raw, request->status, text);
    has_key = test_scene_element(&keys, "<Key>", key, sizeof(key));
    if (has_prefix)
        has_prefix = test_scene_element(&prefixes, "<Prefix>", prefix, sizeof(prefix));
    while (has_key || has_prefix) {
        kvt_buffer_printf(&f->found, "%c %s\n", has_key ? 'K' : 'P', has_key ? key : prefix);
        if (has_key)
            has_key = test_scene_element(&keys, "<Key>", key, sizeof(key));
        else
            has_prefix = test_scene_element(&prefixes, "<Prefix>", prefix, sizeof(prefix));
    }
    if (!test_scene_element(&text, next_tag, next, RAW))
        next[0] = '\0';
    assert_true((strstr(kvt_buffer_text(&request->answer), "<IsTruncated>true") != NULL) ==
                (next[0] != '\0'));
    test_scene_done(&f->scene, request);
    return next[0] != '\0';
}

/* Pages have keys before prefixes: compare as sets of rows, sorted. */
static int
compare_rows(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static size_t
split(struct kvt_buffer *text, char **rows, size_t room)
{
    size_t count = 0;
    char *rest = NULL;

    for (char *row = strtok_r((char *)text->data, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        assert_true(count < room);
        rows[count++] = row;
    }
    return count;
}

static void
check_same(struct fixture *f, const char *what)
{
    char *expected[KEYS];
    char *found[2 * KEYS];
    size_t counts[2];

    (void)kvt_buffer_text(&f->expected);
    (void)kvt_buffer_text(&f->found);
    counts[0] = f->expected.size == 0 ? 0 : split(&f->expected, expected, KEYS);
    counts[1] = f->found.size == 0 ? 0 : split(&f->found, found, 2 * KEYS);
    qsort(expected, counts[0], sizeof(expected[0]), compare_rows);
    qsort(found, counts[1], sizeof(found[0]), compare_rows);
    for (size_t i = 0; i < counts[0] && i < counts[1]; i++)
        if (strcmp(expected[i], found[i]) != 0)
            fail_msg("%s: row %zu is %s, not %s", what, i, found[i], expected[i]);
    if (counts[0] != counts[1])
        fail_msg("%s: %zu rows, not %zu", what, counts[1], counts[0]);
}

static void
list(struct fixture *f, bool v2, unsigned max, const char *prefix, const char *delimiter,
     const char *after)
{
    const char *tag = v2 ? "<NextContinuationToken>" : "<NextMarker>";
    char next[RAW] = "";
    struct kvt_buffer raw;
    unsigned pages = 0;
    bool more = true;

    kvt_buffer_init(&raw, 2 * RAW);
    kvt_buffer_clear(&f->found);
    while (more) {
        kvt_buffer_clear(&raw);
        kvt_buffer_printf(&raw, "/kvtier?encoding-type=url&max-keys=%u%s&prefix=", max,
                          v2 ? "&list-type=2" : "");
        g4_sigv4_encode(&raw, prefix, false);
        kvt_buffer_puts(&raw, "&delimiter=");
        g4_sigv4_encode(&raw, delimiter, false);
        kvt_buffer_puts(&raw, v2 ? "&start-after=" : next[0] == '\0' ? "&marker=" : "");
        if (v2 || next[0] == '\0')
            g4_sigv4_encode(&raw, after, false);
        if (next[0] != '\0')
            kvt_buffer_printf(&raw, "%s%s", v2 ? "&continuation-token=" : "&marker=", next);
        more = read_page(f, kvt_buffer_text(&raw), tag, next);
        assert_true(++pages <= f->count + 2);
    }
    expect(f, prefix, delimiter, after);
    check_same(f, kvt_buffer_text(&raw));
    kvt_buffer_release(&raw);
}

static void
listings_are_those_of_the_model(void **state)
{
    static const char *const prefixes[PREFIXES] = {
        "",   "a", "a/", "long/long/", "other key/", "kkkk",  "/",
        "/a", ".", "f/", "b/c",        "nothing",    "_____", ".kvtier-"};
    static const char *const delimiters[DELIMITERS] = {"", "/", "k", "//"};
    static const char *const afters[AFTERS] = {"",        "a/b",        "f/2",  "k",
                                               "kkkkkkk", "long/long/", "zzzz", "\x02"};
    struct fixture *f = *state;

    /* Pages of one size for all listings, of the others for some. */
    for (size_t p = 0; p < PREFIXES; p++)
        for (unsigned d = 0; d < DELIMITERS; d++)
            for (size_t a = 0; a < AFTERS; a++)
                list(f, (p + d + a) % 2 == 0, a == 0 ? 7 : 50, prefixes[p], delimiters[d],
                     afters[a]);
    for (unsigned v2 = 0; v2 < 2; v2++)
        for (unsigned d = 0; d < DELIMITERS; d++) {
            list(f, v2 == 1, 1000, "", delimiters[d], "");
            list(f, v2 == 1, 50, "", delimiters[d], "");
        }
    list(f, true, 1, "", "/", "");
    list(f, true, 1, "long/", "", "");
}

/* Every key is its own object, and goes by itself. */
static void
no_key_is_another(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < f->count; i++) {
        struct gateway_request *request;
        struct kvt_buffer raw;

        kvt_buffer_init(&raw, RAW);
        kvt_buffer_puts(&raw, "/kvtier/");
        g4_sigv4_encode(&raw, f->keys[i], true);
        request = test_scene_ask(&f->scene, "GET", kvt_buffer_text(&raw), NULL, 0, NULL, NULL);
        assert_int_equal(request->status, 200);
        assert_string_equal(kvt_buffer_text(&request->answer), f->keys[i]);
        test_scene_done(&f->scene, request);
        kvt_buffer_release(&raw);
    }
    for (size_t i = 0; i < f->count; i++) {
        assert_int_equal(status_of(f, "DELETE", f->keys[i], ""), 204);
        assert_int_equal(status_of(f, "HEAD", f->keys[i], ""), 404);
        if (i + 1 < f->count)
            assert_int_equal(status_of(f, "HEAD", f->keys[i + 1], ""), 200);
    }
    f->count = 0;
    list(f, true, 1000, "", "", "");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(listings_are_those_of_the_model),
        TEST(no_key_is_another),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
