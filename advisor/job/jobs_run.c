#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/job/jobs_private.h"
#include "advisor/order/order_ledger.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* Batches on their way: to an order, to its result, and perhaps once more. */

enum {
    RETRY_MS = 2000,         /* then twice as long each time */
    EXPIRY_MS = 600000,      /* of an order: a gateway may be away, and may have much to do */
    PARTIAL_ATTEMPTS_MAX = 2 /* at a batch of which the gateway did the most */
};

/* A batch without blocks is one thing to do. */
static uint32_t
units(const struct advisor_job_batch *batch)
{
    return batch->items == 0 ? 1 : batch->items;
}

/* ---- results ---- */

static void
end_job(struct advisor_job *job, uint64_t now_ms)
{
    job->row.finished_ms = now_ms;
    if (job->row.state == ADVISOR_JOB_CANCELLED)
        return;
    job->row.state = job->row.failed == 0 ? ADVISOR_JOB_DONE : ADVISOR_JOB_FAILED;
    kvt_log_info("advisor.jobs", "ended",
                 "job %" PRIu64 " (%s): %" PRIu64 " done, %" PRIu64 " failed%s%s", job->row.id,
                 job->row.title, job->row.done, job->row.failed, job->row.failed == 0 ? "" : "; ",
                 job->row.failed == 0 ? "" : job->row.text);
}

/* Much of it fails: a person is to look before more is tried. */
static void
see_errors(struct advisor_job *job)
{
    struct advisor_job_row *row = &job->row;
    const uint64_t tried = row->since_done + row->since_failed;

    if (row->state != ADVISOR_JOB_RUNNING || row->since_failed < ADVISOR_JOB_SUSPEND_MIN ||
        (unsigned __int128)row->since_failed * 1000000 <=
            (unsigned __int128)tried * row->suspend_ppm)
        return;
    row->state = ADVISOR_JOB_PAUSED;
    kvt_log_warn("advisor.jobs", "suspended",
                 "job %" PRIu64 " (%s) is paused: %" PRIu64 " of %" PRIu64
                 " blocks failed; first: %s",
                 row->id, row->title, row->since_failed, tried, row->text);
}

static void
finish_slot(struct advisor_job *job, struct advisor_job_slot *slot, uint64_t now_ms)
{
    struct advisor_job_row *row = &job->row;
    struct advisor_job_batch *batch = &slot->batch;

    batch->finished = 1;
    batch->round = row->round;
    row->done += batch->done - (uint64_t)slot->former_done;
    row->failed += batch->failed - (uint64_t)slot->former_failed;
    row->since_done += batch->done;
    row->since_failed += batch->failed;
    row->finished++;
    if (batch->failed > 0) {
        row->failed_batches++;
        if (row->text[0] == '\0')
            (void)snprintf(row->text, sizeof(row->text), "%s", batch->text);
    }
    slot->state = ADVISOR_SLOT_FINISHED;
    job->dirty = true;
    see_errors(job);
    if (row->finished == row->batches)
        end_job(job, now_ms);
}

/* Try the batch again, or take what there is. */
static void
settle(struct advisor_jobs *jobs, struct advisor_job *job, struct advisor_job_slot *slot,
       unsigned attempts_max, uint64_t now_ms)
{
    /* What expired while nothing may leave says nothing of the gateway. */
    const bool counts = !advisor_planner_paused(jobs->options.planner);

    slot->batch.attempts += counts ? 1 : 0;
    if (slot->batch.failed == 0 || slot->batch.attempts >= attempts_max) {
        finish_slot(job, slot, now_ms);
        return;
    }
    slot->state = ADVISOR_SLOT_WAITING;
    slot->at_ms = now_ms + ((uint64_t)RETRY_MS << slot->batch.attempts);
}

static void
follow_slot(struct advisor_jobs *jobs, struct advisor_job *job, struct advisor_job_slot *slot,
            uint64_t now_ms)
{
    const struct advisor_order_row *order =
        advisor_planner_order_row(jobs->options.planner, slot->order);
    struct advisor_job_batch *batch = &slot->batch;
    const char *text = order == NULL ? "its order was lost" : order->text;

    if (order != NULL && order->state == ADVISOR_ORDER_PENDING)
        return;
    batch->done = 0;
    batch->failed = units(batch);
    if (order != NULL && order->state == ADVISOR_ORDER_DONE) {
        /* A gateway counts what it was given; what it does not account for is not done. */
        batch->done = order->done < units(batch) ? order->done : units(batch);
        batch->failed = units(batch) - batch->done;
        if (batch->done > slot->counted)
            slot->counted = batch->done;
        if (batch->done > 0)
            job->progress_ms = now_ms;
        batch->bytes_moved += order->bytes_moved;
        job->row.bytes_moved += order->bytes_moved;
        job->dirty = true;
    } else if (order != NULL && order->state == ADVISOR_ORDER_EXPIRED) {
        text = "the gateway did not answer";
    }
    (void)snprintf(batch->text, sizeof(batch->text), "%s",
                   batch->failed == 0 ? "" : (text[0] == '\0' ? "no reason was told" : text));
    settle(jobs, job, slot,
           order != NULL && order->state == ADVISOR_ORDER_DONE ? PARTIAL_ATTEMPTS_MAX
                                                               : ADVISOR_JOB_ATTEMPTS_MAX,
           now_ms);
}

/* Of a job that somebody stopped nothing more leaves.  What is on its way already comes to its
 * end. */
static void
take_back(struct advisor_jobs *jobs, struct advisor_job *job, uint64_t now_ms)
{
    if (job->row.state != ADVISOR_JOB_PAUSED && job->row.state != ADVISOR_JOB_CANCELLED)
        return;
    for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++) {
        struct advisor_job_slot *slot = &job->slots[at];

        if (slot->state != ADVISOR_SLOT_ORDERED ||
            !advisor_planner_withdraw(jobs->options.planner, slot->order, now_ms))
            continue;
        slot->state = ADVISOR_SLOT_WAITING;
        slot->at_ms = now_ms;
    }
}

void
advisor_jobs_follow(struct advisor_jobs *jobs, uint64_t now_ms)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct advisor_job *job = jobs->list[i];

        for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++)
            if (job->slots[at].state == ADVISOR_SLOT_ORDERED)
                follow_slot(jobs, job, &job->slots[at], now_ms);
        take_back(jobs, job, now_ms);
        for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++) {
            struct advisor_job_slot *slot = &job->slots[at];

            if (slot->state == ADVISOR_SLOT_WAITING && advisor_job_has_ended(job->row.state))
                slot->state = ADVISOR_SLOT_FREE;
        }
    }
}

/* ---- orders ---- */

/* A result whose slot is needed is written first. */
static struct advisor_job_slot *
free_slot(struct advisor_job *job)
{
    for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++)
        if (job->slots[at].state == ADVISOR_SLOT_FREE)
            return &job->slots[at];
    return NULL;
}

static bool
is_under_way(const struct advisor_job *job, uint32_t n)
{
    for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++)
        if (job->slots[at].state != ADVISOR_SLOT_FREE && job->slots[at].n == n)
            return true;
    return false;
}

static enum kvt_err
order_batch(struct advisor_jobs *jobs, const struct advisor_job *job,
            const struct advisor_job_batch *batch, struct kvt_order_item *items, uint32_t counted,
            uint64_t now_ms, uint64_t *number)
{
    struct advisor_order model = {.counted = counted, .until_ms = batch->until_ms, .items = items};
    enum kvt_err rc;

    model.row.verb = batch->verb;
    model.row.items = batch->items;
    model.row.bytes = batch->bytes;
    model.row.issued_ms = now_ms;
    model.row.expires_ms = now_ms + EXPIRY_MS;
    model.row.state = ADVISOR_ORDER_PENDING;
    memcpy(model.row.gateway, batch->gateway, sizeof(model.row.gateway));
    memcpy(model.row.namespace_, batch->namespace_, sizeof(model.row.namespace_));
    memcpy(model.row.from, batch->from, sizeof(model.row.from));
    memcpy(model.row.to, batch->to, sizeof(model.row.to));
    model.row.keep = (batch->flags & ADVISOR_BATCH_KEEP) != 0 ? 1 : 0;
    (void)snprintf(model.row.reason, sizeof(model.row.reason), "job %" PRIu64 ": %.40s",
                   job->row.id, job->row.title);
    if (batch->verb == KVT_ORDER_DELETE) {
        model.cause.kind = KVT_DELETE_JOB;
        model.cause.job = job->row.id;
    }
    advisor_jobs_place_order(jobs->options.planner, &model);
    rc = advisor_planner_add_order(jobs->options.planner, &model);
    *number = rc == KVT_OK ? jobs->options.planner->next_id : 0;
    return rc;
}

/* KVT_OK: it is under way, or needs nothing. */
static enum kvt_err
begin_batch(struct advisor_jobs *jobs, struct advisor_job *job, struct advisor_job_slot *slot,
            uint32_t n, const struct advisor_txn *txn, uint64_t now_ms)
{
    const bool again = slot->state == ADVISOR_SLOT_WAITING;
    const uint32_t attempts = again ? slot->batch.attempts : 0;
    const uint64_t moved = again ? slot->batch.bytes_moved : 0;
    uint32_t counted = again ? slot->counted : 0;
    struct advisor_job_batch batch;
    struct kvt_order_item *items;
    uint64_t number;
    enum kvt_err rc = advisor_store_batch(txn, job->row.id, n, &batch, &items);

    if (rc != KVT_OK)
        return rc;
    if (batch.finished != 0 && (batch.failed == 0 || batch.round == job->row.round)) {
        kvt_free(items);
        return KVT_OK;
    }
    if (batch.finished != 0 && batch.done > counted)
        counted = batch.done;
    rc = order_batch(jobs, job, &batch, items, counted, now_ms, &number);
    if (rc != KVT_OK)
        return rc;
    *slot = (struct advisor_job_slot){.state = ADVISOR_SLOT_ORDERED,
                                      .n = n,
                                      .order = number,
                                      .former_done = batch.finished != 0 ? batch.done : 0,
                                      .former_failed = batch.finished != 0 ? batch.failed : 0,
                                      .counted = counted,
                                      .batch = batch};
    slot->batch.attempts = attempts;
    slot->batch.bytes_moved = batch.bytes_moved > moved ? batch.bytes_moved : moved;
    return KVT_OK;
}

static enum kvt_err
order_job(struct advisor_jobs *jobs, struct advisor_job *job, const struct advisor_txn *txn,
          uint64_t now_ms)
{
    struct advisor_job_slot *slot;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX && rc == KVT_OK; at++)
        if (job->slots[at].state == ADVISOR_SLOT_WAITING && now_ms >= job->slots[at].at_ms)
            rc = begin_batch(jobs, job, &job->slots[at], job->slots[at].n, txn, now_ms);
    while (rc == KVT_OK && job->next < job->row.batches && (slot = free_slot(job)) != NULL) {
        if (!is_under_way(job, job->next))
            rc = begin_batch(jobs, job, slot, job->next, txn, now_ms);
        job->next += rc == KVT_OK ? 1 : 0;
    }
    return rc;
}

static bool
wants_orders(const struct advisor_job *job, uint64_t now_ms)
{
    bool room = false;

    for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++) {
        if (job->slots[at].state == ADVISOR_SLOT_WAITING && now_ms >= job->slots[at].at_ms)
            return true;
        room |= job->slots[at].state == ADVISOR_SLOT_FREE;
    }
    return room && job->next < job->row.batches;
}

/* What passes (readers in the way, memory, a disk that fails once) is tried again with the next
 * tick; rows that are broken or gone are for a person. */
static void
fail_job(struct advisor_job *job, enum kvt_err rc)
{
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND) {
        kvt_log_warn("advisor.jobs", "unread",
                     "job %" PRIu64 " waits: its moves cannot be read: %s", job->row.id,
                     kvt_err_text(rc));
        return;
    }
    kvt_log_error("advisor.jobs", "unreadable", "job %" PRIu64 " is paused: %s", job->row.id,
                  kvt_err_text(rc));
    job->row.state = ADVISOR_JOB_PAUSED;
    job->dirty = true;
    (void)snprintf(job->row.text, sizeof(job->row.text), "its moves cannot be read: %s",
                   kvt_err_text(rc));
}

void
advisor_jobs_order(struct advisor_jobs *jobs, uint64_t now_ms)
{
    struct advisor_planner *planner = jobs->options.planner;
    struct advisor_txn txn = {.handle = NULL};
    unsigned running = 0;

    if (advisor_planner_mode(planner) == ADVISOR_MODE_OFF || advisor_planner_paused(planner) ||
        !planner->options.can_enforce)
        return;
    for (size_t i = 0; i < jobs->count && running < ADVISOR_JOBS_RUNNING_MAX; i++) {
        struct advisor_job *job = jobs->list[i];
        enum kvt_err rc = KVT_OK;

        if (job->unwritten ||
            (job->row.state != ADVISOR_JOB_QUEUED && job->row.state != ADVISOR_JOB_RUNNING))
            continue;
        running++;
        if (job->row.state == ADVISOR_JOB_QUEUED) {
            job->row.state = ADVISOR_JOB_RUNNING;
            job->progress_ms = now_ms;
            job->dirty = true;
        }
        if (!wants_orders(job, now_ms))
            continue;
        if (txn.handle == NULL)
            rc = advisor_store_read(jobs->options.store, &txn, NULL);
        if (rc == KVT_OK)
            rc = order_job(jobs, job, &txn, now_ms);
        if (rc != KVT_OK)
            fail_job(job, rc);
    }
    advisor_store_end(&txn);
}
