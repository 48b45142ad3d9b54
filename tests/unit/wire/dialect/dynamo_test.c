/*
 * What is tested: wire/dialect/dynamo*.c: RouterEvents of every release, their envelopes and
 * frames, in msgpack and in JSON.
 */
#include <stdio.h>
#include <string.h>

#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/dialect/dialect_bytes.h"

#define WORKER UINT64_C(7587890123456789)

static struct dialect_bytes message;

static const struct wire_raw_event *
only_event(const struct wire_raw_batch *batch)
{
    assert_int_equal(batch->event_count, 1);
    return &batch->events[0];
}

/* ---- what is documented, byte for byte ---- */

#define STORED_HEX                                                                                 \
    "83a9776f726b65725f6964cf001af52557674115ac73746f726167655f74696572a6646576696365a56576656e7"  \
    "483a86576656e745f696401a46461746181a673746f72656483ab706172656e745f68617368c0ae73746172745f"  \
    "706f736974696f6ec0a6626c6f636b739283aa626c6f636b5f6861736865ab746f6b656e735f68617368cfcb38e"  \
    "4d7fb2dca5cad6d6d5f65787472615f696e666fc083aa626c6f636b5f6861736866ab746f6b656e735f68617368"  \
    "cfe8d3ec39b907b74cad6d6d5f65787472615f696e666fc0a764705f72616e6b00"
#define REMOVED_HEX                                                                                \
    "83a9776f726b65725f6964cf001af52557674115ac73746f726167655f74696572ab686f73745f70696e6e6564a"  \
    "56576656e7483a86576656e745f696402a46461746181a772656d6f76656481ac626c6f636b5f686173686573916" \
    "6"                                                                                            \
    "a764705f72616e6b00"
#define CLEARED_HEX                                                                                \
    "83a9776f726b65725f6964cf001af52557674115ac73746f726167655f74696572a6646576696365a56576656e7"  \
    "483a86576656e745f696403a464617461a7636c6561726564a764705f72616e6b00"

static void
assert_stored(const struct wire_raw_batch *batch)
{
    const struct wire_raw_event *event = only_event(batch);

    assert_int_equal(event->kind, WIRE_RAW_STORE);
    assert_int_equal(event->worker, WORKER);
    assert_int_equal(event->id, 1);
    assert_int_equal(event->tier, KVT_TIER_G1);
    assert_int_equal(event->position, 0);
    assert_int_equal(event->ranks, 1);
    assert_false(event->has_parent);
    assert_int_equal(event->count, 2);
    assert_int_equal(batch->blocks[0].hash, 101);
    assert_int_equal(batch->blocks[0].tokens_hash, UINT64_C(14643705804678351452));
    assert_int_equal(batch->blocks[1].hash, 102);
    assert_int_equal(batch->blocks[1].tokens_hash, UINT64_C(16777012769546811212));
}

static void
assert_removed(const struct wire_raw_batch *batch)
{
    const struct wire_raw_event *event = only_event(batch);

    assert_int_equal(event->kind, WIRE_RAW_REMOVE);
    assert_int_equal(event->worker, WORKER);
    assert_int_equal(event->id, 2);
    assert_int_equal(event->tier, KVT_TIER_G2);
    assert_int_equal(event->count, 1);
    assert_int_equal(batch->blocks[0].hash, 102);
}

static void
assert_cleared(const struct wire_raw_batch *batch)
{
    const struct wire_raw_event *event = only_event(batch);

    assert_int_equal(event->kind, WIRE_RAW_CLEAR);
    assert_int_equal(event->worker, WORKER);
    assert_int_equal(event->id, 3);
    assert_int_equal(event->tier, WIRE_RAW_TIER_ALL);
}

static void
documented_events(void **state)
{
    static const struct {
        const char *hex;
        const char *json;
        void (*check)(const struct wire_raw_batch *batch);
    } rows[] = {
        {STORED_HEX,
         "{'worker_id':7587890123456789,'storage_tier':'device','event':{'event_id':1,'data':{"
         "'stored':{'parent_hash':null,'start_position':null,'blocks':[{'block_hash':101,"
         "'tokens_hash':14643705804678351452,'mm_extra_info':null},{'block_hash':102,"
         "'tokens_hash':16777012769546811212,'mm_extra_info':null}]}},'dp_rank':0}}",
         assert_stored},
        {REMOVED_HEX,
         "{'worker_id':7587890123456789,'storage_tier':'host_pinned','event':{'event_id':2,'data':"
         "{'removed':{'block_hashes':[102]}},'dp_rank':0}}",
         assert_removed},
        {CLEARED_HEX,
         "{'worker_id':7587890123456789,'storage_tier':'device','event':{'event_id':3,'data':"
         "'cleared','dp_rank':0}}",
         assert_cleared},
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dialect_bytes_hex(&message, rows[i].hex);
        dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        rows[i].check(batch);
        dialect_bytes_hurt(WIRE_DIALECT_DYNAMO, &message, batch);
        dialect_bytes_json(&message, rows[i].json);
        dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        rows[i].check(batch);
        dialect_bytes_hurt(WIRE_DIALECT_DYNAMO, &message, batch);
    }
}

static void
measured_messages(void **state)
{
    /* 1.6.1: removed in its envelope; stored, cleared without; 1.3.1: one bare map. */
    static const struct {
        const char *hex;
        uint64_t publisher;
        uint64_t worker;
        uint64_t id;
        enum wire_raw_kind kind;
        uint32_t count;
        uint32_t dp_rank;
    } rows[] = {
        {"85ac7075626c69736865725f6964cf001931f867d44b88a873657175656e636503ac7075626c69736865645f"
         "6174cf000001a1fd9f0f11a5746f706963a96b762d6576656e7473a77061796c6f6164c47a9184a9776f726b"
         "65725f6964cf422c36fa6652c4e9ac73746f726167655f74696572a6646576696365b07265736964656e6379"
         "5f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696404a46461746181a772656d6f7665"
         "6481ac626c6f636b5f686173686573926968a764705f72616e6b00",
         UINT64_C(0x001931f867d44b88), UINT64_C(0x422c36fa6652c4e9), 4, WIRE_RAW_REMOVE, 2, 0},
        {"9184a9776f726b65725f6964cf8000000000000005ac73746f726167655f74696572a6646576696365b07265"
         "736964656e63795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696401a46461746181"
         "a673746f72656483ab706172656e745f68617368c0ae73746172745f706f736974696f6ec0a6626c6f636b73"
         "9183aa626c6f636b5f6861736865ab746f6b656e735f68617368cfcb38e4d7fb2dca5cad6d6d5f6578747261"
         "5f696e666fc0a764705f72616e6b01",
         0, UINT64_C(0x8000000000000005), 1, WIRE_RAW_STORE, 1, 1},
        {"9184a9776f726b65725f6964cfcb569c21800641a4ac73746f726167655f74696572a6646576696365b07265"
         "736964656e63795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696429a464617461a7"
         "636c6561726564a764705f72616e6b00",
         0, UINT64_C(0xcb569c21800641a4), 41, WIRE_RAW_CLEAR, 0, 0},
        {"83a9776f726b65725f6964cfc0efe56c0d405d71ac73746f726167655f74696572a6646576696365a5657665"
         "6e7483a86576656e745f696404a46461746181a772656d6f76656481ac626c6f636b5f686173686573926968"
         "a764705f72616e6b00",
         0, UINT64_C(0xc0efe56c0d405d71), 4, WIRE_RAW_REMOVE, 2, 0},
        {"85ac7075626c69736865725f69642aa873657175656e636500ac7075626c69736865645f6174cf0000018bcf"
         "e56800a5746f706963a96b762d6576656e7473a77061796c6f6164c4609184a9776f726b65725f696407ac73"
         "746f726167655f74696572a6646576696365b07265736964656e63795f646f6d61696ea6776f726b6572a565"
         "76656e7483a86576656e745f696403a464617461a7636c6561726564a764705f72616e6b00",
         42, 7, 3, WIRE_RAW_CLEAR, 0, 0},
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct wire_raw_event *event;

        dialect_bytes_hex(&message, rows[i].hex);
        dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        event = only_event(batch);
        assert_int_equal(batch->publisher, rows[i].publisher);
        assert_int_equal(batch->has_sequence, rows[i].publisher != 0);
        assert_int_equal(event->worker, rows[i].worker);
        assert_int_equal(event->id, rows[i].id);
        assert_int_equal(event->kind, rows[i].kind);
        assert_int_equal(event->count, rows[i].count);
        assert_int_equal(event->dp_rank, rows[i].dp_rank);
        dialect_bytes_hurt(WIRE_DIALECT_DYNAMO, &message, batch);
    }
}

/* ---- one event, in both spellings ---- */

struct verdict {
    const char *event;
    enum wire_raw_kind kind;
    enum wire_raw_why why;
    enum kvt_tier tier;
};

#define BLOCK  "{'block_hash':5,'tokens_hash':6}"
#define STORE  "{'stored':{'parent_hash':null,'blocks':[" BLOCK "]}}"
#define REMOVE "{'removed':{'block_hashes':[1,2]}}"

static const struct verdict verdicts[] = {
    /* releases: without tier and rank, without mm_extra_info; what is unknown is passed over */
    {"{'worker_id':1,'event':{'event_id':2,'data':" STORE "}}", WIRE_RAW_STORE, WIRE_RAW_FINE,
     KVT_TIER_G1},
    {"{'new':[1,{'x':null}],'event':{'data':" REMOVE ",'more':{},'event_id':2},'worker_id':1}",
     WIRE_RAW_REMOVE, WIRE_RAW_FINE, KVT_TIER_G1},
    {"{'worker_id':1,'storage_tier':'disk','event':{'event_id':2,'data':" REMOVE
     ",'dp_rank':0},'session_id':'s'}",
     WIRE_RAW_REMOVE, WIRE_RAW_FINE, KVT_TIER_G3},
    {"{'worker_id':1,'storage_tier':'external','event':{'event_id':2,'data':" STORE "}}",
     WIRE_RAW_STORE, WIRE_RAW_FINE, KVT_TIER_G4},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'parent_hash':7,'start_position':null,"
     "'blocks':[]}}}}",
     WIRE_RAW_STORE, WIRE_RAW_FINE, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'removed':{'block_hashes':[]}}}}",
     WIRE_RAW_REMOVE, WIRE_RAW_FINE, KVT_TIER_G1},
    /* a clear is of all tiers, in each of its forms */
    {"{'worker_id':1,'storage_tier':'disk','event':{'event_id':2,'data':'cleared'}}",
     WIRE_RAW_CLEAR, WIRE_RAW_FINE, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'cleared':null}}}", WIRE_RAW_CLEAR,
     WIRE_RAW_FINE, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'residency_domain':'worker','event':{'event_id':2,'data':'cleared'}}",
     WIRE_RAW_CLEAR, WIRE_RAW_FINE, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'storage_tier':'tape','event':{'event_id':2,'data':'cleared'}}",
     WIRE_RAW_CLEAR, WIRE_RAW_FINE, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'cleared':null}},'storage_tier':7}",
     WIRE_RAW_CLEAR, WIRE_RAW_FINE, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'storage_tier':null,'event':{'event_id':2,'data':'cleared','dp_rank':-1}}",
     WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, WIRE_RAW_TIER_ALL},
    /* domains: the worker's own, or not for us */
    {"{'worker_id':1,'residency_domain':'worker','event':{'event_id':2,'data':" STORE "}}",
     WIRE_RAW_STORE, WIRE_RAW_FINE, KVT_TIER_G1},
    {"{'worker_id':1,'residency_domain':'cache_owner','event':{'event_id':2,'data':" STORE
     "},'state_source':{'slot':{'digest':[1,2],'source':'explicit'}}}",
     WIRE_RAW_SKIP, WIRE_RAW_FOREIGN_DOMAIN, KVT_TIER_G1},
    {"{'worker_id':1,'residency_domain':null,'event':{'event_id':2,'data':" STORE "}}",
     WIRE_RAW_SKIP, WIRE_RAW_FOREIGN_DOMAIN, KVT_TIER_G1},
    {"{'worker_id':1,'residency_domain':7,'event':{'event_id':2,'data':" STORE "}}", WIRE_RAW_SKIP,
     WIRE_RAW_FOREIGN_DOMAIN, KVT_TIER_G1},
    {"{'worker_id':1,'residency_domain':['worker'],'event':{'event_id':2,'data':'cleared'}}",
     WIRE_RAW_SKIP, WIRE_RAW_FOREIGN_DOMAIN, KVT_TIER_G1},
    /* values of a later version */
    {"{'worker_id':1,'storage_tier':'tape','event':{'event_id':2,'data':" STORE "}}", WIRE_RAW_SKIP,
     WIRE_RAW_UNKNOWN_TIER, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'storage_tier':null,'event':{'event_id':2,'data':" STORE "}}", WIRE_RAW_SKIP,
     WIRE_RAW_UNKNOWN_TIER, WIRE_RAW_TIER_ALL},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'moved':{'to':'disk'}}}}", WIRE_RAW_SKIP,
     WIRE_RAW_UNKNOWN_KIND, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':'paused'}}", WIRE_RAW_SKIP, WIRE_RAW_UNKNOWN_KIND,
     KVT_TIER_G1},
    /* what cannot be read */
    {"{'worker_id':1,'event':{'event_id':2,'data':{'removed':{'block_hashes':[1,-2]}}}}",
     WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'removed':{}}}}", WIRE_RAW_SKIP,
     WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'parent_hash':-1,'blocks':[]}}}}",
     WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'blocks':[{'block_hash':1}]}}}}",
     WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'blocks':[7]}}}}", WIRE_RAW_SKIP,
     WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':[1]}}", WIRE_RAW_SKIP, WIRE_RAW_MALFORMED,
     KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2}}", WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':" STORE ",'dp_rank':4294967296}}", WIRE_RAW_SKIP,
     WIRE_RAW_MALFORMED, KVT_TIER_G1},
    {"{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'blocks':[{'block_hash':1,"
     "'tokens_hash':2,'mm_extra_info':{'mm_objects':[{'offsets':[]}]}}]}}}}",
     WIRE_RAW_SKIP, WIRE_RAW_MALFORMED, KVT_TIER_G1},
};

static void
each_event_has_its_verdict(void **state)
{
    struct wire_raw_batch *batch = *state;
    char text[1024];

    for (size_t i = 0; i < sizeof(verdicts) / sizeof(*verdicts); i++) {
        /* Good neighbours on both sides: nothing of theirs may be lost. */
        (void)snprintf(text, sizeof(text),
                       "[{'worker_id':8,'event':{'event_id':1,'data':%s}},%s,"
                       "{'worker_id':9,'event':{'event_id':3,'data':%s}}]",
                       STORE, verdicts[i].event, REMOVE);
        for (int json = 0; json < 2; json++) {
            const struct wire_raw_event *event = &batch->events[1];

            if (json)
                dialect_bytes_json(&message, text);
            else
                dialect_bytes_pack(&message, text);
            dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
            print_message("%s\n", verdicts[i].event);
            assert_int_equal(batch->event_count, 3);
            assert_int_equal(event->kind, verdicts[i].kind);
            assert_int_equal(event->why, verdicts[i].why);
            assert_int_equal(event->tier, verdicts[i].tier);
            assert_int_equal(event->worker, 1);
            assert_int_equal(event->id, 2);
            assert_int_equal(batch->events[0].kind, WIRE_RAW_STORE);
            assert_int_equal(batch->blocks[batch->events[0].first].hash, 5);
            assert_int_equal(batch->events[2].kind, WIRE_RAW_REMOVE);
            assert_int_equal(batch->events[2].count, 2);
            assert_int_equal(batch->blocks[batch->events[2].first + 1].hash, 2);
        }
    }
}

static void
what_cannot_be_told_apart_is_unnumbered(void **state)
{
    static const char *const events[] = {
        "{'event':{'event_id':2,'data':'cleared'}}",
        "{'worker_id':-1,'event':{'event_id':2,'data':'cleared'}}",
        "{'worker_id':1,'event':{'data':'cleared'}}",
        "{'worker_id':1}",
        "{}",
        "[]",
        "null",
        "'x'",
    };
    struct wire_raw_batch *batch = *state;
    char text[256];

    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        (void)snprintf(text, sizeof(text), "[%s]", events[i]);
        for (int json = 0; json < 2; json++) {
            if (json)
                dialect_bytes_json(&message, text);
            else
                dialect_bytes_pack(&message, text);
            dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
            assert_int_equal(only_event(batch)->kind, WIRE_RAW_SKIP);
            assert_int_equal(only_event(batch)->why, WIRE_RAW_MALFORMED);
            assert_true(only_event(batch)->unnumbered);
        }
    }
}

static void
positions_parents_and_objects(void **state)
{
    static const char text[] =
        "[{'worker_id':1,'event':{'event_id':1,'data':{'stored':{'parent_hash':9,"
        "'start_position':4,'blocks':[{'block_hash':1,'tokens_hash':2,'mm_extra_info':{"
        "'mm_objects':[{'mm_hash':42,'offsets':[[0,3]]},{'mm_hash':7,'offsets':[]}]}},"
        "{'block_hash':3,'tokens_hash':4,'mm_extra_info':{'mm_objects':[]}}]}}}},"
        "{'worker_id':1,'event':{'event_id':2,'data':{'stored':{'parent_hash':9,"
        "'start_position':0,'blocks':[]}}}},"
        "{'worker_id':1,'event':{'event_id':3,'data':{'stored':{'start_position':12,"
        "'blocks':[]}}}}]";
    struct wire_raw_batch *batch = *state;

    for (int json = 0; json < 2; json++) {
        if (json)
            dialect_bytes_json(&message, text);
        else
            dialect_bytes_pack(&message, text);
        dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        assert_int_equal(batch->event_count, 3);
        assert_true(batch->events[0].has_parent && batch->events[0].parent == 9);
        assert_int_equal(batch->events[0].position, 4);
        assert_int_equal(batch->blocks[0].media_count, 2);
        assert_int_equal(batch->media[batch->blocks[0].media], 7);
        assert_int_equal(batch->media[batch->blocks[0].media + 1], 42);
        assert_int_equal(batch->blocks[1].media_count, 0);
        /* What has a parent is not at the root, whatever is said. */
        assert_int_equal(batch->events[1].position, WIRE_RAW_POSITION_UNKNOWN);
        assert_false(batch->events[2].has_parent);
        assert_int_equal(batch->events[2].position, 12);
        dialect_bytes_hurt(WIRE_DIALECT_DYNAMO, &message, batch);
    }
}

/* ---- envelopes ---- */

static void
envelopes_in_any_order(void **state)
{
    static const char *const texts[] = {
        /* payload first, as an array of bytes: msgpack of [] */
        "{'payload':[144],'topic':'kv_events','sequence':5,'publisher_id':6,'published_at':7}",
        "{'topic':'kv-events','sequence':5,'publisher_id':6,'payload':'bin:90','published_at':7}",
        /* JSON within, as early revisions had it: [] */
        "{'publisher_id':6,'sequence':5,'published_at':7,'payload':[91,93]}",
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < 3; i++) {
        for (int json = 0; json < 2; json++) {
            if (json && i == 1)
                continue; /* JSON has no bytes */
            if (json)
                dialect_bytes_json(&message, texts[i]);
            else
                dialect_bytes_pack(&message, texts[i]);
            dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
            assert_true(batch->has_sequence && !batch->sequence_numbers_events);
            assert_int_equal(batch->publisher, 6);
            assert_int_equal(batch->sequence, 5);
            assert_int_equal(batch->time_ms, 7);
            assert_int_equal(batch->event_count, 0);
            dialect_bytes_hurt(WIRE_DIALECT_DYNAMO, &message, batch);
        }
    }
}

static void
other_topics_are_passed_over(void **state)
{
    static const char text[] = "{'publisher_id':6,'sequence':5,'published_at':7,"
                               "'topic':'forward-pass-metrics','payload':[129,0]}";
    struct wire_raw_batch *batch = *state;

    for (int json = 0; json < 2; json++) {
        if (json)
            dialect_bytes_json(&message, text);
        else
            dialect_bytes_pack(&message, text);
        dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        assert_int_equal(batch->event_count, 0);
        assert_false(batch->has_sequence);
    }
}

static void
what_is_no_message_is_refused(void **state)
{
    static const char *const packed[] = {
        "[1,'device',{}]",                                     /* an event by positions */
        "{'publisher_id':1,'sequence':2,'topic':'kv-events'}", /* no payload */
        "{'sequence':2,'payload':[144]}",
        "{'publisher_id':-1,'sequence':2,'payload':[144]}",
        "{'publisher_id':1,'sequence':2,'payload':'text'}",
        "{'publisher_id':1,'sequence':2,'payload':[256]}",
        "{'publisher_id':1,'sequence':2,'payload':[]}",
        "{'publisher_id':1,'sequence':2,'payload':[5]}",
        "7",
        "'text'",
        "{}",
    };
    static const char *const texts[] = {
        "{",
        "{}",
        "{'worker_id':1}x",
        "{'publisher_id':1,'sequence':2,'payload':[300]}",
        "{'publisher_id':1,'sequence':2}",
        "[{'worker_id':1},]",
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(packed) / sizeof(*packed); i++) {
        dialect_bytes_pack(&message, packed[i]);
        dialect_bytes_refuse(WIRE_DIALECT_DYNAMO, &message, batch, KVT_INVALID);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        dialect_bytes_json(&message, texts[i]);
        dialect_bytes_refuse(WIRE_DIALECT_DYNAMO, &message, batch, KVT_INVALID);
    }
    message.size = 0;
    dialect_bytes_refuse(WIRE_DIALECT_DYNAMO, &message, batch, KVT_INVALID);
}

static void
bytes_behind_the_value_are_nobodys_concern(void **state)
{
    struct wire_raw_batch *batch = *state;

    dialect_bytes_hex(&message, REMOVED_HEX);
    message.bytes[message.size++] = 0xc1;
    dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
    assert_removed(batch);
}

/* ---- frames ---- */

static void
zmq_frames(void **state)
{
    static const uint8_t publisher[] = {0x00, 0x18, 0x90, 0x29, 0x15, 0xb5, 0x40, 0x92};
    static const uint8_t sequence[] = {0, 0, 0, 0, 0, 0, 1, 2};
    static const uint8_t body[] = {1, 0, 0, 0, 3, 'a', 'b', 'c'};
    struct wire_dynamo_frames frames;
    uint8_t other[sizeof(body)];
    struct kvt_error err;

    (void)state;
    assert_int_equal(wire_dynamo_frames(publisher, 8, sequence, 8, body, 8, &frames, &err), KVT_OK);
    assert_int_equal(frames.publisher, UINT64_C(0x0018902915b54092));
    assert_int_equal(frames.sequence, 0x102);
    assert_int_equal(frames.envelope_size, 3);
    assert_memory_equal(frames.envelope, "abc", 3);
    assert_int_equal(wire_dynamo_frames(publisher, 7, sequence, 8, body, 8, &frames, &err),
                     KVT_INVALID);
    assert_int_equal(wire_dynamo_frames(publisher, 8, sequence, 9, body, 8, &frames, &err),
                     KVT_INVALID);
    for (size_t size = 0; size < sizeof(body); size++)
        assert_int_equal(wire_dynamo_frames(publisher, 8, sequence, 8, body, size, &frames, &err),
                         KVT_INVALID);
    memcpy(other, body, sizeof(body));
    other[0] = 2;
    assert_int_equal(wire_dynamo_frames(publisher, 8, sequence, 8, other, 8, &frames, &err),
                     KVT_INVALID);
    assert_null(frames.envelope);
}

/* ---- limits ---- */

/* A message of `count` events of no blocks, or of one event that removes `count` blocks. */
static void
build_large(uint8_t *bytes, size_t *size, uint32_t count, bool one_event)
{
    static const char event[] = "\x82\xa9worker_id\x01\xa5"
                                "event\x82\xa8"
                                "event_id\x01\xa4"
                                "data\xa7"
                                "cleared";
    static const char removed[] = "\x82\xa9worker_id\x01\xa5"
                                  "event\x82\xa8"
                                  "event_id\x01\xa4"
                                  "data\x81\xa7removed\x81\xac"
                                  "block_hashes\xdd";
    size_t at = 0;

    if (one_event) {
        memcpy(bytes, removed, sizeof(removed) - 1);
        at = sizeof(removed) - 1;
    } else {
        bytes[at++] = 0xdd;
    }
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[at++] = (uint8_t)(count >> shift);
    for (uint32_t i = 0; i < count; i++) {
        if (one_event) {
            bytes[at++] = 1;
        } else {
            memcpy(bytes + at, event, sizeof(event) - 1);
            at += sizeof(event) - 1;
        }
    }
    *size = at;
}

static void
limits_are_kept(void **state)
{
    static uint8_t bytes[64 * (WIRE_RAW_EVENTS_MAX + 2)];
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;
    size_t size;

    build_large(bytes, &size, WIRE_RAW_EVENTS_MAX, false);
    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, bytes, size, batch, &err), KVT_OK);
    assert_int_equal(batch->event_count, WIRE_RAW_EVENTS_MAX);
    build_large(bytes, &size, WIRE_RAW_EVENTS_MAX + 1, false);
    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, bytes, size, batch, &err), KVT_RANGE);
    assert_int_equal(batch->event_count, 0);
    build_large(bytes, &size, WIRE_RAW_BLOCKS_MAX, true);
    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, bytes, size, batch, &err), KVT_OK);
    assert_int_equal(batch->block_count, WIRE_RAW_BLOCKS_MAX);
    build_large(bytes, &size, WIRE_RAW_BLOCKS_MAX + 1, true);
    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, bytes, size, batch, &err), KVT_RANGE);
    assert_int_equal(batch->block_count, 0);
}

static void
limits_are_kept_in_json(void **state)
{
    static char text[4 * WIRE_RAW_BLOCKS_MAX];
    static const char removed[] =
        "{\"worker_id\":1,\"event\":{\"event_id\":1,\"data\":{\"removed\":{\"block_hashes\":[";
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (size_t more = 0; more < 2; more++) {
        const enum kvt_err wanted = more == 0 ? KVT_OK : KVT_RANGE;
        size_t at = 0;

        text[at++] = '[';
        for (size_t i = 0; i < WIRE_RAW_EVENTS_MAX + more; i++, at += 3)
            memcpy(text + at, "{},", 3);
        text[at - 1] = ']';
        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, text, at, batch, &err), wanted);
        assert_int_equal(batch->event_count, more == 0 ? WIRE_RAW_EVENTS_MAX : 0);
        memcpy(text, removed, sizeof(removed) - 1);
        at = sizeof(removed) - 1;
        for (size_t i = 0; i < WIRE_RAW_BLOCKS_MAX + more; i++, at += 2)
            memcpy(text + at, "5,", 2);
        memcpy(text + at - 1, "]}}}}", 5);
        at += 4;
        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_DYNAMO, text, at, batch, &err), wanted);
        assert_int_equal(batch->block_count, more == 0 ? WIRE_RAW_BLOCKS_MAX : 0);
    }
}

/* However deep unknown members are, msgpack is walked without a stack; JSON has a bound. */
static void
nesting_is_bounded(void **state)
{
    struct wire_raw_batch *batch = *state;
    char text[512];
    size_t at;

    dialect_bytes_hex(&message, CLEARED_HEX);
    message.bytes[0] = 0x84;
    message.bytes[message.size++] = 0xa1;
    message.bytes[message.size++] = 'x';
    for (int i = 0; i < 10000; i++)
        message.bytes[message.size++] = 0x91;
    message.bytes[message.size++] = 0;
    dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
    assert_cleared(batch);

    for (int depth = WIRE_RAW_NESTING - 1; depth <= WIRE_RAW_NESTING; depth++) {
        at = (size_t)snprintf(text, sizeof(text),
                              "{'worker_id':1,'event':{'event_id':1,"
                              "'data':'cleared'},'x':");
        for (int i = 0; i < depth; i++)
            text[at++] = '[';
        for (int i = 0; i < depth; i++)
            text[at++] = ']';
        (void)snprintf(text + at, sizeof(text) - at, "}");
        dialect_bytes_json(&message, text);
        if (depth < WIRE_RAW_NESTING)
            dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
        else
            dialect_bytes_refuse(WIRE_DIALECT_DYNAMO, &message, batch, KVT_RANGE);
    }
}

static void
a_second_member_spoils_its_event(void **state)
{
    static const char text[] =
        "[{\"worker_id\":1,\"event\":{\"event_id\":1,\"data\":\"cleared\",\"data\":\"cleared\"}},"
        "{\"worker_id\":1,\"worker_id\":2,\"event\":{\"event_id\":1,\"data\":\"cleared\"}}]";
    struct wire_raw_batch *batch = *state;

    dialect_bytes_json(&message, text);
    dialect_bytes_decode(WIRE_DIALECT_DYNAMO, &message, batch);
    assert_int_equal(batch->event_count, 2);
    assert_int_equal(batch->events[0].why, WIRE_RAW_MALFORMED);
    assert_int_equal(batch->events[1].why, WIRE_RAW_MALFORMED);
}

static bool
new_batch_attempt(void *arg)
{
    struct wire_raw_batch *batch;
    const bool ok = wire_raw_batch_new(&batch) == KVT_OK;

    (void)arg;
    assert_true(ok == (batch != NULL));
    wire_raw_batch_free(batch);
    return ok;
}

static void
batches_survive_failing_allocations(void **state)
{
    (void)state;
    assert_int_equal(test_sweep_allocations(new_batch_attempt, NULL), 5);
    wire_raw_batch_free(NULL);
}

static void
names_of_dialects(void **state)
{
    enum wire_dialect dialect;

    for (int i = 0; i < WIRE_DIALECT_COUNT; i++) {
        assert_true(wire_dialect_parse(wire_dialect_name((enum wire_dialect)i), &dialect));
        assert_int_equal(dialect, i);
    }
    message.size = 0;
    dialect_bytes_refuse(WIRE_DIALECT_KVTIER, &message, *state, KVT_UNSUPPORTED);
    assert_false(wire_dialect_parse("vllm", &dialect));
    assert_false(wire_dialect_parse("", &dialect));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documented_events),
        cmocka_unit_test(measured_messages),
        cmocka_unit_test(each_event_has_its_verdict),
        cmocka_unit_test(what_cannot_be_told_apart_is_unnumbered),
        cmocka_unit_test(positions_parents_and_objects),
        cmocka_unit_test(envelopes_in_any_order),
        cmocka_unit_test(other_topics_are_passed_over),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(bytes_behind_the_value_are_nobodys_concern),
        cmocka_unit_test(zmq_frames),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(limits_are_kept_in_json),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_second_member_spoils_its_event),
        cmocka_unit_test(batches_survive_failing_allocations),
        cmocka_unit_test(names_of_dialects),
    };

    return cmocka_run_group_tests(tests, dialect_bytes_set_up, dialect_bytes_tear_down);
}
