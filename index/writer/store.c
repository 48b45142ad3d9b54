#include "index/block/block_size.h"
#include "index/block/history.h"
#include "index/block/holder_usage.h"
#include "index/block/link.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/writer/writer.h"

enum {
    RUN_FIRST = 4,      /* blocks a run has room for when they come one by one */
    RUN_GROWN_MAX = 256 /* and at most */
};

#define PIECES ((INDEX_RUN_BLOCKS_MAX + 63) / 64)

/* Blocks of a run that the holder has before a change. */
struct had {
    uint64_t bits[PIECES];
};

static bool
refuse(struct index_writer *writer, uint32_t at, enum kvt_err status)
{
    if (writer->usage != NULL)
        index_holder_usage_settle(writer->index, writer->usage);
    writer->usage = NULL;
    writer->change->status = status;
    writer->change->done = at;
    return false;
}

static uint32_t
position_of(const struct index_run *run, uint32_t offset)
{
    return atomic_load_explicit(&run->position, memory_order_relaxed) + offset;
}

/* The hash before a block; 0: a root, or not known. */
static uint64_t
parent_of(const struct index *index, const struct index_run *run, uint32_t number, uint32_t offset)
{
    return offset > 0 ? index_state_seq(index, number - 1)
                      : atomic_load_explicit(&run->parent, memory_order_relaxed);
}

static bool
collides(const struct index_writer *writer, const struct index_run *run, uint32_t number,
         uint32_t offset, uint32_t at)
{
    const uint32_t position = writer->change->position + at;
    const uint32_t known = position_of(run, offset);
    const uint64_t parent = parent_of(writer->index, run, number, offset);

    /* Parent 0 at a position above 0: who said it knows neither.  What is known of blocks behind
     * it came from there, so with such it stays. */
    if (writer->last_hash == 0 && position != 0)
        return false;
    if (parent == 0 && known != 0)
        return position != known && (index_run_length(run) > 1 || run->child != 0);
    return known != position || parent != writer->last_hash;
}

/* Those of [from, to) that the holder has. */
static void
note_had(const struct index_writer *writer, const struct index_run *run, uint32_t from, uint32_t to,
         struct had *had)
{
    uint64_t cursor = (uint64_t)writer->change->holder << 16 | from;
    struct index_run_holders_place place;

    *had = (struct had){.bits = {0}};
    while (index_run_holders_next_read(&run->holders, &cursor, &place) &&
           place.holder == writer->change->holder && place.from < to)
        for (uint32_t i = place.from > from ? place.from : from; i < place.to && i < to; i++)
            had->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void
note_history(const struct index_writer *writer, uint32_t number, uint32_t from, uint32_t to,
             const struct had *had)
{
    const struct index_change *change = writer->change;

    if (had == NULL) {
        index_history_note(writer->index, change->ns, change->holder, INDEX_STORE, number + from,
                           to - from, writer->time_s);
        return;
    }
    for (uint32_t i = from; i < to; i++)
        if ((had->bits[i / 64] >> i % 64 & 1) == 0)
            index_history_note(writer->index, change->ns, change->holder, INDEX_STORE, number + i,
                               1, writer->time_s);
}

/* There must be one before a pair is added.  False: no memory. */
static bool
has_stake(struct index_writer *writer)
{
    if (writer->usage == NULL)
        writer->usage =
            index_holder_usage_make(writer->index, writer->change->holder, writer->change->ns);
    return writer->usage != NULL;
}

/* Of blocks in the page of the block `number`. */
static void
add_totals(struct index_writer *writer, const struct index_run_holders_effect *effect,
           uint64_t size, uint32_t number)
{
    struct index_holder_record *holder = writer->holder;

    atomic_store_explicit(&holder->blocks,
                          atomic_load_explicit(&holder->blocks, memory_order_relaxed) +
                              effect->pairs,
                          memory_order_relaxed);
    atomic_store_explicit(&holder->bytes,
                          atomic_load_explicit(&holder->bytes, memory_order_relaxed) +
                              effect->shards * size,
                          memory_order_relaxed);
    index_holder_usage_add(writer->usage, effect->pairs, number);
    writer->index->blocks += effect->blocks;
    writer->index->places += effect->pairs;
    writer->change->changed += effect->pairs;
}

/* What is left to say of a run that was stored to. */
static void
note_stored(const struct index_writer *writer, struct index_run *run, uint32_t length)
{
    const unsigned tiers = atomic_load_explicit(&run->tiers, memory_order_relaxed);

    atomic_store_explicit(&run->length, (uint16_t)length, memory_order_relaxed);
    atomic_store_explicit(&run->tiers, (uint8_t)(tiers | KVT_TIER_MASK(writer->holder->key.tier)),
                          memory_order_relaxed);
    if (writer->time_s != 0)
        atomic_store_explicit(&run->stored_s, writer->time_s, memory_order_relaxed);
}

static bool
all_tokens(const struct index_change *change, uint32_t at, uint32_t count)
{
    if (change->tokens == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (change->tokens[at + i] == 0)
            return false;
    return true;
}

/* New blocks [from, to) at the end of a run, held by nobody yet; of the change from `at` on. */
static enum kvt_err
hold_new(struct index_writer *writer, struct index_run *run, uint32_t first, uint32_t from,
         uint32_t to, uint32_t at)
{
    const bool tokens = (from == 0 || index_run_is(run, INDEX_RUN_TOKENS)) &&
                        all_tokens(writer->change, at, to - from);
    const struct index_change *change = writer->change;
    struct index_run_holders_effect effect = {
        .pairs = to - from, .blocks = to - from, .shards = (to - from) * writer->shards};
    enum kvt_err rc = KVT_OK;

    if (!has_stake(writer))
        return KVT_FULL;
    index_run_change(run);
    if (!index_writer_add_range(&run->holders, change->holder, writer->code, from, to))
        rc = index_run_holders_add(&run->holders, &writer->holders, change->holder, writer->code,
                                   from, to, &effect);
    if (rc == KVT_OK) {
        note_stored(writer, run, to);
        index_run_set(run, INDEX_RUN_TOKENS, tokens);
    }
    index_run_changed(run);
    if (rc != KVT_OK)
        return rc;
    add_totals(writer, &effect, change->size, first);
    index_history_note(writer->index, change->ns, change->holder, INDEX_STORE, first + from,
                       to - from, writer->time_s);
    return KVT_OK;
}

/* The holder has [from, to) of a run too. */
static enum kvt_err
hold(struct index_writer *writer, struct index_run *run, uint32_t first, uint32_t from, uint32_t to)
{
    struct index_run_holders_effect effect = {.pairs = 0};
    struct had had;
    enum kvt_err rc;

    if (!has_stake(writer))
        return KVT_FULL;
    /* Only a part of several blocks may be new. */
    if (to - from > 1)
        note_had(writer, run, from, to, &had);
    index_run_change(run);
    rc = index_run_holders_add(&run->holders, &writer->holders, writer->change->holder,
                               writer->code, from, to, &effect);
    if (rc == KVT_OK)
        note_stored(writer, run, index_run_length(run));
    index_run_changed(run);
    if (rc != KVT_OK || effect.shards == 0)
        return rc;
    add_totals(writer, &effect, index_block_size_of(writer->index, first, from), first);
    if (effect.pairs > 0)
        note_history(writer, first, from, to, effect.pairs == to - from ? NULL : &had);
    return KVT_OK;
}

/* Token hashes that a later Store knows. */
static enum kvt_err
learn_tokens(struct index_writer *writer, struct index_run *run, uint32_t number, uint32_t at,
             uint32_t count)
{
    const uint64_t *tokens = writer->change->tokens;

    if (tokens == NULL || index_run_is(run, INDEX_RUN_TOKENS))
        return KVT_OK;
    if (!index_run_allocator_tokens(writer->index, number))
        return KVT_FULL;
    for (uint32_t i = 0; i < count; i++)
        if (index_state_tok(writer->index, number + i) == 0)
            atomic_store_explicit(&writer->index->allocator.tok[number + i], tokens[at + i],
                                  memory_order_relaxed);
    return KVT_OK;
}

/* Orphans that could not be joined to these blocks while their positions were not known. */
static void
adopt_all(struct index_writer *writer, const struct index_run *run, uint32_t first)
{
    struct index *index = writer->index;
    const uint32_t ns = index_run_ns(run);

    for (uint32_t i = 0; i < index_run_length(run); i++) {
        const uint64_t hash = index_state_seq(index, first + i);

        index_link_adopt(index, ns, first + i, hash, index_state_mix(index, hash));
    }
}

/* The parent of a run's first block, which was not known, nor was its position. */
static enum kvt_err
learn_parent(struct index_writer *writer, struct index_run *run, uint32_t first, uint32_t position)
{
    const uint32_t before = atomic_load_explicit(&run->position, memory_order_relaxed);
    struct index *index = writer->index;

    if (writer->last_number == 0 && writer->last_hash != 0)
        writer->last_number =
            index_table_find(&writer->ns_record->table, index->allocator.seq, writer->last_hash,
                             index_state_mix(index, writer->last_hash));
    index_run_change(run);
    atomic_store_explicit(&run->parent, writer->last_hash, memory_order_relaxed);
    atomic_store_explicit(&run->position, position, memory_order_relaxed);
    /* A root hangs on nothing. */
    if (writer->last_hash != 0 && !index_link_run(index, first, writer->last_number)) {
        atomic_store_explicit(&run->parent, 0, memory_order_relaxed);
        atomic_store_explicit(&run->position, before, memory_order_relaxed);
        index_run_changed(run);
        return KVT_FULL;
    }
    index_run_changed(run);
    if (position != before)
        adopt_all(writer, run, first);
    return KVT_OK;
}

/* Hold [from, to): with sizes of their own the bytes are counted one by one. */
static enum kvt_err
hold_known(struct index_writer *writer, struct index_run *run, uint32_t first, uint32_t from,
           uint32_t to, uint32_t *held)
{
    const uint32_t step = index_run_is(run, INDEX_RUN_ODD_SIZES) ? 1 : to - from;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = from; i < to && rc == KVT_OK; i += step) {
        rc = hold(writer, run, first, i, i + step);
        *held += rc == KVT_OK ? step : 0;
    }
    return rc;
}

/*
 * Blocks from `at` on that are there, from `number` on as far as they lie side by side.  `*next` is
 * set to the first one behind them.
 */
static bool
store_known(struct index_writer *writer, uint32_t number, uint32_t at, uint32_t end, uint32_t *next)
{
    struct index *index = writer->index;
    const uint64_t *hashes = writer->change->hashes;
    uint32_t offset;
    struct index_run *run = index_state_at(index, number, &offset);
    const uint32_t length = index_run_length(run);
    uint32_t count = 1;
    uint32_t held = 0;
    enum kvt_err rc = KVT_OK;

    *next = at;
    /* A number beyond the run's end is of this very change: the sequence has a block twice. */
    if (offset >= length || collides(writer, run, number, offset, at)) {
        index->collisions++;
        return refuse(writer, at, KVT_EXISTS);
    }
    /* Who does not know where this block is does not know it of the next ones either. */
    if (position_of(run, offset) != writer->change->position + at)
        end = at + 1;
    while (at + count < end && offset + count < length &&
           index_state_seq(index, number + count) == hashes[at + count])
        count++;
    if (offset == 0 && position_of(run, 0) != 0 &&
        (writer->last_hash != 0 || writer->change->position + at == 0) &&
        atomic_load_explicit(&run->parent, memory_order_relaxed) == 0)
        rc = learn_parent(writer, run, number, writer->change->position + at);
    if (rc == KVT_OK && writer->change->size != 0 &&
        (writer->size != atomic_load_explicit(&run->size, memory_order_relaxed) ||
         index_run_is(run, INDEX_RUN_ODD_SIZES)))
        rc = index_block_size_set(index, number - offset, offset, offset + count, writer->size);
    if (rc == KVT_OK)
        rc = learn_tokens(writer, run, number, at, count);
    if (rc == KVT_OK)
        rc = hold_known(writer, run, number - offset, offset, offset + count, &held);
    if (rc != KVT_OK)
        return refuse(writer, at + held, rc);
    *next = at + count;
    writer->last_number = number + count - 1;
    writer->last_hash = hashes[at + count - 1];
    return true;
}

/* The run whose end is the block before, when blocks may be put behind it; else NULL. */
static struct index_run *
growing_run(const struct index_writer *writer, uint32_t at, uint32_t *first)
{
    const struct index *index = writer->index;
    uint32_t offset;
    struct index_run *run;

    *first = 0;
    if (writer->last_number == 0)
        return NULL;
    run = index_state_at(index, writer->last_number, &offset);
    /* Any holder: ranges do not depend on the length of the run. */
    if (offset + 1 != index_run_length(run) ||
        atomic_load_explicit(&run->size, memory_order_relaxed) != writer->size ||
        index_run_is(run, INDEX_RUN_ODD_SIZES) ||
        position_of(run, offset + 1) != writer->change->position + at ||
        offset + 1 == index_run_allocator_capacity(index, writer->last_number))
        return NULL;
    *first = writer->last_number - offset;
    return run;
}

/* Blocks that came one by one to the sequence that ends in the block before. */
static uint32_t
grown_so_far(const struct index_writer *writer)
{
    const struct index *index = writer->index;
    const struct index_run *run;
    uint32_t capacity;
    uint32_t first;

    if (writer->last_number == 0)
        return 0;
    run = index_state_run_of(index, writer->last_number, &first);
    capacity = index_run_allocator_capacity(index, first);
    if (!index_run_is(run, INDEX_RUN_GROWING) || index_run_length(run) < capacity)
        return 0;
    if (run->parent_number != 0 &&
        index_run_is(index_state_run_of(index, run->parent_number, &first), INDEX_RUN_GROWING))
        capacity *= 2;
    return capacity;
}

static unsigned
class_for(const struct index_writer *writer, uint32_t at)
{
    const uint32_t left = writer->change->count - at;
    uint32_t room;

    if (left > 1)
        return index_run_allocator_class(left);
    /* An orphan is one of many, in an order of their own: no room is kept behind it. */
    if (writer->last_number == 0 && writer->change->position + at > 0)
        return index_run_allocator_class(1);
    room = grown_so_far(writer);
    room = room < RUN_FIRST ? RUN_FIRST : room;
    return index_run_allocator_class(room > RUN_GROWN_MAX ? RUN_GROWN_MAX : room);
}

/* A run for blocks from `at` on, of length 0 yet; 0: no memory. */
static uint32_t
open_run(struct index_writer *writer, uint32_t at)
{
    struct index *index = writer->index;
    const struct index_change *change = writer->change;
    const uint32_t first =
        index_run_allocator_take(index, class_for(writer, at), change->tokens != NULL);
    uint32_t zero;
    struct index_run *run;

    if (first == 0)
        return 0;
    run = index_state_at(index, first, &zero);
    index_run_change(run);
    atomic_store_explicit(&run->size, writer->size, memory_order_relaxed);
    atomic_store_explicit(&run->parent, writer->last_hash, memory_order_relaxed);
    atomic_store_explicit(&run->position, change->position + at, memory_order_relaxed);
    atomic_store_explicit(&run->stored_s, writer->time_s, memory_order_relaxed);
    atomic_store_explicit(&run->ns, (uint16_t)change->ns, memory_order_relaxed);
    atomic_store_explicit(&run->tiers, 0, memory_order_relaxed);
    atomic_store_explicit(&run->flags, (uint8_t)(change->count - at == 1 ? INDEX_RUN_GROWING : 0),
                          memory_order_relaxed);
    index_run_changed(run);
    run->parent_number = run->child = run->next = run->prev = 0;
    run->pinned = 0;
    if (writer->last_hash != 0 && !index_link_run(index, first, writer->last_number)) {
        index_run_allocator_give(index, first);
        return 0;
    }
    return first;
}

static void
close_run(struct index *index, uint32_t first)
{
    (void)index_link_cut(index, first);
    index_run_allocator_give(index, first);
}

/*
 * Put blocks from `at` on behind the first `length` of a run, as many as are new and fit.
 *
 * @param[out] stop  why not more: 0, INDEX_TABLE_NONE (no memory), or the number of the next one,
 *                   which is there
 * @return how many
 */
static uint32_t
enter(struct index_writer *writer, uint32_t first, uint32_t length, uint32_t at, uint32_t end,
      const uint64_t *mixed, uint32_t *stop)
{
    struct index *index = writer->index;
    const struct index_change *change = writer->change;
    const uint32_t room = index_run_allocator_capacity(index, first) - length;
    const uint32_t most = end - at < room ? end - at : room;
    const uint64_t *hashes = change->hashes + at;
    _Atomic uint64_t *const seq = &index->allocator.seq[first + length];
    _Atomic uint64_t *const tok = &index->allocator.tok[first + length];

    *stop =
        change->tokens != NULL && !index_run_allocator_tokens(index, first) ? INDEX_TABLE_NONE : 0;
    if (*stop != 0)
        return 0;
    for (uint32_t i = 0; i < most; i++)
        atomic_store_explicit(&seq[i], hashes[i], memory_order_relaxed);
    /* Without them, what a former block left there is wiped. */
    if (index->allocator.pages[first >> INDEX_PAGE_SHIFT].tok_counted)
        for (uint32_t i = 0; i < most; i++)
            atomic_store_explicit(&tok[i], change->tokens != NULL ? change->tokens[at + i] : 0,
                                  memory_order_relaxed);
    return index_table_enter_all(&writer->ns_record->table, &writer->table, hashes, mixed,
                                 first + length, most, stop);
}

/* What was entered becomes part of the run, or leaves again. */
static enum kvt_err
publish(struct index_writer *writer, uint32_t first, uint32_t length, uint32_t at, uint32_t count,
        const uint64_t *mixed)
{
    struct index *index = writer->index;
    const struct index_change *change = writer->change;
    uint32_t zero;
    struct index_run *run = index_state_at(index, first, &zero);
    const enum kvt_err rc = hold_new(writer, run, first, length, length + count, at);

    if (rc != KVT_OK) {
        for (uint32_t i = 0; i < count; i++)
            index_table_remove(&writer->ns_record->table, mixed[i], first + length + i);
        return rc;
    }
    for (uint32_t i = 0; i < count && writer->ns_record->orphans > 0; i++)
        index_link_adopt(index, change->ns, first + length + i, change->hashes[at + i], mixed[i]);
    writer->last_number = first + length + count - 1;
    writer->last_hash = change->hashes[at + count - 1];
    return KVT_OK;
}

/* Memory that nobody needs, once a change: replaced, or of empty pages. */
static bool
reclaim(struct index_writer *writer)
{
    if (writer->reclaimed)
        return false;
    writer->reclaimed = true;
    index_epoch_advance(&writer->index->epoch);
    index_run_allocator_trim(writer->index);
    index_epoch_advance(&writer->index->epoch);
    return true;
}

/*
 * Blocks from `at` on, of which the first was not there.
 *
 * @param[out] found  where the next one is, if that is known, or 0
 */
static bool
store_new(struct index_writer *writer, uint32_t at, uint32_t end, const uint64_t *mixed,
          uint32_t *next, uint32_t *found)
{
    struct index *index = writer->index;
    struct index_run *run;
    uint32_t first;
    uint32_t length = 0;
    uint32_t count;
    uint32_t stop;

    *next = at;
    *found = 0;
    if (writer->last_number == 0 && writer->last_hash != 0)
        writer->last_number = index_state_find(index, writer->change->ns, writer->last_hash);
    run = growing_run(writer, at, &first);
    if (run != NULL)
        length = index_run_length(run);
    else
        first = open_run(writer, at);
    if (first == 0)
        return reclaim(writer) ? true : refuse(writer, at, KVT_FULL);
    count = enter(writer, first, length, at, end, mixed, &stop);
    if (count > 0 && publish(writer, first, length, at, count, mixed) != KVT_OK) {
        count = 0;
        stop = INDEX_TABLE_NONE;
    }
    if (count == 0 && run == NULL)
        close_run(index, first);
    if (count == 0 && stop == INDEX_TABLE_NONE)
        return reclaim(writer) ? true : refuse(writer, at, KVT_FULL);
    *next = at + count;
    *found = stop == INDEX_TABLE_NONE ? 0 : stop;
    return true;
}

/*
 * One block behind the last one of a run that only this holder has: what most events are.  False:
 * it is another case, and nothing was changed.
 */
static bool
append_one(struct index_writer *writer, uint64_t mixed, uint32_t parent)
{
    struct index *index = writer->index;
    const struct index_change *change = writer->change;
    const struct index_run_holders_effect effect = {
        .pairs = 1, .blocks = 1, .shards = writer->shards};
    const uint64_t hash = change->hashes[0];
    uint32_t offset;
    struct index_run *run = index_state_run(index, parent, &offset);
    index_block_range one;

    if (run == NULL || writer->ns_record->orphans > 0)
        return false;
    one = atomic_load_explicit(&run->holders.one, memory_order_relaxed);
    if (atomic_load_explicit(&run->holders.list, memory_order_relaxed) != NULL ||
        offset + 1 != index_run_length(run) || index_block_range_to(one) != offset + 1 ||
        (one >> 32) != ((uint64_t)change->holder << 12 | writer->code) ||
        index_state_seq(index, parent) != change->parent || index_run_ns(run) != change->ns ||
        position_of(run, offset + 1) != change->position ||
        atomic_load_explicit(&run->size, memory_order_relaxed) != writer->size ||
        index_run_is(run, INDEX_RUN_ODD_SIZES) ||
        index_run_is(run, INDEX_RUN_TOKENS) != (change->tokens != NULL && change->tokens[0] != 0) ||
        offset + 1 == index_run_allocator_capacity(index, parent) ||
        (change->tokens != NULL && !index_run_allocator_tokens(index, parent)))
        return false;
    atomic_store_explicit(&index->allocator.seq[parent + 1], hash, memory_order_relaxed);
    if (index->allocator.pages[parent >> INDEX_PAGE_SHIFT].tok_counted)
        atomic_store_explicit(&index->allocator.tok[parent + 1],
                              change->tokens != NULL ? change->tokens[0] : 0, memory_order_relaxed);
    if (index_table_enter(&writer->ns_record->table, &writer->table, hash, mixed, parent + 1) != 0)
        return false;
    index_run_change(run);
    atomic_store_explicit(&run->holders.one, one + 1, memory_order_relaxed);
    note_stored(writer, run, offset + 2);
    index_run_changed(run);
    writer->usage = index_holder_usage_find(index, change->holder, change->ns);
    add_totals(writer, &effect, change->size, parent);
    index_history_note(index, change->ns, change->holder, INDEX_STORE, parent + 1, 1,
                       writer->time_s);
    writer->last_number = parent + 1;
    writer->last_hash = hash;
    writer->change->done = 1;
    return true;
}

bool
index_writer_store(struct index_writer *writer, uint32_t first, uint32_t count,
                   const uint64_t *mixed, uint32_t guess, uint32_t parent)
{
    struct index *index = writer->index;
    const struct index_change *change = writer->change;
    const uint32_t end = first + count;
    uint32_t number;

    if (change->count == 1 && guess == 0 && parent != 0 && append_one(writer, mixed[0], parent)) {
        *index_writer_recent(index, writer->last_hash) = writer->last_number;
        return true;
    }
    number = index_writer_check(index, change->ns, change->hashes[first], guess);
    if (number == 0 && guess != 0)
        number = index_state_find(index, change->ns, change->hashes[first]);
    if (first == 0)
        writer->last_number = index_writer_check(index, change->ns, change->parent, parent);
    for (uint32_t at = first; at < end;) {
        bool done;

        if (number != 0) {
            done = store_known(writer, number, at, end, &at);
            number = 0;
        } else {
            done = store_new(writer, at, end, mixed + (at - first), &at, &number);
        }
        if (!done)
            return false;
        if (number == 0 && at < end)
            number = index_table_find(&writer->ns_record->table, index->allocator.seq,
                                      change->hashes[at], mixed[at - first]);
    }
    *index_writer_recent(index, writer->last_hash) = writer->last_number;
    writer->change->done = end;
    return true;
}
