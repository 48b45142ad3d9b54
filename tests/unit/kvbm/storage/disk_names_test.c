/*
 * What is tested: a kept disk tier (kvbm/storage/disk.h) whose threads take names from each other:
 * each has blocks of its own, and all commit the same few names into them.  What the next process
 * finds is judged by when each store began and ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/storage/disk.h"

#include "tests/support/seed.h"

enum { SIZE = 4096, THREADS = 3, OF_EACH = 2, BLOCKS = THREADS * OF_EACH, NAMES = 4 };
enum { DEEDS = 12, ROUNDS = 60 };

static uint8_t back[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
static char folder[256];

/* Nobody pulls a plug here; but syncs are where threads meet. */
static int
no_sync(int fd)
{
    (void)fd;
    return nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static struct kvbm_storage *
open_kept(void)
{
    static const struct kvbm_aio_calls calls = {pread, pwrite, no_sync};
    static const struct kvbm_disk_keep keep = {.fingerprint = 1};
    struct kvbm_storage *disk;
    struct kvt_error err;
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/tier", folder);
    assert_int_equal(kvbm_disk_open(&disk,
                                    &(struct kvbm_disk_options){
                                        .path = path,
                                        .block_count = BLOCKS,
                                        .block_size = SIZE,
                                        .calls = &calls,
                                        .keep = &keep,
                                    },
                                    &err),
                     KVT_OK);
    return disk;
}

/* One store by one of the threads, between two ticks of a clock that all of them share. */
struct deed {
    uint64_t hash;
    uint32_t block;
    unsigned began;
    unsigned ended;
};

struct actor {
    struct kvbm_storage *disk;
    uint64_t state;
    uint32_t first; /* of its blocks */
    struct deed deeds[DEEDS];
};

static _Atomic unsigned ticks;

static void *
act(void *arg)
{
    static _Thread_local uint8_t page[SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
    struct actor *actor = arg;

    for (unsigned i = 0; i < DEEDS; i++) {
        struct deed *deed = &actor->deeds[i];
        struct kvbm_storage_io io = {.host = page};
        struct kvbm_storage_name name;

        deed->hash = 1 + kvt_random_below(&actor->state, NAMES);
        deed->block = actor->first + (uint32_t)kvt_random_below(&actor->state, OF_EACH);
        deed->began = ++ticks;
        memset(page, 0, SIZE);
        memcpy(page, &deed->hash, 8);
        memcpy(page + 8, &deed->began, sizeof(deed->began)); /* its own: a version */
        io.block = deed->block;
        kvbm_storage_write(actor->disk, &io, 1);
        name = (struct kvbm_storage_name){.block = deed->block, .id = {.hash = deed->hash}};
        if (io.status != KVT_OK || kvbm_disk_commit(actor->disk, &name, 1) != KVT_OK)
            return actor; /* not NULL */
        deed->ended = ++ticks;
    }
    return NULL;
}

/* Did a store of this name end after `began`, other than `but`? */
static bool
contested(const struct actor *actors, const struct deed *but, unsigned began, bool begun_later)
{
    for (unsigned who = 0; who < THREADS; who++)
        for (unsigned i = 0; i < DEEDS; i++) {
            const struct deed *deed = &actors[who].deeds[i];

            if (deed != but && deed->hash == but->hash &&
                (begun_later ? deed->began : deed->ended) > began)
                return true;
        }
    return false;
}

/* What lies in a block is what was stored there last. */
static const struct deed *
last_into(const struct actor *actors, uint32_t block)
{
    const struct actor *actor = &actors[block / OF_EACH];
    const struct deed *last = NULL;

    for (unsigned i = 0; i < DEEDS; i++)
        if (actor->deeds[i].block == block)
            last = &actor->deeds[i];
    return last;
}

/* No name is found with bytes that somebody had overtaken; what nobody contested is found. */
static void
judge(const struct actor *actors)
{
    struct kvbm_storage *disk = open_kept();
    bool names[NAMES + 1] = {false};
    bool blocks[BLOCKS] = {false};
    struct kvbm_storage_name name;
    uint32_t at = 0;

    while (kvbm_disk_found(disk, &at, &name, 1) == 1) {
        struct kvbm_storage_io io = {.host = back, .block = name.block};
        const struct deed *deed = last_into(actors, name.block);

        kvbm_storage_read(disk, &io, 1);
        assert_int_equal(io.status, KVT_OK);
        assert_non_null(deed);
        assert_int_equal(name.id.hash, deed->hash);
        assert_memory_equal(back, &deed->hash, 8);
        assert_memory_equal(back + 8, &deed->began, sizeof(deed->began));
        assert_false(contested(actors, deed, deed->ended, true));
        assert_false(names[name.id.hash]);
        names[name.id.hash] = true;
        blocks[name.block] = true;
    }
    for (uint32_t block = 0; block < BLOCKS; block++) {
        const struct deed *deed = last_into(actors, block);

        if (deed != NULL && !contested(actors, deed, deed->began, false))
            assert_true(blocks[block]);
    }
    for (uint32_t block = 0; block < BLOCKS; block++)
        assert_int_equal(kvbm_disk_forget(disk, &block, 1), KVT_OK);
    kvbm_storage_close(disk);
}

static void
threads_take_names_from_each_other(void **unused)
{
    static struct actor actors[THREADS];
    uint64_t state = test_seed();

    (void)unused;
    (void)test_folder_make(folder, sizeof(folder));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct kvbm_storage *disk = open_kept();
        pthread_t threads[THREADS];

        for (unsigned i = 0; i < THREADS; i++) {
            actors[i] = (struct actor){
                .disk = disk, .state = kvt_random_next(&state), .first = i * OF_EACH};
            assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            void *failed;

            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
        kvbm_storage_close(disk);
        judge(actors);
    }
    test_folder_remove(folder);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_take_names_from_each_other)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
