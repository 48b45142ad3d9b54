#include <assert.h>
#include <inttypes.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "kvbm/pool/mutable_block.h"

#include "worker/replay/block_content.h"
#include "worker/replay/request_server_internal.h"

enum {
    G1_WAIT = 5000,      /* ms for holders of G1 to let go; the edge below always does */
    PUSH_WAIT = 5000,    /* ms for the way down to take a computed block */
    ONBOARD_WAIT = 1000, /* ms between looks at what was asked for; its deadline is the manager's */
};

/* Is it the block it should be?  Counted either way; a wrong one is shouted about. */
static bool
verify(struct worker_stack *stack, enum kvt_tier tier, const struct kvbm_label *label,
       const void *bytes)
{
    const size_t size = stack->shared->settings->layout.block_size;
    size_t first;
    const size_t wrong = worker_content_check(label->id.hash, bytes, size, &first);

    worker_counter_add(&stack->counters.verified_blocks, 1);
    worker_counter_add(&stack->counters.verified_bytes, size);
    if (wrong == 0)
        return true;
    worker_counter_add(&stack->counters.wrong_bytes, wrong);
    worker_counter_add(&stack->counters.wrong_blocks, 1);
    kvt_log_error("worker.verify", "wrong_bytes",
                  "%s: block %016" PRIx64 " (position %" PRIu32 ") read from %s has %zu wrong "
                  "bytes, the first at offset %zu",
                  stack->name, label->id.hash, label->id.position, kvt_tier_name(tier), wrong,
                  first);
    return false;
}

static void
drop_all(struct kvbm_pool *pool, const struct kvt_handle *handles, size_t from, size_t to)
{
    /* Deepest first, so that a prefix outlives what needs it. */
    while (to > from)
        kvbm_pool_drop(pool, handles[--to]);
}

/* Where the bytes of a G1 block can be read: in place, or copied out of the device. */
static const void *
readable(struct worker_stack *stack, struct kvt_handle handle, uint32_t scratch)
{
    struct kvt_copy copy = {handle.block, scratch, KVT_OK};
    const void *address = kvbm_storage_address(stack->g1.storage, handle.block);

    if (address != NULL)
        return address;
    if (kvbm_transfer_run(stack->shared->transfer, &(struct kvbm_transfer_request){
                                                       .path = KVT_PATH_D2H,
                                                       .source = stack->g1.storage,
                                                       .target = stack->scratch,
                                                       .copies = &copy,
                                                       .count = 1,
                                                   }) != KVT_OK)
        return NULL;
    return kvbm_storage_address(stack->scratch, scratch);
}

/* Name a fully written block and make it findable.  Takes the handle; true when the pool has the
 * block now, by this call or already. */
static bool
enter(struct kvbm_pool *pool, struct kvt_handle *handle, const struct kvbm_label *label)
{
    enum kvt_err rc = kvbm_block_complete(pool, *handle, label, NULL);

    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, handle, NULL);
    return rc == KVT_OK || rc == KVT_EXISTS;
}

static enum kvt_err
allocate(struct worker_stack *stack, struct kvbm_pool *pool, uint32_t count,
         struct kvt_handle *handles)
{
    enum kvt_err rc = kvbm_pool_allocate_wait(pool, count, handles, G1_WAIT);

    if (rc != KVT_OK) {
        worker_counter_add(&stack->counters.unplaced, count);
        return rc;
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = kvbm_block_begin(pool, handles[i], NULL);
        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
    }
    return KVT_OK;
}

/* A block has come up: kvbm_onboard_check_fn.  G1 is looked at by the request itself, which is
 * alone there; where it is a device's, nobody else could. */
static bool
check_arrival(void *arg, enum kvt_tier from, enum kvt_tier to, const struct kvbm_label *label,
              const void *bytes, size_t size)
{
    (void)size;
    return to == KVT_TIER_G1 || verify(arg, from, label, bytes);
}

/* Wrong in G1: it goes from there, and from G2 when that is where the bytes came from. */
static void
discard(struct worker_stack *stack, enum kvt_tier origin, uint64_t hash, struct kvt_handle handle)
{
    struct kvt_handle below;

    kvbm_pool_discard(stack->g1.pool, handle);
    if (origin != KVT_TIER_G1 && kvbm_pool_find(stack->g2.pool, hash, &below) == KVT_OK)
        kvbm_pool_discard(stack->g2.pool, below);
}

static void
count_hit(struct worker_counters *counters, enum kvt_tier origin, size_t size)
{
    switch (origin) {
    case KVT_TIER_G1: worker_counter_add(&counters->hits_g1, 1); break;
    case KVT_TIER_G2: worker_counter_add(&counters->hits_g2, 1); break;
    case KVT_TIER_G3:
        worker_counter_add(&counters->hits_g3, 1);
        worker_counter_add(&counters->bytes_g3_g2, size);
        break;
    case KVT_TIER_G4:
        worker_counter_add(&counters->hits_g4, 1);
        worker_counter_add(&counters->bytes_g4_g2, size);
        break;
    }
}

/* Hold what G1 has of these blocks, from the first on: that needs nobody else. */
static uint32_t
hold_there(struct worker_stack *stack, const struct kvbm_label *labels, uint32_t count,
           struct kvt_handle *handles)
{
    uint64_t hashes[WORKER_STACK_TAKE];

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = labels[i].id.hash;
    return (uint32_t)kvbm_pool_match(stack->g1.pool, hashes, count, handles);
}

/* Read every byte of what is held in G1, as an engine would; without `onboard` it was there.  Takes
 * the handles; returns how many from the first on are right. */
static uint32_t
read_held(struct worker_stack *stack, const struct kvbm_onboard *onboard,
          const struct kvbm_label *labels, const struct kvt_handle *handles, uint32_t count)
{
    uint32_t good = 0;
    uint32_t seen = 0;

    while (good < count) {
        const enum kvt_tier origin =
            onboard == NULL ? KVT_TIER_G1 : kvbm_onboard_origin(onboard, good);
        const enum kvt_tier nearest = origin == KVT_TIER_G1 ? KVT_TIER_G1 : KVT_TIER_G2;
        const void *bytes = readable(stack, handles[good], 0);

        seen = good + 1;
        if (bytes == NULL || !verify(stack, nearest, &labels[good], bytes)) {
            discard(stack, origin, labels[good].id.hash, handles[good]);
            break;
        }
        count_hit(&stack->counters, origin, stack->g2.storage->block_size);
        good++;
    }
    drop_all(stack->g1.pool, handles, seen, count);
    drop_all(stack->g1.pool, handles, 0, good);
    return good;
}

uint32_t
worker_request_server_take(struct worker_request_server *serve, uint32_t at, uint32_t count,
                           uint64_t deadline_ms, enum kvt_err *why, bool *again)
{
    struct worker_stack *stack = serve->stack;
    const struct kvbm_label *labels = serve->labels + at;
    struct kvbm_onboard *onboard = NULL;
    struct kvt_handle handles[WORKER_STACK_TAKE];
    uint32_t held;
    uint32_t good;

    assert(count <= stack->take_max);
    *again = false;
    *why = KVT_OK;
    held = hold_there(stack, labels, count, handles);
    if (held == 0) {
        *why = kvbm_onboard_start(&onboard, stack->manager,
                                  &(struct kvbm_onboard_request){
                                      .labels = labels,
                                      .count = count,
                                      .target = KVT_TIER_G1,
                                      .deadline_ms = deadline_ms,
                                      .check = check_arrival,
                                      .check_arg = stack,
                                  },
                                  NULL);
        if (*why != KVT_OK)
            return 0;
        do
            *why = kvbm_onboard_wait(onboard, ONBOARD_WAIT, NULL);
        while (*why == KVT_BUSY);
        held = (uint32_t)kvbm_onboard_take(onboard, handles);
    }
    good = read_held(stack, onboard, labels, handles, held);
    kvbm_onboard_release(onboard);
    if (good < held) {
        *why = KVT_CORRUPT;
        *again = true;
    }
    return good;
}

/* Write what the model would have: in place, or in host memory and then copied to the device. */
static bool
make_bytes(struct worker_stack *stack, const struct kvbm_label *labels,
           const struct kvt_handle *handles, uint32_t count)
{
    const size_t size = stack->shared->settings->layout.block_size;
    struct kvt_copy copies[WORKER_STACK_CHUNK];

    for (uint32_t i = 0; i < count; i++) {
        void *address = kvbm_storage_address(stack->g1.storage, handles[i].block);

        copies[i] = (struct kvt_copy){i, handles[i].block, KVT_OK};
        if (address == NULL)
            address = kvbm_storage_address(stack->scratch, i);
        worker_content_fill(labels[i].id.hash, address, size);
    }
    if (kvbm_storage_address(stack->g1.storage, 0) != NULL)
        return true;
    return kvbm_transfer_run(stack->shared->transfer, &(struct kvbm_transfer_request){
                                                          .path = KVT_PATH_H2D,
                                                          .source = stack->scratch,
                                                          .target = stack->g1.storage,
                                                          .copies = copies,
                                                          .count = count,
                                                      }) == KVT_OK;
}

void
worker_request_server_compute(struct worker_request_server *serve, uint32_t at, uint32_t count)
{
    struct worker_stack *stack = serve->stack;
    const struct kvbm_label *labels = serve->labels + at;
    struct kvt_handle handles[WORKER_STACK_CHUNK];

    assert(count <= WORKER_STACK_CHUNK);
    worker_counter_add(&stack->counters.computed, count);
    if (allocate(stack, stack->g1.pool, count, handles) != KVT_OK)
        return;
    if (make_bytes(stack, labels, handles, count)) {
        for (uint32_t i = 0; i < count; i++)
            if (enter(stack->g1.pool, &handles[i], &labels[i]))
                /* AGAIN: it stays in G1 and is counted by the manager. */
                (void)!kvbm_manager_push(stack->manager, handles[i], PUSH_WAIT);
    }
    drop_all(stack->g1.pool, handles, 0, count);
}
