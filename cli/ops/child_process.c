#include "cli/ops/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "cli/frame/interrupt.h"

enum { POLL_MS = 20, EXIT_NO_EXEC = 127 };

#define SERVER_PATH "/usr/sbin:/usr/local/sbin:/sbin"

/* ---- finding ---- */

static bool
runnable(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

/* Beside this program, or in the build folder of `folder`. */
static bool
find_near(const char *name, const char *folder, char path[CLI_CHILD_PROCESS_PATH_MAX])
{
    char self[CLI_CHILD_PROCESS_PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (size <= 0)
        return false;
    self[size] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    if (snprintf(path, CLI_CHILD_PROCESS_PATH_MAX, "%s/%s", self, name) <
            CLI_CHILD_PROCESS_PATH_MAX &&
        runnable(path))
        return true;
    return snprintf(path, CLI_CHILD_PROCESS_PATH_MAX, "%s/../%s/%s", self, folder, name) <
               CLI_CHILD_PROCESS_PATH_MAX &&
           runnable(path);
}

static bool
find_along(const char *name, const char *places, char path[CLI_CHILD_PROCESS_PATH_MAX])
{
    while (places != NULL && *places != '\0') {
        const size_t size = strcspn(places, ":");

        if (size > 0 &&
            snprintf(path, CLI_CHILD_PROCESS_PATH_MAX, "%.*s/%s", (int)size, places, name) <
                CLI_CHILD_PROCESS_PATH_MAX &&
            runnable(path))
            return true;
        places += size;
        places += *places == ':';
    }
    return false;
}

enum kvt_err
cli_child_process_find(const char *name, const char *folder, char path[CLI_CHILD_PROCESS_PATH_MAX],
                       struct kvt_error *err)
{
    if (strchr(name, '/') != NULL) {
        (void)snprintf(path, CLI_CHILD_PROCESS_PATH_MAX, "%s", name);
        if (runnable(path))
            return KVT_OK;
        return kvt_error_set(err, KVT_NOTFOUND, "%s is no program that can be run", name);
    }
    if (find_near(name, folder, path) || find_along(name, getenv("PATH"), path) ||
        find_along(name, SERVER_PATH, path))
        return KVT_OK;
    path[0] = '\0';
    return kvt_error_set(err, KVT_NOTFOUND,
                         "no program %s beside this one, in $PATH or in " SERVER_PATH, name);
}

/* ---- running ---- */

/* In the child, between fork and exec: only async-signal-safe calls. */
static void
become(const char *const *argv, int log, pid_t parent)
{
    /* execv() promises not to write; its type is older than const. */
    char *const *arguments = (char *const *)(uintptr_t)argv;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it died before prctl() */
        _exit(EXIT_NO_EXEC);
    (void)signal(SIGPIPE, SIG_DFL);
    cli_interrupt_end();
    if (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(EXIT_NO_EXEC);
    (void)execv(argv[0], arguments);
    _exit(EXIT_NO_EXEC);
}

enum kvt_err
cli_child_process_start(struct cli_child_process *process, const char *name,
                        const char *const *argv, const char *log, struct kvt_error *err)
{
    const pid_t parent = getpid();
    int fd;

    *process = (struct cli_child_process){.name = name};
    fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return kvt_error_sys(err, errno, "%s", log);
    process->pid = fork();
    if (process->pid == 0)
        become(argv, fd, parent);
    (void)close(fd);
    if (process->pid < 0) {
        process->pid = 0;
        return kvt_error_sys(err, errno, "start %s", name);
    }
    return KVT_OK;
}

bool
cli_child_process_ended(struct cli_child_process *process)
{
    if (process->pid == 0)
        return true;
    if (waitpid(process->pid, &process->wait_status, WNOHANG) != process->pid)
        return false;
    process->pid = 0;
    return true;
}

void
cli_child_process_explain(const struct cli_child_process *process, char *text, size_t size)
{
    if (WIFSIGNALED(process->wait_status))
        (void)snprintf(text, size, "was killed by signal %d", WTERMSIG(process->wait_status));
    else if (WEXITSTATUS(process->wait_status) == EXIT_NO_EXEC)
        (void)snprintf(text, size, "could not be run");
    else
        (void)snprintf(text, size, "exited with status %d", WEXITSTATUS(process->wait_status));
}

void
cli_child_process_stop(struct cli_child_process *process, uint64_t grace_ms, bool (*hurry)(void))
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + grace_ms;

    if (process->pid == 0)
        return;
    (void)kill(process->pid, SIGTERM);
    while (!cli_child_process_ended(process)) {
        if (kvt_clock_mono_ms() < deadline_ms && !hurry()) {
            kvt_clock_sleep_ms(POLL_MS);
            continue;
        }
        (void)kill(process->pid, SIGKILL);
        (void)waitpid(process->pid, &process->wait_status, 0);
        process->pid = 0;
    }
}
