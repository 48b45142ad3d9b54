/*
 * What is tested: the folders of g4/directory/directory.h under many keys: no folder outgrows its
 * bound, listing is complete and in key order from any key on, prefixes work, splits that a kill
 * -9 or a power cut interrupted are finished, and keys that cannot be told apart fill their folder
 * honestly.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/directory/file_name.h"
#include "g4/directory/folder_split.h"
#include "g4/directory/object_file.h"
#include "g4/directory/tree.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { KEYS = 9000, PATH_SIZE = 4096, ENTRIES_MAX = 4096 };

struct fixture {
    char path[128];
    struct g4_store *store;
    char (*keys)[96]; /* sorted */
    struct g4_listed *rows;
};

static int
compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Object files for `keys`, written without the store: only their names and headers matter here. */
static void
plant(const char *folder, const char *key)
{
    uint8_t page[G4_OBJECT_FILE_BODY_AT] = {0};
    struct g4_object_file object = {.etag = "planted"};
    char name[G4_FILE_NAME_MAX];
    char path[PATH_SIZE];
    int fd;

    (void)snprintf(object.key, sizeof(object.key), "%s", key);
    g4_object_file_encode(&object, page);
    g4_file_name_format(key, name);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    (void)close(fd);
}

/* Two namespaces that agree in their first bytes, ranks, positions and hashes as in real keys. */
static void
make_keys(struct fixture *f, uint64_t *random)
{
    f->keys = kvt_calloc(KEYS, sizeof(*f->keys));
    for (int i = 0; i < KEYS; i++) {
        const struct kvt_block_id block = {.hash = kvt_random_next(random),
                                           .parent = kvt_random_next(random),
                                           .position = (uint32_t)kvt_random_below(random, 300)};

        assert_int_equal(kvt_key_format(f->keys[i], sizeof(f->keys[i]), KVT_KEY_KVBM_B,
                                        i % 9 == 0 ? "kvtier-demo/model-b" : "kvtier-demo/model-a",
                                        (uint32_t)i % 2, &block),
                         KVT_OK);
    }
    qsort(f->keys, KEYS, sizeof(*f->keys), compare_keys);
}

static struct g4_store *
open_store(const char *path)
{
    const struct g4_directory_options options = {.path = path};
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
    f->rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*f->rows));
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
    kvt_free(f->rows);
    kvt_free(f->keys);
    kvt_free(f);
    return 0;
}

/* The fullest folder below `path`; every one is at most ENTRIES_MAX. */
static size_t
fullest_folder(const char *path, size_t *folders)
{
    size_t count = 0;
    size_t most = 0;
    struct dirent *entry;
    DIR *dir = opendir(path);

    assert_non_null(dir);
    (*folders)++;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (entry->d_type == DT_DIR) {
            char below[PATH_SIZE];
            size_t fullest;

            assert_true(snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) < PATH_SIZE);
            fullest = fullest_folder(below, folders);
            most = fullest > most ? fullest : most;
        }
    }
    (void)closedir(dir);
    assert_true(count <= ENTRIES_MAX);
    return count > most ? count : most;
}

/* All pages from `token` on must be the keys [from, to). */
static void
assert_listed(struct fixture *f, const char *prefix, const char *after, size_t from, size_t to)
{
    char token[G4_TOKEN_MAX] = "";
    size_t at = from;

    (void)snprintf(token, sizeof(token), "%s", after);
    do {
        size_t count;

        assert_int_equal(list(f->store, prefix, token, f->rows, &count), KVT_OK);
        assert_true(count > 0 || from == to);
        for (size_t i = 0; i < count; i++, at++) {
            assert_true(at < to);
            assert_string_equal(f->rows[i].key, f->keys[at]);
        }
        assert_true(token[0] == '\0' || count == G4_LIST_KEYS_MAX);
    } while (token[0] != '\0');
    assert_int_equal(at, to);
}

static void
put_all(struct fixture *f)
{
    for (int i = 0; i < KEYS; i++) {
        /* 4,099 and KEYS have no common factor: every key once, in no order. */
        const char *key = f->keys[(size_t)i * 4099 % KEYS];

        assert_int_equal(put_absent(f->store, key, key, 8, NULL), KVT_OK);
    }
}

static void
folders_are_bounded_and_listing_is_in_key_order(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    char objects[PATH_SIZE];
    size_t folders = 0;
    size_t in_b = 0;

    make_keys(f, &random);
    put_all(f);
    (void)snprintf(objects, sizeof(objects), "%s/objects", f->path);
    assert_true(fullest_folder(objects, &folders) <= ENTRIES_MAX);
    assert_true(folders > 20); /* there was something to split */

    assert_listed(f, "", "", 0, KEYS);
    assert_listed(f, "", f->keys[1234], 1235, KEYS);
    assert_listed(f, "zz", "", 0, 0);
    while (strncmp(f->keys[KEYS - 1 - in_b], "kvtier-demo/model-b", 19) == 0)
        in_b++;
    assert_true(in_b > 0);
    assert_listed(f, "kvtier-demo/model-b", "", KEYS - in_b, KEYS);
    assert_listed(f, f->keys[77], "", 77, 78);

    /* Every key is found, is still there after a new start, and is put once only. */
    g4_store_close(f->store);
    f->store = open_store(f->path);
    assert_listed(f, "", "", 0, KEYS);
    for (int i = 0; i < KEYS; i++) {
        char etag[G4_ETAG_MAX];

        assert_int_equal(put_absent(f->store, f->keys[i], "x", 1, etag), KVT_EXISTS);
        if (i % 2 == 0)
            assert_int_equal(del(f->store, f->keys[i]), KVT_OK);
    }
    for (int i = 0; i < KEYS; i += 2)
        memmove(f->keys[i / 2], f->keys[i + 1], sizeof(f->keys[0]));
    assert_listed(f, "", "", 0, KEYS / 2);
}

/* A folder half split: the chain of the branch is there, `moved` of the files are in it. */
static void
split_in_part(struct fixture *f, size_t count, size_t moved)
{
    char objects[PATH_SIZE];
    char branch[PATH_SIZE];
    char path[G4_PATH_MAX];

    (void)snprintf(objects, sizeof(objects), "%s/objects", f->path);
    for (size_t depth = 1; depth <= 12; depth++) {
        g4_file_name_path(f->keys[0], depth, path, NULL);
        assert_true(snprintf(branch, sizeof(branch), "%s/%s", objects, path) < PATH_SIZE);
        assert_int_equal(mkdir(branch, 0700), 0);
    }
    for (size_t i = 0; i < count; i++)
        plant(i < moved ? branch : objects, f->keys[i]);
}

static void
recovery_finishes_a_split_after_a_power_cut(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    char objects[PATH_SIZE];
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));

    make_keys(f, &random);
    g4_store_close(f->store);
    split_in_part(f, 100, 60);
    /* The same rename half synced: both names are there. */
    (void)snprintf(objects, sizeof(objects), "%s/objects", f->path);
    plant(objects, f->keys[3]);
    f->store = open_store(f->path);
    assert_listed(f, "", "", 0, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(get(f->store, f->keys[i], fetched), KVT_OK);
        assert_int_equal(put_absent(f->store, f->keys[i], "x", 1, NULL), KVT_EXISTS);
        assert_int_equal(del(f->store, f->keys[i]), KVT_OK);
        assert_int_equal(get(f->store, f->keys[i], fetched), KVT_NOTFOUND);
    }
    kvt_free(fetched);
}

/* A process was killed in the middle; another one goes on without ever closing the store. */
static void
the_next_one_finishes_the_split_of_a_killed_process(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    struct g4_tree *tree;
    bool alone;

    make_keys(f, &random);
    split_in_part(f, 100, 60);
    assert_int_equal(g4_tree_open(&tree, f->path, &alone, NULL), KVT_OK);
    assert_false(alone);
    atomic_store(&g4_tree_usage(tree)->splitting, 1);
    g4_tree_close(tree);
    for (int i = 0; i < 100; i++)
        assert_int_equal(get(f->store, f->keys[i], fetched), KVT_OK);
    assert_listed(f, "", "", 0, 100);
    kvt_free(fetched);
}

/* Keys that differ only where no folder reaches: the folder fills up, and says so. */
static void
keys_that_cannot_be_told_apart_fill_their_folder(void **state)
{
    struct fixture *f = *state;
    char objects[PATH_SIZE];
    char key[KVT_KEY_MAX];
    size_t folders = 0;
    int stored = 0;
    enum kvt_err rc = KVT_OK;

    memset(key, 'q', sizeof(key));
    while (stored < 2 * ENTRIES_MAX) {
        (void)snprintf(key + 300, sizeof(key) - 300, "%d", stored);
        rc = put_absent(f->store, key, "", 0, NULL);
        if (rc != KVT_OK)
            break;
        stored++;
    }
    assert_int_equal(rc, KVT_FULL);
    assert_true(stored >= G4_TREE_ENTRIES_MAX);
    (void)snprintf(objects, sizeof(objects), "%s/objects", f->path);
    (void)fullest_folder(objects, &folders);
    assert_int_equal(put_absent(f->store, "another", "", 0, NULL), KVT_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folders_are_bounded_and_listing_is_in_key_order),
        TEST(recovery_finishes_a_split_after_a_power_cut),
        TEST(the_next_one_finishes_the_split_of_a_killed_process),
        TEST(keys_that_cannot_be_told_apart_fill_their_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
