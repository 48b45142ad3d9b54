/*
 * What is tested: the advisor as a process, with a real nats-server and real publishers.
 * How: whatever happened, in the end its index must be exactly what the publishers say they hold.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "base/text/json.h"
#include "wire/message/query.h"
#include "wire/message/report_codec.h"
#include "wire/message/signature.h"
#include "wire/message/signed_order.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"
#include "wire/nats/stream.h"

#include "tests/support/nats_server.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/advisor_program.h"
#include "tests/unit/advisor/support/test_worker.h"

enum { DEADLINE_MS = 30000 };

struct scene {
    struct test_nats nats;
    struct test_advisor advisor;
    struct test_worker workers[2];
    struct test_worker *all[2];
    uint64_t random;
};

static void
begin(struct scene *scene, bool second_is_gateway)
{
    memset(scene, 0, sizeof(*scene));
    scene->random = test_seed();
    test_nats_start(&scene->nats);
    test_advisor_init(&scene->advisor, scene->nats.url);
    test_worker_init(&scene->workers[0], scene->nats.url, "worker.0", false);
    test_worker_init(&scene->workers[1], scene->nats.url,
                     second_is_gateway ? "gateway:gw0" : "worker.1", second_is_gateway);
    for (size_t i = 0; i < 2; i++)
        scene->all[i] = &scene->workers[i];
}

static void
end(struct scene *scene)
{
    for (size_t i = 0; i < 2; i++)
        test_worker_release(&scene->workers[i]);
    test_advisor_stop(&scene->advisor);
    test_nats_stop(&scene->nats);
}

static void
churn(struct scene *scene, size_t count)
{
    for (size_t i = 0; i < 2; i++)
        test_worker_churn(&scene->workers[i], &scene->random, count);
}

/* Events become the index; a history that was there before the advisor is read too. */
static void
events_become_the_index(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, false);
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 3000);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_int_equal(test_advisor_number(&scene.advisor, "events", "gaps"), 0);
    assert_int_equal(test_advisor_number(&scene.advisor, "events", "resyncs"), 0);
    test_advisor_end(&scene.advisor);
    churn(&scene, 1000);
    test_advisor_start(&scene.advisor);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_int_equal(test_advisor_number(&scene.advisor, "events", "gaps"), 0);
    end(&scene);
}

/* Killed again and again while events come: the index is that of one that was never killed. */
static void
kill_at_any_moment(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, true);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    for (int round = 0; round < 12; round++) {
        test_advisor_start(&scene.advisor);
        for (uint64_t part = kvt_random_below(&scene.random, 12); part > 0; part--) {
            churn(&scene, 100);
            kvt_clock_sleep_ms(kvt_random_below(&scene.random, 15));
        }
        test_advisor_kill(&scene.advisor);
    }
    test_advisor_start(&scene.advisor);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_int_equal(test_advisor_number(&scene.advisor, "events", "gaps"), 0);
    end(&scene);
}

/* NATS away at the start: a clear state, and work when it comes. */
static void
start_before_nats(const char *transport, enum wire_event_publisher_mode mode)
{
    struct json_object *json;
    struct scene scene;
    unsigned status;

    begin(&scene, false);
    scene.advisor.more[0] = "--events-transport";
    scene.advisor.more[1] = transport;
    scene.workers[0].mode = mode;
    scene.workers[1].mode = mode;
    test_nats_kill(&scene.nats);
    test_advisor_start(&scene.advisor);
    json_object_put(test_advisor_ask(&scene.advisor, "/readyz", NULL, &status));
    assert_int_equal(status, 503);
    json = test_advisor_ask(&scene.advisor, "/v1/status", NULL, &status);
    assert_int_equal(status, 200);
    assert_string_not_equal(kvt_json_string(json, "state"), "ready");
    assert_non_null(strstr(json_object_to_json_string(kvt_json_array(json, "reasons")), "nats"));
    json_object_put(json);
    test_nats_restart(&scene.nats);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 500);
    test_advisor_ready(&scene.advisor);
    test_worker_wait(&scene.advisor, scene.all, 2);
    end(&scene);
}

static void
nats_comes_later(void **state)
{
    (void)state;
    start_before_nats("jetstream", WIRE_EVENT_PUBLISHER_JETSTREAM);
    start_before_nats("core", WIRE_EVENT_PUBLISHER_CORE);
}

/* The stream is lost with all it held: the publishers are asked. */
static void
stream_is_lost(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, true);
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 2000);
    test_worker_wait(&scene.advisor, scene.all, 2);
    test_advisor_kill(&scene.advisor);
    churn(&scene, 2000);
    test_worker_flush(&scene.workers[0]);
    test_worker_flush(&scene.workers[1]);
    test_nats_kill(&scene.nats);
    test_nats_forget(&scene.nats);
    test_nats_restart(&scene.nats);
    test_advisor_start(&scene.advisor);
    churn(&scene, 200);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_true(test_advisor_number(&scene.advisor, "events", "resyncs") > 0);
    end(&scene);
}

/* Plain messages: what was said while the advisor was away is asked for. */
static void
core_messages(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, true);
    scene.advisor.more[0] = "--events-transport";
    scene.advisor.more[1] = "core";
    scene.workers[0].mode = WIRE_EVENT_PUBLISHER_CORE;
    scene.workers[1].mode = WIRE_EVENT_PUBLISHER_CORE;
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 3000);
    test_advisor_start(&scene.advisor);
    test_worker_wait(&scene.advisor, scene.all, 2);
    test_advisor_kill(&scene.advisor);
    churn(&scene, 2000);
    test_advisor_start(&scene.advisor);
    churn(&scene, 1000);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_true(test_advisor_number(&scene.advisor, "events", "resyncs") > 0);
    end(&scene);
}

/* A worker that leaves, vanishes or lives anew takes its blocks with it; a gateway's stay. */
static void
workers_leave(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, true);
    scene.advisor.more[0] = "--publishers-silent-after=1s";
    scene.advisor.more[1] = "--publishers-gone-after=2s";
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 1000);
    test_worker_wait(&scene.advisor, scene.all, 2);

    /* A new life without the blocks of the old one. */
    test_worker_close(&scene.workers[0], false);
    memset(scene.workers[0].held, 0, sizeof(scene.workers[0].held));
    kvt_clock_sleep_ms(5); /* a later incarnation */
    test_worker_open(&scene.workers[0]);
    churn(&scene, 300);
    test_worker_wait(&scene.advisor, scene.all, 2);

    test_worker_close(&scene.workers[0], true);
    memset(scene.workers[0].held, 0, sizeof(scene.workers[0].held));
    test_worker_wait(&scene.advisor, scene.all, 2);

    /* Vanished, both: the worker's blocks go, the gateway's are in its volumes still. */
    kvt_clock_sleep_ms(5);
    test_worker_open(&scene.workers[0]);
    churn(&scene, 300);
    test_worker_wait(&scene.advisor, scene.all, 2);
    test_worker_close(&scene.workers[0], false);
    test_worker_close(&scene.workers[1], false);
    memset(scene.workers[0].held, 0, sizeof(scene.workers[0].held));
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_true(test_advisor_logged(&scene.advisor, "silent and not answering"));
    end(&scene);
}

static void
purge_events(struct wire_bus *bus)
{
    struct kvt_buffer answer;

    kvt_buffer_init(&answer, WIRE_QUERY_MAX);
    assert_int_equal(
        wire_bus_request(bus, "$JS.API.STREAM.PURGE." WIRE_STREAM_EVENTS, "", 0, 5000, &answer),
        KVT_OK);
    kvt_buffer_release(&answer);
}

/* The messages it is behind are gone, and nobody is left to say more: that is all there is. */
static void
ready_after_a_purge(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, false);
    for (int known = 0; known < 2; known++) { /* to an advisor without, and with, a past */
        test_worker_open(&scene.workers[0]);
        test_worker_open(&scene.workers[1]);
        churn(&scene, 100);
        test_worker_close(&scene.workers[0], true);
        test_worker_close(&scene.workers[1], true);
        purge_events(scene.workers[0].bus);
        test_advisor_start(&scene.advisor);
        test_advisor_ready(&scene.advisor);
        test_advisor_end(&scene.advisor);
    }
    end(&scene);
}

/* What cannot be read is counted, named by subject and sequence, and skipped. */
static void
malformed_messages(void **state)
{
    static const uint8_t half[] = {0x98, 0x01, 0xa0, 0xa1, 'w', 0xff};
    struct scene scene;

    (void)state;
    begin(&scene, false);
    test_advisor_start(&scene.advisor);
    test_advisor_ready(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    churn(&scene, 100);
    for (size_t size = 0; size <= sizeof(half); size++)
        assert_int_equal(wire_bus_publish_acked(scene.workers[0].bus, "kvtier.v1.events.x.0.bad",
                                                NULL, half, size, 5000, NULL),
                         KVT_OK);
    churn(&scene, 100);
    test_worker_wait(&scene.advisor, scene.all, 2);
    assert_int_equal(test_advisor_number(&scene.advisor, "events", "malformed"), sizeof(half) + 1);
    assert_true(test_advisor_logged(&scene.advisor, "kvtier.v1.events.x.0.bad:"));
    end(&scene);
}

/* ---- questions ---- */

static void
questions_over_nats(void **state)
{
    uint64_t hashes[4];
    struct wire_query query = {.namespace_ = "tenant/model", .hashes = hashes, .hash_count = 4};
    struct wire_query_holder holders[8];
    struct kvt_buffer question;
    struct kvt_buffer answer;
    struct scene scene;
    uint8_t masks[4];
    size_t count;

    (void)state;
    begin(&scene, true);
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    for (size_t i = 0; i < 3; i++)
        test_worker_set(&scene.workers[0], i, i == 0 ? 1 : 0, true);
    test_worker_set(&scene.workers[0], 0, 0, true);
    test_worker_wait(&scene.advisor, scene.all, 2);
    for (size_t i = 0; i < 4; i++)
        hashes[i] = test_worker_hash(&scene.workers[0], i);
    kvt_buffer_init(&question, WIRE_QUERY_MAX);
    kvt_buffer_init(&answer, WIRE_QUERY_MAX);
    assert_int_equal(wire_query_encode(&query, &question), KVT_OK);
    assert_int_equal(wire_bus_request(scene.workers[0].bus, WIRE_SUBJECT_FIND, question.data,
                                      question.size, 5000, &answer),
                     KVT_OK);
    assert_int_equal(wire_query_decode_holders(answer.data, answer.size, holders, 8, &count, NULL),
                     KVT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(holders[0].name, "worker.0");
    assert_int_equal(holders[0].tier, KVT_TIER_G2);
    assert_int_equal(holders[0].blocks, 3);
    assert_int_equal(holders[1].tier, KVT_TIER_G3);
    assert_int_equal(holders[1].blocks, 1);
    kvt_buffer_clear(&answer);
    assert_int_equal(wire_bus_request(scene.workers[0].bus, WIRE_SUBJECT_MATCH, question.data,
                                      question.size, 5000, &answer),
                     KVT_OK);
    assert_int_equal(wire_query_decode_masks(answer.data, answer.size, masks, 4, &count, NULL),
                     KVT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(masks[0], KVT_TIER_MASK(KVT_TIER_G2) | KVT_TIER_MASK(KVT_TIER_G3));
    assert_int_equal(masks[1], KVT_TIER_MASK(KVT_TIER_G2));
    assert_int_equal(masks[3], 0);
    /* Nonsense is answered, not ignored. */
    kvt_buffer_clear(&answer);
    assert_int_equal(
        wire_bus_request(scene.workers[0].bus, WIRE_SUBJECT_FIND, "?", 1, 5000, &answer), KVT_OK);
    assert_int_not_equal(
        wire_query_decode_holders(answer.data, answer.size, holders, 8, &count, NULL), KVT_OK);
    kvt_buffer_release(&question);
    kvt_buffer_release(&answer);
    end(&scene);
}

/* The answer of an index page, about the first block of the first worker. */
static struct json_object *
ask_tree(struct scene *scene, const char *page, const char *more)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "/v1/index/%s?namespace=tenant/model&hash=%016" PRIx64 "%s",
                   page, test_worker_hash(&scene->workers[0], 0), more);
    return test_advisor_ask(&scene->advisor, path, NULL, NULL);
}

static void
totals_candidates_and_history(void **state)
{
    struct json_object *answer;
    struct json_object *change;
    struct scene scene;
    uint64_t number;

    (void)state;
    begin(&scene, true);
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    for (size_t i = 0; i < 3; i++)
        test_worker_set(&scene.workers[0], i, 0, true);
    test_worker_set(&scene.workers[0], 0, 1, true);
    test_worker_set(&scene.workers[0], 0, 1, false);
    test_worker_wait(&scene.advisor, scene.all, 2);
    answer = ask_tree(&scene, "subtree", "");
    assert_true(kvt_json_u64(answer, "blocks", &number));
    assert_int_equal(number, 3);
    assert_true(kvt_json_u64(answer, "places", &number));
    assert_int_equal(number, 3);
    json_object_put(answer);
    answer = ask_tree(&scene, "history", "");
    assert_int_equal(json_object_array_length(kvt_json_array(answer, "changes")), 3);
    change = json_object_array_get_idx(kvt_json_array(answer, "changes"), 0);
    assert_string_equal(kvt_json_string(change, "change"), "remove");
    assert_string_equal(kvt_json_string(change, "tier"), "G3");
    assert_string_equal(kvt_json_string(change, "holder"), "worker.0");
    json_object_put(answer);
    answer = ask_tree(&scene, "candidates", "&tier=G2&order=coldest&limit=2");
    assert_int_equal(json_object_array_length(kvt_json_array(answer, "candidates")), 2);
    json_object_put(answer);
    end(&scene);
}

/* ---- orders ---- */

static const struct wire_key_ring order_key = {
    .lines = {{.master = {.bytes = "a key of 20 letters!", .size = 20}}}, .count = 1};

static void
publish_report(struct wire_bus *bus, const struct kvt_report *report)
{
    char subject[WIRE_SUBJECT_MAX];
    struct kvt_buffer payload;
    struct kvt_buffer bytes;

    kvt_buffer_init(&payload, WIRE_REPORT_MAX);
    kvt_buffer_init(&bytes, WIRE_REPORT_MAX + WIRE_ENVELOPE_MAX);
    assert_int_equal(wire_report_encode(report, &payload), KVT_OK);
    assert_int_equal(wire_envelope_sign(&order_key, WIRE_SIGNED_REPORT, report->gateway,
                                        payload.data, payload.size, &bytes),
                     KVT_OK);
    kvt_buffer_release(&payload);
    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_REPORTS, subject, sizeof(subject), report->gateway),
        KVT_OK);
    assert_int_equal(wire_bus_publish_acked(bus, subject, NULL, bytes.data, bytes.size, 5000, NULL),
                     KVT_OK);
    kvt_buffer_release(&bytes);
}

static void
receive_order(struct wire_bus *bus, struct kvt_order *order)
{
    const struct wire_stream_options options = {
        .stream = WIRE_STREAM_ORDERS, .subject = "kvtier.v1.orders.gw0", .durable = "gw0"};
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *message = NULL;
    struct wire_stream *stream;
    const void *bytes;
    size_t count = 0;
    size_t size;

    assert_int_equal(wire_stream_open(&stream, bus, &options), KVT_OK);
    while (count == 0) {
        (void)!wire_stream_fetch(stream, &message, 1, 200, &count);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    bytes = wire_message_bytes(message, &size);
    assert_int_equal(
        wire_order_decode(bytes, size, &order_key, "gw0", order, KVT_ORDER_ITEMS_MAX, NULL),
        KVT_OK);
    assert_int_equal(wire_stream_ack(stream, message), KVT_OK);
    wire_message_free(message);
    wire_stream_close(stream);
}

/* A full hot volume: a signed order of its oldest blocks, followed to its result. */
static void
full_tier_is_ordered_down(void **state)
{
    struct kvt_order_result result = {.verb = KVT_ORDER_DEMOTE, .code = KVT_OK};
    struct kvt_report report = {.gateway = "gw0",
                                .namespace_ = "tenant/model",
                                .incarnation = 1,
                                .seq = 1,
                                .healthy = true,
                                .tier_count = 2,
                                .results = &result};
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct kvt_order order = {.items =
                                  kvt_calloc(KVT_ORDER_ITEMS_MAX, sizeof(struct kvt_order_item))};
    struct scene scene;
    char path[512];
    char flag[600];
    char token[600];

    (void)state;
    begin(&scene, true);
    (void)snprintf(path, sizeof(path), "%s/key", scene.advisor.folder);
    (void)snprintf(flag, sizeof(flag), "--orders-key-file=%s", path);
    assert_int_equal(kvt_file_write(path, order_key.lines[0].master.bytes,
                                    order_key.lines[0].master.size, 0600, NULL),
                     KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/token", scene.advisor.folder);
    (void)snprintf(token, sizeof(token), "--admin-token-file=%s", path);
    assert_int_equal(kvt_file_write(path, "test-token-0123456789", 21, 0600, NULL), KVT_OK);
    scene.advisor.more[0] = flag;
    scene.advisor.more[1] = token;
    scene.advisor.more[2] = "--policy-interval=100ms";
    test_advisor_start(&scene.advisor);
    test_worker_open(&scene.workers[0]);
    test_worker_open(&scene.workers[1]);
    for (size_t i = 0; i < 100; i++)
        test_worker_set(&scene.workers[1], i, 0, true);
    test_worker_wait(&scene.advisor, scene.all, 2);

    (void)snprintf(report.tiers[0].name, KVT_NAME_MAX, "hot@gw0");
    report.tiers[0].used_bytes = 100 * 4096;
    report.tiers[0].capacity_bytes = 110 * 4096;
    report.tiers[0].blocks = 100;
    (void)snprintf(report.tiers[1].name, KVT_NAME_MAX, "cold@bucket");
    json_object_put(
        test_advisor_ask(&scene.advisor, "/v1/policy/mode", "{\"mode\":\"enforce\"}", NULL));
    report.time_ms = kvt_clock_unix_ms();
    publish_report(scene.workers[1].bus, &report);
    receive_order(scene.workers[1].bus, &order);
    assert_string_equal(order.gateway, "gw0");
    assert_string_equal(order.namespace_, "tenant/model");
    assert_int_equal(order.verb, KVT_ORDER_DEMOTE);
    assert_int_equal(order.item_count, 23); /* 100 blocks down to 77 = 70 % of 110 */
    assert_int_equal(test_advisor_number(&scene.advisor, "orders", "pending"), 1);

    result.epoch = order.epoch;
    result.id = order.id;
    result.done = order.item_count;
    result.bytes_moved = order.item_count * (uint64_t)4096;
    report.result_count = 1;
    report.seq = 2;
    report.tiers[0].used_bytes = 77 * 4096;
    report.time_ms = kvt_clock_unix_ms();
    publish_report(scene.workers[1].bus, &report);
    while (test_advisor_number(&scene.advisor, "orders", "done") != 1)
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    assert_int_equal(test_advisor_number(&scene.advisor, "orders", "issued"), 1);

    /* The epoch goes up with every start. */
    test_advisor_kill(&scene.advisor);
    test_advisor_start(&scene.advisor);
    report.result_count = 0;
    report.seq = 3;
    report.tiers[0].used_bytes = 100 * 4096;
    report.time_ms = kvt_clock_unix_ms();
    publish_report(scene.workers[1].bus, &report);
    receive_order(scene.workers[1].bus, &order);
    assert_true(order.epoch > result.epoch);
    kvt_free(order.items);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_become_the_index),
        cmocka_unit_test(kill_at_any_moment),
        cmocka_unit_test(nats_comes_later),
        cmocka_unit_test(stream_is_lost),
        cmocka_unit_test(core_messages),
        cmocka_unit_test(workers_leave),
        cmocka_unit_test(ready_after_a_purge),
        cmocka_unit_test(malformed_messages),
        cmocka_unit_test(questions_over_nats),
        cmocka_unit_test(totals_candidates_and_history),
        cmocka_unit_test(full_tier_is_ordered_down),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
