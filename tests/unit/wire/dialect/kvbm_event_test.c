/*
 * What is tested: wire/dialect/kvbm_event.c, against documented vectors: no released producer
 * exists.
 */
#include <string.h>

#include "base/core/random.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/kvbm_event.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/dialect/dialect_bytes.h"

static struct dialect_bytes message;

/* Tokens 1..12 in blocks of 4, by both revisions. */
static const char *const chain_b = "[{'Create':['bin:0032ce3935fecb729700000000000000',"
                                   "'bin:005128ac8de75b4f0f78e4d7fb2dca5c',"
                                   "'bin:00aba8799e9b2033e122b2379d6d3c3d']},"
                                   "'bin:00000000000000000000000000003039']";
static const char *const chain_a = "[{'Create':['bin:00000000000000000338e4d7fb2dca5c',"
                                   "'bin:0059c726bfd96e52e4a2b2379d6d3c3d',"
                                   "'bin:00a51591bceb69e1eea1e67a6c80cf84']},12345]";

static void
the_documented_message(void **state)
{
    struct wire_raw_batch *batch = *state;

    dialect_bytes_hex(&message,
                      "9281a643726561746591c410005128ac8de75b4f0f78e4d7fb2dca5cc41000000000"
                      "000000000000000000003039");
    dialect_bytes_decode(WIRE_DIALECT_KVBM, &message, batch);
    assert_string_equal(batch->worker, "00000000000000000000000000003039");
    assert_int_equal(batch->event_count, 1);
    assert_int_equal(batch->events[0].kind, WIRE_RAW_STORE);
    assert_int_equal(batch->events[0].position, 1);
    assert_int_equal(batch->events[0].count, 1);
    assert_int_equal(batch->blocks[0].hash, UINT64_C(4945711292740353085));
    assert_false(batch->events[0].has_parent);
    assert_int_equal(batch->events[0].parent,
                     kvt_key_parent_fragment(KVT_KEY_KVBM_B, 1, UINT64_C(14643705804678351452)));
    dialect_bytes_hurt(WIRE_DIALECT_KVBM, &message, batch);
}

static void
chains_become_one_event(void **state)
{
    static const uint64_t hashes[] = {UINT64_C(14643705804678351452), UINT64_C(4945711292740353085),
                                      UINT64_C(12583592247330656132)};
    struct wire_raw_batch *batch = *state;

    dialect_bytes_pack(&message, chain_b);
    dialect_bytes_decode(WIRE_DIALECT_KVBM, &message, batch);
    assert_int_equal(batch->event_count, 1);
    assert_int_equal(batch->events[0].position, 0);
    assert_int_equal(batch->events[0].count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(batch->blocks[i].hash, hashes[i]);
    dialect_bytes_hurt(WIRE_DIALECT_KVBM, &message, batch);
}

static void
revision_a_has_fragments(void **state)
{
    static const uint64_t hashes[] = {UINT64_C(14643705804678351452), UINT64_C(4945711292740353085),
                                      UINT64_C(12583592247330656132)};
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    dialect_bytes_pack(&message, chain_a);
    assert_int_equal(wire_kvbm_decode(KVT_KEY_KVBM_A, message.bytes, message.size, batch, &err),
                     KVT_OK);
    assert_string_equal(batch->worker, "00000000000000000000000000003039");
    assert_int_equal(batch->event_count, 1);
    assert_int_equal(batch->events[0].count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(batch->blocks[i].hash, hashes[i] & ((UINT64_C(1) << 59) - 1));
    assert_int_equal(wire_kvbm_decode(KVT_KEY_KVBM_C, message.bytes, message.size, batch, &err),
                     KVT_UNSUPPORTED);
}

/* Positions of all three widths, taken apart as kvtier/key.h puts fragments together. */
static void
every_width_of_position(void **state)
{
    static const struct {
        uint32_t position;
        unsigned mode;
        unsigned bits;
        unsigned rest;
    } widths[] = {{255, 0, 8, 54}, {65535, 1, 16, 46}, {KVT_POSITION_MAX, 2, 24, 38}};
    struct wire_raw_batch *batch = *state;
    uint64_t random = test_seed();

    for (size_t i = 0; i < 3; i++) {
        const uint64_t hash = kvt_random_next(&random);
        const uint64_t parent = kvt_random_next(&random);
        const unsigned __int128 value =
            (unsigned __int128)widths[i].mode << 126 |
            (unsigned __int128)widths[i].position << (126 - widths[i].bits) |
            (unsigned __int128)hash << widths[i].rest |
            kvt_key_parent_fragment(KVT_KEY_KVBM_B, widths[i].position, parent);

        dialect_bytes_hex(&message, "9281a643726561746591c4100000000000000000000000000000000005");
        for (unsigned j = 0; j < 16; j++)
            message.bytes[12 + j] = (uint8_t)(value >> (120 - 8 * j));
        dialect_bytes_decode(WIRE_DIALECT_KVBM, &message, batch);
        assert_int_equal(batch->events[0].position, widths[i].position);
        assert_int_equal(batch->blocks[0].hash, hash);
        assert_int_equal(batch->events[0].parent, parent & ((UINT64_C(1) << widths[i].rest) - 1));
    }
}

static void
other_forms(void **state)
{
    static const struct {
        const char *text;
        enum wire_raw_kind kinds[3];
        uint32_t count;
    } rows[] = {
        {"['Shutdown',7]", {WIRE_RAW_BYE}, 1},
        {"['Restart',7]", {WIRE_RAW_SKIP}, 1},
        {"[{'Move':[1]},7]", {WIRE_RAW_SKIP}, 1},
        {"{'events':{'Remove':[5,'bin:005128ac8de75b4f0f78e4d7fb2dca5c']},'instance_id':7,'x':0}",
         {WIRE_RAW_REMOVE},
         1},
        {"[{'Create':[]},7,'later']", {WIRE_RAW_SKIP}, 0},
        /* not a chain: an event each; mode 3 and a short hash exist not */
        {"[{'Create':['bin:005128ac8de75b4f0f78e4d7fb2dca5c','bin:ff','bin:"
         "0032ce3935fecb729700000000000000']},7]",
         {WIRE_RAW_STORE, WIRE_RAW_SKIP, WIRE_RAW_STORE},
         3},
        {"[{'Create':['bin:ffffffffffffffffffffffffffffffff']},7]", {WIRE_RAW_SKIP}, 1},
    };
    static const char *const bad[] = {
        "[]",
        "['Shutdown']",
        "[{'Create':[]}]",
        "[{'Create':5},7]",
        "[{'Create':[],'Remove':[]},7]",
        "['Shutdown','x']",
        "['Shutdown',-1]",
        "['Shutdown','bin:00']",
        "[5,7]",
        "{'events':'Shutdown'}",
        "{'instance_id':7}",
        "7",
    };
    struct wire_raw_batch *batch = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dialect_bytes_pack(&message, rows[i].text);
        dialect_bytes_decode(WIRE_DIALECT_KVBM, &message, batch);
        assert_int_equal(batch->event_count, rows[i].count);
        assert_string_equal(batch->worker, "00000000000000000000000000000007");
        for (uint32_t j = 0; j < rows[i].count; j++)
            assert_int_equal(batch->events[j].kind, rows[i].kinds[j]);
        dialect_bytes_hurt(WIRE_DIALECT_KVBM, &message, batch);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dialect_bytes_pack(&message, bad[i]);
        dialect_bytes_refuse(WIRE_DIALECT_KVBM, &message, batch, KVT_INVALID);
    }
}

/* [{kind: [0 x count]}, 7]: hashes at position 0, which no chain joins. */
static size_t
build_hashes(uint8_t *bytes, const char *kind, uint32_t count)
{
    size_t at = 0;

    bytes[at++] = 0x92;
    bytes[at++] = 0x81;
    bytes[at++] = 0xa6;
    memcpy(bytes + at, kind, 6);
    at += 6;
    bytes[at++] = 0xdd;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[at++] = (uint8_t)(count >> shift);
    memset(bytes + at, 0, count);
    at += count;
    bytes[at++] = 7;
    return at;
}

static void
limits_are_kept(void **state)
{
    static uint8_t bytes[WIRE_RAW_BLOCKS_MAX + 64];
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (uint32_t more = 0; more < 2; more++) {
        const enum kvt_err wanted = more == 0 ? KVT_OK : KVT_RANGE;
        size_t size = build_hashes(bytes, "Create", WIRE_RAW_EVENTS_MAX + more);

        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_KVBM, bytes, size, batch, &err), wanted);
        assert_int_equal(batch->event_count, more == 0 ? WIRE_RAW_EVENTS_MAX : 0);
        size = build_hashes(bytes, "Remove", WIRE_RAW_BLOCKS_MAX + more);
        assert_int_equal(wire_dialect_decode(WIRE_DIALECT_KVBM, bytes, size, batch, &err), wanted);
        assert_int_equal(batch->block_count, more == 0 ? WIRE_RAW_BLOCKS_MAX : 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_message),
        cmocka_unit_test(chains_become_one_event),
        cmocka_unit_test(revision_a_has_fragments),
        cmocka_unit_test(every_width_of_position),
        cmocka_unit_test(other_forms),
        cmocka_unit_test(limits_are_kept),
    };

    return cmocka_run_group_tests(tests, dialect_bytes_set_up, dialect_bytes_tear_down);
}
