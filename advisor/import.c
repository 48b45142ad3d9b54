#include "advisor/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/export.h"
#include "advisor/map.h"
#include "base/alloc.h"
#include "base/json.h"

/* ROWS: in one transaction; LMDB keeps what it changed in memory until the commit. */
enum { ROWS = 20000, PATH_BYTES = 4096, PATH_SHOWN = 120 };

#define BUCKETS_MAX UINT32_C(0xFFFFFF) /* as many bits as a row has for them */

struct advisor_import {
    struct advisor_store *place; /* the folder's own database: its lock keeps advisors out */
    struct advisor_store *store; /* the one that is built */
    struct advisor_txn txn;
    struct advisor_map *namespaces;
    struct advisor_map *holders;
    struct advisor_store_block block;
    struct advisor_import_counts counts;
    uint64_t publisher_next; /* of the export's first row; 0: not seen yet */
    uint64_t lines;
    uint64_t rows; /* of the transaction */
    bool begun;
    bool ended;
    char path[PATH_BYTES];
    char part[PATH_BYTES];
};

/* ---- the folder ---- */

static void
remove_part(const struct advisor_import *import)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "lock"};
    char name[PATH_BYTES + 16];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", import->part, names[i]);
        (void)unlink(name);
    }
    (void)rmdir(import->part);
}

static enum kvt_err
some_publisher(void *arg, const struct advisor_publisher_row *row)
{
    (void)row;
    *(bool *)arg = true;
    return KVT_OK;
}

/* Nothing in it that could be lost: no block, and nobody was ever heard. */
static enum kvt_err
check_empty(struct advisor_import *import, struct kvt_error *err)
{
    struct advisor_txn txn;
    uint64_t blocks = 0;
    bool heard = false;
    enum kvt_err rc = advisor_store_read(import->place, &txn, err);

    if (rc != KVT_OK)
        return rc;
    blocks = advisor_store_block_count(&txn);
    rc = advisor_store_publishers(&txn, some_publisher, &heard);
    advisor_store_end(&txn);
    if (rc == KVT_OK && (blocks > 0 || heard))
        return kvt_error_set(err, KVT_EXISTS,
                             "%.*s holds an index of %" PRIu64 " blocks; --force throws it away",
                             PATH_SHOWN, import->path, blocks);
    return rc;
}

enum kvt_err
advisor_import_open(struct advisor_import **out, const struct advisor_import_options *options,
                    struct kvt_error *err)
{
    struct advisor_store_options store = {.path = options->path, .map_bytes = options->map_bytes};
    struct advisor_import *import = kvt_calloc(1, sizeof(*import));
    enum kvt_err rc;

    *out = NULL;
    if (import == NULL)
        return kvt_error_set(err, KVT_NOMEM, "import: out of memory");
    if (snprintf(import->path, sizeof(import->path), "%s", options->path) >= PATH_BYTES ||
        snprintf(import->part, sizeof(import->part), "%s/" ADVISOR_IMPORT_FOLDER, options->path) >=
            PATH_BYTES) {
        import->part[0] = '\0';
        rc = kvt_error_set(err, KVT_RANGE, "%.*s...: name too long", PATH_SHOWN, options->path);
        goto fail;
    }
    rc = advisor_store_open(&import->place, &store, err);
    if (rc == KVT_OK && !options->replace)
        rc = check_empty(import, err);
    if (rc != KVT_OK)
        goto fail;
    remove_part(import); /* of an import that was cut short */
    store.path = import->part;
    rc = advisor_store_open(&import->store, &store, err);
    if (rc == KVT_OK)
        rc = advisor_map_new(&import->namespaces);
    if (rc == KVT_OK)
        rc = advisor_map_new(&import->holders);
    if (rc != KVT_OK) {
        if (rc == KVT_NOMEM)
            (void)kvt_error_set(err, rc, "import: out of memory");
        goto fail;
    }
    *out = import;
    return KVT_OK;

fail:
    advisor_import_free(import);
    return rc;
}

void
advisor_import_free(struct advisor_import *import)
{
    if (import == NULL)
        return;
    advisor_store_end(&import->txn);
    if (import->store != NULL) {
        advisor_store_close(import->store);
        remove_part(import);
    }
    advisor_store_close(import->place);
    advisor_store_block_release(&import->block);
    advisor_map_free(import->namespaces);
    advisor_map_free(import->holders);
    kvt_free(import);
}

/* ---- names ---- */

static enum kvt_err
namespace_number(struct advisor_import *import, struct json_object *row, uint32_t *ns)
{
    const char *name = kvt_json_string(row, "namespace");
    enum kvt_err rc;

    *ns = 0;
    if (name == NULL || strlen(name) >= KVT_NAMESPACE_MAX)
        return KVT_INVALID;
    /* The key has the final NUL: the empty namespace has a number too. */
    if (advisor_map_get(import->namespaces, name, strlen(name) + 1, ns))
        return KVT_OK;
    *ns = (uint32_t)advisor_map_count(import->namespaces);
    if (*ns >= INDEX_NAMESPACES_MAX)
        return KVT_FULL;
    rc = advisor_store_put_namespace(&import->txn, *ns, name);
    if (rc == KVT_OK)
        rc = advisor_map_put(import->namespaces, name, strlen(name) + 1, *ns);
    return rc;
}

static bool
read_u32(struct json_object *row, const char *key, uint32_t *number)
{
    uint64_t value = 0;
    const bool good = kvt_json_u64(row, key, &value) && value <= UINT32_MAX;

    *number = good ? (uint32_t)value : 0;
    return good;
}

static bool
read_name(struct json_object *row, const char *key, char *out, size_t size)
{
    const char *text = kvt_json_string(row, key);

    return text != NULL && (size_t)snprintf(out, size, "%s", text) < size;
}

static enum kvt_err
holder_number(struct advisor_import *import, struct json_object *row, uint32_t *number)
{
    const char *tier = kvt_json_string(row, "tier");
    struct index_holder holder;
    enum kvt_err rc;

    *number = 0;
    memset(&holder, 0, sizeof(holder)); /* it is a key: no byte may differ */
    if (tier == NULL || !kvt_tier_parse(tier, &holder.tier) ||
        !read_name(row, "holder", holder.name, sizeof(holder.name)) ||
        !read_u32(row, "dp_rank", &holder.dp_rank))
        return KVT_INVALID;
    if (advisor_map_get(import->holders, &holder, sizeof(holder), number))
        return KVT_OK;
    *number = (uint32_t)advisor_map_count(import->holders);
    if (*number >= INDEX_HOLDERS_MAX)
        return KVT_FULL;
    rc = advisor_store_put_holder(&import->txn, *number, &holder);
    if (rc == KVT_OK)
        rc = advisor_map_put(import->holders, &holder, sizeof(holder), *number);
    return rc;
}

/* ---- rows ---- */

static enum kvt_err
take_index(struct advisor_import *import, struct json_object *row, struct kvt_error *err)
{
    static const struct {
        enum advisor_meta which;
        const char *key;
    } numbers[] = {
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
    uint64_t version;

    if (!kvt_json_u64(row, "version", &version))
        return KVT_INVALID;
    if (version != ADVISOR_EXPORT_VERSION)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "an export of version %" PRIu64 "; this program reads %d", version,
                             ADVISOR_EXPORT_VERSION);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && rc == KVT_OK; i++) {
        uint64_t value;

        if (!kvt_json_u64(row, numbers[i].key, &value))
            return KVT_INVALID;
        rc = advisor_store_put_number(&import->txn, numbers[i].which, value);
    }
    if (rc == KVT_OK && !kvt_json_u64(row, "publisher_next", &import->publisher_next))
        rc = KVT_INVALID;
    import->begun = rc == KVT_OK;
    return rc;
}

static enum kvt_err
take_publisher(struct advisor_import *import, struct json_object *row)
{
    struct advisor_publisher_row to = {0};
    bool gone;
    bool need_dump;
    bool holds_g4;
    uint32_t buckets;
    enum kvt_err rc = namespace_number(import, row, &to.ns);

    if (rc != KVT_OK)
        return rc;
    if (!read_u32(row, "number", &to.number) || to.number >= import->publisher_next ||
        !read_name(row, "worker", to.worker, sizeof(to.worker)) ||
        !kvt_json_u64(row, "incarnation", &to.incarnation) ||
        !kvt_json_u64(row, "last_seq", &to.last_seq) ||
        !kvt_json_u64(row, "last_event_ms", &to.last_event_ms) ||
        !kvt_json_u64(row, "gaps", &to.gaps) || !kvt_json_u64(row, "resyncs", &to.resyncs) ||
        !read_u32(row, "gen", &to.gen) || !read_u32(row, "buckets", &buckets) ||
        buckets > BUCKETS_MAX || !kvt_json_bool(row, "gone", &gone) ||
        !kvt_json_bool(row, "need_dump", &need_dump) || !kvt_json_bool(row, "holds_g4", &holds_g4))
        return KVT_INVALID;
    to.buckets = buckets & BUCKETS_MAX;
    to.gone = gone ? 1 : 0;
    to.need_dump = need_dump ? 1 : 0;
    to.holds_g4 = holds_g4 ? 1 : 0;
    import->counts.publishers++;
    return advisor_store_put_publisher(&import->txn, &to);
}

static enum kvt_err
take_sweep(struct advisor_import *import, struct json_object *row)
{
    struct advisor_sweep_row to = {0};
    enum kvt_err rc = namespace_number(import, row, &to.ns);

    if (rc == KVT_OK)
        rc = holder_number(import, row, &to.holder);
    if (rc != KVT_OK)
        return rc;
    if (!read_u32(row, "publisher", &to.publisher) || !read_u32(row, "floor", &to.floor))
        return KVT_INVALID;
    return advisor_store_put_sweep(&import->txn, &to);
}

static enum kvt_err
take_gateway(struct advisor_import *import, struct json_object *row)
{
    struct advisor_gateway_row to = {0};

    if (!read_name(row, "name", to.name, sizeof(to.name)) ||
        !kvt_json_u64(row, "incarnation", &to.incarnation) || !kvt_json_u64(row, "seq", &to.seq))
        return KVT_INVALID;
    return advisor_store_put_gateway(&import->txn, &to);
}

static enum kvt_err
take_order(struct advisor_import *import, struct json_object *row)
{
    struct advisor_order_row to = {0};

    if (!kvt_json_u64(row, "epoch", &to.epoch) || !kvt_json_u64(row, "id", &to.id) ||
        !kvt_json_u64(row, "issued_ms", &to.issued_ms) ||
        !kvt_json_u64(row, "expires_ms", &to.expires_ms) ||
        !kvt_json_u64(row, "bytes", &to.bytes) ||
        !kvt_json_u64(row, "bytes_moved", &to.bytes_moved) || !read_u32(row, "items", &to.items) ||
        !read_u32(row, "done", &to.done) || !read_u32(row, "failed", &to.failed) ||
        !read_u32(row, "verb", &to.verb) || !read_u32(row, "state", &to.state) ||
        to.state > ADVISOR_ORDER_OBSERVED ||
        !read_name(row, "gateway", to.gateway, sizeof(to.gateway)) ||
        !read_name(row, "namespace", to.namespace_, sizeof(to.namespace_)) ||
        !read_name(row, "reason", to.reason, sizeof(to.reason)) ||
        !read_name(row, "text", to.text, sizeof(to.text)))
        return KVT_INVALID;
    return advisor_store_put_order(&import->txn, &to);
}

static enum kvt_err
take_place(struct advisor_import *import, struct json_object *row)
{
    struct advisor_store_block *block = &import->block;
    struct advisor_held held = {.hash = block->hash, .ns = block->ns};
    struct advisor_store_place place = {0};
    enum kvt_err rc;

    if (!read_u32(row, "ranks", &place.ranks) || !read_u32(row, "publisher", &held.reporter) ||
        !read_u32(row, "gen", &held.gen))
        return KVT_INVALID;
    /* Its events are behind the sequence the import starts from: they come again. */
    if (held.reporter >= import->publisher_next) {
        import->counts.left_out++;
        return KVT_OK;
    }
    rc = holder_number(import, row, &place.holder);
    if (rc == KVT_OK)
        rc = advisor_store_block_reserve(block, block->place_count + 1);
    if (rc != KVT_OK)
        return rc;
    block->places[block->place_count++] = place;
    held.holder = place.holder;
    import->counts.places++;
    return advisor_store_put_held(&import->txn, &held);
}

static enum kvt_err
take_block(struct advisor_import *import, struct json_object *row)
{
    struct advisor_store_block *block = &import->block;
    struct json_object *places = kvt_json_array(row, "places");
    enum kvt_err rc;

    block->place_count = 0;
    if (places == NULL || !kvt_json_hash(row, "hash", &block->hash) ||
        !kvt_json_hash(row, "parent", &block->parent) ||
        !kvt_json_hash(row, "tokens_hash", &block->tokens_hash) ||
        !read_u32(row, "position", &block->position) || block->position > KVT_POSITION_MAX ||
        !kvt_json_u64(row, "size", &block->size) || !read_u32(row, "hits", &block->hits) ||
        !read_u32(row, "cold_hits", &block->cold_hits) ||
        !read_u32(row, "cold_recent", &block->cold_recent) ||
        !kvt_json_u64(row, "last_access_ms", &block->last_access_ms) ||
        !kvt_json_u64(row, "touched_ms", &block->touched_ms))
        return KVT_INVALID;
    rc = namespace_number(import, row, &block->ns);
    for (size_t i = 0; i < json_object_array_length(places) && rc == KVT_OK; i++)
        rc = take_place(import, json_object_array_get_idx(places, i));
    if (rc != KVT_OK || block->place_count == 0)
        return rc;
    import->counts.blocks++;
    return advisor_store_put_block(&import->txn, block);
}

static enum kvt_err
take_end(struct advisor_import *import, struct json_object *row, struct kvt_error *err)
{
    uint64_t lines;

    if (!kvt_json_u64(row, "lines", &lines))
        return KVT_INVALID;
    if (lines != import->lines)
        return kvt_error_set(err, KVT_CORRUPT, "%" PRIu64 " lines, and the last says %" PRIu64,
                             import->lines, lines);
    import->ended = true;
    return KVT_OK;
}

static enum kvt_err
take_row(struct advisor_import *import, struct json_object *row, struct kvt_error *err)
{
    const char *kind = kvt_json_string(row, "row");

    if (kind == NULL || import->ended)
        return KVT_INVALID;
    if (!import->begun && strcmp(kind, "index") != 0)
        return KVT_INVALID;
    if (strcmp(kind, "block") == 0)
        return take_block(import, row);
    if (strcmp(kind, "index") == 0)
        return import->begun ? KVT_INVALID : take_index(import, row, err);
    if (strcmp(kind, "publisher") == 0)
        return take_publisher(import, row);
    if (strcmp(kind, "sweep") == 0)
        return take_sweep(import, row);
    if (strcmp(kind, "gateway") == 0)
        return take_gateway(import, row);
    if (strcmp(kind, "order") == 0)
        return take_order(import, row);
    if (strcmp(kind, "end") == 0)
        return take_end(import, row, err);
    return KVT_INVALID;
}

static enum kvt_err
commit(struct advisor_import *import, struct kvt_error *err)
{
    import->rows = 0;
    return import->txn.handle == NULL ? KVT_OK : advisor_store_commit(&import->txn, err);
}

enum kvt_err
advisor_import_line(struct advisor_import *import, const char *line, size_t size,
                    struct kvt_error *err)
{
    struct kvt_error cause = {0};
    struct json_object *row;
    char name[32];
    enum kvt_err rc;

    (void)snprintf(name, sizeof(name), "line %" PRIu64, import->lines + 1);
    rc = kvt_json_parse(&row, line, size, name, err);
    if (rc != KVT_OK)
        return rc;
    if (import->txn.handle == NULL)
        rc = advisor_store_write(import->store, &import->txn, err);
    if (rc == KVT_OK) {
        rc = take_row(import, row, &cause);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "%s: %.*s", name, PATH_SHOWN,
                                cause.text[0] != '\0' ? cause.text
                                : rc == KVT_INVALID   ? "no row of an index export"
                                                      : kvt_err_text(rc));
    }
    (void)json_object_put(row);
    if (rc != KVT_OK)
        return rc;
    import->lines++;
    return ++import->rows < ROWS ? KVT_OK : commit(import, err);
}

/* ---- the end ---- */

static enum kvt_err
take_place_of(const struct advisor_import *import, struct kvt_error *err)
{
    char from[PATH_BYTES + 16];
    char to[PATH_BYTES + 16];

    (void)snprintf(from, sizeof(from), "%s/data.mdb", import->part);
    (void)snprintf(to, sizeof(to), "%s/data.mdb", import->path);
    if (rename(from, to) != 0)
        return kvt_error_sys(err, errno, "%.*s: put the index in place", PATH_SHOWN, import->path);
    /* It speaks of the transactions of the database that was there. */
    (void)snprintf(to, sizeof(to), "%s/lock.mdb", import->path);
    (void)unlink(to);
    return kvt_folder_sync(import->path, err);
}

enum kvt_err
advisor_import_finish(struct advisor_import *import, struct advisor_import_counts *counts,
                      struct kvt_error *err)
{
    enum kvt_err rc;

    *counts = (struct advisor_import_counts){0};
    if (!import->ended)
        return kvt_error_set(err, KVT_CORRUPT,
                             "the export ends after line %" PRIu64 " without its last row: it was "
                             "cut short",
                             import->lines);
    rc = commit(import, err);
    if (rc == KVT_OK)
        rc = advisor_store_sync(import->store, err);
    if (rc != KVT_OK)
        return rc;
    advisor_store_close(import->store);
    import->store = NULL;
    rc = take_place_of(import, err);
    remove_part(import);
    if (rc == KVT_OK)
        *counts = import->counts;
    return rc;
}
