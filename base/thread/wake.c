#include "base/thread/wake.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int
kvt_wake_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void
kvt_wake_signal(int file)
{
    const uint64_t one = 1;

    while (write(file, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

void
kvt_wake_clear(int file)
{
    uint64_t count;

    while (read(file, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}
