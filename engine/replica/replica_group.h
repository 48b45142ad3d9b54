/*
 * engine/replica/replica_group.h -- ranks that all hold the same blocks, of which rank 0 alone
 * stores.
 *
 * Why: where heads are not split (MLA: one latent, the same on every rank), four ranks would store
 * everything four times.  Here rank 0 alone has lower tiers and object tier; what comes up to G1
 * comes to rank 0, and from it to all others (a *broadcast*, engine/replica/broadcast.h).
 *
 *   COPY G1 to G2, G2 to G3 and back, STORE, ASK, SHOW, HIDE   rank 0
 *   COPY, LOAD, PULL to G1                                     rank 0, then the broadcast
 *
 * An item is well when every rank has it.  Blocks that the broadcast keeps at the end of G2 are not
 * counted as the group's.  Peers are rank 0's alone, and so is what the group says of itself.
 *
 * Ownership: a group owns its ranks and the broadcast, and closes them.
 * Threads:   as engine/rank/worker.h; the broadcast has threads of its own.
 * Limits:    as engine/rank/group.h, but that layouts are equal (tp_size 1 each, or one tp_rank);
 *            the broadcast reaches as many ranks.  ENGINE_PEER_SELF and ENGINE_PEER_G1 are no
 *            peers of others.
 */
#ifndef ENGINE_REPLICA_REPLICA_GROUP_H
#define ENGINE_REPLICA_REPLICA_GROUP_H

#include "engine/rank/worker.h"
#include "engine/replica/broadcast.h"

/** Ranks and broadcast are the group's on KVT_OK, else still the caller's. */
KVT_NODISCARD enum kvt_err engine_replica_open(struct engine_worker **out,
                                               struct engine_worker *const *ranks, uint32_t count,
                                               struct engine_broadcast *broadcast,
                                               struct kvt_error *err);

#endif /* ENGINE_REPLICA_REPLICA_GROUP_H */
