/*
 * g4/s3/s3_answer.h -- what an S3 status and error code mean to us.
 *
 * Why: one table, so that every verb and every server is judged alike.
 */
#ifndef G4_S3_S3_ANSWER_H
#define G4_S3_S3_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

/* What is to be done about a refusal besides telling the caller. */
enum g4_s3_answer_cause {
    G4_S3_ANSWER_OTHER,
    G4_S3_ANSWER_KEYS,  /* these keys are not good any more; others may be */
    G4_S3_ANSWER_CLOCK, /* signed at a time that is not the server's */
};

struct g4_s3_answer {
    enum g4_s3_answer_cause cause;
    bool again; /* the same request may end better a little later */
};

/**
 * The code for request->http, the request's condition and the error body; fills request->error.
 */
KVT_NODISCARD enum kvt_err g4_s3_answer_status(struct g4_request *request, const char *body,
                                               size_t size, struct g4_s3_answer *answer);

#endif /* G4_S3_S3_ANSWER_H */
