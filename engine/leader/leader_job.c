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
    leader->hauls = kvt_calloc(ENGINE_LEADER_JOBS, sizeof(*leader->hauls));
    if (leader->hauls == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < ENGINE_LEADER_JOBS; i++) {
        struct engine_leader_job *haul = &leader->hauls[i];

        haul->leader = leader;
        haul->message.run = run_ended;
        haul->items = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*haul->items));
        haul->targets = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*haul->targets));
        haul->sources = kvt_calloc(ENGINE_ITEMS_MAX, sizeof(*haul->sources));
        if (haul->items == NULL || haul->targets == NULL || haul->sources == NULL)
            return KVT_NOMEM;
        haul->next = leader->idle;
        leader->idle = haul;
    }
    return KVT_OK;
}

void
engine_leader_jobs_close(struct engine_leader *leader)
{
    for (size_t i = 0; leader->hauls != NULL && i < ENGINE_LEADER_JOBS; i++) {
        kvt_free(leader->hauls[i].items);
        kvt_free(leader->hauls[i].targets);
        kvt_free(leader->hauls[i].sources);
    }
    kvt_free(leader->hauls);
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
    struct engine_leader_job *haul = leader->idle;

    if (leader->under_way[kind] >= most[kind] || is_closing(leader))
        return NULL;
    assert(haul != NULL);
    leader->idle = haul->next;
    leader->under_way[kind]++;
    haul->next = leader->busy;
    leader->busy = haul;
    haul->kind = kind;
    haul->match = NULL;
    haul->again = false;
    haul->lowers = false;
    haul->error = (struct kvt_error){0};
    haul->job = (struct engine_job){.items = haul->items};
    return haul;
}

void
engine_leader_job_give(struct engine_leader_job *haul)
{
    struct engine_leader *leader = haul->leader;
    struct engine_leader_job **link = &leader->busy;

    while (*link != haul)
        link = &(*link)->next;
    *link = haul->next;
    haul->next = leader->idle;
    leader->idle = haul;
    leader->under_way[haul->kind]--;
}

/* On any thread: the leader's sees to it. */
static void
done(void *arg, const struct engine_outcome *outcome)
{
    struct engine_leader_job *haul = arg;

    haul->error = outcome->error;
    engine_leader_post(haul->leader, &haul->message);
}

static void
refuse(struct engine_leader_job *haul, enum kvt_err why)
{
    for (size_t i = 0; i < haul->job.count; i++)
        haul->items[i].status = why;
    (void)kvt_error_set(&haul->error, why, "%s: was not begun: %s",
                        engine_verb_name(haul->job.verb), kvt_err_text(why));
    engine_leader_post(haul->leader, &haul->message);
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
start(struct engine_leader_job *haul)
{
    struct engine_leader *leader = haul->leader;
    const enum kvt_err rc = engine_worker_start(leader->options.worker, &haul->job);

    haul->again = rc == KVT_AGAIN;
    if (haul->again)
        engine_leader_jobs_again(leader);
    else if (rc != KVT_OK)
        refuse(haul, rc);
}

/* What was refused for now, and what waits for room. */
static void
start_again(struct engine_leader *leader, struct engine_timer *timer)
{
    const bool closing = is_closing(leader);

    (void)timer;
    for (struct engine_leader_job *haul = leader->busy; haul != NULL; haul = haul->next) {
        if (!haul->again)
            continue;
        haul->again = false;
        if (closing || (haul->kind == ENGINE_LEADER_JOB_BRING && haul->match == NULL))
            refuse(haul, KVT_CANCELLED);
        else
            start(haul);
    }
    engine_stage_all(leader);
}

void
engine_leader_job_start(struct engine_leader_job *haul, enum kvt_priority priority,
                        uint64_t wait_ms, engine_leader_job_fn *ended)
{
    haul->ended = ended;
    haul->job.priority = priority;
    haul->job.wait_ms =
        wait_ms < haul->leader->options.job_ms ? wait_ms : haul->leader->options.job_ms;
    haul->job.done = done;
    haul->job.arg = haul;
    for (size_t i = 0; i < haul->job.count; i++)
        haul->items[i].status = KVT_CANCELLED; /* what nobody says anything of was not done */
    start(haul);
}

static void
run_ended(struct engine_leader *leader, struct engine_message *message)
{
    struct engine_leader_job *haul = of_message(message);

    haul->ended(haul);
    engine_leader_job_give(haul);
    engine_stage_all(leader);
    engine_demotion_step(leader);
}
