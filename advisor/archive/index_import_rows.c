#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/archive/index_export.h"
#include "advisor/archive/index_import_private.h"
#include "advisor/rule/rulebook.h"
#include "advisor/store/policy_version_rows.h"
#include "base/text/yaml.h"

/* Version 1 had workers' places in the rows of blocks, and no rows of other systems' publishers. */
enum {
    VERSION_MIN = 1,
    VERSION_AGE = 3, /* blocks say since when they are stored */
    VERSION_POLICY = 4,
};

#define BUCKETS_MAX UINT32_C(0xFFFFFF) /* as many bits as a row has for them */

/* ---- names ---- */

static enum kvt_err
namespace_number(struct advisor_index_import *import, struct json_object *row, uint32_t *ns)
{
    const char *name = kvt_json_string(row, "namespace");
    enum kvt_err rc;

    *ns = 0;
    if (name == NULL || strlen(name) >= KVT_NAMESPACE_MAX)
        return KVT_INVALID;
    /* The key has the final NUL: the empty namespace has a number too. */
    if (advisor_number_map_get(import->namespaces, name, strlen(name) + 1, ns))
        return KVT_OK;
    *ns = (uint32_t)advisor_number_map_count(import->namespaces);
    if (*ns >= INDEX_NAMESPACES_MAX)
        return KVT_FULL;
    rc = advisor_store_put_namespace(&import->txn, *ns, name, 0);
    if (rc == KVT_OK)
        rc = advisor_number_map_put(import->namespaces, name, strlen(name) + 1, *ns);
    return rc;
}

bool
advisor_index_import_u32(struct json_object *row, const char *key, uint32_t *number)
{
    uint64_t value = 0;
    const bool good = kvt_json_u64(row, key, &value) && value <= UINT32_MAX;

    *number = good ? (uint32_t)value : 0;
    return good;
}

bool
advisor_index_import_name(struct json_object *row, const char *key, char *out, size_t size)
{
    const char *text = kvt_json_string(row, key);

    return text != NULL && (size_t)snprintf(out, size, "%s", text) < size;
}

static enum kvt_err
holder_number(struct advisor_index_import *import, struct json_object *row,
              struct index_holder *holder, uint32_t *number)
{
    const char *tier = kvt_json_string(row, "tier");
    enum kvt_err rc;

    *number = 0;
    memset(holder, 0, sizeof(*holder)); /* it is a key: no byte may differ */
    if (tier == NULL || !kvt_tier_parse(tier, &holder->tier) ||
        !advisor_index_import_name(row, "holder", holder->name, sizeof(holder->name)) ||
        !advisor_index_import_u32(row, "dp_rank", &holder->dp_rank))
        return KVT_INVALID;
    if (advisor_number_map_get(import->holders, holder, sizeof(*holder), number))
        return KVT_OK;
    *number = (uint32_t)advisor_number_map_count(import->holders);
    if (*number >= INDEX_HOLDERS_MAX)
        return KVT_FULL;
    rc = advisor_store_put_holder(&import->txn, *number, holder);
    if (rc == KVT_OK)
        rc = advisor_number_map_put(import->holders, holder, sizeof(*holder), *number);
    return rc;
}

/* ---- rows ---- */

static enum kvt_err
take_index(struct advisor_index_import *import, struct json_object *row, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (!kvt_json_u64(row, "version", &import->version))
        return KVT_INVALID;
    if (import->version < VERSION_MIN || import->version > ADVISOR_INDEX_EXPORT_VERSION)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "an export of version %" PRIu64 "; this program reads %d to %d",
                             import->version, VERSION_MIN, ADVISOR_INDEX_EXPORT_VERSION);
    for (size_t i = 0; i < ADVISOR_INDEX_EXPORT_METAS && rc == KVT_OK; i++) {
        const struct advisor_index_export_meta *meta = &advisor_index_export_metas[i];
        uint64_t value;

        if (meta->since == 0 || import->version < meta->since)
            continue;
        if (!kvt_json_u64(row, meta->key, &value))
            return KVT_INVALID;
        rc = advisor_store_put_number(&import->txn, meta->which, value);
    }
    if (rc == KVT_OK && !kvt_json_u64(row, "publisher_next", &import->publisher_next))
        rc = KVT_INVALID;
    import->begun = rc == KVT_OK;
    return rc;
}

static enum kvt_err
take_publisher(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_publisher_row to = {0};
    bool gone;
    bool need_dump;
    bool holds_g4;
    bool doubted = false;
    uint32_t buckets;
    enum kvt_err rc = namespace_number(import, row, &to.ns);

    if (rc != KVT_OK)
        return rc;
    if (!advisor_index_import_u32(row, "number", &to.number) ||
        to.number >= import->publisher_next ||
        !advisor_index_import_name(row, "worker", to.worker, sizeof(to.worker)) ||
        !kvt_json_u64(row, "incarnation", &to.incarnation) ||
        !kvt_json_u64(row, "last_seq", &to.last_seq) ||
        !kvt_json_u64(row, "last_event_ms", &to.last_event_ms) ||
        !kvt_json_u64(row, "gaps", &to.gaps) || !kvt_json_u64(row, "resyncs", &to.resyncs) ||
        !advisor_index_import_u32(row, "gen", &to.gen) ||
        !advisor_index_import_u32(row, "buckets", &buckets) || buckets > BUCKETS_MAX ||
        !kvt_json_bool(row, "gone", &gone) || !kvt_json_bool(row, "need_dump", &need_dump) ||
        !kvt_json_bool(row, "holds_g4", &holds_g4) ||
        (import->version > VERSION_MIN && !kvt_json_bool(row, "doubted", &doubted)))
        return KVT_INVALID;
    to.buckets = buckets & BUCKETS_MAX;
    to.gone = gone ? 1 : 0;
    to.need_dump = need_dump ? 1 : 0;
    to.holds_g4 = holds_g4 ? 1 : 0;
    to.doubted = doubted ? 1 : 0;
    import->counts.publishers++;
    return advisor_store_put(&import->txn, ADVISOR_ROW_PUBLISHER, &to);
}

static enum kvt_err
take_sweep(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_sweep_row to = {0};
    struct index_holder key;
    enum kvt_err rc = namespace_number(import, row, &to.ns);

    if (rc == KVT_OK)
        rc = holder_number(import, row, &key, &to.holder);
    if (rc != KVT_OK)
        return rc;
    if (!advisor_index_import_u32(row, "publisher", &to.publisher) ||
        !advisor_index_import_u32(row, "floor", &to.floor))
        return KVT_INVALID;
    if (key.tier != KVT_TIER_G4) {
        const uint32_t swept[] = {to.publisher, to.holder, to.ns};

        return import->version == VERSION_MIN
                   ? advisor_number_map_put(import->floors, swept, sizeof(swept), to.floor)
                   : KVT_INVALID;
    }
    return advisor_store_put(&import->txn, ADVISOR_ROW_SWEEP, &to);
}

static enum kvt_err
take_gateway(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_gateway_row to = {0};

    if (!advisor_index_import_name(row, "name", to.name, sizeof(to.name)) ||
        !kvt_json_u64(row, "incarnation", &to.incarnation) || !kvt_json_u64(row, "seq", &to.seq))
        return KVT_INVALID;
    return advisor_store_put(&import->txn, ADVISOR_ROW_GATEWAY, &to);
}

static enum kvt_err
take_order(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_order_row to = {0};

    if (!kvt_json_u64(row, "epoch", &to.epoch) || !kvt_json_u64(row, "id", &to.id) ||
        !kvt_json_u64(row, "issued_ms", &to.issued_ms) ||
        !kvt_json_u64(row, "expires_ms", &to.expires_ms) ||
        !kvt_json_u64(row, "bytes", &to.bytes) ||
        !kvt_json_u64(row, "bytes_moved", &to.bytes_moved) ||
        !advisor_index_import_u32(row, "items", &to.items) ||
        !advisor_index_import_u32(row, "done", &to.done) ||
        !advisor_index_import_u32(row, "failed", &to.failed) ||
        !advisor_index_import_u32(row, "verb", &to.verb) ||
        !advisor_index_import_u32(row, "state", &to.state) || to.state > ADVISOR_ORDER_OBSERVED ||
        !advisor_index_import_name(row, "gateway", to.gateway, sizeof(to.gateway)) ||
        !advisor_index_import_name(row, "namespace", to.namespace_, sizeof(to.namespace_)) ||
        !advisor_index_import_name(row, "reason", to.reason, sizeof(to.reason)) ||
        !advisor_index_import_name(row, "text", to.text, sizeof(to.text)) ||
        (kvt_json_has(row, "from") &&
         (!advisor_index_import_name(row, "from", to.from, sizeof(to.from)) ||
          !advisor_index_import_name(row, "to", to.to, sizeof(to.to)))) ||
        (kvt_json_has(row, "keep") && !advisor_index_import_u32(row, "keep", &to.keep)))
        return KVT_INVALID;
    return advisor_store_put(&import->txn, ADVISOR_ROW_ORDER, &to);
}

/* A worker's place in an export of version 1, which had them in the rows of blocks. */
static enum kvt_err
log_place(struct advisor_index_import *import, const struct advisor_held *held, uint32_t ranks)
{
    const struct advisor_store_block *block = &import->block;
    const struct advisor_event_log_place place = {
        .size = block->size, .holder = held->holder, .ns = block->ns, .ranks = ranks};
    const uint32_t key[] = {held->reporter, held->holder, held->ns};
    uint32_t floor;

    if (advisor_number_map_get(import->floors, key, sizeof(key), &floor) && held->gen < floor)
        return KVT_OK; /* it was about to be swept */
    return advisor_event_log_store(import->log, &place, block->parent, block->position,
                                   &block->hash, &block->tokens_hash, 1);
}

static enum kvt_err
take_place(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_store_block *block = &import->block;
    struct advisor_held held = {.hash = block->hash, .ns = block->ns};
    struct advisor_store_place place = {0};
    struct index_holder key;
    enum kvt_err rc;

    if (!advisor_index_import_u32(row, "ranks", &place.ranks) || place.ranks == 0 ||
        !advisor_index_import_u32(row, "publisher", &held.reporter) ||
        !advisor_index_import_u32(row, "gen", &held.gen))
        return KVT_INVALID;
    /* Its events are behind the sequence the import starts from: they come again. */
    if (held.reporter >= import->publisher_next) {
        import->counts.left_out++;
        return KVT_OK;
    }
    rc = holder_number(import, row, &key, &place.holder);
    held.holder = place.holder;
    if (rc == KVT_OK && key.tier != KVT_TIER_G4)
        return import->version == VERSION_MIN ? log_place(import, &held, place.ranks) : KVT_INVALID;
    if (rc == KVT_OK)
        rc = advisor_store_block_reserve(block, block->place_count + 1);
    if (rc != KVT_OK)
        return rc;
    block->places[block->place_count++] = place;
    return advisor_store_put_held(&import->txn, &held);
}

static enum kvt_err
take_block(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_store_block *block = &import->block;
    struct json_object *places = kvt_json_array(row, "places");
    enum kvt_err rc;

    block->place_count = 0;
    block->stored_ms = 0; /* exports of before do not say it */
    if (places == NULL || !kvt_json_hash(row, "hash", &block->hash) ||
        !kvt_json_hash(row, "parent", &block->parent) ||
        !kvt_json_hash(row, "tokens_hash", &block->tokens_hash) ||
        !advisor_index_import_u32(row, "position", &block->position) ||
        block->position > KVT_POSITION_MAX || !kvt_json_u64(row, "size", &block->size) ||
        !advisor_index_import_u32(row, "hits", &block->hits) ||
        !advisor_index_import_u32(row, "cold_hits", &block->cold_hits) ||
        !advisor_index_import_u32(row, "cold_recent", &block->cold_recent) ||
        !kvt_json_u64(row, "last_access_ms", &block->last_access_ms) ||
        !kvt_json_u64(row, "touched_ms", &block->touched_ms) ||
        (import->version >= VERSION_AGE && !kvt_json_u64(row, "stored_ms", &block->stored_ms)))
        return KVT_INVALID;
    rc = namespace_number(import, row, &block->ns);
    for (size_t i = 0; i < json_object_array_length(places) && rc == KVT_OK; i++)
        rc = take_place(import, json_object_array_get_idx(places, i));
    if (rc != KVT_OK || block->place_count == 0)
        return rc;
    return advisor_store_put_block(&import->txn, block);
}

/* ---- runs ---- */

/* Hashes of an array that has `count`. */
static bool
read_hashes(struct json_object *array, size_t count, uint64_t *hashes)
{
    if (array == NULL || json_object_array_length(array) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!kvt_json_to_hash(json_object_array_get_idx(array, i), &hashes[i]))
            return false;
    return true;
}

static enum kvt_err
take_run(struct advisor_index_import *import, struct json_object *row)
{
    const bool has_tokens = kvt_json_member(row, "tokens") != NULL;
    struct advisor_event_log_place place = {0};
    uint64_t hashes[ADVISOR_EVENT_LOG_BLOCKS_MAX];
    uint64_t tokens[ADVISOR_EVENT_LOG_BLOCKS_MAX];
    struct index_holder key;
    uint32_t position;
    uint32_t count;
    uint64_t parent;
    enum kvt_err rc;

    if (!advisor_index_import_u32(row, "count", &count) || count == 0 ||
        count > ADVISOR_EVENT_LOG_BLOCKS_MAX ||
        !read_hashes(kvt_json_array(row, "hashes"), count, hashes) ||
        (has_tokens && !read_hashes(kvt_json_array(row, "tokens"), count, tokens)) ||
        !kvt_json_hash(row, "parent", &parent) || !kvt_json_u64(row, "size", &place.size) ||
        !advisor_index_import_u32(row, "ranks", &place.ranks) || place.ranks == 0 ||
        !advisor_index_import_u32(row, "position", &position) || position > KVT_POSITION_MAX ||
        count - 1 > KVT_POSITION_MAX - position)
        return KVT_INVALID;
    rc = namespace_number(import, row, &place.ns);
    if (rc == KVT_OK)
        rc = holder_number(import, row, &key, &place.holder);
    if (rc == KVT_OK && key.tier == KVT_TIER_G4)
        rc = KVT_INVALID;
    return rc == KVT_OK ? advisor_event_log_store(import->log, &place, parent, position, hashes,
                                                  has_tokens ? tokens : NULL, count)
                        : rc;
}

/* ---- policies ---- */

static enum kvt_err
take_policy(struct advisor_index_import *import, struct json_object *row)
{
    const char *text = kvt_json_string(row, "text");
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    struct advisor_policy_row to = {0};
    enum kvt_err rc;

    if (import->version < VERSION_POLICY || text == NULL || strlen(text) > KVT_YAML_FILE_MAX ||
        !kvt_json_u64(row, "version", &to.version) || to.version == 0 || to.version > INT64_MAX ||
        !kvt_json_u64(row, "since_ms", &to.since_ms) ||
        !advisor_index_import_name(row, "source", to.source, sizeof(to.source)) ||
        !advisor_index_import_name(row, "digest", to.digest, sizeof(to.digest)))
        return KVT_INVALID;
    to.size = strlen(text);
    rc = advisor_rulebook_digest(text, (size_t)to.size, digest);
    if (rc == KVT_OK && strcmp(digest, to.digest) != 0)
        rc = KVT_INVALID;
    return rc == KVT_OK ? advisor_store_put_policy(&import->txn, &to, text) : rc;
}

static enum kvt_err
take_policy_file(struct advisor_index_import *import, struct json_object *row)
{
    char digest[ADVISOR_POLICY_DIGEST_MAX] = {0};

    if (import->version < VERSION_POLICY ||
        !advisor_index_import_name(row, "digest", digest, sizeof(digest)))
        return KVT_INVALID;
    return advisor_store_put_policy_file(&import->txn, digest);
}

enum kvt_err
advisor_index_import_row(struct advisor_index_import *import, struct json_object *row,
                         const char *kind, struct kvt_error *err)
{
    enum kvt_err rc;

    if (!import->begun && strcmp(kind, "index") != 0)
        return KVT_INVALID;
    if (strcmp(kind, "run") == 0)
        return take_run(import, row);
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
    if (strcmp(kind, "policy") == 0)
        return take_policy(import, row);
    if (strcmp(kind, "policy_file") == 0)
        return take_policy_file(import, row);
    rc = advisor_index_import_foreign(import, row, kind);
    return rc == KVT_NOTFOUND ? KVT_INVALID : rc;
}
