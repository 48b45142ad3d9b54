#include "advisor/archive/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/index/evicted.h"
#include "advisor/rule/rulebook.h"
#include "advisor/store/event_log_table.h"
#include "base/core/alloc.h"

struct advisor_verify {
    const struct advisor_txn *txn;
    struct advisor_verify_counts *counts;
    advisor_verify_fn *tell;
    void *arg;
    uint64_t publisher_next;
    uint8_t *tiers;   /* of holders, by number */
    uint32_t holders; /* numbers below it exist */
    uint32_t namespaces;
};

enum { PAGE = 1000, TEXT_MAX = 256 };

/* A problem.  KVT_CANCELLED: stop. */
KVT_PRINTF(2, 3)
static enum kvt_err
report_problem(const struct advisor_verify *verify, const char *format, ...)
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
        return report_problem(verify, "namespace %" PRIu32 " \"%s\": numbers have a hole before it",
                              number, name);
    verify->namespaces++;
    return KVT_OK;
}

static enum kvt_err
see_holder(void *arg, uint32_t number, const struct index_holder *key)
{
    struct advisor_verify *verify = arg;
    uint8_t *tiers;

    if (number != verify->holders)
        return report_problem(verify, "holder %" PRIu32 " %s: numbers have a hole before it",
                              number, key->name);
    tiers = kvt_realloc(verify->tiers, (size_t)number + 1, sizeof(*tiers));
    if (tiers == NULL)
        return KVT_NOMEM;
    verify->tiers = tiers;
    verify->tiers[number] = (uint8_t)key->tier;
    verify->holders++;
    if (memchr(key->name, 0, sizeof(key->name)) == NULL || key->tier < KVT_TIER_G1 ||
        key->tier > KVT_TIER_G4)
        return report_problem(verify, "holder %" PRIu32 ": tier %d or its name is none", number,
                              (int)key->tier);
    return KVT_OK;
}

static enum kvt_err
see_publisher(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;
    struct advisor_verify *verify = arg;

    verify->counts->publishers++;
    if (row->number >= verify->publisher_next)
        return report_problem(verify, "publisher %s: number %" PRIu32 " was not given yet",
                              row->worker, row->number);
    if (row->ns >= verify->namespaces)
        return report_problem(verify, "publisher %s: no namespace has number %" PRIu32, row->worker,
                              row->ns);
    return KVT_OK;
}

static enum kvt_err
see_sweep(void *arg, const void *data)
{
    const struct advisor_sweep_row *row = data;
    const struct advisor_verify *verify = arg;

    if (row->holder >= verify->holders || row->publisher >= verify->publisher_next)
        return report_problem(verify,
                              "sweep of publisher %" PRIu32 ": holder %" PRIu32 " or it is unknown",
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
        rc = advisor_store_walk(verify->txn, ADVISOR_ROW_PUBLISHER, see_publisher, verify);
    if (rc == KVT_OK)
        rc = advisor_store_walk(verify->txn, ADVISOR_ROW_SWEEP, see_sweep, verify);
    return rc;
}

/* Names are added while we look: one that was not there at first may be now. */
static enum kvt_tier
tier_of(const struct advisor_verify *verify, uint32_t number)
{
    struct index_holder holder;

    if (number < verify->holders)
        return (enum kvt_tier)verify->tiers[number];
    if (advisor_store_holder(verify->txn, number, &holder) != KVT_OK)
        return (enum kvt_tier)0;
    return holder.tier;
}

static bool
has_namespace(const struct advisor_verify *verify, uint32_t number)
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
    const enum kvt_tier tier = tier_of(verify, place->holder);
    struct advisor_held held = {0};
    size_t found = 0;
    enum kvt_err rc;

    if (tier < KVT_TIER_G1)
        return report_problem(verify, "block %016" PRIx64 ": no holder has number %" PRIu32,
                              block->hash, place->holder);
    if (tier != KVT_TIER_G4)
        return report_problem(verify,
                              "block %016" PRIx64 ": holder %" PRIu32
                              " is a worker's, whose places are logged",
                              block->hash, place->holder);
    if (place->ranks == 0)
        return report_problem(verify,
                              "block %016" PRIx64 ": holder %" PRIu32 " holds no shard of it",
                              block->hash, place->holder);
    rc = advisor_store_held(verify->txn, place->holder, block->ns, block->hash, &held, 1, &found);
    if (rc != KVT_OK)
        return rc;
    if (found == 0 || held.hash != block->hash)
        return report_problem(verify,
                              "block %016" PRIx64 ": nobody reported its place at holder %" PRIu32,
                              block->hash, place->holder);
    if (held.reporter >= verify->publisher_next)
        return report_problem(verify,
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
            rc = report_problem(verify, "block %016" PRIx64 ": holder %" PRIu32 " twice",
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
        rc = report_problem(verify, "block %016" PRIx64 ": it is nowhere", block->hash);
    if (rc == KVT_OK && !has_namespace(verify, block->ns))
        rc = report_problem(verify, "block %016" PRIx64 ": no namespace has number %" PRIu32,
                            block->hash, block->ns);
    if (rc == KVT_OK && block->position > KVT_POSITION_MAX)
        rc = report_problem(verify, "block %016" PRIx64 ": position %" PRIu32, block->hash,
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
    return report_problem(verify, "holder %" PRIu32 " holds %016" PRIx64 ", and no block says so",
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

/* ---- the event log, and what was evicted ---- */

enum { LOG_PAGE = 4096 };

/* One part of the log: the snapshot's rows, or the journal's. */
struct part {
    struct advisor_verify *verify;
    const char *name;
    uint64_t number; /* of the row */
    uint64_t bytes;
    bool journal;
};

struct walk {
    struct advisor_store_log_cursor cursor;
    struct part snapshot;
    struct part journal;
};

/* ---- one operation ---- */

static bool
has_place(enum advisor_event_log_kind kind)
{
    return kind != ADVISOR_EVENT_LOG_RUN;
}

static bool
has_shards(enum advisor_event_log_kind kind)
{
    return kind == ADVISOR_EVENT_LOG_STORE || kind == ADVISOR_EVENT_LOG_REMOVE;
}

static bool
has_position(enum advisor_event_log_kind kind)
{
    return kind == ADVISOR_EVENT_LOG_STORE || kind == ADVISOR_EVENT_LOG_RUN;
}

/* A snapshot says what there is, the journal what came and went. */
static bool
is_of(const struct part *part, enum advisor_event_log_kind kind)
{
    return kind == ADVISOR_EVENT_LOG_STORE || (kind == ADVISOR_EVENT_LOG_RUN) != part->journal;
}

static enum kvt_err
see_op(const struct part *part, const struct advisor_event_log_op *op)
{
    const struct advisor_verify *verify = part->verify;

    verify->counts->changes += op->kind == ADVISOR_EVENT_LOG_DROP ? 1 : op->count;
    if (!is_of(part, op->kind))
        return report_problem(verify, "%s row %" PRIu64 ": an operation of kind %d", part->name,
                              part->number, (int)op->kind);
    if (!has_namespace(verify, op->place.ns))
        return report_problem(verify, "%s row %" PRIu64 ": no namespace has number %" PRIu32,
                              part->name, part->number, op->place.ns);
    if (has_place(op->kind)) {
        const enum kvt_tier tier = tier_of(verify, op->place.holder);

        if (tier < KVT_TIER_G1)
            return report_problem(verify, "%s row %" PRIu64 ": no holder has number %" PRIu32,
                                  part->name, part->number, op->place.holder);
        /* What the journal says of a holder may be of one that had the number before. */
        if (tier == KVT_TIER_G4 && !part->journal)
            return report_problem(
                verify, "%s row %" PRIu64 ": holder %" PRIu32 " is of G4, whose places have rows",
                part->name, part->number, op->place.holder);
    }
    if (has_shards(op->kind) && op->place.ranks == 0)
        return report_problem(verify, "%s row %" PRIu64 ": a place without shards", part->name,
                              part->number);
    if (has_position(op->kind) && (uint64_t)op->position + op->count > KVT_POSITION_MAX + 1ULL)
        return report_problem(verify, "%s row %" PRIu64 ": position %" PRIu32, part->name,
                              part->number, op->position);
    return KVT_OK;
}

/* ---- rows ---- */

static enum kvt_err
see_row(void *arg, const void *row, size_t size)
{
    struct walk *walk = arg;
    struct part *part = walk->cursor.in_journal ? &walk->journal : &walk->snapshot;
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    enum kvt_err rc = advisor_event_log_open(&reader, row, size);
    enum kvt_err said = KVT_OK;

    part->number = walk->cursor.row;
    part->bytes += size;
    part->verify->counts->log_rows++;
    if (rc == KVT_CORRUPT)
        said = report_problem(part->verify, "%s row %" PRIu64 ": its checksum is wrong", part->name,
                              part->number);
    while (rc == KVT_OK && said == KVT_OK) {
        rc = advisor_event_log_next(&reader, &op);
        if (rc == KVT_OK)
            said = see_op(part, &op);
        else if (rc == KVT_CORRUPT)
            said = report_problem(part->verify, "%s row %" PRIu64 ": no operation", part->name,
                                  part->number);
    }
    return said;
}

static enum kvt_err
compare(const struct part *part, uint64_t bytes)
{
    if (part->bytes == bytes)
        return KVT_OK;
    return report_problem(part->verify, "%s: %" PRIu64 " bytes, and its state says %" PRIu64,
                          part->name, part->bytes, bytes);
}

/* KVT_CORRUPT: what it says of tables and numbers cannot be. */
static enum kvt_err
get_state(const struct advisor_verify *verify, struct advisor_store_log *state)
{
    const enum kvt_err rc = advisor_store_log_get(verify->txn, state);

    if (rc == KVT_OK && state->building != 0 &&
        (state->building == state->whole || state->building_from < state->from ||
         state->building_from > state->next))
        return KVT_CORRUPT;
    return rc;
}

static enum kvt_err
verify_rows(struct advisor_verify *verify)
{
    struct walk walk = {.snapshot = {.verify = verify, .name = "snapshot"},
                        .journal = {.verify = verify, .name = "journal", .journal = true}};
    struct kvt_error err = {.text = ""};
    struct advisor_store_log state;
    enum kvt_err rc = get_state(verify, &state);

    if (rc == KVT_CORRUPT)
        return report_problem(verify, "the log's state contradicts itself");
    while (rc == KVT_OK && !walk.cursor.done)
        rc = advisor_store_log_rows(verify->txn, &walk.cursor, LOG_PAGE, see_row, &walk, &err);
    /* A row is missing: nothing behind it can be counted. */
    if (rc == KVT_CORRUPT)
        return report_problem(verify, "%s", err.text);
    if (rc == KVT_OK)
        rc = compare(&walk.snapshot, state.runs_bytes);
    return rc == KVT_OK ? compare(&walk.journal, state.bytes) : rc;
}

/* ---- evicted ---- */

static enum kvt_err
see_cold(void *arg, const struct advisor_store_block *block)
{
    const struct advisor_verify *verify = arg;

    verify->counts->evicted++;
    if (!has_namespace(verify, block->ns))
        return report_problem(verify,
                              "evicted block %016" PRIx64 ": no namespace has number %" PRIu32,
                              block->hash, block->ns);
    for (uint32_t i = 0; i < block->place_count; i++) {
        const struct advisor_store_place *place = &block->places[i];
        const enum kvt_tier tier = tier_of(verify, place->holder);

        if (tier >= KVT_TIER_G1 && tier < KVT_TIER_G4 && place->ranks != 0)
            continue;
        return report_problem(
            verify, "evicted block %016" PRIx64 ": holder %" PRIu32 " with shards %" PRIx32,
            block->hash, place->holder, place->ranks);
    }
    return KVT_OK;
}

static enum kvt_err
verify_log(struct advisor_verify *verify, struct advisor_store *store)
{
    struct advisor_txn txn;
    uint64_t cursor = 0;
    enum kvt_err rc = advisor_store_read(store, &txn, NULL);

    if (rc != KVT_OK)
        return rc;
    verify->txn = &txn;
    rc = verify_rows(verify);
    while (rc == KVT_OK) {
        rc = advisor_evicted_blocks(&txn, cursor, LOG_PAGE, &cursor, see_cold, verify);
        if (cursor == 0)
            break;
    }
    advisor_store_end(&txn);
    return rc;
}

/* ---- versions of the policy ---- */

/* Versions of the policy: each can be read, has the digest of its text, and none is missing. */

struct versions {
    const struct advisor_verify *verify;
    uint64_t former; /* the version before this in the walk, which is the next one; 0: none */
};

static enum kvt_err
see_version(void *arg, const struct advisor_policy_row *row)
{
    struct versions *versions = arg;
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    struct advisor_policy_row same;
    const char *text;
    enum kvt_err rc = advisor_store_policy(versions->verify->txn, row->version, &same, &text);

    if (rc == KVT_OK)
        rc = advisor_rulebook_digest(text, row->size, digest);
    if (rc == KVT_OK && strcmp(digest, row->digest) != 0)
        rc =
            report_problem(versions->verify,
                           "policy version %" PRIu64 ": its text has another digest", row->version);
    if (rc == KVT_OK && versions->former != 0 && row->version + 1 != versions->former)
        rc = report_problem(versions->verify,
                            "policy version %" PRIu64 " is missing behind %" PRIu64,
                            row->version + 1, row->version);
    versions->former = row->version;
    return rc;
}

static enum kvt_err
verify_policies(struct advisor_verify *verify, struct advisor_store *store)
{
    struct versions versions = {.verify = verify};
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(store, &txn, NULL);

    if (rc != KVT_OK)
        return rc;
    verify->txn = &txn;
    rc = advisor_store_policies(&txn, see_version, &versions);
    if (rc == KVT_CORRUPT)
        rc = report_problem(verify, "a version of the policy cannot be read");
    advisor_store_end(&txn);
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
        rc = verify_log(&verify, store);
    if (rc == KVT_OK)
        rc = verify_policies(&verify, store);
    kvt_free(verify.tiers);
    kvt_free(rows);
    return rc;
}
