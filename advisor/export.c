#include "advisor/export.h"

#include <inttypes.h>

#include "advisor/map.h"
#include "advisor/store_foreign.h"
#include "base/clock.h"

struct export
{
    const struct advisor_txn *txn;
    struct kvt_buffer *out;
    struct advisor_map *foreign; /* numbers of publishers that are left out */
    uint64_t hash;               /* of the block before */
    uint64_t next;               /* where the page ended for its length; 0: it did not */
    size_t start;                /* bytes of the buffer that were there before */
};

static void
add_text(struct kvt_buffer *out, const char *key, const char *text)
{
    kvt_buffer_printf(out, ",\"%s\":", key);
    kvt_buffer_json_string(out, text);
}

static void
add_number(struct kvt_buffer *out, const char *key, uint64_t number)
{
    kvt_buffer_printf(out, ",\"%s\":%" PRIu64, key, number);
}

static void
add_hash(struct kvt_buffer *out, const char *key, uint64_t hash)
{
    char text[KVT_HASH_TEXT_MAX];

    kvt_hash_format(hash, text);
    kvt_buffer_printf(out, ",\"%s\":\"%s\"", key, text);
}

static void
add_holder(struct kvt_buffer *out, const struct index_holder *holder)
{
    add_text(out, "holder", holder->name);
    add_number(out, "dp_rank", holder->dp_rank);
    add_text(out, "tier", kvt_tier_name(holder->tier));
}

/* ---- publishers of other systems: their names of blocks are not in an export, so neither are
 * they; an advisor that meets them anew asks them for everything ---- */

static enum kvt_err
see_foreign(void *arg, const struct advisor_foreign_row *row)
{
    struct export *export = arg;

    return advisor_map_put(export->foreign, &row->number, sizeof(row->number), 1);
}

static bool
is_foreign(const struct export *export, uint32_t publisher)
{
    uint32_t unused;

    return advisor_map_get(export->foreign, &publisher, sizeof(publisher), &unused);
}

/* ---- what stands before the blocks ---- */

static enum kvt_err
add_index(const struct export *export)
{
    static const struct {
        enum advisor_meta which;
        const char *key;
    } numbers[] = {
        {ADVISOR_META_FORMAT, "store_format"},
        {ADVISOR_META_EPOCH, "epoch"},
        {ADVISOR_META_EVENTS_SEQ, "events_seq"},
        {ADVISOR_META_EVENTS_CREATED, "events_created_ms"},
        {ADVISOR_META_REPORTS_SEQ, "reports_seq"},
        {ADVISOR_META_REPORTS_CREATED, "reports_created_ms"},
        {ADVISOR_META_MODE, "mode"},
        {ADVISOR_META_PUBLISHER_NEXT, "publisher_next"},
        {ADVISOR_META_COLLISIONS, "collisions"},
    };
    enum kvt_err rc = KVT_OK;

    kvt_buffer_printf(export->out, "{\"row\":\"index\",\"version\":%d", ADVISOR_EXPORT_VERSION);
    add_number(export->out, "time_ms", kvt_clock_unix_ms());
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && rc == KVT_OK; i++) {
        uint64_t value;

        rc = advisor_store_number(export->txn, numbers[i].which, &value);
        add_number(export->out, numbers[i].key, value);
    }
    kvt_buffer_printf(export->out, "}\n");
    return rc;
}

static enum kvt_err
add_publisher(void *arg, const struct advisor_publisher_row *row)
{
    const struct export *export = arg;
    struct kvt_buffer *out = export->out;
    char namespace_[KVT_NAMESPACE_MAX];
    enum kvt_err rc;

    if (is_foreign(export, row->number))
        return KVT_OK;
    rc = advisor_store_namespace(export->txn, row->ns, namespace_);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"publisher\"");
    add_number(out, "number", row->number);
    add_text(out, "namespace", namespace_);
    add_text(out, "worker", row->worker);
    add_number(out, "incarnation", row->incarnation);
    add_number(out, "last_seq", row->last_seq);
    add_number(out, "last_event_ms", row->last_event_ms);
    add_number(out, "gaps", row->gaps);
    add_number(out, "resyncs", row->resyncs);
    add_number(out, "gen", row->gen);
    add_number(out, "buckets", row->buckets);
    kvt_buffer_printf(out, ",\"gone\":%s,\"need_dump\":%s,\"holds_g4\":%s}\n",
                      row->gone != 0 ? "true" : "false", row->need_dump != 0 ? "true" : "false",
                      row->holds_g4 != 0 ? "true" : "false");
    return KVT_OK;
}

static enum kvt_err
add_sweep(void *arg, const struct advisor_sweep_row *row)
{
    const struct export *export = arg;
    struct kvt_buffer *out = export->out;
    char namespace_[KVT_NAMESPACE_MAX];
    struct index_holder holder;
    enum kvt_err rc;

    if (is_foreign(export, row->publisher))
        return KVT_OK;
    rc = advisor_store_namespace(export->txn, row->ns, namespace_);
    if (rc == KVT_OK)
        rc = advisor_store_holder(export->txn, row->holder, &holder);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"sweep\"");
    add_number(out, "publisher", row->publisher);
    add_text(out, "namespace", namespace_);
    add_holder(out, &holder);
    add_number(out, "floor", row->floor);
    kvt_buffer_printf(out, "}\n");
    return KVT_OK;
}

static enum kvt_err
add_gateway(void *arg, const struct advisor_gateway_row *row)
{
    const struct export *export = arg;

    kvt_buffer_printf(export->out, "{\"row\":\"gateway\"");
    add_text(export->out, "name", row->name);
    add_number(export->out, "incarnation", row->incarnation);
    add_number(export->out, "seq", row->seq);
    kvt_buffer_printf(export->out, "}\n");
    return KVT_OK;
}

static enum kvt_err
add_order(void *arg, const struct advisor_order_row *row)
{
    const struct export *export = arg;
    struct kvt_buffer *out = export->out;

    kvt_buffer_printf(out, "{\"row\":\"order\"");
    add_number(out, "epoch", row->epoch);
    add_number(out, "id", row->id);
    add_number(out, "issued_ms", row->issued_ms);
    add_number(out, "expires_ms", row->expires_ms);
    add_number(out, "bytes", row->bytes);
    add_number(out, "bytes_moved", row->bytes_moved);
    add_number(out, "items", row->items);
    add_number(out, "done", row->done);
    add_number(out, "failed", row->failed);
    add_number(out, "verb", row->verb);
    add_number(out, "state", row->state);
    add_text(out, "gateway", row->gateway);
    add_text(out, "namespace", row->namespace_);
    add_text(out, "reason", row->reason);
    add_text(out, "text", row->text);
    kvt_buffer_printf(out, "}\n");
    return KVT_OK;
}

/* ---- blocks ---- */

static enum kvt_err
add_place(const struct export *export, const struct advisor_store_block *block,
          const struct advisor_store_place *place, uint32_t *added)
{
    struct kvt_buffer *out = export->out;
    struct advisor_held held = {0};
    struct index_holder holder;
    size_t found = 0;
    enum kvt_err rc = advisor_store_holder(export->txn, place->holder, &holder);

    if (rc == KVT_OK)
        rc = advisor_store_held(export->txn, place->holder, block->ns, block->hash, &held, 1,
                                &found);
    if (rc != KVT_OK || found == 0 || held.hash != block->hash)
        return rc == KVT_OK || rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    if (is_foreign(export, held.reporter))
        return KVT_OK;
    kvt_buffer_printf(out, "%s{\"ranks\":%" PRIu32, *added == 0 ? "" : ",", place->ranks);
    add_holder(out, &holder);
    add_number(out, "publisher", held.reporter);
    add_number(out, "gen", held.gen);
    kvt_buffer_printf(out, "}");
    (*added)++;
    return KVT_OK;
}

static enum kvt_err
add_block(void *arg, const struct advisor_store_block *block)
{
    struct export *export = arg;
    struct kvt_buffer *out = export->out;
    const size_t start = out->size;
    char namespace_[KVT_NAMESPACE_MAX];
    uint32_t added = 0;
    enum kvt_err rc;

    /* Where one hash ends and the next begins: a page continues at a hash. */
    if (out->size - export->start > ADVISOR_EXPORT_PAGE_BYTES && block->hash != export->hash) {
        export->next = block->hash;
        return KVT_AGAIN;
    }
    export->hash = block->hash;
    rc = advisor_store_namespace(export->txn, block->ns, namespace_);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"block\"");
    add_text(out, "namespace", namespace_);
    add_hash(out, "hash", block->hash);
    add_hash(out, "parent", block->parent);
    add_number(out, "position", block->position);
    add_number(out, "size", block->size);
    add_hash(out, "tokens_hash", block->tokens_hash);
    add_number(out, "hits", block->hits);
    add_number(out, "cold_hits", block->cold_hits);
    add_number(out, "cold_recent", block->cold_recent);
    add_number(out, "last_access_ms", block->last_access_ms);
    add_number(out, "touched_ms", block->touched_ms);
    kvt_buffer_printf(out, ",\"places\":[");
    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++)
        rc = add_place(export, block, &block->places[i], &added);
    kvt_buffer_printf(out, "]}\n");
    if (added == 0)
        out->size = start;
    return rc;
}

enum kvt_err
advisor_export_page(struct advisor_store *store, uint64_t cursor, size_t max,
                    struct kvt_buffer *out, uint64_t *next)
{
    struct advisor_txn txn;
    struct export export = {.txn = &txn, .out = out, .start = out->size};
    enum kvt_err rc = advisor_map_new(&export.foreign);

    *next = 0;
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_read(store, &txn, NULL);
    if (rc == KVT_OK)
        rc = advisor_store_foreigns(&txn, see_foreign, &export);
    if (rc == KVT_OK && cursor == 0) {
        rc = add_index(&export);
        if (rc == KVT_OK)
            rc = advisor_store_publishers(&txn, add_publisher, &export);
        if (rc == KVT_OK)
            rc = advisor_store_sweeps(&txn, add_sweep, &export);
        if (rc == KVT_OK)
            rc = advisor_store_gateways(&txn, add_gateway, &export);
        if (rc == KVT_OK)
            rc = advisor_store_orders(&txn, add_order, &export);
    }
    if (rc == KVT_OK)
        rc = advisor_store_blocks(&txn, cursor, max, next, add_block, &export);
    advisor_store_end(&txn);
    advisor_map_free(export.foreign);
    if (rc == KVT_AGAIN && export.next != 0) {
        *next = export.next;
        rc = KVT_OK;
    }
    if (rc != KVT_OK)
        *next = 0;
    else if (!kvt_buffer_ok(out))
        rc = out->size >= out->limit ? KVT_RANGE : KVT_NOMEM;
    return rc;
}
