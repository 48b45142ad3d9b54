/*
 * Property: a request whose signature nobody made who holds the secret is nobody's, whatever it
 * says.  The same request with a right one in its URL is its signer's or refused; and of one that
 * is taken no argument of the signature is left for handlers.  The first line is method and target,
 * the others are headers.
 */
#include <assert.h>
#include <strings.h>

#include "gateway/http/auth.h"

#include "tests/fuzz/request.h"
#include "tests/fuzz/target.h"

#define NOW_MS UINT64_C(1369353600000) /* 2013-05-24T00:00:00Z */
#define DATE   "20130524T000000Z"
#define SECRET "a secret that no input has"
#define SIGNING                                                                                    \
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=access%2F20130524%2Fus-east-1%2Fs3%2F"      \
    "aws4_request&X-Amz-Date=" DATE "&X-Amz-Expires=60&X-Amz-SignedHeaders=host"

static struct gateway_auth *
only_auth(void)
{
    static struct gateway_auth *auth;
    struct gateway_client_credentials *table;

    if (auth == NULL &&
        (gateway_client_credentials_parse(&table, "access:" SECRET, NULL) != KVT_OK ||
         gateway_auth_new(&auth, table, NULL) != KVT_OK))
        abort();
    return auth;
}

static void
check_guess(const char *method, const char *raw, const char *headers)
{
    char *lines = kvt_strdup(headers);
    struct gateway_request *request = request_of(method, raw, lines);

    if (request != NULL) {
        assert(gateway_auth_check(only_auth(), request, NOW_MS) != GATEWAY_S3_ERROR_NONE);
        assert(request->principal == NULL);
        gateway_request_release(request, NULL);
    }
    kvt_free(lines);
}

static void
check_taken(const struct gateway_request *request)
{
    const char *at = request->target.query;

    assert(request->principal != NULL && strcmp(request->principal->access, "access") == 0);
    for (; *at != '\0'; at += *at == '&' ? 1 : 0) {
        assert(strncasecmp(at, "x-amz-", 6) != 0);
        at += strcspn(at, "&");
    }
}

/* The target with a right signature at its end; false: it is one that cannot be signed. */
static bool
sign(struct kvt_buffer *signed_raw, const char *method, const struct gateway_target *target)
{
    const struct g4_sigv4_header host = {"host", "h"};
    char signature[G4_SIGV4_SIGNATURE_MAX];
    struct kvt_buffer query;
    bool done;

    kvt_buffer_init(&query, 1 << 16);
    kvt_buffer_printf(&query, "%s%s%s", target->query, target->query[0] == '\0' ? "" : "&",
                      SIGNING);
    done = g4_sigv4_sign(&(struct g4_sigv4_request){.method = method,
                                                    .path = target->path,
                                                    .query = kvt_buffer_text(&query),
                                                    .headers = &host,
                                                    .header_count = 1,
                                                    .payload_hash = G4_SIGV4_UNSIGNED,
                                                    .date = DATE,
                                                    .region = "us-east-1",
                                                    .service = "s3"},
                         SECRET, signature) == KVT_OK;
    g4_sigv4_encode(signed_raw, target->path, true);
    kvt_buffer_printf(signed_raw, "?%s&X-Amz-Signature=%s", kvt_buffer_text(&query), signature);
    kvt_buffer_release(&query);
    return done && kvt_buffer_ok(signed_raw);
}

static void
check_signed(const char *method, const char *raw, const char *headers)
{
    char *lines = kvt_strdup(headers);
    struct gateway_request *request = request_of(method, raw, lines);
    struct gateway_request *right;
    struct kvt_buffer signed_raw;
    char host[] = "Host: h";

    kvt_buffer_init(&signed_raw, 1 << 18);
    if (request != NULL && sign(&signed_raw, request->method, &request->target)) {
        right = request_of(method, kvt_buffer_text(&signed_raw), host);
        assert(right != NULL);
        for (size_t i = 0; i < request->header_count; i++)
            (void)!gateway_request_header_add(right, request->headers[i].name,
                                              request->headers[i].value);
        if (gateway_auth_check(only_auth(), right, NOW_MS) == GATEWAY_S3_ERROR_NONE)
            check_taken(right);
        gateway_request_release(right, NULL);
    }
    kvt_buffer_release(&signed_raw);
    gateway_request_release(request, NULL);
    kvt_free(lines);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = request_text(bytes, size);
    char *headers = text;
    char *method = request_line(&headers);
    char *raw = method == NULL ? NULL : strchr(method, ' ');

    if (raw != NULL) {
        *raw++ = '\0';
        check_guess(method, raw, headers);
        check_signed(method, raw, headers);
    }
    kvt_free(text);
    return 0;
}
