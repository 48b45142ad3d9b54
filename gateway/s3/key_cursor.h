/*
 * gateway/s3/key_cursor.h -- the keys of a client's bucket in order, out of the names in the store.
 *
 * Why: an object's name has one of three forms (g4/object/object_name.h).  A store lists each form
 * in its own order; a listing needs the keys of all of them in one.
 *
 * Ownership: texts given at the start are borrowed; rows are its own until the next call.
 * Threads:   one.
 * Limits:    a page of the store in memory for each form; GATEWAY_KEY_CURSOR_PAGES pages, then
 *            KVT_AGAIN.
 */
#ifndef GATEWAY_S3_KEY_CURSOR_H
#define GATEWAY_S3_KEY_CURSOR_H

#include "g4/object/g4_store.h"
#include "g4/object/object_name.h"

#define GATEWAY_KEY_CURSOR_PAGES 64

/* Forms that the store lists in key order: they go on where a page of the store ended. */
#define GATEWAY_KEY_CURSOR_WAYS 2

/* How a page of the store was asked for: 'a' and the name it begins behind, or 't' and the store's
 * token.  "": not known. */
#define GATEWAY_KEY_CURSOR_WAY (1 + G4_TOKEN_MAX)

struct gateway_listing_prefetch;

struct gateway_key_cursor_start {
    const char *bucket; /* the id */
    const char *prefix;
    const char *after;                         /* keys up to here are done with, */
    bool beyond;                               /* and keys that begin with it */
    size_t wanted;                             /* keys; 0: not known */
    size_t most;                               /* keys that are ever asked for, and one more */
    const char *ways[GATEWAY_KEY_CURSOR_WAYS]; /* of the listing that goes on */
    struct gateway_listing_prefetch *prefetch; /* NULL: none */
};

struct gateway_key_cursor;

/** KVT_NOMEM. */
KVT_NODISCARD enum kvt_err gateway_key_cursor_new(struct gateway_key_cursor **out,
                                                  struct g4_store *store,
                                                  const struct gateway_key_cursor_start *start);
/** NULL is allowed. */
void gateway_key_cursor_free(struct gateway_key_cursor *cursor);

/** The next key.  KVT_NOTFOUND: there is none.  KVT_AGAIN: enough pages were read; go on behind
 *  gateway_key_cursor_reached().  Else what the store said. */
KVT_NODISCARD enum kvt_err gateway_key_cursor_peek(struct gateway_key_cursor *cursor,
                                                   const char **key,
                                                   const struct g4_listed **object);
/** It is done with. */
void gateway_key_cursor_pass(struct gateway_key_cursor *cursor);

/** Keys that begin so are not wanted from here on. */
void gateway_key_cursor_skip(struct gateway_key_cursor *cursor, const char *beginning);

/** May there be another key?  False is certain; asks nobody. */
bool gateway_key_cursor_more(struct gateway_key_cursor *cursor);

/** After KVT_AGAIN: up to here every key was given; "" when that is not known. */
const char *gateway_key_cursor_reached(const struct gateway_key_cursor *cursor);

/** How the next listing goes on, with `after` where this one ends. */
void gateway_key_cursor_way(const struct gateway_key_cursor *cursor, unsigned form,
                            char way[GATEWAY_KEY_CURSOR_WAY]);

/** Begin to fetch the page that a listing which goes on here asks for, where that is one page. */
void gateway_key_cursor_look_ahead(const struct gateway_key_cursor *cursor);

#endif /* GATEWAY_S3_KEY_CURSOR_H */
