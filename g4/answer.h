/*
 * g4/answer.h -- what an S3 status and error code mean to us.
 *
 * Why: one table, so that every verb and every server is judged alike.
 * Ownership: none.
 * Threads:   any.
 * Limits:    none.
 */
#ifndef G4_ANSWER_H
#define G4_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/store.h"
#include "kvtier/error.h"

/**
 * The code for request->http, the request's condition and the error body; fills request->error.
 *
 * @param[out] again  whether the same request may end better a little later
 */
KVT_NODISCARD enum kvt_err g4_answer_status(struct g4_request *request, const char *body,
                                            size_t size, bool *again);

#endif /* G4_ANSWER_H */
