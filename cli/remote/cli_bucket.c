#include "cli/remote/cli_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/remote/cli_credentials.h"

bool
cli_bucket_given(const struct cli_context *context, size_t first)
{
    return kvt_config_is_set(context->options, first + CLI_BUCKET_S3);
}

const char *
cli_bucket_option(const struct cli_context *context, size_t first, enum cli_bucket_option which)
{
    /* What AWS's own programs look at. */
    static const char *const region[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
    const char *text = kvt_config_string(context->options, first + which);

    for (size_t i = 0; which == CLI_BUCKET_REGION && text[0] == '\0' && i < 2; i++)
        text = getenv(region[i]) == NULL ? "" : getenv(region[i]);
    if (which == CLI_BUCKET_CA && text[0] == '\0' && getenv("AWS_CA_BUNDLE") != NULL)
        text = getenv("AWS_CA_BUNDLE");
    return text;
}

/* That there are no credentials, or no such file of them, must not look like a missing bucket. */
static enum kvt_err
none_is_wrong(enum kvt_err rc, struct kvt_error *err)
{
    struct kvt_error cause = *err;

    if (rc != KVT_NOTFOUND)
        return rc;
    return kvt_error_set(err, KVT_INVALID, "%.180s (or --s3-credentials-file FILE)", cause.text);
}

static enum kvt_err
load_credentials(const struct cli_context *context, size_t first,
                 struct cli_credentials *credentials, struct kvt_error *err)
{
    if (!cli_bucket_given(context, first))
        return kvt_error_set(err, KVT_INVALID,
                             "%s asks the bucket itself: say where it is with --s3",
                             context->command->path);
    return cli_credentials_load(context->options, first + CLI_BUCKET_CREDENTIALS, true, credentials,
                                err);
}

struct g4_s3_options
cli_bucket_s3(const struct cli_context *context, size_t first,
              const struct cli_credentials *credentials)
{
    return (struct g4_s3_options){
        .endpoint = cli_bucket_option(context, first, CLI_BUCKET_S3),
        .bucket = kvt_config_string(context->settings, CLI_SETTING_BUCKET),
        .region = cli_bucket_option(context, first, CLI_BUCKET_REGION),
        .access_key = credentials->access_key,
        .secret_key = credentials->secret_key,
        .session_token = credentials->session_token,
        .ca_file = cli_bucket_option(context, first, CLI_BUCKET_CA),
        .path_style = true,
        .timeout_ms = kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
    };
}

enum kvt_err
cli_bucket_open(const struct cli_context *context, size_t first, struct g4_store **store,
                struct kvt_error *err)
{
    struct cli_credentials credentials;
    enum kvt_err rc = load_credentials(context, first, &credentials, err);

    *store = NULL;
    if (rc == KVT_OK) {
        const struct g4_s3_options options = cli_bucket_s3(context, first, &credentials);

        rc = g4_s3_open(store, &options, err);
    }
    explicit_bzero(&credentials, sizeof(credentials));
    return none_is_wrong(rc, err);
}

/* The credentials of the gateway's S3 port, or which setting says them. */
static enum kvt_err
load_front(const struct cli_context *context, struct cli_credentials *credentials,
           struct kvt_error *err)
{
    *credentials = (struct cli_credentials){0};
    if (!kvt_config_is_set(context->settings, CLI_SETTING_GATEWAY_CREDENTIALS_FILE))
        return kvt_error_set(err, KVT_INVALID,
                             "%s asks the gateway's S3 port at %.80s: set "
                             "gateway.credentials_file, or name a store with --s3",
                             context->command->path,
                             kvt_config_string(context->settings, CLI_SETTING_GATEWAY_DATA_URL));
    return cli_credentials_load(context->settings, CLI_SETTING_GATEWAY_CREDENTIALS_FILE, false,
                                credentials, err);
}

enum kvt_err
cli_bucket_open_any(const struct cli_context *context, size_t first, struct g4_store **store,
                    struct kvt_error *err)
{
    struct cli_credentials credentials;
    enum kvt_err rc;

    if (cli_bucket_given(context, first))
        return cli_bucket_open(context, first, store, err);
    *store = NULL;
    rc = load_front(context, &credentials, err);
    if (rc == KVT_OK) {
        struct g4_s3_options options = cli_bucket_s3(context, first, &credentials);

        options.endpoint = kvt_config_string(context->settings, CLI_SETTING_GATEWAY_DATA_URL);
        rc = g4_s3_open(store, &options, err);
    }
    explicit_bzero(&credentials, sizeof(credentials));
    if (rc == KVT_NOTFOUND) { /* a file of credentials that is not there is no object */
        rc = KVT_INVALID;
        err->code = rc;
    }
    return rc;
}

enum kvt_err
cli_bucket_endpoint(const struct cli_context *context, size_t first, struct g4_endpoint **endpoint,
                    struct kvt_error *err)
{
    struct cli_credentials credentials;
    enum kvt_err rc = load_credentials(context, first, &credentials, err);

    *endpoint = NULL;
    if (rc == KVT_OK) {
        const struct g4_s3_options s3 = cli_bucket_s3(context, first, &credentials);
        const struct g4_endpoint_options options = {.url = s3.endpoint,
                                                    .bucket = s3.bucket,
                                                    .region = s3.region,
                                                    .access_key = s3.access_key,
                                                    .secret_key = s3.secret_key,
                                                    .session_token = s3.session_token,
                                                    .ca_file = s3.ca_file,
                                                    .path_style = s3.path_style};

        rc = g4_endpoint_new(endpoint, &options, err);
    }
    explicit_bzero(&credentials, sizeof(credentials));
    return none_is_wrong(rc, err);
}

enum kvt_err
cli_bucket_page(struct g4_store *store, struct g4_request *page, struct kvt_error *err)
{
    const enum kvt_err rc = g4_store_perform(store, page);
    const char *text = page->error.text;

    if (rc == KVT_OK)
        return KVT_OK;
    /* Of a listing, the bucket is what was asked for. */
    if (rc == KVT_UNAVAILABLE && page->http == 404)
        return kvt_error_set(err, KVT_NOTFOUND, "there is no such bucket (HTTP 404)");
    /* What stands in front of the colon is the prefix, which may be empty. */
    text += strncmp(text, "GET ", 4) == 0 ? 4 : 0;
    text += strncmp(text, ": ", 2) == 0 ? 2 : 0;
    return kvt_error_set(err, rc, "%s", text);
}

enum kvt_err
cli_bucket_walk(struct g4_store *store, const char *prefix, const char *after,
                bool (*each)(void *arg, const struct g4_listed *row), void *arg,
                struct kvt_error *err)
{
    struct g4_listed *listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*listed));
    struct g4_request page = {
        .verb = G4_LIST, .key = prefix, .after = after[0] == '\0' ? NULL : after, .listed = listed};
    bool more = true;
    enum kvt_err rc;

    if (listed == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    do {
        rc = cli_bucket_page(store, &page, err);
        for (size_t i = 0; rc == KVT_OK && more && i < page.listed_count; i++)
            more = each(arg, &page.listed[i]);
    } while (rc == KVT_OK && more && page.token[0] != '\0');
    kvt_free(listed);
    return rc;
}

/* libcurl's words for a certificate that does not fit, and for a server that speaks no TLS, have
 * SSL in them; an S3 server's refusals have their HTTP status. */
static bool
is_tls(const struct kvt_error *err)
{
    return strstr(err->text, "SSL") != NULL && strstr(err->text, "HTTP ") == NULL;
}

const char *
cli_bucket_fix(const struct kvt_error *err)
{
    if (is_tls(err) && err->code == KVT_DENIED)
        return "the certificate is not trusted here: --s3-ca-file FILE (or AWS_CA_BUNDLE) names "
               "the CA that signed it, and the address must have the name in it";
    if (is_tls(err))
        return "the server does not speak TLS there: try http://, or its TLS port";
    switch (err->code) {
    case KVT_NOTFOUND: return "create the bucket, or name another with --bucket";
    case KVT_DENIED: return "check access key, secret and the rights of the key";
    case KVT_UNAVAILABLE:
    case KVT_TIMEOUT: return "check the address, and that the server runs";
    default: return "see the message";
    }
}

enum cli_exit
cli_bucket_fail(const struct cli_context *context, size_t first, const struct kvt_error *err)
{
    const bool given = cli_bucket_given(context, first);
    const bool asked = given || context->command->bucket_alone;
    const char *address = given
                              ? cli_bucket_option(context, first, CLI_BUCKET_S3)
                              : kvt_config_string(context->settings, CLI_SETTING_GATEWAY_DATA_URL);
    const bool no_bucket = strstr(err->text, "NoSuchBucket") != NULL;
    struct kvt_error full = *err;
    enum cli_exit status;

    if (asked && err->code != KVT_INVALID)
        (void)kvt_error_set(
            &full, no_bucket ? KVT_NOTFOUND : err->code, "bucket %.60s at %.60s: %.110s",
            kvt_config_string(context->settings, CLI_SETTING_BUCKET), address, err->text);
    status = cli_context_fail(context, &full);
    if (!given && err->code == KVT_INVALID)
        (void)fprintf(context->err, "  for example: kvtier %s\n", context->command->example);
    else if (full.code == KVT_NOTFOUND || full.code == KVT_DENIED || full.code == KVT_UNAVAILABLE ||
             full.code == KVT_TIMEOUT || is_tls(err))
        (void)fprintf(context->err, "  %s\n  what is wrong: kvtier doctor%s%s --bucket %s\n",
                      cli_bucket_fix(&full), given ? " --s3 " : "", given ? address : "",
                      kvt_config_string(context->settings, CLI_SETTING_BUCKET));
    return status;
}
