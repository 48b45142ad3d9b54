/*
 * cli/workload/zipf.h -- ranks drawn with a Zipf popularity.
 *
 * Why: few prompts and documents are used by most conversations; P(rank r) ~ 1 / (r + 1)^s.
 * Ownership: cli_zipf_free() ends it.
 * Threads:   read-only after creation; the random state is the caller's.
 * Limits:    CLI_ZIPF_MAX ranks.
 */
#ifndef CLI_WORKLOAD_ZIPF_H
#define CLI_WORKLOAD_ZIPF_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define CLI_ZIPF_MAX 1000000

struct cli_zipf;

/** KVT_OK, KVT_INVALID (no rank, too many, or an exponent outside 0..4) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cli_zipf_new(struct cli_zipf **out, size_t count, double exponent);
void cli_zipf_free(struct cli_zipf *zipf);

/** A rank in [0, count). */
size_t cli_zipf_draw(const struct cli_zipf *zipf, uint64_t *random);

#endif /* CLI_WORKLOAD_ZIPF_H */
