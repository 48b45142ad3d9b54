#include <assert.h>

#include "index/size.h"
#include "index/writer.h"

/*
 * Changes are made in groups.  Before a group is changed, what it will touch is asked for in three
 * steps, each of which needs what the one before asked for: table lines of first hashes; the run
 * and seq[] where they point; table lines of the hashes that seq[] does not have.  Whatever these
 * steps see is a hint: the change itself looks again.
 */
enum {
    GROUP_CHANGES = 32,
    GROUP_BLOCKS = 512,
};

/* A part of a change. */
struct piece {
    struct index_change *change;
    const struct index_namespace *space;
    const uint64_t *mixed;
    uint32_t first;
    uint32_t count;
    uint64_t parent_mixed;
    uint32_t guess; /* where the first hash may be, or 0 */
};

struct group {
    struct piece pieces[GROUP_CHANGES];
    uint32_t count;
    uint32_t blocks;
    uint64_t mixed[GROUP_BLOCKS];
};

static bool
looks_for_parent(const struct piece *piece)
{
    return piece->first == 0 && piece->change->kind == INDEX_STORE && piece->change->parent != 0;
}

/* The first step, for a piece that is added to the group. */
static void
add_piece(struct index *index, struct group *group, struct index_change *change, uint32_t first,
          uint32_t count)
{
    struct piece *piece = &group->pieces[group->count++];
    uint64_t *mixed = &group->mixed[group->blocks];

    *piece = (struct piece){.change = change,
                            .space = index_state_namespace(index, change->ns),
                            .mixed = mixed,
                            .first = first,
                            .count = count};
    group->blocks += count;
    for (uint32_t i = 0; i < count; i++)
        mixed[i] = index_state_mix(index, change->hashes[first + i]);
    index_table_prefetch(&piece->space->table, mixed[0]);
    if (looks_for_parent(piece)) {
        piece->parent_mixed = index_state_mix(index, change->parent);
        index_table_prefetch(&piece->space->table, piece->parent_mixed);
    }
}

static void
load_number(const struct index *index, uint32_t number)
{
    uint32_t offset;
    const struct index_run *run;

    if (number == 0)
        return;
    __builtin_prefetch(&index->space.seq[number]);
    run = index_state_run(index, number, &offset);
    if (run != NULL)
        __builtin_prefetch(run);
}

static void
load_runs(const struct index *index, struct piece *piece)
{
    piece->guess = index_table_guess(&piece->space->table, piece->mixed[0]);
    if (piece->guess != 0)
        load_number(index, piece->guess);
    else if (looks_for_parent(piece))
        load_number(index, index_table_guess(&piece->space->table, piece->parent_mixed));
}

/* How many hashes the run at the guess will spare a look into the table. */
static uint32_t
count_known(const struct index *index, const struct piece *piece)
{
    const uint64_t *hashes = piece->change->hashes + piece->first;
    uint32_t offset;
    uint32_t length;
    uint32_t count = 1;
    const struct index_run *run;

    if (piece->guess == 0 || piece->count == 1 ||
        (run = index_state_run(index, piece->guess, &offset)) == NULL)
        return 1;
    length = index_run_length(run);
    while (count < piece->count && offset + count < length &&
           index_state_seq(index, piece->guess + count) == hashes[count])
        count++;
    return count;
}

static void
load_lines(const struct index *index, const struct piece *piece)
{
    uint32_t at = 1;

    if (piece->change->kind == INDEX_STORE)
        at = count_known(index, piece);
    for (; at < piece->count; at++)
        index_table_prefetch(&piece->space->table, piece->mixed[at]);
}

static bool
begin_change(struct index *index, struct index_writer *writer, struct index_change *change)
{
    *writer = (struct index_writer){
        .index = index,
        .change = change,
        .space = index_state_namespace(index, change->ns),
        .holder = index_state_holder(index, change->holder),
        .table = {.memory = &index->memory,
                  .epoch = &index->epoch,
                  .seq = index->space.seq,
                  .seed = index->seed},
        .holding = index_state_holding(index),
        .time_s = (uint32_t)(change->time_ms / 1000),
        .last_hash = change->parent,
    };
    change->status = KVT_OK;
    change->done = change->changed = 0;
    if (change->kind != INDEX_STORE)
        return true;
    if (change->ranks == 0)
        change->status = KVT_INVALID;
    else
        change->status = index_shards_code(index->shards, change->ranks, &writer->code);
    if (change->status == KVT_OK)
        change->status = index_size_code(index, change->size, &writer->size);
    return change->status == KVT_OK;
}

static void
make_changes(struct index *index, const struct group *group, struct index_writer *writer)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const struct piece *piece = &group->pieces[i];

        if (piece->first == 0)
            (void)begin_change(index, writer, piece->change);
        if (piece->change->status != KVT_OK)
            continue;
        if (piece->change->kind == INDEX_STORE)
            (void)index_writer_store(writer, piece->first, piece->count, piece->mixed);
        else
            (void)index_writer_remove(writer, piece->first, piece->count, piece->mixed);
    }
}

static void
run_group(struct index *index, struct group *group, struct index_writer *writer)
{
    for (uint32_t i = 0; i < group->count; i++)
        load_runs(index, &group->pieces[i]);
    for (uint32_t i = 0; i < group->count; i++)
        load_lines(index, &group->pieces[i]);
    make_changes(index, group, writer);
    group->count = group->blocks = 0;
}

static void
apply_locked(struct index *index, struct index_change *changes, size_t count)
{
    struct index_writer writer;
    struct group group;

    group.count = group.blocks = 0;
    for (size_t i = 0; i < count; i++) {
        struct index_change *change = &changes[i];

        assert(change->ns < atomic_load_explicit(&index->namespace_count, memory_order_relaxed) &&
               change->holder < atomic_load_explicit(&index->holder_count, memory_order_relaxed));
        if (change->count == 0)
            (void)begin_change(index, &writer, change);
        for (uint32_t first = 0; first < change->count;) {
            const uint32_t left = change->count - first;
            const uint32_t room = GROUP_BLOCKS - group.blocks;
            const uint32_t taken = left < room ? left : room;

            add_piece(index, &group, change, first, taken);
            first += taken;
            if (group.count == GROUP_CHANGES || group.blocks == GROUP_BLOCKS)
                run_group(index, &group, &writer);
        }
    }
    run_group(index, &group, &writer);
}

void
index_apply(struct index *index, struct index_change *changes, size_t count)
{
    assert(index != NULL && (changes != NULL || count == 0));
    (void)pthread_mutex_lock(&index->lock);
    apply_locked(index, changes, count);
    (void)pthread_mutex_unlock(&index->lock);
}

enum kvt_err
index_store(struct index *index, uint32_t ns, uint32_t holder, const struct index_block *block,
            bool *added)
{
    struct index_change change = {
        .hashes = &block->id.hash,
        .tokens = block->tokens_hash != 0 ? &block->tokens_hash : NULL,
        .parent = block->id.parent,
        .size = block->size,
        .position = block->id.position,
        .count = 1,
        .ns = ns,
        .holder = holder,
        .ranks = block->ranks,
        .kind = INDEX_STORE,
    };

    index_apply(index, &change, 1);
    if (added != NULL)
        *added = change.changed > 0;
    return change.status;
}

enum kvt_err
index_remove(struct index *index, uint32_t ns, uint32_t holder, uint64_t hash, uint32_t ranks)
{
    struct index_change change = {
        .hashes = &hash,
        .count = 1,
        .ns = ns,
        .holder = holder,
        .ranks = ranks,
        .kind = INDEX_REMOVE,
    };
    uint32_t number;
    bool had = false;

    assert(index != NULL);
    (void)pthread_mutex_lock(&index->lock);
    number = index_state_find(index, ns, hash);
    if (number != 0) {
        uint32_t offset;
        const struct index_run *run = index_writer_at(index, number, &offset);

        had = index_holding_code_read(&run->holding, holder, offset) != 0;
    }
    if (had)
        apply_locked(index, &change, 1);
    (void)pthread_mutex_unlock(&index->lock);
    if (had && change.status != KVT_OK)
        return change.status;
    return had ? KVT_OK : KVT_NOTFOUND;
}
