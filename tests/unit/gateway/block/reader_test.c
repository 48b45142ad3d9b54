/*
 * What is tested: gateway/block/reader.h: a block comes from the hot volume in pieces, from any
 * byte on; what is flipped, cut or removed there while it is read never reaches the reader: the
 * rest comes from the bucket, or the reader fails; what is sealed keeps its place until the reader
 * is closed; without waiting only what is in memory and sound is given; the budget is given back
 * whatever happens.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/directory/file_name.h"
#include "g4/directory/object_file.h"
#include "gateway/block/reader.h"
#include "gateway/tier/hot_memory.h"

#include "tests/unit/gateway/support/scene.h"

enum { PIECE = 1 << G4_PIECES_SHIFT_MIN, SIZE = 4 * PIECE + 321, NUMBER = 1 };

struct fixture {
    struct test_gateway gateway;
    struct gateway_budget budget;
    struct gateway_item item;
    char key[KVT_KEY_MAX];
    char file[512]; /* of the hot copy */
    uint8_t *wanted;
    uint8_t *found;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    char name[G4_FILE_NAME_MAX];

    test_gateway_open(&f->gateway, 8u << 20, 0);
    f->budget.max = 2 * SIZE;
    f->wanted = kvt_calloc(1, SIZE);
    f->found = kvt_calloc(1, SIZE);
    test_gateway_fill(f->wanted, SIZE, NUMBER);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_OK);
    f->item.key = test_gateway_key(f->key, NUMBER);
    gateway_get_find(f->gateway.context, &f->item, 1);
    assert_int_equal(f->item.status, KVT_OK);
    g4_file_name_format(f->key, name);
    (void)snprintf(f->file, sizeof(f->file), "%s/objects/%s", f->gateway.hot, name);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(atomic_load(&f->budget.used), 0);
    kvt_free(f->wanted);
    kvt_free(f->found);
    test_gateway_close(&f->gateway);
    kvt_free(f);
    return 0;
}

static struct gateway_reader *
open_reader(struct fixture *f)
{
    struct gateway_reader *reader;

    assert_int_equal(gateway_reader_open(&reader, f->gateway.context, &f->item, &f->budget),
                     KVT_OK);
    assert_int_equal(gateway_reader_piece(reader), PIECE);
    return reader;
}

/* Read [from, to) with `room` bytes at a time, as the S3 port does; how far it came. */
static uint64_t
read_range(struct fixture *f, struct gateway_reader *reader, uint64_t from, uint64_t to,
           size_t room)
{
    uint64_t at = from;

    while (at < to) {
        const size_t most = room < to - at ? room : (size_t)(to - at);
        size_t got;
        enum kvt_err rc = gateway_reader_read(reader, at, f->found, most, &got);

        if (rc == KVT_AGAIN && gateway_reader_fetch(reader, at) == KVT_OK)
            continue;
        if (rc != KVT_OK) {
            assert_int_equal(got, 0);
            return at;
        }
        assert_in_range(got, 1, most);
        assert_memory_equal(f->found, f->wanted + at, got);
        at += got;
    }
    return at;
}

static uint64_t
stat_of(struct fixture *f, enum gateway_stat stat)
{
    return gateway_stats_get(&f->gateway.stats, stat);
}

static void
any_range_in_any_portions(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();

    for (unsigned i = 0; i < 60; i++) {
        const uint64_t from = i < 2 ? 0 : kvt_random_below(&random, SIZE);
        const uint64_t to = i < 2 ? SIZE : from + 1 + kvt_random_below(&random, SIZE - from);
        const size_t room = i % 2 == 0 ? PIECE : 1000 + kvt_random_below(&random, 2 * PIECE);
        struct gateway_reader *reader = open_reader(f);
        const void *held;

        assert_int_equal(gateway_reader_fetch(reader, from), KVT_OK);
        held = gateway_reader_held(reader, from, 1);
        assert_memory_equal(held, f->wanted + from, 1);
        if (from / PIECE != (to - 1) / PIECE)
            assert_null(gateway_reader_held(reader, from, to - from));
        assert_int_equal(read_range(f, reader, from, to, room), to);
        gateway_reader_close(reader);
    }
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_HOT), 60);
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_COLD), 0);
}

static void
flip(const struct fixture *f, const char *path, size_t at)
{
    const uint8_t byte = f->wanted[at] ^ 1;
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(G4_OBJECT_FILE_BODY_AT + at)), 1);
    (void)close(fd);
}

/* Damage at a random place and moment: before the reader comes there it is never seen. */
static void
damage_while_it_is_read(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    const uint64_t read = kvt_random_below(&random, SIZE);
    const uint64_t bad = kvt_random_below(&random, SIZE);
    struct gateway_reader *reader = open_reader(f);

    assert_int_equal(read_range(f, reader, 0, read, PIECE), read);
    if (kvt_random_below(&random, 2) == 0)
        flip(f, f->file, bad);
    else
        assert_int_equal(truncate(f->file, (off_t)(G4_OBJECT_FILE_BODY_AT + bad)), 0);
    assert_int_equal(read_range(f, reader, read, SIZE, PIECE), SIZE);
    gateway_reader_close(reader);
    /* And afterwards it is found, if it was not on the way. */
    assert_int_equal(test_gateway_get(&f->gateway, NUMBER, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), GATEWAY_COLD);
    assert_int_equal(stat_of(f, GATEWAY_STAT_CORRUPT_HOT), 1);
}

static void
the_bucket_is_bad_too(void **state)
{
    struct fixture *f = *state;
    struct gateway_reader *reader = open_reader(f);
    size_t got;

    assert_int_equal(read_range(f, reader, 0, PIECE, PIECE), PIECE);
    flip(f, f->file, 2 * PIECE + 5);
    test_gateway_fault(&f->gateway, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    assert_int_equal(read_range(f, reader, PIECE, SIZE, PIECE), 2 * PIECE);
    assert_int_not_equal(gateway_reader_fetch(reader, 0), KVT_OK);
    assert_int_not_equal(gateway_reader_read(reader, 0, f->found, PIECE, &got), KVT_OK);
    assert_null(gateway_reader_held(reader, 0, 1));
    gateway_reader_close(reader);
}

static void
removed_while_it_is_read(void **state)
{
    struct fixture *f = *state;
    struct gateway_reader *reader = open_reader(f);

    assert_int_equal(read_range(f, reader, 0, PIECE, PIECE), PIECE);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(read_range(f, reader, PIECE, SIZE, PIECE), SIZE);
    gateway_reader_close(reader);
    assert_int_equal(gateway_reader_open(&reader, f->gateway.context, &f->item, &f->budget),
                     KVT_UNSUPPORTED); /* which reads it whole, and finds it gone */
    assert_null(reader);
}

static void
no_room(void **state)
{
    struct fixture *f = *state;
    struct gateway_reader *reader;

    f->budget.max = PIECE - 1;
    assert_int_equal(gateway_reader_open(&reader, f->gateway.context, &f->item, &f->budget),
                     KVT_AGAIN);
    f->budget.max = PIECE; /* for pieces, but not for the whole when it comes to that */
    reader = open_reader(f);
    flip(f, f->file, PIECE + 5);
    assert_int_equal(read_range(f, reader, 0, SIZE, PIECE), PIECE);
    assert_int_equal(gateway_reader_fetch(reader, PIECE), KVT_AGAIN);
    gateway_reader_close(reader);
}

/* A block that is asked for again costs memory once, however many send it, and the budget
 * nothing. */
static void
out_of_sealed_memory(void **state)
{
    struct fixture *f = *state;
    struct gateway_context *context = f->gateway.context;
    struct gateway_reader *readers[3];
    struct gateway_hot_memory_body *body;
    struct g4_body file;
    struct kvt_error err;
    int fd;

    assert_true(SIZE >= GATEWAY_HOT_MEMORY_MIN);
    assert_int_equal(gateway_hot_memory_new(&context->hot_memory, 4 * (uint64_t)SIZE), KVT_OK);
    for (unsigned i = 0; i < 3; i++) {
        readers[i] = open_reader(f);
        gateway_reader_seal(readers[i]);
        assert_int_equal(gateway_reader_fetch(readers[i], 0), KVT_OK);
    }
    assert_int_equal(atomic_load(&f->budget.used), PIECE); /* the first one's */
    assert_int_equal(gateway_reader_take_sealed(readers[0]), -1);
    assert_int_equal(read_range(f, readers[0], 0, SIZE, PIECE), SIZE);
    fd = gateway_reader_take_sealed(readers[1]);
    assert_true(fd >= 0);
    assert_int_equal(gateway_reader_take_sealed(readers[1]), -1);
    assert_int_equal(pread(fd, f->found, SIZE, 0), SIZE);
    assert_memory_equal(f->found, f->wanted, SIZE);
    (void)close(fd);
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_HOT), 3);
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_SEALED), 1);
    for (unsigned i = 0; i < 3; i++)
        gateway_reader_close(readers[i]);
    assert_int_equal(g4_directory_body(context->tiers.hot, f->key, &file, &err), KVT_OK);
    body = gateway_hot_memory_take(context->hot_memory, &file);
    assert_non_null(body);
    gateway_hot_memory_give(context->hot_memory, body);
    g4_body_close(&file);
}

/* ---- without waiting ---- */

static enum kvt_err
peek(struct fixture *f, bool seal, struct gateway_reader **reader)
{
    return gateway_reader_peek(reader, f->gateway.context, &f->item, &f->budget, seal);
}

/* Not every file system reads without waiting, and not every sandbox knows the calls. */
static bool
can_peek(struct fixture *f)
{
    struct g4_body body;
    const bool can = g4_directory_peek(f->gateway.context->tiers.hot, f->key, &body) == KVT_OK;

    g4_body_close(&body);
    if (!can)
        print_message("nothing can be read at once here\n");
    return can;
}

static void
at_once(void **state)
{
    struct fixture *f = *state;
    struct gateway_reader *reader = open_reader(f);

    assert_int_equal(read_range(f, reader, 0, SIZE, PIECE), SIZE); /* and it is in memory */
    gateway_reader_close(reader);
    if (!can_peek(f))
        return;
    assert_int_equal(peek(f, false, &reader), KVT_OK);
    assert_non_null(gateway_reader_held(reader, 0, PIECE));
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_HOT), 1); /* without its first fetch */
    assert_int_equal(read_range(f, reader, 0, SIZE, PIECE), SIZE);
    gateway_reader_close(reader);
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_HOT), 1);
    f->budget.max = PIECE - 1;
    assert_int_equal(peek(f, false, &reader), KVT_AGAIN);
    assert_null(reader);
    f->budget.max = PIECE;
    flip(f, f->file, PIECE - 1);
    assert_int_equal(peek(f, false, &reader), KVT_AGAIN);
    assert_null(reader);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(peek(f, false, &reader), KVT_AGAIN);
    assert_null(reader);
    assert_int_equal(stat_of(f, GATEWAY_STAT_HITS_HOT), 1);
}

static void
at_once_out_of_sealed_memory(void **state)
{
    struct fixture *f = *state;
    struct gateway_reader *reader;

    assert_int_equal(gateway_hot_memory_new(&f->gateway.context->hot_memory, 4 * (uint64_t)SIZE),
                     KVT_OK);
    for (unsigned i = 0; i < 2; i++) { /* whether it is worth its place, others find out */
        assert_int_equal(peek(f, true, &reader), KVT_AGAIN);
        reader = open_reader(f);
        gateway_reader_seal(reader);
        gateway_reader_close(reader);
    }
    if (!can_peek(f))
        return;
    assert_int_equal(peek(f, true, &reader), KVT_OK);
    assert_int_equal(atomic_load(&f->budget.used), 0);
    assert_true(gateway_reader_take_sealed(reader) >= 0);
    gateway_reader_close(reader);
}

static struct gateway_request *
ask_at_once(struct test_scene *scene, const char *method, const char *raw, const char *header,
            bool *done)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    kvt_buffer_init(&request->answer, 1u << 20);
    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    request->status = 200;
    request->takes_reader = true;
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    if (header != NULL)
        assert_int_equal(gateway_request_header_add(request, header, "bytes=0-9"), KVT_OK);
    request->principal = scene->who;
    *done = gateway_s3_dispatch_at_once(&scene->s3, request);
    return request;
}

static bool
is_done_at_once(struct test_scene *scene, const char *method, const char *raw, const char *header)
{
    bool done;
    struct gateway_request *request = ask_at_once(scene, method, raw, header, &done);

    if (!done) { /* it can be asked anew as if nothing had been */
        assert_null(request->reader);
        assert_int_equal(request->field_count, 0);
        assert_int_equal(request->fault, GATEWAY_S3_ERROR_NONE);
    }
    test_scene_done(scene, request);
    return done;
}

/* Of requests only the plain GET of a block that the asker may read. */
static void
requests_at_once(void **state)
{
    struct test_scene scene = {0};
    struct gateway_request *request;
    const void *held;
    char url[KVT_KEY_MAX + 32];
    char key[KVT_KEY_MAX];
    uint8_t *wanted = kvt_calloc(1, PIECE);
    struct g4_body body;
    bool done;

    (void)state;
    test_scene_open(&scene, 8u << 20);
    scene.s3.context = scene.gateway.context;
    scene.who = &test_scene_owner;
    test_gateway_fill(wanted, PIECE, NUMBER);
    assert_int_equal(test_gateway_put(&scene.gateway, NUMBER, PIECE), KVT_OK);
    (void)snprintf(url, sizeof(url), "/kvtier/%s", test_gateway_key(key, NUMBER));
    request = test_scene_ask(&scene, "GET", url, NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    test_scene_done(&scene, request);

    done = g4_directory_peek(scene.gateway.context->tiers.hot, key, &body) == KVT_OK;
    g4_body_close(&body);
    if (done) {
        request = ask_at_once(&scene, "GET", url, NULL, &done);
        assert_true(done);
        assert_int_equal(request->status, 200);
        held = gateway_reader_held(request->reader, request->body_from, request->body_size);
        assert_int_equal(request->body_size, PIECE);
        assert_memory_equal(held, wanted, PIECE);
        assert_string_not_equal(test_scene_field(request, "ETag"), "");
        test_scene_done(&scene, request);
    }
    assert_false(is_done_at_once(&scene, "GET", url, "range"));
    assert_false(is_done_at_once(&scene, "GET", url, "if-match"));
    assert_false(is_done_at_once(&scene, "HEAD", url, NULL));
    assert_false(is_done_at_once(&scene, "PUT", url, NULL));
    assert_false(is_done_at_once(&scene, "GET", "/kvtier/", NULL));
    assert_false(is_done_at_once(&scene, "GET", "/", NULL));
    assert_false(is_done_at_once(&scene, "GET", "/kvtier/some/file", NULL));
    (void)snprintf(url, sizeof(url), "/another/%s", key);
    assert_false(is_done_at_once(&scene, "GET", url, NULL));
    (void)snprintf(url, sizeof(url), "/kvtier/%s?partNumber=1", key);
    assert_false(is_done_at_once(&scene, "GET", url, NULL));
    (void)snprintf(url, sizeof(url), "/kvtier/%s", test_gateway_key(key, NUMBER + 1));
    assert_false(is_done_at_once(&scene, "GET", url, NULL));
    (void)snprintf(url, sizeof(url), "/kvtier/%s", test_gateway_key(key, NUMBER));
    scene.who = NULL;
    assert_false(is_done_at_once(&scene, "GET", url, NULL));
    kvt_free(wanted);
    test_scene_close(&scene);
}

static bool
open_once(void *arg)
{
    struct fixture *f = arg;
    struct gateway_reader *reader;
    const enum kvt_err rc = gateway_reader_open(&reader, f->gateway.context, &f->item, &f->budget);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    assert_true((reader != NULL) == (rc == KVT_OK));
    gateway_reader_close(reader);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    assert_true(test_sweep_allocations(open_once, *state) >= 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_range_in_any_portions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_while_it_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_bucket_is_bad_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removed_while_it_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(out_of_sealed_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(at_once_out_of_sealed_memory, set_up, tear_down),
        cmocka_unit_test(requests_at_once),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, set_up, tear_down),
    };

    (void)setenv("TMPDIR", "/var/tmp", 1); /* a tmpfs does not read without waiting */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
