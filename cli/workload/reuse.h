/*
 * cli/workload/reuse.h -- how often and how soon blocks are used again.
 *
 * Why: the share of accesses that an endless cache would serve, and the time between uses, say what
 * a tier of a given size can hope for.
 * Ownership: cli_reuse_free() ends it.
 * Threads:   one owner.
 * Limits:    memory; a gap is known to within an eighth of an octave (about 9 %).
 */
#ifndef CLI_WORKLOAD_REUSE_H
#define CLI_WORKLOAD_REUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

struct cli_reuse;

KVT_NODISCARD enum kvt_err cli_reuse_new(struct cli_reuse **out);
void cli_reuse_free(struct cli_reuse *reuse);

/** One use of block `id`, which ended its request if `last`; `seen` says whether it was used
 *  before.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cli_reuse_add(struct cli_reuse *reuse, uint64_t id, uint64_t time_ms,
                                         bool last, bool *seen);

enum { CLI_REUSE_AGAIN = 6 };

/* How many were used again, of how many. */
struct cli_reuse_share {
    uint64_t part;
    uint64_t whole;
};

struct cli_reuse_stats {
    uint64_t accesses;
    uint64_t blocks;     /* different ones */
    uint64_t used_once;  /* of them */
    uint64_t used_most;  /* uses of the busiest block */
    uint64_t gap_p25_ms; /* time between two uses of a block */
    uint64_t gap_p50_ms;
    uint64_t gap_p75_ms;
    uint64_t gap_p90_ms;
    uint64_t gap_p95_ms;
    uint64_t gap_p99_ms;
    /* After the first use, the second, ...; the last entry is for all later ones. */
    struct cli_reuse_share again[CLI_REUSE_AGAIN];
    struct cli_reuse_share again_last;  /* after uses that ended a request */
    struct cli_reuse_share again_other; /* after all other uses */
};

void cli_reuse_stats(const struct cli_reuse *reuse, struct cli_reuse_stats *stats);

#endif /* CLI_WORKLOAD_REUSE_H */
