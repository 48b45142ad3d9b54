/*
 * bench/index_apply.c -- events a second applied to the index in RAM.
 *
 * The workload: HOLDERS holders store chains of CHAIN blocks, most of them their own and some (the
 * shared prefixes) everybody's; for every four chains stored, the oldest one leaves.  An event is
 * one Store or one Remove.  The floor does the same with the keys alone: one insertion into or
 * removal from an open-addressing set of 64-bit numbers, made large enough beforehand, half full.
 *
 * Prints one line a pair: "pair <ours> <floor>", in events a second.  Each run starts empty.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "index/index.h"

enum {
    HOLDERS = 64,
    CHAIN = 32,
    SHARED_CHAINS = 64,
    SHARED_PERCENT = 10,
    EVENTS = 8 << 20,
    EVENTS_QUICK = 1 << 20,
    PAIRS = 7,
    PAIRS_QUICK = 3,
};

#define BYTES_MAX (UINT64_C(8) << 30)

struct op {
    uint64_t hash;
    uint64_t parent;
    uint32_t position;
    uint16_t holder;
    bool remove;
};

struct workload {
    struct op *ops;
    size_t count;
};

/* What a holder holds: chains, oldest first. */
struct held {
    uint64_t *chains;
    size_t first;
    size_t end;
};

static uint64_t
block_hash(uint64_t chain, uint32_t position)
{
    uint64_t state = chain * 64 + position;

    return kvt_random_next(&state) | 1;
}

static size_t
put_chain(struct workload *workload, size_t at, uint64_t chain, uint16_t holder, bool remove)
{
    for (uint32_t i = 0; i < CHAIN && at < workload->count; i++) {
        /* A chain leaves from its leaf. */
        const uint32_t position = remove ? CHAIN - 1 - i : i;

        workload->ops[at++] = (struct op){
            .hash = block_hash(chain, position),
            .parent = position == 0 ? 0 : block_hash(chain, position - 1),
            .position = position,
            .holder = holder,
            .remove = remove,
        };
    }
    return at;
}

static bool
make_workload(struct workload *workload, size_t count)
{
    const size_t room = count / CHAIN + 1;
    struct held held[HOLDERS] = {{.chains = NULL}};
    uint64_t random = 1;
    size_t at = 0;
    bool ok;

    workload->count = count;
    workload->ops = kvt_calloc(count, sizeof(*workload->ops));
    ok = workload->ops != NULL;
    for (size_t i = 0; i < HOLDERS && ok; i++) {
        held[i].chains = kvt_calloc(room, sizeof(uint64_t));
        ok = held[i].chains != NULL;
    }
    for (uint64_t chain = SHARED_CHAINS; ok && at < count; chain++) {
        const uint16_t holder = (uint16_t)kvt_random_below(&random, HOLDERS);
        struct held *mine = &held[holder];

        if (kvt_random_below(&random, 100) < SHARED_PERCENT) {
            at = put_chain(workload, at, kvt_random_below(&random, SHARED_CHAINS), holder, false);
            continue;
        }
        at = put_chain(workload, at, chain, holder, false);
        mine->chains[mine->end++] = chain;
        if (mine->end % 4 == 0)
            at = put_chain(workload, at, mine->chains[mine->first++], holder, true);
    }
    for (size_t i = 0; i < HOLDERS; i++)
        kvt_free(held[i].chains);
    return ok;
}

static double
rate(size_t events, uint64_t start_ns)
{
    return (double)events * 1e9 / (double)(kvt_clock_mono_ns() - start_ns);
}

/* Events a second, or 0 when something was refused. */
static double
run_index(const struct workload *workload)
{
    struct index *index = NULL;
    uint32_t holders[HOLDERS];
    uint64_t start_ns;
    uint32_t ns;
    double result = 0;
    bool ok =
        index_new(&index, BYTES_MAX) == KVT_OK && index_namespace(index, "bench", &ns) == KVT_OK;

    for (unsigned i = 0; i < HOLDERS && ok; i++) {
        struct index_holder key = {.tier = KVT_TIER_G2};

        (void)snprintf(key.name, sizeof(key.name), "worker-%u", i);
        ok = index_holder(index, &key, &holders[i]) == KVT_OK;
    }
    start_ns = kvt_clock_mono_ns();
    for (size_t i = 0; i < workload->count && ok; i++) {
        const struct op *op = &workload->ops[i];
        const struct index_block block = {
            .id = {.hash = op->hash, .parent = op->parent, .position = op->position},
            .size = 65536,
            .ranks = 1};

        if (op->remove)
            ok = index_remove(index, ns, holders[op->holder], op->hash, 1) == KVT_OK;
        else
            ok = index_store(index, ns, holders[op->holder], &block, NULL) == KVT_OK;
    }
    if (ok)
        result = rate(workload->count, start_ns);
    index_free(index);
    return result;
}

struct set {
    uint64_t *slots; /* 0 = empty */
    uint64_t mask;
};

static uint64_t
key_of(const struct op *op)
{
    return (op->hash ^ (uint64_t)op->holder * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

static void
set_add(const struct set *set, uint64_t key)
{
    uint64_t at = key >> 1 & set->mask;

    while (set->slots[at] != 0 && set->slots[at] != key)
        at = (at + 1) & set->mask;
    set->slots[at] = key;
}

static void
set_remove(const struct set *set, uint64_t key)
{
    uint64_t hole = key >> 1 & set->mask;

    while (set->slots[hole] != 0 && set->slots[hole] != key)
        hole = (hole + 1) & set->mask;
    for (uint64_t at = (hole + 1) & set->mask; set->slots[at] != 0; at = (at + 1) & set->mask) {
        const uint64_t home = set->slots[at] >> 1 & set->mask;

        if (((at - home) & set->mask) >= ((at - hole) & set->mask)) {
            set->slots[hole] = set->slots[at];
            hole = at;
        }
    }
    set->slots[hole] = 0;
}

static double
run_floor(const struct workload *workload)
{
    struct set set = {.mask = 1};
    uint64_t start_ns;
    double result;

    while (set.mask < workload->count)
        set.mask *= 2;
    set.slots = kvt_calloc(set.mask, sizeof(*set.slots));
    if (set.slots == NULL)
        return 0;
    set.mask--;
    /* Touched beforehand: the floor pays for probes, not for page faults. */
    memset(set.slots, 0, (set.mask + 1) * sizeof(*set.slots));
    start_ns = kvt_clock_mono_ns();
    for (size_t i = 0; i < workload->count; i++) {
        const uint64_t key = key_of(&workload->ops[i]);

        if (workload->ops[i].remove)
            set_remove(&set, key);
        else
            set_add(&set, key);
    }
    result = rate(workload->count, start_ns);
    kvt_free(set.slots);
    return result;
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct workload workload;
    bool ok = make_workload(&workload, quick ? EVENTS_QUICK : EVENTS);

    for (int i = 0; i < (quick ? PAIRS_QUICK : PAIRS) && ok; i++) {
        const double floor = run_floor(&workload);
        const double ours = run_index(&workload);

        ok = floor > 0 && ours > 0;
        if (ok)
            (void)printf("pair %.0f %.0f\n", ours, floor);
    }
    kvt_free(workload.ops);
    return ok ? 0 : 1;
}
