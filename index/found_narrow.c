#include <string.h>

#include "index/found.h"

enum {
    SPARSE_FROM = 256, /* spans from which looking up a few followers pays */
    SPARSE_COST = 16,  /* a search in as many spans as this costs */
};

static inline void
or_word(struct index_found_set *set, uint32_t at, uint64_t bits)
{
    const uint64_t bit = UINT64_C(1) << at % 64;

    set->words[at] = (set->summary[at / 64] & bit) != 0 ? set->words[at] | bits : bits;
    set->summary[at / 64] |= bit;
}

static inline bool
has(const struct index_found_set *set, uint32_t holder)
{
    return (index_found_word(set, holder / 64) >> holder % 64 & 1) != 0;
}

/* One run being read. */
struct reading {
    struct index_found *found;
    const struct index_found_set *old; /* NULL: all there are */
    struct index_found_set *now;
    uint32_t from;
    uint32_t to;
    uint32_t depth;
    uint64_t depths[INDEX_RUN_BLOCKS_MAX / 64 + 1]; /* where groups left */
    bool groups_left;
};

static inline uint64_t
left_key(const struct reading *reading, uint32_t end, uint32_t holder)
{
    return (uint64_t) ~(reading->depth + (end - reading->from)) << 32 | holder;
}

/* Followers of one word of a set that have the same part, up to `end`. */
static inline void
take_word(struct reading *reading, uint32_t at, uint64_t bits, uint32_t end)
{
    struct index_found *found = reading->found;

    if (reading->old != NULL)
        bits &= index_found_word(reading->old, at);
    if (bits == 0)
        return;
    if (end >= reading->to) {
        or_word(reading->now, at, bits);
        return;
    }
    for (; bits != 0 && found->left_tried < found->left_capacity; bits &= bits - 1)
        found->left[found->left_tried++] =
            left_key(reading, end, at * 64 + (uint32_t)__builtin_ctzll(bits));
}

/* Two sources must not give one depth, or holders of it are not in order. */
static void
note_depth(struct reading *reading, uint32_t end)
{
    const uint64_t bit = UINT64_C(1) << end % 64;

    if ((reading->depths[end / 64] & bit) != 0)
        reading->found->mixed = true;
    reading->depths[end / 64] |= bit;
    reading->groups_left = true;
}

static bool
take_group(struct reading *reading, const struct index_set *set, uint64_t key)
{
    const uint32_t end = index_span_to(key);
    uint32_t words = set->words;
    const uint32_t count = index_set_count(set);

    if (index_span_from(key) > reading->from || end <= reading->from)
        return true;
    if (end < reading->to) {
        if (!index_found_reserve(reading->found, count))
            return false;
        note_depth(reading, end);
    }
    if (set->few != 0) {
        for (uint32_t i = 0; i < count && i < set->few; i++) {
            const uint32_t holder = index_set_number(set, i);

            take_word(reading, holder / 64, UINT64_C(1) << holder % 64, end);
        }
    } else if (reading->old == NULL) {
        for (uint32_t i = 0; i < words; i++)
            take_word(reading, i, index_set_word(set, i), end);
    } else {
        for (uint32_t i = 0; i < reading->found->upper && i * 64 < words; i++) {
            for (uint64_t left = reading->old->summary[i]; left != 0; left &= left - 1) {
                const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(left);

                if (at < words)
                    take_word(reading, at, index_set_word(set, at), end);
            }
        }
    }
    return true;
}

/* The holder follows to block `end`. */
static inline void
take_one(struct reading *reading, uint32_t holder, uint32_t end)
{
    struct index_found *found = reading->found;

    if (end >= reading->to) {
        or_word(reading->now, holder / 64, UINT64_C(1) << holder % 64);
        return;
    }
    if (reading->groups_left && (reading->depths[end / 64] >> end % 64 & 1) != 0)
        found->mixed = true;
    if (found->left_tried < found->left_capacity)
        found->left[found->left_tried++] = left_key(reading, end, holder);
}

/* The spans of one holder from `at` on: to what block it follows, or 0; `at` moves behind them. */
static inline uint32_t
follow(const struct reading *reading, const struct index_box *box, uint32_t count, uint32_t *at)
{
    const index_span first = index_box_span(box, (*at)++);
    uint32_t end = index_span_to(first);

    if (index_span_from(first) > reading->from || end <= reading->from)
        return 0;
    while (end < reading->to && *at < count) {
        const index_span next = index_box_span(box, *at);

        if (index_span_holder(next) != index_span_holder(first) || index_span_from(next) != end)
            break;
        end = index_span_to(next);
        (*at)++;
    }
    return end <= INDEX_RUN_BLOCKS_MAX ? end : 0;
}

/* Few follow and many hold: look each one up. */
static void
look_up(struct reading *reading, const struct index_box *box, uint32_t count)
{
    for (uint32_t i = 0; i < reading->found->upper * 64; i++) {
        for (uint64_t bits = index_found_word(reading->old, i); bits != 0; bits &= bits - 1) {
            const uint32_t holder = i * 64 + (uint32_t)__builtin_ctzll(bits);
            uint32_t at = index_box_place_read(box, holder);

            while (at < count && index_span_holder(index_box_span(box, at)) == holder) {
                const uint32_t end = follow(reading, box, count, &at);

                if (end == 0)
                    continue;
                take_one(reading, holder, end);
                break;
            }
        }
    }
}

static bool
take_spans(struct reading *reading, const struct index_box *box)
{
    const uint32_t count = index_box_spans(box);

    if (!index_found_reserve(reading->found, count))
        return false;
    if (reading->old != NULL && count >= SPARSE_FROM &&
        index_found_members(reading->found, reading->old) < count / SPARSE_COST) {
        look_up(reading, box, count);
        return true;
    }
    for (uint32_t at = 0; at < count;) {
        const uint32_t holder = index_span_holder(index_box_span(box, at)) % INDEX_HOLDERS_MAX;
        const uint32_t end = follow(reading, box, count, &at);

        if (end != 0 && (reading->old == NULL || has(reading->old, holder)))
            take_one(reading, holder, end);
    }
    return true;
}

/* Who followed and has nothing here leaves where the run begins. */
static bool
leave_behind(struct reading *reading)
{
    struct index_found *found = reading->found;
    const struct index_found_set *old = reading->old;
    uint64_t any = 0;

    for (uint32_t i = 0; i < found->upper; i++) {
        for (uint64_t words = old->summary[i]; words != 0; words &= words - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(words);

            found->rest[at] = old->words[at] & ~index_found_word(reading->now, at);
            any |= found->rest[at];
        }
    }
    if (any == 0)
        return true;
    for (uint32_t i = found->left_count; i < found->left_tried; i++)
        found->rest[(uint32_t)found->left[i] / 64] &=
            ~(UINT64_C(1) << (uint32_t)found->left[i] % 64);
    for (uint32_t i = 0; i < found->upper; i++) {
        for (uint64_t words = old->summary[i]; words != 0; words &= words - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(words);

            if (found->rest[at] != 0 && !index_found_reserve(found, 64))
                return false;
            for (uint64_t bits = found->rest[at]; bits != 0; bits &= bits - 1)
                found->left[found->left_tried++] =
                    left_key(reading, reading->from, at * 64 + (uint32_t)__builtin_ctzll(bits));
        }
    }
    return true;
}

enum kvt_err
index_found_narrow(struct index_found *found, const struct index_holding *holding, uint32_t from,
                   uint32_t to, uint32_t depth)
{
    const struct index_box *box = index_box_of(holding);
    struct reading reading = {
        .found = found,
        .old = depth == 0 ? NULL : &found->sets[found->followed],
        .now = &found->sets[1 - found->followed],
        .from = from,
        .to = to,
        .depth = depth,
    };

    memset(reading.now->summary, 0, sizeof(reading.now->summary));
    found->left_tried = found->left_count;
    found->mixed = false;
    if (!index_found_reserve(found, 1))
        return KVT_NOMEM;
    if (box == NULL) {
        const index_span one = atomic_load_explicit(&holding->one, memory_order_relaxed);
        const uint32_t holder = index_span_holder(one) % INDEX_HOLDERS_MAX;

        if (index_span_from(one) <= from && from < index_span_to(one) &&
            (reading.old == NULL || has(reading.old, holder)))
            take_one(&reading, holder, index_span_to(one));
    } else {
        for (uint32_t i = 0; i < index_box_groups(box) && i < box->group_capacity; i++) {
            const struct index_set *set = index_box_set(box, i);

            if (set != NULL && !take_group(&reading, set, index_box_key(box, i)))
                return KVT_NOMEM;
        }
        if (!take_spans(&reading, box))
            return KVT_NOMEM;
    }
    return reading.old == NULL || leave_behind(&reading) ? KVT_OK : KVT_NOMEM;
}
