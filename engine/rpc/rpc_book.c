#include <assert.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "base/thread/wake.h"

#include "engine/rpc/rpc_client.h"

enum {
    BATCH = 64,    /* messages between two looks at the clock */
    ASK_MS = 200,  /* without an answer until it is asked what became of a call; doubled */
    HELLO_MS = 50, /* between greetings; they are lost while there is no connection */
    PINGS = 4,     /* in a silence, the server's or ours */
};

/* ---- sending ---- */

static void
send_call(struct engine_rpc_client *client, struct engine_rpc_asked *call, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    const uint64_t left_ms = call->deadline_ms - now_ms;
    const struct engine_rpc_message message = {
        .kind = ENGINE_RPC_CALL,
        .link = book->link,
        .number = call->number,
        .code = call->method,
        .wait_ms = left_ms < ENGINE_RPC_WAIT_MAX ? (uint32_t)left_ms : ENGINE_RPC_WAIT_MAX,
        .size = call->payload_size};
    uint8_t head[ENGINE_RPC_WIRE_HEAD_MAX];
    const size_t size = engine_rpc_wire_head(head, &message);
    uint8_t *start = call->frame + ENGINE_RPC_WIRE_HEAD_MAX - size;

    memcpy(start, head, size);
    engine_rpc_port_send(&book->port, NULL, start, size + call->payload_size);
    book->said_ms = now_ms;
}

static void
say(struct engine_rpc_client *client, enum engine_rpc_kind kind, uint64_t link, uint64_t number,
    uint64_t now_ms)
{
    const struct engine_rpc_message message = {.kind = kind, .link = link, .number = number};
    uint8_t head[ENGINE_RPC_WIRE_HEAD_MAX];

    engine_rpc_port_send(&client->shared.port, NULL, head, engine_rpc_wire_head(head, &message));
    client->shared.said_ms = now_ms;
}

static void
due_by(struct engine_rpc_client_book *book, uint64_t moment_ms)
{
    if (moment_ms < book->due_ms)
        book->due_ms = moment_ms;
}

/* ---- calls ---- */

static void
leave_slot(struct engine_rpc_client_book *book, struct engine_rpc_asked *call)
{
    const uint16_t slot = (uint16_t)(call->number % ENGINE_RPC_CALLS_MAX);

    assert(book->slots[slot].call == call);
    book->slots[slot].call = NULL;
    book->free[book->free_count++] = slot;
    book->bytes -= call->payload_size;
    book->stats.waiting--;
    book->async -= call->sync ? 0 : 1;
    call->number = 0;
    call->ended = true;
}

/* It is over; whoever waits for it is woken, or it goes where somebody tells. */
static void
end_call(struct engine_rpc_client *client, struct engine_rpc_asked *call, enum kvt_err status,
         bool answered)
{
    struct engine_rpc_client_book *book = &client->shared;

    leave_slot(book, call);
    call->status = status;
    call->answered = answered;
    *(answered ? &book->stats.answered : &book->stats.failed) += 1;
    if (!call->sync)
        engine_rpc_list_put(call->done != NULL ? &book->loud : &book->quiet, call);
    else if (call != book->driver) /* nobody but the driver is here while there is one */
        (void)pthread_cond_signal(&call->turn);
}

static void
end_all(struct engine_rpc_client *client, enum kvt_err status)
{
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX && client->shared.stats.waiting > 0; i++)
        if (client->shared.slots[i].call != NULL)
            end_call(client, client->shared.slots[i].call, status, false);
}

enum kvt_err
engine_rpc_book_begin(struct engine_rpc_client *client, struct engine_rpc_asked *call,
                      uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    struct engine_rpc_slot *slot;
    uint16_t number;

    if (book->state == ENGINE_RPC_AWAY || book->closing) /* nobody would end it any more */
        return KVT_UNAVAILABLE;
    if (book->free_count == 0 || call->payload_size > ENGINE_RPC_BYTES_MAX - book->bytes)
        return KVT_AGAIN;
    number = book->free[--book->free_count];
    slot = &book->slots[number];
    slot->call = call;
    call->number = ++slot->sequence * ENGINE_RPC_CALLS_MAX + number;
    call->ask_wait_ms = ASK_MS;
    call->ask_ms = now_ms + ASK_MS;
    book->bytes += call->payload_size;
    book->async += call->sync ? 0 : 1;
    book->stats.waiting++;
    book->stats.calls++;
    due_by(book, call->deadline_ms);
    due_by(book, call->ask_ms);
    if (book->state == ENGINE_RPC_LINKED)
        send_call(client, call, now_ms);
    return KVT_OK;
}

bool
engine_rpc_book_cancel(struct engine_rpc_client *client, struct engine_rpc_asked *call)
{
    const uint64_t number = call->number;

    if (number == 0)
        return false;
    leave_slot(&client->shared, call);
    client->shared.stats.failed++;
    if (client->shared.state == ENGINE_RPC_LINKED)
        say(client, ENGINE_RPC_CANCEL, client->shared.link, number, kvt_clock_mono_ms());
    return true;
}

/* ---- links ---- */

/* The client's thread has to tell of it, wherever it sleeps. */
static void
tell_of_link(struct engine_rpc_client *client)
{
    (void)pthread_cond_broadcast(&client->shared.linked);
    if (client->shared.driver != NULL)
        kvt_wake_signal(client->wake_fd);
}

static void
greet(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    say(client, ENGINE_RPC_HELLO, book->old_link, book->nonce, now_ms);
    book->hello_ms = now_ms + HELLO_MS;
}

/* Calls of this link are over; another link is asked for. */
static void
end_link(struct engine_rpc_client *client, enum engine_rpc_client_state next, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    end_all(client, KVT_UNAVAILABLE);
    book->old_link = book->link;
    book->link = 0;
    kvt_random_system(&book->nonce, sizeof(book->nonce));
    book->state = next;
    book->since_ms = now_ms;
    book->due_ms = now_ms;
    greet(client, now_ms);
    tell_of_link(client);
}

void
engine_rpc_book_open(struct engine_rpc_client *client, uint64_t now_ms)
{
    client->shared.ping_ms = ENGINE_RPC_SILENCE_MS / PINGS;
    end_link(client, ENGINE_RPC_GREETING, now_ms);
}

static void
take_welcome(struct engine_rpc_client *client, const struct engine_rpc_message *message,
             uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    if (book->state == ENGINE_RPC_LINKED || message->number != book->nonce || message->link == 0)
        return;
    book->state = ENGINE_RPC_LINKED;
    book->link = message->link;
    book->heard_ms = now_ms;
    book->cut_ms = 0;
    book->due_ms = now_ms;
    book->stats.links++;
    book->ping_ms = client->options.silence_ms < message->wait_ms ? client->options.silence_ms
                                                                  : message->wait_ms;
    book->ping_ms = book->ping_ms / PINGS + 1;
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX && book->stats.waiting > 0; i++)
        if (book->slots[i].call != NULL && now_ms < book->slots[i].call->deadline_ms)
            send_call(client, book->slots[i].call, now_ms);
    tell_of_link(client);
}

/* ---- what comes ---- */

static void
take_answer(struct engine_rpc_client *client, struct engine_rpc_asked *call,
            const struct engine_rpc_message *message, zmq_msg_t *whole)
{
    const bool answered = message->kind == ENGINE_RPC_ANSWER;

    if (message->size > 0) {
        const size_t offset = (size_t)(message->bytes - (const uint8_t *)zmq_msg_data(whole));

        (void)zmq_msg_init(&call->message);
        (void)zmq_msg_move(&call->message, whole);
        call->has_message = true;
        call->bytes = (const uint8_t *)zmq_msg_data(&call->message) + offset;
        call->size = message->size;
    }
    end_call(client, call, (enum kvt_err)message->code, answered);
}

/* What the server says of one call. */
static void
take_of_call(struct engine_rpc_client *client, const struct engine_rpc_message *message,
             zmq_msg_t *whole, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    struct engine_rpc_asked *call = book->slots[message->number % ENGINE_RPC_CALLS_MAX].call;

    if (call == NULL || call->number != message->number) {
        book->stats.late++;
        return;
    }
    if (message->kind == ENGINE_RPC_ANSWER || message->kind == ENGINE_RPC_REFUSED) {
        take_answer(client, call, message, whole);
    } else if (message->kind == ENGINE_RPC_MISSING && now_ms < call->deadline_ms) {
        book->stats.repeated++;
        send_call(client, call, now_ms);
    }
}

static void
take(struct engine_rpc_client *client, const struct engine_rpc_message *message, zmq_msg_t *whole,
     uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    if (message->kind == ENGINE_RPC_WELCOME) {
        take_welcome(client, message, now_ms);
        return;
    }
    if (book->link == 0 || message->link != book->link) {
        book->stats.late += message->kind == ENGINE_RPC_ANSWER ? 1 : 0;
        return; /* also why there is no link yet; that is asked again */
    }
    book->heard_ms = now_ms;
    switch (message->kind) {
    case ENGINE_RPC_BYE: end_link(client, ENGINE_RPC_GREETING, now_ms); return;
    case ENGINE_RPC_ANSWER:
    case ENGINE_RPC_REFUSED:
    case ENGINE_RPC_TAKEN:
    case ENGINE_RPC_MISSING: take_of_call(client, message, whole, now_ms); return;
    default: return;
    }
}

/* One message; KVT_AGAIN: there is none. */
static enum kvt_err
take_next(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_message message;
    struct engine_rpc_peer peer;
    zmq_msg_t whole;
    enum kvt_err rc;

    (void)zmq_msg_init(&whole);
    rc = engine_rpc_port_receive(&client->shared.port, &peer, &whole);
    if (rc == KVT_OK && peer.size > 0)
        rc = KVT_INVALID; /* more frames than one */
    if (rc == KVT_OK)
        rc = engine_rpc_wire_read(&message, zmq_msg_data(&whole), zmq_msg_size(&whole));
    if (rc == KVT_OK) {
        take(client, &message, &whole, now_ms);
    } else if (rc != KVT_AGAIN) {
        if (client->shared.stats.malformed++ == 0)
            kvt_log_warn("engine.rpc", "malformed",
                         "%s: dropped what is not a message; further ones are only counted",
                         client->shared.port.endpoint);
        rc = KVT_OK;
    }
    (void)zmq_msg_close(&whole);
    return rc;
}

/* ---- the clock ---- */

/* Ended, asked for, or when to look again. */
static void
look_at_call(struct engine_rpc_client *client, struct engine_rpc_asked *call, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    if (now_ms >= call->deadline_ms) {
        end_call(client, call, KVT_TIMEOUT, false);
        return;
    }
    due_by(book, call->deadline_ms);
    if (book->state != ENGINE_RPC_LINKED)
        return;
    if (now_ms >= call->ask_ms) {
        book->stats.asked++;
        say(client, ENGINE_RPC_ASK, book->link, call->number, now_ms);
        if (call->ask_wait_ms < book->ping_ms)
            call->ask_wait_ms *= 2;
        call->ask_ms = now_ms + call->ask_wait_ms;
    }
    due_by(book, call->ask_ms);
}

static void
look_at_silence(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    const uint64_t silence_ms = client->options.silence_ms;
    const bool silent = now_ms - book->heard_ms >= silence_ms;
    uint64_t last_ms = book->said_ms < book->heard_ms ? book->said_ms : book->heard_ms;

    if (silent)
        engine_rpc_port_reconnect(&book->port);
    if (silent || (book->cut_ms != 0 && now_ms - book->cut_ms >= ENGINE_RPC_CUT_MS)) {
        end_link(client, ENGINE_RPC_AWAY, now_ms);
        return;
    }
    if (now_ms - last_ms >= book->ping_ms) {
        say(client, ENGINE_RPC_PING, book->link, 0, now_ms);
        last_ms = now_ms; /* where nothing is heard, too, the next is not due at once */
    }
    due_by(book, last_ms + book->ping_ms);
    due_by(book, book->heard_ms + silence_ms);
    if (book->cut_ms != 0)
        due_by(book, book->cut_ms + ENGINE_RPC_CUT_MS);
}

static void
look_at_greeting(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;

    if (now_ms - book->since_ms >= client->options.silence_ms) {
        end_all(client, KVT_UNAVAILABLE);
        book->state = ENGINE_RPC_AWAY;
        book->since_ms = now_ms;
        /* ZeroMQ does not come back by itself from a peer that speaks something else. */
        engine_rpc_port_reconnect(&book->port);
    }
    if (now_ms >= book->hello_ms)
        greet(client, now_ms);
    due_by(book, book->hello_ms);
}

/* Is there a connection?  Asked where something changed that was no message, and now and then. */
static void
look_at_connection(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    const bool connected = (engine_rpc_port_events(&book->port) & ZMQ_POLLOUT) != 0;

    if (connected == (book->cut_ms == 0))
        return;
    book->cut_ms = connected ? 0 : now_ms;
    book->due_ms = now_ms;
    if (!connected)
        return;
    if (book->state != ENGINE_RPC_LINKED) {
        greet(client, now_ms);
        return;
    }
    /* What was on its way may be lost, and the server another one. */
    say(client, ENGINE_RPC_PING, book->link, 0, now_ms);
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX; i++)
        if (book->slots[i].call != NULL)
            book->slots[i].call->ask_ms = now_ms;
}

static void
look_at_clock(struct engine_rpc_client *client, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    uint32_t left;

    book->due_ms = UINT64_MAX;
    if (book->state == ENGINE_RPC_LINKED)
        look_at_silence(client, now_ms);
    else
        look_at_greeting(client, now_ms);
    left = book->stats.waiting;
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX && left > 0; i++)
        if (book->slots[i].call != NULL) {
            left--;
            look_at_call(client, book->slots[i].call, now_ms);
        }
}

bool
engine_rpc_book_pump(struct engine_rpc_client *client, const struct engine_rpc_asked *until,
                     bool woken, uint64_t now_ms)
{
    size_t count = 0;

    while (count < BATCH && (until == NULL || !until->ended) && take_next(client, now_ms) == KVT_OK)
        count++;
    if ((count > 0 || !woken) && now_ms < client->shared.due_ms)
        return count == BATCH;
    look_at_connection(client, now_ms);
    if (now_ms >= client->shared.due_ms)
        look_at_clock(client, now_ms);
    /* All this may have used up the news that something came. */
    return (engine_rpc_port_events(&client->shared.port) & ZMQ_POLLIN) != 0;
}

void
engine_rpc_book_close(struct engine_rpc_client *client)
{
    end_all(client, KVT_CANCELLED);
    if (client->shared.link != 0)
        say(client, ENGINE_RPC_BYE, client->shared.link, 0, kvt_clock_mono_ms());
}
