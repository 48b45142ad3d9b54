/*
 * base/http/tls.h -- the certificate that a TLS port shows, exchanged while it serves.
 *
 * Why: libmicrohttpd reads a certificate once, and a restart costs whoever is connected.  So each
 * connection is given, before its handshake, the pair of certificate and key that is in force then,
 * and has it to its end; an exchange touches no connection.
 *
 * Ownership: a pair lives as long as somebody holds it: its port, and each connection that was
 *            given it.
 * Threads:   any.  One leaf lock around the pair in force.
 * Limits:    KVT_TLS_CHAIN_MAX certificates in a file.
 */
#ifndef BASE_HTTP_TLS_H
#define BASE_HTTP_TLS_H

#include <microhttpd.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_TLS_CHAIN_MAX 16

struct kvt_tls;
struct kvt_tls_pair;

/** A port without a certificate, whose connections fail until it has one. */
KVT_NODISCARD enum kvt_err kvt_tls_new(struct kvt_tls **out);

/** Pairs that connections hold stay theirs.  NULL is allowed. */
void kvt_tls_free(struct kvt_tls *tls);

/**
 * Put a pair in force, for connections from here on.
 *
 * @param certificate  PEM: the port's own, then those above it
 * @param key          PEM: of the first of them
 * @return KVT_INVALID (one of them is none, or they do not belong together) or KVT_NOMEM: the pair
 *         that was in force stays
 */
KVT_NODISCARD enum kvt_err kvt_tls_load(struct kvt_tls *tls, const char *certificate,
                                        const char *key, struct kvt_error *err);

/** When the certificate in force begins and ends to be valid, in ms since 1970; 0: there is none.
 */
void kvt_tls_validity(struct kvt_tls *tls, uint64_t *from_ms, uint64_t *to_ms);

/** The versions and cipher suites of every port with TLS. */
struct MHD_OptionItem kvt_tls_priorities(void);

/** What MHD_start_daemon() needs behind MHD_USE_TLS: an entry of its MHD_OPTION_ARRAY. */
struct MHD_OptionItem kvt_tls_option(void);

/**
 * For MHD_CONNECTION_NOTIFY_STARTED: show the pair in force to this connection.
 *
 * @return what is held for it until MHD_CONNECTION_NOTIFY_CLOSED; NULL: there is none, or the
 *         connection speaks no TLS; then its handshake fails
 */
struct kvt_tls_pair *kvt_tls_greet(struct kvt_tls *tls, struct MHD_Connection *connection);

/** One holder less; the last one wipes it.  NULL is allowed. */
void kvt_tls_drop(struct kvt_tls_pair *pair);

#endif /* BASE_HTTP_TLS_H */
