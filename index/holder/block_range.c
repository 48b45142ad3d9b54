#include "index/holder/block_range.h"

#include <assert.h>

/* Bits of one word that stand for blocks of [from, to). */
static uint64_t
word_mask(uint32_t word, uint32_t from, uint32_t to)
{
    const uint32_t low = word * 64;
    uint64_t mask = UINT64_MAX;

    if (from > low)
        mask &= UINT64_MAX << (from - low);
    if (to < low + 64)
        mask &= UINT64_MAX >> (low + 64 - to);
    return mask;
}

static void
add_blocks(struct index_blocks *blocks, uint32_t from, uint32_t to)
{
    for (uint32_t word = from / 64; word * 64 < to; word++) {
        const uint64_t added = word_mask(word, from, to) & ~blocks->bits[word];

        blocks->bits[word] |= added;
        blocks->count += (uint32_t)__builtin_popcountll(added);
    }
}

void
index_blocks_remove(struct index_blocks *blocks, uint32_t from, uint32_t to)
{
    for (uint32_t word = from / 64; word * 64 < to; word++) {
        const uint64_t removed = word_mask(word, from, to) & blocks->bits[word];

        blocks->bits[word] &= ~removed;
        blocks->count -= (uint32_t)__builtin_popcountll(removed);
    }
}

/* Append a range; neighbours with one code are one range. */
static void
push(struct index_block_ranges *ranges, uint32_t holder, uint32_t code, uint32_t from, uint32_t to)
{
    if (from >= to || code == 0)
        return;
    if (ranges->count > 0) {
        const index_block_range last = ranges->ranges[ranges->count - 1];

        if (index_block_range_to(last) == from && index_block_range_code(last) == code) {
            ranges->ranges[ranges->count - 1] =
                index_block_range_make(holder, code, index_block_range_from(last), to);
            return;
        }
    }
    ranges->ranges[ranges->count++] = index_block_range_make(holder, code, from, to);
}

static uint32_t
popcount(const struct index_shards *codes, uint32_t code)
{
    return (uint32_t)__builtin_popcount(index_shards_ranks(codes, code));
}

enum kvt_err
index_block_range_store(const struct index_block_ranges *old, struct index_shards *codes,
                        index_block_range range, struct index_block_ranges *ranges,
                        struct index_blocks *changed, uint32_t *shards)
{
    const uint32_t holder = index_block_range_holder(range);
    const uint32_t code = index_block_range_code(range);
    const uint32_t from = index_block_range_from(range);
    const uint32_t to = index_block_range_to(range);
    uint32_t at = from; /* all before is in `ranges` */

    ranges->count = 0;
    *changed = (struct index_blocks){.count = 0};
    *shards = 0;
    for (uint32_t i = 0; i < old->count; i++) {
        const uint32_t had = index_block_range_code(old->ranges[i]);
        const uint32_t begin = index_block_range_from(old->ranges[i]);
        const uint32_t end = index_block_range_to(old->ranges[i]);
        const uint32_t low = begin > from ? begin : from;
        const uint32_t high = end < to ? end : to;
        uint32_t both = had;

        if (end <= from || begin >= to) {
            if (begin >= to && at < to) {
                add_blocks(changed, at, to);
                push(ranges, holder, code, at, to);
                at = to;
            }
            push(ranges, holder, had, begin, end);
            continue;
        }
        if (had != code) {
            const enum kvt_err rc = index_shards_code(
                codes, index_shards_ranks(codes, had) | index_shards_ranks(codes, code), &both);

            if (rc != KVT_OK)
                return rc;
        }
        push(ranges, holder, had, begin, low);
        if (at < low) {
            add_blocks(changed, at, low);
            push(ranges, holder, code, at, low);
        }
        push(ranges, holder, both, low, high);
        *shards += (high - low) * (popcount(codes, both) - popcount(codes, had));
        push(ranges, holder, had, high, end);
        at = high;
    }
    if (at < to) {
        add_blocks(changed, at, to);
        push(ranges, holder, code, at, to);
    }
    *shards += changed->count * popcount(codes, code);
    return KVT_OK;
}

enum kvt_err
index_block_range_take(const struct index_block_ranges *old, struct index_shards *codes,
                       uint32_t ranks, uint32_t from, uint32_t to,
                       struct index_block_ranges *ranges, struct index_blocks *changed,
                       uint32_t *shards)
{
    ranges->count = 0;
    *changed = (struct index_blocks){.count = 0};
    *shards = 0;
    for (uint32_t i = 0; i < old->count; i++) {
        const uint32_t holder = index_block_range_holder(old->ranges[i]);
        const uint32_t had = index_block_range_code(old->ranges[i]);
        const uint32_t begin = index_block_range_from(old->ranges[i]);
        const uint32_t end = index_block_range_to(old->ranges[i]);
        const uint32_t low = begin > from ? begin : from;
        const uint32_t high = end < to ? end : to;
        const uint32_t left = index_shards_ranks(codes, had) & ~ranks;
        uint32_t rest = 0;

        if (low >= high) {
            push(ranges, holder, had, begin, end);
            continue;
        }
        if (left != 0) {
            const enum kvt_err rc = index_shards_code(codes, left, &rest);

            if (rc != KVT_OK)
                return rc;
        } else {
            add_blocks(changed, low, high);
        }
        push(ranges, holder, had, begin, low);
        push(ranges, holder, rest, low, high);
        push(ranges, holder, had, high, end);
        *shards += (high - low) * (popcount(codes, had) - popcount(codes, rest));
    }
    return KVT_OK;
}
