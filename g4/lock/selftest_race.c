#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/lock/selftest.h"

/* The half of the self-test that is about locks: races, and the server's clock. */

enum { ROUNDS = 4, KEY_MAX = 80, BODY_MAX = 32, RACERS = G4_SELFTEST_RACERS };

struct racer {
    struct g4_request request;
    char body[BODY_MAX];
};

/* One run; the heap holds it because requests are large. */
struct race {
    struct g4_store *store;
    char folder[KEY_MAX - 16];
    char key[KEY_MAX];
    uint64_t began_ms; /* monotonic, before the object of the last round was written */
    struct racer racers[RACERS];

    pthread_mutex_t lock; /* guards `left` */
    pthread_cond_t changed;
    unsigned left; /* racers not yet answered */
};

static void
on_done(struct g4_request *request, void *arg)
{
    struct race *race = arg;

    (void)request;
    pthread_mutex_lock(&race->lock);
    race->left--;
    pthread_cond_signal(&race->changed);
    pthread_mutex_unlock(&race->lock);
}

/* All at once, with the same condition; each its own body. */
static void
run_round(struct race *race, enum g4_condition condition, const char etag[G4_ETAG_MAX])
{
    race->began_ms = kvt_clock_mono_ms();
    race->left = RACERS;
    for (unsigned i = 0; i < RACERS; i++) {
        struct racer *racer = &race->racers[i];
        enum kvt_err rc;

        (void)snprintf(racer->body, sizeof(racer->body), "racer %u at %" PRIu64, i, race->began_ms);
        racer->request = (struct g4_request){.verb = G4_PUT,
                                             .key = race->key,
                                             .condition = condition,
                                             .body = racer->body,
                                             .body_size = strlen(racer->body),
                                             .done = on_done,
                                             .arg = race};
        memcpy(racer->request.etag, etag, sizeof(racer->request.etag));
        rc = g4_store_submit(race->store, &racer->request);
        if (rc != KVT_OK) {
            racer->request.status = rc;
            on_done(&racer->request, race);
        }
    }
    pthread_mutex_lock(&race->lock);
    while (race->left > 0)
        pthread_cond_wait(&race->changed, &race->lock);
    pthread_mutex_unlock(&race->lock);
}

/* Does the answer say that nothing was written? */
static bool
refused(enum kvt_err status)
{
    return status == KVT_EXISTS || status == KVT_PRECONDITION || status == KVT_NOTFOUND;
}

/* Both of the server's clocks, about what was written since `began_ms`: more than one second of
 * rounding beyond the time that passed here, or a writing in the future, are two clocks. */
static bool
clocks_agree(const struct race *race, const struct g4_request *look)
{
    const uint64_t passed_ms = kvt_clock_mono_ms() - race->began_ms;

    return look->server_ms != 0 && look->modified_ms != 0 &&
           look->modified_ms <= look->server_ms + 1000 &&
           look->server_ms <= look->modified_ms + passed_ms + 1000;
}

/* At most one was told that it won, and then its body is there. */
static enum kvt_err
judge_round(struct race *race, struct g4_selftest *result, bool *one, char etag[G4_ETAG_MAX],
            struct kvt_error *err)
{
    char body[BODY_MAX];
    struct g4_request look = {
        .verb = G4_GET, .key = race->key, .buffer = body, .buffer_capacity = sizeof(body)};
    const enum kvt_err rc = g4_store_perform(race->store, &look);
    unsigned winners = 0;

    if (rc != KVT_OK) {
        if (err != NULL)
            *err = look.error;
        return rc;
    }
    for (unsigned i = 0; i < RACERS; i++) {
        const struct racer *racer = &race->racers[i];
        const enum kvt_err status = racer->request.status;
        const bool there = look.buffer_size == strlen(racer->body) &&
                           memcmp(body, racer->body, look.buffer_size) == 0;

        winners += status == KVT_OK;
        result->race_conflicts += status == KVT_BUSY;
        result->race_errors += status != KVT_OK && status != KVT_BUSY && !refused(status);
        if (status == KVT_OK && !there)
            *one = false;
    }
    if (winners > 1)
        *one = false;
    result->server_clock = result->server_clock && clocks_agree(race, &look);
    memcpy(etag, look.etag, sizeof(look.etag));
    return KVT_OK;
}

static enum kvt_err
run_rounds(struct race *race, struct g4_selftest *result, struct kvt_error *err)
{
    char etag[G4_ETAG_MAX] = "";
    enum kvt_err rc = KVT_OK;

    result->one_creator = true;
    result->one_changer = true;
    result->server_clock = true;
    for (unsigned i = 0; i < ROUNDS && rc == KVT_OK; i++) {
        (void)snprintf(race->key, sizeof(race->key), "%s/race-%u", race->folder, i);
        run_round(race, G4_IF_ABSENT, etag);
        rc = judge_round(race, result, &result->one_creator, etag, err);
    }
    /* On the object of the last round. */
    for (unsigned i = 0; i < ROUNDS && rc == KVT_OK && etag[0] != '\0'; i++) {
        run_round(race, G4_IF_MATCH, etag);
        rc = judge_round(race, result, &result->one_changer, etag, err);
    }
    if (rc != KVT_OK || etag[0] == '\0')
        result->one_changer = false;
    return rc;
}

static void
clean_up(struct race *race)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct g4_request request = {.verb = G4_DELETE, .key = race->key};

        (void)snprintf(race->key, sizeof(race->key), "%s/race-%u", race->folder, i);
        if (g4_store_perform(race->store, &request) != KVT_OK)
            continue; /* an object of a few bytes stays */
    }
}

enum kvt_err
g4_selftest_locks(struct g4_store *store, struct g4_selftest *result, struct kvt_error *err)
{
    return g4_selftest_locks_in(store, G4_SELFTEST_FOLDER, result, err);
}

enum kvt_err
g4_selftest_locks_in(struct g4_store *store, const char *folder, struct g4_selftest *result,
                     struct kvt_error *err)
{
    enum kvt_err rc = g4_selftest_in(store, folder, result, err);
    struct race *race;
    uint64_t nonce;

    if (rc != KVT_OK)
        return rc;
    race = kvt_calloc(1, sizeof(*race));
    if (race == NULL)
        return kvt_error_set(err, KVT_NOMEM, "self-test");
    race->store = store;
    (void)pthread_mutex_init(&race->lock, NULL);
    (void)pthread_cond_init(&race->changed, NULL);
    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(race->folder, sizeof(race->folder), "%.24s/%016" PRIx64, folder, nonce);
    rc = run_rounds(race, result, err);
    clean_up(race);
    (void)pthread_cond_destroy(&race->changed);
    (void)pthread_mutex_destroy(&race->lock);
    kvt_free(race);
    return rc;
}

const char *
g4_selftest_unsafe(const struct g4_selftest *result)
{
    if (!result->put_if_absent)
        return "the store ignores If-None-Match on PUT: two could create the same lock";
    if (!result->put_if_match)
        return "the store ignores If-Match on PUT: two could take over the same lock";
    if (!result->if_match_missing)
        return "PUT If-Match creates a missing object: a late renewal could bring back a lock";
    if (!result->etag_changes)
        return "the ETag stays when the body changes: an old holder could renew another's lock";
    if (!result->one_creator)
        return "of many PUT If-None-Match at once several succeed: it is checked, then written";
    if (!result->one_changer)
        return "of many PUT If-Match at once several succeed: it is checked, then written";
    if (!result->server_clock)
        return "Date and Last-Modified are missing or disagree: the age of a lock cannot be told";
    return NULL;
}
