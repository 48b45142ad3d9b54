/*
 * What is tested: wire/dialect/dynamo_rpc.h, both directions.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "wire/dialect/dynamo_rpc.h"

#include "tests/support/seed.h"

static const struct wire_dynamo_rpc_request request = {
    .path = "694d/worker_kv_query_source_18",
    .id = "ask-1",
    .address = "10.0.0.1:4711",
    .subject = "answer \"1\"",
    .time_ns = 5,
    .body = "\x81\xa1x\x01",
    .body_size = 4,
};

static void
append(struct kvt_buffer *out, const char *text)
{
    kvt_buffer_append(out, text, strlen(text));
}

/* A frame as the documentation draws it. */
static void
append_frame(struct kvt_buffer *out, const char *header, const char *body, size_t body_size)
{
    uint8_t head[24] = {0};

    head[6] = (uint8_t)(strlen(header) >> 8);
    head[7] = (uint8_t)strlen(header);
    head[14] = (uint8_t)(body_size >> 8);
    head[15] = (uint8_t)body_size;
    kvt_buffer_append(out, head, sizeof(head));
    append(out, header);
    kvt_buffer_append(out, body, body_size);
}

static void
requests_are_written_as_drawn(void **state)
{
    static const char control[] =
        "{\"id\":\"ask-1\",\"request_type\":\"single_in\",\"response_type\":\"many_out\","
        "\"payload_codec\":\"msgpack\",\"connection_info\":{\"transport\":\"tcp_server\","
        "\"info\":\"{\\\"address\\\":\\\"10.0.0.1:4711\\\",\\\"subject\\\":\\\"answer "
        "\\\\\\\"1\\\\\\\"\\\",\\\"context\\\":\\\"ask-1\\\",\\\"stream_type\\\":\\\"response\\\"}"
        "\"}"
        ",\"frontend_send_ts_ns\":5}";
    static const char headers[] = "{\"request-id\":\"ask-1\",\"x-frontend-send-ts-ns\":\"5\"}";
    const size_t frame_size = 24 + sizeof(control) - 1 + 4;
    struct kvt_buffer wanted;
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&wanted, 4096);
    kvt_buffer_init(&out, 1 << 20);
    append_frame(&wanted, control, request.body, 4);
    assert_int_equal(wire_dynamo_rpc_put_question(&out, &request), KVT_OK);
    assert_int_equal(out.size, wanted.size);
    assert_memory_equal(out.data, wanted.data, out.size);

    kvt_buffer_clear(&wanted);
    kvt_buffer_clear(&out);
    kvt_buffer_append(&wanted, (uint8_t[]){0, (uint8_t)strlen(request.path)}, 2);
    append(&wanted, request.path);
    kvt_buffer_append(&wanted, (uint8_t[]){0, (uint8_t)strlen(headers)}, 2);
    append(&wanted, headers);
    kvt_buffer_append(&wanted, (uint8_t[]){0, 0, (uint8_t)(frame_size >> 8), (uint8_t)frame_size},
                      4);
    append_frame(&wanted, control, request.body, 4);
    assert_int_equal(wire_dynamo_rpc_put_request(&out, &request), KVT_OK);
    assert_int_equal(out.size, wanted.size);
    assert_memory_equal(out.data, wanted.data, out.size);
    kvt_buffer_release(&wanted);
    kvt_buffer_release(&out);
}

static void
requests_are_read_again(void **state)
{
    (void)state;
    for (int json = 0; json < 2; json++) {
        struct wire_dynamo_rpc_request asked = request;
        struct wire_dynamo_rpc_question question;
        struct kvt_buffer out;
        struct kvt_error err;
        size_t used;

        asked.json = json;
        asked.time_ns = 0;
        kvt_buffer_init(&out, 1 << 20);
        assert_int_equal(wire_dynamo_rpc_put_request(&out, &asked), KVT_OK);
        for (size_t size = 0; size < out.size; size++) {
            uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);

            assert_non_null(copy);
            memcpy(copy, out.data, size);
            assert_int_equal(wire_dynamo_rpc_read_request(copy, size, &used, &question, &err),
                             KVT_AGAIN);
            kvt_free(copy);
        }
        append(&out, "behind");
        assert_int_equal(wire_dynamo_rpc_read_request(out.data, out.size, &used, &question, &err),
                         KVT_OK);
        assert_int_equal(used, out.size - 6);
        assert_int_equal(question.path_size, strlen(request.path));
        assert_memory_equal(question.path, request.path, question.path_size);
        assert_string_equal(question.id, request.id);
        assert_string_equal(question.address, request.address);
        assert_string_equal(question.subject, request.subject);
        assert_int_equal(question.json, json);
        assert_int_equal(question.body_size, 4);
        assert_memory_equal(question.body, request.body, 4);
        kvt_buffer_release(&out);
    }
}

/* A request whose frame has this control header. */
static enum kvt_err
read_control(const char *control, size_t lie)
{
    const size_t frame_size = 24 + strlen(control) + lie;
    struct wire_dynamo_rpc_question question;
    struct kvt_buffer out;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;
    size_t used;

    kvt_buffer_init(&out, 4096);
    kvt_buffer_append(&out,
                      (uint8_t[]){0, 1, 'p', 0, 2, '{', '}', 0, 0, (uint8_t)(frame_size >> 8),
                                  (uint8_t)frame_size},
                      11);
    append_frame(&out, control, "", 0);
    kvt_buffer_append(&out, "xxxx", lie);
    rc = wire_dynamo_rpc_read_request(out.data, out.size, &used, &question, &err);
    kvt_buffer_release(&out);
    assert_true(rc == KVT_OK || (err.text[0] != '\0' && question.path == NULL));
    return rc;
}

static void
requests_that_are_none(void **state)
{
#define INFO                                                                                       \
    "\"connection_info\":{\"info\":\"{\\\"address\\\":\\\"a\\\",\\\"subject\\\":\\\"s\\\"}\"}"
    (void)state;
    assert_int_equal(read_control("{\"id\":\"1\"," INFO "}", 0), KVT_OK);
    assert_int_equal(read_control("{\"id\":\"1\"," INFO "}", 2), KVT_INVALID);
    assert_int_equal(read_control("{" INFO "}", 0), KVT_INVALID);
    assert_int_equal(read_control("{\"id\":\"1\"}", 0), KVT_INVALID);
    assert_int_equal(read_control("{\"id\":\"1\",\"connection_info\":7}", 0), KVT_INVALID);
    assert_int_equal(read_control("{\"id\":\"1\",\"connection_info\":{\"info\":\"[]\"}}", 0),
                     KVT_INVALID);
    assert_int_equal(read_control("{\"id\":", 0), KVT_INVALID);
#undef INFO
}

static void
texts_that_are_too_long(void **state)
{
    static char longest[WIRE_DYNAMO_RPC_PATH_MAX + 2];
    struct wire_dynamo_rpc_request asked = request;
    struct kvt_buffer out;

    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    kvt_buffer_init(&out, 1 << 20);
    asked.path = longest;
    assert_int_equal(wire_dynamo_rpc_put_request(&out, &asked), KVT_RANGE);
    asked.path = longest + 1;
    assert_int_equal(wire_dynamo_rpc_put_request(&out, &asked), KVT_OK);
    kvt_buffer_clear(&out);
    asked = request;
    asked.subject = longest;
    assert_int_equal(wire_dynamo_rpc_put_question(&out, &asked), KVT_RANGE);
    asked = request;
    asked.body_size = (size_t)WIRE_DYNAMO_RPC_BODY_MAX + 1;
    assert_int_equal(wire_dynamo_rpc_put_question(&out, &asked), KVT_RANGE);
    assert_int_equal(out.size, 0);
    kvt_buffer_release(&out);
    kvt_buffer_init(&out, 100);
    assert_int_equal(wire_dynamo_rpc_put_request(&out, &request), KVT_RANGE);
    assert_int_equal(out.size, 0);
    kvt_buffer_release(&out);
}

static bool
put_attempt(void *arg)
{
    struct kvt_buffer out;
    enum kvt_err rc;

    (void)arg;
    kvt_buffer_init(&out, 1 << 20);
    rc = wire_dynamo_rpc_put_request(&out, &request);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && out.size == 0));
    kvt_buffer_release(&out);
    return rc == KVT_OK;
}

static void
writing_survives_failing_allocations(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(put_attempt, NULL) > 3);
}

static void
acknowledgements(void **state)
{
    struct kvt_buffer out;
    struct kvt_error err;
    const char *text;
    size_t text_size;
    size_t used;

    (void)state;
    kvt_buffer_init(&out, 1 << 20);
    assert_int_equal(wire_dynamo_rpc_put_ack(&out, ""), KVT_OK);
    assert_int_equal(wire_dynamo_rpc_put_ack(&out, "no such endpoint"), KVT_OK);
    assert_int_equal(wire_dynamo_rpc_read_ack(out.data, out.size, &used, &text, &text_size, &err),
                     KVT_OK);
    assert_int_equal(used, 4);
    assert_int_equal(text_size, 0);
    for (size_t size = 0; size < out.size - 4; size++)
        assert_int_equal(
            wire_dynamo_rpc_read_ack(out.data + 4, size, &used, &text, &text_size, &err),
            KVT_AGAIN);
    assert_int_equal(
        wire_dynamo_rpc_read_ack(out.data + 4, out.size - 4, &used, &text, &text_size, &err),
        KVT_OK);
    assert_int_equal(text_size, 16);
    assert_memory_equal(text, "no such endpoint", 16);
    assert_int_equal(
        wire_dynamo_rpc_read_ack("\x00\x01\x00\x01", 4, &used, &text, &text_size, &err), KVT_RANGE);
    kvt_buffer_release(&out);
}

/* ---- frames ---- */

static const char data_body[] = "\x82\xa4"
                                "data\x81\xa5"
                                "Error\xa1x\xae"
                                "complete_final\xc2";
static const char final_body[] = "\x81\xae"
                                 "complete_final\xc3";
static const struct {
    const char *header;
    const char *body;
    enum wire_dynamo_rpc_kind kind;
    bool failed;
    const char *text; /* subject, reason, or the value */
} sent[] = {
    {"{\"subject\":\"s-1\",\"stream_type\":\"response\"}", "", WIRE_DYNAMO_RPC_HANDSHAKE, false,
     "s-1"},
    {"{\"error\":null}", "", WIRE_DYNAMO_RPC_PROLOGUE, false, ""},
    {"{\"error\":\"no engine\",\"typed_error\":{\"a\":1}}", "", WIRE_DYNAMO_RPC_PROLOGUE, true,
     "no engine"},
    {"{\"error\": {\"kind\":\"x\"}}", "", WIRE_DYNAMO_RPC_PROLOGUE, true, " {\"kind\":\"x\"}"},
    {"", data_body, WIRE_DYNAMO_RPC_DATA, false,
     "\x81\xa5"
     "Error\xa1x"},
    {"", "{\"data\": {\"Error\":\"x\"} ,\"complete_final\":false}", WIRE_DYNAMO_RPC_DATA, false,
     "{\"Error\":\"x\"}"},
    {"",
     "\x81\xa5"
     "Error\xa1x",
     WIRE_DYNAMO_RPC_DATA, false,
     "\x81\xa5"
     "Error\xa1x"},
    {"", final_body, WIRE_DYNAMO_RPC_FINAL, false, ""},
    {"", "{\"complete_final\":true}", WIRE_DYNAMO_RPC_FINAL, false, ""},
    {"\"sentinel\"", "", WIRE_DYNAMO_RPC_END, false, ""},
    {"\"stop\"", "", WIRE_DYNAMO_RPC_OTHER, false, ""},
    {"", "", WIRE_DYNAMO_RPC_OTHER, false, ""},
    {"{\"later\":1}", "", WIRE_DYNAMO_RPC_OTHER, false, ""},
};

static void
answers_as_a_worker_sends_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++) {
        struct wire_dynamo_rpc_frame frame;
        struct kvt_buffer out;
        struct kvt_error err;
        size_t used;

        kvt_buffer_init(&out, 4096);
        append_frame(&out, sent[i].header, sent[i].body, strlen(sent[i].body));
        for (size_t size = 0; size < out.size; size++) {
            uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);

            assert_non_null(copy);
            memcpy(copy, out.data, size);
            assert_int_equal(wire_dynamo_rpc_read_frame(copy, size, &used, &frame, &err),
                             KVT_AGAIN);
            assert_int_equal(used, size < 24 ? 0 : out.size);
            kvt_free(copy);
        }
        assert_int_equal(wire_dynamo_rpc_read_frame(out.data, out.size, &used, &frame, &err),
                         KVT_OK);
        assert_int_equal(used, out.size);
        assert_int_equal(frame.kind, sent[i].kind);
        assert_int_equal(frame.failed, sent[i].failed);
        if (frame.kind == WIRE_DYNAMO_RPC_HANDSHAKE)
            assert_string_equal(frame.subject, sent[i].text);
        if (frame.failed)
            assert_string_equal(frame.text, sent[i].text);
        if (frame.kind == WIRE_DYNAMO_RPC_DATA) {
            assert_int_equal(frame.body_size, strlen(sent[i].text));
            assert_memory_equal(frame.body, sent[i].text, frame.body_size);
        }
        kvt_buffer_release(&out);
    }
}

static void
frames_are_written_and_read_again(void **state)
{
    static const struct wire_dynamo_rpc_frame frames[] = {
        {.kind = WIRE_DYNAMO_RPC_HANDSHAKE, .subject = "s \"1\""},
        {.kind = WIRE_DYNAMO_RPC_PROLOGUE},
        {.kind = WIRE_DYNAMO_RPC_PROLOGUE, .failed = true, .text = "busy"},
        {.kind = WIRE_DYNAMO_RPC_DATA, .body = "7", .body_size = 1},
        {.kind = WIRE_DYNAMO_RPC_FINAL},
        {.kind = WIRE_DYNAMO_RPC_END},
    };
    struct wire_dynamo_rpc_frame other = {.kind = WIRE_DYNAMO_RPC_OTHER};
    struct wire_dynamo_rpc_frame frame;
    struct kvt_buffer out;
    struct kvt_error err;
    size_t used;

    (void)state;
    kvt_buffer_init(&out, 4096);
    for (int json = 0; json < 2; json++) {
        size_t at = 0;

        kvt_buffer_clear(&out);
        for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++)
            assert_int_equal(wire_dynamo_rpc_put_frame(&out, &frames[i], json), KVT_OK);
        for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++, at += used) {
            assert_int_equal(
                wire_dynamo_rpc_read_frame(out.data + at, out.size - at, &used, &frame, &err),
                KVT_OK);
            assert_int_equal(frame.kind, frames[i].kind);
            assert_int_equal(frame.failed, frames[i].failed);
            assert_string_equal(frame.subject, frames[i].subject);
            assert_string_equal(frame.text, frames[i].text);
            assert_int_equal(frame.body_size, frames[i].body_size);
            if (frame.body_size > 0)
                assert_memory_equal(frame.body, frames[i].body, frame.body_size);
        }
        assert_int_equal(at, out.size);
    }
    assert_int_equal(wire_dynamo_rpc_put_frame(&out, &other, false), KVT_INVALID);
    kvt_buffer_release(&out);
}

static void
lengths_are_bounded_before_they_are_waited_for(void **state)
{
    static const uint8_t header[24] = {0, 0, 0, 0, 0, 1, 0, 0};
    static const uint8_t body[24] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 1};
    static const uint8_t huge[24] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t path[] = {0x04, 0x01};
    struct wire_dynamo_rpc_question question;
    struct wire_dynamo_rpc_frame frame;
    struct kvt_error err;
    size_t used;

    (void)state;
    assert_int_equal(wire_dynamo_rpc_read_frame(header, 24, &used, &frame, &err), KVT_RANGE);
    assert_int_equal(wire_dynamo_rpc_read_frame(body, 24, &used, &frame, &err), KVT_RANGE);
    assert_int_equal(wire_dynamo_rpc_read_frame(huge, 24, &used, &frame, &err), KVT_RANGE);
    assert_int_equal(wire_dynamo_rpc_read_request(path, 2, &used, &question, &err), KVT_RANGE);
}

static void
broken_headers_and_bodies(void **state)
{
    static const struct {
        const char *header;
        const char *body;
    } rows[] = {{"{", ""}, {"7x", ""}, {"", "\x81"}, {"", "{\"data\":}"}, {"{\"error\":}", ""}};
    struct wire_dynamo_rpc_frame frame;
    struct kvt_buffer out;
    struct kvt_error err;
    size_t used;

    (void)state;
    kvt_buffer_init(&out, 4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        kvt_buffer_clear(&out);
        append_frame(&out, rows[i].header, rows[i].body, strlen(rows[i].body));
        assert_int_equal(wire_dynamo_rpc_read_frame(out.data, out.size, &used, &frame, &err),
                         KVT_INVALID);
        assert_int_equal(frame.kind, WIRE_DYNAMO_RPC_OTHER);
    }
    kvt_buffer_release(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_written_as_drawn),
        cmocka_unit_test(requests_are_read_again),
        cmocka_unit_test(requests_that_are_none),
        cmocka_unit_test(texts_that_are_too_long),
        cmocka_unit_test(writing_survives_failing_allocations),
        cmocka_unit_test(acknowledgements),
        cmocka_unit_test(answers_as_a_worker_sends_them),
        cmocka_unit_test(frames_are_written_and_read_again),
        cmocka_unit_test(lengths_are_bounded_before_they_are_waited_for),
        cmocka_unit_test(broken_headers_and_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
