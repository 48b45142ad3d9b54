#include "base/http/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"

struct kvt_tls_pair {
    _Atomic unsigned holders;
    gnutls_certificate_credentials_t credentials; /* NULL: not made */
    uint64_t from_ms;                             /* since 1970, as is to_ms */
    uint64_t to_ms;
};

struct kvt_tls {
    struct {
        pthread_mutex_t lock; /* guards the pointer; a leaf */
        struct kvt_tls_pair *pair;
    } shared;
};

void
kvt_tls_drop(struct kvt_tls_pair *pair)
{
    if (pair == NULL || atomic_fetch_sub(&pair->holders, 1) > 1)
        return;
    if (pair->credentials != NULL)
        gnutls_certificate_free_credentials(pair->credentials);
    kvt_free(pair);
}

enum kvt_err
kvt_tls_new(struct kvt_tls **out)
{
    struct kvt_tls *tls = kvt_calloc(1, sizeof(*tls));

    *out = NULL;
    if (tls == NULL || pthread_mutex_init(&tls->shared.lock, NULL) != 0) {
        kvt_free(tls);
        return KVT_NOMEM;
    }
    *out = tls;
    return KVT_OK;
}

void
kvt_tls_free(struct kvt_tls *tls)
{
    if (tls == NULL)
        return;
    kvt_tls_drop(tls->shared.pair);
    (void)pthread_mutex_destroy(&tls->shared.lock);
    kvt_free(tls);
}

static gnutls_datum_t
text_of(const char *text)
{
    /* The library takes a pointer that may be written to, and only reads. */
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)text,
                            .size = (unsigned)strlen(text)};
}

/* Since when and until when the port's own certificate, the first, is valid. */
static enum kvt_err
read_validity(struct kvt_tls_pair *pair, const char *certificate, struct kvt_error *err)
{
    gnutls_x509_crt_t chain[KVT_TLS_CHAIN_MAX];
    const gnutls_datum_t text = text_of(certificate);
    unsigned count = KVT_TLS_CHAIN_MAX;
    const int found = gnutls_x509_crt_list_import(chain, &count, &text, GNUTLS_X509_FMT_PEM,
                                                  GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);

    if (found == GNUTLS_E_SHORT_MEMORY_BUFFER)
        return kvt_error_set(err, KVT_INVALID, "TLS certificate: there are more than %d of them",
                             KVT_TLS_CHAIN_MAX);
    if (found <= 0)
        return kvt_error_set(err, KVT_INVALID, "TLS certificate: this is no PEM file of one: %s",
                             found == 0 ? "it is empty" : gnutls_strerror(found));
    pair->from_ms = (uint64_t)gnutls_x509_crt_get_activation_time(chain[0]) * 1000;
    pair->to_ms = (uint64_t)gnutls_x509_crt_get_expiration_time(chain[0]) * 1000;
    for (int i = 0; i < found; i++)
        gnutls_x509_crt_deinit(chain[i]);
    return KVT_OK;
}

static enum kvt_err
make_credentials(struct kvt_tls_pair *pair, const char *certificate, const char *key,
                 struct kvt_error *err)
{
    const gnutls_datum_t certificate_text = text_of(certificate);
    const gnutls_datum_t key_text = text_of(key);
    int rc = gnutls_certificate_allocate_credentials(&pair->credentials);

    if (rc == GNUTLS_E_SUCCESS)
        rc = gnutls_certificate_set_x509_key_mem2(pair->credentials, &certificate_text, &key_text,
                                                  GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc >= 0)
        return KVT_OK;
    if (rc == GNUTLS_E_MEMORY_ERROR)
        return kvt_error_set(err, KVT_NOMEM, "TLS certificate");
    if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return kvt_error_set(
            err, KVT_INVALID,
            "TLS certificate and key do not belong together: the key is another's");
    return kvt_error_set(err, KVT_INVALID, "TLS certificate and key: %s", gnutls_strerror(rc));
}

enum kvt_err
kvt_tls_load(struct kvt_tls *tls, const char *certificate, const char *key, struct kvt_error *err)
{
    struct kvt_tls_pair *pair = kvt_calloc(1, sizeof(*pair));
    struct kvt_tls_pair *before;
    enum kvt_err rc;

    if (pair == NULL)
        return kvt_error_set(err, KVT_NOMEM, "TLS certificate");
    atomic_store(&pair->holders, 1);
    rc = read_validity(pair, certificate, err);
    if (rc == KVT_OK)
        rc = make_credentials(pair, certificate, key, err);
    if (rc != KVT_OK) {
        kvt_tls_drop(pair);
        return rc;
    }
    (void)pthread_mutex_lock(&tls->shared.lock);
    before = tls->shared.pair;
    tls->shared.pair = pair;
    (void)pthread_mutex_unlock(&tls->shared.lock);
    kvt_tls_drop(before);
    return KVT_OK;
}

static struct kvt_tls_pair *
hold(struct kvt_tls *tls)
{
    struct kvt_tls_pair *pair;

    (void)pthread_mutex_lock(&tls->shared.lock);
    pair = tls->shared.pair;
    if (pair != NULL)
        (void)atomic_fetch_add(&pair->holders, 1);
    (void)pthread_mutex_unlock(&tls->shared.lock);
    return pair;
}

void
kvt_tls_validity(struct kvt_tls *tls, uint64_t *from_ms, uint64_t *to_ms)
{
    struct kvt_tls_pair *pair = hold(tls);

    *from_ms = pair == NULL ? 0 : pair->from_ms;
    *to_ms = pair == NULL ? 0 : pair->to_ms;
    kvt_tls_drop(pair);
}

/* Only connections that were given no pair come here: there is none for them. */
static int
on_no_pair(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
           const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **chain,
           unsigned *chain_count, gnutls_privkey_t *key)
{
    (void)session;
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    (void)chain;
    (void)chain_count;
    (void)key;
    return -1;
}

struct MHD_OptionItem
kvt_tls_priorities(void)
{
    /* TLS 1.2 and later, forward secrecy, AEAD ciphers alone, no signature with SHA-1. */
    static char priorities[] =
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:"
        "+CHACHA20-POLY1305:-MAC-ALL:+AEAD:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-SIGN-RSA-SHA1:"
        "-SIGN-ECDSA-SHA1:-SIGN-DSA-SHA1";

    return (struct MHD_OptionItem){.option = MHD_OPTION_HTTPS_PRIORITIES, .ptr_value = priorities};
}

struct MHD_OptionItem
kvt_tls_option(void)
{
    /* The library has one type for all options, and gives this one back its own. */
    return (struct MHD_OptionItem){.option = MHD_OPTION_HTTPS_CERT_CALLBACK,
                                   .ptr_value = (void *)(uintptr_t)on_no_pair};
}

struct kvt_tls_pair *
kvt_tls_greet(struct kvt_tls *tls, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct kvt_tls_pair *pair = info == NULL ? NULL : hold(tls);

    /* In place of those that the daemon gives all its connections. */
    if (pair != NULL && gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE,
                                               pair->credentials) != GNUTLS_E_SUCCESS) {
        kvt_tls_drop(pair);
        pair = NULL;
    }
    return pair;
}
