/*
 * What is tested: wire/dialect/minio.c: bucket notifications.
 */
#include <stdio.h>
#include <string.h>

#include "kvtier/key.h"
#include "wire/dialect/dialect.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/dialect/dialect_bytes.h"

#define BLOCK "0%2F0%3AazWbh91idkf"
#define HASH  UINT64_C(14643705804678351452)

static struct dialect_bytes message;

/* One record as MinIO writes it; `key` as it stands in the JSON. */
static size_t
put_record(char *out, size_t room, const char *name, const char *bucket, const char *key)
{
    return (size_t)snprintf(
        out, room,
        "{'eventVersion':'2.0','eventSource':'minio:s3','awsRegion':'','eventTime':"
        "'2026-11-21T10:00:00.250Z','eventName':'%s','userIdentity':{'principalId':'a'},"
        "'requestParameters':null,'responseElements':{'x-amz-id-2':'d'},'s3':{"
        "'s3SchemaVersion':'1.0','configurationId':'Config','bucket':{'name':'%s',"
        "'ownerIdentity':{'principalId':'a'},'arn':'arn:aws:s3:::%s'},'object':{'key':'%s',"
        "'size':4096,'eTag':'e','sequencer':'17F0A3D7B1C2D3E4'}},'source':{'host':'h',"
        "'userAgent':'Internal: [ILM-Expiry]'}}",
        name, bucket, bucket, key);
}

static void
decode_one(struct wire_raw_batch *batch, const char *name, const char *bucket, const char *key)
{
    char record[4096];
    char text[5000];

    assert_true(put_record(record, sizeof(record), name, bucket, key) < sizeof(record));
    (void)snprintf(text, sizeof(text), "{'EventName':'%s','Key':'x/y','Records':[%s]}", name,
                   record);
    dialect_bytes_json(&message, text);
    dialect_bytes_decode(WIRE_DIALECT_MINIO, &message, batch);
    assert_int_equal(batch->event_count, 1);
}

static void
what_happened_to_an_object(void **state)
{
    static const struct {
        const char *name;
        enum wire_raw_kind kind;
        enum wire_raw_why why;
    } rows[] = {
        {"s3:ObjectCreated:Put", WIRE_RAW_STORE, WIRE_RAW_FINE},
        {"s3:ObjectCreated:Copy", WIRE_RAW_STORE, WIRE_RAW_FINE},
        {"s3:ObjectCreated:CompleteMultipartUpload", WIRE_RAW_STORE, WIRE_RAW_FINE},
        {"ObjectCreated:Post", WIRE_RAW_STORE, WIRE_RAW_FINE},
        {"s3:ObjectRemoved:Delete", WIRE_RAW_REMOVE, WIRE_RAW_FINE},
        {"s3:ObjectRemoved:DeleteMarkerCreated", WIRE_RAW_REMOVE, WIRE_RAW_FINE},
        {"s3:ObjectRemoved:DeleteAllVersions", WIRE_RAW_REMOVE, WIRE_RAW_FINE},
        {"s3:LifecycleExpiration:Delete", WIRE_RAW_REMOVE, WIRE_RAW_FINE},
        {"LifecycleExpiration:DeleteMarkerCreated", WIRE_RAW_REMOVE, WIRE_RAW_FINE},
        {"s3:ObjectRemoved:NoOP", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:ObjectCreated:PutTagging", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:ObjectCreated:PutRetention", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:ObjectCreated:DeleteTagging", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:ObjectAccessed:Get", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:LifecycleDelMarkerExpiration:Delete", WIRE_RAW_SKIP, WIRE_RAW_FINE},
        {"s3:ObjectCreated:Later", WIRE_RAW_SKIP, WIRE_RAW_UNKNOWN_KIND},
        {"s3:ObjectRemoved:Later", WIRE_RAW_SKIP, WIRE_RAW_UNKNOWN_KIND},
        {"s3:Later", WIRE_RAW_SKIP, WIRE_RAW_UNKNOWN_KIND},
        {"", WIRE_RAW_SKIP, WIRE_RAW_UNKNOWN_KIND},
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct wire_raw_event *event = &batch->events[0];

        decode_one(batch, rows[i].name, "kv", BLOCK);
        assert_int_equal(event->kind, rows[i].kind);
        assert_int_equal(event->why, rows[i].why);
        assert_int_equal(event->id, UINT64_C(0x17F0A3D7B1C2D3E4));
        assert_int_equal(batch->time_ms, UINT64_C(1795255200250));
        assert_false(batch->has_sequence);
        if (event->kind == WIRE_RAW_SKIP)
            continue;
        assert_string_equal(batch->holder, "cold@kv");
        assert_string_equal(batch->namespace_, "");
        assert_int_equal(event->tier, KVT_TIER_G4);
        assert_int_equal(event->ranks, 1);
        assert_int_equal(event->size, 4096);
        assert_int_equal(event->position, 0);
        assert_int_equal(batch->blocks[event->first].hash, HASH);
    }
    decode_one(batch, "s3:BucketRemoved:*", "kv", "");
    assert_int_equal(batch->events[0].kind, WIRE_RAW_CLEAR);
    assert_int_equal(batch->events[0].tier, KVT_TIER_G4);
    assert_string_equal(batch->holder, "cold@kv");
}

static void
keys_are_decoded(void **state)
{
    static const struct {
        const char *key;
        const char *namespace_; /* NULL: no block's key */
        uint32_t rank;
        uint32_t position;
    } rows[] = {
        {"acme%2Fllama-1f%2F3%2F1%3ACUrLYDFnmBa%3A13A3sGnbCSf", "acme/llama-1f", 3, 1},
        {"acme/llama-1f/3/1:CUrLYDFnmBa:13A3sGnbCSf", "acme/llama-1f", 3, 1},
        {"a+b%2f0%2F0%3aazWbh91idkf", "a b", 0, 0},
        {"a%2Bb%2F31%2F0%3AazWbh91idkf", "a+b", 31, 0},
        {"%C3%A9%2F0%2F0%3AazWbh91idkf", "\xc3\xa9", 0, 0},
        {"\\u0026%3C\\u003e%2F0%2F0%3AazWbh91idkf", "&<>", 0, 0},
        {"%E9%2F0%2F0%3AazWbh91idkf", NULL, 0, 0}, /* no UTF-8 */
        {"%C0%AF%2F0%2F0%3AazWbh91idkf", NULL, 0, 0},
        {"a%00b%2F0%2F0%3AazWbh91idkf", NULL, 0, 0},
        {"a%2%2F0%2F0%3AazWbh91idkf", NULL, 0, 0},
        {"a%", NULL, 0, 0},
        {"0%3AazWbh91idkf.lock", NULL, 0, 0},
        {"0%3AazWbh91idkf.meta", NULL, 0, 0},
        {"0%2F0%3AazWbh91idkf.meta", NULL, 0, 0},
        {"32%2F0%3AazWbh91idkf", NULL, 0, 0},
        {"photos%2Fcat.jpg", NULL, 0, 0},
        {"", NULL, 0, 0},
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct wire_raw_event *event = &batch->events[0];

        print_message("%s\n", rows[i].key);
        decode_one(batch, "s3:ObjectCreated:Put", "kv", rows[i].key);
        if (rows[i].namespace_ == NULL) {
            assert_int_equal(event->kind, WIRE_RAW_SKIP);
            assert_int_equal(event->why, WIRE_RAW_NOT_A_BLOCK);
            continue;
        }
        assert_int_equal(event->kind, WIRE_RAW_STORE);
        assert_string_equal(batch->namespace_, rows[i].namespace_);
        assert_int_equal(event->ranks, 1u << rows[i].rank);
        assert_int_equal(event->position, rows[i].position);
        if (rows[i].position == 1) {
            assert_int_equal(batch->blocks[0].hash, UINT64_C(4945711292740353085));
            assert_int_equal(event->parent, kvt_key_parent_fragment(KVT_KEY_KVBM_B, 1, HASH));
            assert_false(event->has_parent);
        }
    }
}

static void
long_names_are_no_blocks(void **state)
{
    struct wire_raw_batch *batch = *state;
    char key[2000];

    memset(key, 'a', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    decode_one(batch, "s3:ObjectCreated:Put", "kv", key);
    assert_int_equal(batch->events[0].why, WIRE_RAW_NOT_A_BLOCK);
    /* "cold@" and 58 bytes are the longest holder. */
    key[58] = '\0';
    decode_one(batch, "s3:ObjectCreated:Put", key, BLOCK);
    assert_int_equal(batch->events[0].kind, WIRE_RAW_STORE);
    assert_int_equal(strlen(batch->holder), 63);
    key[58] = 'a';
    key[59] = '\0';
    decode_one(batch, "s3:ObjectCreated:Put", key, BLOCK);
    assert_int_equal(batch->events[0].why, WIRE_RAW_MALFORMED);
}

static void
several_records(void **state)
{
    static const struct {
        const char *bucket;
        const char *key;
        enum kvt_err code;
    } seconds[] = {
        {"kv", "1%2F0%3AazWbh91idkf", KVT_OK},
        {"kv", "cat.jpg", KVT_OK},
        {"other", "1%2F0%3AazWbh91idkf", KVT_RANGE}, /* a batch is of one bucket */
        {"kv", "ns%2F1%2F0%3AazWbh91idkf", KVT_RANGE},
    };
    struct wire_raw_batch *batch = *state;
    char first[2048];
    char second[2048];
    char text[5000];

    (void)put_record(first, sizeof(first), "s3:ObjectRemoved:Delete", "kv", BLOCK);
    for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
        (void)put_record(second, sizeof(second), "s3:ObjectRemoved:Delete", seconds[i].bucket,
                         seconds[i].key);
        (void)snprintf(text, sizeof(text), "{'Records':[%s,7,%s],'more':{}}", first, second);
        dialect_bytes_json(&message, text);
        if (seconds[i].code != KVT_OK) {
            dialect_bytes_refuse(WIRE_DIALECT_MINIO, &message, batch, seconds[i].code);
            continue;
        }
        dialect_bytes_decode(WIRE_DIALECT_MINIO, &message, batch);
        assert_int_equal(batch->event_count, 3);
        assert_int_equal(batch->events[0].kind, WIRE_RAW_REMOVE);
        assert_int_equal(batch->events[1].why, WIRE_RAW_MALFORMED);
        assert_int_equal(batch->events[2].kind, i == 0 ? WIRE_RAW_REMOVE : WIRE_RAW_SKIP);
    }
}

static void
times_and_sequencers(void **state)
{
    static const struct {
        const char *time;
        uint64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T23:59:59.9Z", UINT64_C(951868799900)},
        {"2026-11-21T10:00:00.123456789Z", UINT64_C(1795255200123)},
        {"2100-03-01T00:00:00.000Z", UINT64_C(4107542400000)},
        {"2026-11-21 10:00:00Z", 0},
        {"2026-13-21T10:00:00Z", 0},
        {"2026-11-21T10:00:00+01:00", 0},
        {"yesterday", 0},
    };
    struct wire_raw_batch *batch = *state;
    char text[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        (void)snprintf(text, sizeof(text),
                       "{'Records':[{'eventName':'s3:ObjectCreated:Put','eventTime':'%s','s3':{"
                       "'bucket':{'name':'b'},'object':{'key':'%s','sequencer':'%s'}}}]}",
                       rows[i].time, BLOCK, i % 2 == 0 ? "ff" : "nothing hexadecimal");
        dialect_bytes_json(&message, text);
        dialect_bytes_decode(WIRE_DIALECT_MINIO, &message, batch);
        assert_int_equal(batch->time_ms, rows[i].ms);
        assert_int_equal(batch->events[0].id, i % 2 == 0 ? 0xff : 0);
    }
}

static void
what_is_no_notification(void **state)
{
    static const char *const bad[] = {
        "", "[]", "{}", "7", "{'Records':7}", "{'Records':[]", "{'Records':[]}x", "{'Records':[{]}",
    };
    static const char *const malformed[] = {
        "{'Records':[{}]}",
        "{'Records':[{'eventName':7}]}",
        "{'Records':[{'eventName':'s3:ObjectCreated:Put'}]}",
        "{'Records':[{'eventName':'s3:ObjectCreated:Put','s3':{'bucket':{'name':'b'}}}]}",
        "{'Records':[{'eventName':'s3:ObjectCreated:Put','s3':{'object':{'key':'" BLOCK "'}}}]}",
        "{'Records':[{'eventName':'s3:ObjectCreated:Put','s3':{'bucket':{'name':''},'object':{"
        "'key':'" BLOCK "'}}}]}",
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dialect_bytes_json(&message, bad[i]);
        dialect_bytes_refuse(WIRE_DIALECT_MINIO, &message, batch, KVT_INVALID);
    }
    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
        dialect_bytes_json(&message, malformed[i]);
        dialect_bytes_decode(WIRE_DIALECT_MINIO, &message, batch);
        assert_int_equal(batch->event_count, 1);
        assert_int_equal(batch->events[0].why, WIRE_RAW_MALFORMED);
    }
    decode_one(batch, "s3:ObjectCreated:Put", "kv", BLOCK);
    dialect_bytes_hurt(WIRE_DIALECT_MINIO, &message, batch);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_happened_to_an_object), cmocka_unit_test(keys_are_decoded),
        cmocka_unit_test(long_names_are_no_blocks),   cmocka_unit_test(several_records),
        cmocka_unit_test(times_and_sequencers),       cmocka_unit_test(what_is_no_notification),
    };

    return cmocka_run_group_tests(tests, dialect_bytes_set_up, dialect_bytes_tear_down);
}
