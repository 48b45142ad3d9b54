#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/http/fetch.h"
#include "g4/s3/credentials_internal.h"
#include "g4/s3/s3_xml.h"
#include "g4/s3/sigv4.h"

enum { TOKEN_FILE_MAX = 16 * 1024, FORM_MAX = 64 * 1024, ROLE_MAX = 256, URL_MAX_SIZE = 2048 };

/* What a session of instance metadata lasts; each renewal begins another. */
#define METADATA_TTL  "X-aws-ec2-metadata-token-ttl-seconds: 21600"
#define METADATA_ROLE "/latest/meta-data/iam/security-credentials/"

/* Memory of the whole limit at once, so that no copy of a secret is left where it grew from. */
static enum kvt_err
open_buffer(struct kvt_buffer *buffer, size_t limit, struct kvt_error *err)
{
    kvt_buffer_init(buffer, limit);
    if (kvt_buffer_reserve(buffer, limit) != NULL)
        return KVT_OK;
    return kvt_error_set(err, KVT_NOMEM, "credentials");
}

static void
wipe_buffer(struct kvt_buffer *buffer)
{
    if (buffer->data != NULL)
        explicit_bzero(buffer->data, buffer->capacity);
    kvt_buffer_release(buffer);
}

/* Ask; any status but 200 is a refusal that says who refused and with what code. */
static enum kvt_err
fetch(const struct kvt_fetch *request, struct kvt_buffer *answer, struct kvt_error *err)
{
    char code[G4_S3_XML_CODE_MAX];
    char message[G4_S3_XML_MESSAGE_MAX];
    unsigned status;
    enum kvt_err rc;

    kvt_buffer_clear(answer);
    rc = kvt_fetch(request, &status, answer, err);
    if (rc != KVT_OK || status == 200)
        return rc;
    g4_s3_xml_trouble((const char *)answer->data, answer->size, code, message);
    return kvt_error_set(err, status >= 500 ? KVT_UNAVAILABLE : KVT_DENIED, "%.96s: HTTP %u%s%s",
                         request->url, status, code[0] == '\0' ? "" : " ", code);
}

/* A token in a file of its own, which others renew. */
static enum kvt_err
read_token(const char *path, char **token, size_t *size, struct kvt_error *err)
{
    enum kvt_err rc = kvt_file_read(token, size, path, TOKEN_FILE_MAX, err);

    if (rc != KVT_OK)
        return rc;
    while (*size > 0 && ((*token)[*size - 1] == '\n' || (*token)[*size - 1] == '\r'))
        (*token)[--*size] = '\0';
    if (*size > 0 && strlen(*token) == *size && strpbrk(*token, "\r\n") == NULL)
        return KVT_OK;
    explicit_bzero(*token, *size);
    kvt_free(*token);
    *token = NULL;
    return kvt_error_set(err, KVT_INVALID, "%.160s: not one line with a token", path);
}

static void
drop_token(char *token, size_t size)
{
    if (token != NULL)
        explicit_bzero(token, size);
    kvt_free(token);
}

static void
append_field(struct kvt_buffer *form, const char *name, const char *value)
{
    kvt_buffer_printf(form, "&%s=", name);
    g4_sigv4_encode(form, value, false);
}

static enum kvt_err
ask_sts(const struct g4_credentials_source *plan, struct kvt_buffer *answer, struct g4_keys *keys,
        struct kvt_error *err)
{
    struct kvt_buffer form;
    char *token = NULL;
    size_t size = 0;
    enum kvt_err rc;

    rc = open_buffer(&form, FORM_MAX, err);
    if (rc == KVT_OK)
        rc = read_token(plan->token_file, &token, &size, err);
    if (rc == KVT_OK) {
        kvt_buffer_printf(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
        append_field(&form, "RoleArn", plan->role_arn);
        append_field(&form, "RoleSessionName", plan->session_name);
        append_field(&form, "WebIdentityToken", token);
        rc = kvt_buffer_ok(&form) ? KVT_OK
                                  : kvt_error_set(err, KVT_INVALID, "the web identity is too long");
    }
    if (rc == KVT_OK)
        rc = fetch(&(struct kvt_fetch){.method = "POST",
                                       .url = plan->url,
                                       .body = form.data,
                                       .body_size = form.size,
                                       .type = "application/x-www-form-urlencoded",
                                       .timeout_ms = G4_CREDENTIALS_FETCH_MS},
                   answer, err);
    if (rc == KVT_OK)
        rc = g4_credentials_parse_sts(keys, (const char *)answer->data, answer->size, err);
    drop_token(token, size);
    wipe_buffer(&form);
    return rc;
}

static enum kvt_err
ask_container(const struct g4_credentials_source *plan, struct kvt_buffer *answer,
              struct g4_keys *keys, struct kvt_error *err)
{
    char line[sizeof("Authorization: ") + TOKEN_FILE_MAX];
    const char *const lines[] = {line, NULL};
    const char *value = plan->token;
    char *token = NULL;
    size_t size = 0;
    enum kvt_err rc = KVT_OK;

    if (plan->token_file[0] != '\0') {
        rc = read_token(plan->token_file, &token, &size, err);
        value = token;
    }
    if (rc == KVT_OK && strpbrk(value, "\r\n") != NULL)
        rc = kvt_error_set(err, KVT_INVALID, "the container's token holds a line break");
    if (rc == KVT_OK) {
        (void)snprintf(line, sizeof(line), "Authorization: %s", value);
        rc = fetch(&(struct kvt_fetch){.url = plan->url,
                                       .headers = value[0] == '\0' ? NULL : lines,
                                       .direct = true,
                                       .timeout_ms = G4_CREDENTIALS_NEAR_MS},
                   answer, err);
        explicit_bzero(line, sizeof(line));
    }
    if (rc == KVT_OK)
        rc = g4_credentials_parse_json(keys, (const char *)answer->data, answer->size, err);
    drop_token(token, size);
    return rc;
}

/* The answer as one short line of plain text: a session's token, a role's name. */
static enum kvt_err
take_line(struct kvt_buffer *answer, char *out, size_t room, const char *what,
          struct kvt_error *err)
{
    const char *text = kvt_buffer_text(answer);
    const size_t size = strcspn(text, "\r\n");

    out[0] = '\0';
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return kvt_error_set(err, KVT_INVALID, "instance metadata: %s of another form", what);
    if (size == 0 || size >= room)
        return kvt_error_set(err, KVT_INVALID, "instance metadata: no %s, or one too long", what);
    memcpy(out, text, size);
    out[size] = '\0';
    return KVT_OK;
}

static enum kvt_err
ask_metadata(const struct g4_credentials_source *plan, struct kvt_buffer *answer,
             struct g4_keys *keys, struct kvt_error *err)
{
    char line[64 + G4_KEYS_TOKEN_MAX] = METADATA_TTL;
    const char *const lines[] = {line, NULL};
    char token[G4_KEYS_TOKEN_MAX];
    char role[ROLE_MAX];
    char url[URL_MAX_SIZE];
    struct kvt_fetch request = {.method = "PUT",
                                .url = url,
                                .headers = lines,
                                .direct = true,
                                .timeout_ms = G4_CREDENTIALS_NEAR_MS};
    enum kvt_err rc;

    (void)snprintf(url, sizeof(url), "%s/latest/api/token", plan->url);
    rc = fetch(&request, answer, err);
    if (rc == KVT_OK)
        rc = take_line(answer, token, sizeof(token), "session token", err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(line, sizeof(line), "X-aws-ec2-metadata-token: %s", token);
    request.method = "GET";
    (void)snprintf(url, sizeof(url), "%s" METADATA_ROLE, plan->url);
    rc = fetch(&request, answer, err);
    if (rc == KVT_OK)
        rc = take_line(answer, role, sizeof(role), "role", err);
    if (rc == KVT_OK) {
        (void)snprintf(url, sizeof(url), "%s" METADATA_ROLE "%s", plan->url, role);
        rc = fetch(&request, answer, err);
    }
    if (rc == KVT_OK)
        rc = g4_credentials_parse_json(keys, (const char *)answer->data, answer->size, err);
    explicit_bzero(token, sizeof(token));
    explicit_bzero(line, sizeof(line));
    return rc;
}

enum kvt_err
g4_credentials_fetch(const struct g4_credentials_source *plan, struct g4_keys *keys,
                     struct kvt_error *err)
{
    struct kvt_buffer answer;
    enum kvt_err rc;

    memset(keys, 0, sizeof(*keys));
    if (!g4_credentials_source_renews(plan)) {
        *keys = plan->keys;
        return KVT_OK;
    }
    rc = open_buffer(&answer, G4_CREDENTIALS_ANSWER_MAX, err);
    if (rc == KVT_OK && plan->link == G4_CREDENTIALS_WEB_IDENTITY)
        rc = ask_sts(plan, &answer, keys, err);
    else if (rc == KVT_OK && plan->link == G4_CREDENTIALS_CONTAINER)
        rc = ask_container(plan, &answer, keys, err);
    else if (rc == KVT_OK)
        rc = ask_metadata(plan, &answer, keys, err);
    wipe_buffer(&answer);
    return rc;
}
