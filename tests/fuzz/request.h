/*
 * tests/fuzz/request.h -- a request made of the lines of an input.
 *
 * Why: several targets look at what comes in a request's first line and headers.
 * Ownership: give it back with gateway_request_release(request, NULL).
 * Threads:   one.
 * Limits:    as gateway/http/request.h; lines that are too many are left out.
 */
#ifndef TESTS_FUZZ_REQUEST_H
#define TESTS_FUZZ_REQUEST_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/request.h"

/** The input as text: what stands behind a NUL is left out.  Free with kvt_free(). */
static inline char *
request_text(const uint8_t *bytes, size_t size)
{
    char *text = kvt_calloc(size + 1, 1);

    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, bytes, size);
    return text;
}

/** End the line at `*at` and move behind it; the line, or NULL where the text is over. */
static inline char *
request_line(char **at)
{
    char *line = *at;
    const size_t size = strcspn(line, "\r\n");

    if (*line == '\0')
        return NULL;
    *at = line + size + (line[size] == '\0' ? 0 : 1);
    line[size] = '\0';
    return line;
}

/** A request for `raw` with the lines "Name: value" of `headers`, which it cuts up.  NULL: no such
 *  target can be asked for. */
static inline struct gateway_request *
request_of(const char *method, const char *raw, char *headers)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));
    char *line;

    if (request == NULL)
        abort();
    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    kvt_buffer_init(&request->body, 4096);
    kvt_buffer_init(&request->answer, 65536);
    if (request->raw == NULL ||
        gateway_target_parse(request->raw, &request->target, NULL) != KVT_OK) {
        gateway_request_release(request, NULL);
        return NULL;
    }
    while ((line = request_line(&headers)) != NULL) {
        char *value = strchr(line, ':');

        if (value == NULL || value == line)
            continue;
        *value++ = '\0';
        value += strspn(value, " \t");
        (void)!gateway_request_header_add(request, line, value);
    }
    return request;
}

#endif /* TESTS_FUZZ_REQUEST_H */
