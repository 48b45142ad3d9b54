#include "advisor/memory.h"

#include "base/alloc.h"
#include "base/log.h"

enum {
    LOAD_PAGE = 65536,
    CHANGES = 1024,
    BLOCKS = 16384, /* of CHANGES changes together */
};

/* Changes on their way to the index, and room to put effects in order. */
struct advisor_memory_scratch {
    struct index_change changes[CHANGES];
    uint64_t hashes[BLOCKS];
    uint64_t tokens[BLOCKS];
    uint32_t change_count;
    uint32_t block_count;
    uint32_t *first; /* of each op's effects in `sorted`; one more than there are ops */
    uint32_t *sorted;
    size_t first_capacity;
    size_t sorted_capacity;
};

static void
spill(struct advisor_memory *memory, enum kvt_err why)
{
    if (atomic_exchange(&memory->spilled, true))
        return;
    kvt_log_warn("advisor.memory", "spilled",
                 why == KVT_FULL || why == KVT_NOMEM
                     ? "the index no longer fits in memory (%s): questions are answered from disk "
                       "until the next start; raise index.max"
                     : "the index in memory differs from the one on disk (%s): questions are "
                       "answered from disk until the next start",
                 kvt_err_text(why));
}

/* ---- to the index ---- */

static void
flush(struct advisor_memory *memory)
{
    struct advisor_memory_scratch *scratch = memory->scratch;

    index_apply(memory->index, scratch->changes, scratch->change_count);
    for (uint32_t i = 0; i < scratch->change_count; i++)
        /* Not only FULL: whatever keeps RAM from being a true copy, the store is one. */
        if (scratch->changes[i].status != KVT_OK)
            spill(memory, scratch->changes[i].status);
    scratch->change_count = 0;
    scratch->block_count = 0;
}

/* Does `block` go on where the change ends? */
static bool
continues(const struct index_change *change, const struct index_change *block, uint64_t last)
{
    if (change->kind != block->kind || change->ns != block->ns || change->holder != block->holder ||
        change->ranks != block->ranks)
        return false;
    return block->kind == INDEX_REMOVE ||
           (block->parent == last && block->position == change->position + change->count &&
            block->size == change->size);
}

/* One block; `one` has everything but the arrays. */
static void
add(struct advisor_memory *memory, const struct index_change *one, uint64_t hash, uint64_t tokens)
{
    struct advisor_memory_scratch *scratch = memory->scratch;
    struct index_change *last;

    if (scratch->block_count == BLOCKS)
        flush(memory);
    last = scratch->change_count > 0 ? &scratch->changes[scratch->change_count - 1] : NULL;
    if (last == NULL || !continues(last, one, scratch->hashes[scratch->block_count - 1])) {
        if (scratch->change_count == CHANGES)
            flush(memory);
        last = &scratch->changes[scratch->change_count++];
        *last = *one;
        last->hashes = &scratch->hashes[scratch->block_count];
        last->tokens = &scratch->tokens[scratch->block_count];
        last->count = 0;
    }
    scratch->hashes[scratch->block_count] = hash;
    scratch->tokens[scratch->block_count] = tokens;
    scratch->block_count++;
    last->count++;
}

static enum kvt_err
prepare(struct advisor_memory *memory)
{
    if (memory->scratch == NULL)
        memory->scratch = kvt_calloc(1, sizeof(*memory->scratch));
    return memory->scratch == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_memory_release(struct advisor_memory *memory)
{
    if (memory->scratch == NULL)
        return;
    kvt_free(memory->scratch->first);
    kvt_free(memory->scratch->sorted);
    kvt_free(memory->scratch);
    memory->scratch = NULL;
}

/* ---- what was committed ---- */

static enum kvt_err
reserve(uint32_t **array, size_t *capacity, size_t count)
{
    void *grown;

    if (count <= *capacity)
        return KVT_OK;
    grown = kvt_realloc(*array, count, sizeof(**array));
    if (grown == NULL)
        return KVT_NOMEM;
    *array = grown;
    *capacity = count;
    return KVT_OK;
}

/* Counting sort by the order of the ops; effects of one op stay as they are. */
static enum kvt_err
sort_effects(struct advisor_memory_scratch *scratch, const struct advisor_effect *effects,
             size_t count)
{
    uint32_t orders = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < count; i++)
        if (effects[i].op.order >= orders)
            orders = effects[i].op.order + 1;
    rc = reserve(&scratch->first, &scratch->first_capacity, (size_t)orders + 1);
    if (rc == KVT_OK)
        rc = reserve(&scratch->sorted, &scratch->sorted_capacity, count);
    if (rc != KVT_OK)
        return rc;
    for (uint32_t i = 0; i <= orders; i++)
        scratch->first[i] = 0;
    for (size_t i = 0; i < count; i++)
        scratch->first[effects[i].op.order + 1]++;
    for (uint32_t i = 0; i < orders; i++)
        scratch->first[i + 1] += scratch->first[i];
    for (size_t i = 0; i < count; i++)
        scratch->sorted[scratch->first[effects[i].op.order]++] = (uint32_t)i;
    return KVT_OK;
}

static void
apply(struct advisor_memory *memory, const struct advisor_effect *effect)
{
    const struct advisor_op *op = &effect->op;
    struct index_change change = {
        .kind = INDEX_STORE,
        .parent = effect->parent,
        .size = op->size,
        .time_ms = op->time_ms,
        .position = effect->position,
        .ns = advisor_names_index_namespace(memory->names, op->ns),
        .ranks = op->ranks,
    };

    if (op->kind == ADVISOR_OP_ACCESS) {
        flush(memory); /* it may be of a block that is on its way */
        index_touch(memory->index, change.ns, op->hash, op->count, op->time_ms);
        return;
    }
    change.holder = advisor_names_index_holder(memory->names, op->holder);
    if (op->kind == ADVISOR_OP_REMOVE)
        change.kind = INDEX_REMOVE;
    add(memory, &change, op->hash, op->tokens_hash);
}

void
advisor_memory_apply(struct advisor_memory *memory, const struct advisor_effect *effects,
                     size_t count)
{
    enum kvt_err rc;

    if (count == 0)
        return;
    rc = prepare(memory);
    if (rc == KVT_OK)
        rc = sort_effects(memory->scratch, effects, count);
    if (rc != KVT_OK) {
        spill(memory, rc);
        return;
    }
    for (size_t i = 0; i < count; i++)
        apply(memory, &effects[memory->scratch->sorted[i]]);
    flush(memory);
}

/* ---- what is in the store ---- */

/* An order is all it is for: one bad row must not keep the rest from loading. */
static size_t
bounded(uint32_t position)
{
    return position < KVT_POSITION_MAX ? position : KVT_POSITION_MAX;
}

/* Blocks by position, so that a parent is there before its children. */
struct load {
    struct advisor_memory *memory;
    struct advisor_store_block block;
    uint64_t *starts; /* of each position in `keys` */
    size_t start_count;
    struct load_key {
        uint64_t hash;
        uint32_t ns;
    } * keys;
};

static enum kvt_err
count_position(void *arg, const struct advisor_store_block *row)
{
    const size_t position = bounded(row->position);
    struct load *load = arg;

    if (position + 2 > load->start_count) {
        const size_t count = (position + 2) * 2;
        uint64_t *grown = kvt_realloc(load->starts, count, sizeof(*grown));

        if (grown == NULL)
            return KVT_NOMEM;
        for (size_t i = load->start_count; i < count; i++)
            grown[i] = 0;
        load->starts = grown;
        load->start_count = count;
    }
    load->starts[position + 1]++;
    return KVT_OK;
}

static enum kvt_err
place_key(void *arg, const struct advisor_store_block *row)
{
    struct load *load = arg;

    load->keys[load->starts[bounded(row->position)]++] = (struct load_key){row->hash, row->ns};
    return KVT_OK;
}

static enum kvt_err
load_block(struct advisor_memory *memory, const struct advisor_store_block *row)
{
    struct index_change change = {
        .kind = INDEX_STORE,
        .parent = row->parent,
        .size = row->size,
        .position = row->position,
        .ns = advisor_names_index_namespace(memory->names, row->ns),
    };

    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].holder >= advisor_names_holder_count(memory->names))
            return KVT_CORRUPT;
        change.holder = advisor_names_index_holder(memory->names, row->places[i].holder);
        change.ranks = row->places[i].ranks;
        add(memory, &change, row->hash, row->tokens_hash);
    }
    if (row->hits > 0) {
        flush(memory);
        index_touch(memory->index, change.ns, row->hash, row->hits, row->last_access_ms);
    }
    return KVT_OK;
}

static enum kvt_err
walk(const struct advisor_txn *txn, advisor_store_block_fn *callback, void *arg)
{
    uint64_t next = 0;
    enum kvt_err rc;

    do
        rc = advisor_store_blocks(txn, next, LOAD_PAGE, &next, callback, arg);
    while (rc == KVT_OK && next != 0);
    return rc;
}

static enum kvt_err
sort_blocks(struct load *load, const struct advisor_txn *txn, uint64_t count)
{
    enum kvt_err rc = walk(txn, count_position, load);

    if (rc != KVT_OK)
        return rc;
    for (size_t i = 1; i < load->start_count; i++)
        load->starts[i] += load->starts[i - 1];
    load->keys = kvt_calloc(count, sizeof(*load->keys));
    return load->keys == NULL ? KVT_NOMEM : walk(txn, place_key, load);
}

enum kvt_err
advisor_memory_load(struct advisor_memory *memory, const struct advisor_txn *txn)
{
    const uint64_t count = advisor_store_block_count(txn);
    struct load load = {.memory = memory};
    enum kvt_err rc = KVT_OK;

    if (count == 0)
        return KVT_OK;
    rc = prepare(memory);
    if (rc == KVT_OK)
        rc = sort_blocks(&load, txn, count);
    for (uint64_t i = 0; i < count && rc == KVT_OK; i++) {
        rc = advisor_store_get_block(txn, load.keys[i].ns, load.keys[i].hash, &load.block);
        if (rc == KVT_OK)
            rc = load_block(memory, &load.block);
    }
    if (rc == KVT_OK)
        flush(memory);
    advisor_store_block_release(&load.block);
    kvt_free(load.starts);
    kvt_free(load.keys);
    return rc;
}

bool
advisor_memory_whole(struct advisor_memory *memory)
{
    return !atomic_load(&memory->spilled);
}
