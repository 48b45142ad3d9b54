#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/route/request_blocks.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

/* Which worker should take a request, and what runs where. */

static unsigned
status_of(enum kvt_err rc)
{
    switch (rc) {
    case KVT_INVALID:
    case KVT_RANGE: return 400;
    case KVT_EXISTS: return 409;
    default: return 503;
    }
}

/* ---- the question ---- */

/* A body that is read; members that were met are no strangers. */
struct body {
    struct json_object *json;
    struct kvt_error *err;
};

static const struct {
    const char *key;
    enum wire_route_weight weight;
} weights[] = {
    {"overlap_score_weight", WIRE_ROUTE_OVERLAP},
    {"router_temperature", WIRE_ROUTE_TEMPERATURE},
    {"g1_weight", WIRE_ROUTE_G1},
    {"g2_weight", WIRE_ROUTE_G2},
    {"g3_weight", WIRE_ROUTE_G3},
    {"g4_weight", WIRE_ROUTE_G4},
    {"active_request_weight", WIRE_ROUTE_ACTIVE_REQUEST},
};
enum { WEIGHTS = sizeof(weights) / sizeof(weights[0]) };

/* In the order of enum wire_route_kind. */
static const char *const kinds[] = {"hashes", "tokens_hashes", "tokens"};

static const char *const others[] = {"namespace", "block_tokens", "isl_tokens",    "adapter",
                                     "salt",      "request_id",   "workers",       "explain",
                                     "worker",    "dp_rank",      "prefill_tokens"};
enum {
    OTHERS = sizeof(others) / sizeof(others[0]),
    ASKED = OTHERS - 3, /* those behind are of a request whose worker was chosen elsewhere */
};

static bool
is_known(const char *key, bool adds)
{
    for (size_t i = 0; i < WEIGHTS && !adds; i++)
        if (strcmp(weights[i].key, key) == 0)
            return true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i], key) == 0)
            return true;
    for (size_t i = 0; i < (size_t)(adds ? OTHERS : ASKED); i++)
        if (strcmp(others[i], key) == 0)
            return !adds || (strcmp(key, "workers") != 0 && strcmp(key, "explain") != 0);
    return false;
}

static enum kvt_err
check_keys(const struct body *body, bool adds)
{
    if (json_object_get_type(body->json) != json_type_object)
        return kvt_error_set(body->err, KVT_INVALID, "body: want an object");
    json_object_object_foreach(body->json, key, value)
    {
        (void)value;
        if (!is_known(key, adds))
            return kvt_error_set(body->err, KVT_INVALID, "%.64s: no such member", key);
    }
    return KVT_OK;
}

static enum kvt_err
read_text(const struct body *body, const char *key, char *to, size_t size)
{
    const char *text;

    if (!kvt_json_has(body->json, key))
        return KVT_OK;
    text = kvt_json_string(body->json, key);
    if (text == NULL)
        return kvt_error_set(body->err, KVT_INVALID, "%s: want text", key);
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        return kvt_error_set(body->err, KVT_RANGE, "%s: at most %zu bytes", key, size - 1);
    return KVT_OK;
}

static enum kvt_err
read_number(const struct body *body, const char *key, uint64_t max, uint64_t *number)
{
    if (!kvt_json_has(body->json, key))
        return KVT_OK;
    if (!kvt_json_u64(body->json, key, number) || *number > max)
        return kvt_error_set(body->err, KVT_INVALID, "%s: want a whole number of at most %" PRIu64,
                             key, max);
    return KVT_OK;
}

static enum kvt_err
read_weights(const struct body *body, struct wire_route_question *question)
{
    for (size_t i = 0; i < WEIGHTS; i++) {
        struct json_object *value = kvt_json_member(body->json, weights[i].key);
        double number;

        if (!kvt_json_has(body->json, weights[i].key))
            continue;
        number = json_object_get_double(value);
        if (!(json_object_is_type(value, json_type_double) ||
              json_object_is_type(value, json_type_int)) ||
            !isfinite(number) || number < 0.0)
            return kvt_error_set(body->err, KVT_INVALID, "%s: want a number from 0 on",
                                 weights[i].key);
        question->weights[weights[i].weight] = number;
        question->weighted |= 1u << weights[i].weight;
    }
    return KVT_OK;
}

static enum kvt_err
read_values(const struct body *body, struct wire_route_question *question)
{
    struct json_object *array = NULL;
    size_t count;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!kvt_json_has(body->json, kinds[i]))
            continue;
        if (array != NULL)
            return kvt_error_set(body->err, KVT_INVALID, "%s beside %s: want one of them", kinds[i],
                                 kinds[question->kind]);
        array = kvt_json_array(body->json, kinds[i]);
        if (array == NULL)
            return kvt_error_set(body->err, KVT_INVALID, "%s: want an array", kinds[i]);
        question->kind = (enum wire_route_kind)i;
    }
    count = array == NULL ? 0 : json_object_array_length(array);
    if (count > WIRE_ROUTE_VALUES_MAX)
        return kvt_error_set(body->err, KVT_RANGE, "%s: %zu; at most %u", kinds[question->kind],
                             count, WIRE_ROUTE_VALUES_MAX);
    question->values = kvt_calloc(count + 1, sizeof(*question->values));
    if (question->values == NULL)
        return kvt_error_set(body->err, KVT_NOMEM, "no memory for %zu values", count);
    question->value_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct json_object *value = json_object_array_get_idx(array, i);

        if (question->kind == WIRE_ROUTE_TOKENS ? !kvt_json_to_u64(value, &question->values[i])
                                                : !kvt_json_to_hash(value, &question->values[i]))
            return kvt_error_set(
                body->err, KVT_INVALID, "%s[%zu]: want %s", kinds[question->kind], i,
                question->kind == WIRE_ROUTE_TOKENS ? "a token's number" : "sixteen hex digits");
    }
    return KVT_OK;
}

static enum kvt_err
read_workers(const struct body *body, struct wire_route_question *question)
{
    struct json_object *array = kvt_json_array(body->json, "workers");
    size_t count;

    if (!kvt_json_has(body->json, "workers"))
        return KVT_OK;
    count = array == NULL ? 0 : json_object_array_length(array);
    if (count == 0 || count > WIRE_ROUTE_WORKERS_MAX)
        return kvt_error_set(body->err, KVT_INVALID, "workers: want an array of 1 to %d names",
                             WIRE_ROUTE_WORKERS_MAX);
    question->workers = kvt_calloc(count, sizeof(*question->workers));
    if (question->workers == NULL)
        return kvt_error_set(body->err, KVT_NOMEM, "no memory for %zu workers", count);
    for (size_t i = 0; i < count; i++) {
        const char *name = kvt_json_to_string(json_object_array_get_idx(array, i));

        if (name == NULL ||
            snprintf(question->workers[i], KVT_NAME_MAX, "%s", name) >= KVT_NAME_MAX)
            return kvt_error_set(body->err, KVT_INVALID,
                                 "workers[%zu]: want a name of at most %d bytes", i,
                                 KVT_NAME_MAX - 1);
    }
    question->worker_count = (uint32_t)count;
    return KVT_OK;
}

static void
release(struct wire_route_question *question)
{
    kvt_free(question->values);
    kvt_free(question->workers);
}

/* What both, a question and a request that is added, have.  release() it in any case. */
static enum kvt_err
read_question(const struct body *body, bool adds, struct wire_route_question *question)
{
    uint64_t block_tokens = 0;
    enum kvt_err rc = check_keys(body, adds);

    *question = (struct wire_route_question){.values = NULL};
    if (rc == KVT_OK)
        rc = read_text(body, "namespace", question->namespace_, sizeof(question->namespace_));
    if (rc == KVT_OK)
        rc = read_text(body, "request_id", question->id, sizeof(question->id));
    if (rc == KVT_OK)
        rc = read_text(body, "adapter", question->adapter, sizeof(question->adapter));
    if (rc == KVT_OK)
        rc = read_text(body, "salt", question->salt, sizeof(question->salt));
    if (rc == KVT_OK)
        rc = read_number(body, "block_tokens", WIRE_ROUTE_BLOCK_MAX, &block_tokens);
    if (rc == KVT_OK)
        rc = read_number(body, "isl_tokens", UINT64_MAX, &question->isl_tokens);
    question->block_tokens = (uint32_t)block_tokens;
    if (rc == KVT_OK)
        rc = read_weights(body, question);
    if (rc == KVT_OK)
        rc = read_workers(body, question);
    if (rc == KVT_OK && kvt_json_has(body->json, "explain") &&
        !kvt_json_bool(body->json, "explain", &question->explain))
        rc = kvt_error_set(body->err, KVT_INVALID, "explain: want true or false");
    return rc == KVT_OK ? read_values(body, question) : rc;
}

/* ---- the answer ---- */

static void
add_row(struct kvt_buffer *out, const struct wire_route_row *row)
{
    advisor_admin_text(out, "worker", row->worker);
    kvt_buffer_printf(out,
                      ",\"dp_rank\":%u,\"cached\":{\"g1\":%u,\"g2\":%u,\"g3\":%u,\"g4\":%u},"
                      "\"prefill_blocks\":%.15g,\"decode_blocks\":%.15g,\"active_requests\":%u,"
                      "\"cost\":%.15g,\"probability\":%.15g,\"uncertain\":%s",
                      row->dp_rank, row->cached[0], row->cached[1], row->cached[2], row->cached[3],
                      row->prefill_blocks, row->decode_blocks, row->active_requests, row->cost,
                      row->probability, row->uncertain ? "true" : "false");
}

static void
add_answer(const struct advisor_admin *http, const struct wire_route_answer *answer, bool explained,
           bool joining, struct kvt_buffer *out)
{
    advisor_admin_begin(http, out);
    add_row(out, &answer->chosen);
    kvt_buffer_printf(out, ",\"why\":\"%s\",\"blocks\":%u,\"candidates\":%u,\"booked\":%s",
                      wire_route_why_name(answer->why), answer->blocks, answer->candidates,
                      answer->booked ? "true" : "false");
    if (joining)
        kvt_buffer_puts(out, ",\"joining\":true");
    if (explained) {
        kvt_buffer_printf(out, ",\"workers\":[");
        for (uint32_t i = 0; i < answer->row_count; i++) {
            kvt_buffer_puts(out, i > 0 ? ",{" : "{");
            add_row(out, &answer->rows[i]);
            kvt_buffer_puts(out, "}");
        }
        kvt_buffer_puts(out, "]");
    }
    kvt_buffer_puts(out, "}");
}

static void
fail(struct kvt_http_response *response, enum kvt_err rc, const struct kvt_error *err)
{
    kvt_http_fail(response, status_of(rc), rc, "%s", err->text);
    if (rc == KVT_NOTFOUND || rc == KVT_AGAIN)
        response->retry_after_s = 1;
}

void
advisor_admin_route(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct wire_route_question question = {.values = NULL};
    struct wire_route_answer answer = {.row_count = 0};
    struct kvt_error err;
    struct body body = {.err = &err};
    bool joining;
    enum kvt_err rc;

    if (!advisor_admin_routed(http, response))
        return;
    joining = !advisor_router_ready(http->router);
    rc = kvt_json_parse(&body.json, (const char *)request->body, request->body_size, "body", &err);
    if (rc == KVT_OK)
        rc = read_question(&body, false, &question);
    if (rc == KVT_OK && question.id[0] != '\0' && !request->trusted)
        kvt_http_fail(response, 401, KVT_DENIED,
                      "a request with an id is booked, which needs \"Authorization: Bearer <admin "
                      "token>\"; without request_id it is only a question");
    else if (rc == KVT_OK)
        rc = advisor_router_ask(http->router, &http->finder, &question, &answer, &err);
    if (rc != KVT_OK)
        fail(response, rc, &err);
    else if (response->status == 200)
        add_answer(http, &answer, question.explain, joining, &response->body);
    wire_route_answer_release(&answer);
    release(&question);
    json_object_put(body.json);
}

/* ---- steps ---- */

static void
take_step(const struct advisor_admin *http, const struct wire_route_step *step,
          struct kvt_http_response *response)
{
    struct kvt_error err;
    bool changed;
    const enum kvt_err rc = advisor_router_step(http->router, step, &changed, &err);

    if (rc == KVT_NOTFOUND)
        kvt_http_fail(response, 404, rc, "request %.64s was not heard of; the step is remembered",
                      step->id);
    else if (rc != KVT_OK)
        kvt_http_fail(response, rc == KVT_FULL ? 507 : status_of(rc), rc, "%s", err.text);
    else
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"changed\":%s}",
                          changed ? "true" : "false");
}

/* Of a request whose worker was chosen elsewhere. */
static enum kvt_err
read_add(const struct body *body, const struct wire_route_question *question,
         const struct advisor_request_blocks *prompt, struct wire_route_step *step)
{
    uint64_t dp_rank = 0;
    enum kvt_err rc;

    *step = (struct wire_route_step){
        .kind = WIRE_ROUTE_ADD,
        .blocks = prompt->blocks,
        .prefill_tokens = prompt->isl_tokens,
        .hashes = prompt->hashes,
        .hash_count = prompt->hash_count,
    };
    memcpy(step->id, question->id, sizeof(step->id));
    memcpy(step->namespace_, question->namespace_, sizeof(step->namespace_));
    rc = read_text(body, "worker", step->worker, sizeof(step->worker));
    if (rc == KVT_OK)
        rc = read_number(body, "dp_rank", UINT32_MAX, &dp_rank);
    if (rc == KVT_OK)
        rc = read_number(body, "prefill_tokens", prompt->isl_tokens, &step->prefill_tokens);
    step->dp_rank = (uint32_t)dp_rank;
    return rc;
}

void
advisor_admin_route_add(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct wire_route_question question = {.values = NULL};
    struct advisor_request_blocks prompt = {.hashes = NULL};
    struct advisor_router_view view;
    struct wire_route_step step;
    struct kvt_error err;
    struct body body = {.err = &err};
    enum kvt_err rc;

    if (!advisor_admin_routed(http, response))
        return;
    advisor_router_view(http->router, &view);
    rc = kvt_json_parse(&body.json, (const char *)request->body, request->body_size, "body", &err);
    if (rc == KVT_OK)
        rc = read_question(&body, true, &question);
    if (rc == KVT_OK)
        rc = advisor_request_blocks_read(&prompt, &question, view.block_tokens, &err);
    if (rc == KVT_OK)
        rc = read_add(&body, &question, &prompt, &step);
    if (rc == KVT_OK)
        take_step(http, &step, response);
    else
        fail(response, rc, &err);
    advisor_request_blocks_release(&prompt);
    release(&question);
    json_object_put(body.json);
}

void
advisor_admin_route_step(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    const char *verb = strrchr(request->tail, '/');
    struct wire_route_step step = {.kind = WIRE_ROUTE_FREE};
    const size_t size = verb == NULL ? 0 : (size_t)(verb - request->tail);

    if (!advisor_admin_routed(http, response))
        return;
    if (verb != NULL && strcmp(verb, "/prefilled") == 0)
        step.kind = WIRE_ROUTE_PREFILLED;
    else if (verb == NULL || strcmp(verb, "/free") != 0) {
        kvt_http_fail(response, 404, KVT_NOTFOUND,
                      "want /v1/route/requests/ID/prefilled or /v1/route/requests/ID/free");
        return;
    }
    if (size == 0 || size >= sizeof(step.id)) {
        kvt_http_fail(response, 400, KVT_RANGE, "a request's id has 1 to %zu bytes",
                      sizeof(step.id) - 1);
        return;
    }
    memcpy(step.id, request->tail, size);
    take_step(http, &step, response);
}
