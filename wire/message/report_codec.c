#include "wire/message/report_codec.h"

#include <assert.h>
#include <string.h>

#include "base/text/msgpack.h"
#include "wire/message/signature.h"
#include "wire/message/subject.h"

enum {
    HEADER_MEMBERS = 12,
    HEADER_MEMBERS_READS = 11, /* a later one's, without pins */
    HEADER_MEMBERS_MIN = 10,   /* the first version's, without reads */
    TIER_MEMBERS = 4,
    ACCESS_MEMBERS = 4,
    RESULT_MEMBERS = 8,
    PINS_MEMBERS = 4,
    PIN_MEMBERS = 2,
};

static void
put_result(struct kvt_msgpack_writer *writer, const struct kvt_order_result *result)
{
    kvt_msgpack_put_array(writer, RESULT_MEMBERS);
    kvt_msgpack_put_uint(writer, result->epoch);
    kvt_msgpack_put_uint(writer, result->id);
    kvt_msgpack_put_uint(writer, (uint64_t)result->verb);
    kvt_msgpack_put_uint(writer, (uint64_t)result->code);
    kvt_msgpack_put_uint(writer, result->done);
    kvt_msgpack_put_uint(writer, result->failed);
    kvt_msgpack_put_uint(writer, result->bytes_moved);
    kvt_msgpack_put_str(writer, result->text);
}

static void
put_pins(struct kvt_msgpack_writer *writer, const struct kvt_report_pins *pins)
{
    kvt_msgpack_put_array(writer, PINS_MEMBERS);
    kvt_msgpack_put_uint(writer, pins->round);
    kvt_msgpack_put_uint(writer, pins->told);
    kvt_msgpack_put_bool(writer, pins->last);
    kvt_msgpack_put_array(writer, pins->count);
    for (uint32_t i = 0; i < pins->count; i++) {
        kvt_msgpack_put_array(writer, PIN_MEMBERS);
        kvt_msgpack_put_uint(writer, pins->rows[i].hash);
        kvt_msgpack_put_uint(writer, pins->rows[i].until_ms);
    }
}

enum kvt_err
wire_report_encode(const struct kvt_report *report, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    assert(report != NULL && out != NULL);
    if (report->tier_count > KVT_REPORT_TIERS_MAX ||
        report->access_count > KVT_REPORT_ACCESSES_MAX ||
        report->result_count > KVT_REPORT_RESULTS_MAX || report->pins.count > KVT_REPORT_PINS_MAX)
        return KVT_RANGE;

    kvt_msgpack_put_message(&writer, out, WIRE_REPORT_MAX, HEADER_MEMBERS);
    kvt_msgpack_put_str(&writer, report->gateway);
    kvt_msgpack_put_str(&writer, report->namespace_);
    kvt_msgpack_put_uint(&writer, report->seq);
    kvt_msgpack_put_uint(&writer, report->incarnation);
    kvt_msgpack_put_uint(&writer, report->time_ms);
    kvt_msgpack_put_bool(&writer, report->healthy);
    kvt_msgpack_put_array(&writer, report->tier_count);
    for (uint32_t i = 0; i < report->tier_count; i++) {
        kvt_msgpack_put_array(&writer, TIER_MEMBERS);
        kvt_msgpack_put_str(&writer, report->tiers[i].name);
        kvt_msgpack_put_uint(&writer, report->tiers[i].used_bytes);
        kvt_msgpack_put_uint(&writer, report->tiers[i].capacity_bytes);
        kvt_msgpack_put_uint(&writer, report->tiers[i].blocks);
    }
    kvt_msgpack_put_array(&writer, report->access_count);
    for (uint32_t i = 0; i < report->access_count; i++) {
        kvt_msgpack_put_array(&writer, ACCESS_MEMBERS);
        kvt_msgpack_put_uint(&writer, report->accesses[i].hash);
        kvt_msgpack_put_uint(&writer, report->accesses[i].tier_index);
        kvt_msgpack_put_uint(&writer, report->accesses[i].count);
        kvt_msgpack_put_uint(&writer, report->accesses[i].bytes);
    }
    kvt_msgpack_put_array(&writer, report->result_count);
    for (uint32_t i = 0; i < report->result_count; i++)
        put_result(&writer, &report->results[i]);
    kvt_msgpack_put_array(&writer, KVT_READ_RESULTS);
    for (uint32_t i = 0; i < KVT_READ_RESULTS; i++)
        kvt_msgpack_put_uint(&writer, report->reads[i]);
    put_pins(&writer, &report->pins);
    return kvt_msgpack_done(&writer);
}

static void
read_tiers(struct kvt_msgpack_reader *reader, struct kvt_report *report)
{
    const uint32_t count =
        kvt_msgpack_list(reader, KVT_REPORT_TIERS_MAX, "an array of at most 8 tiers");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        struct kvt_report_tier *tier = &report->tiers[i];
        const uint32_t members =
            kvt_msgpack_array(reader, TIER_MEMBERS, "a tier: [name, used, capacity, blocks]");

        kvt_msgpack_str(reader, tier->name, sizeof(tier->name), "a tier name of at most 63 bytes");
        tier->used_bytes = kvt_msgpack_u64(reader, "used bytes");
        tier->capacity_bytes = kvt_msgpack_u64(reader, "capacity bytes");
        tier->blocks = kvt_msgpack_u64(reader, "a number of blocks");
        kvt_msgpack_rest(reader, members, TIER_MEMBERS);
    }
    report->tier_count = count;
}

static void
read_accesses(struct kvt_msgpack_reader *reader, struct kvt_report *report)
{
    const uint32_t count =
        kvt_msgpack_list(reader, KVT_REPORT_ACCESSES_MAX, "an array of at most 4096 accesses");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        struct kvt_report_access *access = &report->accesses[i];
        const uint32_t members =
            kvt_msgpack_array(reader, ACCESS_MEMBERS, "an access: [hash, tier, count, bytes]");
        size_t offset;
        uint64_t tier;

        access->hash = kvt_msgpack_u64(reader, "a hash");
        offset = reader->at;
        tier = kvt_msgpack_u64(reader, "a tier index");
        if (tier >= report->tier_count)
            kvt_msgpack_fail(reader, offset, KVT_INVALID, "a tier index inside the table");
        access->tier_index = (uint8_t)tier;
        access->count = kvt_msgpack_u32(reader, "a count");
        access->bytes = kvt_msgpack_u64(reader, "bytes");
        kvt_msgpack_rest(reader, members, ACCESS_MEMBERS);
    }
    report->access_count = count;
}

static void
read_results(struct kvt_msgpack_reader *reader, struct kvt_report *report)
{
    const uint32_t count =
        kvt_msgpack_list(reader, KVT_REPORT_RESULTS_MAX, "an array of at most 256 results");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        struct kvt_order_result *result = &report->results[i];
        const uint32_t members =
            kvt_msgpack_array(reader, RESULT_MEMBERS,
                              "a result: [epoch, id, verb, code, done, failed, bytes_moved, text]");
        uint64_t verb;
        uint64_t code;

        result->epoch = kvt_msgpack_u64(reader, "an epoch");
        result->id = kvt_msgpack_u64(reader, "an order id");
        /* Verbs and codes of a later version keep a meaning: something we did not ask for. */
        verb = kvt_msgpack_u64(reader, "a verb");
        result->verb = verb <= KVT_ORDER_VERB_LAST ? (enum kvt_order_verb)verb : KVT_ORDER_NONE;
        code = kvt_msgpack_u64(reader, "an error code");
        result->code = code < KVT_ERR_COUNT ? (enum kvt_err)code : KVT_UNSUPPORTED;
        result->done = kvt_msgpack_u32(reader, "a number of items done");
        result->failed = kvt_msgpack_u32(reader, "a number of items failed");
        result->bytes_moved = kvt_msgpack_u64(reader, "bytes moved");
        kvt_msgpack_str(reader, result->text, sizeof(result->text), "a text of at most 127 bytes");
        kvt_msgpack_rest(reader, members, RESULT_MEMBERS);
    }
    report->result_count = count;
}

static void
read_reads(struct kvt_msgpack_reader *reader, struct kvt_report *report)
{
    const uint32_t members =
        kvt_msgpack_array(reader, KVT_READ_RESULTS, "reads: [hot, cold, miss]");

    for (uint32_t i = 0; i < KVT_READ_RESULTS; i++)
        report->reads[i] = kvt_msgpack_u64(reader, "a number of reads");
    kvt_msgpack_rest(reader, members, KVT_READ_RESULTS);
}

static void
read_pins(struct kvt_msgpack_reader *reader, struct kvt_report_pins *pins)
{
    const uint32_t members =
        kvt_msgpack_array(reader, PINS_MEMBERS, "pins: [round, told, last, rows]");
    uint32_t count;

    pins->round = kvt_msgpack_u64(reader, "a round");
    pins->told = kvt_msgpack_u64(reader, "a number of pins");
    pins->last = kvt_msgpack_bool(reader, "last: true or false");
    count = kvt_msgpack_list(reader, KVT_REPORT_PINS_MAX, "an array of at most 4096 pins");
    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        const uint32_t row = kvt_msgpack_array(reader, PIN_MEMBERS, "a pin: [hash, until_ms]");

        pins->rows[i].hash = kvt_msgpack_u64(reader, "a hash");
        pins->rows[i].until_ms = kvt_msgpack_u64(reader, "a time in ms");
        kvt_msgpack_rest(reader, row, PIN_MEMBERS);
    }
    pins->count = count;
    kvt_msgpack_rest(reader, members, PINS_MEMBERS);
}

/* How many of the header's members are known. */
static uint32_t
known(uint32_t members)
{
    return members < HEADER_MEMBERS ? members : HEADER_MEMBERS;
}

enum kvt_err
wire_report_decode(const void *bytes, size_t size, struct kvt_report *report, struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    struct kvt_report_access *accesses;
    struct kvt_order_result *results;
    struct kvt_report_pin *pins;
    uint32_t members;
    enum kvt_err rc;

    assert(report != NULL && report->accesses != NULL && report->results != NULL &&
           report->pins.rows != NULL);
    pins = report->pins.rows;
    accesses = report->accesses;
    results = report->results;
    *report = (struct kvt_report){.accesses = accesses, .results = results, .pins = {.rows = pins}};
    if (size > WIRE_REPORT_MAX)
        return kvt_msgpack_refuse("report", size, WIRE_REPORT_MAX, err);

    members = kvt_msgpack_message(&reader, bytes, size, HEADER_MEMBERS_MIN,
                                  "a report: an array of 10 members or more");
    kvt_msgpack_str(&reader, report->gateway, sizeof(report->gateway),
                    "a gateway name of at most 63 bytes");
    kvt_msgpack_str(&reader, report->namespace_, sizeof(report->namespace_),
                    "a namespace of at most 127 bytes");
    report->seq = kvt_msgpack_u64(&reader, "a seq");
    report->incarnation = kvt_msgpack_u64(&reader, "an incarnation");
    report->time_ms = kvt_msgpack_u64(&reader, "a time in ms");
    report->healthy = kvt_msgpack_bool(&reader, "healthy: true or false");
    read_tiers(&reader, report);
    read_accesses(&reader, report);
    read_results(&reader, report);
    if (members >= HEADER_MEMBERS_READS)
        read_reads(&reader, report);
    if (members >= HEADER_MEMBERS)
        read_pins(&reader, &report->pins);
    rc = kvt_msgpack_close(&reader, members, known(members), "report", err);
    if (rc != KVT_OK)
        *report =
            (struct kvt_report){.accesses = accesses, .results = results, .pins = {.rows = pins}};
    return rc;
}

enum kvt_err
wire_report_open(const void *bytes, size_t size, const char *subject,
                 const struct wire_key_ring *keys, struct kvt_report *report, bool *verified,
                 struct kvt_error *err)
{
    const bool is_signed = wire_envelope_is(bytes, size);
    struct wire_envelope envelope = {.payload = bytes, .size = size};
    char wanted[WIRE_SUBJECT_MAX];
    enum kvt_err rc = KVT_OK;

    *verified = false;
    if (is_signed)
        rc = wire_envelope_read(bytes, size, &envelope, err);
    if (rc == KVT_OK)
        rc = wire_report_decode(envelope.payload, envelope.size, report, err);
    if (rc != KVT_OK)
        return rc;
    if (wire_subject_named(WIRE_SUBJECT_REPORTS, wanted, sizeof(wanted), report->gateway) !=
            KVT_OK ||
        strcmp(wanted, subject) != 0)
        return kvt_error_set(err, KVT_DENIED, "report of gateway %s: it came as another's",
                             report->gateway);
    if (!is_signed || keys == NULL)
        return KVT_OK;
    if (!wire_envelope_verify(keys, WIRE_SIGNED_REPORT, report->gateway, &envelope))
        return kvt_error_set(err, KVT_DENIED,
                             "report of gateway %s: no key of that gateway signed it",
                             report->gateway);
    *verified = true;
    return KVT_OK;
}
