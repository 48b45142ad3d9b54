#include "advisor/store/evicted_rows.h"

#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/alloc.h"

/* Start of a block's value; its places follow. */
struct head {
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint32_t position;
    uint32_t unused;
};

_Static_assert(sizeof(struct head) == 32, "no padding on disk");
_Static_assert(sizeof(struct advisor_evicted_place) == 16, "no padding on disk");

struct drop_key {
    uint32_t holder_big;
    uint32_t ns_big;
};

void
advisor_evicted_row_release(struct advisor_evicted_row *row)
{
    kvt_free(row->places);
    *row = (struct advisor_evicted_row){0};
}

enum kvt_err
advisor_evicted_row_reserve(struct advisor_evicted_row *row, uint32_t count)
{
    void *places = row->places;
    const enum kvt_err rc =
        advisor_store_reserve_places(&places, &row->place_capacity, count, sizeof(*row->places));

    row->places = places;
    return rc;
}

static void
clear(struct advisor_evicted_row *row, uint32_t ns, uint64_t hash)
{
    *row = (struct advisor_evicted_row){
        .hash = hash, .ns = ns, .places = row->places, .place_capacity = row->place_capacity};
}

static enum kvt_err
unpack(const MDB_val *value, struct advisor_evicted_row *row)
{
    struct head head;
    enum kvt_err rc;
    uint32_t count;

    if (value->mv_size < sizeof(head) ||
        (value->mv_size - sizeof(head)) % sizeof(struct advisor_evicted_place) != 0)
        return KVT_CORRUPT;
    memcpy(&head, value->mv_data, sizeof(head));
    count = (uint32_t)((value->mv_size - sizeof(head)) / sizeof(struct advisor_evicted_place));
    rc = advisor_evicted_row_reserve(row, count);
    if (rc != KVT_OK)
        return rc;
    row->parent = head.parent;
    row->tokens_hash = head.tokens_hash;
    row->size = head.size;
    row->position = head.position;
    row->place_count = count;
    if (count > 0)
        memcpy(row->places, (const uint8_t *)value->mv_data + sizeof(head),
               count * sizeof(*row->places));
    return KVT_OK;
}

enum kvt_err
advisor_store_get_cold(const struct advisor_txn *txn, uint32_t ns, uint64_t hash,
                       struct advisor_evicted_row *row)
{
    MDB_val value;
    const enum kvt_err rc = advisor_block_row_get(txn, ADVISOR_TABLE_COLD, ns, hash, &value);

    clear(row, ns, hash);
    return rc == KVT_OK ? unpack(&value, row) : rc;
}

enum kvt_err
advisor_store_put_cold(const struct advisor_txn *txn, const struct advisor_evicted_row *row)
{
    struct head head = {.parent = row->parent,
                        .tokens_hash = row->tokens_hash,
                        .size = row->size,
                        .position = row->position};

    return advisor_block_row_put(txn, ADVISOR_TABLE_COLD, row->ns, row->hash,
                                 advisor_val(&head, sizeof(head)),
                                 advisor_val(row->places, row->place_count * sizeof(*row->places)));
}

uint64_t
advisor_store_evicted_count(const struct advisor_txn *txn)
{
    return advisor_table_count(txn, ADVISOR_TABLE_COLD);
}

struct walk {
    struct advisor_evicted_row row;
    advisor_store_evicted_fn *callback;
    void *arg;
};

static enum kvt_err
give_row(void *arg, uint32_t ns, uint64_t hash, const MDB_val *value)
{
    struct walk *walk = arg;
    enum kvt_err rc;

    clear(&walk->row, ns, hash);
    rc = unpack(value, &walk->row);
    return rc == KVT_OK ? walk->callback(walk->arg, &walk->row) : rc;
}

enum kvt_err
advisor_store_colds(const struct advisor_txn *txn, uint64_t from, size_t max, uint64_t *next,
                    advisor_store_evicted_fn *callback, void *arg)
{
    struct walk walk = {.callback = callback, .arg = arg};
    enum kvt_err rc = KVT_OK;

    *next = 0;
    if (advisor_store_evicted_count(txn) > 0)
        rc = advisor_block_rows(txn, ADVISOR_TABLE_COLD, from, max, next, give_row, &walk);
    advisor_evicted_row_release(&walk.row);
    return rc;
}

/* ---- drops ---- */

enum kvt_err
advisor_store_put_cold_drop(const struct advisor_txn *txn, uint32_t holder, uint32_t ns,
                            uint64_t number)
{
    struct drop_key id = {htobe32(holder), htobe32(ns)};

    return advisor_table_put(txn, ADVISOR_TABLE_COLD_DROPS, advisor_val(&id, sizeof(id)), &number,
                             sizeof(number));
}

uint64_t
advisor_store_evicted_drop_count(const struct advisor_txn *txn)
{
    return advisor_table_count(txn, ADVISOR_TABLE_COLD_DROPS);
}

enum kvt_err
advisor_store_delete_cold_drops(const struct advisor_txn *txn, uint64_t below)
{
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_COLD_DROPS], &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        uint64_t number;

        if (value.mv_size != sizeof(number)) {
            mdb_cursor_close(cursor);
            return KVT_CORRUPT;
        }
        memcpy(&number, value.mv_data, sizeof(number));
        if (number < below)
            rc = mdb_cursor_del(cursor, 0);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

/* Number of the holder's drop in the namespace; KVT_NOTFOUND: it was not dropped. */
static enum kvt_err
get_drop(const struct advisor_txn *txn, uint32_t holder, uint32_t ns, uint64_t *number)
{
    struct drop_key id = {htobe32(holder), htobe32(ns)};

    return advisor_table_get(txn, ADVISOR_TABLE_COLD_DROPS, advisor_val(&id, sizeof(id)), number,
                             sizeof(*number));
}

enum kvt_err
advisor_store_evicted_prune(const struct advisor_txn *txn, struct advisor_evicted_row *row,
                            uint32_t *count)
{
    uint32_t kept = 0;

    *count = 0;
    if (advisor_store_evicted_drop_count(txn) == 0)
        return KVT_OK;
    for (uint32_t i = 0; i < row->place_count; i++) {
        uint64_t number;
        const enum kvt_err rc = get_drop(txn, row->places[i].holder, row->ns, &number);

        if (rc != KVT_OK && rc != KVT_NOTFOUND)
            return rc;
        if (rc == KVT_NOTFOUND || row->places[i].number > number) {
            const struct advisor_evicted_place place = row->places[kept];

            row->places[kept++] = row->places[i];
            row->places[i] = place;
        }
    }
    *count = row->place_count - kept;
    row->place_count = kept;
    return KVT_OK;
}

enum kvt_err
advisor_store_clear_cold(const struct advisor_txn *txn)
{
    int rc = mdb_drop(txn->handle, txn->store->tables[ADVISOR_TABLE_COLD], 0);

    if (rc == 0)
        rc = mdb_drop(txn->handle, txn->store->tables[ADVISOR_TABLE_COLD_DROPS], 0);
    return advisor_store_code(rc);
}
