/*
 * policy/decide/rate.h -- how much of a rate may be used now.
 *
 * Why: a rule may move so many bytes a second, and what it did not use is its own for a while: a
 * set that is on its way, and the time between two looks, would else keep it from ever reaching its
 * rate.  The advisor's rules and their simulation count alike.
 *
 * What is larger than what is left is let through, and paid for by those that come after it.
 *
 * Ownership: plain values; all zero has nothing saved up.
 * Threads:   none; one owner.
 * Limits:    a time that goes back adds nothing.
 */
#ifndef POLICY_DECIDE_RATE_H
#define POLICY_DECIDE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define POLICY_RATE_BURST_MS UINT64_C(5000) /* of a rate that may be saved up, at least */

struct policy_rate {
    int64_t credit; /* thousandths of bytes; below 0 by a block at most */
    uint64_t since_ms;
};

/** At `rate` bytes a second, as if nothing had been used for `burst_ms`. */
struct policy_rate policy_rate_full(uint64_t rate, uint64_t burst_ms, uint64_t now_ms);

/** Add what came since the last call, up to `burst_ms` of it.  May anything be used? */
bool policy_rate_may(struct policy_rate *state, uint64_t rate, uint64_t burst_ms, uint64_t now_ms);

void policy_rate_use(struct policy_rate *state, uint64_t bytes);

/** How long until policy_rate_may() says yes again, of one that just said no. */
uint64_t policy_rate_wait_ms(const struct policy_rate *state, uint64_t rate);

#endif /* POLICY_DECIDE_RATE_H */
