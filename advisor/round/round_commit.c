#include <stdio.h>

#include "advisor/order/planner.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* One transaction, and what follows it in RAM. */

enum {
    RETRY_MS = 1000,
    RECLAIM_MAX = 1024, /* holders to look at after a commit: they delay the next round */
};

/* ---- writing ---- */

static void
set_blocked(struct advisor_round *round, bool blocked, const char *text)
{
    bool was;

    (void)pthread_mutex_lock(&round->shared.lock);
    was = round->shared.blocked;
    round->shared.blocked = blocked;
    (void)snprintf(round->shared.text, sizeof(round->shared.text), "%s", text);
    (void)pthread_mutex_unlock(&round->shared.lock);
    kvt_metric_set(round->counters.full, blocked ? 1 : 0);
    if (blocked && !was)
        kvt_log_error("advisor.engine", "blocked",
                      "the durable index takes nothing more (%s): no events are read until it "
                      "does; raise db.max or free the disk",
                      text);
    if (!blocked && was)
        kvt_log_info("advisor.engine", "unblocked", "the durable index takes events again");
}

/* ---- following ---- */

/* RAM, policy and what is shown follow the group. */
static void
follow_group(struct advisor_round *round)
{
    uint64_t collisions = atomic_load(&round->memory.collisions);
    uint64_t refused = atomic_load(&round->memory.refused);
    size_t count;
    const struct advisor_effect *effects = advisor_change_group_effects(round->group, &count);

    round->memory.departed =
        round->options.planner != NULL && advisor_ram_index_whole(&round->memory)
            ? advisor_planner_departed(round->options.planner)
            : NULL;
    advisor_ram_index_apply(&round->memory, advisor_change_group_log(round->group), effects, count);
    round->memory.departed = NULL;
    advisor_round_follow_names(round);
    if (round->options.planner != NULL) {
        size_t sum_count;
        const struct advisor_byte_sums_row *sums =
            advisor_change_group_sums(round->group, &sum_count);

        advisor_planner_count(round->options.planner, sums, sum_count);
        advisor_planner_apply(round->options.planner, effects, count);
        if (advisor_ram_index_whole(&round->memory))
            advisor_planner_lose(round->options.planner, advisor_change_group_log(round->group));
    }
    collisions = atomic_load(&round->memory.collisions) - collisions;
    refused = atomic_load(&round->memory.refused) - refused;
    kvt_metric_inc(round->counters.refused, (int64_t)refused);
    kvt_metric_inc(round->counters.collisions,
                   (int64_t)collisions + advisor_change_group_collisions(round->group));
    kvt_metric_inc(round->counters.strays, advisor_change_group_strays(round->group));
    advisor_change_group_clear(round->group);
    advisor_round_depart(round);
}

/* Put into the group as they are: what was refused is no longer in RAM, wherever it comes. */
void
advisor_round_take_back(struct advisor_round *round)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *row;
    size_t size;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; rc == KVT_OK && advisor_event_log_row(round->taken_back, at, &row, &size);
         at++) {
        rc = advisor_event_log_open(&reader, row, size);
        while (rc == KVT_OK && (rc = advisor_event_log_next(&reader, &op)) == KVT_OK)
            rc = advisor_change_group_remove(round->group, &op.place, op.hashes, op.count);
        rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
    }
    /* Without room for all it is said again with the next group. */
    if (rc == KVT_OK)
        advisor_event_log_clear(round->taken_back);
}

/* Everything that must follow a commit. */
static void
follow(struct advisor_round *round)
{
    advisor_round_tables_saved(round);
    follow_group(round);
    kvt_metric_inc(round->counters.commits, 1);
    advisor_round_reclaim(round, RECLAIM_MAX);
}

typedef enum kvt_err write_fn(struct advisor_round *round, const struct advisor_txn *txn,
                              struct advisor_store_log *log);

/* A transaction of its own; round->log follows it. */
static enum kvt_err
transact(struct advisor_round *round, write_fn *write, struct kvt_error *err)
{
    struct advisor_store_log log = round->log;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = write(round, &txn, &log);
    if (rc == KVT_OK) {
        rc = advisor_store_commit(&txn, err);
    } else {
        (void)kvt_error_set(err, rc, "%s", kvt_err_text(rc));
        advisor_store_end(&txn);
    }
    if (rc == KVT_OK)
        round->log = log;
    return rc;
}

static enum kvt_err
write_abandon(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)round;
    return advisor_store_log_abandon(txn, log);
}

/* Events come before a snapshot that is half written.  True: its room is theirs. */
static bool
abandon_snapshot(struct advisor_round *round)
{
    struct kvt_error err;

    if (round->log.building == 0 || transact(round, write_abandon, &err) != KVT_OK)
        return false;
    advisor_ram_snapshot_abandoned(round->snapshot, &round->log);
    /* LMDB gives pages away two transactions after the one that freed them. */
    return transact(round, write_abandon, &err) == KVT_OK;
}

void
advisor_round_commit(struct advisor_round *round)
{
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    atomic_store(&round->memory.behind, true);
    rc = transact(round, advisor_round_write_tables, &err);
    if (rc == KVT_FULL && abandon_snapshot(round))
        rc = transact(round, advisor_round_write_tables, &err);
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.commit_failures, 1);
        round->retry_at_ms = kvt_clock_mono_ms() + RETRY_MS;
        atomic_store(&round->memory.behind, false);
        set_blocked(round, true, err.text);
        return;
    }
    if (round->retry_at_ms != 0) {
        round->retry_at_ms = 0;
        set_blocked(round, false, "");
    }
    follow(round);
    atomic_store(&round->memory.behind, false);
    if (round->unsynced_ms == 0)
        round->unsynced_ms = kvt_clock_mono_ms();
}

bool
advisor_round_follow(struct advisor_round *round)
{
    if (!round->options.volatile_places || advisor_round_must_write(round))
        return false;
    follow_group(round);
    round->moved = true;
    return true;
}

void
advisor_round_flush(struct advisor_round *round)
{
    struct kvt_error err;

    if (round->unsynced_ms == 0)
        return;
    if (advisor_store_sync(round->options.store, &err) != KVT_OK) {
        kvt_log_error("advisor.engine", "sync", "%s", err.text);
        return;
    }
    round->unsynced_ms = 0;
    advisor_round_sources_synced(round);
}
