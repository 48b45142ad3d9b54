/*
 * What is tested: gateway/s3/batch_request.h.  Requests are refused at every truncation and never
 * read beyond their end; answers are per key and in order; a body that does not fit is to be asked
 * for again.
 */
#include <endian.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "gateway/block/recheck.h"
#include "gateway/s3/batch_request.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 3000, KEYS = 10 };

static void
add_number(struct kvt_buffer *out, uint64_t value, size_t size)
{
    const uint64_t bytes = htole64(value);

    kvt_buffer_append(out, &bytes, size);
}

static uint64_t
number_at(const struct kvt_buffer *bytes, size_t at, size_t size)
{
    uint64_t value = 0;

    assert_true(at + size <= bytes->size);
    memcpy(&value, bytes->data + at, size);
    return le64toh(value);
}

static void
ask(struct kvt_buffer *out, const char *const *keys, size_t count)
{
    kvt_buffer_init(out, 1u << 20);
    add_number(out, count, 4);
    for (size_t i = 0; i < count; i++) {
        add_number(out, strlen(keys[i]), 2);
        kvt_buffer_append(out, keys[i], strlen(keys[i]));
    }
}

static void
add_put_of(struct kvt_buffer *out, const char *key, const uint8_t *body, size_t size,
           uint32_t crc32c, uint64_t fingerprint)
{
    add_number(out, strlen(key), 2);
    add_number(out, 0, 2);
    add_number(out, crc32c, 4);
    add_number(out, fingerprint, 8);
    add_number(out, size, 8);
    kvt_buffer_append(out, key, strlen(key));
    kvt_buffer_append(out, body, size);
}

static void
add_put(struct kvt_buffer *out, const char *key, const uint8_t *body, size_t size, uint32_t crc32c)
{
    add_put_of(out, key, body, size, crc32c, 7);
}

/* Each prefix gets its own exact allocation, so that a read behind it is seen by the sanitizer. */
static void
refused_when_cut(const struct kvt_buffer *whole, enum gateway_batch_request_verb verb)
{
    struct gateway_batch_request batch;
    struct kvt_error err;

    for (size_t cut = 0; cut < whole->size; cut++) {
        uint8_t *part = kvt_calloc(1, cut + 1);

        memcpy(part, whole->data, cut);
        assert_int_equal(gateway_batch_request_parse(&batch, verb, part, cut, &err), KVT_INVALID);
        assert_null(batch.names);
        assert_non_null(strstr(err.text, "byte "));
        kvt_free(part);
    }
    assert_int_equal(gateway_batch_request_parse(&batch, verb, whole->data, whole->size, &err),
                     KVT_OK);
    gateway_batch_request_release(&batch);
}

static void
truncations(void **state)
{
    static const char *const keys[] = {"0/0:abc", "ns/1/2:x:y"};
    static const uint8_t body[] = "body";
    struct kvt_buffer bytes;

    (void)state;
    ask(&bytes, keys, 2);
    refused_when_cut(&bytes, GATEWAY_BATCH_REQUEST_HAS);
    refused_when_cut(&bytes, GATEWAY_BATCH_REQUEST_GET);
    kvt_buffer_release(&bytes);
    kvt_buffer_init(&bytes, 4096);
    add_number(&bytes, 2, 4);
    add_put(&bytes, keys[0], body, sizeof(body), 1);
    add_put(&bytes, keys[1], body, sizeof(body), 1);
    refused_when_cut(&bytes, GATEWAY_BATCH_REQUEST_PUT);
    kvt_buffer_release(&bytes);
}

static void
parse_fails(const void *bytes, size_t size, enum gateway_batch_request_verb verb,
            enum kvt_err expected)
{
    struct gateway_batch_request batch;
    struct kvt_error err;

    assert_int_equal(gateway_batch_request_parse(&batch, verb, bytes, size, &err), expected);
}

static void
nonsense(void **state)
{
    static const uint8_t too_many[] = {1, 16, 0, 0};
    static const uint8_t behind[] = {0, 0, 0, 0, 9};
    static const uint8_t empty_key[] = {1, 0, 0, 0, 0, 0};
    static const uint8_t nul_key[] = {1, 0, 0, 0, 3, 0, 'a', 0, 'b'};
    uint8_t long_key[4 + 2 + G4_CLIENT_KEY_MAX] = {1, 0, 0, 0, 1, 4};
    uint8_t flags[4 + 24 + 1] = {1, 0, 0, 0, 1, 0, 1, 0};
    uint8_t length[4 + 24 + 1] = {1, 0, 0, 0, 1, 0, 0, 0};

    (void)state;
    memset(long_key + 6, 'k', G4_CLIENT_KEY_MAX);
    memset(length + 20, 0xff, 8); /* a body of 2^64 - 1 bytes */
    length[28] = 'k';
    parse_fails(too_many, sizeof(too_many), GATEWAY_BATCH_REQUEST_HAS, KVT_RANGE);
    parse_fails(behind, sizeof(behind), GATEWAY_BATCH_REQUEST_HAS, KVT_INVALID);
    parse_fails(empty_key, sizeof(empty_key), GATEWAY_BATCH_REQUEST_HAS, KVT_INVALID);
    parse_fails(nul_key, sizeof(nul_key), GATEWAY_BATCH_REQUEST_HAS, KVT_INVALID);
    parse_fails(long_key, sizeof(long_key), GATEWAY_BATCH_REQUEST_HAS, KVT_INVALID);
    parse_fails(flags, sizeof(flags), GATEWAY_BATCH_REQUEST_PUT, KVT_INVALID);
    parse_fails(length, sizeof(length), GATEWAY_BATCH_REQUEST_PUT, KVT_INVALID);
}

static void
run_of(struct test_gateway *gateway, enum gateway_batch_request_verb verb,
       const struct kvt_buffer *bytes, uint64_t fingerprint, struct gateway_budget *budget,
       size_t limit, struct kvt_buffer *answer)
{
    struct kvt_error err;
    uint64_t taken;

    kvt_buffer_init(answer, limit);
    assert_int_equal(gateway_batch_request_run(gateway->context, verb, bytes->data, bytes->size,
                                               fingerprint, budget, &taken, answer, &err),
                     KVT_OK);
    gateway_budget_give(budget, taken);
}

static void
run(struct test_gateway *gateway, enum gateway_batch_request_verb verb,
    const struct kvt_buffer *bytes, struct gateway_budget *budget, size_t limit,
    struct kvt_buffer *answer)
{
    run_of(gateway, verb, bytes, 0, budget, limit, answer);
}

/* Ten keys: stored, with a broken body, opaque, and the rest; then has and get tell of each. */
static void
results_in_order(void **state)
{
    struct gateway_budget budget = {.max = 1u << 20};
    struct test_gateway gateway;
    struct kvt_buffer bytes;
    struct kvt_buffer answer;
    uint8_t body[SIZE];
    char keys[KEYS][KVT_KEY_MAX];
    const char *names[KEYS];
    size_t at;

    (void)state;
    test_gateway_open(&gateway, 1u << 20, 0);
    kvt_buffer_init(&bytes, 1u << 20);
    add_number(&bytes, KEYS, 4);
    for (unsigned i = 0; i < KEYS; i++) {
        test_gateway_fill(body, SIZE, i);
        names[i] = i == 5 ? "opaque" : test_gateway_key(keys[i], i);
        add_put(&bytes, names[i], body, SIZE, g4_check_crc32c(body, SIZE) ^ (i == 3 ? 1 : 0));
    }
    run(&gateway, GATEWAY_BATCH_REQUEST_PUT, &bytes, &budget, 1u << 20, &answer);
    assert_int_equal(answer.size, 4 * KEYS);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(number_at(&answer, 4 * i, 4), i == 3   ? KVT_CORRUPT
                                                       : i == 5 ? KVT_INVALID
                                                                : KVT_OK);
    kvt_buffer_release(&bytes);
    kvt_buffer_release(&answer);

    ask(&bytes, names, KEYS);
    run(&gateway, GATEWAY_BATCH_REQUEST_HAS, &bytes, &budget, 1u << 20, &answer);
    assert_int_equal(answer.size, 16 * KEYS);
    for (unsigned i = 0; i < KEYS; i++) {
        const bool there = i != 3 && i != 5;

        test_gateway_fill(body, SIZE, i);
        assert_int_equal(number_at(&answer, 16 * i, 4), there ? KVT_OK : KVT_NOTFOUND);
        assert_int_equal(number_at(&answer, 16 * i + 4, 4),
                         there ? g4_check_crc32c(body, SIZE) : 0);
        assert_int_equal(number_at(&answer, 16 * i + 8, 8), there ? SIZE : 0);
    }
    kvt_buffer_release(&answer);

    /* Room for five bodies only: the first five, and "again" for the others. */
    run(&gateway, GATEWAY_BATCH_REQUEST_GET, &bytes, &budget, 16 * KEYS + 5 * SIZE + SIZE / 2,
        &answer);
    at = 0;
    for (unsigned i = 0, given = 0; i < KEYS; i++) {
        const uint64_t status = number_at(&answer, at, 4);

        at += 16;
        if (i == 3 || i == 5) {
            assert_int_equal(status, KVT_NOTFOUND);
        } else if (given == 5) {
            assert_int_equal(status, KVT_AGAIN);
        } else {
            assert_int_equal(status, KVT_OK);
            test_gateway_fill(body, SIZE, i);
            assert_memory_equal(answer.data + at, body, SIZE);
            at += SIZE;
            given++;
        }
    }
    assert_int_equal(at, answer.size);
    assert_int_equal(atomic_load(&budget.used), 0);
    kvt_buffer_release(&bytes);
    kvt_buffer_release(&answer);

    /* No room for it even alone: asking again would never help. */
    ask(&bytes, names, 1);
    run(&gateway, GATEWAY_BATCH_REQUEST_GET, &bytes, &budget, SIZE, &answer);
    assert_int_equal(number_at(&answer, 0, 4), KVT_RANGE);
    kvt_buffer_release(&bytes);
    kvt_buffer_release(&answer);
    test_gateway_close(&gateway);
}

/* Rows of what finds no room are doubted, as the bucket is not asked for the body; what is read
 * there is not asked about once more. */
static void
what_is_not_read_is_doubted(void **state)
{
    struct gateway_budget budget = {.max = 1u << 20};
    struct test_gateway gateway;
    struct kvt_buffer bytes;
    struct kvt_buffer answer;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);

    (void)state;
    test_gateway_open(&gateway, 0, 0);
    assert_int_equal(test_gateway_put(&gateway, 1, SIZE), KVT_OK);
    gateway.options.recheck_ms = 3600000;
    ask(&bytes, &name, 1);
    for (unsigned i = 0; i < 3; i++) {
        test_gateway_reopen(&gateway); /* and nothing was seen yet */
        budget.max = i == 1 ? SIZE - 1 : 1u << 20;
        run(&gateway, GATEWAY_BATCH_REQUEST_GET, &bytes, &budget, i == 0 ? SIZE : 1u << 20,
            &answer);
        assert_int_equal(number_at(&answer, 0, 4), i == 0   ? KVT_RANGE
                                                   : i == 1 ? KVT_AGAIN
                                                            : KVT_OK);
        assert_int_equal(gateway_recheck_round(gateway.context), i < 2 ? 1 : 0);
        kvt_buffer_release(&answer);
    }
    kvt_buffer_release(&bytes);
    test_gateway_close(&gateway);
}

/* Two layouts may give a block under one key as many bytes: who has the one never gets the other's,
 * from the catalog or from a bucket that is asked.  Who tells none gets either, as what was put
 * without one goes to all. */
static void
told_apart(struct test_gateway *gateway, const char *const names[2], const uint8_t *whose)
{
    static const uint64_t asked[] = {7, 8, 0};
    struct gateway_budget budget = {.max = 1u << 20};
    struct kvt_buffer bytes;
    struct kvt_buffer answer;

    ask(&bytes, names, 2);
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t layout = asked[i];
        const uint64_t before =
            gateway_stats_get(gateway->context->stats, GATEWAY_STAT_OTHER_LAYOUT);
        const bool other = layout == 8;
        const size_t second = other ? 16 : 16 + SIZE;

        run_of(gateway, GATEWAY_BATCH_REQUEST_HAS, &bytes, layout, &budget, 1u << 20, &answer);
        assert_int_equal(number_at(&answer, 0, 4), other ? KVT_NOTFOUND : KVT_OK);
        assert_int_equal(number_at(&answer, 8, 8), other ? 0 : SIZE);
        assert_int_equal(number_at(&answer, 16, 4), KVT_OK);
        kvt_buffer_release(&answer);
        run_of(gateway, GATEWAY_BATCH_REQUEST_GET, &bytes, layout, &budget, 1u << 20, &answer);
        assert_int_equal(number_at(&answer, 0, 4), other ? KVT_NOTFOUND : KVT_OK);
        assert_int_equal(number_at(&answer, second, 4), KVT_OK);
        assert_int_equal(answer.size, second + 16 + SIZE);
        assert_memory_equal(answer.data + second + 16, whose, SIZE);
        assert_int_equal(atomic_load(&budget.used), 0);
        kvt_buffer_release(&answer);
        assert_int_equal(gateway_stats_get(gateway->context->stats, GATEWAY_STAT_OTHER_LAYOUT),
                         before + (other ? 2 : 0));
    }
    kvt_buffer_release(&bytes);
}

static void
another_layout_is_not_there(void **state)
{
    static const uint64_t written[] = {7, 0};
    struct gateway_budget budget = {.max = 1u << 20};
    struct test_gateway gateway;
    struct kvt_buffer bytes;
    struct kvt_buffer answer;
    uint8_t body[SIZE];
    char keys[4][KVT_KEY_MAX];
    const char *names[4];

    (void)state;
    test_gateway_open(&gateway, 1u << 20, 0);
    kvt_buffer_init(&bytes, 1u << 20);
    add_number(&bytes, 2, 4);
    test_gateway_fill(body, SIZE, 1);
    for (unsigned i = 0; i < 4; i++) {
        const struct g4_meta meta = {.present = true,
                                     .length = SIZE,
                                     .crc32c = g4_check_crc32c(body, SIZE),
                                     .fingerprint = written[i % 2],
                                     .writer = "elsewhere"};

        names[i] = test_gateway_key(keys[i], i);
        if (i < 2)
            add_put_of(&bytes, names[i], body, SIZE, meta.crc32c, written[i]);
        else /* the bucket alone knows them */
            assert_int_equal(test_gateway_store_put(gateway.bucket, names[i], body, SIZE, &meta),
                             KVT_OK);
    }
    run(&gateway, GATEWAY_BATCH_REQUEST_PUT, &bytes, &budget, 1u << 20, &answer);
    told_apart(&gateway, names, body);
    told_apart(&gateway, names + 2, body);
    kvt_buffer_release(&bytes);
    kvt_buffer_release(&answer);
    test_gateway_close(&gateway);
}

/* A bucket that is away is "again", not an error the client gives up on. */
static void
away_is_again(void **state)
{
    struct gateway_budget budget = {.max = 1u << 20};
    struct test_gateway gateway;
    struct kvt_buffer bytes;
    struct kvt_buffer answer;
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&gateway, 1u << 20, 0);
    test_gateway_fill(body, SIZE, 1);
    kvt_buffer_init(&bytes, 1u << 20);
    add_number(&bytes, 1, 4);
    add_put(&bytes, test_gateway_key(key, 1), body, SIZE, g4_check_crc32c(body, SIZE));
    test_gateway_fault(&gateway, G4_PUT, G4_FAULT_FAIL, KVT_UNAVAILABLE, 1);
    for (int i = 0; i < 2; i++) { /* asked, and then not even asked */
        run(&gateway, GATEWAY_BATCH_REQUEST_PUT, &bytes, &budget, 1u << 20, &answer);
        assert_int_equal(number_at(&answer, 0, 4), KVT_AGAIN);
        kvt_buffer_release(&answer);
    }
    kvt_buffer_release(&bytes);
    test_gateway_close(&gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncations),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(results_in_order),
        cmocka_unit_test(what_is_not_read_is_doubted),
        cmocka_unit_test(another_layout_is_not_there),
        cmocka_unit_test(away_is_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
