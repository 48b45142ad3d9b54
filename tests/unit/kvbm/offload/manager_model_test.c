/*
 * What is tested: kvbm/offload/manager.h in long random runs of makes, uses, pushes, demands,
 * onboards, prefetches and cancels over random sets of tiers, with a volume that comes and goes, a
 * disk that fails and allocations that fail: every block that is found, anywhere, has the bytes of
 * its name; an onboard holds exactly the prefix it says; nothing is lost that no counter says was;
 * and at the end nothing is held.  Step by step on one thread, and beside threads of the manager's
 * and others.
 */
#include <assert.h>
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/offload/manager_bed.h"
#include "tests/unit/kvbm/support/gate.h"

enum { STEPS = 3000, NAMES = 200, CHAINS = 10, CHAIN = NAMES / CHAINS, ASKED = 6, THREADS = 3 };

/* What must have happened in a run of all tiers. */
struct met {
    unsigned made;
    unsigned used;
    unsigned pushed;
    unsigned whole;
    unsigned part;
    unsigned none;
    unsigned late;
    unsigned cancelled;
    unsigned given_up;
};

struct asked {
    struct kvbm_onboard *onboard;
    uint64_t first;
    size_t count;
    enum kvt_tier target;
    bool prefetch;
};

struct actor {
    struct bed *bed;
    uint64_t random;
    enum kvt_tier top;
    bool steps; /* it alone steps */
    bool faults;
    struct asked asked[ASKED];
    struct met met;
};

static uint64_t
below(struct actor *actor, uint64_t limit)
{
    return kvt_random_below(&actor->random, limit);
}

/* Name `at` of the chain it is in. */
static uint64_t
name_of(uint64_t at)
{
    return at + 1;
}

static void
check_held(struct actor *actor, enum kvt_tier tier, const struct kvt_handle *handles,
           uint64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert(!bed_is_wrong(actor->bed, tier, handles[i], first + i));
}

static void
look_at(struct actor *actor, struct asked *asked)
{
    struct kvt_handle handles[CHAIN];
    struct kvt_onboard_result result;
    size_t taken;
    const enum kvt_err rc = kvbm_onboard_wait(asked->onboard, 0, &result);

    if (rc == KVT_BUSY)
        return;
    assert(result.arrived <= asked->count);
    assert((rc == KVT_OK) == (result.arrived == asked->count));
    actor->met.whole += rc == KVT_OK;
    actor->met.part += rc != KVT_OK && result.arrived > 0;
    actor->met.none += result.arrived == 0;
    actor->met.late += rc == KVT_TIMEOUT;
    actor->met.cancelled += rc == KVT_CANCELLED;
    actor->met.given_up += rc == KVT_AGAIN && asked->prefetch;
    taken = kvbm_onboard_take(asked->onboard, handles);
    assert(taken == (asked->prefetch ? 0 : result.arrived));
    check_held(actor, asked->target, handles, asked->first, taken);
    kvbm_pool_drop_all(bed_pool(actor->bed, asked->target), handles, taken);
    kvbm_onboard_release(asked->onboard);
    asked->onboard = NULL;
}

static void
ask(struct actor *actor, struct asked *asked)
{
    struct kvbm_label labels[CHAIN];
    const uint64_t chain = below(actor, CHAINS);
    enum kvt_err rc;

    if (asked->onboard != NULL)
        return;
    *asked = (struct asked){
        .first = name_of(chain * CHAIN),
        .count = 1 + below(actor, CHAIN),
        .target = actor->top,
        .prefetch = below(actor, 3) == 0,
    };
    if (actor->top == KVT_TIER_G1 && bed_pool(actor->bed, KVT_TIER_G2) != NULL &&
        below(actor, 4) == 0)
        asked->target = KVT_TIER_G2;
    bed_chain(labels, asked->first, asked->count);
    rc = kvbm_onboard_start(&asked->onboard, actor->bed->manager,
                            &(struct kvbm_onboard_request){
                                .labels = labels,
                                .count = asked->count,
                                .target = asked->target,
                                .prefetch = asked->prefetch,
                                .deadline_ms = below(actor, 4) == 0 ? 1 + below(actor, 5) : 0,
                            },
                            NULL);
    assert(rc == KVT_OK || (actor->faults && rc == KVT_NOMEM));
}

/* Some of a chain is computed: what is not there yet. */
static void
make_some(struct actor *actor)
{
    const uint64_t chain = below(actor, CHAINS);
    const uint64_t count = 1 + below(actor, CHAIN);
    struct kvbm_pool *pool = bed_pool(actor->bed, actor->top);

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t hash = name_of(chain * CHAIN + i);
        struct kvt_handle handle;

        if (kvbm_pool_has(pool, hash) || kvbm_pool_stats(pool).active > BED_BLOCKS / 2)
            continue;
        if (!bed_try_make(actor->bed, actor->top, hash, (uint32_t)i, &handle))
            return;
        actor->met.made++;
        if (below(actor, 2) == 0 && kvbm_manager_push(actor->bed->manager, handle, 0) == KVT_OK)
            actor->met.pushed++;
        kvbm_pool_set_priority(pool, handle, (uint32_t)below(actor, KVT_PRIORITY_MAX + 1));
        kvbm_pool_drop(pool, handle);
    }
}

static void
use_some(struct actor *actor)
{
    const uint64_t first = name_of(below(actor, CHAINS) * CHAIN);
    struct kvt_handle handles[CHAIN];
    uint64_t hashes[CHAIN];
    enum kvt_tier tier = (enum kvt_tier)(KVT_TIER_G1 + below(actor, 3));
    size_t found;

    if (bed_pool(actor->bed, tier) == NULL)
        return;
    for (size_t i = 0; i < CHAIN; i++)
        hashes[i] = first + i;
    found = kvbm_pool_match(bed_pool(actor->bed, tier), hashes, CHAIN, handles);
    check_held(actor, tier, handles, first, found);
    actor->met.used += found > 0;
    kvbm_pool_drop_all(bed_pool(actor->bed, tier), handles, found);
}

static void
trouble(struct actor *actor)
{
    static const enum kvt_err answers[] = {KVT_OK,   KVT_OK,          KVT_OK,
                                           KVT_FULL, KVT_UNAVAILABLE, KVT_EXISTS};
    static const enum kvt_err refusals[] = {KVT_OK, KVT_OK, KVT_OK, KVT_UNAVAILABLE, KVT_CORRUPT};
    static const enum kvt_err reads[] = {KVT_OK, KVT_OK, KVT_IO, KVT_CORRUPT};
    struct bed *bed = actor->bed;

    atomic_store(&bed->answer, answers[below(actor, 6)]);
    atomic_store(&bed->refusal, refusals[below(actor, 5)]);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4 && actor->steps; tier++)
        if (bed->gated[tier])
            gate_fail(bed->options.tiers[tier].storage, (uint32_t)below(actor, BED_BLOCKS),
                      reads[below(actor, 4)], below(actor, 2) == 0);
}

/* While a tier fails it is asked again and again. */
static void
end_trouble(struct bed *bed)
{
    atomic_store(&bed->answer, KVT_OK);
    atomic_store(&bed->refusal, KVT_OK);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        if (bed->gated[tier])
            gate_fail(bed->options.tiers[tier].storage, 0, KVT_OK, false);
}

static void
act(struct actor *actor)
{
    struct asked *asked = &actor->asked[below(actor, ASKED)];

    switch (below(actor, 12)) {
    case 0:
    case 1: make_some(actor); break;
    case 2:
    case 3: use_some(actor); break;
    case 4:
    case 5: ask(actor, asked); break;
    case 6:
        if (asked->onboard != NULL && below(actor, 4) == 0)
            kvbm_onboard_cancel(asked->onboard);
        break;
    case 7:
        if (asked->onboard != NULL && below(actor, 8) == 0) {
            kvbm_onboard_release(asked->onboard);
            asked->onboard = NULL;
        }
        break;
    case 8:
        kvbm_manager_make_room(actor->bed->manager, actor->top, (uint32_t)below(actor, 8), 0);
        break;
    case 9:
        if (actor->faults && below(actor, 4) == 0)
            trouble(actor);
        break;
    default: break;
    }
    for (size_t i = 0; i < ASKED; i++)
        if (actor->asked[i].onboard != NULL)
            look_at(actor, &actor->asked[i]);
}

static void
let_go(struct actor *actor)
{
    for (size_t i = 0; i < ASKED; i++)
        kvbm_onboard_release(actor->asked[i].onboard);
}

/* Without faults: each name that was ever made is in some tier, or counted as evicted unsaved. */
static void
check_kept(struct bed *bed, const bool *made)
{
    uint64_t lost = 0;
    uint64_t unsaved = 0;

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        if (bed_pool(bed, (enum kvt_tier)tier) != NULL)
            unsaved += kvbm_pool_stats(bed_pool(bed, (enum kvt_tier)tier)).evictions_unsaved;
    for (uint64_t hash = 1; hash <= NAMES; hash++) {
        bool there = !made[hash] || atomic_load(&bed->has[hash]);

        for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
            there = there || (bed_pool(bed, (enum kvt_tier)tier) != NULL &&
                              kvbm_pool_has(bed_pool(bed, (enum kvt_tier)tier), hash));
        lost += !there;
    }
    if (bed->volumes != NULL) /* it has room for everything, and what is below stays there */
        assert_true(lost <= unsaved);
}

static void
run_alone(unsigned tiers, unsigned gated, bool faults, unsigned steps)
{
    struct bed *bed = bed_open(tiers, gated);
    struct actor actor = {.bed = bed, .top = KVT_TIER_G1, .steps = true, .faults = faults};
    bool made[NAMES + 1] = {false};

    actor.random = test_seed() + tiers * 2 + faults;
    while ((tiers & KVT_TIER_MASK(actor.top)) == 0)
        actor.top = (enum kvt_tier)(actor.top + 1);
    bed->options.room_wait_ms = 1;
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        bed->options.tiers[tier].idle_iterations = below(&actor, 2) == 0 ? 0 : 5;
    bed_start(bed);
    for (unsigned step = 0; step < steps; step++) {
        if (faults && below(&actor, 16) == 0)
            kvt_alloc_fail_after(below(&actor, 6));
        act(&actor);
        kvbm_manager_step(bed->manager);
        kvt_alloc_fail_after(SIZE_MAX);
        for (uint64_t hash = 1; hash <= NAMES && step % 16 == 0; hash++)
            made[hash] = made[hash] || kvbm_pool_has(bed_pool(bed, actor.top), hash);
    }
    let_go(&actor);
    end_trouble(bed);
    assert_true(bed_settle(bed));
    if (!faults)
        check_kept(bed, made);
    if (tiers == 0x1e && actor.met.made > 100 && faults) {
        assert_true(actor.met.used > 0 && actor.met.pushed > 0 && actor.met.whole > 0);
        assert_true(actor.met.part > 0 && actor.met.none > 0 && actor.met.cancelled > 0);
    }
    bed_close(bed);
}

static void
every_set_of_tiers_alone(void **unused)
{
    (void)unused;
    for (unsigned tiers = 0; tiers <= 0x1e; tiers += 2) {
        const unsigned steps = STEPS / (tiers == 0x1eu ? 1u : 6u) / TEST_ALONE_SHARE;

        if (__builtin_popcount(tiers) < 2 ||
            (tiers & (KVT_TIER_MASK(KVT_TIER_G1) | KVT_TIER_MASK(KVT_TIER_G2))) == 0)
            continue;
        run_alone(tiers, 0, false, steps);
        run_alone(tiers, 0, true, steps);
        run_alone(tiers, KVT_TIER_MASK(KVT_TIER_G1) | KVT_TIER_MASK(KVT_TIER_G2), true, steps);
    }
}

static void *
run_actor(void *arg)
{
    struct actor *actor = arg;

    for (unsigned step = 0; step < STEPS / 3; step++) {
        act(actor);
        if (step % 8 == 0)
            kvt_clock_sleep_ms(1);
    }
    let_go(actor);
    return NULL;
}

/* The manager steps by itself, and others make, use and ask. */
static void
beside_threads(void **unused)
{
    struct bed *bed = bed_open(0x1e, 0);
    struct actor actors[THREADS];
    pthread_t threads[THREADS];
    struct met met = {0};

    (void)unused;
    bed->options.iteration_ms = 1;
    bed->options.room_wait_ms = 2;
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        bed->options.tiers[tier].idle_iterations = 20;
    bed_start(bed);
    for (size_t i = 0; i < THREADS; i++) {
        actors[i] = (struct actor){.bed = bed, .top = KVT_TIER_G1, .faults = i == 0};
        actors[i].random = test_seed() + 1000 + i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_actor, &actors[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        met.made += actors[i].met.made;
        met.used += actors[i].met.used;
        met.whole += actors[i].met.whole;
        met.none += actors[i].met.none;
    }
    assert_true(met.made > 0 && met.used > 0 && met.whole > 0 && met.none > 0);
    end_trouble(bed);
    assert_true(kvbm_manager_drain(bed->manager, 10000));
    bed_close(bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_tiers_alone),
        cmocka_unit_test(beside_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
