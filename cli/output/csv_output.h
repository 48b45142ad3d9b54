/*
 * cli/output/csv_output.h -- answers as CSV (RFC 4180, lines end in LF).
 *
 * Why: spreadsheets and data frames read it.  An answer whose objects stand in a list becomes a
 * line for each of them, any other one line; a first line has the names of the columns, which are
 * the members' paths ("tier.used_bytes").  What is no single value stands as JSON in its cell.
 * Columns of a list that are known beforehand come first, and are there when the list is empty.
 *
 * Ownership: the stream is the caller's; fclose() ends it.  The one below is borrowed.
 * Threads:   one owner.
 * Limits:    those of cli/output/object_stream.h; CLI_CSV_OUTPUT_COLUMNS_MAX columns, the others
 *            are left out.
 */
#ifndef CLI_OUTPUT_CSV_OUTPUT_H
#define CLI_OUTPUT_CSV_OUTPUT_H

#include <stdio.h>

#define CLI_CSV_OUTPUT_COLUMNS_MAX 256

/** A stream that takes JSON objects, whitespace between them.  An object with other columns than
 *  the one before it begins with a line of its own names, after an empty line.  What is no JSON is
 *  an error of the stream, as is one of `to`.  NULL where there is no memory.
 *  `lists`: "rows:name,size|others:name"; NULL or "": nothing is known beforehand. */
FILE *cli_csv_output_open(FILE *to, const char *lists);

#endif /* CLI_OUTPUT_CSV_OUTPUT_H */
