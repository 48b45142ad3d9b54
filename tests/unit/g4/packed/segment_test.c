/*
 * What is tested: g4/packed/segment.h: what goes in comes out, beside an array of blocks; every
 * limit; no damaged byte and no cut goes unseen; no allocation is taken for granted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/packed/segment.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { BLOCKS = 200, BODY_MAX = 3000, SMALL = 3 };

static const struct g4_segment_name name = {.epoch = 7, .nonce = 0x0123456789abcdef};

struct model {
    struct g4_segment_entry entry; /* without its offset */
    uint8_t body[BODY_MAX];
};

static int
compare(const void *a, const void *b)
{
    return g4_segment_entry_compare(a, b);
}

static const struct g4_segment_entry *
find(const struct g4_segment *segment, const struct g4_segment_entry *block)
{
    return bsearch(block, segment->entries, segment->count, sizeof(*segment->entries), compare);
}

/* Hashes from few values, so that blocks differ in their other members too. */
static void
make_block(struct model *block, uint64_t *random, unsigned serial)
{
    const uint32_t position = (uint32_t)kvt_random_below(random, 3) * serial;

    block->entry = (struct g4_segment_entry){
        .hash = kvt_random_below(random, 8) * UINT64_C(0x2000000000000001),
        .parent = position == 0 ? 0 : kvt_random_next(random),
        .rank = position == 0 ? serial % KVT_RANKS_MAX : 0,
        .position = position,
        .fingerprint = kvt_random_next(random),
        .length = 1 + (uint32_t)kvt_random_below(random, BODY_MAX),
    };
    if (position == 0)
        block->entry.hash = kvt_random_next(random);
    fill(block->body, block->entry.length, kvt_random_next(random));
    block->entry.crc32c = g4_check_crc32c(block->body, block->entry.length);
}

static enum kvt_err
add(struct g4_segment_builder *builder, const struct model *block)
{
    return g4_segment_builder_add(builder, &block->entry, block->body, block->entry.length, NULL);
}

/* A segment of `count` blocks; the builder keeps the bytes. */
static struct g4_segment_builder *
build(const struct model *blocks, size_t count, const void **bytes, size_t *size)
{
    const struct g4_segment_entry *entries;
    struct g4_segment_builder *builder;

    assert_int_equal(g4_segment_builder_new(&builder, 1 << 20, BLOCKS), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(add(builder, &blocks[i]), KVT_OK);
    assert_int_equal(g4_segment_builder_finish(builder, &name, bytes, size, &entries), KVT_OK);
    return builder;
}

static void
what_goes_in_comes_out(void **state)
{
    struct model *blocks = kvt_calloc(BLOCKS + 1, sizeof(*blocks));
    uint64_t random = test_seed();
    struct g4_segment_builder *builder;
    struct g4_segment segment;
    const void *bytes;
    size_t size;
    size_t need;

    (void)state;
    for (unsigned i = 0; i <= BLOCKS; i++)
        make_block(&blocks[i], &random, i);
    builder = build(blocks, BLOCKS, &bytes, &size);

    /* The trailer alone says how much it takes; so much and everything more is enough. */
    assert_int_equal(g4_segment_open(&segment,
                                     (const uint8_t *)bytes + size - G4_SEGMENT_TRAILER_SIZE,
                                     G4_SEGMENT_TRAILER_SIZE, size, &need, NULL),
                     KVT_AGAIN);
    assert_int_equal(need, G4_SEGMENT_TRAILER_SIZE + BLOCKS * G4_SEGMENT_ENTRY_SIZE);
    assert_null(segment.entries);
    assert_int_equal(
        g4_segment_open(&segment, (const uint8_t *)bytes + size - need, need, size, &need, NULL),
        KVT_OK);
    assert_int_equal(segment.count, BLOCKS);
    assert_int_equal(segment.size, size);
    assert_int_equal(g4_segment_name_compare(&segment.name, &name), 0);
    assert_int_equal(g4_segment_check(&segment, bytes, size, NULL), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct g4_segment_entry *found = find(&segment, &blocks[i].entry);

        assert_non_null(found);
        assert_int_equal(found->length, blocks[i].entry.length);
        assert_int_equal(found->crc32c, blocks[i].entry.crc32c);
        assert_int_equal(found->fingerprint, blocks[i].entry.fingerprint);
        assert_memory_equal((const uint8_t *)bytes + found->offset, blocks[i].body, found->length);
    }
    assert_null(find(&segment, &blocks[BLOCKS].entry));
    g4_segment_release(&segment);
    g4_segment_builder_free(builder);
    kvt_free(blocks);
}

static void
a_builder_has_limits_and_begins_again(void **state)
{
    struct model *blocks = kvt_calloc(SMALL, sizeof(*blocks));
    uint64_t random = test_seed();
    struct g4_segment_builder *builder;
    const struct g4_segment_entry *entries;
    const void *bytes;
    size_t whole = G4_SEGMENT_HEADER_SIZE + G4_SEGMENT_TRAILER_SIZE;
    size_t size;

    (void)state;
    for (unsigned i = 0; i < SMALL; i++) {
        make_block(&blocks[i], &random, i);
        whole += G4_SEGMENT_ENTRY_SIZE + blocks[i].entry.length;
    }
    assert_int_equal(g4_segment_builder_new(&builder, G4_SEGMENT_BYTES_MAX + 1, 1), KVT_RANGE);
    assert_int_equal(g4_segment_builder_new(&builder, 1 << 20, 0), KVT_RANGE);
    assert_int_equal(g4_segment_builder_new(&builder, 1 << 20, G4_SEGMENT_BLOCKS_MAX + 1),
                     KVT_RANGE);
    assert_null(builder);

    /* Bytes: all three fit exactly, and one byte less is too few for the last. */
    for (size_t less = 0; less < 2; less++) {
        assert_int_equal(g4_segment_builder_new(&builder, whole - less, SMALL), KVT_OK);
        assert_int_equal(g4_segment_builder_finish(builder, &name, &bytes, &size, &entries),
                         KVT_INVALID);
        assert_int_equal(add(builder, &blocks[0]), KVT_OK);
        assert_int_equal(add(builder, &blocks[1]), KVT_OK);
        assert_int_equal(add(builder, &blocks[2]), less == 0 ? KVT_OK : KVT_FULL);
        assert_int_equal(g4_segment_builder_count(builder), SMALL - less);
        assert_int_equal(g4_segment_builder_finish(builder, &name, &bytes, &size, &entries),
                         KVT_OK);
        assert_true(less > 0 || size == whole);
        g4_segment_builder_clear(builder);
        assert_int_equal(g4_segment_builder_count(builder), 0);
        assert_int_equal(add(builder, &blocks[2]), KVT_OK);
        g4_segment_builder_free(builder);
    }

    /* Blocks, one twice, no bytes, other bytes, more than any segment of this size can hold. */
    assert_int_equal(g4_segment_builder_new(&builder, 2 * BODY_MAX + 512, 2), KVT_OK);
    assert_int_equal(g4_segment_builder_add(builder, &blocks[0].entry, "", 0, NULL), KVT_INVALID);
    blocks[0].body[0] ^= 1;
    assert_int_equal(add(builder, &blocks[0]), KVT_CORRUPT);
    blocks[0].body[0] ^= 1;
    assert_int_equal(add(builder, &blocks[0]), KVT_OK);
    assert_int_equal(add(builder, &blocks[0]), KVT_OK);
    assert_int_equal(add(builder, &blocks[1]), KVT_FULL);
    assert_int_equal(g4_segment_builder_finish(builder, &name, &bytes, &size, &entries),
                     KVT_INVALID);
    assert_null(bytes);
    g4_segment_builder_free(builder);
    assert_int_equal(g4_segment_builder_new(&builder, whole - 1, 1), KVT_OK);
    blocks[0].entry.length = 0;
    assert_int_equal(g4_segment_builder_add(builder, &blocks[0].entry, blocks[0].body, whole, NULL),
                     KVT_RANGE);
    g4_segment_builder_free(builder);
    kvt_free(blocks);
}

/* Opened from all its bytes, and they are sound. */
static bool
is_sound(const uint8_t *bytes, size_t size)
{
    struct g4_segment segment;
    struct kvt_error err = {.code = KVT_OK};
    size_t need;
    enum kvt_err rc = g4_segment_open(&segment, bytes, size, size, &need, &err);

    if (rc == KVT_OK)
        rc = g4_segment_check(&segment, bytes, size, &err);
    g4_segment_release(&segment);
    assert_true(rc == KVT_OK || (rc == KVT_CORRUPT && err.text[0] != '\0'));
    return rc == KVT_OK;
}

static void
no_damaged_byte_and_no_cut_goes_unseen(void **state)
{
    struct model *blocks = kvt_calloc(SMALL, sizeof(*blocks));
    uint64_t random = test_seed();
    struct g4_segment_builder *builder;
    const void *bytes;
    uint8_t *copy;
    size_t size;

    (void)state;
    for (unsigned i = 0; i < SMALL; i++)
        make_block(&blocks[i], &random, i);
    builder = build(blocks, SMALL, &bytes, &size);
    assert_true(is_sound(bytes, size));
    for (size_t i = 0; i < size; i++) {
        copy = kvt_calloc(size, 1);
        memcpy(copy, bytes, size);
        copy[i] ^= (uint8_t)(1u << kvt_random_below(&random, 8));
        assert_false(is_sound(copy, size));
        kvt_free(copy);
    }
    for (size_t cut = 0; cut < size; cut++) {
        copy = kvt_calloc(cut + 1, 1);
        memcpy(copy, bytes, cut);
        assert_false(is_sound(copy, cut));
        memcpy(copy, (const uint8_t *)bytes + size - cut, cut);
        assert_false(is_sound(copy, cut)); /* from the front */
        kvt_free(copy);
    }
    g4_segment_builder_free(builder);
    kvt_free(blocks);
}

static void
keys_and_names_go_both_ways(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        const struct kvt_block_id id = {
            .hash = kvt_random_next(&random) >> kvt_random_below(&random, 64),
            .parent = kvt_random_next(&random) >> kvt_random_below(&random, 64),
            .position = (uint32_t)kvt_random_next(&random) & KVT_POSITION_MAX &
                        (uint32_t)(UINT64_C(0xffffffff) >> kvt_random_below(&random, 32)),
        };
        const struct g4_segment_name one = {.epoch = kvt_random_next(&random),
                                            .nonce = kvt_random_next(&random)};
        struct g4_segment_entry entry;
        struct g4_segment_name again;
        struct kvt_key parsed;
        char key[KVT_KEY_MAX];
        char text[KVT_KEY_MAX];

        assert_int_equal(kvt_key_format(key, sizeof(key), (enum kvt_key_revision)(i % 3), "t/m",
                                        (uint32_t)i % KVT_RANKS_MAX, &id),
                         KVT_OK);
        assert_int_equal(kvt_key_parse(key, &parsed), KVT_OK);
        entry = g4_segment_entry_of(&parsed);
        assert_int_equal(g4_segment_entry_key(text, "t/m", &entry), KVT_OK);
        assert_string_equal(text, key);

        assert_int_equal(g4_segment_key(key, "t/m", &one), KVT_OK);
        assert_int_equal(kvt_key_parse(key, &parsed), KVT_INVALID);
        assert_int_equal(g4_segment_key_parse(key, "t/m", &again), KVT_OK);
        assert_int_equal(g4_segment_name_compare(&one, &again), 0);
        assert_int_equal(g4_segment_key_parse(key, "t/n", &again), KVT_INVALID);
        key[strlen(key) - 1 - kvt_random_below(&random, 33)] = 'X';
        assert_int_equal(g4_segment_key_parse(key, "t/m", &again), KVT_INVALID);
        assert_int_equal(again.epoch, 0);
    }
    {
        const struct g4_segment_name one = {.epoch = 1};
        char key[KVT_KEY_MAX];

        assert_int_equal(g4_segment_key(key, "", &one), KVT_INVALID);
    }
}

static bool
build_and_open(void *arg)
{
    const struct model *block = arg;
    const struct g4_segment_entry *entries;
    struct g4_segment_builder *builder = NULL;
    struct g4_segment segment = {.count = 0};
    const void *bytes;
    size_t size;
    size_t need;
    enum kvt_err rc = g4_segment_builder_new(&builder, 1 << 20, 10);

    if (rc == KVT_OK)
        rc = add(builder, block);
    if (rc == KVT_OK)
        rc = g4_segment_builder_finish(builder, &name, &bytes, &size, &entries);
    if (rc == KVT_OK)
        rc = g4_segment_open(&segment, bytes, size, size, &need, NULL);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    g4_segment_release(&segment);
    g4_segment_builder_free(builder);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct model *block = kvt_calloc(1, sizeof(*block));
    uint64_t random = test_seed();

    (void)state;
    make_block(block, &random, 1);
    assert_true(test_sweep_allocations(build_and_open, block) >= 4);
    kvt_free(block);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(a_builder_has_limits_and_begins_again),
        cmocka_unit_test(no_damaged_byte_and_no_cut_goes_unseen),
        cmocka_unit_test(keys_and_names_go_both_ways),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
