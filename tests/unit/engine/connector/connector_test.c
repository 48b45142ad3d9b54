/* engine/connector/connector.h and engine/connector/forward_hook.h, around the loop of an engine
 * (loop.h). */
#include <stdio.h>

#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/engine/connector/engine_loop.h"

enum { RUNS = 24, REQUESTS = 40 };

static void
report(const struct loop_options *options, const struct loop_result *result)
{
    const struct engine_connector_stats *c = &result->connector;
    const struct engine_leader_stats *l = &result->leader;

    print_message(
        "seed %llu ranks %u%s%s%s%s%s lag %u: %llu iterations, %llu passes, %llu preempted, "
        "%llu aborted; loaded %llu, failed %llu, invalid %llu; saved %llu, known %llu, "
        "failed %llu, spoilt %llu, no room %llu; fences %llu; wrong %llu; hits %llu; found in G2 "
        "%llu, "
        "G3 %llu, objects %llu\n",
        (unsigned long long)options->seed, options->ranks, options->async ? " async" : "",
        options->cache ? " cache" : "", options->tight ? " tight" : "",
        options->objects ? " objects" : "", options->hurried ? " hurried" : "", options->lag,
        (unsigned long long)result->iterations, (unsigned long long)result->passes,
        (unsigned long long)result->preemptions, (unsigned long long)result->aborts,
        (unsigned long long)c->loaded, (unsigned long long)c->load_failed,
        (unsigned long long)result->invalid, (unsigned long long)c->saved,
        (unsigned long long)c->save_known, (unsigned long long)c->save_failed,
        (unsigned long long)c->save_spoilt, (unsigned long long)c->save_no_room,
        (unsigned long long)c->fences, (unsigned long long)result->wrong,
        (unsigned long long)result->hits, (unsigned long long)l->blocks_g2,
        (unsigned long long)l->blocks_g3, (unsigned long long)l->blocks_objects);
}

static void
nothing_goes_wrong_where_nothing_fails(void **unused)
{
    struct loop_options options = {
        .seed = test_seed(), .ranks = 2, .requests = REQUESTS, .cache = true};
    struct loop_result result;

    (void)unused;
    loop_run(&options, &result);
    report(&options, &result);
    assert_int_equal(result.wrong, 0);
    assert_int_equal(result.connector.load_failed, 0);
    assert_int_equal(result.connector.save_failed, 0);
    assert_int_equal(result.connector.save_spoilt, 0);
    assert_true(result.connector.loaded > 0 && result.connector.saved > 0);
}

/* Every combination, with whatever may happen. */
static void
no_gate_breaks_whatever_fails(void **unused)
{
    uint64_t random = test_seed();
    struct loop_result sum = {0};

    (void)unused;
    for (uint32_t run = 0; run < RUNS; run++) {
        const struct loop_options options = {
            .seed = kvt_random_next(&random),
            .ranks = 1 + run % 4,
            .requests = REQUESTS,
            .async = run / 4 % 2 == 1,
            .cache = run / 2 % 2 == 1,
            .tight = run % 7 > 4,
            .objects = run % 5 == 0,
            .hurried = run % 3 > 0,
            .lag = run % 5 / 2,
            .abort_ppm = 20000,
            .preempt_ppm = 100000,
            .faults = {.refuse = 20000, .fail = run % 4 == 3 ? 0 : 4000},
        };
        struct loop_result result;

        loop_run(&options, &result);
        report(&options, &result);
        sum.invalid += result.invalid;
        sum.wrong += result.wrong;
        sum.preemptions += result.preemptions;
        sum.aborts += result.aborts;
        sum.connector.fences += result.connector.fences;
        sum.connector.loaded += result.connector.loaded;
        sum.connector.saved += result.connector.saved;
        sum.connector.save_no_room += result.connector.save_no_room;
        sum.leader.blocks_objects += result.leader.blocks_objects;
        sum.leader.blocks_g3 += result.leader.blocks_g3;
        sum.connector.save_failed += result.connector.save_failed;
        sum.connector.save_spoilt += result.connector.save_spoilt;
    }
    /* It did happen. */
    assert_true(sum.invalid > 0 && sum.wrong > 0 && sum.preemptions > 0 && sum.aborts > 0);
    assert_true(sum.connector.fences > 0 && sum.connector.loaded > 0 && sum.connector.saved > 0);
    assert_true(sum.connector.save_no_room > 0);
    assert_true(sum.leader.blocks_objects > 0 && sum.leader.blocks_g3 > 0);
    assert_true(sum.connector.save_failed > 0 && sum.connector.save_spoilt > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_wrong_where_nothing_fails),
        cmocka_unit_test(no_gate_breaks_whatever_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
