/*
 * bench/sink.h -- the floor under the gateway: the least a durable object server over HTTP can do.
 *
 * Why: "how fast is the gateway" means nothing without "how fast could anything be, here, now". The
 * sink takes the same requests on the same disk: PUT is a new file, written, synced, linked, its
 * folder synced, answered; GET is sendfile of that file.  No signature, no catalog, no checks, no
 * events.
 *
 * Ownership: the folder's path is copied; files are left there.
 * Threads:   one per connection, made by the accepting thread.
 * Limits:    SINK_CONNECTIONS_MAX at once.
 */
#ifndef BENCH_SINK_H
#define BENCH_SINK_H

#include <stdint.h>

#include "kvtier/error.h"

#define SINK_CONNECTIONS_MAX 64

struct sink;

KVT_NODISCARD enum kvt_err sink_start(struct sink **out, const char *folder, struct kvt_error *err);

/** The loopback port it listens on. */
uint16_t sink_port(const struct sink *sink);

/** Ends when its clients have closed their connections.  NULL is allowed. */
void sink_stop(struct sink *sink);

#endif /* BENCH_SINK_H */
