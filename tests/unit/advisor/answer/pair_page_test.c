/*
 * What is tested: tokens in pairs (EAGLE) on their way through the engine: which blocks they name,
 * and that the size a source's blocks must have is that of the block and not of its window.
 * How: stores of two blocks as an engine sends them, to a source with a block size.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/msgpack.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum {
    MESSAGE_MAX = 1u << 16,
    BLOCK_TOKENS = 2,
    WINDOW = BLOCK_TOKENS + 1,
    BLOCKS = 4,
    ASKED_MS = 30000
};

static const struct advisor_source_ops engine = {.name = "engine-test",
                                                 .dialect = WIRE_DIALECT_ENGINE,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};
static const uint8_t nil = 0xc0;

/* Names of the blocks over the tokens 1, 2, 3, ...: each takes in the next one's first. */
static void
name_blocks(uint64_t names[BLOCKS])
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const uint32_t first = 1 + i * BLOCK_TOKENS;
        const uint32_t tokens[WINDOW] = {first, first + 1, first + 2};
        const uint64_t local = kvt_token_block(tokens, WINDOW, NULL, 0, KVT_TOKEN_SEED);

        names[i] = i == 0 ? local : kvt_token_chain(names[i - 1], local);
    }
}

/* A store of two blocks from block `first` on, which the engine calls 10, 11, ...  Without pairs
 * the block size is that of the window. */
static void
tell(struct test_rig *rig, uint64_t sequence, uint32_t first, bool pairs)
{
    const uint32_t size = pairs ? BLOCK_TOKENS : WINDOW;
    struct kvt_msgpack_writer writer;
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, MESSAGE_MAX);
    kvt_msgpack_write(&writer, &bytes, SIZE_MAX);
    kvt_msgpack_put_array(&writer, 3);
    kvt_msgpack_put_uint(&writer, 1);
    kvt_msgpack_put_array(&writer, 1);
    kvt_msgpack_put_array(&writer, 6);
    kvt_msgpack_put_str(&writer, "BlockStored");
    kvt_msgpack_put_array(&writer, 2);
    kvt_msgpack_put_uint(&writer, 10 + first);
    kvt_msgpack_put_uint(&writer, 11 + first);
    if (first == 0)
        kvt_buffer_append(&bytes, &nil, sizeof(nil));
    else
        kvt_msgpack_put_uint(&writer, 9 + first);
    kvt_msgpack_put_array(&writer, 2 * (size_t)size);
    for (uint32_t i = 0; i < 2 * size; i++) {
        const uint32_t token = 1 + first * BLOCK_TOKENS + i;

        if (pairs)
            kvt_msgpack_put_array(&writer, 2);
        kvt_msgpack_put_uint(&writer, token);
        if (pairs)
            kvt_msgpack_put_uint(&writer, token + 1);
    }
    kvt_msgpack_put_uint(&writer, size);
    kvt_buffer_append(&bytes, &nil, sizeof(nil));
    kvt_msgpack_put_uint(&writer, 0);
    assert_true(kvt_buffer_ok(&bytes));
    test_rig_foreign(rig, 0, sequence, &bytes);
    test_rig_run(rig);
    kvt_buffer_release(&bytes);
}

/* Which of the blocks are known, as bits. */
static uint32_t
known(const struct test_rig *rig)
{
    uint64_t names[BLOCKS];
    uint32_t bits = 0;

    name_blocks(names);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct advisor_finder_block block;

        if (advisor_finder_block(&rig->finder, "ns0", names[i], &block) == KVT_OK &&
            block.place_count == 1 && block.id.position == i)
            bits |= 1u << i;
    }
    return bits;
}

static void
pairs_have_their_blocks_size(void **state)
{
    struct advisor_source_options reads = advisor_source_unset;
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &engine, .reads = &reads, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    reads.block_tokens = BLOCK_TOKENS;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    tell(&rig, 0, 0, true);
    assert_int_equal(test_rig_view(&rig).counts.conflicts, 0);
    assert_int_equal(known(&rig), 0x3);
    tell(&rig, 1, 2, true);
    assert_int_equal(known(&rig), 0xF);
    /* A block as large as the window is not of the source's size. */
    tell(&rig, 2, 0, false);
    assert_int_equal(test_rig_view(&rig).counts.conflicts, 1);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* What a sender says first after a restart is held until it was asked what it said meanwhile. */
static void
run_until_known(struct test_rig *rig, uint32_t bits)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + ASKED_MS;

    do
        test_rig_run(rig);
    while (known(rig) != bits && kvt_clock_mono_ms() < until_ms);
    assert_int_equal(known(rig), bits);
}

/* What waits for its parent keeps its window, also in the store. */
static void
pairs_wait_for_their_parent(void **state)
{
    struct advisor_source_options reads = advisor_source_unset;
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &engine, .reads = &reads, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    reads.block_tokens = BLOCK_TOKENS;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    tell(&rig, 0, 2, true);
    assert_int_equal(known(&rig), 0);
    test_rig_close(&rig);
    test_rig_open(&rig, &options);
    tell(&rig, 1, 0, true);
    run_until_known(&rig, 0xF);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_have_their_blocks_size),
        cmocka_unit_test(pairs_wait_for_their_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
