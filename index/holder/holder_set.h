/*
 * index/holder/holder_set.h -- a set of holders.
 *
 * Why: thousands of holders of one system prompt must cost bits, and three of them must not cost a
 * kilobyte: numbers in order while they are few, a bitmap beyond.
 *
 * Ownership: whoever makes a set frees it; sets that readers saw go through the epoch.
 * Threads:   changes under the index's lock.  index_holder_set_has() and reading `data` are safe
 *            beside them: torn at worst, never out of bounds, for `few` and `words` never change.
 * Limits:    numbers below INDEX_HOLDERS_MAX.
 */
#ifndef INDEX_HOLDER_HOLDER_SET_H
#define INDEX_HOLDER_HOLDER_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/index.h"
#include "index/memory/memory.h"

#define INDEX_HOLDER_SET_FEW_MAX   64
#define INDEX_HOLDER_SET_WORDS_MAX (INDEX_HOLDERS_MAX / 64)

_Static_assert(INDEX_HOLDERS_MAX <= 65536, "a holder is a 16-bit number in a set");

struct index_holder_set {
    uint16_t few;   /* room for this many numbers, in order; 0: a bitmap */
    uint16_t words; /* of the bitmap */
    _Atomic uint32_t count;
    _Atomic uint64_t data[]; /* four numbers each, low bits first; or bits */
};

/** An empty set with room for `count` numbers up to `highest`; NULL: no memory. */
struct index_holder_set *index_holder_set_new(struct index_memory *memory, uint32_t count,
                                              uint32_t highest, bool overdraw);
size_t index_holder_set_bytes(const struct index_holder_set *set);

/** Whether the set can take the number as it is. */
bool index_holder_set_fits(const struct index_holder_set *set, uint32_t holder);
/** The same numbers in a set of another size, as index_holder_set_new(). */
struct index_holder_set *index_holder_set_copy(const struct index_holder_set *set,
                                               struct index_memory *memory, uint32_t count,
                                               uint32_t highest, bool overdraw);
/** Add a number that is not there and fits. */
void index_holder_set_add(struct index_holder_set *set, uint32_t holder);
/** Remove a number that is there. */
void index_holder_set_remove(struct index_holder_set *set, uint32_t holder);

/** The first number from `holder` on; INDEX_HOLDERS_MAX: none. */
uint32_t index_holder_set_next(const struct index_holder_set *set, uint32_t holder);

static inline uint32_t
index_holder_set_count(const struct index_holder_set *set)
{
    return atomic_load_explicit(&set->count, memory_order_relaxed);
}

static inline uint64_t
index_holder_set_word(const struct index_holder_set *set, uint32_t at)
{
    return atomic_load_explicit(&set->data[at], memory_order_relaxed);
}

/** The `at`-th of few numbers. */
static inline uint32_t
index_holder_set_number(const struct index_holder_set *set, uint32_t at)
{
    return index_holder_set_word(set, at / 4) >> at % 4 * 16 & 0xffff;
}

bool index_holder_set_has(const struct index_holder_set *set, uint32_t holder);

#endif /* INDEX_HOLDER_HOLDER_SET_H */
