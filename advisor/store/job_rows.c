#include "advisor/store/job_rows.h"

#include <stddef.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/alloc.h"

static struct advisor_key_two
key_of(uint64_t job, uint64_t n)
{
    return (struct advisor_key_two){htobe64(job), htobe64(n)};
}

/* ---- jobs ---- */

bool
advisor_job_row_is_sound(const void *data)
{
    const struct advisor_job_row *row = data;

    return row->state <= ADVISOR_JOB_CANCELLED && advisor_text_ends(row->kind, sizeof(row->kind)) &&
           advisor_text_ends(row->title, sizeof(row->title)) &&
           advisor_text_ends(row->key, sizeof(row->key)) &&
           advisor_text_ends(row->text, sizeof(row->text));
}

enum kvt_err
advisor_store_job(const struct advisor_txn *txn, uint64_t id, struct advisor_job_row *row)
{
    uint64_t key = htobe64(id);
    const enum kvt_err rc = advisor_table_get(txn, ADVISOR_TABLE_JOBS,
                                              advisor_val(&key, sizeof(key)), row, sizeof(*row));

    return rc == KVT_OK && !advisor_job_row_is_sound(row) ? KVT_CORRUPT : rc;
}

enum kvt_err
advisor_store_delete_job(const struct advisor_txn *txn, uint64_t id, uint32_t batches)
{
    const struct advisor_job_row row = {.id = id};
    enum kvt_err rc = advisor_store_delete(txn, ADVISOR_ROW_JOB, &row);

    for (uint32_t n = 0; n < batches && rc == KVT_OK; n++) {
        struct advisor_key_two batch = key_of(id, n);

        rc = advisor_table_delete(txn, ADVISOR_TABLE_JOB_MOVES, advisor_val(&batch, sizeof(batch)));
    }
    return rc;
}

/* ---- batches ---- */

/* Earlier versions know no edge, and read what has none. */
static size_t
head_size(bool edge)
{
    return edge ? sizeof(struct advisor_job_batch) : offsetof(struct advisor_job_batch, from);
}

enum kvt_err
advisor_store_put_batch(const struct advisor_txn *txn, uint64_t job, uint32_t n,
                        const struct advisor_job_batch *batch, const struct kvt_order_item *items)
{
    const bool edge = batch->from[0] != '\0';
    const size_t head = head_size(edge);
    const size_t size = items == NULL ? 0 : batch->items * sizeof(*items);
    struct advisor_key_two number = key_of(job, n);
    MDB_val key = advisor_val(&number, sizeof(number));
    MDB_val value = {.mv_size = head + size, .mv_data = NULL};
    struct advisor_job_batch row = *batch;
    const int rc = mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_JOB_MOVES], &key, &value,
                           MDB_RESERVE);

    if (rc != 0)
        return advisor_store_code(rc);
    row.flags = (row.flags & ~ADVISOR_BATCH_EDGE) | (edge ? ADVISOR_BATCH_EDGE : 0);
    memcpy(value.mv_data, &row, head);
    if (size > 0)
        memcpy((uint8_t *)value.mv_data + head, items, size);
    return KVT_OK;
}

/* The head of a row, and how long it is; false: it is none. */
static bool
read_head(const MDB_val *value, struct advisor_job_batch *batch, size_t *head)
{
    *head = head_size(false);
    if (value->mv_size < *head)
        return false;
    memcpy(batch, value->mv_data, *head);
    *head = head_size((batch->flags & ADVISOR_BATCH_EDGE) != 0);
    if (value->mv_size < *head)
        return false;
    memcpy(batch, value->mv_data, *head);
    return batch->items <= KVT_ORDER_ITEMS_MAX &&
           advisor_text_ends(batch->gateway, sizeof(batch->gateway)) &&
           advisor_text_ends(batch->namespace_, sizeof(batch->namespace_)) &&
           advisor_text_ends(batch->text, sizeof(batch->text)) &&
           advisor_text_ends(batch->from, sizeof(batch->from)) &&
           advisor_text_ends(batch->to, sizeof(batch->to));
}

enum kvt_err
advisor_store_batch(const struct advisor_txn *txn, uint64_t job, uint32_t n,
                    struct advisor_job_batch *batch, struct kvt_order_item **items)
{
    struct advisor_key_two number = key_of(job, n);
    MDB_val key = advisor_val(&number, sizeof(number));
    MDB_val value;
    size_t head;
    size_t size;
    const int rc = mdb_get(txn->handle, txn->store->tables[ADVISOR_TABLE_JOB_MOVES], &key, &value);

    memset(batch, 0, sizeof(*batch));
    if (items != NULL)
        *items = NULL;
    if (rc != 0)
        return advisor_store_code(rc);
    if (!read_head(&value, batch, &head))
        return KVT_CORRUPT;
    size = value.mv_size - head;
    if (size != 0 && size != batch->items * sizeof(struct kvt_order_item))
        return KVT_CORRUPT;
    if (items == NULL || size == 0)
        return KVT_OK;
    *items = kvt_calloc(batch->items, sizeof(**items));
    if (*items == NULL)
        return KVT_NOMEM;
    memcpy(*items, (const uint8_t *)value.mv_data + head, size);
    return KVT_OK;
}
