/* A broadcast through the ranks' own tables, wherever they are.
 *
 *   rank 0    COPY G1 to G2, SHOW
 *   others    PULL G2 to G2, COPY G2 to G1
 *
 * A step is as many blocks as are kept for it, under names made for it alone.  All ranks do one
 * thing at once, and the next when the last has ended.  Where only some layers are wanted whole
 * blocks travel all the same, with whatever lay in the other layers, which nobody copies up. */
#include <inttypes.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "engine/replica/broadcast_internal.h"
#include "engine/replica/broadcast_shares.h"

struct fabric_broadcast {
    struct engine_broadcast head;
    struct engine_shares *shares;
    uint64_t name; /* the last that was given */
    size_t items[ENGINE_STAGED_MAX];
    uint32_t staged[KVT_RANKS_MAX]; /* each rank's first of these blocks in G2 */
};

/* Peers ------------------------------------------------------------------------------------ */

static void
connect_all(struct fabric_broadcast *fabric, const struct engine_broadcast_job *task)
{
    struct kvt_buffer first;
    enum kvt_err rc;

    if (engine_shares_know_first(fabric->shares))
        return;
    kvt_buffer_init(&first, ENGINE_METADATA_MAX);
    rc = engine_worker_describe(fabric->shares->of[0].worker, &first,
                                engine_broadcast_job_left(task), NULL);
    for (uint32_t r = 1; r < fabric->head.ranks; r++) {
        struct engine_share *share = &fabric->shares->of[r];

        if (share->to_first == KVT_OK)
            continue;
        share->to_first = rc;
        if (rc == KVT_OK)
            engine_share_connect(share, task, ENGINE_PEER_SELF, &first, NULL);
    }
    kvt_buffer_release(&first);
}

/* A step ----------------------------------------------------------------------------------- */

static void
to_stage(struct fabric_broadcast *fabric, struct engine_broadcast_job *task, size_t count)
{
    const struct engine_job *job = task->job;
    struct engine_share *first = &fabric->shares->of[0];

    first->count = count;
    for (size_t i = 0; i < count; i++) {
        first->places[i] = fabric->items[i];
        first->items[i] = (struct engine_item){
            .label = {.id = {.hash = ++fabric->name}, .prefix_hash = fabric->name},
            .source = job->items[fabric->items[i]].target,
            .target = fabric->staged[0] + (uint32_t)i,
        };
    }
    engine_shares_do(fabric->shares, task,
                     &(struct engine_job){.verb = ENGINE_COPY,
                                          .from = KVT_TIER_G1,
                                          .to = KVT_TIER_G2,
                                          .layer = job->layer,
                                          .layers = job->layers},
                     0, 1);
    (void)engine_shares_drop_failed(fabric->shares, task, 0);
    for (size_t i = 0; i < first->count; i++)
        first->items[i].source = first->items[i].target;
    engine_shares_do(fabric->shares, task, &(struct engine_job){.verb = ENGINE_SHOW}, 0, 1);
    (void)engine_shares_drop_failed(fabric->shares, task, 0);
}

static void
to_others(struct fabric_broadcast *fabric, struct engine_broadcast_job *task)
{
    const struct engine_job *job = task->job;
    const struct engine_share *first = &fabric->shares->of[0];

    for (uint32_t r = 1; r < fabric->head.ranks; r++) {
        struct engine_share *share = &fabric->shares->of[r];

        share->count = first->count;
        for (size_t i = 0; i < first->count; i++) {
            share->places[i] = first->places[i];
            share->items[i] = first->items[i];
            share->items[i].target = fabric->staged[r] + (uint32_t)i;
            share->items[i].status = share->to_first;
        }
        (void)engine_shares_drop_failed(fabric->shares, task, r);
    }
    engine_shares_do(
        fabric->shares, task,
        &(struct engine_job){.verb = ENGINE_PULL, .to = KVT_TIER_G2, .peer = ENGINE_PEER_SELF}, 1,
        fabric->head.ranks);
    for (uint32_t r = 1; r < fabric->head.ranks; r++) {
        struct engine_share *share = &fabric->shares->of[r];
        const enum kvt_err rc = engine_shares_drop_failed(fabric->shares, task, r);

        if (rc != KVT_OK && share->to_first == KVT_OK)
            share->to_first = rc; /* one of the two may be another process now */
        for (size_t i = 0; i < share->count; i++) {
            share->items[i].source = share->items[i].target;
            share->items[i].target = job->items[share->places[i]].target;
        }
    }
    engine_shares_do(fabric->shares, task,
                     &(struct engine_job){.verb = ENGINE_COPY,
                                          .from = KVT_TIER_G2,
                                          .to = KVT_TIER_G1,
                                          .layer = job->layer,
                                          .layers = job->layers},
                     1, fabric->head.ranks);
    for (uint32_t r = 1; r < fabric->head.ranks; r++)
        (void)engine_shares_drop_failed(fabric->shares, task, r);
}

static void
fabric_run(struct engine_broadcast *broadcast, struct engine_broadcast_job *task)
{
    struct fabric_broadcast *fabric = (struct fabric_broadcast *)broadcast;
    size_t at = 0;
    size_t count;

    connect_all(fabric, task);
    while ((count = engine_broadcast_job_next(task, &at, fabric->items, broadcast->staged)) > 0) {
        to_stage(fabric, task, count);
        if (fabric->shares->of[0].count > 0)
            to_others(fabric, task);
    }
}

/* Life ------------------------------------------------------------------------------------- */

static void
free_all(struct fabric_broadcast *fabric)
{
    engine_shares_free(fabric->shares);
    kvt_free(fabric);
}

static void
fabric_close(struct engine_broadcast *broadcast)
{
    struct fabric_broadcast *fabric = (struct fabric_broadcast *)broadcast;

    engine_shares_disconnect(fabric->shares, ENGINE_PEER_SELF);
    free_all(fabric);
}

static const struct engine_broadcast_ops fabric_ops = {
    .way = ENGINE_BY_FABRIC,
    .why = "nothing else was asked for",
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
    fabric = kvt_calloc(1, sizeof(*fabric));
    if (fabric == NULL)
        return kvt_error_set(err, KVT_NOMEM, "broadcast");
    fabric->head.ops = &fabric_ops;
    fabric->head.ranks = count;
    fabric->head.staged = staged;
    kvt_random_system(&fabric->name, sizeof(fabric->name));
    for (uint32_t r = 0; r < count; r++)
        fabric->staged[r] = ranks[r]->blocks[KVT_TIER_G2] - staged;
    rc = engine_shares_make(&fabric->shares, ranks, count, err);
    if (rc == KVT_OK)
        rc = engine_broadcast_open(&fabric->head, err);
    if (rc != KVT_OK) {
        free_all(fabric);
        return rc;
    }
    *out = &fabric->head;
    return KVT_OK;
}
