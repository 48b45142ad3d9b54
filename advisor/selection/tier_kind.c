#include "advisor/selection/tier_kind.h"

#include <string.h>

#include "base/core/alloc.h"

static const char *const names[] = {"hot", "warm", "cold", "far", "gone"};

const char *
advisor_tier_kind_name(enum advisor_tier_kind kind)
{
    return names[kind];
}

bool
advisor_tier_kind_parse(const char *text, enum advisor_tier_kind *kind)
{
    for (unsigned i = 0; i < ADVISOR_TIER_KIND_COUNT; i++)
        if (strcmp(text, names[i]) == 0) {
            *kind = (enum advisor_tier_kind)i;
            return true;
        }
    *kind = ADVISOR_TIER_KIND_GONE;
    return false;
}

void
advisor_tier_kinds_release(struct advisor_tier_kinds *kinds)
{
    kvt_free(kinds->far);
    *kinds = (struct advisor_tier_kinds){.far = NULL};
}

enum advisor_tier_kind
advisor_tier_kinds_of(const struct advisor_tier_kinds *kinds, const char *holder)
{
    if (strncmp(holder, "hot@", 4) == 0)
        return ADVISOR_TIER_KIND_HOT;
    if (strncmp(holder, "warm@", 5) == 0)
        return ADVISOR_TIER_KIND_WARM;
    for (size_t i = 0; i < kinds->far_count; i++)
        if (strcmp(holder, kinds->far[i]) == 0)
            return ADVISOR_TIER_KIND_FAR;
    return ADVISOR_TIER_KIND_COLD;
}
