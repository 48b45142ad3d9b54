#include <inttypes.h>
#include <string.h>

#include "advisor/plan/plan_document.h"
#include "advisor/store/job_rows.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/text/json.h"
#include "cli/frame/options.h"
#include "cli/ops/cmd_migrate.h"
#include "cli/output/cli_json.h"
#include "cli/policy/cmd_policy_plan_private.h"
#include "cli/policy/policy_commands.h"
#include "cli/remote/admin_client.h"

#include "policy/file/policy_parse.h"

/* What happens in this order, and can be killed anywhere in it: the moves are given as one job in
 * parts, which does not begin; the policy is put in force if it is another one; the job begins.
 * The job's key is the plan's digest, so whoever runs it again goes on where it was.  The policy
 * comes behind the moves: once it acts by itself, fewer blocks are where the plan says. */

enum {
    AGE_MAX_MS = 24 * 3600 * 1000, /* of a plan that is begun */
    MOVED_MAX_PERCENT = 5,         /* of its blocks, that are no longer where it says */
    PART_BATCHES = 32,             /* of up to 1,024 blocks each: two or three MiB of JSON */
    KEY_MAX = ADVISOR_JOB_KEY_MAX,
    PLAN_SIZE_MAX = 64 << 20,
};

struct applying {
    const struct cli_context *context;
    struct json_object *plan;
    char key[KEY_MAX];
    uint64_t version; /* in force */
    bool in_force;    /* it has the plan's policy */
    uint64_t job;     /* 0: not given yet */
    uint32_t parts;   /* of it that the advisor has */
    char state[16];   /* of it */
    bool filling;
};

static enum kvt_err
ask(const struct applying *applying, const char *path, struct json_object *body, bool token,
    struct json_object **answer, struct kvt_error *err)
{
    return cli_admin_ask(applying->context, CLI_ADMIN_ADVISOR, path, body, token, answer, err);
}

/* ---- where things stand ---- */

static enum kvt_err
look_at_policy(struct applying *applying, struct kvt_error *err)
{
    struct json_object *answer;
    const enum kvt_err rc = ask(applying, "/v1/policy", NULL, false, &answer, err);

    if (rc != KVT_OK)
        return rc;
    applying->version = cli_json_u64(answer, "version");
    applying->in_force = strcmp(cli_json_text(answer, "digest"),
                                cli_json_text(applying->plan, "policy_digest")) == 0;
    (void)json_object_put(answer);
    return KVT_OK;
}

static void
note_job(struct applying *applying, struct json_object *job)
{
    applying->job = cli_json_u64(job, "id");
    applying->parts = (uint32_t)cli_json_u64(job, "parts");
    (void)snprintf(applying->state, sizeof(applying->state), "%s", cli_json_text(job, "state"));
    applying->filling = strcmp(applying->state, "filling") == 0;
}

static enum kvt_err
look_at_job(struct applying *applying, struct kvt_error *err)
{
    char path[KEY_MAX + 32];
    struct json_object *answer;
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "/v1/jobs?key=%s", applying->key);
    rc = ask(applying, path, NULL, false, &answer, err);
    if (rc != KVT_OK)
        return rc;
    if (cli_json_count(answer, "jobs") > 0)
        note_job(applying, cli_json_item(answer, "jobs", 0));
    (void)json_object_put(answer);
    return KVT_OK;
}

/* ---- was it done before? ---- */

static bool
was_given(const struct applying *applying)
{
    return applying->job != 0 && !applying->filling;
}

/* A job begins behind its policy, so under another one now the plan is a thing of the past.  The
 * policy is asked for once more: whoever began the job may have changed it since we looked. */
static enum kvt_err
check_past(struct applying *applying, struct kvt_error *err)
{
    const enum kvt_err rc =
        was_given(applying) && !applying->in_force ? look_at_policy(applying, err) : KVT_OK;

    if (rc != KVT_OK || !was_given(applying) || applying->in_force)
        return rc;
    return kvt_error_set(err, KVT_PRECONDITION,
                         "the plan was given as job %" PRIu64 ", which is %s; version %" PRIu64
                         " of the policy is in force since; make it anew: kvtier policy plan",
                         applying->job, applying->state, applying->version);
}

/* ---- may it be begun? ---- */

static enum kvt_err
check_limit(const struct applying *applying, struct kvt_error *err)
{
    const char *text = kvt_json_string(applying->plan, "policy");
    const uint64_t deletes = cli_plan_blocks(applying->plan, "delete");
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct policy *policy = NULL;
    uint64_t limit = 0;
    enum kvt_err rc;

    if (problems == NULL)
        return kvt_error_set(err, KVT_NOMEM, "plan");
    rc = policy_parse(&policy, "policy", text, strlen(text), problems, err);
    if (rc == KVT_OK)
        limit = policy->modes.max_delete;
    else
        rc = kvt_error_set(err, rc, "the plan's policy cannot be read");
    policy_free(policy);
    kvt_free(problems);
    if (kvt_config_is_set(applying->context->options, CLI_APPLY_MAX_DELETE))
        limit = kvt_config_u64(applying->context->options, CLI_APPLY_MAX_DELETE);
    else if (limit == 0)
        return rc;
    if (rc == KVT_OK && deletes > limit)
        return kvt_error_set(err, KVT_FULL,
                             "it deletes %" PRIu64 " blocks and %" PRIu64
                             " are allowed; --max-delete %" PRIu64 " allows it",
                             deletes, limit, deletes);
    return rc;
}

/* Some of the plan's batches as the body of a request. */
static struct json_object *
batches_of(const struct applying *applying, size_t from, size_t count)
{
    struct json_object *body = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = from; i < from + count && i < cli_json_count(applying->plan, "moves"); i++)
        (void)json_object_array_add(list,
                                    json_object_get(cli_json_item(applying->plan, "moves", i)));
    (void)json_object_object_add(body, "moves", list);
    return body;
}

static enum kvt_err
check_places(const struct applying *applying, struct kvt_error *err)
{
    const size_t batches = cli_json_count(applying->plan, "moves");
    uint64_t blocks = 0;
    uint64_t moved = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; at < batches && rc == KVT_OK; at += PART_BATCHES) {
        struct json_object *body = batches_of(applying, at, PART_BATCHES);
        struct json_object *answer;

        rc = ask(applying, "/v1/plan/check", body, false, &answer, err);
        if (rc == KVT_OK) {
            blocks += cli_json_u64(answer, "blocks");
            moved += cli_json_u64(answer, "moved");
        }
        (void)json_object_put(answer);
        (void)json_object_put(body);
    }
    if (rc == KVT_OK && moved * 100 > blocks * MOVED_MAX_PERCENT)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "the plan is stale: %" PRIu64 " of %" PRIu64
                             " blocks are no longer where it says; make it anew: kvtier policy "
                             "plan",
                             moved, blocks);
    return rc;
}

static enum kvt_err
check_stale(const struct applying *applying, struct kvt_error *err)
{
    const uint64_t base = cli_json_u64(applying->plan, "base_version");
    const uint64_t made_ms = cli_json_u64(applying->plan, "created_ms");

    /* Ours, put in force before somebody killed us, or an untouched base. */
    if (applying->version != base && !(applying->in_force && applying->version == base + 1))
        return kvt_error_set(err, KVT_PRECONDITION,
                             "the plan is stale: version %" PRIu64
                             " of the policy is in force, it was made under %" PRIu64
                             "; make it anew: kvtier policy plan",
                             applying->version, base);
    if (kvt_clock_unix_ms() > made_ms + AGE_MAX_MS)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "the plan is stale: it is older than a day; make it anew: kvtier "
                             "policy plan");
    return check_places(applying, err);
}

/* ---- doing it ---- */

static enum kvt_err
install(struct applying *applying, struct kvt_error *err)
{
    const char *text = kvt_json_string(applying->plan, "policy");
    char expected[48];
    const char *const headers[] = {expected, NULL};
    const struct cli_admin_request request = {.method = "PUT",
                                              .path = "/v1/policy",
                                              .type = "application/yaml",
                                              .body = text,
                                              .body_size = strlen(text),
                                              .headers = headers};
    struct kvt_error again;
    struct json_object *answer;
    enum kvt_err rc;

    if (applying->in_force)
        return KVT_OK;
    (void)snprintf(expected, sizeof(expected), "If-Match: %" PRIu64,
                   cli_json_u64(applying->plan, "base_version"));
    rc = cli_admin_send(applying->context, CLI_ADMIN_ADVISOR, &request, &answer, err);
    if (rc == KVT_OK)
        applying->version = cli_json_u64(answer, "version");
    (void)json_object_put(answer);
    /* Another apply of this plan, or one that was killed, may have been quicker. */
    if (rc == KVT_PRECONDITION && look_at_policy(applying, &again) == KVT_OK && applying->in_force)
        return KVT_OK;
    return rc;
}

/* The next part; the one behind all batches is empty and begins the job. */
static enum kvt_err
give_part(struct applying *applying, bool last, struct kvt_error *err)
{
    struct json_object *body =
        batches_of(applying, (size_t)applying->parts * PART_BATCHES, PART_BATCHES);
    const uint32_t part = applying->parts;
    struct json_object *answer;
    char title[32];
    enum kvt_err rc;

    (void)snprintf(title, sizeof(title), "%.16s", cli_json_text(applying->plan, "digest"));
    (void)json_object_object_add(body, "kind", json_object_new_string("plan"));
    (void)json_object_object_add(body, "title", json_object_new_string(title));
    (void)json_object_object_add(body, "key", json_object_new_string(applying->key));
    (void)json_object_object_add(body, "part", json_object_new_uint64(part));
    (void)json_object_object_add(body, "more", json_object_new_boolean(!last));
    (void)json_object_object_add(body, "policy_version", json_object_new_uint64(applying->version));
    rc = ask(applying, "/v1/jobs", body, true, &answer, err);
    if (rc == KVT_OK)
        note_job(applying, cli_json_at(answer, "job"));
    (void)json_object_put(answer);
    (void)json_object_put(body);
    if (rc == KVT_OK && applying->filling && applying->parts <= part)
        return kvt_error_set(err, KVT_IO, "the advisor did not take part %u of the plan", part);
    return rc;
}

static enum kvt_err
give(struct applying *applying, struct kvt_error *err)
{
    const bool drawn = cli_context_interactive(applying->context);
    const size_t parts =
        (cli_json_count(applying->plan, "moves") + PART_BATCHES - 1) / PART_BATCHES;
    enum kvt_err rc = KVT_OK;

    if (applying->job != 0 && !applying->filling)
        return KVT_OK;
    while (rc == KVT_OK && applying->parts < parts) {
        rc = give_part(applying, false, err);
        if (rc == KVT_OK && drawn)
            (void)fprintf(applying->context->err, "\r\033[K%u of %zu parts given", applying->parts,
                          parts);
    }
    if (drawn)
        (void)fputs("\r\033[K", applying->context->err);
    if (rc == KVT_OK)
        rc = install(applying, err);
    return rc == KVT_OK ? give_part(applying, true, err) : rc;
}

/* ---- the command ---- */

static enum kvt_err
load(struct applying *applying, const char *path, struct kvt_error *err)
{
    size_t size = 0;
    char *text;
    enum kvt_err rc = kvt_file_read(&text, &size, path, PLAN_SIZE_MAX, err);

    /* A policy, most likely; of a plan that is cut somewhere the place is told. */
    if (rc == KVT_OK && text[strspn(text, " \t\r\n")] != '{')
        rc = cli_plan_is_none(err);
    if (rc == KVT_OK)
        rc = kvt_json_parse(&applying->plan, text, size, path, err);
    kvt_free(text);
    if (rc == KVT_OK)
        rc = cli_plan_verify(applying->plan, err);
    if (rc == KVT_OK)
        (void)snprintf(applying->key, sizeof(applying->key), "plan:%.64s",
                       cli_json_text(applying->plan, "digest"));
    return rc;
}

static enum cli_exit
end(const struct applying *applying)
{
    if (applying->job != 0 && !kvt_config_bool(applying->context->options, CLI_APPLY_DETACH))
        return cli_migrate_follow(applying->context, applying->job);
    if (!applying->context->json)
        (void)fprintf(applying->context->out,
                      "job %" PRIu64 " has it; look at it: kvtier migrate status %" PRIu64 "\n",
                      applying->job, applying->job);
    return CLI_EXIT_DONE;
}

/* Without --yes: what it would be, and what was done of it before. */
static enum cli_exit
show(const struct applying *applying)
{
    const struct cli_context *context = applying->context;

    cli_plan_print(context->json ? context->err : context->out, applying->plan);
    if (was_given(applying))
        (void)fprintf(context->err,
                      "it was given as job %" PRIu64
                      ", which is %s; look at it: kvtier migrate status %" PRIu64 "\n",
                      applying->job, applying->state, applying->job);
    else if (applying->job != 0)
        (void)fprintf(context->err, "nothing was done; --yes goes on with job %" PRIu64 "\n",
                      applying->job);
    else
        (void)fprintf(context->err, "nothing was done; --yes does it\n");
    return CLI_EXIT_PENDING;
}

static enum cli_exit
apply(struct applying *applying)
{
    const struct cli_context *context = applying->context;
    struct kvt_error err = {0};
    struct kvt_error again;
    enum cli_exit status;
    enum kvt_err rc = load(applying, context->arguments[0], &err);

    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    rc = look_at_policy(applying, &err);
    if (rc == KVT_OK)
        rc = look_at_job(applying, &err);
    /* What was begun was checked; the world moves with it. */
    if (rc == KVT_OK && applying->job == 0)
        rc = check_limit(applying, &err);
    if (rc == KVT_OK && applying->job == 0)
        rc = check_stale(applying, &err);
    /* Somebody else may have begun it since: then it is stale because it is being done. */
    if (rc == KVT_PRECONDITION && look_at_job(applying, &again) == KVT_OK && applying->job != 0)
        rc = KVT_OK;
    if (rc == KVT_OK)
        rc = check_past(applying, &err);
    if (rc == KVT_OK && !kvt_config_bool(context->options, CLI_APPLY_YES))
        return show(applying);
    if (rc == KVT_OK)
        rc = give(applying, &err);
    if (rc == KVT_OK)
        return end(applying);
    status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (applying->job != 0 && applying->filling)
        (void)fprintf(context->err,
                      "kvtier: job %" PRIu64
                      " has a part of the plan and does nothing before it is "
                      "whole: run this again, or end it: kvtier migrate cancel %" PRIu64 "\n",
                      applying->job, applying->job);
    return status;
}

enum cli_exit
cli_plan_apply(const struct cli_context *context)
{
    struct applying applying = {.context = context};
    const enum cli_exit status = apply(&applying);

    (void)json_object_put(applying.plan);
    return status;
}
