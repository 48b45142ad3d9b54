#include "cli/output/cli_table.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/core/alloc.h"

enum { GAP = 2, CAPACITY_FIRST = 64 };

void
cli_table_init(struct cli_table *table, const struct cli_column *columns, size_t count)
{
    assert(count >= 1 && count <= CLI_TABLE_COLUMNS_MAX);
    *table = (struct cli_table){.columns = columns, .column_count = count};
}

void
cli_table_release(struct cli_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        kvt_free(table->cells[i]);
    kvt_free(table->cells);
    table->cells = NULL;
    table->cell_count = 0;
    table->cell_capacity = 0;
}

static char
visible(char c)
{
    return iscntrl((unsigned char)c) ? '?' : c;
}

void
cli_table_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        (void)fputc(visible(*text), out);
}

/* Once a cell was left out all later ones are, or the columns would shift. */
static bool
grow(struct cli_table *table)
{
    size_t capacity = table->cell_capacity == 0 ? CAPACITY_FIRST : 2 * table->cell_capacity;
    char **cells;

    if (table->left_out > 0 || table->cell_count == CLI_TABLE_CELLS_MAX)
        return false;
    if (table->cell_count < table->cell_capacity)
        return true;
    cells = kvt_realloc(table->cells, capacity, sizeof(*cells));
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->cell_capacity = capacity;
    return true;
}

void
cli_table_add(struct cli_table *table, const char *format, ...)
{
    char text[CLI_TABLE_CELL_MAX];
    va_list arguments;
    char *copy;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (char *at = text; *at != '\0'; at++)
        *at = visible(*at);
    copy = grow(table) ? kvt_strdup(text) : NULL;
    if (copy == NULL)
        table->left_out++;
    else
        table->cells[table->cell_count++] = copy;
}

void
cli_table_hide(struct cli_table *table, size_t column)
{
    assert(column < table->column_count);
    table->hidden[column] = true;
}

/* Columns of a terminal, as far as counting characters goes. */
static size_t
width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void
print_row(const struct cli_table *table, FILE *out, const size_t *widths, const char *const *texts)
{
    size_t pending = 0; /* blanks owed before the next text */

    for (size_t i = 0; i < table->column_count; i++) {
        const size_t width = width_of(texts[i]);
        const size_t fill = widths[i] > width ? widths[i] - width : 0;

        if (table->hidden[i])
            continue;
        if (table->columns[i].right)
            pending += fill;
        if (width > 0) {
            (void)fprintf(out, "%*s%s", (int)pending, "", texts[i]);
            pending = 0;
        }
        if (!table->columns[i].right)
            pending += fill;
        pending += GAP;
    }
    (void)fputc('\n', out);
}

void
cli_table_print(const struct cli_table *table, FILE *out)
{
    const char *texts[CLI_TABLE_COLUMNS_MAX] = {NULL};
    size_t widths[CLI_TABLE_COLUMNS_MAX] = {0};
    const size_t rows = table->cell_count / table->column_count;

    for (size_t i = 0; i < table->column_count; i++) {
        texts[i] = table->columns[i].title;
        widths[i] = width_of(texts[i]);
    }
    for (size_t i = 0; i < rows * table->column_count; i++) {
        const size_t width = width_of(table->cells[i]);

        if (width > widths[i % table->column_count])
            widths[i % table->column_count] = width;
    }
    print_row(table, out, widths, texts);
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < table->column_count; i++)
            texts[i] = table->cells[row * table->column_count + i];
        print_row(table, out, widths, texts);
    }
    if (table->left_out > 0)
        (void)fprintf(out, "... and more rows than fit here; -o json has them all\n");
}
