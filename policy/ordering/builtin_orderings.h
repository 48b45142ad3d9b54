/*
 * policy/ordering/builtin_orderings.h -- one declaration a built-in ordering.
 *
 * Why: each ordering is one file that exports one constant; ordering.c's table and the tests of a
 * single one see them here, and everybody else asks policy/ordering/ordering_table.h by name.
 *
 * Ownership: constants.
 */
#ifndef POLICY_ORDERING_BUILTIN_ORDERINGS_H
#define POLICY_ORDERING_BUILTIN_ORDERINGS_H

#include "kvtier/ordering.h"

extern const struct kvt_ordering policy_lru;
extern const struct kvt_ordering policy_lfu;
extern const struct kvt_ordering policy_fifo;
extern const struct kvt_ordering policy_s3fifo;
extern const struct kvt_ordering policy_arc;
extern const struct kvt_ordering policy_gdsf;
extern const struct kvt_ordering policy_prefix;
extern const struct kvt_ordering policy_idle;
extern const struct kvt_ordering policy_rhi;

#endif /* POLICY_ORDERING_BUILTIN_ORDERINGS_H */
