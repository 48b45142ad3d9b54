#include <assert.h>

#include "index/block/block_size.h"
#include "index/block/history.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/writer/writer.h"

/*
 * Changes are made in groups.  Before a group is changed, what it will touch is asked for in three
 * steps, each of which needs what the one before asked for: table lines of first hashes; the run
 * and seq[] where they point; table lines of the hashes that seq[] does not have.  Whatever these
 * steps see is a hint: the change itself looks again.
 */
enum {
    GROUP_CHANGES = 64,
    GROUP_BLOCKS = 512,
    LINES_AHEAD = 128,
};

/* A part of a change. */
struct piece {
    struct index_change *change;
    struct index_namespace *ns_record;
    const uint64_t *mixed;
    uint32_t first;
    uint32_t count;
    struct index_table_spot spot;        /* of the first hash */
    struct index_table_spot parent_spot; /* of the parent */
    uint32_t guess;                      /* where the first hash may be, or 0 */
    uint32_t parent;                     /* where the parent may be, or 0 */
    bool recent;                         /* it is there: it was stored a moment ago */
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

static void
load_number(const struct index *index, uint32_t number, uint32_t behind)
{
    uint32_t offset;
    const struct index_run *run;

    if (number == 0)
        return;
    __builtin_prefetch(&index->allocator.seq[number + behind], 1);
    run = index_state_run(index, number, &offset);
    if (run != NULL)
        __builtin_prefetch(run, 1);
    /* Behind a parent blocks are written. */
    if (behind > 0)
        __builtin_prefetch(&index->allocator.tok[number + 1], 1);
}

/* Where the parent is: mostly it came with one of the last changes. */
static void
find_parent(struct index *index, struct piece *piece)
{
    const uint64_t parent = piece->change->parent;
    const uint32_t number = *index_writer_recent(index, parent);

    piece->recent = number != 0 && index_state_seq(index, number) == parent;
    if (piece->recent) {
        piece->parent = number;
        load_number(index, number, 1);
    } else {
        index_table_spot(&piece->ns_record->table, index_state_mix(index, parent),
                         &piece->parent_spot);
    }
}

/* The first step, for a piece that is added to the group. */
static void
add_piece(struct index *index, struct group *group, struct index_change *change, uint32_t first,
          uint32_t count)
{
    struct piece *piece = &group->pieces[group->count++];
    uint64_t *mixed = &group->mixed[group->blocks];

    piece->change = change;
    piece->ns_record = index_state_namespace(index, change->ns);
    piece->mixed = mixed;
    piece->first = first;
    piece->count = count;
    piece->parent = 0;
    piece->recent = false;
    group->blocks += count;
    for (uint32_t i = 0; i < count; i++)
        mixed[i] = index_state_mix(index, change->hashes[first + i]);
    index_table_spot(&piece->ns_record->table, mixed[0], &piece->spot);
    if (looks_for_parent(piece))
        find_parent(index, piece);
}

/* What is behind a parent that is there tells where the first hash is, or that it is new. */
static bool
guess_behind(const struct index *index, struct piece *piece)
{
    uint32_t offset;
    const struct index_run *run = index_state_run(index, piece->parent, &offset);

    piece->guess = 0;
    if (run == NULL)
        return false;
    if (offset + 1 < index_run_length(run)) {
        if (index_state_seq(index, piece->parent + 1) != piece->change->hashes[0])
            return false;
        piece->guess = piece->parent + 1;
        return true;
    }
    /* Another holder may have stored it elsewhere; one alone mostly goes on. */
    return piece->count == 1 &&
           atomic_load_explicit(&run->holders.list, memory_order_relaxed) == NULL &&
           offset + 1 < index_run_allocator_capacity(index, piece->parent);
}

static void
load_runs(const struct index *index, struct piece *piece)
{
    if (piece->recent && guess_behind(index, piece))
        return;
    piece->guess = index_table_guess_at(&piece->spot);
    if (piece->guess != 0)
        load_number(index, piece->guess, 0);
    if (piece->guess == 0 && !piece->recent && looks_for_parent(piece)) {
        piece->parent = index_table_guess_at(&piece->parent_spot);
        load_number(index, piece->parent, 1);
    }
}

/* How many hashes the run at the guess will spare a look into the table. */
static uint32_t
count_known(const struct index *index, const struct piece *piece, const struct index_run *run,
            uint32_t offset)
{
    const uint64_t *hashes = piece->change->hashes + piece->first;
    const uint32_t length = index_run_length(run);
    uint32_t count = 1;

    while (count < piece->count && offset + count < length &&
           index_state_seq(index, piece->guess + count) == hashes[count])
        count++;
    return count;
}

static void
load_lines(const struct index *index, const struct piece *piece)
{
    uint32_t at = 1;
    uint32_t offset = 0;
    const struct index_run *run =
        piece->guess == 0 ? NULL : index_state_run(index, piece->guess, &offset);

    if (run != NULL) {
        const struct index_holder_list *list =
            atomic_load_explicit(&run->holders.list, memory_order_relaxed);

        __builtin_prefetch(list);
        if (piece->change->kind == INDEX_STORE)
            at = count_known(index, piece, run, offset);
        else if (list != NULL)
            return; /* others have its blocks too: they stay in the table */
    }
    if (at < piece->count)
        index_table_prefetch_all(&piece->ns_record->table, piece->mixed + at, piece->count - at);
}

/* The codes of a Store; mostly those of the Store before. */
static enum kvt_err
find_codes(struct index *index, const struct index_change *change)
{
    struct index_codes *last = &index->last_codes;
    uint32_t shards;
    uint16_t size;
    enum kvt_err rc;

    if (last->shards != 0 && last->ranks == change->ranks && last->size == change->size)
        return KVT_OK;
    if (change->ranks == 0)
        return KVT_INVALID;
    rc = index_shards_code(index->shards, change->ranks, &shards);
    if (rc == KVT_OK)
        rc = index_block_size_code(index, change->size, &size);
    if (rc == KVT_OK)
        *last = (struct index_codes){.size = change->size,
                                     .ranks = change->ranks,
                                     .shards = shards,
                                     .count = (uint32_t)__builtin_popcount(change->ranks),
                                     .size_code = size};
    return rc;
}

static bool
begin_change(struct index *index, struct index_writer *writer, struct index_change *change)
{
    writer->change = change;
    writer->ns_record = index_state_namespace(index, change->ns);
    writer->holder = index_state_holder(index, change->holder);
    writer->time_s = (uint32_t)(change->time_ms / 1000);
    if (change->kind == INDEX_REMOVE && change->evicted)
        writer->time_s = INDEX_HISTORY_NOT;
    writer->usage = NULL;
    writer->last_hash = change->parent;
    writer->last_number = 0;
    writer->reclaimed = false;
    change->status = KVT_OK;
    change->done = change->changed = 0;
    if (change->kind != INDEX_STORE)
        return true;
    change->status = find_codes(index, change);
    writer->code = index->last_codes.shards;
    writer->shards = index->last_codes.count;
    writer->size = index->last_codes.size_code;
    return change->status == KVT_OK;
}

/* False: the change has been refused a block, now or before. */
static bool
make_change(struct index *index, const struct piece *piece, struct index_writer *writer)
{
    if (piece->first == 0)
        (void)begin_change(index, writer, piece->change);
    if (piece->change->status != KVT_OK)
        return false;
    if (piece->change->kind == INDEX_STORE)
        (void)index_writer_store(writer, piece->first, piece->count, piece->mixed, piece->guess,
                                 piece->parent);
    else
        (void)index_writer_remove(writer, piece->first, piece->count, piece->mixed, piece->guess);
    return piece->change->status == KVT_OK;
}

/*
 * Lines are asked for a little ahead of the changes that need them: all at once would be more than
 * can be under way, and push each other out.
 *
 * False: `stops`, and the writer's change was refused; those behind it are as they were.
 */
static bool
run_group(struct index *index, struct group *group, struct index_writer *writer, bool stops)
{
    uint32_t loaded = 0;
    uint32_t ahead = 0; /* blocks that were asked for and not changed yet */
    bool goes_on = true;

    for (uint32_t i = 0; i < group->count; i++)
        load_runs(index, &group->pieces[i]);
    for (uint32_t i = 0; i < group->count && goes_on; i++) {
        for (; loaded < group->count && (loaded <= i || ahead < LINES_AHEAD); loaded++) {
            load_lines(index, &group->pieces[loaded]);
            ahead += group->pieces[loaded].count;
        }
        goes_on = make_change(index, &group->pieces[i], writer) || !stops;
        ahead -= group->pieces[i].count;
    }
    group->count = group->blocks = 0;
    return goes_on;
}

/* How many were applied: all, but where it `stops`. */
static size_t
apply_locked(struct index *index, struct index_change *changes, size_t count, bool stops)
{
    struct index_writer writer = {
        .index = index,
        .table = {.memory = &index->memory,
                  .epoch = &index->epoch,
                  .seq = index->allocator.seq,
                  .seed = index->seed},
        .holders = index_state_holders(index),
    };
    struct group group;
    bool goes_on = true;

    group.count = group.blocks = 0;
    for (size_t i = 0; i < count && goes_on; i++) {
        struct index_change *change = &changes[i];

        assert(change->ns < atomic_load_explicit(&index->namespace_count, memory_order_relaxed) &&
               change->holder < atomic_load_explicit(&index->holder_count, memory_order_relaxed));
        if (change->count == 0)
            goes_on = run_group(index, &group, &writer, stops) &&
                      (begin_change(index, &writer, change) || !stops);
        for (uint32_t first = 0; first < change->count && goes_on;) {
            const uint32_t left = change->count - first;
            const uint32_t room = GROUP_BLOCKS - group.blocks;
            const uint32_t taken = left < room ? left : room;

            add_piece(index, &group, change, first, taken);
            first += taken;
            if (group.count == GROUP_CHANGES || group.blocks == GROUP_BLOCKS)
                goes_on = run_group(index, &group, &writer, stops);
        }
    }
    goes_on = goes_on && run_group(index, &group, &writer, stops);
    return goes_on ? count : (size_t)(writer.change - changes) + 1;
}

void
index_apply(struct index *index, struct index_change *changes, size_t count)
{
    assert(index != NULL && (changes != NULL || count == 0));
    (void)pthread_mutex_lock(&index->lock);
    (void)apply_locked(index, changes, count, false);
    (void)pthread_mutex_unlock(&index->lock);
}

size_t
index_apply_some(struct index *index, struct index_change *changes, size_t count)
{
    size_t applied;

    assert(index != NULL && (changes != NULL || count == 0));
    (void)pthread_mutex_lock(&index->lock);
    applied = apply_locked(index, changes, count, true);
    (void)pthread_mutex_unlock(&index->lock);
    return applied;
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
        const struct index_run *run = index_state_at(index, number, &offset);

        had = index_run_holders_code_read(&run->holders, holder, offset) != 0;
    }
    if (had)
        (void)apply_locked(index, &change, 1, false);
    (void)pthread_mutex_unlock(&index->lock);
    if (had && change.status != KVT_OK)
        return change.status;
    return had ? KVT_OK : KVT_NOTFOUND;
}
