/*
 * An ordering as a shared object of its own: CLOCK.  Blocks stand in a circle; the hand takes the
 * first that was not used since it last passed, and lets the used ones off once.
 *
 *     cc -shared -fPIC -o clock.so clock.c
 */
#include <stdlib.h>
#include <string.h>

#include "kvtier/ordering.h"

enum spot { COLD, USED, UNUSED, TAKEN };

struct clock {
    unsigned char *spots; /* enum spot, a block */
    uint32_t count;
    uint32_t hand;
};

static enum kvt_err
clock_init(void **state, const struct kvt_ordering_options *options)
{
    (void)options;
    *state = calloc(1, sizeof(struct clock));
    return *state == NULL ? KVT_NOMEM : KVT_OK;
}

static enum kvt_err
clock_reserve(void *state, uint32_t count)
{
    struct clock *clock = state;
    unsigned char *spots;

    if (count <= clock->count)
        return KVT_OK;
    spots = realloc(clock->spots, count);
    if (spots == NULL)
        return KVT_NOMEM;
    memset(spots + clock->count, COLD, count - clock->count);
    clock->spots = spots;
    clock->count = count;
    return KVT_OK;
}

static void
clock_touch(void *state, const struct kvt_ordering_use *use)
{
    struct clock *clock = state;

    if ((use->flags & KVT_ORDERING_AGAIN) == 0 && clock->spots[use->block] == UNUSED)
        clock->spots[use->block] = USED;
}

static void
clock_enter(void *state, const struct kvt_ordering_use *use)
{
    ((struct clock *)state)->spots[use->block] = UNUSED;
}

static bool
clock_victim(void *state, uint64_t now, uint32_t *block)
{
    struct clock *clock = state;

    (void)now;
    /* Twice around: the first time everything may have been used. */
    for (uint64_t steps = 0; steps < 2 * (uint64_t)clock->count; steps++) {
        unsigned char *spot = &clock->spots[clock->hand];

        *block = clock->hand;
        clock->hand = clock->hand + 1 == clock->count ? 0 : clock->hand + 1;
        if (*spot == UNUSED) {
            *spot = TAKEN;
            return true;
        }
        if (*spot == USED)
            *spot = UNUSED;
    }
    return false;
}

static void
clock_give_back(void *state, uint32_t block)
{
    ((struct clock *)state)->spots[block] = UNUSED;
}

static void
clock_leave(void *state, uint32_t block)
{
    ((struct clock *)state)->spots[block] = COLD;
}

static double
clock_value(const void *state, uint32_t block, uint64_t now)
{
    (void)now;
    return ((const struct clock *)state)->spots[block] == USED ? 1 : 0;
}

static size_t
clock_memory(const void *state)
{
    return sizeof(struct clock) + ((const struct clock *)state)->count;
}

static void
clock_free(void *state)
{
    if (state != NULL)
        free(((struct clock *)state)->spots);
    free(state);
}

const struct kvt_ordering kvt_ordering_plugin = {
    KVT_ORDERING_HEAD,
    .name = "clock",
    .text = "second chance",
    .init = clock_init,
    .reserve = clock_reserve,
    .touch = clock_touch,
    .enter = clock_enter,
    .victim = clock_victim,
    .leave = clock_leave,
    .forget = clock_leave,
    .give_back = clock_give_back,
    .value = clock_value,
    .memory = clock_memory,
    .free = clock_free,
};
