#include <inttypes.h>
#include <string.h>

#include "advisor/plan/plan_document.h"
#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/json.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/ops/cmd_tenant.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_file.h"
#include "cli/policy/cmd_policy_plan_private.h"
#include "cli/policy/policy_commands.h"
#include "cli/remote/admin_client.h"

#include "policy/file/policy_parse.h"

enum { PLAN_MODE = 0644, SHOWN_DIGEST = 16 };

/* ---- showing one ---- */

static void
print_sums(FILE *out, struct json_object *plan, const char *path, const char *title)
{
    const struct cli_column columns[] = {{title, false}, {"BLOCKS", true}, {"BYTES", true}};
    struct cli_table table;

    if (cli_json_count(plan, path) == 0)
        return;
    (void)fputc('\n', out);
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(plan, path); i++) {
        struct json_object *sum = cli_json_item(plan, path, i);
        char bytes[KVT_SIZE_TEXT_MAX];

        kvt_size_format(cli_json_u64(sum, "bytes"), bytes);
        cli_table_add(&table, "%s",
                      cli_json_text(sum, "name")[0] == '\0' ? CLI_TENANT_UNNAMED
                                                            : cli_json_text(sum, "name"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(sum, "blocks"));
        cli_table_add(&table, "%s", bytes);
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_quotas(FILE *out, struct json_object *plan)
{
    const struct cli_column columns[] = {{"QUOTA OF", false}, {"TIER", false}, {"BLOCKS", true},
                                         {"BYTES", true},     {"HAS", true},   {"WILL HAVE", true},
                                         {"SOFT", true},      {"HARD", true},  {"KEEPS OUT", true}};
    static const char *const sizes[] = {"bytes", "used_bytes", "left_bytes", "soft_bytes",
                                        "hard_bytes"};
    struct cli_table table;

    if (cli_json_count(plan, "summary.quotas") == 0)
        return;
    (void)fputc('\n', out);
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < cli_json_count(plan, "summary.quotas"); i++) {
        struct json_object *quota = cli_json_item(plan, "summary.quotas", i);

        cli_table_add(&table, "%s", cli_json_text(quota, "tenant"));
        cli_table_add(&table, "%s",
                      cli_json_text(quota, "tier")[0] == '\0' ? "all"
                                                              : cli_json_text(quota, "tier"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(quota, "blocks"));
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            char bytes[KVT_SIZE_TEXT_MAX];

            kvt_size_format(cli_json_u64(quota, sizes[k]), bytes);
            cli_table_add(&table, "%s", bytes);
        }
        cli_table_add(&table, "%" PRIu64 " blocks", cli_json_u64(quota, "refused_blocks"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_verb(FILE *out, struct json_object *plan, const char *verb)
{
    char path[64];
    char bytes[KVT_SIZE_TEXT_MAX];

    (void)snprintf(path, sizeof(path), "summary.verbs.%s", verb);
    if (cli_json_at(plan, path) == NULL)
        return;
    kvt_size_format(cli_json_u64(cli_json_at(plan, path), "bytes"), bytes);
    (void)fprintf(out, "%-9s%" PRIu64 " blocks, %s\n", verb,
                  cli_json_u64(cli_json_at(plan, path), "blocks"), bytes);
}

static void
print_eta(FILE *out, struct json_object *plan)
{
    const uint64_t seconds = cli_json_u64(plan, "summary.eta_s");

    if (seconds == 0)
        (void)fputs("unknown: no job moved anything yet", out);
    else if (seconds < 120)
        (void)fprintf(out, "about %" PRIu64 " s, as earlier jobs went", seconds);
    else
        (void)fprintf(out, "about %" PRIu64 " min, as earlier jobs went", seconds / 60);
}

void
cli_plan_print(FILE *out, struct json_object *plan)
{
    const char *base = cli_json_text(plan, "base_digest");
    const char *digest = cli_json_text(plan, "policy_digest");
    char bytes[KVT_SIZE_TEXT_MAX];

    kvt_size_format(cli_json_u64(plan, "summary.bytes"), bytes);
    (void)fprintf(out,
                  "plan     %.*s\npolicy   %.*s, %s %" PRIu64 "\nmoves    %" PRIu64
                  " blocks, %s, %" PRIu64 " requests\n",
                  SHOWN_DIGEST, cli_json_text(plan, "digest"), SHOWN_DIGEST, digest,
                  strcmp(base, digest) == 0 ? "in force as version"
                                            : "to be put in force after version",
                  cli_json_u64(plan, "base_version"), cli_json_u64(plan, "summary.blocks"), bytes,
                  cli_json_u64(plan, "summary.requests"));
    for (int verb = 1; verb <= KVT_ORDER_VERB_LAST; verb++)
        print_verb(out, plan, kvt_order_verb_name((enum kvt_order_verb)verb));
    (void)fputs("takes    ", out);
    print_eta(out, plan);
    (void)fprintf(out, "\ncosts    %.4f, by the policy's prices\n",
                  json_object_get_double(cli_json_at(plan, "summary.cost")));
    print_sums(out, plan, "summary.tiers", "TIER");
    print_sums(out, plan, "summary.rules", "RULE");
    print_sums(out, plan, "summary.tenants", "TENANT");
    print_sums(out, plan, "summary.classes", "CLASS");
    print_sums(out, plan, "summary.pins", "PINNED BY");
    print_quotas(out, plan);
    for (size_t i = 0; i < cli_json_count(plan, "summary.warnings"); i++)
        (void)fprintf(out, "%swarning  %s\n", i == 0 ? "\n" : "",
                      json_object_get_string(cli_json_item(plan, "summary.warnings", i)));
}

/* ---- verifying one ---- */

uint64_t
cli_plan_blocks(struct json_object *plan, const char *verb)
{
    uint64_t count = 0;

    for (size_t i = 0; i < cli_json_count(plan, "moves"); i++) {
        struct json_object *moves = cli_json_item(plan, "moves", i);

        if (verb == NULL || strcmp(cli_json_text(moves, "verb"), verb) == 0)
            count += cli_json_count(moves, "blocks");
    }
    return count;
}

static bool
add_moves(struct advisor_plan_digest *digest, struct json_object *moves)
{
    static const char *const keys[] = {"verb", "gateway", "tier", "namespace", "rule"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *text = kvt_json_string(moves, keys[i]);

        if (text == NULL)
            return false;
        advisor_plan_digest_text(digest, text);
    }
    if (kvt_json_has(moves, "to"))
        advisor_plan_digest_text(digest, cli_json_text(moves, "to"));
    for (size_t i = 0; i < cli_json_count(moves, "blocks"); i++) {
        struct json_object *block = cli_json_item(moves, "blocks", i);
        struct kvt_order_item item;
        uint64_t size;

        if (!json_object_is_type(block, json_type_string) ||
            !advisor_plan_block_parse(json_object_get_string(block), &item, &size))
            return false;
        advisor_plan_digest_text(digest, json_object_get_string(block));
    }
    return true;
}

enum kvt_err
cli_plan_is_none(struct kvt_error *err)
{
    return kvt_error_set(err, KVT_INVALID,
                         "this is no plan; make one: kvtier policy plan FILE --out plan.json");
}

/* Whoever signs anew what was changed can still show no other counts than what is done. */
static bool
sums_hold(struct json_object *plan)
{
    bool hold = cli_json_u64(plan, "summary.blocks") == cli_plan_blocks(plan, NULL);

    for (int verb = 1; verb <= KVT_ORDER_VERB_LAST; verb++) {
        const char *name = kvt_order_verb_name((enum kvt_order_verb)verb);
        char path[64];

        (void)snprintf(path, sizeof(path), "summary.verbs.%s.blocks", name);
        hold = hold && cli_json_u64(plan, path) == cli_plan_blocks(plan, name);
    }
    return hold;
}

enum kvt_err
cli_plan_verify(struct json_object *plan, struct kvt_error *err)
{
    const char *policy = kvt_json_string(plan, "policy");
    struct advisor_plan_digest *digest;
    char hex[ADVISOR_PLAN_DIGEST_MAX];
    bool good = true;

    if (strcmp(cli_json_text(plan, "kind"), "kvtier-plan") != 0 || policy == NULL)
        return cli_plan_is_none(err);
    if (advisor_rulebook_digest(policy, strlen(policy), hex) != KVT_OK)
        return kvt_error_set(err, KVT_NOMEM, "plan");
    good = strcmp(hex, cli_json_text(plan, "policy_digest")) == 0;
    digest = advisor_plan_digest_new();
    if (digest == NULL)
        return kvt_error_set(err, KVT_NOMEM, "plan");
    advisor_plan_digest_text(digest, "kvtier-plan 2");
    advisor_plan_digest_number(digest, cli_json_u64(plan, "created_ms"));
    advisor_plan_digest_number(digest, cli_json_u64(plan, "base_version"));
    advisor_plan_digest_text(digest, cli_json_text(plan, "base_digest"));
    advisor_plan_digest_text(digest, cli_json_text(plan, "policy_digest"));
    advisor_plan_digest_json(digest, cli_json_at(plan, "summary"));
    for (size_t i = 0; i < cli_json_count(plan, "moves") && good; i++)
        good = add_moves(digest, cli_json_item(plan, "moves", i));
    advisor_plan_digest_end(digest, hex);
    if (good && strcmp(hex, cli_json_text(plan, "digest")) == 0 && sums_hold(plan))
        return KVT_OK;
    return kvt_error_set(err, KVT_CORRUPT,
                         "the plan was changed since it was made: its content does not fit its "
                         "digest; make it anew: kvtier policy plan");
}

/* ---- making one ---- */

/* All that is wrong with the policy is told with its line, before anything is sent. */
static enum cli_exit
check_first(const struct cli_context *context, const char *path)
{
    struct policy *policy = NULL;
    enum cli_exit status = CLI_EXIT_DONE;

    if (path != NULL)
        status = cli_policy_file_load(context, path, &policy);
    policy_free(policy);
    return status;
}

static enum kvt_err
question_of(const char *path, struct json_object **body, struct kvt_error *err)
{
    size_t size = 0;
    char *text;
    enum kvt_err rc;

    *body = json_object_new_object();
    if (path == NULL)
        return KVT_OK;
    rc = kvt_file_read(&text, &size, path, KVT_YAML_FILE_MAX, err);
    if (rc == KVT_OK)
        (void)json_object_object_add(*body, "policy", json_object_new_string_len(text, (int)size));
    kvt_free(text);
    return rc;
}

static enum cli_exit
save(const struct cli_context *context, struct json_object *plan, const char *path)
{
    const char *text = json_object_to_json_string_ext(plan, JSON_C_TO_STRING_PLAIN |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE);
    struct kvt_error err = {0};

    if (kvt_file_write(path, text, strlen(text), PLAN_MODE, &err) != KVT_OK)
        return cli_context_fail(context, &err);
    if (!context->json)
        (void)fprintf(context->out, "\nsaved as %s; do it: kvtier policy apply %s --yes\n", path,
                      path);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_plan_make(const struct cli_context *context)
{
    const char *policy = context->argument_count > 0 ? context->arguments[0] : NULL;
    const char *out = kvt_config_string(context->options, CLI_PLAN_OUT);
    struct json_object *answer = NULL;
    struct json_object *body;
    struct kvt_error err = {0};
    enum cli_exit status = check_first(context, policy);

    if (status != CLI_EXIT_DONE)
        return status;
    if (question_of(policy, &body, &err) != KVT_OK)
        status = cli_context_fail(context, &err);
    else if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/plan", body, true, &answer, &err) !=
             KVT_OK)
        status = cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    else if (cli_plan_verify(answer, &err) != KVT_OK)
        status = cli_context_fail(context, &err);
    else if (context->json)
        cli_json_print(context->out, answer);
    else
        cli_plan_print(context->out, answer);
    if (status == CLI_EXIT_DONE && out[0] != '\0')
        status = save(context, answer, out);
    (void)json_object_put(answer);
    (void)json_object_put(body);
    return status;
}
