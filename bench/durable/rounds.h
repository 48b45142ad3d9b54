/*
 * bench/durable/rounds.h -- the engine's rounds without its sources: collect, write, follow.
 *
 * Why: what committing costs, and what a restart finds, is measured without decoding messages.
 * Ownership: the rounds own store, index and folder.
 * Threads:   one.
 * Limits:    ROUNDS_* below.
 */
#ifndef BENCH_DURABLE_ROUNDS_H
#define BENCH_DURABLE_ROUNDS_H

#include "advisor/index/change_group.h"
#include "advisor/index/index_load.h"
#include "advisor/index/ram_index.h"
#include "advisor/index/ram_snapshot.h"
#include "advisor/store/event_log_table.h"
#include "advisor/store/name_table.h"

#include "bench/durable/stream.h"

#define ROUNDS_GROUP_BLOCKS 65536 /* of a transaction */
#define ROUNDS_MAP_BYTES    (UINT64_C(32) << 30)
#define ROUNDS_INDEX_BYTES  (UINT64_C(8) << 30)
#define ROUNDS_SYNC_MS      100 /* half of commit.max_wait's default, as the engine has it */
#define ROUNDS_WORKERS      256

struct rounds {
    char folder[256];
    struct advisor_store *store; /* NULL: nothing is written */
    struct index *index;
    struct advisor_name_table *names;
    struct advisor_ram_index memory;
    struct advisor_change_group *group;
    struct advisor_ram_snapshot *snapshot;
    struct advisor_store_log log;
    uint64_t synced_ms;
    uint64_t bytes; /* given to the store */
    uint64_t snapshots;
};

/** An empty index, and an empty store when `store`. */
KVT_NODISCARD bool rounds_open(struct rounds *rounds, bool store);
void rounds_close(struct rounds *rounds);

/** One more event for the group. */
KVT_NODISCARD bool rounds_add(struct rounds *rounds, const struct stream_event *event);
KVT_NODISCARD bool rounds_is_full(const struct rounds *rounds);
/** Write the group and let RAM follow. */
KVT_NODISCARD bool rounds_commit(struct rounds *rounds);
/** Make it durable. */
KVT_NODISCARD bool rounds_sync(struct rounds *rounds);

#endif /* BENCH_DURABLE_ROUNDS_H */
