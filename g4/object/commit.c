#include "g4/object/commit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_pull.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"

enum { VERSION = 1, CRC_DIGITS = 8, FINGERPRINT_DIGITS = 16 };

/* A bit for each member, to see it missing or twice. */
enum {
    SEEN_VERSION = 1 << 0,
    SEEN_RANKS = 1 << 1,
    SEEN_WRITER = 1 << 2,
    SEEN_LENGTH = 1 << 0,
    SEEN_CRC = 1 << 1,
    SEEN_FINGERPRINT = 1 << 2,
    SEEN_ALL = 7,
};

/* ---- keys ---- */

bool
g4_commit_key(const char *block, char key[KVT_KEY_MAX])
{
    struct kvt_key parsed;
    int size;

    key[0] = '\0';
    if (kvt_key_parse(block, &parsed) != KVT_OK || parsed.namespace_[0] != '\0')
        return false;
    size = snprintf(key, KVT_KEY_MAX, "%s%s", strchr(block, '/') + 1, G4_KIND_META_SUFFIX);
    assert(size > 0 && size < KVT_KEY_MAX); /* a rank and a name are far shorter */
    return true;
}

void
g4_commit_rank_key(const char *key, uint32_t rank, char block[KVT_KEY_MAX])
{
    const size_t tail = strlen(G4_KIND_META_SUFFIX);
    const size_t size = strlen(key);
    int made;

    assert(size > tail && rank < KVT_RANKS_MAX);
    made = snprintf(block, KVT_KEY_MAX, "%" PRIu32 "/%.*s", rank, (int)(size - tail), key);
    assert(made > 0 && made < KVT_KEY_MAX);
}

bool
g4_commit_same(const struct g4_commit *left, const struct g4_commit *right)
{
    bool same = left->ranks == right->ranks;

    for (uint32_t i = 0; same && i < left->ranks; i++)
        same = left->rank[i].length == right->rank[i].length &&
               left->rank[i].crc32c == right->rank[i].crc32c &&
               left->rank[i].fingerprint == right->rank[i].fingerprint;
    return same;
}

/* ---- the body ---- */

void
g4_commit_format(const struct g4_commit *record, struct kvt_buffer *out)
{
    kvt_buffer_printf(out, "{\"version\":%d,\"writer\":", VERSION);
    kvt_buffer_json_string(out, record->writer);
    kvt_buffer_printf(out, ",\"ranks\":[");
    for (uint32_t i = 0; i < record->ranks; i++)
        kvt_buffer_printf(out,
                          "%s{\"length\":%" PRIu64 ",\"crc32c\":\"%08" PRIx32
                          "\",\"fingerprint\":\"%016" PRIx64 "\"}",
                          i == 0 ? "" : ",", record->rank[i].length, record->rank[i].crc32c,
                          record->rank[i].fingerprint);
    kvt_buffer_printf(out, "]}");
}

/* Exactly `digits` hex digits. */
static bool
take_hex(struct kvt_json_pull *pull, size_t digits, uint64_t *value)
{
    char text[FINGERPRINT_DIGITS + 1];
    struct kvt_json_slice slice;

    *value = 0;
    if (!kvt_json_pull_string(pull, &slice) ||
        !kvt_json_slice_copy(&slice, text, sizeof(text), NULL) || strlen(text) != digits ||
        strspn(text, "0123456789abcdefABCDEF") != digits)
        return false;
    *value = strtoull(text, NULL, 16);
    return true;
}

static bool
take_rank(struct kvt_json_pull *pull, struct g4_commit_rank *rank)
{
    struct kvt_json_slice key;
    uint64_t crc = 0;
    unsigned seen = 0;
    bool good = kvt_json_pull_object(pull);

    while (good && kvt_json_pull_member(pull, &key)) {
        unsigned bit = 0;

        if (kvt_json_slice_is(&key, "length")) {
            bit = SEEN_LENGTH;
            good = kvt_json_pull_u64(pull, &rank->length);
        } else if (kvt_json_slice_is(&key, "crc32c")) {
            bit = SEEN_CRC;
            good = take_hex(pull, CRC_DIGITS, &crc);
        } else if (kvt_json_slice_is(&key, "fingerprint")) {
            bit = SEEN_FINGERPRINT;
            good = take_hex(pull, FINGERPRINT_DIGITS, &rank->fingerprint);
        } else {
            kvt_json_pull_skip(pull);
        }
        good = good && (seen & bit) == 0;
        seen |= bit;
    }
    rank->crc32c = (uint32_t)crc;
    return good && seen == SEEN_ALL;
}

static bool
take_ranks(struct kvt_json_pull *pull, struct g4_commit *record)
{
    bool good = kvt_json_pull_array(pull);

    while (good && kvt_json_pull_element(pull)) {
        good = record->ranks < KVT_RANKS_MAX && take_rank(pull, &record->rank[record->ranks]);
        record->ranks++;
    }
    return good && record->ranks > 0;
}

static bool
take_members(struct kvt_json_pull *pull, struct g4_commit *record, uint64_t *version)
{
    struct kvt_json_slice key;
    struct kvt_json_slice text;
    unsigned seen = 0;
    bool good = kvt_json_pull_object(pull);

    while (good && kvt_json_pull_member(pull, &key)) {
        unsigned bit = 0;

        if (kvt_json_slice_is(&key, "version")) {
            bit = SEEN_VERSION;
            good = kvt_json_pull_u64(pull, version);
        } else if (kvt_json_slice_is(&key, "ranks")) {
            bit = SEEN_RANKS;
            good = take_ranks(pull, record);
        } else if (kvt_json_slice_is(&key, "writer")) {
            bit = SEEN_WRITER;
            good = kvt_json_pull_string(pull, &text) &&
                   kvt_json_slice_copy(&text, record->writer, sizeof(record->writer), NULL);
        } else {
            kvt_json_pull_skip(pull);
        }
        good = good && (seen & bit) == 0;
        seen |= bit;
    }
    return good && seen == SEEN_ALL;
}

enum kvt_err
g4_commit_parse(struct g4_commit *record, const char *text, size_t size, struct kvt_error *err)
{
    struct kvt_json_pull pull;
    uint64_t version = VERSION;
    bool good;

    *record = (struct g4_commit){.ranks = 0};
    if (size == 0)
        return KVT_OK;
    if (size > G4_COMMIT_BODY_MAX)
        return kvt_error_set(err, KVT_RANGE, "a commit record of %zu bytes", size);
    kvt_json_pull_init(&pull, text, size);
    good = take_members(&pull, record, &version);
    if (version == VERSION && good && kvt_json_pull_end(&pull, "commit record", err) == KVT_OK)
        return KVT_OK;
    *record = (struct g4_commit){.ranks = 0};
    if (version > VERSION)
        return kvt_error_set(err, KVT_UNSUPPORTED, "a commit record of version %" PRIu64, version);
    return kvt_error_set(err, KVT_INVALID,
                         "a commit record without version, writer and ranks as they should be");
}

/* ---- in a bucket ---- */

enum kvt_err
g4_commit_read(struct g4_store *store, const char *key, struct g4_commit *record,
               char etag[G4_ETAG_MAX], struct kvt_error *err)
{
    char text[G4_COMMIT_BODY_MAX];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer = text, .buffer_capacity = sizeof(text)};
    enum kvt_err rc = g4_store_perform(store, &request);
    struct kvt_error cause = request.error;

    *record = (struct g4_commit){.ranks = 0};
    memcpy(etag, request.etag, G4_ETAG_MAX);
    if (rc == KVT_OK)
        rc = g4_check_body(&request.meta, NULL, text, request.buffer_size, &cause);
    if (rc == KVT_OK)
        rc = g4_commit_parse(record, text, request.buffer_size, &cause);
    if (rc == KVT_OK)
        return KVT_OK;
    if (rc == KVT_RANGE || rc == KVT_INVALID)
        rc = KVT_CORRUPT;
    return kvt_error_set(err, rc, "%.200s", cause.text);
}

void
g4_commit_request(const struct g4_commit *record, const char *key, struct kvt_buffer *body,
                  struct g4_request *request)
{
    const char *text = kvt_buffer_text(body);

    request->verb = G4_PUT;
    request->key = key;
    request->condition = G4_IF_ABSENT;
    request->body = text;
    request->body_size = body->size;
    request->meta = (struct g4_meta){
        .present = true, .length = body->size, .crc32c = g4_check_crc32c(text, body->size)};
    memcpy(request->meta.writer, record->writer, sizeof(request->meta.writer));
}

/* Over exactly what was looked at. */
static enum kvt_err
replace(struct g4_store *store, const char *key, const struct g4_commit *record,
        const char etag[G4_ETAG_MAX], struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_PUT};
    struct kvt_buffer body;
    enum kvt_err rc = KVT_NOMEM;

    kvt_buffer_init(&body, G4_COMMIT_BODY_MAX);
    g4_commit_format(record, &body);
    if (kvt_buffer_ok(&body)) {
        g4_commit_request(record, key, &body, &request);
        request.condition = G4_IF_MATCH;
        memcpy(request.etag, etag, sizeof(request.etag));
        rc = g4_store_perform(store, &request);
    }
    kvt_buffer_release(&body);
    if (rc == KVT_PRECONDITION || rc == KVT_NOTFOUND || rc == KVT_EXISTS)
        rc = KVT_AGAIN;
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "%.200s", request.error.text);
}

enum kvt_err
g4_commit_settle(struct g4_store *store, const char *key, const struct g4_commit *record,
                 struct kvt_error *err)
{
    struct g4_commit there;
    char etag[G4_ETAG_MAX];
    const enum kvt_err rc = g4_commit_read(store, key, &there, etag, err);

    if (rc == KVT_OK && (there.ranks == 0 || g4_commit_same(&there, record)))
        return KVT_OK;
    if (rc == KVT_UNSUPPORTED) /* of a later release, which knows more than this one */
        return KVT_OK;
    if (rc == KVT_NOTFOUND)
        return kvt_error_set(err, KVT_AGAIN, "%.200s was removed meanwhile", key);
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return rc;
    if (etag[0] == '\0')
        return kvt_error_set(err, KVT_AGAIN, "%.200s has no ETag", key);
    return replace(store, key, record, etag, err);
}
