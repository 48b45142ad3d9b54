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
#include "gateway/s3/listing_prefetch.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/object_key.h"

enum {
    ROWS_MAX = 1000,
    KIND_MAX = 32,
    TOKEN_MAX = KVT_KEY_MAX + KIND_MAX + G4_TOKEN_MAX,
    HEX_MAX = 2 * TOKEN_MAX + 1
};

/* Behind every key that goes on from here: the last character there is. */
#define LAST "\xf4\x8f\xbf\xbf"

static const char *const known_arguments[] = {
    "list-type",   "prefix",      "delimiter",          "max-keys", "encoding-type",
    "start-after", "fetch-owner", "continuation-token", "marker"};
static const char *const known_of_versions[] = {"versions",      "prefix",     "delimiter",
                                                "max-keys",      "key-marker", "version-id-marker",
                                                "encoding-type", "list-type"};

enum { START_MAX = GATEWAY_CLIENT_BUCKET_KEY + KVT_KEY_MAX + sizeof(LAST) };

/* One listing while it is being made. */
struct listing {
    struct gateway_s3 *s3;
    const struct gateway_client_bucket *bucket;
    char root[GATEWAY_CLIENT_BUCKET_KEY]; /* in front of all its keys in the store */
    bool versions; /* ListObjectVersions: each object is the only one of its key */
    bool v2;
    bool encode; /* encoding-type=url */
    char prefix[KVT_KEY_MAX];
    char delimiter[KVT_KEY_MAX];
    char after[KVT_KEY_MAX];   /* keys up to here are done with */
    char page[G4_TOKEN_MAX];   /* the store's token of the page that goes on behind them, or "" */
    const char *kind;          /* of store: a token of one is a key of another */
    char start[KVT_KEY_MAX];   /* start-after or marker, as asked */
    char given_token[HEX_MAX]; /* continuation-token, as asked */
    bool has_token;
    bool owner;             /* fetch-owner, and always in version 1 */
    char fold[KVT_KEY_MAX]; /* the common prefix given last */
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
 * how far that was: MinIO lists a folder from its beginning for whoever only names a key.  In hex:
 * opaque to clients, and good on any gateway. */
static bool
read_token(struct listing *listing, const char *hex)
{
    const size_t size = strlen(hex) / 2;
    char token[TOKEN_MAX + 1];
    const char *kind;
    const char *page;
    size_t key_size;

    if (strlen(hex) % 2 != 0 || size >= TOKEN_MAX || !kvt_hex_parse(hex, size, token))
        return false;
    token[size] = '\0';
    key_size = strlen(token);
    if (key_size >= sizeof(listing->after))
        return false;
    memcpy(listing->after, token, key_size + 1);
    if (size == key_size)
        return true;
    kind = token + key_size + 1;
    page = kind + strlen(kind) + 1;
    if (page >= token + size || page + strlen(page) != token + size ||
        strlen(page) >= sizeof(listing->page))
        return false;
    if (strcmp(kind, listing->kind) == 0)
        memcpy(listing->page, page, strlen(page) + 1);
    return true;
}

static void
append_token(const struct listing *listing, struct kvt_buffer *out)
{
    const size_t key_size = strlen(listing->after);
    char token[TOKEN_MAX];
    char hex[HEX_MAX];
    int more = 0;

    memcpy(token, listing->after, key_size + 1);
    if (listing->page[0] != '\0')
        more = snprintf(token + key_size + 1, sizeof(token) - key_size - 1, "%s%c%s", listing->kind,
                        '\0', listing->page);
    kvt_hex_format(token, more > 0 ? key_size + 1 + (size_t)more : key_size, hex);
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
fold_of(const struct listing *listing, const char *key, char fold[KVT_KEY_MAX])
{
    const char *rest = key + strlen(listing->prefix);
    const char *cut = listing->delimiter[0] == '\0' ? NULL : strstr(rest, listing->delimiter);

    if (cut == NULL)
        return false;
    (void)snprintf(fold, KVT_KEY_MAX, "%.*s",
                   (int)(cut - key + (ptrdiff_t)strlen(listing->delimiter)), key);
    return true;
}

/* Is this a common prefix itself? */
static bool
fold_ends(const struct listing *listing, const char *text)
{
    char fold[KVT_KEY_MAX];

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

/* The gateway's own things among the configured bucket's keys, and what cannot be a key. */
static bool
is_reserved(const struct listing *listing, const char *key)
{
    return gateway_client_bucket_configured(listing->bucket) && !gateway_object_key_is_allowed(key);
}

/* False when the answer is full. */
static bool
give(struct listing *listing, const struct g4_listed *object)
{
    const char *key = gateway_client_bucket_shown(listing->bucket, object->key);
    char fold[KVT_KEY_MAX];
    bool folds;

    if (strcmp(key, listing->after) <= 0 || is_reserved(listing, key))
        return true;
    folds = fold_of(listing, key, fold);
    /* A prefix that was given as marker, or just now, covers all its keys. */
    if (folds && (strcmp(fold, listing->fold) == 0 || strcmp(fold, listing->after) <= 0)) {
        memcpy(listing->fold, fold, sizeof(fold));
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
        memcpy(listing->fold, fold, sizeof(fold));
        memcpy(listing->after, fold, sizeof(fold));
    } else {
        give_object(listing, key, object);
        pass_over(listing, key);
    }
    return true;
}

/* Where the next page of the store begins: a prefix that was given is passed over whole. */
static void
set_start(const struct listing *listing, char start[START_MAX])
{
    const bool fold = listing->delimiter[0] != '\0' && fold_ends(listing, listing->after);

    start[0] = '\0';
    if (listing->after[0] != '\0')
        (void)snprintf(start, START_MAX, "%s%s%s", listing->root, listing->after, fold ? LAST : "");
}

/* Where to go on behind this page, when that is not where it ends; false: there. */
static bool
leap(const struct listing *listing, const char *last, char start[START_MAX])
{
    const char *from = NULL;

    /* The rest of a prefix that was given need not be listed, and nothing that is hidden. */
    if (listing->fold[0] != '\0' && strncmp(last, listing->fold, strlen(listing->fold)) == 0)
        from = listing->fold;
    else if (gateway_client_bucket_configured(listing->bucket) &&
             strncmp(last, GATEWAY_OBJECT_KEY_RESERVED, strlen(GATEWAY_OBJECT_KEY_RESERVED)) == 0)
        from = GATEWAY_OBJECT_KEY_RESERVED;
    if (from != NULL)
        (void)snprintf(start, START_MAX, "%s%s" LAST, listing->root, from);
    return from != NULL;
}

/* The store's next page.  A token that it does not know any more is none of the client's business:
 * the page is asked for by the key it begins behind. */
static enum kvt_err
fetch(struct listing *listing, struct g4_request *request, const char *start)
{
    struct g4_store *store = gateway_bucket_tier_store(listing->s3->context->tiers.buckets);
    struct gateway_listing_prefetch *prefetch = listing->s3->prefetch;
    enum kvt_err rc;

    memcpy(listing->page, request->token, sizeof(listing->page));
    if (prefetch != NULL && listing->has_token && request->token[0] != '\0' &&
        gateway_listing_prefetch_take(prefetch, request))
        return KVT_OK;
    request->after = start[0] == '\0' ? NULL : start;
    rc = g4_store_perform(store, request);
    if (listing->page[0] == '\0' || (rc != KVT_INVALID && request->http != 400))
        return rc;
    listing->page[0] = '\0';
    request->token[0] = '\0';
    return g4_store_perform(store, request);
}

/* Who asks for one full page after the other has the next one fetched while this one is told. */
static void
look_ahead(const struct listing *listing, const struct g4_request *request)
{
    if (listing->s3->prefetch != NULL && listing->has_token && listing->delimiter[0] == '\0' &&
        listing->given == 0 && listing->max_keys == ROWS_MAX && request->listed_count == ROWS_MAX &&
        request->token[0] != '\0')
        gateway_listing_prefetch_fetch(
            listing->s3->prefetch, gateway_bucket_tier_store(listing->s3->context->tiers.buckets),
            request->key, request->token);
}

/* The answer is full, the store's page done with, and nothing of what follows can be part of what
 * was given. */
static bool
is_full(const struct listing *listing)
{
    return listing->given == listing->max_keys && listing->delimiter[0] == '\0';
}

static enum kvt_err
collect(struct listing *listing, struct g4_listed *room)
{
    char prefix[KVT_KEY_MAX];
    char start[START_MAX];
    char last[KVT_KEY_MAX] = ""; /* that the store told of */
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .listed = room};

    if (strlen(listing->root) + strlen(listing->prefix) >= sizeof(prefix))
        return KVT_OK; /* longer than any key */
    memcpy(prefix, listing->root, strlen(listing->root));
    memcpy(prefix + strlen(listing->root), listing->prefix, strlen(listing->prefix) + 1);
    set_start(listing, start);
    memcpy(request.token, listing->page, sizeof(request.token));
    for (unsigned pages = 0; listing->max_keys > 0; pages++) {
        const struct g4_listed *told = NULL;
        enum kvt_err rc;

        if (pages == GATEWAY_OBJECT_LISTING_PAGES) {
            /* Perhaps none of these keys was given: the next request must not see them again. */
            pass_over(listing, last);
            memcpy(listing->page, request.token, sizeof(listing->page));
            listing->truncated = true;
            return KVT_OK;
        }
        /* No more than is asked for, so that the next request begins with a page of the store. */
        request.listed_wanted = pages == 0 && listing->delimiter[0] == '\0' ? listing->max_keys : 0;
        rc = fetch(listing, &request, start);
        if (rc != KVT_OK)
            return rc;
        look_ahead(listing, &request);
        for (size_t i = 0; i < request.listed_count; i++) {
            /* What no store should tell of, also not for a token that somebody made up. */
            if (strncmp(room[i].key, prefix, strlen(prefix)) != 0)
                continue;
            if (!give(listing, &room[i])) {
                listing->truncated = true;
                return KVT_OK;
            }
            told = &room[i];
        }
        if (told != NULL)
            (void)snprintf(last, sizeof(last), "%s",
                           gateway_client_bucket_shown(listing->bucket, told->key));
        if (request.token[0] == '\0')
            return KVT_OK;
        if (is_full(listing)) {
            memcpy(listing->page, request.token, sizeof(listing->page));
            listing->truncated = true;
            return KVT_OK;
        }
        if (leap(listing, last, start))
            request.token[0] = '\0';
    }
    return KVT_OK;
}

static void
set_bucket(struct listing *listing, const struct gateway_client_bucket *bucket)
{
    listing->bucket = bucket;
    gateway_client_bucket_prefix(bucket, listing->root);
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
    struct g4_listed *room = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*room));
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    enum kvt_err rc;

    gateway_stats_add(s3->context->stats, GATEWAY_STAT_LIST, 1);
    if (listing != NULL) {
        listing->s3 = s3;
        listing->kind = g4_store_name(gateway_bucket_tier_store(s3->context->tiers.buckets));
        set_bucket(listing, &request->bucket);
        kvt_buffer_init(&listing->contents, 4u << 20);
        kvt_buffer_init(&listing->folded, 2u << 20);
        fault = room == NULL ? GATEWAY_S3_ERROR_SLOW_DOWN : read_arguments(listing, request);
        if (fault == GATEWAY_S3_ERROR_NONE &&
            !gateway_auth_may(request->principal, GATEWAY_LIST, &request->bucket, listing->prefix))
            fault = GATEWAY_S3_ERROR_FORBIDDEN;
    }
    if (fault == GATEWAY_S3_ERROR_NONE) {
        rc = collect(listing, room);
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
    kvt_free(room);
}

enum gateway_s3_error
gateway_object_listing_empty(struct gateway_s3 *s3, const struct gateway_client_bucket *bucket,
                             bool *empty)
{
    struct listing *listing = kvt_calloc(1, sizeof(*listing));
    struct g4_listed *room = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*room));
    enum kvt_err rc = KVT_NOMEM;

    *empty = false;
    if (listing != NULL && room != NULL) {
        listing->s3 = s3;
        set_bucket(listing, bucket);
        listing->max_keys = 1;
        kvt_buffer_init(&listing->contents, 1u << 16);
        rc = collect(listing, room);
        *empty = rc == KVT_OK && listing->given == 0 && !listing->truncated;
        kvt_buffer_release(&listing->contents);
    }
    kvt_free(listing);
    kvt_free(room);
    return gateway_request_fault_of(rc);
}
