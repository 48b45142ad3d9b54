#include "index/block/block_size.h"
#include "index/block/history.h"
#include "index/block/holder_usage.h"
#include "index/block/link.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/writer/writer.h"

#define PIECES ((INDEX_RUN_BLOCKS_MAX + 63) / 64)

/* Blocks [end, length) of a run, which nobody holds and nothing hangs on, are no more. */
static void
cut_tail(struct index *index, struct index_run *run, uint32_t first, uint32_t end, uint32_t length)
{
    struct index_table *table = &index_state_namespace(index, index_run_ns(run))->table;

    index_run_change(run);
    atomic_store_explicit(&run->length, (uint16_t)end, memory_order_relaxed);
    index_run_changed(run);
    for (uint32_t number = first + length; number-- > first + end;)
        index_table_remove(table, index_state_mix(index, index_state_seq(index, number)), number);
}

/* Blocks of [from, to) that nobody holds any more were never read. */
static void
forget_uses(struct index *index, const struct index_run *run, uint32_t first, uint32_t from,
            uint32_t to)
{
    struct index_block_hits *uses = atomic_load_explicit(
        &index->allocator.uses[first >> INDEX_PAGE_SHIFT], memory_order_relaxed);

    for (uint32_t i = from; uses != NULL && i < to; i++) {
        struct index_block_hits *use = &uses[(first + i) & (INDEX_PAGE_BLOCKS - 1)];

        if (index_run_held(run, i))
            continue;
        atomic_store_explicit(&use->hits, 0, memory_order_relaxed);
        atomic_store_explicit(&use->used_s, 0, memory_order_relaxed);
    }
}

/* Take away ghosts at the run's end, the run with its last block, and then maybe its parents. */
static void
trim(struct index *index, uint32_t first)
{
    while (first != 0) {
        uint32_t offset;
        struct index_run *run = index_state_at(index, first, &offset);
        const uint32_t length = index_run_length(run);
        uint32_t end = index_run_holders_end(&run->holders);
        uint32_t parent;

        if (end < run->pinned)
            end = run->pinned;
        if (end < length)
            cut_tail(index, run, first, end, length);
        if (end > 0)
            return;
        parent = index_link_cut(index, first);
        index_block_size_forget(index, first);
        index_run_allocator_give(index, first);
        first = 0;
        if (parent != 0)
            (void)index_state_run_of(index, parent, &first);
    }
}

/* Blocks of [from, to) that the holder has, and would not have without these shards. */
static void
note_going(const struct index *index, const struct index_run *run, uint32_t from, uint32_t to,
           uint32_t holder, uint32_t ranks, uint64_t bits[PIECES])
{
    uint64_t cursor = (uint64_t)holder << 16 | from;
    struct index_run_holders_place place;

    for (int i = 0; i < PIECES; i++)
        bits[i] = 0;
    while (index_run_holders_next_read(&run->holders, &cursor, &place) && place.holder == holder &&
           place.from < to) {
        if ((index_shards_ranks(index->shards, place.code) & ~ranks) != 0)
            continue;
        for (uint32_t i = place.from > from ? place.from : from; i < place.to && i < to; i++)
            bits[i / 64] |= UINT64_C(1) << i % 64;
    }
}

/* The bytes of the shards `ranks` of [from, to) that the holder has, of blocks with sizes of their
 * own. */
static uint64_t
odd_bytes(const struct index *index, const struct index_run *run, uint32_t first, uint32_t from,
          uint32_t to, uint32_t holder, uint32_t ranks)
{
    uint64_t cursor = (uint64_t)holder << 16 | from;
    struct index_run_holders_place place;
    uint64_t bytes = 0;

    while (index_run_holders_next_read(&run->holders, &cursor, &place) && place.holder == holder &&
           place.from < to) {
        const uint32_t going = index_shards_ranks(index->shards, place.code) & ranks;

        for (uint32_t i = place.from; i < place.to && i < to; i++)
            bytes += (uint64_t)__builtin_popcount(going) * index_block_size_of(index, first, i);
    }
    return bytes;
}

static void
take_totals(struct index *index, uint32_t holder, uint32_t ns,
            const struct index_run_holders_effect *effect, uint64_t bytes)
{
    struct index_holder_record *record = index_state_holder(index, holder);

    atomic_store_explicit(&record->blocks,
                          atomic_load_explicit(&record->blocks, memory_order_relaxed) -
                              effect->pairs,
                          memory_order_relaxed);
    atomic_store_explicit(&record->bytes,
                          atomic_load_explicit(&record->bytes, memory_order_relaxed) - bytes,
                          memory_order_relaxed);
    index_holder_usage_take(index, holder, ns, effect->pairs);
    index->blocks -= effect->blocks;
    index->places -= effect->pairs;
}

static enum kvt_err
let_go(struct index *index, struct index_run *run, uint32_t first, uint32_t from, uint32_t to,
       uint32_t holder, uint32_t ranks, uint32_t time_s, uint32_t *pairs)
{
    const struct index_run_holders_context context = index_state_holders(index);
    const bool odd = index_run_is(run, INDEX_RUN_ODD_SIZES);
    const uint64_t bytes = odd ? odd_bytes(index, run, first, from, to, holder, ranks) : 0;
    struct index_run_holders_effect effect = {.pairs = 0};
    uint64_t going[PIECES];
    uint32_t sole;
    uint32_t code;
    enum kvt_err rc = KVT_OK;

    index_run_change(run);
    if (ranks == UINT32_MAX && index_writer_cut_range(&run->holders, holder, from, to, &code)) {
        effect.pairs = effect.blocks = to - from;
        effect.shards =
            effect.pairs * (uint32_t)__builtin_popcount(index_shards_ranks(index->shards, code));
    } else {
        if (to - from > 1)
            note_going(index, run, from, to, holder, ranks, going);
        rc = index_run_holders_remove(&run->holders, &context, holder, ranks, from, to, &effect);
        if (index_run_holders_sole(&run->holders, &sole))
            atomic_store_explicit(&run->tiers,
                                  (uint8_t)KVT_TIER_MASK(index_state_holder(index, sole)->key.tier),
                                  memory_order_relaxed);
    }
    index_run_changed(run);
    *pairs = effect.pairs;
    if (rc != KVT_OK || effect.shards == 0)
        return rc;
    if (effect.blocks > 0)
        forget_uses(index, run, first, from, to);
    take_totals(index, holder, index_run_ns(run), &effect,
                odd ? bytes : effect.shards * index_block_size_of(index, first, from));
    if (effect.pairs == to - from) {
        index_history_note(index, index_run_ns(run), holder, INDEX_REMOVE, first + from, to - from,
                           time_s);
        return KVT_OK;
    }
    for (uint32_t i = from; i < to && effect.pairs > 0; i++)
        if ((going[i / 64] >> i % 64 & 1) != 0)
            index_history_note(index, index_run_ns(run), holder, INDEX_REMOVE, first + i, 1,
                               time_s);
    return KVT_OK;
}

enum kvt_err
index_writer_release(struct index *index, uint32_t first, uint32_t from, uint32_t to,
                     uint32_t holder, uint32_t ranks, uint32_t time_s, uint32_t *pairs)
{
    uint32_t offset;
    struct index_run *run = index_state_at(index, first, &offset);
    const enum kvt_err rc = let_go(index, run, first, from, to, holder, ranks, time_s, pairs);

    trim(index, first);
    return rc;
}

/* How many hashes from `at` on are neighbours in the run, forward (1) or back (-1). */
static uint32_t
neighbours(const struct index_writer *writer, const struct index_run *run, uint32_t number,
           uint32_t offset, uint32_t at, uint32_t end, int *direction)
{
    const struct index *index = writer->index;
    const uint64_t *hashes = writer->change->hashes;
    const uint32_t length = index_run_length(run);
    uint32_t count = 1;

    *direction = 1;
    while (at + count < end && count <= offset &&
           index_state_seq(index, number - count) == hashes[at + count])
        count++;
    if (count > 1) {
        *direction = -1;
        return count;
    }
    while (at + count < end && offset + count < length &&
           index_state_seq(index, number + count) == hashes[at + count])
        count++;
    return count;
}

bool
index_writer_remove(struct index_writer *writer, uint32_t first, uint32_t count,
                    const uint64_t *mixed, uint32_t guess)
{
    struct index *index = writer->index;
    struct index_change *change = writer->change;
    const uint32_t end = first + count;

    for (uint32_t at = first; at < end;) {
        uint32_t number = 0;
        uint32_t together = 1;

        if (at == first)
            number = index_writer_check(index, change->ns, change->hashes[at], guess);
        if (number == 0)
            number = index_table_find(&writer->ns_record->table, index->allocator.seq,
                                      change->hashes[at], mixed[at - first]);

        if (number != 0) {
            uint32_t offset;
            const struct index_run *run = index_state_at(index, number, &offset);
            uint32_t from = offset;
            uint32_t pairs;
            int direction;
            enum kvt_err rc;

            together = neighbours(writer, run, number, offset, at, end, &direction);
            if (direction < 0)
                from = offset - together + 1;
            rc = index_writer_release(index, number - offset, from, from + together, change->holder,
                                      change->ranks, writer->time_s, &pairs);
            change->changed += pairs;
            if (rc != KVT_OK) {
                change->status = rc;
                change->done = at;
                return false;
            }
        }
        at += together;
    }
    change->done = end;
    return true;
}
