#include <stdlib.h>

#include "advisor/index/evicted_private.h"

/* What the group evicts, and what its log says of blocks that may be here: edits of rows. */

enum kvt_err
advisor_evicted_push(struct advisor_evicted_pile *pile, const struct advisor_evicted_edit *edit)
{
    struct advisor_evicted_edit *edits = advisor_evicted_pile_reserve(pile, 1, sizeof(*edits));

    if (edits == NULL)
        return KVT_NOMEM;
    edits[pile->count] = *edit;
    edits[pile->count].order = (uint32_t)pile->count;
    pile->count++;
    return KVT_OK;
}

/* Of the blocks of a STORE or REMOVE behind the first `skip`, those that may be here; the first is
 * at `at` in the log. */
static enum kvt_err
collect_blocks(struct advisor_evicted *evicted, const struct advisor_event_log_op *op,
               uint32_t skip, size_t at)
{
    struct advisor_evicted_edit edit = {.kind = op->kind == ADVISOR_EVENT_LOG_STORE
                                                    ? ADVISOR_EVICTED_STORE
                                                    : ADVISOR_EVICTED_REMOVE,
                                        .ns = op->place.ns,
                                        .holder = op->place.holder,
                                        .ranks = op->place.ranks};
    bool may[ADVISOR_EVENT_LOG_BLOCKS_MAX];
    enum kvt_err rc = KVT_OK;

    if (!advisor_evicted_may_have_any(evicted, op->place.ns, op->hashes, op->count, may))
        return KVT_OK;
    for (uint32_t i = skip; i < op->count && rc == KVT_OK; i++) {
        if (!may[i])
            continue;
        edit.hash = op->hashes[i];
        edit.at = at + i;
        if (edit.kind == ADVISOR_EVICTED_STORE) {
            struct advisor_evicted_about *abouts =
                advisor_evicted_pile_reserve(&evicted->abouts, 1, sizeof(*abouts));

            if (abouts == NULL)
                return KVT_NOMEM;
            edit.about = (uint32_t)evicted->abouts.count++;
            abouts[edit.about] = (struct advisor_evicted_about){
                .parent = i == 0 ? op->parent : op->hashes[i - 1], .position = op->position + i};
        }
        rc = advisor_evicted_push(&evicted->edits, &edit);
    }
    return rc;
}

static enum kvt_err
collect_drop(struct advisor_evicted *evicted, const struct advisor_event_log_place *place)
{
    struct advisor_evicted_drop *drops;

    /* What the group itself evicts is not counted yet. */
    if (evicted->places[place->holder] == 0 && evicted->leaving.count == 0)
        return KVT_OK;
    drops = advisor_evicted_pile_reserve(&evicted->drops, 1, sizeof(*drops));
    if (drops == NULL)
        return KVT_NOMEM;
    drops[evicted->drops.count++] =
        (struct advisor_evicted_drop){place->holder, place->ns, (uint32_t)evicted->edits.count};
    return KVT_OK;
}

static int
compare_places(const void *left, const void *right)
{
    const struct advisor_evicted_drop *a = left;
    const struct advisor_evicted_drop *b = right;

    if (a->holder != b->holder)
        return a->holder < b->holder ? -1 : 1;
    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static int
compare_drops(const void *left, const void *right)
{
    const struct advisor_evicted_drop *a = left;
    const struct advisor_evicted_drop *b = right;
    const int order = compare_places(left, right);

    return order != 0 ? order : a->order < b->order ? -1 : a->order > b->order;
}

/* In the order of their rows, and of each only the first: who clears often costs one. */
static void
sort_drops(struct advisor_evicted_pile *pile)
{
    struct advisor_evicted_drop *drops = pile->rows;
    size_t kept = 0;

    if (pile->count > 0)
        qsort(drops, pile->count, sizeof(*drops), compare_drops);
    for (size_t i = 0; i < pile->count; i++)
        if (kept == 0 || compare_places(&drops[kept - 1], &drops[i]) != 0)
            drops[kept++] = drops[i];
    pile->count = kept;
}

/* The operations of a row; `at` counts as advisor_event_log_count() does. */
static enum kvt_err
collect_row(struct advisor_evicted *evicted, const void *bytes, size_t size, size_t *at)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    enum kvt_err rc = advisor_event_log_open(&reader, bytes, size);

    while (rc == KVT_OK) {
        uint32_t skip;

        rc = advisor_event_log_next(&reader, &op);
        if (rc != KVT_OK)
            break;
        if (op.kind == ADVISOR_EVENT_LOG_DROP) {
            rc = collect_drop(evicted, &op.place);
            (*at)++;
            continue;
        }
        skip = *at >= evicted->log_start             ? 0
               : evicted->log_start - *at < op.count ? (uint32_t)(evicted->log_start - *at)
                                                     : op.count;
        if (skip < op.count)
            rc = collect_blocks(evicted, &op, skip, *at);
        *at += op.count;
    }
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
advisor_evicted_collect(struct advisor_evicted *evicted, const struct advisor_event_log *log)
{
    const struct advisor_evicted_edit *leaving = evicted->leaving.rows;
    const void *bytes;
    size_t at = 0;
    size_t size;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < evicted->leaving.count && rc == KVT_OK; i++)
        rc = advisor_evicted_push(&evicted->edits, &leaving[i]);
    for (size_t row = 0; rc == KVT_OK && advisor_event_log_row(log, row, &bytes, &size); row++)
        rc = collect_row(evicted, bytes, size, &at);
    sort_drops(&evicted->drops);
    return rc;
}

bool
advisor_evicted_drops(const struct advisor_evicted *evicted,
                      const struct advisor_evicted_edit *edit, uint32_t holder)
{
    const struct advisor_evicted_drop key = {.holder = holder, .ns = edit->ns};
    const struct advisor_evicted_drop *drop =
        evicted->drops.count == 0
            ? NULL
            : bsearch(&key, evicted->drops.rows, evicted->drops.count, sizeof(key), compare_places);

    return drop != NULL && drop->order <= edit->order;
}
