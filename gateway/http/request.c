#include "gateway/http/request.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "gateway/http/xml_write.h"
#include "gateway/tier/body_cache.h"

struct fault_row {
    unsigned status;
    const char *code;
    const char *message;
};

static const struct fault_row fault_rows[GATEWAY_S3_ERROR_COUNT] = {
#define X(name, status, code, message) [GATEWAY_S3_ERROR_##name] = {status, code, message},
    GATEWAY_S3_ERROR_MAP(X)
#undef X
};

enum kvt_err
gateway_request_header_add(struct gateway_request *request, const char *name, const char *value)
{
    const size_t name_size = strlen(name) + 1;
    const size_t value_size = strlen(value) + 1;
    char *at;

    if (request->header_text == NULL) {
        request->header_text = kvt_calloc(1, GATEWAY_HEADER_BYTES);
        if (request->header_text == NULL)
            return KVT_NOMEM;
    }
    if (request->header_count == GATEWAY_HEADERS_MAX ||
        name_size + value_size > GATEWAY_HEADER_BYTES - request->header_used)
        return KVT_RANGE;
    at = request->header_text + request->header_used;
    memcpy(at, name, name_size);
    memcpy(at + name_size, value, value_size);
    request->header_used += name_size + value_size;
    request->headers[request->header_count++] =
        (struct g4_sigv4_header){.name = at, .value = at + name_size};
    return KVT_OK;
}

const char *
gateway_request_header(const struct gateway_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

bool
gateway_request_number(const struct gateway_request *request, const char *name, uint64_t *value)
{
    const char *text = gateway_request_header(request, name);

    return text == NULL || kvt_parse_u64(text, value) == KVT_OK;
}

bool
gateway_request_hex(const struct gateway_request *request, const char *name, uint64_t *value)
{
    const char *text = gateway_request_header(request, name);
    char *end = NULL;

    *value = 0;
    if (text == NULL)
        return true;
    errno = 0;
    *value = strtoull(text, &end, 16);
    return errno == 0 && isxdigit((unsigned char)text[0]) && *end == '\0';
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

const char *
gateway_request_item(const char **list, size_t *size)
{
    const char *item = *list;

    *size = strcspn(item, ",");
    if (*item == '\0')
        return NULL;
    *list += *size + (item[*size] == ',' ? 1 : 0);
    for (; *size > 0 && is_blank(*item); --*size)
        item++;
    while (*size > 0 && is_blank(item[*size - 1]))
        --*size;
    return item;
}

void
gateway_request_field(struct gateway_request *request, const char *name, const char *format, ...)
{
    struct gateway_field *field = &request->fields[request->field_count];
    va_list args;

    assert(request->field_count < GATEWAY_FIELDS_MAX);
    field->name = name;
    va_start(args, format);
    (void)vsnprintf(field->value, sizeof(field->value), format, args);
    va_end(args);
    /* Nothing that came from outside may end the line and begin another field. */
    field->value[strcspn(field->value, "\r\n")] = '\0';
    request->field_count++;
}

bool
gateway_request_is(const struct gateway_request *request, const char *method)
{
    return strcmp(request->method, method) == 0;
}

const void *
gateway_request_bytes(const struct gateway_request *request)
{
    return request->body.data == NULL ? (const void *)"" : request->body.data;
}

enum gateway_s3_error
gateway_request_answer(struct gateway_request *request, const char *content_type)
{
    if (!kvt_buffer_ok(&request->answer))
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    request->status = 200;
    request->content_type = content_type;
    request->body_size = request->answer.size;
    return GATEWAY_S3_ERROR_NONE;
}

static void
close_reader(struct gateway_request *request)
{
    if (request->reader != NULL)
        request->close_reader(request->reader);
    request->reader = NULL;
}

enum gateway_s3_error
gateway_request_fail(struct gateway_request *request, enum gateway_s3_error fault)
{
    const struct fault_row *row = &fault_rows[fault];

    assert(fault != GATEWAY_S3_ERROR_NONE && fault < GATEWAY_S3_ERROR_COUNT);
    request->fault = fault;
    request->status = row->status;
    request->head_only = false;
    request->content_type = "application/xml";
    kvt_buffer_clear(&request->answer);
    close_reader(request);
    request->body_from = 0;
    request->body_size = 0;
    if (fault == GATEWAY_S3_ERROR_NOT_MODIFIED)
        return fault;
    request->field_count = 0;
    kvt_buffer_clear(&request->lines);
    if (gateway_request_is(request, "HEAD"))
        return fault;
    kvt_buffer_printf(&request->answer,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<Error><Code>%s</Code><Message>%s</Message><Resource>",
                      row->code, row->message);
    gateway_xml_write_text(&request->answer, request->target.path);
    kvt_buffer_printf(&request->answer, "</Resource>");
    if (request->target.key != NULL && request->target.key[0] != '\0')
        gateway_xml_write_element(&request->answer, "Key", request->target.key);
    kvt_buffer_printf(&request->answer, "<RequestId>%s</RequestId></Error>\n", request->id);
    request->body_size = request->answer.size;
    return fault;
}

const char *
gateway_request_code(enum gateway_s3_error fault)
{
    return fault_rows[fault].code;
}

enum gateway_s3_error
gateway_request_fault_of(enum kvt_err code)
{
    switch (code) {
    case KVT_OK: return GATEWAY_S3_ERROR_NONE;
    case KVT_NOTFOUND: return GATEWAY_S3_ERROR_NO_SUCH_KEY;
    case KVT_EXISTS: return GATEWAY_S3_ERROR_PRECONDITION;
    case KVT_PRECONDITION: return GATEWAY_S3_ERROR_PRECONDITION;
    case KVT_FULL: return GATEWAY_S3_ERROR_FULL;
    case KVT_AGAIN:
    case KVT_BUSY:
    case KVT_NOMEM: return GATEWAY_S3_ERROR_SLOW_DOWN;
    case KVT_TIMEOUT:
    case KVT_UNAVAILABLE: return GATEWAY_S3_ERROR_UNAVAILABLE;
    case KVT_CORRUPT: return GATEWAY_S3_ERROR_BAD_DIGEST;
    case KVT_INVALID: return GATEWAY_S3_ERROR_INVALID_REQUEST;
    case KVT_RANGE: return GATEWAY_S3_ERROR_TOO_LARGE;
    case KVT_UNSUPPORTED: return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    case KVT_DENIED: return GATEWAY_S3_ERROR_REFUSED;
    default: return GATEWAY_S3_ERROR_INTERNAL;
    }
}

void
gateway_request_release(struct gateway_request *request, struct gateway_budget *budget)
{
    struct gateway_body_cache *cache = budget == NULL ? NULL : budget->body_cache;

    if (request == NULL)
        return;
    if (request->taken > 0)
        gateway_budget_give(budget, request->taken);
    gateway_client_credentials_drop(request->credentials);
    gateway_chunked_free(request->chunked);
    close_reader(request);
    gateway_body_cache_release(cache, &request->body);
    gateway_body_cache_release(cache, &request->answer);
    kvt_buffer_release(&request->lines);
    kvt_free(request->header_text);
    kvt_free(request->raw);
    kvt_free(request);
}
