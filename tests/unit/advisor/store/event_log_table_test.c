/*
 * What is tested: advisor/store/event_log_table.h: whatever is written, thrown away or cut off in
 * between, the snapshot and the journal over it say what is there.
 * How: random groups, slices and transactions that fail, against a set; damaged tables by hand.
 */
#include <isa-l/crc.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "advisor/store/event_log_table.h"
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/store/lmdb.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/log_model.h"

enum { STEPS = 1500, PIECES = LOG_MODEL_CHAINS * LOG_MODEL_NAMESPACES, MAP_BYTES = 256 << 20 };

static const struct advisor_event_log_place PLACE = {
    .size = 4096, .holder = 1, .ns = 1, .ranks = 1};

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_txn txn;
    struct advisor_store_log state;
    struct advisor_event_log *log;
};

static void
begin_with(struct scene *scene, uint64_t map_bytes)
{
    struct advisor_store_options options = {.map_bytes = map_bytes};

    memset(scene, 0, sizeof(*scene));
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
    assert_int_equal(advisor_event_log_new(&scene->log), KVT_OK);
    assert_int_equal(advisor_store_log_get(&scene->txn, &scene->state), KVT_OK);
}

static void
begin(struct scene *scene)
{
    begin_with(scene, MAP_BYTES);
}

static void
commit(struct scene *scene)
{
    assert_int_equal(advisor_store_commit(&scene->txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
}

static void
end(struct scene *scene)
{
    advisor_store_end(&scene->txn);
    advisor_store_close(scene->store);
    advisor_event_log_free(scene->log);
    test_folder_remove(scene->folder);
}

static enum kvt_err
apply(void *arg, const struct advisor_event_log_op *op)
{
    log_set_apply(arg, op);
    return KVT_OK;
}

/* What the tables come to, `rows_max` rows a call. */
static void
read_set(const struct advisor_txn *txn, struct log_set *set, size_t rows_max)
{
    struct advisor_store_log_cursor cursor = {0};
    struct advisor_store_log state;
    struct kvt_error err;

    memset(set, 0, sizeof(*set));
    while (!cursor.done)
        assert_int_equal(advisor_store_log_read(txn, &cursor, rows_max, apply, set, &err), KVT_OK);
    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(cursor.bytes, state.runs_bytes + state.bytes);
}

static void
assert_same_state(const struct scene *scene)
{
    struct advisor_store_log stored;

    assert_int_equal(advisor_store_log_get(&scene->txn, &stored), KVT_OK);
    assert_memory_equal(&stored, &scene->state, sizeof(stored));
}

/* ---- at random ---- */

struct story {
    struct scene scene;
    struct log_set truth; /* committed */
    struct log_set next;  /* with what the transaction changes */
    struct log_set read;
    struct log_step step;
    uint64_t random;
    uint32_t piece; /* of the snapshot that is being written */
    uint32_t ended; /* snapshots */
};

static void
write_group(struct story *story)
{
    struct scene *scene = &story->scene;

    advisor_event_log_clear(scene->log);
    for (uint64_t i = 1 + kvt_random_below(&story->random, 20); i > 0; i--) {
        log_step_next(&story->step, &story->random, false);
        assert_int_equal(log_step_put(&story->step, scene->log), KVT_OK);
    }
    log_set_apply_log(&story->next, scene->log);
    assert_int_equal(advisor_store_log_append(&scene->txn, &scene->state, scene->log), KVT_OK);
}

static void
put_held(struct advisor_event_log *log, const struct log_set *set, uint32_t ns, uint32_t first,
         uint32_t count)
{
    for (uint32_t holder = 0; holder < LOG_MODEL_HOLDERS; holder++)
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t ranks = set->ranks[ns][first + i][holder];

            if (ranks != 0)
                assert_int_equal(advisor_event_log_hold(log, holder, ranks, i, 1), KVT_OK);
        }
}

/* A chain in a namespace, as it is when its slice is written. */
static void
write_slice(struct story *story)
{
    const uint32_t ns = story->piece / LOG_MODEL_CHAINS;
    const uint32_t chain = story->piece % LOG_MODEL_CHAINS;
    const struct advisor_event_log_place place = {.size = 4096, .ns = ns};
    struct scene *scene = &story->scene;
    uint64_t hashes[ADVISOR_EVENT_LOG_BLOCKS_MAX];

    advisor_event_log_clear(scene->log);
    for (uint32_t from = 0; from < LOG_MODEL_LENGTH; from += ADVISOR_EVENT_LOG_BLOCKS_MAX) {
        const uint32_t first = chain * LOG_MODEL_LENGTH + from;
        uint32_t count = LOG_MODEL_LENGTH - from;

        if (count > ADVISOR_EVENT_LOG_BLOCKS_MAX)
            count = ADVISOR_EVENT_LOG_BLOCKS_MAX;
        for (uint32_t i = 0; i < count; i++)
            hashes[i] = log_model_hash(first + i);
        assert_int_equal(advisor_event_log_run(scene->log, &place, log_model_parent(first),
                                               log_model_position(first), hashes, NULL, count),
                         KVT_OK);
        put_held(scene->log, &story->truth, ns, first, count);
    }
    assert_int_equal(advisor_store_log_add(&scene->txn, &scene->state, scene->log), KVT_OK);
}

/* One transaction: a group, and what is due of the snapshot.  RAM, of which slices are written,
 * has what is committed. */
static void
write_all(struct story *story)
{
    struct scene *scene = &story->scene;

    if (scene->state.building == 0) {
        if (kvt_random_below(&story->random, 10) == 0)
            assert_int_equal(advisor_store_log_begin(&scene->txn, &scene->state), KVT_OK);
    } else if (kvt_random_below(&story->random, 60) == 0) {
        assert_int_equal(advisor_store_log_begin(&scene->txn, &scene->state), KVT_OK);
        story->piece = 0;
    } else if (story->piece < PIECES) {
        write_slice(story);
        story->piece++;
    } else {
        assert_int_equal(advisor_store_log_end(&scene->txn, &scene->state), KVT_OK);
        story->piece = 0;
        story->ended++;
    }
    if (kvt_random_below(&story->random, 3) != 0)
        write_group(story);
    assert_int_equal(advisor_store_log_trim(&scene->txn, &scene->state), KVT_OK);
}

static void
snapshot_and_journal_say_what_is_there(void **state)
{
    struct story *story = kvt_calloc(1, sizeof(*story));
    struct scene *scene;

    (void)state;
    assert_non_null(story);
    scene = &story->scene;
    story->random = test_seed();
    begin(scene);
    for (int i = 0; i < STEPS; i++) {
        const struct advisor_store_log before = scene->state;
        const uint32_t piece = story->piece;
        const uint32_t ended = story->ended;

        story->next = story->truth;
        write_all(story);
        if (kvt_random_below(&story->random, 8) == 0) {
            advisor_store_end(&scene->txn); /* it failed: all is as before */
            assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
            scene->state = before;
            story->piece = piece;
            story->ended = ended;
        } else {
            commit(scene);
            story->truth = story->next;
        }
        assert_same_state(scene);
        if (i % 7 == 0) {
            read_set(&scene->txn, &story->read, 1 + kvt_random_below(&story->random, 50));
            assert_memory_equal(&story->read, &story->truth, sizeof(story->truth));
        }
    }
    assert_true(story->ended > 10);
    assert_int_equal(scene->state.oldest, scene->state.from);
    end(scene);
    kvt_free(story);
}

/* ---- by hand ---- */

/* So many rows of REMOVE, whose hashes count up. */
static void
fill(struct scene *scene, size_t rows)
{
    uint64_t hash = 0;

    advisor_event_log_clear(scene->log);
    while (advisor_event_log_bytes(scene->log) / ADVISOR_EVENT_LOG_ROW_MAX < rows) {
        hash++;
        assert_int_equal(advisor_event_log_remove(scene->log, &PLACE, &hash, 1), KVT_OK);
    }
}

static uint64_t
entries(const struct scene *scene, enum advisor_table table, MDB_stat *stat)
{
    assert_int_equal(mdb_stat(scene->txn.handle, scene->store->tables[table], stat), 0);
    return stat->ms_entries;
}

static void
two_rows_a_page(void **state)
{
    struct scene scene;
    MDB_stat stat;

    (void)state;
    begin(&scene);
    fill(&scene, 1000);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    commit(&scene);
    assert_true(entries(&scene, ADVISOR_TABLE_JOURNAL, &stat) >= 1000);
    assert_int_equal(stat.ms_overflow_pages, 0);
    assert_in_range(stat.ms_leaf_pages, 1, stat.ms_entries / 2 + 2);
    assert_int_equal(scene.state.bytes, advisor_event_log_bytes(scene.log));
    end(&scene);
}

static void
void_rows_go_a_slice_a_commit(void **state)
{
    struct scene scene;
    uint64_t next;
    MDB_stat stat;

    (void)state;
    begin(&scene);
    fill(&scene, ADVISOR_STORE_TRIM_ROWS * 3 / 2);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    next = scene.state.next;
    assert_true(next > ADVISOR_STORE_TRIM_ROWS && next < 2 * ADVISOR_STORE_TRIM_ROWS);
    assert_int_equal(advisor_store_log_begin(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(advisor_store_log_trim(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(entries(&scene, ADVISOR_TABLE_JOURNAL, &stat), next);
    fill(&scene, 1);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    assert_int_equal(advisor_store_log_end(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(scene.state.bytes, advisor_event_log_bytes(scene.log));
    assert_int_equal(scene.state.runs_bytes, 0);
    assert_int_equal(advisor_store_log_trim(&scene.txn, &scene.state), KVT_OK);
    commit(&scene);
    assert_int_equal(scene.state.oldest, ADVISOR_STORE_TRIM_ROWS);
    assert_int_equal(advisor_store_log_trim(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(scene.state.oldest, next);
    assert_int_equal(entries(&scene, ADVISOR_TABLE_JOURNAL, &stat), scene.state.next - next);
    assert_int_equal(advisor_store_log_trim(&scene.txn, &scene.state), KVT_OK);
    assert_same_state(&scene);
    end(&scene);
}

static enum kvt_err
count_row(void *arg, const void *row, size_t size)
{
    struct advisor_event_log_reader reader;
    size_t *rows = arg;

    assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
    (*rows)++;
    return *rows == 3 ? KVT_CANCELLED : KVT_OK;
}

static void
rows_in_pieces(void **state)
{
    struct advisor_store_log_cursor cursor = {0};
    struct scene scene;
    size_t rows = 0;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_log_rows(&scene.txn, &cursor, 10, count_row, &rows, NULL),
                     KVT_OK);
    assert_true(cursor.done && rows == 0);
    fill(&scene, 4);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    assert_int_equal(advisor_store_log_begin(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(advisor_store_log_add(&scene.txn, &scene.state, scene.log), KVT_OK);
    assert_int_equal(advisor_store_log_end(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    cursor = (struct advisor_store_log_cursor){0};
    assert_int_equal(advisor_store_log_rows(&scene.txn, &cursor, 2, count_row, &rows, NULL),
                     KVT_OK);
    assert_int_equal(rows, 2);
    assert_int_equal(advisor_store_log_rows(&scene.txn, &cursor, 2, count_row, &rows, NULL),
                     KVT_CANCELLED); /* the third; it is given again */
    assert_int_equal(cursor.row, 2);
    assert_int_equal(advisor_store_log_rows(&scene.txn, &cursor, 99, count_row, &rows, NULL),
                     KVT_OK);
    assert_true(cursor.in_journal && !cursor.done && cursor.row == scene.state.from);
    assert_int_equal(rows, 3 + scene.state.runs_rows - 2);
    assert_int_equal(cursor.bytes, scene.state.runs_bytes);
    assert_int_equal(advisor_store_log_rows(&scene.txn, &cursor, 99, count_row, &rows, NULL),
                     KVT_OK);
    assert_true(cursor.done);
    assert_int_equal(cursor.bytes, scene.state.runs_bytes + scene.state.bytes);
    end(&scene);
}

static void
write_snapshot(struct scene *scene)
{
    MDB_stat stat;

    assert_int_equal(advisor_store_log_begin(&scene->txn, &scene->state), KVT_OK);
    assert_int_equal(advisor_store_log_add(&scene->txn, &scene->state, scene->log), KVT_OK);
    assert_int_equal(advisor_store_log_append(&scene->txn, &scene->state, scene->log), KVT_OK);
    assert_int_equal(advisor_store_log_end(&scene->txn, &scene->state), KVT_OK);
    /* The one of before goes at once. */
    assert_int_equal(entries(scene, ADVISOR_TABLE_RUNS_A, &stat), scene->state.whole == 1);
    assert_int_equal(entries(scene, ADVISOR_TABLE_RUNS_B, &stat), scene->state.whole == 2);
}

static void
another_snapshot_is_begun_anew(void **state)
{
    struct advisor_store_log_cursor cursor = {0};
    struct advisor_store_log_cursor second = {0};
    struct log_set *set = kvt_calloc(1, sizeof(*set));
    uint64_t hash = log_model_hash(0);
    struct scene scene;

    (void)state;
    assert_non_null(set);
    begin(&scene);
    assert_int_equal(advisor_event_log_remove(scene.log, &PLACE, &hash, 1), KVT_OK);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    assert_int_equal(advisor_store_log_read(&scene.txn, &cursor, 1, apply, set, NULL), KVT_OK);
    assert_false(cursor.done);
    assert_int_equal(advisor_store_log_begin(&scene.txn, &scene.state), KVT_OK);
    assert_int_equal(advisor_store_log_read(&scene.txn, &cursor, 1, apply, set, NULL), KVT_OK);
    assert_true(cursor.done);
    write_snapshot(&scene); /* throws the one away that was begun */
    assert_int_equal(advisor_store_log_read(&scene.txn, &cursor, 1, apply, set, NULL), KVT_AGAIN);
    assert_int_equal(advisor_store_log_read(&scene.txn, &second, 1, apply, set, NULL), KVT_OK);
    assert_false(second.done);
    write_snapshot(&scene);
    write_snapshot(&scene); /* in the same table again */
    assert_int_equal(scene.state.whole, second.whole);
    assert_int_equal(advisor_store_log_read(&scene.txn, &second, 1, apply, set, NULL), KVT_AGAIN);
    end(&scene);
    kvt_free(set);
}

static void
a_full_map_leaves_all_as_it_was(void **state)
{
    struct advisor_store_log before;
    size_t rows = 0;
    struct scene scene;

    (void)state;
    begin_with(&scene, 1 << 20);
    fill(&scene, 20);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    commit(&scene);
    before = scene.state;
    fill(&scene, 1000);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_FULL);
    assert_memory_equal(&scene.state, &before, sizeof(before));
    advisor_store_end(&scene.txn);
    assert_int_equal(advisor_store_write(scene.store, &scene.txn, NULL), KVT_OK);
    assert_same_state(&scene);
    fill(&scene, 20);
    assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
    commit(&scene);
    for (struct advisor_store_log_cursor cursor = {0}; !cursor.done; rows++)
        if (advisor_store_log_rows(&scene.txn, &cursor, 1, count_row, &(size_t){9}, NULL) != KVT_OK)
            fail_msg("row %zu", rows);
    assert_int_equal(rows, scene.state.next);
    end(&scene);
}

/* ---- damage ---- */

enum damage { NOTHING, MISSING, FLIPPED, CUT, LYING };

static void
damage_row(const struct scene *scene, enum advisor_table table, uint64_t number, enum damage what)
{
    const MDB_dbi dbi = scene->store->tables[table];
    uint8_t row[ADVISOR_EVENT_LOG_ROW_MAX] __attribute__((aligned(8)));
    struct advisor_event_log *lie;
    const void *bytes;
    uint32_t crc;
    uint64_t big = htobe64(number);
    MDB_val key = advisor_val(&big, sizeof(big));
    MDB_val value;

    if (what == NOTHING)
        return;
    if (what == MISSING) {
        assert_int_equal(mdb_del(scene->txn.handle, dbi, &key, NULL), 0);
        return;
    }
    assert_int_equal(mdb_get(scene->txn.handle, dbi, &key, &value), 0);
    memcpy(row, value.mv_data, value.mv_size);
    value.mv_data = row;
    if (what == FLIPPED)
        row[40] ^= 4;
    if (what == CUT)
        value.mv_size -= 8;
    if (what == LYING) { /* a good crc, and more blocks than there are */
        assert_int_equal(advisor_event_log_new(&lie), KVT_OK);
        assert_int_equal(advisor_event_log_drop(lie, 1, 1), KVT_OK);
        assert_true(advisor_event_log_row(lie, 0, &bytes, &value.mv_size));
        memcpy(row, bytes, value.mv_size);
        advisor_event_log_free(lie);
        row[10] = 1;
        crc = ~crc32_iscsi(row + 4, (int)value.mv_size - 4, UINT32_MAX);
        memcpy(row, &crc, sizeof(crc));
    }
    assert_int_equal(mdb_put(scene->txn.handle, dbi, &key, &value, 0), 0);
}

static enum kvt_err
ignore(void *arg, const struct advisor_event_log_op *op)
{
    (void)arg;
    (void)op;
    return KVT_OK;
}

static void
damage_is_found(void **state)
{
    static const struct {
        enum damage what;
        enum advisor_table table;
        uint64_t row;
        const char *text;
    } cases[] = {
        {NOTHING, ADVISOR_TABLE_JOURNAL, 0, ""},
        {MISSING, ADVISOR_TABLE_JOURNAL, 7, "row 7 of the index's journal is missing"},
        {MISSING, ADVISOR_TABLE_JOURNAL, 9, "row 9 of the index's journal is missing"},
        {MISSING, ADVISOR_TABLE_RUNS_A, 0, "row 0 of the index's snapshot is missing"},
        {MISSING, ADVISOR_TABLE_RUNS_A, 2, "row 2 of the index's snapshot is missing"},
        {FLIPPED, ADVISOR_TABLE_JOURNAL, 8, "row 8 of the index's journal fails its check"},
        {FLIPPED, ADVISOR_TABLE_RUNS_A, 1, "row 1 of the index's snapshot fails its check"},
        {CUT, ADVISOR_TABLE_JOURNAL, 6, "row 6 of the index's journal fails its check"},
        {LYING, ADVISOR_TABLE_JOURNAL, 6, "row 6 of the index's journal says what cannot be"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct advisor_store_log_cursor cursor = {0};
        struct kvt_error err = {.text = ""};
        enum kvt_err rc = KVT_OK;
        struct scene scene;

        begin(&scene);
        fill(&scene, 5);
        assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
        assert_int_equal(advisor_store_log_begin(&scene.txn, &scene.state), KVT_OK);
        assert_int_equal(advisor_store_log_add(&scene.txn, &scene.state, scene.log), KVT_OK);
        assert_int_equal(advisor_store_log_end(&scene.txn, &scene.state), KVT_OK);
        assert_int_equal(advisor_store_log_append(&scene.txn, &scene.state, scene.log), KVT_OK);
        assert_int_equal(scene.state.from, 5);
        damage_row(&scene, cases[i].table, cases[i].row, cases[i].what);
        while (rc == KVT_OK && !cursor.done)
            rc = advisor_store_log_read(&scene.txn, &cursor, 3, ignore, NULL, &err);
        assert_int_equal(rc, cases[i].what == NOTHING ? KVT_OK : KVT_CORRUPT);
        if (strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("%s: %s", cases[i].text, err.text);
        end(&scene);
    }
}

static void
a_state_that_cannot_be_is_refused(void **state)
{
    static const struct advisor_store_log bad[] = {
        {.whole = 3}, {.building = 3}, {.oldest = 2, .from = 1, .next = 3}, {.from = 1}};
    struct advisor_key_u32 id = {htobe32(ADVISOR_META_LOG)};
    MDB_val key = advisor_val(&id, sizeof(id));
    struct advisor_store_log_cursor cursor = {0};
    struct advisor_store_log read;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        struct advisor_store_log row = bad[i % (sizeof(bad) / sizeof(bad[0]))];
        MDB_val value = advisor_val(&row, sizeof(row) - (i == 4 ? 8 : 0));

        assert_int_equal(
            mdb_put(scene.txn.handle, scene.store->tables[ADVISOR_TABLE_META], &key, &value, 0), 0);
        assert_int_equal(advisor_store_log_get(&scene.txn, &read), KVT_CORRUPT);
        assert_int_equal(read.whole | read.building | read.from | read.next, 0);
        assert_int_equal(advisor_store_log_read(&scene.txn, &cursor, 1, ignore, NULL, NULL),
                         KVT_CORRUPT);
    }
    end(&scene);
}

/* A file of the format before has not even these tables. */
static void
the_format_before_is_refused(void **state)
{
    char folder[256];
    const struct kvt_lmdb_options db = {
        .path = test_folder_make(folder, sizeof(folder)), .map_bytes = 1 << 20, .databases_max = 1};
    struct advisor_store_options options = {.path = folder, .map_bytes = 1 << 20};
    uint64_t format = 1;
    struct advisor_key_u32 id = {htobe32(ADVISOR_META_FORMAT)};
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = advisor_val(&format, sizeof(format));
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;

    (void)state;
    assert_int_equal(kvt_lmdb_open(&env, &db, NULL), KVT_OK);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", MDB_CREATE, &meta), 0);
    assert_int_equal(mdb_put(txn, meta, &key, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    for (int i = 0; i < 2; i++) {
        struct advisor_store *store;
        struct kvt_error err;

        options.read_only = i == 1;
        assert_int_equal(advisor_store_open(&store, &options, &err), KVT_UNSUPPORTED);
        assert_null(store);
        assert_non_null(strstr(err.text, "format 1"));
        assert_non_null(strstr(err.text, "move the folder away"));
    }
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshot_and_journal_say_what_is_there),
        cmocka_unit_test(two_rows_a_page),
        cmocka_unit_test(void_rows_go_a_slice_a_commit),
        cmocka_unit_test(rows_in_pieces),
        cmocka_unit_test(another_snapshot_is_begun_anew),
        cmocka_unit_test(a_full_map_leaves_all_as_it_was),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_state_that_cannot_be_is_refused),
        cmocka_unit_test(the_format_before_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
