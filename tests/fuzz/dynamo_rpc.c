/*
 * Property: what is read of any bytes lies within them; one byte less is "more, please"; and a
 * frame that was understood is the same when written and read again.
 */
#include "wire/dialect/dynamo_rpc.h"

#include <assert.h>
#include <string.h>

#include "tests/fuzz/target.h"

static void
assert_within(const void *part, size_t part_size, const uint8_t *bytes, size_t size)
{
    const uint8_t *start = part;

    assert(start >= bytes && start <= bytes + size);
    assert(part_size <= (size_t)(bytes + size - start));
    (void)start;
}

static void
try_request(const uint8_t *bytes, size_t size)
{
    struct wire_dynamo_rpc_question question;
    struct kvt_error err;
    size_t used;
    enum kvt_err rc = wire_dynamo_rpc_read_request(bytes, size, &used, &question, &err);

    assert(rc == KVT_OK || rc == KVT_AGAIN || rc == KVT_INVALID || rc == KVT_RANGE);
    if (rc != KVT_OK)
        return;
    assert(used <= size);
    assert_within(question.path, question.path_size, bytes, used);
    assert_within(question.body, question.body_size, bytes, used);
    rc = wire_dynamo_rpc_read_request(bytes, used - 1, &used, &question, &err);
    assert(rc == KVT_AGAIN);
}

static void
try_ack(const uint8_t *bytes, size_t size)
{
    struct kvt_error err;
    const char *text;
    size_t text_size;
    size_t used;
    enum kvt_err rc = wire_dynamo_rpc_read_ack(bytes, size, &used, &text, &text_size, &err);

    assert(rc == KVT_OK || rc == KVT_AGAIN || rc == KVT_RANGE);
    if (rc == KVT_OK)
        assert_within(text, text_size, bytes, used);
}

static void
try_frame(const uint8_t *bytes, size_t size)
{
    struct wire_dynamo_rpc_frame frame;
    struct wire_dynamo_rpc_frame again;
    struct kvt_buffer out;
    struct kvt_error err;
    size_t needed;
    size_t used;
    enum kvt_err rc = wire_dynamo_rpc_read_frame(bytes, size, &used, &frame, &err);

    assert(rc == KVT_OK || rc == KVT_AGAIN || rc == KVT_INVALID || rc == KVT_RANGE);
    if (rc != KVT_OK)
        return;
    assert(used <= size && used > 0);
    if (frame.kind == WIRE_DYNAMO_RPC_DATA)
        assert_within(frame.body, frame.body_size, bytes, used);
    rc = wire_dynamo_rpc_read_frame(bytes, used - 1, &needed, &again, &err);
    assert(rc == KVT_AGAIN && (needed == used || needed == 0));
    /* A body without its wrapper may be anything: it is not written again. */
    if (frame.kind == WIRE_DYNAMO_RPC_OTHER || frame.kind == WIRE_DYNAMO_RPC_DATA)
        return;
    kvt_buffer_init(&out, 1u << 20);
    rc = wire_dynamo_rpc_put_frame(&out, &frame, false);
    assert(rc == KVT_OK);
    rc = wire_dynamo_rpc_read_frame(out.data, out.size, &used, &again, &err);
    assert(rc == KVT_OK && used == out.size && again.kind == frame.kind);
    assert(again.failed == frame.failed);
    if (frame.kind == WIRE_DYNAMO_RPC_HANDSHAKE)
        assert(strcmp(again.subject, frame.subject) == 0);
    kvt_buffer_release(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    try_request(bytes, size);
    try_ack(bytes, size);
    try_frame(bytes, size);
    return 0;
}
