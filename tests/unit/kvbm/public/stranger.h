/*
 * tests/unit/kvbm/public/stranger.h -- what the tests of the public headers share: dice, checks,
 * and what the bytes of a block must be.
 *
 * Why: these tests are built in the tree and again against the installed library, so they may use
 * nothing but public headers and C.
 * Threads:   the main thread.
 */
#ifndef TESTS_UNIT_KVBM_PUBLIC_STRANGER_H
#define TESTS_UNIT_KVBM_PUBLIC_STRANGER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kvtier/layout.h"

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t dice;

static inline uint64_t
mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static inline uint32_t
below(uint32_t end)
{
    dice += UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed(dice) % end);
}

static inline void
throw_dice(void)
{
    const char *seed = getenv("KVT_SEED");
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    dice = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec;
    (void)fprintf(stderr, "KVT_SEED=%llu\n", (unsigned long long)dice);
}

/* A path for this process in the folder of temporary files. */
static inline const char *
scratch(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");

    CHECK((size_t)snprintf(path, size, "%s/stranger.%ld", folder == NULL ? "/tmp" : folder,
                           (long)getpid()) < size);
    return path;
}

/* A token's one head in one layer and outer part: `head` is counted over the whole model. */
struct spot {
    uint32_t layer;
    uint32_t outer;
    uint32_t head;
    uint32_t token;
};

/* Byte `at` of a spot of content `content`. */
static inline uint8_t
byte_of(uint64_t content, const struct spot *spot, uint32_t at)
{
    const uint64_t place = ((uint64_t)spot->layer << 48) ^ ((uint64_t)spot->outer << 40) ^
                           ((uint64_t)spot->head << 24) ^ spot->token;

    return (uint8_t)mixed(mixed(content * 31 + place) + at);
}

/* Where in a block's packed bytes a spot of this rank begins: by the pictures of kvtier/layout.h,
 * and by nothing of the library. */
static inline uint64_t
packed_at(const struct kvt_geometry *shape, const struct spot *spot, uint64_t row)
{
    const uint64_t page = shape->page_size;
    const uint64_t heads = shape->heads;

    if (shape->kind == KVT_LAYOUT_UNIVERSAL)
        return ((((uint64_t)spot->head * shape->layers + spot->layer) * shape->outer +
                 spot->outer) *
                    page +
                spot->token) *
               row;
    return ((uint64_t)(spot->layer * shape->outer + spot->outer) * page * heads +
            (shape->order == KVT_LAYOUT_HND ? spot->head * page + spot->token
                                            : spot->token * heads + spot->head)) *
           row;
}

#endif /* TESTS_UNIT_KVBM_PUBLIC_STRANGER_H */
