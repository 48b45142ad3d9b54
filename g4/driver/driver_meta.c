#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/text/hex.h"
#include "g4/driver/driver_store_internal.h"
#include "g4/object/check.h"
#include "g4/s3/sigv4.h"

/* Attributes that are no x-amz-meta-*, or whose value the old signature might get wrong, travel as
 * such: percent-encoded, behind a sign that keeps them from being empty. */
#define META_PREFIX  "x-amz-meta-"
#define CODED_PREFIX "kvt-h-"
#define CODED_SIGN   "="

/* ---- from an answer ---- */

static bool
hex_of(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 16);
    return end != text && *end == '\0';
}

/* A pair of our own; false: of somebody else. */
static bool
take_own(struct g4_request *request, struct g4_foreign_said *said, const char *name,
         const char *value)
{
    struct g4_meta *meta = &request->meta;
    struct kvt_key parsed;
    uint64_t number = 0;
    char *end;

    if (strcasecmp(name, "kvt-length") == 0) {
        meta->length = strtoull(value, &end, 10);
        said->length_known = end != value && *end == '\0';
    } else if (strcasecmp(name, "kvt-crc32c") == 0) {
        said->crc_known = hex_of(value, &number) && number <= UINT32_MAX;
        meta->crc32c = (uint32_t)number;
    } else if (strcasecmp(name, "kvt-fingerprint") == 0) {
        meta->fingerprint = hex_of(value, &number) ? number : 0;
    } else if (strcasecmp(name, "kvt-key") == 0) {
        const char *key = request->key;

        said->other_key = kvt_key_parse(key, &parsed) == KVT_OK &&
                          (!hex_of(value, &number) || number != g4_check_crc32c(key, strlen(key)));
    } else if (strcasecmp(name, "kvt-writer") == 0) {
        if (g4_attribute_plain("", 0, value, strlen(value)))
            (void)snprintf(meta->writer, sizeof(meta->writer), "%s", value);
    } else if (strcasecmp(name, "kvt-nonce") == 0) {
        (void)snprintf(said->nonce, sizeof(said->nonce), "%s", value);
    } else {
        return false;
    }
    return true;
}

/* What g4_sigv4_encode() made, in place. */
static void
decode(char *text)
{
    char *out = text;

    for (const char *at = text; *at != '\0'; at++) {
        const int high = at[0] == '%' ? kvt_hex_digit(at[1]) : -1;
        const int low = high >= 0 ? kvt_hex_digit(at[2]) : -1;
        const int byte = low >= 0 ? high * 16 + low : -1;
        const bool plain = byte >= 0x20 && byte != 0x7f; /* no end of a line */

        *out++ = plain ? (char)byte : *at;
        at += plain ? 2 : 0;
    }
    *out = '\0';
}

/* As an attribute, its name in lower case; what does not fit is left out. */
static void
take_attribute(struct g4_request *request, const char *name, const char *value)
{
    const size_t used = strlen(request->attributes);
    const bool coded = strncasecmp(name, CODED_PREFIX, strlen(CODED_PREFIX)) == 0 &&
                       strncmp(value, CODED_SIGN, strlen(CODED_SIGN)) == 0;
    const size_t room = G4_ATTRIBUTES_MAX - used;
    char *out = request->attributes + used;
    int size;

    if (!g4_attribute_plain(name, strlen(name), value, strlen(value)))
        return;
    if (coded)
        size =
            snprintf(out, room, "%s: %s", name + strlen(CODED_PREFIX), value + strlen(CODED_SIGN));
    else
        size = snprintf(out, room, "%s%s: %s", META_PREFIX, name, value);
    if (size < 0 || (size_t)size + 1 >= room) {
        *out = '\0';
        return;
    }
    for (char *at = out; *at != ':'; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    if (coded)
        decode(strchr(out, ':'));
    memcpy(out + strlen(out), "\n", 2);
}

void
g4_driver_meta_take(struct g4_request *request, const struct g4_foreign_meta *meta, size_t count,
                    struct g4_foreign_said *said)
{
    *said = (struct g4_foreign_said){.other_key = false};
    for (size_t i = 0; i < count; i++)
        if (!take_own(request, said, meta[i].name, meta[i].value) && request->attributes != NULL &&
            i < G4_ATTRIBUTE_LINES)
            take_attribute(request, meta[i].name, meta[i].value);
    request->meta.present = said->length_known && said->crc_known;
}

/* ---- for a PUT ---- */

static bool
add(struct g4_driver_meta_pairs *pairs, const char *name, const char *value)
{
    if (pairs->count == G4_FOREIGN_META_MAX)
        return false;
    pairs->meta[pairs->count++] = (struct g4_foreign_meta){name, value};
    return true;
}

/* Does it travel as it is? */
static bool
is_simple(const char *name, const char *value)
{
    bool simple = strncmp(name, META_PREFIX, strlen(META_PREFIX)) == 0 && value[0] != '\0';

    for (; simple && *value != '\0'; value++)
        simple = (unsigned char)*value > 0x20 && (unsigned char)*value < 0x7f;
    return simple;
}

static bool
add_attributes(struct g4_driver_meta_pairs *pairs, const char *text)
{
    char *at = pairs->attributes;
    bool fits = true;

    memcpy(at, text, strlen(text) + 1);
    while (*at != '\0' && fits && pairs->count < G4_FOREIGN_META_MAX) {
        struct kvt_buffer *coded = &pairs->coded[pairs->count];
        char *name = pairs->names[pairs->count];
        char *value = at + strcspn(at, ":");
        char *end = value + strcspn(value, "\n");

        *value = *end = '\0';
        value += 2;
        if (is_simple(at, value)) {
            fits = add(pairs, at + strlen(META_PREFIX), value);
        } else {
            kvt_buffer_printf(coded, CODED_SIGN);
            g4_sigv4_encode(coded, value, false);
            fits = snprintf(name, sizeof(pairs->names[0]), CODED_PREFIX "%s", at) <
                       (int)sizeof(pairs->names[0]) &&
                   add(pairs, name, kvt_buffer_text(coded)) && kvt_buffer_ok(coded);
        }
        at = end + 1;
    }
    return fits && *at == '\0';
}

/* All that stands beside the object, and what tells this PUT from all others. */
static bool
fill(struct g4_driver_meta_pairs *pairs, const struct g4_request *request)
{
    const struct g4_meta *meta = &request->meta;
    uint64_t nonce;

    if (request->attributes != NULL && !add_attributes(pairs, request->attributes))
        return false;
    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(pairs->nonce, sizeof(pairs->nonce), "%016" PRIx64, nonce);
    if (!add(pairs, "kvt-nonce", pairs->nonce))
        return false;
    if (!meta->present)
        return true;
    memcpy(pairs->writer, meta->writer, sizeof(pairs->writer));
    (void)snprintf(pairs->length, sizeof(pairs->length), "%" PRIu64, meta->length);
    (void)snprintf(pairs->crc, sizeof(pairs->crc), "%08" PRIx32, meta->crc32c);
    (void)snprintf(pairs->fingerprint, sizeof(pairs->fingerprint), "%016" PRIx64,
                   meta->fingerprint);
    (void)snprintf(pairs->key, sizeof(pairs->key), "%08" PRIx32,
                   g4_check_crc32c(request->key, strlen(request->key)));
    return add(pairs, "kvt-length", pairs->length) && add(pairs, "kvt-crc32c", pairs->crc) &&
           add(pairs, "kvt-fingerprint", pairs->fingerprint) &&
           (meta->writer[0] == '\0' || add(pairs, "kvt-writer", pairs->writer)) &&
           (request->attributes != NULL || add(pairs, "kvt-key", pairs->key));
}

enum kvt_err
g4_driver_meta_make(struct g4_driver_meta_pairs **out, const struct g4_request *request)
{
    struct g4_driver_meta_pairs *pairs = kvt_calloc(1, sizeof(*pairs));

    *out = NULL;
    if (pairs == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < G4_FOREIGN_META_MAX; i++)
        kvt_buffer_init(&pairs->coded[i], 3 * G4_ATTRIBUTES_MAX);
    if (!fill(pairs, request)) {
        g4_driver_meta_free(pairs);
        return KVT_INVALID;
    }
    *out = pairs;
    return KVT_OK;
}

void
g4_driver_meta_free(struct g4_driver_meta_pairs *pairs)
{
    if (pairs == NULL)
        return;
    for (size_t i = 0; i < G4_FOREIGN_META_MAX; i++)
        kvt_buffer_release(&pairs->coded[i]);
    kvt_free(pairs);
}
