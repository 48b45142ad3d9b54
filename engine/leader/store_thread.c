/* The thread that stores what was registered: in its turn while it is in G2, and from wherever it
 * is by then when its turn has passed.  Pools say what is not stored, so nothing else has to be
 * remembered; what it has before it, it sorts by the fence's parts, so that a lock is taken for
 * many blocks and not for each batch. */
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/deadline.h"
#include "base/thread/cond.h"

#include "engine/leader/leader_internal.h"

enum {
    OWED = 1024,  /* blocks that are sorted at once, ... */
    SWEPT = 512,  /* ... of them found by a walk */
    LOOKS = 4096, /* blocks looked at under one lock of a pool */
    BATCHES = 8,  /* under one lease: others wait for the part */
    LONGER = 8,   /* times as long between two tries at most */
};

/* A block that is to be stored.  It is not held: what has gone is found again where it is. */
struct owed {
    struct kvt_handle handle;
    uint64_t hash;
    enum kvt_tier tier;
    uint32_t part;
    bool swept; /* found by a walk, and asked for first */
    bool gone;  /* from here, or it was stored meanwhile */
    bool tried;
    bool ours; /* under the turn's lease */
    enum kvt_err status;
};

/* A walk over G2, then G3. */
struct sweep {
    enum kvt_tier tier;
    uint32_t at;
    uint64_t again_ms;
    bool begun;            /* a step of it: */
    size_t found, waiting; /* ... blocks, and those of them that were not tried yet */
    bool settled;          /* ... one of them was */
};

struct engine_store_thread {
    struct engine_leader *leader;
    struct owed owed[OWED];
    size_t count;
    uint32_t last; /* part */
    struct sweep sweep;
};

/* ---- what there is to do ---- */

void
engine_store_thread_owe_locked(struct engine_leader *leader)
{
    if (!leader->options.store || leader->shared.sweep_ms != UINT64_MAX)
        return;
    leader->shared.sweep_ms = kvt_clock_mono_ms() + leader->options.store_again_ms;
    (void)pthread_cond_signal(&leader->shared.store);
}

void
engine_store_thread_owe(struct engine_leader *leader)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    engine_store_thread_owe_locked(leader);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

static bool
is_owed(const struct engine_store_thread *storer, uint64_t hash)
{
    for (size_t i = 0; i < storer->count; i++)
        if (storer->owed[i].hash == hash)
            return true;
    return false;
}

/* A held block, given back.  One that was stored meanwhile is not owed, and none is twice: what
 * came of the one is not known before the turn ends. */
static void
add(struct engine_store_thread *storer, enum kvt_tier tier, struct kvt_handle handle, bool swept)
{
    struct kvbm_pool *pool = engine_store_pool(storer->leader, tier);
    const struct kvbm_pool_facts facts = kvbm_pool_facts(pool, handle);

    kvbm_pool_drop_same(pool, handle);
    if (facts.stored || is_owed(storer, facts.label.id.hash))
        return;
    storer->owed[storer->count++] = (struct owed){
        .handle = handle,
        .hash = facts.label.id.hash,
        .tier = tier,
        .part = engine_store_part(storer->leader, &facts.label),
        .swept = swept,
    };
    storer->sweep.found += swept;
    storer->sweep.waiting += swept;
}

/* As many of the oldest arrivals as there is room for. */
static void
take_arrivals(struct engine_store_thread *storer)
{
    struct engine_leader *leader = storer->leader;
    struct kvt_handle handles[ENGINE_BATCH];
    size_t count;

    do {
        const size_t room = OWED - storer->count;

        (void)pthread_mutex_lock(&leader->shared.lock);
        count =
            leader->shared.store_count < ENGINE_BATCH ? leader->shared.store_count : ENGINE_BATCH;
        if (count > room)
            count = room;
        for (size_t i = 0; i < count; i++)
            handles[i] = leader->shared.stores[(leader->shared.store_first + i) % ENGINE_ARRIVALS];
        leader->shared.store_first = (leader->shared.store_first + count) % ENGINE_ARRIVALS;
        leader->shared.store_count -= count;
        (void)pthread_mutex_unlock(&leader->shared.lock);
        for (size_t i = 0; i < count; i++)
            if (kvbm_pool_upgrade(leader->options.g2, handles[i]) == KVT_OK)
                add(storer, KVT_TIER_G2, handles[i], false);
    } while (count > 0);
}

/* True: a walk is due. */
static bool
wait_for_work(struct engine_store_thread *storer)
{
    struct engine_leader *leader = storer->leader;
    bool due;

    (void)pthread_mutex_lock(&leader->shared.lock);
    while (storer->count == 0 && leader->shared.store_count == 0 && !leader->shared.store_stop &&
           kvt_clock_mono_ms() < leader->shared.sweep_ms) {
        const uint64_t left_ms = kvt_deadline_left(leader->shared.sweep_ms);
        const struct timespec deadline =
            kvt_cond_deadline(left_ms > UINT32_MAX ? UINT32_MAX : left_ms);

        (void)kvt_cond_wait(&leader->shared.store, &leader->shared.lock, &deadline);
    }
    due = kvt_clock_mono_ms() >= leader->shared.sweep_ms;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return due;
}

/* ---- the walk ---- */

static void
sweep_at(struct engine_leader *leader, uint64_t at_ms)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.sweep_ms = at_ms;
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

static uint32_t
unstored(const struct engine_leader *leader, enum kvt_tier tier)
{
    struct kvbm_pool *pool = engine_store_pool(leader, tier);

    return pool == NULL ? 0 : kvbm_pool_stats(pool).unstored;
}

/* What is registered from here on is owed anew. */
static void
end_sweep(struct engine_leader *leader)
{
    sweep_at(leader, UINT64_MAX);
    if (unstored(leader, KVT_TIER_G2) + unstored(leader, KVT_TIER_G3) > 0)
        engine_store_thread_owe(leader);
}

/* The next blocks that are not stored. */
static void
look(struct engine_store_thread *storer)
{
    struct sweep *sweep = &storer->sweep;
    struct kvbm_pool *pool = engine_store_pool(storer->leader, sweep->tier);
    struct kvt_handle handles[ENGINE_BATCH];
    size_t count;

    sweep->begun = true;
    sweep->settled = false;
    sweep->found = 0;
    do {
        const size_t room = OWED - storer->count;

        count = pool == NULL
                    ? 0
                    : kvbm_pool_unstored(pool, &sweep->at, LOOKS,
                                         room < ENGINE_BATCH ? room : ENGINE_BATCH, handles);
        for (size_t i = 0; i < count; i++)
            add(storer, sweep->tier, handles[i], true);
    } while (count == ENGINE_BATCH && sweep->found + ENGINE_BATCH <= SWEPT);
}

/* The step is over.  Where nothing that it found was taken, there is a rest. */
static void
go_on(struct engine_store_thread *storer)
{
    struct engine_leader *leader = storer->leader;
    struct sweep *sweep = &storer->sweep;
    struct kvbm_pool *pool = engine_store_pool(leader, sweep->tier);
    const bool refused = sweep->found > 0 && !sweep->settled;

    sweep->begun = false;
    if (refused) {
        sweep_at(leader, kvt_clock_mono_ms() + sweep->again_ms);
        if (sweep->again_ms < LONGER * leader->options.store_again_ms)
            sweep->again_ms *= 2;
    } else if (sweep->found > 0) {
        sweep->again_ms = leader->options.store_again_ms;
    }
    if (pool != NULL && sweep->at < kvbm_pool_stats(pool).blocks)
        return;
    if (sweep->tier == KVT_TIER_G3 && !refused)
        end_sweep(leader);
    sweep->tier = sweep->tier == KVT_TIER_G3 ? KVT_TIER_G2 : KVT_TIER_G3;
    sweep->at = 0;
}

/* ---- a turn ---- */

static bool
hold(struct engine_store_thread *storer, struct owed *owed)
{
    struct kvbm_pool *pool = engine_store_pool(storer->leader, owed->tier);

    owed->gone = kvbm_pool_upgrade(pool, owed->handle) != KVT_OK;
    if (!owed->gone && kvbm_pool_facts(pool, owed->handle).stored) {
        kvbm_pool_drop_same(pool, owed->handle);
        owed->gone = true;
    }
    return !owed->gone;
}

/* Blocks of one part that can be stored by one job, held; 0: there are none that were not tried. */
static size_t
hold_batch(struct engine_store_thread *storer, uint32_t part, struct owed **chosen,
           struct kvt_handle *handles)
{
    size_t count = 0;

    for (size_t i = 0; i < storer->count && count < ENGINE_BATCH; i++) {
        struct owed *owed = &storer->owed[i];

        if (owed->part != part || owed->tried || owed->gone)
            continue;
        if (count > 0 && (owed->tier != chosen[0]->tier || owed->swept != chosen[0]->swept))
            continue;
        if (!hold(storer, owed))
            continue;
        chosen[count] = owed;
        handles[count++] = owed->handle;
    }
    return count;
}

/* False: there is no more of this part. */
static bool
store_batch(struct engine_store_thread *storer, struct engine_store_turn *turn)
{
    struct owed *chosen[ENGINE_BATCH];
    struct kvt_handle handles[ENGINE_BATCH];
    enum kvt_err statuses[ENGINE_BATCH];
    bool ours[ENGINE_BATCH];
    struct engine_store_batch batch = {
        .priority = KVT_PRIORITY_NORMAL,
        .until_ms = kvt_deadline_in(storer->leader->options.job_ms),
        .handles = handles,
        .count = hold_batch(storer, turn->part, chosen, handles),
    };

    if (batch.count == 0)
        return false;
    batch.tier = chosen[0]->tier;
    batch.ask = chosen[0]->swept;
    engine_store_turn_store(turn, &batch, statuses, ours);
    for (size_t i = 0; i < batch.count; i++) {
        chosen[i]->tried = true;
        chosen[i]->ours = ours[i];
        chosen[i]->status = statuses[i];
        kvbm_pool_drop_same(engine_store_pool(storer->leader, batch.tier), handles[i]);
    }
    return true;
}

/* What was tried is noted, and the rest stays in its order. */
static void
settle(struct engine_store_thread *storer, bool lasted)
{
    size_t left = 0;

    for (size_t i = 0; i < storer->count; i++) {
        struct owed *owed = &storer->owed[i];

        if (!owed->tried && !owed->gone) {
            storer->owed[left++] = *owed;
            continue;
        }
        if (owed->ours && !lasted)
            owed->status = KVT_BUSY;
        if (owed->tried)
            engine_store_note(storer->leader, &owed->hash, &owed->status, 1);
        storer->sweep.waiting -= owed->swept;
        storer->sweep.settled |=
            owed->swept && (owed->gone || engine_store_is_settled(owed->status));
    }
    storer->count = left;
}

/* The part of what waits longest, but another one than before if there is one. */
static uint32_t
next_part(const struct engine_store_thread *storer)
{
    for (size_t i = 0; i < storer->count; i++)
        if (storer->owed[i].part != storer->last)
            return storer->owed[i].part;
    return storer->last;
}

static void
take_turn(struct engine_store_thread *storer)
{
    struct engine_store_turn turn;

    storer->last = next_part(storer);
    engine_store_turn_open(&turn, storer->leader, storer->last);
    for (unsigned i = 0; i < BATCHES && engine_store_turn_goes_on(&turn); i++) {
        if (engine_store_is_stopped(storer->leader) || !store_batch(storer, &turn))
            break;
        take_arrivals(storer); /* perhaps of this part */
    }
    settle(storer, engine_store_turn_end(&turn));
}

static void *
store(void *arg)
{
    struct engine_store_thread *storer = arg;

    while (!engine_store_is_stopped(storer->leader)) {
        const bool due = wait_for_work(storer);

        take_arrivals(storer);
        if (due && !storer->sweep.begun)
            look(storer);
        if (storer->count > 0)
            take_turn(storer);
        if (storer->sweep.begun && storer->sweep.waiting == 0)
            go_on(storer);
    }
    return NULL;
}

/* ---- opening ---- */

enum kvt_err
engine_store_thread_open(struct engine_leader *leader)
{
    struct engine_store_thread *storer;

    if (!leader->options.store)
        return KVT_OK;
    storer = kvt_calloc(1, sizeof(*storer));
    if (storer == NULL)
        return KVT_NOMEM;
    storer->leader = leader;
    storer->sweep.tier = KVT_TIER_G2;
    storer->sweep.again_ms = leader->options.store_again_ms;
    engine_store_thread_owe(leader); /* pools may have blocks of an earlier process */
    if (pthread_create(&leader->store_thread, NULL, store, storer) != 0) {
        kvt_free(storer);
        return KVT_NOMEM;
    }
    leader->storer = storer;
    return KVT_OK;
}

void
engine_store_thread_close(struct engine_leader *leader)
{
    if (leader->storer == NULL)
        return;
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.store_stop = true;
    (void)pthread_cond_signal(&leader->shared.store);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    (void)pthread_join(leader->store_thread, NULL);
    kvt_free(leader->storer);
    leader->storer = NULL;
}
