/*
 * What is tested: base/http/tls.h behind a server of libmicrohttpd's with a pool of threads, by
 * clients that look at what they are shown: pairs exchanged between connections, in the midst of
 * requests and under load; pairs that are none; a port that has none yet.
 */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/http/tls.h"

#include "tests/support/certificate.h"
#include "tests/support/seed.h"

enum { WAIT_S = 30, NAME = 32, PAIRS = 2, CLIENTS = 3, VISITS = 30, HOUR_MS = 3600 * 1000 };

struct fixture {
    struct kvt_tls *tls;
    struct MHD_Daemon *daemon;
    uint16_t port;
    atomic_int held; /* pairs that connections hold */
    struct test_certificate pairs[PAIRS];
};

static const char *const names[PAIRS] = {"first", "second"};

/* ---- the server ---- */

static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode what)
{
    struct fixture *f = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = kvt_tls_greet(f->tls, connection);
        atomic_fetch_add(&f->held, *context != NULL);
    } else {
        atomic_fetch_sub(&f->held, *context != NULL);
        kvt_tls_drop(*context);
    }
}

/* Takes the body, whenever it comes, and answers with "ok". */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *bytes, size_t *size, void **state)
{
    struct MHD_Response *response;
    enum MHD_Result queued;

    (void)arg;
    (void)url;
    (void)method;
    (void)version;
    (void)bytes;
    if (*state == NULL || *size > 0) {
        *state = arg;
        *size = 0;
        return MHD_YES;
    }
    response = MHD_create_response_from_buffer(2, (void *)(uintptr_t) "ok", MHD_RESPMEM_PERSISTENT);
    assert_non_null(response);
    queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

static void
start(struct fixture *f)
{
    const struct MHD_OptionItem rest[] = {kvt_tls_option(), {MHD_OPTION_END, 0, NULL}};
    const union MHD_DaemonInfo *info;

    f->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_TLS, 0, NULL,
                                 NULL, on_request, f, MHD_OPTION_THREAD_POOL_SIZE, 2u,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, f, MHD_OPTION_ARRAY,
                                 rest, MHD_OPTION_END);
    assert_non_null(f->daemon);
    info = MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT);
    assert_non_null(info);
    f->port = info->port;
}

static void
load(struct fixture *f, unsigned pair)
{
    struct kvt_error err;

    if (kvt_tls_load(f->tls, f->pairs[pair].text, f->pairs[pair].key, &err) != KVT_OK)
        fail_msg("%s", err.text);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    const uint64_t now_ms = kvt_clock_unix_ms();

    assert_int_equal(kvt_tls_new(&f->tls), KVT_OK);
    for (unsigned i = 0; i < PAIRS; i++)
        test_certificate_make(&f->pairs[i], names[i], now_ms - HOUR_MS, now_ms + HOUR_MS);
    start(f);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    MHD_stop_daemon(f->daemon);
    assert_int_equal(atomic_load(&f->held), 0);
    kvt_tls_free(f->tls);
    kvt_free(f);
    return 0;
}

/* ---- its clients ---- */

struct client {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    char shown[NAME]; /* the common name of what it was shown; "": no handshake */
};

static void
look(struct client *c)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(c->session, &count);
    gnutls_x509_crt_t certificate;
    size_t size = sizeof(c->shown);

    assert_true(count > 0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    assert_int_equal(gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
                                                   c->shown, &size),
                     0);
    gnutls_x509_crt_deinit(certificate);
}

static struct client
meet(const struct fixture *f)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(f->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval wait = {.tv_sec = WAIT_S};
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int rc;

    assert_true(c.fd >= 0);
    assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
    assert_int_equal(connect(c.fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(gnutls_init(&c.session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&c.credentials), 0);
    assert_int_equal(gnutls_set_default_priority(c.session), 0);
    assert_int_equal(gnutls_credentials_set(c.session, GNUTLS_CRD_CERTIFICATE, c.credentials), 0);
    gnutls_transport_set_int(c.session, c.fd);
    do
        rc = gnutls_handshake(c.session);
    while (rc < 0 && gnutls_error_is_fatal(rc) == 0);
    if (rc == 0)
        look(&c);
    return c;
}

static void
leave(struct client *c)
{
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->credentials);
    (void)close(c->fd);
}

static void
say(struct client *c, const char *text)
{
    assert_int_equal(gnutls_record_send(c->session, text, strlen(text)), strlen(text));
}

static bool
is_answered(struct client *c)
{
    char text[1024] = "";
    size_t size = 0;

    while (size < sizeof(text) - 1 && strstr(text, "\r\n\r\nok") == NULL) {
        const ssize_t got = gnutls_record_recv(c->session, text + size, sizeof(text) - 1 - size);

        if (got <= 0 && got != GNUTLS_E_AGAIN && got != GNUTLS_E_INTERRUPTED)
            return false;
        size += got > 0 ? (size_t)got : 0;
        text[size] = '\0';
    }
    return strncmp(text, "HTTP/1.1 200 ", 13) == 0;
}

static bool
ask(struct client *c)
{
    say(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return is_answered(c);
}

static void
assert_shown(const struct fixture *f, const char *name)
{
    struct client c = meet(f);

    assert_string_equal(c.shown, name);
    assert_true(ask(&c));
    leave(&c);
}

/* ---- tests ---- */

static void
who_is_connected_goes_on(void **state)
{
    struct fixture *f = *state;
    struct client idle;
    struct client writer;

    load(f, 0);
    idle = meet(f);
    writer = meet(f);
    assert_string_equal(idle.shown, names[0]);
    assert_true(ask(&idle));
    say(&writer, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nhalf");
    load(f, 1);
    assert_shown(f, names[1]);
    say(&writer, "half");
    assert_true(is_answered(&writer));
    for (int i = 0; i < 3; i++) {
        assert_true(ask(&idle));
        assert_true(ask(&writer));
    }
    leave(&idle);
    leave(&writer);
    load(f, 0);
    assert_shown(f, names[0]);
}

static void
a_port_without_a_pair_shows_none(void **state)
{
    struct fixture *f = *state;
    struct client c;

    c = meet(f); /* there is no pair yet */
    assert_string_equal(c.shown, "");
    leave(&c);
    load(f, 0);
    assert_shown(f, names[0]);
}

static void
what_is_no_pair_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;
    uint64_t from_ms;
    uint64_t to_ms;
    uint64_t still_ms;
    char half[TEST_CERTIFICATE_MAX];

    kvt_tls_validity(f->tls, &from_ms, &to_ms);
    assert_int_equal(from_ms, 0);
    assert_int_equal(to_ms, 0);
    load(f, 0);
    kvt_tls_validity(f->tls, &from_ms, &to_ms);
    assert_int_equal((to_ms - from_ms) / 1000, 2 * HOUR_MS / 1000);
    (void)snprintf(half, sizeof(half), "%.*s", 200, f->pairs[1].text);
    assert_int_equal(kvt_tls_load(f->tls, f->pairs[1].text, f->pairs[0].key, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "belong together"));
    assert_int_equal(kvt_tls_load(f->tls, half, f->pairs[1].key, &err), KVT_INVALID);
    assert_int_equal(kvt_tls_load(f->tls, "", f->pairs[1].key, &err), KVT_INVALID);
    assert_int_equal(kvt_tls_load(f->tls, f->pairs[1].text, "", &err), KVT_INVALID);
    assert_int_equal(kvt_tls_load(f->tls, f->pairs[1].key, f->pairs[1].text, &err), KVT_INVALID);
    kvt_tls_validity(f->tls, &from_ms, &still_ms);
    assert_int_equal(still_ms, to_ms);
    assert_shown(f, names[0]);
}

struct visitor {
    struct fixture *fixture;
    pthread_t thread;
    unsigned refused;
    unsigned unanswered;
};

static void *
visit(void *arg)
{
    struct visitor *v = arg;

    for (unsigned i = 0; i < VISITS; i++) {
        struct client c = meet(v->fixture);

        if (strcmp(c.shown, names[0]) != 0 && strcmp(c.shown, names[1]) != 0)
            v->refused++;
        else if (!ask(&c) || !ask(&c))
            v->unanswered++;
        leave(&c);
    }
    return NULL;
}

static void
exchanged_under_load(void **state)
{
    struct fixture *f = *state;
    struct visitor visitors[CLIENTS] = {{.fixture = f}, {.fixture = f}, {.fixture = f}};

    load(f, 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    for (unsigned i = 0; i < 10 * VISITS; i++) {
        load(f, i % PAIRS);
        kvt_clock_sleep_ms(1);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
        assert_int_equal(visitors[i].refused, 0);
        assert_int_equal(visitors[i].unanswered, 0);
    }
}

static bool
attempt_new(void *arg)
{
    const struct test_certificate *pair = arg;
    struct kvt_tls *tls;
    bool ok = kvt_tls_new(&tls) == KVT_OK;

    if (!ok)
        return false;
    ok = kvt_tls_load(tls, pair->text, pair->key, NULL) == KVT_OK;
    kvt_tls_free(tls);
    return ok;
}

static void
without_memory(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(test_sweep_allocations(attempt_new, &f->pairs[0]), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_connected_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_port_without_a_pair_shows_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_pair_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exchanged_under_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
