/*
 * tests/unit/advisor/support/random_life.h -- a gateway whose blocks are stored and read at random.
 *
 * Why: what must hold of the planner whatever happens is tested with two tiers and with four.
 * Ownership: a life owns its gateway.
 * Threads:   one.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_RANDOM_LIFE_H
#define TESTS_UNIT_ADVISOR_SUPPORT_RANDOM_LIFE_H

#include "tests/unit/advisor/support/obedient_gateway.h"

enum { LIFE_CHAIN = 8, LIFE_STEPS = 400, LIFE_PINS = 50, LIFE_PROTECT_MS = 30000 };

struct life {
    struct obedient *gateway;
    int ladder[OBEDIENT_TIERS_MAX]; /* its tiers, from the hottest to the coldest */
    uint64_t random;
    uint64_t used_ms[OBEDIENT_BLOCKS]; /* last read, or came to a tier (of four: a new one) */
    uint64_t protect_ms;
    uint64_t trail; /* of all orders */
    size_t looks;
};

/** The gateway is new, has chains of LIFE_CHAIN, and is the life's from now on.  Each order fails
 *  the test that lets a block go which was used within `protect_ms`. */
struct life *life_new(struct obedient *gateway, uint64_t seed, uint64_t protect_ms);
void life_free(struct life *life);
/** Its place from the hottest tier down. */
int life_rung(const struct life *life, int tier);
/** Some chains are written, through to the first bucket, some read from the nearest tier that has
 *  them.  With four tiers a few are read more than others, so that blocks come up. */
void life_live(struct life *life);
void life_pin_some(struct life *life);

/** Nothing goes down that was used lately; `ticks` between two turns.  Ends the life. */
void life_nothing_flaps(struct life *life, int ticks);
/** The trail of its orders; `twice`: each is executed twice.  Ends the life. */
uint64_t life_trail(struct life *life, bool twice);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_RANDOM_LIFE_H */
