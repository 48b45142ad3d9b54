/*
 * advisor/admin/command_hint.h -- the command that says more of a block, ready to be typed.
 *
 * Why: a hash means nothing without its namespace, and a command without it finds nothing.
 * Limits:    ADVISOR_HINT_MAX bytes; what is longer is cut.
 */
#ifndef ADVISOR_ADMIN_COMMAND_HINT_H
#define ADVISOR_ADMIN_COMMAND_HINT_H

#include "kvtier/block.h"

/* Every byte of a namespace may have to be quoted, by four. */
enum { ADVISOR_HINT_MAX = 4 * KVT_NAMESPACE_MAX + 96 };

/** "kvtier block VERB HASH", with --namespace where there is one, quoted for a shell. */
void advisor_admin_hint(char text[ADVISOR_HINT_MAX], const char *verb, const char *hash,
                        const char *namespace_);

/** What to say of a block that nobody has under `namespace_`. */
const char *advisor_admin_hint_unknown(const char *namespace_);

#endif /* ADVISOR_ADMIN_COMMAND_HINT_H */
