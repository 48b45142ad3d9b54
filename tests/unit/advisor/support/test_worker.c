#include "tests/unit/advisor/support/test_worker.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/http/fetch.h"
#include "base/text/json.h"
#include "wire/nats/bus.h"

#include "tests/support/seed.h"

enum { DEADLINE_MS = 40000, CHAIN = 20, DUMP_MAX = 32 << 20 };

uint64_t
test_worker_hash(const struct test_worker *worker, size_t block)
{
    uint64_t state = worker->seed + block;

    return kvt_random_next(&state);
}

/* Blocks come in chains of CHAIN. */
static struct kvt_event
event_of(const struct test_worker *worker, size_t block, size_t location, bool store)
{
    const uint32_t position = (uint32_t)(block % CHAIN);

    return (struct kvt_event){
        .sequence_hash = test_worker_hash(worker, block),
        .prefix_hash = test_worker_hash(worker, block - position),
        .parent = position == 0 ? 0 : test_worker_hash(worker, block - 1),
        .position = position,
        .block_size = 4096,
        .ranks = 1,
        .location = (uint16_t)location,
        .type = store ? KVT_EVENT_STORE : KVT_EVENT_REMOVE,
    };
}

/* On the publisher's thread. */
static size_t
snapshot(void *arg, uint64_t *cursor, struct kvt_event *events, size_t capacity)
{
    struct test_worker *worker = arg;
    size_t count = 0;

    (void)pthread_mutex_lock(&worker->lock);
    for (; *cursor < (uint64_t)TEST_WORKER_BLOCKS * 2 && count < capacity; (*cursor)++) {
        const size_t block = *cursor / 2;
        const size_t location = *cursor % 2;

        if (worker->held[block][location])
            events[count++] = event_of(worker, block, location, true);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return count;
}

void
test_worker_init(struct test_worker *worker, const char *nats_url, const char *name, bool gateway)
{
    const struct wire_bus_options options = {
        .url = nats_url,
        .name = name,
    };
    uint64_t state = 0;

    memset(worker, 0, sizeof(*worker));
    (void)snprintf(worker->name, sizeof(worker->name), "%s", name);
    (void)snprintf(worker->namespace_, sizeof(worker->namespace_), "tenant/model");
    worker->locations[0].tier = gateway ? KVT_TIER_G4 : KVT_TIER_G2;
    worker->locations[1].tier = gateway ? KVT_TIER_G4 : KVT_TIER_G3;
    (void)snprintf(worker->locations[0].name, KVT_NAME_MAX, gateway ? "hot@gw0" : "host");
    (void)snprintf(worker->locations[1].name, KVT_NAME_MAX, gateway ? "cold@bucket" : "disk");
    for (const char *c = name; *c != '\0'; c++)
        state = state * 31 + (uint8_t)*c;
    worker->seed = kvt_random_next(&state);
    assert_int_equal(pthread_mutex_init(&worker->lock, NULL), 0);
    assert_int_equal(wire_bus_open(&worker->bus, &options, NULL), KVT_OK);
}

void
test_worker_open(struct test_worker *worker)
{
    const struct wire_event_publisher_options options = {
        .bus = worker->bus,
        .namespace_ = worker->namespace_,
        .worker = worker->name,
        .mode = worker->mode,
        .locations = worker->locations,
        .location_count = 2,
        .flush_events = 64,
        .heartbeat_ms = 200,
        .snapshot = snapshot,
        .snapshot_arg = worker,
    };

    assert_int_equal(wire_event_publisher_open(&worker->publisher, &options, NULL), KVT_OK);
}

void
test_worker_close(struct test_worker *worker, bool bye)
{
    wire_event_publisher_close(worker->publisher, bye);
    worker->publisher = NULL;
}

void
test_worker_release(struct test_worker *worker)
{
    wire_event_publisher_close(worker->publisher, false);
    wire_bus_close(worker->bus);
    (void)pthread_mutex_destroy(&worker->lock);
}

void
test_worker_set(struct test_worker *worker, size_t block, size_t location, bool held)
{
    const struct kvt_event event = event_of(worker, block, location, held);
    bool changed;

    (void)pthread_mutex_lock(&worker->lock);
    changed = worker->held[block][location] != held;
    worker->held[block][location] = held;
    (void)pthread_mutex_unlock(&worker->lock);
    if (changed && worker->publisher != NULL)
        wire_event_publisher_publish(worker->publisher, &event);
}

void
test_worker_churn(struct test_worker *worker, uint64_t *random, size_t count)
{
    for (size_t i = 0; i < count; i++)
        test_worker_set(worker, kvt_random_below(random, TEST_WORKER_BLOCKS),
                        kvt_random_below(random, 2), kvt_random_below(random, 3) > 0);
}

void
test_worker_flush(struct test_worker *worker)
{
    assert_int_equal(wire_event_publisher_flush(worker->publisher, DEADLINE_MS), KVT_OK);
}

/* ---- comparing ---- */

struct seen {
    bool at[TEST_WORKER_BLOCKS][2];
};

/* One line of the dump: the place it speaks of must be held.  False: it is not. */
static bool
check_line(struct json_object *line, struct test_worker *const *workers, size_t count,
           struct seen *seen)
{
    const char *holder = kvt_json_string(line, "holder");
    const char *tier = kvt_json_string(line, "tier");
    uint64_t position;
    uint64_t hash;

    assert_true(kvt_json_hash(line, "hash", &hash));
    assert_true(kvt_json_u64(line, "position", &position));
    for (size_t w = 0; w < count; w++)
        for (size_t location = 0; location < 2; location++) {
            const struct kvt_location *at = &workers[w]->locations[location];
            const char *name = at->tier == KVT_TIER_G4 ? at->name : workers[w]->name;

            if (strcmp(name, holder) != 0 || strcmp(kvt_tier_name(at->tier), tier) != 0)
                continue;
            for (size_t block = position; block < TEST_WORKER_BLOCKS; block += CHAIN)
                if (test_worker_hash(workers[w], block) == hash) {
                    seen[w].at[block][location] = true;
                    return workers[w]->held[block][location];
                }
        }
    return false;
}

/* One page; false: it has something it should not, or there was no answer. */
static bool
check_page(const struct test_advisor *advisor, uint64_t *cursor, struct test_worker *const *workers,
           size_t count, struct seen *seen)
{
    struct kvt_buffer answer;
    char url[256];
    const struct kvt_fetch fetch = {.url = url};
    unsigned status;
    bool same = true;
    char *line;

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/index/dump?cursor=%llu&limit=3000",
                   advisor->port, (unsigned long long)*cursor);
    kvt_buffer_init(&answer, DUMP_MAX);
    if (kvt_fetch(&fetch, &status, &answer, NULL) != KVT_OK || status != 200) {
        kvt_buffer_release(&answer);
        return false;
    }
    line = kvt_strdup(kvt_buffer_text(&answer));
    assert_non_null(line);
    for (char *at = line, *end; same && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        struct json_object *json = NULL;

        assert_int_equal(kvt_json_parse(&json, at, (size_t)(end - at), "dump", NULL), KVT_OK);
        if (kvt_json_member(json, "next_cursor") != NULL)
            assert_true(kvt_json_u64(json, "next_cursor", cursor));
        else
            same = check_line(json, workers, count, seen);
        json_object_put(json);
    }
    kvt_free(line);
    kvt_buffer_release(&answer);
    return same;
}

bool
test_worker_same(const struct test_advisor *advisor, struct test_worker *const *workers,
                 size_t count)
{
    struct seen *seen = kvt_calloc(count + 1, sizeof(*seen));
    uint64_t cursor = 0;
    bool same = true;

    assert_non_null(seen);
    do
        same = check_page(advisor, &cursor, workers, count, seen);
    while (same && cursor != 0);
    for (size_t w = 0; w < count && same; w++)
        same = memcmp(seen[w].at, workers[w]->held, sizeof(seen[w].at)) == 0;
    kvt_free(seen);
    return same;
}

static void
show(const struct test_advisor *advisor, const char *path)
{
    struct json_object *json = test_advisor_ask(advisor, path, NULL, NULL);

    print_message("%s\n", json == NULL ? "no answer" : json_object_to_json_string(json));
    json_object_put(json);
}

void
test_worker_wait(const struct test_advisor *advisor, struct test_worker *const *workers,
                 size_t count)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (!test_worker_same(advisor, workers, count)) {
        if (kvt_clock_mono_ms() >= deadline_ms) {
            show(advisor, "/v1/status");
            show(advisor, "/v1/publishers");
            fail_msg("the advisor's index is not what the workers hold");
        }
        kvt_clock_sleep_ms(50);
    }
}
