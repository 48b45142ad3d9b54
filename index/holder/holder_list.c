#include "index/holder/holder_list.h"

#include <assert.h>

enum { SHRINK_FROM = 32, SHRINK_WHEN = 8, SET_SHRINK_WORDS = 16, SET_SHRINK_COUNT = 8 };

static inline void
put_span(struct index_box *box, uint32_t at, index_span span)
{
    atomic_store_explicit(index_box_span_at(box, at), span, memory_order_relaxed);
}

/* Where the rank is in the order, or would be. */
static uint32_t
order_place(const struct index_box *box, uint32_t rank)
{
    const _Atomic uint32_t *order = index_box_order(box);
    uint32_t low = 0;
    uint32_t high = atomic_load_explicit(&box->order_count, memory_order_relaxed);

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (atomic_load_explicit(&order[middle], memory_order_relaxed) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The only span of the holder, from the first block on, ended at `old` and ends at `now`; 0: there
 * was, or is, no such span. */
static void
order_change(struct index_box *box, uint32_t holder, uint32_t old, uint32_t now)
{
    _Atomic uint32_t *order = index_box_order(box);
    uint32_t count = atomic_load_explicit(&box->order_count, memory_order_relaxed);
    uint32_t at = old != 0 ? order_place(box, index_box_rank(holder, old)) : count;
    uint32_t to = now != 0 ? order_place(box, index_box_rank(holder, now)) : count;

    if (old == now)
        return;
    if (now != 0 && old != 0 && to > at)
        to--; /* it is counted itself */
    if (now == 0)
        to = count - 1;
    for (; at < to; at++)
        atomic_store_explicit(&order[at],
                              atomic_load_explicit(&order[at + 1], memory_order_relaxed),
                              memory_order_relaxed);
    for (; at > to; at--)
        atomic_store_explicit(&order[at],
                              atomic_load_explicit(&order[at - 1], memory_order_relaxed),
                              memory_order_relaxed);
    if (now != 0)
        atomic_store_explicit(&order[to], index_box_rank(holder, now), memory_order_relaxed);
    count = count + (now != 0) - (old != 0);
    atomic_store_explicit(&box->order_count, count, memory_order_relaxed);
}

bool
index_box_open(struct index_holding *holding, const struct index_holding_context *context,
               index_span first, bool overdraw)
{
    enum { SPANS = 4 };
    const size_t bytes = sizeof(struct index_box) + 12 * SPANS;
    struct index_box *box = overdraw ? index_memory_overdraw(context->memory, 1, bytes)
                                     : index_memory_take(context->memory, 1, bytes);

    if (box == NULL)
        return false;
    box->span_capacity = SPANS;
    box->end = (uint16_t)index_span_to(first);
    put_span(box, 0, first);
    atomic_store_explicit(&box->span_count, 1, memory_order_relaxed);
    if (index_span_from(first) == 0)
        order_change(box, index_span_holder(first), 0, index_span_to(first));
    atomic_store_explicit(&holding->box, box, memory_order_release);
    atomic_store_explicit(&holding->one, 0, memory_order_relaxed);
    return true;
}

void
index_box_retire(struct index_box *box, const struct index_holding_context *context)
{
    for (uint32_t i = 0; i < index_box_groups(box); i++) {
        struct index_set *set = index_box_set(box, i);

        index_epoch_retire(context->epoch, set, 1, index_set_bytes(set));
    }
    index_epoch_retire(context->epoch, box, 1, index_box_bytes(box));
}

uint32_t
index_box_place_read(const struct index_box *box, uint32_t holder)
{
    const uint64_t wanted = (uint64_t)holder << 44;
    uint32_t low = 0;
    uint32_t high = index_box_spans(box);

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (index_box_span(box, middle) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct index_box_seat
index_box_find(const struct index_box *box, uint32_t holder)
{
    struct index_box_seat seat = {.group = INDEX_BOX_NO_GROUP};

    seat.first = index_box_place_read(box, holder);
    while (seat.first + seat.count < index_box_spans(box) &&
           index_span_holder(index_box_span(box, seat.first + seat.count)) == holder)
        seat.count++;
    for (uint32_t i = 0; seat.count == 0 && i < index_box_groups(box); i++) {
        if (!index_set_has(index_box_set(box, i), holder))
            continue;
        seat.group = i;
        break;
    }
    return seat;
}

void
index_box_copy(const struct index_box *box, const struct index_box_seat *seat, uint32_t holder,
               struct index_spans *spans)
{
    spans->count = 0;
    if (seat->group != INDEX_BOX_NO_GROUP) {
        spans->spans[spans->count++] = (uint64_t)holder << 44 | index_box_key(box, seat->group);
        return;
    }
    for (uint32_t i = 0; i < seat->count; i++)
        spans->spans[spans->count++] = index_box_span(box, seat->first + i);
}

void
index_box_others(struct index_box *box, uint32_t holder, struct index_blocks *blocks)
{
    const uint32_t count = index_box_spans(box);

    for (uint32_t i = 0; i < index_box_groups(box) && blocks->count > 0; i++) {
        const struct index_set *set = index_box_set(box, i);
        const uint64_t key = index_box_key(box, i);

        if (index_set_count(set) > 1 || !index_set_has(set, holder))
            index_blocks_remove(blocks, index_span_from(key), index_span_to(key));
    }
    if (box->witness >= count)
        box->witness = 0;
    for (uint32_t i = 0, at = box->witness; i < count && blocks->count > 0; i++) {
        const index_span span = index_box_span(box, at);

        if (index_span_holder(span) != holder) {
            index_blocks_remove(blocks, index_span_from(span), index_span_to(span));
            box->witness = at;
        }
        if (++at == count)
            at = 0;
    }
}

/* The group of holders with this part. */
static uint32_t
find_group(const struct index_box *box, index_span span)
{
    const uint64_t key = span & INDEX_SPAN_KEY_MASK;
    uint32_t at = 0;

    while (at < index_box_groups(box) && index_box_key(box, at) != key)
        at++;
    return at < index_box_groups(box) ? at : INDEX_BOX_NO_GROUP;
}

/* Make sure that the group has room for the holder. */
static bool
make_room(struct index_box *box, const struct index_holding_context *context, uint32_t at,
          uint32_t holder, bool overdraw)
{
    struct index_group *group = index_box_group(box, at);
    struct index_set *set = index_box_set(box, at);
    struct index_set *larger;
    uint32_t highest = holder;

    if (index_set_fits(set, holder))
        return true;
    if (set->few != 0) {
        const uint32_t last = index_set_number(set, index_set_count(set) - 1);

        highest = last > holder ? last : holder;
    } else {
        /* By a quarter more, so that holders that come by number do not copy it each time. */
        highest += highest / 4;
        if (highest >= INDEX_HOLDERS_MAX)
            highest = INDEX_HOLDERS_MAX - 1;
    }
    larger = index_set_copy(set, context->memory, index_set_count(set) + 1, highest, overdraw);
    if (larger == NULL)
        return false;
    if (!index_set_fits(larger, holder)) {
        index_memory_give(context->memory, larger, 1, index_set_bytes(larger));
        return false;
    }
    atomic_store_explicit(&group->set, larger, memory_order_release);
    index_epoch_retire(context->epoch, set, 1, index_set_bytes(set));
    return true;
}

/* Take the holder out of its group; an empty group goes. */
static void
leave_group(struct index_box *box, const struct index_holding_context *context, uint32_t at,
            uint32_t holder)
{
    struct index_group *group = index_box_group(box, at);
    struct index_set *set = index_box_set(box, at);
    const uint32_t last = index_box_groups(box) - 1;

    index_set_remove(set, holder);
    if (index_set_count(set) == 0) {
        atomic_store_explicit(&group->key, index_box_key(box, last), memory_order_relaxed);
        atomic_store_explicit(&group->set, index_box_set(box, last), memory_order_release);
        atomic_store_explicit(&index_box_group(box, last)->set, NULL, memory_order_relaxed);
        atomic_store_explicit(&box->group_count, last, memory_order_relaxed);
        index_epoch_retire(context->epoch, set, 1, index_set_bytes(set));
    } else if (set->words > SET_SHRINK_WORDS && index_set_count(set) == SET_SHRINK_COUNT) {
        uint32_t highest = 0;
        struct index_set *smaller;

        for (uint32_t i = 0; i < INDEX_HOLDERS_MAX; i = index_set_next(set, i + 1))
            highest = i;
        smaller = index_set_copy(set, context->memory, SET_SHRINK_COUNT, highest, false);
        if (smaller == NULL)
            return; /* it works as it is */
        atomic_store_explicit(&group->set, smaller, memory_order_release);
        index_epoch_retire(context->epoch, set, 1, index_set_bytes(set));
    }
}

/* Put `spans` where those of the seat are. */
static void
replace_spans(struct index_box *box, const struct index_box_seat *seat, const index_span *spans,
              uint32_t count)
{
    const uint32_t old = index_box_spans(box);
    const uint32_t now = old - seat->count + count;
    const uint32_t behind = seat->first + seat->count;

    if (now > old)
        for (uint32_t i = old; i > behind; i--)
            put_span(box, i - 1 + now - old, index_box_span(box, i - 1));
    if (now < old)
        for (uint32_t i = behind; i < old; i++)
            put_span(box, i + now - old, index_box_span(box, i));
    for (uint32_t i = 0; i < count; i++)
        put_span(box, seat->first + i, spans[i]);
    atomic_store_explicit(&box->span_count, now, memory_order_relaxed);
}

/* Where the holder goes with `spans`, with room made for it; false: no memory. */
static bool
prepare(struct index_holding *holding, const struct index_holding_context *context, uint32_t holder,
        const struct index_spans *spans, bool overdraw, struct index_box_seat *seat,
        uint32_t *target)
{
    for (;;) {
        struct index_box *box = index_box_of(holding);

        *seat = index_box_find(box, holder);
        *target = spans->count == 1 ? find_group(box, spans->spans[0]) : INDEX_BOX_NO_GROUP;
        if (*target != INDEX_BOX_NO_GROUP &&
            (*target == seat->group || make_room(box, context, *target, holder, overdraw)))
            return true;
        *target = INDEX_BOX_NO_GROUP;
        if (index_box_spans(box) - seat->count + spans->count <= box->span_capacity)
            return true;
        if (!index_box_rebuild(holding, context, spans->count, overdraw))
            return false;
    }
}

/* Where the span ends, if it is all there is and begins with the run; otherwise 0. */
static uint32_t
simple_end(uint32_t count, index_span first)
{
    return count == 1 && index_span_from(first) == 0 ? index_span_to(first) : 0;
}

bool
index_box_put(struct index_holding *holding, const struct index_holding_context *context,
              uint32_t holder, const struct index_spans *spans, bool overdraw)
{
    struct index_box_seat seat;
    struct index_box *box;
    uint32_t target;
    uint32_t old;

    if (!prepare(holding, context, holder, spans, overdraw, &seat, &target))
        return false;
    box = index_box_of(holding);
    for (uint32_t i = 0; i < spans->count; i++)
        if (index_span_to(spans->spans[i]) > box->end)
            box->end = (uint16_t)index_span_to(spans->spans[i]);
    if (target != INDEX_BOX_NO_GROUP && target == seat.group)
        return true;
    if (target != INDEX_BOX_NO_GROUP)
        index_set_add(index_box_set(box, target), holder);
    old = seat.count == 0 ? 0 : simple_end(seat.count, index_box_span(box, seat.first));
    if (target != INDEX_BOX_NO_GROUP) {
        replace_spans(box, &seat, NULL, 0);
        order_change(box, holder, old, 0);
    } else {
        replace_spans(box, &seat, spans->spans, spans->count);
        order_change(box, holder, old, simple_end(spans->count, spans->spans[0]));
    }
    if (seat.group != INDEX_BOX_NO_GROUP)
        leave_group(box, context, seat.group, holder);
    /* Without memory it stays as large as it is. */
    if (box->span_capacity >= SHRINK_FROM &&
        index_box_spans(box) < box->span_capacity / SHRINK_WHEN)
        (void)!index_box_rebuild(holding, context, index_box_spans(box), false);
    return true;
}

/* Somebody but the holder, who has nothing of it, has all of [from, to). */
static bool
others_have(struct index_box *box, uint32_t holder, uint32_t from, uint32_t to)
{
    const uint32_t count = index_box_spans(box);
    index_span span = 0;

    if (box->witness < count)
        span = index_box_span(box, box->witness);
    if (span != 0 && index_span_holder(span) != holder && index_span_from(span) <= from &&
        to <= index_span_to(span))
        return true;
    for (uint32_t i = 0; i < index_box_groups(box); i++)
        if (index_span_from(index_box_key(box, i)) <= from &&
            to <= index_span_to(index_box_key(box, i)))
            return true;
    return false;
}

bool
index_box_extend(struct index_holding *holding, const struct index_holding_context *context,
                 uint32_t holder, uint32_t code, uint32_t from, uint32_t to)
{
    struct index_box *box = index_box_of(holding);
    const struct index_box_seat seat = index_box_find(box, holder);
    uint32_t begin = from;
    uint32_t target;
    struct index_spans spans;
    index_span old = 0;

    if (seat.group != INDEX_BOX_NO_GROUP)
        old = (uint64_t)holder << 44 | index_box_key(box, seat.group);
    else if (seat.count == 1)
        old = index_box_span(box, seat.first);
    if (old != 0) {
        if (index_span_code(old) != code || index_span_to(old) != from)
            return false;
        begin = index_span_from(old);
    }
    if (seat.count > 1 || !others_have(box, holder, from, to))
        return false;
    spans.count = 1;
    spans.spans[0] = index_span_make(holder, code, begin, to);
    target = find_group(box, spans.spans[0]);
    if (seat.group != INDEX_BOX_NO_GROUP && target != INDEX_BOX_NO_GROUP &&
        index_set_fits(index_box_set(box, target), holder)) {
        index_set_add(index_box_set(box, target), holder);
        leave_group(box, context, seat.group, holder);
        return true;
    }
    if (seat.count != 1 || target != INDEX_BOX_NO_GROUP)
        return index_box_put(holding, context, holder, &spans, false);
    put_span(box, seat.first, spans.spans[0]);
    if (begin == 0)
        order_change(box, holder, from, to);
    return true;
}

void
index_box_close(struct index_holding *holding, const struct index_holding_context *context)
{
    struct index_box *box = index_box_of(holding);
    const uint32_t groups = index_box_groups(box);
    const uint32_t spans = index_box_spans(box);
    index_span one = 0;

    if (groups == 0 && spans == 1)
        one = index_box_span(box, 0);
    else if (groups == 1 && spans == 0 && index_set_count(index_box_set(box, 0)) == 1)
        one = (uint64_t)index_set_next(index_box_set(box, 0), 0) << 44 | index_box_key(box, 0);
    else if (groups != 0 || spans != 0)
        return;
    atomic_store_explicit(&holding->one, one, memory_order_relaxed);
    atomic_store_explicit(&holding->box, NULL, memory_order_relaxed);
    index_box_retire(box, context);
}

void
index_box_end(struct index_box *box)
{
    const uint32_t old = box->end;
    uint32_t end = 0;

    for (uint32_t i = 0; i < index_box_groups(box); i++)
        if (index_span_to(index_box_key(box, i)) > end)
            end = index_span_to(index_box_key(box, i));
    for (uint32_t i = 0; i < index_box_spans(box) && end < old; i++)
        if (index_span_to(index_box_span(box, i)) > end)
            end = index_span_to(index_box_span(box, i));
    box->end = (uint16_t)end;
}
