/* A batch on its way: what it waits for, and what is next. */
#include <assert.h>

#include "base/core/clock.h"
#include "kvbm/offload/manager_internal.h"
#include "kvbm/pool/mutable_block.h"

struct kvbm_job *
kvbm_job_free(struct kvbm_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].state == KVBM_JOB_FREE)
            return &jobs[i];
    return NULL;
}

static const struct kvbm_manager_tier *
tier_of(const struct kvbm_job *job, enum kvt_tier tier)
{
    assert(tier >= KVT_TIER_G1 && tier < KVT_TIER_G4);
    return &job->manager->options.tiers[tier];
}

/* ---- what it takes ---- */

static void
watch_begin(struct kvbm_job *job)
{
    struct kvbm_cost *cost = job->manager->options.cost;

    if (cost == NULL || job->edge != NULL)
        return;
    job->bytes = (uint64_t)job->count * tier_of(job, job->to)->storage->block_size;
    job->ahead = kvbm_cost_begin(cost, job->from, job->bytes);
    job->began_ns = kvt_clock_mono_ns();
}

static void
watch_end(struct kvbm_job *job)
{
    struct kvbm_cost *cost = job->manager->options.cost;
    const uint64_t now_ns = kvt_clock_mono_ns();
    bool good = true;

    if (cost == NULL || job->edge != NULL)
        return;
    for (size_t i = 0; i < job->count; i++)
        good = good && job->entries[i].status == KVT_OK;
    kvbm_cost_end(cost, job->from, job->bytes, job->ahead, (double)(now_ns - job->began_ns) / 1e6,
                  good, now_ns / 1000000);
}

/* ---- the request under way ---- */

/* Is what came up the block it should be?  On the thread that brought it. */
static bool
is_right(const struct kvbm_job *job, size_t moved, const void *bytes)
{
    if (job->check == NULL || bytes == NULL)
        return true;
    return job->check(job->check_arg, job->from, job->to, &job->entries[job->owner[moved]].label,
                      bytes, tier_of(job, job->to)->storage->block_size);
}

/* What a block is called in the tier it goes to. */
static struct kvbm_storage_name
name_there(const struct kvbm_job_block *entry)
{
    return (struct kvbm_storage_name){
        .block = entry->target.block,
        .id = entry->label.id,
        .prefix_hash = entry->label.prefix_hash,
        .tokens_hash = entry->label.tokens_hash,
    };
}

/* The ticket is finished a moment after this: whoever steps waits that out, instead of finding it
 * unfinished and sleeping. */
static void
tell(struct kvbm_job *job)
{
    atomic_store(&job->answered, true);
    kvbm_manager_kick(job->manager);
}

/* What cannot be read at its source is forgotten there, or it would be back after a restart, and
 * who owns it is told, which is once for all of a batch. */
static void
forget(const struct kvbm_job *job)
{
    const struct kvbm_manager_options *options = &job->manager->options;
    uint32_t unreadable[KVT_OFFLOAD_BATCH];
    uint64_t first = 0;
    size_t lost = 0;

    if (job->from == KVT_TIER_G4)
        return;
    for (size_t i = 0; i < job->moving; i++) {
        const struct kvbm_job_block *entry = &job->entries[job->owner[i]];

        if (job->copies[i].status != KVT_CORRUPT && job->copies[i].status != KVT_NOTFOUND)
            continue;
        if (lost == 0)
            first = entry->label.id.hash;
        unreadable[lost++] = entry->source.block;
    }
    if (lost == 0)
        return;
    (void)kvbm_storage_forget(tier_of(job, job->from)->storage, unreadable, lost);
    if (options->lost != NULL)
        options->lost(options->lost_arg, job->from, first, lost);
}

/* A target that outlives the process remembers what arrived before anybody can find it; where it
 * cannot, the block is good for as long as the process lives.  That, and forgetting what is
 * unreadable, may wait for a disk: this runs on the thread of the path. */
static void
copied(void *arg)
{
    struct kvbm_job *job = arg;
    struct kvbm_storage_name names[KVT_OFFLOAD_BATCH];
    size_t arrived = 0;

    for (size_t i = 0; i < job->moving; i++) {
        const struct kvbm_job_block *entry = &job->entries[job->owner[i]];
        enum kvt_err status = job->copies[i].status;

        if (status == KVT_OK && job->edge == NULL && job->from != KVT_TIER_G4 &&
            !is_right(job, i,
                      kvbm_storage_address(tier_of(job, job->to)->storage, entry->target.block)))
            status = job->copies[i].status = KVT_CORRUPT;
        if (status == KVT_OK)
            names[arrived++] = name_there(entry);
    }
    if (arrived > 0 && job->to != KVT_TIER_G4)
        (void)kvbm_storage_commit(tier_of(job, job->to)->storage, names, arrived);
    forget(job);
    tell(job);
}

/* A target that finds its blocks by name has to know it before they are written. */
static void
bind_targets(const struct kvbm_job *job)
{
    struct kvbm_storage_name names[KVT_OFFLOAD_BATCH];

    if (job->to == KVT_TIER_G4 || job->moving == 0)
        return;
    for (size_t i = 0; i < job->moving; i++)
        names[i] = name_there(&job->entries[job->owner[i]]);
    kvbm_storage_bind(tier_of(job, job->to)->storage, names, job->moving);
}

/* Into the target, or into or out of the staging memory. */
static void
plan_copy(struct kvbm_job *job)
{
    job->moving = 0;
    for (size_t i = 0; i < job->count; i++) {
        const struct kvbm_job_block *entry = &job->entries[i];
        struct kvt_copy copy = {entry->source.block, entry->target.block, KVT_OK};

        if (entry->status != KVT_OK)
            continue;
        if (job->staged && job->from == KVT_TIER_G4)
            copy.source = job->staging_first + (uint32_t)i;
        if (job->staged && job->to == KVT_TIER_G4)
            copy.target = job->staging_first + (uint32_t)i;
        job->owner[job->moving] = i;
        job->copies[job->moving++] = copy;
    }
    bind_targets(job);
}

static enum kvt_err
start_copy(struct kvbm_job *job)
{
    struct kvbm_transfer_request request = {
        .source = job->from == KVT_TIER_G4 ? job->staging : tier_of(job, job->from)->storage,
        .target = job->to == KVT_TIER_G4 ? job->staging : tier_of(job, job->to)->storage,
        .copies = job->copies,
        .count = job->moving,
        .done = copied,
        .arg = job,
    };

    /* What somebody waits for, then room, then what may be needed. */
    switch (job->why) {
    case KVBM_JOB_ONBOARD:
        request.priority = job->prefetch ? KVT_PRIORITY_NORMAL : KVT_PRIORITY_URGENT;
        break;
    case KVBM_JOB_LOWERED: request.priority = KVT_PRIORITY_HIGH; break;
    case KVBM_JOB_PUSHED:
    case KVBM_JOB_IDLE: request.priority = KVT_PRIORITY_NORMAL; break;
    }
    request.path = kvbm_path_between(request.source, request.target);
    return kvbm_transfer_start(job->manager->options.transfer, &request, &job->ticket);
}

/* Where the bytes of a block that comes from, or goes to, G4 lie in host memory. */
static void *
body_of(const struct kvbm_job *job, size_t i)
{
    const struct kvbm_job_block *entry = &job->entries[i];

    if (job->staged)
        return kvbm_storage_address(job->staging, job->staging_first + (uint32_t)i);
    if (job->from == KVT_TIER_G4)
        return kvbm_storage_address(tier_of(job, job->to)->storage, entry->target.block);
    return kvbm_storage_address(tier_of(job, job->from)->storage, entry->source.block);
}

static void
plan_items(struct kvbm_job *job)
{
    const enum kvt_tier pool = job->from == KVT_TIER_G4 ? job->to : job->from;

    job->moving = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (job->entries[i].status != KVT_OK)
            continue;
        job->owner[job->moving] = i;
        job->items[job->moving++] = (struct kvt_volume_item){
            .id = job->entries[i].label.id,
            .bytes = body_of(job, i),
            .size = tier_of(job, pool)->storage->block_size,
        };
    }
}

static void
answered(void *arg)
{
    struct kvbm_job *job = arg;

    for (size_t i = 0; i < job->moving && job->edge == NULL; i++)
        if (job->items[i].status == KVT_OK && !is_right(job, i, job->items[i].bytes))
            job->items[i].status = KVT_CORRUPT;
    tell(job);
}

static enum kvt_err
start_items(struct kvbm_job *job)
{
    const struct kvbm_manager_options *options = &job->manager->options;
    const bool down = job->state == KVBM_JOB_PUT;
    const enum kvt_err rc = kvbm_volumes_start(
        options->volumes,
        &(struct kvbm_volume_request){
            .volume = down || options->volume_up == 0 ? options->volume : options->volume_up,
            .verb = down ? KVT_VOLUME_PUT : KVT_VOLUME_GET,
            .items = job->items,
            .count = job->moving,
            .done = answered,
            .arg = job,
        },
        0, &job->ticket);

    return rc == KVT_NOTFOUND ? KVT_UNAVAILABLE : rc; /* no such volume: it may come back */
}

/* From a volume some answers mean something else than from the memory our copy is in. */
static enum kvt_err
answer_of(const struct kvbm_job *job, enum kvt_err status)
{
    if (job->state == KVBM_JOB_PUT && (status == KVT_CORRUPT || status == KVT_NOTFOUND))
        return KVT_INVALID;
    return status;
}

static void
take_answers(struct kvbm_job *job, enum kvt_err refused)
{
    for (size_t i = 0; i < job->moving; i++) {
        enum kvt_err status = refused;

        if (refused == KVT_OK)
            status = job->state == KVBM_JOB_COPY ? job->copies[i].status : job->items[i].status;
        job->entries[job->owner[i]].status = answer_of(job, status);
    }
}

/* True: the request is over, and each block says how. */
static bool
is_answered(struct kvbm_job *job)
{
    const bool copies = job->state == KVBM_JOB_COPY;
    enum kvt_err rc;

    if (job->moving == 0)
        return true;
    if (job->ticket == NULL) {
        atomic_store(&job->answered, false);
        rc = job->manager->closing ? KVT_CANCELLED : copies ? start_copy(job) : start_items(job);
        if (rc == KVT_AGAIN)
            return false; /* the queue is full: the next pass tries again */
        if (rc == KVT_OK)
            return false;
        take_answers(job, rc);
        job->moving = 0; /* and is not asked again */
        return true;
    }
    if (!atomic_load(&job->answered))
        return false;
    (void)kvbm_ticket_end(job->ticket);
    job->ticket = NULL;
    take_answers(job, KVT_OK);
    return true;
}

static void
enter_state(struct kvbm_job *job, enum kvbm_job_state state)
{
    job->state = state;
    if (state == KVBM_JOB_COPY)
        plan_copy(job);
    else if (state == KVBM_JOB_PUT || state == KVBM_JOB_GET)
        plan_items(job);
}

/* ---- arrival ---- */

/* Name what arrived in the pool; what did not is free again.  A block whose status is OK then
 * holds the block of its name as its target. */
static void
register_targets(struct kvbm_job *job)
{
    struct kvbm_pool *pool = tier_of(job, job->to)->pool;

    for (size_t i = 0; i < job->count; i++) {
        struct kvbm_job_block *entry = &job->entries[i];
        enum kvt_err rc = entry->status;

        if (rc == KVT_OK)
            rc = kvbm_block_complete(pool, entry->target, &entry->label, NULL);
        if (rc == KVT_OK)
            rc = kvbm_pool_register(pool, &entry->target, NULL);
        entry->status = rc == KVT_EXISTS && job->edge == NULL ? KVT_OK : rc;
        if (rc == KVT_OK || rc == KVT_EXISTS || entry->target.generation == 0)
            continue; /* none: it failed on an earlier hop */
        kvbm_pool_drop(pool, entry->target);
        entry->target = (struct kvt_handle){0};
    }
}

static void
end_down(struct kvbm_job *job, uint64_t now_ms)
{
    struct kvbm_edge_down *edge = job->edge;
    size_t safe = 0;

    for (size_t i = 0; i < job->count; i++) {
        const struct kvbm_job_block *entry = &job->entries[i];

        if (entry->target.generation != 0)
            kvbm_pool_drop(tier_of(job, job->to)->pool, entry->target);
        safe += kvbm_edge_settle(edge, job->why, entry->source, entry->status);
    }
    atomic_fetch_sub(&edge->counts.moving, job->count);
    if (safe > 0)
        atomic_store(&edge->stalled, false);
    if (safe == 0 && job->why != KVBM_JOB_PUSHED) {
        atomic_store(&edge->stalled, true);
        edge->pause_ms = now_ms + job->manager->options.retry_ms;
    }
    job->state = KVBM_JOB_FREE;
}

/* The sources of a hop up: where a block cannot be read, it is not there. */
static void
let_sources_go(struct kvbm_job *job)
{
    if (job->from == KVT_TIER_G4)
        return;
    for (size_t i = job->count; i > 0; i--) {
        struct kvbm_job_block *entry = &job->entries[i - 1];
        struct kvbm_pool *pool = tier_of(job, job->from)->pool;

        if (entry->source.generation == 0)
            continue;
        if (entry->status == KVT_CORRUPT || entry->status == KVT_NOTFOUND)
            kvbm_pool_discard(pool, entry->source);
        else
            kvbm_pool_drop(pool, entry->source);
        entry->source = (struct kvt_handle){0};
    }
}

/* What arrived is in the target of this hop: the next hop, or the end. */
static void
arrive_up(struct kvbm_job *job)
{
    struct kvbm_pool *pool = tier_of(job, job->to)->pool;
    size_t arrived = 0;

    register_targets(job);
    let_sources_go(job);
    for (size_t i = 0; i < job->count; i++)
        if (job->entries[i].status == KVT_OK) {
            kvbm_pool_mark_saved(pool, job->entries[i].target); /* it came from below */
            arrived++;
        }
    if (job->to == job->last || arrived == 0) {
        kvbm_onboard_arrive(job);
        job->state = KVBM_JOB_FREE;
        return;
    }
    for (size_t i = 0; i < job->count; i++) {
        struct kvbm_job_block *entry = &job->entries[i];

        entry->source = entry->target;
        entry->target = (struct kvt_handle){0};
    }
    job->from = job->to;
    job->to = job->last;
    job->staged = false;
    job->room_ms = 0;
    job->state = KVBM_JOB_ROOM;
}

/* ---- room for the next hop ---- */

static void
give_up_hop(struct kvbm_job *job, enum kvt_err why)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->entries[i].status == KVT_OK)
            job->entries[i].status = why;
    let_sources_go(job);
    kvbm_onboard_arrive(job);
    job->state = KVBM_JOB_FREE;
}

static void
wait_room(struct kvbm_job *job, uint64_t now_ms)
{
    struct kvbm_pool *pool = tier_of(job, job->to)->pool;
    struct kvt_handle targets[KVT_OFFLOAD_BATCH];
    uint32_t wanted = 0;
    uint32_t given = 0;
    enum kvt_err rc;

    if (job->onboard == NULL) {
        give_up_hop(job, KVT_CANCELLED);
        return;
    }
    for (size_t i = 0; i < job->count; i++)
        wanted += job->entries[i].status == KVT_OK;
    if (job->prefetch) {
        rc = kvbm_edge_spare(job->manager, job->to, wanted, targets);
    } else {
        if (!kvbm_edge_room(job->manager, job->to, wanted, &job->room_ms, now_ms))
            return;
        rc = kvbm_pool_allocate(pool, wanted, targets);
        if (rc != KVT_OK && job->room_ms == 0)
            job->room_ms = now_ms;
        if (rc != KVT_OK && now_ms - job->room_ms < job->manager->options.room_wait_ms)
            return;
    }
    if (rc != KVT_OK) {
        give_up_hop(job, rc);
        return;
    }
    for (size_t i = 0; i < job->count; i++)
        if (job->entries[i].status == KVT_OK)
            job->entries[i].target = targets[given++];
    kvbm_job_begin(job);
}

/* ---- from outside ---- */

void
kvbm_job_begin(struct kvbm_job *job)
{
    for (size_t i = 0; i < job->count && job->to != KVT_TIER_G4; i++) {
        enum kvt_err rc;

        if (job->entries[i].status != KVT_OK)
            continue;
        rc = kvbm_block_begin(tier_of(job, job->to)->pool, job->entries[i].target, NULL);
        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
    }
    watch_begin(job);
    if (job->from == KVT_TIER_G4)
        enter_state(job, KVBM_JOB_GET);
    else if (job->to == KVT_TIER_G4 && !job->staged)
        enter_state(job, KVBM_JOB_PUT);
    else
        enter_state(job, KVBM_JOB_COPY);
    (void)is_answered(job); /* starts it; a refusal is seen by the next poll */
}

void
kvbm_job_poll(struct kvbm_job *job, uint64_t now_ms)
{
    if (job->state == KVBM_JOB_FREE)
        return;
    if (job->state == KVBM_JOB_ROOM) {
        wait_room(job, now_ms);
        return;
    }
    if (!is_answered(job))
        return;
    if (job->staged && job->state == KVBM_JOB_GET) {
        enter_state(job, KVBM_JOB_COPY);
        (void)is_answered(job);
        return;
    }
    if (job->to == KVT_TIER_G4 && job->state == KVBM_JOB_COPY) {
        enter_state(job, KVBM_JOB_PUT);
        (void)is_answered(job);
        return;
    }
    if (job->edge == NULL) {
        watch_end(job);
        arrive_up(job);
        if (job->state == KVBM_JOB_ROOM)
            wait_room(job, now_ms);
        return;
    }
    if (job->to != KVT_TIER_G4)
        register_targets(job);
    end_down(job, now_ms);
}

void
kvbm_job_cancel(struct kvbm_job *job)
{
    if (job->ticket != NULL)
        (void)kvt_ticket_cancel(job->ticket);
}
