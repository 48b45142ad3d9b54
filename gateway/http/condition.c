#include "gateway/http/condition.h"

#include <string.h>

#include "base/core/clock.h"
#include "g4/object/g4_store.h"

bool
gateway_condition_lists(const char *list, const char *etag)
{
    const char *at;
    size_t size;

    while ((at = gateway_request_item(&list, &size)) != NULL) {
        if (size > 2 && at[0] == 'W' && at[1] == '/') {
            at += 2;
            size -= 2;
        }
        if (size >= 2 && at[0] == '"' && at[size - 1] == '"') {
            at++;
            size -= 2;
        }
        if ((size == 1 && *at == '*') || (size == strlen(etag) && memcmp(at, etag, size) == 0))
            return true;
    }
    return false;
}

/* Was it changed after the date?  A header that is not there, or no date, says nothing. */
static bool
changed_since(const char *date, uint64_t modified_ms, bool *changed)
{
    uint64_t date_ms;

    *changed = false;
    if (date == NULL || !kvt_clock_parse_http(date, &date_ms))
        return false;
    *changed = modified_ms / 1000 > date_ms / 1000;
    return true;
}

/* The four headers of one read: each may be NULL. */
struct asked {
    const char *match;
    const char *none_match;
    const char *modified;
    const char *unmodified;
};

static enum gateway_s3_error
judge(const struct asked *asked, const char *etag, uint64_t modified_ms)
{
    bool changed;

    if (asked->match != NULL) {
        if (!gateway_condition_lists(asked->match, etag))
            return GATEWAY_S3_ERROR_PRECONDITION;
    } else if (changed_since(asked->unmodified, modified_ms, &changed) && changed) {
        return GATEWAY_S3_ERROR_PRECONDITION;
    }
    if (asked->none_match != NULL)
        return gateway_condition_lists(asked->none_match, etag) ? GATEWAY_S3_ERROR_NOT_MODIFIED
                                                                : GATEWAY_S3_ERROR_NONE;
    if (changed_since(asked->modified, modified_ms, &changed) && !changed)
        return GATEWAY_S3_ERROR_NOT_MODIFIED;
    return GATEWAY_S3_ERROR_NONE;
}

enum gateway_s3_error
gateway_condition_read(const struct gateway_request *request, const char *etag,
                       uint64_t modified_ms)
{
    const struct asked asked = {
        .match = gateway_request_header(request, "if-match"),
        .none_match = gateway_request_header(request, "if-none-match"),
        .modified = gateway_request_header(request, "if-modified-since"),
        .unmodified = gateway_request_header(request, "if-unmodified-since"),
    };

    return judge(&asked, etag, modified_ms);
}

enum gateway_s3_error
gateway_condition_copy(const struct gateway_request *request, const char *etag,
                       uint64_t modified_ms)
{
    const struct asked asked = {
        .match = gateway_request_header(request, "x-amz-copy-source-if-match"),
        .none_match = gateway_request_header(request, "x-amz-copy-source-if-none-match"),
        .modified = gateway_request_header(request, "x-amz-copy-source-if-modified-since"),
        .unmodified = gateway_request_header(request, "x-amz-copy-source-if-unmodified-since"),
    };

    return judge(&asked, etag, modified_ms) == GATEWAY_S3_ERROR_NONE
               ? GATEWAY_S3_ERROR_NONE
               : GATEWAY_S3_ERROR_PRECONDITION;
}

enum gateway_s3_error
gateway_condition_write(const struct gateway_request *request, const char *etag)
{
    const char *match = gateway_request_header(request, "if-match");
    const char *none = gateway_request_header(request, "if-none-match");

    if (match != NULL && etag == NULL)
        return GATEWAY_S3_ERROR_NO_SUCH_KEY;
    if (match != NULL && !gateway_condition_lists(match, etag))
        return GATEWAY_S3_ERROR_PRECONDITION;
    if (none != NULL && etag != NULL && gateway_condition_lists(none, etag))
        return GATEWAY_S3_ERROR_PRECONDITION;
    return GATEWAY_S3_ERROR_NONE;
}
