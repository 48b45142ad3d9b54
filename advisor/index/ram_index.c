#include "advisor/index/ram_index.h"

#include "advisor/index/departed_blocks.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

enum {
    CHANGES = 1024,
    BLOCKS = 16384, /* of them, copied */
    MS_PER_S = 1000,
};

/* The store's numbers of a change's. */
struct origin {
    uint32_t holder;
    uint32_t ns;
};

/* Changes on their way to the index, and room to put effects in order. */
struct advisor_ram_index_scratch {
    struct index_change changes[CHANGES];
    struct origin origins[CHANGES];
    uint64_t hashes[BLOCKS];
    uint64_t tokens[BLOCKS];
    struct index_loss losses[INDEX_DROPS_MAX]; /* behind all changes */
    struct origin leavers[INDEX_DROPS_MAX];    /* whose they are */
    uint32_t change_count;
    uint32_t loss_count;
    uint32_t block_count;
    bool growing;    /* the last change is of copied blocks, and they are the last of those */
    uint32_t *first; /* of each op's effects in `sorted`; one more than there are ops */
    uint32_t *sorted;
    size_t first_capacity;
    size_t sorted_capacity;
};

static void
spill(struct advisor_ram_index *memory, enum kvt_err why)
{
    if (atomic_exchange(&memory->spilled, true) || memory->quiet)
        return;
    kvt_log_warn("advisor.memory", "spilled",
                 why == KVT_FULL || why == KVT_NOMEM
                     ? "the index no longer fits in memory (%s): questions are answered from disk, "
                       "and its log grows, until there is room again; raise index.max"
                     : "the index in memory differs from the one on disk (%s): questions are "
                       "answered from disk until it is read again",
                 kvt_err_text(why));
}

/* ---- to the index ---- */

/* Of a block that is not to come, or of shards that cannot be taken from it: all else goes on. */
static bool
is_refusal(enum kvt_err status)
{
    return status == KVT_EXISTS || status == KVT_RANGE;
}

/* Shards of the block that its holder has, whatever is refused.  Behind many other holders they
 * are not looked for. */
static uint32_t
kept_ranks(const struct advisor_ram_index *memory, const struct index_change *change, uint32_t at)
{
    struct index_place places[INDEX_PLACES_MAX];
    size_t count =
        index_places(memory->index, change->ns, change->hashes[at], places, INDEX_PLACES_MAX);

    if (count > INDEX_PLACES_MAX)
        count = INDEX_PLACES_MAX;
    for (size_t i = 0; i < count; i++)
        if (places[i].holder == change->holder)
            return places[i].ranks;
    return 0;
}

/*
 * The index refused these shards of block `at` of a change: it collides, or is of one bitmap or
 * size too many.
 *
 * The log has the change all the same, and what is read back may be refused otherwise: a snapshot's
 * runs are younger than the changes that are applied over them.  So the log is told that the block
 * is not there.  Places in G4 have rows, which are read as they are.
 */
static void
refuse(struct advisor_ram_index *memory, const struct index_change *change,
       const struct origin *origin, uint32_t at, uint32_t ranks, enum kvt_err why)
{
    const struct advisor_event_log_place place = {
        .holder = origin->holder, .ns = origin->ns, .ranks = ranks};
    enum kvt_err rc = KVT_OK;

    atomic_fetch_add_explicit(why == KVT_EXISTS ? &memory->collisions : &memory->refused, 1,
                              memory_order_relaxed);
    if (memory->taken_back != NULL && ranks != 0 &&
        advisor_name_table_holder_key(memory->names, origin->holder)->tier != KVT_TIER_G4)
        rc = advisor_event_log_remove(memory->taken_back, &place, &change->hashes[at], 1);
    if (rc != KVT_OK)
        spill(memory, rc);
}

/* Shards that cannot be said to stay go too: nobody is told of what is not there. */
static void
take_all(struct advisor_ram_index *memory, const struct index_change *change,
         const struct origin *origin, uint32_t at)
{
    struct index_change all = *change;

    refuse(memory, change, origin, at, UINT32_MAX, change->status);
    all.hashes += at;
    all.count = 1;
    all.ranks = UINT32_MAX;
    index_apply(memory->index, &all, 1);
}

/* That block is refused, and those behind it are not. */
static void
go_on(struct advisor_ram_index *memory, struct index_change *change, const struct origin *origin)
{
    while (is_refusal(change->status)) {
        const uint32_t at = change->done + 1;

        if (change->kind == INDEX_REMOVE)
            take_all(memory, change, origin, at - 1);
        else
            refuse(memory, change, origin, at - 1,
                   change->ranks & ~kept_ranks(memory, change, at - 1), change->status);
        if (at == change->count)
            return;
        change->parent = change->hashes[at - 1];
        change->hashes += at;
        change->tokens = change->tokens == NULL ? NULL : change->tokens + at;
        change->position += at;
        change->count -= at;
        index_apply(memory->index, change, 1);
    }
    /* Not only FULL: whatever keeps RAM from being a true copy, the store is one. */
    if (change->status != KVT_OK)
        spill(memory, change->status);
}

/* Rules are about what lies in G4; of all else only that nothing goes on behind its parent. */
static void
depart(void *arg, const struct index_dropped *dropped)
{
    const struct advisor_ram_index *memory = arg;
    const struct origin *leaver = &memory->scratch->leavers[dropped->loss];
    const bool in_g4 = (dropped->tiers & KVT_TIER_MASK(KVT_TIER_G4)) != 0;

    if (in_g4 || dropped->parent != 0)
        advisor_departed_blocks_add(
            memory->departed, advisor_name_table_holder_key(memory->names, leaver->holder)->name,
            &(const struct advisor_departed_blocks_piece){
                .hashes = dropped->hashes,
                .parent = dropped->parent,
                .count = in_g4 ? dropped->count : 0,
                .ns = leaver->ns,
            });
}

static void
drop_all(struct advisor_ram_index *memory)
{
    struct advisor_ram_index_scratch *scratch = memory->scratch;
    uint64_t cursor = 0;
    uint64_t pairs;

    while (index_drop_report(memory->index, scratch->losses, scratch->loss_count,
                             memory->departed == NULL ? NULL : depart, memory, &cursor, &pairs)) {
    }
    scratch->loss_count = 0;
}

void
advisor_ram_index_flush(struct advisor_ram_index *memory)
{
    struct advisor_ram_index_scratch *scratch = memory->scratch;
    size_t done = 0;

    if (scratch == NULL)
        return;
    /* The rest of a change comes before the next one: what that does depends on who has a block. */
    while (done < scratch->change_count) {
        done +=
            index_apply_some(memory->index, &scratch->changes[done], scratch->change_count - done);
        go_on(memory, &scratch->changes[done - 1], &scratch->origins[done - 1]);
    }
    scratch->change_count = 0;
    scratch->block_count = 0;
    scratch->growing = false;
    drop_all(memory);
}

static enum kvt_err
prepare(struct advisor_ram_index *memory)
{
    if (memory->scratch == NULL)
        memory->scratch = kvt_calloc(1, sizeof(*memory->scratch));
    if (memory->scratch != NULL)
        return KVT_OK;
    spill(memory, KVT_NOMEM);
    return KVT_NOMEM;
}

void
advisor_ram_index_release(struct advisor_ram_index *memory)
{
    if (memory->scratch == NULL)
        return;
    kvt_free(memory->scratch->first);
    kvt_free(memory->scratch->sorted);
    kvt_free(memory->scratch);
    memory->scratch = NULL;
}

/* ---- blocks that go on where others end ---- */

/* Does `block` go on where the change ends?  What came in another second keeps its own time. */
static bool
continues(const struct index_change *change, const struct index_change *block)
{
    if (change->kind != block->kind || change->ns != block->ns || change->holder != block->holder ||
        change->ranks != block->ranks || change->evicted != block->evicted ||
        change->time_ms / MS_PER_S != block->time_ms / MS_PER_S)
        return false;
    if (block->kind == INDEX_REMOVE)
        return true;
    return block->parent != 0 && block->parent == change->hashes[change->count - 1] &&
           block->position == change->position + change->count && block->size == change->size;
}

static void
copy(struct advisor_ram_index_scratch *scratch, const struct index_change *from)
{
    uint64_t *hashes = &scratch->hashes[scratch->block_count];
    uint64_t *tokens = &scratch->tokens[scratch->block_count];

    for (uint32_t i = 0; i < from->count; i++) {
        hashes[i] = from->hashes[i];
        tokens[i] = from->tokens == NULL ? 0 : from->tokens[i];
    }
    scratch->block_count += from->count;
}

/* The last change, where `change` goes on in it; NULL: it does not, or there is no room to put them
 * behind each other. */
static struct index_change *
joined(struct advisor_ram_index_scratch *scratch, const struct index_change *change)
{
    struct index_change *last = &scratch->changes[scratch->change_count - 1];
    const uint32_t before = scratch->growing ? 0 : last->count;

    if (!continues(last, change) ||
        (uint64_t)scratch->block_count + before + change->count > BLOCKS)
        return NULL;
    if (scratch->growing)
        return last;
    copy(scratch, last);
    last->hashes = &scratch->hashes[scratch->block_count - before];
    last->tokens = &scratch->tokens[scratch->block_count - before];
    scratch->growing = true;
    return last;
}

/* `change` in the order of the others.  Its blocks must stay until they are flushed, unless they
 * are `copied`. */
static void
add(struct advisor_ram_index *memory, const struct index_change *change, struct origin origin,
    bool copied)
{
    struct advisor_ram_index_scratch *scratch = memory->scratch;
    struct index_change *last;

    if (scratch->loss_count > 0)
        advisor_ram_index_flush(memory);
    last = scratch->change_count == 0 ? NULL : joined(scratch, change);
    if (last != NULL) {
        copy(scratch, change);
        last->count += change->count;
        return;
    }
    if (scratch->change_count == CHANGES ||
        (copied && scratch->block_count + change->count > BLOCKS))
        advisor_ram_index_flush(memory);
    scratch->growing = copied;
    scratch->origins[scratch->change_count] = origin;
    last = &scratch->changes[scratch->change_count++];
    *last = *change;
    if (!copied)
        return;
    last->hashes = &scratch->hashes[scratch->block_count];
    last->tokens = &scratch->tokens[scratch->block_count];
    copy(scratch, change);
}

/* ---- changes of the log ---- */

/* Many that follow each other cost one pass. */
static void
drop(struct advisor_ram_index *memory, const struct advisor_event_log_place *place)
{
    struct advisor_ram_index_scratch *scratch = memory->scratch;

    if (scratch->change_count > 0 || scratch->loss_count == INDEX_DROPS_MAX)
        advisor_ram_index_flush(memory);
    scratch->leavers[scratch->loss_count] = (struct origin){place->holder, place->ns};
    scratch->losses[scratch->loss_count++] = (struct index_loss){
        .holder = advisor_name_table_index_holder(memory->names, place->holder),
        .ns = advisor_name_table_index_namespace(memory->names, place->ns),
    };
}

void
advisor_ram_index_op(struct advisor_ram_index *memory, const struct advisor_event_log_op *op)
{
    if (op->kind == ADVISOR_EVENT_LOG_RUN || prepare(memory) != KVT_OK)
        return;
    if (op->kind == ADVISOR_EVENT_LOG_DROP) {
        drop(memory, &op->place);
        return;
    }
    add(memory,
        &(const struct index_change){
            .kind = op->kind == ADVISOR_EVENT_LOG_STORE ? INDEX_STORE : INDEX_REMOVE,
            .hashes = op->hashes,
            .tokens = op->tokens,
            .parent = op->parent,
            .size = op->place.size,
            .time_ms = (uint64_t)op->place.time_s * MS_PER_S,
            .position = op->position,
            .count = op->count,
            .ns = advisor_name_table_index_namespace(memory->names, op->place.ns),
            .holder = advisor_name_table_index_holder(memory->names, op->place.holder),
            .ranks = op->place.ranks,
            .evicted = op->kind == ADVISOR_EVENT_LOG_REMOVE && op->place.time_s == 0,
        },
        (struct origin){op->place.holder, op->place.ns}, false);
}

static void
follow_log(struct advisor_ram_index *memory, const struct advisor_event_log *log)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *row;
    size_t size;
    enum kvt_err rc = KVT_OK;

    for (size_t at = 0; advisor_event_log_row(log, at, &row, &size); at++) {
        rc = advisor_event_log_open(&reader, row, size);
        while (rc == KVT_OK) {
            rc = advisor_event_log_next(&reader, &op);
            if (rc == KVT_OK)
                advisor_ram_index_op(memory, &op);
        }
        if (rc != KVT_NOTFOUND)
            spill(memory, rc);
    }
    advisor_ram_index_flush(memory);
}

/* ---- places of rows ---- */

void
advisor_ram_index_place(struct advisor_ram_index *memory, const struct advisor_store_block *row,
                        const struct advisor_store_place *place)
{
    const struct index_change change = {
        .kind = INDEX_STORE,
        .hashes = &row->hash,
        .tokens = &row->tokens_hash,
        .parent = row->parent,
        .size = row->size,
        .position = row->position,
        .count = 1,
        .ns = advisor_name_table_index_namespace(memory->names, row->ns),
        .holder = advisor_name_table_index_holder(memory->names, place->holder),
        .ranks = place->ranks,
    };

    if (prepare(memory) == KVT_OK)
        add(memory, &change, (struct origin){place->holder, row->ns}, true);
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
sort_effects(struct advisor_ram_index_scratch *scratch, const struct advisor_effect *effects,
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
follow_effect(struct advisor_ram_index *memory, const struct advisor_effect *effect)
{
    const struct advisor_op *op = &effect->op;
    struct index_change change = {
        .kind = INDEX_STORE,
        .hashes = &op->hash,
        .tokens = &op->tokens_hash,
        .parent = effect->parent,
        .size = op->size,
        .time_ms = op->time_ms,
        .position = effect->position,
        .count = 1,
        .ns = advisor_name_table_index_namespace(memory->names, op->ns),
        .ranks = op->ranks,
    };

    if (op->kind == ADVISOR_OP_ACCESS) {
        advisor_ram_index_flush(memory); /* it may be of a block that is on its way */
        index_touch(memory->index, change.ns, op->hash, op->count, op->time_ms);
        return;
    }
    change.holder = advisor_name_table_index_holder(memory->names, op->holder);
    if (op->kind == ADVISOR_OP_REMOVE)
        change.kind = INDEX_REMOVE;
    /* Effects stay until they have been followed. */
    add(memory, &change, (struct origin){op->holder, op->ns}, false);
}

void
advisor_ram_index_apply(struct advisor_ram_index *memory, const struct advisor_event_log *log,
                        const struct advisor_effect *effects, size_t count)
{
    enum kvt_err rc;

    if (advisor_event_log_count(log) > 0)
        follow_log(memory, log);
    if (count == 0 || prepare(memory) != KVT_OK)
        return;
    rc = sort_effects(memory->scratch, effects, count);
    if (rc != KVT_OK) {
        spill(memory, rc);
        return;
    }
    for (size_t i = 0; i < count; i++)
        follow_effect(memory, &effects[memory->scratch->sorted[i]]);
    advisor_ram_index_flush(memory);
}

bool
advisor_ram_index_whole(struct advisor_ram_index *memory)
{
    return !atomic_load(&memory->loading) && !atomic_load(&memory->spilled);
}
