#include "cli/workload/reuse.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "base/core/alloc.h"

enum { CAPACITY_FIRST = 1024, OCTAVE_STEPS = 8, BUCKETS = 64 * OCTAVE_STEPS };

struct slot {
    uint64_t id;
    uint64_t time_ms;
    uint64_t uses; /* 0 = empty */
    bool last;     /* the last use ended its request */
};

/* Open addressing, at most three quarters full. */
struct cli_reuse {
    struct slot *slots;
    size_t capacity; /* a power of two */
    size_t count;
    uint64_t accesses;
    uint64_t gaps;
    uint64_t gap_counts[BUCKETS];
    struct cli_reuse_share after[2]; /* other uses, and those that ended a request */
};

enum kvt_err
cli_reuse_new(struct cli_reuse **out)
{
    struct cli_reuse *reuse = kvt_calloc(1, sizeof(*reuse));

    *out = NULL;
    if (reuse == NULL)
        return KVT_NOMEM;
    reuse->capacity = CAPACITY_FIRST;
    reuse->slots = kvt_calloc(reuse->capacity, sizeof(*reuse->slots));
    if (reuse->slots == NULL) {
        cli_reuse_free(reuse);
        return KVT_NOMEM;
    }
    *out = reuse;
    return KVT_OK;
}

void
cli_reuse_free(struct cli_reuse *reuse)
{
    if (reuse == NULL)
        return;
    kvt_free(reuse->slots);
    kvt_free(reuse);
}

/* Ids count up from 0, so they need mixing (the finalizer of MurmurHash3, Appleby 2011). */
static uint64_t
mix(uint64_t id)
{
    id ^= id >> 33;
    id *= UINT64_C(0xff51afd7ed558ccd);
    id ^= id >> 33;
    id *= UINT64_C(0xc4ceb9fe1a85ec53);
    return id ^ (id >> 33);
}

static struct slot *
find(struct slot *slots, size_t capacity, uint64_t id)
{
    size_t at = (size_t)mix(id) & (capacity - 1);

    while (slots[at].uses != 0 && slots[at].id != id)
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static enum kvt_err
grow(struct cli_reuse *reuse)
{
    const size_t capacity = 2 * reuse->capacity;
    struct slot *slots = kvt_calloc(capacity, sizeof(*slots));

    if (slots == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < reuse->capacity; i++)
        if (reuse->slots[i].uses != 0)
            *find(slots, capacity, reuse->slots[i].id) = reuse->slots[i];
    kvt_free(reuse->slots);
    reuse->slots = slots;
    reuse->capacity = capacity;
    return KVT_OK;
}

enum kvt_err
cli_reuse_add(struct cli_reuse *reuse, uint64_t id, uint64_t time_ms, bool last, bool *seen)
{
    struct slot *slot;
    uint64_t gap;

    *seen = false;
    if (4 * reuse->count >= 3 * reuse->capacity && grow(reuse) != KVT_OK)
        return KVT_NOMEM;
    slot = find(reuse->slots, reuse->capacity, id);
    reuse->accesses++;
    reuse->after[last].whole++;
    if (slot->uses == 0) {
        *slot = (struct slot){id, time_ms, 1, last};
        reuse->count++;
        return KVT_OK;
    }
    *seen = true;
    reuse->after[slot->last].part++;
    slot->last = last;
    gap = time_ms > slot->time_ms ? time_ms - slot->time_ms : 0;
    slot->time_ms = time_ms;
    slot->uses++;
    reuse->gaps++;
    reuse->gap_counts[gap == 0 ? 0 : (size_t)(log2((double)gap) * OCTAVE_STEPS)]++;
    return KVT_OK;
}

static uint64_t
quantile(const struct cli_reuse *reuse, double share)
{
    const double wanted = share * (double)reuse->gaps;
    uint64_t below = 0;

    if (reuse->gaps == 0)
        return 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        below += reuse->gap_counts[i];
        if ((double)below >= wanted)
            return (uint64_t)exp2(((double)i + 0.5) / OCTAVE_STEPS);
    }
    return 0;
}

/* A block that was used n times was used again after each use but the last. */
static void
add_again(struct cli_reuse_stats *stats, uint64_t uses)
{
    for (uint64_t i = 0; i < CLI_REUSE_AGAIN - 1 && i < uses; i++) {
        stats->again[i].whole++;
        stats->again[i].part += i + 1 < uses;
    }
    if (uses >= CLI_REUSE_AGAIN) {
        stats->again[CLI_REUSE_AGAIN - 1].whole += uses - (CLI_REUSE_AGAIN - 1);
        stats->again[CLI_REUSE_AGAIN - 1].part += uses - CLI_REUSE_AGAIN;
    }
}

void
cli_reuse_stats(const struct cli_reuse *reuse, struct cli_reuse_stats *stats)
{
    *stats = (struct cli_reuse_stats){.accesses = reuse->accesses, .blocks = reuse->count};
    for (size_t i = 0; i < reuse->capacity; i++) {
        stats->used_once += reuse->slots[i].uses == 1;
        add_again(stats, reuse->slots[i].uses);
        if (reuse->slots[i].uses > stats->used_most)
            stats->used_most = reuse->slots[i].uses;
    }
    stats->again_last = reuse->after[true];
    stats->again_other = reuse->after[false];
    stats->gap_p25_ms = quantile(reuse, 0.25);
    stats->gap_p50_ms = quantile(reuse, 0.50);
    stats->gap_p75_ms = quantile(reuse, 0.75);
    stats->gap_p90_ms = quantile(reuse, 0.90);
    stats->gap_p95_ms = quantile(reuse, 0.95);
    stats->gap_p99_ms = quantile(reuse, 0.99);
    assert(stats->used_once <= stats->blocks && stats->blocks <= stats->accesses);
}
