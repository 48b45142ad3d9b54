#include <assert.h>
#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/round/round_private.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* The names of all publishers that are not gone: an idle worker's number is not taken from it. */
static enum kvt_err
collect_live(const struct advisor_round *round, struct advisor_number_map *live)
{
    const size_t count = advisor_publishers_count(round->publishers);
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->row.gone == 0)
            rc = advisor_number_map_put(live, publisher->row.worker, strlen(publisher->row.worker),
                                        1);
    }
    return rc;
}

static enum kvt_err
look_at(struct advisor_round *round, const struct advisor_txn *txn,
        const struct advisor_number_map *live, uint32_t holder)
{
    const struct index_holder *key = advisor_name_table_holder_key(round->names, holder);
    uint64_t blocks;
    uint32_t ignored;
    bool nothing;
    enum kvt_err rc;

    if (key->tier == KVT_TIER_G4 ||
        advisor_number_map_get(live, key->name, strlen(key->name), &ignored))
        return KVT_OK;
    index_holder_info(round->options.index, advisor_name_table_index_holder(round->names, holder),
                      NULL, &blocks, NULL);
    if (blocks != 0 || advisor_sweeper_sweeps(round->sweeper, holder) ||
        (round->evicted != NULL && advisor_evicted_holds(round->evicted, holder)))
        return KVT_OK;
    rc = advisor_store_holds_nothing(txn, holder, &nothing);
    if (rc == KVT_OK && nothing)
        advisor_name_table_spare(round->names, holder);
    return rc;
}

/* ---- namespaces ---- */

static enum kvt_err
add_pinned(void *arg, const struct advisor_pin_row *row)
{
    if (row->ns < INDEX_NAMESPACES_MAX)
        advisor_namespace_bits_set(arg, row->ns);
    return KVT_OK;
}

/* Has the namespace nothing that knows it by its number? */
static bool
is_unused(const struct advisor_round *round, const struct advisor_namespace_bits *used, uint32_t ns)
{
    return !advisor_namespace_bits_has(used, ns) &&
           !advisor_sweeper_sweeps_namespace(round->sweeper, ns) &&
           index_namespace_is_empty(round->options.index,
                                    advisor_name_table_index_namespace(round->names, ns));
}

/* Look for namespaces without a block, a pin or a publisher that is not gone. */
static enum kvt_err
reclaim_namespaces(struct advisor_round *round, const struct advisor_txn *txn, uint32_t max)
{
    const uint32_t count = advisor_name_table_namespace_count(round->names);
    struct advisor_namespace_bits *sets = kvt_calloc(2, sizeof(*sets)); /* in use; spare now */
    enum kvt_err rc = sets == NULL ? KVT_NOMEM : advisor_store_pins(txn, add_pinned, sets);

    if (rc == KVT_OK)
        advisor_publishers_add_live(round->publishers, sets);
    for (uint32_t i = 0; i < count && i < max && rc == KVT_OK; i++) {
        if (round->reclaim_namespace_from >= count)
            round->reclaim_namespace_from = 0;
        if (!advisor_name_table_namespaces_short(round->names))
            break;
        if (is_unused(round, sets, round->reclaim_namespace_from)) {
            advisor_name_table_spare_namespace(round->names, round->reclaim_namespace_from);
            advisor_namespace_bits_set(&sets[1], round->reclaim_namespace_from);
        }
        round->reclaim_namespace_from++;
    }
    if (rc == KVT_OK)
        advisor_publishers_forget_gone(round->publishers, &sets[1]);
    kvt_free(sets);
    return rc;
}

/* Blocks that were evicted are not counted by namespace: with some, no number is given back. */
static bool
can_give_back(const struct advisor_round *round)
{
    return advisor_name_table_namespaces_short(round->names) &&
           (round->evicted == NULL || advisor_evicted_count(round->evicted) == 0);
}

void
advisor_round_reclaim(struct advisor_round *round, uint32_t max)
{
    const uint32_t count = advisor_name_table_holder_count(round->names);
    struct advisor_number_map *live = NULL;
    struct advisor_txn txn = {.handle = NULL};
    struct kvt_error err;
    enum kvt_err rc;

    assert(advisor_change_group_count(round->group) == 0);
    /* Only a true copy says who holds nothing. */
    if (!(advisor_name_table_short(round->names) || can_give_back(round)) ||
        !advisor_ram_index_whole(&round->memory))
        return;
    rc = advisor_number_map_new(&live);
    if (rc == KVT_OK)
        rc = collect_live(round, live);
    if (rc == KVT_OK)
        rc = advisor_store_read(round->options.store, &txn, &err);
    if (rc == KVT_OK && can_give_back(round))
        rc = reclaim_namespaces(round, &txn, max);
    for (uint32_t i = 0; i < count && i < max && rc == KVT_OK; i++) {
        if (!advisor_name_table_short(round->names))
            break;
        if (round->reclaim_from >= count)
            round->reclaim_from = 0;
        rc = look_at(round, &txn, live, round->reclaim_from++);
    }
    advisor_store_end(&txn);
    advisor_number_map_free(live);
    if (rc != KVT_OK)
        kvt_log_warn("advisor.engine", "reclaim", "numbers of names: %s", kvt_err_text(rc));
}

void
advisor_round_follow_names(struct advisor_round *round)
{
    const uint64_t renames = advisor_name_table_namespace_renames(round->names);

    if (round->namespace_renames == renames)
        return;
    round->namespace_renames = renames;
    if (round->options.planner != NULL)
        advisor_planner_follow_names(round->options.planner);
}
