/*
 * What is tested: g4/directory/directory.h on a disk that really is full (a small tmpfs in a mount
 * namespace of its own): FULL with nothing torn, everything acknowledged still readable, deletion
 * possible, and room found again.  Needs the right to mount; without it the program says "skipped".
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/core/alloc.h"
#include "g4/directory/directory.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { BODY = 20000, KEYS = 200, SKIPPED = 77 };

static char folder[128];

static bool
mount_small(void)
{
    (void)test_folder_make(folder, sizeof(folder));
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=1m,mode=700") == 0;
}

static struct g4_store *
open_store(void)
{
    const struct g4_directory_options options = {.path = folder};
    struct g4_store *store = NULL;

    assert_int_equal(g4_directory_open(&store, &options, NULL), KVT_OK);
    return store;
}

static const char *
key_of(int i, char key[32])
{
    (void)snprintf(key, 32, "ns/0/%d:x", i);
    return key;
}

/* Put until it is full; returns how many went in. */
static int
fill_up(struct g4_store *store, int from)
{
    char body[BODY];
    char key[32];
    int i = from;

    for (; i < KEYS; i++) {
        enum kvt_err rc;

        fill(body, sizeof(body), (uint64_t)i);
        rc = put_absent(store, key_of(i, key), body, sizeof(body), NULL);
        if (rc != KVT_OK) {
            assert_int_equal(rc, KVT_FULL);
            break;
        }
    }
    return i;
}

static void
assert_readable(struct g4_store *store, int count)
{
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    char body[BODY];
    char key[32];

    for (int i = 0; i < count; i++) {
        fill(body, sizeof(body), (uint64_t)i);
        assert_int_equal(get(store, key_of(i, key), fetched), KVT_OK);
        assert_memory_equal(fetched->body, body, sizeof(body));
    }
    assert_int_equal(get(store, key_of(count, key), fetched), KVT_NOTFOUND);
    kvt_free(fetched);
}

static void
a_full_disk_is_full_and_nothing_is_torn(void **state)
{
    struct g4_store *store = open_store();
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char etag[G4_ETAG_MAX] = "";
    char token[G4_TOKEN_MAX] = "";
    char body[BODY] = {0};
    char key[32];
    size_t listed;
    int count;

    (void)state;
    assert_int_equal(put(store, key_of(0, key), body, sizeof(body), etag), KVT_OK);
    fill(body, sizeof(body), 0);
    assert_int_equal(put_match(store, key_of(0, key), body, sizeof(body), etag), KVT_OK);
    count = fill_up(store, 1);
    assert_true(count > 10 && count < KEYS);
    assert_readable(store, count);
    assert_int_equal(put_match(store, key_of(0, key), body, sizeof(body), etag), KVT_FULL);
    assert_readable(store, count);

    assert_int_equal(del(store, key_of(count - 1, key)), KVT_OK);
    assert_int_equal(fill_up(store, count - 1), count);
    g4_store_close(store);
    store = open_store();
    assert_readable(store, count);
    assert_int_equal(list(store, "", token, rows, &listed), KVT_OK);
    assert_int_equal(listed, count);
    g4_store_close(store);
    kvt_free(rows);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_full_and_nothing_is_torn),
    };
    int failed;

    if (!mount_small()) {
        (void)fprintf(stderr, "skipped: no right to mount a tmpfs (%s)\n", strerror(errno));
        test_folder_remove(folder);
        return SKIPPED;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)umount2(folder, MNT_DETACH);
    test_folder_remove(folder);
    return failed;
}
