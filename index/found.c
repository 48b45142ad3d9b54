#include "index/found.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

enum {
    LEFT_FIRST = 256,
    STEPS_FIRST = 16,
};

enum kvt_err
index_found_new(struct index_found **out)
{
    struct index_found *found;

    assert(out != NULL);
    *out = NULL;
    found = kvt_calloc(1, sizeof(*found));
    if (found == NULL)
        return KVT_NOMEM;
    *out = found;
    return KVT_OK;
}

void
index_found_free(struct index_found *found)
{
    if (found == NULL)
        return;
    kvt_free(found->left);
    kvt_free(found->next);
    kvt_free(found->steps);
    kvt_free(found);
}

void
index_found_begin(struct index_found *found)
{
    memset(found->sets[found->followed].summary, 0, sizeof(found->sets[0].summary));
    found->upper = 0;
    found->depth = 0;
    found->length = 0;
    found->left_count = 0;
    found->step_count = 0;
}

bool
index_found_reserve(struct index_found *found, size_t more)
{
    if (found->step_count == found->step_capacity) {
        const uint32_t capacity =
            found->step_capacity == 0 ? STEPS_FIRST : 2 * found->step_capacity;
        struct index_found_step *steps = kvt_realloc(found->steps, capacity, sizeof(*steps));

        if (steps == NULL)
            return false;
        found->steps = steps;
        found->step_capacity = capacity;
    }
    if (more > found->left_capacity - found->left_tried) {
        size_t capacity = found->left_capacity == 0 ? LEFT_FIRST : found->left_capacity;
        uint64_t *left;
        uint32_t *next;

        while (capacity - found->left_tried < more)
            capacity *= 2;
        left = kvt_realloc(found->left, capacity, sizeof(*left));
        if (left == NULL)
            return false;
        found->left = left;
        next = kvt_realloc(found->next, capacity, sizeof(*next));
        if (next == NULL)
            return false;
        found->next = next;
        found->left_capacity = (uint32_t)capacity;
    }
    return true;
}

size_t
index_found_members(const struct index_found *found, const struct index_found_set *set)
{
    size_t count = 0;

    for (uint32_t i = 0; i < found->upper; i++)
        for (uint64_t left = set->summary[i]; left != 0; left &= left - 1)
            count +=
                (size_t)__builtin_popcountll(set->words[i * 64 + (uint32_t)__builtin_ctzll(left)]);
    return count;
}

/* Bring keys in order: heap sort, for it is rarely needed. */
static void
sort(uint64_t *keys, size_t count)
{
    size_t made = count / 2;
    size_t end = count;

    while (end > 1) {
        size_t at = 0;
        uint64_t key;

        if (made > 0) {
            at = --made;
            key = keys[at];
        } else {
            key = keys[--end];
            keys[end] = keys[0];
        }
        for (size_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
            if (child + 1 < end && keys[child + 1] > keys[child])
                child++;
            if (keys[child] <= key)
                break;
            keys[at] = keys[child];
            at = child;
        }
        keys[at] = key;
    }
}

void
index_found_accept(struct index_found *found, uint32_t depth)
{
    const uint32_t first = found->left_count;
    uint64_t least = UINT64_MAX;

    found->followed = 1 - found->followed;
    if (found->depth == 0)
        for (uint32_t i = 0; i < INDEX_SET_WORDS_MAX / 64; i++)
            if (found->sets[found->followed].summary[i] != 0)
                found->upper = i + 1;
    if (found->left_tried > first) {
        found->steps[found->step_count++] =
            (struct index_found_step){.first = first, .depth = found->depth};
        if (found->mixed)
            sort(found->left + first, found->left_tried - first);
        found->left_count = found->left_tried;
    }
    found->depth = depth;
    if (index_found_followers(found) > 0) {
        found->length = depth;
        return;
    }
    for (uint32_t i = first; i < found->left_count; i++)
        least = found->left[i] < least ? found->left[i] : least;
    if (first < found->left_count)
        found->length = (uint32_t) ~(least >> 32);
}

unsigned
index_found_followers(const struct index_found *found)
{
    const struct index_found_set *set = &found->sets[found->followed];
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
index_found_count(const struct index_found *found)
{
    return found->left_count + index_found_members(found, &found->sets[found->followed]);
}

uint32_t
index_found_length(const struct index_found *found)
{
    return found->length;
}

/* Those who follow still, by number. */
static size_t
give_followers(const struct index_found *found, struct index_match *matches, size_t capacity)
{
    const struct index_found_set *set = &found->sets[found->followed];
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

/* Those who left in one step: lists by depth, the deepest first. */
static size_t
give_step(const struct index_found *found, uint32_t step, struct index_match *matches,
          size_t capacity)
{
    enum { NONE = UINT32_MAX };
    const uint32_t base = found->steps[step].depth;
    const uint32_t first = found->steps[step].first;
    uint32_t i = step + 1 < found->step_count ? found->steps[step + 1].first : found->left_count;
    uint64_t used[INDEX_RUN_BLOCKS_MAX / 64 + 1] = {0};
    uint32_t heads[INDEX_RUN_BLOCKS_MAX + 1];
    size_t given = 0;

    while (i-- > first) {
        const uint32_t at = (uint32_t) ~(found->left[i] >> 32) - base;
        const uint64_t bit = UINT64_C(1) << at % 64;

        found->next[i] = (used[at / 64] & bit) != 0 ? heads[at] : NONE;
        used[at / 64] |= bit;
        heads[at] = i;
    }
    for (uint32_t word = INDEX_RUN_BLOCKS_MAX / 64 + 1; word-- > 0;) {
        while (used[word] != 0) {
            const uint32_t bit = 63 - (uint32_t)__builtin_clzll(used[word]);
            const uint32_t at = word * 64 + bit;

            used[word] ^= UINT64_C(1) << bit;
            for (i = heads[at]; i != NONE; i = found->next[i]) {
                if (given == capacity)
                    return given;
                matches[given++] =
                    (struct index_match){.holder = (uint32_t)found->left[i], .blocks = base + at};
            }
        }
    }
    return given;
}

size_t
index_found_best(const struct index_found *found, struct index_match *matches, size_t capacity)
{
    size_t given = give_followers(found, matches, capacity);

    for (uint32_t step = found->step_count; step-- > 0 && given < capacity;)
        given += give_step(found, step, matches + given, capacity - given);
    return given;
}
