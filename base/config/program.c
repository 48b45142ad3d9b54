#include "base/config/program.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/cond.h"
#include "kvtier/version.h"

#define NAME_PREFIX    "kvtier-"
#define DEFAULT_FOLDER "/etc/kvtier"

enum { EXIT_USAGE = 2, FLUSH_EVERY_MS = 1000, LAST_WORDS_S = 5 };

/* What the command line asks for besides settings. */
enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION, ACTION_SHOW, ACTION_EXAMPLE, ACTION_MAN };

struct line {
    enum action action;
    const char *config_path;
    bool origin;
    bool json;
};

/* A process has one set of signals and one service manager.  The rest is main's thread's. */
static struct {
    struct {
        pthread_mutex_t lock; /* guards what is in here */
        pthread_cond_t changed;
        bool stopping;
    } shared;
    _Atomic bool part;    /* of a program that another process speaks for */
    uint64_t timeout_ms;  /* from the first signal to the end */
    uint64_t watchdog_ms; /* how often to ping; 0: nobody asked */
    uint64_t pinged_ms;
    uint64_t flushed_ms;
} service = {.shared = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static void
stop_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
}

static void
on_first_signal(int number)
{
    const struct sigaction fatal = {.sa_handler = SIG_DFL};
    sigset_t set;

    /* From here the default action is right: whoever asks twice does not want to wait.  The alarm
     * is for a log that hangs as well. */
    (void)sigaction(SIGALRM, &fatal, NULL);
    stop_signals(&set);
    (void)sigaddset(&set, SIGALRM);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)alarm((unsigned)(service.timeout_ms / 1000) + LAST_WORDS_S);
    (void)sd_notify(0, "STOPPING=1");
    kvt_log(atomic_load(&service.part) ? KVT_LOG_DEBUG : KVT_LOG_INFO, "program", "stopping",
            "%s received, draining for at most %" PRIu64 " ms (stop.timeout); once more ends at "
            "once",
            number == SIGINT ? "SIGINT" : "SIGTERM", service.timeout_ms);
    (void)pthread_mutex_lock(&service.shared.lock);
    service.shared.stopping = true;
    (void)pthread_cond_broadcast(&service.shared.changed);
    (void)pthread_mutex_unlock(&service.shared.lock);
}

_Noreturn static void
end_now(void)
{
    kvt_log_error("program", "stop_timeout",
                  "not ended %" PRIu64 " ms after the signal (stop.timeout): ending now, as by "
                  "kill -9; requests that ran are cut off, what was acknowledged stays",
                  service.timeout_ms);
    (void)sd_notify(0, "STATUS=did not end within stop.timeout");
    _exit(EXIT_FAILURE);
}

/*
 * The thread that takes SIGTERM and SIGINT, whatever the others do: main's thread may start, read
 * settings again or wait for a request when they come.  It is there until the process ends, also
 * while main frees what the program had and libraries end theirs.
 */
static void *
guard_stop(void *arg)
{
    uint64_t deadline_ms;
    int number = 0;
    sigset_t set;

    (void)arg;
    stop_signals(&set);
    while (sigwait(&set, &number) != 0)
        continue;
    deadline_ms = kvt_clock_mono_ms() + service.timeout_ms;
    on_first_signal(number);
    for (uint64_t now_ms; (now_ms = kvt_clock_mono_ms()) < deadline_ms;)
        kvt_clock_sleep_ms(deadline_ms - now_ms);
    end_now();
}

/* Block SIGTERM and SIGINT for guard_stop() and ignore SIGPIPE.  A child process inherits the
 * blocked signals: unblock them between fork() and exec(). */
static enum kvt_err
handle_signals(uint64_t timeout_ms, struct kvt_error *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    uint64_t watchdog_us;
    pthread_t thread;
    sigset_t all;
    sigset_t old;
    sigset_t set;
    int error;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* Three pings a period: one late wake-up must not look like a hang. */
    if (sd_watchdog_enabled(0, &watchdog_us) > 0)
        service.watchdog_ms = watchdog_us / 3000;
    service.timeout_ms = timeout_ms;
    if (!kvt_cond_init(&service.shared.changed))
        return kvt_error_set(err, KVT_NOMEM, "signals");
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&thread, NULL, guard_stop, NULL);
    if (error == 0)
        (void)pthread_detach(thread);
    stop_signals(&set);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return error == 0 ? KVT_OK : kvt_error_sys(err, error, "start the thread of signals");
}

void
kvt_program_ready(const char *status)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

static void
do_chores(uint64_t now_ms)
{
    if (service.watchdog_ms > 0 && now_ms - service.pinged_ms >= service.watchdog_ms) {
        (void)sd_notify(0, "WATCHDOG=1");
        service.pinged_ms = now_ms;
    }
    if (now_ms - service.flushed_ms >= FLUSH_EVERY_MS) {
        kvt_log_flush(false);
        service.flushed_ms = now_ms;
    }
}

/* Until it stops, for at most `wait_ms`. */
static bool
wait_for_stop(uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool stopping;

    (void)pthread_mutex_lock(&service.shared.lock);
    while (!service.shared.stopping && wait_ms > 0)
        if (!kvt_cond_wait(&service.shared.changed, &service.shared.lock, &deadline))
            break;
    stopping = service.shared.stopping;
    (void)pthread_mutex_unlock(&service.shared.lock);
    return stopping;
}

bool
kvt_program_wait(uint64_t wait_ms)
{
    const uint64_t start_ms = kvt_clock_mono_ms();
    uint64_t now_ms = start_ms;

    for (;;) {
        const uint64_t past_ms = now_ms - start_ms;
        uint64_t slice_ms = past_ms < wait_ms ? wait_ms - past_ms : 0;

        do_chores(now_ms);
        if (slice_ms > FLUSH_EVERY_MS)
            slice_ms = FLUSH_EVERY_MS;
        if (service.watchdog_ms > 0 && slice_ms > service.watchdog_ms)
            slice_ms = service.watchdog_ms;
        if (wait_for_stop(slice_ms))
            return true;
        now_ms = kvt_clock_mono_ms();
        if (now_ms - start_ms >= wait_ms)
            return false;
    }
}

/* ---- settings ---- */

static const char *
short_name(const char *name)
{
    const size_t size = strlen(NAME_PREFIX);

    return strncmp(name, NAME_PREFIX, size) == 0 ? name + size : name;
}

/* Defaults, then `path` (NULL: the default file, which may be missing), then the environment. */
static enum kvt_err
load_settings(struct kvt_config *config, const char *name, const char *path, struct kvt_error *err)
{
    char default_path[PATH_MAX];
    enum kvt_err rc;

    if (path != NULL) {
        rc = kvt_config_load_file(config, path, err);
    } else {
        (void)snprintf(default_path, sizeof(default_path), "%s/%s.yaml", DEFAULT_FOLDER,
                       short_name(name));
        rc = kvt_config_load_file(config, default_path, err);
        if (rc == KVT_NOTFOUND)
            rc = KVT_OK;
    }
    return rc == KVT_OK ? kvt_config_load_env(config, err) : rc;
}

/* The log, by the common rows. */
static void
set_up_log(const char *name, const struct kvt_config *config)
{
    enum { FORMAT_AUTO, FORMAT_TEXT, FORMAT_JSON };
    const size_t format = kvt_config_enum(config, KVT_COMMON_LOG_FORMAT);
    const bool text =
        format == FORMAT_TEXT || (format == FORMAT_AUTO && isatty(STDERR_FILENO) == 1);

    kvt_log_setup(name, (enum kvt_log_level)kvt_config_enum(config, KVT_COMMON_LOG_LEVEL),
                  text ? KVT_LOG_TEXT : KVT_LOG_JSON);
}

void
kvt_program_part(const char *name, const struct kvt_config *config)
{
    atomic_store(&service.part, true);
    set_up_log(name, config);
}

/* ---- command line ---- */

static void
print_usage(FILE *out, const struct kvt_program *program)
{
    (void)fprintf(out, "Usage: %s [--config FILE] [FLAG...]%s%s\n", program->name,
                  program->usage[0] == '\0' ? "" : " ", program->usage);
    (void)fprintf(out,
                  "       %s config show [--origin] [-o text|json]\n"
                  "       %s config example | config man\n",
                  program->name, program->name);
}

static void
print_help(const struct kvt_program *program, const struct kvt_config *config)
{
    print_usage(stdout, program);
    (void)printf("\n%s\n\n", program->summary);
    (void)printf("  -h, --help\n        Print this and exit.\n"
                 "  --version\n        Print the version and exit.\n"
                 "  --config FILE\n        Settings file (default %s/%s.yaml, if there is one).\n",
                 DEFAULT_FOLDER, short_name(program->name));
    kvt_config_print_flags(config, stdout);
    (void)printf("\nA setting comes from its flag, else its KVTIER_* variable, else the\n"
                 "settings file, else its default.\n");
}

static void
print_man(const struct kvt_program *program, const struct kvt_config *config)
{
    (void)printf(".TH %s 8 \"\" \"KVTier %s\" \"KVTier\"\n", program->name, KVT_VERSION);
    (void)printf(".SH NAME\n%s \\- %s\n", program->name, program->summary);
    (void)printf(
        ".SH SYNOPSIS\n.B %s\n[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fIFLAG\\fR...]%s%s\n.br\n"
        ".B %s config\nshow [\\fB\\-\\-origin\\fR] [\\fB\\-o text|json\\fR] | example | man\n",
        program->name, program->usage[0] == '\0' ? "" : " ", program->usage, program->name);
    (void)printf(".SH DESCRIPTION\n%s.\nA setting comes from its flag, else its variable, else the "
                 "settings file, else its default.\n",
                 program->summary);
    kvt_config_print_man(config, stdout);
    (void)printf(".SH FILES\n.TP\n.I %s/%s.yaml\nSettings; \\fB%s config example\\fR prints one.\n",
                 DEFAULT_FOLDER, short_name(program->name), program->name);
    (void)printf(".SH EXIT STATUS\n0 done or stopped by SIGTERM, 1 failed or not stopped within "
                 "stop.timeout, 2 wrong usage or settings.\n");
}

static enum kvt_err
refuse_word(const char *word, const char *const *known, size_t count, struct kvt_error *err)
{
    const char *near = kvt_suggest(word, known, count);

    if (near != NULL)
        return kvt_error_set(err, KVT_INVALID, "unexpected \"%s\" (did you mean \"%s\"?)", word,
                             near);
    return kvt_error_set(err, KVT_INVALID, "unexpected \"%s\"", word);
}

/* "config show|example|man"; `at` stands on "config" and is moved to the last word used. */
static enum kvt_err
read_config_command(struct line *line, int argc, char **argv, int *at, struct kvt_error *err)
{
    static const char *const words[] = {"show", "example", "man"};
    static const enum action actions[] = {ACTION_SHOW, ACTION_EXAMPLE, ACTION_MAN};

    if (++*at >= argc)
        return kvt_error_set(err, KVT_INVALID, "config wants show, example or man");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(argv[*at], words[i]) == 0) {
            line->action = actions[i];
            return KVT_OK;
        }
    }
    return refuse_word(argv[*at], words, sizeof(words) / sizeof(words[0]), err);
}

/* The value of the flag at `*at`: behind its '=', or the next word. */
static enum kvt_err
take_value(int argc, char **argv, int *at, const char **value, struct kvt_error *err)
{
    const char *equals = strchr(argv[*at], '=');

    *value = "";
    if (equals != NULL) {
        *value = equals + 1;
        return KVT_OK;
    }
    if (*at + 1 >= argc)
        return kvt_error_set(err, KVT_INVALID, "%s needs a value", argv[*at]);
    *value = argv[++*at];
    return KVT_OK;
}

static enum kvt_err
read_setting(struct kvt_config *config, int argc, char **argv, int *at, struct kvt_error *err)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    const size_t size = equals == NULL ? strlen(word) : (size_t)(equals - word);
    char name[KVT_CONFIG_KEY_MAX];
    const char *value = NULL;
    struct kvt_error ignored;

    if (size >= sizeof(name))
        return kvt_error_set(err, KVT_NOTFOUND, "unknown flag %s", argv[*at]);
    (void)snprintf(name, sizeof(name), "%.*s", (int)size, word);
    /* A flag nobody knows must be called that, and not "needs a value": it gets none to find out.
     */
    if (equals != NULL)
        value = equals + 1;
    else if (!kvt_config_flag_is_bool(config, name) &&
             kvt_config_set_flag(config, name, NULL, &ignored) != KVT_NOTFOUND &&
             take_value(argc, argv, at, &value, err) != KVT_OK)
        return err->code;
    return kvt_config_set_flag(config, name, value, err);
}

/* One of the words every program understands; false when it is none, with `*rc` untouched. */
static bool
read_common(struct line *line, int argc, char **argv, int *at, enum kvt_err *rc,
            struct kvt_error *err)
{
    const char *word = argv[*at];
    const char *value;

    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        line->action = ACTION_HELP;
    } else if (strcmp(word, "--version") == 0) {
        line->action = ACTION_VERSION;
    } else if (strcmp(word, "--config") == 0 || strncmp(word, "--config=", 9) == 0) {
        *rc = take_value(argc, argv, at, &line->config_path, err);
    } else if (strcmp(word, "config") == 0 && line->action == ACTION_RUN) {
        *rc = read_config_command(line, argc, argv, at, err);
    } else if (strcmp(word, "--origin") == 0 && line->action == ACTION_SHOW) {
        line->origin = true;
    } else if (strcmp(word, "-o") == 0 && line->action == ACTION_SHOW) {
        *rc = take_value(argc, argv, at, &value, err);
        if (*rc == KVT_OK && strcmp(value, "json") == 0)
            line->json = true;
        else if (*rc == KVT_OK && strcmp(value, "text") != 0)
            *rc = kvt_error_set(err, KVT_INVALID, "-o wants text or json, not \"%s\"", value);
    } else {
        return false;
    }
    return true;
}

static enum kvt_err
read_line(struct line *line, struct kvt_config *config, int argc, char **argv,
          struct kvt_error *err)
{
    static const char *const words[] = {"config", "--help", "--version", "--config"};
    enum kvt_err rc = KVT_OK;

    for (int i = 1; i < argc && rc == KVT_OK; i++) {
        if (read_common(line, argc, argv, &i, &rc, err))
            continue;
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0')
            rc = read_setting(config, argc, argv, &i, err);
        else
            rc = refuse_word(argv[i], words, sizeof(words) / sizeof(words[0]), err);
    }
    return rc;
}

/* ---- main ---- */

static int
run_program(const struct kvt_program *program, const struct kvt_config *config)
{
    struct kvt_error err = {0};
    enum kvt_err rc;

    set_up_log(program->name, config);
    rc = handle_signals(kvt_config_u64(config, KVT_COMMON_STOP_TIMEOUT), &err);
    if (rc == KVT_OK)
        rc = program->run(config, &err);
    if (rc != KVT_OK) {
        kvt_log_error("program", "failed", "%s", err.text[0] == '\0' ? kvt_err_text(rc) : err.text);
        (void)sd_notifyf(0, "STATUS=failed: %s", err.text);
    }
    kvt_log_flush(true);
    return rc == KVT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
perform(const struct kvt_program *program, struct kvt_config *config, const struct line *line)
{
    struct kvt_error err;

    switch (line->action) {
    case ACTION_HELP: print_help(program, config); break;
    case ACTION_VERSION: (void)printf("%s %s\n", program->name, KVT_VERSION); break;
    case ACTION_EXAMPLE: kvt_config_print_example(config, stdout); break;
    case ACTION_MAN: print_man(program, config); break;
    case ACTION_SHOW:
    case ACTION_RUN:
        if (load_settings(config, program->name, line->config_path, &err) != KVT_OK) {
            (void)fprintf(stderr, "%s: %s\n", program->name, err.text);
            return EXIT_USAGE;
        }
        if (line->action == ACTION_RUN)
            return run_program(program, config);
        kvt_config_print_show(config, stdout, line->origin, line->json);
        break;
    }
    /* What was asked for is the output: a full disk or a closed pipe must not look like success. */
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
kvt_program_main(int argc, char **argv, const struct kvt_program *program)
{
    struct line line = {.action = ACTION_RUN};
    struct kvt_config *config;
    struct kvt_error err;
    int status;

    if (kvt_config_new(&config, program->params, program->param_count, &err) != KVT_OK) {
        (void)fprintf(stderr, "%s: %s\n", program->name, err.text);
        return EXIT_FAILURE;
    }
    assert(program->param_count >= KVT_COMMON_COUNT);
    assert(strcmp(program->params[KVT_COMMON_LOG_LEVEL].key, "log.level") == 0);
    assert(strcmp(program->params[KVT_COMMON_LOG_FORMAT].key, "log.format") == 0);
    assert(strcmp(program->params[KVT_COMMON_STOP_TIMEOUT].key, "stop.timeout") == 0);
    if (read_line(&line, config, argc, argv, &err) != KVT_OK) {
        (void)fprintf(stderr, "%s: %s\n", program->name, err.text);
        print_usage(stderr, program);
        status = EXIT_USAGE;
    } else {
        status = perform(program, config, &line);
    }
    kvt_config_free(config);
    return status;
}
