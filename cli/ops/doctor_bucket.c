#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/options.h"
#include "cli/ops/doctor_store.h"
#include "cli/remote/cli_bucket.h"

enum { WHEN_MAX = 48 };

/* Does a rule for old versions cover all keys? */
static const struct g4_bucket_rule *
sweeper(const struct g4_bucket_settings *settings)
{
    for (size_t i = 0; i < settings->rule_count; i++) {
        const struct g4_bucket_rule *rule = &settings->rules[i];

        if (rule->enabled && rule->old_versions && !rule->narrowed && rule->prefix[0] == '\0')
            return rule;
    }
    return NULL;
}

static void
judge_versions(const struct g4_bucket_settings *settings, struct cli_doctor_checks *checks)
{
    static const char fix[] = "suspend versioning, or let a lifecycle rule delete versions that "
                              "are not the newest after a day";
    const struct g4_bucket_rule *rule = sweeper(settings);

    if (settings->versions == G4_BUCKET_ON && rule == NULL)
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 versions", fix,
            "on: what is deleted or replaced stays as an old version, so the bucket "
            "grows beyond any cap");
    else if (settings->versions == G4_BUCKET_ON)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 versions", "",
                             "on; rule %s deletes old versions, until then they are beyond the cap",
                             rule->name[0] == '\0' ? "(unnamed)" : rule->name);
    else if (settings->versions == G4_BUCKET_SUSPENDED)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 versions", "",
                             "suspended; old ones from before stay, and no cap counts them");
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 versions", "",
                             settings->versions == G4_BUCKET_OFF ? "off: a deletion frees its bytes"
                                                                 : "the server does not say");
}

static void
judge_locks(const struct g4_bucket_settings *settings, struct cli_doctor_checks *checks)
{
    if (settings->locks == G4_BUCKET_ON && settings->lock_days > 0)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "s3 object lock",
                             "use a bucket without default retention",
                             "nothing can be deleted for %" PRIu64
                             " days after it was written: no cap can hold",
                             settings->lock_days);
    else if (settings->locks == G4_BUCKET_ON)
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 object lock",
            "use a bucket that was made without object lock",
            "possible here, which keeps versions on: a deletion frees nothing by itself");
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 object lock", "",
                             settings->locks == G4_BUCKET_OFF ? "off" : "the server does not say");
}

/* Is there a component of digits alone?  Then the prefix names a shard's data, and the commit
 * records lie beside the shards, not in them. */
static bool
names_shard(const char *prefix)
{
    while (*prefix != '\0') {
        const size_t size = strcspn(prefix, "/");
        const size_t digits = strspn(prefix, "0123456789");

        if (size > 0 && digits == size)
            return true;
        prefix += size;
        prefix += *prefix == '/';
    }
    return false;
}

static void
judge_rule(const struct g4_bucket_rule *rule, struct cli_doctor_checks *checks)
{
    const char *name = rule->name[0] == '\0' ? "(unnamed)" : rule->name;
    char when[WHEN_MAX] = "at a date";

    if (rule->days > 0)
        (void)snprintf(when, sizeof(when), "after %" PRIu64 " days", rule->days);
    if (rule->expires && (rule->narrowed || names_shard(rule->prefix)))
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 lifecycle",
            "give the rule a whole namespace or no prefix, and neither tags nor sizes; "
            "kvtier g4 fsck --repair removes records without data",
            "rule %s deletes \"%.100s\" %s%s, but not the .meta that KVBM keeps "
            "beside it, which would never store those blocks again",
            name, rule->prefix, when, rule->narrowed ? ", by tags or sizes" : "");
    else if (rule->expires)
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 lifecycle",
            "let the advisor hear the bucket's notifications, and run kvtier g4 fsck "
            "--repair; or leave deletion to the policy",
            "rule %s deletes \"%.100s\" %s: until it is noticed, the gateway's cap "
            "counts what is gone",
            name, rule->prefix, when);
    if (rule->moves)
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 lifecycle",
            "leave blocks in one class, or read them from the archive at your own pace",
            "rule %s moves \"%.100s\" to another storage class: the cap still counts "
            "it, and a read may be slow or refused",
            name, rule->prefix);
}

void
cli_doctor_bucket_judge(const struct g4_bucket_settings *settings, struct cli_doctor_checks *checks)
{
    size_t harmless = 0;

    judge_versions(settings, checks);
    judge_locks(settings, checks);
    for (size_t i = 0; i < settings->rule_count; i++) {
        const struct g4_bucket_rule *rule = &settings->rules[i];

        if (rule->enabled && (rule->expires || rule->moves))
            judge_rule(rule, checks);
        else
            harmless++;
    }
    if (settings->lifecycle == G4_BUCKET_UNKNOWN)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 lifecycle", "",
                             "the server does not say");
    else if (harmless == settings->rule_count && !settings->more_rules)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 lifecycle", "",
                             "no rule in force deletes or moves objects");
    if (settings->more_rules)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "s3 lifecycle",
                             "look at the others yourself",
                             "only the first %d rules were looked at", G4_BUCKET_RULES_MAX);
}

void
cli_doctor_bucket(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    struct g4_bucket_settings *settings = kvt_calloc(1, sizeof(*settings));
    struct g4_endpoint *endpoint = NULL;
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc = settings == NULL ? kvt_error_set(&err, KVT_NOMEM, "out of memory") : KVT_OK;

    if (rc == KVT_OK)
        rc = cli_bucket_endpoint(context, CLI_DOCTOR_S3, &endpoint, &err);
    if (rc == KVT_OK)
        rc = g4_bucket_settings(endpoint, kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                                settings, &err);
    if (rc == KVT_OK)
        cli_doctor_bucket_judge(settings, checks);
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "s3 settings", cli_bucket_fix(&err),
                             "%s", err.text);
    g4_endpoint_free(endpoint);
    kvt_free(settings);
}
