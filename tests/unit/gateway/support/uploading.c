#include "tests/unit/gateway/support/uploading.h"

#include <stdio.h>
#include <string.h>

/* Begin an upload of /kvtier/big with these headers; its id. */
void
test_upload_begin_with(struct test_scene *s, const char *const *headers, char id[64])
{
    struct gateway_request *request =
        test_scene_ask_all(s, "POST", "/kvtier/big?uploads", NULL, 0, headers);
    const char *at = kvt_buffer_text(&request->answer);

    assert_int_equal(request->status, 200);
    assert_true(test_scene_element(&at, "<UploadId>", id, 64));
    test_scene_done(s, request);
}

void
test_upload_begin(struct test_scene *s, char id[64])
{
    const char *const headers[] = {"x-amz-meta-color", "red", NULL};

    test_upload_begin_with(s, headers, id);
}

unsigned
test_upload_part(struct test_scene *s, const char *id, unsigned number, const void *body,
                 size_t size)
{
    struct gateway_request *request;
    unsigned result;
    char raw[200];

    (void)snprintf(raw, sizeof(raw), "/kvtier/big?partNumber=%u&uploadId=%s", number, id);
    request = test_scene_ask(s, "PUT", raw, body, size, NULL, NULL);
    result = request->status;
    test_scene_done(s, request);
    return result;
}

/* Complete with these parts; the answer is the caller's to release. */
struct gateway_request *
test_upload_complete(struct test_scene *s, const char *id, const char *parts, const char *header,
                     const char *value)
{
    char raw[200];
    char body[2000];

    (void)snprintf(raw, sizeof(raw), "/kvtier/big?uploadId=%s", id);
    (void)snprintf(body, sizeof(body), "<CompleteMultipartUpload>%s</CompleteMultipartUpload>",
                   parts);
    return test_scene_ask(s, "POST", raw, body, strlen(body), header, value);
}

unsigned
test_upload_status(struct test_scene *s, const char *id, const char *parts, const char *code)
{
    struct gateway_request *request = test_upload_complete(s, id, parts, NULL, NULL);
    const unsigned result = request->status;

    assert_non_null(strstr(kvt_buffer_text(&request->answer), code));
    test_scene_done(s, request);
    return result;
}
