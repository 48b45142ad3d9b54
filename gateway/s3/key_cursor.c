#include "gateway/s3/key_cursor.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/s3/key_cursor_internal.h"
#include "gateway/s3/listing_prefetch.h"
#include "gateway/tier/store_batch.h"

/* Identity names never begin with this; everything of KVTier's own does. */
#define HIDDEN "."

/* Names of one form, a page of the store at a time. */
struct source {
    enum g4_object_form form;
    bool none;    /* no key with the prefix has such a name */
    bool fetched; /* a page */
    struct g4_object_name prefix;
    struct g4_listed *rows; /* G4_LIST_KEYS_MAX */
    size_t count;
    size_t at;
    bool keyed; /* `key` is that of the row at `at` */
    char key[G4_CLIENT_KEY_MAX];
    char bound[G4_CLIENT_KEY_MAX];    /* keys up to here are not in later pages; "": not known */
    char way[GATEWAY_KEY_CURSOR_WAY]; /* of the page at hand */
    char token[G4_TOKEN_MAX];         /* of the next page; "": this is the last */
    enum kvt_err status;              /* of the first page */
    int http;
};

struct gateway_key_cursor {
    struct g4_store *store;
    struct gateway_key_cursor_start start;
    struct source sources[GATEWAY_KEY_CURSOR_WAYS];
    struct gateway_long_keys *long_keys;
    bool long_more;                /* perhaps */
    char after[G4_CLIENT_KEY_MAX]; /* keys up to here are done with */
    char skip[G4_CLIENT_KEY_MAX];  /* and those that begin so; "": none */
    unsigned pages;
    struct source *best; /* whose key was given; NULL: long_keys' */
};

static bool
begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* ---- life ---- */

/* The first page is the one behind `after`. */
static void
begin_by_name(const struct gateway_key_cursor *cursor, struct source *source)
{
    const struct gateway_key_cursor_start *start = &cursor->start;
    struct g4_object_name after = {.text = ""};

    if (start->after[0] != '\0')
        g4_object_name_after(&after, start->bucket, source->form, start->after, start->beyond);
    /* A store may answer a place outside the prefix with nothing at all. */
    if (strcmp(after.text, source->prefix.text) < 0)
        after.text[0] = '\0';
    source->none = after.text[0] != '\0' && !begins_with(after.text, source->prefix.text);
    (void)snprintf(source->way, sizeof(source->way), "a%s", after.text);
}

static enum kvt_err
open_source(struct gateway_key_cursor *cursor, struct source *source, const char *way)
{
    source->none = g4_object_name_prefix(&source->prefix, cursor->start.bucket, source->form,
                                         cursor->start.prefix) != KVT_OK;
    if (source->none)
        return KVT_OK;
    source->rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*source->rows));
    if (source->rows == NULL)
        return KVT_NOMEM;
    if (way != NULL &&
        ((way[0] == 'a' && strlen(way) <= G4_OBJECT_NAME_MAX) || (way[0] == 't' && way[1] != '\0')))
        (void)snprintf(source->way, sizeof(source->way), "%s", way);
    else
        begin_by_name(cursor, source);
    return KVT_OK;
}

enum kvt_err
gateway_key_cursor_new(struct gateway_key_cursor **out, struct g4_store *store,
                       const struct gateway_key_cursor_start *start)
{
    static const enum g4_object_form forms[] = {G4_OBJECT_IDENTITY, G4_OBJECT_ESCAPED};
    struct gateway_key_cursor *cursor = kvt_calloc(1, sizeof(*cursor));
    enum kvt_err rc;

    *out = NULL;
    if (cursor == NULL)
        return KVT_NOMEM;
    cursor->store = store;
    cursor->start = *start;
    cursor->long_more = true;
    (void)snprintf(cursor->after, sizeof(cursor->after), "%s", start->after);
    rc = gateway_long_keys_new(&cursor->long_keys, store, start->bucket, start->prefix,
                               cursor->after, start->most);
    for (unsigned i = 0; rc == KVT_OK && i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        cursor->sources[i].form = forms[i];
        rc = open_source(cursor, &cursor->sources[i], start->ways[i]);
    }
    if (rc == KVT_OK && start->beyond)
        gateway_key_cursor_skip(cursor, start->after);
    if (rc == KVT_OK)
        *out = cursor;
    else
        gateway_key_cursor_free(cursor);
    return rc;
}

void
gateway_key_cursor_free(struct gateway_key_cursor *cursor)
{
    if (cursor == NULL)
        return;
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++)
        kvt_free(cursor->sources[i].rows);
    gateway_long_keys_free(cursor->long_keys);
    kvt_free(cursor);
}

/* ---- pages ---- */

/* The request for the page that source->way says. */
static void
ask(const struct gateway_key_cursor *cursor, const struct source *source,
    struct g4_request *request)
{
    request->verb = G4_LIST;
    request->key = source->prefix.text;
    request->listed = source->rows;
    request->listed_wanted = cursor->start.wanted;
    if (source->way[0] == 't')
        (void)snprintf(request->token, sizeof(request->token), "%s", source->way + 1);
    else
        request->after = source->way[1] == '\0' ? NULL : source->way + 1;
}

/* Keys up to the last row's are not in later pages. */
static void
set_bound(struct gateway_key_cursor *cursor, struct source *source)
{
    const char *last = source->rows[source->count - 1].key;
    char key[G4_CLIENT_KEY_MAX];

    if (source->form == G4_OBJECT_IDENTITY)
        (void)snprintf(source->bound, sizeof(source->bound), "%s", last);
    else if (g4_object_name_key(cursor->start.bucket, last, key) == KVT_OK)
        memcpy(source->bound, key, sizeof(source->bound));
}

static void
take_page(struct gateway_key_cursor *cursor, struct source *source,
          const struct g4_request *request)
{
    source->status = request->status;
    source->http = request->http;
    if (request->status != KVT_OK)
        return;
    source->fetched = true;
    source->count = request->listed_count;
    source->at = 0;
    source->keyed = false;
    memcpy(source->token, request->token, sizeof(source->token));
    if (source->count > 0)
        set_bound(cursor, source);
}

static void
fetch(struct gateway_key_cursor *cursor, struct source *source)
{
    struct g4_request request = {.verb = G4_LIST};

    ask(cursor, source, &request);
    if (g4_store_perform(cursor->store, &request) != request.status)
        request.status = KVT_AGAIN; /* its queue was full */
    take_page(cursor, source, &request);
}

/* A token that the store does not know any more is none of the client's business: the page is asked
 * for by the name it begins behind. */
static enum kvt_err
settle_first(struct gateway_key_cursor *cursor, struct source *source)
{
    if (source->way[0] == 't' && (source->status == KVT_INVALID || source->http == 400)) {
        begin_by_name(cursor, source);
        if (source->none)
            return KVT_OK;
        fetch(cursor, source);
    }
    return source->status;
}

static bool
take_prefetched(struct gateway_key_cursor *cursor, struct source *source)
{
    struct g4_request request = {.verb = G4_LIST};

    if (cursor->start.prefetch == NULL || source->way[0] != 't')
        return false;
    ask(cursor, source, &request);
    if (!gateway_listing_prefetch_take(cursor->start.prefetch, &request))
        return false;
    take_page(cursor, source, &request);
    return true;
}

static void
on_first(void *arg, struct g4_request *request, size_t index)
{
    struct gateway_key_cursor *cursor = arg;

    take_page(cursor, &cursor->sources[index], request);
}

/* The first page of each form, at once. */
static enum kvt_err
fetch_first(struct gateway_key_cursor *cursor)
{
    struct gateway_store_batch *batch;
    enum kvt_err rc = gateway_store_batch_new(&batch, GATEWAY_KEY_CURSOR_WAYS, on_first, cursor);

    if (rc != KVT_OK)
        return rc;
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        struct source *source = &cursor->sources[i];
        struct g4_request *request;

        if (source->none || take_prefetched(cursor, source))
            continue;
        request = gateway_store_batch_prepare(batch, i);
        ask(cursor, source, request);
        gateway_store_batch_submit(batch, cursor->store, request);
    }
    gateway_store_batch_free(batch);
    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS && rc == KVT_OK; i++)
        if (!cursor->sources[i].none)
            rc = settle_first(cursor, &cursor->sources[i]);
    cursor->pages++;
    cursor->start.wanted = 0; /* the next request begins with a page of the store */
    return rc;
}

/* The next page: behind what is not wanted, where the last one ended in it. */
static enum kvt_err
fetch_next(struct gateway_key_cursor *cursor, struct source *source)
{
    const char *last = source->count == 0 ? "" : source->rows[source->count - 1].key;
    struct g4_object_name after = {.text = ""};

    if (source->form == G4_OBJECT_IDENTITY && begins_with(last, HIDDEN))
        g4_object_name_after(&after, cursor->start.bucket, source->form, HIDDEN, true);
    else if (cursor->skip[0] != '\0' && source->bound[0] != '\0' &&
             begins_with(source->bound, cursor->skip))
        g4_object_name_after(&after, cursor->start.bucket, source->form, cursor->skip, true);
    if (after.text[0] != '\0' && strcmp(after.text, last) > 0)
        (void)snprintf(source->way, sizeof(source->way), "a%s", after.text);
    else
        (void)snprintf(source->way, sizeof(source->way), "t%s", source->token);
    cursor->pages++;
    fetch(cursor, source);
    return source->status;
}

/* ---- keys ---- */

/* Go to the next row that is a wanted key of this form.  False: the page is done with. */
static bool
find_row(struct gateway_key_cursor *cursor, struct source *source)
{
    for (; source->at < source->count; source->at++, source->keyed = false) {
        const char *name = source->rows[source->at].key;

        if (!source->keyed) {
            if ((source->form == G4_OBJECT_IDENTITY && begins_with(name, HIDDEN)) ||
                !begins_with(name, source->prefix.text) ||
                g4_object_name_key(cursor->start.bucket, name, source->key) != KVT_OK ||
                !begins_with(source->key, cursor->start.prefix))
                continue;
            source->keyed = true;
        }
        if (strcmp(source->key, cursor->after) > 0 &&
            (cursor->skip[0] == '\0' || !begins_with(source->key, cursor->skip)))
            return true;
    }
    return false;
}

/* Could its next page have a key before `key`? */
static bool
needs_page(const struct source *source, const char *key)
{
    return source->token[0] != '\0' &&
           (key == NULL || source->bound[0] == '\0' || strcmp(source->bound, key) < 0);
}

static enum kvt_err
peek_long(struct gateway_key_cursor *cursor, const char **key, const struct g4_listed **object)
{
    enum kvt_err rc = KVT_NOTFOUND;

    *key = NULL;
    if (cursor->long_more)
        rc = gateway_long_keys_peek(cursor->long_keys, key, object);
    cursor->long_more = rc == KVT_OK;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
gateway_key_cursor_peek(struct gateway_key_cursor *cursor, const char **key,
                        const struct g4_listed **object)
{
    enum kvt_err rc = cursor->pages == 0 ? fetch_first(cursor) : KVT_OK;
    bool again = true;

    if (rc == KVT_OK)
        rc = peek_long(cursor, key, object);
    cursor->best = NULL;
    for (unsigned i = 0; rc == KVT_OK && i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        struct source *source = &cursor->sources[i];

        if (find_row(cursor, source) && (*key == NULL || strcmp(source->key, *key) < 0)) {
            cursor->best = source;
            *key = source->key;
            *object = &source->rows[source->at];
        }
    }
    while (rc == KVT_OK && again) {
        again = false;
        for (unsigned i = 0; rc == KVT_OK && i < GATEWAY_KEY_CURSOR_WAYS; i++) {
            struct source *source = &cursor->sources[i];

            if (find_row(cursor, source) || !needs_page(source, *key))
                continue;
            if (cursor->pages >= GATEWAY_KEY_CURSOR_PAGES)
                return KVT_AGAIN;
            rc = fetch_next(cursor, source);
            again = true;
            if (rc == KVT_OK && find_row(cursor, source) &&
                (*key == NULL || strcmp(source->key, *key) < 0)) {
                cursor->best = source;
                *key = source->key;
                *object = &source->rows[source->at];
            }
        }
    }
    return rc == KVT_OK && *key == NULL ? KVT_NOTFOUND : rc;
}

void
gateway_key_cursor_pass(struct gateway_key_cursor *cursor)
{
    if (cursor->best == NULL) {
        gateway_long_keys_pass(cursor->long_keys);
        return;
    }
    cursor->best->at++;
    cursor->best->keyed = false;
}

void
gateway_key_cursor_skip(struct gateway_key_cursor *cursor, const char *beginning)
{
    (void)snprintf(cursor->skip, sizeof(cursor->skip), "%s", beginning);
    gateway_long_keys_skip(cursor->long_keys, beginning);
}

bool
gateway_key_cursor_more(struct gateway_key_cursor *cursor)
{
    const struct g4_listed *object;
    const char *key;

    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++)
        if (find_row(cursor, &cursor->sources[i]) || cursor->sources[i].token[0] != '\0')
            return true;
    return peek_long(cursor, &key, &object) != KVT_OK || key != NULL;
}

const char *
gateway_key_cursor_reached(const struct gateway_key_cursor *cursor)
{
    const char *reached = NULL;

    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        const struct source *source = &cursor->sources[i];

        if (source->at == source->count && source->token[0] != '\0' &&
            (reached == NULL || strcmp(source->bound, reached) < 0))
            reached = source->bound;
    }
    return reached == NULL ? "" : reached;
}

void
gateway_key_cursor_way(const struct gateway_key_cursor *cursor, unsigned form,
                       char way[GATEWAY_KEY_CURSOR_WAY])
{
    const struct source *source = &cursor->sources[form];

    if (source->fetched && source->at == source->count && source->token[0] != '\0')
        (void)snprintf(way, GATEWAY_KEY_CURSOR_WAY, "t%s", source->token);
    else
        (void)snprintf(way, GATEWAY_KEY_CURSOR_WAY, "%s", source->way);
}

void
gateway_key_cursor_look_ahead(const struct gateway_key_cursor *cursor)
{
    const struct source *one = NULL;

    for (unsigned i = 0; i < GATEWAY_KEY_CURSOR_WAYS; i++) {
        if (cursor->sources[i].count == 0)
            continue;
        if (one != NULL)
            return;
        one = &cursor->sources[i];
    }
    if (cursor->start.prefetch != NULL && one != NULL && one->count == G4_LIST_KEYS_MAX &&
        one->token[0] != '\0')
        gateway_listing_prefetch_fetch(cursor->start.prefetch, cursor->store, one->prefix.text,
                                       one->token);
}
