#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/json_pull.h"
#include "g4/s3/credentials_internal.h"
#include "g4/s3/s3_xml.h"

enum { TIME_MAX = 64 };

static bool
plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

bool
g4_credentials_parse_usable(const struct g4_keys *keys)
{
    return keys->access_key[0] != '\0' && keys->secret_key[0] != '\0' && plain(keys->access_key) &&
           plain(keys->secret_key) && plain(keys->session_token);
}

/* ---- shared files ---- */

/* A piece of a line. */
struct span {
    const char *at;
    size_t size;
};

static bool
blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span
trim(const char *at, size_t size)
{
    while (size > 0 && blank(at[0])) {
        at++;
        size--;
    }
    while (size > 0 && blank(at[size - 1]))
        size--;
    return (struct span){at, size};
}

static bool
is(struct span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.at, text, span.size) == 0;
}

/* Does "[...]" open the profile's section? */
static bool
opens(struct span line, const char *name, bool prefixed)
{
    struct span inside = trim(line.at + 1, line.size - 2);

    if (prefixed && inside.size > 7 && memcmp(inside.at, "profile", 7) == 0 && blank(inside.at[7]))
        inside = trim(inside.at + 7, inside.size - 7);
    else if (prefixed && !is(inside, "default"))
        return false;
    return is(inside, name);
}

static bool
keep(char *out, size_t room, struct span value)
{
    if (value.size >= room)
        return false;
    memcpy(out, value.at, value.size);
    out[value.size] = '\0';
    return true;
}

static bool
take_setting(struct g4_profile *profile, struct span key, struct span value)
{
    const struct {
        const char *key;
        char *out;
        size_t room;
    } rows[] = {
        {"aws_access_key_id", profile->keys.access_key, sizeof(profile->keys.access_key)},
        {"aws_secret_access_key", profile->keys.secret_key, sizeof(profile->keys.secret_key)},
        {"aws_session_token", profile->keys.session_token, sizeof(profile->keys.session_token)},
        {"role_arn", profile->role_arn, sizeof(profile->role_arn)},
        {"role_session_name", profile->session_name, sizeof(profile->session_name)},
        {"web_identity_token_file", profile->token_file, sizeof(profile->token_file)},
        {"region", profile->region, sizeof(profile->region)},
    };
    static const char *const unsupported[] = {"credential_process", "source_profile",
                                              "credential_source", "sso_session", "sso_start_url"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (is(key, rows[i].key))
            return keep(rows[i].out, rows[i].room, value);
    for (size_t i = 0; i < sizeof(unsupported) / sizeof(unsupported[0]); i++)
        if (is(key, unsupported[i]))
            (void)snprintf(profile->unsupported, sizeof(profile->unsupported), "%s",
                           unsupported[i]);
    return true;
}

enum kvt_err
g4_credentials_parse_profile(struct g4_profile *profile, const char *text, const char *name,
                             bool prefixed, struct kvt_error *err)
{
    bool inside = false;
    unsigned number = 1;

    for (; *text != '\0'; number++) {
        const size_t size = strcspn(text, "\n");
        const struct span line = trim(text, size);
        const char *equals = memchr(line.at, '=', line.size);
        const bool nested = blank(text[0]); /* "s3 =" and lines below it */

        text += size + (text[size] == '\n' ? 1 : 0);
        if (line.size == 0 || line.at[0] == '#' || line.at[0] == ';')
            continue;
        if (line.at[0] == '[') {
            if (line.size < 2 || line.at[line.size - 1] != ']')
                return kvt_error_set(err, KVT_INVALID, "line %u: no ] at its end", number);
            inside = opens(line, name, prefixed);
            profile->found |= inside;
            continue;
        }
        if (!inside || nested)
            continue;
        if (equals == NULL)
            return kvt_error_set(err, KVT_INVALID, "line %u: neither [profile] nor key = value",
                                 number);
        if (!take_setting(profile, trim(line.at, (size_t)(equals - line.at)),
                          trim(equals + 1, line.size - (size_t)(equals + 1 - line.at))))
            return kvt_error_set(err, KVT_INVALID, "line %u: the value is too long", number);
    }
    return KVT_OK;
}

/* ---- services ---- */

/* What the other members do not say: are these keys, and until when? */
static enum kvt_err
judge(struct g4_keys *keys, const char *expiration, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (!g4_credentials_parse_usable(keys))
        rc = kvt_error_set(err, KVT_INVALID, "the answer holds no keys of a form we know");
    else if (expiration[0] != '\0' && !kvt_clock_parse(expiration, &keys->expires_ms))
        rc = kvt_error_set(err, KVT_INVALID, "the answer's Expiration is no time");
    if (rc != KVT_OK)
        explicit_bzero(keys, sizeof(*keys));
    return rc;
}

/* Members of the answer's object; those of a refusal too. */
struct members {
    struct g4_keys *keys;
    char expiration[TIME_MAX];
    char code[G4_S3_XML_CODE_MAX];
    char message[G4_S3_XML_MESSAGE_MAX];
};

static bool
take_member(struct kvt_json_pull *pull, const struct kvt_json_slice *key, struct members *members)
{
    const struct {
        const char *key;
        char *out;
        size_t room;
    } rows[] = {
        {"AccessKeyId", members->keys->access_key, sizeof(members->keys->access_key)},
        {"SecretAccessKey", members->keys->secret_key, sizeof(members->keys->secret_key)},
        {"Token", members->keys->session_token, sizeof(members->keys->session_token)},
        {"Expiration", members->expiration, sizeof(members->expiration)},
        {"Code", members->code, sizeof(members->code)},
        {"code", members->code, sizeof(members->code)},
        {"Message", members->message, sizeof(members->message)},
        {"message", members->message, sizeof(members->message)},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (kvt_json_slice_is(key, rows[i].key)) {
            struct kvt_json_slice value;

            return kvt_json_pull_null(pull) ||
                   (kvt_json_pull_string(pull, &value) &&
                    kvt_json_slice_copy(&value, rows[i].out, rows[i].room, NULL));
        }
    kvt_json_pull_skip(pull);
    return true;
}

enum kvt_err
g4_credentials_parse_json(struct g4_keys *keys, const char *text, size_t size,
                          struct kvt_error *err)
{
    struct members members = {.keys = keys};
    struct kvt_json_pull pull;
    struct kvt_json_slice key;
    bool fits = true;
    enum kvt_err rc;

    memset(keys, 0, sizeof(*keys));
    kvt_json_pull_init(&pull, text, size);
    if (kvt_json_pull_object(&pull))
        while (kvt_json_pull_member(&pull, &key))
            fits &= take_member(&pull, &key, &members);
    rc = kvt_json_pull_end(&pull, "answer", err);
    if (rc == KVT_OK && !fits)
        rc = kvt_error_set(err, KVT_INVALID, "a member of the answer is no text, or too long");
    if (rc == KVT_OK && members.code[0] != '\0' && strcmp(members.code, "Success") != 0)
        rc = kvt_error_set(err, KVT_DENIED, "it says %s: %s", members.code, members.message);
    if (rc == KVT_OK)
        return judge(keys, members.expiration, err);
    explicit_bzero(keys, sizeof(*keys));
    return rc == KVT_DENIED ? rc : KVT_INVALID;
}

enum kvt_err
g4_credentials_parse_sts(struct g4_keys *keys, const char *text, size_t size, struct kvt_error *err)
{
    char expiration[TIME_MAX];

    memset(keys, 0, sizeof(*keys));
    if (g4_s3_xml_element(text, size, "<AccessKeyId>", keys->access_key,
                          sizeof(keys->access_key)) &&
        g4_s3_xml_element(text, size, "<SecretAccessKey>", keys->secret_key,
                          sizeof(keys->secret_key)) &&
        g4_s3_xml_element(text, size, "<SessionToken>", keys->session_token,
                          sizeof(keys->session_token)) &&
        g4_s3_xml_element(text, size, "<Expiration>", expiration, sizeof(expiration)))
        return judge(keys, expiration, err);
    explicit_bzero(keys, sizeof(*keys));
    return kvt_error_set(err, KVT_INVALID, "the answer lacks keys or their end, or is too long");
}
