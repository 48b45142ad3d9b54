#include "wire/message/signature.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/text/msgpack.h"

enum { MEMBERS = 2, ARRAY_OF_TWO = 0x92, BIN_8 = 0xc4, BIN_32 = 0xc6 };

static const struct {
    const char *label; /* hashed with its NUL */
    enum wire_key_use use;
} kinds[WIRE_SIGNED_KIND_COUNT] = {
#define X(name, label, use) {label, use},
    WIRE_SIGNED_KINDS(X)
#undef X
};

static enum kvt_err
hash_parts(EVP_MD_CTX *context, EVP_PKEY *key, const char *label, const void *payload, size_t size,
           uint8_t mac[WIRE_MAC_SIZE])
{
    size_t length = WIRE_MAC_SIZE;

    if (EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) != 1)
        return KVT_NOMEM;
    if (label != NULL && EVP_DigestSignUpdate(context, label, strlen(label) + 1) != 1)
        return KVT_NOMEM;
    if (EVP_DigestSignUpdate(context, payload, size) != 1 ||
        EVP_DigestSignFinal(context, mac, &length) != 1)
        return KVT_NOMEM;
    assert(length == WIRE_MAC_SIZE);
    return KVT_OK;
}

/* HMAC-SHA256 over the label, if any, and the payload. */
static enum kvt_err
make_mac(const struct wire_key *key, const char *label, const void *payload, size_t size,
         uint8_t mac[WIRE_MAC_SIZE])
{
    EVP_PKEY *handle;
    EVP_MD_CTX *context;
    enum kvt_err rc;

    if (key->size < WIRE_KEY_MIN || key->size > WIRE_KEY_MAX)
        return KVT_INVALID;
    handle = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, key->bytes, key->size);
    context = EVP_MD_CTX_new();
    rc = handle == NULL || context == NULL ? KVT_NOMEM
                                           : hash_parts(context, handle, label, payload, size, mac);
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(handle);
    return rc;
}

static enum kvt_err
write_envelope(struct kvt_buffer *out, const void *payload, size_t size,
               const uint8_t mac[WIRE_MAC_SIZE])
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_write(&writer, out, size + WIRE_ENVELOPE_MAX);
    kvt_msgpack_put_array(&writer, MEMBERS);
    kvt_msgpack_put_bin(&writer, payload, size);
    kvt_msgpack_put_bin(&writer, mac, WIRE_MAC_SIZE);
    return kvt_msgpack_done(&writer);
}

static bool
is_mac_of(const struct wire_key *key, const char *label, const struct wire_envelope *envelope)
{
    uint8_t wanted[WIRE_MAC_SIZE];

    return make_mac(key, label, envelope->payload, envelope->size, wanted) == KVT_OK &&
           CRYPTO_memcmp(envelope->mac, wanted, WIRE_MAC_SIZE) == 0;
}

bool
wire_envelope_is(const void *bytes, size_t size)
{
    const uint8_t *head = bytes;

    return size > 2 && head[0] == ARRAY_OF_TWO && head[1] >= BIN_8 && head[1] <= BIN_32;
}

enum kvt_err
wire_envelope_read(const void *bytes, size_t size, struct wire_envelope *envelope,
                   struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    size_t mac_size;
    uint32_t members;
    enum kvt_err rc;

    *envelope = (struct wire_envelope){.size = 0};
    kvt_msgpack_read(&reader, bytes, size);
    members = kvt_msgpack_array(&reader, MEMBERS, "a signed message: [payload, mac]");
    envelope->payload = kvt_msgpack_bin(&reader, &envelope->size, "the payload's bytes");
    envelope->mac = kvt_msgpack_bin(&reader, &mac_size, "the signature's bytes");
    rc = kvt_msgpack_close(&reader, members, MEMBERS, "signed message", err);
    if (rc == KVT_OK && mac_size != WIRE_MAC_SIZE)
        rc = kvt_error_set(err, KVT_INVALID, "signed message: a signature of %zu bytes, not %d",
                           mac_size, WIRE_MAC_SIZE);
    return rc;
}

enum kvt_err
wire_envelope_sign(const struct wire_key_ring *ring, enum wire_signed_kind kind, const char *name,
                   const void *payload, size_t size, struct kvt_buffer *out)
{
    uint8_t mac[WIRE_MAC_SIZE];
    struct wire_key key;
    enum kvt_err rc;

    if (ring->count == 0)
        return KVT_NOTFOUND;
    rc = wire_key_of(&ring->lines[0], kinds[kind].use, name, &key);
    if (rc == KVT_OK)
        rc = make_mac(&key, kinds[kind].label, payload, size, mac);
    explicit_bzero(&key, sizeof(key));
    return rc == KVT_OK ? write_envelope(out, payload, size, mac) : rc;
}

bool
wire_envelope_verify(const struct wire_key_ring *ring, enum wire_signed_kind kind, const char *name,
                     const struct wire_envelope *envelope)
{
    bool fits = false;

    for (size_t i = 0; i < ring->count && !fits; i++) {
        struct wire_key key;

        fits = wire_key_of(&ring->lines[i], kinds[kind].use, name, &key) == KVT_OK &&
               is_mac_of(&key, kinds[kind].label, envelope);
        explicit_bzero(&key, sizeof(key));
    }
    return fits;
}

enum kvt_err
wire_envelope_sign_shared(const struct wire_key_ring *ring, const void *payload, size_t size,
                          struct kvt_buffer *out)
{
    uint8_t mac[WIRE_MAC_SIZE];
    enum kvt_err rc;

    if (ring->count == 0 || ring->lines[0].master.size == 0)
        return KVT_NOTFOUND;
    rc = make_mac(&ring->lines[0].master, NULL, payload, size, mac);
    return rc == KVT_OK ? write_envelope(out, payload, size, mac) : rc;
}

bool
wire_envelope_verify_shared(const struct wire_key_ring *ring, const struct wire_envelope *envelope)
{
    for (size_t i = 0; i < ring->count; i++)
        if (ring->lines[i].master.size > 0 && is_mac_of(&ring->lines[i].master, NULL, envelope))
            return true;
    return false;
}
