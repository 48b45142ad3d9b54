/*
 * Property: any text, as a shared file or as a service's answer, is refused or read into keys that
 * fit a header line; what is refused leaves no key behind, and no message holds one.
 */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/s3/credentials_internal.h"

#include "tests/fuzz/target.h"

static void
check_keys(enum kvt_err rc, const struct g4_keys *keys)
{
    static const struct g4_keys none;

    assert(rc == KVT_OK || rc == KVT_INVALID || rc == KVT_DENIED);
    if (rc != KVT_OK) {
        assert(memcmp(keys, &none, sizeof(none)) == 0);
        return;
    }
    assert(memchr(keys->access_key, 0, sizeof(keys->access_key)) != NULL);
    assert(memchr(keys->secret_key, 0, sizeof(keys->secret_key)) != NULL);
    assert(memchr(keys->session_token, 0, sizeof(keys->session_token)) != NULL);
    assert(g4_credentials_parse_usable(keys));
}

static void
check_profile(const char *text)
{
    struct g4_profile profile = {0};
    struct kvt_error err;
    const enum kvt_err rc = g4_credentials_parse_profile(&profile, text, "p", true, &err);

    assert(rc == KVT_OK || rc == KVT_INVALID);
    assert(memchr(profile.keys.secret_key, 0, sizeof(profile.keys.secret_key)) != NULL);
    assert(memchr(profile.role_arn, 0, sizeof(profile.role_arn)) != NULL);
    assert(memchr(profile.token_file, 0, sizeof(profile.token_file)) != NULL);
    if (rc == KVT_OK && !profile.found)
        assert(profile.keys.access_key[0] == '\0' && profile.keys.secret_key[0] == '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct g4_keys keys;
    struct kvt_error err;
    char *text = kvt_calloc(size + 1, 1);

    check_keys(g4_credentials_parse_json(&keys, (const char *)bytes, size, &err), &keys);
    check_keys(g4_credentials_parse_sts(&keys, (const char *)bytes, size, &err), &keys);
    assert(text != NULL);
    if (size > 0)
        memcpy(text, bytes, size);
    check_profile(text);
    kvt_free(text);
    return 0;
}
