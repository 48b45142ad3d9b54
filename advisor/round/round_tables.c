#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/publisher/aliases.h"
#include "advisor/round/round_private.h"

/* The durable tables of the round.  A new one is one row of `tables`, and one function for each
 * column that it needs. */

/* ---- names of namespaces and holders ---- */

static bool
must_write_names(struct advisor_round *round)
{
    return advisor_name_table_dirty(round->names);
}

static enum kvt_err
write_names(struct advisor_round *round, const struct advisor_txn *txn,
            struct advisor_store_log *log)
{
    (void)log;
    return advisor_name_table_save(round->names, txn);
}

static void
saved_names(struct advisor_round *round)
{
    advisor_name_table_saved(round->names);
}

/* ---- evicted holders ---- */

static bool
must_write_evicted(struct advisor_round *round)
{
    return round->evicted != NULL && advisor_evicted_count(round->evicted) > 0;
}

static enum kvt_err
write_evicted(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)log;
    if (round->evicted == NULL)
        return KVT_OK;
    return advisor_evicted_write(round->evicted, txn, advisor_change_group_log(round->group));
}

static void
saved_evicted(struct advisor_round *round)
{
    if (round->evicted == NULL)
        return;
    advisor_evicted_saved(round->evicted);
    kvt_metric_inc(round->counters.collisions, advisor_evicted_collisions(round->evicted));
}

/* ---- blocks and the event log ---- */

static bool
has_group(struct advisor_round *round)
{
    return advisor_change_group_count(round->group) > 0;
}

static bool
must_write_group(struct advisor_round *round)
{
    return advisor_change_group_ops(round->group) > 0;
}

static bool
is_hot(void *arg, uint32_t reporter, uint32_t holder)
{
    const struct advisor_round *round = arg;

    return round->options.planner != NULL &&
           advisor_planner_hot_of(round->options.planner, reporter,
                                  advisor_name_table_holder_key(round->names, holder));
}

/* Remember which publisher reports which holders in G4. */
static void
record_reporters(struct advisor_round *round)
{
    const struct advisor_op *former = NULL;
    size_t count;
    const struct advisor_effect *effects = advisor_change_group_effects(round->group, &count);

    for (size_t i = 0; i < count; i++) {
        const struct advisor_op *op = &effects[i].op;

        if (op->kind == ADVISOR_OP_ACCESS ||
            (former != NULL && former->reporter == op->reporter && former->holder == op->holder))
            continue;
        former = op;
        advisor_publishers_reported(round->publishers, op->reporter,
                                    advisor_name_table_holder_key(round->names, op->holder)->name);
    }
}

static enum kvt_err
write_group(struct advisor_round *round, const struct advisor_txn *txn,
            struct advisor_store_log *log)
{
    const enum kvt_err rc = advisor_change_group_write(
        round->group, txn, round->options.volatile_places ? NULL : log, is_hot, round);

    if (rc == KVT_OK)
        record_reporters(round);
    return rc;
}

static enum kvt_err
write_snapshot(struct advisor_round *round, const struct advisor_txn *txn,
               struct advisor_store_log *log)
{
    if (round->options.volatile_places)
        return KVT_OK;
    return advisor_ram_snapshot_write(round->snapshot, txn, log);
}

static void
saved_snapshot(struct advisor_round *round)
{
    advisor_ram_snapshot_saved(round->snapshot);
}

static enum kvt_err
trim_log(struct advisor_round *round, const struct advisor_txn *txn, struct advisor_store_log *log)
{
    (void)round;
    return log->oldest < log->from ? advisor_store_log_trim(txn, log) : KVT_OK;
}

/* ---- publishers ---- */

static bool
has_publishers(struct advisor_round *round)
{
    return advisor_publishers_dirty(round->publishers);
}

static enum kvt_err
write_publishers(struct advisor_round *round, const struct advisor_txn *txn,
                 struct advisor_store_log *log)
{
    (void)log;
    return advisor_publishers_save(round->publishers, txn);
}

static void
saved_publishers(struct advisor_round *round)
{
    advisor_publishers_saved(round->publishers);
}

/* ---- sweeps of holders ---- */

static bool
has_sweeps(struct advisor_round *round)
{
    return advisor_sweeper_dirty(round->sweeper);
}

static enum kvt_err
write_sweeps(struct advisor_round *round, const struct advisor_txn *txn,
             struct advisor_store_log *log)
{
    (void)log;
    return advisor_sweeper_save(round->sweeper, txn);
}

static void
saved_sweeps(struct advisor_round *round)
{
    advisor_sweeper_saved(round->sweeper);
}

/* ---- orders, quotas, pins ---- */

static bool
has_planner(struct advisor_round *round)
{
    return round->options.planner != NULL && advisor_planner_dirty(round->options.planner);
}

static enum kvt_err
write_planner(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)log;
    return round->options.planner == NULL ? KVT_OK
                                          : advisor_planner_save(round->options.planner, txn);
}

static void
saved_planner(struct advisor_round *round)
{
    if (round->options.planner != NULL)
        advisor_planner_saved(round->options.planner);
}

/* ---- jobs ---- */

static bool
has_jobs(struct advisor_round *round)
{
    return round->options.jobs != NULL && advisor_jobs_dirty(round->options.jobs);
}

static enum kvt_err
write_jobs(struct advisor_round *round, const struct advisor_txn *txn,
           struct advisor_store_log *log)
{
    (void)log;
    return round->options.jobs == NULL ? KVT_OK : advisor_jobs_save(round->options.jobs, txn);
}

static void
saved_jobs(struct advisor_round *round)
{
    if (round->options.jobs != NULL)
        advisor_jobs_saved(round->options.jobs);
}

/* ---- what other systems call our blocks ---- */

static bool
has_aliases(struct advisor_round *round)
{
    return advisor_aliases_dirty(round->aliases);
}

static enum kvt_err
write_aliases(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)log;
    return advisor_aliases_save(round->aliases, txn);
}

static void
saved_aliases(struct advisor_round *round)
{
    advisor_aliases_saved(round->aliases);
}

static bool
has_orphans(struct advisor_round *round)
{
    return advisor_orphans_dirty(round->orphans);
}

static enum kvt_err
write_orphans(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)log;
    return advisor_orphans_save(round->orphans, txn);
}

static void
saved_orphans(struct advisor_round *round)
{
    advisor_orphans_saved(round->orphans);
}

/* ---- positions in the streams that are read ---- */

static enum kvt_err
write_sources(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    (void)log;
    return advisor_round_save_sources(round, txn);
}

static enum kvt_err
write_numbers(struct advisor_round *round, const struct advisor_txn *txn,
              struct advisor_store_log *log)
{
    enum kvt_err rc = advisor_store_put_number(txn, ADVISOR_META_REPORTS_SEQ, round->reports.seq);

    (void)log;
    if (rc == KVT_OK)
        rc = advisor_store_put_number(txn, ADVISOR_META_REPORTS_CREATED, round->reports.created_ms);
    if (rc == KVT_OK && round->forgotten)
        rc = advisor_store_put_number(txn, ADVISOR_META_VOLATILE,
                                      round->options.volatile_places ? 1 : 0);
    return rc;
}

static void
saved_numbers(struct advisor_round *round)
{
    round->forgotten = false;
    round->moved = false;
    round->moved_ms = 0;
}

/* ---- all of them ---- */

/* In the order in which they are written.  NULL: nothing to do. */
static const struct durable_table {
    bool (*has_changes)(struct advisor_round *round); /* a transaction is due */
    /* With volatile places: RAM may follow only after a transaction. */
    bool (*must_write)(struct advisor_round *round);
    enum kvt_err (*write)(struct advisor_round *round, const struct advisor_txn *txn,
                          struct advisor_store_log *log);
    void (*saved)(struct advisor_round *round); /* after the commit */
} tables[] = {
    /* has_changes, must_write, write, saved */
    {NULL, must_write_names, write_names, saved_names},
    {NULL, must_write_evicted, write_evicted, saved_evicted},
    {has_group, must_write_group, write_group, NULL}, /* advisor_round_follow() clears it */
    {NULL, NULL, write_snapshot, saved_snapshot},
    {NULL, NULL, trim_log, NULL},
    {has_publishers, NULL, write_publishers, saved_publishers},
    {has_sweeps, has_sweeps, write_sweeps, saved_sweeps},
    {has_planner, has_planner, write_planner, saved_planner},
    {has_jobs, has_jobs, write_jobs, saved_jobs},
    {has_aliases, NULL, write_aliases, saved_aliases},
    {has_orphans, NULL, write_orphans, saved_orphans},
    {NULL, NULL, write_sources, advisor_round_sources_saved},
    {NULL, NULL, write_numbers, saved_numbers},
};

enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

bool
advisor_round_has_changes(struct advisor_round *round)
{
    for (size_t i = 0; i < TABLES; i++)
        if (tables[i].has_changes != NULL && tables[i].has_changes(round))
            return true;
    return false;
}

bool
advisor_round_must_write(struct advisor_round *round)
{
    for (size_t i = 0; i < TABLES; i++)
        if (tables[i].must_write != NULL && tables[i].must_write(round))
            return true;
    return false;
}

enum kvt_err
advisor_round_write_tables(struct advisor_round *round, const struct advisor_txn *txn,
                           struct advisor_store_log *log)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < TABLES && rc == KVT_OK; i++)
        rc = tables[i].write(round, txn, log);
    return rc;
}

void
advisor_round_tables_saved(struct advisor_round *round)
{
    for (size_t i = 0; i < TABLES; i++)
        if (tables[i].saved != NULL)
            tables[i].saved(round);
}
