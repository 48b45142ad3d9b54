#include "advisor/selection/refusals.h"

#include <assert.h>

#include "advisor/selection/planner_types.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"

/* Rows without an order, and a map from each block to its row.  A row outlives its pause: it says
 * how long the next one is. */

struct row {
    struct advisor_refused block;
    uint64_t end_ms; /* of the pause; then of the row */
    uint64_t pause_ms;
    bool pausing;
};

struct advisor_refusals {
    struct advisor_number_map *numbers;
    struct row *rows;
    size_t count;
    size_t capacity;
    uint64_t next_ms; /* no row ends before */
    size_t at;        /* rows before this one were looked at, and end at `soonest_ms` or later */
    uint64_t soonest_ms;
    size_t pausing[ADVISOR_TIERS_MAX];
};

enum kvt_err
advisor_refusals_new(struct advisor_refusals **out)
{
    struct advisor_refusals *refusals = kvt_calloc(1, sizeof(*refusals));

    *out = NULL;
    if (refusals == NULL)
        return KVT_NOMEM;
    refusals->next_ms = UINT64_MAX;
    refusals->soonest_ms = UINT64_MAX;
    if (advisor_number_map_new(&refusals->numbers) != KVT_OK) {
        kvt_free(refusals);
        return KVT_NOMEM;
    }
    *out = refusals;
    return KVT_OK;
}

void
advisor_refusals_free(struct advisor_refusals *refusals)
{
    if (refusals == NULL)
        return;
    advisor_number_map_free(refusals->numbers);
    kvt_free(refusals->rows);
    kvt_free(refusals);
}

static enum kvt_err
make_row(struct advisor_refusals *refusals, const struct advisor_refused *block, uint32_t *number)
{
    struct row *rows;
    enum kvt_err rc;

    *number = 0;
    if (refusals->count == ADVISOR_REFUSALS_MAX)
        return KVT_FULL;
    rows = kvt_grow(refusals->rows, &refusals->capacity, refusals->count + 1, sizeof(*rows));
    if (rows == NULL)
        return KVT_NOMEM;
    refusals->rows = rows;
    rc =
        advisor_number_map_put(refusals->numbers, block, sizeof(*block), (uint32_t)refusals->count);
    if (rc != KVT_OK)
        return rc;
    *number = (uint32_t)refusals->count++;
    rows[*number] = (struct row){.block = *block};
    return KVT_OK;
}

/* The last row takes its place. */
static void
forget(struct advisor_refusals *refusals, size_t number)
{
    const struct row *last = &refusals->rows[refusals->count - 1];

    advisor_number_map_remove(refusals->numbers, &refusals->rows[number].block,
                              sizeof(refusals->rows[number].block));
    /* Its key is known: nothing is allocated. */
    if (number != refusals->count - 1)
        (void)!advisor_number_map_put(refusals->numbers, &last->block, sizeof(last->block),
                                      (uint32_t)number);
    refusals->rows[number] = *last;
    refusals->count--;
}

static void
set_pausing(struct advisor_refusals *refusals, struct row *row, bool pausing)
{
    assert(row->block.tier < ADVISOR_TIERS_MAX);
    if (row->pausing == pausing)
        return;
    row->pausing = pausing;
    if (pausing)
        refusals->pausing[row->block.tier]++;
    else
        refusals->pausing[row->block.tier]--;
}

enum kvt_err
advisor_refusals_add(struct advisor_refusals *refusals, const struct advisor_refused *block,
                     uint64_t now_ms)
{
    struct row *row;
    uint32_t number;

    if (!advisor_number_map_get(refusals->numbers, block, sizeof(*block), &number)) {
        const enum kvt_err rc = make_row(refusals, block, &number);

        if (rc != KVT_OK)
            return rc;
    }
    row = &refusals->rows[number];
    row->pause_ms = row->pause_ms == 0 ? ADVISOR_REFUSAL_FIRST_MS : 2 * row->pause_ms;
    if (row->pause_ms > ADVISOR_REFUSAL_LAST_MS)
        row->pause_ms = ADVISOR_REFUSAL_LAST_MS;
    row->end_ms = now_ms + row->pause_ms;
    set_pausing(refusals, row, true);
    if (row->end_ms < refusals->next_ms)
        refusals->next_ms = row->end_ms;
    return KVT_OK;
}

bool
advisor_refusals_next(struct advisor_refusals *refusals, struct advisor_refused *block,
                      uint64_t now_ms)
{
    bool found = false;

    *block = (struct advisor_refused){0};
    if (now_ms < refusals->next_ms)
        return false;
    while (refusals->at < refusals->count && !found) {
        struct row *row = &refusals->rows[refusals->at];

        if (now_ms >= row->end_ms && !row->pausing) {
            forget(refusals, refusals->at);
            continue;
        }
        if (now_ms >= row->end_ms) {
            set_pausing(refusals, row, false);
            row->end_ms = now_ms + ADVISOR_REFUSAL_LAST_MS;
            *block = row->block;
            found = true;
        }
        if (row->end_ms < refusals->soonest_ms)
            refusals->soonest_ms = row->end_ms;
        refusals->at++;
    }
    if (found)
        return true;
    refusals->next_ms = refusals->soonest_ms;
    refusals->soonest_ms = UINT64_MAX;
    refusals->at = 0;
    return false;
}

void
advisor_refusals_end(struct advisor_refusals *refusals, uint32_t tier)
{
    for (size_t i = 0; i < refusals->count; i++) {
        struct row *row = &refusals->rows[i];

        if (row->block.tier != tier)
            continue;
        row->end_ms = 0;
        row->pause_ms = 0;
        refusals->next_ms = 0;
    }
}

bool
advisor_refusals_has(const struct advisor_refusals *refusals, const struct advisor_refused *block)
{
    uint32_t number;

    return advisor_number_map_get(refusals->numbers, block, sizeof(*block), &number) &&
           refusals->rows[number].pausing;
}

void
advisor_refusals_each(const struct advisor_refusals *refusals, uint32_t tier,
                      advisor_refusals_fn *callback, void *arg)
{
    for (size_t i = 0; i < refusals->count; i++)
        if (refusals->rows[i].block.tier == tier && refusals->rows[i].pausing)
            callback(arg, &refusals->rows[i].block);
}

size_t
advisor_refusals_count(const struct advisor_refusals *refusals, uint32_t tier)
{
    assert(tier < ADVISOR_TIERS_MAX);
    return refusals->pausing[tier];
}
