/* A broadcast between devices of processes on one machine.
 *
 *   others    PULL G1 of rank 0 to G1, device to device
 *   rank 0    says once more what it has shared
 *
 * Memory of a process that died is undefined for those who have it, and no error.  So a job is
 * well only when rank 0 says behind it what it said before: it lived all the while.  Where some
 * rank cannot have that memory all go by the fabric. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"

#include "engine/replica/broadcast_internal.h"
#include "engine/replica/broadcast_shares.h"

/* What rank 0 says of its G1. */
struct said {
    size_t size;
    uint8_t bytes[512];
};

struct ipc_broadcast {
    struct engine_broadcast head;
    struct engine_broadcast *fabric; /* asked on our thread; its own has nothing to do */
    struct engine_shares *shares;
    bool never;                   /* rank 0 has nothing to share */
    struct said known;            /* by ranks that know rank 0 */
    struct said refused;          /* some rank cannot have that; size 0: all can */
    char refusal[ENGINE_WHY_MAX]; /* ... which, and why */
    char why[ENGINE_WHY_MAX];     /* the fabric was taken last */
    size_t items[ENGINE_BROADCAST_STEP];
};

static bool
same(const struct said *a, const struct said *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Rank 0 ----------------------------------------------------------------------------------- */

static enum kvt_err
ask_first(const struct ipc_broadcast *ipc, const struct engine_broadcast_job *task,
          struct said *said, struct kvt_error *err)
{
    const uint64_t left = engine_broadcast_job_left(task);
    struct kvt_buffer bytes;
    enum kvt_err rc = KVT_TIMEOUT;

    memset(said, 0, sizeof(*said));
    kvt_buffer_init(&bytes, sizeof(said->bytes));
    if (left > 0)
        rc = engine_worker_share(ipc->shares->of[0].worker, &bytes, left, err);
    if (rc == KVT_OK) {
        memcpy(said->bytes, bytes.data, bytes.size);
        said->size = bytes.size;
    }
    kvt_buffer_release(&bytes);
    return rc;
}

/* It will say the same to the same bytes; who is away for a while does not refuse. */
static bool
is_refusal(enum kvt_err rc)
{
    return rc == KVT_UNSUPPORTED || rc == KVT_PRECONDITION || rc == KVT_INVALID || rc == KVT_IO;
}

static void
by_fabric(struct ipc_broadcast *ipc, uint32_t rank, enum kvt_err rc, const struct kvt_error *err)
{
    (void)snprintf(ipc->why, sizeof(ipc->why), "rank %" PRIu32 ": %.200s", rank,
                   err->text[0] != '\0' ? err->text : kvt_err_text(rc));
    engine_broadcast_goes(&ipc->head, ENGINE_BY_FABRIC, "%s", ipc->why);
}

static bool
connect_all(struct ipc_broadcast *ipc, const struct engine_broadcast_job *task)
{
    struct kvt_buffer known;
    bool all = true;

    kvt_buffer_init(&known, sizeof(ipc->known.bytes));
    kvt_buffer_append(&known, ipc->known.bytes, ipc->known.size);
    for (uint32_t r = 1; r < ipc->head.ranks && all; r++) {
        struct engine_share *share = &ipc->shares->of[r];
        struct kvt_error err = {.text = ""};

        if (share->to_first == KVT_OK)
            continue;
        if (!kvt_buffer_ok(&known))
            share->to_first = KVT_NOMEM;
        else
            engine_share_connect(share, task, ENGINE_PEER_G1, &known, &err);
        all = share->to_first == KVT_OK;
        if (!all)
            by_fabric(ipc, r, share->to_first, &err);
        if (is_refusal(share->to_first)) {
            ipc->refused = ipc->known;
            memcpy(ipc->refusal, ipc->why, sizeof(ipc->refusal));
            kvt_log_warn("engine.broadcast", "ipc", "%s; blocks go by the fabric", ipc->why);
        }
    }
    kvt_buffer_release(&known);
    return all;
}

/* Do all have rank 0's memory? */
static bool
is_ready(struct ipc_broadcast *ipc, const struct engine_broadcast_job *task)
{
    struct kvt_error err = {.text = ""};
    struct said said;
    enum kvt_err rc;

    if (ipc->never)
        return false;
    if (engine_shares_know_first(ipc->shares))
        return true;
    rc = ask_first(ipc, task, &said, &err);
    if (rc == KVT_OK && ipc->refused.size > 0 && same(&said, &ipc->refused)) {
        engine_broadcast_goes(&ipc->head, ENGINE_BY_FABRIC, "%s", ipc->refusal);
        return false;
    }
    if (rc != KVT_OK)
        by_fabric(ipc, 0, rc, &err);
    if (rc == KVT_UNSUPPORTED) {
        ipc->never = true;
        kvt_log_info("engine.broadcast", "ipc", "%s; blocks go by the fabric", ipc->why);
    }
    if (rc != KVT_OK)
        return false;
    if (!same(&said, &ipc->known))
        engine_shares_disconnect(ipc->shares, ENGINE_PEER_G1);
    ipc->known = said;
    return connect_all(ipc, task);
}

/* Did rank 0 live all the while? */
static void
confirm(struct ipc_broadcast *ipc, struct engine_broadcast_job *task)
{
    struct said said;
    enum kvt_err rc = ask_first(ipc, task, &said, NULL);

    if (rc == KVT_OK && !same(&said, &ipc->known))
        rc = KVT_UNAVAILABLE; /* it is another process */
    if (rc == KVT_OK)
        return;
    for (size_t i = 0; i < task->job->count; i++)
        if (task->job->items[i].status == KVT_OK)
            engine_broadcast_job_item(task, 0, i, rc);
    engine_shares_disconnect(ipc->shares, ENGINE_PEER_G1);
}

/* A step ----------------------------------------------------------------------------------- */

static void
run_step(struct ipc_broadcast *ipc, struct engine_broadcast_job *task, size_t count)
{
    const struct engine_job *job = task->job;

    for (uint32_t r = 1; r < ipc->head.ranks; r++) {
        struct engine_share *share = &ipc->shares->of[r];

        share->count = count;
        for (size_t i = 0; i < count; i++) {
            const uint32_t block = job->items[ipc->items[i]].target;

            share->places[i] = ipc->items[i];
            share->items[i] = (struct engine_item){.source = block, .target = block};
        }
    }
    engine_shares_do(ipc->shares, task,
                     &(struct engine_job){.verb = ENGINE_PULL,
                                          .to = KVT_TIER_G1,
                                          .peer = ENGINE_PEER_G1,
                                          .layer = job->layer,
                                          .layers = job->layers},
                     1, ipc->head.ranks);
    for (uint32_t r = 1; r < ipc->head.ranks; r++) {
        struct engine_share *share = &ipc->shares->of[r];
        const enum kvt_err rc = engine_shares_drop_failed(ipc->shares, task, r);

        if (rc != KVT_OK && share->to_first == KVT_OK)
            share->to_first = rc; /* it may be another process now */
    }
}

static void
ipc_run(struct engine_broadcast *broadcast, struct engine_broadcast_job *task)
{
    struct ipc_broadcast *ipc = (struct ipc_broadcast *)broadcast;
    size_t at = 0;
    size_t count;

    if (!is_ready(ipc, task)) {
        ipc->fabric->ops->run(ipc->fabric, task);
        return;
    }
    engine_broadcast_goes(broadcast, ENGINE_BY_IPC, "all ranks have the device memory of rank 0");
    while ((count = engine_broadcast_job_next(task, &at, ipc->items, ENGINE_BROADCAST_STEP)) > 0)
        run_step(ipc, task, count);
    confirm(ipc, task);
}

/* Life ------------------------------------------------------------------------------------- */

static void
free_all(struct ipc_broadcast *ipc)
{
    engine_broadcast_close(ipc->fabric);
    engine_shares_free(ipc->shares);
    kvt_free(ipc);
}

static void
ipc_close(struct engine_broadcast *broadcast)
{
    struct ipc_broadcast *ipc = (struct ipc_broadcast *)broadcast;

    engine_shares_disconnect(ipc->shares, ENGINE_PEER_G1);
    free_all(ipc);
}

static const struct engine_broadcast_ops ipc_ops = {
    .way = ENGINE_BY_IPC,
    .why = "ranks have devices; nothing was brought yet",
    .run = ipc_run,
    .close = ipc_close,
};

enum kvt_err
engine_broadcast_ipc(struct engine_broadcast **out, struct engine_worker *const *ranks,
                     uint32_t count, uint32_t staged, struct kvt_error *err)
{
    struct ipc_broadcast *ipc = kvt_calloc(1, sizeof(*ipc));
    enum kvt_err rc;

    *out = NULL;
    if (ipc == NULL)
        return kvt_error_set(err, KVT_NOMEM, "broadcast");
    ipc->head.ops = &ipc_ops;
    ipc->head.ranks = count;
    ipc->head.staged = staged;
    rc = engine_broadcast_fabric(&ipc->fabric, ranks, count, staged, err);
    if (rc == KVT_OK)
        rc = engine_shares_make(&ipc->shares, ranks, count, err);
    if (rc == KVT_OK)
        rc = engine_broadcast_open(&ipc->head, err);
    if (rc != KVT_OK) {
        free_all(ipc);
        return rc;
    }
    *out = &ipc->head;
    return KVT_OK;
}
