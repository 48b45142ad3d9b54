/* A broadcast between storages of this process. */
#include <assert.h>

#include "base/core/alloc.h"

#include "engine/replica/broadcast_internal.h"

struct memory_broadcast {
    struct engine_broadcast head;
    struct engine_broadcast_copies copies;
};

void
engine_broadcast_copies_set(struct engine_broadcast_copies *copies,
                            const struct engine_broadcast_options *options)
{
    copies->transfer = options->transfer;
    copies->layout = options->layout;
    for (uint32_t r = 0; r < options->count; r++)
        copies->storages[r] = options->storages[r];
}

static enum kvt_err
begin(struct engine_broadcast_copies *copies, struct engine_broadcast_job *task, uint32_t rank,
      size_t count)
{
    const struct engine_job *job = task->job;
    struct kvbm_transfer_request request = {
        .path = kvbm_path_between(copies->storages[0], copies->storages[rank]),
        .source = copies->storages[0],
        .target = copies->storages[rank],
        .copies = copies->copies[rank],
        .count = count,
        .priority = job->priority,
    };

    if (job->layers != 0) {
        request.source_layout = copies->layout;
        request.target_layout = copies->layout;
        request.layer = job->layer;
        request.layers = job->layers;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t block = job->items[copies->items[i]].target;

        copies->copies[rank][i] = (struct kvt_copy){block, block, KVT_CANCELLED};
    }
    return kvbm_transfer_start_wait(copies->transfer, &request, engine_broadcast_job_left(task),
                                    &copies->tickets[rank]);
}

/* To all ranks at once; back when the last has ended. */
static void
run_step(struct engine_broadcast_copies *copies, struct engine_broadcast_job *task, size_t count)
{
    enum kvt_err begun[KVT_RANKS_MAX];

    for (uint32_t r = 1; r < task->outcome.ranks; r++)
        begun[r] = begin(copies, task, r, count);
    for (uint32_t r = 1; r < task->outcome.ranks; r++) {
        if (begun[r] == KVT_OK) {
            const enum kvt_err rc = kvt_ticket_wait(copies->tickets[r], UINT64_MAX);

            assert(rc != KVT_TIMEOUT); /* how it went the copies say */
            kvt_ticket_release(copies->tickets[r]);
        }
        for (size_t i = 0; i < count; i++) {
            const enum kvt_err status = begun[r] == KVT_OK ? copies->copies[r][i].status : begun[r];

            if (status != KVT_OK)
                engine_broadcast_job_item(task, r, copies->items[i], status);
        }
    }
}

void
engine_broadcast_copies_run(struct engine_broadcast_copies *copies,
                            struct engine_broadcast_job *task)
{
    size_t at = 0;
    size_t count;

    while ((count = engine_broadcast_job_next(task, &at, copies->items, ENGINE_BROADCAST_STEP)) > 0)
        run_step(copies, task, count);
}

static void
memory_run(struct engine_broadcast *broadcast, struct engine_broadcast_job *task)
{
    engine_broadcast_copies_run(&((struct memory_broadcast *)broadcast)->copies, task);
}

static void
memory_close(struct engine_broadcast *broadcast)
{
    kvt_free(broadcast);
}

static const struct engine_broadcast_ops memory_ops = {
    .way = ENGINE_BY_MEMORY,
    .why = "this process has the memory of all ranks",
    .run = memory_run,
    .close = memory_close,
};

enum kvt_err
engine_broadcast_memory(struct engine_broadcast **out,
                        const struct engine_broadcast_options *options, struct kvt_error *err)
{
    struct memory_broadcast *memory;
    enum kvt_err rc = engine_broadcast_check(options, err);

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    memory = kvt_calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "broadcast");
    memory->head.ops = &memory_ops;
    memory->head.ranks = options->count;
    engine_broadcast_copies_set(&memory->copies, options);
    rc = engine_broadcast_open(&memory->head, err);
    if (rc != KVT_OK) {
        kvt_free(memory);
        return rc;
    }
    *out = &memory->head;
    return KVT_OK;
}
