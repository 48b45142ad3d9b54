/*
 * cli/remote/cli_credentials.h -- who we are to an S3 server.
 *
 * Why: secrets come by file or environment, never by flag.
 * Ownership: the caller owns the struct and wipes it.
 * Limits:    the buffers below.
 */
#ifndef CLI_REMOTE_CLI_CREDENTIALS_H
#define CLI_REMOTE_CLI_CREDENTIALS_H

#include "base/config/config.h"
#include "g4/s3/credentials.h"
#include "kvtier/error.h"

struct cli_credentials {
    char access_key[G4_KEYS_KEY_MAX];
    char secret_key[G4_KEYS_KEY_MAX];
    char session_token[G4_KEYS_TOKEN_MAX]; /* "" = none */
    char where[G4_CREDENTIALS_WHERE_MAX];  /* they come from, for people */
};

/**
 * From the file of SECRET row `index` ("access:secret[:token]"), or, when it is unset and
 * `environment`, from where AWS tools look (g4/s3/credentials.h).
 *
 * @return KVT_OK, KVT_NOTFOUND (none given), KVT_DENIED (others may read the file, or whoever hands
 *         them out does not), KVT_INVALID
 */
KVT_NODISCARD enum kvt_err cli_credentials_load(const struct kvt_config *config, size_t index,
                                                bool environment,
                                                struct cli_credentials *credentials,
                                                struct kvt_error *err);

#endif /* CLI_REMOTE_CLI_CREDENTIALS_H */
