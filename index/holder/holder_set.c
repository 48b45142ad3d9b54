#include "index/holder/holder_set.h"

#include <assert.h>

enum { FEW_MIN = 8, WORDS_STEP = 4 };

static uint32_t
words_for(uint32_t highest)
{
    return (highest / 64 + WORDS_STEP) / WORDS_STEP * WORDS_STEP;
}

struct index_holder_set *
index_holder_set_new(struct index_memory *memory, uint32_t count, uint32_t highest, bool overdraw)
{
    const uint32_t words = words_for(highest);
    struct index_holder_set *set;
    uint32_t few = FEW_MIN;
    size_t bytes;

    assert(highest < INDEX_HOLDERS_MAX);
    while (few < count)
        few *= 2;
    if (few > INDEX_HOLDER_SET_FEW_MAX || few / 4 >= words)
        few = 0;
    bytes = sizeof(*set) + 8 * (size_t)(few != 0 ? few / 4 : words);
    set = overdraw ? index_memory_overdraw(memory, 1, bytes) : index_memory_take(memory, 1, bytes);
    if (set != NULL) {
        set->few = (uint16_t)few;
        set->words = (uint16_t)(few != 0 ? 0 : words);
    }
    return set;
}

size_t
index_holder_set_bytes(const struct index_holder_set *set)
{
    return sizeof(*set) + 8 * (size_t)(set->few != 0 ? set->few / 4 : set->words);
}

bool
index_holder_set_fits(const struct index_holder_set *set, uint32_t holder)
{
    return set->few != 0 ? index_holder_set_count(set) < set->few : holder / 64 < set->words;
}

static inline void
put_word(struct index_holder_set *set, uint32_t at, uint64_t word)
{
    atomic_store_explicit(&set->data[at], word, memory_order_relaxed);
}

static inline void
put_number(struct index_holder_set *set, uint32_t at, uint32_t number)
{
    const uint32_t shift = at % 4 * 16;
    const uint64_t word = index_holder_set_word(set, at / 4) & ~(UINT64_C(0xffff) << shift);

    put_word(set, at / 4, word | (uint64_t)number << shift);
}

/* Where the number is, or would be, among few. */
static uint32_t
few_place(const struct index_holder_set *set, uint32_t holder)
{
    uint32_t low = 0;
    uint32_t high = index_holder_set_count(set);

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (index_holder_set_number(set, middle) < holder)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool
index_holder_set_has(const struct index_holder_set *set, uint32_t holder)
{
    if (set->few != 0) {
        const uint32_t at = few_place(set, holder);

        return at < index_holder_set_count(set) && index_holder_set_number(set, at) == holder;
    }
    return holder / 64 < set->words &&
           (index_holder_set_word(set, holder / 64) >> holder % 64 & 1) != 0;
}

void
index_holder_set_add(struct index_holder_set *set, uint32_t holder)
{
    const uint32_t count = index_holder_set_count(set);

    assert(index_holder_set_fits(set, holder));
    if (set->few != 0) {
        const uint32_t at = few_place(set, holder);

        for (uint32_t i = count; i > at; i--)
            put_number(set, i, index_holder_set_number(set, i - 1));
        put_number(set, at, holder);
    } else {
        put_word(set, holder / 64,
                 index_holder_set_word(set, holder / 64) | UINT64_C(1) << holder % 64);
    }
    atomic_store_explicit(&set->count, count + 1, memory_order_relaxed);
}

void
index_holder_set_remove(struct index_holder_set *set, uint32_t holder)
{
    const uint32_t count = index_holder_set_count(set);

    assert(count > 0);
    if (set->few != 0) {
        for (uint32_t i = few_place(set, holder) + 1; i < count; i++)
            put_number(set, i - 1, index_holder_set_number(set, i));
    } else {
        put_word(set, holder / 64,
                 index_holder_set_word(set, holder / 64) & ~(UINT64_C(1) << holder % 64));
    }
    atomic_store_explicit(&set->count, count - 1, memory_order_relaxed);
}

uint32_t
index_holder_set_next(const struct index_holder_set *set, uint32_t holder)
{
    uint64_t word;
    uint32_t at = holder / 64;

    if (set->few != 0) {
        at = few_place(set, holder);
        return at < index_holder_set_count(set) ? index_holder_set_number(set, at)
                                                : INDEX_HOLDERS_MAX;
    }
    if (at >= set->words)
        return INDEX_HOLDERS_MAX;
    word = index_holder_set_word(set, at) & UINT64_MAX << holder % 64;
    while (word == 0) {
        if (++at >= set->words)
            return INDEX_HOLDERS_MAX;
        word = index_holder_set_word(set, at);
    }
    return at * 64 + (uint32_t)__builtin_ctzll(word);
}

struct index_holder_set *
index_holder_set_copy(const struct index_holder_set *set, struct index_memory *memory,
                      uint32_t count, uint32_t highest, bool overdraw)
{
    struct index_holder_set *copy = index_holder_set_new(memory, count, highest, overdraw);
    uint32_t holder = index_holder_set_next(set, 0);

    if (copy == NULL)
        return NULL;
    /* A bitmap is copied word by word, the rest one by one. */
    if (set->few == 0 && copy->few == 0) {
        assert(copy->words >= set->words ||
               index_holder_set_next(set, copy->words * 64u) == INDEX_HOLDERS_MAX);
        for (uint32_t i = 0; i < set->words && i < copy->words; i++)
            put_word(copy, i, index_holder_set_word(set, i));
        atomic_store_explicit(&copy->count, index_holder_set_count(set), memory_order_relaxed);
        return copy;
    }
    for (; holder < INDEX_HOLDERS_MAX; holder = index_holder_set_next(set, holder + 1))
        index_holder_set_add(copy, holder);
    return copy;
}
