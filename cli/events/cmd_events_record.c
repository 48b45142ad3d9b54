#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/events/event_commands.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/remote/cli_bus.h"
#include "cli/remote/listener.h"
#include "wire/message/recording.h"

enum { PROGRESS_MS = 500 };

struct recording {
    const struct cli_context *context;
    struct wire_recording_writer *writer;
    uint64_t messages;
    uint64_t limit;
    uint64_t too_large; /* messages a recording cannot hold */
    uint64_t next_ms;
    bool drawn;
    struct kvt_error err; /* why it could not go on */
};

static void
show_progress(struct recording *recording)
{
    const uint64_t now = kvt_clock_mono_ms();
    char size[KVT_SIZE_TEXT_MAX];

    if (now < recording->next_ms || !cli_context_interactive(recording->context))
        return;
    recording->next_ms = now + PROGRESS_MS;
    recording->drawn = true;
    kvt_size_format(wire_recording_size(recording->writer), size);
    (void)fprintf(recording->context->err, "\rrecorded %" PRIu64 " messages, %s; Ctrl-C ends\033[K",
                  recording->messages, size);
    (void)fflush(recording->context->err);
}

static bool
take(void *arg, const struct wire_recording *message)
{
    struct recording *recording = arg;
    const enum kvt_err rc = wire_recording_put(recording->writer, message, &recording->err);

    if (rc == KVT_RANGE) { /* this one alone */
        recording->too_large++;
        (void)fprintf(recording->context->err, "kvtier: %s\n", recording->err.text);
        recording->err = (struct kvt_error){0};
        return true;
    }
    if (rc != KVT_OK)
        return false;
    recording->messages++;
    show_progress(recording);
    return recording->messages != recording->limit;
}

/* Who starts something in order to record it waits for these words. */
static void
say_listening(void *arg)
{
    const struct recording *recording = arg;

    (void)fputs("listening; Ctrl-C ends\n", recording->context->err);
    (void)fflush(recording->context->err);
}

/* What came is in the file before the next is waited for: a kill loses as little as it can. */
static bool
flush(void *arg)
{
    struct recording *recording = arg;

    show_progress(recording);
    return wire_recording_flush(recording->writer, &recording->err) == KVT_OK;
}

static enum kvt_err
listen(struct cli_listener *listener, struct kvt_error *err)
{
    const struct kvt_config *options = listener->context->options;
    const char *subject = kvt_config_string(options, CLI_RECORD_SUBJECT);
    struct wire_bus *bus = NULL;
    enum kvt_err rc;

    if (kvt_config_is_set(options, CLI_RECORD_DURATION))
        listener->deadline_ms = kvt_clock_mono_ms() + kvt_config_u64(options, CLI_RECORD_DURATION);
    if (kvt_config_is_set(options, CLI_RECORD_ZMQ))
        return cli_listener_zmq(listener, kvt_config_string(options, CLI_RECORD_ZMQ),
                                kvt_config_bool(options, CLI_RECORD_ZMQ_BIND), err);
    rc = cli_bus_open(listener->context, &bus, err);
    if (rc != KVT_OK)
        return rc;
    if (kvt_config_is_set(options, CLI_RECORD_STREAM))
        rc = cli_listener_stream(listener, bus, kvt_config_string(options, CLI_RECORD_STREAM),
                                 subject, kvt_config_u64(options, CLI_RECORD_FROM_SEQ),
                                 kvt_config_bool(options, CLI_RECORD_NO_FOLLOW), err);
    else
        rc = cli_listener_core(
            listener, bus, subject[0] != '\0' ? subject : cli_listener_subjects(listener->dialect),
            err);
    wire_bus_close(bus);
    return rc;
}

static void
print(const struct recording *recording, const struct cli_listener *listener, const char *path,
      uint64_t size)
{
    FILE *out = recording->context->out;
    char text[KVT_SIZE_TEXT_MAX];

    if (recording->drawn)
        (void)fputs("\r\033[K", recording->context->err);
    if (recording->context->json) {
        (void)fprintf(out,
                      "{\"schema_version\":1,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"dropped\":%" PRIu64 ",\"too_large\":%" PRIu64 "}\n",
                      recording->messages, size, (uint64_t)listener->dropped, recording->too_large);
        return;
    }
    kvt_size_format(size, text);
    (void)fprintf(out, "%s: %" PRIu64 " messages, %s\n", path, recording->messages, text);
}

static const char *
conflict(const struct kvt_config *options, enum wire_dialect dialect)
{
    const bool stream = kvt_config_is_set(options, CLI_RECORD_STREAM);

    if (kvt_config_is_set(options, CLI_RECORD_ZMQ))
        return stream || kvt_config_is_set(options, CLI_RECORD_SUBJECT)
                   ? "--zmq does not listen on NATS: no --stream or --subject"
                   : NULL;
    if (!stream && kvt_config_bool(options, CLI_RECORD_NO_FOLLOW))
        return "--no-follow wants --stream NAME";
    if (!stream && kvt_config_u64(options, CLI_RECORD_FROM_SEQ) != 1)
        return "--from-seq wants --stream NAME";
    if (!stream && cli_listener_subjects(dialect) == NULL &&
        !kvt_config_is_set(options, CLI_RECORD_SUBJECT))
        return "this dialect has no usual subject: --subject SUBJECT, --stream NAME or --zmq "
               "ENDPOINT";
    return NULL;
}

/* `rc` and `err`: of listening; `recording->err`: of writing. */
static enum cli_exit
finish(struct recording *recording, const struct cli_listener *listener, enum kvt_err rc,
       struct kvt_error *err)
{
    const struct cli_context *context = recording->context;
    const char *path = context->arguments[0];
    const uint64_t size = wire_recording_size(recording->writer);
    struct kvt_error cause = recording->err;
    struct kvt_error closing = {0};
    bool lost;

    if (wire_recording_close(recording->writer, &closing) != KVT_OK && cause.code == KVT_OK)
        cause = closing;
    print(recording, listener, path, size);
    lost = cli_listener_complain(listener) || recording->too_large > 0;
    if (rc != KVT_OK)
        return cli_bus_fail(context, err);
    if (cause.code == KVT_FULL) {
        (void)fprintf(context->err, "kvtier: %s\n", cause.text);
        return CLI_EXIT_LIMIT;
    }
    if (cause.code != KVT_OK) {
        (void)cli_context_fail(context, &cause);
        return CLI_EXIT_FAILED;
    }
    return lost ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
}

enum cli_exit
cli_record_run(const struct cli_context *context)
{
    const struct kvt_config *options = context->options;
    const struct wire_recording_options file = {
        .replace = kvt_config_bool(options, CLI_RECORD_FORCE),
        .size_max = kvt_config_u64(options, CLI_RECORD_SIZE)};
    struct recording recording = {.context = context,
                                  .limit = kvt_config_u64(options, CLI_RECORD_COUNT)};
    struct cli_listener listener = {
        .context = context,
        .dialect = (enum wire_dialect)kvt_config_enum(options, CLI_RECORD_DIALECT),
        .each = take,
        .pause = flush,
        .heard = say_listening,
        .arg = &recording};
    const char *wrong = conflict(options, listener.dialect);
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (wrong != NULL)
        return cli_context_usage(context, "%s", wrong);
    cli_interrupt_begin();
    rc = wire_recording_create(&recording.writer, context->arguments[0], &file, &err);
    if (rc == KVT_EXISTS) {
        const enum cli_exit status = cli_context_fail(context, &err);

        (void)fputs("  next: another name, or --force to begin it anew\n", context->err);
        return status;
    }
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    rc = listen(&listener, &err);
    return finish(&recording, &listener, rc, &err);
}
