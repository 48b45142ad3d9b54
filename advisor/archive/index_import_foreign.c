#include <string.h>

#include "advisor/archive/index_import_private.h"
#include "advisor/store/foreign_rows.h"
#include "base/core/alloc.h"
#include "base/text/hex.h"

/* Rows of other systems' publishers: advisor/archive/index_export_foreign.c writes them. */

static bool
read_bit(struct json_object *row, const char *key, uint32_t *bit)
{
    return advisor_index_import_u32(row, key, bit) && *bit <= 1;
}

static bool
read_publisher(const struct advisor_index_import *import, struct json_object *row, uint32_t *number)
{
    return advisor_index_import_u32(row, "publisher", number) && *number < import->publisher_next;
}

static enum kvt_err
take_source(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_source_row to = {0};

    if (!advisor_index_import_u32(row, "number", &to.number) ||
        !advisor_index_import_name(row, "name", to.name, sizeof(to.name)) ||
        !kvt_json_u64(row, "seq", &to.seq) || !kvt_json_u64(row, "created_ms", &to.created_ms))
        return KVT_INVALID;
    return advisor_store_put(&import->txn, ADVISOR_ROW_SOURCE, &to);
}

static enum kvt_err
take_foreign(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_foreign_row to = {0};
    uint32_t met;
    uint32_t lost;
    uint32_t messages;
    uint32_t any_rank;
    uint32_t revived;

    if (!read_publisher(import, row, &to.number) ||
        !advisor_index_import_u32(row, "source", &to.source) ||
        !kvt_json_u64(row, "worker_id", &to.worker_id) ||
        !advisor_index_import_u32(row, "dp_rank", &to.dp_rank) ||
        !kvt_json_u64(row, "life", &to.life) || !kvt_json_u64(row, "former", &to.former) ||
        !kvt_json_u64(row, "groups_full", &to.groups_full) ||
        !kvt_json_u64(row, "groups_partial", &to.groups_partial) ||
        !advisor_index_import_u32(row, "floor", &to.floor) ||
        !advisor_index_import_u32(row, "digest", &to.digest) || !read_bit(row, "met", &met) ||
        !read_bit(row, "lost", &lost) || !read_bit(row, "messages", &messages) ||
        !read_bit(row, "any_rank", &any_rank) || !read_bit(row, "revived", &revived) ||
        !advisor_index_import_name(row, "reason", to.reason, sizeof(to.reason)))
        return KVT_INVALID;
    to.met = met & 1;
    to.lost = lost & 1;
    to.messages = messages & 1;
    to.any_rank = any_rank & 1;
    to.revived = revived & 1;
    return advisor_store_put(&import->txn, ADVISOR_ROW_FOREIGN, &to);
}

static enum kvt_err
take_alias(struct advisor_index_import *import, struct json_object *row)
{
    struct advisor_alias_row to = {0};
    uint32_t tiers;
    uint32_t salted;

    if (!read_publisher(import, row, &to.publisher) || !kvt_json_hash(row, "hash", &to.hash) ||
        !kvt_json_hash(row, "chain", &to.chain) || !kvt_json_u64(row, "seed", &to.seed) ||
        !advisor_index_import_u32(row, "gen", &to.gen) ||
        !advisor_index_import_u32(row, "position", &to.position) ||
        !advisor_index_import_u32(row, "tiers", &tiers) || tiers > UINT8_MAX ||
        !read_bit(row, "salted", &salted))
        return KVT_INVALID;
    to.tiers = tiers & UINT8_MAX;
    to.salted = salted & 1;
    return advisor_store_put(&import->txn, ADVISOR_ROW_ALIAS, &to);
}

static enum kvt_err
take_waiting(struct advisor_index_import *import, struct json_object *row)
{
    const char *text = kvt_json_string(row, "store");
    const size_t size = text == NULL ? 0 : strlen(text) / 2;
    enum kvt_err rc;
    uint32_t publisher;
    uint64_t serial;
    uint8_t *bytes;

    if (text == NULL || strlen(text) % 2 != 0 || !read_publisher(import, row, &publisher) ||
        !kvt_json_u64(row, "serial", &serial))
        return KVT_INVALID;
    bytes = kvt_calloc(size + 1, 1);
    if (bytes == NULL)
        return KVT_NOMEM;
    rc = kvt_hex_parse(text, size, bytes)
             ? advisor_store_put_orphan(&import->txn, publisher, serial, bytes, size)
             : KVT_INVALID;
    kvt_free(bytes);
    return rc;
}

enum kvt_err
advisor_index_import_foreign(struct advisor_index_import *import, struct json_object *row,
                             const char *kind)
{
    if (strcmp(kind, "alias") == 0)
        return take_alias(import, row);
    if (strcmp(kind, "source") == 0)
        return take_source(import, row);
    if (strcmp(kind, "foreign") == 0)
        return take_foreign(import, row);
    if (strcmp(kind, "waiting") == 0)
        return take_waiting(import, row);
    return KVT_NOTFOUND;
}
