#include "wire/message/key_ring.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"

enum { OWNED_SIZE = 32 };

static const char line_mark[] = "kvtier-key ";

static const struct {
    const char *text;
    const char *label; /* hashed with its NUL */
} uses_table[WIRE_KEY_USES] = {
#define X(name, text, label) {text, label},
    WIRE_KEY_USES_TABLE(X)
#undef X
};

void
wire_key_ring_wipe(struct wire_key_ring *ring)
{
    explicit_bzero(ring, sizeof(*ring));
}

static bool
is_name(const char *name)
{
    const size_t size = strlen(name);

    if (size == 0 || size >= KVT_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return true;
}

static bool
read_master(struct wire_key *key, const char *text)
{
    const size_t size = strlen(text);

    if (size >= (size_t)2 * WIRE_KEY_MIN && size <= (size_t)2 * WIRE_KEY_MAX && size % 2 == 0 &&
        kvt_hex_parse(text, size / 2, key->bytes)) {
        key->size = size / 2;
        return true;
    }
    if (size < WIRE_KEY_MIN || size > WIRE_KEY_MAX)
        return false;
    memcpy(key->bytes, text, size);
    key->size = size;
    return true;
}

/* "orders=<64 hex digits> ", if the text begins so. */
static bool
read_owned(struct wire_key_line *line, const char **text)
{
    for (size_t use = 0; use < WIRE_KEY_USES; use++) {
        const size_t word = strlen(uses_table[use].text);
        const size_t head = word + 1 + (size_t)2 * OWNED_SIZE;
        struct wire_key *key = &line->owned[use];

        if (strncmp(*text, uses_table[use].text, word) != 0 || (*text)[word] != '=' ||
            strlen(*text) <= head || (*text)[head] != ' ' ||
            !kvt_hex_parse(*text + word + 1, OWNED_SIZE, key->bytes))
            continue;
        key->size = OWNED_SIZE;
        *text += head + 1;
        return true;
    }
    return false;
}

static bool
read_line(struct wire_key_line *line, const char *text)
{
    size_t count = 0;

    if (strncmp(text, line_mark, sizeof(line_mark) - 1) != 0)
        return read_master(&line->master, text);
    text += sizeof(line_mark) - 1;
    while (count < WIRE_KEY_USES && read_owned(line, &text))
        count++;
    if (count == 0 || !is_name(text))
        return false;
    (void)snprintf(line->name, sizeof(line->name), "%s", text);
    return true;
}

enum kvt_err
wire_key_ring_parse(struct wire_key_ring *ring, const char *text, const char *setting,
                    struct kvt_error *err)
{
    char copy[WIRE_KEY_FILE_MAX];
    char *rest = copy;
    unsigned number = 0;
    enum kvt_err rc = KVT_OK;

    *ring = (struct wire_key_ring){.count = 0};
    if (strlen(text) >= sizeof(copy))
        return kvt_error_set(err, KVT_INVALID, "%s: more than %d bytes", setting,
                             WIRE_KEY_FILE_MAX - 1);
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *line = strsep(&rest, "\r\n"); line != NULL && rc == KVT_OK;
         line = strsep(&rest, "\r\n")) {
        if (line[0] == '\0')
            continue;
        number++;
        if (ring->count == WIRE_KEYS_MAX)
            rc = kvt_error_set(err, KVT_INVALID, "%s: more than %d keys: remove the oldest lines",
                               setting, WIRE_KEYS_MAX);
        else if (!read_line(&ring->lines[ring->count++], line))
            rc = kvt_error_set(err, KVT_INVALID,
                               "%s: line %u: want %d to %d bytes, or %d to %d hex digits, or a "
                               "line that 'kvtier key derive' made: kvtier key new",
                               setting, number, WIRE_KEY_MIN, WIRE_KEY_MAX, 2 * WIRE_KEY_MIN,
                               2 * WIRE_KEY_MAX);
    }
    if (rc == KVT_OK && ring->count == 0)
        rc = kvt_error_set(err, KVT_INVALID, "%s: the file has no key: kvtier key new", setting);
    explicit_bzero(copy, sizeof(copy));
    if (rc != KVT_OK)
        wire_key_ring_wipe(ring);
    return rc;
}

enum kvt_err
wire_key_of(const struct wire_key_line *line, enum wire_key_use use, const char *name,
            struct wire_key *key)
{
    char text[64 + KVT_NAME_MAX];
    const size_t label = strlen(uses_table[use].label) + 1; /* its NUL ends it */
    const size_t size = label + strlen(name);
    unsigned length = 0;

    *key = (struct wire_key){.size = 0};
    if (!is_name(name))
        return KVT_NOTFOUND;
    if (line->master.size == 0) {
        if (line->owned[use].size == 0 || strcmp(line->name, name) != 0)
            return KVT_NOTFOUND;
        *key = line->owned[use];
        return KVT_OK;
    }
    assert(size < sizeof(text));
    memcpy(text, uses_table[use].label, label);
    memcpy(text + label, name, size - label);
    if (HMAC(EVP_sha256(), line->master.bytes, (int)line->master.size, (const uint8_t *)text, size,
             key->bytes, &length) == NULL)
        return KVT_NOMEM;
    key->size = OWNED_SIZE;
    return KVT_OK;
}

bool
wire_key_ring_has_master(const struct wire_key_ring *ring)
{
    for (size_t i = 0; i < ring->count; i++)
        if (ring->lines[i].master.size > 0)
            return true;
    return false;
}

bool
wire_key_ring_signs(const struct wire_key_ring *ring, enum wire_key_use use, const char *name)
{
    struct wire_key key;
    const bool signs = ring->count > 0 && wire_key_of(&ring->lines[0], use, name, &key) == KVT_OK;

    explicit_bzero(&key, sizeof(key));
    return signs;
}

enum kvt_err
wire_key_line_format(const struct wire_key_line *line, const char *name, char *text, size_t size)
{
    size_t at = sizeof(line_mark) - 1;

    if (!is_name(name))
        return KVT_INVALID;
    if (size < WIRE_KEY_LINE_MAX)
        return KVT_RANGE;
    memcpy(text, line_mark, sizeof(line_mark));
    for (unsigned use = 0; use < WIRE_KEY_USES; use++) {
        char digits[2 * OWNED_SIZE + 1];
        struct wire_key key;
        enum kvt_err rc;

        rc = wire_key_of(line, (enum wire_key_use)use, name, &key);
        if (rc != KVT_OK)
            return rc;
        kvt_hex_format(key.bytes, OWNED_SIZE, digits);
        at += (size_t)snprintf(text + at, size - at, "%s=%s ", uses_table[use].text, digits);
        explicit_bzero(&key, sizeof(key));
        explicit_bzero(digits, sizeof(digits));
        if (at + KVT_NAME_MAX >= size)
            return KVT_RANGE;
    }
    (void)snprintf(text + at, size - at, "%s", name);
    return KVT_OK;
}
