/*
 * cli/output/cli_json.h -- reading answers by path, and making what commands print.
 *
 * Why: an answer of another version, or of something that is no KVTier at all, must show as absent
 * values and clear errors, never as a crash.
 * Ownership: objects follow json-c: json_object_put() what a constructor gave you; what a reader
 *            returns is borrowed.
 * Threads:   one owner per object.
 * Limits:    CLI_JSON_PATH_MAX bytes in a path.
 */
#ifndef CLI_OUTPUT_CLI_JSON_H
#define CLI_OUTPUT_CLI_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_JSON_PATH_MAX 128

/** The member at "a.b.c", or NULL. */
struct json_object *cli_json_at(struct json_object *object, const char *path);

/** Text at the path; "" when there is none.  Numbers come as their digits. */
const char *cli_json_text(struct json_object *object, const char *path);

/** Number at the path; 0 when there is none. */
uint64_t cli_json_u64(struct json_object *object, const char *path);
int64_t cli_json_i64(struct json_object *object, const char *path);
bool cli_json_bool(struct json_object *object, const char *path);

/** Elements of the array at the path; 0 when there is none. */
size_t cli_json_count(struct json_object *object, const char *path);
struct json_object *cli_json_item(struct json_object *object, const char *path, size_t index);

/** The texts of the array at the path, blanks between, as far as there is room; "" for none. */
void cli_json_join(struct json_object *object, const char *path, char *out, size_t size);

/** Add a member. */
void cli_json_add(struct json_object *object, const char *name, uint64_t value);
void cli_json_add_text(struct json_object *object, const char *name, const char *text);

/** With so many digits behind the point, which stand for what is known of the value. */
void cli_json_add_number(struct json_object *object, const char *name, double value, int digits);

/** The object on one line. */
void cli_json_print(FILE *out, struct json_object *object);

#endif /* CLI_OUTPUT_CLI_JSON_H */
