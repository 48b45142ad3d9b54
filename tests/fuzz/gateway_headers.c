/*
 * Property: any headers are refused or understood: what is kept with an object is whole lines
 * without control bytes, a range is within the object, a date that was read is written the same,
 * and a condition holds or does not.  The input is headers, a line each.
 */
#include <assert.h>

#include "base/core/clock.h"
#include "gateway/http/attributes.h"
#include "gateway/http/condition.h"
#include "gateway/http/payload.h"
#include "gateway/http/range.h"

#include "tests/fuzz/request.h"
#include "tests/fuzz/target.h"

#define ETAG "37b51d194a7513e45b56f6524f2d51f2"

static void
check_attributes(struct gateway_request *request)
{
    char text[G4_ATTRIBUTES_MAX];
    const enum gateway_s3_error fault = gateway_attributes_take(request, text);

    assert(strlen(text) < sizeof(text));
    assert(fault == GATEWAY_S3_ERROR_NONE || fault == GATEWAY_S3_ERROR_META_LARGE ||
           fault == GATEWAY_S3_ERROR_INVALID_ARGUMENT);
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1) {
        const char *colon = strstr(at, ": ");

        assert(colon != NULL && colon > at && colon < at + strcspn(at, "\n"));
        for (const char *byte = at; *byte != '\n'; byte++)
            assert((unsigned char)*byte >= 0x20 && *byte != 0x7f);
    }
    gateway_attributes_answer(request, text, true);
    gateway_attribute_lines_strip(text);
    assert(strstr(text, "\nx-amz-meta-kvt-") == NULL);
}

static void
check_ranges(const char *text)
{
    static const uint64_t lengths[] = {0, 1, 11, UINT64_MAX};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint64_t from;
        uint64_t to;
        uint64_t exact_from;
        uint64_t exact_to;
        const enum gateway_range range = gateway_range_parse(text, lengths[i], &from, &to);

        if (range == GATEWAY_RANGE_PART)
            assert(from <= to && to < lengths[i]);
        else
            assert(from == 0 && to == 0);
        if (gateway_range_exact(text, lengths[i], &exact_from, &exact_to) == GATEWAY_RANGE_PART)
            assert(range == GATEWAY_RANGE_PART && exact_from == from && exact_to == to);
    }
}

static void
check_date(const char *text)
{
    char again[KVT_CLOCK_HTTP_MAX];
    uint64_t at_ms;
    uint64_t again_ms;

    if (!kvt_clock_parse_http(text, &at_ms)) {
        assert(at_ms == 0);
        return;
    }
    kvt_clock_format_http(at_ms, again);
    assert(kvt_clock_parse_http(again, &again_ms) && again_ms == at_ms);
}

static void
check_list(const char *list)
{
    const char *end = list + strlen(list);
    const char *item;
    size_t size;

    (void)gateway_condition_lists(list, ETAG);
    while ((item = gateway_request_item(&list, &size)) != NULL)
        assert(item + size <= end && list <= end);
}

static void
check_conditions(const struct gateway_request *request)
{
    const enum gateway_s3_error read = gateway_condition_read(request, ETAG, 1000);
    const enum gateway_s3_error copy = gateway_condition_copy(request, ETAG, 1000);
    const enum gateway_s3_error write = gateway_condition_write(request, ETAG);
    const enum gateway_s3_error fresh = gateway_condition_write(request, NULL);

    assert(read == GATEWAY_S3_ERROR_NONE || read == GATEWAY_S3_ERROR_NOT_MODIFIED ||
           read == GATEWAY_S3_ERROR_PRECONDITION);
    assert(copy == GATEWAY_S3_ERROR_NONE || copy == GATEWAY_S3_ERROR_PRECONDITION);
    assert(write == GATEWAY_S3_ERROR_NONE || write == GATEWAY_S3_ERROR_PRECONDITION);
    assert(fresh == GATEWAY_S3_ERROR_NONE || fresh == GATEWAY_S3_ERROR_NO_SUCH_KEY);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = request_text(bytes, size);
    struct gateway_request *request = request_of("PUT", "/b/k", text);
    uint64_t length;

    assert(request != NULL);
    check_attributes(request);
    check_conditions(request);
    for (size_t i = 0; i < request->header_count; i++) {
        check_ranges(request->headers[i].value);
        check_date(request->headers[i].value);
        check_list(request->headers[i].value);
    }
    if (gateway_payload_begin(request, &length) == GATEWAY_S3_ERROR_NONE)
        (void)gateway_payload_check(request);
    gateway_request_release(request, NULL);
    kvt_free(text);
    return 0;
}
