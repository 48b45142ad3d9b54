/*
 * Bucket notifications, as MinIO sends them over NATS (and S3 in their likeness): what became of an
 * object, by its key.
 */
#include "wire/dialect/minio.h"

#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"
#include "base/text/json_pull.h"
#include "kvtier/key.h"
#include "wire/dialect/raw_builder.h"

#define HOLDER_PREFIX "cold@"

enum {
    BUCKET_MAX = KVT_NAME_MAX - (sizeof(HOLDER_PREFIX) - 1),
    ENCODED_MAX = 3 * KVT_KEY_MAX, /* every byte of a key as %XX */
    EVENT_NAME_MAX = 96,
    TIME_TEXT = 19, /* 2026-11-21T10:00:00 */
    SEQUENCER_DIGITS = 16,
};

struct record {
    char name[EVENT_NAME_MAX];
    char bucket[BUCKET_MAX];
    char key[ENCODED_MAX + 1];
    uint64_t size;
    uint64_t sequencer;
    uint64_t time_ms;
    bool has_name;
    bool has_bucket;
    bool has_key;
    bool long_key;
};

/* ---- texts ---- */

static bool
starts_with(const char **text, const char *prefix)
{
    const size_t size = strlen(prefix);

    if (strncmp(*text, prefix, size) != 0)
        return false;
    *text += size;
    return true;
}

bool
wire_minio_unescape(char *text)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        if (*in == '+') {
            *out++ = ' ';
        } else if (*in == '%') {
            const int high = kvt_hex_digit(in[1]);
            const int low = high < 0 ? -1 : kvt_hex_digit(in[2]);

            if (low < 0 || (high == 0 && low == 0))
                return false;
            *out++ = (char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return true;
}

static bool
is_utf8(const char *text)
{
    const size_t size = strlen(text);
    size_t at = 0;

    while (at < size) {
        const size_t count = kvt_json_utf8(text + at, size - at);

        if (count == 0)
            return false;
        at += count;
    }
    return true;
}

static bool
two_digits(const char *text, uint32_t *value)
{
    *value = 0;
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
        return false;
    *value = (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0');
    return true;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar from then on. */
static uint64_t
days_since_1970(uint32_t year, uint32_t month, uint32_t day)
{
    /* Years that begin in March have their leap day at the end. */
    const uint32_t shifted_year = month <= 2 ? year - 1 : year;
    const uint32_t shifted_month = month <= 2 ? month + 9 : month - 3;
    const uint64_t days = (uint64_t)365 * shifted_year + shifted_year / 4 - shifted_year / 100 +
                          shifted_year / 400 + (153 * shifted_month + 2) / 5 + day - 1;

    return days - 719468;
}

/* "2026-11-21T10:00:00.123Z", in UTC; 0 for anything else. */
static uint64_t
parse_time(const char *text)
{
    uint32_t century, year, month, day, hour, minute, second;
    uint64_t ms = 0;
    uint64_t unit = 100;

    if (strlen(text) <= TIME_TEXT || !two_digits(text, &century) || !two_digits(text + 2, &year) ||
        !two_digits(text + 5, &month) || !two_digits(text + 8, &day) ||
        !two_digits(text + 11, &hour) || !two_digits(text + 14, &minute) ||
        !two_digits(text + 17, &second))
        return 0;
    if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
        return 0;
    year += century * 100;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
        second > 60)
        return 0;
    text += TIME_TEXT;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
            ms += (uint64_t)(*text - '0') * unit;
    if (strcmp(text, "Z") != 0)
        return 0;
    return ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60000 + second * 1000 +
           ms;
}

/* Up to 16 hex digits; 0 for anything else. */
static uint64_t
parse_sequencer(const char *text)
{
    uint64_t value = 0;
    size_t digits = 0;

    for (; *text != '\0'; text++, digits++) {
        const int digit = kvt_hex_digit(*text);

        if (digit < 0 || digits == SEQUENCER_DIGITS)
            return 0;
        value = value << 4 | (uint64_t)digit;
    }
    return value;
}

/* ---- members ---- */

static bool
read_text(struct kvt_json_pull *pull, char *out, size_t capacity)
{
    struct kvt_json_slice slice;

    out[0] = '\0';
    return kvt_json_pull_string(pull, &slice) && kvt_json_slice_copy(&slice, out, capacity, NULL);
}

static void
read_bucket(struct kvt_json_pull *pull, struct record *record)
{
    struct kvt_json_slice key;

    if (!kvt_json_pull_object(pull))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "name"))
            record->has_bucket = read_text(pull, record->bucket, sizeof(record->bucket)) &&
                                 record->bucket[0] != '\0';
        else
            kvt_json_pull_skip(pull);
    }
}

static void
read_object(struct kvt_json_pull *pull, struct record *record)
{
    char sequencer[SEQUENCER_DIGITS + 2];
    struct kvt_json_slice key;
    struct kvt_json_slice text;

    if (!kvt_json_pull_object(pull))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "key")) {
            record->has_key = kvt_json_pull_string(pull, &text);
            record->long_key = record->has_key &&
                               !kvt_json_slice_copy(&text, record->key, sizeof(record->key), NULL);
        } else if (kvt_json_slice_is(&key, "size")) {
            (void)kvt_json_pull_u64(pull, &record->size);
        } else if (kvt_json_slice_is(&key, "sequencer")) {
            if (read_text(pull, sequencer, sizeof(sequencer)))
                record->sequencer = parse_sequencer(sequencer);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
}

static void
read_s3(struct kvt_json_pull *pull, struct record *record)
{
    struct kvt_json_slice key;

    if (!kvt_json_pull_object(pull))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "bucket"))
            read_bucket(pull, record);
        else if (kvt_json_slice_is(&key, "object"))
            read_object(pull, record);
        else
            kvt_json_pull_skip(pull);
    }
}

static void
read_record(struct kvt_json_pull *pull, struct record *record)
{
    struct kvt_json_slice key;
    char time[40];

    record->name[0] = record->bucket[0] = record->key[0] = '\0';
    record->size = record->sequencer = record->time_ms = 0;
    record->has_name = record->has_bucket = record->has_key = record->long_key = false;
    if (!kvt_json_pull_object(pull))
        return;
    while (kvt_json_pull_member(pull, &key)) {
        if (kvt_json_slice_is(&key, "eventName")) {
            record->has_name = read_text(pull, record->name, sizeof(record->name));
        } else if (kvt_json_slice_is(&key, "eventTime")) {
            if (read_text(pull, time, sizeof(time)))
                record->time_ms = parse_time(time);
        } else if (kvt_json_slice_is(&key, "s3")) {
            read_s3(pull, record);
        } else {
            kvt_json_pull_skip(pull);
        }
    }
}

/* ---- what it means ---- */

/* What an event's name says; SKIP with FINE for what changes no object's bytes. */
static enum wire_raw_kind
kind_of(const char *name, enum wire_raw_why *why)
{
    *why = WIRE_RAW_FINE;
    (void)starts_with(&name, "s3:");
    if (starts_with(&name, "ObjectCreated:")) {
        if (strcmp(name, "Put") == 0 || strcmp(name, "Post") == 0 || strcmp(name, "Copy") == 0 ||
            strcmp(name, "CompleteMultipartUpload") == 0)
            return WIRE_RAW_STORE;
        if (strncmp(name, "Put", 3) == 0 || strncmp(name, "Delete", 6) == 0)
            return WIRE_RAW_SKIP; /* of its tags, retention, legal hold */
    } else if (starts_with(&name, "ObjectRemoved:")) {
        if (strcmp(name, "Delete") == 0 || strcmp(name, "DeleteMarkerCreated") == 0 ||
            strcmp(name, "DeleteAllVersions") == 0)
            return WIRE_RAW_REMOVE;
        if (strcmp(name, "NoOP") == 0)
            return WIRE_RAW_SKIP;
    } else if (starts_with(&name, "LifecycleExpiration:")) {
        if (strcmp(name, "Delete") == 0 || strcmp(name, "DeleteMarkerCreated") == 0)
            return WIRE_RAW_REMOVE;
    } else if (starts_with(&name, "BucketRemoved:")) {
        return WIRE_RAW_CLEAR;
    } else if (starts_with(&name, "ObjectAccessed:") || starts_with(&name, "ObjectTagging:") ||
               starts_with(&name, "ObjectAcl:") || starts_with(&name, "ObjectTransition:") ||
               starts_with(&name, "ObjectRestore:") || starts_with(&name, "Replication:") ||
               starts_with(&name, "LifecycleDelMarkerExpiration:") ||
               starts_with(&name, "BucketCreated:") || starts_with(&name, "Scanner:")) {
        return WIRE_RAW_SKIP;
    }
    *why = WIRE_RAW_UNKNOWN_KIND;
    return WIRE_RAW_SKIP;
}

struct reading {
    struct wire_raw_batch *batch;
    bool has_namespace;
};

/* A batch speaks of one bucket and one namespace.  False when this is another. */
static bool
note_place(char *place, size_t capacity, bool noted, const char *name)
{
    if (noted)
        return strcmp(place, name) == 0;
    (void)snprintf(place, capacity, "%s", name);
    return true;
}

static enum wire_raw_why
settle_block(struct kvt_json_pull *pull, struct reading *reading, struct record *record,
             struct wire_raw_event *event)
{
    struct wire_raw_batch *batch = reading->batch;
    struct wire_raw_block *block;
    struct kvt_key key;

    if (!record->has_key)
        return WIRE_RAW_MALFORMED;
    if (record->long_key || !wire_minio_unescape(record->key) || !is_utf8(record->key) ||
        kvt_key_parse(record->key, &key) != KVT_OK)
        return WIRE_RAW_NOT_A_BLOCK;
    block = wire_raw_builder_block(batch, event);
    if (block == NULL || !note_place(batch->namespace_, sizeof(batch->namespace_),
                                     reading->has_namespace, key.namespace_)) {
        kvt_json_pull_fail(pull, pull->at, KVT_RANGE,
                           "one namespace, of no more than a batch holds");
        return WIRE_RAW_FINE;
    }
    reading->has_namespace = true;
    block->hash = key.hash;
    event->parent = key.parent_fragment;
    event->position = key.position;
    event->ranks = 1u << key.rank;
    event->size = record->size;
    return WIRE_RAW_FINE;
}

static void
add_record(struct kvt_json_pull *pull, struct reading *reading, struct record *record)
{
    struct wire_raw_batch *batch = reading->batch;
    const struct wire_raw_builder_mark mark = wire_raw_builder_mark(batch);
    struct wire_raw_event *event = wire_raw_builder_event(batch);
    char holder[KVT_NAME_MAX];
    enum wire_raw_kind kind;
    enum wire_raw_why why;

    if (event == NULL) {
        kvt_json_pull_fail(pull, pull->at, KVT_RANGE, "no more records than a batch holds");
        return;
    }
    event->tier = KVT_TIER_G4;
    event->id = record->sequencer;
    if (batch->time_ms == 0)
        batch->time_ms = record->time_ms;
    kind = record->has_name ? kind_of(record->name, &why) : WIRE_RAW_SKIP;
    if (!record->has_name || (kind != WIRE_RAW_SKIP && !record->has_bucket))
        why = WIRE_RAW_MALFORMED;
    if (why == WIRE_RAW_FINE && kind != WIRE_RAW_SKIP) {
        (void)snprintf(holder, sizeof(holder), "%s%s", HOLDER_PREFIX, record->bucket);
        if (!note_place(batch->holder, sizeof(batch->holder), batch->holder[0] != '\0', holder)) {
            kvt_json_pull_fail(pull, pull->at, KVT_RANGE, "one bucket in a message");
            return;
        }
        if (kind != WIRE_RAW_CLEAR)
            why = settle_block(pull, reading, record, event);
    }
    if (why != WIRE_RAW_FINE || kind == WIRE_RAW_SKIP)
        wire_raw_builder_skip(batch, event, &mark, why);
    else
        event->kind = kind;
}

enum kvt_err
wire_minio_decode(const void *bytes, size_t size, struct wire_raw_batch *batch,
                  struct kvt_error *err)
{
    struct reading reading = {.batch = batch};
    struct kvt_json_slice key;
    struct kvt_json_pull pull;
    struct record record;
    bool has_records = false;

    kvt_json_pull_init(&pull, bytes, size);
    if (kvt_json_pull_peek(&pull) != KVT_JSON_OBJECT)
        kvt_json_pull_fail(&pull, pull.at, KVT_INVALID, "an object");
    else
        (void)kvt_json_pull_object(&pull);
    while (kvt_json_pull_member(&pull, &key)) {
        if (!kvt_json_slice_is(&key, "Records")) {
            kvt_json_pull_skip(&pull);
            continue;
        }
        has_records = kvt_json_pull_array(&pull);
        while (has_records && kvt_json_pull_element(&pull)) {
            read_record(&pull, &record);
            if (pull.code == KVT_OK)
                add_record(&pull, &reading, &record);
        }
    }
    if (!has_records)
        kvt_json_pull_fail(&pull, 0, KVT_INVALID, "an array of Records");
    return kvt_json_pull_end(&pull, "bucket notification", err);
}
