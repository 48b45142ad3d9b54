/*
 * What is tested: the HTTP dump of an indexer, by itself and where a worker does not answer.
 * How: a server of base/http/http.h that plays the indexer.
 */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "advisor/source/source_dynamo.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/http/http.h"

#include "tests/support/seed.h"

enum { PATIENCE_MS = 20000, SHORT_MS = 600, QUICK_MS = 2000, ANSWER_MAX = 1 << 16 };

static const char DUMP[] = "{\"m:default\":{\"block_size\":16,\"events\":[]}}";

struct indexer {
    struct kvt_http *http;
    _Atomic uint32_t questions;
    _Atomic bool broken;
    char url[64];
};

static void
dump(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct indexer *indexer = arg;

    (void)request;
    atomic_fetch_add(&indexer->questions, 1);
    if (atomic_load(&indexer->broken))
        kvt_http_fail(response, 500, KVT_IO, "broken");
    else
        kvt_buffer_append(&response->body, DUMP, sizeof(DUMP) - 1);
}

static void
start(struct indexer *indexer)
{
    static const struct kvt_http_route routes[] = {{"GET", "/base/dump", false, dump}};
    const struct kvt_http_options options = {
        .bind = "127.0.0.1", .token = "", .routes = routes, .route_count = 1, .arg = indexer};
    struct kvt_error err;

    memset(indexer, 0, sizeof(*indexer));
    assert_int_equal(kvt_http_start(&indexer->http, &options, &err), KVT_OK);
    (void)snprintf(indexer->url, sizeof(indexer->url), "http://127.0.0.1:%u/base//",
                   kvt_http_port(indexer->http));
}

static void
make_source(struct advisor_source *source, const char *dump_url)
{
    *source = (struct advisor_source){.options = advisor_source_unset};
    (void)snprintf(source->options.name, sizeof(source->options.name), "cluster");
    source->options.dump_url = dump_url;
}

static void
indexers_answer(void **state)
{
    struct advisor_source source;
    struct indexer indexer;
    struct kvt_buffer bytes;
    struct kvt_error err;
    const struct advisor_ask ask = {.deadline_ms = kvt_clock_mono_ms() + PATIENCE_MS};
    const struct advisor_ask late = {.deadline_ms = kvt_clock_mono_ms()};

    (void)state;
    start(&indexer);
    make_source(&source, indexer.url);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_OK);
    assert_int_equal(bytes.size, sizeof(DUMP) - 1);
    assert_memory_equal(bytes.data, DUMP, bytes.size);
    assert_int_equal(advisor_dynamo_dump(&source, &late, &bytes, &err), KVT_TIMEOUT);
    assert_int_equal(atomic_load(&indexer.questions), 1);
    atomic_store(&indexer.broken, true);
    kvt_buffer_clear(&bytes);
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_UNAVAILABLE);
    assert_non_null(strstr(err.text, "500"));
    atomic_store(&indexer.broken, false);
    kvt_buffer_release(&bytes);
    kvt_buffer_init(&bytes, 8);
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_RANGE);
    kvt_buffer_release(&bytes);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    kvt_http_stop(indexer.http);
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_UNAVAILABLE);
    make_source(&source, "");
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_UNSUPPORTED);
    make_source(&source, "ftp://127.0.0.1/x");
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_INVALID);
    kvt_buffer_release(&bytes);
}

/* A server that takes the question and says nothing costs its deadline. */
static void
silent_indexers_cost_their_deadline(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(at);
    struct advisor_source source;
    struct kvt_buffer bytes;
    struct kvt_error err;
    const uint64_t start_ms = kvt_clock_mono_ms();
    const struct advisor_ask ask = {.deadline_ms = start_ms + SHORT_MS};
    char url[64];

    (void)state;
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(at.sin_port));
    make_source(&source, url);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    assert_int_equal(advisor_dynamo_dump(&source, &ask, &bytes, &err), KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - start_ms < SHORT_MS + QUICK_MS);
    kvt_buffer_release(&bytes);
    (void)close(fd);
}

/* The worker is asked first; half of the time is kept for the dump. */
static void
the_dump_is_the_second_way(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(at);
    struct advisor_source source;
    struct indexer indexer;
    struct kvt_buffer bytes;
    struct kvt_error err;
    enum advisor_answer_kind kind = ADVISOR_ANSWER_PAGE;
    struct advisor_ask ask = {.worker = "w", .subject = "", .worker_id = 9};
    char folder[256];
    char path[320];
    char text[512];

    (void)state;
    assert_int_equal(bind(silent, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(silent, 4), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&at, &size), 0);
    start(&indexer);
    make_source(&source, indexer.url);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    ask.deadline_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_OK);
    assert_int_equal(kind, ADVISOR_ANSWER_DUMP);
    assert_int_equal(bytes.size, sizeof(DUMP) - 1);

    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/v1/instances", folder);
    assert_int_equal(kvt_folder_make(path, NULL), KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/v1/instances/q", folder);
    (void)snprintf(text, sizeof(text),
                   "{\"endpoint\":\"worker_kv_indexer_query_dp0\",\"instance_id\":9,"
                   "\"transport\":{\"tcp\":\"127.0.0.1:%u/9/q\"}}",
                   ntohs(at.sin_port));
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
    source.options.discovery = folder;
    kvt_buffer_clear(&bytes);
    ask.deadline_ms = kvt_clock_mono_ms() + SHORT_MS;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_OK);
    assert_int_equal(kind, ADVISOR_ANSWER_DUMP);
    assert_int_equal(bytes.size, sizeof(DUMP) - 1);
    assert_int_equal(atomic_load(&indexer.questions), 2);

    atomic_store(&indexer.broken, true); /* both ways fail: both reasons are told */
    kvt_buffer_clear(&bytes);
    ask.deadline_ms = kvt_clock_mono_ms() + SHORT_MS;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_UNAVAILABLE);
    assert_non_null(strstr(err.text, "in time"));
    assert_non_null(strstr(err.text, "500"));
    kvt_buffer_release(&bytes);
    kvt_http_stop(indexer.http);
    test_folder_remove(folder);
    (void)close(silent);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexers_answer),
        cmocka_unit_test(silent_indexers_cost_their_deadline),
        cmocka_unit_test(the_dump_is_the_second_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
