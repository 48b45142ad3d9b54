#include "g4/directory/tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "g4/directory/file_name.h"

enum {
    STRIPES = 64,
    SLOTS = 1024,      /* folders whose new files are counted at a time */
    COUNT_EVERY = 128, /* new files of one process between two counts of a folder */
    FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
    LOCK_NAME_MAX = 16,
};

/* New files since a folder was last counted.  A slot that is taken by another folder forgets: then
 * the next file counts again, which costs time but never lets a folder grow unseen. */
struct slot {
    uint64_t folder; /* hash of its prefix */
    uint32_t left;
};

struct g4_tree {
    int root;
    int objects;
    int tmp;
    int locks;
    int owner;
    struct g4_tree_usage *usage;
    _Atomic size_t hint; /* how deep the last key's folder was */

    struct {
        pthread_mutex_t lock; /* guards `slots` */
        struct slot slots[SLOTS];
    } shared;
};

static uint64_t
hash_of(const char *text, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static int
make_folder(int at, const char *name)
{
    if (mkdirat(at, name, 0700) == 0) {
        if (fsync(at) != 0)
            return -1;
    } else if (errno != EEXIST) {
        return -1;
    }
    return openat(at, name, FOLDER_FLAGS);
}

static int
open_lock(struct g4_tree *tree, const char *name)
{
    return openat(tree->locks, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* flock() until it is ours; -1 with errno, and `fd` closed. */
static int
hold(int fd, int how)
{
    while (fd >= 0 && flock(fd, how) != 0) {
        if (errno != EINTR) {
            const int sys = errno;

            (void)close(fd);
            errno = sys;
            return -1;
        }
    }
    return fd;
}

static enum kvt_err
map_usage(struct g4_tree *tree, const char *path, struct kvt_error *err)
{
    const int fd = openat(tree->root, "usage", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory;
    int sys;

    if (fd < 0)
        return kvt_error_sys(err, errno, "open %s/usage", path);
    /* Claimed now: a hole that a full disk cannot fill would be a SIGBUS later. */
    sys = posix_fallocate(fd, 0, sizeof(*tree->usage));
    if (sys != 0) {
        (void)close(fd);
        return kvt_error_sys(err, sys, "size %s/usage", path);
    }
    memory = mmap(NULL, sizeof(*tree->usage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (memory == MAP_FAILED)
        return kvt_error_sys(err, errno, "map %s/usage", path);
    tree->usage = memory;
    return KVT_OK;
}

/* All the lock files, now: on a full disk a deletion must not fail for want of one. */
static enum kvt_err
make_locks(struct g4_tree *tree, const char *path, struct kvt_error *err)
{
    for (unsigned i = 0; i < STRIPES + 2; i++) {
        char name[LOCK_NAME_MAX];
        int fd;

        (void)snprintf(name, sizeof(name), "stripe-%02x", i);
        fd = open_lock(tree, i < STRIPES ? name : i == STRIPES ? "gate" : "tree");
        if (fd < 0)
            return kvt_error_sys(err, errno, "make %s/locks", path);
        (void)close(fd);
    }
    return KVT_OK;
}

/* The first one is alone and holds the owner lock exclusively; the others wait until it shares. */
static enum kvt_err
take_owner(struct g4_tree *tree, const char *path, bool *alone, struct kvt_error *err)
{
    tree->owner = open_lock(tree, "owner");
    if (tree->owner < 0)
        return kvt_error_sys(err, errno, "open %s/locks/owner", path);
    *alone = flock(tree->owner, LOCK_EX | LOCK_NB) == 0;
    if (*alone)
        return KVT_OK;
    if (errno != EWOULDBLOCK)
        return kvt_error_sys(err, errno, "lock %s", path);
    tree->owner = hold(tree->owner, LOCK_SH);
    return tree->owner < 0 ? kvt_error_sys(err, errno, "lock %s", path) : KVT_OK;
}

enum kvt_err
g4_tree_open(struct g4_tree **out, const char *path, bool *alone, struct kvt_error *err)
{
    struct g4_tree *tree;
    enum kvt_err rc;

    *out = NULL;
    *alone = false;
    tree = kvt_calloc(1, sizeof(*tree));
    if (tree == NULL)
        return kvt_error_set(err, KVT_NOMEM, "directory store %s", path);
    tree->root = tree->objects = tree->tmp = tree->locks = tree->owner = -1;
    (void)pthread_mutex_init(&tree->shared.lock, NULL);

    rc = kvt_folder_make(path, err);
    if (rc != KVT_OK)
        goto fail;
    tree->root = open(path, FOLDER_FLAGS);
    if (tree->root >= 0)
        tree->objects = make_folder(tree->root, "objects");
    if (tree->objects >= 0)
        tree->tmp = make_folder(tree->root, "tmp");
    if (tree->tmp >= 0)
        tree->locks = make_folder(tree->root, "locks");
    if (tree->locks < 0) {
        rc = kvt_error_sys(err, errno, "open directory store %s", path);
        goto fail;
    }
    rc = make_locks(tree, path, err);
    if (rc == KVT_OK)
        rc = take_owner(tree, path, alone, err);
    if (rc == KVT_OK)
        rc = map_usage(tree, path, err);
    if (rc != KVT_OK)
        goto fail;
    if (*alone) {
        atomic_store(&tree->usage->bytes, 0);
        atomic_store(&tree->usage->objects, 0);
        atomic_store(&tree->usage->splitting, 0);
    }
    *out = tree;
    return KVT_OK;

fail:
    g4_tree_close(tree);
    return rc;
}

enum kvt_err
g4_tree_share(struct g4_tree *tree, struct kvt_error *err)
{
    tree->owner = hold(tree->owner, LOCK_SH);
    return tree->owner < 0 ? kvt_error_sys(err, errno, "share the directory store") : KVT_OK;
}

static void
close_one(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void
g4_tree_close(struct g4_tree *tree)
{
    if (tree == NULL)
        return;
    if (tree->usage != NULL)
        (void)munmap(tree->usage, sizeof(*tree->usage));
    close_one(tree->objects);
    close_one(tree->tmp);
    close_one(tree->locks);
    close_one(tree->root);
    close_one(tree->owner);
    (void)pthread_mutex_destroy(&tree->shared.lock);
    kvt_free(tree);
}

struct g4_tree_usage *
g4_tree_usage(struct g4_tree *tree)
{
    return tree->usage;
}

int
g4_tree_tmp(const struct g4_tree *tree)
{
    return tree->tmp;
}

int
g4_tree_lock(struct g4_tree *tree, bool exclusive)
{
    /* flock() lets new sharers pass a waiting owner: at the gate they queue up behind it. */
    const int gate = hold(open_lock(tree, "gate"), exclusive ? LOCK_EX : LOCK_SH);
    int fd;
    int sys;

    if (gate < 0)
        return -1;
    fd = hold(open_lock(tree, "tree"), exclusive ? LOCK_EX : LOCK_SH);
    sys = errno;
    (void)close(gate);
    errno = sys;
    return fd;
}

int
g4_tree_lock_stripe(struct g4_tree *tree, const char *key)
{
    char name[LOCK_NAME_MAX];

    (void)snprintf(name, sizeof(name), "stripe-%02x",
                   (unsigned)(hash_of(key, strlen(key)) % STRIPES));
    return hold(open_lock(tree, name), LOCK_EX);
}

/* Open the folder whose path ends at `end`; -1 with errno, ENOENT where there is none. */
static int
open_cut(struct g4_tree *tree, char *path, size_t end)
{
    const char kept = path[end];
    int fd;

    path[end] = '\0';
    fd = openat(tree->objects, path, FOLDER_FLAGS);
    path[end] = kept;
    return fd;
}

/* The file, if the folder of that depth has it and the system need not look for it on the disk. */
static int
peek_at(struct g4_tree *tree, const char *key, const char *name, size_t depth)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
                                 .resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS};
    size_t ends[G4_DEPTH_MAX + 1];
    char folder[G4_PATH_MAX];
    char path[G4_PATH_MAX + G4_FILE_NAME_MAX];

    g4_file_name_path(key, depth, folder, ends);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return (int)syscall(SYS_openat2, tree->objects, path, &how, sizeof(how));
}

int
g4_tree_peek(struct g4_tree *tree, const char *key, const char *name)
{
    const size_t length = strlen(key);
    const size_t most = length < G4_DEPTH_MAX ? length : G4_DEPTH_MAX;
    const size_t hint = atomic_load_explicit(&tree->hint, memory_order_relaxed);
    /* Where a tree grows, neighbours are a folder deeper or less deep. */
    const size_t depths[] = {hint, hint + 1, hint - 1};

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        const int fd = depths[i] <= most ? peek_at(tree, key, name, depths[i]) : -1;

        if (fd < 0)
            continue;
        if (i > 0)
            atomic_store_explicit(&tree->hint, depths[i], memory_order_relaxed);
        return fd;
    }
    return -1;
}

/*
 * Folders along a key exist down to some depth and not below it, so the depth can be searched for.
 * The last one found is the best guess: neighbours in a workload are neighbours in the tree.
 */
int
g4_tree_deepest(struct g4_tree *tree, const char *key, size_t *depth)
{
    const size_t length = strlen(key);
    const size_t most = length < G4_DEPTH_MAX ? length : G4_DEPTH_MAX;
    size_t guess = atomic_load_explicit(&tree->hint, memory_order_relaxed);
    size_t ends[G4_DEPTH_MAX + 1];
    char path[G4_PATH_MAX];
    size_t low = 0;         /* exists, or is the root */
    size_t high = most + 1; /* does not */
    size_t step = 1;
    int best = -1;

    *depth = 0;
    g4_file_name_path(key, most, path, ends);
    if (guess > most)
        guess = most;
    for (;;) {
        int fd;

        if (guess == 0)
            fd = openat(tree->objects, ".", FOLDER_FLAGS);
        else
            fd = open_cut(tree, path, ends[guess]);
        if (fd >= 0) {
            close_one(best);
            best = fd;
            low = guess;
        } else if (errno == ENOENT && guess > 0) {
            high = guess;
        } else {
            const int sys = errno;

            close_one(best);
            errno = sys;
            return -1;
        }
        if (best >= 0 && high == low + 1)
            break;
        /* Growing steps beyond a hit, halves after a miss. */
        guess = low + step;
        step *= 2;
        if (fd < 0 || guess >= high)
            guess = low + (high - low) / 2;
    }
    atomic_store_explicit(&tree->hint, low, memory_order_relaxed);
    *depth = low;
    return best;
}

int
g4_tree_folder(struct g4_tree *tree, const char *key, size_t depth, bool make)
{
    size_t ends[G4_DEPTH_MAX + 1];
    char path[G4_PATH_MAX];
    int fd;

    g4_file_name_path(key, depth, path, ends);
    if (!make)
        return openat(tree->objects, path, FOLDER_FLAGS);
    fd = openat(tree->objects, ".", FOLDER_FLAGS);
    for (size_t i = 1; i <= depth && fd >= 0; i++) {
        const size_t start = i == 1 ? 0 : ends[i - 1] + 1;
        int next;

        if (i < depth)
            path[ends[i]] = '\0';
        next = make_folder(fd, path + start);
        close_one(fd);
        fd = next;
    }
    return fd;
}

bool
g4_tree_count_due(struct g4_tree *tree, const char *key, size_t depth)
{
    const uint64_t folder = hash_of(key, depth);
    struct slot *slot = &tree->shared.slots[folder % SLOTS];
    bool due;

    pthread_mutex_lock(&tree->shared.lock);
    due = slot->folder != folder || slot->left == 0;
    *slot = (struct slot){.folder = folder, .left = due ? COUNT_EVERY : slot->left - 1};
    pthread_mutex_unlock(&tree->shared.lock);
    return due;
}
