#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/cli_bucket.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"

#define WRITER   "kvtier g4 put"
#define COPY_MAX (UINT64_C(1) << 30) /* bytes of an object, which are held in memory */

static void
report(const struct cli_context *context, const struct g4_request *request, size_t size)
{
    FILE *out = context->out;
    struct json_object *answer;

    if (!context->json) {
        cli_table_text(out, request->key);
        (void)fprintf(out, ": %zu bytes, etag %s\n", size, request->etag);
        return;
    }
    answer = json_object_new_object();
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "key", json_object_new_string(request->key));
    (void)json_object_object_add(answer, "length", json_object_new_uint64(size));
    (void)json_object_object_add(answer, "etag", json_object_new_string(request->etag));
    cli_json_print(out, answer);
    (void)json_object_put(answer);
}

/* An error of the object is no error of the bucket. */
static enum cli_exit
fail(const struct cli_context *context, size_t first, const struct kvt_error *err)
{
    switch (err->code) {
    case KVT_NOTFOUND:
    case KVT_EXISTS:
    case KVT_CORRUPT:
    case KVT_RANGE: return cli_context_fail(context, err);
    default: return cli_bucket_fail(context, first, err);
    }
}

/* ---- get ---- */

static enum kvt_err
keep(const struct cli_context *context, const struct g4_request *request, const char *path,
     struct kvt_error *err)
{
    if (strcmp(path, "-") != 0)
        return kvt_file_write(path, request->buffer, request->buffer_size, 0600, err);
    if (fwrite(request->buffer, 1, request->buffer_size, context->raw) != request->buffer_size ||
        fflush(context->raw) != 0)
        return kvt_error_set(err, KVT_IO, "standard output could not be written");
    return KVT_OK;
}

enum cli_exit
cli_g4_get(const struct cli_context *context)
{
    const char *path = context->argument_count > 1 ? context->arguments[1] : "-";
    struct g4_request request = {
        .verb = G4_GET, .key = context->arguments[0], .buffer_capacity = COPY_MAX};
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    enum cli_exit status;
    enum kvt_err rc = cli_bucket_open_any(context, CLI_G4_GET_S3, &store, &err);

    if (rc == KVT_OK) {
        rc = g4_store_perform(store, &request);
        err = request.error;
    }
    if (rc == KVT_OK)
        rc = g4_check_body(&request.meta, NULL, request.buffer, request.buffer_size, &err);
    if (rc == KVT_OK && g4_kind_of_object(&request) == G4_KIND_TOMBSTONE)
        rc = kvt_error_set(&err, KVT_NOTFOUND, "%.120s: a tombstone, the block was damaged",
                           request.key);
    if (rc == KVT_OK)
        rc = keep(context, &request, path, &err);
    if (rc == KVT_OK && strcmp(path, "-") != 0)
        report(context, &request, request.buffer_size);
    status = rc == KVT_OK ? CLI_EXIT_DONE : fail(context, CLI_G4_GET_S3, &err);
    kvt_free(request.buffer);
    g4_store_close(store);
    return status;
}

/* ---- put ---- */

enum cli_exit
cli_g4_put(const struct cli_context *context)
{
    const char *key = context->arguments[0];
    const bool block = g4_kind_of_key(key, NULL) == G4_KIND_BLOCK;
    struct g4_request request = {
        .verb = G4_PUT, .key = key, .condition = block ? G4_IF_ABSENT : G4_ALWAYS};
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    enum cli_exit status;
    uint64_t fingerprint;
    char *body = NULL;
    enum kvt_err rc;

    if (!kvt_hash_parse(kvt_config_string(context->options, CLI_G4_PUT_FINGERPRINT), &fingerprint))
        return cli_context_usage(context, "--fingerprint is sixteen hex digits");
    if (strlen(key) >= KVT_KEY_MAX)
        return cli_context_usage(context, "g4 put: a key has at most %d bytes", KVT_KEY_MAX - 1);
    rc = kvt_file_read(&body, &request.body_size, context->arguments[1], COPY_MAX, &err);
    if (rc == KVT_NOTFOUND) /* what is not found is an object or a bucket */
        err.code = KVT_INVALID;
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    request.body = body;
    request.meta = (struct g4_meta){.present = true,
                                    .length = request.body_size,
                                    .crc32c = g4_check_crc32c(body, request.body_size),
                                    .fingerprint = fingerprint};
    (void)snprintf(request.meta.writer, sizeof(request.meta.writer), WRITER);
    rc = cli_bucket_open_any(context, CLI_G4_PUT_S3, &store, &err);
    if (rc == KVT_OK) {
        rc = g4_store_perform(store, &request);
        err = request.error;
    }
    if (rc == KVT_EXISTS)
        (void)kvt_error_set(&err, rc, "%.120s is there already, and a block never changes", key);
    if (rc == KVT_OK)
        report(context, &request, request.body_size);
    status = rc == KVT_OK ? CLI_EXIT_DONE : fail(context, CLI_G4_PUT_S3, &err);
    g4_store_close(store);
    kvt_free(body);
    return status;
}
