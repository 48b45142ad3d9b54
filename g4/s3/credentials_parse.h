/*
 * g4/s3/credentials_parse.h -- the texts keys come in: shared files, JSON and XML of services.
 *
 * Why: they come from outside and hold secrets: everything is bounded, what does not fit is
 * refused instead of cut, and no message quotes a value.
 *
 * Limits:    those of struct g4_keys and struct g4_profile.
 */
#ifndef G4_S3_CREDENTIALS_PARSE_H
#define G4_S3_CREDENTIALS_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/s3/credentials.h"
#include "kvtier/error.h"

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

#endif /* G4_S3_CREDENTIALS_PARSE_H */
