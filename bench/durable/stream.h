/*
 * bench/durable/stream.h -- the events of a workload of bench/index/corpus.h, one after another.
 *
 * Why: what is committed, and what is loaded after a restart, must be the same events.
 * Ownership: a stream owns its corpus; an event points into the stream until the next one.
 * Threads:   one.
 * Limits:    those of corpus.h.
 */
#ifndef BENCH_DURABLE_STREAM_H
#define BENCH_DURABLE_STREAM_H

#include "bench/index/corpus.h"

enum { STREAM_NAMESPACES = 2 };

struct stream_event {
    const uint64_t *hashes;
    const uint64_t *tokens;
    uint64_t parent;
    uint32_t position;
    uint32_t count;
    uint32_t worker;
    uint32_t ns;
};

struct stream {
    struct corpus corpus;
    uint32_t chain;    /* the next one, or the first of those that are open */
    uint32_t open;     /* chains that grow by one block each in turn; 0: none */
    uint32_t at;       /* the next of them */
    uint32_t position; /* of its next block */
    uint64_t *hashes;  /* of the open chains */
    uint64_t *tokens;
};

/** Workload `load` of corpus.h.  KVT_OK, KVT_INVALID or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err stream_open(struct stream *stream, const char *load, size_t blocks,
                                       uint64_t seed);
void stream_close(struct stream *stream);
/** From the first event on. */
void stream_rewind(struct stream *stream);
/** False: that was all. */
bool stream_next(struct stream *stream, struct stream_event *event);

#endif /* BENCH_DURABLE_STREAM_H */
