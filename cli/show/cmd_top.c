#include "cli/show/cmd_top.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"

/* Without the marks at the lines' beginnings. */
static void
print_plain(FILE *out, struct json_object *overview)
{
    struct kvt_buffer lines;
    const char *text;

    kvt_buffer_init(&lines, CLI_TOP_TEXT_MAX);
    cli_top_lines(overview, CLI_TOP_WIDTH, false, &lines);
    for (text = kvt_buffer_text(&lines); *text != '\0';) {
        const char *end = strchr(text, '\n');
        const char *last = end;

        while (last > text + 1 && last[-1] == ' ')
            last--;
        if (*text == CLI_TOP_HEAD)
            (void)fputc('\n', out);
        (void)fprintf(out, "%.*s\n", (int)(last - text - 1), text + 1);
        text = end + 1;
    }
    kvt_buffer_release(&lines);
}

static enum cli_exit
show_once(const struct cli_context *context)
{
    struct json_object *overview;
    struct kvt_error err;

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/overview", NULL, false, &overview, &err) !=
        KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    if (context->json)
        cli_json_print(context->out, overview);
    else
        print_plain(context->out, overview);
    (void)json_object_put(overview);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_top_run(const struct cli_context *context)
{
    if (context->json || kvt_config_bool(context->options, CLI_TOP_ONCE) ||
        isatty(fileno(context->out)) != 1 || isatty(STDIN_FILENO) != 1)
        return show_once(context);
    return cli_top_screen(context, kvt_config_u64(context->options, CLI_TOP_EVERY));
}
