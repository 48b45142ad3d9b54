#include "wire/message/query.h"

#include <assert.h>
#include <string.h>

#include "base/text/msgpack.h"

enum {
    QUESTION_MEMBERS = 3, /* and up to two more, left out when zero */
    HOLDER_MEMBERS = 4,   /* and one more */
    ANSWER_MEMBERS = 3,   /* the same */
    FAILURE_TEXT_MAX = 128,
};

/* An answer's status; a code of a later version is still a failure. */
static enum kvt_err
read_status(struct kvt_msgpack_reader *reader)
{
    const uint64_t status = kvt_msgpack_u64(reader, "a status");

    return status < KVT_ERR_COUNT ? (enum kvt_err)status : KVT_UNSUPPORTED;
}

/* The rest of [1, status, text]: its verdict, with the peer's text. */
static enum kvt_err
read_failure(struct kvt_msgpack_reader *reader, enum kvt_err status, uint32_t members,
             struct kvt_error *err)
{
    char text[FAILURE_TEXT_MAX];
    enum kvt_err rc;

    if (status == KVT_OK)
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "an answer, not a text");
    kvt_msgpack_str(reader, text, sizeof(text), "a text of at most 127 bytes");
    kvt_msgpack_rest(reader, members, 3);
    rc = kvt_msgpack_end(reader, "answer", err);
    return rc != KVT_OK ? rc : kvt_error_set(err, status, "%s", text);
}

enum kvt_err
wire_query_failed(const void *bytes, size_t size, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    enum kvt_err status;
    uint32_t members;

    members =
        kvt_msgpack_message(&reader, bytes, size, ANSWER_MEMBERS, "an answer: [1, status, ...]");
    status = read_status(&reader);
    if (reader.code != KVT_OK)
        return kvt_error_set(err, reader.code, "answer of %zu bytes: expected %s", size,
                             reader.wanted);
    return status == KVT_OK ? KVT_OK : read_failure(&reader, status, members, err);
}

enum kvt_err
wire_query_encode_failure(enum kvt_err status, const char *text, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;
    char cut[FAILURE_TEXT_MAX];
    size_t length = strlen(text);

    assert(status != KVT_OK);
    if (length >= sizeof(cut))
        length = sizeof(cut) - 1;
    memcpy(cut, text, length);
    cut[length] = '\0';
    kvt_msgpack_put_message(&writer, out, WIRE_QUERY_MAX, 3);
    kvt_msgpack_put_uint(&writer, (uint64_t)status);
    kvt_msgpack_put_str(&writer, cut);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_encode(const struct wire_query *query, struct kvt_buffer *out)
{
    const uint32_t more = query->early_exit ? 2 : query->by_tokens ? 1 : 0;
    struct kvt_msgpack_writer writer;

    if (query->hash_count > WIRE_QUERY_HASHES_MAX)
        return KVT_RANGE;
    kvt_msgpack_put_message(&writer, out, WIRE_QUERY_MAX, QUESTION_MEMBERS + more);
    kvt_msgpack_put_str(&writer, query->namespace_);
    kvt_msgpack_put_array(&writer, query->hash_count);
    for (uint32_t i = 0; i < query->hash_count; i++)
        kvt_msgpack_put_uint(&writer, query->hashes[i]);
    if (more > 0)
        kvt_msgpack_put_uint(&writer, query->by_tokens);
    if (more > 1)
        kvt_msgpack_put_uint(&writer, query->early_exit);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode(const void *bytes, size_t size, struct wire_query *query, size_t capacity,
                  struct kvt_error *err)
{
    const size_t most = capacity < WIRE_QUERY_HASHES_MAX ? capacity : WIRE_QUERY_HASHES_MAX;
    struct kvt_msgpack_reader reader;
    uint32_t members;
    uint32_t count;
    enum kvt_err rc;

    assert(query->hashes != NULL || capacity == 0);
    query->namespace_[0] = '\0';
    query->hash_count = 0;
    query->by_tokens = false;
    query->early_exit = false;
    if (size > WIRE_QUERY_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_QUERY_MAX, err);
    members = kvt_msgpack_message(&reader, bytes, size, QUESTION_MEMBERS,
                                  "a question: [1, namespace, hashes]");
    kvt_msgpack_str(&reader, query->namespace_, sizeof(query->namespace_),
                    "a namespace of at most 127 bytes");
    count = kvt_msgpack_list(&reader, most, "an array of no more hashes than there is room for");
    for (uint32_t i = 0; i < count && reader.code == KVT_OK; i++)
        query->hashes[i] = kvt_msgpack_u64(&reader, "a hash");
    if (members > 3)
        query->by_tokens = kvt_msgpack_uint(&reader, 1, "0 sequence or 1 token hashes") == 1;
    if (members > 4)
        query->early_exit = kvt_msgpack_uint(&reader, 1, "0 or 1: stop early") == 1;
    rc = kvt_msgpack_close(&reader, members, 5, "question", err);
    if (rc == KVT_OK)
        query->hash_count = count;
    return rc;
}

static void
put_answer(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, bool loading)
{
    kvt_msgpack_put_message(writer, out, WIRE_QUERY_MAX, ANSWER_MEMBERS + (loading ? 1 : 0));
    kvt_msgpack_put_uint(writer, KVT_OK);
}

enum kvt_err
wire_query_encode_holders(const struct wire_query_holder *holders, size_t count, bool loading,
                          struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    if (count > WIRE_QUERY_HOLDERS_MAX)
        return KVT_RANGE;
    put_answer(&writer, out, loading);
    kvt_msgpack_put_array(&writer, count);
    for (size_t i = 0; i < count; i++) {
        kvt_msgpack_put_array(&writer, HOLDER_MEMBERS + (holders[i].uncertain ? 1 : 0));
        kvt_msgpack_put_str(&writer, holders[i].name);
        kvt_msgpack_put_uint(&writer, holders[i].dp_rank);
        kvt_msgpack_put_uint(&writer, (uint64_t)holders[i].tier);
        kvt_msgpack_put_uint(&writer, holders[i].blocks);
        if (holders[i].uncertain)
            kvt_msgpack_put_uint(&writer, 1);
    }
    if (loading)
        kvt_msgpack_put_uint(&writer, 1);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode_holders(const void *bytes, size_t size, struct wire_query_holder *holders,
                          size_t capacity, size_t *count, struct kvt_error *err)
{
    const size_t most = capacity < WIRE_QUERY_HOLDERS_MAX ? capacity : WIRE_QUERY_HOLDERS_MAX;
    struct kvt_msgpack_reader reader;
    enum kvt_err status;
    uint32_t members;
    uint32_t rows;
    size_t offset;
    enum kvt_err rc;

    *count = 0;
    if (size > WIRE_QUERY_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_QUERY_MAX, err);
    members = kvt_msgpack_message(&reader, bytes, size, ANSWER_MEMBERS,
                                  "an answer: [1, status, holders]");
    status = read_status(&reader);
    if (status != KVT_OK || kvt_msgpack_is_str(&reader))
        return read_failure(&reader, status, members, err);
    rows = kvt_msgpack_list(&reader, most, "an array of no more holders than there is room for");
    for (uint32_t i = 0; i < rows && reader.code == KVT_OK; i++) {
        struct wire_query_holder *holder = &holders[i];
        const uint32_t inner =
            kvt_msgpack_array(&reader, HOLDER_MEMBERS, "a holder: [name, dp_rank, tier, blocks]");

        kvt_msgpack_str(&reader, holder->name, sizeof(holder->name),
                        "a holder name of at most 63 bytes");
        holder->dp_rank = kvt_msgpack_u32(&reader, "a dp_rank");
        offset = reader.at;
        holder->tier = (enum kvt_tier)kvt_msgpack_uint(&reader, KVT_TIER_G4, "a tier from 1 to 4");
        if (holder->tier < KVT_TIER_G1)
            kvt_msgpack_fail(&reader, offset, KVT_INVALID, "a tier from 1 to 4");
        holder->blocks = kvt_msgpack_u32(&reader, "a number of blocks");
        holder->uncertain =
            inner > HOLDER_MEMBERS && kvt_msgpack_uint(&reader, 1, "0 or 1: uncertain") == 1;
        kvt_msgpack_rest(&reader, inner, HOLDER_MEMBERS + 1);
    }
    rc = kvt_msgpack_close(&reader, members, 3, "answer", err);
    if (rc == KVT_OK)
        *count = rows;
    return rc;
}

enum kvt_err
wire_query_encode_masks(const uint8_t *masks, size_t count, bool loading, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    if (count > WIRE_QUERY_HASHES_MAX)
        return KVT_RANGE;
    put_answer(&writer, out, loading);
    kvt_msgpack_put_bin(&writer, masks, count);
    if (loading)
        kvt_msgpack_put_uint(&writer, 1);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode_masks(const void *bytes, size_t size, uint8_t *masks, size_t capacity,
                        size_t *count, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    const void *found;
    enum kvt_err status;
    uint32_t members;
    size_t length;
    size_t offset;
    enum kvt_err rc;

    *count = 0;
    if (size > WIRE_QUERY_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_QUERY_MAX, err);
    members =
        kvt_msgpack_message(&reader, bytes, size, ANSWER_MEMBERS, "an answer: [1, status, masks]");
    status = read_status(&reader);
    if (status != KVT_OK || kvt_msgpack_is_str(&reader))
        return read_failure(&reader, status, members, err);
    offset = reader.at;
    found = kvt_msgpack_bin(&reader, &length, "one byte a block");
    if (length > capacity)
        kvt_msgpack_fail(&reader, offset, KVT_RANGE, "no more masks than there is room for");
    rc = kvt_msgpack_close(&reader, members, 3, "answer", err);
    if (rc == KVT_OK && length > 0) {
        memcpy(masks, found, length);
        *count = length;
    }
    return rc;
}

bool
wire_query_loading(const void *bytes, size_t size)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    bool loading;

    if (size > WIRE_QUERY_MAX)
        return false;
    members =
        kvt_msgpack_message(&reader, bytes, size, ANSWER_MEMBERS, "an answer: [1, status, rows]");
    if (members <= ANSWER_MEMBERS || read_status(&reader) != KVT_OK)
        return false;
    kvt_msgpack_rest(&reader, ANSWER_MEMBERS, ANSWER_MEMBERS - 1);
    loading = kvt_msgpack_uint(&reader, 1, "0 or 1: loading") == 1;
    return reader.code == KVT_OK && loading;
}

enum kvt_err
wire_query_encode_dump(const struct wire_query_dump *dump, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_put_message(&writer, out, WIRE_QUERY_MAX, 3);
    kvt_msgpack_put_uint(&writer, dump->cursor);
    kvt_msgpack_put_uint(&writer, dump->limit);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode_dump(const void *bytes, size_t size, struct wire_query_dump *dump,
                       struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;

    members = kvt_msgpack_message(&reader, bytes, size, 3, "a question: [1, cursor, limit]");
    dump->cursor = kvt_msgpack_u64(&reader, "a cursor");
    dump->limit = kvt_msgpack_u32(&reader, "a limit");
    return kvt_msgpack_close(&reader, members, 3, "question", err);
}

enum kvt_err
wire_query_encode_range(const struct wire_query_range *range, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_put_message(&writer, out, WIRE_QUERY_MAX, 4);
    kvt_msgpack_put_uint(&writer, range->incarnation);
    kvt_msgpack_put_uint(&writer, range->from);
    kvt_msgpack_put_uint(&writer, range->to);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode_range(const void *bytes, size_t size, struct wire_query_range *range,
                        struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;

    members =
        kvt_msgpack_message(&reader, bytes, size, 4, "a question: [1, incarnation, from, to]");
    range->incarnation = kvt_msgpack_u64(&reader, "an incarnation");
    range->from = kvt_msgpack_u64(&reader, "a first sequence");
    range->to = kvt_msgpack_u64(&reader, "a last sequence");
    return kvt_msgpack_close(&reader, members, 4, "question", err);
}

enum kvt_err
wire_query_encode_page(enum kvt_err status, uint64_t next_cursor, const void *batch,
                       size_t batch_size, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_put_message(&writer, out, WIRE_QUERY_MAX, 4);
    kvt_msgpack_put_uint(&writer, (uint64_t)status);
    kvt_msgpack_put_uint(&writer, next_cursor);
    kvt_msgpack_put_bin(&writer, batch, batch_size);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_query_decode_page(const void *bytes, size_t size, enum kvt_err *status, uint64_t *next_cursor,
                       const void **batch, size_t *batch_size, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    enum kvt_err rc;

    *status = KVT_INVALID;
    *next_cursor = 0;
    *batch = NULL;
    *batch_size = 0;
    if (size > WIRE_QUERY_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_QUERY_MAX, err);
    members =
        kvt_msgpack_message(&reader, bytes, size, 3, "a page: [1, status, next_cursor, batch]");
    *status = read_status(&reader);
    if (kvt_msgpack_is_str(&reader)) {
        /* The message is well formed, so the call succeeds; `err` carries the peer's words. */
        rc = read_failure(&reader, *status, members, err);
        return rc == *status ? KVT_OK : rc;
    }
    *next_cursor = kvt_msgpack_u64(&reader, "a cursor");
    *batch = kvt_msgpack_bin(&reader, batch_size, "an event batch");
    rc = kvt_msgpack_close(&reader, members, 4, "page", err);
    if (rc != KVT_OK) {
        *batch = NULL;
        *batch_size = 0;
    }
    return rc;
}
