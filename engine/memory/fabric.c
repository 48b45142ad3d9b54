#include "engine/memory/fabric.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/deadline.h"
#include "base/thread/cond.h"
#include "base/thread/wake.h"
#include "kvbm/transfer/queue_ticket.h"

#include "engine/memory/fabric_internal.h"

enum {
    IDLE_WAIT = 1000, /* ms the thread sleeps when there is nothing to do */
    LATE_WAIT = 2000, /* ms a peer has to end what is in flight past its deadline */
    VAIN_MAX = 64,    /* times in a row that a rail has news and nothing to do; from then on */
    VAIN_WAIT = 1     /* ... ms between two such times */
};

struct engine_move {
    struct kvt_ticket head;
    struct engine_fabric_move request;
    size_t begun;
    size_t ended;
    uint64_t deadline; /* monotonic ms */
    enum kvt_err over; /* KVT_TIMEOUT, KVT_CANCELLED: nothing more begins */
    enum { UNFLUSHED, FLUSHING, FLUSHED } flush; /* of a put */
    struct engine_move *next;
};

/* The thread's letter box ------------------------------------------------------------------ */

void
engine_fabric_call(struct engine_fabric *fabric,
                   void (*run)(struct engine_fabric *fabric, void *arg), void *arg)
{
    struct engine_call call = {.run = run, .arg = arg};

    (void)pthread_mutex_lock(&fabric->shared.lock);
    call.next = fabric->shared.calls;
    fabric->shared.calls = &call;
    kvt_wake_signal(fabric->wake_fd);
    while (!call.done)
        (void)pthread_cond_wait(&fabric->shared.called, &fabric->shared.lock);
    (void)pthread_mutex_unlock(&fabric->shared.lock);
}

static bool
run_call(struct engine_fabric *fabric)
{
    struct engine_call *call;

    (void)pthread_mutex_lock(&fabric->shared.lock);
    call = fabric->shared.calls;
    if (call != NULL)
        fabric->shared.calls = call->next;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    if (call == NULL)
        return false;
    call->run(fabric, call->arg);
    (void)pthread_mutex_lock(&fabric->shared.lock);
    call->done = true;
    (void)pthread_cond_broadcast(&fabric->shared.called);
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    return true;
}

/* Moves ------------------------------------------------------------------------------------ */

static void
move_destroy(struct kvt_ticket *ticket)
{
    kvbm_ticket_fini(ticket);
    kvt_free(ticket);
}

static void
fail_parts(struct engine_move *move, size_t from, enum kvt_err why)
{
    for (size_t i = from; i < move->request.count; i++)
        move->request.parts[i].status = why;
}

static void
leave(struct engine_move *move)
{
    struct engine_fabric *fabric = move->request.window->fabric;

    (void)atomic_fetch_sub(&move->request.window->moves, 1);
    (void)pthread_mutex_lock(&fabric->shared.lock);
    fabric->shared.waiting--;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
}

/* It stays in the letter box, whose reader lets go of it; but its window may be closed as soon as
 * the caller knows. */
static bool
move_withdraw(struct kvt_ticket *ticket)
{
    struct engine_move *move = (struct engine_move *)ticket;

    fail_parts(move, 0, KVT_CANCELLED);
    leave(move);
    return false;
}

static const struct kvbm_ticket_ops move_ops = {.withdraw = move_withdraw, .destroy = move_destroy};

static bool
take_incoming(struct engine_fabric *fabric)
{
    struct engine_move *move;

    (void)pthread_mutex_lock(&fabric->shared.lock);
    move = fabric->shared.incoming;
    fabric->shared.incoming = NULL;
    fabric->shared.incoming_end = &fabric->shared.incoming;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    if (move == NULL)
        return false;
    while (move != NULL) {
        struct engine_move *next = move->next;

        move->next = NULL;
        if (kvbm_ticket_begin(&move->head)) {
            *fabric->active_end = move;
            fabric->active_end = &move->next;
        } else {
            kvbm_ticket_let_go(&move->head); /* a canceller was faster */
        }
        move = next;
    }
    return true;
}

static void
land(struct engine_move *move, size_t part, enum kvt_err status)
{
    /* What was given up for being late did not fail by itself. */
    move->request.parts[part].status =
        status != KVT_OK && move->over != KVT_OK ? move->over : status;
    move->ended++;
}

void
engine_flight_land(struct engine_flight *flight, enum kvt_err status)
{
    struct engine_move *move = flight->move;

    flight->move = NULL;
    flight->fabric->flying--;
    land(move, flight->part, status);
}

static void
on_landed(void *request, ucs_status_t status, void *arg)
{
    engine_flight_land(arg, engine_rail_err(status));
    ucp_request_free(request);
}

static struct engine_flight *
free_flight(struct engine_fabric *fabric)
{
    for (size_t i = 0; i < ENGINE_FABRIC_FLIGHT; i++)
        if (fabric->flights[i].move == NULL)
            return &fabric->flights[i];
    return NULL;
}

static void
begin_part(struct engine_fabric *fabric, struct engine_move *move)
{
    const size_t number = move->begun++;
    const struct engine_fabric_part *part = &move->request.parts[number];
    const struct engine_window *window = move->request.window;
    struct engine_flight *flight = free_flight(fabric);
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_landed,
        .user_data = flight,
    };
    void *request;

    if (window->peer->failed != KVT_OK) {
        land(move, number, window->peer->failed);
        return;
    }
    *flight = (struct engine_flight){
        .fabric = fabric, .move = move, .peer = window->peer, .part = number};
    fabric->flying++;
    if (window->peer->rail->messages) {
        engine_far_ask(flight, window->peer->endpoint, part, window->address + part->offset,
                       move->request.put);
        return;
    }
    if (move->request.put)
        request = ucp_put_nbx(window->peer->endpoint, part->host, part->size,
                              window->address + part->offset, window->key, &param);
    else
        request = ucp_get_nbx(window->peer->endpoint, part->host, part->size,
                              window->address + part->offset, window->key, &param);
    if (UCS_PTR_IS_PTR(request))
        return;
    engine_flight_land(flight, engine_rail_err(UCS_PTR_STATUS(request)));
}

/* What was put and is not known to be there is not. */
static void
end_flush(struct engine_move *move, enum kvt_err status)
{
    for (size_t i = 0; i < move->request.count && status != KVT_OK; i++)
        if (move->request.parts[i].status == KVT_OK)
            move->request.parts[i].status = status;
    move->flush = FLUSHED;
}

static void
on_flushed(void *request, ucs_status_t status, void *arg)
{
    end_flush(arg, engine_rail_err(status));
    ucp_request_free(request);
}

/* UCX is done with a put when it has the bytes; they are there when it has flushed them. */
static void
begin_flush(struct engine_move *move)
{
    const struct engine_peer *peer = move->request.window->peer;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_flushed,
        .user_data = move,
    };
    void *request;

    if (peer->failed != KVT_OK) {
        end_flush(move, peer->failed);
        return;
    }
    move->flush = FLUSHING;
    request = ucp_ep_flush_nbx(peer->endpoint, &param);
    if (!UCS_PTR_IS_PTR(request))
        end_flush(move, engine_rail_err(UCS_PTR_STATUS(request)));
}

/* A put that was answered is there. */
static bool
must_flush(const struct engine_move *move)
{
    return move->request.put && !move->request.window->peer->rail->messages;
}

/* Nothing of it is on its way any more. */
static bool
has_ended(const struct engine_move *move)
{
    return move->ended == move->request.count && (!must_flush(move) || move->flush == FLUSHED);
}

/* Past its deadline, or taken back: what has not begun never does. */
static void
look_at_clock(struct engine_move *move, uint64_t now)
{
    const bool unwanted = atomic_load(&move->head.unwanted);

    if (move->over != KVT_OK || (!unwanted && now < move->deadline))
        return;
    move->over = unwanted ? KVT_CANCELLED : KVT_TIMEOUT;
    fail_parts(move, move->begun, move->over);
    move->ended += move->request.count - move->begun;
    move->begun = move->request.count;
}

static bool
must_wait(const struct engine_move *move)
{
    return move->request.parts[move->begun].after && move->ended < move->begun;
}

static bool
issue(struct engine_fabric *fabric)
{
    bool moved = false;

    for (struct engine_move *move = fabric->active; move != NULL; move = move->next)
        while (move->begun < move->request.count && fabric->flying < ENGINE_FABRIC_FLIGHT) {
            look_at_clock(move, kvt_clock_mono_ms());
            if (move->over != KVT_OK || must_wait(move))
                break;
            begin_part(fabric, move);
            moved = true;
        }
    return moved;
}

/* Nobody gets memory back while something may still arrive in it: a peer that does not end what it
 * has begun is given up. */
static void
give_up_late(struct engine_move *move, uint64_t now)
{
    struct engine_peer *peer = move->request.window->peer;

    if (!has_ended(move) && peer->rail->watched && now >= move->deadline &&
        now - move->deadline >= LATE_WAIT) {
        engine_peer_fail(peer);
        engine_far_give_up(move->request.window->fabric);
    }
}

static void
finish(struct engine_move *move)
{
    enum kvt_err result = KVT_OK;

    for (size_t i = 0; i < move->request.count && result == KVT_OK; i++)
        result = move->request.parts[i].status;
    leave(move);
    kvbm_ticket_finish(&move->head, result, true);
}

/* How long the thread may sleep. */
static uint64_t
end_moves(struct engine_fabric *fabric)
{
    const uint64_t now = kvt_clock_mono_ms();
    struct engine_move **at = &fabric->active;
    uint64_t wait = IDLE_WAIT;

    while (*at != NULL) {
        struct engine_move *move = *at;

        look_at_clock(move, now);
        give_up_late(move, now);
        if (must_flush(move) && move->ended == move->request.count && move->flush == UNFLUSHED) {
            begin_flush(move);
            wait = 0; /* UCX has work */
        }
        if (has_ended(move)) {
            *at = move->next;
            finish(move);
            continue;
        }
        if (move->over == KVT_OK && move->deadline - now < wait)
            wait = move->deadline - now;
        at = &move->next;
    }
    fabric->active_end = at;
    return wait;
}

/* The thread ------------------------------------------------------------------------------- */

/* UCX over TCP (1.13) says for as long as a peer that was connected with does not answer that there
 * is something to do, and does nothing: that must not cost a processor. */
static void
rest(struct engine_fabric *fabric, uint64_t wait_ms)
{
    struct pollfd files[1 + ENGINE_RAILS] = {{.fd = fabric->wake_fd, .events = POLLIN}};
    int ready;

    if (fabric->vain == VAIN_MAX && wait_ms > 0)
        (void)poll(files, 1, VAIN_WAIT);
    for (size_t i = 0; i < ENGINE_RAILS; i++) {
        files[1 + i] = (struct pollfd){.fd = -1, .events = POLLIN};
        if (!engine_rail_arm(&fabric->rails[i]))
            return;
        if (fabric->rails[i].open)
            files[1 + i].fd = fabric->rails[i].event_fd;
    }
    ready = poll(files, 1 + ENGINE_RAILS, (int)wait_ms);
    if (ready > 0 && (files[0].revents & POLLIN) != 0) {
        kvt_wake_clear(fabric->wake_fd);
        ready--;
    }
    if (ready <= 0)
        fabric->vain = 0;
    else if (fabric->vain < VAIN_MAX)
        fabric->vain++;
}

static bool
stopping(struct engine_fabric *fabric)
{
    bool answer;

    (void)pthread_mutex_lock(&fabric->shared.lock);
    answer = fabric->shared.stopping;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    return answer;
}

static void *
run(void *arg)
{
    struct engine_fabric *fabric = arg;

    while (!stopping(fabric)) {
        bool moved = run_call(fabric);
        uint64_t wait;

        moved = take_incoming(fabric) || moved;
        for (size_t i = 0; i < ENGINE_RAILS; i++)
            moved = engine_rail_progress(&fabric->rails[i]) || moved;
        moved = issue(fabric) || moved;
        engine_far_give_up(fabric);
        wait = end_moves(fabric);
        if (moved)
            fabric->vain = 0;
        else
            rest(fabric, wait);
    }
    (void)take_incoming(fabric); /* what was taken back and is still in the letter box */
    return NULL;
}

/* What the caller names is taken as it is: UCX says what is wrong with it. */
static enum kvt_err
choose(const char **transports, const char *named, const char *usual,
       char room[ENGINE_RAIL_TRANSPORTS_SIZE], struct kvt_error *err)
{
    *transports = named != NULL ? named : room;
    if (named != NULL || engine_rail_transports(usual, room) == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, KVT_NOMEM, "fabric: out of memory");
}

static enum kvt_err
open_rails(struct engine_fabric *fabric, const struct engine_fabric_options *options,
           struct kvt_error *err)
{
    char rooms[ENGINE_RAILS][ENGINE_RAIL_TRANSPORTS_SIZE];
    const char *near;
    const char *far;
    enum kvt_err rc = choose(&near, options->near, "sysv,posix,self", rooms[ENGINE_NEAR], err);

    if (rc == KVT_OK)
        rc = choose(&far, options->far, "tcp,rc,ud,dc", rooms[ENGINE_FAR], err);
    if (rc != KVT_OK)
        return rc;
    rc = KVT_UNSUPPORTED;
    if (*near != '\0')
        rc = engine_rail_open(&fabric->rails[ENGINE_NEAR], "near", near, false, err);
    if (*far != '\0' && (rc == KVT_OK || rc == KVT_UNSUPPORTED)) {
        const enum kvt_err other =
            engine_rail_open(&fabric->rails[ENGINE_FAR], "far", far, true, err);

        rc = rc == KVT_OK && other == KVT_UNSUPPORTED ? KVT_OK : other;
    }
    if (rc == KVT_UNSUPPORTED && *near == '\0' && *far == '\0')
        (void)kvt_error_set(err, rc, "fabric: no rail was asked for, or UCX has none here");
    return rc;
}

static void
close_rails(struct engine_fabric *fabric)
{
    for (size_t i = 0; i < ENGINE_RAILS; i++)
        engine_rail_close(&fabric->rails[i]);
}

enum kvt_err
engine_fabric_open(struct engine_fabric **out, const struct engine_fabric_options *options,
                   struct kvt_error *err)
{
    struct engine_fabric *fabric = kvt_calloc(1, sizeof(*fabric));
    enum kvt_err rc = KVT_NOMEM;
    int sys;

    *out = NULL;
    if (fabric == NULL)
        return kvt_error_set(err, rc, "fabric: out of memory");
    fabric->wait_max_ms =
        options->wait_max_ms != 0 ? options->wait_max_ms : ENGINE_FABRIC_WAIT_MAX_MS;
    fabric->active_end = &fabric->active;
    fabric->shared.incoming_end = &fabric->shared.incoming;
    (void)kvt_error_set(err, rc, "fabric: out of memory");
    if (pthread_mutex_init(&fabric->shared.lock, NULL) != 0)
        goto fail;
    if (!kvt_cond_init(&fabric->shared.called))
        goto fail_cond;
    fabric->wake_fd = kvt_wake_open();
    if (fabric->wake_fd < 0) {
        rc = kvt_error_sys(err, errno, "fabric: eventfd");
        goto fail_event;
    }
    rc = open_rails(fabric, options, err);
    if (rc == KVT_OK && !engine_far_listen(fabric))
        rc = kvt_error_set(err, KVT_NOMEM, "fabric: out of memory");
    if (rc != KVT_OK)
        goto fail_rails;
    sys = pthread_create(&fabric->thread, NULL, run, fabric);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "fabric: thread");
        goto fail_rails;
    }
    *out = fabric;
    return KVT_OK;

fail_rails:
    close_rails(fabric);
    (void)close(fabric->wake_fd);
fail_event:
    (void)pthread_cond_destroy(&fabric->shared.called);
fail_cond:
    (void)pthread_mutex_destroy(&fabric->shared.lock);
fail:
    kvt_free(fabric);
    return rc;
}

void
engine_fabric_close(struct engine_fabric *fabric)
{
    if (fabric == NULL)
        return;
    assert(atomic_load(&fabric->regions) == 0);
    (void)pthread_mutex_lock(&fabric->shared.lock);
    assert(fabric->shared.windows == 0 && fabric->shared.waiting == 0);
    fabric->shared.stopping = true;
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    kvt_wake_signal(fabric->wake_fd);
    (void)pthread_join(fabric->thread, NULL);
    close_rails(fabric);
    engine_fabric_leave_places(fabric);
    (void)close(fabric->wake_fd);
    (void)pthread_cond_destroy(&fabric->shared.called);
    (void)pthread_mutex_destroy(&fabric->shared.lock);
    kvt_free(fabric);
}

/* Asking ----------------------------------------------------------------------------------- */

static enum kvt_err
check_move(const struct engine_fabric_move *move)
{
    const size_t size = move->window->size;

    if (move->count == 0 || move->count > ENGINE_FABRIC_PARTS_MAX)
        return KVT_INVALID;
    if (move->put && !move->window->landing)
        return KVT_DENIED;
    for (size_t i = 0; i < move->count; i++) {
        const struct engine_fabric_part *part = &move->parts[i];

        if (part->size == 0 || part->host == NULL)
            return KVT_INVALID;
        if (part->offset > size || part->size > size - part->offset)
            return KVT_RANGE;
    }
    return KVT_OK;
}

static enum kvt_err
enter(struct engine_fabric *fabric, struct engine_move *move)
{
    enum kvt_err rc = KVT_AGAIN;

    (void)pthread_mutex_lock(&fabric->shared.lock);
    if (fabric->shared.waiting < ENGINE_FABRIC_WAITING_MAX) {
        rc = KVT_OK;
        fabric->shared.waiting++;
        (void)atomic_fetch_add(&move->request.window->moves, 1);
        *fabric->shared.incoming_end = move;
        fabric->shared.incoming_end = &move->next;
    }
    (void)pthread_mutex_unlock(&fabric->shared.lock);
    if (rc == KVT_OK)
        kvt_wake_signal(fabric->wake_fd);
    return rc;
}

enum kvt_err
engine_fabric_start(struct engine_fabric *fabric, const struct engine_fabric_move *request,
                    struct kvt_ticket **ticket)
{
    const struct kvbm_ticket_listener listener = {request->done, request->arg, 0};
    enum kvt_err rc = check_move(request);
    struct engine_move *move;

    *ticket = NULL;
    if (rc != KVT_OK)
        return rc;
    move = kvt_calloc(1, sizeof(*move));
    if (move == NULL)
        return KVT_NOMEM;
    move->request = *request;
    move->deadline = kvt_deadline_in(request->wait_ms < fabric->wait_max_ms ? request->wait_ms
                                                                            : fabric->wait_max_ms);
    rc = kvbm_ticket_init(&move->head, &move_ops, &listener);
    if (rc != KVT_OK)
        goto fail;
    rc = enter(fabric, move);
    if (rc != KVT_OK)
        goto fail_ticket;
    *ticket = &move->head;
    return KVT_OK;

fail_ticket:
    kvbm_ticket_fini(&move->head);
fail:
    kvt_free(move);
    return rc;
}

enum kvt_err
engine_fabric_run(struct engine_fabric *fabric, const struct engine_fabric_move *request)
{
    struct kvt_ticket *ticket;
    const enum kvt_err rc = engine_fabric_start(fabric, request, &ticket);

    if (rc == KVT_OK)
        return kvbm_ticket_end(ticket);
    for (size_t i = 0; i < request->count; i++)
        request->parts[i].status = rc;
    return rc;
}
