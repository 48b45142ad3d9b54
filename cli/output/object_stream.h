/*
 * cli/output/object_stream.h -- a stream that takes an answer apart into its JSON objects.
 *
 * Why: a command makes its answer once, as JSON, and does not know in which form it is wanted; YAML
 * and CSV are made of each object as soon as it is whole.
 *
 * Ownership: the stream is the caller's, and fclose() ends it; `arg` goes to `end` then.
 * Threads:   one owner.
 * Limits:    CLI_OBJECT_STREAM_SIZE_MAX bytes of JSON an object; CLI_OBJECT_STREAM_DEPTH_MAX
 *            levels.
 */
#ifndef CLI_OUTPUT_OBJECT_STREAM_H
#define CLI_OUTPUT_OBJECT_STREAM_H

#include <json-c/json.h>
#include <stdio.h>

#define CLI_OBJECT_STREAM_SIZE_MAX  (128u << 20)
#define CLI_OBJECT_STREAM_DEPTH_MAX 32

struct cli_object_stream_ops {
    /** Print one; its memory is the caller's. */
    void (*put)(void *arg, FILE *to, struct json_object *object);
    void (*end)(void *arg);
};

/** A stream that takes JSON objects, whitespace between them.  What is no JSON is an error of the
 *  stream, as is one of `to`.  NULL where there is no memory; `arg` is ended then, too. */
FILE *cli_object_stream_open(FILE *to, const struct cli_object_stream_ops *ops, void *arg);

#endif /* CLI_OUTPUT_OBJECT_STREAM_H */
