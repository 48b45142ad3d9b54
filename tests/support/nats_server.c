#include "tests/support/nats_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { START_TIMEOUT_MS = 10000, POLL_MS = 20, SKIPPED = 77 };

static bool
is_installed(void)
{
    char path[512];
    const char *from = getenv("PATH");

    while (from != NULL && *from != '\0') {
        const size_t length = strcspn(from, ":");

        (void)snprintf(path, sizeof(path), "%.*s/nats-server", (int)length, from);
        if (access(path, X_OK) == 0)
            return true;
        from += length + (from[length] == ':' ? 1 : 0);
    }
    return false;
}

void
test_nats_require(void)
{
    const char *ci = getenv("CI");

    if (is_installed())
        return;
    (void)fprintf(stderr, "nats-server is not installed\n");
    exit(ci != NULL && strcmp(ci, "true") == 0 ? EXIT_FAILURE : SKIPPED);
}

static int
free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* A server greets with "INFO" as soon as it serves. */
static bool
answers(const struct test_nats *server)
{
    const struct timeval patience = {.tv_sec = 1};
    struct sockaddr_in address = {.sin_family = AF_INET};
    char greeting[4] = "";
    bool ok;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)strtoul(server->port, NULL, 10));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ok = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
         recv(fd, greeting, sizeof(greeting), MSG_WAITALL) == (ssize_t)sizeof(greeting) &&
         memcmp(greeting, "INFO", sizeof(greeting)) == 0;
    (void)close(fd);
    return ok;
}

static void
run_server(const struct test_nats *server)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(null, STDERR_FILENO);
    (void)execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", server->port, "-js", "-sd",
                 server->folder, server->token[0] != '\0' ? "-auth" : (char *)NULL, server->token,
                 (char *)NULL);
    _exit(127);
}

void
test_nats_restart(struct test_nats *server)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + START_TIMEOUT_MS;

    assert_int_equal(server->pid, 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        run_server(server);
    while (!answers(server)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(POLL_MS);
    }
}

void
test_nats_start(struct test_nats *server)
{
    test_nats_start_with_token(server, "");
}

void
test_nats_start_with_token(struct test_nats *server, const char *token)
{
    const int port = free_port();

    *server = (struct test_nats){.pid = 0};
    (void)snprintf(server->token, sizeof(server->token), "%s", token);
    (void)test_folder_make(server->folder, sizeof(server->folder));
    (void)snprintf(server->port, sizeof(server->port), "%d", port);
    (void)snprintf(server->url, sizeof(server->url), "nats://127.0.0.1:%d", port);
    test_nats_restart(server);
}

void
test_nats_kill(struct test_nats *server)
{
    if (server->pid == 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void
test_nats_forget(struct test_nats *server)
{
    assert_int_equal(server->pid, 0);
    test_folder_remove(server->folder);
}

void
test_nats_stop(struct test_nats *server)
{
    test_nats_kill(server);
    test_folder_remove(server->folder);
}
