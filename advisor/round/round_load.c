#include <inttypes.h>

#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/publisher/aliases.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* What the store has: small tables when the engine is made, the index in its first round. */

static enum kvt_err
load_tables(struct advisor_round *engine, const struct advisor_txn *txn)
{
    uint64_t was_volatile = 0;
    enum kvt_err rc = advisor_name_table_load(engine->names, txn);

    if (rc == KVT_OK)
        rc = advisor_publishers_load(engine->publishers, txn, engine->names, kvt_clock_mono_ms());
    if (rc == KVT_OK)
        rc = advisor_sweeper_load(engine->sweeper, txn);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EVENTS_SEQ, &engine->events.seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EVENTS_CREATED, &engine->events.created_ms);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_REPORTS_SEQ, &engine->reports.seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_REPORTS_CREATED, &engine->reports.created_ms);
    if (rc == KVT_OK)
        rc = advisor_round_load_sources(engine, txn);
    if (rc == KVT_OK)
        rc = advisor_aliases_load(engine->aliases, txn);
    if (rc == KVT_OK)
        rc = advisor_orphans_load(engine->orphans, txn);
    if (rc == KVT_OK)
        rc = advisor_store_log_get(txn, &engine->log);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_VOLATILE, &was_volatile);
    if (rc == KVT_OK && engine->options.planner != NULL)
        rc = advisor_planner_load(engine->options.planner, txn, engine->names, kvt_clock_unix_ms());
    if (rc == KVT_OK && engine->options.jobs != NULL)
        rc = advisor_jobs_load(engine->options.jobs, txn);
    engine->forgotten = engine->options.volatile_places || was_volatile != 0;
    return rc;
}

/* Nor does what was evicted from a RAM that is gone count. */
static enum kvt_err
discard_cold(struct advisor_round *engine, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(engine->options.store, &txn, err);

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
empty_log(struct advisor_round *engine, struct kvt_error *err)
{
    struct advisor_store_log log = engine->log;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(engine->options.store, &txn, err);

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
        engine->log = log;
    return rc;
}

enum kvt_err
advisor_round_load_tables(struct advisor_round *engine, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(engine->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = load_tables(engine, &txn);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "load the index: %s", kvt_err_text(rc));
    if (engine->options.volatile_places)
        rc = empty_log(engine, err);
    return rc == KVT_OK && engine->forgotten ? discard_cold(engine, err) : rc;
}

static enum kvt_err
load_index(struct advisor_round *engine, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(engine->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    if (engine->evicted != NULL)
        rc = advisor_evicted_load(engine->evicted, &txn, &engine->progress.cancel);
    if (rc == KVT_OK)
        rc = advisor_index_load(&engine->memory, &txn, &engine->progress, err);
    else
        rc = kvt_error_set(err, rc, "load what is cold: %s", kvt_err_text(rc));
    if (rc == KVT_OK && engine->options.planner != NULL) {
        rc = advisor_planner_load_blocks(engine->options.planner, &txn, &engine->progress.cancel);
        if (rc != KVT_OK)
            rc = kvt_error_set(err, rc, "load the order of blocks: %s", kvt_err_text(rc));
    }
    advisor_store_end(&txn);
    return rc;
}

void
advisor_round_forgive(struct advisor_round *engine)
{
    const size_t count = advisor_publishers_count(engine->publishers);
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);

        publisher->heard_ms = now_ms;
        publisher->doubt_ms = publisher->doubt_ms == 0 ? 0 : now_ms;
    }
}

void
advisor_round_load(struct advisor_round *engine)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.text = ""};
    struct index_stats stats;
    const enum kvt_err rc = load_index(engine, &err);

    if (rc != KVT_OK) {
        if (rc != KVT_CANCELLED)
            kvt_log_error("advisor.engine", "load", "%s", err.text);
        engine->failed = err;
        engine->failure = rc;
        return;
    }
    advisor_round_forgive(engine);
    atomic_store(&engine->memory.loading, false);
    index_stats(engine->options.index, &stats);
    kvt_log_info("advisor.engine", "loaded",
                 "%" PRIu64 " blocks in %" PRIu64 " places read in %" PRIu64 " ms", stats.blocks,
                 stats.places, kvt_clock_mono_ms() - began_ms);
}

enum kvt_err
advisor_round_failed(const struct advisor_round *engine, struct kvt_error *err)
{
    if (engine->failure != KVT_OK)
        *err = engine->failed;
    return engine->failure;
}

const struct advisor_index_load_progress *
advisor_round_progress(const struct advisor_round *engine)
{
    return &engine->progress;
}

void
advisor_round_cancel(struct advisor_round *engine)
{
    atomic_store(&engine->progress.cancel, true);
}
