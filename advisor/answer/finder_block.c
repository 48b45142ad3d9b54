#include <string.h>

#include "advisor/answer/finder_private.h"
#include "advisor/answer/store_lookup.h"
#include "advisor/index/evicted.h"
#include "base/core/alloc.h"

/* One block, from its row, from the log or RAM, and from what was evicted. */

static void
add_place(struct advisor_finder_block *block, const struct index_holder *holder, uint32_t ranks)
{
    const uint32_t shown = block->place_count < ADVISOR_FINDER_PLACES_MAX
                               ? block->place_count
                               : ADVISOR_FINDER_PLACES_MAX;

    block->ranks |= ranks;
    for (uint32_t i = 0; i < shown; i++) {
        struct advisor_finder_place *place = &block->places[i];

        if (advisor_finder_same_holder(&place->holder, holder)) {
            place->ranks |= ranks;
            return;
        }
    }
    if (shown < ADVISOR_FINDER_PLACES_MAX)
        block->places[shown] = (struct advisor_finder_place){*holder, ranks};
    block->place_count++;
}

static enum kvt_err
add_row(const struct advisor_txn *txn, const struct advisor_store_block *row,
        struct advisor_finder_block *block)
{
    /* Gateways know neither parents nor token hashes: RAM may have heard of them from workers. */
    if (block->id.hash == 0 && block->id.parent == 0)
        block->id = (struct kvt_block_id){
            .hash = row->hash, .parent = row->parent, .position = row->position};
    if (block->tokens_hash == 0)
        block->tokens_hash = row->tokens_hash;
    block->size = row->size;
    block->hits = row->hits;
    block->cold_hits = row->cold_hits;
    block->last_access_ms = row->last_access_ms;
    block->touched_ms = row->touched_ms;
    for (uint32_t i = 0; i < row->place_count; i++) {
        struct index_holder holder;
        const enum kvt_err rc = advisor_store_holder(txn, row->places[i].holder, &holder);

        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
        add_place(block, &holder, row->places[i].ranks);
    }
    return KVT_OK;
}

/* What RAM has of it; places in G4 are those of the row. */
static enum kvt_err
add_ram(struct index *index, uint32_t ns, uint64_t hash, struct advisor_finder_block *block)
{
    struct index_place *places = NULL;
    struct index_view view;
    size_t capacity = 0;
    size_t count;
    enum kvt_err rc = index_get(index, ns, hash, &view);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    block->id = view.block.id;
    block->tokens_hash = view.block.tokens_hash;
    block->size = view.block.size;
    while ((count = index_places(index, ns, hash, places, capacity)) > capacity) {
        void *more = kvt_realloc(places, count, sizeof(*places));

        if (more == NULL) {
            rc = KVT_NOMEM;
            break;
        }
        places = more;
        capacity = count;
    }
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        struct index_holder holder;

        index_holder_info(index, places[i].holder, &holder, NULL, NULL);
        if (holder.tier != KVT_TIER_G4)
            add_place(block, &holder, places[i].ranks);
    }
    kvt_free(places);
    return rc;
}

/* What the store has of it: `logged` says whether the log is read too. */
static enum kvt_err
add_stored(const struct advisor_finder *finder, const char *namespace_, uint64_t hash, bool logged,
           struct advisor_finder_block *block)
{
    struct advisor_store_block row = {0};
    struct advisor_txn txn;
    uint32_t ns;
    enum kvt_err rc = advisor_finder_begin(finder->store, namespace_, &txn, &ns);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = logged ? advisor_store_lookup(&txn, ns, &hash, 1, &row)
                : advisor_store_get_block(&txn, ns, hash, &row);
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = advisor_evicted_get(&txn, ns, hash, &row);
    if ((rc == KVT_OK || rc == KVT_NOTFOUND) && row.place_count > 0)
        rc = add_row(&txn, &row, block);
    advisor_store_end(&txn);
    advisor_store_block_release(&row);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_finder_block(const struct advisor_finder *finder, const char *namespace_, uint64_t hash,
                     struct advisor_finder_block *block)
{
    const bool from_ram = advisor_finder_from_ram(finder);
    enum kvt_err rc = KVT_OK;
    uint32_t ns;

    memset(block, 0, sizeof(*block));
    /* RAM first: what leaves it is in the store by then. */
    if (from_ram && index_namespace_find(finder->memory->index, namespace_, &ns) == KVT_OK)
        rc = add_ram(finder->memory->index, ns, hash, block);
    if (rc == KVT_OK)
        rc = add_stored(finder, namespace_, hash, !from_ram, block);
    if (rc == KVT_OK && block->place_count == 0)
        rc = KVT_NOTFOUND;
    return rc;
}
