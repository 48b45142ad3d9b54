/*
 * What is tested: gateway/block/commit_record.h and who calls it: PUT, upload, recovery, removal,
 * damage. How: a bucket in memory, a gateway that dies before or after any of its requests and
 * starts again, and after each the two things that must hold: no record without all its ranks, and
 * no acknowledged block without its record.  Threads that put and remove ranks at once.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/object/commit.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/care/inspect.h"
#include "gateway/move/recover.h"

#include "tests/unit/g4/support/memory_bucket.h"
#include "tests/unit/gateway/support/waiting.h"

enum { RANKS = 2, BLOCKS = 2, SIZE = 100, HOT = 1 << 20, STEPS_MAX = 200 };

/* A gateway on a memory bucket; the folder that test_gateway makes for a bucket stays empty. */
struct world {
    struct test_waiting waiting;
    struct memory_bucket memory;
    struct memory_bucket_client client;
    struct g4_store *bucket;
    struct g4_store *unused;
    uint64_t base; /* of the blocks' numbers: each turn of a test has blocks of its own */
};

static enum kvt_err
pass_on(void *self, struct g4_request *request)
{
    struct world *world = self;

    return g4_store_submit(world->bucket, request);
}

static void
close_unused(void *self)
{
    struct world *world = self;

    g4_store_close(world->unused);
}

static const struct g4_store_driver driver = {
    .name = "world", .submit = pass_on, .close = close_unused};

/* Start the gateway, again or for the first time; whatever killed it is over. */
static void
start(struct world *world)
{
    struct test_waiting *waiting = &world->waiting;
    const struct gateway_backlog_options options = {.uploads = 4, .stuck_ms = 60000};

    gateway_backlog_stop(waiting->backlog);
    world->client = (struct memory_bucket_client){.memory = &world->memory};
    test_gateway_interpose(&waiting->gateway, &driver, world, &world->unused);
    assert_int_equal(
        gateway_backlog_new(&waiting->backlog, waiting->gateway.context, &options, NULL), KVT_OK);
}

static struct world *
open_world(bool write_back, uint32_t ranks)
{
    static struct world world; /* it is large */
    struct test_gateway *gateway = &world.waiting.gateway;

    memset(&world, 0, sizeof(world));
    world.bucket = memory_bucket_open(&world.client);
    test_gateway_open(gateway, HOT, 0);
    gateway->options.commit_ranks = ranks;
    gateway->options.write_back = write_back;
    gateway->options.backlog_max = HOT;
    start(&world);
    return &world;
}

static void
close_world(struct world *world)
{
    test_waiting_close(&world->waiting);
    g4_store_close(world->bucket);
    memory_bucket_clear(&world->memory);
}

/* Let it die at its `at`th request from here on. */
static void
doom(struct world *world, uint64_t at, enum memory_bucket_death death)
{
    world->client.calls = 0;
    world->client.at = at;
    world->client.death = death;
}

static const char *
key_of(char out[KVT_KEY_MAX], uint64_t block, uint32_t rank)
{
    const struct kvt_block_id id = {.hash = 0x1000 + block, .parent = 0x2000, .position = 3};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, "", rank, &id), KVT_OK);
    return out;
}

static const char *
record_of(char out[KVT_KEY_MAX], uint64_t block)
{
    char key[KVT_KEY_MAX];

    assert_true(g4_commit_key(key_of(key, block, 0), out));
    return out;
}

struct puts {
    struct gateway_put_item items[BLOCKS * RANKS];
    char keys[BLOCKS * RANKS][KVT_KEY_MAX];
    uint8_t bodies[BLOCKS * RANKS][SIZE];
    size_t count;
};

static void
add_put(struct puts *puts, uint64_t block, uint32_t rank)
{
    const size_t at = puts->count++;

    test_gateway_fill(puts->bodies[at], SIZE, 100 * block + rank);
    puts->items[at] = (struct gateway_put_item){.key = key_of(puts->keys[at], block, rank),
                                                .body = puts->bodies[at],
                                                .size = SIZE,
                                                .crc32c = g4_check_crc32c(puts->bodies[at], SIZE),
                                                .fingerprint = 7};
}

/* PUT all ranks of all blocks, in one call or in one each; the bits of what was acknowledged. */
static unsigned
put_all(struct world *world, bool together)
{
    struct gateway_context *context = world->waiting.gateway.context;
    struct puts puts = {.count = 0};
    unsigned acknowledged = 0;

    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint64_t block = 0; block < BLOCKS; block++)
            add_put(&puts, world->base + block, rank);
    if (together)
        gateway_put_blocks(context, puts.items, puts.count);
    for (size_t i = 0; i < puts.count; i++) {
        if (!together)
            gateway_put_blocks(context, &puts.items[i], 1);
        acknowledged |= (puts.items[i].status == KVT_OK ? 1u : 0u) << i;
    }
    return acknowledged;
}

static enum kvt_err
put_one(struct world *world, uint64_t block, uint32_t rank)
{
    struct puts puts = {.count = 0};

    add_put(&puts, world->base + block, rank);
    gateway_put_blocks(world->waiting.gateway.context, puts.items, 1);
    return puts.items[0].status;
}

static bool
has_record(struct world *world, uint64_t block)
{
    char key[KVT_KEY_MAX];

    return memory_bucket_find(&world->memory, record_of(key, world->base + block)) != NULL;
}

static bool
has_data(struct world *world, uint64_t block, uint32_t rank)
{
    char key[KVT_KEY_MAX];

    return memory_bucket_find(&world->memory, key_of(key, world->base + block, rank)) != NULL;
}

static void
expect_no_record_without_data(struct world *world)
{
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_true(!has_record(world, block) || has_data(world, block, rank));
}

static void
expect_whole(struct world *world, uint64_t block)
{
    const struct memory_bucket_object *object;
    struct g4_commit record;
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];

    object = memory_bucket_find(&world->memory, record_of(key, world->base + block));
    assert_non_null(object);
    assert_int_equal(g4_commit_parse(&record, (const char *)object->body, object->size, NULL),
                     KVT_OK);
    assert_int_equal(record.ranks, RANKS);
    assert_string_equal(record.writer, "gw0");
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        test_gateway_fill(body, SIZE, 100 * (world->base + block) + rank);
        assert_int_equal(record.rank[rank].length, SIZE);
        assert_int_equal(record.rank[rank].crc32c, g4_check_crc32c(body, SIZE));
        assert_int_equal(record.rank[rank].fingerprint, 7);
        assert_true(has_data(world, block, rank));
    }
}

/* ---- PUT ---- */

static void
the_last_rank_writes_the_record(void **state)
{
    struct world *world = open_world(false, RANKS);
    char key[KVT_KEY_MAX];

    (void)state;
    assert_int_equal(put_one(world, 0, 1), KVT_OK);
    assert_false(has_record(world, 0));
    doom(world, 0, MEMORY_BUCKET_LIVES);
    assert_int_equal(put_one(world, 0, 0), KVT_OK);
    expect_whole(world, 0);
    assert_int_equal(world->client.calls, 3); /* the block, its record, a look at rank 1 */
    assert_int_equal(put_one(world, 0, 0), KVT_OK);
    assert_int_equal(world->client.calls, 4); /* a repeat only asks whether the block is there */
    close_world(world);

    world = open_world(false, 0); /* the leader of the engines writes them */
    assert_int_equal(put_all(world, true), (1u << (BLOCKS * RANKS)) - 1);
    assert_null(memory_bucket_find(&world->memory, record_of(key, 0)));
    close_world(world);

    world = open_world(false, 1);
    assert_int_equal(put_one(world, 0, 0), KVT_OK);
    assert_true(has_record(world, 0));
    assert_int_equal(put_one(world, 1, 1), KVT_OK); /* of a model with more ranks */
    assert_false(has_record(world, 1));
    close_world(world);
}

/* Another gateway stored the other rank: the bucket knows. */
static void
ranks_of_others_count(void **state)
{
    struct world *world = open_world(false, RANKS);
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];
    struct g4_meta meta = {.present = true, .length = SIZE, .fingerprint = 7, .writer = "gw1"};

    (void)state;
    test_gateway_fill(body, SIZE, 1);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    assert_int_equal(test_gateway_store_put(world->bucket, key_of(key, 0, 1), body, SIZE, &meta),
                     KVT_OK);
    assert_int_equal(put_one(world, 0, 0), KVT_OK);
    expect_whole(world, 0);
    /* One that is cut short is none. */
    meta.length = SIZE + 1;
    assert_int_equal(test_gateway_store_put(world->bucket, key_of(key, 1, 1), body, SIZE, &meta),
                     KVT_OK);
    assert_int_equal(put_one(world, 1, 0), KVT_OK);
    assert_false(has_record(world, 1));
    close_world(world);
}

/* Die at each request in turn; the two promises hold, and a start and a repeat mend all. */
static void
die_while_putting(bool write_back, bool together, enum memory_bucket_death death)
{
    struct world *world = open_world(write_back, RANKS);
    bool lived = false;

    for (uint64_t at = 1; !lived; at++, world->base += BLOCKS) {
        unsigned acknowledged;

        assert_true(at < STEPS_MAX);
        doom(world, at, death);
        acknowledged = put_all(world, together);
        if (write_back)
            (void)test_waiting_round(&world->waiting);
        lived = world->client.calls < at;
        expect_no_record_without_data(world);
        for (uint64_t block = 0; block < BLOCKS && !write_back; block++)
            if ((acknowledged >> block & 1) != 0 && (acknowledged >> (BLOCKS + block) & 1) != 0)
                expect_whole(world, block);
        start(world);
        test_waiting_drain(&world->waiting);
        expect_no_record_without_data(world);
        for (uint64_t block = 0; block < BLOCKS; block++)
            assert_int_equal(has_record(world, block),
                             has_data(world, block, 0) && has_data(world, block, 1));
        assert_int_equal(put_all(world, together), (1u << (BLOCKS * RANKS)) - 1);
        test_waiting_drain(&world->waiting);
        for (uint64_t block = 0; block < BLOCKS; block++)
            expect_whole(world, block);
    }
    close_world(world);
}

static void
a_put_may_die_anywhere(void **state)
{
    (void)state;
    die_while_putting(false, true, MEMORY_BUCKET_DIES_BEFORE);
    die_while_putting(false, false, MEMORY_BUCKET_DIES_AFTER);
}

static void
an_upload_may_die_anywhere(void **state)
{
    (void)state;
    die_while_putting(true, true, MEMORY_BUCKET_DIES_AFTER);
}

/* ---- removal ---- */

static enum kvt_err
remove_one(struct world *world, uint64_t block, uint32_t rank)
{
    char key[KVT_KEY_MAX];

    return gateway_remove(world->waiting.gateway.context, key_of(key, world->base + block, rank));
}

static void
a_removal_may_die_anywhere(void **state)
{
    struct world *world = open_world(false, RANKS);
    bool lived = false;

    (void)state;
    for (uint64_t at = 1; !lived; at++, world->base += BLOCKS) {
        assert_true(at < STEPS_MAX);
        (void)put_all(world, true);
        expect_whole(world, 0);
        doom(world, at, MEMORY_BUCKET_DIES_AFTER);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            (void)remove_one(world, 0, rank);
        lived = world->client.calls < at;
        expect_no_record_without_data(world);
        start(world);
        test_waiting_drain(&world->waiting);
        expect_no_record_without_data(world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_int_equal(remove_one(world, 0, rank), KVT_OK);
        assert_false(has_record(world, 0));
        assert_false(has_data(world, 0, 0) || has_data(world, 0, 1));
        expect_whole(world, 1);
        /* A rank that is put again completes nothing; the other one does. */
        assert_int_equal(put_one(world, 0, 0), KVT_OK);
        assert_false(has_record(world, 0));
        assert_int_equal(put_one(world, 0, 1), KVT_OK);
        expect_whole(world, 0);
    }
    close_world(world);
}

/* KVBM's leader put the record through this gateway: its row goes too. */
static void
a_record_of_kvbm_goes_first_too(void **state)
{
    struct world *world = open_world(false, 0);
    struct gateway_context *context = world->waiting.gateway.context;
    struct gateway_record row;
    char key[KVT_KEY_MAX];
    struct gateway_put_item item = {.key = record_of(key, 0), .body = "", .size = 0};

    (void)state;
    (void)put_all(world, true);
    assert_int_equal(gateway_put_opaque(context, &item, G4_ALWAYS), KVT_OK);
    assert_int_equal(gateway_catalog_get(context->catalog, key, &row), KVT_OK);
    doom(world, 2, MEMORY_BUCKET_DIES_BEFORE); /* the record goes, the data is about to */
    assert_int_not_equal(remove_one(world, 0, 1), KVT_OK);
    assert_false(has_record(world, 0));
    assert_true(has_data(world, 0, 1));
    start(world);
    test_waiting_drain(&world->waiting);
    assert_false(has_data(world, 0, 1));
    assert_int_equal(gateway_catalog_get(world->waiting.gateway.context->catalog, key, &row),
                     KVT_NOTFOUND);
    close_world(world);
}

/* ---- beside another gateway ---- */

/* Between two requests the other one does the next of its own. */
struct other {
    struct world *world;
    const char *drop; /* NULL: it writes the record of block 0 */
};

static void
take_turn(void *arg, const struct g4_request *request)
{
    const struct other *other = arg;
    struct memory_bucket_client client = {.memory = &other->world->memory};
    struct g4_store *store = memory_bucket_open(&client);
    char key[KVT_KEY_MAX];
    struct g4_request turn = {.verb = G4_DELETE, .key = other->drop, .body = ""};

    (void)request;
    if (other->drop == NULL) {
        turn.verb = G4_PUT;
        turn.key = record_of(key, other->world->base);
    }
    assert_int_equal(g4_store_perform(store, &turn), KVT_OK);
    g4_store_close(store);
}

static void
let_take_turn(struct world *world, struct other *other, uint64_t at)
{
    doom(world, at, MEMORY_BUCKET_LIVES);
    world->client.between = take_turn;
    world->client.arg = other;
}

/* It removed the record, which was not there yet, and now removes a rank that has a row here:
 * before the record is written, or behind it. */
static void
another_removes_what_is_committed(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 3; at++) {
        struct world *world = open_world(false, RANKS);
        char key[KVT_KEY_MAX];
        struct other other = {.world = world, .drop = key_of(key, 0, 1)};

        assert_int_equal(put_one(world, 0, 1), KVT_OK);
        let_take_turn(world, &other, at);
        assert_int_equal(put_one(world, 0, 0), KVT_OK);
        assert_true(world->client.calls >= at);
        assert_false(has_record(world, 0));
        close_world(world);
    }
}

/* It saw the rank that is removed here, and writes the record. */
static void
another_commits_what_is_removed(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) { /* before the record goes, before the rank does */
        struct world *world = open_world(false, RANKS);
        struct other other = {.world = world};

        (void)put_all(world, true);
        let_take_turn(world, &other, at);
        assert_int_equal(remove_one(world, 0, 1), KVT_OK);
        assert_int_equal(world->client.calls, 3);
        assert_false(has_record(world, 0));
        close_world(world);
    }
}

/* A removal that was noted for a far bucket is no mark any more once another gateway put the rank:
 * what the bucket says counts. */
static void
a_noted_removal_is_what_the_bucket_says(void **state)
{
    (void)state;
    for (unsigned there = 0; there < 2; there++) {
        struct world *world = open_world(false, RANKS);
        struct gateway_catalog *catalog = world->waiting.gateway.context->catalog;
        char key[KVT_KEY_MAX];
        struct gateway_change noted = {.key = key_of(key, 0, 1)};
        struct g4_request drop = {.verb = G4_DELETE, .key = key};

        assert_int_equal(put_one(world, 0, 1), KVT_OK);
        assert_int_equal(gateway_catalog_get(catalog, key, &noted.record), KVT_OK);
        noted.record.state = GATEWAY_RETIRING;
        noted.record.moving = GATEWAY_FAR;
        assert_int_equal(gateway_catalog_change(catalog, &noted, 1, GATEWAY_APPLIED), KVT_OK);
        if (there == 0)
            assert_int_equal(g4_store_perform(world->bucket, &drop), KVT_OK);
        assert_int_equal(put_one(world, 0, 0), KVT_OK);
        assert_int_equal(has_record(world, 0), there != 0);
        close_world(world);
    }
}

/* ---- damage ---- */

static enum kvt_err
get_one(struct world *world, uint64_t block, uint32_t rank)
{
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];
    struct gateway_item item = {
        .key = key_of(key, block, rank), .buffer = body, .capacity = sizeof(body)};

    gateway_get_find(world->waiting.gateway.context, &item, 1);
    if (item.status == KVT_OK)
        gateway_get_bodies(world->waiting.gateway.context, &item, 1);
    return item.status;
}

static void
what_is_damaged_or_gone_has_no_record(void **state)
{
    struct world *world = open_world(false, RANKS);
    char key[KVT_KEY_MAX];
    struct g4_request drop = {.verb = G4_DELETE};
    struct memory_bucket_object *object;

    (void)state;
    world->waiting.gateway.options.hot_capacity = 0; /* reads are the bucket's */
    start(world);
    (void)put_all(world, true);
    object = memory_bucket_find(&world->memory, key_of(key, 0, 1));
    object->body[3] ^= 1;
    assert_int_equal(get_one(world, 0, 1), KVT_NOTFOUND);
    assert_false(has_record(world, 0));
    assert_int_equal(put_one(world, 0, 1), KVT_OK); /* repairs, and completes */
    expect_whole(world, 0);
    drop.key = key_of(key, 1, 0);
    assert_int_equal(g4_store_perform(world->bucket, &drop), KVT_OK);
    assert_int_equal(get_one(world, 1, 0), KVT_NOTFOUND);
    assert_false(has_record(world, 1));
    close_world(world);
}

/* What only the bucket knows counts with its record. */
static void
a_block_of_others_without_record_is_a_miss(void **state)
{
    struct world *world = open_world(false, RANKS);
    char key[KVT_KEY_MAX];
    struct gateway_change forget = {.erase = true};
    struct gateway_inspection seen;
    struct kvt_error err;

    (void)state;
    (void)put_all(world, true);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        forget.key = key_of(key, 0, rank);
        assert_int_equal(gateway_catalog_change(world->waiting.gateway.context->catalog, &forget, 1,
                                                GATEWAY_DURABLE),
                         KVT_OK);
    }
    world->waiting.gateway.options.hot_capacity = 0;
    start(world);
    assert_int_equal(gateway_remove(world->waiting.gateway.context, record_of(key, 0)), KVT_OK);
    assert_int_equal(get_one(world, 0, 0), KVT_NOTFOUND);
    assert_true(has_data(world, 0, 0)); /* nothing is wrong with it */
    /* A check of the bucket takes it up, and completes it. */
    assert_int_equal(gateway_inspect_repair(world->waiting.gateway.context, key_of(key, 0, 0),
                                            &(struct gateway_remedy){.alone = true}, &seen, &err),
                     KVT_OK);
    assert_int_equal(seen.finding, GATEWAY_FINDING_OBJECT_WITHOUT_ROW);
    expect_whole(world, 0);
    assert_int_equal(get_one(world, 0, 1), KVT_OK);
    close_world(world);
}

/* It may never be whole: then it counts, and is served to nobody. */
static void
a_block_of_others_that_lacks_a_rank_is_taken_up_as_foreign(void **state)
{
    struct world *world = open_world(false, RANKS);
    char key[KVT_KEY_MAX];
    struct gateway_change forget = {.key = key_of(key, 0, 0), .erase = true};
    struct gateway_context *context;
    struct gateway_inspection seen;
    struct gateway_record record;
    struct kvt_error err;

    (void)state;
    assert_int_equal(put_one(world, 0, 0), KVT_OK);
    context = world->waiting.gateway.context;
    assert_int_equal(gateway_catalog_change(context->catalog, &forget, 1, GATEWAY_DURABLE), KVT_OK);
    world->waiting.gateway.options.hot_capacity = 0;
    start(world);
    context = world->waiting.gateway.context;
    for (int i = 0; i < 2; i++) { /* the second check finds nothing to mend */
        assert_int_equal(gateway_inspect_repair(
                             context, key, &(struct gateway_remedy){.alone = true}, &seen, &err),
                         KVT_OK);
        assert_int_equal(seen.finding,
                         i == 0 ? GATEWAY_FINDING_OBJECT_WITHOUT_ROW : GATEWAY_FINDING_NONE);
        assert_int_equal(gateway_catalog_get(context->catalog, key, &record), KVT_OK);
        assert_true(record.foreign);
    }
    assert_false(has_record(world, 0));
    assert_int_equal(get_one(world, 0, 0), KVT_NOTFOUND);
    assert_int_equal(put_one(world, 0, 1), KVT_OK); /* somebody puts the other one */
    expect_whole(world, 0);
    assert_int_equal(get_one(world, 0, 0), KVT_OK);
    close_world(world);
}

/* ---- a check ---- */

static enum gateway_finding
finding_of(struct world *world, const char *key)
{
    struct gateway_inspection seen;
    struct kvt_error err;

    assert_int_equal(gateway_inspect(world->waiting.gateway.context, key, &seen, &err), KVT_OK);
    return seen.finding;
}

static void
a_check_looks_at_every_rank(void **state)
{
    struct world *world = open_world(false, RANKS);
    struct gateway_change forget = {.erase = true};
    struct gateway_context *context = world->waiting.gateway.context;
    struct memory_bucket_object *object;
    struct gateway_inspection seen;
    struct kvt_error err;
    char record[KVT_KEY_MAX];
    char key[KVT_KEY_MAX];
    struct g4_request drop = {.verb = G4_DELETE, .key = key};

    (void)state;
    (void)put_all(world, true);
    (void)record_of(record, 0);
    assert_int_equal(finding_of(world, record), GATEWAY_FINDING_NONE);
    forget.key = key_of(key, 0, 1); /* as after the loss of the catalog */
    assert_int_equal(gateway_catalog_change(context->catalog, &forget, 1, GATEWAY_DURABLE), KVT_OK);
    assert_int_equal(finding_of(world, record), GATEWAY_FINDING_NONE);
    object = memory_bucket_find(&world->memory, key);
    object->size--;
    assert_int_equal(finding_of(world, record), GATEWAY_FINDING_META_WITHOUT_DATA);
    object->size++;
    assert_int_equal(finding_of(world, record), GATEWAY_FINDING_NONE);
    assert_int_equal(g4_store_perform(world->bucket, &drop), KVT_OK);
    assert_int_equal(finding_of(world, record), GATEWAY_FINDING_META_WITHOUT_DATA);
    assert_int_equal(gateway_inspect_repair(context, record,
                                            &(struct gateway_remedy){.older_ms = 0}, &seen, &err),
                     KVT_OK);
    assert_false(has_record(world, 0));
    close_world(world);
}

/* ---- at once ---- */

struct racer {
    struct test_gateway *gateway;
    uint64_t seed;
};

enum { RACERS = 4, TURNS = 40 };

static void *
race(void *arg)
{
    struct racer *racer = arg;

    for (int turn = 0; turn < TURNS; turn++) {
        const uint32_t rank = (uint32_t)kvt_random_below(&racer->seed, RANKS);
        struct gateway_context *context = racer->gateway->context;
        struct puts puts = {.count = 0};

        add_put(&puts, kvt_random_below(&racer->seed, BLOCKS), rank);
        if (kvt_random_below(&racer->seed, 3) == 0)
            (void)!gateway_remove(context, puts.keys[0]);
        else
            gateway_put_blocks(context, puts.items, 1);
    }
    return NULL;
}

static bool
is_there(struct test_gateway *gateway, const char *key)
{
    struct g4_request head;

    return test_gateway_store_head(gateway->bucket, key, &head) == KVT_OK;
}

/* Whoever came last, the record is there when and only when all ranks are. */
static void
ranks_come_and_go_at_once(void **state)
{
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    struct test_gateway gateway;
    char key[KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&gateway, HOT, 0);
    gateway.options.commit_ranks = RANKS;
    test_gateway_reopen(&gateway);
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.gateway = &gateway, .seed = test_seed() + i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < RACERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        bool all = true;

        for (uint32_t rank = 0; rank < RANKS; rank++)
            all = all && is_there(&gateway, key_of(key, block, rank));
        assert_int_equal(is_there(&gateway, record_of(key, block)), all);
    }
    test_gateway_close(&gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_writes_the_record),
        cmocka_unit_test(ranks_of_others_count),
        cmocka_unit_test(a_put_may_die_anywhere),
        cmocka_unit_test(an_upload_may_die_anywhere),
        cmocka_unit_test(a_removal_may_die_anywhere),
        cmocka_unit_test(a_record_of_kvbm_goes_first_too),
        cmocka_unit_test(another_removes_what_is_committed),
        cmocka_unit_test(another_commits_what_is_removed),
        cmocka_unit_test(a_noted_removal_is_what_the_bucket_says),
        cmocka_unit_test(what_is_damaged_or_gone_has_no_record),
        cmocka_unit_test(a_block_of_others_without_record_is_a_miss),
        cmocka_unit_test(a_block_of_others_that_lacks_a_rank_is_taken_up_as_foreign),
        cmocka_unit_test(a_check_looks_at_every_rank),
        cmocka_unit_test(ranks_come_and_go_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
