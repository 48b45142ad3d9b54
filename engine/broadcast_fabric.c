/* A broadcast through the ranks' own tables, wherever they are.
 *
 *   rank 0    COPY G1 to G2, SHOW
 *   others    PULL G2 to G2, COPY G2 to G1
 *
 * A step is as many blocks as are kept for it, under names made for it alone.  All ranks do one
 * thing at once, and the next when the last has ended.  Where only some layers are wanted whole
 * blocks travel all the same, with whatever lay in the other layers, which nobody copies up. */
#include <assert.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/cond.h"
#include "base/random.h"

#include "engine/broadcast_kinds.h"

static_assert(ENGINE_STAGED_MAX <= ENGINE_BROADCAST_STEP, "a step fits its shares");

/* What one rank does of a step. */
struct share {
    struct fabric_broadcast *owner;
    struct engine_worker *worker;
    struct engine_job job;
    struct engine_item items[ENGINE_STAGED_MAX];
    size_t places[ENGINE_STAGED_MAX]; /* of each in the cast's job */
    size_t count;
    uint32_t staged;       /* its first block in G2 */
    enum kvt_err to_first; /* KVT_OK: it knows rank 0 */
};

struct fabric_broadcast {
    struct engine_broadcast head;
    struct {
        pthread_mutex_t lock; /* guards this struct; a leaf */
        pthread_cond_t ended;
        uint32_t running;
    } shared;
    uint64_t name; /* the last that was given */
    size_t items[ENGINE_STAGED_MAX];
    struct share shares[];
};

/* All at once ------------------------------------------------------------------------------ */

static void
leave(struct fabric_broadcast *fabric)
{
    (void)pthread_mutex_lock(&fabric->shared.lock);
    fabric->shared.running--;
    (void)pthread_cond_signal(&fabric->shared.ended);
    (void)pthread_mutex_unlock(&fabric->shared.lock);
}

static void
share_done(void *arg, const struct engine_outcome *outcome)
{
    (void)outcome; /* the items say it */
    leave(((struct share *)arg)->owner);
}

/* Ranks [from, to) do `what` to their shares; back when the last has ended. */
static void
all_do(struct fabric_broadcast *fabric, const struct engine_cast *cast,
       const struct engine_job *what, uint32_t from, uint32_t to)
{
    (void)pthread_mutex_lock(&fabric->shared.lock);
    fabric->shared.running = to - from;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    for (uint32_t r = from; r < to; r++) {
        struct share *share = &fabric->shares[r];
        enum kvt_err rc = KVT_OK;

        share->job = *what;
        share->job.priority = cast->job->priority;
        share->job.wait_ms = engine_cast_left(cast);
        share->job.items = share->items;
        share->job.count = share->count;
        share->job.done = share_done;
        share->job.arg = share;
        if (share->count > 0)
            rc = engine_worker_start(share->worker, &share->job);
        if (rc != KVT_OK)
            engine_job_fail(&share->job, rc);
        if (rc != KVT_OK || share->count == 0)
            leave(fabric);
    }
    (void)pthread_mutex_lock(&fabric->shared.lock);
    while (fabric->shared.running > 0)
        (void)pthread_cond_wait(&fabric->shared.ended, &fabric->shared.lock);
    (void)pthread_mutex_unlock(&fabric->shared.lock);
}

/* What failed goes no further.  KVT_OK, or how the first that failed did. */
static enum kvt_err
drop_failed(struct fabric_broadcast *fabric, struct engine_cast *cast, uint32_t rank)
{
    struct share *share = &fabric->shares[rank];
    enum kvt_err first = KVT_OK;
    size_t kept = 0;

    for (size_t i = 0; i < share->count; i++) {
        const enum kvt_err status = share->items[i].status;

        if (status != KVT_OK) {
            engine_cast_item(cast, rank, share->places[i], status);
            first = first == KVT_OK ? status : first;
            continue;
        }
        share->items[kept] = share->items[i];
        share->places[kept++] = share->places[i];
    }
    share->count = kept;
    return first;
}

/* Peers ------------------------------------------------------------------------------------ */

static enum kvt_err
connect_one(struct share *share, const struct engine_cast *cast, const struct kvt_buffer *first)
{
    enum kvt_err rc = engine_worker_connect(share->worker, ENGINE_PEER_SELF, first->data,
                                            first->size, engine_cast_left(cast), NULL);

    if (rc == KVT_EXISTS) { /* rank 0 before it was restarted */
        engine_worker_disconnect(share->worker, ENGINE_PEER_SELF);
        rc = engine_worker_connect(share->worker, ENGINE_PEER_SELF, first->data, first->size,
                                   engine_cast_left(cast), NULL);
    }
    return rc;
}

static void
connect_all(struct fabric_broadcast *fabric, const struct engine_cast *cast)
{
    struct kvt_buffer first;
    enum kvt_err rc = KVT_OK;
    bool known = true;

    for (uint32_t r = 1; r < fabric->head.ranks; r++)
        known = known && fabric->shares[r].to_first == KVT_OK;
    if (known)
        return;
    kvt_buffer_init(&first, ENGINE_METADATA_MAX);
    rc = engine_worker_describe(fabric->shares[0].worker, &first, engine_cast_left(cast), NULL);
    for (uint32_t r = 1; r < fabric->head.ranks; r++)
        if (fabric->shares[r].to_first != KVT_OK)
            fabric->shares[r].to_first =
                rc != KVT_OK ? rc : connect_one(&fabric->shares[r], cast, &first);
    kvt_buffer_release(&first);
}

/* A step ----------------------------------------------------------------------------------- */

static void
to_stage(struct fabric_broadcast *fabric, struct engine_cast *cast, size_t count)
{
    const struct engine_job *job = cast->job;
    struct share *first = &fabric->shares[0];

    first->count = count;
    for (size_t i = 0; i < count; i++) {
        first->places[i] = fabric->items[i];
        first->items[i] = (struct engine_item){
            .label = {.id = {.hash = ++fabric->name}, .prefix_hash = fabric->name},
            .source = job->items[fabric->items[i]].target,
            .target = first->staged + (uint32_t)i,
        };
    }
    all_do(fabric, cast,
           &(struct engine_job){.verb = ENGINE_COPY,
                                .from = KVT_TIER_G1,
                                .to = KVT_TIER_G2,
                                .layer = job->layer,
                                .layers = job->layers},
           0, 1);
    (void)drop_failed(fabric, cast, 0);
    for (size_t i = 0; i < first->count; i++)
        first->items[i].source = first->items[i].target;
    all_do(fabric, cast, &(struct engine_job){.verb = ENGINE_SHOW}, 0, 1);
    (void)drop_failed(fabric, cast, 0);
}

static void
to_others(struct fabric_broadcast *fabric, struct engine_cast *cast)
{
    const struct engine_job *job = cast->job;
    const struct share *first = &fabric->shares[0];

    for (uint32_t r = 1; r < fabric->head.ranks; r++) {
        struct share *share = &fabric->shares[r];

        share->count = first->count;
        for (size_t i = 0; i < first->count; i++) {
            share->places[i] = first->places[i];
            share->items[i] = first->items[i];
            share->items[i].target = share->staged + (uint32_t)i;
            share->items[i].status = share->to_first;
        }
        (void)drop_failed(fabric, cast, r);
    }
    all_do(fabric, cast,
           &(struct engine_job){.verb = ENGINE_PULL, .to = KVT_TIER_G2, .peer = ENGINE_PEER_SELF},
           1, fabric->head.ranks);
    for (uint32_t r = 1; r < fabric->head.ranks; r++) {
        struct share *share = &fabric->shares[r];
        const enum kvt_err rc = drop_failed(fabric, cast, r);

        if (rc != KVT_OK && share->to_first == KVT_OK)
            share->to_first = rc; /* one of the two may be another process now */
        for (size_t i = 0; i < share->count; i++) {
            share->items[i].source = share->items[i].target;
            share->items[i].target = job->items[share->places[i]].target;
        }
    }
    all_do(fabric, cast,
           &(struct engine_job){.verb = ENGINE_COPY,
                                .from = KVT_TIER_G2,
                                .to = KVT_TIER_G1,
                                .layer = job->layer,
                                .layers = job->layers},
           1, fabric->head.ranks);
    for (uint32_t r = 1; r < fabric->head.ranks; r++)
        (void)drop_failed(fabric, cast, r);
}

static void
fabric_run(struct engine_broadcast *broadcast, struct engine_cast *cast)
{
    struct fabric_broadcast *fabric = (struct fabric_broadcast *)broadcast;
    size_t at = 0;
    size_t count;

    connect_all(fabric, cast);
    while ((count = engine_cast_next(cast, &at, fabric->items, broadcast->staged)) > 0) {
        to_stage(fabric, cast, count);
        if (fabric->shares[0].count > 0)
            to_others(fabric, cast);
    }
}

/* Life ------------------------------------------------------------------------------------- */

static void
free_all(struct fabric_broadcast *fabric)
{
    (void)pthread_cond_destroy(&fabric->shared.ended);
    (void)pthread_mutex_destroy(&fabric->shared.lock);
    kvt_free(fabric);
}

static void
fabric_close(struct engine_broadcast *broadcast)
{
    struct fabric_broadcast *fabric = (struct fabric_broadcast *)broadcast;

    for (uint32_t r = 1; r < broadcast->ranks; r++)
        if (fabric->shares[r].to_first == KVT_OK)
            engine_worker_disconnect(fabric->shares[r].worker, ENGINE_PEER_SELF);
    free_all(fabric);
}

static const struct engine_broadcast_ops fabric_ops = {
    .kind = "fabric",
    .run = fabric_run,
    .close = fabric_close,
};

static enum kvt_err
check(struct engine_worker *const *ranks, uint32_t count, uint32_t staged, struct kvt_error *err)
{
    if (count == 0 || count > KVT_RANKS_MAX || staged == 0 || staged > ENGINE_STAGED_MAX)
        return kvt_error_set(err, KVT_INVALID, "broadcast: %" PRIu32 " ranks, %" PRIu32 " blocks",
                             count, staged);
    for (uint32_t r = 0; r < count; r++)
        if (ranks[r]->blocks[KVT_TIER_G2] < staged)
            return kvt_error_set(err, KVT_INVALID,
                                 "broadcast: G2 of rank %" PRIu32 " has %" PRIu32
                                 " blocks, fewer than %" PRIu32,
                                 r, ranks[r]->blocks[KVT_TIER_G2], staged);
    return KVT_OK;
}

enum kvt_err
engine_broadcast_fabric(struct engine_broadcast **out, struct engine_worker *const *ranks,
                        uint32_t count, uint32_t staged, struct kvt_error *err)
{
    struct fabric_broadcast *fabric;
    enum kvt_err rc = check(ranks, count, staged, err);

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    fabric = kvt_calloc(1, sizeof(*fabric) + count * sizeof(fabric->shares[0]));
    if (fabric == NULL || pthread_mutex_init(&fabric->shared.lock, NULL) != 0)
        goto fail_memory;
    if (!kvt_cond_init(&fabric->shared.ended))
        goto fail_lock;
    fabric->head.ops = &fabric_ops;
    fabric->head.ranks = count;
    fabric->head.staged = staged;
    kvt_random_system(&fabric->name, sizeof(fabric->name));
    for (uint32_t r = 0; r < count; r++)
        fabric->shares[r] = (struct share){
            .owner = fabric,
            .worker = ranks[r],
            .staged = ranks[r]->blocks[KVT_TIER_G2] - staged,
            .to_first = KVT_UNAVAILABLE,
        };
    rc = engine_broadcast_open(&fabric->head, err);
    if (rc != KVT_OK) {
        free_all(fabric);
        return rc;
    }
    *out = &fabric->head;
    return KVT_OK;

fail_lock:
    (void)pthread_mutex_destroy(&fabric->shared.lock);
fail_memory:
    kvt_free(fabric);
    return kvt_error_set(err, KVT_NOMEM, "broadcast");
}
