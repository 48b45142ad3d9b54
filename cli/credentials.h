/*
 * cli/credentials.h -- who we are to an S3 server.
 *
 * Why: secrets come by file or environment, never by flag.
 * Ownership: the caller owns the struct and wipes it.
 * Threads:   any.
 * Limits:    the buffers below.
 */
#ifndef CLI_CREDENTIALS_H
#define CLI_CREDENTIALS_H

#include "base/config.h"
#include "kvtier/error.h"

struct cli_credentials {
    char access_key[256];
    char secret_key[256];
    char session_token[2048]; /* "" = none */
};

/**
 * From the file of SECRET row `index` ("access:secret[:token]"), or, when it is unset and
 * `environment`, from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
 *
 * @return KVT_OK, KVT_NOTFOUND (none given), KVT_DENIED (others may read the file), KVT_INVALID
 */
KVT_NODISCARD enum kvt_err cli_credentials_load(const struct kvt_config *config, size_t index,
                                                bool environment,
                                                struct cli_credentials *credentials,
                                                struct kvt_error *err);

#endif /* CLI_CREDENTIALS_H */
