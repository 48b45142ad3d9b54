/*
 * What is tested: gateway/move/mover.h: everything is done once, as many at once as may be, at the
 * rate; while requests come one at a time and half of the time; a context that stops ends it early.
 */
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "gateway/move/mover.h"

#include "tests/unit/gateway/support/support.h"

enum { COUNT = 40, AT_ONCE = 4, ITEM_MS = 25, PATIENCE_MS = 30000 };

struct scene {
    struct test_gateway gateway;
    struct gateway_mover *mover;
    struct gateway_mover_work work;
    _Atomic unsigned done[COUNT];
    _Atomic unsigned begun;
    _Atomic unsigned running;
    _Atomic unsigned most; /* that ran at once */
    uint64_t bytes;        /* each moves */
    unsigned told;         /* calls of `working` */
};

static void
working(void *arg)
{
    ((struct scene *)arg)->told++;
}

static void
enter(struct scene *scene, size_t index)
{
    const unsigned running = atomic_fetch_add(&scene->running, 1) + 1;
    unsigned most = atomic_load(&scene->most);

    while (running > most && !atomic_compare_exchange_weak(&scene->most, &most, running)) {
    }
    atomic_fetch_add(&scene->begun, 1);
    atomic_fetch_add(&scene->done[index], 1);
}

static uint64_t
leave(struct scene *scene)
{
    atomic_fetch_sub(&scene->running, 1);
    return scene->bytes;
}

/* Returns when AT_ONCE have run at once, somewhen. */
static uint64_t
wait_for_others(void *arg, size_t index)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct scene *scene = arg;

    enter(scene, index);
    while (atomic_load(&scene->most) < AT_ONCE && kvt_clock_mono_ms() < end_ms)
        kvt_clock_sleep_ms(1);
    return leave(scene);
}

static uint64_t
at_once(void *arg, size_t index)
{
    enter(arg, index);
    return leave(arg);
}

/* A client asks for something meanwhile. */
static uint64_t
beside_requests(void *arg, size_t index)
{
    struct scene *scene = arg;

    enter(scene, index);
    gateway_stats_add(scene->gateway.context->stats, GATEWAY_STAT_GET, 1);
    kvt_clock_sleep_ms(ITEM_MS);
    return leave(scene);
}

static uint64_t
until_stopped(void *arg, size_t index)
{
    struct scene *scene = arg;

    enter(scene, index);
    if (index == 2)
        atomic_store(&scene->gateway.context->stopping, true);
    return leave(scene);
}

static void
open_scene(struct scene *scene, const struct gateway_mover_options *options,
           uint64_t (*perform)(void *arg, size_t index), size_t count)
{
    struct kvt_error err;

    *scene = (struct scene){0};
    test_gateway_open(&scene->gateway, 1u << 20, 0);
    if (options != NULL)
        assert_int_equal(gateway_mover_new(&scene->mover, scene->gateway.context, options, &err),
                         KVT_OK);
    scene->work = (struct gateway_mover_work){
        .count = count, .perform = perform, .working = working, .arg = scene};
}

static bool
run(struct scene *scene)
{
    return gateway_mover_run(scene->mover, scene->gateway.context, &scene->work);
}

static void
expect_each_once(struct scene *scene, unsigned times)
{
    for (size_t i = 0; i < scene->work.count; i++)
        assert_int_equal(atomic_load(&scene->done[i]), times);
    assert_int_equal(atomic_load(&scene->running), 0);
    assert_true(scene->told > 0);
}

static void
close_scene(struct scene *scene)
{
    gateway_mover_free(scene->mover);
    test_gateway_close(&scene->gateway);
}

static void
everything_is_done_once(void **state)
{
    const struct gateway_mover_options options = {.at_once = AT_ONCE};
    struct scene scene;

    (void)state;
    open_scene(&scene, &options, wait_for_others, COUNT);
    assert_true(run(&scene));
    expect_each_once(&scene, 1);
    assert_int_equal(atomic_load(&scene.most), AT_ONCE);
    assert_true(run(&scene)); /* the next order */
    expect_each_once(&scene, 2);
    close_scene(&scene);
}

static void
without_a_mover_it_is_done_here(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, NULL, at_once, COUNT);
    assert_true(run(&scene));
    expect_each_once(&scene, 1);
    assert_int_equal(atomic_load(&scene.most), 1);
    close_scene(&scene);
}

static void
the_rate_is_kept(void **state)
{
    const struct gateway_mover_options options = {.at_once = AT_ONCE, .rate = 10u << 20};
    const uint64_t from_ms = kvt_clock_mono_ms();
    struct scene scene;

    (void)state;
    open_scene(&scene, &options, at_once, 8);
    scene.bytes = 1u << 20;
    assert_true(run(&scene));
    /* The first ones begin together; the others wait until those are paid for. */
    assert_true(kvt_clock_mono_ms() - from_ms >= (8 - AT_ONCE) * 100);
    expect_each_once(&scene, 1);
    close_scene(&scene);
}

static void
requests_go_first(void **state)
{
    const struct gateway_mover_options options = {.at_once = AT_ONCE};
    uint64_t from_ms;
    struct scene scene;

    (void)state;
    open_scene(&scene, &options, beside_requests, 8);
    gateway_stats_add(scene.gateway.context->stats, GATEWAY_STAT_GET, 1);
    from_ms = kvt_clock_mono_ms();
    assert_true(run(&scene));
    expect_each_once(&scene, 1);
    assert_int_equal(atomic_load(&scene.most), 1);
    assert_true(kvt_clock_mono_ms() - from_ms >= (8 + 7) * ITEM_MS);
    close_scene(&scene);
}

static void
a_stop_is_seen(void **state)
{
    const struct gateway_mover_options options = {.at_once = 1};
    struct scene scene;

    (void)state;
    for (int own = 0; own < 2; own++) {
        open_scene(&scene, own == 1 ? &options : NULL, until_stopped, COUNT);
        assert_false(run(&scene));
        assert_int_equal(atomic_load(&scene.begun), 3);
        close_scene(&scene);
    }
}

static void
every_failing_allocation_is_survived(void **state)
{
    const struct gateway_mover_options options = {.at_once = AT_ONCE};
    struct gateway_mover *mover;
    struct test_gateway gateway;
    struct kvt_error err;

    (void)state;
    test_gateway_open(&gateway, 1u << 20, 0);
    kvt_alloc_fail_after(0);
    assert_int_equal(gateway_mover_new(&mover, gateway.context, &options, &err), KVT_NOMEM);
    assert_null(mover);
    kvt_alloc_fail_after(SIZE_MAX);
    gateway_mover_free(NULL);
    test_gateway_close(&gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_done_once),
        cmocka_unit_test(without_a_mover_it_is_done_here),
        cmocka_unit_test(the_rate_is_kept),
        cmocka_unit_test(requests_go_first),
        cmocka_unit_test(a_stop_is_seen),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
