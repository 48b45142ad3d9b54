#include "worker/instances/instance_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"

enum { COMMAND_MAX = 128 << 10, LOOK = 10 /* ms */ };

/* Arguments of this process and some more. */
struct command {
    char *text; /* of /proc/self/cmdline */
    char part[64];
    char folder[512];
    char name[128];
    char *list[WORKER_PROCESSES_ARGUMENTS + 4];
};

static enum kvt_err
read_command(struct command *command, struct kvt_error *err)
{
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    ssize_t size;

    command->text = kvt_calloc(1, COMMAND_MAX + 1);
    size = fd < 0 || command->text == NULL ? -1 : read(fd, command->text, COMMAND_MAX);
    if (fd >= 0)
        (void)close(fd);
    if (size <= 0 || size == COMMAND_MAX)
        return kvt_error_set(err, KVT_IO, "the command line of this process cannot be read");
    for (char *at = command->text; at < command->text + size; at += strlen(at) + 1) {
        if (count == WORKER_PROCESSES_ARGUMENTS)
            return kvt_error_set(err, KVT_RANGE, "more than %d arguments",
                                 WORKER_PROCESSES_ARGUMENTS);
        command->list[count++] = at;
    }
    command->list[count++] = command->name;
    command->list[count++] = command->folder;
    command->list[count++] = command->part;
    command->list[count] = NULL;
    return KVT_OK;
}

/* In the child: nothing but what may be called between fork and exec. */
_Noreturn static void
become(struct command *command, pid_t parent)
{
    sigset_t none;

    (void)setpgid(0, 0); /* who types ^C means the supervisor, and that ends the others */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
        (void)execv("/proc/self/exe", command->list);
    _exit(127);
}

static enum kvt_err
spawn(const struct worker_processes *life, struct command *command, const char *which, pid_t *pid,
      struct kvt_error *err)
{
    const pid_t parent = getpid();

    (void)snprintf(command->part, sizeof(command->part), "--engine-part=%" PRIu32 "/%s/%" PRIu64,
                   life->instance, which, life->number);
    *pid = fork();
    if (*pid == 0)
        become(command, parent);
    if (*pid > 0)
        return KVT_OK;
    *pid = 0;
    return kvt_error_sys(err, errno, "start a process of instance %" PRIu32, life->instance);
}

enum kvt_err
worker_processes_start(struct worker_processes *life, struct kvt_error *err)
{
    struct command command = {.text = NULL};
    enum kvt_err rc = read_command(&command, err);

    kvt_random_system(&life->number, sizeof(life->number));
    life->number |= 1; /* not 0 */
    (void)snprintf(command.folder, sizeof(command.folder), "--engine-folder=%s",
                   life->plan->folder);
    (void)snprintf(command.name, sizeof(command.name), "--name=%s", life->plan->settings->name);
    for (uint32_t rank = 0; rank < life->plan->tp[life->instance] && rc == KVT_OK; rank++) {
        char which[16];

        (void)snprintf(which, sizeof(which), "%" PRIu32, rank);
        rc = spawn(life, &command, which, &life->ranks[rank], err);
    }
    if (rc == KVT_OK)
        rc = spawn(life, &command, "leader", &life->leader, err);
    kvt_free(command.text);
    if (rc != KVT_OK)
        worker_processes_end(life);
    return rc;
}

/* Whoever of them has ended is no process any more; true: it has. */
static bool
reap(struct worker_processes *life, pid_t *pid, const char *what, uint32_t rank, bool expected)
{
    pid_t ended = 0;
    int status = 0;

    if (*pid != 0)
        ended = waitpid(*pid, &status, WNOHANG);
    /* Where SIGCHLD was ignored when this program began, children leave no status behind. */
    if (ended == 0 || (ended < 0 && errno != ECHILD))
        return false;
    if (!expected && ended < 0)
        kvt_log_warn("worker.instance", "ended", "instance %" PRIu32 ": %s %" PRIu32,
                     life->instance, what, rank);
    else if (!expected)
        kvt_log_warn("worker.instance", "ended", "instance %" PRIu32 ": %s %" PRIu32 ": %s %d",
                     life->instance, what, rank, WIFSIGNALED(status) ? "signal" : "status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (!expected && (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0))
        life->gave_up = false;
    *pid = 0;
    return true;
}

bool
worker_processes_is_over(struct worker_processes *life)
{
    bool over;

    life->gave_up = true; /* until one did not */
    over = reap(life, &life->leader, "leader", 0, false);
    for (uint32_t rank = 0; rank < WORKER_INSTANCE_RANKS_MAX; rank++)
        over = reap(life, &life->ranks[rank], "rank", rank, false) || over;
    life->gave_up = life->gave_up && over;
    return over;
}

static bool
any_left(struct worker_processes *life)
{
    bool left;

    (void)reap(life, &life->leader, "leader", 0, true);
    left = life->leader != 0;
    for (uint32_t rank = 0; rank < WORKER_INSTANCE_RANKS_MAX; rank++) {
        (void)reap(life, &life->ranks[rank], "rank", rank, true);
        left = left || life->ranks[rank] != 0;
    }
    return left;
}

static void
signal_all(const struct worker_processes *life, bool leader, int number)
{
    if (leader && life->leader != 0)
        (void)kill(life->leader, number);
    for (uint32_t rank = 0; rank < WORKER_INSTANCE_RANKS_MAX && !leader; rank++)
        if (life->ranks[rank] != 0)
            (void)kill(life->ranks[rank], number);
}

/* Until there is none of them any more, of leaders or of all. */
static void
wait_for(struct worker_processes *const *lives, size_t count, bool leaders, uint64_t until_ms)
{
    bool left = true;

    while (left && kvt_clock_mono_ms() < until_ms) {
        left = false;
        for (size_t i = 0; i < count; i++)
            left = (any_left(lives[i]) && (!leaders || lives[i]->leader != 0)) || left;
        if (left)
            kvt_clock_sleep_ms(LOOK);
    }
}

void
worker_processes_ask(struct worker_processes *const *lives, size_t count, uint64_t wait_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (size_t i = 0; i < count; i++)
        signal_all(lives[i], true, SIGTERM);
    wait_for(lives, count, true, now_ms + wait_ms / 4 * 3);
    for (size_t i = 0; i < count; i++) {
        signal_all(lives[i], true, SIGKILL);
        signal_all(lives[i], false, SIGTERM);
    }
    wait_for(lives, count, false, now_ms + wait_ms);
}

void
worker_processes_end(struct worker_processes *life)
{
    signal_all(life, true, SIGKILL);
    signal_all(life, false, SIGKILL);
    while (any_left(life))
        kvt_clock_sleep_ms(LOOK);
    life->number = 0;
}
