#include "cli/index/offline_index.h"

#include <stdio.h>

#include "advisor/answer/finder.h"
#include "advisor/answer/offline_answer.h"
#include "base/core/alloc.h"
#include "kvtier/block.h"
#include "wire/message/query.h"

enum { CAUSE_MAX = 160, FOLDER_MAX = 120 };

static enum kvt_err
open_index(struct advisor_store_reader **reader, const char *folder, struct kvt_error *err)
{
    struct kvt_error cause = {0};
    const enum kvt_err rc = advisor_store_read_open(reader, folder, &cause);

    if (rc == KVT_NOTFOUND)
        return kvt_error_set(err, rc, "no index in %.*s: --offline wants the advisor's state.dir",
                             FOLDER_MAX, folder);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "index: %.*s", CAUSE_MAX, cause.text);
    return KVT_OK;
}

static enum kvt_err
fail_read(struct kvt_error *err, enum kvt_err rc, const char *folder)
{
    return kvt_error_set(err, rc, "index in %.*s: %s", FOLDER_MAX, folder, kvt_err_text(rc));
}

/* Reading all of it says more. */
static enum kvt_err
fail_load(struct kvt_error *err, const struct kvt_error *cause, const char *folder)
{
    return kvt_error_set(err, cause->code, "index in %.*s: %.*s", FOLDER_MAX, folder, CAUSE_MAX / 2,
                         cause->text);
}

/* ---- members ---- */

static void
add_text(struct json_object *object, const char *key, const char *text)
{
    (void)json_object_object_add(object, key, json_object_new_string(text));
}

static void
add_number(struct json_object *object, const char *key, uint64_t number)
{
    (void)json_object_object_add(object, key, json_object_new_uint64(number));
}

static void
add_hash(struct json_object *object, const char *key, uint64_t hash)
{
    char text[KVT_HASH_TEXT_MAX];

    kvt_hash_format(hash, text);
    add_text(object, key, text);
}

static void
add_holder(struct json_object *object, const char *name, uint32_t dp_rank, enum kvt_tier tier)
{
    add_text(object, "holder", name);
    add_number(object, "dp_rank", dp_rank);
    add_text(object, "tier", kvt_tier_name(tier));
}

static struct json_object *
add_array(struct json_object *object, const char *key)
{
    struct json_object *array = json_object_new_array();

    (void)json_object_object_add(object, key, array);
    return array;
}

static struct json_object *
new_answer(void)
{
    struct json_object *answer = json_object_new_object();

    add_number(answer, "schema_version", 1);
    return answer;
}

/* ---- stats ---- */

enum kvt_err
cli_offline_index_stats(const char *folder, struct json_object **stats, struct kvt_error *err)
{
    struct advisor_store_holder_stats *holders = NULL;
    struct advisor_store_reader *reader;
    struct advisor_store_stats counted;
    struct kvt_error cause = {.text = ""};
    struct json_object *rows;
    enum kvt_err rc;

    *stats = NULL;
    rc = open_index(&reader, folder, err);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_read_stats(reader, &counted, &holders, &cause);
    advisor_store_read_close(reader);
    if (rc != KVT_OK)
        return fail_load(err, &cause, folder);
    *stats = new_answer();
    add_number(*stats, "blocks", counted.blocks);
    add_number(*stats, "places", counted.places);
    add_number(*stats, "namespaces", counted.namespaces);
    add_number(*stats, "publishers", counted.publishers);
    add_number(*stats, "committed_seq", counted.committed_seq);
    add_number(*stats, "epoch", counted.epoch);
    add_number(*stats, "db_bytes", counted.db_bytes);
    add_number(*stats, "db_max_bytes", counted.db_max_bytes);
    rows = add_array(*stats, "holders");
    for (uint64_t i = 0; i < counted.holders; i++) {
        struct json_object *row = json_object_new_object();

        add_holder(row, holders[i].holder.name, holders[i].holder.dp_rank, holders[i].holder.tier);
        add_number(row, "blocks", holders[i].blocks);
        add_number(row, "bytes", holders[i].bytes);
        (void)json_object_array_add(rows, row);
    }
    kvt_free(holders);
    return KVT_OK;
}

/* ---- match ---- */

static void
add_masks(struct json_object *answer, const uint64_t *hashes, const uint8_t *masks, size_t count)
{
    struct json_object *blocks = add_array(answer, "blocks");

    for (size_t i = 0; i < count; i++) {
        struct json_object *block = json_object_new_object();
        struct json_object *tiers;

        add_hash(block, "hash", hashes[i]);
        tiers = add_array(block, "tiers");
        for (unsigned tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++)
            if ((masks[i] & KVT_TIER_MASK(tier)) != 0)
                (void)json_object_array_add(
                    tiers, json_object_new_string(kvt_tier_name((enum kvt_tier)tier)));
        (void)json_object_array_add(blocks, block);
    }
}

static void
add_matches(struct json_object *answer, const struct wire_query_holder *holders, size_t count)
{
    struct json_object *matches = add_array(answer, "matches");

    for (size_t i = 0; i < count; i++) {
        struct json_object *match = json_object_new_object();

        add_holder(match, holders[i].name, holders[i].dp_rank, holders[i].tier);
        add_number(match, "blocks", holders[i].blocks);
        (void)json_object_array_add(matches, match);
    }
}

enum kvt_err
cli_offline_index_match(const char *folder, const char *namespace_, uint64_t *hashes, size_t count,
                        struct json_object **match, struct kvt_error *err)
{
    struct wire_query query = {.hashes = hashes, .hash_count = (uint32_t)count};
    struct wire_query_holder *holders = NULL;
    const struct advisor_finder *finder;
    struct advisor_store_reader *reader;
    uint8_t *masks = NULL;
    size_t found = 0;
    enum kvt_err rc;

    *match = NULL;
    if (count > WIRE_QUERY_HASHES_MAX)
        return kvt_error_set(err, KVT_RANGE, "%zu hashes; at most %d in one question", count,
                             WIRE_QUERY_HASHES_MAX);
    if ((size_t)snprintf(query.namespace_, sizeof(query.namespace_), "%s", namespace_) >=
        sizeof(query.namespace_))
        return kvt_error_set(err, KVT_RANGE, "namespace: at most %d bytes", KVT_NAMESPACE_MAX - 1);
    rc = open_index(&reader, folder, err);
    if (rc != KVT_OK)
        return rc;
    finder = advisor_store_read_finder(reader);
    holders = kvt_calloc(WIRE_QUERY_HOLDERS_MAX, sizeof(*holders));
    masks = kvt_calloc(count + 1, 1);
    rc = holders == NULL || masks == NULL
             ? KVT_NOMEM
             : advisor_finder_masks(finder, namespace_, hashes, count, masks);
    if (rc == KVT_OK)
        rc = advisor_finder_matches(finder, &query, holders, WIRE_QUERY_HOLDERS_MAX, &found);
    advisor_store_read_close(reader);
    if (rc == KVT_OK) {
        *match = new_answer();
        add_masks(*match, hashes, masks, count);
        add_matches(*match, holders, found);
    } else {
        rc = fail_read(err, rc, folder);
    }
    kvt_free(masks);
    kvt_free(holders);
    return rc;
}

/* ---- one block ---- */

static struct json_object *
new_block(const char *namespace_, const struct advisor_finder_block *block)
{
    struct json_object *answer = new_answer();
    struct json_object *places;

    add_hash(answer, "hash", block->id.hash);
    add_hash(answer, "parent", block->id.parent);
    add_number(answer, "position", block->id.position);
    add_text(answer, "namespace", namespace_);
    add_hash(answer, "tokens_hash", block->tokens_hash);
    add_number(answer, "size", block->size);
    add_number(answer, "ranks", block->ranks);
    places = add_array(answer, "places");
    for (uint32_t i = 0; i < block->place_count && i < ADVISOR_FINDER_PLACES_MAX; i++) {
        const struct advisor_finder_place *place = &block->places[i];
        struct json_object *row = json_object_new_object();

        add_holder(row, place->holder.name, place->holder.dp_rank, place->holder.tier);
        add_number(row, "ranks", place->ranks);
        (void)json_object_array_add(places, row);
    }
    add_number(answer, "place_count", block->place_count);
    add_number(answer, "hits", block->hits);
    add_number(answer, "cold_hits", block->cold_hits);
    add_number(answer, "last_access_ms", block->last_access_ms);
    return answer;
}

enum kvt_err
cli_offline_index_block(const char *folder, const char *namespace_, uint64_t hash,
                        struct json_object **block, struct kvt_error *err)
{
    struct advisor_finder_block *found = NULL;
    struct advisor_store_reader *reader;
    char text[KVT_HASH_TEXT_MAX];
    enum kvt_err rc;

    *block = NULL;
    rc = open_index(&reader, folder, err);
    if (rc != KVT_OK)
        return rc;
    found = kvt_calloc(1, sizeof(*found));
    rc = found == NULL
             ? KVT_NOMEM
             : advisor_finder_block(advisor_store_read_finder(reader), namespace_, hash, found);
    advisor_store_read_close(reader);
    kvt_hash_format(hash, text);
    if (rc == KVT_OK)
        *block = new_block(namespace_, found);
    else if (rc == KVT_NOTFOUND)
        rc = kvt_error_set(err, rc, "nobody held %s in namespace \"%.*s\"", text, CAUSE_MAX,
                           namespace_);
    else
        rc = fail_read(err, rc, folder);
    kvt_free(found);
    return rc;
}

/* ---- all places ---- */

static void
collect_row(void *arg, const struct advisor_finder_row *row)
{
    struct json_object *line = json_object_new_object();

    add_text(line, "namespace", row->namespace_);
    add_hash(line, "hash", row->block.id.hash);
    add_hash(line, "parent", row->block.id.parent);
    add_number(line, "position", row->block.id.position);
    add_number(line, "size", row->block.size);
    add_holder(line, row->holder.name, row->holder.dp_rank, row->holder.tier);
    add_number(line, "ranks", row->block.ranks);
    (void)json_object_array_add(arg, line);
}

enum kvt_err
cli_offline_index_dump(const char *folder, bool (*each)(void *arg, struct json_object *line),
                       void *arg, struct kvt_error *err)
{
    struct kvt_error cause = {.text = ""};
    struct advisor_store_reader *reader;
    uint64_t cursor = 0;
    bool more = true;
    enum kvt_err rc;

    rc = open_index(&reader, folder, err);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_read_load(reader, &cause);
    if (rc != KVT_OK) {
        advisor_store_read_close(reader);
        return fail_load(err, &cause, folder);
    }
    do {
        struct json_object *page = json_object_new_array();

        rc = advisor_finder_rows(advisor_store_read_finder(reader), cursor, CLI_OFFLINE_INDEX_PAGE,
                                 &cursor, collect_row, page);
        for (size_t i = 0; rc == KVT_OK && more && i < json_object_array_length(page); i++)
            more = each(arg, json_object_array_get_idx(page, i));
        (void)json_object_put(page);
    } while (rc == KVT_OK && more && cursor != 0);
    advisor_store_read_close(reader);
    return rc == KVT_OK ? KVT_OK : fail_read(err, rc, folder);
}

enum cli_exit
cli_offline_index_fail(const struct cli_context *context, const struct kvt_error *err)
{
    const enum cli_exit status = cli_context_fail(context, err);

    if (err->code == KVT_DENIED)
        (void)fputs("  next: run it as root or as the user of kvtier-advisor\n", context->err);
    return status;
}
