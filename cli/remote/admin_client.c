#include "cli/remote/admin_client.h"

#include <ctype.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/http/fetch.h"
#include "base/text/json.h"
#include "base/text/parse.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/frame/daemon_settings.h"
#include "cli/output/cli_json.h"

enum { TOKEN_MAX = 256, URL_MAX = 4096, MESSAGE_MAX = 160 };

#define NO_PATH "no such path" /* base/http/http.c says it */

const char *
cli_admin_name(enum cli_admin server)
{
    return server == CLI_ADMIN_ADVISOR ? "advisor" : "gateway";
}

const char *
cli_admin_url(const struct cli_context *context, enum cli_admin server)
{
    if (server == CLI_ADMIN_GATEWAY && context->gateway_url != NULL)
        return context->gateway_url;
    return kvt_config_string(context->settings, server == CLI_ADMIN_ADVISOR
                                                    ? CLI_SETTING_ADVISOR_URL
                                                    : CLI_SETTING_GATEWAY_URL);
}

static enum kvt_err
code_of(unsigned status, const char *name)
{
    for (int code = 1; code < KVT_ERR_COUNT; code++)
        if (strcmp(kvt_err_name((enum kvt_err)code), name) == 0)
            return (enum kvt_err)code;
    switch (status) {
    case 400: return KVT_INVALID;
    case 401:
    case 403: return KVT_DENIED;
    case 404: return KVT_NOTFOUND;
    case 412: return KVT_PRECONDITION;
    case 413: return KVT_RANGE;
    case 429:
    case 503: return KVT_AGAIN;
    default: return KVT_IO;
    }
}

/* What listens there is not who was meant. */
static enum kvt_err
somebody_else(const struct cli_context *context, enum cli_admin server, const char *why,
              struct kvt_error *err)
{
    return kvt_error_set(err, KVT_IO, "%.160s %s: is this %s?", cli_admin_url(context, server), why,
                         server == CLI_ADMIN_ADVISOR ? "an advisor" : "a gateway");
}

/* A 4xx or 5xx as an error: the server's own code and words when it gave some.  A path that is
 * not there is not what was asked for: somebody else listens. */
static enum kvt_err
refused(const struct cli_context *context, enum cli_admin server, unsigned status,
        struct kvt_buffer *answer, struct kvt_error *err)
{
    struct json_object *object = NULL;
    const char *message;
    enum kvt_err rc;

    if (kvt_json_parse(&object, kvt_buffer_text(answer), answer->size, "answer", err) != KVT_OK)
        object = NULL;
    message = cli_json_text(object, "error.message");
    if (status == 404 && (message[0] == '\0' || strcmp(message, NO_PATH) == 0)) {
        (void)json_object_put(object);
        return somebody_else(context, server, "has no such path (HTTP 404)", err);
    }
    rc = code_of(status, cli_json_text(object, "error.code"));
    if (rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT)
        rc = KVT_AGAIN; /* the server is there: what it asked is not */
    (void)kvt_error_set(err, rc, "%s: %.*s (HTTP %u)", cli_admin_name(server), MESSAGE_MAX,
                        message[0] == '\0' ? kvt_err_text(rc) : message, status);
    (void)json_object_put(object);
    return rc;
}

static enum kvt_err
fetch(const struct cli_context *context, enum cli_admin server,
      const struct cli_admin_request *request, bool token, struct kvt_buffer *answer,
      struct kvt_error *err)
{
    struct kvt_fetch question = {.method = request->method,
                                 .headers = request->headers,
                                 .body = request->body,
                                 .body_size = request->body_size,
                                 .type = request->type,
                                 .timeout_ms =
                                     kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT)};
    char secret[TOKEN_MAX] = "";
    struct kvt_error cause = {0};
    const char *base = cli_admin_url(context, server);
    size_t length = strlen(base);
    char url[URL_MAX];
    const char *text;
    unsigned status;
    enum kvt_err rc;
    int size;

    while (length > 0 && base[length - 1] == '/')
        length--;
    size = snprintf(url, sizeof(url), "%.*s%s", (int)length, base, request->path);
    if (size < 0 || (size_t)size >= sizeof(url))
        return kvt_error_set(err, KVT_RANGE, "the address is too long");
    if (token) {
        rc = kvt_config_secret(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE, secret,
                               sizeof(secret), &cause);
        if (rc == KVT_NOTFOUND &&
            !kvt_config_is_set(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE))
            return kvt_error_set(err, KVT_INVALID,
                                 "this needs the admin token: --admin-token-file FILE");
        /* What is not found is no answer of the server's: the setting is wrong. */
        if (rc != KVT_OK)
            return kvt_error_set(err, rc == KVT_NOTFOUND ? KVT_INVALID : rc, "%s", cause.text);
        question.token = secret;
    }
    question.url = url;
    rc = kvt_fetch(&question, &status, answer, &cause);
    explicit_bzero(secret, sizeof(secret));
    text = strncmp(cause.text, url, strlen(url)) == 0 ? cause.text + strlen(url) : cause.text;
    text += strspn(text, ": ");
    if (rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT)
        return kvt_error_set(err, rc, "no %s at %s: %.*s", cli_admin_name(server),
                             cli_admin_url(context, server), MESSAGE_MAX, text);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "%s: %.*s", cli_admin_name(server), MESSAGE_MAX, text);
    if (status == 401 && token)
        return kvt_error_set(err, KVT_DENIED, "the token in %.160s is not the %s's (HTTP 401)",
                             kvt_config_string(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE),
                             cli_admin_name(server));
    return status < 400 ? KVT_OK : refused(context, server, status, answer, err);
}

enum kvt_err
cli_admin_fetch(const struct cli_context *context, enum cli_admin server, const char *path,
                struct kvt_buffer *answer, struct kvt_error *err)
{
    const struct cli_admin_request request = {.path = path};

    return fetch(context, server, &request, false, answer, err);
}

static enum kvt_err
ask(const struct cli_context *context, enum cli_admin server,
    const struct cli_admin_request *request, bool token, struct json_object **answer,
    struct kvt_error *err)
{
    struct kvt_buffer buffer;
    enum kvt_err rc;

    *answer = NULL;
    kvt_buffer_init(&buffer, CLI_ADMIN_ANSWER_MAX);
    rc = fetch(context, server, request, token, &buffer, err);
    if (rc == KVT_OK) {
        rc = kvt_json_parse(answer, kvt_buffer_text(&buffer), buffer.size,
                            cli_admin_url(context, server), err);
        if (rc == KVT_INVALID)
            rc = somebody_else(context, server, "answers with no JSON", err);
    }
    kvt_buffer_release(&buffer);
    return rc;
}

enum kvt_err
cli_admin_ask(const struct cli_context *context, enum cli_admin server, const char *path,
              struct json_object *body, bool token, struct json_object **answer,
              struct kvt_error *err)
{
    struct cli_admin_request request = {.path = path};

    if (body != NULL) {
        request.method = "POST";
        request.body = json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN);
        request.body_size = strlen(request.body);
    }
    return ask(context, server, &request, token, answer, err);
}

enum kvt_err
cli_admin_send(const struct cli_context *context, enum cli_admin server,
               const struct cli_admin_request *request, struct json_object **answer,
               struct kvt_error *err)
{
    return ask(context, server, request, true, answer, err);
}

/* Where the command can do without the advisor, say how: that is what one wants to know now. */
static void
print_offline_hint(const struct cli_context *context)
{
    const struct cli_command *command = context->command;

    for (size_t i = 0; command != NULL && i < command->option_count; i++)
        if (strcmp(command->options[i].key, "offline") == 0)
            (void)fprintf(context->err,
                          "  look without it: kvtier %s%s%s --offline DIR\n"
                          "                   (DIR is its state.dir, %s unless set)\n",
                          command->path, command->arguments[0] == '\0' ? "" : " ",
                          command->arguments, cli_advisor_settings[CLI_ADVISOR_STATE_DIR].fallback);
}

enum cli_exit
cli_admin_fail(const struct cli_context *context, enum cli_admin server,
               const struct kvt_error *err)
{
    const enum cli_exit status = cli_context_fail(context, err);

    if (err->code != KVT_UNAVAILABLE && err->code != KVT_TIMEOUT)
        return status;
    print_offline_hint(context);
    (void)fprintf(context->err,
                  "  start one here:  kvtier dev          (or: systemctl start kvtier-%s)\n"
                  "  it is elsewhere: kvtier --%s-url URL %s\n"
                  "  what is wrong:   kvtier doctor\n",
                  cli_admin_name(server), cli_admin_name(server),
                  context->command == NULL ? "status" : context->command->path);
    return CLI_EXIT_TEMPORARY;
}

void
cli_admin_loading(const struct cli_context *context, struct json_object *answer)
{
    char done[KVT_SIZE_TEXT_MAX];
    char all[KVT_SIZE_TEXT_MAX];

    if (!cli_json_bool(answer, "loading"))
        return;
    kvt_size_format(cli_json_u64(answer, "loaded_bytes"), done);
    kvt_size_format(cli_json_u64(answer, "load_bytes"), all);
    (void)fprintf(context->err,
                  "kvtier: the advisor is reading its index into memory after a start: %s of %s\n",
                  done, all);
}

void
cli_admin_escape(struct kvt_buffer *path, const char *text, bool slash)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;

        if (isalnum(byte) || strchr("-._~", byte) != NULL || (slash && byte == '/'))
            kvt_buffer_append(path, text, 1);
        else
            kvt_buffer_printf(path, "%%%02X", byte);
    }
}

/* One page: its lines to `each`, its last to `cursor` ("" = that was all). */
static enum kvt_err
walk_page(char *text, const char *what, bool (*each)(void *arg, struct json_object *line),
          void *arg, char cursor[CLI_ADMIN_CURSOR_MAX], struct kvt_error *err)
{
    bool more = true;

    cursor[0] = '\0';
    while (*text != '\0' && more) {
        const size_t size = strcspn(text, "\n");
        struct json_object *line;
        struct json_object *next;
        enum kvt_err rc;

        if (size > 0) {
            rc = kvt_json_parse(&line, text, size, what, err);
            if (rc != KVT_OK)
                return rc;
            if (json_object_object_get_ex(line, "next_cursor", &next))
                (void)snprintf(cursor, CLI_ADMIN_CURSOR_MAX, "%s", json_object_get_string(next));
            else
                more = each(arg, line);
            (void)json_object_put(line);
        }
        text += size;
        text += *text == '\n';
    }
    if (!more || strcmp(cursor, "0") == 0)
        cursor[0] = '\0';
    return KVT_OK;
}

enum kvt_err
cli_admin_page(const struct cli_context *context, enum cli_admin server, const char *path,
               char cursor[CLI_ADMIN_CURSOR_MAX], bool (*each)(void *arg, struct json_object *line),
               void *arg, struct kvt_error *err)
{
    struct kvt_buffer answer;
    struct kvt_buffer full;
    enum kvt_err rc;

    kvt_buffer_init(&answer, CLI_ADMIN_ANSWER_MAX);
    kvt_buffer_init(&full, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&full, "%s", path);
    if (cursor[0] != '\0') {
        kvt_buffer_printf(&full, "%ccursor=", strchr(path, '?') == NULL ? '?' : '&');
        cli_admin_escape(&full, cursor, false);
    }
    cursor[0] = '\0';
    if (!kvt_buffer_ok(&full))
        rc = kvt_error_set(err, KVT_RANGE, "cursor too long");
    else
        rc = cli_admin_fetch(context, server, kvt_buffer_text(&full), &answer, err);
    (void)kvt_buffer_text(&answer); /* terminates it */
    if (rc == KVT_OK && answer.size > 0)
        rc = walk_page((char *)answer.data, cli_admin_url(context, server), each, arg, cursor, err);
    kvt_buffer_release(&full);
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
cli_admin_walk(const struct cli_context *context, enum cli_admin server, const char *path,
               bool (*each)(void *arg, struct json_object *line), void *arg, struct kvt_error *err)
{
    char cursor[CLI_ADMIN_CURSOR_MAX] = "";
    enum kvt_err rc;

    do
        rc = cli_admin_page(context, server, path, cursor, each, arg, err);
    while (rc == KVT_OK && cursor[0] != '\0');
    return rc;
}
