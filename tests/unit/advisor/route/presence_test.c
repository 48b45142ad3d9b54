/* Who is there: names in the settings, and keys in a bucket of a real nats-server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/route/presence.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/nats/bus_state.h"

#include "tests/support/nats_server.h"
#include "tests/support/seed.h"

#define BUCKET "workers"
#define CONFIG (1U << ROUTER_ORIGIN_CONFIG)
#define EVENTS (1U << ROUTER_ORIGIN_EVENTS)
#define IN_IT  (1U << ROUTER_ORIGIN_BUCKET)

enum { DEADLINE_MS = 20000 };

/* ---- the settings ---- */

/* "name*ranks name*ranks", or what is wrong. */
static const char *
read_list(const char *list, char *text, size_t size)
{
    struct advisor_presence_entry entry;
    struct kvt_error err = {.text = ""};
    size_t used = 0;
    size_t at = 0;
    enum kvt_err rc;

    text[0] = '\0';
    while ((rc = advisor_presence_read_list(list, &at, &entry, &err)) == KVT_OK) {
        for (uint32_t i = 0; i < entry.rank_count; i++)
            assert_int_equal(entry.ranks[i], i);
        used += (size_t)snprintf(text + used, size - used, "%s%s*%" PRIu32, used > 0 ? " " : "",
                                 entry.name, entry.rank_count);
    }
    if (rc != KVT_NOTFOUND)
        (void)snprintf(text, size, "%s", err.text);
    return text;
}

static void
lists_name_workers_and_their_ranks(void **state)
{
    static const struct {
        const char *list;
        const char *read;
    } cases[] = {
        {"", ""},
        {"  \n", ""},
        {"a", "a*1"},
        {"a,b:4,c", "a*1 b*4 c*1"},
        {" a ,\n b:2 ", "a*1 b*2"},
        {"tcp://10.0.0.1:5557:2", "tcp://10.0.0.1:5557*2"},
        {"w:1024", "w*1024"},
        {"a,", "1:3: want a worker's name"},
        {",a", "1:1: want a worker's name"},
        {"a,,b", "1:3: want a worker's name"},
        {":2", "1:1: want a worker's name"},
        {"a b", "1:3: want a comma before the next worker"},
        {"a:0", "1:3: want how many ranks it has, from 1 to 1024"},
        {"a:", "1:3: want how many ranks it has, from 1 to 1024"},
        {"a,\n  host:x", "2:8: want how many ranks it has, from 1 to 1024"},
        {"a:1025", "1:3: want how many ranks it has, from 1 to 1024"},
        {"a:99999999999999999999", "1:3: want how many ranks it has, from 1 to 1024"},
        {"a,0123456789012345678901234567890123456789012345678901234567890123",
         "1:3: a worker's name has at most 63 bytes"},
    };
    char text[KVT_ERROR_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(read_list(cases[i].list, text, sizeof(text)), cases[i].read);
}

/* ---- keys ---- */

/* "name: rank rank", "-" for one that is none, or what is wrong. */
static const char *
read_key(const char *key, const char *value, char *text, size_t size)
{
    struct advisor_presence_entry entry;
    struct kvt_error err = {.text = ""};
    const enum kvt_err rc = advisor_presence_read_key(key, value, strlen(value), &entry, &err);
    size_t used;

    if (rc != KVT_OK) {
        (void)snprintf(text, size, "%s", rc == KVT_NOTFOUND ? "-" : err.text);
        return text;
    }
    used = (size_t)snprintf(text, size, "%s:", entry.name);
    for (uint32_t i = 0; i < entry.rank_count; i++)
        used += (size_t)snprintf(text + used, size - used, " %" PRIu32, entry.ranks[i]);
    return text;
}

static void
keys_and_values_say_who_is_there(void **state)
{
    static const struct {
        const char *key;
        const char *value;
        const char *read;
    } cases[] = {
        {"w1", "", "w1: 0"},
        {"w1", " \n", "w1: 0"},
        {"w1", "{}", "w1: 0"},
        {"w1", "{\"dp_ranks\": 3, \"model\": \"x\"}", "w1: 0 1 2"},
        {"w1", "{\"dp_ranks\": [4, 2]}", "w1: 4 2"},
        {"w1", "{\"name\": \"w9\", \"instance_id\": 7}", "w9: 0"},
        {"w1", "{\"instance_id\": 18446744073709551615}", "18446744073709551615: 0"},
        /* Dynamo's own records: what its events call the instance, where requests go to. */
        {"v1/instances/prod/backend/generate/694d9a5ea47b9a0f", "", "7587890678466320911: 0"},
        {"prod/backend/generate/1f", "{\"instance_id\": 31, \"transport\": {\"nats_tcp\": \"x\"}}",
         "31: 0"},
        {"v1/instances/prod/backend/clear_kv_blocks/1f", "", "-"},
        {"prod/backend/generate/1F", "", "prod/backend/generate/1F: 0"},
        {"prod/backend/generate/11112222333344445", "",
         "prod/backend/generate/11112222333344445: 0"},
        {"a/b", "", "a/b: 0"},
        {"w1", "[]", "want nothing or an object"},
        {"w1", "{\"name\": 1}", "name: want a text"},
        {"w1", "{\"name\": \"\"}", "a name that is empty"},
        {"w1", "{\"instance_id\": -1}", "instance_id: want a number"},
        {"w1", "{\"dp_ranks\": 0}", "dp_ranks: want from 1 to 1024"},
        {"w1", "{\"dp_ranks\": []}", "dp_ranks: want from 1 to 1024 of them"},
        {"w1", "{\"dp_ranks\": [\"a\"]}", "dp_ranks: want numbers"},
        {"w1", "{\"dp_ranks\": \"a\"}", "dp_ranks: want a number or a list of numbers"},
        {"0123456789012345678901234567890123456789012345678901234567890123", "",
         "a name of 64 bytes, at most 63"},
    };
    char text[KVT_ERROR_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(read_key(cases[i].key, cases[i].value, text, sizeof(text)),
                            cases[i].read);
    assert_non_null(strstr(read_key("w1", "{", text, sizeof(text)), "w1:1:"));
}

/* ---- a set ---- */

struct bed {
    struct test_nats server;
    struct wire_bus *bus;
    struct wire_bus *other; /* whose keys they are */
    kvStore *store;
    struct router_workers *workers;
    struct advisor_presence *presence;
};

static uint32_t
origins(struct bed *bed, const char *name, uint32_t dp_rank)
{
    struct router_worker_row rows[64];
    size_t count;

    router_workers_view(bed->workers, rows, 64, &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].worker.name, name) == 0 && rows[i].worker.dp_rank == dp_rank)
            return rows[i].origins;
    return 0;
}

/* Until it is there by these origins; the time that took. */
static uint64_t
until(struct bed *bed, const char *name, uint32_t dp_rank, uint32_t wanted)
{
    const uint64_t began_ms = kvt_clock_mono_ms();

    while (origins(bed, name, dp_rank) != wanted) {
        assert_true(kvt_clock_mono_ms() < began_ms + DEADLINE_MS);
        kvt_clock_sleep_ms(1);
    }
    return kvt_clock_mono_ms() - began_ms;
}

static struct advisor_presence_view
view_of(struct bed *bed)
{
    struct advisor_presence_view view;

    advisor_presence_view(bed->presence, &view);
    return view;
}

static void
make_bucket(struct bed *bed)
{
    kvConfig config;

    assert_int_equal(kvConfig_Init(&config), NATS_OK);
    config.Bucket = BUCKET;
    kvStore_Destroy(bed->store);
    bed->store = NULL;
    assert_int_equal(js_CreateKeyValue(&bed->store, bed->other->js, &config), NATS_OK);
}

static void
put(struct bed *bed, const char *key, const char *value)
{
    assert_int_equal(kvStore_PutString(NULL, bed->store, key, value), NATS_OK);
}

static void
see(struct bed *bed, const char *name, uint32_t dp_rank)
{
    struct router_worker worker = {.dp_rank = dp_rank};

    (void)snprintf(worker.name, sizeof(worker.name), "%s", name);
    assert_int_equal(router_workers_seen(bed->workers, &worker, ROUTER_ORIGIN_EVENTS), KVT_OK);
}

static void
start(struct bed *bed, const char *configured)
{
    struct wire_bus_options options = {.name = "test", .connect_now = true};
    struct advisor_presence_options about = {.configured = configured, .bucket = BUCKET};

    memset(bed, 0, sizeof(*bed));
    test_nats_start(&bed->server);
    options.url = bed->server.url;
    assert_int_equal(wire_bus_open(&bed->bus, &options, NULL), KVT_OK);
    assert_int_equal(wire_bus_open(&bed->other, &options, NULL), KVT_OK);
    assert_int_equal(router_workers_new(&bed->workers), KVT_OK);
    about.bus = bed->bus;
    about.workers = bed->workers;
    make_bucket(bed);
    assert_int_equal(advisor_presence_open(&bed->presence, &about, NULL), KVT_OK);
}

static void
stop(struct bed *bed)
{
    advisor_presence_close(bed->presence);
    router_workers_free(bed->workers);
    kvStore_Destroy(bed->store);
    wire_bus_close(bed->other);
    wire_bus_close(bed->bus);
    test_nats_stop(&bed->server);
}

static void
settings_that_are_wrong_say_where(void **state)
{
    struct advisor_presence_options options = {.configured = "a,b c"};
    struct advisor_presence *presence;
    struct router_workers *workers;
    struct kvt_error err;

    (void)state;
    assert_int_equal(router_workers_new(&workers), KVT_OK);
    options.workers = workers;
    assert_int_equal(advisor_presence_open(&presence, &options, &err), KVT_INVALID);
    assert_string_equal(err.text, "route.workers:1:5: want a comma before the next worker");
    options.configured = NULL;
    options.bucket = "a.b";
    assert_int_equal(advisor_presence_open(&presence, &options, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "route.bucket: a.b: "));
    router_workers_free(workers);
}

static void
a_worker_comes_and_goes_with_its_key(void **state)
{
    uint64_t worst_ms = 0;
    struct bed bed;

    (void)state;
    start(&bed, "c:2");
    assert_int_equal(origins(&bed, "c", 1), CONFIG);
    put(&bed, "w", "{\"dp_ranks\":2}");
    (void)until(&bed, "w", 1, IN_IT);
    assert_int_equal(origins(&bed, "w", 0), IN_IT);
    see(&bed, "w", 5);
    put(&bed, "w", "{\"dp_ranks\":[1]}"); /* a rank less */
    (void)until(&bed, "w", 0, 0);
    assert_int_equal(origins(&bed, "w", 1), IN_IT);
    assert_int_equal(origins(&bed, "w", 5), EVENTS);
    assert_int_equal(kvStore_Delete(bed.store, "w"), NATS_OK);
    (void)until(&bed, "w", 5, 0); /* all of it, however it was known */
    assert_int_equal(origins(&bed, "w", 1), 0);
    put(&bed, "c", "");
    (void)until(&bed, "c", 0, CONFIG | IN_IT);
    assert_int_equal(kvStore_Purge(bed.store, "c", NULL), NATS_OK);
    (void)until(&bed, "c", 0, 0); /* that it may be chosen does not say that it lives */
    (void)until(&bed, "c", 1, 0);
    for (int i = 0; i < 20; i++) {
        uint64_t took_ms;

        put(&bed, "w", "");
        (void)until(&bed, "w", 0, IN_IT);
        assert_int_equal(kvStore_Delete(bed.store, "w"), NATS_OK);
        took_ms = until(&bed, "w", 0, 0);
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    print_message("deleted to not there: %" PRIu64 " ms at worst of 20\n", worst_ms);
    assert_true(worst_ms < 1000);
    stop(&bed);
}

static void
with_the_last_of_its_keys(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed, NULL);
    put(&bed, "k1", "{\"name\":\"w\",\"dp_ranks\":[0,1]}");
    put(&bed, "k2", "{\"name\":\"w\",\"dp_ranks\":[1,2]}");
    put(&bed, "k3", "{\"name\":\"v\"}");
    (void)until(&bed, "v", 0, IN_IT);
    assert_int_equal(origins(&bed, "w", 2), IN_IT);
    assert_int_equal(kvStore_Delete(bed.store, "k1"), NATS_OK);
    (void)until(&bed, "w", 0, 0);
    assert_int_equal(origins(&bed, "w", 1), IN_IT);
    put(&bed, "k2", "{\"name\":\"v\"}"); /* it is another's now */
    (void)until(&bed, "w", 1, 0);
    assert_int_equal(kvStore_Delete(bed.store, "k3"), NATS_OK);
    put(&bed, "end", "");
    (void)until(&bed, "end", 0, IN_IT);
    assert_int_equal(origins(&bed, "v", 0), IN_IT);
    assert_int_equal(kvStore_Delete(bed.store, "k2"), NATS_OK);
    (void)until(&bed, "v", 0, 0);
    stop(&bed);
}

static void
what_cannot_be_read_changes_nothing(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed, NULL);
    put(&bed, "w", "{\"dp_ranks\":2}");
    (void)until(&bed, "w", 1, IN_IT);
    put(&bed, "w", "{\"dp_ranks\":");
    put(&bed, "odd", "nonsense");
    put(&bed, "prod/backend/clear_kv_blocks/1f", "{}");
    put(&bed, "end", "");
    (void)until(&bed, "end", 0, IN_IT);
    assert_int_equal(origins(&bed, "w", 1), IN_IT);
    assert_int_equal(origins(&bed, "odd", 0), 0);
    assert_int_equal(view_of(&bed).odd, 2);
    assert_int_equal(kvStore_Delete(bed.store, "w"), NATS_OK);
    (void)until(&bed, "w", 1, 0);
    stop(&bed);
}

static void
a_bucket_made_anew_takes_back_its_own_word_alone(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed, NULL);
    put(&bed, "both", "");
    put(&bed, "alone", "");
    put(&bed, "again", "");
    (void)until(&bed, "again", 0, IN_IT);
    see(&bed, "both", 0);
    assert_int_equal(js_DeleteKeyValue(bed.other->js, BUCKET), NATS_OK);
    while (view_of(&bed).bucket.there)
        kvt_clock_sleep_ms(5);
    assert_int_equal(origins(&bed, "alone", 0), IN_IT);
    make_bucket(&bed);
    put(&bed, "again", "");
    (void)until(&bed, "alone", 0, 0);
    (void)until(&bed, "both", 0, EVENTS);
    (void)until(&bed, "again", 0, IN_IT);
    stop(&bed);
}

/* A rack that loses its power, and the bucket of a large cluster that is met at the start. */
static void
a_thousand_workers_come_and_go(void **state)
{
    enum { MANY = 1000 };
    uint64_t began_ms;
    char key[16];
    size_t count = 0;
    struct bed bed;

    (void)state;
    start(&bed, NULL);
    began_ms = kvt_clock_mono_ms();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "w%d", i);
        put(&bed, key, "{\"dp_ranks\":2}");
    }
    print_message("%d put in %" PRIu64 " ms\n", MANY, kvt_clock_mono_ms() - began_ms);
    while (count != 2 * MANY) {
        assert_true(kvt_clock_mono_ms() < began_ms + DEADLINE_MS);
        kvt_clock_sleep_ms(1);
        router_workers_view(bed.workers, NULL, 0, &count, NULL);
    }
    advisor_presence_close(bed.presence);
    router_workers_gone_name(bed.workers, "w0");
    began_ms = kvt_clock_mono_ms();
    {
        struct advisor_presence_options about = {
            .bus = bed.bus, .workers = bed.workers, .bucket = BUCKET};

        assert_int_equal(advisor_presence_open(&bed.presence, &about, NULL), KVT_OK);
    }
    while (count != 2 * MANY || !view_of(&bed).bucket.listed) {
        assert_true(kvt_clock_mono_ms() < began_ms + DEADLINE_MS);
        kvt_clock_sleep_ms(1);
        router_workers_view(bed.workers, NULL, 0, &count, NULL);
    }
    print_message("%d listed in %" PRIu64 " ms\n", MANY, kvt_clock_mono_ms() - began_ms);
    began_ms = kvt_clock_mono_ms();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "w%d", i);
        assert_int_equal(kvStore_Delete(bed.store, key), NATS_OK);
    }
    print_message("%d deleted in %" PRIu64 " ms\n", MANY, kvt_clock_mono_ms() - began_ms);
    began_ms = kvt_clock_mono_ms();
    while (count != 0) {
        assert_true(kvt_clock_mono_ms() < began_ms + DEADLINE_MS);
        kvt_clock_sleep_ms(1);
        router_workers_view(bed.workers, NULL, 0, &count, NULL);
    }
    print_message("all gone %" PRIu64 " ms behind the last\n", kvt_clock_mono_ms() - began_ms);
    stop(&bed);
}

static bool
open_once(void *arg)
{
    struct advisor_presence_options options = {.bus = arg, .configured = "a:3,b", .bucket = BUCKET};
    struct advisor_presence *presence = NULL;
    struct router_workers *workers;
    enum kvt_err rc = router_workers_new(&workers);

    options.workers = workers;
    if (rc == KVT_OK)
        rc = advisor_presence_open(&presence, &options, NULL);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && presence == NULL));
    advisor_presence_close(presence);
    router_workers_free(workers);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct wire_bus_options options = {.name = "test", .url = "nats://127.0.0.1:1"};
    struct wire_bus *bus;

    (void)state;
    assert_int_equal(wire_bus_open(&bus, &options, NULL), KVT_OK);
    assert_true(test_sweep_allocations(open_once, bus) >= 6);
    wire_bus_close(bus);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_name_workers_and_their_ranks),
        cmocka_unit_test(keys_and_values_say_who_is_there),
        cmocka_unit_test(settings_that_are_wrong_say_where),
        cmocka_unit_test(a_worker_comes_and_goes_with_its_key),
        cmocka_unit_test(with_the_last_of_its_keys),
        cmocka_unit_test(what_cannot_be_read_changes_nothing),
        cmocka_unit_test(a_bucket_made_anew_takes_back_its_own_word_alone),
        cmocka_unit_test(a_thousand_workers_come_and_go),
        cmocka_unit_test(every_allocation_may_fail),
    };

    test_nats_require();
    return cmocka_run_group_tests_name("advisor/presence", tests, NULL, NULL);
}
