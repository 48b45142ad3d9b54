/*
 * policy/ordering/plugin.h -- an ordering out of a shared object.
 *
 * Why: who knows better than the orderings here must not have to build KVTier to say so.
 * kvtier/ordering.h is the contract, policy/example/clock_ordering.c a whole plugin.
 *
 * Ownership: policy_plugin_close() unloads the object; no state of its ordering may be left.
 * Threads:   any, as dlopen().
 * Limits:    an object is code of the program that loads it: it can do whatever the program can.
 */
#ifndef POLICY_ORDERING_PLUGIN_H
#define POLICY_ORDERING_PLUGIN_H

#include "kvtier/error.h"
#include "kvtier/ordering.h"

struct policy_plugin;

/** KVT_OK, KVT_NOTFOUND (no file, no object, or it does not export KVT_ORDERING_SYMBOL),
 *  KVT_UNSUPPORTED (policy_ordering_check()) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err policy_plugin_open(struct policy_plugin **out, const char *path,
                                              struct kvt_error *err);
const struct kvt_ordering *policy_plugin_ordering(const struct policy_plugin *plugin);

/** NULL is allowed. */
void policy_plugin_close(struct policy_plugin *plugin);

#endif /* POLICY_ORDERING_PLUGIN_H */
