/*
 * What is tested: g4/object/kind.h.
 * How: keys of every kind and their near misses; heads that show a block, a tombstone and damage.
 */
#include <stdio.h>
#include <string.h>

#include "g4/object/kind.h"

#include "tests/support/seed.h"

static void
a_key_says_its_kind(void **state)
{
    static const struct {
        const char *key;
        enum g4_kind kind;
    } rows[] = {
        {"0/0:11111112", G4_KIND_BLOCK},     {"t/model/3/7:11111113:11111112", G4_KIND_BLOCK},
        {"0:11111112.meta", G4_KIND_META},   {"t/7:11111113:11111112.meta", G4_KIND_META},
        {"0/0:11111112.meta", G4_KIND_META}, /* of namespace "0": commit records have no shard */
        {"notes.meta", G4_KIND_OPAQUE},      {".meta", G4_KIND_OPAQUE},
        {"gc.lock", G4_KIND_LOCK},           {"0:11111112.lock", G4_KIND_LOCK},
        {".lock", G4_KIND_OPAQUE},           {".kvtier-selftest/1/x.lock", G4_KIND_OWN},
        {"notes/a.txt", G4_KIND_OPAQUE},     {"", G4_KIND_OPAQUE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (g4_kind_of_key(rows[i].key, NULL) != rows[i].kind)
            fail_msg("%s: %s, expected %s", rows[i].key,
                     g4_kind_name(g4_kind_of_key(rows[i].key, NULL)), g4_kind_name(rows[i].kind));
}

static void
a_commit_record_names_its_block(void **state)
{
    char block[KVT_KEY_MAX];
    char wide[KVT_KEY_MAX];
    struct kvt_key parsed;

    (void)state;
    assert_true(g4_kind_meta_block("0:11111112.meta", block));
    assert_string_equal(block, "0/0:11111112");
    assert_true(g4_kind_meta_block("t/m/7:11111113:11111112.meta", block));
    assert_string_equal(block, "t/m/0/7:11111113:11111112");
    assert_int_equal(g4_kind_of_key(block, &parsed), G4_KIND_BLOCK);
    assert_string_equal(parsed.namespace_, "t/m");
    assert_false(g4_kind_meta_block("0:11111112", block));
    assert_string_equal(block, "");
    /* What would not fit with its shard is none. */
    memset(wide, 'a', sizeof(wide));
    memcpy(wide + KVT_KEY_MAX - 17, "/0:11111112.meta", 17);
    assert_int_equal(strlen(wide), KVT_KEY_MAX - 1);
    assert_false(g4_kind_meta_block(wide, block));
}

static void
a_head_tells_blocks_tombstones_and_damage_apart(void **state)
{
    struct g4_request head = {.key = "0/0:11111112", .buffer_size = 5};

    (void)state;
    assert_non_null(g4_kind_judge_block(&head)); /* nothing travels beside it */
    head.meta = (struct g4_meta){.present = true, .length = 5};
    assert_null(g4_kind_judge_block(&head));
    assert_int_equal(g4_kind_of_object(&head), G4_KIND_BLOCK);
    head.buffer_size = 4;
    assert_non_null(g4_kind_judge_block(&head));
    head.meta.length = 0;
    head.buffer_size = 0;
    assert_non_null(g4_kind_judge_block(&head));
    assert_int_equal(g4_kind_of_object(&head), G4_KIND_BLOCK); /* an empty one is no tombstone */
    (void)snprintf(head.meta.writer, sizeof(head.meta.writer), G4_KIND_TOMBSTONE_WRITER);
    assert_int_equal(g4_kind_of_object(&head), G4_KIND_TOMBSTONE);
    head.key = "notes/a.txt";
    assert_int_equal(g4_kind_of_object(&head), G4_KIND_OPAQUE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_says_its_kind),
        cmocka_unit_test(a_commit_record_names_its_block),
        cmocka_unit_test(a_head_tells_blocks_tombstones_and_damage_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
