#include "engine/rank/worker.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define RECORD_HEAD 4 /* bytes of a record's size, little endian */

static const char *const names[ENGINE_VERB_END] = {
    [ENGINE_COPY] = "copy",   [ENGINE_LOAD] = "load", [ENGINE_PULL] = "pull",
    [ENGINE_STORE] = "store", [ENGINE_ASK] = "ask",   [ENGINE_SHOW] = "show",
    [ENGINE_HIDE] = "hide",
};

static bool
known(enum engine_verb verb)
{
    return verb >= ENGINE_COPY && verb < ENGINE_VERB_END;
}

const char *
engine_verb_name(enum engine_verb verb)
{
    return known(verb) ? names[verb] : "unknown";
}

/* Which blocks of ours a verb reads (or speaks of), and which it writes. */
static bool
reads(const struct engine_job *job, enum kvt_tier *tier)
{
    *tier = job->verb == ENGINE_COPY || job->verb == ENGINE_STORE ? job->from : KVT_TIER_G2;
    return job->verb == ENGINE_COPY || job->verb == ENGINE_STORE || job->verb == ENGINE_SHOW ||
           job->verb == ENGINE_HIDE;
}

bool
engine_job_writes(const struct engine_job *job)
{
    return job->verb == ENGINE_COPY || job->verb == ENGINE_LOAD || job->verb == ENGINE_PULL;
}

bool
engine_item_is_well(enum engine_verb verb, enum kvt_err status)
{
    return status == KVT_OK || (verb == ENGINE_STORE && status == KVT_EXISTS) ||
           (verb == ENGINE_ASK && status == KVT_NOTFOUND);
}

/* Check ------------------------------------------------------------------------------------ */

static enum kvt_err
check_layers(const struct engine_worker *worker, const struct engine_job *job,
             struct kvt_error *err)
{
    const uint32_t layers = worker->layout.geometry.layers;

    if (job->verb != ENGINE_COPY && !(job->verb == ENGINE_PULL && job->peer == ENGINE_PEER_G1) &&
        (job->layer != 0 || job->layers != 0))
        return kvt_error_set(err, KVT_INVALID, "%s: is of all layers", names[job->verb]);
    if (job->layers == 0 ? job->layer != 0
                         : job->layer >= layers || job->layers > layers - job->layer)
        return kvt_error_set(err, KVT_INVALID, "%s: layers %" PRIu32 " + %" PRIu32 " of %" PRIu32,
                             names[job->verb], job->layer, job->layers, layers);
    return KVT_OK;
}

static enum kvt_err
check_blocks(const struct engine_worker *worker, const struct engine_job *job, enum kvt_tier tier,
             bool target, struct kvt_error *err)
{
    const uint32_t blocks = tier >= KVT_TIER_G1 && tier <= KVT_TIER_G3 ? worker->blocks[tier] : 0;

    if (blocks == 0)
        return kvt_error_set(err, KVT_INVALID, "%s: there is no tier %d", names[job->verb],
                             (int)tier);
    for (size_t i = 0; i < job->count; i++) {
        const uint32_t block = target ? job->items[i].target : job->items[i].source;

        if (block >= blocks)
            return kvt_error_set(err, KVT_INVALID,
                                 "%s: item %zu names block %" PRIu32 " of %" PRIu32 " of %s",
                                 names[job->verb], i, block, blocks, kvt_tier_name(tier));
    }
    return KVT_OK;
}

enum kvt_err
engine_job_check(const struct engine_worker *worker, const struct engine_job *job,
                 struct kvt_error *err)
{
    enum kvt_tier from;
    enum kvt_err rc;

    if (!known(job->verb))
        return kvt_error_set(err, KVT_INVALID, "there is no verb %d", (int)job->verb);
    if (job->items == NULL || job->count == 0 || job->count > ENGINE_ITEMS_MAX)
        return kvt_error_set(err, KVT_INVALID, "%s: %zu items, 1 to %d may be", names[job->verb],
                             job->count, ENGINE_ITEMS_MAX);
    if (job->done == NULL || (unsigned)job->priority >= KVT_PRIORITY_COUNT)
        return kvt_error_set(err, KVT_INVALID, "%s: priority %d, and somebody to be told",
                             names[job->verb], (int)job->priority);
    if ((job->verb == ENGINE_LOAD || job->verb == ENGINE_STORE || job->verb == ENGINE_ASK) &&
        !worker->objects)
        return kvt_error_set(err, KVT_INVALID, "%s: there is no object tier", names[job->verb]);
    rc = check_layers(worker, job, err);
    if (rc == KVT_OK && reads(job, &from))
        rc = check_blocks(worker, job, from, false, err);
    if (rc == KVT_OK && engine_job_writes(job))
        rc = check_blocks(worker, job, job->to, true, err);
    if (rc == KVT_OK && job->verb == ENGINE_COPY && job->from == job->to)
        rc = kvt_error_set(err, KVT_INVALID, "copy: from %s to itself", kvt_tier_name(job->to));
    return rc;
}

/* The end of a job ------------------------------------------------------------------------- */

/* What one rank has to say of its items. */
static void
sum_up(const struct engine_worker *worker, const struct engine_job *job,
       struct engine_outcome *outcome)
{
    size_t at = 0;

    *outcome = (struct engine_outcome){.ranks = 1};
    while (at < job->count && engine_item_is_well(job->verb, job->items[at].status))
        at++;
    if (at == job->count)
        return;
    outcome->status = job->items[at].status;
    outcome->by_rank[0] = outcome->status;
    (void)kvt_error_set(&outcome->error, outcome->status,
                        "rank %" PRIu32 ": %s: block %" PRIu32 ", item %zu of %zu: %s",
                        worker->layout.geometry.tp_rank, engine_verb_name(job->verb),
                        engine_job_writes(job) ? job->items[at].target : job->items[at].source, at,
                        job->count, kvt_err_text(outcome->status));
}

void
engine_job_finish(const struct engine_worker *worker, struct engine_job *job,
                  const struct engine_outcome *outcome)
{
    struct engine_outcome own;

    if (outcome == NULL) {
        sum_up(worker, job, &own);
        outcome = &own;
    }
    job->done(job->arg, outcome);
}

void
engine_job_fail(struct engine_job *job, enum kvt_err status)
{
    for (size_t i = 0; job->items != NULL && i < job->count; i++)
        job->items[i].status = status;
}

/* Calls ------------------------------------------------------------------------------------ */

/* Whoever is asked may be stopped for good. */
static void
bound(struct engine_job *job)
{
    if (job->wait_ms > ENGINE_JOB_WAIT_MAX_MS)
        job->wait_ms = ENGINE_JOB_WAIT_MAX_MS;
}

enum kvt_err
engine_worker_start(struct engine_worker *worker, struct engine_job *job)
{
    bound(job);
    return worker->ops->start(worker, job);
}

struct waiter {
    pthread_mutex_t lock; /* guards what follows; a leaf */
    pthread_cond_t ended;
    bool over;
    struct engine_outcome outcome;
};

static void
tell_waiter(void *arg, const struct engine_outcome *outcome)
{
    struct waiter *waiter = arg;

    (void)pthread_mutex_lock(&waiter->lock);
    assert(!waiter->over);
    waiter->outcome = *outcome;
    waiter->over = true;
    (void)pthread_cond_signal(&waiter->ended);
    (void)pthread_mutex_unlock(&waiter->lock);
}

enum kvt_err
engine_worker_run(struct engine_worker *worker, struct engine_job *job,
                  struct engine_outcome *outcome)
{
    struct waiter waiter = {.over = false};
    enum kvt_err rc;

    (void)pthread_mutex_init(&waiter.lock, NULL);
    (void)pthread_cond_init(&waiter.ended, NULL);
    job->done = tell_waiter;
    job->arg = &waiter;
    bound(job);
    rc = (worker->ops->run != NULL ? worker->ops->run : worker->ops->start)(worker, job);
    if (rc == KVT_OK) {
        (void)pthread_mutex_lock(&waiter.lock);
        while (!waiter.over)
            (void)pthread_cond_wait(&waiter.ended, &waiter.lock);
        (void)pthread_mutex_unlock(&waiter.lock);
        rc = waiter.outcome.status;
    } else {
        engine_job_fail(job, rc);
        waiter.outcome.status = rc;
        (void)kvt_error_set(&waiter.outcome.error, rc, "%s: was not begun: %s",
                            engine_verb_name(job->verb), kvt_err_text(rc));
    }
    if (outcome != NULL)
        *outcome = waiter.outcome;
    (void)pthread_cond_destroy(&waiter.ended);
    (void)pthread_mutex_destroy(&waiter.lock);
    return rc;
}

void
engine_worker_cancel(struct engine_worker *worker, struct engine_job *job)
{
    worker->ops->cancel(worker, job);
}

enum kvt_err
engine_worker_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                       struct kvt_error *err)
{
    return worker->ops->describe(worker, out, wait_ms, err);
}

enum kvt_err
engine_worker_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes,
                      size_t size, uint64_t wait_ms, struct kvt_error *err)
{
    if (size > ENGINE_METADATA_MAX)
        return kvt_error_set(err, KVT_INVALID, "description of %zu bytes: at most %u may be", size,
                             ENGINE_METADATA_MAX);
    return worker->ops->connect(worker, peer, bytes, size, wait_ms, err);
}

enum kvt_err
engine_worker_share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                    struct kvt_error *err)
{
    if (worker->ops->share == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "a %s shares no G1", worker->ops->kind);
    return worker->ops->share(worker, out, wait_ms, err);
}

void
engine_worker_disconnect(struct engine_worker *worker, uint64_t peer)
{
    worker->ops->disconnect(worker, peer);
}

void
engine_worker_close(struct engine_worker *worker)
{
    if (worker != NULL)
        worker->ops->close(worker);
}

/* Descriptions ----------------------------------------------------------------------------- */

void
engine_record_append(struct kvt_buffer *out, const void *record, size_t size)
{
    uint8_t head[RECORD_HEAD];

    assert(size > 0 && size <= ENGINE_METADATA_MAX);
    for (size_t i = 0; i < RECORD_HEAD; i++)
        head[i] = (uint8_t)(size >> (8 * i));
    kvt_buffer_append(out, head, sizeof(head));
    kvt_buffer_append(out, record, size);
}

bool
engine_record_next(const uint8_t **bytes, size_t *size, const uint8_t **record, size_t *record_size)
{
    uint32_t length = 0;

    *record = NULL;
    *record_size = 0;
    if (*size < RECORD_HEAD)
        return false;
    for (size_t i = 0; i < RECORD_HEAD; i++)
        length |= (uint32_t)(*bytes)[i] << (8 * i);
    if (length == 0 || length > *size - RECORD_HEAD)
        return false;
    *record = *bytes + RECORD_HEAD;
    *record_size = length;
    *bytes += RECORD_HEAD + length;
    *size -= RECORD_HEAD + length;
    return true;
}
