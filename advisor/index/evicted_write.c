#include <assert.h>
#include <stdlib.h>

#include "advisor/index/evicted_private.h"

/* ---- one row ---- */

static enum kvt_err
note(struct advisor_evicted *cold, uint32_t holder, bool came)
{
    struct advisor_evicted_change *changes =
        advisor_evicted_pile_reserve(&cold->changes, 1, sizeof(*changes));

    if (changes == NULL)
        return KVT_NOMEM;
    changes[cold->changes.count++] = (struct advisor_evicted_change){holder, came};
    return KVT_OK;
}

static enum kvt_err
note_row(const struct advisor_evicted *cold, struct advisor_evicted_pile *pile,
         const struct advisor_evicted_row *row)
{
    uint32_t *prints = advisor_evicted_pile_reserve(pile, 1, sizeof(*prints));

    if (prints == NULL)
        return KVT_NOMEM;
    prints[pile->count++] = advisor_evicted_filter_print(cold->filter, row->ns, row->hash);
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
do_evict(struct advisor_evicted *cold, const struct advisor_evicted_edit *edit)
{
    const struct advisor_evicted_about *about =
        (const struct advisor_evicted_about *)cold->abouts.rows + edit->about;
    struct advisor_evicted_row *row = &cold->row;
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
            rc = note(cold, edit->holder, true);
        if (rc != KVT_OK)
            return rc;
        place = &row->places[row->place_count++];
        *place = (struct advisor_evicted_place){.holder = edit->holder};
    }
    place->ranks |= edit->ranks;
    place->number = cold->number;
    return KVT_OK;
}

static enum kvt_err
do_remove(struct advisor_evicted *cold, const struct advisor_evicted_edit *edit, bool *changed)
{
    struct advisor_evicted_row *row = &cold->row;
    struct advisor_evicted_place *place = find_place(row, edit->holder);

    if (place == NULL || (place->ranks & edit->ranks) == 0)
        return KVT_OK;
    *changed = true;
    place->ranks &= ~edit->ranks;
    if (place->ranks != 0)
        return KVT_OK;
    *place = row->places[--row->place_count];
    return note(cold, edit->holder, false);
}

static bool
is_held(const struct advisor_evicted *cold, const struct advisor_evicted_edit *edit)
{
    for (uint32_t i = 0; i < cold->row.place_count; i++)
        if (!advisor_evicted_drops(cold, edit, cold->row.places[i].holder))
            return true;
    return false;
}

/* A block that is here has its parent and its position, whoever stores it again. */
static enum kvt_err
do_store(struct advisor_evicted *cold, const struct advisor_evicted_edit *edit)
{
    const struct advisor_evicted_about *about =
        (const struct advisor_evicted_about *)cold->abouts.rows + edit->about;
    const struct advisor_evicted_row *row = &cold->row;

    if (!is_known(row->parent, row->position) || !is_known(about->parent, about->position) ||
        (row->parent == about->parent && row->position == about->position) || !is_held(cold, edit))
        return KVT_OK;
    return advisor_evicted_push(&cold->refused, edit);
}

/* Void places of cold->row go. */
static enum kvt_err
prune(struct advisor_evicted *cold, const struct advisor_txn *txn, bool *changed)
{
    struct advisor_evicted_row *row = &cold->row;
    uint32_t gone;
    enum kvt_err rc = advisor_store_evicted_prune(txn, row, &gone);

    for (uint32_t i = 0; i < gone && rc == KVT_OK; i++)
        rc = note(cold, row->places[row->place_count + i].holder, false);
    *changed = gone > 0;
    return rc;
}

static enum kvt_err
put_row(struct advisor_evicted *cold, const struct advisor_txn *txn, bool existed)
{
    struct advisor_evicted_row *row = &cold->row;
    enum kvt_err rc = KVT_OK;

    if (existed && row->place_count == 0)
        rc = note_row(cold, &cold->went, row);
    if (!existed && row->place_count > 0)
        rc = note_row(cold, &cold->came, row);
    return rc == KVT_OK ? advisor_store_put_cold(txn, row) : rc;
}

/* All edits of one block, from `first` on; `end` is where the next block's begin. */
static enum kvt_err
write_block(struct advisor_evicted *cold, const struct advisor_txn *txn, size_t first, size_t *end)
{
    const struct advisor_evicted_edit *edits = cold->edits.rows;
    const struct advisor_evicted_edit *head = &edits[first];
    enum kvt_err rc = advisor_store_get_cold(txn, head->ns, head->hash, &cold->row);
    const bool existed = rc == KVT_OK;
    bool changed = false;
    size_t at = first;

    *end = first;
    if (rc == KVT_OK)
        rc = prune(cold, txn, &changed);
    else if (rc == KVT_NOTFOUND)
        rc = KVT_OK;
    for (; at < cold->edits.count && rc == KVT_OK; at++) {
        const struct advisor_evicted_edit *edit = &edits[at];

        if (edit->hash != head->hash || edit->ns != head->ns)
            break;
        switch (edit->kind) {
        case ADVISOR_EVICTED_EVICT:
            changed = true;
            rc = do_evict(cold, edit);
            break;
        case ADVISOR_EVICTED_REMOVE: rc = do_remove(cold, edit, &changed); break;
        case ADVISOR_EVICTED_STORE: rc = do_store(cold, edit); break;
        }
    }
    *end = at;
    return rc == KVT_OK && changed ? put_row(cold, txn, existed) : rc;
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
write_blocks(struct advisor_evicted *cold, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    if (cold->edits.count > 0)
        qsort(cold->edits.rows, cold->edits.count, sizeof(struct advisor_evicted_edit),
              compare_edits);
    for (size_t at = 0; at < cold->edits.count && rc == KVT_OK;)
        rc = write_block(cold, txn, at, &at);
    return rc;
}

/* ---- drops ---- */

static enum kvt_err
write_drops(struct advisor_evicted *cold, const struct advisor_txn *txn)
{
    const struct advisor_evicted_drop *drops = cold->drops.rows;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < cold->drops.count && rc == KVT_OK; i++)
        rc = advisor_store_put_cold_drop(txn, drops[i].holder, drops[i].ns, cold->number);
    return rc;
}

struct pass {
    struct advisor_evicted *cold;
    const struct advisor_txn *txn;
};

static enum kvt_err
look_at(void *arg, struct advisor_evicted_row *row)
{
    struct pass *pass = arg;
    struct advisor_evicted_pile *pile = &pass->cold->void_rows;
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
write_pass(struct advisor_evicted *cold, const struct advisor_txn *txn)
{
    struct pass pass = {cold, txn};
    const struct advisor_evicted_key *keys;
    bool changed;
    enum kvt_err rc;

    cold->next_pass_number = cold->pass_number;
    if (cold->pass_number == 0 && advisor_store_evicted_drop_count(txn) == 0)
        return KVT_OK;
    if (cold->pass_number == 0)
        cold->next_pass_number = cold->number;
    cold->void_rows.count = 0;
    rc = advisor_store_colds(txn, cold->pass_from, cold->pass_rows, &cold->next_pass_from, look_at,
                             &pass);
    keys = cold->void_rows.rows;
    for (size_t i = 0; i < cold->void_rows.count && rc == KVT_OK; i++) {
        rc = advisor_store_get_cold(txn, keys[i].ns, keys[i].hash, &cold->row);
        if (rc == KVT_OK)
            rc = prune(cold, txn, &changed);
        if (rc == KVT_OK)
            rc = put_row(cold, txn, true);
    }
    if (rc != KVT_OK || cold->next_pass_from != 0)
        return rc;
    rc = advisor_store_delete_cold_drops(txn, cold->next_pass_number);
    cold->next_pass_number = 0;
    return rc;
}

/* ---- the group ---- */

/* Whatever a write before this one did is not so. */
static void
start(struct advisor_evicted *cold, const struct advisor_event_log *log)
{
    assert(advisor_event_log_count(log) >= cold->log_start);
    if (!cold->wrote)
        cold->collisions = 0;
    cold->wrote = true;
    advisor_evicted_filter_remove(cold->filter, cold->came.rows, cold->filtered);
    cold->filtered = 0;
    cold->abouts.count = cold->evicted_abouts;
    cold->edits.count = 0;
    cold->drops.count = 0;
    cold->changes.count = 0;
    cold->came.count = 0;
    cold->went.count = 0;
    cold->refused.count = 0;
    cold->next_pass_from = 0;
    cold->next_pass_number = 0;
}

enum kvt_err
advisor_evicted_write(struct advisor_evicted *cold, const struct advisor_txn *txn,
                      struct advisor_event_log *log)
{
    enum kvt_err rc;

    if (cold->rows == 0 && cold->evicted.count == 0) {
        cold->collisions = 0;
        return KVT_OK;
    }
    start(cold, log);
    rc = advisor_evicted_collect(cold, log);
    if (rc == KVT_OK)
        rc = write_blocks(cold, txn);
    if (rc == KVT_OK)
        rc = write_drops(cold, txn);
    if (rc == KVT_OK)
        rc = write_pass(cold, txn);
    if (rc == KVT_OK && (cold->evicted.count > 0 || cold->drops.count > 0))
        rc = advisor_store_put_number(txn, ADVISOR_META_COLD_NUMBER, cold->number + 1);
    if (rc == KVT_OK && cold->refused.count > 0)
        rc = advisor_evicted_leave_out(cold, log);
    if (rc != KVT_OK)
        return rc;
    /* Whoever misses a block in RAM after the commit must find it here. */
    advisor_evicted_filter_add(cold->filter, cold->came.rows, cold->came.count);
    cold->filtered = cold->came.count;
    return KVT_OK;
}

void
advisor_evicted_saved(struct advisor_evicted *cold)
{
    const struct advisor_evicted_change *changes = cold->changes.rows;

    if (!cold->wrote)
        return;
    for (size_t i = 0; i < cold->changes.count; i++)
        cold->places[changes[i].holder] += changes[i].came ? 1 : UINT64_MAX;
    cold->rows += cold->came.count;
    assert(cold->rows >= cold->went.count);
    cold->rows -= cold->went.count;
    atomic_store(&cold->count, cold->rows);
    advisor_evicted_filter_remove(cold->filter, cold->went.rows, cold->went.count);
    advisor_evicted_filter_remove(cold->filter, cold->coming.rows, cold->coming.count);
    if (cold->evicted.count > 0 || cold->drops.count > 0)
        cold->number++;
    cold->pass_from = cold->next_pass_from;
    cold->pass_number = cold->next_pass_number;
    cold->evicted.count = 0;
    cold->coming.count = 0;
    cold->abouts.count = 0;
    cold->evicted_abouts = 0;
    cold->log_start = 0;
    cold->changes.count = 0;
    cold->came.count = 0;
    cold->went.count = 0;
    cold->filtered = 0;
    cold->wrote = false;
}

uint32_t
advisor_evicted_collisions(const struct advisor_evicted *cold)
{
    return cold->collisions;
}
