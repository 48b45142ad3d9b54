#include "advisor/answer/pair_page.h"
#include "advisor/archive/index_export_private.h"
#include "advisor/index/evicted.h"
#include "advisor/store/event_log.h"

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
    advisor_index_export_holder(out, holder);
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

enum kvt_err
advisor_index_export_runs(const struct advisor_index_export *export, uint64_t at, size_t max,
                          uint64_t *next)
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

enum kvt_err
advisor_index_export_cold(const struct advisor_index_export *export, uint64_t at, size_t max,
                          uint64_t *next)
{
    struct advisor_index_export to = *export;

    return advisor_evicted_blocks(export->txn, at, max, next, add_cold, &to);
}
