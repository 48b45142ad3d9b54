#include "worker/instances/rank_set.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/rpc/rpc.h"
#include "worker/instances/instance_message.h"
#include "worker/instances/rank_process.h"

/* What a rank says of itself. */
struct look {
    _Atomic bool under_way;
    _Atomic bool away;
    _Atomic bool device;
    uint64_t asked_ms;
};

struct worker_rank_set {
    uint32_t ranks;
    struct engine_rpc_client *clients[WORKER_INSTANCE_RANKS_MAX];
    struct look looks[WORKER_INSTANCE_RANKS_MAX]; /* a client's thread's while it is under way */
};

enum kvt_err
worker_rank_set_open(struct worker_rank_set **out, const struct worker_instance_plan *plan,
                     struct kvt_error *err)
{
    struct worker_rank_set *rank_set = kvt_calloc(1, sizeof(*rank_set));
    enum kvt_err rc = KVT_OK;

    *out = NULL;
    if (rank_set == NULL)
        return kvt_error_set(err, KVT_NOMEM, "ranks");
    rank_set->ranks = plan->tp[plan->instance];
    for (uint32_t rank = 0; rank < rank_set->ranks && rc == KVT_OK; rank++) {
        char endpoint[WORKER_INSTANCE_ENDPOINT];

        worker_instance_plan_endpoint(plan, WORKER_DOOR_STEP, plan->instance, rank, endpoint);
        rc = engine_rpc_client_open(&rank_set->clients[rank],
                                    &(struct engine_rpc_client_options){.endpoint = endpoint}, err);
        if (rc == KVT_OK &&
            engine_rpc_client_wait(rank_set->clients[rank], WORKER_INSTANCE_START_MS) != KVT_OK)
            rc = kvt_error_set(err, KVT_UNAVAILABLE, "rank %" PRIu32 " does not answer at %s", rank,
                               endpoint);
    }
    if (rc != KVT_OK) {
        worker_rank_set_close(rank_set);
        return rc;
    }
    *out = rank_set;
    return KVT_OK;
}

void
worker_rank_set_close(struct worker_rank_set *rank_set)
{
    if (rank_set == NULL)
        return;
    for (uint32_t rank = 0; rank < rank_set->ranks; rank++)
        engine_rpc_client_close(rank_set->clients[rank]);
    kvt_free(rank_set);
}

/* Wait for one rank's answer. */
static enum kvt_err
take_answer(struct kvt_ticket *ticket, struct kvt_buffer *answer)
{
    struct engine_rpc_reply reply;
    enum kvt_err rc = kvt_ticket_wait(ticket, UINT64_MAX);

    engine_rpc_reply(ticket, &reply);
    kvt_buffer_append(answer, reply.bytes, reply.size);
    if (rc == KVT_OK && !kvt_buffer_ok(answer))
        rc = KVT_NOMEM;
    kvt_ticket_release(ticket);
    return rc;
}

enum kvt_err
worker_rank_set_step(struct worker_rank_set *rank_set, const struct kvt_buffer *question,
                     struct kvt_buffer *answers, struct kvt_error *err)
{
    const struct engine_rpc_request request = {.method = WORKER_STEP_RUN,
                                               .bytes = question->data,
                                               .size = question->size,
                                               .wait_ms = WORKER_RANK_SET_STEP_MS};
    struct kvt_ticket *tickets[WORKER_INSTANCE_RANKS_MAX] = {NULL};
    enum kvt_err first = KVT_OK;

    for (uint32_t rank = 0; rank < rank_set->ranks; rank++) {
        const enum kvt_err rc = engine_rpc_start(rank_set->clients[rank], &request, &tickets[rank]);

        kvt_buffer_clear(&answers[rank]);
        if (rc != KVT_OK && first == KVT_OK)
            first = kvt_error_set(err, rc, "rank %" PRIu32 " cannot be asked", rank);
    }
    for (uint32_t rank = 0; rank < rank_set->ranks; rank++) {
        const enum kvt_err rc =
            tickets[rank] == NULL ? KVT_OK : take_answer(tickets[rank], &answers[rank]);

        if (rc != KVT_OK && first == KVT_OK)
            first = kvt_error_set(err, rc, "rank %" PRIu32 ": %s", rank, kvt_err_text(rc));
    }
    return first;
}

/* engine_rpc_done_fn */
static void
on_look(void *arg, const struct engine_rpc_reply *reply)
{
    struct look *look = arg;
    struct worker_message message = {.bytes = reply->bytes, .size = reply->size};
    const bool away = worker_message_get(&message) != 0;
    const bool device = worker_message_get(&message) != 0;

    if (reply->status == KVT_OK && worker_message_end(&message)) {
        atomic_store(&look->away, away);
        atomic_store(&look->device, device);
    }
    atomic_store(&look->under_way, false);
}

void
worker_rank_set_look(struct worker_rank_set *rank_set)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (uint32_t rank = 0; rank < rank_set->ranks; rank++) {
        struct look *look = &rank_set->looks[rank];

        if (atomic_load(&look->under_way) || now_ms - look->asked_ms < WORKER_RANK_SET_LOOK_MS)
            continue;
        look->asked_ms = now_ms;
        atomic_store(&look->under_way, true);
        if (engine_rpc_start(rank_set->clients[rank],
                             &(struct engine_rpc_request){.method = WORKER_STEP_LOOK,
                                                          .wait_ms = WORKER_RANK_SET_LOOK_MS,
                                                          .done = on_look,
                                                          .arg = look},
                             NULL) != KVT_OK)
            atomic_store(&look->under_way, false);
    }
}

uint32_t
worker_rank_set_away(struct worker_rank_set *rank_set)
{
    uint32_t away = 0;

    for (uint32_t rank = 0; rank < rank_set->ranks; rank++)
        away += atomic_load(&rank_set->looks[rank].away) ? 1 : 0;
    return away;
}

uint32_t
worker_rank_set_devices(struct worker_rank_set *rank_set)
{
    uint32_t devices = 0;

    for (uint32_t rank = 0; rank < rank_set->ranks; rank++)
        devices += atomic_load(&rank_set->looks[rank].device) ? 1 : 0;
    return devices;
}
