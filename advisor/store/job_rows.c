#include "advisor/store/job_rows.h"

#include <stddef.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/alloc.h"

static MDB_dbi
table(const struct advisor_txn *txn, enum advisor_table which)
{
    return txn->store->tables[which];
}

static struct advisor_key_two
key_of(uint64_t job, uint64_t n)
{
    return (struct advisor_key_two){htobe64(job), htobe64(n)};
}

/* ---- jobs ---- */

/* Texts of a row end: it may have been written by a machine that failed. */
static bool
is_sound(const struct advisor_job_row *row)
{
    return row->state <= ADVISOR_JOB_CANCELLED &&
           memchr(row->kind, '\0', sizeof(row->kind)) != NULL &&
           memchr(row->title, '\0', sizeof(row->title)) != NULL &&
           memchr(row->key, '\0', sizeof(row->key)) != NULL &&
           memchr(row->text, '\0', sizeof(row->text)) != NULL;
}

enum kvt_err
advisor_store_put_job(const struct advisor_txn *txn, const struct advisor_job_row *row)
{
    struct advisor_key_two number = key_of(row->id, 0);
    MDB_val key = advisor_val(&number.first_big, sizeof(number.first_big));
    MDB_val value = {.mv_size = sizeof(*row), .mv_data = NULL};
    const int rc = mdb_put(txn->handle, table(txn, ADVISOR_TABLE_JOBS), &key, &value, MDB_RESERVE);

    if (rc == 0)
        memcpy(value.mv_data, row, sizeof(*row));
    return advisor_store_code(rc);
}

enum kvt_err
advisor_store_job(const struct advisor_txn *txn, uint64_t id, struct advisor_job_row *row)
{
    struct advisor_key_two number = key_of(id, 0);
    MDB_val key = advisor_val(&number.first_big, sizeof(number.first_big));
    MDB_val value;
    const int rc = mdb_get(txn->handle, table(txn, ADVISOR_TABLE_JOBS), &key, &value);

    memset(row, 0, sizeof(*row));
    if (rc != 0)
        return advisor_store_code(rc);
    if (value.mv_size != sizeof(*row))
        return KVT_CORRUPT;
    memcpy(row, value.mv_data, sizeof(*row));
    return is_sound(row) ? KVT_OK : KVT_CORRUPT;
}

enum kvt_err
advisor_store_delete_job(const struct advisor_txn *txn, uint64_t id, uint32_t batches)
{
    struct advisor_key_two number = key_of(id, 0);
    MDB_val key = advisor_val(&number.first_big, sizeof(number.first_big));
    int rc = mdb_del(txn->handle, table(txn, ADVISOR_TABLE_JOBS), &key, NULL);

    for (uint32_t n = 0; n < batches && (rc == 0 || rc == MDB_NOTFOUND); n++) {
        struct advisor_key_two batch = key_of(id, n);

        key = advisor_val(&batch, sizeof(batch));
        rc = mdb_del(txn->handle, table(txn, ADVISOR_TABLE_JOB_MOVES), &key, NULL);
    }
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

enum kvt_err
advisor_store_jobs(const struct advisor_txn *txn, advisor_store_job_fn *callback, void *arg)
{
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc = mdb_cursor_open(txn->handle, table(txn, ADVISOR_TABLE_JOBS), &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0 && code == KVT_OK;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        struct advisor_job_row row;

        if (value.mv_size != sizeof(row)) {
            code = KVT_CORRUPT;
            break;
        }
        memcpy(&row, value.mv_data, sizeof(row));
        code = is_sound(&row) ? callback(arg, &row) : KVT_CORRUPT;
    }
    mdb_cursor_close(cursor);
    if (code != KVT_OK)
        return code;
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
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
    const int rc =
        mdb_put(txn->handle, table(txn, ADVISOR_TABLE_JOB_MOVES), &key, &value, MDB_RESERVE);

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
           memchr(batch->gateway, '\0', sizeof(batch->gateway)) != NULL &&
           memchr(batch->namespace_, '\0', sizeof(batch->namespace_)) != NULL &&
           memchr(batch->text, '\0', sizeof(batch->text)) != NULL &&
           memchr(batch->from, '\0', sizeof(batch->from)) != NULL &&
           memchr(batch->to, '\0', sizeof(batch->to)) != NULL;
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
    const int rc = mdb_get(txn->handle, table(txn, ADVISOR_TABLE_JOB_MOVES), &key, &value);

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
