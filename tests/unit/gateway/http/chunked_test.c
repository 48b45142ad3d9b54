/*
 * What is tested: gateway/http/chunked.h.  The figures AWS published for a signed body of 65 KiB,
 * with and without a trailer; every cut of a body, every flipped byte of a signed one, and any way
 * of handing it over in pieces.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "gateway/http/chunked.h"

#include "tests/support/seed.h"

/* AWS S3 API reference, "Signature calculations: transferring payload in multiple chunks". */
#define AWS_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define AWS_DATE   "20130524T000000Z"

enum { AWS_BYTES = 66560, AWS_FIRST = 65536, BODY_MAX = 70000 };

struct figure {
    bool has_trailer;
    const char *seed;
    const char *signatures[3];
    const char *tail;
};

static const struct figure aws_plain = {
    .seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    .signatures = {"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                   "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                   "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"},
    .tail = "\r\n",
};

static const struct figure aws_trailer = {
    .has_trailer = true,
    .seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    .signatures = {"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                   "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                   "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"},
    .tail = "x-amz-checksum-crc32c:sOO8/Q==\n\r\n"
            "x-amz-trailer-signature:"
            "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n",
};

static struct gateway_chunked *
open_figure(const struct figure *figure)
{
    struct gateway_chunked_options options = {
        .is_signed = true, .has_trailer = figure->has_trailer, .length = AWS_BYTES};
    struct gateway_chunked *chunked;

    assert_int_equal(g4_sigv4_signer_init(&options.signer, AWS_SECRET, AWS_DATE, "us-east-1", "s3"),
                     KVT_OK);
    (void)snprintf(options.seed, sizeof(options.seed), "%s", figure->seed);
    assert_int_equal(gateway_chunked_new(&chunked, &options), KVT_OK);
    return chunked;
}

static void
write_figure(const struct figure *figure, struct kvt_buffer *wire)
{
    static char letters[AWS_FIRST];

    memset(letters, 'a', sizeof(letters));
    kvt_buffer_init(wire, BODY_MAX);
    kvt_buffer_printf(wire, "10000;chunk-signature=%s\r\n", figure->signatures[0]);
    kvt_buffer_append(wire, letters, AWS_FIRST);
    kvt_buffer_printf(wire, "\r\n400;chunk-signature=%s\r\n", figure->signatures[1]);
    kvt_buffer_append(wire, letters, AWS_BYTES - AWS_FIRST);
    kvt_buffer_printf(wire, "\r\n0;chunk-signature=%s\r\n%s", figure->signatures[2], figure->tail);
    assert_true(kvt_buffer_ok(wire));
}

/* Hand `wire` over in pieces of random size. */
static enum kvt_err
feed(struct gateway_chunked *chunked, const uint8_t *wire, size_t size, struct kvt_buffer *body,
     uint64_t *random, size_t piece_max)
{
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; at < size && rc == KVT_OK;) {
        const size_t left = size - at;
        const size_t piece = 1 + kvt_random_next(random) % piece_max;

        rc = gateway_chunked_take(chunked, wire + at, piece < left ? piece : left, body);
        at += piece < left ? piece : left;
    }
    return rc == KVT_OK ? gateway_chunked_end(chunked) : rc;
}

static void
aws_figures(void **state)
{
    const struct figure *figures[] = {&aws_plain, &aws_trailer};
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kvt_buffer wire;

        write_figure(figures[i], &wire);
        for (size_t piece_max = 1; piece_max <= BODY_MAX; piece_max *= 40) {
            struct gateway_chunked *chunked = open_figure(figures[i]);
            struct kvt_buffer body;

            kvt_buffer_init(&body, BODY_MAX);
            assert_int_equal(feed(chunked, wire.data, wire.size, &body, &random, piece_max),
                             KVT_OK);
            assert_int_equal(body.size, AWS_BYTES);
            assert_int_equal(strspn(kvt_buffer_text(&body), "a"), AWS_BYTES);
            assert_string_equal(
                gateway_chunked_checksums(chunked)->text[GATEWAY_BODY_CHECKSUM_CRC32C],
                figures[i]->has_trailer ? "sOO8/Q==" : "");
            /* What follows the end is refused, and so is everything after that. */
            assert_int_equal(gateway_chunked_take(chunked, "x", 1, &body), KVT_INVALID);
            assert_int_equal(gateway_chunked_end(chunked), KVT_INVALID);
            gateway_chunked_free(chunked);
            kvt_buffer_release(&body);
        }
        kvt_buffer_release(&wire);
    }
}

/* No byte may be another one, except the case of a size's digits and blanks that mean nothing. */
static void
tampered(void **state)
{
    const struct figure *figures[] = {&aws_plain, &aws_trailer};
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 600; round++) {
        const struct figure *figure = figures[round % 2];
        struct gateway_chunked *chunked = open_figure(figure);
        struct kvt_buffer wire;
        struct kvt_buffer body;
        size_t at;

        write_figure(figure, &wire);
        kvt_buffer_init(&body, BODY_MAX);
        /* Half of them in the framing, which is short. */
        at = kvt_random_next(&random) % (round % 4 < 2 ? wire.size : 84);
        at = round % 4 == 3 ? wire.size - 84 + at : at;
        while (wire.data[at] == '\r' || wire.data[at] == '\n')
            at--;
        wire.data[at] ^= 1;
        assert_int_not_equal(feed(chunked, wire.data, wire.size, &body, &random, BODY_MAX), KVT_OK);
        gateway_chunked_free(chunked);
        kvt_buffer_release(&wire);
        kvt_buffer_release(&body);
    }
}

struct unsigned_row {
    const char *wire;
    uint64_t length;
    enum kvt_err rc;
};

static void
unsigned_bodies(void **state)
{
    static const struct unsigned_row rows[] = {
        {"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n", 3, KVT_OK},
        {"1\r\na\r\n2\r\nbc\r\n0\r\nX-Amz-Checksum-Crc32: NSRBwg== \r\n\r\n", 3, KVT_OK},
        {"0\r\n\r\n", 0, KVT_OK},
        {"0003;ext=1\r\nabc\r\n0\r\n\r\n", 3, KVT_OK},
        {"0\r\n\r\n", 3, KVT_RANGE},
        {"3\r\nabc\r\n0\r\n\r\n", 4, KVT_RANGE},
        {"3\r\nabc\r\n0\r\n\r\n", 2, KVT_RANGE},
        {"ffffffffffffffff\r\nabc\r\n0\r\n\r\n", 3, KVT_RANGE},
        {"10000000000000003\r\nabc\r\n0\r\n\r\n", 3, KVT_INVALID},
        {"3\r\nabcd\r\n0\r\n\r\n", 3, KVT_INVALID},
        {"-3\r\nabc\r\n0\r\n\r\n", 3, KVT_INVALID},
        {"\r\nabc\r\n0\r\n\r\n", 3, KVT_INVALID},
        {"3 \r\nabc\r\n0\r\n\r\n", 3, KVT_INVALID},
        {"3\r\nabc\r\n0\r\nno colon\r\n\r\n", 3, KVT_INVALID},
        {"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:short\r\n\r\n", 3, KVT_INVALID},
        {"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n"
         "x-amz-checksum-crc32:NSRBwg==\r\n\r\n",
         3, KVT_INVALID},
        {"3\r\nabc\r\n0\r\na:1\r\na:2\r\na:3\r\na:4\r\na:5\r\na:6\r\na:7\r\na:8\r\na:9\r\n\r\n", 3,
         KVT_INVALID},
        {"3\r\nabc\r\n0\r\n\r\n\r\n", 3, KVT_INVALID},
        {"3;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
         "abc\r\n0\r\n\r\n",
         3, KVT_OK},
    };
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gateway_chunked_options options = {.has_trailer = true,
                                                        .length = rows[i].length};

        for (size_t piece_max = 1; piece_max < 100; piece_max *= 5) {
            struct gateway_chunked *chunked;
            struct kvt_buffer body;

            kvt_buffer_init(&body, 100);
            assert_int_equal(gateway_chunked_new(&chunked, &options), KVT_OK);
            if (feed(chunked, (const uint8_t *)rows[i].wire, strlen(rows[i].wire), &body, &random,
                     piece_max) != rows[i].rc)
                fail_msg("row %zu", i);
            assert_true(body.size <= rows[i].length);
            if (rows[i].rc == KVT_OK)
                assert_memory_equal(kvt_buffer_text(&body), "abc", body.size);
            gateway_chunked_free(chunked);
            kvt_buffer_release(&body);
        }
    }
}

/* A body without trailing headers has none. */
static void
trailer_unasked(void **state)
{
    const struct gateway_chunked_options options = {.length = 0};
    struct gateway_chunked *chunked;
    struct kvt_buffer body;

    (void)state;
    kvt_buffer_init(&body, 100);
    assert_int_equal(gateway_chunked_new(&chunked, &options), KVT_OK);
    assert_int_equal(gateway_chunked_take(chunked, "0\r\na:b\r\n\r\n", 11, &body), KVT_INVALID);
    gateway_chunked_free(chunked);
    kvt_buffer_release(&body);
}

static void
every_cut(void **state)
{
    static const char whole[] = "3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n";
    const struct gateway_chunked_options options = {.has_trailer = true, .length = 3};
    uint64_t random = test_seed();

    (void)state;
    for (size_t size = 0; size < sizeof(whole) - 1; size++) {
        struct gateway_chunked *chunked;
        struct kvt_buffer body;

        kvt_buffer_init(&body, 100);
        assert_int_equal(gateway_chunked_new(&chunked, &options), KVT_OK);
        assert_int_equal(feed(chunked, (const uint8_t *)whole, size, &body, &random, 7), KVT_RANGE);
        gateway_chunked_free(chunked);
        kvt_buffer_release(&body);
    }
}

static bool
attempt(void *arg)
{
    const struct gateway_chunked_options options = {.has_trailer = true, .length = 3};
    struct gateway_chunked *chunked;
    const enum kvt_err rc = gateway_chunked_new(&chunked, &options);

    (void)arg;
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    gateway_chunked_free(chunked);
    return rc == KVT_OK;
}

static void
no_memory(void **state)
{
    (void)state;
    assert_int_equal(test_sweep_allocations(attempt, NULL), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aws_figures),     cmocka_unit_test(tampered),
        cmocka_unit_test(unsigned_bodies), cmocka_unit_test(trailer_unasked),
        cmocka_unit_test(every_cut),       cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
