/*
 * g4/s3/bucket.h -- how a bucket is set up, and what was left in it half uploaded.
 *
 * Why: versions, object locks and lifecycle rules change what a deletion frees and what goes away
 * by itself; uploads nobody completed take room that no listing shows.  Whoever keeps a cap, or
 * wonders why it does not hold, has to know.
 *
 * Ownership: the endpoint is borrowed for the call; results are the caller's.
 * Threads:   any; each call has a connection of its own and waits.
 * Limits:    G4_BUCKET_RULES_MAX rules, answers of G4_BUCKET_ANSWER_MAX bytes;
 *            G4_BUCKET_UPLOADS_MAX uploads a page, none with a key longer than ours.
 */
#ifndef G4_S3_BUCKET_H
#define G4_S3_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/s3/endpoint.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_BUCKET_RULES_MAX   64
#define G4_BUCKET_UPLOADS_MAX 500
#define G4_BUCKET_ANSWER_MAX  (1u << 20)
#define G4_BUCKET_NAME_MAX    64
#define G4_BUCKET_UPLOAD_MAX  512
#define G4_BUCKET_STANDS_MAX  1000 /* pages of uploads of one key */

enum g4_bucket_state {
    G4_BUCKET_UNKNOWN, /* the server does not say, or not to us */
    G4_BUCKET_OFF,
    G4_BUCKET_ON,
    G4_BUCKET_SUSPENDED, /* versions: none is made any more, the old ones stay */
};

/* One lifecycle rule, as far as it says what goes away. */
struct g4_bucket_rule {
    char name[G4_BUCKET_NAME_MAX];
    char prefix[KVT_KEY_MAX]; /* "" = all keys */
    bool enabled;
    bool narrowed;       /* by tags or sizes as well */
    bool expires;        /* objects are deleted: by age, or at a date */
    uint64_t days;       /* of that age; 0 = a date */
    bool moves;          /* to another storage class */
    bool old_versions;   /* versions that are not the newest are deleted */
    uint64_t abort_days; /* uploads begun so long ago are given up; 0 = not */
};

struct g4_bucket_settings {
    enum g4_bucket_state versions;
    enum g4_bucket_state locks; /* object lock: what is written cannot be deleted for a time */
    uint64_t lock_days;         /* that every object gets by itself; 0 = none */
    enum g4_bucket_state lifecycle;
    struct g4_bucket_rule rules[G4_BUCKET_RULES_MAX];
    size_t rule_count;
    bool more_rules;
};

/** KVT_OK (members may be UNKNOWN), or why the server could not be asked at all. */
KVT_NODISCARD enum kvt_err g4_bucket_settings(const struct g4_endpoint *endpoint,
                                              uint64_t timeout_ms,
                                              struct g4_bucket_settings *settings,
                                              struct kvt_error *err);

/** Fill `settings` from the body of one answer. */
void g4_bucket_parse_versions(const char *body, size_t size, struct g4_bucket_settings *settings);
void g4_bucket_parse_locks(const char *body, size_t size, struct g4_bucket_settings *settings);
void g4_bucket_parse_rules(const char *body, size_t size, struct g4_bucket_settings *settings);

struct g4_bucket_upload {
    char key[KVT_KEY_MAX];
    char id[G4_BUCKET_UPLOAD_MAX];
    uint64_t begun_ms; /* Unix, the server's clock; 0 = it does not say */
};

struct g4_bucket_uploads {
    struct g4_bucket_upload rows[G4_BUCKET_UPLOADS_MAX];
    size_t count;
    /* Where the next page begins; "" = that was the last.  Zero them before the first. */
    char key_marker[KVT_KEY_MAX];
    char id_marker[G4_BUCKET_UPLOAD_MAX];
    unsigned stands; /* pages in a row that ended at the same key */
};

/** The next page of uploads that were begun and not completed.  KVT_IO where the server's pages do
 *  not get on: its keys go back, or G4_BUCKET_STANDS_MAX pages end at one. */
KVT_NODISCARD enum kvt_err g4_bucket_uploads(const struct g4_endpoint *endpoint,
                                             uint64_t timeout_ms, struct g4_bucket_uploads *page,
                                             struct kvt_error *err);

/** The same of keys that begin with `prefix`; there are servers that take it for a whole key. */
KVT_NODISCARD enum kvt_err g4_bucket_uploads_of(const struct g4_endpoint *endpoint,
                                                uint64_t timeout_ms, const char *prefix,
                                                struct g4_bucket_uploads *page,
                                                struct kvt_error *err);

/** Begin one for upload->key; its id is filled in. */
KVT_NODISCARD enum kvt_err g4_bucket_begin(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                           struct g4_bucket_upload *upload, struct kvt_error *err);

/** Fill a page from the body of an answer. */
void g4_bucket_parse_uploads(const char *body, size_t size, struct g4_bucket_uploads *page);

/** Give one up; KVT_OK also when it is gone. */
KVT_NODISCARD enum kvt_err g4_bucket_abort(const struct g4_endpoint *endpoint, uint64_t timeout_ms,
                                           const struct g4_bucket_upload *upload,
                                           struct kvt_error *err);

#endif /* G4_S3_BUCKET_H */
