/*
 * engine/connector/connector.h, call by call.  Ranks are the test's: it reads the orders and says
 * what became of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvtier/token.h"

#include "engine/connector/connector.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/fake_worker.h"

enum { RANKS = 2, BLOCK = 4, G1 = 64, G2 = 32, TOKENS = 40, SETTLE_MS = 10000 };

struct bed {
    struct engine_worker *worker;
    struct kvbm_pool *g2;
    struct engine_leader *leader;
    struct engine_connector *connector;
    uint64_t iteration;
    struct engine_meta meta; /* the last one */
    uint32_t tokens[TOKENS];
    uint32_t blocks[G1]; /* 0, 1, ... */
};

static void
open_bed(struct bed *bed, bool async)
{
    const struct kvt_geometry geometry = {.size = sizeof(geometry),
                                          .kind = KVT_LAYOUT_UNIVERSAL,
                                          .layers = 1,
                                          .outer = 1,
                                          .page_size = BLOCK,
                                          .inner_dim = 8,
                                          .dtype_bytes = 2,
                                          .alignment = 64,
                                          .tp_size = 1,
                                          .heads = 1};
    const struct kvbm_pool_options pool = {.block_count = G2, .dedup = KVT_POOL_DEDUP_REJECT};
    struct fake_options fake = {.blocks = {[KVT_TIER_G1] = G1, [KVT_TIER_G2] = G2}};
    struct engine_leader_options leader = {.instance = 1};
    struct engine_connector_options connector = {.ranks = RANKS,
                                                 .g1_blocks = G1,
                                                 .block_tokens = BLOCK,
                                                 .seed = KVT_TOKEN_SEED,
                                                 .find_ms = 1000,
                                                 .async = async};

    memset(bed, 0, sizeof(*bed));
    assert_int_equal(kvbm_layout_make(&fake.layout, &geometry, NULL), KVT_OK);
    bed->worker = fake_worker_open(&fake);
    assert_int_equal(kvbm_pool_new(&bed->g2, &pool), KVT_OK);
    leader.worker = bed->worker;
    leader.g2 = bed->g2;
    assert_int_equal(engine_leader_open(&bed->leader, &leader, NULL), KVT_OK);
    connector.leader = bed->leader;
    connector.g2 = bed->g2;
    assert_int_equal(engine_connector_open(&bed->connector, &connector, NULL), KVT_OK);
    for (uint32_t i = 0; i < TOKENS; i++)
        bed->tokens[i] = 1000 + i;
    for (uint32_t i = 0; i < G1; i++)
        bed->blocks[i] = i;
}

static struct engine_connector_stats
stats_of(struct bed *bed)
{
    struct engine_connector_stats stats;

    engine_connector_stats(bed->connector, &stats);
    return stats;
}

static void
close_bed(struct bed *bed)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SETTLE_MS;

    engine_meta_release(&bed->meta);
    engine_connector_close(bed->connector);
    while (kvbm_pool_stats(bed->g2).active > 0 && kvt_clock_mono_ms() < until_ms)
        kvt_clock_sleep_ms(1);
    assert_int_equal(kvbm_pool_stats(bed->g2).active, 0);
    engine_leader_close(bed->leader);
    engine_worker_close(bed->worker);
    kvbm_pool_free(bed->g2);
}

/* ---- what a scheduler does ---- */

static struct engine_matched
ask(struct bed *bed, const char *request, size_t count, size_t computed)
{
    struct engine_matched matched;

    assert_int_equal(engine_connector_get_num_new_matched_tokens(
                         bed->connector, request, bed->tokens, count, computed, &matched),
                     KVT_OK);
    return matched;
}

static void
place(struct bed *bed, const char *request, uint32_t first, size_t count, size_t external)
{
    assert_int_equal(engine_connector_update_state_after_alloc(
                         bed->connector, request, bed->blocks + first, count, external),
                     KVT_OK);
}

/* The next meta, with one request in it (NULL: none). */
static void
build(struct bed *bed, const char *request, size_t computed, size_t scheduled)
{
    const struct engine_scheduled one = {
        .request = request, .computed = computed, .scheduled = scheduled};
    struct kvt_buffer out;

    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_connector_build_connector_meta(bed->connector, ++bed->iteration, &one,
                                                           request == NULL ? 0 : 1, &out),
                     KVT_OK);
    engine_meta_release(&bed->meta);
    assert_int_equal(engine_meta_decode(&bed->meta, out.data, out.size, NULL), KVT_OK);
    assert_true(bed->meta.iteration == bed->iteration);
    kvt_buffer_release(&out);
}

/* All of the last meta has ended at a rank; block `failed` of transfer `of` has not gone well. */
static void
say(struct bed *bed, uint32_t rank, uint32_t of, uint32_t failed)
{
    struct engine_meta_report report = {0};
    struct kvt_buffer out;

    for (uint32_t i = 0; i < bed->meta.transfer_count; i++) {
        const struct engine_meta_transfer *transfer = &bed->meta.transfers[i];

        assert_int_equal(engine_meta_report_transfer(&report, transfer->id), KVT_OK);
        if (i == of)
            assert_int_equal(engine_meta_report_failure(&report, failed, KVT_IO), KVT_OK);
        for (uint32_t j = 0; transfer->kind == ENGINE_TRANSFER_SAVE && j < transfer->count; j++)
            fake_worker_write(bed->worker, KVT_TIER_G2, bed->meta.pairs[transfer->first + j].target,
                              1, 0, 0);
    }
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_report_encode(&report, &out), KVT_OK);
    assert_int_equal(engine_connector_report(bed->connector, rank, out.data, out.size, NULL),
                     KVT_OK);
    kvt_buffer_release(&out);
    engine_meta_report_release(&report);
}

static void
all_say_well(struct bed *bed)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        say(bed, rank, UINT32_MAX, 0);
}

/* How long a prefix G2 has. */
static size_t
in_g2(struct bed *bed)
{
    uint64_t hash = 0;
    size_t count = 0;

    for (; count < TOKENS / BLOCK; count++) {
        const uint64_t local =
            kvt_token_block(bed->tokens + count * BLOCK, BLOCK, NULL, 0, KVT_TOKEN_SEED);

        hash = count == 0 ? local : kvt_token_chain(hash, local);
        if (!kvbm_pool_has(bed->g2, hash))
            break;
    }
    return count;
}

/* A request that has been here and left `count` tokens in G2. */
static void
remember(struct bed *bed, size_t count)
{
    assert_int_equal(ask(bed, "first", count, 0).tokens, 0);
    place(bed, "first", 40, count / BLOCK, 0);
    build(bed, "first", 0, count);
    all_say_well(bed);
    assert_false(engine_connector_request_finished(bed->connector, "first"));
    assert_int_equal(in_g2(bed), count / BLOCK);
}

/* ---- the rules ---- */

static void
a_block_is_found_when_every_rank_has_saved_it(void **unused)
{
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    assert_int_equal(ask(&bed, "a", 18, 0).tokens, 0);
    place(&bed, "a", 0, 5, 0);
    build(&bed, "a", 0, 10); /* two full blocks, and a half */
    assert_int_equal(bed.meta.transfer_count, 1);
    assert_int_equal(bed.meta.transfers[0].kind, ENGINE_TRANSFER_SAVE);
    assert_int_equal(bed.meta.pair_count, 2);
    assert_int_equal(bed.meta.pairs[1].source, 1);
    say(&bed, 1, UINT32_MAX, 0);
    say(&bed, 1, UINT32_MAX, 0); /* twice is once */
    assert_int_equal(in_g2(&bed), 0);
    say(&bed, 0, UINT32_MAX, 0);
    assert_int_equal(in_g2(&bed), 2);
    build(&bed, "a", 10, 8);
    assert_int_equal(bed.meta.pair_count, 2); /* blocks 2 and 3; of the last there are two tokens */
    assert_int_equal(bed.meta.pairs[0].source, 2);
    say(&bed, 0, 0, 0); /* one rank could not */
    say(&bed, 1, UINT32_MAX, 0);
    assert_int_equal(in_g2(&bed), 2);
    assert_int_equal(stats_of(&bed).save_failed, 1);
    assert_false(engine_connector_request_finished(bed.connector, "a"));
    assert_int_equal(stats_of(&bed).requests, 0);
    close_bed(&bed);
}

static void
one_token_is_always_left_to_compute(void **unused)
{
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 16);
    assert_int_equal(ask(&bed, "a", 16, 0).tokens, 12);
    assert_int_equal(ask(&bed, "b", 17, 0).tokens, 16);
    assert_int_equal(ask(&bed, "b", 17, 8).tokens, 8); /* asked again, with some of its own */
    assert_int_equal(ask(&bed, "b", 17, 16).tokens, 0);
    assert_int_equal(ask(&bed, "b", 17, 0).tokens, 16);
    assert_int_equal(ask(&bed, "c", 1, 0).tokens, 0);
    close_bed(&bed);
}

static void
what_is_loaded_is_held_until_every_rank_has_it(void **unused)
{
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 16);
    assert_int_equal(ask(&bed, "a", 20, 4).tokens, 12);
    place(&bed, "a", 8, 5, 12);
    assert_int_equal(kvbm_pool_stats(bed.g2).active, 3);
    build(&bed, "a", 16, 4);
    assert_int_equal(bed.meta.transfer_count, 2);
    assert_int_equal(bed.meta.transfers[0].kind, ENGINE_TRANSFER_LOAD);
    assert_int_equal(bed.meta.transfers[0].count, 3);
    assert_int_equal(bed.meta.pairs[0].target, 9); /* behind the one it has */
    assert_int_equal(bed.meta.pairs[2].target, 11);
    say(&bed, 0, UINT32_MAX, 0);
    assert_true(kvbm_pool_stats(bed.g2).active >= 3);
    say(&bed, 1, UINT32_MAX, 0);
    assert_int_equal(in_g2(&bed), 5);
    assert_int_equal(stats_of(&bed).held, 0);
    close_bed(&bed);
}

static void
what_one_rank_could_not_load_is_invalid_and_nothing_on_it_is_kept(void **unused)
{
    uint32_t invalid[4];
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 8);
    assert_int_equal(ask(&bed, "a", 24, 0).tokens, 8);
    place(&bed, "a", 0, 6, 8);
    build(&bed, "a", 8, 8);
    assert_int_equal(bed.meta.transfer_count, 2);
    say(&bed, 0, UINT32_MAX, 0);
    say(&bed, 1, 0, 1);
    assert_int_equal(engine_connector_invalid(bed.connector, invalid, 4), 1);
    assert_int_equal(invalid[0], 1);
    assert_int_equal(engine_connector_invalid(bed.connector, invalid, 4), 0);
    assert_int_equal(in_g2(&bed), 2);
    assert_int_equal(stats_of(&bed).save_spoilt, 2);

    build(&bed, "a", 16, 4); /* it goes on as if nothing had happened: nothing is saved */
    assert_int_equal(bed.meta.transfer_count, 0);
    build(&bed, "a", 4, 16); /* it goes back */
    assert_int_equal(bed.meta.transfer_count, 1);
    assert_int_equal(bed.meta.pair_count, 3);
    assert_int_equal(bed.meta.pairs[0].source, 2);
    all_say_well(&bed);
    assert_int_equal(in_g2(&bed), 5);
    close_bed(&bed);
}

static void
what_was_built_before_a_failure_was_heard_is_not_kept(void **unused)
{
    struct engine_meta first;
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 8);
    assert_int_equal(ask(&bed, "a", 24, 0).tokens, 8);
    place(&bed, "a", 0, 6, 8);
    build(&bed, "a", 8, 4);
    first = bed.meta;
    memset(&bed.meta, 0, sizeof(bed.meta));
    build(&bed, "a", 12, 8); /* the next, before anything was heard */
    {
        const struct engine_meta second = bed.meta;

        bed.meta = first;
        say(&bed, 0, 0, 0);
        say(&bed, 1, UINT32_MAX, 0);
        bed.meta = second;
        all_say_well(&bed);
    }
    engine_meta_release(&first);
    assert_int_equal(in_g2(&bed), 2);
    assert_int_equal(stats_of(&bed).save_spoilt, 3);
    close_bed(&bed);
}

static void
ranks_wait_for_what_preempted_requests_had_under_way(void **unused)
{
    struct bed bed;
    uint64_t id;

    (void)unused;
    open_bed(&bed, false);
    assert_int_equal(ask(&bed, "a", 20, 0).tokens, 0);
    place(&bed, "a", 0, 5, 0);
    build(&bed, "a", 0, 16);
    id = bed.meta.transfers[0].id;
    engine_connector_preempted(bed.connector, "a");
    build(&bed, NULL, 0, 0);
    assert_int_equal(bed.meta.fence_count, 1);
    assert_true(bed.meta.fences[0] == id);
    build(&bed, NULL, 0, 0); /* who has begun the last one has waited */
    assert_int_equal(bed.meta.fence_count, 0);
    close_bed(&bed);
}

static void
blocks_of_what_is_over_wait_for_every_rank(void **unused)
{
    struct engine_finished finished;
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    assert_int_equal(ask(&bed, "a", 20, 0).tokens, 0);
    place(&bed, "a", 0, 5, 0);
    build(&bed, "a", 0, 16);
    assert_true(engine_connector_request_finished(bed.connector, "a"));
    say(&bed, 0, UINT32_MAX, 0);
    assert_false(engine_connector_finished(bed.connector, &finished));
    say(&bed, 1, UINT32_MAX, 0);
    assert_true(engine_connector_finished(bed.connector, &finished));
    assert_string_equal(finished.request, "a");
    assert_true(!finished.loaded && finished.ok);
    assert_false(engine_connector_finished(bed.connector, &finished));
    assert_int_equal(stats_of(&bed).requests, 0);
    assert_int_equal(in_g2(&bed), 4);
    close_bed(&bed);
}

static void
what_comes_between_iterations_is_told_of_when_it_has(void **unused)
{
    struct engine_finished finished;
    struct engine_matched matched;
    struct bed bed;

    (void)unused;
    open_bed(&bed, true);
    remember(&bed, 16);
    matched = ask(&bed, "a", 20, 0);
    assert_true(matched.async && matched.tokens == 16);
    place(&bed, "a", 0, 4, 16);
    build(&bed, NULL, 0, 0); /* it is not in the schedule */
    assert_int_equal(bed.meta.transfer_count, 1);
    assert_int_equal(bed.meta.transfers[0].kind, ENGINE_TRANSFER_FETCH);
    say(&bed, 0, UINT32_MAX, 0);
    assert_false(engine_connector_finished(bed.connector, &finished));
    say(&bed, 1, UINT32_MAX, 0);
    assert_true(engine_connector_finished(bed.connector, &finished));
    assert_true(finished.loaded && finished.ok);
    place(&bed, "a", 0, 5, 0);
    build(&bed, "a", 16, 4);
    assert_int_equal(bed.meta.pair_count, 1);
    assert_int_equal(bed.meta.pairs[0].source, 4);

    assert_int_equal(ask(&bed, "b", 20, 0).tokens, 16); /* and one that is aborted meanwhile */
    place(&bed, "b", 8, 4, 16);
    all_say_well(&bed);
    build(&bed, NULL, 0, 0);
    assert_true(engine_connector_request_finished(bed.connector, "b"));
    say(&bed, 0, 0, 2);
    say(&bed, 1, UINT32_MAX, 0);
    assert_true(engine_connector_finished(bed.connector, &finished));
    assert_true(!finished.loaded && !finished.ok);
    assert_string_equal(finished.request, "b");
    close_bed(&bed);
}

static void
a_rank_that_died_has_failed_at_everything(void **unused)
{
    uint32_t invalid[8];
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 8);
    assert_int_equal(ask(&bed, "a", 24, 0).tokens, 8);
    place(&bed, "a", 0, 6, 8);
    build(&bed, "a", 8, 8);
    say(&bed, 0, UINT32_MAX, 0);
    engine_connector_lost(bed.connector, 1);
    assert_int_equal(engine_connector_invalid(bed.connector, invalid, 8), 2);
    assert_int_equal(stats_of(&bed).transfers, 0);
    assert_int_equal(stats_of(&bed).held, 0);
    assert_int_equal(in_g2(&bed), 2);
    close_bed(&bed);
}

static void
answers_that_are_none_count_for_nothing(void **unused)
{
    struct engine_meta_report report = {0};
    struct kvt_buffer out;
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    assert_int_equal(ask(&bed, "a", 20, 0).tokens, 0);
    place(&bed, "a", 0, 5, 0);
    build(&bed, "a", 0, 16);
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_report_transfer(&report, bed.meta.transfers[0].id), KVT_OK);
    assert_int_equal(engine_meta_report_failure(&report, 4, KVT_IO), KVT_OK); /* it had 0 to 3 */
    assert_int_equal(engine_meta_report_encode(&report, &out), KVT_OK);
    assert_int_equal(engine_connector_report(bed.connector, 0, out.data, out.size, NULL),
                     KVT_INVALID);
    out.data[0] ^= 1;
    assert_int_equal(engine_connector_report(bed.connector, 0, out.data, out.size, NULL),
                     KVT_CORRUPT);
    assert_int_equal(engine_connector_report(bed.connector, RANKS, out.data, out.size, NULL),
                     KVT_INVALID);
    all_say_well(&bed);
    assert_int_equal(in_g2(&bed), 4);
    engine_meta_report_release(&report);
    kvt_buffer_release(&out);
    close_bed(&bed);
}

static void
what_cannot_be_is_refused(void **unused)
{
    struct engine_matched matched;
    struct kvt_buffer out;
    struct bed bed;

    (void)unused;
    open_bed(&bed, false);
    remember(&bed, 16);
    assert_int_equal(engine_connector_get_num_new_matched_tokens(bed.connector, "a", bed.tokens, 20,
                                                                 3, &matched),
                     KVT_INVALID); /* no whole blocks */
    assert_true(matched.known && matched.tokens == 0);
    assert_int_equal(
        engine_connector_update_state_after_alloc(bed.connector, "a", bed.blocks, 5, 4),
        KVT_NOTFOUND);
    assert_int_equal(ask(&bed, "a", 20, 0).tokens, 16);
    assert_int_equal(
        engine_connector_update_state_after_alloc(bed.connector, "a", bed.blocks, 5, 20),
        KVT_INVALID); /* more than was matched */
    assert_int_equal(ask(&bed, "a", 20, 0).tokens, 16);
    assert_int_equal(
        engine_connector_update_state_after_alloc(bed.connector, "a", bed.blocks, 3, 16),
        KVT_INVALID); /* into fewer blocks */
    bed.blocks[4] = G1;
    assert_int_equal(
        engine_connector_update_state_after_alloc(bed.connector, "a", bed.blocks, 5, 0),
        KVT_INVALID);
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(
        engine_connector_build_connector_meta(bed.connector, bed.iteration, NULL, 0, &out),
        KVT_INVALID);
    assert_int_equal(out.size, 0);
    assert_int_equal(stats_of(&bed).held, 0);
    close_bed(&bed);
}

static void
requests_beyond_the_limit_are_computed(void **unused)
{
    struct engine_matched matched;
    struct bed bed;
    char id[16];

    (void)unused;
    open_bed(&bed, false);
    for (uint32_t i = 0; i < ENGINE_REQUESTS_MAX; i++) {
        (void)snprintf(id, sizeof(id), "%u", i);
        assert_int_equal(ask(&bed, id, 1, 0).tokens, 0);
    }
    assert_int_equal(engine_connector_get_num_new_matched_tokens(bed.connector, "one", bed.tokens,
                                                                 8, 0, &matched),
                     KVT_FULL);
    assert_true(matched.known && matched.tokens == 0);
    build(&bed, "one", 0, 8); /* nobody knows it, and it runs */
    assert_int_equal(bed.meta.transfer_count, 0);
    assert_false(engine_connector_request_finished(bed.connector, "one"));
    assert_false(engine_connector_request_finished(bed.connector, "7"));
    assert_int_equal(ask(&bed, "one", 8, 0).tokens, 0);
    close_bed(&bed);
}

/* Every allocation of a meta fails once: nothing is ordered, nothing is lost. */
static void
a_meta_without_memory_orders_nothing(void **unused)
{
    const struct engine_scheduled one = {.request = "a", .computed = 8, .scheduled = 8};
    enum kvt_err rc = KVT_NOMEM;
    size_t failures = 0;

    (void)unused;
    for (size_t n = 0; rc != KVT_OK; n++) {
        uint32_t invalid[8];
        struct kvt_buffer out;
        struct bed bed;

        assert_true(n < 100);
        open_bed(&bed, false);
        remember(&bed, 8);
        assert_int_equal(ask(&bed, "a", 24, 0).tokens, 8);
        place(&bed, "a", 0, 6, 8);
        kvt_buffer_init(&out, ENGINE_META_MAX);
        kvt_alloc_fail_after(n);
        rc = engine_connector_build_connector_meta(bed.connector, ++bed.iteration, &one, 1, &out);
        kvt_alloc_fail_after(SIZE_MAX);
        if (rc != KVT_OK) {
            size_t lost;

            failures++;
            assert_int_equal(rc, KVT_NOMEM);
            assert_int_equal(out.size, 0);
            assert_int_equal(stats_of(&bed).transfers, 0);
            lost = engine_connector_invalid(bed.connector, invalid, 8);
            build(&bed, "a", lost > 0 ? 0 : 8, 8);
            assert_true(lost == 2 || bed.meta.transfers[0].kind == ENGINE_TRANSFER_LOAD);
            all_say_well(&bed);
            assert_int_equal(in_g2(&bed), lost > 0 ? 2 : 4);
        }
        kvt_buffer_release(&out);
        close_bed(&bed);
    }
    assert_true(failures > 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_found_when_every_rank_has_saved_it),
        cmocka_unit_test(one_token_is_always_left_to_compute),
        cmocka_unit_test(what_is_loaded_is_held_until_every_rank_has_it),
        cmocka_unit_test(what_one_rank_could_not_load_is_invalid_and_nothing_on_it_is_kept),
        cmocka_unit_test(what_was_built_before_a_failure_was_heard_is_not_kept),
        cmocka_unit_test(ranks_wait_for_what_preempted_requests_had_under_way),
        cmocka_unit_test(blocks_of_what_is_over_wait_for_every_rank),
        cmocka_unit_test(what_comes_between_iterations_is_told_of_when_it_has),
        cmocka_unit_test(a_rank_that_died_has_failed_at_everything),
        cmocka_unit_test(answers_that_are_none_count_for_nothing),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(requests_beyond_the_limit_are_computed),
        cmocka_unit_test(a_meta_without_memory_orders_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
