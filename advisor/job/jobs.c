#include "advisor/job/jobs.h"

#include <string.h>

#include "advisor/job/jobs_private.h"
#include "base/core/alloc.h"
#include "base/thread/cond.h"

/* What there is, and how it is kept. */

static const char *const state_names[] = {"filling", "queued", "running",  "paused",
                                          "done",    "failed", "cancelled"};

const char *
advisor_job_state_name(uint32_t state)
{
    return state < sizeof(state_names) / sizeof(state_names[0]) ? state_names[state] : "unknown";
}

bool
advisor_job_has_ended(uint32_t state)
{
    return state >= ADVISOR_JOB_DONE;
}

enum kvt_err
advisor_jobs_new(struct advisor_jobs **out, const struct advisor_jobs_options *options)
{
    struct advisor_jobs *jobs = kvt_calloc(1, sizeof(*jobs));

    *out = NULL;
    if (jobs == NULL)
        return KVT_NOMEM;
    jobs->options = *options;
    jobs->next_id = 1;
    if (pthread_mutex_init(&jobs->shared.lock, NULL) != 0) {
        kvt_free(jobs);
        return KVT_NOMEM;
    }
    if (!kvt_cond_init(&jobs->shared.answered)) {
        (void)pthread_mutex_destroy(&jobs->shared.lock);
        kvt_free(jobs);
        return KVT_NOMEM;
    }
    *out = jobs;
    return KVT_OK;
}

void
advisor_job_free_fresh(struct advisor_job_fresh *fresh, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kvt_free(fresh[i].items);
    kvt_free(fresh);
}

void
advisor_job_free(struct advisor_job *job)
{
    if (job == NULL)
        return;
    advisor_job_free_fresh(job->fresh, job->fresh_count);
    kvt_free(job);
}

static void
free_asks(struct advisor_job_ask *ask)
{
    while (ask != NULL) {
        struct advisor_job_ask *next = ask->next;

        advisor_job_free_fresh(ask->fresh, ask->fresh_count);
        kvt_free(ask);
        ask = next;
    }
}

void
advisor_jobs_free(struct advisor_jobs *jobs)
{
    if (jobs == NULL)
        return;
    for (size_t i = 0; i < jobs->count; i++)
        advisor_job_free(jobs->list[i]);
    for (size_t i = 0; i < jobs->gone_count; i++)
        advisor_job_free(jobs->gone[i]);
    free_asks(jobs->taken);
    free_asks(jobs->shared.first);
    (void)pthread_cond_destroy(&jobs->shared.answered);
    (void)pthread_mutex_destroy(&jobs->shared.lock);
    kvt_free(jobs);
}

struct advisor_job *
advisor_jobs_find(const struct advisor_jobs *jobs, uint64_t id)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->list[i]->row.id == id)
            return jobs->list[i];
    return NULL;
}

/* ---- durable ---- */

static enum kvt_err
load_job(void *arg, const void *data)
{
    const struct advisor_job_row *row = data;
    struct advisor_jobs *jobs = arg;
    struct advisor_job *job;

    if (jobs->count == ADVISOR_JOBS_KEPT)
        return KVT_CORRUPT;
    job = kvt_calloc(1, sizeof(*job));
    if (job == NULL)
        return KVT_NOMEM;
    /* What was under way is looked for from the beginning, and ordered again. */
    job->row = *row;
    jobs->list[jobs->count++] = job;
    if (row->id >= jobs->next_id)
        jobs->next_id = row->id + 1;
    return KVT_OK;
}

enum kvt_err
advisor_jobs_load(struct advisor_jobs *jobs, const struct advisor_txn *txn)
{
    uint64_t next = 0;
    enum kvt_err rc = advisor_store_walk(txn, ADVISOR_ROW_JOB, load_job, jobs);

    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_JOB_NEXT, &next);
    if (next > jobs->next_id)
        jobs->next_id = next;
    if (rc == KVT_OK)
        advisor_jobs_load_places(jobs, txn);
    return rc;
}

bool
advisor_jobs_dirty(struct advisor_jobs *jobs)
{
    if (jobs->next_dirty || jobs->gone_count > 0)
        return true;
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->list[i]->dirty)
            return true;
    return false;
}

/* The blocks of a batch stay while it may be tried again. */
static enum kvt_err
save_slot(const struct advisor_txn *txn, const struct advisor_job *job,
          const struct advisor_job_slot *slot)
{
    struct kvt_order_item *items = NULL;
    struct advisor_job_batch former;
    enum kvt_err rc = KVT_OK;

    if (slot->batch.failed > 0)
        rc = advisor_store_batch(txn, job->row.id, slot->n, &former, &items);
    if (rc == KVT_OK)
        rc = advisor_store_put_batch(txn, job->row.id, slot->n, &slot->batch, items);
    kvt_free(items);
    return rc;
}

static enum kvt_err
save_job(const struct advisor_txn *txn, const struct advisor_job *job)
{
    const uint32_t first = job->row.batches - (uint32_t)job->fresh_count;
    enum kvt_err rc = advisor_store_put(txn, ADVISOR_ROW_JOB, &job->row);

    for (size_t i = 0; i < job->fresh_count && rc == KVT_OK; i++)
        rc = advisor_store_put_batch(txn, job->row.id, first + (uint32_t)i, &job->fresh[i].batch,
                                     job->fresh[i].items);
    for (size_t i = 0; i < ADVISOR_JOB_ORDERS_MAX && rc == KVT_OK; i++)
        if (job->slots[i].state == ADVISOR_SLOT_FINISHED)
            rc = save_slot(txn, job, &job->slots[i]);
    return rc;
}

enum kvt_err
advisor_jobs_save(struct advisor_jobs *jobs, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    if (jobs->next_dirty)
        rc = advisor_store_put_number(txn, ADVISOR_META_JOB_NEXT, jobs->next_id);
    for (size_t i = 0; i < jobs->gone_count && rc == KVT_OK; i++)
        rc = advisor_store_delete_job(txn, jobs->gone[i]->row.id, jobs->gone[i]->row.batches);
    for (size_t i = 0; i < jobs->count && rc == KVT_OK; i++)
        if (jobs->list[i]->dirty)
            rc = save_job(txn, jobs->list[i]);
    return rc;
}

void
advisor_jobs_saved(struct advisor_jobs *jobs)
{
    jobs->next_dirty = false;
    for (size_t i = 0; i < jobs->gone_count; i++)
        advisor_job_free(jobs->gone[i]);
    jobs->gone_count = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        struct advisor_job *job = jobs->list[i];

        if (!job->dirty)
            continue;
        job->dirty = false;
        job->unwritten = false;
        advisor_job_free_fresh(job->fresh, job->fresh_count);
        job->fresh = NULL;
        job->fresh_count = 0;
        for (size_t at = 0; at < ADVISOR_JOB_ORDERS_MAX; at++)
            if (job->slots[at].state == ADVISOR_SLOT_FINISHED)
                job->slots[at].state = ADVISOR_SLOT_FREE;
    }
}

void
advisor_jobs_tick(struct advisor_jobs *jobs, uint64_t now_ms)
{
    advisor_jobs_age(jobs, now_ms);
    advisor_jobs_take(jobs, now_ms);
    advisor_jobs_follow(jobs, now_ms);
    advisor_jobs_order(jobs, now_ms);
    advisor_jobs_hold(jobs, now_ms);
}
