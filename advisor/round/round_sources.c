#include <stdio.h>
#include <string.h>

#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* Many sources, one taker: how they are polled, and how far each is applied. */

/* ---- positions ---- */

static enum kvt_err
load_source(void *arg, const void *data)
{
    const struct advisor_source_row *row = data;
    struct advisor_round *round = arg;

    if (memchr(row->name, '\0', sizeof(row->name)) == NULL || row->number == 0)
        return KVT_CORRUPT;
    if (round->source_row_count == ADVISOR_SOURCE_ROWS_MAX)
        return KVT_FULL;
    round->source_rows[round->source_row_count++] = *row;
    return KVT_OK;
}

enum kvt_err
advisor_round_load_sources(struct advisor_round *round, const struct advisor_txn *txn)
{
    return advisor_store_walk(txn, ADVISOR_ROW_SOURCE, load_source, round);
}

enum kvt_err
advisor_round_source(struct advisor_round *round, const char *name, uint32_t *number,
                     struct advisor_position *position)
{
    struct advisor_source_row *row;
    uint32_t next = 1;

    *number = 0;
    *position = (struct advisor_position){0};
    for (size_t i = 0; i < round->source_row_count; i++) {
        row = &round->source_rows[i];
        if (row->number >= next)
            next = row->number + 1;
        if (strcmp(row->name, name) != 0)
            continue;
        *number = row->number;
        *position = (struct advisor_position){row->seq, row->created_ms};
        return KVT_OK;
    }
    if (round->source_row_count == ADVISOR_SOURCE_ROWS_MAX)
        return KVT_FULL;
    row = &round->source_rows[round->source_row_count++];
    *row = (struct advisor_source_row){.number = next};
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    *number = next;
    round->moved = true; /* its number is to be kept */
    return KVT_OK;
}

/* What is held back is not in the store: reading must begin again before it. */
/* Up to where the source's stream is in the store once this group is. */
static struct advisor_position
durable_of(const struct advisor_round *round, const struct advisor_intake *intake)
{
    const uint64_t held = advisor_publishers_held_seq(round->publishers, intake->number);
    struct advisor_position position = intake->taken;

    if (held != 0 && held <= position.seq)
        position.seq = held - 1;
    return position;
}

static struct advisor_source_row *
row_of(struct advisor_round *round, uint32_t number)
{
    for (size_t i = 0; i < round->source_row_count; i++)
        if (round->source_rows[i].number == number)
            return &round->source_rows[i];
    return NULL;
}

static enum kvt_err
save_intake(struct advisor_round *round, const struct advisor_txn *txn,
            const struct advisor_intake *intake)
{
    const struct advisor_position position = durable_of(round, intake);
    const struct advisor_source_row *known = row_of(round, intake->number);
    struct advisor_source_row row;
    enum kvt_err rc;

    if (known != NULL) {
        row = *known;
        row.seq = position.seq;
        row.created_ms = position.created_ms;
        return advisor_store_put(txn, ADVISOR_ROW_SOURCE, &row);
    }
    rc = advisor_store_put_number(txn, ADVISOR_META_EVENTS_SEQ, position.seq);
    if (rc == KVT_OK)
        rc = advisor_store_put_number(txn, ADVISOR_META_EVENTS_CREATED, position.created_ms);
    return rc;
}

enum kvt_err
advisor_round_save_sources(struct advisor_round *round, const struct advisor_txn *txn)
{
    const size_t count =
        round->feeds.sources == NULL ? 0 : advisor_sources_count(round->feeds.sources);
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = save_intake(round, txn, advisor_sources_at(round->feeds.sources, i));
    return rc;
}

void
advisor_round_sources_saved(struct advisor_round *round)
{
    const size_t count =
        round->feeds.sources == NULL ? 0 : advisor_sources_count(round->feeds.sources);

    for (size_t i = 0; i < count; i++) {
        struct advisor_intake *intake = advisor_sources_at(round->feeds.sources, i);
        struct advisor_source_row *row = row_of(round, intake->number);

        intake->committed = durable_of(round, intake);
        if (row != NULL) {
            row->seq = intake->committed.seq;
            row->created_ms = intake->committed.created_ms;
        }
    }
}

void
advisor_round_sources_synced(struct advisor_round *round)
{
    const size_t count =
        round->feeds.sources == NULL ? 0 : advisor_sources_count(round->feeds.sources);

    for (size_t i = 0; i < count; i++) {
        const struct advisor_intake *intake = advisor_sources_at(round->feeds.sources, i);

        if (intake->source != NULL)
            advisor_source_applied(intake->source, intake->committed.seq,
                                   intake->committed.created_ms);
    }
}

/* What it holds in its worker's tiers was not kept: all of it is asked for, where that can be. */
static void
forget_places(struct advisor_round *round, struct advisor_publisher *publisher,
              const struct advisor_intake *intake, uint64_t now_ms)
{
    if (!publisher->is_foreign) {
        publisher->row.need_dump = 1;
        publisher->dirty = true;
        publisher->shown = false;
        return;
    }
    if (intake->ops->dialect == WIRE_DIALECT_MINIO || publisher->foreign.met == 0)
        return; /* a bucket's objects have rows */
    if (publisher->foreign.messages == 0 && publisher->row.last_seq != 0) {
        advisor_foreign_want_dump(publisher, now_ms);
        return;
    }
    advisor_foreign_lose(publisher, "what it held before a restart was not kept");
    advisor_round_given_up(round, publisher);
}

static void
doubt_own(struct advisor_round *round, struct advisor_publisher *publisher)
{
    /* In doubt when the program ended, and nobody else would remember. */
    if (round->forgotten)
        forget_places(round, publisher, NULL, 0);
    else if (publisher->row.doubted != 0 && publisher->row.need_dump == 0)
        advisor_publisher_doubt(publisher);
}

static void
doubt_foreign(struct advisor_round *round, struct advisor_publisher *publisher, uint64_t now_ms)
{
    const struct advisor_intake *intake =
        advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);

    if (intake == NULL) {
        kvt_log_info("advisor.publishers", "dropped", "%s: its source is not followed any more",
                     publisher->row.worker);
        advisor_round_forget(round, publisher);
        return;
    }
    if (!intake->kept)
        advisor_foreign_unheard(publisher, now_ms);
    else if (publisher->row.doubted != 0)
        advisor_foreign_doubt(publisher, now_ms);
    if (round->forgotten)
        forget_places(round, publisher, intake, now_ms);
}

void
advisor_round_doubt_sources(struct advisor_round *round)
{
    const size_t count = advisor_publishers_count(round->publishers);
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (size_t i = 0; i < count; i++) {
        struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->row.gone != 0)
            continue;
        if (publisher->is_foreign)
            doubt_foreign(round, publisher, now_ms);
        else
            doubt_own(round, publisher);
    }
    advisor_publishers_wake(round->publishers);
    advisor_publishers_show(round->publishers);
}

/* ---- taking ---- */

/* One of our own messages is small beside what one of another system may be. */
static bool
has_room(const struct advisor_round *round, const struct advisor_intake *intake)
{
    return intake->ops->decode == NULL
               ? advisor_round_has_room(round)
               : advisor_round_has_less(round, ADVISOR_CHANGE_GROUP_ENOUGH_OWN);
}

/* Up to a few messages of one source, so that all have their turn. */
static size_t
poll_one(struct advisor_round *round, struct advisor_intake *intake, uint64_t wait_ms)
{
    size_t taken = 0;

    if (intake->source == NULL || !has_room(round, intake))
        return 0;
    if (intake->ready_at == intake->ready_count) {
        intake->ready_at = 0;
        intake->ready_count =
            advisor_source_poll(intake->source, intake->ready, ADVISOR_INTAKE_READY, wait_ms);
        round->now_ms = kvt_clock_mono_ms();
    }
    for (; intake->ready_at < intake->ready_count && has_room(round, intake); taken++)
        advisor_round_take_event(round, intake, intake->ready[intake->ready_at++]);
    return taken;
}

static size_t
poll_all(struct advisor_round *round, uint64_t wait_ms)
{
    const size_t count = advisor_sources_count(round->feeds.sources);
    const uint64_t each_ms = count == 0 || wait_ms == 0 ? 0 : (wait_ms + count - 1) / count;
    size_t taken = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t at = (round->poll_from + i) % count;

        taken +=
            poll_one(round, advisor_sources_at(round->feeds.sources, at), taken > 0 ? 0 : each_ms);
    }
    return taken;
}

size_t
advisor_round_poll(struct advisor_round *round, uint64_t wait_ms)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    size_t total = 0;
    size_t count;

    do {
        count = poll_all(round, total == 0 ? wait_ms : 0);
        total += count;
    } while (count > 0 && kvt_clock_mono_ms() - began_ms < round->options.commit_max_wait_ms / 2);
    /* The first ones may take all the room there is in a round: so each source is first in its
     * turn. */
    round->poll_from++;
    return total;
}

/* ---- for people ---- */

static void
count_publishers(struct advisor_round *round)
{
    const size_t sources = advisor_sources_count(round->feeds.sources);
    const size_t count = advisor_publishers_count(round->publishers);
    struct advisor_intake *intake = NULL;

    for (size_t i = 0; i < sources; i++) {
        intake = advisor_sources_at(round->feeds.sources, i);
        intake->publishers = 0;
        intake->uncertain = 0;
    }
    for (size_t i = 0; i < count; i++) {
        const struct advisor_publisher *publisher = advisor_publishers_at(round->publishers, i);

        if (publisher->row.gone != 0)
            continue;
        if (intake == NULL || intake->number != publisher->foreign.source)
            intake = advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);
        if (intake == NULL)
            continue;
        intake->publishers++;
        intake->uncertain += advisor_publisher_doubtful(publisher) ? 1 : 0;
    }
}

/* Has the source given all that was there at the start? */
static bool
reached(struct advisor_intake *intake, const struct advisor_source_state *state)
{
    if (!intake->goal_known && state->running) {
        intake->goal_seq = state->last_seq;
        intake->goal_known = true;
    }
    if (intake->goal_known && intake->taken.seq >= intake->goal_seq)
        intake->reached = true;
    /* A foreign plane that is away must not keep the advisor from being ready. */
    return intake->reached || intake->source == NULL ||
           (intake->number != 0 && !intake->goal_known);
}

static void
show_ours(struct advisor_round *round, const struct advisor_intake *intake,
          const struct advisor_source_state *state)
{
    const struct advisor_counters *counters = &round->counters;
    const uint64_t durable = durable_of(round, intake).seq;

    kvt_metric_set(counters->events_seq, (int64_t)intake->committed.seq);
    /* Heartbeats are applied at once and only now and then worth a commit. */
    kvt_metric_set(counters->events_done,
                   (int64_t)(round->retry_at_ms != 0 ? intake->committed.seq : durable));
    kvt_metric_set(
        counters->events_last,
        (int64_t)(state->last_seq > intake->taken.seq ? state->last_seq : intake->taken.seq));
}

void
advisor_round_show_sources(struct advisor_round *round)
{
    const size_t count = advisor_sources_count(round->feeds.sources);
    const uint64_t unix_ms = kvt_clock_unix_ms();
    uint64_t event_ms = 0;
    uint64_t lag_ms = 0;
    bool all = true;

    count_publishers(round);
    for (size_t i = 0; i < count; i++) {
        struct advisor_intake *intake = advisor_sources_at(round->feeds.sources, i);
        struct advisor_source_state state = {.running = false};

        if (intake->source != NULL)
            advisor_source_state(intake->source, &state);
        all = reached(intake, &state) && all;
        if (intake->number == 0)
            show_ours(round, intake, &state);
        if (intake->item_ms > event_ms)
            event_ms = intake->item_ms;
        if (state.last_seq > intake->taken.seq && intake->item_ms != 0 &&
            unix_ms > intake->item_ms + lag_ms)
            lag_ms = unix_ms - intake->item_ms;
    }
    if (all)
        atomic_store(&round->caught_up, true);
    kvt_metric_set(round->counters.event_ms, (int64_t)event_ms);
    kvt_metric_set(round->counters.lag_ms, (int64_t)lag_ms);
    advisor_sources_show(round->feeds.sources, kvt_clock_mono_ms());
}
