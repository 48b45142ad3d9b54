#include "advisor/index/evicted.h"

#include <assert.h>

#include "advisor/index/evicted_private.h"
#include "base/core/alloc.h"

enum {
    LOAD_ROWS = 65536, /* between two looks at `cancel` */
};

enum kvt_err
advisor_evicted_new(struct advisor_evicted **out, uint64_t filter_bytes_max)
{
    struct advisor_evicted *evicted = kvt_calloc(1, sizeof(*evicted));
    enum kvt_err rc;

    *out = NULL;
    if (evicted == NULL)
        return KVT_NOMEM;
    evicted->number = 1;
    evicted->pass_rows = ADVISOR_EVICTED_PASS_ROWS;
    evicted->places = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*evicted->places));
    rc = evicted->places == NULL ? KVT_NOMEM
                                 : advisor_evicted_filter_new(&evicted->filter, filter_bytes_max);
    if (rc != KVT_OK) {
        advisor_evicted_free(evicted);
        return rc;
    }
    *out = evicted;
    return KVT_OK;
}

void
advisor_evicted_free(struct advisor_evicted *evicted)
{
    if (evicted == NULL)
        return;
    advisor_evicted_filter_free(evicted->filter);
    advisor_evicted_row_release(&evicted->row);
    kvt_free(evicted->places);
    kvt_free(evicted->leaving.rows);
    kvt_free(evicted->abouts.rows);
    kvt_free(evicted->coming.rows);
    kvt_free(evicted->edits.rows);
    kvt_free(evicted->drops.rows);
    kvt_free(evicted->changes.rows);
    kvt_free(evicted->came.rows);
    kvt_free(evicted->went.rows);
    kvt_free(evicted->refused.rows);
    kvt_free(evicted->void_rows.rows);
    kvt_free(evicted);
}

void *
advisor_evicted_pile_reserve(struct advisor_evicted_pile *pile, size_t more, size_t size)
{
    void *rows = kvt_grow(pile->rows, &pile->capacity, pile->count + more, size);

    if (rows != NULL)
        pile->rows = rows;
    return rows;
}

void
advisor_evicted_pass_rows(struct advisor_evicted *evicted, size_t rows)
{
    evicted->pass_rows = rows;
}

/* ---- the start ---- */

static enum kvt_err
load_row(void *arg, struct advisor_evicted_row *row)
{
    struct advisor_evicted *evicted = arg;
    uint32_t *prints = advisor_evicted_pile_reserve(&evicted->came, 1, sizeof(*prints));

    if (prints == NULL)
        return KVT_NOMEM;
    prints[evicted->came.count++] =
        advisor_evicted_filter_print(evicted->filter, row->ns, row->hash);
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].holder >= INDEX_HOLDERS_MAX)
            return KVT_CORRUPT;
        evicted->places[row->places[i].holder]++;
    }
    return KVT_OK;
}

enum kvt_err
advisor_evicted_load(struct advisor_evicted *evicted, const struct advisor_txn *txn,
                     const _Atomic bool *cancel)
{
    uint64_t number;
    uint64_t next = 0;
    enum kvt_err rc = advisor_store_number(txn, ADVISOR_META_COLD_NUMBER, &number);

    assert(evicted->rows == 0 && evicted->leaving.count == 0);
    if (rc != KVT_OK)
        return rc;
    if (number > evicted->number)
        evicted->number = number;
    do {
        evicted->came.count = 0;
        rc = cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed)
                 ? KVT_CANCELLED
                 : advisor_store_colds(txn, next, LOAD_ROWS, &next, load_row, evicted);
        advisor_evicted_filter_add(evicted->filter, evicted->came.rows, evicted->came.count);
        evicted->rows += evicted->came.count;
    } while (rc == KVT_OK && next != 0);
    evicted->came.count = 0;
    atomic_store(&evicted->count, evicted->rows);
    return rc;
}

enum kvt_err
advisor_evicted_discard(const struct advisor_txn *txn)
{
    return advisor_store_clear_cold(txn);
}

/* ---- answers ---- */

uint64_t
advisor_evicted_count(const struct advisor_evicted *evicted)
{
    return atomic_load(&evicted->count);
}

bool
advisor_evicted_may_have_any(struct advisor_evicted *evicted, uint32_t ns, const uint64_t *hashes,
                             size_t count, bool *may)
{
    if (advisor_evicted_count(evicted) > 0)
        return advisor_evicted_filter_has(evicted->filter, ns, hashes, count, may);
    for (size_t i = 0; i < count; i++)
        may[i] = false;
    return false;
}

bool
advisor_evicted_may_have(struct advisor_evicted *evicted, uint32_t ns, uint64_t hash)
{
    bool may;

    return advisor_evicted_may_have_any(evicted, ns, &hash, 1, &may);
}

/* A parent of 0 behind the first position means "the producer did not say". */
static bool
is_known(uint64_t parent, uint32_t position)
{
    return parent != 0 || position == 0;
}

static enum kvt_err
merge(const struct advisor_evicted_row *row, struct advisor_store_block *block)
{
    const uint32_t before = block->place_count;
    enum kvt_err rc = advisor_store_block_reserve(block, before + row->place_count);

    if (rc != KVT_OK)
        return rc;
    block->hash = row->hash;
    block->ns = row->ns;
    if (before == 0 || !is_known(block->parent, block->position)) {
        block->parent = row->parent;
        block->position = row->position;
    }
    if (block->tokens_hash == 0)
        block->tokens_hash = row->tokens_hash;
    if (block->size == 0)
        block->size = row->size;
    for (uint32_t i = 0; i < row->place_count; i++) {
        uint32_t at = 0;

        while (at < before && block->places[at].holder != row->places[i].holder)
            at++;
        if (at == before) {
            at = block->place_count++;
            block->places[at] = (struct advisor_store_place){.holder = row->places[i].holder};
        }
        block->places[at].ranks |= row->places[i].ranks;
    }
    return KVT_OK;
}

enum kvt_err
advisor_evicted_get(const struct advisor_txn *txn, uint32_t ns, uint64_t hash,
                    struct advisor_store_block *block)
{
    struct advisor_evicted_row row = {0};
    uint32_t gone;
    enum kvt_err rc = KVT_NOTFOUND;

    if (advisor_store_evicted_count(txn) > 0)
        rc = advisor_store_get_cold(txn, ns, hash, &row);
    if (rc == KVT_OK)
        rc = advisor_store_evicted_prune(txn, &row, &gone);
    if (rc == KVT_OK)
        rc = row.place_count == 0 ? KVT_NOTFOUND : merge(&row, block);
    advisor_evicted_row_release(&row);
    return rc;
}

struct walk {
    const struct advisor_txn *txn;
    struct advisor_store_block block;
    advisor_store_block_fn *callback;
    void *arg;
};

static enum kvt_err
give_row(void *arg, struct advisor_evicted_row *row)
{
    struct walk *walk = arg;
    uint32_t gone;
    enum kvt_err rc = advisor_store_evicted_prune(walk->txn, row, &gone);

    if (rc != KVT_OK || row->place_count == 0)
        return rc;
    walk->block = (struct advisor_store_block){.places = walk->block.places,
                                               .place_capacity = walk->block.place_capacity};
    rc = merge(row, &walk->block);
    return rc == KVT_OK ? walk->callback(walk->arg, &walk->block) : rc;
}

enum kvt_err
advisor_evicted_blocks(const struct advisor_txn *txn, uint64_t from, size_t max, uint64_t *next,
                       advisor_store_block_fn *callback, void *arg)
{
    struct walk walk = {.txn = txn, .callback = callback, .arg = arg};
    const enum kvt_err rc = advisor_store_colds(txn, from, max, next, give_row, &walk);

    advisor_store_block_release(&walk.block);
    return rc;
}

/* ---- evictions ---- */

/* What is known of the run's blocks, the first one's number; and that they may be here from now on,
 * for what follows in the group, and for who asks after the commit. */
static enum kvt_err
announce(struct advisor_evicted *evicted, const struct index_run_view *run, uint32_t *first)
{
    struct advisor_evicted_about *abouts =
        advisor_evicted_pile_reserve(&evicted->abouts, run->count, sizeof(*abouts));

    uint32_t *prints = advisor_evicted_pile_reserve(&evicted->coming, run->count, sizeof(*prints));

    *first = (uint32_t)evicted->abouts.count;
    if (abouts == NULL || prints == NULL)
        return KVT_NOMEM;
    prints += evicted->coming.count;
    for (uint32_t i = 0; i < run->count; i++) {
        prints[i] = advisor_evicted_filter_print(evicted->filter, run->ns, run->hashes[i]);
        abouts[*first + i] =
            (struct advisor_evicted_about){.parent = i == 0 ? run->parent : run->hashes[i - 1],
                                           .tokens_hash = run->tokens == NULL ? 0 : run->tokens[i],
                                           .size = run->size,
                                           .position = run->position + i};
    }
    evicted->abouts.count += run->count;
    evicted->leaving_abouts = evicted->abouts.count;
    advisor_evicted_filter_add(evicted->filter, prints, run->count);
    evicted->coming.count += run->count;
    atomic_fetch_add(&evicted->count, run->count);
    return KVT_OK;
}

enum kvt_err
advisor_evicted_evict(struct advisor_evicted *evicted, struct advisor_event_log *log,
                      const struct index_run_view *run)
{
    uint32_t first;
    enum kvt_err rc;

    assert(!evicted->wrote && advisor_event_log_count(log) == evicted->log_start);
    if (run->held_count == 0)
        return KVT_OK;
    rc = announce(evicted, run, &first);
    for (uint32_t h = 0; h < run->held_count && rc == KVT_OK; h++) {
        const struct index_held *held = &run->held[h];
        const struct advisor_event_log_place place = {
            .holder = held->holder, .ns = run->ns, .ranks = UINT32_MAX};
        struct advisor_evicted_edit *edits =
            advisor_evicted_pile_reserve(&evicted->leaving, held->count, sizeof(*edits));

        rc = edits == NULL
                 ? KVT_NOMEM
                 : advisor_event_log_remove(log, &place, run->hashes + held->from, held->count);
        if (rc != KVT_OK)
            break;
        for (uint32_t i = held->from; i < held->from + held->count; i++)
            edits[evicted->leaving.count++] =
                (struct advisor_evicted_edit){.kind = ADVISOR_EVICTED_EVICT,
                                              .hash = run->hashes[i],
                                              .ns = run->ns,
                                              .holder = held->holder,
                                              .ranks = held->ranks,
                                              .about = first + i};
        evicted->log_start += held->count;
    }
    return rc;
}

bool
advisor_evicted_holds(const struct advisor_evicted *evicted, uint32_t holder)
{
    assert(holder < INDEX_HOLDERS_MAX);
    return evicted->places[holder] > 0;
}
