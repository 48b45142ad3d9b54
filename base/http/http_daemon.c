#include "base/http/http_daemon.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/log.h"

enum { DRAIN_STEP_MS = 5 };

void
kvt_http_daemon_log(void *area, const char *format, va_list args)
{
    char text[256];

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    kvt_log_debug(area, "library", "%s", text);
}

enum MHD_Result
kvt_http_daemon_accept(void *life, const struct sockaddr *address, socklen_t size)
{
    (void)address;
    (void)size;
    return atomic_load(&((struct kvt_http_daemon *)life)->drains) ? MHD_NO : MHD_YES;
}

void
kvt_http_daemon_drain(struct kvt_http_daemon *life)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + KVT_HTTP_DAEMON_DRAIN_MS;

    if (life->daemon == NULL)
        return;
    atomic_store(&life->drains, true);
    while (atomic_load(&life->call_count) > 0 && kvt_clock_mono_ms() < deadline_ms)
        kvt_clock_sleep_ms(DRAIN_STEP_MS);
}

void
kvt_http_daemon_end(struct kvt_http_daemon *life)
{
    if (life->daemon != NULL)
        MHD_stop_daemon(life->daemon);
    life->daemon = NULL;
    if (life->fd >= 0)
        (void)close(life->fd);
    life->fd = -1;
}
