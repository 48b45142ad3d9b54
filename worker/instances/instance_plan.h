/*
 * worker/instances/instance_plan.h -- which processes there are, which this one is, and where they
 * meet.
 *
 * Why: a run of instances is one supervisor (who reads the trace), a leader for each instance and a
 * process for each of its ranks, all of one program, which the supervisor starts with one setting
 * more (`engine.part`).  They find each other by sockets in one folder.
 *
 * Ownership: strings belong to the configuration.
 * Threads:   read-only after loading.
 * Limits:    WORKER_INSTANCES_MAX instances of WORKER_INSTANCE_RANKS_MAX ranks.
 */
#ifndef WORKER_INSTANCES_INSTANCE_PLAN_H
#define WORKER_INSTANCES_INSTANCE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/settings/worker_settings.h"

#define WORKER_INSTANCES_MAX      8
#define WORKER_INSTANCE_RANKS_MAX 8
#define WORKER_INSTANCE_LEADER    UINT32_MAX /* instead of a rank's number */
#define WORKER_INSTANCE_ENDPOINT  256
#define WORKER_INSTANCE_STAGED                                                                     \
    16 /* blocks of a rank that is given others' (engine/replica/broadcast.h) */
#define WORKER_INSTANCE_START_MS                                                                   \
    30000 /* until all processes of an instance have found each other */

enum worker_instance_part { WORKER_PART_FRONT, WORKER_PART_LEADER, WORKER_PART_RANK };

struct worker_instance_plan {
    const struct worker_settings *settings;
    uint32_t instances; /* 0: this is an ordinary worker */
    uint32_t tp[WORKER_INSTANCES_MAX];
    bool replicated;
    bool by_devices; /* where ranks have some (engine/replica/broadcast.h) */
    bool split;      /* even instances prefill, odd ones decode */
    const char *folder;
    uint64_t lease_ms; /* of locks in the object tier; 0: none */
    enum worker_instance_part part;
    uint32_t instance; /* of a leader and of a rank */
    uint32_t rank;
    uint64_t life; /* of the instance: its number after each start */
};

/** What an instance is called among workers: the holder of its blocks. */
void worker_instance_plan_name(const struct worker_instance_plan *plan, uint32_t instance,
                               char name[KVT_NAME_MAX]);

#define WORKER_INSTANCE_PLAN_PART_NAME 32

/** What this process is called in the log: "kvtier-worker/0/leader", "kvtier-worker/0/1". */
void worker_instance_plan_part_name(const struct worker_instance_plan *plan,
                                    char name[WORKER_INSTANCE_PLAN_PART_NAME]);

/** How many ranks of an instance split a block. */
uint32_t worker_instance_plan_shards(const struct worker_instance_plan *plan, uint32_t instance);

KVT_NODISCARD enum kvt_err worker_instance_plan_load(struct worker_instance_plan *plan,
                                                     const struct worker_settings *settings,
                                                     const struct kvt_config *config,
                                                     struct kvt_error *err);

/* Where each is called: rank by its leader (engine/rank/rank_client.h), rank by the scheduler,
 * leader by the supervisor, leader by other leaders. */
enum worker_instance_door {
    WORKER_DOOR_WORK,
    WORKER_DOOR_STEP,
    WORKER_DOOR_FRONT,
    WORKER_DOOR_PEER
};

void worker_instance_plan_endpoint(const struct worker_instance_plan *plan,
                                   enum worker_instance_door door, uint32_t instance, uint32_t rank,
                                   char text[WORKER_INSTANCE_ENDPOINT]);

#endif /* WORKER_INSTANCES_INSTANCE_PLAN_H */
