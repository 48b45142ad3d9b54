/* Batches under way: jobs of the worker, and what they hold until they have ended. */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/leader/leader_internal.h"

/* How many of a kind at once: what is waited for finds one whatever goes down. */
static const unsigned most[] = {
    [ENGINE_LEADER_JOB_BRING] = 16,
    [ENGINE_LEADER_JOB_ASK] = 6,
    [ENGINE_LEADER_JOB_DOWN] = 3,
    [ENGINE_LEADER_JOB_SHOW] = 3,
};

_Static_assert(ENGINE_LEADER_JOBS == 16 + 6 + 3 + 3, "a free one of each kind");

static void run_ended(struct engine_leader *leader, struct engine_message *message);
static void start_again(struct engine_leader *leader, struct engine_timer *timer);

static struct engine_leader_job *
of_message(struct engine_message *message)
{
    return (struct engine_leader_job *)((char *)message -
                                        offsetof(struct engine_leader_job, message));
}

enum kvt_err
engine_leader_jobs_open(struct engine_leader *leader)
{
    leader->again.run = start_again;
    leader->tasks = kvt_calloc(ENGINE_LEADER_JOBS, sizeof(*leader->tasks));
    if (leader->tasks == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < ENGINE_LEADER_JOBS; i++) {
        struct engine_leader_job *task = &leader->tasks[i];

        task->leader = leader;
        task->message.run = run_ended;
        task->items = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*task->items));
        task->targets = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*task->targets));
        task->sources = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*task->sources));
        if (task->items == NULL || task->targets == NULL || task->sources == NULL)
            return KVT_NOMEM;
        task->next = leader->idle;
        leader->idle = task;
    }
    return KVT_OK;
}

void
engine_leader_jobs_close(struct engine_leader *leader)
{
    for (size_t i = 0; leader->tasks != NULL && i < ENGINE_LEADER_JOBS; i++) {
        kvt_free(leader->tasks[i].items);
        kvt_free(leader->tasks[i].targets);
        kvt_free(leader->tasks[i].sources);
    }
    kvt_free(leader->tasks);
}

static bool
is_closing(struct engine_leader *leader)
{
    bool closing;

    (void)pthread_mutex_lock(&leader->shared.lock);
    closing = leader->shared.stop;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return closing;
}

struct engine_leader_job *
engine_leader_job_take(struct engine_leader *leader, enum engine_leader_job_kind kind)
{
    struct engine_leader_job *task = leader->idle;

    if (leader->under_way[kind] >= most[kind] || is_closing(leader))
        return NULL;
    assert(task != NULL);
    leader->idle = task->next;
    leader->under_way[kind]++;
    task->next = leader->busy;
    leader->busy = task;
    task->kind = kind;
    task->match = NULL;
    task->again = false;
    task->lowers = false;
    task->error = (struct kvt_error){0};
    task->job = (struct engine_job){.items = task->items};
    return task;
}

void
engine_leader_job_give(struct engine_leader_job *task)
{
    struct engine_leader *leader = task->leader;
    struct engine_leader_job **link = &leader->busy;

    while (*link != task)
        link = &(*link)->next;
    *link = task->next;
    task->next = leader->idle;
    leader->idle = task;
    leader->under_way[task->kind]--;
}

/* On any thread: the leader's sees to it. */
static void
done(void *arg, const struct engine_outcome *outcome)
{
    struct engine_leader_job *task = arg;

    task->error = outcome->error;
    engine_leader_post(task->leader, &task->message);
}

static void
refuse(struct engine_leader_job *task, enum kvt_err why)
{
    for (size_t i = 0; i < task->job.count; i++)
        task->items[i].status = why;
    (void)kvt_error_set(&task->error, why, "%s: was not begun: %s",
                        engine_verb_name(task->job.verb), kvt_err_text(why));
    engine_leader_post(task->leader, &task->message);
}

/* In a moment.  Who asks for that asks often: the time that was set first stays, or it would never
 * come. */
void
engine_leader_jobs_again(struct engine_leader *leader)
{
    if (leader->again.link == NULL)
        engine_leader_at(leader, &leader->again, kvt_clock_mono_ms() + ENGINE_RETRY_MS);
}

static void
start(struct engine_leader_job *task)
{
    struct engine_leader *leader = task->leader;
    const enum kvt_err rc = engine_worker_start(leader->options.worker, &task->job);

    task->again = rc == KVT_AGAIN;
    if (task->again)
        engine_leader_jobs_again(leader);
    else if (rc != KVT_OK)
        refuse(task, rc);
}

/* What was refused for now, and what waits for room. */
static void
start_again(struct engine_leader *leader, struct engine_timer *timer)
{
    const bool closing = is_closing(leader);

    (void)timer;
    for (struct engine_leader_job *task = leader->busy; task != NULL; task = task->next) {
        if (!task->again)
            continue;
        task->again = false;
        if (closing || (task->kind == ENGINE_LEADER_JOB_BRING && task->match == NULL))
            refuse(task, KVT_CANCELLED);
        else
            start(task);
    }
    engine_stage_all(leader);
}

void
engine_leader_job_start(struct engine_leader_job *task, enum kvt_priority priority,
                        uint64_t wait_ms, engine_leader_job_fn *ended)
{
    task->ended = ended;
    task->job.priority = priority;
    task->job.wait_ms =
        wait_ms < task->leader->options.job_ms ? wait_ms : task->leader->options.job_ms;
    task->job.done = done;
    task->job.arg = task;
    for (size_t i = 0; i < task->job.count; i++)
        task->items[i].status = KVT_CANCELLED; /* what nobody says anything of was not done */
    start(task);
}

static void
run_ended(struct engine_leader *leader, struct engine_message *message)
{
    struct engine_leader_job *task = of_message(message);

    task->ended(task);
    engine_leader_job_give(task);
    engine_stage_all(leader);
    engine_demotion_step(leader);
}
