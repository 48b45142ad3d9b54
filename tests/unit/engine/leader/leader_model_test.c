/* Any order of finds, cancels and releases on pools that are always too small, over a worker that
 * fails: a match has a prefix with its bytes, ends in time, and in the end nothing is held. */
#include <assert.h>
#include <stdatomic.h>

#include "base/core/clock.h"
#include "kvbm/pool/mutable_block.h"

#include "tests/unit/engine/support/leader_bed.h"

enum {
    CHAINS = 8,
    ASKED = 6,
    STEPS = 1500,
    THREADS = 3,
    SLACK_MS = 4000, /* a machine that is busy with something else */
};

struct asked {
    struct engine_match *match;
    uint64_t first;
    size_t count;
    enum engine_mode mode;
    enum engine_state last;
    uint64_t until_ms;
    bool cancelled;          /* its blocks may go at any time */
    _Atomic unsigned report; /* states that `changed` said */
};

struct met {
    unsigned whole, part, none, late, cancelled, staged, taken, scanned, stored, loaded;
};

struct actor {
    struct bed *bed;
    uint64_t random;
    bool faults;
    struct asked asked[ASKED];
    struct met met;
};

static uint64_t
below(struct actor *actor, uint64_t limit)
{
    actor->random = actor->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (actor->random >> 33) % limit;
}

static uint64_t
chain_of(struct actor *actor)
{
    return below(actor, CHAINS) * BED_CHAIN + 1;
}

static void
changed(void *arg, struct engine_match *match, const struct engine_match_view *view)
{
    struct asked *asked = arg;
    struct engine_match_view now;

    engine_match_view(match, &now);
    assert(view->state != ENGINE_COMPLETE && view->ready <= view->found);
    atomic_fetch_or(&asked->report, ENGINE_STATE_BIT(view->state));
}

static void
ask(struct actor *actor, struct asked *asked)
{
    static const enum engine_mode modes[] = {ENGINE_HOLD, ENGINE_PREPARE, ENGINE_FULL, ENGINE_FULL};
    struct kvbm_label labels[BED_CHAIN];
    const uint64_t wait_ms = 1 + below(actor, 40);
    enum kvt_err rc;

    if (asked->match != NULL)
        return;
    asked->first = chain_of(actor);
    asked->count = 1 + below(actor, BED_CHAIN);
    asked->mode = modes[below(actor, 4)];
    asked->last = ENGINE_SEARCHING;
    asked->cancelled = false;
    atomic_store(&asked->report, 0);
    bed_labels(labels, asked->first, 0, asked->count);
    asked->until_ms = kvt_clock_mono_ms() + wait_ms;
    rc = engine_leader_find(actor->bed->leader,
                            &(struct engine_find){
                                .labels = labels,
                                .count = asked->count,
                                .mode = asked->mode,
                                .objects = below(actor, 2) == 0,
                                .wait_ms = wait_ms,
                                .changed = changed,
                                .arg = asked,
                            },
                            &asked->match);
    assert(rc == KVT_OK);
}

/* Forward only, but for what engine_match_stage() asks for. */
static void
look_at(struct actor *actor, struct asked *asked)
{
    struct kvt_handle handles[BED_CHAIN];
    struct engine_match_view view;
    size_t count;

    engine_match_view(asked->match, &view);
    assert(view.state >= asked->last && view.state != ENGINE_COMPLETE);
    asked->last = view.state;
    assert(view.ready <= view.found && view.found <= view.wanted);
    count = engine_match_blocks(asked->match, handles, BED_CHAIN);
    if (!asked->cancelled)
        bed_check(actor->bed, handles, asked->first, count);
    if (view.state < ENGINE_READY &&
        !(view.state == ENGINE_HOLDING && asked->mode == ENGINE_HOLD)) {
        assert(kvt_clock_mono_ms() < asked->until_ms + SLACK_MS);
        return;
    }
    assert(view.state != ENGINE_FAILED || (view.ready == 0 && view.text[0] != '\0'));
    assert(view.state != ENGINE_FAILED || count == 0);
    assert(view.state != ENGINE_READY || view.shortened || view.ready == view.found);
    actor->met.whole += view.state == ENGINE_READY && !view.shortened && view.found > 0;
    actor->met.part += view.state == ENGINE_READY && view.shortened;
    actor->met.none += view.found == 0;
    actor->met.late += view.why == KVT_TIMEOUT;
    actor->met.cancelled += view.why == KVT_CANCELLED;
}

static void
let_go(struct actor *actor, struct asked *asked)
{
    struct kvt_handle handles[BED_CHAIN];
    size_t taken = 0;

    if (asked->match == NULL)
        return;
    if (below(actor, 3) == 0)
        taken = engine_match_take(asked->match, handles, below(actor, BED_CHAIN));
    engine_match_release(asked->match);
    asked->match = NULL;
    bed_check(actor->bed, handles, asked->first, taken);
    actor->met.taken += taken > 0;
    kvbm_pool_drop_all(actor->bed->pools[KVT_TIER_G2], handles, taken);
}

static void
go_on(struct actor *actor, struct asked *asked)
{
    const uint64_t wait_ms = 1 + below(actor, 40);

    if (asked->match == NULL || engine_match_stage(asked->match, ENGINE_FULL, wait_ms) != KVT_OK)
        return;
    asked->until_ms = kvt_clock_mono_ms() + wait_ms;
    asked->mode = ENGINE_FULL;
    if (asked->last == ENGINE_READY)
        asked->last = ENGINE_STAGING;
    actor->met.staged++;
}

/* As an engine does: room, bytes, names. */
static void
make_some(struct actor *actor)
{
    struct kvbm_pool *pool = actor->bed->pools[KVT_TIER_G2];
    const uint64_t first = chain_of(actor);
    const size_t count = 1 + below(actor, 6);
    struct kvt_handle handles[6];
    struct kvbm_label labels[6];
    const uint32_t position = (uint32_t)below(actor, BED_CHAIN - 6);

    if (engine_leader_allocate(actor->bed->leader, count, handles, below(actor, 3)) != KVT_OK)
        return;
    bed_labels(labels, first + position, position, count);
    for (size_t i = 0; i < count; i++) {
        enum kvt_err rc = kvbm_block_begin(pool, handles[i], NULL);

        assert(rc == KVT_OK);
        fake_worker_write(actor->bed->worker, KVT_TIER_G2, handles[i].block, labels[i].id.hash, 0,
                          0);
        rc = kvbm_block_complete(pool, handles[i], &labels[i], NULL);
        assert(rc == KVT_OK);
        rc = kvbm_pool_register(pool, &handles[i], NULL);
        if (rc == KVT_OK)
            engine_leader_arrived(actor->bed->leader, &handles[i], 1);
        assert(rc == KVT_OK || rc == KVT_EXISTS || rc == KVT_BUSY);
    }
    kvbm_pool_drop_all(pool, handles, count);
}

static bool
some(void *arg, size_t at, const struct kvbm_label *label, enum kvt_tier tier)
{
    struct actor *actor = arg;

    (void)at;
    (void)label;
    return tier == KVT_TIER_G3 || below(actor, 2) == 0;
}

static void
scan_some(struct actor *actor)
{
    struct kvt_handle handles[BED_CHAIN];
    struct kvbm_label labels[BED_CHAIN];
    struct engine_match *match;
    size_t count;
    enum kvt_err rc;

    bed_labels(labels, chain_of(actor), 0, BED_CHAIN);
    rc = engine_leader_scan(actor->bed->leader, labels, BED_CHAIN, some, actor, &match);
    assert(rc == KVT_OK);
    if (below(actor, 2) == 0)
        rc = engine_match_stage(match, ENGINE_FULL, 1 + below(actor, 20));
    assert(rc == KVT_OK);
    count = engine_match_blocks(match, handles, BED_CHAIN);
    for (size_t i = 0; i < count; i++) {
        const uint64_t hash = kvbm_pool_label(actor->bed->pools[KVT_TIER_G2], handles[i]).id.hash;

        assert(fake_worker_is(actor->bed->worker, KVT_TIER_G2, handles[i].block, hash));
    }
    actor->met.scanned += count > 0;
    engine_match_release(match);
}

static void
objects_some(struct actor *actor)
{
    enum kvt_err statuses[BED_CHAIN];
    struct kvt_handle handles[BED_CHAIN];
    struct kvbm_label labels[BED_CHAIN];
    const uint64_t first = chain_of(actor);
    const size_t count = 1 + below(actor, 4);
    enum kvt_err rc;

    bed_labels(labels, first, 0, count);
    if (below(actor, 2) == 0) {
        rc = engine_leader_has_objects(actor->bed->leader, labels, count, statuses, 10);
        assert(actor->faults || rc == KVT_OK);
        return;
    }
    rc = engine_leader_get_objects(actor->bed->leader, labels, count, handles, statuses, 10);
    for (size_t i = 0; i < count; i++) {
        assert((handles[i].generation != 0) == (statuses[i] == KVT_OK));
        if (statuses[i] == KVT_OK)
            bed_check(actor->bed, &handles[i], first + i, 1);
        actor->met.loaded += statuses[i] == KVT_OK;
        if (statuses[i] == KVT_OK && below(actor, 2) == 0) {
            enum kvt_err status;

            rc = engine_leader_put_objects(actor->bed->leader, &handles[i], 1, &status, 10);
            actor->met.stored += rc == KVT_OK;
        }
    }
    kvbm_pool_drop_all(actor->bed->pools[KVT_TIER_G2], handles, count);
}

static void
trouble(struct actor *actor)
{
    static const struct fake_faults faults[] = {
        {0, 0, 0}, {0, 0, 0}, {300000, 0, 0}, {0, 200000, 0}, {0, 0, 100000}, {50000, 50000, 50000},
    };

    if (actor->faults)
        fake_worker_faults(actor->bed->worker, &faults[below(actor, 6)]);
}

static void
act(struct actor *actor)
{
    struct asked *asked = &actor->asked[below(actor, ASKED)];

    switch (below(actor, 16)) {
    case 0:
    case 1:
    case 2: make_some(actor); break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: ask(actor, asked); break;
    case 8:
    case 9: let_go(actor, asked); break;
    case 10:
        if (asked->match != NULL && below(actor, 4) == 0) {
            asked->cancelled = true;
            engine_match_cancel(asked->match);
        }
        break;
    case 11: go_on(actor, asked); break;
    case 12: scan_some(actor); break;
    case 13: objects_some(actor); break;
    case 14:
        if (below(actor, 16) == 0)
            trouble(actor);
        break;
    default: kvt_clock_sleep_ms(below(actor, 2)); break;
    }
    for (size_t i = 0; i < ASKED; i++)
        if (actor->asked[i].match != NULL)
            look_at(actor, &actor->asked[i]);
}

static void *
run_actor(void *arg)
{
    struct actor *actor = arg;

    for (unsigned step = 0; step < STEPS / TEST_ALONE_SHARE; step++)
        act(actor);
    for (size_t i = 0; i < ASKED; i++)
        let_go(actor, &actor->asked[i]);
    return NULL;
}

static void
run(unsigned threads, bool faults, bool g3, bool objects)
{
    struct actor actors[THREADS];
    pthread_t ids[THREADS];
    struct met met = {0};
    struct bed bed;

    bed_open(&bed, &(struct bed_options){
                       .g2 = 24,
                       .g3 = g3 ? 40 : 0,
                       .objects = objects,
                       .ending = FAKE_LATER,
                       .leader = {.stage_chunk = 3,
                                  .store = objects,
                                  .job_ms = 30,
                                  .g2_high_ppm = 800000,
                                  .g2_low_ppm = 600000},
                   });
    for (size_t i = 0; i < threads; i++) {
        actors[i] = (struct actor){.bed = &bed, .faults = faults};
        actors[i].random = test_seed() + i;
        assert_int_equal(pthread_create(&ids[i], NULL, run_actor, &actors[i]), 0);
    }
    for (size_t i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
        met.whole += actors[i].met.whole;
        met.part += actors[i].met.part;
        met.cancelled += actors[i].met.cancelled;
        met.late += actors[i].met.late;
        met.staged += actors[i].met.staged;
        met.taken += actors[i].met.taken;
        met.scanned += actors[i].met.scanned;
        met.loaded += actors[i].met.loaded;
    }
    fake_worker_faults(bed.worker, &(struct fake_faults){0});
    /* Many have seen what it is about, where they have not made fewer steps. */
    if (threads == THREADS && faults && TEST_ALONE_SHARE == 1)
        assert_true(met.whole > 0 && met.part > 0 && met.cancelled > 0 && met.late > 0 &&
                    met.staged > 0 && met.taken > 0 && met.scanned > 0 && met.loaded > 0);
    bed_close(&bed);
}

static void
one_thread(void **unused)
{
    (void)unused;
    run(1, false, true, true);
    run(1, true, true, false);
    run(1, true, false, true);
    run(1, true, true, true);
}

static void
beside_each_other(void **unused)
{
    (void)unused;
    run(THREADS, false, true, true);
    run(THREADS, true, true, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread),
        cmocka_unit_test(beside_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
