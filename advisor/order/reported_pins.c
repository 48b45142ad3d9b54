#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/pins.h"
#include "advisor/selection/planner_tables.h"
#include "base/core/log.h"

/* What gateways say is pinned. */

/* What was passed over because it was pinned may leave now. */
static void
resume(struct advisor_planner *planner)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        planner->tiers[i].resuming = true;
}

void
advisor_planner_take_pins(struct advisor_planner *planner, const struct kvt_report *report,
                          uint32_t ns, uint64_t now_ms)
{
    const uint32_t gateway = advisor_planner_gateway(planner, report->gateway);

    if (gateway == ADVISOR_NONE ||
        !advisor_pins_take(planner->pins, gateway, report->incarnation, ns, &report->pins, now_ms))
        return;
    resume(planner);
}

void
advisor_planner_forget_pins(struct advisor_planner *planner, uint64_t now_ms)
{
    if (advisor_pins_forget(planner->pins, now_ms))
        resume(planner);
}

bool
advisor_planner_pinned(struct advisor_planner *planner, uint32_t ns, uint64_t hash, uint64_t now_ms,
                       uint64_t *until_ms)
{
    return advisor_pins_has(planner->pins, ns, hash, now_ms, until_ms);
}

/* ---- durable ---- */

struct loading {
    struct advisor_planner *planner;
    uint64_t now_ms;
};

static enum kvt_err
load_pin(void *arg, const struct advisor_pin_row *row)
{
    const struct loading *loading = arg;
    struct advisor_planner *planner = loading->planner;
    const struct advisor_gateway *gateway = advisor_planner_find_gateway(planner, row->gateway);
    enum kvt_err rc;

    if (gateway == NULL)
        return KVT_OK; /* there are too many: its pins are refused as before */
    rc = advisor_pins_restore(planner->pins, (uint32_t)(gateway - planner->gateways), row,
                              loading->now_ms);
    return rc == KVT_FULL ? KVT_OK : rc;
}

enum kvt_err
advisor_planner_load_pins(struct advisor_planner *planner, const struct advisor_txn *txn,
                          uint64_t now_ms)
{
    struct loading loading = {.planner = planner, .now_ms = now_ms};

    return advisor_store_pins(txn, load_pin, &loading);
}

static const char *
name_of(const void *arg, uint32_t gateway)
{
    const struct advisor_planner *planner = arg;

    return planner->gateways[gateway].row.name;
}

enum kvt_err
advisor_planner_save_pins(const struct advisor_planner *planner, const struct advisor_txn *txn)
{
    return advisor_pins_save(planner->pins, txn, name_of, planner);
}
