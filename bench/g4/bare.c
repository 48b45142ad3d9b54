#include "bench/g4/bare.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "g4/object/check.h"

#include "bench/g4/file.h"
#include "bench/gateway/connection.h"

struct bare {
    const struct work_options *options;
    struct target target;
    struct connection connection;
    struct kvt_buffer head;
    uint8_t *body;
    uint64_t bytes;
    uint32_t crc; /* of all bodies, so that none is left out by a compiler */
};

static enum kvt_err
up(struct bare *bare, const char *key, const char *path, struct kvt_error *err)
{
    size_t size = 0;
    size_t answer = 0;
    enum kvt_err rc = work_read_file(path, bare->body, &size, err);

    if (rc != KVT_OK)
        return rc;
    bare->crc ^= g4_check_crc32c(bare->body, size);
    rc = connection_head(&bare->target, "PUT", key, "", size, &bare->head);
    if (rc == KVT_OK)
        rc = connection_send(&bare->connection, bare->head.data, bare->head.size, bare->body, size);
    if (rc == KVT_OK)
        rc = connection_answer(&bare->connection, false, bare->body, WORK_BODY_MAX, &answer);
    bare->bytes += size;
    return rc;
}

static enum kvt_err
down(struct bare *bare, const char *key, const char *path, struct kvt_error *err)
{
    size_t size = 0;
    enum kvt_err rc = connection_head(&bare->target, "GET", key, "", 0, &bare->head);

    if (rc == KVT_OK)
        rc = connection_send(&bare->connection, bare->head.data, bare->head.size, NULL, 0);
    if (rc == KVT_OK)
        rc = connection_answer(&bare->connection, false, bare->body, WORK_BODY_MAX, &size);
    if (rc != KVT_OK)
        return rc;
    bare->crc ^= g4_check_crc32c(bare->body, size);
    bare->bytes += size;
    return work_write_file(path, bare->body, size, err);
}

static enum kvt_err
run_all(struct bare *bare, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (unsigned number = 0; number < bare->options->count && rc == KVT_OK; number++) {
        char key[KVT_KEY_MAX];
        char path[512];

        (void)snprintf(key, sizeof(key), "%s/%06u", bare->options->prefix, number);
        (void)snprintf(path, sizeof(path), "%s/%06u", bare->options->folder, number);
        kvt_buffer_clear(&bare->head);
        rc = bare->options->up ? up(bare, key, path, err) : down(bare, key, path, err);
        if (rc != KVT_OK && err->code == KVT_OK)
            *err = bare->connection.error;
    }
    return rc;
}

enum kvt_err
bare_run(const struct work_options *options, uint16_t port, struct work_result *result,
         struct kvt_error *err)
{
    struct bare bare = {
        .options = options,
        .target = {port, options->bucket, options->access_key, options->secret_key},
        .connection = {.fd = -1},
    };
    double before;
    enum kvt_err rc;

    *result = (struct work_result){0};
    kvt_buffer_init(&bare.head, CONNECTION_HEAD_MAX);
    bare.body = kvt_calloc(1, WORK_BODY_MAX);
    if (bare.body == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for a body");
    memset(bare.body, 1, WORK_BODY_MAX); /* touched before the clock starts, as libg4's */
    rc = connection_open(&bare.connection, port);
    if (rc != KVT_OK) {
        *err = bare.connection.error;
        goto fail;
    }
    before = work_cpu_s();
    rc = run_all(&bare, err);
    *result = (struct work_result){.bytes = bare.bytes, .cpu_s = work_cpu_s() - before};

fail:
    connection_close(&bare.connection);
    kvt_buffer_release(&bare.head);
    kvt_free(bare.body);
    return rc;
}
