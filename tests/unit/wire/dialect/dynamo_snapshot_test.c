/*
 * What is tested: wire/dialect/dynamo_snapshot.h. The bytes that a router of Dynamo 1.3.1 left come
 * to what its workers had been told to publish; what an encoder of the layout in docs/formats.md
 * writes comes back as it was; anything else is refused as a whole.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo_snapshot.h"

#include "tests/support/seed.h"

enum { LIMIT = 1 << 20 };

static void
put(struct kvt_buffer *out, uint64_t value, size_t size)
{
    const uint64_t little = htole64(value);

    kvt_buffer_append(out, &little, size);
}

/* One chain, its blocks counted up from `first`. */
struct chain {
    uint64_t worker;
    uint64_t parent;
    uint64_t first;
    uint64_t count;
    uint32_t tier;
    uint32_t dp_rank;
    bool has_parent;
};

/* Values that no router writes. */
struct oddity {
    uint64_t variant;
    uint64_t parent_tag;
    uint64_t position_tag;
    uint64_t media_tag;
};

static void
encode(struct kvt_buffer *out, const struct chain *chain, const struct oddity *odd)
{
    put(out, chain->worker, 8);
    put(out, chain->tier, 4);
    put(out, 7, 8);
    put(out, odd->variant, 4);
    put(out, odd->parent_tag != 0 ? odd->parent_tag : chain->has_parent, 1);
    if (chain->has_parent)
        put(out, chain->parent, 8);
    put(out, odd->position_tag, 1);
    put(out, chain->count, 8);
    for (uint64_t i = 0; i < chain->count; i++) {
        put(out, chain->first + i, 8);
        put(out, ~(chain->first + i), 8);
        put(out, odd->media_tag, 1);
    }
    put(out, chain->dp_rank, 4);
}

static enum kvt_err
check(const struct kvt_buffer *bytes, uint64_t *chains, uint64_t *blocks)
{
    struct kvt_error err = {.text = ""};
    const enum kvt_err rc =
        wire_dynamo_snapshot_check(bytes->data, bytes->size, chains, blocks, &err);

    assert_true(rc == KVT_OK || strstr(err.text, "dynamo snapshot") != NULL);
    return rc;
}

static void
what_a_router_left_is_what_was_told(void **state)
{
    struct wire_dynamo_snapshot snapshot = {.size = 0};
    struct wire_dynamo_kept kept;
    struct kvt_buffer out;
    char *bytes = NULL;
    uint64_t chains;
    uint64_t blocks;
    enum kvt_err rc;
    bool forks = false;
    bool rank_1 = false;

    (void)state;
    assert_int_equal(kvt_file_read(&bytes, &snapshot.size, KVT_CORPUS "/forks-1.3.1", LIMIT, NULL),
                     KVT_OK);
    snapshot.bytes = (const uint8_t *)bytes;
    assert_int_equal(wire_dynamo_snapshot_check(bytes, snapshot.size, &chains, &blocks, NULL),
                     KVT_OK);
    assert_int_equal(chains, 15);
    assert_int_equal(blocks, 22);
    kvt_buffer_init(&out, LIMIT);
    while ((rc = wire_dynamo_snapshot_next(&snapshot, &kept, NULL)) == KVT_OK) {
        assert_int_equal(kept.worker, UINT64_C(2822004452410191893));
        assert_int_equal(kept.tier, 0);
        kvt_buffer_clear(&out);
        if (kept.has_parent && kept.count == 2) {
            forks = true;
            wire_dynamo_snapshot_write(&kept, 0, 2, &out);
            assert_string_equal(
                kvt_buffer_text(&out),
                "{\"worker_id\":2822004452410191893,\"storage_tier\":\"device\",\"event\":{"
                "\"event_id\":0,\"data\":{\"stored\":{\"parent_hash\":1002,\"start_position\":null,"
                "\"blocks\":[{\"block_hash\":2001,\"tokens_hash\":6320977984009303047,"
                "\"mm_extra_info\":null},{\"block_hash\":2002,\"tokens_hash\":16988655349664461655,"
                "\"mm_extra_info\":null}]}},\"dp_rank\":0}}");
        } else if (kept.dp_rank == 1) {
            rank_1 = true;
            assert_int_equal(kept.count, 6);
            wire_dynamo_snapshot_write(&kept, 1, 1, &out); /* behind the first, which is -5 */
            assert_non_null(strstr(kvt_buffer_text(&out), "\"parent_hash\":18446744073709551611,"));
        }
    }
    assert_int_equal(rc, KVT_NOTFOUND);
    assert_true(forks && rank_1);
    kvt_buffer_release(&out);
    kvt_free(bytes);
}

static void
what_was_encoded_comes_back(void **state)
{
    enum { ROUNDS = 50, CHAINS = 20, BLOCKS = 40 };
    static const struct oddity none;
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t count = kvt_random_below(&random, CHAINS);
        struct wire_dynamo_snapshot snapshot = {.size = 0};
        struct chain chains[CHAINS];
        struct wire_dynamo_kept kept;
        struct kvt_buffer bytes;

        kvt_buffer_init(&bytes, LIMIT);
        put(&bytes, count, 8);
        for (uint64_t i = 0; i < count; i++) {
            chains[i] = (struct chain){
                .worker = kvt_random_next(&random),
                .parent = kvt_random_next(&random),
                .first = kvt_random_next(&random),
                .count = 1 + kvt_random_below(&random, BLOCKS),
                .tier = (uint32_t)kvt_random_below(&random, 4),
                .dp_rank = (uint32_t)kvt_random_next(&random),
                .has_parent = kvt_random_below(&random, 2) == 1,
            };
            encode(&bytes, &chains[i], &none);
        }
        snapshot.bytes = bytes.data;
        snapshot.size = bytes.size;
        for (uint64_t i = 0; i < count; i++) {
            assert_int_equal(wire_dynamo_snapshot_next(&snapshot, &kept, NULL), KVT_OK);
            assert_int_equal(kept.worker, chains[i].worker);
            assert_int_equal(kept.tier, chains[i].tier);
            assert_int_equal(kept.dp_rank, chains[i].dp_rank);
            assert_int_equal(kept.count, chains[i].count);
            assert_int_equal(kept.has_parent, chains[i].has_parent);
            assert_true(!kept.has_parent || kept.parent == chains[i].parent);
        }
        assert_int_equal(wire_dynamo_snapshot_next(&snapshot, &kept, NULL), KVT_NOTFOUND);
        kvt_buffer_release(&bytes);
    }
}

static void
what_does_not_fit_is_refused(void **state)
{
#define GOOD                                                                                       \
    {                                                                                              \
        .worker = 1, .first = 5, .count = 3, .dp_rank = 2                                          \
    }
    static const struct {
        struct chain chain;
        struct oddity odd;
        enum kvt_err expected;
    } cases[] = {
        {GOOD, {.variant = 0}, KVT_OK},
        {GOOD, {.variant = 1}, KVT_INVALID},
        {GOOD, {.parent_tag = 2}, KVT_INVALID},
        {GOOD, {.position_tag = 1}, KVT_INVALID},
        {GOOD, {.media_tag = 1}, KVT_INVALID},
        {{.count = 1, .tier = 3}, {.variant = 0}, KVT_OK},
        {{.count = 1, .tier = 4}, {.variant = 0}, KVT_INVALID},
        {{.count = 0}, {.variant = 0}, KVT_INVALID},
    };
    struct kvt_buffer bytes;
    uint64_t chains;
    uint64_t blocks;

    (void)state;
    kvt_buffer_init(&bytes, LIMIT);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kvt_buffer_clear(&bytes);
        put(&bytes, 1, 8);
        encode(&bytes, &cases[i].chain, &cases[i].odd);
        assert_int_equal(check(&bytes, &chains, &blocks), cases[i].expected);
    }
    /* Every beginning, and anything behind the end. */
    kvt_buffer_clear(&bytes);
    put(&bytes, 2, 8);
    encode(&bytes, &cases[0].chain, &cases[0].odd);
    encode(&bytes, &cases[0].chain, &cases[0].odd);
    assert_int_equal(check(&bytes, &chains, &blocks), KVT_OK);
    assert_int_equal(blocks, 6);
    put(&bytes, 0, 1);
    assert_int_equal(check(&bytes, &chains, &blocks), KVT_INVALID);
    for (bytes.size -= 2; bytes.size > 0; bytes.size--)
        assert_int_equal(check(&bytes, &chains, &blocks), KVT_INVALID);
    kvt_buffer_release(&bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_router_left_is_what_was_told),
        cmocka_unit_test(what_was_encoded_comes_back),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
