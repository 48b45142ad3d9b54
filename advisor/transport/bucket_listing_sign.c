#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "advisor/transport/bucket_listing.h"
#include "base/text/hex.h"

/* AWS Signature Version 4 of the one request there is: GET of a page, with an empty body. */

enum {
    HASH_SIZE = 32,
    HEX_SIZE = 2 * HASH_SIZE + 1,
    DATE_SIZE = 16,
    DAY_SIZE = 8,
    SCOPE_MAX = 128
};

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define PAGE_KEYS  "1000"

/* The parts of "http[s]://host[:port]/bucket". */
struct place {
    char host[256];
    char bucket[ADVISOR_BUCKET_LISTING_NAME_MAX];
    size_t base_size; /* of the URL, up to the bucket's slash */
};

static bool
parse_place(const char *url, struct place *place)
{
    const bool secure = strncmp(url, "https://", 8) == 0;
    const char *host = url + (secure ? 8 : 7);
    const char *port = secure ? ":443" : ":80";
    const char *slash;
    size_t size;

    memset(place, 0, sizeof(*place));
    if (!secure && strncmp(url, "http://", 7) != 0)
        return false;
    slash = strchr(host, '/');
    size = slash == NULL ? 0 : (size_t)(slash - host);
    if (size == 0 || size >= sizeof(place->host) || memchr(host, '@', size) != NULL)
        return false;
    memcpy(place->host, host, size);
    if (size > strlen(port) && strcmp(place->host + size - strlen(port), port) == 0)
        place->host[size - strlen(port)] = '\0'; /* as it is said in the request */
    place->base_size = (size_t)(slash - url);
    size = strcspn(slash + 1, "/");
    /* Names of buckets need no escape. */
    if (size == 0 || size >= sizeof(place->bucket) ||
        (slash[1 + size] == '/' && slash[2 + size] != '\0') ||
        strspn(slash + 1, "abcdefghijklmnopqrstuvwxyz0123456789.-") < size)
        return false;
    memcpy(place->bucket, slash + 1, size);
    return true;
}

void
advisor_bucket_listing_name(const struct advisor_bucket_listing *bucket,
                            char name[ADVISOR_BUCKET_LISTING_NAME_MAX])
{
    struct place place;

    name[0] = '\0';
    if (parse_place(bucket->url, &place))
        (void)snprintf(name, ADVISOR_BUCKET_LISTING_NAME_MAX, "%s", place.bucket);
}

enum kvt_err
advisor_bucket_listing_check(const struct advisor_bucket_listing *bucket, struct kvt_error *err)
{
    struct place place;

    if (!parse_place(bucket->url, &place))
        return kvt_error_set(err, KVT_INVALID, "\"%.100s\" is not http[s]://host[:port]/bucket",
                             bucket->url);
    return KVT_OK;
}

static bool
hmac(const void *key, size_t key_size, const char *text, uint8_t out[HASH_SIZE])
{
    return HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)text, strlen(text), out,
                NULL) != NULL;
}

/* Everything but letters, digits and "-._~" as %XX. */
static void
escape(const char *text, char *out, size_t room)
{
    size_t size = 0;

    for (; *text != '\0' && size + 4 < room; text++) {
        const unsigned char c = (unsigned char)*text;

        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80)
            out[size++] = *text;
        else if ((c >= '0' && c <= '9') || (c != '\0' && strchr("-._~", c) != NULL))
            out[size++] = *text;
        else
            size += (size_t)snprintf(out + size, room - size, "%%%02X", c);
    }
    out[size] = '\0';
}

/* access:secret[:token], taken apart in place. */
static bool
split(char *credentials, const char **secret, const char **session)
{
    char *colon = strchr(credentials, ':');

    *secret = *session = "";
    if (colon == NULL || colon == credentials)
        return false;
    *colon = '\0';
    *secret = colon + 1;
    colon = strchr(colon + 1, ':');
    if (colon != NULL) {
        *colon = '\0';
        *session = colon + 1;
    }
    return **secret != '\0';
}

static bool
sign(const char *secret, const char *scope, const char *region, const char *date,
     const char *canonical, char signature[HEX_SIZE])
{
    char text[ADVISOR_BUCKET_LISTING_SECRET_MAX];
    char day[DAY_SIZE + 1];
    uint8_t hash[HASH_SIZE];
    char digest[HEX_SIZE];
    bool ok = EVP_Digest(canonical, strlen(canonical), hash, NULL, EVP_sha256(), NULL) == 1;

    kvt_hex_format(hash, HASH_SIZE, digest);
    (void)snprintf(day, sizeof(day), "%.8s", date);
    ok = snprintf(text, sizeof(text), "AWS4%s", secret) < (int)sizeof(text) && ok;
    ok = ok && hmac(text, strlen(text), day, hash) && hmac(hash, sizeof(hash), region, hash) &&
         hmac(hash, sizeof(hash), "s3", hash) && hmac(hash, sizeof(hash), "aws4_request", hash);
    (void)snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, digest);
    ok = ok && hmac(hash, sizeof(hash), text, hash);
    kvt_hex_format(hash, HASH_SIZE, signature);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(hash, sizeof(hash));
    return ok;
}

/* The request's parts, once its place and query are known. */
static enum kvt_err
fill(const struct place *place, const char *region, char *credentials, const char *date,
     const char *query, struct advisor_bucket_listing_request *request, struct kvt_error *err)
{
    char canonical[2 * ADVISOR_BUCKET_LISTING_REQUEST_MAX];
    char signature[HEX_SIZE];
    char scope[SCOPE_MAX];
    const char *session;
    const char *secret;
    const char *names;
    int size;

    if (!split(credentials, &secret, &session))
        return kvt_error_set(err, KVT_INVALID, "the credentials are not access:secret[:token]");
    names = session[0] == '\0' ? "host;x-amz-content-sha256;x-amz-date"
                               : "host;x-amz-content-sha256;x-amz-date;x-amz-security-token";
    (void)snprintf(scope, sizeof(scope), "%.8s/%s/s3/aws4_request", date, region);
    size = snprintf(canonical, sizeof(canonical),
                    "GET\n/%s\n%s\nhost:%s\nx-amz-content-sha256:" EMPTY_HASH
                    "\nx-amz-date:%s\n%s%s%s\n%s\n" EMPTY_HASH,
                    place->bucket, query, place->host, date,
                    session[0] == '\0' ? "" : "x-amz-security-token:", session,
                    session[0] == '\0' ? "" : "\n", names);
    if (size >= (int)sizeof(canonical) || !sign(secret, scope, region, date, canonical, signature))
        return kvt_error_set(err, KVT_RANGE, "the request cannot be signed");
    (void)snprintf(request->headers[0], sizeof(request->headers[0]), "x-amz-date: %s", date);
    (void)snprintf(request->headers[1], sizeof(request->headers[1]),
                   "x-amz-content-sha256: " EMPTY_HASH);
    size = snprintf(request->headers[2], sizeof(request->headers[2]),
                    "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, "
                    "Signature=%s",
                    credentials, scope, names, signature);
    if (session[0] != '\0')
        (void)snprintf(request->headers[3], sizeof(request->headers[3]), "x-amz-security-token: %s",
                       session);
    return size < (int)sizeof(request->headers[2])
               ? KVT_OK
               : kvt_error_set(err, KVT_RANGE, "the credentials are too long");
}

enum kvt_err
advisor_bucket_listing_sign(const struct advisor_bucket_listing *bucket, const char *credentials,
                            const char *date, const char *token,
                            struct advisor_bucket_listing_request *request, struct kvt_error *err)
{
    const char *region = bucket->region[0] == '\0' ? "us-east-1" : bucket->region;
    char copy[ADVISOR_BUCKET_LISTING_SECRET_MAX / 2];
    char query[ADVISOR_BUCKET_LISTING_REQUEST_MAX / 2];
    char escaped[ADVISOR_BUCKET_LISTING_REQUEST_MAX / 2 - 128];
    struct place place;
    enum kvt_err rc;

    memset(request, 0, sizeof(*request));
    rc = advisor_bucket_listing_check(bucket, err);
    if (rc != KVT_OK)
        return rc;
    if (strlen(date) != DATE_SIZE || strlen(credentials) >= sizeof(copy) ||
        3 * strlen(token) + 4 >= sizeof(escaped) || strlen(region) > 64)
        return kvt_error_set(err, KVT_RANGE, "date, region, credentials or token are too long");
    (void)parse_place(bucket->url, &place);
    (void)snprintf(copy, sizeof(copy), "%s", credentials);
    escape(token, escaped, sizeof(escaped));
    /* In the order of their names, as they are signed. */
    (void)snprintf(query, sizeof(query), "%s%s%sencoding-type=url&list-type=2&max-keys=" PAGE_KEYS,
                   token[0] == '\0' ? "" : "continuation-token=", escaped,
                   token[0] == '\0' ? "" : "&");
    rc = fill(&place, region, copy, date, query, request, err);
    explicit_bzero(copy, sizeof(copy));
    if (rc == KVT_OK &&
        snprintf(request->url, sizeof(request->url), "%.*s/%s?%s", (int)place.base_size,
                 bucket->url, place.bucket, query) >= (int)sizeof(request->url))
        rc = kvt_error_set(err, KVT_RANGE, "the URL is too long");
    return rc;
}
