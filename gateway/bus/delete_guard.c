#include "gateway/bus/delete_guard.h"

#include <stddef.h>

enum { MINUTE_MS = 60000, PPM = 1000000 };

static uint64_t
share_of(uint64_t whole, uint32_t ppm)
{
    return (uint64_t)((unsigned __int128)whole * ppm / PPM);
}

/* The lesser one that is set. */
static uint64_t
capacity_of(uint64_t own, uint64_t policy)
{
    return own == 0 || (policy != 0 && policy < own) ? policy : own;
}

static const char *
begin_room(struct gateway_delete_guard *guard, const struct kvt_delete_cause *cause,
           const struct gateway_delete_facts *facts)
{
    const uint64_t capacity = capacity_of(facts->capacity, cause->capacity);
    const uint64_t own = share_of(facts->capacity, facts->mark_ppm);
    const uint64_t wanted = share_of(capacity, cause->stop_ppm);
    const uint64_t stop = wanted < own ? own : wanted;
    const uint64_t used =
        facts->used - (facts->leaving < facts->used ? facts->leaving : facts->used);

    if (facts->tier == 0)
        return "room in a tier that this gateway does not have";
    if (capacity == 0)
        return "room in a tier without a capacity";
    guard->tier = facts->tier;
    guard->room = used > stop ? used - stop : 0;
    return NULL;
}

static void
begin_other(struct gateway_delete_guard *guard, const struct gateway_delete_facts *facts)
{
    const uint64_t most = share_of(facts->rows + facts->deleted, facts->share_ppm);

    guard->room = most > facts->deleted ? most - facts->deleted : 0;
}

const char *
gateway_delete_guard_begin(struct gateway_delete_guard *guard, const struct kvt_delete_cause *cause,
                           const struct gateway_delete_facts *facts)
{
    const bool ruled = cause->policy_version != 0 && cause->rule[0] != '\0';

    *guard = (struct gateway_delete_guard){.kind = cause->kind};
    switch (cause->kind) {
    case KVT_DELETE_ROOM:
        return ruled ? begin_room(guard, cause, facts) : "room without policy version and rule";
    case KVT_DELETE_QUOTA: return ruled ? NULL : "quota without policy version and rule";
    case KVT_DELETE_EXPIRE: return ruled ? NULL : "expiry without policy version and rule";
    case KVT_DELETE_JOB: return cause->job != 0 ? NULL : "job without an id";
    case KVT_DELETE_OTHER: begin_other(guard, facts); return NULL;
    case KVT_DELETE_CAUSE_COUNT: break;
    }
    return "unknown cause";
}

const char *
gateway_delete_guard_admit(struct gateway_delete_guard *guard, unsigned tiers, uint64_t bytes)
{
    if (guard->kind == KVT_DELETE_ROOM) {
        if ((tiers & guard->tier) == 0)
            return "not in the tier that needs room";
        if (guard->room == 0)
            return "not above its stop mark";
        guard->room -= bytes < guard->room ? bytes : guard->room;
    } else if (guard->kind == KVT_DELETE_OTHER) {
        if (guard->room == 0)
            return "beyond orders.max_delete_share";
        guard->room--;
    }
    return NULL;
}

uint64_t
gateway_deletions_sum(const struct gateway_deletions *deletions, uint64_t now_ms)
{
    const uint64_t minute = now_ms / MINUTE_MS;
    uint64_t sum = 0;

    /* The minute that began an hour ago is not over by an hour yet. */
    for (unsigned i = 0; i < GATEWAY_DELETION_SLOTS; i++)
        if (deletions->slots[i].minute + GATEWAY_DELETION_SLOTS > minute)
            sum += deletions->slots[i].rows;
    return sum;
}

void
gateway_deletions_add(struct gateway_deletions *deletions, uint64_t now_ms, uint64_t rows)
{
    const uint64_t minute = now_ms / MINUTE_MS;
    struct gateway_deletion_slot *slot = &deletions->slots[minute % GATEWAY_DELETION_SLOTS];

    if (slot->minute < minute)
        *slot = (struct gateway_deletion_slot){.minute = minute};
    slot->rows += rows; /* of a later minute: the clock was set back */
}
