#include "policy/ordering/wait_counts.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Two neighbours of one length become one of the next, oldest first, wherever there are too many.
 * */
static void
merge(struct policy_wait_counts *waits)
{
    struct policy_wait_counts_slot *slots = waits->slots;
    uint32_t end = waits->count; /* behind the spans of the level looked at */

    for (uint32_t level = 0; end > 0; level++) {
        uint32_t begin = end;

        while (begin > 0 && slots[begin - 1].level <= level)
            begin--;
        if (end - begin <= POLICY_WAIT_COUNTS_LIKE)
            return;
        for (uint32_t kind = 0; kind < POLICY_WAIT_COUNTS_KINDS; kind++)
            slots[begin].waiting[kind] += slots[begin + 1].waiting[kind];
        slots[begin].level = level + 1;
        memmove(&slots[begin + 1], &slots[begin + 2], (waits->count - begin - 2) * sizeof(*slots));
        waits->count--;
        end = begin + 1;
    }
}

static struct policy_wait_counts_slot *
find(struct policy_wait_counts *waits, uint64_t tick)
{
    uint32_t low = 0;
    uint32_t high = waits->count;

    /* The last that does not begin after the tick; what is older than all is with the oldest. */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;

        if (waits->slots[middle].first <= tick)
            low = middle;
        else
            high = middle;
    }
    return &waits->slots[low];
}

void
policy_wait_counts_add(struct policy_wait_counts *waits, uint32_t kind, uint64_t tick,
                       uint32_t count)
{
    assert(kind < POLICY_WAIT_COUNTS_KINDS);
    if (waits->count == 0 || waits->slots[waits->count - 1].first < tick) {
        merge(waits);
        assert(waits->count < POLICY_WAIT_COUNTS_SLOTS);
        waits->slots[waits->count++] = (struct policy_wait_counts_slot){.first = tick};
    }
    waits->slots[waits->count - 1].waiting[kind] += count;
}

void
policy_wait_counts_remove(struct policy_wait_counts *waits, uint32_t kind, uint64_t tick)
{
    struct policy_wait_counts_slot *slot = find(waits, tick);

    /* A tick known to 32 bits may seem 2^32 later than it was: then it is among the oldest. */
    for (uint32_t i = 0; slot->waiting[kind] == 0 && i < waits->count; i++)
        slot = &waits->slots[i];
    assert(slot->waiting[kind] > 0);
    slot->waiting[kind]--;
}

uint64_t
policy_wait_counts_age(const struct policy_wait_counts *waits, uint32_t slot, uint64_t now)
{
    const uint64_t first = waits->slots[slot].first;
    const uint64_t behind = slot + 1 < waits->count ? waits->slots[slot + 1].first : now + 1;

    return now - (first + (behind - 1 - first) / 2);
}
