#include "advisor/source/inbox.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

enum {
    CHUNK_ITEMS = 512,
    SPARES_MAX = 8, /* empty chunks that are kept */
};

/* Memory that many items are in.  The taker of the last one gives it back to its inbox. */
struct advisor_chunk {
    struct advisor_chunk *next;
    struct advisor_inbox *inbox;
    uint32_t count; /* items, those that only pass through included */
    uint32_t live;  /* items that lie in `bytes` and were not freed */
    size_t used;
    size_t payload; /* sum of the items' sizes */
    struct advisor_inbox_item *items[CHUNK_ITEMS];
    alignas(alignof(struct advisor_inbox_item)) uint8_t bytes[ADVISOR_INBOX_CHUNK_BYTES];
};

struct advisor_inbox {
    size_t items_max;
    size_t bytes_max;

    /* The taker's. */
    struct advisor_chunk *reading; /* NULL: none */
    uint32_t read;                 /* of its items */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t not_empty;
        pthread_cond_t not_full;
        struct advisor_chunk *first; /* full ones, oldest first; NULL: none */
        struct advisor_chunk *last;
        struct advisor_chunk *filling; /* behind them; NULL: none */
        struct advisor_chunk *spare;
        uint32_t spare_count;
        size_t items;
        size_t bytes;
        bool taker_waits;
        uint32_t putters_wait;
        bool closed;
    } shared;
};

/* Give it the times and numbers of another. */
static void
copy_numbers(struct advisor_inbox_item *item, const struct advisor_inbox_item *like)
{
    item->stream_seq = like->stream_seq;
    item->time_ms = like->time_ms;
    item->created_ms = like->created_ms;
    item->sequence = like->sequence;
    item->epoch = like->epoch;
    item->worker_id = like->worker_id;
    item->endpoint = like->endpoint;
    item->has_sequence = like->has_sequence;
    item->new_life = like->new_life;
}

/* ---- life ---- */

enum kvt_err
advisor_inbox_new(struct advisor_inbox **out, size_t items_max, size_t bytes_max)
{
    struct advisor_inbox *inbox = kvt_calloc(1, sizeof(*inbox));

    *out = NULL;
    if (inbox == NULL)
        return KVT_NOMEM;
    inbox->items_max = items_max;
    inbox->bytes_max = bytes_max;
    if (pthread_mutex_init(&inbox->shared.lock, NULL) != 0)
        goto fail;
    if (!kvt_cond_init(&inbox->shared.not_empty))
        goto fail_lock;
    if (!kvt_cond_init(&inbox->shared.not_full))
        goto fail_not_empty;
    *out = inbox;
    return KVT_OK;

    /* Not advisor_inbox_free(): there is no value that says "this lock was never made". */
fail_not_empty:
    (void)pthread_cond_destroy(&inbox->shared.not_empty);
fail_lock:
    (void)pthread_mutex_destroy(&inbox->shared.lock);
fail:
    kvt_free(inbox);
    return KVT_NOMEM;
}

void
advisor_inbox_free(struct advisor_inbox *inbox)
{
    struct advisor_inbox_item *item;

    if (inbox == NULL)
        return;
    while (advisor_inbox_take(inbox, &item, 1, 0) > 0)
        advisor_inbox_item_free(item);
    while (inbox->shared.spare != NULL) {
        struct advisor_chunk *next = inbox->shared.spare->next;

        kvt_free(inbox->shared.spare);
        inbox->shared.spare = next;
    }
    (void)pthread_cond_destroy(&inbox->shared.not_full);
    (void)pthread_cond_destroy(&inbox->shared.not_empty);
    (void)pthread_mutex_destroy(&inbox->shared.lock);
    kvt_free(inbox);
}

void
advisor_inbox_close(struct advisor_inbox *inbox)
{
    (void)pthread_mutex_lock(&inbox->shared.lock);
    inbox->shared.closed = true;
    (void)pthread_cond_broadcast(&inbox->shared.not_empty);
    (void)pthread_cond_broadcast(&inbox->shared.not_full);
    (void)pthread_mutex_unlock(&inbox->shared.lock);
}

/* ---- in; all under the lock ---- */

static bool
has_room(const struct advisor_inbox *inbox)
{
    return inbox->shared.items < inbox->items_max && inbox->shared.bytes < inbox->bytes_max;
}

static enum kvt_err
wait_for_room(struct advisor_inbox *inbox, uint64_t wait_ms)
{
    struct timespec deadline;
    bool late = false;

    if (inbox->shared.closed)
        return KVT_CANCELLED;
    if (has_room(inbox))
        return KVT_OK;
    if (wait_ms == 0)
        return KVT_FULL;
    deadline = kvt_cond_deadline(wait_ms);
    inbox->shared.putters_wait++;
    while (!has_room(inbox) && !inbox->shared.closed && !late)
        late = !kvt_cond_wait(&inbox->shared.not_full, &inbox->shared.lock, &deadline);
    inbox->shared.putters_wait--;
    if (inbox->shared.closed)
        return KVT_CANCELLED;
    return has_room(inbox) ? KVT_OK : KVT_FULL;
}

/* The chunk that is being filled goes to the taker's list. */
static void
push_filling(struct advisor_inbox *inbox)
{
    struct advisor_chunk *chunk = inbox->shared.filling;

    if (chunk == NULL)
        return;
    chunk->next = NULL;
    if (inbox->shared.last == NULL)
        inbox->shared.first = chunk;
    else
        inbox->shared.last->next = chunk;
    inbox->shared.last = chunk;
    inbox->shared.filling = NULL;
}

/* A chunk with room for one more item of `size` bytes; NULL: no memory. */
static struct advisor_chunk *
room_for(struct advisor_inbox *inbox, size_t size)
{
    struct advisor_chunk *chunk = inbox->shared.filling;

    if (chunk != NULL && chunk->count < CHUNK_ITEMS && chunk->used + size <= sizeof(chunk->bytes))
        return chunk;
    if (inbox->shared.spare != NULL) {
        chunk = inbox->shared.spare;
        inbox->shared.spare = chunk->next;
        inbox->shared.spare_count--;
    } else {
        chunk = kvt_realloc(NULL, 1, sizeof(*chunk)); /* not cleared: it is written first */
        if (chunk == NULL)
            return NULL;
    }
    push_filling(inbox);
    chunk->next = NULL;
    chunk->inbox = inbox;
    chunk->count = 0;
    chunk->live = 0;
    chunk->used = 0;
    chunk->payload = 0;
    inbox->shared.filling = chunk;
    return chunk;
}

static void
add(struct advisor_inbox *inbox, struct advisor_chunk *chunk, struct advisor_inbox_item *item)
{
    chunk->items[chunk->count++] = item;
    chunk->payload += item->size;
    inbox->shared.items++;
    inbox->shared.bytes += item->size;
    if (inbox->shared.taker_waits) {
        inbox->shared.taker_waits = false;
        (void)pthread_cond_signal(&inbox->shared.not_empty);
    }
}

enum kvt_err
advisor_inbox_put(struct advisor_inbox *inbox, struct advisor_inbox_item *item, uint64_t wait_ms)
{
    struct advisor_chunk *chunk = NULL;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&inbox->shared.lock);
    rc = wait_for_room(inbox, wait_ms);
    if (rc == KVT_OK) {
        chunk = room_for(inbox, 0);
        if (chunk == NULL)
            rc = KVT_NOMEM;
        else
            add(inbox, chunk, item);
    }
    (void)pthread_mutex_unlock(&inbox->shared.lock);
    return rc;
}

/* Larger than what a chunk should be begun anew for. */
static enum kvt_err
copy_alone(struct advisor_inbox *inbox, const struct advisor_inbox_item *like, const char *subject,
           const void *bytes, size_t size, uint64_t wait_ms)
{
    struct advisor_inbox_item *item;
    enum kvt_err rc = advisor_inbox_item_new(&item, like->kind, subject, bytes, size);

    if (rc != KVT_OK)
        return rc;
    copy_numbers(item, like);
    rc = advisor_inbox_put(inbox, item, wait_ms);
    if (rc != KVT_OK)
        advisor_inbox_item_free(item);
    return rc;
}

enum kvt_err
advisor_inbox_copy(struct advisor_inbox *inbox, const struct advisor_inbox_item *like,
                   const char *subject, const void *bytes, size_t size, uint64_t wait_ms)
{
    const size_t named = strlen(subject) + 1;
    const size_t align = alignof(struct advisor_inbox_item);
    const size_t total =
        (sizeof(struct advisor_inbox_item) + named + size + align - 1) / align * align;
    struct advisor_chunk *chunk;
    struct advisor_inbox_item *item;
    enum kvt_err rc;

    if (total > ADVISOR_INBOX_CHUNK_BYTES / 4)
        return copy_alone(inbox, like, subject, bytes, size, wait_ms);
    (void)pthread_mutex_lock(&inbox->shared.lock);
    rc = wait_for_room(inbox, wait_ms);
    chunk = rc == KVT_OK ? room_for(inbox, total) : NULL;
    if (chunk == NULL) {
        (void)pthread_mutex_unlock(&inbox->shared.lock);
        return rc == KVT_OK ? KVT_NOMEM : rc;
    }
    item = (struct advisor_inbox_item *)(void *)&chunk->bytes[chunk->used];
    *item = *like;
    item->next = NULL;
    item->chunk = chunk;
    item->bytes = (uint8_t *)(item + 1);
    item->subject = (char *)item->bytes + size;
    item->size = size;
    if (size > 0)
        memcpy(item->bytes, bytes, size);
    memcpy(item->subject, subject, named);
    chunk->used += total;
    chunk->live++;
    add(inbox, chunk, item);
    (void)pthread_mutex_unlock(&inbox->shared.lock);
    return KVT_OK;
}

/* ---- out ---- */

/* Nothing of it is in use any more. */
static void
give_back(struct advisor_inbox *inbox, struct advisor_chunk *chunk)
{
    (void)pthread_mutex_lock(&inbox->shared.lock);
    if (inbox->shared.spare_count < SPARES_MAX) {
        chunk->next = inbox->shared.spare;
        inbox->shared.spare = chunk;
        inbox->shared.spare_count++;
        chunk = NULL;
    }
    (void)pthread_mutex_unlock(&inbox->shared.lock);
    kvt_free(chunk);
}

static void
drop_from_chunk(struct advisor_chunk *chunk)
{
    assert(chunk->live > 0);
    if (--chunk->live == 0 && chunk->inbox->reading != chunk)
        give_back(chunk->inbox, chunk);
}

/* The next chunk, waiting for it; false: there is none. */
static bool
next_chunk(struct advisor_inbox *inbox, uint64_t wait_ms)
{
    struct advisor_chunk *chunk;
    bool late = false;

    if (inbox->reading != NULL && inbox->reading->live == 0)
        give_back(inbox, inbox->reading);
    inbox->reading = NULL;
    (void)pthread_mutex_lock(&inbox->shared.lock);
    if (wait_ms > 0 && inbox->shared.first == NULL && inbox->shared.filling == NULL) {
        const struct timespec deadline = kvt_cond_deadline(wait_ms);

        while (inbox->shared.first == NULL && inbox->shared.filling == NULL &&
               !inbox->shared.closed && !late) {
            inbox->shared.taker_waits = true;
            late = !kvt_cond_wait(&inbox->shared.not_empty, &inbox->shared.lock, &deadline);
        }
        inbox->shared.taker_waits = false;
    }
    if (inbox->shared.first == NULL)
        push_filling(inbox);
    chunk = inbox->shared.first;
    if (chunk != NULL) {
        inbox->shared.first = chunk->next;
        if (inbox->shared.first == NULL)
            inbox->shared.last = NULL;
        inbox->shared.items -= chunk->count;
        inbox->shared.bytes -= chunk->payload;
        if (inbox->shared.putters_wait > 0)
            (void)pthread_cond_broadcast(&inbox->shared.not_full);
    }
    (void)pthread_mutex_unlock(&inbox->shared.lock);
    inbox->reading = chunk;
    inbox->read = 0;
    return chunk != NULL;
}

size_t
advisor_inbox_take(struct advisor_inbox *inbox, struct advisor_inbox_item **items, size_t max,
                   uint64_t wait_ms)
{
    size_t count = 0;

    while (count < max) {
        struct advisor_chunk *chunk = inbox->reading;

        if (chunk == NULL || inbox->read == chunk->count) {
            if (!next_chunk(inbox, count == 0 ? wait_ms : 0))
                break;
            chunk = inbox->reading;
        }
        while (count < max && inbox->read < chunk->count)
            items[count++] = chunk->items[inbox->read++];
    }
    return count;
}

void
advisor_inbox_waiting(struct advisor_inbox *inbox, uint64_t *items, uint64_t *bytes)
{
    (void)pthread_mutex_lock(&inbox->shared.lock);
    *items = inbox->shared.items;
    *bytes = inbox->shared.bytes;
    (void)pthread_mutex_unlock(&inbox->shared.lock);
}

/* ---- items ---- */

enum kvt_err
advisor_inbox_item_new(struct advisor_inbox_item **out, enum advisor_inbox_item_kind kind,
                       const char *subject, const void *bytes, size_t size)
{
    struct advisor_inbox_item *item = kvt_calloc(1, sizeof(*item));

    *out = NULL;
    if (item == NULL)
        return KVT_NOMEM;
    item->kind = kind;
    item->size = size;
    item->subject = kvt_strdup(subject);
    item->bytes = kvt_calloc(size == 0 ? 1 : size, 1);
    if (item->subject == NULL || item->bytes == NULL) {
        advisor_inbox_item_free(item);
        return KVT_NOMEM;
    }
    if (size > 0)
        memcpy(item->bytes, bytes, size);
    *out = item;
    return KVT_OK;
}

struct advisor_inbox_item *
advisor_inbox_item_keep(struct advisor_inbox_item *item)
{
    struct advisor_inbox_item *own;

    if (item->chunk == NULL)
        return item;
    if (advisor_inbox_item_new(&own, item->kind, item->subject, item->bytes, item->size) != KVT_OK)
        return NULL;
    copy_numbers(own, item);
    advisor_inbox_item_free(item);
    return own;
}

void
advisor_inbox_item_free(struct advisor_inbox_item *item)
{
    if (item == NULL)
        return;
    if (item->chunk != NULL) {
        drop_from_chunk(item->chunk);
        return;
    }
    kvt_free(item->subject);
    kvt_free(item->bytes);
    kvt_free(item);
}
