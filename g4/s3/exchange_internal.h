/*
 * g4/s3/exchange_internal.h -- what the header lines of an answer say.
 *
 * Why: making a request and believing an answer are read apart from each other.
 */
#ifndef G4_S3_EXCHANGE_INTERNAL_H
#define G4_S3_EXCHANGE_INTERNAL_H

#include "g4/s3/exchange.h"

/** libcurl's header callback: one line of an answer, an interim answer or a trailer. */
size_t g4_exchange_on_header(char *line, size_t unit, size_t count, void *arg);

/** Stop the transfer, the first reason counts; returns 0, what a callback answers for that. */
size_t g4_exchange_refuse(struct g4_exchange *exchange, enum kvt_err rc, const char *why);

/** x-amz-meta-kvt-key of an object under `key`. */
uint32_t g4_exchange_mark(const char *key);

#endif /* G4_S3_EXCHANGE_INTERNAL_H */
