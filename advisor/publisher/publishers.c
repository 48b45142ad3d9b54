#include "advisor/publisher/publishers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/publisher/publishers_private.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

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
    kvt_random_system(&table->seen_key, sizeof(table->seen_key));
    table->seen_key |= 1;
    if (pthread_mutex_init(&table->shared.lock, NULL) != 0) {
        kvt_free(table);
        return KVT_NOMEM;
    }
    if (advisor_number_map_new(&table->by_name) != KVT_OK ||
        advisor_number_map_new(&table->by_number) != KVT_OK ||
        advisor_number_map_new(&table->shared.doubtful) != KVT_OK) {
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
        advisor_seen_events_release(&table->slots[i]->seen);
        kvt_free(table->slots[i]);
    }
    advisor_number_map_free(table->by_name);
    advisor_number_map_free(table->by_number);
    advisor_number_map_free(table->shared.doubtful);
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

/* Where one of our own is remembered, or was. */
static struct advisor_publisher **
recent_of(struct advisor_publishers *table, const char *worker)
{
    return &table->recent[XXH3_64bits(worker, strlen(worker)) % ADVISOR_PUBLISHERS_RECENT];
}

/* Its place on the list goes to `heir`. */
static void
evict(struct advisor_publishers *table, struct advisor_publisher *publisher,
      struct advisor_publisher *heir)
{
    const struct name_key key = name_key(publisher);

    *recent_of(table, publisher->row.worker) = NULL;
    advisor_number_map_remove(table->by_name, key.bytes, key.size);
    advisor_number_map_remove(table->by_number, &publisher->row.number,
                              sizeof(publisher->row.number));
    table->evicted[table->evicted_count++] = publisher->row.number;
    for (size_t i = 0; publisher->active && i < table->active_count; i++)
        if (table->active[i] == publisher) {
            table->active[i] = heir;
            heir->active = true;
        }
    advisor_publisher_unhold_all(publisher);
    advisor_seen_events_release(&publisher->seen);
    kvt_free(publisher);
}

void
advisor_publishers_add_live(const struct advisor_publishers *table,
                            struct advisor_namespace_bits *live)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->slots[i]->row.gone == 0)
            advisor_namespace_bits_set(live, table->slots[i]->row.ns);
}

/* Its slot goes to the last one. */
static void
forget(struct advisor_publishers *table, size_t slot)
{
    struct advisor_publisher *publisher = table->slots[slot];
    struct advisor_publisher *last = table->slots[table->count - 1];
    size_t kept = 0;

    for (size_t i = 0; i < table->active_count; i++)
        if (table->active[i] != publisher)
            table->active[kept++] = table->active[i];
    table->active_count = kept;
    publisher->active = false;
    advisor_publishers_unshow(table, slot);
    if (last != publisher) {
        const struct name_key key = name_key(last);

        /* Both keys are there: they change without memory. */
        if (advisor_number_map_put(table->by_name, key.bytes, key.size, (uint32_t)slot) != KVT_OK ||
            advisor_number_map_put(table->by_number, &last->row.number, sizeof(last->row.number),
                                   (uint32_t)slot) != KVT_OK)
            abort();
        last->slot = (uint32_t)slot;
        table->slots[slot] = last;
    }
    table->count--;
    evict(table, publisher, NULL);
}

void
advisor_publishers_forget_gone(struct advisor_publishers *table,
                               const struct advisor_namespace_bits *of)
{
    for (size_t i = table->count; i > 0; i--) {
        const struct advisor_publisher_row *row = &table->slots[i - 1]->row;

        if (row->gone != 0 && table->evicted_count < ADVISOR_PUBLISHERS_MAX &&
            advisor_namespace_bits_has(of, row->ns))
            forget(table, i - 1);
    }
}

enum kvt_err
advisor_publishers_place(struct advisor_publishers *table, const struct advisor_publisher *model,
                         size_t slot)
{
    const struct name_key key = name_key(model);
    struct advisor_publisher *publisher = kvt_calloc(1, sizeof(*publisher));

    if (publisher == NULL)
        return KVT_NOMEM;
    *publisher = *model;
    publisher->slot = (uint32_t)slot;
    publisher->seen.key = table->seen_key;
    if (advisor_number_map_put(table->by_name, key.bytes, key.size, (uint32_t)slot) != KVT_OK) {
        kvt_free(publisher);
        return KVT_NOMEM;
    }
    if (advisor_number_map_put(table->by_number, &model->row.number, sizeof(model->row.number),
                               (uint32_t)slot) != KVT_OK) {
        advisor_number_map_remove(table->by_name, key.bytes, key.size);
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
    if (advisor_number_map_get(table->by_name, key.bytes, key.size, &known)) {
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
    rc = advisor_publishers_place(table, model, slot);
    if (rc != KVT_OK)
        return rc;
    table->next_number++;
    *out = table->slots[slot];
    return KVT_OK;
}

struct advisor_publisher *
advisor_publishers_recall(struct advisor_publishers *table, const char *namespace_,
                          const char *worker)
{
    struct advisor_publisher *publisher = *recent_of(table, worker);

    if (publisher == NULL || strcmp(publisher->row.worker, worker) != 0 ||
        strcmp(publisher->namespace_, namespace_) != 0)
        return NULL;
    activate(table, publisher);
    return publisher;
}

enum kvt_err
advisor_publishers_get(struct advisor_publishers *table, uint32_t ns, const char *namespace_,
                       const char *worker, struct advisor_publisher **out)
{
    struct advisor_publisher model = {.row = {.ns = ns}, .dirty = true};
    enum kvt_err rc;

    (void)snprintf(model.row.worker, sizeof(model.row.worker), "%s", worker);
    (void)snprintf(model.namespace_, sizeof(model.namespace_), "%s", namespace_);
    rc = get(table, &model, out);
    if (rc == KVT_OK)
        *recent_of(table, worker) = *out;
    return rc;
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

    if (!advisor_number_map_get(table->by_number, &number, sizeof(number), &slot))
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
        const struct advisor_inbox_item *item = table->active[i]->held_first;

        if (item != NULL && table->active[i]->foreign.source == source && item->stream_seq != 0 &&
            (least == 0 || item->stream_seq < least))
            least = item->stream_seq;
    }
    return least;
}
