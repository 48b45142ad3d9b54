/*
 * policy/file/policy_parse.h -- from the text of a policy to the policy, with every mistake.
 *
 * Why: policy/file/policy_file.h is what a policy is; reading and checking one is above it.
 * Limits:    as policy/file/policy_file.h.
 */
#ifndef POLICY_FILE_POLICY_PARSE_H
#define POLICY_FILE_POLICY_PARSE_H

#include <stddef.h>

#include "kvtier/error.h"

#include "policy/file/policy_file.h"
#include "policy/file/problems.h"

/**
 * Read and check a policy.
 *
 * @param[out] out       receives the policy, NULL on failure
 * @param name           of the text, for messages
 * @param[out] problems  every mistake, when KVT_INVALID is returned
 * @return KVT_OK, KVT_INVALID, or KVT_NOMEM with `err`
 */
KVT_NODISCARD enum kvt_err policy_parse(struct policy **out, const char *name, const char *text,
                                        size_t size, struct policy_problems *problems,
                                        struct kvt_error *err);
/** NULL is allowed. */
void policy_free(struct policy *policy);

#endif /* POLICY_FILE_POLICY_PARSE_H */
