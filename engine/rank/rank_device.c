/* G1 of a rank that other ranks of the same replica copy from, device to device. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_memory.h"

#include "engine/rank/rank_internal.h"
#include "engine/rpc/rpc_msgpack.h"

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

enum { VERSION = 1, MEMBERS = 7, BOOT_MAX = 64 };

/* What one rank says of its G1. */
struct facts {
    size_t boot_size;
    uint8_t boot[BOOT_MAX]; /* of the machine's kernel: handles mean nothing to others */
    uint64_t nonce;         /* of the process */
    uint8_t layout[KVBM_LAYOUT_BYTES];
    struct kvbm_cuda_shared shared;
};

static const struct kvbm_layout *
layout_of(const struct engine_rank *rank)
{
    const struct engine_rank_tier *g1 = &rank->options.tiers[KVT_TIER_G1];

    return g1->layout == NULL ? &rank->options.layout : g1->layout;
}

static bool
is_device(const struct engine_rank *rank)
{
    const struct kvbm_storage *g1 = rank->options.tiers[KVT_TIER_G1].storage;

    return g1 != NULL && kvbm_cuda_is_device(g1);
}

/* What is true of this machine and this rank; all but the memory. */
static enum kvt_err
own_facts(const struct engine_rank *rank, struct facts *facts, struct kvt_error *err)
{
    int file = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;

    memset(facts, 0, sizeof(*facts));
    if (!is_device(rank))
        return kvt_error_set(err, KVT_UNSUPPORTED, "G1 is no device's memory");
    if (file >= 0) {
        got = read(file, facts->boot, sizeof(facts->boot));
        (void)close(file);
    }
    if (got <= 0)
        return kvt_error_set(err, KVT_UNSUPPORTED, "%s cannot be read", BOOT_FILE);
    facts->boot_size = (size_t)got;
    facts->nonce = rank->nonce;
    kvbm_layout_serialize(layout_of(rank), facts->layout);
    return KVT_OK;
}

/* Share ------------------------------------------------------------------------------------- */

/* The driver is asked once: it need not say the same twice. */
static enum kvt_err
share_once(struct engine_rank *rank, struct kvbm_cuda_shared *out, struct kvt_error *err)
{
    struct kvbm_cuda_shared made;
    enum kvt_err rc = KVT_OK;
    bool known;

    (void)pthread_mutex_lock(&rank->lock);
    known = rank->shares;
    (void)pthread_mutex_unlock(&rank->lock);
    if (!known)
        rc = kvbm_cuda_share(rank->options.tiers[KVT_TIER_G1].storage, &made, err);
    if (rc != KVT_OK)
        return rc;
    (void)pthread_mutex_lock(&rank->lock);
    if (!rank->shares)
        rank->g1 = made;
    rank->shares = true;
    *out = rank->g1;
    (void)pthread_mutex_unlock(&rank->lock);
    return KVT_OK;
}

enum kvt_err
engine_rank_share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                  struct kvt_error *err)
{
    struct engine_rank *rank = (struct engine_rank *)worker;
    struct facts facts;
    enum kvt_err rc = own_facts(rank, &facts, err);

    (void)wait_ms;
    if (rc == KVT_OK)
        rc = share_once(rank, &facts.shared, err);
    if (rc != KVT_OK)
        return rc;
    engine_pack_array(out, MEMBERS);
    engine_pack_number(out, VERSION);
    engine_pack_bytes(out, facts.boot, (uint32_t)facts.boot_size);
    engine_pack_number(out, facts.nonce);
    engine_pack_bytes(out, facts.layout, sizeof(facts.layout));
    engine_pack_bytes(out, facts.shared.handle.bytes, sizeof(facts.shared.handle.bytes));
    engine_pack_number(out, facts.shared.block_count);
    engine_pack_number(out, facts.shared.block_size);
    return kvt_buffer_ok(out) ? KVT_OK : kvt_error_set(err, KVT_NOMEM, "rank: description of G1");
}

/* Import ------------------------------------------------------------------------------------ */

/* Bytes of just that size. */
static void
read_exactly(struct engine_unpack *in, void *out, size_t size)
{
    size_t got;
    const uint8_t *bytes = engine_unpack_bytes(in, (uint32_t)size, &got);

    if (bytes != NULL && got == size)
        memcpy(out, bytes, size);
    else
        in->bad = true;
}

static enum kvt_err
read_facts(struct facts *facts, const uint8_t *bytes, size_t size, struct kvt_error *err)
{
    struct engine_unpack in = {bytes, size, false};
    const uint8_t *boot;

    memset(facts, 0, sizeof(*facts));
    (void)engine_unpack_array(&in, MEMBERS, MEMBERS);
    in.bad = engine_unpack_number(&in, UINT32_MAX) != VERSION || in.bad;
    boot = engine_unpack_bytes(&in, BOOT_MAX, &facts->boot_size);
    if (boot != NULL)
        memcpy(facts->boot, boot, facts->boot_size);
    facts->nonce = engine_unpack_number(&in, UINT64_MAX);
    read_exactly(&in, facts->layout, sizeof(facts->layout));
    read_exactly(&in, facts->shared.handle.bytes, sizeof(facts->shared.handle.bytes));
    facts->shared.block_count = (uint32_t)engine_unpack_number(&in, KVBM_STORAGE_BLOCKS_MAX);
    facts->shared.block_size = engine_unpack_number(&in, KVT_BLOCK_SIZE_MAX);
    return engine_unpack_end(&in) ? KVT_OK
                                  : kvt_error_set(err, KVT_INVALID, "no description of a G1");
}

enum kvt_err
engine_rank_open_device(struct kvbm_storage **out, struct engine_rank *rank, const uint8_t *bytes,
                        size_t size, struct kvt_error *err)
{
    const struct kvbm_storage *g1 = rank->options.tiers[KVT_TIER_G1].storage;
    struct facts theirs;
    struct facts ours;
    enum kvt_err rc = own_facts(rank, &ours, err);

    *out = NULL;
    if (rc == KVT_OK)
        rc = read_facts(&theirs, bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    if (theirs.boot_size != ours.boot_size || memcmp(theirs.boot, ours.boot, ours.boot_size) != 0)
        return kvt_error_set(err, KVT_PRECONDITION, "G1 of rank 0 is on another machine");
    if (memcmp(theirs.layout, ours.layout, sizeof(ours.layout)) != 0 ||
        theirs.shared.block_size != g1->block_size)
        return kvt_error_set(err, KVT_PRECONDITION, "G1 of rank 0 has another layout");
    return kvbm_cuda_open_beside(out, g1, &theirs.shared, err);
}

/* PULL -------------------------------------------------------------------------------------- */

bool
engine_rank_pulls_device(const struct engine_rank *rank, const struct engine_job *job)
{
    return job->verb == ENGINE_PULL && job->peer == ENGINE_PEER_G1 && job->to == KVT_TIER_G1 &&
           is_device(rank);
}

/* To its end, whatever becomes of the job meanwhile; what is late does not begin. */
static enum kvt_err
run_transfer(struct rank_job *made, const struct kvbm_transfer_request *request, uint64_t wait_ms)
{
    struct kvt_ticket *ticket;
    bool late = false;
    const enum kvt_err rc =
        kvbm_transfer_start_wait(made->rank->options.transfer, request, wait_ms, &ticket);

    if (rc != KVT_OK)
        return rc;
    if (kvt_ticket_wait(ticket, wait_ms) == KVT_TIMEOUT) {
        (void)kvt_ticket_cancel(ticket);
        late = kvt_ticket_wait(ticket, UINT64_MAX) == KVT_CANCELLED;
    }
    kvt_ticket_release(ticket);
    return late ? KVT_TIMEOUT : KVT_OK; /* how it went the copies say */
}

void
engine_rank_pull_device(struct rank_job *made, struct kvbm_storage *theirs, uint64_t wait_ms)
{
    const struct engine_rank *rank = made->rank;
    struct kvbm_storage *g1 = rank->options.tiers[KVT_TIER_G1].storage;
    struct engine_job *job = made->job;
    struct kvt_copy *copies = kvt_calloc(job->count, sizeof(*copies));
    struct kvbm_transfer_request request = {
        .path = kvbm_path_between(theirs, g1),
        .source = theirs,
        .target = g1,
        .copies = copies,
        .count = job->count,
        .priority = job->priority,
    };
    enum kvt_err rc = copies == NULL ? KVT_NOMEM : KVT_OK;

    if (job->layers != 0) {
        request.source_layout = request.target_layout = layout_of(rank);
        request.layer = job->layer;
        request.layers = job->layers;
    }
    for (size_t i = 0; i < job->count && rc == KVT_OK; i++) {
        copies[i] = (struct kvt_copy){job->items[i].source, job->items[i].target, KVT_CANCELLED};
        if (job->items[i].source >= theirs->block_count)
            rc = KVT_INVALID;
    }
    if (rc == KVT_OK && atomic_load(&made->stop))
        rc = KVT_CANCELLED;
    if (rc == KVT_OK)
        rc = run_transfer(made, &request, wait_ms);
    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = engine_rank_status(made, rc == KVT_OK ? copies[i].status : rc);
    kvt_free(copies);
}
