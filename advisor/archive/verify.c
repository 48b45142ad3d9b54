#include "advisor/archive/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/archive/verify_private.h"
#include "base/core/alloc.h"

enum { PAGE = 1000, TEXT_MAX = 256 };

enum kvt_err
advisor_verify_tell(const struct advisor_verify *verify, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    verify->counts->problems++;
    return verify->tell(verify->arg, text) ? KVT_OK : KVT_CANCELLED;
}

/* ---- names, publishers, sweeps ---- */

static enum kvt_err
see_namespace(void *arg, uint32_t number, const char *name)
{
    struct advisor_verify *verify = arg;

    if (number != verify->namespaces)
        return advisor_verify_tell(
            verify, "namespace %" PRIu32 " \"%s\": numbers have a hole before it", number, name);
    verify->namespaces++;
    return KVT_OK;
}

static enum kvt_err
see_holder(void *arg, uint32_t number, const struct index_holder *key)
{
    struct advisor_verify *verify = arg;
    uint8_t *tiers;

    if (number != verify->holders)
        return advisor_verify_tell(verify, "holder %" PRIu32 " %s: numbers have a hole before it",
                                   number, key->name);
    tiers = kvt_realloc(verify->tiers, (size_t)number + 1, sizeof(*tiers));
    if (tiers == NULL)
        return KVT_NOMEM;
    verify->tiers = tiers;
    verify->tiers[number] = (uint8_t)key->tier;
    verify->holders++;
    if (memchr(key->name, 0, sizeof(key->name)) == NULL || key->tier < KVT_TIER_G1 ||
        key->tier > KVT_TIER_G4)
        return advisor_verify_tell(verify, "holder %" PRIu32 ": tier %d or its name is none",
                                   number, (int)key->tier);
    return KVT_OK;
}

static enum kvt_err
see_publisher(void *arg, const struct advisor_publisher_row *row)
{
    struct advisor_verify *verify = arg;

    verify->counts->publishers++;
    if (row->number >= verify->publisher_next)
        return advisor_verify_tell(verify, "publisher %s: number %" PRIu32 " was not given yet",
                                   row->worker, row->number);
    if (row->ns >= verify->namespaces)
        return advisor_verify_tell(verify, "publisher %s: no namespace has number %" PRIu32,
                                   row->worker, row->ns);
    return KVT_OK;
}

static enum kvt_err
see_sweep(void *arg, const struct advisor_sweep_row *row)
{
    const struct advisor_verify *verify = arg;

    if (row->holder >= verify->holders || row->publisher >= verify->publisher_next)
        return advisor_verify_tell(
            verify, "sweep of publisher %" PRIu32 ": holder %" PRIu32 " or it is unknown",
            row->publisher, row->holder);
    return KVT_OK;
}

static enum kvt_err
verify_names(struct advisor_verify *verify)
{
    enum kvt_err rc = advisor_store_namespaces(verify->txn, see_namespace, verify);

    if (rc == KVT_OK)
        rc = advisor_store_holders(verify->txn, see_holder, verify);
    if (rc == KVT_OK)
        rc = advisor_store_publishers(verify->txn, see_publisher, verify);
    if (rc == KVT_OK)
        rc = advisor_store_sweeps(verify->txn, see_sweep, verify);
    return rc;
}

/* Names are added while we look: one that was not there at first may be now. */
enum kvt_tier
advisor_verify_tier(const struct advisor_verify *verify, uint32_t number)
{
    struct index_holder holder;

    if (number < verify->holders)
        return (enum kvt_tier)verify->tiers[number];
    if (advisor_store_holder(verify->txn, number, &holder) != KVT_OK)
        return (enum kvt_tier)0;
    return holder.tier;
}

bool
advisor_verify_namespace(const struct advisor_verify *verify, uint32_t number)
{
    char name[KVT_NAMESPACE_MAX];

    return number < verify->namespaces ||
           advisor_store_namespace(verify->txn, number, name) == KVT_OK;
}

/* ---- blocks: each place is held ---- */

static enum kvt_err
see_place(const struct advisor_verify *verify, const struct advisor_store_block *block,
          const struct advisor_store_place *place)
{
    const enum kvt_tier tier = advisor_verify_tier(verify, place->holder);
    struct advisor_held held = {0};
    size_t found = 0;
    enum kvt_err rc;

    if (tier < KVT_TIER_G1)
        return advisor_verify_tell(verify, "block %016" PRIx64 ": no holder has number %" PRIu32,
                                   block->hash, place->holder);
    if (tier != KVT_TIER_G4)
        return advisor_verify_tell(verify,
                                   "block %016" PRIx64 ": holder %" PRIu32
                                   " is a worker's, whose places are logged",
                                   block->hash, place->holder);
    if (place->ranks == 0)
        return advisor_verify_tell(verify,
                                   "block %016" PRIx64 ": holder %" PRIu32 " holds no shard of it",
                                   block->hash, place->holder);
    rc = advisor_store_held(verify->txn, place->holder, block->ns, block->hash, &held, 1, &found);
    if (rc != KVT_OK)
        return rc;
    if (found == 0 || held.hash != block->hash)
        return advisor_verify_tell(
            verify, "block %016" PRIx64 ": nobody reported its place at holder %" PRIu32,
            block->hash, place->holder);
    if (held.reporter >= verify->publisher_next)
        return advisor_verify_tell(verify,
                                   "block %016" PRIx64 ": reported by publisher %" PRIu32
                                   ", whose number was not given yet",
                                   block->hash, held.reporter);
    return KVT_OK;
}

static int
compare_places(const void *a, const void *b)
{
    const struct advisor_store_place *left = a;
    const struct advisor_store_place *right = b;

    return (left->holder > right->holder) - (left->holder < right->holder);
}

/* A holder that is named twice would be counted twice and removed once. */
static enum kvt_err
see_twice(const struct advisor_verify *verify, const struct advisor_store_block *block)
{
    struct advisor_store_place *places;
    enum kvt_err rc = KVT_OK;

    if (block->place_count < 2)
        return KVT_OK;
    places = kvt_calloc(block->place_count, sizeof(*places));
    if (places == NULL)
        return KVT_NOMEM;
    memcpy(places, block->places, block->place_count * sizeof(*places));
    qsort(places, block->place_count, sizeof(*places), compare_places);
    for (uint32_t i = 1; i < block->place_count && rc == KVT_OK; i++)
        if (places[i].holder == places[i - 1].holder)
            rc = advisor_verify_tell(verify, "block %016" PRIx64 ": holder %" PRIu32 " twice",
                                     block->hash, places[i].holder);
    kvt_free(places);
    return rc;
}

static enum kvt_err
see_block(void *arg, const struct advisor_store_block *block)
{
    const struct advisor_verify *verify = arg;
    enum kvt_err rc = KVT_OK;

    verify->counts->blocks++;
    verify->counts->places += block->place_count;
    if (block->place_count == 0)
        rc = advisor_verify_tell(verify, "block %016" PRIx64 ": it is nowhere", block->hash);
    if (rc == KVT_OK && !advisor_verify_namespace(verify, block->ns))
        rc = advisor_verify_tell(verify, "block %016" PRIx64 ": no namespace has number %" PRIu32,
                                 block->hash, block->ns);
    if (rc == KVT_OK && block->position > KVT_POSITION_MAX)
        rc = advisor_verify_tell(verify, "block %016" PRIx64 ": position %" PRIu32, block->hash,
                                 block->position);
    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++)
        rc = see_place(verify, block, &block->places[i]);
    return rc == KVT_OK ? see_twice(verify, block) : rc;
}

/* ---- held: each has its block ---- */

static enum kvt_err
see_held(const struct advisor_verify *verify, const struct advisor_held *held,
         struct advisor_store_block *block)
{
    const enum kvt_err rc = advisor_store_get_block(verify->txn, held->ns, held->hash, block);

    verify->counts->held++;
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return rc;
    for (uint32_t i = 0; i < block->place_count; i++)
        if (block->places[i].holder == held->holder)
            return KVT_OK;
    return advisor_verify_tell(verify,
                               "holder %" PRIu32 " holds %016" PRIx64 ", and no block says so",
                               held->holder, held->hash);
}

/* A page of one holder's rows in one namespace; `from` moves on. */
static enum kvt_err
held_page(struct advisor_verify *verify, uint32_t holder, uint32_t ns, struct advisor_held *rows,
          uint64_t *from, bool *more)
{
    struct advisor_store_block block = {0};
    size_t count = 0;
    enum kvt_err rc = advisor_store_held(verify->txn, holder, ns, *from, rows, PAGE, &count);

    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = see_held(verify, &rows[i], &block);
    *more = count == PAGE && rows[count - 1].hash != UINT64_MAX;
    *from = *more ? rows[count - 1].hash + 1 : 0;
    advisor_store_block_release(&block);
    return rc;
}

static enum kvt_err
verify_held_in(struct advisor_verify *verify, struct advisor_store *store, uint32_t holder,
               uint32_t ns, struct advisor_held *rows)
{
    uint64_t from = 0;
    bool more = true;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && more) {
        struct advisor_txn txn;

        rc = advisor_store_read(store, &txn, NULL);
        if (rc != KVT_OK)
            break;
        verify->txn = &txn;
        rc = held_page(verify, holder, ns, rows, &from, &more);
        advisor_store_end(&txn);
    }
    return rc;
}

static enum kvt_err
verify_held(struct advisor_verify *verify, struct advisor_store *store, uint32_t holder,
            struct advisor_held *rows)
{
    struct advisor_txn txn;
    bool nothing = false;
    enum kvt_err rc = advisor_store_read(store, &txn, NULL);

    if (rc == KVT_OK)
        rc = advisor_store_holds_nothing(&txn, holder, &nothing);
    advisor_store_end(&txn);
    for (uint32_t ns = 0; ns < verify->namespaces && rc == KVT_OK && !nothing; ns++)
        rc = verify_held_in(verify, store, holder, ns, rows);
    return rc;
}

/* ---- all of it ---- */

static enum kvt_err
verify_blocks(struct advisor_verify *verify, struct advisor_store *store)
{
    uint64_t cursor = 0;
    enum kvt_err rc;

    do {
        struct advisor_txn txn;

        rc = advisor_store_read(store, &txn, NULL);
        if (rc != KVT_OK)
            return rc;
        verify->txn = &txn;
        rc = advisor_store_number(&txn, ADVISOR_META_PUBLISHER_NEXT, &verify->publisher_next);
        if (rc == KVT_OK && cursor == 0)
            rc = verify_names(verify);
        if (rc == KVT_OK)
            rc = advisor_store_blocks(&txn, cursor, PAGE, &cursor, see_block, verify);
        advisor_store_end(&txn);
    } while (rc == KVT_OK && cursor != 0);
    return rc;
}

enum kvt_err
advisor_verify(struct advisor_store *store, advisor_verify_fn *callback, void *arg,
               struct advisor_verify_counts *counts)
{
    struct advisor_held *rows = kvt_calloc(PAGE, sizeof(*rows));
    struct advisor_verify verify = {.counts = counts, .tell = callback, .arg = arg};
    enum kvt_err rc;

    *counts = (struct advisor_verify_counts){0};
    if (rows == NULL)
        return KVT_NOMEM;
    rc = verify_blocks(&verify, store);
    for (uint32_t holder = 0; holder < verify.holders && rc == KVT_OK; holder++)
        rc = verify_held(&verify, store, holder, rows);
    if (rc == KVT_OK)
        rc = advisor_verify_log(&verify, store);
    if (rc == KVT_OK)
        rc = advisor_verify_policies(&verify, store);
    kvt_free(verify.tiers);
    kvt_free(rows);
    return rc;
}
