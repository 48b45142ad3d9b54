#include "cli/ops/doctor_store.h"

#include <inttypes.h>
#include <string.h>

#include "cli/frame/cli_settings.h"
#include "cli/frame/options.h"
#include "cli/remote/cli_bucket.h"
#include "cli/remote/cli_credentials.h"
#include "g4/lock/selftest.h"
#include "g4/s3/s3.h"

void
cli_doctor_store_skew(struct cli_doctor_checks *checks, const char *name, int64_t skew_ms)
{
    const int64_t distance = skew_ms < 0 ? -skew_ms : skew_ms;
    enum cli_doctor_check_state state = CLI_DOCTOR_CHECK_OK;

    if (distance >= CLI_DOCTOR_SKEW_FAIL_MS)
        state = CLI_DOCTOR_CHECK_FAIL;
    else if (distance >= CLI_DOCTOR_SKEW_WARN_MS)
        state = CLI_DOCTOR_CHECK_WARN;
    cli_doctor_check_add(checks, state, name, "set both clocks by NTP: timedatectl set-ntp true",
                         "the store's clock is %+" PRId64 " ms from this one", skew_ms);
}

/* Of writers at once with the same condition, and what those who lost are told. */
static void
add_races(struct cli_doctor_checks *checks, const struct g4_selftest *result)
{
    const bool one = result->one_creator && result->one_changer;
    const char *told = "412";

    if (result->race_errors > 0)
        told = "errors, which are read back and retried";
    else if (result->race_conflicts > 0)
        told = "409 or 412";
    cli_doctor_check_add(
        checks, one ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_FAIL, "s3 races",
        "the store checks a condition and writes later: two writers of one block may both "
        "be told that they won; use another release or another store",
        "of %d writers at once %s; the others are told %s", G4_SELFTEST_RACERS,
        one ? "one wins" : "several win", told);
}

static void
add_locks(struct cli_doctor_checks *checks, const struct g4_selftest *result)
{
    const char *unsafe = g4_selftest_unsafe(result);

    if (unsafe == NULL)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 locks", "",
                             "safe: one holder at a time, by the store's clock");
    else
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "s3 locks",
            "batches, compaction and collection must not run on this store; blocks need "
            "no lock",
            "refused: %s", unsafe);
}

/* A gateway takes no keys like those of the self-test, and says so (gateway/http/request.h). */
static bool
is_gateway(const struct kvt_error *err)
{
    return strstr(err->text, "KVTier gateway") != NULL;
}

static void
add_selftest(struct cli_doctor_checks *checks, struct g4_store *store)
{
    struct g4_selftest result;
    struct kvt_error err = {0};

    if (g4_selftest_locks(store, &result, &err) != KVT_OK) {
        if (is_gateway(&err))
            cli_doctor_check_add(
                checks, CLI_DOCTOR_CHECK_WARN, "s3 conditions",
                "name the bucket behind it with --s3; what a gateway found out about its "
                "bucket is above, under \"conditional put\"",
                "not tested: a KVTier gateway answers there, not a bucket");
        else
            cli_doctor_check_add(
                checks, CLI_DOCTOR_CHECK_FAIL, "s3 conditions",
                err.code == KVT_DENIED
                    ? "give the key the rights to put, get, list and delete in the bucket"
                    : "see the message",
                "the self-test could not run: %s", err.text);
        return;
    }
    if (result.put_if_absent)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 conditions", "",
                             "PUT If-None-Match works: the first writer wins");
    else
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_FAIL, "s3 conditions",
            "this store ignores If-None-Match: use a release that has it (MinIO and "
            "versitygw do), or put no proxy in between that drops the header",
            "a second PUT If-None-Match overwrote the first");
    cli_doctor_check_add(checks,
                         result.put_if_match && result.if_match_missing ? CLI_DOCTOR_CHECK_OK
                                                                        : CLI_DOCTOR_CHECK_WARN,
                         "s3 if-match", "locks and repairs are not safe on this store; blocks are",
                         "PUT If-Match %s; on a missing key %s",
                         result.put_if_match ? "works" : "is ignored",
                         result.if_match_missing ? "it is refused" : "it writes");
    cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 delete", "", "DELETE If-Match is %s",
                         result.delete_if_match ? "honoured"
                                                : "ignored, as MinIO does; allowed for");
    cli_doctor_check_add(
        checks, result.list_after_write ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_WARN, "s3 list",
        "reconciling by listing needs patience on this store", "a new key is %s",
        result.list_after_write ? "listed at once" : "listed late");
    cli_doctor_check_add(
        checks, result.meta_kept ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_FAIL, "s3 metadata",
        "x-amz-meta-* must come back, or no block can be checked: look for a proxy",
        "object metadata %s", result.meta_kept ? "comes back" : "is lost");
    add_races(checks, &result);
    add_locks(checks, &result);
}

/* Reach the bucket; then, when `deep`, its clock and conditions.  False: it cannot be reached. */
static bool
probe(struct cli_doctor_checks *checks, const char *name, const struct g4_s3_options *options,
      bool deep)
{
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    int64_t skew_ms = 0;
    enum kvt_err rc;

    rc = g4_s3_open(&store, options, &err);
    if (rc == KVT_OK)
        rc = g4_s3_probe(store, &skew_ms, &err);
    if (rc != KVT_OK) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, name, cli_bucket_fix(&err),
                             "%s bucket %s: %s", options->endpoint, options->bucket, err.text);
    } else {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, name, "",
                             "%s: credentials and bucket %s are good", options->endpoint,
                             options->bucket);
        if (deep) {
            cli_doctor_store_skew(checks, "s3 clock", skew_ms);
            add_selftest(checks, store);
        }
    }
    g4_store_close(store);
    return rc == KVT_OK;
}

void
cli_doctor_store_front(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    struct cli_credentials credentials;
    struct kvt_error err = {0};
    enum kvt_err rc;

    rc = cli_credentials_load(context->settings, CLI_SETTING_GATEWAY_CREDENTIALS_FILE, false,
                              &credentials, &err);
    if (rc == KVT_NOTFOUND &&
        !kvt_config_is_set(context->settings, CLI_SETTING_GATEWAY_CREDENTIALS_FILE)) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "gateway s3",
                             "--gateway-credentials-file FILE (access:secret) lets this be checked",
                             "no credentials for the gateway's S3 port; not tried");
        return;
    }
    if (rc != KVT_OK) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "gateway s3",
                             "chmod 600, one line access:secret", "%s", err.text);
        return;
    }
    (void)probe(checks, "gateway s3",
                &(struct g4_s3_options){
                    .endpoint = kvt_config_string(context->settings, CLI_SETTING_GATEWAY_DATA_URL),
                    .bucket = kvt_config_string(context->settings, CLI_SETTING_BUCKET),
                    .region = "",
                    .access_key = credentials.access_key,
                    .secret_key = credentials.secret_key,
                    .session_token = "",
                    .ca_file = "",
                    .path_style = true,
                    .attempts_max = 1,
                    .timeout_ms = kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                },
                false);
    explicit_bzero(&credentials, sizeof(credentials));
}

void
cli_doctor_store_direct(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    struct cli_credentials credentials;
    struct g4_s3_options options;
    struct kvt_error err = {0};
    bool reached;

    if (!kvt_config_is_set(context->options, CLI_DOCTOR_S3))
        return;
    if (cli_credentials_load(context->options, CLI_DOCTOR_S3_CREDENTIALS, true, &credentials,
                             &err) != KVT_OK) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "s3",
                             "--s3-credentials-file FILE (access:secret, mode 0600)", "%s",
                             err.text);
        return;
    }
    cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "s3 credentials", "", "from %s",
                         credentials.where);
    options = cli_bucket_s3(context, CLI_DOCTOR_S3, &credentials);
    options.attempts_max = 1;
    reached = probe(checks, "s3", &options, true);
    explicit_bzero(&credentials, sizeof(credentials));
    if (reached)
        cli_doctor_bucket(context, checks);
}
