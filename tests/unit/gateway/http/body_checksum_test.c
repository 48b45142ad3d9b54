/*
 * What is tested: gateway/http/body_checksum.h.  Published check values, CRC-64/NVME against one
 * bit at a time for every length around the folded ones, the shape of texts, and that none is made
 * up where OpenSSL cannot compute it.
 */
#include <openssl/evp.h>
#include <string.h>

#include "base/core/random.h"
#include "gateway/http/body_checksum.h"
#include "gateway/upload/upload_checksum.h"

#include "tests/support/seed.h"

static bool digests_fail;

/* In the place of OpenSSL's, which fails where it gets no memory. */
int
EVP_Digest(const void *bytes, size_t size, unsigned char *digest, unsigned *digest_size,
           const EVP_MD *type, ENGINE *engine)
{
    EVP_MD_CTX *context = digests_fail ? NULL : EVP_MD_CTX_new();
    int fine = context != NULL && EVP_DigestInit_ex(context, type, engine) == 1 &&
               EVP_DigestUpdate(context, bytes, size) == 1 &&
               EVP_DigestFinal_ex(context, digest, digest_size) == 1;

    EVP_MD_CTX_free(context);
    return fine;
}

static void
check_values(void **state)
{
    static const char *const nine[GATEWAY_BODY_CHECKSUM_COUNT] = {
        [GATEWAY_BODY_CHECKSUM_CRC32] = "y/Q5Jg==",         /* cbf43926 */
        [GATEWAY_BODY_CHECKSUM_CRC32C] = "4waSgw==",        /* e3069283 */
        [GATEWAY_BODY_CHECKSUM_CRC64NVME] = "rosUhgp5mIg=", /* ae8b14860a799888 */
        [GATEWAY_BODY_CHECKSUM_SHA1] = "98O8HYCOBHMq32eZZczDTKeuNEE=",
        [GATEWAY_BODY_CHECKSUM_SHA256] = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
    };
    static const char *const nothing[GATEWAY_BODY_CHECKSUM_COUNT] = {
        [GATEWAY_BODY_CHECKSUM_CRC32] = "AAAAAA==",
        [GATEWAY_BODY_CHECKSUM_CRC32C] = "AAAAAA==",
        [GATEWAY_BODY_CHECKSUM_CRC64NVME] = "AAAAAAAAAAA=",
        [GATEWAY_BODY_CHECKSUM_SHA1] = "2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
        [GATEWAY_BODY_CHECKSUM_SHA256] = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    };
    char text[GATEWAY_BODY_CHECKSUM_TEXT];

    (void)state;
    for (int i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        assert_true(
            gateway_body_checksum_text((enum gateway_body_checksum)i, "123456789", 9, text));
        assert_string_equal(text, nine[i]);
        assert_true(gateway_body_checksum_valid((enum gateway_body_checksum)i, text));
        assert_true(gateway_body_checksum_text((enum gateway_body_checksum)i, NULL, 0, text));
        assert_string_equal(text, nothing[i]);
    }
}

static uint64_t
bit_by_bit(const uint8_t *bytes, size_t size)
{
    uint64_t crc = UINT64_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT64_C(0x9a6c9329ac4bc9b5) : 0);
    }
    return ~crc;
}

static void
crc64_lengths(void **state)
{
    uint64_t random = test_seed();
    uint8_t bytes[400];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)kvt_random_next(&random);
    for (size_t size = 0; size <= sizeof(bytes) - 3; size++) {
        const size_t cut = size == 0 ? 0 : kvt_random_next(&random) % size;
        const uint8_t *start = bytes + size % 3;
        uint64_t parts;

        assert_true(gateway_body_checksum_crc64nvme(0, start, size) == bit_by_bit(start, size));
        parts = gateway_body_checksum_crc64nvme(0, start, cut);
        parts = gateway_body_checksum_crc64nvme(parts, start + cut, size - cut);
        assert_true(parts == bit_by_bit(start, size));
    }
}

static void
shapes(void **state)
{
    (void)state;
    assert_true(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "y/Q5Jg=="));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, ""));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "y/Q5Jg="));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "y/Q5Jgg="));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "y/Q5Jh=="));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "y/Q5\nJg="));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC32, "========"));
    assert_false(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_CRC64NVME, "y/Q5Jg=="));
}

/* What cannot be computed is not zeros, which would be kept and told. */
static void
digests_that_fail(void **state)
{
    const struct gateway_upload_checksum sha = {.algorithm = GATEWAY_BODY_CHECKSUM_SHA256};
    const struct gateway_upload_checksum crc = {.algorithm = GATEWAY_BODY_CHECKSUM_CRC32};
    const struct gateway_part part = {.number = 1, .size = 4};
    const uint8_t body[] = {1, 2, 3, 4};
    struct gateway_body_checksums checksums = {.text = {""}};
    char told[GATEWAY_ATTRIBUTES_CHECKSUM] = "x";
    char text[GATEWAY_BODY_CHECKSUM_TEXT] = "x";
    uint8_t digest[GATEWAY_BODY_CHECKSUM_BYTES];

    (void)state;
    digests_fail = true;
    assert_false(gateway_body_checksum_bytes(GATEWAY_BODY_CHECKSUM_SHA1, body, 4, digest));
    assert_false(gateway_body_checksum_text(GATEWAY_BODY_CHECKSUM_SHA256, body, 4, text));
    assert_string_equal(text, "");
    assert_false(gateway_upload_checksum_compute(&sha, body, &part, 1, told));
    assert_string_equal(told, "");
    assert_int_equal(gateway_upload_checksum_of_part(&sha, body, 4, &checksums),
                     GATEWAY_S3_ERROR_SLOW_DOWN);
    assert_string_equal(checksums.text[GATEWAY_BODY_CHECKSUM_SHA256], "");
    assert_true(gateway_upload_checksum_compute(&crc, body, &part, 1, told));
    digests_fail = false;
    assert_true(gateway_upload_checksum_compute(&sha, body, &part, 1, told));
    assert_int_equal(gateway_upload_checksum_of_part(&sha, body, 4, &checksums),
                     GATEWAY_S3_ERROR_NONE);
    assert_true(gateway_body_checksum_valid(GATEWAY_BODY_CHECKSUM_SHA256,
                                            checksums.text[GATEWAY_BODY_CHECKSUM_SHA256]));
}

static void
names(void **state)
{
    (void)state;
    assert_int_equal(gateway_body_checksum_of_header("X-Amz-Checksum-CRC64NVME"),
                     GATEWAY_BODY_CHECKSUM_CRC64NVME);
    assert_int_equal(gateway_body_checksum_of_header("x-amz-checksum-mode"),
                     GATEWAY_BODY_CHECKSUM_COUNT);
    assert_int_equal(gateway_body_checksum_of_word("sha1"), GATEWAY_BODY_CHECKSUM_SHA1);
    assert_int_equal(gateway_body_checksum_of_word("MD5"), GATEWAY_BODY_CHECKSUM_COUNT);
    assert_string_equal(gateway_body_checksum_header(GATEWAY_BODY_CHECKSUM_CRC32C),
                        "x-amz-checksum-crc32c");
    assert_string_equal(gateway_body_checksum_word(GATEWAY_BODY_CHECKSUM_CRC32C), "CRC32C");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_values), cmocka_unit_test(crc64_lengths),
        cmocka_unit_test(shapes),       cmocka_unit_test(digests_that_fail),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
