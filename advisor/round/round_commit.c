#include <stdio.h>

#include "advisor/job/jobs.h"
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

static bool
is_hot(void *arg, uint32_t reporter, uint32_t holder)
{
    const struct advisor_round *engine = arg;

    return engine->options.planner != NULL &&
           advisor_planner_hot_of(engine->options.planner, reporter,
                                  advisor_name_table_holder_key(engine->names, holder));
}

/* Who speaks for which places in G4. */
static void
note_reporters(struct advisor_round *engine)
{
    const struct advisor_op *former = NULL;
    size_t count;
    const struct advisor_effect *effects = advisor_change_group_effects(engine->group, &count);

    for (size_t i = 0; i < count; i++) {
        const struct advisor_op *op = &effects[i].op;

        if (op->kind == ADVISOR_OP_ACCESS ||
            (former != NULL && former->reporter == op->reporter && former->holder == op->holder))
            continue;
        former = op;
        advisor_publishers_reported(engine->publishers, op->reporter,
                                    advisor_name_table_holder_key(engine->names, op->holder)->name);
    }
}

/* Everything that is durable together.  `log` is where the log is by then. */
static enum kvt_err
write_all(struct advisor_round *engine, const struct advisor_txn *txn,
          struct advisor_store_log *log)
{
    const bool kept = !engine->options.volatile_places;
    struct advisor_planner *planner = engine->options.planner;
    enum kvt_err rc = advisor_name_table_save(engine->names, txn);

    if (rc == KVT_OK && engine->cold != NULL)
        rc = advisor_evicted_write(engine->cold, txn, advisor_change_group_log(engine->group));
    if (rc == KVT_OK)
        rc = advisor_change_group_write(engine->group, txn, kept ? log : NULL, is_hot, engine);
    if (rc == KVT_OK)
        note_reporters(engine);
    if (rc == KVT_OK && kept)
        rc = advisor_ram_snapshot_write(engine->snapshot, txn, log);
    if (rc == KVT_OK && log->oldest < log->from)
        rc = advisor_store_log_trim(txn, log);
    if (rc == KVT_OK)
        rc = advisor_publishers_save(engine->publishers, txn);
    if (rc == KVT_OK)
        rc = advisor_sweeper_save(engine->sweeper, txn);
    if (rc == KVT_OK && planner != NULL)
        rc = advisor_planner_save(planner, txn);
    if (rc == KVT_OK && engine->options.jobs != NULL)
        rc = advisor_jobs_save(engine->options.jobs, txn);
    if (rc == KVT_OK)
        rc = advisor_aliases_save(engine->aliases, txn);
    if (rc == KVT_OK)
        rc = advisor_orphans_save(engine->orphans, txn);
    if (rc == KVT_OK)
        rc = advisor_round_save_sources(engine, txn);
    if (rc == KVT_OK)
        rc = advisor_store_put_number(txn, ADVISOR_META_REPORTS_SEQ, engine->reports.seq);
    if (rc == KVT_OK)
        rc =
            advisor_store_put_number(txn, ADVISOR_META_REPORTS_CREATED, engine->reports.created_ms);
    if (rc == KVT_OK && engine->forgotten)
        rc = advisor_store_put_number(txn, ADVISOR_META_VOLATILE, kept ? 0 : 1);
    return rc;
}

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
    advisor_round_sources_saved(engine);
    advisor_aliases_saved(engine->aliases);
    advisor_orphans_saved(engine->orphans);
    advisor_name_table_saved(engine->names);
    advisor_publishers_saved(engine->publishers);
    advisor_sweeper_saved(engine->sweeper);
    if (engine->options.planner != NULL)
        advisor_planner_saved(engine->options.planner);
    if (engine->options.jobs != NULL)
        advisor_jobs_saved(engine->options.jobs);
    advisor_ram_snapshot_saved(engine->snapshot);
    if (engine->cold != NULL) {
        advisor_evicted_saved(engine->cold);
        kvt_metric_inc(engine->counters.collisions, advisor_evicted_collisions(engine->cold));
    }
    follow_group(engine);
    kvt_metric_inc(engine->counters.commits, 1);
    engine->forgotten = false;
    engine->moved = false;
    engine->moved_ms = 0;
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
    rc = transact(engine, write_all, &err);
    if (rc == KVT_FULL && abandon_snapshot(engine))
        rc = transact(engine, write_all, &err);
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
    if (!engine->options.volatile_places || advisor_change_group_ops(engine->group) > 0 ||
        advisor_name_table_dirty(engine->names) || advisor_sweeper_dirty(engine->sweeper) ||
        (engine->cold != NULL && advisor_evicted_count(engine->cold) > 0) ||
        (engine->options.planner != NULL && advisor_planner_dirty(engine->options.planner)) ||
        (engine->options.jobs != NULL && advisor_jobs_dirty(engine->options.jobs)))
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
