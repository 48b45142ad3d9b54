#include "tests/unit/gateway/support/waiting.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

enum { ROUNDS_MAX = 200, DURABLE_MS = 30000 };

static void
open_backlog(struct test_waiting *waiting)
{
    const struct gateway_backlog_options options = {.uploads = 4, .stuck_ms = 60000};
    struct kvt_error err;

    assert_int_equal(
        gateway_backlog_new(&waiting->backlog, waiting->gateway.context, &options, &err), KVT_OK);
}

void
test_waiting_open(struct test_waiting *waiting, uint64_t backlog_max)
{
    struct test_gateway *gateway = &waiting->gateway;

    waiting->backlog = NULL;
    test_gateway_open(gateway, TEST_WAITING_HOT, 0);
    gateway->options.write_back = true;
    gateway->options.backlog_max = backlog_max;
    test_waiting_reopen(waiting);
}

void
test_waiting_reopen(struct test_waiting *waiting)
{
    gateway_backlog_stop(waiting->backlog);
    test_gateway_reopen(&waiting->gateway);
    open_backlog(waiting);
}

void
test_waiting_close(struct test_waiting *waiting)
{
    gateway_backlog_stop(waiting->backlog);
    test_gateway_close(&waiting->gateway);
}

size_t
test_waiting_round(struct test_waiting *waiting)
{
    struct gateway_backlog_round round;

    gateway_backlog_round(waiting->backlog, &round);
    return round.uploaded;
}

uint64_t
test_waiting_blocks(struct test_waiting *waiting)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(waiting->gateway.context->catalog, &stats);
    return stats.owed_blocks;
}

void
test_waiting_drain(struct test_waiting *waiting)
{
    struct gateway_context *context = waiting->gateway.context;
    struct gateway_catalog_stats stats;

    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        gateway_bucket_tier_probe(context->tiers.buckets);
        (void)gateway_recover_pending(context);
        (void)test_waiting_round(waiting);
        gateway_catalog_stats(context->catalog, &stats);
        if (stats.owed_blocks == 0 && stats.pending == 0) {
            assert_int_equal(stats.owed_bytes, 0);
            return;
        }
    }
    fail_msg("%u blocks still wait, %u rows are unfinished", (unsigned)stats.owed_blocks,
             (unsigned)stats.pending);
}

bool
test_waiting_arrived(struct test_waiting *waiting, uint64_t number, size_t size)
{
    char key[KVT_KEY_MAX];
    struct g4_request request = {
        .verb = G4_GET, .key = test_gateway_key(key, number), .buffer_capacity = TEST_WAITING_HOT};
    uint8_t *expected = kvt_calloc(1, size);
    bool same;

    test_gateway_fill(expected, size, number);
    same = g4_store_perform(waiting->gateway.bucket, &request) == KVT_OK &&
           request.buffer_size == size && memcmp(request.buffer, expected, size) == 0 &&
           request.meta.present && request.meta.length == size &&
           request.meta.crc32c == g4_check_crc32c(expected, size);
    kvt_free(request.buffer);
    kvt_free(expected);
    return same;
}

enum kvt_err
test_waiting_plant(struct g4_store *store, uint64_t number, uint64_t content)
{
    struct g4_meta meta = {
        .present = true, .length = TEST_WAITING_SIZE, .fingerprint = 7, .writer = "gw1"};
    uint8_t body[TEST_WAITING_SIZE];
    char key[KVT_KEY_MAX];

    test_gateway_fill(body, TEST_WAITING_SIZE, content);
    meta.crc32c = g4_check_crc32c(body, TEST_WAITING_SIZE);
    return test_gateway_store_put(store, test_gateway_key(key, number), body, TEST_WAITING_SIZE,
                                  &meta);
}

uint64_t
test_waiting_count(struct test_waiting *waiting, enum gateway_stat stat)
{
    return gateway_stats_get(&waiting->gateway.stats, stat);
}

const char *
test_waiting_events(struct test_waiting *waiting, char text[TEST_WAITING_EVENTS])
{
    const uint64_t end_ms = kvt_clock_mono_ms() + DURABLE_MS;
    struct gateway_event *found = kvt_calloc(16, sizeof(*found));
    struct gateway_stream stream;
    size_t count;

    assert_true(gateway_catalog_stream(waiting->gateway.context->catalog, 0, &stream));
    while (stream.durable_seq + 1 < stream.next_seq && kvt_clock_mono_ms() < end_ms) {
        kvt_clock_sleep_ms(1);
        assert_true(gateway_catalog_stream(waiting->gateway.context->catalog, 0, &stream));
    }
    assert_int_equal(
        gateway_catalog_events(waiting->gateway.context->catalog, 0, 1, found, 16, &count), KVT_OK);
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < count; i++)
        used +=
            (size_t)snprintf(text + used, TEST_WAITING_EVENTS - used, "%s%s%s", i > 0 ? " " : "",
                             found[i].event.type == KVT_EVENT_STORE ? "+" : "-",
                             gateway_tier_name(found[i].event.location));
    kvt_free(found);
    return text;
}
