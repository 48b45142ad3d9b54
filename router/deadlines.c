#include "router/deadlines.h"

#include <assert.h>

#include "base/core/alloc.h"

void
router_deadlines_release(struct router_deadlines *deadlines)
{
    kvt_free(deadlines->heap);
    *deadlines = (struct router_deadlines){0};
}

static void
put(struct router_deadlines *deadlines, size_t place, struct router_deadline *deadline)
{
    deadlines->heap[place] = deadline;
    deadline->place = place;
}

/* From `place` towards the first. */
static void
rise(struct router_deadlines *deadlines, size_t place, struct router_deadline *deadline)
{
    while (place > 0) {
        const size_t above = (place - 1) / 2;

        if (deadlines->heap[above]->at_ms <= deadline->at_ms)
            break;
        put(deadlines, place, deadlines->heap[above]);
        place = above;
    }
    put(deadlines, place, deadline);
}

static void
sink(struct router_deadlines *deadlines, size_t place, struct router_deadline *deadline)
{
    for (;;) {
        size_t below = 2 * place + 1;

        if (below >= deadlines->count)
            break;
        if (below + 1 < deadlines->count &&
            deadlines->heap[below + 1]->at_ms < deadlines->heap[below]->at_ms)
            below++;
        if (deadline->at_ms <= deadlines->heap[below]->at_ms)
            break;
        put(deadlines, place, deadlines->heap[below]);
        place = below;
    }
    put(deadlines, place, deadline);
}

bool
router_deadlines_add(struct router_deadlines *deadlines, struct router_deadline *deadline)
{
    struct router_deadline **heap =
        kvt_grow(deadlines->heap, &deadlines->capacity, deadlines->count + 1, sizeof(heap[0]));

    if (heap == NULL)
        return false;
    deadlines->heap = heap;
    deadlines->count++;
    rise(deadlines, deadlines->count - 1, deadline);
    return true;
}

void
router_deadlines_remove(struct router_deadlines *deadlines, struct router_deadline *deadline)
{
    struct router_deadline *last = deadlines->heap[deadlines->count - 1];
    const size_t place = deadline->place;

    assert(place < deadlines->count && deadlines->heap[place] == deadline);
    deadlines->count--;
    if (last == deadline)
        return;
    if (last->at_ms < deadline->at_ms)
        rise(deadlines, place, last);
    else
        sink(deadlines, place, last);
}

void
router_deadlines_advance(struct router_deadlines *deadlines, struct router_deadline *deadline,
                         uint64_t at_ms)
{
    assert(deadline->place < deadlines->count && deadlines->heap[deadline->place] == deadline);
    assert(at_ms <= deadline->at_ms);
    deadline->at_ms = at_ms;
    rise(deadlines, deadline->place, deadline);
}

struct router_deadline *
router_deadlines_first(const struct router_deadlines *deadlines)
{
    return deadlines->count == 0 ? NULL : deadlines->heap[0];
}
