#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/events/event_commands.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/remote/cli_bus.h"
#include "wire/message/recording.h"

enum { PROGRESS_MS = 500, RETRY_MS = 20, NS_PER_MS = 1000000, LOOK = 256 };

/* Slower than this, a recording would never end. */
#define SPEED_MIN 0.001
#define SPEED_MAX 1e6

struct replay {
    const struct cli_context *context;
    struct wire_bus *bus;
    const char *subject; /* of all; NULL: each its own */
    double speed;        /* 0: without waiting */
    bool jetstream;
    uint64_t timeout_ms;
    uint64_t limit;
    uint64_t sent;
    uint64_t bytes;
    uint64_t bad;
    uint64_t first_ns; /* time of the first record, and when it was sent */
    uint64_t started_ns;
    uint64_t next_ms; /* progress */
    bool drawn;
};

static bool
parse_speed(const char *text, double *speed)
{
    char *end;

    *speed = 0;
    if (strcmp(text, "max") == 0)
        return true;
    errno = 0;
    *speed = strtod(text, &end);
    return errno == 0 && end != text && *end == '\0' && isfinite(*speed) && *speed >= SPEED_MIN &&
           *speed <= SPEED_MAX;
}

static void
show_progress(struct replay *replay)
{
    const uint64_t now = kvt_clock_mono_ms();
    char size[KVT_SIZE_TEXT_MAX];

    if (now < replay->next_ms || !cli_context_interactive(replay->context))
        return;
    replay->next_ms = now + PROGRESS_MS;
    replay->drawn = true;
    kvt_size_format(replay->bytes, size);
    (void)fprintf(replay->context->err, "\rsent %" PRIu64 " messages, %s\033[K", replay->sent,
                  size);
    (void)fflush(replay->context->err);
}

/* Until it is this record's turn; false: told to stop.  Clocks that went back make no wait. */
static bool
wait_turn(struct replay *replay, const struct wire_recording *record)
{
    if (replay->sent == 0) {
        replay->first_ns = record->time_ns;
        replay->started_ns = kvt_clock_mono_ns();
    }
    if (replay->speed == 0 || record->time_ns <= replay->first_ns)
        return replay->sent % LOOK != 0 || !cli_interrupt_wait(0);
    for (;;) {
        const double due = (double)(record->time_ns - replay->first_ns) / replay->speed;
        const double gone = (double)(kvt_clock_mono_ns() - replay->started_ns);
        const double rest_ms = (due - gone) / NS_PER_MS;

        show_progress(replay);
        if (rest_ms <= 0)
            return replay->sent % LOOK != 0 || !cli_interrupt_wait(0);
        if (cli_interrupt_wait(rest_ms > PROGRESS_MS ? PROGRESS_MS : (uint64_t)rest_ms + 1))
            return false;
    }
}

/* A server that is away for a moment is waited for: a message left out would be a gap. */
static enum kvt_err
send_one(struct replay *replay, const struct wire_recording *record, struct kvt_error *err)
{
    const char *subject = replay->subject != NULL ? replay->subject : record->subject;
    const uint64_t deadline = kvt_clock_mono_ms() + replay->timeout_ms;
    enum kvt_err rc;

    if (subject[0] == '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "message %" PRIu64 " has no subject: say one with --subject-as",
                             replay->sent + 1);
    for (;;) {
        rc = replay->jetstream
                 ? wire_bus_publish_acked(replay->bus, subject, NULL, record->bytes, record->size,
                                          replay->timeout_ms, NULL)
                 : wire_bus_publish(replay->bus, subject, record->bytes, record->size);
        if (rc != KVT_AGAIN && rc != KVT_UNAVAILABLE)
            break;
        if (kvt_clock_mono_ms() >= deadline || wire_bus_refused(replay->bus) ||
            (replay->jetstream && wire_bus_connected(replay->bus)))
            break;
        if (cli_interrupt_wait(RETRY_MS))
            return kvt_error_set(err, KVT_CANCELLED, "stopped");
    }
    if (rc == KVT_OK)
        return rc;
    return kvt_error_set(
        err, rc, "message %" PRIu64 " to %.80s: %s%s", replay->sent + 1, subject, kvt_err_text(rc),
        rc == KVT_UNAVAILABLE && replay->jetstream ? ": no server, or no stream takes it" : "");
}

static enum kvt_err
send_all(struct replay *replay, struct wire_recording_reader *reader, struct kvt_error *err)
{
    const bool skip = kvt_config_bool(replay->context->options, CLI_REPLAY_SKIP_BAD);
    struct wire_recording record;
    enum kvt_err rc;

    while (replay->limit == 0 || replay->sent < replay->limit) {
        rc = wire_recording_next(reader, &record, err);
        if (rc == KVT_CORRUPT && skip) {
            replay->bad++;
            (void)fprintf(replay->context->err, "kvtier: %s; skipped\n", err->text);
            continue;
        }
        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_OK : rc;
        if (!wait_turn(replay, &record))
            return kvt_error_set(err, KVT_CANCELLED, "stopped");
        rc = send_one(replay, &record, err);
        if (rc != KVT_OK)
            return rc;
        replay->sent++;
        replay->bytes += record.size;
        show_progress(replay);
    }
    return KVT_OK;
}

static void
print(const struct replay *replay)
{
    const double seconds =
        replay->sent == 0 ? 0 : (double)(kvt_clock_mono_ns() - replay->started_ns) / 1e9;
    char size[KVT_SIZE_TEXT_MAX];

    if (replay->drawn)
        (void)fputs("\r\033[K", replay->context->err);
    if (replay->context->json) {
        (void)fprintf(replay->context->out,
                      "{\"schema_version\":1,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"skipped\":%" PRIu64 ",\"seconds\":%.3f}\n",
                      replay->sent, replay->bytes, replay->bad, seconds);
        return;
    }
    kvt_size_format(replay->bytes, size);
    (void)fprintf(replay->context->out, "%" PRIu64 " messages, %s, in %.1f s\n", replay->sent, size,
                  seconds);
}

static enum cli_exit
finish(const struct replay *replay, uint64_t torn, enum kvt_err rc, const struct kvt_error *err)
{
    const struct cli_context *context = replay->context;

    print(replay);
    if (torn > 0)
        (void)fprintf(
            context->err,
            "kvtier: the recording ends inside a record: %" PRIu64 " bytes were left over\n", torn);
    if (rc == KVT_OK)
        return torn > 0 || replay->bad > 0 ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
    if (rc == KVT_CANCELLED) /* Ctrl-C is how one ends it */
        return CLI_EXIT_DONE;
    if (rc == KVT_CORRUPT) {
        (void)cli_context_fail(context, err);
        (void)fputs("  next: --skip-bad goes on behind it\n", context->err);
        return CLI_EXIT_INTEGRITY;
    }
    return rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT ? cli_bus_fail(context, err)
                                                      : cli_context_fail(context, err);
}

enum cli_exit
cli_replay_run(const struct cli_context *context)
{
    const struct kvt_config *options = context->options;
    const char *as = kvt_config_string(options, CLI_REPLAY_SUBJECT_AS);
    struct replay replay = {
        .context = context,
        .subject = strcmp(as, "RECORDED") == 0 || as[0] == '\0' ? NULL : as,
        .jetstream = kvt_config_bool(options, CLI_REPLAY_JETSTREAM),
        .timeout_ms = kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
        .limit = kvt_config_u64(options, CLI_REPLAY_COUNT),
    };
    struct wire_recording_reader *reader = NULL;
    struct kvt_error err = {0};
    enum cli_exit status;
    enum kvt_err rc;

    if (!parse_speed(kvt_config_string(options, CLI_REPLAY_SPEED), &replay.speed))
        return cli_context_usage(context, "--speed: \"%s\": want max, or a number from 0.001 on",
                                 kvt_config_string(options, CLI_REPLAY_SPEED));
    cli_interrupt_begin();
    rc = wire_recording_open(&reader, context->arguments[0], &err);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    rc = cli_bus_open(context, &replay.bus, &err);
    if (rc == KVT_OK) {
        rc = send_all(&replay, reader, &err);
        status = finish(&replay, wire_recording_torn(reader), rc, &err);
    } else {
        status = cli_bus_fail(context, &err);
    }
    wire_bus_close(replay.bus);
    wire_recording_free(reader);
    return status;
}
