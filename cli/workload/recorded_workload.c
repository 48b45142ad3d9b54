#include "cli/workload/recorded_workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "kvtier/event.h"
#include "kvtier/report.h"
#include "wire/dialect/dialect.h"
#include "wire/message/event_codec.h"
#include "wire/message/recording.h"
#include "wire/message/report_codec.h"
#include "wire/message/signature.h"
#include "wire/message/subject.h"

enum {
    SLOTS_FIRST = 4096,
    PUBLISHERS = 4096, /* whose nearest tier is remembered; of more, some share */
    NS_PER_MS = 1000000,
};

#define REPORTS WIRE_SUBJECT_REPORTS_ALL

/* A block by what it is called where it lives; 0 is none. */
struct link {
    uint64_t id;
    uint64_t parent;
    bool in_g4; /* it was stored there before */
};

/* Blocks that follow each other, until one comes that does not. */
struct chain {
    struct policy_workload *workload;
    uint64_t *ids; /* root first; CLI_RECORDED_WORKLOAD_CHAIN_MAX */
    uint32_t count;
    uint64_t publisher;
    uint64_t time_ms;
};

struct reading {
    struct link *links; /* by id, open addressing */
    size_t link_count;
    size_t slots;
    struct chain workers;
    struct chain gateways;
    uint8_t nearest[PUBLISHERS]; /* tier; 0: none yet */
    struct wire_raw_batch *raw;
    struct kvt_event *events;
    struct kvt_report report;
    uint64_t *parents; /* of a report's blocks */
    struct cli_recorded_workload_counts counts;
    uint64_t time_ms;
    enum kvt_err failed;
};

/* ---- lineage ---- */

static uint64_t
name_of(const char *namespace_, uint64_t hash)
{
    const uint64_t id = XXH3_64bits_withSeed(namespace_, strlen(namespace_), hash);

    return hash == 0 ? 0 : id != 0 ? id : 1;
}

static struct link *
slot_of(struct link *links, size_t slots, uint64_t id)
{
    size_t at = (size_t)id & (slots - 1);

    while (links[at].id != 0 && links[at].id != id)
        at = (at + 1) & (slots - 1);
    return &links[at];
}

static bool
grow(struct reading *reading)
{
    const size_t slots = reading->slots == 0 ? SLOTS_FIRST : 2 * reading->slots;
    struct link *links = kvt_calloc(slots, sizeof(*links));

    if (links == NULL)
        return false;
    for (size_t i = 0; i < reading->slots; i++)
        if (reading->links[i].id != 0)
            *slot_of(links, slots, reading->links[i].id) = reading->links[i];
    kvt_free(reading->links);
    reading->links = links;
    reading->slots = slots;
    return true;
}

/* The block, which comes behind `parent` from now on if that is known; NULL: no memory. */
static struct link *
meet(struct reading *reading, uint64_t id, uint64_t parent)
{
    struct link *link;

    if (2 * reading->link_count >= reading->slots && !grow(reading)) {
        reading->failed = KVT_NOMEM;
        return NULL;
    }
    link = slot_of(reading->links, reading->slots, id);
    reading->link_count += link->id == 0 ? 1 : 0;
    link->id = id;
    if (parent != 0 && parent != id)
        link->parent = parent;
    return link;
}

static uint64_t
parent_of(const struct reading *reading, uint64_t id)
{
    return slot_of(reading->links, reading->slots, id)->parent;
}

/* ---- requests ---- */

static void
end_request(struct reading *reading, struct chain *chain)
{
    enum kvt_err rc = KVT_OK;

    if (chain->count > 0)
        rc = policy_workload_add(chain->workload, chain->time_ms, chain->ids, chain->count);
    if (rc != KVT_OK)
        reading->failed = rc;
    chain->count = 0;
}

/* Begin a request with all that comes before a block and the block itself.  Lineage that runs in a
 * circle is as long as a chain may be. */
static void
begin_request(struct reading *reading, struct chain *chain, uint64_t id)
{
    uint32_t at = CLI_RECORDED_WORKLOAD_CHAIN_MAX;

    end_request(reading, chain);
    for (; id != 0 && at > 0; id = parent_of(reading, id))
        chain->ids[--at] = id;
    chain->count = CLI_RECORDED_WORKLOAD_CHAIN_MAX - at;
    memmove(chain->ids, chain->ids + at, chain->count * sizeof(*chain->ids));
    chain->time_ms = reading->time_ms;
}

static void
use(struct reading *reading, struct chain *chain, uint64_t publisher, uint64_t id, uint64_t parent)
{
    const bool follows = chain->count > 0 && chain->count < CLI_RECORDED_WORKLOAD_CHAIN_MAX &&
                         parent != 0 && chain->publisher == publisher &&
                         chain->ids[chain->count - 1] == parent;

    if (follows)
        chain->ids[chain->count++] = id;
    else
        begin_request(reading, chain, id);
    chain->publisher = publisher;
}

/* ---- events ---- */

/* Is this the nearest tier that the publisher spoke of?  What it moves from there is no use. */
static bool
is_nearest(struct reading *reading, uint64_t publisher, enum kvt_tier tier)
{
    uint8_t *nearest = &reading->nearest[publisher % PUBLISHERS];

    if (*nearest == 0 || tier < *nearest)
        *nearest = (uint8_t)tier;
    return tier == *nearest;
}

static void
store(struct reading *reading, uint64_t publisher, enum kvt_tier tier, uint64_t id, uint64_t parent)
{
    struct link *link = id == 0 ? NULL : meet(reading, id, parent);

    if (link == NULL)
        return;
    parent = link->parent;
    if (tier != KVT_TIER_G4) {
        if (is_nearest(reading, publisher, tier))
            use(reading, &reading->workers, publisher, id, parent);
    } else if (!link->in_g4) {
        link->in_g4 = true;
        use(reading, &reading->gateways, publisher, id, parent);
    }
}

static enum kvt_err
take_events(struct reading *reading, const struct wire_recording *record, struct kvt_error *err)
{
    struct kvt_event_batch batch = {.events = reading->events};
    uint64_t publisher;
    uint32_t skipped;
    enum kvt_err rc = wire_event_decode(record->bytes, record->size, &batch,
                                        KVT_EVENTS_PER_BATCH_MAX, &skipped, err);

    if (rc != KVT_OK)
        return rc;
    publisher = XXH3_64bits(batch.worker, strlen(batch.worker));
    for (uint32_t i = 0; i < batch.event_count; i++) {
        const struct kvt_event *event = &batch.events[i];

        if (event->type == KVT_EVENT_STORE)
            store(reading, publisher, batch.locations[event->location].tier,
                  name_of(batch.namespace_, event->sequence_hash),
                  name_of(batch.namespace_, event->parent));
    }
    return KVT_OK;
}

static void
take_store(struct reading *reading, const struct wire_raw_event *event)
{
    const struct wire_raw_batch *raw = reading->raw;
    const uint64_t who[] = {raw->publisher, event->worker, event->dp_rank,
                            XXH3_64bits(raw->worker, strlen(raw->worker))};
    const uint64_t publisher = XXH3_64bits(who, sizeof(who));
    uint64_t parent = event->has_parent ? name_of(raw->namespace_, event->parent) : 0;

    for (uint32_t i = 0; i < event->count; i++) {
        const uint64_t id = name_of(raw->namespace_, raw->blocks[event->first + i].hash);

        store(reading, publisher, event->tier, id, parent);
        parent = id;
    }
}

static enum kvt_err
take_raw(struct reading *reading, enum wire_dialect dialect, const struct wire_recording *record,
         struct kvt_error *err)
{
    enum kvt_err rc;

    wire_raw_batch_clear(reading->raw);
    rc = wire_dialect_decode(dialect, record->bytes, record->size, reading->raw, err);
    for (uint32_t i = 0; rc == KVT_OK && i < reading->raw->event_count; i++)
        if (reading->raw->events[i].kind == WIRE_RAW_STORE)
            take_store(reading, &reading->raw->events[i]);
    return rc;
}

/* ---- reports ---- */

static int
by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* A block before others of the report was read with them. */
static enum kvt_err
take_report(struct reading *reading, const struct wire_recording *record, struct kvt_error *err)
{
    struct kvt_report *report = &reading->report;
    struct wire_envelope envelope = {.payload = record->bytes, .size = record->size};
    enum kvt_err rc = KVT_OK;

    /* A recording is taken as it is: whoever signed a report, what it says happened. */
    if (wire_envelope_is(record->bytes, record->size))
        rc = wire_envelope_read(record->bytes, record->size, &envelope, err);
    if (rc == KVT_OK)
        rc = wire_report_decode(envelope.payload, envelope.size, report, err);

    if (rc != KVT_OK)
        return rc;
    for (uint32_t i = 0; i < report->access_count; i++) {
        const uint64_t id = name_of(report->namespace_, report->accesses[i].hash);
        const struct link *link = id == 0 ? NULL : meet(reading, id, 0);

        reading->parents[i] = link == NULL ? 0 : link->parent;
    }
    qsort(reading->parents, report->access_count, sizeof(*reading->parents), by_value);
    for (uint32_t i = 0; i < report->access_count && reading->failed == KVT_OK; i++) {
        const struct kvt_report_access *access = &report->accesses[i];
        const uint64_t id = name_of(report->namespace_, access->hash);

        reading->counts.reads += access->count;
        if (id == 0 || bsearch(&id, reading->parents, report->access_count,
                               sizeof(*reading->parents), by_value) != NULL)
            continue;
        for (uint32_t n = 0; n < access->count && n < CLI_RECORDED_WORKLOAD_REPEATS_MAX; n++)
            begin_request(reading, &reading->gateways, id);
        end_request(reading, &reading->gateways);
    }
    return KVT_OK;
}

/* ---- the file ---- */

static enum kvt_err
take(struct reading *reading, const struct wire_recording *record, struct kvt_error *err)
{
    const uint64_t time_ms = record->time_ns / NS_PER_MS;
    enum wire_dialect dialect;

    reading->time_ms = time_ms > reading->time_ms ? time_ms : reading->time_ms;
    if (!wire_dialect_parse(record->dialect, &dialect))
        return kvt_error_set(err, KVT_UNSUPPORTED, "dialect \"%s\"", record->dialect);
    if (dialect != WIRE_DIALECT_KVTIER)
        return take_raw(reading, dialect, record, err);
    if (strncmp(record->subject, REPORTS, strlen(REPORTS) - 1) == 0)
        return take_report(reading, record, err);
    return take_events(reading, record, err);
}

static enum kvt_err
open_chain(struct chain *chain)
{
    const enum kvt_err rc = policy_workload_new(&chain->workload);

    chain->ids = kvt_calloc(CLI_RECORDED_WORKLOAD_CHAIN_MAX, sizeof(*chain->ids));
    return rc == KVT_OK && chain->ids == NULL ? KVT_NOMEM : rc;
}

static void
close_reading(struct reading *reading)
{
    policy_workload_free(reading->workers.workload);
    policy_workload_free(reading->gateways.workload);
    kvt_free(reading->workers.ids);
    kvt_free(reading->gateways.ids);
    wire_raw_batch_free(reading->raw);
    kvt_free(reading->events);
    kvt_free(reading->report.accesses);
    kvt_free(reading->report.results);
    kvt_free(reading->report.pins.rows);
    kvt_free(reading->parents);
    kvt_free(reading->links);
    kvt_free(reading);
}

static struct reading *
open_reading(void)
{
    struct reading *reading = kvt_calloc(1, sizeof(*reading));

    if (reading == NULL)
        return NULL;
    reading->events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*reading->events));
    reading->report.accesses =
        kvt_calloc(KVT_REPORT_ACCESSES_MAX, sizeof(*reading->report.accesses));
    reading->report.results = kvt_calloc(KVT_REPORT_RESULTS_MAX, sizeof(*reading->report.results));
    reading->report.pins.rows = kvt_calloc(KVT_REPORT_PINS_MAX, sizeof(*reading->report.pins.rows));
    reading->parents = kvt_calloc(KVT_REPORT_ACCESSES_MAX, sizeof(*reading->parents));
    if (reading->events != NULL && reading->report.accesses != NULL &&
        reading->report.results != NULL && reading->report.pins.rows != NULL &&
        reading->parents != NULL && grow(reading) && wire_raw_batch_new(&reading->raw) == KVT_OK &&
        open_chain(&reading->workers) == KVT_OK && open_chain(&reading->gateways) == KVT_OK)
        return reading;
    close_reading(reading);
    return NULL;
}

static enum kvt_err
take_all(struct reading *reading, struct wire_recording_reader *reader, struct kvt_error *err)
{
    struct wire_recording record;
    struct kvt_error bad;
    enum kvt_err rc;

    while (reading->failed == KVT_OK) {
        rc = wire_recording_next(reader, &record, err);
        if (rc == KVT_NOTFOUND)
            break;
        if (rc != KVT_OK && rc != KVT_CORRUPT)
            return rc;
        reading->counts.messages++;
        if (rc == KVT_CORRUPT || take(reading, &record, &bad) != KVT_OK)
            reading->counts.bad++;
    }
    end_request(reading, &reading->workers);
    end_request(reading, &reading->gateways);
    if (reading->failed != KVT_OK)
        return kvt_error_set(err, reading->failed, "requests: %s", kvt_err_text(reading->failed));
    reading->counts.bad += wire_recording_torn(reader) > 0 ? 1 : 0;
    return KVT_OK;
}

bool
cli_recorded_workload_is(const char *path)
{
    char magic[sizeof(WIRE_RECORDING_MAGIC) - 1];
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "re");
    bool is;

    if (file == NULL)
        return false;
    is = fread(magic, 1, sizeof(magic), file) == sizeof(magic) &&
         memcmp(magic, WIRE_RECORDING_MAGIC, sizeof(magic)) == 0;
    (void)fclose(file);
    return is;
}

enum kvt_err
cli_recorded_workload_read(struct policy_workload **out, const char *path,
                           struct cli_recorded_workload_counts *counts, struct kvt_error *err)
{
    struct wire_recording_reader *reader = NULL;
    struct reading *reading = open_reading();
    struct chain *chain;
    enum kvt_err rc;

    *out = NULL;
    *counts = (struct cli_recorded_workload_counts){0};
    if (reading == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    rc = wire_recording_open(&reader, path, err);
    if (rc == KVT_OK)
        rc = take_all(reading, reader, err);
    wire_recording_free(reader);
    if (rc == KVT_OK) {
        reading->counts.of_gateways = reading->counts.reads > 0;
        chain = reading->counts.of_gateways ? &reading->gateways : &reading->workers;
        *out = chain->workload;
        *counts = reading->counts;
        chain->workload = NULL;
    }
    close_reading(reading);
    return rc;
}
