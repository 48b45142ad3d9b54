#include <string.h>

#include "policy/expression/expression.h"
#include "policy/file/section_reader.h"

/* Which tier of a policy a live volume or bucket is. */

#define HOT  "hot@"
#define WARM "warm@"
#define COLD "cold@"

static bool
begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A gateway has a hot volume, and may have a second one behind it. */
static bool
is_volume(const char *holder)
{
    return begins(holder, HOT) || begins(holder, WARM);
}

int32_t
policy_tier_of_holder(const struct policy *policy, const char *holder)
{
    const bool volume = is_volume(holder);
    int32_t rest = -1;

    if (!volume && !begins(holder, COLD))
        return -1;
    for (size_t i = 0; i < policy->tiers.count; i++) {
        const struct policy_tier *tier = policy_tier_at(policy, i);

        if (tier->level != (volume ? POLICY_G3 : POLICY_G4))
            continue;
        if (tier->holders[0] == '\0')
            rest = rest < 0 ? (int32_t)i : rest;
        else if (policy_glob_match(tier->holders, holder))
            return (int32_t)i;
    }
    return rest;
}

/* Is there a text that both patterns match?  `reach[j]`: some text is matched by the first pattern
 * up to here and by `j` bytes of the other. */
static bool
can_meet(const char *one, const char *other)
{
    bool reach[POLICY_TEXT_MAX + 1] = {true};
    const size_t size = strlen(other);

    for (size_t j = 0; j < size; j++)
        reach[j + 1] = reach[j] && other[j] == '*';
    for (; *one != '\0'; one++) {
        bool diagonal = reach[0]; /* of the row above, one to the left */

        reach[0] = reach[0] && *one == '*';
        for (size_t j = 0; j < size; j++) {
            const bool above = reach[j + 1];
            const bool same = *one == '?' || other[j] == '?' || *one == other[j];

            if (*one == '*' || other[j] == '*')
                reach[j + 1] = above || reach[j];
            else
                reach[j + 1] = same && diagonal;
            diagonal = above;
        }
    }
    return reach[size];
}

static struct kvt_yaml_mark
holders_mark(const struct policy_tier *tier)
{
    return policy_mark(POLICY_SECTION_TIER, tier, "holders");
}

static void
check_pattern(const struct policy_tier *tier, struct policy_problems *problems)
{
    const bool volume = tier->level == POLICY_G3;

    if (!policy_is_written(POLICY_SECTION_TIER, tier, "level"))
        return;
    if (tier->level == POLICY_G2)
        policy_problems_add(problems, holders_mark(tier),
                            "tier %s is host memory: only volumes and buckets have holders",
                            tier->name);
    else if (volume ? !is_volume(tier->holders) : !begins(tier->holders, COLD))
        policy_problems_add(
            problems, holders_mark(tier), "tier %s is a %s: its holders begin with %s", tier->name,
            volume ? "volume" : "bucket", volume ? "\"" HOT "\" or \"" WARM "\"" : "\"" COLD "\"");
}

void
policy_check_holders(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->tiers.count; i++) {
        const struct policy_tier *tier = policy_tier_at(policy, i);

        if (tier->holders[0] == '\0')
            continue;
        check_pattern(tier, problems);
        for (size_t j = 0; j < i; j++) {
            const struct policy_tier *earlier = policy_tier_at(policy, j);

            if (earlier->holders[0] != '\0' && can_meet(earlier->holders, tier->holders)) {
                policy_problems_add(problems, holders_mark(tier),
                                    "tiers %s and %s have holders in common: \"%s\" and \"%s\"",
                                    earlier->name, tier->name, earlier->holders, tier->holders);
                break;
            }
        }
    }
}
