#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/publisher/publishers_private.h"
#include "base/core/alloc.h"

/* Publishers as rows of the store. */

struct load {
    struct advisor_publishers *table;
    const struct advisor_name_table *names;
    struct advisor_foreign_row *foreign; /* in the order of their numbers */
    size_t foreign_count;
    size_t foreign_capacity;
    uint64_t now_ms;
};

static enum kvt_err
load_foreign(void *arg, const void *data)
{
    const struct advisor_foreign_row *row = data;
    struct load *load = arg;

    void *more = kvt_grow(load->foreign, &load->foreign_capacity, load->foreign_count + 1,
                          sizeof(*load->foreign));

    if (more == NULL)
        return KVT_NOMEM;
    load->foreign = more;
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
load_row(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;
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
                   advisor_name_table_namespace_text(load->names, row->ns));
    if (foreign != NULL) {
        model.is_foreign = true;
        model.foreign = *foreign;
        /* The second: all it holds is known, and not up to which number. */
        model.rebase =
            foreign->lost != 0 || (foreign->met != 0 && row->last_seq == 0 && row->need_dump == 0);
        memcpy(model.error, foreign->reason, sizeof(foreign->reason));
        model.error[sizeof(foreign->reason) - 1] = '\0';
    }
    return advisor_publishers_place(load->table, &model, load->table->count);
}

/* Of a publisher that is not there any more: a former version evicted it. */
static enum kvt_err
load_seen(void *arg, const void *data)
{
    const struct advisor_seen_row *row = data;
    struct advisor_publisher *publisher = advisor_publishers_by_number(arg, row->publisher);

    return publisher == NULL ? KVT_OK : advisor_seen_events_load(&publisher->seen, row);
}

static enum kvt_err
load_seen_key(struct advisor_publishers *table, const struct advisor_txn *txn)
{
    const enum kvt_err rc =
        advisor_store_number(txn, ADVISOR_META_SEEN_KEY, &table->saved_seen_key);

    if (rc == KVT_OK && table->saved_seen_key != 0)
        table->seen_key = table->saved_seen_key;
    return rc;
}

enum kvt_err
advisor_publishers_load(struct advisor_publishers *table, const struct advisor_txn *txn,
                        const struct advisor_name_table *names, uint64_t now_ms)
{
    struct load load = {.table = table, .names = names, .now_ms = now_ms};
    uint64_t next = 0;
    enum kvt_err rc = load_seen_key(table, txn);

    if (rc == KVT_OK)
        rc = advisor_store_walk(txn, ADVISOR_ROW_FOREIGN, load_foreign, &load);
    if (rc == KVT_OK)
        rc = advisor_store_walk(txn, ADVISOR_ROW_PUBLISHER, load_row, &load);
    kvt_free(load.foreign);
    if (rc == KVT_OK)
        rc = advisor_store_walk(txn, ADVISOR_ROW_SEEN, load_seen, table);
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
    const struct advisor_publisher_row row = {.number = number};
    const struct advisor_foreign_row foreign = {.number = number};
    enum kvt_err rc = advisor_store_delete(txn, ADVISOR_ROW_PUBLISHER, &row);

    if (rc == KVT_OK)
        rc = advisor_store_delete(txn, ADVISOR_ROW_FOREIGN, &foreign);
    for (uint32_t slot = 0; slot < ADVISOR_SEEN_CHUNKS && rc == KVT_OK; slot++) {
        const struct advisor_seen_row seen = {.publisher = number, .slot = slot};

        rc = advisor_store_delete(txn, ADVISOR_ROW_SEEN, &seen);
    }
    return rc;
}

static enum kvt_err
save_one(const struct advisor_txn *txn, const struct advisor_publisher *publisher)
{
    enum kvt_err rc = advisor_store_put(txn, ADVISOR_ROW_PUBLISHER, &publisher->row);

    if (rc == KVT_OK && publisher->is_foreign)
        rc = advisor_store_put(txn, ADVISOR_ROW_FOREIGN, &publisher->foreign);
    return rc == KVT_OK ? advisor_seen_events_save(&publisher->seen, txn, publisher->row.number)
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
    if (rc == KVT_OK && table->saved_seen_key != table->seen_key)
        rc = advisor_store_put_number(txn, ADVISOR_META_SEEN_KEY, table->seen_key);
    return rc;
}

void
advisor_publishers_saved(struct advisor_publishers *table)
{
    table->evicted_count = 0;
    table->saved_number = table->next_number;
    table->saved_seen_key = table->seen_key;
    for (size_t i = 0; i < table->active_count; i++) {
        table->active[i]->dirty = false;
        table->active[i]->seen.dirty = 0;
    }
}
