#include <string.h>

#include "advisor/round/round_private.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/*
 * Who may be given requests, as events tell it: every (worker, dp rank) that has, or had, places in
 * its own tiers, while a publisher of that name lives.  Gateways and buckets have none there.
 *
 * What is told are sights, not states: that a publisher is met with a rank, came back, or lives
 * anew, and that it left.  A worker that others said is gone does not come back because it goes on
 * telling events while it ends.
 */

enum { WORD_BITS = 64 };

static bool
has(const struct advisor_staff *staff, uint32_t dp_rank)
{
    return (staff->ranks[dp_rank / WORD_BITS] >> dp_rank % WORD_BITS & 1) != 0;
}

static void
add(struct advisor_staff *staff, uint32_t dp_rank)
{
    staff->ranks[dp_rank / WORD_BITS] |= UINT64_C(1) << dp_rank % WORD_BITS;
    staff->known = true;
}

static struct router_worker
worker_of(const struct advisor_publisher *publisher, uint32_t dp_rank)
{
    struct router_worker worker = {.dp_rank = dp_rank};

    memcpy(worker.name, publisher->row.worker, sizeof(worker.name));
    return worker;
}

static void
tell_seen(struct advisor_round *round, const struct advisor_publisher *publisher, uint32_t dp_rank)
{
    const struct router_worker worker = worker_of(publisher, dp_rank);
    const enum kvt_err rc =
        router_workers_seen(round->feeds.workers, &worker, ROUTER_ORIGIN_EVENTS);

    if (rc != KVT_OK)
        kvt_log_error("advisor.engine", "staff", "%s is not routed to: %s", worker.name,
                      kvt_err_text(rc));
}

static void
join(struct advisor_round *round, struct advisor_publisher *publisher)
{
    publisher->staff.there = true;
    publisher->staff.anew = false;
    for (uint32_t rank = 0; rank < ADVISOR_STAFF_RANKS_MAX; rank++)
        if (has(&publisher->staff, rank))
            tell_seen(round, publisher, rank);
}

/* Ranks that another publisher of the name vouches for stay: a worker may have several. */
static void
leave(struct advisor_round *round, struct advisor_publisher *publisher)
{
    const size_t count = advisor_publishers_count(round->publishers);
    struct advisor_staff others = {.there = false};

    publisher->staff.there = false;
    for (size_t i = 0; i < count; i++) {
        const struct advisor_publisher *other = advisor_publishers_at(round->publishers, i);

        if (other == publisher || !other->staff.there || other->row.gone != 0 ||
            strcmp(other->row.worker, publisher->row.worker) != 0)
            continue;
        for (size_t word = 0; word < ADVISOR_STAFF_WORDS; word++)
            others.ranks[word] |= other->staff.ranks[word];
    }
    for (uint32_t rank = 0; rank < ADVISOR_STAFF_RANKS_MAX; rank++) {
        const struct router_worker worker = worker_of(publisher, rank);

        if (has(&publisher->staff, rank) && !has(&others, rank))
            router_workers_gone(round->feeds.workers, &worker);
    }
}

void
advisor_round_met(struct advisor_round *round, struct advisor_publisher *publisher,
                  uint32_t dp_rank)
{
    if (round->feeds.workers == NULL || dp_rank >= ADVISOR_STAFF_RANKS_MAX ||
        has(&publisher->staff, dp_rank))
        return;
    add(&publisher->staff, dp_rank);
    if (publisher->staff.there)
        tell_seen(round, publisher, dp_rank);
}

void
advisor_round_parted(struct advisor_round *round, struct advisor_publisher *publisher)
{
    if (round->feeds.workers != NULL && publisher->staff.there)
        leave(round, publisher);
}

void
advisor_round_workers(struct advisor_round *round)
{
    if (round->feeds.workers == NULL)
        return;
    for (size_t i = 0; i < advisor_publishers_active_count(round->publishers); i++) {
        struct advisor_publisher *publisher = advisor_publishers_active(round->publishers, i);
        const bool lives = publisher->row.gone == 0;

        if (!publisher->staff.known)
            continue;
        if (publisher->staff.there && (!lives || publisher->staff.anew))
            leave(round, publisher);
        if (!publisher->staff.there && lives)
            join(round, publisher);
    }
}

/* ---- the start ---- */

/* The ranks of each name that holds, or held, something in its own tiers. */
struct known {
    struct advisor_number_map *by_name; /* to a place in `staff` */
    struct advisor_staff *staff;
    size_t count;
    size_t capacity;
};

static enum kvt_err
know(struct known *known, const struct index_holder *key)
{
    const size_t size = strlen(key->name);
    uint32_t at;
    void *grown;

    if (key->tier == KVT_TIER_G4 || size == 0 || key->dp_rank >= ADVISOR_STAFF_RANKS_MAX)
        return KVT_OK;
    if (!advisor_number_map_get(known->by_name, key->name, size, &at)) {
        at = (uint32_t)known->count;
        grown = kvt_grow(known->staff, &known->capacity, known->count + 1, sizeof(*known->staff));
        if (grown == NULL)
            return KVT_NOMEM;
        known->staff = grown;
        if (advisor_number_map_put(known->by_name, key->name, size, at) != KVT_OK)
            return KVT_NOMEM;
        known->staff[known->count++] = (struct advisor_staff){.there = false};
    }
    add(&known->staff[at], key->dp_rank);
    return KVT_OK;
}

static void
recall(struct advisor_publisher *publisher, const struct known *known)
{
    const bool one_rank = publisher->is_foreign && publisher->foreign.any_rank == 0;
    const char *name = publisher->row.worker;
    uint32_t at;

    if (!advisor_number_map_get(known->by_name, name, strlen(name), &at))
        return;
    if (!one_rank)
        publisher->staff = known->staff[at];
    else if (publisher->foreign.dp_rank < ADVISOR_STAFF_RANKS_MAX &&
             has(&known->staff[at], publisher->foreign.dp_rank))
        add(&publisher->staff, publisher->foreign.dp_rank);
}

void
advisor_round_workers_all(struct advisor_round *round)
{
    const uint32_t holders = advisor_name_table_holder_count(round->names);
    const size_t count = advisor_publishers_count(round->publishers);
    struct known known = {.count = 0};
    enum kvt_err rc;

    if (round->feeds.workers == NULL)
        return;
    rc = advisor_number_map_new(&known.by_name);
    for (uint32_t i = 0; i < holders && rc == KVT_OK; i++)
        rc = know(&known, advisor_name_table_holder_key(round->names, i));
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        recall(publisher, &known);
        if (publisher->row.gone == 0 && publisher->staff.known)
            join(round, publisher);
    }
    if (rc != KVT_OK)
        kvt_log_error("advisor.engine", "staff", "workers are known by their next events: %s",
                      kvt_err_text(rc));
    advisor_number_map_free(known.by_name);
    kvt_free(known.staff);
}
