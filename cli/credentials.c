#include "cli/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copy what is before the next ':' (or, for the last part, all); returns what is behind it. */
static const char *
part(const char *text, char *out, size_t size, bool last)
{
    const size_t length = last ? strlen(text) : strcspn(text, ":");

    if (length >= size)
        return NULL;
    memcpy(out, text, length);
    out[length] = '\0';
    text += length;
    return *text == ':' ? text + 1 : text;
}

static enum kvt_err
from_environment(struct cli_credentials *credentials, struct kvt_error *err)
{
    const char *access = getenv("AWS_ACCESS_KEY_ID");
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    const char *token = getenv("AWS_SESSION_TOKEN");

    if (access == NULL || secret == NULL || access[0] == '\0' || secret[0] == '\0')
        return kvt_error_set(err, KVT_NOTFOUND,
                             "no S3 credentials: neither --s3-credentials-file nor "
                             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if (part(access, credentials->access_key, sizeof(credentials->access_key), true) == NULL ||
        part(secret, credentials->secret_key, sizeof(credentials->secret_key), true) == NULL ||
        part(token == NULL ? "" : token, credentials->session_token,
             sizeof(credentials->session_token), true) == NULL)
        return kvt_error_set(err, KVT_RANGE, "the AWS_* credentials are too long");
    return KVT_OK;
}

enum kvt_err
cli_credentials_load(const struct kvt_config *config, size_t index, bool environment,
                     struct cli_credentials *credentials, struct kvt_error *err)
{
    char text[sizeof(struct cli_credentials)];
    const char *at = text;
    enum kvt_err rc;

    *credentials = (struct cli_credentials){0};
    if (!kvt_config_is_set(config, index)) {
        if (environment)
            return from_environment(credentials, err);
        return kvt_error_set(err, KVT_NOTFOUND, "no credentials file is set");
    }
    rc = kvt_config_secret(config, index, text, sizeof(text), err);
    if (rc != KVT_OK)
        return rc;
    at = part(at, credentials->access_key, sizeof(credentials->access_key), false);
    if (at != NULL)
        at = part(at, credentials->secret_key, sizeof(credentials->secret_key), false);
    if (at != NULL)
        at = part(at, credentials->session_token, sizeof(credentials->session_token), true);
    explicit_bzero(text, sizeof(text));
    if (at == NULL || credentials->access_key[0] == '\0' || credentials->secret_key[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "%s: this is not access:secret[:token]",
                             kvt_config_string(config, index));
    return KVT_OK;
}
