/*
 * cli/remote/cli_bucket.h -- the bucket itself, asked without a gateway.
 *
 * Why: what is in a bucket must be seen and checked also when no gateway runs, and from outside
 * the gateway's own view.  One place opens it, walks it, and says what to do when it is not there.
 *
 * Ownership: a store belongs to the caller: g4_store_close().
 * Threads:   the main thread.
 * Limits:    a walk holds one page of G4_LIST_KEYS_MAX rows.
 */
#ifndef CLI_REMOTE_CLI_BUCKET_H
#define CLI_REMOTE_CLI_BUCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/frame/context.h"
#include "g4/object/g4_store.h"
#include "g4/s3/endpoint.h"
#include "g4/s3/s3.h"
#include "kvtier/error.h"

struct cli_credentials;

/* The rows of CLI_OPTIONS_BUCKET (cli/frame/options.h), counted from the command's first one. */
enum cli_bucket_option {
    CLI_BUCKET_S3,
    CLI_BUCKET_CREDENTIALS,
    CLI_BUCKET_REGION,
    CLI_BUCKET_CA,
    CLI_BUCKET_OPTIONS
};

/** Was --s3 given?  `first` is the command's first row of CLI_OPTIONS_BUCKET. */
bool cli_bucket_given(const struct cli_context *context, size_t first);

/** Text of one of the rows; of an unset region or CA file, what the AWS_* variables say. */
const char *cli_bucket_option(const struct cli_context *context, size_t first,
                              enum cli_bucket_option which);

/** The bucket of --bucket at --s3; the texts stay those of options, settings and credentials. */
struct g4_s3_options cli_bucket_s3(const struct cli_context *context, size_t first,
                                   const struct cli_credentials *credentials);

/**
 * Open the bucket of --bucket at --s3; nothing is asked yet.
 *
 * @return KVT_OK; KVT_INVALID without --s3; as cli_credentials_load() and g4_s3_open()
 */
KVT_NODISCARD enum kvt_err cli_bucket_open(const struct cli_context *context, size_t first,
                                           struct g4_store **store, struct kvt_error *err);

/**
 * The same without --s3 too: then it is the gateway's S3 port (gateway.data_url) with
 * gateway.credentials_file.
 *
 * @return as cli_bucket_open(); KVT_INVALID also when those are not set
 */
KVT_NODISCARD enum kvt_err cli_bucket_open_any(const struct cli_context *context, size_t first,
                                               struct g4_store **store, struct kvt_error *err);

/** The same address and keys for questions that are about no object (g4/s3/bucket.h). */
KVT_NODISCARD enum kvt_err cli_bucket_endpoint(const struct cli_context *context, size_t first,
                                               struct g4_endpoint **endpoint,
                                               struct kvt_error *err);

/**
 * Every object whose key begins with `prefix` and lies behind `after` ("" = all), page by page.
 *
 * @param each  false stops the walk
 * @return KVT_OK, KVT_NOTFOUND (no such bucket), or why the store could not be asked
 */
KVT_NODISCARD enum kvt_err cli_bucket_walk(struct g4_store *store, const char *prefix,
                                           const char *after,
                                           bool (*each)(void *arg, const struct g4_listed *row),
                                           void *arg, struct kvt_error *err);

/** One page of a listing, into `page` (verb, key, listed and token set); as cli_bucket_walk(). */
KVT_NODISCARD enum kvt_err cli_bucket_page(struct g4_store *store, struct g4_request *page,
                                           struct kvt_error *err);

/** What to do about `err` of a bucket; "see the message" when there is no better advice. */
const char *cli_bucket_fix(const struct kvt_error *err);

/** Report `err` of a bucket, and the command to try next. */
enum cli_exit cli_bucket_fail(const struct cli_context *context, size_t first,
                              const struct kvt_error *err);

#endif /* CLI_REMOTE_CLI_BUCKET_H */
