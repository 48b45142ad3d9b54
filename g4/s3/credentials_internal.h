/*
 * g4/s3/credentials_internal.h -- the steps of finding keys: choose the source, ask it, parse its
 * answer.
 *
 * Why: the environment is read once, at opening: renewals must not depend on what other threads do
 * to it.  Shared files and answers come from outside and hold secrets: everything is bounded, what
 * does not fit is refused instead of cut, and no message quotes a value.
 *
 * Ownership: plain data that may hold secrets: the caller wipes it.  Buffers of answers are wiped
 *            here.
 * Threads:   make a source where nobody sets environment variables.
 * Limits:    the sizes below.
 */
#ifndef G4_S3_CREDENTIALS_INTERNAL_H
#define G4_S3_CREDENTIALS_INTERNAL_H

#include <stddef.h>

#include "g4/s3/credentials.h"

/* ---- the texts that keys come in ---- */

#define G4_PROFILE_TEXT_MAX 1024

struct g4_profile {
    bool found; /* there is such a section */
    struct g4_keys keys;
    char role_arn[G4_PROFILE_TEXT_MAX];
    char session_name[G4_PROFILE_TEXT_MAX];
    char token_file[G4_PROFILE_TEXT_MAX];
    char region[G4_PROFILE_TEXT_MAX];
    char unsupported[32]; /* a way to get keys that we do not have; "" */
};

/**
 * Read a profile's section of a shared file over what `profile` has already; text with a NUL.
 *
 * @param prefixed  sections are "[profile name]", but for "[default]": ~/.aws/config
 * @return KVT_OK (also without such a section) or KVT_INVALID "line N: ..."
 */
KVT_NODISCARD enum kvt_err g4_credentials_parse_profile(struct g4_profile *profile,
                                                        const char *text, const char *name,
                                                        bool prefixed, struct kvt_error *err);

/** AccessKeyId, SecretAccessKey, Token and Expiration, as containers and instances get them.
 *  KVT_OK, KVT_DENIED (an answer that says why there are none) or KVT_INVALID. */
KVT_NODISCARD enum kvt_err g4_credentials_parse_json(struct g4_keys *keys, const char *text,
                                                     size_t size, struct kvt_error *err);

/** The answer to AssumeRoleWithWebIdentity.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err g4_credentials_parse_sts(struct g4_keys *keys, const char *text,
                                                    size_t size, struct kvt_error *err);

/** Both keys there, and all of them plain text that fits a header line. */
bool g4_credentials_parse_usable(const struct g4_keys *keys);

/* ---- the link of the chain, and how to ask it ---- */

#define G4_CREDENTIALS_FILE_MAX (1u << 20)

struct g4_credentials_source {
    enum g4_credentials_link link;
    char where[160];                      /* for people */
    struct g4_keys keys;                  /* GIVEN, ENVIRONMENT, PROFILE: these are they */
    char url[G4_PROFILE_TEXT_MAX];        /* of the service that hands them out */
    char token_file[G4_PROFILE_TEXT_MAX]; /* WEB_IDENTITY; CONTAINER, "" = `token` */
    char token[G4_KEYS_TOKEN_MAX];        /* CONTAINER; "" = none */
    char role_arn[G4_PROFILE_TEXT_MAX];   /* WEB_IDENTITY */
    char session_name[G4_PROFILE_TEXT_MAX];
};

/** KVT_OK, KVT_NOTFOUND (nothing is set up), or KVT_INVALID and why. */
KVT_NODISCARD enum kvt_err g4_credentials_source_make(struct g4_credentials_source *plan,
                                                      const struct g4_credentials_options *options,
                                                      struct kvt_error *err);

/** Does asking again bring others? */
bool g4_credentials_source_renews(const struct g4_credentials_source *plan);

/* ---- asking a service once ---- */

#define G4_CREDENTIALS_ANSWER_MAX (64u * 1024)
#define G4_CREDENTIALS_FETCH_MS   5000
#define G4_CREDENTIALS_NEAR_MS    2000 /* an agent or metadata, which are next door */

/** KVT_OK, KVT_UNAVAILABLE or KVT_TIMEOUT (nobody there), KVT_DENIED (refused), KVT_INVALID (an
 *  answer we cannot read), KVT_IO, or what reading a token file said. */
KVT_NODISCARD enum kvt_err g4_credentials_fetch(const struct g4_credentials_source *plan,
                                                struct g4_keys *keys, struct kvt_error *err);

#endif /* G4_S3_CREDENTIALS_INTERNAL_H */
