#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/page.inc"

enum { SHA256_SIZE = 32, SHA256_BASE64_MAX = 45 };

static bool
hash(const unsigned char *bytes, size_t size, char text[SHA256_BASE64_MAX])
{
    unsigned char digest[SHA256_SIZE];

    if (EVP_Digest(bytes, size, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    (void)EVP_EncodeBlock((unsigned char *)text, digest, SHA256_SIZE);
    return true;
}

/* It loads nothing but itself, and asks nobody but us. */
void
advisor_admin_page(void *arg, const struct kvt_http_request *request,
                   struct kvt_http_response *response)
{
    char style[SHA256_BASE64_MAX];
    char script[SHA256_BASE64_MAX];

    (void)arg;
    (void)request;
    if (!hash(style_bytes, sizeof(style_bytes), style) ||
        !hash(script_bytes, sizeof(script_bytes), script)) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for the page");
        return;
    }
    (void)snprintf(response->page_policy, sizeof(response->page_policy),
                   "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; "
                   "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                   "frame-ancestors 'none'",
                   style, script);
    response->content_type = "text/html; charset=utf-8";
    kvt_buffer_append(&response->body, page_bytes, sizeof(page_bytes));
}

void
advisor_admin_stream(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;

    (void)request;
    response->stream = http->stream;
}
