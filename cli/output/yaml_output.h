/*
 * cli/output/yaml_output.h -- answers as YAML.
 *
 * Why: a command makes its answer once, as JSON.  Whoever wants YAML reads the same members in the
 * same order: what a command writes goes through this stream and comes out as YAML documents, each
 * as soon as it is whole.
 *
 * Text is written bare only where no reader of YAML 1.1 or 1.2 takes it for anything else, and in
 * double quotes otherwise.
 *
 * Ownership: the stream is the caller's; fclose() ends it.  The one below is borrowed.
 * Threads:   one owner.
 * Limits:    those of cli/output/object_stream.h.
 */
#ifndef CLI_OUTPUT_YAML_OUTPUT_H
#define CLI_OUTPUT_YAML_OUTPUT_H

#include <stdio.h>

/** A stream that takes JSON objects, whitespace between them, and writes each to `to` as a
 *  document, with "---" between two.  What is no JSON is an error of the stream, as is one of `to`.
 *  NULL where there is no memory. */
FILE *cli_yaml_output_open(FILE *to);

#endif /* CLI_OUTPUT_YAML_OUTPUT_H */
