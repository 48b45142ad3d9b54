#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/job/jobs_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/cond.h"

/* From threads that ask to the writer's, and back when it is durable. */

/* An order of large blocks is a long one: gateways are to come to others' in between. */
#define BATCH_BYTES_MAX (UINT64_C(1) << 30)
/* Of the store, that a job leaves free: events come first. */
enum { STORE_SPARE = 8 };

/* ---- asking ---- */

static const char *
text_of(const char *text)
{
    return text == NULL ? "" : text;
}

/* Two tiers of a gateway's reports, or none. */
static enum kvt_err
check_edge(const struct advisor_job_moves *moves, struct kvt_error *err)
{
    const size_t from = strlen(text_of(moves->from));
    const size_t to = strlen(text_of(moves->to));

    if ((from > 0 || to > 0 || moves->keep) && !kvt_order_verb_moves(moves->verb))
        return kvt_error_set(err, KVT_INVALID, "%s is between no tiers: want no from, to and keep",
                             kvt_order_verb_name(moves->verb));
    if ((from > 0) != (to > 0) || from >= KVT_NAME_MAX || to >= KVT_NAME_MAX ||
        (from > 0 && strcmp(moves->from, moves->to) == 0))
        return kvt_error_set(err, KVT_INVALID,
                             "from and to: want two tiers of the gateway, or none of both");
    if (moves->keep && from == 0) /* an order has no other place for it */
        return kvt_error_set(err, KVT_INVALID, "keep: want from and to, two tiers of the gateway");
    return KVT_OK;
}

static enum kvt_err
check_moves(const struct advisor_job_moves *moves, struct kvt_error *err)
{
    if (moves->verb == KVT_ORDER_NONE || moves->verb > KVT_ORDER_VERB_LAST)
        return kvt_error_set(err, KVT_INVALID, "no such verb");
    if (moves->gateway[0] == '\0' || strlen(moves->gateway) >= KVT_NAME_MAX)
        return kvt_error_set(err, KVT_INVALID, "gateway: want 1 to %d bytes", KVT_NAME_MAX - 1);
    if (strlen(moves->namespace_) >= KVT_NAMESPACE_MAX)
        return kvt_error_set(err, KVT_INVALID, "namespace: want at most %d bytes",
                             KVT_NAMESPACE_MAX - 1);
    if ((moves->count == 0) != (moves->verb == KVT_ORDER_COMPACT))
        return kvt_error_set(err, KVT_INVALID, "%s: want %s", kvt_order_verb_name(moves->verb),
                             moves->count == 0 ? "blocks" : "no blocks");
    for (size_t i = 0; i < moves->count; i++)
        if (moves->items[i].ranks == 0)
            return kvt_error_set(err, KVT_INVALID, "a block without ranks");
    return check_edge(moves, err);
}

static size_t
batch_size(uint64_t bytes, size_t blocks)
{
    const uint64_t each = blocks == 0 ? 0 : bytes / blocks;
    const uint64_t fit = each == 0 ? KVT_ORDER_ITEMS_MAX : BATCH_BYTES_MAX / each;

    return fit == 0 ? 1 : (fit < KVT_ORDER_ITEMS_MAX ? (size_t)fit : KVT_ORDER_ITEMS_MAX);
}

size_t
advisor_jobs_batches(uint64_t bytes, size_t blocks)
{
    return blocks == 0 ? 1 : (blocks - 1) / batch_size(bytes, blocks) + 1;
}

static enum kvt_err
cut(struct advisor_job_ask *ask, const struct advisor_job_moves *moves)
{
    const size_t size = batch_size(moves->bytes, moves->count);
    size_t at = 0;

    do {
        const size_t count = moves->count - at < size ? moves->count - at : size;
        struct advisor_job_fresh *fresh = &ask->fresh[ask->fresh_count];

        fresh->batch = (struct advisor_job_batch){
            .bytes = moves->count == 0
                         ? 0
                         : (uint64_t)((unsigned __int128)moves->bytes * count / moves->count),
            .until_ms = moves->until_ms,
            .verb = moves->verb,
            .items = (uint32_t)count};
        (void)snprintf(fresh->batch.gateway, KVT_NAME_MAX, "%s", moves->gateway);
        (void)snprintf(fresh->batch.namespace_, KVT_NAMESPACE_MAX, "%s", moves->namespace_);
        (void)snprintf(fresh->batch.from, KVT_NAME_MAX, "%s", text_of(moves->from));
        (void)snprintf(fresh->batch.to, KVT_NAME_MAX, "%s", text_of(moves->to));
        fresh->batch.flags = moves->keep ? ADVISOR_BATCH_KEEP : 0;
        fresh->items = count == 0 ? NULL : kvt_calloc(count, sizeof(*fresh->items));
        if (count > 0 && fresh->items == NULL)
            return KVT_NOMEM;
        if (count > 0)
            memcpy(fresh->items, moves->items + at, count * sizeof(*fresh->items));
        ask->fresh_count++;
        at += count;
    } while (at < moves->count);
    return KVT_OK;
}

static enum kvt_err
fill(struct advisor_job_ask *ask, const struct advisor_job_request *request, struct kvt_error *err)
{
    size_t batches = 0;
    uint64_t blocks = 0;

    for (size_t i = 0; i < request->move_count; i++) {
        const struct advisor_job_moves *moves = &request->moves[i];
        const enum kvt_err rc = check_moves(moves, err);

        if (rc != KVT_OK)
            return rc;
        batches += advisor_jobs_batches(moves->bytes, moves->count);
        blocks += moves->count == 0 ? 1 : moves->count;
        ask->row.bytes += moves->bytes;
    }
    if (blocks > ADVISOR_JOB_PART_BLOCKS_MAX || batches > ADVISOR_JOB_BATCHES_MAX)
        return kvt_error_set(err, KVT_RANGE,
                             "%" PRIu64 " blocks in %zu batches: at most %d in %d at once", blocks,
                             batches, ADVISOR_JOB_PART_BLOCKS_MAX, ADVISOR_JOB_BATCHES_MAX);
    ask->row.blocks = blocks;
    ask->row.batches = (uint32_t)batches;
    ask->fresh = batches == 0 ? NULL : kvt_calloc(batches, sizeof(*ask->fresh));
    if (batches > 0 && ask->fresh == NULL)
        return kvt_error_set(err, KVT_NOMEM, "job");
    for (size_t i = 0; i < request->move_count; i++)
        if (cut(ask, &request->moves[i]) != KVT_OK)
            return kvt_error_set(err, KVT_NOMEM, "job");
    return KVT_OK;
}

static void
free_ask(struct advisor_job_ask *ask)
{
    if (ask == NULL)
        return;
    advisor_job_free_fresh(ask->fresh, ask->fresh_count);
    kvt_free(ask);
}

static void
unlink_ask(struct advisor_jobs *jobs, const struct advisor_job_ask *ask)
{
    struct advisor_job_ask **at = &jobs->shared.first;
    struct advisor_job_ask *before = NULL;

    while (*at != ask) {
        before = *at;
        at = &before->next;
    }
    *at = ask->next;
    if (jobs->shared.last == ask)
        jobs->shared.last = before;
}

/* Hand it over and wait; ends `ask`. */
static enum kvt_err
hand_over(struct advisor_jobs *jobs, struct advisor_job_ask *ask, struct advisor_job_row *job,
          struct kvt_error *err)
{
    const struct timespec deadline = kvt_cond_deadline(ADVISOR_JOB_WAIT_MS);
    enum kvt_err rc;
    bool in_time = true;

    (void)pthread_mutex_lock(&jobs->shared.lock);
    ask->queued = true;
    if (jobs->shared.last != NULL)
        jobs->shared.last->next = ask;
    else
        jobs->shared.first = ask;
    jobs->shared.last = ask;
    while (!ask->answered && in_time)
        in_time = kvt_cond_wait(&jobs->shared.answered, &jobs->shared.lock, &deadline);
    if (ask->answered) {
        rc = ask->rc;
        *job = ask->row;
        if (rc != KVT_OK && err != NULL)
            *err = ask->err;
    } else if (ask->queued) {
        unlink_ask(jobs, ask);
        rc = kvt_error_set(err, KVT_UNAVAILABLE,
                           "the advisor takes nothing now (it reads its index, or its disk is "
                           "full): nothing was done; see /readyz?verbose");
    } else {
        ask->abandoned = true;
        ask = NULL;
        rc = kvt_error_set(err, KVT_TIMEOUT,
                           "the advisor has it and cannot write it down now: it may be done yet; "
                           "see kvtier migrate status");
    }
    (void)pthread_mutex_unlock(&jobs->shared.lock);
    free_ask(ask);
    if (rc != KVT_OK)
        memset(job, 0, sizeof(*job));
    return rc;
}

static enum kvt_err
new_ask(struct advisor_job_ask **out, enum advisor_job_asked what, struct kvt_error *err)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return kvt_error_set(err, KVT_NOMEM, "job");
    (*out)->what = what;
    return KVT_OK;
}

/* False: it is longer than there is room for. */
static bool
copy_text(char *to, size_t size, const char *text)
{
    return snprintf(to, size, "%s", text == NULL ? "" : text) < (int)size;
}

/* What is asked for, checked and cut into batches. */
static enum kvt_err
make_ask(struct advisor_job_ask **out, const struct advisor_jobs *jobs,
         const struct advisor_job_request *request, struct kvt_error *err)
{
    struct advisor_job_ask *ask;
    enum kvt_err rc;

    *out = NULL;
    if (!jobs->options.planner->options.can_enforce)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "jobs need orders.key_file to sign orders with");
    rc = new_ask(&ask, ADVISOR_ASKED_SUBMIT, err);
    if (rc != KVT_OK)
        return rc;
    ask->part = request->part;
    ask->more = request->more;
    ask->row.policy_version = request->policy_version;
    ask->row.suspend_ppm =
        request->suspend_ppm == 0 ? ADVISOR_JOB_SUSPEND_PPM : request->suspend_ppm;
    if (!copy_text(ask->row.kind, sizeof(ask->row.kind), request->kind) ||
        !copy_text(ask->row.title, sizeof(ask->row.title), request->title) ||
        !copy_text(ask->row.key, sizeof(ask->row.key), request->key))
        rc = kvt_error_set(err, KVT_INVALID, "kind, title and key: at most %d, %d and %d bytes",
                           ADVISOR_JOB_KIND_MAX - 1, ADVISOR_JOB_TITLE_MAX - 1,
                           ADVISOR_JOB_KEY_MAX - 1);
    else if (ask->row.key[0] == '\0' && (request->more || request->part != 0))
        rc = kvt_error_set(err, KVT_INVALID, "a job in parts needs a key");
    else
        rc = fill(ask, request, err);
    if (rc == KVT_OK)
        *out = ask;
    else
        free_ask(ask);
    return rc;
}

enum kvt_err
advisor_jobs_check(const struct advisor_jobs *jobs, const struct advisor_job_request *request,
                   struct kvt_error *err)
{
    struct advisor_job_ask *ask;
    const enum kvt_err rc = make_ask(&ask, jobs, request, err);

    free_ask(ask);
    return rc;
}

enum kvt_err
advisor_jobs_submit(struct advisor_jobs *jobs, const struct advisor_job_request *request,
                    struct advisor_job_row *job, struct kvt_error *err)
{
    struct advisor_job_ask *ask;
    const enum kvt_err rc = make_ask(&ask, jobs, request, err);

    memset(job, 0, sizeof(*job));
    return rc == KVT_OK ? hand_over(jobs, ask, job, err) : rc;
}

enum kvt_err
advisor_jobs_command(struct advisor_jobs *jobs, uint64_t id, enum advisor_job_command command,
                     struct advisor_job_row *job, struct kvt_error *err)
{
    struct advisor_job_ask *ask;
    const enum kvt_err rc = new_ask(&ask, ADVISOR_ASKED_COMMAND, err);

    memset(job, 0, sizeof(*job));
    if (rc != KVT_OK)
        return rc;
    ask->row.id = id;
    ask->command = command;
    return hand_over(jobs, ask, job, err);
}

enum kvt_err
advisor_jobs_stop_all(struct advisor_jobs *jobs, bool paused, struct kvt_error *err)
{
    struct advisor_job_row none;
    struct advisor_job_ask *ask;
    const enum kvt_err rc = new_ask(&ask, ADVISOR_ASKED_STOP, err);

    if (rc != KVT_OK)
        return rc;
    ask->paused = paused;
    return hand_over(jobs, ask, &none, err);
}

/* ---- taking: the writer's thread ---- */

static struct advisor_job *
find_key(const struct advisor_jobs *jobs, const char *key)
{
    for (size_t i = 0; i < jobs->count && key[0] != '\0'; i++)
        if (strcmp(jobs->list[i]->row.key, key) == 0)
            return jobs->list[i];
    return NULL;
}

static enum kvt_err
check_room(struct advisor_jobs *jobs, const struct advisor_job_ask *ask, struct kvt_error *err)
{
    uint64_t wanted = 0;
    uint64_t used;
    uint64_t max;

    for (size_t i = 0; i < ask->fresh_count; i++) /* in whole pages, and once more for the tree */
        wanted += 2 * (sizeof(struct advisor_job_batch) + 4096 +
                       ask->fresh[i].batch.items * sizeof(struct kvt_order_item));
    advisor_store_size(jobs->options.store, &used, &max);
    if (used + wanted + max / STORE_SPARE <= max)
        return KVT_OK;
    return kvt_error_set(err, KVT_FULL,
                         "its moves take %" PRIu64 " MiB of the index's file, and an eighth of it "
                         "is to stay free: ask for less at once, or raise db.max",
                         (wanted >> 20) + 1);
}

/* The oldest that ended makes room. */
static enum kvt_err
make_room(struct advisor_jobs *jobs, struct kvt_error *err)
{
    size_t open = 0;
    size_t oldest = SIZE_MAX;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct advisor_job *job = jobs->list[i];

        open += advisor_job_has_ended(job->row.state) ? 0 : 1;
        if (oldest == SIZE_MAX && advisor_job_has_ended(job->row.state) && !job->dirty)
            oldest = i;
    }
    if (open >= ADVISOR_JOBS_OPEN_MAX)
        return kvt_error_set(err, KVT_FULL,
                             "%d jobs did not end yet: wait for one, or kvtier migrate cancel one",
                             ADVISOR_JOBS_OPEN_MAX);
    if (jobs->count < ADVISOR_JOBS_KEPT)
        return KVT_OK;
    if (oldest == SIZE_MAX)
        return kvt_error_set(err, KVT_FULL, "too many jobs at once: try again");
    jobs->gone[jobs->gone_count++] = jobs->list[oldest];
    jobs->count--;
    memmove(&jobs->list[oldest], &jobs->list[oldest + 1],
            (jobs->count - oldest) * sizeof(struct advisor_job *));
    return KVT_OK;
}

static struct advisor_job *
new_job(struct advisor_jobs *jobs, const struct advisor_job_ask *ask, uint64_t now_ms)
{
    struct advisor_job *job = kvt_calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->row = ask->row;
    job->row.id = jobs->next_id++;
    job->row.created_ms = now_ms;
    job->row.blocks = 0;
    job->row.bytes = 0;
    job->row.batches = 0;
    job->row.state = ADVISOR_JOB_FILLING;
    jobs->next_dirty = true;
    return job;
}

/* Takes over the ask's batches. */
static enum kvt_err
append(struct advisor_job *job, struct advisor_job_ask *ask)
{
    const size_t count = job->fresh_count + ask->fresh_count;
    struct advisor_job_fresh *fresh =
        ask->fresh_count == 0 ? job->fresh : kvt_realloc(job->fresh, count, sizeof(*fresh));

    if (fresh == NULL && count > 0)
        return KVT_NOMEM;
    if (ask->fresh_count > 0)
        memcpy(fresh + job->fresh_count, ask->fresh, ask->fresh_count * sizeof(*fresh));
    job->fresh = fresh;
    job->fresh_count = count;
    job->row.batches += ask->row.batches;
    job->row.blocks += ask->row.blocks;
    job->row.bytes += ask->row.bytes;
    job->row.parts++;
    job->unwritten = true;
    kvt_free(ask->fresh);
    ask->fresh = NULL;
    ask->fresh_count = 0;
    return KVT_OK;
}

static enum kvt_err
check_part(const struct advisor_job *job, const struct advisor_job_ask *ask, struct kvt_error *err)
{
    const uint32_t parts = job == NULL ? 0 : job->row.parts;

    if (ask->part > parts)
        return kvt_error_set(err, KVT_RANGE, "part %u comes before part %u", ask->part, parts);
    if (job == NULL)
        return KVT_OK;
    if (job->row.batches + (uint64_t)ask->row.batches > ADVISOR_JOB_BATCHES_MAX ||
        job->row.blocks + ask->row.blocks > ADVISOR_JOB_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "a job is at most %d blocks in %d batches",
                             ADVISOR_JOB_BLOCKS_MAX, ADVISOR_JOB_BATCHES_MAX);
    return KVT_OK;
}

static enum kvt_err
take_submit(struct advisor_jobs *jobs, struct advisor_job_ask *ask, uint64_t now_ms)
{
    struct advisor_job *job = find_key(jobs, ask->row.key);
    const bool fresh = job == NULL;
    enum kvt_err rc;

    /* What came already, in whatever state the job is by now, is not done once more. */
    if (job != NULL && (job->row.state != ADVISOR_JOB_FILLING || ask->part < job->row.parts)) {
        ask->row = job->row;
        return KVT_OK;
    }
    rc = check_part(job, ask, &ask->err);
    if (rc == KVT_OK)
        rc = check_room(jobs, ask, &ask->err);
    if (rc == KVT_OK && job == NULL)
        rc = make_room(jobs, &ask->err);
    if (rc != KVT_OK)
        return rc;
    if (fresh)
        job = new_job(jobs, ask, now_ms);
    for (size_t i = 0; i < ask->fresh_count && job != NULL; i++)
        advisor_job_note_places(job, jobs->options.planner, &ask->fresh[i].batch);
    if (job == NULL || append(job, ask) != KVT_OK) {
        if (fresh)
            advisor_job_free(job);
        return kvt_error_set(&ask->err, KVT_NOMEM, "job");
    }
    if (fresh)
        jobs->list[jobs->count++] = job;
    job->dirty = true;
    job->progress_ms = now_ms;
    if (!ask->more) {
        job->row.state = job->row.batches == 0 ? ADVISOR_JOB_DONE : ADVISOR_JOB_QUEUED;
        job->row.finished_ms = job->row.batches == 0 ? now_ms : 0;
        kvt_log_info("advisor.jobs", "queued",
                     "job %" PRIu64 " (%s %s): %" PRIu64 " blocks in %u batches", job->row.id,
                     job->row.kind, job->row.title, job->row.blocks, job->row.batches);
    }
    ask->row = job->row;
    return KVT_OK;
}

static enum kvt_err
resume(struct advisor_job *job, struct kvt_error *err)
{
    struct advisor_job_row *row = &job->row;

    switch ((enum advisor_job_state)row->state) {
    case ADVISOR_JOB_QUEUED:
    case ADVISOR_JOB_RUNNING: return KVT_OK;
    case ADVISOR_JOB_FILLING:
        return kvt_error_set(err, KVT_PRECONDITION,
                             "job %" PRIu64 " is not whole: give the rest of it, or cancel it",
                             row->id);
    case ADVISOR_JOB_DONE:
    case ADVISOR_JOB_CANCELLED:
        return kvt_error_set(err, KVT_PRECONDITION, "job %" PRIu64 " is %s", row->id,
                             advisor_job_state_name(row->state));
    case ADVISOR_JOB_PAUSED: break;
    case ADVISOR_JOB_FAILED: /* what failed is tried again */
        row->round++;
        row->finished -= row->failed_batches;
        row->failed_batches = 0;
        row->finished_ms = 0;
        job->next = 0;
        break;
    }
    row->state = ADVISOR_JOB_QUEUED;
    row->since_done = 0;
    row->since_failed = 0;
    row->text[0] = '\0';
    job->dirty = true;
    return KVT_OK;
}

static enum kvt_err
take_command(struct advisor_jobs *jobs, struct advisor_job_ask *ask, uint64_t now_ms)
{
    struct advisor_job *job = advisor_jobs_find(jobs, ask->row.id);
    enum advisor_job_state to =
        ask->command == ADVISOR_JOB_PAUSE ? ADVISOR_JOB_PAUSED : ADVISOR_JOB_CANCELLED;
    enum kvt_err rc = KVT_OK;

    if (job == NULL)
        return kvt_error_set(&ask->err, KVT_NOTFOUND, "no job %" PRIu64, ask->row.id);
    if (ask->command == ADVISOR_JOB_RESUME) {
        rc = resume(job, &ask->err);
    } else if (job->row.state != to) {
        if (advisor_job_has_ended(job->row.state) ||
            (to == ADVISOR_JOB_PAUSED && job->row.state == ADVISOR_JOB_FILLING))
            return kvt_error_set(&ask->err, KVT_PRECONDITION, "job %" PRIu64 " is %s", job->row.id,
                                 advisor_job_state_name(job->row.state));
        job->row.state = to;
        job->row.finished_ms = to == ADVISOR_JOB_CANCELLED ? now_ms : 0;
        job->dirty = true;
        kvt_log_info("advisor.jobs", "told", "job %" PRIu64 " is %s", job->row.id,
                     advisor_job_state_name(job->row.state));
    }
    ask->row = job->row;
    return rc;
}

static enum kvt_err
take_one(struct advisor_jobs *jobs, struct advisor_job_ask *ask, uint64_t now_ms)
{
    switch (ask->what) {
    case ADVISOR_ASKED_SUBMIT: return take_submit(jobs, ask, now_ms);
    case ADVISOR_ASKED_COMMAND: return take_command(jobs, ask, now_ms);
    case ADVISOR_ASKED_STOP: break;
    }
    advisor_planner_set_paused(jobs->options.planner, ask->paused);
    return KVT_OK;
}

/* Answer `ask` and what hangs behind it. */
static void
answer(struct advisor_jobs *jobs, struct advisor_job_ask *ask)
{
    (void)pthread_mutex_lock(&jobs->shared.lock);
    while (ask != NULL) {
        struct advisor_job_ask *next = ask->next;

        ask->answered = true;
        if (ask->abandoned)
            free_ask(ask);
        ask = next;
    }
    (void)pthread_cond_broadcast(&jobs->shared.answered);
    (void)pthread_mutex_unlock(&jobs->shared.lock);
}

void
advisor_jobs_take(struct advisor_jobs *jobs, uint64_t now_ms)
{
    struct advisor_job_ask *refused = NULL;
    struct advisor_job_ask *ask;

    (void)pthread_mutex_lock(&jobs->shared.lock);
    ask = jobs->shared.first;
    jobs->shared.first = NULL;
    jobs->shared.last = NULL;
    for (struct advisor_job_ask *at = ask; at != NULL; at = at->next)
        at->queued = false;
    (void)pthread_mutex_unlock(&jobs->shared.lock);
    while (ask != NULL) {
        struct advisor_job_ask *next = ask->next;
        struct advisor_job_ask **to;

        ask->rc = take_one(jobs, ask, now_ms);
        to = ask->rc == KVT_OK ? &jobs->taken : &refused;
        ask->next = *to;
        *to = ask;
        ask = next;
    }
    if (refused != NULL)
        answer(jobs, refused);
}

void
advisor_jobs_age(struct advisor_jobs *jobs, uint64_t now_ms)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct advisor_job_row *row = &jobs->list[i]->row;

        if (row->state != ADVISOR_JOB_FILLING || now_ms < row->created_ms + ADVISOR_JOB_FILLING_MS)
            continue;
        row->state = ADVISOR_JOB_CANCELLED;
        row->finished_ms = now_ms;
        (void)snprintf(row->text, sizeof(row->text), "the rest of it never came");
        jobs->list[i]->dirty = true;
    }
}

void
advisor_jobs_synced(struct advisor_jobs *jobs)
{
    struct advisor_job_ask *taken = jobs->taken;

    if (taken == NULL || advisor_jobs_dirty(jobs) ||
        advisor_planner_paused_dirty(jobs->options.planner))
        return;
    jobs->taken = NULL;
    answer(jobs, taken);
}
