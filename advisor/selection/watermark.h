/*
 * advisor/selection/watermark.h -- how full a tier may be before its rules drain it.
 *
 * Why: draining, promoting, reranking, quotas and what explains them read the same watermarks.
 * Threads:   pure functions of a policy.
 */
#ifndef ADVISOR_SELECTION_WATERMARK_H
#define ADVISOR_SELECTION_WATERMARK_H

#include "advisor/selection/rule_set.h"

/** Rules of `set` that begin, go on and end to drain a tier that is so full: the former ones are
 *  in, those now are out. */
void advisor_watermark_rules(const struct policy *policy, int32_t place, uint64_t used,
                             uint64_t capacity, struct advisor_rule_set *set);

/** Bytes that a policy lets a live tier have: what its gateway reports, or less. */
uint64_t advisor_watermark_capacity(const struct policy *policy, int32_t place, uint64_t reported);

/** The rule that drains the tier from the highest watermark, when all others had their turn; -1:
 *  none does. */
int32_t advisor_watermark_last(const struct policy *policy, int32_t place);

/** Bytes at a watermark. */
uint64_t advisor_watermark_bytes(uint64_t capacity, uint64_t ppm);

#endif /* ADVISOR_SELECTION_WATERMARK_H */
