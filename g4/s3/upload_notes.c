#include "g4/s3/upload_notes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"

enum { THREADS = 4, LIFE_DIGITS = 16 };

struct g4_upload_notes {
    struct g4_store *store;
    char life[LIFE_DIGITS + 1]; /* the first half of the names of ours */
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t none;
    size_t being_written;
};

enum kvt_err
g4_upload_notes_open(struct g4_upload_notes **out, const char *path, struct kvt_error *err)
{
    const struct g4_directory_options options = {
        .path = path, .threads = THREADS, .bytes_max = G4_UPLOAD_NOTES_BYTES};
    struct g4_upload_notes *notes = kvt_calloc(1, sizeof(*notes));
    uint64_t life;
    enum kvt_err rc;

    *out = NULL;
    if (notes == NULL)
        return kvt_error_set(err, KVT_NOMEM, "notes of uploads");
    rc = g4_directory_open(&notes->store, &options, err);
    if (rc != KVT_OK) {
        kvt_free(notes);
        return rc;
    }
    kvt_random_system(&life, sizeof(life));
    (void)snprintf(notes->life, sizeof(notes->life), "%016" PRIx64, life);
    (void)pthread_mutex_init(&notes->lock, NULL);
    (void)pthread_cond_init(&notes->none, NULL);
    *out = notes;
    return KVT_OK;
}

void
g4_upload_notes_close(struct g4_upload_notes *notes)
{
    if (notes == NULL)
        return;
    g4_store_close(notes->store);
    (void)pthread_cond_destroy(&notes->none);
    (void)pthread_mutex_destroy(&notes->lock);
    kvt_free(notes);
}

static void
leave(struct g4_upload_notes *notes)
{
    (void)pthread_mutex_lock(&notes->lock);
    notes->being_written--;
    if (notes->being_written == 0)
        (void)pthread_cond_broadcast(&notes->none);
    (void)pthread_mutex_unlock(&notes->lock);
}

/* Whoever is called may end with its call. */
static void
on_written(struct g4_request *request, void *arg)
{
    struct g4_upload_note_call *call = arg;
    struct g4_upload_notes *notes = call->notes;

    call->done(request->status, call->arg);
    leave(notes);
}

static void
on_gone(struct g4_request *request, void *arg)
{
    struct g4_upload_note_call *call = arg;

    call->done(request->status == KVT_NOTFOUND ? KVT_OK : request->status, call->arg);
}

enum kvt_err
g4_upload_notes_begin(struct g4_upload_notes *notes, struct g4_upload_note_call *call,
                      const char *key, void (*done)(enum kvt_err status, void *arg), void *arg)
{
    uint64_t number;
    enum kvt_err rc;

    kvt_random_system(&number, sizeof(number));
    *call = (struct g4_upload_note_call){.notes = notes, .done = done, .arg = arg};
    (void)snprintf(call->id, sizeof(call->id), "%s-%016" PRIx64, notes->life, number);
    call->request = (struct g4_request){.verb = G4_PUT,
                                        .key = call->id,
                                        .body = key,
                                        .body_size = strlen(key),
                                        .done = on_written,
                                        .arg = call};
    (void)pthread_mutex_lock(&notes->lock);
    notes->being_written++;
    (void)pthread_mutex_unlock(&notes->lock);
    rc = g4_store_submit(notes->store, &call->request);
    if (rc != KVT_OK)
        leave(notes);
    return rc;
}

void
g4_upload_notes_end(struct g4_upload_note_call *call, void (*done)(enum kvt_err status, void *arg),
                    void *arg)
{
    enum kvt_err rc;

    call->done = done;
    call->arg = arg;
    call->request =
        (struct g4_request){.verb = G4_DELETE, .key = call->id, .done = on_gone, .arg = call};
    rc = g4_store_submit(call->notes->store, &call->request);
    if (rc != KVT_OK)
        done(rc, arg);
}

void
g4_upload_notes_settle(struct g4_upload_notes *notes)
{
    if (notes == NULL)
        return;
    (void)pthread_mutex_lock(&notes->lock);
    while (notes->being_written > 0)
        (void)pthread_cond_wait(&notes->none, &notes->lock);
    (void)pthread_mutex_unlock(&notes->lock);
}

/* KVT_NOTFOUND: it went meanwhile, or is none. */
static enum kvt_err
read_note(struct g4_upload_notes *notes, const struct g4_listed *listed,
          struct g4_upload_note *note)
{
    struct g4_request request = {.verb = G4_GET,
                                 .key = listed->key,
                                 .buffer = note->key,
                                 .buffer_capacity = sizeof(note->key) - 1};
    const size_t id_size = strlen(listed->key) + 1;
    enum kvt_err rc;

    if (id_size > sizeof(note->id))
        return KVT_NOTFOUND;
    rc = g4_store_perform(notes->store, &request);
    if (rc != KVT_OK)
        return rc;
    note->key[request.buffer_size] = '\0';
    note->begun_ms = listed->modified_ms;
    note->ours = strncmp(listed->key, notes->life, LIFE_DIGITS) == 0;
    memcpy(note->id, listed->key, id_size);
    return KVT_OK;
}

enum kvt_err
g4_upload_notes_list(struct g4_upload_notes *notes, const char *after, struct g4_upload_note *out,
                     size_t capacity, size_t *count)
{
    struct g4_request request = {
        .verb = G4_LIST, .key = "", .after = after[0] == '\0' ? NULL : after};
    enum kvt_err rc;

    *count = 0;
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    do {
        rc = g4_store_perform(notes->store, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count && *count < capacity; i++) {
            rc = read_note(notes, &request.listed[i], &out[*count]);
            if (rc == KVT_OK)
                (*count)++;
            else if (rc == KVT_NOTFOUND)
                rc = KVT_OK;
        }
    } while (rc == KVT_OK && request.token[0] != '\0' && *count < capacity);
    kvt_free(request.listed);
    return rc;
}

enum kvt_err
g4_upload_notes_drop(struct g4_upload_notes *notes, const char *id)
{
    struct g4_request request = {.verb = G4_DELETE, .key = id};
    const enum kvt_err rc = g4_store_perform(notes->store, &request);

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}
