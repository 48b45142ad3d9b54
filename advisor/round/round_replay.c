#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "advisor/publisher/foreign_publisher.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo_answer.h"

/* Answers of other systems' workers: events, all they hold, or an engine's messages. */

enum { MESSAGE_HEAD = 16 };

/* An answer of another system's worker, applied a piece a round. */
struct advisor_replay {
    struct advisor_outbox_message *message;
    struct advisor_intake *intake;
    struct wire_dynamo_part part;
    size_t at;         /* MESSAGES: bytes taken */
    uint64_t began_at; /* the publisher's last number then */
    uint64_t life;     /* the publisher's incarnation then */
    bool dumping;
    bool hole;       /* the answer begins behind what was asked for */
    bool unreadable; /* a message or event of it could not be read */
};

void
advisor_round_replay_free(struct advisor_round *round)
{
    if (round->replay == NULL)
        return;
    advisor_outbox_message_free(round->replay->message);
    kvt_free(round->replay);
    round->replay = NULL;
}

/* An answer that could not be used, or none. */
static void
unanswered(struct advisor_round *round, struct advisor_publisher *publisher, enum kvt_err rc,
           const char *text)
{
    const bool began = publisher->dump_incarnation != 0;

    if (!advisor_foreign_unanswered(publisher, rc, text, kvt_clock_mono_ms(),
                                    round->options.give_up_after_ms))
        return;
    advisor_round_given_up(round, publisher);
    /* Half of a dump has replaced what was known in G4: the older half has no names any more. */
    if (began && advisor_round_sweep(round, publisher) != KVT_OK)
        kvt_log_error("advisor.publishers", "sweep", "%s: no memory to sweep",
                      publisher->row.worker);
}

static void
begin_dump(struct advisor_round *round, struct advisor_publisher *publisher)
{
    round->replay->dumping = true;
    advisor_foreign_dump_begin(publisher);
    advisor_round_begin_all(round, publisher);
}

/* All it holds is told anew: one part of that. */
static void
take_dump_part(struct advisor_round *round, struct advisor_publisher *publisher)
{
    struct advisor_intake *intake = round->replay->intake;

    for (uint32_t i = 0; i < round->raw->event_count; i++) {
        const struct wire_raw_event *event = &round->raw->events[i];

        if (event->unnumbered) {
            advisor_round_apply_raw(round, intake, NULL, event);
            round->replay->unreadable = true; /* it may be anybody's */
            continue;
        }
        if (event->worker != publisher->foreign.worker_id ||
            event->dp_rank != publisher->foreign.dp_rank)
            continue;
        if (!round->replay->dumping)
            begin_dump(round, publisher);
        if (publisher->dump_incarnation == 0)
            return; /* a limit was reached, or it left */
        if (event->kind == WIRE_RAW_SKIP && event->why == WIRE_RAW_MALFORMED)
            round->replay->unreadable = true;
        if (event->kind == WIRE_RAW_CLEAR)
            begin_dump(round, publisher); /* live events may end a dump: all before is void */
        else
            advisor_round_apply_raw(round, intake, publisher, event);
    }
}

static void
end_dump(struct advisor_round *round, struct advisor_publisher *publisher, uint64_t number)
{
    advisor_round_end_all(round, publisher, number);
    if (round->replay->unreadable) {
        advisor_foreign_lose(publisher, "an event of what it holds cannot be read");
        advisor_round_given_up(round, publisher);
    } else if (!advisor_publisher_uncertain(publisher)) {
        kvt_log_info("advisor.publishers", "certain", "%s: certain again (dump)",
                     publisher->row.worker);
    }
}

/* The next part of what the worker holds (an indexer says it of all workers).  True: that was the
 * last. */
static bool
replay_dump(struct advisor_round *round, struct advisor_publisher *publisher, bool http)
{
    struct advisor_replay *replay = round->replay;

    /* Each group is of another model; which one is the worker's is not said. */
    if (http && replay->part.what == WIRE_DYNAMO_REFUSED && replay->part.left > 0) {
        unanswered(round, publisher, KVT_UNAVAILABLE, "a group of the dump failed");
        return true;
    }
    if (!http && !replay->dumping)
        begin_dump(round, publisher);
    take_dump_part(round, publisher);
    if (replay->part.more && (!replay->dumping || publisher->dump_incarnation != 0))
        return false;
    if (!replay->dumping)
        unanswered(round, publisher, KVT_UNAVAILABLE, "the dump does not name it");
    else if (publisher->dump_incarnation != 0)
        /* Releases before 1.1 do not say up to where a dump speaks. */
        end_dump(round, publisher, http || replay->part.newest == 0 ? 0 : replay->part.newest + 1);
    return true;
}

/* The asked events were taken, as far as they came. */
static void
end_range(struct advisor_round *round, struct advisor_publisher *publisher)
{
    const struct advisor_replay *replay = round->replay;

    if (publisher->resync != ADVISOR_RESYNC_NONE &&
        publisher->ask_number != replay->message->number)
        return; /* more was lost meanwhile, and that question is still to come */
    if (advisor_foreign_ranged(publisher, kvt_clock_mono_ms())) {
        kvt_log_info("advisor.publishers", "certain", "%s: certain again (events)",
                     publisher->row.worker);
        return;
    }
    if (publisher->row.last_seq > replay->began_at && !replay->hole) {
        publisher->asked = false; /* more of it */
        return;
    }
    unanswered(round, publisher, KVT_NOTFOUND, "they are no longer there");
}

/* Events of the answer under their own numbers.  False: a hole; nothing behind it fits. */
static bool
take_events(struct advisor_round *round, struct advisor_publisher *publisher,
            struct advisor_inbox_item *item, bool decoded)
{
    const struct advisor_hearing hearing = {
        .intake = round->replay->intake, .item = item, .only = publisher};
    const enum advisor_heard heard =
        decoded ? advisor_round_hear_raw(round, &hearing) : advisor_round_hear(round, &hearing);

    if (heard == ADVISOR_HEARD_MALFORMED && item->has_sequence) {
        /* Its number is used up, and what it said is lost. */
        publisher->foreign.digest = advisor_round_digest(item);
        advisor_foreign_applied(publisher, item->sequence + 1, 0);
        round->replay->unreadable = true;
    }
    return heard != ADVISOR_HEARD_HOLD;
}

/* One part of a worker's answer.  True: that was all. */
static bool
replay_query(struct advisor_round *round, struct advisor_publisher *publisher)
{
    struct advisor_replay *replay = round->replay;
    const struct kvt_buffer *answer = &replay->message->answer;
    const bool http = replay->message->answer_kind == ADVISOR_ANSWER_DUMP;
    struct advisor_inbox_item item = {.subject = publisher->subject};
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    wire_raw_batch_clear(round->raw);
    rc = http ? wire_dynamo_decode_dump_part(answer->data, answer->size, &replay->part, round->raw,
                                             &err)
              : wire_dynamo_decode_answer_part(answer->data, answer->size, &replay->part,
                                               round->raw, &err);
    if (rc != KVT_OK) {
        replay->intake->counts.malformed++;
        unanswered(round, publisher, KVT_INVALID, err.text);
        return true;
    }
    switch (http ? WIRE_DYNAMO_DUMP : replay->part.what) {
    case WIRE_DYNAMO_EVENTS:
        replay->hole = !take_events(round, publisher, &item, true);
        if (replay->part.more && !replay->hole)
            return false;
        end_range(round, publisher);
        return true;
    case WIRE_DYNAMO_DUMP: return replay_dump(round, publisher, http);
    case WIRE_DYNAMO_TOO_NEW:
        /* It has no number so high.  The one before is its newest: nothing was missed.  Else its
         * numbers have begun anew. */
        if (replay->part.newest + 1 == publisher->row.last_seq)
            end_range(round, publisher);
        else
            advisor_foreign_want_dump(publisher, kvt_clock_mono_ms());
        return true;
    case WIRE_DYNAMO_REFUSED: break;
    }
    unanswered(round, publisher, KVT_UNAVAILABLE, "the worker refused the question");
    return true;
}

static uint64_t
read_le64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return le64toh(value);
}

/* The first message of the answer is to be the last one that was heard.  True: go on. */
static bool
vouch(struct advisor_round *round, struct advisor_publisher *publisher,
      const struct advisor_inbox_item *item)
{
    if (item->sequence + 1 != publisher->row.last_seq || publisher->foreign.digest == 0) {
        unanswered(round, publisher, KVT_NOTFOUND, "it may have begun anew");
        return false;
    }
    if (advisor_round_digest(item) == publisher->foreign.digest) {
        advisor_foreign_vouched(publisher);
        return true;
    }
    advisor_round_renewed(round, publisher);
    return false;
}

/* The next message of an engine's ring.  True: that was the last. */
static bool
replay_message(struct advisor_round *round, struct advisor_publisher *publisher)
{
    struct advisor_replay *replay = round->replay;
    const struct kvt_buffer *answer = &replay->message->answer;
    const size_t left = answer->size - replay->at;
    struct advisor_inbox_item item = {.subject = replay->message->worker, .has_sequence = true};

    if (left >= MESSAGE_HEAD && !replay->hole) {
        const uint8_t *head = answer->data + replay->at;

        item.sequence = read_le64(head);
        item.size = read_le64(head + sizeof(uint64_t));
        item.bytes = answer->data + replay->at + MESSAGE_HEAD;
        item.epoch = publisher->foreign.life;
        if (item.size <= left - MESSAGE_HEAD) {
            replay->at += MESSAGE_HEAD + item.size;
            if (publisher->away)
                return !vouch(round, publisher, &item);
            replay->hole = !take_events(round, publisher, &item, false);
            return false;
        }
    }
    if (publisher->away) {
        unanswered(round, publisher, KVT_NOTFOUND, "it may have begun anew");
        return true;
    }
    end_range(round, publisher);
    if (replay->unreadable && publisher->foreign.lost == 0) {
        advisor_foreign_lose(publisher, "a message that was lost cannot be read");
        advisor_round_given_up(round, publisher);
    }
    return true;
}

/* A newer life, or a clear, may have made it void meanwhile. */
static bool
still_holds(const struct advisor_replay *replay, const struct advisor_publisher *publisher)
{
    return publisher->row.gone == 0 && publisher->row.incarnation == replay->life &&
           (!replay->dumping || publisher->dump_incarnation != 0);
}

bool
advisor_round_replay(struct advisor_round *round)
{
    while (round->replay != NULL && advisor_round_has_room(round)) {
        const struct advisor_outbox_message *message = round->replay->message;
        struct advisor_publisher *publisher =
            advisor_publishers_by_number(round->publishers, (uint32_t)message->about);
        bool done = true;

        if (publisher != NULL && still_holds(round->replay, publisher))
            done = message->answer_kind == ADVISOR_ANSWER_MESSAGES
                       ? replay_message(round, publisher)
                       : replay_query(round, publisher);
        if (done)
            advisor_round_replay_free(round);
    }
    return round->replay == NULL;
}

bool
advisor_round_fill(struct advisor_round *round, struct advisor_outbox_message *message)
{
    struct advisor_publisher *publisher =
        advisor_publishers_by_number(round->publishers, (uint32_t)message->about);
    struct advisor_replay *replay;

    if (publisher == NULL || !publisher->asked || publisher->ask_number != message->number)
        return false;
    if (message->rc != KVT_OK || message->answer_kind == ADVISOR_ANSWER_PAGE) {
        unanswered(round, publisher, message->rc == KVT_OK ? KVT_INVALID : message->rc,
                   message->err.text[0] == '\0' ? kvt_err_text(message->rc) : message->err.text);
        return false;
    }
    replay = kvt_calloc(1, sizeof(*replay));
    if (replay == NULL) {
        unanswered(round, publisher, KVT_NOMEM, kvt_err_text(KVT_NOMEM));
        return false;
    }
    replay->message = message;
    replay->intake = advisor_sources_by_number(round->feeds.sources, publisher->foreign.source);
    replay->began_at = publisher->row.last_seq;
    replay->life = publisher->row.incarnation;
    round->replay = replay;
    return true;
}
