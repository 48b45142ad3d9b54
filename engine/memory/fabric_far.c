/* Reading and putting over a network that cannot do it by itself.
 *
 * UCX can do one-sided reads and writes over TCP, but whoever answers does so on a path in which a
 * peer that is gone ends the process (1.13: ucp_request_send() of a reply).  Messages have no such
 * path.  So here a read is a question and an answer, and the owner's fabric thread, which would
 * have copied the bytes anyway, looks where they are to come from or go to. */
#include <string.h>

#include "base/core/alloc.h"

#include "engine/memory/fabric_internal.h"

enum message { ASK, ANSWER };

enum { PUT = 1 };

/* Does it lie in there? */
static bool
is_within(const struct engine_far_ask *ask, const void *address, size_t size)
{
    const uint64_t from = (uint64_t)(uintptr_t)address;

    return ask->address >= from && ask->address - from <= size &&
           ask->size <= size - (ask->address - from);
}

/* Where it is to be found, if anywhere: places of what is closed can be read, as zeros. */
static enum kvt_err
look_up(const struct engine_fabric *fabric, const struct engine_far_ask *ask,
        struct engine_region **landing)
{
    *landing = NULL;
    for (struct engine_region *at = fabric->open; at != NULL; at = at->next)
        if (is_within(ask, at->address, at->size)) {
            *landing = at->landing ? at : NULL;
            return ask->flags == PUT && !at->landing ? KVT_DENIED : KVT_OK;
        }
    for (const struct engine_place *at = fabric->places; at != NULL; at = at->next)
        if (is_within(ask, at->address, at->size))
            return ask->flags == PUT ? KVT_UNAVAILABLE : KVT_OK;
    return KVT_UNAVAILABLE;
}

static void
on_answered(void *request, ucs_status_t status, void *arg)
{
    (void)status; /* who asked has gone */
    kvt_free(arg);
    ucp_request_free(request);
}

/* Without memory for it there is no answer, and who asked is late. */
static void
give_answer(ucp_ep_h endpoint, const struct engine_far_ask *ask, enum kvt_err status)
{
    struct engine_far_answer *answer = kvt_calloc(1, sizeof(*answer));
    const bool with_bytes = status == KVT_OK && ask->flags != PUT;
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = on_answered,
        .user_data = answer,
    };
    void *request;

    if (answer == NULL)
        return;
    *answer = (struct engine_far_answer){ask->number, status};
    request = ucp_am_send_nbx(endpoint, ANSWER, answer, sizeof(*answer),
                              with_bytes ? (const void *)(uintptr_t)ask->address : NULL,
                              with_bytes ? ask->size : 0, &param);
    if (!UCS_PTR_IS_PTR(request))
        kvt_free(answer);
}

static ucs_status_t
on_ask(void *arg, const void *header, size_t header_size, void *data, size_t size,
       const ucp_am_recv_param_t *param)
{
    const struct engine_fabric *fabric = arg;
    struct engine_region *landing = NULL;
    struct engine_far_ask ask;
    enum kvt_err status;

    if (header_size != sizeof(ask) || (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    memcpy(&ask, header, sizeof(ask));
    status =
        size == (ask.flags == PUT ? ask.size : 0) ? look_up(fabric, &ask, &landing) : KVT_INVALID;
    if (status == KVT_OK && ask.flags == PUT) {
        (void)pthread_mutex_lock(&landing->lock);
        memcpy((void *)(uintptr_t)ask.address, data, size);
        (void)pthread_mutex_unlock(&landing->lock);
    }
    give_answer(param->reply_ep, &ask, status);
    return UCS_OK;
}

/* Asking ----------------------------------------------------------------------------------- */

/* What was asked is sent, and answered or never will be. */
static void
settle(struct engine_flight *flight)
{
    if (flight->answered && !flight->sending)
        engine_flight_land(flight, flight->status);
}

static void
on_sent(void *request, ucs_status_t status, void *arg)
{
    struct engine_flight *flight = arg;

    flight->sending = false;
    if (status != UCS_OK && !flight->answered) {
        flight->answered = true;
        flight->status = engine_rail_err(status);
    }
    ucp_request_free(request);
    settle(flight);
}

static struct engine_flight *
flight_of(struct engine_fabric *fabric, uint64_t number)
{
    struct engine_flight *flight = &fabric->flights[number % ENGINE_FABRIC_FLIGHT];

    return flight->move != NULL && flight->ask.number == number && !flight->answered ? flight
                                                                                     : NULL;
}

static ucs_status_t
on_answer(void *arg, const void *header, size_t header_size, void *data, size_t size,
          const ucp_am_recv_param_t *param)
{
    struct engine_far_answer answer;
    struct engine_flight *flight;

    if (header_size != sizeof(answer) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    memcpy(&answer, header, sizeof(answer));
    flight = flight_of(arg, answer.number);
    if (flight == NULL) /* of something that was given up */
        return UCS_OK;
    flight->answered = true;
    flight->status = answer.status < KVT_ERR_COUNT ? (enum kvt_err)answer.status : KVT_IO;
    if (flight->status == KVT_OK && size != (flight->ask.flags == PUT ? 0 : flight->ask.size))
        flight->status = KVT_IO;
    if (flight->status == KVT_OK && size > 0)
        memcpy(flight->host, data, size);
    settle(flight);
    return UCS_OK;
}

void
engine_far_ask(struct engine_flight *flight, ucp_ep_h endpoint,
               const struct engine_fabric_part *part, uint64_t address, bool put)
{
    struct engine_fabric *fabric = flight->fabric;
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
        .cb.send = on_sent,
        .user_data = flight,
    };
    void *request;

    fabric->asked += ENGINE_FABRIC_FLIGHT;
    flight->ask = (struct engine_far_ask){
        .number = fabric->asked + (uint64_t)(flight - fabric->flights),
        .address = address,
        .size = part->size,
        .flags = put ? PUT : 0,
    };
    flight->host = part->host;
    flight->asks = true;
    flight->answered = false;
    flight->sending = true;
    request = ucp_am_send_nbx(endpoint, ASK, &flight->ask, sizeof(flight->ask),
                              put ? part->host : NULL, put ? part->size : 0, &param);
    if (UCS_PTR_IS_PTR(request))
        return;
    flight->sending = false;
    if (UCS_PTR_STATUS(request) != UCS_OK) {
        flight->answered = true;
        flight->status = engine_rail_err(UCS_PTR_STATUS(request));
    }
    settle(flight);
}

void
engine_far_give_up(struct engine_fabric *fabric)
{
    for (size_t i = 0; i < ENGINE_FABRIC_FLIGHT; i++) {
        struct engine_flight *flight = &fabric->flights[i];

        if (flight->move == NULL || !flight->asks || flight->answered ||
            flight->peer->failed == KVT_OK)
            continue;
        flight->answered = true;
        flight->status = flight->peer->failed;
        settle(flight);
    }
}

bool
engine_far_listen(struct engine_fabric *fabric)
{
    static const ucp_am_recv_callback_t takers[] = {[ASK] = on_ask, [ANSWER] = on_answer};
    const struct engine_rail *rail = &fabric->rails[ENGINE_FAR];

    for (unsigned id = ASK; id <= ANSWER && rail->open; id++) {
        const ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = id,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb = takers[id],
            .arg = fabric,
        };

        if (ucp_worker_set_am_recv_handler(rail->worker, &param) != UCS_OK)
            return false;
    }
    return true;
}
