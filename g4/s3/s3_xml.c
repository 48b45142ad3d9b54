#include "g4/s3/s3_xml.h"

#include <expat.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "g4/object/listing.h"

enum { DEPTH_MAX = 16, TEXT_MAX = 4096 };

/* A tag or comment may be so long: expat reads it from its start with each piece that comes. */
enum { MARKUP_MAX = 64 * 1024 };

/* Our token: this, pages in a row without a key, bytes of the last key, the key, the server's. */
#define TOKEN_SIGN "kvt1:"
enum { TOKEN_SIGN_SIZE = 5, TOKEN_HEAD = TOKEN_SIGN_SIZE + 8 };

enum element { OTHER, KEY, SIZE, ETAG, MODIFIED, TRUNCATED, TOKEN, ENCODING };

struct g4_s3_xml {
    XML_Parser parser;
    struct g4_request *request;
    struct {
        uint64_t size;
        uint64_t modified_ms;
        char etag[G4_ETAG_MAX];
    } row;
    char key[3 * KVT_KEY_MAX]; /* of the row, as it came; "" when it is too long for one of ours */
    struct kvt_buffer keys;    /* of all rows, one after the other */
    bool url_encoded;
    bool truncated;
    bool in_contents;
    bool failed; /* `error` says how */
    unsigned depth;
    enum element element;
    char text[TEXT_MAX];
    size_t text_size;
    bool text_cut;
    char token[G4_S3_XML_TOKEN_MAX]; /* the server's, of the next page */
    char asked[G4_S3_XML_TOKEN_MAX]; /* ... and of this one */
    char last[KVT_KEY_MAX];          /* the key that this page begins behind */
    unsigned empty;                  /* pages in a row without a key */
    size_t fed;
    bool has_key; /* of the row */
    bool has_size;
    struct kvt_error error;
};

_Static_assert(TOKEN_HEAD + KVT_KEY_MAX + G4_S3_XML_TOKEN_MAX <= G4_TOKEN_MAX, "tokens fit");

static void
fail(struct g4_s3_xml *listing, const char *what)
{
    if (listing->failed)
        return;
    listing->failed = true;
    (void)kvt_error_set(&listing->error, KVT_IO, "list: line %lu: %s",
                        (unsigned long)XML_GetCurrentLineNumber(listing->parser), what);
    (void)XML_StopParser(listing->parser, XML_FALSE);
}

static enum element
element_of(const struct g4_s3_xml *listing, const char *name)
{
    if (listing->in_contents && listing->depth == 3) {
        if (strcmp(name, "Key") == 0)
            return KEY;
        if (strcmp(name, "Size") == 0)
            return SIZE;
        if (strcmp(name, "ETag") == 0)
            return ETAG;
        return strcmp(name, "LastModified") == 0 ? MODIFIED : OTHER;
    }
    if (listing->depth != 2)
        return OTHER;
    if (strcmp(name, "IsTruncated") == 0)
        return TRUNCATED;
    if (strcmp(name, "NextContinuationToken") == 0)
        return TOKEN;
    return strcmp(name, "EncodingType") == 0 ? ENCODING : OTHER;
}

static void
on_start(void *arg, const char *name, const char **attributes)
{
    struct g4_s3_xml *listing = arg;

    (void)attributes;
    if (++listing->depth > DEPTH_MAX) {
        fail(listing, "too deep");
        return;
    }
    if (listing->depth == 1 && strcmp(name, "ListBucketResult") != 0)
        fail(listing, "not a ListBucketResult");
    if (listing->depth == 2 && strcmp(name, "Contents") == 0) {
        listing->in_contents = true;
        listing->key[0] = '\0';
        listing->has_key = listing->has_size = false;
        memset(&listing->row, 0, sizeof(listing->row));
    }
    listing->element = element_of(listing, name);
    listing->text_size = 0;
    listing->text_cut = false;
}

static void
on_text(void *arg, const char *text, int size)
{
    struct g4_s3_xml *listing = arg;
    const size_t more = (size_t)size;

    if (listing->element == OTHER)
        return;
    if (more >= TEXT_MAX - listing->text_size) {
        listing->text_cut = true;
        return;
    }
    memcpy(listing->text + listing->text_size, text, more);
    listing->text_size += more;
}

bool
g4_s3_xml_key(const char *text, char key[KVT_KEY_MAX])
{
    size_t size = 0;

    for (; *text != '\0'; text++) {
        char c = *text;

        if (c == '+') {
            c = ' ';
        } else if (c == '%' && kvt_hex_digit(text[1]) >= 0 && kvt_hex_digit(text[2]) >= 0) {
            c = (char)(kvt_hex_digit(text[1]) * 16 + kvt_hex_digit(text[2]));
            text += 2;
        }
        if (c == '\0' || size + 1 >= KVT_KEY_MAX)
            return false;
        key[size++] = c;
    }
    key[size] = '\0';
    return size > 0;
}

void
g4_s3_xml_etag(const char *text, size_t size, char etag[G4_ETAG_MAX])
{
    if (size >= 2 && text[0] == '"' && text[size - 1] == '"') {
        text++;
        size -= 2;
    }
    etag[0] = '\0';
    if (size >= G4_ETAG_MAX)
        return;
    for (size_t i = 0; i < size; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f || strchr("\"<>&", text[i]) != NULL)
            return;
    memcpy(etag, text, size);
    etag[size] = '\0';
}

static void
take_key(struct g4_s3_xml *listing)
{
    if (listing->has_key)
        fail(listing, "a row with two keys");
    listing->has_key = true;
    if (!listing->text_cut && listing->text_size < sizeof(listing->key))
        memcpy(listing->key, listing->text, listing->text_size + 1);
}

static void
take_size(struct g4_s3_xml *listing)
{
    if (listing->has_size || listing->text_cut ||
        kvt_parse_u64(listing->text, &listing->row.size) != KVT_OK ||
        listing->row.size > G4_OBJECT_SIZE_MAX)
        fail(listing, "Size is not a number of bytes");
    listing->has_size = true;
}

static void
take_text(struct g4_s3_xml *listing)
{
    listing->text[listing->text_size] = '\0';
    switch (listing->element) {
    case KEY: take_key(listing); break;
    case SIZE: take_size(listing); break;
    case ETAG: g4_s3_xml_etag(listing->text, listing->text_size, listing->row.etag); break;
    case MODIFIED: (void)kvt_clock_parse(listing->text, &listing->row.modified_ms); break;
    case TRUNCATED: listing->truncated = strcmp(listing->text, "true") == 0; break;
    case ENCODING: listing->url_encoded = strcmp(listing->text, "url") == 0; break;
    case TOKEN:
        if (listing->text_cut || listing->text_size >= sizeof(listing->token))
            fail(listing, "NextContinuationToken is too long");
        else
            memcpy(listing->token, listing->text, listing->text_size + 1);
        break;
    case OTHER: break;
    }
}

/* The key waits, as it came: the element that says how to read it may stand behind all rows. */
static void
finish_row(struct g4_s3_xml *listing)
{
    struct g4_request *request = listing->request;
    struct g4_listed *row;

    listing->in_contents = false;
    if (!listing->has_key || !listing->has_size) {
        fail(listing, "a row without a key or a size");
        return;
    }
    if (request->listed_count == G4_LIST_KEYS_MAX) {
        fail(listing, "more keys than were asked for");
        return;
    }
    kvt_buffer_append(&listing->keys, listing->key, strlen(listing->key) + 1);
    if (!kvt_buffer_ok(&listing->keys))
        fail(listing, "out of memory");
    if (listing->failed)
        return;
    row = &request->listed[request->listed_count++];
    row->key[0] = '\0';
    row->size = listing->row.size;
    row->modified_ms = listing->row.modified_ms;
    memcpy(row->etag, listing->row.etag, sizeof(row->etag));
}

/* Give the rows their keys; rows whose key cannot be one of ours are left out. */
static void
place_keys(struct g4_s3_xml *listing)
{
    struct g4_request *request = listing->request;
    const char *at = (const char *)listing->keys.data;
    size_t kept = 0;

    for (size_t i = 0; i < request->listed_count; i++) {
        struct g4_listed *row = &request->listed[kept];
        const size_t size = strlen(at);
        bool fits = size > 0;

        if (kept < i)
            *row = request->listed[i];
        if (listing->url_encoded)
            fits = g4_s3_xml_key(at, row->key);
        else if (size < sizeof(row->key))
            memcpy(row->key, at, size + 1);
        else
            fits = false;
        kept += fits ? 1 : 0;
        at += size + 1;
    }
    request->listed_count = kept;
}

static void
on_end(void *arg, const char *name)
{
    struct g4_s3_xml *listing = arg;

    take_text(listing);
    if (listing->depth == 2 && listing->in_contents && strcmp(name, "Contents") == 0)
        finish_row(listing);
    listing->element = OTHER;
    listing->depth--;
}

/* No document type, no entities of the sender's. */
static void
on_doctype(void *arg, const char *name, const char *system, const char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    fail(arg, "a document type is not accepted");
}

const char *
g4_s3_xml_token(const char *token)
{
    unsigned long long size;
    char head[9] = "";

    if (strncmp(token, TOKEN_SIGN, TOKEN_SIGN_SIZE) != 0 || strlen(token) < TOKEN_HEAD)
        return token;
    memcpy(head, token + TOKEN_SIGN_SIZE + 4, 4);
    size = strtoull(head, NULL, 16);
    return size >= KVT_KEY_MAX || strlen(token) < TOKEN_HEAD + size ? token
                                                                    : token + TOKEN_HEAD + size;
}

/* Where the page begins, as the request's token says; one that is not ours says only itself. */
static bool
read_token(struct g4_s3_xml *listing, const struct g4_request *request)
{
    const char *token = request->token;
    const char *theirs = g4_s3_xml_token(token);
    char head[9] = "";

    if (strlen(theirs) >= sizeof(listing->asked))
        return false;
    memcpy(listing->asked, theirs, strlen(theirs) + 1);
    if (theirs != token) {
        memcpy(head, token + TOKEN_SIGN_SIZE, 4);
        listing->empty = (unsigned)strtoul(head, NULL, 16);
        memcpy(listing->last, token + TOKEN_HEAD, (size_t)(theirs - token) - TOKEN_HEAD);
    } else if (token[0] == '\0' && request->after != NULL) {
        memcpy(listing->last, request->after, strnlen(request->after, sizeof(listing->last) - 1));
    }
    return true;
}

/* The next page's token: the server has to get on. */
static enum kvt_err
write_token(struct g4_s3_xml *listing, struct kvt_error *err)
{
    struct g4_request *request = listing->request;

    memset(request->token, 0, sizeof(request->token));
    if (!listing->truncated)
        return KVT_OK;
    if (strcmp(listing->token, listing->asked) == 0)
        return kvt_error_set(err, KVT_IO, "list: the store gave the same continuation token twice");
    listing->empty = request->listed_count > 0 ? 0 : listing->empty + 1;
    if (listing->empty > G4_LISTING_EMPTY_MAX)
        return kvt_error_set(err, KVT_IO, "list: %d pages in a row without a key",
                             G4_LISTING_EMPTY_MAX);
    if (request->listed_count > 0)
        memcpy(listing->last, request->listed[request->listed_count - 1].key,
               sizeof(listing->last));
    (void)snprintf(request->token, sizeof(request->token), TOKEN_SIGN "%04x%04zx%s%s",
                   listing->empty, strlen(listing->last), listing->last, listing->token);
    return KVT_OK;
}

enum kvt_err
g4_s3_xml_new(struct g4_s3_xml **out, struct g4_request *request)
{
    struct g4_s3_xml *listing = kvt_calloc(1, sizeof(*listing));

    *out = NULL;
    if (listing == NULL)
        return KVT_NOMEM;
    listing->parser = XML_ParserCreate(NULL);
    if (listing->parser == NULL) {
        kvt_free(listing);
        return KVT_NOMEM;
    }
    if (!read_token(listing, request)) {
        g4_s3_xml_free(listing);
        return KVT_INVALID;
    }
    kvt_buffer_init(&listing->keys, (size_t)G4_LIST_KEYS_MAX * sizeof(listing->key));
    listing->request = request;
    request->listed_count = 0;
    XML_SetUserData(listing->parser, listing);
    XML_SetElementHandler(listing->parser, on_start, on_end);
    XML_SetCharacterDataHandler(listing->parser, on_text);
    XML_SetStartDoctypeDeclHandler(listing->parser, on_doctype);
    *out = listing;
    return KVT_OK;
}

void
g4_s3_xml_free(struct g4_s3_xml *listing)
{
    if (listing == NULL)
        return;
    XML_ParserFree(listing->parser);
    kvt_buffer_release(&listing->keys);
    kvt_free(listing);
}

static enum kvt_err
parse(struct g4_s3_xml *listing, const char *bytes, size_t size, bool last, struct kvt_error *err)
{
    listing->fed += size;
    if (listing->fed > G4_S3_XML_PAGE_MAX)
        fail(listing, "the page is too long");
    if (!listing->failed && XML_Parse(listing->parser, bytes, (int)size, last) != XML_STATUS_OK &&
        !listing->failed)
        fail(listing, XML_ErrorString(XML_GetErrorCode(listing->parser)));
    if (!listing->failed && (XML_Index)listing->fed - XML_GetCurrentByteIndex(listing->parser) >
                                (XML_Index)size + MARKUP_MAX)
        fail(listing, "a tag that is too long");
    if (!listing->failed)
        return KVT_OK;
    if (err != NULL)
        *err = listing->error;
    return KVT_IO;
}

enum kvt_err
g4_s3_xml_feed(struct g4_s3_xml *listing, const char *bytes, size_t size, struct kvt_error *err)
{
    return parse(listing, bytes, size, false, err);
}

enum kvt_err
g4_s3_xml_end(struct g4_s3_xml *listing, struct kvt_error *err)
{
    const enum kvt_err rc = parse(listing, "", 0, true, err);

    if (rc != KVT_OK)
        return rc;
    if (listing->truncated && listing->token[0] == '\0')
        return kvt_error_set(err, KVT_IO, "list: truncated without a continuation token");
    place_keys(listing);
    if (g4_listing_check(listing->request, listing->last) != KVT_OK) {
        if (err != NULL)
            *err = listing->request->error;
        return KVT_IO;
    }
    return write_token(listing, err);
}

/* Such bodies are small and of one level; a whole XML parser would only add ways to fail. */
bool
g4_s3_xml_element(const char *body, size_t size, const char *open, char *out, size_t room)
{
    const size_t open_size = strlen(open);
    const char *const end = body + size;
    const char *at = size == 0 ? NULL : memmem(body, size, open, open_size);
    size_t count = 0;

    out[0] = '\0';
    if (at == NULL)
        return false;
    for (at += open_size; at < end && *at != '<' && count + 1 < room; at++) {
        out[count] = *at;
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            out[count] = ' ';
        count++;
    }
    out[count] = '\0';
    return at < end && *at == '<';
}

void
g4_s3_xml_trouble(const char *body, size_t size, char code[G4_S3_XML_CODE_MAX],
                  char message[G4_S3_XML_MESSAGE_MAX])
{
    (void)g4_s3_xml_element(body, size, "<Code>", code, G4_S3_XML_CODE_MAX);
    (void)g4_s3_xml_element(body, size, "<Message>", message, G4_S3_XML_MESSAGE_MAX);
}
