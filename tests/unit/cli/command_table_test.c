/*
 * What is tested: cli/command_table.h and cli/frame/command.h.
 * How: rules every row must keep, and how words find rows.
 */
#include <string.h>

#include "cli/command_table.h"
#include "cli/frame/cli_settings.h"

#include "tests/support/seed.h"

static void
every_row_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_table.count; i++) {
        const struct cli_command *command = &cli_command_table.rows[i];
        struct kvt_config *config;
        size_t min;
        size_t max;

        assert_non_null(command->run);
        assert_true(command->words == NULL || command->words[0] != '\0');
        assert_non_null(command->arguments);
        assert_true(strlen(command->summary) <= 60);
        assert_true(command->summary[strlen(command->summary) - 1] != '.');
        assert_true(strlen(command->details) > 0);
        assert_int_equal(strncmp(command->example, command->path, strlen(command->path)), 0);
        cli_command_arguments(command, &min, &max);
        assert_true(min <= max);
        assert_int_equal(max > 0, command->arguments[0] != '\0');
        assert_true(command->bare == NULL || command->bare_as != NULL);
        if (command->option_count == 0)
            continue;
        /* Names, defaults and limits of the rows are good. */
        assert_int_equal(kvt_config_new(&config, command->options, command->option_count, NULL),
                         KVT_OK);
        kvt_config_free(config);
    }
}

static void
arguments_are_counted_by_their_text(void **state)
{
    static const struct {
        struct cli_command command;
        size_t min;
        size_t max;
    } rows[] = {
        {{.arguments = ""}, 0, 0},
        {{.arguments = "HASH"}, 1, 1},
        {{.arguments = "KEY [FILE]"}, 1, 2},
        {{.arguments = "[ls|show] [ID|KEY]"}, 0, 2},
        {{.arguments = "HASH..."}, 1, SIZE_MAX},
        {{.arguments = "[COMMAND...]", .argument_max = 2}, 0, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t min;
        size_t max;

        cli_command_arguments(&rows[i].command, &min, &max);
        assert_int_equal(min, rows[i].min);
        assert_int_equal(max, rows[i].max);
    }
}

static void
settings_rows_are_good(void **state)
{
    struct kvt_config *config;

    (void)state;
    assert_int_equal(kvt_config_new(&config, cli_settings, CLI_SETTING_COUNT, NULL), KVT_OK);
    kvt_config_free(config);
}

/* A flag of a command that is also a setting of all would hide the setting. */
static void
no_flag_has_two_meanings(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_table.count; i++)
        for (size_t k = 0; k < cli_command_table.rows[i].option_count; k++)
            for (size_t s = 0; s < CLI_SETTING_COUNT; s++)
                assert_string_not_equal(cli_command_table.rows[i].options[k].key,
                                        cli_settings[s].key);
}

static void
words_find_their_row(void **state)
{
    size_t words;

    (void)state;
    for (size_t i = 0; i < cli_command_table.count; i++) {
        char first[64];
        const char *blank = strchr(cli_command_table.rows[i].path, ' ');
        const size_t size = strcspn(cli_command_table.rows[i].path, " ");

        memcpy(first, cli_command_table.rows[i].path, size);
        first[size] = '\0';
        assert_ptr_equal(
            cli_command_find(&cli_command_table, first, blank == NULL ? NULL : blank + 1, &words),
            &cli_command_table.rows[i]);
        assert_int_equal(words, blank == NULL ? 1 : 2);
        assert_int_equal(cli_command_is_noun(&cli_command_table, first), blank != NULL);
    }
    assert_null(cli_command_find(&cli_command_table, "block", NULL, &words));
    assert_null(cli_command_find(&cli_command_table, "", NULL, &words));
    assert_false(cli_command_is_noun(&cli_command_table, "bloc"));
}

static void
near_words_are_suggested(void **state)
{
    (void)state;
    assert_string_equal(cli_command_suggest(&cli_command_table, "stauts", NULL), "status");
    assert_string_equal(cli_command_suggest(&cli_command_table, "block", "shwo"), "block show");
    assert_string_equal(cli_command_suggest(&cli_command_table, "polcy", NULL), "policy show");
    assert_null(cli_command_suggest(&cli_command_table, "zzzzzzzz", NULL));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(arguments_are_counted_by_their_text),
        cmocka_unit_test(settings_rows_are_good),
        cmocka_unit_test(no_flag_has_two_meanings),
        cmocka_unit_test(words_find_their_row),
        cmocka_unit_test(near_words_are_suggested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
