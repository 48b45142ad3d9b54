/*
 * What is tested: g4/packed/manifest.h: long runs of random changes beside a table with a row for
 * every block there can be; encoding and decoding at every step; limits, damage, cuts, failing
 * memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/packed/manifest.h"

#include "tests/support/seed.h"

enum { BLOCKS = 60, SEGMENTS = 12, ROUNDS = 300, SEGMENT_BLOCKS = 100, BODY = 64 };

static const char ns[] = "tenant/model-1";

/* What the manifest should say of each block. */
struct model {
    bool there[BLOCKS];
    uint64_t segment[BLOCKS]; /* its nonce */
    struct g4_manifest_block blocks[BLOCKS];
};

static struct g4_segment_entry
block_number(unsigned i)
{
    return (struct g4_segment_entry){.hash = (i % 4) * UINT64_C(0x4000000000000001),
                                     .parent = i / 4 % 3,
                                     .position = 1 + i / 12 % 5,
                                     .rank = i % 2};
}

static struct g4_manifest_segment
segment_number(uint64_t nonce)
{
    return (struct g4_manifest_segment){
        .name = {.epoch = nonce % 3, .nonce = nonce},
        .size = G4_SEGMENT_HEADER_SIZE + SEGMENT_BLOCKS * (G4_SEGMENT_ENTRY_SIZE + BODY) +
                G4_SEGMENT_TRAILER_SIZE,
        .blocks = SEGMENT_BLOCKS,
    };
}

static void
compare_with_model(const struct g4_manifest *manifest, const struct model *model)
{
    size_t blocks = 0;
    size_t pending = 0;
    uint64_t live = 0;

    for (unsigned i = 0; i < BLOCKS; i++) {
        const struct g4_segment_entry wanted = block_number(i);
        const struct g4_manifest_block *found = g4_manifest_find(manifest, &wanted);

        assert_int_equal(found != NULL, model->there[i]);
        if (found == NULL)
            continue;
        blocks++;
        pending += found->state == G4_MANIFEST_PENDING;
        assert_true(found->segment < manifest->segment_count);
        assert_int_equal(manifest->segments[found->segment].name.nonce, model->segment[i]);
        assert_int_equal(found->state, model->blocks[i].state);
        assert_memory_equal(&found->entry, &model->blocks[i].entry, sizeof(found->entry));
    }
    assert_int_equal(manifest->block_count, blocks);
    for (size_t i = 0; i < manifest->segment_count; i++) {
        assert_true(manifest->segments[i].live_blocks > 0);
        assert_int_equal(manifest->segments[i].live_bytes,
                         (uint64_t)manifest->segments[i].live_blocks * BODY);
        live += manifest->segments[i].live_blocks;
        pending -= manifest->segments[i].pending;
    }
    assert_int_equal(pending, 0);
    assert_int_equal(live, blocks);
}

/* A row of base or added for the segment with this nonce; `added` grows when it is a new one. */
static uint32_t
row_of(const struct g4_manifest *base, struct g4_manifest_segment *added, size_t *added_count,
       uint64_t nonce)
{
    for (size_t i = 0; i < base->segment_count; i++)
        if (base->segments[i].name.nonce == nonce)
            return (uint32_t)i;
    for (size_t i = 0; i < *added_count; i++)
        if (added[i].name.nonce == nonce)
            return (uint32_t)(base->segment_count + i);
    added[*added_count] = segment_number(nonce);
    return (uint32_t)(base->segment_count + (*added_count)++);
}

/* Some random changes, made to the model too. */
static size_t
make_changes(const struct g4_manifest *base, struct model *model, uint64_t *random,
             struct g4_manifest_change *changes, struct g4_manifest_segment *added,
             size_t *added_count)
{
    size_t count = 0;

    *added_count = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct g4_manifest_change *change = &changes[count];
        const uint64_t nonce = 1 + kvt_random_below(random, SEGMENTS);

        if (kvt_random_below(random, 4) > 0)
            continue;
        count++;
        memset(change, 0, sizeof(*change));
        change->block.entry = block_number(i);
        change->drop = kvt_random_below(random, 3) == 0;
        model->there[i] = !change->drop;
        if (change->drop)
            continue;
        change->block.entry.offset =
            G4_SEGMENT_HEADER_SIZE + (uint32_t)kvt_random_below(random, SEGMENT_BLOCKS) * BODY;
        change->block.entry.length = BODY;
        change->block.entry.crc32c = (uint32_t)kvt_random_next(random);
        change->block.entry.fingerprint = kvt_random_next(random);
        change->block.state = (enum g4_manifest_state)kvt_random_below(random, 2);
        change->block.segment = row_of(base, added, added_count, nonce);
        model->blocks[i] = change->block;
        model->segment[i] = nonce;
    }
    qsort(changes, count, sizeof(*changes), g4_manifest_change_compare);
    return count;
}

/* Through bytes and back. */
static void
send(struct g4_manifest *manifest)
{
    struct g4_manifest again;
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, G4_MANIFEST_BYTES_MAX);
    manifest->nonce = manifest->number * 3;
    manifest->time_ms = manifest->number * 5;
    assert_int_equal(g4_manifest_encode(manifest, ns, &bytes), KVT_OK);
    assert_int_equal(
        g4_manifest_decode(&again, bytes.data, bytes.size, ns, manifest->number + 1, NULL),
        KVT_CORRUPT);
    assert_int_equal(
        g4_manifest_decode(&again, bytes.data, bytes.size, "x", manifest->number, NULL),
        KVT_CORRUPT);
    assert_int_equal(g4_manifest_decode(&again, bytes.data, bytes.size, ns, manifest->number, NULL),
                     KVT_OK);
    assert_int_equal(again.epoch, manifest->epoch);
    assert_int_equal(again.nonce, manifest->nonce);
    assert_int_equal(again.time_ms, manifest->time_ms);
    kvt_buffer_release(&bytes);
    g4_manifest_release(manifest);
    *manifest = again;
}

static void
changes_follow_each_other(void **state)
{
    struct g4_manifest_change *changes = kvt_calloc(BLOCKS, sizeof(*changes));
    struct g4_manifest_segment added[SEGMENTS];
    struct g4_manifest manifest = {.epoch = 4};
    struct model *model = kvt_calloc(1, sizeof(*model));
    uint64_t random = test_seed();

    (void)state;
    compare_with_model(&manifest, model);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct g4_manifest next;
        size_t added_count;
        const size_t count = make_changes(&manifest, model, &random, changes, added, &added_count);

        assert_int_equal(g4_manifest_merge(&next, &manifest, changes, count, added, added_count),
                         KVT_OK);
        assert_int_equal(next.number, round);
        assert_int_equal(next.epoch, 4);
        compare_with_model(&next, model);
        send(&next);
        compare_with_model(&next, model);
        g4_manifest_release(&manifest);
        manifest = next;
    }
    g4_manifest_release(&manifest);
    kvt_free(model);
    kvt_free(changes);
}

static struct g4_manifest_change
change_of(unsigned i, uint32_t segment)
{
    struct g4_manifest_change change = {.block = {.entry = block_number(i), .segment = segment}};

    change.block.entry.offset = G4_SEGMENT_HEADER_SIZE;
    change.block.entry.length = BODY;
    return change;
}

/* A manifest of three blocks in two segments, as bytes. */
static void
small_one(struct kvt_buffer *bytes)
{
    const struct g4_manifest_segment added[] = {segment_number(5), segment_number(1)};
    struct g4_manifest_change changes[] = {change_of(0, 0), change_of(1, 1), change_of(2, 0)};
    const struct g4_manifest none = {.epoch = 1};
    struct g4_manifest manifest;

    qsort(changes, 3, sizeof(changes[0]), g4_manifest_change_compare);
    assert_int_equal(g4_manifest_merge(&manifest, &none, changes, 3, added, 2), KVT_OK);
    kvt_buffer_init(bytes, G4_MANIFEST_BYTES_MAX);
    assert_int_equal(g4_manifest_encode(&manifest, ns, bytes), KVT_OK);
    g4_manifest_release(&manifest);
}

static void
no_damaged_byte_and_no_cut_goes_unseen(void **state)
{
    uint64_t random = test_seed();
    struct g4_manifest manifest;
    struct kvt_buffer bytes;

    (void)state;
    small_one(&bytes);
    for (size_t i = 0; i < bytes.size; i++) {
        const uint8_t bit = (uint8_t)(1u << kvt_random_below(&random, 8));
        struct kvt_error err = {.code = KVT_OK};

        bytes.data[i] ^= bit;
        assert_int_equal(g4_manifest_decode(&manifest, bytes.data, bytes.size, ns, 1, &err),
                         KVT_CORRUPT);
        assert_true(err.text[0] != '\0');
        assert_null(manifest.blocks);
        bytes.data[i] ^= bit;
    }
    for (size_t cut = 0; cut < bytes.size; cut++) {
        uint8_t *copy = kvt_calloc(cut + 1, 1);

        memcpy(copy, bytes.data, cut);
        assert_int_equal(g4_manifest_decode(&manifest, copy, cut, ns, 1, NULL), KVT_CORRUPT);
        kvt_free(copy);
    }
    assert_int_equal(g4_manifest_decode(&manifest, bytes.data, bytes.size, ns, 1, NULL), KVT_OK);
    g4_manifest_release(&manifest);
    kvt_buffer_release(&bytes);
}

static void
what_cannot_be_is_refused(void **state)
{
    const struct g4_manifest_segment added[] = {segment_number(5), segment_number(5)};
    const struct g4_manifest none = {.epoch = 1};
    struct g4_manifest_segment tiny = segment_number(6);
    struct g4_manifest_change changes[] = {change_of(0, 0), change_of(4, 0)};
    struct g4_manifest out;

    (void)state;
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 2, added, 1), KVT_OK);
    g4_manifest_release(&out);
    tiny.blocks = 1;
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 2, &tiny, 1), KVT_INVALID);
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 2, added, 2), KVT_INVALID);
    changes[1].block.segment = 1;
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 2, added, 1), KVT_INVALID);
    changes[1] = changes[0];
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 2, added, 1), KVT_INVALID);
    assert_null(out.blocks);
    changes[0].drop = true;
    assert_int_equal(g4_manifest_merge(&out, &none, changes, 1, added, 1), KVT_OK);
    assert_int_equal(out.block_count + out.segment_count, 0);
    send(&out);
    g4_manifest_release(&out);
}

static void
a_full_manifest_is_an_answer(void **state)
{
    const size_t count = G4_MANIFEST_BLOCKS_MAX + 1;
    const size_t segments = count / SEGMENT_BLOCKS + 1;
    struct g4_manifest_change *changes = kvt_calloc(count, sizeof(*changes));
    struct g4_manifest_segment *added = kvt_calloc(segments, sizeof(*added));
    const struct g4_manifest none = {.epoch = 1};
    struct g4_manifest out;

    (void)state;
    for (size_t i = 0; i < segments; i++)
        added[i] = segment_number(i + 1);
    for (size_t i = 0; i < count; i++) {
        changes[i] = change_of(0, (uint32_t)(i / SEGMENT_BLOCKS));
        changes[i].block.entry.hash = i;
    }
    assert_int_equal(g4_manifest_merge(&out, &none, changes, count, added, segments), KVT_FULL);
    assert_null(out.blocks);
    assert_int_equal(g4_manifest_merge(&out, &none, changes, count - 1, added, segments), KVT_OK);
    assert_int_equal(out.block_count, G4_MANIFEST_BLOCKS_MAX);
    g4_manifest_release(&out);
    kvt_free(changes);
    kvt_free(added);
}

static void
keys_go_both_ways(void **state)
{
    uint64_t random = test_seed();
    uint64_t again;
    char key[KVT_KEY_MAX];
    struct kvt_key parsed;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        const uint64_t number = kvt_random_next(&random) >> kvt_random_below(&random, 63) | 1;

        assert_int_equal(g4_manifest_key(key, ns, number), KVT_OK);
        assert_int_equal(kvt_key_parse(key, &parsed), KVT_INVALID);
        assert_int_equal(g4_manifest_key_parse(key, ns, &again), KVT_OK);
        assert_int_equal(again, number);
        assert_int_equal(g4_manifest_key_parse(key, "tenant", &again), KVT_INVALID);
        key[strlen(key) - 1 - kvt_random_below(&random, 20)] = 'X';
        assert_int_equal(g4_manifest_key_parse(key, ns, &again), KVT_INVALID);
    }
    assert_int_equal(g4_manifest_key(key, ns, 0), KVT_OK);
    assert_int_equal(g4_manifest_key_parse(key, ns, &again), KVT_INVALID);
    assert_int_equal(g4_manifest_key(key, "", 1), KVT_INVALID);
}

static bool
merge_and_decode(void *arg)
{
    const struct kvt_buffer *bytes = arg;
    struct g4_manifest_change change = change_of(9, 2);
    const struct g4_manifest_segment added = segment_number(9);
    struct g4_manifest manifest;
    struct g4_manifest next = {.number = 0};
    struct kvt_buffer out;
    enum kvt_err rc = g4_manifest_decode(&manifest, bytes->data, bytes->size, ns, 1, NULL);

    kvt_buffer_init(&out, G4_MANIFEST_BYTES_MAX);
    if (rc == KVT_OK)
        rc = g4_manifest_merge(&next, &manifest, &change, 1, &added, 1);
    if (rc == KVT_OK)
        rc = g4_manifest_encode(&next, ns, &out);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    g4_manifest_release(&next);
    g4_manifest_release(&manifest);
    kvt_buffer_release(&out);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct kvt_buffer bytes;

    (void)state;
    small_one(&bytes);
    assert_true(test_sweep_allocations(merge_and_decode, &bytes) >= 7);
    kvt_buffer_release(&bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_follow_each_other),
        cmocka_unit_test(no_damaged_byte_and_no_cut_goes_unseen),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_full_manifest_is_an_answer),
        cmocka_unit_test(keys_go_both_ways),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
