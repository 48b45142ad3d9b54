#include "tests/unit/advisor/support/advisor_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/http/fetch.h"
#include "base/text/json.h"

#include "tests/support/seed.h"

enum { DEADLINE_MS = 30000, POLL_MS = 20, ANSWER_MAX = 16 << 20, LOG_MAX = 16 << 20 };

static void
path_of(const struct test_advisor *advisor, const char *name, char path[512])
{
    (void)snprintf(path, 512, "%s/%s", advisor->folder, name);
}

void
test_advisor_init(struct test_advisor *advisor, const char *nats_url)
{
    memset(advisor, 0, sizeof(*advisor));
    (void)test_folder_make(advisor->folder, sizeof(advisor->folder));
    (void)snprintf(advisor->nats_url, sizeof(advisor->nats_url), "%s", nats_url);
}

static void
exec_advisor(const struct test_advisor *advisor)
{
    const char *args[TEST_ADVISOR_ARGS_MAX + 16];
    char ports[512];
    char state[512];
    char log[512];
    size_t count = 0;
    int fd;

    path_of(advisor, "ports", ports);
    path_of(advisor, "state", state);
    path_of(advisor, "log", log);
    args[count++] = KVTIER_ADVISOR;
    args[count++] = "--admin-port";
    args[count++] = "0";
    args[count++] = "--ports-file";
    args[count++] = ports;
    args[count++] = "--state-dir";
    args[count++] = state;
    args[count++] = "--db-max";
    args[count++] = "256MiB";
    args[count++] = "--nats-url";
    args[count++] = advisor->nats_url;
    for (size_t i = 0; i < TEST_ADVISOR_ARGS_MAX && advisor->more[i] != NULL; i++)
        args[count++] = advisor->more[i];
    args[count] = NULL;
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execv(args[0], (char *const *)(uintptr_t)args);
    _exit(127);
}

void
test_advisor_start(struct test_advisor *advisor)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    char ports[512];

    path_of(advisor, "ports", ports);
    (void)unlink(ports);
    advisor->pid = fork();
    assert_true(advisor->pid >= 0);
    if (advisor->pid == 0)
        exec_advisor(advisor);
    for (;;) {
        struct json_object *json = NULL;
        char *text = NULL;
        uint64_t port = 0;
        size_t size;
        int status;

        assert_int_equal(waitpid(advisor->pid, &status, WNOHANG), 0);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        if (kvt_file_read(&text, &size, ports, 1024, NULL) == KVT_OK) {
            assert_int_equal(kvt_json_parse(&json, text, size, "ports", NULL), KVT_OK);
            assert_true(kvt_json_u64(json, "admin", &port));
            json_object_put(json);
            kvt_free(text);
            advisor->port = (unsigned)port;
            return;
        }
        kvt_clock_sleep_ms(POLL_MS);
    }
}

void
test_advisor_kill(struct test_advisor *advisor)
{
    assert_int_equal(kill(advisor->pid, SIGKILL), 0);
    assert_int_equal(waitpid(advisor->pid, NULL, 0), advisor->pid);
    advisor->pid = 0;
}

void
test_advisor_end(struct test_advisor *advisor)
{
    int status = 0;

    assert_int_equal(kill(advisor->pid, SIGTERM), 0);
    assert_int_equal(waitpid(advisor->pid, &status, 0), advisor->pid);
    advisor->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void
test_advisor_stop(struct test_advisor *advisor)
{
    if (advisor->pid != 0)
        test_advisor_end(advisor);
    test_folder_remove(advisor->folder);
}

struct json_object *
test_advisor_ask(const struct test_advisor *advisor, const char *path, const char *body,
                 unsigned *status)
{
    struct json_object *json = NULL;
    struct kvt_buffer answer;
    char url[512];
    struct kvt_fetch fetch = {.url = url, .token = "test-token-0123456789"};
    unsigned got = 0;

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", advisor->port, path);
    if (body != NULL) {
        fetch.method = "POST";
        fetch.body = body;
        fetch.body_size = strlen(body);
    }
    kvt_buffer_init(&answer, ANSWER_MAX);
    if (kvt_fetch(&fetch, &got, &answer, NULL) == KVT_OK && answer.size > 0)
        (void)!kvt_json_parse(&json, (const char *)answer.data, answer.size, "answer", NULL);
    kvt_buffer_release(&answer);
    if (status != NULL)
        *status = got;
    return json;
}

void
test_advisor_ready(const struct test_advisor *advisor)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    unsigned status = 0;

    while (status != 200) {
        json_object_put(test_advisor_ask(advisor, "/readyz", NULL, &status));
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        if (status != 200)
            kvt_clock_sleep_ms(POLL_MS);
    }
}

uint64_t
test_advisor_number(const struct test_advisor *advisor, const char *part, const char *key)
{
    struct json_object *json = test_advisor_ask(advisor, "/v1/status", NULL, NULL);
    uint64_t number = 0;

    assert_non_null(json);
    assert_true(kvt_json_u64(kvt_json_member(json, part), key, &number));
    json_object_put(json);
    return number;
}

bool
test_advisor_logged(const struct test_advisor *advisor, const char *text)
{
    char path[512];
    char *log;
    size_t size;
    bool found;

    path_of(advisor, "log", path);
    assert_int_equal(kvt_file_read(&log, &size, path, LOG_MAX, NULL), KVT_OK);
    found = strstr(log, text) != NULL;
    kvt_free(log);
    return found;
}
