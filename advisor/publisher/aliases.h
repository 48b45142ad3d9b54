/*
 * advisor/publisher/aliases.h -- what engines call blocks, and what these are indexed under.
 *
 * Why: a remove and a child name a block by the engine's own hash.  Names are durable with the
 * group that gave them.
 *
 * Ownership: the table owns its rows; pointers to them are valid until the next put or drop.
 * Threads:   none; the engine's thread.
 * Limits:    `max` rows of about 56 bytes.  A row belongs to a publisher and is void once its
 *            generation is below the publisher's floor; void rows go a bounded step at a time.
 */
#ifndef ADVISOR_PUBLISHER_ALIASES_H
#define ADVISOR_PUBLISHER_ALIASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store/foreign_rows.h"

#define ADVISOR_ALIASES_MAX  (1u << 24)
#define ADVISOR_ALIASES_STEP 4096 /* rows looked at in a step of purging */

struct advisor_aliases;

KVT_NODISCARD enum kvt_err advisor_aliases_new(struct advisor_aliases **out, uint32_t max);
void advisor_aliases_free(struct advisor_aliases *aliases);

KVT_NODISCARD enum kvt_err advisor_aliases_load(struct advisor_aliases *aliases,
                                                const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_aliases_save(struct advisor_aliases *aliases,
                                                const struct advisor_txn *txn);
void advisor_aliases_saved(struct advisor_aliases *aliases);
bool advisor_aliases_dirty(const struct advisor_aliases *aliases);

/** NULL: there is none. */
const struct advisor_alias_row *advisor_aliases_find(const struct advisor_aliases *aliases,
                                                     uint32_t publisher, uint64_t hash);
/** Set the row of (publisher, hash).  KVT_OK, KVT_FULL or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_aliases_put(struct advisor_aliases *aliases,
                                               const struct advisor_alias_row *row);
void advisor_aliases_drop(struct advisor_aliases *aliases, uint32_t publisher, uint64_t hash);

/** All rows, from 0 to below advisor_aliases_end(); NULL where there is none. */
const struct advisor_alias_row *advisor_aliases_at(const struct advisor_aliases *aliases,
                                                   uint32_t at);
uint32_t advisor_aliases_end(const struct advisor_aliases *aliases);

/** The floor of a publisher; UINT32_MAX for one that is not known any more. */
typedef uint32_t advisor_aliases_floor_fn(void *arg, uint32_t publisher);

/** A floor was raised: some rows are void. */
void advisor_aliases_void(struct advisor_aliases *aliases);
/** Look for void rows among the next ADVISOR_ALIASES_STEP, as long as there may be some. */
void advisor_aliases_purge(struct advisor_aliases *aliases, advisor_aliases_floor_fn *floor,
                           void *arg);

#endif /* ADVISOR_PUBLISHER_ALIASES_H */
