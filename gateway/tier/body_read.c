#include "gateway/tier/body_read.h"

#include "base/core/alloc.h"
#include "g4/object/check.h"

/* What the request may take is what the budget gave for it. */
static enum kvt_err
read_up_to(const struct gateway_body_limits *limits, struct g4_store *store, const char *key,
           uint64_t length, struct g4_request *request)
{
    *request = (struct g4_request){.verb = G4_GET, .key = key};
    if (limits->budget != NULL && !gateway_budget_take(limits->budget, length)) {
        request->status = kvt_error_set(&request->error, KVT_AGAIN, "memory.max is in use");
        return request->status;
    }
    request->buffer_capacity = (size_t)length;
    return g4_store_perform(store, request);
}

enum kvt_err
gateway_body_read(const struct gateway_body_limits *limits, struct g4_store *store, const char *key,
                  uint64_t length, struct g4_request *request)
{
    enum kvt_err rc = KVT_RANGE;

    if (length > 0 && length < limits->object_max)
        rc = read_up_to(limits, store, key, length, request);
    else
        *request = (struct g4_request){.verb = G4_GET, .key = key};
    if (rc != KVT_RANGE)
        return rc;
    gateway_body_release(limits, request);
    return read_up_to(limits, store, key, limits->object_max, request);
}

enum kvt_err
gateway_body_read_block(const struct gateway_body_limits *limits, struct g4_store *store,
                        const char *key, const struct gateway_record *record,
                        struct g4_request *request)
{
    struct g4_meta expected;
    enum kvt_err rc = gateway_body_read(limits, store, key, record->length, request);

    if (rc == KVT_OK) {
        gateway_record_meta(record, &expected);
        rc = g4_check_body(&request->meta, &expected, request->buffer, request->buffer_size,
                           &request->error);
    }
    return rc == KVT_RANGE ? KVT_CORRUPT : rc;
}

void
gateway_body_release(const struct gateway_body_limits *limits, struct g4_request *request)
{
    kvt_free(request->buffer);
    request->buffer = NULL;
    if (limits->budget != NULL)
        gateway_budget_give(limits->budget, request->buffer_capacity);
    request->buffer_capacity = 0;
}

enum kvt_err
gateway_body_hot_shows(struct g4_store *hot, const char *key, const struct gateway_record *record)
{
    struct g4_request request = {.verb = G4_HEAD, .key = key};
    const enum kvt_err rc = hot == NULL ? KVT_NOTFOUND : g4_store_perform(hot, &request);

    if (rc != KVT_OK)
        return rc;
    return request.meta.present && request.meta.length == record->length &&
                   request.meta.crc32c == record->crc32c
               ? KVT_OK
               : KVT_CORRUPT;
}
