#include "advisor/order/planner_pause.h"

#include "advisor/selection/planner_tables.h"
#include "base/core/log.h"

/* The stop switch.  It survives restarts: whoever stopped a program that moves the wrong blocks
 * does not want it to go on by itself. */

bool
advisor_planner_paused(struct advisor_planner *planner)
{
    bool paused;

    (void)pthread_mutex_lock(&planner->shared.lock);
    paused = planner->shared.paused;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return paused;
}

void
advisor_planner_set_paused(struct advisor_planner *planner, bool paused)
{
    bool changed;

    (void)pthread_mutex_lock(&planner->shared.lock);
    changed = planner->shared.paused != paused;
    planner->shared.paused = paused;
    planner->shared.paused_dirty |= changed;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    if (changed)
        kvt_log_info("advisor.planner", "paused", "%s",
                     paused ? "paused: no order leaves until somebody resumes"
                            : "resumed: orders leave again");
}

bool
advisor_planner_paused_dirty(struct advisor_planner *planner)
{
    bool dirty;

    (void)pthread_mutex_lock(&planner->shared.lock);
    dirty = planner->shared.paused_dirty;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return dirty;
}

enum kvt_err
advisor_planner_load_paused(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    uint64_t paused = 0;
    const enum kvt_err rc = advisor_store_number(txn, ADVISOR_META_PAUSED, &paused);

    planner->shared.paused = paused != 0;
    return rc;
}

enum kvt_err
advisor_planner_save_paused(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    bool dirty;

    (void)pthread_mutex_lock(&planner->shared.lock);
    planner->written_paused = planner->shared.paused;
    dirty = planner->shared.paused_dirty;
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return dirty
               ? advisor_store_put_number(txn, ADVISOR_META_PAUSED, planner->written_paused ? 1 : 0)
               : KVT_OK;
}

void
advisor_planner_saved_paused(struct advisor_planner *planner)
{
    (void)pthread_mutex_lock(&planner->shared.lock);
    if (planner->shared.paused == planner->written_paused) /* else it changed again meanwhile */
        planner->shared.paused_dirty = false;
    (void)pthread_mutex_unlock(&planner->shared.lock);
}
