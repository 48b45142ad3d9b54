#include "engine/grant/grant_wire.h"

#include <string.h>

#include "engine/memory/fabric.h"
#include "engine/rpc/rpc_msgpack.h"

enum { LABEL_WORDS = 5, RESULT_WORDS = 3 };

/* An array that begins with the version. */
static void
begin(struct kvt_buffer *out, uint32_t count)
{
    engine_pack_array(out, count);
    engine_pack_number(out, ENGINE_GRANT_VERSION);
}

static struct engine_unpack
begun(const uint8_t *bytes, size_t size, uint32_t count)
{
    struct engine_unpack in = {.bytes = bytes, .size = size};

    (void)engine_unpack_array(&in, count, count);
    if (engine_unpack_number(&in, UINT64_MAX) != ENGINE_GRANT_VERSION)
        in.bad = true;
    return in;
}

void
engine_grant_write_version(struct kvt_buffer *out)
{
    begin(out, 1);
}

enum kvt_err
engine_grant_read_version(const uint8_t *bytes, size_t size)
{
    const struct engine_unpack in = begun(bytes, size, 1);

    return engine_unpack_end(&in) ? KVT_OK : KVT_INVALID;
}

void
engine_grant_write_about(struct kvt_buffer *out, const struct engine_grant_about *about)
{
    begin(out, 4);
    engine_pack_number(out, about->nonce);
    engine_pack_number(out, about->places);
    engine_pack_bytes(out, about->description, (uint32_t)about->size);
}

enum kvt_err
engine_grant_read_about(struct engine_grant_about *about, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = begun(bytes, size, 4);

    about->nonce = engine_unpack_number(&in, UINT64_MAX);
    about->places = (uint32_t)engine_unpack_number(&in, ENGINE_GRANT_PLACES_MAX);
    about->description = engine_unpack_bytes(&in, ENGINE_FABRIC_DESCRIPTION_MAX, &about->size);
    if (engine_unpack_end(&in) && about->nonce != 0 && about->places != 0)
        return KVT_OK;
    memset(about, 0, sizeof(*about));
    return KVT_INVALID;
}

void
engine_grant_write_wish(struct kvt_buffer *out, const struct engine_grant_wish *wish)
{
    begin(out, 4);
    engine_pack_number(out, wish->nonce);
    engine_pack_number(out, wish->hold_ms);
    engine_pack_array(out, (uint32_t)wish->count * LABEL_WORDS);
    for (size_t i = 0; i < wish->count; i++) {
        const struct kvbm_label *label = &wish->labels[i];

        engine_pack_number(out, label->id.hash);
        engine_pack_number(out, label->id.parent);
        engine_pack_number(out, label->id.position);
        engine_pack_number(out, label->prefix_hash);
        engine_pack_number(out, label->tokens_hash);
    }
}

enum kvt_err
engine_grant_read_wish(struct engine_grant_wish *wish, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = begun(bytes, size, 4);
    uint32_t words;

    wish->nonce = engine_unpack_number(&in, UINT64_MAX);
    wish->hold_ms = engine_unpack_number(&in, UINT64_MAX);
    words = engine_unpack_array(&in, LABEL_WORDS, ENGINE_GRANT_BLOCKS_MAX * LABEL_WORDS);
    wish->count = words / LABEL_WORDS;
    for (size_t i = 0; i < wish->count; i++) {
        struct kvbm_label *label = &wish->labels[i];

        label->id.hash = engine_unpack_number(&in, UINT64_MAX);
        label->id.parent = engine_unpack_number(&in, UINT64_MAX);
        label->id.position = (uint32_t)engine_unpack_number(&in, KVT_POSITION_MAX);
        label->prefix_hash = engine_unpack_number(&in, UINT64_MAX);
        label->tokens_hash = engine_unpack_number(&in, UINT64_MAX);
    }
    if (engine_unpack_end(&in) && words % LABEL_WORDS == 0)
        return KVT_OK;
    memset(wish, 0, sizeof(*wish));
    return KVT_INVALID;
}

void
engine_grant_write_given(struct kvt_buffer *out, const struct engine_grant_given *given)
{
    begin(out, 4);
    engine_pack_number(out, given->number);
    engine_pack_number(out, given->hold_ms);
    engine_pack_array(out, (uint32_t)given->count);
    for (size_t i = 0; i < given->count; i++)
        engine_pack_number(out, given->places[i]);
}

enum kvt_err
engine_grant_read_given(struct engine_grant_given *given, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = begun(bytes, size, 4);

    given->number = engine_unpack_number(&in, UINT64_MAX);
    given->hold_ms = engine_unpack_number(&in, UINT64_MAX);
    given->count = engine_unpack_array(&in, 1, ENGINE_GRANT_BLOCKS_MAX);
    for (size_t i = 0; i < given->count; i++)
        given->places[i] = (uint32_t)engine_unpack_number(&in, ENGINE_GRANT_PLACES_MAX);
    if (engine_unpack_end(&in))
        return KVT_OK;
    memset(given, 0, sizeof(*given));
    return KVT_INVALID;
}

void
engine_grant_write_end(struct kvt_buffer *out, const struct engine_grant_end *end)
{
    begin(out, 4);
    engine_pack_number(out, end->number);
    engine_pack_number(out, end->settled ? 1 : 0);
    engine_pack_array(out, (uint32_t)end->count);
    for (size_t i = 0; i < end->count; i++)
        engine_pack_number(out, end->sums[i]);
}

enum kvt_err
engine_grant_read_end(struct engine_grant_end *end, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = begun(bytes, size, 4);

    end->number = engine_unpack_number(&in, UINT64_MAX);
    end->settled = engine_unpack_number(&in, 1) != 0;
    end->count = engine_unpack_array(&in, 1, ENGINE_GRANT_BLOCKS_MAX);
    for (size_t i = 0; i < end->count; i++)
        end->sums[i] = engine_unpack_number(&in, UINT64_C(1) + UINT32_MAX);
    if (engine_unpack_end(&in))
        return KVT_OK;
    memset(end, 0, sizeof(*end));
    return KVT_INVALID;
}

void
engine_grant_write_results(struct kvt_buffer *out, const struct engine_grant_result *results,
                           size_t count)
{
    begin(out, 2);
    engine_pack_array(out, (uint32_t)count * RESULT_WORDS);
    for (size_t i = 0; i < count; i++) {
        engine_pack_number(out, results[i].status);
        engine_pack_number(out, results[i].block);
        engine_pack_number(out, results[i].generation);
    }
}

enum kvt_err
engine_grant_read_results(struct engine_grant_result *results, size_t count, const uint8_t *bytes,
                          size_t size)
{
    struct engine_unpack in = begun(bytes, size, 2);
    const uint32_t words = (uint32_t)count * RESULT_WORDS;

    (void)engine_unpack_array(&in, words, words);
    for (size_t i = 0; i < count; i++) {
        results[i].status = (enum kvt_err)engine_unpack_number(&in, KVT_ERR_COUNT - 1);
        results[i].block = (uint32_t)engine_unpack_number(&in, UINT32_MAX);
        results[i].generation = engine_unpack_number(&in, UINT64_MAX);
    }
    if (engine_unpack_end(&in))
        return KVT_OK;
    memset(results, 0, count * sizeof(*results));
    return KVT_INVALID;
}
