#include "advisor/selection/planned_moves.h"

#include <stddef.h>

#include "base/core/alloc.h"

enum { SLOTS_MIN = 1024 };

struct change {
    struct advisor_copy copy;
    bool used;
    bool came;
};

struct advisor_planned_moves {
    struct change *slots; /* a power of two, at most half of them used */
    size_t slot_count;
    size_t count;
};

enum kvt_err
advisor_planned_moves_new(struct advisor_planned_moves **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_planned_moves_free(struct advisor_planned_moves *moved)
{
    if (moved == NULL)
        return;
    kvt_free(moved->slots);
    kvt_free(moved);
}

/* The slot of that change, or the free one where it belongs. */
static struct change *
slot_of(struct change *slots, size_t count, const struct advisor_copy *copy, bool came)
{
    const uint64_t place = (uint64_t)copy->ns << 33 | (uint64_t)copy->tier << 1 | (came ? 1 : 0);
    const uint64_t mixed =
        (copy->hash ^ place * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    size_t at = (size_t)(mixed >> 32) & (count - 1);

    while (slots[at].used && (slots[at].copy.hash != copy->hash || slots[at].copy.ns != copy->ns ||
                              slots[at].copy.tier != copy->tier || slots[at].came != came))
        at = (at + 1) & (count - 1);
    return &slots[at];
}

/* Room for one more. */
static enum kvt_err
reserve(struct advisor_planned_moves *moved)
{
    const size_t wanted = moved->slot_count == 0 ? SLOTS_MIN : moved->slot_count * 2;
    struct change *slots;

    if ((moved->count + 1) * 2 <= moved->slot_count)
        return KVT_OK;
    slots = kvt_calloc(wanted, sizeof(*slots));
    if (slots == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < moved->slot_count; i++)
        if (moved->slots[i].used)
            *slot_of(slots, wanted, &moved->slots[i].copy, moved->slots[i].came) = moved->slots[i];
    kvt_free(moved->slots);
    moved->slots = slots;
    moved->slot_count = wanted;
    return KVT_OK;
}

enum kvt_err
advisor_planned_moves_add(struct advisor_planned_moves *moved, const struct advisor_copy *copy,
                          enum advisor_change change)
{
    const bool came = change == ADVISOR_COPY_CAME;
    struct change *slot;

    if (advisor_planned_moves_has(moved, copy, change))
        return KVT_OK;
    if (moved->count == ADVISOR_PLANNED_MOVES_MAX)
        return KVT_FULL;
    if (reserve(moved) != KVT_OK)
        return KVT_NOMEM;
    slot = slot_of(moved->slots, moved->slot_count, copy, came);
    *slot = (struct change){.copy = *copy, .used = true, .came = came};
    moved->count++;
    return KVT_OK;
}

bool
advisor_planned_moves_has(const struct advisor_planned_moves *moved,
                          const struct advisor_copy *copy, enum advisor_change change)
{
    return moved != NULL && moved->count > 0 &&
           slot_of(moved->slots, moved->slot_count, copy, change == ADVISOR_COPY_CAME)->used;
}
