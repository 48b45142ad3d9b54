/*
 * cli/remote/admin_client.h -- questions to the daemons' admin HTTP.
 *
 * Why: one place knows addresses, the token, what a status means, and what to tell a person whose
 * server is not there.
 * Ownership: an answer belongs to the caller (json_object_put()).
 * Threads:   the main thread.
 * Limits:    CLI_ADMIN_ANSWER_MAX bytes of answer.
 */
#ifndef CLI_REMOTE_ADMIN_CLIENT_H
#define CLI_REMOTE_ADMIN_CLIENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/core/buffer.h"
#include "cli/frame/context.h"
#include "kvtier/error.h"

#define CLI_ADMIN_ANSWER_MAX (64u << 20)
#define CLI_ADMIN_PATH_MAX   4096
#define CLI_ADMIN_CURSOR_MAX 1024

enum cli_admin { CLI_ADMIN_ADVISOR, CLI_ADMIN_GATEWAY };

/** "advisor", "gateway". */
const char *cli_admin_name(enum cli_admin server);

/** Its admin address, as configured. */
const char *cli_admin_url(const struct cli_context *context, enum cli_admin server);

/**
 * GET `path` (with its query), or POST it when `body` is not NULL.  `token`: send the admin token.
 *
 * @return KVT_OK and the parsed answer; KVT_UNAVAILABLE or KVT_TIMEOUT (nobody there),
 * KVT_NOTFOUND, KVT_DENIED, KVT_INVALID or another code as the server's error says
 */
KVT_NODISCARD enum kvt_err cli_admin_ask(const struct cli_context *context, enum cli_admin server,
                                         const char *path, struct json_object *body, bool token,
                                         struct json_object **answer, struct kvt_error *err);

/* A request that is no plain JSON. */
struct cli_admin_request {
    const char *method;
    const char *path;
    const char *type; /* of the body; NULL: JSON */
    const void *body; /* NULL: none */
    size_t body_size;
    const char *const *headers; /* more of them, up to a NULL; or NULL */
};

/** The same for any request; sends the admin token. */
KVT_NODISCARD enum kvt_err cli_admin_send(const struct cli_context *context, enum cli_admin server,
                                          const struct cli_admin_request *request,
                                          struct json_object **answer, struct kvt_error *err);

/** The same for an answer of many lines: the raw bytes. */
KVT_NODISCARD enum kvt_err cli_admin_fetch(const struct cli_context *context, enum cli_admin server,
                                           const char *path, struct kvt_buffer *answer,
                                           struct kvt_error *err);

/** Report `err` of a question; when nobody was there also say what to do next. */
enum cli_exit cli_admin_fail(const struct cli_context *context, enum cli_admin server,
                             const struct kvt_error *err);

/** Say so when the advisor still reads its index: `answer` says how far it is. */
void cli_admin_loading(const struct cli_context *context, struct json_object *answer);

/** Append `text` to a path or query, percent-encoded; '/' stays when `slash`. */
void cli_admin_escape(struct kvt_buffer *path, const char *text, bool slash);

/**
 * Walk an answer of JSON lines in pages that end with {"next_cursor": C}.
 *
 * @param path   with its query, to which "cursor=" is appended
 * @param each   one object; false stops the walk
 * @return KVT_OK, or the first failure
 */
KVT_NODISCARD enum kvt_err cli_admin_walk(const struct cli_context *context, enum cli_admin server,
                                          const char *path,
                                          bool (*each)(void *arg, struct json_object *line),
                                          void *arg, struct kvt_error *err);

/** One page of such a walk.  `cursor` is where it begins ("" = at the first), then where the next
 *  one does ("" = there is none). */
KVT_NODISCARD enum kvt_err cli_admin_page(const struct cli_context *context, enum cli_admin server,
                                          const char *path, char cursor[CLI_ADMIN_CURSOR_MAX],
                                          bool (*each)(void *arg, struct json_object *line),
                                          void *arg, struct kvt_error *err);

#endif /* CLI_REMOTE_ADMIN_CLIENT_H */
