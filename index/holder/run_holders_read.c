#include "index/holder/holder_list.h"
#include "index/holder/run_holders.h"

/* Groups a reader may look at, also of a box that changes. */
static uint32_t
groups_of(const struct index_box *box)
{
    const uint32_t groups = index_box_groups(box);

    return groups < box->group_capacity ? groups : box->group_capacity;
}

static bool
covers(index_span span, uint32_t block)
{
    return index_span_from(span) <= block && block < index_span_to(span);
}

/* The first span of a box behind the cursor; 0: none. */
static index_span
next_span(const struct index_box *box, uint32_t holder, uint32_t block)
{
    const uint32_t count = index_box_spans(box);

    for (uint32_t at = index_box_place_read(box, holder); at < count; at++) {
        const index_span span = index_box_span(box, at);

        if (index_span_holder(span) != holder || index_span_to(span) > block)
            return span;
    }
    return 0;
}

bool
index_holding_next_read(const struct index_holding *holding, uint64_t *cursor,
                        struct index_holding_place *place)
{
    const struct index_box *box = index_box_of(holding);
    const uint32_t holder = (uint32_t)(*cursor >> 16);
    const uint32_t block = *cursor & 0xffff;
    index_span best = atomic_load_explicit(&holding->one, memory_order_relaxed);

    *place = (struct index_holding_place){.holder = 0};
    if (box != NULL) {
        best = next_span(box, holder, block);
        for (uint32_t i = 0; i < groups_of(box); i++) {
            const struct index_set *set = index_box_set(box, i);
            const uint64_t key = index_box_key(box, i);
            const uint32_t first = holder + (index_span_to(key) <= block);
            const uint32_t next = set != NULL ? index_set_next(set, first) : INDEX_HOLDERS_MAX;

            if (next < INDEX_HOLDERS_MAX && (best == 0 || next < index_span_holder(best)))
                best = (uint64_t)next << 44 | key;
        }
    } else if (index_span_holder(best) < holder ||
               (index_span_holder(best) == holder && index_span_to(best) <= block)) {
        best = 0;
    }
    if (best == 0)
        return false;
    *place = (struct index_holding_place){.holder = index_span_holder(best),
                                          .code = index_span_code(best),
                                          .from = index_span_from(best),
                                          .to = index_span_to(best)};
    if (place->holder == holder && place->from < block)
        place->from = block;
    *cursor = (uint64_t)place->holder << 16 | place->to;
    return true;
}

uint32_t
index_holding_code_read(const struct index_holding *holding, uint32_t holder, uint32_t block)
{
    const struct index_box *box = index_box_of(holding);
    const index_span one = atomic_load_explicit(&holding->one, memory_order_relaxed);
    uint32_t count;

    if (box == NULL)
        return index_span_holder(one) == holder && covers(one, block) ? index_span_code(one) : 0;
    count = index_box_spans(box);
    for (uint32_t at = index_box_place_read(box, holder); at < count; at++) {
        const index_span span = index_box_span(box, at);

        if (index_span_holder(span) != holder)
            break;
        if (covers(span, block))
            return index_span_code(span);
    }
    for (uint32_t i = 0; i < groups_of(box); i++) {
        const struct index_set *set = index_box_set(box, i);
        const uint64_t key = index_box_key(box, i);

        if (covers(key, block) && set != NULL && index_set_has(set, holder))
            return index_span_code(key);
    }
    return 0;
}

/* The first holder of the block in a group, from `holder` on; 0: none. */
static index_span
next_in_groups(const struct index_box *box, uint32_t holder, uint32_t block)
{
    index_span best = 0;

    for (uint32_t i = 0; i < groups_of(box); i++) {
        const struct index_set *set = index_box_set(box, i);
        const uint64_t key = index_box_key(box, i);
        uint32_t next;

        if (!covers(key, block) || set == NULL)
            continue;
        next = index_set_next(set, holder);
        if (next < INDEX_HOLDERS_MAX && (best == 0 || next < index_span_holder(best)))
            best = (uint64_t)next << 44 | key;
    }
    return best;
}

static size_t
count_holders(const struct index_box *box, uint32_t block)
{
    const uint32_t spans = index_box_spans(box);
    size_t count = 0;

    for (uint32_t i = 0; i < groups_of(box); i++) {
        const struct index_set *set = index_box_set(box, i);

        if (set != NULL && covers(index_box_key(box, i), block))
            count += index_set_count(set);
    }
    for (uint32_t i = 0; i < spans; i++)
        count += covers(index_box_span(box, i), block);
    return count;
}

size_t
index_holding_block_read(const struct index_holding *holding, uint32_t block,
                         struct index_holding_place *places, size_t capacity)
{
    const struct index_box *box = index_box_of(holding);
    const index_span one = atomic_load_explicit(&holding->one, memory_order_relaxed);
    uint32_t holder = 0;
    uint32_t at = 0;

    if (box == NULL) {
        if (!covers(one, block))
            return 0;
        if (capacity > 0)
            places[0] = (struct index_holding_place){.holder = index_span_holder(one),
                                                     .code = index_span_code(one),
                                                     .from = index_span_from(one),
                                                     .to = index_span_to(one)};
        return 1;
    }
    for (size_t filled = 0; filled < capacity && holder < INDEX_HOLDERS_MAX; filled++) {
        index_span best = next_in_groups(box, holder, block);

        while (at < index_box_spans(box) && !covers(index_box_span(box, at), block))
            at++;
        if (at < index_box_spans(box) &&
            (best == 0 || index_span_holder(index_box_span(box, at)) < index_span_holder(best)))
            best = index_box_span(box, at++);
        if (best == 0)
            break;
        places[filled] = (struct index_holding_place){.holder = index_span_holder(best),
                                                      .code = index_span_code(best),
                                                      .from = index_span_from(best),
                                                      .to = index_span_to(best)};
        holder = index_span_holder(best) + 1;
    }
    return count_holders(box, block);
}
