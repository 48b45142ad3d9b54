/*
 * What is tested: that answers say of which holders events are missing (advisor_publishers_mark()).
 * How: two workers with two ranks each; one rank misses events, and nobody can be asked.  Buckets
 * that are spoken of by somebody who was not heard for a while.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "kvtier/key.h"
#include "wire/message/query.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/rig.h"

enum { MESSAGE_MAX = 1u << 20, DEADLINE_MS = 10000, HOLDERS_MAX = 8 };

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

static const struct test_router_blocks blocks = {.chain = 1, .depth = 0, .count = 2};

static void
store(struct test_rig *rig, uint64_t worker, uint32_t rank, uint64_t id)
{
    const struct test_router_head head = {
        .worker = worker, .rank = rank, .tier = KVT_TIER_G1, .id = id};
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, MESSAGE_MAX);
    test_router_store(&bytes, &head, &blocks);
    test_rig_foreign(rig, 0, UINT64_MAX, &bytes);
    kvt_buffer_release(&bytes);
}

/* Who is uncertain, as a bit for each worker and rank. */
static uint32_t
ask(const struct test_rig *rig, size_t expected)
{
    const struct advisor_finder finder = {.memory = rig->finder.memory,
                                          .store = rig->finder.store,
                                          .publishers = advisor_round_publishers(rig->engine)};
    uint64_t hashes[] = {test_router_name(1, 0), test_router_name(1, 1)};
    const struct wire_query query = {.namespace_ = "ns0", .hashes = hashes, .hash_count = 2};
    struct wire_query_holder holders[HOLDERS_MAX];
    uint32_t uncertain = 0;
    size_t count;

    memset(holders, 0xFF, sizeof(holders));
    assert_int_equal(advisor_finder_matches(&finder, &query, holders, HOLDERS_MAX, &count), KVT_OK);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++)
        if (holders[i].uncertain)
            uncertain |= 1u << (2 * (uint32_t)(holders[i].name[0] - '0') + holders[i].dp_rank);
    return uncertain;
}

static void
holders_in_doubt_are_marked(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &dynamo, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    for (uint64_t worker = 1; worker <= 2; worker++)
        for (uint32_t rank = 0; rank < 2; rank++)
            store(&rig, worker, rank, 1);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 0);
    store(&rig, 2, 1, 9);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 1u << 5); /* worker 2, rank 1: while it is asked */
    while (test_rig_view(&rig).counts.events < 5) {
        test_rig_run(&rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    assert_int_equal(ask(&rig, 4), 1u << 5); /* and for good */
    test_rig_close(&rig);
    test_rig_open(&rig, &options);
    test_rig_run(&rig);
    /* A bus was not heard meanwhile: all are in doubt until they speak. */
    assert_int_equal(ask(&rig, 4), 0x3C);
    store(&rig, 1, 0, 2);
    test_rig_run(&rig);
    assert_int_equal(ask(&rig, 4), 0x38);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* ---- locations in G4 ---- */

static const struct advisor_source_ops minio = {.name = "minio-test",
                                                .dialect = WIRE_DIALECT_MINIO,
                                                .open = test_rig_source_open,
                                                .close = test_rig_source_close};

static void
hear(struct test_rig *rig, const char *text)
{
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, MESSAGE_MAX);
    kvt_buffer_append(&bytes, text, strlen(text));
    test_rig_foreign(rig, 0, UINT64_MAX, &bytes);
    test_rig_run(rig);
    kvt_buffer_release(&bytes);
}

/* Is this holder of the block known at all? */
static bool
holds(const struct test_rig *rig, uint64_t hash, const char *name)
{
    struct advisor_finder_block block;

    if (advisor_finder_block(&rig->finder, "ns0", hash, &block) != KVT_OK)
        return false;
    for (uint32_t i = 0; i < block.place_count; i++)
        if (strcmp(block.places[i].holder.name, name) == 0)
            return true;
    return false;
}

/* A listing, told as advisor/source/source_bucket.c tells it: the first object begins another
 * life. */
static void
list_object(struct test_rig *rig, const char *bucket, uint64_t hash)
{
    const struct kvt_block_id id = {.hash = hash};
    struct advisor_inbox_item *item;
    char key[KVT_KEY_MAX];
    char text[1024];

    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "ns0", 0, &id), KVT_OK);
    (void)snprintf(text, sizeof(text),
                   "{\"Records\":[{\"eventName\":\"s3:BucketRemoved:*\",\"s3\":{\"bucket\":"
                   "{\"name\":\"%s\"},\"object\":{\"key\":\"\",\"size\":0}}},"
                   "{\"eventName\":\"s3:ObjectCreated:Put\",\"s3\":{\"bucket\":"
                   "{\"name\":\"%s\"},\"object\":{\"key\":\"%s\",\"size\":9}}}]}",
                   bucket, bucket, key);
    assert_int_equal(
        advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "m", text, strlen(text)), KVT_OK);
    item->new_life = true;
    test_rig_foreign_item(rig, item);
    test_rig_run(rig);
}

/* Somebody who notifies of a bucket's objects. */
static void
put_object(struct test_rig *rig, const char *bucket, uint64_t hash)
{
    const struct kvt_block_id id = {.hash = hash};
    char key[KVT_KEY_MAX];
    char text[1024];

    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "ns0", 0, &id), KVT_OK);
    (void)snprintf(text, sizeof(text),
                   "{\"Records\":[{\"eventName\":\"s3:ObjectCreated:Put\",\"s3\":{\"bucket\":"
                   "{\"name\":\"%s\"},\"object\":{\"key\":\"%s\",\"size\":9}}}]}",
                   bucket, key);
    hear(rig, text);
}

/* A gateway of our own. */
static void
gateway_stores(struct test_rig *rig, const char *gateway, uint64_t seq, const char *holder,
               uint64_t hash)
{
    struct kvt_event event = {
        .sequence_hash = hash, .ranks = 1, .block_size = 9, .type = KVT_EVENT_STORE};
    struct kvt_event_batch batch = {.namespace_ = "ns0",
                                    .incarnation = 1,
                                    .first_seq = seq,
                                    .time_ms = 1,
                                    .locations = {{.tier = KVT_TIER_G4}},
                                    .location_count = 1,
                                    .events = &event,
                                    .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", gateway);
    (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "%s", holder);
    test_rig_batch(rig, 0, &batch);
    test_rig_run(rig);
}

/* Is this holder of the block uncertain? */
static bool
doubted(const struct test_rig *rig, uint64_t hash, const char *name, enum kvt_tier tier)
{
    const struct advisor_finder finder = {.memory = rig->finder.memory,
                                          .store = rig->finder.store,
                                          .publishers = advisor_round_publishers(rig->engine)};
    const struct wire_query query = {.namespace_ = "ns0", .hashes = &hash, .hash_count = 1};
    struct wire_query_holder holders[HOLDERS_MAX];
    size_t count;

    assert_int_equal(advisor_finder_matches(&finder, &query, holders, HOLDERS_MAX, &count), KVT_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(holders[i].name, name) == 0 && holders[i].tier == tier)
            return holders[i].uncertain;
    fail_msg("%s does not hold the block", name);
    return false;
}

static void
buckets_are_marked_with_their_reporter(void **state)
{
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &minio, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    put_object(&rig, "kv", 77);
    gateway_stores(&rig, "gw", 1, "cold@other", 77);
    gateway_stores(&rig, "gw", 2, "hot@gw", 77);
    assert_false(doubted(&rig, 77, "cold@kv", KVT_TIER_G4));
    assert_false(doubted(&rig, 77, "cold@other", KVT_TIER_G4));
    test_rig_close(&rig);
    /* Nobody notified us meanwhile, while our own stream kept everything. */
    test_rig_open(&rig, &options);
    test_rig_run(&rig);
    assert_true(doubted(&rig, 77, "cold@kv", KVT_TIER_G4));
    assert_false(doubted(&rig, 77, "cold@other", KVT_TIER_G4));
    assert_false(doubted(&rig, 77, "hot@gw", KVT_TIER_G4));
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* What a listing does not name any more is gone, live and after a restart; what
 * somebody else reported of the same bucket stays. */
static void
a_listing_sweeps_what_is_gone(void **state)
{
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &minio, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    for (uint64_t hash = 70; hash < 80; hash++)
        put_object(&rig, "kv", hash);
    gateway_stores(&rig, "gw", 1, "cold@kv", 90);
    gateway_stores(&rig, "gw", 2, "hot@gw", 71);
    for (int life = 0; life < 2; life++) {
        const uint64_t kept = 75 + (uint64_t)life;

        put_object(&rig, "kv", 76);
        list_object(&rig, "kv", kept);
        for (uint64_t hash = 70; hash < 80; hash++)
            assert_int_equal(holds(&rig, hash, "cold@kv"), hash == kept);
        assert_true(holds(&rig, 90, "cold@kv"));
        assert_true(holds(&rig, 71, "hot@gw"));
        put_object(&rig, "kv", 70); /* is told behind the listing, and stays */
        assert_true(holds(&rig, 70, "cold@kv"));
        test_rig_close(&rig);
        test_rig_open(&rig, &options);
        test_rig_run(&rig);
        assert_true(holds(&rig, kept, "cold@kv") && holds(&rig, 70, "cold@kv"));
        assert_false(holds(&rig, 79, "cold@kv"));
    }
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* What a gateway misses is doubted in all places it speaks for and in no others, also after a
 * restart. */
static void
buckets_are_marked_with_their_gateway(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct test_rig rig;
    char folder[256];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    gateway_stores(&rig, "gw", 1, "cold@kv", 77);
    gateway_stores(&rig, "gw", 2, "hot@gw", 77);
    gateway_stores(&rig, "gx", 1, "cold@other", 77);
    gateway_stores(&rig, "gx", 2, "hot@gx", 77);
    gateway_stores(&rig, "gw", 9, "cold@kv", 78);
    for (uint32_t round = 0; round < 2; round++) {
        assert_true(doubted(&rig, 77, "cold@kv", KVT_TIER_G4));
        assert_true(doubted(&rig, 77, "hot@gw", KVT_TIER_G4));
        assert_false(doubted(&rig, 77, "cold@other", KVT_TIER_G4));
        assert_false(doubted(&rig, 77, "hot@gx", KVT_TIER_G4));
        test_rig_close(&rig);
        test_rig_open(&rig, &options);
        gateway_stores(&rig, "gw", 19, "cold@kv", 78);
    }
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* Its blocks in G4 have no rank, those elsewhere have. */
static void
external_places_are_their_workers(void **state)
{
    static const char *const tiers[] = {"external", "device"};
    struct test_rig_options options = {
        .mode = ADVISOR_MODE_OFF, .foreign = &dynamo, .give_up_after_ms = 60000};
    struct test_rig rig;
    char folder[256];
    char text[512];

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    for (unsigned i = 0; i < 2; i++) { /* rank 1 in G4, rank 0 in G1 */
        (void)snprintf(text, sizeof(text),
                       "{\"worker_id\":5,\"storage_tier\":\"%s\",\"event\":{\"event_id\":1,"
                       "\"data\":{\"stored\":{\"parent_hash\":null,\"blocks\":"
                       "[{\"block_hash\":77,\"tokens_hash\":77}]}},\"dp_rank\":%u}}",
                       tiers[i], 1 - i);
        hear(&rig, text);
    }
    assert_false(doubted(&rig, 77, "5", KVT_TIER_G4));
    hear(&rig, "{\"worker_id\":5,\"event\":{\"event_id\":9,\"data\":{\"removed\":"
               "{\"block_hashes\":[3]}},\"dp_rank\":1}}");
    assert_true(doubted(&rig, 77, "5", KVT_TIER_G4));
    assert_false(doubted(&rig, 77, "5", KVT_TIER_G1));
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_in_doubt_are_marked),
        cmocka_unit_test(buckets_are_marked_with_their_reporter),
        cmocka_unit_test(a_listing_sweeps_what_is_gone),
        cmocka_unit_test(buckets_are_marked_with_their_gateway),
        cmocka_unit_test(external_places_are_their_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
