/*
 * What is tested: cli/help/cmd_completion.h.
 * How: every command and every flag of the table is in every script.  Whether shells accept and use
 * the scripts is tested with the shells, in tests/cli.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/help/cmd_completion.h"
#include "cli/help/cmd_help.h"

#include "tests/support/seed.h"

static char *
script(const char *shell)
{
    char *text = NULL;
    char *copy;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_true(cli_completion_print(out, shell));
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

        for (size_t i = 0; i < cli_command_count; i++) {
            const char *blank = strchr(cli_commands[i].path, ' ');

            assert_non_null(strstr(text, blank == NULL ? cli_commands[i].path : blank + 1));
            for (size_t k = 0; k < cli_commands[i].option_count; k++)
                assert_flag(text, &cli_commands[i].options[k]);
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

    (void)state;
    assert_non_null(out);
    assert_false(cli_completion_print(out, "tcsh"));
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
