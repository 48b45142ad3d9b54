/* What has just come to G2: shown to peers, stored, and a reason to send others down. */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/leader/leader_internal.h"

/* Under the lock of a ring of ENGINE_ARRIVALS: false where it is full. */
static bool
push_locked(struct kvt_handle *ring, size_t first, size_t *count, struct kvt_handle handle)
{
    if (*count == ENGINE_ARRIVALS)
        return false;
    ring[(first + (*count)++) % ENGINE_ARRIVALS] = handle;
    return true;
}

void
engine_leader_tell(struct engine_leader *leader, const struct kvt_handle *handles, size_t count,
                   bool store)
{
    const bool show = leader->endpoint != NULL;
    const bool keeps = leader->options.store;
    size_t shown = 0;

    if (!show && !keeps)
        return;
    (void)pthread_mutex_lock(&leader->shared.lock);
    for (size_t i = 0; i < count; i++) {
        if (handles[i].generation == 0)
            continue;
        shown += show && push_locked(leader->shared.arrivals, leader->shared.arrival_first,
                                     &leader->shared.arrival_count, handles[i]);
        if (store && keeps && /* what has no place there is found by the next sweep */
            push_locked(leader->shared.stores, leader->shared.store_first,
                        &leader->shared.store_count, handles[i]))
            (void)pthread_cond_signal(&leader->shared.store);
    }
    if (keeps)
        engine_store_thread_owe_locked(leader);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (shown > 0)
        engine_leader_post(leader, &leader->arrived);
}

void
engine_leader_arrived(struct engine_leader *leader, const struct kvt_handle *handles, size_t count)
{
    engine_leader_tell(leader, handles, count, true);
    if (leader->options.g3 != NULL)
        engine_leader_post(leader, &leader->cascade.kick);
}

/* ---- showing ---- */

static void show_more(struct engine_leader *leader, struct engine_message *message);

enum kvt_err
engine_arrival_open(struct engine_leader *leader)
{
    leader->arrived.run = show_more;
    leader->showing =
        kvt_calloc(kvbm_pool_stats(leader->options.g2).blocks, sizeof(*leader->showing));
    return leader->showing == NULL ? KVT_NOMEM : KVT_OK;
}

enum engine_shown
engine_arrival_shown(const struct engine_leader *leader, struct kvt_handle handle)
{
    const struct engine_showing *showing = &leader->showing[handle.block];

    if (showing->generation != handle.generation ||
        (showing->shown == ENGINE_SHOWN_FAILED && kvt_clock_mono_ms() >= showing->again_ms))
        return ENGINE_SHOWN_NOT;
    return showing->shown;
}

static void
note(struct engine_leader *leader, struct kvt_handle handle, enum engine_shown shown)
{
    leader->showing[handle.block] = (struct engine_showing){
        handle.generation, shown,
        shown == ENGINE_SHOWN_FAILED ? kvt_clock_mono_ms() + ENGINE_SHOW_MS : 0};
}

/* A block that could not be shown is not seen: a peer that wants it is told of none, and the next
 * one, a second later, has it tried again. */
static void
was_shown(struct engine_leader_job *task)
{
    struct engine_leader *leader = task->leader;

    for (size_t i = 0; i < task->job.count; i++)
        note(leader, task->sources[i],
             task->items[i].status == KVT_OK ? ENGINE_SHOWN_WELL : ENGINE_SHOWN_FAILED);
    kvbm_pool_drop_all(leader->options.g2, task->sources, task->job.count);
    engine_leader_post(leader, &leader->arrived);
    engine_responder_shown(leader);
}

/* Up to `capacity` of those that wait; what has gone since is left out. */
static size_t
take_arrivals(struct engine_leader *leader, struct kvt_handle *handles, size_t capacity,
              size_t *taken)
{
    size_t count;
    size_t held = 0;

    (void)pthread_mutex_lock(&leader->shared.lock);
    count = leader->shared.arrival_count < capacity ? leader->shared.arrival_count : capacity;
    for (size_t i = 0; i < count; i++)
        handles[i] = leader->shared.arrivals[(leader->shared.arrival_first + i) % ENGINE_ARRIVALS];
    leader->shared.arrival_first = (leader->shared.arrival_first + count) % ENGINE_ARRIVALS;
    leader->shared.arrival_count -= count;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    *taken = count;
    for (size_t i = 0; i < count; i++) {
        if (engine_arrival_shown(leader, handles[i]) != ENGINE_SHOWN_NOT ||
            kvbm_pool_upgrade(leader->options.g2, handles[i]) != KVT_OK)
            continue;
        note(leader, handles[i], ENGINE_SHOWN_SOON);
        handles[held++] = handles[i];
    }
    return held;
}

static void
show_more(struct engine_leader *leader, struct engine_message *message)
{
    struct engine_leader_job *task = engine_leader_job_take(leader, ENGINE_LEADER_JOB_SHOW);
    size_t count;
    size_t taken;

    if (task == NULL) /* one ends, and comes here again; or nobody will look any more */
        return;
    count = take_arrivals(leader, task->sources, ENGINE_ITEMS_MAX, &taken);
    if (count == 0) { /* all of these were shown, or have gone */
        engine_leader_job_give(task);
        if (taken > 0)
            engine_leader_post(leader, message);
        return;
    }
    task->job.verb = ENGINE_SHOW;
    task->job.count = count;
    for (size_t i = 0; i < count; i++)
        task->items[i] = (struct engine_item){
            .label = kvbm_pool_label(leader->options.g2, task->sources[i]),
            .source = task->sources[i].block,
        };
    engine_leader_job_start(task, KVT_PRIORITY_HIGH, UINT64_MAX, was_shown);
}
