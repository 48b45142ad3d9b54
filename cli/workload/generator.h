/*
 * cli/workload/generator.h -- a seeded multi-turn workload (docs/workload.md).
 *
 * Why: tests, the demo and comparisons need the shape of real chat traffic (shared system prompts
 * and documents, histories that grow, pauses) from a number anybody can repeat.
 *
 * Ownership: a request's hash_ids live until the next call.
 * Threads:   one generator, one thread.
 * Limits:    a conversation ends before context_tokens / block_tokens would exceed
 *            WIRE_TRACE_HASHES_MAX blocks.
 */
#ifndef CLI_WORKLOAD_GENERATOR_H
#define CLI_WORKLOAD_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config/config.h"
#include "kvtier/error.h"
#include "wire/message/trace.h"

struct cli_generator;

struct cli_generator_options {
    uint64_t seed;
    uint64_t request_count;
    uint64_t duration_ms;
    uint32_t session_count; /* conversations at the same time */
    uint32_t mean_turns;
    uint32_t prompt_count;
    uint32_t prompt_tokens;
    uint32_t document_count; /* 0 = none */
    uint32_t document_share_ppm;
    uint32_t document_tokens;
    double zipf;
    uint32_t first_tokens; /* of a conversation's first turn */
    uint32_t input_tokens; /* of a later one */
    uint32_t output_tokens;
    uint32_t context_tokens;
    uint32_t block_tokens;
    uint32_t idle_share_ppm;
    uint32_t idle_factor;
};

/** From the rows CLI_OPTIONS_GENERATE of cli/frame/options.h.  False: --zipf is no number. */
bool cli_generator_options_read(struct cli_generator_options *out,
                                const struct kvt_config *options);

/** The defaults of these rows. */
KVT_NODISCARD enum kvt_err cli_generator_options_default(struct cli_generator_options *out,
                                                         struct kvt_error *err);

/** KVT_OK, KVT_INVALID (an option outside its range, in `err`) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cli_generator_new(struct cli_generator **out,
                                             const struct cli_generator_options *options,
                                             struct kvt_error *err);
void cli_generator_free(struct cli_generator *generator);

/** The next request, in order of time.  KVT_OK, KVT_NOTFOUND (that was the last) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cli_generator_next(struct cli_generator *generator,
                                              struct wire_trace_request *request);

#endif /* CLI_WORKLOAD_GENERATOR_H */
