/*
 * What is tested: what g4/packed/compaction.h, g4/packed/manifest_log.h and g4/packed/packed.h do
 * at single edges: each guard against others alone, lost answers, triggers, damage, and memory
 * that runs out.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/packed/compaction.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/packing.h"

enum { REQUESTS_MAX = 2000, ALLOCATIONS_MAX = 4000 };

#define SEGMENTS  PACKING_NAMESPACE "/.kvt/segment/"
#define MANIFESTS PACKING_NAMESPACE "/.kvt/manifest/"

static void
put_orphan(struct packing *packing, uint64_t epoch, char key[KVT_KEY_MAX])
{
    const struct g4_segment_name name = {.epoch = epoch, .nonce = 1};

    assert_int_equal(g4_segment_key(key, PACKING_NAMESPACE, &name), KVT_OK);
    assert_int_equal(put_absent(packing->store, key, "x", 1, NULL), KVT_OK);
}

static void
segments_of_a_later_epoch_are_not_touched(void **state)
{
    struct packing *packing = packing_new(test_seed());
    char older[KVT_KEY_MAX];
    char later[KVT_KEY_MAX];

    (void)state;
    put_orphan(packing, 1, older);
    put_orphan(packing, 1000, later);
    assert_int_equal(put_absent(packing->store, SEGMENTS "else", "x", 1, NULL), KVT_OK);
    packing_settle(packing);
    assert_null(memory_bucket_find(&packing->memory, older));
    assert_non_null(memory_bucket_find(&packing->memory, later));
    assert_non_null(memory_bucket_find(&packing->memory, SEGMENTS "else"));
    packing_free(packing);
}

/* The request that a client is about to make. */
struct about {
    enum g4_verb verb;
    char key[KVT_KEY_MAX];
};

static void
note(void *arg, const struct g4_request *request)
{
    struct about *about = arg;

    about->verb = request->verb;
    (void)snprintf(about->key, sizeof(about->key), "%s", request->key);
}

static bool
is_commit(const struct about *about)
{
    return about->verb == G4_PUT && strncmp(about->key, MANIFESTS, strlen(MANIFESTS)) == 0;
}

/* A commit that is still on its way when the next run deletes what it speaks of finds its number
 * taken, also when that run has nothing to say. */
static void
a_late_commit_finds_its_number_taken(void **state)
{
    const uint64_t seed = test_seed();
    bool through = false;
    unsigned commits = 0;

    (void)state;
    for (uint64_t n = 1; n < REQUESTS_MAX && !through; n++) {
        struct packing *packing = packing_new(seed);
        struct about about = {.verb = G4_GET};
        struct memory_bucket_client client = {.memory = &packing->memory,
                                              .at = n,
                                              .death = MEMORY_BUCKET_DIES_BEFORE,
                                              .between = note,
                                              .arg = &about};
        struct g4_compaction_report report;
        size_t segments;

        packing_prepare(packing);
        (void)packing_compact(packing, &client, &report);
        through = client.calls < n;
        segments = memory_bucket_count(&packing->memory, SEGMENTS);
        packing->settings.bytes_min = 1 << 20;
        packing->settings.live_min_ppm = 0;
        packing->settings.segment_bytes = 500; /* few are small */
        packing_sleep(packing);
        packing_settle(packing);
        if (is_commit(&about) && memory_bucket_count(&packing->memory, SEGMENTS) < segments) {
            assert_non_null(memory_bucket_find(&packing->memory, about.key));
            commits++;
        }
        packing_check(packing);
        packing_free(packing);
    }
    assert_true(through && commits > 0);
}

static void
a_commit_whose_answer_was_lost_is_found(void **state)
{
    const uint64_t seed = test_seed();
    bool through = false;
    unsigned commits = 0;

    (void)state;
    for (uint64_t n = 1; n < REQUESTS_MAX && !through; n++) {
        struct packing *packing = packing_new(seed);
        struct about about = {.verb = G4_GET};
        struct memory_bucket_client client = {.memory = &packing->memory,
                                              .at = n,
                                              .death = MEMORY_BUCKET_STUMBLES,
                                              .between = note,
                                              .arg = &about};
        struct g4_compaction_report report;
        enum kvt_err rc;

        packing_prepare(packing);
        rc = packing_compact(packing, &client, &report);
        through = client.calls < n;
        if (is_commit(&about)) {
            assert_int_equal(rc, KVT_OK);
            commits++;
        }
        packing_free(packing);
    }
    assert_true(through && commits >= 2);
}

/* A deletion that is about to be sent, and the lock under which it is. */
struct overseer {
    const struct g4_lock *held;
    struct memory_bucket *memory;
    unsigned deletions;
};

static void
oversee(void *arg, const struct g4_request *request)
{
    struct overseer *overseer = arg;
    const struct g4_lock_clock clock = memory_bucket_clock(overseer->memory);
    const uint64_t rest_ms = g4_lock_stop_ms(overseer->held) - clock.mono_ms(clock.arg);

    if (request->verb != G4_DELETE)
        return;
    overseer->deletions++;
    assert_true(request->deadline_ms > 0);
    assert_true(request->deadline_ms <= kvt_clock_mono_ms() + rest_ms);
}

/* Whatever a request is given by the settings. */
static void
no_deletion_outlives_the_lease(void **state)
{
    const uint64_t seed = test_seed();
    struct overseer overseer = {.deletions = 0};
    bool through = false;

    (void)state;
    for (uint64_t n = 1; n < REQUESTS_MAX && !through; n++) {
        struct packing *packing = packing_new(seed);
        struct memory_bucket_client client = {
            .memory = &packing->memory, .between = oversee, .arg = &overseer};
        struct g4_store *store = memory_bucket_open(&client);
        const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
        struct g4_compaction_options options;
        struct g4_compaction_report report;
        struct g4_lock *held;

        packing_prepare(packing);
        assert_int_equal(packing_lock(store, &clock, &held), KVT_OK);
        overseer.held = held;
        overseer.memory = &packing->memory;
        client.calls = 0; /* those of the lock are not meant */
        client.at = n;
        options = packing_options(packing, store, held, &clock);
        options.request_ms = 10 * G4_LOCK_TTL_DEFAULT_MS;
        assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_OK);
        through = client.calls < n;
        client.at = 0;
        assert_int_equal(g4_lock_release(held, NULL), KVT_OK);
        g4_store_close(store);
        packing_free(packing);
    }
    assert_true(through);
    assert_true(overseer.deletions > 10);
}

static void
an_older_epoch_stops(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_store *store = memory_bucket_open(&client);
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    struct g4_compaction_options options;
    struct g4_compaction_report report;
    struct g4_manifest manifest = {.number = 0};
    const struct g4_manifest_log log = {.store = store, .namespace_ = PACKING_NAMESPACE};
    struct g4_lock *held;
    uint64_t number;

    (void)state;
    packing_prepare(packing);
    assert_int_equal(packing_lock(store, &clock, &held), KVT_OK);
    options = packing_options(packing, store, held, &clock);
    packing_sleep(packing); /* ours is over, and another packs */
    packing_settle(packing);
    assert_int_equal(g4_manifest_log_load(&log, &manifest, NULL), KVT_OK);
    number = manifest.number;
    assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_PRECONDITION);
    assert_true(report.more);
    (void)g4_lock_release(held, NULL);

    /* With a lock that somebody deleted, epochs begin anew: the manifest knows better. */
    assert_int_equal(del(packing->store, PACKING_NAMESPACE "/.kvt/compaction.lock"), KVT_OK);
    assert_int_equal(packing_lock(store, &clock, &held), KVT_OK);
    assert_true(g4_lock_epoch(held) > manifest.epoch);
    (void)g4_lock_release(held, NULL);
    g4_manifest_release(&manifest);
    manifest.number = number - 1;
    assert_int_equal(g4_manifest_log_load(&log, &manifest, NULL), KVT_OK);
    assert_int_equal(manifest.number, number);
    g4_manifest_release(&manifest);
    g4_store_close(store);
    packing_free(packing);
}

/* As above, where only the manifest can tell: the lock itself is fine. */
static void
an_older_epoch_with_a_good_lock_stops(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_store *store = memory_bucket_open(&client);
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    const struct g4_manifest_log log = {.store = store, .namespace_ = PACKING_NAMESPACE};
    struct g4_manifest next = {.number = 1, .epoch = 1000};
    struct g4_compaction_options options;
    struct g4_compaction_report report;
    struct g4_lock *held;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    assert_int_equal(packing_lock(store, &clock, &held), KVT_OK);
    options = packing_options(packing, store, held, &clock);
    assert_int_equal(g4_manifest_log_commit(&log, &next, NULL), KVT_OK);
    assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_PRECONDITION);
    assert_int_equal(memory_bucket_count(&packing->memory, SEGMENTS), 0);
    (void)g4_lock_release(held, NULL);
    g4_store_close(store);
    packing_free(packing);
}

/* A lock that can neither be renewed nor asked about ends by its clock. */
static void
a_lock_out_of_reach_ends_in_time(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client far = {.memory = &packing->memory};
    struct g4_store *lock_store = memory_bucket_open(&far);
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    struct g4_compaction_options options;
    struct g4_compaction_report report;
    struct g4_lock *held;

    (void)state;
    packing_prepare(packing);
    assert_int_equal(packing_lock(lock_store, &clock, &held), KVT_OK);
    far.dead = true;
    options = packing_options(packing, packing->store, held, &clock);
    packing->memory.now_ms += G4_LOCK_TTL_DEFAULT_MS / 2;
    assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_OK); /* still ours */
    packing_sleep(packing);
    assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_PRECONDITION);
    (void)g4_lock_release(held, NULL);
    g4_store_close(lock_store);
    packing_free(packing);
}

/* Reading a listing takes longer than a lease: its renewals keep the lock. */
static void
a_long_listing_keeps_the_lock(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client slow = {.memory = &packing->memory,
                                        .slow_ms = G4_LOCK_TTL_DEFAULT_MS * MEMORY_BUCKET_PAGE /
                                                   PACKING_BLOCKS};
    struct g4_compaction_report report;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    packing->settings.age_ms = UINT64_C(3600000);
    assert_int_equal(packing_compact(packing, &slow, &report), KVT_OK); /* nothing is old enough */
    assert_int_equal(report.plain_blocks, PACKING_BLOCKS);
    packing->settings.age_ms = 0;
    assert_int_equal(packing_compact(packing, &slow, &report), KVT_OK);
    assert_true(report.packed > 0);
    packing_settle(packing);
    packing_check(packing);
    packing_free(packing);
}

static void
stop_it(void *arg, const struct g4_request *request)
{
    (void)request;
    atomic_store((atomic_bool *)arg, true);
}

/* Who packs hears of a stop while he reads a page, of whatever listing that is. */
static void
a_stop_ends_a_listing(void **state)
{
    bool through = false;
    unsigned listings = 0;

    (void)state;
    for (uint64_t n = 1; n < REQUESTS_MAX && !through; n++) {
        struct packing *packing = packing_new(test_seed());
        atomic_bool stop = false;
        struct memory_bucket_client client = {
            .memory = &packing->memory, .between = stop_it, .arg = &stop};
        struct g4_store *store = memory_bucket_open(&client);
        struct g4_compaction_options options = packing_options(packing, store, NULL, NULL);
        struct g4_compaction_report report;
        enum kvt_err rc;

        for (unsigned i = 0; i < PACKING_BLOCKS; i++)
            packing_put(packing, i);
        options.settings.age_ms = UINT64_C(3600000);
        options.stop = &stop;
        client.at = n;
        rc = g4_compaction_run(&options, &report, NULL);
        through = client.calls < n;
        if (n > 1 && report.plain_blocks < PACKING_BLOCKS) {
            assert_int_equal(rc, KVT_CANCELLED);
            assert_int_equal(client.calls, n); /* not one page more */
            listings++;
        }
        g4_store_close(store);
        packing_free(packing);
    }
    assert_true(through);
    assert_in_range(listings, PACKING_BLOCKS / MEMORY_BUCKET_PAGE - 1,
                    PACKING_BLOCKS / MEMORY_BUCKET_PAGE + 1);
}

/* Deletions alone leave no more manifests than packing does. */
static void
deletions_prune_manifests(void **state)
{
    struct packing *packing = packing_new(test_seed());

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    packing_settle(packing);
    for (unsigned i = 0; i < PACKING_BLOCKS; i++) {
        assert_int_equal(packing_delete(packing, i), KVT_OK);
        assert_in_range(memory_bucket_count(&packing->memory, MANIFESTS), 1,
                        2 * G4_MANIFEST_KEEP - 1);
    }
    packing_check(packing);
    packing_free(packing);
}

/* A writer that slept until its number had been deleted creates it once more, and learns that. */
static void
a_number_that_is_free_again_is_no_commit(void **state)
{
    struct packing *packing = packing_new(test_seed());
    const struct g4_manifest_log log = {.store = packing->store, .namespace_ = PACKING_NAMESPACE};
    struct g4_manifest stale = {.number = 3, .epoch = 1};
    struct g4_manifest newest = {.number = 0};
    uint64_t deleted;

    (void)state;
    for (uint64_t i = 1; i <= 3 + G4_MANIFEST_KEEP; i++) {
        struct g4_manifest next = {.number = i, .epoch = 1};

        assert_int_equal(g4_manifest_log_commit(&log, &next, NULL), KVT_OK);
        assert_int_equal(g4_manifest_log_prune(&log, i, &deleted, NULL), KVT_OK);
        assert_int_equal(deleted, i > G4_MANIFEST_KEEP);
        assert_int_equal(g4_manifest_log_commit(&log, &next, NULL), KVT_EXISTS);
    }
    assert_int_equal(g4_manifest_log_commit(&log, &stale, NULL), KVT_UNAVAILABLE);
    stale.number = 4;
    assert_int_equal(g4_manifest_log_commit(&log, &stale, NULL), KVT_EXISTS);
    assert_int_equal(g4_manifest_log_load(&log, &newest, NULL), KVT_OK);
    assert_int_equal(newest.number, 3 + G4_MANIFEST_KEEP);
    assert_int_equal(g4_manifest_log_prune(&log, newest.number, &deleted, NULL), KVT_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(memory_bucket_count(&packing->memory, MANIFESTS), G4_MANIFEST_KEEP);
    g4_manifest_release(&newest);
    packing_free(packing);
}

static void
triggers_decide_what_is_packed(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client client = {.memory = &packing->memory};
    const struct g4_compaction_settings usual = packing->settings;
    struct g4_compaction_report report;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    packing->settings.age_ms = 3600000;
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_int_equal(report.packed, 0);
    assert_int_equal(report.plain_blocks, PACKING_BLOCKS);
    packing->settings = usual;
    packing->settings.mean_max = 100;
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_int_equal(report.packed, 0);
    packing->settings = usual;
    packing->settings.bytes_max = 1000; /* a run at a time */
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_in_range(report.copied_bytes, 400, 1000);
    assert_true(report.more);
    packing->settings = usual;
    packing->settings.block_max = 200;
    packing_settle(packing);
    for (size_t i = 0; i < packing->memory.count; i++) /* what is larger is as it was */
        if (packing_block(packing->memory.objects[i].key) < PACKING_BLOCKS)
            assert_in_range(packing->memory.objects[i].size, 201, PACKING_BODY_MAX);
    packing_check(packing);
    packing->settings.segment_bytes = 1;
    assert_int_equal(packing_compact(packing, &client, &report), KVT_RANGE);
    packing_free(packing);
}

/* One flipped byte in a segment costs one block, and nothing that reads ever sees it. */
static void
a_damaged_block_is_a_miss(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_compaction_report report;
    struct fetched *found = kvt_calloc(1, sizeof(*found));
    struct g4_store *reader = packing_reader(packing);
    unsigned corrupt = 0;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    packing_settle(packing);
    for (size_t i = 0; i < packing->memory.count; i++)
        if (strncmp(packing->memory.objects[i].key, SEGMENTS, strlen(SEGMENTS)) == 0) {
            packing->memory.objects[i].body[G4_SEGMENT_HEADER_SIZE + 5] ^= 4;
            break;
        }
    for (unsigned i = 0; i < PACKING_BLOCKS; i++) {
        char key[KVT_KEY_MAX];
        enum kvt_err rc;

        packing_key(i, key);
        rc = get(reader, key, found);
        assert_true(rc == KVT_OK || rc == KVT_CORRUPT);
        corrupt += rc == KVT_CORRUPT;
    }
    assert_int_equal(corrupt, 1);
    g4_store_close(reader);
    kvt_free(found);

    /* Copying forward leaves it where it is, and the others go. */
    packing->settings.live_min_ppm = 1000000;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        if (i % 4 == 1 || i % 4 == 2) /* of either rank, and so of every segment */
            assert_int_equal(packing_delete(packing, i), KVT_OK);
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_true(report.forwarded > 0);
    packing_free(packing);
}

/* Its segments went away under it: it finds out by itself, and what is lost for good is no miss. */
static void
a_reader_left_behind_catches_up(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct fetched *found = kvt_calloc(1, sizeof(*found));
    char segment[KVT_KEY_MAX];
    char key[KVT_KEY_MAX];
    uint64_t calls;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    packing_settle(packing);
    packing_key(7, key);
    assert_int_equal(get(packing->stale, key, found), KVT_OK);
    calls = packing->user.calls;
    assert_int_equal(get(packing->stale, key, found), KVT_OK);
    assert_int_equal(packing->user.calls, calls + 1); /* the segment, and nothing else */
    packing->settings.segment_bytes *= 4;             /* all are small */
    packing_settle(packing);
    calls = packing->user.calls;
    assert_int_equal(get(packing->stale, key, found), KVT_OK);
    assert_true(packing->user.calls > calls + 1);

    for (size_t i = packing->memory.count; i > 0; i--) {
        memcpy(segment, packing->memory.objects[i - 1].key, sizeof(segment));
        if (strncmp(segment, SEGMENTS, strlen(SEGMENTS)) == 0)
            assert_int_equal(del(packing->store, segment), KVT_OK);
    }
    assert_int_equal(get(packing->stale, key, found), KVT_CORRUPT);
    assert_int_equal(packing_delete(packing, 7), KVT_OK);
    assert_int_equal(get(packing->stale, key, found), KVT_NOTFOUND);
    kvt_free(found);
    packing_free(packing);
}

static void
memory_may_run_out_anywhere(void **state)
{
    const uint64_t seed = test_seed();
    bool through = false;

    (void)state;
    for (size_t n = 0; n < ALLOCATIONS_MAX && !through; n += 1 + n / 64) {
        const size_t live = kvt_alloc_live();
        struct packing *packing = packing_new(seed);
        const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
        struct g4_compaction_options options;
        struct g4_compaction_report report;
        struct g4_lock *held;
        enum kvt_err rc;

        packing_prepare(packing);
        assert_int_equal(packing_lock(packing->store, &clock, &held), KVT_OK);
        options = packing_options(packing, packing->store, held, &clock);
        kvt_alloc_fail_after(n);
        rc = g4_compaction_run(&options, &report, NULL);
        kvt_alloc_fail_after(SIZE_MAX);
        through = rc == KVT_OK;
        (void)g4_lock_release(held, NULL);
        packing_check(packing);
        packing_settle(packing);
        packing_check(packing);
        packing_check_tidy(packing);
        packing_free(packing);
        assert_int_equal(kvt_alloc_live(), live);
    }
    assert_true(through);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_of_a_later_epoch_are_not_touched),
        cmocka_unit_test(a_late_commit_finds_its_number_taken),
        cmocka_unit_test(a_commit_whose_answer_was_lost_is_found),
        cmocka_unit_test(no_deletion_outlives_the_lease),
        cmocka_unit_test(an_older_epoch_stops),
        cmocka_unit_test(an_older_epoch_with_a_good_lock_stops),
        cmocka_unit_test(a_lock_out_of_reach_ends_in_time),
        cmocka_unit_test(a_long_listing_keeps_the_lock),
        cmocka_unit_test(a_stop_ends_a_listing),
        cmocka_unit_test(deletions_prune_manifests),
        cmocka_unit_test(a_number_that_is_free_again_is_no_commit),
        cmocka_unit_test(triggers_decide_what_is_packed),
        cmocka_unit_test(a_damaged_block_is_a_miss),
        cmocka_unit_test(a_reader_left_behind_catches_up),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
