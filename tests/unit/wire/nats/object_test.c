/*
 * What is tested: wire/nats/object.h on a real nats-server. Objects come back as they were put, or
 * not at all: chunks that are missing or too many, another digest, a description that is none, a
 * server that is killed in the middle, two writers at once. Random puts and removals are compared
 * with an array.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/nats/bus_state.h"
#include "wire/nats/object.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, SIZE_MAX_ = 8 << 20, CHUNK = WIRE_OBJECT_CHUNK_BYTES };

static const char bucket[] = "things";

struct scene {
    struct test_nats server;
    struct wire_bus *bus;
};

static struct scene
begin(void)
{
    struct scene scene;

    test_nats_start(&scene.server);
    scene.bus = test_bus_open(&scene.server, true);
    assert_int_equal(wire_object_ensure(scene.bus, bucket, NULL), KVT_OK);
    assert_int_equal(wire_object_ensure(scene.bus, bucket, NULL), KVT_OK); /* it is there */
    return scene;
}

static void
end(struct scene *scene)
{
    wire_bus_close(scene->bus);
    test_nats_stop(&scene->server);
}

static uint8_t *
noise(size_t size, uint64_t seed)
{
    uint8_t *bytes = kvt_calloc(1, size + 1);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(kvt_random_next(&seed) >> 56);
    return bytes;
}

static struct wire_object_put *
open_put(struct wire_bus *bus, const char *name, const uint64_t *version)
{
    const struct wire_object_put_options options = {.bucket = bucket,
                                                    .name = name,
                                                    .size_max = SIZE_MAX_,
                                                    .version = version != NULL ? *version : 0,
                                                    .any_version = version == NULL};
    struct wire_object_put *put = NULL;

    assert_int_equal(wire_object_put_open(&put, bus, &options, NULL), KVT_OK);
    return put;
}

/* In pieces that are no chunks. */
static enum kvt_err
write_all(struct wire_object_put *put, const uint8_t *bytes, size_t size)
{
    const size_t piece = 50001;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; at < size && rc == KVT_OK; at += piece)
        rc = wire_object_put_write(put, bytes + at, size - at < piece ? size - at : piece, NULL);
    return rc;
}

static struct wire_object_info
put(struct wire_bus *bus, const char *name, const uint8_t *bytes, size_t size)
{
    struct wire_object_put *put = open_put(bus, name, NULL);
    struct wire_object_info info;

    assert_int_equal(wire_object_put_header(put, "Sequence", "42"), KVT_OK);
    assert_int_equal(write_all(put, bytes, size), KVT_OK);
    assert_int_equal(wire_object_put_finish(put, &info, NULL), KVT_OK);
    wire_object_put_free(put);
    return info;
}

/* Whatever is there: what its info and its bytes say. */
static enum kvt_err
get(struct wire_bus *bus, const char *name, struct kvt_buffer *out)
{
    struct wire_object_info info;
    enum kvt_err rc = wire_object_info(bus, bucket, name, &info, NULL);

    return rc == KVT_OK ? wire_object_get(bus, bucket, &info, out, NULL) : rc;
}

static void
expect_bytes(struct wire_bus *bus, const char *name, const uint8_t *bytes, size_t size)
{
    struct kvt_buffer out;

    kvt_buffer_init(&out, SIZE_MAX_);
    assert_int_equal(get(bus, name, &out), KVT_OK);
    assert_int_equal(out.size, size);
    if (size > 0)
        assert_memory_equal(out.data, bytes, size);
    kvt_buffer_release(&out);
}

/* Nothing is given away of it, neither to memory nor to a file. */
static void
expect_refused(struct wire_bus *bus, const char *name, enum kvt_err expected)
{
    char folder[256];
    char path[300];
    struct wire_object_info info;
    struct kvt_buffer out;

    kvt_buffer_init(&out, SIZE_MAX_);
    kvt_buffer_puts(&out, "before");
    assert_int_equal(get(bus, name, &out), expected);
    assert_int_equal(out.size, 6);
    kvt_buffer_release(&out);
    if (wire_object_info(bus, bucket, name, &info, NULL) != KVT_OK)
        return;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/object", folder);
    assert_int_equal(wire_object_get_file(bus, bucket, &info, path, SIZE_MAX_, NULL), expected);
    assert_int_not_equal(access(path, F_OK), 0);
    test_folder_remove(folder);
}

/* Messages of the bucket: of chunks and of descriptions. */
static uint64_t
messages(struct wire_bus *bus)
{
    jsStreamInfo *info = NULL;
    uint64_t count;

    assert_int_equal(js_GetStreamInfo(&info, bus->js, "OBJ_things", NULL, NULL), NATS_OK);
    count = info->State.Msgs;
    jsStreamInfo_Destroy(info);
    return count;
}

static void
objects_come_back_as_they_were_put(void **state)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5};
    struct scene scene = begin();

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *bytes = noise(sizes[i], i);
        const struct wire_object_info info = put(scene.bus, "a name/with.all", bytes, sizes[i]);
        struct wire_object_info told;

        assert_int_equal(info.size, sizes[i]);
        assert_int_equal(info.chunks, (sizes[i] + CHUNK - 1) / CHUNK);
        assert_int_equal(wire_object_info(scene.bus, bucket, "a name/with.all", &told, NULL),
                         KVT_OK);
        assert_string_equal(told.nuid, info.nuid);
        assert_string_equal(told.digest, info.digest);
        assert_int_equal(told.version, info.version);
        assert_true(told.time_ms + DEADLINE_MS > kvt_clock_unix_ms());
        assert_string_equal(wire_object_header(&told, "Sequence"), "42");
        assert_string_equal(wire_object_header(&told, "Other"), "");
        expect_bytes(scene.bus, "a name/with.all", bytes, sizes[i]);
        /* Of the one before nothing is left. */
        assert_int_equal(messages(scene.bus), info.chunks + 1);
        kvt_free(bytes);
    }
    assert_int_equal(wire_object_remove(scene.bus, bucket, "a name/with.all", NULL), KVT_OK);
    assert_int_equal(wire_object_remove(scene.bus, bucket, "a name/with.all", NULL), KVT_OK);
    expect_refused(scene.bus, "a name/with.all", KVT_NOTFOUND);
    expect_refused(scene.bus, "never", KVT_NOTFOUND);
    assert_int_equal(messages(scene.bus), 1);
    end(&scene);
}

static void
a_digest_is_the_one_everybody_computes(void **state)
{
    struct scene scene = begin();
    const struct wire_object_info info = put(scene.bus, "abc", (const uint8_t *)"abc", 3);

    (void)state;
    assert_string_equal(info.digest, "SHA-256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=");
    end(&scene);
}

static void
a_file_holds_what_was_put(void **state)
{
    struct scene scene = begin();
    uint8_t *bytes = noise(2 * CHUNK + 9, 1);
    struct wire_object_info info = put(scene.bus, "f", bytes, 2 * CHUNK + 9);
    char folder[256];
    char path[300];
    struct stat stat_;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/object", folder);
    assert_int_equal(wire_object_get_file(scene.bus, bucket, &info, path, 2 * CHUNK + 8, NULL),
                     KVT_RANGE);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(wire_object_get_file(scene.bus, bucket, &info, path, 2 * CHUNK + 9, NULL),
                     KVT_OK);
    assert_int_equal(stat(path, &stat_), 0);
    assert_int_equal(stat_.st_size, 2 * CHUNK + 9);
    assert_int_equal(stat_.st_mode & 0777, 0600);
    test_folder_remove(folder);
    kvt_free(bytes);
    end(&scene);
}

static void
limits_are_kept(void **state)
{
    struct scene scene = begin();
    const struct wire_object_put_options options = {
        .bucket = bucket, .name = "small", .size_max = 10, .any_version = true};
    struct wire_object_put *put_ = NULL;
    struct wire_object_info info;
    struct kvt_buffer out;

    (void)state;
    assert_int_equal(wire_object_put_open(&put_, scene.bus, &options, NULL), KVT_OK);
    assert_int_equal(wire_object_put_write(put_, "0123456789", 10, NULL), KVT_OK);
    assert_int_equal(wire_object_put_write(put_, "x", 1, NULL), KVT_RANGE);
    wire_object_put_free(put_);
    assert_int_equal(messages(scene.bus), 0);
    info = put(scene.bus, "small", (const uint8_t *)"0123456789", 10);
    kvt_buffer_init(&out, 9);
    assert_int_equal(wire_object_get(scene.bus, bucket, &info, &out, NULL), KVT_RANGE);
    assert_int_equal(out.size, 0);
    kvt_buffer_release(&out);
    put_ = open_put(scene.bus, "small", NULL);
    for (int i = 0; i < WIRE_OBJECT_HEADERS_MAX; i++)
        assert_int_equal(wire_object_put_header(put_, "k", "v"), KVT_OK);
    assert_int_equal(wire_object_put_header(put_, "k", "v"), KVT_FULL);
    wire_object_put_free(put_);
    assert_true(wire_object_bucket_valid("a-B_9"));
    assert_false(wire_object_bucket_valid(""));
    assert_false(wire_object_bucket_valid("a.b"));
    end(&scene);
}

/* ---- what is wrong ---- */

static uint64_t
first_seq(struct wire_bus *bus)
{
    jsStreamInfo *info = NULL;
    uint64_t seq;

    assert_int_equal(js_GetStreamInfo(&info, bus->js, "OBJ_things", NULL, NULL), NATS_OK);
    seq = info->State.FirstSeq;
    jsStreamInfo_Destroy(info);
    return seq;
}

static void
publish(struct wire_bus *bus, const char *subject, const char *text)
{
    assert_int_equal(wire_bus_publish_acked(bus, subject, NULL, text, strlen(text), 5000, NULL),
                     KVT_OK);
}

static void
missing_and_extra_chunks_are_errors(void **state)
{
    struct scene scene = begin();
    uint8_t *bytes = noise(4 * CHUNK, 2);
    struct wire_object_info info = put(scene.bus, "big", bytes, 4 * CHUNK);
    char subject[256];

    (void)state;
    (void)snprintf(subject, sizeof(subject), "$O.things.C.%s", info.nuid);
    publish(scene.bus, subject, "one more");
    expect_refused(scene.bus, "big", KVT_CORRUPT);

    info = put(scene.bus, "big", bytes, 4 * CHUNK);
    expect_bytes(scene.bus, "big", bytes, 4 * CHUNK);
    assert_int_equal(js_DeleteMsg(scene.bus->js, "OBJ_things", first_seq(scene.bus), NULL, NULL),
                     NATS_OK);
    expect_refused(scene.bus, "big", KVT_CORRUPT);
    /* As many as there should be, but others. */
    (void)snprintf(subject, sizeof(subject), "$O.things.C.%s", info.nuid);
    publish(scene.bus, subject, "a short one");
    expect_refused(scene.bus, "big", KVT_CORRUPT);
    kvt_free(bytes);
    end(&scene);
}

static void
a_description_that_is_wrong_is_an_error(void **state)
{
    static const struct {
        const char *text;
        enum kvt_err expected;
    } cases[] = {
#define HEAD "{\"name\":\"odd\",\"bucket\":\"things\",\"nuid\":\"N\","
#define GOOD "\"digest\":\"SHA-256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=\"}"
        {HEAD "\"size\":3,\"chunks\":1," GOOD, KVT_OK},
        /* another client's: no padding, more members */
        {HEAD "\"size\":3,\"chunks\":1,\"mtime\":\"x\",\"headers\":{\"a\":\"b\",\"c\":[]},"
              "\"digest\":\"sha-256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0\"}",
         KVT_OK},
        {HEAD "\"size\":3,\"chunks\":1,\"options\":{\"link\":null}," GOOD, KVT_OK},
        {HEAD "\"size\":4,\"chunks\":1," GOOD, KVT_CORRUPT},
        {HEAD "\"size\":2,\"chunks\":1," GOOD, KVT_CORRUPT},
        {HEAD "\"size\":3,\"chunks\":2," GOOD, KVT_CORRUPT},
        {HEAD "\"size\":3,\"chunks\":1,\"digest\":\"SHA-256=ungWv48Bz\"}", KVT_CORRUPT},
        {HEAD "\"size\":3,\"chunks\":1,"
              "\"digest\":\"SHA-256=vngWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=\"}",
         KVT_CORRUPT},
        {HEAD "\"size\":3,\"chunks\":1,"
              "\"digest\":\"SHA-256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=x\"}",
         KVT_CORRUPT},
        {HEAD "\"size\":0,\"chunks\":1," GOOD, KVT_INVALID},
        {HEAD "\"size\":3,\"chunks\":4," GOOD, KVT_INVALID},
        {HEAD "\"size\":-3,\"chunks\":1," GOOD, KVT_INVALID},
        {HEAD "\"size\":3,\"chunks\":1}", KVT_INVALID},
        {HEAD "\"size\":3,\"chunks\":1,\"digest\":\"MD5=abc\"}", KVT_INVALID},
        {HEAD "\"chunks\":1," GOOD, KVT_INVALID},
        {HEAD "\"options\":{\"link\":{\"bucket\":\"b\",\"name\":\"n\"}}}", KVT_UNSUPPORTED},
        {"{\"name\":\"odd\",\"bucket\":\"things\",\"nuid\":\"a.b\",\"size\":3,\"chunks\":1," GOOD,
         KVT_INVALID},
        {"{\"name\":\"odd\",\"bucket\":\"others\",\"nuid\":\"N\",\"size\":3,\"chunks\":1," GOOD,
         KVT_INVALID},
        {"{\"name\":\"even\",\"bucket\":\"things\",\"nuid\":\"N\",\"size\":3,\"chunks\":1," GOOD,
         KVT_INVALID},
        {"{\"name\":\"odd\",\"bucket\":\"things\",\"deleted\":true}", KVT_NOTFOUND},
        {"{\"name\":\"odd\"", KVT_INVALID},
        {"[]", KVT_INVALID},
        {"", KVT_INVALID},
    };
    struct scene scene = begin();

    (void)state;
    publish(scene.bus, "$O.things.C.N", "abc");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        publish(scene.bus, "$O.things.M.b2Rk", cases[i].text);
        if (cases[i].expected == KVT_OK)
            expect_bytes(scene.bus, "odd", (const uint8_t *)"abc", 3);
        else
            expect_refused(scene.bus, "odd", cases[i].expected);
    }
    /* It is replaced like any other. */
    (void)put(scene.bus, "odd", (const uint8_t *)"new", 3);
    expect_bytes(scene.bus, "odd", (const uint8_t *)"new", 3);
    end(&scene);
}

static void
of_two_writers_one_wins(void **state)
{
    struct scene scene = begin();
    uint8_t *one = noise(2 * CHUNK, 1);
    uint8_t *two = noise(2 * CHUNK, 2);

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct wire_object_info info;
        struct wire_object_put *first;
        struct wire_object_put *second;
        uint64_t version = 0;

        if (wire_object_info(scene.bus, bucket, "x", &info, NULL) == KVT_OK)
            version = info.version;
        first = open_put(scene.bus, "x", &version);
        second = open_put(scene.bus, "x", &version);
        assert_int_equal(write_all(first, one, CHUNK), KVT_OK);
        assert_int_equal(write_all(second, two, 2 * CHUNK), KVT_OK);
        assert_int_equal(write_all(first, one + CHUNK, CHUNK), KVT_OK);
        assert_int_equal(wire_object_put_finish(second, &info, NULL), KVT_OK);
        assert_int_equal(wire_object_put_finish(first, &info, NULL), KVT_PRECONDITION);
        wire_object_put_free(second);
        wire_object_put_free(first);
        expect_bytes(scene.bus, "x", two, 2 * CHUNK);
        assert_int_equal(messages(scene.bus), 3);
    }
    { /* Who knows of another one does not even begin. */
        const struct wire_object_put_options options = {
            .bucket = bucket, .name = "x", .size_max = 1, .version = 1};
        struct wire_object_put *put_ = NULL;

        assert_int_equal(wire_object_put_open(&put_, scene.bus, &options, NULL), KVT_PRECONDITION);
        assert_null(put_);
    }
    kvt_free(one);
    kvt_free(two);
    end(&scene);
}

static void
a_server_that_dies_in_the_middle_leaves_the_former_object(void **state)
{
    struct scene scene = begin();
    uint8_t *old = noise(3 * CHUNK, 3);
    uint8_t *new = noise(3 * CHUNK, 4);
    struct wire_object_put *put_;
    struct wire_object_info info = put(scene.bus, "x", old, 3 * CHUNK);
    struct kvt_buffer out;
    enum kvt_err rc;

    (void)state;
    put_ = open_put(scene.bus, "x", NULL);
    assert_int_equal(write_all(put_, new, 2 * CHUNK), KVT_OK);
    test_nats_kill(&scene.server);
    rc = wire_object_put_write(put_, new + 2 * CHUNK, CHUNK, NULL);
    assert_true(rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT);
    wire_object_put_free(put_);
    kvt_buffer_init(&out, SIZE_MAX_);
    test_bus_wait(scene.bus, false);
    assert_int_equal(wire_object_get(scene.bus, bucket, &info, &out, NULL), KVT_UNAVAILABLE);
    assert_int_equal(out.size, 0);
    kvt_buffer_release(&out);

    test_nats_restart(&scene.server);
    test_bus_wait(scene.bus, true);
    expect_bytes(scene.bus, "x", old, 3 * CHUNK);
    assert_int_equal(messages(scene.bus), 3 + 1 + 2); /* two chunks of nobody */
    assert_int_equal(wire_object_sweep(scene.bus, bucket, WIRE_OBJECT_ABANDONED_MS, NULL), KVT_OK);
    assert_int_equal(messages(scene.bus), 3 + 1 + 2);
    kvt_clock_sleep_ms(5);
    assert_int_equal(wire_object_sweep(scene.bus, bucket, 1, NULL), KVT_OK);
    assert_int_equal(messages(scene.bus), 3 + 1);
    expect_bytes(scene.bus, "x", old, 3 * CHUNK);
    assert_int_equal(wire_object_sweep(scene.bus, "nowhere", 1, NULL), KVT_OK);
    kvt_free(old);
    kvt_free(new);
    end(&scene);
}

static void
random_puts_and_removals_are_those_of_an_array(void **state)
{
    enum { NAMES = 3, STEPS = 60 };
    static const char *const names[NAMES] = {"a", "b", "c"};
    struct scene scene = begin();
    uint64_t random = test_seed();
    size_t sizes[NAMES] = {0};
    uint64_t seeds[NAMES] = {0}; /* 0: not there */

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        const size_t at = kvt_random_below(&random, NAMES);
        const uint64_t what = kvt_random_below(&random, 4);

        if (what == 0) {
            assert_int_equal(wire_object_remove(scene.bus, bucket, names[at], NULL), KVT_OK);
            seeds[at] = 0;
        } else if (what < 3) {
            uint8_t *bytes;

            sizes[at] = kvt_random_below(&random, 2 * CHUNK + 2);
            seeds[at] = kvt_random_next(&random) | 1;
            bytes = noise(sizes[at], seeds[at]);
            (void)put(scene.bus, names[at], bytes, sizes[at]);
            kvt_free(bytes);
        } else { /* begun, and left */
            struct wire_object_put *put_ = open_put(scene.bus, names[at], NULL);
            uint8_t *bytes = noise(CHUNK + 1, 1);

            assert_int_equal(write_all(put_, bytes, CHUNK + 1), KVT_OK);
            wire_object_put_free(put_);
            kvt_free(bytes);
        }
        for (size_t i = 0; i < NAMES; i++) {
            uint8_t *bytes = noise(sizes[i], seeds[i]);

            if (seeds[i] == 0)
                expect_refused(scene.bus, names[i], KVT_NOTFOUND);
            else
                expect_bytes(scene.bus, names[i], bytes, sizes[i]);
            kvt_free(bytes);
        }
    }
    end(&scene);
}

static bool
put_and_get(void *arg)
{
    const struct wire_object_put_options options = {
        .bucket = bucket, .name = "x", .size_max = 3, .any_version = true};
    struct wire_bus *bus = arg;
    struct wire_object_put *put_ = NULL;
    struct wire_object_info info;
    struct kvt_buffer out;
    bool ok = wire_object_put_open(&put_, bus, &options, NULL) == KVT_OK;

    kvt_buffer_init(&out, 3);
    ok = ok && wire_object_put_write(put_, "abc", 3, NULL) == KVT_OK;
    ok = ok && wire_object_put_finish(put_, &info, NULL) == KVT_OK;
    wire_object_put_free(put_);
    ok = ok && wire_object_get(bus, bucket, &info, &out, NULL) == KVT_OK && out.size == 3;
    kvt_buffer_release(&out);
    return ok;
}

static void
every_failing_allocation_is_survived(void **state)
{
    struct scene scene = begin();

    (void)state;
    assert_true(test_sweep_allocations(put_and_get, scene.bus) >= 3);
    expect_bytes(scene.bus, "x", (const uint8_t *)"abc", 3);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_come_back_as_they_were_put),
        cmocka_unit_test(a_digest_is_the_one_everybody_computes),
        cmocka_unit_test(a_file_holds_what_was_put),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(missing_and_extra_chunks_are_errors),
        cmocka_unit_test(a_description_that_is_wrong_is_an_error),
        cmocka_unit_test(of_two_writers_one_wins),
        cmocka_unit_test(a_server_that_dies_in_the_middle_leaves_the_former_object),
        cmocka_unit_test(random_puts_and_removals_are_those_of_an_array),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
