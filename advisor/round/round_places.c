#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"

/* What ends all that a publisher has somewhere.  Workers' tiers are emptied at once, by a word in
 * the log; G4 outlives its reporters, so there only what this one reported goes, by a sweep. */

static bool
is_g4(const struct advisor_round *round, uint32_t holder)
{
    return advisor_name_table_holder_key(round->names, holder)->tier == KVT_TIER_G4;
}

/* Is the holder one of the publisher's own? */
static bool
is_own(const struct advisor_publisher *publisher, const struct index_holder *key)
{
    /* A bucket has a name of its own, and a sweep is of what one reporter said. */
    if (publisher->is_foreign && key->tier == KVT_TIER_G4)
        return true;
    if (strcmp(key->name, publisher->row.worker) != 0)
        return false;
    if (!publisher->is_foreign)
        return key->tier != KVT_TIER_G4;
    return publisher->foreign.any_rank != 0 || key->dp_rank == publisher->foreign.dp_rank;
}

enum kvt_err
advisor_round_drop(struct advisor_round *round, const struct advisor_publisher *publisher)
{
    const uint32_t count = advisor_name_table_holder_count(round->names);
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        if (!is_g4(round, i) && is_own(publisher, advisor_name_table_holder_key(round->names, i)))
            rc = advisor_change_group_drop(round->group, i, publisher->row.ns);
    return rc;
}

enum kvt_err
advisor_round_sweep(struct advisor_round *round, const struct advisor_publisher *publisher)
{
    const uint32_t count = advisor_name_table_holder_count(round->names);
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        if (is_g4(round, i) && is_own(publisher, advisor_name_table_holder_key(round->names, i)))
            rc = advisor_round_sweep_holder(round, publisher, i);
    return rc;
}

/* Do both report what the same holders have? */
static bool
is_namesake(const struct advisor_publisher *publisher, const struct advisor_publisher *other)
{
    if (other == publisher || other->row.gone != 0 || other->row.ns != publisher->row.ns ||
        strcmp(other->row.worker, publisher->row.worker) != 0)
        return false;
    return !publisher->is_foreign || !other->is_foreign || publisher->foreign.any_rank != 0 ||
           other->foreign.any_rank != 0 || publisher->foreign.dp_rank == other->foreign.dp_rank;
}

/* What others reported of the same holders went too: they are asked for all they hold. */
static void
doubt_namesakes(struct advisor_round *round, const struct advisor_publisher *publisher)
{
    const size_t count = advisor_publishers_count(round->publishers);

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *other = advisor_publishers_at(round->publishers, i);

        if (!is_namesake(publisher, other))
            continue;
        other = advisor_publishers_by_number(round->publishers, other->row.number); /* wakes it */
        if (!other->is_foreign) {
            other->row.need_dump = 1;
            other->dirty = true;
            other->shown = false;
        } else if (other->foreign.messages == 0) {
            advisor_foreign_want_dump(other, kvt_clock_mono_ms());
        } else {
            advisor_foreign_lose(other, "another publisher of its name lost all it held");
            advisor_round_given_up(round, other);
        }
    }
}

enum kvt_err
advisor_round_void(struct advisor_round *round, const struct advisor_publisher *publisher)
{
    const enum kvt_err rc = advisor_round_drop(round, publisher);

    doubt_namesakes(round, publisher);
    return rc == KVT_OK ? advisor_round_sweep(round, publisher) : rc;
}

enum kvt_err
advisor_round_sweep_holder(struct advisor_round *round, const struct advisor_publisher *publisher,
                           uint32_t holder)
{
    const struct advisor_sweep_row row = {
        .publisher = publisher->row.number,
        .holder = holder,
        .floor = publisher->row.gen,
        .ns = publisher->row.ns,
    };

    return advisor_sweeper_add(round->sweeper, &row);
}

enum kvt_err
advisor_round_clear(struct advisor_round *round, struct advisor_publisher *publisher,
                    uint32_t holder)
{
    if (!is_g4(round, holder))
        return advisor_change_group_drop(round->group, holder, publisher->row.ns);
    publisher->row.gen++; /* what is stored from here on is not meant */
    publisher->dirty = true;
    return advisor_round_sweep_holder(round, publisher, holder);
}

/* Has all been told of what is at the worker's holders? */
static bool
is_settled(void *arg, uint32_t ns, const char *worker)
{
    const struct advisor_round *round = arg;
    const size_t count = advisor_publishers_active_count(round->publishers);

    for (size_t i = 0; i < count; i++) {
        const struct advisor_publisher *publisher = advisor_publishers_active(round->publishers, i);

        if (publisher->row.ns == ns && advisor_publisher_uncertain(publisher) &&
            strcmp(publisher->row.worker, worker) == 0)
            return false;
    }
    return true;
}

void
advisor_round_depart(struct advisor_round *round)
{
    if (round->options.planner != NULL && advisor_change_group_count(round->group) == 0 &&
        advisor_ram_index_whole(&round->memory))
        advisor_planner_depart(round->options.planner, is_settled, round);
}
