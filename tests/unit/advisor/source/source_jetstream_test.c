/*
 * What is tested: what NATS hears of how far our own events are applied
 * (advisor/source/source_jetstream.c), with a real nats-server that is away when it is said.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/source/source.h"
#include "base/core/clock.h"
#include "wire/message/subject.h"
#include "wire/nats/bus_state.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, EVENTS = 5 };

static const char durable[] = "advisor-test";

static uint64_t
deadline(void)
{
    return kvt_clock_mono_ms() + DEADLINE_MS;
}

/* Take what comes until the stream's message `last`; the stream's time of birth. */
static uint64_t
take(struct advisor_source *source, uint64_t last)
{
    const uint64_t until_ms = deadline();
    uint64_t created_ms = 0;
    uint64_t seq = 0;

    while (seq < last) {
        struct advisor_inbox_item *item;

        assert_true(kvt_clock_mono_ms() < until_ms);
        if (advisor_source_poll(source, &item, 1, 100) == 0)
            continue;
        if (item->kind == ADVISOR_INBOX_ITEM_START)
            created_ms = item->created_ms;
        else
            seq = item->stream_seq;
        advisor_inbox_item_free(item);
    }
    return created_ms;
}

/* Until the server knows that all of the stream is applied. */
static void
wait_acknowledged(struct wire_bus *bus)
{
    const uint64_t until_ms = deadline();
    uint64_t lag = EVENTS;

    while (lag > 0) {
        jsConsumerInfo *info = NULL;

        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(20);
        if (js_GetConsumerInfo(&info, bus->js, WIRE_STREAM_EVENTS, durable, NULL, NULL) == NATS_OK)
            lag = info->NumPending + (uint64_t)info->NumAckPending;
        jsConsumerInfo_Destroy(info);
    }
}

static void
what_is_applied_while_nats_is_away_is_told_when_it_is_back(void **state)
{
    struct advisor_source_options options = advisor_source_unset;
    struct test_nats server;
    struct wire_bus *bus = test_bus_start(&server);
    struct advisor_source *source;
    uint64_t created_ms;

    (void)state;
    options.bus = bus;
    options.stream = WIRE_STREAM_EVENTS;
    options.durable = durable;
    test_bus_publish(bus, "kvtier.v1.events.ns.0.w1", 1, EVENTS);
    assert_int_equal(advisor_source_open(&source, &advisor_source_jetstream, &options), KVT_OK);
    created_ms = take(source, EVENTS);
    advisor_source_applied(source, 2, created_ms);
    test_nats_kill(&server);
    test_bus_wait(bus, false);
    advisor_source_applied(source, EVENTS, created_ms);
    kvt_clock_sleep_ms(500); /* the source has seen it */
    test_nats_restart(&server);
    wait_acknowledged(bus); /* though nothing more comes */
    advisor_source_close(source);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_applied_while_nats_is_away_is_told_when_it_is_back),
    };

    test_nats_require();
    return cmocka_run_group_tests_name("advisor/source_jetstream", tests, NULL, NULL);
}
