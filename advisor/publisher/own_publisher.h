/*
 * advisor/publisher/own_publisher.h -- following one publisher's numbered events.
 *
 * Why: what a worker holds is right only if each of its events is applied exactly once and in
 * order. This is the state machine that says what to do with what arrived; it touches neither the
 * network nor the store, so that a table of cases can test it.
 *
 *            first_seq 1                       gap, or first seen late
 *   unknown ------------> live  <---------------------------------------> uncertain (RANGE or DUMP)
 *                          |   Bye, or silent and not answering               |  not answering
 *                          +-----------------------> gone <-------------------+
 *                                                     |  speaks again: uncertain (DUMP)
 *
 *   RANGE  the missing events are asked for; NOTFOUND turns it into DUMP.
 *   DUMP   all it holds is asked for, page by page.  Its own tiers are emptied with the first page;
 *          places in G4 are marked with a new generation, and what carries an older one is swept
 *          behind the last.  Who answers is who lives, whatever its incarnation: after a clock that
 *          stepped back the living one's is the lower.
 * While uncertain, newer messages are held back and applied behind the answer.
 *
 * A number that comes again is compared with what came under it (seen_events.h).  Other content, or
 * one too old to compare, makes the publisher uncertain, and a DUMP decides; so does a publisher
 * that denies numbers which were applied.  A former life that speaks makes it uncertain too.
 *
 * Ownership: the publisher owns the messages it holds back.
 * Threads:   none; the engine's thread.
 * Limits:    ADVISOR_HOLD_MESSAGES_MAX messages and ADVISOR_HOLD_BYTES_MAX bytes held back; beyond
 *            that they are dropped and asked for again, which the publisher's ring answers.
 */
#ifndef ADVISOR_PUBLISHER_OWN_PUBLISHER_H
#define ADVISOR_PUBLISHER_OWN_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/publisher/seen_events.h"
#include "advisor/source/inbox.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/foreign_rows.h"
#include "kvtier/event.h"

#define ADVISOR_HOLD_MESSAGES_MAX 1024
#define ADVISOR_HOLD_BYTES_MAX    (32u << 20)
#define ADVISOR_RETRY_MIN_MS      500
#define ADVISOR_RETRY_MAX_MS      10000

enum advisor_resync { ADVISOR_RESYNC_NONE, ADVISOR_RESYNC_RANGE, ADVISOR_RESYNC_DUMP };

#define ADVISOR_PUBLISHER_SPOTS 4

/* A holder of the publisher's own that was resolved of late. */
struct advisor_publisher_spot {
    uint32_t holder;
    uint32_t dp_rank;
    enum kvt_tier tier; /* 0: none */
};

#define ADVISOR_STAFF_RANKS_MAX 256 /* dp ranks of a worker that are routed to by its events */
#define ADVISOR_STAFF_WORDS     (ADVISOR_STAFF_RANKS_MAX / 64)

/* What a router was told of it (engine_staff.c). */
struct advisor_staff {
    uint64_t ranks[ADVISOR_STAFF_WORDS]; /* that were met in its own tiers, a bit each */
    bool known;                          /* there is one */
    bool there;                          /* the router was told so */
    bool anew;                           /* another life began since */
};

struct advisor_publisher {
    struct advisor_publisher_row row; /* durable with the group that changed it */
    char namespace_[KVT_NAMESPACE_MAX];
    bool dirty;         /* the row differs from the store's */
    bool shown;         /* what HTTP shows is this */
    bool active;        /* publishers.h: on the list of those with something to do */
    uint32_t slot;      /* publishers.h */
    bool silent;        /* reported as such */
    uint64_t heard_ms;  /* monotonic */
    uint64_t former_ms; /* monotonic: a former life was last taken for a reason to ask */

    enum advisor_resync resync;
    bool asked;          /* a question is out */
    uint64_t ask_number; /* only the answer to this one counts */
    uint64_t retry_at_ms;
    uint64_t pause_ms; /* no dump begins before: one would be refused again */
    uint32_t failures; /* questions in a row without an answer */
    uint32_t denials;  /* answers in a row that there is nothing behind what was applied */
    uint64_t range_to; /* RANGE: last missing sequence, as far as known */
    uint64_t proven;   /* the life that has answered; 0: none since the start */
    uint64_t ranged;   /* its newest answer to RANGE went to this number */
    uint64_t dump_cursor;
    uint64_t dump_seq;         /* DUMP: sequence of the first page */
    uint64_t dump_incarnation; /* 0: no page yet */
    char error[KVT_ERROR_TEXT_MAX];
    struct advisor_publisher_spot spots[ADVISOR_PUBLISHER_SPOTS]; /* by location, modulo */

    struct advisor_inbox_item *held_first;
    struct advisor_inbox_item *held_last;
    size_t held_bytes;
    uint32_t held_count;

    struct advisor_staff staff;
    struct advisor_seen_events seen; /* durable with `row` */

    /* Publishers of other systems (foreign.h). */
    bool is_foreign;
    struct advisor_foreign_row foreign; /* durable with `row` */
    uint64_t doubt_ms;                  /* monotonic: in doubt since then; 0: it is not */
    uint32_t told;    /* number of the cluster's snapshot that it was named in last; 0: of none */
    bool rebase;      /* the next number is taken as it comes */
    bool mute;        /* asking is of no use until it speaks */
    bool probing;     /* in doubt only because it is silent */
    bool answered;    /* it has answered a question: it can be asked */
    bool after_dump;  /* nothing was applied since all it holds was told */
    bool missed;      /* messages were dropped, or may be missing, since it was asked */
    bool away;        /* not heard since the start: it may have begun anew meanwhile */
    bool cleared_far; /* a clear that leaves numbers out is being applied */
    bool leapt;       /* a message that is believed leaves numbers out: a lie, perhaps */
    uint64_t leapt_from;   /* `last_seq` in front of it */
    char subject[128];     /* that its messages come by */
    uint64_t held_message; /* the newest message held back, as the engine counts */
};

/* ---- messages ---- */

enum advisor_verdict {
    ADVISOR_SEE_DROP,  /* nothing new in it */
    ADVISOR_SEE_APPLY, /* apply the events behind the first `skip` */
    ADVISOR_SEE_HOLD,  /* new, but something before it is missing */
};

struct advisor_step {
    enum advisor_verdict verdict;
    uint32_t skip;
    uint32_t duplicates; /* events seen before */
    bool gap;            /* a gap was found */
    bool lie;            /* dropped: the publisher itself denies what must come before it */
    bool former;         /* a former life speaks, and it is asked who lives */
    bool conflict;       /* its numbers were used for other events: everything is asked for */
    bool unproven;       /* the same: they are too old to be compared */
    bool behind;         /* it says that it has not sent numbers that were applied: it is asked */
    bool replaced;       /* a newer life: what the older held in G1..G3 is void */
    bool renewed;        /* a newer life, or the first: held messages of the older are void */
};

/**
 * A batch or heartbeat of this publisher arrived.  For APPLY, the caller applies the events and
 * then calls advisor_publisher_applied().
 *
 * @param unknown  events the decoder left out; they have their numbers all the same
 */
struct advisor_step advisor_publisher_see(struct advisor_publisher *publisher,
                                          const struct kvt_event_batch *batch, uint32_t unknown,
                                          uint64_t now_ms);

/** All events of the batch are applied. */
void advisor_publisher_applied(struct advisor_publisher *publisher,
                               const struct kvt_event_batch *batch, uint32_t unknown);

/** Keep the message for later.  False: too many; then all are dropped (and freed), `item` too. */
bool advisor_publisher_hold(struct advisor_publisher *publisher, struct advisor_inbox_item *item);

/** Take the oldest message held back, or NULL. */
struct advisor_inbox_item *advisor_publisher_unhold(struct advisor_publisher *publisher);

/** Put the one just taken back to the front. */
void advisor_publisher_rehold(struct advisor_publisher *publisher, struct advisor_inbox_item *item);

/** Drop what is held back. */
void advisor_publisher_unhold_all(struct advisor_publisher *publisher);

/** Events may have been lost anywhere: find out, also after a restart. */
void advisor_publisher_doubt(struct advisor_publisher *publisher);

/** Something of it could not be applied: a dump must bring it, but only after a while, for a limit
 *  that was reached will mostly still be. */
void advisor_publisher_refused(struct advisor_publisher *publisher, uint64_t now_ms);

/* ---- asking ---- */

struct advisor_question {
    enum advisor_resync what;
    uint64_t incarnation; /* RANGE */
    uint64_t from;        /* RANGE */
    uint64_t to;          /* RANGE */
    uint64_t cursor;      /* DUMP */
};

/** Something to ask now?  The caller asks and marks it with advisor_publisher_asked(). */
bool advisor_publisher_question(struct advisor_publisher *publisher, uint64_t now_ms,
                                struct advisor_question *question);
void advisor_publisher_asked(struct advisor_publisher *publisher, uint64_t number);

struct advisor_page {
    enum kvt_err status; /* the publisher's own word */
    uint64_t next_cursor;
    const struct kvt_event_batch *batch; /* NULL without one */
    uint32_t unknown;
};

struct advisor_page_step {
    bool apply; /* the page's events behind the first `skip` */
    uint32_t skip;
    bool fresh;    /* DUMP, first page: its own tiers are empty before it */
    bool replaced; /* the dump is of another life, a newer or (see above) a lower one */
    bool sweep;    /* DUMP, last page: what its locations in G4 held before is void */
    bool finished; /* certain again: apply what is held back */
    bool conflict; /* RANGE: it denies numbers that were applied: everything is asked for */
};

/** The publisher answered.  As with see, apply first, then call advisor_publisher_paged(). */
struct advisor_page_step advisor_publisher_answer(struct advisor_publisher *publisher,
                                                  const struct advisor_page *page, uint64_t now_ms);
void advisor_publisher_paged(struct advisor_publisher *publisher, const struct advisor_page *page,
                             const struct advisor_page_step *step);

/** It did not answer, or nonsense. */
void advisor_publisher_unanswered(struct advisor_publisher *publisher, const char *why,
                                  uint64_t now_ms);

/* ---- time ---- */

enum advisor_age {
    ADVISOR_AGE_FRESH,
    ADVISOR_AGE_SILENT, /* just now */
    ADVISOR_AGE_GONE,   /* just now: what it held in G1..G3 is void */
};

enum advisor_age advisor_publisher_age(struct advisor_publisher *publisher, uint64_t now_ms,
                                       uint64_t silent_after_ms, uint64_t gone_after_ms);

/** It said goodbye, or is taken for gone. */
void advisor_publisher_leave(struct advisor_publisher *publisher);

/* ---- for foreign.c ---- */

/** Something is missing from now on, and will be asked for. */
void advisor_publisher_start(struct advisor_publisher *publisher, enum advisor_resync what);
/** Nothing is missing any more. */
void advisor_publisher_settle(struct advisor_publisher *publisher);
/** Ask again, but not at once. */
void advisor_publisher_back_off(struct advisor_publisher *publisher, const char *why,
                                uint64_t now_ms);

/** Something is missing and waited for. */
bool advisor_publisher_uncertain(const struct advisor_publisher *publisher);

/** What is known of it may be wrong: something is missing, or was given up. */
bool advisor_publisher_doubtful(const struct advisor_publisher *publisher);

#endif /* ADVISOR_PUBLISHER_OWN_PUBLISHER_H */
