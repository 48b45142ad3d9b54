#include "base/core/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/escape.h"
#include "base/core/log_limiter.h"
#include "base/core/redact.h"

/* The process's one sink.  `program`, `least` and `format` are set before threads start. */
static struct {
    char program[64];
    enum kvt_log_level least;
    enum kvt_log_format format;

    struct {
        pthread_mutex_t lock; /* guards the repeat table; nothing is written under it */
        struct kvt_log_limiter limiter;
    } shared;
} sink = {
    .program = "kvtier",
    .least = KVT_LOG_INFO,
    .format = KVT_LOG_TEXT,
    .shared = {.lock = PTHREAD_MUTEX_INITIALIZER,
               .limiter = {.passes = KVT_LOG_REPEAT_MAX, .window_ms = KVT_LOG_REPEAT_MS}},
};

void
kvt_log_setup(const char *program, enum kvt_log_level least, enum kvt_log_format format)
{
    (void)snprintf(sink.program, sizeof(sink.program), "%s", program);
    sink.least = least;
    sink.format = format;
}

static const char *
level_name(enum kvt_log_level level)
{
    switch (level) {
    case KVT_LOG_DEBUG: return "debug";
    case KVT_LOG_INFO: return "info";
    case KVT_LOG_WARN: return "warn";
    case KVT_LOG_ERROR: return "error";
    }
    return "error";
}

/* One write() a line, so that lines of several threads and processes never mix. */
static void
write_line(enum kvt_log_level level, const char *area, const char *event, const char *message)
{
    const bool json = sink.format == KVT_LOG_JSON;
    const char *end = json ? "\"}\n" : "\"\n";
    const size_t end_size = strlen(end);
    char time_text[KVT_CLOCK_TEXT_MAX];
    char line[KVT_LOG_LINE_MAX];
    size_t size;
    int head;

    kvt_clock_format(kvt_clock_unix_ms(), time_text);
    head = snprintf(line, sizeof(line),
                    json ? "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"area\":\"%s\","
                           "\"event\":\"%s\",\"msg\":\""
                         : "time=%s level=%s program=%s area=%s event=%s msg=\"",
                    time_text, level_name(level), sink.program, area, event);
    size = head < 0 ? 0 : (size_t)head;
    if (size > sizeof(line) / 2)
        size =
            sizeof(line) / 2; /* keys are literals of ours; this only keeps the arithmetic safe */
    size += kvt_escape_json(line + size, sizeof(line) - size - end_size, message);
    memcpy(line + size, end, end_size);
    size += end_size;
    while (write(STDERR_FILENO, line, size) < 0 && errno == EINTR)
        continue;
}

static void
write_sum(const char *area, const char *event, uint64_t held)
{
    char message[96];

    (void)snprintf(message, sizeof(message), "%" PRIu64 " more lines like this were not written",
                   held);
    write_line(KVT_LOG_WARN, area, event, message);
}

void
kvt_log(enum kvt_log_level level, const char *area, const char *event, const char *format, ...)
{
    char message[KVT_LOG_LINE_MAX];
    uint64_t held;
    va_list args;
    bool pass;

    if (level < sink.least)
        return;
    (void)pthread_mutex_lock(&sink.shared.lock);
    pass = kvt_log_limiter_pass(&sink.shared.limiter, area, event, kvt_clock_mono_ms(), &held);
    (void)pthread_mutex_unlock(&sink.shared.lock);
    if (!pass)
        return;
    if (held > 0)
        write_sum(area, event, held);
    va_start(args, format);
    if (vsnprintf(message, sizeof(message), format, args) < 0)
        message[0] = '\0';
    va_end(args);
    kvt_redact(message);
    write_line(level, area, event, message);
}

void
kvt_log_flush(bool all)
{
    struct kvt_log_limiter_row sum;
    bool more = true;

    while (more) {
        (void)pthread_mutex_lock(&sink.shared.lock);
        more = kvt_log_limiter_sum(&sink.shared.limiter, kvt_clock_mono_ms(), all, &sum);
        (void)pthread_mutex_unlock(&sink.shared.lock);
        if (more)
            write_sum(sum.area, sum.event, sum.held);
    }
}
