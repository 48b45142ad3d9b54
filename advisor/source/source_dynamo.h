/*
 * advisor/source/source_dynamo.h -- asking Dynamo for events that were missed.
 *
 * Why: a worker keeps its last events and all it holds, and says so when asked; an indexer of
 * its own answers for all workers over HTTP.  Whatever plane the events came over, the question is
 * the same.
 * Ownership: nothing is kept between questions.
 * Threads:   any; each question has sockets of its own.
 * Limits:    the deadline of a question, the limit of the answer's buffer, those of the port that
 *            waits for an answer (advisor/source/source_dynamo_callback.h).
 */
#ifndef ADVISOR_SOURCE_SOURCE_DYNAMO_H
#define ADVISOR_SOURCE_SOURCE_DYNAMO_H

#include "advisor/source/source_private.h"
#include "advisor/transport/discovery.h"

/**
 * As `ask` in advisor/source/source.h: the worker itself where the discovery folder or the subject
 * tells how to reach it, else the HTTP dump where there is one.
 */
KVT_NODISCARD enum kvt_err advisor_dynamo_ask(struct advisor_source *source,
                                              const struct advisor_ask *ask,
                                              enum advisor_answer_kind *kind,
                                              struct kvt_buffer *answer, struct kvt_error *err);

/** Ask a worker at `target`.  The answer is a body for wire_dynamo_decode_answer_part().  KVT_OK,
 *  KVT_TIMEOUT, KVT_UNAVAILABLE (nobody is there, or it refuses), KVT_INVALID (what came is no
 *  answer), KVT_RANGE, KVT_NOMEM or KVT_CANCELLED. */
KVT_NODISCARD enum kvt_err advisor_dynamo_query(struct advisor_source *source,
                                                const struct advisor_discovery_target *target,
                                                const struct advisor_ask *ask,
                                                struct kvt_buffer *answer, struct kvt_error *err);

/** GET <dump_url>/dump, for wire_dynamo_decode_dump_part(). */
KVT_NODISCARD enum kvt_err advisor_dynamo_dump(struct advisor_source *source,
                                               const struct advisor_ask *ask,
                                               struct kvt_buffer *answer, struct kvt_error *err);

#endif /* ADVISOR_SOURCE_SOURCE_DYNAMO_H */
