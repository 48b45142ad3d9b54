/*
 * worker/object/gateway_volume.h -- the object tier behind a gateway as a volume.
 *
 * Why: kvbm may not see g4, whose client speaks to gateways; this folder may see both.  So the kind
 * is here, over the client that the worker has anyway and what that knows of a gateway that is
 * away: then everything is KVT_UNAVAILABLE at once.
 *
 * Length and crc32c of every body are checked by that client.  A gateway does not remove what it is
 * told by a worker: policies do.
 *
 * Ownership: the remote is borrowed, and outlives the volume.
 * Threads:   as kvbm/volume/volume_set.h says.
 * Limits:    as worker/object/object_tier.h.
 */
#ifndef WORKER_OBJECT_GATEWAY_VOLUME_H
#define WORKER_OBJECT_GATEWAY_VOLUME_H

#include "kvbm/volume/volume_set.h"

#include "worker/object/object_tier.h"

#define WORKER_GATEWAY_VOLUME_DOWN 1 /* numbers in worker_gateway_volumes() */
#define WORKER_GATEWAY_VOLUME_UP   2

/** A set with the remote in it twice, once for each direction: a volume has one thread, and what is
 *  asked for must not wait for what is stored.  `block_size` is that of the remote's settings.
 *  `*out` is NULL on failure. */
KVT_NODISCARD enum kvt_err worker_gateway_volumes(struct kvbm_volumes **out,
                                                  struct worker_object_tier *remote,
                                                  size_t block_size, size_t queue_max,
                                                  struct kvt_error *err);

#endif /* WORKER_OBJECT_GATEWAY_VOLUME_H */
