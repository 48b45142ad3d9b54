#include "wire/dialect/dialect.h"

#include <assert.h>
#include <string.h>

#include "wire/dialect/dynamo.h"
#include "wire/dialect/engine.h"
#include "wire/dialect/kvbm_event.h"
#include "wire/dialect/minio.h"

static const char *const names[WIRE_DIALECT_COUNT] = {
    [WIRE_DIALECT_KVTIER] = "kvtier", [WIRE_DIALECT_DYNAMO] = "dynamo",
    [WIRE_DIALECT_ENGINE] = "engine", [WIRE_DIALECT_KVBM] = "kvbm",
    [WIRE_DIALECT_MINIO] = "minio",
};

const char *
wire_dialect_name(enum wire_dialect dialect)
{
    assert((unsigned)dialect < WIRE_DIALECT_COUNT);
    return names[dialect];
}

bool
wire_dialect_parse(const char *text, enum wire_dialect *dialect)
{
    *dialect = WIRE_DIALECT_KVTIER;
    for (int i = 0; i < WIRE_DIALECT_COUNT; i++) {
        if (strcmp(text, names[i]) == 0) {
            *dialect = (enum wire_dialect)i;
            return true;
        }
    }
    return false;
}

enum kvt_err
wire_dialect_decode(enum wire_dialect dialect, const void *bytes, size_t size,
                    struct wire_raw_batch *batch, struct kvt_error *err)
{
    enum kvt_err rc = KVT_INVALID;

    assert(bytes != NULL || size == 0);
    wire_raw_batch_clear(batch);
    switch (dialect) {
    case WIRE_DIALECT_DYNAMO: rc = wire_dynamo_decode(bytes, size, batch, err); break;
    case WIRE_DIALECT_ENGINE: rc = wire_engine_decode(bytes, size, batch, err); break;
    case WIRE_DIALECT_KVBM: rc = wire_kvbm_decode(KVT_KEY_KVBM_B, bytes, size, batch, err); break;
    case WIRE_DIALECT_MINIO: rc = wire_minio_decode(bytes, size, batch, err); break;
    case WIRE_DIALECT_KVTIER:
    case WIRE_DIALECT_COUNT:
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "no raw decoder for this dialect");
        break;
    }
    /* Half a message must not look like a whole one. */
    if (rc != KVT_OK)
        wire_raw_batch_clear(batch);
    return rc;
}
