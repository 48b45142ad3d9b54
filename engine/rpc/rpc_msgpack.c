#include "engine/rpc/rpc_msgpack.h"

#include "base/text/msgpack.h"

void
engine_pack_number(struct kvt_buffer *out, uint64_t value)
{
    uint8_t form[KVT_MSGPACK_HEAD_MAX];

    kvt_buffer_append(out, form, kvt_msgpack_form_uint(form, value));
}

void
engine_pack_array(struct kvt_buffer *out, uint32_t count)
{
    uint8_t form[KVT_MSGPACK_HEAD_MAX];

    kvt_buffer_append(out, form, kvt_msgpack_form_array(form, count));
}

void
engine_pack_bytes(struct kvt_buffer *out, const void *bytes, uint32_t size)
{
    uint8_t form[KVT_MSGPACK_HEAD_MAX];

    kvt_buffer_append(out, form, kvt_msgpack_form_bin(form, size));
    kvt_buffer_append(out, bytes, size);
}

/* A strict reader of what is left. */
static struct kvt_msgpack_reader
reader_of(const struct engine_unpack *in)
{
    return (struct kvt_msgpack_reader){
        .bytes = in->bytes, .size = in->size, .code = in->bad ? KVT_INVALID : KVT_OK};
}

/* Go on after what was read; false: something was not as said. */
static bool
advance(struct engine_unpack *in, const struct kvt_msgpack_reader *reader, bool good)
{
    in->bad = reader->code != KVT_OK || !good;
    in->bytes += reader->at;
    in->size -= reader->at;
    return !in->bad;
}

uint64_t
engine_unpack_number(struct engine_unpack *in, uint64_t max)
{
    struct kvt_msgpack_reader reader = reader_of(in);
    const uint64_t value = kvt_msgpack_u64(&reader, "a number");

    return advance(in, &reader, value <= max) ? value : 0;
}

uint32_t
engine_unpack_array(struct engine_unpack *in, uint32_t min, uint32_t max)
{
    struct kvt_msgpack_reader reader = reader_of(in);
    const uint32_t count = kvt_msgpack_array(&reader, min, "an array");

    return advance(in, &reader, count <= max) ? count : 0;
}

const uint8_t *
engine_unpack_bytes(struct engine_unpack *in, uint32_t max, size_t *size)
{
    struct kvt_msgpack_reader reader = reader_of(in);
    const uint8_t *bytes = kvt_msgpack_bin(&reader, size, "bytes");

    if (!advance(in, &reader, *size <= max))
        *size = 0;
    return *size > 0 ? bytes : NULL;
}

bool
engine_unpack_end(const struct engine_unpack *in)
{
    return !in->bad && in->size == 0;
}
