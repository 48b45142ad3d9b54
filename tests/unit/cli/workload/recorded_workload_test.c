/*
 * What is tested: cli/workload/recorded_workload.h: which requests are found in a recording.
 * How: recordings of a few messages, and the requests they are about, by hand.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "cli/workload/recorded_workload.h"
#include "kvtier/event.h"
#include "wire/message/event_codec.h"
#include "wire/message/recording.h"
#include "wire/message/report_codec.h"

#include "tests/support/seed.h"

enum { BYTES_MAX = 1 << 20 };

struct tape {
    char folder[256];
    char path[300];
    struct wire_recording_writer *writer;
    uint64_t time_ms;
};

static void
begin(struct tape *tape)
{
    struct kvt_error err;

    (void)test_folder_make(tape->folder, sizeof(tape->folder));
    (void)snprintf(tape->path, sizeof(tape->path), "%s/tape", tape->folder);
    tape->time_ms = 1000;
    assert_int_equal(wire_recording_create(&tape->writer, tape->path,
                                           &(struct wire_recording_options){.replace = true}, &err),
                     KVT_OK);
}

static void
put(struct tape *tape, const char *dialect, const char *subject, const void *bytes, size_t size)
{
    struct wire_recording record = {
        .time_ns = tape->time_ms++ * 1000000, .bytes = bytes, .size = size};
    struct kvt_error err;

    (void)snprintf(record.dialect, sizeof(record.dialect), "%s", dialect);
    (void)snprintf(record.subject, sizeof(record.subject), "%s", subject);
    assert_int_equal(wire_recording_put(tape->writer, &record, &err), KVT_OK);
}

/* Blocks [first, first + count) behind `parent`, each behind the one before. */
static void
store(struct tape *tape, const char *worker, enum kvt_tier tier, uint64_t parent, uint64_t first,
      uint32_t count)
{
    struct kvt_event events[8];
    struct kvt_event_batch batch = {.namespace_ = "ns",
                                    .incarnation = 1,
                                    .first_seq = tape->time_ms * 100,
                                    .time_ms = tape->time_ms,
                                    .location_count = 1,
                                    .events = events,
                                    .event_count = count};
    struct kvt_buffer out;

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    batch.locations[0] = (struct kvt_location){.tier = tier, .name = "cold@b"};
    for (uint32_t i = 0; i < count; i++)
        events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                       .sequence_hash = first + i,
                                       .parent = i == 0 ? parent : first + i - 1,
                                       .position = i + (parent == 0 ? 0 : 1),
                                       .ranks = 1};
    kvt_buffer_init(&out, BYTES_MAX);
    assert_int_equal(wire_event_encode(&batch, &out), KVT_OK);
    put(tape, "kvtier", "kvtier.v1.events.ns.0.w", out.data, out.size);
    kvt_buffer_release(&out);
}

static void
report(struct tape *tape, struct kvt_report_access *accesses, uint32_t count)
{
    struct kvt_report report = {.gateway = "gw0",
                                .namespace_ = "ns",
                                .seq = tape->time_ms,
                                .incarnation = 1,
                                .time_ms = tape->time_ms,
                                .healthy = true,
                                .tiers = {{.name = "hot@gw0"}},
                                .tier_count = 1,
                                .accesses = accesses,
                                .access_count = count};
    struct kvt_buffer out;

    kvt_buffer_init(&out, BYTES_MAX);
    assert_int_equal(wire_report_encode(&report, &out), KVT_OK);
    put(tape, "kvtier", "kvtier.v1.reports.gw0", out.data, out.size);
    kvt_buffer_release(&out);
}

static struct policy_workload *
read_back(struct tape *tape, struct cli_recorded_workload_counts *counts)
{
    struct policy_workload *workload;
    struct kvt_error err;

    assert_int_equal(wire_recording_close(tape->writer, &err), KVT_OK);
    assert_true(cli_recorded_workload_is(tape->path));
    assert_int_equal(cli_recorded_workload_read(&workload, tape->path, counts, &err), KVT_OK);
    return workload;
}

static void
end(struct tape *tape, struct policy_workload *workload)
{
    policy_workload_free(workload);
    test_folder_remove(tape->folder);
}

/* Numbers are given as blocks first appear. */
static void
expect(const struct policy_workload *workload, size_t at, const char *blocks)
{
    const struct policy_workload_request request = policy_workload_request(workload, at);
    char text[256] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < request.count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i == 0 ? "" : " ",
                                 request.blocks[i]);
    assert_string_equal(text, blocks);
}

static void
workers_requests(void **state)
{
    struct cli_recorded_workload_counts counts;
    struct policy_workload *workload;
    struct tape tape;

    (void)state;
    begin(&tape);
    store(&tape, "w1", KVT_TIER_G1, 0, 10, 3);
    store(&tape, "w1", KVT_TIER_G1, 12, 13, 1);  /* goes on: the same request */
    store(&tape, "w1", KVT_TIER_G2, 0, 10, 3);   /* offloaded: no use */
    store(&tape, "w1", KVT_TIER_G1, 11, 20, 2);  /* another end behind the same beginning */
    store(&tape, "w2", KVT_TIER_G1, 21, 30, 1);  /* another worker, which has what comes before */
    store(&tape, "w1", KVT_TIER_G1, 999, 40, 1); /* nobody knows what comes before */
    store(&tape, "gateway:gw0", KVT_TIER_G4, 0, 10, 3);
    workload = read_back(&tape, &counts);
    assert_false(counts.of_gateways);
    assert_int_equal(counts.messages, 7);
    assert_int_equal(counts.bad, 0);
    assert_int_equal(policy_workload_requests(workload), 4);
    expect(workload, 0, "0 1 2 3");
    expect(workload, 1, "0 1 4 5");
    expect(workload, 2, "0 1 4 5 6");
    expect(workload, 3, "7 8"); /* the unknown parent is a block, too */
    assert_int_equal(policy_workload_request(workload, 0).time_ms, 1000);
    assert_int_equal(policy_workload_request(workload, 1).time_ms, 1003);
    end(&tape, workload);
}

static void
gateways_requests(void **state)
{
    struct kvt_report_access chain[] = {
        {.hash = 11, .count = 3}, {.hash = 12, .count = 2}, {.hash = 21, .count = 1}};
    struct kvt_report_access again[] = {{.hash = 10, .count = 1}, {.hash = 0, .count = 1}};
    struct cli_recorded_workload_counts counts;
    struct policy_workload *workload;
    struct tape tape;

    (void)state;
    begin(&tape);
    store(&tape, "gateway:gw0", KVT_TIER_G4, 0, 10, 3); /* written */
    store(&tape, "gateway:gw0", KVT_TIER_G4, 0, 10, 3); /* in the other tier: moved */
    store(&tape, "gateway:gw0", KVT_TIER_G4, 10, 21, 1);
    store(&tape, "w1", KVT_TIER_G1, 0, 50, 2); /* what never reached a gateway */
    report(&tape, chain, 3);
    report(&tape, again, 2);
    workload = read_back(&tape, &counts);
    assert_true(counts.of_gateways);
    assert_int_equal(counts.reads, 8);
    assert_int_equal(policy_workload_requests(workload), 6);
    expect(workload, 0, "0 1 2");
    expect(workload, 1, "0 3");
    expect(workload, 2, "0 1 2"); /* 12 twice, and 11 with it */
    expect(workload, 3, "0 1 2");
    expect(workload, 4, "0 3");
    expect(workload, 5, "0");
    assert_int_equal(policy_workload_blocks(workload), 4);
    end(&tape, workload);
}

/* Lineage that bites its tail, messages that are none, dialects of the future, and a torn end. */
static void
what_makes_no_sense(void **state)
{
    struct cli_recorded_workload_counts counts;
    struct policy_workload *workload;
    struct tape tape;
    struct kvt_error err;
    char *bytes;
    size_t size;

    (void)state;
    begin(&tape);
    store(&tape, "w1", KVT_TIER_G1, 2, 1, 1);
    store(&tape, "w1", KVT_TIER_G1, 1, 2, 1);
    store(&tape, "w2", KVT_TIER_G1, 7, 7, 1);
    put(&tape, "kvtier", "kvtier.v1.events.ns.0.w", "\xc1", 1);
    put(&tape, "kvtier", "kvtier.v1.reports.gw0", "\xc1", 1);
    put(&tape, "dynamo", "", "{", 1);
    put(&tape, "tomorrow", "", "", 0);
    workload = read_back(&tape, &counts);
    assert_int_equal(counts.bad, 4);
    assert_int_equal(counts.messages, 7);
    assert_in_range(policy_workload_reads(workload), 3, 2 * CLI_RECORDED_WORKLOAD_CHAIN_MAX + 4);
    policy_workload_free(workload);

    assert_int_equal(kvt_file_read(&bytes, &size, tape.path, BYTES_MAX, &err), KVT_OK);
    kvt_free(bytes);
    assert_int_equal(truncate(tape.path, (off_t)size - 1), 0);
    assert_int_equal(cli_recorded_workload_read(&workload, tape.path, &counts, &err), KVT_OK);
    assert_int_equal(counts.bad, 4); /* the last one was bad before */
    policy_workload_free(workload);
    assert_int_equal(truncate(tape.path, 4), 0);
    assert_false(cli_recorded_workload_is(tape.path));
    assert_int_equal(unlink(tape.path), 0);
    assert_false(cli_recorded_workload_is(tape.path));
    assert_int_equal(cli_recorded_workload_read(&workload, tape.path, &counts, &err), KVT_NOTFOUND);
    assert_null(workload);
    test_folder_remove(tape.folder);
}

static bool
read_once(void *arg)
{
    struct tape *tape = arg;
    struct cli_recorded_workload_counts counts;
    struct policy_workload *workload;
    struct kvt_error err;
    const enum kvt_err rc = cli_recorded_workload_read(&workload, tape->path, &counts, &err);

    assert_true((workload != NULL) == (rc == KVT_OK));
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    policy_workload_free(workload);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct tape tape;
    struct kvt_error err;

    (void)state;
    begin(&tape);
    store(&tape, "w1", KVT_TIER_G1, 0, 10, 3);
    assert_int_equal(wire_recording_close(tape.writer, &err), KVT_OK);
    assert_true(test_sweep_allocations(read_once, &tape) >= 8);
    test_folder_remove(tape.folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_requests),
        cmocka_unit_test(gateways_requests),
        cmocka_unit_test(what_makes_no_sense),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
