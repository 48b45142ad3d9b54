#include "base/thread/cond.h"

#include <assert.h>
#include <errno.h>

bool
kvt_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    bool made;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(cond, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return made;
}

struct timespec
kvt_cond_deadline(uint64_t wait_ms)
{
    struct timespec at;
    const int rc = clock_gettime(CLOCK_MONOTONIC, &at);

    assert(rc == 0);
    if (wait_ms > UINT32_MAX)
        wait_ms = UINT32_MAX;
    at.tv_sec += (time_t)(wait_ms / 1000);
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

bool
kvt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *deadline)
{
    return pthread_cond_timedwait(cond, lock, deadline) != ETIMEDOUT;
}
