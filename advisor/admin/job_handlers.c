#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/plan/plan_document.h"
#include "base/core/alloc.h"
#include "base/text/json.h"
#include "base/text/parse.h"

/* Jobs: what there is, what is asked for. */

enum {
    MOVES_MAX = 4096, /* rows of "moves" in one request */
    NAMES_MAX = 100,  /* of gateways, told to who names another one */
};

/* ---- what there is ---- */

static void
add_job(struct kvt_buffer *out, const struct advisor_job_row *row)
{
    kvt_buffer_printf(out, "{\"id\":%" PRIu64 ",", row->id);
    advisor_admin_text(out, "kind", row->kind);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "title", row->title);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "key", row->key);
    kvt_buffer_printf(out,
                      ",\"state\":\"%s\",\"blocks\":%" PRIu64 ",\"done\":%" PRIu64
                      ",\"failed\":%" PRIu64 ",\"batches\":%u,\"batches_done\":%u,"
                      "\"bytes\":%" PRIu64 ",\"bytes_moved\":%" PRIu64 ",\"parts\":%u,"
                      "\"suspend_ppm\":%u,\"policy_version\":%" PRIu64 ",\"created_ms\":%" PRIu64
                      ",\"finished_ms\":%" PRIu64 ",",
                      advisor_job_state_name(row->state), row->blocks, row->done, row->failed,
                      row->batches, row->finished, row->bytes, row->bytes_moved, row->parts,
                      row->suspend_ppm, row->policy_version, row->created_ms, row->finished_ms);
    advisor_admin_text(out, "text", row->text);
    kvt_buffer_printf(out, "}");
}

struct rows {
    struct advisor_job_row list[ADVISOR_JOBS_KEPT];
    size_t count;
    const char *key; /* NULL: all */
};

static enum kvt_err
take_row(void *arg, const void *data)
{
    const struct advisor_job_row *row = data;
    struct rows *rows = arg;

    if (rows->key != NULL && strcmp(rows->key, row->key) != 0)
        return KVT_OK;
    if (rows->count < ADVISOR_JOBS_KEPT)
        rows->list[rows->count++] = *row;
    return KVT_OK;
}

static void
fail_reading(struct kvt_http_response *response, enum kvt_err rc)
{
    kvt_buffer_clear(&response->body);
    kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
}

void
advisor_admin_jobs(void *arg, const struct kvt_http_request *request,
                   struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct rows *rows = kvt_calloc(1, sizeof(*rows));
    struct advisor_txn txn;
    enum kvt_err rc = rows == NULL ? KVT_NOMEM : advisor_store_read(http->store, &txn, NULL);

    if (rc == KVT_OK) {
        rows->key = kvt_http_query(request, "key");
        rc = advisor_store_walk(&txn, ADVISOR_ROW_JOB, take_row, rows);
        advisor_store_end(&txn);
    }
    if (rc != KVT_OK) {
        kvt_free(rows);
        fail_reading(response, rc);
        return;
    }
    kvt_buffer_printf(&response->body,
                      "{\"schema_version\":1,\"paused\":%s,\"mode\":\"%s\",\"jobs\":[",
                      advisor_planner_paused(http->planner) ? "true" : "false",
                      advisor_mode_name(advisor_planner_mode(http->planner)));
    for (size_t i = rows->count; i > 0; i--) { /* newest first */
        kvt_buffer_puts(&response->body, i == rows->count ? "" : ",");
        add_job(&response->body, &rows->list[i - 1]);
    }
    kvt_buffer_printf(&response->body, "]}");
    kvt_free(rows);
}

void
advisor_admin_job(void *arg, const struct kvt_http_request *request,
                  struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct advisor_job_row row;
    struct advisor_txn txn;
    enum kvt_err rc;
    uint64_t id;

    if (kvt_parse_u64(request->tail, &id) != KVT_OK) {
        kvt_http_fail(response, 400, KVT_INVALID, "a job is a number, as GET /v1/jobs lists them");
        return;
    }
    rc = advisor_store_read(http->store, &txn, NULL);
    if (rc == KVT_OK)
        rc = advisor_store_job(&txn, id, &row);
    if (rc == KVT_OK) {
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"paused\":%s,\"job\":",
                          advisor_planner_paused(http->planner) ? "true" : "false");
        add_job(&response->body, &row);
        kvt_buffer_printf(&response->body, ",\"failures\":[");
        rc = advisor_admin_failures(&response->body, &txn, &row);
        kvt_buffer_printf(&response->body, "]}");
    }
    advisor_store_end(&txn);
    if (rc == KVT_NOTFOUND)
        kvt_http_fail(response, 404, rc, "no job %" PRIu64, id);
    else if (rc != KVT_OK)
        fail_reading(response, rc);
}

/* ---- what is asked for ---- */

static unsigned
status_of(enum kvt_err rc)
{
    switch (rc) {
    case KVT_INVALID:
    case KVT_RANGE: return 400;
    case KVT_NOTFOUND: return 404;
    case KVT_PRECONDITION: return 409;
    case KVT_FULL: return 507;
    default: return 503;
    }
}

void
advisor_admin_taken(struct kvt_http_response *response, enum kvt_err rc,
                    const struct advisor_job_row *job, const struct kvt_error *err)
{
    if (rc != KVT_OK) {
        kvt_http_fail(response, status_of(rc), rc, "%s", err->text);
        return;
    }
    kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"job\":");
    add_job(&response->body, job);
    kvt_buffer_printf(&response->body, "}");
}

struct asked {
    struct advisor_job_moves *moves;
    struct kvt_order_item *items;
    size_t move_count;
    size_t item_count;
};

static bool
read_verb(const char *text, enum kvt_order_verb *verb)
{
    for (int i = 1; text != NULL && i <= KVT_ORDER_VERB_LAST; i++)
        if (strcmp(kvt_order_verb_name((enum kvt_order_verb)i), text) == 0) {
            *verb = (enum kvt_order_verb)i;
            return true;
        }
    *verb = KVT_ORDER_NONE;
    return false;
}

static enum kvt_err
read_block(struct json_object *json, struct kvt_order_item *item, uint64_t *bytes,
           struct kvt_error *err)
{
    uint64_t position = 0;
    uint64_t ranks = 1;
    uint64_t size = 0;

    if (json_object_is_type(json, json_type_string)) {
        if (!advisor_plan_block_parse(json_object_get_string(json), item, &size))
            return kvt_error_set(err, KVT_INVALID,
                                 "block \"%.60s\": want hash parent position ranks size",
                                 json_object_get_string(json));
        *bytes += size * (uint64_t)__builtin_popcount(item->ranks);
        return KVT_OK;
    }
    if (!kvt_json_hash(json, "hash", &item->block.hash))
        return kvt_error_set(err, KVT_INVALID, "a block without \"hash\"");
    if ((kvt_json_member(json, "parent") != NULL &&
         !kvt_json_hash(json, "parent", &item->block.parent)) ||
        (kvt_json_member(json, "position") != NULL &&
         (!kvt_json_u64(json, "position", &position) || position > KVT_POSITION_MAX)) ||
        (kvt_json_member(json, "ranks") != NULL &&
         (!kvt_json_u64(json, "ranks", &ranks) || ranks == 0 || ranks > UINT32_MAX)) ||
        (kvt_json_member(json, "size") != NULL && !kvt_json_u64(json, "size", &size)))
        return kvt_error_set(err, KVT_INVALID,
                             "block %016" PRIx64 ": want {hash, parent, position, ranks, size}",
                             item->block.hash);
    item->block.position = (uint32_t)position;
    item->ranks = (uint32_t)ranks;
    *bytes += size * (uint64_t)__builtin_popcountll(ranks);
    return KVT_OK;
}

static enum kvt_err
read_moves(struct json_object *json, struct asked *asked, struct kvt_error *err)
{
    struct advisor_job_moves *moves = &asked->moves[asked->move_count];
    struct json_object *blocks = kvt_json_array(json, "blocks");
    const size_t count = blocks == NULL ? 0 : json_object_array_length(blocks);
    enum kvt_err rc = KVT_OK;

    *moves = (struct advisor_job_moves){.gateway = kvt_json_string(json, "gateway"),
                                        .namespace_ = kvt_json_string(json, "namespace"),
                                        .items = asked->items + asked->item_count,
                                        .count = count};
    if (!read_verb(kvt_json_string(json, "verb"), &moves->verb))
        return kvt_error_set(err, KVT_INVALID,
                             "verb: want demote, promote, delete, compact, pin, unpin or warm");
    moves->to = kvt_json_string(json, "to");
    moves->from = kvt_json_string(json, kvt_json_has(json, "from") ? "from" : "tier");
    if (moves->to == NULL && !kvt_json_has(json, "from"))
        moves->from = NULL; /* a plan's, between hot volume and bucket */
    if ((kvt_json_has(json, "from") && moves->from == NULL) ||
        (kvt_json_has(json, "to") && moves->to == NULL) ||
        (kvt_json_has(json, "keep") && !kvt_json_bool(json, "keep", &moves->keep)))
        return kvt_error_set(err, KVT_INVALID,
                             "moves: from and to are tiers of the gateway, keep true or false");
    if (moves->gateway == NULL || moves->namespace_ == NULL)
        return kvt_error_set(err, KVT_INVALID, "moves: want \"gateway\" and \"namespace\"");
    if (kvt_json_member(json, "until_ms") != NULL &&
        !kvt_json_u64(json, "until_ms", &moves->until_ms))
        return kvt_error_set(err, KVT_INVALID, "until_ms: want Unix milliseconds");
    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = read_block(json_object_array_get_idx(blocks, i), &asked->items[asked->item_count++],
                        &moves->bytes, err);
    asked->move_count++;
    return rc;
}

static enum kvt_err
read_all(struct json_object *list, struct asked *asked, struct kvt_error *err)
{
    const size_t count = list == NULL ? 0 : json_object_array_length(list);
    enum kvt_err rc = KVT_OK;
    size_t blocks = 0;

    if (list == NULL || count > MOVES_MAX)
        return kvt_error_set(err, KVT_INVALID, "moves: want a list of at most %d", MOVES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct json_object *some = kvt_json_array(json_object_array_get_idx(list, i), "blocks");

        blocks += some == NULL ? 0 : json_object_array_length(some);
    }
    asked->moves = kvt_calloc(count + 1, sizeof(*asked->moves));
    asked->items = kvt_calloc(blocks + 1, sizeof(*asked->items));
    if (asked->moves == NULL || asked->items == NULL)
        return kvt_error_set(err, KVT_NOMEM, "job");
    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = read_moves(json_object_array_get_idx(list, i), asked, err);
    return rc;
}

static enum kvt_err
read_request(struct json_object *json, struct asked *asked, struct advisor_job_request *request,
             struct kvt_error *err)
{
    uint64_t suspend_ppm = 0;
    uint64_t part = 0;
    enum kvt_err rc;

    *request = (struct advisor_job_request){.kind = kvt_json_string(json, "kind"),
                                            .title = kvt_json_string(json, "title"),
                                            .key = kvt_json_string(json, "key")};
    if (request->kind == NULL || request->title == NULL ||
        (kvt_json_has(json, "key") && request->key == NULL))
        return kvt_error_set(err, KVT_INVALID,
                             "body: want {kind, title, moves}; kind, title and key are text");
    if ((kvt_json_member(json, "part") != NULL &&
         (!kvt_json_u64(json, "part", &part) || part > UINT32_MAX)) ||
        (kvt_json_member(json, "more") != NULL && !kvt_json_bool(json, "more", &request->more)) ||
        (kvt_json_member(json, "suspend_ppm") != NULL &&
         (!kvt_json_u64(json, "suspend_ppm", &suspend_ppm) || suspend_ppm > 1000000)) ||
        (kvt_json_member(json, "policy_version") != NULL &&
         !kvt_json_u64(json, "policy_version", &request->policy_version)))
        return kvt_error_set(err, KVT_INVALID,
                             "body: part is a number, more true or false, suspend_ppm at most "
                             "1000000, policy_version a number");
    request->part = (uint32_t)part;
    request->suspend_ppm = (uint32_t)suspend_ppm;
    rc = read_all(kvt_json_array(json, "moves"), asked, err);
    request->moves = asked->moves;
    request->move_count = asked->move_count;
    return rc;
}

/* Of one that does not exist nobody would ever hear: its orders would expire, be tried again, and
 * fail after an hour. */
static bool
gateways_known(const struct advisor_admin *http, const struct asked *asked,
               struct kvt_http_response *response)
{
    size_t count;
    struct advisor_gateway_view *views = advisor_admin_gateways(http, &count);
    char names[NAMES_MAX] = "";
    const char *unknown = NULL;
    size_t used = 0;

    for (size_t i = 0; views != NULL && i < asked->move_count && unknown == NULL; i++) {
        size_t at = 0;

        while (at < count && strcmp(views[at].name, asked->moves[i].gateway) != 0)
            at++;
        unknown = at == count ? asked->moves[i].gateway : NULL;
    }
    for (size_t i = 0; i < count && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
                                 views[i].name);
    if (views == NULL)
        kvt_http_fail(response, 503, KVT_NOMEM, "job");
    else if (unknown != NULL && advisor_admin_loaded(http, response))
        kvt_http_fail(response, 404, KVT_NOTFOUND,
                      "no gateway named \"%.40s\" has reported; %s%s (kvtier tier ls)", unknown,
                      count == 0 ? "none has" : "there is ", names);
    kvt_free(views);
    return views != NULL && unknown == NULL;
}

enum kvt_err
advisor_admin_dry(struct json_object *json, bool *dry, struct kvt_error *err)
{
    if (kvt_json_bool(json, "dry_run", dry) || !kvt_json_has(json, "dry_run"))
        return KVT_OK;
    return kvt_error_set(err, KVT_INVALID, "dry_run: want true or false; nothing was done");
}

static void
answer_dry(struct kvt_http_response *response, const struct asked *asked)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < asked->move_count; i++)
        bytes += asked->moves[i].bytes;
    kvt_buffer_printf(&response->body,
                      "{\"schema_version\":1,\"dry_run\":true,\"blocks\":%zu,\"bytes\":%" PRIu64
                      "}",
                      asked->item_count, bytes);
}

void
advisor_admin_submit(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct asked asked = {.moves = NULL};
    struct advisor_job_request job;
    struct advisor_job_row row;
    struct json_object *json;
    struct kvt_error err = {.text = ""};
    bool dry = false;
    enum kvt_err rc =
        kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err);

    if (rc == KVT_OK && kvt_json_member(json, "hash") != NULL) { /* a prefix, not its blocks */
        advisor_admin_select(http, json, response);
        json_object_put(json);
        return;
    }
    if (rc == KVT_OK)
        rc = advisor_admin_dry(json, &dry, &err);
    if (rc == KVT_OK)
        rc = read_request(json, &asked, &job, &err);
    if (rc == KVT_OK && dry)
        rc = advisor_jobs_check(http->jobs, &job, &err);
    if (rc == KVT_OK && !gateways_known(http, &asked, response)) {
        /* answered */
    } else if (rc == KVT_OK && dry) {
        answer_dry(response, &asked);
    } else {
        if (rc == KVT_OK)
            rc = advisor_jobs_submit(http->jobs, &job, &row, &err);
        advisor_admin_taken(response, rc, &row, &err);
    }
    kvt_free(asked.moves);
    kvt_free(asked.items);
    json_object_put(json);
}

void
advisor_admin_job_command(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response)
{
    static const char *const words[] = {"pause", "resume", "cancel"};
    const struct advisor_admin *http = arg;
    const char *slash = strchr(request->tail, '/');
    struct advisor_job_row row;
    struct kvt_error err = {.text = ""};
    char number[24];
    uint64_t id;

    for (size_t i = 0; slash != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
        enum kvt_err rc;

        if (strcmp(slash + 1, words[i]) != 0 ||
            snprintf(number, sizeof(number), "%.*s", (int)(slash - request->tail), request->tail) >=
                (int)sizeof(number) ||
            kvt_parse_u64(number, &id) != KVT_OK)
            continue;
        rc = advisor_jobs_command(http->jobs, id, (enum advisor_job_command)i, &row, &err);
        advisor_admin_taken(response, rc, &row, &err);
        return;
    }
    kvt_http_fail(response, 400, KVT_INVALID,
                  "want /v1/jobs/NUMBER/pause, /v1/jobs/NUMBER/resume or /v1/jobs/NUMBER/cancel");
}

static void
stop_all(const struct advisor_admin *http, bool paused, struct kvt_http_response *response)
{
    struct kvt_error err = {.text = ""};
    const enum kvt_err rc = advisor_jobs_stop_all(http->jobs, paused, &err);

    if (rc != KVT_OK)
        kvt_http_fail(response, status_of(rc), rc, "%s", err.text);
    else
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"paused\":%s}",
                          paused ? "true" : "false");
}

void
advisor_admin_pause_all(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response)
{
    (void)request;
    stop_all(arg, true, response);
}

void
advisor_admin_resume_all(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    (void)request;
    stop_all(arg, false, response);
}
