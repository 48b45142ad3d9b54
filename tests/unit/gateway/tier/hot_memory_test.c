/*
 * What is tested: gateway/tier/hot_memory.h: a body that is asked for again comes out of memory
 * that nobody can write to; a file that was changed since is read; what does not fit its crc is
 * never taken in; memory and descriptors stay within their bounds, whoever sends what for how
 * long; many who want the same body share one; what nobody uses goes; all is given back.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/directory/file_name.h"
#include "g4/directory/object_file.h"
#include "gateway/tier/hot_memory.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = GATEWAY_HOT_MEMORY_MIN + 321, ROOM = 4, FILES = 8, TAKERS = 8, LONG = 8 << 20 };

struct fixture {
    struct test_gateway gateway;
    struct gateway_hot_memory *sealed;
    uint8_t *wanted;
    uint8_t *found;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_gateway_open(&f->gateway, 64u << 20, 0);
    assert_int_equal(gateway_hot_memory_new(&f->sealed, ROOM * (uint64_t)SIZE), KVT_OK);
    f->wanted = kvt_calloc(1, LONG);
    f->found = kvt_calloc(1, LONG);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_hot_memory_free(f->sealed);
    kvt_free(f->wanted);
    kvt_free(f->found);
    test_gateway_close(&f->gateway);
    kvt_free(f);
    return 0;
}

static void
put(struct fixture *f, uint64_t number, size_t size)
{
    assert_int_equal(test_gateway_put(&f->gateway, number, size), KVT_OK);
}

static void
open_body(struct fixture *f, uint64_t number, struct g4_body *body)
{
    char key[KVT_KEY_MAX];
    struct kvt_error err;

    assert_int_equal(
        g4_directory_body(f->gateway.context->tiers.hot, test_gateway_key(key, number), body, &err),
        KVT_OK);
}

/* Ask as a reader does; what comes is to be given back. */
static struct gateway_hot_memory_body *
take(struct fixture *f, uint64_t number)
{
    struct gateway_hot_memory_body *taken;
    struct g4_body body;

    open_body(f, number, &body);
    taken = gateway_hot_memory_take(f->sealed, &body);
    g4_body_close(&body);
    return taken;
}

/* It is the block's body. */
static void
look_at(struct fixture *f, const struct gateway_hot_memory_body *body, uint64_t number, size_t size)
{
    const int fd = gateway_hot_memory_fd(body);

    test_gateway_fill(f->wanted, size, number);
    assert_int_equal(pread(fd, f->found, size, 0), size);
    assert_memory_equal(f->found, f->wanted, size);
    assert_int_equal(lseek(fd, 0, SEEK_END), size);
}

/* Ask once: what comes is the body; is it from memory? */
static bool
ask(struct fixture *f, uint64_t number, size_t size)
{
    struct gateway_hot_memory_body *body = take(f, number);

    if (body == NULL)
        return false;
    look_at(f, body, number, size);
    gateway_hot_memory_give(f->sealed, body);
    return true;
}

static int
open_file(const struct fixture *f, uint64_t number)
{
    char name[G4_FILE_NAME_MAX];
    char key[KVT_KEY_MAX];
    char path[512];
    int fd;

    g4_file_name_format(test_gateway_key(key, number), name);
    (void)snprintf(path, sizeof(path), "%s/objects/%s", f->gateway.hot, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void
flip(const struct fixture *f, uint64_t number, off_t at)
{
    const int fd = open_file(f, number);
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, G4_OBJECT_FILE_BODY_AT + at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, G4_OBJECT_FILE_BODY_AT + at), 1);
    (void)close(fd);
}

static unsigned
count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

static void
comes_from_memory_when_asked_again(void **state)
{
    struct fixture *f = *state;

    put(f, 1, SIZE);
    assert_false(ask(f, 1, SIZE));
    for (int i = 0; i < 3; i++)
        assert_true(ask(f, 1, SIZE));
}

static void
small_ones_and_none(void **state)
{
    struct fixture *f = *state;
    struct gateway_hot_memory *sealed = f->sealed;

    put(f, 1, GATEWAY_HOT_MEMORY_MIN - 1);
    put(f, 2, SIZE);
    for (int i = 0; i < 3; i++)
        assert_false(ask(f, 1, GATEWAY_HOT_MEMORY_MIN - 1));
    f->sealed = NULL;
    for (int i = 0; i < 3; i++)
        assert_false(ask(f, 2, SIZE));
    assert_int_equal(gateway_hot_memory_new(&f->sealed, SIZE), KVT_OK); /* a quarter is less */
    for (int i = 0; i < 3; i++)
        assert_false(ask(f, 2, SIZE));
    gateway_hot_memory_free(f->sealed);
    f->sealed = sealed;
}

static void
nobody_can_write_to_it(void **state)
{
    struct fixture *f = *state;
    struct gateway_hot_memory_body *body;
    int noexec;
    int fd;

    put(f, 1, SIZE);
    assert_false(ask(f, 1, SIZE));
    body = take(f, 1);
    assert_non_null(body);
    fd = gateway_hot_memory_fd(body);
    assert_int_equal(pwrite(fd, "x", 1, 5), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, 0), -1);
    /* Where the kernel knows the word, nobody can make a program of it either. */
    noexec = memfd_create("test", MFD_CLOEXEC | 0x0008U);
    if (noexec >= 0)
        assert_int_equal(fchmod(fd, 0700), -1);
    (void)close(noexec);
    gateway_hot_memory_give(f->sealed, body);
    assert_true(ask(f, 1, SIZE));
}

/* Whatever was done to the file, it is looked at again. */
static void
a_changed_file_is_another_one(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    const off_t at = (off_t)kvt_random_below(&random, SIZE);

    put(f, 1, SIZE);
    assert_false(ask(f, 1, SIZE));
    assert_true(ask(f, 1, SIZE));
    flip(f, 1, at);
    for (int i = 0; i < 3; i++)
        assert_false(ask(f, 1, SIZE)); /* nor is the damaged one ever taken in */
    flip(f, 1, at);
    assert_false(ask(f, 1, SIZE));
    assert_true(ask(f, 1, SIZE));
}

static void
a_file_cut_short(void **state)
{
    struct fixture *f = *state;
    struct g4_body body;
    int fd;

    put(f, 1, SIZE);
    assert_false(ask(f, 1, SIZE));
    open_body(f, 1, &body);
    fd = open_file(f, 1);
    assert_int_equal(ftruncate(fd, G4_OBJECT_FILE_BODY_AT + SIZE / 2), 0);
    (void)close(fd);
    for (int i = 0; i < 3; i++)
        assert_null(gateway_hot_memory_take(f->sealed, &body));
    g4_body_close(&body);
}

/* More bodies than there is room for, in random order: never more than fit, all right, and some of
 * those asked for most are there. */
static void
keeps_within_its_bounds(void **state)
{
    struct fixture *f = *state;
    const unsigned before = count_descriptors();
    uint64_t random = test_seed();
    unsigned hits = 0;
    unsigned most = 0;

    for (uint64_t i = 0; i < FILES; i++)
        put(f, i, SIZE);
    for (unsigned i = 0; i < 120; i++) {
        const bool favourite = kvt_random_below(&random, 2) == 0;
        const unsigned there = count_descriptors();

        hits += ask(f, favourite ? 0 : kvt_random_below(&random, FILES), SIZE) ? 1 : 0;
        most = there > most ? there : most;
    }
    assert_in_range(most, before + 1, before + ROOM);
    assert_in_range(hits, 30, 120);
    gateway_hot_memory_free(f->sealed);
    f->sealed = NULL;
    assert_int_equal(count_descriptors(), before);
}

/* Clients that take their time with as many bodies as there is room for: others read files, until
 * one is done. */
static void
what_is_sent_keeps_its_place(void **state)
{
    struct fixture *f = *state;
    const unsigned before = count_descriptors();
    struct gateway_hot_memory_body *taken[ROOM];
    unsigned hits = 0;

    for (uint64_t i = 0; i < FILES; i++)
        put(f, i, SIZE);
    for (uint64_t i = 0; i < ROOM; i++) {
        assert_null(take(f, i));
        taken[i] = take(f, i);
        assert_non_null(taken[i]);
    }
    for (unsigned i = 0; i < 20 * FILES; i++) {
        assert_int_equal(ask(f, i % FILES, SIZE), i % FILES < ROOM);
        assert_int_equal(count_descriptors(), before + ROOM);
    }
    for (uint64_t i = 0; i < ROOM; i++)
        look_at(f, taken[i], i, SIZE);
    gateway_hot_memory_give(f->sealed, taken[1]);
    for (unsigned i = 0; i < 20; i++)
        hits += ask(f, ROOM, SIZE) ? 1 : 0;
    assert_in_range(hits, 1, 20);
    assert_int_equal(count_descriptors(), before + ROOM);
    for (uint64_t i = 0; i < ROOM; i++)
        if (i != 1) {
            look_at(f, taken[i], i, SIZE);
            gateway_hot_memory_give(f->sealed, taken[i]);
        }
}

static void
what_nobody_uses_goes(void **state)
{
    struct fixture *f = *state;
    const unsigned before = count_descriptors();
    struct gateway_hot_memory_body *taken;

    for (uint64_t i = 0; i < 2; i++) {
        put(f, i, SIZE);
        assert_false(ask(f, i, SIZE));
        assert_true(ask(f, i, SIZE));
    }
    taken = take(f, 0);
    gateway_hot_memory_expire(f->sealed, kvt_clock_mono_ms());
    gateway_hot_memory_expire(NULL, 0);
    assert_int_equal(count_descriptors(), before + 2);
    gateway_hot_memory_expire(f->sealed, kvt_clock_mono_ms() + GATEWAY_HOT_MEMORY_IDLE_MS);
    assert_int_equal(count_descriptors(), before + 1);
    look_at(f, taken, 0, SIZE);
    gateway_hot_memory_give(f->sealed, taken);
    gateway_hot_memory_expire(f->sealed, kvt_clock_mono_ms() + GATEWAY_HOT_MEMORY_IDLE_MS);
    assert_int_equal(count_descriptors(), before);
    assert_true(ask(f, 1, SIZE));
}

struct taker {
    struct fixture *fixture;
    uint64_t number;
    pthread_barrier_t *begin;
    struct gateway_hot_memory_body *taken;
};

static void *
take_at_once(void *arg)
{
    struct taker *taker = arg;

    (void)pthread_barrier_wait(taker->begin);
    taker->taken = take(taker->fixture, taker->number);
    return NULL;
}

/* Who comes while a body is copied, which takes long, reads the file; nobody copies it again. */
static void
many_who_want_the_same(void **state)
{
    struct fixture *f = *state;
    struct taker takers[TAKERS];
    pthread_t threads[TAKERS];
    pthread_barrier_t begin;

    gateway_hot_memory_free(f->sealed);
    assert_int_equal(gateway_hot_memory_new(&f->sealed, ROOM * (uint64_t)LONG), KVT_OK);
    f->gateway.context->body_limits.object_max = LONG;
    assert_int_equal(pthread_barrier_init(&begin, NULL, TAKERS), 0);
    for (uint64_t number = 0; number < 3; number++) {
        struct gateway_hot_memory_body *one = NULL;

        put(f, number, LONG);
        assert_null(take(f, number));
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = (struct taker){f, number, &begin, NULL};
            assert_int_equal(pthread_create(&threads[i], NULL, take_at_once, &takers[i]), 0);
        }
        for (int i = 0; i < TAKERS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < TAKERS; i++) {
            if (takers[i].taken == NULL)
                continue;
            assert_true(one == NULL || takers[i].taken == one);
            one = takers[i].taken;
            gateway_hot_memory_give(f->sealed, one);
        }
        assert_non_null(one);
        assert_true(ask(f, number, LONG));
    }
    (void)pthread_barrier_destroy(&begin);
}

/* Where no such file can be made, blocks are read, as if there were no room for any. */
static void
a_system_that_seals_nothing(void **state)
{
    struct fixture *f = *state;
    const int next = dup(STDERR_FILENO);
    struct rlimit before;

    put(f, 1, SIZE);
    gateway_hot_memory_free(f->sealed);
    assert_true(next >= 0);
    (void)close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, before.rlim_max}), 0);
    assert_int_equal(gateway_hot_memory_new(&f->sealed, ROOM * (uint64_t)SIZE), KVT_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 20; i++)
        assert_false(ask(f, 1, SIZE));
}

static bool
make_once(void *arg)
{
    struct gateway_hot_memory *sealed;
    const enum kvt_err rc = gateway_hot_memory_new(&sealed, 1u << 30);

    (void)arg;
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    assert_true((sealed != NULL) == (rc == KVT_OK));
    gateway_hot_memory_free(sealed);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(make_once, NULL) >= 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_from_memory_when_asked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_ones_and_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_can_write_to_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_file_is_another_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_cut_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_within_its_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_sent_keeps_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_nobody_uses_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_who_want_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_system_that_seals_nothing, set_up, tear_down),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
