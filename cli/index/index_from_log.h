/*
 * cli/index/index_from_log.h -- who holds what after all the events of a recording, reckoned the
 * simple way.
 *
 * Why: `index verify` compares the store with the log it came from; what reckons the log must be
 * too simple to be wrong in the same way as the advisor.
 *
 * Ownership: the log owns its places.
 * Threads:   one owner.
 * Limits:    CLI_INDEX_FROM_LOG_PLACES_MAX places.  Only the canonical dialect; other messages are
 *            counted and passed over.
 */
#ifndef CLI_INDEX_INDEX_FROM_LOG_H
#define CLI_INDEX_INDEX_FROM_LOG_H

#include <stdint.h>

#include "index/index.h"
#include "kvtier/error.h"
#include "wire/message/recording.h"

#define CLI_INDEX_FROM_LOG_PLACES_MAX (1u << 26)

struct cli_index_from_log;

struct cli_index_from_log_counts {
    uint64_t messages;
    uint64_t others; /* of another dialect, or malformed */
    uint64_t gaps;   /* numbers that are missing: what the log says is not the whole truth */
    uint64_t places; /* held at the end */
};

KVT_NODISCARD enum kvt_err cli_index_from_log_new(struct cli_index_from_log **out);
void cli_index_from_log_free(struct cli_index_from_log *log);

/** KVT_OK, KVT_NOMEM or KVT_FULL. */
KVT_NODISCARD enum kvt_err cli_index_from_log_take(struct cli_index_from_log *log,
                                                   const struct wire_recording *message);

/** Shards of the block at the holder; 0 = it is not there.  The holder's bytes behind the name's
 *  NUL must be 0. */
uint32_t cli_index_from_log_ranks(const struct cli_index_from_log *log, const char *namespace_,
                                  const struct index_holder *holder, uint64_t hash);

void cli_index_from_log_count(const struct cli_index_from_log *log,
                              struct cli_index_from_log_counts *counts);

#endif /* CLI_INDEX_INDEX_FROM_LOG_H */
