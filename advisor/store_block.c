#include <assert.h>
#include <string.h>

#include "advisor/store_private.h"
#include "base/alloc.h"

/* Blocks by (hash, ns), and held by (holder, ns, hash). */

/* Start of a block's value; its places follow. */
struct head {
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint64_t last_access_ms;
    uint64_t touched_ms;
    uint32_t position;
    uint32_t hits;
    uint32_t cold_hits;
    uint32_t cold_recent;
};

_Static_assert(sizeof(struct head) == 56, "no padding on disk");
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

void
advisor_store_block_release(struct advisor_store_block *block)
{
    kvt_free(block->places);
    *block = (struct advisor_store_block){0};
}

enum kvt_err
advisor_store_block_reserve(struct advisor_store_block *block, uint32_t count)
{
    uint32_t capacity = block->place_capacity == 0 ? 4 : block->place_capacity;
    struct advisor_store_place *places;

    if (count > ADVISOR_STORE_PLACES_MAX)
        return KVT_FULL;
    if (count <= block->place_capacity)
        return KVT_OK;
    while (capacity < count)
        capacity *= 2;
    places = kvt_realloc(block->places, capacity, sizeof(*places));
    if (places == NULL)
        return KVT_NOMEM;
    block->places = places;
    block->place_capacity = capacity;
    return KVT_OK;
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
    const uint32_t capacity = block->place_capacity;

    *block = (struct advisor_store_block){
        .hash = hash, .ns = ns, .places = places, .place_capacity = capacity};
}

enum kvt_err
advisor_store_get_block(const struct advisor_txn *txn, uint32_t ns, uint64_t hash,
                        struct advisor_store_block *block)
{
    struct block_key id = {htobe64(hash), htobe32(ns)};
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value;
    int rc;

    clear(block, ns, hash);
    rc = mdb_get(txn->handle, txn->store->tables[ADVISOR_TABLE_BLOCKS], &key, &value);
    return rc == 0 ? unpack(&value, block) : advisor_store_code(rc);
}

enum kvt_err
advisor_store_put_block(const struct advisor_txn *txn, const struct advisor_store_block *block)
{
    const MDB_dbi table = txn->store->tables[ADVISOR_TABLE_BLOCKS];
    const struct head head = {
        .parent = block->parent,
        .tokens_hash = block->tokens_hash,
        .size = block->size,
        .last_access_ms = block->last_access_ms,
        .touched_ms = block->touched_ms,
        .position = block->position,
        .hits = block->hits,
        .cold_hits = block->cold_hits,
        .cold_recent = block->cold_recent,
    };
    struct block_key id = {htobe64(block->hash), htobe32(block->ns)};
    const size_t tail = block->place_count * sizeof(*block->places);
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = {.mv_size = sizeof(head) + tail};
    int rc;

    if (block->place_count == 0) {
        rc = mdb_del(txn->handle, table, &key, NULL);
        return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
    }
    rc = mdb_put(txn->handle, table, &key, &value, MDB_RESERVE);
    if (rc != 0)
        return advisor_store_code(rc);
    memcpy(value.mv_data, &head, sizeof(head));
    memcpy((uint8_t *)value.mv_data + sizeof(head), block->places, tail);
    return KVT_OK;
}

uint64_t
advisor_store_block_count(const struct advisor_txn *txn)
{
    MDB_stat stat;

    if (mdb_stat(txn->handle, txn->store->tables[ADVISOR_TABLE_BLOCKS], &stat) != 0)
        return 0;
    return stat.ms_entries;
}

/* One step of the walk: decode the row under the cursor. */
static enum kvt_err
take_block(const MDB_val *key, const MDB_val *value, struct advisor_store_block *block)
{
    struct block_key id;

    if (key->mv_size != sizeof(id))
        return KVT_CORRUPT;
    memcpy(&id, key->mv_data, sizeof(id));
    clear(block, be32toh(id.ns_big), be64toh(id.hash_big));
    return unpack(value, block);
}

enum kvt_err
advisor_store_blocks(const struct advisor_txn *txn, uint64_t from, size_t max, uint64_t *next,
                     advisor_store_block_fn *callback, void *arg)
{
    struct block_key id = {htobe64(from), 0};
    struct advisor_store_block block = {0};
    MDB_val key = advisor_val(&id, sizeof(id));
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    uint64_t last = from;
    MDB_val value;
    size_t count = 0;
    int rc;

    *next = 0;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_BLOCKS], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        code = take_block(&key, &value, &block);
        if (code != KVT_OK)
            break;
        /* The same hash in several namespaces stays on one page: the cursor is the hash alone. */
        if (count >= max && block.hash != last) {
            *next = block.hash;
            break;
        }
        last = block.hash;
        count++;
        code = callback(arg, &block);
        if (code != KVT_OK)
            break;
    }
    mdb_cursor_close(cursor);
    advisor_store_block_release(&block);
    if (code != KVT_OK || rc == MDB_NOTFOUND)
        return code;
    return advisor_store_code(rc);
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
    MDB_val key = advisor_val(&id, sizeof(id));
    const int rc = mdb_del(txn->handle, txn->store->tables[ADVISOR_TABLE_HELD], &key, NULL);

    return rc == MDB_NOTFOUND ? KVT_OK : advisor_store_code(rc);
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
