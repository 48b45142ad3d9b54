/*
 * What is tested: g4/s3/placement.h, and that g4/s3/s3.h says it to the service.
 * How: files that are right and files that are wrong in each way; keys of every kind; a peer that
 * keeps the requests it got.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "g4/s3/placement.h"
#include "g4/s3/s3.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

#define KMS "arn:aws:kms:eu-central-1:111122223333:key/1234"

static const char rules[] =
    "placement:\n"
    "  - {prefix: \"\", encryption: AES256}\n"
    "  - {prefix: acme/, encryption: \"aws:kms\", kms_key_id: \"" KMS "\",\n"
    "     storage_class: STANDARD_IA}\n"
    "  - {prefix: acme/open/, storage_class: REDUCED_REDUNDANCY}\n";

struct fixture {
    char folder[128];
    char path[160];
    struct g4_placement *placement;
    struct kvt_error err;
};

static enum kvt_err
load(struct fixture *f, const char *text)
{
    assert_int_equal(kvt_file_write(f->path, text, strlen(text), 0600, NULL), KVT_OK);
    return g4_placement_load(&f->placement, f->path, &f->err);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/placement.yaml", f->folder);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_placement_free(f->placement);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

static void
the_longest_prefix_counts_alone(void **state)
{
    static const struct {
        const char *key;
        const char *values[G4_PLACEMENT_HEADERS_MAX]; /* encryption, key, class; NULL = not sent */
    } rows[] = {
        {"0/0:11111112", {"AES256", NULL, NULL}},
        {"acme/0/0:11111112", {"aws:kms", KMS, "STANDARD_IA"}},
        {"acme/open/0/0:11111112", {NULL, NULL, "REDUCED_REDUNDANCY"}},
        {"acme", {"AES256", NULL, NULL}},
        {"acme/notes.txt", {"aws:kms", KMS, "STANDARD_IA"}},
        {"acme/0:11111112.meta", {"aws:kms", KMS, NULL}}, /* tiny */
        {"acme/gc.lock", {"aws:kms", KMS, NULL}},
        {"acme/.kvt/manifest/0000000000000012", {"aws:kms", KMS, NULL}},
        {"acme/open/.kvt/manifest/00000000000000ff", {NULL, NULL, NULL}},
        {"acme/.kvt/compaction.lock", {"aws:kms", KMS, NULL}},
        {"acme/.kvt/segment/0000000000000001-0000000000000002", {"aws:kms", KMS, "STANDARD_IA"}},
        {"acme/.kvt/manifest/notes.txt", {"aws:kms", KMS, "STANDARD_IA"}}, /* a client's */
        {".kvtier-selftest/1", {"AES256", NULL, NULL}},
        /* The client's "acme/large", and two buckets of clients, whose keys are below no prefix. */
        {".kvtier-key/configured/acme.slarge!", {"aws:kms", KMS, "STANDARD_IA"}},
        {".kvtier-key/configured/acme.sopen.sx!", {NULL, NULL, "REDUCED_REDUNDANCY"}},
        {".kvtier-key/0123456789abcdef/acme.slarge!", {"AES256", NULL, NULL}},
        {".kvtier-long-key/configured/acme", {"AES256", NULL, NULL}},
    };
    static const char *const names[] = {"x-amz-server-side-encryption",
                                        "x-amz-server-side-encryption-aws-kms-key-id",
                                        "x-amz-storage-class"};
    struct g4_sigv4_header headers[G4_PLACEMENT_HEADERS_MAX];
    struct fixture *f = *state;

    assert_int_equal(load(f, rules), KVT_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const size_t count = g4_placement_headers(f->placement, rows[i].key, headers);
        size_t at = 0;

        for (size_t k = 0; k < G4_PLACEMENT_HEADERS_MAX; k++) {
            if (rows[i].values[k] == NULL)
                continue;
            assert_true(at < count);
            assert_string_equal(headers[at].name, names[k]);
            assert_string_equal(headers[at++].value, rows[i].values[k]);
        }
        assert_int_equal(at, count);
    }
    assert_int_equal(g4_placement_headers(NULL, "acme/0/0:11111112", headers), 0);
}

static const char *
class_of(const struct g4_placement *placement, const char *key)
{
    struct g4_sigv4_header headers[G4_PLACEMENT_HEADERS_MAX];
    const size_t count = g4_placement_headers(placement, key, headers);

    for (size_t i = 0; i < count; i++)
        if (strcmp(headers[i].name, "x-amz-storage-class") == 0)
            return headers[i].value;
    return "";
}

static void
a_class_is_for_what_no_rule_names_one_for(void **state)
{
    struct fixture *f = *state;
    char full[64 * G4_PLACEMENT_RULES_MAX] = "placement:\n";
    size_t size = strlen(full);

    assert_int_equal(g4_placement_set_class(&f->placement, "DEEP_ARCHIVE", &f->err), KVT_INVALID);
    assert_int_equal(g4_placement_set_class(&f->placement, "nearly\r\nx: y", &f->err), KVT_INVALID);
    assert_null(f->placement);
    assert_int_equal(g4_placement_set_class(&f->placement, "GLACIER_IR", &f->err), KVT_OK);
    assert_string_equal(class_of(f->placement, "acme/0/0:11111112"), "GLACIER_IR");
    assert_string_equal(class_of(f->placement, "acme/gc.lock"), "");
    g4_placement_free(f->placement);
    assert_int_equal(load(f, rules), KVT_OK);
    assert_int_equal(g4_placement_set_class(&f->placement, "GLACIER_IR", &f->err), KVT_OK);
    assert_string_equal(class_of(f->placement, "0/0:11111112"), "GLACIER_IR");
    assert_string_equal(class_of(f->placement, "acme/0/0:11111112"), "STANDARD_IA");
    g4_placement_free(f->placement);
    for (unsigned i = 0; i < G4_PLACEMENT_RULES_MAX; i++)
        size += (size_t)snprintf(full + size, sizeof(full) - size, "  - {prefix: a%u/}\n", i);
    assert_int_equal(load(f, full), KVT_OK);
    assert_int_equal(g4_placement_set_class(&f->placement, "GLACIER_IR", &f->err), KVT_FULL);
    assert_string_equal(class_of(f->placement, "a1/0/0:11111112"), "");
}

static void
what_cannot_work_is_refused(void **state)
{
    static const struct {
        const char *rule;
        const char *why;
    } rows[] = {
        {"{prefix: a/, encryption: \"aws:kms\"}", "needs a kms_key_id"},
        {"{prefix: a/, encryption: AES256, kms_key_id: k}", "goes with encryption aws:kms"},
        {"{prefix: a/, kms_key_id: k}", "goes with encryption aws:kms"},
        {"{prefix: a/, encryption: \"aws:kms\", kms_key_id: \"k k\"}", "blanks"},
        {"{prefix: a/, encryption: SSE-C}", "encryption"},
        {"{prefix: a/, storage_class: GLACIER}", "cannot be read before it was restored"},
        {"{prefix: a/, storage_class: DEEP_ARCHIVE}", "cannot be read before it was restored"},
        {"{prefix: a/, storage_class: \"STANDARD\\r\\nx: y\"}", "is a word of"},
        {"{prefix: \"\"}", "already"},
        {"{encryption: AES256}", "prefix"},
        {"{prefix: a/, encrypt: AES256}", "encrypt"},
    };
    struct fixture *f = *state;
    char text[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(text, sizeof(text), "placement:\n  - {prefix: \"\"}\n  - %s\n",
                       rows[i].rule);
        assert_int_equal(load(f, text), KVT_INVALID);
        assert_null(f->placement);
        if (strstr(f->err.text, rows[i].why) == NULL || strstr(f->err.text, ":3:") == NULL)
            fail_msg("%s: %s, expected \"%s\"", rows[i].rule, f->err.text, rows[i].why);
    }
    assert_int_equal(g4_placement_load(&f->placement, "/nowhere/placement.yaml", &f->err),
                     KVT_NOTFOUND);
}

static void
there_are_not_too_many(void **state)
{
    struct fixture *f = *state;
    char text[G4_PLACEMENT_RULES_MAX * 32 + 64] = "placement:\n";
    size_t used = strlen(text);

    for (int i = 0; i <= G4_PLACEMENT_RULES_MAX; i++) {
        if (i == G4_PLACEMENT_RULES_MAX) {
            assert_int_equal(load(f, text), KVT_OK);
            g4_placement_free(f->placement);
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, "  - {prefix: p%d/}\n", i);
    }
    assert_int_equal(load(f, text), KVT_INVALID);
}

static bool
try_to_load(void *arg)
{
    struct fixture *f = arg;
    const bool loaded = g4_placement_load(&f->placement, f->path, &f->err) == KVT_OK;

    assert_true(loaded || f->placement == NULL);
    g4_placement_free(f->placement);
    f->placement = NULL;
    return loaded;
}

static void
loading_survives_each_failing_allocation(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, rules), KVT_OK);
    g4_placement_free(f->placement);
    assert_true(test_sweep_allocations(try_to_load, f) > 0);
}

/* ---- on the wire ---- */

enum { REQUESTS_MAX = 12, HEAD_ROOM = 4096, LARGE = 6 << 20, PART = 5 << 20 };

/* What was asked for; uploads are answered as a service does. */
struct heard {
    char heads[REQUESTS_MAX][HEAD_ROOM];
    size_t count;
};

static void
hear(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    struct heard *heard = arg;
    const bool begins = strstr(head, "?uploads") != NULL;
    const bool ends = strncmp(head, "POST", 4) == 0 && !begins;
    const char *text = begins ? "<R><UploadId>u1</UploadId></R>"
                       : ends ? "<R><ETag>\"whole\"</ETag></R>"
                              : "";

    (void)body;
    (void)size;
    assert_true(heard->count < REQUESTS_MAX);
    (void)snprintf(heard->heads[heard->count++], HEAD_ROOM, "%s", head);
    kvt_buffer_printf(reply,
                      "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nETag: \"tag\"\r\n"
                      "Connection: close\r\n\r\n%s",
                      strlen(text), text);
}

/* Is it there, and signed? */
static void
expect_header(const char *head, const char *name, const char *value)
{
    const char *list = strstr(head, "SignedHeaders=");
    char line[256];

    (void)snprintf(line, sizeof(line), "%s: %s\r\n", name, value);
    if (strstr(head, line) == NULL)
        fail_msg("no %s: %s in %s", name, value, head);
    assert_non_null(list);
    (void)snprintf(line, sizeof(line), ";%s", name);
    list = strstr(list, line);
    assert_non_null(list);
    assert_non_null(strchr(";,", list[strlen(line)]));
}

static void
the_service_is_told(void **state)
{
    struct fixture *f = *state;
    struct heard *heard = kvt_calloc(1, sizeof(*heard));
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    char *large = kvt_calloc(1, LARGE);
    struct g4_s3_options options;
    struct hostile *hostile;
    struct g4_store *store;

    assert_int_equal(load(f, rules), KVT_OK);
    hostile = hostile_start(hear, heard);
    options = *hostile_options(hostile);
    options.placement = f->placement;
    options.part_size = PART;
    options.connections_max = 1;
    assert_int_equal(g4_s3_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(put(store, "acme/0/0:11111112", "hello", 5, NULL), KVT_OK);
    (void)!head(store, "acme/0/0:11111112", fetched);
    assert_int_equal(put_plain(store, "acme/open/large", large, LARGE), KVT_OK);
    assert_int_equal(put_plain(store, "large", large, LARGE), KVT_OK);
    g4_store_close(store);
    hostile_stop(hostile);

    expect_header(heard->heads[0], "x-amz-server-side-encryption", "aws:kms");
    expect_header(heard->heads[0], "x-amz-server-side-encryption-aws-kms-key-id", KMS);
    expect_header(heard->heads[0], "x-amz-storage-class", "STANDARD_IA");
    assert_null(strstr(heard->heads[1], "x-amz-server-side")); /* HEAD */
    expect_header(heard->heads[2], "x-amz-storage-class", "REDUCED_REDUNDANCY");
    assert_null(strstr(heard->heads[2], "x-amz-server-side"));
    expect_header(heard->heads[6], "x-amz-server-side-encryption", "AES256");
    assert_int_equal(heard->count, 10);
    for (size_t i = 3; i < heard->count; i++) /* parts, and their assembly */
        assert_true(i == 6 || (strstr(heard->heads[i], "x-amz-server-side") == NULL &&
                               strstr(heard->heads[i], "x-amz-storage-class") == NULL));
    kvt_free(large);
    kvt_free(fetched);
    kvt_free(heard);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_prefix_counts_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_class_is_for_what_no_rule_names_one_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_work_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_not_too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loading_survives_each_failing_allocation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_service_is_told, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
