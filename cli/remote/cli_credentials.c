#include "cli/remote/cli_credentials.h"

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

/* What AWS tools find; a command ends before such keys do. */
static enum kvt_err
find(struct cli_credentials *credentials, struct kvt_error *err)
{
    struct g4_credentials_options options = {.region = getenv("AWS_DEFAULT_REGION")};
    struct g4_credentials_state state;
    struct g4_credentials *chain;
    struct g4_keys keys;
    uint64_t generation;
    enum kvt_err rc;

    rc = g4_credentials_open(&chain, &options, err);
    if (rc != KVT_OK)
        return rc;
    rc = g4_credentials_take(chain, &keys, &generation, err);
    if (rc == KVT_OK) {
        memcpy(credentials->access_key, keys.access_key, sizeof(credentials->access_key));
        memcpy(credentials->secret_key, keys.secret_key, sizeof(credentials->secret_key));
        memcpy(credentials->session_token, keys.session_token, sizeof(credentials->session_token));
        g4_credentials_state(chain, &state);
        memcpy(credentials->where, state.where, sizeof(credentials->where));
    }
    explicit_bzero(&keys, sizeof(keys));
    g4_credentials_close(chain);
    return rc;
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
            return find(credentials, err);
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
    (void)snprintf(credentials->where, sizeof(credentials->where), "%s",
                   kvt_config_string(config, index));
    return KVT_OK;
}
