#include "wire/message/route.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/msgpack.h"
#include "wire/message/query.h"

enum {
    QUESTION_LEAST = 4,
    QUESTION_MEMBERS = 12,
    ANSWER_LEAST = 3,
    ANSWER_MEMBERS = 9,
    ROW_MEMBERS = 9,
    STEP_LEAST = 3,
    ADD_LEAST = 8,
    ADD_MEMBERS = 9,
    WEIGHT_MEMBERS = 2,
};

const char *
wire_route_why_name(enum wire_route_why why)
{
    switch (why) {
    case WIRE_ROUTE_LOWEST: return "lowest";
    case WIRE_ROUTE_BY_LOAD: return "load";
    case WIRE_ROUTE_BY_CHANCE: return "chance";
    case WIRE_ROUTE_SOFTMAX: return "softmax";
    case WIRE_ROUTE_WHYS: break;
    }
    return "?";
}

void
wire_route_answer_release(struct wire_route_answer *answer)
{
    if (answer == NULL)
        return;
    kvt_free(answer->rows);
    answer->rows = NULL;
    answer->row_count = 0;
}

/* Values of an array that is in front; how many. */
static uint32_t
read_values(struct kvt_msgpack_reader *reader, uint64_t *values, size_t most, const char *wanted)
{
    const uint32_t count = kvt_msgpack_list(reader, most, wanted);

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++)
        values[i] = kvt_msgpack_u64(reader, "a hash or a token");
    return count;
}

static void
put_values(struct kvt_msgpack_writer *writer, const uint64_t *values, uint32_t count)
{
    kvt_msgpack_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        kvt_msgpack_put_uint(writer, values[i]);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- the question ---- */

static void
put_weights(struct kvt_msgpack_writer *writer, const struct wire_route_question *question)
{
    kvt_msgpack_put_array(writer, (size_t)__builtin_popcount(question->weighted));
    for (uint32_t i = 0; i < WIRE_ROUTE_WEIGHTS; i++) {
        if ((question->weighted & (1u << i)) == 0)
            continue;
        kvt_msgpack_put_array(writer, WEIGHT_MEMBERS);
        kvt_msgpack_put_uint(writer, i);
        kvt_msgpack_put_real(writer, question->weights[i]);
    }
}

enum kvt_err
wire_route_encode_question(const struct wire_route_question *question, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    assert(question->weighted < 1u << WIRE_ROUTE_WEIGHTS);
    if (question->value_count > WIRE_ROUTE_VALUES_MAX ||
        question->worker_count > WIRE_ROUTE_WORKERS_MAX)
        return KVT_RANGE;
    kvt_msgpack_put_message(&writer, out, WIRE_ROUTE_MAX, QUESTION_MEMBERS);
    kvt_msgpack_put_str(&writer, question->namespace_);
    kvt_msgpack_put_uint(&writer, (uint64_t)question->kind);
    put_values(&writer, question->values, question->value_count);
    kvt_msgpack_put_uint(&writer, question->block_tokens);
    kvt_msgpack_put_uint(&writer, question->isl_tokens);
    kvt_msgpack_put_str(&writer, question->id);
    put_weights(&writer, question);
    kvt_msgpack_put_array(&writer, question->worker_count);
    for (uint32_t i = 0; i < question->worker_count; i++)
        kvt_msgpack_put_str(&writer, question->workers[i]);
    kvt_msgpack_put_uint(&writer, question->explain);
    kvt_msgpack_put_str(&writer, question->adapter);
    kvt_msgpack_put_str(&writer, question->salt);
    return kvt_msgpack_done(&writer);
}

static void
read_weights(struct kvt_msgpack_reader *reader, struct wire_route_question *question)
{
    const uint32_t count =
        kvt_msgpack_list(reader, WIRE_ROUTE_WEIGHTS, "an array of [weight, value]");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        const uint32_t members = kvt_msgpack_array(reader, WEIGHT_MEMBERS, "[weight, value]");
        const uint64_t at =
            kvt_msgpack_uint(reader, WIRE_ROUTE_WEIGHTS - 1, "the number of a weight");

        question->weights[at] = kvt_msgpack_real(reader, "a weight: a number from 0 on");
        question->weighted |= 1u << at;
        kvt_msgpack_rest(reader, members, WEIGHT_MEMBERS);
    }
}

static uint32_t
read_workers(struct kvt_msgpack_reader *reader, struct wire_route_question *question, size_t most)
{
    const uint32_t count =
        kvt_msgpack_list(reader, most, "an array of no more workers than there is room for");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++)
        kvt_msgpack_str(reader, question->workers[i], KVT_NAME_MAX,
                        "a worker's name of at most 63 bytes");
    return count;
}

/* What may be left out, the last ones first. */
static uint32_t
read_wishes(struct kvt_msgpack_reader *reader, uint32_t members,
            struct wire_route_question *question, size_t worker_capacity)
{
    uint32_t workers = 0;

    if (members > 4)
        question->block_tokens = kvt_msgpack_u32(reader, "the tokens of a block");
    if (members > 5)
        question->isl_tokens = kvt_msgpack_u64(reader, "the tokens of the prompt");
    if (members > 6)
        kvt_msgpack_str(reader, question->id, sizeof(question->id),
                        "a request's id of at most 127 bytes");
    if (members > 7)
        read_weights(reader, question);
    if (members > 8)
        workers = read_workers(reader, question, least(worker_capacity, WIRE_ROUTE_WORKERS_MAX));
    if (members > 9)
        question->explain = kvt_msgpack_uint(reader, 1, "0 or 1: explain") == 1;
    if (members > 10)
        kvt_msgpack_str(reader, question->adapter, sizeof(question->adapter),
                        "an adapter's name of at most 255 bytes");
    if (members > 11)
        kvt_msgpack_str(reader, question->salt, sizeof(question->salt),
                        "a salt of at most 255 bytes");
    kvt_msgpack_rest(reader, members, QUESTION_MEMBERS);
    return workers;
}

enum kvt_err
wire_route_decode_question(const void *bytes, size_t size, struct wire_route_question *question,
                           size_t value_capacity, size_t worker_capacity, struct kvt_error *err)
{
    struct wire_route_question fresh = {.values = question->values, .workers = question->workers};
    struct kvt_msgpack_reader reader;
    uint32_t members;
    uint32_t values;
    uint32_t workers;
    enum kvt_err rc;

    *question = fresh;
    if (size > WIRE_ROUTE_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_ROUTE_MAX, err);
    members = kvt_msgpack_message(&reader, bytes, size, QUESTION_LEAST,
                                  "a question: [1, namespace, kind, values]");
    kvt_msgpack_str(&reader, question->namespace_, sizeof(question->namespace_),
                    "a namespace of at most 127 bytes");
    question->kind = (enum wire_route_kind)kvt_msgpack_uint(
        &reader, WIRE_ROUTE_TOKENS, "0 sequence hashes, 1 token hashes or 2 tokens");
    values = read_values(&reader, question->values, least(value_capacity, WIRE_ROUTE_VALUES_MAX),
                         "an array of no more values than there is room for");
    workers = read_wishes(&reader, members, question, worker_capacity);
    rc = kvt_msgpack_end(&reader, "question", err);
    if (rc != KVT_OK)
        return rc;
    question->value_count = values;
    question->worker_count = workers;
    return KVT_OK;
}

/* ---- the answer ---- */

static void
put_row(struct kvt_msgpack_writer *writer, const struct wire_route_row *row)
{
    kvt_msgpack_put_array(writer, ROW_MEMBERS);
    kvt_msgpack_put_str(writer, row->worker);
    kvt_msgpack_put_uint(writer, row->dp_rank);
    kvt_msgpack_put_array(writer, WIRE_ROUTE_TIERS);
    for (size_t i = 0; i < WIRE_ROUTE_TIERS; i++)
        kvt_msgpack_put_uint(writer, row->cached[i]);
    kvt_msgpack_put_uint(writer, row->active_requests);
    kvt_msgpack_put_real(writer, row->prefill_blocks);
    kvt_msgpack_put_real(writer, row->decode_blocks);
    kvt_msgpack_put_real(writer, row->cost);
    kvt_msgpack_put_real(writer, row->probability);
    kvt_msgpack_put_uint(writer, row->uncertain);
}

enum kvt_err
wire_route_encode_answer(const struct wire_route_answer *answer, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    if (answer->row_count > WIRE_ROUTE_ROWS_MAX)
        return KVT_RANGE;
    kvt_msgpack_put_message(&writer, out, WIRE_ROUTE_MAX, ANSWER_MEMBERS);
    kvt_msgpack_put_uint(&writer, KVT_OK);
    put_row(&writer, &answer->chosen);
    kvt_msgpack_put_uint(&writer, (uint64_t)answer->why);
    kvt_msgpack_put_uint(&writer, answer->blocks);
    kvt_msgpack_put_uint(&writer, answer->candidates);
    kvt_msgpack_put_uint(&writer, answer->booked);
    kvt_msgpack_put_uint(&writer, answer->loading);
    kvt_msgpack_put_array(&writer, answer->row_count);
    for (uint32_t i = 0; i < answer->row_count; i++)
        put_row(&writer, &answer->rows[i]);
    return kvt_msgpack_done(&writer);
}

static void
read_row(struct kvt_msgpack_reader *reader, struct wire_route_row *row)
{
    const uint32_t members = kvt_msgpack_array(reader, ROW_MEMBERS, "a worker's row");
    uint32_t tiers;

    kvt_msgpack_str(reader, row->worker, sizeof(row->worker),
                    "a worker's name of at most 63 bytes");
    row->dp_rank = kvt_msgpack_u32(reader, "a dp_rank");
    tiers = kvt_msgpack_array(reader, WIRE_ROUTE_TIERS, "blocks by tier: [G1, G2, G3, G4]");
    for (size_t i = 0; i < WIRE_ROUTE_TIERS; i++)
        row->cached[i] = kvt_msgpack_u32(reader, "a number of blocks");
    kvt_msgpack_rest(reader, tiers, WIRE_ROUTE_TIERS);
    row->active_requests = kvt_msgpack_u32(reader, "a number of requests");
    row->prefill_blocks = kvt_msgpack_real(reader, "a number of blocks");
    row->decode_blocks = kvt_msgpack_real(reader, "a number of blocks");
    row->cost = kvt_msgpack_real(reader, "a cost");
    row->probability = kvt_msgpack_real(reader, "a probability");
    row->uncertain = kvt_msgpack_uint(reader, 1, "0 or 1: uncertain") == 1;
    kvt_msgpack_rest(reader, members, ROW_MEMBERS);
}

static void
read_rows(struct kvt_msgpack_reader *reader, struct wire_route_answer *answer)
{
    const uint32_t count =
        kvt_msgpack_list(reader, WIRE_ROUTE_ROWS_MAX, "an array of workers' rows");

    if (count == 0 || reader->code != KVT_OK)
        return;
    answer->rows = kvt_calloc(count, sizeof(*answer->rows));
    if (answer->rows == NULL) {
        kvt_msgpack_fail(reader, reader->at, KVT_NOMEM, "memory");
        return;
    }
    answer->row_count = count;
    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++)
        read_row(reader, &answer->rows[i]);
}

enum kvt_err
wire_route_decode_answer(const void *bytes, size_t size, struct wire_route_answer *answer,
                         struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    enum kvt_err rc;

    *answer = (struct wire_route_answer){.row_count = 0};
    if (size > WIRE_ROUTE_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_ROUTE_MAX, err);
    rc = wire_query_failed(bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    members = kvt_msgpack_message(&reader, bytes, size, ANSWER_MEMBERS,
                                  "an answer: [1, status, worker, ...]");
    (void)kvt_msgpack_u64(&reader, "a status");
    read_row(&reader, &answer->chosen);
    answer->why =
        (enum wire_route_why)kvt_msgpack_uint(&reader, WIRE_ROUTE_WHYS - 1, "why it was chosen");
    answer->blocks = kvt_msgpack_u32(&reader, "a number of blocks");
    answer->candidates = kvt_msgpack_u32(&reader, "a number of workers");
    answer->booked = kvt_msgpack_uint(&reader, 1, "0 or 1: booked") == 1;
    answer->loading = kvt_msgpack_uint(&reader, 1, "0 or 1: loading") == 1;
    read_rows(&reader, answer);
    rc = kvt_msgpack_close(&reader, members, ANSWER_MEMBERS, "answer", err);
    if (rc != KVT_OK)
        wire_route_answer_release(answer);
    return rc;
}

/* ---- steps ---- */

enum kvt_err
wire_route_encode_step(const struct wire_route_step *step, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    if (step->hash_count > WIRE_ROUTE_BLOCKS_MAX)
        return KVT_RANGE;
    kvt_msgpack_put_message(&writer, out, WIRE_ROUTE_MAX,
                            step->kind != WIRE_ROUTE_ADD  ? STEP_LEAST
                            : step->namespace_[0] == '\0' ? ADD_LEAST
                                                          : ADD_MEMBERS);
    kvt_msgpack_put_uint(&writer, (uint64_t)step->kind);
    kvt_msgpack_put_str(&writer, step->id);
    if (step->kind == WIRE_ROUTE_ADD) {
        kvt_msgpack_put_str(&writer, step->worker);
        kvt_msgpack_put_uint(&writer, step->dp_rank);
        kvt_msgpack_put_uint(&writer, step->blocks);
        kvt_msgpack_put_uint(&writer, step->prefill_tokens);
        put_values(&writer, step->hashes, step->hash_count);
        if (step->namespace_[0] != '\0')
            kvt_msgpack_put_str(&writer, step->namespace_);
    }
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_route_decode_step(const void *bytes, size_t size, struct wire_route_step *step,
                       size_t capacity, struct kvt_error *err)
{
    struct wire_route_step fresh = {.hashes = step->hashes};
    struct kvt_msgpack_reader reader;
    uint32_t members;
    uint32_t known = STEP_LEAST;
    uint32_t count = 0;
    uint64_t kind;
    enum kvt_err rc;

    *step = fresh;
    if (size > WIRE_ROUTE_MAX)
        return kvt_msgpack_refuse("message", size, WIRE_ROUTE_MAX, err);
    members = kvt_msgpack_message(&reader, bytes, size, STEP_LEAST, "a step: [1, step, id]");
    kind = kvt_msgpack_uint(&reader, WIRE_ROUTE_FREE, "1 add, 2 prefilled or 3 free");
    if (kind == 0)
        kvt_msgpack_fail(&reader, reader.at, KVT_INVALID, "a step from 1 to 3 before this byte");
    kvt_msgpack_str(&reader, step->id, sizeof(step->id), "a request's id of at most 127 bytes");
    if (kind == WIRE_ROUTE_ADD) {
        known = members < ADD_MEMBERS ? ADD_LEAST : ADD_MEMBERS;
        if (members < ADD_LEAST)
            kvt_msgpack_fail(&reader, reader.at, KVT_INVALID,
                             "a worker, its dp_rank, blocks, prefill tokens and hashes");
        kvt_msgpack_str(&reader, step->worker, sizeof(step->worker),
                        "a worker's name of at most 63 bytes");
        step->dp_rank = kvt_msgpack_u32(&reader, "a dp_rank");
        step->blocks = kvt_msgpack_u32(&reader, "a number of blocks");
        step->prefill_tokens = kvt_msgpack_u64(&reader, "a number of tokens");
        count = read_values(&reader, step->hashes, least(capacity, WIRE_ROUTE_BLOCKS_MAX),
                            "an array of no more hashes than there is room for");
        if (members >= ADD_MEMBERS)
            kvt_msgpack_str(&reader, step->namespace_, sizeof(step->namespace_),
                            "a namespace of at most 127 bytes");
    }
    rc = kvt_msgpack_close(&reader, members, known, "step", err);
    if (rc != KVT_OK)
        return rc;
    step->kind = (enum wire_route_step_kind)kind;
    step->hash_count = count;
    return KVT_OK;
}

enum kvt_err
wire_route_encode_done(bool changed, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_put_message(&writer, out, WIRE_ROUTE_MAX, ANSWER_LEAST);
    kvt_msgpack_put_uint(&writer, KVT_OK);
    kvt_msgpack_put_uint(&writer, changed);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_route_decode_done(const void *bytes, size_t size, bool *changed, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    enum kvt_err rc;
    bool is;

    *changed = false;
    rc = wire_query_failed(bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    members =
        kvt_msgpack_message(&reader, bytes, size, ANSWER_LEAST, "an answer: [1, status, changed]");
    (void)kvt_msgpack_u64(&reader, "a status");
    is = kvt_msgpack_uint(&reader, 1, "0 or 1: changed") == 1;
    rc = kvt_msgpack_close(&reader, members, ANSWER_LEAST, "answer", err);
    *changed = rc == KVT_OK && is;
    return rc;
}
