/*
 * What is tested: wire/message/route.h.
 * How: known bytes that another packer made, every truncation of each, limits and words by hand.
 * Inputs lie in heap memory of exactly their size.  tests/fuzz/wire_route.c mutates them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "wire/message/query.h"
#include "wire/message/route.h"

#include "tests/support/seed.h"

enum { INPUT_MAX = 512, VALUES = 4, WORKERS = 2 };

static const char *const question_hex =
    "9c01a26e730192cfffffffffffffffff071028a57265712d31929200cb40000000000000009205cb3fe000000000"
    "000092a27731a2773201a46c6f7261a6706570706572";
static const char *const short_hex = "9401a26e73009107";
static const char *const answer_hex =
    "99010099a2773100940102000304cb4016000000000000cb4018000000000000cb4027000000000000cb3ff00000"
    "000000000002060201009299a2773100940102000304cb4016000000000000cb4018000000000000cb4027000000"
    "000000cb3ff00000000000000099a2773201940000000300cb4020000000000000cb4018000000000000cb402c00"
    "0000000000cb000000000000000001";
static const char *const add_hex = "980101a57265712d31a277310304149207cf8000000000000000";
/* Of a namespace: t/m. */
static const char *const space_hex = "990101a57265712d31a277310304149207cf8000000000000000a3742f6d";
static const char *const free_hex = "930103a57265712d31";
static const char *const done_hex = "93010001";

struct room {
    uint64_t values[VALUES];
    char workers[WORKERS][KVT_NAME_MAX];
    struct wire_route_question question;
    struct wire_route_answer answer;
    struct wire_route_step step;
    struct kvt_error err;
    bool changed;
};

static enum kvt_err
decode_question(struct room *room, const void *bytes, size_t size)
{
    room->question.values = room->values;
    room->question.workers = room->workers;
    return wire_route_decode_question(bytes, size, &room->question, VALUES, WORKERS, &room->err);
}

static enum kvt_err
decode_answer(struct room *room, const void *bytes, size_t size)
{
    wire_route_answer_release(&room->answer);
    return wire_route_decode_answer(bytes, size, &room->answer, &room->err);
}

static enum kvt_err
decode_step(struct room *room, const void *bytes, size_t size)
{
    room->step.hashes = room->values;
    return wire_route_decode_step(bytes, size, &room->step, VALUES, &room->err);
}

static enum kvt_err
decode_done(struct room *room, const void *bytes, size_t size)
{
    return wire_route_decode_done(bytes, size, &room->changed, &room->err);
}

static const struct {
    const char *hex;
    enum kvt_err (*decode)(struct room *room, const void *bytes, size_t size);
} codecs[] = {{question_hex, decode_question}, {short_hex, decode_question},
              {answer_hex, decode_answer},     {add_hex, decode_step},
              {free_hex, decode_step},         {done_hex, decode_done},
              {space_hex, decode_step}};

static size_t
from_hex(const char *hex, uint8_t *bytes)
{
    const size_t size = strlen(hex) / 2;
    char pair[3] = "";

    assert_true(size <= INPUT_MAX);
    for (size_t i = 0; i < size; i++) {
        memcpy(pair, hex + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static enum kvt_err
decode_hex(struct room *room, const char *hex,
           enum kvt_err (*decode)(struct room *room, const void *bytes, size_t size))
{
    uint8_t bytes[INPUT_MAX];

    return decode(room, bytes, from_hex(hex, bytes));
}

static void
assert_bytes(struct kvt_buffer *buffer, const char *hex)
{
    uint8_t bytes[INPUT_MAX];

    assert_int_equal(buffer->size, from_hex(hex, bytes));
    assert_memory_equal(buffer->data, bytes, buffer->size);
    kvt_buffer_clear(buffer);
}

static void
questions_have_these_bytes(void **state)
{
    struct room room = {.changed = false};
    const struct wire_route_question *question = &room.question;
    struct kvt_buffer out;

    (void)state;
    assert_int_equal(decode_hex(&room, question_hex, decode_question), KVT_OK);
    assert_string_equal(question->namespace_, "ns");
    assert_int_equal(question->kind, WIRE_ROUTE_TOKEN_HASHES);
    assert_int_equal(question->value_count, 2);
    assert_int_equal(question->values[0], UINT64_MAX);
    assert_int_equal(question->block_tokens, 16);
    assert_int_equal(question->isl_tokens, 40);
    assert_string_equal(question->id, "req-1");
    assert_int_equal(question->weighted, 1u << WIRE_ROUTE_OVERLAP | 1u << WIRE_ROUTE_G4);
    assert_true(question->weights[WIRE_ROUTE_OVERLAP] == 2.0);
    assert_true(question->weights[WIRE_ROUTE_G4] == 0.5);
    assert_int_equal(question->worker_count, 2);
    assert_string_equal(question->workers[1], "w2");
    assert_true(question->explain);
    assert_string_equal(question->adapter, "lora");
    assert_string_equal(question->salt, "pepper");
    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    assert_int_equal(wire_route_encode_question(question, &out), KVT_OK);
    assert_bytes(&out, question_hex);
    kvt_buffer_release(&out);

    /* All that may be left out is as nothing. */
    assert_int_equal(decode_hex(&room, short_hex, decode_question), KVT_OK);
    assert_int_equal(question->kind, WIRE_ROUTE_HASHES);
    assert_int_equal(question->value_count, 1);
    assert_int_equal(question->isl_tokens, 0);
    assert_string_equal(question->id, "");
    assert_int_equal(question->weighted, 0);
    assert_int_equal(question->worker_count, 0);
    assert_false(question->explain);
}

static void
answers_have_these_bytes(void **state)
{
    struct room room = {.changed = false};
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    assert_int_equal(decode_hex(&room, answer_hex, decode_answer), KVT_OK);
    assert_string_equal(room.answer.chosen.worker, "w1");
    assert_int_equal(room.answer.chosen.cached[3], 3);
    assert_int_equal(room.answer.chosen.active_requests, 4);
    assert_true(room.answer.chosen.cost == 11.5);
    assert_int_equal(room.answer.why, WIRE_ROUTE_BY_LOAD);
    assert_int_equal(room.answer.blocks, 6);
    assert_int_equal(room.answer.candidates, 2);
    assert_true(room.answer.booked);
    assert_false(room.answer.loading);
    assert_int_equal(room.answer.row_count, 2);
    assert_int_equal(room.answer.rows[1].dp_rank, 1);
    assert_true(room.answer.rows[1].uncertain);
    assert_int_equal(wire_route_encode_answer(&room.answer, &out), KVT_OK);
    assert_bytes(&out, answer_hex);
    wire_route_answer_release(&room.answer);

    assert_int_equal(wire_query_encode_failure(KVT_NOTFOUND, "no worker is known", &out), KVT_OK);
    assert_int_equal(decode_answer(&room, out.data, out.size), KVT_NOTFOUND);
    assert_string_equal(room.err.text, "no worker is known");
    assert_null(room.answer.rows);
    kvt_buffer_release(&out);
}

static void
steps_have_these_bytes(void **state)
{
    struct room room = {.changed = false};
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    assert_int_equal(decode_hex(&room, add_hex, decode_step), KVT_OK);
    assert_int_equal(room.step.kind, WIRE_ROUTE_ADD);
    assert_string_equal(room.step.id, "req-1");
    assert_string_equal(room.step.worker, "w1");
    assert_int_equal(room.step.dp_rank, 3);
    assert_int_equal(room.step.blocks, 4);
    assert_int_equal(room.step.prefill_tokens, 20);
    assert_int_equal(room.step.hash_count, 2);
    assert_int_equal(room.values[1], 0x8000000000000000);
    assert_int_equal(wire_route_encode_step(&room.step, &out), KVT_OK);
    assert_bytes(&out, add_hex);
    assert_int_equal(decode_hex(&room, space_hex, decode_step), KVT_OK);
    assert_string_equal(room.step.namespace_, "t/m");
    assert_int_equal(room.values[1], 0x8000000000000000);
    assert_int_equal(wire_route_encode_step(&room.step, &out), KVT_OK);
    assert_bytes(&out, space_hex);
    assert_int_equal(decode_hex(&room, free_hex, decode_step), KVT_OK);
    assert_int_equal(room.step.kind, WIRE_ROUTE_FREE);
    assert_string_equal(room.step.worker, "");
    assert_int_equal(wire_route_encode_step(&room.step, &out), KVT_OK);
    assert_bytes(&out, free_hex);
    assert_int_equal(decode_hex(&room, done_hex, decode_done), KVT_OK);
    assert_true(room.changed);
    assert_int_equal(wire_route_encode_done(true, &out), KVT_OK);
    assert_bytes(&out, done_hex);
    kvt_buffer_release(&out);
}

static void
every_truncation_is_refused(void **state)
{
    struct room room = {.changed = false};
    uint8_t bytes[INPUT_MAX];

    (void)state;
    for (size_t codec = 0; codec < sizeof(codecs) / sizeof(codecs[0]); codec++) {
        const size_t size = from_hex(codecs[codec].hex, bytes);

        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = kvt_calloc(cut + 1, 1);

            assert_non_null(copy);
            memcpy(copy + 1, bytes, cut);
            assert_int_equal(codecs[codec].decode(&room, copy + 1, cut), KVT_INVALID);
            kvt_free(copy);
        }
        bytes[size] = 0xc0;
        assert_int_equal(codecs[codec].decode(&room, bytes, size + 1), KVT_INVALID);
    }
}

static void
assert_refused(const char *hex, enum kvt_err code, const char *words)
{
    struct room room = {.changed = false};

    assert_int_equal(decode_hex(&room, hex, decode_question), code);
    assert_int_equal(room.question.value_count, 0);
    if (strstr(room.err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", room.err.text, words);
}

static void
malformed_questions_say_where_and_what(void **state)
{
    struct room room = {.changed = false};

    (void)state;
    assert_refused("9402a0000090", KVT_INVALID, "version 1");
    assert_refused("9401a00390", KVT_INVALID, "at byte 3 expected 0 sequence hashes");
    assert_refused("9401a000950102030405", KVT_RANGE, "no more values");
    assert_refused("9401a00091a0", KVT_INVALID, "a hash or a token");
    /* A weight below zero, one that is no number, and one of another table. */
    assert_refused("9801a000900000a0919200cbbff0000000000000", KVT_INVALID, "from 0 on");
    assert_refused("9801a000900000a0919200cb7ff8000000000000", KVT_INVALID, "from 0 on");
    assert_refused("9801a000900000a091920701", KVT_INVALID, "the number of a weight");
    assert_refused("9901a000900000a09093a0a0a0", KVT_RANGE, "no more workers");

    /* Whole numbers and narrow floats are weights as well. */
    assert_int_equal(decode_hex(&room, "9801a000900000a0929201029200ca3f000000", decode_question),
                     KVT_OK);
    assert_true(room.question.weights[WIRE_ROUTE_TEMPERATURE] == 2.0);
    assert_true(room.question.weights[WIRE_ROUTE_OVERLAP] == 0.5);

    /* Steps: none of them is 0, and an ADD has all of its members. */
    assert_int_equal(decode_hex(&room, "930100a0", decode_step), KVT_INVALID);
    assert_int_equal(decode_hex(&room, "930101a0", decode_step), KVT_INVALID);
    assert_non_null(strstr(room.err.text, "a worker"));
}

static void
what_is_too_much_is_not_encoded(void **state)
{
    struct wire_route_question question = {.value_count = WIRE_ROUTE_VALUES_MAX + 1};
    struct wire_route_step step = {.kind = WIRE_ROUTE_ADD, .hash_count = WIRE_ROUTE_BLOCKS_MAX + 1};
    struct wire_route_answer answer = {.row_count = WIRE_ROUTE_ROWS_MAX + 1};
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    assert_int_equal(wire_route_encode_question(&question, &out), KVT_RANGE);
    assert_int_equal(wire_route_encode_step(&step, &out), KVT_RANGE);
    assert_int_equal(wire_route_encode_answer(&answer, &out), KVT_RANGE);
    assert_int_equal(out.size, 0);
    /* The largest explanation there is fits a message. */
    answer.row_count = WIRE_ROUTE_ROWS_MAX;
    answer.rows = kvt_calloc(WIRE_ROUTE_ROWS_MAX, sizeof(*answer.rows));
    assert_non_null(answer.rows);
    for (uint32_t i = 0; i < WIRE_ROUTE_ROWS_MAX; i++) {
        memset(answer.rows[i].worker, 'w', KVT_NAME_MAX - 1);
        for (size_t t = 0; t < WIRE_ROUTE_TIERS; t++)
            answer.rows[i].cached[t] = WIRE_ROUTE_BLOCKS_MAX;
        answer.rows[i].dp_rank = UINT32_MAX;
        answer.rows[i].active_requests = UINT32_MAX;
    }
    assert_int_equal(wire_route_encode_answer(&answer, &out), KVT_OK);
    wire_route_answer_release(&answer);
    kvt_buffer_release(&out);
}

static void
reasons_have_names(void **state)
{
    (void)state;
    assert_string_equal(wire_route_why_name(WIRE_ROUTE_LOWEST), "lowest");
    assert_string_equal(wire_route_why_name(WIRE_ROUTE_SOFTMAX), "softmax");
    assert_string_equal(wire_route_why_name((enum wire_route_why)0), "?");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_have_these_bytes),
        cmocka_unit_test(answers_have_these_bytes),
        cmocka_unit_test(steps_have_these_bytes),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(malformed_questions_say_where_and_what),
        cmocka_unit_test(what_is_too_much_is_not_encoded),
        cmocka_unit_test(reasons_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
