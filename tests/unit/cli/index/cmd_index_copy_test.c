/*
 * What is tested: advisor/archive/index_export.h and advisor/archive/index_import.h, which `kvtier
 * index` is made of. How: random stores exported and imported, and the two exports compared;
 * exports in pages against one of a piece; lines with every member taken away.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/archive/index_export.h"
#include "advisor/archive/index_import.h"
#include "advisor/archive/verify.h"
#include "advisor/index/index_image.h"
#include "advisor/rule/rulebook.h"
#include "advisor/store/policy_version_rows.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

#include "tests/support/seed.h"
#include "tests/unit/cli/index/index_store.h"

enum { LIMIT = 32 << 20 };

/* ---- exports ---- */

static enum kvt_err
collect(void *arg, struct kvt_buffer *lines)
{
    kvt_buffer_append(arg, lines->data, lines->size);
    kvt_buffer_clear(lines);
    return KVT_OK;
}

/* The first line says when it was made. */
static void
forget_time(struct kvt_buffer *out)
{
    static const char mark[] = "\"time_ms\":";
    char *time = strstr(kvt_buffer_text(out), mark);

    assert_non_null(time);
    for (time += strlen(mark); *time != ','; time++)
        *time = '0';
}

static void
export_all(struct advisor_store *store, struct kvt_buffer *out)
{
    kvt_buffer_init(out, LIMIT);
    assert_int_equal(advisor_index_export_all(store, collect, out, NULL), KVT_OK);
    forget_time(out);
}

/* As an advisor that has all of it in memory answers. */
static void
export_pages(struct advisor_store *store, size_t page, struct kvt_buffer *out)
{
    struct advisor_index_export_cursor cursor = {0};
    struct advisor_index_image *image;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_index_image_new(&image, &txn, NULL), KVT_OK);
    advisor_store_end(&txn);
    kvt_buffer_init(out, LIMIT);
    while (cursor.part != ADVISOR_INDEX_EXPORT_DONE)
        assert_int_equal(
            advisor_index_export_page(store, advisor_index_image_memory(image), &cursor, page, out),
            KVT_OK);
    advisor_index_image_free(image);
    forget_time(out);
}

static size_t
count_lines(const struct kvt_buffer *out)
{
    size_t lines = 0;

    for (size_t i = 0; i < out->size; i++)
        lines += out->data[i] == '\n' ? 1 : 0;
    return lines;
}

/* ---- as lines that can be compared ---- */

struct lines {
    char **texts;
    size_t count;
    size_t capacity;
};

static void
add_line(struct lines *lines, const char *text, size_t size)
{
    if (lines->count == lines->capacity) {
        lines->capacity = lines->capacity * 2 + 64;
        lines->texts = kvt_realloc(lines->texts, lines->capacity, sizeof(*lines->texts));
        assert_non_null(lines->texts);
    }
    lines->texts[lines->count] = kvt_calloc(size + 1, 1);
    assert_non_null(lines->texts[lines->count]);
    memcpy(lines->texts[lines->count++], text, size);
}

/* A block of a run; where the run was cut says nothing. */
static void
add_block(struct lines *lines, struct json_object *row, size_t at, uint64_t parent,
          uint64_t position)
{
    struct json_object *tokens = kvt_json_array(row, "tokens");
    uint64_t ranks;
    uint64_t size;
    uint64_t rank;
    char text[512];
    int length;

    assert_true(kvt_json_u64(row, "ranks", &ranks) && kvt_json_u64(row, "size", &size) &&
                kvt_json_u64(row, "dp_rank", &rank));
    length = snprintf(
        text, sizeof(text),
        "run %s %s %" PRIu64 " %s %s %" PRIu64 " %s %" PRIu64 " %" PRIx64 " %" PRIu64,
        kvt_json_string(row, "namespace"), kvt_json_string(row, "holder"), rank,
        kvt_json_string(row, "tier"),
        json_object_get_string(json_object_array_get_idx(kvt_json_array(row, "hashes"), at)), size,
        tokens == NULL ? "0000000000000000"
                       : json_object_get_string(json_object_array_get_idx(tokens, at)),
        ranks, parent, position + at);
    add_line(lines, text, (size_t)length);
}

static void
add_run(struct lines *lines, const char *text, size_t size)
{
    struct json_object *row;
    uint64_t position;
    uint64_t parent;
    uint64_t count;

    assert_int_equal(kvt_json_parse(&row, text, size, "run", NULL), KVT_OK);
    assert_true(kvt_json_u64(row, "count", &count) && kvt_json_u64(row, "position", &position) &&
                kvt_json_hash(row, "parent", &parent));
    assert_int_equal(json_object_array_length(kvt_json_array(row, "hashes")), count);
    for (size_t i = 0; i < count; i++) {
        add_block(lines, row, i, parent, position);
        assert_true(
            kvt_json_to_hash(json_object_array_get_idx(kvt_json_array(row, "hashes"), i), &parent));
    }
    json_object_put(row);
}

static int
compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted: blocks of one hash come in the order of their namespaces' numbers, which a copy gives
 * anew, and runs in that of memory. */
static struct lines
lines_of(struct kvt_buffer *out)
{
    const char *rest = kvt_buffer_text(out);
    struct lines lines = {0};

    while (*rest != '\0') {
        const size_t size = strcspn(rest, "\n");

        if (strncmp(rest, "{\"row\":\"run\"", 12) == 0)
            add_run(&lines, rest, size);
        else
            add_line(&lines, rest, size);
        rest += size + 1;
    }
    qsort(lines.texts, lines.count, sizeof(*lines.texts), compare_texts);
    return lines;
}

static void
free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        kvt_free(lines->texts[i]);
    kvt_free(lines->texts);
}

static size_t
lines_with(struct kvt_buffer *out, const char *what)
{
    size_t count = 0;

    for (const char *at = kvt_buffer_text(out); (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

static void
assert_same_lines(struct kvt_buffer *left, struct kvt_buffer *right)
{
    struct lines a = lines_of(left);
    struct lines b = lines_of(right);

    for (size_t i = 0; i < a.count && i < b.count; i++)
        assert_string_equal(a.texts[i], b.texts[i]);
    assert_int_equal(a.count, b.count);
    free_lines(&a);
    free_lines(&b);
}

/* ---- imports ---- */

/* Give all lines to an import; the first that fails is told. */
static enum kvt_err
feed(struct advisor_index_import *import, struct kvt_buffer *lines, struct kvt_error *err)
{
    char end[64];
    char *rest = (char *)(uintptr_t)kvt_buffer_text(lines);
    enum kvt_err rc = KVT_OK;

    while (*rest != '\0' && rc == KVT_OK) {
        const size_t size = strcspn(rest, "\n");

        rc = advisor_index_import_line(import, rest, size, err);
        rest += size + 1;
    }
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(end, sizeof(end), "{\"row\":\"end\",\"lines\":%zu}", count_lines(lines));
    return advisor_index_import_line(import, end, strlen(end), err);
}

static enum kvt_err
import_all(const char *path, struct kvt_buffer *lines, bool replace,
           struct advisor_index_import_counts *counts, struct kvt_error *err)
{
    const struct advisor_index_import_options options = {
        .path = path, .map_bytes = TEST_STORE_MAP, .replace = replace};
    struct advisor_index_import *import;
    enum kvt_err rc = advisor_index_import_open(&import, &options, err);

    if (rc == KVT_OK)
        rc = feed(import, lines, err);
    if (rc == KVT_OK)
        rc = advisor_index_import_finish(import, counts, err);
    if (rc != KVT_OK && import != NULL)
        assert_int_not_equal(rc, KVT_BUSY);
    advisor_index_import_free(import);
    return rc;
}

static void
a_copy_is_the_same(void **state)
{
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    struct advisor_store *copy;
    struct kvt_buffer before;
    struct kvt_buffer after;

    export_all(scene->store, &before);
    assert_true(lines_with(&before, "{\"row\":\"block\"") > 100);
    assert_true(lines_with(&before, "{\"row\":\"run\"") > 100);
    assert_int_equal(import_all(scene->copy, &before, false, &counts, NULL), KVT_OK);
    assert_int_equal(counts.left_out, 0);
    assert_int_equal(counts.publishers, 1);
    assert_true(counts.places > counts.blocks && counts.blocks > 500);
    copy = test_store_open(scene->copy, true);
    export_all(copy, &after);
    assert_same_lines(&before, &after);
    advisor_store_close(copy);
    kvt_buffer_release(&before);
    kvt_buffer_release(&after);
}

static void
pages_of_any_size_say_the_same(void **state)
{
    static const size_t sizes[] = {1, 2, 7, 100, 10000};
    struct test_store *scene = *state;
    struct kvt_buffer whole;

    export_all(scene->store, &whole);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct kvt_buffer pages;

        export_pages(scene->store, sizes[i], &pages);
        assert_same_lines(&pages, &whole);
        kvt_buffer_release(&pages);
    }
    kvt_buffer_release(&whole);
}

static void
no_page_comes_from_half_a_memory(void **state)
{
    struct test_store *scene = *state;
    struct advisor_index_export_cursor cursor = {0};
    struct advisor_ram_index memory = {.loading = true};
    struct kvt_buffer page;

    kvt_buffer_init(&page, LIMIT);
    assert_int_equal(advisor_index_export_page(scene->store, &memory, &cursor, 10, &page),
                     KVT_AGAIN);
    assert_int_equal(page.size, 0);
    kvt_buffer_release(&page);
}

/* Of 150 that there were, as many as are kept; one was a file. */
static void
put_policies(const struct advisor_txn *txn)
{
    struct advisor_policy_row row = {.since_ms = 1000, .source = "api"};

    for (row.version = 150 - ADVISOR_POLICIES_KEPT + 1; row.version <= 150; row.version++) {
        char text[64];

        row.size =
            (uint64_t)snprintf(text, sizeof(text), "version: 1\n# \"%u\"\n", (unsigned)row.version);
        assert_int_equal(advisor_rulebook_digest(text, (size_t)row.size, row.digest), KVT_OK);
        assert_int_equal(advisor_store_put_policy(txn, &row, text), KVT_OK);
    }
    assert_int_equal(advisor_store_put_policy_file(txn, row.digest), KVT_OK);
}

static void
put_foreign(const struct test_store *scene)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    test_store_put_foreign(&txn);
    put_policies(&txn);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
}

static void
other_systems_publishers_are_copied_too(void **state)
{
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    struct advisor_store *copy;
    struct kvt_buffer before;
    struct kvt_buffer after;

    put_foreign(scene);
    export_all(scene->store, &before);
    assert_int_equal(lines_with(&before, "{\"row\":\"source\""), 1);
    assert_int_equal(lines_with(&before, "{\"row\":\"foreign\""), 1);
    assert_int_equal(lines_with(&before, "{\"row\":\"alias\""), 49);
    assert_int_equal(lines_with(&before, "{\"row\":\"waiting\""), 2);
    assert_int_equal(lines_with(&before, "{\"row\":\"policy\""), ADVISOR_POLICIES_KEPT);
    assert_int_equal(lines_with(&before, "{\"row\":\"policy_file\""), 1);
    assert_int_equal(import_all(scene->copy, &before, false, &counts, NULL), KVT_OK);
    copy = test_store_open(scene->copy, true);
    export_all(copy, &after);
    assert_same_lines(&before, &after);
    advisor_store_close(copy);
    kvt_buffer_release(&before);
    kvt_buffer_release(&after);
}

/* Beside the engine their numbers and their names of blocks would be of two instants. */
static void
pages_leave_other_systems_publishers_out(void **state)
{
    static const char worker[] = "\"namespace\":\"tenant/model\",\"holder\":\"w-0\"";
    struct test_store *scene = *state;
    struct kvt_buffer before;
    struct kvt_buffer after;

    export_pages(scene->store, 100, &before);
    assert_true(lines_with(&before, worker) > 0);
    assert_true(lines_with(&before, "\"publisher\":3,") > 0);
    put_foreign(scene);
    export_pages(scene->store, 100, &after);
    assert_int_equal(lines_with(&after, worker), 0);
    assert_true(lines_with(&after, "\"holder\":\"w-0\"") > 0); /* of another namespace */
    assert_int_equal(lines_with(&after, "\"publisher\":3,"), 0);
    assert_int_equal(lines_with(&after, "{\"row\":\"publisher\""), 1);
    assert_int_equal(lines_with(&after, "{\"row\":\"alias\""), 0);
    assert_null(strstr(kvt_buffer_text(&after), "\"places\":[]"));
    assert_null(strstr(kvt_buffer_text(&after), "[,"));
    kvt_buffer_release(&before);
    kvt_buffer_release(&after);
}

static void
places_of_publishers_that_came_later_are_left_out(void **state)
{
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    struct kvt_buffer lines;
    char *next;

    export_all(scene->store, &lines);
    next = strstr(kvt_buffer_text(&lines), "\"publisher_next\":9");
    assert_non_null(next);
    next[strlen("\"publisher_next\":")] = '8';
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_OK);
    assert_true(counts.left_out > 0 && counts.left_out < counts.places);
    kvt_buffer_release(&lines);
}

static void
what_is_there_is_kept_unless_told(void **state)
{
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    struct kvt_buffer lines;
    struct kvt_buffer again;
    struct kvt_error err = {0};
    struct advisor_store *copy;

    export_all(scene->store, &lines);
    /* An advisor runs there: we are it. */
    assert_int_equal(import_all(scene->state, &lines, true, &counts, &err), KVT_BUSY);
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_OK);
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, &err), KVT_EXISTS);
    assert_non_null(strstr(err.text, "--force"));
    assert_int_equal(import_all(scene->copy, &lines, true, &counts, NULL), KVT_OK);
    copy = test_store_open(scene->copy, true);
    export_all(copy, &again);
    assert_same_lines(&again, &lines);
    advisor_store_close(copy);
    kvt_buffer_release(&again);
    kvt_buffer_release(&lines);
}

/* An export of a program that had workers' places in the rows of blocks. */
static void
older_exports_are_read(void **state)
{
    static const char text[] =
        "{\"row\":\"index\",\"version\":1,\"epoch\":1,\"events_seq\":5,"
        "\"events_created_ms\":0,\"reports_seq\":0,\"reports_created_ms\":0,\"mode\":0,"
        "\"publisher_next\":2,\"collisions\":0}\n"
        "{\"row\":\"publisher\",\"number\":1,\"namespace\":\"ns\",\"worker\":\"w\","
        "\"incarnation\":1,\"last_seq\":3,\"last_event_ms\":0,\"gaps\":0,\"resyncs\":0,\"gen\":2,"
        "\"buckets\":0,\"gone\":false,\"need_dump\":false,\"holds_g4\":false}\n"
        "{\"row\":\"sweep\",\"publisher\":1,\"namespace\":\"ns\",\"holder\":\"w\",\"dp_rank\":0,"
        "\"tier\":\"G2\",\"floor\":2}\n"
        "{\"row\":\"block\",\"namespace\":\"ns\",\"hash\":\"00000000000000aa\","
        "\"parent\":\"0000000000000000\",\"position\":0,\"size\":64,"
        "\"tokens_hash\":\"00000000000000bb\",\"hits\":7,\"cold_hits\":0,\"cold_recent\":0,"
        "\"last_access_ms\":9,\"touched_ms\":9,\"places\":["
        "{\"ranks\":3,\"holder\":\"w\",\"dp_rank\":0,\"tier\":\"G2\",\"publisher\":1,\"gen\":2},"
        "{\"ranks\":1,\"holder\":\"cold@b\",\"dp_rank\":0,\"tier\":\"G4\",\"publisher\":0,\"gen\":"
        "0}]}\n"
        "{\"row\":\"block\",\"namespace\":\"ns\",\"hash\":\"00000000000000ab\","
        "\"parent\":\"00000000000000aa\",\"position\":1,\"size\":64,"
        "\"tokens_hash\":\"0000000000000000\",\"hits\":0,\"cold_hits\":0,\"cold_recent\":0,"
        "\"last_access_ms\":0,\"touched_ms\":0,\"places\":["
        "{\"ranks\":1,\"holder\":\"w\",\"dp_rank\":0,\"tier\":\"G2\",\"publisher\":1,\"gen\":1},"
        "{\"ranks\":1,\"holder\":\"w\",\"dp_rank\":1,\"tier\":\"G2\",\"publisher\":1,\"gen\":1}]}"
        "\n";
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    struct advisor_store *copy;
    struct kvt_buffer lines;
    struct kvt_buffer again;

    kvt_buffer_init(&lines, LIMIT);
    kvt_buffer_append(&lines, text, sizeof(text) - 1);
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_OK);
    /* What was about to be swept is not there. */
    assert_int_equal(counts.blocks, 2);
    assert_int_equal(counts.places, 3);
    copy = test_store_open(scene->copy, true);
    export_all(copy, &again);
    assert_int_equal(lines_with(&again, "{\"row\":\"block\""), 1);
    assert_int_equal(lines_with(&again, "{\"row\":\"run\""), 2);
    assert_int_equal(lines_with(&again, "{\"row\":\"sweep\""), 0);
    assert_non_null(strstr(kvt_buffer_text(&again), "\"hits\":7"));
    advisor_store_close(copy);
    kvt_buffer_release(&again);
    kvt_buffer_release(&lines);
}

/* A text that is not the digest's is no version of a policy, and older exports have none. */
static void
policies_are_checked(void **state)
{
    static const char head[] =
        "{\"row\":\"index\",\"version\":%d,\"epoch\":1,\"events_seq\":5,"
        "\"events_created_ms\":0,\"reports_seq\":0,\"reports_created_ms\":0,\"mode\":0,"
        "\"publisher_next\":2,\"collisions\":0,\"volatile\":0}\n"
        "{\"row\":\"policy\",\"version\":7,\"since_ms\":1,\"source\":\"api\","
        "\"digest\":\"%s\",\"text\":\"version: 1\\n\"}\n";
    struct test_store *scene = *state;
    struct advisor_index_import_counts counts;
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    struct advisor_policy_row row;
    struct advisor_store *copy;
    struct kvt_buffer lines;
    struct advisor_txn txn;
    const char *text;

    assert_int_equal(advisor_rulebook_digest("version: 1\n", 11, digest), KVT_OK);
    kvt_buffer_init(&lines, LIMIT);
    kvt_buffer_printf(&lines, head, ADVISOR_INDEX_EXPORT_VERSION, "sha256:0");
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_INVALID);
    kvt_buffer_clear(&lines);
    kvt_buffer_printf(&lines, head, 3, digest);
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_INVALID);
    kvt_buffer_clear(&lines);
    kvt_buffer_printf(&lines, head, ADVISOR_INDEX_EXPORT_VERSION, digest);
    assert_int_equal(import_all(scene->copy, &lines, false, &counts, NULL), KVT_OK);
    copy = test_store_open(scene->copy, true);
    assert_int_equal(advisor_store_read(copy, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_policy(&txn, 0, &row, &text), KVT_OK);
    assert_int_equal(row.version, 7);
    assert_int_equal(row.size, 11);
    assert_memory_equal(text, "version: 1\n", 11);
    advisor_store_end(&txn);
    advisor_store_close(copy);
    kvt_buffer_release(&lines);
}

/* ---- lines that are wrong ---- */

static bool
is_member(const char *line, size_t at)
{
    static const char *const others[] = {"\"time_ms\"", "\"store_format\"", "\"tokens\""};

    if (line[at] != '"' || line[at + 1] == ':' || at == 0 ||
        (line[at - 1] != '{' && line[at - 1] != ','))
        return false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strncmp(line + at, others[i], strlen(others[i])) == 0)
            return false; /* for people, or not always there */
    /* Not a hash of an array. */
    for (size_t i = at + 1; line[i] != '\n'; i++)
        if (line[i] == '"')
            return line[i + 1] == ':';
    return false;
}

/* Whatever member of a line is missing: it is refused. */
static unsigned
spoil(struct test_store *scene, const char *first, char *line, size_t size)
{
    const struct advisor_index_import_options options = {.path = scene->copy,
                                                         .map_bytes = TEST_STORE_MAP};
    unsigned refused = 0;

    for (size_t at = 0; at < size; at++) {
        struct advisor_index_import *import;
        struct kvt_error err = {0};

        if (!is_member(line, at))
            continue;
        assert_int_equal(advisor_index_import_open(&import, &options, NULL), KVT_OK);
        if (line != first)
            assert_int_equal(advisor_index_import_line(import, first, strcspn(first, "\n"), NULL),
                             KVT_OK);
        line[at + 1] ^= 0x20; /* another name */
        if (advisor_index_import_line(import, line, size, &err) != KVT_INVALID)
            fail_msg("accepted: %.*s", (int)size, line);
        line[at + 1] ^= 0x20;
        assert_int_equal(strncmp(err.text, "line ", 5), 0);
        advisor_index_import_free(import);
        refused++;
    }
    return refused;
}

static void
every_member_is_wanted(void **state)
{
    static const char *const kinds[] = {"index",   "source", "foreign",    "publisher", "sweep",
                                        "gateway", "order",  "block",      "run",       "alias",
                                        "waiting", "policy", "policy_file"};
    struct test_store *scene = *state;
    struct kvt_buffer lines;
    unsigned refused = 0;

    put_foreign(scene);
    export_all(scene->store, &lines);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char mark[32];
        char *line;

        (void)snprintf(mark, sizeof(mark), "{\"row\":\"%s\"", kinds[i]);
        line = strstr(kvt_buffer_text(&lines), mark);
        assert_non_null(line);
        refused += spoil(scene, kvt_buffer_text(&lines), line, strcspn(line, "\n"));
    }
    assert_true(refused > 110);
    kvt_buffer_release(&lines);
}

/* ---- without memory ---- */

static bool
tell_nothing(void *arg, const char *text)
{
    (void)arg;
    (void)text;
    return true;
}

static bool
read_once(void *arg)
{
    const struct test_store *scene = arg;
    struct advisor_verify_counts verified;
    struct kvt_buffer lines;
    enum kvt_err rc;

    kvt_buffer_init(&lines, LIMIT);
    rc = advisor_index_export_all(scene->store, collect, &lines, NULL);
    if (rc == KVT_OK && !kvt_buffer_ok(&lines))
        rc = KVT_NOMEM;
    if (rc == KVT_OK)
        rc = advisor_verify(scene->store, tell_nothing, NULL, &verified);
    kvt_buffer_release(&lines);
    return rc == KVT_OK;
}

struct paste {
    const char *path;
    struct kvt_buffer lines;
};

static bool
paste_once(void *arg)
{
    struct paste *paste = arg;
    struct advisor_index_import_counts counts;

    return import_all(paste->path, &paste->lines, true, &counts, NULL) == KVT_OK;
}

static void
every_failing_allocation_is_answered(void **state)
{
    struct test_store *scene = *state;
    struct paste paste = {.path = scene->copy};

    export_all(scene->store, &paste.lines);
    assert_true(test_sweep_allocations(read_once, scene) > 8);
    assert_true(test_sweep_allocations(paste_once, &paste) > 8);
    kvt_buffer_release(&paste.lines);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_store_set_up, test_store_tear_down)
#define SMALL(name)                                                                                \
    cmocka_unit_test_setup_teardown(name, test_store_set_up_small, test_store_tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_the_same),
        TEST(pages_of_any_size_say_the_same),
        TEST(no_page_comes_from_half_a_memory),
        TEST(other_systems_publishers_are_copied_too),
        TEST(pages_leave_other_systems_publishers_out),
        TEST(places_of_publishers_that_came_later_are_left_out),
        TEST(what_is_there_is_kept_unless_told),
        TEST(older_exports_are_read),
        TEST(policies_are_checked),
        TEST(every_member_is_wanted),
        SMALL(every_failing_allocation_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
