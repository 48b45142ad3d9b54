/*
 * cli/events/event_printer.h -- messages of event planes, one line an event.
 *
 * Why: what passes now, what a stream still holds and what was recorded look the same, whatever the
 * dialect; and what cannot be read, or is not for us, is said with its reason.
 *
 * Ownership: init/release; the context is borrowed.
 * Threads:   one owner.
 * Limits:    CLI_EVENT_PRINTER_LINE_MAX bytes a line.
 */
#ifndef CLI_EVENTS_EVENT_PRINTER_H
#define CLI_EVENTS_EVENT_PRINTER_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "kvtier/event.h"
#include "wire/dialect/raw_batch.h"
#include "wire/message/recording.h"

#define CLI_EVENT_PRINTER_LINE_MAX (16u << 20)

struct cli_event_printer {
    const struct cli_context *context;
    struct kvt_event_batch batch;
    struct wire_raw_batch *raw;
    uint64_t limit; /* events; 0 = none */
    uint64_t shown;
    uint64_t malformed; /* messages */
    bool heartbeats;
};

KVT_NODISCARD enum kvt_err cli_event_printer_init(struct cli_event_printer *printer,
                                                  const struct cli_context *context);
void cli_event_printer_release(struct cli_event_printer *printer);

/** Print the events of a message.  False: `limit` is reached, or nobody reads any more. */
bool cli_event_printer_show(struct cli_event_printer *printer,
                            const struct wire_recording *message);

#endif /* CLI_EVENTS_EVENT_PRINTER_H */
