/*
 * What is tested: cli/output/cli_table.h.
 * How: exact text, because people and golden files read it; the limits; every allocation failure.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/output/cli_table.h"

#include "tests/support/seed.h"

static const struct cli_column columns[] = {{"NAME", false}, {"SIZE", true}, {"NOTE", false}};

/* What `table` prints, to be freed with free(). */
static char *
printed(const struct cli_table *table)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    cli_table_print(table, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void
columns_line_up_without_trailing_blanks(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 3);
    cli_table_add(&table, "a");
    cli_table_add(&table, "%d", 5);
    cli_table_add(&table, "first");
    cli_table_add(&table, "longer");
    cli_table_add(&table, "%d", 12345);
    cli_table_add(&table, "%s", "");
    text = printed(&table);
    assert_string_equal(text, "NAME     SIZE  NOTE\n"
                              "a           5  first\n"
                              "longer  12345\n");
    free(text);
    cli_table_release(&table);
}

static void
a_hidden_column_takes_no_room(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 3);
    cli_table_add(&table, "a");
    cli_table_add(&table, "%d", 12345);
    cli_table_add(&table, "first");
    cli_table_hide(&table, 1);
    text = printed(&table);
    assert_string_equal(text, "NAME  NOTE\na     first\n");
    free(text);
    cli_table_release(&table);
}

static void
empty_table_has_its_titles(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 3);
    text = printed(&table);
    assert_string_equal(text, "NAME  SIZE  NOTE\n");
    free(text);
    cli_table_release(&table);
}

static void
foreign_text_cannot_move_the_cursor(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 1);
    cli_table_add(&table, "\033[2Jx\ny");
    text = printed(&table);
    assert_string_equal(text, "NAME\n?[2Jx?y\n");
    free(text);
    cli_table_release(&table);
}

static void
letters_count_and_not_bytes(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 2);
    cli_table_add(&table, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    cli_table_add(&table, "1");
    text = printed(&table);
    assert_string_equal(text, "NAME   SIZE\n\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9     1\n");
    free(text);
    cli_table_release(&table);
}

static void
rows_beyond_the_limit_are_said_to_be_missing(void **state)
{
    struct cli_table table;
    char *text;

    (void)state;
    cli_table_init(&table, columns, 1);
    for (size_t i = 0; i < CLI_TABLE_CELLS_MAX; i++)
        cli_table_add(&table, "x");
    assert_int_equal(table.left_out, 0);
    cli_table_add(&table, "y");
    assert_int_equal(table.left_out, 1);
    text = printed(&table);
    assert_non_null(strstr(text, "... and more rows"));
    free(text);
    cli_table_release(&table);
}

/* A table never fails; it says what it could not keep, and what it kept is whole rows. */
static void
every_failing_allocation_shortens_the_table(void **state)
{
    const size_t live = kvt_alloc_live();
    struct cli_table table;
    size_t kept = 0;

    (void)state;
    for (size_t n = 0; kept < 9; n++) {
        assert_true(n < 100);
        cli_table_init(&table, columns, 3);
        kvt_alloc_fail_after(n);
        for (int i = 0; i < 9; i++)
            cli_table_add(&table, "%d", i);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(table.cell_count >= kept);
        kept = table.cell_count;
        assert_int_equal(kept + table.left_out, 9);
        free(printed(&table));
        cli_table_release(&table);
        assert_int_equal(kvt_alloc_live(), live);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_without_trailing_blanks),
        cmocka_unit_test(a_hidden_column_takes_no_room),
        cmocka_unit_test(empty_table_has_its_titles),
        cmocka_unit_test(foreign_text_cannot_move_the_cursor),
        cmocka_unit_test(letters_count_and_not_bytes),
        cmocka_unit_test(rows_beyond_the_limit_are_said_to_be_missing),
        cmocka_unit_test(every_failing_allocation_shortens_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
