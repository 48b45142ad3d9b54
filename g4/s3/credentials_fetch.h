/*
 * g4/s3/credentials_fetch.h -- asking a service for keys, once.
 *
 * Why: a token service, a container's agent and an instance's metadata each have their own few
 * steps; what comes of them is the same.
 *
 * Ownership: none; every buffer that held a secret is wiped.
 * Limits:    G4_CREDENTIALS_ANSWER_MAX bytes an answer; G4_CREDENTIALS_FETCH_MS a request.
 */
#ifndef G4_S3_CREDENTIALS_FETCH_H
#define G4_S3_CREDENTIALS_FETCH_H

#include "g4/s3/credentials_source.h"
#include "kvtier/error.h"

#define G4_CREDENTIALS_ANSWER_MAX (64u * 1024)
#define G4_CREDENTIALS_FETCH_MS   5000
#define G4_CREDENTIALS_NEAR_MS    2000 /* an agent or metadata, which are next door */

/** KVT_OK, KVT_UNAVAILABLE or KVT_TIMEOUT (nobody there), KVT_DENIED (refused), KVT_INVALID (an
 *  answer we cannot read), KVT_IO, or what reading a token file said. */
KVT_NODISCARD enum kvt_err g4_credentials_fetch(const struct g4_credentials_source *plan,
                                                struct g4_keys *keys, struct kvt_error *err);

#endif /* G4_S3_CREDENTIALS_FETCH_H */
