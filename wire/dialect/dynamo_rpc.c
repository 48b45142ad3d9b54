#include "wire/dialect/dynamo_rpc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json_pull.h"
#include "wire/dialect/dynamo.h"
#include "wire/dialect/msgpack_cursor.h"

enum {
    NUMBER = 8,
    FRAME_HEAD = 3 * NUMBER, /* header length, body length, checksum */
    LENGTH16 = 2,
    LENGTH32 = 4,
    INFO_MAX = 4096, /* bytes of a connection's particulars, JSON within JSON */
};

#define TRANSPORT "tcp_server"
#define WRAP_DATA                                                                                  \
    "\x82\xa4"                                                                                     \
    "data"
#define WRAP_LAST                                                                                  \
    "\xae"                                                                                         \
    "complete_final"
#define WRAP_FINAL "\x81" WRAP_LAST "\xc3"

/* ---- numbers and limits ---- */

static uint64_t
read_be(const uint8_t *bytes, size_t width)
{
    uint64_t value = 0;

    for (size_t i = 0; i < width; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void
put_be(struct kvt_buffer *out, uint64_t value, size_t width)
{
    uint8_t bytes[NUMBER];

    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    kvt_buffer_append(out, bytes, width);
}

/* The verdict on `needed` bytes that were to be added behind `before`, which go when they do not
 * all fit. */
static enum kvt_err
finish(struct kvt_buffer *out, size_t before, size_t needed)
{
    if (kvt_buffer_ok(out))
        return KVT_OK;
    if (out->size > before)
        out->size = before;
    return out->limit - before < needed ? KVT_RANGE : KVT_NOMEM;
}

static bool
name_fits(const char *name)
{
    return strlen(name) < WIRE_DYNAMO_RPC_NAME_MAX;
}

static bool
request_fits(const struct wire_dynamo_rpc_request *request)
{
    return name_fits(request->id) && name_fits(request->address) && name_fits(request->subject) &&
           request->body_size <= WIRE_DYNAMO_RPC_BODY_MAX;
}

static void
put_frame(struct kvt_buffer *out, const struct kvt_buffer *header, const void *body,
          size_t body_size)
{
    put_be(out, header->size, NUMBER);
    put_be(out, body_size, NUMBER);
    put_be(out, 0, NUMBER);
    kvt_buffer_append(out, header->data, header->size);
    kvt_buffer_append(out, body, body_size);
    if (!kvt_buffer_ok(header))
        out->failed = true;
}

/* ---- the question, written ---- */

/* What is asked in which way, and where the answer is to go; the latter is JSON in a string. */
static void
put_control(struct kvt_buffer *header, const struct wire_dynamo_rpc_request *request)
{
    struct kvt_buffer info;

    kvt_buffer_init(&info, INFO_MAX);
    kvt_buffer_printf(&info, "{\"address\":");
    kvt_buffer_json_string(&info, request->address);
    kvt_buffer_printf(&info, ",\"subject\":");
    kvt_buffer_json_string(&info, request->subject);
    kvt_buffer_printf(&info, ",\"context\":");
    kvt_buffer_json_string(&info, request->id);
    kvt_buffer_printf(&info, ",\"stream_type\":\"response\"}");

    kvt_buffer_printf(header, "{\"id\":");
    kvt_buffer_json_string(header, request->id);
    kvt_buffer_printf(header,
                      ",\"request_type\":\"single_in\",\"response_type\":\"many_out\","
                      "\"payload_codec\":\"%s\",\"connection_info\":{\"transport\":\"%s\","
                      "\"info\":",
                      request->json ? "json" : "msgpack", TRANSPORT);
    kvt_buffer_json_string(header, kvt_buffer_text(&info));
    kvt_buffer_printf(header, "}");
    if (request->time_ns > 0)
        kvt_buffer_printf(header, ",\"frontend_send_ts_ns\":%" PRIu64, request->time_ns);
    kvt_buffer_printf(header, "}");
    if (!kvt_buffer_ok(&info))
        header->failed = true;
    kvt_buffer_release(&info);
}

enum kvt_err
wire_dynamo_rpc_put_question(struct kvt_buffer *out, const struct wire_dynamo_rpc_request *request)
{
    const size_t before = out->size;
    struct kvt_buffer header;
    enum kvt_err rc;

    if (!request_fits(request))
        return KVT_RANGE;
    kvt_buffer_init(&header, WIRE_DYNAMO_RPC_HEADER_MAX);
    put_control(&header, request);
    put_frame(out, &header, request->body, request->body_size);
    rc = finish(out, before, FRAME_HEAD + header.size + request->body_size);
    kvt_buffer_release(&header);
    return rc;
}

enum kvt_err
wire_dynamo_rpc_put_request(struct kvt_buffer *out, const struct wire_dynamo_rpc_request *request)
{
    const size_t before = out->size;
    const size_t path_size = strlen(request->path);
    struct kvt_buffer headers;
    struct kvt_buffer control;
    enum kvt_err rc;

    if (!request_fits(request) || path_size > WIRE_DYNAMO_RPC_PATH_MAX)
        return KVT_RANGE;
    kvt_buffer_init(&headers, WIRE_DYNAMO_RPC_HEADER_MAX);
    kvt_buffer_init(&control, WIRE_DYNAMO_RPC_HEADER_MAX);
    kvt_buffer_printf(&headers, "{\"request-id\":");
    kvt_buffer_json_string(&headers, request->id);
    if (request->time_ns > 0)
        kvt_buffer_printf(&headers, ",\"x-frontend-send-ts-ns\":\"%" PRIu64 "\"", request->time_ns);
    kvt_buffer_printf(&headers, "}");
    put_control(&control, request);

    put_be(out, path_size, LENGTH16);
    kvt_buffer_append(out, request->path, path_size);
    put_be(out, headers.size, LENGTH16);
    kvt_buffer_append(out, headers.data, headers.size);
    put_be(out, FRAME_HEAD + control.size + request->body_size, LENGTH32);
    put_frame(out, &control, request->body, request->body_size);
    if (!kvt_buffer_ok(&headers))
        out->failed = true;
    rc = finish(out, before,
                2 * LENGTH16 + LENGTH32 + path_size + headers.size + FRAME_HEAD + control.size +
                    request->body_size);
    kvt_buffer_release(&headers);
    kvt_buffer_release(&control);
    return rc;
}

/* ---- the question, read ---- */

/* A piece of `*size` bytes at `*at`, behind its length of `width` bytes. */
static enum kvt_err
read_piece(const uint8_t *bytes, size_t size, size_t *at, size_t width, uint64_t most,
           const uint8_t **piece, size_t *piece_size)
{
    uint64_t length;

    *piece = NULL;
    *piece_size = 0;
    if (size - *at < width)
        return KVT_AGAIN;
    length = read_be(bytes + *at, width);
    if (length > most)
        return KVT_RANGE;
    if (size - *at - width < length)
        return KVT_AGAIN;
    *piece = bytes + *at + width;
    *piece_size = length;
    *at += width + length;
    return KVT_OK;
}

/* Header and body of a frame that should fill `size` bytes from `bytes` on at least. */
static enum kvt_err
read_two_parts(const uint8_t *bytes, size_t size, size_t *used, const uint8_t **header,
               size_t *header_size, const uint8_t **body, size_t *body_size, struct kvt_error *err)
{
    uint64_t header_length;
    uint64_t body_length;

    *used = 0;
    if (size < FRAME_HEAD)
        return KVT_AGAIN;
    header_length = read_be(bytes, NUMBER);
    body_length = read_be(bytes + NUMBER, NUMBER);
    if (header_length > WIRE_DYNAMO_RPC_HEADER_MAX || body_length > WIRE_DYNAMO_RPC_BODY_MAX)
        return kvt_error_set(
            err, KVT_RANGE,
            "dynamo frame: header of %" PRIu64 " and body of %" PRIu64 " bytes, at most %u and %u",
            header_length, body_length, WIRE_DYNAMO_RPC_HEADER_MAX, WIRE_DYNAMO_RPC_BODY_MAX);
    *used = FRAME_HEAD + (size_t)header_length + (size_t)body_length;
    if (size < *used)
        return KVT_AGAIN;
    *header = bytes + FRAME_HEAD;
    *header_size = (size_t)header_length;
    *body = *header + header_length;
    *body_size = (size_t)body_length;
    return KVT_OK;
}

static bool
copy_string(struct kvt_json_pull *pull, char *out, size_t capacity)
{
    struct kvt_json_slice slice;

    out[0] = '\0';
    return kvt_json_pull_string(pull, &slice) && kvt_json_slice_copy(&slice, out, capacity, NULL);
}

/* {"address", "subject", "context", "stream_type"}: the text of a string. */
static bool
read_info(const char *text, struct wire_dynamo_rpc_question *question)
{
    struct kvt_json_slice key;
    struct kvt_json_pull pull;
    bool has_address = false;
    bool has_subject = false;

    kvt_json_pull_init(&pull, text, strlen(text));
    if (!kvt_json_pull_object(&pull))
        return false;
    while (kvt_json_pull_member(&pull, &key)) {
        if (kvt_json_slice_is(&key, "address"))
            has_address = copy_string(&pull, question->address, sizeof(question->address));
        else if (kvt_json_slice_is(&key, "subject"))
            has_subject = copy_string(&pull, question->subject, sizeof(question->subject));
        else
            kvt_json_pull_skip(&pull);
    }
    return kvt_json_pull_end(&pull, "connection", NULL) == KVT_OK && has_address && has_subject;
}

static bool
read_connection(struct kvt_json_pull *pull, struct wire_dynamo_rpc_question *question)
{
    struct kvt_json_slice key;
    char info[INFO_MAX];
    bool found = false;

    if (!kvt_json_pull_object(pull))
        return false;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "info"))
            found = copy_string(pull, info, sizeof(info)) && read_info(info, question);
        else
            kvt_json_pull_skip(pull);
    }
    return found;
}

static enum kvt_err
read_control(const uint8_t *header, size_t size, struct wire_dynamo_rpc_question *question,
             struct kvt_error *err)
{
    struct kvt_json_slice key;
    struct kvt_json_pull pull;
    char codec[16];
    bool has_id = false;
    bool has_connection = false;
    enum kvt_err rc;

    /* What says nothing is of a release that knew nothing else. */
    question->json = true;
    kvt_json_pull_init(&pull, (const char *)header, size);
    if (kvt_json_pull_object(&pull)) {
        while (kvt_json_pull_member(&pull, &key)) {
            if (kvt_json_slice_is(&key, "id"))
                has_id = copy_string(&pull, question->id, sizeof(question->id));
            else if (kvt_json_slice_is(&key, "payload_codec"))
                question->json =
                    !copy_string(&pull, codec, sizeof(codec)) || strcmp(codec, "msgpack") != 0;
            else if (kvt_json_slice_is(&key, "connection_info"))
                has_connection = read_connection(&pull, question);
            else
                kvt_json_pull_skip(&pull);
        }
    }
    rc = kvt_json_pull_end(&pull, "dynamo request", err);
    if (rc == KVT_OK && (!has_id || !has_connection))
        rc = kvt_error_set(err, KVT_INVALID, "dynamo request: without id or connection_info");
    return rc;
}

enum kvt_err
wire_dynamo_rpc_read_request(const void *bytes, size_t size, size_t *used,
                             struct wire_dynamo_rpc_question *question, struct kvt_error *err)
{
    const uint8_t *path = NULL;
    const uint8_t *headers = NULL;
    const uint8_t *frame = NULL;
    const uint8_t *control = NULL;
    const uint8_t *body = NULL;
    size_t path_size, headers_size, frame_size, control_size, body_size, frame_used;
    size_t at = 0;
    enum kvt_err rc;

    *used = 0;
    *question = (struct wire_dynamo_rpc_question){.json = false};
    rc = read_piece(bytes, size, &at, LENGTH16, WIRE_DYNAMO_RPC_PATH_MAX, &path, &path_size);
    if (rc == KVT_OK)
        rc = read_piece(bytes, size, &at, LENGTH16, WIRE_DYNAMO_RPC_HEADER_MAX, &headers,
                        &headers_size);
    if (rc == KVT_OK)
        rc = read_piece(bytes, size, &at, LENGTH32,
                        FRAME_HEAD + WIRE_DYNAMO_RPC_HEADER_MAX + WIRE_DYNAMO_RPC_BODY_MAX, &frame,
                        &frame_size);
    if (rc == KVT_RANGE)
        return kvt_error_set(err, rc, "dynamo request: path, headers or frame are too long");
    if (rc != KVT_OK)
        return rc;
    rc = read_two_parts(frame, frame_size, &frame_used, &control, &control_size, &body, &body_size,
                        err);
    if (rc == KVT_AGAIN || (rc == KVT_OK && frame_used != frame_size))
        return kvt_error_set(err, KVT_INVALID, "dynamo request: its frame is not of its length");
    if (rc == KVT_OK)
        rc = read_control(control, control_size, question, err);
    if (rc != KVT_OK) {
        *question = (struct wire_dynamo_rpc_question){.json = false};
        return rc;
    }
    question->path = (const char *)path;
    question->path_size = path_size;
    question->body = body;
    question->body_size = body_size;
    *used = at;
    return KVT_OK;
}

/* ---- the acknowledgement ---- */

enum kvt_err
wire_dynamo_rpc_put_ack(struct kvt_buffer *out, const char *text)
{
    const size_t before = out->size;
    const size_t size = strlen(text);

    if (size > WIRE_DYNAMO_RPC_ACK_MAX)
        return KVT_RANGE;
    put_be(out, size, LENGTH32);
    kvt_buffer_append(out, text, size);
    return finish(out, before, LENGTH32 + size);
}

enum kvt_err
wire_dynamo_rpc_read_ack(const void *bytes, size_t size, size_t *used, const char **text,
                         size_t *text_size, struct kvt_error *err)
{
    const uint8_t *piece;
    size_t at = 0;
    enum kvt_err rc =
        read_piece(bytes, size, &at, LENGTH32, WIRE_DYNAMO_RPC_ACK_MAX, &piece, text_size);

    *text = rc == KVT_OK ? (const char *)piece : "";
    *used = rc == KVT_OK ? at : 0;
    if (rc == KVT_RANGE)
        return kvt_error_set(err, rc, "dynamo acknowledgement: more than %u bytes",
                             WIRE_DYNAMO_RPC_ACK_MAX);
    return rc;
}

/* ---- the answer's stream ---- */

/* The text of an error, whatever it looks like, cut to fit. */
static void
read_error(struct kvt_json_pull *pull, struct wire_dynamo_rpc_frame *frame)
{
    const size_t start = pull->at;
    struct kvt_json_slice slice;

    frame->failed = !kvt_json_pull_null(pull);
    if (!frame->failed)
        return;
    if (kvt_json_pull_peek(pull) == KVT_JSON_STRING && kvt_json_pull_string(pull, &slice)) {
        (void)snprintf(frame->text, sizeof(frame->text), "%.*s",
                       (int)(slice.size < sizeof(frame->text) ? slice.size : sizeof(frame->text)),
                       slice.bytes);
        return;
    }
    kvt_json_pull_skip(pull);
    if (pull->code == KVT_OK)
        (void)snprintf(
            frame->text, sizeof(frame->text), "%.*s",
            (int)(pull->at - start < sizeof(frame->text) ? pull->at - start : sizeof(frame->text)),
            pull->text + start);
}

static enum kvt_err
read_header(const uint8_t *header, size_t size, struct wire_dynamo_rpc_frame *frame,
            struct kvt_error *err)
{
    struct kvt_json_slice key;
    struct kvt_json_pull pull;

    kvt_json_pull_init(&pull, (const char *)header, size);
    if (kvt_json_pull_peek(&pull) == KVT_JSON_STRING) {
        if (kvt_json_pull_string(&pull, &key) && kvt_json_slice_is(&key, "sentinel"))
            frame->kind = WIRE_DYNAMO_RPC_END;
    } else if (kvt_json_pull_object(&pull)) {
        while (kvt_json_pull_member(&pull, &key)) {
            if (kvt_json_slice_is(&key, "subject")) {
                if (copy_string(&pull, frame->subject, sizeof(frame->subject)))
                    frame->kind = WIRE_DYNAMO_RPC_HANDSHAKE;
            } else if (kvt_json_slice_is(&key, "error")) {
                frame->kind = WIRE_DYNAMO_RPC_PROLOGUE;
                read_error(&pull, frame);
            } else {
                kvt_json_pull_skip(&pull);
            }
        }
    }
    return kvt_json_pull_end(&pull, "dynamo frame's header", err);
}

static enum kvt_err
read_pack_body(const uint8_t *body, size_t size, struct wire_dynamo_rpc_frame *frame,
               struct kvt_error *err)
{
    struct wire_cursor pack;
    uint32_t members;
    bool final = false;

    wire_cursor_init(&pack, body, size);
    (void)wire_cursor_map(&pack, &members);
    for (uint32_t i = 0; i < members && pack.code == KVT_OK; i++) {
        const struct wire_cursor_text key = wire_cursor_key(&pack);

        if (WIRE_CURSOR_IS(key, "data")) {
            frame->body = pack.at;
            wire_cursor_skip(&pack);
            frame->body_size = (size_t)(pack.at - (const uint8_t *)frame->body);
        } else if (WIRE_CURSOR_IS(key, "complete_final")) {
            final = wire_cursor_left(&pack) > 0 && *pack.at == 0xc3;
            wire_cursor_skip(&pack);
        } else {
            wire_cursor_skip(&pack);
        }
    }
    if (frame->body == NULL && final)
        frame->kind = WIRE_DYNAMO_RPC_FINAL;
    return wire_cursor_end(&pack, "dynamo frame's body", err);
}

static enum kvt_err
read_json_body(const uint8_t *body, size_t size, struct wire_dynamo_rpc_frame *frame,
               struct kvt_error *err)
{
    struct kvt_json_slice key;
    struct kvt_json_pull pull;
    bool final = false;

    kvt_json_pull_init(&pull, (const char *)body, size);
    if (kvt_json_pull_object(&pull)) {
        while (kvt_json_pull_member(&pull, &key)) {
            if (kvt_json_slice_is(&key, "data")) {
                /* The value begins where the blanks end. */
                (void)kvt_json_pull_peek(&pull);
                frame->body = body + pull.at;
                kvt_json_pull_skip(&pull);
                frame->body_size = (size_t)(body + pull.at - (const uint8_t *)frame->body);
            } else if (kvt_json_slice_is(&key, "complete_final")) {
                (void)kvt_json_pull_bool(&pull, &final);
            } else {
                kvt_json_pull_skip(&pull);
            }
        }
    }
    if (frame->body == NULL && final)
        frame->kind = WIRE_DYNAMO_RPC_FINAL;
    return kvt_json_pull_end(&pull, "dynamo frame's body", err);
}

/* {"data": value, "complete_final": false} or {"complete_final": true}; a body of a release without
 * that wrapper is the value itself. */
static enum kvt_err
read_body(const uint8_t *body, size_t size, struct wire_dynamo_rpc_frame *frame,
          struct kvt_error *err)
{
    enum kvt_err rc;

    frame->kind = WIRE_DYNAMO_RPC_DATA;
    rc = wire_dynamo_is_json(body, size) ? read_json_body(body, size, frame, err)
                                         : read_pack_body(body, size, frame, err);
    if (rc == KVT_OK && frame->kind == WIRE_DYNAMO_RPC_DATA && frame->body == NULL) {
        frame->body = body;
        frame->body_size = size;
    }
    return rc;
}

enum kvt_err
wire_dynamo_rpc_read_frame(const void *bytes, size_t size, size_t *used,
                           struct wire_dynamo_rpc_frame *frame, struct kvt_error *err)
{
    const uint8_t *header = NULL;
    const uint8_t *body = NULL;
    size_t header_size = 0;
    size_t body_size = 0;
    enum kvt_err rc;

    *frame = (struct wire_dynamo_rpc_frame){.kind = WIRE_DYNAMO_RPC_OTHER};
    rc = read_two_parts(bytes, size, used, &header, &header_size, &body, &body_size, err);
    if (rc != KVT_OK)
        return rc;
    if (header_size > 0)
        rc = read_header(header, header_size, frame, err);
    if (rc == KVT_OK && body_size > 0)
        rc = read_body(body, body_size, frame, err);
    if (rc != KVT_OK)
        *frame = (struct wire_dynamo_rpc_frame){.kind = WIRE_DYNAMO_RPC_OTHER};
    return rc;
}

static void
put_header(struct kvt_buffer *header, const struct wire_dynamo_rpc_frame *frame)
{
    switch (frame->kind) {
    case WIRE_DYNAMO_RPC_HANDSHAKE:
        kvt_buffer_printf(header, "{\"subject\":");
        kvt_buffer_json_string(header, frame->subject);
        kvt_buffer_printf(header, ",\"stream_type\":\"response\"}");
        break;
    case WIRE_DYNAMO_RPC_PROLOGUE:
        kvt_buffer_printf(header, "{\"error\":");
        if (frame->failed)
            kvt_buffer_json_string(header, frame->text);
        else
            kvt_buffer_printf(header, "null");
        kvt_buffer_printf(header, "}");
        break;
    case WIRE_DYNAMO_RPC_END: kvt_buffer_printf(header, "\"sentinel\""); break;
    case WIRE_DYNAMO_RPC_DATA:
    case WIRE_DYNAMO_RPC_FINAL:
    case WIRE_DYNAMO_RPC_OTHER: break;
    }
}

static void
put_body(struct kvt_buffer *body, const struct wire_dynamo_rpc_frame *frame, bool json)
{
    if (frame->kind == WIRE_DYNAMO_RPC_FINAL) {
        if (json)
            kvt_buffer_printf(body, "{\"complete_final\":true}");
        else
            kvt_buffer_append(body, WRAP_FINAL, sizeof(WRAP_FINAL) - 1);
    } else if (frame->kind == WIRE_DYNAMO_RPC_DATA && json) {
        kvt_buffer_printf(body, "{\"data\":");
        kvt_buffer_append(body, frame->body, frame->body_size);
        kvt_buffer_printf(body, ",\"complete_final\":false}");
    } else if (frame->kind == WIRE_DYNAMO_RPC_DATA) {
        kvt_buffer_append(body, WRAP_DATA, sizeof(WRAP_DATA) - 1);
        kvt_buffer_append(body, frame->body, frame->body_size);
        kvt_buffer_append(body, WRAP_LAST "\xc2", sizeof(WRAP_LAST));
    }
}

enum kvt_err
wire_dynamo_rpc_put_frame(struct kvt_buffer *out, const struct wire_dynamo_rpc_frame *frame,
                          bool json)
{
    const size_t before = out->size;
    struct kvt_buffer header;
    struct kvt_buffer body;
    enum kvt_err rc;

    if (frame->kind == WIRE_DYNAMO_RPC_OTHER)
        return KVT_INVALID;
    kvt_buffer_init(&header, WIRE_DYNAMO_RPC_HEADER_MAX);
    kvt_buffer_init(&body, WIRE_DYNAMO_RPC_BODY_MAX);
    put_header(&header, frame);
    put_body(&body, frame, json);
    put_frame(out, &header, body.data, body.size);
    if (!kvt_buffer_ok(&body))
        out->failed = true;
    rc = finish(out, before, FRAME_HEAD + header.size + body.size);
    if (rc != KVT_OK && frame->body_size >= WIRE_DYNAMO_RPC_BODY_MAX)
        rc = KVT_RANGE;
    kvt_buffer_release(&header);
    kvt_buffer_release(&body);
    return rc;
}
