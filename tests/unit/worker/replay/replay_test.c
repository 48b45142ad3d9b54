/*
 * What is tested: worker/replay/: requests through a whole stack of tiers without servers: what is
 * computed is found again in every tier, the local index and the pools agree whatever goes first, a
 * byte changed in memory is noticed, reported and healed, a kept disk tier is there again after a
 * restart, and a trace with bad lines is replayed to its end.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/json.h"

#include "tests/support/seed.h"
#include "tests/support/silent.h"
#include "worker/replay/block_content.h"
#include "worker/replay/replay.h"
#include "worker/replay/request_server.h"
#include "worker/replay/worker_status.h"

enum { G1_BLOCKS = 8, G2_BLOCKS = 16, G3_BLOCKS = 64, BLOCK = 4096, REQUEST = 12 };

struct fixture {
    char folder[256];
    struct worker_settings settings;
    struct worker_shared shared;
    struct kvbm_cost cost;
    struct worker_stack *stack;
    struct worker_request_server *serve;
};

static int
set_up(void **state)
{
    static struct fixture fixture;
    const struct kvt_geometry geometry = {
        .kind = KVT_LAYOUT_CONTIGUOUS,
        .layers = 4,
        .outer = 2,
        .page_size = 16,
        .inner_dim = 16,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = 1,
    };
    struct kvt_error err;

    memset(&fixture, 0, sizeof(fixture));
    (void)test_folder_make(fixture.folder, sizeof(fixture.folder));
    fixture.settings = (struct worker_settings){
        .name = "test",
        .namespace_ = "ns",
        .workers = 1,
        .shards = 1,
        .g1_blocks = G1_BLOCKS,
        .g2_blocks = G2_BLOCKS,
        .g3_blocks = G3_BLOCKS,
        .g3_dir = fixture.folder,
        .gpu = WORKER_GPU_OFF,
        .high_ppm = 900000,
        .low_ppm = 500000,
        .room_wait_ms = 1000,
        .endpoint = "",
        .s3.endpoint = "",
        .acked_log = "",
    };
    assert_int_equal(kvbm_layout_make(&fixture.settings.layout, &geometry, &err), KVT_OK);
    fixture.shared.settings = &fixture.settings;
    assert_int_equal(kvbm_cost_init(&fixture.cost, &(struct kvbm_cost_options){.block_bytes = BLOCK,
                                                                               .block_tokens = 1}),
                     KVT_OK);
    fixture.shared.cost = &fixture.cost; /* nothing is too dear yet */
    assert_int_equal(kvbm_transfer_new(&fixture.shared.transfer, 16, &err), KVT_OK);
    assert_int_equal(worker_stack_open(&fixture.stack, &fixture.shared, 0, &err), KVT_OK);
    assert_int_equal(worker_request_server_new(&fixture.serve, fixture.stack), KVT_OK);
    *state = &fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;

    worker_request_server_free(fixture->serve);
    worker_stack_close(fixture->stack);
    kvbm_transfer_free(fixture->shared.transfer);
    kvbm_cost_release(&fixture->cost);
    test_folder_remove(fixture->folder);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

/* Hashes of conversation `which`: the same every time, different between conversations. */
static void
conversation(uint64_t which, uint64_t *hashes, uint32_t count)
{
    uint64_t state = which;

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = kvt_random_next(&state);
}

static void
serve(struct fixture *fixture, uint64_t which, uint32_t count)
{
    uint64_t hashes[REQUEST];

    conversation(which, hashes, count);
    assert_int_equal(worker_request_server_run(fixture->serve, hashes, count), KVT_OK);
    assert_true(kvbm_manager_drain(fixture->stack->manager, 10000));
}

static uint64_t
hits(const struct worker_counters *counters)
{
    return worker_counter_read(&counters->hits_g1) + worker_counter_read(&counters->hits_g2) +
           worker_counter_read(&counters->hits_g3);
}

static void
computed_blocks_are_found_in_every_tier(void **state)
{
    struct fixture *fixture = *state;
    struct worker_counters *counters = &fixture->stack->counters;

    serve(fixture, 1, REQUEST);
    assert_int_equal(worker_counter_read(&counters->computed), REQUEST);
    assert_int_equal(hits(counters), 0);
    serve(fixture, 1, REQUEST);
    assert_int_equal(worker_counter_read(&counters->computed), REQUEST);
    assert_int_equal(hits(counters), REQUEST);
    assert_true(worker_counter_read(&counters->hits_g2) > 0); /* G1 is smaller than the request */
    for (uint64_t which = 2; which <= 4; which++)             /* push it out of G2 */
        serve(fixture, which, REQUEST);
    serve(fixture, 1, REQUEST);
    assert_true(worker_counter_read(&counters->hits_g3) > 0);
    assert_int_equal(worker_counter_read(&counters->computed), 4 * REQUEST);
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 0);
    assert_int_equal(worker_counter_read(&counters->requests), 6);
    assert_int_equal(worker_counter_read(&counters->blocks), 6 * REQUEST);
    assert_true(worker_counter_read(&counters->verified_blocks) >= UINT64_C(2) * REQUEST);
}

/* Nobody is woken for what lies in G1 already. */
static void
what_lies_in_g1_needs_no_manager(void **state)
{
    struct fixture *fixture = *state;
    struct worker_counters *counters = &fixture->stack->counters;
    struct kvt_onboard_stats onboards;

    serve(fixture, 1, G1_BLOCKS / 2);
    serve(fixture, 1, G1_BLOCKS / 2);
    assert_int_equal(worker_counter_read(&counters->hits_g1), G1_BLOCKS / 2);
    kvbm_manager_onboard_stats(fixture->stack->manager, false, &onboards);
    assert_int_equal(onboards.onboards, 0);
}

/* What computing beats, or what would come too late, is not waited for; what lies in G1 is. */
static void
what_is_not_worth_it_is_computed(void **state)
{
    struct fixture *fixture = *state;
    struct worker_counters *counters = &fixture->stack->counters;
    struct kvbm_cost *cost = &fixture->cost;

    serve(fixture, 1, REQUEST);
    cost->options.prefill_rate = 1e12;
    serve(fixture, 1, REQUEST);
    assert_true(worker_counter_read(&counters->dearer) > 0);
    assert_int_equal(worker_counter_read(&counters->late), 0);
    assert_int_equal(
        worker_counter_read(&counters->hits_g2) + worker_counter_read(&counters->hits_g3), 0);
    assert_int_equal(worker_counter_read(&counters->computed),
                     REQUEST + worker_counter_read(&counters->dearer));
    assert_int_equal(worker_counter_read(&counters->lost_hits), 0);
    assert_int_equal(hits(counters) + worker_counter_read(&counters->computed), 2 * REQUEST);

    /* A device that hangs: an hour for a block. */
    cost->options.prefill_rate = 0;
    fixture->settings.deadline_ms = 1000;
    for (int i = 0; i < 100; i++)
        kvbm_cost_end(cost, KVT_TIER_G2, BLOCK, kvbm_cost_begin(cost, KVT_TIER_G2, BLOCK), 3.6e6,
                      true, kvt_clock_mono_ms());
    serve(fixture, 1, REQUEST);
    assert_true(worker_counter_read(&counters->late) > 0);
    assert_int_equal(
        worker_counter_read(&counters->hits_g2) + worker_counter_read(&counters->hits_g3), 0);

    /* Nothing speaks against it any more. */
    fixture->settings.deadline_ms = 0;
    serve(fixture, 1, REQUEST);
    assert_true(worker_counter_read(&counters->hits_g2) > 0);
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 0);
    assert_int_equal(cost->paths[KVT_TIER_G2].ahead + cost->paths[KVT_TIER_G3].ahead, 0);
}

static uint64_t
registered(const struct worker_stack *stack)
{
    return kvbm_pool_stats(stack->g1.pool).registered + kvbm_pool_stats(stack->g2.pool).registered +
           kvbm_pool_stats(stack->g3.pool).registered;
}

/* A gateway that hangs takes half of one request's time, no other's, and nothing that is here. */
static void
a_silent_gateway_costs_what_is_here_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct worker_settings *settings = &fixture->settings;
    struct worker_counters *counters = &fixture->stack->counters;
    struct worker_object_tier_stats stats;
    uint64_t hashes[REQUEST];
    char url[TEST_SILENT_URL];
    const int fd = test_silent_open(url);
    uint64_t began_ms;

    serve(fixture, 1, REQUEST / 2);
    settings->endpoint = url;
    settings->bucket = "kvtier";
    (void)snprintf(settings->access_key, sizeof(settings->access_key), "access");
    (void)snprintf(settings->secret_key, sizeof(settings->secret_key), "secret");
    settings->retry_ms = 60000;
    settings->deadline_ms = 2000;
    assert_int_equal(worker_object_tier_open(&fixture->shared.remote, settings, NULL), KVT_OK);
    began_ms = kvt_clock_mono_ms();
    conversation(1, hashes, REQUEST);
    assert_int_equal(worker_request_server_run(fixture->serve, hashes, REQUEST), KVT_OK);
    assert_in_range(kvt_clock_mono_ms() - began_ms, settings->deadline_ms / 2, 10000);
    assert_int_equal(hits(counters), REQUEST / 2);
    assert_int_equal(worker_counter_read(&counters->g4_failed), 1);

    conversation(2, hashes, REQUEST);
    began_ms = kvt_clock_mono_ms();
    assert_int_equal(worker_request_server_run(fixture->serve, hashes, REQUEST), KVT_OK);
    worker_object_tier_stats(fixture->shared.remote, &stats);
    assert_true(stats.away);
    assert_int_equal(worker_counter_read(&counters->g4_failed), 2);
    if (kvt_clock_mono_ms() - began_ms < 1000)
        assert_int_equal(stats.failed, 1); /* nobody asked again */

    assert_true(kvbm_manager_drain(fixture->stack->manager, 10000));
    worker_object_tier_close(fixture->shared.remote);
    fixture->shared.remote = NULL;
    (void)close(fd);
}

/* Random conversations that share prefixes; at rest index and pools must tell the same. */
static void
index_and_pools_agree(void **state)
{
    struct fixture *fixture = *state;
    struct worker_ledger *ledger = &fixture->stack->ledger;
    uint64_t seed = test_seed();
    struct index_stats stats;

    for (int i = 0; i < 200; i++) {
        serve(fixture, kvt_random_below(&seed, 12), 1 + (uint32_t)kvt_random_below(&seed, REQUEST));
        index_stats(ledger->index, &stats);
        assert_int_equal(stats.places, registered(fixture->stack));
    }
    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++) {
        struct kvbm_label labels[G3_BLOCKS];
        uint32_t at = 0;
        const size_t count = kvbm_pool_walk(ledger->tiers[i].pool, &at, labels, G3_BLOCKS);

        for (size_t k = 0; k < count; k++) {
            uint8_t mask;

            index_match(ledger->index, ledger->ns, &labels[k].id.hash, 1, &mask);
            assert_true((mask & KVT_TIER_MASK(ledger->tiers[i].tier)) != 0);
        }
    }
    assert_int_equal(worker_counter_read(&fixture->stack->counters.wrong_bytes), 0);
    assert_int_equal(worker_counter_read(&fixture->stack->counters.index_full), 0);
    assert_true(worker_counter_read(&fixture->stack->counters.hits_g3) > 0);
    assert_true(kvbm_pool_stats(fixture->stack->g3.pool).evictions > 0);
}

/* Flip one byte of a block's copy in host memory, as failing memory would. */
static void
flip(struct kvbm_tier *tier, uint64_t hash)
{
    struct kvt_handle handle;
    uint8_t *bytes;

    assert_int_equal(kvbm_pool_find(tier->pool, hash, &handle), KVT_OK);
    bytes = kvbm_storage_address(tier->storage, handle.block);
    bytes[BLOCK - 1] ^= 1;
    kvbm_pool_drop(tier->pool, handle);
}

static void
a_changed_byte_is_noticed_and_healed(void **state)
{
    struct fixture *fixture = *state;
    struct worker_counters *counters = &fixture->stack->counters;
    uint64_t hashes[2];

    conversation(9, hashes, 2);
    serve(fixture, 9, 2);
    flip(&fixture->stack->g1, hashes[1]);
    serve(fixture, 9, 2); /* G1's copy is wrong, G2's is taken */
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 1);
    assert_int_equal(worker_counter_read(&counters->wrong_blocks), 1);
    assert_int_equal(worker_counter_read(&counters->computed), 2);
    assert_int_equal(worker_counter_read(&counters->hits_g2), 1);
    serve(fixture, 9, 2);
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 1);
    assert_int_equal(worker_counter_read(&counters->hits_g1), 3);

    flip(&fixture->stack->g1, hashes[0]);
    flip(&fixture->stack->g2, hashes[0]);
    serve(fixture, 9, 2); /* no right copy left: computed anew, as is all behind it */
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 3);
    assert_int_equal(worker_counter_read(&counters->computed), 4);
    serve(fixture, 9, 2);
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 3);
    assert_int_equal(worker_counter_read(&counters->hits_g1), 5);
}

/* A byte changes in G2 before the block is lowered: the disk's checksum is over the wrong bytes.
 * They are found out on the way up, once, before anybody can find them in G2, and are nowhere
 * afterwards. */
static void
what_the_disk_never_had_right_is_found_out(void **state)
{
    struct fixture *fixture = *state;
    struct worker_stack *stack = fixture->stack;
    struct worker_counters *counters = &stack->counters;
    uint64_t hashes[2];

    conversation(9, hashes, 2);
    serve(fixture, 9, 2);
    flip(&stack->g2, hashes[1]);
    kvbm_manager_make_room(stack->manager, KVT_TIER_G2, G2_BLOCKS, 0);
    assert_true(kvbm_manager_drain(stack->manager, 10000));
    assert_int_equal(kvbm_pool_clear(stack->g1.pool), 2);
    assert_false(kvbm_pool_has(stack->g2.pool, hashes[1]));
    assert_true(kvbm_pool_has(stack->g3.pool, hashes[1]));
    serve(fixture, 9, 2);
    assert_int_equal(worker_counter_read(&counters->wrong_blocks), 1);
    assert_int_equal(worker_counter_read(&counters->wrong_bytes), 1);
    assert_int_equal(worker_counter_read(&counters->hits_g3), 1);
    assert_int_equal(worker_counter_read(&counters->computed), 3);
    assert_int_equal(worker_counter_read(&counters->lost_hits), 1);
    assert_false(kvbm_pool_has(stack->g3.pool, hashes[1]));
    assert_int_equal(kvbm_pool_clear(stack->g1.pool), 2);
    serve(fixture, 9, 2); /* what was computed is right in G2 */
    assert_int_equal(worker_counter_read(&counters->wrong_blocks), 1);
    assert_int_equal(worker_counter_read(&counters->hits_g2), 2);
}

static void
write_trace(struct fixture *fixture, char *path, size_t size, const char *text)
{
    FILE *file;

    (void)snprintf(path, size, "%s/trace.jsonl", fixture->folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void
replay(struct fixture *fixture, struct worker_replay_status *status)
{
    struct worker_replay *replay;
    struct kvt_error err;

    assert_int_equal(worker_replay_start(&replay, &fixture->settings, &fixture->stack, 1, &err),
                     KVT_OK);
    do {
        kvt_clock_sleep_ms(5);
        worker_replay_status(replay, status);
    } while (!status->finished);
    worker_replay_free(replay);
}

static void
bad_lines_are_counted_and_named(void **state)
{
    struct fixture *fixture = *state;
    struct worker_replay_status status;
    char path[300];

    write_trace(fixture, path, sizeof(path),
                "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, "
                "\"hash_ids\": [1, 2]}\n"
                "not a request\n"
                "{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 1, "
                "\"hash_ids\": [1, 2]}\n"
                "{\"timestamp\": 9000, \"input_length\": 600, \"output_length\": 1, "
                "\"hash_ids\": [3, 4]}\n");
    fixture->settings.trace = path;
    replay(fixture, &status);
    assert_int_equal(status.requests_done, 3);
    assert_int_equal(status.requests_total, 3);
    assert_int_equal(status.bad_lines, 1);
    assert_true(status.drained);
    assert_false(status.failed);
    assert_non_null(strstr(status.error, "trace.jsonl:2"));
    assert_int_equal(worker_counter_read(&fixture->stack->counters.hits_g1), 2);
}

static void
shards_and_limits_choose_requests(void **state)
{
    struct fixture *fixture = *state;
    struct worker_replay_status status;
    char path[300];

    write_trace(fixture, path, sizeof(path),
                "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n"
                "{\"timestamp\":1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[2,3]}\n"
                "{\"timestamp\":2,\"input_length\":1,\"output_length\":1,\"hash_ids\":[4]}\n"
                "{\"timestamp\":3,\"input_length\":1,\"output_length\":1,\"hash_ids\":[5,6,7]}\n"
                "{\"timestamp\":99,\"input_length\":1,\"output_length\":1,\"hash_ids\":[8]}\n"
                "{\"timestamp\":99,\"input_length\":1,\"output_length\":1,\"hash_ids\":[9]}\n");
    fixture->settings.trace = path;
    fixture->settings.shard = 1;
    fixture->settings.shards = 2;
    fixture->settings.until_ms = 50;
    replay(fixture, &status);
    assert_int_equal(status.requests_total, 2);
    assert_int_equal(status.requests_done, 2);
    assert_int_equal(worker_counter_read(&fixture->stack->counters.blocks), 5);
}

/* The status is JSON with the members of docs/api.md, and the dump's pages add up to the index. */
static void
status_and_dump_say_what_is_there(void **state)
{
    struct fixture *fixture = *state;
    struct worker_replay_status replayed;
    struct worker_status status = {
        .shared = &fixture->shared, .stacks = &fixture->stack, .stack_count = 1};
    struct index_stats stats;
    struct json_object *root;
    struct json_object *worker;
    struct kvt_buffer text;
    struct kvt_error err;
    uint64_t cursor = 0;
    uint64_t number;
    size_t rows = 0;
    char path[300];

    write_trace(fixture, path, sizeof(path),
                "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1,2,3]}\n");
    fixture->settings.trace = path;
    assert_int_equal(
        worker_replay_start(&status.replay, &fixture->settings, &fixture->stack, 1, &err), KVT_OK);
    do {
        kvt_clock_sleep_ms(5);
        worker_replay_status(status.replay, &replayed);
    } while (!replayed.finished);
    kvt_buffer_init(&text, 1 << 20);
    worker_status_format(&status, &text);
    assert_true(kvt_buffer_ok(&text));
    assert_int_equal(kvt_json_parse(&root, (const char *)text.data, text.size, "status", &err),
                     KVT_OK);
    worker = json_object_array_get_idx(kvt_json_array(root, "workers"), 0);
    assert_string_equal(kvt_json_string(worker, "name"), "test-0");
    assert_true(kvt_json_u64(worker, "computed", &number) && number == 3);
    assert_true(kvt_json_u64(worker, "wrong_bytes", &number) && number == 0);
    assert_true(kvt_json_u64(worker, "offloaded_g2_g3", &number));
    assert_true(kvt_json_u64(worker, "bytes_g3_g4", &number));
    assert_true(kvt_json_u64(kvt_json_member(worker, "events"), "lost", &number));
    assert_int_equal(json_object_array_length(kvt_json_array(worker, "pools")), 3);
    assert_true(kvt_json_u64(kvt_json_member(root, "trace"), "requests_done", &number));
    assert_int_equal(number, 1);
    json_object_put(root);

    index_stats(fixture->stack->ledger.index, &stats);
    assert_int_equal(stats.places, 6); /* three blocks in G1 and in G2 */
    kvt_buffer_clear(&text);
    do
        rows += worker_ledger_dump(&fixture->stack->ledger, &cursor, 2, &text);
    while (cursor != 0);
    assert_int_equal(rows, stats.places);
    kvt_buffer_release(&text);
    worker_replay_free(status.replay);
}

static void
restart(struct fixture *fixture)
{
    struct kvt_error err;

    worker_request_server_free(fixture->serve);
    worker_stack_close(fixture->stack);
    fixture->serve = NULL;
    assert_int_equal(worker_stack_open(&fixture->stack, &fixture->shared, 0, &err), KVT_OK);
    assert_int_equal(worker_request_server_new(&fixture->serve, fixture->stack), KVT_OK);
}

/* Whatever goes first, what is told is what is there, and nothing is wrong. */
static void
every_order_keeps_the_books(void **state)
{
    static const char *const names[] = {"priority", "lineage", "rhi", "s3fifo", "arc"};
    struct fixture *fixture = *state;
    uint64_t seed = test_seed();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct index_stats stats;
        struct kvt_error err;

        assert_int_equal(worker_pool_order_open(&fixture->shared.order, names[i], &err), KVT_OK);
        restart(fixture);
        for (int k = 0; k < 40; k++) {
            serve(fixture, kvt_random_below(&seed, 8),
                  1 + (uint32_t)kvt_random_below(&seed, REQUEST));
            index_stats(fixture->stack->ledger.index, &stats);
            assert_int_equal(stats.places, registered(fixture->stack));
        }
        assert_true(hits(&fixture->stack->counters) > 0);
        assert_true(kvbm_pool_stats(fixture->stack->g3.pool).registered > 0);
        assert_int_equal(worker_counter_read(&fixture->stack->counters.wrong_bytes), 0);
    }
}

/* With g3.keep the blocks of the disk tier are there again, where the index, the pool and requests
 * find them; without it, and under another namespace, they are not. */
static void
a_kept_disk_tier_is_found_again(void **state)
{
    struct fixture *fixture = *state;
    struct kvbm_label labels[G3_BLOCKS];
    uint32_t at = 0;
    size_t count;

    fixture->settings.g3_keep = true;
    restart(fixture);
    for (uint64_t which = 1; which <= 5; which++)
        serve(fixture, which, REQUEST);
    count = kvbm_pool_walk(fixture->stack->g3.pool, &at, labels, G3_BLOCKS);
    assert_true(count > REQUEST);
    restart(fixture);
    assert_true(kvbm_pool_stats(fixture->stack->g3.pool).registered >= count);
    assert_int_equal(kvbm_pool_stats(fixture->stack->g3.pool).active, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(kvbm_pool_has(fixture->stack->g3.pool, labels[i].id.hash));
    serve(fixture, 1, REQUEST);
    assert_int_equal(worker_counter_read(&fixture->stack->counters.hits_g3), REQUEST);
    assert_int_equal(worker_counter_read(&fixture->stack->counters.computed), 0);
    assert_int_equal(worker_counter_read(&fixture->stack->counters.wrong_blocks), 0);
    fixture->settings.salt ^= 1; /* another namespace */
    restart(fixture);
    assert_int_equal(kvbm_pool_stats(fixture->stack->g3.pool).registered, 0);
    fixture->settings.g3_keep = false;
    for (uint64_t which = 1; which <= 5; which++)
        serve(fixture, which, REQUEST);
    restart(fixture);
    assert_int_equal(kvbm_pool_stats(fixture->stack->g3.pool).registered, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(computed_blocks_are_found_in_every_tier, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_in_g1_needs_no_manager, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_worth_it_is_computed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_gateway_costs_what_is_here_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(index_and_pools_agree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_byte_is_noticed_and_healed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_disk_never_had_right_is_found_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bad_lines_are_counted_and_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shards_and_limits_choose_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(status_and_dump_say_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_order_keeps_the_books, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kept_disk_tier_is_found_again, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
