#include "router/prompt_holders.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/core/alloc.h"

enum { CAPACITY_FIRST = 4 }; /* and never more than half full */

/* A place is 0, or the number of a holder and one. */
static uint32_t *
places_of(struct router_prompt_holder *many, uint32_t capacity)
{
    return (uint32_t *)(many + capacity / 2);
}

/* Room for half as many holders as places, and the places. */
static size_t
size_of(uint32_t capacity)
{
    return capacity / 2 * sizeof(struct router_prompt_holder) + capacity * sizeof(uint32_t);
}

static uint32_t
home_of(uint32_t capacity, uint32_t worker)
{
    /* The highest bits of a product with 2^32 over the golden ratio. */
    return (uint32_t)((uint64_t)(worker * 0x9e3779b1u) * capacity >> 32);
}

/* The worker's place, or the empty one it would take. */
static uint32_t *
place_of(struct router_prompt_holder *many, uint32_t capacity, uint32_t worker)
{
    uint32_t *places = places_of(many, capacity);
    uint32_t at = home_of(capacity, worker);

    while (places[at] != 0 && many[places[at] - 1].worker != worker)
        at = (at + 1) & (capacity - 1);
    return &places[at];
}

void
router_prompt_holders_release(struct router_prompt_holders *holders)
{
    if (holders->capacity > 0)
        kvt_free(holders->many);
    *holders = (struct router_prompt_holders){0};
}

static bool
grow(struct router_prompt_holders *holders)
{
    const uint32_t capacity = holders->capacity == 0 ? CAPACITY_FIRST : 2 * holders->capacity;
    struct router_prompt_holder *many = kvt_calloc(1, size_of(capacity));
    const struct router_prompt_holder *all;
    uint32_t count;

    if (many == NULL)
        return false;
    all = router_prompt_holders_all(holders, &count);
    memcpy(many, all, count * sizeof(many[0]));
    for (uint32_t i = 0; i < count; i++)
        *place_of(many, capacity, many[i].worker) = i + 1;
    if (holders->capacity > 0)
        kvt_free(holders->many);
    holders->many = many;
    holders->capacity = capacity;
    return true;
}

/* The holder that is this worker; NULL: none is. */
static struct router_prompt_holder *
find(struct router_prompt_holders *holders, uint32_t worker)
{
    uint32_t number;

    if (holders->capacity == 0)
        return holders->count == 1 && holders->one.worker == worker ? &holders->one : NULL;
    number = *place_of(holders->many, holders->capacity, worker);
    return number == 0 ? NULL : &holders->many[number - 1];
}

bool
router_prompt_holders_add(struct router_prompt_holders *holders, uint32_t worker, bool *first)
{
    struct router_prompt_holder *holder = find(holders, worker);

    *first = false;
    if (holder != NULL) {
        assert(holder->requests < UINT32_MAX);
        holder->requests++;
        return true;
    }
    if (holders->count > 0 && 2 * holders->count >= holders->capacity && !grow(holders))
        return false;
    *first = true;
    holder = holders->capacity == 0 ? &holders->one : &holders->many[holders->count];
    *holder = (struct router_prompt_holder){.worker = worker, .requests = 1};
    holders->count++;
    if (holders->capacity > 0)
        *place_of(holders->many, holders->capacity, worker) = holders->count;
    return true;
}

/* Places behind an empty one move up, as far as they may. */
static void
close_up(struct router_prompt_holders *holders, uint32_t empty)
{
    uint32_t *places = places_of(holders->many, holders->capacity);
    const uint32_t mask = holders->capacity - 1;

    for (uint32_t at = (empty + 1) & mask; places[at] != 0; at = (at + 1) & mask) {
        const uint32_t home = home_of(holders->capacity, holders->many[places[at] - 1].worker);

        if (((at - home) & mask) < ((at - empty) & mask))
            continue;
        places[empty] = places[at];
        places[at] = 0;
        empty = at;
    }
}

/* The last holder takes the number of one that goes. */
static void
take_out(struct router_prompt_holders *holders, struct router_prompt_holder *holder)
{
    struct router_prompt_holder *last = &holders->many[holders->count - 1];
    uint32_t *place = place_of(holders->many, holders->capacity, holder->worker);
    uint32_t *moved = place_of(holders->many, holders->capacity, last->worker);

    *moved = *place;
    *holder = *last;
    *place = 0;
    close_up(holders, (uint32_t)(place - places_of(holders->many, holders->capacity)));
}

bool
router_prompt_holders_remove(struct router_prompt_holders *holders, uint32_t worker)
{
    struct router_prompt_holder *holder = find(holders, worker);

    assert(holder != NULL);
    if (--holder->requests > 0)
        return false;
    if (holders->capacity > 0)
        take_out(holders, holder);
    holders->count--;
    return true;
}

bool
router_prompt_holders_copy(struct router_prompt_holders *to,
                           const struct router_prompt_holders *from)
{
    struct router_prompt_holder *many;

    assert(to->count == 0 && to->capacity == 0);
    if (from->capacity > 0) {
        many = kvt_calloc(1, size_of(from->capacity));
        if (many == NULL)
            return false;
        memcpy(many, from->many, size_of(from->capacity));
        to->many = many;
    } else {
        to->one = from->one;
    }
    to->capacity = from->capacity;
    to->count = from->count;
    return true;
}
