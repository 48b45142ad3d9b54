/*
 * What is tested: wire/dialect/engine*.c: the streams of vLLM, SGLang and the KVBM consolidator.
 */
#include <stdio.h>
#include <string.h>

#include "kvtier/token.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/engine.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/dialect/dialect_bytes.h"

#define IMAGE_A "0123456789abcdef000000000000000000000000000000000000000000000000"
#define IMAGE_B "00000000000000ff000000000000000000000000000000000000000000000000"

static struct dialect_bytes message;

static uint64_t
seed_of(const char *adapter, const char *salt)
{
    return kvt_token_seed(adapter, strlen(adapter), salt, strlen(salt));
}

/* Decode `events`, a list of events in JSON, as one batch of rank 3. */
static void
decode_events(struct wire_raw_batch *batch, const char *events)
{
    char text[8192];

    assert_true((size_t)snprintf(text, sizeof(text), "[1.5,%s,3]", events) < sizeof(text));
    dialect_bytes_pack(&message, text);
    dialect_bytes_decode(WIRE_DIALECT_ENGINE, &message, batch);
    for (uint32_t i = 0; i < batch->event_count; i++)
        assert_int_equal(batch->events[i].dp_rank, 3);
    assert_int_equal(batch->time_ms, 1500);
    assert_true(batch->sequence_numbers_events && !batch->has_sequence);
}

/* ---- what is documented, byte for byte ---- */

static void
documented_batches(void **state)
{
    static const struct {
        const char *hex;
        uint64_t time_ms;
        uint64_t hash;
        uint64_t seed;
        enum wire_raw_kind kind;
    } rows[] = {
        {"93cb41d954fc402000009188a474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739165"
         "b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a"
         "6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c000",
         1700000000500, 101, 1337, WIRE_RAW_STORE},
        {"93cb41d954fc402000009198ab426c6f636b53746f7265649165c0940102030404c0a3475055c000",
         1700000000500, 101, 1337, WIRE_RAW_STORE},
        {"93cb41dac05c2475c24391de0008a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573"
         "91cd044db1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b"
         "5f73697a6504a76c6f72615f696407a66d656469756da3475055a96c6f72615f6e616d65a961646170746572"
         "2d6100",
         1795256465839, 1101, UINT64_C(8842669519798868182), WIRE_RAW_STORE},
        {"93cb41dac05c253b4f9a9181a474797065b0416c6c426c6f636b73436c656172656400", 1795256468926, 0,
         1337, WIRE_RAW_CLEAR},
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct wire_raw_event *event = &batch->events[0];

        dialect_bytes_hex(&message, rows[i].hex);
        dialect_bytes_decode(WIRE_DIALECT_ENGINE, &message, batch);
        assert_int_equal(batch->time_ms, rows[i].time_ms);
        assert_int_equal(batch->event_count, 1);
        assert_int_equal(event->kind, rows[i].kind);
        if (event->kind == WIRE_RAW_CLEAR) {
            assert_int_equal(event->tier, WIRE_RAW_TIER_ALL);
        } else {
            assert_int_equal(event->tier, KVT_TIER_G1);
            assert_int_equal(event->count, 1);
            assert_int_equal(batch->blocks[0].hash, rows[i].hash);
            assert_int_equal(event->seed, rows[i].seed);
            assert_int_equal(event->block_tokens, 4);
            assert_int_equal(event->position, 0);
            for (uint32_t j = 0; j < 4; j++)
                assert_int_equal(batch->token_ids[j], j + 1);
        }
        dialect_bytes_hurt(WIRE_DIALECT_ENGINE, &message, batch);
    }
}

/* ---- stores of every version, by positions and by names ---- */

#define HEAD "'BlockStored',[11,12],10,[1,200,70000,4],2,null"
#define NAMED                                                                                      \
    "'type':'BlockStored','block_hashes':[11,12],'parent_block_hash':10,'token_ids':[1,200,70000," \
    "4],'block_size':2"

static const struct {
    const char *event;
    const char *adapter;
    const char *salt;
    enum kvt_tier tier;
    uint32_t group;
    uint32_t media[2]; /* objects of the first and the second block */
} stores[] = {
    /* vLLM by positions, step by step; trailing defaults left out or nil */
    {"[" HEAD "]", "", "", KVT_TIER_G1, 0, {0, 0}},
    {"[" HEAD ",'CPU']", "", "", KVT_TIER_G2, 0, {0, 0}},
    {"[" HEAD ",null,'adapter-a']", "adapter-a", "", KVT_TIER_G1, 0, {0, 0}},
    {"[" HEAD ",'GPU',null,null]", "", "", KVT_TIER_G1, 0, {0, 0}},
    {"[" HEAD ",'GPU','adapter-a',[['dynamo-cache-salt:t','" IMAGE_A "'],['" IMAGE_A "',['" IMAGE_B
     "',3],5,1.5,true,null,'bin:00ff']]]",
     "adapter-a",
     "t",
     KVT_TIER_G1,
     0,
     {1, 2}},
    {"[" HEAD ",'GPU',null,null,0]", "", "", KVT_TIER_G1, 0, {0, 0}},
    {"[" HEAD ",'GPU',null,null,2,'full_attention',null]", "", "", KVT_TIER_G1, 2, {0, 0}},
    {"[" HEAD ",'GPU',null,null,1,'mla_attention',null,'LOCAL',null]",
     "",
     "",
     KVT_TIER_G1,
     1,
     {0, 0}},
    {"[" HEAD ",'GPU',null,null,1,'full_attention',64,'LOCAL',null,'later',[1]]",
     "",
     "",
     KVT_TIER_G1,
     1,
     {0, 0}},
    {"[" HEAD ",'GPU',null,null,[null,{'mm_objects':[{'mm_hash':7,'offsets':[[0,1]]}]}]]",
     "",
     "",
     KVT_TIER_G1,
     0,
     {0, 1}},
    /* SGLang: a map where vLLM has the adapter */
    {"[" HEAD ",'CPU_PINNED',{'cache_salt':'t'}]", "", "t", KVT_TIER_G2, 0, {0, 0}},
    {"[" HEAD ",'DISK']", "", "", KVT_TIER_G3, 0, {0, 0}},
    {"[" HEAD ",'EXTERNAL']", "", "", KVT_TIER_G4, 0, {0, 0}},
    /* vLLM by names, what is default left out or nil, in any order */
    {"{" NAMED "}", "", "", KVT_TIER_G1, 0, {0, 0}},
    {"{'medium':'STORAGE','lora_name':null,'lora_id':7,'session_id':'x',"
     "'lookahead_token_ids':[1],'locality':'LOCAL','ownership':null," NAMED "}",
     "",
     "",
     KVT_TIER_G3,
     0,
     {0, 0}},
    {"{'extra_keys':[['dynamo-cache-salt:t']],'lora_name':'adapter-a'," NAMED "}",
     "adapter-a",
     "t",
     KVT_TIER_G1,
     0,
     {0, 0}},
    {"{" NAMED ",'group_idx':3,'kv_cache_spec_kind':'sink_full_attention',"
     "'kv_cache_spec_sliding_window':null}",
     "",
     "",
     KVT_TIER_G1,
     3,
     {0, 0}},
    {"{" NAMED ",'ownership':'framework','is_eagle':true,'medium':''}",
     "",
     "",
     KVT_TIER_G1,
     0,
     {0, 0}},
    /* the consolidator and newer SGLang */
    {"{" NAMED ",'medium':'CPU_TIER2','cache_salt':'t','block_mm_infos':[{'mm_objects':[{"
     "'mm_hash':9},{'mm_hash':3}]},null],'extra_keys':[['" IMAGE_A "']]}",
     "",
     "t",
     KVT_TIER_G3,
     0,
     {2, 0}},
    {"{" NAMED ",'medium':'CPU_TIER1','metadata':{'x':[1],'cache_salt':'t'}}",
     "",
     "t",
     KVT_TIER_G2,
     0,
     {0, 0}},
    /* a salt counts with the first block only, an object in its one spelling only */
    {"{" NAMED ",'extra_keys':[['0123'],['dynamo-cache-salt:t','" IMAGE_A "0']]}",
     "",
     "",
     KVT_TIER_G1,
     0,
     {0, 0}},
};

static void
stores_of_every_version(void **state)
{
    static const uint32_t tokens[] = {1, 200, 70000, 4};
    struct wire_raw_batch *batch = *state;
    char text[2048];

    for (size_t i = 0; i < sizeof(stores) / sizeof(*stores); i++) {
        const struct wire_raw_event *event = &batch->events[0];

        (void)snprintf(text, sizeof(text), "[%s]", stores[i].event);
        print_message("%s\n", text);
        decode_events(batch, text);
        assert_int_equal(batch->event_count, 1);
        assert_int_equal(event->kind, WIRE_RAW_STORE);
        assert_int_equal(event->tier, stores[i].tier);
        assert_int_equal(event->group, stores[i].group);
        assert_int_equal(event->seed, seed_of(stores[i].adapter, stores[i].salt));
        assert_int_equal(event->salted, stores[i].salt[0] != '\0');
        assert_true(event->has_parent && event->parent == 10);
        assert_int_equal(event->position, WIRE_RAW_POSITION_UNKNOWN);
        assert_int_equal(event->count, 2);
        assert_int_equal(event->block_tokens, 2);
        assert_int_equal(wire_raw_window(event), 2);
        assert_memory_equal(batch->token_ids + event->tokens, tokens, sizeof(tokens));
        for (uint32_t j = 0; j < 2; j++) {
            assert_int_equal(batch->blocks[event->first + j].hash, 11 + j);
            assert_int_equal(batch->blocks[event->first + j].media_count, stores[i].media[j]);
        }
        dialect_bytes_hurt(WIRE_DIALECT_ENGINE, &message, batch);
    }
}

static void
objects_are_sorted_within_a_block(void **state)
{
    struct wire_raw_batch *batch = *state;

    decode_events(batch, "[{" NAMED ",'extra_keys':[['" IMAGE_A "','" IMAGE_B "'],null]}]");
    assert_int_equal(batch->blocks[0].media_count, 2);
    assert_int_equal(batch->media[batch->blocks[0].media], 0xff);
    assert_int_equal(batch->media[batch->blocks[0].media + 1], UINT64_C(0x0123456789abcdef));
}

/* ---- hashes ---- */

static void
hashes_of_every_kind(void **state)
{
    struct wire_raw_batch *batch = *state;
    static const uint64_t hashes[] = {
        UINT64_MAX, UINT64_C(0x8000000000000000), UINT64_MAX, UINT64_C(0x18191a1b1c1d1e1f), 0xff,
        5,          UINT64_C(0xfffffffffffffed4)};

    decode_events(
        batch,
        "[{'type':'BlockRemoved','block_hashes':[-1,-9223372036854775808,18446744073709551615,"
        "'bin:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f','bin:ff',5,-300],"
        "'medium':'CPU','locality':'LOCAL','ownership':null}]");
    assert_int_equal(batch->event_count, 1);
    assert_int_equal(batch->events[0].kind, WIRE_RAW_REMOVE);
    assert_int_equal(batch->events[0].tier, KVT_TIER_G2);
    assert_int_equal(batch->events[0].count, 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(batch->blocks[i].hash, hashes[i]);
    decode_events(batch, "[['BlockStored',[1],'bin:ff00000000000000ff',[],4,null]]");
    assert_int_equal(batch->events[0].parent, 0xff);
    assert_int_equal(batch->events[0].block_tokens, 0);
}

/* A window of one token more than the block, at the block's stride. */
static void
tokens_in_pairs(void **state)
{
    static const uint32_t tokens[] = {1, 2, 3, 3, 4, 500};
    struct wire_raw_batch *batch = *state;

    decode_events(batch, "[['BlockStored',[11,12],null,[[1,2],[2,3],[3,4],[4,500]],2,null,'GPU'],"
                         "['BlockRemoved',[11]]]");
    assert_int_equal(batch->event_count, 2);
    assert_int_equal(batch->events[0].kind, WIRE_RAW_STORE);
    assert_int_equal(batch->events[0].block_tokens, 2);
    assert_int_equal(wire_raw_window(&batch->events[0]), 3);
    assert_memory_equal(batch->token_ids + batch->events[0].tokens, tokens, sizeof(tokens));
    assert_int_equal(batch->events[1].kind, WIRE_RAW_REMOVE);
}

/* ---- verdicts ---- */

static void
one_bad_event_leaves_its_neighbours(void **state)
{
    static const struct {
        const char *event;
        enum wire_raw_why why;
    } rows[] = {
        {"{" NAMED ",'locality':'REMOTE'}", WIRE_RAW_FOREIGN_DOMAIN},
        {"{" NAMED ",'locality':'local'}", WIRE_RAW_FOREIGN_DOMAIN},
        {"{" NAMED ",'locality':7}", WIRE_RAW_FOREIGN_DOMAIN},
        {"{" NAMED ",'ownership':'kvcr'}", WIRE_RAW_FOREIGN_DOMAIN},
        {"{'type':'AllBlocksCleared','ownership':'kvcr'}", WIRE_RAW_FOREIGN_DOMAIN},
        {"['AllBlocksCleared','kvcr']", WIRE_RAW_FOREIGN_DOMAIN},
        {"['AllBlocksCleared','later',null]", WIRE_RAW_FOREIGN_DOMAIN},
        {"[" HEAD ",'GPU',null,null,0,'full_attention',null,'REMOTE']", WIRE_RAW_FOREIGN_DOMAIN},
        {"['BlockRemoved',[1],'GPU',0,'REMOTE']", WIRE_RAW_FOREIGN_DOMAIN},
        {"{" NAMED ",'medium':'OBJ'}", WIRE_RAW_UNKNOWN_TIER},
        {"{" NAMED ",'medium':'gpu'}", WIRE_RAW_UNKNOWN_TIER},
        {"['BlockRemoved',[1],'FS']", WIRE_RAW_UNKNOWN_TIER},
        {"{" NAMED ",'group_idx':1,'kv_cache_spec_kind':'sliding_window',"
         "'kv_cache_spec_sliding_window':128}",
         WIRE_RAW_FILTERED_GROUP},
        {"{" NAMED ",'kv_cache_spec_kind':'mamba'}", WIRE_RAW_FILTERED_GROUP},
        {"{" NAMED ",'kv_cache_spec_kind':'of_next_year'}", WIRE_RAW_FILTERED_GROUP},
        {"[" HEAD ",'GPU',null,null,1,'sliding_window',128]", WIRE_RAW_FILTERED_GROUP},
        {"{'type':'BlockMoved','block_hashes':[1]}", WIRE_RAW_UNKNOWN_KIND},
        {"['BlockMoved',[1]]", WIRE_RAW_UNKNOWN_KIND},
        {"{'type':'Ignored'}", WIRE_RAW_FINE},
        {"['Ignored',1]", WIRE_RAW_FINE},
        {"{'block_hashes':[1]}", WIRE_RAW_MALFORMED},
        {"{'type':7}", WIRE_RAW_MALFORMED},
        {"{'type':'BlockStored'}", WIRE_RAW_MALFORMED},
        {"{'type':'BlockRemoved','block_hashes':5}", WIRE_RAW_MALFORMED},
        {"{'type':'BlockRemoved','block_hashes':['x']}", WIRE_RAW_MALFORMED},
        {"{'type':'BlockRemoved','block_hashes':['bin:']}", WIRE_RAW_MALFORMED},
        {"{" NAMED ",'lora_name':5}", WIRE_RAW_MALFORMED},
        {"{" NAMED ",'extra_keys':7}", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null,[1,2,3],2,null]", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null,[1,2],0,null]", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null,[1,-2],2,null]", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null,[[1,2],[2]],2,null]", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null,[[1,2],[2,3]],0,null]", WIRE_RAW_MALFORMED},
        {"['BlockStored',[1],null]", WIRE_RAW_MALFORMED},
        {"['BlockRemoved']", WIRE_RAW_MALFORMED},
        {"[]", WIRE_RAW_MALFORMED},
        {"[7]", WIRE_RAW_MALFORMED},
        {"'BlockStored'", WIRE_RAW_MALFORMED},
        {"null", WIRE_RAW_MALFORMED},
    };
    struct wire_raw_batch *batch = *state;
    char text[2048];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].event);
        (void)snprintf(text, sizeof(text), "[[" HEAD "],%s,['BlockRemoved',[21,22]]]",
                       rows[i].event);
        decode_events(batch, text);
        assert_int_equal(batch->event_count, 3);
        assert_int_equal(batch->events[1].kind, WIRE_RAW_SKIP);
        assert_int_equal(batch->events[1].why, rows[i].why);
        assert_int_equal(batch->events[0].kind, WIRE_RAW_STORE);
        assert_int_equal(batch->blocks[batch->events[0].first + 1].hash, 12);
        assert_int_equal(batch->token_ids[batch->events[0].tokens + 3], 4);
        assert_int_equal(batch->events[2].kind, WIRE_RAW_REMOVE);
        assert_int_equal(batch->blocks[batch->events[2].first + 1].hash, 22);
    }
}

/* ---- what is around the events ---- */

static void
batches_of_every_shape(void **state)
{
    static const struct {
        const char *text;
        uint32_t rank;
    } rows[] = {
        {"[1,[['AllBlocksCleared']]]", 0},
        {"[1.0,[['AllBlocksCleared']],null]", 0},
        {"[1,[['AllBlocksCleared']],2]", 2},
        {"[1,[['AllBlocksCleared']],2,{'later':1}]", 2},
        {"{'ts':1.0,'events':[['AllBlocksCleared']],'data_parallel_rank':2}", 2},
        {"{'data_parallel_rank':2,'x':0,'events':[['AllBlocksCleared']]}", 2},
        {"{'events':[{'type':'AllBlocksCleared'}],'data_parallel_rank':null}", 0},
    };
    static const char *const bad[] = {
        "[]",        "[1]", "[1,[],0,0,0]", "['x',[]]", "[1,5]",        "[1,[],'x']",
        "[1,[],-1]", "7",   "'x'",          "{'ts':1}", "{'events':7}", "{}",
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dialect_bytes_pack(&message, rows[i].text);
        dialect_bytes_decode(WIRE_DIALECT_ENGINE, &message, batch);
        assert_int_equal(batch->event_count, 1);
        assert_int_equal(batch->events[0].kind, WIRE_RAW_CLEAR);
        assert_int_equal(batch->events[0].dp_rank, rows[i].rank);
        dialect_bytes_hurt(WIRE_DIALECT_ENGINE, &message, batch);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dialect_bytes_pack(&message, bad[i]);
        dialect_bytes_refuse(WIRE_DIALECT_ENGINE, &message, batch, KVT_INVALID);
    }
}

/* ---- groups ---- */

static void
groups_are_learnt_and_filtered(void **state)
{
    struct wire_engine_groups groups = {.full = 0};
    struct wire_raw_batch *batch = *state;
    static const struct {
        const char *event;
        bool kept;
    } rows[] = {
        {"['BlockRemoved',[1]]", true},            /* group 0, of which nothing is known */
        {"['BlockRemoved',[1],'GPU',2]", false},   /* never learnt */
        {"['BlockRemoved',[1],'GPU',999]", false}, /* never will be */
        {"{" NAMED ",'group_idx':2,'kv_cache_spec_kind':'full_attention'}", true},
        {"['BlockRemoved',[1],'GPU',2]", true},
        {"{" NAMED ",'group_idx':0,'kv_cache_spec_kind':'sliding_window'}", false},
        {"['BlockRemoved',[1],'GPU',0]", false},
        {"{" NAMED ",'group_idx':2,'kv_cache_spec_kind':'mamba'}", false},
        {"['BlockRemoved',[1],'GPU',2]", false},
        {"['AllBlocksCleared']", true},
        {"['AllBlocksCleared',null]", true},
        {"['AllBlocksCleared','framework']", true},
        {"{'type':'BlockMoved','group_idx':5}", false}, /* not turned into anything */
    };
    char text[1024];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        (void)snprintf(text, sizeof(text), "[%s]", rows[i].event);
        decode_events(batch, text);
        wire_engine_groups_filter(&groups, batch);
        print_message("%s\n", text);
        assert_int_equal(batch->events[0].kind != WIRE_RAW_SKIP, rows[i].kept);
        if (!rows[i].kept && i + 1 < sizeof(rows) / sizeof(*rows))
            assert_int_equal(batch->events[0].why, WIRE_RAW_FILTERED_GROUP);
    }
    assert_int_equal(batch->events[0].why, WIRE_RAW_UNKNOWN_KIND);
}

/* ---- limits ---- */

/* [0, [["BlockStored", [1], nil, [0 x count], count, nil]]] */
static size_t
build_tokens(uint8_t *bytes, uint32_t count)
{
    static const char head[] = "\x92\x00\x91\x96\xab"
                               "BlockStored\x91\x01\xc0\xdd";
    size_t at = sizeof(head) - 1;

    memcpy(bytes, head, at);
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[at++] = (uint8_t)(count >> shift);
    memset(bytes + at, 0, count);
    at += count;
    bytes[at++] = 0xce;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[at++] = (uint8_t)(count >> shift);
    bytes[at++] = 0xc0;
    return at;
}

static void
limits_are_kept(void **state)
{
    static uint8_t bytes[WIRE_RAW_TOKENS_MAX + 64];
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;
    size_t size = build_tokens(bytes, WIRE_RAW_TOKENS_MAX);

    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_ENGINE, bytes, size, batch, &err), KVT_OK);
    assert_int_equal(batch->token_count, WIRE_RAW_TOKENS_MAX);
    size = build_tokens(bytes, WIRE_RAW_TOKENS_MAX + 1);
    assert_int_equal(wire_dialect_decode(WIRE_DIALECT_ENGINE, bytes, size, batch, &err), KVT_RANGE);
    assert_int_equal(batch->token_count, 0);
}

/* A list of `count` small values behind `head`. */
static size_t
build_list(uint8_t *bytes, const char *head, size_t head_size, uint32_t count, uint8_t value)
{
    memcpy(bytes, head, head_size);
    bytes[head_size++] = 0xdd;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[head_size++] = (uint8_t)(count >> shift);
    memset(bytes + head_size, value, count);
    return head_size + count;
}

static void
events_and_blocks_are_counted(void **state)
{
    static const char removed[] = "\x92\x00\x91\x92\xac"
                                  "BlockRemoved";
    static uint8_t bytes[WIRE_RAW_BLOCKS_MAX + 64];
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (uint32_t more = 0; more < 2; more++) {
        const enum kvt_err wanted = more == 0 ? KVT_OK : KVT_RANGE;
        size_t size = build_list(bytes, "\x92\x00", 2, WIRE_RAW_EVENTS_MAX + more, 0xc0);

        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_ENGINE, bytes, size, batch, &err),
                         wanted);
        assert_int_equal(batch->event_count, more == 0 ? WIRE_RAW_EVENTS_MAX : 0);
        size = build_list(bytes, removed, sizeof(removed) - 1, WIRE_RAW_BLOCKS_MAX + more, 5);
        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_ENGINE, bytes, size, batch, &err),
                         wanted);
        assert_int_equal(batch->block_count, more == 0 ? WIRE_RAW_BLOCKS_MAX : 0);
    }
}

static void
second_members_and_other_oddities(void **state)
{
    struct wire_raw_batch *batch = *state;

    /* Two of one member: written by hand, JSON has no such maps. */
    dialect_bytes_pack(&message,
                       "[1,[{'type':'BlockRemoved','block_hashes':[1],'block_hashez':[2]},"
                       "{" NAMED ",'token_idz':[1]}]]");
    for (size_t i = 0; i + 9 < message.size; i++) {
        if (i + 12 < message.size && memcmp(message.bytes + i, "block_hashez", 12) == 0)
            message.bytes[i + 11] = 's';
        if (memcmp(message.bytes + i, "token_idz", 9) == 0)
            message.bytes[i + 8] = 's';
    }
    dialect_bytes_decode(WIRE_DIALECT_ENGINE, &message, batch);
    assert_int_equal(batch->event_count, 2);
    assert_int_equal(batch->events[0].why, WIRE_RAW_MALFORMED);
    assert_int_equal(batch->events[1].why, WIRE_RAW_MALFORMED);
    decode_events(batch, "[{'type':'BlockRemoved','block_hashes':[1],'medium':'DEVICE'}]");
    assert_int_equal(batch->events[0].tier, KVT_TIER_G1);
}

/* A block with more objects than it may have would cost time by their square. */
static void
objects_of_a_block_are_bounded(void **state)
{
    struct wire_raw_batch *batch = *state;

    for (size_t count = WIRE_RAW_BLOCK_MEDIA_MAX; count <= WIRE_RAW_BLOCK_MEDIA_MAX + 1; count++) {
        size_t at;

        dialect_bytes_pack(&message, "[1,[{" NAMED ",'block_mm_infos':[{'mm_objects':7}]}]]");
        at = --message.size; /* the number becomes an array of maps */
        message.bytes[at++] = 0xdc;
        message.bytes[at++] = (uint8_t)(count >> 8);
        message.bytes[at++] = (uint8_t)count;
        for (size_t i = 0; i < count; i++) {
            memcpy(message.bytes + at,
                   "\x81\xa7mm_hash"
                   "\x05",
                   10);
            at += 10;
        }
        message.size = at;
        if (count <= WIRE_RAW_BLOCK_MEDIA_MAX)
            dialect_bytes_decode(WIRE_DIALECT_ENGINE, &message, batch);
        else
            dialect_bytes_refuse(WIRE_DIALECT_ENGINE, &message, batch, KVT_RANGE);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documented_batches),
        cmocka_unit_test(stores_of_every_version),
        cmocka_unit_test(objects_are_sorted_within_a_block),
        cmocka_unit_test(hashes_of_every_kind),
        cmocka_unit_test(tokens_in_pairs),
        cmocka_unit_test(one_bad_event_leaves_its_neighbours),
        cmocka_unit_test(batches_of_every_shape),
        cmocka_unit_test(groups_are_learnt_and_filtered),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(events_and_blocks_are_counted),
        cmocka_unit_test(second_members_and_other_oddities),
        cmocka_unit_test(objects_of_a_block_are_bounded),
    };

    return cmocka_run_group_tests(tests, dialect_bytes_set_up, dialect_bytes_tear_down);
}
