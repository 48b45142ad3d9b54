/*
 * g4/object/object_name.h -- where an object of a client is in the store (docs/formats.md, "Names
 * in the store").
 *
 * Why: stores normalise paths: MinIO drops empty segments, file systems resolve "..", and neither
 *      lets `a` and `a/b` exist together.  A client's key that reached a store unchanged would be
 *      another client's object.  Here every pair of (bucket, key) gets a name of its own that no
 *      store changes.  The client's keys sort as their names do.
 *
 * Forms:
 *   identity  the key itself: keys of blocks, their commit records and locks, and files with a
 *             listed suffix.  Of the configured bucket only.
 *   escaped   ".kvtier-key/<bucket>/<escaped key>!"
 *   hashed    ".kvtier-long/<bucket>/<beginning of the escaped key>)/<sha256>!": keys whose escaped
 *             name is too long.  An object ".kvtier-long-key/<bucket>/<sha256>!" holds the key.
 *
 * Threads:   any; pure functions.
 * Limits:    keys of G4_CLIENT_KEY_MAX - 1 bytes, names of G4_OBJECT_NAME_MAX - 1.
 */
#ifndef G4_OBJECT_OBJECT_NAME_H
#define G4_OBJECT_OBJECT_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/kind.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_CLIENT_KEY_MAX    1025 /* S3 allows 1,024 bytes */
#define G4_OBJECT_NAME_MAX   KVT_KEY_MAX
#define G4_OBJECT_BUCKET_MAX 17 /* sixteen hex digits, or "": the configured bucket */

#define G4_OBJECT_NAME_RECORD ".kvtier-long-key/"

enum g4_object_form { G4_OBJECT_IDENTITY, G4_OBJECT_ESCAPED, G4_OBJECT_HASHED };

#define G4_OBJECT_FORMS 3

/* A name in a store.  Only this module writes `text`. */
struct g4_object_name {
    char text[G4_OBJECT_NAME_MAX];
};

/**
 * The name of a client's object.
 *
 * @param bucket  id of the client's bucket; "" = the configured one
 * @param key     1 to G4_CLIENT_KEY_MAX - 1 bytes of any value but NUL
 * @param[out] name  "" on failure
 * @return KVT_OK; KVT_INVALID: an empty key or no bucket's id; KVT_RANGE: a key that is too long
 */
KVT_NODISCARD enum kvt_err g4_object_name_make(struct g4_object_name *name, const char *bucket,
                                               const char *key);

/**
 * Whose name it is, by where it is: the bucket's id, "" for the configured one.  False: it is in
 * the folder of no bucket.  What is outside those folders is of the configured bucket.
 */
bool g4_object_name_bucket(const char *name, char bucket[G4_OBJECT_BUCKET_MAX]);

/** The form of a name that g4_object_name_make() gives; false: no client's key has this name. */
bool g4_object_name_form(const char *bucket, const char *name, enum g4_object_form *form);

/**
 * The client's key of a name, as it stands in a listing.
 *
 * @param[out] key  "" on failure
 * @return KVT_OK; KVT_NOTFOUND: a hashed name, its key is in the record; KVT_INVALID: no client's
 *         key of this bucket has this name
 */
KVT_NODISCARD enum kvt_err g4_object_name_key(const char *bucket, const char *name,
                                              char key[G4_CLIENT_KEY_MAX]);

/**
 * As much of the client's key of a stored name as the name itself tells: the whole key, the
 * beginning of one that is hashed, or the name where it is no client's of this bucket.
 */
void g4_object_name_beginning(const char *bucket, const char *name, char key[G4_CLIENT_KEY_MAX]);

/** The record of a hashed name: the object that holds its key.  False, and "": another form. */
bool g4_object_name_record(const char *bucket, const char *name, struct g4_object_name *record);

/**
 * The prefix that all names of one form have whose keys begin with `prefix`, for a LIST.
 *
 * @return KVT_OK; KVT_NOTFOUND: no key that begins so has a name of this form
 */
KVT_NODISCARD enum kvt_err g4_object_name_prefix(struct g4_object_name *out, const char *bucket,
                                                 enum g4_object_form form, const char *prefix);

/**
 * A text that is at or before the name of every key after `key`, for the `after` of a LIST.
 *
 * @param beyond  keys that begin with `key` are not wanted either
 */
void g4_object_name_after(struct g4_object_name *out, const char *bucket, enum g4_object_form form,
                          const char *key, bool beyond);

#endif /* G4_OBJECT_OBJECT_NAME_H */
