/*
 * What is tested: g4/directory/directory.h with several at once: threads on one store, and two
 * processes on one folder.  Of many who put a key if absent, one wins and everybody reads the
 * winner's bytes; of many who replace with one ETag, one wins; a reader never sees anything but a
 * whole body.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { RACERS = 8, KEYS = 300, ROUNDS = 40, BODY = 5000, PROCESS_KEYS = 4000 };

struct racer {
    pthread_t thread;
    pthread_barrier_t *barrier;
    struct g4_store *store;
    unsigned id;
    uint64_t seed;
    uint64_t won;
    struct fetched *fetched;
    char (*etags)[G4_ETAG_MAX];
};

struct fixture {
    char path[128];
    struct g4_store *store;
};

static struct g4_store *
open_store(const char *path)
{
    const struct g4_directory_options options = {.path = path, .threads = 4};
    struct g4_store *store = NULL;
    struct kvt_error err;

    assert_int_equal(g4_directory_open(&store, &options, &err), KVT_OK);
    return store;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)test_folder_make(f->path, sizeof(f->path));
    f->store = open_store(f->path);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_store_close(f->store);
    test_folder_remove(f->path);
    kvt_free(f);
    return 0;
}

/* All racers run `body` on the same store; returns the sum of their wins. */
static uint64_t
race(struct g4_store *store, void *(*body)(void *), char (*etags)[G4_ETAG_MAX])
{
    struct racer racers[RACERS];
    pthread_barrier_t barrier;
    uint64_t won = 0;

    assert_int_equal(pthread_barrier_init(&barrier, NULL, RACERS), 0);
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.barrier = &barrier,
                                   .store = store,
                                   .id = i,
                                   .seed = test_seed() + i,
                                   .fetched = kvt_calloc(1, sizeof(struct fetched)),
                                   .etags = etags};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, body, &racers[i]), 0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        (void)pthread_join(racers[i].thread, NULL);
        won += racers[i].won;
        kvt_free(racers[i].fetched);
    }
    (void)pthread_barrier_destroy(&barrier);
    return won;
}

/* A body that says who wrote it, all over. */
static bool
one_writer(const struct fetched *fetched)
{
    for (size_t i = 1; i < fetched->size; i++)
        if (fetched->body[i] != fetched->body[0])
            return false;
    return fetched->size == BODY;
}

static void *
put_each_key(void *arg)
{
    struct racer *racer = arg;
    char body[BODY];

    memset(body, (int)('A' + racer->id), sizeof(body));
    pthread_barrier_wait(racer->barrier);
    for (int i = 0; i < KEYS; i++) {
        char key[64];
        enum kvt_err rc;

        (void)snprintf(key, sizeof(key), "n/0/%d:abc", i);
        rc = put_absent(racer->store, key, body, sizeof(body), NULL);
        assert_true(rc == KVT_OK || rc == KVT_EXISTS);
        if (rc == KVT_OK)
            racer->won++;
        assert_int_equal(get(racer->store, key, racer->fetched), KVT_OK);
        assert_true(one_writer(racer->fetched));
        assert_true(rc != KVT_OK || memcmp(racer->fetched->body, body, 1) == 0);
    }
    return NULL;
}

static void
each_key_has_one_first_writer(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(race(f->store, put_each_key, NULL), KEYS);
}

static void *
replace_each_key(void *arg)
{
    struct racer *racer = arg;
    char body[BODY];

    memset(body, (int)('A' + racer->id), sizeof(body));
    for (int i = 0; i < ROUNDS; i++) {
        char etag[G4_ETAG_MAX];
        char key[64];
        enum kvt_err rc;

        (void)snprintf(key, sizeof(key), "k%d", i);
        memcpy(etag, racer->etags[i], sizeof(etag));
        pthread_barrier_wait(racer->barrier);
        rc = put_match(racer->store, key, body, sizeof(body), etag);
        assert_true(rc == KVT_OK || rc == KVT_PRECONDITION);
        if (rc == KVT_OK)
            racer->won++;
        assert_int_equal(get(racer->store, key, racer->fetched), KVT_OK);
        assert_true(one_writer(racer->fetched));
    }
    return NULL;
}

static void
one_of_those_who_replace_the_same_version_wins(void **state)
{
    struct fixture *f = *state;
    char(*etags)[G4_ETAG_MAX] = kvt_calloc(ROUNDS, sizeof(*etags));
    char body[BODY];

    memset(body, 'z', sizeof(body));
    for (int i = 0; i < ROUNDS; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(put(f->store, key, body, sizeof(body), etags[i]), KVT_OK);
    }
    assert_int_equal(race(f->store, replace_each_key, etags), ROUNDS);
    kvt_free(etags);
}

/* Everything at once on three keys: whatever happens, what is read is whole. */
static void *
do_anything(void *arg)
{
    struct racer *racer = arg;
    uint64_t random = racer->seed;
    char body[BODY];

    memset(body, (int)('A' + racer->id), sizeof(body));
    pthread_barrier_wait(racer->barrier);
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        enum kvt_err rc;

        (void)snprintf(key, sizeof(key), "x%d", (int)kvt_random_below(&random, 3));
        switch (kvt_random_below(&random, 4)) {
        case 0: rc = put(racer->store, key, body, sizeof(body), NULL); break;
        case 1: rc = put_absent(racer->store, key, body, sizeof(body), NULL); break;
        case 2: rc = del(racer->store, key); break;
        default:
            rc = get(racer->store, key, racer->fetched);
            assert_true(rc != KVT_OK || one_writer(racer->fetched));
        }
        assert_true(rc == KVT_OK || rc == KVT_EXISTS || rc == KVT_NOTFOUND);
        if (rc == KVT_OK)
            racer->won++;
    }
    return NULL;
}

static void
readers_see_whole_bodies_only(void **state)
{
    struct fixture *f = *state;

    assert_true(race(f->store, do_anything, NULL) > 0);
}

/* A child process races for every key; its wins are its exit message through the pipe. */
/* Both have written one: from here on they run side by side. */
static void
meet(int to, int from)
{
    char byte = 'r';

    if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
        abort();
}

/* `first`: the key to begin with, which the other begins behind or before. */
static uint64_t
race_as(const char *path, char mark, int first, int to, int from)
{
    struct g4_store *store = open_store(path);
    char body[BODY];
    uint64_t won = 0;

    memset(body, mark, sizeof(body));
    for (int i = 0; i < PROCESS_KEYS; i++) {
        const int number = (first + i) % PROCESS_KEYS;
        char key[64];
        enum kvt_err rc;

        (void)snprintf(key, sizeof(key), "ns/model/0/%d:%x", number % 7, number);
        rc = put_absent(store, key, body, sizeof(body), NULL);
        if (rc == KVT_OK)
            won++;
        else if (rc != KVT_EXISTS)
            abort();
        if (i == 0)
            meet(to, from);
    }
    g4_store_close(store);
    return won;
}

/* Enough keys that folders are split under both processes. */
static void
two_processes_write_each_key_once(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    char token[G4_TOKEN_MAX] = "";
    uint64_t marks[2] = {0, 0};
    uint64_t child_won = 0;
    uint64_t won;
    size_t seen = 0;
    int ends[2]; /* from the child */
    int back[2];
    pid_t child;
    int status;

    g4_store_close(f->store);
    f->store = NULL;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(back), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        won = race_as(f->path, 'B', 1, ends[1], back[0]);
        _exit(write(ends[1], &won, sizeof(won)) == sizeof(won) ? 0 : 1);
    }
    won = race_as(f->path, 'A', 0, back[1], ends[0]);
    assert_int_equal(read(ends[0], &child_won, sizeof(child_won)), sizeof(child_won));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        (void)close(ends[i]);
        (void)close(back[i]);
    }
    assert_int_equal(won + child_won, PROCESS_KEYS);
    assert_true(won > 0 && child_won > 0);

    f->store = open_store(f->path);
    do {
        size_t count;

        assert_int_equal(list(f->store, "", token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(get(f->store, rows[i].key, fetched), KVT_OK);
            assert_true(one_writer(fetched));
            marks[fetched->body[0] - 'A']++;
        }
        seen += count;
    } while (token[0] != '\0');
    assert_int_equal(seen, PROCESS_KEYS);
    assert_int_equal(marks[0], won);
    assert_int_equal(marks[1], child_won);
    kvt_free(fetched);
    kvt_free(rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_processes_write_each_key_once), /* first: fork before there are threads */
        TEST(each_key_has_one_first_writer),
        TEST(one_of_those_who_replace_the_same_version_wins),
        TEST(readers_see_whole_bodies_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
