#include "engine/rpc/rpc_client.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"
#include "base/thread/wake.h"

enum {
    PARK_MS = 2,         /* a thread that saw a driver looks again after this */
    REST_MAX_MS = 60000, /* a thread that has nothing to do */
    LINGER_MS = 100      /* for a farewell to leave */
};

static void
lock(struct engine_rpc_client *client)
{
    (void)pthread_mutex_lock(&client->shared.lock);
}

static void
unlock(struct engine_rpc_client *client)
{
    (void)pthread_mutex_unlock(&client->shared.lock);
}

/* True: something changed at the socket. */
static bool
sleep_on(int event_fd, int socket_fd, uint64_t wait_ms)
{
    struct pollfd files[] = {{.fd = event_fd, .events = POLLIN},
                             {.fd = socket_fd, .events = POLLIN}};

    if (wait_ms > REST_MAX_MS)
        wait_ms = REST_MAX_MS;
    if (poll(files, socket_fd >= 0 ? 2 : 1, (int)wait_ms) <= 0)
        return false;
    if ((files[0].revents & POLLIN) != 0)
        kvt_wake_clear(event_fd);
    return socket_fd >= 0 && (files[1].revents & POLLIN) != 0;
}

/* ---- lists ---- */

void
engine_rpc_list_put(struct engine_rpc_list *list, struct engine_rpc_asked *call)
{
    call->next = NULL;
    if (list->first == NULL)
        list->end = &list->first;
    *list->end = call;
    list->end = &call->next;
}

static struct engine_rpc_asked *
list_take(struct engine_rpc_list *list)
{
    struct engine_rpc_asked *call = list->first;

    if (call != NULL)
        list->first = call->next;
    return call;
}

/* Wherever it is. */
static void
list_drop(struct engine_rpc_list *list, struct engine_rpc_asked *call)
{
    for (struct engine_rpc_asked **at = &list->first; *at != NULL; at = &(*at)->next)
        if (*at == call) {
            *at = call->next;
            if (call->next == NULL)
                list->end = at;
            return;
        }
}

/* ---- calls ---- */

static void
free_call(struct engine_rpc_asked *call)
{
    if (call->has_message)
        (void)zmq_msg_close(&call->message);
    kvt_free(call);
}

static void
destroy_call(struct kvt_ticket *ticket)
{
    kvbm_ticket_fini(ticket);
    free_call((struct engine_rpc_asked *)ticket);
}

/* Something was sent, by a thread that does not watch. */
static void
call_the_watch(struct engine_rpc_client *client, uint64_t due_before_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    /* Sending may have used up the news that something came. */
    const bool news =
        (engine_rpc_port_events(&book->port) & ZMQ_POLLIN) != 0 || book->due_ms < due_before_ms;

    if (news && book->driver != NULL)
        kvt_wake_signal(client->drive_fd);
    else if (book->driver == NULL && (news || book->parked))
        kvt_wake_signal(client->wake_fd);
}

/* A canceller has it.  Where it had ended already, who tells of that lets go of it. */
static bool
withdraw_call(struct kvt_ticket *ticket)
{
    struct engine_rpc_asked *call = (struct engine_rpc_asked *)ticket;
    bool mine;

    lock(call->client);
    mine = engine_rpc_book_cancel(call->client, call);
    call_the_watch(call->client, call->client->shared.due_ms);
    call->status = KVT_CANCELLED;
    call->answered = false;
    call->bytes = NULL;
    call->size = 0;
    unlock(call->client);
    return mine;
}

static const struct kvbm_ticket_ops call_ops = {.withdraw = withdraw_call, .destroy = destroy_call};

static void
tell(void *arg)
{
    struct engine_rpc_asked *call = arg;
    struct engine_rpc_reply reply;

    engine_rpc_reply(&call->head, &reply);
    if (call->done != NULL)
        call->done(call->arg, &reply);
}

void
engine_rpc_reply(struct kvt_ticket *ticket, struct engine_rpc_reply *reply)
{
    const struct engine_rpc_asked *call = (const struct engine_rpc_asked *)ticket;

    *reply = (struct engine_rpc_reply){call->status, call->answered, call->bytes, call->size};
}

static void
finish(struct engine_rpc_asked *call)
{
    const bool detached = call->detached; /* once a waiter knows, it is his */

    if (!kvbm_ticket_begin(&call->head)) {
        kvbm_ticket_let_go(&call->head); /* a canceller was faster */
        return;
    }
    kvbm_ticket_finish(&call->head, call->status, !detached);
    if (detached)
        kvbm_ticket_let_go(&call->head);
}

/* Tell of calls that have ended; the client's thread also runs what they have to be told with.
 * Under the lock, which it leaves meanwhile.  True: it did. */
static bool
tell_ended(struct engine_rpc_client *client, bool own_thread)
{
    bool told = false;

    for (;;) {
        struct engine_rpc_asked *call = list_take(&client->shared.quiet);

        if (call == NULL && own_thread)
            call = list_take(&client->shared.loud);
        if (call == NULL)
            break;
        unlock(client);
        finish(call);
        lock(client);
        told = true;
    }
    if (!own_thread && client->shared.loud.first != NULL)
        kvt_wake_signal(client->wake_fd);
    return told;
}

static enum kvt_err
check(const struct engine_rpc_request *request)
{
    if (request->size > ENGINE_RPC_PAYLOAD_MAX)
        return KVT_RANGE;
    if (request->wait_ms == 0 || request->method >= ENGINE_RPC_METHODS_MAX ||
        (request->bytes == NULL && request->size > 0))
        return KVT_INVALID;
    return KVT_OK;
}

static struct engine_rpc_asked *
make_call(struct engine_rpc_client *client, const struct engine_rpc_request *request,
          uint64_t now_ms)
{
    const uint64_t wait_ms =
        request->wait_ms < ENGINE_RPC_WAIT_MAX ? request->wait_ms : ENGINE_RPC_WAIT_MAX;
    struct engine_rpc_asked *call =
        kvt_calloc(1, sizeof(*call) + ENGINE_RPC_WIRE_HEAD_MAX + request->size);

    if (call == NULL)
        return NULL;
    call->client = client;
    call->done = request->done;
    call->arg = request->arg;
    call->method = request->method;
    call->deadline_ms = now_ms + wait_ms;
    call->payload_size = request->size;
    if (request->size > 0)
        memcpy(call->frame + ENGINE_RPC_WIRE_HEAD_MAX, request->bytes, request->size);
    return call;
}

enum kvt_err
engine_rpc_start(struct engine_rpc_client *client, const struct engine_rpc_request *request,
                 struct kvt_ticket **ticket)
{
    const struct kvbm_ticket_listener listener = {tell, NULL, 0};
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc = check(request);
    struct engine_rpc_asked *call;
    uint64_t due_ms;

    if (ticket != NULL)
        *ticket = NULL;
    if (rc != KVT_OK)
        return rc;
    if (ticket == NULL && request->done == NULL)
        return KVT_INVALID;
    call = make_call(client, request, now_ms);
    if (call == NULL)
        return KVT_NOMEM;
    rc = kvbm_ticket_init(&call->head, &call_ops, &listener);
    if (rc != KVT_OK)
        goto fail;
    call->head.listener.arg = call;
    call->detached = ticket == NULL;
    if (call->detached)
        kvbm_ticket_let_go(&call->head); /* the caller's share */
    lock(client);
    due_ms = client->shared.due_ms;
    rc = engine_rpc_book_begin(client, call, now_ms);
    if (rc == KVT_OK) {
        if (ticket != NULL)
            *ticket = &call->head;
        call_the_watch(client, due_ms);
    }
    unlock(client);
    if (rc == KVT_OK)
        return KVT_OK;
    kvbm_ticket_fini(&call->head);
fail:
    free_call(call);
    return rc;
}

/* ---- who watches the socket ---- */

static void
pass_on(struct engine_rpc_client *client)
{
    struct engine_rpc_client_book *book = &client->shared;

    book->driver = list_take(&book->followers);
    if (book->driver != NULL) {
        book->drives++;
        (void)pthread_cond_signal(&book->driver->turn);
        return;
    }
    if (book->deep || (book->async > 0 &&
                       (book->parked || (engine_rpc_port_events(&book->port) & ZMQ_POLLIN) != 0)))
        kvt_wake_signal(client->wake_fd);
}

static void
drive(struct engine_rpc_client *client, struct engine_rpc_asked *call)
{
    struct engine_rpc_client_book *book = &client->shared;
    bool woken = false;

    while (!call->ended) {
        const uint64_t now_ms = kvt_clock_mono_ms();
        const bool more = engine_rpc_book_pump(client, call, woken, now_ms);
        const bool told = tell_ended(client, false);
        const uint64_t due_ms = book->due_ms;

        woken = false;
        if (call->ended || more || told || due_ms <= now_ms)
            continue;
        unlock(client);
        woken = sleep_on(client->drive_fd, book->port.fd, due_ms - now_ms);
        lock(client);
    }
    pass_on(client);
}

static void
follow(struct engine_rpc_client *client, struct engine_rpc_asked *call)
{
    engine_rpc_list_put(&client->shared.followers, call);
    while (!call->ended && client->shared.driver != call)
        (void)pthread_cond_wait(&call->turn, &client->shared.lock);
    if (client->shared.driver == call)
        drive(client, call);
    else
        list_drop(&client->shared.followers, call);
}

static enum kvt_err
wait_for_call(struct engine_rpc_client *client, struct engine_rpc_asked *call, uint64_t now_ms)
{
    struct engine_rpc_client_book *book = &client->shared;
    uint64_t due_ms;
    enum kvt_err rc;

    lock(client);
    due_ms = book->due_ms;
    rc = engine_rpc_book_begin(client, call, now_ms);
    if (rc == KVT_OK && book->driver != NULL) {
        call_the_watch(client, due_ms);
        follow(client, call);
    } else if (rc == KVT_OK) {
        book->driver = call;
        book->drives++;
        drive(client, call);
    }
    unlock(client);
    return rc;
}

enum kvt_err
engine_rpc_run(struct engine_rpc_client *client, const struct engine_rpc_request *request,
               struct kvt_buffer *answer, bool *answered)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc = check(request);
    struct engine_rpc_asked *call;

    assert(!pthread_equal(pthread_self(), client->thread)); /* who would watch? */
    if (answered != NULL)
        *answered = false;
    if (rc != KVT_OK)
        return rc;
    call = make_call(client, request, now_ms);
    if (call == NULL)
        return KVT_NOMEM;
    call->sync = true;
    if (!kvt_cond_init(&call->turn)) {
        kvt_free(call);
        return KVT_NOMEM;
    }
    rc = wait_for_call(client, call, now_ms);
    if (rc == KVT_OK) {
        rc = call->status;
        if (answered != NULL)
            *answered = call->answered;
        if (answer != NULL && call->size > 0)
            kvt_buffer_append(answer, call->bytes, call->size);
        if (answer != NULL && rc == KVT_OK && !kvt_buffer_ok(answer))
            rc = KVT_RANGE;
    }
    (void)pthread_cond_destroy(&call->turn);
    free_call(call);
    return rc;
}

/* Others drive, or did a moment ago and nothing waits that they would not see to.  @return ms to
 * stay parked; 0: watch */
static uint64_t
park(struct engine_rpc_client_book *book, uint64_t *seen)
{
    const bool driven = book->driver != NULL;
    const bool same = *seen == book->drives;

    *seen = book->drives;
    book->deep = driven && same;
    book->parked = driven || (!same && book->async == 0);
    if (!book->parked)
        return 0;
    return book->deep ? REST_MAX_MS : PARK_MS;
}

/* The hook, where there is another link than it was told of. */
static void
tell_link(struct engine_rpc_client *client, uint64_t *told)
{
    const uint64_t link = client->shared.link;

    if (link == *told || client->shared.loud.first != NULL)
        return;
    /* From one to another there was none between. */
    *told = *told != 0 && link != 0 ? 0 : link;
    if (client->options.changed == NULL)
        return;
    unlock(client);
    client->options.changed(client->options.arg, *told);
    lock(client);
}

static void *
run(void *arg)
{
    struct engine_rpc_client *client = arg;
    struct engine_rpc_client_book *book = &client->shared;
    uint64_t seen = 0;
    uint64_t told_link = 0;
    bool woken = false;

    lock(client);
    while (!book->closing) {
        const uint64_t park_ms = park(book, &seen);
        uint64_t now_ms = kvt_clock_mono_ms();
        const bool more = park_ms == 0 && engine_rpc_book_pump(client, NULL, woken, now_ms);
        uint64_t wait_ms;

        woken = false;
        if (tell_ended(client, true) || more)
            continue;
        tell_link(client, &told_link);
        if (book->closing || told_link != book->link)
            continue;
        now_ms = kvt_clock_mono_ms();
        wait_ms = book->due_ms > now_ms ? book->due_ms - now_ms : 0;
        if (park_ms == 0 && book->driver != NULL)
            continue; /* it came while this told somebody */
        unlock(client);
        woken = sleep_on(client->wake_fd, park_ms > 0 ? -1 : book->port.fd,
                         park_ms > 0 ? park_ms : wait_ms);
        lock(client);
    }
    engine_rpc_book_close(client);
    (void)tell_ended(client, true);
    unlock(client);
    return NULL;
}

/* ---- life ---- */

static void
destroy(struct engine_rpc_client *client)
{
    engine_rpc_port_close(&client->shared.port, LINGER_MS);
    if (client->wake_fd >= 0)
        (void)close(client->wake_fd);
    if (client->drive_fd >= 0)
        (void)close(client->drive_fd);
    (void)pthread_cond_destroy(&client->shared.linked);
    (void)pthread_mutex_destroy(&client->shared.lock);
    kvt_free(client);
}

static struct engine_rpc_client *
make(const struct engine_rpc_client_options *options)
{
    struct engine_rpc_client *client = kvt_calloc(1, sizeof(*client));

    if (client == NULL)
        return NULL;
    client->options = *options;
    client->options.endpoint = NULL;
    if (client->options.silence_ms == 0)
        client->options.silence_ms = ENGINE_RPC_SILENCE_MS;
    client->wake_fd = -1;
    client->drive_fd = -1;
    for (uint16_t i = 0; i < ENGINE_RPC_CALLS_MAX; i++)
        client->shared.free[i] = (uint16_t)(ENGINE_RPC_CALLS_MAX - 1 - i);
    client->shared.free_count = ENGINE_RPC_CALLS_MAX;
    if (pthread_mutex_init(&client->shared.lock, NULL) != 0)
        goto fail;
    if (kvt_cond_init(&client->shared.linked))
        return client;
    (void)pthread_mutex_destroy(&client->shared.lock);
fail:
    kvt_free(client);
    return NULL;
}

enum kvt_err
engine_rpc_client_open(struct engine_rpc_client **out,
                       const struct engine_rpc_client_options *options, struct kvt_error *err)
{
    struct engine_rpc_client *client = make(options);
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (client == NULL)
        return kvt_error_set(err, KVT_NOMEM, "rpc: out of memory");
    client->wake_fd = kvt_wake_open();
    client->drive_fd = kvt_wake_open();
    if (client->wake_fd < 0 || client->drive_fd < 0) {
        rc = kvt_error_sys(err, errno, "rpc: eventfd");
        goto fail;
    }
    rc = engine_rpc_port_connect(&client->shared.port, options->endpoint, err);
    if (rc != KVT_OK)
        goto fail;
    lock(client); /* the thread is known before anybody asks whether he is it */
    engine_rpc_book_open(client, kvt_clock_mono_ms());
    sys = pthread_create(&client->thread, NULL, run, client);
    unlock(client);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "rpc: thread");
        goto fail;
    }
    *out = client;
    return KVT_OK;

fail:
    destroy(client);
    return rc;
}

void
engine_rpc_client_close(struct engine_rpc_client *client)
{
    if (client == NULL)
        return;
    lock(client);
    client->shared.closing = true;
    unlock(client);
    kvt_wake_signal(client->wake_fd);
    (void)pthread_join(client->thread, NULL);
    destroy(client);
}

enum kvt_err
engine_rpc_client_wait(struct engine_rpc_client *client, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool linked;

    lock(client);
    while (client->shared.link == 0 &&
           kvt_cond_wait(&client->shared.linked, &client->shared.lock, &deadline))
        continue;
    linked = client->shared.link != 0;
    unlock(client);
    return linked ? KVT_OK : KVT_UNAVAILABLE;
}

uint64_t
engine_rpc_client_link(struct engine_rpc_client *client)
{
    uint64_t link;

    lock(client);
    link = client->shared.link;
    unlock(client);
    return link;
}

struct engine_rpc_client_stats
engine_rpc_client_stats(struct engine_rpc_client *client)
{
    struct engine_rpc_client_stats stats;

    lock(client);
    stats = client->shared.stats;
    unlock(client);
    return stats;
}
