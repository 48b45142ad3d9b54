#include "tests/support/certificate.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

#include "tests/support/seed.h"

static void
describe(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key, const char *name,
         uint64_t from_ms, uint64_t to_ms)
{
    const unsigned char serial = 1;

    assert_int_equal(gnutls_x509_crt_set_version(certificate, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(certificate, &serial, sizeof(serial)), 0);
    assert_int_equal(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
                                                   name, (unsigned)strlen(name)),
                     0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(certificate, (time_t)(from_ms / 1000)), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(certificate, (time_t)(to_ms / 1000)), 0);
    assert_int_equal(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME,
                                                          "localhost", 9, GNUTLS_FSAN_SET),
                     0);
    assert_int_equal(gnutls_x509_crt_set_key(certificate, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
}

void
test_certificate_make(struct test_certificate *certificate, const char *name, uint64_t from_ms,
                      uint64_t to_ms)
{
    size_t text_size = sizeof(certificate->text);
    size_t key_size = sizeof(certificate->key);
    gnutls_x509_crt_t made;
    gnutls_x509_privkey_t key;

    memset(certificate, 0, sizeof(*certificate));
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&made), 0);
    describe(made, key, name, from_ms, to_ms);
    assert_int_equal(
        gnutls_x509_crt_export(made, GNUTLS_X509_FMT_PEM, certificate->text, &text_size), 0);
    assert_int_equal(
        gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, certificate->key, &key_size), 0);
    gnutls_x509_crt_deinit(made);
    gnutls_x509_privkey_deinit(key);
}
