#include "gateway/http/connections.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/core/alloc.h"

struct gateway_connection {
    int fd;
    uint64_t since_ms; /* monotonic; UINT64_MAX once it was cut */
    struct gateway_connection *next;
    struct gateway_connection **link; /* what points to it */
};

struct gateway_connections {
    uint64_t patience_ms;

    struct {
        pthread_mutex_t lock; /* guards this struct and the callers in it */
        struct gateway_connection *first;
    } shared;
};

enum kvt_err
gateway_connections_new(struct gateway_connections **out, uint64_t patience_ms)
{
    struct gateway_connections *callers = kvt_calloc(1, sizeof(*callers));

    *out = NULL;
    if (callers == NULL || pthread_mutex_init(&callers->shared.lock, NULL) != 0) {
        kvt_free(callers);
        return KVT_NOMEM;
    }
    callers->patience_ms = patience_ms;
    *out = callers;
    return KVT_OK;
}

void
gateway_connections_free(struct gateway_connections *callers)
{
    if (callers == NULL)
        return;
    assert(callers->shared.first == NULL);
    (void)pthread_mutex_destroy(&callers->shared.lock);
    kvt_free(callers);
}

struct gateway_connection *
gateway_connections_enter(struct gateway_connections *callers, int fd, uint64_t now_ms)
{
    struct gateway_connection *caller = kvt_calloc(1, sizeof(*caller));

    if (caller == NULL)
        return NULL;
    caller->fd = fd;
    caller->since_ms = now_ms;
    (void)pthread_mutex_lock(&callers->shared.lock);
    caller->next = callers->shared.first;
    caller->link = &callers->shared.first;
    if (caller->next != NULL)
        caller->next->link = &caller->next;
    callers->shared.first = caller;
    (void)pthread_mutex_unlock(&callers->shared.lock);
    return caller;
}

void
gateway_connections_begin(struct gateway_connections *callers, struct gateway_connection *caller,
                          uint64_t now_ms)
{
    if (caller == NULL)
        return;
    (void)pthread_mutex_lock(&callers->shared.lock);
    if (caller->since_ms != UINT64_MAX)
        caller->since_ms = now_ms;
    (void)pthread_mutex_unlock(&callers->shared.lock);
}

void
gateway_connections_leave(struct gateway_connections *callers, struct gateway_connection *caller)
{
    if (caller == NULL)
        return;
    (void)pthread_mutex_lock(&callers->shared.lock);
    *caller->link = caller->next;
    if (caller->next != NULL)
        caller->next->link = caller->link;
    (void)pthread_mutex_unlock(&callers->shared.lock);
    kvt_free(caller);
}

size_t
gateway_connections_cut(struct gateway_connections *callers, uint64_t now_ms)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&callers->shared.lock);
    for (struct gateway_connection *at = callers->shared.first; at != NULL; at = at->next) {
        if (at->since_ms > now_ms || now_ms - at->since_ms <= callers->patience_ms)
            continue;
        (void)shutdown(at->fd, SHUT_RDWR); /* the library sees an end, and closes it */
        at->since_ms = UINT64_MAX;
        count++;
    }
    (void)pthread_mutex_unlock(&callers->shared.lock);
    return count;
}
