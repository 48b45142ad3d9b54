/*
 * What is tested: base/text/msgpack.h: the writer.  The readers are tested by the codecs.
 * How: msgpack-c, another implementation, packs the same values; the bytes must be equal.  Every
 * limit, in the writer and in its buffer, rolls back all.
 */
#include <msgpack.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/text/msgpack.h"

#include "tests/support/seed.h"

enum { BYTES_MAX = 1 << 18, ROUNDS = 2000 };

struct pair {
    struct kvt_buffer buffer;
    struct kvt_msgpack_writer writer;
    msgpack_sbuffer expected;
    msgpack_packer packer;
};

static void
open_pair(struct pair *pair)
{
    kvt_buffer_init(&pair->buffer, BYTES_MAX);
    kvt_msgpack_write(&pair->writer, &pair->buffer, BYTES_MAX);
    msgpack_sbuffer_init(&pair->expected);
    msgpack_packer_init(&pair->packer, &pair->expected, msgpack_sbuffer_write);
}

static void
close_pair(struct pair *pair)
{
    assert_int_equal(kvt_msgpack_done(&pair->writer), KVT_OK);
    assert_int_equal(pair->buffer.size, pair->expected.size);
    assert_memory_equal(pair->buffer.data, pair->expected.data, pair->expected.size);
    kvt_buffer_release(&pair->buffer);
    msgpack_sbuffer_destroy(&pair->expected);
}

static void
put_uint(struct pair *pair, uint64_t value)
{
    kvt_msgpack_put_uint(&pair->writer, value);
    (void)msgpack_pack_uint64(&pair->packer, value);
}

static void
numbers_are_as_short_as_can_be(void **state)
{
    uint64_t random = test_seed();
    struct pair pair;

    (void)state;
    open_pair(&pair);
    for (unsigned bit = 0; bit < 64; bit++) {
        put_uint(&pair, UINT64_C(1) << bit);
        put_uint(&pair, (UINT64_C(1) << bit) - 1);
        put_uint(&pair, (UINT64_C(1) << bit) + 1);
    }
    put_uint(&pair, UINT64_MAX);
    for (unsigned i = 0; i < ROUNDS; i++)
        put_uint(&pair, kvt_random_next(&random) >> kvt_random_below(&random, 64));
    close_pair(&pair);
}

static void
heads_and_bodies_are_as_short_as_can_be(void **state)
{
    static const size_t sizes[] = {0,   1,   15,  16,    31,    32,    33,
                                   255, 256, 257, 65535, 65536, 65537, 70000};
    static const double reals[] = {0.0, -0.0, 1.5, 1e300, 3.0};
    char *text = kvt_calloc(1, 70001);
    struct pair pair;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        open_pair(&pair);
        kvt_msgpack_put_array(&pair.writer, sizes[i]);
        (void)msgpack_pack_array(&pair.packer, sizes[i]);
        kvt_msgpack_put_map(&pair.writer, sizes[i]);
        (void)msgpack_pack_map(&pair.packer, sizes[i]);
        kvt_msgpack_put_bin(&pair.writer, text, sizes[i]);
        (void)msgpack_pack_bin_with_body(&pair.packer, text, sizes[i]);
        memset(text, 'a', sizes[i]);
        text[sizes[i]] = '\0';
        kvt_msgpack_put_str(&pair.writer, text);
        (void)msgpack_pack_str_with_body(&pair.packer, text, sizes[i]);
        close_pair(&pair);
    }
    open_pair(&pair);
    for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
        kvt_msgpack_put_real(&pair.writer, reals[i]);
        (void)msgpack_pack_double(&pair.packer, reals[i]);
    }
    kvt_msgpack_put_bool(&pair.writer, true);
    (void)msgpack_pack_true(&pair.packer);
    kvt_msgpack_put_bool(&pair.writer, false);
    (void)msgpack_pack_false(&pair.packer);
    kvt_msgpack_put_nil(&pair.writer);
    (void)msgpack_pack_nil(&pair.packer);
    close_pair(&pair);
    kvt_free(text);
}

/* [number, "text", number], 1 + 9 + 5 + 2 bytes. */
static enum kvt_err
write_message(struct kvt_buffer *buffer, size_t max)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_write(&writer, buffer, max);
    kvt_msgpack_put_array(&writer, 3);
    kvt_msgpack_put_uint(&writer, UINT64_MAX);
    kvt_msgpack_put_str(&writer, "text");
    kvt_msgpack_put_uint(&writer, 200);
    return kvt_msgpack_done(&writer);
}

static void
what_does_not_fit_leaves_nothing(void **state)
{
    enum { WHOLE = 17, BEFORE = 3 };
    struct kvt_buffer buffer;

    (void)state;
    for (size_t max = 0; max <= WHOLE; max++) {
        for (unsigned limits_buffer = 0; limits_buffer < 2; limits_buffer++) {
            const enum kvt_err expected = max < WHOLE ? KVT_RANGE : KVT_OK;

            kvt_buffer_init(&buffer, limits_buffer ? BEFORE + max : 1024);
            kvt_buffer_append(&buffer, "abc", BEFORE);
            assert_int_equal(write_message(&buffer, limits_buffer ? 1024 : max), expected);
            assert_int_equal(buffer.size, BEFORE + (expected == KVT_OK ? WHOLE : 0));
            assert_memory_equal(buffer.data, "abc", BEFORE);
            kvt_buffer_release(&buffer);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_as_short_as_can_be),
        cmocka_unit_test(heads_and_bodies_are_as_short_as_can_be),
        cmocka_unit_test(what_does_not_fit_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
