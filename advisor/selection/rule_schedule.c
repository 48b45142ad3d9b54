#include "advisor/selection/rule_set.h"

/* When a rule acts: times in UTC. */

#define MINUTE_MS UINT64_C(60000)
#define DAY_MS    (UINT64_C(1440) * MINUTE_MS)

/* Of a day since 1970, which began on a Thursday; Monday is 0. */
static uint32_t
weekday(uint64_t day)
{
    return (uint32_t)((day + 3) % 7);
}

/* The last time at or before now that is one of the schedule's; 0: there was none in a week. */
static uint64_t
last_time(const struct policy_schedule *schedule, uint64_t now_ms)
{
    const uint64_t today = now_ms / DAY_MS;
    uint64_t last = 0;

    for (uint64_t back = 0; back < 8 && last == 0 && back <= today; back++) {
        const uint64_t day = today - back;

        if (schedule->days != 0 && (schedule->days >> weekday(day) & 1) == 0)
            continue;
        for (uint32_t i = 0; i < schedule->at.count; i++) {
            const uint64_t time_ms = day * DAY_MS + schedule->at.minutes[i] * MINUTE_MS;

            if (time_ms <= now_ms && time_ms > last)
                last = time_ms;
        }
    }
    return last;
}

bool
advisor_rule_is_due(const struct policy_rule *rule, uint64_t begun_ms, uint64_t now_ms)
{
    const struct policy_schedule *schedule = &rule->schedule;
    const uint64_t every = schedule->every > 0 ? schedule->every : ADVISOR_RULE_REST_MS;

    if (schedule->at.count > 0) {
        const uint64_t last = last_time(schedule, now_ms);

        /* What was missed while the program did not run is not made up for. */
        return last > begun_ms && now_ms - last < MINUTE_MS;
    }
    if (schedule->head.place.line == 0 && rule->trigger.head.place.line != 0)
        return true;
    if (schedule->days != 0 && (schedule->days >> weekday(now_ms / DAY_MS) & 1) == 0)
        return false;
    return begun_ms == 0 || now_ms < begun_ms || now_ms - begun_ms >= every;
}
