/*
 * Property: any bytes, in any pieces, never give more payload than was announced; they are a whole
 * body only when all of it came; and pieces make no difference.  The first byte is the announced
 * length, the second the size of the pieces; its high bit: signed.
 */
#include <assert.h>
#include <string.h>

#include "gateway/http/chunked.h"

#include "tests/fuzz/target.h"

static enum kvt_err
decode(const struct gateway_chunked_options *options, const uint8_t *bytes, size_t size,
       size_t piece, struct kvt_buffer *body)
{
    struct gateway_chunked *chunked;
    enum kvt_err rc = gateway_chunked_new(&chunked, options);

    assert(rc == KVT_OK);
    for (size_t at = 0; at < size && rc == KVT_OK; at += piece)
        rc = gateway_chunked_take(chunked, bytes + at, size - at < piece ? size - at : piece, body);
    if (rc == KVT_OK)
        rc = gateway_chunked_end(chunked);
    else
        assert(gateway_chunked_end(chunked) == rc);
    assert(body->size <= options->length);
    assert(rc != KVT_OK || body->size == options->length);
    for (int i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        const char *text = gateway_chunked_checksums(chunked)->text[i];

        assert(text[0] == '\0' || gateway_body_checksum_valid((enum gateway_body_checksum)i, text));
    }
    gateway_chunked_free(chunked);
    return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct gateway_chunked_options options = {.has_trailer = true};
    struct kvt_buffer whole;
    struct kvt_buffer pieces;
    enum kvt_err rc;

    if (size < 2)
        return 0;
    options.length = bytes[0];
    options.is_signed = (bytes[1] & 0x80) != 0;
    rc = g4_sigv4_signer_init(&options.signer, "secret", "20130524T000000Z", "us-east-1", "s3");
    assert(rc == KVT_OK);
    memset(options.seed, '0', sizeof(options.seed) - 1);
    kvt_buffer_init(&whole, 512);
    kvt_buffer_init(&pieces, 512);
    rc = decode(&options, bytes + 2, size - 2, size, &whole);
    assert(decode(&options, bytes + 2, size - 2, 1 + (bytes[1] & 0x7f), &pieces) == rc);
    assert(whole.size == pieces.size);
    assert(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
    kvt_buffer_release(&whole);
    kvt_buffer_release(&pieces);
    return 0;
}
