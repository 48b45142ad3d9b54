#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/publisher/publishers_private.h"
#include "base/core/alloc.h"
#include "wire/message/query.h"

/* What is shown of publishers, and whom to doubt. */

static void
fill_view(struct advisor_publisher_view *view, struct advisor_publisher *publisher)
{
    view->row = publisher->row;
    view->foreign = publisher->foreign;
    memcpy(view->namespace_, publisher->namespace_, sizeof(view->namespace_));
    memcpy(view->error, publisher->error, sizeof(view->error));
    view->conflicts = publisher->seen.conflicts;
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
doubt(struct advisor_number_map *doubtful, uint32_t rank, const char *before, const char *name)
{
    struct doubt_key key = {.rank = rank};
    const int size = snprintf(key.name, sizeof(key.name), "%s%s", before, name);

    if (size >= (int)sizeof(key.name))
        return KVT_OK; /* no holder has such a name */
    return advisor_number_map_put(doubtful, &key, sizeof(key.rank) + (size_t)size, 1);
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
doubt_view(struct advisor_number_map *doubtful, const struct advisor_publisher_view *view)
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
    struct advisor_number_map *doubtful;
    uint32_t buckets = 0;
    enum kvt_err rc;

    if (!table->shared.stale || advisor_number_map_new(&doubtful) != KVT_OK)
        return;
    rc = KVT_OK;
    for (size_t i = 0; i < table->shared.view_count && rc == KVT_OK; i++) {
        if (table->shared.views[i].state != ADVISOR_UNCERTAIN)
            continue;
        rc = doubt_view(doubtful, &table->shared.views[i]);
        buckets |= table->shared.views[i].row.buckets;
    }
    if (rc == KVT_OK) {
        advisor_number_map_free(table->shared.doubtful);
        table->shared.doubtful = doubtful;
        table->shared.doubtful_buckets = buckets;
        table->shared.stale = false;
    } else {
        advisor_number_map_free(doubtful);
    }
}

/* With the lock held. */
static bool
is_doubtful(const struct advisor_publishers *table, const struct wire_query_holder *holder)
{
    const struct advisor_number_map *doubtful = table->shared.doubtful;
    const bool g4 = holder->tier == KVT_TIER_G4;
    const size_t length = strnlen(holder->name, sizeof(holder->name) - 1);
    struct doubt_key key = {.rank = g4 ? NO_RANK : holder->dp_rank};
    const size_t size = sizeof(key.rank) + length;
    uint32_t ignored;

    memcpy(key.name, holder->name, length);
    if (advisor_number_map_get(doubtful, &key, size, &ignored))
        return true;
    if (g4)
        return (table->shared.doubtful_buckets & bucket_bit(holder->name, length)) != 0;
    key.rank = ANY_RANK;
    return advisor_number_map_get(doubtful, &key, size, &ignored);
}

void
advisor_publishers_mark(struct advisor_publishers *table, struct wire_query_holder *holders,
                        size_t count)
{
    (void)pthread_mutex_lock(&table->shared.lock);
    if (advisor_number_map_count(table->shared.doubtful) > 0)
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

/* With the lock held: a view comes, or is about to change. */
static void
count_view(struct advisor_publishers *table, const struct advisor_publisher_view *view, bool comes)
{
    const size_t one = comes ? 1 : SIZE_MAX; /* wraps */

    table->shared.live += view->state != ADVISOR_GONE ? one : 0;
    table->shared.uncertain += view->state == ADVISOR_UNCERTAIN ? one : 0;
    table->shared.silent += view->silent ? one : 0;
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

    if (!fresh)
        count_view(table, view, false);
    fill_view(view, publisher);
    count_view(table, view, true);
    if (was != (view->state == ADVISOR_UNCERTAIN) || number != view->row.number ||
        buckets != view->row.buckets || holds_g4 != view->row.holds_g4)
        table->shared.stale = true;
}

void
advisor_publishers_unshow(struct advisor_publishers *table, size_t slot)
{
    const size_t last = table->count - 1;
    struct advisor_publisher_view *views = table->shared.views;

    (void)pthread_mutex_lock(&table->shared.lock);
    if (slot < table->shared.view_count) {
        count_view(table, &views[slot], false);
        if (last < table->shared.view_count) {
            views[slot] = views[last];
        } else { /* the last one is not shown yet: it counts nothing until it is */
            views[slot].state = ADVISOR_GONE;
            views[slot].silent = false;
        }
    }
    if (table->shared.view_count > last)
        table->shared.view_count = last;
    table->shared.stale = true;
    (void)pthread_mutex_unlock(&table->shared.lock);
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
    (void)pthread_mutex_lock(&table->shared.lock);
    *live = table->shared.live;
    *uncertain = table->shared.uncertain;
    *silent = table->shared.silent;
    (void)pthread_mutex_unlock(&table->shared.lock);
}
