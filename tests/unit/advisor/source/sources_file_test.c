/*
 * What is tested: advisor/source/sources_file.h: the list of event planes.
 * How: the file that is shipped; a table of mistakes with the exact words they are refused with.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/source/sources_file.h"
#include "base/core/file.h"

#include "tests/support/seed.h"

static enum kvt_err
load(struct advisor_sources_file **file, const char *text, struct kvt_error *err)
{
    char folder[256];
    char path[300];
    enum kvt_err rc;

    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/s", folder);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, err), KVT_OK);
    rc = advisor_sources_file_load(file, path, err);
    test_folder_remove(folder);
    return rc;
}

static void
shipped_file(void **state)
{
    const struct advisor_source_entry *entry;
    struct advisor_sources_file *file;
    struct kvt_error err;

    (void)state;
    assert_int_equal(advisor_sources_file_load(&file, KVTIER_SOURCES_YAML, &err), KVT_OK);
    assert_int_equal(advisor_sources_file_count(file), 2);
    entry = advisor_sources_file_at(file, 0);
    assert_true(advisor_source_is_canonical(entry->ops));
    entry = advisor_sources_file_at(file, 1);
    assert_ptr_equal(entry->ops, &advisor_source_dynamo_nats);
    assert_string_equal(entry->options.name, "dynamo-a");
    assert_string_equal(entry->options.namespace_, "tenant/model-a");
    assert_string_equal(entry->bus.url, "nats://dynamo-nats:4222");
    assert_true(entry->over_nats);
    advisor_sources_file_free(file);
}

static void
options_are_read(void **state)
{
    static const char text[] = "version: 1\nsources:\n"
                               "- {name: a, kind: dynamo-jetstream, namespace: n, stream: s}\n"
                               "- {name: b, kind: dynamo-nats, namespace: n, subject: [x, y.>],\n"
                               "   dump_url: 'http://h', discovery: /d, block_tokens: 16}\n"
                               "- {name: c, kind: minio-nats, stream: m}\n"
                               "- {name: d, kind: minio-nats, subject: e,\n"
                               "   bucket_url: 'http://h:1/b', bucket_credentials_file: /c}\n";
    const struct advisor_source_entry *entry;
    struct advisor_sources_file *file;
    struct kvt_error err;

    (void)state;
    assert_int_equal(load(&file, text, &err), KVT_OK);
    entry = advisor_sources_file_at(file, 0);
    assert_string_equal(entry->options.stream, "s");
    assert_string_equal(entry->options.subject, "s.*");
    entry = advisor_sources_file_at(file, 1);
    assert_string_equal(entry->options.subject, "x,y.>");
    assert_string_equal(entry->options.dump_url, "http://h");
    assert_string_equal(entry->options.discovery, "/d");
    assert_int_equal(entry->options.block_tokens, 16);
    entry = advisor_sources_file_at(file, 2);
    assert_string_equal(entry->options.namespace_, "");
    assert_string_equal(entry->bus.url, "");
    assert_int_equal(entry->options.bucket_every_ms, 0);
    entry = advisor_sources_file_at(file, 3);
    assert_string_equal(entry->options.bucket_url, "http://h:1/b");
    assert_string_equal(entry->options.bucket_credentials_file, "/c");
    assert_int_equal(entry->options.bucket_every_ms, 3600 * 1000);
    advisor_sources_file_free(file);
}

#define HEAD "version: 1\nsources:\n- "

static void
mistakes_are_told(void **state)
{
    static const struct {
        const char *text;
        const char *told; /* behind the path */
    } table[] = {
        {"", ": the file is empty"},
        {"sources: []\n", ":1:1: version is missing"},
        {"version: 2\nsources: []\n", ":1:10: version: \"2\" is out of bounds"},
        {"version: 1\nsource: []\n", ":2:1: unknown key \"source\" (did you mean \"sources\"?)"},
        {"version: 1\nsources: a\n", ":2:10: sources wants a list"},
        {HEAD "a\n", ":3:3: \"key: value\" lines are wanted here"},
        {HEAD "{kind: dynamo-nats}\n", ":3:3: name is missing"},
        {HEAD "{name: a}\n", ":3:3: kind is missing"},
        {HEAD "{name: a b, kind: kvtier-core}\n",
         ":3:3: name: letters, digits, \".\", \"_\" and \"-\" are allowed"},
        {HEAD "{name: a, kind: dynamo-nat, namespace: n}\n",
         ":3:3: no kind is called \"dynamo-nat\" (did you mean \"dynamo-nats\"?)"},
        {HEAD "{name: a, kind: qqqqqqqqqqqq, namespace: n}\n",
         ":3:3: no kind is called \"qqqqqqqqqqqq\""},
        {HEAD "{name: a, kind: dynamo-nats}\n", ":3:3: namespace is missing"},
        {HEAD "{name: a, kind: kvtier-core, namespace: n}\n",
         ":3:3: the workers of kind kvtier-core say their namespace themselves"},
        {HEAD "{name: a, kind: kvtier-core, url: 'nats://x'}\n",
         ":3:3: kind kvtier-core is read from the advisor's own NATS"},
        {HEAD "{name: a, kind: dynamo-nats, namespace: n, endpoints: 'tcp://x:1'}\n",
         ":3:3: endpoints means nothing to kind dynamo-nats"},
        {HEAD "{name: a, kind: dynamo-jetstream, namespace: n}\n", ":3:3: stream is missing"},
        {HEAD "{name: a, kind: minio-nats}\n", ":3:3: subject is missing, or stream"},
        {HEAD "{name: a, kind: dynamo-nats, namespace: n, bucket_url: 'http://h/b'}\n",
         ":3:3: bucket_url means nothing to kind dynamo-nats"},
        {HEAD "{name: a, kind: dynamo-nats, namespace: n, snapshot_bucket: b}\n",
         ":3:3: snapshot_bucket means nothing to kind dynamo-nats"},
        {HEAD "{name: a, kind: dynamo-jetstream, namespace: n, stream: s, snapshot_bucket: b.c}\n",
         ":3:3: snapshot_bucket: letters, digits, \"-\" and \"_\" are allowed"},
        {HEAD "{name: a, kind: minio-nats, stream: m, bucket_every: 1m}\n",
         ":3:3: bucket_url means nothing where a stream is read"},
        {HEAD "{name: a, kind: minio-nats, subject: m, bucket_url: 'http://h'}\n",
         ":3:3: bucket_url: \"http://h\" is not http[s]://host[:port]/bucket"},
        {HEAD "{name: a, kind: minio-nats, subject: m, bucket_url: 'http://h/b'}\n",
         ":3:3: bucket_credentials_file is missing"},
        {HEAD "{name: a, kind: dynamo-nats, namespace: n, block_tokens: 0}\n",
         ":3:60: block_tokens: \"0\" is out of bounds"},
        {HEAD "{name: a, kind: dynamo-nats, namespace: n}\n"
              "- {name: a, kind: dynamo-nats, namespace: n}\n",
         ":4:3: a source called \"a\" is there already"},
        {HEAD "{name: a, kind: kvtier-core}\n- {name: b, kind: kvtier-jetstream}\n",
         ":4:3: \"a\" reads KVTier's own events already"},
    };
    struct advisor_sources_file *file;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(load(&file, table[i].text, &err), KVT_INVALID);
        assert_null(file);
        if (strstr(err.text, table[i].told) == NULL ||
            strcmp(strstr(err.text, table[i].told), table[i].told) != 0)
            fail_msg("%s\ntold: %s\nnot:  %s", table[i].text, err.text, table[i].told);
    }
}

static void
too_many(void **state)
{
    static char text[16384];
    struct advisor_sources_file *file;
    struct kvt_error err;
    size_t size = (size_t)snprintf(text, sizeof(text), "version: 1\nsources:\n");

    (void)state;
    for (int i = 0; i <= ADVISOR_SOURCES_MAX; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size,
                                 "- {name: s%d, kind: kvbm-nats, namespace: n}\n", i);
    assert_int_equal(load(&file, text, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "more than 64 sources"));
}

static bool
attempt(void *arg)
{
    struct advisor_sources_file *file;
    struct kvt_error err;

    if (advisor_sources_file_load(&file, arg, &err) != KVT_OK)
        return false;
    advisor_sources_file_free(file);
    return true;
}

static void
every_allocation_may_fail(void **state)
{
    char path[] = KVTIER_SOURCES_YAML;

    (void)state;
    assert_true(test_sweep_allocations(attempt, path) >= 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_file),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(too_many),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
