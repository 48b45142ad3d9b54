/* An ordering that must be refused; which fault it has is a definition of the build. */
#include <stddef.h>

#include "kvtier/ordering.h"

/* A crash says that somebody called what should have been refused. */
static enum kvt_err
init(void **state, const struct kvt_ordering_options *options)
{
    (void)state;
    (void)options;
    __builtin_trap();
}

static enum kvt_err
reserve(void *state, uint32_t count)
{
    (void)state;
    (void)count;
    return KVT_OK;
}

static void
use_it(void *state, const struct kvt_ordering_use *use)
{
    (void)state;
    (void)use;
}

static bool
victim(void *state, uint64_t now, uint32_t *block)
{
    (void)state;
    (void)now;
    (void)block;
    return false;
}

static void
change(void *state, uint32_t block)
{
    (void)state;
    (void)block;
}

static double
value(const void *state, uint32_t block, uint64_t now)
{
    (void)state;
    (void)block;
    (void)now;
    return 0;
}

static size_t
memory(const void *state)
{
    (void)state;
    return 0;
}

static void
end(void *state)
{
    (void)state;
}

const struct kvt_ordering kvt_ordering_plugin = {
#ifdef BAD_abi
    .abi = KVT_ORDERING_ABI + 1,
#else
    .abi = KVT_ORDERING_ABI,
#endif
    .size = sizeof(struct kvt_ordering),
#ifdef BAD_use_size
    .use_size = sizeof(struct kvt_ordering_use) - 8,
#else
    .use_size = sizeof(struct kvt_ordering_use),
#endif
    .options_size = sizeof(struct kvt_ordering_options),
#ifdef BAD_no_name
    .name = "No Name",
#else
    .name = "bad",
#endif
    .text = "refused",
    .init = init,
    .reserve = reserve,
    .touch = use_it,
    .enter = use_it,
#ifndef BAD_no_victim
    .victim = victim,
#endif
    .give_back = change,
    .leave = change,
    .forget = change,
    .value = value,
    .memory = memory,
    .free = end,
};
