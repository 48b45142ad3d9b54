#include "gateway/catalog/catalog_record.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

enum { RECORD_VERSION = 2, EVENT_VERSION = 1 };
enum {
    FLAG_OPAQUE = 1,
    FLAG_KEPT = 2,
    FLAG_OWED = 4,
    FLAG_FOREIGN = 8,
    FLAG_TO_COLD = 16, /* `moving` */
    FLAG_TO_FAR = 32,
    FLAG_SUMMED = 64, /* foreign only, as FLAG_OVERWRITTEN */
    FLAG_OVERWRITTEN = 128,
    FLAGS = FLAG_OPAQUE | FLAG_KEPT | FLAG_OWED | FLAG_FOREIGN | FLAG_TO_COLD | FLAG_TO_FAR |
            FLAG_SUMMED | FLAG_OVERWRITTEN,
};

struct writer {
    uint8_t *at;
};

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static void
write_u8(struct writer *writer, uint8_t value)
{
    *writer->at++ = value;
}

static void
write_u32(struct writer *writer, uint32_t value)
{
    const uint32_t bytes = htole32(value);

    memcpy(writer->at, &bytes, sizeof(bytes));
    writer->at += sizeof(bytes);
}

static void
write_u64(struct writer *writer, uint64_t value)
{
    const uint64_t bytes = htole64(value);

    memcpy(writer->at, &bytes, sizeof(bytes));
    writer->at += sizeof(bytes);
}

static void
write_text(struct writer *writer, const char *text, size_t max)
{
    const size_t size = strnlen(text, max - 1);

    write_u8(writer, (uint8_t)size);
    memcpy(writer->at, text, size);
    writer->at += size;
}

static void
read_bytes(struct reader *reader, void *out, size_t size)
{
    if (reader->failed || (size_t)(reader->end - reader->at) < size) {
        reader->failed = true;
        memset(out, 0, size);
        return;
    }
    memcpy(out, reader->at, size);
    reader->at += size;
}

static uint8_t
read_u8(struct reader *reader)
{
    uint8_t value;

    read_bytes(reader, &value, sizeof(value));
    return value;
}

static uint32_t
read_u32(struct reader *reader)
{
    uint32_t value;

    read_bytes(reader, &value, sizeof(value));
    return le32toh(value);
}

static uint64_t
read_u64(struct reader *reader)
{
    uint64_t value;

    read_bytes(reader, &value, sizeof(value));
    return le64toh(value);
}

static void
read_text(struct reader *reader, char *out, size_t max)
{
    const size_t size = read_u8(reader);

    out[0] = '\0';
    if (size >= max) {
        reader->failed = true;
        return;
    }
    read_bytes(reader, out, size);
    out[size] = '\0';
}

const char *
gateway_record_state_name(enum gateway_state state)
{
    switch (state) {
    case GATEWAY_INTENT: return "intent";
    case GATEWAY_STORED: return "stored";
    case GATEWAY_RETIRING: return "retiring";
    }
    return "unknown";
}

void
gateway_record_of_head(const struct g4_request *head, bool opaque, struct gateway_record *record)
{
    *record = (struct gateway_record){.state = GATEWAY_STORED,
                                      .tiers = gateway_record_bucket(head),
                                      .opaque = opaque,
                                      .length = head->meta.length,
                                      .crc32c = head->meta.crc32c,
                                      .fingerprint = head->meta.fingerprint,
                                      .modified_ms = head->modified_ms};
    memcpy(record->etag, head->etag, sizeof(record->etag));
    memcpy(record->writer, head->meta.writer, sizeof(record->writer));
    if (!head->meta.present && head->buffer_size != 0)
        record->length = head->buffer_size;
}

const char *
gateway_record_kind_name(const struct gateway_record *record)
{
    if (record->opaque)
        return "opaque";
    return record->foreign ? "foreign" : "block";
}

void
gateway_record_meta(const struct gateway_record *record, struct g4_meta *meta)
{
    *meta = (struct g4_meta){.present = true,
                             .length = record->length,
                             .crc32c = record->crc32c,
                             .fingerprint = record->fingerprint};
    memcpy(meta->writer, record->writer, sizeof(meta->writer));
}

size_t
gateway_record_encode(const struct gateway_record *record, uint8_t out[GATEWAY_RECORD_MAX])
{
    struct writer writer = {.at = out};

    _Static_assert(4 + 4 * 8 + 4 + 3 + 2 * G4_ETAG_MAX + KVT_NAME_MAX <= GATEWAY_RECORD_MAX,
                   "a record fits its bound");
    write_u8(&writer, RECORD_VERSION);
    write_u8(&writer, (uint8_t)record->state);
    write_u8(&writer, (uint8_t)record->tiers);
    write_u8(&writer,
             (uint8_t)((record->opaque ? FLAG_OPAQUE : 0) | (record->kept ? FLAG_KEPT : 0) |
                       (record->owed ? FLAG_OWED : 0) | (record->foreign ? FLAG_FOREIGN : 0) |
                       (record->summed ? FLAG_SUMMED : 0) |
                       (record->overwritten ? FLAG_OVERWRITTEN : 0) |
                       ((record->moving & GATEWAY_COLD) != 0 ? FLAG_TO_COLD : 0) |
                       ((record->moving & GATEWAY_FAR) != 0 ? FLAG_TO_FAR : 0)));
    write_u64(&writer, record->length);
    write_u32(&writer, record->crc32c);
    write_u64(&writer, record->fingerprint);
    write_u64(&writer, record->modified_ms);
    write_text(&writer, record->etag, sizeof(record->etag));
    write_text(&writer, record->writer, sizeof(record->writer));
    write_text(&writer, record->shown, sizeof(record->shown));
    return (size_t)(writer.at - out);
}

bool
gateway_record_decode(const void *bytes, size_t size, struct gateway_record *record)
{
    struct reader reader = {.at = bytes, .end = (const uint8_t *)bytes + size};
    unsigned version;
    unsigned flags;

    *record = (struct gateway_record){0};
    version = read_u8(&reader);
    if (version == 0 || version > RECORD_VERSION)
        return false;
    record->state = (enum gateway_state)read_u8(&reader);
    record->tiers = read_u8(&reader);
    flags = read_u8(&reader);
    record->opaque = (flags & FLAG_OPAQUE) != 0;
    record->kept = (flags & FLAG_KEPT) != 0;
    record->owed = (flags & FLAG_OWED) != 0;
    record->foreign = (flags & FLAG_FOREIGN) != 0;
    record->summed = (flags & FLAG_SUMMED) != 0;
    record->overwritten = (flags & FLAG_OVERWRITTEN) != 0;
    record->moving = ((flags & FLAG_TO_COLD) != 0 ? GATEWAY_COLD : 0u) |
                     ((flags & FLAG_TO_FAR) != 0 ? GATEWAY_FAR : 0u);
    record->length = read_u64(&reader);
    record->crc32c = read_u32(&reader);
    record->fingerprint = read_u64(&reader);
    record->modified_ms = read_u64(&reader);
    read_text(&reader, record->etag, sizeof(record->etag));
    read_text(&reader, record->writer, sizeof(record->writer));
    if (version > 1) /* rows of version 1 end here */
        read_text(&reader, record->shown, sizeof(record->shown));
    return !reader.failed && record->state >= GATEWAY_INTENT && record->state <= GATEWAY_RETIRING &&
           (record->tiers & ~(GATEWAY_VOLUMES | GATEWAY_BUCKETS)) == 0 &&
           record->moving != GATEWAY_BUCKETS && (flags & ~(unsigned)FLAGS) == 0 &&
           (record->foreign || (!record->summed && !record->overwritten));
}

size_t
gateway_record_encode_event(const struct gateway_event *event, uint8_t out[GATEWAY_OUTBOX_MAX])
{
    struct writer writer = {.at = out};

    _Static_assert(4 + 5 * 8 + 2 * 4 + KVT_NAMESPACE_MAX <= GATEWAY_OUTBOX_MAX,
                   "an event fits its bound");
    write_u8(&writer, EVENT_VERSION);
    write_u8(&writer, event->event.type);
    write_u8(&writer, (uint8_t)event->event.location);
    write_text(&writer, event->namespace_, sizeof(event->namespace_));
    write_u64(&writer, event->event.sequence_hash);
    write_u64(&writer, event->event.prefix_hash);
    write_u64(&writer, event->event.parent);
    write_u64(&writer, event->event.block_size);
    write_u32(&writer, event->event.position);
    write_u32(&writer, event->event.ranks);
    return (size_t)(writer.at - out);
}

bool
gateway_record_decode_event(const void *bytes, size_t size, struct gateway_event *event)
{
    struct reader reader = {.at = bytes, .end = (const uint8_t *)bytes + size};

    *event = (struct gateway_event){0};
    if (read_u8(&reader) != EVENT_VERSION)
        return false;
    event->event.type = read_u8(&reader);
    event->event.location = read_u8(&reader);
    read_text(&reader, event->namespace_, sizeof(event->namespace_));
    event->event.sequence_hash = read_u64(&reader);
    event->event.prefix_hash = read_u64(&reader);
    event->event.parent = read_u64(&reader);
    event->event.block_size = read_u64(&reader);
    event->event.position = read_u32(&reader);
    event->event.ranks = read_u32(&reader);
    return !reader.failed && event->event.location < GATEWAY_TIERS;
}
