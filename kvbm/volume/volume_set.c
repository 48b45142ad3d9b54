#include "kvbm/volume/volume_set.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"
#include "base/thread/queue.h"
#include "kvbm/transfer/queue_ticket.h"

enum { IDLE_WAIT = 1000 /* ms a volume's thread waits for work before it looks again */ };

struct ticket {
    struct kvt_ticket head;
    struct kvbm_volume_request request;
};

struct entry {
    uint64_t id;
    struct kvbm_volume *volume;
    struct kvt_queue *queue;
    pthread_t thread;
    _Atomic bool cancel; /* everything that has not begun */
    bool leaving;        /* the set's lock */
    unsigned users;      /* the set's lock: threads that are putting a ticket into the queue */

    struct {
        _Atomic uint64_t hits;
        _Atomic uint64_t misses;
        _Atomic uint64_t corrupt;
        _Atomic uint64_t failed;
        _Atomic uint64_t stored;
        _Atomic uint64_t existed;
        _Atomic uint64_t removed;
        _Atomic uint64_t cancelled;
    } counts;
};

struct kvbm_volumes {
    pthread_mutex_t lock; /* guards what follows; a leaf */
    pthread_cond_t unused;
    struct entry *entries[KVT_VOLUMES_MAX];
};

void
kvbm_volume_close(struct kvbm_volume *volume)
{
    if (volume != NULL)
        volume->driver->close(volume);
}

/* Tickets ---------------------------------------------------------------------------------- */

static void
ticket_destroy(struct kvt_ticket *ticket)
{
    kvbm_ticket_fini(ticket);
    kvt_free(ticket);
}

static void
cancel_items(struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_CANCELLED;
}

/* It stays in its queue, whose thread lets go of it. */
static bool
ticket_withdraw(struct kvt_ticket *head)
{
    struct ticket *ticket = (struct ticket *)head;

    cancel_items(ticket->request.items, ticket->request.count);
    return false;
}

static const struct kvbm_ticket_ops ticket_ops = {
    .withdraw = ticket_withdraw,
    .destroy = ticket_destroy,
};

static struct ticket *
ticket_new(const struct kvbm_volume_request *request)
{
    const struct kvbm_ticket_listener listener = {request->done, request->arg, request->event_fd};
    struct ticket *ticket = kvt_calloc(1, sizeof(*ticket));

    if (ticket == NULL)
        return NULL;
    ticket->request = *request;
    if (kvbm_ticket_init(&ticket->head, &ticket_ops, &listener) == KVT_OK)
        return ticket;
    kvt_free(ticket);
    return NULL;
}

/* A volume's thread ------------------------------------------------------------------------ */

static void
count_item(struct entry *entry, enum kvt_volume_verb verb, enum kvt_err status)
{
    _Atomic uint64_t *count = &entry->counts.failed;

    if (status == KVT_OK)
        count = verb == KVT_VOLUME_PUT      ? &entry->counts.stored
                : verb == KVT_VOLUME_REMOVE ? &entry->counts.removed
                                            : &entry->counts.hits;
    else if (status == KVT_EXISTS)
        count = &entry->counts.existed;
    else if (status == KVT_NOTFOUND)
        count = &entry->counts.misses;
    else if (status == KVT_CORRUPT)
        count = &entry->counts.corrupt;
    atomic_fetch_add(count, 1);
}

static void
run_slice(struct entry *entry, enum kvt_volume_verb verb, struct kvt_volume_item *items,
          size_t count)
{
    const struct kvbm_volume_driver *driver = entry->volume->driver;

    switch (verb) {
    case KVT_VOLUME_GET: driver->get(entry->volume, items, count); break;
    case KVT_VOLUME_PUT: driver->put(entry->volume, items, count); break;
    case KVT_VOLUME_HAS: driver->has(entry->volume, items, count); break;
    default: driver->remove(entry->volume, items, count); break;
    }
    for (size_t i = 0; i < count; i++) {
        count_item(entry, verb, items[i].status);
        /* Bytes that failed their check, or came halfway, are nobody's to see. */
        if (verb == KVT_VOLUME_GET && items[i].status != KVT_OK && items[i].status != KVT_NOTFOUND)
            memset(items[i].bytes, 0, items[i].size);
    }
}

static void
execute(struct entry *entry, struct ticket *ticket)
{
    const struct kvbm_volume_request *request = &ticket->request;
    enum kvt_err result = KVT_OK;

    for (size_t at = 0; at < request->count; at += KVT_VOLUME_SLICE) {
        const size_t left = request->count - at;

        if (atomic_load(&entry->cancel) || atomic_load(&ticket->head.unwanted)) {
            cancel_items(request->items + at, left);
            atomic_fetch_add(&entry->counts.cancelled, left);
            break;
        }
        run_slice(entry, request->verb, request->items + at,
                  left < KVT_VOLUME_SLICE ? left : KVT_VOLUME_SLICE);
    }
    for (size_t i = 0; i < request->count && result == KVT_OK; i++)
        if (request->items[i].status != KVT_EXISTS)
            result = request->items[i].status;
    kvbm_ticket_finish(&ticket->head, result, true);
}

static void *
entry_run(void *arg)
{
    struct entry *entry = arg;

    for (;;) {
        struct ticket *ticket;
        void *item;

        if (kvt_queue_take(entry->queue, &item, 1, IDLE_WAIT) == 0) {
            if (kvt_queue_closed(entry->queue) && kvt_queue_count(entry->queue) == 0)
                return NULL;
            continue;
        }
        ticket = item;
        if (kvbm_ticket_begin(&ticket->head)) {
            execute(entry, ticket);
        } else {
            atomic_fetch_add(&entry->counts.cancelled, ticket->request.count);
            kvbm_ticket_let_go(&ticket->head);
        }
    }
}

/* The set ---------------------------------------------------------------------------------- */

enum kvt_err
kvbm_volumes_new(struct kvbm_volumes **out, struct kvt_error *err)
{
    struct kvbm_volumes *set = kvt_calloc(1, sizeof(*set));

    *out = NULL;
    if (set == NULL || pthread_mutex_init(&set->lock, NULL) != 0)
        goto fail;
    if (!kvt_cond_init(&set->unused))
        goto fail_cond;
    *out = set;
    return KVT_OK;

fail_cond:
    (void)pthread_mutex_destroy(&set->lock);
fail:
    kvt_free(set);
    return kvt_error_set(err, KVT_NOMEM, "volumes: out of memory");
}

void
kvbm_volumes_free(struct kvbm_volumes *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < KVT_VOLUMES_MAX; i++)
        if (set->entries[i] != NULL) {
            const enum kvt_err rc = kvbm_volumes_unregister(set, set->entries[i]->id, true);

            assert(rc == KVT_OK); /* nobody else is here */
        }
    (void)pthread_cond_destroy(&set->unused);
    (void)pthread_mutex_destroy(&set->lock);
    kvt_free(set);
}

/* The place of a number; NULL: nobody has it. */
static struct entry **
place_locked(struct kvbm_volumes *set, uint64_t id)
{
    for (size_t i = 0; i < KVT_VOLUMES_MAX; i++)
        if (set->entries[i] != NULL && set->entries[i]->id == id)
            return &set->entries[i];
    return NULL;
}

static struct entry *
find_locked(struct kvbm_volumes *set, uint64_t id)
{
    struct entry **place = place_locked(set, id);

    return place == NULL || (*place)->leaving ? NULL : *place;
}

static enum kvt_err
enter(struct kvbm_volumes *set, struct entry *entry)
{
    enum kvt_err rc = KVT_FULL;

    (void)pthread_mutex_lock(&set->lock);
    if (place_locked(set, entry->id) != NULL) {
        rc = KVT_EXISTS;
    } else {
        for (size_t i = 0; i < KVT_VOLUMES_MAX && rc != KVT_OK; i++)
            if (set->entries[i] == NULL) {
                set->entries[i] = entry;
                rc = KVT_OK;
            }
    }
    (void)pthread_mutex_unlock(&set->lock);
    return rc;
}

enum kvt_err
kvbm_volumes_register(struct kvbm_volumes *set, uint64_t id, struct kvbm_volume *volume,
                      size_t queue_max, struct kvt_error *err)
{
    struct entry *entry;
    enum kvt_err rc;
    int sys;

    if (queue_max == 0 || volume->block_size == 0 || volume->block_size > (1u << 30))
        return kvt_error_set(err, KVT_INVALID, "volume %llu: needs a queue and a block size",
                             (unsigned long long)id);
    entry = kvt_calloc(1, sizeof(*entry));
    if (entry == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volume: out of memory");
    entry->id = id;
    entry->volume = volume;
    rc = kvt_queue_new(&entry->queue, queue_max);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "volume: queue of %zu", queue_max);
        goto fail;
    }
    sys = pthread_create(&entry->thread, NULL, entry_run, entry);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "volume: thread");
        goto fail;
    }
    rc = enter(set, entry);
    if (rc == KVT_OK)
        return KVT_OK;
    (void)kvt_error_set(err, rc,
                        rc == KVT_EXISTS ? "volume: the number is taken"
                                         : "volume: there are as many as can be");
    kvt_queue_close(entry->queue);
    (void)pthread_join(entry->thread, NULL);
fail:
    kvt_queue_free(entry->queue);
    kvt_free(entry);
    return rc;
}

enum kvt_err
kvbm_volumes_unregister(struct kvbm_volumes *set, uint64_t id, bool cancel)
{
    struct entry *entry;

    (void)pthread_mutex_lock(&set->lock);
    entry = find_locked(set, id);
    if (entry != NULL)
        entry->leaving = true;
    (void)pthread_mutex_unlock(&set->lock);
    if (entry == NULL)
        return KVT_NOTFOUND;

    if (cancel) {
        atomic_store(&entry->cancel, true);
        if (entry->volume->driver->stop != NULL)
            entry->volume->driver->stop(entry->volume);
    }
    /* Those who wait for room are told; what is inside is still taken. */
    kvt_queue_close(entry->queue);
    (void)pthread_join(entry->thread, NULL);

    (void)pthread_mutex_lock(&set->lock);
    while (entry->users > 0)
        (void)pthread_cond_wait(&set->unused, &set->lock);
    *place_locked(set, id) = NULL;
    (void)pthread_mutex_unlock(&set->lock);
    kvt_queue_free(entry->queue);
    entry->volume->driver->close(entry->volume);
    kvt_free(entry);
    return KVT_OK;
}

static enum kvt_err
check_request(const struct entry *entry, const struct kvbm_volume_request *request)
{
    const struct kvbm_volume_driver *driver = entry->volume->driver;
    const bool moves = request->verb == KVT_VOLUME_GET || request->verb == KVT_VOLUME_PUT;
    const size_t size = moves ? entry->volume->block_size : 0;

    if ((request->verb == KVT_VOLUME_REMOVE && driver->remove == NULL) ||
        (request->verb == KVT_VOLUME_HAS && driver->has == NULL))
        return KVT_UNSUPPORTED;
    for (size_t i = 0; i < request->count; i++)
        if (request->items[i].size != size || (size > 0 && request->items[i].bytes == NULL))
            return KVT_INVALID;
    return KVT_OK;
}

enum kvt_err
kvbm_volumes_start(struct kvbm_volumes *set, const struct kvbm_volume_request *request,
                   uint64_t wait_ms, struct kvt_ticket **out)
{
    struct ticket *ticket = NULL;
    struct entry *entry;
    enum kvt_err rc;

    *out = NULL;
    if (request->count == 0 || request->count > KVT_VOLUME_ITEMS_MAX ||
        (unsigned)request->verb >= KVT_VOLUME_VERB_COUNT)
        return KVT_INVALID;
    (void)pthread_mutex_lock(&set->lock);
    entry = find_locked(set, request->volume);
    if (entry != NULL)
        entry->users++;
    (void)pthread_mutex_unlock(&set->lock);
    if (entry == NULL)
        return KVT_NOTFOUND;

    rc = check_request(entry, request);
    if (rc == KVT_OK) {
        ticket = ticket_new(request);
        rc = ticket == NULL ? KVT_NOMEM : kvt_queue_put_wait(entry->queue, ticket, wait_ms);
    }
    if (rc == KVT_OK)
        *out = &ticket->head;
    else if (ticket != NULL)
        ticket_destroy(&ticket->head);

    (void)pthread_mutex_lock(&set->lock);
    if (--entry->users == 0)
        (void)pthread_cond_broadcast(&set->unused);
    (void)pthread_mutex_unlock(&set->lock);
    if (rc == KVT_TIMEOUT)
        return KVT_AGAIN;
    return rc == KVT_CANCELLED ? KVT_NOTFOUND : rc; /* it left meanwhile */
}

enum kvt_err
kvbm_volumes_run(struct kvbm_volumes *set, const struct kvbm_volume_request *request)
{
    struct kvt_ticket *ticket;
    enum kvt_err rc = kvbm_volumes_start(set, request, UINT64_MAX, &ticket);

    if (rc != KVT_OK) {
        for (size_t i = 0; i < request->count; i++)
            request->items[i].status = rc;
        return rc;
    }
    return kvbm_ticket_end(ticket);
}

enum kvt_err
kvbm_volumes_stats(struct kvbm_volumes *set, uint64_t id, struct kvt_volume_stats *stats)
{
    const struct entry *entry;

    memset(stats, 0, sizeof(*stats));
    (void)pthread_mutex_lock(&set->lock);
    entry = find_locked(set, id);
    if (entry != NULL)
        *stats = (struct kvt_volume_stats){
            .hits = atomic_load(&entry->counts.hits),
            .misses = atomic_load(&entry->counts.misses),
            .corrupt = atomic_load(&entry->counts.corrupt),
            .failed = atomic_load(&entry->counts.failed),
            .stored = atomic_load(&entry->counts.stored),
            .existed = atomic_load(&entry->counts.existed),
            .removed = atomic_load(&entry->counts.removed),
            .cancelled = atomic_load(&entry->counts.cancelled),
            .waiting = kvt_queue_count(entry->queue),
        };
    (void)pthread_mutex_unlock(&set->lock);
    return entry == NULL ? KVT_NOTFOUND : KVT_OK;
}
