#include <string.h>
#include <sys/mman.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/measure.h"

enum { AHEAD = 16, ALIGNMENT = 2 << 20 };

struct slot {
    uint64_t key; /* 0: empty */
    uint64_t value;
};

struct measure_floor {
    struct slot *slots;
    size_t mask;
    uint64_t *keys; /* of one batch */
};

enum kvt_err
measure_floor_new(struct measure_floor **out, size_t entries)
{
    struct measure_floor *floor = kvt_calloc(1, sizeof(*floor));
    size_t count = 1;

    *out = floor;
    if (floor == NULL)
        return KVT_NOMEM;
    while (count < 2 * entries)
        count *= 2;
    floor->mask = count - 1;
    floor->keys = kvt_calloc(SUBJECT_BATCH_BLOCKS + CORPUS_CHAIN_MAX, sizeof(*floor->keys));
    floor->slots = kvt_aligned(ALIGNMENT, count * sizeof(*floor->slots));
    if (floor->keys == NULL || floor->slots == NULL) {
        measure_floor_free(floor);
        *out = NULL;
        return KVT_NOMEM;
    }
    /* As good a floor as can be: huge pages where the kernel gives them. */
    (void)madvise(floor->slots, count * sizeof(*floor->slots), MADV_HUGEPAGE);
    memset(floor->slots, 0, count * sizeof(*floor->slots));
    return KVT_OK;
}

void
measure_floor_free(struct measure_floor *floor)
{
    if (floor == NULL)
        return;
    kvt_free(floor->slots);
    kvt_free(floor->keys);
    kvt_free(floor);
}

/* The lowest bit of a key is always set. */
static size_t
home_of(const struct measure_floor *floor, uint64_t key)
{
    return key >> 1 & floor->mask;
}

static void
insert(struct measure_floor *floor, uint64_t key, uint64_t value)
{
    size_t at = home_of(floor, key);

    while (floor->slots[at].key != 0 && floor->slots[at].key != key)
        at = (at + 1) & floor->mask;
    floor->slots[at] = (struct slot){.key = key, .value = value};
}

static void
insert_batch(struct measure_floor *floor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(&floor->slots[home_of(floor, floor->keys[i + AHEAD])], 1);
        insert(floor, floor->keys[i], i);
    }
}

static void
hand_over(struct measure_floor *floor, size_t count, struct measure_took *took)
{
    const double cpu_s = measure_cpu_s();
    const uint64_t start_ns = kvt_clock_mono_ns();

    insert_batch(floor, count);
    took->wall_s += (double)(kvt_clock_mono_ns() - start_ns) / 1e9;
    took->cpu_s += measure_cpu_s() - cpu_s;
    took->blocks += count;
}

enum kvt_err
measure_floor_run(struct measure_floor *floor, const struct corpus *corpus,
                  struct measure_took *took, struct kvt_error *err)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t hashes[CORPUS_CHAIN_MAX];
    size_t count = 0;
    size_t found = 0;

    *took = (struct measure_took){.blocks = 0};
    memset(floor->slots, 0, (floor->mask + 1) * sizeof(*floor->slots));
    for (uint32_t i = 0; i < corpus->chains; i++) {
        const uint32_t chain = corpus->order[i];
        const uint64_t worker = corpus_worker_id(corpus_worker(corpus, chain));
        const uint32_t length = corpus_locals(corpus, chain, locals);

        corpus_sequence(locals, length, hashes);
        /* One key a membership: blocks that workers share differ by the worker. */
        for (uint32_t at = 0; at < length; at++)
            floor->keys[count++] = corpus_mix(hashes[at] ^ worker) | 1;
        if (count >= SUBJECT_BATCH_BLOCKS || i + 1 == corpus->chains) {
            hand_over(floor, count, took);
            count = 0;
        }
    }
    for (size_t i = 0; i <= floor->mask; i++)
        found += floor->slots[i].key != 0;
    if (found != took->blocks)
        return kvt_error_set(err, KVT_CORRUPT, "the floor has %zu of %zu blocks", found,
                             took->blocks);
    return KVT_OK;
}
