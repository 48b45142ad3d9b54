/*
 * What is tested: advisor/archive/verify.h, and that advisor/index/index_image.h refuses what
 * cannot be so. How: a random store; rows, and rows of the log, broken one by one, and what verify
 * says of them.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/archive/verify.h"
#include "advisor/index/index_image.h"
#include "advisor/store/durable_store_private.h"
#include "advisor/store/policy_version_rows.h"

#include "tests/support/seed.h"
#include "tests/unit/cli/index/index_store.h"

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
    const struct test_store *scene = *state;
    struct advisor_verify_counts counts;
    struct said said = {0};

    assert_int_equal(advisor_verify(scene->store, say, &said, &counts), KVT_OK);
    assert_string_equal(said.first, "");
    assert_int_equal(counts.problems, 0);
    assert_true(counts.blocks > 100 && counts.places > counts.blocks);
    assert_int_equal(counts.held, counts.places);
    assert_true(counts.log_rows > 10 && counts.changes > 1000);
    assert_int_equal(counts.publishers, 1);
}

/* Do one wrong thing; what verify then says must have `words` in it. */
static void
break_and_verify(const struct test_store *scene, void (*damage)(const struct advisor_txn *txn),
                 const char *words)
{
    struct advisor_verify_counts counts;
    struct said said = {0};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    damage(&txn);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(scene->store, say, &said, &counts), KVT_OK);
    assert_true(said.count > 0);
    assert_int_equal(counts.problems, said.count);
    if (strstr(said.first, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", said.first, words);
}

/* ---- rows ---- */

static enum kvt_err
take_first(void *arg, const struct advisor_store_block *block)
{
    struct advisor_store_block *to = arg;

    if (block->place_count != 2)
        return KVT_OK;
    assert_int_equal(advisor_store_block_reserve(to, block->place_count + 1), KVT_OK);
    memcpy(to->places, block->places, block->place_count * sizeof(*block->places));
    to->place_count = block->place_count;
    to->hash = block->hash;
    to->ns = block->ns;
    return KVT_CANCELLED;
}

static struct advisor_store_block
first_block(const struct advisor_txn *txn)
{
    struct advisor_store_block block = {0};
    uint64_t next;

    assert_int_equal(advisor_store_blocks(txn, 1, SIZE_MAX, &next, take_first, &block),
                     KVT_CANCELLED);
    return block;
}

static void
put_back(const struct advisor_txn *txn, struct advisor_store_block *block)
{
    assert_int_equal(advisor_store_put_block(txn, block), KVT_OK);
    advisor_store_block_release(block);
}

static void
damage_held(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);
    const struct advisor_held held = {block.hash, block.places[0].holder, block.ns, 0, 0};

    assert_int_equal(advisor_store_delete_held(txn, &held), KVT_OK);
    advisor_store_block_release(&block);
}

static void
damage_place(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);

    block.place_count--;
    put_back(txn, &block);
}

static void
damage_twice(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);

    block.places[block.place_count++] = block.places[0];
    put_back(txn, &block);
}

static void
damage_ranks(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);

    block.places[0].ranks = 0;
    put_back(txn, &block);
}

static void
damage_holder(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);

    block.places[0].holder = TEST_STORE_HOLDERS + 5;
    put_back(txn, &block);
}

static void
damage_tier(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);

    block.places[0].holder = 0;
    put_back(txn, &block);
}

static void
damage_reporter(const struct advisor_txn *txn)
{
    struct advisor_store_block block = first_block(txn);
    const struct advisor_held held = {block.hash, block.places[0].holder, block.ns,
                                      TEST_STORE_PUBLISHER_NEXT, 0};

    assert_int_equal(advisor_store_put_held(txn, &held), KVT_OK);
    advisor_store_block_release(&block);
}

static void
damage_publisher(const struct advisor_txn *txn)
{
    const struct advisor_publisher_row row = {.number = TEST_STORE_PUBLISHER_NEXT,
                                              .worker = "late"};

    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_PUBLISHER, &row), KVT_OK);
}

/* ---- versions of the policy ---- */

static void
put_policy(const struct advisor_txn *txn, uint64_t version, const char *digest)
{
    struct advisor_policy_row row = {.version = version, .size = 1, .source = "api"};

    (void)snprintf(row.digest, sizeof(row.digest), "%s", digest);
    assert_int_equal(advisor_store_put_policy(txn, &row, "x"), KVT_OK);
}

/* sha256 of "x" */
#define DIGEST_X "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

static void
damage_policy_digest(const struct advisor_txn *txn)
{
    put_policy(txn, 1, DIGEST_X);
    put_policy(txn, 2, &DIGEST_X[1]);
}

static void
damage_policy_hole(const struct advisor_txn *txn)
{
    put_policy(txn, 1, DIGEST_X);
    put_policy(txn, 3, DIGEST_X);
}

static void
damage_policy_row(const struct advisor_txn *txn)
{
    uint64_t id = htobe64(1);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = advisor_val(&id, sizeof(id));

    assert_int_equal(
        mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_POLICIES], &key, &value, 0), 0);
}

/* ---- the log ---- */

/* One store more, with something wrong in its place. */
static void
append(const struct advisor_txn *txn, const struct advisor_event_log_place *place,
       uint32_t position)
{
    const uint64_t hash = 12345;
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_event_log_store(log, place, 0, position, &hash, NULL, 1), KVT_OK);
    test_store_append(txn, log);
    advisor_event_log_free(log);
}

static void
damage_log_holder(const struct advisor_txn *txn)
{
    append(txn, &(struct advisor_event_log_place){.holder = TEST_STORE_HOLDERS, .ranks = 1}, 0);
}

/* As when the number was a worker's, which left. */
static void
log_former_holder(const struct advisor_txn *txn)
{
    append(txn, &(struct advisor_event_log_place){.holder = TEST_STORE_WORKERS, .ranks = 1}, 0);
}

static void
damage_log_namespace(const struct advisor_txn *txn)
{
    append(txn, &(struct advisor_event_log_place){.ns = TEST_STORE_NAMESPACES, .ranks = 1}, 0);
}

static void
damage_log_position(const struct advisor_txn *txn)
{
    append(txn, &(struct advisor_event_log_place){.ranks = 1}, KVT_POSITION_MAX + 1);
}

static uint64_t
newest_row(const struct advisor_txn *txn)
{
    struct advisor_store_log state;

    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_true(state.next > 2);
    return state.next - 1;
}

/* The bytes of a row of the journal, to be changed. */
static void
change_row(const struct advisor_txn *txn, uint64_t number, size_t at, uint8_t flip)
{
    const MDB_dbi table = txn->store->tables[ADVISOR_TABLE_JOURNAL];
    uint64_t big = htobe64(number);
    uint8_t bytes[ADVISOR_EVENT_LOG_ROW_MAX];
    MDB_val key = advisor_val(&big, sizeof(big));
    MDB_val value;

    assert_int_equal(mdb_get(txn->handle, table, &key, &value), 0);
    assert_true(value.mv_size <= sizeof(bytes) && at < value.mv_size);
    memcpy(bytes, value.mv_data, value.mv_size);
    bytes[at] ^= flip;
    value.mv_data = bytes;
    assert_int_equal(mdb_put(txn->handle, table, &key, &value, 0), 0);
}

static void
damage_log_crc(const struct advisor_txn *txn)
{
    change_row(txn, newest_row(txn) - 1, 40, 1);
}

static void
damage_log_missing(const struct advisor_txn *txn)
{
    uint64_t big = htobe64(newest_row(txn));
    MDB_val key = advisor_val(&big, sizeof(big));

    assert_int_equal(mdb_del(txn->handle, txn->store->tables[ADVISOR_TABLE_JOURNAL], &key, NULL),
                     0);
}

static void
put_state(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    uint32_t big = htobe32(ADVISOR_META_LOG);
    MDB_val key = advisor_val(&big, sizeof(big));
    MDB_val value = advisor_val(state, sizeof(*state));

    assert_int_equal(mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_META], &key, &value, 0),
                     0);
}

static void
damage_log_bytes(const struct advisor_txn *txn)
{
    struct advisor_store_log state;

    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    state.bytes += 8;
    put_state(txn, &state);
}

static void
damage_log_state(const struct advisor_txn *txn)
{
    struct advisor_store_log state;

    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    state.from = state.next + 1;
    put_state(txn, &state);
}

/* A snapshot, whole, with one row more than its state says. */
static void
damage_snapshot_rows(const struct advisor_txn *txn)
{
    const struct advisor_event_log_place place = {.size = 1};
    const uint64_t hash = 12345;
    struct advisor_store_log state;
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_event_log_run(log, &place, 0, 0, &hash, NULL, 1), KVT_OK);
    assert_int_equal(advisor_event_log_hold(log, 0, 1, 0, 1), KVT_OK);
    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_begin(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_add(txn, &state, log), KVT_OK);
    assert_int_equal(advisor_store_log_end(txn, &state), KVT_OK);
    advisor_event_log_free(log);
    state.runs_rows--;
    put_state(txn, &state);
}

/* A change in a snapshot, which says what there is. */
static void
damage_snapshot_kind(const struct advisor_txn *txn)
{
    struct advisor_store_log state;
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_event_log_drop(log, 0, 0), KVT_OK);
    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_begin(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_add(txn, &state, log), KVT_OK);
    assert_int_equal(advisor_store_log_end(txn, &state), KVT_OK);
    advisor_event_log_free(log);
}

/* A place in G4 in a snapshot, which is of the holders there are. */
static void
damage_snapshot_tier(const struct advisor_txn *txn)
{
    const struct advisor_event_log_place place = {.ns = 0};
    const uint64_t hash = 12345;
    struct advisor_store_log state;
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_event_log_run(log, &place, 0, 0, &hash, NULL, 1), KVT_OK);
    assert_int_equal(advisor_event_log_hold(log, TEST_STORE_WORKERS, 1, 0, 1), KVT_OK);
    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_begin(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_add(txn, &state, log), KVT_OK);
    assert_int_equal(advisor_store_log_end(txn, &state), KVT_OK);
    advisor_event_log_free(log);
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
FINDS(a_row_for_a_worker, damage_tier, "holder 0 is a worker's")
FINDS(a_reporter_to_come, damage_reporter, "whose number was not given yet")
FINDS(a_publisher_to_come, damage_publisher, "publisher late: number 9")
FINDS(a_policy_of_another_digest, damage_policy_digest, "version 2: its text has another digest")
FINDS(a_policy_that_is_missing, damage_policy_hole, "version 2 is missing")
FINDS(a_policy_that_is_none, damage_policy_row, "cannot be read")
FINDS(a_logged_holder_without_a_name, damage_log_holder, "no holder has number 7")
FINDS(a_bucket_in_a_snapshot, damage_snapshot_tier, "holder 4 is of G4")
FINDS(a_logged_namespace_without_a_name, damage_log_namespace, "no namespace has number 3")
FINDS(a_logged_position_too_deep, damage_log_position, "position")
FINDS(a_row_that_was_damaged, damage_log_crc, "checksum is wrong")
FINDS(a_row_that_is_missing, damage_log_missing, "is missing")
FINDS(a_log_of_other_length, damage_log_bytes, "its state says")
FINDS(a_state_that_cannot_be, damage_log_state, "contradicts itself")
FINDS(a_snapshot_of_other_length, damage_snapshot_rows, "snapshot: 0 bytes")
FINDS(a_snapshot_with_changes, damage_snapshot_kind, "snapshot row 0: an operation of kind 3")

/* What the journal says of a number may be of who had it before. */
static void
a_number_that_was_a_workers(void **state)
{
    const struct test_store *scene = *state;
    struct advisor_verify_counts counts;
    struct said said = {0};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    log_former_holder(&txn);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(scene->store, say, &said, &counts), KVT_OK);
    assert_string_equal(said.first, "");
}

/* Every problem of one kind is told, and what is behind a damaged row is looked at too. */
static void
all_of_the_log_is_looked_at(void **state)
{
    const struct test_store *scene = *state;
    struct advisor_verify_counts counts;
    struct said said = {0};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    change_row(&txn, 0, 20, 0x10);
    change_row(&txn, newest_row(&txn), 20, 0x10);
    damage_log_holder(&txn);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(scene->store, say, &said, &counts), KVT_OK);
    assert_int_equal(said.count, 3);
    assert_non_null(strstr(said.first, "journal row 0:"));
}

static void
it_stops_when_told(void **state)
{
    const struct test_store *scene = *state;
    struct advisor_verify_counts counts;
    struct said said = {.stop_after = 3};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put_number(&txn, ADVISOR_META_PUBLISHER_NEXT, 1), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_verify(scene->store, say, &said, &counts), KVT_CANCELLED);
    assert_int_equal(said.count, 3);
}

/* ---- images ---- */

static void
refuse(const struct test_store *scene, void (*damage)(const struct advisor_txn *txn))
{
    struct kvt_error err = {.text = ""};
    struct advisor_index_image *image;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    damage(&txn);
    assert_int_equal(advisor_index_image_new(&image, &txn, &err), KVT_CORRUPT);
    assert_null(image);
    assert_string_not_equal(err.text, "");
    advisor_store_end(&txn);
}

static void
no_image_is_made_of_what_cannot_be(void **state)
{
    refuse(*state, damage_log_holder);
    refuse(*state, damage_log_namespace);
    refuse(*state, damage_log_crc);
    refuse(*state, damage_log_missing);
    refuse(*state, damage_holder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_store_set_up, test_store_tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_store_has_no_problem),
        TEST(a_place_nobody_reported),
        TEST(a_report_without_its_place),
        TEST(a_holder_twice),
        TEST(a_place_without_shards),
        TEST(a_holder_without_a_name),
        TEST(a_row_for_a_worker),
        TEST(a_reporter_to_come),
        TEST(a_publisher_to_come),
        TEST(a_policy_of_another_digest),
        TEST(a_policy_that_is_missing),
        TEST(a_policy_that_is_none),
        TEST(a_logged_holder_without_a_name),
        TEST(a_bucket_in_a_snapshot),
        TEST(a_number_that_was_a_workers),
        TEST(a_logged_namespace_without_a_name),
        TEST(a_logged_position_too_deep),
        TEST(a_row_that_was_damaged),
        TEST(a_row_that_is_missing),
        TEST(a_log_of_other_length),
        TEST(a_state_that_cannot_be),
        TEST(a_snapshot_of_other_length),
        TEST(a_snapshot_with_changes),
        TEST(all_of_the_log_is_looked_at),
        TEST(it_stops_when_told),
        TEST(no_image_is_made_of_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
