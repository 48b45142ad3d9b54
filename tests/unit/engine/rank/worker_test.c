/* engine/rank/worker.c, and the fake that everybody above workers is tested with. */
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/rank/worker.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker.h"
#include "tests/unit/engine/support/worker_suite.h"

#define BLOCKS 8

static struct kvbm_layout
layout_of(uint32_t tp_size, uint32_t tp_rank)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = 3,
        .outer = 2,
        .page_size = 4,
        .inner_dim = 4 * 8 / tp_size,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = tp_size,
        .tp_rank = tp_rank,
        .heads = 4 / tp_size,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

static struct engine_worker *
open_one(uint32_t tp_size, uint32_t tp_rank, struct fake_objects *objects, enum fake_ending ending)
{
    const struct fake_options options = {
        .layout = layout_of(tp_size, tp_rank),
        .blocks = {[KVT_TIER_G1] = BLOCKS, [KVT_TIER_G2] = BLOCKS, [KVT_TIER_G3] = BLOCKS},
        .objects = objects,
        .ending = ending,
        .delay_us = 2000,
        .seed = test_seed(),
    };
    struct engine_worker *worker = fake_worker_open(&options);

    assert_non_null(worker);
    return worker;
}

static struct engine_item
item_of(uint64_t number, uint32_t source, uint32_t target)
{
    return (struct engine_item){
        .label = {.id = {.hash = number, .parent = number - 1, .position = 1}},
        .source = source,
        .target = target,
        .status = KVT_ERR_COUNT,
    };
}

static struct engine_job
job_of(enum engine_verb verb, enum kvt_tier from, enum kvt_tier to, struct engine_item *items,
       size_t count)
{
    return (struct engine_job){
        .verb = verb,
        .from = from,
        .to = to,
        .priority = KVT_PRIORITY_HIGH,
        .wait_ms = 5000,
        .items = items,
        .count = count,
    };
}

static enum kvt_err
run_one(struct engine_worker *worker, enum engine_verb verb, enum kvt_tier from, enum kvt_tier to,
        struct engine_item item)
{
    struct engine_job job = job_of(verb, from, to, &item, 1);
    struct engine_outcome outcome;
    const enum kvt_err rc = engine_worker_run(worker, &job, &outcome);

    assert_int_equal(rc, outcome.status);
    assert_int_equal(engine_item_is_well(verb, item.status) ? KVT_OK : item.status, rc);
    return verb == ENGINE_ASK || verb == ENGINE_STORE ? item.status : rc;
}

/* What cannot be is refused before anything is done, in words. */
static void
jobs_are_checked(void **state)
{
    struct engine_worker *worker = open_one(1, 0, NULL, FAKE_AT_ONCE);
    static struct engine_item items[ENGINE_ITEMS_MAX + 1];
    const struct engine_job good = job_of(ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, items, 2);
    struct engine_job bad[16];
    size_t count = 0;

    (void)state;
    items[1] = item_of(2, BLOCKS - 1, BLOCKS - 1);
    for (size_t i = 0; i < 16; i++)
        bad[i] = good;
    bad[count++].verb = (enum engine_verb)0;
    bad[count++].verb = ENGINE_VERB_END;
    bad[count++].count = 0;
    bad[count++].count = ENGINE_ITEMS_MAX + 1;
    bad[count++].items = NULL;
    bad[count++].from = KVT_TIER_G4;
    bad[count++].from = (enum kvt_tier)0;
    bad[count++].to = KVT_TIER_G1;
    bad[count++].layers = 4;
    bad[count++].layer = 1;
    bad[count].layer = 3, bad[count++].layers = 1;
    bad[count].layer = 1, bad[count++].layers = UINT32_MAX;
    bad[count++].priority = KVT_PRIORITY_COUNT;
    bad[count++].verb = ENGINE_STORE; /* there is no object tier */
    bad[count].verb = ENGINE_PULL, bad[count++].layers = 1;
    assert_true(count <= 16);
    for (size_t i = 0; i < count; i++) {
        struct kvt_error err = {.text = ""};

        bad[i].done = (engine_done_fn *)(uintptr_t)1;
        assert_int_equal(engine_job_check(worker, &bad[i], &err), KVT_INVALID);
        assert_true(strlen(err.text) > 0);
        assert_int_equal(engine_worker_run(worker, &bad[i], NULL), KVT_INVALID);
    }
    for (size_t i = 0; i < 2; i++) {
        struct engine_job job = good;

        *(i == 0 ? &items[1].source : &items[1].target) = BLOCKS;
        assert_int_equal(engine_worker_run(worker, &job, NULL), KVT_INVALID);
        assert_int_equal(items[0].status, KVT_INVALID); /* of all: nothing was begun */
        items[1] = item_of(2, BLOCKS - 1, BLOCKS - 1);
    }
    engine_worker_close(worker);
    engine_worker_close(NULL);
}

static void
outcome_names_the_rank(void **state)
{
    struct engine_worker *worker = open_one(4, 2, NULL, FAKE_LATER);
    struct engine_item items[2] = {item_of(1, 0, 4), item_of(2, 1, 5)};
    struct engine_job job = job_of(ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, items, 2);
    struct engine_outcome outcome;

    (void)state;
    fake_worker_write(worker, KVT_TIER_G1, 0, 1, 0, 0);
    fake_worker_write(worker, KVT_TIER_G1, 1, 2, 0, 0);
    assert_int_equal(engine_worker_run(worker, &job, &outcome), KVT_OK);
    assert_int_equal(outcome.ranks, 1);
    assert_int_equal(outcome.by_rank[0], KVT_OK);
    fake_worker_fail(worker, ENGINE_COPY, 1, KVT_CORRUPT);
    assert_int_equal(engine_worker_run(worker, &job, &outcome), KVT_CORRUPT);
    assert_int_equal(outcome.by_rank[0], KVT_CORRUPT);
    assert_non_null(strstr(outcome.error.text, "rank 2: copy: block 4, item 0 of 2"));
    engine_worker_close(worker);
}

static void
verbs_move_bytes(void **state)
{
    const enum fake_ending endings[] = {FAKE_AT_ONCE, FAKE_LATER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fake_objects *objects = fake_objects_open();
        struct engine_worker *worker = open_one(1, 0, objects, endings[i]);
        const enum kvt_tier none = (enum kvt_tier)0;

        fake_worker_write(worker, KVT_TIER_G1, 3, 77, 0, 0);
        assert_int_equal(run_one(worker, ENGINE_ASK, none, none, item_of(77, 0, 0)), KVT_NOTFOUND);
        assert_int_equal(run_one(worker, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, item_of(77, 3, 5)),
                         KVT_OK);
        assert_int_equal(run_one(worker, ENGINE_STORE, KVT_TIER_G2, none, item_of(77, 5, 0)),
                         KVT_OK);
        assert_int_equal(run_one(worker, ENGINE_STORE, KVT_TIER_G2, none, item_of(77, 5, 0)),
                         KVT_EXISTS);
        assert_int_equal(run_one(worker, ENGINE_ASK, none, none, item_of(77, 0, 0)), KVT_OK);
        assert_int_equal(run_one(worker, ENGINE_LOAD, none, KVT_TIER_G3, item_of(77, 0, 1)),
                         KVT_OK);
        assert_true(fake_worker_is(worker, KVT_TIER_G3, 1, 77));
        assert_int_equal(run_one(worker, ENGINE_LOAD, none, KVT_TIER_G3, item_of(78, 0, 1)),
                         KVT_NOTFOUND);
        assert_false(fake_worker_is(worker, KVT_TIER_G3, 1, 77)); /* undefined from now on */
        engine_worker_close(worker);
        fake_objects_close(objects);
    }
}

/* Layer by layer a block becomes what was copied. */
static void
layers_are_copied(void **state)
{
    struct engine_worker *worker = open_one(1, 0, NULL, FAKE_AT_ONCE);

    (void)state;
    for (uint32_t layer = 0; layer < 3; layer++) {
        struct engine_item item = item_of(9, 0, 1);
        struct engine_job job = job_of(ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, &item, 1);

        fake_worker_write(worker, KVT_TIER_G1, 0, 9, layer, 1);
        job.layer = layer;
        job.layers = 1;
        assert_false(fake_worker_is(worker, KVT_TIER_G2, 1, 9));
        assert_int_equal(engine_worker_run(worker, &job, NULL), KVT_OK);
    }
    assert_true(fake_worker_is(worker, KVT_TIER_G2, 1, 9));
    engine_worker_close(worker);
}

static void
peers_are_pulled(void **state)
{
    struct engine_worker *four[4];
    struct engine_worker *two[2];
    const enum kvt_tier none = (enum kvt_tier)0;
    struct kvt_buffer metadata;

    (void)state;
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    for (uint32_t r = 0; r < 4; r++) {
        four[r] = open_one(4, r, NULL, FAKE_AT_ONCE);
        fake_worker_write(four[r], KVT_TIER_G2, 6, 42, 0, 0);
        assert_int_equal(run_one(four[r], ENGINE_SHOW, none, none, item_of(42, 6, 0)), KVT_OK);
        assert_int_equal(engine_worker_describe(four[r], &metadata, 1000, NULL), KVT_OK);
    }
    for (uint32_t r = 0; r < 2; r++) {
        struct engine_item item = item_of(42, 6, 2);
        struct engine_job job = job_of(ENGINE_PULL, none, KVT_TIER_G2, &item, 1);

        two[r] = open_one(2, r, NULL, FAKE_LATER);
        job.peer = 7;
        assert_int_equal(engine_worker_run(two[r], &job, NULL), KVT_UNAVAILABLE);
        assert_int_equal(engine_worker_connect(two[r], 7, metadata.data, metadata.size, 1000, NULL),
                         KVT_OK);
        assert_int_equal(engine_worker_run(two[r], &job, NULL), KVT_OK);
        assert_true(fake_worker_is(two[r], KVT_TIER_G2, 2, 42));
        item.label.id.hash++; /* another block: a stale description */
        assert_int_equal(engine_worker_run(two[r], &job, NULL), KVT_NOTFOUND);
        item.label.id.hash--;
    }
    /* Whoever writes hides first; whoever dies is away; whoever lives again is another one. */
    for (uint32_t r = 0; r < 2; r++) {
        struct engine_item item = item_of(42, 6, 2);
        struct engine_job job = job_of(ENGINE_PULL, none, KVT_TIER_G2, &item, 1);

        job.peer = 7;
        if (r == 0) {
            fake_worker_write(four[0], KVT_TIER_G2, 6, 43, 0, 0);
            assert_int_equal(engine_worker_run(two[0], &job, NULL), KVT_NOTFOUND);
        }
        fake_worker_kill(four[2 * r]);
        assert_int_equal(engine_worker_run(two[r], &job, NULL), KVT_UNAVAILABLE);
        fake_worker_revive(four[2 * r]);
        assert_int_equal(engine_worker_run(two[r], &job, NULL), KVT_UNAVAILABLE);
    }
    assert_int_equal(engine_worker_connect(two[0], 8, metadata.data, metadata.size - 1, 1000, NULL),
                     KVT_INVALID);
    assert_int_equal(engine_worker_connect(two[0], 8, metadata.data, metadata.size / 4, 1000, NULL),
                     KVT_PRECONDITION);
    for (uint32_t r = 0; r < 4; r++)
        engine_worker_close(four[r]);
    for (uint32_t r = 0; r < 2; r++)
        engine_worker_close(two[r]);
    kvt_buffer_release(&metadata);
}

static void
count_end(void *arg, const struct engine_outcome *outcome)
{
    enum kvt_err *end = arg;

    assert_int_equal(*end, KVT_ERR_COUNT);
    *end = outcome->status;
}

/* One is waited for, one cancelled, one stalls, one is under way when the process dies. */
static void
jobs_end_once(void **state)
{
    struct engine_worker *worker = open_one(1, 0, NULL, FAKE_WHEN_TOLD);
    struct engine_item items[4];
    struct engine_job jobs[4];
    enum kvt_err ends[4];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        fake_worker_write(worker, KVT_TIER_G1, i, i, 0, 0);
        items[i] = item_of(i, i, i);
        ends[i] = KVT_ERR_COUNT;
        jobs[i] = job_of(ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, &items[i], 1);
        jobs[i].done = count_end;
        jobs[i].arg = &ends[i];
        if (i == 2)
            fake_worker_fail(worker, ENGINE_COPY, 1, KVT_TIMEOUT);
        assert_int_equal(engine_worker_start(worker, &jobs[i]), KVT_OK);
    }
    assert_int_equal(fake_worker_waiting(worker), 4);
    engine_worker_cancel(worker, &jobs[1]);
    assert_true(fake_worker_step(worker));
    assert_true(fake_worker_step(worker));
    fake_worker_kill(worker);
    assert_false(fake_worker_step(worker));
    assert_int_equal(ends[0], KVT_OK);
    assert_int_equal(ends[1], KVT_CANCELLED);
    assert_int_equal(ends[2], KVT_TIMEOUT);
    assert_int_equal(ends[3], KVT_UNAVAILABLE);
    engine_worker_cancel(worker, &jobs[3]); /* it has ended: nothing happens */
    assert_int_equal(engine_worker_run(worker, &jobs[0], NULL), KVT_UNAVAILABLE);
    assert_int_equal(fake_worker_jobs(worker, ENGINE_COPY), 4);
    engine_worker_close(worker);
}

static void
stalls_end_in_time(void **state)
{
    struct engine_worker *worker = open_one(1, 0, NULL, FAKE_LATER);
    const struct fake_faults faults = {.stall = 1000000};
    struct engine_item item = item_of(1, 0, 0);
    struct engine_job job = job_of(ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, &item, 1);
    const uint64_t since = kvt_clock_mono_ms();

    (void)state;
    fake_worker_write(worker, KVT_TIER_G1, 0, 1, 0, 0);
    fake_worker_faults(worker, &faults);
    job.wait_ms = 50;
    assert_int_equal(engine_worker_run(worker, &job, NULL), KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - since >= 49);
    engine_worker_close(worker);
}

static void
write_fake(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    fake_worker_write(arg, tier, block, number, 0, 0);
}

static bool
is_fake(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    return fake_worker_is(arg, tier, block, number);
}

/* The fake is as good as the real ones, and as bad as it is told to be. */
static void
the_fake_is_a_worker(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const struct fake_faults faults = {.refuse = 50000, .fail = 50000};
        const enum fake_ending ending = i % 2 == 0 ? FAKE_AT_ONCE : FAKE_LATER;
        struct fake_objects *objects = fake_objects_open();
        struct engine_worker *worker = open_one(1, 0, objects, ending);
        struct engine_worker *peer = open_one(1, 0, NULL, ending);
        struct kvt_buffer metadata;

        kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
        assert_int_equal(engine_worker_describe(peer, &metadata, 1000, NULL), KVT_OK);
        assert_int_equal(engine_worker_connect(worker, 7, metadata.data, metadata.size, 1000, NULL),
                         KVT_OK);
        if (i >= 2)
            fake_worker_faults(worker, &faults);
        worker_suite_run(&(struct suite_world){
            .own = {worker, worker, write_fake, is_fake},
            .peer = {peer, peer, write_fake, is_fake},
            .peer_number = 7,
            .seed = test_seed() + i,
            .steps = ending == FAKE_AT_ONCE ? 3000 : 300,
            .faults = i >= 2,
        });
        kvt_buffer_release(&metadata);
        engine_worker_close(worker);
        engine_worker_close(peer);
        fake_objects_close(objects);
    }
}

static void
records_are_framed(void **state)
{
    const char *const texts[] = {"a", "some more", "b"};
    struct kvt_buffer buffer;

    (void)state;
    kvt_buffer_init(&buffer, 1000);
    for (size_t i = 0; i < 3; i++)
        engine_record_append(&buffer, texts[i], strlen(texts[i]));
    for (size_t cut = 0; cut <= buffer.size; cut++) {
        const uint8_t *bytes = buffer.data;
        const uint8_t *record;
        size_t size = cut;
        size_t length;
        size_t found = 0;

        while (engine_record_next(&bytes, &size, &record, &length)) {
            assert_int_equal(length, strlen(texts[found]));
            assert_memory_equal(record, texts[found++], length);
        }
        assert_int_equal(length, 0);
        assert_true(cut < buffer.size || (found == 3 && size == 0));
        assert_true(size == 0 || found < 3);
    }
    kvt_buffer_release(&buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_checked),     cmocka_unit_test(outcome_names_the_rank),
        cmocka_unit_test(verbs_move_bytes),     cmocka_unit_test(layers_are_copied),
        cmocka_unit_test(peers_are_pulled),     cmocka_unit_test(jobs_end_once),
        cmocka_unit_test(stalls_end_in_time),   cmocka_unit_test(records_are_framed),
        cmocka_unit_test(the_fake_is_a_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
