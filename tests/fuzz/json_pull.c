/*
 * Property: what the cursor walks through to its end it also steps over, and json-c reads it too;
 * what it refuses it refuses both ways.
 */
#include "base/text/json_pull.h"

#include <assert.h>
#include <string.h>

#include "base/text/json.h"

#include "tests/fuzz/target.h"

/* Read the scalar that is next as what it is. */
static void
read_scalar(struct kvt_json_pull *pull)
{
    struct kvt_json_slice slice;
    uint64_t number;
    char text[64];
    size_t size;
    bool flag;

    switch (kvt_json_pull_peek(pull)) {
    case KVT_JSON_STRING:
        if (kvt_json_pull_string(pull, &slice)) {
            if (kvt_json_slice_copy(&slice, text, sizeof(text), NULL))
                assert(kvt_json_slice_is(&slice, text));
            if (kvt_json_slice_copy(&slice, text, sizeof(text), &size))
                assert(size < sizeof(text) && text[size] == '\0');
        }
        break;
    case KVT_JSON_NUMBER: (void)kvt_json_pull_u64(pull, &number); break;
    case KVT_JSON_BOOL: (void)kvt_json_pull_bool(pull, &flag); break;
    case KVT_JSON_NULL: (void)kvt_json_pull_null(pull); break;
    default: kvt_json_pull_skip(pull); break;
    }
}

/* Go into everything, without recursion; the deepest level reached. */
static unsigned
walk(struct kvt_json_pull *pull)
{
    bool arrays[KVT_JSON_PULL_DEPTH_MAX];
    struct kvt_json_slice key;
    unsigned deepest = 0;
    unsigned depth = 0;

    do {
        if (depth > 0 && (arrays[depth - 1] ? !kvt_json_pull_element(pull)
                                            : !kvt_json_pull_member(pull, &key))) {
            depth--;
            continue;
        }
        if (kvt_json_pull_peek(pull) == KVT_JSON_ARRAY) {
            if (kvt_json_pull_array(pull))
                arrays[depth++] = true;
        } else if (kvt_json_pull_peek(pull) == KVT_JSON_OBJECT) {
            if (kvt_json_pull_object(pull))
                arrays[depth++] = false;
        } else {
            read_scalar(pull);
        }
        if (depth > deepest)
            deepest = depth;
    } while (depth > 0);
    return deepest;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct kvt_error err = {.text = ""};
    struct json_object *tree;
    struct kvt_json_pull pull;
    struct kvt_json_pull over;
    unsigned deepest;
    enum kvt_err walked;
    enum kvt_err stepped;

    kvt_json_pull_init(&pull, (const char *)bytes, size);
    deepest = walk(&pull);
    walked = kvt_json_pull_end(&pull, "text", &err);
    kvt_json_pull_init(&over, (const char *)bytes, size);
    kvt_json_pull_skip(&over);
    stepped = kvt_json_pull_end(&over, "text", &err);
    assert(walked == stepped);
    if (walked != KVT_OK) {
        assert((walked == KVT_INVALID || walked == KVT_RANGE) && err.text[0] != '\0');
        assert(pull.failed_at == over.failed_at && pull.failed_at <= size);
        return 0;
    }
    if (deepest >= KVT_JSON_DEPTH_MAX || memchr(bytes, 0, size) != NULL)
        return 0;
    kvt_json_pull_init(&pull, (const char *)bytes, size);
    if (kvt_json_pull_null(&pull))
        return 0;
    stepped = kvt_json_parse(&tree, (const char *)bytes, size, "text", &err);
    assert(stepped == KVT_OK);
    (void)json_object_put(tree);
    return 0;
}
