#include "router/workers.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"

struct row {
    struct router_worker worker;
    uint32_t life;
    uint32_t origins; /* 0: not there */
    bool configured;  /* keeps its slot when it is gone */
};

/* Rows are found by their slot, and by (name, dp rank) through `order`, which is sorted: a view is
 * one walk, a look-up sixteen comparisons at most, and sights that change something are rare. */
struct router_workers {
    pthread_mutex_t lock;
    struct row *rows; /* by slot */
    size_t row_count; /* slots ever given */
    size_t row_capacity;
    uint32_t *order; /* slots in use */
    size_t order_count;
    size_t order_capacity;
    uint32_t *free_slots; /* has room for all that are in use */
    size_t free_count;
    size_t free_capacity;
    size_t there; /* of those in use */
    _Atomic uint64_t version;
};

enum kvt_err
router_workers_new(struct router_workers **out)
{
    struct router_workers *workers = kvt_calloc(1, sizeof(*workers));

    *out = NULL;
    if (workers == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&workers->lock, NULL) != 0) {
        kvt_free(workers);
        return KVT_NOMEM;
    }
    workers->version = 1;
    *out = workers;
    return KVT_OK;
}

void
router_workers_free(struct router_workers *workers)
{
    if (workers == NULL)
        return;
    (void)pthread_mutex_destroy(&workers->lock);
    kvt_free(workers->rows);
    kvt_free(workers->order);
    kvt_free(workers->free_slots);
    kvt_free(workers);
}

static void
lock(struct router_workers *workers)
{
    int rc = pthread_mutex_lock(&workers->lock);

    assert(rc == 0);
    (void)rc;
}

static void
unlock(struct router_workers *workers)
{
    int rc = pthread_mutex_unlock(&workers->lock);

    assert(rc == 0);
    (void)rc;
}

static int
compare(const char *name, uint32_t dp_rank, const struct router_worker *other)
{
    int names = strcmp(name, other->name);

    if (names != 0)
        return names;
    return dp_rank < other->dp_rank ? -1 : dp_rank > other->dp_rank;
}

/* Where in `order` it is, or where it belongs. */
static size_t
find(const struct router_workers *workers, const char *name, uint32_t dp_rank, bool *found)
{
    size_t low = 0;
    size_t high = workers->order_count;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int side = compare(name, dp_rank, &workers->rows[workers->order[middle]].worker);

        if (side == 0) {
            *found = true;
            return middle;
        }
        if (side < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* All that adding a row needs, so that nothing is half done. */
static enum kvt_err
reserve(struct router_workers *workers)
{
    const size_t wanted = workers->order_count + 1;
    void *grown;

    if (wanted > ROUTER_WORKERS_MAX)
        return KVT_FULL;
    grown = kvt_grow(workers->rows, &workers->row_capacity, wanted, sizeof(*workers->rows));
    if (grown == NULL)
        return KVT_NOMEM;
    workers->rows = grown;
    grown = kvt_grow(workers->order, &workers->order_capacity, wanted, sizeof(*workers->order));
    if (grown == NULL)
        return KVT_NOMEM;
    workers->order = grown;
    grown = kvt_grow(workers->free_slots, &workers->free_capacity, wanted,
                     sizeof(*workers->free_slots));
    if (grown == NULL)
        return KVT_NOMEM;
    workers->free_slots = grown;
    return KVT_OK;
}

/* A slot for it, at this place of `order`; not there yet. */
static enum kvt_err
insert(struct router_workers *workers, const struct router_worker *worker, size_t at)
{
    enum kvt_err code = reserve(workers);
    uint32_t slot;
    uint32_t life;

    if (code != KVT_OK)
        return code;
    if (workers->free_count > 0) {
        slot = workers->free_slots[--workers->free_count];
        life = workers->rows[slot].life;
    } else {
        slot = (uint32_t)workers->row_count++;
        life = 0;
    }
    workers->rows[slot] = (struct row){.worker = *worker, .life = life};
    memmove(&workers->order[at + 1], &workers->order[at],
            (workers->order_count - at) * sizeof(*workers->order));
    workers->order[at] = slot;
    workers->order_count++;
    return KVT_OK;
}

/* It left.  Whoever goes through `order` goes from its end, for what is behind it moves up. */
static void
leave(struct router_workers *workers, size_t at)
{
    const uint32_t slot = workers->order[at];
    struct row *row = &workers->rows[slot];

    if (row->origins != 0) {
        row->origins = 0;
        workers->there--;
        workers->version++;
    }
    if (row->configured)
        return;
    workers->order_count--;
    memmove(&workers->order[at], &workers->order[at + 1],
            (workers->order_count - at) * sizeof(*workers->order));
    workers->free_slots[workers->free_count++] = slot;
}

static bool
named(const char *name)
{
    return name[0] != '\0' && memchr(name, '\0', KVT_NAME_MAX) != NULL;
}

enum kvt_err
router_workers_seen(struct router_workers *workers, const struct router_worker *worker,
                    enum router_origin origin)
{
    enum kvt_err code = KVT_OK;
    struct row *row;
    uint32_t origins;
    bool found;
    size_t at;

    if (!named(worker->name))
        return KVT_INVALID;
    lock(workers);
    at = find(workers, worker->name, worker->dp_rank, &found);
    if (!found)
        code = insert(workers, worker, at);
    if (code == KVT_OK) {
        row = &workers->rows[workers->order[at]];
        row->configured = row->configured || origin == ROUTER_ORIGIN_CONFIG;
        origins = row->origins | 1U << origin;
        if (row->configured)
            origins |= 1U << ROUTER_ORIGIN_CONFIG;
        if (row->origins == 0) {
            row->life++;
            workers->there++;
        }
        if (row->origins != origins)
            workers->version++;
        row->origins = origins;
    }
    unlock(workers);
    return code;
}

void
router_workers_gone(struct router_workers *workers, const struct router_worker *worker)
{
    bool found;
    size_t at;

    lock(workers);
    at = find(workers, worker->name, worker->dp_rank, &found);
    if (found)
        leave(workers, at);
    unlock(workers);
}

void
router_workers_gone_name(struct router_workers *workers, const char *name)
{
    bool found;
    size_t first;
    size_t end;

    lock(workers);
    first = find(workers, name, 0, &found);
    end = find(workers, name, UINT32_MAX, &found) + (found ? 1 : 0);
    while (end > first)
        leave(workers, --end);
    unlock(workers);
}

void
router_workers_forgotten(struct router_workers *workers, const struct router_worker *worker,
                         enum router_origin origin)
{
    const uint32_t bit = 1U << origin;
    struct row *row;
    bool found;
    size_t at;

    lock(workers);
    at = find(workers, worker->name, worker->dp_rank, &found);
    if (found) {
        row = &workers->rows[workers->order[at]];
        if (origin == ROUTER_ORIGIN_CONFIG)
            row->configured = false;
        if ((row->origins & ~bit) == 0) {
            leave(workers, at);
        } else if ((row->origins & bit) != 0) {
            row->origins &= ~bit;
            workers->version++;
        }
    }
    unlock(workers);
}

uint64_t
router_workers_version(const struct router_workers *workers)
{
    return workers->version;
}

void
router_workers_view(struct router_workers *workers, struct router_worker_row *rows, size_t capacity,
                    size_t *count, uint64_t *version)
{
    size_t written = 0;

    lock(workers);
    for (size_t at = 0; at < workers->order_count && written < capacity; at++) {
        const uint32_t slot = workers->order[at];
        const struct row *row = &workers->rows[slot];

        if (row->origins != 0)
            rows[written++] = (struct router_worker_row){
                .worker = row->worker, .slot = slot, .life = row->life, .origins = row->origins};
    }
    *count = workers->there;
    if (version != NULL)
        *version = workers->version;
    unlock(workers);
}

void
router_workers_left(const struct router_worker_row *before, size_t before_count,
                    const struct router_worker_row *after, size_t after_count,
                    router_workers_left_fn *callback, void *arg)
{
    size_t at = 0;

    for (size_t i = 0; i < before_count; i++) {
        const struct router_worker_row *row = &before[i];
        int side = 1;

        while (at < after_count &&
               (side = compare(row->worker.name, row->worker.dp_rank, &after[at].worker)) > 0)
            at++;
        if (at == after_count || side != 0 || row->slot != after[at].slot ||
            row->life != after[at].life)
            callback(arg, row);
    }
}
