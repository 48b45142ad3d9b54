#include "cli/g4/progress_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/text/json.h"

enum { FILE_MAX = 8192 };

static enum kvt_err
parse(struct cli_progress_file *resume, struct json_object *state, const char *what,
      struct kvt_error *err)
{
    const char *earlier = kvt_json_string(state, "walk");
    const char *after = kvt_json_string(state, "after");
    bool finished = false;

    if (earlier == NULL || after == NULL || strlen(after) >= sizeof(resume->after))
        return kvt_error_set(err, KVT_INVALID, "%.160s: not a state of this program", resume->path);
    if (strcmp(earlier, what) != 0)
        return kvt_error_set(err, KVT_EXISTS,
                             "%.80s is the state of another walk (%.100s): name another file",
                             resume->path, earlier);
    if (kvt_json_bool(state, "finished", &finished) && finished)
        return KVT_OK;
    (void)snprintf(resume->after, sizeof(resume->after), "%s", after);
    (void)kvt_json_u64(state, "done", &resume->done);
    (void)kvt_json_u64(state, "bad", &resume->bad);
    resume->resumed = true;
    return KVT_OK;
}

enum kvt_err
cli_progress_file_begin(struct cli_progress_file *resume, const char *path, const char *what,
                        struct kvt_error *err)
{
    struct json_object *state = NULL;
    char *text = NULL;
    size_t size;
    enum kvt_err rc;

    *resume = (struct cli_progress_file){.path = path, .saved_ms = kvt_clock_mono_ms()};
    (void)snprintf(resume->what, sizeof(resume->what), "%s", what);
    if (path[0] == '\0')
        return KVT_OK;
    rc = kvt_file_read(&text, &size, path, FILE_MAX, err);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc == KVT_OK)
        rc = kvt_json_parse(&state, text, size, path, err);
    if (rc == KVT_OK)
        rc = parse(resume, state, resume->what, err);
    (void)json_object_put(state);
    kvt_free(text);
    return rc;
}

static enum kvt_err
save(struct cli_progress_file *resume, bool finished, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc = KVT_NOMEM;

    if (resume->path[0] == '\0')
        return KVT_OK;
    kvt_buffer_init(&text, FILE_MAX);
    kvt_buffer_printf(&text, "{\"schema_version\":1,\"walk\":");
    kvt_buffer_json_string(&text, resume->what);
    kvt_buffer_printf(&text, ",\"after\":");
    kvt_buffer_json_string(&text, resume->after);
    kvt_buffer_printf(&text, ",\"done\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"finished\":%s}\n",
                      resume->done, resume->bad, finished ? "true" : "false");
    if (kvt_buffer_ok(&text))
        rc = kvt_file_write(resume->path, text.data, text.size, 0600, err);
    else
        (void)kvt_error_set(err, rc, "out of memory");
    kvt_buffer_release(&text);
    resume->saved_ms = kvt_clock_mono_ms();
    return rc;
}

enum kvt_err
cli_progress_file_done(struct cli_progress_file *resume, const char *key, bool bad,
                       struct kvt_error *err)
{
    (void)snprintf(resume->after, sizeof(resume->after), "%s", key);
    resume->done++;
    resume->bad += bad;
    if (kvt_clock_mono_ms() - resume->saved_ms < CLI_PROGRESS_FILE_EVERY_MS)
        return KVT_OK;
    return save(resume, false, err);
}

enum kvt_err
cli_progress_file_end(struct cli_progress_file *resume, bool all, struct kvt_error *err)
{
    return save(resume, all, err);
}
