#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/aliases.h"
#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* What one event of another system's worker changes. */

enum { MS_PER_S = 1000 };

/* ---- positions of blocks ---- */

static struct advisor_recent *
recent_of(const struct advisor_round *round, uint32_t ns, uint64_t hash)
{
    return &round->recent[(hash ^ ((uint64_t)ns << 32)) % ADVISOR_RECENT_BLOCKS];
}

static uint32_t
known_position(uint64_t parent, uint32_t position)
{
    return parent == 0 && position > 0 ? ADVISOR_POSITION_NOBODY : position;
}

/* Of a block that was evicted from RAM. */
static uint32_t
cold_position(struct advisor_round *round, uint32_t ns, uint64_t hash)
{
    struct advisor_store_block block = {.ns = ns, .hash = hash};
    uint32_t position = ADVISOR_POSITION_NOBODY;
    struct advisor_txn txn;

    if (round->evicted == NULL || !advisor_evicted_may_have(round->evicted, ns, hash) ||
        advisor_store_read(round->options.store, &txn, NULL) != KVT_OK)
        return position;
    if (advisor_evicted_get(&txn, ns, hash, &block) == KVT_OK)
        position = known_position(block.parent, block.position);
    advisor_store_block_release(&block);
    advisor_store_end(&txn);
    return position;
}

/* Position of a block that is indexed, or in the group. */
static uint32_t
position_of(void *arg, uint64_t hash)
{
    struct advisor_round *round = arg;
    const uint32_t ns = round->speaking->row.ns;
    const struct advisor_recent *recent = recent_of(round, ns, hash);
    struct index_view view;

    if (recent->hash == hash && recent->ns == ns)
        return recent->position;
    if (index_get(round->options.index, advisor_name_table_index_namespace(round->names, ns), hash,
                  &view) != KVT_OK)
        return cold_position(round, ns, hash);
    return known_position(view.block.id.parent, view.block.id.position);
}

static struct advisor_speaker
speaker_of(struct advisor_round *round, struct advisor_publisher *publisher)
{
    round->speaking = publisher;
    return (struct advisor_speaker){.publisher = publisher->row.number,
                                    .gen = publisher->row.gen,
                                    .floor = publisher->foreign.floor,
                                    .position = position_of,
                                    .arg = round};
}

/* ---- places ---- */

static enum kvt_err
find_holder(struct advisor_round *round, const struct advisor_publisher *publisher,
            const struct wire_raw_event *event, enum kvt_tier tier, uint32_t *holder)
{
    const bool named = tier == KVT_TIER_G4 && round->raw->holder[0] != '\0';
    struct index_holder key = {.dp_rank = tier == KVT_TIER_G4 ? 0 : event->dp_rank, .tier = tier};

    (void)snprintf(key.name, sizeof(key.name), "%s",
                   named ? round->raw->holder : publisher->row.worker);
    return advisor_name_table_holder(round->names, &key, holder);
}

/* What all blocks of an event have in common. */
struct change {
    bool g4;
    struct advisor_op op;                 /* in G4: rows */
    struct advisor_event_log_place place; /* else: the log */
};

static void
begin_row(struct advisor_round *round, struct advisor_publisher *publisher,
          const struct advisor_event_log_place *place, const struct index_holder *key,
          uint64_t time_ms, struct advisor_op *op)
{
    *op = (struct advisor_op){
        .size = place->size,
        .time_ms = time_ms,
        .ns = place->ns,
        .holder = place->holder,
        .ranks = place->ranks,
        .reporter = publisher->row.number,
        .gen = publisher->row.gen,
        .hot = advisor_holder_is_hot(key),
        .warm = advisor_holder_is_warm(key),
        .cold = advisor_holder_is_cold(key),
    };
    /* In a dump everything older is void; its sweep only comes with its end. */
    op->floor = publisher->dump_incarnation != 0
                    ? publisher->row.gen
                    : advisor_sweeper_floor(round->sweeper, publisher->row.number, op->holder);
    if (publisher->row.holds_g4 == 0) {
        publisher->row.holds_g4 = 1;
        publisher->dirty = true;
    }
}

static enum kvt_err
begin(struct advisor_round *round, struct advisor_publisher *publisher,
      const struct wire_raw_event *event, uint64_t time_ms, struct change *change)
{
    const struct index_holder *key;
    enum kvt_err rc;

    change->place = (struct advisor_event_log_place){
        .size = event->size,
        .ns = publisher->row.ns,
        .ranks = event->ranks == 0 ? 1 : event->ranks,
        .time_s = (uint32_t)(time_ms / MS_PER_S),
    };
    rc = find_holder(round, publisher, event, event->tier, &change->place.holder);
    if (rc != KVT_OK)
        return rc;
    key = advisor_name_table_holder_key(round->names, change->place.holder);
    change->g4 = key->tier == KVT_TIER_G4;
    if (change->g4)
        begin_row(round, publisher, &change->place, key, time_ms, &change->op);
    else
        advisor_round_met(round, publisher, key->dp_rank);
    return KVT_OK;
}

static enum kvt_err
add_block(struct advisor_round *round, struct change *change, const struct advisor_named *block)
{
    if (!change->g4)
        return advisor_change_group_store(round->group, &change->place, block->parent,
                                          block->position, &block->hash, &block->tokens_hash, 1);
    change->op.kind = ADVISOR_OP_STORE;
    change->op.hash = block->hash;
    change->op.parent = block->parent;
    change->op.tokens_hash = block->tokens_hash;
    change->op.position = block->position;
    return advisor_change_group_add(round->group, &change->op);
}

static enum kvt_err
remove_block(struct advisor_round *round, struct change *change, uint64_t hash)
{
    if (!change->g4)
        return advisor_change_group_remove(round->group, &change->place, &hash, 1);
    change->op.kind = ADVISOR_OP_REMOVE;
    change->op.hash = hash;
    return advisor_change_group_add(round->group, &change->op);
}

static enum kvt_err
add_named(struct advisor_round *round, struct change *change, const struct advisor_named *named,
          uint32_t count, const bool *left)
{
    const uint32_t ns = change->place.ns;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct advisor_named *block = &named[i];

        if (left != NULL && left[i])
            continue;
        if (block->parent != 0 || block->position == 0)
            *recent_of(round, ns, block->hash) =
                (struct advisor_recent){.hash = block->hash, .ns = ns, .position = block->position};
        rc = add_block(round, change, block);
    }
    return rc;
}

/* ---- stores ---- */

static enum kvt_err
wait_for_parent(struct advisor_round *round, struct advisor_intake *intake,
                struct advisor_publisher *publisher, const struct wire_raw_batch *batch,
                const struct wire_raw_event *event)
{
    const enum kvt_err rc =
        advisor_orphans_add(round->orphans, publisher->row.number, batch, event);

    if (rc != KVT_FULL)
        return rc;
    intake->counts.orphans++;
    if (publisher->foreign.lost == 0 && !advisor_publisher_uncertain(publisher)) {
        advisor_foreign_lose(publisher, "too many stores without a known parent");
        advisor_round_given_up(round, publisher);
    }
    return KVT_OK;
}

/* One store, ours or one that had waited (`left`: which of its blocks are gone meanwhile). */
static enum kvt_err
store_blocks(struct advisor_round *round, struct advisor_intake *intake,
             struct advisor_publisher *publisher, const struct wire_raw_batch *batch,
             const struct wire_raw_event *event, const bool *left)
{
    const struct advisor_speaker speaker = speaker_of(round, publisher);
    enum advisor_naming naming;
    struct change change;
    enum kvt_err rc =
        advisor_identity_store(round->aliases, &speaker, batch, event, round->named, &naming);

    if (rc != KVT_OK)
        return rc;
    switch (naming) {
    case ADVISOR_ORPHAN: return wait_for_parent(round, intake, publisher, batch, event);
    case ADVISOR_CONFLICT: intake->counts.conflicts++; return KVT_OK;
    case ADVISOR_NAMED: break;
    }
    rc = begin(round, publisher, event, batch->time_ms, &change);
    if (rc == KVT_OK)
        rc = add_named(round, &change, round->named, event->count, left);
    for (uint32_t i = 0; left != NULL && i < event->count; i++) {
        bool known;

        /* Its name was needed for those behind it. */
        if (left[i])
            (void)advisor_identity_remove(round->aliases, &speaker, event->tier,
                                          batch->blocks[event->first + i].hash, &known);
    }
    return rc;
}

/* Those that wait for a block of this event, put behind `end`; returns the new end. */
static struct advisor_orphan **
collect(struct advisor_round *round, const struct advisor_publisher *publisher,
        const struct wire_raw_batch *batch, const struct wire_raw_event *event,
        struct advisor_orphan **end)
{
    for (uint32_t i = 0; i < event->count; i++) {
        const uint64_t hash = batch->blocks[event->first + i].hash;
        struct advisor_orphan *orphan =
            advisor_orphans_take(round->orphans, publisher->row.number, hash);

        for (; orphan != NULL;
             orphan = advisor_orphans_take(round->orphans, publisher->row.number, hash)) {
            orphan->next = NULL;
            *end = orphan;
            end = &orphan->next;
        }
    }
    return end;
}

/* Whoever waited for one of these blocks is named now, and whoever waited for those. */
static enum kvt_err
join(struct advisor_round *round, struct advisor_intake *intake,
     struct advisor_publisher *publisher, const struct wire_raw_event *event)
{
    struct advisor_orphan *first = NULL;
    struct advisor_orphan **end = collect(round, publisher, round->raw, event, &first);
    enum kvt_err rc = KVT_OK;

    while (first != NULL) {
        struct advisor_orphan *orphan = first;

        if (rc == KVT_OK)
            rc = store_blocks(round, intake, publisher, &orphan->batch, &orphan->event,
                              orphan->left);
        end = collect(round, publisher, &orphan->batch, &orphan->event, end);
        first = orphan->next;
        if (first == NULL)
            end = &first;
        advisor_orphan_free(orphan);
    }
    return rc;
}

static enum kvt_err
store(struct advisor_round *round, struct advisor_intake *intake,
      struct advisor_publisher *publisher, const struct wire_raw_event *event)
{
    enum kvt_err rc;

    if (intake->block_tokens != 0 && event->block_tokens != 0 &&
        intake->block_tokens != event->block_tokens) {
        intake->counts.conflicts++;
        return KVT_OK;
    }
    rc = store_blocks(round, intake, publisher, round->raw, event, NULL);
    if (rc == KVT_OK && advisor_orphans_waiting(round->orphans, publisher->row.number) > 0)
        rc = join(round, intake, publisher, event);
    return rc;
}

/* ---- what goes ---- */

static enum kvt_err
remove_blocks(struct advisor_round *round, struct advisor_intake *intake,
              struct advisor_publisher *publisher, const struct wire_raw_event *event)
{
    const struct advisor_speaker speaker = speaker_of(round, publisher);
    struct change change;
    enum kvt_err rc = begin(round, publisher, event, round->raw->time_ms, &change);

    for (uint32_t i = 0; i < event->count && rc == KVT_OK; i++) {
        const uint64_t hash = round->raw->blocks[event->first + i].hash;
        uint64_t name;
        bool known;

        name = advisor_identity_remove(round->aliases, &speaker, event->tier, hash, &known);
        if (!known &&
            advisor_orphans_remove(round->orphans, publisher->row.number, event->tier, hash))
            continue;
        if (!known && position_of(round, hash) == ADVISOR_POSITION_NOBODY)
            intake->counts.unmatched++;
        rc = remove_block(round, &change, name);
    }
    return rc;
}

/* The holder of a tier is empty. */
static enum kvt_err
clear_tier(struct advisor_round *round, struct advisor_publisher *publisher,
           const struct wire_raw_event *event)
{
    struct advisor_speaker speaker = speaker_of(round, publisher);
    uint32_t holder;
    enum kvt_err rc = find_holder(round, publisher, event, event->tier, &holder);

    if (rc != KVT_OK)
        return rc;
    advisor_identity_clear(round->aliases, &speaker, event->tier);
    (void)advisor_orphans_drop(round->orphans, publisher->row.number, event->tier);
    return advisor_round_clear(round, publisher, holder);
}

static enum kvt_err
clear(struct advisor_round *round, struct advisor_publisher *publisher,
      const struct wire_raw_event *event)
{
    if (event->tier != WIRE_RAW_TIER_ALL)
        return clear_tier(round, publisher, event);
    advisor_foreign_cleared(publisher);
    advisor_aliases_void(round->aliases);
    (void)advisor_orphans_drop(round->orphans, publisher->row.number, WIRE_RAW_TIER_ALL);
    return advisor_round_void(round, publisher);
}

/* `publisher` is NULL where not even that could be read. */
static void
skip(struct advisor_round *round, struct advisor_intake *intake,
     struct advisor_publisher *publisher, const struct wire_raw_event *event)
{
    intake->counts.skipped[event->why < WIRE_RAW_WHY_COUNT ? event->why : WIRE_RAW_MALFORMED]++;
    kvt_metric_inc(round->counters.unknown, 1);
    if (event->why != WIRE_RAW_MALFORMED || publisher == NULL || publisher->foreign.lost != 0 ||
        publisher->dump_incarnation != 0)
        return;
    /* Its number is used up, and nobody knows what it said. */
    if (publisher->foreign.messages == 0) {
        advisor_foreign_want_dump(publisher, kvt_clock_mono_ms());
    } else {
        advisor_foreign_lose(publisher, "an event of it could not be read");
        advisor_round_given_up(round, publisher);
    }
}

void
advisor_round_apply_raw(struct advisor_round *round, struct advisor_intake *intake,
                        struct advisor_publisher *publisher, const struct wire_raw_event *event)
{
    const bool dumping = publisher != NULL && publisher->dump_incarnation != 0;
    enum kvt_err rc = KVT_OK;

    switch (event->kind) {
    case WIRE_RAW_STORE: rc = store(round, intake, publisher, event); break;
    case WIRE_RAW_REMOVE: rc = remove_blocks(round, intake, publisher, event); break;
    case WIRE_RAW_CLEAR: rc = clear(round, publisher, event); break;
    case WIRE_RAW_BYE:
        kvt_log_info("advisor.publishers", "bye", "%s left", publisher->row.worker);
        advisor_round_forget(round, publisher);
        break;
    case WIRE_RAW_SKIP: skip(round, intake, publisher, event); return;
    }
    intake->counts.events++;
    kvt_metric_inc(round->counters.applied, 1);
    if (rc == KVT_OK)
        return;
    kvt_metric_inc(round->counters.refused, 1);
    kvt_log_error("advisor.events", "refused", "event %" PRIu64 " of %s: %s", event->id,
                  publisher->row.worker, kvt_err_text(rc));
    if (rc == KVT_RANGE)
        return; /* a block that is not known is not missed, and all that goes is heard of */
    /* Applied in part it is wrong for good, and a dump would meet the same limit. */
    advisor_foreign_lose(publisher, rc == KVT_FULL ? "a limit was reached: no room for its blocks"
                                                   : "out of memory while its events were applied");
    advisor_round_given_up(round, publisher);
    /* Half of a dump has replaced what was known in G4: the older half has no names any more. */
    if (dumping && advisor_round_sweep(round, publisher) != KVT_OK)
        kvt_log_error("advisor.publishers", "sweep", "%s: no memory to sweep",
                      publisher->row.worker);
}
