#include "wire/message/route_sync.h"

#include <assert.h>
#include <string.h>

enum {
    VERSION = 1,
    HEAD_MEMBERS = 4, /* version, kind, router, incarnation */
    STEPS_MEMBERS = HEAD_MEMBERS + 2,
    HEARTBEAT_MEMBERS = HEAD_MEMBERS + 4,
    ASK_MEMBERS = HEAD_MEMBERS + 6,
    ROWS_MEMBERS = HEAD_MEMBERS + 10,
    HEARD_MEMBERS = 3,
    STEP_MEMBERS = 3,
    ROW_MEMBERS = 10,
    STATE_MAX = 3,
};

enum kvt_err
wire_route_sync_put(const struct wire_route_sync_row *row, struct kvt_buffer *rows)
{
    const bool whole = row->worker[0] != '\0';
    struct kvt_msgpack_writer writer;

    assert(row->hash_count <= row->blocks || !whole);
    if (row->hash_count > WIRE_ROUTE_SYNC_HASHES_MAX)
        return KVT_RANGE;
    kvt_msgpack_write(&writer, rows, WIRE_ROUTE_SYNC_ROWS_MAX - rows->size);
    kvt_msgpack_put_array(&writer, whole ? ROW_MEMBERS : STEP_MEMBERS);
    kvt_msgpack_put_str(&writer, row->id);
    kvt_msgpack_put_uint(&writer, row->state);
    kvt_msgpack_put_uint(&writer, row->age_ms);
    if (whole) {
        kvt_msgpack_put_uint(&writer, row->router);
        kvt_msgpack_put_uint(&writer, row->added_ms);
        kvt_msgpack_put_str(&writer, row->worker);
        kvt_msgpack_put_uint(&writer, row->dp_rank);
        kvt_msgpack_put_uint(&writer, row->prefill_tokens);
        kvt_msgpack_put_uint(&writer, row->blocks);
        kvt_msgpack_put_array(&writer, row->hash_count);
        for (uint32_t i = 0; i < row->hash_count; i++)
            kvt_msgpack_put_uint(&writer, row->hashes[i]);
    }
    return kvt_msgpack_done(&writer);
}

static void
put_head(struct kvt_msgpack_writer *writer, const struct wire_route_sync *message, size_t members)
{
    kvt_msgpack_put_array(writer, members);
    kvt_msgpack_put_uint(writer, VERSION);
    kvt_msgpack_put_uint(writer, (uint64_t)message->kind);
    kvt_msgpack_put_uint(writer, message->router);
    kvt_msgpack_put_uint(writer, message->incarnation);
}

static void
put_heard(struct kvt_msgpack_writer *writer, const struct wire_route_sync *message)
{
    kvt_msgpack_put_array(writer, message->heard_count);
    for (uint32_t i = 0; i < message->heard_count; i++) {
        kvt_msgpack_put_array(writer, HEARD_MEMBERS);
        kvt_msgpack_put_uint(writer, message->heard[i].router);
        kvt_msgpack_put_uint(writer, message->heard[i].incarnation);
        kvt_msgpack_put_uint(writer, message->heard[i].seq);
    }
}

static void
put_question(struct kvt_msgpack_writer *writer, const struct wire_route_sync *message)
{
    kvt_msgpack_put_uint(writer, message->to);
    kvt_msgpack_put_uint(writer, message->to_incarnation);
    kvt_msgpack_put_uint(writer, message->ask);
    kvt_msgpack_put_uint(writer, (uint64_t)message->what);
    kvt_msgpack_put_uint(writer, message->from);
}

enum kvt_err
wire_route_sync_encode(const struct wire_route_sync *message, const struct kvt_buffer *rows,
                       struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;
    const size_t start = out->size;
    enum kvt_err rc;

    assert(message->heard_count <= WIRE_ROUTE_SYNC_HEARD_MAX);
    kvt_msgpack_write(&writer, out, WIRE_ROUTE_SYNC_MAX);
    switch (message->kind) {
    case WIRE_ROUTE_SYNC_STEPS:
        put_head(&writer, message, STEPS_MEMBERS);
        kvt_msgpack_put_uint(&writer, message->seq);
        break;
    case WIRE_ROUTE_SYNC_HEARTBEAT:
        put_head(&writer, message, HEARTBEAT_MEMBERS);
        kvt_msgpack_put_uint(&writer, message->seq);
        kvt_msgpack_put_uint(&writer, message->digest);
        kvt_msgpack_put_bool(&writer, message->joining);
        put_heard(&writer, message);
        return kvt_msgpack_done(&writer);
    case WIRE_ROUTE_SYNC_ASK:
        put_head(&writer, message, ASK_MEMBERS);
        put_question(&writer, message);
        kvt_msgpack_put_uint(&writer, message->through);
        return kvt_msgpack_done(&writer);
    default:
        assert(message->kind == WIRE_ROUTE_SYNC_ROWS);
        put_head(&writer, message, ROWS_MEMBERS);
        put_question(&writer, message);
        kvt_msgpack_put_uint(&writer, message->next);
        kvt_msgpack_put_bool(&writer, message->gone);
        kvt_msgpack_put_uint(&writer, message->seq);
        put_heard(&writer, message);
    }
    kvt_msgpack_put_array(&writer, message->row_count);
    rc = kvt_msgpack_done(&writer);
    if (rc != KVT_OK || message->row_count == 0)
        return rc;
    if (rows->size > WIRE_ROUTE_SYNC_MAX - (out->size - start) ||
        rows->size > out->limit - out->size) {
        out->size = start;
        return KVT_RANGE;
    }
    kvt_buffer_append(out, rows->data, rows->size);
    if (!kvt_buffer_ok(out))
        out->size = start;
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

static void
read_heard(struct kvt_msgpack_reader *reader, struct wire_route_sync *message)
{
    const uint32_t count =
        kvt_msgpack_list(reader, WIRE_ROUTE_SYNC_HEARD_MAX, "an array of at most 64 peers");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        const uint32_t members =
            kvt_msgpack_array(reader, HEARD_MEMBERS, "a peer: [router, incarnation, number]");

        message->heard[i].router = kvt_msgpack_u64(reader, "a router's number");
        message->heard[i].incarnation = kvt_msgpack_u64(reader, "an incarnation");
        message->heard[i].seq = kvt_msgpack_u64(reader, "a number");
        kvt_msgpack_rest(reader, members, HEARD_MEMBERS);
        message->heard_count = i + 1;
    }
}

/* `hashes` NULL: they are only looked at. */
static void
read_row(struct kvt_msgpack_reader *reader, struct wire_route_sync_row *row, uint64_t *hashes)
{
    const uint32_t members = kvt_msgpack_array(reader, STEP_MEMBERS, "a row: [id, state, age]");
    size_t offset = reader->at;

    *row = (struct wire_route_sync_row){.hashes = hashes};
    kvt_msgpack_str(reader, row->id, sizeof(row->id), "an id of at most 127 bytes");
    if (row->id[0] == '\0')
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "an id");
    offset = reader->at;
    row->state = (uint8_t)kvt_msgpack_uint(reader, STATE_MAX, "a state from 1 to 3");
    if (row->state == 0)
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "a state from 1 to 3");
    row->age_ms = kvt_msgpack_u64(reader, "an age");
    if (members == STEP_MEMBERS)
        return;
    if (members < ROW_MEMBERS)
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "a row of 3 members, or of 10");
    row->router = kvt_msgpack_u64(reader, "a router's number");
    row->added_ms = kvt_msgpack_u64(reader, "a time");
    offset = reader->at;
    kvt_msgpack_str(reader, row->worker, sizeof(row->worker),
                    "a worker's name of at most 63 bytes");
    if (row->worker[0] == '\0')
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "a worker's name");
    row->dp_rank = kvt_msgpack_u32(reader, "a dp_rank");
    row->prefill_tokens =
        kvt_msgpack_uint(reader, WIRE_ROUTE_SYNC_TOKENS_MAX, "at most 4,294,967,296 tokens");
    row->blocks =
        (uint32_t)kvt_msgpack_uint(reader, WIRE_ROUTE_SYNC_BLOCKS_MAX, "at most 65,536 blocks");
    offset = reader->at;
    row->hash_count =
        kvt_msgpack_list(reader, WIRE_ROUTE_SYNC_HASHES_MAX, "an array of at most 16,384 hashes");
    if (row->hash_count > row->blocks)
        kvt_msgpack_fail(reader, offset, KVT_INVALID, "no more hashes than blocks");
    for (uint32_t i = 0; i < row->hash_count && reader->code == KVT_OK; i++) {
        const uint64_t hash = kvt_msgpack_u64(reader, "a hash");

        if (hashes != NULL)
            hashes[i] = hash;
    }
    kvt_msgpack_rest(reader, members, ROW_MEMBERS);
}

static void
read_rows(struct kvt_msgpack_reader *reader, struct wire_route_sync *message)
{
    const uint32_t count = kvt_msgpack_list(reader, WIRE_ROUTE_SYNC_MAX, "an array of rows");
    struct wire_route_sync_row row;

    message->rows = *reader;
    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++)
        read_row(reader, &row, NULL);
    if (reader->code == KVT_OK)
        message->row_count = count;
}

static void
read_question(struct kvt_msgpack_reader *reader, struct wire_route_sync *message)
{
    message->to = kvt_msgpack_u64(reader, "a router's number");
    message->to_incarnation = kvt_msgpack_u64(reader, "an incarnation");
    message->ask = kvt_msgpack_u64(reader, "the number of a question");
    message->what = (enum wire_route_sync_what)kvt_msgpack_uint(reader, WIRE_ROUTE_SYNC_RANGE,
                                                                "0 a table or 1 a range");
    message->from = kvt_msgpack_u64(reader, "where from");
}

/* What follows the head; how many members that makes. */
static uint32_t
read_kind(struct kvt_msgpack_reader *reader, uint32_t members, struct wire_route_sync *message)
{
    static const uint32_t known[] = {0, STEPS_MEMBERS, HEARTBEAT_MEMBERS, ASK_MEMBERS,
                                     ROWS_MEMBERS};

    if (members < known[message->kind])
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "all members of its kind");
    switch (message->kind) {
    case WIRE_ROUTE_SYNC_STEPS:
        message->seq = kvt_msgpack_u64(reader, "a number");
        read_rows(reader, message);
        break;
    case WIRE_ROUTE_SYNC_HEARTBEAT:
        message->seq = kvt_msgpack_u64(reader, "a number");
        message->digest = kvt_msgpack_u64(reader, "a digest");
        message->joining = kvt_msgpack_bool(reader, "true or false: joining");
        read_heard(reader, message);
        break;
    case WIRE_ROUTE_SYNC_ASK:
        read_question(reader, message);
        message->through = kvt_msgpack_u64(reader, "the last number");
        break;
    default:
        read_question(reader, message);
        message->next = kvt_msgpack_u64(reader, "what is next");
        message->gone = kvt_msgpack_bool(reader, "true or false: gone");
        message->seq = kvt_msgpack_u64(reader, "a number");
        read_heard(reader, message);
        read_rows(reader, message);
    }
    return known[message->kind];
}

enum kvt_err
wire_route_sync_decode(const void *bytes, size_t size, struct wire_route_sync *message,
                       struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    uint64_t version;
    uint64_t kind;
    enum kvt_err rc;

    *message = (struct wire_route_sync){0};
    if (size > WIRE_ROUTE_SYNC_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_ROUTE_SYNC_MAX, err);
    kvt_msgpack_read(&reader, bytes, size);
    members = kvt_msgpack_array(&reader, HEAD_MEMBERS, "a message: [1, kind, router, ...]");
    version = kvt_msgpack_u64(&reader, "a version");
    kind = kvt_msgpack_u64(&reader, "a kind");
    if (reader.code == KVT_OK && (version > VERSION || kind > WIRE_ROUTE_SYNC_ROWS))
        return kvt_error_set(err, KVT_UNSUPPORTED, "a message of a later format");
    if (version < VERSION || kind == 0)
        kvt_msgpack_fail(&reader, 1, KVT_INVALID, "version 1 and a kind");
    message->router = kvt_msgpack_u64(&reader, "a router's number");
    message->incarnation = kvt_msgpack_u64(&reader, "an incarnation");
    if (reader.code == KVT_OK) {
        message->kind = (enum wire_route_sync_kind)kind;
        kvt_msgpack_rest(&reader, members, read_kind(&reader, members, message));
    }
    rc = kvt_msgpack_end(&reader, "message", err);
    if (rc != KVT_OK)
        *message = (struct wire_route_sync){0};
    return rc;
}

bool
wire_route_sync_next(struct wire_route_sync *message, struct wire_route_sync_row *row,
                     uint64_t *hashes)
{
    if (message->row_count == 0)
        return false;
    message->row_count--;
    read_row(&message->rows, row, hashes);
    assert(message->rows.code == KVT_OK); /* it was looked at */
    return true;
}
