#include <assert.h>
#include <stdlib.h>

#include "advisor/index/evicted_private.h"

/* ---- one row ---- */

static enum kvt_err
note(struct advisor_evicted *evicted, uint32_t holder, bool came)
{
    struct advisor_evicted_change *changes =
        advisor_evicted_pile_reserve(&evicted->changes, 1, sizeof(*changes));

    if (changes == NULL)
        return KVT_NOMEM;
    changes[evicted->changes.count++] = (struct advisor_evicted_change){holder, came};
    return KVT_OK;
}

static enum kvt_err
note_row(const struct advisor_evicted *evicted, struct advisor_evicted_pile *pile,
         const struct advisor_evicted_row *row)
{
    uint32_t *prints = advisor_evicted_pile_reserve(pile, 1, sizeof(*prints));

    if (prints == NULL)
        return KVT_NOMEM;
    prints[pile->count++] = advisor_evicted_filter_print(evicted->filter, row->ns, row->hash);
    return KVT_OK;
}

static struct advisor_evicted_place *
find_place(struct advisor_evicted_row *row, uint32_t holder)
{
    for (uint32_t i = 0; i < row->place_count; i++)
        if (row->places[i].holder == holder)
            return &row->places[i];
    return NULL;
}

static bool
is_known(uint64_t parent, uint32_t position)
{
    return parent != 0 || position == 0;
}

static enum kvt_err
do_evict(struct advisor_evicted *evicted, const struct advisor_evicted_edit *edit)
{
    const struct advisor_evicted_about *about =
        (const struct advisor_evicted_about *)evicted->abouts.rows + edit->about;
    struct advisor_evicted_row *row = &evicted->row;
    struct advisor_evicted_place *place = find_place(row, edit->holder);
    enum kvt_err rc = KVT_OK;

    if (row->place_count == 0)
        row->tokens_hash = row->size = 0; /* of places that are void */
    if (row->place_count == 0 || !is_known(row->parent, row->position)) {
        row->parent = about->parent;
        row->position = about->position;
    }
    if (about->tokens_hash != 0)
        row->tokens_hash = about->tokens_hash;
    if (about->size != 0)
        row->size = about->size;
    if (place == NULL) {
        rc = advisor_evicted_row_reserve(row, row->place_count + 1);
        if (rc == KVT_OK)
            rc = note(evicted, edit->holder, true);
        if (rc != KVT_OK)
            return rc;
        place = &row->places[row->place_count++];
        *place = (struct advisor_evicted_place){.holder = edit->holder};
    }
    place->ranks |= edit->ranks;
    place->number = evicted->number;
    return KVT_OK;
}

static enum kvt_err
do_remove(struct advisor_evicted *evicted, const struct advisor_evicted_edit *edit, bool *changed)
{
    struct advisor_evicted_row *row = &evicted->row;
    struct advisor_evicted_place *place = find_place(row, edit->holder);

    if (place == NULL || (place->ranks & edit->ranks) == 0)
        return KVT_OK;
    *changed = true;
    place->ranks &= ~edit->ranks;
    if (place->ranks != 0)
        return KVT_OK;
    *place = row->places[--row->place_count];
    return note(evicted, edit->holder, false);
}

static bool
is_held(const struct advisor_evicted *evicted, const struct advisor_evicted_edit *edit)
{
    for (uint32_t i = 0; i < evicted->row.place_count; i++)
        if (!advisor_evicted_drops(evicted, edit, evicted->row.places[i].holder))
            return true;
    return false;
}

/* A block that is here has its parent and its position, whoever stores it again. */
static enum kvt_err
do_store(struct advisor_evicted *evicted, const struct advisor_evicted_edit *edit)
{
    const struct advisor_evicted_about *about =
        (const struct advisor_evicted_about *)evicted->abouts.rows + edit->about;
    const struct advisor_evicted_row *row = &evicted->row;

    if (!is_known(row->parent, row->position) || !is_known(about->parent, about->position) ||
        (row->parent == about->parent && row->position == about->position) ||
        !is_held(evicted, edit))
        return KVT_OK;
    return advisor_evicted_push(&evicted->refused, edit);
}

/* Void places of evicted->row go. */
static enum kvt_err
prune(struct advisor_evicted *evicted, const struct advisor_txn *txn, bool *changed)
{
    struct advisor_evicted_row *row = &evicted->row;
    uint32_t gone;
    enum kvt_err rc = advisor_store_evicted_prune(txn, row, &gone);

    for (uint32_t i = 0; i < gone && rc == KVT_OK; i++)
        rc = note(evicted, row->places[row->place_count + i].holder, false);
    *changed = gone > 0;
    return rc;
}

static enum kvt_err
put_row(struct advisor_evicted *evicted, const struct advisor_txn *txn, bool existed)
{
    struct advisor_evicted_row *row = &evicted->row;
    enum kvt_err rc = KVT_OK;

    if (existed && row->place_count == 0)
        rc = note_row(evicted, &evicted->went, row);
    if (!existed && row->place_count > 0)
        rc = note_row(evicted, &evicted->came, row);
    return rc == KVT_OK ? advisor_store_put_cold(txn, row) : rc;
}

/* All edits of one block, from `first` on; `end` is where the next block's begin. */
static enum kvt_err
write_block(struct advisor_evicted *evicted, const struct advisor_txn *txn, size_t first,
            size_t *end)
{
    const struct advisor_evicted_edit *edits = evicted->edits.rows;
    const struct advisor_evicted_edit *head = &edits[first];
    enum kvt_err rc = advisor_store_get_cold(txn, head->ns, head->hash, &evicted->row);
    const bool existed = rc == KVT_OK;
    bool changed = false;
    size_t at = first;

    *end = first;
    if (rc == KVT_OK)
        rc = prune(evicted, txn, &changed);
    else if (rc == KVT_NOTFOUND)
        rc = KVT_OK;
    for (; at < evicted->edits.count && rc == KVT_OK; at++) {
        const struct advisor_evicted_edit *edit = &edits[at];

        if (edit->hash != head->hash || edit->ns != head->ns)
            break;
        switch (edit->kind) {
        case ADVISOR_EVICTED_EVICT:
            changed = true;
            rc = do_evict(evicted, edit);
            break;
        case ADVISOR_EVICTED_REMOVE: rc = do_remove(evicted, edit, &changed); break;
        case ADVISOR_EVICTED_STORE: rc = do_store(evicted, edit); break;
        }
    }
    *end = at;
    return rc == KVT_OK && changed ? put_row(evicted, txn, existed) : rc;
}

static int
compare_edits(const void *left, const void *right)
{
    const struct advisor_evicted_edit *a = left;
    const struct advisor_evicted_edit *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static enum kvt_err
write_blocks(struct advisor_evicted *evicted, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    if (evicted->edits.count > 0)
        qsort(evicted->edits.rows, evicted->edits.count, sizeof(struct advisor_evicted_edit),
              compare_edits);
    for (size_t at = 0; at < evicted->edits.count && rc == KVT_OK;)
        rc = write_block(evicted, txn, at, &at);
    return rc;
}

/* ---- drops ---- */

static enum kvt_err
write_drops(struct advisor_evicted *evicted, const struct advisor_txn *txn)
{
    const struct advisor_evicted_drop *drops = evicted->drops.rows;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < evicted->drops.count && rc == KVT_OK; i++)
        rc = advisor_store_put_cold_drop(txn, drops[i].holder, drops[i].ns, evicted->number);
    return rc;
}

struct pass {
    struct advisor_evicted *evicted;
    const struct advisor_txn *txn;
};

static enum kvt_err
look_at(void *arg, struct advisor_evicted_row *row)
{
    struct pass *pass = arg;
    struct advisor_evicted_pile *pile = &pass->evicted->void_rows;
    struct advisor_evicted_key *keys;
    uint32_t gone;
    enum kvt_err rc = advisor_store_evicted_prune(pass->txn, row, &gone);

    if (rc != KVT_OK || gone == 0)
        return rc;
    keys = advisor_evicted_pile_reserve(pile, 1, sizeof(*keys));
    if (keys == NULL)
        return KVT_NOMEM;
    keys[pile->count++] = (struct advisor_evicted_key){row->hash, row->ns};
    return KVT_OK;
}

/* A bounded piece of the pass. */
static enum kvt_err
write_pass(struct advisor_evicted *evicted, const struct advisor_txn *txn)
{
    struct pass pass = {evicted, txn};
    const struct advisor_evicted_key *keys;
    bool changed;
    enum kvt_err rc;

    evicted->next_pass_number = evicted->pass_number;
    if (evicted->pass_number == 0 && advisor_store_evicted_drop_count(txn) == 0)
        return KVT_OK;
    if (evicted->pass_number == 0)
        evicted->next_pass_number = evicted->number;
    evicted->void_rows.count = 0;
    rc = advisor_store_colds(txn, evicted->pass_from, evicted->pass_rows, &evicted->next_pass_from,
                             look_at, &pass);
    keys = evicted->void_rows.rows;
    for (size_t i = 0; i < evicted->void_rows.count && rc == KVT_OK; i++) {
        rc = advisor_store_get_cold(txn, keys[i].ns, keys[i].hash, &evicted->row);
        if (rc == KVT_OK)
            rc = prune(evicted, txn, &changed);
        if (rc == KVT_OK)
            rc = put_row(evicted, txn, true);
    }
    if (rc != KVT_OK || evicted->next_pass_from != 0)
        return rc;
    rc = advisor_store_delete_cold_drops(txn, evicted->next_pass_number);
    evicted->next_pass_number = 0;
    return rc;
}

/* ---- the group ---- */

/* Whatever a write before this one did is not so. */
static void
start(struct advisor_evicted *evicted, const struct advisor_event_log *log)
{
    assert(advisor_event_log_count(log) >= evicted->log_start);
    if (!evicted->wrote)
        evicted->collisions = 0;
    evicted->wrote = true;
    advisor_evicted_filter_remove(evicted->filter, evicted->came.rows, evicted->filtered);
    evicted->filtered = 0;
    evicted->abouts.count = evicted->leaving_abouts;
    evicted->edits.count = 0;
    evicted->drops.count = 0;
    evicted->changes.count = 0;
    evicted->came.count = 0;
    evicted->went.count = 0;
    evicted->refused.count = 0;
    evicted->next_pass_from = 0;
    evicted->next_pass_number = 0;
}

enum kvt_err
advisor_evicted_write(struct advisor_evicted *evicted, const struct advisor_txn *txn,
                      struct advisor_event_log *log)
{
    enum kvt_err rc;

    if (evicted->rows == 0 && evicted->leaving.count == 0) {
        evicted->collisions = 0;
        return KVT_OK;
    }
    start(evicted, log);
    rc = advisor_evicted_collect(evicted, log);
    if (rc == KVT_OK)
        rc = write_blocks(evicted, txn);
    if (rc == KVT_OK)
        rc = write_drops(evicted, txn);
    if (rc == KVT_OK)
        rc = write_pass(evicted, txn);
    if (rc == KVT_OK && (evicted->leaving.count > 0 || evicted->drops.count > 0))
        rc = advisor_store_put_number(txn, ADVISOR_META_COLD_NUMBER, evicted->number + 1);
    if (rc == KVT_OK && evicted->refused.count > 0)
        rc = advisor_evicted_leave_out(evicted, log);
    if (rc != KVT_OK)
        return rc;
    /* Whoever misses a block in RAM after the commit must find it here. */
    advisor_evicted_filter_add(evicted->filter, evicted->came.rows, evicted->came.count);
    evicted->filtered = evicted->came.count;
    return KVT_OK;
}

void
advisor_evicted_saved(struct advisor_evicted *evicted)
{
    const struct advisor_evicted_change *changes = evicted->changes.rows;

    if (!evicted->wrote)
        return;
    for (size_t i = 0; i < evicted->changes.count; i++)
        evicted->places[changes[i].holder] += changes[i].came ? 1 : UINT64_MAX;
    evicted->rows += evicted->came.count;
    assert(evicted->rows >= evicted->went.count);
    evicted->rows -= evicted->went.count;
    atomic_store(&evicted->count, evicted->rows);
    advisor_evicted_filter_remove(evicted->filter, evicted->went.rows, evicted->went.count);
    advisor_evicted_filter_remove(evicted->filter, evicted->coming.rows, evicted->coming.count);
    if (evicted->leaving.count > 0 || evicted->drops.count > 0)
        evicted->number++;
    evicted->pass_from = evicted->next_pass_from;
    evicted->pass_number = evicted->next_pass_number;
    evicted->leaving.count = 0;
    evicted->coming.count = 0;
    evicted->abouts.count = 0;
    evicted->leaving_abouts = 0;
    evicted->log_start = 0;
    evicted->changes.count = 0;
    evicted->came.count = 0;
    evicted->went.count = 0;
    evicted->filtered = 0;
    evicted->wrote = false;
}

uint32_t
advisor_evicted_collisions(const struct advisor_evicted *evicted)
{
    return evicted->collisions;
}
