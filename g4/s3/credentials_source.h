/*
 * g4/s3/credentials_source.h -- which link of the chain it is, and how to ask it.
 *
 * Why: the environment is read once, at opening; whoever renews keys later must not depend on what
 * other threads do to it.
 *
 * Ownership: plain data; it may hold secrets: wipe it.
 * Threads:   make it where nobody sets environment variables.
 * Limits:    texts of the sizes below; shared files of G4_CREDENTIALS_FILE_MAX bytes.
 */
#ifndef G4_S3_CREDENTIALS_SOURCE_H
#define G4_S3_CREDENTIALS_SOURCE_H

#include "g4/s3/credentials.h"
#include "g4/s3/credentials_parse.h"
#include "kvtier/error.h"

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

#endif /* G4_S3_CREDENTIALS_SOURCE_H */
