/*
 * base/http/listen.h -- a listening TCP socket.
 *
 * Why: "the port is taken" must be a clear message before anything else starts, and tests need free
 * ports.
 * Ownership: the socket belongs to the caller.
 * Limits:    numeric addresses and "localhost" only: a server must not depend on a name server.
 */
#ifndef BASE_HTTP_LISTEN_H
#define BASE_HTTP_LISTEN_H

#include <stdint.h>

#include "kvtier/error.h"

/**
 * Listen on `bind`:`port` (0: a free one).
 *
 * @param[out] fd    a listening socket, -1 on failure
 * @param[out] used  the port it got
 * @return KVT_OK, KVT_BUSY (taken), KVT_DENIED (a port below 1024), KVT_INVALID or KVT_IO
 */
KVT_NODISCARD enum kvt_err kvt_listen(int *fd, uint16_t *used, const char *bind, uint16_t port,
                                      struct kvt_error *err);

#endif /* BASE_HTTP_LISTEN_H */
