#include <string.h>

#include "advisor/planner_private.h"
#include "base/alloc.h"
#include "base/log.h"

/* What the orderings learned of each tier's traffic, over restarts. */

enum { SAVE_EVERY_MS = 60000 };

static enum kvt_err
load_one(void *arg, const char *tier, const char *ordering, const void *bytes, size_t size)
{
    struct advisor_planner *planner = arg;
    uint32_t number;

    if (strcmp(ordering, planner->options.ordering->name) != 0)
        return KVT_OK; /* of another one, which may be chosen again */
    number = advisor_planner_tier(planner, tier);
    if (number != ADVISOR_NONE &&
        policy_roster_load(planner->tiers[number].roster, bytes, size) != KVT_OK)
        kvt_log_warn("advisor.planner", "learned",
                     "what %s learned of %s cannot be read: it begins anew", ordering, tier);
    return KVT_OK;
}

enum kvt_err
advisor_planner_load_learned(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    return advisor_store_learned(txn, load_one, planner);
}

static enum kvt_err
save_one(const struct advisor_planner *planner, const struct advisor_txn *txn,
         const struct advisor_tier *tier)
{
    const size_t size = policy_roster_save(tier->roster, NULL, 0);
    void *bytes = size == 0 ? NULL : kvt_calloc(1, size);
    enum kvt_err rc;

    if (size == 0)
        return KVT_OK;
    if (bytes == NULL)
        return KVT_NOMEM;
    (void)policy_roster_save(tier->roster, bytes, size);
    rc = advisor_store_put_learned(txn, tier->name, planner->options.ordering->name, bytes, size);
    kvt_free(bytes);
    return rc;
}

enum kvt_err
advisor_planner_save_learned(const struct advisor_planner *planner, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < planner->tier_count && planner->learned_dirty && rc == KVT_OK; i++)
        rc = save_one(planner, txn, &planner->tiers[i]);
    return rc;
}

void
advisor_planner_age_learned(struct advisor_planner *planner, uint64_t now_ms)
{
    if (planner->options.ordering->save == NULL)
        return;
    if (planner->learned_ms == 0)
        planner->learned_ms = now_ms;
    if (now_ms - planner->learned_ms < SAVE_EVERY_MS)
        return;
    planner->learned_ms = now_ms;
    planner->learned_dirty = true;
}
