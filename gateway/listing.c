#include "gateway/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/parse.h"

enum { ROWS_MAX = 1000, HEX_MAX = 2 * (G4_TOKEN_MAX + KVT_KEY_MAX) + 1 };

static const char *const known_arguments[] = {
    "list-type",   "prefix",      "delimiter",          "max-keys", "encoding-type",
    "start-after", "fetch-owner", "continuation-token", "marker",   "x-id"};

/* One listing while it is being made. */
struct listing {
    struct gateway_s3 *s3;
    bool v2;
    bool encode; /* encoding-type=url */
    char prefix[KVT_KEY_MAX];
    char delimiter[KVT_KEY_MAX];
    char after[KVT_KEY_MAX];       /* keys up to here are done with */
    char start[KVT_KEY_MAX];       /* start-after or marker, as asked */
    char token[G4_TOKEN_MAX];      /* of the store's page to read next */
    char page_token[G4_TOKEN_MAX]; /* of the page `after` lies in */
    char fold[KVT_KEY_MAX];        /* the common prefix given last */
    size_t max_keys;
    size_t given;
    bool truncated;
    struct kvt_buffer contents;
    struct kvt_buffer folded;
};

void
gateway_listing_time(uint64_t unix_ms, char *iso, size_t iso_size, char *http, size_t http_size)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;

    (void)gmtime_r(&seconds, &tm);
    if (iso != NULL)
        (void)snprintf(iso, iso_size, "%04d-%02d-%02dT%02d:%02d:%02d.000Z", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    /* Not strftime(): its names follow the locale. */
    if (http != NULL)
        (void)snprintf(http, http_size, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[(unsigned)tm.tm_wday % 7], tm.tm_mday, months[(unsigned)tm.tm_mon % 12],
                       tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void
append_text(const struct listing *listing, struct kvt_buffer *out, const char *text)
{
    if (listing->encode)
        g4_sigv4_encode(out, text, true);
    else
        gateway_request_xml(out, text);
}

static void
append_element(const struct listing *listing, struct kvt_buffer *out, const char *name,
               const char *text)
{
    kvt_buffer_printf(out, "<%s>", name);
    append_text(listing, out, text);
    kvt_buffer_printf(out, "</%s>", name);
}

/* A continuation token is the store's page and how far we were in it, in hex: opaque to clients. */
static bool
read_token(struct listing *listing, const char *hex)
{
    char text[HEX_MAX / 2 + 1];
    const size_t size = strlen(hex) / 2;
    char *split;

    if (strlen(hex) % 2 != 0 || size >= sizeof(text))
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return false;
        text[i] = (char)byte;
    }
    text[size] = '\0';
    split = strchr(text, '\n');
    if (split == NULL || (size_t)(split - text) >= sizeof(listing->token) ||
        strlen(split + 1) >= sizeof(listing->after))
        return false;
    *split = '\0';
    memcpy(listing->token, text, strlen(text) + 1);
    memcpy(listing->after, split + 1, strlen(split + 1) + 1);
    return true;
}

static void
write_token(const struct listing *listing, struct kvt_buffer *out)
{
    for (const char *at = listing->page_token; *at != '\0'; at++)
        kvt_buffer_printf(out, "%02x", (unsigned)(unsigned char)*at);
    kvt_buffer_printf(out, "0a");
    for (const char *at = listing->after; *at != '\0'; at++)
        kvt_buffer_printf(out, "%02x", (unsigned)(unsigned char)*at);
}

static enum gateway_fault
read_arguments(struct listing *listing, const struct gateway_request *request)
{
    const struct gateway_target *target = &request->target;
    char text[HEX_MAX];
    enum kvt_err rc;

    if (gateway_target_unknown(target, known_arguments,
                               sizeof(known_arguments) / sizeof(known_arguments[0]), text,
                               sizeof(text)))
        return GATEWAY_FAULT_NOT_IMPLEMENTED;
    listing->v2 = gateway_target_query(target, "list-type", text, sizeof(text)) == KVT_OK &&
                  strcmp(text, "2") == 0;
    listing->encode = gateway_target_query(target, "encoding-type", text, sizeof(text)) == KVT_OK;
    if (listing->encode && strcmp(text, "url") != 0)
        return GATEWAY_FAULT_INVALID_ARGUMENT;
    rc = gateway_target_query(target, "prefix", listing->prefix, sizeof(listing->prefix));
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = gateway_target_query(target, "delimiter", listing->delimiter,
                                  sizeof(listing->delimiter));
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        rc = gateway_target_query(target, listing->v2 ? "start-after" : "marker", listing->start,
                                  sizeof(listing->start));
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return GATEWAY_FAULT_INVALID_ARGUMENT;
    memcpy(listing->after, listing->start, sizeof(listing->after));
    if (listing->v2 &&
        gateway_target_query(target, "continuation-token", text, sizeof(text)) == KVT_OK &&
        !read_token(listing, text))
        return GATEWAY_FAULT_INVALID_ARGUMENT;
    listing->max_keys = ROWS_MAX;
    if (gateway_target_query(target, "max-keys", text, sizeof(text)) == KVT_OK) {
        uint64_t wanted;

        if (kvt_parse_u64(text, &wanted) != KVT_OK)
            return GATEWAY_FAULT_INVALID_ARGUMENT;
        listing->max_keys = wanted < ROWS_MAX ? (size_t)wanted : ROWS_MAX;
    }
    return GATEWAY_FAULT_NONE;
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

static void
give_object(struct listing *listing, const struct g4_listed *object)
{
    struct kvt_buffer *out = &listing->contents;
    char modified[32];

    gateway_listing_time(object->modified_ms, modified, sizeof(modified), NULL, 0);
    kvt_buffer_printf(out, "<Contents>");
    append_element(listing, out, "Key", object->key);
    kvt_buffer_printf(out, "<LastModified>%s</LastModified><ETag>&quot;", modified);
    gateway_request_xml(out, object->etag);
    kvt_buffer_printf(out,
                      "&quot;</ETag><Size>%" PRIu64
                      "</Size><StorageClass>STANDARD</StorageClass></Contents>",
                      object->size);
}

/* False when the answer is full. */
static bool
give(struct listing *listing, const struct g4_listed *object)
{
    char fold[KVT_KEY_MAX];
    bool folds;

    if (strcmp(object->key, listing->after) <= 0 || !gateway_vault_key_ok(object->key))
        return true;
    folds = fold_of(listing, object->key, fold);
    /* A prefix that was given as marker, or just now, covers all its keys. */
    if (folds && (strcmp(fold, listing->fold) == 0 || strcmp(fold, listing->after) <= 0)) {
        memcpy(listing->fold, fold, sizeof(fold));
        return true;
    }
    /* Tombstones of quarantined blocks: not there for anybody. */
    if (!folds && object->size == 0 && gateway_vault_is_block(object->key, NULL))
        return true;
    if (listing->given == listing->max_keys)
        return false;
    listing->given++;
    if (folds) {
        kvt_buffer_printf(&listing->folded, "<CommonPrefixes>");
        append_element(listing, &listing->folded, "Prefix", fold);
        kvt_buffer_printf(&listing->folded, "</CommonPrefixes>");
        memcpy(listing->fold, fold, sizeof(fold));
        memcpy(listing->after, fold, sizeof(fold));
    } else {
        give_object(listing, object);
        memcpy(listing->after, object->key, sizeof(object->key));
    }
    return true;
}

static enum kvt_err
collect(struct listing *listing, struct g4_listed *room)
{
    for (unsigned pages = 0; listing->max_keys > 0; pages++) {
        struct g4_request request = {.verb = G4_LIST, .key = listing->prefix, .listed = room};
        enum kvt_err rc;

        memcpy(listing->page_token, listing->token, sizeof(listing->page_token));
        if (pages == GATEWAY_LISTING_PAGES) {
            listing->truncated = true;
            return KVT_OK;
        }
        memcpy(request.token, listing->token, sizeof(request.token));
        rc = g4_store_perform(gateway_cold_store(listing->s3->vault->cold), &request);
        if (rc != KVT_OK)
            return rc;
        for (size_t i = 0; i < request.listed_count; i++) {
            if (!give(listing, &room[i])) {
                listing->truncated = true;
                return KVT_OK;
            }
        }
        if (request.token[0] == '\0')
            return KVT_OK;
        memcpy(listing->token, request.token, sizeof(listing->token));
    }
    return KVT_OK;
}

static void
write_answer(const struct listing *listing, struct gateway_request *request)
{
    struct kvt_buffer *out = &request->answer;

    kvt_buffer_printf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    append_element(listing, out, "Name", listing->s3->bucket);
    append_element(listing, out, "Prefix", listing->prefix);
    if (listing->delimiter[0] != '\0')
        append_element(listing, out, "Delimiter", listing->delimiter);
    append_element(listing, out, listing->v2 ? "StartAfter" : "Marker", listing->start);
    if (listing->encode)
        kvt_buffer_printf(out, "<EncodingType>url</EncodingType>");
    if (listing->v2)
        kvt_buffer_printf(out, "<KeyCount>%zu</KeyCount>", listing->given);
    kvt_buffer_printf(out, "<MaxKeys>%zu</MaxKeys><IsTruncated>%s</IsTruncated>", listing->max_keys,
                      listing->truncated ? "true" : "false");
    if (listing->truncated && listing->v2) {
        kvt_buffer_printf(out, "<NextContinuationToken>");
        write_token(listing, out);
        kvt_buffer_printf(out, "</NextContinuationToken>");
    } else if (listing->truncated) {
        append_element(listing, out, "NextMarker", listing->after);
    }
    kvt_buffer_append(out, listing->contents.data, listing->contents.size);
    kvt_buffer_append(out, listing->folded.data, listing->folded.size);
    kvt_buffer_printf(out, "</ListBucketResult>\n");
}

void
gateway_listing_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct listing *listing = kvt_calloc(1, sizeof(*listing));
    struct g4_listed *room = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*room));
    enum gateway_fault fault = GATEWAY_FAULT_SLOW_DOWN;
    enum kvt_err rc;

    gateway_stats_add(s3->vault->stats, GATEWAY_STAT_LIST, 1);
    if (listing != NULL) {
        listing->s3 = s3;
        kvt_buffer_init(&listing->contents, 4u << 20);
        kvt_buffer_init(&listing->folded, 2u << 20);
        fault = room == NULL ? GATEWAY_FAULT_SLOW_DOWN : read_arguments(listing, request);
    }
    if (fault == GATEWAY_FAULT_NONE) {
        rc = collect(listing, room);
        if (rc == KVT_OK &&
            (!kvt_buffer_ok(&listing->contents) || !kvt_buffer_ok(&listing->folded)))
            rc = KVT_NOMEM;
        fault = rc == KVT_NOTFOUND ? GATEWAY_FAULT_NO_SUCH_BUCKET : gateway_request_fault_of(rc);
    }
    if (fault == GATEWAY_FAULT_NONE) {
        request->content_type = "application/xml";
        write_answer(listing, request);
        request->body_size = request->answer.size;
    } else {
        (void)gateway_request_fail(request, fault);
    }
    if (listing != NULL) {
        kvt_buffer_release(&listing->contents);
        kvt_buffer_release(&listing->folded);
    }
    kvt_free(listing);
    kvt_free(room);
}
