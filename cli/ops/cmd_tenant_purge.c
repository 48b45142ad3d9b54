#include "cli/ops/cmd_tenant_purge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/options.h"
#include "cli/ops/cmd_tenant.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"

enum {
    CURSOR_MAX = 1024,
    STUCK_MAX = 10, /* rounds one after another that removed nothing of what they found */
    BUSY_MAX = 6,   /* rounds one after another that found something new */
    PAUSE_MS = 1000,
};

/* ---- passes ---- */

static void
take(struct cli_purge_gateway *gateway, struct json_object *answer)
{
    struct json_object *found = cli_json_at(answer, "found");
    struct cli_purge_pass *pass = &gateway->last;

    (void)snprintf(gateway->name, sizeof(gateway->name), "%s", cli_json_text(answer, "gateway"));
    for (size_t i = 0; i < CLI_PURGE_PLACES; i++) {
        const uint64_t count = cli_json_u64(found, cli_purge_places[i].name);

        pass->found[i] += count;
        pass->sum += count;
    }
    pass->removed += cli_json_u64(answer, "removed");
    pass->failed += cli_json_u64(answer, "failed");
    pass->versions = pass->versions || cli_json_bool(answer, "versions");
    (void)snprintf(pass->uploads_by, sizeof(pass->uploads_by), "%s",
                   cli_json_text(answer, "uploads_by"));
    if (pass->text[0] == '\0')
        (void)snprintf(pass->text, sizeof(pass->text), "%s", cli_json_text(answer, "text"));
}

/* Everywhere at one gateway once. */
static enum kvt_err
run_pass(struct cli_purge *purge, struct cli_purge_gateway *gateway, bool act,
         struct kvt_error *err)
{
    struct cli_context context = *purge->context;
    char cursor[CURSOR_MAX] = "";
    enum kvt_err rc = KVT_OK;

    context.gateway_url = gateway->url;
    gateway->last = (struct cli_purge_pass){.sum = 0};
    do {
        struct json_object *body = json_object_new_object();
        struct json_object *answer = NULL;

        (void)json_object_object_add(body, "namespace", json_object_new_string(purge->namespace_));
        (void)json_object_object_add(body, "act", json_object_new_boolean(act));
        (void)json_object_object_add(body, "cursor", json_object_new_string(cursor));
        rc = cli_admin_ask(&context, CLI_ADMIN_GATEWAY, "/v1/purge", body, true, &answer, err);
        (void)json_object_put(body);
        if (rc == KVT_OK) {
            take(gateway, answer);
            (void)snprintf(cursor, sizeof(cursor), "%s", cli_json_text(answer, "cursor"));
        }
        (void)json_object_put(answer);
        if (rc == KVT_OK && cli_context_interactive(&context))
            (void)fprintf(context.err, "\r%s, pass %u: %" PRIu64 " found, %" PRIu64 " removed  ",
                          gateway->name, purge->passes + 1, gateway->last.sum,
                          gateway->last.removed);
    } while (rc == KVT_OK && cursor[0] != '\0');
    purge->removed += gateway->last.removed;
    return rc;
}

/* Was it asked under another address already? */
static bool
is_twice(const struct cli_purge *purge, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(purge->gateways[i].name, purge->gateways[at].name) == 0)
            return true;
    return false;
}

struct round {
    uint64_t found;
    uint64_t removed;
    uint64_t failed;
};

/* A pass at each gateway.  One that does not answer is asked no more, and nothing is proven of it;
 * the only one there is, or the last that answered, fails the whole. */
static enum kvt_err
run_round(struct cli_purge *purge, bool act, struct round *round, struct kvt_error *err)
{
    size_t asked = 0;

    *round = (struct round){.found = 0};
    for (size_t i = 0; i < purge->gateway_count;) {
        struct cli_purge_gateway *gateway = &purge->gateways[i];

        if (gateway->lost.code != KVT_OK) {
            i++;
            continue;
        }
        if (run_pass(purge, gateway, act, &gateway->lost) == KVT_OK) {
            if (is_twice(purge, i)) {
                purge->gateway_count--;
                memmove(gateway, gateway + 1, (purge->gateway_count - i) * sizeof(*gateway));
                continue;
            }
            asked++;
            round->found += gateway->last.sum;
            round->removed += gateway->last.removed;
            round->failed += gateway->last.failed;
        }
        i++;
    }
    purge->passes++;
    if (asked > 0)
        return KVT_OK;
    *err = purge->gateways[0].lost;
    return err->code;
}

/* Until a round finds nothing, nothing can be done about what it finds, or what it finds is new
 * each time: who writes faster than this must be stopped. */
static enum kvt_err
run_rounds(struct cli_purge *purge, struct kvt_error *err)
{
    unsigned stuck = 0;
    unsigned busy = 0;

    for (;;) {
        struct round round;
        const enum kvt_err rc = run_round(purge, true, &round, err);

        if (rc != KVT_OK || (round.found == 0 && round.failed == 0))
            return rc;
        stuck = round.removed > 0 ? 0 : stuck + 1;
        busy = round.removed > 0 ? busy + 1 : 0;
        purge->came_back = busy == BUSY_MAX;
        if (stuck == STUCK_MAX || purge->came_back)
            return KVT_OK;
        if (stuck > 0 || busy > 1)
            kvt_clock_sleep_ms(PAUSE_MS);
    }
}

/* ---- the command ---- */

/* What there is, and nothing is done about it. */
static enum cli_exit
show(struct cli_purge *purge)
{
    FILE *out = purge->context->out;
    const struct cli_purge_gateway *only = &purge->gateways[0];
    struct kvt_error err = {0};
    struct round round;
    bool lost = false;

    if (run_round(purge, false, &round, &err) != KVT_OK)
        return cli_admin_fail(purge->context, CLI_ADMIN_GATEWAY, &err);
    purge->removed = 0;
    for (size_t i = 0; i < purge->gateway_count; i++)
        lost = lost || purge->gateways[i].lost.code != KVT_OK;
    if (purge->context->json) {
        cli_purge_check_found(purge);
        cli_purge_print(purge, false);
    } else if (round.found == 0 && round.failed == 0 && !lost && purge->gateway_count == 1) {
        (void)fprintf(out, "nothing of %s %s was found at %s; who is known: kvtier tenant usage\n",
                      strchr(purge->namespace_, '/') == NULL ? "tenant" : "namespace",
                      purge->namespace_, only->name);
    } else {
        for (size_t at = 0; at < purge->gateway_count; at++) {
            const struct cli_purge_gateway *gateway = &purge->gateways[at];

            if (purge->gateway_count > 1)
                (void)fprintf(out, "%s%s\n", at > 0 ? "\n" : "",
                              gateway->name[0] == '\0' ? gateway->url : gateway->name);
            if (gateway->lost.code != KVT_OK) {
                (void)fprintf(out, "            %s\n", gateway->lost.text);
                continue;
            }
            for (size_t i = 0; i < CLI_PURGE_PLACES; i++)
                (void)fprintf(out, "%10" PRIu64 "  %s\n", gateway->last.found[i],
                              cli_purge_places[i].text);
            if (gateway->last.failed > 0)
                (void)fprintf(out, "%10" PRIu64 "  could not be looked at: %s\n",
                              gateway->last.failed, gateway->last.text);
        }
    }
    if (round.failed > 0 || lost)
        return CLI_EXIT_INTEGRITY;
    return round.found == 0 ? CLI_EXIT_NOTHING : CLI_EXIT_PENDING;
}

/* True: go on. */
static bool
ask_person(const struct cli_purge *purge)
{
    char line[CLI_PURGE_LINE_MAX];

    (void)fprintf(purge->context->err,
                  "Everything of %s is deleted for good, pinned or not. Its name to go on: ",
                  purge->namespace_);
    if (fgets(line, sizeof(line), stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, purge->namespace_) == 0;
}

static enum cli_exit
act(struct cli_purge *purge)
{
    struct kvt_error err = {0};
    struct round round;
    enum kvt_err rc;

    rc = run_rounds(purge, &err);
    if (rc == KVT_OK) {
        cli_purge_check_index(purge);
        rc = run_round(purge, false, &round, &err); /* what came while the index settled */
    }
    if (cli_context_interactive(purge->context))
        (void)fputc('\n', purge->context->err);
    if (rc != KVT_OK) {
        (void)fprintf(purge->context->err, "kvtier: not finished; run it again\n");
        return cli_admin_fail(purge->context, CLI_ADMIN_GATEWAY, &err);
    }
    cli_purge_check_gateways(purge);
    cli_purge_print(purge, purge->unproven == 0);
    return purge->unproven == 0 ? CLI_EXIT_DONE : CLI_EXIT_INTEGRITY;
}

/* False: an address is too long, or there are too many. */
static bool
add_gateways(struct cli_purge *purge, const char *urls)
{
    while (*urls != '\0') {
        const size_t size = strcspn(urls, ",");

        if (size >= CLI_PURGE_URL_MAX || purge->gateway_count == CLI_PURGE_GATEWAYS_MAX)
            return false;
        if (size > 0)
            (void)snprintf(purge->gateways[purge->gateway_count++].url, CLI_PURGE_URL_MAX, "%.*s",
                           (int)size, urls);
        urls += size + (urls[size] == ',');
    }
    return true;
}

static enum cli_exit
run(struct cli_purge *purge)
{
    const struct cli_context *context = purge->context;

    if (!add_gateways(purge, cli_admin_url(context, CLI_ADMIN_GATEWAY)) ||
        !add_gateways(purge, kvt_config_string(context->settings, CLI_SETTING_GATEWAY_OTHERS)))
        return cli_context_usage(context, "at most %d gateways, addresses of %d bytes",
                                 CLI_PURGE_GATEWAYS_MAX, CLI_PURGE_URL_MAX - 1);
    if (kvt_config_bool(context->options, CLI_TENANT_PURGE_DRY_RUN))
        return show(purge);
    if (kvt_config_bool(context->options, CLI_TENANT_PURGE_YES))
        return act(purge);
    if (isatty(STDIN_FILENO) != 1)
        return cli_context_usage(context, "tenant purge wants --yes where nobody can be asked; "
                                          "--dry-run says what there is");
    if (ask_person(purge))
        return act(purge);
    (void)fprintf(context->err, "kvtier: nothing was changed\n");
    return CLI_EXIT_FAILED;
}

enum cli_exit
cli_tenant_purge(const struct cli_context *context)
{
    const char *model = kvt_config_string(context->options, CLI_TENANT_PURGE_MODEL);
    const char *tenant = context->arguments[0];
    struct cli_purge *purge;
    enum cli_exit status;
    int size;

    if (strcmp(tenant, CLI_TENANT_UNNAMED) == 0)
        return cli_context_usage(context,
                                 "\"-\" is what belongs to no tenant, and cannot be purged as one; "
                                 "see it: kvtier tenant usage -; delete it from a block on: kvtier "
                                 "prefix purge HASH");
    if (tenant[0] == '\0' || strchr(tenant, '/') != NULL)
        return cli_context_usage(context,
                                 "\"%.80s\" is no tenant: the first part of a namespace; "
                                 "--model names the rest",
                                 tenant);
    purge = kvt_calloc(1, sizeof(*purge));
    if (purge == NULL)
        return cli_context_fail(context,
                                &(struct kvt_error){.code = KVT_NOMEM, .text = "out of memory"});
    purge->context = context;
    purge->checks = json_object_new_array();
    size = snprintf(purge->namespace_, sizeof(purge->namespace_), "%s%s%s", tenant,
                    model[0] == '\0' ? "" : "/", model);
    status = size < 0 || (size_t)size >= sizeof(purge->namespace_)
                 ? cli_context_usage(context, "the name is too long")
                 : run(purge);
    (void)json_object_put(purge->checks);
    kvt_free(purge);
    return status;
}
