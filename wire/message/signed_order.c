#include "wire/message/signed_order.h"

#include <assert.h>
#include <string.h>

#include "base/text/msgpack.h"
#include "wire/message/signature.h"

enum {
    PAYLOAD_MEMBERS = 10,
    PIN_MEMBERS = 11,  /* of a pin: when it ends, behind the items */
    EDGE_MEMBERS = 11, /* of a move that names its tiers: they, behind the items */
    EDGE_PARTS = 3,
    CAUSE_MEMBERS = 11, /* of a deletion that states its cause: it, behind the items */
    CAUSE_PARTS = 7,
    PPM = 1000000,
    ITEM_MEMBERS = 4,
};

static bool
has_edge(const struct kvt_order *order)
{
    return kvt_order_verb_moves(order->verb) && order->to[0] != '\0';
}

static bool
has_cause(const struct kvt_order *order)
{
    return order->verb == KVT_ORDER_DELETE && order->cause.kind != KVT_DELETE_OTHER;
}

static uint32_t
members_of(const struct kvt_order *order)
{
    if (has_edge(order))
        return EDGE_MEMBERS;
    if (has_cause(order))
        return CAUSE_MEMBERS;
    return order->verb == KVT_ORDER_PIN ? PIN_MEMBERS : PAYLOAD_MEMBERS;
}

static void
put_cause(struct kvt_msgpack_writer *writer, const struct kvt_delete_cause *cause)
{
    kvt_msgpack_put_array(writer, CAUSE_PARTS);
    kvt_msgpack_put_uint(writer, (uint64_t)cause->kind);
    kvt_msgpack_put_uint(writer, cause->policy_version);
    kvt_msgpack_put_str(writer, cause->rule);
    kvt_msgpack_put_uint(writer, cause->job);
    kvt_msgpack_put_str(writer, cause->tier);
    kvt_msgpack_put_uint(writer, cause->stop_ppm);
    kvt_msgpack_put_uint(writer, cause->capacity);
}

static enum kvt_err
encode_payload(const struct kvt_order *order, struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_put_message(&writer, out, WIRE_ORDER_MAX - WIRE_ENVELOPE_MAX, members_of(order));
    kvt_msgpack_put_str(&writer, order->gateway);
    kvt_msgpack_put_str(&writer, order->namespace_);
    kvt_msgpack_put_uint(&writer, order->epoch);
    kvt_msgpack_put_uint(&writer, order->id);
    kvt_msgpack_put_uint(&writer, order->issued_ms);
    kvt_msgpack_put_uint(&writer, order->expires_ms);
    kvt_msgpack_put_uint(&writer, (uint64_t)order->verb);
    kvt_msgpack_put_str(&writer, order->reason);
    kvt_msgpack_put_array(&writer, order->item_count);
    for (uint32_t i = 0; i < order->item_count; i++) {
        const struct kvt_order_item *item = &order->items[i];

        kvt_msgpack_put_array(&writer, ITEM_MEMBERS);
        kvt_msgpack_put_uint(&writer, item->block.hash);
        kvt_msgpack_put_uint(&writer, item->block.parent);
        kvt_msgpack_put_uint(&writer, item->block.position);
        kvt_msgpack_put_uint(&writer, item->ranks);
    }
    if (order->verb == KVT_ORDER_PIN)
        kvt_msgpack_put_uint(&writer, order->until_ms);
    if (has_edge(order)) {
        kvt_msgpack_put_array(&writer, EDGE_PARTS);
        kvt_msgpack_put_str(&writer, order->from);
        kvt_msgpack_put_str(&writer, order->to);
        kvt_msgpack_put_bool(&writer, order->keep);
    }
    if (has_cause(order))
        put_cause(&writer, &order->cause);
    return kvt_msgpack_done(&writer);
}

enum kvt_err
wire_order_encode(const struct kvt_order *order, const struct wire_key_ring *keys, bool shared,
                  struct kvt_buffer *out)
{
    struct kvt_buffer payload;
    enum kvt_err rc;

    assert(order != NULL && keys != NULL && out != NULL);
    assert((order->from[0] == '\0') == (order->to[0] == '\0'));
    if (order->item_count > KVT_ORDER_ITEMS_MAX)
        return KVT_RANGE;
    if (order->keep && !has_edge(order)) /* there would be no place for it: the copy would go */
        return KVT_INVALID;
    kvt_buffer_init(&payload, WIRE_ORDER_MAX);
    rc = encode_payload(order, &payload);
    if (rc == KVT_OK && shared)
        rc = wire_envelope_sign_shared(keys, payload.data, payload.size, out);
    else if (rc == KVT_OK)
        rc = wire_envelope_sign(keys, WIRE_SIGNED_ORDER, order->gateway, payload.data, payload.size,
                                out);
    kvt_buffer_release(&payload);
    return rc;
}

static void
read_items(struct kvt_msgpack_reader *reader, struct kvt_order *order, size_t capacity)
{
    const size_t most = capacity < KVT_ORDER_ITEMS_MAX ? capacity : KVT_ORDER_ITEMS_MAX;
    const uint32_t count =
        kvt_msgpack_list(reader, most, "an array of no more items than there is room for");

    for (uint32_t i = 0; i < count && reader->code == KVT_OK; i++) {
        struct kvt_order_item *item = &order->items[i];
        const uint32_t members =
            kvt_msgpack_array(reader, ITEM_MEMBERS, "an item: [hash, parent, position, ranks]");

        item->block.hash = kvt_msgpack_u64(reader, "a hash");
        item->block.parent = kvt_msgpack_u64(reader, "a parent");
        item->block.position =
            (uint32_t)kvt_msgpack_uint(reader, KVT_POSITION_MAX, "a position of at most 16777215");
        item->ranks = kvt_msgpack_u32(reader, "a bitmap of ranks");
        kvt_msgpack_rest(reader, members, ITEM_MEMBERS);
    }
    order->item_count = count;
}

static void
read_edge(struct kvt_msgpack_reader *reader, struct kvt_order *order)
{
    static const char wanted[] = "the edge of a move: [from, to, keep], two names or none";
    const size_t offset = reader->at;
    const uint32_t members = kvt_msgpack_array(reader, EDGE_PARTS, wanted);

    kvt_msgpack_str(reader, order->from, sizeof(order->from), "a holder of at most 63 bytes");
    kvt_msgpack_str(reader, order->to, sizeof(order->to), "a holder of at most 63 bytes");
    order->keep = kvt_msgpack_bool(reader, "does the copy stay?");
    kvt_msgpack_rest(reader, members, EDGE_PARTS);
    if ((order->from[0] == '\0') != (order->to[0] == '\0'))
        kvt_msgpack_fail(reader, offset, KVT_INVALID, wanted);
}

/* A kind that this release does not know counts as none stated. */
static void
read_cause(struct kvt_msgpack_reader *reader, struct kvt_delete_cause *cause)
{
    const uint32_t members = kvt_msgpack_array(
        reader, CAUSE_PARTS,
        "the cause of a deletion: [kind, version, rule, job, tier, stop, capacity]");
    const uint64_t kind = kvt_msgpack_u64(reader, "the kind of a cause");

    cause->kind =
        kind < KVT_DELETE_CAUSE_COUNT ? (enum kvt_delete_cause_kind)kind : KVT_DELETE_OTHER;
    cause->policy_version = kvt_msgpack_u64(reader, "the version of a policy");
    kvt_msgpack_str(reader, cause->rule, sizeof(cause->rule), "a rule of at most 63 bytes");
    cause->job = kvt_msgpack_u64(reader, "the id of a job");
    kvt_msgpack_str(reader, cause->tier, sizeof(cause->tier), "a holder of at most 63 bytes");
    cause->stop_ppm =
        (uint32_t)kvt_msgpack_uint(reader, PPM, "a stop mark of at most 1000000 millionths");
    cause->capacity = kvt_msgpack_u64(reader, "the capacity of a tier");
    kvt_msgpack_rest(reader, members, CAUSE_PARTS);
}

static enum kvt_err
decode_payload(const void *bytes, size_t size, struct kvt_order *order, size_t capacity,
               struct kvt_error *err)
{
    struct kvt_msgpack_reader reader;
    uint32_t members;
    size_t offset;

    members = kvt_msgpack_message(&reader, bytes, size, PAYLOAD_MEMBERS,
                                  "an order: an array of 10 members or more");
    kvt_msgpack_str(&reader, order->gateway, sizeof(order->gateway),
                    "a gateway name of at most 63 bytes");
    kvt_msgpack_str(&reader, order->namespace_, sizeof(order->namespace_),
                    "a namespace of at most 127 bytes");
    order->epoch = kvt_msgpack_u64(&reader, "an epoch");
    order->id = kvt_msgpack_u64(&reader, "an id");
    order->issued_ms = kvt_msgpack_u64(&reader, "a time of issue in ms");
    order->expires_ms = kvt_msgpack_u64(&reader, "an expiry in ms");
    offset = reader.at;
    order->verb =
        (enum kvt_order_verb)kvt_msgpack_uint(&reader, KVT_ORDER_VERB_LAST, "a verb from 1 to 7");
    if (order->verb == KVT_ORDER_NONE)
        kvt_msgpack_fail(&reader, offset, KVT_INVALID, "a verb from 1 to 7");
    kvt_msgpack_str(&reader, order->reason, sizeof(order->reason), "a reason of at most 63 bytes");
    read_items(&reader, order, capacity);
    if (order->verb == KVT_ORDER_PIN && members >= PIN_MEMBERS) {
        order->until_ms = kvt_msgpack_u64(&reader, "the end of a pin in ms");
        kvt_msgpack_rest(&reader, members, PIN_MEMBERS);
    } else if (kvt_order_verb_moves(order->verb) && members >= EDGE_MEMBERS) {
        read_edge(&reader, order);
        kvt_msgpack_rest(&reader, members, EDGE_MEMBERS);
    } else if (order->verb == KVT_ORDER_DELETE && members >= CAUSE_MEMBERS) {
        read_cause(&reader, &order->cause);
        kvt_msgpack_rest(&reader, members, CAUSE_MEMBERS);
    } else {
        kvt_msgpack_rest(&reader, members, PAYLOAD_MEMBERS);
    }
    return kvt_msgpack_end(&reader, "order", err);
}

enum kvt_err
wire_order_decode(const void *bytes, size_t size, const struct wire_key_ring *keys,
                  const char *gateway, struct kvt_order *order, size_t capacity,
                  struct kvt_error *err)
{
    struct wire_envelope envelope;
    struct kvt_order_item *items;
    enum kvt_err rc;

    assert(keys != NULL && order != NULL);
    assert(order->items != NULL || capacity == 0);
    items = order->items;
    *order = (struct kvt_order){.items = items};
    if (size > WIRE_ORDER_MAX)
        return kvt_msgpack_refuse("order", size, WIRE_ORDER_MAX, err);
    rc = wire_envelope_read(bytes, size, &envelope, err);
    if (rc != KVT_OK)
        return rc;

    /* Nothing of the payload is looked at before its signature fits. */
    if (!wire_envelope_verify(keys, WIRE_SIGNED_ORDER, gateway, &envelope) &&
        !wire_envelope_verify_shared(keys, &envelope))
        return kvt_error_set(err, KVT_DENIED, "order: the signature does not fit");
    rc = decode_payload(envelope.payload, envelope.size, order, capacity, err);
    if (rc != KVT_OK)
        *order = (struct kvt_order){.items = items};
    return rc;
}
