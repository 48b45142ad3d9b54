/*
 * What is tested: advisor/store/event_log.h: what is written is what is read, and nothing else is
 * believed. How: one row by its bytes, what becomes one operation by hand, random calls block by
 * block against what the reader gives, and rows that are cut, flipped or lie.
 */
#include <isa-l/crc.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/event_log.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/log_model.h"

enum { STEPS = 3000, ROUNDS = 20, ENTRIES_MAX = 1 << 20 };

static const struct advisor_event_log_place PLACE = {
    .size = 65536, .holder = 3, .ns = 1, .ranks = 3, .time_s = 1700000000};

static struct advisor_event_log *
new_log(void)
{
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    return log;
}

static void
the_bytes_of_a_row(void **state)
{
    static const uint8_t expected[] = {
        0x12, 0x6f, 0xa2, 0xaa, 0x60, 0x00, 0x00, 0x00, /* crc, bytes */
        0x01, 0x03, 0x02, 0x00, 0x05, 0x00, 0x00, 0x00, /* STORE, context and tokens, 2, at 5 */
        0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, /* size */
        0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, /* holder, namespace */
        0x03, 0x00, 0x00, 0x00, 0x00, 0xf1, 0x53, 0x65, /* ranks, second */
        0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* parent */
        0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* hashes */
        0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* token hashes */
        0x1c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* */
        0x02, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, /* REMOVE of 1, from the same place */
        0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* */
    };
    const uint64_t hashes[] = {11, 12 | UINT64_C(1) << 63};
    const uint64_t tokens[] = {0, 28};
    struct advisor_event_log *log = new_log();
    const void *bytes;
    size_t size;

    (void)state;
    assert_false(advisor_event_log_row(log, 0, &bytes, &size));
    assert_int_equal(advisor_event_log_bytes(log), 0);
    assert_int_equal(advisor_event_log_store(log, &PLACE, 10, 5, hashes, tokens, 2), KVT_OK);
    assert_int_equal(advisor_event_log_remove(log, &PLACE, hashes, 1), KVT_OK);
    assert_int_equal(advisor_event_log_count(log), 3);
    assert_int_equal(advisor_event_log_bytes(log), sizeof(expected));
    assert_true(advisor_event_log_row(log, 0, &bytes, &size));
    assert_int_equal(size, sizeof(expected));
    assert_memory_equal(bytes, expected, size);
    assert_false(advisor_event_log_row(log, 1, &bytes, &size));
    advisor_event_log_clear(log);
    assert_int_equal(advisor_event_log_count(log) + advisor_event_log_bytes(log), 0);
    assert_false(advisor_event_log_row(log, 0, &bytes, &size));
    advisor_event_log_free(log);
}

static size_t
operations(const struct advisor_event_log *log)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *row;
    size_t count = 0;
    size_t size;

    for (size_t at = 0; advisor_event_log_row(log, at, &row, &size); at++) {
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
        while (advisor_event_log_next(&reader, &op) == KVT_OK)
            count++;
    }
    return count;
}

/* A first STORE of hash 11 at position 5, then another: is it one operation? */
static void
what_goes_on_becomes_one_operation(void **state)
{
    static const struct {
        const char *what;
        struct advisor_event_log_place place;
        uint64_t parent;
        uint32_t position;
        uint64_t first_tokens;
        uint64_t tokens;
        size_t operations;
    } cases[] = {
        {"the next block", {4096, 3, 1, 3, 9}, 11, 6, 7, 8, 1},
        {"without token hashes", {4096, 3, 1, 3, 9}, 11, 6, 0, 0, 1},
        {"whose token hash is not known", {4096, 3, 1, 3, 9}, 11, 6, 7, 0, 1},
        {"the first one's is not known", {4096, 3, 1, 3, 9}, 11, 6, 0, 8, 2},
        {"another parent", {4096, 3, 1, 3, 9}, 12, 6, 7, 8, 2},
        {"a parent that is not known", {4096, 3, 1, 3, 9}, 0, 6, 7, 8, 2},
        {"another position", {4096, 3, 1, 3, 9}, 11, 7, 7, 8, 2},
        {"another size", {8192, 3, 1, 3, 9}, 11, 6, 7, 8, 2},
        {"another holder", {4096, 2, 1, 3, 9}, 11, 6, 7, 8, 2},
        {"another namespace", {4096, 3, 2, 3, 9}, 11, 6, 7, 8, 2},
        {"other shards", {4096, 3, 1, 1, 9}, 11, 6, 7, 8, 2},
        {"another second", {4096, 3, 1, 3, 8}, 11, 6, 7, 8, 2},
    };
    const struct advisor_event_log_place first = {4096, 3, 1, 3, 9};
    const uint64_t hashes[] = {11, 13};
    struct advisor_event_log *log = new_log();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        advisor_event_log_clear(log);
        assert_int_equal(
            advisor_event_log_store(log, &first, 10, 5, &hashes[0], &cases[i].first_tokens, 1),
            KVT_OK);
        assert_int_equal(advisor_event_log_store(log, &cases[i].place, cases[i].parent,
                                                 cases[i].position, &hashes[1], &cases[i].tokens,
                                                 1),
                         KVT_OK);
        if (operations(log) != cases[i].operations)
            fail_msg("%s: %zu operations", cases[i].what, operations(log));
    }
    advisor_event_log_free(log);
}

static void
what_goes_on_goes_on_behind_its_last_block(void **state)
{
    const struct advisor_event_log_place place = {4096, 3, 1, 3, 9};
    const uint64_t hashes[] = {11, 12, 0, 14};
    struct advisor_event_log *log = new_log();

    (void)state;
    assert_int_equal(advisor_event_log_store(log, &place, 10, 5, hashes, NULL, 2), KVT_OK);
    assert_int_equal(advisor_event_log_store(log, &place, 12, 7, &hashes[2], NULL, 1), KVT_OK);
    assert_int_equal(operations(log), 1);
    /* A parent of 0 is one that is not known, also behind a hash that is 0. */
    assert_int_equal(advisor_event_log_store(log, &place, 0, 8, &hashes[3], NULL, 1), KVT_OK);
    assert_int_equal(operations(log), 2);
    advisor_event_log_free(log);
}

/* ---- random calls, told block by block: how they were merged and cut does not matter then ---- */

struct entry {
    struct advisor_event_log_place place;
    uint64_t parent;
    uint64_t hash;
    uint64_t tokens;
    uint32_t position;
    uint32_t kind;
};

struct story {
    struct entry *entries;
    size_t count;
    size_t rows;
};

static void
tell(struct story *story, const struct advisor_event_log_op *op)
{
    const bool chained = op->kind == ADVISOR_EVENT_LOG_STORE || op->kind == ADVISOR_EVENT_LOG_RUN;

    for (uint32_t i = 0; i < op->count || (op->kind == ADVISOR_EVENT_LOG_DROP && i == 0); i++) {
        assert_true(story->count < ENTRIES_MAX);
        story->entries[story->count++] = (struct entry){
            .place = op->place,
            .parent = chained && i > 0 ? op->hashes[i - 1] : op->parent,
            .hash = op->count == 0 ? 0 : op->hashes[i],
            .tokens = op->tokens == NULL ? 0 : op->tokens[i],
            .position = op->position + (chained ? i : 0),
            .kind = (uint32_t)op->kind,
        };
    }
}

/* A RUN may be said again at the beginning of a row, just as it was. */
static bool
again(const struct advisor_event_log_op *op, const struct advisor_event_log_op *run)
{
    return op->kind == ADVISOR_EVENT_LOG_RUN && run->count == op->count &&
           run->position == op->position && run->parent == op->parent &&
           memcmp(&run->place, &op->place, sizeof(op->place)) == 0 &&
           memcmp(run->hashes, op->hashes, op->count * sizeof(*op->hashes)) == 0;
}

static void
read_log(struct story *story, const struct advisor_event_log *log)
{
    struct advisor_event_log_op run = {0};
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    size_t bytes = 0;
    const void *row;
    size_t size;

    story->count = 0;
    for (story->rows = 0; advisor_event_log_row(log, story->rows, &row, &size); story->rows++) {
        bool first = true;
        enum kvt_err rc;

        assert_true(size <= ADVISOR_EVENT_LOG_ROW_MAX && size % 8 == 0 && (uintptr_t)row % 8 == 0);
        bytes += size;
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
        while ((rc = advisor_event_log_next(&reader, &op)) == KVT_OK) {
            assert_true(op.count <= ADVISOR_EVENT_LOG_BLOCKS_MAX);
            if (!(first && again(&op, &run)))
                tell(story, &op);
            if (op.kind == ADVISOR_EVENT_LOG_RUN)
                run = op;
            first = false;
        }
        assert_int_equal(rc, KVT_NOTFOUND);
        assert_int_equal(advisor_event_log_next(&reader, &op), KVT_NOTFOUND);
    }
    assert_int_equal(bytes, advisor_event_log_bytes(log));
}

static struct story
new_story(void)
{
    struct story story = {.entries = kvt_calloc(ENTRIES_MAX, sizeof(struct entry))};

    assert_non_null(story.entries);
    return story;
}

static void
assert_same(const struct story *read, const struct story *expected)
{
    assert_int_equal(read->count, expected->count);
    for (size_t i = 0; i < read->count; i++)
        if (memcmp(&read->entries[i], &expected->entries[i], sizeof(struct entry)) != 0)
            fail_msg("entry %zu of %zu, kind %u", i, read->count, expected->entries[i].kind);
}

static void
what_is_written_is_read(void **state)
{
    struct story expected = new_story();
    uint64_t random = test_seed();
    struct story read = new_story();
    struct advisor_event_log *log = new_log();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const bool runs = round % 2 == 1;
        struct log_step step = {.call = 0};
        size_t count = 0;

        advisor_event_log_clear(log);
        expected.count = 0;
        for (int i = 0; i < STEPS; i++) {
            log_step_next(&step, &random, runs);
            assert_int_equal(log_step_put(&step, log), KVT_OK);
            tell(&expected, &step.op);
            if (step.call == ADVISOR_EVENT_LOG_STORE || step.call == ADVISOR_EVENT_LOG_REMOVE)
                count += step.op.count;
            count += step.call == ADVISOR_EVENT_LOG_DROP ? 1 : 0;
            if (kvt_random_below(&random, 500) == 0) {
                read_log(&read, log); /* and it grows on */
                assert_same(&read, &expected);
            }
        }
        read_log(&read, log);
        assert_true(read.rows > 10);
        assert_same(&read, &expected);
        assert_int_equal(advisor_event_log_count(log), count);
    }
    advisor_event_log_free(log);
    kvt_free(expected.entries);
    kvt_free(read.entries);
}

/* A transaction that failed asks for the same rows again. */
static void
rows_asked_for_again_are_the_same(void **state)
{
    uint8_t before[ADVISOR_EVENT_LOG_ROW_MAX];
    uint64_t random = test_seed();
    struct log_step step = {.call = 0};
    struct advisor_event_log *log = new_log();
    const void *row;
    size_t size;

    (void)state;
    for (int i = 0; i < 50; i++) {
        log_step_next(&step, &random, true);
        assert_int_equal(log_step_put(&step, log), KVT_OK);
    }
    for (size_t at = 0; advisor_event_log_row(log, at, &row, &size); at++) {
        const size_t once = size;

        memcpy(before, row, size);
        assert_true(advisor_event_log_row(log, at, &row, &size));
        assert_int_equal(size, once);
        assert_memory_equal(row, before, size);
    }
    advisor_event_log_free(log);
}

static void
a_run_with_many_holders_begins_each_row(void **state)
{
    struct log_step step = {.op = {.place = PLACE}};
    struct advisor_event_log *log = new_log();
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    uint32_t holders = 0;
    const void *row;
    size_t size;
    size_t at;

    (void)state;
    for (uint32_t i = 0; i < ADVISOR_EVENT_LOG_BLOCKS_MAX; i++) {
        step.hashes[i] = log_model_hash(i);
        step.tokens[i] = log_model_hash(i) + 1;
    }
    assert_int_equal(advisor_event_log_run(log, &PLACE, 9, 1, step.hashes, step.tokens,
                                           ADVISOR_EVENT_LOG_BLOCKS_MAX),
                     KVT_OK);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(advisor_event_log_hold(log, i, i + 1, i % 100, 12), KVT_OK);
    for (at = 0; advisor_event_log_row(log, at, &row, &size); at++) {
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
        assert_int_equal(advisor_event_log_next(&reader, &op), KVT_OK);
        assert_int_equal(op.kind, ADVISOR_EVENT_LOG_RUN);
        assert_int_equal(op.count, ADVISOR_EVENT_LOG_BLOCKS_MAX);
        assert_memory_equal(op.hashes, step.hashes, sizeof(uint64_t) * op.count);
        assert_memory_equal(op.tokens, step.tokens, sizeof(uint64_t) * op.count);
        while (advisor_event_log_next(&reader, &op) == KVT_OK) {
            const uint32_t from = holders % 100;

            assert_int_equal(op.kind, ADVISOR_EVENT_LOG_STORE);
            assert_int_equal(op.place.holder, holders);
            assert_int_equal(op.place.ranks, holders + 1);
            assert_int_equal(op.place.size, PLACE.size);
            assert_int_equal(op.count, 12);
            assert_int_equal(op.position, 1 + from);
            assert_true(op.parent == (from == 0 ? 9 : log_model_hash(from - 1)));
            assert_true(op.hashes[0] == log_model_hash(from));
            assert_true(op.tokens[11] == log_model_hash(from + 11) + 1);
            holders++;
        }
    }
    assert_int_equal(holders, 1000);
    assert_true(at > 50);
    advisor_event_log_free(log);
}

/* ---- rows that are not as they were written ---- */

/* A row as long as possible, with something of everything. */
static size_t
sample(uint8_t *copy, uint64_t *random)
{
    struct log_step step = {.call = 0};
    struct advisor_event_log *log = new_log();
    const void *row;
    size_t size;

    while (!advisor_event_log_row(log, 1, &row, &size)) {
        log_step_next(&step, random, true);
        if (step.op.count < 8)
            assert_int_equal(log_step_put(&step, log), KVT_OK);
        else if (step.call == ADVISOR_EVENT_LOG_RUN)
            step.run_count = 0;
    }
    assert_true(advisor_event_log_row(log, 0, &row, &size));
    memcpy(copy, row, size);
    advisor_event_log_free(log);
    return size;
}

static void
a_changed_row_is_refused(void **state)
{
    uint8_t row[ADVISOR_EVENT_LOG_ROW_MAX + 8] __attribute__((aligned(8)));
    uint64_t random = test_seed();
    const size_t size = sample(row, &random);
    struct advisor_event_log_reader reader;

    (void)state;
    assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
    for (size_t bit = 0; bit < size * 8; bit++) {
        row[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_CORRUPT);
        row[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(advisor_event_log_open(&reader, row, cut), KVT_CORRUPT);
    assert_int_equal(advisor_event_log_open(&reader, row, size + 8), KVT_CORRUPT);
}

static void
put_crc(uint8_t *row, size_t size)
{
    const uint32_t bytes = (uint32_t)size;
    uint32_t crc;

    memcpy(row + 4, &bytes, sizeof(bytes));
    crc = ~crc32_iscsi(row + 4, (int)(size - 4), UINT32_MAX);
    memcpy(row, &crc, sizeof(crc));
}

/* All a reader gives lies in the row. */
static void
read_all(const uint8_t *row, size_t size)
{
    const uint8_t *const end = row + size;
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    enum kvt_err rc = advisor_event_log_open(&reader, row, size);

    assert_int_equal(rc, KVT_OK);
    while ((rc = advisor_event_log_next(&reader, &op)) == KVT_OK) {
        assert_true(op.count <= ADVISOR_EVENT_LOG_BLOCKS_MAX);
        assert_true(op.position <= UINT32_MAX - op.count);
        if (op.count > 0)
            assert_true((const uint8_t *)op.hashes > row &&
                        (const uint8_t *)(op.hashes + op.count) <= end);
        if (op.tokens != NULL)
            assert_true((const uint8_t *)(op.tokens + op.count) <= end);
    }
    assert_true(rc == KVT_NOTFOUND || rc == KVT_CORRUPT);
    assert_int_equal(advisor_event_log_next(&reader, &op), rc);
}

static void
a_liar_is_not_followed(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 20000; round++) {
        /* Of its own size, so that a sanitizer sees what is read behind it. */
        uint8_t whole[ADVISOR_EVENT_LOG_ROW_MAX];
        size_t size = round % 100 == 0 || round == 0 ? sample(whole, &random) : 0;
        static uint8_t kept[ADVISOR_EVENT_LOG_ROW_MAX];
        static size_t kept_size;
        uint8_t *row;

        if (size > 0) {
            memcpy(kept, whole, size);
            kept_size = size;
        }
        size = 8 + 8 * kvt_random_below(&random, kept_size / 8);
        row = kvt_calloc(size, 1);
        assert_non_null(row);
        memcpy(row, kept, size);
        for (uint64_t i = kvt_random_below(&random, 4); i > 0 && size > 8; i--)
            row[8 + kvt_random_below(&random, size - 8)] = (uint8_t)kvt_random_next(&random);
        put_crc(row, size);
        read_all(row, size);
        kvt_free(row);
    }
}

/* The first operation is a RUN of two blocks without token hashes, the second a HOLD of it. */
static void
each_field_is_checked(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
        enum kvt_err first;
        enum kvt_err second;
    } cases[] = {
        {"nothing is wrong", 8, 4, KVT_OK, KVT_OK},
        {"kind 0", 8, 0, KVT_CORRUPT, KVT_CORRUPT},
        {"an unknown kind", 8, 6, KVT_CORRUPT, KVT_CORRUPT},
        {"HOLD without a RUN", 8, 5, KVT_CORRUPT, KVT_CORRUPT},
        {"DROP of blocks", 8, 3, KVT_CORRUPT, KVT_CORRUPT},
        {"no place", 9, 0, KVT_CORRUPT, KVT_CORRUPT},
        {"an unknown flag", 9, 5, KVT_CORRUPT, KVT_CORRUPT},
        {"no blocks", 10, 0, KVT_CORRUPT, KVT_CORRUPT},
        {"more than there are", 10, 112, KVT_CORRUPT, KVT_CORRUPT},
        {"more than may be", 11, 1, KVT_CORRUPT, KVT_CORRUPT},
        {"positions that have no end", 13, 255, KVT_CORRUPT, KVT_CORRUPT},
        {"a HOLD with a place", 65, 1, KVT_OK, KVT_CORRUPT},
        {"a HOLD with token hashes", 65, 2, KVT_OK, KVT_CORRUPT},
        {"a HOLD of nothing", 66, 0, KVT_OK, KVT_CORRUPT},
        {"a HOLD of more", 66, 2, KVT_OK, KVT_CORRUPT},
        {"a HOLD behind its RUN", 68, 2, KVT_OK, KVT_CORRUPT},
        {"a HOLD far behind its RUN", 71, 255, KVT_OK, KVT_CORRUPT},
        {"a REMOVE with a position", 64, 2, KVT_OK, KVT_CORRUPT},
    };
    const uint64_t hashes[] = {11, 12};
    struct advisor_event_log *log = new_log();
    const void *bytes;
    size_t size;

    (void)state;
    assert_int_equal(advisor_event_log_run(log, &PLACE, 10, 0xfffffefe, hashes, NULL, 2), KVT_OK);
    assert_int_equal(advisor_event_log_hold(log, 1, 1, 1, 1), KVT_OK);
    assert_true(advisor_event_log_row(log, 0, &bytes, &size));
    assert_int_equal(size, 80);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t row[80] __attribute__((aligned(8)));
        struct advisor_event_log_reader reader;
        struct advisor_event_log_op op;
        enum kvt_err first;
        enum kvt_err second;

        memcpy(row, bytes, size);
        row[cases[i].at] = cases[i].value;
        put_crc(row, size);
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
        first = advisor_event_log_next(&reader, &op);
        second = advisor_event_log_next(&reader, &op);
        if (first != cases[i].first || second != cases[i].second)
            fail_msg("%s: %s, %s", cases[i].what, kvt_err_name(first), kvt_err_name(second));
    }
    advisor_event_log_free(log);
}

/* ---- memory ---- */

struct attempt {
    struct story expected;
    struct story read;
    uint64_t seed;
};

/* What is refused is not there, and what was there still is. */
static bool
build(void *arg)
{
    struct attempt *attempt = arg;
    struct log_step step = {.call = 0};
    uint64_t random = attempt->seed;
    struct advisor_event_log *log;
    bool done = true;

    if (advisor_event_log_new(&log) != KVT_OK) {
        assert_null(log);
        return false;
    }
    attempt->expected.count = 0;
    for (int i = 0; i < 500 && done; i++) {
        log_step_next(&step, &random, true);
        done = log_step_put(&step, log) == KVT_OK;
        if (done)
            tell(&attempt->expected, &step.op);
    }
    read_log(&attempt->read, log);
    assert_same(&attempt->read, &attempt->expected);
    advisor_event_log_free(log);
    return done;
}

static void
every_allocation_may_fail(void **state)
{
    struct attempt attempt = {new_story(), new_story(), test_seed()};

    (void)state;
    assert_true(test_sweep_allocations(build, &attempt) > 2);
    kvt_free(attempt.expected.entries);
    kvt_free(attempt.read.entries);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_a_row),
        cmocka_unit_test(what_goes_on_becomes_one_operation),
        cmocka_unit_test(what_goes_on_goes_on_behind_its_last_block),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(rows_asked_for_again_are_the_same),
        cmocka_unit_test(a_run_with_many_holders_begins_each_row),
        cmocka_unit_test(a_changed_row_is_refused),
        cmocka_unit_test(a_liar_is_not_followed),
        cmocka_unit_test(each_field_is_checked),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
