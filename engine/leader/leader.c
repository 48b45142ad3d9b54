/* The thread that decides: what it is told, when it wakes, and the books it keeps. */
#include "engine/leader/leader.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/deadline.h"
#include "base/thread/cond.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/leader/leader_internal.h"

enum {
    HIGH_PPM = 900000,
    LOW_PPM = 850000,
    HOLD_MS = 30000,
    JOB_MS = 30000,
    STORE_AGAIN_MS = 1000,
    REGISTER_TRIES = 64, /* of a name that is just coming or going: callbacks run, nothing waits */
};

/* ---- messages ---- */

void
engine_leader_post_locked(struct engine_leader *leader, struct engine_message *message)
{
    if (message->queued)
        return;
    message->queued = true;
    message->next = NULL;
    *leader->shared.last = message;
    leader->shared.last = &message->next;
    (void)pthread_cond_signal(&leader->shared.wake);
}

void
engine_leader_post(struct engine_leader *leader, struct engine_message *message)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    engine_leader_post_locked(leader, message);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

static struct engine_message *
pop_locked(struct engine_leader *leader)
{
    struct engine_message *message = leader->shared.first;

    leader->shared.first = message->next;
    if (leader->shared.first == NULL)
        leader->shared.last = &leader->shared.first;
    message->queued = false;
    return message;
}

/* ---- timers ---- */

void
engine_leader_not_at(struct engine_timer *timer)
{
    if (timer->link == NULL)
        return;
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    timer->link = NULL;
}

void
engine_leader_at(struct engine_leader *leader, struct engine_timer *timer, uint64_t at_ms)
{
    engine_leader_not_at(timer);
    timer->at_ms = at_ms;
    timer->next = leader->timers;
    timer->link = &leader->timers;
    if (timer->next != NULL)
        timer->next->link = &timer->next;
    leader->timers = timer;
}

/* The first that is due, or NULL; until when there is none. */
static struct engine_timer *
due(struct engine_leader *leader, uint64_t now_ms, uint64_t *next_ms)
{
    *next_ms = UINT64_MAX;
    for (struct engine_timer *timer = leader->timers; timer != NULL; timer = timer->next) {
        if (timer->at_ms <= now_ms)
            return timer;
        if (timer->at_ms < *next_ms)
            *next_ms = timer->at_ms;
    }
    return NULL;
}

/* ---- the thread ---- */

/* The next message; NULL: `next_ms` has come, or (`over`) it is to end. */
static struct engine_message *
wait_message(struct engine_leader *leader, uint64_t now_ms, uint64_t next_ms, bool *over)
{
    struct engine_message *message = NULL;

    (void)pthread_mutex_lock(&leader->shared.lock);
    if (leader->shared.first == NULL && !(leader->shared.stop && leader->busy == NULL)) {
        const struct timespec deadline =
            kvt_cond_deadline(next_ms == UINT64_MAX ? UINT32_MAX : next_ms - now_ms);

        (void)kvt_cond_wait(&leader->shared.wake, &leader->shared.lock, &deadline);
    }
    if (leader->shared.first != NULL)
        message = pop_locked(leader);
    *over = message == NULL && leader->shared.stop && leader->busy == NULL;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return message;
}

static void *
run(void *arg)
{
    struct engine_leader *leader = arg;
    bool over = false;

    while (!over) {
        const uint64_t now_ms = kvt_clock_mono_ms();
        uint64_t next_ms;
        struct engine_timer *timer = due(leader, now_ms, &next_ms);
        struct engine_message *message;

        if (timer != NULL) {
            engine_leader_not_at(timer);
            timer->run(leader, timer);
            continue;
        }
        message = wait_message(leader, now_ms, next_ms, &over);
        if (message != NULL)
            message->run(leader, message);
    }
    return NULL;
}

bool
engine_leader_is_thread(const struct engine_leader *leader)
{
    return leader->thread_runs && pthread_equal(pthread_self(), leader->thread) != 0;
}

/* ---- open and close ---- */

static enum kvt_err
check_options(const struct engine_leader_options *options, struct kvt_error *err)
{
    if (options->worker == NULL || options->g2 == NULL || options->instance == 0)
        return kvt_error_set(err, KVT_INVALID, "a leader needs an instance, a worker and a G2");
    if (kvbm_pool_stats(options->g2).blocks > options->worker->blocks[KVT_TIER_G2] ||
        (options->g3 != NULL &&
         kvbm_pool_stats(options->g3).blocks > options->worker->blocks[KVT_TIER_G3]))
        return kvt_error_set(err, KVT_INVALID, "a pool has more blocks than the worker's tier");
    if (options->stage_chunk > ENGINE_ITEMS_MAX || options->g2_high_ppm > 1000000 ||
        options->g2_low_ppm > options->g2_high_ppm)
        return kvt_error_set(err, KVT_INVALID,
                             "a chunk is at most %d blocks, watermarks are low <= high <= 1000000",
                             ENGINE_ITEMS_MAX);
    return KVT_OK;
}

static void
fill_defaults(struct engine_leader_options *options)
{
    options->store = options->store && options->worker->objects;
    if (options->stage_chunk == 0)
        options->stage_chunk = ENGINE_STAGE_CHUNK;
    if (options->min_remote_blocks == 0)
        options->min_remote_blocks = 1;
    if (options->hold_ms == 0)
        options->hold_ms = HOLD_MS;
    if (options->job_ms == 0)
        options->job_ms = JOB_MS;
    if (options->store_again_ms == 0)
        options->store_again_ms = STORE_AGAIN_MS;
    if (options->g2_high_ppm == 0) {
        options->g2_high_ppm = HIGH_PPM;
        options->g2_low_ppm = LOW_PPM;
    }
}

static bool
make_locks(struct engine_leader *leader)
{
    pthread_cond_t *conds[] = {&leader->shared.wake, &leader->shared.store, &leader->shared.moved};
    size_t made = 0;

    if (pthread_mutex_init(&leader->shared.lock, NULL) != 0)
        return false;
    while (made < 3 && kvt_cond_init(conds[made]))
        made++;
    if (made == 3)
        return true;
    while (made > 0)
        (void)pthread_cond_destroy(conds[--made]);
    (void)pthread_mutex_destroy(&leader->shared.lock);
    return false;
}

static void
destroy(struct engine_leader *leader)
{
    engine_sessions_free(leader);
    engine_leader_jobs_close(leader);
    kvt_free(leader->showing);
    kvt_free(leader->shared.arrivals);
    kvt_free(leader->shared.stores);
    kvt_free(leader->endpoint);
    (void)pthread_cond_destroy(&leader->shared.moved);
    (void)pthread_cond_destroy(&leader->shared.store);
    (void)pthread_cond_destroy(&leader->shared.wake);
    (void)pthread_mutex_destroy(&leader->shared.lock);
    kvt_free(leader);
}

static enum kvt_err
make_parts(struct engine_leader *leader, const struct engine_leader_options *options)
{
    leader->shared.arrivals = kvt_calloc(ENGINE_ARRIVALS, sizeof(*leader->shared.arrivals));
    leader->shared.stores = kvt_calloc(ENGINE_ARRIVALS, sizeof(*leader->shared.stores));
    if (options->endpoint != NULL)
        leader->endpoint = kvt_strdup(options->endpoint);
    if (leader->shared.arrivals == NULL || leader->shared.stores == NULL ||
        (options->endpoint != NULL && leader->endpoint == NULL))
        return KVT_NOMEM;
    leader->options.endpoint = leader->endpoint;
    return engine_arrival_open(leader) == KVT_OK ? engine_leader_jobs_open(leader) : KVT_NOMEM;
}

static enum kvt_err
start_threads(struct engine_leader *leader)
{
    leader->thread_runs = true; /* what it is asked for, it is asked for on the thread itself */
    if (pthread_create(&leader->thread, NULL, run, leader) != 0) {
        leader->thread_runs = false;
        return KVT_NOMEM;
    }
    return engine_store_thread_open(leader);
}

enum kvt_err
engine_leader_open(struct engine_leader **out, const struct engine_leader_options *options,
                   struct kvt_error *err)
{
    struct engine_leader *leader;
    enum kvt_err rc;

    *out = NULL;
    rc = check_options(options, err);
    if (rc != KVT_OK)
        return rc;
    leader = kvt_calloc(1, sizeof(*leader));
    if (leader == NULL || !make_locks(leader)) {
        kvt_free(leader);
        return kvt_error_set(err, KVT_NOMEM, "leader");
    }
    leader->options = *options;
    fill_defaults(&leader->options);
    leader->shared.last = &leader->shared.first;
    leader->shared.sweep_ms = UINT64_MAX;
    leader->origins[ENGINE_PLACE_G2] = &engine_origin_g2;
    leader->origins[ENGINE_PLACE_G3] = &engine_origin_g3;
    if (options->worker->objects)
        leader->origins[ENGINE_PLACE_OBJECTS] = &engine_origin_objects;
    engine_demotion_open(leader);
    rc = make_parts(leader, options);
    if (rc == KVT_OK)
        rc = start_threads(leader);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "leader");
    else
        rc = engine_sessions_open(leader, err);
    if (rc != KVT_OK) {
        engine_leader_close(leader);
        return rc;
    }
    *out = leader;
    return KVT_OK;
}

void
engine_leader_close(struct engine_leader *leader)
{
    if (leader == NULL)
        return;
    engine_store_thread_close(leader);
    engine_sessions_close(leader);
    if (leader->thread_runs) {
        (void)pthread_mutex_lock(&leader->shared.lock);
        leader->shared.stop = true;
        (void)pthread_cond_signal(&leader->shared.wake);
        (void)pthread_mutex_unlock(&leader->shared.lock);
        (void)pthread_join(leader->thread, NULL);
    }
    assert(leader->shared.stats.matches == 0);
    assert(atomic_load(&leader->pins) == 0);
    destroy(leader);
}

/* ---- books ---- */

void
engine_leader_count(struct engine_leader *leader, uint64_t *counter, uint64_t by)
{
    if (by == 0)
        return;
    (void)pthread_mutex_lock(&leader->shared.lock);
    *counter += by;
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

void
engine_leader_stats(struct engine_leader *leader, struct engine_leader_stats *stats)
{
    struct kvbm_pool_stats g2;
    struct kvbm_pool_stats g3 = {0};

    (void)pthread_mutex_lock(&leader->shared.lock);
    *stats = leader->shared.stats;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    stats->pins = atomic_load(&leader->pins);
    g2 = kvbm_pool_stats(leader->options.g2);
    if (leader->options.g3 != NULL)
        g3 = kvbm_pool_stats(leader->options.g3);
    stats->dropped = g2.evictions_unsaved;
    if (!leader->options.store)
        return;
    stats->unstored = g2.unstored + g3.unstored;
    stats->lost = g3.evictions_unsaved;
}

enum kvt_err
engine_leader_register(struct kvbm_pool *pool, struct kvt_handle *handle,
                       const struct kvbm_label *label)
{
    enum kvt_err rc = kvbm_block_complete(pool, *handle, label, NULL);

    if (rc != KVT_OK)
        return rc;
    rc = kvbm_pool_register(pool, handle, NULL);
    for (unsigned tries = 0; rc == KVT_BUSY && tries < REGISTER_TRIES; tries++) {
        (void)sched_yield();
        rc = kvbm_pool_register(pool, handle, NULL);
    }
    return rc == KVT_EXISTS ? KVT_OK : rc;
}

size_t
engine_leader_has(struct engine_leader *leader, const struct kvbm_label *labels, size_t count)
{
    const struct engine_leader_options *options = &leader->options;
    size_t at = 0;

    while (at < count && (kvbm_pool_has(options->g2, labels[at].id.hash) ||
                          (options->g3 != NULL && kvbm_pool_has(options->g3, labels[at].id.hash))))
        at++;
    return at;
}

enum kvt_err
engine_leader_allocate(struct engine_leader *leader, size_t count, struct kvt_handle *handles,
                       uint64_t wait_ms)
{
    struct kvbm_pool *pool = leader->options.g2;
    const uint64_t until_ms = kvt_deadline_in(wait_ms);
    uint64_t since_ms = 0;

    if (count > kvbm_pool_stats(pool).blocks)
        return KVT_RANGE;
    for (;;) {
        const enum kvt_err rc = engine_demotion_room(leader, (uint32_t)count, handles, &since_ms);
        struct timespec deadline;

        if (rc == KVT_OK)
            return rc;
        if (kvt_deadline_left(until_ms) == 0)
            return kvbm_pool_allocate(pool, count, handles);
        deadline = kvt_cond_deadline(ENGINE_RETRY_MS);
        (void)pthread_mutex_lock(&leader->shared.lock);
        (void)kvt_cond_wait(&leader->shared.moved, &leader->shared.lock, &deadline);
        (void)pthread_mutex_unlock(&leader->shared.lock);
    }
}
