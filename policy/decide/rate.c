#include "policy/decide/rate.h"

static int64_t
most_of(uint64_t rate, uint64_t burst_ms)
{
    const unsigned __int128 all = (unsigned __int128)rate * burst_ms;

    return all > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)all;
}

struct policy_rate
policy_rate_full(uint64_t rate, uint64_t burst_ms, uint64_t now_ms)
{
    return (struct policy_rate){.credit = most_of(rate, burst_ms), .since_ms = now_ms};
}

bool
policy_rate_may(struct policy_rate *state, uint64_t rate, uint64_t burst_ms, uint64_t now_ms)
{
    const uint64_t passed_ms = now_ms > state->since_ms ? now_ms - state->since_ms : 0;
    const int64_t most = most_of(rate, burst_ms);
    const __int128 credit = state->credit + (__int128)rate * passed_ms;

    state->credit = credit > most ? most : (int64_t)credit;
    state->since_ms = now_ms;
    return state->credit > 0;
}

void
policy_rate_use(struct policy_rate *state, uint64_t bytes)
{
    state->credit -= (int64_t)bytes * 1000;
}

uint64_t
policy_rate_wait_ms(const struct policy_rate *state, uint64_t rate)
{
    return (uint64_t)-state->credit / rate + 1;
}
