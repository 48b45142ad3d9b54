/*
 * cli/ops/doctor_store.h -- doctor's questions to an S3 address.
 *
 * Why: credentials, bucket, clock and conditional writes are tried on the real store, because what
 * a store claims and what it does differ.  Versions, object locks and lifecycle rules of a bucket
 * decide whether a cap can hold, and whether a block and its record expire together.
 * Threads:   the main thread.
 */
#ifndef CLI_OPS_DOCTOR_STORE_H
#define CLI_OPS_DOCTOR_STORE_H

#include "cli/frame/context.h"
#include "cli/ops/doctor_checks.h"
#include "g4/s3/bucket.h"

/** The gateway's S3 port, with the credentials of the settings. */
void cli_doctor_store_front(const struct cli_context *context, struct cli_doctor_checks *checks);

/** The store of --s3, when given. */
void cli_doctor_store_direct(const struct cli_context *context, struct cli_doctor_checks *checks);

#define CLI_DOCTOR_SKEW_WARN_MS 5000
#define CLI_DOCTOR_SKEW_FAIL_MS 600000 /* signatures are refused at 15 minutes */

/** One line about a clock difference. */
void cli_doctor_store_skew(struct cli_doctor_checks *checks, const char *name, int64_t skew_ms);

/* cli/ops/doctor_bucket.c */

/** Ask the bucket at --s3 and add what its settings do to the cap. */
void cli_doctor_bucket(const struct cli_context *context, struct cli_doctor_checks *checks);

/** Add what these settings do: one check a rule. */
void cli_doctor_bucket_judge(const struct g4_bucket_settings *settings,
                             struct cli_doctor_checks *checks);

#endif /* CLI_OPS_DOCTOR_STORE_H */
