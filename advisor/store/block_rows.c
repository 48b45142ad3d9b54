#include <assert.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/alloc.h"

/* Blocks by (hash, ns), and held by (holder, ns, hash). */

/* Start of a block's value; its places follow. */
struct head {
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint64_t last_access_ms;
    uint64_t touched_ms;
    uint64_t stored_ms;
    uint32_t position;
    uint32_t hits;
    uint32_t cold_hits;
    uint32_t cold_recent;
};

_Static_assert(sizeof(struct head) == 64, "no padding on disk");
_Static_assert(sizeof(struct advisor_store_place) == 8, "no padding on disk");

struct block_key {
    uint64_t hash_big;
    uint32_t ns_big;
} __attribute__((packed));

struct held_key {
    uint32_t holder_big;
    uint32_t ns_big;
    uint64_t hash_big;
};

struct held_value {
    uint32_t reporter;
    uint32_t gen;
};

/* ---- rows of blocks, in G4 or evicted ---- */

enum kvt_err
advisor_store_reserve_places(void **places, size_t *capacity, uint32_t count, size_t size)
{
    void *more;

    if (count > ADVISOR_STORE_PLACES_MAX)
        return KVT_FULL;
    more = kvt_grow(*places, capacity, count, size);
    if (more == NULL)
        return KVT_NOMEM;
    *places = more;
    return KVT_OK;
}

enum kvt_err
advisor_block_row_get(const struct advisor_txn *txn, enum advisor_table table, uint32_t ns,
                      uint64_t hash, MDB_val *value)
{
    struct block_key id = {htobe64(hash), htobe32(ns)};
    MDB_val key = advisor_val(&id, sizeof(id));

    return advisor_store_code(mdb_get(txn->handle, txn->store->tables[table], &key, value));
}

enum kvt_err
advisor_block_row_put(const struct advisor_txn *txn, enum advisor_table table, uint32_t ns,
                      uint64_t hash, MDB_val head, MDB_val places)
{
    struct block_key id = {htobe64(hash), htobe32(ns)};
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = {.mv_size = head.mv_size + places.mv_size};
    int rc;

    if (places.mv_size == 0)
        return advisor_table_delete(txn, table, key);
    rc = mdb_put(txn->handle, txn->store->tables[table], &key, &value, MDB_RESERVE);
    if (rc != 0)
        return advisor_store_code(rc);
    memcpy(value.mv_data, head.mv_data, head.mv_size);
    memcpy((uint8_t *)value.mv_data + head.mv_size, places.mv_data, places.mv_size);
    return KVT_OK;
}

enum kvt_err
advisor_block_rows(const struct advisor_txn *txn, enum advisor_table table, uint64_t from,
                   size_t max, uint64_t *next, advisor_block_row_fn *callback, void *arg)
{
    struct block_key id = {htobe64(from), 0};
    MDB_val key = advisor_val(&id, sizeof(id));
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    uint64_t last = from;
    MDB_val value;
    size_t count = 0;
    int rc;

    *next = 0;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[table], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        uint64_t hash;

        code = key.mv_size == sizeof(id) ? KVT_OK : KVT_CORRUPT;
        if (code != KVT_OK)
            break;
        memcpy(&id, key.mv_data, sizeof(id));
        hash = be64toh(id.hash_big);
        /* The same hash in several namespaces stays on one page: the cursor is the hash alone. */
        if (count >= max && hash != last) {
            *next = hash;
            break;
        }
        last = hash;
        count++;
        code = callback(arg, be32toh(id.ns_big), hash, &value);
        if (code != KVT_OK)
            break;
    }
    mdb_cursor_close(cursor);
    if (code != KVT_OK || rc == MDB_NOTFOUND)
        return code;
    return advisor_store_code(rc);
}

/* ---- in G4 ---- */

void
advisor_store_block_release(struct advisor_store_block *block)
{
    kvt_free(block->places);
    *block = (struct advisor_store_block){0};
}

enum kvt_err
advisor_store_block_reserve(struct advisor_store_block *block, uint32_t count)
{
    void *places = block->places;
    const enum kvt_err rc = advisor_store_reserve_places(&places, &block->place_capacity, count,
                                                         sizeof(*block->places));

    block->places = places;
    return rc;
}

static enum kvt_err
unpack(const MDB_val *value, struct advisor_store_block *block)
{
    struct head head;
    enum kvt_err rc;
    uint32_t count;

    if (value->mv_size < sizeof(head) ||
        (value->mv_size - sizeof(head)) % sizeof(struct advisor_store_place) != 0)
        return KVT_CORRUPT;
    memcpy(&head, value->mv_data, sizeof(head));
    count = (uint32_t)((value->mv_size - sizeof(head)) / sizeof(struct advisor_store_place));
    rc = advisor_store_block_reserve(block, count);
    if (rc != KVT_OK)
        return rc;
    block->parent = head.parent;
    block->tokens_hash = head.tokens_hash;
    block->size = head.size;
    block->last_access_ms = head.last_access_ms;
    block->touched_ms = head.touched_ms;
    block->stored_ms = head.stored_ms;
    block->position = head.position;
    block->hits = head.hits;
    block->cold_hits = head.cold_hits;
    block->cold_recent = head.cold_recent;
    block->place_count = count;
    if (count > 0)
        memcpy(block->places, (const uint8_t *)value->mv_data + sizeof(head),
               count * sizeof(*block->places));
    return KVT_OK;
}

static void
clear(struct advisor_store_block *block, uint32_t ns, uint64_t hash)
{
    struct advisor_store_place *places = block->places;
    const size_t capacity = block->place_capacity;

    *block = (struct advisor_store_block){
        .hash = hash, .ns = ns, .places = places, .place_capacity = capacity};
}

enum kvt_err
advisor_store_get_block(const struct advisor_txn *txn, uint32_t ns, uint64_t hash,
                        struct advisor_store_block *block)
{
    MDB_val value;
    const enum kvt_err rc = advisor_block_row_get(txn, ADVISOR_TABLE_BLOCKS, ns, hash, &value);

    clear(block, ns, hash);
    return rc == KVT_OK ? unpack(&value, block) : rc;
}

enum kvt_err
advisor_store_put_block(const struct advisor_txn *txn, const struct advisor_store_block *block)
{
    struct head head = {
        .parent = block->parent,
        .tokens_hash = block->tokens_hash,
        .size = block->size,
        .last_access_ms = block->last_access_ms,
        .touched_ms = block->touched_ms,
        .stored_ms = block->stored_ms,
        .position = block->position,
        .hits = block->hits,
        .cold_hits = block->cold_hits,
        .cold_recent = block->cold_recent,
    };

    return advisor_block_row_put(
        txn, ADVISOR_TABLE_BLOCKS, block->ns, block->hash, advisor_val(&head, sizeof(head)),
        advisor_val(block->places, block->place_count * sizeof(*block->places)));
}

uint64_t
advisor_store_block_count(const struct advisor_txn *txn)
{
    return advisor_table_count(txn, ADVISOR_TABLE_BLOCKS);
}

struct walk {
    struct advisor_store_block block;
    advisor_store_block_fn *callback;
    void *arg;
};

static enum kvt_err
give_block(void *arg, uint32_t ns, uint64_t hash, const MDB_val *value)
{
    struct walk *walk = arg;
    enum kvt_err rc;

    clear(&walk->block, ns, hash);
    rc = unpack(value, &walk->block);
    return rc == KVT_OK ? walk->callback(walk->arg, &walk->block) : rc;
}

enum kvt_err
advisor_store_blocks(const struct advisor_txn *txn, uint64_t from, size_t max, uint64_t *next,
                     advisor_store_block_fn *callback, void *arg)
{
    struct walk walk = {.callback = callback, .arg = arg};
    const enum kvt_err rc =
        advisor_block_rows(txn, ADVISOR_TABLE_BLOCKS, from, max, next, give_block, &walk);

    advisor_store_block_release(&walk.block);
    return rc;
}

/* ---- held ---- */

static struct held_key
held_key(uint32_t holder, uint32_t ns, uint64_t hash)
{
    return (struct held_key){htobe32(holder), htobe32(ns), htobe64(hash)};
}

enum kvt_err
advisor_store_put_held(const struct advisor_txn *txn, const struct advisor_held *held)
{
    const MDB_dbi table = txn->store->tables[ADVISOR_TABLE_HELD];
    struct held_value row = {held->reporter, held->gen};
    struct held_key id = held_key(held->holder, held->ns, held->hash);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value;

    /* Most repeated stores change nothing here; a page that is not written is not copied either. */
    if (mdb_get(txn->handle, table, &key, &value) == 0 && value.mv_size == sizeof(row) &&
        memcmp(value.mv_data, &row, sizeof(row)) == 0)
        return KVT_OK;
    value = advisor_val(&row, sizeof(row));
    return advisor_store_code(mdb_put(txn->handle, table, &key, &value, 0));
}

enum kvt_err
advisor_store_delete_held(const struct advisor_txn *txn, const struct advisor_held *held)
{
    struct held_key id = held_key(held->holder, held->ns, held->hash);

    return advisor_table_delete(txn, ADVISOR_TABLE_HELD, advisor_val(&id, sizeof(id)));
}

enum kvt_err
advisor_store_held(const struct advisor_txn *txn, uint32_t holder, uint32_t ns, uint64_t from,
                   struct advisor_held *rows, size_t max, size_t *count)
{
    struct held_key id = held_key(holder, ns, from);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_cursor *cursor;
    MDB_val value;
    int rc;

    *count = 0;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_HELD], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0 && *count < max;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        struct held_value row;

        if (key.mv_size != sizeof(id) || value.mv_size != sizeof(row))
            break;
        memcpy(&id, key.mv_data, sizeof(id));
        if (id.holder_big != htobe32(holder) || id.ns_big != htobe32(ns))
            break;
        memcpy(&row, value.mv_data, sizeof(row));
        rows[(*count)++] =
            (struct advisor_held){be64toh(id.hash_big), holder, ns, row.reporter, row.gen};
    }
    mdb_cursor_close(cursor);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}

enum kvt_err
advisor_store_holds_nothing(const struct advisor_txn *txn, uint32_t holder, bool *nothing)
{
    struct held_key id = held_key(holder, 0, 0);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_cursor *cursor;
    MDB_val value;
    int rc;

    *nothing = false;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_HELD], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc == 0 && key.mv_size == sizeof(id)) {
        memcpy(&id, key.mv_data, sizeof(id));
        *nothing = id.holder_big != htobe32(holder);
    }
    mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND)
        *nothing = true;
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
}
