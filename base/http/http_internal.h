/*
 * base/http/http_internal.h -- who may talk to a port that trusts its own machine.
 *
 * Why: "it only listens on loopback" does not keep a web page out: the browser of whoever sits at
 * the machine connects from loopback too.  A page betrays itself by its Origin, and a name that was
 * pointed at us (DNS rebinding) by the Host.
 * Ownership: nothing is kept.
 * Limits:    tokens up to KVT_HTTP_TOKEN_MAX.
 */
#ifndef BASE_HTTP_HTTP_INTERNAL_H
#define BASE_HTTP_HTTP_INTERNAL_H

#include <stdbool.h>

/**
 * Is `host` (a Host header, NULL when there was none) a name of ours?  An address is: it cannot be
 * pointed elsewhere.  So are "localhost", this machine's name, `bind`, and the comma-separated
 * `more` (NULL: none).
 */
bool kvt_http_host_ok(const char *host, const char *bind, const char *more);

/** Did the request come from no page at all (NULL), or from a page of this very host? */
bool kvt_http_origin_ok(const char *origin, const char *host);

/** Does `authorization` carry `token`?  Takes the same time whatever it carries.  An empty token is
 *  carried by nobody. */
bool kvt_http_token_ok(const char *authorization, const char *token);

#endif /* BASE_HTTP_HTTP_INTERNAL_H */
