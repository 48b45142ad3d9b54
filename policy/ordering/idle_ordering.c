/* Whatever nobody used for a while leaves, room or not: a rule people know, to see what it costs.
 * When there is no room, it is lru. */
#include "base/core/alloc.h"

#include "policy/ordering/builtin_orderings.h"

struct idle {
    void *lru;
    uint64_t ticks;
};

static void
idle_free(void *state)
{
    struct idle *idle = state;

    if (idle == NULL)
        return;
    policy_lru.free(idle->lru);
    kvt_free(idle);
}

static enum kvt_err
idle_init(void **state, const struct kvt_ordering_options *options)
{
    struct idle *idle = kvt_calloc(1, sizeof(*idle));

    *state = NULL;
    if (idle == NULL)
        return KVT_NOMEM;
    idle->ticks = options->idle_ticks;
    if (policy_lru.init(&idle->lru, options) != KVT_OK) {
        idle_free(idle);
        return KVT_NOMEM;
    }
    *state = idle;
    return KVT_OK;
}

static enum kvt_err
idle_reserve(void *state, uint32_t count)
{
    return policy_lru.reserve(((struct idle *)state)->lru, count);
}

static void
idle_touch(void *state, const struct kvt_ordering_use *use)
{
    policy_lru.touch(((struct idle *)state)->lru, use);
}

static void
idle_enter(void *state, const struct kvt_ordering_use *use)
{
    policy_lru.enter(((struct idle *)state)->lru, use);
}

static bool
idle_victim(void *state, uint64_t now, uint32_t *block)
{
    return policy_lru.victim(((struct idle *)state)->lru, now, block);
}

static bool
idle_due(void *state, uint64_t now, uint32_t *block)
{
    const struct idle *idle = state;

    if (!policy_lru.victim(idle->lru, now, block))
        return false;
    if (-policy_lru.value(idle->lru, *block, now) > (double)idle->ticks)
        return true;
    policy_lru.give_back(idle->lru, *block);
    return false;
}

static void
idle_give_back(void *state, uint32_t block)
{
    policy_lru.give_back(((struct idle *)state)->lru, block);
}

static void
idle_leave(void *state, uint32_t block)
{
    policy_lru.leave(((struct idle *)state)->lru, block);
}

static void
idle_forget(void *state, uint32_t block)
{
    policy_lru.forget(((struct idle *)state)->lru, block);
}

static double
idle_value(const void *state, uint32_t block, uint64_t now)
{
    return policy_lru.value(((const struct idle *)state)->lru, block, now);
}

static size_t
idle_memory(const void *state)
{
    const struct idle *idle = state;

    return sizeof(*idle) + policy_lru.memory(idle->lru);
}

const struct kvt_ordering policy_idle = {
    KVT_ORDERING_HEAD,
    .name = "idle",
    .text = "what was idle for a number of requests leaves; else as lru",
    .init = idle_init,
    .reserve = idle_reserve,
    .touch = idle_touch,
    .enter = idle_enter,
    .victim = idle_victim,
    .due = idle_due,
    .give_back = idle_give_back,
    .leave = idle_leave,
    .forget = idle_forget,
    .value = idle_value,
    .memory = idle_memory,
    .free = idle_free,
};
