/*
 * gateway/block/repair.h -- what follows for row and object when a copy is bad, or gone.
 *
 * Why: a bad copy must be taken out of every reader's sight, and must never make us remove a good
 * copy that somebody put there in the meantime.
 *
 * Ownership: everything is borrowed for the call.
 * Threads:   any; a key that another thread is changing is left alone, the next read tries again.
 */
#ifndef GATEWAY_BLOCK_REPAIR_H
#define GATEWAY_BLOCK_REPAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"
#include "gateway/tier/gateway_context.h"

/** A volume's copy failed with `reason`; `body` is what was read (may be NULL), NULL reason =
 *  absent.  Looked at once more, then dropped from the catalog and the volume; one that was still
 *  to be uploaded is told to be lost, unless the bucket has it after all. */
void gateway_repair_file(struct gateway_context *context, const char *key, enum gateway_tier tier,
                         const void *body, size_t size, const char *reason);

/** A block that the bucket is owed met other content there, of a sound object: the first writer
 *  wins, and ours (`body`) is evidence.  The caller holds the key. */
void gateway_repair_second(struct gateway_context *context, const char *key, const void *body,
                           size_t size);

/** The bucket's object `seen` failed with `reason`.  While it still has that ETag it is replaced by
 * a tombstone (or deleted, where DELETE honours If-Match).  An object of others stays in place: one
 * without our metadata, or one that is sound by its own; only the row that knew another goes. */
void gateway_repair_cold(struct gateway_context *context, const char *key,
                         const struct g4_request *seen, const void *body, size_t size,
                         const char *reason);

/** The catalog says the bucket has it, and the bucket says no: whoever removed it meant the block,
 *  so the row goes, and the hot copy with it. */
void gateway_repair_gone(struct gateway_context *context, const char *key);

/** The same for a caller who holds the key. */
void gateway_repair_gone_held(struct gateway_context *context, const char *key);

/** The other bucket has the block than the row says, or of two copies one is gone, for another
 *  gateway moved it: looked at once more, the row says so too.  True: now it does. */
bool gateway_repair_elsewhere(struct gateway_context *context, const char *key);

/** Is what HEAD or GET showed another gateway's object, and not the block of this row, whose cold
 *  copy is in the bucket?  What names this gateway as its writer and differs is damage; objects
 *  without our metadata cannot tell. */
bool gateway_repair_is_other(const struct gateway_context *context,
                             const struct gateway_record *record, const struct g4_request *seen);

/** The bucket has another block, or a tombstone, where the catalog has this one: it is asked once
 *  more, and then the row goes, and the hot copy with it. */
void gateway_repair_other(struct gateway_context *context, const char *key);

/** The bucket's object looks wrong from outside: read it, and act if it is. */
void gateway_repair_inspect(struct gateway_context *context, const char *key);

#endif /* GATEWAY_BLOCK_REPAIR_H */
