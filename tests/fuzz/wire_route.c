/*
 * Property: no question, answer or step, whatever its bytes, makes a decoder read or write outside,
 * and what is decoded is encoded to what decodes to the same.
 */
#include <assert.h>
#include <string.h>

#include "wire/message/route.h"

#include "tests/fuzz/target.h"

enum { VALUES = 64, WORKERS = 8 };

static void
ask_again(const struct wire_route_question *question)
{
    uint64_t values[VALUES];
    char workers[WORKERS][KVT_NAME_MAX];
    struct wire_route_question again = {.values = values, .workers = workers};
    struct kvt_buffer out;
    struct kvt_error err;

    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    assert(wire_route_encode_question(question, &out) == KVT_OK);
    assert(wire_route_decode_question(out.data, out.size, &again, VALUES, WORKERS, &err) == KVT_OK);
    assert(again.value_count == question->value_count && again.kind == question->kind);
    assert(again.value_count == 0 ||
           memcmp(values, question->values, again.value_count * sizeof(values[0])) == 0);
    assert(again.weighted == question->weighted && again.worker_count == question->worker_count);
    assert(strcmp(again.id, question->id) == 0);
    kvt_buffer_release(&out);
}

static void
decode_question(const uint8_t *bytes, size_t size)
{
    uint64_t values[VALUES];
    char workers[WORKERS][KVT_NAME_MAX];
    struct wire_route_question question = {.values = values, .workers = workers};
    struct kvt_error err;

    if (wire_route_decode_question(bytes, size, &question, VALUES, WORKERS, &err) != KVT_OK) {
        assert(question.value_count == 0 && question.worker_count == 0);
        return;
    }
    assert(question.value_count <= VALUES && question.worker_count <= WORKERS);
    ask_again(&question);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t hashes[VALUES];
    struct wire_route_step step = {.hashes = hashes};
    struct wire_route_answer answer;
    struct kvt_error err;
    bool changed;

    decode_question(bytes, size);
    if (wire_route_decode_answer(bytes, size, &answer, &err) != KVT_OK)
        assert(answer.rows == NULL && answer.row_count == 0);
    assert(answer.row_count <= WIRE_ROUTE_ROWS_MAX);
    wire_route_answer_release(&answer);
    if (wire_route_decode_step(bytes, size, &step, VALUES, &err) == KVT_OK)
        assert(step.kind >= WIRE_ROUTE_ADD && step.kind <= WIRE_ROUTE_FREE);
    assert(step.hash_count <= VALUES);
    if (wire_route_decode_done(bytes, size, &changed, &err) != KVT_OK)
        assert(!changed);
    return 0;
}
