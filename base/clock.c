#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

static uint64_t
read_ns(clockid_t clock)
{
    struct timespec now;
    const int rc = clock_gettime(clock, &now);

    assert(rc == 0); /* both clocks always exist on Linux */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
kvt_clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t
kvt_clock_mono_ms(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000000u;
}

uint64_t
kvt_clock_unix_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000u;
}

uint64_t
kvt_clock_unix_coarse_ms(void)
{
    return read_ns(CLOCK_REALTIME_COARSE) / 1000000u;
}

void
kvt_clock_sleep_ms(uint64_t wait_ms)
{
    const struct timespec wait = {
        .tv_sec = (time_t)(wait_ms / 1000),
        .tv_nsec = (long)(wait_ms % 1000) * 1000000,
    };

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
}

void
kvt_clock_format(uint64_t unix_ms, char text[KVT_CLOCK_TEXT_MAX])
{
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    int size;

    /* A year that does not fit an int comes from a broken peer, not from a clock. */
    if (gmtime_r(&seconds, &parts) == NULL || parts.tm_year > 9999 - 1900) {
        (void)snprintf(text, KVT_CLOCK_TEXT_MAX, "9999-12-31T23:59:59.999Z");
        return;
    }
    size = (int)strftime(text, KVT_CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + size, (size_t)(KVT_CLOCK_TEXT_MAX - size), ".%03uZ",
                   (unsigned)(unix_ms % 1000));
}

void
kvt_clock_format_basic(uint64_t unix_ms, char text[KVT_CLOCK_BASIC_MAX])
{
    char full[KVT_CLOCK_TEXT_MAX];
    size_t size = 0;

    kvt_clock_format(unix_ms, full);
    for (const char *c = full; *c != '.'; c++)
        if (*c != '-' && *c != ':')
            text[size++] = *c;
    assert(size == KVT_CLOCK_BASIC_MAX - 2);
    text[size++] = 'Z';
    text[size] = '\0';
}
