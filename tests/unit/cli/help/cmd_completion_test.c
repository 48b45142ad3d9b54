/*
 * What is tested: cli_completion_run() of cli/help/help_commands.h.
 * How: every command and every flag of the table is in every script.  Whether shells accept and use
 * the scripts is tested with the shells, in tests/cli.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/command_table.h"
#include "cli/frame/cli_settings.h"
#include "cli/help/cmd_help.h"
#include "cli/help/help_commands.h"

#include "tests/support/seed.h"

static enum cli_exit
run(FILE *raw, FILE *err, const char *shell)
{
    const struct cli_context context = {.commands = &cli_command_table,
                                        .arguments = &shell,
                                        .argument_count = 1,
                                        .raw = raw,
                                        .err = err};

    return cli_completion_run(&context);
}

static char *
script(const char *shell)
{
    char *text = NULL;
    char *copy;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(run(out, stderr, shell), CLI_EXIT_DONE);
    assert_int_equal(fclose(out), 0);
    copy = strdup(text);
    assert_non_null(copy);
    free(text);
    return copy;
}

static void
assert_flag(const char *text, const struct kvt_param *param)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    cli_help_flag(param, name, value);
    assert_non_null(strstr(text, name + 2)); /* fish writes it without the dashes */
}

static void
every_command_and_flag_is_there(void **state)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};

    (void)state;
    for (size_t s = 0; s < sizeof(shells) / sizeof(shells[0]); s++) {
        char *text = script(shells[s]);

        for (size_t i = 0; i < cli_command_table.count; i++) {
            const char *blank = strchr(cli_command_table.rows[i].path, ' ');

            assert_non_null(
                strstr(text, blank == NULL ? cli_command_table.rows[i].path : blank + 1));
            for (size_t k = 0; k < cli_command_table.rows[i].option_count; k++)
                assert_flag(text, &cli_command_table.rows[i].options[k]);
        }
        for (size_t i = 0; i < CLI_SETTING_COUNT; i++)
            assert_flag(text, &cli_settings[i]);
        free(text);
    }
}

static void
another_shell_is_refused(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    FILE *null = fopen("/dev/null", "we");

    (void)state;
    assert_non_null(out);
    assert_non_null(null);
    assert_int_equal(run(out, null, "tcsh"), CLI_EXIT_USAGE);
    assert_int_equal(fclose(null), 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(size, 0);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_and_flag_is_there),
        cmocka_unit_test(another_shell_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
