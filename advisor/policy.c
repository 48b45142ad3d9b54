#include "advisor/policy.h"

#include <string.h>

/* Every ordering there is. */
static const struct advisor_policy_ops *const orderings[] = {&advisor_policy_lru};

const struct advisor_policy_ops *
advisor_policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof(orderings) / sizeof(orderings[0]); i++)
        if (strcmp(orderings[i]->name, name) == 0)
            return orderings[i];
    return NULL;
}
