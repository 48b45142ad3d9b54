/*
 * What is tested: g4/lock/lock_body.h against texts written by hand, ours and KVBM's, and what
 * g4_lease_judge() makes of a lock by its age.
 */
#include <stdio.h>
#include <string.h>

#include "g4/lock/lease.h"

#include "tests/support/seed.h"

static enum kvt_err
parse(const char *text, struct g4_lock_body *body)
{
    return g4_lock_body_parse(body, text, strlen(text), NULL);
}

static void
a_body_comes_back(void **state)
{
    struct g4_lock_body body = {.instance = "gw \"0\" \\ \x01 é",
                                .acquired_ms = 1735689599999,
                                .deadline_ms = 1735689659999,
                                .nonce = UINT64_C(0x00ffee0000000001),
                                .epoch = 7,
                                .writes = 3,
                                .released = true};
    struct g4_lock_body found;
    char text[G4_LOCK_BODY_MAX];
    size_t size;

    (void)state;
    assert_int_equal(g4_lock_body_format(&body, text, &size), KVT_OK);
    assert_int_equal(g4_lock_body_parse(&found, text, size, NULL), KVT_OK);
    assert_string_equal(found.instance, body.instance);
    assert_int_equal(found.acquired_ms, body.acquired_ms);
    assert_int_equal(found.deadline_ms, body.deadline_ms);
    assert_int_equal(found.nonce, body.nonce);
    assert_int_equal(found.epoch, 7);
    assert_int_equal(found.writes, 3);
    assert_true(found.released);
    body.deadline_ms = UINT64_C(253402300800000);
    assert_int_equal(g4_lock_body_format(&body, text, &size), KVT_RANGE);
}

static void
a_lock_of_kvbm_is_read(void **state)
{
    struct g4_lock_body body;

    (void)state;
    assert_int_equal(parse("{\"instance_id\":\"5f0c\",\"acquired_at\":"
                           "\"2025-12-14T10:30:00.123456789+00:00\",\"deadline\":"
                           "\"2025-12-14T10:35:00.123456789+00:00\"}",
                           &body),
                     KVT_OK);
    assert_string_equal(body.instance, "5f0c");
    assert_int_equal(body.acquired_ms, UINT64_C(1765708200123));
    assert_int_equal(g4_lock_body_ttl_ms(&body), 300000);
    assert_int_equal(body.nonce, 0);
    assert_int_equal(body.epoch, 0);
    assert_false(body.released);
    assert_int_equal(parse(" {\"more\":[{}],\"deadline\":\"2000-02-29t23:59:60z\",\"instance_id\":"
                           "\"a\",\"acquired_at\":\"2000-02-29T12:00:00-11:59\"} ",
                           &body),
                     KVT_OK);
    assert_int_equal(body.acquired_ms, body.deadline_ms - 60000);
}

static void
what_is_no_lock_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\"}",
        "{\"instance_id\":7,\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\"}",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\"",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\"}x",
        "{\"instance_id\":\"a\",\"instance_id\":\"b\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\"}",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\",\"epoch\":-1}",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\",\"epoch\":18446744073709551615}",
        "{\"instance_id\":\"a\",\"acquired_at\":\"2025-01-01T00:00:00Z\","
        "\"deadline\":\"2025-01-01T00:00:00Z\",\"nonce\":\"xyz\"}",
    };
    static const char *const times[] = {
        "2025-01-01",           "2025-13-01T00:00:00Z",  "2025-02-29T00:00:00Z",
        "2025-01-01T24:00:00Z", "2025-01-01T00:00:00",   "2025-01-01T00:00:00.Z",
        "1969-12-31T23:59:59Z", "2025-01-01T00:00:00Zx", "1970-01-01T00:00:00+00:01",
        "2025-1-01T00:00:00Z",  "2025-01-01T00:00:00+1", "",
    };
    struct g4_lock_body body;
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(parse(texts[i], &body), KVT_INVALID);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"instance_id\":\"a\",\"acquired_at\":\"%s\","
                       "\"deadline\":\"2025-01-01T00:00:00Z\"}",
                       times[i]);
        assert_int_equal(parse(text, &body), KVT_INVALID);
    }
}

static struct g4_lease_seen
judge(const char *body, uint64_t age_ms, enum kvt_err status)
{
    char buffer[G4_LOCK_BODY_MAX];
    struct g4_request request = {.buffer = buffer,
                                 .buffer_size = strlen(body),
                                 .status = status,
                                 .server_ms = 1800000000000 + age_ms,
                                 .modified_ms = 1800000000000};
    struct g4_lease_seen seen;

    memcpy(buffer, body, strlen(body));
    g4_lease_judge(&seen, &request);
    return seen;
}

static void
age_is_judged_by_the_server_alone(void **state)
{
    /* The holder's clock is years behind; its lease is 300 s. */
    static const char lock[] = "{\"instance_id\":\"a\",\"acquired_at\":\"2001-01-01T00:00:00Z\","
                               "\"deadline\":\"2001-01-01T00:05:00Z\"}";
    static const char dead[] = "{\"instance_id\":\"a\",\"acquired_at\":\"2001-01-01T00:00:00Z\","
                               "\"deadline\":\"1970-01-01T00:00:00Z\",\"released\":true}";
    static const char endless[] = "{\"instance_id\":\"a\",\"acquired_at\":\"2001-01-01T00:00:00Z\","
                                  "\"deadline\":\"9001-01-01T00:05:00Z\"}";
    struct g4_request no_clock = {.status = KVT_OK, .buffer_size = sizeof(lock) - 1};
    struct g4_lease_seen seen;
    char buffer[G4_LOCK_BODY_MAX];

    (void)state;
    assert_false(judge(lock, 302000, KVT_OK).expired);
    assert_true(judge(lock, 302001, KVT_OK).expired);
    assert_true(judge(dead, 0, KVT_OK).expired);
    seen = judge("no lock", G4_LEASE_TTL_MAX_MS + G4_LEASE_GRACE_MS, KVT_OK);
    assert_true(seen.malformed && !seen.expired);
    assert_true(judge("no lock", G4_LEASE_TTL_MAX_MS + G4_LEASE_GRACE_MS + 1, KVT_OK).expired);
    assert_true(judge(endless, 302001, KVT_OK).malformed);
    assert_false(judge(endless, 302001, KVT_OK).expired);
    assert_true(judge(lock, 302001, KVT_RANGE).malformed); /* larger than any lock */
    no_clock.buffer = buffer;
    memcpy(buffer, lock, sizeof(lock) - 1);
    g4_lease_judge(&seen, &no_clock);
    assert_false(seen.aged || seen.expired || seen.malformed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_comes_back),
        cmocka_unit_test(a_lock_of_kvbm_is_read),
        cmocka_unit_test(what_is_no_lock_is_refused),
        cmocka_unit_test(age_is_judged_by_the_server_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
