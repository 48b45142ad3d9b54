/*
 * cli/frame/contexts.h -- named sets of connection settings, in one file of the user's.
 *
 * Why: people work with more than one installation; addresses and files of each get a name once,
 * and the name is all that has to be said afterwards.
 *
 * Ownership: a set owns its values; strings it returns live until cli_contexts_free().
 * Threads:   one owner.  Processes: cli_contexts_lock() lets one change the file at a time; who
 *            reads sees the file before or after a change.
 * Limits:    CLI_CONTEXTS_MAX contexts; names of CLI_CONTEXT_NAME_MAX bytes with the NUL.
 */
#ifndef CLI_FRAME_CONTEXTS_H
#define CLI_FRAME_CONTEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config/config.h"
#include "kvtier/error.h"

#define CLI_CONTEXTS_MAX      64
#define CLI_CONTEXT_NAME_MAX  64
#define CLI_CONTEXT_VALUE_MAX 1024
#define CLI_CONTEXTS_PATH_MAX 4096
#define CLI_CONTEXT_KEYS      12

/* The settings that a context may hold, as rows of cli/frame/cli_settings.h. */
extern const size_t cli_context_keys[CLI_CONTEXT_KEYS];

struct cli_context_entry {
    char name[CLI_CONTEXT_NAME_MAX];
    char *values[CLI_CONTEXT_KEYS]; /* NULL: not in it */
};

struct cli_contexts {
    char path[CLI_CONTEXTS_PATH_MAX];
    char current[CLI_CONTEXT_NAME_MAX]; /* "": none */
    struct cli_context_entry *entries;  /* CLI_CONTEXTS_MAX, by name */
    size_t count;
};

/** Letters, digits, '.', '_' and '-', the first no '-' or '.'. */
bool cli_contexts_name_ok(const char *name);

/**
 * Read the user's file; one that is not there has nothing in it.
 *
 * @return KVT_OK; KVT_NOTFOUND: neither XDG_CONFIG_HOME nor HOME says where it is; KVT_DENIED:
 *         others may write it, so its addresses are not to be trusted; KVT_INVALID: what is wrong
 *         in it, with its line
 */
KVT_NODISCARD enum kvt_err cli_contexts_load(struct cli_contexts **out, struct kvt_error *err);

/** The same, and keep others from changing it until `*lock` is closed. */
KVT_NODISCARD enum kvt_err cli_contexts_lock(struct cli_contexts **out, int *lock,
                                             struct kvt_error *err);

/** Put it in the place of the file, whole or not at all, readable by its owner alone. */
KVT_NODISCARD enum kvt_err cli_contexts_save(const struct cli_contexts *contexts,
                                             struct kvt_error *err);

/** NULL is allowed. */
void cli_contexts_free(struct cli_contexts *contexts);

/** NULL: there is none of that name. */
struct cli_context_entry *cli_contexts_find(struct cli_contexts *contexts, const char *name);

/** A new, empty one in its place; KVT_FULL. */
KVT_NODISCARD enum kvt_err cli_contexts_add(struct cli_contexts *contexts, const char *name,
                                            struct cli_context_entry **out, struct kvt_error *err);

void cli_contexts_remove(struct cli_contexts *contexts, struct cli_context_entry *entry);

/** "no context is called X (did you mean Y?)": KVT_NOTFOUND. */
enum kvt_err cli_contexts_unknown(struct cli_contexts *contexts, const char *name,
                                  struct kvt_error *err);

/** Apply the context named by the setting "context" to `settings`; without such a name the one in
 * use, if `in_use`. */
KVT_NODISCARD enum kvt_err cli_contexts_apply(struct kvt_config *settings, bool in_use,
                                              struct kvt_error *err);

#endif /* CLI_FRAME_CONTEXTS_H */
