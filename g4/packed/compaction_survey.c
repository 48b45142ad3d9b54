#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/packed/compaction_internal.h"
#include "g4/packed/list_pages.h"

static uint64_t
unix_ms(const struct g4_compaction_run *run)
{
    const struct g4_lock_clock *clock = run->options->clock;

    return clock == NULL ? kvt_clock_unix_ms() : clock->unix_ms(clock->arg);
}

static enum kvt_err
drop(struct g4_compaction_run *run, const struct g4_manifest_block *block, struct kvt_error *err)
{
    const struct g4_manifest_change change = {.block = *block, .drop = true};

    run->report->dropped++;
    return g4_compaction_change(run, &change, err);
}

/* An object that the manifest does not know. */
static enum kvt_err
pick(struct g4_compaction_run *run, struct g4_segment_entry *block, const struct g4_listed *row,
     struct kvt_error *err)
{
    const struct g4_compaction_settings *settings = &run->options->settings;
    const uint64_t now_ms = unix_ms(run);
    struct g4_segment_entry *picks;

    if (row->size == 0 || row->size > settings->block_max || now_ms < row->modified_ms ||
        now_ms - row->modified_ms < settings->age_ms)
        return KVT_OK;
    if (run->manifest.block_count + run->eligible_blocks >= G4_MANIFEST_BLOCKS_MAX) {
        run->report->full = true;
        return KVT_OK;
    }
    run->eligible_blocks++;
    run->eligible_bytes += row->size;
    if (run->pick_count == G4_COMPACTION_BLOCKS_MAX || run->pick_bytes + row->size > run->budget) {
        run->more = true;
        return KVT_OK;
    }
    block->length = (uint32_t)row->size;
    block->modified_ms = row->modified_ms;
    run->pick_bytes += row->size;
    picks = kvt_grow(run->picks, &run->pick_room, run->pick_count + 1, sizeof(*picks));
    if (picks == NULL)
        return g4_compaction_no_memory(err);
    run->picks = picks;
    run->picks[run->pick_count++] = *block;
    return KVT_OK;
}

/* Can it go, after this pass has made the block packed if it was not? */
static enum kvt_err
judge(struct g4_compaction_run *run, const struct g4_compaction_slot *slot, struct kvt_error *err)
{
    const struct g4_request *request = &slot->request;
    const struct g4_manifest_block *block = slot->block;
    struct g4_manifest_change change = {.block = *block};
    struct g4_compaction_double *doubles;
    const enum kvt_err rc = g4_compaction_answer(request, err);

    if (rc == KVT_NOTFOUND) /* deleted since it was listed */
        return block->state == G4_MANIFEST_PENDING ? drop(run, block, err) : KVT_OK;
    if (rc != KVT_OK)
        return rc;
    if (!request->meta.present || request->buffer_size != block->entry.length ||
        request->meta.crc32c != block->entry.crc32c ||
        request->meta.fingerprint != block->entry.fingerprint)
        return drop(run, block, err); /* put again, with other bytes: those count */
    doubles = kvt_grow(run->doubles, &run->double_room, run->double_count + 1, sizeof(*doubles));
    if (doubles == NULL)
        return g4_compaction_no_memory(err);
    run->doubles = doubles;
    run->doubles[run->double_count].block = block->entry;
    memcpy(run->doubles[run->double_count].etag, request->etag, sizeof(request->etag));
    run->double_count++;
    if (block->state == G4_MANIFEST_PACKED)
        return KVT_OK;
    change.block.state = G4_MANIFEST_PACKED;
    run->report->settled++;
    return g4_compaction_change(run, &change, err);
}

static enum kvt_err
judge_all(struct g4_compaction_run *run, struct kvt_error *err)
{
    enum kvt_err rc = g4_compaction_requests(run, err);

    for (size_t i = 0; i < run->slot_count && rc == KVT_OK; i++)
        rc = judge(run, &run->slots[i], err);
    run->slot_count = 0;
    return rc;
}

/* An object of a block that the manifest has: is it the same block still? */
static enum kvt_err
meet(struct g4_compaction_run *run, const struct g4_manifest_block *block, const char *key,
     struct kvt_error *err)
{
    struct g4_compaction_slot *slot;

    if (run->double_count + run->slot_count >= G4_COMPACTION_BLOCKS_MAX) {
        run->more = true;
        return KVT_OK;
    }
    slot = g4_compaction_slot(run, G4_HEAD);
    if (slot == NULL)
        return g4_compaction_no_memory(err);
    slot->block = block;
    memcpy(slot->key, key, strlen(key) + 1);
    return run->slot_count == G4_COMPACTION_REQUESTS ? judge_all(run, err) : KVT_OK;
}

static enum kvt_err
on_row(void *arg, const struct g4_listed *row, struct kvt_error *err)
{
    struct g4_compaction_run *run = arg;
    const enum kvt_err rc = g4_compaction_guard(run, err); /* a listing may outlast a lease */
    const struct g4_manifest_block *block;
    struct g4_segment_entry wanted;
    struct kvt_key key;

    if (rc != KVT_OK)
        return rc;
    /* What is no block of this very namespace stays as it is. */
    if (kvt_key_parse(row->key, &key) != KVT_OK ||
        strcmp(key.namespace_, run->options->namespace_) != 0)
        return KVT_OK;
    run->report->plain_blocks++;
    run->report->plain_bytes += row->size;
    wanted = g4_segment_entry_of(&key);
    block = g4_manifest_find(&run->manifest, &wanted);
    if (block == NULL)
        return pick(run, &wanted, row, err);
    run->seen[block - run->manifest.blocks] = true;
    return meet(run, block, row->key, err);
}

enum kvt_err
g4_compaction_survey(struct g4_compaction_run *run, struct kvt_error *err)
{
    char prefix[KVT_KEY_MAX];
    char after[KVT_KEY_MAX];
    enum kvt_err rc;

    run->report->plain_blocks = 0;
    run->report->plain_bytes = 0;
    (void)snprintf(prefix, sizeof(prefix), "%s/", run->options->namespace_);
    /* Behind everything in our own folder: '0' is what follows '/'. */
    (void)snprintf(after, sizeof(after), "%s%.*s0", run->options->namespace_,
                   (int)strlen(G4_SEGMENT_FOLDER) - 1, G4_SEGMENT_FOLDER);
    run->seen = kvt_calloc(run->manifest.block_count + 1, sizeof(*run->seen));
    if (run->seen == NULL)
        return g4_compaction_no_memory(err);
    rc = g4_list_pages_walk(run->options->store, prefix, after, run->log.request_ms, on_row, run,
                            err);
    if (rc == KVT_OK)
        rc = judge_all(run, err);
    /* The listing began after the manifest was there: a pending block without an object of its own
     * was deleted, and stays so. */
    for (size_t i = 0; i < run->manifest.block_count && rc == KVT_OK; i++)
        if (run->manifest.blocks[i].state == G4_MANIFEST_PENDING && !run->seen[i])
            rc = drop(run, &run->manifest.blocks[i], err);
    return rc;
}
