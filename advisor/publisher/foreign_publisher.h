/*
 * advisor/publisher/foreign_publisher.h -- following a publisher of another system.
 *
 * Why: what publisher.h does for KVTier's own workers, for those whose lives have numbers without
 * an order, whose events each count one, whose first number is anybody's guess, and who mostly
 * cannot be asked.  No network, no store, no engine: a table of cases tests it.
 *
 *   unmet ------> live <-------------------------------> in doubt: asked for events, or for all
 *     first number 0 or 1     gap, or first seen late       |  nobody answers, or nobody can
 *                                                           v
 *                         live, all anew <------------- lost: events are applied, and every answer
 *                                  clear, new life            it is part of says that it may be
 *                                                             wrong
 *
 * Ownership: works on a struct advisor_publisher.
 * Threads:   none; the engine's thread.
 * Limits:    as publisher.h; ADVISOR_HOLD_BYTES_MAX of messages held back for one publisher.
 */
#ifndef ADVISOR_PUBLISHER_FOREIGN_PUBLISHER_H
#define ADVISOR_PUBLISHER_FOREIGN_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/publisher/own_publisher.h"

#define ADVISOR_FOREIGN_TO_NEWEST UINT64_MAX

/* What an event, or a message whose events have no numbers, says of itself. */
struct advisor_mark {
    uint64_t number; /* from 1 on: the event's id, or the message's sequence, plus 1; 0: none */
    uint64_t life;   /* 0: not said */
    bool new_life;   /* known to have started anew */
    bool clears;     /* it empties all the publisher holds */
    uint64_t digest; /* of what comes under the number; 0: not known */
    bool held;       /* it was held back, or comes with an answer */
};

struct advisor_foreign_step {
    enum advisor_verdict verdict;
    bool gap;      /* a gap was found */
    bool late;     /* it was there before we heard of it */
    bool renewed;  /* another life: what the former held is void, also what is held back */
    bool certain;  /* what was missing is there */
    bool conflict; /* something else came under this number before: see own_publisher.h */
    uint64_t first_missing;
    uint64_t last_missing;
};

/** It speaks.  For APPLY, call advisor_foreign_applied() afterwards. */
struct advisor_foreign_step advisor_foreign_see(struct advisor_publisher *publisher,
                                                const struct advisor_mark *mark, uint64_t now_ms);
void advisor_foreign_applied(struct advisor_publisher *publisher, uint64_t number,
                             uint64_t time_ms);

/** Events may have been lost.  Where nothing is numbered, that is for good. */
void advisor_foreign_doubt(struct advisor_publisher *publisher, uint64_t now_ms);

/** It was not heard for a while: the same; and where messages are numbered, it may have begun anew,
 *  and its numbers be another life's.  A number that goes back says so; else it is asked for the
 *  last message that was heard, which advisor_foreign_vouched() is told. */
void advisor_foreign_unheard(struct advisor_publisher *publisher, uint64_t now_ms);
/** Its last message is the one we know: the same life.  Or another one (the caller makes void what
 *  the former held): what it said so far is asked for. */
void advisor_foreign_vouched(struct advisor_publisher *publisher);
void advisor_foreign_renewed(struct advisor_publisher *publisher, uint64_t now_ms);

/** All it holds was cleared: it is certain again, whatever was missing. */
void advisor_foreign_cleared(struct advisor_publisher *publisher);

/** Give up what is missing. */
void advisor_foreign_lose(struct advisor_publisher *publisher, const char *reason);

/** It left, or is known to be gone. */
void advisor_foreign_leave(struct advisor_publisher *publisher);

/* ---- asking ---- */

/** Something to ask now?  `from` and `to` are numbers as in struct advisor_mark; a `from` of 0 asks
 *  for everything. */
bool advisor_foreign_question(struct advisor_publisher *publisher, uint64_t now_ms,
                              struct advisor_question *question);

/** Everything it holds follows (the caller empties its own tiers): what is applied from here on
 *  carries a new generation, and names given before are void. */
void advisor_foreign_dump_begin(struct advisor_publisher *publisher);
/** The same of what comes without a question: none goes out until it is over. */
void advisor_foreign_told_begin(struct advisor_publisher *publisher, uint64_t now_ms);
/** ... and was applied.  `number`: of the newest event it speaks for; 0: not known.  It is certain,
 *  unless messages were dropped since it was asked: then it is asked again. */
void advisor_foreign_dump_end(struct advisor_publisher *publisher, uint64_t number);

/** The asked events were applied, as far as the answer went.  Returns true when it is certain. */
bool advisor_foreign_ranged(struct advisor_publisher *publisher, uint64_t now_ms);

/** Its events cannot be had one by one any more: everything must be asked for. */
void advisor_foreign_want_dump(struct advisor_publisher *publisher, uint64_t now_ms);

/**
 * The question was not answered.
 *
 * @param why  KVT_NOTFOUND: they are no longer there; KVT_UNSUPPORTED: nobody can be asked;
 *             KVT_AGAIN: it lives, but cannot be asked at the moment
 * @return true when it was given up
 */
bool advisor_foreign_unanswered(struct advisor_publisher *publisher, enum kvt_err why,
                                const char *text, uint64_t now_ms, uint64_t give_up_after_ms);

/* How long it may be silent, and how long missing events may stay so. */
struct advisor_patience {
    uint64_t silent_after_ms;
    uint64_t gone_after_ms;
    uint64_t give_up_after_ms;
};

/** Time passes.  Sets `gave_up` when it was in doubt for too long.  A silent one is asked whether
 *  it lives, and is GONE (what it held is void) when it does not answer; one that cannot be asked
 *  stays. */
enum advisor_age advisor_foreign_age(struct advisor_publisher *publisher, uint64_t now_ms,
                                     const struct advisor_patience *patience, bool *gave_up);

#endif /* ADVISOR_PUBLISHER_FOREIGN_PUBLISHER_H */
