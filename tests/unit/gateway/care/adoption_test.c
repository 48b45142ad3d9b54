/*
 * What is tested: gateway/care/adoption.h over a bucket that others filled.
 * How: objects of every kind are planted, the bucket is taken up, and the rows are compared with
 * what a reader of the bucket would say; the same with a restart after each batch, with objects
 * that are changed and removed meanwhile, and with a bucket that does not answer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "g4/object/object_name.h"
#include "gateway/block/removal.h"
#include "gateway/care/adoption.h"
#include "gateway/move/move.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"

enum {
    SIZE = 500,
    WAIT_MS = 30000,
    STEP_MS = 2,
    REMOVE_MS = 200,
    MANY = 5 * GATEWAY_ADOPTION_BATCH / 2
};

struct fixture {
    struct test_gateway g;
    struct gateway_adoption *adoption;
};

static void
open_adoption(struct fixture *f)
{
    struct kvt_error err;

    if (gateway_adoption_open(&f->adoption, f->g.context, &err) != KVT_OK)
        fail_msg("%s", err.text);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_gateway_open(&f->g, 1u << 20, 0);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_adoption_close(f->adoption);
    test_gateway_close(&f->g);
    kvt_free(f);
    return 0;
}

static void
restart(struct fixture *f)
{
    gateway_adoption_close(f->adoption);
    f->adoption = NULL;
    test_gateway_reopen(&f->g);
}

/* ---- planting ---- */

/* Block `number` as another gateway wrote it (`bare`: as KVBM would). */
static void
plant_block(struct fixture *f, uint64_t number, bool bare)
{
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];
    struct g4_meta meta = {.present = !bare, .length = SIZE, .fingerprint = 7, .writer = "gw9"};

    test_gateway_fill(body, sizeof(body), number);
    meta.crc32c = g4_check_crc32c(body, sizeof(body));
    if (bare)
        meta = (struct g4_meta){.present = false};
    assert_int_equal(test_gateway_store_put(f->g.bucket, test_gateway_key(key, number), body,
                                            sizeof(body), &meta),
                     KVT_OK);
}

static void
plant_opaque(struct fixture *f, const char *key, size_t size)
{
    const struct g4_meta meta = {.present = false};
    uint8_t body[SIZE] = {1};

    assert_int_equal(test_gateway_store_put(f->g.bucket, key, body, size, &meta), KVT_OK);
}

/* ---- looking ---- */

static struct gateway_adoption_mark
mark_of(struct fixture *f)
{
    struct gateway_adoption_view view;

    gateway_adoption_view(f->adoption, &view);
    return view.mark;
}

static struct gateway_adoption_mark
wait_for(struct fixture *f, enum gateway_adoption_state state)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct gateway_adoption_mark mark;

    while ((mark = mark_of(f)).state != state) {
        if (kvt_clock_mono_ms() > until_ms)
            fail_msg("%s, not %s", gateway_adoption_state_name(mark.state),
                     gateway_adoption_state_name(state));
        kvt_clock_sleep_ms(STEP_MS);
    }
    return mark;
}

static void
wait_listed(struct fixture *f, uint64_t listed)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    while (mark_of(f).listed < listed) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(STEP_MS);
    }
}

static bool
row_of(struct fixture *f, const char *key, struct gateway_record *record)
{
    return gateway_catalog_get(f->g.context->catalog, key, record) == KVT_OK;
}

static struct gateway_catalog_stats
stats_of(struct fixture *f)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(f->g.context->catalog, &stats);
    return stats;
}

/* Every row is an object of the bucket with its length and ETag; how many there are. */
static size_t
compare_rows(struct fixture *f)
{
    struct gateway_row *rows = kvt_calloc(1000, sizeof(*rows));
    struct gateway_scan scan = {.rows = rows, .capacity = 1000};
    uint64_t bytes = 0;
    size_t count;

    assert_int_equal(gateway_catalog_scan(f->g.context->catalog, &scan), KVT_OK);
    assert_true(scan.end);
    for (size_t i = 0; i < scan.count; i++) {
        struct g4_request head;

        if (test_gateway_store_head(f->g.bucket, rows[i].key, &head) != KVT_OK)
            fail_msg("%s: a row and no object", rows[i].key);
        assert_int_equal(head.buffer_size, rows[i].record.length);
        assert_string_equal(head.etag, rows[i].record.etag);
        bytes += rows[i].record.length;
    }
    assert_int_equal(stats_of(f).used[1], bytes);
    count = scan.count;
    kvt_free(rows);
    return count;
}

/* ---- tests ---- */

static void
an_empty_bucket_is_whole(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(test_gateway_put(&f->g, 1, SIZE), KVT_OK); /* our own is no stranger */
    open_adoption(f);
    assert_true(wait_for(f, GATEWAY_ADOPTION_DONE).whole);
    restart(f);
    plant_block(f, 2, false); /* another gateway's, later: the cap still holds */
    open_adoption(f);
    assert_int_equal(mark_of(f).state, GATEWAY_ADOPTION_DONE);
}

/* Each kind gets the row that is its own, or none. */
static void
each_kind_gets_its_row(void **state)
{
    static const char *const signs[] = {"a.lock", TEST_NAMESPACE "/0:11111113.meta",
                                        ".kvtier-bucket/b", ".kvtier-selftest/1"};
    struct g4_object_name odd;
    struct g4_object_name other;
    const struct g4_meta dead = {.present = true, .writer = G4_KIND_TOMBSTONE_WRITER};
    struct fixture *f = *state;
    struct gateway_adoption_mark mark;
    struct gateway_record record;
    struct gateway_stream stream;
    char key[KVT_KEY_MAX];

    plant_block(f, 1, false);
    plant_block(f, 2, true);
    assert_int_equal(g4_object_name_make(&odd, "", "note s/\xc3\xa4+=%2F"), KVT_OK);
    assert_int_equal(g4_object_name_make(&other, "0123", "of another bucket"), KVT_OK);
    plant_opaque(f, odd.text, 17);
    plant_opaque(f, other.text, 0);
    for (size_t i = 0; i < 4; i++)
        plant_opaque(f, signs[i], 1);
    assert_int_equal(test_gateway_store_put(f->g.bucket, test_gateway_key(key, 3), "", 0, &dead),
                     KVT_OK);
    open_adoption(f);
    assert_false(wait_for(f, GATEWAY_ADOPTION_NEEDED).whole);
    assert_int_equal(stats_of(f).entries, 0);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    mark = wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_true(mark.whole);
    assert_int_equal(mark.listed, 9);
    assert_int_equal(mark.adopted, 4);
    assert_int_equal(mark.adopted_bytes, 2 * SIZE + 17);
    assert_int_equal(mark.adopted_foreign, 1);
    assert_int_equal(mark.adopted_opaque, 2);
    assert_int_equal(mark.passed, 5);
    assert_int_equal(mark.known + mark.damaged + mark.refused, 0);
    assert_int_equal(compare_rows(f), 4);
    assert_true(row_of(f, test_gateway_key(key, 1), &record) && !record.foreign && !record.opaque);
    assert_string_equal(record.writer, "gw9");
    assert_int_not_equal(record.modified_ms, 0);
    assert_true(row_of(f, test_gateway_key(key, 2), &record) && record.foreign && !record.opaque);
    assert_true(row_of(f, odd.text, &record) && record.opaque);
    /* One event a block, the foreign one's included. */
    assert_true(gateway_catalog_stream(f->g.context->catalog, 0, &stream));
    assert_string_equal(stream.namespace_, TEST_NAMESPACE);
    assert_int_equal(stream.next_seq, 3);
    assert_int_equal(test_gateway_get(&f->g, 1, SIZE, NULL), KVT_OK);
}

/* It counts, and is neither served nor moved; who puts it makes it a block like any other. */
static void
a_foreign_block_counts_and_is_a_miss(void **state)
{
    struct fixture *f = *state;
    struct gateway_record record;
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    plant_block(f, 1, true);
    plant_block(f, 2, true);
    open_adoption(f);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    (void)wait_for(f, GATEWAY_ADOPTION_DONE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(test_gateway_has(&f->g, 1), KVT_NOTFOUND);
        assert_int_equal(test_gateway_get(&f->g, 1, SIZE, NULL), KVT_NOTFOUND);
    }
    assert_int_equal(gateway_quarantine_count(f->g.context->quarantine), 0);
    assert_true(row_of(f, test_gateway_key(key, 1), &record) && record.foreign);
    assert_int_equal(test_gateway_promote(f->g.context, key, &bytes), KVT_UNSUPPORTED);
    assert_int_equal(test_gateway_put(&f->g, 1, SIZE), KVT_OK); /* the same bytes */
    assert_int_equal(test_gateway_get(&f->g, 1, SIZE, NULL), KVT_OK);
    assert_true(row_of(f, key, &record) && !record.foreign);
    plant_block(f, 2, false); /* another gateway wrote it anew */
    assert_int_equal(test_gateway_get(&f->g, 2, SIZE, NULL), KVT_OK);
    assert_true(row_of(f, test_gateway_key(key, 2), &record) && !record.foreign);
    assert_int_equal(compare_rows(f), 2);
}

static void
take_from_bucket(struct fixture *f, const char *key)
{
    struct g4_request drop = {.verb = G4_DELETE, .key = key};

    assert_int_equal(g4_store_perform(f->g.bucket, &drop), KVT_OK);
}

/* Nobody serves it, so a miss alone would leave it counted for ever. */
static void
what_is_gone_behind_its_row_is_forgotten(void **state)
{
    struct fixture *f = *state;
    char key[KVT_KEY_MAX];
    struct gateway_item items[] = {
        {.key = test_gateway_key(key, 1)}, {.key = "a.md"}, {.key = "b.md"}};
    struct gateway_stream stream;
    struct gateway_event events[3];
    struct gateway_record record;
    size_t count;

    plant_block(f, 1, true);
    plant_opaque(f, "a.md", 5);
    plant_opaque(f, "b.md", 5);
    open_adoption(f);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    assert_int_equal(wait_for(f, GATEWAY_ADOPTION_DONE).adopted, 3);
    take_from_bucket(f, key);
    take_from_bucket(f, "a.md");
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_FAIL, KVT_DENIED, 3); /* which says nothing */
    gateway_get_find(f->g.context, items, 3);
    assert_int_equal(stats_of(f).entries, 3);
    gateway_get_find(f->g.context, items, 3);
    assert_int_equal(items[0].status, KVT_NOTFOUND);
    assert_int_equal(items[1].status, KVT_NOTFOUND);
    assert_int_equal(items[2].status, KVT_OK);
    assert_false(row_of(f, key, &record) || row_of(f, "a.md", &record));
    assert_int_equal(compare_rows(f), 1); /* and no bytes more than its own */
    assert_int_equal(gateway_stats_get(&f->g.stats, GATEWAY_STAT_GONE), 2);
    assert_true(gateway_catalog_stream(f->g.context->catalog, 0, &stream));
    assert_string_equal(stream.namespace_, TEST_NAMESPACE);
    assert_int_equal(gateway_catalog_events(f->g.context->catalog, 0, 1, events, 3, &count),
                     KVT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(events[1].event.type, KVT_EVENT_REMOVE);
    assert_int_equal(events[1].event.sequence_hash, events[0].event.sequence_hash);
}

/* KVBM would not store a block again whose commit record is left. */
static void
the_commit_record_of_a_foreign_block_goes_with_it(void **state)
{
    static const char key[] = "0/0:11111113";
    static const char record[] = "0:11111113.meta";
    struct fixture *f = *state;
    struct g4_request head;

    plant_opaque(f, key, SIZE);
    plant_opaque(f, record, 0);
    open_adoption(f);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    assert_int_equal(wait_for(f, GATEWAY_ADOPTION_DONE).adopted_foreign, 1);
    assert_int_equal(gateway_remove(f->g.context, key), KVT_OK);
    assert_int_equal(test_gateway_store_head(f->g.bucket, key, &head), KVT_NOTFOUND);
    assert_int_equal(test_gateway_store_head(f->g.bucket, record, &head), KVT_NOTFOUND);
    assert_int_equal(compare_rows(f), 0);
}

static void
the_cap_holds_from_the_end_on(void **state)
{
    struct fixture *f = *state;

    f->g.options.cold_capacity = 3 * SIZE;
    for (uint64_t i = 0; i < 3; i++)
        plant_block(f, i, i == 1);
    test_gateway_reopen(&f->g);
    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_NEEDED);
    assert_int_equal(gateway_tier_capacity(&f->g.context->tiers, f->g.context->catalog, 0),
                     1u << 20);
    assert_int_equal(gateway_tier_capacity(&f->g.context->tiers, f->g.context->catalog, 1), 0);
    for (uint64_t i = 10; i < 14; i++)
        assert_int_equal(test_gateway_put(&f->g, i, SIZE), KVT_OK);
    restart(f); /* that it does not hold yet is remembered */
    open_adoption(f);
    assert_int_equal(mark_of(f).state, GATEWAY_ADOPTION_NEEDED);
    assert_int_equal(test_gateway_put(&f->g, 14, SIZE), KVT_OK);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    (void)wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_int_equal(gateway_tier_capacity(&f->g.context->tiers, f->g.context->catalog, 1),
                     3 * SIZE);
    assert_int_equal(stats_of(f).used[1], 8 * SIZE);
    assert_int_equal(test_gateway_put(&f->g, 15, SIZE), KVT_FULL);
    gateway_adoption_start(f->adoption, 1); /* once more: it goes on holding */
    wait_listed(f, 8);
    assert_int_equal(test_gateway_put(&f->g, 15, SIZE), KVT_FULL);
    restart(f);
    assert_int_equal(test_gateway_put(&f->g, 15, SIZE), KVT_FULL);
}

/* Batch by batch, with an end of the gateway after each: everything is counted once. */
static void
goes_on_behind_the_last_key(void **state)
{
    struct fixture *f = *state;
    struct gateway_adoption_mark mark;

    for (uint64_t i = 0; i < MANY; i++)
        plant_block(f, i, i % 3 == 0);
    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_NEEDED);
    gateway_adoption_start(f->adoption, 1); /* a batch, then a minute of rest */
    wait_listed(f, GATEWAY_ADOPTION_BATCH);
    assert_int_equal(mark_of(f).listed, GATEWAY_ADOPTION_BATCH);
    restart(f);
    assert_int_equal(stats_of(f).entries, GATEWAY_ADOPTION_BATCH);
    open_adoption(f); /* by itself */
    wait_listed(f, 2 * GATEWAY_ADOPTION_BATCH);
    gateway_adoption_stop(f->adoption);
    mark = wait_for(f, GATEWAY_ADOPTION_STOPPED);
    assert_int_equal(mark.why, KVT_CANCELLED);
    assert_true(mark.after[0] != '\0' && !mark.whole);
    restart(f);
    open_adoption(f); /* not by itself */
    assert_int_equal(mark_of(f).state, GATEWAY_ADOPTION_STOPPED);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    mark = wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_int_equal(mark.listed, MANY);
    assert_int_equal(mark.adopted, MANY);
    assert_int_equal(mark.known, 0);
    assert_int_equal(compare_rows(f), MANY);
}

/* ---- what changes meanwhile ---- */

/* Somebody past the gateway: does it to `key`, before the HEAD of it. */
struct vandal {
    struct g4_store *inner;
    const char *gone;
    const char *grown;
};

static enum kvt_err
vandal_submit(void *self, struct g4_request *request)
{
    struct vandal *vandal = self;
    const struct g4_meta meta = {.present = false};

    if (request->verb == G4_HEAD && strcmp(request->key, vandal->gone) == 0) {
        struct g4_request drop = {.verb = G4_DELETE, .key = vandal->gone};

        (void)!g4_store_perform(vandal->inner, &drop);
    }
    if (request->verb == G4_HEAD && strcmp(request->key, vandal->grown) == 0)
        assert_int_equal(
            test_gateway_store_put(vandal->inner, vandal->grown, "longer than it was", 18, &meta),
            KVT_OK);
    return g4_store_submit(vandal->inner, request);
}

static void
vandal_close(void *self)
{
    struct vandal *vandal = self;

    g4_store_close(vandal->inner);
}

static void
what_changes_behind_the_listing_leaves_no_false_row(void **state)
{
    static const struct g4_store_driver driver = {
        .name = "vandal", .submit = vandal_submit, .close = vandal_close};
    struct fixture *f = *state;
    struct vandal vandal = {.gone = "b.md", .grown = "c.md"};
    struct gateway_record record;

    test_gateway_interpose(&f->g, &driver, &vandal, &vandal.inner);
    for (const char *key = "a.md\0b.md\0c.md\0d.md\0"; *key != '\0'; key += 5)
        plant_opaque(f, key, 5);
    open_adoption(f);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    assert_int_equal(wait_for(f, GATEWAY_ADOPTION_DONE).adopted, 3);
    assert_false(row_of(f, "b.md", &record));
    assert_true(row_of(f, "c.md", &record));
    assert_int_equal(record.length, 18);
    assert_int_equal(compare_rows(f), 3);
    restart(f); /* without the vandal, whose end this function is */
}

/* A client of the gateway that removes the key between the answer to its HEAD and its row. */
struct remover {
    struct g4_store *inner;
    struct test_gateway *g;
    const char *key;
    pthread_t thread;
    bool started;
    _Atomic bool removed;
};

static void *
remover_main(void *arg)
{
    struct remover *remover = arg;

    assert_int_equal(gateway_remove(remover->g->context, remover->key), KVT_OK);
    atomic_store(&remover->removed, true);
    return NULL;
}

static enum kvt_err
remover_submit(void *self, struct g4_request *request)
{
    struct remover *remover = self;
    const uint64_t until_ms = kvt_clock_mono_ms() + REMOVE_MS;
    struct g4_request own = *request;

    if (request->verb != G4_HEAD || remover->started || strcmp(request->key, remover->key) != 0)
        return g4_store_submit(remover->inner, request);
    remover->started = true;
    (void)!g4_store_perform(remover->inner, &own);
    assert_int_equal(pthread_create(&remover->thread, NULL, remover_main, remover), 0);
    /* It cannot get through while the key is held; where it can, it soon does. */
    while (!atomic_load(&remover->removed) && kvt_clock_mono_ms() < until_ms)
        kvt_clock_sleep_ms(STEP_MS);
    own.done = request->done;
    own.arg = request->arg;
    *request = own;
    request->done(request, request->arg);
    return KVT_OK;
}

static void
remover_close(void *self)
{
    struct remover *remover = self;

    g4_store_close(remover->inner);
}

static void
a_removal_behind_the_look_leaves_no_row(void **state)
{
    static const struct g4_store_driver driver = {
        .name = "remover", .submit = remover_submit, .close = remover_close};
    struct fixture *f = *state;
    struct remover remover = {.g = &f->g, .key = "b.md"};
    struct gateway_record record;

    test_gateway_interpose(&f->g, &driver, &remover, &remover.inner);
    for (const char *key = "a.md\0b.md\0c.md\0"; *key != '\0'; key += 5)
        plant_opaque(f, key, 5);
    open_adoption(f);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    (void)wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_true(remover.started);
    assert_int_equal(pthread_join(remover.thread, NULL), 0);
    assert_false(row_of(f, "b.md", &record));
    assert_int_equal(compare_rows(f), 2);
    restart(f);
}

/* Clients of the gateway, at the same keys, all the while. */
struct client {
    struct test_gateway *g;
    uint64_t random;
    _Atomic bool stop;
};

static void *
client_main(void *arg)
{
    struct client *client = arg;
    uint8_t body[SIZE] = {2};

    while (!atomic_load(&client->stop)) {
        const uint64_t number = kvt_random_next(&client->random) % MANY;
        const size_t size = 1 + kvt_random_next(&client->random) % SIZE;
        struct gateway_put_item item = {
            .body = body, .size = size, .crc32c = g4_check_crc32c(body, size)};
        char key[KVT_KEY_MAX];

        (void)snprintf(key, sizeof(key), "notes/%04u.md", (unsigned)number);
        item.key = key;
        if (kvt_random_next(&client->random) % 2 == 0)
            assert_int_equal(gateway_remove(client->g->context, key), KVT_OK);
        else
            assert_int_equal(gateway_put_opaque(client->g->context, &item, G4_ALWAYS), KVT_OK);
    }
    return NULL;
}

static void
clients_at_the_same_keys_leave_no_false_row(void **state)
{
    struct fixture *f = *state;
    struct client client = {.g = &f->g, .random = test_seed()};
    pthread_t thread;

    for (unsigned i = 0; i < MANY; i++) {
        char key[KVT_KEY_MAX];

        (void)snprintf(key, sizeof(key), "notes/%04u.md", i);
        plant_opaque(f, key, 5);
    }
    open_adoption(f);
    assert_int_equal(pthread_create(&thread, NULL, client_main, &client), 0);
    for (int i = 0; i < 5; i++) {
        gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
        (void)wait_for(f, GATEWAY_ADOPTION_DONE);
    }
    atomic_store(&client.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    assert_int_equal(wait_for(f, GATEWAY_ADOPTION_DONE).adopted, 0); /* nothing was missed */
    (void)compare_rows(f);
}

/* ---- what fails ---- */

static void
a_bucket_that_is_away_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct gateway_adoption_mark mark;
    struct gateway_adoption_view view;
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    for (uint64_t i = 0; i < 4; i++)
        plant_block(f, i, false);
    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_NEEDED);
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_FAIL, KVT_UNAVAILABLE, UINT64_MAX);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    do {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(STEP_MS);
        gateway_adoption_view(f->adoption, &view);
    } while (!view.waiting);
    assert_int_equal(view.mark.listed, 0);
    assert_int_equal(stats_of(f).entries, 0);
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_NONE, KVT_OK, 0);
    gateway_bucket_tier_probe(f->g.context->tiers.buckets);
    mark = wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_int_equal(mark.adopted, 4);
    assert_int_equal(mark.damaged, 0);
}

/* Behind what is passed over the cap would be kept over a part of the objects. */
static void
what_may_be_told_later_stops_the_walk(void **state)
{
    struct fixture *f = *state;
    struct gateway_adoption_mark mark;

    for (uint64_t i = 0; i < 4; i++)
        plant_block(f, i, false);
    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_NEEDED);
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_FAIL, KVT_AGAIN, UINT64_MAX);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    mark = wait_for(f, GATEWAY_ADOPTION_STOPPED);
    assert_int_equal(mark.why, KVT_AGAIN);
    assert_false(mark.whole);
    assert_int_equal(mark.listed + mark.damaged, 0);
    assert_int_equal(stats_of(f).entries, 0);
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_NONE, KVT_OK, 0);
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    mark = wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_int_equal(mark.adopted, 4);
    assert_int_equal(mark.damaged, 0);
}

static void
what_cannot_be_told_is_left(void **state)
{
    struct fixture *f = *state;
    struct gateway_adoption_mark mark;
    char key[KVT_KEY_MAX];

    plant_opaque(f, test_gateway_key(key, 1), 0); /* a block's key, and nothing in it */
    plant_opaque(f, "a.md", 5);
    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_NEEDED);
    test_gateway_fault(&f->g, G4_HEAD, G4_FAULT_FAIL, KVT_DENIED, 1); /* of "a", the first */
    gateway_adoption_start(f->adoption, GATEWAY_ADOPTION_RATE_MAX);
    mark = wait_for(f, GATEWAY_ADOPTION_DONE);
    assert_int_equal(mark.damaged, 2);
    assert_int_equal(compare_rows(f), 0);
}

static bool
attempt_open(void *arg)
{
    struct fixture *f = arg;
    struct kvt_error err;
    const bool opened = gateway_adoption_open(&f->adoption, f->g.context, &err) == KVT_OK;

    gateway_adoption_close(f->adoption);
    assert_true(opened || f->adoption == NULL);
    f->adoption = NULL;
    return opened;
}

static void
survives_failing_allocations(void **state)
{
    struct fixture *f = *state;

    open_adoption(f);
    (void)wait_for(f, GATEWAY_ADOPTION_DONE);
    gateway_adoption_close(f->adoption);
    f->adoption = NULL;
    assert_true(test_sweep_allocations(attempt_open, f) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_bucket_is_whole),
        TEST(each_kind_gets_its_row),
        TEST(a_foreign_block_counts_and_is_a_miss),
        TEST(what_is_gone_behind_its_row_is_forgotten),
        TEST(the_commit_record_of_a_foreign_block_goes_with_it),
        TEST(the_cap_holds_from_the_end_on),
        TEST(goes_on_behind_the_last_key),
        TEST(what_changes_behind_the_listing_leaves_no_false_row),
        TEST(a_removal_behind_the_look_leaves_no_row),
        TEST(clients_at_the_same_keys_leave_no_false_row),
        TEST(a_bucket_that_is_away_is_waited_for),
        TEST(what_may_be_told_later_stops_the_walk),
        TEST(what_cannot_be_told_is_left),
        TEST(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
