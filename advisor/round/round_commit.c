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
set_blocked(struct advisor_round *engine, bool blocked, const char *text)
{
    bool was;

    (void)pthread_mutex_lock(&engine->shared.lock);
    was = engine->shared.blocked;
    engine->shared.blocked = blocked;
    (void)snprintf(engine->shared.text, sizeof(engine->shared.text), "%s", text);
    (void)pthread_mutex_unlock(&engine->shared.lock);
    kvt_metric_set(engine->counters.full, blocked ? 1 : 0);
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
follow_group(struct advisor_round *engine)
{
    uint64_t collisions = atomic_load(&engine->memory.collisions);
    uint64_t refused = atomic_load(&engine->memory.refused);
    size_t count;
    const struct advisor_effect *effects = advisor_change_group_effects(engine->group, &count);

    engine->memory.departed =
        engine->options.planner != NULL && advisor_ram_index_whole(&engine->memory)
            ? advisor_planner_departed(engine->options.planner)
            : NULL;
    advisor_ram_index_apply(&engine->memory, advisor_change_group_log(engine->group), effects,
                            count);
    engine->memory.departed = NULL;
    if (engine->options.planner != NULL) {
        size_t sum_count;
        const struct advisor_byte_sums_row *sums =
            advisor_change_group_sums(engine->group, &sum_count);

        advisor_planner_count(engine->options.planner, sums, sum_count);
        advisor_planner_apply(engine->options.planner, effects, count);
        if (advisor_ram_index_whole(&engine->memory))
            advisor_planner_lose(engine->options.planner, advisor_change_group_log(engine->group));
    }
    collisions = atomic_load(&engine->memory.collisions) - collisions;
    refused = atomic_load(&engine->memory.refused) - refused;
    kvt_metric_inc(engine->counters.refused, (int64_t)refused);
    kvt_metric_inc(engine->counters.collisions,
                   (int64_t)collisions + advisor_change_group_collisions(engine->group));
    kvt_metric_inc(engine->counters.strays, advisor_change_group_strays(engine->group));
    advisor_change_group_clear(engine->group);
    advisor_round_depart(engine);
}

/* Put into the group as they are: what was refused is no longer in RAM, wherever it comes. */
void
advisor_round_take_back(struct advisor_round *engine)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *row;
    size_t size;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; rc == KVT_OK && advisor_event_log_row(engine->taken_back, at, &row, &size);
         at++) {
        rc = advisor_event_log_open(&reader, row, size);
        while (rc == KVT_OK && (rc = advisor_event_log_next(&reader, &op)) == KVT_OK)
            rc = advisor_change_group_remove(engine->group, &op.place, op.hashes, op.count);
        rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
    }
    /* Without room for all it is said again with the next group. */
    if (rc == KVT_OK)
        advisor_event_log_clear(engine->taken_back);
}

/* Everything that must follow a commit. */
static void
follow(struct advisor_round *engine)
{
    advisor_round_tables_saved(engine);
    follow_group(engine);
    kvt_metric_inc(engine->counters.commits, 1);
    advisor_round_reclaim(engine, RECLAIM_MAX);
}

typedef enum kvt_err write_fn(struct advisor_round *engine, const struct advisor_txn *txn,
                              struct advisor_store_log *log);

/* A transaction of its own; engine->log follows it. */
static enum kvt_err
transact(struct advisor_round *engine, write_fn *write, struct kvt_error *err)
{
    struct advisor_store_log log = engine->log;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(engine->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = write(engine, &txn, &log);
    if (rc == KVT_OK) {
        rc = advisor_store_commit(&txn, err);
    } else {
        (void)kvt_error_set(err, rc, "%s", kvt_err_text(rc));
        advisor_store_end(&txn);
    }
    if (rc == KVT_OK)
        engine->log = log;
    return rc;
}

static enum kvt_err
write_abandon(struct advisor_round *engine, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)engine;
    return advisor_store_log_abandon(txn, log);
}

/* Events come before a snapshot that is half written.  True: its room is theirs. */
static bool
abandon_snapshot(struct advisor_round *engine)
{
    struct kvt_error err;

    if (engine->log.building == 0 || transact(engine, write_abandon, &err) != KVT_OK)
        return false;
    advisor_ram_snapshot_abandoned(engine->snapshot, &engine->log);
    /* LMDB gives pages away two transactions after the one that freed them. */
    return transact(engine, write_abandon, &err) == KVT_OK;
}

void
advisor_round_commit(struct advisor_round *engine)
{
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    atomic_store(&engine->memory.behind, true);
    rc = transact(engine, advisor_round_write_tables, &err);
    if (rc == KVT_FULL && abandon_snapshot(engine))
        rc = transact(engine, advisor_round_write_tables, &err);
    if (rc != KVT_OK) {
        kvt_metric_inc(engine->counters.commit_failures, 1);
        engine->retry_at_ms = kvt_clock_mono_ms() + RETRY_MS;
        atomic_store(&engine->memory.behind, false);
        set_blocked(engine, true, err.text);
        return;
    }
    if (engine->retry_at_ms != 0) {
        engine->retry_at_ms = 0;
        set_blocked(engine, false, "");
    }
    follow(engine);
    atomic_store(&engine->memory.behind, false);
    if (engine->unsynced_ms == 0)
        engine->unsynced_ms = kvt_clock_mono_ms();
}

bool
advisor_round_follow(struct advisor_round *engine)
{
    if (!engine->options.volatile_places || advisor_round_must_write(engine))
        return false;
    follow_group(engine);
    engine->moved = true;
    return true;
}

void
advisor_round_flush(struct advisor_round *engine)
{
    struct kvt_error err;

    if (engine->unsynced_ms == 0)
        return;
    if (advisor_store_sync(engine->options.store, &err) != KVT_OK) {
        kvt_log_error("advisor.engine", "sync", "%s", err.text);
        return;
    }
    engine->unsynced_ms = 0;
    advisor_round_sources_synced(engine);
}
