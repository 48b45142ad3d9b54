#include "cli/output/object_stream.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>

#include "base/core/alloc.h"

struct objects {
    FILE *to;
    const struct cli_object_stream_ops *ops;
    void *arg;
    struct json_tokener *tokener;
    size_t taken; /* bytes of the object that is under way */
};

/* Take JSON up to the end of an object.  Returns bytes used; 0: it is no JSON, or too much. */
static size_t
take(struct objects *objects, const char *text, size_t size)
{
    struct json_object *value = json_tokener_parse_ex(objects->tokener, text, (int)size);
    const enum json_tokener_error error = json_tokener_get_error(objects->tokener);
    const size_t used = error == json_tokener_continue
                            ? size
                            : (size_t)json_tokener_get_parse_end(objects->tokener);

    objects->taken += used;
    if (error == json_tokener_success) {
        objects->ops->put(objects->arg, objects->to, value);
        (void)json_object_put(value);
        json_tokener_reset(objects->tokener);
        objects->taken = 0;
        return used;
    }
    return error == json_tokener_continue && objects->taken <= CLI_OBJECT_STREAM_SIZE_MAX ? used
                                                                                          : 0;
}

static ssize_t
on_write(void *cookie, const char *text, size_t size)
{
    struct objects *objects = cookie;

    for (size_t at = 0; at < size;) {
        const bool blank = objects->taken == 0 && isspace((unsigned char)text[at]);
        const size_t used = blank ? 1 : take(objects, text + at, size - at);

        if (used == 0) {
            errno = EILSEQ;
            return 0;
        }
        at += used;
    }
    return fflush(objects->to) == 0 ? (ssize_t)size : 0;
}

static int
on_close(void *cookie)
{
    struct objects *objects = cookie;
    const bool whole = objects->taken == 0;

    json_tokener_free(objects->tokener);
    objects->ops->end(objects->arg);
    kvt_free(objects);
    if (!whole)
        errno = EILSEQ;
    return whole ? 0 : -1;
}

FILE *
cli_object_stream_open(FILE *to, const struct cli_object_stream_ops *ops, void *arg)
{
    struct objects *objects = kvt_calloc(1, sizeof(*objects));
    FILE *stream = NULL;

    if (objects == NULL) {
        ops->end(arg);
        return NULL;
    }
    objects->to = to;
    objects->ops = ops;
    objects->arg = arg;
    objects->tokener = json_tokener_new_ex(CLI_OBJECT_STREAM_DEPTH_MAX);
    if (objects->tokener != NULL)
        stream = fopencookie(objects, "w",
                             (cookie_io_functions_t){.write = on_write, .close = on_close});
    if (stream == NULL) {
        if (objects->tokener != NULL)
            json_tokener_free(objects->tokener);
        objects->ops->end(arg);
        kvt_free(objects);
    }
    return stream;
}
