#include "advisor/route/worker_set.h"

#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

enum { TABLE_LEAST = 8 };

static size_t
first_seat(const struct advisor_worker_set *set, const char *name, uint32_t dp_rank)
{
    return XXH3_64bits_withSeed(name, strnlen(name, KVT_NAME_MAX), dp_rank) & set->table_mask;
}

/* Copy who is there; some may come between two looks. */
static enum kvt_err
copy_rows(struct advisor_worker_set *set, struct router_workers *workers)
{
    size_t capacity = 0;

    for (;;) {
        router_workers_view(workers, set->rows, capacity, &set->count, &set->version);
        if (set->count <= capacity)
            return KVT_OK;
        kvt_free(set->rows);
        capacity = set->count;
        set->rows = kvt_calloc(capacity, sizeof(*set->rows));
        if (set->rows == NULL)
            return KVT_NOMEM;
    }
}

static enum kvt_err
make_table(struct advisor_worker_set *set)
{
    size_t size = TABLE_LEAST;

    while (size < 2 * set->count)
        size *= 2;
    set->table = kvt_calloc(size, sizeof(*set->table));
    if (set->table == NULL)
        return KVT_NOMEM;
    set->table_mask = size - 1;
    for (size_t i = 0; i < set->count; i++) {
        const struct router_worker *worker = &set->rows[i].worker;
        size_t seat = first_seat(set, worker->name, worker->dp_rank);

        while (set->table[seat] != 0)
            seat = (seat + 1) & set->table_mask;
        set->table[seat] = (uint32_t)i + 1;
    }
    return KVT_OK;
}

enum kvt_err
advisor_worker_set_new(struct advisor_worker_set **out, struct router_workers *workers)
{
    struct advisor_worker_set *set = kvt_calloc(1, sizeof(*set));
    enum kvt_err rc;

    *out = NULL;
    if (set == NULL)
        return KVT_NOMEM;
    atomic_init(&set->users, 1);
    rc = copy_rows(set, workers);
    if (rc == KVT_OK)
        rc = make_table(set);
    if (rc != KVT_OK) {
        advisor_worker_set_leave(set);
        return rc;
    }
    *out = set;
    return KVT_OK;
}

struct advisor_worker_set *
advisor_worker_set_keep(struct advisor_worker_set *set)
{
    (void)atomic_fetch_add_explicit(&set->users, 1, memory_order_relaxed);
    return set;
}

void
advisor_worker_set_leave(struct advisor_worker_set *set)
{
    if (set == NULL || atomic_fetch_sub_explicit(&set->users, 1, memory_order_acq_rel) > 1)
        return;
    kvt_free(set->rows);
    kvt_free(set->table);
    kvt_free(set);
}

size_t
advisor_worker_set_find(const struct advisor_worker_set *set, const char *name, uint32_t dp_rank)
{
    size_t seat = first_seat(set, name, dp_rank);

    for (; set->table[seat] != 0; seat = (seat + 1) & set->table_mask) {
        const size_t row = set->table[seat] - 1;

        if (set->rows[row].worker.dp_rank == dp_rank &&
            strncmp(set->rows[row].worker.name, name, KVT_NAME_MAX) == 0)
            return row;
    }
    return set->count;
}
