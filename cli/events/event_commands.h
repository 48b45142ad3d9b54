/*
 * cli/events/event_commands.h -- run functions of `kvtier events`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 * Limits:    `events tail` holds EVENTS_QUEUED messages; it drops more and counts them on the error
 *            stream.
 */
#ifndef CLI_EVENTS_EVENT_COMMANDS_H
#define CLI_EVENTS_EVENT_COMMANDS_H

#include "cli/frame/context.h"

/** Prints events as they pass.  NATS threads copy into a bounded queue; the main thread decodes and
 *  prints. */
enum cli_exit cli_events_tail(const struct cli_context *context);

enum cli_exit cli_record_run(const struct cli_context *context);
enum cli_exit cli_replay_run(const struct cli_context *context);

/** Publishes events made by hand, for a test, a repair or an experiment. */
enum cli_exit cli_inject_run(const struct cli_context *context);

#endif /* CLI_EVENTS_EVENT_COMMANDS_H */
