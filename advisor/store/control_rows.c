#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "advisor/store/foreign_rows.h"
#include "advisor/store/job_rows.h"

/* The tables that are small: numbers, names, and the rows of enum advisor_row. */

/* ---- numbers and names ---- */

enum kvt_err
advisor_store_number(const struct advisor_txn *txn, enum advisor_meta which, uint64_t *value)
{
    struct advisor_key_u32 key = {htobe32((uint32_t)which)};
    const enum kvt_err rc = advisor_table_get(
        txn, ADVISOR_TABLE_META, advisor_val(&key, sizeof(key)), value, sizeof(*value));

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_store_put_number(const struct advisor_txn *txn, enum advisor_meta which, uint64_t value)
{
    struct advisor_key_u32 key = {htobe32((uint32_t)which)};

    return advisor_table_put(txn, ADVISOR_TABLE_META, advisor_val(&key, sizeof(key)), &value,
                             sizeof(value));
}

/* A namespace's row ends with its source and a 0, where the name leaves room for them. */
enum { SOURCE_AT = KVT_NAMESPACE_MAX - 1 - (int)sizeof(uint32_t) };

uint32_t
advisor_store_namespace_source(const char row[KVT_NAMESPACE_MAX])
{
    uint32_t source = 0;

    if (strnlen(row, KVT_NAMESPACE_MAX) < SOURCE_AT)
        memcpy(&source, row + SOURCE_AT, sizeof(source));
    return source;
}

enum kvt_err
advisor_store_put_namespace(const struct advisor_txn *txn, uint32_t ns, const char *name,
                            uint32_t source)
{
    struct advisor_key_u32 key = {htobe32(ns)};
    char row[KVT_NAMESPACE_MAX] = {0};

    (void)snprintf(row, sizeof(row), "%s", name);
    if (strlen(name) < SOURCE_AT)
        memcpy(row + SOURCE_AT, &source, sizeof(source));
    return advisor_table_put(txn, ADVISOR_TABLE_NAMESPACES, advisor_val(&key, sizeof(key)), row,
                             sizeof(row));
}

enum kvt_err
advisor_store_namespace(const struct advisor_txn *txn, uint32_t ns, char name[KVT_NAMESPACE_MAX])
{
    struct advisor_key_u32 key = {htobe32(ns)};

    return advisor_table_get(txn, ADVISOR_TABLE_NAMESPACES, advisor_val(&key, sizeof(key)), name,
                             KVT_NAMESPACE_MAX);
}

enum kvt_err
advisor_store_put_holder(const struct advisor_txn *txn, uint32_t holder,
                         const struct index_holder *row)
{
    struct advisor_key_u32 key = {htobe32(holder)};

    return advisor_table_put(txn, ADVISOR_TABLE_HOLDERS, advisor_val(&key, sizeof(key)), row,
                             sizeof(*row));
}

enum kvt_err
advisor_store_holder(const struct advisor_txn *txn, uint32_t holder, struct index_holder *row)
{
    struct advisor_key_u32 key = {htobe32(holder)};

    return advisor_table_get(txn, ADVISOR_TABLE_HOLDERS, advisor_val(&key, sizeof(key)), row,
                             sizeof(*row));
}

static uint32_t
number_of(MDB_val key)
{
    uint32_t big = 0;

    if (key.mv_size == sizeof(big))
        memcpy(&big, key.mv_data, sizeof(big));
    return be32toh(big);
}

/* A walk's callback and its argument. */
struct walk {
    const struct row_kind *kind;
    void *arg;
    union {
        advisor_store_row_fn *row;
        advisor_store_name_fn *name;
        advisor_store_holder_fn *holder;
    } to;
};

static enum kvt_err
emit_name(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    char name[KVT_NAMESPACE_MAX];

    if (value.mv_size != sizeof(name))
        return KVT_CORRUPT;
    memcpy(name, value.mv_data, sizeof(name));
    name[sizeof(name) - 1] = '\0';
    return walk->to.name(walk->arg, number_of(key), name);
}

enum kvt_err
advisor_store_namespaces(const struct advisor_txn *txn, advisor_store_name_fn *callback, void *arg)
{
    struct walk walk = {.arg = arg, .to = {.name = callback}};

    return advisor_table_walk(txn, ADVISOR_TABLE_NAMESPACES, MDB_FIRST, emit_name, &walk);
}

static enum kvt_err
emit_holder(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    struct index_holder row;

    if (value.mv_size != sizeof(row))
        return KVT_CORRUPT;
    memcpy(&row, value.mv_data, sizeof(row));
    return walk->to.holder(walk->arg, number_of(key), &row);
}

enum kvt_err
advisor_store_holders(const struct advisor_txn *txn, advisor_store_holder_fn *callback, void *arg)
{
    struct walk walk = {.arg = arg, .to = {.holder = callback}};

    return advisor_table_walk(txn, ADVISOR_TABLE_HOLDERS, MDB_FIRST, emit_holder, &walk);
}

/* ---- rows ---- */

/* A member of a row in its key: a number, big-endian in `width` bytes, or a name. */
struct key_part {
    size_t at;
    size_t size; /* of the member */
    size_t width;
};

#define PART(type, member, wide)                                                                   \
    {                                                                                              \
        offsetof(type, member), sizeof(((type *)0)->member), (wide)                                \
    }

struct row_kind {
    enum advisor_table table;
    MDB_cursor_op first;
    size_t size;
    size_t least; /* without its last members, as earlier versions write it; 0: always whole */
    bool (*is_sound)(const void *row);
    struct key_part key[2];
};

static bool
is_sound_order(const void *data)
{
    const struct advisor_order_row *row = data;

    return advisor_text_ends(row->from, sizeof(row->from)) &&
           advisor_text_ends(row->to, sizeof(row->to));
}

static const struct row_kind kinds[ADVISOR_ROW_COUNT] = {
    [ADVISOR_ROW_PUBLISHER] = {.table = ADVISOR_TABLE_PUBLISHERS,
                               .size = sizeof(struct advisor_publisher_row),
                               .key = {PART(struct advisor_publisher_row, number, 4)}},
    [ADVISOR_ROW_SWEEP] = {.table = ADVISOR_TABLE_SWEEPS,
                           .size = sizeof(struct advisor_sweep_row),
                           .key = {PART(struct advisor_sweep_row, publisher, 8),
                                   PART(struct advisor_sweep_row, holder, 8)}},
    [ADVISOR_ROW_GATEWAY] = {.table = ADVISOR_TABLE_GATEWAYS,
                             .size = sizeof(struct advisor_gateway_row),
                             .key = {PART(struct advisor_gateway_row, name, KVT_NAME_MAX)}},
    [ADVISOR_ROW_ORDER] = {.table = ADVISOR_TABLE_ORDERS,
                           .first = MDB_LAST,
                           .size = sizeof(struct advisor_order_row),
                           .least = offsetof(struct advisor_order_row, from),
                           .is_sound = is_sound_order,
                           .key = {PART(struct advisor_order_row, epoch, 8),
                                   PART(struct advisor_order_row, id, 8)}},
    [ADVISOR_ROW_SOURCE] = {.table = ADVISOR_TABLE_POSITIONS,
                            .size = sizeof(struct advisor_source_row),
                            .key = {PART(struct advisor_source_row, name, KVT_NAME_MAX)}},
    [ADVISOR_ROW_FOREIGN] = {.table = ADVISOR_TABLE_FOREIGN,
                             .size = sizeof(struct advisor_foreign_row),
                             .key = {PART(struct advisor_foreign_row, number, 4)}},
    [ADVISOR_ROW_ALIAS] = {.table = ADVISOR_TABLE_ALIASES,
                           .size = sizeof(struct advisor_alias_row),
                           .key = {PART(struct advisor_alias_row, publisher, 8),
                                   PART(struct advisor_alias_row, hash, 8)}},
    [ADVISOR_ROW_JOB] = {.table = ADVISOR_TABLE_JOBS,
                         .size = sizeof(struct advisor_job_row),
                         .is_sound = advisor_job_row_is_sound,
                         .key = {PART(struct advisor_job_row, id, 8)}},
    [ADVISOR_ROW_SEEN] = {.table = ADVISOR_TABLE_SEEN,
                          .size = sizeof(struct advisor_seen_row),
                          .key = {PART(struct advisor_seen_row, publisher, 4),
                                  PART(struct advisor_seen_row, slot, 4)}},
};

union any_row {
    struct advisor_publisher_row publisher;
    struct advisor_sweep_row sweep;
    struct advisor_gateway_row gateway;
    struct advisor_order_row order;
    struct advisor_source_row source;
    struct advisor_foreign_row foreign;
    struct advisor_alias_row alias;
    struct advisor_job_row job;
    struct advisor_seen_row seen;
};

/* The row's key, in `bytes`. */
static MDB_val
key_of(const struct row_kind *kind, const void *row, char bytes[KVT_NAME_MAX])
{
    size_t size = 0;

    memset(bytes, 0, KVT_NAME_MAX);
    for (size_t i = 0; i < 2 && kind->key[i].width != 0; i++) {
        const struct key_part *part = &kind->key[i];
        const char *member = (const char *)row + part->at;
        uint64_t number = 0;

        if (part->width == KVT_NAME_MAX) {
            (void)snprintf(bytes, KVT_NAME_MAX, "%s", member);
        } else {
            memcpy(&number, member, part->size);
            number = htobe64(number << (64 - 8 * part->width));
            memcpy(bytes + size, &number, part->width);
        }
        size += part->width;
    }
    return advisor_val(bytes, size);
}

enum kvt_err
advisor_store_put(const struct advisor_txn *txn, enum advisor_row which, const void *row)
{
    const struct row_kind *kind = &kinds[which];
    const bool is_short = kind->least != 0 && ((const char *)row)[kind->least] == '\0';
    char key[KVT_NAME_MAX];

    return advisor_table_put(txn, kind->table, key_of(kind, row, key), row,
                             is_short ? kind->least : kind->size);
}

enum kvt_err
advisor_store_delete(const struct advisor_txn *txn, enum advisor_row which, const void *row)
{
    const struct row_kind *kind = &kinds[which];
    char key[KVT_NAME_MAX];

    return advisor_table_delete(txn, kind->table, key_of(kind, row, key));
}

static enum kvt_err
emit_row(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    const struct row_kind *kind = walk->kind;
    union any_row row;

    (void)key;
    if (value.mv_size != kind->size && (kind->least == 0 || value.mv_size != kind->least))
        return KVT_CORRUPT;
    memset(&row, 0, sizeof(row));
    memcpy(&row, value.mv_data, value.mv_size);
    return kind->is_sound == NULL || kind->is_sound(&row) ? walk->to.row(walk->arg, &row)
                                                          : KVT_CORRUPT;
}

enum kvt_err
advisor_store_walk(const struct advisor_txn *txn, enum advisor_row which,
                   advisor_store_row_fn *callback, void *arg)
{
    struct walk walk = {.kind = &kinds[which], .arg = arg, .to = {.row = callback}};

    return advisor_table_walk(txn, walk.kind->table, walk.kind->first, emit_row, &walk);
}
