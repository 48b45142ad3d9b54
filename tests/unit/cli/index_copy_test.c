/*
 * What is tested: advisor/export.h, advisor/import.h and advisor/verify.h, which `kvtier index` is
 * made of.
 * How: random stores written row by row, exported and imported, and the two exports compared; rows
 * broken one by one, and what verify says of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/export.h"
#include "advisor/import.h"
#include "advisor/store_foreign.h"
#include "advisor/verify.h"
#include "base/alloc.h"
#include "base/random.h"

#include "tests/support/seed.h"

enum {
    MAP = 16 << 20,
    BLOCKS = 400,
    HOLDERS = 5,
    NAMESPACES = 3,
    PUBLISHER_NEXT = 9,
    LIMIT = 32 << 20
};

struct fixture {
    char folder[256];
    char state[300];
    char copy[300];
    struct advisor_store *store;
};

static struct advisor_store *
open_store(const char *path, bool read_only)
{
    const struct advisor_store_options options = {
        .path = path, .map_bytes = read_only ? 0 : MAP, .read_only = read_only};
    struct advisor_store *store;

    assert_int_equal(advisor_store_open(&store, &options, NULL), KVT_OK);
    return store;
}

static void
put_names(const struct advisor_txn *txn)
{
    static const char *const names[NAMESPACES] = {"", "tenant/model", "a \"quoted\" one"};

    for (uint32_t i = 0; i < NAMESPACES; i++)
        assert_int_equal(advisor_store_put_namespace(txn, i, names[i]), KVT_OK);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        struct index_holder holder;

        memset(&holder, 0, sizeof(holder));
        (void)snprintf(holder.name, sizeof(holder.name), i == 4 ? "cold@b" : "w-%u", i / 2);
        holder.dp_rank = i % 2;
        holder.tier = i == 4 ? KVT_TIER_G4 : KVT_TIER_G1;
        if (i == 4)
            holder.dp_rank = 0;
        assert_int_equal(advisor_store_put_holder(txn, i, &holder), KVT_OK);
    }
}

static void
put_rows(const struct advisor_txn *txn)
{
    const struct advisor_publisher_row publisher = {.incarnation = UINT64_MAX,
                                                    .last_seq = 77,
                                                    .number = 2,
                                                    .ns = 1,
                                                    .gen = 3,
                                                    .need_dump = 1,
                                                    .buckets = 0x800001,
                                                    .worker = "w-0"};
    const struct advisor_sweep_row sweep = {.publisher = 2, .holder = 1, .floor = 3, .ns = 1};
    const struct advisor_gateway_row gateway = {.incarnation = 5, .seq = 6, .name = "gw0"};
    const struct advisor_order_row order = {.epoch = 8,
                                            .id = 9,
                                            .state = ADVISOR_ORDER_FAILED,
                                            .items = 10,
                                            .gateway = "gw0",
                                            .namespace_ = "tenant/model",
                                            .reason = "hot_start",
                                            .text = "line\nbreak"};

    assert_int_equal(advisor_store_put_publisher(txn, &publisher), KVT_OK);
    assert_int_equal(advisor_store_put_sweep(txn, &sweep), KVT_OK);
    assert_int_equal(advisor_store_put_gateway(txn, &gateway), KVT_OK);
    assert_int_equal(advisor_store_put_order(txn, &order), KVT_OK);
    assert_int_equal(advisor_store_put_number(txn, ADVISOR_META_PUBLISHER_NEXT, PUBLISHER_NEXT),
                     KVT_OK);
    assert_int_equal(advisor_store_put_number(txn, ADVISOR_META_EVENTS_SEQ, UINT64_MAX), KVT_OK);
}

static void
put_place(const struct advisor_txn *txn, struct advisor_store_block *block, uint32_t holder,
          uint32_t reporter)
{
    const struct advisor_held held = {block->hash, holder, block->ns, reporter, 3};

    assert_int_equal(advisor_store_block_reserve(block, block->place_count + 1), KVT_OK);
    block->places[block->place_count++] =
        (struct advisor_store_place){.holder = holder, .ranks = UINT32_MAX >> holder};
    assert_int_equal(advisor_store_put_held(txn, &held), KVT_OK);
}

static void
put_blocks(const struct advisor_txn *txn, uint64_t *random)
{
    struct advisor_store_block block = {0};

    for (uint32_t i = 0; i < BLOCKS; i++) {
        /* Some hashes in several namespaces, 0 and the largest among them. */
        block.hash = i == 0 ? 0 : i == 1 ? UINT64_MAX : kvt_random_next(random) % 400;
        block.ns = (uint32_t)kvt_random_below(random, NAMESPACES);
        block.parent = kvt_random_next(random);
        block.tokens_hash = kvt_random_next(random);
        block.size = kvt_random_next(random);
        block.position = (uint32_t)kvt_random_below(random, KVT_POSITION_MAX);
        block.hits = i;
        block.cold_hits = 2 * i;
        block.cold_recent = 3;
        block.last_access_ms = i;
        block.touched_ms = kvt_random_next(random);
        block.place_count = 0;
        for (uint32_t holder = 0; holder < HOLDERS; holder++) {
            struct advisor_held held = {block.hash, holder, block.ns, 0, 0};

            /* The same block may have come before, with other places. */
            assert_int_equal(advisor_store_delete_held(txn, &held), KVT_OK);
            if (kvt_random_below(random, 2) == 0)
                put_place(txn, &block, holder, (uint32_t)kvt_random_below(random, PUBLISHER_NEXT));
        }
        assert_int_equal(advisor_store_put_block(txn, &block), KVT_OK);
    }
    advisor_store_block_release(&block);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    uint64_t random = test_seed();
    struct advisor_txn txn;

    assert_non_null(f);
    (void)test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->state, sizeof(f->state), "%s/state", f->folder);
    (void)snprintf(f->copy, sizeof(f->copy), "%s/copy", f->folder);
    f->store = open_store(f->state, false);
    assert_int_equal(advisor_store_write(f->store, &txn, NULL), KVT_OK);
    put_names(&txn);
    put_rows(&txn);
    put_blocks(&txn, &random);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    advisor_store_close(f->store);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

/* All lines, without the first one's time, in pages of `page` blocks. */
static void
export_all(struct advisor_store *store, size_t page, struct kvt_buffer *out)
{
    static const char mark[] = "\"time_ms\":";
    uint64_t cursor = 0;
    char *time;

    kvt_buffer_init(out, LIMIT);
    do
        assert_int_equal(advisor_export_page(store, cursor, page, out, &cursor), KVT_OK);
    while (cursor != 0);
    time = strstr(kvt_buffer_text(out), mark);
    assert_non_null(time);
    for (time += strlen(mark); *time != ','; time++)
        *time = '0';
}

static size_t
count_lines(const struct kvt_buffer *out)
{
    size_t lines = 0;

    for (size_t i = 0; i < out->size; i++)
        lines += out->data[i] == '\n' ? 1 : 0;
    return lines;
}

/* Give all lines to an import; the first that fails is told. */
static enum kvt_err
feed(struct advisor_import *import, struct kvt_buffer *lines, struct kvt_error *err)
{
    char end[64];
    char *rest = (char *)(uintptr_t)kvt_buffer_text(lines);
    enum kvt_err rc = KVT_OK;

    while (*rest != '\0' && rc == KVT_OK) {
        const size_t size = strcspn(rest, "\n");

        rc = advisor_import_line(import, rest, size, err);
        rest += size + 1;
    }
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(end, sizeof(end), "{\"row\":\"end\",\"lines\":%zu}", count_lines(lines));
    return advisor_import_line(import, end, strlen(end), err);
}

static enum kvt_err
import_all(const char *path, struct kvt_buffer *lines, bool replace,
           struct advisor_import_counts *counts, struct kvt_error *err)
{
    const struct advisor_import_options options = {
        .path = path, .map_bytes = MAP, .replace = replace};
    struct advisor_import *import;
    enum kvt_err rc = advisor_import_open(&import, &options, err);

    if (rc == KVT_OK)
        rc = feed(import, lines, err);
    if (rc == KVT_OK)
        rc = advisor_import_finish(import, counts, err);
    if (rc != KVT_OK && import != NULL)
        assert_int_not_equal(rc, KVT_BUSY);
    advisor_import_free(import);
    return rc;
}

static int
compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Blocks of one hash come in the order of their namespaces' numbers, which a copy gives anew. */
static char **
sort_lines(struct kvt_buffer *out, size_t *count)
{
    char **lines = kvt_calloc(count_lines(out) + 1, sizeof(*lines));
    char *rest = (char *)(uintptr_t)kvt_buffer_text(out);

    assert_non_null(lines);
    *count = 0;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n"))
        lines[(*count)++] = line;
    qsort(lines, *count, sizeof(*lines), compare_lines);
    return lines;
}

static void
a_copy_is_the_same(void **state)
{
    struct fixture *f = *state;
    struct advisor_import_counts counts;
    struct advisor_store *copy;
    struct kvt_buffer before;
    struct kvt_buffer after;
    char **old_lines;
    char **new_lines;
    size_t old_count;
    size_t new_count;

    export_all(f->store, 10000, &before);
    assert_int_equal(import_all(f->copy, &before, false, &counts, NULL), KVT_OK);
    assert_int_equal(counts.left_out, 0);
    assert_int_equal(counts.publishers, 1);
    copy = open_store(f->copy, true);
    export_all(copy, 10000, &after);
    old_lines = sort_lines(&before, &old_count);
    new_lines = sort_lines(&after, &new_count);
    assert_int_equal(old_count, new_count);
    assert_true(old_count > 200);
    for (size_t i = 0; i < old_count; i++)
        assert_string_equal(old_lines[i], new_lines[i]);
    advisor_store_close(copy);
    kvt_free(old_lines);
    kvt_free(new_lines);
    kvt_buffer_release(&before);
    kvt_buffer_release(&after);
}

static void
pages_of_any_size_say_the_same(void **state)
{
    static const size_t sizes[] = {1, 2, 7, 100};
    struct fixture *f = *state;
    struct kvt_buffer whole;

    export_all(f->store, 10000, &whole);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct kvt_buffer pages;

        export_all(f->store, sizes[i], &pages);
        assert_int_equal(pages.size, whole.size);
        assert_memory_equal(pages.data, whole.data, whole.size);
        kvt_buffer_release(&pages);
    }
    kvt_buffer_release(&whole);
}

/* Their names of blocks are not in the export: neither are they. */
static void
foreign_publishers_and_their_places_are_left_out(void **state)
{
    struct fixture *f = *state;
    const struct advisor_foreign_row foreign = {.number = 2, .source = 1};
    struct kvt_buffer before;
    struct kvt_buffer after;
    struct advisor_txn txn;

    export_all(f->store, 100, &before);
    assert_non_null(strstr(kvt_buffer_text(&before), "\"publisher\":2,"));
    assert_int_equal(advisor_store_write(f->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put_foreign(&txn, &foreign), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    export_all(f->store, 100, &after);
    assert_null(strstr(kvt_buffer_text(&after), "\"publisher\":2,"));
    assert_null(strstr(kvt_buffer_text(&after), "\"row\":\"publisher\""));
    assert_null(strstr(kvt_buffer_text(&after), "\"places\":[]"));
    assert_null(strstr(kvt_buffer_text(&after), "[,"));
    assert_true(after.size < before.size);
    kvt_buffer_release(&before);
    kvt_buffer_release(&after);
}

static void
places_of_publishers_that_came_later_are_left_out(void **state)
{
    struct fixture *f = *state;
    struct advisor_import_counts counts;
    struct kvt_buffer lines;
    char *next;

    export_all(f->store, 100, &lines);
    next = strstr(kvt_buffer_text(&lines), "\"publisher_next\":9");
    assert_non_null(next);
    next[strlen("\"publisher_next\":")] = '8';
    assert_int_equal(import_all(f->copy, &lines, false, &counts, NULL), KVT_OK);
    assert_true(counts.left_out > 0 && counts.left_out < counts.places);
    kvt_buffer_release(&lines);
}

static void
what_is_there_is_kept_unless_told(void **state)
{
    struct fixture *f = *state;
    struct advisor_import_counts counts;
    struct kvt_buffer lines;
    struct kvt_buffer again;
    struct kvt_error err = {0};
    struct advisor_store *copy;

    export_all(f->store, 100, &lines);
    /* An advisor runs there: we are it. */
    assert_int_equal(import_all(f->state, &lines, true, &counts, &err), KVT_BUSY);
    assert_int_equal(import_all(f->copy, &lines, false, &counts, NULL), KVT_OK);
    assert_int_equal(import_all(f->copy, &lines, false, &counts, &err), KVT_EXISTS);
    assert_non_null(strstr(err.text, "--force"));
    assert_int_equal(import_all(f->copy, &lines, true, &counts, NULL), KVT_OK);
    copy = open_store(f->copy, true);
    export_all(copy, 100, &again);
    assert_int_equal(again.size, lines.size);
    advisor_store_close(copy);
    kvt_buffer_release(&again);
    kvt_buffer_release(&lines);
}

/* Whatever member of whatever row is missing: the line is refused, and nothing is imported. */
static void
every_member_is_wanted(void **state)
{
    struct fixture *f = *state;
    const struct advisor_import_options options = {.path = f->copy, .map_bytes = MAP};
    struct kvt_buffer lines;
    unsigned refused = 0;
    char *rest;

    export_all(f->store, 100, &lines);
    rest = (char *)(uintptr_t)kvt_buffer_text(&lines);
    /* Up to the first block with its places. */
    for (unsigned row = 0; row < 6; row++) {
        const size_t size = strcspn(rest, "\n");

        for (size_t at = 0; at < size; at++) {
            struct advisor_import *import;
            struct kvt_error err = {0};
            char *first = (char *)(uintptr_t)kvt_buffer_text(&lines);

            if (rest[at] != '"' || rest[at + 1] == ':' || at == 0 ||
                (rest[at - 1] != '{' && rest[at - 1] != ','))
                continue;
            if (strncmp(rest + at, "\"time_ms\"", 9) == 0 ||
                strncmp(rest + at, "\"store_format\"", 14) == 0)
                continue; /* for people */
            assert_int_equal(advisor_import_open(&import, &options, NULL), KVT_OK);
            if (row > 0)
                assert_int_equal(advisor_import_line(import, first, strcspn(first, "\n"), NULL),
                                 KVT_OK);
            rest[at + 1] ^= 0x20; /* another name */
            assert_int_equal(advisor_import_line(import, rest, size, &err), KVT_INVALID);
            rest[at + 1] ^= 0x20;
            assert_int_equal(strncmp(err.text, "line ", 5), 0);
            advisor_import_free(import);
            refused++;
        }
        rest += size + 1;
    }
    assert_true(refused > 50);
    kvt_buffer_release(&lines);
}

/* ---- verify ---- */

struct said {
    unsigned count;
    unsigned stop_after;
    char first[256];
};

static bool
say(void *arg, const char *text)
{
    struct said *said = arg;

    if (said->count++ == 0)
        (void)snprintf(said->first, sizeof(said->first), "%s", text);
    return said->stop_after == 0 || said->count < said->stop_after;
}

static void
a_sound_store_has_no_problem(void **state)
{
    const struct fixture *f = *state;
    struct advisor_verify_counts counts;
    struct said said = {0};

    assert_int_equal(advisor_verify(f->store, say, &said, &counts), KVT_OK);
    assert_string_equal(said.first, "");
    assert_int_equal(counts.problems, 0);
    assert_true(counts.blocks > 100 && counts.places > counts.blocks);
    assert_int_equal(counts.held, counts.places);
    assert_int_equal(counts.publishers, 1);
}

static enum kvt_err
take_first(void *arg, const struct advisor_store_block *block)
{
    struct advisor_store_block *to = arg;

    if (block->place_count < 2 || block->place_count == HOLDERS)
        return KVT_OK;
    assert_int_equal(advisor_store_block_reserve(to, block->place_count + 1), KVT_OK);
    memcpy(to->places, block->places, block->place_count * sizeof(*block->places));
    to->place_count = block->place_count;
    to->hash = block->hash;
    to->ns = block->ns;
    return KVT_CANCELLED;
}

/* Do one wrong thing to a block; what verify then says must have `words` in it. */
static void
break_and_verify(const struct fixture *f,
                 void (*damage)(const struct advisor_txn *txn, struct advisor_store_block *block),
                 const char *words)
{
    struct advisor_store_block block = {0};
    struct advisor_verify_counts counts;
    struct said said = {0};
    struct advisor_txn txn;
    uint64_t next;

    assert_int_equal(advisor_store_write(f->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_blocks(&txn, 1, SIZE_MAX, &next, take_first, &block),
                     KVT_CANCELLED);
    damage(&txn, &block);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(f->store, say, &said, &counts), KVT_OK);
    assert_true(said.count > 0);
    assert_int_equal(counts.problems, said.count);
    assert_non_null(strstr(said.first, words));
    advisor_store_block_release(&block);
}

static void
damage_held(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    const struct advisor_held held = {block->hash, block->places[0].holder, block->ns, 0, 0};

    assert_int_equal(advisor_store_delete_held(txn, &held), KVT_OK);
}

static void
damage_place(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    block->place_count--;
    assert_int_equal(advisor_store_put_block(txn, block), KVT_OK);
}

static void
damage_twice(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    block->places[block->place_count++] = block->places[0];
    assert_int_equal(advisor_store_put_block(txn, block), KVT_OK);
}

static void
damage_ranks(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    block->places[0].ranks = 0;
    assert_int_equal(advisor_store_put_block(txn, block), KVT_OK);
}

static void
damage_holder(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    block->places[0].holder = HOLDERS + 7;
    assert_int_equal(advisor_store_put_block(txn, block), KVT_OK);
}

static void
damage_reporter(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    const struct advisor_held held = {block->hash, block->places[0].holder, block->ns,
                                      PUBLISHER_NEXT, 0};

    assert_int_equal(advisor_store_put_held(txn, &held), KVT_OK);
}

static void
damage_publisher(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    const struct advisor_publisher_row row = {.number = PUBLISHER_NEXT, .worker = "late"};

    (void)block;
    assert_int_equal(advisor_store_put_publisher(txn, &row), KVT_OK);
}

#define FINDS(name, damage, words)                                                                 \
    static void name(void **state)                                                                 \
    {                                                                                              \
        break_and_verify(*state, damage, words);                                                   \
    }

FINDS(a_place_nobody_reported, damage_held, "nobody reported")
FINDS(a_report_without_its_place, damage_place, "and no block says so")
FINDS(a_holder_twice, damage_twice, "twice")
FINDS(a_place_without_shards, damage_ranks, "holds no shard")
FINDS(a_holder_without_a_name, damage_holder, "no holder has number 12")
FINDS(a_reporter_to_come, damage_reporter, "whose number was not given yet")
FINDS(a_publisher_to_come, damage_publisher, "publisher late: number 9")

static void
it_stops_when_told(void **state)
{
    const struct fixture *f = *state;
    struct advisor_verify_counts counts;
    struct said said = {.stop_after = 3};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(f->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put_number(&txn, ADVISOR_META_PUBLISHER_NEXT, 1), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(f->store, say, &said, &counts), KVT_CANCELLED);
    assert_int_equal(said.count, 3);
}

static bool
copy_once(void *arg)
{
    const struct fixture *f = arg;
    struct advisor_verify_counts verified;
    struct advisor_import_counts counts;
    struct said said = {0};
    struct kvt_buffer lines;
    uint64_t cursor = 0;
    enum kvt_err rc;

    kvt_buffer_init(&lines, LIMIT);
    do
        rc = advisor_export_page(f->store, cursor, 10000, &lines, &cursor);
    while (rc == KVT_OK && cursor != 0);
    if (rc == KVT_OK)
        rc = import_all(f->copy, &lines, true, &counts, NULL);
    if (rc == KVT_OK)
        rc = advisor_verify(f->store, say, &said, &verified);
    kvt_buffer_release(&lines);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_answered(void **state)
{
    assert_true(test_sweep_allocations(copy_once, *state) > 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_the_same),
        TEST(pages_of_any_size_say_the_same),
        TEST(foreign_publishers_and_their_places_are_left_out),
        TEST(places_of_publishers_that_came_later_are_left_out),
        TEST(what_is_there_is_kept_unless_told),
        TEST(every_member_is_wanted),
        TEST(a_sound_store_has_no_problem),
        TEST(a_place_nobody_reported),
        TEST(a_report_without_its_place),
        TEST(a_holder_twice),
        TEST(a_place_without_shards),
        TEST(a_holder_without_a_name),
        TEST(a_reporter_to_come),
        TEST(a_publisher_to_come),
        TEST(it_stops_when_told),
        TEST(every_failing_allocation_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
