#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/publisher/aliases.h"
#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/round_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/engine.h"

/* Messages of other systems: who speaks, in which life, and is it their turn? */

enum kvt_err
advisor_round_foreign_new(struct advisor_round *round)
{
    enum kvt_err rc = wire_raw_batch_new(&round->raw);

    if (rc == KVT_OK)
        rc = advisor_aliases_new(&round->aliases, round->options.aliases_max == 0
                                                      ? ADVISOR_ALIASES_MAX
                                                      : round->options.aliases_max);
    if (rc == KVT_OK)
        rc = advisor_orphans_new(&round->orphans);
    if (rc == KVT_OK)
        rc = advisor_number_map_new(&round->lives);
    round->named = kvt_calloc(WIRE_RAW_BLOCKS_MAX, sizeof(*round->named));
    round->recent = kvt_calloc(ADVISOR_RECENT_BLOCKS, sizeof(*round->recent));
    round->life = kvt_calloc(ADVISOR_LIVES_MAX, sizeof(*round->life));
    if (round->named == NULL || round->recent == NULL || round->life == NULL)
        rc = KVT_NOMEM;
    return rc;
}

void
advisor_round_foreign_free(struct advisor_round *round)
{
    advisor_round_replay_free(round);
    wire_raw_batch_free(round->raw);
    advisor_aliases_free(round->aliases);
    advisor_orphans_free(round->orphans);
    advisor_number_map_free(round->lives);
    kvt_free(round->named);
    kvt_free(round->recent);
    kvt_free(round->life);
}

/* ---- ends ---- */

/* What it stored so far is void; it may well speak on. */
static void
void_all(struct advisor_round *round, struct advisor_publisher *publisher)
{
    advisor_publisher_unhold_all(publisher);
    advisor_aliases_void(round->aliases);
    (void)advisor_orphans_drop(round->orphans, publisher->row.number, WIRE_RAW_TIER_ALL);
    if (advisor_round_void(round, publisher) == KVT_OK)
        return;
    kvt_log_error("advisor.publishers", "void", "%s: no memory to drop what it held",
                  publisher->row.worker);
    advisor_foreign_lose(publisher, "no memory to drop what it held before");
}

void
advisor_round_forget(struct advisor_round *round, struct advisor_publisher *publisher)
{
    advisor_foreign_leave(publisher);
    advisor_round_parted(round, publisher);
    void_all(round, publisher);
}

void
advisor_round_renewed(struct advisor_round *round, struct advisor_publisher *publisher)
{
    kvt_log_info("advisor.publishers", "renewed", "%s began anew while it was not heard",
                 publisher->row.worker);
    advisor_foreign_renewed(publisher, kvt_clock_mono_ms());
    publisher->staff.anew = true;
    void_all(round, publisher);
}

void
advisor_round_given_up(struct advisor_round *round, struct advisor_publisher *publisher)
{
    (void)round;
    kvt_log_warn("advisor.publishers", "given_up", "%s: uncertain until it clears or restarts: %s",
                 publisher->row.worker, publisher->foreign.reason);
}

void
advisor_round_worker_gone(struct advisor_round *round, const struct advisor_intake *intake,
                          uint64_t worker_id)
{
    const size_t count = advisor_publishers_count(round->publishers);

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->row.gone != 0 || publisher->foreign.source != intake->number ||
            publisher->foreign.worker_id != worker_id)
            continue;
        kvt_log_info("advisor.publishers", "gone", "%s of %s left its cluster",
                     publisher->row.worker, intake->name);
        advisor_round_forget(round, publisher);
    }
    advisor_publishers_wake(round->publishers);
}

/* ---- numbered messages of a life, whose events are numbered too ---- */

/* Releases differ in whether the ranks of a worker share the publisher's number; none lets them
 * share its sequence. */
struct life_key {
    uint64_t life;
    uint32_t source;
    uint32_t dp_rank;
};

/* The life's messages, made on first sight; NULL: no memory, which costs an early warning. */
static struct advisor_life *
find_life(struct advisor_round *round, const struct life_key *key, bool *fresh)
{
    uint32_t at;

    *fresh = false;
    if (advisor_number_map_get(round->lives, key, sizeof(*key), &at))
        return &round->life[at];
    if (advisor_number_map_count(round->lives) == ADVISOR_LIVES_MAX) {
        /* Begin anew: the numbers of events still tell what is missing. */
        struct advisor_number_map *lives;

        if (advisor_number_map_new(&lives) != KVT_OK)
            return NULL;
        advisor_number_map_free(round->lives);
        round->lives = lives;
    }
    at = (uint32_t)advisor_number_map_count(round->lives);
    if (advisor_number_map_put(round->lives, key, sizeof(*key), at) != KVT_OK)
        return NULL;
    *fresh = true;
    return &round->life[at];
}

/* Messages between were lost: whoever speaks in that life may miss something. */
static void
doubt_life(struct advisor_round *round, struct advisor_intake *intake, const struct life_key *key)
{
    const size_t count = advisor_publishers_count(round->publishers);
    const uint64_t now_ms = kvt_clock_mono_ms();

    intake->counts.gaps++;
    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->is_foreign && publisher->foreign.source == key->source &&
            publisher->foreign.life == key->life && publisher->foreign.dp_rank == key->dp_rank)
            advisor_foreign_doubt(publisher, now_ms);
    }
    advisor_publishers_wake(round->publishers);
}

/* What the message's own number says.  What came before, from another broker, is left to the
 * numbers of its events: they know for certain. */
static void
note_sequence(struct advisor_round *round, struct advisor_intake *intake)
{
    const struct wire_raw_batch *raw = round->raw;
    struct life_key key = {.life = raw->publisher, .source = intake->number};
    struct advisor_life *life;
    bool fresh;

    if (!raw->has_sequence || raw->publisher == 0 || raw->event_count == 0)
        return;
    key.dp_rank = raw->events[0].dp_rank;
    life = find_life(round, &key, &fresh);
    if (life == NULL)
        return;
    if (!fresh && raw->sequence > life->last + 1)
        doubt_life(round, intake, &key);
    if (fresh || raw->sequence > life->last)
        life->last = raw->sequence;
}

/* ---- who speaks ---- */

/* How a message's numbers are to be read. */
enum numbering { NUMBERED_NOT, NUMBERED_EVENTS, NUMBERED_MESSAGES };

static enum numbering
numbering_of(const struct advisor_intake *intake, const struct wire_raw_batch *raw)
{
    switch (intake->ops->dialect) {
    case WIRE_DIALECT_DYNAMO: return NUMBERED_EVENTS;
    case WIRE_DIALECT_ENGINE: return raw->has_sequence ? NUMBERED_MESSAGES : NUMBERED_NOT;
    case WIRE_DIALECT_KVTIER:
    case WIRE_DIALECT_KVBM:
    case WIRE_DIALECT_MINIO:
    case WIRE_DIALECT_COUNT: break;
    }
    return NUMBERED_NOT;
}

static enum kvt_err
find_speaker(struct advisor_round *round, const struct advisor_hearing *hearing,
             const struct wire_raw_event *event, struct advisor_publisher **out)
{
    const struct wire_raw_batch *raw = round->raw;
    const bool by_event = numbering_of(hearing->intake, raw) == NUMBERED_EVENTS;
    struct advisor_foreign_key key = {
        .namespace_ = raw->namespace_[0] != '\0' && hearing->intake->namespace_[0] == '\0'
                          ? raw->namespace_
                          : hearing->intake->namespace_,
        .worker = raw->worker,
        .source = hearing->intake->number,
        .messages = !by_event,
        .any_rank = !by_event,
    };
    char decimal[24];
    enum kvt_err rc;

    *out = NULL;
    if (by_event && event != NULL) {
        key.worker_id = event->worker;
        key.dp_rank = event->dp_rank;
        (void)snprintf(decimal, sizeof(decimal), "%" PRIu64, event->worker);
        if (raw->worker[0] == '\0')
            key.worker = decimal;
    } else if (raw->worker[0] == '\0') {
        key.worker = hearing->intake->ops->dialect == WIRE_DIALECT_ENGINE ? hearing->item->subject
                                                                          : hearing->intake->name;
    }
    rc = advisor_name_table_namespace(round->names, key.namespace_, key.source, &key.ns);
    if (rc == KVT_FULL)
        kvt_metric_inc(round->counters.ns_refused, 1);
    if (rc == KVT_OK)
        rc = advisor_publishers_get_foreign(round->publishers, &key, out);
    if (rc == KVT_OK && (*out)->subject[0] == '\0')
        (void)snprintf((*out)->subject, sizeof((*out)->subject), "%s", hearing->item->subject);
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.refused, 1);
        (void)snprintf(hearing->intake->counts.last_error,
                       sizeof(hearing->intake->counts.last_error), "no room for worker %s: %s",
                       key.worker, kvt_err_text(rc));
    }
    return rc;
}

/* ---- turns ---- */

static void
tell(const struct advisor_hearing *hearing, struct advisor_round *round,
     const struct advisor_publisher *publisher, const struct advisor_foreign_step *step)
{
    const char *name = publisher->row.worker;

    if (step->renewed)
        kvt_log_info("advisor.publishers", "renewed", "%s of %s lives anew", name,
                     hearing->intake->name);
    if (step->certain)
        kvt_log_info("advisor.publishers", "certain", "%s of %s: certain again", name,
                     hearing->intake->name);
    if (step->late)
        kvt_log_info("advisor.publishers", "late", "%s of %s was there before we heard of it", name,
                     hearing->intake->name);
    if (step->conflict) {
        kvt_metric_inc(round->counters.conflicts, 1);
        hearing->intake->counts.number_conflicts++;
        kvt_log_warn("advisor.publishers", "conflict",
                     "%s of %s: a number came before with other content: it is uncertain; another "
                     "program publishes under its name",
                     name, hearing->intake->name);
    }
    if (!step->gap)
        return;
    kvt_metric_inc(round->counters.gaps, 1);
    hearing->intake->counts.gaps++;
    kvt_log_warn("advisor.publishers", "gap",
                 "%s of %s: numbers %" PRIu64 " to %" PRIu64 " are missing", name,
                 hearing->intake->name, step->first_missing - 1, step->last_missing - 1);
}

uint32_t
advisor_round_digest(const struct advisor_inbox_item *item)
{
    const uint32_t digest = (uint32_t)XXH3_64bits(item->bytes, item->size);

    return digest == 0 ? 1 : digest;
}

/* Keep a copy of the message for this publisher's turn. */
static void
hold(struct advisor_round *round, const struct advisor_hearing *hearing,
     struct advisor_publisher *publisher)
{
    const struct advisor_inbox_item *item = hearing->item;
    struct advisor_inbox_item *copy;

    if (publisher->held_message == round->message)
        return;
    publisher->held_message = round->message;
    if (round->held_bytes + item->size > ADVISOR_HELD_BYTES_MAX ||
        advisor_inbox_item_new(&copy, item->kind, item->subject, item->bytes, item->size) !=
            KVT_OK) {
        publisher->missed = true;
        return;
    }
    round->held_bytes += item->size;
    copy->stream_seq = item->stream_seq;
    copy->time_ms = item->time_ms;
    copy->sequence = item->sequence;
    copy->has_sequence = item->has_sequence;
    copy->epoch = item->epoch;
    copy->endpoint = item->endpoint;
    (void)advisor_publisher_hold(publisher, copy);
}

/* May what carries this mark be applied now? */
static enum advisor_verdict
turn(struct advisor_round *round, const struct advisor_hearing *hearing,
     struct advisor_publisher *publisher, const struct advisor_mark *mark)
{
    const struct advisor_foreign_step step =
        advisor_foreign_see(publisher, mark, kvt_clock_mono_ms());

    tell(hearing, round, publisher, &step);
    if (step.renewed) {
        publisher->staff.anew = true;
        void_all(round, publisher);
    }
    if (step.verdict == ADVISOR_SEE_HOLD && hearing->only == NULL)
        hold(round, hearing, publisher);
    if (step.verdict == ADVISOR_SEE_DROP && !step.conflict) {
        hearing->intake->counts.duplicates++;
        kvt_metric_inc(round->counters.duplicates, 1);
    }
    return step.verdict;
}

/* What an event says, without what differs between deliveries. */
static uint64_t
digest_event(const struct advisor_publisher *publisher, const struct wire_raw_batch *raw,
             const struct wire_raw_event *event)
{
    const uint64_t said[] = {event->parent, event->count,          event->ranks,
                             event->size,   (uint64_t)event->tier, (uint64_t)event->kind};
    uint64_t digest = XXH3_64bits_withSeed(said, sizeof(said), publisher->seen.key);

    for (uint32_t i = 0; i < event->count; i++) {
        const struct wire_raw_block *block = &raw->blocks[event->first + i];

        digest = XXH3_64bits_withSeed(&block->hash, sizeof(block->hash), digest);
    }
    return digest == 0 ? 1 : digest;
}

static bool
clears_all(const struct wire_raw_event *event)
{
    return event->kind == WIRE_RAW_CLEAR && event->tier == WIRE_RAW_TIER_ALL;
}

/* Each event has its worker and its number. */
static enum advisor_heard
hear_events(struct advisor_round *round, const struct advisor_hearing *hearing)
{
    const struct wire_raw_batch *raw = round->raw;
    struct advisor_publisher *publisher = NULL;
    const struct wire_raw_event *former = NULL;

    for (uint32_t i = 0; i < raw->event_count; i++) {
        const struct wire_raw_event *event = &raw->events[i];
        struct advisor_mark mark = {.number = event->id == UINT64_MAX ? event->id : event->id + 1,
                                    .life = raw->publisher,
                                    .clears = clears_all(event),
                                    .held = hearing->only != NULL};
        enum advisor_verdict verdict;

        if (event->unnumbered) {
            if (hearing->only == NULL)
                advisor_round_apply_raw(round, hearing->intake, NULL, event);
            continue;
        }
        if (former == NULL || former->worker != event->worker ||
            former->dp_rank != event->dp_rank) {
            former = event;
            if (find_speaker(round, hearing, event, &publisher) != KVT_OK)
                former = NULL;
        }
        if (former == NULL || (hearing->only != NULL && publisher != hearing->only))
            continue;
        mark.digest = digest_event(publisher, raw, event);
        verdict = turn(round, hearing, publisher, &mark);
        if (verdict == ADVISOR_SEE_HOLD && hearing->only != NULL)
            return ADVISOR_HEARD_HOLD;
        if (verdict != ADVISOR_SEE_APPLY)
            continue;
        advisor_round_apply_raw(round, hearing->intake, publisher, event);
        advisor_seen_events_add_digest(&publisher->seen, mark.number, mark.digest);
        advisor_foreign_applied(publisher, mark.number, raw->time_ms);
    }
    return ADVISOR_HEARD;
}

/* All events of the message have their turn together. */
static enum advisor_heard
hear_message(struct advisor_round *round, const struct advisor_hearing *hearing)
{
    struct wire_raw_batch *raw = round->raw;
    const bool numbered = numbering_of(hearing->intake, raw) == NUMBERED_MESSAGES;
    const struct wire_raw_event *first = raw->event_count > 0 ? raw->events : NULL;
    struct advisor_mark mark = {.number = numbered ? raw->sequence + 1 : 0,
                                .life = hearing->item->epoch,
                                .new_life = hearing->item->new_life,
                                .clears = first != NULL && clears_all(first),
                                .held = hearing->only != NULL};
    struct wire_engine_groups groups;
    struct advisor_publisher *publisher;
    enum advisor_verdict verdict;

    if (find_speaker(round, hearing, first, &publisher) != KVT_OK)
        return ADVISOR_HEARD;
    if (hearing->only != NULL && publisher != hearing->only)
        return ADVISOR_HEARD;
    if (numbered)
        mark.digest =
            XXH3_64bits_withSeed(hearing->item->bytes, hearing->item->size, publisher->seen.key);
    verdict = turn(round, hearing, publisher, &mark);
    if (verdict != ADVISOR_SEE_APPLY)
        return verdict == ADVISOR_SEE_HOLD ? ADVISOR_HEARD_HOLD : ADVISOR_HEARD;
    if (hearing->intake->ops->dialect == WIRE_DIALECT_ENGINE) {
        groups = (struct wire_engine_groups){publisher->foreign.groups_full,
                                             publisher->foreign.groups_partial};
        wire_engine_groups_filter(&groups, raw);
        publisher->foreign.groups_full = groups.full;
        publisher->foreign.groups_partial = groups.partial;
    }
    for (uint32_t i = 0; i < raw->event_count; i++)
        advisor_round_apply_raw(round, hearing->intake, publisher, &raw->events[i]);
    if (numbered) {
        publisher->foreign.digest = advisor_round_digest(hearing->item);
        advisor_seen_events_add_digest(&publisher->seen, mark.number, mark.digest);
    }
    advisor_foreign_applied(publisher, mark.number, raw->time_ms);
    return ADVISOR_HEARD;
}

enum advisor_heard
advisor_round_hear_raw(struct advisor_round *round, const struct advisor_hearing *hearing)
{
    if (round->raw->time_ms == 0)
        round->raw->time_ms = hearing->item->time_ms;
    round->raw->time_ms = advisor_round_time(round->raw->time_ms);
    return numbering_of(hearing->intake, round->raw) == NUMBERED_EVENTS
               ? hear_events(round, hearing)
               : hear_message(round, hearing);
}

enum advisor_heard
advisor_round_hear(struct advisor_round *round, const struct advisor_hearing *hearing)
{
    const struct advisor_inbox_item *item = hearing->item;
    struct advisor_intake *intake = hearing->intake;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    round->message++;
    wire_raw_batch_clear(round->raw);
    rc = wire_dialect_decode(intake->ops->dialect, item->bytes, item->size, round->raw, &err);
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.malformed, 1);
        intake->counts.malformed++;
        (void)snprintf(intake->counts.last_error, sizeof(intake->counts.last_error), "%s",
                       err.text);
        kvt_log_warn("advisor.events", "malformed", "%s, %s:%" PRIu64 ": %s", intake->name,
                     item->subject, item->stream_seq, err.text);
        return ADVISOR_HEARD_MALFORMED;
    }
    if (item->has_sequence) {
        round->raw->has_sequence = true;
        round->raw->sequence = item->sequence;
    }
    if (hearing->only == NULL && numbering_of(intake, round->raw) == NUMBERED_EVENTS)
        note_sequence(round, intake);
    return advisor_round_hear_raw(round, hearing);
}

/* ---- all that one holds ---- */

void
advisor_round_begin_all(struct advisor_round *round, struct advisor_publisher *publisher)
{
    advisor_aliases_void(round->aliases);
    (void)advisor_orphans_drop(round->orphans, publisher->row.number, WIRE_RAW_TIER_ALL);
    if (advisor_round_drop(round, publisher) == KVT_OK)
        return;
    advisor_foreign_lose(publisher, "no memory to drop what it held before");
    advisor_round_given_up(round, publisher);
}

void
advisor_round_end_all(struct advisor_round *round, struct advisor_publisher *publisher,
                      uint64_t number)
{
    advisor_foreign_dump_end(publisher, number);
    publisher->heard_ms = kvt_clock_mono_ms();
    if (advisor_round_sweep(round, publisher) != KVT_OK)
        kvt_log_error("advisor.publishers", "sweep", "%s: no memory to sweep",
                      publisher->row.worker);
}

/* ---- what a cluster keeps for those who come late ---- */

void
advisor_round_take_holds(struct advisor_round *round, struct advisor_intake *intake,
                         const struct advisor_inbox_item *item)
{
    struct advisor_inbox_item said = *item; /* find_speaker() reads it */
    const struct advisor_hearing hearing = {.intake = intake, .item = &said};
    struct wire_raw_batch *raw = round->raw;
    struct kvt_error err = {.text = ""};

    round->message++;
    wire_raw_batch_clear(raw);
    if (wire_dialect_decode(intake->ops->dialect, item->bytes, item->size, raw, &err) != KVT_OK) {
        intake->counts.malformed++;
        kvt_log_error("advisor.events", "malformed", "%s, snapshot: %s", intake->name, err.text);
        return;
    }
    raw->time_ms = advisor_round_time(item->time_ms);
    intake->tellings += intake->telling ? 0 : 1;
    intake->telling = true;
    for (uint32_t i = 0; i < raw->event_count; i++) {
        const struct wire_raw_event *event = &raw->events[i];
        struct advisor_publisher *publisher;

        if (event->unnumbered || find_speaker(round, &hearing, event, &publisher) != KVT_OK)
            continue;
        if (publisher->told != intake->tellings) {
            publisher->told = intake->tellings;
            advisor_foreign_told_begin(publisher, kvt_clock_mono_ms());
            advisor_round_begin_all(round, publisher);
        }
        if (publisher->dump_incarnation != 0) /* else a limit was reached */
            advisor_round_apply_raw(round, intake, publisher, event);
    }
}

void
advisor_round_take_held(struct advisor_round *round, struct advisor_intake *intake)
{
    const size_t count = advisor_publishers_count(round->publishers);

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->foreign.source == intake->number && publisher->dump_incarnation != 0)
            advisor_round_end_all(round, publisher, 0);
    }
    intake->telling = false;
    intake->told = true;
    advisor_publishers_wake(round->publishers);
}
