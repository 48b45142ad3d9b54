#include "g4/pair/bucket_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/kind.h"
#include "g4/pair/bucket_pair_list.h"

#define OWN_PREFIX ".kvtier-"

struct ladder {
    struct g4_store *near;
    struct g4_store *far;
    _Atomic bool far_answers;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t idle;
        size_t calls; /* under way */
    } shared;
};

/* What was asked below last. */
enum step {
    STEP_NEAR,
    STEP_FAR,
    STEP_AGAIN,       /* the near one once more; DELETE: the far one */
    STEP_WHAT,        /* GET of a part: HEAD of the near one, which has no such part */
    STEP_FIND_NEAR,   /* DELETE If-Match: HEAD, which of them it is that the caller saw */
    STEP_FIND_FAR,    /* the same, and PUT If-Match */
    STEP_DELETE_FAR,  /* DELETE If-Match: first the far copy of a block whose near one was seen, */
    STEP_DELETE_NEAR, /* then that */
    STEP_LIST_FAR,
};

struct call {
    struct ladder *ladder;
    struct g4_request *request; /* of the caller */
    struct g4_request child;    /* what is asked below */
    enum step step;
    bool near_was_it;                /* DELETE If-Match: the ETag is that of the near object */
    bool deleted;                    /* DELETE: something was there */
    struct g4_listed *rows;          /* LIST: room for two pages, the near one's and what is told */
    struct g4_bucket_pair_page near; /* LIST: in the first of them */
    char after[KVT_KEY_MAX];         /* LIST: where this page begins */
};

static void on_done(struct g4_request *child, void *arg);

/* What the caller asked for, as a request of our own. */
static void
child_init(struct call *call)
{
    call->child = *call->request;
    call->child.done = on_done;
    call->child.arg = call;
}

/* Nobody has heard of it yet. */
static void
take_answer(struct call *call, unsigned place)
{
    const struct g4_request *child = &call->child;
    struct g4_request *request = call->request;

    request->status = child->status;
    request->error = child->error;
    request->http = child->http;
    request->place = place;
    if (child->verb != request->verb)
        return; /* of a HEAD on the way */
    memcpy(request->etag, child->etag, sizeof(request->etag));
    request->meta = child->meta;
    request->buffer = child->buffer;
    request->buffer_size = child->buffer_size;
    request->object_size = child->object_size;
    request->summed = child->summed;
    request->body_crc32c = child->body_crc32c;
    request->modified_ms = child->modified_ms;
    request->server_ms = child->server_ms;
    request->listed_count = child->listed_count;
    memcpy(request->token, child->token, sizeof(request->token));
}

static void
finish(struct call *call, unsigned place)
{
    struct g4_request *request = call->request;
    struct ladder *ladder = call->ladder;

    take_answer(call, place);
    kvt_free(call->rows);
    kvt_free(call);
    request->done(request, request->arg);
    (void)pthread_mutex_lock(&ladder->shared.lock);
    if (--ladder->shared.calls == 0)
        (void)pthread_cond_broadcast(&ladder->shared.idle);
    (void)pthread_mutex_unlock(&ladder->shared.lock);
}

/* An answer of our own, in place of one of the stores'. */
static void
finish_with(struct call *call, enum kvt_err status, const char *text)
{
    child_init(call);
    call->child.status = kvt_error_set(&call->child.error, status, "%s", text);
    finish(call, G4_BUCKET_PAIR_FAR);
}

/* Is nobody there?  Said of the far one, it is no word on the near one. */
static bool
is_away(enum kvt_err status)
{
    return status == KVT_UNAVAILABLE || status == KVT_TIMEOUT;
}

/* A plain DELETE, which takes whatever is there, ends where it began: in the far one. */
static bool
deletes_all(const struct call *call)
{
    return call->request->verb == G4_DELETE && call->request->condition != G4_IF_MATCH;
}

static bool
asks_far(const struct call *call)
{
    return call->step == STEP_FAR || call->step == STEP_FIND_FAR || call->step == STEP_DELETE_FAR ||
           call->step == STEP_LIST_FAR || (call->step == STEP_AGAIN && deletes_all(call));
}

static void
ask(struct call *call, enum step step)
{
    struct ladder *ladder = call->ladder;
    enum kvt_err rc;
    bool far;

    call->step = step;
    far = asks_far(call);
    if (far && !atomic_load(&ladder->far_answers)) {
        finish_with(call, KVT_AGAIN, "the far bucket does not answer");
        return;
    }
    rc = g4_store_submit(far ? ladder->far : ladder->near, &call->child);
    if (rc != KVT_OK)
        finish_with(call, rc, "the bucket takes no request now");
}

/* The next one, of what was asked for. */
static void
ask_anew(struct call *call, enum step step)
{
    if (call->request->buffer == NULL)
        kvt_free(call->child.buffer); /* the store made it, for nothing */
    child_init(call);
    ask(call, step);
}

static void
head_init(struct call *call)
{
    call->child = (struct g4_request){.verb = G4_HEAD,
                                      .key = call->request->key,
                                      .deadline_ms = call->request->deadline_ms,
                                      .done = on_done,
                                      .arg = call};
}

static void
ask_head(struct call *call, enum step step)
{
    if (call->request->buffer == NULL)
        kvt_free(call->child.buffer);
    head_init(call);
    ask(call, step);
}

/* Is there no copy, as far as this answer tells?  The first bytes of an empty object are out of
 * range. */
static bool
shows_nothing(const struct g4_request *child)
{
    if (child->status == KVT_NOTFOUND)
        return true;
    if (child->status == KVT_RANGE)
        return child->range_size > 0 && child->range_at == 0;
    return (child->status == KVT_OK || child->status == KVT_CORRUPT) && child->meta.present &&
           child->meta.length == 0 && g4_kind_of_object(child) == G4_KIND_TOMBSTONE;
}

/* ---- GET, HEAD ---- */

static void
finish_removed(struct call *call)
{
    if (call->request->buffer == NULL)
        kvt_free(call->child.buffer);
    child_init(call);
    call->child.status = kvt_error_set(&call->child.error, KVT_NOTFOUND, "it was removed");
    finish(call, G4_BUCKET_PAIR_NEAR);
}

/* Did it say what is there? */
static bool
is_known(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_CORRUPT || status == KVT_NOTFOUND;
}

static void
on_read(struct call *call)
{
    const struct g4_request *child = &call->child;
    const bool far = call->step == STEP_FAR;

    if (!far && (child->status == KVT_OK || child->status == KVT_CORRUPT) &&
        g4_kind_is_removed(child))
        finish_removed(call);
    else if (call->step == STEP_NEAR && child->status == KVT_RANGE && shows_nothing(child))
        ask_head(call, STEP_WHAT); /* the answer does not say whose end it is behind */
    else if (call->step == STEP_WHAT && is_known(child->status))
        ask_anew(call, STEP_FAR);
    else if (call->step == STEP_WHAT)
        finish(call, G4_BUCKET_PAIR_NEAR);
    else if (!shows_nothing(child) || call->step == STEP_AGAIN)
        finish(call, far ? G4_BUCKET_PAIR_FAR : G4_BUCKET_PAIR_NEAR);
    else
        ask_anew(call, far ? STEP_AGAIN : STEP_FAR);
}

/* ---- PUT ---- */

/* If-Match of what is not in the near one may mean the far one's object. */
static void
on_put(struct call *call)
{
    const struct g4_request *request = call->request;
    const enum kvt_err status = call->child.status;

    switch (call->step) {
    case STEP_NEAR:
        if (request->condition == G4_IF_MATCH &&
            (status == KVT_NOTFOUND || status == KVT_PRECONDITION))
            ask_head(call, STEP_FIND_FAR);
        else
            finish(call, G4_BUCKET_PAIR_NEAR);
        break;
    case STEP_FIND_FAR:
        if (status == KVT_NOTFOUND || ((status == KVT_OK || status == KVT_CORRUPT) &&
                                       strcmp(call->child.etag, request->etag) != 0))
            finish_with(call, KVT_PRECONDITION, "the object is another one now");
        else if (status != KVT_OK && status != KVT_CORRUPT)
            finish(call, G4_BUCKET_PAIR_FAR);
        else
            ask_anew(call, STEP_FAR);
        break;
    default: finish(call, G4_BUCKET_PAIR_FAR); break;
    }
}

/* ---- DELETE ---- */

static bool
is_gone(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_NOTFOUND;
}

/* Delete in the far bucket, in the near one, in the far one again: what a move copied meanwhile
 * goes too.  The far one is first, so that nothing is deleted while it is away.  A caller who says
 * "once" has said that what is put meanwhile may come last. */
static void
on_delete(struct call *call)
{
    call->deleted = call->deleted || call->child.status == KVT_OK;
    if (!is_gone(call->child.status)) {
        finish(call, asks_far(call) ? G4_BUCKET_PAIR_FAR : G4_BUCKET_PAIR_NEAR);
    } else if (call->step != STEP_AGAIN) {
        ask_anew(call, call->step == STEP_FAR ? STEP_NEAR : STEP_AGAIN);
    } else {
        call->child.status = call->deleted ? KVT_OK : KVT_NOTFOUND;
        finish(call, G4_BUCKET_PAIR_FAR);
    }
}

static void
delete_seen(struct call *call, enum step step, const char *etag)
{
    char seen[G4_ETAG_MAX];

    (void)snprintf(seen, sizeof(seen), "%s", etag);
    child_init(call);
    memcpy(call->child.etag, seen, sizeof(seen));
    ask(call, step);
}

/* Only what the caller saw, and the other copy of the same block with it.  The far one goes first:
 * who reads meanwhile finds the near one. */
static void
on_delete_seen(struct call *call)
{
    const struct g4_request *request = call->request;
    const struct g4_request *child = &call->child;
    const bool there = child->status == KVT_OK || child->status == KVT_CORRUPT;
    const bool same = there && strcmp(child->etag, request->etag) == 0;

    switch (call->step) {
    case STEP_FIND_NEAR:
        call->near_was_it = same;
        if (there && !same && !shows_nothing(child))
            finish_with(call, KVT_PRECONDITION, "the object is another one now");
        else if (there || child->status == KVT_NOTFOUND)
            ask_head(call, STEP_FIND_FAR);
        else
            finish(call, G4_BUCKET_PAIR_NEAR);
        break;
    case STEP_FIND_FAR:
        if (there && !same && !call->near_was_it)
            finish_with(call, KVT_PRECONDITION, "the object is another one now");
        else if (there)
            delete_seen(call, STEP_DELETE_FAR, child->etag);
        else if (child->status == KVT_NOTFOUND && call->near_was_it)
            delete_seen(call, STEP_DELETE_NEAR, request->etag);
        else
            finish(call, G4_BUCKET_PAIR_FAR); /* NOTFOUND: in neither */
        break;
    case STEP_DELETE_FAR:
        if (is_gone(child->status) && call->near_was_it)
            delete_seen(call, STEP_DELETE_NEAR, request->etag);
        else
            finish(call, G4_BUCKET_PAIR_FAR);
        break;
    default: finish(call, G4_BUCKET_PAIR_NEAR); break;
    }
}

/* ---- LIST ---- */

static void
list_init(struct call *call)
{
    child_init(call);
    call->child.token[0] = '\0';
    call->child.after = call->after[0] == '\0' ? NULL : call->after;
}

/* Both pages are here. */
static void
on_both_listed(struct call *call)
{
    struct g4_listed *out = call->rows + G4_LIST_KEYS_MAX;
    struct g4_request *child = &call->child;
    const struct g4_bucket_pair_page far = {
        .rows = child->listed, .count = child->listed_count, .more = child->token[0] != '\0'};
    char next[KVT_KEY_MAX];
    const size_t count = g4_bucket_pair_merge(&call->near, &far, out, next);

    if (count == 0 && next[0] != '\0') { /* none of them is to be told */
        memcpy(call->after, next, sizeof(next));
        list_init(call);
        ask(call, STEP_NEAR);
        return;
    }
    memcpy(child->listed, out, count * sizeof(*out));
    child->listed_count = count;
    (void)snprintf(child->token, sizeof(child->token), "%s", next);
    finish(call, G4_BUCKET_PAIR_NEAR);
}

static void
on_list(struct call *call)
{
    struct g4_request *child = &call->child;

    if (child->status != KVT_OK) {
        finish(call, call->step == STEP_LIST_FAR ? G4_BUCKET_PAIR_FAR : G4_BUCKET_PAIR_NEAR);
    } else if (child->listed_count == 0 && child->token[0] != '\0') {
        ask(call, call->step); /* all keys were too long: behind its token there may be others */
    } else if (call->step == STEP_LIST_FAR) {
        on_both_listed(call);
    } else {
        memcpy(call->rows, child->listed, child->listed_count * sizeof(*call->rows));
        call->near = (struct g4_bucket_pair_page){
            .rows = call->rows, .count = child->listed_count, .more = child->token[0] != '\0'};
        list_init(call);
        ask(call, STEP_LIST_FAR);
    }
}

/* ---- all of them ---- */

static void
on_done(struct g4_request *child, void *arg)
{
    struct call *call = arg;
    const bool far = asks_far(call);

    if (far && is_away(child->status)) {
        if (call->request->buffer == NULL)
            kvt_free(child->buffer);
        finish_with(call, KVT_AGAIN, "the far bucket does not answer");
        return;
    }
    switch (child->verb) {
    case G4_LIST: on_list(call); break;
    case G4_GET: on_read(call); break;
    case G4_PUT: on_put(call); break;
    case G4_DELETE:
        if (call->request->condition == G4_IF_MATCH)
            on_delete_seen(call);
        else
            on_delete(call);
        break;
    case G4_HEAD:
        if (call->request->verb == G4_PUT)
            on_put(call);
        else if (call->request->verb == G4_DELETE)
            on_delete_seen(call);
        else
            on_read(call);
        break;
    }
}

/* May the far bucket have a part in it? */
static bool
is_ours(const struct g4_request *request)
{
    if (request->verb == G4_LIST)
        return strncmp(request->key, OWN_PREFIX, strlen(OWN_PREFIX)) != 0;
    if (request->verb == G4_PUT && request->condition != G4_IF_MATCH)
        return false;
    return g4_kind_of_key(request->key, NULL) == G4_KIND_BLOCK;
}

/* Where the page begins: the token is a key. */
static enum kvt_err
begin_list(struct call *call)
{
    const struct g4_request *request = call->request;
    const char *after = request->token[0] != '\0' ? request->token : request->after;

    if (after != NULL && strlen(after) >= sizeof(call->after))
        return KVT_INVALID;
    if (after != NULL)
        memcpy(call->after, after, strlen(after) + 1);
    call->rows = kvt_calloc(2 * (size_t)G4_LIST_KEYS_MAX, sizeof(*call->rows));
    list_init(call);
    return call->rows == NULL ? KVT_NOMEM : KVT_OK;
}

static void
count_call(struct ladder *ladder, bool begins)
{
    (void)pthread_mutex_lock(&ladder->shared.lock);
    ladder->shared.calls += begins ? 1 : (size_t)-1;
    if (ladder->shared.calls == 0)
        (void)pthread_cond_broadcast(&ladder->shared.idle);
    (void)pthread_mutex_unlock(&ladder->shared.lock);
}

static enum kvt_err
ladder_submit(void *self, struct g4_request *request)
{
    struct ladder *ladder = self;
    struct call *call;
    enum kvt_err rc = KVT_OK;

    if (!is_ours(request))
        return g4_store_submit(ladder->near, request);
    call = kvt_calloc(1, sizeof(*call));
    if (call == NULL)
        return KVT_NOMEM;
    call->ladder = ladder;
    call->request = request;
    call->step = STEP_NEAR;
    child_init(call);
    if (request->verb == G4_LIST) {
        rc = begin_list(call);
    } else if (deletes_all(call)) {
        count_call(ladder, true);
        ask(call, STEP_FAR);
        return KVT_OK;
    } else if (request->verb == G4_DELETE) {
        call->step = STEP_FIND_NEAR;
        head_init(call);
    }
    if (rc == KVT_OK) {
        count_call(ladder, true);
        rc = g4_store_submit(ladder->near, &call->child);
        if (rc == KVT_OK)
            return KVT_OK; /* it may be over by now */
        count_call(ladder, false);
    }
    kvt_free(call->rows);
    kvt_free(call);
    return rc;
}

static void
ladder_close(void *self)
{
    struct ladder *ladder = self;

    (void)pthread_mutex_lock(&ladder->shared.lock);
    while (ladder->shared.calls > 0)
        (void)pthread_cond_wait(&ladder->shared.idle, &ladder->shared.lock);
    (void)pthread_mutex_unlock(&ladder->shared.lock);
    g4_store_close(ladder->near);
    g4_store_close(ladder->far);
    (void)pthread_cond_destroy(&ladder->shared.idle);
    (void)pthread_mutex_destroy(&ladder->shared.lock);
    kvt_free(ladder);
}

static const struct g4_store_driver ladder_driver = {
    .name = "ladder", .submit = ladder_submit, .close = ladder_close};

enum kvt_err
g4_bucket_pair_open(struct g4_store **out, struct g4_store *near, struct g4_store *far)
{
    struct ladder *ladder = kvt_calloc(1, sizeof(*ladder));
    enum kvt_err rc;

    *out = NULL;
    if (ladder == NULL)
        return KVT_NOMEM;
    ladder->near = near;
    ladder->far = far;
    atomic_store(&ladder->far_answers, true);
    (void)pthread_mutex_init(&ladder->shared.lock, NULL);
    (void)pthread_cond_init(&ladder->shared.idle, NULL);
    rc = g4_store_new(out, &ladder_driver, ladder);
    if (rc != KVT_OK)
        kvt_free(ladder);
    return rc;
}

void
g4_bucket_pair_tell(struct g4_store *store, bool far_answers)
{
    struct ladder *ladder = g4_store_self(store, &ladder_driver);

    atomic_store(&ladder->far_answers, far_answers);
}
