#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/json.h"
#include "cli/events/event_commands.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/remote/cli_bus.h"
#include "kvtier/event.h"
#include "wire/message/event_codec.h"
#include "wire/message/subject.h"

enum { LINE_MAX_BYTES = 64 << 10, READ = 16 << 10, POLL_MS = 100, CAUSE_MAX = 160 };

struct inject {
    const struct cli_context *context;
    struct wire_bus *bus; /* NULL: dry run */
    char subject[WIRE_SUBJECT_MAX];
    bool core;
    uint64_t timeout_ms;
    uint32_t batch_max;
    struct kvt_event_batch batch; /* its first_seq is that of its first event */
    struct kvt_buffer line;       /* what has come of it */
    struct kvt_buffer bytes;
    uint64_t lines;
    uint64_t events;
    uint64_t messages;
    bool ended; /* a Bye was given: nothing may follow */
};

/* ---- messages ---- */

static void
print_hex(const struct inject *inject)
{
    FILE *out = inject->context->out;
    const bool json = inject->context->json;

    if (json)
        (void)fprintf(out,
                      "{\"schema_version\":1,\"subject\":\"%s\",\"first_seq\":%" PRIu64
                      ",\"events\":%" PRIu32 ",\"hex\":\"",
                      inject->subject, inject->batch.first_seq, inject->batch.event_count);
    else
        (void)fprintf(out, "%s ", inject->subject);
    for (size_t i = 0; i < inject->bytes.size; i++)
        (void)fprintf(out, "%02x", inject->bytes.data[i]);
    (void)fputs(json ? "\"}\n" : "\n", out);
}

static enum kvt_err
publish(struct inject *inject, struct kvt_error *err)
{
    char id[KVT_NAME_MAX + 48];
    enum kvt_err rc;

    (void)snprintf(id, sizeof(id), "%s:%" PRIu64 ":%" PRIu64, inject->batch.worker,
                   inject->batch.incarnation, inject->batch.first_seq);
    rc = inject->core ? wire_bus_publish(inject->bus, inject->subject, inject->bytes.data,
                                         inject->bytes.size)
                      : wire_bus_publish_acked(inject->bus, inject->subject, id, inject->bytes.data,
                                               inject->bytes.size, inject->timeout_ms, NULL);
    if (rc == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, rc, "%.100s: %s%s", inject->subject, kvt_err_text(rc),
                         rc == KVT_UNAVAILABLE && !inject->core
                             ? ": no server, or no stream " WIRE_STREAM_EVENTS " (--core goes "
                               "without)"
                             : "");
}

static enum kvt_err
flush(struct inject *inject, struct kvt_error *err)
{
    struct kvt_event_batch *batch = &inject->batch;
    enum kvt_err rc;

    if (batch->event_count == 0)
        return KVT_OK;
    batch->time_ms = kvt_clock_unix_ms();
    kvt_buffer_clear(&inject->bytes);
    rc = wire_event_encode(batch, &inject->bytes);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "a batch of %" PRIu32 " events: %s", batch->event_count,
                             kvt_err_text(rc));
    if (inject->bus == NULL)
        print_hex(inject);
    else
        rc = publish(inject, err);
    if (rc != KVT_OK)
        return rc;
    inject->messages++;
    inject->events += batch->event_count;
    batch->first_seq += batch->event_count;
    batch->event_count = 0;
    batch->location_count = 0;
    return KVT_OK;
}

/* ---- one line ---- */

static bool
member_hash(struct json_object *line, const char *key, uint64_t *value)
{
    *value = 0;
    return kvt_json_member(line, key) == NULL || kvt_json_hash(line, key, value);
}

static bool
member_u64(struct json_object *line, const char *key, uint64_t fallback, uint64_t max,
           uint64_t *value)
{
    *value = fallback;
    return kvt_json_member(line, key) == NULL || (kvt_json_u64(line, key, value) && *value <= max);
}

static enum kvt_err
wrong(struct inject *inject, const char *what, struct kvt_error *err)
{
    return kvt_error_set(err, KVT_INVALID, "line %" PRIu64 ": %s", inject->lines, what);
}

static enum kvt_err
read_type(struct inject *inject, struct json_object *line, struct kvt_event *event,
          struct kvt_error *err)
{
    static const char *const names[] = {"store", "remove", "clear", "bye"};
    const char *type = kvt_json_string(line, "type");

    for (unsigned i = 0; type != NULL && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(type, names[i]) == 0) {
            event->type = (uint8_t)(KVT_EVENT_STORE + i);
            return KVT_OK;
        }
    return wrong(inject, "type: want store, remove, clear or bye", err);
}

static enum kvt_err
read_location(struct inject *inject, struct json_object *line, struct kvt_location *location,
              struct kvt_error *err)
{
    const char *tier = kvt_json_string(line, "tier");
    const char *name = kvt_json_string(line, "location");
    uint64_t dp_rank;

    *location = (struct kvt_location){.tier = KVT_TIER_G1};
    if (kvt_json_member(line, "tier") != NULL &&
        (tier == NULL || !kvt_tier_parse(tier, &location->tier)))
        return wrong(inject, "tier: want G1, G2, G3 or G4", err);
    if (!member_u64(line, "dp_rank", 0, UINT32_MAX, &dp_rank))
        return wrong(inject, "dp_rank: want a number", err);
    location->dp_rank = (uint32_t)dp_rank;
    if (kvt_json_member(line, "location") != NULL &&
        (name == NULL ||
         snprintf(location->name, sizeof(location->name), "%s", name) >= KVT_NAME_MAX))
        return wrong(inject, "location: want a name below 64 bytes", err);
    if (location->tier == KVT_TIER_G4 && location->name[0] == '\0')
        return wrong(inject, "G4 wants a location: hot@GATEWAY, warm@GATEWAY or cold@BUCKET", err);
    return KVT_OK;
}

static enum kvt_err
read_event(struct inject *inject, struct json_object *line, struct kvt_event *event,
           struct kvt_error *err)
{
    uint64_t position;
    uint64_t ranks;
    enum kvt_err rc;

    *event = (struct kvt_event){0};
    rc = read_type(inject, line, event, err);
    if (rc != KVT_OK)
        return rc;
    if (!member_hash(line, "hash", &event->sequence_hash) ||
        !member_hash(line, "parent", &event->parent) ||
        !member_hash(line, "tokens_hash", &event->tokens_hash) ||
        !member_hash(line, "prefix_hash", &event->prefix_hash))
        return wrong(inject, "hash, parent, tokens_hash, prefix_hash: want sixteen hex digits",
                     err);
    if (!member_u64(line, "position", 0, KVT_POSITION_MAX, &position) ||
        !member_u64(line, "ranks", 1, UINT32_MAX, &ranks) ||
        !member_u64(line, "size", 0, UINT64_MAX, &event->block_size))
        return wrong(inject, "position, size, ranks: want numbers within their limits", err);
    event->position = (uint32_t)position;
    event->ranks = (uint32_t)ranks;
    if (event->type == KVT_EVENT_STORE || event->type == KVT_EVENT_REMOVE) {
        if (kvt_json_member(line, "hash") == NULL)
            return wrong(inject, "a store or remove wants a hash", err);
        if (event->prefix_hash == 0)
            event->prefix_hash = event->sequence_hash;
    }
    return KVT_OK;
}

/* The location's number in the batch, which is sent first when its table is full. */
static enum kvt_err
locate(struct inject *inject, const struct kvt_location *location, uint16_t *number,
       struct kvt_error *err)
{
    struct kvt_event_batch *batch = &inject->batch;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < batch->location_count; i++)
        if (batch->locations[i].tier == location->tier &&
            batch->locations[i].dp_rank == location->dp_rank &&
            strcmp(batch->locations[i].name, location->name) == 0) {
            *number = (uint16_t)i;
            return KVT_OK;
        }
    if (batch->location_count == KVT_LOCATIONS_MAX)
        rc = flush(inject, err);
    if (rc != KVT_OK)
        return rc;
    *number = (uint16_t)batch->location_count;
    batch->locations[batch->location_count++] = *location;
    return KVT_OK;
}

static enum kvt_err
add_event(struct inject *inject, struct kvt_event *event, const struct kvt_location *location,
          struct kvt_error *err)
{
    struct kvt_event_batch *batch = &inject->batch;
    enum kvt_err rc = locate(inject, location, &event->location, err);

    if (rc != KVT_OK)
        return rc;
    batch->events[batch->event_count++] = *event;
    inject->ended = event->type == KVT_EVENT_BYE;
    return batch->event_count < inject->batch_max ? KVT_OK : flush(inject, err);
}

static enum kvt_err
take_line(struct inject *inject, struct kvt_error *err)
{
    const char *text = kvt_buffer_text(&inject->line);
    struct kvt_location location;
    struct json_object *line;
    struct kvt_event event;
    char name[32];
    enum kvt_err rc;

    inject->lines++;
    if (text[strspn(text, " \t\r")] == '\0')
        return KVT_OK;
    if (inject->ended)
        return wrong(inject, "nothing may follow a bye", err);
    (void)snprintf(name, sizeof(name), "line %" PRIu64, inject->lines);
    rc = kvt_json_parse(&line, text, inject->line.size, name, err);
    if (rc != KVT_OK)
        return rc;
    rc = read_event(inject, line, &event, err);
    if (rc == KVT_OK)
        rc = read_location(inject, line, &location, err);
    (void)json_object_put(line);
    return rc == KVT_OK ? add_event(inject, &event, &location, err) : rc;
}

/* ---- input ---- */

static enum kvt_err
take_bytes(struct inject *inject, const char *bytes, size_t size, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    while (size > 0 && rc == KVT_OK) {
        const char *end = memchr(bytes, '\n', size);
        const size_t part = end == NULL ? size : (size_t)(end - bytes);

        kvt_buffer_append(&inject->line, bytes, part);
        if (!kvt_buffer_ok(&inject->line))
            return kvt_error_set(err, KVT_RANGE, "line %" PRIu64 ": more than %d bytes",
                                 inject->lines + 1, LINE_MAX_BYTES);
        bytes += part + (end != NULL ? 1 : 0);
        size -= part + (end != NULL ? 1 : 0);
        if (end == NULL)
            break;
        rc = take_line(inject, err);
        kvt_buffer_clear(&inject->line);
    }
    return rc;
}

/* Lines as they come; when none does for a moment, what there is is sent. */
static enum kvt_err
read_input(struct inject *inject, int fd, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && !cli_interrupt_wait(0)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        char bytes[READ];
        ssize_t count;

        if (poll(&ready, 1, POLL_MS) == 0) {
            rc = flush(inject, err);
            continue;
        }
        count = read(fd, bytes, sizeof(bytes));
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (count < 0)
            return kvt_error_sys(err, errno, "read the events");
        if (count == 0)
            break;
        rc = take_bytes(inject, bytes, (size_t)count, err);
    }
    if (rc == KVT_OK && inject->line.size > 0)
        rc = take_line(inject, err);
    return rc;
}

static enum kvt_err
run(struct inject *inject, int fd, struct kvt_error *err)
{
    enum kvt_err rc = read_input(inject, fd, err);

    if (rc == KVT_OK && kvt_config_bool(inject->context->options, CLI_INJECT_BYE) &&
        !inject->ended) {
        const struct kvt_location nowhere = {.tier = KVT_TIER_G1};
        struct kvt_event bye = {.type = KVT_EVENT_BYE, .ranks = 1};

        rc = add_event(inject, &bye, &nowhere, err);
    }
    return rc == KVT_OK ? flush(inject, err) : rc;
}

/* ---- the command ---- */

static void
print(const struct inject *inject)
{
    FILE *out = inject->bus == NULL ? inject->context->err : inject->context->out;

    if (inject->context->json && inject->bus != NULL)
        (void)fprintf(out,
                      "{\"schema_version\":1,\"events\":%" PRIu64 ",\"messages\":%" PRIu64
                      ",\"incarnation\":%" PRIu64 ",\"next_seq\":%" PRIu64 "}\n",
                      inject->events, inject->messages, inject->batch.incarnation,
                      inject->batch.first_seq);
    else
        (void)fprintf(out,
                      "%" PRIu64 " events in %" PRIu64 " messages as %s, incarnation %" PRIu64
                      "; next is %" PRIu64 "%s\n",
                      inject->events, inject->messages, inject->batch.worker,
                      inject->batch.incarnation, inject->batch.first_seq,
                      inject->bus == NULL ? " (dry run)" : "");
}

static enum kvt_err
set_up(struct inject *inject, struct kvt_error *err)
{
    const struct kvt_config *options = inject->context->options;
    const char *worker = kvt_config_string(options, CLI_INJECT_WORKER);
    const char *namespace_ = kvt_config_string(options, CLI_INJECT_NAMESPACE);
    struct kvt_event_batch *batch = &inject->batch;

    kvt_buffer_init(&inject->line, LINE_MAX_BYTES);
    kvt_buffer_init(&inject->bytes, WIRE_EVENT_BATCH_MAX);
    inject->core = kvt_config_bool(options, CLI_INJECT_CORE);
    inject->timeout_ms = kvt_config_u64(inject->context->settings, CLI_SETTING_TIMEOUT);
    inject->batch_max = (uint32_t)kvt_config_u64(options, CLI_INJECT_BATCH);
    batch->events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*batch->events));
    if (batch->events == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    if (worker[0] == '\0' || strlen(worker) >= KVT_NAME_MAX)
        return kvt_error_set(err, KVT_INVALID, "--worker: want 1 to %d bytes", KVT_NAME_MAX - 1);
    if (strlen(namespace_) >= KVT_NAMESPACE_MAX)
        return kvt_error_set(err, KVT_INVALID, "--namespace: at most %d bytes",
                             KVT_NAMESPACE_MAX - 1);
    (void)snprintf(batch->worker, sizeof(batch->worker), "%s", worker);
    (void)snprintf(batch->namespace_, sizeof(batch->namespace_), "%s", namespace_);
    batch->incarnation = kvt_config_u64(options, CLI_INJECT_INCARNATION);
    if (batch->incarnation == 0)
        batch->incarnation = kvt_clock_unix_ms();
    batch->first_seq = kvt_config_u64(options, CLI_INJECT_FIRST_SEQ);
    if (wire_subject_events(inject->subject, sizeof(inject->subject), namespace_, 0, worker) !=
        KVT_OK)
        return kvt_error_set(err, KVT_RANGE, "names too long for a subject");
    return KVT_OK;
}

enum cli_exit
cli_inject_run(const struct cli_context *context)
{
    const char *path = kvt_config_string(context->options, CLI_INJECT_FILE);
    const bool dry = kvt_config_bool(context->options, CLI_INJECT_DRY_RUN);
    const bool standard = strcmp(path, "-") == 0;
    struct inject inject = {.context = context};
    struct kvt_error err = {0};
    bool asked = false;
    int fd = -1;
    enum kvt_err rc;

    cli_interrupt_begin();
    rc = set_up(&inject, &err);
    if (rc == KVT_OK) {
        fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            rc = kvt_error_sys(&err, errno, "open %.*s", CAUSE_MAX, path);
    }
    if (rc == KVT_OK && !dry) {
        asked = true;
        rc = cli_bus_open(context, &inject.bus, &err);
    }
    if (rc == KVT_OK) {
        rc = run(&inject, fd, &err);
        print(&inject);
    }
    wire_bus_close(inject.bus);
    if (fd > STDERR_FILENO)
        (void)close(fd);
    kvt_free(inject.batch.events);
    kvt_buffer_release(&inject.line);
    kvt_buffer_release(&inject.bytes);
    if (rc == KVT_OK)
        return CLI_EXIT_DONE;
    return asked ? cli_bus_fail(context, &err) : cli_context_fail(context, &err);
}
