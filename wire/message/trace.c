#include "wire/message/trace.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "kvtier/block.h"

#define SEED UINT64_C(1337)

enum {
    CHUNK_SIZE = 64 << 10,
    JSON_DEPTH_MAX = 4,
};

struct wire_trace {
    FILE *file;
    char *path;
    uint64_t line_number; /* of the line read last, from 1 */
    struct kvt_buffer line;
    struct json_tokener *tokener;
    uint64_t *hash_ids;
    uint32_t hash_capacity;
    char namespace_[KVT_NAMESPACE_MAX];
    uint8_t *chunk;
    size_t chunk_size;
    size_t chunk_at;
};

enum kvt_err
wire_trace_open(struct wire_trace **out, const char *path, struct kvt_error *err)
{
    struct wire_trace *trace;
    enum kvt_err rc;

    assert(out != NULL && path != NULL);
    *out = NULL;
    trace = kvt_calloc(1, sizeof(*trace));
    if (trace == NULL)
        return kvt_error_set(err, KVT_NOMEM, "trace %s: out of memory", path);
    kvt_buffer_init(&trace->line, WIRE_TRACE_LINE_MAX);
    trace->path = kvt_strdup(strcmp(path, "-") == 0 ? "standard input" : path);
    trace->chunk = kvt_calloc(1, CHUNK_SIZE);
    trace->tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
    if (trace->path == NULL || trace->chunk == NULL || trace->tokener == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "trace %s: out of memory", path);
        goto fail;
    }
    trace->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (trace->file == NULL) {
        rc = kvt_error_sys(err, errno, "open trace %s", path);
        goto fail;
    }
    *out = trace;
    return KVT_OK;

fail:
    wire_trace_close(trace);
    return rc;
}

void
wire_trace_close(struct wire_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->file != NULL && trace->file != stdin)
        (void)fclose(trace->file);
    if (trace->tokener != NULL)
        json_tokener_free(trace->tokener);
    kvt_buffer_release(&trace->line);
    kvt_free(trace->hash_ids);
    kvt_free(trace->chunk);
    kvt_free(trace->path);
    kvt_free(trace);
}

static enum kvt_err
refuse(const struct wire_trace *trace, struct kvt_error *err, const char *what)
{
    return kvt_error_set(err, KVT_INVALID, "%s:%" PRIu64 ": %s", trace->path, trace->line_number,
                         what);
}

/* The next line without its newline into trace->line.  A line that is too long is read to its end,
 * so that reading can go on behind it. */
static enum kvt_err
read_line(struct wire_trace *trace, struct kvt_error *err)
{
    bool any = false;

    kvt_buffer_clear(&trace->line);
    trace->line_number++;
    for (;;) {
        const uint8_t *from;
        const uint8_t *newline;
        size_t left;

        if (trace->chunk_at == trace->chunk_size) {
            trace->chunk_at = 0;
            trace->chunk_size = fread(trace->chunk, 1, CHUNK_SIZE, trace->file);
            if (trace->chunk_size == 0 && ferror(trace->file))
                return kvt_error_sys(err, errno, "read trace %s", trace->path);
            if (trace->chunk_size == 0)
                break;
        }
        any = true;
        from = trace->chunk + trace->chunk_at;
        left = trace->chunk_size - trace->chunk_at;
        newline = memchr(from, '\n', left);
        if (newline != NULL)
            left = (size_t)(newline - from);
        if (left > 0)
            kvt_buffer_append(&trace->line, from, left);
        trace->chunk_at += left;
        if (newline != NULL) {
            trace->chunk_at++;
            break;
        }
    }
    if (!any)
        return KVT_NOTFOUND;
    if (!kvt_buffer_ok(&trace->line))
        return refuse(trace, err, "the line is longer than 4 MiB");
    return KVT_OK;
}

static bool
is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static bool
is_blank(const struct kvt_buffer *line)
{
    for (size_t i = 0; i < line->size; i++)
        if (!is_space(line->data[i]))
            return false;
    return true;
}

/* A whole number that is not negative.  json-c keeps integers up to 2^64 - 1 exactly. */
static bool
read_u64(const struct json_object *value, uint64_t *out)
{
    *out = 0;
    if (!json_object_is_type(value, json_type_int))
        return false;
    if (json_object_get_int64(value) < 0)
        return false;
    *out = json_object_get_uint64(value);
    return true;
}

static bool
read_field(const struct json_object *object, const char *key, uint64_t *out)
{
    struct json_object *value;

    *out = 0;
    return json_object_object_get_ex(object, key, &value) && read_u64(value, out);
}

/* Published traces have their timestamps as whole or as broken milliseconds. */
static bool
read_timestamp(const struct json_object *object, uint64_t *out)
{
    struct json_object *value;
    double number;

    if (read_field(object, "timestamp", out))
        return true;
    if (!json_object_object_get_ex(object, "timestamp", &value) ||
        !json_object_is_type(value, json_type_double))
        return false;
    number = json_object_get_double(value);
    if (!isfinite(number) || number < 0 || number >= 9e15)
        return false;
    *out = (uint64_t)number;
    return true;
}

static enum kvt_err
read_hashes(struct wire_trace *trace, const struct json_object *object,
            struct wire_trace_request *request, struct kvt_error *err)
{
    struct json_object *list;
    uint64_t *grown;
    size_t count;

    if (!json_object_object_get_ex(object, "hash_ids", &list) ||
        !json_object_is_type(list, json_type_array))
        return refuse(trace, err, "\"hash_ids\" must be an array");
    count = json_object_array_length(list);
    if (count > WIRE_TRACE_HASHES_MAX)
        return refuse(trace, err, "\"hash_ids\" has more than 65536 members");
    if (count > trace->hash_capacity) {
        grown = kvt_realloc(trace->hash_ids, count, sizeof(*grown));
        if (grown == NULL)
            return kvt_error_set(err, KVT_NOMEM, "trace %s: out of memory", trace->path);
        trace->hash_ids = grown;
        trace->hash_capacity = (uint32_t)count;
    }
    for (size_t i = 0; i < count; i++)
        if (!read_u64(json_object_array_get_idx(list, i), &trace->hash_ids[i]))
            return refuse(trace, err, "\"hash_ids\" must hold whole numbers from 0 to 2^64 - 1");
    request->hash_ids = trace->hash_ids;
    request->hash_count = (uint32_t)count;
    return KVT_OK;
}

static enum kvt_err
read_namespace(struct wire_trace *trace, const struct json_object *object,
               struct wire_trace_request *request, struct kvt_error *err)
{
    struct json_object *value;

    trace->namespace_[0] = '\0';
    request->namespace_ = trace->namespace_;
    if (!json_object_object_get_ex(object, "namespace", &value))
        return KVT_OK;
    if (!json_object_is_type(value, json_type_string) ||
        json_object_get_string_len(value) >= KVT_NAMESPACE_MAX)
        return refuse(trace, err, "\"namespace\" must be a text below 128 bytes");
    (void)snprintf(trace->namespace_, sizeof(trace->namespace_), "%s",
                   json_object_get_string(value));
    return KVT_OK;
}

static enum kvt_err
read_request(struct wire_trace *trace, const struct json_object *object,
             struct wire_trace_request *request, struct kvt_error *err)
{
    if (!json_object_is_type(object, json_type_object))
        return refuse(trace, err, "the line must be one JSON object");
    if (!read_timestamp(object, &request->timestamp_ms))
        return refuse(trace, err, "\"timestamp\" must be a number of milliseconds from 0 on");
    if (!read_field(object, "input_length", &request->input_length))
        return refuse(trace, err, "\"input_length\" must be a whole number from 0 on");
    if (!read_field(object, "output_length", &request->output_length))
        return refuse(trace, err, "\"output_length\" must be a whole number from 0 on");
    if (read_namespace(trace, object, request, err) != KVT_OK)
        return KVT_INVALID;
    return read_hashes(trace, object, request, err);
}

enum kvt_err
wire_trace_next(struct wire_trace *trace, struct wire_trace_request *request, struct kvt_error *err)
{
    struct json_object *object;
    size_t parsed;
    enum kvt_err rc;

    assert(trace != NULL && request != NULL);
    *request = (struct wire_trace_request){.hash_count = 0};
    do {
        rc = read_line(trace, err);
        if (rc != KVT_OK)
            return rc;
    } while (is_blank(&trace->line));

    json_tokener_reset(trace->tokener);
    object = json_tokener_parse_ex(trace->tokener, (const char *)trace->line.data,
                                   (int)trace->line.size);
    parsed = json_tokener_get_parse_end(trace->tokener);
    while (object != NULL && parsed < trace->line.size && is_space(trace->line.data[parsed]))
        parsed++;
    if (object == NULL) {
        const enum json_tokener_error code = json_tokener_get_error(trace->tokener);

        return kvt_error_set(err, KVT_INVALID, "%s:%" PRIu64 ": column %zu: %s", trace->path,
                             trace->line_number, parsed + 1,
                             code == json_tokener_continue ? "the JSON ends too early"
                                                           : json_tokener_error_desc(code));
    }
    if (parsed < trace->line.size)
        rc = refuse(trace, err, "something follows the JSON object");
    else
        rc = read_request(trace, object, request, err);
    json_object_put(object);
    if (rc != KVT_OK)
        *request = (struct wire_trace_request){.hash_count = 0};
    return rc;
}

enum kvt_err
wire_trace_write(FILE *out, const struct wire_trace_request *request)
{
    assert(out != NULL && request != NULL);
    (void)fprintf(out,
                  "{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu64
                  ", \"output_length\": %" PRIu64 ", \"hash_ids\": [",
                  request->timestamp_ms, request->input_length, request->output_length);
    for (uint32_t i = 0; i < request->hash_count; i++)
        (void)fprintf(out, i == 0 ? "%" PRIu64 : ", %" PRIu64, request->hash_ids[i]);
    (void)fputs("]}\n", out);
    return ferror(out) ? KVT_IO : KVT_OK;
}

static void
put_le64(uint8_t bytes[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

void
wire_trace_chain(const struct wire_trace_request *request, uint64_t salt, uint64_t *out)
{
    uint8_t bytes[16];

    for (uint32_t i = 0; i < request->hash_count; i++) {
        if (i == 0) {
            put_le64(bytes, request->hash_ids[0]);
            out[0] = XXH3_64bits_withSeed(bytes, 8, SEED + salt);
        } else {
            put_le64(bytes, out[i - 1]);
            put_le64(bytes + 8, request->hash_ids[i]);
            out[i] = XXH3_64bits_withSeed(bytes, 16, SEED + salt);
        }
    }
}
