/*
 * What is tested: engine/rpc/rpc_links.h without sockets or threads: what a server says to every
 * message, against a model that has a sequence and a word for each slot; what it forgets, and when;
 * how many links it has; no allocation that fails leaks or is taken for a call that was run.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "engine/rpc/rpc_links.h"
#include "tests/support/seed.h"

enum { SILENCE = 1000, STEPS = 50000, SLOTS = 5, SEQUENCES = 6, LARGE = ENGINE_RPC_PAYLOAD_MAX };

static const struct engine_rpc_peer peer = {.size = 1, .name = "p"};

/* The last thing that was said. */
struct report {
    size_t count;
    struct engine_rpc_message last; /* without its payload's bytes */
};

static void
on_send(void *arg, const struct engine_rpc_peer *to, const void *bytes, size_t size)
{
    struct report *report = arg;

    assert_int_equal(to->size, peer.size);
    assert_int_equal(engine_rpc_wire_read(&report->last, bytes, size), KVT_OK);
    report->last.bytes = NULL;
    report->count++;
}

static bool
say(struct engine_rpc_links *links, enum engine_rpc_kind kind, uint64_t link, uint64_t number,
    uint64_t now_ms)
{
    const struct engine_rpc_message message = {
        .kind = kind, .link = link, .number = number, .wait_ms = 1};

    return engine_rpc_links_take(links, &peer, &message, now_ms);
}

static uint64_t
greet(struct engine_rpc_links *links, struct report *report, uint64_t old, uint64_t nonce,
      uint64_t now_ms)
{
    report->count = 0;
    assert_false(say(links, ENGINE_RPC_HELLO, old, nonce, now_ms));
    assert_int_equal(report->count, 1);
    assert_int_equal(report->last.number, nonce);
    return report->last.kind == ENGINE_RPC_WELCOME ? report->last.link : 0;
}

static void
answer(struct engine_rpc_links *links, uint64_t link, uint64_t number, size_t size)
{
    static uint8_t payload[LARGE];
    const struct engine_rpc_message message = {
        .kind = ENGINE_RPC_ANSWER, .link = link, .number = number, .bytes = payload, .size = size};

    engine_rpc_links_answer(links, &message, engine_rpc_kept_new(&message));
}

/* ---- the model ---- */

enum word { NOTHING, GOES_ON, TAKEN_BACK, ANSWERED, LOST };

struct model {
    uint64_t sequence;
    enum word word;
};

static uint64_t
number_of(size_t slot, uint64_t sequence)
{
    return sequence * ENGINE_RPC_CALLS_MAX + slot;
}

static enum engine_rpc_kind
again(const struct model *slot)
{
    if (slot->word == GOES_ON || slot->word == TAKEN_BACK)
        return ENGINE_RPC_TAKEN;
    return slot->word == ANSWERED ? ENGINE_RPC_ANSWER : ENGINE_RPC_REFUSED;
}

/* What the server must say (0: nothing), and whether it must run it. */
static enum engine_rpc_kind
model_take(struct model *slot, enum engine_rpc_kind kind, uint64_t sequence, bool *run)
{
    *run = false;
    if (kind == ENGINE_RPC_CANCEL) {
        if (sequence > slot->sequence)
            *slot = (struct model){sequence, LOST};
        else if (sequence == slot->sequence)
            slot->word = slot->word == GOES_ON || slot->word == TAKEN_BACK ? TAKEN_BACK : LOST;
        return 0;
    }
    if (sequence < slot->sequence)
        return 0;
    if (sequence == slot->sequence)
        return again(slot);
    if (kind == ENGINE_RPC_ASK)
        return ENGINE_RPC_MISSING;
    *slot = (struct model){sequence, GOES_ON};
    *run = true;
    return 0;
}

static void
every_message_is_answered_as_the_model_says(void **state)
{
    static const enum engine_rpc_kind kinds[] = {ENGINE_RPC_CALL, ENGINE_RPC_ASK,
                                                 ENGINE_RPC_CANCEL};
    struct model model[SLOTS] = {{0}};
    uint64_t random = test_seed();
    uint64_t highest = 1;
    uint32_t runs = 0;
    struct engine_rpc_links *links;
    struct report report = {0};
    uint64_t link;

    (void)state;
    assert_int_equal(engine_rpc_links_new(&links, SILENCE, on_send, &report), KVT_OK);
    link = greet(links, &report, 0, 1, 0);
    assert_int_not_equal(link, 0);
    for (int step = 0; step < STEPS; step++) {
        const size_t at = kvt_random_below(&random, SLOTS);
        const uint64_t sequence = 1 + highest / SEQUENCES + kvt_random_below(&random, SEQUENCES);
        const uint64_t number = number_of(at, sequence);
        struct model *slot = &model[at];

        highest++;
        report.count = 0;
        if (kvt_random_below(&random, 4) == 0) {
            const bool waits = slot->word == GOES_ON;

            assert_int_equal(engine_rpc_links_wanted(links, link, number_of(at, slot->sequence)),
                             waits);
            answer(links, link, number_of(at, slot->sequence), at);
            assert_int_equal(report.count, waits ? 1 : 0);
            if (waits)
                slot->word = ANSWERED;
            else if (slot->word == TAKEN_BACK)
                slot->word = LOST;
        } else {
            const enum engine_rpc_kind kind = kinds[kvt_random_below(&random, 3)];
            bool must_run;
            const enum engine_rpc_kind must_say = model_take(slot, kind, sequence, &must_run);

            assert_int_equal(say(links, kind, link, number, 0), must_run);
            assert_int_equal(report.count, must_say != 0 ? 1 : 0);
            if (must_say != 0) {
                assert_int_equal(report.last.kind, must_say);
                assert_true(report.last.link == link && report.last.number == number);
            }
            runs += must_run ? 1 : 0;
        }
    }
    assert_true(runs > STEPS / 100);
    engine_rpc_links_free(links);
    assert_int_equal(kvt_alloc_live(), 0);
}

/* A link that is over, or of another server, runs nothing, whatever comes by it. */
static void
other_links_run_nothing(void **state)
{
    struct engine_rpc_links *links;
    struct engine_rpc_links *other;
    struct report report = {0};
    uint64_t link;
    uint64_t next;

    (void)state;
    assert_int_equal(engine_rpc_links_new(&links, SILENCE, on_send, &report), KVT_OK);
    assert_int_equal(engine_rpc_links_new(&other, SILENCE, on_send, &report), KVT_OK);
    link = greet(links, &report, 0, 1, 0);
    assert_true(say(links, ENGINE_RPC_CALL, link, number_of(0, 1), 0));
    assert_true(greet(links, &report, 0, 1, 0) == link); /* a greeting that came twice */
    next = greet(links, &report, link, 2, 0);            /* it was given up */
    assert_true(next != link && next != 0);
    assert_true(engine_rpc_links_next_gone(links) == link);
    assert_int_equal(engine_rpc_links_next_gone(links), 0);
    assert_false(engine_rpc_links_wanted(links, link, number_of(0, 1)));
    report.count = 0;
    answer(links, link, number_of(0, 1), 1); /* to nobody */
    assert_int_equal(report.count, 0);
    assert_false(say(links, ENGINE_RPC_CALL, link, number_of(1, 1), 0));
    assert_int_equal(report.last.kind, ENGINE_RPC_BYE);
    assert_true(report.last.link == link);
    assert_false(say(other, ENGINE_RPC_CALL, next, number_of(0, 1), 0));
    assert_int_equal(report.last.kind, ENGINE_RPC_BYE);
    assert_int_equal(engine_rpc_links_expire(links, SILENCE - 1), SILENCE);
    assert_int_equal(engine_rpc_links_next_gone(links), 0);
    (void)engine_rpc_links_expire(links, SILENCE);
    assert_true(engine_rpc_links_next_gone(links) == next);
    assert_false(say(links, ENGINE_RPC_CALL, next, number_of(2, 1), SILENCE));
    engine_rpc_links_stop(other);
    assert_int_equal(greet(other, &report, 0, 3, 0), 0);
    assert_int_equal(report.last.code, KVT_UNAVAILABLE);
    engine_rpc_links_free(links);
    engine_rpc_links_free(other);
}

static void
what_is_kept_has_a_limit(void **state)
{
    const size_t many = ENGINE_RPC_KEPT_MAX / LARGE + 1;
    struct engine_rpc_server_stats stats = {0};
    struct engine_rpc_links *links;
    struct report report = {0};
    uint64_t link;

    (void)state;
    assert_int_equal(engine_rpc_links_new(&links, SILENCE, on_send, &report), KVT_OK);
    link = greet(links, &report, 0, 1, 0);
    for (size_t i = 0; i < many; i++) {
        assert_true(say(links, ENGINE_RPC_CALL, link, number_of(i, 1), 0));
        answer(links, link, number_of(i, 1), LARGE);
        assert_int_equal(report.last.size, LARGE);
    }
    engine_rpc_links_stats(links, &stats);
    assert_in_range(stats.kept_bytes, 1, ENGINE_RPC_KEPT_MAX);
    assert_false(say(links, ENGINE_RPC_ASK, link, number_of(many - 1, 1), 0));
    assert_int_equal(report.last.kind, ENGINE_RPC_ANSWER);
    assert_false(say(links, ENGINE_RPC_CALL, link, number_of(0, 1), 0)); /* the oldest */
    assert_int_equal(report.last.kind, ENGINE_RPC_REFUSED);
    assert_int_equal(report.last.code, KVT_UNAVAILABLE);
    engine_rpc_links_stats(links, &stats);
    assert_int_equal(stats.forgotten, 1);
    engine_rpc_links_free(links);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
links_have_a_limit(void **state)
{
    struct engine_rpc_links *links;
    struct report report = {0};
    uint64_t first = 0;

    (void)state;
    assert_int_equal(engine_rpc_links_new(&links, SILENCE, on_send, &report), KVT_OK);
    for (uint64_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++) {
        const uint64_t link = greet(links, &report, 0, 1 + i, 0);

        assert_int_not_equal(link, 0);
        first = i == 0 ? link : first;
    }
    assert_int_equal(greet(links, &report, 0, UINT64_MAX, 0), 0);
    assert_int_equal(report.last.code, KVT_FULL);
    assert_false(say(links, ENGINE_RPC_BYE, first, 0, 0));
    assert_int_equal(greet(links, &report, 0, UINT64_MAX, 0), 0); /* nobody was told of it yet */
    assert_true(engine_rpc_links_next_gone(links) == first);
    assert_int_not_equal(greet(links, &report, 0, UINT64_MAX, 0), 0);
    engine_rpc_links_bye(links);
    engine_rpc_links_free(links);
}

static bool
try_call(void *arg)
{
    struct report report = {0};
    struct engine_rpc_links *links;
    uint64_t link;
    bool done = false;

    (void)arg;
    if (engine_rpc_links_new(&links, SILENCE, on_send, &report) != KVT_OK)
        return false;
    link = greet(links, &report, 0, 1, 0);
    if (link == 0) {
        assert_int_equal(report.last.code, KVT_NOMEM);
    } else {
        assert_true(say(links, ENGINE_RPC_CALL, link, number_of(0, 1), 0));
        answer(links, link, number_of(0, 1), 100);
        assert_int_equal(report.last.kind, ENGINE_RPC_ANSWER);
        assert_int_equal(report.last.code, report.last.size == 100 ? KVT_OK : KVT_NOMEM);
        done = report.last.size == 100;
        assert_false(say(links, ENGINE_RPC_CALL, link, number_of(0, 1), 0)); /* it ran */
    }
    engine_rpc_links_free(links);
    return done;
}

static void
no_memory_is_said(void **state)
{
    (void)state;
    assert_int_equal(test_sweep_allocations(try_call, NULL), 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_answered_as_the_model_says),
        cmocka_unit_test(other_links_run_nothing),
        cmocka_unit_test(what_is_kept_has_a_limit),
        cmocka_unit_test(links_have_a_limit),
        cmocka_unit_test(no_memory_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
