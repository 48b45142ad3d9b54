/*
 * Property: any bytes are refused, and nothing of them is left, or they are a message between a
 * writer and the owner of a block set that keeps its promises; writing it and reading it again
 * gives the same.
 */
#include <assert.h>
#include <string.h>

#include "engine/grant/grant_wire.h"
#include "engine/memory/fabric.h"
#include "tests/fuzz/target.h"

enum { RESULTS = 3 };

static const uint8_t zero[sizeof(struct engine_grant_wish)];

static void
try_about(const uint8_t *bytes, size_t size)
{
    struct engine_grant_about about = {.places = 1};
    struct engine_grant_about again;
    struct kvt_buffer out;

    if (engine_grant_read_about(&about, bytes, size) != KVT_OK) {
        assert(about.nonce == 0 && about.places == 0 && about.description == NULL);
        return;
    }
    assert(about.nonce != 0 && about.places >= 1 && about.places <= ENGINE_GRANT_PLACES_MAX);
    assert(about.size <= ENGINE_FABRIC_DESCRIPTION_MAX &&
           about.description + about.size <= bytes + size);
    kvt_buffer_init(&out, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_about(&out, &about);
    assert(kvt_buffer_ok(&out));
    assert(engine_grant_read_about(&again, out.data, out.size) == KVT_OK);
    assert(again.nonce == about.nonce && again.places == about.places && again.size == about.size);
    assert(about.size == 0 || memcmp(again.description, about.description, about.size) == 0);
    kvt_buffer_release(&out);
}

static void
try_wish(const uint8_t *bytes, size_t size)
{
    struct engine_grant_wish wish;
    struct engine_grant_wish again;
    struct kvt_buffer out;

    memset(&wish, 0, sizeof(wish));
    memset(&again, 0, sizeof(again));
    if (engine_grant_read_wish(&wish, bytes, size) != KVT_OK) {
        assert(memcmp(&wish, zero, sizeof(wish)) == 0);
        return;
    }
    assert(wish.count >= 1 && wish.count <= ENGINE_GRANT_BLOCKS_MAX);
    kvt_buffer_init(&out, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_wish(&out, &wish);
    assert(kvt_buffer_ok(&out));
    assert(engine_grant_read_wish(&again, out.data, out.size) == KVT_OK);
    assert(memcmp(&again, &wish, sizeof(wish)) == 0);
    kvt_buffer_release(&out);
}

static void
try_given(const uint8_t *bytes, size_t size)
{
    struct engine_grant_given given;
    struct engine_grant_given again;
    struct kvt_buffer out;

    memset(&given, 0, sizeof(given));
    memset(&again, 0, sizeof(again));
    if (engine_grant_read_given(&given, bytes, size) != KVT_OK) {
        assert(memcmp(&given, zero, sizeof(given)) == 0);
        return;
    }
    assert(given.count >= 1 && given.count <= ENGINE_GRANT_BLOCKS_MAX);
    for (size_t i = 0; i < given.count; i++)
        assert(given.places[i] <= ENGINE_GRANT_PLACES_MAX);
    kvt_buffer_init(&out, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_given(&out, &given);
    assert(kvt_buffer_ok(&out));
    assert(engine_grant_read_given(&again, out.data, out.size) == KVT_OK);
    assert(memcmp(&again, &given, sizeof(given)) == 0);
    kvt_buffer_release(&out);
}

static void
try_end(const uint8_t *bytes, size_t size)
{
    struct engine_grant_end end;
    struct engine_grant_end again;
    struct kvt_buffer out;

    memset(&end, 0, sizeof(end));
    memset(&again, 0, sizeof(again));
    if (engine_grant_read_end(&end, bytes, size) != KVT_OK) {
        assert(memcmp(&end, zero, sizeof(end)) == 0);
        return;
    }
    assert(end.count >= 1 && end.count <= ENGINE_GRANT_BLOCKS_MAX);
    for (size_t i = 0; i < end.count; i++)
        assert(end.sums[i] <= UINT64_C(1) + UINT32_MAX);
    kvt_buffer_init(&out, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_end(&out, &end);
    assert(kvt_buffer_ok(&out));
    assert(engine_grant_read_end(&again, out.data, out.size) == KVT_OK);
    assert(memcmp(&again, &end, sizeof(end)) == 0);
    kvt_buffer_release(&out);
}

static void
try_results(const uint8_t *bytes, size_t size)
{
    struct engine_grant_result results[RESULTS];
    struct engine_grant_result again[RESULTS];
    struct kvt_buffer out;

    memset(results, 0, sizeof(results));
    memset(again, 0, sizeof(again));
    if (engine_grant_read_results(results, RESULTS, bytes, size) != KVT_OK) {
        assert(memcmp(results, zero, sizeof(results)) == 0);
        return;
    }
    for (size_t i = 0; i < RESULTS; i++)
        assert(results[i].status < KVT_ERR_COUNT);
    kvt_buffer_init(&out, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_results(&out, results, RESULTS);
    assert(kvt_buffer_ok(&out));
    assert(engine_grant_read_results(again, RESULTS, out.data, out.size) == KVT_OK);
    assert(memcmp(again, results, sizeof(results)) == 0);
    kvt_buffer_release(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const enum kvt_err rc = engine_grant_read_version(bytes, size);

    assert(rc == KVT_OK || rc == KVT_INVALID);
    try_about(bytes, size);
    try_wish(bytes, size);
    try_given(bytes, size);
    try_end(bytes, size);
    try_results(bytes, size);
    return 0;
}
