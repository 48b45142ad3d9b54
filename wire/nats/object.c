#include "wire/nats/object.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "wire/nats/object_private.h"

#define NS_PER_MS INT64_C(1000000)

enum { API_WAIT_MS = 5000, VERSION_TEXT_MAX = 24 };

bool
wire_object_bucket_valid(const char *bucket)
{
    return wire_bus_bucket_ok(bucket, WIRE_OBJECT_BUCKET_MAX);
}

static enum kvt_err
failed(struct kvt_error *err, const char *bucket, natsStatus s, jsErrCode code)
{
    const enum kvt_err rc = wire_bus_jetstream_error(s, code);

    return kvt_error_set(err, rc, "object bucket %s: %s (JetStream code %d)", bucket,
                         natsStatus_GetText(s), (int)code);
}

static enum kvt_err
away(struct kvt_error *err, const char *bucket)
{
    return kvt_error_set(err, KVT_UNAVAILABLE, "object bucket %s: NATS is not connected", bucket);
}

enum kvt_err
wire_object_ensure(struct wire_bus *bus, const char *bucket, struct kvt_error *err)
{
    char name[WIRE_OBJECT_STREAM_MAX];
    char chunks[WIRE_OBJECT_SUBJECT_MAX];
    char metas[WIRE_OBJECT_SUBJECT_MAX];
    const char *subjects[] = {chunks, metas};
    jsStreamConfig config;
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s;

    assert(wire_object_bucket_valid(bucket));
    if (!wire_bus_connected(bus))
        return away(err, bucket);
    wire_object_stream_name(name, bucket);
    s = js_GetStreamInfo(&info, bus->js, name, NULL, &code);
    jsStreamInfo_Destroy(info);
    if (s == NATS_OK)
        return KVT_OK;
    if (code != JSStreamNotFoundErr)
        return failed(err, bucket, s, code);
    (void)snprintf(chunks, sizeof(chunks), "$O.%s.C.>", bucket);
    (void)snprintf(metas, sizeof(metas), "$O.%s.M.>", bucket);
    (void)jsStreamConfig_Init(&config);
    config.Name = name;
    config.Subjects = subjects;
    config.SubjectsLen = 2;
    config.Storage = js_FileStorage;
    config.Discard = js_DiscardNew;
    config.AllowRollup = true;
    config.AllowDirect = true;
    code = 0;
    s = js_AddStream(NULL, bus->js, &config, NULL, &code);
    if (s == NATS_OK || code == JSStreamNameExistErr) /* somebody was faster */
        return KVT_OK;
    return failed(err, bucket, s, code);
}

/* The last message of the subject. */
static enum kvt_err
read_meta(struct wire_bus *bus, const char *bucket, const char *subject,
          struct wire_object_info *info, bool *deleted, struct kvt_error *err)
{
    char stream[WIRE_OBJECT_STREAM_MAX];
    struct kvt_error why = {.text = ""};
    natsMsg *message = NULL;
    jsErrCode code = 0;
    natsStatus s;
    enum kvt_err rc;

    memset(info, 0, sizeof(*info));
    *deleted = false;
    if (!wire_bus_connected(bus))
        return away(err, bucket);
    wire_object_stream_name(stream, bucket);
    s = js_GetLastMsg(&message, bus->js, stream, subject, NULL, &code);
    if (s != NATS_OK) {
        if (code == JSNoMessageFoundErr || code == JSStreamNotFoundErr)
            return kvt_error_set(err, KVT_NOTFOUND, "object bucket %s: %s", bucket,
                                 code == JSNoMessageFoundErr ? "no such object" : "not there");
        return failed(err, bucket, s, code);
    }
    rc = wire_object_meta_read(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message),
                               bucket, info, deleted, &why);
    info->version = natsMsg_GetSequence(message);
    info->time_ms = (uint64_t)(natsMsg_GetTime(message) / NS_PER_MS);
    natsMsg_Destroy(message);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "object bucket %s: %s", bucket, why.text);
}

enum kvt_err
wire_object_info(struct wire_bus *bus, const char *bucket, const char *name,
                 struct wire_object_info *info, struct kvt_error *err)
{
    char subject[WIRE_OBJECT_SUBJECT_MAX];
    bool deleted;
    enum kvt_err rc;

    assert(strlen(name) < WIRE_OBJECT_NAME_MAX);
    wire_object_meta_subject(subject, bucket, name);
    rc = read_meta(bus, bucket, subject, info, &deleted, err);
    if (rc == KVT_OK && deleted)
        return kvt_error_set(err, KVT_NOTFOUND, "object %s of bucket %s: removed", name, bucket);
    if (rc == KVT_OK && strcmp(info->name, name) != 0)
        return kvt_error_set(err, KVT_INVALID, "object %s of bucket %s: it is called %.40s", name,
                             bucket, info->name);
    return rc;
}

/* "Expected-Last-Subject-Sequence" is what makes one of two writers the loser. */
static natsStatus
set_headers(natsMsg *message, const uint64_t *version)
{
    char text[VERSION_TEXT_MAX];
    natsStatus s = natsMsgHeader_Set(message, "Nats-Rollup", "sub");

    if (s != NATS_OK || version == NULL)
        return s;
    (void)snprintf(text, sizeof(text), "%" PRIu64, *version);
    return natsMsgHeader_Set(message, "Nats-Expected-Last-Subject-Sequence", text);
}

enum kvt_err
wire_object_meta_publish(struct wire_bus *bus, const char *bucket, struct wire_object_info *info,
                         bool deleted, const uint64_t *version, struct kvt_error *err)
{
    char subject[WIRE_OBJECT_SUBJECT_MAX];
    struct kvt_buffer text;
    natsMsg *message = NULL;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    natsStatus s = NATS_NO_MEMORY;

    if (!wire_bus_connected(bus))
        return away(err, bucket);
    wire_object_meta_subject(subject, bucket, info->name);
    kvt_buffer_init(&text, WIRE_OBJECT_META_MAX);
    wire_object_meta_write(&text, bucket, info, deleted);
    if (kvt_buffer_ok(&text))
        s = natsMsg_Create(&message, subject, NULL, (const char *)text.data, (int)text.size);
    if (s == NATS_OK)
        s = set_headers(message, version);
    if (s == NATS_OK)
        s = js_PublishMsg(&ack, bus->js, message, NULL, &code);
    if (s == NATS_OK) {
        info->version = ack->Sequence;
        info->time_ms = kvt_clock_unix_ms();
    }
    jsPubAck_Destroy(ack);
    natsMsg_Destroy(message);
    kvt_buffer_release(&text);
    if (code == JSStreamWrongLastSequenceErr)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "object %s of bucket %s was changed by somebody else", info->name,
                             bucket);
    return s == NATS_OK ? KVT_OK : failed(err, bucket, s, code);
}

enum kvt_err
wire_object_purge_chunks(struct wire_bus *bus, const char *bucket, const char *nuid)
{
    char stream[WIRE_OBJECT_STREAM_MAX];
    char subject[WIRE_OBJECT_SUBJECT_MAX];
    jsErrCode code = 0;
    jsOptions options;

    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    wire_object_stream_name(stream, bucket);
    wire_object_chunks_subject(subject, bucket, nuid);
    (void)jsOptions_Init(&options);
    options.Wait = API_WAIT_MS;
    options.Stream.Purge.Subject = subject;
    return wire_bus_jetstream_error(js_PurgeStream(bus->js, stream, &options, &code), code);
}

enum kvt_err
wire_object_remove(struct wire_bus *bus, const char *bucket, const char *name,
                   struct kvt_error *err)
{
    struct wire_object_info info;
    struct wire_object_info none = {.size = 0};
    enum kvt_err rc = wire_object_info(bus, bucket, name, &info, err);

    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(none.name, sizeof(none.name), "%s", name);
    (void)snprintf(none.nuid, sizeof(none.nuid), "%s", info.nuid);
    rc = wire_object_meta_publish(bus, bucket, &none, true, &info.version, err);
    if (rc == KVT_OK)
        rc = wire_object_purge_chunks(bus, bucket, info.nuid);
    return rc;
}

/* ---- what nobody will ever finish ---- */

struct sweep {
    struct wire_bus *bus;
    const char *bucket;
    char nuids[WIRE_OBJECT_LIST_MAX][WIRE_OBJECT_NUID_MAX]; /* of the objects there are */
    size_t count;
};

static natsStatus
list_subjects(struct wire_bus *bus, const char *bucket, char kind, jsStreamInfo **info,
              jsErrCode *code)
{
    char stream[WIRE_OBJECT_STREAM_MAX];
    char filter[WIRE_OBJECT_SUBJECT_MAX];
    jsOptions options;

    wire_object_stream_name(stream, bucket);
    (void)snprintf(filter, sizeof(filter), "$O.%s.%c.*", bucket, kind);
    (void)jsOptions_Init(&options);
    options.Wait = API_WAIT_MS;
    options.Stream.Info.SubjectsFilter = filter;
    return js_GetStreamInfo(info, bus->js, stream, &options, code);
}

static enum kvt_err
see_objects(struct sweep *sweep, const jsStreamStateSubjects *subjects, struct kvt_error *err)
{
    for (int i = 0; subjects != NULL && i < subjects->Count; i++) {
        struct wire_object_info object;
        bool deleted;
        enum kvt_err rc =
            read_meta(sweep->bus, sweep->bucket, subjects->List[i].Subject, &object, &deleted, err);

        if (rc == KVT_NOTFOUND || (rc == KVT_OK && deleted) || rc == KVT_UNSUPPORTED)
            continue;
        if (rc != KVT_OK)
            return rc;
        if (sweep->count == WIRE_OBJECT_LIST_MAX)
            return kvt_error_set(err, KVT_FULL, "object bucket %s: more than %d objects",
                                 sweep->bucket, WIRE_OBJECT_LIST_MAX);
        memcpy(sweep->nuids[sweep->count++], object.nuid, sizeof(object.nuid));
    }
    return KVT_OK;
}

static bool
is_abandoned(const struct sweep *sweep, const char *subject, const char *nuid,
             uint64_t abandoned_ms)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    char stream[WIRE_OBJECT_STREAM_MAX];
    natsMsg *last = NULL;
    jsErrCode code = 0;
    uint64_t time_ms;

    for (size_t i = 0; i < sweep->count; i++)
        if (strcmp(sweep->nuids[i], nuid) == 0)
            return false;
    wire_object_stream_name(stream, sweep->bucket);
    if (js_GetLastMsg(&last, sweep->bus->js, stream, subject, NULL, &code) != NATS_OK)
        return false;
    time_ms = (uint64_t)(natsMsg_GetTime(last) / NS_PER_MS);
    natsMsg_Destroy(last);
    return now_ms > time_ms && now_ms - time_ms >= abandoned_ms;
}

static enum kvt_err
purge_abandoned(const struct sweep *sweep, const jsStreamStateSubjects *subjects,
                uint64_t abandoned_ms)
{
    enum kvt_err rc = KVT_OK;

    for (int i = 0; subjects != NULL && i < subjects->Count && rc == KVT_OK; i++) {
        const char *subject = subjects->List[i].Subject;
        const char *nuid = strrchr(subject, '.') + 1;

        if (is_abandoned(sweep, subject, nuid, abandoned_ms))
            rc = wire_object_purge_chunks(sweep->bus, sweep->bucket, nuid);
    }
    return rc;
}

enum kvt_err
wire_object_sweep(struct wire_bus *bus, const char *bucket, uint64_t abandoned_ms,
                  struct kvt_error *err)
{
    struct sweep sweep = {.bus = bus, .bucket = bucket};
    jsStreamInfo *chunks = NULL;
    jsStreamInfo *metas = NULL;
    jsErrCode code = 0;
    natsStatus s;
    enum kvt_err rc = KVT_OK;

    if (!wire_bus_connected(bus))
        return away(err, bucket);
    /* Chunks first: an object that comes into being meanwhile is seen among the objects. */
    s = list_subjects(bus, bucket, 'C', &chunks, &code);
    if (s == NATS_OK)
        s = list_subjects(bus, bucket, 'M', &metas, &code);
    if (s != NATS_OK)
        rc = code == JSStreamNotFoundErr ? KVT_OK : failed(err, bucket, s, code);
    else
        rc = see_objects(&sweep, metas->State.Subjects, err);
    if (rc == KVT_OK && s == NATS_OK)
        rc = purge_abandoned(&sweep, chunks->State.Subjects, abandoned_ms);
    jsStreamInfo_Destroy(metas);
    jsStreamInfo_Destroy(chunks);
    return rc;
}
