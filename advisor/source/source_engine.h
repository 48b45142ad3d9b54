/*
 * advisor/source/source_engine.h -- asking an engine's replay socket for what was missed.
 *
 * Why: the reader asks whether a publisher that came back is the one it knew; the courier asks for
 * what is missing.  Both put the same question to the same ROUTER.
 * Ownership: `advisor_source_engine` belongs to its source and is constant while that is open.
 * Threads:   any; each question has a socket of its own.
 * Limits:    the deadline of a question and the limit of the answer's buffer.
 */
#ifndef ADVISOR_SOURCE_SOURCE_ENGINE_H
#define ADVISOR_SOURCE_SOURCE_ENGINE_H

#include "advisor/source/source_zmq.h"

struct advisor_source_engine_reader;

struct advisor_source_engine {
    struct advisor_source_zmq_list endpoints;
    struct advisor_source_zmq_list replays;      /* in the order of endpoints; "" = has none */
    struct advisor_source_engine_reader *reader; /* the source's own thread's */
};

struct advisor_source_engine_question {
    uint32_t endpoint;
    uint64_t from;
    uint64_t to; /* the last of interest; 0: to the newest */
    uint64_t deadline_ms;
};

#define ADVISOR_SOURCE_ENGINE_PREFIX_MAX 32

/** What the names of its publishers begin with: the source's name (when that is long: its beginning
 *  and a digest) and ":".  Holders go by these names, and a namespace may have several sources. */
void advisor_source_engine_prefix(const struct advisor_source *source,
                                  char prefix[ADVISOR_SOURCE_ENGINE_PREFIX_MAX]);

/** As `ask` in advisor/source/source.h. */
KVT_NODISCARD enum kvt_err advisor_source_engine_ask(struct advisor_source *source,
                                                     const struct advisor_ask *ask,
                                                     enum advisor_answer_kind *kind,
                                                     struct kvt_buffer *answer,
                                                     struct kvt_error *err);

/** Only the first message of the answer: its number and the digest (XXH3) of its payload. */
KVT_NODISCARD enum kvt_err
advisor_source_engine_first(struct advisor_source *source,
                            const struct advisor_source_engine_question *question,
                            uint64_t *sequence, uint64_t *digest);

#endif /* ADVISOR_SOURCE_SOURCE_ENGINE_H */
