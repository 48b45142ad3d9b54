/* What a match brings to G2: runs of blocks of one origin, a chunk at a time. */
#include <assert.h>
#include <string.h>

#include "base/core/clock.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/leader/leader_internal.h"

/* ---- what has come ---- */

/* Does the object tier have what came? */
static bool
is_stored(const struct engine_leader_job *task, size_t at)
{
    const struct kvt_handle source = task->sources[at];

    return task->job.verb == ENGINE_LOAD ||
           (source.generation != 0 && kvbm_pool_facts(task->leader->options.g3, source).stored);
}

/* Registered, and held by the item's target; what is not is given back, and its status says why. */
static size_t
register_targets(struct engine_leader_job *task)
{
    struct kvbm_pool *pool = task->leader->options.g2;
    size_t came = 0;

    for (size_t i = 0; i < task->job.count; i++) {
        struct engine_item *item = &task->items[i];

        if (item->status == KVT_OK)
            item->status = engine_leader_register(pool, &task->targets[i], &item->label);
        if (item->status != KVT_OK) {
            kvbm_pool_drop(pool, task->targets[i]);
            task->targets[i] = (struct kvt_handle){0};
            continue;
        }
        if (task->job.verb == ENGINE_COPY || task->job.verb == ENGINE_LOAD)
            kvbm_pool_mark_saved(pool, task->targets[i]); /* it is where it came from, too */
        if (is_stored(task, i))
            kvbm_pool_mark_stored(pool, item->label.id.hash);
        came++;
    }
    return came;
}

/* Where a block cannot be read, it is not there. */
static void
let_sources_go(struct engine_leader_job *task)
{
    struct kvbm_pool *pool = task->leader->options.g3;

    for (size_t i = task->job.count; i > 0; i--) {
        const struct kvt_handle source = task->sources[i - 1];
        const enum kvt_err status = task->items[i - 1].status;

        if (source.generation == 0)
            continue;
        if (status == KVT_CORRUPT || status == KVT_NOTFOUND)
            kvbm_pool_discard(pool, source);
        else
            kvbm_pool_drop(pool, source);
        atomic_fetch_sub(&task->leader->pins, 1);
    }
}

/* To the match, without a hole; what it has no use for rests in the pool. */
static void
hand_over(struct engine_leader_job *task, struct engine_match *match)
{
    for (size_t i = 0; match != NULL && i < task->job.count; i++) {
        const uint32_t at = task->first + (uint32_t)i;

        if (task->items[i].status != KVT_OK) {
            engine_match_cut(match, at, task->items[i].status, task->error.text);
        } else if (at < match->end) {
            match->g2[at] = task->targets[i];
            task->targets[i] = (struct kvt_handle){0};
            atomic_fetch_add(&match->leader->pins, 1);
        }
    }
    kvbm_pool_drop_all(task->leader->options.g2, task->targets, task->job.count);
}

static void
brought(struct engine_leader_job *task)
{
    struct engine_match *match = task->match;
    const size_t came = register_targets(task);

    let_sources_go(task);
    if (came > 0)
        engine_leader_tell(task->leader, task->targets, task->job.count, false);
    hand_over(task, match);
    if (match == NULL)
        return;
    match->running--;
    engine_match_advance(match); /* what is next begins when this task is free */
}

/* ---- what is next ---- */

/* The next block has come another way meanwhile. */
static bool
take_there(struct engine_match *match)
{
    const struct engine_leader_options *options = &match->leader->options;
    const uint32_t at = match->at;

    if (match->g2[at].generation != 0)
        return true;
    if (kvbm_pool_find(options->g2, match->labels[at].id.hash, &match->g2[at]) != KVT_OK)
        return false;
    if (match->source[at].generation != 0)
        kvbm_pool_drop(options->g3, match->source[at]);
    else
        atomic_fetch_add(&match->leader->pins, 1);
    match->source[at] = (struct kvt_handle){0};
    return true;
}

/* Somebody else has it brought: it is waited for, not brought twice. */
static bool
is_coming(const struct engine_leader *leader, uint64_t hash)
{
    for (const struct engine_leader_job *task = leader->busy; task != NULL; task = task->next)
        for (size_t i = 0; task->kind == ENGINE_LEADER_JOB_BRING && i < task->job.count; i++)
            if (task->items[i].label.id.hash == hash)
                return true;
    return false;
}

/* The first of a run is looked at when it is its turn; these, before they are. */
static bool
is_to_bring(const struct engine_match *match, uint32_t at)
{
    const uint64_t hash = match->labels[at].id.hash;

    return match->g2[at].generation == 0 && !kvbm_pool_has(match->leader->options.g2, hash) &&
           !is_coming(match->leader, hash);
}

/* Blocks of one origin from match->at on that are not here, nor on their way. */
static uint32_t
run_length(const struct engine_match *match)
{
    const uint32_t at = match->at;
    uint32_t count = 1;

    while (count < match->leader->options.stage_chunk && at + count < match->end &&
           match->place[at + count] == match->place[at] && is_to_bring(match, at + count))
        count++;
    return count;
}

/* Room for as many as can be had.  0: not now, and it is asked for again. */
static uint32_t
take_room(struct engine_match *match, uint32_t count, struct kvt_handle *handles)
{
    struct engine_leader *leader = match->leader;
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc = engine_demotion_room(leader, count, handles, &match->room_ms);

    while (rc == KVT_AGAIN && count > 1) {
        count /= 2;
        rc = kvbm_pool_allocate(leader->options.g2, count, handles);
    }
    if (rc == KVT_OK) {
        match->room_ms = 0;
        return count;
    }
    if (rc == KVT_AGAIN && match->running == 0 && now_ms - match->room_ms >= ENGINE_ROOM_MS)
        engine_match_cut(match, match->at, rc, "G2 has no room: all of it is held");
    else
        engine_leader_jobs_again(leader);
    return 0;
}

static void
send(struct engine_match *match, struct engine_leader_job *task, uint32_t count)
{
    struct engine_leader *leader = match->leader;
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint32_t first = match->at;

    task->match = match;
    task->first = first;
    task->job.to = KVT_TIER_G2;
    task->job.count = count;
    for (uint32_t i = 0; i < count; i++) {
        const enum kvt_err rc = kvbm_block_begin(leader->options.g2, task->targets[i], NULL);

        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
        (void)rc;
        task->items[i] = (struct engine_item){
            .label = match->labels[first + i],
            .target = task->targets[i].block,
        };
    }
    leader->origins[match->place[first]]->fill(match, first, &task->job);
    memcpy(task->sources, match->source + first, count * sizeof(*task->sources));
    memset(match->source + first, 0, count * sizeof(*match->source));
    match->at += count;
    match->running++;
    engine_leader_job_start(task, KVT_PRIORITY_URGENT,
                            match->until_ms > now_ms ? match->until_ms - now_ms : 0, brought);
}

/* Begin the next.  False: not now. */
static bool
send_next(struct engine_match *match)
{
    const struct engine_origin *origin = match->leader->origins[match->place[match->at]];
    struct engine_leader_job *task;
    uint32_t count;

    if (is_coming(match->leader, match->labels[match->at].id.hash))
        return false;
    count = run_length(match);
    if (origin->ready != NULL)
        count = origin->ready(match, match->at, count);
    if (count == 0)
        return false;
    task = engine_leader_job_take(match->leader, ENGINE_LEADER_JOB_BRING);
    if (task == NULL)
        return false;
    count = take_room(match, count, task->targets);
    if (count == 0) {
        engine_leader_job_give(task);
        return false;
    }
    send(match, task, count);
    return true;
}

/* Mode PREPARE leaves these where they are. */
static bool
stays(const struct engine_match *match, uint32_t at)
{
    const struct engine_origin *origin = match->leader->origins[match->place[at]];

    return match->mode == ENGINE_PREPARE && origin->prepared != NULL;
}

static bool
all_prepared(struct engine_match *match)
{
    for (unsigned place = ENGINE_PLACE_PEER; place < ENGINE_PLACE_END; place++) {
        const struct engine_origin *origin = match->leader->origins[place];

        if (match->mode == ENGINE_PREPARE && (match->asked & (1u << place)) != 0 &&
            origin->prepared != NULL && !origin->prepared(match))
            return false;
    }
    return true;
}

bool
engine_stage_step(struct engine_match *match)
{
    while (match->at < match->end && match->running < ENGINE_MATCH_JOBS) {
        if (take_there(match) || stays(match, match->at))
            match->at++;
        else if (!send_next(match))
            break;
    }
    engine_match_advance(match);
    return match->at >= match->end && match->running == 0 && all_prepared(match);
}

void
engine_stage_all(struct engine_leader *leader)
{
    struct engine_match *next;

    for (struct engine_match *match = leader->staging; match != NULL; match = next) {
        next = match->next;
        if (match->state == ENGINE_SEARCHING && match->waits) {
            match->waits = false;
            leader->origins[match->asking]->search(match);
        } else {
            engine_match_pump(match);
        }
    }
}
