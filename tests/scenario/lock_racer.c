/*
 * tests/scenario/lock_racer.c -- one of many processes that contend for locks in a bucket.
 *
 * It takes locks, works a while, renews, gives back, and writes a line before each request that
 * changes an object and after its answer, so that whoever reads the lines of all processes knows
 * what the server was asked and by whom, also of those that were killed.  What the locks protect is
 * one object each, changed under If-Match and only by an epoch that is not older than its own.
 *
 * usage: lock_racer prove ENDPOINT BUCKET
 *        lock_racer race|once ENDPOINT BUCKET LOG NAME SEED LOCKS TTL_MS
 * `race` goes on until it is killed; `once` takes each lock once, waiting for it, and ends.
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who we are.
 */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"
#include "g4/lock/lock.h"
#include "g4/s3/s3.h"

enum { NAME_MAX_BYTES = 32, HEAD_MAX = 128, LINE_MAX_BYTES = 8192, RETRY_MS = 20 };

/* A store that writes down what goes through it. */
struct recorder {
    struct g4_store *inner;
    int log;
    uint64_t requests;
};

static void
write_line(int log, const struct kvt_buffer *line)
{
    if (write(log, line->data, line->size) != (ssize_t)line->size)
        abort(); /* without its lines a run says nothing */
}

static void
record_send(struct recorder *recorder, const struct g4_request *request)
{
    static const char *const conditions[] = {"always", "absent", "match"};
    const uint8_t *body = request->body;
    struct kvt_buffer line;

    kvt_buffer_init(&line, LINE_MAX_BYTES);
    kvt_buffer_printf(&line,
                      "{\"op\":\"send\",\"id\":%" PRIu64 ",\"t\":%" PRIu64
                      ",\"key\":\"%s\",\"verb\":\"%s\",\"condition\":\"%s\",\"from\":\"%s\","
                      "\"body\":\"",
                      recorder->requests, kvt_clock_mono_ns(), request->key,
                      request->verb == G4_PUT ? "put" : "delete", conditions[request->condition],
                      request->etag);
    for (size_t i = 0; i < request->body_size; i++)
        kvt_buffer_printf(&line, "%02x", body[i]);
    kvt_buffer_printf(&line, "\"}\n");
    write_line(recorder->log, &line);
    kvt_buffer_release(&line);
}

static void
record_answer(struct recorder *recorder, const struct g4_request *request)
{
    struct kvt_buffer line;

    kvt_buffer_init(&line, LINE_MAX_BYTES);
    kvt_buffer_printf(&line,
                      "{\"op\":\"answer\",\"id\":%" PRIu64 ",\"t\":%" PRIu64
                      ",\"status\":\"%s\",\"etag\":\"%s\"}\n",
                      recorder->requests, kvt_clock_mono_ns(), kvt_err_name(request->status),
                      request->etag);
    write_line(recorder->log, &line);
    kvt_buffer_release(&line);
}

/* One at a time: the program has one thread. */
static enum kvt_err
recorder_submit(void *self, struct g4_request *request)
{
    void (*const done)(struct g4_request *, void *) = request->done;
    struct recorder *recorder = self;
    void *const arg = request->arg;
    const bool changes = request->verb == G4_PUT || request->verb == G4_DELETE;
    enum kvt_err rc;

    recorder->requests++;
    if (changes)
        record_send(recorder, request);
    rc = g4_store_perform(recorder->inner, request);
    request->status = rc;
    if (changes)
        record_answer(recorder, request);
    request->done = done;
    request->arg = arg;
    done(request, arg);
    return KVT_OK;
}

static void
recorder_close(void *self)
{
    g4_store_close(((struct recorder *)self)->inner);
}

static const struct g4_store_driver recorder_driver = {"recorder", recorder_submit, recorder_close};

/* ---- a racer ---- */

struct racer {
    struct recorder recorder;
    struct g4_store *store;
    struct g4_selftest proved;
    const char *name;
    uint64_t random;
    uint64_t locks;
    uint64_t ttl_ms;
};

/* {"op":op, ...} about what this process believes. */
static void
say(struct racer *racer, const char *op, const char *lock, uint64_t epoch, uint64_t stop_ns)
{
    struct kvt_buffer line;

    kvt_buffer_init(&line, LINE_MAX_BYTES);
    kvt_buffer_printf(&line,
                      "{\"op\":\"%s\",\"t\":%" PRIu64 ",\"lock\":\"%s\",\"epoch\":%" PRIu64
                      ",\"stop\":%" PRIu64 "}\n",
                      op, kvt_clock_mono_ns(), lock, epoch, stop_ns);
    write_line(racer->recorder.log, &line);
    kvt_buffer_release(&line);
}

static uint64_t
stop_ns(const struct racer *racer, const struct g4_lock *lock)
{
    const uint64_t since_ms = g4_lock_renew_ms(lock) - racer->ttl_ms / 3;

    return (since_ms + racer->ttl_ms * 80 / 100) * 1000000;
}

/* Read the protected object, and change it unless a newer epoch has. */
static void
have_effect(struct racer *racer, const char *name, uint64_t epoch)
{
    char text[HEAD_MAX] = "";
    char key[NAME_MAX_BYTES + 8];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer = text, .buffer_capacity = sizeof(text) - 1};
    uint64_t found = 0;
    uint64_t unique = kvt_random_next(&racer->random);
    enum kvt_err rc;
    int size;

    (void)snprintf(key, sizeof(key), "%s.head", name);
    rc = g4_store_perform(racer->store, &request);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return;
    if (rc == KVT_OK && sscanf(text, "{\"epoch\":%" SCNu64, &found) != 1)
        abort();
    if (found > epoch) {
        say(racer, "fenced", name, epoch, 0);
        return;
    }
    size = snprintf(text, sizeof(text), "{\"epoch\":%" PRIu64 ",\"unique\":%" PRIu64 "}", epoch,
                    unique);
    request.verb = G4_PUT;
    request.condition = rc == KVT_OK ? G4_IF_MATCH : G4_IF_ABSENT;
    request.body = text;
    request.body_size = (size_t)size;
    rc = g4_store_perform(racer->store, &request);
    say(racer, rc == KVT_OK ? "effect" : "no_effect", name, epoch, 0);
}

/* Hold it for `hold_ms`, as a worker does: look at the clock before each effect. */
static void
work(struct racer *racer, struct g4_lock *lock, const char *name, uint64_t hold_ms)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + hold_ms;

    while (!g4_lock_lost(lock)) {
        have_effect(racer, name, g4_lock_epoch(lock));
        if (kvt_clock_mono_ms() >= until_ms)
            return;
        if (kvt_clock_mono_ms() < g4_lock_renew_ms(lock))
            continue;
        if (g4_lock_renew(lock, NULL) == KVT_OK)
            say(racer, "held", name, g4_lock_epoch(lock), stop_ns(racer, lock));
    }
    say(racer, "lost", name, g4_lock_epoch(lock), 0);
}

/* How long: mostly a moment, sometimes over several renewals. */
static uint64_t
some_time(struct racer *racer)
{
    if (kvt_random_below(&racer->random, 12) == 0)
        return kvt_random_below(&racer->random, 2 * racer->ttl_ms);
    return kvt_random_below(&racer->random, 30);
}

/* Try lock `number`, and sometimes take it again; false when it is held or cannot be asked for. */
static bool
contend(struct racer *racer, uint64_t number, uint64_t hold_ms)
{
    char name[NAME_MAX_BYTES];
    struct g4_lock_options options = {.store = racer->store,
                                      .proved = &racer->proved,
                                      .name = name,
                                      .instance = racer->name,
                                      .ttl_ms = racer->ttl_ms};
    struct g4_lock *lock;

    (void)snprintf(name, sizeof(name), "races/%03" PRIu64, number);
    if (g4_lock_acquire(&lock, &options, NULL) != KVT_OK)
        return false;
    do {
        say(racer, "held", name, g4_lock_epoch(lock), stop_ns(racer, lock));
        work(racer, lock, name, hold_ms);
        say(racer, "release", name, g4_lock_epoch(lock), 0);
        (void)g4_lock_rest(lock, NULL);
    } while (kvt_random_below(&racer->random, 3) == 0 && g4_lock_retake(lock, NULL) == KVT_OK);
    (void)g4_lock_release(lock, NULL);
    return true;
}

static struct g4_store *
open_bucket(const char *endpoint, const char *bucket)
{
    const char *access = getenv("AWS_ACCESS_KEY_ID");
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    struct g4_store *store = NULL;
    struct kvt_error err = {0};

    if (g4_s3_open(&store,
                   &(struct g4_s3_options){.endpoint = endpoint,
                                           .bucket = bucket,
                                           .region = "",
                                           .access_key = access == NULL ? "" : access,
                                           .secret_key = secret == NULL ? "" : secret,
                                           .session_token = "",
                                           .ca_file = "",
                                           .path_style = true},
                   &err) != KVT_OK)
        (void)fprintf(stderr, "lock_racer: %s\n", err.text);
    return store;
}

static int
prove(const char *endpoint, const char *bucket)
{
    struct g4_store *store = open_bucket(endpoint, bucket);
    struct g4_selftest result;
    struct kvt_error err = {0};
    const char *unsafe;

    if (store == NULL || g4_selftest_locks(store, &result, &err) != KVT_OK) {
        (void)fprintf(stderr, "lock_racer: %s\n", err.text);
        g4_store_close(store);
        return 1;
    }
    unsafe = g4_selftest_unsafe(&result);
    (void)printf("{\"unsafe\":\"%s\",\"delete_if_match\":%s,\"conflicts\":%u,\"errors\":%u}\n",
                 unsafe == NULL ? "" : unsafe, result.delete_if_match ? "true" : "false",
                 result.race_conflicts, result.race_errors);
    g4_store_close(store);
    return 0;
}

static bool
set_up(struct racer *racer, char **argv)
{
    racer->recorder.log = open(argv[4], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    racer->recorder.inner = open_bucket(argv[2], argv[3]);
    racer->name = argv[5];
    if (racer->recorder.log < 0 || racer->recorder.inner == NULL ||
        kvt_parse_u64(argv[6], &racer->random) != KVT_OK ||
        kvt_parse_u64(argv[7], &racer->locks) != KVT_OK ||
        kvt_parse_u64(argv[8], &racer->ttl_ms) != KVT_OK)
        return false;
    /* What `prove` found. */
    racer->proved = (struct g4_selftest){.put_if_absent = true,
                                         .put_if_match = true,
                                         .if_match_missing = true,
                                         .etag_changes = true,
                                         .one_creator = true,
                                         .one_changer = true,
                                         .server_clock = true};
    return g4_store_new(&racer->store, &recorder_driver, &racer->recorder) == KVT_OK;
}

int
main(int argc, char **argv)
{
    struct racer racer = {.store = NULL};

    if (argc == 4 && strcmp(argv[1], "prove") == 0)
        return prove(argv[2], argv[3]);
    if (argc != 9 || !set_up(&racer, argv)) {
        (void)fprintf(stderr, "usage: see tests/scenario/lock_racer.c\n");
        return 2;
    }
    if (strcmp(argv[1], "once") == 0) {
        for (uint64_t i = 0; i < racer.locks; i++)
            while (!contend(&racer, i, 0))
                kvt_clock_sleep_ms(RETRY_MS);
    } else {
        for (;;)
            if (!contend(&racer, kvt_random_below(&racer.random, racer.locks), some_time(&racer)))
                kvt_clock_sleep_ms(kvt_random_below(&racer.random, RETRY_MS));
    }
    g4_store_close(racer.store);
    (void)close(racer.recorder.log);
    return 0;
}
