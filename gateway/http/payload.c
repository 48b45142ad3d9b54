#include "gateway/http/payload.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "g4/object/sha256.h"

#define STREAMING "STREAMING-"

enum { MD5_BYTES = 16, MD5_TEXT = 24 };

struct kind {
    const char *hash; /* x-amz-content-sha256 */
    bool is_signed;
    bool has_trailer;
};

static const struct kind kinds[] = {
    {STREAMING "AWS4-HMAC-SHA256-PAYLOAD", true, false},
    {STREAMING "AWS4-HMAC-SHA256-PAYLOAD-TRAILER", true, true},
    {STREAMING "UNSIGNED-PAYLOAD-TRAILER", false, true},
};

static bool
has_body(const struct gateway_request *request)
{
    return gateway_request_is(request, "PUT") || gateway_request_is(request, "POST");
}

static enum gateway_s3_error
header_length(const struct gateway_request *request, const char *name, uint64_t *length)
{
    const char *text = gateway_request_header(request, name);

    *length = 0;
    if (text == NULL)
        return GATEWAY_S3_ERROR_NO_LENGTH;
    return kvt_parse_u64(text, length) == KVT_OK ? GATEWAY_S3_ERROR_NONE
                                                 : GATEWAY_S3_ERROR_INVALID_ARGUMENT;
}

/* Without aws-chunked.  No length means no body at all: GET, HEAD, DELETE. */
static enum gateway_s3_error
plain_length(const struct gateway_request *request, uint64_t *length)
{
    *length = 0;
    if (gateway_request_header(request, "transfer-encoding") != NULL)
        return GATEWAY_S3_ERROR_NO_LENGTH;
    if (!has_body(request) && gateway_request_header(request, "content-length") == NULL)
        return GATEWAY_S3_ERROR_NONE;
    return header_length(request, "content-length", length);
}

static enum gateway_s3_error
begin_chunked(struct gateway_request *request, const struct kind *kind, uint64_t *length)
{
    struct gateway_chunked_options options = {.is_signed = kind->is_signed,
                                              .has_trailer = kind->has_trailer};
    enum gateway_s3_error fault = header_length(request, "x-amz-decoded-content-length", length);
    enum kvt_err rc;

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    options.length = *length;
    if (kind->is_signed) {
        memcpy(options.seed, request->signature, sizeof(options.seed));
        if (request->principal == NULL ||
            g4_sigv4_signer_init(&options.signer, request->principal->secret, request->date,
                                 request->region, "s3") != KVT_OK)
            return GATEWAY_S3_ERROR_SIGNATURE;
    }
    rc = gateway_chunked_new(&request->chunked, &options);
    explicit_bzero(&options, sizeof(options));
    return rc == KVT_OK ? GATEWAY_S3_ERROR_NONE : GATEWAY_S3_ERROR_SLOW_DOWN;
}

/* Checksums of a multipart upload's completion are the object's, not those of the XML. */
static bool
checks_body(const struct gateway_request *request)
{
    return has_body(request) && (!gateway_request_is(request, "POST") ||
                                 !gateway_target_has(&request->target, "uploadId"));
}

static enum gateway_s3_error
read_checksums(struct gateway_request *request)
{
    for (int i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        const enum gateway_body_checksum checksum = (enum gateway_body_checksum)i;
        const char *text = gateway_request_header(request, gateway_body_checksum_header(checksum));

        if (text == NULL)
            continue;
        /* A composite one of a multipart upload ends in "-<parts>": its handler's affair. */
        if (!checks_body(request) && strlen(text) >= GATEWAY_BODY_CHECKSUM_TEXT)
            continue;
        if (checks_body(request) && !gateway_body_checksum_valid(checksum, text))
            return GATEWAY_S3_ERROR_BAD_CHECKSUM;
        (void)snprintf(request->checksums.text[i], GATEWAY_BODY_CHECKSUM_TEXT, "%s", text);
    }
    return GATEWAY_S3_ERROR_NONE;
}

/* A trailer that is announced must be one we would look at. */
static enum gateway_s3_error
read_announced(struct gateway_request *request, const struct kind *kind)
{
    const char *name = gateway_request_header(request, "x-amz-trailer");

    request->trailer = GATEWAY_BODY_CHECKSUM_COUNT;
    if (name == NULL)
        return GATEWAY_S3_ERROR_NONE;
    request->trailer = gateway_body_checksum_of_header(name);
    return kind->has_trailer && request->trailer != GATEWAY_BODY_CHECKSUM_COUNT
               ? GATEWAY_S3_ERROR_NONE
               : GATEWAY_S3_ERROR_TRAILER;
}

enum gateway_s3_error
gateway_payload_begin(struct gateway_request *request, uint64_t *length)
{
    const char *hash = gateway_request_header(request, "x-amz-content-sha256");
    enum gateway_s3_error fault = read_checksums(request);

    *length = 0;
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    request->trailer = GATEWAY_BODY_CHECKSUM_COUNT;
    if (hash == NULL || strncmp(hash, STREAMING, strlen(STREAMING)) != 0)
        return plain_length(request, length);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].hash, hash) != 0)
            continue;
        fault = read_announced(request, &kinds[i]);
        if (fault != GATEWAY_S3_ERROR_NONE)
            return fault;
        return begin_chunked(request, &kinds[i], length);
    }
    return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
}

static enum gateway_s3_error
fault_of_chunks(enum kvt_err rc)
{
    switch (rc) {
    case KVT_OK: return GATEWAY_S3_ERROR_NONE;
    case KVT_DENIED: return GATEWAY_S3_ERROR_SIGNATURE;
    case KVT_RANGE: return GATEWAY_S3_ERROR_INCOMPLETE;
    case KVT_INVALID: return GATEWAY_S3_ERROR_CHUNK;
    default: return GATEWAY_S3_ERROR_SLOW_DOWN;
    }
}

enum gateway_s3_error
gateway_payload_take(struct gateway_request *request, const void *bytes, size_t size)
{
    const size_t before = request->body.size;
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;

    if (request->chunked != NULL)
        fault =
            fault_of_chunks(gateway_chunked_take(request->chunked, bytes, size, &request->body));
    else
        kvt_buffer_append(&request->body, bytes, size);
    if (fault == GATEWAY_S3_ERROR_NONE && !kvt_buffer_ok(&request->body))
        fault = GATEWAY_S3_ERROR_TOO_LARGE;
    if (fault == GATEWAY_S3_ERROR_NONE && request->body.size > before)
        g4_pieces_take(&request->pieces, request->body.data + before, request->body.size - before);
    return fault;
}

static enum gateway_s3_error
end_chunks(struct gateway_request *request)
{
    const struct gateway_body_checksums *trailing = gateway_chunked_checksums(request->chunked);
    const enum gateway_s3_error fault = fault_of_chunks(gateway_chunked_end(request->chunked));

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (request->trailer != GATEWAY_BODY_CHECKSUM_COUNT &&
        trailing->text[request->trailer][0] == '\0')
        return GATEWAY_S3_ERROR_TRAILER;
    for (int i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++)
        if (trailing->text[i][0] != '\0')
            memcpy(request->checksums.text[i], trailing->text[i], GATEWAY_BODY_CHECKSUM_TEXT);
    return GATEWAY_S3_ERROR_NONE;
}

static enum gateway_s3_error
check_md5(const struct gateway_request *request)
{
    const char *wanted = gateway_request_header(request, "content-md5");
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char text[MD5_TEXT + 1];

    if (wanted == NULL)
        return GATEWAY_S3_ERROR_NONE;
    if (strlen(wanted) != MD5_TEXT ||
        EVP_DecodeBlock(digest, (const unsigned char *)wanted, MD5_TEXT) != MD5_BYTES + 2)
        return GATEWAY_S3_ERROR_INVALID_DIGEST;
    if (EVP_Digest(gateway_request_bytes(request), request->body.size, digest, NULL, EVP_md5(),
                   NULL) != 1)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    (void)EVP_EncodeBlock(text, digest, MD5_BYTES);
    return strcmp((const char *)text, wanted) == 0 ? GATEWAY_S3_ERROR_NONE
                                                   : GATEWAY_S3_ERROR_BAD_DIGEST;
}

static enum gateway_s3_error
check_hash(const struct gateway_request *request)
{
    const char *wanted = gateway_request_header(request, "x-amz-content-sha256");
    char hash[G4_SIGV4_SIGNATURE_MAX];

    if (request->chunked != NULL || wanted == NULL || strcmp(wanted, G4_SIGV4_UNSIGNED) == 0)
        return GATEWAY_S3_ERROR_NONE;
    g4_sha256_hex(gateway_request_bytes(request), request->body.size, hash);
    return strcmp(hash, wanted) == 0 ? GATEWAY_S3_ERROR_NONE : GATEWAY_S3_ERROR_BODY_HASH;
}

enum gateway_s3_error
gateway_payload_check(struct gateway_request *request)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;
    char text[GATEWAY_BODY_CHECKSUM_TEXT];

    if (request->chunked != NULL)
        fault = end_chunks(request);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = check_hash(request);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = check_md5(request);
    for (int i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT && fault == GATEWAY_S3_ERROR_NONE; i++) {
        if (request->checksums.text[i][0] == '\0' || !checks_body(request))
            continue;
        if (!gateway_body_checksum_text((enum gateway_body_checksum)i,
                                        gateway_request_bytes(request), request->body.size, text))
            fault = GATEWAY_S3_ERROR_SLOW_DOWN;
        else if (strcmp(text, request->checksums.text[i]) != 0)
            fault = GATEWAY_S3_ERROR_BAD_DIGEST;
    }
    return fault;
}
