/*
 * policy/ordering/ordering_table.h -- the orderings there are, by name.
 *
 * Why: a policy, a setting and a command line name an ordering; this is the one table they look in.
 * kvtier/ordering.h says what an ordering does.
 *
 * Ownership: the tables are constants.
 */
#ifndef POLICY_ORDERING_ORDERING_TABLE_H
#define POLICY_ORDERING_ORDERING_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/ordering.h"

/** What is used where nobody chose. */
#define POLICY_ORDERING_DEFAULT "rhi"

/** By name; NULL when there is none. */
const struct kvt_ordering *policy_ordering_find(const char *name);

/** All of them, in the order in which they are shown. */
const struct kvt_ordering *const *policy_ordering_all(size_t *count);

/** May a use change which block leaves first?  False of those that only count uses in their place;
 *  true of any that is not KVTier's own. */
bool policy_ordering_moves_used(const struct kvt_ordering *ordering);

/** KVT_OK, or KVT_UNSUPPORTED with what is wrong: another ABI number, other sizes, a call that is
 *  missing.  `from` names the object in the message. */
KVT_NODISCARD enum kvt_err policy_ordering_check(const struct kvt_ordering *ordering,
                                                 const char *from, struct kvt_error *err);

#endif /* POLICY_ORDERING_ORDERING_TABLE_H */
