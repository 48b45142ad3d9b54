/*
 * What is tested: gateway/s3/multipart.c: uploads in parts and their checksums.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "gateway/http/attributes.h"
#include "gateway/upload/uploads.h"

#include "tests/unit/gateway/support/uploading.h"

static const struct gateway_principal tenant = {
    .access = "tenant",
    .grants = {{.prefix = "t/", .rights = GATEWAY_RIGHTS_ALL}},
    .grant_count = 1};

static void
uploads_are_completed(void **state)
{
    struct test_scene *s = *state;
    const size_t big = 5u << 20;
    struct gateway_request *request;
    uint8_t *body = kvt_calloc(1, big);
    char text[100];
    char id[64];

    s->budget.max = 64u << 20;
    s->gateway.context->body_limits.object_max = 8u << 20;
    test_upload_begin(s, id);
    assert_int_equal(test_upload_part(s, id, 0, "x", 1), 400);
    assert_int_equal(test_upload_part(s, id, 10001, "x", 1), 400);
    assert_int_equal(test_upload_part(s, "0123456789abcdef0123456789abcdef", 1, "x", 1), 404);
    assert_int_equal(test_upload_part(s, "../../x", 1, "x", 1), 404);
    assert_int_equal(test_upload_part(s, id, 3, "other", 5), 200);
    assert_int_equal(test_upload_part(s, id, 3, "hello", 5), 200); /* the last one counts */
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/big", "", NULL, NULL), 404);
    test_gateway_reopen(&s->gateway);
    s->gateway.context->body_limits.object_max = 8u << 20;
    assert_int_equal(test_upload_part(s, id, 7, "hello", 5), 200);
    (void)snprintf(text, sizeof(text), "/kvtier/big?uploadId=%s&max-parts=1", id);
    request = test_scene_ask(s, "GET", text, NULL, 0, NULL, NULL);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<PartNumber>3</PartNumber>"));
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<IsTruncated>true</IsTruncated>"));
    assert_non_null(strstr(kvt_buffer_text(&request->answer), HELLO));
    test_scene_done(s, request);
    request = test_scene_ask(s, "GET", "/kvtier?uploads&prefix=bi", NULL, 0, NULL, NULL);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), id));
    test_scene_done(s, request);

    /* The order is judged before the sizes, both before anything is stored. */
    assert_int_equal(
        test_upload_status(s, id, PART("7", HELLO) PART("3", HELLO), "InvalidPartOrder"), 400);
    assert_int_equal(test_upload_status(s, id, PART("3", HELLO) PART("7", HELLO), "EntityTooSmall"),
                     400);
    assert_int_equal(test_upload_status(s, id, PART("3", "no"), "InvalidPart"), 400);
    assert_int_equal(test_upload_status(s, id, PART("4", HELLO), "InvalidPart"), 400);
    assert_int_equal(test_upload_status(s, id, "", "MalformedXML"), 400);
    assert_int_equal(test_upload_part(s, id, 3, body, big), 200);
    request = test_upload_complete(
        s, id, PART("3", "5f363e0e58a95f06cbe9bbc662c5dfb6") PART("7", HELLO), NULL, NULL);
    assert_int_equal(request->status, 200);
    test_scene_done(s, request);
    request = test_scene_ask(s, "GET", "/kvtier/big", NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_int_equal(request->body_size, big + 5);
    assert_memory_equal(request->answer.data, body, big);
    assert_memory_equal(request->answer.data + big, "hello", 5);
    /* md5(unhex(md5 of part 3) + unhex(md5 of part 7)) */
    assert_string_equal(test_scene_field(request, "ETag"),
                        "\"1a1761a0c87a46829d8a65122ae36c1a-2\"");
    assert_string_equal(test_scene_line(request, "x-amz-meta-color", text, sizeof(text)), "red");
    test_scene_done(s, request);
    request =
        test_scene_ask(s, "GET", "/kvtier?list-type=2", NULL, 0, NULL, NULL); /* as HEAD shows it */
    assert_non_null(
        strstr(kvt_buffer_text(&request->answer), "1a1761a0c87a46829d8a65122ae36c1a-2"));
    test_scene_done(s, request);
    /* Asked once more for what is there, it is; for anything else the upload is gone. */
    request = test_upload_complete(
        s, id, PART("3", "5f363e0e58a95f06cbe9bbc662c5dfb6") PART("7", HELLO), NULL, NULL);
    assert_int_equal(request->status, 200);
    assert_non_null(
        strstr(kvt_buffer_text(&request->answer), "1a1761a0c87a46829d8a65122ae36c1a-2"));
    test_scene_done(s, request);
    assert_int_equal(test_upload_status(s, id, PART("3", HELLO), "NoSuchUpload"), 404);
    assert_int_equal(test_upload_status(s, id, PART("3", "no"), "NoSuchUpload"), 404);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/big", "new", NULL, NULL), 200);
    assert_int_equal(
        test_upload_status(s, id, PART("3", "5f363e0e58a95f06cbe9bbc662c5dfb6") PART("7", HELLO),
                           "NoSuchUpload"),
        404);
    kvt_free(body);
}

static void
uploads_heed_conditions_and_end(void **state)
{
    static const char *const copy[] = {"x-amz-copy-source", "kvtier/src", "x-amz-copy-source-range",
                                       "bytes=1-5", NULL};
    struct test_scene *s = *state;
    struct gateway_request *request;
    char raw[200];
    char id[64];

    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/src", ".hello.", NULL, NULL), 200);
    assert_int_equal(test_scene_status(s, "PUT", "/kvtier/big", "old", NULL, NULL), 200);
    test_upload_begin(s, id);
    (void)snprintf(raw, sizeof(raw), "/kvtier/big?partNumber=1&uploadId=%s", id);
    request = test_scene_ask_all(s, "PUT", raw, NULL, 0, copy);
    assert_int_equal(request->status, 200);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), HELLO));
    test_scene_done(s, request);
    request = test_upload_complete(s, id, PART("1", HELLO), "If-None-Match", "*");
    assert_int_equal(request->status, 412);
    test_scene_done(s, request);
    request = test_upload_complete(s, id, PART("1", HELLO), "x-amz-mp-object-size", "6");
    assert_int_equal(request->status, 400);
    test_scene_done(s, request);
    s->who = &tenant;
    request = test_upload_complete(s, id, PART("1", HELLO), NULL, NULL);
    assert_int_equal(request->status, 403);
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "POST", "/kvtier/big?uploads", "", NULL, NULL), 403);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier?uploads", "", NULL, NULL), 403);
    s->who = &test_scene_owner;
    (void)snprintf(raw, sizeof(raw), "/kvtier/other?uploadId=%s", id);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", NULL, NULL), 404); /* of another key */
    gateway_uploads_expire(s->gateway.context, kvt_clock_unix_ms());
    request = test_upload_complete(s, id, PART("1", HELLO), NULL, NULL);
    assert_int_equal(request->status, 200);
    test_scene_done(s, request);
    test_upload_begin(s, id);
    (void)snprintf(raw, sizeof(raw), "/kvtier/big?uploadId=%s", id);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", NULL, NULL), 204);
    assert_int_equal(test_scene_status(s, "DELETE", raw, "", NULL, NULL), 404);
    test_upload_begin(s, id);
    assert_int_equal(test_upload_part(s, id, 1, "x", 1), 200);
    gateway_uploads_expire(s->gateway.context, kvt_clock_unix_ms() + GATEWAY_UPLOADS_AGE_MS + 1);
    assert_int_equal(test_upload_part(s, id, 2, "x", 1), 404);
}

/* ---- attributes ---- */

/* Begin an upload, complete it under a condition where it was begun; was it begun? */
static bool
begun_is_completed(struct test_scene *s, const char *const *headers)
{
    struct gateway_request *request =
        test_scene_ask_all(s, "POST", "/kvtier/big?uploads", NULL, 0, headers);
    const char *at = kvt_buffer_text(&request->answer);
    const unsigned status = request->status;
    char id[64];

    (void)test_scene_element(&at, "<UploadId>", id, sizeof(id));
    test_scene_done(s, request);
    if (status != 200) {
        assert_int_equal(status, 400);
        return false;
    }
    assert_int_equal(test_upload_part(s, id, 1, "hello", 5), 200);
    request = test_upload_complete(s, id, PART("1", HELLO), "If-None-Match", "*");
    if (request->status != 200)
        fail_msg("%s", kvt_buffer_text(&request->answer));
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "DELETE", "/kvtier/big", "", NULL, NULL), 204);
    return true;
}

/* As many attributes as are taken leave room for what completion adds. */
static void
attributes_leave_room(void **state)
{
    enum { LINES = G4_ATTRIBUTE_LINES };
    static const char *const algorithm[] = {"x-amz-checksum-algorithm", "SHA256"};
    struct test_scene *s = *state;
    const char *headers[2 * LINES + 4] = {NULL};
    char names[LINES][16];
    char value[G4_ATTRIBUTES_MAX + 1];
    unsigned begun = 0;

    for (size_t lines = LINES - 5; lines <= LINES; lines++) {
        for (size_t i = 0; i < lines; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "x-amz-meta-%zu", i);
            headers[2 * i] = names[i];
            headers[2 * i + 1] = "x";
        }
        memset(headers + 2 * lines, 0, 4 * sizeof(headers[0]));
        assert_int_equal(begun_is_completed(s, headers), lines <= LINES - 2);
        memcpy(headers + 2 * lines, algorithm, sizeof(algorithm));
        assert_int_equal(begun_is_completed(s, headers), lines <= LINES - 4);
    }
    memset(headers, 0, sizeof(headers));
    memset(value, 'x', sizeof(value));
    for (size_t size = G4_ATTRIBUTES_MAX - 400; size < G4_ATTRIBUTES_MAX; size += 12) {
        value[size] = '\0';
        headers[0] = "content-disposition";
        headers[1] = value;
        headers[2] = NULL;
        begun += begun_is_completed(s, headers) ? 1 : 0;
        memcpy(headers + 2, algorithm, sizeof(algorithm));
        begun += begun_is_completed(s, headers) ? 1 : 0;
        value[size] = 'x';
    }
    assert_in_range(begun, 1, 2 * 33); /* both happen */
}

/* One that was begun where nothing was kept free, and a claim that finds no room, either. */
static void
attributes_that_fill_all(void **state)
{
    static const char *const claim[] = {"x-amz-checksum-crc32", "NhCmhg==", "x-amz-checksum-type",
                                        "FULL_OBJECT", NULL};
    static const char body[] =
        "<CompleteMultipartUpload>" PART("1", HELLO) "</CompleteMultipartUpload>";
    struct test_scene *s = *state;
    struct gateway_upload upload = {.key = "big"};
    struct gateway_request *request;
    char raw[200];
    char text[100];

    for (unsigned i = 0; i + 1 < G4_ATTRIBUTE_LINES; i++) {
        (void)snprintf(raw, sizeof(raw), "x-amz-meta-%u", i);
        assert_true(gateway_attribute_lines_add(upload.attributes, raw, "x"));
    }
    assert_int_equal(gateway_uploads_create(s->gateway.context, &upload), KVT_OK);
    assert_int_equal(test_upload_part(s, upload.id, 1, "hello", 5), 200);
    (void)snprintf(raw, sizeof(raw), "/kvtier/big?uploadId=%s", upload.id);
    request = test_scene_ask_all(s, "POST", raw, body, strlen(body), claim);
    assert_int_equal(request->status, 200);
    test_scene_done(s, request);
    request = test_scene_ask(s, "GET", "/kvtier/big", NULL, 0, "x-amz-checksum-mode", "ENABLED");
    assert_int_equal(request->body_size, 5);
    assert_string_equal(test_scene_line(request, "x-amz-meta-38", text, sizeof(text)), "x");
    assert_string_equal(test_scene_line(request, "x-amz-checksum-crc32", text, sizeof(text)), "");
    test_scene_done(s, request);
    assert_int_equal(test_scene_status(s, "GET", "/kvtier/big?partNumber=1", "", NULL, NULL), 501);
}

/* ---- checksums ---- */

static void
checksums_are_asked_for(void **state)
{
    static const struct {
        const char *headers[5];
        unsigned status;
        const char *type;
    } rows[] = {
        {{"x-amz-checksum-algorithm", "CRC32"}, 200, "COMPOSITE"},
        {{"x-amz-checksum-algorithm", "crc32c"}, 200, "COMPOSITE"},
        {{"x-amz-checksum-algorithm", "SHA1"}, 200, "COMPOSITE"},
        {{"x-amz-checksum-algorithm", "SHA256"}, 200, "COMPOSITE"},
        {{"x-amz-checksum-algorithm", "CRC64NVME"}, 200, "FULL_OBJECT"},
        {{"x-amz-checksum-algorithm", "CRC32", "x-amz-checksum-type", "FULL_OBJECT"},
         200,
         "FULL_OBJECT"},
        {{"x-amz-checksum-algorithm", "SHA256", "x-amz-checksum-type", "COMPOSITE"},
         200,
         "COMPOSITE"},
        {{"x-amz-checksum-algorithm", "SHA256", "x-amz-checksum-type", "FULL_OBJECT"}, 400, ""},
        {{"x-amz-checksum-algorithm", "SHA1", "x-amz-checksum-type", "FULL_OBJECT"}, 400, ""},
        {{"x-amz-checksum-algorithm", "CRC64NVME", "x-amz-checksum-type", "COMPOSITE"}, 400, ""},
        {{"x-amz-checksum-algorithm", "CRC32", "x-amz-checksum-type", "OTHER"}, 400, ""},
        {{"x-amz-checksum-algorithm", "MD4"}, 400, ""},
        {{"x-amz-checksum-type", "COMPOSITE"}, 400, ""},
        {{"x-amz-meta-color", "red"}, 200, ""},
    };
    struct test_scene *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request =
            test_scene_ask_all(s, "POST", "/kvtier/big?uploads", NULL, 0, rows[i].headers);

        if (request->status != rows[i].status ||
            strcmp(test_scene_field(request, "x-amz-checksum-type"), rows[i].type) != 0)
            fail_msg("row %zu: %u", i, request->status);
        test_scene_done(s, request);
    }
}

/* An upload of 5 MiB of zeros and of "hello": all that is known of its checksum. */
struct sum {
    const char *const headers[5]; /* of its beginning */
    const char *header;
    const char *word;
    const char *parts[2];
    const char *whole; /* as it is told */
    const char *bare;  /* the same without the number of parts */
    const char *type;
};

static const struct sum sums[] = {
    {{"x-amz-checksum-algorithm", "CRC32"},
     "x-amz-checksum-crc32",
     "CRC32",
     {"yTuzdQ==", "NhCmhg=="},
     "MiNFzg==-2",
     "MiNFzg==",
     "COMPOSITE"},
    {{"x-amz-checksum-algorithm", "CRC32", "x-amz-checksum-type", "FULL_OBJECT"},
     "x-amz-checksum-crc32",
     "CRC32",
     {"yTuzdQ==", "NhCmhg=="},
     "OuNOOw==",
     "OuNOOw==",
     "FULL_OBJECT"},
    {{"x-amz-checksum-algorithm", "SHA256"},
     "x-amz-checksum-sha256",
     "SHA256",
     {"wDbLt1U6kJ+LiHfURhkkMH8n7LZs/5KO7q/VacOIfik=",
      "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="},
     "BvAbbg5MurpCMrVFaBO55WUNjpKOV++D3zl8x/rcQxE=-2",
     "BvAbbg5MurpCMrVFaBO55WUNjpKOV++D3zl8x/rcQxE=",
     "COMPOSITE"},
    {{"x-amz-checksum-algorithm", "CRC64NVME"},
     "x-amz-checksum-crc64nvme",
     "CRC64NVME",
     {NULL, "M3eFcAZSQlc="},
     "o665DA2GSdk=",
     "o665DA2GSdk=",
     "FULL_OBJECT"},
};

/* The checksum as an element, between these two. */
static void
expect_checksum(struct gateway_request *request, const char *before, const struct sum *sum,
                const char *value, const char *behind)
{
    char text[200];

    (void)snprintf(text, sizeof(text), "%s<Checksum%s>%s</Checksum%s>%s", before, sum->word, value,
                   sum->word, behind);
    if (strstr(kvt_buffer_text(&request->answer), text) == NULL)
        fail_msg("no %s", text);
}

static void
expect_listed(struct test_scene *s, const struct sum *sum, const char *id)
{
    struct gateway_request *request;
    char raw[200];

    (void)snprintf(raw, sizeof(raw), "/kvtier/big?uploadId=%s", id);
    request = test_scene_ask(s, "GET", raw, NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    (void)snprintf(raw, sizeof(raw),
                   "<ChecksumAlgorithm>%s</ChecksumAlgorithm><ChecksumType>%s</ChecksumType>",
                   sum->word, sum->type);
    assert_non_null(strstr(kvt_buffer_text(&request->answer), raw));
    expect_checksum(request, "</Size>", sum, sum->parts[1], "</Part>");
    test_scene_done(s, request);
}

/* What is said of the object that came of it, whole and in parts. */
static void
expect_told(struct test_scene *s, const struct sum *sum, const char *method)
{
    struct gateway_request *request = test_scene_ask(s, method, "/kvtier/big", NULL, 0, NULL, NULL);
    char text[100];

    assert_string_equal(test_scene_line(request, sum->header, text, sizeof(text)), "");
    test_scene_done(s, request);
    request = test_scene_ask(s, method, "/kvtier/big", NULL, 0, "x-amz-checksum-mode", "ENABLED");
    assert_string_equal(test_scene_line(request, sum->header, text, sizeof(text)), sum->whole);
    assert_string_equal(test_scene_line(request, "x-amz-checksum-type", text, sizeof(text)),
                        sum->type);
    test_scene_done(s, request);
    request = test_scene_ask(s, method, "/kvtier/big?partNumber=2", NULL, 0, "x-amz-checksum-mode",
                             "ENABLED");
    assert_int_equal(request->status, 206);
    assert_int_equal(request->length, 5);
    assert_string_equal(test_scene_field(request, "x-amz-mp-parts-count"), "2");
    assert_string_equal(test_scene_field(request, "Content-Range"),
                        "bytes 5242880-5242884/5242885");
    assert_string_equal(test_scene_line(request, sum->header, text, sizeof(text)), "");
    if (strcmp(method, "GET") == 0) {
        assert_memory_equal(request->answer.data + request->body_from, "hello", 5);
        assert_string_equal(test_scene_field(request, sum->header), sum->parts[1]);
        assert_string_equal(test_scene_field(request, "x-amz-checksum-type"), sum->type);
    }
    test_scene_done(s, request);
    request = test_scene_ask(s, method, "/kvtier/big", NULL, 0, "Range", "bytes=0-4");
    assert_string_equal(test_scene_line(request, sum->header, text, sizeof(text)), "");
    test_scene_done(s, request);
}

static void
expect_attributes(struct test_scene *s, const struct sum *sum)
{
    struct gateway_request *request =
        test_scene_ask(s, "GET", "/kvtier/big?attributes", NULL, 0, "x-amz-object-attributes",
                       "ETag, Checksum,ObjectParts,StorageClass,ObjectSize");

    assert_int_equal(request->status, 200);
    assert_non_null(strstr(kvt_buffer_text(&request->answer),
                           "<ETag>1a1761a0c87a46829d8a65122ae36c1a-2</ETag>"));
    assert_non_null(strstr(kvt_buffer_text(&request->answer),
                           "<StorageClass>STANDARD</StorageClass>"
                           "<ObjectSize>5242885</ObjectSize>"));
    assert_non_null(strstr(kvt_buffer_text(&request->answer), "<PartsCount>2</PartsCount>"));
    expect_checksum(request, "<Checksum>", sum, sum->bare, "<ChecksumType>");
    expect_checksum(request, "<PartNumber>7</PartNumber><Size>5</Size>", sum, sum->parts[1], "");
    test_scene_done(s, request);
}

static void
checksums_are_kept(void **state)
{
    struct test_scene *s = *state;
    const size_t big = 5u << 20;
    uint8_t *body = kvt_calloc(1, big);
    struct gateway_request *request;
    char id[64];

    s->budget.max = 64u << 20;
    s->gateway.context->body_limits.object_max = 8u << 20;
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        const struct sum *sum = &sums[i];
        char named[500];

        test_upload_begin_with(s, sum->headers, id);
        assert_int_equal(test_upload_part(s, id, 3, body, big), 200);
        assert_int_equal(test_upload_part(s, id, 7, "hello", 5), 200);
        expect_listed(s, sum, id);
        (void)snprintf(named, sizeof(named),
                       "<Part><PartNumber>3</PartNumber><ETag>" BIG "</ETag></Part>"
                       "<Part><PartNumber>7</PartNumber><ETag>" HELLO "</ETag>"
                       "<Checksum%s>%s</Checksum%s></Part>",
                       sum->word, sum->parts[0] == NULL ? "AAAAAAAAAAA=" : sum->parts[0],
                       sum->word);
        assert_int_equal(test_upload_status(s, id, named, "InvalidPart"), 400);
        (void)snprintf(named, sizeof(named),
                       "<Part><PartNumber>3</PartNumber><ETag>" BIG "</ETag></Part>"
                       "<Part><PartNumber>7</PartNumber><ETag>" HELLO "</ETag>"
                       "<Checksum%s>%s</Checksum%s></Part>",
                       sum->word, sum->parts[1], sum->word);
        request = test_upload_complete(s, id, named, sum->header, "bad");
        assert_int_equal(request->fault, GATEWAY_S3_ERROR_BAD_DIGEST);
        test_scene_done(s, request);
        request = test_upload_complete(s, id, named, sum->header, sum->parts[1]);
        assert_int_equal(request->fault, GATEWAY_S3_ERROR_BAD_DIGEST);
        test_scene_done(s, request);
        request = test_upload_complete(s, id, named, "x-amz-checksum-sha1", sum->bare);
        assert_int_equal(request->fault, GATEWAY_S3_ERROR_INVALID_REQUEST);
        test_scene_done(s, request);
        request = test_upload_complete(s, id, named, "x-amz-checksum-type",
                                       sum->type[0] == 'C' ? "FULL_OBJECT" : "COMPOSITE");
        assert_int_equal(request->fault, GATEWAY_S3_ERROR_BAD_DIGEST);
        test_scene_done(s, request);
        request =
            test_upload_complete(s, id, named, sum->header, i % 2 == 0 ? sum->whole : sum->bare);
        assert_int_equal(request->status, 200);
        expect_checksum(request, "</ETag>", sum, sum->whole, "<ChecksumType>");
        test_scene_done(s, request);
        request = test_upload_complete(s, id, named, NULL, NULL); /* its answer was lost */
        assert_int_equal(request->status, 200);
        expect_checksum(request, "</ETag>", sum, sum->whole, "<ChecksumType>");
        test_scene_done(s, request);
        expect_told(s, sum, "HEAD");
        expect_told(s, sum, "GET");
        expect_attributes(s, sum);
    }
    kvt_free(body);
}

/* What a client claims of an upload that was begun without any is compared, or refused. */
static void
checksums_that_were_not_agreed(void **state)
{
    static const struct {
        const char *claim[9];
        enum gateway_s3_error fault;
        const char *told; /* as CRC32 */
    } rows[] = {
        {{"x-amz-checksum-crc32", "AAAAAA=="}, GATEWAY_S3_ERROR_BAD_DIGEST, ""},
        {{"x-amz-checksum-crc32", "NhCmhg==-1"}, GATEWAY_S3_ERROR_BAD_DIGEST, ""},
        {{"x-amz-checksum-crc32", "AAAAAA==", "x-amz-checksum-type", "FULL_OBJECT"},
         GATEWAY_S3_ERROR_BAD_DIGEST,
         ""},
        {{"x-amz-checksum-crc32", "NhCmhg==", "x-amz-checksum-type", "COMPOSITE"},
         GATEWAY_S3_ERROR_INVALID_REQUEST,
         ""},
        {{"x-amz-checksum-sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="},
         GATEWAY_S3_ERROR_INVALID_REQUEST,
         ""},
        {{"x-amz-checksum-crc32", "NhCmhg==", "x-amz-checksum-crc64nvme", "M3eFcAZSQlc="},
         GATEWAY_S3_ERROR_INVALID_REQUEST,
         ""},
        {{"x-amz-checksum-crc64nvme", "M3eFcAZSQlc="}, GATEWAY_S3_ERROR_NONE, ""},
        {{"x-amz-checksum-crc32", "NhCmhg=="}, GATEWAY_S3_ERROR_NONE, "NhCmhg=="},
        {{"x-amz-checksum-crc32", "NhCmhg==", "x-amz-checksum-type", "FULL_OBJECT"},
         GATEWAY_S3_ERROR_NONE,
         "NhCmhg=="},
        {{NULL}, GATEWAY_S3_ERROR_NONE, ""},
    };
    static const char *const none[] = {"x-amz-meta-color", "red", NULL};
    static const char body[] =
        "<CompleteMultipartUpload>" PART("1", HELLO) "</CompleteMultipartUpload>";
    struct test_scene *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gateway_request *request;
        char text[100];
        char raw[200];
        char id[64];

        test_upload_begin_with(s, none, id);
        assert_int_equal(test_upload_part(s, id, 1, "hello", 5), 200);
        (void)snprintf(raw, sizeof(raw), "/kvtier/big?uploadId=%s", id);
        request = test_scene_ask_all(s, "POST", raw, body, strlen(body), rows[i].claim);
        if (request->fault != rows[i].fault)
            fail_msg("row %zu: %s", i, gateway_request_code(request->fault));
        test_scene_done(s, request);
        if (rows[i].fault != GATEWAY_S3_ERROR_NONE)
            continue;
        request =
            test_scene_ask(s, "HEAD", "/kvtier/big", NULL, 0, "x-amz-checksum-mode", "ENABLED");
        assert_string_equal(test_scene_line(request, "x-amz-checksum-crc32", text, sizeof(text)),
                            rows[i].told);
        test_scene_done(s, request);
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_scene_set_up, test_scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(uploads_are_completed),          TEST(uploads_heed_conditions_and_end),
        TEST(attributes_leave_room),          TEST(attributes_that_fill_all),
        TEST(checksums_are_asked_for),        TEST(checksums_are_kept),
        TEST(checksums_that_were_not_agreed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
