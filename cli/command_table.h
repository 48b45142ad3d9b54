/*
 * cli/command_table.h -- every command of the program: path, flags, texts and function.
 *
 * Why: a command is one row here.  Nothing else lists commands.
 */
#ifndef CLI_COMMAND_TABLE_H
#define CLI_COMMAND_TABLE_H

#include "cli/frame/command.h"

extern const struct cli_command_list cli_command_table;

#endif /* CLI_COMMAND_TABLE_H */
