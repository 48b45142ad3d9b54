#include "advisor/store/event_log_table.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/store/lmdb.h"

_Static_assert(sizeof(struct advisor_store_log) == 88, "no padding on disk");

/* Rows are numbered from 0 on in each table. */
struct row_key {
    uint64_t number_big;
};

static MDB_dbi
runs_table(const struct advisor_txn *txn, uint32_t which)
{
    assert(which == 1 || which == 2);
    return txn->store->tables[which == 1 ? ADVISOR_TABLE_RUNS_A : ADVISOR_TABLE_RUNS_B];
}

/* ---- the state ---- */

enum kvt_err
advisor_store_log_get(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    struct advisor_key_u32 id = {htobe32(ADVISOR_META_LOG)};
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value;
    int rc;

    *state = (struct advisor_store_log){0};
    rc = mdb_get(txn->handle, txn->store->tables[ADVISOR_TABLE_META], &key, &value);
    if (rc == MDB_NOTFOUND)
        return KVT_OK;
    if (rc != 0)
        return advisor_store_code(rc);
    if (value.mv_size != sizeof(*state))
        return KVT_CORRUPT;
    memcpy(state, value.mv_data, sizeof(*state));
    if (state->whole <= 2 && state->building <= 2 && state->oldest <= state->from &&
        state->from <= state->next)
        return KVT_OK;
    *state = (struct advisor_store_log){0};
    return KVT_CORRUPT;
}

static enum kvt_err
put_state(const struct advisor_txn *txn, const struct advisor_store_log *state)
{
    struct advisor_key_u32 id = {htobe32(ADVISOR_META_LOG)};
    MDB_val key = advisor_val(&id, sizeof(id));
    MDB_val value = {.mv_size = sizeof(*state)};
    const int rc =
        mdb_put(txn->handle, txn->store->tables[ADVISOR_TABLE_META], &key, &value, MDB_RESERVE);

    if (rc == 0)
        memcpy(value.mv_data, state, sizeof(*state));
    return advisor_store_code(rc);
}

/* What was to be changed is in the transaction; the caller's copy follows when it is there. */
static enum kvt_err
change_state(const struct advisor_txn *txn, struct advisor_store_log *state,
             const struct advisor_store_log *changed)
{
    const enum kvt_err rc = put_state(txn, changed);

    if (rc == KVT_OK)
        *state = *changed;
    return rc;
}

/* ---- writing ---- */

/* Behind all rows that are there; `next` and `bytes` follow. */
static enum kvt_err
append(const struct advisor_txn *txn, MDB_dbi table, const struct advisor_event_log *log,
       uint64_t *next, uint64_t *bytes)
{
    MDB_cursor *cursor;
    const void *row;
    size_t size;
    int rc = mdb_cursor_open(txn->handle, table, &cursor);

    if (rc != 0)
        return advisor_store_code(rc);
    for (size_t at = 0; rc == 0 && advisor_event_log_row(log, at, &row, &size); at++) {
        struct row_key id = {htobe64(*next)};
        MDB_val key = advisor_val(&id, sizeof(id));
        MDB_val value = {.mv_size = size};

        rc = mdb_cursor_put(cursor, &key, &value, MDB_APPEND | MDB_RESERVE);
        if (rc == 0)
            memcpy(value.mv_data, row, size);
        *bytes += size;
        (*next)++;
    }
    mdb_cursor_close(cursor);
    return advisor_store_code(rc);
}

enum kvt_err
advisor_store_log_append(const struct advisor_txn *txn, struct advisor_store_log *state,
                         const struct advisor_event_log *log)
{
    struct advisor_store_log changed = *state;
    const enum kvt_err rc =
        append(txn, txn->store->tables[ADVISOR_TABLE_JOURNAL], log, &changed.next, &changed.bytes);

    return rc == KVT_OK ? change_state(txn, state, &changed) : rc;
}

/* All rows; the table stays. */
static enum kvt_err
empty(const struct advisor_txn *txn, uint32_t which)
{
    return advisor_store_code(mdb_drop(txn->handle, runs_table(txn, which), 0));
}

enum kvt_err
advisor_store_log_begin(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    struct advisor_store_log changed = *state;
    enum kvt_err rc;

    changed.building = state->whole == 1 ? 2 : 1;
    changed.building_from = state->next;
    changed.building_at = state->bytes;
    changed.building_bytes = 0;
    changed.building_rows = 0;
    rc = empty(txn, changed.building);
    return rc == KVT_OK ? change_state(txn, state, &changed) : rc;
}

enum kvt_err
advisor_store_log_add(const struct advisor_txn *txn, struct advisor_store_log *state,
                      const struct advisor_event_log *slice)
{
    struct advisor_store_log changed = *state;
    const enum kvt_err rc = append(txn, runs_table(txn, state->building), slice,
                                   &changed.building_rows, &changed.building_bytes);

    return rc == KVT_OK ? change_state(txn, state, &changed) : rc;
}

static void
clear_building(struct advisor_store_log *state)
{
    state->building = 0;
    state->building_from = 0;
    state->building_at = 0;
    state->building_bytes = 0;
    state->building_rows = 0;
}

enum kvt_err
advisor_store_log_abandon(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    struct advisor_store_log changed = *state;
    enum kvt_err rc = KVT_OK;

    clear_building(&changed);
    if (state->building != 0)
        rc = empty(txn, state->building);
    return rc == KVT_OK ? change_state(txn, state, &changed) : rc;
}

enum kvt_err
advisor_store_log_end(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    struct advisor_store_log changed = *state;
    enum kvt_err rc = KVT_OK;

    assert(state->building != 0);
    changed.whole = state->building;
    changed.runs_bytes = state->building_bytes;
    changed.runs_rows = state->building_rows;
    changed.from = state->building_from;
    changed.bytes = state->bytes - state->building_at;
    clear_building(&changed);
    if (state->whole != 0)
        rc = empty(txn, state->whole);
    return rc == KVT_OK ? change_state(txn, state, &changed) : rc;
}

enum kvt_err
advisor_store_log_trim(const struct advisor_txn *txn, struct advisor_store_log *state)
{
    struct advisor_store_log changed = *state;
    MDB_cursor *cursor;
    MDB_val value;
    MDB_val key;
    int rc;

    if (state->oldest == state->from)
        return KVT_OK;
    rc = mdb_cursor_open(txn->handle, txn->store->tables[ADVISOR_TABLE_JOURNAL], &cursor);
    if (rc != 0)
        return advisor_store_code(rc);
    for (size_t i = 0; rc == 0 && i < ADVISOR_STORE_TRIM_ROWS && changed.oldest < state->from;
         i++) {
        struct row_key id = {htobe64(changed.oldest)};

        key = advisor_val(&id, sizeof(id));
        rc = mdb_cursor_get(cursor, &key, &value, MDB_SET);
        if (rc == 0)
            rc = mdb_cursor_del(cursor, 0);
        if (rc == MDB_NOTFOUND)
            rc = 0; /* a damaged file; what is void need not be there */
        changed.oldest++;
    }
    mdb_cursor_close(cursor);
    return rc == 0 ? change_state(txn, state, &changed) : advisor_store_code(rc);
}

/* ---- reading ---- */

static enum kvt_err
start(struct advisor_store_log_cursor *cursor, const struct advisor_store_log *state)
{
    if (cursor->started)
        return cursor->whole == state->whole && cursor->whole_from == state->from ? KVT_OK
                                                                                  : KVT_AGAIN;
    *cursor = (struct advisor_store_log_cursor){
        .whole_from = state->from, .whole = state->whole, .started = true};
    return KVT_OK;
}

/* At the end of the snapshot the journal follows, and at its end nothing. */
static void
follow(struct advisor_store_log_cursor *cursor, const struct advisor_store_log *state)
{
    if (!cursor->in_journal && (state->whole == 0 || cursor->row == state->runs_rows)) {
        cursor->in_journal = true;
        cursor->row = state->from;
    }
    cursor->done = cursor->in_journal && cursor->row == state->next;
}

static enum kvt_err
damaged(const struct advisor_store_log_cursor *cursor, const char *what, struct kvt_error *err)
{
    return kvt_error_set(err, KVT_CORRUPT,
                         "row %" PRIu64 " of the index's %s %s; move the folder away to build it "
                         "anew from the workers",
                         cursor->row, cursor->in_journal ? "journal" : "snapshot", what);
}

static enum kvt_err
give_row(struct advisor_store_log_cursor *at, const MDB_val *key, const MDB_val *value,
         advisor_store_log_row_fn *callback, void *arg, struct kvt_error *err)
{
    const struct row_key id = {htobe64(at->row)};
    enum kvt_err rc;

    if (key->mv_size != sizeof(id) || memcmp(key->mv_data, &id, sizeof(id)) != 0)
        return damaged(at, "is missing", err);
    /* Keys and rows are multiples of 8 long, and so LMDB's pages keep them aligned. */
    if ((uintptr_t)value->mv_data % sizeof(uint64_t) != 0)
        return damaged(at, "is not aligned", err);
    rc = callback(arg, value->mv_data, value->mv_size);
    if (rc != KVT_OK)
        return rc;
    at->bytes += value->mv_size;
    at->row++;
    return KVT_OK;
}

/* Rows up to number `end`, which must all be there. */
static enum kvt_err
give_rows(const struct advisor_txn *txn, MDB_dbi table, uint64_t end,
          struct advisor_store_log_cursor *at, advisor_store_log_row_fn *callback, void *arg,
          struct kvt_error *err)
{
    struct row_key id = {htobe64(at->row)};
    MDB_val key = advisor_val(&id, sizeof(id));
    enum kvt_err code = KVT_OK;
    MDB_cursor *cursor;
    MDB_val value;
    int rc = mdb_cursor_open(txn->handle, table, &cursor);

    if (rc != 0)
        return kvt_lmdb_error(err, rc, "read the index's log");
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY); rc == 0 && at->row < end;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        code = give_row(at, &key, &value, callback, arg, err);
        if (code != KVT_OK)
            break;
    }
    mdb_cursor_close(cursor);
    if (code != KVT_OK || at->row == end)
        return code;
    return rc == MDB_NOTFOUND ? damaged(at, "is missing", err)
                              : kvt_lmdb_error(err, rc, "read the index's log");
}

enum kvt_err
advisor_store_log_rows(const struct advisor_txn *txn, struct advisor_store_log_cursor *cursor,
                       size_t rows_max, advisor_store_log_row_fn *callback, void *arg,
                       struct kvt_error *err)
{
    struct advisor_store_log state;
    enum kvt_err rc = advisor_store_log_get(txn, &state);
    uint64_t end;
    MDB_dbi table;

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "read where the index's log is: %s", kvt_err_text(rc));
    rc = start(cursor, &state);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "another snapshot took this one's place");
    follow(cursor, &state);
    if (cursor->done)
        return KVT_OK;
    table = cursor->in_journal ? txn->store->tables[ADVISOR_TABLE_JOURNAL]
                               : runs_table(txn, state.whole);
    end = cursor->in_journal ? state.next : state.runs_rows;
    if (end - cursor->row > rows_max)
        end = cursor->row + rows_max;
    rc = give_rows(txn, table, end, cursor, callback, arg, err);
    if (rc == KVT_OK)
        follow(cursor, &state);
    return rc;
}

struct read {
    struct advisor_store_log_cursor *at;
    advisor_store_log_fn *callback;
    void *arg;
    struct kvt_error *err;
};

static enum kvt_err
read_row(void *arg, const void *row, size_t size)
{
    const struct read *read = arg;
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;

    if (advisor_event_log_open(&reader, row, size) != KVT_OK)
        return damaged(read->at, "fails its check", read->err);
    for (;;) {
        enum kvt_err rc = advisor_event_log_next(&reader, &op);

        if (rc == KVT_NOTFOUND)
            return KVT_OK;
        if (rc != KVT_OK)
            return damaged(read->at, "says what cannot be", read->err);
        rc = read->callback(read->arg, &op);
        if (rc != KVT_OK)
            return rc;
    }
}

enum kvt_err
advisor_store_log_read(const struct advisor_txn *txn, struct advisor_store_log_cursor *cursor,
                       size_t rows_max, advisor_store_log_fn *callback, void *arg,
                       struct kvt_error *err)
{
    struct read read = {cursor, callback, arg, err};

    return advisor_store_log_rows(txn, cursor, rows_max, read_row, &read, err);
}
