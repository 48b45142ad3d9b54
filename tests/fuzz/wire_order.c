/*
 * Property: any bytes are refused, and nothing but a fitting signature is accepted.  The input is
 * tried as a signed message, and as the payload of one that is signed here, so that what lies
 * behind the signature is reached too.
 */
#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/text/msgpack.h"
#include "wire/message/signed_order.h"

#include "tests/fuzz/target.h"

static const struct wire_key_ring key = {
    .lines = {{.master = {.bytes = "0123456789abcdef", .size = 16}}}, .count = 1};

static void
decode(const void *bytes, size_t size)
{
    static struct kvt_order_item items[KVT_ORDER_ITEMS_MAX];
    struct kvt_order order = {.items = items};
    struct kvt_error err;
    const enum kvt_err rc =
        wire_order_decode(bytes, size, &key, "g1", &order, KVT_ORDER_ITEMS_MAX, &err);

    assert(rc == KVT_OK || rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_DENIED);
    if (rc != KVT_OK) {
        assert(order.item_count == 0);
        return;
    }
    assert(order.item_count <= KVT_ORDER_ITEMS_MAX);
    assert(order.verb >= KVT_ORDER_DEMOTE && order.verb <= KVT_ORDER_VERB_LAST);
    assert(order.until_ms == 0 || order.verb == KVT_ORDER_PIN);
    assert((order.from[0] == '\0') == (order.to[0] == '\0'));
    assert(order.to[0] == '\0' || kvt_order_verb_moves(order.verb));
    for (uint32_t i = 0; i < order.item_count; i++)
        assert(items[i].block.position <= KVT_POSITION_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct kvt_msgpack_writer writer;
    struct kvt_buffer out;
    uint8_t mac[32];
    unsigned mac_size = sizeof(mac);

    decode(bytes, size);
    if (HMAC(EVP_sha256(), key.lines[0].master.bytes, (int)key.lines[0].master.size, bytes, size,
             mac, &mac_size) == NULL)
        return 0;
    kvt_buffer_init(&out, 2 * WIRE_ORDER_MAX);
    kvt_msgpack_write(&writer, &out, 2 * WIRE_ORDER_MAX);
    kvt_msgpack_put_array(&writer, 2);
    kvt_msgpack_put_bin(&writer, bytes, size);
    kvt_msgpack_put_bin(&writer, mac, sizeof(mac));
    if (kvt_msgpack_done(&writer) == KVT_OK)
        decode(out.data, out.size);
    kvt_buffer_release(&out);
    return 0;
}
