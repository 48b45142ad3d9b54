/*
 * What is tested: g4/object/pieces.h and g4/directory/body.h: the crcs of pieces make the crc of
 * the whole for any size, bodies come back piece by piece, and no piece that was flipped, cut or
 * swapped is given out, whenever that happened; files without pieces say so.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/directory/file_name.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

#define KEY "block"

enum { PIECE = 1 << G4_PIECES_SHIFT_MIN, SIZE = 3 * PIECE + 1000, WHOLE_MAX = 9 << 20 };

struct fixture {
    char folder[128];
    char file[512]; /* of KEY */
    struct g4_store *store;
    uint8_t body[SIZE];
    uint8_t piece[PIECE];
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct g4_directory_options options = {.path = f->folder};
    char name[G4_FILE_NAME_MAX];

    (void)test_folder_make(f->folder, sizeof(f->folder));
    assert_int_equal(g4_directory_open(&f->store, &options, NULL), KVT_OK);
    g4_file_name_format(KEY, name);
    (void)snprintf(f->file, sizeof(f->file), "%s/objects/%s", f->folder, name);
    fill(f->body, SIZE, test_seed());
    assert_int_equal(put(f->store, KEY, f->body, SIZE, NULL), KVT_OK);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_store_close(f->store);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

/* A body that comes bit by bit makes the same pieces; one that ends early, or goes on, none. */
static void
comes_in_steps(const uint8_t *body, size_t size, const struct g4_pieces *whole, uint64_t *random)
{
    struct g4_pieces_feed feed;
    uint32_t crc;

    g4_pieces_begin(&feed, size);
    for (size_t at = 0; at < size;) {
        const size_t step = 1 + kvt_random_below(random, size - at < PIECE ? size - at : 3 * PIECE);
        const size_t left = size - at < step ? size - at : step;

        assert_false(g4_pieces_end(&feed, size, &crc));
        g4_pieces_take(&feed, body + at, left);
        at += left;
    }
    assert_true(g4_pieces_end(&feed, size, &crc));
    assert_int_equal(crc, g4_check_crc32c(body, size));
    assert_memory_equal(&feed.pieces, whole, sizeof(*whole));
    assert_false(g4_pieces_end(&feed, size + 1, &crc));
    g4_pieces_take(&feed, "more", 4);
    assert_false(g4_pieces_end(&feed, size, &crc));
    assert_false(g4_pieces_end(&feed, size + 4, &crc));
}

static void
pieces_make_the_whole(void **state)
{
    static const size_t edges[] = {0,
                                   1,
                                   PIECE - 1,
                                   PIECE,
                                   PIECE + 1,
                                   2 * PIECE,
                                   G4_PIECES_MAX * PIECE,
                                   G4_PIECES_MAX * PIECE + 1};
    uint64_t random = test_seed();
    uint8_t *body = kvt_calloc(1, WHOLE_MAX);

    (void)state;
    fill(body, WHOLE_MAX, random);
    for (size_t i = 0; i < 40; i++) {
        const size_t size = i < sizeof(edges) / sizeof(edges[0])
                                ? edges[i]
                                : kvt_random_below(&random, WHOLE_MAX >> (i % 12));
        struct g4_pieces pieces;
        const uint32_t crc = g4_pieces_describe(&pieces, body, size);
        size_t total = 0;

        assert_int_equal(crc, g4_check_crc32c(body, size));
        assert_true(g4_pieces_fit(&pieces, size, crc));
        assert_false(g4_pieces_fit(&pieces, size, crc ^ 1));
        comes_in_steps(body, size, &pieces, &random);
        for (uint64_t number = 0; number <= G4_PIECES_MAX; number++)
            total += g4_pieces_length(&pieces, size, number);
        assert_int_equal(total, size);
        if (size == 0)
            continue;
        if (size >= PIECE) /* the length of a single piece is its file's to tell */
            assert_false(g4_pieces_fit(&pieces, size + 1, crc));
        pieces.crc32c[kvt_random_below(&random, (size - 1) / g4_pieces_size(&pieces) + 1)] ^=
            1u << kvt_random_below(&random, 32);
        assert_false(g4_pieces_fit(&pieces, size, crc));
        pieces.shift = 0;
        assert_false(g4_pieces_fit(&pieces, size, crc));
        pieces.shift = UINT32_MAX;
        assert_false(g4_pieces_fit(&pieces, size, crc));
    }
    kvt_free(body);
}

static void
open_body(struct fixture *f, struct g4_body *body)
{
    struct kvt_error err = {.code = KVT_OK};

    if (g4_directory_body(f->store, KEY, body, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(body->object.meta.length, SIZE);
}

/* KVT_OK means the right bytes. */
static enum kvt_err
read_piece(struct fixture *f, const struct g4_body *body, uint64_t number, bool wait)
{
    const size_t size = g4_pieces_length(&body->object.pieces, SIZE, number);
    struct kvt_error err;
    enum kvt_err rc;

    rc = g4_body_read(body, number, f->piece, wait, &err);
    if (rc == KVT_OK)
        assert_memory_equal(f->piece, f->body + number * PIECE, size);
    return rc;
}

static void
a_body_comes_in_pieces(void **state)
{
    struct fixture *f = *state;
    struct g4_body body;

    open_body(f, &body);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(read_piece(f, &body, i, true), KVT_OK);
    assert_int_equal(read_piece(f, &body, 2, false), KVT_OK); /* it was read just now */
    assert_int_equal(del(f->store, KEY), KVT_OK);
    for (uint64_t i = 4; i-- > 0;) /* whoever has it open still does */
        assert_int_equal(read_piece(f, &body, i, true), KVT_OK);
    g4_body_close(&body);
    assert_int_equal(g4_directory_body(f->store, KEY, &body, &(struct kvt_error){0}), KVT_NOTFOUND);
    assert_int_equal(body.fd, -1);
}

static void
write_at(const struct fixture *f, off_t at, const void *bytes, size_t size)
{
    const int fd = open(f->file, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    (void)close(fd);
}

static void
what_changes_under_a_reader_is_noticed(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    const size_t at = kvt_random_below(&random, PIECE);
    const uint8_t flipped = f->body[PIECE + at] ^ (uint8_t)(1u << kvt_random_below(&random, 8));
    struct g4_body body;

    open_body(f, &body);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(read_piece(f, &body, i, true), KVT_OK);
    write_at(f, (off_t)(G4_OBJECT_FILE_BODY_AT + PIECE + at), &flipped, 1);
    assert_int_equal(read_piece(f, &body, 0, true), KVT_OK);
    assert_int_equal(read_piece(f, &body, 1, true), KVT_CORRUPT);
    assert_int_equal(read_piece(f, &body, 1, false), KVT_CORRUPT);
    assert_int_equal(read_piece(f, &body, 2, true), KVT_OK);
    write_at(f, G4_OBJECT_FILE_BODY_AT + PIECE, f->body + PIECE, PIECE);
    assert_int_equal(read_piece(f, &body, 1, true), KVT_OK);
    /* Two pieces that changed places are both whole, and both wrong. */
    write_at(f, G4_OBJECT_FILE_BODY_AT, f->body + PIECE, PIECE);
    write_at(f, G4_OBJECT_FILE_BODY_AT + PIECE, f->body, PIECE);
    assert_int_equal(read_piece(f, &body, 0, true), KVT_CORRUPT);
    assert_int_equal(read_piece(f, &body, 1, true), KVT_CORRUPT);
    assert_int_equal(truncate(f->file, G4_OBJECT_FILE_BODY_AT + 2 * PIECE + 7), 0);
    assert_int_equal(read_piece(f, &body, 2, true), KVT_CORRUPT);
    assert_int_equal(read_piece(f, &body, 2, false), KVT_AGAIN);
    assert_int_equal(read_piece(f, &body, 3, true), KVT_CORRUPT);
    g4_body_close(&body);
    assert_int_equal(g4_directory_body(f->store, KEY, &body, &(struct kvt_error){0}), KVT_CORRUPT);
}

/* A header that is whole in itself, but whose pieces or whose absence of them tell. */
static void
headers_are_compared_with_their_pieces(void **state)
{
    struct fixture *f = *state;
    uint8_t header[G4_OBJECT_FILE_HEADER_SIZE];
    struct kvt_error err;
    struct g4_body body;

    open_body(f, &body);
    body.object.pieces.crc32c[2] ^= 4;
    g4_object_file_encode(&body.object, header);
    write_at(f, 0, header, sizeof(header));
    body.object.pieces.shift = 0;
    g4_body_close(&body);
    assert_int_equal(g4_directory_body(f->store, KEY, &body, &err), KVT_CORRUPT);
    body.object.pieces.shift = 0;
    g4_object_file_encode(&body.object, header);
    write_at(f, 0, header, sizeof(header));
    assert_int_equal(g4_directory_body(f->store, KEY, &body, &err), KVT_UNSUPPORTED);
}

/* One read that waits for no disk says what the other one does, or that it cannot. */
static void
a_header_is_read_at_once_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    struct g4_object_file object;
    struct kvt_error err;
    struct g4_body body;

    open_body(f, &body);
    assert_int_equal(g4_object_file_read_at_once(body.fd, KEY, &object, &err), KVT_OK);
    assert_memory_equal(&object, &body.object, sizeof(object));
    assert_int_equal(g4_object_file_read_at_once(body.fd, "another", &object, &err), KVT_CORRUPT);
    assert_int_equal(truncate(f->file, G4_OBJECT_FILE_HEADER_SIZE - 1), 0);
    assert_int_equal(g4_object_file_read_at_once(body.fd, KEY, &object, &err), KVT_AGAIN);
    assert_int_equal(g4_object_file_read(body.fd, KEY, &object, &err), KVT_CORRUPT);
    g4_body_close(&body);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test_setup_teardown(a_body_comes_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_changes_under_a_reader_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(headers_are_compared_with_their_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_header_is_read_at_once_or_not_at_all, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
