/*
 * tests/unit/g4/support/helpers.h -- one line for each verb of a store.
 *
 * Why: a test should show the condition and the outcome, not the filling of a request.
 * Ownership: `struct fetched` holds the body inline.
 * Limits:    bodies of FETCHED_MAX bytes.
 */
#ifndef TESTS_UNIT_G4_SUPPORT_HELPERS_H
#define TESTS_UNIT_G4_SUPPORT_HELPERS_H

#include "g4/object/g4_store.h"

enum { FETCHED_MAX = 256 * 1024 };

struct fetched {
    enum kvt_err status;
    struct g4_meta meta;
    char etag[G4_ETAG_MAX];
    uint64_t modified_ms;
    uint64_t server_ms;
    struct kvt_error error;
    size_t size;
    uint8_t body[FETCHED_MAX];
};

/** PUT with metadata that fits; the new ETag goes to `etag` (may be NULL). */
enum kvt_err put(struct g4_store *store, const char *key, const void *body, size_t size,
                 char *etag);
enum kvt_err put_absent(struct g4_store *store, const char *key, const void *body, size_t size,
                        char *etag);
enum kvt_err put_match(struct g4_store *store, const char *key, const void *body, size_t size,
                       char *etag);

/** PUT as others do, without metadata. */
enum kvt_err put_plain(struct g4_store *store, const char *key, const void *body, size_t size);

enum kvt_err get(struct g4_store *store, const char *key, struct fetched *fetched);
enum kvt_err head(struct g4_store *store, const char *key, struct fetched *fetched);
enum kvt_err del(struct g4_store *store, const char *key);
enum kvt_err del_match(struct g4_store *store, const char *key, const char *etag);

/** One page; `token` in and out (G4_TOKEN_MAX bytes), `rows` for G4_LIST_KEYS_MAX. */
enum kvt_err list(struct g4_store *store, const char *prefix, char *token, struct g4_listed *rows,
                  size_t *count);

/** `size` bytes that follow from `seed`. */
void fill(void *body, size_t size, uint64_t seed);

#endif /* TESTS_UNIT_G4_SUPPORT_HELPERS_H */
