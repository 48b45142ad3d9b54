/*
 * What is tested: wire/nats/kv_watch.h against a real nats-server that is killed with -9, brought
 * back and emptied, with buckets that come late, go, come anew and let keys grow old.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/nats/bus_state.h"
#include "wire/nats/kv_watch.h"
#include "wire/nats/kv_watch_internal.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

#define BUCKET "workers"

enum { DEADLINE_MS = 20000, KEYS = 24, SHORT_MS = 100, AGE_MS = 3000 };

/* What the watch told, a line a key: "k0".."k23". */
struct mirror {
    char values[KEYS][32]; /* "": not there */
    uint64_t puts;
    uint64_t gone;
    uint64_t forgotten;
    uint64_t gone_at_ms;
};

static void
heard(void *arg, const struct wire_kv_watch_news *news)
{
    struct mirror *mirror = arg;
    unsigned at;

    assert_int_equal(sscanf(news->key, "k%u", &at), 1);
    assert_true(at < KEYS);
    switch (news->what) {
    case WIRE_KV_WATCH_PUT:
        assert_true(news->size > 0 && news->size < sizeof(mirror->values[at]));
        (void)snprintf(mirror->values[at], sizeof(mirror->values[at]), "%.*s", (int)news->size,
                       (const char *)news->value);
        mirror->puts++;
        return;
    case WIRE_KV_WATCH_GONE:
        mirror->gone++;
        mirror->gone_at_ms = kvt_clock_mono_ms();
        break;
    case WIRE_KV_WATCH_FORGOTTEN: mirror->forgotten++; break;
    }
    assert_true(mirror->values[at][0] != '\0'); /* only what was told goes */
    mirror->values[at][0] = '\0';
}

struct bed {
    struct test_nats server;
    struct wire_bus *bus;   /* the watch's */
    struct wire_bus *other; /* whose keys they are */
    kvStore *store;
    struct wire_kv_watch *kv;
    struct mirror mirror;
};

static void
make_bucket(struct bed *bed, uint64_t age_ms)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    kvConfig config;

    assert_int_equal(kvConfig_Init(&config), NATS_OK);
    config.Bucket = BUCKET;
    config.History = 3;
    config.TTL = (int64_t)age_ms * 1000000;
    kvStore_Destroy(bed->store);
    bed->store = NULL;
    while (js_CreateKeyValue(&bed->store, bed->other->js, &config) != NATS_OK) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(20);
    }
}

static void
start(struct bed *bed)
{
    memset(bed, 0, sizeof(*bed));
    test_nats_start(&bed->server);
    bed->bus = test_bus_open(&bed->server, true);
    bed->other = test_bus_open(&bed->server, true);
    assert_int_equal(wire_kv_watch_open(&bed->kv, bed->bus, BUCKET, heard, &bed->mirror), KVT_OK);
}

static void
stop(struct bed *bed)
{
    wire_kv_watch_close(bed->kv);
    kvStore_Destroy(bed->store);
    wire_bus_close(bed->other);
    wire_bus_close(bed->bus);
    test_nats_stop(&bed->server);
}

static const char *
name(char text[8], unsigned at)
{
    (void)snprintf(text, 8, "k%u", at);
    return text;
}

static void
put(struct bed *bed, unsigned at, const char *value)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    char key[8];

    while (kvStore_PutString(NULL, bed->store, name(key, at), value) != NATS_OK) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(20);
    }
}

static void delete (struct bed *bed, unsigned at)
{
    char key[8];

    assert_int_equal(kvStore_Delete(bed->store, name(key, at)), NATS_OK);
}

static void
poll(struct bed *bed)
{
    (void)!wire_kv_watch_poll(bed->kv, SHORT_MS);
}

static void
until_listed(struct bed *bed, uint64_t lists)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (!wire_kv_watch_state(bed->kv).listed || wire_kv_watch_state(bed->kv).lists < lists) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        poll(bed);
    }
}

/* Until the key has the value; "": until it is gone. */
static void
until(struct bed *bed, unsigned at, const char *value)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (strcmp(bed->mirror.values[at], value) != 0) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        poll(bed);
    }
}

static void
for_a_while(struct bed *bed, uint64_t wait_ms)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + wait_ms;

    while (kvt_clock_mono_ms() < end_ms)
        poll(bed);
}

static void
names_of_buckets_are_letters_digits_and_two_signs(void **state)
{
    char longest[WIRE_KV_WATCH_BUCKET_MAX + 1];
    struct wire_kv_watch *kv;

    (void)state;
    assert_true(wire_kv_watch_bucket_ok("v1-instances_2"));
    assert_false(wire_kv_watch_bucket_ok(""));
    assert_false(wire_kv_watch_bucket_ok("a.b"));
    assert_false(wire_kv_watch_bucket_ok("a>"));
    memset(longest, 'a', sizeof(longest));
    longest[WIRE_KV_WATCH_BUCKET_MAX] = '\0';
    assert_false(wire_kv_watch_bucket_ok(longest));
    longest[WIRE_KV_WATCH_BUCKET_MAX - 1] = '\0';
    assert_true(wire_kv_watch_bucket_ok(longest));
    assert_int_equal(wire_kv_watch_open(&kv, NULL, "a b", heard, NULL), KVT_INVALID);
    assert_null(kv);
}

static void
puts_deletes_and_purges_are_told(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    put(&bed, 0, "former");
    put(&bed, 0, "now");
    put(&bed, 1, "one");
    put(&bed, 2, "two");
    delete (&bed, 2);
    until_listed(&bed, 1);
    assert_string_equal(bed.mirror.values[0], "now");
    assert_string_equal(bed.mirror.values[1], "one");
    assert_int_equal(bed.mirror.puts, 2); /* neither what was before nor what is deleted */
    assert_int_equal(bed.mirror.gone, 0);
    put(&bed, 3, "three");
    until(&bed, 3, "three");
    put(&bed, 3, "three"); /* the same again is news: its owner lives */
    put(&bed, 1, "more");
    until(&bed, 1, "more");
    assert_int_equal(bed.mirror.puts, 5);
    delete (&bed, 1);
    until(&bed, 1, "");
    assert_int_equal(kvStore_Purge(bed.store, "k3", NULL), NATS_OK);
    until(&bed, 3, "");
    assert_int_equal(bed.mirror.gone, 2);
    assert_int_equal(wire_kv_watch_state(bed.kv).keys, 1);
    assert_int_equal(wire_kv_watch_state(bed.kv).lists, 1);
    put(&bed, 1, "back");
    until(&bed, 1, "back");
    stop(&bed);
}

static void
a_deletion_is_told_at_once(void **state)
{
    uint64_t worst_ms = 0;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    until_listed(&bed, 1);
    for (int i = 0; i < 20; i++) {
        uint64_t began_ms;

        put(&bed, 0, "here");
        until(&bed, 0, "here");
        began_ms = kvt_clock_mono_ms();
        delete (&bed, 0);
        until(&bed, 0, "");
        if (bed.mirror.gone_at_ms - began_ms > worst_ms)
            worst_ms = bed.mirror.gone_at_ms - began_ms;
    }
    print_message("delete to news: %" PRIu64 " ms at worst\n", worst_ms);
    assert_true(worst_ms < 1000); /* of a busy machine; asking now and then would take longer */
    stop(&bed);
}

static void
a_bucket_may_come_late_go_and_come_anew(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    assert_int_equal(wire_kv_watch_poll(bed.kv, 1), KVT_NOTFOUND);
    assert_false(wire_kv_watch_state(bed.kv).there);
    make_bucket(&bed, 0);
    until_listed(&bed, 1); /* empty */
    assert_true(wire_kv_watch_state(bed.kv).there);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    until(&bed, 1, "one");
    assert_int_equal(js_DeleteKeyValue(bed.other->js, BUCKET), NATS_OK);
    while (wire_kv_watch_state(bed.kv).there)
        poll(&bed);
    for_a_while(&bed, 300);
    assert_string_equal(bed.mirror.values[0], "zero"); /* nobody said that it went */
    make_bucket(&bed, 0);
    put(&bed, 1, "one");
    until_listed(&bed, 2);
    until(&bed, 0, "");
    assert_int_equal(bed.mirror.gone, 0);
    assert_int_equal(bed.mirror.forgotten, 1);
    assert_string_equal(bed.mirror.values[1], "one");
    stop(&bed);
}

static void
made_anew_behind_its_back_it_is_read_anew(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    until_listed(&bed, 1);
    assert_int_equal(js_DeleteKeyValue(bed.other->js, BUCKET), NATS_OK);
    make_bucket(&bed, 0);
    put(&bed, 1, "uno"); /* revision 1, as k0 had */
    until(&bed, 1, "uno");
    until(&bed, 0, "");
    assert_int_equal(bed.mirror.forgotten, 1);
    assert_int_equal(bed.mirror.gone, 0);
    stop(&bed);
}

static void
a_server_that_goes_takes_nobody_along(void **state)
{
    uint64_t puts;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    until_listed(&bed, 1);
    puts = bed.mirror.puts;
    test_nats_kill(&bed.server);
    for_a_while(&bed, 500);
    assert_int_equal(wire_kv_watch_poll(bed.kv, 1), KVT_UNAVAILABLE);
    assert_int_equal(bed.mirror.gone + bed.mirror.forgotten, 0);
    test_nats_restart(&bed.server);
    until_listed(&bed, 2);
    assert_int_equal(bed.mirror.gone + bed.mirror.forgotten, 0);
    assert_int_equal(bed.mirror.puts, puts); /* nothing is news */
    delete (&bed, 0);
    until(&bed, 0, "");
    assert_string_equal(bed.mirror.values[1], "one");
    stop(&bed);
}

static void
who_goes_while_we_are_away_is_gone_once_we_are_back(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    put(&bed, 2, "two");
    until_listed(&bed, 1);
    test_nats_kill(&bed.server);
    while (wire_bus_connected(bed.bus)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        poll(&bed);
    }
    test_nats_restart(&bed.server);
    /* The watch is not polled meanwhile: as far as it knows, the server is still away. */
    while (!wire_bus_connected(bed.other))
        kvt_clock_sleep_ms(10);
    put(&bed, 1, "another");
    delete (&bed, 0);
    put(&bed, 3, "three");
    until(&bed, 0, "");
    until(&bed, 1, "another");
    until(&bed, 3, "three");
    assert_string_equal(bed.mirror.values[2], "two");
    assert_int_equal(bed.mirror.gone, 1);
    stop(&bed);
}

static void
keys_that_grow_too_old_are_gone_and_those_renewed_are_not(void **state)
{
    uint64_t written_ms;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    until_listed(&bed, 1);
    put(&bed, 0, "lives");
    put(&bed, 1, "dies");
    written_ms = kvt_clock_mono_ms();
    until(&bed, 1, "dies");
    while (bed.mirror.values[1][0] != '\0') {
        assert_true(kvt_clock_mono_ms() < written_ms + DEADLINE_MS);
        put(&bed, 0, "lives");
        poll(&bed);
    }
    print_message("age over to news: %" PRIi64 " ms\n",
                  (int64_t)(bed.mirror.gone_at_ms - written_ms) - AGE_MS);
    assert_true(bed.mirror.gone_at_ms + 50 >= written_ms + AGE_MS);
    assert_true(bed.mirror.gone_at_ms < written_ms + AGE_MS + 1000);
    assert_string_equal(bed.mirror.values[0], "lives");
    assert_int_equal(bed.mirror.gone, 1);
    stop(&bed);
}

static void
keys_met_in_a_listing_have_the_age_they_have(void **state)
{
    uint64_t written_ms;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    put(&bed, 0, "old");
    written_ms = kvt_clock_mono_ms();
    kvt_clock_sleep_ms(AGE_MS / 2);
    until_listed(&bed, 1);
    assert_string_equal(bed.mirror.values[0], "old");
    until(&bed, 0, "");
    assert_true(bed.mirror.gone_at_ms < written_ms + AGE_MS + 500);
    stop(&bed);
}

static void
who_could_not_renew_has_an_age_more(void **state)
{
    uint64_t back_ms;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    put(&bed, 0, "renews");
    put(&bed, 1, "vanished");
    until_listed(&bed, 1);
    test_nats_kill(&bed.server);
    for_a_while(&bed, AGE_MS + 300);
    assert_int_equal(bed.mirror.gone, 0);
    test_nats_restart(&bed.server);
    back_ms = kvt_clock_mono_ms();
    until_listed(&bed, 2);
    assert_int_equal(bed.mirror.gone, 0);
    put(&bed, 0, "renewed");
    until(&bed, 0, "renewed");
    while (bed.mirror.values[1][0] != '\0') {
        assert_true(kvt_clock_mono_ms() < back_ms + DEADLINE_MS);
        put(&bed, 0, "renewed");
        poll(&bed);
    }
    assert_true(bed.mirror.gone_at_ms >= back_ms + AGE_MS / 2);
    assert_int_equal(bed.mirror.gone, 1);
    stop(&bed);
}

/* Its age was not over yet, but its owner had the server for less time than it counted on. */
static void
who_could_not_renew_for_a_while_has_it_too(void **state)
{
    uint64_t back_ms;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    put(&bed, 0, "late");
    until_listed(&bed, 1);
    for_a_while(&bed, AGE_MS / 2);
    test_nats_kill(&bed.server);
    test_nats_restart(&bed.server);
    until_listed(&bed, 2);
    back_ms = kvt_clock_mono_ms();
    until(&bed, 0, "");
    assert_true(bed.mirror.gone_at_ms + 100 >= back_ms + AGE_MS);
    stop(&bed);
}

static void
but_not_each_time_the_server_comes_back(void **state)
{
    uint64_t lists = 1;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    put(&bed, 0, "vanished");
    until_listed(&bed, 1);
    while (bed.mirror.values[0][0] != '\0') {
        assert_true(lists < 20);
        test_nats_kill(&bed.server);
        test_nats_restart(&bed.server);
        until_listed(&bed, ++lists);
        for_a_while(&bed, AGE_MS / 4);
    }
    stop(&bed);
}

/* What an operator removes beneath leaves no mark; newer servers mark what they remove. */
static void
what_goes_without_a_word_is_noticed(void **state)
{
    natsMsg *mark = NULL;
    jsErrCode code;
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    put(&bed, 2, "two");
    until_listed(&bed, 1);
    for_a_while(&bed, 1200);
    assert_int_equal(natsConnection_RequestString(&mark, bed.other->nc,
                                                  "$JS.API.STREAM.PURGE.KV_" BUCKET,
                                                  "{\"filter\":\"$KV." BUCKET ".k0\"}", 2000),
                     NATS_OK);
    natsMsg_Destroy(mark);
    until(&bed, 0, "");
    assert_int_equal(natsMsg_Create(&mark, "$KV." BUCKET ".k1", NULL, NULL, 0), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(mark, "Nats-Marker-Reason", "MaxAge"), NATS_OK);
    assert_int_equal(js_PublishMsg(NULL, bed.other->js, mark, NULL, &code), NATS_OK);
    natsMsg_Destroy(mark);
    until(&bed, 1, "");
    assert_string_equal(bed.mirror.values[2], "two");
    assert_int_equal(bed.mirror.gone, 2);
    stop(&bed);
}

/* A server that stands still answers nothing: no part of a listing may be taken for all of it. */
static void
a_server_that_stands_still_takes_nobody_along(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, AGE_MS);
    put(&bed, 0, "zero");
    until_listed(&bed, 1);
    assert_int_equal(kill(bed.server.pid, SIGSTOP), 0);
    for_a_while(&bed, AGE_MS + 500);
    assert_int_equal(bed.mirror.gone, 0);
    assert_int_equal(kill(bed.server.pid, SIGCONT), 0);
    until_listed(&bed, wire_kv_watch_state(bed.kv).lists + 1);
    assert_int_equal(bed.mirror.gone, 0); /* though the server has dropped it */
    put(&bed, 0, "renewed");
    until(&bed, 0, "renewed");
    assert_int_equal(bed.mirror.gone, 0);
    until(&bed, 0, "");
    stop(&bed);
}

static void
whatever_happens_it_ends_up_as_the_bucket_is(void **state)
{
    uint64_t random = test_seed();
    char values[KEYS][32] = {{0}};
    struct bed bed;

    (void)state;
    start(&bed);
    make_bucket(&bed, 0);
    for (int i = 0; i < 200 / TEST_ALONE_SHARE; i++) {
        const unsigned at = (unsigned)kvt_random_below(&random, KEYS);

        switch (kvt_random_below(&random, 50)) {
        case 0:
            test_nats_kill(&bed.server);
            for_a_while(&bed, kvt_random_below(&random, 100));
            test_nats_restart(&bed.server);
            break;
        case 1:
            memset(values, 0, sizeof(values));
            while (js_DeleteKeyValue(bed.other->js, BUCKET) != NATS_OK)
                kvt_clock_sleep_ms(20);
            make_bucket(&bed, 0);
            break;
        case 2:
        case 3:
        case 4:
        case 5: for_a_while(&bed, kvt_random_below(&random, 50)); break;
        case 6:
        case 7:
        case 8:
        case 9:
        case 10: {
            char key[8];

            while (kvStore_Delete(bed.store, name(key, at)) != NATS_OK)
                kvt_clock_sleep_ms(20);
            values[at][0] = '\0';
            break;
        }
        default:
            (void)snprintf(values[at], sizeof(values[at]), "v%d", i);
            put(&bed, at, values[at]);
            break;
        }
    }
    for (unsigned at = 0; at < KEYS; at++)
        until(&bed, at, values[at]);
    for_a_while(&bed, 1500);
    for (unsigned at = 0; at < KEYS; at++)
        assert_string_equal(bed.mirror.values[at], values[at]);
    stop(&bed);
}

static void
keys_have_bounds(void **state)
{
    char longest[WIRE_KV_WATCH_KEY_MAX + 1];
    struct wire_kv_watch_keys *keys = kvt_calloc(1, sizeof(*keys));
    struct wire_kv_watch_walk walk = {.next = NULL};
    struct wire_kv_watch_key *key;
    size_t count = 0;
    char text[16];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    longest[WIRE_KV_WATCH_KEY_MAX] = '\0';
    assert_int_equal(wire_kv_watch_keys_add(keys, longest, &key), KVT_RANGE);
    longest[WIRE_KV_WATCH_KEY_MAX - 1] = '\0';
    assert_int_equal(wire_kv_watch_keys_add(keys, longest, &key), KVT_OK);
    for (int i = 1; i < WIRE_KV_WATCH_KEYS_MAX; i++) {
        (void)snprintf(text, sizeof(text), "%d", i);
        assert_int_equal(wire_kv_watch_keys_add(keys, text, &key), KVT_OK);
    }
    assert_int_equal(wire_kv_watch_keys_add(keys, "more", &key), KVT_FULL);
    assert_null(key);
    while ((key = wire_kv_watch_keys_walk(keys, &walk)) != NULL)
        if (count++ % 2 == 0)
            wire_kv_watch_keys_remove(keys, key);
    assert_int_equal(count, WIRE_KV_WATCH_KEYS_MAX);
    assert_int_equal(keys->count, WIRE_KV_WATCH_KEYS_MAX / 2);
    wire_kv_watch_keys_clear(keys);
    assert_int_equal(keys->count, 0);
    kvt_free(keys);
}

static bool
open_once(void *arg)
{
    struct wire_kv_watch *kv;
    enum kvt_err rc = wire_kv_watch_open(&kv, arg, BUCKET, heard, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && kv == NULL));
    if (rc == KVT_OK)
        wire_kv_watch_close(kv);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    assert_int_equal(test_sweep_allocations(open_once, bed.bus), 1);
    make_bucket(&bed, 0);
    put(&bed, 0, "zero");
    put(&bed, 1, "one");
    for (size_t n = 0; bed.mirror.values[1][0] == '\0'; n++) {
        assert_true(n < 100);
        kvt_alloc_fail_after(n);
        poll(&bed);
        kvt_alloc_fail_after(SIZE_MAX);
    }
    until_listed(&bed, 1);
    assert_string_equal(bed.mirror.values[0], "zero");
    assert_int_equal(bed.mirror.gone, 0);
    stop(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_buckets_are_letters_digits_and_two_signs),
        cmocka_unit_test(keys_have_bounds),
        cmocka_unit_test(puts_deletes_and_purges_are_told),
        cmocka_unit_test(a_deletion_is_told_at_once),
        cmocka_unit_test(a_bucket_may_come_late_go_and_come_anew),
        cmocka_unit_test(made_anew_behind_its_back_it_is_read_anew),
        cmocka_unit_test(a_server_that_goes_takes_nobody_along),
        cmocka_unit_test(who_goes_while_we_are_away_is_gone_once_we_are_back),
        cmocka_unit_test(keys_that_grow_too_old_are_gone_and_those_renewed_are_not),
        cmocka_unit_test(keys_met_in_a_listing_have_the_age_they_have),
        cmocka_unit_test(who_could_not_renew_has_an_age_more),
        cmocka_unit_test(who_could_not_renew_for_a_while_has_it_too),
        cmocka_unit_test(but_not_each_time_the_server_comes_back),
        cmocka_unit_test(what_goes_without_a_word_is_noticed),
        cmocka_unit_test(a_server_that_stands_still_takes_nobody_along),
        cmocka_unit_test(whatever_happens_it_ends_up_as_the_bucket_is),
        cmocka_unit_test(every_allocation_may_fail),
    };

    test_nats_require();
    return cmocka_run_group_tests_name("wire/kv", tests, NULL, NULL);
}
