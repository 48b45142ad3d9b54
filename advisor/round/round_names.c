#include <assert.h>
#include <string.h>

#include "advisor/round/round_private.h"
#include "advisor/store/number_map.h"
#include "base/core/log.h"

/* The names of all publishers that are not gone: an idle worker's number is not taken from it. */
static enum kvt_err
collect_live(const struct advisor_round *engine, struct advisor_number_map *live)
{
    const size_t count = advisor_publishers_count(engine->publishers);
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct advisor_publisher *publisher = advisor_publishers_at(engine->publishers, i);

        if (publisher->row.gone == 0)
            rc = advisor_number_map_put(live, publisher->row.worker, strlen(publisher->row.worker),
                                        1);
    }
    return rc;
}

static enum kvt_err
look_at(struct advisor_round *engine, const struct advisor_txn *txn,
        const struct advisor_number_map *live, uint32_t holder)
{
    const struct index_holder *key = advisor_name_table_holder_key(engine->names, holder);
    uint64_t blocks;
    uint32_t ignored;
    bool nothing;
    enum kvt_err rc;

    if (key->tier == KVT_TIER_G4 ||
        advisor_number_map_get(live, key->name, strlen(key->name), &ignored))
        return KVT_OK;
    index_holder_info(engine->options.index, advisor_name_table_index_holder(engine->names, holder),
                      NULL, &blocks, NULL);
    if (blocks != 0 || advisor_sweeper_sweeps(engine->sweeper, holder) ||
        (engine->evicted != NULL && advisor_evicted_holds(engine->evicted, holder)))
        return KVT_OK;
    rc = advisor_store_holds_nothing(txn, holder, &nothing);
    if (rc == KVT_OK && nothing)
        advisor_name_table_spare(engine->names, holder);
    return rc;
}

void
advisor_round_reclaim(struct advisor_round *engine, uint32_t max)
{
    const uint32_t count = advisor_name_table_holder_count(engine->names);
    struct advisor_number_map *live = NULL;
    struct advisor_txn txn = {.handle = NULL};
    struct kvt_error err;
    enum kvt_err rc;

    assert(advisor_change_group_count(engine->group) == 0);
    /* Only a true copy says who holds nothing. */
    if (!advisor_name_table_short(engine->names) || !advisor_ram_index_whole(&engine->memory))
        return;
    rc = advisor_number_map_new(&live);
    if (rc == KVT_OK)
        rc = collect_live(engine, live);
    if (rc == KVT_OK)
        rc = advisor_store_read(engine->options.store, &txn, &err);
    for (uint32_t i = 0; i < count && i < max && rc == KVT_OK; i++) {
        if (engine->reclaim_from >= count)
            engine->reclaim_from = 0;
        rc = look_at(engine, &txn, live, engine->reclaim_from++);
        if (!advisor_name_table_short(engine->names))
            break;
    }
    advisor_store_end(&txn);
    advisor_number_map_free(live);
    if (rc != KVT_OK)
        kvt_log_warn("advisor.engine", "reclaim", "numbers of holders: %s", kvt_err_text(rc));
}
