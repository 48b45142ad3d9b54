#include "advisor/archive/index_export.h"

#include <inttypes.h>
#include <string.h>

#include "advisor/answer/pair_page.h"
#include "advisor/archive/index_export_private.h"
#include "advisor/index/evicted.h"
#include "advisor/index/index_image.h"
#include "advisor/store/event_log.h"
#include "advisor/store/policy_version_rows.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

/* PAGE: of blocks at a time; BUFFER_MAX: a page and the longest row; FOLLOW_MS: a group takes that
 * long at most */
enum { PAGE = 16384, BUFFER_MAX = 64 << 20, FOLLOW_MS = 10000 };

/* ---- members ---- */

void
advisor_index_export_text(struct kvt_buffer *out, const char *key, const char *text)
{
    kvt_buffer_printf(out, ",\"%s\":", key);
    kvt_buffer_json_string(out, text);
}

void
advisor_index_export_number(struct kvt_buffer *out, const char *key, uint64_t number)
{
    kvt_buffer_printf(out, ",\"%s\":%" PRIu64, key, number);
}

void
advisor_index_export_hash(struct kvt_buffer *out, const char *key, uint64_t hash)
{
    char text[KVT_HASH_TEXT_MAX];

    kvt_hash_format(hash, text);
    kvt_buffer_printf(out, ",\"%s\":\"%s\"", key, text);
}

static void
put_holder(struct kvt_buffer *out, const struct index_holder *holder)
{
    advisor_index_export_text(out, "holder", holder->name);
    advisor_index_export_number(out, "dp_rank", holder->dp_rank);
    advisor_index_export_text(out, "tier", kvt_tier_name(holder->tier));
}

enum kvt_err
advisor_index_export_flush(const struct advisor_index_export *export, bool all)
{
    struct kvt_buffer *out = export->out;

    if (!kvt_buffer_ok(out))
        return out->size >= out->limit ? KVT_RANGE : KVT_NOMEM;
    if (export->take == NULL || out->size == 0 ||
        (!all && out->size < ADVISOR_INDEX_EXPORT_PAGE_BYTES))
        return KVT_OK;
    return export->take(export->arg, out);
}

/* ---- what stands before the blocks ---- */

const struct advisor_index_export_meta advisor_index_export_metas[ADVISOR_INDEX_EXPORT_METAS] = {
    {ADVISOR_META_FORMAT, "store_format", 0},
    {ADVISOR_META_EPOCH, "epoch", 1},
    {ADVISOR_META_EVENTS_SEQ, "events_seq", 1},
    {ADVISOR_META_EVENTS_CREATED, "events_created_ms", 1},
    {ADVISOR_META_REPORTS_SEQ, "reports_seq", 1},
    {ADVISOR_META_REPORTS_CREATED, "reports_created_ms", 1},
    {ADVISOR_META_MODE, "mode", 1},
    {ADVISOR_META_PUBLISHER_NEXT, "publisher_next", 1},
    {ADVISOR_META_COLLISIONS, "collisions", 1},
    {ADVISOR_META_VOLATILE, "volatile", 2},
};

static enum kvt_err
add_index(const struct advisor_index_export *export)
{
    enum kvt_err rc = KVT_OK;

    kvt_buffer_printf(export->out, "{\"row\":\"index\",\"version\":%d",
                      ADVISOR_INDEX_EXPORT_VERSION);
    advisor_index_export_number(export->out, "time_ms", kvt_clock_unix_ms());
    for (size_t i = 0; i < ADVISOR_INDEX_EXPORT_METAS && rc == KVT_OK; i++) {
        const struct advisor_index_export_meta *meta = &advisor_index_export_metas[i];
        uint64_t value;

        rc = advisor_store_number(export->txn, meta->which, &value);
        advisor_index_export_number(export->out, meta->key, value);
    }
    kvt_buffer_printf(export->out, "}\n");
    return rc;
}

static enum kvt_err
add_publisher(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    char namespace_[KVT_NAMESPACE_MAX];
    enum kvt_err rc;

    if (advisor_index_export_is_left_out(export, row->number))
        return KVT_OK;
    rc = advisor_store_namespace(export->txn, row->ns, namespace_);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"publisher\"");
    advisor_index_export_number(out, "number", row->number);
    advisor_index_export_text(out, "namespace", namespace_);
    advisor_index_export_text(out, "worker", row->worker);
    advisor_index_export_number(out, "incarnation", row->incarnation);
    advisor_index_export_number(out, "last_seq", row->last_seq);
    advisor_index_export_number(out, "last_event_ms", row->last_event_ms);
    advisor_index_export_number(out, "gaps", row->gaps);
    advisor_index_export_number(out, "resyncs", row->resyncs);
    advisor_index_export_number(out, "gen", row->gen);
    advisor_index_export_number(out, "buckets", row->buckets);
    kvt_buffer_printf(out, ",\"gone\":%s,\"need_dump\":%s,\"holds_g4\":%s,\"doubted\":%s}\n",
                      row->gone != 0 ? "true" : "false", row->need_dump != 0 ? "true" : "false",
                      row->holds_g4 != 0 ? "true" : "false", row->doubted != 0 ? "true" : "false");
    return advisor_index_export_flush(export, false);
}

static enum kvt_err
add_sweep(void *arg, const void *data)
{
    const struct advisor_sweep_row *row = data;
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    char namespace_[KVT_NAMESPACE_MAX];
    struct index_holder holder;
    enum kvt_err rc;

    if (advisor_index_export_is_left_out(export, row->publisher))
        return KVT_OK;
    rc = advisor_store_namespace(export->txn, row->ns, namespace_);
    if (rc == KVT_OK)
        rc = advisor_store_holder(export->txn, row->holder, &holder);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"sweep\"");
    advisor_index_export_number(out, "publisher", row->publisher);
    advisor_index_export_text(out, "namespace", namespace_);
    put_holder(out, &holder);
    advisor_index_export_number(out, "floor", row->floor);
    kvt_buffer_printf(out, "}\n");
    return KVT_OK;
}

static enum kvt_err
add_gateway(void *arg, const void *data)
{
    const struct advisor_gateway_row *row = data;
    const struct advisor_index_export *export = arg;

    kvt_buffer_printf(export->out, "{\"row\":\"gateway\"");
    advisor_index_export_text(export->out, "name", row->name);
    advisor_index_export_number(export->out, "incarnation", row->incarnation);
    advisor_index_export_number(export->out, "seq", row->seq);
    kvt_buffer_printf(export->out, "}\n");
    return KVT_OK;
}

static enum kvt_err
add_order(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;

    kvt_buffer_printf(out, "{\"row\":\"order\"");
    advisor_index_export_number(out, "epoch", row->epoch);
    advisor_index_export_number(out, "id", row->id);
    advisor_index_export_number(out, "issued_ms", row->issued_ms);
    advisor_index_export_number(out, "expires_ms", row->expires_ms);
    advisor_index_export_number(out, "bytes", row->bytes);
    advisor_index_export_number(out, "bytes_moved", row->bytes_moved);
    advisor_index_export_number(out, "items", row->items);
    advisor_index_export_number(out, "done", row->done);
    advisor_index_export_number(out, "failed", row->failed);
    advisor_index_export_number(out, "verb", row->verb);
    advisor_index_export_number(out, "state", row->state);
    advisor_index_export_text(out, "gateway", row->gateway);
    advisor_index_export_text(out, "namespace", row->namespace_);
    advisor_index_export_text(out, "reason", row->reason);
    if (row->from[0] != '\0') {
        advisor_index_export_text(out, "from", row->from);
        advisor_index_export_text(out, "to", row->to);
    }
    if (row->keep != 0)
        advisor_index_export_number(out, "keep", row->keep);
    advisor_index_export_text(out, "text", row->text);
    kvt_buffer_printf(out, "}\n");
    return KVT_OK;
}

/* ---- blocks ---- */

static enum kvt_err
add_place(const struct advisor_index_export *export, const struct advisor_store_block *block,
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
    if (advisor_index_export_is_left_out(export, held.reporter))
        return KVT_OK;
    kvt_buffer_printf(out, "%s{\"ranks\":%" PRIu32, *added == 0 ? "" : ",", place->ranks);
    put_holder(out, &holder);
    advisor_index_export_number(out, "publisher", held.reporter);
    advisor_index_export_number(out, "gen", held.gen);
    kvt_buffer_printf(out, "}");
    (*added)++;
    return KVT_OK;
}

static enum kvt_err
add_block(void *arg, const struct advisor_store_block *block)
{
    struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    const size_t start = out->size;
    char namespace_[KVT_NAMESPACE_MAX];
    uint32_t added = 0;
    enum kvt_err rc;

    /* Where one hash ends and the next begins: a page continues at a hash. */
    if (export->take == NULL && out->size - export->start > ADVISOR_INDEX_EXPORT_PAGE_BYTES &&
        block->hash != export->hash) {
        export->next = block->hash;
        return KVT_AGAIN;
    }
    export->hash = block->hash;
    rc = advisor_store_namespace(export->txn, block->ns, namespace_);
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    kvt_buffer_printf(out, "{\"row\":\"block\"");
    advisor_index_export_text(out, "namespace", namespace_);
    advisor_index_export_hash(out, "hash", block->hash);
    advisor_index_export_hash(out, "parent", block->parent);
    advisor_index_export_number(out, "position", block->position);
    advisor_index_export_number(out, "size", block->size);
    advisor_index_export_hash(out, "tokens_hash", block->tokens_hash);
    advisor_index_export_number(out, "hits", block->hits);
    advisor_index_export_number(out, "cold_hits", block->cold_hits);
    advisor_index_export_number(out, "cold_recent", block->cold_recent);
    advisor_index_export_number(out, "last_access_ms", block->last_access_ms);
    advisor_index_export_number(out, "touched_ms", block->touched_ms);
    advisor_index_export_number(out, "stored_ms", block->stored_ms);
    kvt_buffer_printf(out, ",\"places\":[");
    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++)
        rc = add_place(export, block, &block->places[i], &added);
    kvt_buffer_printf(out, "]}\n");
    if (added == 0)
        out->size = start;
    return rc == KVT_OK ? advisor_index_export_flush(export, false) : rc;
}

/* ---- all of it ---- */

/* ---- versions of the policy ---- */

/* Versions of the policy, newest first, and which file was installed last. */

/* In a page, which is one answer: versions beyond it are left out, the oldest ones. */
enum { PAGE_BYTES_MAX = 2 << 20 };

static enum kvt_err
add_policy(void *arg, const struct advisor_policy_row *row)
{
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    struct advisor_policy_row same;
    char *copy;
    const char *text;
    enum kvt_err rc = advisor_store_policy(export->txn, row->version, &same, &text);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    if (export->take == NULL && out->size - export->start + same.size > PAGE_BYTES_MAX)
        return KVT_OK;
    copy = kvt_calloc(1, (size_t)same.size + 1);
    if (copy == NULL)
        return KVT_NOMEM;
    memcpy(copy, text, (size_t)same.size);
    kvt_buffer_printf(out, "{\"row\":\"policy\"");
    advisor_index_export_number(out, "version", same.version);
    advisor_index_export_number(out, "since_ms", same.since_ms);
    advisor_index_export_text(out, "source", same.source);
    advisor_index_export_text(out, "digest", same.digest);
    advisor_index_export_text(out, "text", copy);
    kvt_buffer_printf(out, "}\n");
    kvt_free(copy);
    return advisor_index_export_flush(export, false);
}

static enum kvt_err
add_policies(struct advisor_index_export *export)
{
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    enum kvt_err rc = advisor_store_policies(export->txn, add_policy, export);

    if (rc == KVT_OK)
        rc = advisor_store_policy_file(export->txn, digest);
    if (rc != KVT_OK || digest[0] == '\0')
        return rc;
    kvt_buffer_printf(export->out, "{\"row\":\"policy_file\"");
    advisor_index_export_text(export->out, "digest", digest);
    kvt_buffer_printf(export->out, "}\n");
    return KVT_OK;
}

static enum kvt_err
add_head(struct advisor_index_export *export)
{
    enum kvt_err rc = add_index(export);

    /* In a page they are those that are left out. */
    if (rc == KVT_OK && export->take != NULL)
        rc = advisor_index_export_foreigners(export);
    if (rc == KVT_OK)
        rc = advisor_store_walk(export->txn, ADVISOR_ROW_PUBLISHER, add_publisher, export);
    if (rc == KVT_OK)
        rc = advisor_store_walk(export->txn, ADVISOR_ROW_SWEEP, add_sweep, export);
    if (rc == KVT_OK)
        rc = advisor_store_walk(export->txn, ADVISOR_ROW_GATEWAY, add_gateway, export);
    if (rc == KVT_OK)
        rc = advisor_store_walk(export->txn, ADVISOR_ROW_ORDER, add_order, export);
    if (rc == KVT_OK)
        rc = add_policies(export);
    return rc;
}

/* ---- runs of workers, and what was evicted ---- */

/* Consecutive blocks of one holder that have all but their hashes in common make a line. */

static bool
continues(const struct advisor_pair *last, const struct advisor_pair *pair)
{
    return pair->ns == last->ns && pair->holder == last->holder &&
           pair->block.ranks == last->block.ranks && pair->block.size == last->block.size &&
           pair->block.id.parent == last->block.id.hash &&
           pair->block.id.position == last->block.id.position + 1;
}

/* A line; "tokens" only where one is known. */
static void
add_run(const struct advisor_index_export *export, const char *namespace_,
        const struct index_holder *holder, const struct advisor_pair *pairs, size_t count)
{
    struct kvt_buffer *out = export->out;
    bool tokens = false;

    kvt_buffer_printf(out, "{\"row\":\"run\",\"count\":%zu", count);
    advisor_index_export_text(out, "namespace", namespace_);
    put_holder(out, holder);
    advisor_index_export_number(out, "ranks", pairs->block.ranks);
    advisor_index_export_number(out, "size", pairs->block.size);
    advisor_index_export_hash(out, "parent", pairs->block.id.parent);
    advisor_index_export_number(out, "position", pairs->block.id.position);
    kvt_buffer_printf(out, ",\"hashes\":[");
    for (size_t i = 0; i < count; i++) {
        char text[KVT_HASH_TEXT_MAX];

        kvt_hash_format(pairs[i].block.id.hash, text);
        kvt_buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "", text);
        tokens |= pairs[i].block.tokens_hash != 0;
    }
    for (size_t i = 0; i < count && tokens; i++) {
        char text[KVT_HASH_TEXT_MAX];

        kvt_hash_format(pairs[i].block.tokens_hash, text);
        kvt_buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "],\"tokens\":[", text);
    }
    kvt_buffer_printf(out, "]}\n");
}

static enum kvt_err
add_runs(const struct advisor_index_export *export, uint64_t at, size_t max, uint64_t *next)
{
    struct index *index = export->memory->index;
    struct advisor_pairs pairs = {0};
    const enum kvt_err rc = advisor_pairs_take(&pairs, index, at, max, next);
    size_t count;

    for (size_t i = 0; i < pairs.count && rc == KVT_OK; i += count) {
        char namespace_[KVT_NAMESPACE_MAX];
        struct index_holder holder;

        for (count = 1; count < ADVISOR_EVENT_LOG_BLOCKS_MAX && i + count < pairs.count &&
                        continues(&pairs.rows[i + count - 1], &pairs.rows[i + count]);)
            count++;
        index_namespace_name(index, pairs.rows[i].ns, namespace_);
        index_holder_info(index, pairs.rows[i].holder, &holder, NULL, NULL);
        if (holder.tier != KVT_TIER_G4 &&
            !advisor_index_export_worker_is_left_out(export, namespace_, holder.name))
            add_run(export, namespace_, &holder, &pairs.rows[i], count);
    }
    advisor_pairs_release(&pairs);
    return rc;
}

static enum kvt_err
add_cold(void *arg, const struct advisor_store_block *block)
{
    const struct advisor_index_export *export = arg;
    struct advisor_pair pair = {
        .block = {.id = {.hash = block->hash, .parent = block->parent, .position = block->position},
                  .tokens_hash = block->tokens_hash,
                  .size = block->size}};
    char namespace_[KVT_NAMESPACE_MAX];
    enum kvt_err rc = advisor_store_namespace(export->txn, block->ns, namespace_);

    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        struct index_holder holder;

        rc = advisor_store_holder(export->txn, block->places[i].holder, &holder);
        pair.block.ranks = block->places[i].ranks;
        if (rc == KVT_OK &&
            !advisor_index_export_worker_is_left_out(export, namespace_, holder.name))
            add_run(export, namespace_, &holder, &pair, 1);
    }
    return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
}

static enum kvt_err
add_evicted(const struct advisor_index_export *export, uint64_t at, size_t max, uint64_t *next)
{
    struct advisor_index_export to = *export;

    return advisor_evicted_blocks(export->txn, at, max, next, add_cold, &to);
}

static enum kvt_err
add_part(struct advisor_index_export *export, struct advisor_index_export_cursor *cursor,
         size_t max)
{
    const uint64_t at = cursor->at;
    uint64_t unwritten;
    enum kvt_err rc = advisor_store_number(export->txn, ADVISOR_META_VOLATILE, &unwritten);

    if (rc != KVT_OK)
        return rc;
    /* Places of workers that are in memory alone fit no sequences of the store. */
    if (cursor->part != ADVISOR_INDEX_EXPORT_BLOCKS && unwritten != 0)
        *cursor = (struct advisor_index_export_cursor){.part = ADVISOR_INDEX_EXPORT_DONE};
    switch (cursor->part) {
    case ADVISOR_INDEX_EXPORT_BLOCKS:
        export->next = 0;
        rc = advisor_store_blocks(export->txn, at, max, &cursor->at, add_block, export);
        if (rc == KVT_AGAIN && export->next != 0) {
            cursor->at = export->next;
            rc = KVT_OK;
        }
        break;
    case ADVISOR_INDEX_EXPORT_RUNS: rc = add_runs(export, at, max, &cursor->at); break;
    case ADVISOR_INDEX_EXPORT_COLD: rc = add_evicted(export, at, max, &cursor->at); break;
    case ADVISOR_INDEX_EXPORT_DONE:
    default: cursor->at = 0; break;
    }
    if (cursor->at == 0 && cursor->part < ADVISOR_INDEX_EXPORT_DONE)
        cursor->part++;
    return rc == KVT_OK ? advisor_index_export_flush(export, false) : rc;
}

/* RAM has what this transaction sees: the first page must not be newer than what follows it. */
static enum kvt_err
wait_for_memory(struct advisor_ram_index *memory)
{
    for (unsigned waited = 0; atomic_load(&memory->behind); waited++) {
        if (waited == FOLLOW_MS)
            return KVT_AGAIN;
        kvt_clock_sleep_ms(1);
    }
    return KVT_OK;
}

enum kvt_err
advisor_index_export_page(struct advisor_store *store, struct advisor_ram_index *memory,
                          struct advisor_index_export_cursor *cursor, size_t max,
                          struct kvt_buffer *out)
{
    const bool begins = cursor->part == ADVISOR_INDEX_EXPORT_BLOCKS && cursor->at == 0;
    struct advisor_txn txn;
    struct advisor_index_export export = {
        .txn = &txn, .memory = memory, .out = out, .start = out->size};
    enum kvt_err rc;

    if (!advisor_ram_index_whole(memory))
        return KVT_AGAIN;
    rc = advisor_number_map_new(&export.left_out);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_read(store, &txn, NULL);
    if (rc == KVT_OK) {
        rc = advisor_index_export_leave_out(&export);
        if (rc == KVT_OK && begins)
            rc = add_head(&export);
        if (rc == KVT_OK && begins)
            rc = wait_for_memory(memory);
        if (rc == KVT_OK)
            rc = add_part(&export, cursor, max);
        advisor_store_end(&txn);
    }
    advisor_number_map_free(export.left_out);
    return rc;
}

/* Evicted blocks are in the image like the others. */
static enum kvt_err
add_all(struct advisor_index_export *export)
{
    struct advisor_index_export_cursor cursor = {0};
    enum kvt_err rc = add_head(export);

    while (rc == KVT_OK && cursor.part < ADVISOR_INDEX_EXPORT_COLD)
        rc = add_part(export, &cursor, PAGE);
    if (rc == KVT_OK)
        rc = advisor_index_export_named(export);
    return rc == KVT_OK ? advisor_index_export_flush(export, true) : rc;
}

enum kvt_err
advisor_index_export_all(struct advisor_store *store, advisor_index_export_fn *take, void *arg,
                         struct kvt_error *err)
{
    struct advisor_index_image *image = NULL;
    struct kvt_buffer out;
    struct advisor_txn txn;
    struct advisor_index_export export = {.txn = &txn, .out = &out, .take = take, .arg = arg};
    enum kvt_err rc = advisor_store_read(store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    kvt_buffer_init(&out, BUFFER_MAX);
    rc = advisor_index_image_new(&image, &txn, err);
    if (rc == KVT_OK) {
        export.memory = advisor_index_image_memory(image);
        rc = advisor_number_map_new(&export.left_out);
        if (rc == KVT_OK)
            rc = add_all(&export);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    }
    advisor_store_end(&txn);
    advisor_index_image_free(image);
    advisor_number_map_free(export.left_out);
    kvt_buffer_release(&out);
    return rc;
}
