#include "kvbm/transfer/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/transfer/queue_ticket.h"

/* One step on one hop: its ticket, and which block each of its copies is of. */
struct leg {
    struct kvt_ticket *ticket;
    struct kvt_copy *copies;
    uint32_t *owners;
    size_t count;
    uint32_t number; /* of the step */
};

enum { HOPS = 2 };

struct pipeline {
    const struct kvbm_pipeline_request *request;
    uint32_t layers;
    uint32_t step;
    struct leg legs[HOPS][KVT_PIPELINE_AHEAD];
};

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static struct leg *
leg_at(struct pipeline *pipeline, unsigned hop, uint32_t number)
{
    return &pipeline->legs[hop][number % KVT_PIPELINE_AHEAD];
}

/* Start one step of one hop for the blocks that got so far. */
static void
begin(struct pipeline *pipeline, unsigned hop, uint32_t number)
{
    const struct kvbm_pipeline_request *request = pipeline->request;
    const uint32_t layer = number * pipeline->step;
    struct leg *leg = leg_at(pipeline, hop, number);
    struct kvbm_transfer_request transfer = {
        .source = hop == 0 ? request->source : request->middle,
        .target = hop == 0 ? request->middle : request->target,
        .copies = leg->copies,
        .priority = request->priority,
        .source_layout = request->source_layout,
        .target_layout = hop == 0 ? request->source_layout : request->target_layout,
        .layer = layer,
        .layers = least(pipeline->step, pipeline->layers - layer),
    };
    enum kvt_err rc;

    assert(leg->ticket == NULL);
    leg->number = number;
    leg->count = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct kvt_relay *relay = &request->relays[i];

        if (relay->status != KVT_OK)
            continue;
        leg->owners[leg->count] = i;
        leg->copies[leg->count++] = hop == 0
                                        ? (struct kvt_copy){relay->source, relay->middle, KVT_IO}
                                        : (struct kvt_copy){relay->middle, relay->target, KVT_IO};
    }
    if (leg->count == 0)
        return;
    transfer.count = leg->count;
    transfer.path = kvbm_path_between(transfer.source, transfer.target);
    rc = kvbm_transfer_start_wait(request->transfer, &transfer, UINT64_MAX, &leg->ticket);
    for (size_t i = 0; rc != KVT_OK && i < leg->count; i++)
        request->relays[leg->owners[i]].status = rc;
}

/* Wait for one step of one hop. */
static void
finish(struct pipeline *pipeline, unsigned hop, uint32_t number)
{
    struct leg *leg = leg_at(pipeline, hop, number);

    if (leg->ticket == NULL)
        return;
    assert(leg->number == number);
    (void)kvbm_ticket_end(leg->ticket); /* each copy says its own */
    leg->ticket = NULL;
    for (size_t i = 0; i < leg->count; i++) {
        struct kvt_relay *relay = &pipeline->request->relays[leg->owners[i]];

        if (relay->status == KVT_OK)
            relay->status = leg->copies[i].status;
    }
}

/* The caller hears of layers in order, when their second hop is over. */
static void
deliver(struct pipeline *pipeline, uint32_t number)
{
    const struct kvbm_pipeline_request *request = pipeline->request;

    finish(pipeline, 1, number);
    if (request->landed != NULL)
        request->landed(request->arg, least((number + 1) * pipeline->step, pipeline->layers));
}

static void
run(struct pipeline *pipeline)
{
    const uint32_t steps = (pipeline->layers + pipeline->step - 1) / pipeline->step;
    uint32_t started = 0;

    for (uint32_t number = 0; number < steps; number++) {
        while (started < steps && started < number + KVT_PIPELINE_AHEAD)
            begin(pipeline, 0, started++);
        finish(pipeline, 0, number);
        if (number >= KVT_PIPELINE_AHEAD)
            deliver(pipeline, number - KVT_PIPELINE_AHEAD);
        begin(pipeline, 1, number);
    }
    for (uint32_t number = steps > KVT_PIPELINE_AHEAD ? steps - KVT_PIPELINE_AHEAD : 0;
         number < steps; number++)
        deliver(pipeline, number);
}

static void
release(struct pipeline *pipeline)
{
    for (unsigned hop = 0; hop < HOPS; hop++)
        for (size_t i = 0; i < KVT_PIPELINE_AHEAD; i++) {
            kvt_free(pipeline->legs[hop][i].copies);
            kvt_free(pipeline->legs[hop][i].owners);
        }
}

static bool
make_room(struct pipeline *pipeline, size_t count)
{
    for (unsigned hop = 0; hop < HOPS; hop++)
        for (size_t i = 0; i < KVT_PIPELINE_AHEAD; i++) {
            struct leg *leg = &pipeline->legs[hop][i];

            leg->copies = kvt_calloc(count, sizeof(*leg->copies));
            leg->owners = kvt_calloc(count, sizeof(*leg->owners));
            if (leg->copies == NULL || leg->owners == NULL)
                return false;
        }
    return true;
}

enum kvt_err
kvbm_pipeline_run(const struct kvbm_pipeline_request *request)
{
    struct pipeline pipeline = {
        .request = request,
        .layers = request->source_layout->geometry.layers,
    };
    enum kvt_err result = KVT_OK;

    pipeline.step = least(request->step == 0 ? 1 : request->step, pipeline.layers);
    if (request->count == 0 || request->count > KVT_COPIES_MAX)
        result = KVT_INVALID;
    else if (!make_room(&pipeline, request->count))
        result = KVT_NOMEM;
    for (size_t i = 0; i < request->count; i++)
        request->relays[i].status = result;
    if (result == KVT_OK)
        run(&pipeline);
    for (size_t i = 0; i < request->count && result == KVT_OK; i++)
        result = request->relays[i].status;
    release(&pipeline);
    return result;
}
