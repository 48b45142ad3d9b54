#include "router/holders.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

enum { CAPACITY_FIRST = 4 }; /* and never more than half full */

static uint32_t
home_of(uint32_t capacity, uint32_t worker)
{
    /* The highest bits of a product with 2^32 over the golden ratio. */
    return (uint32_t)((uint64_t)(worker * 0x9e3779b1u) * capacity >> 32);
}

/* The worker's place, or the empty one it would take. */
static struct router_holder *
place_of(struct router_holder *many, uint32_t capacity, uint32_t worker)
{
    uint32_t at = home_of(capacity, worker);

    while (many[at].requests != 0 && many[at].worker != worker)
        at = (at + 1) & (capacity - 1);
    return &many[at];
}

void
router_holders_release(struct router_holders *holders)
{
    if (holders->capacity > 0)
        kvt_free(holders->many);
    *holders = (struct router_holders){0};
}

static bool
grow(struct router_holders *holders)
{
    const uint32_t capacity = holders->capacity == 0 ? CAPACITY_FIRST : 2 * holders->capacity;
    struct router_holder *many = kvt_calloc(capacity, sizeof(many[0]));
    const struct router_holder *places;
    uint32_t count;

    if (many == NULL)
        return false;
    places = router_holders_places(holders, &count);
    for (uint32_t i = 0; i < count; i++)
        if (places[i].requests != 0)
            *place_of(many, capacity, places[i].worker) = places[i];
    if (holders->capacity > 0)
        kvt_free(holders->many);
    holders->many = many;
    holders->capacity = capacity;
    return true;
}

bool
router_holders_add(struct router_holders *holders, uint32_t worker, bool *first)
{
    struct router_holder *place;

    *first = false;
    if (holders->capacity == 0 && (holders->count == 0 || holders->one.worker == worker)) {
        place = &holders->one;
    } else {
        place = holders->capacity == 0 ? NULL : place_of(holders->many, holders->capacity, worker);
        if (place == NULL || (place->requests == 0 && 2 * holders->count >= holders->capacity)) {
            if (!grow(holders))
                return false;
            place = place_of(holders->many, holders->capacity, worker);
        }
    }
    *first = place->requests == 0;
    holders->count += *first;
    place->worker = worker;
    assert(place->requests < UINT32_MAX);
    place->requests++;
    return true;
}

/* Holders behind an empty place move up, as far as they may. */
static void
close_up(struct router_holders *holders, uint32_t empty)
{
    const uint32_t mask = holders->capacity - 1;

    for (uint32_t at = (empty + 1) & mask; holders->many[at].requests != 0; at = (at + 1) & mask) {
        const uint32_t home = home_of(holders->capacity, holders->many[at].worker);

        if (((at - home) & mask) < ((at - empty) & mask))
            continue;
        holders->many[empty] = holders->many[at];
        holders->many[at].requests = 0;
        empty = at;
    }
}

bool
router_holders_remove(struct router_holders *holders, uint32_t worker)
{
    struct router_holder *place =
        holders->capacity == 0 ? &holders->one : place_of(holders->many, holders->capacity, worker);

    assert(place->requests > 0 && place->worker == worker);
    if (--place->requests > 0)
        return false;
    holders->count--;
    if (holders->capacity > 0)
        close_up(holders, (uint32_t)(place - holders->many));
    return true;
}

bool
router_holders_copy(struct router_holders *to, const struct router_holders *from)
{
    struct router_holder *many;

    assert(to->count == 0 && to->capacity == 0);
    if (from->capacity > 0) {
        many = kvt_calloc(from->capacity, sizeof(many[0]));
        if (many == NULL)
            return false;
        memcpy(many, from->many, from->capacity * sizeof(many[0]));
        to->many = many;
    } else {
        to->one = from->one;
    }
    to->capacity = from->capacity;
    to->count = from->count;
    return true;
}
