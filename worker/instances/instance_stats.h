/*
 * worker/instances/instance_stats.h -- what an instance has done, in one life or in all of them,
 * and what it has to do now.
 *
 * Why: an instance that dies takes its counts with it; so each answer brings them along, and who
 * asked adds them up over its lives.
 *
 */
#ifndef WORKER_INSTANCES_INSTANCE_STATS_H
#define WORKER_INSTANCES_INSTANCE_STATS_H

#include <stdint.h>

#include "worker/instances/instance_message.h"

/* X(member, metric, labels, help): a count that only grows in one life. */
#define WORKER_INSTANCE_STATS(X)                                                                   \
    X(requests, "requests_total", "", "Requests served by an instance")                            \
    X(blocks, "blocks_total", "", "Blocks of those requests")                                      \
    X(matched, "matched_total", "", "Blocks that need not be computed")                            \
    X(computed, "computed_total", "", "Blocks that had to be computed")                            \
    X(computed_again, "computed_again_total", "", "Blocks computed after their load had failed")   \
    X(compared, "compared_total", "", "Blocks compared byte by byte, by each rank its shard")      \
    X(wrong_bytes, "wrong_bytes_total", "", "Bytes that were not what they must be")               \
    X(iterations, "iterations_total", "", "Iterations of the scheduler")                           \
    X(hits_g2, "hits_total", ",tier=\"G2\"", WORKER_INSTANCE_STATS_HITS)                           \
    X(hits_g3, "hits_total", ",tier=\"G3\"", WORKER_INSTANCE_STATS_HITS)                           \
    X(hits_peer, "hits_total", ",tier=\"peer\"", WORKER_INSTANCE_STATS_HITS)                       \
    X(hits_objects, "hits_total", ",tier=\"G4\"", WORKER_INSTANCE_STATS_HITS)                      \
    X(shortened, "shortened_total", "", "Matches some of whose blocks did not come")               \
    X(stored, "stored_total", "", "Blocks that the object tier has acknowledged")                  \
    X(store_failed, "store_failed_total", "", "Blocks that the object tier will never take")       \
    X(store_again, "store_again_total", "", "Stores of a block that were put off")                 \
    X(lost, "lost_total", "", "Blocks that left G3 before the object tier had them")               \
    X(demoted, "demoted_total", "", "Blocks that went from G2 to G3")                              \
    X(peer_expired, "peer_expired_total", "", "Sessions of peers that fell silent")                \
    X(broadcast_ipc, "broadcast_total", ",way=\"ipc\"", WORKER_INSTANCE_STATS_BROADCAST)           \
    X(broadcast_fabric, "broadcast_total", ",way=\"fabric\"", WORKER_INSTANCE_STATS_BROADCAST)

#define WORKER_INSTANCE_STATS_BROADCAST                                                            \
    "Blocks that came from rank 0 to all others, by the way they went"
#define WORKER_INSTANCE_STATS_HITS "Blocks of the longest prefix, by where they were"

/* X(member, metric, help): how it is now. */
#define WORKER_INSTANCE_LEVELS(X)                                                                  \
    X(pins, "pins", "Blocks held now, by matches and for peers")                                   \
    X(matches, "matches", "Matches that have not ended")                                           \
    X(peer_sessions, "peer_sessions", "Sessions that peers have here now")                         \
    X(unstored, "unstored", "Names in G2 and G3 that the object tier is to have still")            \
    X(nats_away, "nats_away", "1: NATS does not answer the leader of an instance")                 \
    X(objects_away, "objects_away", "Ranks that the object tier does not answer")                  \
    X(devices, "devices", "Ranks that have G1 on a device")

struct worker_instance_stats {
#define X(member, ...) uint64_t member;
    WORKER_INSTANCE_STATS(X)
    WORKER_INSTANCE_LEVELS(X)
#undef X
};

static inline void
worker_instance_stats_put(const struct worker_instance_stats *stats, struct kvt_buffer *out)
{
#define X(member, ...) worker_message_put(out, stats->member);
    WORKER_INSTANCE_STATS(X)
    WORKER_INSTANCE_LEVELS(X)
#undef X
}

static inline void
worker_instance_stats_get(struct worker_instance_stats *stats, struct worker_message *message)
{
#define X(member, ...) stats->member = worker_message_get(message);
    WORKER_INSTANCE_STATS(X)
    WORKER_INSTANCE_LEVELS(X)
#undef X
}

static inline void
worker_instance_stats_add(struct worker_instance_stats *sum,
                          const struct worker_instance_stats *more)
{
#define X(member, ...) sum->member += more->member;
    WORKER_INSTANCE_STATS(X)
    WORKER_INSTANCE_LEVELS(X)
#undef X
}

/** A life is over: its counts stay, and nothing is held any more. */
static inline void
worker_instance_stats_end(struct worker_instance_stats *stats)
{
#define X(member, ...) stats->member = 0;
    WORKER_INSTANCE_LEVELS(X)
#undef X
}

#endif /* WORKER_INSTANCES_INSTANCE_STATS_H */
