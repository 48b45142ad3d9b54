/*
 * What is tested: kvbm/transfer/transfer_manager.h: bytes arrive over every path, one status a
 * copy, a full queue is an answer, waiting tickets can be cancelled and begun ones not, waits end
 * on time, and requests that cannot work are refused.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/transfer/transfer_manager.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/gate.h"

enum { BLOCKS = 200, SIZE = 4096, QUEUE = 2 };

struct fixture {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *host;
    struct kvbm_storage *device; /* a gate */
    struct kvt_copy copies[BLOCKS];
};

static int
set_up(void **state)
{
    static struct fixture fixture;
    struct kvt_error err;

    memset(&fixture, 0, sizeof(fixture));
    assert_int_equal(kvbm_transfer_new(&fixture.transfer, QUEUE, &err), KVT_OK);
    assert_int_equal(
        kvbm_storage_open_memory(&fixture.host, KVBM_STORAGE_SYSTEM, BLOCKS, SIZE, &err), KVT_OK);
    fixture.device = gate_open(BLOCKS, SIZE);
    for (uint32_t i = 0; i < BLOCKS; i++)
        memset(kvbm_storage_address(fixture.host, i), (int)(i % 251), SIZE);
    *state = &fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;

    kvbm_transfer_free(fixture->transfer);
    kvbm_storage_close(fixture->host);
    kvbm_storage_close(fixture->device);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

static struct kvbm_transfer_request
down(struct fixture *fixture, struct kvt_copy *copies, size_t count)
{
    return (struct kvbm_transfer_request){.path = KVT_PATH_H2D,
                                          .source = fixture->host,
                                          .target = fixture->device,
                                          .copies = copies,
                                          .count = count};
}

static void
bytes_go_down_and_come_back(void **state)
{
    struct fixture *fixture = *state;
    struct kvbm_transfer_request request = down(fixture, fixture->copies, BLOCKS);
    struct kvt_transfer_stats stats;

    for (uint32_t i = 0; i < BLOCKS; i++)
        fixture->copies[i] = (struct kvt_copy){i, BLOCKS - 1 - i, KVT_IO};
    assert_int_equal(kvbm_transfer_run(fixture->transfer, &request), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(fixture->copies[i].status, KVT_OK);
        memset(kvbm_storage_address(fixture->host, i), 0xFF, SIZE);
        fixture->copies[i] = (struct kvt_copy){i, i, KVT_IO};
    }
    request = (struct kvbm_transfer_request){.path = KVT_PATH_D2H,
                                             .source = fixture->device,
                                             .target = fixture->host,
                                             .copies = fixture->copies,
                                             .count = BLOCKS};
    assert_int_equal(kvbm_transfer_run(fixture->transfer, &request), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const uint8_t *bytes = kvbm_storage_address(fixture->host, i);

        assert_int_equal(bytes[0], (BLOCKS - 1 - i) % 251);
        assert_memory_equal(bytes, bytes + 1, SIZE - 1);
    }
    kvbm_transfer_stats(fixture->transfer, KVT_PATH_D2H, &stats);
    assert_int_equal(stats.blocks, BLOCKS);
    assert_int_equal(stats.bytes, (uint64_t)BLOCKS * SIZE);
    assert_int_equal(stats.failed, 0);
}

static void
each_copy_has_its_status(void **state)
{
    struct fixture *fixture = *state;
    const struct kvbm_transfer_request request = down(fixture, fixture->copies, 3);

    for (uint32_t i = 0; i < 3; i++)
        fixture->copies[i] = (struct kvt_copy){i, i, KVT_OK};
    gate_fail(fixture->device, 1, KVT_CORRUPT, true);
    assert_int_equal(kvbm_transfer_run(fixture->transfer, &request), KVT_CORRUPT);
    assert_int_equal(fixture->copies[0].status, KVT_OK);
    assert_int_equal(fixture->copies[1].status, KVT_CORRUPT);
    assert_int_equal(fixture->copies[2].status, KVT_OK);
}

static void
full_queues_say_so_and_tickets_can_be_cancelled(void **state)
{
    struct fixture *fixture = *state;
    struct kvt_copy copies[QUEUE + 2];
    struct kvt_ticket *tickets[QUEUE + 2];
    struct kvbm_transfer_request request;
    struct kvt_transfer_stats stats;

    for (uint32_t i = 0; i < QUEUE + 2; i++)
        copies[i] = (struct kvt_copy){i, i, KVT_IO};
    gate_shut(fixture->device, true);
    request = down(fixture, &copies[0], 1);
    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &tickets[0]), KVT_OK);
    gate_wait_for_visitor(fixture->device); /* begun: out of the queue */
    for (size_t i = 1; i <= QUEUE; i++) {
        request = down(fixture, &copies[i], 1);
        assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &tickets[i]), KVT_OK);
    }
    request = down(fixture, &copies[QUEUE + 1], 1);
    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &tickets[QUEUE + 1]),
                     KVT_AGAIN);
    assert_null(tickets[QUEUE + 1]);

    assert_int_equal(kvt_ticket_cancel(tickets[0]), KVT_BUSY);
    assert_int_equal(kvt_ticket_cancel(tickets[1]), KVT_OK);
    assert_int_equal(kvt_ticket_cancel(tickets[1]), KVT_BUSY);
    assert_int_equal(kvt_ticket_wait(tickets[1], 0), KVT_CANCELLED);
    assert_int_equal(copies[1].status, KVT_CANCELLED);
    kvt_ticket_release(tickets[1]);
    assert_int_equal(kvt_ticket_wait(tickets[2], 20), KVT_TIMEOUT);

    gate_shut(fixture->device, false);
    assert_int_equal(kvt_ticket_wait(tickets[0], 10000), KVT_OK);
    assert_int_equal(kvt_ticket_wait(tickets[2], 10000), KVT_OK);
    kvt_ticket_release(tickets[0]);
    kvt_ticket_release(tickets[2]);
    kvt_ticket_release(NULL);
    kvbm_transfer_stats(fixture->transfer, KVT_PATH_H2D, &stats);
    assert_int_equal(stats.blocks, 2);
    assert_int_equal(stats.cancelled, 1);
}

static void
paths_do_not_wait_for_each_other(void **state)
{
    struct fixture *fixture = *state;
    struct kvt_copy stuck = {0, 0, KVT_IO};
    struct kvt_copy free_copy = {1, 2, KVT_IO};
    const struct kvbm_transfer_request request = down(fixture, &stuck, 1);
    const struct kvbm_transfer_request other = {.path = KVT_PATH_DISK2H,
                                                .source = fixture->host,
                                                .target = fixture->host,
                                                .copies = &free_copy,
                                                .count = 1};
    struct kvt_ticket *ticket;

    gate_shut(fixture->device, true);
    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &ticket), KVT_OK);
    gate_wait_for_visitor(fixture->device);
    assert_int_equal(kvbm_transfer_run(fixture->transfer, &other), KVT_OK);
    gate_shut(fixture->device, false);
    assert_int_equal(kvt_ticket_wait(ticket, 10000), KVT_OK);
    kvt_ticket_release(ticket);
}

static void
impossible_requests_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct kvbm_storage *other = gate_open(BLOCKS, SIZE);
    struct kvbm_storage *larger = gate_open(BLOCKS, (size_t)2 * SIZE);
    struct kvt_copy copy = {0, 0, KVT_OK};
    struct kvbm_transfer_request request = down(fixture, &copy, 0);
    struct kvt_ticket *ticket;

    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &ticket), KVT_INVALID);
    request.count = KVT_COPIES_MAX + 1;
    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &ticket), KVT_INVALID);
    request.count = 1;
    request.target = larger;
    assert_int_equal(kvbm_transfer_start(fixture->transfer, &request, &ticket), KVT_INVALID);
    request.target = fixture->device;
    request.source = other;
    assert_int_equal(kvbm_transfer_run(fixture->transfer, &request), KVT_UNSUPPORTED);
    assert_int_equal(copy.status, KVT_UNSUPPORTED);
    kvbm_storage_close(other);
    kvbm_storage_close(larger);
}

static bool
attempt(void *unused)
{
    struct kvbm_transfer *transfer;
    struct kvt_error err;
    const enum kvt_err rc = kvbm_transfer_new(&transfer, QUEUE, &err);

    (void)unused;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && transfer == NULL));
    kvbm_transfer_free(transfer);
    return rc == KVT_OK;
}

static void
new_survives_every_allocation_failure(void **unused)
{
    (void)unused;
    assert_true(test_sweep_allocations(attempt, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_go_down_and_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_copy_has_its_status, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_queues_say_so_and_tickets_can_be_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(paths_do_not_wait_for_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_requests_are_refused, set_up, tear_down),
        cmocka_unit_test(new_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
