/*
 * advisor/admin/age_lines.h -- of a policy, what has an age: lines in the picture of ages at reuse.
 *
 * Why: a rule that acts on what was idle for an hour costs the reads that come after more than an
 * hour; who sees both in one picture sees what the rule costs.
 * Ownership: borrows the policy.
 * Limits:    ADVISOR_LINES_MAX lines.
 */
#ifndef ADVISOR_ADMIN_AGE_LINES_H
#define ADVISOR_ADMIN_AGE_LINES_H

#include "base/core/buffer.h"

#include "policy/file/policy_file.h"

#define ADVISOR_LINES_MAX 12

/** Append "lines" [{seconds, text}]: what is protected as recent, and what conditions of rules and
 *  classes ask of `last_access`. */
void advisor_admin_add_lines(struct kvt_buffer *out, const struct policy *policy);

#endif /* ADVISOR_ADMIN_AGE_LINES_H */
