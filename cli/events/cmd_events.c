#include <stdio.h>
#include <unistd.h>

#include "cli/events/event_commands.h"
#include "cli/events/event_printer.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/remote/cli_bus.h"
#include "cli/remote/listener.h"

static bool
show(void *arg, const struct wire_recording *message)
{
    return cli_event_printer_show(arg, message);
}

static bool
flush(void *arg)
{
    const struct cli_event_printer *printer = arg;

    return fflush(printer->context->out) == 0;
}

static enum kvt_err
tail_bus(struct cli_listener *listener, struct wire_bus *bus, struct kvt_error *err)
{
    const struct cli_context *context = listener->context;
    const struct kvt_config *options = context->options;
    const bool named = kvt_config_is_set(options, CLI_EVENTS_STREAM);
    const char *subject = kvt_config_string(options, CLI_EVENTS_SUBJECT);

    if (named || kvt_config_bool(options, CLI_EVENTS_FROM_START))
        return cli_listener_stream(listener, bus,
                                   named ? kvt_config_string(options, CLI_EVENTS_STREAM)
                                         : WIRE_STREAM_EVENTS,
                                   subject, 1, kvt_config_bool(options, CLI_EVENTS_NO_FOLLOW), err);
    if (cli_context_interactive(context))
        (void)fprintf(context->err, "waiting for events%s\n",
                      listener->dialect == WIRE_DIALECT_KVTIER
                          ? "; --from-start shows those of the last day"
                          : "");
    return cli_listener_core(
        listener, bus, subject[0] != '\0' ? subject : cli_listener_subjects(listener->dialect),
        err);
}

static enum kvt_err
tail(struct cli_listener *listener, bool *asked, struct kvt_error *err)
{
    const struct kvt_config *options = listener->context->options;
    struct wire_bus *bus = NULL;
    enum kvt_err rc;

    if (kvt_config_is_set(options, CLI_EVENTS_ZMQ))
        return cli_listener_zmq(listener, kvt_config_string(options, CLI_EVENTS_ZMQ),
                                kvt_config_bool(options, CLI_EVENTS_ZMQ_BIND), err);
    *asked = !kvt_config_is_set(options, CLI_EVENTS_FROM_RECORDING);
    if (!*asked)
        return cli_listener_recording(listener,
                                      kvt_config_string(options, CLI_EVENTS_FROM_RECORDING),
                                      kvt_config_bool(options, CLI_EVENTS_SKIP_BAD), err);
    rc = cli_bus_open(listener->context, &bus, err);
    if (rc == KVT_OK)
        rc = tail_bus(listener, bus, err);
    wire_bus_close(bus);
    return rc;
}

/* What cannot be meant together; NULL: all is well. */
static const char *
conflict(const struct kvt_config *options, enum wire_dialect dialect)
{
    const bool stream = kvt_config_is_set(options, CLI_EVENTS_STREAM);
    const bool start = kvt_config_bool(options, CLI_EVENTS_FROM_START);

    if (kvt_config_is_set(options, CLI_EVENTS_ZMQ))
        return stream || start || kvt_config_is_set(options, CLI_EVENTS_SUBJECT) ||
                       kvt_config_is_set(options, CLI_EVENTS_FROM_RECORDING)
                   ? "--zmq listens to ZMQ alone: no --stream, --subject, --from-start or "
                     "--from-recording"
                   : NULL;
    if (kvt_config_is_set(options, CLI_EVENTS_FROM_RECORDING))
        return stream || start || kvt_config_is_set(options, CLI_EVENTS_SUBJECT)
                   ? "--from-recording reads a file: no --stream, --subject or --from-start"
                   : NULL;
    if (kvt_config_bool(options, CLI_EVENTS_NO_FOLLOW) && !start && !stream)
        return "--no-follow wants --from-start";
    if (start && !stream && dialect != WIRE_DIALECT_KVTIER)
        return "--from-start of another dialect wants --stream NAME";
    if (!stream && cli_listener_subjects(dialect) == NULL &&
        !kvt_config_is_set(options, CLI_EVENTS_SUBJECT))
        return "this dialect has no usual subject: --subject SUBJECT, --stream NAME or --zmq "
               "ENDPOINT";
    return NULL;
}

enum cli_exit
cli_events_tail(const struct cli_context *context)
{
    struct cli_listener listener = {
        .context = context,
        .dialect = (enum wire_dialect)kvt_config_enum(context->options, CLI_EVENTS_DIALECT),
        .each = show,
        .pause = flush};
    const char *wrong = conflict(context->options, listener.dialect);
    struct cli_event_printer printer = {0};
    struct kvt_error err = {0};
    bool asked = false;
    bool lost;
    enum kvt_err rc;

    if (wrong != NULL)
        return cli_context_usage(context, "%s", wrong);
    cli_interrupt_begin();
    rc = cli_event_printer_init(&printer, context);
    printer.limit = kvt_config_u64(context->options, CLI_EVENTS_LIMIT);
    printer.heartbeats = kvt_config_bool(context->options, CLI_EVENTS_HEARTBEATS);
    listener.arg = &printer;
    if (rc == KVT_OK)
        rc = tail(&listener, &asked, &err);
    else
        (void)kvt_error_set(&err, rc, "out of memory");
    lost = printer.malformed > 0;
    cli_event_printer_release(&printer);
    lost = cli_listener_complain(&listener) || lost;
    if (rc == KVT_OK)
        return lost ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
    return asked ? cli_bus_fail(context, &err) : cli_context_fail(context, &err);
}
