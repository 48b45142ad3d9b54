#include "index/answer/find_result.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

enum {
    LEFT_FIRST = 256,
    STEPS_FIRST = 16,
};

enum kvt_err
index_find_result_new(struct index_find_result **out)
{
    struct index_find_result *found;

    assert(out != NULL);
    *out = NULL;
    found = kvt_calloc(1, sizeof(*found));
    if (found == NULL)
        return KVT_NOMEM;
    *out = found;
    return KVT_OK;
}

void
index_find_result_free(struct index_find_result *found)
{
    if (found == NULL)
        return;
    kvt_free(found->left);
    kvt_free(found->sorted);
    kvt_free(found->steps);
    kvt_free(found);
}

void
index_find_result_begin(struct index_find_result *found)
{
    memset(found->sets[found->followed].summary, 0, sizeof(found->sets[0].summary));
    found->upper = 0;
    found->depth = 0;
    found->length = 0;
    found->left_count = 0;
    found->step_count = 0;
}

bool
index_find_result_reserve(struct index_find_result *found, size_t more)
{
    if (found->step_count == found->step_capacity) {
        const uint32_t capacity =
            found->step_capacity == 0 ? STEPS_FIRST : 2 * found->step_capacity;
        uint32_t *steps = kvt_realloc(found->steps, capacity, sizeof(*steps));

        if (steps == NULL)
            return false;
        found->steps = steps;
        found->step_capacity = capacity;
    }
    if (more > found->left_capacity - found->left_tried) {
        size_t capacity = found->left_capacity == 0 ? LEFT_FIRST : found->left_capacity;
        uint64_t *left;
        uint64_t *sorted;

        while (capacity - found->left_tried < more)
            capacity *= 2;
        left = kvt_realloc(found->left, capacity, sizeof(*left));
        if (left == NULL)
            return false;
        found->left = left;
        sorted = kvt_realloc(found->sorted, capacity, sizeof(*sorted));
        if (sorted == NULL)
            return false;
        found->sorted = sorted;
        found->left_capacity = (uint32_t)capacity;
    }
    return true;
}

size_t
index_find_result_members(const struct index_find_result *found,
                          const struct index_find_result_set *set)
{
    size_t count = 0;

    for (uint32_t i = 0; i < found->upper; i++)
        for (uint64_t left = set->summary[i]; left != 0; left &= left - 1)
            count +=
                (size_t)__builtin_popcountll(set->words[i * 64 + (uint32_t)__builtin_ctzll(left)]);
    return count;
}

/* Bring a few keys in order. */
static void
sort_few(uint64_t *keys, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const uint64_t key = keys[i];
        uint32_t at = i;

        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* Bring keys in order by eight bits of them. */
static void
sort_pass(uint64_t *to, const uint64_t *from, uint32_t count, unsigned shift)
{
    enum { BITS = 8, VALUES = 1 << BITS };
    uint32_t starts[VALUES] = {0};
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        starts[from[i] >> shift & (VALUES - 1)]++;
    for (uint32_t i = 0; i < VALUES; i++) {
        const uint32_t here = starts[i];

        starts[i] = sum;
        sum += here;
    }
    for (uint32_t i = 0; i < count; i++)
        to[starts[from[i] >> shift & (VALUES - 1)]++] = from[i];
}

/* Those who left a run in no order: by holder, then by depth.  A run is short, but may begin
 * anywhere. */
static void
sort(struct index_find_result *found, uint32_t first, uint32_t count)
{
    enum { FEW = 32 };
    uint64_t *keys = found->left + first;

    if (count <= FEW) {
        sort_few(keys, count);
        return;
    }
    for (unsigned shift = 0; shift < 64; shift += shift == 8 ? 24 : 8) {
        sort_pass(found->sorted, keys, count, shift);
        memcpy(keys, found->sorted, count * sizeof(*keys));
    }
}

void
index_find_result_accept(struct index_find_result *found, uint32_t depth)
{
    const uint32_t first = found->left_count;

    found->followed = 1 - found->followed;
    if (found->depth == 0)
        for (uint32_t i = 0; i < INDEX_HOLDER_SET_WORDS_MAX / 64; i++)
            if (found->sets[found->followed].summary[i] != 0)
                found->upper = i + 1;
    if (found->left_tried > first) {
        found->steps[found->step_count++] = first;
        if (found->mixed)
            sort(found, first, found->left_tried - first);
        found->left_count = found->left_tried;
    }
    found->depth = depth;
    if (index_find_result_followers(found) > 0) {
        found->length = depth;
        return;
    }
    if (first < found->left_count)
        found->length = (uint32_t) ~(found->left[first] >> 32);
}

unsigned
index_find_result_followers(const struct index_find_result *found)
{
    const struct index_find_result_set *set = &found->sets[found->followed];
    unsigned count = 0;

    for (uint32_t i = 0; i < found->upper && count < 2; i++) {
        const uint64_t words = set->summary[i];

        if (words != 0) {
            const uint64_t word = set->words[i * 64 + (uint32_t)__builtin_ctzll(words)];

            count += (words & (words - 1)) != 0 || (word & (word - 1)) != 0 ? 2 : 1;
        }
    }
    return count < 2 ? count : 2;
}

size_t
index_find_result_count(const struct index_find_result *found)
{
    return found->left_count + index_find_result_members(found, &found->sets[found->followed]);
}

uint32_t
index_find_result_length(const struct index_find_result *found)
{
    return found->length;
}

/* Those who follow still, by number. */
static size_t
give_followers(const struct index_find_result *found, struct index_match *matches, size_t capacity)
{
    const struct index_find_result_set *set = &found->sets[found->followed];
    size_t given = 0;

    for (uint32_t i = 0; i < found->upper; i++) {
        for (uint64_t words = set->summary[i]; words != 0; words &= words - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(words);
            uint64_t bits = set->words[at];

            if (given + 64 <= capacity && bits == UINT64_MAX) {
                for (uint32_t j = 0; j < 64; j++)
                    matches[given++] =
                        (struct index_match){.holder = at * 64 + j, .blocks = found->depth};
                continue;
            }
            for (; bits != 0; bits &= bits - 1) {
                if (given == capacity)
                    return given;
                matches[given++] = (struct index_match){
                    .holder = at * 64 + (uint32_t)__builtin_ctzll(bits), .blocks = found->depth};
            }
        }
    }
    return given;
}

size_t
index_find_result_best(const struct index_find_result *found, struct index_match *matches,
                       size_t capacity)
{
    size_t given = give_followers(found, matches, capacity);
    uint32_t end = found->left_count;

    for (uint32_t step = found->step_count; step-- > 0 && given < capacity;) {
        const uint32_t first = found->steps[step];
        const size_t count = end - first < capacity - given ? end - first : capacity - given;

        for (size_t i = 0; i < count; i++)
            matches[given + i] =
                (struct index_match){.holder = (uint32_t)found->left[first + i],
                                     .blocks = (uint32_t) ~(found->left[first + i] >> 32)};
        given += count;
        end = first;
    }
    return given;
}
