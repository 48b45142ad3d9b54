/*
 * tests/unit/wire/support/test_bus.h -- a bus of the test's own.
 *
 * Why: tests of readers and publishers begin with a server, a connection and our streams.
 * Ownership: the test closes the bus and stops the server.
 * Threads:   one.
 * Limits:    waiting ends with a failed assertion after twenty seconds.
 */
#ifndef TESTS_UNIT_WIRE_SUPPORT_TEST_BUS_H
#define TESTS_UNIT_WIRE_SUPPORT_TEST_BUS_H

#include "wire/nats/bus.h"

#include "tests/support/nats_server.h"

struct wire_bus *test_bus_open(const struct test_nats *server, bool connect_now);

/** Until the streams are there. */
void test_bus_ensure_streams(struct wire_bus *bus);

/** Until it is connected, or is not. */
void test_bus_wait(struct wire_bus *bus, bool wanted);

/** The numbers `from` .. `to`, each until it is acknowledged. */
void test_bus_publish(struct wire_bus *bus, const char *subject, uint32_t from, uint32_t to);

/** Start the server, connect and make the streams. */
struct wire_bus *test_bus_start(struct test_nats *server);

#endif /* TESTS_UNIT_WIRE_SUPPORT_TEST_BUS_H */
