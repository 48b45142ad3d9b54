#include "router/worker_load.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

enum { HEADS_FIRST = 64 };

struct router_worker_load_worker {
    struct router_worker worker;
    uint32_t next; /* of those with the same head; of those to give again */
    void *mark;
};

static size_t
head_of(const struct router_worker_load *columns, const struct router_worker *worker)
{
    const XXH64_hash_t hash =
        XXH3_64bits_withSeed(worker->name, strlen(worker->name), columns->seed + worker->dp_rank);

    return (size_t)hash & (columns->head_count - 1);
}

bool
router_worker_load_init(struct router_worker_load *columns)
{
    *columns =
        (struct router_worker_load){.free = ROUTER_WORKER_LOAD_NONE, .head_count = HEADS_FIRST};
    kvt_random_system(&columns->seed, sizeof(columns->seed));
    columns->heads = kvt_calloc(HEADS_FIRST, sizeof(columns->heads[0]));
    if (columns->heads == NULL)
        return false;
    memset(columns->heads, 0xff, HEADS_FIRST * sizeof(columns->heads[0]));
    return true;
}

void
router_worker_load_release(struct router_worker_load *columns)
{
    kvt_free(columns->workers);
    kvt_free(columns->places);
    kvt_free(columns->prefill_tokens);
    kvt_free(columns->blocks);
    kvt_free(columns->scratch);
    kvt_free(columns->requests);
    kvt_free(columns->numbers);
    kvt_free(columns->heads);
    *columns = (struct router_worker_load){0};
}

uint32_t
router_worker_load_find(const struct router_worker_load *columns,
                        const struct router_worker *worker)
{
    uint32_t at = columns->heads[head_of(columns, worker)];

    while (at != ROUTER_WORKER_LOAD_NONE &&
           (columns->workers[at].worker.dp_rank != worker->dp_rank ||
            strcmp(columns->workers[at].worker.name, worker->name) != 0))
        at = columns->workers[at].next;
    return at;
}

const struct router_worker *
router_worker_load_name(const struct router_worker_load *columns, uint32_t number)
{
    return &columns->workers[number].worker;
}

void **
router_worker_load_mark(struct router_worker_load *columns, uint32_t number)
{
    return &columns->workers[number].mark;
}

static void
link_worker(struct router_worker_load *columns, uint32_t number)
{
    uint32_t *head = &columns->heads[head_of(columns, &columns->workers[number].worker)];

    columns->workers[number].next = *head;
    *head = number;
}

/* Twice the heads, where there is memory; without, the lists are longer. */
static void
spread(struct router_worker_load *columns)
{
    uint32_t *heads;

    if (columns->count < columns->head_count)
        return;
    heads = kvt_calloc(2 * columns->head_count, sizeof(heads[0]));
    if (heads == NULL)
        return;
    kvt_free(columns->heads);
    columns->heads = heads;
    columns->head_count *= 2;
    memset(heads, 0xff, columns->head_count * sizeof(heads[0]));
    for (uint32_t place = 0; place < columns->count; place++)
        link_worker(columns, columns->numbers[place]);
}

/* Room for one place more in each column: all of them have the capacity that is written last. */
static bool
grow_columns(struct router_worker_load *columns)
{
    const size_t wanted = columns->count < 64 ? 64 : 2 * (size_t)columns->count;
    uint64_t **wide[] = {&columns->prefill_tokens, &columns->blocks, &columns->scratch};
    uint32_t **narrow[] = {&columns->requests, &columns->numbers};

    if (columns->count < columns->capacity)
        return true;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        uint64_t *grown = kvt_realloc(*wide[i], wanted, sizeof(grown[0]));

        if (grown == NULL)
            return false;
        *wide[i] = grown;
    }
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
        uint32_t *grown = kvt_realloc(*narrow[i], wanted, sizeof(grown[0]));

        if (grown == NULL)
            return false;
        *narrow[i] = grown;
    }
    columns->capacity = wanted;
    return true;
}

/* A number nobody has, taken; or ROUTER_WORKER_LOAD_NONE: no memory. */
static uint32_t
take_number(struct router_worker_load *columns)
{
    struct router_worker_load_worker *workers;
    uint32_t *places;
    uint32_t number = columns->free;

    if (number != ROUTER_WORKER_LOAD_NONE) {
        columns->free = columns->workers[number].next;
        return number;
    }
    workers = kvt_grow(columns->workers, &columns->workers_capacity, (size_t)columns->used + 1,
                       sizeof(workers[0]));
    if (workers == NULL)
        return ROUTER_WORKER_LOAD_NONE;
    columns->workers = workers;
    places = kvt_grow(columns->places, &columns->places_capacity, (size_t)columns->used + 1,
                      sizeof(places[0]));
    if (places == NULL)
        return ROUTER_WORKER_LOAD_NONE;
    columns->places = places;
    return columns->used++;
}

static enum kvt_err
reach(struct router_worker_load *columns, const struct router_worker *worker, uint32_t max,
      uint32_t *number)
{
    *number = router_worker_load_find(columns, worker);
    if (*number != ROUTER_WORKER_LOAD_NONE)
        return KVT_OK;
    if (columns->count >= max)
        return KVT_FULL;
    if (!grow_columns(columns))
        return KVT_NOMEM;
    *number = take_number(columns);
    if (*number == ROUTER_WORKER_LOAD_NONE)
        return KVT_NOMEM;
    columns->workers[*number] = (struct router_worker_load_worker){.worker = *worker};
    columns->places[*number] = columns->count;
    columns->numbers[columns->count] = *number;
    columns->prefill_tokens[columns->count] = 0;
    columns->blocks[columns->count] = 0;
    columns->requests[columns->count] = 0;
    columns->count++;
    link_worker(columns, *number);
    spread(columns);
    return KVT_OK;
}

enum kvt_err
router_worker_load_reach(struct router_worker_load *columns, const struct router_worker *worker,
                         uint32_t *number)
{
    return reach(columns, worker, columns->bound + ROUTER_WORKERS_MAX, number);
}

/* All of a place but `scratch`. */
static void
copy_place(struct router_worker_load *columns, uint32_t to, uint32_t from)
{
    columns->prefill_tokens[to] = columns->prefill_tokens[from];
    columns->blocks[to] = columns->blocks[from];
    columns->requests[to] = columns->requests[from];
    columns->numbers[to] = columns->numbers[from];
    columns->places[columns->numbers[to]] = to;
}

static void
swap_places(struct router_worker_load *columns, uint32_t a, uint32_t b)
{
    const uint64_t prefill_tokens = columns->prefill_tokens[a];
    const uint64_t blocks = columns->blocks[a];
    const uint32_t requests = columns->requests[a];
    const uint32_t number = columns->numbers[a];

    copy_place(columns, a, b);
    columns->prefill_tokens[b] = prefill_tokens;
    columns->blocks[b] = blocks;
    columns->requests[b] = requests;
    columns->numbers[b] = number;
    columns->places[number] = b;
}

void
router_worker_load_tidy(struct router_worker_load *columns, uint32_t number)
{
    const uint32_t place = columns->places[number];
    uint32_t *link;

    if (place < columns->bound || columns->requests[place] > 0)
        return;
    link = &columns->heads[head_of(columns, &columns->workers[number].worker)];
    while (*link != number)
        link = &columns->workers[*link].next;
    *link = columns->workers[number].next;
    columns->workers[number].next = columns->free;
    columns->free = number;
    columns->count--;
    if (place < columns->count)
        copy_place(columns, place, columns->count);
}

/* From the last on: what takes the place of one that went was looked at. */
static void
tidy_all(struct router_worker_load *columns)
{
    for (uint32_t place = columns->count; place > columns->bound; place--)
        router_worker_load_tidy(columns, columns->numbers[place - 1]);
}

enum kvt_err
router_worker_load_bind(struct router_worker_load *columns, const struct router_worker_row *rows,
                        size_t count)
{
    enum kvt_err rc = count > ROUTER_WORKERS_MAX ? KVT_FULL : KVT_OK;
    uint32_t number;

    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = reach(columns, &rows[i].worker, ROUTER_WORKER_LOAD_MAX, &number);
    if (rc == KVT_OK) {
        for (uint32_t i = 0; i < count; i++) {
            number = router_worker_load_find(columns, &rows[i].worker);
            assert(columns->places[number] >= i); /* each is named once */
            swap_places(columns, i, columns->places[number]);
        }
        columns->bound = (uint32_t)count;
    }
    tidy_all(columns);
    return rc;
}
