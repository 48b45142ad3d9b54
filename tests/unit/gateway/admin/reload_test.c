/*
 * What is tested: gateway/admin/reload.h with real files: each is taken up when it is right, what
 * is wrong changes nothing and is said until it is right; a certificate that is not valid is named.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "gateway/admin/gateway_settings.h"
#include "gateway/admin/reload.h"

#include "tests/support/certificate.h"
#include "tests/support/seed.h"

#define HOUR_MS (UINT64_C(3600) * 1000)

struct fixture {
    char folder[128];
    char credentials[160];
    char certificate[160];
    char key[160];
    struct kvt_metrics *metrics;
    struct gateway_stats stats;
    struct kvt_config *config;
    struct gateway_settings settings;
    struct gateway_auth *auth;
    struct gateway_reload *reload;
    struct test_certificate pair;
};

static void
write_text(const char *path, const char *text)
{
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
}

static void
write_pair(struct fixture *f, uint64_t from_ms, uint64_t to_ms)
{
    test_certificate_make(&f->pair, "gateway", from_ms, to_ms);
    write_text(f->certificate, f->pair.text);
    write_text(f->key, f->pair.key);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct kvt_error err;

    test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->credentials, sizeof(f->credentials), "%s/credentials", f->folder);
    (void)snprintf(f->certificate, sizeof(f->certificate), "%s/front.pem", f->folder);
    (void)snprintf(f->key, sizeof(f->key), "%s/front.key", f->folder);
    write_text(f->credentials, "first:secret\n");
    write_pair(f, now_ms - HOUR_MS, now_ms + HOUR_MS);
    assert_int_equal(
        kvt_config_new(&f->config, gateway_settings_table, GATEWAY_SETTING_COUNT, &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(f->config, "front-credentials-file", f->credentials, &err),
                     KVT_OK);
    assert_int_equal(
        kvt_config_set_flag(f->config, "front-tls-certificate-file", f->certificate, &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(f->config, "front-tls-key-file", f->key, &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(f->config, "cold-kind", "directory", &err), KVT_OK);
    if (gateway_settings_load(&f->settings, f->config, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(kvt_metrics_new(&f->metrics), KVT_OK);
    gateway_stats_init(&f->stats, f->metrics, (struct gateway_stats_tiers){.warm = false});
    assert_int_equal(gateway_auth_new(&f->auth, f->settings.credentials, &err), KVT_OK);
    assert_int_equal(gateway_reload_new(
                         &f->reload, &(struct gateway_reload_options){.config = f->config,
                                                                      .auth = f->auth,
                                                                      .tls = f->settings.front_tls,
                                                                      .stats = &f->stats}),
                     KVT_OK);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_reload_free(f->reload);
    gateway_auth_free(f->auth);
    kvt_tls_free(f->settings.front_tls);
    kvt_config_free(f->config);
    kvt_metrics_free(f->metrics);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

/* A signature that fits nothing is refused as such, if the access key is known at all. */
static bool
is_known(struct fixture *f, const char *access)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));
    enum gateway_s3_error fault;
    char text[256];

    (void)snprintf(request->method, sizeof(request->method), "GET");
    (void)snprintf(text, sizeof(text),
                   "AWS4-HMAC-SHA256 Credential=%s/20260101/us-east-1/s3/aws4_request, "
                   "SignedHeaders=host, Signature=%064d",
                   access, 0);
    request->raw = kvt_strdup("/b/k");
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "host", "h"), KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "authorization", text), KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "x-amz-date", "20260101T000000Z"), KVT_OK);
    assert_int_equal(
        gateway_request_header_add(request, "x-amz-content-sha256", "UNSIGNED-PAYLOAD"), KVT_OK);
    fault = gateway_auth_check(f->auth, request, 0);
    gateway_request_release(request, NULL);
    assert_true(fault == GATEWAY_S3_ERROR_SIGNATURE || fault == GATEWAY_S3_ERROR_UNKNOWN_KEY_ID);
    return fault == GATEWAY_S3_ERROR_SIGNATURE;
}

/* What is said of the part; "" when nothing is. */
static const char *
reason(struct fixture *f, enum gateway_reload_part part, char text[KVT_ERROR_TEXT_MAX])
{
    const bool any = gateway_reload_reason(f->reload, part, kvt_clock_unix_ms(), text);

    assert_int_equal(any, text[0] != '\0');
    return text;
}

static uint64_t
end_ms(struct fixture *f)
{
    uint64_t from_ms;
    uint64_t to_ms;

    kvt_tls_validity(f->settings.front_tls, &from_ms, &to_ms);
    assert_int_equal(gateway_stats_get(&f->stats, GATEWAY_STAT_CERTIFICATE_END), to_ms / 1000);
    return to_ms;
}

static void
both_are_taken_up(void **state)
{
    struct fixture *f = *state;
    const uint64_t now_ms = kvt_clock_unix_ms() / 1000 * 1000;
    char text[KVT_ERROR_TEXT_MAX];

    assert_true(is_known(f, "first"));
    write_text(f->credentials, "second:secret\n");
    write_pair(f, now_ms - HOUR_MS, now_ms + 9 * HOUR_MS);
    gateway_reload_run(f->reload);
    assert_false(is_known(f, "first"));
    assert_true(is_known(f, "second"));
    assert_int_equal(end_ms(f), now_ms + 9 * HOUR_MS);
    assert_string_equal(reason(f, GATEWAY_RELOAD_CREDENTIALS, text), "");
    assert_string_equal(reason(f, GATEWAY_RELOAD_CERTIFICATE, text), "");
}

static void
what_is_wrong_is_said_until_it_is_right(void **state)
{
    struct fixture *f = *state;
    const uint64_t now_ms = kvt_clock_unix_ms();
    const uint64_t before_ms = end_ms(f);
    char text[KVT_ERROR_TEXT_MAX];

    write_text(f->credentials, "no colon\n");
    test_certificate_make(&f->pair, "other", now_ms - HOUR_MS, now_ms + 2 * HOUR_MS);
    write_text(f->certificate, f->pair.text); /* the key is the former one's */
    gateway_reload_run(f->reload);
    assert_true(is_known(f, "first"));
    assert_int_equal(end_ms(f), before_ms);
    assert_non_null(strstr(reason(f, GATEWAY_RELOAD_CREDENTIALS, text), "credentials stay"));
    assert_non_null(strstr(reason(f, GATEWAY_RELOAD_CERTIFICATE, text), "belong together"));
    write_text(f->key, f->pair.key);
    gateway_reload_run(f->reload);
    assert_string_equal(reason(f, GATEWAY_RELOAD_CERTIFICATE, text), "");
    assert_true(end_ms(f) > before_ms);
    assert_non_null(strstr(reason(f, GATEWAY_RELOAD_CREDENTIALS, text), "credentials stay"));
    write_text(f->credentials, "third:secret\n");
    gateway_reload_run(f->reload);
    assert_string_equal(reason(f, GATEWAY_RELOAD_CREDENTIALS, text), "");
    assert_true(is_known(f, "third"));
}

static void
what_is_not_valid_is_named(void **state)
{
    struct fixture *f = *state;
    const uint64_t now_ms = kvt_clock_unix_ms();
    char text[KVT_ERROR_TEXT_MAX];

    assert_true(
        gateway_reload_reason(f->reload, GATEWAY_RELOAD_CERTIFICATE, now_ms + 2 * HOUR_MS, text));
    assert_non_null(strstr(text, "no longer"));
    assert_false(
        gateway_reload_reason(f->reload, GATEWAY_RELOAD_CREDENTIALS, now_ms + 2 * HOUR_MS, text));
    write_pair(f, now_ms + HOUR_MS, now_ms + 2 * HOUR_MS);
    gateway_reload_run(f->reload);
    assert_non_null(strstr(reason(f, GATEWAY_RELOAD_CERTIFICATE, text), "only from"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_are_taken_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said_until_it_is_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_valid_is_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
