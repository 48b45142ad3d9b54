#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/json.h"
#include "wire/nats/object_private.h"

/* Names, and the JSON that describes an object. */

/* The time of an object is its message's; what stands in the text is what other clients write. */
#define NO_TIME "0001-01-01T00:00:00Z"

static const char digest_kind[] = "SHA-256=";

/* With padding; `out` has room for four characters of three bytes and the NUL. */
static void
base64url(char *out, const void *bytes, size_t size)
{
    const int length = EVP_EncodeBlock((unsigned char *)out, bytes, (int)size);

    for (int i = 0; i < length; i++) {
        if (out[i] == '+')
            out[i] = '-';
        else if (out[i] == '/')
            out[i] = '_';
    }
}

void
wire_object_stream_name(char out[WIRE_OBJECT_STREAM_MAX], const char *bucket)
{
    (void)snprintf(out, WIRE_OBJECT_STREAM_MAX, "OBJ_%s", bucket);
}

void
wire_object_chunks_subject(char out[WIRE_OBJECT_SUBJECT_MAX], const char *bucket, const char *nuid)
{
    (void)snprintf(out, WIRE_OBJECT_SUBJECT_MAX, "$O.%s.C.%s", bucket, nuid);
}

void
wire_object_meta_subject(char out[WIRE_OBJECT_SUBJECT_MAX], const char *bucket, const char *name)
{
    char text[(WIRE_OBJECT_NAME_MAX + 2) / 3 * 4 + 1];

    base64url(text, name, strlen(name));
    (void)snprintf(out, WIRE_OBJECT_SUBJECT_MAX, "$O.%s.M.%s", bucket, text);
}

void
wire_object_digest(char out[WIRE_OBJECT_DIGEST_MAX],
                   const unsigned char hash[WIRE_OBJECT_HASH_BYTES])
{
    memcpy(out, digest_kind, sizeof(digest_kind));
    base64url(out + sizeof(digest_kind) - 1, hash, WIRE_OBJECT_HASH_BYTES);
}

const char *
wire_object_header(const struct wire_object_info *info, const char *key)
{
    for (size_t i = 0; i < info->header_count; i++)
        if (strcmp(info->headers[i].key, key) == 0)
            return info->headers[i].value;
    return "";
}

void
wire_object_meta_write(struct kvt_buffer *out, const char *bucket,
                       const struct wire_object_info *info, bool deleted)
{
    kvt_buffer_puts(out, "{\"name\":");
    kvt_buffer_json_string(out, info->name);
    for (size_t i = 0; i < info->header_count; i++) {
        kvt_buffer_puts(out, i == 0 ? ",\"headers\":{" : ",");
        kvt_buffer_json_string(out, info->headers[i].key);
        kvt_buffer_puts(out, ":[");
        kvt_buffer_json_string(out, info->headers[i].value);
        kvt_buffer_puts(out, "]");
    }
    if (info->header_count > 0)
        kvt_buffer_puts(out, "}");
    kvt_buffer_printf(out,
                      ",\"options\":{\"max_chunk_size\":%u},\"bucket\":", WIRE_OBJECT_CHUNK_BYTES);
    kvt_buffer_json_string(out, bucket);
    kvt_buffer_puts(out, ",\"nuid\":");
    kvt_buffer_json_string(out, info->nuid);
    kvt_buffer_printf(
        out, ",\"size\":%" PRIu64 ",\"mtime\":\"" NO_TIME "\",\"chunks\":%" PRIu64 ",\"digest\":",
        info->size, info->chunks);
    kvt_buffer_json_string(out, info->digest);
    kvt_buffer_puts(out, deleted ? ",\"deleted\":true}" : "}");
}

/* ---- reading ---- */

static bool
read_text(struct json_object *meta, const char *key, char *out, size_t size)
{
    const char *text = kvt_json_string(meta, key);

    return text != NULL && (size_t)snprintf(out, size, "%s", text) < size;
}

/* The first value of each; what does not fit is not for us. */
static void
read_headers(struct json_object *meta, struct wire_object_info *info)
{
    struct json_object *headers = kvt_json_member(meta, "headers");

    if (!json_object_is_type(headers, json_type_object))
        return;
    json_object_object_foreach(headers, key, value)
    {
        struct wire_object_header *header = &info->headers[info->header_count];
        const char *text;

        if (json_object_is_type(value, json_type_array) && json_object_array_length(value) > 0)
            value = json_object_array_get_idx(value, 0);
        text = kvt_json_to_string(value);
        if (text == NULL || strlen(key) >= sizeof(header->key) ||
            strlen(text) >= sizeof(header->value))
            continue;
        (void)snprintf(header->key, sizeof(header->key), "%s", key);
        (void)snprintf(header->value, sizeof(header->value), "%s", text);
        if (++info->header_count == WIRE_OBJECT_HEADERS_MAX)
            return;
    }
}

/* It becomes a part of a subject. */
static bool
is_nuid(const char *nuid)
{
    return nuid[0] != '\0' && strpbrk(nuid, " \t\r\n.*>") == NULL;
}

static enum kvt_err
read_members(struct json_object *meta, const char *bucket, struct wire_object_info *info,
             bool *deleted, struct kvt_error *err)
{
    struct json_object *options = kvt_json_member(meta, "options");
    const char *of = kvt_json_string(meta, "bucket");

    (void)kvt_json_bool(meta, "deleted", deleted);
    if (!read_text(meta, "name", info->name, sizeof(info->name)))
        return kvt_error_set(err, KVT_INVALID, "its name is missing or too long");
    if (of == NULL || strcmp(of, bucket) != 0)
        return kvt_error_set(err, KVT_INVALID, "it is of another bucket");
    if (*deleted)
        return KVT_OK;
    if (json_object_is_type(options, json_type_object) && kvt_json_member(options, "link") != NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "it is a link to another object");
    if (!read_text(meta, "nuid", info->nuid, sizeof(info->nuid)) || !is_nuid(info->nuid))
        return kvt_error_set(err, KVT_INVALID, "nothing says where its chunks are");
    if (!kvt_json_u64(meta, "size", &info->size) || !kvt_json_u64(meta, "chunks", &info->chunks))
        return kvt_error_set(err, KVT_INVALID, "its size or its number of chunks is missing");
    if (info->chunks > info->size || (info->chunks == 0) != (info->size == 0))
        return kvt_error_set(err, KVT_INVALID, "%" PRIu64 " bytes in %" PRIu64 " chunks",
                             info->size, info->chunks);
    if (!read_text(meta, "digest", info->digest, sizeof(info->digest)) ||
        strncasecmp(info->digest, digest_kind, sizeof(digest_kind) - 1) != 0)
        return kvt_error_set(err, KVT_INVALID, "it has no SHA-256 digest");
    return KVT_OK;
}

enum kvt_err
wire_object_meta_read(const void *bytes, size_t size, const char *bucket,
                      struct wire_object_info *info, bool *deleted, struct kvt_error *err)
{
    struct json_object *meta;
    enum kvt_err rc;

    memset(info, 0, sizeof(*info));
    *deleted = false;
    if (size > WIRE_OBJECT_META_MAX)
        return kvt_error_set(err, KVT_INVALID, "its description has %zu bytes", size);
    rc = kvt_json_parse(&meta, bytes, size, "description", err);
    if (rc != KVT_OK)
        return rc;
    rc = json_object_is_type(meta, json_type_object)
             ? read_members(meta, bucket, info, deleted, err)
             : kvt_error_set(err, KVT_INVALID, "its description is no JSON object");
    if (rc == KVT_OK && !*deleted)
        read_headers(meta, info);
    (void)json_object_put(meta);
    return rc;
}
