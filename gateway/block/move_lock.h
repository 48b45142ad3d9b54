/*
 * gateway/block/move_lock.h -- who of several gateways may take a block's copy out of a bucket.
 *
 * Why: a copy may go because the other bucket has one, and two gateways that each rely on what the
 * other one takes lose the block.  So a copy goes under a lock that is the same for both: an object
 * in the first bucket, made with If-None-Match, and gone when its holder is done.  Who dies leaves
 * it: others take it over when its lease has ended by the bucket's clock, his next life when it has
 * lasted for GATEWAY_MOVE_LOCK_LEFT_MS: what he had sent may come until then.  Removals do not take
 * it: they want both copies gone.
 *
 * A request that changes something and has no answer may be late: then the lock is not given back,
 * and no such request is given longer than the lease.  Each is sent once: of several the last one's
 * answer says nothing of the others.
 *
 * What it does not promise: a process can stand still between its look at the clock and its
 * request.  So whoever holds it looks at the other bucket once more behind his tombstone, and puts
 * back what he has in memory.
 *
 * Ownership: the context is borrowed for each call; the lock is the caller's, on his stack.
 * Threads:   any; the caller holds the key (gateway/tier/key_lock.h).
 * Limits:    two requests for each copy that goes.  A gateway that died and never comes back leaves
 *            objects of some 100 bytes, as many as it was moving blocks, until another one's sweep,
 *            which looks at GATEWAY_MOVE_LOCK_ROUND of them, begins none after
 *            GATEWAY_MOVE_LOCK_SWEEP_MS or when the gateway stops, and goes on where it ended.
 */
#ifndef GATEWAY_BLOCK_MOVE_LOCK_H
#define GATEWAY_BLOCK_MOVE_LOCK_H

#include <stdbool.h>

#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_context.h"

#define GATEWAY_MOVE_LOCK_PREFIX ".kvtier-moving/" /* and 32 digits that follow from the key */
#define GATEWAY_MOVE_LOCK_MS     60000             /* a lease, */
#define GATEWAY_MOVE_LOCK_HOLD_MS                                                                  \
    (GATEWAY_MOVE_LOCK_MS / 5 * 4) /* and how much of it requests may last */
#define GATEWAY_MOVE_LOCK_LEFT_MS  (4 * GATEWAY_BUCKET_TIER_LOOK_MS)
#define GATEWAY_MOVE_LOCK_ROUND    256
#define GATEWAY_MOVE_LOCK_SWEEP_MS 2000

struct gateway_move_lock {
    char name[sizeof(GATEWAY_MOVE_LOCK_PREFIX) + 32];
    char body[KVT_NAME_MAX + 96];
    char etag[G4_ETAG_MAX];
    uint64_t until_ms; /* monotonic: no request that changes something may last longer */
    bool unsure;       /* one may still be on its way */
};

/**
 * Try once.
 *
 * @return KVT_OK; KVT_BUSY: another gateway has it; or why the first bucket did not say
 */
KVT_NODISCARD enum kvt_err gateway_move_lock_acquire(struct gateway_context *context,
                                                     const char *key,
                                                     struct gateway_move_lock *lock);

/** Until when the next small request may last, monotonic; 0: the lease is as good as over. */
uint64_t gateway_move_lock_deadline(const struct gateway_move_lock *lock);

/** The same before each request that changes something.  KVT_AGAIN: the lease is as good as over.
 */
KVT_NODISCARD enum kvt_err gateway_move_lock_still_held(const struct gateway_move_lock *lock,
                                                        uint64_t *deadline_ms);

/** Have it for as long again.  KVT_BUSY: the lease was over, and another gateway has it now. */
KVT_NODISCARD enum kvt_err gateway_move_lock_renew(struct gateway_context *context,
                                                   struct gateway_move_lock *lock);

/** Does nobody know what became of a request that ended so? */
bool gateway_move_lock_unanswered(enum kvt_err status);

/** A request that changes something ended with `status`, which is returned: one that has no answer
 *  may still be on its way, and is not to meet what the next holder puts.  So the lock is not given
 *  back then: it ends with its lease, which no such request lasts longer than. */
enum kvt_err gateway_move_lock_sent(struct gateway_move_lock *lock, enum kvt_err status);

/** Asked for once: a lock that stays because nobody answers ends with its lease. */
void gateway_move_lock_release(struct gateway_context *context,
                               const struct gateway_move_lock *lock);

/** Take away locks whose lease is over: of gateways that never came back.  Each is taken over
 *  first, as by who needs it.  `swept` is where the last sweep ended: "" at first.  Returns how
 *  many went; what fails is tried again in the next round. */
size_t gateway_move_lock_sweep(struct gateway_context *context, char swept[KVT_KEY_MAX]);

#endif /* GATEWAY_BLOCK_MOVE_LOCK_H */
