#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advisor/archive/index_export.h"
#include "advisor/archive/index_import.h"
#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/index/index_commands.h"
#include "cli/index/offline_index.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"

enum {
    PAGE = 10000,
    PATH_SHOWN = 160,
    PROGRESS_MS = 500,
    READ = 64 << 10,
    CURSOR_BYTES = 32,
    LINES = 1000
};

/* ---- progress ---- */

struct progress {
    const struct cli_context *context;
    uint64_t next_ms;
    bool drawn;
};

static void
progress_show(struct progress *progress, const char *what, uint64_t lines, uint64_t bytes)
{
    const uint64_t now = kvt_clock_mono_ms();
    char size[KVT_SIZE_TEXT_MAX];

    if (now < progress->next_ms || !cli_context_interactive(progress->context))
        return;
    progress->next_ms = now + PROGRESS_MS;
    progress->drawn = true;
    kvt_size_format(bytes, size);
    (void)fprintf(progress->context->err, "\r%s %" PRIu64 " lines, %s\033[K", what, lines, size);
    (void)fflush(progress->context->err);
}

static void
progress_end(struct progress *progress)
{
    if (progress->drawn)
        (void)fputs("\r\033[K", progress->context->err);
}

/* ---- export ---- */

struct export
{
    const struct cli_context *context;
    FILE *out;
    uint64_t lines;
    uint64_t bytes;
    uint64_t blocks;        /* in G4 */
    uint64_t places;        /* of workers */
    struct kvt_error cause; /* what kept it from being written */
    struct progress progress;
};

/* "{"next_cursor":"C"}" ends a page of the advisor's; it is not part of the export. */
static bool
cut_cursor(struct kvt_buffer *page, char next[CURSOR_BYTES])
{
    static const char mark[] = "{\"next_cursor\":\"";
    const char *text = kvt_buffer_text(page);
    size_t at = page->size;
    size_t length;

    next[0] = '\0';
    if (at == 0 || text[at - 1] != '\n')
        return false;
    for (at--; at > 0 && text[at - 1] != '\n'; at--)
        ;
    if (strncmp(text + at, mark, sizeof(mark) - 1) != 0)
        return false;
    text += at + sizeof(mark) - 1;
    length = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz");
    if (length >= CURSOR_BYTES || strcmp(text + length, "\"}\n") != 0)
        return false;
    memcpy(next, text, length);
    next[length] = '\0';
    page->size = at;
    return true;
}

/* Rows of blocks, and how many blocks are in runs of workers. */
static void
count_line(struct export *export, const char *line, size_t size)
{
    static const char block[] = "{\"row\":\"block\"";
    static const char run[] = "{\"row\":\"run\",\"count\":";

    export->lines++;
    if (size > sizeof(block) && memcmp(line, block, sizeof(block) - 1) == 0)
        export->blocks++;
    else if (size > sizeof(run) && memcmp(line, run, sizeof(run) - 1) == 0)
        export->places += strtoull(line + sizeof(run) - 1, NULL, 10);
}

/* An advisor_index_export_fn. */
static enum kvt_err
write_lines(void *arg, struct kvt_buffer *lines)
{
    struct export *export = arg;
    const char *at = kvt_buffer_text(lines);
    const char *end = at + lines->size;

    while (at < end) {
        const char *line = at;

        at = memchr(line, '\n', (size_t)(end - line));
        at = at == NULL ? end : at + 1;
        count_line(export, line, (size_t)(at - line));
    }
    export->bytes += lines->size;
    if (lines->size > 0 && fwrite(lines->data, 1, lines->size, export->out) != lines->size)
        return kvt_error_sys(&export->cause, errno, "write the export");
    kvt_buffer_clear(lines);
    progress_show(&export->progress, "exported", export->lines, export->bytes);
    return cli_interrupt_wait(0)
               ? kvt_error_set(&export->cause, KVT_CANCELLED, "stopped before the end")
               : KVT_OK;
}

static enum kvt_err
fetch_all(struct export *export, struct kvt_error *err)
{
    char cursor[CURSOR_BYTES] = "";
    struct kvt_buffer page;
    enum kvt_err rc;

    kvt_buffer_init(&page, CLI_ADMIN_ANSWER_MAX);
    do {
        char path[96];

        kvt_buffer_clear(&page);
        (void)snprintf(path, sizeof(path), "/v1/index/export?limit=%d&cursor=%s", PAGE, cursor);
        rc = cli_admin_fetch(export->context, CLI_ADMIN_ADVISOR, path, &page, err);
        if (rc == KVT_OK && !cut_cursor(&page, cursor))
            rc = kvt_error_set(err, KVT_INVALID, "the advisor's answer is no page of an export");
        if (rc == KVT_OK)
            rc = write_lines(export, &page);
    } while (rc == KVT_OK && cursor[0] != '\0');
    kvt_buffer_release(&page);
    return rc;
}

static enum kvt_err
write_all(struct export *export, struct advisor_store *store, struct kvt_error *err)
{
    enum kvt_err rc = store == NULL ? fetch_all(export, err)
                                    : advisor_index_export_all(store, write_lines, export, err);

    if (rc != KVT_OK && export->cause.code != KVT_OK)
        *err = export->cause;
    if (rc == KVT_OK &&
        fprintf(export->out, "{\"row\":\"end\",\"lines\":%" PRIu64 "}\n", export->lines) < 0)
        rc = kvt_error_sys(err, errno, "write the export");
    return rc;
}

static enum kvt_err
open_file(struct export *export, const char *path, bool replace, struct kvt_error *err)
{
    int fd;

    if (strcmp(path, "-") == 0) {
        export->out = export->context->raw;
        return KVT_OK;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL), 0600);
    if (fd < 0)
        return errno == EEXIST ? kvt_error_set(err, KVT_EXISTS,
                                               "%.*s: there is such a file already; --force "
                                               "begins it anew",
                                               PATH_SHOWN, path)
                               : kvt_error_sys(err, errno, "open %.*s", PATH_SHOWN, path);
    export->out = fdopen(fd, "w");
    if (export->out != NULL)
        return KVT_OK;
    (void)close(fd);
    return kvt_error_set(err, KVT_NOMEM, "out of memory");
}

/* An export without its last row would be refused by an import: a file that could not be written
 * whole is not left behind. */
static enum kvt_err
close_file(struct export *export, const char *path, enum kvt_err rc, struct kvt_error *err)
{
    if (export->out == NULL || export->out == export->context->raw)
        return rc;
    if (rc == KVT_OK && (fflush(export->out) != 0 || fsync(fileno(export->out)) != 0))
        rc = kvt_error_sys(err, errno, "write %.*s", PATH_SHOWN, path);
    if (fclose(export->out) != 0 && rc == KVT_OK)
        rc = kvt_error_sys(err, errno, "close %.*s", PATH_SHOWN, path);
    if (rc != KVT_OK)
        (void)unlink(path);
    return rc;
}

static void
print_export(const struct export *export, const char *path)
{
    char size[KVT_SIZE_TEXT_MAX];

    if (export->context->json) {
        (void)fprintf(export->context->out,
                      "{\"schema_version\":1,\"blocks\":%" PRIu64 ",\"places\":%" PRIu64
                      ",\"lines\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
                      export->blocks, export->places, export->lines + 1, export->bytes);
        return;
    }
    kvt_size_format(export->bytes, size);
    (void)fprintf(export->context->out,
                  "%s: %" PRIu64 " blocks in G4, %" PRIu64 " places of workers, %s\n", path,
                  export->blocks, export->places, size);
}

enum cli_exit
cli_index_copy_export(const struct cli_context *context)
{
    const char *path = context->arguments[0];
    const bool offline = kvt_config_is_set(context->options, CLI_EXPORT_OFFLINE);
    const struct advisor_store_options options = {
        .path = kvt_config_string(context->options, CLI_EXPORT_OFFLINE), .read_only = true};
    struct export export = {.context = context, .progress = {.context = context}};
    struct advisor_store *store = NULL;
    struct kvt_error err = {0};
    enum kvt_err rc = KVT_OK;

    cli_interrupt_begin();
    if (offline)
        rc = advisor_store_open(&store, &options, &err);
    if (rc == KVT_OK)
        rc = open_file(&export, path, kvt_config_bool(context->options, CLI_EXPORT_FORCE), &err);
    if (rc == KVT_OK)
        rc = write_all(&export, store, &err);
    advisor_store_close(store);
    progress_end(&export.progress);
    rc = close_file(&export, path, rc, &err);
    if (rc != KVT_OK && export.out == context->raw && ferror(context->raw) != 0)
        return CLI_EXIT_FAILED; /* who read it has left */
    if (rc != KVT_OK)
        return offline ? cli_offline_index_fail(context, &err)
                       : cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (export.out != context->raw)
        print_export(&export, path);
    return CLI_EXIT_DONE;
}

/* ---- import ---- */

struct input {
    FILE *in;
    struct advisor_index_import *import;
    struct kvt_buffer line; /* what has come of it */
    uint64_t lines;
    uint64_t bytes;
    struct progress progress;
};

static enum kvt_err
take_line(struct input *input, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    input->lines++;
    if (!kvt_buffer_ok(&input->line))
        return kvt_error_set(err, KVT_RANGE, "line %" PRIu64 ": longer than %u bytes", input->lines,
                             ADVISOR_INDEX_IMPORT_LINE_MAX);
    if (input->line.size > 0)
        rc = advisor_index_import_line(input->import, kvt_buffer_text(&input->line),
                                       input->line.size, err);
    kvt_buffer_clear(&input->line);
    if (rc == KVT_OK && input->lines % LINES == 0 && cli_interrupt_wait(0))
        rc = kvt_error_set(err, KVT_CANCELLED, "stopped before the end; nothing is imported");
    return rc;
}

static enum kvt_err
take_bytes(struct input *input, const char *bytes, size_t size, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    while (size > 0 && rc == KVT_OK) {
        const char *end = memchr(bytes, '\n', size);
        const size_t part = end == NULL ? size : (size_t)(end - bytes);

        kvt_buffer_append(&input->line, bytes, part);
        if (end == NULL)
            return kvt_buffer_ok(&input->line) ? KVT_OK : take_line(input, err);
        rc = take_line(input, err);
        bytes += part + 1;
        size -= part + 1;
    }
    return rc;
}

static enum kvt_err
read_lines(struct input *input, const char *name, struct kvt_error *err)
{
    struct kvt_error cause = {0};
    char bytes[READ];
    enum kvt_err rc = KVT_OK;
    size_t count = 1;

    kvt_buffer_init(&input->line, ADVISOR_INDEX_IMPORT_LINE_MAX);
    while (rc == KVT_OK && count > 0) {
        count = fread(bytes, 1, sizeof(bytes), input->in);
        input->bytes += count;
        rc = take_bytes(input, bytes, count, &cause);
        progress_show(&input->progress, "imported", input->lines, input->bytes);
    }
    if (rc == KVT_OK && ferror(input->in) != 0)
        rc = kvt_error_sys(&cause, errno, "read");
    if (rc == KVT_OK && input->line.size > 0)
        rc = take_line(input, &cause);
    kvt_buffer_release(&input->line);
    progress_end(&input->progress);
    if (rc == KVT_OK)
        return rc;
    return kvt_error_set(err, rc, "%.*s: %.*s", PATH_SHOWN / 2, name, PATH_SHOWN, cause.text);
}

static void
print_import(const struct cli_context *context, const char *folder,
             const struct advisor_index_import_counts *counts)
{
    if (context->json) {
        (void)fprintf(context->out,
                      "{\"schema_version\":1,\"blocks\":%" PRIu64 ",\"places\":%" PRIu64
                      ",\"publishers\":%" PRIu64 ",\"left_out\":%" PRIu64 "}\n",
                      counts->blocks, counts->places, counts->publishers, counts->left_out);
        return;
    }
    (void)fprintf(context->out,
                  "%s: %" PRIu64 " blocks in %" PRIu64 " places, %" PRIu64 " publishers\n", folder,
                  counts->blocks, counts->places, counts->publishers);
    if (counts->left_out > 0)
        (void)fprintf(context->err,
                      "%" PRIu64 " places came while the export was made and were left out; the "
                      "advisor hears of them again\n",
                      counts->left_out);
}

enum cli_exit
cli_index_copy_import(const struct cli_context *context)
{
    const char *path = context->arguments[0];
    const struct advisor_index_import_options options = {
        .path = kvt_config_string(context->options, CLI_IMPORT_STATE),
        .map_bytes = kvt_config_u64(context->options, CLI_IMPORT_DB_MAX),
        .replace = kvt_config_bool(context->options, CLI_IMPORT_FORCE),
    };
    const bool standard = strcmp(path, "-") == 0;
    struct input input = {.progress = {.context = context}};
    struct advisor_index_import_counts counts;
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (!kvt_config_is_set(context->options, CLI_IMPORT_STATE))
        return cli_context_usage(context,
                                 "index import wants --state DIR, the advisor's state.dir");
    cli_interrupt_begin();
    input.in = standard ? stdin : fopen(path, "re");
    if (input.in == NULL)
        rc = kvt_error_sys(&err, errno, "open %.*s", PATH_SHOWN, path);
    else
        rc = advisor_index_import_open(&input.import, &options, &err);
    if (rc == KVT_OK)
        rc = read_lines(&input, standard ? "standard input" : path, &err);
    if (rc == KVT_OK)
        rc = advisor_index_import_finish(input.import, &counts, &err);
    advisor_index_import_free(input.import);
    if (input.in != NULL && !standard)
        (void)fclose(input.in);
    if (rc != KVT_OK) {
        const enum cli_exit status = cli_offline_index_fail(context, &err);

        if (rc == KVT_BUSY)
            (void)fputs("  next: stop the advisor, import, start it again\n", context->err);
        else if (rc == KVT_FULL)
            (void)fputs("  next: give it more room with --db-max, and the advisor with db.max\n",
                        context->err);
        return status == CLI_EXIT_USAGE ? CLI_EXIT_FAILED : status;
    }
    print_import(context, options.path, &counts);
    return CLI_EXIT_DONE;
}
