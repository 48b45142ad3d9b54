/*
 * Property: a message that was understood lies within its bytes and is the same when written and
 * read again; and whatever clients say, a server's book runs no call of a link twice, answers in
 * messages that can be read, and holds nothing when it is freed.  The bytes are read as one
 * message, and then as what some clients say, one short command after the other.
 */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "engine/rpc/rpc_links.h"
#include "tests/fuzz/target.h"

enum { SILENCE = 1000, TOLD_MAX = 4096, LINKS = 4, COMMANDS_MAX = 512, PAYLOAD = 64 };

struct story {
    struct engine_rpc_links *book;
    uint64_t links[LINKS]; /* that were given */
    size_t link_count;
    uint64_t told[TOLD_MAX][2]; /* link and number of what was run */
    size_t told_count;
    uint64_t now_ms;
};

static void
try_message(const uint8_t *bytes, size_t size)
{
    struct engine_rpc_message message;
    struct engine_rpc_message again;
    uint8_t copy[ENGINE_RPC_WIRE_HEAD_MAX + 4096];
    enum kvt_err rc = engine_rpc_wire_read(&message, bytes, size);
    size_t head;

    assert(rc == KVT_OK || rc == KVT_INVALID || rc == KVT_UNSUPPORTED || rc == KVT_RANGE);
    if (rc != KVT_OK || message.size > 4096)
        return;
    assert(message.size == 0 ||
           (message.bytes > bytes && message.bytes + message.size == bytes + size));
    head = engine_rpc_wire_head(copy, &message);
    assert(head <= ENGINE_RPC_WIRE_HEAD_MAX);
    if (message.size > 0)
        memcpy(copy + head, message.bytes, message.size);
    rc = engine_rpc_wire_read(&again, copy, head + message.size);
    assert(rc == KVT_OK && again.kind == message.kind && again.link == message.link);
    assert(again.number == message.number && again.code == message.code);
    assert(again.wait_ms == message.wait_ms && again.size == message.size);
    /* A message ends where it ends. */
    assert(engine_rpc_wire_read(&again, copy, head + message.size - 1) != KVT_OK);
}

/* What the server says: remembered where it is a new link. */
static void
on_send(void *arg, const struct engine_rpc_peer *peer, const void *bytes, size_t size)
{
    struct story *story = arg;
    struct engine_rpc_message message;
    const enum kvt_err rc = engine_rpc_wire_read(&message, bytes, size);

    assert(rc == KVT_OK && peer->size > 0);
    if (message.kind == ENGINE_RPC_WELCOME)
        story->links[story->link_count++ % LINKS] = message.link;
    (void)rc;
}

/* It is to be run: never before, by this link. */
static void
on_run(struct story *story, const struct engine_rpc_message *call)
{
    for (size_t i = 0; i < story->told_count; i++)
        assert(story->told[i][0] != call->link || story->told[i][1] != call->number);
    if (story->told_count == TOLD_MAX)
        return;
    story->told[story->told_count][0] = call->link;
    story->told[story->told_count++][1] = call->number;
    assert(engine_rpc_links_wanted(story->book, call->link, call->number));
}

static void
answer(struct story *story, uint8_t which, bool with_memory)
{
    static const uint8_t payload[PAYLOAD];
    struct engine_rpc_message message = {
        .kind = ENGINE_RPC_ANSWER, .bytes = payload, .size = which % PAYLOAD};

    if (story->told_count == 0)
        return;
    message.link = story->told[which % story->told_count][0];
    message.number = story->told[which % story->told_count][1];
    engine_rpc_links_answer(story->book, &message,
                            with_memory ? engine_rpc_kept_new(&message) : NULL);
    assert(!engine_rpc_links_wanted(story->book, message.link, message.number));
}

/* Four bytes: what, whose link, which slot, which sequence. */
static void
command(struct story *story, const uint8_t *bytes)
{
    struct engine_rpc_peer peer = {.size = 1, .name = {bytes[1]}};
    struct engine_rpc_message message = {
        .link = story->links[bytes[1] % LINKS],
        .number = (uint64_t)bytes[3] % 8 * ENGINE_RPC_CALLS_MAX + bytes[2] % 4,
        .wait_ms = bytes[3],
    };

    switch (bytes[0] % 16) {
    case 0: answer(story, bytes[1], true); return;
    case 1: answer(story, bytes[1], false); return;
    case 2: story->now_ms += (uint64_t)bytes[2] * 8; return;
    case 3: (void)engine_rpc_links_expire(story->book, story->now_ms); return;
    case 4: (void)engine_rpc_links_next_gone(story->book); return;
    case 5:
        if (bytes[1] == 0)
            engine_rpc_links_stop(story->book);
        return;
    case 6: message.kind = ENGINE_RPC_HELLO; break;
    case 7: message.kind = (enum engine_rpc_kind)(bytes[1] % (ENGINE_RPC_KIND_END - 1) + 1); break;
    case 8: message.kind = ENGINE_RPC_ASK; break;
    case 9: message.kind = ENGINE_RPC_CANCEL; break;
    default: message.kind = ENGINE_RPC_CALL; break;
    }
    if (engine_rpc_links_take(story->book, &peer, &message, story->now_ms))
        on_run(story, &message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct story story;
    const size_t live = kvt_alloc_live();
    enum kvt_err rc;

    try_message(bytes, size);
    memset(&story, 0, sizeof(story));
    rc = engine_rpc_links_new(&story.book, SILENCE, on_send, &story);
    assert(rc == KVT_OK);
    for (size_t at = 0; at + 4 <= size && at < (size_t)4 * COMMANDS_MAX; at += 4)
        command(&story, bytes + at);
    if (size % 2 == 0)
        engine_rpc_links_bye(story.book);
    engine_rpc_links_free(story.book);
    assert(kvt_alloc_live() == live);
    (void)rc;
    (void)live;
    return 0;
}
