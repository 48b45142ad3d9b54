#include "g4/s3/s3_answer.h"

#include <string.h>

#include "g4/s3/s3_xml.h"

/* Error codes that say more than their HTTP status; the first match wins. */
struct code_row {
    const char *code;
    enum kvt_err status;
    bool again;
};

static const struct code_row code_rows[] = {
    {"SlowDown", KVT_UNAVAILABLE, true},
    {"RequestTimeout", KVT_IO, true},
    {"InternalError", KVT_IO, true},
    {"BadDigest", KVT_CORRUPT, false},
    {"InvalidDigest", KVT_CORRUPT, false},
    {"XAmzContentChecksumMismatch", KVT_CORRUPT, false},
    {"XAmzContentSHA256Mismatch", KVT_CORRUPT, false},
    {"IncompleteBody", KVT_IO, true},
    {"ExpiredToken", KVT_DENIED, false},
    {"ExpiredTokenException", KVT_DENIED, false},
    {"InvalidToken", KVT_DENIED, false},
    {"InvalidAccessKeyId", KVT_DENIED, false},
    {"RequestTimeTooSkewed", KVT_DENIED, false},
    {"RequestExpired", KVT_DENIED, false},
    {"SignatureDoesNotMatch", KVT_DENIED, false},
    {"XAdminUserNotFound", KVT_DENIED, false}, /* versitygw, with 404 */
    {"AuthorizationHeaderMalformed", KVT_DENIED, false},
    {"EntityTooLarge", KVT_RANGE, false},
    {"XMinioStorageFull", KVT_FULL, false},
    {"XMinioAdminBucketQuotaExceeded", KVT_FULL, false},
    {"QuotaExceeded", KVT_FULL, false},
    {"InvalidRange", KVT_RANGE, false},
    {"NoSuchBucket", KVT_UNAVAILABLE, false}, /* says nothing about the objects in it */
    {"BucketAlreadyOwnedByYou", KVT_EXISTS, false},
    {"BucketAlreadyExists", KVT_DENIED, false},
};

struct cause_row {
    const char *code;
    enum g4_s3_answer_cause cause;
};

static const struct cause_row cause_rows[] = {
    {"ExpiredToken", G4_S3_ANSWER_KEYS},          {"ExpiredTokenException", G4_S3_ANSWER_KEYS},
    {"InvalidToken", G4_S3_ANSWER_KEYS},          {"InvalidAccessKeyId", G4_S3_ANSWER_KEYS},
    {"RequestTimeTooSkewed", G4_S3_ANSWER_CLOCK}, {"RequestExpired", G4_S3_ANSWER_CLOCK},
};

struct http_row {
    int http;
    enum kvt_err status;
    bool again;
};

static const struct http_row http_rows[] = {
    {400, KVT_INVALID, false},    {401, KVT_DENIED, false},      {403, KVT_DENIED, false},
    {404, KVT_NOTFOUND, false},   {405, KVT_UNSUPPORTED, false}, {408, KVT_IO, true},
    {409, KVT_BUSY, true},        {411, KVT_INVALID, false},     {412, KVT_PRECONDITION, false},
    {413, KVT_RANGE, false},      {416, KVT_RANGE, false},       {429, KVT_UNAVAILABLE, true},
    {500, KVT_IO, true},          {501, KVT_UNSUPPORTED, false}, {502, KVT_UNAVAILABLE, true},
    {503, KVT_UNAVAILABLE, true}, {504, KVT_UNAVAILABLE, true},  {507, KVT_FULL, false},
};

static enum kvt_err
judge(const struct g4_request *request, const char *code, struct g4_s3_answer *answer)
{
    for (size_t i = 0; i < sizeof(code_rows) / sizeof(code_rows[0]); i++)
        if (strcmp(code, code_rows[i].code) == 0) {
            answer->again = code_rows[i].again;
            return code_rows[i].status;
        }
    if (request->http == 412 && request->condition == G4_IF_ABSENT)
        return KVT_EXISTS;
    for (size_t i = 0; i < sizeof(http_rows) / sizeof(http_rows[0]); i++)
        if (request->http == http_rows[i].http) {
            answer->again = http_rows[i].again;
            return http_rows[i].status;
        }
    return request->http >= 300 && request->http < 500 ? KVT_INVALID : KVT_IO;
}

enum kvt_err
g4_s3_answer_status(struct g4_request *request, const char *body, size_t size,
                    struct g4_s3_answer *answer)
{
    char message[G4_S3_XML_MESSAGE_MAX];
    char code[G4_S3_XML_CODE_MAX];
    enum kvt_err rc;

    *answer = (struct g4_s3_answer){.cause = G4_S3_ANSWER_OTHER};
    if (request->http >= 200 && request->http <= 299)
        return KVT_OK;
    g4_s3_xml_trouble(body, size, code, message);
    for (size_t i = 0; i < sizeof(cause_rows) / sizeof(cause_rows[0]); i++)
        if (strcmp(code, cause_rows[i].code) == 0)
            answer->cause = cause_rows[i].cause;
    rc = judge(request, code, answer);
    return kvt_error_set(&request->error, rc, "%.80s: HTTP %d%s%s%s%s", request->key, request->http,
                         code[0] == '\0' ? "" : " ", code, message[0] == '\0' ? "" : ": ", message);
}
