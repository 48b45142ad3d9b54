#include <inttypes.h>

#include "advisor/archive/verify_private.h"
#include "advisor/index/evicted.h"
#include "advisor/store/event_log_table.h"

enum { PAGE = 4096 };

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
        return advisor_verify_tell(verify, "%s row %" PRIu64 ": an operation of kind %d",
                                   part->name, part->number, (int)op->kind);
    if (!advisor_verify_namespace(verify, op->place.ns))
        return advisor_verify_tell(verify, "%s row %" PRIu64 ": no namespace has number %" PRIu32,
                                   part->name, part->number, op->place.ns);
    if (has_place(op->kind)) {
        const enum kvt_tier tier = advisor_verify_tier(verify, op->place.holder);

        if (tier < KVT_TIER_G1)
            return advisor_verify_tell(verify, "%s row %" PRIu64 ": no holder has number %" PRIu32,
                                       part->name, part->number, op->place.holder);
        /* What the journal says of a holder may be of one that had the number before. */
        if (tier == KVT_TIER_G4 && !part->journal)
            return advisor_verify_tell(
                verify, "%s row %" PRIu64 ": holder %" PRIu32 " is of G4, whose places have rows",
                part->name, part->number, op->place.holder);
    }
    if (has_shards(op->kind) && op->place.ranks == 0)
        return advisor_verify_tell(verify, "%s row %" PRIu64 ": a place without shards", part->name,
                                   part->number);
    if (has_position(op->kind) && (uint64_t)op->position + op->count > KVT_POSITION_MAX + 1ULL)
        return advisor_verify_tell(verify, "%s row %" PRIu64 ": position %" PRIu32, part->name,
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
        said = advisor_verify_tell(part->verify, "%s row %" PRIu64 ": its checksum is wrong",
                                   part->name, part->number);
    while (rc == KVT_OK && said == KVT_OK) {
        rc = advisor_event_log_next(&reader, &op);
        if (rc == KVT_OK)
            said = see_op(part, &op);
        else if (rc == KVT_CORRUPT)
            said = advisor_verify_tell(part->verify, "%s row %" PRIu64 ": no operation", part->name,
                                       part->number);
    }
    return said;
}

static enum kvt_err
compare(const struct part *part, uint64_t bytes)
{
    if (part->bytes == bytes)
        return KVT_OK;
    return advisor_verify_tell(part->verify, "%s: %" PRIu64 " bytes, and its state says %" PRIu64,
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
        return advisor_verify_tell(verify, "the log's state contradicts itself");
    while (rc == KVT_OK && !walk.cursor.done)
        rc = advisor_store_log_rows(verify->txn, &walk.cursor, PAGE, see_row, &walk, &err);
    /* A row is missing: nothing behind it can be counted. */
    if (rc == KVT_CORRUPT)
        return advisor_verify_tell(verify, "%s", err.text);
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
    if (!advisor_verify_namespace(verify, block->ns))
        return advisor_verify_tell(verify,
                                   "evicted block %016" PRIx64 ": no namespace has number %" PRIu32,
                                   block->hash, block->ns);
    for (uint32_t i = 0; i < block->place_count; i++) {
        const struct advisor_store_place *place = &block->places[i];
        const enum kvt_tier tier = advisor_verify_tier(verify, place->holder);

        if (tier >= KVT_TIER_G1 && tier < KVT_TIER_G4 && place->ranks != 0)
            continue;
        return advisor_verify_tell(
            verify, "evicted block %016" PRIx64 ": holder %" PRIu32 " with shards %" PRIx32,
            block->hash, place->holder, place->ranks);
    }
    return KVT_OK;
}

enum kvt_err
advisor_verify_log(struct advisor_verify *verify, struct advisor_store *store)
{
    struct advisor_txn txn;
    uint64_t cursor = 0;
    enum kvt_err rc = advisor_store_read(store, &txn, NULL);

    if (rc != KVT_OK)
        return rc;
    verify->txn = &txn;
    rc = verify_rows(verify);
    while (rc == KVT_OK) {
        rc = advisor_evicted_blocks(&txn, cursor, PAGE, &cursor, see_cold, verify);
        if (cursor == 0)
            break;
    }
    advisor_store_end(&txn);
    return rc;
}
