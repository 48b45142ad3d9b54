/*
 * What is tested: index/memory/epoch.h.
 * How: the edges by hand; then readers that look at a cell which the writer replaces and retires
 * all the time, so that a sanitizer sees what was freed too early.
 */
#include <pthread.h>
#include <sched.h>

#include "base/core/alloc.h"
#include "index/memory/epoch.h"

#include "tests/support/seed.h"

enum { READERS = 4, CHANGES = 20000 };

struct world {
    struct index_memory memory;
    struct index_epoch epoch;
};

static struct world *
world_new(void)
{
    struct world *world = kvt_aligned(64, sizeof(*world));

    assert_non_null(world);
    world->memory = (struct index_memory){.max = 1 << 20};
    index_epoch_init(&world->epoch, &world->memory);
    return world;
}

static void
memory_stays_while_a_reader_may_see_it(void **state)
{
    struct world *world = world_new();
    void *what = index_memory_take(&world->memory, 3, 100);
    unsigned before;
    unsigned after;

    (void)state;
    assert_non_null(what);
    before = index_epoch_enter(&world->epoch);
    index_epoch_retire(&world->epoch, what, 3, 100);
    after = index_epoch_enter(&world->epoch);
    assert_int_not_equal(before, after);
    index_epoch_advance(&world->epoch);
    assert_int_equal(world->memory.used, 300);
    /* One that came before the advance counts as if it had been there. */
    index_epoch_leave(&world->epoch, before);
    index_epoch_advance(&world->epoch);
    assert_int_equal(world->memory.used, 300);
    before = index_epoch_enter(&world->epoch);
    index_epoch_leave(&world->epoch, after);
    index_epoch_advance(&world->epoch);
    assert_int_equal(world->memory.used, 0); /* the newer reader does not keep it */
    index_epoch_leave(&world->epoch, before);
    kvt_free(world);
}

static void
nothing_waits_without_readers(void **state)
{
    struct world *world = world_new();
    const size_t live = kvt_alloc_live();

    (void)state;
    index_epoch_retire(&world->epoch, NULL, 1, 1);
    for (int i = 0; i < 3 * INDEX_EPOCH_RETIRED_MAX; i++) {
        void *what = index_memory_take(&world->memory, 1, 64);

        assert_non_null(what);
        index_epoch_retire(&world->epoch, what, 1, 64);
        assert_true(world->memory.used <= 100 * 64); /* it is looked at now and then */
    }
    index_epoch_release(&world->epoch);
    assert_int_equal(world->memory.used, 0);
    assert_int_equal(kvt_alloc_live(), live);
    kvt_free(world);
}

static void *
leave_soon(void *arg)
{
    struct world *world = arg;

    for (int i = 0; i < 1000; i++)
        (void)sched_yield();
    index_epoch_leave(&world->epoch, 0);
    return NULL;
}

static void
a_full_ring_waits_for_the_reader(void **state)
{
    struct world *world = world_new();
    pthread_t thread;

    (void)state;
    atomic_store(&world->epoch.slots[0].epoch, 1);
    for (int i = 0; i < INDEX_EPOCH_RETIRED_MAX; i++)
        index_epoch_retire(&world->epoch, index_memory_take(&world->memory, 1, 8), 1, 8);
    assert_int_equal(world->memory.used, 8 * INDEX_EPOCH_RETIRED_MAX);
    assert_int_equal(pthread_create(&thread, NULL, leave_soon, world), 0);
    index_epoch_retire(&world->epoch, index_memory_take(&world->memory, 1, 8), 1, 8);
    assert_int_equal(atomic_load(&world->epoch.slots[0].epoch), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    index_epoch_release(&world->epoch);
    assert_int_equal(world->memory.used, 0);
    kvt_free(world);
}

static void
every_slot_can_be_taken(void **state)
{
    struct world *world = world_new();
    bool seen[INDEX_EPOCH_READERS_MAX] = {false};

    (void)state;
    for (int i = 0; i < INDEX_EPOCH_READERS_MAX; i++) {
        const unsigned slot = index_epoch_enter(&world->epoch);

        assert_true(slot < INDEX_EPOCH_READERS_MAX && !seen[slot]);
        seen[slot] = true;
    }
    for (unsigned i = 0; i < INDEX_EPOCH_READERS_MAX; i++)
        index_epoch_leave(&world->epoch, i);
    kvt_free(world);
}

struct cell {
    uint64_t value;
    uint64_t same;
};

struct race {
    struct world *world;
    _Atomic(struct cell *) cell;
    atomic_bool stop;
    atomic_bool wrong;
    _Atomic uint64_t looks;
};

static void *
look(void *arg)
{
    struct race *race = arg;

    while (!atomic_load(&race->stop)) {
        const unsigned slot = index_epoch_enter(&race->world->epoch);
        const struct cell *cell = atomic_load_explicit(&race->cell, memory_order_acquire);

        if (cell->value != cell->same || cell->value == 0)
            atomic_store(&race->wrong, true);
        index_epoch_leave(&race->world->epoch, slot);
        atomic_fetch_add(&race->looks, 1);
    }
    return NULL;
}

static struct cell *
cell_new(struct race *race, uint64_t value)
{
    struct cell *cell = index_memory_take(&race->world->memory, 1, sizeof(*cell));

    assert_non_null(cell);
    *cell = (struct cell){.value = value, .same = value};
    return cell;
}

static void
readers_never_see_freed_memory(void **state)
{
    struct race race = {.world = world_new()};
    pthread_t readers[READERS];

    (void)state;
    atomic_store(&race.cell, cell_new(&race, 1));
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look, &race), 0);
    while (atomic_load(&race.looks) == 0)
        (void)sched_yield();
    for (uint64_t i = 2; i < CHANGES; i++) {
        struct cell *old = atomic_load(&race.cell);

        atomic_store_explicit(&race.cell, cell_new(&race, i), memory_order_release);
        index_epoch_retire(&race.world->epoch, old, 1, sizeof(*old));
    }
    atomic_store(&race.stop, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_false(atomic_load(&race.wrong));
    index_epoch_retire(&race.world->epoch, atomic_load(&race.cell), 1, sizeof(struct cell));
    index_epoch_advance(&race.world->epoch);
    assert_int_equal(race.world->memory.used, 0);
    kvt_free(race.world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_stays_while_a_reader_may_see_it),
        cmocka_unit_test(nothing_waits_without_readers),
        cmocka_unit_test(a_full_ring_waits_for_the_reader),
        cmocka_unit_test(every_slot_can_be_taken),
        cmocka_unit_test(readers_never_see_freed_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
