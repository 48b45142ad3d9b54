/*
 * What is tested: base/config/program.h, as a process: a forked child runs kvt_program_main() and
 * the test looks at its exit status, its output and what it tells the service manager.
 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/log.h"

#include "tests/support/seed.h"

enum { PORT = KVT_COMMON_COUNT, DRY, COUNT };

enum { WORDS_MAX = 14 };

static const struct kvt_param params[COUNT] = {
#define PARAM KVT_PARAM_ROW
#include "config/common.def"
    PARAM(PORT, "admin.port", INT, "9471", "0", "65535", "", "Port of the admin interface.")
        PARAM(DRY, "dry", BOOL, "false", "", "", "", "Only say.")
#undef PARAM
};

/* "admin.port" says how the program should behave: 1 fails, 2 takes long after the first signal, 3
 * hangs before it waits for one. */
static enum kvt_err
run(const struct kvt_config *config, struct kvt_error *err)
{
    const uint64_t port = kvt_config_u64(config, PORT);

    kvt_program_ready("serving");
    kvt_log_debug("main", "up", "port %u dry %d", (unsigned)port, kvt_config_bool(config, DRY));
    if (port == 1)
        return kvt_error_set(err, KVT_BUSY, "the port is taken");
    if (port == 3)
        for (;;)
            kvt_clock_sleep_ms(1000);
    while (!kvt_program_wait(50))
        continue;
    assert(kvt_program_wait(0)); /* then and ever after */
    if (port == 2)
        kvt_clock_sleep_ms(20000);
    return KVT_OK;
}

static const struct kvt_program program = {
    .name = "kvtier-testing",
    .summary = "a program that waits",
    .usage = "",
    .params = params,
    .param_count = COUNT,
    .run = run,
};

struct outcome {
    int status; /* as waitpid() says */
    char *out;
    char *err;
};

static char folder[200];
static char out_path[256];
static char err_path[256];

static int
set_up(void **state)
{
    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(out_path, sizeof(out_path), "%s/out", folder);
    (void)snprintf(err_path, sizeof(err_path), "%s/err", folder);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static void
redirect(const char *path, int target)
{
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    if (fd < 0 || dup2(fd, target) < 0)
        _exit(99);
}

static pid_t
start(const char *const *words)
{
    static char copies[WORDS_MAX + 1][256];
    char *argv[WORDS_MAX + 2] = {NULL};
    int argc = 1;
    int status;
    pid_t child;

    argv[0] = copies[0];
    (void)snprintf(copies[0], sizeof(copies[0]), "%s", program.name);
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = copies[argc];
        (void)snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc - 1]);
    }
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        redirect(out_path, STDOUT_FILENO);
        redirect(err_path, STDERR_FILENO);
        status = kvt_program_main(argc, argv, &program);
        _exit(kvt_alloc_live() == 0 ? status : 98);
    }
    return child;
}

static void
finish(pid_t child, struct outcome *outcome)
{
    size_t size;

    assert_int_equal(waitpid(child, &outcome->status, 0), child);
    assert_int_equal(kvt_file_read(&outcome->out, &size, out_path, 1u << 20, NULL), KVT_OK);
    assert_int_equal(kvt_file_read(&outcome->err, &size, err_path, 1u << 20, NULL), KVT_OK);
}

static void
outcome_release(struct outcome *outcome)
{
    kvt_free(outcome->out);
    kvt_free(outcome->err);
}

/* Run to the end and check: exit status, and a text that must be in the output and in the errors.
 */
static void
check(const char *const *words, int status, const char *out, const char *err)
{
    struct outcome outcome;

    finish(start(words), &outcome);
    if (!WIFEXITED(outcome.status) || WEXITSTATUS(outcome.status) != status ||
        strstr(outcome.out, out) == NULL || strstr(outcome.err, err) == NULL)
        fail_msg("%s %s: status %x, out <%s>, err <%s>", words[0], words[1] == NULL ? "" : words[1],
                 (unsigned)outcome.status, outcome.out, outcome.err);
    outcome_release(&outcome);
}

#define WORDS(...) ((const char *[]){__VA_ARGS__, NULL})

static void
questions_are_answered_on_stdout(void **state)
{
    (void)state;
    check(WORDS("--help"), 0, "Usage: kvtier-testing", "");
    check(WORDS("--help"), 0, "--admin-port N", "");
    check(WORDS("-h"), 0, "KVTIER_ADMIN_PORT", "");
    check(WORDS("--version"), 0, "kvtier-testing 0.", "");
    check(WORDS("config", "example"), 0, "#port: 9471", "");
    check(WORDS("config", "man"), 0, ".TH kvtier-testing 8", "");
    check(WORDS("config", "show"), 0, "admin.port: 9471\n", "");
    check(WORDS("config", "show", "--origin", "--admin-port", "7"), 0,
          "admin.port: 7  # flag --admin-port\n", "");
    check(WORDS("--dry", "--admin-port=8", "config", "show", "-o", "json"), 0,
          "\"admin.port\": 8,\n  \"dry\": true", "");
}

static void
wrong_usage_exits_2_and_says_what_was_meant(void **state)
{
    (void)state;
    check(WORDS("--admin-prot", "1"), 2, "",
          "unknown flag --admin-prot (did you mean --admin-port?)");
    check(WORDS("--admin-port"), 2, "", "--admin-port needs a value");
    check(WORDS("--admin-port", "many"), 2, "", "\"many\" is not a whole number");
    check(WORDS("--no-dry=1"), 2, "", "--no-dry takes no value");
    check(WORDS("cnofig"), 2, "", "unexpected \"cnofig\" (did you mean \"config\"?)");
    check(WORDS("config"), 2, "", "config wants show, example or man");
    check(WORDS("config", "shwo"), 2, "", "(did you mean \"show\"?)");
    check(WORDS("config", "show", "-o", "xml"), 2, "", "-o wants text or json, not \"xml\"");
    check(WORDS("--origin"), 2, "", "unknown flag --origin");
    check(WORDS("--config"), 2, "", "--config needs a value");
    check(WORDS("--config", "/nonexistent/file"), 2, "", "open /nonexistent/file");
}

static void
a_wrong_settings_file_exits_2_and_says_where(void **state)
{
    static const char text[] = "admin:\n  prot: 1\n";
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/c.yaml", folder);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
    check(WORDS("--config", path), 2, "",
          "c.yaml:2:3: unknown key \"admin.prot\" (did you mean \"admin.port\"?)");
}

static void
a_failed_run_exits_1_and_says_why(void **state)
{
    (void)state;
    check(WORDS("--admin-port", "1", "--log-format", "text"), 1, "",
          "level=error program=kvtier-testing area=program event=failed msg=\"the port is taken\"");
    check(WORDS("--admin-port=1"), 1, "", "\"msg\":\"the port is taken\"}"); /* no terminal: JSON */
}

/* A datagram socket where the service manager's would be. */
static int
listen_for_notes(char path[108])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = 20};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)snprintf(path, 108, "%.90s/notify", folder);
    memcpy(address.sun_path, path, sizeof(address.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
    return fd;
}

static void
expect_note(int fd, const char *wanted)
{
    char note[512];

    for (;;) {
        const ssize_t size = recv(fd, note, sizeof(note) - 1, 0);

        if (size <= 0)
            fail_msg("no \"%s\" came", wanted);
        note[size < 0 ? 0 : size] = '\0';
        if (strstr(note, wanted) != NULL)
            return;
    }
}

static void
a_service_says_ready_pings_and_stops(void **state)
{
    struct outcome outcome;
    char path[108];
    pid_t child;
    int fd;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const int signals[] = {SIGTERM, SIGINT};

        fd = listen_for_notes(path);
        assert_int_equal(setenv("WATCHDOG_USEC", "300000", 1), 0);
        child = start(WORDS("--log-level", "debug", "--log-format", "text"));
        expect_note(fd, "READY=1\nSTATUS=serving");
        expect_note(fd, "WATCHDOG=1");
        expect_note(fd, "WATCHDOG=1");
        assert_int_equal(kill(child, signals[i]), 0);
        expect_note(fd, "STOPPING=1");
        finish(child, &outcome);
        assert_true(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0);
        assert_non_null(strstr(outcome.err, "area=main event=up msg=\"port 9471 dry 0\""));
        assert_non_null(strstr(outcome.err, "event=stopping"));
        outcome_release(&outcome);
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
        (void)close(fd);
        (void)unlink(path);
    }
}

static void
a_second_signal_ends_it_at_once(void **state)
{
    struct outcome outcome;
    uint64_t start_ms;
    char path[108];
    pid_t child;
    int fd;

    (void)state;
    fd = listen_for_notes(path);
    child = start(WORDS("--admin-port", "2"));
    expect_note(fd, "READY=1");
    start_ms = kvt_clock_mono_ms();
    assert_int_equal(kill(child, SIGTERM), 0);
    expect_note(fd, "STOPPING=1");
    kvt_clock_sleep_ms(50);
    assert_int_equal(kill(child, SIGTERM), 0);
    finish(child, &outcome);
    assert_true(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGTERM);
    assert_true(kvt_clock_mono_ms() - start_ms < 10000);
    outcome_release(&outcome);
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    (void)close(fd);
}

/* Also while it starts, and while it frees what it had. */
static void
a_program_that_hangs_is_ended(void **state)
{
    static const char *const hanging[] = {"2", "3"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct outcome outcome;
        uint64_t took_ms;
        char path[108];
        pid_t child;
        int fd;

        fd = listen_for_notes(path);
        child = start(WORDS("--admin-port", hanging[i], "--stop-timeout", "1500ms"));
        expect_note(fd, "READY=1");
        took_ms = kvt_clock_mono_ms();
        assert_int_equal(kill(child, SIGTERM), 0);
        expect_note(fd, "STOPPING=1");
        finish(child, &outcome);
        took_ms = kvt_clock_mono_ms() - took_ms;
        if (!WIFEXITED(outcome.status) || WEXITSTATUS(outcome.status) != 1)
            fail_msg("status %x: %s", (unsigned)outcome.status, outcome.err);
        assert_in_range(took_ms, 1400, 10000);
        assert_non_null(strstr(outcome.err,
                               "\"event\":\"stop_timeout\",\"msg\":\"not ended 1500 ms "
                               "after the signal (stop.timeout): ending now"));
        outcome_release(&outcome);
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        (void)close(fd);
        (void)unlink(path);
    }
}

/* Nobody reads the log, and its pipe is full. */
static void
a_log_that_hangs_keeps_nothing(void **state)
{
    static const char filling[4096];
    int pipes[2];
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(fcntl(pipes[1], F_SETFL, O_NONBLOCK), 0);
    while (write(pipes[1], filling, sizeof(filling)) > 0)
        continue;
    assert_int_equal(fcntl(pipes[1], F_SETFL, 0), 0);
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char words[4][20] = {"kvtier-testing", "--stop-timeout", "1s", "--log-level=debug"};
        char *argv[] = {words[0], words[1], words[2], words[3], NULL};

        (void)dup2(pipes[1], STDERR_FILENO);
        _exit(kvt_program_main(4, argv, &program));
    }
    kvt_clock_sleep_ms(300);
    assert_int_equal(kill(child, SIGTERM), 0);
    for (unsigned i = 0; i < 100 && waitpid(child, &status, WNOHANG) == 0; i++)
        kvt_clock_sleep_ms(100);
    assert_int_equal(kill(child, 0), -1);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void
asking_into_a_full_disk_is_a_failure(void **state)
{
    pid_t child;
    int status;

    (void)state;
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char name[] = "kvtier-testing";
        char word[] = "--help";
        char *argv[] = {name, word, NULL};

        redirect("/dev/full", STDOUT_FILENO);
        _exit(kvt_program_main(2, argv, &program));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(questions_are_answered_on_stdout),
        TEST(wrong_usage_exits_2_and_says_what_was_meant),
        TEST(a_wrong_settings_file_exits_2_and_says_where),
        TEST(a_failed_run_exits_1_and_says_why),
        TEST(a_service_says_ready_pings_and_stops),
        TEST(a_second_signal_ends_it_at_once),
        TEST(a_program_that_hangs_is_ended),
        TEST(a_log_that_hangs_keeps_nothing),
        TEST(asking_into_a_full_disk_is_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
