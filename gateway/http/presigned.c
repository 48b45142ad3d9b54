#include "gateway/http/presigned.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/parse.h"

#define PREFIX    "x-amz-"
#define SIGNATURE "X-Amz-Signature"

enum { CLAIM_MAX = 2048, NAME_MAX_BYTES = 64, VALUE_MAX = 1024 };

/* Those that are about the signature and nothing else. */
static const char *const own_arguments[] = {
    "X-Amz-Algorithm",     SIGNATURE,       "X-Amz-Credential",     "X-Amz-Date",
    "X-Amz-SignedHeaders", "X-Amz-Expires", "X-Amz-Content-Sha256",
};

bool
gateway_presigned_is(const struct gateway_target *target)
{
    return gateway_target_has(target, "X-Amz-Algorithm") || gateway_target_has(target, SIGNATURE) ||
           gateway_target_has(target, "AWSAccessKeyId");
}

static bool
read_text(const struct gateway_target *target, const char *name, char *out, size_t size)
{
    /* Blanks and commas would be taken for the end of a field below. */
    return gateway_target_query(target, name, out, size) == KVT_OK && out[0] != '\0' &&
           strpbrk(out, " ,") == NULL;
}

/* Take the argument at `at` out of the query, which starts at `query`. */
static void
cut(char *query, char *at)
{
    const size_t size = strcspn(at, "&");

    if (at[size] == '&') {
        memmove(at, at + size + 1, strlen(at + size + 1) + 1);
        return;
    }
    at[0] = '\0';
    if (at > query)
        at[-1] = '\0';
}

/* The query as the request's own, which may be changed. */
static char *
own_query(struct gateway_request *request)
{
    return request->raw + (request->target.query - request->raw);
}

static void
drop_signature(struct gateway_request *request)
{
    char *query = own_query(request);

    for (char *at = query; *at != '\0';) {
        const size_t name = strcspn(at, "=&");

        if (name == strlen(SIGNATURE) && memcmp(at, SIGNATURE, name) == 0) {
            cut(query, at);
            continue;
        }
        at += strcspn(at, "&");
        at += *at == '&' ? 1 : 0;
    }
}

static enum gateway_s3_error
read_times(const struct gateway_target *target, struct gateway_presigned *presigned)
{
    char text[16];
    uint64_t seconds;

    if (!read_text(target, "X-Amz-Date", presigned->date, sizeof(presigned->date)) ||
        !read_text(target, "X-Amz-Expires", text, sizeof(text)) ||
        kvt_parse_u64(text, &seconds) != KVT_OK || seconds > GATEWAY_PRESIGNED_EXPIRES_MAX_S)
        return GATEWAY_S3_ERROR_PRESIGNED;
    presigned->expires_s = (uint32_t)seconds;
    return GATEWAY_S3_ERROR_NONE;
}

enum gateway_s3_error
gateway_presigned_parse(struct gateway_request *request, struct gateway_presigned *presigned)
{
    const struct gateway_target *target = &request->target;
    char algorithm[32];
    char credential[320];
    char names[1024];
    char signature[G4_SIGV4_SIGNATURE_MAX];
    char line[CLAIM_MAX];
    enum gateway_s3_error fault;

    *presigned = (struct gateway_presigned){.hash = G4_SIGV4_UNSIGNED};
    if (gateway_target_has(target, "AWSAccessKeyId"))
        return GATEWAY_S3_ERROR_SIGV2;
    if (gateway_target_has(target, "X-Amz-Security-Token"))
        return GATEWAY_S3_ERROR_TOKEN;
    if (!read_text(target, "X-Amz-Algorithm", algorithm, sizeof(algorithm)) ||
        !read_text(target, "X-Amz-Credential", credential, sizeof(credential)) ||
        !read_text(target, "X-Amz-SignedHeaders", names, sizeof(names)) ||
        !read_text(target, SIGNATURE, signature, sizeof(signature)))
        return GATEWAY_S3_ERROR_PRESIGNED;
    fault = read_times(target, presigned);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (gateway_target_has(target, "X-Amz-Content-Sha256") &&
        !read_text(target, "X-Amz-Content-Sha256", presigned->hash, sizeof(presigned->hash)))
        return GATEWAY_S3_ERROR_PRESIGNED;
    (void)snprintf(line, sizeof(line), "%s Credential=%s,SignedHeaders=%s,Signature=%s", algorithm,
                   credential, names, signature);
    if (g4_sigv4_parse(line, &presigned->claim, NULL) != KVT_OK)
        return GATEWAY_S3_ERROR_PRESIGNED;
    drop_signature(request);
    return GATEWAY_S3_ERROR_NONE;
}

static bool
is_own(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(own_arguments) / sizeof(own_arguments[0]); i++)
        if (strlen(own_arguments[i]) == size && strncasecmp(own_arguments[i], name, size) == 0)
            return true;
    return false;
}

/* "x-amz-meta-a=b" in the query: the header of that name. */
static enum gateway_s3_error
to_header(struct gateway_request *request, const char *at, size_t name_size)
{
    char name[NAME_MAX_BYTES];
    char value[VALUE_MAX];

    if (name_size >= sizeof(name))
        return GATEWAY_S3_ERROR_PRESIGNED;
    memcpy(name, at, name_size);
    name[name_size] = '\0';
    if (gateway_target_query(&request->target, name, value, sizeof(value)) != KVT_OK ||
        gateway_request_header_add(request, name, value) != KVT_OK)
        return GATEWAY_S3_ERROR_PRESIGNED;
    return GATEWAY_S3_ERROR_NONE;
}

enum gateway_s3_error
gateway_presigned_strip(struct gateway_request *request)
{
    char *query = own_query(request);

    for (char *at = query; *at != '\0';) {
        const size_t name = strcspn(at, "=&");
        enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;

        if (name < strlen(PREFIX) || strncasecmp(at, PREFIX, strlen(PREFIX)) != 0) {
            at += strcspn(at, "&");
            at += *at == '&' ? 1 : 0;
            continue;
        }
        if (!is_own(at, name))
            fault = to_header(request, at, name);
        if (fault != GATEWAY_S3_ERROR_NONE)
            return fault;
        cut(query, at);
    }
    return GATEWAY_S3_ERROR_NONE;
}
