/*
 * cli/ops/doctor_bucket.h -- the part of `kvtier doctor` about how a bucket is set up.
 *
 * Why: versions, object locks and lifecycle rules decide whether a cap can hold, and whether what
 * goes away by itself goes away whole.
 * Ownership: borrows the checks and the settings.
 * Threads:   the main thread.
 * Limits:    one check a rule.
 */
#ifndef CLI_OPS_DOCTOR_BUCKET_H
#define CLI_OPS_DOCTOR_BUCKET_H

#include "cli/frame/context.h"
#include "cli/ops/doctor_checks.h"
#include "g4/s3/bucket.h"

/** Ask the bucket at --s3 and add what its settings do to the cap. */
void cli_doctor_bucket(const struct cli_context *context, struct cli_doctor_checks *checks);

/** Add what these settings do. */
void cli_doctor_bucket_judge(const struct g4_bucket_settings *settings,
                             struct cli_doctor_checks *checks);

#endif /* CLI_OPS_DOCTOR_BUCKET_H */
