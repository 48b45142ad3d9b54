#include "gateway/s3/object_listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/text/hex.h"
#include "gateway/http/auth.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/key_cursor.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/object_key.h"

enum {
    ROWS_MAX = 1000,
    KIND_MAX = 32,
    TOKEN_MAX = G4_CLIENT_KEY_MAX + KIND_MAX + GATEWAY_KEY_CURSOR_WAYS * GATEWAY_KEY_CURSOR_WAY,
    HEX_MAX = 2 * TOKEN_MAX + 1
};

static const char *const known_arguments[] = {
    "list-type",   "prefix",      "delimiter",          "max-keys", "encoding-type",
    "start-after", "fetch-owner", "continuation-token", "marker"};
static const char *const known_of_versions[] = {"versions",      "prefix",     "delimiter",
                                                "max-keys",      "key-marker", "version-id-marker",
                                                "encoding-type", "list-type"};

/* One listing while it is being made. */
struct listing {
    struct gateway_s3 *s3;
    const struct gateway_client_bucket *bucket;
    bool versions; /* ListObjectVersions: each object is the only one of its key */
    bool v2;
    bool encode; /* encoding-type=url */
    char prefix[G4_CLIENT_KEY_MAX];
    char delimiter[G4_CLIENT_KEY_MAX];
    char after[G4_CLIENT_KEY_MAX];                              /* keys up to here are done with */
    char ways[GATEWAY_KEY_CURSOR_WAYS][GATEWAY_KEY_CURSOR_WAY]; /* how the cursor goes on */
    const char *kind;              /* of store: a token of one is a key of another */
    char start[G4_CLIENT_KEY_MAX]; /* start-after or marker, as asked */
    char given_token[HEX_MAX];     /* continuation-token, as asked */
    bool has_token;
    bool owner;                   /* fetch-owner, and always in version 1 */
    char fold[G4_CLIENT_KEY_MAX]; /* the common prefix given last */
    size_t max_keys;
    size_t given;
    bool truncated;
    struct kvt_buffer contents;
    struct kvt_buffer folded;
};

static void
append_text(const struct listing *listing, struct kvt_buffer *out, const char *text)
{
    if (listing->encode)
        g4_sigv4_encode(out, text, true);
    else
        gateway_xml_write_text(out, text);
}

static void
append_element(const struct listing *listing, struct kvt_buffer *out, const char *name,
               const char *text)
{
    gateway_xml_write_open(out, name);
    append_text(listing, out, text);
    gateway_xml_write_close(out, name);
}

/* A continuation token is how far we were, and then, each behind a NUL, the kind of the store and
 * the ways of the cursor: MinIO lists a folder from its beginning for a request that only names a
 * key.  In hex: opaque to clients, and good on any gateway. */
static bool
read_token(struct listing *listing, const char *hex)
{
    const size_t size = strlen(hex) / 2;
    char token[TOKEN_MAX + 1];
    const char *at = token;
    bool same;

    if (strlen(hex) % 2 != 0 || size >= TOKEN_MAX || !kvt_hex_parse(hex, size, token))
        return false;
    token[size] = '\0';
    if (strlen(token) >= sizeof(listing->after))
        return false;
    memcpy(listing->after, token, strlen(token) + 1);
    at += strlen(at) + 1;
    if (at > token + size)
        return true;
    same = strcmp(at, listing->kind) == 0;
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        at += strlen(at) + 1;
        if (at > token + size || strlen(at) >= sizeof(listing->ways[i]))
            return false;
        if (same)
            memcpy(listing->ways[i], at, strlen(at) + 1);
    }
    return at + strlen(at) == token + size;
}

static void
append_token(const struct listing *listing, struct kvt_buffer *out)
{
    const char *texts[2 + GATEWAY_KEY_CURSOR_WAYS] = {listing->after, listing->kind};
    char token[TOKEN_MAX];
    char hex[HEX_MAX];
    size_t size = 0;

    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++)
        texts[2 + i] = listing->ways[i];
    for (unsigned i = 0; i < 2 + GATEWAY_KEY_CURSOR_WAYS; i++) {
        memcpy(token + size, texts[i], strlen(texts[i]) + 1);
        size += strlen(texts[i]) + 1;
    }
    kvt_hex_format(token, size - 1, hex);
    gateway_xml_write_element(out, "NextContinuationToken", hex);
}

static enum gateway_s3_error
read_arguments(struct listing *listing, const struct gateway_request *request)
{
    const struct gateway_target *target = &request->target;
    uint64_t wanted = ROWS_MAX;
    char text[HEX_MAX];
    enum kvt_err rc;

    listing->versions =
        gateway_target_query(target, "versions", text, sizeof(text)) != KVT_NOTFOUND;
    if (listing->versions
            ? gateway_s3_strange(request, known_of_versions,
                                 sizeof(known_of_versions) / sizeof(known_of_versions[0]))
            : gateway_s3_strange(request, known_arguments,
                                 sizeof(known_arguments) / sizeof(known_arguments[0])))
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    listing->v2 = !listing->versions &&
                  gateway_target_query(target, "list-type", text, sizeof(text)) == KVT_OK &&
                  strcmp(text, "2") == 0;
    listing->encode = gateway_target_query(target, "encoding-type", text, sizeof(text)) == KVT_OK;
    if (listing->encode && strcmp(text, "url") != 0)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    rc = gateway_target_query(target, "prefix", listing->prefix, sizeof(listing->prefix));
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = gateway_target_query(target, "delimiter", listing->delimiter,
                                  sizeof(listing->delimiter));
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = gateway_target_query(target,
                                  listing->v2         ? "start-after"
                                  : listing->versions ? "key-marker"
                                                      : "marker",
                                  listing->start, sizeof(listing->start));
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    memcpy(listing->after, listing->start, sizeof(listing->after));
    listing->owner = !listing->v2 ||
                     (gateway_target_query(target, "fetch-owner", text, sizeof(text)) == KVT_OK &&
                      strcmp(text, "true") == 0);
    rc = gateway_target_query(target, "continuation-token", listing->given_token,
                              sizeof(listing->given_token));
    listing->has_token = listing->v2 && rc != KVT_NOTFOUND;
    if (listing->has_token && (rc != KVT_OK || (listing->given_token[0] != '\0' &&
                                                !read_token(listing, listing->given_token))))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (!gateway_target_number(target, "max-keys", &wanted))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    listing->max_keys = wanted < ROWS_MAX ? (size_t)wanted : ROWS_MAX;
    return GATEWAY_S3_ERROR_NONE;
}

/* The common prefix this key folds into, or false. */
static bool
fold_of(const struct listing *listing, const char *key, char fold[G4_CLIENT_KEY_MAX])
{
    const char *rest = key + strlen(listing->prefix);
    const char *cut = listing->delimiter[0] == '\0' ? NULL : strstr(rest, listing->delimiter);

    if (cut == NULL)
        return false;
    (void)snprintf(fold, G4_CLIENT_KEY_MAX, "%.*s",
                   (int)(cut - key + (ptrdiff_t)strlen(listing->delimiter)), key);
    return true;
}

/* Is this a common prefix itself? */
static bool
fold_ends(const struct listing *listing, const char *text)
{
    char fold[G4_CLIENT_KEY_MAX];

    return strncmp(text, listing->prefix, strlen(listing->prefix)) == 0 &&
           fold_of(listing, text, fold) && strcmp(fold, text) == 0;
}

/* The ETag a HEAD would show: the catalog knows where it is not the store's. */
static const char *
shown_etag(const struct listing *listing, const struct g4_listed *object,
           struct gateway_record *record)
{
    if (!gateway_object_key_is_block(object->key, NULL) &&
        gateway_catalog_get(listing->s3->context->catalog, object->key, record) == KVT_OK &&
        record->shown[0] != '\0' && strcmp(record->etag, object->etag) == 0)
        return record->shown;
    return object->etag;
}

static void
give_object(struct listing *listing, const char *key, const struct g4_listed *object)
{
    const char *row = listing->versions ? "Version" : "Contents";
    struct kvt_buffer *out = &listing->contents;
    struct gateway_record record;

    gateway_xml_write_open(out, row);
    append_element(listing, out, "Key", key);
    if (listing->versions)
        kvt_buffer_puts(out, "<VersionId>null</VersionId><IsLatest>true</IsLatest>");
    gateway_xml_write_time(out, "LastModified", object->modified_ms);
    kvt_buffer_puts(out, "<ETag>&quot;");
    gateway_xml_write_text(out, shown_etag(listing, object, &record));
    kvt_buffer_printf(out, "&quot;</ETag><Size>%" PRIu64 "</Size>", object->size);
    if (listing->owner)
        gateway_xml_write_owner(out, "Owner", listing->bucket->owner);
    kvt_buffer_puts(out, "<StorageClass>STANDARD</StorageClass>");
    gateway_xml_write_close(out, row);
}

/* All keys up to here are done with, given or not. */
static void
pass_over(struct listing *listing, const char *key)
{
    if (strcmp(key, listing->after) > 0)
        (void)snprintf(listing->after, sizeof(listing->after), "%s", key);
}

/* False when the answer is full. */
static bool
give(struct listing *listing, struct gateway_key_cursor *cursor, const char *key,
     const struct g4_listed *object)
{
    char fold[G4_CLIENT_KEY_MAX];
    const bool folds = fold_of(listing, key, fold);

    /* A prefix that was given as marker covers all its keys. */
    if (folds && strcmp(fold, listing->after) <= 0) {
        gateway_key_cursor_skip(cursor, fold);
        return true;
    }
    /* Tombstones of quarantined blocks: not there for anybody. */
    if (!folds && object->size == 0 && gateway_object_key_is_block(object->key, NULL))
        return true;
    if (listing->given == listing->max_keys)
        return false;
    listing->given++;
    if (folds) {
        gateway_xml_write_open(&listing->folded, "CommonPrefixes");
        append_element(listing, &listing->folded, "Prefix", fold);
        gateway_xml_write_close(&listing->folded, "CommonPrefixes");
        memcpy(listing->after, fold, sizeof(fold));
        gateway_key_cursor_skip(cursor, fold);
    } else {
        give_object(listing, key, object);
        pass_over(listing, key);
    }
    return true;
}

/* The answer is full, and nothing of what follows can be part of what was given. */
static bool
is_full(const struct listing *listing)
{
    return listing->given == listing->max_keys && listing->delimiter[0] == '\0';
}

static enum kvt_err
walk(struct listing *listing, struct gateway_key_cursor *cursor)
{
    const struct g4_listed *object;
    const char *key;
    enum kvt_err rc;

    while (!listing->truncated) {
        rc = gateway_key_cursor_peek(cursor, &key, &object);
        if (rc == KVT_NOTFOUND)
            return KVT_OK;
        if (rc == KVT_AGAIN) {
            /* Perhaps none of these keys was given: the next request must not see them again. */
            pass_over(listing, gateway_key_cursor_reached(cursor));
            listing->truncated = true;
        } else if (rc != KVT_OK) {
            return rc;
        } else if (give(listing, cursor, key, object)) {
            gateway_key_cursor_pass(cursor);
            listing->truncated = is_full(listing) && gateway_key_cursor_more(cursor);
            if (is_full(listing))
                break;
        } else {
            listing->truncated = true;
        }
    }
    if (listing->has_token && is_full(listing) && listing->max_keys == ROWS_MAX)
        gateway_key_cursor_look_ahead(cursor);
    return KVT_OK;
}

static enum kvt_err
collect(struct listing *listing)
{
    struct gateway_key_cursor_start start = {
        .bucket = listing->bucket->id,
        .prefix = listing->prefix,
        .after = listing->after,
        .beyond = listing->delimiter[0] != '\0' && fold_ends(listing, listing->after),
        /* No more than is asked for, so that the next request begins with a page of the store. */
        .wanted = listing->delimiter[0] == '\0' ? listing->max_keys : 0,
        .most = listing->max_keys + 1,
        .prefetch = listing->has_token ? listing->s3->prefetch : NULL};
    struct gateway_key_cursor *cursor;
    enum kvt_err rc;

    if (listing->max_keys == 0)
        return KVT_OK;
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++)
        start.ways[i] = listing->ways[i];
    rc = gateway_key_cursor_new(
        &cursor, gateway_bucket_tier_store(listing->s3->context->tiers.buckets), &start);
    if (rc != KVT_OK)
        return rc;
    rc = walk(listing, cursor);
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++)
        gateway_key_cursor_way(cursor, i, listing->ways[i]);
    gateway_key_cursor_free(cursor);
    return rc;
}

static enum gateway_s3_error
write_answer(const struct listing *listing, struct gateway_request *request)
{
    const char *root = listing->versions ? "ListVersionsResult" : "ListBucketResult";
    struct kvt_buffer *out = &request->answer;

    gateway_xml_write_begin(out, root);
    append_element(listing, out, "Name", listing->bucket->name);
    append_element(listing, out, "Prefix", listing->prefix);
    if (listing->delimiter[0] != '\0')
        append_element(listing, out, "Delimiter", listing->delimiter);
    if (listing->versions)
        append_element(listing, out, "KeyMarker", listing->start);
    else if (!listing->v2 || listing->start[0] != '\0')
        append_element(listing, out, listing->v2 ? "StartAfter" : "Marker", listing->start);
    if (listing->has_token)
        kvt_buffer_printf(out, "<ContinuationToken>%s</ContinuationToken>", listing->given_token);
    if (listing->encode)
        kvt_buffer_printf(out, "<EncodingType>url</EncodingType>");
    if (listing->v2)
        kvt_buffer_printf(out, "<KeyCount>%zu</KeyCount>", listing->given);
    kvt_buffer_printf(out, "<MaxKeys>%zu</MaxKeys><IsTruncated>%s</IsTruncated>", listing->max_keys,
                      listing->truncated ? "true" : "false");
    if (listing->truncated && listing->v2)
        append_token(listing, out);
    else if (listing->truncated)
        append_element(listing, out, listing->versions ? "NextKeyMarker" : "NextMarker",
                       listing->after);
    if (listing->truncated && listing->versions)
        kvt_buffer_printf(out, "<NextVersionIdMarker>null</NextVersionIdMarker>");
    kvt_buffer_append(out, listing->contents.data, listing->contents.size);
    kvt_buffer_append(out, listing->folded.data, listing->folded.size);
    gateway_xml_write_end(out, root);
    return gateway_request_answer(request, "application/xml");
}

void
gateway_object_listing_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct listing *listing = kvt_calloc(1, sizeof(*listing));
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    enum kvt_err rc;

    gateway_stats_add(s3->context->stats, GATEWAY_STAT_LIST, 1);
    if (listing != NULL) {
        listing->s3 = s3;
        listing->kind = g4_store_name(gateway_bucket_tier_store(s3->context->tiers.buckets));
        listing->bucket = &request->bucket;
        kvt_buffer_init(&listing->contents, 8u << 20);
        kvt_buffer_init(&listing->folded, 8u << 20);
        fault = read_arguments(listing, request);
        if (fault == GATEWAY_S3_ERROR_NONE &&
            !gateway_auth_may(request->principal, GATEWAY_LIST, &request->bucket, listing->prefix))
            fault = GATEWAY_S3_ERROR_FORBIDDEN;
    }
    if (fault == GATEWAY_S3_ERROR_NONE) {
        rc = collect(listing);
        if (rc == KVT_OK &&
            (!kvt_buffer_ok(&listing->contents) || !kvt_buffer_ok(&listing->folded)))
            rc = KVT_NOMEM;
        fault = rc == KVT_NOTFOUND ? GATEWAY_S3_ERROR_NO_SUCH_BUCKET : gateway_request_fault_of(rc);
    }
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = write_answer(listing, request);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    if (listing != NULL) {
        kvt_buffer_release(&listing->contents);
        kvt_buffer_release(&listing->folded);
    }
    kvt_free(listing);
}

enum gateway_s3_error
gateway_object_listing_empty(struct gateway_s3 *s3, const struct gateway_client_bucket *bucket,
                             bool *empty)
{
    struct listing *listing = kvt_calloc(1, sizeof(*listing));
    enum kvt_err rc = KVT_NOMEM;

    *empty = false;
    if (listing != NULL) {
        listing->s3 = s3;
        listing->bucket = bucket;
        listing->max_keys = 1;
        kvt_buffer_init(&listing->contents, 1u << 16);
        rc = collect(listing);
        *empty = rc == KVT_OK && listing->given == 0 && !listing->truncated;
        kvt_buffer_release(&listing->contents);
    }
    kvt_free(listing);
    return gateway_request_fault_of(rc);
}
