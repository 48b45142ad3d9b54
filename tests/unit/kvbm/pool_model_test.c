/*
 * What is tested: kvbm/pool.h over a long random run against a model that knows, for every name,
 * whether it is registered and how many hold it, and for the pool only its counts.
 * How: every answer is compared; the callbacks keep the model's picture of what the world was told;
 * at the end the run must have met the cases that matter (full, eviction, duplicates, busy
 * holders).
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kvbm/pool.h"

#include "tests/support/seed.h"

enum { BLOCKS = 16, NAMES = 48, HANDLES = 24, STEPS = 200000 / TEST_ALONE_SHARE };

struct held {
    struct kvbm_handle handle;
    uint64_t name; /* 0: not registered, held by this one alone */
    bool duplicate;
};

static struct {
    bool told[NAMES + 1]; /* the world thinks the name is here */
    struct held held[HANDLES];
    size_t held_count;
    uint32_t holders[NAMES + 1]; /* of the listed block of the name */
    unsigned full;
    unsigned evicted;
    unsigned duplicates;
    unsigned busy;
    unsigned discarded;
} model;

static void
on_store(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    assert_false(model.told[label->id.hash]);
    model.told[label->id.hash] = true;
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    assert_true(model.told[label->id.hash]);
    assert_int_equal(model.holders[label->id.hash], 0);
    model.told[label->id.hash] = false;
    model.evicted++;
}

static uint32_t
active_count(void)
{
    uint32_t count = 0;

    for (uint64_t name = 1; name <= NAMES; name++)
        count += model.holders[name] > 0;
    for (size_t i = 0; i < model.held_count; i++)
        count += model.held[i].name == 0 || model.held[i].duplicate;
    return count;
}

static void
add(struct kvbm_handle handle, uint64_t name, bool duplicate)
{
    assert_true(model.held_count < HANDLES);
    model.held[model.held_count++] = (struct held){handle, name, duplicate};
    if (name != 0 && !duplicate)
        model.holders[name]++;
}

static struct held
take_out(size_t at)
{
    const struct held held = model.held[at];

    model.held[at] = model.held[--model.held_count];
    if (held.name != 0 && !held.duplicate)
        model.holders[held.name]--;
    return held;
}

static void
step_make(struct kvbm_pool *pool, uint64_t name, enum kvbm_pool_dedup dedup)
{
    const struct kvbm_label label = {{name, 0, 1}, name};
    const bool known = model.told[name];
    struct kvbm_handle handle;
    bool still_known;
    enum kvt_err rc;

    rc = kvbm_pool_allocate(pool, 1, &handle);
    assert_int_equal(rc, active_count() < BLOCKS ? KVT_OK : KVT_AGAIN);
    if (rc != KVT_OK) {
        model.full++;
        return;
    }
    still_known = known && model.told[name]; /* it may have been the victim */
    assert_int_equal(kvbm_pool_begin(pool, handle, NULL), KVT_OK);
    assert_int_equal(kvbm_pool_complete(pool, handle, &label, NULL), KVT_OK);
    rc = kvbm_pool_register(pool, &handle, NULL);
    if (!still_known) {
        assert_int_equal(rc, KVT_OK);
        add(handle, name, false);
        return;
    }
    model.duplicates++;
    assert_int_equal(rc, dedup == KVBM_POOL_DEDUP_REJECT ? KVT_EXISTS : KVT_OK);
    add(handle, name, dedup == KVBM_POOL_DEDUP_ALLOW);
}

static void
step_give_back(struct kvbm_pool *pool, size_t at, uint64_t how)
{
    const struct held held = take_out(at);

    if (held.name != 0 && !held.duplicate && how == 0) {
        const enum kvt_err rc = kvbm_pool_evict(pool, held.handle);

        assert_int_equal(rc, model.holders[held.name] > 0 ? KVT_BUSY : KVT_OK);
        model.busy += rc == KVT_BUSY;
    } else if (held.name != 0 && !held.duplicate && how == 1 && model.holders[held.name] == 0) {
        kvbm_pool_discard(pool, held.handle);
        model.discarded++;
    } else if (how == 2) {
        kvbm_pool_drop_cold(pool, held.handle);
    } else {
        kvbm_pool_drop(pool, held.handle);
    }
}

static void
compare(struct kvbm_pool *pool)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(pool);
    const uint32_t active = active_count();
    uint32_t registered = 0;

    for (uint64_t name = 1; name <= NAMES; name++)
        registered += model.told[name];
    assert_int_equal(stats.active, active);
    assert_int_equal(stats.registered, registered);
    assert_int_equal(stats.free + stats.inactive, BLOCKS - active);
}

static void
run(enum kvbm_pool_dedup dedup)
{
    uint64_t seed = test_seed();
    struct kvbm_pool *pool;

    memset(&model, 0, sizeof(model));
    assert_int_equal(kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = BLOCKS,
                                                                      .dedup = dedup,
                                                                      .on_store = on_store,
                                                                      .on_remove = on_remove}),
                     KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t name = 1 + kvt_random_below(&seed, NAMES);
        /* In turns it fills up and it empties: by chance alone it is seldom full. */
        const uint64_t what = kvt_random_below(&seed, step / 200 % 2 == 0 ? 4 : 3);
        struct kvbm_handle handle;

        assert_int_equal(kvbm_pool_has(pool, name), model.told[name]);
        if (what == 0 && model.held_count < HANDLES) {
            step_make(pool, name, dedup);
        } else if (what == 1 && model.held_count < HANDLES) {
            const enum kvt_err rc = kvbm_pool_find(pool, name, &handle);

            assert_int_equal(rc, model.told[name] ? KVT_OK : KVT_NOTFOUND);
            if (rc == KVT_OK) {
                assert_int_equal(kvbm_pool_label(pool, handle).id.hash, name);
                add(handle, name, false);
            }
        } else if (model.held_count > 0) {
            step_give_back(pool, kvt_random_below(&seed, model.held_count),
                           kvt_random_below(&seed, 8));
        }
        compare(pool);
    }
    assert_true(model.full > 0);
    assert_true(model.evicted > 0);
    assert_true(model.duplicates > 0);
    assert_true(model.busy > 0);
    assert_true(model.discarded > 0);
    while (model.held_count > 0)
        step_give_back(pool, 0, 7);
    kvbm_pool_free(pool);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
random_against_model_rejecting(void **unused)
{
    (void)unused;
    run(KVBM_POOL_DEDUP_REJECT);
}

static void
random_against_model_allowing(void **unused)
{
    (void)unused;
    run(KVBM_POOL_DEDUP_ALLOW);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model_rejecting),
        cmocka_unit_test(random_against_model_allowing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
