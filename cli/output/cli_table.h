/*
 * cli/output/cli_table.h -- text in columns, for people.
 *
 * Why: every table looks the same: titles in capitals, two blanks between columns, numbers to the
 * right, no trailing blanks, control characters of foreign text made visible.
 *
 * Ownership: the caller owns the struct (init/release); cells are copied.
 * Threads:   one owner.
 * Limits:    CLI_TABLE_COLUMNS_MAX columns, CLI_TABLE_CELLS_MAX cells; what is beyond is left out
 * and said in the last line.
 */
#ifndef CLI_OUTPUT_CLI_TABLE_H
#define CLI_OUTPUT_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kvtier/error.h"

#define CLI_TABLE_COLUMNS_MAX 16
#define CLI_TABLE_CELLS_MAX   200000
#define CLI_TABLE_CELL_MAX    600 /* bytes of one cell's text */

struct cli_column {
    const char *title;
    bool right; /* align to the right */
};

struct cli_table {
    const struct cli_column *columns; /* not copied */
    size_t column_count;
    bool hidden[CLI_TABLE_COLUMNS_MAX];
    char **cells; /* row by row */
    size_t cell_count;
    size_t cell_capacity;
    size_t left_out; /* cells beyond the limit, or beyond the memory there was */
};

void cli_table_init(struct cli_table *table, const struct cli_column *columns, size_t count);
void cli_table_release(struct cli_table *table);

/** The next cell, left to right, row by row. */
void cli_table_add(struct cli_table *table, const char *format, ...) KVT_PRINTF(2, 3);

/** Text of others outside a table, its control characters made visible the same way. */
void cli_table_text(FILE *out, const char *text);

/** Leave a column out, counted from 0; its cells are added all the same. */
void cli_table_hide(struct cli_table *table, size_t column);

void cli_table_print(const struct cli_table *table, FILE *out);

#endif /* CLI_OUTPUT_CLI_TABLE_H */
