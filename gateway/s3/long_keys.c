#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "gateway/s3/key_cursor_internal.h"
#include "gateway/tier/store_batch.h"

/* A key with its object. */
struct slot {
    char key[G4_CLIENT_KEY_MAX];
    struct g4_listed object;
};

struct record {
    struct g4_object_name name;
    char key[G4_CLIENT_KEY_MAX];
    size_t size;
    enum kvt_err status;
};

struct gateway_long_keys {
    struct g4_store *store;
    const char *bucket;
    const char *prefix;
    char after[G4_CLIENT_KEY_MAX]; /* keys up to here are done with */
    char skip[G4_CLIENT_KEY_MAX];  /* "": none */
    bool none;                     /* no key with the prefix has such a name */
    uint64_t read;                 /* records and pages of names */

    /* Names, a page of the store at a time. */
    struct g4_object_name names;
    struct g4_listed *rows;
    size_t count;
    size_t at;
    char token[G4_TOKEN_MAX];
    bool begun;
    struct record *records; /* of the rows from `window` on */
    size_t window;
    size_t window_end;

    /* The smallest keys of one beginning. */
    struct slot *slots; /* `limit`, once there is a name */
    size_t *order;      /* of the slots, by key */
    size_t limit;
    size_t kept;
    size_t given;
    bool dropped; /* there were more */
};

enum kvt_err
gateway_long_keys_new(struct gateway_long_keys **out, struct g4_store *store, const char *bucket,
                      const char *prefix, const char *after, size_t limit)
{
    struct gateway_long_keys *keys = kvt_calloc(1, sizeof(*keys));

    *out = keys;
    if (keys == NULL)
        return KVT_NOMEM;
    keys->store = store;
    keys->bucket = bucket;
    keys->prefix = prefix;
    keys->limit = limit;
    (void)snprintf(keys->after, sizeof(keys->after), "%s", after);
    keys->none = g4_object_name_prefix(&keys->names, bucket, G4_OBJECT_HASHED, prefix) != KVT_OK;
    keys->rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*keys->rows));
    if (keys->rows != NULL)
        return KVT_OK;
    gateway_long_keys_free(keys);
    *out = NULL;
    return KVT_NOMEM;
}

void
gateway_long_keys_free(struct gateway_long_keys *keys)
{
    if (keys == NULL)
        return;
    kvt_free(keys->rows);
    kvt_free(keys->records);
    kvt_free(keys->slots);
    kvt_free(keys->order);
    kvt_free(keys);
}

/* ---- names ---- */

static enum kvt_err
count_reads(struct gateway_long_keys *keys, size_t count)
{
    keys->read += count;
    if (keys->read <= GATEWAY_LONG_KEYS_MAX)
        return KVT_OK;
    kvt_log_warn("gateway.long_keys", "too_many",
                 "more than %d long keys begin alike: list with a longer prefix",
                 GATEWAY_LONG_KEYS_MAX);
    return KVT_UNSUPPORTED;
}

/* The next page of names; `count` 0: there is none. */
static enum kvt_err
load_names(struct gateway_long_keys *keys)
{
    struct g4_object_name after;
    struct g4_request request = {.verb = G4_LIST, .key = keys->names.text, .listed = keys->rows};
    enum kvt_err rc;

    keys->count = keys->at = keys->window = keys->window_end = 0;
    if (keys->begun && keys->token[0] == '\0')
        return KVT_OK;
    rc = count_reads(keys, 1);
    if (rc != KVT_OK)
        return rc;
    if (!keys->begun && keys->after[0] != '\0') {
        g4_object_name_after(&after, keys->bucket, G4_OBJECT_HASHED, keys->after, false);
        /* A store may answer a place outside the prefix with nothing at all. */
        if (strcmp(after.text, keys->names.text) > 0)
            request.after = after.text;
        keys->begun = request.after != NULL &&
                      strncmp(after.text, keys->names.text, strlen(keys->names.text)) != 0;
        if (keys->begun) /* all names with the prefix are before it */
            return KVT_OK;
    }
    memcpy(request.token, keys->token, sizeof(request.token));
    rc = g4_store_perform(keys->store, &request);
    if (rc != KVT_OK)
        return rc;
    keys->begun = true;
    keys->count = request.listed_count;
    memcpy(keys->token, request.token, sizeof(keys->token));
    return KVT_OK;
}

/* Is there another name at `at`?  Those that are none of this bucket are passed over. */
static enum kvt_err
find_name(struct gateway_long_keys *keys, bool *found)
{
    enum g4_object_form form;
    enum kvt_err rc;

    for (*found = false; !*found;) {
        while (keys->at == keys->count) {
            rc = load_names(keys);
            if (rc != KVT_OK || (keys->count == 0 && keys->token[0] == '\0'))
                return rc;
        }
        *found =
            strncmp(keys->rows[keys->at].key, keys->names.text, strlen(keys->names.text)) == 0 &&
            g4_object_name_form(keys->bucket, keys->rows[keys->at].key, &form) &&
            form == G4_OBJECT_HASHED;
        keys->at += *found ? 0 : 1;
    }
    return KVT_OK;
}

/* ---- records ---- */

static void
on_record(void *arg, struct g4_request *request, size_t index)
{
    struct gateway_long_keys *keys = arg;
    struct record *record = &keys->records[index];

    record->status = request->status;
    record->size = request->buffer_size;
}

/* Read the records of the rows from `at` on, as many as may be read at once. */
static enum kvt_err
load_records(struct gateway_long_keys *keys)
{
    const size_t rest = keys->count - keys->at;
    const size_t count = rest < GATEWAY_LONG_KEYS_READS ? rest : GATEWAY_LONG_KEYS_READS;
    struct gateway_store_batch *batch;
    enum kvt_err rc = count_reads(keys, count);

    if (rc != KVT_OK)
        return rc;
    if (keys->records == NULL)
        keys->records = kvt_calloc(GATEWAY_LONG_KEYS_READS, sizeof(*keys->records));
    if (keys->records == NULL)
        return KVT_NOMEM;
    rc = gateway_store_batch_new(&batch, count, on_record, keys);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct record *record = &keys->records[i];
        struct g4_request *get;

        record->status = KVT_NOTFOUND;
        if (!g4_object_name_record(keys->bucket, keys->rows[keys->at + i].key, &record->name))
            continue;
        get = gateway_store_batch_prepare(batch, i);
        get->verb = G4_GET;
        get->key = record->name.text;
        get->buffer = record->key;
        get->buffer_capacity = sizeof(record->key) - 1;
        gateway_store_batch_submit(batch, keys->store, get);
    }
    gateway_store_batch_free(batch);
    keys->window = keys->at;
    keys->window_end = keys->at + count;
    return KVT_OK;
}

/* The key of the name at `at`; "": nothing in the store says it. */
static enum kvt_err
find_key(struct gateway_long_keys *keys, const char **key)
{
    struct g4_object_name name;
    struct record *record;

    if (keys->at < keys->window || keys->at >= keys->window_end) {
        const enum kvt_err rc = load_records(keys);

        if (rc != KVT_OK)
            return rc;
    }
    record = &keys->records[keys->at - keys->window];
    *key = record->key;
    if (record->status == KVT_OK)
        record->key[record->size] = '\0';
    else if (kvt_err_retryable(record->status) || record->status == KVT_DENIED)
        return record->status;
    if (record->status == KVT_OK && strlen(record->key) == record->size &&
        g4_object_name_make(&name, keys->bucket, record->key) == KVT_OK &&
        strcmp(name.text, keys->rows[keys->at].key) == 0)
        return KVT_OK;
    kvt_log_warn("gateway.long_keys", "no_key",
                 "%s is not listed: its record %s is missing or damaged; it is written again by a "
                 "PUT of the object",
                 keys->rows[keys->at].key, record->name.text);
    *key = "";
    return KVT_OK;
}

/* ---- one beginning ---- */

static bool
is_wanted(const struct gateway_long_keys *keys, const char *key)
{
    return strcmp(key, keys->after) > 0 && strncmp(key, keys->prefix, strlen(keys->prefix)) == 0 &&
           (keys->skip[0] == '\0' || strncmp(key, keys->skip, strlen(keys->skip)) != 0);
}

/* Keep it if it is among the smallest. */
static void
keep(struct gateway_long_keys *keys, const char *key, const struct g4_listed *object)
{
    size_t low = 0;
    size_t high = keys->kept;
    size_t slot = keys->kept;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (strcmp(keys->slots[keys->order[middle]].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (keys->kept == keys->limit) {
        keys->dropped = true;
        if (low == keys->limit)
            return;
        slot = keys->order[--keys->kept];
    }
    memmove(keys->order + low + 1, keys->order + low, (keys->kept - low) * sizeof(*keys->order));
    keys->order[low] = slot;
    keys->kept++;
    (void)snprintf(keys->slots[slot].key, sizeof(keys->slots[slot].key), "%s", key);
    keys->slots[slot].object = *object;
}

/* All names that share the beginning of the one at `at`. */
static enum kvt_err
gather(struct gateway_long_keys *keys)
{
    struct g4_object_name beginning;
    bool found = true;

    if (keys->slots == NULL)
        keys->slots = kvt_calloc(keys->limit, sizeof(*keys->slots));
    if (keys->order == NULL)
        keys->order = kvt_calloc(keys->limit, sizeof(*keys->order));
    if (keys->slots == NULL || keys->order == NULL)
        return KVT_NOMEM;
    keys->kept = keys->given = 0;
    keys->dropped = false;
    (void)snprintf(beginning.text, sizeof(beginning.text), "%s", keys->rows[keys->at].key);
    strrchr(beginning.text, '/')[1] = '\0';
    while (found &&
           strncmp(keys->rows[keys->at].key, beginning.text, strlen(beginning.text)) == 0) {
        const char *key;
        enum kvt_err rc = find_key(keys, &key);

        if (rc == KVT_OK && is_wanted(keys, key))
            keep(keys, key, &keys->rows[keys->at]);
        keys->at++;
        if (rc == KVT_OK)
            rc = find_name(keys, &found);
        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

enum kvt_err
gateway_long_keys_peek(struct gateway_long_keys *keys, const char **key,
                       const struct g4_listed **object)
{
    for (;;) {
        bool found = false;
        enum kvt_err rc;

        for (; keys->given < keys->kept; keys->given++) {
            const struct slot *slot = &keys->slots[keys->order[keys->given]];

            if (is_wanted(keys, slot->key)) {
                *key = slot->key;
                *object = &slot->object;
                return KVT_OK;
            }
        }
        if (keys->dropped) { /* read this beginning again for the rest of its keys */
            const struct slot *last = &keys->slots[keys->order[keys->kept - 1]];

            if (strcmp(last->key, keys->after) > 0)
                memcpy(keys->after, last->key, sizeof(keys->after));
            keys->dropped = keys->begun = false;
            keys->count = keys->at = 0;
            keys->token[0] = '\0';
        }
        rc = keys->none ? KVT_NOTFOUND : find_name(keys, &found);
        if (rc == KVT_OK)
            rc = found ? gather(keys) : KVT_NOTFOUND;
        if (rc != KVT_OK)
            return rc;
    }
}

void
gateway_long_keys_pass(struct gateway_long_keys *keys)
{
    memcpy(keys->after, keys->slots[keys->order[keys->given++]].key, sizeof(keys->after));
}

void
gateway_long_keys_skip(struct gateway_long_keys *keys, const char *beginning)
{
    (void)snprintf(keys->skip, sizeof(keys->skip), "%s", beginning);
}
