#include "g4/packed/packed_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/packed/packed_store_internal.h"

enum { BATCH = 256, IDLE_MS = 1000 };

/* ---- whose key is it ---- */

static struct g4_packed_space *
find_space(struct g4_packed_store *store, const char *key, struct kvt_key *parsed)
{
    if (kvt_key_parse(key, parsed) != KVT_OK)
        return NULL;
    for (size_t i = 0; i < store->space_count; i++)
        if (strcmp(store->spaces[i].name, parsed->namespace_) == 0)
            return &store->spaces[i];
    return NULL;
}

bool
g4_packed_space_overlaps(const struct g4_packed_space *space, const char *prefix)
{
    const size_t own = strlen(space->name);
    const size_t size = strlen(prefix);

    return strncmp(space->name, prefix, size < own ? size : own) == 0 &&
           (size <= own || prefix[own] == '/');
}

bool
g4_packed_store_reserved(const struct g4_packed_store *store, const char *key)
{
    for (size_t i = 0; i < store->space_count; i++) {
        const size_t own = strlen(store->spaces[i].name);

        if (strncmp(key, store->spaces[i].name, own) == 0 &&
            strncmp(key + own, G4_SEGMENT_FOLDER, strlen(G4_SEGMENT_FOLDER)) == 0)
            return true;
    }
    return false;
}

/* ---- calls ---- */

static struct g4_packed_call *
call_new(struct g4_packed_store *store, struct g4_packed_space *space, struct g4_request *request,
         enum g4_packed_step step)
{
    const uint64_t patience_ms = kvt_clock_mono_ms() + store->patience_ms;
    struct g4_packed_call *call = NULL;
    bool room;

    pthread_mutex_lock(&store->shared.lock);
    room = store->shared.calls < G4_PACKED_STORE_CALLS;
    store->shared.calls += room;
    pthread_mutex_unlock(&store->shared.lock);
    if (room)
        call = kvt_calloc(1, sizeof(*call));
    if (room && call == NULL) {
        pthread_mutex_lock(&store->shared.lock);
        store->shared.calls--;
        pthread_mutex_unlock(&store->shared.lock);
    }
    if (call == NULL)
        return NULL;
    call->store = store;
    call->space = space;
    call->request = request;
    call->step = step;
    call->child = *request;
    call->deadline_ms = request->deadline_ms != 0 && request->deadline_ms < patience_ms
                            ? request->deadline_ms
                            : patience_ms;
    return call;
}

/* ---- looking for manifests ---- */

/* Look for the newest manifest of one namespace, once for all calls in hand. */
static void
look(struct g4_packed_space *space)
{
    if (space->looked)
        return;
    space->looked = true;
    space->outcome = g4_packed_refresh(space->packed, &space->error);
    /* Nothing of the caller's is damaged: the answer must not have its object replaced. */
    if (space->outcome == KVT_CORRUPT)
        space->outcome = KVT_IO;
}

static void
look_and_resume(struct g4_packed_call *call)
{
    struct g4_packed_store *store = call->store;
    const struct g4_packed_space *failed = NULL;

    for (size_t i = 0; i < store->space_count; i++) {
        struct g4_packed_space *space = &store->spaces[i];

        if (call->space == NULL ? !g4_packed_space_overlaps(space, call->request->key)
                                : call->space != space)
            continue;
        look(space);
        if (space->outcome != KVT_OK)
            failed = space;
    }
    if (failed == NULL)
        g4_packed_call_resume(call);
    else
        g4_packed_call_unseen(call, failed->outcome, &failed->error);
}

static void *
run_looker(void *arg)
{
    struct g4_packed_store *store = arg;
    void *items[BATCH];

    for (;;) {
        const size_t count = kvt_queue_take(store->waiting, items, BATCH, IDLE_MS);

        if (count == 0 && kvt_queue_closed(store->waiting))
            return NULL;
        for (size_t i = 0; i < store->space_count; i++)
            store->spaces[i].looked = false;
        for (size_t i = 0; i < count; i++)
            look_and_resume(items[i]);
    }
}

/* ---- the store ---- */

/* Nothing of the packer's own is anybody's. */
static enum kvt_err
refuse_reserved(struct g4_request *request)
{
    request->status = request->verb == G4_PUT ? KVT_DENIED : KVT_NOTFOUND;
    (void)kvt_error_set(&request->error, request->status, "%.80s belongs to a packed namespace",
                        request->key);
    request->done(request, request->arg);
    return KVT_OK;
}

static enum kvt_err
submit_list(struct g4_packed_store *store, struct g4_request *request)
{
    struct g4_packed_call *call;
    bool concerned = false;

    for (size_t i = 0; i < store->space_count; i++)
        concerned |= g4_packed_space_overlaps(&store->spaces[i], request->key);
    if (!concerned)
        return g4_store_submit(store->inner, request);
    if (strlen(request->token) >= KVT_KEY_MAX)
        return KVT_INVALID; /* none of ours */
    call = call_new(store, NULL, request, G4_PACKED_LIST);
    if (call == NULL)
        return KVT_AGAIN;
    /* Tokens of this store are the last key told of. */
    if (request->token[0] != '\0') {
        memcpy(call->child_key, request->token, strlen(request->token) + 1);
        call->child.after = call->child_key;
        call->child.token[0] = '\0';
    }
    g4_packed_call_send(call);
    return KVT_OK;
}

static enum kvt_err
submit_block(struct g4_packed_store *store, struct g4_packed_space *space,
             struct g4_request *request, const struct kvt_key *key)
{
    const bool reads = request->verb == G4_GET || request->verb == G4_HEAD;
    const bool fresh = g4_packed_age_ms(space->packed) < store->fresh_ms;
    struct g4_packed_call *call;

    /* Whatever is packed from here on, a PUT over nothing does no harm. */
    if (request->condition == G4_IF_ABSENT && fresh && !g4_packed_knows(space->packed, key))
        return g4_store_submit(store->inner, request);
    call = call_new(store, space, request,
                    reads                     ? G4_PACKED_READ
                    : request->verb == G4_PUT ? G4_PACKED_WRITE
                                              : G4_PACKED_DELETE);
    if (call == NULL)
        return KVT_AGAIN;
    call->key = *key;
    if (reads && fresh)
        g4_packed_call_read(call);
    else if (request->verb == G4_DELETE)
        g4_packed_call_send(call);
    else
        g4_packed_call_wait(call);
    return KVT_OK;
}

static enum kvt_err
packed_store_submit(void *self, struct g4_request *request)
{
    struct g4_packed_store *store = self;
    struct g4_packed_space *space;
    struct kvt_key key;

    if (request->verb == G4_LIST)
        return submit_list(store, request);
    if (g4_packed_store_reserved(store, request->key))
        return refuse_reserved(request);
    space = find_space(store, request->key, &key);
    return space == NULL ? g4_store_submit(store->inner, request)
                         : submit_block(store, space, request, &key);
}

static void
stop(struct g4_packed_store *store)
{
    atomic_store(&store->stopping, true);
    for (size_t i = 0; i < store->space_count; i++)
        atomic_store(&store->spaces[i].hurry, true);
}

static void
packed_store_close(void *self)
{
    struct g4_packed_store *store = self;

    stop(store);
    pthread_mutex_lock(&store->shared.lock);
    while (store->shared.calls > 0)
        pthread_cond_wait(&store->shared.changed, &store->shared.lock);
    pthread_mutex_unlock(&store->shared.lock);
    if (store->waiting != NULL)
        kvt_queue_close(store->waiting);
    if (store->retiring != NULL)
        kvt_queue_close(store->retiring);
    if (store->threads > 0)
        (void)pthread_join(store->looker, NULL);
    if (store->threads > 1)
        (void)pthread_join(store->retirer, NULL);
    g4_store_close(store->inner);
    for (size_t i = 0; i < store->space_count; i++)
        g4_packed_free(store->spaces[i].packed);
    kvt_queue_free(store->waiting);
    kvt_queue_free(store->retiring);
    (void)pthread_cond_destroy(&store->shared.changed);
    (void)pthread_mutex_destroy(&store->shared.lock);
    kvt_free(store);
}

static const struct g4_store_driver packed_store_driver = {
    .name = "packed", .submit = packed_store_submit, .close = packed_store_close};

struct g4_packed_store *
g4_packed_store_of(struct g4_store *store)
{
    struct g4_packed_store *self = g4_store_self(store, &packed_store_driver);

    assert(self != NULL);
    return self;
}

void
g4_packed_store_stop(struct g4_store *store)
{
    stop(g4_packed_store_of(store));
}

/* One namespace of the list. */
static enum kvt_err
add_space(struct g4_packed_store *store, struct g4_store *inner, const char *name, size_t size,
          struct kvt_error *err)
{
    struct g4_packed_space *space = &store->spaces[store->space_count];
    const struct g4_segment_name longest = {0};
    char key[KVT_KEY_MAX];
    enum kvt_err rc;

    if (store->space_count == G4_PACKED_STORE_SPACES)
        return kvt_error_set(err, KVT_FULL, "more than %d packed namespaces",
                             G4_PACKED_STORE_SPACES);
    if (size == 0 || size >= sizeof(space->name) || name[0] == '/' || name[size - 1] == '/' ||
        memchr(name, ' ', size) != NULL)
        return kvt_error_set(err, KVT_INVALID,
                             "\"%.*s\" cannot be a packed namespace: give names of at most %zu "
                             "bytes with commas between them",
                             (int)(size < 80 ? size : 80), name, sizeof(space->name) - 1);
    memcpy(space->name, name, size);
    for (size_t i = 0; i < store->space_count; i++)
        if (strcmp(store->spaces[i].name, space->name) == 0)
            return kvt_error_set(err, KVT_INVALID, "the packed namespace %.80s twice", space->name);
    rc = g4_segment_key(key, space->name, &longest);
    if (rc == KVT_OK)
        rc = g4_packed_new(&space->packed, inner, space->name, 0);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "packed namespace %.80s", space->name);
    store->space_count++;
    return KVT_OK;
}

static enum kvt_err
add_spaces(struct g4_packed_store *store, struct g4_store *inner, const char *names,
           struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && names != NULL) {
        const char *comma = strchr(names, ',');

        rc = add_space(store, inner, names, comma == NULL ? strlen(names) : (size_t)(comma - names),
                       err);
        names = comma == NULL ? NULL : comma + 1;
    }
    return rc;
}

static enum kvt_err
start_threads(struct g4_packed_store *store, struct kvt_error *err)
{
    int sys = pthread_create(&store->looker, NULL, run_looker, store);

    if (sys == 0) {
        store->threads++;
        sys = pthread_create(&store->retirer, NULL, g4_packed_store_retire, store);
    }
    if (sys != 0)
        return kvt_error_sys(err, sys, "start a thread of the packed store");
    store->threads++;
    return KVT_OK;
}

enum kvt_err
g4_packed_store_open(struct g4_store **out, struct g4_store *inner,
                     const struct g4_packed_store_options *options, struct kvt_error *err)
{
    struct g4_packed_store *store = kvt_calloc(1, sizeof(*store));
    enum kvt_err rc;

    *out = NULL;
    if (store == NULL)
        return kvt_error_set(err, KVT_NOMEM, "packed store");
    (void)pthread_mutex_init(&store->shared.lock, NULL);
    (void)pthread_cond_init(&store->shared.changed, NULL);
    (void)snprintf(store->instance, sizeof(store->instance), "%s", options->instance);
    store->alone = options->alone;
    store->fresh_ms = options->fresh_ms == 0 ? G4_PACKED_STORE_FRESH_MS : options->fresh_ms;
    store->patience_ms =
        options->patience_ms == 0 ? G4_PACKED_STORE_PATIENCE_MS : options->patience_ms;
    store->opened_ms = kvt_clock_mono_ms();
    kvt_random_system(&store->random, sizeof(store->random));
    rc = kvt_queue_new(&store->waiting, G4_PACKED_STORE_CALLS);
    if (rc == KVT_OK)
        rc = kvt_queue_new(&store->retiring, G4_PACKED_STORE_CALLS);
    if (rc == KVT_OK)
        rc = g4_store_new(out, &packed_store_driver, store);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "packed store");
    if (rc == KVT_OK)
        rc = add_spaces(store, inner, options->namespaces, err);
    if (rc == KVT_OK)
        rc = start_threads(store, err);
    if (rc == KVT_OK) {
        store->inner = inner;
        return KVT_OK;
    }
    /* The store below stays with the caller: it was not taken over. */
    kvt_free(*out);
    *out = NULL;
    packed_store_close(store);
    return rc;
}
