/*
 * Property: any target is refused or read; a path that was read and is written again reads the
 * same, the key lies in it, and an argument's value fits where it was asked for.  The first line is
 * the target, the second the host.
 */
#include <assert.h>

#include "g4/s3/sigv4.h"

#include "tests/fuzz/request.h"
#include "tests/fuzz/target.h"

static void
check(const struct gateway_target *target)
{
    assert(target->path[0] == '/' && strlen(target->path) < GATEWAY_PATH_MAX);
    assert(strlen(target->bucket) < sizeof(target->bucket));
    assert(target->key[0] == '\0' ||
           (target->key > target->path && target->key < target->path + GATEWAY_PATH_MAX));
}

static void
write_again(const struct gateway_target *target)
{
    static struct gateway_target again;
    struct kvt_buffer raw;

    kvt_buffer_init(&raw, 4 * GATEWAY_PATH_MAX);
    g4_sigv4_encode(&raw, target->path, true);
    assert(gateway_target_parse(kvt_buffer_text(&raw), &again, NULL) == KVT_OK);
    assert(strcmp(again.path, target->path) == 0 && strcmp(again.key, target->key) == 0);
    assert(strcmp(again.bucket, target->bucket) == 0 && again.query[0] == '\0');
    kvt_buffer_release(&raw);
}

static void
look_up(const struct gateway_target *target)
{
    static const char *const names[] = {"prefix", "uploadId", "X-Amz-Date", "a", ""};
    char name[8];
    char value[16];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const enum kvt_err rc = gateway_target_query(target, names[i], value, sizeof(value));

        assert(rc == KVT_OK || rc == KVT_NOTFOUND || rc == KVT_RANGE || rc == KVT_INVALID);
        assert(rc == KVT_RANGE || rc == KVT_INVALID || strlen(value) < sizeof(value));
        assert(gateway_target_has(target, names[i]) == (rc != KVT_NOTFOUND));
    }
    assert(gateway_target_unknown(target, names, 5, name, sizeof(name)) || name[0] == '\0');
    assert(strlen(name) < sizeof(name));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct gateway_target target;
    char *text = request_text(bytes, size);
    char *at = text;
    const char *raw = request_line(&at);
    const char *host = request_line(&at);

    if (raw != NULL && gateway_target_parse(raw, &target, NULL) == KVT_OK) {
        check(&target);
        write_again(&target);
        look_up(&target);
        gateway_target_host(&target, host == NULL ? "" : host, "s3.example.org,,local");
        check(&target);
    }
    kvt_free(text);
    return 0;
}
