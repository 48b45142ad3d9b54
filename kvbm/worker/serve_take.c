#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "kvbm/block.h"
#include "kvbm/worker/content.h"
#include "kvbm/worker/serve_internal.h"

enum {
    G1_WAIT = 5000,   /* ms for holders of G1 to let go; the edge below always does */
    PUSH_WAIT = 5000, /* ms for the way down to take a computed block */
};

/* Is it the block it should be?  Counted either way; a wrong one is shouted about. */
static bool
verify(struct kvbm_stack *stack, enum kvt_tier tier, const struct kvbm_label *label,
       const void *bytes)
{
    const size_t size = stack->shared->settings->layout.block_size;
    size_t first;
    const size_t wrong = kvbm_content_check(label->id.hash, bytes, size, &first);

    kvbm_count(&stack->counters.verified_blocks, 1);
    kvbm_count(&stack->counters.verified_bytes, size);
    if (wrong == 0)
        return true;
    kvbm_count(&stack->counters.wrong_bytes, wrong);
    kvbm_count(&stack->counters.wrong_blocks, 1);
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
readable(struct kvbm_stack *stack, struct kvt_handle handle, uint32_t scratch)
{
    struct kvt_copy copy = {handle.block, scratch, KVT_OK};
    const void *address = kvbm_storage_address(stack->g1.storage, handle.block);

    if (address != NULL)
        return address;
    if (kvbm_transfer_run(stack->shared->transfer, &(struct kvbm_transfer_request){
                                                       .path = KVBM_PATH_D2H,
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
allocate(struct kvbm_stack *stack, struct kvbm_pool *pool, uint32_t count,
         struct kvt_handle *handles)
{
    enum kvt_err rc = kvbm_pool_allocate_wait(pool, count, handles, G1_WAIT);

    if (rc != KVT_OK) {
        kvbm_count(&stack->counters.unplaced, count);
        return rc;
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = kvbm_block_begin(pool, handles[i], NULL);
        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
    }
    return KVT_OK;
}

/* What a tier takes is measured where its bytes are waited for. */
struct watch {
    struct kvbm_cost *cost;
    enum kvt_tier tier;
    uint64_t bytes;
    uint64_t ahead;
    uint64_t began_ns;
};

static struct watch
watch_begin(const struct kvbm_stack *stack, enum kvt_tier tier, uint32_t blocks)
{
    struct watch watch = {.cost = stack->shared->cost, .tier = tier};

    if (watch.cost == NULL)
        return watch;
    watch.bytes = blocks * (uint64_t)stack->g2.storage->block_size;
    watch.ahead = kvbm_cost_begin(watch.cost, tier, watch.bytes);
    watch.began_ns = kvt_clock_mono_ns();
    return watch;
}

static void
watch_end(const struct watch *watch, bool good)
{
    const uint64_t now_ns = kvt_clock_mono_ns();

    if (watch->cost != NULL)
        kvbm_cost_end(watch->cost, watch->tier, watch->bytes, watch->ahead,
                      (double)(now_ns - watch->began_ns) / 1e6, good, now_ns / 1000000);
}

/* Move blocks up, and learn how long that takes. */
static enum kvt_err
run_watched(struct kvbm_stack *stack, enum kvt_tier tier,
            const struct kvbm_transfer_request *request)
{
    const struct watch watch = watch_begin(stack, tier, (uint32_t)request->count);
    const enum kvt_err rc = kvbm_transfer_run(stack->shared->transfer, request);

    watch_end(&watch, rc == KVT_OK);
    return rc;
}

/* Copy held G2 blocks into G1 and check them there: this reads every byte of the copy the engine
 * would use.  A wrong one is dropped from G2 too.  Returns how many from the first on are right. */
static uint32_t
onboard(struct kvbm_stack *stack, const struct kvbm_label *labels, struct kvt_handle *g2,
        uint32_t count)
{
    struct kvt_handle g1[KVBM_STACK_CHUNK];
    struct kvt_copy copies[KVBM_STACK_CHUNK];
    uint32_t good = 0;
    bool broken = false;

    if (count == 0 || allocate(stack, stack->g1.pool, count, g1) != KVT_OK) {
        drop_all(stack->g2.pool, g2, 0, count);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        copies[i] = (struct kvt_copy){g2[i].block, g1[i].block, KVT_OK};
    if (run_watched(stack, KVT_TIER_G2,
                    &(struct kvbm_transfer_request){
                        .path = KVBM_PATH_H2D,
                        .source = stack->g2.storage,
                        .target = stack->g1.storage,
                        .copies = copies,
                        .count = count,
                    }) != KVT_OK)
        kvt_log_error("worker.serve", "onboard_failed", "%s: copying to the device failed",
                      stack->name);
    for (uint32_t i = 0; i < count; i++) {
        const void *bytes = copies[i].status == KVT_OK ? readable(stack, g1[i], i) : NULL;
        const bool right = bytes != NULL && verify(stack, KVT_TIER_G2, &labels[i], bytes);

        if (right && !broken)
            good++;
        broken = broken || !right;
        if (right && enter(stack->g1.pool, &g1[i], &labels[i]))
            kvbm_pool_mark_saved(stack->g1.pool, g1[i]); /* G2 has it */
        if (bytes != NULL && !right) {
            kvbm_pool_discard(stack->g2.pool, g2[i]);
            g2[i].block = UINT32_MAX;
        }
    }
    drop_all(stack->g1.pool, g1, 0, count);
    for (uint32_t i = count; i > 0; i--)
        if (g2[i - 1].block != UINT32_MAX)
            kvbm_pool_drop(stack->g2.pool, g2[i - 1]);
    return good;
}

static uint32_t
take_g1(struct kvbm_stack *stack, const struct kvbm_label *labels, uint32_t count)
{
    struct kvt_handle handle;
    uint32_t good = 0;

    for (; good < count; good++) {
        const void *bytes;

        if (kvbm_pool_find(stack->g1.pool, labels[good].id.hash, &handle) != KVT_OK)
            break;
        bytes = readable(stack, handle, 0);
        if (bytes == NULL || !verify(stack, KVT_TIER_G1, &labels[good], bytes)) {
            kvbm_pool_discard(stack->g1.pool, handle);
            break;
        }
        kvbm_pool_drop(stack->g1.pool, handle);
    }
    kvbm_count(&stack->counters.hits_g1, good);
    return good;
}

static uint32_t
take_g2(struct kvbm_stack *stack, const struct kvbm_label *labels, uint32_t count)
{
    struct kvt_handle handles[KVBM_STACK_CHUNK];
    uint64_t hashes[KVBM_STACK_CHUNK];
    uint32_t found;

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = labels[i].id.hash;
    found = (uint32_t)kvbm_pool_match(stack->g2.pool, hashes, count, handles);
    found = onboard(stack, labels, handles, found);
    kvbm_count(&stack->counters.hits_g2, found);
    return found;
}

/* Blocks have arrived in G2 from below: check them, make them findable there, go on to G1.  Takes
 * the handles.  A block that did not arrive or is wrong (its status is then CORRUPT) ends the
 * prefix. */
static uint32_t
arrive(struct kvbm_stack *stack, enum kvt_tier from, const struct kvbm_label *labels,
       struct kvt_handle *g2, enum kvt_err *statuses, uint32_t count)
{
    uint32_t good = 0;

    for (; good < count && statuses[good] == KVT_OK; good++) {
        const void *bytes = kvbm_storage_address(stack->g2.storage, g2[good].block);

        if (!verify(stack, from, &labels[good], bytes)) {
            statuses[good] = KVT_CORRUPT;
            break;
        }
        if (!enter(stack->g2.pool, &g2[good], &labels[good]))
            break;
        kvbm_pool_mark_saved(stack->g2.pool, g2[good]); /* where it came from still has it */
    }
    drop_all(stack->g2.pool, g2, good, count);
    return onboard(stack, labels, g2, good);
}

static uint32_t
take_g3(struct kvbm_stack *stack, const struct kvbm_label *labels, uint32_t count)
{
    struct kvt_handle g2[KVBM_STACK_CHUNK];
    struct kvt_handle g3[KVBM_STACK_CHUNK];
    struct kvt_copy copies[KVBM_STACK_CHUNK];
    enum kvt_err statuses[KVBM_STACK_CHUNK];
    uint64_t hashes[KVBM_STACK_CHUNK];
    uint32_t found;
    uint32_t good;

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = labels[i].id.hash;
    found = (uint32_t)kvbm_pool_match(stack->g3.pool, hashes, count, g3);
    if (found == 0)
        return 0;
    kvbm_offload_make_room(stack->offload, KVBM_EDGE_G2, found,
                           stack->shared->settings->room_wait_ms);
    if (allocate(stack, stack->g2.pool, found, g2) != KVT_OK) {
        drop_all(stack->g3.pool, g3, 0, found);
        return 0;
    }
    for (uint32_t i = 0; i < found; i++)
        copies[i] = (struct kvt_copy){g3[i].block, g2[i].block, KVT_OK};
    if (run_watched(stack, KVT_TIER_G3,
                    &(struct kvbm_transfer_request){
                        .path = KVBM_PATH_DISK2H,
                        .source = stack->g3.storage,
                        .target = stack->g2.storage,
                        .copies = copies,
                        .count = found,
                    }) != KVT_OK)
        kvt_log_warn("worker.serve", "disk_unreadable",
                     "%s: blocks of the disk tier could not be "
                     "read and are dropped",
                     stack->name);
    for (uint32_t i = 0; i < found; i++)
        statuses[i] = copies[i].status;
    good = arrive(stack, KVT_TIER_G3, labels, g2, statuses, found);
    for (uint32_t i = found; i > 0; i--) {
        if (statuses[i - 1] == KVT_OK) {
            kvbm_pool_drop(stack->g3.pool, g3[i - 1]);
            continue;
        }
        (void)kvbm_storage_forget(stack->g3.storage, &g3[i - 1].block, 1);
        kvbm_pool_discard(stack->g3.pool, g3[i - 1]);
    }
    kvbm_count(&stack->counters.hits_g3, good);
    kvbm_count(&stack->counters.bytes_g3_g2, good * stack->g2.storage->block_size);
    return good;
}

static uint32_t
take_g4(struct kvbm_serve *serve, uint32_t at, uint32_t count)
{
    struct kvbm_stack *stack = serve->stack;
    struct kvt_handle g2[KVBM_STACK_CHUNK];
    void *buffers[KVBM_STACK_CHUNK];
    enum kvt_err statuses[KVBM_STACK_CHUNK];
    struct watch watch;
    uint32_t arrived = 0;
    uint32_t good;

    kvbm_offload_make_room(stack->offload, KVBM_EDGE_G2, count,
                           stack->shared->settings->room_wait_ms);
    if (allocate(stack, stack->g2.pool, count, g2) != KVT_OK)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        buffers[i] = kvbm_storage_address(stack->g2.storage, g2[i].block);
    watch = watch_begin(stack, KVT_TIER_G4, count);
    kvbm_remote_get(stack->shared->remote, serve->ids + at, count, buffers, statuses);
    for (uint32_t i = 0; i < count; i++)
        arrived += statuses[i] == KVT_OK;
    watch_end(&watch, arrived == count);
    good = arrive(stack, KVT_TIER_G4, serve->labels + at, g2, statuses, count);
    kvbm_count(&stack->counters.hits_g4, good);
    kvbm_count(&stack->counters.bytes_g4_g2, good * stack->g2.storage->block_size);
    return good;
}

uint32_t
kvbm_serve_take(struct kvbm_serve *serve, enum kvt_tier tier, uint32_t at, uint32_t count)
{
    struct kvbm_stack *stack = serve->stack;
    const struct kvbm_label *labels = serve->labels + at;

    assert(count <= KVBM_STACK_CHUNK);
    switch (tier) {
    case KVT_TIER_G1: return take_g1(stack, labels, count);
    case KVT_TIER_G2: return take_g2(stack, labels, count);
    case KVT_TIER_G3: return take_g3(stack, labels, count);
    case KVT_TIER_G4: return take_g4(serve, at, count);
    }
    return 0;
}

/* Write what the model would have: in place, or in host memory and then copied to the device. */
static bool
make_bytes(struct kvbm_stack *stack, const struct kvbm_label *labels,
           const struct kvt_handle *handles, uint32_t count)
{
    const size_t size = stack->shared->settings->layout.block_size;
    struct kvt_copy copies[KVBM_STACK_CHUNK];

    for (uint32_t i = 0; i < count; i++) {
        void *address = kvbm_storage_address(stack->g1.storage, handles[i].block);

        copies[i] = (struct kvt_copy){i, handles[i].block, KVT_OK};
        if (address == NULL)
            address = kvbm_storage_address(stack->scratch, i);
        kvbm_content_fill(labels[i].id.hash, address, size);
    }
    if (kvbm_storage_address(stack->g1.storage, 0) != NULL)
        return true;
    return kvbm_transfer_run(stack->shared->transfer, &(struct kvbm_transfer_request){
                                                          .path = KVBM_PATH_H2D,
                                                          .source = stack->scratch,
                                                          .target = stack->g1.storage,
                                                          .copies = copies,
                                                          .count = count,
                                                      }) == KVT_OK;
}

void
kvbm_serve_compute(struct kvbm_serve *serve, uint32_t at, uint32_t count)
{
    struct kvbm_stack *stack = serve->stack;
    const struct kvbm_label *labels = serve->labels + at;
    struct kvt_handle handles[KVBM_STACK_CHUNK];

    assert(count <= KVBM_STACK_CHUNK);
    kvbm_count(&stack->counters.computed, count);
    if (allocate(stack, stack->g1.pool, count, handles) != KVT_OK)
        return;
    if (make_bytes(stack, labels, handles, count)) {
        for (uint32_t i = 0; i < count; i++)
            if (enter(stack->g1.pool, &handles[i], &labels[i]))
                /* AGAIN: it stays in G1 and is counted by the offloader. */
                (void)kvbm_offload_push(stack->offload, handles[i], PUSH_WAIT);
    }
    drop_all(stack->g1.pool, handles, 0, count);
}
