/*
 * What is tested: advisor/transport/discovery.h and discovery_record.h: records that appear,
 * vanish, go stale
 *                 or make no sense.
 * How: a folder as Dynamo's file store makes it, records as releases 1.3.1 and 1.6.1 write them,
 *      time by hand.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advisor/transport/discovery.h"
#include "advisor/transport/discovery_record.h"
#include "base/core/file.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { PATH_SIZE = 512, TEXT_SIZE = 2048 };

static const char CHANNEL[] =
    "{\"type\":\"EventChannel\",\"scope\":{\"kind\":\"endpoint\",\"endpoint\":{\"namespace\":\"%"
    "s\","
    "\"component\":\"back-end\",\"name\":\"generate\"}},\"topic\":\"%s\",\"instance_id\":7,"
    "\"transport\":{\"kind\":\"Zmq\",\"config\":{\"endpoint\":\"%s\"}}}";
static const char OLD_CHANNEL[] =
    "{\"type\":\"EventChannel\",\"namespace\":\"ns1\",\"component\":\"back-end\",\"topic\":"
    "\"kv-events\",\"instance_id\":7,\"transport\":{\"kind\":\"Zmq\",\"config\":{\"endpoint\":\"%"
    "s\"}}}";
static const char BROKER[] =
    "{\"type\":\"EventChannel\",\"scope\":{\"kind\":\"component\",\"namespace\":\"ns1\","
    "\"component\":"
    "\"b\"},\"topic\":\"kv-events\",\"instance_id\":7,\"transport\":{\"kind\":\"ZmqBroker\","
    "\"config\":"
    "{\"xsub_endpoints\":[\"tcp://10.0.0.9:1\"],\"xpub_endpoints\":[\"tcp://10.0.0.9:2\",7,"
    "\"tcp://10.0.0.8:2\"]}}}";
static const char SOURCE[] =
    "{\"type\":\"EventSource\",\"topic\":\"kv-events\",\"publisher_id\":77,\"metadata\":{"
    "\"worker\":{"
    "\"worker_id\":%llu,\"dp_rank\":%u},\"publisher_id\":77,\"recovery_target\":{\"component\":"
    "\"b\","
    "\"endpoint\":\"worker_kv_query_source_4d\",\"namespace\":\"ns1\",\"instance_id\":%llu,"
    "\"transport\":{\"tcp\":\"10.0.0.5:39707/4bd5/ns1/b/worker_kv_query_source_4d\"},"
    "\"request_plane_codec\":\"msgpack\"}}}";
static const char INSTANCE[] =
    "{\"type\":\"Endpoint\",\"component\":\"b\",\"endpoint\":\"%s\",\"namespace\":\"ns1\","
    "\"instance_id\":%llu,\"transport\":{\"%s\":\"%s\"}}";

static const uint64_t WORKER = 15204838567219634037u; /* above 2^63 */

struct fixture {
    char folder[PATH_SIZE];
    struct advisor_discovery *discovery;
    uint64_t now_ms;
};

static void
begin(struct fixture *fixture, const char *scope)
{
    char path[PATH_SIZE + 32];

    (void)test_folder_make(fixture->folder, sizeof(fixture->folder));
    for (int i = 0; i < ADVISOR_DISCOVERY_BUCKETS; i++) {
        (void)snprintf(path, sizeof(path), "%s/v1/%s", fixture->folder,
                       advisor_discovery_folders[i]);
        assert_int_equal(kvt_folder_make(path, NULL), KVT_OK);
    }
    fixture->now_ms = 1000;
    assert_int_equal(advisor_discovery_new(&fixture->discovery, fixture->folder, scope), KVT_OK);
}

static void
end(struct fixture *fixture)
{
    advisor_discovery_free(fixture->discovery);
    test_folder_remove(fixture->folder);
}

static void
path_of(const struct fixture *fixture, enum advisor_discovery_bucket bucket, const char *name,
        char *path, size_t size)
{
    (void)snprintf(path, size, "%s/v1/%s/%s", fixture->folder, advisor_discovery_folders[bucket],
                   name);
}

static void
put(const struct fixture *fixture, enum advisor_discovery_bucket bucket, const char *name,
    const char *text)
{
    char path[PATH_SIZE + 256];

    path_of(fixture, bucket, name, path, sizeof(path));
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
}

static void
put_channel(const struct fixture *fixture, const char *name, const char *space, const char *topic,
            const char *endpoint)
{
    char text[TEXT_SIZE];

    (void)snprintf(text, sizeof(text), CHANNEL, space, topic, endpoint);
    put(fixture, ADVISOR_DISCOVERY_CHANNELS, name, text);
}

static void
put_worker(const struct fixture *fixture, const char *name, uint64_t worker, uint32_t rank)
{
    char text[TEXT_SIZE];

    (void)snprintf(text, sizeof(text), SOURCE, (unsigned long long)worker, rank,
                   (unsigned long long)worker);
    put(fixture, ADVISOR_DISCOVERY_SOURCES, name, text);
}

static void
drop(const struct fixture *fixture, enum advisor_discovery_bucket bucket, const char *name)
{
    char path[PATH_SIZE + 256];

    path_of(fixture, bucket, name, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
}

/* As its owner does while it lives. */
static void
renew(const struct fixture *fixture, enum advisor_discovery_bucket bucket, const char *name,
      time_t second)
{
    const struct timespec times[] = {{.tv_sec = second}, {.tv_sec = second}};
    char path[PATH_SIZE + 256];

    path_of(fixture, bucket, name, path, sizeof(path));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void
scan(struct fixture *fixture)
{
    fixture->now_ms += 1000;
    assert_int_equal(advisor_discovery_scan(fixture->discovery, fixture->now_ms, NULL), KVT_OK);
}

static void
expect_endpoints(const struct fixture *fixture, const char *const *endpoints, size_t count)
{
    size_t found;
    const char *const *list = advisor_discovery_endpoints(fixture->discovery, &found);

    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(list[i], endpoints[i]);
}

static size_t
gone_count(const struct fixture *fixture)
{
    size_t count;

    (void)advisor_discovery_gone(fixture->discovery, &count);
    return count;
}

static void
publishers_appear_and_vanish(void **state)
{
    static const char *const both[] = {"tcp://10.0.0.1:5", "tcp://10.0.0.2:5"};
    static const char *const moved[] = {"tcp://10.0.0.2:6"};
    struct fixture fixture;

    (void)state;
    begin(&fixture, "");
    scan(&fixture);
    expect_endpoints(&fixture, NULL, 0);
    put_channel(&fixture, "b%2Fkv%2Devents%2F2", "ns1", "kv-events", both[1]);
    put_channel(&fixture, "b%2Fkv%2Devents%2F1", "ns1", "kv_events", both[0]);
    put_channel(&fixture, "b%2Fkv%5Fmetrics%2F1", "ns1", "kv_metrics", "tcp://10.0.0.3:5");
    put_channel(&fixture, "other", "ns2", "kv-events", both[0]); /* each address once */
    scan(&fixture);
    expect_endpoints(&fixture, both, 2);
    assert_int_equal(advisor_discovery_odd(fixture.discovery), 0);
    drop(&fixture, ADVISOR_DISCOVERY_CHANNELS, "b%2Fkv%2Devents%2F1");
    drop(&fixture, ADVISOR_DISCOVERY_CHANNELS, "other");
    scan(&fixture);
    expect_endpoints(&fixture, both, 2); /* may be a file that is just being replaced */
    scan(&fixture);
    expect_endpoints(&fixture, &both[1], 1);
    put_channel(&fixture, "b%2Fkv%2Devents%2F2", "ns1", "kv-events", moved[0]);
    scan(&fixture);
    expect_endpoints(&fixture, moved, 1);
    end(&fixture);
}

static void
scopes_are_kept_apart(void **state)
{
    static const char *const wanted[] = {"tcp://10.0.0.1:5", "tcp://10.0.0.3:5"};
    struct fixture fixture;
    char text[TEXT_SIZE];

    (void)state;
    begin(&fixture, "namespace.ns1.component.back-end");
    put_channel(&fixture, "1", "ns1", "kv-events", wanted[0]);
    put_channel(&fixture, "2", "ns2", "kv-events", "tcp://10.0.0.2:5");
    (void)snprintf(text, sizeof(text), OLD_CHANNEL, wanted[1]);
    put(&fixture, ADVISOR_DISCOVERY_CHANNELS, "3", text);
    scan(&fixture);
    expect_endpoints(&fixture, wanted, 2);
    end(&fixture);
}

static void
brokers_are_endpoints(void **state)
{
    static const char *const brokers[] = {"tcp://10.0.0.8:2", "tcp://10.0.0.9:2"};
    struct fixture fixture;

    (void)state;
    begin(&fixture, "");
    put(&fixture, ADVISOR_DISCOVERY_CHANNELS, "1", BROKER);
    put(&fixture, ADVISOR_DISCOVERY_CHANNELS, "2", BROKER);
    scan(&fixture);
    expect_endpoints(&fixture, brokers, 2);
    end(&fixture);
}

static void
workers_are_missed(void **state)
{
    struct fixture fixture;
    const uint64_t *gone;
    size_t count;

    (void)state;
    begin(&fixture, "");
    put_worker(&fixture, "w%2F0", WORKER, 0);
    put_worker(&fixture, "w%2F1", WORKER, 1);
    put_worker(&fixture, "v%2F0", 5, 0);
    scan(&fixture);
    assert_int_equal(advisor_discovery_workers(fixture.discovery), 2);
    drop(&fixture, ADVISOR_DISCOVERY_SOURCES, "w%2F0");
    for (int i = 0; i < 3; i++) {
        scan(&fixture);
        assert_int_equal(gone_count(&fixture), 0); /* its other rank is there */
    }
    drop(&fixture, ADVISOR_DISCOVERY_SOURCES, "w%2F1");
    scan(&fixture);
    assert_int_equal(gone_count(&fixture), 0);
    scan(&fixture);
    gone = advisor_discovery_gone(fixture.discovery, &count);
    assert_int_equal(count, 1);
    assert_true(gone[0] == WORKER);
    scan(&fixture);
    assert_int_equal(gone_count(&fixture), 0); /* told once */
    put_worker(&fixture, "w%2F0", WORKER, 0);
    scan(&fixture);
    assert_int_equal(advisor_discovery_workers(fixture.discovery), 2);
    end(&fixture);
}

/* A process that was killed leaves its files; nobody renews them. */
static void
stale_records_are_gone(void **state)
{
    struct fixture fixture;
    size_t lived = 0;
    time_t second = 1000000;

    (void)state;
    begin(&fixture, "");
    put_worker(&fixture, "dead", 1, 0);
    put_worker(&fixture, "alive", 2, 0);
    while (gone_count(&fixture) == 0) {
        if (lived % 10 == 0)
            renew(&fixture, ADVISOR_DISCOVERY_SOURCES, "alive", ++second);
        scan(&fixture);
        assert_true(++lived < 100);
    }
    assert_int_equal(lived - 1, ADVISOR_DISCOVERY_STALE_MS / 1000);
    assert_int_equal(advisor_discovery_workers(fixture.discovery), 1);
    renew(&fixture, ADVISOR_DISCOVERY_SOURCES, "dead", ++second); /* it was only slow */
    scan(&fixture);
    assert_int_equal(advisor_discovery_workers(fixture.discovery), 2);
    end(&fixture);
}

static void
garbage_changes_nothing(void **state)
{
    static const char *const endpoint[] = {"tcp://10.0.0.1:5"};
    static const char *const garbage[] = {"",
                                          "{",
                                          "null",
                                          "[]",
                                          "7",
                                          "{\"topic\":\"kv-events\"}",
                                          "{\"topic\":\"kv-events\",\"transport\":{\"kind\":7}}",
                                          "\xff\xfe"};
    struct fixture fixture;
    char path[PATH_SIZE + 256];
    char name[32];

    (void)state;
    begin(&fixture, "");
    put_channel(&fixture, "1", "ns1", "kv-events", endpoint[0]);
    put_worker(&fixture, "w", WORKER, 0);
    scan(&fixture);
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        (void)snprintf(name, sizeof(name), "garbage%zu", i);
        put(&fixture, ADVISOR_DISCOVERY_CHANNELS, name, garbage[i]);
        put(&fixture, ADVISOR_DISCOVERY_CHANNELS, "1", garbage[i]); /* half written */
        put(&fixture, ADVISOR_DISCOVERY_SOURCES, "w", garbage[i]);
        scan(&fixture);
        assert_int_equal(advisor_discovery_odd(fixture.discovery), i + 3);
        expect_endpoints(&fixture, endpoint, 1);
        assert_int_equal(advisor_discovery_workers(fixture.discovery), 1);
    }
    path_of(&fixture, ADVISOR_DISCOVERY_INSTANCES, "folder", path, sizeof(path));
    assert_int_equal(mkdir(path, 0700), 0);
    path_of(&fixture, ADVISOR_DISCOVERY_INSTANCES, "link", path, sizeof(path));
    assert_int_equal(symlink("/etc/hostname", path), 0);
    {
        char large[ADVISOR_DISCOVERY_RECORD_MAX + 2];

        memset(large, ' ', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        put(&fixture, ADVISOR_DISCOVERY_INSTANCES, "large", large);
    }
    scan(&fixture);
    expect_endpoints(&fixture, endpoint, 1);
    assert_int_equal(gone_count(&fixture), 0);
    end(&fixture);
}

/* The folder itself is away (a mount, a rename): nothing is taken away, and it is said. */
static void
a_missing_folder_takes_nothing(void **state)
{
    static const char *const endpoint[] = {"tcp://10.0.0.1:5"};
    struct fixture fixture;
    struct kvt_error err;
    char from[PATH_SIZE + 8];
    char to[PATH_SIZE + 8];

    (void)state;
    begin(&fixture, "");
    put_channel(&fixture, "1", "ns1", "kv-events", endpoint[0]);
    put_worker(&fixture, "w", WORKER, 0);
    scan(&fixture);
    (void)snprintf(from, sizeof(from), "%s/v1", fixture.folder);
    (void)snprintf(to, sizeof(to), "%s/v2", fixture.folder);
    assert_int_equal(rename(from, to), 0);
    for (int i = 0; i < 5; i++) {
        fixture.now_ms += 1000;
        assert_int_equal(advisor_discovery_scan(fixture.discovery, fixture.now_ms, &err),
                         KVT_NOTFOUND);
        assert_true(err.text[0] != '\0');
    }
    expect_endpoints(&fixture, endpoint, 1);
    assert_int_equal(gone_count(&fixture), 0);
    assert_int_equal(rename(to, from), 0);
    scan(&fixture);
    expect_endpoints(&fixture, endpoint, 1);
    end(&fixture);
}

static void
workers_are_found(void **state)
{
    struct advisor_discovery_target target;
    struct fixture fixture;
    struct kvt_error err;
    char text[TEXT_SIZE];

    (void)state;
    begin(&fixture, "");
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 0, &target, &err),
                     KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "15204838567219634037"));
    put(&fixture, ADVISOR_DISCOVERY_SOURCES, "garbage", "{");
    put_worker(&fixture, "v", 3, 1);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 1, 0, &target, &err),
                     KVT_NOTFOUND);
    put_worker(&fixture, "w", WORKER, 1);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 1, 0, &target, &err), KVT_OK);
    assert_string_equal(target.tcp, "10.0.0.5:39707/4bd5/ns1/b/worker_kv_query_source_4d");
    assert_string_equal(target.nats, "");
    assert_false(target.json);

    /* Before 1.4.2: an endpoint for each rank, over NATS here, bodies in JSON. */
    (void)snprintf(text, sizeof(text), INSTANCE, "generate", 9ull, "nats_tcp", "ns1_b.generate-9");
    put(&fixture, ADVISOR_DISCOVERY_INSTANCES, "1", text);
    (void)snprintf(text, sizeof(text), INSTANCE, "worker_kv_indexer_query_dp2", 9ull, "nats_tcp",
                   "ns1_b.worker_kv_indexer_query_dp2-9");
    put(&fixture, ADVISOR_DISCOVERY_INSTANCES, "2", text);
    assert_int_equal(advisor_discovery_find(fixture.folder, 9, 0, 0, &target, &err), KVT_AGAIN);
    assert_int_equal(advisor_discovery_find(fixture.folder, 9, 2, 0, &target, &err), KVT_OK);
    assert_string_equal(target.nats, "ns1_b.worker_kv_indexer_query_dp2-9");
    assert_true(target.json);
    end(&fixture);
}

/* A rank whose own record is missing, of a worker that is there all the same. */
static void
workers_are_vouched_for(void **state)
{
    struct advisor_discovery_target target;
    struct fixture fixture;
    struct kvt_error err;
    char text[TEXT_SIZE];

    (void)state;
    begin(&fixture, "");
    put_worker(&fixture, "other", 3, 0);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 7, &target, &err),
                     KVT_NOTFOUND);
    put_worker(&fixture, "rank", WORKER, 2);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 7, &target, &err),
                     KVT_AGAIN);
    assert_non_null(strstr(err.text, "how to ask rank 0"));
    assert_string_equal(target.tcp, "");
    drop(&fixture, ADVISOR_DISCOVERY_SOURCES, "rank");

    (void)snprintf(text, sizeof(text), INSTANCE, "generate", (unsigned long long)WORKER, "tcp",
                   "10.0.0.5:1/x");
    put(&fixture, ADVISOR_DISCOVERY_INSTANCES, "endpoint", text);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 7, &target, &err),
                     KVT_AGAIN);
    drop(&fixture, ADVISOR_DISCOVERY_INSTANCES, "endpoint");

    put_channel(&fixture, "metrics", "ns1", "kv_metrics", "tcp://10.0.0.1:5");
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 7, &target, &err),
                     KVT_NOTFOUND);
    put_channel(&fixture, "channel", "ns1", "kv-events", "tcp://10.0.0.1:5");
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 7, &target, &err),
                     KVT_AGAIN); /* of its publisher */
    assert_int_equal(advisor_discovery_find(fixture.folder, 7, 0, 0, &target, &err), KVT_AGAIN);
    assert_int_equal(advisor_discovery_find(fixture.folder, WORKER, 0, 8, &target, &err),
                     KVT_NOTFOUND);
    end(&fixture);
}

/* Records cut, and bytes changed at random: never more than a refusal. */
static void
records_are_read_in_bounds(void **state)
{
    struct advisor_discovery_record record;
    uint64_t random = test_seed();
    char text[TEXT_SIZE];
    size_t size;
    size_t read = 0;

    (void)state;
    (void)snprintf(text, sizeof(text), SOURCE, 1ull, 0u, 1ull);
    size = strlen(text);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(
            advisor_discovery_read(&record, ADVISOR_DISCOVERY_SOURCES, text, cut, NULL),
            KVT_INVALID);
    assert_int_equal(advisor_discovery_read(&record, ADVISOR_DISCOVERY_SOURCES, text, size, NULL),
                     KVT_OK);
    for (int round = 0; round < 2000; round++) {
        char changed[TEXT_SIZE];

        memcpy(changed, text, size);
        for (int i = 0; i < 3; i++)
            changed[kvt_random_below(&random, size)] = (char)kvt_random_below(&random, 256);
        for (int bucket = 0; bucket < ADVISOR_DISCOVERY_BUCKETS; bucket++)
            if (advisor_discovery_read(&record, (enum advisor_discovery_bucket)bucket, changed,
                                       size, NULL) == KVT_OK)
                read++;
    }
    assert_true(read > 0);
}

static bool
scan_once(void *arg)
{
    struct fixture *fixture = arg;
    struct advisor_discovery *discovery;
    size_t count = 0;
    enum kvt_err rc = advisor_discovery_new(&discovery, fixture->folder, "");

    if (rc != KVT_OK)
        return false;
    rc = advisor_discovery_scan(discovery, 1000, NULL);
    if (rc == KVT_OK)
        (void)advisor_discovery_endpoints(discovery, &count);
    /* A record there was no memory for is read at the next scan. */
    if (rc == KVT_OK && count != 1)
        rc = KVT_NOMEM;
    advisor_discovery_free(discovery);
    return rc == KVT_OK;
}

static void
memory_is_short(void **state)
{
    struct fixture fixture;

    (void)state;
    begin(&fixture, "");
    put_channel(&fixture, "1", "ns1", "kv-events", "tcp://10.0.0.1:5");
    put_worker(&fixture, "w", WORKER, 0);
    assert_true(test_sweep_allocations(scan_once, &fixture) > 8);
    end(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publishers_appear_and_vanish),
        cmocka_unit_test(scopes_are_kept_apart),
        cmocka_unit_test(brokers_are_endpoints),
        cmocka_unit_test(workers_are_missed),
        cmocka_unit_test(stale_records_are_gone),
        cmocka_unit_test(garbage_changes_nothing),
        cmocka_unit_test(a_missing_folder_takes_nothing),
        cmocka_unit_test(workers_are_found),
        cmocka_unit_test(workers_are_vouched_for),
        cmocka_unit_test(records_are_read_in_bounds),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
