#include "cli/frame/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

static void
signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
}

void
cli_interrupt_begin(void)
{
    sigset_t set;

    signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool
cli_interrupt_wait(uint64_t wait_ms)
{
    const struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000),
                                  .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    sigset_t set;

    signals(&set);
    return sigtimedwait(&set, NULL, &wait) > 0;
}

void
cli_interrupt_end(void)
{
    sigset_t set;

    signals(&set);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
