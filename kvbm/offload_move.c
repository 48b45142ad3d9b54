#include <assert.h>

#include "kvbm/block.h"
#include "kvbm/offload_internal.h"

/* One block of a batch on its way. */
struct passenger {
    struct kvt_handle source;
    struct kvt_handle target;
    struct kvbm_label label;
    enum kvt_err status;
};

/* What became of the block, and with it of our hold on the source. */
static bool
settle(struct kvbm_edge_state *edge, const struct passenger *passenger)
{
    struct kvbm_pool *pool = edge->source.pool;

    switch (passenger->status) {
    case KVT_OK:
        atomic_fetch_add(&edge->blocks, 1);
        atomic_fetch_add(&edge->bytes, edge->source.storage->block_size);
        break;
    case KVT_EXISTS: atomic_fetch_add(&edge->present, 1); break;
    case KVT_CORRUPT:
    case KVT_NOTFOUND:
        atomic_fetch_add(&edge->corrupt, 1);
        atomic_fetch_add(&edge->failed, 1);
        /* Or it would be there again after a restart. */
        (void)kvbm_storage_forget(edge->source.storage, &passenger->source.block, 1);
        kvbm_pool_discard(pool, passenger->source);
        return false;
    case KVT_FULL: atomic_fetch_add(&edge->full, 1); /* fall through */
    default:
        atomic_fetch_add(&edge->failed, 1);
        /* What may work by itself later is tried again when the edge does; a refusal is final. */
        if (!kvt_err_retryable(passenger->status))
            kvbm_pool_set_aside(pool, passenger->source);
        if (edge->which == KVBM_EDGE_G1)
            kvbm_pool_drop(pool, passenger->source);
        else
            kvbm_pool_drop_cold(pool, passenger->source);
        return false;
    }
    kvbm_pool_mark_saved(pool, passenger->source);
    if (edge->which == KVBM_EDGE_G1)
        kvbm_pool_drop(pool, passenger->source); /* the engine goes on using it */
    else
        (void)kvbm_pool_evict(pool, passenger->source); /* or it stays with who found it */
    return true;
}

/* What a passenger is called in the target. */
static struct kvbm_storage_name
name_there(const struct passenger *mover)
{
    return (struct kvbm_storage_name){
        .block = mover->target.block,
        .id = mover->label.id,
        .prefix_hash = mover->label.prefix_hash,
        .tokens_hash = mover->label.tokens_hash,
    };
}

static void
bind_movers(struct kvbm_edge_state *edge, const struct passenger *movers, size_t count)
{
    struct kvbm_storage_name names[KVBM_OFFLOAD_BATCH];

    for (size_t i = 0; i < count; i++)
        names[i] = name_there(&movers[i]);
    kvbm_storage_bind(edge->target.storage, names, count);
}

/* A target that outlives the process remembers what arrived before anybody can find it.  Where it
 * cannot, the block is good for as long as the process lives. */
static void
commit_arrivals(struct kvbm_edge_state *edge, const struct passenger *movers,
                const struct kvt_copy *copies, size_t count)
{
    struct kvbm_storage_name names[KVBM_OFFLOAD_BATCH];
    size_t arrived = 0;

    for (size_t i = 0; i < count; i++)
        if (copies[i].status == KVT_OK)
            names[arrived++] = name_there(&movers[i]);
    if (arrived > 0)
        (void)kvbm_storage_commit(edge->target.storage, names, arrived);
}

/* Name the arrived blocks in the target; what did not arrive goes back to being free. */
static void
register_arrivals(struct kvbm_edge_state *edge, struct passenger *movers,
                  const struct kvt_copy *copies, size_t count)
{
    struct kvbm_pool *pool = edge->target.pool;

    commit_arrivals(edge, movers, copies, count);
    for (size_t i = 0; i < count; i++) {
        struct passenger *mover = &movers[i];
        enum kvt_err rc = copies[i].status;

        if (rc == KVT_OK)
            rc = kvbm_block_complete(pool, mover->target, &mover->label, NULL);
        if (rc == KVT_OK)
            rc = kvbm_pool_register(pool, &mover->target, NULL);
        mover->status = rc;
        kvbm_pool_drop(pool, mover->target);
    }
}

/* Sort out what the target has; returns how many must move, first in the array. */
static size_t
part_movers(struct kvbm_edge_state *edge, struct passenger *passengers, size_t count)
{
    size_t movers = 0;

    for (size_t i = 0; i < count; i++) {
        struct passenger swap;

        if (kvbm_pool_has(edge->target.pool, passengers[i].label.id.hash)) {
            passengers[i].status = KVT_EXISTS;
            continue;
        }
        swap = passengers[movers];
        passengers[movers++] = passengers[i];
        passengers[i] = swap;
    }
    return movers;
}

static void
move_to_pool(struct kvbm_edge_state *edge, struct passenger *passengers, size_t count)
{
    struct kvbm_offload *offload = edge->offload;
    struct kvt_handle targets[KVBM_OFFLOAD_BATCH];
    struct kvt_copy copies[KVBM_OFFLOAD_BATCH];
    const size_t movers = part_movers(edge, passengers, count);
    enum kvt_err rc;

    if (movers == 0)
        return;
    kvbm_offload_make_room(offload, (enum kvbm_edge)(edge->which + 1), (uint32_t)movers,
                           offload->options.room_wait_ms);
    rc = kvbm_pool_allocate(edge->target.pool, movers, targets);
    if (rc != KVT_OK) {
        for (size_t i = 0; i < movers; i++)
            passengers[i].status = rc;
        return;
    }
    for (size_t i = 0; i < movers; i++) {
        passengers[i].target = targets[i];
        copies[i] = (struct kvt_copy){passengers[i].source.block, targets[i].block, KVT_OK};
        rc = kvbm_block_begin(edge->target.pool, targets[i], NULL);
        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
    }
    bind_movers(edge, passengers, movers);
    /* Each copy carries its own status; the first failure adds nothing to them. */
    rc = kvbm_transfer_run(offload->options.transfer, &(struct kvbm_transfer_request){
                                                          .path = edge->path,
                                                          .source = edge->source.storage,
                                                          .target = edge->target.storage,
                                                          .copies = copies,
                                                          .count = movers,
                                                      });
    (void)rc;
    register_arrivals(edge, passengers, copies, movers);
}

/* Bring the bodies into host memory where they are not; sets status where that fails. */
static void
stage(struct kvbm_edge_state *edge, struct passenger *passengers, size_t count)
{
    struct kvt_copy copies[KVBM_OFFLOAD_BATCH];
    enum kvt_err rc;

    for (size_t i = 0; i < count; i++)
        copies[i] = (struct kvt_copy){passengers[i].source.block, (uint32_t)i, KVT_OK};
    rc = kvbm_transfer_run(edge->offload->options.transfer, &(struct kvbm_transfer_request){
                                                                .path = edge->path,
                                                                .source = edge->source.storage,
                                                                .target = edge->staging,
                                                                .copies = copies,
                                                                .count = count,
                                                            });
    (void)rc; /* each copy carries its own status */
    for (size_t i = 0; i < count; i++)
        passengers[i].status = copies[i].status;
}

static void
move_to_sink(struct kvbm_edge_state *edge, struct passenger *passengers, size_t count)
{
    struct kvbm_offload_item items[KVBM_OFFLOAD_BATCH];
    size_t owner[KVBM_OFFLOAD_BATCH];
    size_t ready = 0;

    if (edge->staging != NULL)
        stage(edge, passengers, count);
    for (size_t i = 0; i < count; i++) {
        const void *body;

        if (passengers[i].status != KVT_OK)
            continue;
        body = edge->staging != NULL
                   ? kvbm_storage_address(edge->staging, (uint32_t)i)
                   : kvbm_storage_address(edge->source.storage, passengers[i].source.block);
        owner[ready] = i;
        items[ready++] = (struct kvbm_offload_item){passengers[i].label.id, body, KVT_IO};
    }
    if (ready == 0)
        return;
    edge->offload->options.sink(edge->offload->options.sink_arg, items, ready);
    for (size_t i = 0; i < ready; i++) {
        enum kvt_err *status = &passengers[owner[i]].status;

        *status = items[i].status;
        /* These two speak of our copy when it cannot be read; from a sink they mean "refused". */
        if (*status == KVT_CORRUPT || *status == KVT_NOTFOUND)
            *status = KVT_INVALID;
    }
}

size_t
kvbm_offload_move(struct kvbm_edge_state *edge, const struct kvt_handle *handles, size_t count)
{
    struct passenger passengers[KVBM_OFFLOAD_BATCH];
    size_t safe = 0;

    assert(count <= KVBM_OFFLOAD_BATCH);
    for (size_t i = 0; i < count; i++)
        passengers[i] = (struct passenger){
            .source = handles[i],
            .label = kvbm_pool_label(edge->source.pool, handles[i]),
            .status = KVT_OK,
        };
    if (edge->target.pool != NULL)
        move_to_pool(edge, passengers, count);
    else
        move_to_sink(edge, passengers, count);
    for (size_t i = 0; i < count; i++)
        if (settle(edge, &passengers[i]))
            safe++;
    return safe;
}
