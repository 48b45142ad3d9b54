#include "base/core/deadline.h"

#include "base/core/clock.h"

uint64_t
kvt_deadline_in(uint64_t wait_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    return wait_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + wait_ms;
}

uint64_t
kvt_deadline_left(uint64_t deadline_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (deadline_ms == UINT64_MAX)
        return UINT64_MAX;
    return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}
