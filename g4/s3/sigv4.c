#include "g4/s3/sigv4.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "g4/object/sha256.h"

#define ALGORITHM       "AWS4-HMAC-SHA256"
#define HASH_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum {
    CANONICAL_MAX = 64 * 1024, /* no peer makes us build more than this */
    CANONICAL_USUAL = 1024,    /* nor copy it while it grows */
    QUERY_PAIRS_MAX = 128,
    SECRET_MAX = 256,
};

static bool
unreserved(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

static void
encode_bytes(struct kvt_buffer *out, const char *text, size_t size, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t from = 0, at = 0; at <= size; at++) {
        const unsigned char c = at < size ? (unsigned char)text[at] : '\0';
        const char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};

        if (at < size && (unreserved(c) || (c == '/' && keep_slash)))
            continue;
        kvt_buffer_append(out, text + from, at - from); /* what stands for itself */
        if (at < size)
            kvt_buffer_append(out, escaped, sizeof(escaped));
        from = at + 1;
    }
}

void
g4_sigv4_encode(struct kvt_buffer *out, const char *text, bool keep_slash)
{
    encode_bytes(out, text, strlen(text), keep_slash);
}

/* Decode a raw query part and append it encoded the one canonical way.  '+' is a space there, as
 * the servers read it; a '%' without two digits stands for itself. */
static void
recode(struct kvt_buffer *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (c == '+') {
            c = ' ';
        } else if (c == '%' && i + 2 < size && kvt_hex_digit(text[i + 1]) >= 0 &&
                   kvt_hex_digit(text[i + 2]) >= 0) {
            c = (char)(kvt_hex_digit(text[i + 1]) * 16 + kvt_hex_digit(text[i + 2]));
            i += 2;
        }
        encode_bytes(out, &c, 1, false);
    }
}

/* A "name=value" in the scratch buffer, both encoded. */
struct pair {
    const char *name;
    const char *value;
};

static int
compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    const int order = strcmp(x->name, y->name);

    return order != 0 ? order : strcmp(x->value, y->value);
}

/* Append name NUL value NUL for each pair of the raw query; returns how many, or -1 on too many. */
static int
split_query(struct kvt_buffer *scratch, const char *query)
{
    int count = 0;

    while (*query != '\0') {
        const size_t size = strcspn(query, "&");
        const char *equals = memchr(query, '=', size);
        const size_t name_size = equals == NULL ? size : (size_t)(equals - query);

        if (size > 0) {
            if (count == QUERY_PAIRS_MAX)
                return -1;
            recode(scratch, query, name_size);
            kvt_buffer_append(scratch, "", 1);
            if (equals != NULL)
                recode(scratch, equals + 1, size - name_size - 1);
            kvt_buffer_append(scratch, "", 1);
            count++;
        }
        query += size;
        if (*query == '&')
            query++;
    }
    return count;
}

static enum kvt_err
append_query(struct kvt_buffer *out, const char *query)
{
    struct pair pairs[QUERY_PAIRS_MAX];
    struct kvt_buffer scratch;
    enum kvt_err rc = KVT_OK;
    const char *at;
    int count;

    kvt_buffer_init(&scratch, CANONICAL_MAX);
    count = split_query(&scratch, query);
    if (count < 0 || !kvt_buffer_ok(&scratch)) {
        rc = count < 0 ? KVT_RANGE : KVT_NOMEM;
        goto done;
    }
    at = (const char *)scratch.data;
    for (int i = 0; i < count; i++) {
        pairs[i].name = at;
        pairs[i].value = at + strlen(at) + 1;
        at = pairs[i].value + strlen(pairs[i].value) + 1;
    }
    qsort(pairs, (size_t)count, sizeof(pairs[0]), compare_pairs);
    for (int i = 0; i < count; i++)
        kvt_buffer_printf(out, "%s%s=%s", i == 0 ? "" : "&", pairs[i].name, pairs[i].value);

done:
    kvt_buffer_release(&scratch);
    return rc;
}

static char
lower(char c)
{
    if (c < 'A' || c > 'Z')
        return c;
    return (char)(c | 0x20); /* ASCII: one bit apart */
}

static int
compare_names(const char *a, const char *b)
{
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return (unsigned char)lower(*a) - (unsigned char)lower(*b);
}

/* Indices of the headers by lower-case name; equal names keep their order (insertion sort). */
static void
sort_headers(const struct g4_sigv4_request *request, size_t order[G4_SIGV4_HEADERS_MAX])
{
    for (size_t i = 0; i < request->header_count; i++) {
        const char *name = request->headers[i].name;
        size_t at = i;

        for (; at > 0 && compare_names(request->headers[order[at - 1]].name, name) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void
append_name(struct kvt_buffer *out, const char *name)
{
    const size_t size = strlen(name);
    uint8_t *at = kvt_buffer_reserve(out, size);

    for (size_t i = 0; at != NULL && i < size; i++)
        at[i] = (uint8_t)lower(name[i]);
    out->size += at == NULL ? 0 : size;
}

/* Without spaces at the ends, and one where there were several. */
static void
append_value(struct kvt_buffer *out, const char *value)
{
    static const char blanks[] = " \t";

    value += strspn(value, blanks);
    while (*value != '\0') {
        const size_t word = strcspn(value, blanks);

        kvt_buffer_append(out, value, word);
        value += word;
        value += strspn(value, blanks);
        if (*value != '\0')
            kvt_buffer_append(out, " ", 1);
    }
}

static void
append_headers(struct kvt_buffer *out, const struct g4_sigv4_request *request, const size_t *order)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct g4_sigv4_header *header = &request->headers[order[i]];

        if (i > 0 && compare_names(request->headers[order[i - 1]].name, header->name) == 0) {
            kvt_buffer_append(out, ",", 1);
        } else {
            if (i > 0)
                kvt_buffer_append(out, "\n", 1);
            append_name(out, header->name);
            kvt_buffer_append(out, ":", 1);
        }
        append_value(out, header->value);
    }
    kvt_buffer_append(out, "\n", 1);
}

static void
append_signed_names(struct kvt_buffer *out, const struct g4_sigv4_request *request,
                    const size_t *order)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const char *name = request->headers[order[i]].name;

        if (i > 0 && compare_names(request->headers[order[i - 1]].name, name) == 0)
            continue;
        if (i > 0)
            kvt_buffer_append(out, ";", 1);
        append_name(out, name);
    }
}

/* Hex hash of the canonical request. */
static enum kvt_err
hash_canonical(const struct g4_sigv4_request *request, char hex[G4_SIGV4_SIGNATURE_MAX])
{
    size_t order[G4_SIGV4_HEADERS_MAX];
    struct kvt_buffer text;
    enum kvt_err rc;

    sort_headers(request, order);
    kvt_buffer_init(&text, CANONICAL_MAX);
    (void)kvt_buffer_reserve(&text, CANONICAL_USUAL);
    kvt_buffer_printf(&text, "%s\n", request->method);
    g4_sigv4_encode(&text, request->path, true);
    kvt_buffer_append(&text, "\n", 1);
    rc = append_query(&text, request->query);
    if (rc != KVT_OK)
        goto done;
    kvt_buffer_append(&text, "\n", 1);
    append_headers(&text, request, order);
    kvt_buffer_append(&text, "\n", 1);
    append_signed_names(&text, request, order);
    kvt_buffer_printf(&text, "\n%s", request->payload_hash);
    if (!kvt_buffer_ok(&text)) {
        rc = KVT_NOMEM;
        goto done;
    }
    g4_sha256_hex(text.data, text.size, hex);

done:
    kvt_buffer_release(&text);
    return rc;
}

/* SHA-256 of two texts behind each other.  One context serves a whole signature: to look the
 * algorithm up for each of its dozen hashes takes longer than to compute them. */
static bool
hash_both(EVP_MD_CTX *sha, const void *first, size_t first_size, const void *second,
          size_t second_size, uint8_t out[SHA256_DIGEST_LENGTH])
{
    return EVP_DigestInit_ex(sha, NULL, NULL) == 1 &&
           EVP_DigestUpdate(sha, first, first_size) == 1 &&
           EVP_DigestUpdate(sha, second, second_size) == 1 &&
           EVP_DigestFinal_ex(sha, out, NULL) == 1;
}

/* HMAC-SHA256 (RFC 2104). */
static bool
mac(EVP_MD_CTX *sha, const void *key, size_t key_size, const char *text,
    uint8_t out[SHA256_DIGEST_LENGTH])
{
    uint8_t inner[SHA256_CBLOCK] = {0};
    uint8_t outer[SHA256_CBLOCK];
    uint8_t digest[SHA256_DIGEST_LENGTH];
    bool ok = true;

    if (key_size > sizeof(inner))
        ok = hash_both(sha, key, key_size, NULL, 0, inner);
    else
        memcpy(inner, key, key_size);
    for (size_t i = 0; i < sizeof(inner); i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    ok = ok && hash_both(sha, inner, sizeof(inner), text, strlen(text), digest) &&
         hash_both(sha, outer, sizeof(outer), digest, sizeof(digest), out);
    explicit_bzero(inner, sizeof(inner));
    explicit_bzero(outer, sizeof(outer));
    return ok;
}

/* A context for SHA-256, or NULL. */
static EVP_MD_CTX *
new_sha(void)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    if (sha != NULL && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(sha);
        sha = NULL;
    }
    return sha;
}

/* The chain date, region, service, "aws4_request", begun with "AWS4" and the secret. */
static bool
signing_key(EVP_MD_CTX *sha, const char *secret_key, const char *date, const char *region,
            const char *service, uint8_t key[G4_SIGV4_KEY_BYTES])
{
    char start[4 + SECRET_MAX];
    uint8_t next[SHA256_DIGEST_LENGTH];
    char day[9];
    bool ok;

    (void)snprintf(start, sizeof(start), "AWS4%s", secret_key);
    (void)snprintf(day, sizeof(day), "%.8s", date);
    ok = mac(sha, start, strlen(start), day, key) &&
         mac(sha, key, SHA256_DIGEST_LENGTH, region, next) &&
         mac(sha, next, sizeof(next), service, key) &&
         mac(sha, key, SHA256_DIGEST_LENGTH, "aws4_request", next);
    if (ok)
        memcpy(key, next, sizeof(next));
    explicit_bzero(start, sizeof(start));
    explicit_bzero(next, sizeof(next));
    return ok;
}

/* Every byte may become three: what passes here fits the canonical text. */
static bool
request_fits(const struct g4_sigv4_request *request)
{
    size_t size = strlen(request->path) + strlen(request->query);

    for (size_t i = 0; i < request->header_count; i++)
        size += 2 * strlen(request->headers[i].name) + strlen(request->headers[i].value) + 2;
    return size < CANONICAL_MAX / 4;
}

static bool
request_valid(const struct g4_sigv4_request *request, const char *secret_key)
{
    return request->header_count > 0 && request->header_count <= G4_SIGV4_HEADERS_MAX &&
           request->path[0] == '/' && strlen(request->date) == G4_SIGV4_DATE_MAX - 1 &&
           strlen(secret_key) < SECRET_MAX && strlen(request->region) < 64 &&
           strlen(request->service) < 16;
}

enum kvt_err
g4_sigv4_sign(const struct g4_sigv4_request *request, const char *secret_key,
              char signature[G4_SIGV4_SIGNATURE_MAX])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    uint8_t key[SHA256_DIGEST_LENGTH];
    char canonical[G4_SIGV4_SIGNATURE_MAX];
    EVP_MD_CTX *sha = NULL;
    struct kvt_buffer text;
    enum kvt_err rc;

    signature[0] = '\0';
    if (!request_valid(request, secret_key))
        return KVT_INVALID;
    if (!request_fits(request))
        return KVT_RANGE;
    rc = hash_canonical(request, canonical);
    if (rc != KVT_OK)
        return rc;

    kvt_buffer_init(&text, CANONICAL_MAX);
    kvt_buffer_printf(&text, ALGORITHM "\n%s\n%.8s/%s/%s/aws4_request\n%s", request->date,
                      request->date, request->region, request->service, canonical);
    (void)kvt_buffer_text(&text);
    rc = KVT_NOMEM;
    sha = new_sha();
    if (kvt_buffer_ok(&text) && sha != NULL &&
        signing_key(sha, secret_key, request->date, request->region, request->service, key) &&
        mac(sha, key, sizeof(key), kvt_buffer_text(&text), digest)) {
        kvt_hex_format(digest, sizeof(digest), signature);
        rc = KVT_OK;
    }
    explicit_bzero(key, sizeof(key));
    EVP_MD_CTX_free(sha);
    kvt_buffer_release(&text);
    return rc;
}

enum kvt_err
g4_sigv4_authorization(const struct g4_sigv4_request *request, const char *access_key,
                       const char *secret_key, struct kvt_buffer *out)
{
    char signature[G4_SIGV4_SIGNATURE_MAX];
    size_t order[G4_SIGV4_HEADERS_MAX];
    enum kvt_err rc;

    rc = g4_sigv4_sign(request, secret_key, signature);
    if (rc != KVT_OK)
        return rc;
    sort_headers(request, order);
    kvt_buffer_printf(out, ALGORITHM " Credential=%s/%.8s/%s/%s/aws4_request, SignedHeaders=",
                      access_key, request->date, request->region, request->service);
    append_signed_names(out, request, order);
    kvt_buffer_printf(out, ", Signature=%s", signature);
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

enum kvt_err
g4_sigv4_signer_init(struct g4_sigv4_signer *signer, const char *secret_key, const char *date,
                     const char *region, const char *service)
{
    EVP_MD_CTX *sha;
    bool ok;
    int size;

    *signer = (struct g4_sigv4_signer){.date = ""};
    if (strlen(date) != G4_SIGV4_DATE_MAX - 1 || strlen(secret_key) >= SECRET_MAX)
        return KVT_INVALID;
    size = snprintf(signer->scope, sizeof(signer->scope), "%.8s/%s/%s/aws4_request", date, region,
                    service);
    if (size < 0 || (size_t)size >= sizeof(signer->scope))
        return KVT_INVALID;
    memcpy(signer->date, date, G4_SIGV4_DATE_MAX);
    sha = new_sha();
    ok = sha != NULL && signing_key(sha, secret_key, date, region, service, signer->key);
    EVP_MD_CTX_free(sha);
    return ok ? KVT_OK : KVT_NOMEM;
}

static void
sign_piece(const struct g4_sigv4_signer *signer, const char *kind, const char *previous,
           const char *hashes, char signature[G4_SIGV4_SIGNATURE_MAX])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    unsigned digest_size = sizeof(digest);
    char text[512];
    const int size = snprintf(text, sizeof(text), ALGORITHM "-%s\n%s\n%s\n%s\n%s", kind,
                              signer->date, signer->scope, previous, hashes);

    assert(size > 0 && (size_t)size < sizeof(text));
    (void)HMAC(EVP_sha256(), signer->key, sizeof(signer->key), (const unsigned char *)text,
               (size_t)size, digest, &digest_size);
    kvt_hex_format(digest, sizeof(digest), signature);
}

void
g4_sigv4_sign_chunk(const struct g4_sigv4_signer *signer, const char *previous, const char *hash,
                    char signature[G4_SIGV4_SIGNATURE_MAX])
{
    char hashes[2 * G4_SIGV4_SIGNATURE_MAX];

    /* The first one is of the chunk's headers, of which there are none. */
    (void)snprintf(hashes, sizeof(hashes), HASH_OF_NOTHING "\n%.64s", hash);
    sign_piece(signer, "PAYLOAD", previous, hashes, signature);
}

void
g4_sigv4_sign_trailer(const struct g4_sigv4_signer *signer, const char *previous, const char *hash,
                      char signature[G4_SIGV4_SIGNATURE_MAX])
{
    sign_piece(signer, "TRAILER", previous, hash, signature);
}

/* Copy `size` bytes as text; false when they do not fit or there are none. */
static bool
take(char *out, size_t room, const char *text, size_t size)
{
    if (size == 0 || size >= room)
        return false;
    memcpy(out, text, size);
    out[size] = '\0';
    return true;
}

/* "<access key>/<date>/<region>/<service>/aws4_request"; the key itself may hold slashes. */
static bool
parse_credential(const char *text, size_t size, struct g4_sigv4_claim *claim)
{
    const char *slashes[4];
    const char *end = text + size;
    const char *at = end;

    for (int i = 3; i >= 0; i--) {
        const char *slash = memrchr(text, '/', (size_t)(at - text));

        if (slash == NULL)
            return false;
        slashes[i] = slash;
        at = slash;
    }
    return end - slashes[3] == 13 && memcmp(slashes[3], "/aws4_request", 13) == 0 &&
           slashes[1] - slashes[0] == 9 &&
           take(claim->access_key, sizeof(claim->access_key), text, (size_t)(slashes[0] - text)) &&
           take(claim->date, sizeof(claim->date), slashes[0] + 1, 8) &&
           take(claim->region, sizeof(claim->region), slashes[1] + 1,
                (size_t)(slashes[2] - slashes[1] - 1)) &&
           take(claim->service, sizeof(claim->service), slashes[2] + 1,
                (size_t)(slashes[3] - slashes[2] - 1));
}

static bool
parse_signature(const char *text, size_t size, struct g4_sigv4_claim *claim)
{
    if (size != G4_SIGV4_SIGNATURE_MAX - 1)
        return false;
    for (size_t i = 0; i < size; i++)
        if (kvt_hex_digit(text[i]) < 0 || (text[i] >= 'A' && text[i] <= 'F'))
            return false;
    return take(claim->signature, sizeof(claim->signature), text, size);
}

static bool
parse_field(const char *text, size_t size, struct g4_sigv4_claim *claim)
{
    const char *equals = memchr(text, '=', size);
    const size_t name_size = equals == NULL ? 0 : (size_t)(equals - text);
    const char *value;
    size_t value_size;

    if (equals == NULL)
        return false;
    value = equals + 1;
    value_size = size - name_size - 1;
    if (name_size == 10 && memcmp(text, "Credential", 10) == 0)
        return parse_credential(value, value_size, claim);
    if (name_size == 13 && memcmp(text, "SignedHeaders", 13) == 0)
        return take(claim->signed_headers, sizeof(claim->signed_headers), value, value_size);
    if (name_size == 9 && memcmp(text, "Signature", 9) == 0)
        return parse_signature(value, value_size, claim);
    return false;
}

enum kvt_err
g4_sigv4_parse(const char *authorization, struct g4_sigv4_claim *claim, struct kvt_error *err)
{
    const size_t prefix = sizeof(ALGORITHM) - 1;
    const char *at = authorization;

    memset(claim, 0, sizeof(*claim));
    if (strncmp(at, ALGORITHM, prefix) != 0 || at[prefix] != ' ')
        return kvt_error_set(err, KVT_INVALID, "authorization is not %s", ALGORITHM);
    for (at += prefix; *at != '\0';) {
        size_t size;

        at += strspn(at, " ,");
        size = strcspn(at, " ,");
        if (size > 0 && !parse_field(at, size, claim)) {
            const int shown = size < 40 ? (int)size : 40;
            const enum kvt_err rc =
                kvt_error_set(err, KVT_INVALID, "authorization: malformed \"%.*s\"", shown, at);

            memset(claim, 0, sizeof(*claim));
            return rc;
        }
        at += size;
    }
    if (claim->access_key[0] == '\0' || claim->signature[0] == '\0' ||
        claim->signed_headers[0] == '\0') {
        memset(claim, 0, sizeof(*claim));
        return kvt_error_set(err, KVT_INVALID,
                             "authorization needs Credential, SignedHeaders and Signature");
    }
    return KVT_OK;
}
