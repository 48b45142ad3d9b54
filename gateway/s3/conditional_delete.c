#include "gateway/s3/conditional_delete.h"

#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "gateway/block/get.h"
#include "gateway/block/removal.h"
#include "gateway/http/condition.h"
#include "gateway/s3/opaque.h"
#include "gateway/tier/object_key.h"

static void
take_match(const char *text, struct gateway_conditional_delete *condition)
{
    const size_t size = strlen(text);

    condition->asked = true;
    if (size == 0 || size >= sizeof(condition->match))
        condition->invalid = true;
    else
        memcpy(condition->match, text, size + 1);
}

static void
take_size(const char *text, struct gateway_conditional_delete *condition)
{
    condition->asked = true;
    condition->sized = true;
    if (kvt_parse_u64(text, &condition->size) != KVT_OK)
        condition->invalid = true;
}

/* Clients send either form. */
static void
take_time(const char *text, struct gateway_conditional_delete *condition)
{
    condition->asked = true;
    condition->timed = true;
    if (!kvt_clock_parse_http(text, &condition->modified_ms) &&
        !kvt_clock_parse(text, &condition->modified_ms))
        condition->invalid = true;
}

void
gateway_conditional_delete_headers(const struct gateway_request *request,
                                   struct gateway_conditional_delete *condition)
{
    static const char *const unoffered[] = {"if-none-match", "if-modified-since",
                                            "if-unmodified-since", "x-amz-if-match-initiated-time"};
    const char *match = gateway_request_header(request, "if-match");
    const char *size = gateway_request_header(request, "x-amz-if-match-size");
    const char *time = gateway_request_header(request, "x-amz-if-match-last-modified-time");

    *condition = (struct gateway_conditional_delete){.asked = false};
    if (match != NULL)
        take_match(match, condition);
    if (size != NULL)
        take_size(size, condition);
    if (time != NULL)
        take_time(time, condition);
    for (size_t i = 0; i < sizeof(unoffered) / sizeof(unoffered[0]); i++)
        if (gateway_request_header(request, unoffered[i]) != NULL)
            condition->asked = condition->unoffered = true;
}

bool
gateway_conditional_delete_element(const char *name, const char *text,
                                   struct gateway_conditional_delete *condition)
{
    if (strcmp(name, "ETag") == 0)
        take_match(text, condition);
    else if (strcmp(name, "Size") == 0)
        take_size(text, condition);
    else if (strcmp(name, "LastModifiedTime") == 0)
        take_time(text, condition);
    else
        return false;
    return true;
}

struct looking {
    struct gateway_s3 *s3;
    const char *stored;
    const struct gateway_conditional_delete *condition;
};

static enum kvt_err
judge(const struct gateway_conditional_delete *condition, const char *etag, uint64_t size,
      uint64_t modified_ms)
{
    const bool holds =
        (condition->match[0] == '\0' || gateway_condition_lists(condition->match, etag)) &&
        (!condition->sized || condition->size == size) &&
        (!condition->timed || condition->modified_ms / 1000 == modified_ms / 1000);

    return holds ? KVT_OK : KVT_PRECONDITION;
}

/* With the key held: nobody changes the object through this gateway until it is removed. */
static enum kvt_err
look(void *arg)
{
    const struct looking *looking = arg;
    struct gateway_opaque object = {.key = looking->stored};
    struct gateway_item item = {.key = looking->stored};
    enum kvt_err rc;

    if (!gateway_object_key_is_block(looking->stored, NULL)) {
        rc = gateway_opaque_find(looking->s3->context, &object);
        return rc == KVT_OK
                   ? judge(looking->condition, object.etag, object.length, object.modified_ms)
                   : rc;
    }
    gateway_get_find(looking->s3->context, &item, 1);
    return item.status == KVT_OK ? judge(looking->condition, item.record.etag, item.record.length,
                                         item.record.modified_ms)
                                 : item.status;
}

enum gateway_s3_error
gateway_conditional_delete_run(struct gateway_s3 *s3, const char *stored,
                               const struct gateway_conditional_delete *condition)
{
    struct looking looking = {.s3 = s3, .stored = stored, .condition = condition};

    if (condition->unoffered)
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (condition->invalid)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    return gateway_request_fault_of(gateway_remove_if(s3->context, stored, look, &looking));
}
