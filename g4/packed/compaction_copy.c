#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/packed/compaction_internal.h"

enum { BODIES_MAX = 16 << 20 }; /* bytes in the air at once, if blocks are not larger */

/* A segment that is being filled, and what becomes of its blocks. */
struct filling {
    struct g4_compaction_run *run;
    enum g4_manifest_state state;
    uint64_t bytes;
    uint64_t written; /* segments */
};

static enum kvt_err
make_room(struct g4_compaction_run *run, struct kvt_error *err)
{
    const struct g4_compaction_settings *settings = &run->options->settings;

    if (run->builder == NULL &&
        g4_segment_builder_new(&run->builder, (size_t)settings->segment_bytes,
                               settings->segment_blocks) != KVT_OK)
        return g4_compaction_no_memory(err);
    g4_segment_builder_clear(run->builder);
    return KVT_OK;
}

/* ---- segments in the bucket ---- */

/* All bytes of a segment, the caller's to free.  NOTFOUND: it is gone. */
static enum kvt_err
get_segment(struct g4_compaction_run *run, const struct g4_segment_name *name, void **bytes,
            size_t *size, struct kvt_error *err)
{
    char key[KVT_KEY_MAX];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer_capacity = G4_SEGMENT_BYTES_MAX};
    enum kvt_err rc = g4_segment_key(key, run->options->namespace_, name);

    if (rc == KVT_OK)
        rc = g4_compaction_guard(run, err);
    if (rc == KVT_OK)
        rc = g4_compaction_ask(run, &request, err);
    /* Bytes of which a store says that they are damaged are good enough: each block is checked. */
    if (rc == KVT_CORRUPT && request.buffer != NULL)
        rc = KVT_OK;
    if (rc != KVT_OK) {
        kvt_free(request.buffer);
        request.buffer = NULL;
        request.buffer_size = 0;
    }
    *bytes = request.buffer;
    *size = request.buffer_size;
    return rc;
}

/* Is what was written there, every byte of it? */
static enum kvt_err
verify(struct g4_compaction_run *run, const struct g4_segment_name *name, size_t count,
       struct kvt_error *err)
{
    struct g4_segment segment;
    void *bytes;
    size_t size;
    size_t need;
    enum kvt_err rc = get_segment(run, name, &bytes, &size, err);

    if (rc == KVT_NOTFOUND)
        return kvt_error_set(err, KVT_BUSY, "the segment just written is gone: somebody was here");
    if (rc != KVT_OK)
        return rc;
    rc = g4_segment_open(&segment, bytes, size, size, &need, err);
    if (rc == KVT_OK)
        rc = g4_segment_check(&segment, bytes, size, err);
    if (rc == KVT_OK &&
        (segment.count != count || g4_segment_name_compare(&segment.name, name) != 0))
        rc = kvt_error_set(err, KVT_CORRUPT, "another segment than the one that was written");
    g4_segment_release(&segment);
    kvt_free(bytes);
    return rc;
}

static enum kvt_err
put_segment(struct g4_compaction_run *run, const struct g4_segment_name *name, const void *bytes,
            size_t size, struct kvt_error *err)
{
    char key[KVT_KEY_MAX];
    struct g4_request request = {
        .verb = G4_PUT,
        .key = key,
        .condition = G4_IF_ABSENT,
        .body = bytes,
        .body_size = size,
        .meta = {.present = true, .length = size, .crc32c = g4_check_crc32c(bytes, size)}};
    enum kvt_err rc = g4_segment_key(key, run->options->namespace_, name);

    if (run->options->writer != NULL)
        memcpy(request.meta.writer, run->options->writer,
               strnlen(run->options->writer, sizeof(request.meta.writer) - 1));
    if (rc == KVT_OK)
        rc = g4_compaction_guard(run, err);
    if (rc == KVT_OK)
        rc = g4_compaction_ask(run, &request, err);
    /* The name is random: what is there is what an answer was lost of. */
    return rc == KVT_EXISTS ? KVT_OK : rc;
}

static enum kvt_err
note_segment(struct filling *filling, const struct g4_segment_name *name, size_t size,
             const struct g4_segment_entry *entries, size_t count, struct kvt_error *err)
{
    struct g4_compaction_run *run = filling->run;
    struct g4_manifest_change change = {
        .block = {.segment = (uint32_t)(run->manifest.segment_count + run->added_count),
                  .state = filling->state}};
    struct g4_manifest_segment *added =
        kvt_grow(run->added, &run->added_room, run->added_count + 1, sizeof(*added));
    enum kvt_err rc = added == NULL ? g4_compaction_no_memory(err) : KVT_OK;

    if (added != NULL)
        run->added = added;
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        change.block.entry = entries[i];
        rc = g4_compaction_change(run, &change, err);
    }
    if (rc != KVT_OK)
        return rc;
    run->added[run->added_count++] =
        (struct g4_manifest_segment){.name = *name, .size = size, .blocks = (uint32_t)count};
    return KVT_OK;
}

/* Write what was gathered, read it back, and note what it changes. */
static enum kvt_err
flush(struct filling *filling, struct kvt_error *err)
{
    struct g4_compaction_run *run = filling->run;
    const size_t count = g4_segment_builder_count(run->builder);
    struct g4_segment_name name = {.epoch = run->epoch};
    const struct g4_segment_entry *entries;
    const void *bytes;
    size_t size;
    enum kvt_err rc;

    if (count == 0)
        return KVT_OK;
    kvt_random_system(&name.nonce, sizeof(name.nonce));
    rc = g4_segment_builder_finish(run->builder, &name, &bytes, &size, &entries);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "a segment of %zu blocks: %s", count, kvt_err_text(rc));
    rc = put_segment(run, &name, bytes, size, err);
    if (rc == KVT_OK)
        rc = verify(run, &name, count, err);
    if (rc == KVT_OK)
        rc = note_segment(filling, &name, size, entries, count, err);
    if (rc != KVT_OK)
        return rc;
    if (filling->state == G4_MANIFEST_PENDING)
        run->report->packed += count;
    else
        run->report->forwarded += count;
    run->report->copied_bytes += filling->bytes;
    run->report->segments_written++;
    run->budget -= filling->bytes < run->budget ? filling->bytes : run->budget;
    filling->bytes = 0;
    filling->written++;
    g4_segment_builder_clear(run->builder);
    return KVT_OK;
}

/* A block that cannot be packed is counted, and is no reason to stop. */
static enum kvt_err
add(struct filling *filling, const struct g4_segment_entry *block, const void *body, size_t size,
    struct kvt_error *err)
{
    struct g4_segment_builder *builder = filling->run->builder;
    enum kvt_err rc = g4_segment_builder_add(builder, block, body, size, NULL);

    if (rc == KVT_FULL) {
        rc = flush(filling, err);
        if (rc != KVT_OK)
            return rc;
        rc = g4_segment_builder_add(builder, block, body, size, NULL);
    }
    if (rc == KVT_NOMEM)
        return g4_compaction_no_memory(err);
    if (rc == KVT_OK)
        filling->bytes += size;
    else
        filling->run->report->bad++;
    return KVT_OK;
}

/* ---- blocks with objects of their own ---- */

/* Metadata that clients gave would be lost in a segment. */
static bool
has_metadata_of_clients(const char *attributes)
{
    static const char name[] = "x-amz-meta-";
    const char *line = attributes;

    while (line != NULL && *line != '\0') {
        if (strncmp(line, name, strlen(name)) == 0)
            return true;
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return false;
}

/* Room for the bodies of a volley: sixteen, or fewer when blocks are large. */
static enum kvt_err
make_room_for_bodies(struct g4_compaction_run *run, struct kvt_error *err)
{
    const size_t block_max = (size_t)run->options->settings.block_max;

    if (run->bodies != NULL)
        return KVT_OK;
    run->width = BODIES_MAX / block_max;
    if (run->width > G4_COMPACTION_REQUESTS)
        run->width = G4_COMPACTION_REQUESTS;
    if (run->width == 0)
        run->width = 1;
    run->bodies = kvt_calloc(run->width, block_max);
    return run->bodies == NULL ? g4_compaction_no_memory(err) : KVT_OK;
}

static enum kvt_err
fill_pick(struct g4_compaction_run *run, const struct g4_segment_entry *block,
          struct kvt_error *err)
{
    const size_t block_max = (size_t)run->options->settings.block_max;
    uint8_t *body = run->bodies + run->slot_count * block_max;
    struct g4_compaction_slot *slot = g4_compaction_slot(run, G4_GET);

    if (slot == NULL)
        return g4_compaction_no_memory(err);
    slot->request.attributes = slot->attributes;
    slot->request.buffer = body;
    slot->request.buffer_capacity = block_max;
    return g4_segment_entry_key(slot->key, run->options->namespace_, block);
}

/* KVT_OK also when it is passed over. */
static enum kvt_err
pack_one(struct filling *filling, struct g4_segment_entry block,
         const struct g4_compaction_slot *slot, struct kvt_error *err)
{
    const struct g4_request *request = &slot->request;
    const enum kvt_err rc = g4_compaction_answer(request, err);

    if (rc == KVT_NOTFOUND || rc == KVT_RANGE) /* it changed since it was listed */
        return KVT_OK;
    if (rc == KVT_CORRUPT) {
        filling->run->report->bad++;
        return KVT_OK;
    }
    if (rc != KVT_OK)
        return rc;
    if (!request->meta.present || has_metadata_of_clients(slot->attributes) ||
        !g4_segment_entry_set_etag(&block, request->etag))
        return KVT_OK;
    /* A listing tells the same time more exactly. */
    if (block.modified_ms / 1000 != request->modified_ms / 1000)
        block.modified_ms = request->modified_ms;
    block.length = (uint32_t)request->meta.length;
    block.crc32c = request->meta.crc32c;
    block.fingerprint = request->meta.fingerprint;
    return add(filling, &block, request->buffer, request->buffer_size, err);
}

enum kvt_err
g4_compaction_pack(struct g4_compaction_run *run, struct kvt_error *err)
{
    struct filling filling = {.run = run, .state = G4_MANIFEST_PENDING};
    enum kvt_err rc = make_room(run, err);

    if (rc == KVT_OK)
        rc = make_room_for_bodies(run, err);
    for (size_t i = 0; i < run->pick_count && rc == KVT_OK;) {
        const struct g4_segment_entry *first = &run->picks[i];

        run->slot_count = 0;
        while (i < run->pick_count && run->slot_count < run->width && rc == KVT_OK)
            rc = fill_pick(run, &run->picks[i++], err);
        if (rc == KVT_OK)
            rc = g4_compaction_requests(run, err);
        for (size_t at = 0; at < run->slot_count && rc == KVT_OK; at++)
            rc = pack_one(&filling, first[at], &run->slots[at], err);
    }
    run->slot_count = 0;
    /* A small rest waits for more; what is little altogether was not begun. */
    if (rc == KVT_OK && (filling.written == 0 || filling.bytes >= run->options->settings.bytes_min))
        rc = flush(&filling, err);
    if (run->builder != NULL)
        g4_segment_builder_clear(run->builder);
    return rc;
}

/* ---- blocks in segments ---- */

static int
by_place(const void *a, const void *b)
{
    const struct g4_manifest_block *one = *(const struct g4_manifest_block *const *)a;
    const struct g4_manifest_block *other = *(const struct g4_manifest_block *const *)b;

    if (one->segment != other->segment)
        return one->segment < other->segment ? -1 : 1;
    return one->entry.offset < other->entry.offset ? -1 : one->entry.offset > other->entry.offset;
}

/* The segment that is copied from; its blocks come one after another. */
static enum kvt_err
have_segment(struct g4_compaction_run *run, const struct g4_segment_name *name,
             struct kvt_error *err)
{
    if (run->segment != NULL && g4_segment_name_compare(&run->segment_name, name) == 0)
        return KVT_OK;
    kvt_free(run->segment);
    run->segment_name = *name;
    return get_segment(run, name, &run->segment, &run->segment_size, err);
}

static enum kvt_err
forward_one(struct filling *filling, const struct g4_manifest_block *block, struct kvt_error *err)
{
    struct g4_compaction_run *run = filling->run;
    const struct g4_segment_entry *entry = &block->entry;
    enum kvt_err rc = have_segment(run, &run->manifest.segments[block->segment].name, err);

    if (rc == KVT_NOTFOUND ||
        (rc == KVT_OK && (uint64_t)entry->offset + entry->length > run->segment_size)) {
        run->report->bad++;
        return KVT_OK;
    }
    if (rc != KVT_OK)
        return rc;
    return add(filling, entry, (const uint8_t *)run->segment + entry->offset, entry->length, err);
}

/* Blocks of the chosen segments, by place; `count` of them. */
static const struct g4_manifest_block **
live_blocks(const struct g4_manifest *manifest, const bool *chosen, size_t *count)
{
    const struct g4_manifest_block **blocks;
    size_t at = 0;

    *count = 0;
    for (size_t i = 0; i < manifest->segment_count; i++)
        *count += chosen[i] ? manifest->segments[i].live_blocks : 0;
    blocks = kvt_calloc(*count + 1, sizeof(*blocks));
    for (size_t i = 0; i < manifest->block_count && blocks != NULL; i++)
        if (chosen[manifest->blocks[i].segment])
            blocks[at++] = &manifest->blocks[i];
    if (blocks != NULL)
        qsort(blocks, at, sizeof(*blocks), by_place);
    return blocks;
}

enum kvt_err
g4_compaction_forward(struct g4_compaction_run *run, struct kvt_error *err)
{
    struct filling filling = {.run = run, .state = G4_MANIFEST_PACKED};
    bool *chosen = kvt_calloc(run->manifest.segment_count + 1, sizeof(*chosen));
    const struct g4_manifest_block **blocks = NULL;
    size_t count = 0;
    enum kvt_err rc = KVT_OK;

    if (chosen == NULL)
        return g4_compaction_no_memory(err);
    if (g4_compaction_plan_forward(&run->options->settings, &run->manifest, run->budget, chosen) >
        0) {
        blocks = live_blocks(&run->manifest, chosen, &count);
        rc = blocks == NULL ? g4_compaction_no_memory(err) : make_room(run, err);
    }
    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = forward_one(&filling, blocks[i], err);
    if (rc == KVT_OK && count > 0)
        rc = flush(&filling, err);
    kvt_free(blocks);
    kvt_free(chosen);
    return rc;
}
