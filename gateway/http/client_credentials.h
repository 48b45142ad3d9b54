/*
 * gateway/http/client_credentials.h -- who may do what on the S3 port.
 *
 * Why: a tenant is a prefix of keys, or owns buckets; a credential says which prefixes of which
 * buckets it may read, write, delete and list.  A table never changes: a reload makes another one,
 * and requests that began with the old one end with it.
 *
 * Ownership: a table lives as long as somebody holds it; principals point into it.
 * Threads:   any; read-only after loading, the count of holders is atomic.
 * Limits:    GATEWAY_CLIENT_CREDENTIALS_MAX credentials of GATEWAY_GRANTS_MAX grants each.
 */
#ifndef GATEWAY_HTTP_CLIENT_CREDENTIALS_H
#define GATEWAY_HTTP_CLIENT_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_CLIENT_CREDENTIALS_MAX 256
#define GATEWAY_GRANTS_MAX             16
#define GATEWAY_ACCESS_COUNTS_MAX      128
#define GATEWAY_SECRET_KEY_MAX         128
#define GATEWAY_OWNER_MAX              128
#define GATEWAY_PATTERN_MAX            64

enum gateway_right {
    GATEWAY_READ = 1,
    GATEWAY_WRITE = 2,
    GATEWAY_DELETE = 4,
    GATEWAY_LIST = 8,
    GATEWAY_RIGHTS_ALL = 15,
};

struct gateway_grant {
    char prefix[KVT_KEY_MAX];         /* of keys; "" for all */
    unsigned rights;                  /* of enum gateway_right */
    char bucket[GATEWAY_PATTERN_MAX]; /* of which buckets; "" for the configured one */
};

struct gateway_principal {
    char access[GATEWAY_ACCESS_COUNTS_MAX];
    char secret[GATEWAY_SECRET_KEY_MAX];
    char owner[GATEWAY_OWNER_MAX];     /* whose the buckets are that it makes */
    char creates[GATEWAY_PATTERN_MAX]; /* names of those it may make; "" for none */
    struct gateway_grant grants[GATEWAY_GRANTS_MAX];
    size_t grant_count;
};

struct gateway_client_credentials;

/** "access:secret" lines, each with all rights in the configured bucket and the right to make
 * others; blank lines and lines that start with '#' are passed over. */
KVT_NODISCARD enum kvt_err gateway_client_credentials_parse(struct gateway_client_credentials **out,
                                                            const char *text,
                                                            struct kvt_error *err);

/**
 * A YAML file of credentials with rights:
 *
 *     credentials:
 *       - access: tenant-a
 *         secret: ...
 *         owner: team-a       # whose buckets it makes and may do all with; unset: the access key
 *         creates: team-a-*   # names of the buckets it may make; unset: none
 *         grants:
 *           - {prefix: tenant-a/, rights: [read, write, delete, list]}
 *           - {bucket: shared-*, prefix: '', rights: read}
 *
 * `prefix` "" is the whole bucket; a grant without `bucket` is of the configured one.  Only the
 * last byte of a name may be '*'.  KVT_INVALID says where in the file.
 */
KVT_NODISCARD enum kvt_err gateway_client_credentials_load(struct gateway_client_credentials **out,
                                                           const char *path, struct kvt_error *err);

/** The principal of that access key, NULL when there is none. */
const struct gateway_principal *
gateway_client_credentials_find(const struct gateway_client_credentials *table, const char *access);

/** Is `name` one of `pattern`: the same, or begins with what stands before its '*'? */
bool gateway_client_credentials_match(const char *pattern, const char *name);

size_t gateway_client_credentials_count(const struct gateway_client_credentials *table);

/** One holder more, one less; the last one frees it and wipes the secrets.  NULL is allowed. */
struct gateway_client_credentials *
gateway_client_credentials_hold(struct gateway_client_credentials *table);
void gateway_client_credentials_drop(struct gateway_client_credentials *table);

#endif /* GATEWAY_HTTP_CLIENT_CREDENTIALS_H */
