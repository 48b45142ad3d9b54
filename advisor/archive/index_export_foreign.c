#include <stdio.h>
#include <string.h>

#include "advisor/archive/index_export_private.h"
#include "advisor/store/foreign_rows.h"
#include "base/text/hex.h"

/* Publishers of other systems: what they have beside their rows, their names of blocks, and stores
 * that wait for a parent.  Or who they are, to leave them out. */

/* ---- left out ---- */

static enum kvt_err
see_number(void *arg, const void *data)
{
    const struct advisor_foreign_row *row = data;
    struct advisor_index_export *export = arg;

    return advisor_number_map_put(export->left_out, &row->number, sizeof(row->number), 1);
}

/* A name and a namespace have more bytes than a number. */
struct worker_key {
    char bytes[KVT_NAMESPACE_MAX + KVT_NAME_MAX + 8];
    size_t size;
};

static struct worker_key
worker_key(const char *namespace_, const char *worker)
{
    struct worker_key key;

    key.size = (size_t)snprintf(key.bytes, sizeof(key.bytes), "worker\n%s\n%s", namespace_, worker);
    return key;
}

static enum kvt_err
see_worker(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;
    struct advisor_index_export *export = arg;
    char namespace_[KVT_NAMESPACE_MAX];
    struct worker_key key;
    enum kvt_err rc;

    if (!advisor_index_export_is_left_out(export, row->number))
        return KVT_OK;
    rc = advisor_store_namespace(export->txn, row->ns, namespace_);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    key = worker_key(namespace_, row->worker);
    return advisor_number_map_put(export->left_out, key.bytes, key.size, 1);
}

enum kvt_err
advisor_index_export_leave_out(struct advisor_index_export *export)
{
    enum kvt_err rc = advisor_store_walk(export->txn, ADVISOR_ROW_FOREIGN, see_number, export);

    return rc == KVT_OK ? advisor_store_walk(export->txn, ADVISOR_ROW_PUBLISHER, see_worker, export)
                        : rc;
}

bool
advisor_index_export_is_left_out(const struct advisor_index_export *export, uint32_t publisher)
{
    uint32_t unused;

    return advisor_number_map_get(export->left_out, &publisher, sizeof(publisher), &unused);
}

bool
advisor_index_export_worker_is_left_out(const struct advisor_index_export *export,
                                        const char *namespace_, const char *worker)
{
    const struct worker_key key = worker_key(namespace_, worker);
    uint32_t unused;

    return advisor_number_map_get(export->left_out, key.bytes, key.size, &unused);
}

/* ---- rows ---- */

static enum kvt_err
add_source(void *arg, const void *data)
{
    const struct advisor_source_row *row = data;
    const struct advisor_index_export *export = arg;

    kvt_buffer_printf(export->out, "{\"row\":\"source\"");
    advisor_index_export_number(export->out, "number", row->number);
    advisor_index_export_text(export->out, "name", row->name);
    advisor_index_export_number(export->out, "seq", row->seq);
    advisor_index_export_number(export->out, "created_ms", row->created_ms);
    kvt_buffer_printf(export->out, "}\n");
    return advisor_index_export_flush(export, false);
}

static enum kvt_err
add_foreign(void *arg, const void *data)
{
    const struct advisor_foreign_row *row = data;
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;

    kvt_buffer_printf(out, "{\"row\":\"foreign\"");
    advisor_index_export_number(out, "publisher", row->number);
    advisor_index_export_number(out, "source", row->source);
    advisor_index_export_number(out, "worker_id", row->worker_id);
    advisor_index_export_number(out, "dp_rank", row->dp_rank);
    advisor_index_export_number(out, "life", row->life);
    advisor_index_export_number(out, "former", row->former);
    advisor_index_export_number(out, "groups_full", row->groups_full);
    advisor_index_export_number(out, "groups_partial", row->groups_partial);
    advisor_index_export_number(out, "floor", row->floor);
    advisor_index_export_number(out, "digest", row->digest);
    advisor_index_export_number(out, "met", row->met);
    advisor_index_export_number(out, "lost", row->lost);
    advisor_index_export_number(out, "messages", row->messages);
    advisor_index_export_number(out, "any_rank", row->any_rank);
    advisor_index_export_number(out, "revived", row->revived);
    advisor_index_export_text(out, "reason", row->reason);
    kvt_buffer_printf(out, "}\n");
    return advisor_index_export_flush(export, false);
}

enum kvt_err
advisor_index_export_foreigners(const struct advisor_index_export *export)
{
    struct advisor_index_export to = *export;
    enum kvt_err rc = advisor_store_walk(export->txn, ADVISOR_ROW_SOURCE, add_source, &to);

    return rc == KVT_OK ? advisor_store_walk(export->txn, ADVISOR_ROW_FOREIGN, add_foreign, &to)
                        : rc;
}

static enum kvt_err
add_alias(void *arg, const void *data)
{
    const struct advisor_alias_row *row = data;
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;

    kvt_buffer_printf(out, "{\"row\":\"alias\"");
    advisor_index_export_number(out, "publisher", row->publisher);
    advisor_index_export_hash(out, "hash", row->hash);
    advisor_index_export_hash(out, "chain", row->chain);
    advisor_index_export_number(out, "seed", row->seed);
    advisor_index_export_number(out, "gen", row->gen);
    advisor_index_export_number(out, "position", row->position);
    advisor_index_export_number(out, "tiers", row->tiers);
    advisor_index_export_number(out, "salted", row->salted);
    kvt_buffer_printf(out, "}\n");
    return advisor_index_export_flush(export, false);
}

static enum kvt_err
add_waiting(void *arg, uint32_t publisher, uint64_t serial, const void *bytes, size_t size)
{
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    const uint8_t *at = bytes;

    kvt_buffer_printf(out, "{\"row\":\"waiting\"");
    advisor_index_export_number(out, "publisher", publisher);
    advisor_index_export_number(out, "serial", serial);
    kvt_buffer_printf(out, ",\"store\":\"");
    for (size_t i = 0; i < size; i++) {
        char two[3];

        kvt_hex_format(&at[i], 1, two);
        kvt_buffer_append(out, two, 2);
    }
    kvt_buffer_printf(out, "\"}\n");
    return advisor_index_export_flush(export, false);
}

enum kvt_err
advisor_index_export_named(const struct advisor_index_export *export)
{
    struct advisor_index_export to = *export;
    enum kvt_err rc = advisor_store_walk(export->txn, ADVISOR_ROW_ALIAS, add_alias, &to);

    return rc == KVT_OK ? advisor_store_orphans(export->txn, add_waiting, &to) : rc;
}
