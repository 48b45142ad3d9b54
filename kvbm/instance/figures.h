/*
 * kvbm/instance/figures.h -- what an instance has done, in one life or in all of them.
 *
 * Why: an instance that dies takes its counts with it; so each answer brings them along, and who
 * asked adds them up over its lives.
 *
 * Ownership: plain values.
 * Threads:   none.
 * Limits:    none.
 */
#ifndef KVBM_INSTANCE_FIGURES_H
#define KVBM_INSTANCE_FIGURES_H

#include <stdint.h>

#include "kvbm/instance/words.h"

/* X(member): a count that only grows in one life. */
#define KVBM_FIGURES(X)                                                                            \
    X(requests)                                                                                    \
    X(blocks)  /* of those requests */                                                             \
    X(matched) /* that need not be computed */                                                     \
    X(computed)                                                                                    \
    X(computed_again) /* after their load had failed */                                            \
    X(compared)       /* by all ranks, each its shard */                                           \
    X(wrong_bytes)                                                                                 \
    X(iterations)                                                                                  \
    X(hits_g2) /* blocks of the longest prefix, by where they were */                              \
    X(hits_g3)                                                                                     \
    X(hits_peer)                                                                                   \
    X(hits_objects)                                                                                \
    X(shortened) /* matches some of whose blocks did not come */                                   \
    X(stored)    /* blocks that the object tier has acknowledged */                                \
    X(store_failed)                                                                                \
    X(demoted) /* blocks that went from G2 to G3 */

struct kvbm_figures {
#define X(member) uint64_t member;
    KVBM_FIGURES(X)
#undef X
};

static inline void
kvbm_figures_put(const struct kvbm_figures *figures, struct kvt_buffer *out)
{
#define X(member) kvbm_words_put(out, figures->member);
    KVBM_FIGURES(X)
#undef X
}

static inline void
kvbm_figures_get(struct kvbm_figures *figures, struct kvbm_words *words)
{
#define X(member) figures->member = kvbm_words_get(words);
    KVBM_FIGURES(X)
#undef X
}

static inline void
kvbm_figures_add(struct kvbm_figures *sum, const struct kvbm_figures *more)
{
#define X(member) sum->member += more->member;
    KVBM_FIGURES(X)
#undef X
}

#endif /* KVBM_INSTANCE_FIGURES_H */
