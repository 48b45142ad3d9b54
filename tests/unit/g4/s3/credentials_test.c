/*
 * What is tested: g4/s3/credentials.h with fake services on loopback: which link of the chain is
 * taken, what its answers become, renewal ahead of the end, refusals and malformed answers; and
 * that no message holds a secret.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "g4/s3/credentials.h"
#include "g4/s3/s3.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { HEAD_MAX = 8192, PATH_SIZE = 512, WAIT_MS = 30000 };

#define SECRET "s3cr3t/Of+the=Fake"

/* Everything the chain looks at; each test begins without any of it. */
static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
    "AWS_EC2_METADATA_DISABLED",
};

enum kind { STS, CONTAINER, METADATA };

/* A service that hands out keys numbered by the time it was asked. */
struct service {
    enum kind kind;
    struct hostile *hostile;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t lasts_ms;    /* of the keys; 0 = they have no end */
    const char *instead;  /* answered in their place, whole; NULL = keys */
    unsigned good;        /* how often it answers with keys all the same */
    unsigned asked;
    char head[HEAD_MAX];
    char body[HEAD_MAX];
};

struct world {
    char folder[PATH_SIZE - 64];
    struct service service;
};

static void
reply_with(struct kvt_buffer *reply, const char *status, const char *body)
{
    kvt_buffer_printf(reply, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                      status, strlen(body), body);
}

static void
reply_keys(struct service *service, struct kvt_buffer *reply)
{
    char ends[KVT_CLOCK_TEXT_MAX];
    char body[1024];

    service->asked++;
    kvt_clock_format(kvt_clock_unix_ms() + service->lasts_ms, ends);
    if (service->kind == STS)
        (void)snprintf(body, sizeof(body),
                       "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                       "<Credentials><AccessKeyId>AK%u</AccessKeyId><SecretAccessKey>" SECRET
                       "</SecretAccessKey><SessionToken>token%u</SessionToken><Expiration>%s"
                       "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                       "</AssumeRoleWithWebIdentityResponse>",
                       service->asked, service->asked, ends);
    else
        (void)snprintf(body, sizeof(body),
                       "{\"Code\":\"Success\",\"AccessKeyId\":\"AK%u\",\"SecretAccessKey\":"
                       "\"" SECRET "\",\"Token\":\"token%u\",\"Type\":[1,{}]%s%s%s}",
                       service->asked, service->asked,
                       service->lasts_ms == 0 ? "" : ",\"Expiration\":\"",
                       service->lasts_ms == 0 ? "" : ends, service->lasts_ms == 0 ? "" : "\"");
    reply_with(reply, "200 OK", body);
}

static void
play(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    static const char role[] = "GET /latest/meta-data/iam/security-credentials/ ";
    struct service *service = arg;

    (void)pthread_mutex_lock(&service->lock);
    if (service->kind == METADATA && strncmp(head, "PUT /latest/api/token ", 22) == 0) {
        assert_non_null(strstr(head, "X-aws-ec2-metadata-token-ttl-seconds: 21600"));
        reply_with(reply, "200 OK", "session-7");
    } else if (service->kind == METADATA && strncmp(head, role, sizeof(role) - 1) == 0) {
        assert_non_null(strstr(head, "X-aws-ec2-metadata-token: session-7"));
        reply_with(reply, "200 OK", "the-role\n");
    } else {
        (void)snprintf(service->head, sizeof(service->head), "%s", head);
        (void)snprintf(service->body, sizeof(service->body), "%.*s", (int)size, (const char *)body);
        if (service->instead == NULL || service->asked < service->good) {
            reply_keys(service, reply);
        } else {
            service->asked++;
            kvt_buffer_append(reply, service->instead, strlen(service->instead));
        }
    }
    (void)pthread_mutex_unlock(&service->lock);
}

static unsigned
asked(struct service *service)
{
    unsigned count;

    (void)pthread_mutex_lock(&service->lock);
    count = service->asked;
    (void)pthread_mutex_unlock(&service->lock);
    return count;
}

static void
answer_with(struct service *service, const char *instead, uint64_t lasts_ms)
{
    (void)pthread_mutex_lock(&service->lock);
    service->instead = instead;
    service->lasts_ms = lasts_ms;
    (void)pthread_mutex_unlock(&service->lock);
}

static void
set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static const char *
write_file(const struct world *world, const char *name, const char *text, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/%s", world->folder, name);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
    return path;
}

static int
setup(void **state)
{
    struct world *world = kvt_calloc(1, sizeof(*world));

    assert_non_null(world);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        assert_int_equal(unsetenv(variables[i]), 0);
    (void)test_folder_make(world->folder, sizeof(world->folder));
    set("HOME", world->folder);
    set("AWS_EC2_METADATA_DISABLED", "true");
    (void)pthread_mutex_init(&world->service.lock, NULL);
    *state = world;
    return 0;
}

static int
teardown(void **state)
{
    struct world *world = *state;

    if (world->service.hostile != NULL)
        hostile_stop(world->service.hostile);
    (void)pthread_mutex_destroy(&world->service.lock);
    test_folder_remove(world->folder);
    kvt_free(world);
    return 0;
}

/* Start the service and point the environment at it. */
static void
serve(struct world *world, enum kind kind, uint64_t lasts_ms)
{
    char path[PATH_SIZE];
    char url[128];

    world->service.kind = kind;
    world->service.lasts_ms = lasts_ms;
    world->service.hostile = hostile_start(play, &world->service);
    (void)snprintf(url, sizeof(url), "%s%s", hostile_options(world->service.hostile)->endpoint,
                   kind == CONTAINER ? "/keys?of=me" : "");
    switch (kind) {
    case STS:
        set("AWS_ENDPOINT_URL_STS", url);
        set("AWS_WEB_IDENTITY_TOKEN_FILE", write_file(world, "jwt", "a.b+c/d\n", path));
        set("AWS_ROLE_ARN", "arn:aws:iam::1:role/kv");
        break;
    case CONTAINER:
        set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
        set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            write_file(world, "auth", "Bearer x\n", path));
        break;
    case METADATA:
        set("AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
        set("AWS_EC2_METADATA_DISABLED", "false");
        break;
    }
}

static enum kvt_err
open_chain(struct g4_credentials **credentials, struct kvt_error *err)
{
    const enum kvt_err rc =
        g4_credentials_open(credentials, &(struct g4_credentials_options){.retry_ms = 5}, err);

    assert_true((rc == KVT_OK) == (*credentials != NULL));
    return rc;
}

/* Open, take, compare, close. */
static void
expect(enum g4_credentials_link link, const char *access, const char *secret, const char *token)
{
    struct g4_credentials *credentials;
    struct g4_credentials_state state;
    struct kvt_error err = {0};
    struct g4_keys keys;
    uint64_t generation;

    if (open_chain(&credentials, &err) != KVT_OK)
        fail_msg("%s", err.text);
    if (g4_credentials_take(credentials, &keys, &generation, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_string_equal(keys.access_key, access);
    assert_string_equal(keys.secret_key, secret);
    assert_string_equal(keys.session_token, token);
    assert_true(generation == 1);
    g4_credentials_state(credentials, &state);
    assert_int_equal(state.link, link);
    assert_null(strstr(state.where, secret));
    g4_credentials_close(credentials);
}

static void
expect_refused(enum kvt_err code, const char *part)
{
    struct g4_credentials *credentials;
    struct kvt_error err = {0};

    assert_int_equal(open_chain(&credentials, &err), code);
    if (strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_null(strstr(err.text, SECRET));
}

static void
the_first_link_that_is_set_up_is_the_one(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct g4_keys keys;
    uint64_t generation;
    char path[PATH_SIZE];

    expect_refused(KVT_NOTFOUND, "no S3 credentials");
    serve(world, CONTAINER, 0);
    expect(G4_CREDENTIALS_CONTAINER, "AK1", SECRET, "token1");
    set("AWS_SHARED_CREDENTIALS_FILE",
        write_file(world, "shared", "[default]\naws_access_key_id=AP\naws_secret_access_key=SP\n",
                   path));
    expect(G4_CREDENTIALS_PROFILE, "AP", "SP", "");
    set("AWS_ACCESS_KEY_ID", "AE");
    set("AWS_SECRET_ACCESS_KEY", "SE");
    set("AWS_SESSION_TOKEN", "TE");
    expect(G4_CREDENTIALS_ENVIRONMENT, "AE", "SE", "TE");
    assert_int_equal(g4_credentials_open(
                         &credentials,
                         &(struct g4_credentials_options){.access_key = "AG", .secret_key = "SG"},
                         NULL),
                     KVT_OK);
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, NULL), KVT_OK);
    assert_string_equal(keys.access_key, "AG");
    assert_string_equal(keys.session_token, ""); /* the environment's is another identity's */
    assert_false(g4_credentials_reject(credentials, generation));
    g4_credentials_close(credentials);
    assert_int_equal(asked(&world->service), 1);
}

static void
half_a_link_is_a_mistake_not_a_reason_to_go_on(void **state)
{
    struct world *world = *state;
    char path[PATH_SIZE];

    set("AWS_ACCESS_KEY_ID", "AE");
    expect_refused(KVT_INVALID, "go together");
    set("AWS_SECRET_ACCESS_KEY", SECRET "\r\nX: y");
    expect_refused(KVT_INVALID, "control characters");
    assert_int_equal(unsetenv("AWS_ACCESS_KEY_ID") | unsetenv("AWS_SECRET_ACCESS_KEY"), 0);
    set("AWS_PROFILE", "absent");
    expect_refused(KVT_INVALID, "no profile absent");
    write_file(world, "shared", "[p]\naws_access_key_id = A\n[q]\ncredential_process = /bin/x\n",
               path);
    set("AWS_SHARED_CREDENTIALS_FILE", path);
    set("AWS_PROFILE", "p");
    expect_refused(KVT_INVALID, "a key is missing");
    set("AWS_PROFILE", "q");
    expect_refused(KVT_INVALID, "credential_process is not supported");
    assert_int_equal(unsetenv("AWS_PROFILE"), 0);
    set("AWS_WEB_IDENTITY_TOKEN_FILE", path);
    expect_refused(KVT_INVALID, "AWS_ROLE_ARN");
    assert_int_equal(unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE"), 0);
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys");
    expect_refused(KVT_INVALID, "in the clear");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.com/keys");
    expect_refused(KVT_INVALID, "in the clear");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:80@example.com/keys");
    expect_refused(KVT_INVALID, "'@'");
    assert_int_equal(unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"), 0);
    set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.com/keys");
    expect_refused(KVT_INVALID, "'@'");
    assert_int_equal(unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), 0);
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1@example.com");
    set("AWS_EC2_METADATA_DISABLED", "false");
    expect_refused(KVT_INVALID, "'@'");
}

/* The path of a task's URI holds the id that its keys are handed out for. */
static void
a_container_is_told_of_without_its_path(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct g4_credentials_state now;
    struct kvt_error err = {0};

    serve(world, CONTAINER, 3600000);
    assert_int_equal(open_chain(&credentials, &err), KVT_OK);
    g4_credentials_state(credentials, &now);
    assert_non_null(strstr(now.where, "container (http://127.0.0.1:"));
    assert_null(strchr(strstr(now.where, "://") + 3, '/'));
    g4_credentials_close(credentials);
}

static void
profiles_come_from_both_files(void **state)
{
    struct world *world = *state;
    char path[PATH_SIZE];

    set("AWS_CONFIG_FILE",
        write_file(world, "config",
                   "# comment\n[default]\nregion = eu-1\n[profile other]\r\n"
                   "aws_access_key_id = CA\r\naws_secret_access_key = C=S\r\n"
                   "s3 =\n  aws_access_key_id = nested\n[other]\naws_access_key_id = no profile\n",
                   path));
    set("AWS_PROFILE", "other");
    expect(G4_CREDENTIALS_PROFILE, "CA", "C=S", "");
    set("AWS_SHARED_CREDENTIALS_FILE",
        write_file(world, "shared", "[ other ]\naws_session_token = T\naws_secret_access_key=S2",
                   path));
    expect(G4_CREDENTIALS_PROFILE, "CA", "S2", "T"); /* line by line the credentials file wins */
    write_file(world, "shared", "[other\n", path);
    expect_refused(KVT_INVALID, "line 1");
    write_file(world, "shared", "[other]\nno setting\n", path);
    expect_refused(KVT_INVALID, "line 2: neither");
}

static void
a_web_identity_becomes_keys(void **state)
{
    struct world *world = *state;

    serve(world, STS, 3600000);
    set("AWS_ROLE_SESSION_NAME", "me");
    expect(G4_CREDENTIALS_WEB_IDENTITY, "AK1", SECRET, "token1");
    assert_int_equal(strncmp(world->service.head, "POST / HTTP/1.1\r\n", 17), 0);
    assert_non_null(strstr(world->service.head, "Content-Type: application/x-www-form-urlencoded"));
    assert_null(strstr(world->service.head, "application/json"));
    assert_string_equal(world->service.body,
                        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3A"
                        "iam%3A%3A1%3Arole%2Fkv&RoleSessionName=me&WebIdentityToken=a.b%2Bc%2Fd");
}

static void
a_container_is_told_who_asks(void **state)
{
    struct world *world = *state;

    serve(world, CONTAINER, 3600000);
    expect(G4_CREDENTIALS_CONTAINER, "AK1", SECRET, "token1");
    assert_int_equal(strncmp(world->service.head, "GET /keys?of=me HTTP/1.1\r\n", 26), 0);
    assert_non_null(strstr(world->service.head, "\r\nAuthorization: Bearer x"));
    assert_int_equal(unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), 0);
    expect(G4_CREDENTIALS_CONTAINER, "AK2", SECRET, "token2");
    assert_null(strstr(world->service.head, "Authorization"));
}

static void
metadata_is_asked_in_its_second_version(void **state)
{
    struct world *world = *state;

    serve(world, METADATA, 3600000);
    expect(G4_CREDENTIALS_METADATA, "AK1", SECRET, "token1");
    assert_non_null(strstr(world->service.head, "/security-credentials/the-role HTTP/1.1"));
    assert_non_null(strstr(world->service.head, "X-aws-ec2-metadata-token: session-7"));
    hostile_stop(world->service.hostile);
    world->service.hostile = NULL;
    expect_refused(KVT_NOTFOUND, "instance metadata: ");
    serve(world, METADATA, 3600000);
    answer_with(&world->service, "HTTP/1.1 403 No\r\nConnection: close\r\n\r\n", 3600000);
    expect_refused(KVT_NOTFOUND, "HTTP 403");
}

/* What services say when they have no keys, or are not what they should be. */
static void
bad_answers_are_a_state_not_keys(void **state)
{
    static const struct {
        enum kind kind;
        const char *reply;
        const char *part;
    } rows[] = {
        {STS,
         "HTTP/1.1 403 No\r\nConnection: close\r\n\r\n<Error><Code>AccessDenied</Code></Error>",
         "HTTP 403"},
        {STS, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", "lacks keys"},
        {STS,
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<AccessKeyId>A</AccessKeyId>"
         "<SecretAccessKey>" SECRET "</SecretAccessKey><SessionToken>t</SessionToken>"
         "<Expiration>soon</Expiration>",
         "no time"},
        {CONTAINER, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"a\": nul", "answer"},
        {CONTAINER, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "no keys"},
        {CONTAINER,
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Code\":\"Failed\",\"Message\":\"no "
         "role\"}"
         "            ",
         "Failed: no role"},
        {CONTAINER,
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"AccessKeyId\":\"A\","
         "\"SecretAccessKey\":\"" SECRET "\",\"Token\":\"t\","
         "\"Expiration\":\"2020-01-01T00:00:00Z\"}",
         "over already"},
        {CONTAINER, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", "HTTP 500"},
        {METADATA, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "answer of 0 bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world *world = *state;
        struct g4_credentials *credentials;
        struct g4_credentials_state now;
        struct kvt_error err = {0};
        struct g4_keys keys;
        uint64_t generation;

        serve(world, rows[i].kind, 3600000);
        answer_with(&world->service, rows[i].reply, 3600000);
        if (open_chain(&credentials, &err) != KVT_OK)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(g4_credentials_take(credentials, &keys, &generation, &err), KVT_DENIED);
        assert_string_equal(keys.secret_key, "");
        g4_credentials_state(credentials, &now);
        assert_true(now.failures >= 1 && now.renewals == 0);
        if (strstr(err.text, rows[i].part) == NULL)
            fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.text, rows[i].part);
        assert_null(strstr(err.text, SECRET));
        g4_credentials_close(credentials);
        (void)teardown(state);
        (void)setup(state);
    }
}

/* Until `generation` is more than `than`. */
static void
wait_renewed(struct g4_credentials *credentials, uint64_t than)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct g4_credentials_state state;

    do {
        g4_credentials_state(credentials, &state);
        if (state.renewals > than)
            return;
        kvt_clock_sleep_ms(2);
    } while (kvt_clock_mono_ms() < until_ms);
    fail_msg("not renewed: %s", state.error.text);
}

static void
a_link_that_fails_is_asked_again_until_it_answers(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct kvt_error err = {0};
    struct g4_keys keys;
    uint64_t generation;

    serve(world, STS, 3600000);
    answer_with(&world->service, "HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n", 3600000);
    assert_int_equal(open_chain(&credentials, &err), KVT_OK);
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, &err), KVT_DENIED);
    answer_with(&world->service, NULL, 3600000);
    wait_renewed(credentials, 0);
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, &err), KVT_OK);
    g4_credentials_close(credentials);
}

/* Keys go on to be used while the service refuses to renew them, but not behind their end. */
static void
keys_are_renewed_before_their_end_and_used_up_to_it(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct g4_credentials_state now;
    struct kvt_error err = {0};
    struct g4_keys keys;
    uint64_t generation;
    uint64_t end_ms;

    serve(world, CONTAINER, 3000);
    world->service.good = 1;
    answer_with(&world->service, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", 3000);
    assert_int_equal(open_chain(&credentials, &err), KVT_OK);
    g4_credentials_state(credentials, &now);
    end_ms = now.expires_ms;
    for (bool over = false; !over; kvt_clock_sleep_ms(5)) {
        const uint64_t before_ms = kvt_clock_unix_ms();
        const enum kvt_err rc = g4_credentials_take(credentials, &keys, &generation, &err);

        over = rc != KVT_OK;
        assert_true(over ? kvt_clock_unix_ms() >= end_ms : before_ms < end_ms);
        assert_string_equal(keys.access_key, over ? "" : "AK1");
    }
    assert_non_null(strstr(err.text, "are over"));
    answer_with(&world->service, NULL, 3600000);
    wait_renewed(credentials, 1);
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, &err), KVT_OK);
    assert_string_not_equal(keys.access_key, "AK1");
    g4_credentials_close(credentials);
}

/* Each of several generations is rejected in turn, and nobody ever finds no keys. */
static void
renewal_stops_nobody(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct kvt_error err = {0};
    struct g4_keys keys;
    uint64_t generation;

    serve(world, STS, 3600000);
    assert_int_equal(open_chain(&credentials, &err), KVT_OK);
    do {
        char access[16];

        if (g4_credentials_take(credentials, &keys, &generation, &err) != KVT_OK)
            fail_msg("%s", err.text);
        (void)snprintf(access, sizeof(access), "AK%u", (unsigned)generation);
        assert_string_equal(keys.access_key, access);
        assert_true(g4_credentials_reject(credentials, generation));
    } while (generation < 5);
    g4_credentials_close(credentials);
}

/* Many are told at once that their keys are no good: the service is asked once. */
static void
rejected_keys_are_replaced_once(void **state)
{
    struct world *world = *state;
    struct g4_credentials *credentials;
    struct g4_keys keys;
    uint64_t generation;

    serve(world, CONTAINER, 3600000);
    assert_int_equal(open_chain(&credentials, NULL), KVT_OK);
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, NULL), KVT_OK);
    for (int i = 0; i < 100; i++)
        assert_true(g4_credentials_reject(credentials, generation));
    wait_renewed(credentials, 1);
    for (int i = 0; i < 100; i++) /* of the old ones: known already */
        assert_true(g4_credentials_reject(credentials, generation));
    assert_int_equal(g4_credentials_take(credentials, &keys, &generation, NULL), KVT_OK);
    assert_string_equal(keys.access_key, "AK2");
    assert_true(generation == 2);
    assert_int_equal(asked(&world->service), 2);
    g4_credentials_close(credentials);
}

/* A bucket that has enough of the first keys, as one does when they are revoked: none of the few
 * attempts may be spent before there are others. */
static void
bucket(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    (void)arg;
    (void)body;
    (void)size;
    if (strstr(head, "Credential=AK1/") != NULL)
        reply_with(reply, "400 Bad", "<Error><Code>ExpiredToken</Code></Error>");
    else if (strstr(head, "x-amz-security-token: token2") != NULL)
        reply_with(reply, "200 OK", "hello");
    else
        reply_with(reply, "403 No", "");
}

static void
a_request_in_flight_survives_the_end_of_its_keys(void **state)
{
    struct world *world = *state;
    struct hostile *hostile = hostile_start(bucket, NULL);
    struct g4_s3_options options = *hostile_options(hostile);
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    struct g4_store *store;

    assert_non_null(fetched);
    serve(world, CONTAINER, 3600000);
    options.access_key = options.secret_key = "";
    options.find_credentials = true;
    assert_int_equal(g4_s3_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(get(store, "k", fetched), KVT_OK);
    assert_int_equal(fetched->size, 5);
    assert_int_equal(asked(&world->service), 2);
    g4_store_close(store);
    hostile_stop(hostile);
    kvt_free(fetched);
}

/* No others come: it ends as it was refused, not as late. */
static void
a_request_waits_for_keys_within_its_deadline(void **state)
{
    struct world *world = *state;
    struct hostile *hostile = hostile_start(bucket, NULL);
    struct g4_s3_options options = *hostile_options(hostile);
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    struct g4_store *store;

    assert_non_null(fetched);
    serve(world, CONTAINER, 3600000);
    world->service.good = 1;
    answer_with(&world->service, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", 3600000);
    options.access_key = options.secret_key = "";
    options.find_credentials = true;
    options.timeout_ms = 2000;
    assert_int_equal(g4_s3_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(get(store, "k", fetched), KVT_DENIED);
    g4_store_close(store);
    hostile_stop(hostile);
    kvt_free(fetched);
}

static bool
open_once(void *arg)
{
    struct g4_credentials *credentials;
    const enum kvt_err rc = open_chain(&credentials, NULL);
    struct g4_keys keys;
    uint64_t generation;
    bool had = false;

    (void)arg;
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    if (rc == KVT_OK)
        had = g4_credentials_take(credentials, &keys, &generation, NULL) == KVT_OK;
    g4_credentials_close(credentials);
    return had;
}

static void
opening_survives_every_allocation_failure(void **state)
{
    struct world *world = *state;
    char path[PATH_SIZE];

    set("AWS_SHARED_CREDENTIALS_FILE",
        write_file(world, "shared", "[default]\naws_access_key_id=AP\naws_secret_access_key=SP\n",
                   path));
    assert_true(test_sweep_allocations(open_once, NULL) >= 3);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_first_link_that_is_set_up_is_the_one),
        IN_WORLD(half_a_link_is_a_mistake_not_a_reason_to_go_on),
        IN_WORLD(profiles_come_from_both_files),
        IN_WORLD(a_web_identity_becomes_keys),
        IN_WORLD(a_container_is_told_who_asks),
        IN_WORLD(metadata_is_asked_in_its_second_version),
        IN_WORLD(bad_answers_are_a_state_not_keys),
        IN_WORLD(a_link_that_fails_is_asked_again_until_it_answers),
        IN_WORLD(keys_are_renewed_before_their_end_and_used_up_to_it),
        IN_WORLD(renewal_stops_nobody),
        IN_WORLD(a_container_is_told_of_without_its_path),
        IN_WORLD(rejected_keys_are_replaced_once),
        IN_WORLD(a_request_in_flight_survives_the_end_of_its_keys),
        IN_WORLD(a_request_waits_for_keys_within_its_deadline),
        IN_WORLD(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
