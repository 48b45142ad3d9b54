/*
 * What is tested: gateway/block/backlog.h, and what a block is to everybody between its
 * acknowledgement and its upload.
 */
#include <endian.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/store/lmdb.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "gateway/block/context_open.h"
#include "gateway/block/removal.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/waiting.h"

enum { SIZE = TEST_WAITING_SIZE, ROOM = 1 << 20, WAIT_MS = 30000 };

static enum kvt_err
demote(struct test_waiting *w, uint64_t number)
{
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    return test_gateway_demote(w->gateway.context, test_gateway_key(key, number), &bytes);
}

static enum kvt_err
removed(struct test_waiting *w, uint64_t number)
{
    char key[KVT_KEY_MAX];

    return gateway_remove(w->gateway.context, test_gateway_key(key, number));
}

static void
acknowledged_from_the_hot_copy(void **state)
{
    struct test_gateway peer;
    struct test_waiting w;
    char text[TEST_WAITING_EVENTS];
    unsigned tier;

    (void)state;
    test_waiting_open(&w, ROOM);
    test_gateway_open(&peer, 0, 0);
    memcpy(peer.cold, w.gateway.cold, sizeof(peer.cold));
    test_gateway_reopen(&peer);

    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_false(test_waiting_arrived(&w, 1, SIZE));
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_HOT);
    assert_int_equal(test_gateway_has(&w.gateway, 1), KVT_OK);
    assert_int_equal(test_gateway_has(&peer, 1), KVT_NOTFOUND);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(test_waiting_blocks(&w), 1);
    assert_string_equal(test_waiting_events(&w, text), "+hot");

    assert_int_equal(test_waiting_round(&w), 1);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(test_gateway_has(&peer, 1), KVT_OK);
    assert_int_equal(test_waiting_blocks(&w), 0);
    assert_int_equal(gateway_recover_pending(w.gateway.context), 0);
    assert_string_equal(test_waiting_events(&w, text), "+hot +cold");
    test_gateway_close(&peer);
    test_waiting_close(&w);
}

static void
repeats_and_other_bytes(void **state)
{
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_PRESENT), 1);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE - 1), KVT_PRECONDITION);
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_drain(&w);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

/* The bucket is away: while there is room PUTs are taken, and a restart knows them. */
static void
outage_is_bridged(void **state)
{
    struct gateway_backlog_state seen;
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, 3 * SIZE);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_UNAVAILABLE, UINT64_MAX);
    (void)gateway_bucket_tier_ended(w.gateway.context->tiers.buckets, KVT_UNAVAILABLE);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_gateway_put(&w.gateway, i, SIZE), KVT_OK);
    assert_int_equal(test_gateway_put(&w.gateway, 3, SIZE), KVT_UNAVAILABLE);
    assert_int_equal(test_gateway_tiers(&w.gateway, 3, NULL), 0);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_FULL), 1);
    assert_int_equal(test_waiting_round(&w), 0);
    test_waiting_reopen(&w); /* with a bucket that answers */
    gateway_backlog_state(w.backlog, &seen);
    assert_int_equal(seen.blocks, 3);
    assert_int_equal(seen.bytes, 3 * SIZE);
    assert_false(seen.stuck);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_gateway_get(&w.gateway, i, SIZE, NULL), KVT_OK);
    test_waiting_drain(&w);
    for (uint64_t i = 0; i < 3; i++)
        assert_true(test_waiting_arrived(&w, i, SIZE));
    test_waiting_close(&w);
}

/* Nothing is owed to a bucket that was never seen to keep conditions. */
static void
unproven_bucket_is_owed_nothing(void **state)
{
    struct g4_directory_options bucket = {.threads = 1};
    struct test_waiting w;
    struct kvt_error err;

    (void)state;
    test_waiting_open(&w, ROOM);
    gateway_context_close(w.gateway.context); /* the next life has not probed yet */
    bucket.path = w.gateway.cold;
    assert_int_equal(g4_directory_open(&w.gateway.options.cold_store, &bucket, &err), KVT_OK);
    assert_int_equal(gateway_context_open(&w.gateway.context, &w.gateway.options, &err), KVT_OK);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_UNAVAILABLE);
    assert_int_equal(test_waiting_blocks(&w), 0);
    gateway_bucket_tier_probe(w.gateway.context->tiers.buckets);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_close(&w);
}

/* A full backlog sends PUTs to the bucket first, one by one as they fit. */
static void
full_backlog_writes_through(void **state)
{
    struct gateway_put_item items[4];
    uint8_t bodies[4][SIZE];
    char keys[4][KVT_KEY_MAX];
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, 2 * SIZE);
    for (uint64_t i = 0; i < 4; i++) {
        test_gateway_fill(bodies[i], SIZE, i);
        items[i] = (struct gateway_put_item){.key = test_gateway_key(keys[i], i),
                                             .body = bodies[i],
                                             .size = SIZE,
                                             .crc32c = g4_check_crc32c(bodies[i], SIZE)};
    }
    gateway_put_blocks(w.gateway.context, items, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(items[i].status, KVT_OK);
        assert_int_not_equal(items[i].etag[0], '\0');
        assert_int_equal(test_gateway_get(&w.gateway, i, SIZE, NULL), KVT_OK);
        assert_int_equal(test_waiting_arrived(&w, i, SIZE), i >= 2);
    }
    assert_int_equal(test_waiting_blocks(&w), 2);
    test_waiting_drain(&w);
    assert_int_equal(test_gateway_put(&w.gateway, 4, SIZE), KVT_OK);
    assert_int_equal(test_waiting_blocks(&w), 1); /* there is room again */
    test_waiting_close(&w);
}

/* No room on the volume, though the catalog thinks so: the bucket acknowledges. */
static void
full_volume_writes_through(void **state)
{
    const struct g4_meta meta = {0};
    struct test_waiting w;
    uint8_t *body = kvt_calloc(1, TEST_WAITING_HOT);

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_store_put(w.gateway.context->tiers.hot, "stray", body,
                                            TEST_WAITING_HOT, &meta),
                     KVT_OK);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_COLD);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    assert_int_equal(test_waiting_blocks(&w), 0);
    kvt_free(body);
    test_waiting_close(&w);
}

/* What was meant to be acknowledged, and was not, leaves no row, no file and no room taken. */
static void
unfinished_intent_vanishes(void **state)
{
    struct gateway_change change = {.reserve = true};
    struct test_waiting w;
    char key[KVT_KEY_MAX];

    (void)state;
    test_waiting_open(&w, ROOM);
    change.key = test_gateway_key(key, 1);
    change.record = (struct gateway_record){
        .state = GATEWAY_INTENT, .tiers = GATEWAY_HOT | GATEWAY_COLD, .owed = true, .length = SIZE};
    assert_int_equal(
        gateway_catalog_change(w.gateway.context->catalog, &change, 1, GATEWAY_DURABLE), KVT_OK);
    assert_true(change.record.owed);
    assert_int_equal(test_waiting_plant(w.gateway.context->tiers.hot, 1, 1), KVT_OK);
    test_waiting_reopen(&w);
    assert_int_equal(test_waiting_round(&w), 0);
    assert_int_equal(gateway_recover_pending(w.gateway.context), 1);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), 0);
    assert_int_equal(test_waiting_blocks(&w), 0);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_waiting_drain(&w);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

static void
deleted_before_its_upload(void **state)
{
    struct test_waiting w;
    struct g4_request head;
    char key[KVT_KEY_MAX];
    const char *name = test_gateway_key(key, 1);
    char text[TEST_WAITING_EVENTS];

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(gateway_removal_mark(w.gateway.context, &name, 1), KVT_OK);
    assert_int_equal(test_waiting_blocks(&w), 0); /* its room is free */
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_REMOVED), 1);
    assert_int_equal(test_gateway_has(&w.gateway, 1), KVT_NOTFOUND);
    assert_int_equal(removed(&w, 1), KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), 0);
    assert_int_equal(test_waiting_round(&w), 0);
    assert_int_equal(test_gateway_has(&w.gateway, 1), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(w.gateway.bucket, test_gateway_key(key, 1), &head),
                     KVT_NOTFOUND);
    assert_string_equal(test_waiting_events(&w, text), "+hot -hot");
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK); /* and it may come again */
    test_waiting_drain(&w);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

static void *
upload(void *arg)
{
    (void)test_waiting_round(arg);
    return NULL;
}

/* A removal that meets the upload in the air waits for it, and takes away what it brought. */
static void
deleted_during_its_upload(void **state)
{
    struct g4_fault_rule slow = {
        .verb = G4_PUT, .fault = G4_FAULT_DELAY, .count = 1, .delay_ms = 150};
    const uint64_t end_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct test_waiting w;
    struct g4_request head;
    char key[KVT_KEY_MAX];
    pthread_t thread;
    uint64_t seen;
    uint64_t hit = 0;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_faulty_store_set(w.gateway.bucket, &slow);
    assert_int_equal(pthread_create(&thread, NULL, upload, &w), 0);
    while (hit == 0 && kvt_clock_mono_ms() < end_ms) {
        test_faulty_store_count(w.gateway.bucket, G4_PUT, &seen, &hit);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(hit, 1); /* it is in the air */
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(removed(&w, 1), KVT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(test_gateway_has(&w.gateway, 1), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(w.gateway.bucket, test_gateway_key(key, 1), &head),
                     KVT_NOTFOUND);
    assert_int_equal(test_waiting_round(&w), 0);
    assert_int_equal(test_waiting_blocks(&w), 0);
    test_waiting_close(&w);
}

/* A demotion uploads first, and what it cannot upload stays hot. */
static void
demoted_before_its_upload(void **state)
{
    struct test_waiting w;
    unsigned tier;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_DENIED, 1);
    assert_int_equal(demote(&w, 1), KVT_DENIED);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_HOT);
    assert_int_equal(test_waiting_blocks(&w), 1);
    assert_int_equal(demote(&w, 1), KVT_OK);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_UPLOADED), 1);
    assert_int_equal(test_gateway_tiers(&w.gateway, 1, NULL), GATEWAY_COLD);
    assert_int_equal(test_waiting_blocks(&w), 0);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);

    /* Another gateway's bytes are under the key: they stay, and so does the hot copy. */
    assert_int_equal(test_gateway_put(&w.gateway, 2, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(w.gateway.bucket, 2, 99), KVT_OK);
    assert_int_equal(demote(&w, 2), KVT_PRECONDITION);
    assert_int_equal(test_gateway_tiers(&w.gateway, 2, NULL), GATEWAY_HOT);
    test_waiting_close(&w);
}

static void
already_in_the_bucket(void **state)
{
    struct test_waiting w;
    uint64_t seen;
    uint64_t hit;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(w.gateway.bucket, 1, 1), KVT_OK);
    assert_int_equal(test_waiting_round(&w), 1);
    /* A lost answer: the next upload finds what this one brought. */
    assert_int_equal(test_gateway_put(&w.gateway, 2, SIZE), KVT_OK);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_LOSE, KVT_IO, 1);
    assert_int_equal(test_waiting_round(&w), 0);
    test_faulty_store_count(w.gateway.bucket, G4_PUT, &seen, &hit);
    assert_int_equal(hit, 1);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_FAILED), 1);
    assert_int_equal(test_gateway_tiers(&w.gateway, 2, NULL), GATEWAY_HOT);
    test_waiting_drain(&w);
    assert_int_equal(test_gateway_tiers(&w.gateway, 2, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 0);
    test_waiting_close(&w);
}

/* A bad object in the bucket is repaired, as by a PUT. */
static void
bad_object_is_replaced(void **state)
{
    const struct g4_meta bare = {0};
    struct test_waiting w;
    char key[KVT_KEY_MAX];

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(
        test_gateway_store_put(w.gateway.bucket, test_gateway_key(key, 1), "", 0, &bare), KVT_OK);
    assert_int_equal(test_waiting_round(&w), 1);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

/* No settings leave acknowledged blocks behind. */
static void
hot_volume_is_not_taken_away(void **state)
{
    struct gateway_context_options options;
    struct gateway_context *context;
    struct test_waiting w;
    struct kvt_error err;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    options = w.gateway.options;
    gateway_backlog_stop(w.backlog);
    w.backlog = NULL;
    gateway_context_close(w.gateway.context);
    options.hot_capacity = 0;
    assert_int_equal(gateway_context_open(&context, &options, &err), KVT_INVALID);
    options.write_back = false;
    assert_int_equal(gateway_context_open(&context, &options, &err), KVT_INVALID);
    w.gateway.context = NULL;
    w.gateway.options.write_back = false; /* but write-through empties the backlog too */
    test_waiting_reopen(&w);
    assert_int_equal(test_gateway_put(&w.gateway, 2, SIZE), KVT_OK);
    assert_true(test_waiting_arrived(&w, 2, SIZE));
    test_waiting_drain(&w);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

/* The thread does all of it by itself, more than a page of it. */
static void
thread_uploads_all(void **state)
{
    enum { BLOCKS = 3 * GATEWAY_BACKLOG_PAGE };
    const uint64_t end_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct gateway_backlog_state seen;
    struct test_waiting w;
    struct kvt_error err;

    (void)state;
    test_waiting_open(&w, ROOM);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_FULL, 2);
    assert_int_equal(gateway_backlog_start(w.backlog, &err), KVT_OK);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&w.gateway, i, 1000), KVT_OK);
    do {
        kvt_clock_sleep_ms(5);
        gateway_backlog_state(w.backlog, &seen);
    } while (seen.blocks > 0 && kvt_clock_mono_ms() < end_ms);
    assert_int_equal(seen.blocks, 0);
    assert_int_equal(seen.oldest_ms, 0);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_true(test_waiting_arrived(&w, i, 1000));
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_UPLOADED), BLOCKS);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_FAILED), 2);
    test_waiting_close(&w);
}

/* What failed has its turn again when all others had theirs, though more comes all the time. */
static void
failures_have_their_turn(void **state)
{
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_FULL, 1);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_round(&w), 0);
    assert_int_equal(test_gateway_put(&w.gateway, 2, SIZE), KVT_OK);
    assert_int_equal(test_waiting_round(&w), 2);

    /* A bucket that was away has all of it before it, from the oldest on. */
    for (uint64_t i = 0; i < GATEWAY_BACKLOG_PAGE + 1; i++)
        assert_int_equal(test_gateway_put(&w.gateway, 10 + i, SIZE), KVT_OK);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_FULL, GATEWAY_BACKLOG_PAGE);
    assert_int_equal(test_waiting_round(&w), 0);
    (void)gateway_bucket_tier_ended(w.gateway.context->tiers.buckets, KVT_UNAVAILABLE);
    assert_int_equal(test_waiting_round(&w), 0);
    gateway_bucket_tier_probe(w.gateway.context->tiers.buckets);
    assert_int_equal(test_waiting_round(&w), GATEWAY_BACKLOG_PAGE);
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_close(&w);
}

/* A bucket that takes its time with every PUT. */
struct slow {
    struct g4_store *inner;
    uint64_t end_ms[GATEWAY_BACKLOG_PAGE]; /* deadlines it was given */
    size_t count;
};

static enum kvt_err
slow_submit(void *self, struct g4_request *request)
{
    struct slow *slow = self;

    if (request->verb == G4_PUT && slow->count < GATEWAY_BACKLOG_PAGE) {
        slow->end_ms[slow->count++] = request->deadline_ms;
        kvt_clock_sleep_ms(3);
    }
    return g4_store_submit(slow->inner, request);
}

static void
slow_close(void *self)
{
    struct slow *slow = self;

    g4_store_close(slow->inner);
}

static const struct g4_store_driver slow_driver = {
    .name = "slow", .submit = slow_submit, .close = slow_close};

/* Each upload has its own time, however long those before it took. */
static void
uploads_have_their_own_time(void **state)
{
    const struct gateway_backlog_options options = {.uploads = 1, .stuck_ms = 60000};
    struct slow slow = {0};
    struct test_waiting w;
    struct kvt_error err;

    (void)state;
    test_waiting_open(&w, ROOM);
    gateway_backlog_stop(w.backlog);
    test_gateway_interpose(&w.gateway, &slow_driver, &slow, &slow.inner);
    assert_int_equal(gateway_backlog_new(&w.backlog, w.gateway.context, &options, &err), KVT_OK);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(test_gateway_put(&w.gateway, i, SIZE), KVT_OK);
    slow.count = 0; /* the self-test put, too */
    assert_int_equal(test_waiting_round(&w), 4);
    assert_int_equal(slow.count, 4);
    for (size_t i = 1; i < slow.count; i++)
        assert_true(slow.end_ms[i] >= slow.end_ms[i - 1] + 3);
    test_waiting_close(&w);
}

static void
stuck_is_told(void **state)
{
    const struct gateway_backlog_options options = {.uploads = 1, .stuck_ms = 20};
    struct gateway_backlog_state seen;
    struct gateway_backlog *backlog;
    struct test_waiting w;
    struct kvt_error err;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(gateway_backlog_new(&backlog, w.gateway.context, &options, &err), KVT_OK);
    kvt_clock_sleep_ms(30);
    gateway_backlog_state(backlog, &seen);
    assert_false(seen.stuck); /* nothing waits */
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_gateway_fault(&w.gateway, G4_PUT, G4_FAULT_FAIL, KVT_FULL, 1);
    gateway_backlog_round(backlog, &(struct gateway_backlog_round){0});
    gateway_backlog_state(backlog, &seen);
    assert_true(seen.stuck);
    assert_int_equal(seen.last, KVT_FULL);
    test_waiting_drain(&w);
    gateway_backlog_state(backlog, &seen);
    assert_false(seen.stuck);
    gateway_backlog_stop(backlog);
    test_waiting_close(&w);
}

/* Make the catalog one of a gateway that knew no backlog: its counters end two words earlier. */
static void
make_older(const char *state_dir)
{
    char path[256];
    const struct kvt_lmdb_options options = {
        .path = path, .map_bytes = UINT64_C(80) << 20, .databases_max = 6};
    MDB_val name = kvt_lmdb_val("state", 5);
    uint64_t words[1024];
    struct kvt_error err;
    MDB_val value;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;

    (void)snprintf(path, sizeof(path), "%s/catalog", state_dir);
    assert_int_equal(kvt_lmdb_open(&env, &options, &err), KVT_OK);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    assert_int_equal(mdb_get(txn, meta, &name, &value), 0);
    assert_in_range(value.mv_size, 3 * sizeof(words[0]), sizeof(words));
    memcpy(words, value.mv_data, value.mv_size);
    assert_int_equal(le64toh(words[0]), 2);
    words[0] = htole64(1);
    value = kvt_lmdb_val(words, value.mv_size - 2 * sizeof(words[0]));
    assert_int_equal(mdb_put(txn, meta, &name, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void
older_catalog_is_read(void **state)
{
    struct gateway_catalog_stats before;
    struct gateway_catalog_stats after;
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_waiting_drain(&w);
    gateway_catalog_stats(w.gateway.context->catalog, &before);
    gateway_backlog_stop(w.backlog);
    w.backlog = NULL;
    gateway_context_close(w.gateway.context);
    w.gateway.context = NULL;
    make_older(w.gateway.state);
    test_waiting_reopen(&w);
    gateway_catalog_stats(w.gateway.context->catalog, &after);
    assert_int_equal(after.entries, before.entries);
    assert_int_equal(after.used[0], before.used[0]);
    assert_int_equal(after.incarnation, before.incarnation);
    assert_int_equal(after.owed_blocks, 0);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_put(&w.gateway, 2, SIZE), KVT_OK);
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_drain(&w);
    test_waiting_close(&w);
}

static bool
make(void *arg)
{
    const struct gateway_backlog_options options = {.uploads = 1, .stuck_ms = 1};
    struct gateway_backlog *backlog;
    struct kvt_error err;
    const enum kvt_err rc = gateway_backlog_new(&backlog, arg, &options, &err);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    gateway_backlog_stop(backlog);
    return rc == KVT_OK;
}

static void
survives_failing_allocations(void **state)
{
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_sweep_allocations(make, w.gateway.context), 1);
    test_waiting_close(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_from_the_hot_copy),
        cmocka_unit_test(repeats_and_other_bytes),
        cmocka_unit_test(outage_is_bridged),
        cmocka_unit_test(unproven_bucket_is_owed_nothing),
        cmocka_unit_test(full_backlog_writes_through),
        cmocka_unit_test(full_volume_writes_through),
        cmocka_unit_test(unfinished_intent_vanishes),
        cmocka_unit_test(deleted_before_its_upload),
        cmocka_unit_test(deleted_during_its_upload),
        cmocka_unit_test(demoted_before_its_upload),
        cmocka_unit_test(already_in_the_bucket),
        cmocka_unit_test(bad_object_is_replaced),
        cmocka_unit_test(hot_volume_is_not_taken_away),
        cmocka_unit_test(thread_uploads_all),
        cmocka_unit_test(failures_have_their_turn),
        cmocka_unit_test(uploads_have_their_own_time),
        cmocka_unit_test(stuck_is_told),
        cmocka_unit_test(older_catalog_is_read),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
