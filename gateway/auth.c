#include "gateway/auth.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

enum { MD5_BYTES = 16, MD5_TEXT = 25 };

struct gateway_auth {
    struct {
        pthread_mutex_t lock; /* guards this struct */
        struct gateway_credentials *credentials;
    } shared;
};

enum kvt_err
gateway_auth_new(struct gateway_auth **out, struct gateway_credentials *credentials,
                 struct kvt_error *err)
{
    struct gateway_auth *auth = kvt_calloc(1, sizeof(*auth));

    *out = NULL;
    if (auth == NULL || pthread_mutex_init(&auth->shared.lock, NULL) != 0) {
        kvt_free(auth);
        gateway_credentials_drop(credentials);
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
    gateway_credentials_drop(auth->shared.credentials);
    (void)pthread_mutex_destroy(&auth->shared.lock);
    kvt_free(auth);
}

void
gateway_auth_replace(struct gateway_auth *auth, struct gateway_credentials *credentials)
{
    struct gateway_credentials *old;

    (void)pthread_mutex_lock(&auth->shared.lock);
    old = auth->shared.credentials;
    auth->shared.credentials = credentials;
    (void)pthread_mutex_unlock(&auth->shared.lock);
    gateway_credentials_drop(old);
}

/* Who this access key is, held for as long as the request lives. */
static const struct gateway_principal *
look_up(struct gateway_auth *auth, struct gateway_request *request, const char *access)
{
    gateway_credentials_drop(request->credentials);
    (void)pthread_mutex_lock(&auth->shared.lock);
    request->credentials = gateway_credentials_hold(auth->shared.credentials);
    (void)pthread_mutex_unlock(&auth->shared.lock);
    return gateway_credentials_find(request->credentials, access);
}

bool
gateway_auth_may(const struct gateway_principal *principal, enum gateway_right right,
                 const char *key)
{
    for (size_t i = 0; principal != NULL && i < principal->grant_count; i++) {
        const struct gateway_grant *grant = &principal->grants[i];

        if ((grant->rights & right) != 0 && strncmp(key, grant->prefix, strlen(grant->prefix)) == 0)
            return true;
    }
    return false;
}

static bool
take_digits(const char **at, size_t count, int *out)
{
    *out = 0;
    for (size_t i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

/* "20130524T000000Z" as Unix milliseconds. */
static bool
parse_date(const char *text, uint64_t *unix_ms)
{
    struct tm tm = {0};
    const char *at = text;
    time_t seconds;

    *unix_ms = 0;
    if (!take_digits(&at, 4, &tm.tm_year) || !take_digits(&at, 2, &tm.tm_mon) ||
        !take_digits(&at, 2, &tm.tm_mday) || *at++ != 'T' || !take_digits(&at, 2, &tm.tm_hour) ||
        !take_digits(&at, 2, &tm.tm_min) || !take_digits(&at, 2, &tm.tm_sec) || *at++ != 'Z' ||
        *at != '\0')
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    seconds = timegm(&tm);
    if (seconds < 0)
        return false;
    *unix_ms = (uint64_t)seconds * 1000;
    return true;
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

enum gateway_fault
gateway_auth_check(struct gateway_auth *auth, struct gateway_request *request, uint64_t now_ms)
{
    const char *authorization = gateway_request_header(request, "authorization");
    const char *date = gateway_request_header(request, "x-amz-date");
    const char *hash = gateway_request_header(request, "x-amz-content-sha256");
    struct g4_sigv4_header headers[G4_SIGV4_HEADERS_MAX];
    char signature[G4_SIGV4_SIGNATURE_MAX];
    struct g4_sigv4_request signed_request = {.method = request->method,
                                              .path = request->target.path,
                                              .query = request->target.query,
                                              .headers = headers,
                                              .payload_hash = hash,
                                              .date = date};
    struct g4_sigv4_claim claim;
    const struct gateway_principal *principal;
    uint64_t at_ms;

    if (authorization == NULL || g4_sigv4_parse(authorization, &claim, NULL) != KVT_OK)
        return GATEWAY_FAULT_ACCESS_DENIED;
    if (date == NULL || !parse_date(date, &at_ms) || hash == NULL)
        return GATEWAY_FAULT_ACCESS_DENIED;
    principal = look_up(auth, request, claim.access_key);
    if (principal == NULL)
        return GATEWAY_FAULT_UNKNOWN_KEY_ID;
    if (strncmp(date, claim.date, 8) != 0 || strcmp(claim.service, "s3") != 0 ||
        !gather_signed(request, &claim, headers, &signed_request.header_count))
        return GATEWAY_FAULT_SIGNATURE;
    signed_request.region = claim.region;
    signed_request.service = claim.service;
    if (g4_sigv4_sign(&signed_request, principal->secret, signature) != KVT_OK ||
        strlen(claim.signature) != sizeof(signature) - 1 ||
        CRYPTO_memcmp(signature, claim.signature, sizeof(signature) - 1) != 0)
        return GATEWAY_FAULT_SIGNATURE;
    /* Only who holds the secret learns that the clock is the matter. */
    if (at_ms > now_ms + GATEWAY_AUTH_SKEW_MS || now_ms > at_ms + GATEWAY_AUTH_SKEW_MS)
        return GATEWAY_FAULT_SKEWED;
    request->principal = principal;
    return GATEWAY_FAULT_NONE;
}

static bool
md5_fits(const struct gateway_request *request, const char *wanted)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char text[MD5_TEXT + 8];
    unsigned size = 0;

    if (EVP_Digest(request->body.data == NULL ? (const void *)"" : request->body.data,
                   request->body.size, digest, &size, EVP_md5(), NULL) != 1 ||
        size != MD5_BYTES)
        return false;
    (void)EVP_EncodeBlock(text, digest, MD5_BYTES);
    return strcmp((const char *)text, wanted) == 0;
}

enum gateway_fault
gateway_auth_check_body(const struct gateway_request *request)
{
    const char *wanted = gateway_request_header(request, "x-amz-content-sha256");
    const char *md5 = gateway_request_header(request, "content-md5");
    char hash[G4_SIGV4_SIGNATURE_MAX];

    if (wanted != NULL && strcmp(wanted, G4_SIGV4_UNSIGNED) != 0) {
        g4_sigv4_hash(request->body.data == NULL ? (const void *)"" : request->body.data,
                      request->body.size, hash);
        if (strcmp(hash, wanted) != 0)
            return GATEWAY_FAULT_BODY_HASH;
    }
    if (md5 != NULL && !md5_fits(request, md5))
        return GATEWAY_FAULT_BAD_DIGEST;
    return GATEWAY_FAULT_NONE;
}
