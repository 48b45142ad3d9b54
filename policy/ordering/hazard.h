/*
 * policy/ordering/hazard.h -- how likely a block is used again, by what it is and how long it
 * waits.
 *
 * Why: age alone throws out the chat that will go on in two minutes, and counts alone keep what was
 * popular yesterday.  What can be learned is, for blocks of a kind that have waited so long, how
 * many are used next: a life table.  Blocks that wait count as much as those whose wait ended, at
 * every age they lived through; a table of finished waits alone would believe that everything comes
 * back.
 *
 * From the table follows the index of a kind at an age: the best rate of uses a block still
 * promises, over all times one could go on holding it,
 *
 *     max over w of P(used within w) / E[time until used, at most w].
 *
 * Holding blocks of the highest index is what makes the most of each place (it is Gittins' index of
 * a block).  Ages are counted in ticks, and told apart by quarters of an octave.
 *
 * Old experience fades, by half every POLICY_HAZARD_HALF_TICKS, so that the table follows its
 * users.
 *
 * Ownership: policy_hazard_free() ends it.
 * Threads:   none; one owner.
 * Limits:    POLICY_HAZARD_KINDS kinds; about 150 KiB whatever the number of blocks.
 */
#ifndef POLICY_ORDERING_HAZARD_H
#define POLICY_ORDERING_HAZARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

enum {
    POLICY_HAZARD_COUNTS = 7, /* kinds that differ in their number of uses, the fewest first */
    POLICY_HAZARD_KINDS = 2 * POLICY_HAZARD_COUNTS,
    POLICY_HAZARD_AGES = 124,          /* quarters of an octave below 2^32 */
    POLICY_HAZARD_FIRST_TICKS = 8,     /* before the first computation of the index */
    POLICY_HAZARD_REFRESH_TICKS = 128, /* between two, at most */
    POLICY_HAZARD_HALF_TICKS = 8192,
};

struct policy_hazard;

KVT_NODISCARD enum kvt_err policy_hazard_new(struct policy_hazard **out);

/** NULL is allowed. */
void policy_hazard_free(struct policy_hazard *hazard);

/** A block of `kind`, used at `tick`, begins to wait.  Ticks never go back. */
void policy_hazard_wait(struct policy_hazard *hazard, uint32_t kind, uint64_t tick);

/** A wait that began at tick `since` ends at `now`: with a use, or because nobody looks any more.
 * */
void policy_hazard_end(struct policy_hazard *hazard, uint32_t kind, uint64_t since, uint64_t now,
                       bool used);

/** What is told from here to the next refresh is of a former life: nobody lived through it here, so
 *  nothing is learned from it, and nothing fades. */
void policy_hazard_rest(struct policy_hazard *hazard);

/** Compute the index anew when that is due. */
void policy_hazard_refresh(struct policy_hazard *hazard, uint64_t now);

/** The index of a kind at an age, rounded down to a quarter of an octave. */
double policy_hazard_index(const struct policy_hazard *hazard, uint32_t kind, uint32_t age);

/** How likely a block of the kind that has waited for `age` is used within `window` more ticks. */
double policy_hazard_chance(const struct policy_hazard *hazard, uint32_t kind, uint32_t age,
                            uint64_t window);

/** As kvtier/ordering.h. */
size_t policy_hazard_save(const struct policy_hazard *hazard, void *bytes, size_t room);
KVT_NODISCARD enum kvt_err policy_hazard_load(struct policy_hazard *hazard, const void *bytes,
                                              size_t size);

size_t policy_hazard_memory(void);

#endif /* POLICY_ORDERING_HAZARD_H */
