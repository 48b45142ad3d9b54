#include "cli/frame/context.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/core/buffer.h"
#include "cli/frame/command.h"

enum { ERROR_JSON_MAX = 4096 };

enum cli_exit
cli_context_fail(const struct cli_context *context, const struct kvt_error *err)
{
    (void)fprintf(context->err, "kvtier: %s\n", err->text);
    if (context->json) {
        struct kvt_buffer text;

        kvt_buffer_init(&text, ERROR_JSON_MAX);
        kvt_buffer_printf(&text, "{\"schema_version\":1,\"error\":{\"code\":\"%s\",\"message\":",
                          kvt_err_name(err->code));
        kvt_buffer_json_string(&text, err->text);
        kvt_buffer_printf(&text, "}}\n");
        (void)fputs(kvt_buffer_text(&text), context->out);
        kvt_buffer_release(&text);
    }
    return cli_exit_of(err->code);
}

enum cli_exit
cli_context_usage(const struct cli_context *context, const char *format, ...)
{
    va_list arguments;

    (void)fputs("kvtier: ", context->err);
    va_start(arguments, format);
    (void)vfprintf(context->err, format, arguments);
    va_end(arguments);
    if (context->command != NULL)
        (void)fprintf(context->err, "\n  see: kvtier help %s\n", context->command->path);
    else
        (void)fputs("\n  see: kvtier help\n", context->err);
    return CLI_EXIT_USAGE;
}

bool
cli_context_interactive(const struct cli_context *context)
{
    return isatty(fileno(context->err)) == 1;
}
