#include "advisor/publishers.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/map.h"
#include "base/alloc.h"
#include "wire/query.h"

struct advisor_publishers {
    struct advisor_map *by_name;   /* (ns, worker) -> slot */
    struct advisor_map *by_number; /* number -> slot */
    struct advisor_publisher *slots[ADVISOR_PUBLISHERS_MAX];
    size_t count;
    struct advisor_publisher *active[ADVISOR_PUBLISHERS_MAX]; /* with something to do */
    size_t active_count;
    uint32_t next_number;
    uint32_t saved_number; /* `next_number` in the store */
    uint32_t evicted[ADVISOR_PUBLISHERS_MAX]; /* rows to delete with the next save */
    size_t evicted_count;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        struct advisor_publisher_view *views;
        size_t view_count;
        size_t view_capacity;
        struct advisor_map *doubtful; /* struct doubt_key of the uncertain ones */
        uint32_t doubtful_buckets;    /* the same for what the row's `buckets` says */
        bool stale;                   /* neither is what the views say */
    } shared;
};

enum { KEY_NUMBERS = 4 };

struct name_key {
    uint8_t bytes[KEY_NUMBERS * sizeof(uint32_t) + KVT_NAME_MAX];
    size_t size;
};

/* No namespace has the number a foreign key begins with, so that the two kinds never meet. */
static struct name_key
name_key(const struct advisor_publisher *publisher)
{
    const struct advisor_publisher_row *row = &publisher->row;
    const uint32_t foreign[KEY_NUMBERS] = {UINT32_MAX, publisher->foreign.source, row->ns,
                                           publisher->foreign.dp_rank};
    const void *numbers = publisher->is_foreign ? (const void *)foreign : (const void *)&row->ns;
    const size_t numbers_size = publisher->is_foreign ? sizeof(foreign) : sizeof(row->ns);
    const size_t size = strlen(row->worker);
    struct name_key key = {.size = numbers_size + size};

    memcpy(key.bytes, numbers, numbers_size);
    memcpy(key.bytes + numbers_size, row->worker, size);
    return key;
}

enum kvt_err
advisor_publishers_new(struct advisor_publishers **out)
{
    struct advisor_publishers *table = kvt_calloc(1, sizeof(*table));

    *out = NULL;
    if (table == NULL)
        return KVT_NOMEM;
    table->next_number = 1;
    if (pthread_mutex_init(&table->shared.lock, NULL) != 0) {
        kvt_free(table);
        return KVT_NOMEM;
    }
    if (advisor_map_new(&table->by_name) != KVT_OK ||
        advisor_map_new(&table->by_number) != KVT_OK ||
        advisor_map_new(&table->shared.doubtful) != KVT_OK) {
        advisor_publishers_free(table);
        return KVT_NOMEM;
    }
    *out = table;
    return KVT_OK;
}

void
advisor_publishers_free(struct advisor_publishers *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->count; i++) {
        advisor_publisher_unhold_all(table->slots[i]);
        kvt_free(table->slots[i]);
    }
    advisor_map_free(table->by_name);
    advisor_map_free(table->by_number);
    advisor_map_free(table->shared.doubtful);
    (void)pthread_mutex_destroy(&table->shared.lock);
    kvt_free(table->shared.views);
    kvt_free(table);
}

/* The slot of the one that is gone longest, or -1. */
static ptrdiff_t
oldest_gone(const struct advisor_publishers *table)
{
    ptrdiff_t oldest = -1;

    for (size_t i = 0; i < table->count; i++)
        if (table->slots[i]->row.gone != 0 &&
            (oldest < 0 ||
             table->slots[i]->row.last_event_ms < table->slots[oldest]->row.last_event_ms))
            oldest = (ptrdiff_t)i;
    return oldest;
}

static void
activate(struct advisor_publishers *table, struct advisor_publisher *publisher)
{
    if (publisher->active)
        return;
    assert(table->active_count < ADVISOR_PUBLISHERS_MAX);
    publisher->active = true;
    table->active[table->active_count++] = publisher;
}

/* Its place on the list goes to `heir`. */
static void
evict(struct advisor_publishers *table, struct advisor_publisher *publisher,
      struct advisor_publisher *heir)
{
    const struct name_key key = name_key(publisher);

    advisor_map_remove(table->by_name, key.bytes, key.size);
    advisor_map_remove(table->by_number, &publisher->row.number, sizeof(publisher->row.number));
    table->evicted[table->evicted_count++] = publisher->row.number;
    for (size_t i = 0; publisher->active && i < table->active_count; i++)
        if (table->active[i] == publisher) {
            table->active[i] = heir;
            heir->active = true;
        }
    advisor_publisher_unhold_all(publisher);
    kvt_free(publisher);
}

static enum kvt_err
place(struct advisor_publishers *table, const struct advisor_publisher *model, size_t slot)
{
    const struct name_key key = name_key(model);
    struct advisor_publisher *publisher = kvt_calloc(1, sizeof(*publisher));

    if (publisher == NULL)
        return KVT_NOMEM;
    *publisher = *model;
    publisher->slot = (uint32_t)slot;
    if (advisor_map_put(table->by_name, key.bytes, key.size, (uint32_t)slot) != KVT_OK) {
        kvt_free(publisher);
        return KVT_NOMEM;
    }
    if (advisor_map_put(table->by_number, &model->row.number, sizeof(model->row.number),
                        (uint32_t)slot) != KVT_OK) {
        advisor_map_remove(table->by_name, key.bytes, key.size);
        kvt_free(publisher);
        return KVT_NOMEM;
    }
    if (slot == table->count)
        table->count++;
    else
        evict(table, table->slots[slot], publisher);
    table->slots[slot] = publisher;
    activate(table, publisher);
    return KVT_OK;
}

/* Known, or placed as `model` says, which then gets its number. */
static enum kvt_err
get(struct advisor_publishers *table, struct advisor_publisher *model,
    struct advisor_publisher **out)
{
    const struct name_key key = name_key(model);
    size_t slot = table->count;
    uint32_t known;
    enum kvt_err rc;

    *out = NULL;
    if (advisor_map_get(table->by_name, key.bytes, key.size, &known)) {
        *out = table->slots[known];
        activate(table, *out);
        return KVT_OK;
    }
    model->row.number = table->next_number;
    model->foreign.number = model->is_foreign ? table->next_number : 0;
    if (slot == ADVISOR_PUBLISHERS_MAX) {
        const ptrdiff_t gone = oldest_gone(table);

        if (gone < 0 || table->evicted_count == ADVISOR_PUBLISHERS_MAX)
            return KVT_FULL;
        slot = (size_t)gone;
    }
    rc = place(table, model, slot);
    if (rc != KVT_OK)
        return rc;
    table->next_number++;
    *out = table->slots[slot];
    return KVT_OK;
}

enum kvt_err
advisor_publishers_get(struct advisor_publishers *table, uint32_t ns, const char *namespace_,
                       const char *worker, struct advisor_publisher **out)
{
    struct advisor_publisher model = {.row = {.ns = ns}, .dirty = true};

    (void)snprintf(model.row.worker, sizeof(model.row.worker), "%s", worker);
    (void)snprintf(model.namespace_, sizeof(model.namespace_), "%s", namespace_);
    return get(table, &model, out);
}

enum kvt_err
advisor_publishers_get_foreign(struct advisor_publishers *table,
                               const struct advisor_foreign_key *key,
                               struct advisor_publisher **out)
{
    struct advisor_publisher model = {
        .row = {.ns = key->ns, .incarnation = 1},
        .foreign = {.worker_id = key->worker_id,
                    .source = key->source,
                    .dp_rank = key->dp_rank,
                    .messages = key->messages ? 1 : 0,
                    .any_rank = key->any_rank ? 1 : 0},
        .is_foreign = true,
        .dirty = true,
    };

    (void)snprintf(model.row.worker, sizeof(model.row.worker), "%s", key->worker);
    (void)snprintf(model.namespace_, sizeof(model.namespace_), "%s", key->namespace_);
    return get(table, &model, out);
}

struct advisor_publisher *
advisor_publishers_by_number(struct advisor_publishers *table, uint32_t number)
{
    uint32_t slot;

    if (!advisor_map_get(table->by_number, &number, sizeof(number), &slot))
        return NULL;
    activate(table, table->slots[slot]);
    return table->slots[slot];
}

size_t
advisor_publishers_count(const struct advisor_publishers *table)
{
    return table->count;
}

struct advisor_publisher *
advisor_publishers_at(const struct advisor_publishers *table, size_t at)
{
    return table->slots[at];
}

/* ---- those with something to do ---- */

static bool
is_busy(const struct advisor_publisher *publisher)
{
    return publisher->dirty || !publisher->shown || publisher->held_count > 0 ||
           advisor_publisher_uncertain(publisher);
}

void
advisor_publishers_wake(struct advisor_publishers *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (is_busy(table->slots[i]))
            activate(table, table->slots[i]);
}

void
advisor_publishers_rest(struct advisor_publishers *table)
{
    size_t kept = 0;

    for (size_t i = 0; i < table->active_count; i++) {
        struct advisor_publisher *publisher = table->active[i];

        publisher->active = is_busy(publisher);
        if (publisher->active)
            table->active[kept++] = publisher;
    }
    table->active_count = kept;
}

size_t
advisor_publishers_active_count(const struct advisor_publishers *table)
{
    return table->active_count;
}

struct advisor_publisher *
advisor_publishers_active(const struct advisor_publishers *table, size_t at)
{
    return table->active[at];
}

uint64_t
advisor_publishers_held_seq(const struct advisor_publishers *table, uint32_t source)
{
    uint64_t least = 0;

    for (size_t i = 0; i < table->active_count; i++) {
        const struct advisor_item *item = table->active[i]->held_first;

        if (item != NULL && table->active[i]->foreign.source == source && item->stream_seq != 0 &&
            (least == 0 || item->stream_seq < least))
            least = item->stream_seq;
    }
    return least;
}

/* ---- durable ---- */

struct load {
    struct advisor_publishers *table;
    const struct advisor_names *names;
    struct advisor_foreign_row *foreign; /* in the order of their numbers */
    size_t foreign_count;
    size_t foreign_capacity;
    uint64_t now_ms;
};

static enum kvt_err
load_foreign(void *arg, const struct advisor_foreign_row *row)
{
    struct load *load = arg;

    if (load->foreign_count == load->foreign_capacity) {
        const size_t capacity = load->foreign_capacity == 0 ? 64 : load->foreign_capacity * 2;
        void *more = kvt_realloc(load->foreign, capacity, sizeof(*load->foreign));

        if (more == NULL)
            return KVT_NOMEM;
        load->foreign = more;
        load->foreign_capacity = capacity;
    }
    load->foreign[load->foreign_count++] = *row;
    return KVT_OK;
}

static int
compare_number(const void *key, const void *row)
{
    const uint32_t a = *(const uint32_t *)key;
    const uint32_t b = ((const struct advisor_foreign_row *)row)->number;

    return a < b ? -1 : a > b;
}

static enum kvt_err
load_row(void *arg, const struct advisor_publisher_row *row)
{
    const struct load *load = arg;
    struct advisor_publisher model = {.row = *row, .heard_ms = load->now_ms};
    const struct advisor_foreign_row *foreign =
        load->foreign_count == 0 ? NULL
                                 : bsearch(&row->number, load->foreign, load->foreign_count,
                                           sizeof(*load->foreign), compare_number);

    if (memchr(row->worker, '\0', sizeof(row->worker)) == NULL)
        return KVT_CORRUPT;
    if (load->table->count == ADVISOR_PUBLISHERS_MAX)
        return KVT_FULL;
    (void)snprintf(model.namespace_, sizeof(model.namespace_), "%s",
                   advisor_names_namespace_text(load->names, row->ns));
    if (foreign != NULL) {
        model.is_foreign = true;
        model.foreign = *foreign;
        model.rebase = foreign->lost != 0;
        memcpy(model.error, foreign->reason, sizeof(foreign->reason));
        model.error[sizeof(foreign->reason) - 1] = '\0';
    }
    return place(load->table, &model, load->table->count);
}

enum kvt_err
advisor_publishers_load(struct advisor_publishers *table, const struct advisor_txn *txn,
                        const struct advisor_names *names, uint64_t now_ms)
{
    struct load load = {.table = table, .names = names, .now_ms = now_ms};
    uint64_t next = 0;
    enum kvt_err rc = advisor_store_foreigns(txn, load_foreign, &load);

    if (rc == KVT_OK)
        rc = advisor_store_publishers(txn, load_row, &load);
    kvt_free(load.foreign);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_PUBLISHER_NEXT, &next);
    if (next > table->next_number)
        table->next_number = (uint32_t)next;
    table->saved_number = (uint32_t)next;
    return rc;
}

bool
advisor_publishers_dirty(const struct advisor_publishers *table)
{
    if (table->evicted_count > 0)
        return true;
    for (size_t i = 0; i < table->active_count; i++)
        if (table->active[i]->dirty)
            return true;
    return false;
}

static enum kvt_err
save_gone(const struct advisor_txn *txn, uint32_t number)
{
    const enum kvt_err rc = advisor_store_delete_publisher(txn, number);

    return rc == KVT_OK ? advisor_store_delete_foreign(txn, number) : rc;
}

static enum kvt_err
save_one(const struct advisor_txn *txn, const struct advisor_publisher *publisher)
{
    const enum kvt_err rc = advisor_store_put_publisher(txn, &publisher->row);

    return rc == KVT_OK && publisher->is_foreign
               ? advisor_store_put_foreign(txn, &publisher->foreign)
               : rc;
}

enum kvt_err
advisor_publishers_save(struct advisor_publishers *table, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < table->evicted_count && rc == KVT_OK; i++)
        rc = save_gone(txn, table->evicted[i]);
    for (size_t i = 0; i < table->active_count && rc == KVT_OK; i++)
        if (table->active[i]->dirty)
            rc = save_one(txn, table->active[i]);
    if (rc == KVT_OK && table->saved_number != table->next_number)
        rc = advisor_store_put_number(txn, ADVISOR_META_PUBLISHER_NEXT, table->next_number);
    return rc;
}

void
advisor_publishers_saved(struct advisor_publishers *table)
{
    table->evicted_count = 0;
    table->saved_number = table->next_number;
    for (size_t i = 0; i < table->active_count; i++)
        table->active[i]->dirty = false;
}

/* ---- for people ---- */

static void
fill_view(struct advisor_publisher_view *view, struct advisor_publisher *publisher)
{
    view->row = publisher->row;
    view->foreign = publisher->foreign;
    memcpy(view->namespace_, publisher->namespace_, sizeof(view->namespace_));
    memcpy(view->error, publisher->error, sizeof(view->error));
    view->silent = publisher->silent && publisher->row.gone == 0;
    view->state = publisher->row.gone != 0                ? ADVISOR_GONE
                  : advisor_publisher_doubtful(publisher) ? ADVISOR_UNCERTAIN
                                                          : ADVISOR_LIVE;
    publisher->shown = true;
}

/* ---- who is uncertain ---- */

#define ANY_RANK   UINT32_MAX
#define NO_RANK    (UINT32_MAX - 1) /* of holders in G4 */
#define HOT_PREFIX "hot@"

enum { BUCKET_BITS = 24 };

struct doubt_key {
    uint32_t rank;
    char name[KVT_NAME_MAX];
};

static enum kvt_err
doubt(struct advisor_map *doubtful, uint32_t rank, const char *before, const char *name)
{
    struct doubt_key key = {.rank = rank};
    const int size = snprintf(key.name, sizeof(key.name), "%s%s", before, name);

    if (size >= (int)sizeof(key.name))
        return KVT_OK; /* no holder has such a name */
    return advisor_map_put(doubtful, &key, sizeof(key.rank) + (size_t)size, 1);
}

static uint32_t
bucket_bit(const char *holder, size_t size)
{
    return 1u << (XXH3_64bits(holder, size) % BUCKET_BITS);
}

/* Its own in G4 is known by its name, without a bit. */
static bool
is_named_after(const char *holder, const char *worker)
{
    const size_t prefix = sizeof(HOT_PREFIX) - 1;

    return strcmp(holder, worker) == 0 ||
           (strncmp(holder, HOT_PREFIX, prefix) == 0 && strcmp(holder + prefix, worker) == 0);
}

void
advisor_publishers_reported(struct advisor_publishers *table, uint32_t number, const char *holder)
{
    struct advisor_publisher *publisher = advisor_publishers_by_number(table, number);
    uint32_t bit;

    if (publisher == NULL || is_named_after(holder, publisher->row.worker))
        return;
    bit = bucket_bit(holder, strlen(holder));
    if ((publisher->row.buckets & bit) != 0)
        return;
    publisher->row.buckets |= bit & ((1u << BUCKET_BITS) - 1);
    publisher->dirty = true;
    publisher->shown = false;
}

static enum kvt_err
doubt_view(struct advisor_map *doubtful, const struct advisor_publisher_view *view)
{
    const bool one_rank = view->foreign.number != 0 && view->foreign.any_rank == 0;
    enum kvt_err rc =
        doubt(doubtful, one_rank ? view->foreign.dp_rank : ANY_RANK, "", view->row.worker);

    if (rc == KVT_OK && view->row.holds_g4 != 0)
        rc = doubt(doubtful, NO_RANK, "", view->row.worker);
    if (rc == KVT_OK && view->row.holds_g4 != 0)
        rc = doubt(doubtful, NO_RANK, HOT_PREFIX, view->row.worker);
    return rc;
}

/* With the lock held.  Without memory the former answer stays until the next round. */
static void
note_doubtful(struct advisor_publishers *table)
{
    struct advisor_map *doubtful;
    uint32_t buckets = 0;
    enum kvt_err rc;

    if (!table->shared.stale || advisor_map_new(&doubtful) != KVT_OK)
        return;
    rc = KVT_OK;
    for (size_t i = 0; i < table->shared.view_count && rc == KVT_OK; i++) {
        if (table->shared.views[i].state != ADVISOR_UNCERTAIN)
            continue;
        rc = doubt_view(doubtful, &table->shared.views[i]);
        buckets |= table->shared.views[i].row.buckets;
    }
    if (rc == KVT_OK) {
        advisor_map_free(table->shared.doubtful);
        table->shared.doubtful = doubtful;
        table->shared.doubtful_buckets = buckets;
        table->shared.stale = false;
    } else {
        advisor_map_free(doubtful);
    }
}

/* With the lock held. */
static bool
is_doubtful(const struct advisor_publishers *table, const struct wire_query_holder *holder)
{
    const struct advisor_map *doubtful = table->shared.doubtful;
    const bool g4 = holder->tier == KVT_TIER_G4;
    const size_t length = strnlen(holder->name, sizeof(holder->name) - 1);
    struct doubt_key key = {.rank = g4 ? NO_RANK : holder->dp_rank};
    const size_t size = sizeof(key.rank) + length;
    uint32_t ignored;

    memcpy(key.name, holder->name, length);
    if (advisor_map_get(doubtful, &key, size, &ignored))
        return true;
    if (g4)
        return (table->shared.doubtful_buckets & bucket_bit(holder->name, length)) != 0;
    key.rank = ANY_RANK;
    return advisor_map_get(doubtful, &key, size, &ignored);
}

void
advisor_publishers_mark(struct advisor_publishers *table, struct wire_query_holder *holders,
                        size_t count)
{
    (void)pthread_mutex_lock(&table->shared.lock);
    if (advisor_map_count(table->shared.doubtful) > 0)
        for (size_t i = 0; i < count; i++)
            holders[i].uncertain = is_doubtful(table, &holders[i]);
    (void)pthread_mutex_unlock(&table->shared.lock);
}

/* ---- for people ---- */

/* With the lock held.  Room for a view of each; without memory some are not shown. */
static void
grow_views(struct advisor_publishers *table)
{
    const size_t capacity = table->count * 2;
    void *more;

    if (table->count <= table->shared.view_capacity)
        return;
    more = kvt_realloc(table->shared.views, capacity, sizeof(*table->shared.views));
    if (more == NULL)
        return;
    table->shared.views = more;
    table->shared.view_capacity = capacity;
}

/* With the lock held. */
static void
show_one(struct advisor_publishers *table, struct advisor_publisher *publisher)
{
    const size_t at = publisher->slot;
    struct advisor_publisher_view *view = &table->shared.views[at];
    const bool fresh = at >= table->shared.view_count;
    const bool was = !fresh && view->state == ADVISOR_UNCERTAIN;
    const uint32_t number = fresh ? 0 : view->row.number;
    const uint32_t buckets = fresh ? 0 : view->row.buckets;
    const uint32_t holds_g4 = fresh ? 0 : view->row.holds_g4;

    fill_view(view, publisher);
    if (was != (view->state == ADVISOR_UNCERTAIN) || number != view->row.number ||
        buckets != view->row.buckets || holds_g4 != view->row.holds_g4)
        table->shared.stale = true;
}

void
advisor_publishers_show(struct advisor_publishers *table)
{
    (void)pthread_mutex_lock(&table->shared.lock);
    grow_views(table);
    /* Who is not shown yet is on the list, so that no view stays empty. */
    for (size_t i = 0; i < table->active_count; i++)
        if (!table->active[i]->shown && table->active[i]->slot < table->shared.view_capacity)
            show_one(table, table->active[i]);
    table->shared.view_count =
        table->count < table->shared.view_capacity ? table->count : table->shared.view_capacity;
    note_doubtful(table);
    (void)pthread_mutex_unlock(&table->shared.lock);
}

size_t
advisor_publishers_views(struct advisor_publishers *table, struct advisor_publisher_view **views)
{
    size_t count;

    (void)pthread_mutex_lock(&table->shared.lock);
    count = table->shared.view_count;
    *views = count == 0 ? NULL : kvt_calloc(count, sizeof(**views));
    if (*views == NULL)
        count = 0;
    if (count > 0)
        memcpy(*views, table->shared.views, count * sizeof(**views));
    (void)pthread_mutex_unlock(&table->shared.lock);
    return count;
}

void
advisor_publishers_doubts(struct advisor_publishers *table, size_t *live, size_t *uncertain,
                          size_t *silent)
{
    *live = 0;
    *uncertain = 0;
    *silent = 0;
    (void)pthread_mutex_lock(&table->shared.lock);
    for (size_t i = 0; i < table->shared.view_count; i++) {
        const struct advisor_publisher_view *view = &table->shared.views[i];

        *live += view->state != ADVISOR_GONE ? 1 : 0;
        *uncertain += view->state == ADVISOR_UNCERTAIN ? 1 : 0;
        *silent += view->silent ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&table->shared.lock);
}
