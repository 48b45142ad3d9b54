#include "advisor/selection/rerank.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/selection/ranking.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

enum {
    PAGE = 16384, /* rows between two looks whether it is to end */
    CHUNK = 4096, /* of what was heard */
    RETIRED_MAX = 2 * ADVISOR_RANKINGS_MAX,
};

struct chunk {
    struct chunk *next;
    uint32_t count;
    struct advisor_ranking_event heard[CHUNK];
};

struct advisor_rerank {
    struct advisor_orders orders;
    struct policy_tier_blocks *rosters[ADVISOR_RANKINGS_MAX];
    struct advisor_txn txn;
    char tier[KVT_NAME_MAX];
    bool *holders;
    uint32_t holder_count;
    struct index *index;
    uint32_t *namespaces; /* of the index, by our own */
    uint32_t namespace_count;
    bool cut;    /* the rosters are full */
    bool hungry; /* there was no memory for a block: the order lacks what it could have */
    _Atomic uint64_t done;
    uint64_t total;
    _Atomic bool ending;
    pthread_t thread;
    bool threaded;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct chunk *first;
    struct chunk *last;
    uint64_t waiting; /* in the chunks */
    enum kvt_err failed;
    bool caught_up; /* the thread waits, and touches nothing */
    bool taken;
    bool over;
    struct policy_tier_blocks *retired[RETIRED_MAX];
    uint32_t retired_count;
    bool retiring;
};

/* Nobody wants it any more. */
static bool
is_ending(const void *arg)
{
    const struct advisor_rerank *rerank = arg;

    return atomic_load_explicit(&rerank->ending, memory_order_relaxed);
}

/* ---- rows ---- */

/* What became of a block that was told. */
static void
note(struct advisor_rerank *rerank, enum kvt_err rc)
{
    rerank->hungry = rerank->hungry || rc == KVT_NOMEM;
    rerank->cut = rerank->cut || rc != KVT_OK;
}

static enum kvt_err
take_row(void *arg, const struct advisor_store_block *row)
{
    struct advisor_rerank *rerank = arg;
    const struct kvt_block_id id = {
        .hash = row->hash, .parent = row->parent, .position = row->position};

    for (uint32_t i = 0; i < row->place_count; i++) {
        uint64_t parent;

        if (row->places[i].holder >= rerank->holder_count ||
            !rerank->holders[row->places[i].holder] || row->places[i].ranks == 0)
            continue;
        parent = row->ns < rerank->namespace_count
                     ? advisor_ranking_parent(rerank->index, rerank->namespaces[row->ns], &id)
                     : row->parent;
        for (uint32_t k = 0; k < rerank->orders.count; k++)
            note(rerank, advisor_ranking_restore_row(rerank->rosters[k], row, parent,
                                                     row->places[i].ranks));
    }
    atomic_fetch_add_explicit(&rerank->done, 1, memory_order_relaxed);
    return rerank->hungry ? KVT_NOMEM : KVT_OK;
}

static enum kvt_err
load(struct advisor_rerank *rerank)
{
    uint64_t next = 0;
    enum kvt_err rc;

    do
        rc = is_ending(rerank)
                 ? KVT_CANCELLED
                 : advisor_store_blocks(&rerank->txn, next, PAGE, &next, take_row, rerank);
    while (rc == KVT_OK && next != 0);
    advisor_store_end(&rerank->txn);
    for (uint32_t k = 0; k < rerank->orders.count && rc == KVT_OK; k++)
        rc = policy_tier_blocks_restored(rerank->rosters[k], is_ending, rerank);
    return rc;
}

/* ---- what was heard ---- */

static void
tell(struct advisor_rerank *rerank, const struct advisor_ranking_event *heard)
{
    const struct policy_block *block = &heard->block;
    enum kvt_err rc = KVT_OK;

    for (uint32_t k = 0; k < rerank->orders.count; k++) {
        struct policy_tier_blocks *roster = rerank->rosters[k];

        switch ((enum advisor_ranking_event_kind)heard->kind) {
        case ADVISOR_RANKING_STORED:
            rc = policy_tier_blocks_store(roster, block, heard->tick);
            break;
        case ADVISOR_RANKING_USED: rc = policy_tier_blocks_use(roster, block, heard->tick); break;
        case ADVISOR_RANKING_LEFT: policy_tier_blocks_leave(roster, block->ns, block->hash); break;
        case ADVISOR_RANKING_OUT:
            (void)policy_tier_blocks_claim(roster, block->ns, block->hash);
            break;
        case ADVISOR_RANKING_BACK:
            policy_tier_blocks_give_back(roster, block->ns, block->hash);
            break;
        case ADVISOR_RANKING_ALL_BACK: policy_tier_blocks_give_back_all(roster); break;
        case ADVISOR_RANKING_SETTLED: policy_tier_blocks_settle(roster); break;
        }
        note(rerank, rc);
    }
}

static void
tell_all(struct advisor_rerank *rerank, struct chunk *chunks)
{
    while (chunks != NULL) {
        struct chunk *next = chunks->next;

        for (uint32_t i = 0; i < chunks->count && !is_ending(rerank); i++)
            tell(rerank, &chunks->heard[i]);
        kvt_free(chunks);
        chunks = next;
    }
}

/* The caller has the lock. */
static struct chunk *
take_chunks(struct advisor_rerank *rerank)
{
    struct chunk *chunks = rerank->first;

    rerank->first = rerank->last = NULL;
    rerank->waiting = 0;
    return chunks;
}

/* The same.  What cannot be heard makes the order worthless. */
static void
hear(struct advisor_rerank *rerank, const struct advisor_ranking_event *heard)
{
    struct chunk *chunk = rerank->last;

    if (rerank->waiting == ADVISOR_RERANK_HEARD_MAX)
        rerank->failed = KVT_FULL;
    if (rerank->failed == KVT_OK && (chunk == NULL || chunk->count == CHUNK)) {
        chunk = kvt_calloc(1, sizeof(*chunk));
        if (chunk == NULL) {
            rerank->failed = KVT_NOMEM;
        } else {
            *(rerank->last == NULL ? &rerank->first : &rerank->last->next) = chunk;
            rerank->last = chunk;
        }
    }
    if (rerank->failed != KVT_OK)
        return;
    chunk->heard[chunk->count++] = *heard;
    rerank->waiting++;
    if (rerank->caught_up && rerank->waiting > ADVISOR_RERANK_REST)
        (void)pthread_cond_signal(&rerank->changed);
}

void
advisor_rerank_hear(struct advisor_rerank *rerank, const struct advisor_ranking_event *heard)
{
    (void)pthread_mutex_lock(&rerank->lock);
    if (!rerank->taken && rerank->failed == KVT_OK)
        hear(rerank, heard);
    (void)pthread_mutex_unlock(&rerank->lock);
}

/* ---- the thread ---- */

/* Until it is taken, failed or is to end.  The caller has the lock. */
static void
follow(struct advisor_rerank *rerank)
{
    while (rerank->failed == KVT_OK && !rerank->taken && !rerank->retiring &&
           !atomic_load(&rerank->ending)) {
        if (rerank->waiting > ADVISOR_RERANK_REST) {
            struct chunk *chunks = take_chunks(rerank);

            (void)pthread_mutex_unlock(&rerank->lock);
            tell_all(rerank, chunks);
            (void)pthread_mutex_lock(&rerank->lock);
            if (rerank->hungry && rerank->failed == KVT_OK)
                rerank->failed = KVT_NOMEM;
            continue;
        }
        rerank->caught_up = true;
        (void)pthread_cond_wait(&rerank->changed, &rerank->lock);
        rerank->caught_up = rerank->taken;
    }
}

static void *
run(void *arg)
{
    struct advisor_rerank *rerank = arg;
    const enum kvt_err rc = load(rerank);

    (void)pthread_mutex_lock(&rerank->lock);
    if (rc != KVT_OK && rerank->failed == KVT_OK)
        rerank->failed = rc;
    follow(rerank);
    while (!rerank->retiring && !atomic_load(&rerank->ending))
        (void)pthread_cond_wait(&rerank->changed, &rerank->lock);
    (void)pthread_mutex_unlock(&rerank->lock);
    if (!rerank->taken)
        for (uint32_t k = 0; k < rerank->orders.count; k++)
            policy_tier_blocks_free(rerank->rosters[k]);
    rerank->orders.count = 0;
    for (uint32_t k = 0; k < rerank->retired_count; k++)
        policy_tier_blocks_free(rerank->retired[k]);
    rerank->retired_count = 0;
    (void)pthread_mutex_lock(&rerank->lock);
    rerank->over = true;
    (void)pthread_mutex_unlock(&rerank->lock);
    return NULL;
}

/* ---- the writer's thread ---- */

static enum kvt_err
load_learned(void *arg, const char *tier, const char *ordering, const void *bytes, size_t size)
{
    struct advisor_rerank *rerank = arg;
    const uint32_t at = advisor_orders_find(&rerank->orders, ordering);

    if (strcmp(tier, rerank->tier) == 0 && at < rerank->orders.count &&
        policy_tier_blocks_load(rerank->rosters[at], bytes, size) != KVT_OK)
        kvt_log_warn("advisor.planner", "learned",
                     "what %s learned of %s cannot be read: it begins anew", ordering, tier);
    return KVT_OK;
}

static enum kvt_err
make_rosters(struct advisor_rerank *rerank, const struct advisor_rerank_options *options)
{
    struct policy_tier_blocks_options roster = options->roster;

    for (uint32_t i = 0; i < options->orders.count; i++) {
        enum kvt_err rc;

        roster.ordering = options->orders.list[i];
        rc = policy_tier_blocks_new(&rerank->rosters[i], &roster);
        if (rc != KVT_OK)
            return rc;
        rerank->orders.list[rerank->orders.count++] = roster.ordering;
    }
    return KVT_OK;
}

enum kvt_err
advisor_rerank_new(struct advisor_rerank **out, const struct advisor_rerank_options *options,
                   struct advisor_txn *txn)
{
    struct advisor_rerank *rerank = kvt_calloc(1, sizeof(*rerank));
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (rerank == NULL) {
        advisor_store_end(txn);
        return KVT_NOMEM;
    }
    rerank->txn = *txn;
    txn->handle = NULL;
    (void)snprintf(rerank->tier, sizeof(rerank->tier), "%s", options->tier);
    rerank->total = advisor_store_block_count(&rerank->txn);
    rerank->holder_count = options->holder_count;
    rerank->holders = kvt_calloc(options->holder_count + 1, sizeof(*rerank->holders));
    (void)pthread_mutex_init(&rerank->lock, NULL);
    (void)pthread_cond_init(&rerank->changed, NULL);
    rerank->index = options->index;
    rerank->namespace_count = options->namespace_count;
    rerank->namespaces = kvt_calloc(options->namespace_count + 1, sizeof(*rerank->namespaces));
    if (rerank->holders != NULL && rerank->namespaces != NULL) {
        memcpy(rerank->holders, options->holders, options->holder_count * sizeof(*rerank->holders));
        memcpy(rerank->namespaces, options->namespaces,
               options->namespace_count * sizeof(*rerank->namespaces));
        rc = make_rosters(rerank, options);
    }
    if (rc == KVT_OK)
        rc = advisor_store_learned(&rerank->txn, load_learned, rerank);
    rerank->threaded = rc == KVT_OK && pthread_create(&rerank->thread, NULL, run, rerank) == 0;
    if (rc == KVT_OK && !rerank->threaded)
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        advisor_rerank_free(rerank);
        return rc;
    }
    *out = rerank;
    return KVT_OK;
}

void
advisor_rerank_free(struct advisor_rerank *rerank)
{
    if (rerank == NULL)
        return;
    (void)pthread_mutex_lock(&rerank->lock);
    atomic_store(&rerank->ending, true);
    (void)pthread_cond_signal(&rerank->changed);
    (void)pthread_mutex_unlock(&rerank->lock);
    if (rerank->threaded)
        (void)pthread_join(rerank->thread, NULL);
    for (uint32_t k = 0; k < rerank->orders.count; k++)
        policy_tier_blocks_free(rerank->rosters[k]);
    while (rerank->first != NULL) {
        struct chunk *next = rerank->first->next;

        kvt_free(rerank->first);
        rerank->first = next;
    }
    advisor_store_end(&rerank->txn);
    (void)pthread_cond_destroy(&rerank->changed);
    (void)pthread_mutex_destroy(&rerank->lock);
    kvt_free(rerank->holders);
    kvt_free(rerank->namespaces);
    kvt_free(rerank);
}

void
advisor_rerank_progress(struct advisor_rerank *rerank, uint64_t *done, uint64_t *total)
{
    *done = atomic_load_explicit(&rerank->done, memory_order_relaxed);
    *total = rerank->total;
}

enum kvt_err
advisor_rerank_take(struct advisor_rerank *rerank,
                    struct policy_tier_blocks *rosters[ADVISOR_RANKINGS_MAX], bool *cut)
{
    struct chunk *chunks = NULL;
    enum kvt_err rc;

    *cut = false;
    for (uint32_t k = 0; k < ADVISOR_RANKINGS_MAX; k++)
        rosters[k] = NULL;
    (void)pthread_mutex_lock(&rerank->lock);
    rc = rerank->failed;
    if (rc == KVT_OK && (!rerank->caught_up || rerank->waiting > ADVISOR_RERANK_REST))
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        assert(!rerank->taken);
        rerank->taken = true; /* the thread touches them no more */
        chunks = take_chunks(rerank);
    }
    (void)pthread_mutex_unlock(&rerank->lock);
    if (rc != KVT_OK)
        return rc;
    tell_all(rerank, chunks);
    if (rerank->hungry) {
        (void)pthread_mutex_lock(&rerank->lock);
        rerank->failed = rc = KVT_NOMEM;
        rerank->taken = false; /* the thread ends them */
        (void)pthread_mutex_unlock(&rerank->lock);
        return rc;
    }
    for (uint32_t k = 0; k < rerank->orders.count; k++) {
        policy_tier_blocks_settle(rerank->rosters[k]);
        rosters[k] = rerank->rosters[k];
    }
    *cut = rerank->cut;
    return KVT_OK;
}

void
advisor_rerank_retire(struct advisor_rerank *rerank, struct policy_tier_blocks *const *rosters,
                      uint32_t count)
{
    (void)pthread_mutex_lock(&rerank->lock);
    assert(!rerank->retiring && count <= RETIRED_MAX);
    for (uint32_t i = 0; i < count; i++)
        rerank->retired[i] = rosters[i];
    rerank->retired_count = count;
    rerank->retiring = true;
    if (!rerank->taken)
        atomic_store(&rerank->ending, true);
    (void)pthread_cond_signal(&rerank->changed);
    (void)pthread_mutex_unlock(&rerank->lock);
}

bool
advisor_rerank_is_over(struct advisor_rerank *rerank)
{
    bool over;

    (void)pthread_mutex_lock(&rerank->lock);
    over = rerank->over;
    (void)pthread_mutex_unlock(&rerank->lock);
    return over;
}
