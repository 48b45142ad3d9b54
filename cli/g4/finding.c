#include "cli/g4/finding.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "kvtier/key.h"

/* What a reader can meet; the rest is in nobody's way. */
static bool
is_integrity(const char *finding)
{
    static const char *const words[] = {
        "row-without-object", "row-without-file", "damaged", "swapped",
        "file-damaged",       "meta-without-data"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(finding, words[i]) == 0)
            return true;
    return false;
}

static void
tally(struct cli_findings *findings, const char *finding)
{
    size_t i = 0;

    findings->found++;
    while (i < CLI_FINDING_KINDS - 1 && findings->kinds[i].word[0] != '\0' &&
           strcmp(findings->kinds[i].word, finding) != 0)
        i++;
    if (findings->kinds[i].word[0] == '\0')
        (void)snprintf(findings->kinds[i].word, sizeof(findings->kinds[i].word), "%s",
                       i == CLI_FINDING_KINDS - 1 ? "others" : finding);
    findings->kinds[i].count++;
}

static void
print(struct cli_findings *findings, struct json_object *seen, const char *done, const char *why)
{
    FILE *out = findings->context->out;

    if (cli_context_interactive(findings->context))
        (void)fputc('\r', findings->context->err);
    if (findings->context->json) {
        cli_json_print(out, seen);
        return;
    }
    if (findings->found == 1)
        (void)fprintf(out, "%-20s  %-4s  %-10s  %s\n", "FINDING", "TIER", "REMEDY", "KEY");
    (void)fprintf(out, "%-20s  %-4s  %-10s  ", cli_json_text(seen, "finding"),
                  cli_json_text(seen, "tier"), done);
    cli_table_text(out, cli_json_text(seen, "key"));
    (void)fputs(": ", out);
    cli_table_text(out, cli_json_text(seen, "text"));
    if (why[0] != '\0') {
        (void)fputs("; not done: ", out);
        cli_table_text(out, why);
    }
    (void)fputc('\n', out);
}

static bool
is_wanted(const struct cli_findings *findings, const char *remedy)
{
    char word[CLI_FINDING_WORD_MAX + 2];

    if (!findings->act || remedy[0] == '\0')
        return false;
    (void)snprintf(word, sizeof(word), "|%.*s|", CLI_FINDING_WORD_MAX - 1, remedy);
    return strstr(findings->only, word) != NULL;
}

static enum kvt_err
repair(struct cli_findings *findings, const char *key, struct json_object **answer,
       struct kvt_error *err)
{
    struct json_object *body = json_object_new_object();
    enum kvt_err rc;

    (void)json_object_object_add(body, "key", json_object_new_string(key));
    (void)json_object_object_add(body, "older_ms", json_object_new_uint64(findings->older_ms));
    (void)json_object_object_add(body, "alone", json_object_new_boolean(findings->alone));
    rc = cli_admin_ask(findings->context, CLI_ADMIN_GATEWAY, "/v1/repair", body, true, answer, err);
    (void)json_object_put(body);
    return rc;
}

/* A repair that could not look again did not find that all is well: what was seen before counts. */
static void
keep_seen(struct json_object *answer, struct json_object *seen)
{
    static const char *const names[] = {"finding", "tier", "text", "remedy"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)json_object_object_add(answer, names[i],
                                     json_object_new_string(cli_json_text(seen, names[i])));
}

/* Count what was seen, act when that is wanted, and show what came of it. */
static enum kvt_err
handle(struct cli_findings *findings, const char *key, struct json_object *seen,
       struct kvt_error *err)
{
    const char *finding = cli_json_text(seen, "finding");
    struct json_object *answer = NULL;
    bool done;
    enum kvt_err rc;

    if (strcmp(finding, "none") == 0)
        return KVT_OK;
    if (strcmp(cli_json_text(seen, "remedy"), "collect") == 0 &&
        cli_json_u64(seen, "age_ms") < findings->older_ms) {
        findings->young++;
        return KVT_OK;
    }
    if (!is_wanted(findings, cli_json_text(seen, "remedy"))) {
        tally(findings, finding);
        findings->integrity += is_integrity(finding);
        print(findings, seen,
              cli_json_text(seen, "remedy")[0] == '\0' ? "-" : cli_json_text(seen, "remedy"), "");
        return KVT_OK;
    }
    rc = repair(findings, key, &answer, err);
    if (rc != KVT_OK)
        return rc;
    done = cli_json_bool(answer, "done");
    if (strcmp(cli_json_text(answer, "finding"), "none") == 0 && !done)
        keep_seen(answer, seen);
    finding = cli_json_text(answer, "finding");
    if (strcmp(finding, "none") != 0) { /* it may have gone by itself */
        tally(findings, finding);
        findings->repaired += done;
        findings->failed += !done;
        findings->integrity += !done && is_integrity(finding);
        print(findings, answer, done ? "done" : "FAILED", cli_json_text(answer, "why_not"));
    }
    (void)json_object_put(answer);
    return KVT_OK;
}

enum kvt_err
cli_finding_ask(struct cli_findings *findings, const char *key, struct kvt_error *err)
{
    struct json_object *seen = NULL;
    struct kvt_buffer path;
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/inspect/");
    cli_admin_escape(&path, key, true);
    if (kvt_buffer_ok(&path))
        rc = cli_admin_ask(findings->context, CLI_ADMIN_GATEWAY, kvt_buffer_text(&path), NULL,
                           false, &seen, err);
    else
        rc = kvt_error_set(err, KVT_RANGE, "a key has at most %d bytes", KVT_KEY_MAX - 1);
    kvt_buffer_release(&path);
    if (rc == KVT_OK)
        rc = handle(findings, key, seen, err);
    (void)json_object_put(seen);
    return rc;
}

void
cli_finding_report(struct cli_findings *findings, const char *finding, const char *key,
                   const char *text, const char *remedy, const char *why_not)
{
    const bool done = why_not != NULL && why_not[0] == '\0';
    struct json_object *seen = json_object_new_object();

    (void)json_object_object_add(seen, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(seen, "key", json_object_new_string(key));
    (void)json_object_object_add(seen, "finding", json_object_new_string(finding));
    (void)json_object_object_add(seen, "tier", json_object_new_string("cold"));
    (void)json_object_object_add(seen, "text", json_object_new_string(text));
    (void)json_object_object_add(seen, "remedy", json_object_new_string(remedy));
    if (why_not != NULL) {
        (void)json_object_object_add(seen, "done", json_object_new_boolean(done));
        (void)json_object_object_add(seen, "why_not", json_object_new_string(why_not));
        findings->repaired += done;
        findings->failed += !done;
    }
    tally(findings, finding);
    findings->integrity += !done && is_integrity(finding);
    if (why_not != NULL)
        print(findings, seen, done ? "done" : "FAILED", why_not);
    else
        print(findings, seen, remedy[0] == '\0' ? "-" : remedy, "");
    (void)json_object_put(seen);
}

void
cli_finding_show(struct cli_findings *findings, const char *finding, const char *key,
                 const char *text)
{
    cli_finding_report(findings, finding, key, text, "", NULL);
}

static void
print_summary_json(const struct cli_findings *findings, uint64_t keys)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *kinds = json_object_new_object();

    for (size_t i = 0; i < CLI_FINDING_KINDS && findings->kinds[i].count > 0; i++)
        (void)json_object_object_add(kinds, findings->kinds[i].word,
                                     json_object_new_uint64(findings->kinds[i].count));
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "keys", json_object_new_uint64(keys));
    (void)json_object_object_add(answer, "findings", kinds);
    (void)json_object_object_add(answer, "young", json_object_new_uint64(findings->young));
    (void)json_object_object_add(answer, "repaired", json_object_new_uint64(findings->repaired));
    (void)json_object_object_add(answer, "failed", json_object_new_uint64(findings->failed));
    cli_json_print(findings->context->out, answer);
    (void)json_object_put(answer);
}

void
cli_finding_summary(const struct cli_findings *findings, uint64_t keys, const char *advice)
{
    FILE *err = findings->context->err;

    if (findings->context->json) {
        print_summary_json(findings, keys);
        return;
    }
    (void)fprintf(
        err, "%s%" PRIu64 " keys: ", cli_context_interactive(findings->context) ? "\r" : "", keys);
    for (size_t i = 0; i < CLI_FINDING_KINDS && findings->kinds[i].count > 0; i++)
        (void)fprintf(err, "%s%" PRIu64 " %s", i == 0 ? "" : ", ", findings->kinds[i].count,
                      findings->kinds[i].word);
    if (findings->young > 0)
        (void)fprintf(err, "%s%" PRIu64 " too young", findings->found > 0 ? ", " : "",
                      findings->young);
    if (findings->found == 0)
        (void)fprintf(err, "%s\n", findings->young > 0 ? "" : "nothing found");
    else if (findings->act)
        (void)fprintf(err, "; %" PRIu64 " done, %" PRIu64 " failed\n", findings->repaired,
                      findings->failed);
    else
        (void)fprintf(err, "; nothing was changed%s%s\n", advice[0] == '\0' ? "" : ": ", advice);
}

enum cli_exit
cli_finding_exit(const struct cli_findings *findings)
{
    if (findings->failed > 0)
        return CLI_EXIT_PARTIAL;
    return findings->integrity > 0 ? CLI_EXIT_INTEGRITY : CLI_EXIT_DONE;
}
