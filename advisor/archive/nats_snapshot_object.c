#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "advisor/archive/index_export.h"
#include "advisor/archive/nats_snapshot.h"
#include "base/text/parse.h"

/* How a snapshot describes itself, beside its bytes: who looks for the newest reads no more. */

static const char format_key[] = "Kvtier-Export";
static const char seq_key[] = "Kvtier-Stream-Sequence";
static const char created_key[] = "Kvtier-Stream-Created";

void
advisor_nats_snapshot_name(char name[ADVISOR_NATS_SNAPSHOT_NAME_MAX], unsigned number)
{
    (void)snprintf(name, ADVISOR_NATS_SNAPSHOT_NAME_MAX, "index.%u", number);
}

static bool
read_number(const struct wire_object_info *info, const char *key, uint64_t *number)
{
    return kvt_parse_u64(wire_object_header(info, key), number) == KVT_OK;
}

enum kvt_err
advisor_nats_snapshot_read(
    struct wire_bus *bus, const char *bucket,
    struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    struct kvt_error *err)
{
    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++) {
        struct advisor_nats_snapshot_object *object = &objects[i];
        char name[ADVISOR_NATS_SNAPSHOT_NAME_MAX];
        enum kvt_err rc;

        *object = (struct advisor_nats_snapshot_object){.readable = false};
        advisor_nats_snapshot_name(name, i);
        rc = wire_object_info(bus, bucket, name, &object->info, err);
        if (kvt_err_retryable(rc))
            return rc;
        object->readable = rc == KVT_OK &&
                           read_number(&object->info, format_key, &object->format) &&
                           read_number(&object->info, seq_key, &object->seq) &&
                           read_number(&object->info, created_key, &object->created_ms);
    }
    return KVT_OK;
}

const struct advisor_nats_snapshot_object *
advisor_nats_snapshot_newest(
    const struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    uint64_t created_ms, uint64_t below)
{
    const struct advisor_nats_snapshot_object *newest = NULL;

    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++) {
        const struct advisor_nats_snapshot_object *object = &objects[i];

        if (object->readable && object->created_ms == created_ms && object->seq < below &&
            (newest == NULL || object->seq > newest->seq))
            newest = object;
    }
    return newest;
}

static enum kvt_err
put_number(struct wire_object_put *put, const char *key, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    return wire_object_put_header(put, key, text);
}

enum kvt_err
advisor_nats_snapshot_describe(struct wire_object_put *put, uint64_t seq, uint64_t created_ms)
{
    enum kvt_err rc = put_number(put, format_key, ADVISOR_INDEX_EXPORT_VERSION);

    if (rc == KVT_OK)
        rc = put_number(put, seq_key, seq);
    if (rc == KVT_OK)
        rc = put_number(put, created_key, created_ms);
    return rc;
}
