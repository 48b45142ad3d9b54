#include "advisor/order/usage.h"

#include <stdio.h>
#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/selection/tier_kind.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"

enum kvt_err
advisor_usage_init(struct advisor_usage *usage, struct advisor_planner *planner, const char *below)
{
    enum kvt_err rc;

    *usage = (struct advisor_usage){.below = below == NULL ? "" : below};
    rc = advisor_planner_tier_kinds(planner, &usage->kinds);
    return rc == KVT_OK ? advisor_number_map_new(&usage->slots) : rc;
}

void
advisor_usage_release(struct advisor_usage *usage)
{
    advisor_tier_kinds_release(&usage->kinds);
    advisor_number_map_free(usage->slots);
    kvt_free(usage->rows);
    *usage = (struct advisor_usage){.below = ""};
}

static bool
is_wanted(const struct advisor_usage *usage, const char *name)
{
    const size_t size = strlen(usage->below);

    return size == 0 ||
           (strncmp(name, usage->below, size) == 0 && (name[size] == '\0' || name[size] == '/'));
}

/* Its row, made on first use.  NULL: not wanted, or no memory. */
static struct advisor_usage_row *
row_of(struct advisor_usage *usage, const char *name)
{
    struct advisor_usage_row *rows;
    uint32_t slot;

    if (!is_wanted(usage, name))
        return NULL;
    /* A key of a map has a byte at least, and a name may be empty. */
    if (advisor_number_map_get(usage->slots, name, strlen(name) + 1, &slot))
        return &usage->rows[slot];
    rows = kvt_grow(usage->rows, &usage->capacity, usage->count + 1, sizeof(*rows));
    if (rows != NULL)
        usage->rows = rows;
    if (rows == NULL || advisor_number_map_put(usage->slots, name, strlen(name) + 1,
                                               (uint32_t)usage->count) != KVT_OK) {
        usage->failed = true;
        return NULL;
    }
    rows[usage->count] = (struct advisor_usage_row){.blocks = 0};
    (void)snprintf(rows[usage->count].namespace_, sizeof(rows->namespace_), "%s", name);
    return &rows[usage->count++];
}

static unsigned
tier_of(const struct advisor_usage *usage, const struct index_holder *holder)
{
    switch (holder->tier) {
    case KVT_TIER_G1: return ADVISOR_USAGE_g1;
    case KVT_TIER_G2: return ADVISOR_USAGE_g2;
    case KVT_TIER_G3: return ADVISOR_USAGE_g3;
    default: break;
    }
    switch (advisor_tier_kinds_of(&usage->kinds, holder->name)) {
    case ADVISOR_TIER_KIND_HOT: return ADVISOR_USAGE_hot;
    case ADVISOR_TIER_KIND_WARM: return ADVISOR_USAGE_warm;
    case ADVISOR_TIER_KIND_FAR: return ADVISOR_USAGE_far;
    case ADVISOR_TIER_KIND_COLD:
    case ADVISOR_TIER_KIND_GONE: break;
    }
    return ADVISOR_USAGE_cold;
}

static void
add_place(void *arg, const struct advisor_finder_row *found)
{
    struct advisor_usage_row *row = row_of(arg, found->namespace_);
    const unsigned tier = tier_of(arg, &found->holder);

    if (row == NULL)
        return;
    row->places[tier]++;
    row->bytes[tier] += found->block.size * (uint64_t)__builtin_popcount(found->block.ranks);
}

struct blocks_walk {
    const struct advisor_txn *txn;
    struct advisor_usage *usage;
};

static enum kvt_err
add_block(void *arg, const struct advisor_store_block *block)
{
    const struct blocks_walk *walk = arg;
    struct advisor_usage_row *row;
    char name[KVT_NAMESPACE_MAX];
    const enum kvt_err rc = advisor_store_namespace(walk->txn, block->ns, name);

    if (rc != KVT_OK)
        return rc;
    row = row_of(walk->usage, name);
    if (row == NULL)
        return KVT_OK;
    row->blocks++;
    row->reads += block->hits;
    row->cold_reads += block->cold_hits;
    return KVT_OK;
}

static enum kvt_err
blocks_page(const struct advisor_finder *finder, uint64_t from, uint64_t *next,
            struct advisor_usage *usage)
{
    struct advisor_txn txn;
    struct blocks_walk walk = {.txn = &txn, .usage = usage};
    enum kvt_err rc = advisor_store_read(finder->store, &txn, NULL);

    *next = 0;
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_blocks(&txn, from, ADVISOR_USAGE_PAGE, next, add_block, &walk);
    advisor_store_end(&txn);
    return rc;
}

enum kvt_err
advisor_usage_page(const struct advisor_finder *finder, struct advisor_usage_cursor *cursor,
                   struct advisor_usage *usage)
{
    uint64_t next = 0;
    enum kvt_err rc;

    if (cursor->blocks)
        rc = blocks_page(finder, cursor->at, &next, usage);
    else
        rc = advisor_finder_rows(finder, cursor->at, ADVISOR_USAGE_PAGE, &next, add_place, usage);
    if (rc == KVT_OK && usage->failed)
        rc = KVT_NOMEM;
    if (rc != KVT_OK)
        return rc;
    cursor->at = next;
    cursor->done = next == 0 && cursor->blocks;
    cursor->blocks = cursor->blocks || next == 0;
    return KVT_OK;
}
