/*
 * What is tested: what ranks of instances have of a block (worker/instances/shard.h) and say to
 * each other (worker/instances/instance_message.h), and what its leader calls it
 * (worker/instances/trace_prefix.h): shards of any TP size are slices of the same bytes; every
 * other block, head, layer and byte is seen; messages that are cut or too long are refused; names
 * are those of the tokens. How: all ranks of each size; random changes (seed printed).
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"
#include "worker/instances/instance_message.h"
#include "worker/instances/shard.h"
#include "worker/instances/trace_prefix.h"

enum { BLOCK = 128 << 10 };

static uint8_t *
filled(const struct worker_shard *shard, uint64_t hash)
{
    uint8_t *block = kvt_aligned(4096, shard->layout.block_size);

    assert_non_null(block);
    for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++)
        worker_shard_fill(shard, hash, layer, block);
    return block;
}

static void
make(struct worker_shard *shard, uint32_t tp, uint32_t rank)
{
    struct kvt_error err;

    assert_int_equal(worker_shard_make(shard, BLOCK, tp, rank, &err), KVT_OK);
}

static void
shards_of_any_size_are_slices_of_one_block(void **state)
{
    struct worker_shard whole;
    uint8_t *all;

    (void)state;
    make(&whole, 1, 0);
    all = filled(&whole, 77);
    for (uint32_t tp = 2; tp <= WORKER_SHARD_HEADS; tp *= 2)
        for (uint32_t rank = 0; rank < tp; rank++) {
            struct worker_shard shard;
            uint8_t *part;

            make(&shard, tp, rank);
            assert_int_equal(shard.layout.block_size, BLOCK / tp);
            part = filled(&shard, 77);
            assert_memory_equal(part, all + (size_t)rank * BLOCK / tp, BLOCK / tp);
            kvt_free(part);
        }
    kvt_free(all);
}

static void
what_is_not_the_shard_is_seen(void **state)
{
    uint64_t random = test_seed();
    struct worker_shard shard;
    struct worker_shard beside;
    uint8_t *block;

    (void)state;
    make(&shard, 4, 2);
    make(&beside, 4, 1);
    block = filled(&shard, 5);
    for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++) {
        assert_int_equal(worker_shard_check(&shard, 5, layer, block), 0);
        assert_true(worker_shard_check(&shard, 6, layer, block) > shard.run / 2);
        assert_true(worker_shard_check(&beside, 5, layer, block) > shard.run / 2);
    }
    for (int round = 0; round < 200; round++) {
        const size_t at = (size_t)kvt_random_below(&random, BLOCK / 4);
        const uint32_t layer = (uint32_t)(at / shard.run % WORKER_SHARD_LAYERS);

        block[at] ^= 1;
        for (uint32_t i = 0; i < WORKER_SHARD_LAYERS; i++)
            assert_int_equal(worker_shard_check(&shard, 5, i, block), i == layer ? 1 : 0);
        block[at] ^= 1;
    }
    kvt_free(block);
}

static void
sizes_that_cannot_be_are_refused(void **state)
{
    struct worker_shard shard;
    struct kvt_error err;

    (void)state;
    assert_int_equal(worker_shard_make(&shard, BLOCK, 3, 0, &err), KVT_INVALID);
    assert_string_equal(err.text,
                        "tp: 3 ranks cannot share the model's 8 heads: 1, 2, 4 or 8, or any "
                        "number that hold the same (--replicated)");
    assert_int_equal(worker_shard_make(&shard, 4096, 2, 0, &err), KVT_INVALID);
    assert_int_equal(worker_shard_make(&shard, BLOCK, 0, 0, &err), KVT_INVALID);
}

static void
messages_are_read_as_they_were_written(void **state)
{
    static const char text[] = "eleven byte";
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, 4096);
    worker_message_put(&out, 2);
    worker_message_put(&out, UINT64_MAX);
    worker_message_put(&out, 7);
    worker_message_put_bytes(&out, text, sizeof(text) - 1);
    assert_true(kvt_buffer_ok(&out));
    for (size_t cut = 0; cut <= out.size; cut++) {
        struct worker_message message = {.bytes = out.data, .size = cut};
        const size_t count = worker_message_get_count(&message, 1);
        const uint64_t first = count == 2 ? worker_message_get(&message) : 0;
        const uint64_t second = count == 2 ? worker_message_get(&message) : 0;
        size_t size;
        const uint8_t *bytes = worker_message_get_bytes(&message, &size);

        assert_int_equal(worker_message_end(&message), cut == out.size);
        if (cut < out.size)
            continue;
        assert_true(first == UINT64_MAX && second == 7);
        assert_int_equal(size, sizeof(text) - 1);
        assert_memory_equal(bytes, text, size);
    }
    worker_message_put(&out, 0); /* more than is asked for */
    {
        struct worker_message message = {.bytes = out.data, .size = out.size};
        size_t size;

        assert_int_equal(worker_message_get_count(&message, 1 << 20), 0);
        assert_true(message.bad);
        message = (struct worker_message){.bytes = out.data, .size = out.size};
        (void)worker_message_get(&message);
        assert_null(worker_message_get_bytes(&message, &size)); /* 2^64 - 1 of them */
        message = (struct worker_message){.bytes = out.data, .size = out.size};
        for (int i = 0; i < 3; i++)
            (void)worker_message_get(&message);
        (void)worker_message_get_bytes(&message, &size);
        assert_false(worker_message_end(&message));
    }
    kvt_buffer_release(&out);
}

static void
names_are_those_of_the_tokens(void **state)
{
    enum { COUNT = 40, SEED = 77 };
    struct kvbm_label labels[COUNT];
    uint64_t ids[COUNT];
    uint64_t chain = 0;

    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = (i * UINT64_C(0x9e3779b97f4a7c15)) ^ i;
    assert_int_equal(worker_trace_prefix_labels(ids, COUNT, SEED, labels), KVT_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t tokens[WORKER_TRACE_PREFIX_TOKENS] = {(uint32_t)ids[i],
                                                             (uint32_t)(ids[i] >> 32)};
        const uint64_t local = kvt_token_block(tokens, WORKER_TRACE_PREFIX_TOKENS, NULL, 0, SEED);

        assert_int_equal(labels[i].tokens_hash, local);
        assert_int_equal(labels[i].id.position, i);
        assert_int_equal(labels[i].id.parent, i == 0 ? 0 : chain);
        chain = i == 0 ? local : kvt_token_chain(chain, local);
        assert_int_equal(labels[i].id.hash, chain);
    }
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_of_any_size_are_slices_of_one_block),
        cmocka_unit_test(names_are_those_of_the_tokens),
        cmocka_unit_test(what_is_not_the_shard_is_seen),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(messages_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
