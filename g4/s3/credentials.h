/*
 * g4/s3/credentials.h -- who we are to an S3 service, and for how long.
 *
 * Why: programs on clouds get keys that end within the hour, from the place that AWS SDKs look at
 * too.  They are renewed ahead of their end by one thread, while requests go on with what they
 * have.
 *
 * The chain, first to last: what the program was given; AWS_ACCESS_KEY_ID and its companions; the
 * profile (AWS_PROFILE) in the shared files; web identity; the container's URI; instance metadata,
 * version 2.  The first link that is set up is the one: when it fails, no other identity is taken
 * in its place.
 *
 * Ownership: options are copied; closing wipes every secret.
 * Threads:   any thread takes, rejects and asks; one thread of ours renews.
 * Limits:    texts of the sizes below; one renewal at a time, `retry_ms` apart.
 */
#ifndef G4_S3_CREDENTIALS_H
#define G4_S3_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#define G4_KEYS_KEY_MAX          256
#define G4_KEYS_TOKEN_MAX        4096
#define G4_CREDENTIALS_WHERE_MAX 160

struct g4_keys {
    char access_key[G4_KEYS_KEY_MAX];
    char secret_key[G4_KEYS_KEY_MAX];
    char session_token[G4_KEYS_TOKEN_MAX]; /* "" = none */
    uint64_t expires_ms;                   /* Unix; 0 = never */
};

enum g4_credentials_link {
    G4_CREDENTIALS_GIVEN,
    G4_CREDENTIALS_ENVIRONMENT,
    G4_CREDENTIALS_PROFILE,
    G4_CREDENTIALS_WEB_IDENTITY,
    G4_CREDENTIALS_CONTAINER,
    G4_CREDENTIALS_METADATA,
};

struct g4_credentials_options {
    const char *access_key; /* "" or NULL: look along the chain */
    const char *secret_key;
    const char *session_token;
    const char *region; /* of the token service; "" or NULL = us-east-1 */
    uint64_t retry_ms;  /* between two questions; after failures it doubles to a minute; 0 = 1 s */
};

struct g4_credentials;

/**
 * Find the link, and ask it once.  A link that is set up and does not answer is no failure of
 * opening: the thread asks it again, and until then g4_credentials_take() says why there are none.
 *
 * @return KVT_OK, KVT_NOTFOUND (no link is set up), KVT_INVALID (one is, wrongly), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err g4_credentials_open(struct g4_credentials **out,
                                               const struct g4_credentials_options *options,
                                               struct kvt_error *err);
void g4_credentials_close(struct g4_credentials *credentials);

/**
 * A copy of the keys that hold right now; wipe it after use.
 *
 * @param[out] generation  which ones, for g4_credentials_reject()
 * @return KVT_OK, or KVT_DENIED with the reason: they are over and could not be renewed
 */
KVT_NODISCARD enum kvt_err g4_credentials_take(struct g4_credentials *credentials,
                                               struct g4_keys *keys, uint64_t *generation,
                                               struct kvt_error *err);

/** Which keys g4_credentials_take() gives right now. */
uint64_t g4_credentials_generation(struct g4_credentials *credentials);

/** The service would not have these: renew them at once.  True: others may come. */
bool g4_credentials_reject(struct g4_credentials *credentials, uint64_t generation);

struct g4_credentials_state {
    enum g4_credentials_link link;
    char where[G4_CREDENTIALS_WHERE_MAX]; /* for people: "profile p of the shared files" */
    uint64_t expires_ms;                  /* Unix; 0 = never */
    uint64_t renewals;                    /* that succeeded, the first included */
    uint64_t failures;                    /* in a row */
    struct kvt_error error;               /* of the last of these; "" when there is none */
};

void g4_credentials_state(struct g4_credentials *credentials, struct g4_credentials_state *state);

#endif /* G4_S3_CREDENTIALS_H */
