/*
 * base/text/json.h -- reading JSON that came from outside (over json-c).
 *
 * Why: every daemon checks the same things: depth, UTF-8, trailing bytes, and that a number is one.
 * json-c keeps all 64 bits of an integer, which hashes need.
 * Ownership: an object belongs to the caller, who ends it with json_object_put().
 * Threads:   any; one object, one thread.
 * Limits:    KVT_JSON_DEPTH_MAX levels, KVT_JSON_VALUES_MAX values (two bytes of text can take 200
 *            bytes of memory); the caller bounds the text's size.
 */
#ifndef BASE_TEXT_JSON_H
#define BASE_TEXT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_JSON_DEPTH_MAX  32
#define KVT_JSON_VALUES_MAX (1u << 19)

/**
 * Parse all of `text`.
 *
 * @param[out] out  receives the value, NULL on failure; a lone `null` is KVT_INVALID
 * @param name      what the text is, the start of "<name>:line:column: ..."
 * @return KVT_OK, KVT_INVALID, KVT_RANGE (more values, or bytes than an int counts) or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_json_parse(struct json_object **out, const char *text, size_t size,
                                          const char *name, struct kvt_error *err);

/* A value as what it should be.  False (or NULL) when it is missing or something else; the result
 * is then 0.  `value` and `object` may be NULL or no object. */

/** A whole number from 0 on. */
bool kvt_json_to_u64(struct json_object *value, uint64_t *number);

/** Text as kvt_hash_parse() reads it, or a whole number. */
bool kvt_json_to_hash(struct json_object *value, uint64_t *hash);

/** Text without a NUL inside, or NULL; it lives as long as the value. */
const char *kvt_json_to_string(struct json_object *value);

/** It is there, be it null. */
bool kvt_json_has(struct json_object *object, const char *key);
struct json_object *kvt_json_member(struct json_object *object, const char *key);
bool kvt_json_u64(struct json_object *object, const char *key, uint64_t *number);
bool kvt_json_hash(struct json_object *object, const char *key, uint64_t *hash);
bool kvt_json_bool(struct json_object *object, const char *key, bool *flag);
const char *kvt_json_string(struct json_object *object, const char *key);

/** The array, or NULL. */
struct json_object *kvt_json_array(struct json_object *object, const char *key);

#endif /* BASE_TEXT_JSON_H */
