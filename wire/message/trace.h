/*
 * wire/message/trace.h -- workload traces: one JSON object a line (docs/formats.md, "Traces").
 *
 * Why: the public schema `timestamp, input_length, output_length, hash_ids` is what traces come in;
 * worker, generator and simulator must read and write the same one.
 * Ownership: the reader owns its buffers; a request's hash_ids live until the next read.
 * Threads:   one reader, one thread.
 * Limits:    a line of WIRE_TRACE_LINE_MAX bytes, WIRE_TRACE_HASHES_MAX blocks in a request.
 */
#ifndef WIRE_MESSAGE_TRACE_H
#define WIRE_MESSAGE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kvtier/error.h"

#define WIRE_TRACE_LINE_MAX   (4u << 20)
#define WIRE_TRACE_HASHES_MAX 65536

struct wire_trace_request {
    uint64_t timestamp_ms;
    uint64_t input_length;  /* tokens */
    uint64_t output_length; /* tokens */
    const uint64_t
        *hash_ids; /* the prompt's block ids, root first; ids are not yet sequence hashes */
    uint32_t hash_count;
    const char *namespace_; /* whose blocks; "": nothing is said.  Lives as hash_ids */
};

struct wire_trace;

/** "-" reads standard input. */
KVT_NODISCARD enum kvt_err wire_trace_open(struct wire_trace **out, const char *path,
                                           struct kvt_error *err);
void wire_trace_close(struct wire_trace *trace);

/** Next request.  KVT_NOTFOUND at the end; KVT_INVALID names file:line and what is wrong there
 *  (reading may go on behind the bad line). */
KVT_NODISCARD enum kvt_err wire_trace_next(struct wire_trace *trace,
                                           struct wire_trace_request *request,
                                           struct kvt_error *err);

/** Write one line. */
KVT_NODISCARD enum kvt_err wire_trace_write(FILE *out, const struct wire_trace_request *request);

/** Chain a request's ids into sequence hashes: s_0 = XXH3(ids_0), s_i = XXH3(LE64(s_{i-1}) ||
 * LE64(id), seed 1337); `salt` separates namespaces.  `out` has room for hash_count. */
void wire_trace_chain(const struct wire_trace_request *request, uint64_t salt, uint64_t *out);

#endif /* WIRE_MESSAGE_TRACE_H */
