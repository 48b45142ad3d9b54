#include "advisor/route/worker_set.h"

#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

enum { TABLE_LEAST = 8 };

static size_t
first_seat(const struct advisor_worker_set *crew, const char *name, uint32_t dp_rank)
{
    return XXH3_64bits_withSeed(name, strnlen(name, KVT_NAME_MAX), dp_rank) & crew->table_mask;
}

/* Copy who is there; some may come between two looks. */
static enum kvt_err
copy_rows(struct advisor_worker_set *crew, struct router_workers *workers)
{
    size_t capacity = 0;

    for (;;) {
        router_workers_view(workers, crew->rows, capacity, &crew->count, &crew->version);
        if (crew->count <= capacity)
            return KVT_OK;
        kvt_free(crew->rows);
        capacity = crew->count;
        crew->rows = kvt_calloc(capacity, sizeof(*crew->rows));
        if (crew->rows == NULL)
            return KVT_NOMEM;
    }
}

static enum kvt_err
make_table(struct advisor_worker_set *crew)
{
    size_t size = TABLE_LEAST;

    while (size < 2 * crew->count)
        size *= 2;
    crew->table = kvt_calloc(size, sizeof(*crew->table));
    if (crew->table == NULL)
        return KVT_NOMEM;
    crew->table_mask = size - 1;
    for (size_t i = 0; i < crew->count; i++) {
        const struct router_worker *worker = &crew->rows[i].worker;
        size_t seat = first_seat(crew, worker->name, worker->dp_rank);

        while (crew->table[seat] != 0)
            seat = (seat + 1) & crew->table_mask;
        crew->table[seat] = (uint32_t)i + 1;
    }
    return KVT_OK;
}

enum kvt_err
advisor_worker_set_new(struct advisor_worker_set **out, struct router_workers *workers)
{
    struct advisor_worker_set *crew = kvt_calloc(1, sizeof(*crew));
    enum kvt_err rc;

    *out = NULL;
    if (crew == NULL)
        return KVT_NOMEM;
    atomic_init(&crew->users, 1);
    rc = copy_rows(crew, workers);
    if (rc == KVT_OK)
        rc = make_table(crew);
    if (rc != KVT_OK) {
        advisor_worker_set_leave(crew);
        return rc;
    }
    *out = crew;
    return KVT_OK;
}

struct advisor_worker_set *
advisor_worker_set_keep(struct advisor_worker_set *crew)
{
    (void)atomic_fetch_add_explicit(&crew->users, 1, memory_order_relaxed);
    return crew;
}

void
advisor_worker_set_leave(struct advisor_worker_set *crew)
{
    if (crew == NULL || atomic_fetch_sub_explicit(&crew->users, 1, memory_order_acq_rel) > 1)
        return;
    kvt_free(crew->rows);
    kvt_free(crew->table);
    kvt_free(crew);
}

size_t
advisor_worker_set_find(const struct advisor_worker_set *crew, const char *name, uint32_t dp_rank)
{
    size_t seat = first_seat(crew, name, dp_rank);

    for (; crew->table[seat] != 0; seat = (seat + 1) & crew->table_mask) {
        const size_t row = crew->table[seat] - 1;

        if (crew->rows[row].worker.dp_rank == dp_rank &&
            strncmp(crew->rows[row].worker.name, name, KVT_NAME_MAX) == 0)
            return row;
    }
    return crew->count;
}
