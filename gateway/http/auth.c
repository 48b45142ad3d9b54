#include "gateway/http/auth.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "gateway/http/presigned.h"

struct gateway_auth {
    struct {
        pthread_mutex_t lock; /* guards this struct */
        struct gateway_client_credentials *credentials;
    } shared;
};

enum kvt_err
gateway_auth_new(struct gateway_auth **out, struct gateway_client_credentials *credentials,
                 struct kvt_error *err)
{
    struct gateway_auth *auth = kvt_calloc(1, sizeof(*auth));

    *out = NULL;
    if (auth == NULL || pthread_mutex_init(&auth->shared.lock, NULL) != 0) {
        kvt_free(auth);
        gateway_client_credentials_drop(credentials);
        return kvt_error_set(err, KVT_NOMEM, "credentials of the S3 port");
    }
    auth->shared.credentials = credentials;
    *out = auth;
    return KVT_OK;
}

void
gateway_auth_free(struct gateway_auth *auth)
{
    if (auth == NULL)
        return;
    gateway_client_credentials_drop(auth->shared.credentials);
    (void)pthread_mutex_destroy(&auth->shared.lock);
    kvt_free(auth);
}

void
gateway_auth_replace(struct gateway_auth *auth, struct gateway_client_credentials *credentials)
{
    struct gateway_client_credentials *old;

    (void)pthread_mutex_lock(&auth->shared.lock);
    old = auth->shared.credentials;
    auth->shared.credentials = credentials;
    (void)pthread_mutex_unlock(&auth->shared.lock);
    gateway_client_credentials_drop(old);
}

/* Who this access key is, held for as long as the request lives. */
static const struct gateway_principal *
look_up(struct gateway_auth *auth, struct gateway_request *request, const char *access)
{
    gateway_client_credentials_drop(request->credentials);
    (void)pthread_mutex_lock(&auth->shared.lock);
    request->credentials = gateway_client_credentials_hold(auth->shared.credentials);
    (void)pthread_mutex_unlock(&auth->shared.lock);
    return gateway_client_credentials_find(request->credentials, access);
}

static bool
is_of(const struct gateway_grant *grant, const struct gateway_client_bucket *bucket)
{
    if (grant->bucket[0] == '\0')
        return bucket == NULL || gateway_client_bucket_configured(bucket);
    /* "*" is all that clients made: whoever has it must not have every tenant's blocks. */
    return bucket != NULL && !gateway_client_bucket_configured(bucket) &&
           gateway_client_credentials_match(grant->bucket, bucket->name);
}

bool
gateway_auth_owns(const struct gateway_principal *principal,
                  const struct gateway_client_bucket *bucket)
{
    return principal != NULL && bucket != NULL && !gateway_client_bucket_configured(bucket) &&
           strcmp(principal->owner, bucket->owner) == 0;
}

bool
gateway_auth_may(const struct gateway_principal *principal, enum gateway_right right,
                 const struct gateway_client_bucket *bucket, const char *key)
{
    if (gateway_auth_owns(principal, bucket))
        return true;
    for (size_t i = 0; principal != NULL && i < principal->grant_count; i++) {
        const struct gateway_grant *grant = &principal->grants[i];

        if ((grant->rights & right) != 0 && is_of(grant, bucket) &&
            strncmp(key, grant->prefix, strlen(grant->prefix)) == 0)
            return true;
    }
    return false;
}

bool
gateway_auth_sees(const struct gateway_principal *principal,
                  const struct gateway_client_bucket *bucket)
{
    if (gateway_auth_owns(principal, bucket))
        return true;
    for (size_t i = 0; principal != NULL && i < principal->grant_count; i++)
        if (is_of(&principal->grants[i], bucket))
            return true;
    return false;
}

/* Gather the headers the client says it signed; each must be there, and Host among them. */
static bool
gather_signed(const struct gateway_request *request, const struct g4_sigv4_claim *claim,
              struct g4_sigv4_header *headers, size_t *count)
{
    bool host = false;

    *count = 0;
    for (const char *at = claim->signed_headers; *at != '\0';) {
        const size_t size = strcspn(at, ";");
        char name[128];
        const char *value;

        if (size == 0 || size >= sizeof(name) || *count == G4_SIGV4_HEADERS_MAX)
            return false;
        memcpy(name, at, size);
        name[size] = '\0';
        value = gateway_request_header(request, name);
        if (value == NULL)
            return false;
        host = host || strcmp(name, "host") == 0;
        for (size_t i = 0; i < request->header_count; i++)
            if (request->headers[i].value == value)
                headers[(*count)++] = request->headers[i];
        at += size + (at[size] == ';' ? 1 : 0);
    }
    return host;
}

/* Whoever holds a URL must not widen what it permits: a header that gives orders is obeyed only as
 * the signer sent it, and once.  The body's hash is a part of every signature by itself. */
static bool
orders_signed(const struct gateway_request *request, const struct g4_sigv4_header *headers,
              size_t count)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct g4_sigv4_header *sent = &request->headers[i];
        bool fine = strncasecmp(sent->name, "x-amz-", 6) != 0 ||
                    strcasecmp(sent->name, "x-amz-content-sha256") == 0;

        for (size_t j = 0; j < count && !fine; j++)
            fine = headers[j].value == sent->value;
        if (!fine)
            return false;
    }
    return true;
}

/* What a request says of its signature, wherever it stands. */
struct signed_claim {
    struct gateway_presigned presigned; /* its claim, date and hash are used for both */
    bool in_url;
};

/* As HTTP has it, or with "-0000" for GMT, as botocore writes it. */
static bool
parse_date(const char *date, uint64_t *at_ms)
{
    static const char zone[] = " -0000";
    const size_t size = strlen(date);
    const size_t before = size < strlen(zone) ? 0 : size - strlen(zone);
    char text[KVT_CLOCK_HTTP_MAX];

    if (strcmp(date + before, zone) != 0 || before + sizeof(" GMT") > sizeof(text))
        return kvt_clock_parse_http(date, at_ms);
    (void)snprintf(text, sizeof(text), "%.*s GMT", (int)before, date);
    return kvt_clock_parse_http(text, at_ms);
}

/* A client that sends no x-amz-date signed the time in its Date. */
static bool
read_date(const struct gateway_request *request, char out[G4_SIGV4_DATE_MAX])
{
    const char *date = gateway_request_header(request, "x-amz-date");
    uint64_t at_ms;

    if (date == NULL) {
        date = gateway_request_header(request, "date");
        if (date != NULL && parse_date(date, &at_ms)) {
            kvt_clock_format_basic(at_ms, out);
            return true;
        }
    }
    if (date == NULL || strlen(date) >= G4_SIGV4_DATE_MAX)
        return false;
    memcpy(out, date, strlen(date) + 1);
    return true;
}

static enum gateway_s3_error
read_claim(struct gateway_request *request, struct signed_claim *claim)
{
    const char *authorization = gateway_request_header(request, "authorization");
    const char *hash = gateway_request_header(request, "x-amz-content-sha256");
    struct gateway_presigned *out = &claim->presigned;

    *claim = (struct signed_claim){.in_url = authorization == NULL &&
                                             gateway_presigned_is(&request->target)};
    if (claim->in_url)
        return gateway_presigned_parse(request, out);
    if (authorization == NULL)
        return GATEWAY_S3_ERROR_ACCESS_DENIED;
    if (strncmp(authorization, "AWS ", 4) == 0)
        return GATEWAY_S3_ERROR_SIGV2;
    if (g4_sigv4_parse(authorization, &out->claim, NULL) != KVT_OK ||
        !read_date(request, out->date))
        return GATEWAY_S3_ERROR_ACCESS_DENIED;
    if (hash == NULL)
        return GATEWAY_S3_ERROR_NO_HASH;
    if (gateway_request_header(request, "x-amz-security-token") != NULL)
        return GATEWAY_S3_ERROR_TOKEN;
    return GATEWAY_S3_ERROR_NONE;
}

static enum gateway_s3_error
check_signature(struct gateway_request *request, const struct signed_claim *signed_claim,
                const char *secret)
{
    const struct g4_sigv4_claim *claim = &signed_claim->presigned.claim;
    const char *hash = gateway_request_header(request, "x-amz-content-sha256");
    struct g4_sigv4_header headers[G4_SIGV4_HEADERS_MAX];
    char signature[G4_SIGV4_SIGNATURE_MAX];
    struct g4_sigv4_request signed_request = {.method = request->method,
                                              .path = request->target.path,
                                              .query = request->target.query,
                                              .headers = headers,
                                              .payload_hash = hash,
                                              .date = signed_claim->presigned.date,
                                              .region = claim->region,
                                              .service = claim->service};

    if (signed_claim->in_url && hash == NULL)
        signed_request.payload_hash = signed_claim->presigned.hash;
    if (strncmp(signed_request.date, claim->date, 8) != 0 || strcmp(claim->service, "s3") != 0 ||
        !gather_signed(request, claim, headers, &signed_request.header_count) ||
        g4_sigv4_sign(&signed_request, secret, signature) != KVT_OK ||
        strlen(claim->signature) != sizeof(signature) - 1 ||
        CRYPTO_memcmp(signature, claim->signature, sizeof(signature) - 1) != 0)
        return GATEWAY_S3_ERROR_SIGNATURE;
    return orders_signed(request, headers, signed_request.header_count) ? GATEWAY_S3_ERROR_NONE
                                                                        : GATEWAY_S3_ERROR_UNSIGNED;
}

/* Only who holds the secret learns that the clock is the matter. */
static enum gateway_s3_error
check_time(const struct signed_claim *claim, uint64_t at_ms, uint64_t now_ms)
{
    const uint64_t expires_ms = UINT64_C(1000) * claim->presigned.expires_s;

    if (at_ms > now_ms + GATEWAY_AUTH_SKEW_MS)
        return GATEWAY_S3_ERROR_SKEWED;
    if (claim->in_url) /* good for no time: not even by a signer's clock that is ahead */
        return expires_ms == 0 || now_ms > at_ms + expires_ms ? GATEWAY_S3_ERROR_EXPIRED
                                                              : GATEWAY_S3_ERROR_NONE;
    return now_ms > at_ms + GATEWAY_AUTH_SKEW_MS ? GATEWAY_S3_ERROR_SKEWED : GATEWAY_S3_ERROR_NONE;
}

static enum gateway_s3_error
check_claim(struct gateway_auth *auth, struct gateway_request *request,
            const struct signed_claim *claim, uint64_t now_ms)
{
    const struct gateway_presigned *presigned = &claim->presigned;
    const struct gateway_principal *principal;
    enum gateway_s3_error fault;
    uint64_t at_ms;

    if (!kvt_clock_parse_basic(presigned->date, &at_ms))
        return claim->in_url ? GATEWAY_S3_ERROR_PRESIGNED : GATEWAY_S3_ERROR_ACCESS_DENIED;
    principal = look_up(auth, request, presigned->claim.access_key);
    if (principal == NULL)
        return GATEWAY_S3_ERROR_UNKNOWN_KEY_ID;
    fault = check_signature(request, claim, principal->secret);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = check_time(claim, at_ms, now_ms);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    request->principal = principal;
    memcpy(request->date, presigned->date, sizeof(request->date));
    memcpy(request->region, presigned->claim.region, sizeof(request->region));
    memcpy(request->signature, presigned->claim.signature, sizeof(request->signature));
    if (!claim->in_url)
        return GATEWAY_S3_ERROR_NONE;
    if (gateway_request_header(request, "x-amz-content-sha256") == NULL &&
        gateway_request_header_add(request, "x-amz-content-sha256", presigned->hash) != KVT_OK)
        return GATEWAY_S3_ERROR_HEADERS_LARGE;
    return gateway_presigned_strip(request);
}

enum gateway_s3_error
gateway_auth_check(struct gateway_auth *auth, struct gateway_request *request, uint64_t now_ms)
{
    struct signed_claim claim;
    const enum gateway_s3_error fault = read_claim(request, &claim);

    return fault == GATEWAY_S3_ERROR_NONE ? check_claim(auth, request, &claim, now_ms) : fault;
}

static enum gateway_right
right_of(const struct gateway_request *request)
{
    if (gateway_target_has(&request->target, "uploadId") ||
        gateway_target_has(&request->target, "uploads"))
        return GATEWAY_WRITE; /* whoever writes an upload may look at it and abort it */
    if (gateway_request_is(request, "GET") || gateway_request_is(request, "HEAD"))
        return GATEWAY_READ;
    return gateway_request_is(request, "DELETE") ? GATEWAY_DELETE : GATEWAY_WRITE;
}

/* Of the bucket itself: looking at it is free, a listing is of a prefix. */
static bool
may_bucket(const struct gateway_request *request)
{
    char prefix[G4_CLIENT_KEY_MAX];

    if (gateway_request_is(request, "HEAD") || gateway_target_has(&request->target, "location"))
        return true;
    if (gateway_request_is(request, "POST") && gateway_target_has(&request->target, "delete"))
        return true; /* each key it names is asked for by itself */
    if (gateway_request_is(request, "PUT") && request->target.query[0] == '\0')
        return request->principal != NULL; /* it is told that the bucket is there */
    if (!gateway_request_is(request, "GET"))
        return gateway_auth_may(request->principal, right_of(request), NULL, "");
    /* What cannot be decoded is of no prefix: the right to everything, as without one. */
    if (gateway_target_query(&request->target, "prefix", prefix, sizeof(prefix)) != KVT_OK)
        prefix[0] = '\0';
    return gateway_auth_may(request->principal, GATEWAY_LIST, NULL, prefix);
}

bool
gateway_auth_permits(const struct gateway_request *request, const char *configured)
{
    const struct gateway_target *target = &request->target;

    if (strcmp(target->bucket, configured) != 0)
        return request->principal != NULL;
    if (target->key[0] == '\0')
        return may_bucket(request);
    return gateway_auth_may(request->principal, right_of(request), NULL, target->key);
}
