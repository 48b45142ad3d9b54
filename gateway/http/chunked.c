#include "gateway/http/chunked.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "g4/object/sha256.h"

#define SIGNATURE_EXTENSION "chunk-signature="
#define SIGNATURE_TRAILER   "x-amz-trailer-signature"

enum {
    SIZE_DIGITS_MAX = 16,
    TRAILER_TEXT_MAX = GATEWAY_CHUNKED_TRAILERS_MAX * GATEWAY_CHUNKED_LINE_MAX,
};

enum state {
    STATE_SIZE,    /* in a line with a chunk's size */
    STATE_DATA,    /* in a chunk's bytes */
    STATE_BREAK,   /* in the line break behind them */
    STATE_TRAILER, /* in a line behind the last chunk */
    STATE_DONE,
};

struct gateway_chunked {
    struct gateway_chunked_options options;
    enum state state;
    enum kvt_err failed;
    uint64_t taken; /* bytes of payload in the chunks begun so far */
    uint64_t left;  /* of this chunk */
    size_t line_size;
    char line[GATEWAY_CHUNKED_LINE_MAX];
    char previous[G4_SIGV4_SIGNATURE_MAX]; /* signature of what came before this chunk */
    char claimed[G4_SIGV4_SIGNATURE_MAX];  /* of this chunk, as it says */
    EVP_MD_CTX *hash;                      /* is_signed: of this chunk's bytes */
    unsigned trailers;
    bool trailer_signed;
    struct kvt_buffer trailer_text; /* "name:value\n" of each, for the signature */
    struct gateway_body_checksums checksums;
};

enum kvt_err
gateway_chunked_new(struct gateway_chunked **out, const struct gateway_chunked_options *options)
{
    struct gateway_chunked *chunked = kvt_calloc(1, sizeof(*chunked));

    *out = NULL;
    if (chunked == NULL)
        return KVT_NOMEM;
    chunked->options = *options;
    memcpy(chunked->previous, options->seed, sizeof(chunked->previous));
    kvt_buffer_init(&chunked->trailer_text, TRAILER_TEXT_MAX);
    if (options->is_signed) {
        chunked->hash = EVP_MD_CTX_new();
        if (chunked->hash == NULL) {
            gateway_chunked_free(chunked);
            return KVT_NOMEM;
        }
    }
    *out = chunked;
    return KVT_OK;
}

void
gateway_chunked_free(struct gateway_chunked *chunked)
{
    if (chunked == NULL)
        return;
    EVP_MD_CTX_free(chunked->hash);
    kvt_buffer_release(&chunked->trailer_text);
    explicit_bzero(&chunked->options, sizeof(chunked->options));
    kvt_free(chunked);
}

/* Gather bytes up to the line's end.  OK: `*whole` says whether it came; it has no line break. */
static enum kvt_err
take_line(struct gateway_chunked *chunked, const uint8_t **at, const uint8_t *end, bool *whole)
{
    const uint8_t *feed = memchr(*at, '\n', (size_t)(end - *at));
    const size_t size = (size_t)((feed == NULL ? end : feed) - *at);

    *whole = feed != NULL;
    if (size >= sizeof(chunked->line) - chunked->line_size || memchr(*at, '\0', size) != NULL)
        return KVT_INVALID;
    memcpy(chunked->line + chunked->line_size, *at, size);
    chunked->line_size += size;
    *at += size + (*whole ? 1 : 0);
    if (!*whole)
        return KVT_OK;
    if (chunked->line_size > 0 && chunked->line[chunked->line_size - 1] == '\r')
        chunked->line_size--;
    chunked->line[chunked->line_size] = '\0';
    chunked->line_size = 0;
    return KVT_OK;
}

static bool
is_signature(const char *text)
{
    return strlen(text) == G4_SIGV4_SIGNATURE_MAX - 1 &&
           strspn(text, "0123456789abcdef") == G4_SIGV4_SIGNATURE_MAX - 1;
}

static bool
parse_size(const char *line, uint64_t *size, const char **rest)
{
    const size_t digits = strspn(line, "0123456789abcdefABCDEF");

    *size = 0;
    *rest = line + digits;
    if (digits == 0 || digits > SIZE_DIGITS_MAX || (**rest != '\0' && **rest != ';'))
        return false;
    for (const char *at = line; at < *rest; at++)
        *size = *size << 4 | (uint64_t)kvt_hex_digit(*at);
    return true;
}

/* "<hex>[;chunk-signature=<64 hex>]" */
static enum kvt_err
begin_chunk(struct gateway_chunked *chunked)
{
    const size_t name_size = strlen(SIGNATURE_EXTENSION);
    const char *rest;

    if (!parse_size(chunked->line, &chunked->left, &rest))
        return KVT_INVALID;
    if (chunked->options.is_signed) {
        if (*rest != ';' || strncmp(rest + 1, SIGNATURE_EXTENSION, name_size) != 0 ||
            !is_signature(rest + 1 + name_size))
            return KVT_DENIED;
        memcpy(chunked->claimed, rest + 1 + name_size, sizeof(chunked->claimed));
        if (EVP_DigestInit_ex(chunked->hash, EVP_sha256(), NULL) != 1)
            return KVT_NOMEM;
    }
    if (chunked->left > chunked->options.length - chunked->taken)
        return KVT_RANGE;
    chunked->taken += chunked->left;
    return KVT_OK;
}

/* The chunk's bytes are there: were they signed? */
static enum kvt_err
check_chunk(struct gateway_chunked *chunked)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hash[G4_SIGV4_SIGNATURE_MAX];
    char signature[G4_SIGV4_SIGNATURE_MAX];

    if (!chunked->options.is_signed)
        return KVT_OK;
    if (EVP_DigestFinal_ex(chunked->hash, digest, NULL) != 1)
        return KVT_NOMEM;
    kvt_hex_format(digest, G4_SIGV4_KEY_BYTES, hash);
    g4_sigv4_sign_chunk(&chunked->options.signer, chunked->previous, hash, signature);
    if (CRYPTO_memcmp(signature, chunked->claimed, sizeof(signature) - 1) != 0)
        return KVT_DENIED;
    memcpy(chunked->previous, signature, sizeof(signature));
    return KVT_OK;
}

static enum kvt_err
end_size_line(struct gateway_chunked *chunked)
{
    enum kvt_err rc = begin_chunk(chunked);

    if (rc != KVT_OK)
        return rc;
    if (chunked->left > 0) {
        chunked->state = STATE_DATA;
        return KVT_OK;
    }
    rc = check_chunk(chunked);
    /* Without trailing headers the blank line that ends the body comes next: none of them. */
    chunked->state = STATE_TRAILER;
    return rc;
}

static enum kvt_err
check_trailers(struct gateway_chunked *chunked, const char *claimed)
{
    char hash[G4_SIGV4_SIGNATURE_MAX];
    char signature[G4_SIGV4_SIGNATURE_MAX];

    if (!is_signature(claimed))
        return KVT_DENIED;
    g4_sha256_hex(chunked->trailer_text.size == 0 ? (const void *)"" : chunked->trailer_text.data,
                  chunked->trailer_text.size, hash);
    g4_sigv4_sign_trailer(&chunked->options.signer, chunked->previous, hash, signature);
    if (CRYPTO_memcmp(signature, claimed, sizeof(signature) - 1) != 0)
        return KVT_DENIED;
    chunked->trailer_signed = true;
    return KVT_OK;
}

static enum kvt_err
take_trailer(struct gateway_chunked *chunked, char *name)
{
    char *value = strchr(name, ':');
    enum gateway_body_checksum checksum;
    size_t size;

    if (value == NULL || !chunked->options.has_trailer || chunked->trailer_signed ||
        ++chunked->trailers > GATEWAY_CHUNKED_TRAILERS_MAX)
        return KVT_INVALID;
    *value++ = '\0';
    value += strspn(value, " \t");
    size = strlen(value);
    while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
        value[--size] = '\0';
    if (strcasecmp(name, SIGNATURE_TRAILER) == 0)
        return chunked->options.is_signed ? check_trailers(chunked, value) : KVT_OK;
    kvt_buffer_printf(&chunked->trailer_text, "%s:%s\n", name, value);
    if (!kvt_buffer_ok(&chunked->trailer_text))
        return KVT_NOMEM;
    checksum = gateway_body_checksum_of_header(name);
    if (checksum == GATEWAY_BODY_CHECKSUM_COUNT)
        return KVT_OK;
    if (!gateway_body_checksum_valid(checksum, value) ||
        chunked->checksums.text[checksum][0] != '\0')
        return KVT_INVALID;
    memcpy(chunked->checksums.text[checksum], value, size + 1);
    return KVT_OK;
}

static enum kvt_err
end_trailer_line(struct gateway_chunked *chunked)
{
    const bool wants_signature = chunked->options.is_signed && chunked->options.has_trailer;

    if (chunked->line[0] != '\0')
        return take_trailer(chunked, chunked->line);
    /* Some signers end the checksum's line with "\n\r\n": a blank line before the signature. */
    if (!wants_signature || chunked->trailer_signed)
        chunked->state = STATE_DONE;
    else if (++chunked->trailers > GATEWAY_CHUNKED_TRAILERS_MAX)
        return KVT_INVALID;
    return KVT_OK;
}

static enum kvt_err
take_data(struct gateway_chunked *chunked, const uint8_t **at, const uint8_t *end,
          struct kvt_buffer *body)
{
    const size_t there = (size_t)(end - *at);
    const size_t size = chunked->left < there ? (size_t)chunked->left : there;

    kvt_buffer_append(body, *at, size);
    if (!kvt_buffer_ok(body))
        return KVT_NOMEM;
    if (chunked->options.is_signed && EVP_DigestUpdate(chunked->hash, *at, size) != 1)
        return KVT_NOMEM;
    *at += size;
    chunked->left -= size;
    if (chunked->left > 0)
        return KVT_OK;
    chunked->state = STATE_BREAK;
    return check_chunk(chunked);
}

static enum kvt_err
step(struct gateway_chunked *chunked, const uint8_t **at, const uint8_t *end,
     struct kvt_buffer *body)
{
    enum kvt_err rc;
    bool whole;

    if (chunked->state == STATE_DONE)
        return KVT_INVALID; /* bytes behind the end */
    if (chunked->state == STATE_DATA)
        return take_data(chunked, at, end, body);
    rc = take_line(chunked, at, end, &whole);
    if (rc != KVT_OK || !whole)
        return rc;
    if (chunked->state == STATE_SIZE)
        return end_size_line(chunked);
    if (chunked->state == STATE_TRAILER)
        return end_trailer_line(chunked);
    assert(chunked->state == STATE_BREAK);
    chunked->state = STATE_SIZE;
    return chunked->line[0] == '\0' ? KVT_OK : KVT_INVALID;
}

enum kvt_err
gateway_chunked_take(struct gateway_chunked *chunked, const void *bytes, size_t size,
                     struct kvt_buffer *body)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + size;

    while (chunked->failed == KVT_OK && at < end)
        chunked->failed = step(chunked, &at, end, body);
    return chunked->failed;
}

enum kvt_err
gateway_chunked_end(const struct gateway_chunked *chunked)
{
    if (chunked->failed != KVT_OK)
        return chunked->failed;
    return chunked->state == STATE_DONE && chunked->taken == chunked->options.length ? KVT_OK
                                                                                     : KVT_RANGE;
}

const struct gateway_body_checksums *
gateway_chunked_checksums(const struct gateway_chunked *chunked)
{
    return &chunked->checksums;
}
