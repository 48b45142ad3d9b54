#include <inttypes.h>

#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/publisher/aliases.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* What the store has: small tables when the round is made, the index in its first round. */

static enum kvt_err
load_tables(struct advisor_round *round, const struct advisor_txn *txn)
{
    uint64_t was_volatile = 0;
    enum kvt_err rc = advisor_name_table_load(round->names, txn);

    if (rc == KVT_OK)
        rc = advisor_publishers_load(round->publishers, txn, round->names, kvt_clock_mono_ms());
    if (rc == KVT_OK)
        rc = advisor_sweeper_load(round->sweeper, txn);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EVENTS_SEQ, &round->events.seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EVENTS_CREATED, &round->events.created_ms);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_REPORTS_SEQ, &round->reports.seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_REPORTS_CREATED, &round->reports.created_ms);
    if (rc == KVT_OK)
        rc = advisor_round_load_sources(round, txn);
    if (rc == KVT_OK)
        rc = advisor_aliases_load(round->aliases, txn);
    if (rc == KVT_OK)
        rc = advisor_orphans_load(round->orphans, txn);
    if (rc == KVT_OK)
        rc = advisor_store_log_get(txn, &round->log);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_VOLATILE, &was_volatile);
    if (rc == KVT_OK && round->options.planner != NULL)
        rc = advisor_planner_load(round->options.planner, txn, round->names, kvt_clock_unix_ms());
    if (rc == KVT_OK && round->options.jobs != NULL)
        rc = advisor_jobs_load(round->options.jobs, txn);
    round->forgotten = round->options.volatile_places || was_volatile != 0;
    return rc;
}

/* Nor does what was evicted from a RAM that is gone count. */
static enum kvt_err
discard_cold(struct advisor_round *round, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_evicted_discard(&txn);
    if (rc == KVT_OK)
        return advisor_store_commit(&txn, err);
    advisor_store_end(&txn);
    return kvt_error_set(err, rc, "discard what is cold: %s", kvt_err_text(rc));
}

/* What the log says was true before a time it knows nothing of.  An empty snapshot makes all of it
 * void. */
static enum kvt_err
empty_log(struct advisor_round *round, struct kvt_error *err)
{
    struct advisor_store_log log = round->log;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_log_begin(&txn, &log);
    if (rc == KVT_OK)
        rc = advisor_store_log_end(&txn, &log);
    if (rc == KVT_OK)
        rc = advisor_store_put_number(&txn, ADVISOR_META_VOLATILE, 1);
    if (rc != KVT_OK) {
        advisor_store_end(&txn);
        return kvt_error_set(err, rc, "empty the index's log: %s", kvt_err_text(rc));
    }
    rc = advisor_store_commit(&txn, err);
    if (rc == KVT_OK)
        round->log = log;
    return rc;
}

enum kvt_err
advisor_round_load_tables(struct advisor_round *round, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = load_tables(round, &txn);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "load the index: %s", kvt_err_text(rc));
    if (round->options.volatile_places)
        rc = empty_log(round, err);
    return rc == KVT_OK && round->forgotten ? discard_cold(round, err) : rc;
}

static enum kvt_err
load_index(struct advisor_round *round, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    if (round->evicted != NULL)
        rc = advisor_evicted_load(round->evicted, &txn, &round->progress.cancel);
    if (rc == KVT_OK)
        rc = advisor_index_load(&round->memory, &txn, &round->progress, err);
    else
        rc = kvt_error_set(err, rc, "load what is cold: %s", kvt_err_text(rc));
    if (rc == KVT_OK && round->options.planner != NULL) {
        rc = advisor_planner_load_blocks(round->options.planner, &txn, &round->progress.cancel);
        if (rc != KVT_OK)
            rc = kvt_error_set(err, rc, "load the order of blocks: %s", kvt_err_text(rc));
    }
    advisor_store_end(&txn);
    return rc;
}

void
advisor_round_forgive(struct advisor_round *round)
{
    const size_t count = advisor_publishers_count(round->publishers);
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        publisher->heard_ms = now_ms;
        publisher->doubt_ms = publisher->doubt_ms == 0 ? 0 : now_ms;
    }
}

void
advisor_round_load(struct advisor_round *round)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.text = ""};
    struct index_stats stats;
    const enum kvt_err rc = load_index(round, &err);

    if (rc != KVT_OK) {
        if (rc != KVT_CANCELLED)
            kvt_log_error("advisor.engine", "load", "%s", err.text);
        round->failed = err;
        round->failure = rc;
        return;
    }
    advisor_round_forgive(round);
    atomic_store(&round->memory.loading, false);
    index_stats(round->options.index, &stats);
    kvt_log_info("advisor.engine", "loaded",
                 "%" PRIu64 " blocks in %" PRIu64 " places read in %" PRIu64 " ms", stats.blocks,
                 stats.places, kvt_clock_mono_ms() - began_ms);
}

enum kvt_err
advisor_round_failed(const struct advisor_round *round, struct kvt_error *err)
{
    if (round->failure != KVT_OK)
        *err = round->failed;
    return round->failure;
}

const struct advisor_index_load_progress *
advisor_round_progress(const struct advisor_round *round)
{
    return &round->progress;
}

void
advisor_round_cancel(struct advisor_round *round)
{
    atomic_store(&round->progress.cancel, true);
}
