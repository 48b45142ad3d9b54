/*
 * What is tested: base/core/redact.h, and that log and errors pass through it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/redact.h"
#include "kvtier/error.h"

#include "tests/support/seed.h"

static void
secrets_are_masked(void **state)
{
    static const char *const texts[][2] = {
        {"nats://user:geheim@h:4222", "nats://***@h:4222"},
        {"no NATS at \"nats://user:geheim@h:4222\": refused",
         "no NATS at \"nats://***@h:4222\": refused"},
        {"nats://a:geheim@h,nats://b:geheim@i", "nats://***@h,nats://***@i"},
        {"tls://geheim@h", "tls://***@h"},
        {"nats://u:ge/heim@h/x", "nats://***@h/x"},
        {"nats://u:ge@heim@h/x", "nats://***@h/x"},
        {"nats://u:gehei", "nats://***"},
        {"nats://u:", "nats://**"},
        {"nats://u@h", "nats://*@h"},
        {"http://h:80/a@b", "http://h:80/a@b"},
        {"http://h/a:b@c", "http://h/a:b@c"},
        {"http://[::1]:9480", "http://[::1]:9480"},
        {"at http://h:9480", "at http://h:9480"},
        {"http://h:9480/x?token=geheim&a=1", "http://h:9480/x?token=***&a=1"},
        {"GET /b/k?X-Amz-Credential=geheim%2F1&X-Amz-Signature=geheim",
         "GET /b/k?X-Amz-Credential=***&X-Amz-Signature=***"},
        {"--s3-secret-key=x password=geheim", "--s3-secret-key=x password=***"},
        {"Authorization: AWS4-HMAC-SHA256 Credential=geheim, Signature=geheim\nHost: h",
         "Authorization: ***\nHost: h"},
        {"bearer 0123456789abcdef0123", "bearer ***"},
        {"unknown flag --x=user:geheim@h:4222", "unknown flag --x=***@h:4222"},
        {"a basic set-up", "a basic set-up"},
        {"key acme/llama:70b@fp8", "key acme/llama:70b@fp8"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[256];

        (void)snprintf(text, sizeof(text), "%s", texts[i][0]);
        kvt_redact(text);
        assert_string_equal(text, texts[i][1]);
    }
}

static void
addresses_without_scheme(void **state)
{
    static const char *const texts[][2] = {
        {"user:geheim@h:4222", "***@h:4222"},
        {"geheim@h,u:geheim@i", "***@h,***@i"},
        {"h:4222,nats://u:geheim@i", "h:4222,nats://***@i"},
        {"h", "h"},
        {"", ""},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        kvt_redact_url(out, sizeof(out), texts[i][0]);
        assert_string_equal(out, texts[i][1]);
    }
    kvt_redact_url(out, 12, "nats://user:geheim@host");
    assert_null(strstr(out, "geh"));
}

static void
errors_and_log_are_redacted(void **state)
{
    struct kvt_error err;
    char line[KVT_LOG_LINE_MAX];
    int pipes[2];
    int saved;
    ssize_t size;

    (void)state;
    (void)kvt_error_set(&err, KVT_INVALID, "no %s", "nats://u:geheim@h");
    assert_string_equal(err.text, "no nats://***@h");
    (void)kvt_error_sys(&err, ENOENT, "open %s", "nats://u:geheim@h");
    assert_null(strstr(err.text, "geheim"));
    assert_int_equal(pipe(pipes), 0);
    saved = dup(STDERR_FILENO);
    assert_true(dup2(pipes[1], STDERR_FILENO) >= 0);
    kvt_log_error("test", "said", "at %s", "nats://u:geheim@h");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    size = read(pipes[0], line, sizeof(line) - 1);
    assert_true(size > 0);
    line[size] = '\0';
    assert_null(strstr(line, "geheim"));
    assert_non_null(strstr(line, "nats://***@h"));
    (void)close(saved);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_masked),
        cmocka_unit_test(addresses_without_scheme),
        cmocka_unit_test(errors_and_log_are_redacted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
