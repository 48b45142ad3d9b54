/* engine/connector/forward_hook.h, call by call, on a worker in memory whose jobs end when the
 * test says so. */
#include <string.h>

#include "base/core/alloc.h"

#include "engine/connector/connector_meta.h"
#include "engine/connector/forward_hook.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker.h"
#include "tests/unit/engine/support/rank_bed.h"

enum { LAYERS = 4, BLOCKS = 700, NONE = 0 };

struct bed {
    struct engine_worker *worker;
    struct engine_hook *hook;
};

static void
open_bed(struct bed *bed, enum fake_ending ending, uint32_t delay_us)
{
    const struct kvt_geometry geometry = {.size = sizeof(geometry),
                                          .kind = KVT_LAYOUT_UNIVERSAL,
                                          .layers = LAYERS,
                                          .outer = 1,
                                          .page_size = 1,
                                          .inner_dim = 8,
                                          .dtype_bytes = 2,
                                          .alignment = 64,
                                          .tp_size = 1,
                                          .heads = 1};
    struct fake_options fake = {.blocks = {[KVT_TIER_G1] = BLOCKS, [KVT_TIER_G2] = BLOCKS},
                                .ending = ending,
                                .delay_us = delay_us,
                                .seed = test_seed()};

    assert_int_equal(kvbm_layout_make(&fake.layout, &geometry, NULL), KVT_OK);
    bed->worker = fake_worker_open(&fake);
    assert_non_null(bed->worker);
    assert_int_equal(engine_hook_open(&bed->hook, bed->worker, NULL), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        fake_worker_write(bed->worker, KVT_TIER_G1, i, 1000 + i, 0, 0);
        fake_worker_write(bed->worker, KVT_TIER_G2, i, 2000 + i, 0, 0);
    }
}

static void
close_bed(struct bed *bed)
{
    engine_hook_close(bed->hook);
    engine_worker_close(bed->worker);
}

/* An iteration's orders: `loads` blocks from G2's 0 on into G1's 100 on, `saves` of G1's 0 on into
 * G2's 100 on. */
struct orders {
    uint64_t iteration, load, save, fetch, fence; /* ids; NONE */
    uint32_t loads, saves, fetches;
};

static void
put(struct engine_meta *meta, uint64_t id, enum engine_transfer kind, uint32_t source,
    uint32_t target, uint32_t count)
{
    if (count == 0)
        return;
    assert_int_equal(engine_meta_transfer(meta, id, kind), KVT_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(engine_meta_pair(meta, source + i, target + i), KVT_OK);
}

static enum kvt_err
begin(struct bed *bed, const struct orders *orders)
{
    struct engine_meta meta = {.iteration = orders->iteration};
    struct kvt_buffer out;
    enum kvt_err rc;

    if (orders->fence != NONE)
        assert_int_equal(engine_meta_fence(&meta, orders->fence), KVT_OK);
    put(&meta, orders->load, ENGINE_TRANSFER_LOAD, 0, 100, orders->loads);
    put(&meta, orders->fetch, ENGINE_TRANSFER_FETCH, 0, 60, orders->fetches);
    put(&meta, orders->save, ENGINE_TRANSFER_SAVE, 0, 100, orders->saves);
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_encode(&meta, &out), KVT_OK);
    rc = engine_hook_begin(bed->hook, out.data, out.size, NULL);
    kvt_buffer_release(&out);
    engine_meta_release(&meta);
    return rc;
}

/* What has ended; asserts that all that failed did for `why`. */
static struct engine_meta_report
report(struct bed *bed, enum kvt_err why)
{
    struct engine_meta_report back;
    struct kvt_buffer out;

    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_hook_report(bed->hook, &out), KVT_OK);
    assert_int_equal(engine_meta_report_decode(&back, out.data, out.size, NULL), KVT_OK);
    for (size_t i = 0; i < back.failure_count; i++)
        assert_int_equal(back.failures[i].why, why);
    kvt_buffer_release(&out);
    return back;
}

/* `transfers` have ended, with so many failures among them. */
static void
hear(struct bed *bed, size_t transfers, size_t failures, enum kvt_err why)
{
    struct engine_meta_report back = report(bed, why);

    assert_int_equal(back.transfer_count, transfers);
    assert_int_equal(back.failure_count, failures);
    engine_meta_report_release(&back);
}

static void
layers_are_loaded_in_their_order_two_at_once(void **unused)
{
    const struct orders orders = {.iteration = 1, .load = 1, .loads = 3};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_WHEN_TOLD, 0);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    assert_int_equal(fake_worker_waiting(bed.worker), 0);
    engine_hook_start_load(bed.hook);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        assert_int_equal(fake_worker_waiting(bed.worker), layer + 1 < LAYERS ? 2 : 1);
        assert_true(fake_worker_step(bed.worker));
        /* While this one is computed, the next is under way. */
        assert_int_equal(engine_hook_wait_for_layer_load(bed.hook, layer, UINT64_MAX), KVT_OK);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_true(fake_worker_is(bed.worker, KVT_TIER_G1, 100 + i, 2000 + i));
    assert_int_equal(engine_hook_wait_for_save(bed.hook, 0), KVT_OK);
    hear(&bed, 1, 0, KVT_OK);
    hear(&bed, 0, 0, KVT_OK);
    close_bed(&bed);
}

static void
a_layer_is_saved_when_it_was_computed(void **unused)
{
    const struct orders orders = {.iteration = 1, .save = 1, .saves = 3};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_WHEN_TOLD, 0);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    engine_hook_start_load(bed.hook);
    assert_int_equal(fake_worker_waiting(bed.worker), 0);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        assert_int_equal(engine_hook_wait_for_layer_load(bed.hook, layer, 0), KVT_OK);
        engine_hook_save_layer(bed.hook, layer);
        assert_int_equal(fake_worker_waiting(bed.worker), 1);
        assert_true(fake_worker_step(bed.worker));
    }
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(fake_worker_is(bed.worker, KVT_TIER_G2, 100 + i, 1000 + i));
    hear(&bed, 1, 0, KVT_OK);
    close_bed(&bed);
}

static void
run_layers(struct bed *bed)
{
    engine_hook_start_load(bed->hook);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        (void)engine_hook_wait_for_layer_load(bed->hook, layer, UINT64_MAX);
        engine_hook_save_layer(bed->hook, layer);
    }
}

static void
more_blocks_than_a_job_may_have_go_in_several(void **unused)
{
    const struct orders orders = {.iteration = 1, .load = 1, .loads = 100, .save = 2, .saves = 600};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_AT_ONCE, 0);
    for (uint32_t i = 0; i < 600; i++) /* what is loaded and saved has nothing in common */
        fake_worker_write(bed.worker, KVT_TIER_G1, i, 1000 + i, 0, 0);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        engine_hook_save_layer(bed.hook, layer);
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    assert_true(fake_worker_jobs(bed.worker, ENGINE_COPY) == 2 * LAYERS);
    for (uint32_t i = 0; i < 600; i++)
        assert_true(fake_worker_is(bed.worker, KVT_TIER_G2, 100 + i, 1000 + i));
    hear(&bed, 2, 100, KVT_PRECONDITION); /* the load was never started */
    close_bed(&bed);
}

static void
what_fails_is_told_with_its_blocks(void **unused)
{
    const struct orders orders = {.iteration = 1, .load = 1, .loads = 3};
    uint32_t errors[8];
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_AT_ONCE, 0);
    fake_worker_fail(bed.worker, ENGINE_COPY, 2, KVT_IO); /* layer 1 */
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    engine_hook_start_load(bed.hook);
    assert_int_equal(engine_hook_wait_for_layer_load(bed.hook, 1, UINT64_MAX), KVT_IO);
    assert_int_equal(engine_hook_wait_for_layer_load(bed.hook, 3, UINT64_MAX), KVT_IO);
    assert_true(fake_worker_jobs(bed.worker, ENGINE_COPY) == 3); /* layer 2 was begun by then */
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    hear(&bed, 1, 3, KVT_IO);
    assert_int_equal(engine_hook_load_errors(bed.hook, errors, 8), 3);
    assert_true(errors[0] >= 100 && errors[0] < 103 && errors[0] != errors[1]);
    assert_int_equal(engine_hook_load_errors(bed.hook, errors, 8), 0);
    hear(&bed, 0, 0, KVT_OK);
    close_bed(&bed);
}

static void
who_waits_no_longer_finds_nothing_written(void **unused)
{
    const struct orders orders = {.iteration = 1, .load = 1, .loads = 3};
    enum kvt_err rc;
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_LATER, 100000);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    engine_hook_start_load(bed.hook);
    rc = engine_hook_wait_for_layer_load(bed.hook, LAYERS - 1, 0);
    assert_int_equal(fake_worker_waiting(bed.worker), 0);
    for (uint32_t i = 0; i < 3; i++) /* the engine may compute them at once: the fake asserts it */
        fake_worker_write(bed.worker, KVT_TIER_G1, 100 + i, 7, 0, 0);
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    hear(&bed, 1, rc == KVT_OK ? 0 : 3, KVT_TIMEOUT); /* all came: the machine is busy */
    close_bed(&bed);
}

static void
an_iteration_waits_for_its_fences_only(void **unused)
{
    const struct orders first = {.iteration = 1, .save = 1, .saves = 3};
    const struct orders second = {.iteration = 2};
    const struct orders third = {.iteration = 3, .fence = 1};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_LATER, 200000);
    assert_int_equal(begin(&bed, &first), KVT_OK);
    run_layers(&bed);
    (void)engine_hook_wait_for_save(bed.hook, 0);
    assert_int_equal(begin(&bed, &second), KVT_OK);
    assert_int_equal(begin(&bed, &third), KVT_OK);
    assert_int_equal(fake_worker_waiting(bed.worker), 0);
    hear(&bed, 1, 0, KVT_OK);
    close_bed(&bed);
}

static void
saves_of_some_iterations_go_on_together(void **unused)
{
    struct engine_meta_report back;
    size_t ended = 0;
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_LATER, 3000);
    for (uint64_t i = 1; i <= 3 * ENGINE_HOOK_ITERATIONS; i++) {
        struct engine_meta meta = {.iteration = i};
        struct kvt_buffer out;

        put(&meta, i, ENGINE_TRANSFER_SAVE, (uint32_t)i, 100 + (uint32_t)i, 1);
        kvt_buffer_init(&out, ENGINE_META_MAX);
        assert_int_equal(engine_meta_encode(&meta, &out), KVT_OK);
        assert_int_equal(engine_hook_begin(bed.hook, out.data, out.size, NULL), KVT_OK);
        kvt_buffer_release(&out);
        engine_meta_release(&meta);
        run_layers(&bed);
        (void)engine_hook_wait_for_save(bed.hook, 0);
    }
    (void)engine_hook_wait_for_save(bed.hook, UINT64_MAX);
    while (ended < 3 * ENGINE_HOOK_ITERATIONS) { /* nobody had asked until now: nothing is lost */
        back = report(&bed, KVT_OK);
        for (size_t i = 0; i < back.transfer_count; i++)
            assert_true(back.transfers[i].id == ended + i + 1);
        ended += back.transfer_count;
        engine_meta_report_release(&back);
    }
    for (uint32_t i = 1; i <= 3 * ENGINE_HOOK_ITERATIONS; i++)
        assert_true(fake_worker_is(bed.worker, KVT_TIER_G2, 100 + i, 1000 + i));
    close_bed(&bed);
}

static void
what_comes_between_iterations_holds_none_up(void **unused)
{
    const struct orders first = {.iteration = 1, .fetch = 1, .fetches = 5};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_WHEN_TOLD, 0);
    assert_int_equal(begin(&bed, &first), KVT_OK);
    run_layers(&bed);
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    hear(&bed, 0, 0, KVT_OK);
    for (uint64_t i = 2; i < 10; i++) {
        const struct orders next = {.iteration = i};

        assert_int_equal(begin(&bed, &next), KVT_OK);
        engine_hook_start_load(bed.hook);
        hear(&bed, 0, 0, KVT_OK);
    }
    assert_int_equal(fake_worker_waiting(bed.worker), 1); /* all layers are one job */
    assert_true(fake_worker_step(bed.worker));
    hear(&bed, 1, 0, KVT_OK);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(fake_worker_is(bed.worker, KVT_TIER_G1, 60 + i, 2000 + i));
    close_bed(&bed);
}

static void
layers_that_were_not_computed_are_not_saved(void **unused)
{
    const struct orders orders = {.iteration = 1, .save = 1, .saves = 3};
    const struct orders next = {.iteration = 2};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_AT_ONCE, 0);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    engine_hook_start_load(bed.hook);
    engine_hook_save_layer(bed.hook, 0);
    engine_hook_save_layer(bed.hook, 1);
    assert_int_equal(begin(&bed, &next), KVT_OK); /* the pass was given up */
    hear(&bed, 1, 3, KVT_PRECONDITION);
    close_bed(&bed);
}

static void
a_worker_that_is_full_is_asked_again(void **unused)
{
    const struct orders orders = {.iteration = 1, .load = 1, .loads = 3, .save = 2, .saves = 3};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_LATER, 500);
    fake_worker_faults(bed.worker, &(struct fake_faults){.refuse = 700000});
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    run_layers(&bed);
    assert_int_equal(engine_hook_wait_for_save(bed.hook, UINT64_MAX), KVT_OK);
    hear(&bed, 2, 0, KVT_OK);
    close_bed(&bed);
}

static void
orders_that_cannot_be_are_refused(void **unused)
{
    const struct orders orders = {.iteration = 5};
    const struct orders beyond = {.iteration = 6, .load = 1, .loads = BLOCKS - 100 + 1};
    const uint8_t rubbish[] = "rubbish";
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_AT_ONCE, 0);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    assert_int_equal(begin(&bed, &orders), KVT_PRECONDITION);
    assert_int_equal(begin(&bed, &beyond), KVT_INVALID);
    assert_int_equal(engine_hook_begin(bed.hook, rubbish, sizeof(rubbish), NULL), KVT_CORRUPT);
    assert_int_equal(engine_hook_begin(bed.hook, rubbish, 0, NULL), KVT_INVALID);
    assert_true(fake_worker_jobs(bed.worker, ENGINE_COPY) == 0);
    close_bed(&bed);
}

static void
what_goes_on_is_waited_for_at_the_end(void **unused)
{
    const struct orders orders = {
        .iteration = 1, .load = 1, .loads = 3, .fetch = 2, .fetches = 4, .save = 3, .saves = 3};
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_LATER, 5000);
    assert_int_equal(begin(&bed, &orders), KVT_OK);
    engine_hook_start_load(bed.hook);
    engine_hook_save_layer(bed.hook, 0);
    close_bed(&bed); /* the fake asserts that no job goes on */
}

/* Orders for pair `block` to `block` of each kind, and the layers of a pass around them: what it
 * computes has the content `number`, layer by layer. */
static void
run_real(struct engine_hook *hook, struct rank_bed *rank, struct engine_meta *meta, uint64_t number)
{
    const struct kvbm_layout *layout = &rank->options.layout;
    struct kvbm_storage *g1 = rank->options.tiers[KVT_TIER_G1].storage;
    struct kvt_buffer out;

    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_encode(meta, &out), KVT_OK);
    assert_int_equal(engine_hook_begin(hook, out.data, out.size, NULL), KVT_OK);
    engine_hook_start_load(hook);
    for (uint32_t layer = 0; layer < layout->geometry.layers; layer++) {
        assert_int_equal(engine_hook_wait_for_layer_load(hook, layer, UINT64_MAX), KVT_OK);
        for (size_t i = 0; i < meta->pair_count; i++) {
            if (meta->transfers[0].kind == ENGINE_TRANSFER_SAVE)
                content_fill_layers(layout, kvbm_storage_address(g1, meta->pairs[i].source),
                                    number + i, layer, 1);
            else
                assert_true(content_is_layers(
                    layout, kvbm_storage_address(g1, meta->pairs[i].target), number + i, layer, 1));
        }
        engine_hook_save_layer(hook, layer);
    }
    assert_int_equal(engine_hook_wait_for_save(hook, UINT64_MAX), KVT_OK);
    kvt_buffer_release(&out);
    engine_meta_release(meta);
}

static void
a_real_rank_gives_back_what_it_saved(void **unused)
{
    const struct kvbm_layout layout = rank_bed_layout(2, 1);
    struct engine_meta meta = {.iteration = 1};
    struct engine_hook *hook;
    struct rank_bed rank;

    (void)unused;
    assert_int_equal(rank_bed_open(&rank, &layout, NULL, NULL), KVT_OK);
    assert_int_equal(engine_hook_open(&hook, rank.worker, NULL), KVT_OK);
    put(&meta, 1, ENGINE_TRANSFER_SAVE, 2, 9, 5);
    run_real(hook, &rank, &meta, 70);
    meta.iteration = 2;
    put(&meta, 2, ENGINE_TRANSFER_LOAD, 9, 8, 5); /* into other blocks */
    run_real(hook, &rank, &meta, 70);
    engine_hook_close(hook);
    rank_bed_close(&rank);
}

static bool
begin_once(void *arg)
{
    struct bed *bed = arg;
    struct engine_meta meta = {.iteration = 1};
    struct engine_hook *hook = NULL;
    struct kvt_buffer out;
    enum kvt_err rc;

    kvt_buffer_init(&out, ENGINE_META_MAX);
    rc = engine_meta_transfer(&meta, 1, ENGINE_TRANSFER_LOAD);
    if (rc == KVT_OK)
        rc = engine_meta_pair(&meta, 0, 100);
    if (rc == KVT_OK)
        rc = engine_meta_transfer(&meta, 2, ENGINE_TRANSFER_FETCH);
    if (rc == KVT_OK)
        rc = engine_meta_pair(&meta, 1, 101);
    if (rc == KVT_OK)
        rc = engine_meta_encode(&meta, &out);
    engine_meta_release(&meta);
    if (rc == KVT_OK)
        rc = engine_hook_open(&hook, bed->worker, NULL);
    if (rc == KVT_OK)
        rc = engine_hook_begin(hook, out.data, out.size, NULL);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    engine_hook_close(hook);
    kvt_buffer_release(&out);
    return rc == KVT_OK;
}

static void
every_allocation_of_a_beginning_may_fail(void **unused)
{
    struct bed bed;

    (void)unused;
    open_bed(&bed, FAKE_AT_ONCE, 0);
    assert_true(test_sweep_allocations(begin_once, &bed) > 10);
    close_bed(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_loaded_in_their_order_two_at_once),
        cmocka_unit_test(a_layer_is_saved_when_it_was_computed),
        cmocka_unit_test(more_blocks_than_a_job_may_have_go_in_several),
        cmocka_unit_test(what_fails_is_told_with_its_blocks),
        cmocka_unit_test(who_waits_no_longer_finds_nothing_written),
        cmocka_unit_test(an_iteration_waits_for_its_fences_only),
        cmocka_unit_test(saves_of_some_iterations_go_on_together),
        cmocka_unit_test(what_comes_between_iterations_holds_none_up),
        cmocka_unit_test(layers_that_were_not_computed_are_not_saved),
        cmocka_unit_test(a_worker_that_is_full_is_asked_again),
        cmocka_unit_test(orders_that_cannot_be_are_refused),
        cmocka_unit_test(what_goes_on_is_waited_for_at_the_end),
        cmocka_unit_test(a_real_rank_gives_back_what_it_saved),
        cmocka_unit_test(every_allocation_of_a_beginning_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
