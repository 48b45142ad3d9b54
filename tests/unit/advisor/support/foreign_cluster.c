#include "tests/unit/advisor/support/foreign_cluster.h"

#include <inttypes.h>

#include "base/text/msgpack.h"
#include "kvtier/token.h"

uint32_t
test_router_chain(uint32_t chain, uint32_t depth)
{
    return depth < TEST_ROUTER_SHARED ? 0 : chain;
}

void
test_router_tokens(uint32_t chain, uint32_t depth, uint32_t tokens[TEST_ROUTER_TOKENS])
{
    for (uint32_t i = 0; i < TEST_ROUTER_TOKENS; i++)
        tokens[i] = test_router_chain(chain, depth) * 1000 + depth * 10 + i;
}

uint64_t
test_router_local(uint32_t chain, uint32_t depth)
{
    uint32_t tokens[TEST_ROUTER_TOKENS];

    test_router_tokens(chain, depth, tokens);
    return kvt_token_block(tokens, TEST_ROUTER_TOKENS, NULL, 0, KVT_TOKEN_SEED);
}

uint64_t
test_router_name(uint32_t chain, uint32_t depth)
{
    uint64_t name = test_router_local(chain, 0);

    for (uint32_t i = 1; i <= depth; i++)
        name = kvt_token_chain(name, test_router_local(chain, i));
    return name;
}

uint64_t
test_router_called(uint64_t worker, uint32_t chain, uint32_t depth)
{
    const uint64_t name = test_router_name(chain, depth);

    return worker == 0 ? name : name * 31 + worker;
}

static void
begin(struct kvt_buffer *out, const struct test_router_head *head)
{
    kvt_buffer_printf(out,
                      "{\"worker_id\":%" PRIu64
                      ",\"storage_tier\":\"%s\",\"event\":{\"event_id\":%" PRIu64 ",\"data\":",
                      head->worker, head->tier == KVT_TIER_G2 ? "host_pinned" : "device", head->id);
}

static void
finish(struct kvt_buffer *out, const struct test_router_head *head)
{
    kvt_buffer_printf(out, ",\"dp_rank\":%u}}", head->rank);
}

void
test_router_store(struct kvt_buffer *out, const struct test_router_head *head,
                  const struct test_router_blocks *blocks)
{
    begin(out, head);
    kvt_buffer_printf(out, "{\"stored\":{\"parent_hash\":");
    if (blocks->depth == 0)
        kvt_buffer_printf(out, "null");
    else
        kvt_buffer_printf(out, "%" PRIu64,
                          test_router_called(head->worker, blocks->chain, blocks->depth - 1));
    kvt_buffer_printf(out, ",\"blocks\":[");
    for (uint32_t i = 0; i < blocks->count; i++)
        kvt_buffer_printf(
            out,
            "%s{\"block_hash\":%" PRIu64 ",\"tokens_hash\":%" PRIu64 ",\"mm_extra_info\":null}",
            i > 0 ? "," : "", test_router_called(head->worker, blocks->chain, blocks->depth + i),
            test_router_local(blocks->chain, blocks->depth + i));
    kvt_buffer_printf(out, "]}}");
    finish(out, head);
}

void
test_router_remove(struct kvt_buffer *out, const struct test_router_head *head,
                   const struct test_router_blocks *blocks)
{
    begin(out, head);
    kvt_buffer_printf(out, "{\"removed\":{\"block_hashes\":[");
    for (uint32_t i = 0; i < blocks->count; i++)
        kvt_buffer_printf(out, "%s%" PRIu64, i > 0 ? "," : "",
                          test_router_called(head->worker, blocks->chain, blocks->depth + i));
    kvt_buffer_printf(out, "]}}");
    finish(out, head);
}

void
test_router_clear(struct kvt_buffer *out, const struct test_router_head *head)
{
    begin(out, head);
    kvt_buffer_printf(out, "\"cleared\"");
    finish(out, head);
}

/* ---- msgpack ---- */

static void
put_map(struct kvt_buffer *out, uint8_t members)
{
    const uint8_t byte = (uint8_t)(0x80 | members);

    kvt_buffer_append(out, &byte, 1);
}

static void
put_nil(struct kvt_buffer *out)
{
    kvt_buffer_append(out, "\xc0", 1);
}

static void
put_key(struct kvt_msgpack_writer *writer, const char *key, uint64_t value)
{
    kvt_msgpack_put_str(writer, key);
    kvt_msgpack_put_uint(writer, value);
}

static void
write_event(struct kvt_buffer *out, const struct test_router_head *head,
            const struct test_router_blocks *blocks)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_write(&writer, out, SIZE_MAX);
    kvt_msgpack_put_array(&writer, 1);
    put_map(out, 3);
    put_key(&writer, "worker_id", head->worker);
    kvt_msgpack_put_str(&writer, "storage_tier");
    kvt_msgpack_put_str(&writer, head->tier == KVT_TIER_G2 ? "host_pinned" : "device");
    kvt_msgpack_put_str(&writer, "event");
    put_map(out, 3);
    put_key(&writer, "event_id", head->id);
    kvt_msgpack_put_str(&writer, "data");
    put_map(out, 1);
    kvt_msgpack_put_str(&writer, "removed");
    put_map(out, 1);
    kvt_msgpack_put_str(&writer, "block_hashes");
    kvt_msgpack_put_array(&writer, blocks->count);
    for (uint32_t i = 0; i < blocks->count; i++)
        kvt_msgpack_put_uint(&writer,
                             test_router_called(head->worker, blocks->chain, blocks->depth + i));
    put_key(&writer, "dp_rank", head->rank);
}

void
test_router_envelope(struct kvt_buffer *out, uint64_t publisher, uint64_t sequence,
                     const struct test_router_head *head, const struct test_router_blocks *blocks)
{
    struct kvt_msgpack_writer writer;
    struct kvt_buffer payload;

    kvt_buffer_init(&payload, 1u << 20);
    write_event(&payload, head, blocks);
    kvt_msgpack_write(&writer, out, SIZE_MAX);
    put_map(out, 5);
    put_key(&writer, "publisher_id", publisher);
    put_key(&writer, "sequence", sequence);
    put_key(&writer, "published_at", UINT64_C(1700000000000));
    kvt_msgpack_put_str(&writer, "topic");
    kvt_msgpack_put_str(&writer, "kv-events");
    kvt_msgpack_put_str(&writer, "payload");
    kvt_msgpack_put_bin(&writer, payload.data, payload.size);
    kvt_buffer_release(&payload);
}

void
test_router_engine(struct kvt_buffer *out, uint64_t worker, const struct test_router_blocks *blocks)
{
    struct kvt_msgpack_writer writer;
    uint32_t tokens[TEST_ROUTER_TOKENS];

    kvt_msgpack_write(&writer, out, SIZE_MAX);
    kvt_msgpack_put_array(&writer, 3);
    kvt_msgpack_put_uint(&writer, 1);
    kvt_msgpack_put_array(&writer, 1);
    kvt_msgpack_put_array(&writer, 6);
    kvt_msgpack_put_str(&writer, "BlockStored");
    kvt_msgpack_put_array(&writer, blocks->count);
    for (uint32_t i = 0; i < blocks->count; i++)
        kvt_msgpack_put_uint(&writer, test_router_called(worker, blocks->chain, blocks->depth + i));
    if (blocks->depth == 0)
        put_nil(out);
    else
        kvt_msgpack_put_uint(&writer, test_router_called(worker, blocks->chain, blocks->depth - 1));
    kvt_msgpack_put_array(&writer, (size_t)blocks->count * TEST_ROUTER_TOKENS);
    for (uint32_t i = 0; i < blocks->count; i++) {
        test_router_tokens(blocks->chain, blocks->depth + i, tokens);
        for (uint32_t t = 0; t < TEST_ROUTER_TOKENS; t++)
            kvt_msgpack_put_uint(&writer, tokens[t]);
    }
    kvt_msgpack_put_uint(&writer, TEST_ROUTER_TOKENS);
    put_nil(out);
    kvt_msgpack_put_uint(&writer, 0);
}
