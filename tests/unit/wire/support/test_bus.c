#include "tests/unit/wire/support/test_bus.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { DEADLINE_MS = 20000, STEP_MS = 20 };

struct wire_bus *
test_bus_open(const struct test_nats *server, bool connect_now)
{
    const struct wire_bus_options options = {
        .url = server->url, .name = "test", .connect_now = connect_now};
    struct wire_bus *bus = NULL;

    assert_int_equal(wire_bus_open(&bus, &options, NULL), KVT_OK);
    return bus;
}

void
test_bus_ensure_streams(struct wire_bus *bus)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (wire_bus_ensure_streams(bus, NULL) != KVT_OK) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(STEP_MS);
    }
}

void
test_bus_wait(struct wire_bus *bus, bool wanted)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (wire_bus_connected(bus) != wanted) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(STEP_MS);
    }
}

void
test_bus_publish(struct wire_bus *bus, const char *subject, uint32_t from, uint32_t to)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    char id[32];

    for (uint32_t i = from; i <= to; i++) {
        (void)snprintf(id, sizeof(id), "m%" PRIu32, i);
        while (wire_bus_publish_acked(bus, subject, id, &i, sizeof(i), 1000, NULL) != KVT_OK) {
            assert_true(kvt_clock_mono_ms() < deadline_ms);
            kvt_clock_sleep_ms(STEP_MS);
        }
    }
}

struct wire_bus *
test_bus_start(struct test_nats *server)
{
    struct wire_bus *bus;

    test_nats_start(server);
    bus = test_bus_open(server, true);
    test_bus_ensure_streams(bus);
    return bus;
}
