/*
 * What is tested: g4/packed/packed_store.h where two are at one namespace and the lock decides: a
 * block that is written over between any two steps of packing, whose object the packer then
 * removes; deletions that wait for a lock hold up no other namespace, ask the bucket little, take
 * out no other block than they name, each once for all who ask, and end at once when the store is
 * closed.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "g4/packed/packed_store.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/memory_bucket.h"

#define SPACES   "a,b"
#define YEARS_MS (UINT64_C(10) * 365 * 24 * 3600 * 1000)

enum { STEPS_MAX = 200, BOUND_MS = 30000, FRESH_MS = 1 };

static const struct g4_selftest proved = {
    .put_if_absent = true,
    .put_if_match = true,
    .if_match_missing = true,
    .list_after_write = true,
    .meta_kept = true,
    .etag_changes = true,
    .one_creator = true,
    .one_changer = true,
    .server_clock = true,
};

/* A bucket where the PUT of one key and one step of the thread that packs meet. */
struct meeting {
    struct memory_bucket memory;
    struct memory_bucket_client client;
    struct g4_store *inner; /* of the memory bucket */
    struct g4_store *store; /* packed, on top of this */
    char key[KVT_KEY_MAX];  /* of the block, in "a" */
    char etag[G4_ETAG_MAX];
    pthread_t packer;
    unsigned step;         /* of the packer, before which the PUT is done */
    unsigned steps;        /* that it has made */
    atomic_bool met;       /* the packer is there, or at its end */
    atomic_bool arrived;   /* so is the PUT, */
    atomic_bool stored;    /* and it is done */
    atomic_bool answered;  /* whoever wrote knows */
    atomic_bool meets;     /* a PUT is waited for */
    atomic_uint manifests; /* asked for, in "a" */
    atomic_bool locking;   /* so was the lock of "a" */
    struct fetched fetched;
};

/* False: it did not come. */
static bool
wait_for(const atomic_bool *flag)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + BOUND_MS;

    while (!atomic_load(flag) && kvt_clock_mono_ms() < end_ms)
        kvt_clock_sleep_ms(1);
    return atomic_load(flag);
}

static enum kvt_err
submit_meeting(void *self, struct g4_request *request)
{
    struct meeting *meeting = self;
    const bool packs = pthread_equal(pthread_self(), meeting->packer) != 0;
    const bool writes = request->verb == G4_PUT && strcmp(request->key, meeting->key) == 0;
    enum kvt_err rc;

    if (strncmp(request->key, "a/.kvt/manifest/", 16) == 0)
        atomic_fetch_add(&meeting->manifests, 1);
    if (strncmp(request->key, "a/.kvt/compaction", 17) == 0)
        atomic_store(&meeting->locking, true);
    if (!atomic_load(&meeting->meets))
        return g4_store_submit(meeting->inner, request);
    if (packs && ++meeting->steps == meeting->step) {
        atomic_store(&meeting->met, true);
        (void)!wait_for(&meeting->stored);
    }
    if (!writes)
        return g4_store_submit(meeting->inner, request);
    atomic_store(&meeting->arrived, true);
    (void)!wait_for(&meeting->met);
    rc = g4_store_submit(meeting->inner, request);
    atomic_store(&meeting->stored, true);
    return rc;
}

static void
close_meeting(void *self)
{
    g4_store_close(((struct meeting *)self)->inner);
}

static void
key_of(const char *namespace_, unsigned number, char out[KVT_KEY_MAX])
{
    const struct kvt_block_id id = {.hash = 7 + number, .parent = 6, .position = 100};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, namespace_, 1, &id), KVT_OK);
}

/* One block in each of the two namespaces; `patience_ms` as g4/packed/packed_store.h has it. */
static struct meeting *
meeting_new(bool alone, uint64_t patience_ms)
{
    static const struct g4_store_driver driver = {
        .name = "meeting", .submit = submit_meeting, .close = close_meeting};
    const struct g4_packed_store_options options = {.namespaces = SPACES,
                                                    .instance = "gw0",
                                                    .alone = alone,
                                                    .fresh_ms = FRESH_MS,
                                                    .patience_ms = patience_ms};
    struct meeting *meeting = kvt_calloc(1, sizeof(*meeting));
    struct g4_store *gate;
    char key[KVT_KEY_MAX];

    meeting->packer = pthread_self();
    meeting->memory.now_ms -= YEARS_MS; /* what is on it is old by the clock of those who pack */
    meeting->client.memory = &meeting->memory;
    meeting->inner = memory_bucket_open(&meeting->client);
    assert_int_equal(g4_store_new(&gate, &driver, meeting), KVT_OK);
    assert_int_equal(g4_packed_store_open(&meeting->store, gate, &options, NULL), KVT_OK);
    g4_packed_store_prove(meeting->store, &proved);
    key_of("a", 0, meeting->key);
    key_of("b", 0, key);
    assert_int_equal(put_absent(meeting->store, key, "right", 5, NULL), KVT_OK);
    assert_int_equal(put_absent(meeting->store, meeting->key, "right", 5, meeting->etag), KVT_OK);
    return meeting;
}

static void
meeting_free(struct meeting *meeting)
{
    g4_store_close(meeting->store);
    memory_bucket_clear(&meeting->memory);
    kvt_free(meeting);
}

static void
pack(struct meeting *meeting, size_t index)
{
    struct g4_compaction_settings settings = g4_compaction_defaults();
    struct g4_compaction_report report;
    struct kvt_error err;

    settings.age_ms = 0;
    settings.bytes_min = 1;
    do {
        const enum kvt_err rc =
            g4_packed_store_compact(meeting->store, index, &settings, &report, &err);

        if (rc != KVT_OK && rc != KVT_CANCELLED && rc != KVT_BUSY)
            fail_msg("%s", err.text);
    } while (report.more);
}

static void
on_answer(struct g4_request *request, void *arg)
{
    (void)request;
    atomic_store((atomic_bool *)arg, true);
}

static void
expect_body(struct meeting *meeting, const char *key, const char *body)
{
    kvt_clock_sleep_ms(2 * FRESH_MS);
    assert_int_equal(get(meeting->store, key, &meeting->fetched), KVT_OK);
    assert_int_equal(meeting->fetched.size, strlen(body));
    assert_memory_equal(meeting->fetched.body, body, strlen(body));
}

/* ---- writing over what is being packed ---- */

/* The write knows of no packing when it begins; false: packing has no such step. */
static bool
write_at(unsigned step, enum g4_condition condition)
{
    struct meeting *meeting = meeting_new(true, 0);
    struct g4_request request = {.verb = G4_PUT,
                                 .key = meeting->key,
                                 .condition = condition,
                                 .body = "left",
                                 .body_size = 4,
                                 .meta = {.present = true, .length = 4},
                                 .done = on_answer,
                                 .arg = &meeting->answered};
    bool found;

    memcpy(request.etag, meeting->etag, sizeof(request.etag));
    request.meta.crc32c = g4_check_crc32c("left", 4);
    meeting->step = step;
    atomic_store(&meeting->meets, true);
    assert_int_equal(g4_store_submit(meeting->store, &request), KVT_OK);
    assert_true(wait_for(&meeting->arrived));
    pack(meeting, 0);
    found = meeting->steps >= step;
    atomic_store(&meeting->met, true);
    assert_true(wait_for(&meeting->answered));
    atomic_store(&meeting->meets, false);
    assert_int_equal(request.status, KVT_OK);
    expect_body(meeting, meeting->key, "left");
    assert_string_equal(meeting->fetched.etag, request.etag);
    pack(meeting, 0);
    expect_body(meeting, meeting->key, "left");
    meeting_free(meeting);
    return found;
}

static void
written_over_while_it_is_packed(void **state)
{
    static const enum g4_condition conditions[] = {G4_ALWAYS, G4_IF_MATCH};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        unsigned step = 1;

        while (write_at(step, conditions[i]))
            assert_true(++step < STEPS_MAX);
        assert_true(step > 8);
    }
}

/* ---- waiting ---- */

/* Somebody else has "a", as far as the bucket tells: for as long as no request takes a minute. */
static struct g4_lock *
lock_by_another(struct meeting *meeting, const struct g4_lock_clock *clock)
{
    const struct g4_lock_options options = {
        .store = meeting->inner, .proved = &proved, .instance = "gw1", .clock = clock};
    struct g4_lock *held;

    assert_int_equal(g4_compaction_lock(&held, &options, "a", NULL), KVT_OK);
    return held;
}

static void
begin_delete(struct meeting *meeting, struct g4_request *request)
{
    *request = (struct g4_request){
        .verb = G4_DELETE, .key = meeting->key, .done = on_answer, .arg = &meeting->answered};
    assert_int_equal(g4_store_submit(meeting->store, request), KVT_OK);
}

static void
nobody_waits_for_others(void **state)
{
    struct meeting *meeting = meeting_new(false, 0);
    const struct g4_lock_clock clock = memory_bucket_clock(&meeting->memory);
    struct g4_request request;
    struct g4_lock *held;
    char key[KVT_KEY_MAX];
    unsigned asked;

    (void)state;
    pack(meeting, 0);
    pack(meeting, 1);
    held = lock_by_another(meeting, &clock);
    begin_delete(meeting, &request);
    asked = atomic_load(&meeting->manifests);
    key_of("b", 0, key);
    assert_int_equal(del(meeting->store, key), KVT_OK);
    for (unsigned i = 1; i < 20; i++) {
        key_of("b", i, key);
        assert_int_equal(put_absent(meeting->store, key, "more", 4, NULL), KVT_OK);
        pack(meeting, 1);
        assert_int_equal(del(meeting->store, key), KVT_OK);
    }
    assert_false(atomic_load(&meeting->answered));
    /* A look before and one behind the DELETE, and those of the first try for the lock: a LIST and
     * a GET each. */
    assert_in_range(atomic_load(&meeting->manifests) - asked, 0, 8);
    assert_int_equal(g4_lock_release(held, NULL), KVT_OK);
    assert_true(wait_for(&meeting->answered));
    assert_int_equal(request.status, KVT_OK);
    assert_int_equal(get(meeting->store, meeting->key, &meeting->fetched), KVT_NOTFOUND);
    meeting_free(meeting);
}

/* Two wait for the deletion of one block; both are answered. */
static void
a_block_is_deleted_twice(void **state)
{
    struct meeting *meeting = meeting_new(false, 0);
    const struct g4_lock_clock clock = memory_bucket_clock(&meeting->memory);
    atomic_bool also_answered = false;
    struct g4_request requests[2];
    struct g4_lock *held;

    (void)state;
    pack(meeting, 0);
    held = lock_by_another(meeting, &clock);
    begin_delete(meeting, &requests[0]);
    requests[1] = (struct g4_request){
        .verb = G4_DELETE, .key = meeting->key, .done = on_answer, .arg = &also_answered};
    assert_int_equal(g4_store_submit(meeting->store, &requests[1]), KVT_OK);
    kvt_clock_sleep_ms(2 * FRESH_MS);
    assert_int_equal(g4_lock_release(held, NULL), KVT_OK);
    assert_true(wait_for(&meeting->answered));
    assert_true(wait_for(&also_answered));
    assert_int_equal(requests[0].status, KVT_OK);
    assert_int_equal(requests[1].status, KVT_OK);
    assert_int_equal(get(meeting->store, meeting->key, &meeting->fetched), KVT_NOTFOUND);
    meeting_free(meeting);
}

/* Who has the lock puts another in place of the block. */
static void
replace(struct meeting *meeting, struct g4_lock *held, const struct g4_lock_clock *clock)
{
    struct g4_compaction_options options = {.store = meeting->inner,
                                            .namespace_ = "a",
                                            .lock = held,
                                            .clock = clock,
                                            .settings = g4_compaction_defaults(),
                                            .writer = "gw1"};
    struct g4_compaction_retirement one = {.only_this = false};
    struct g4_compaction_report report;
    struct kvt_key key;

    options.settings.age_ms = 0;
    options.settings.bytes_min = 1;
    assert_int_equal(kvt_key_parse(meeting->key, &key), KVT_OK);
    one.block = g4_segment_entry_of(&key);
    assert_int_equal(g4_compaction_retire(&options, &one, 1, NULL), KVT_OK);
    assert_int_equal(one.outcome, KVT_OK);
    assert_int_equal(put_absent(meeting->inner, meeting->key, "left", 4, NULL), KVT_OK);
    assert_int_equal(g4_compaction_run(&options, &report, NULL), KVT_OK);
    assert_int_equal(report.packed, 1);
}

/* The block that a conditional deletion names is not the one that it finds when it has the lock. */
static void
what_was_put_since_is_not_deleted(void **state)
{
    struct meeting *meeting = meeting_new(false, 0);
    const struct g4_lock_clock clock = memory_bucket_clock(&meeting->memory);
    struct g4_request request = {.verb = G4_DELETE,
                                 .key = meeting->key,
                                 .condition = G4_IF_MATCH,
                                 .done = on_answer,
                                 .arg = &meeting->answered};
    struct g4_lock *held;

    (void)state;
    pack(meeting, 0);
    held = lock_by_another(meeting, &clock);
    atomic_store(&meeting->locking, false);
    memcpy(request.etag, meeting->etag, sizeof(request.etag));
    assert_int_equal(g4_store_submit(meeting->store, &request), KVT_OK);
    assert_true(wait_for(&meeting->locking));
    replace(meeting, held, &clock);
    assert_int_equal(g4_lock_release(held, NULL), KVT_OK);
    assert_true(wait_for(&meeting->answered));
    assert_int_equal(request.status, KVT_PRECONDITION);
    expect_body(meeting, meeting->key, "left");
    meeting_free(meeting);
}

static void
a_stop_ends_the_waiting(void **state)
{
    struct meeting *meeting = meeting_new(false, 10 * BOUND_MS);
    const struct g4_lock_clock clock = memory_bucket_clock(&meeting->memory);
    struct g4_request request;
    struct g4_lock *held;

    (void)state;
    pack(meeting, 0);
    held = lock_by_another(meeting, &clock);
    begin_delete(meeting, &request);
    g4_packed_store_stop(meeting->store);
    assert_true(wait_for(&meeting->answered));
    assert_int_equal(request.status, KVT_AGAIN);
    expect_body(meeting, meeting->key, "right");
    (void)g4_lock_release(held, NULL);
    meeting_free(meeting);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_over_while_it_is_packed),
        cmocka_unit_test(nobody_waits_for_others),
        cmocka_unit_test(a_block_is_deleted_twice),
        cmocka_unit_test(what_was_put_since_is_not_deleted),
        cmocka_unit_test(a_stop_ends_the_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
