#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "g4/s3/credentials_internal.h"

#define CONTAINER_HOST "http://169.254.170.2"
#define METADATA_IPV4  "http://169.254.169.254"
#define METADATA_IPV6  "http://[fd00:ec2::254]"

static const char *
env(const char *name)
{
    const char *value = getenv(name);

    return value == NULL ? "" : value;
}

static const char *
or_else(const char *text, const char *otherwise)
{
    return text == NULL || text[0] == '\0' ? otherwise : text;
}

static enum kvt_err
keep(char *out, size_t room, const char *text, const char *name, struct kvt_error *err)
{
    const int size = snprintf(out, room, "%s", text);

    if (size < 0 || (size_t)size >= room)
        return kvt_error_set(err, KVT_INVALID, "%s is longer than %zu bytes", name, room - 1);
    return KVT_OK;
}

/* Keys as texts: from options or environment. */
static enum kvt_err
plain_keys(struct g4_credentials_source *plan, const char *access, const char *secret,
           const char *token, struct kvt_error *err)
{
    struct g4_keys *keys = &plan->keys;
    enum kvt_err rc;

    rc = keep(keys->access_key, sizeof(keys->access_key), access, "the access key", err);
    if (rc == KVT_OK)
        rc = keep(keys->secret_key, sizeof(keys->secret_key), secret, "the secret key", err);
    if (rc == KVT_OK)
        rc = keep(keys->session_token, sizeof(keys->session_token), token, "the token", err);
    if (rc == KVT_OK && (access[0] == '\0' || secret[0] == '\0'))
        rc = kvt_error_set(err, KVT_INVALID, "access key and secret key go together");
    if (rc == KVT_OK && !g4_credentials_parse_usable(keys))
        rc = kvt_error_set(err, KVT_INVALID, "credentials hold spaces or control characters");
    return rc;
}

static bool
try_given(struct g4_credentials_source *plan, const struct g4_credentials_options *options,
          enum kvt_err *rc, struct kvt_error *err)
{
    const char *access = or_else(options->access_key, "");
    const char *secret = or_else(options->secret_key, "");

    if (access[0] == '\0' && secret[0] == '\0')
        return false;
    plan->link = G4_CREDENTIALS_GIVEN;
    (void)snprintf(plan->where, sizeof(plan->where), "settings");
    *rc = plain_keys(plan, access, secret, or_else(options->session_token, ""), err);
    return true;
}

static bool
try_environment(struct g4_credentials_source *plan, enum kvt_err *rc, struct kvt_error *err)
{
    const char *access = env("AWS_ACCESS_KEY_ID");
    const char *secret = env("AWS_SECRET_ACCESS_KEY");

    if (access[0] == '\0' && secret[0] == '\0')
        return false;
    plan->link = G4_CREDENTIALS_ENVIRONMENT;
    (void)snprintf(plan->where, sizeof(plan->where), "environment (AWS_ACCESS_KEY_ID)");
    *rc = plain_keys(plan, access, secret, env("AWS_SESSION_TOKEN"), err);
    return true;
}

/* ---- profile ---- */

/* One shared file, or nothing where there is none. */
static enum kvt_err
read_shared(struct g4_profile *profile, const char *variable, const char *file, const char *name,
            bool prefixed, struct kvt_error *err)
{
    char path[G4_PROFILE_TEXT_MAX];
    struct kvt_error cause = {0};
    char *text;
    size_t size;
    enum kvt_err rc;

    if (env(variable)[0] != '\0')
        rc = keep(path, sizeof(path), env(variable), variable, err);
    else if (env("HOME")[0] == '\0')
        return KVT_OK;
    else if (snprintf(path, sizeof(path), "%s/.aws/%s", env("HOME"), file) >= (int)sizeof(path))
        return KVT_OK;
    else
        rc = KVT_OK;
    if (rc != KVT_OK)
        return rc;
    rc = kvt_file_read(&text, &size, path, G4_CREDENTIALS_FILE_MAX, &cause);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "%s", cause.text);
    rc = g4_credentials_parse_profile(profile, text, name, prefixed, &cause);
    explicit_bzero(text, size);
    kvt_free(text);
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, KVT_INVALID, "%s: %s", path, cause.text);
}

/* A role session's name may hold letters, digits and =,.@-: ours, so that logs tell who it was. */
static void
name_session(struct g4_credentials_source *plan, const char *given)
{
    if (given[0] != '\0')
        (void)snprintf(plan->session_name, sizeof(plan->session_name), "%.64s", given);
    else
        (void)snprintf(plan->session_name, sizeof(plan->session_name), "kvtier-%llu",
                       (unsigned long long)kvt_clock_unix_ms());
}

static enum kvt_err
plan_identity(struct g4_credentials_source *plan, const char *region, const char *role,
              const char *file, const char *session, struct kvt_error *err)
{
    const char *given = or_else(env("AWS_ENDPOINT_URL_STS"), env("AWS_ENDPOINT_URL"));
    const char *suffix = strncmp(region, "cn-", 3) == 0 ? ".cn" : "";
    enum kvt_err rc;
    int size;

    plan->link = G4_CREDENTIALS_WEB_IDENTITY;
    if (role[0] == '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "a web identity needs a role as well: set AWS_ROLE_ARN");
    name_session(plan, session);
    rc = keep(plan->role_arn, sizeof(plan->role_arn), role, "the role", err);
    if (rc == KVT_OK)
        rc = keep(plan->token_file, sizeof(plan->token_file), file, "the token file's name", err);
    if (given[0] != '\0')
        size = snprintf(plan->url, sizeof(plan->url), "%s%s", given,
                        given[strlen(given) - 1] == '/' ? "" : "/");
    else
        size = snprintf(plan->url, sizeof(plan->url), "https://sts.%s.amazonaws.com%s/", region,
                        suffix);
    if (rc == KVT_OK && (size_t)size >= sizeof(plan->url))
        rc = kvt_error_set(err, KVT_INVALID, "the address of the token service is too long");
    (void)snprintf(plan->where, sizeof(plan->where), "web identity (%.100s)", role);
    return rc;
}

static enum kvt_err
judge_profile(struct g4_credentials_source *plan, const struct g4_profile *profile,
              const char *name, const char *region, bool *ours, struct kvt_error *err)
{
    const struct g4_keys *keys = &profile->keys;

    *ours = true;
    if (keys->access_key[0] != '\0' || keys->secret_key[0] != '\0') {
        plan->link = G4_CREDENTIALS_PROFILE;
        plan->keys = *keys;
        (void)snprintf(plan->where, sizeof(plan->where), "profile %.100s of the shared files",
                       name);
        if (!g4_credentials_parse_usable(keys))
            return kvt_error_set(err, KVT_INVALID,
                                 "profile %.64s: a key is missing, or holds spaces", name);
        return KVT_OK;
    }
    if (profile->token_file[0] != '\0')
        return plan_identity(plan, or_else(region, or_else(profile->region, "us-east-1")),
                             profile->role_arn, profile->token_file, profile->session_name, err);
    if (profile->unsupported[0] != '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "profile %.64s: %s is not supported; give keys, or "
                             "web_identity_token_file and role_arn",
                             name, profile->unsupported);
    *ours = false;
    return KVT_OK;
}

static bool
try_profile(struct g4_credentials_source *plan, const char *region, enum kvt_err *rc,
            struct kvt_error *err)
{
    const char *name = or_else(env("AWS_PROFILE"), or_else(env("AWS_DEFAULT_PROFILE"), "default"));
    const bool chosen = strcmp(name, "default") != 0;
    struct g4_profile *profile = kvt_calloc(1, sizeof(*profile));
    bool ours = true;

    if (profile == NULL) {
        *rc = kvt_error_set(err, KVT_NOMEM, "profile");
        return true;
    }
    *rc = read_shared(profile, "AWS_CONFIG_FILE", "config", name, true, err);
    if (*rc == KVT_OK)
        *rc = read_shared(profile, "AWS_SHARED_CREDENTIALS_FILE", "credentials", name, false, err);
    if (*rc == KVT_OK && chosen && !profile->found)
        *rc = kvt_error_set(err, KVT_INVALID, "AWS_PROFILE: no profile %.64s in the shared files",
                            name);
    else if (*rc == KVT_OK)
        *rc = judge_profile(plan, profile, name, region, &ours, err);
    explicit_bzero(profile, sizeof(*profile));
    kvt_free(profile);
    return ours;
}

/* ---- services ---- */

static bool
try_identity(struct g4_credentials_source *plan, const char *region, enum kvt_err *rc,
             struct kvt_error *err)
{
    if (env("AWS_WEB_IDENTITY_TOKEN_FILE")[0] == '\0')
        return false;
    *rc = plan_identity(plan, or_else(region, "us-east-1"), env("AWS_ROLE_ARN"),
                        env("AWS_WEB_IDENTITY_TOKEN_FILE"), env("AWS_ROLE_SESSION_NAME"), err);
    return true;
}

/* Without TLS the token may only go to this machine, or to where agents of clouds are. */
static bool
may_be_plain(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    const char *host = url + 7;
    const size_t size = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");

    if (strncasecmp(url, "http://", 7) != 0)
        return strncasecmp(url, "https://", 8) == 0;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (size == strlen(hosts[i]) && strncasecmp(host, hosts[i], size) == 0)
            return true;
    return false;
}

/* Scheme and host of a URL, for people: the rest may be as good as a key. */
static int
origin_size(const char *url)
{
    const char *host = strstr(url, "://");
    const char *at = host == NULL ? url : host + 3;

    return (int)((size_t)(at - url) + strcspn(at, "/?#"));
}

/* "http://127.0.0.1@elsewhere/": the host is what follows the '@', whatever a look at its front
 * says. */
static bool
has_user(const char *url)
{
    return memchr(url, '@', (size_t)origin_size(url)) != NULL;
}

static bool
try_container(struct g4_credentials_source *plan, enum kvt_err *rc, struct kvt_error *err)
{
    const char *relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    int size;

    if (relative[0] == '\0' && full[0] == '\0')
        return false;
    plan->link = G4_CREDENTIALS_CONTAINER;
    size = relative[0] != '\0'
               ? snprintf(plan->url, sizeof(plan->url), CONTAINER_HOST "%s", relative)
               : snprintf(plan->url, sizeof(plan->url), "%s", full);
    *rc = keep(plan->token_file, sizeof(plan->token_file),
               env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
               "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", err);
    if (*rc == KVT_OK)
        *rc = keep(plan->token, sizeof(plan->token), env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
                   "AWS_CONTAINER_AUTHORIZATION_TOKEN", err);
    if (*rc == KVT_OK && (size_t)size >= sizeof(plan->url))
        *rc = kvt_error_set(err, KVT_INVALID, "the container's URI is too long");
    if (*rc == KVT_OK && has_user(plan->url))
        *rc = kvt_error_set(err, KVT_INVALID,
                            "the container's URI has an '@' in front of its path: give the host "
                            "alone");
    (void)snprintf(plan->where, sizeof(plan->where), "container (%.*s)",
                   origin_size(plan->url) < 120 ? origin_size(plan->url) : 120, plan->url);
    if (*rc == KVT_OK && !may_be_plain(plan->url))
        *rc = kvt_error_set(err, KVT_INVALID,
                            "AWS_CONTAINER_CREDENTIALS_FULL_URI: neither https nor loopback nor a "
                            "container agent's address: the token would go out in the clear");
    return true;
}

static bool
try_metadata(struct g4_credentials_source *plan, enum kvt_err *rc, struct kvt_error *err)
{
    const char *given = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const bool ipv6 = strcasecmp(env("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"), "IPv6") == 0;
    size_t size;

    if (strcasecmp(env("AWS_EC2_METADATA_DISABLED"), "true") == 0)
        return false;
    plan->link = G4_CREDENTIALS_METADATA;
    *rc = keep(plan->url, sizeof(plan->url), or_else(given, ipv6 ? METADATA_IPV6 : METADATA_IPV4),
               "AWS_EC2_METADATA_SERVICE_ENDPOINT", err);
    if (*rc == KVT_OK && has_user(plan->url))
        *rc = kvt_error_set(err, KVT_INVALID,
                            "AWS_EC2_METADATA_SERVICE_ENDPOINT has an '@' in front of its path: "
                            "give the host alone");
    size = strlen(plan->url);
    if (size > 0 && plan->url[size - 1] == '/')
        plan->url[size - 1] = '\0';
    (void)snprintf(plan->where, sizeof(plan->where), "instance metadata (%.120s)", plan->url);
    return true;
}

enum kvt_err
g4_credentials_source_make(struct g4_credentials_source *plan,
                           const struct g4_credentials_options *options, struct kvt_error *err)
{
    const char *region = or_else(options->region, or_else(env("AWS_REGION"), ""));
    enum kvt_err rc = KVT_OK;

    memset(plan, 0, sizeof(*plan));
    if (try_given(plan, options, &rc, err) || try_environment(plan, &rc, err) ||
        try_profile(plan, region, &rc, err) || try_identity(plan, region, &rc, err) ||
        try_container(plan, &rc, err) || try_metadata(plan, &rc, err))
        return rc;
    return kvt_error_set(
        err, KVT_NOTFOUND,
        "no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; there "
        "is no profile, no web identity and no container, and instance metadata "
        "is switched off");
}

bool
g4_credentials_source_renews(const struct g4_credentials_source *plan)
{
    return plan->link == G4_CREDENTIALS_WEB_IDENTITY || plan->link == G4_CREDENTIALS_CONTAINER ||
           plan->link == G4_CREDENTIALS_METADATA;
}
