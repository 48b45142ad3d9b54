#include "g4/directory/folder_split.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "g4/directory/file_name.h"

enum { GROUP_MIN = 8 };

/* Where both names exist a power cut kept both halves of one rename: they are the same object. */
static enum kvt_err
move_file(int from, int to, const char *name, struct kvt_error *err)
{
    struct stat about;
    int failed;

    if (fstatat(to, name, &about, AT_SYMLINK_NOFOLLOW) == 0)
        failed = unlinkat(from, name, 0);
    else
        failed = renameat(from, name, to, name);
    return failed == 0 ? KVT_OK : kvt_error_sys(err, errno, "move %s", name);
}

static enum kvt_err
sync_folder(int fd, struct kvt_error *err)
{
    return fsync(fd) == 0 ? KVT_OK : kvt_error_sys(err, errno, "sync a folder of the store");
}

/* The whole key of an entry. */
static void
key_of(const char *prefix, size_t depth, const struct g4_folder_entry *entry, char key[KVT_KEY_MAX])
{
    (void)snprintf(key, KVT_KEY_MAX, "%.*s%s", (int)depth, prefix, entry->rest);
}

enum kvt_err
g4_folder_split_tidy(struct g4_tree *tree, int fd, const struct g4_folder *folder,
                     const char *prefix, size_t depth, size_t *moved, struct kvt_error *err)
{
    const struct g4_folder_entry *branch = NULL;
    enum kvt_err rc = KVT_OK;

    *moved = 0;
    for (size_t i = 0; i < folder->count && rc == KVT_OK; i++) {
        const struct g4_folder_entry *entry = &folder->entries[i];
        char key[KVT_KEY_MAX];
        size_t deepest;
        int to;

        if (entry->branch)
            branch = entry;
        if (entry->branch || branch == NULL || branch->rest[0] != entry->rest[0])
            continue;
        key_of(prefix, depth, entry, key);
        to = g4_tree_deepest(tree, key, &deepest);
        if (to < 0)
            return kvt_error_sys(err, errno, "open the folder of %s", key);
        rc = move_file(fd, to, entry->name, err);
        if (rc == KVT_OK)
            rc = sync_folder(to, err);
        (void)close(to);
        (*moved)++;
    }
    return rc == KVT_OK && *moved > 0 ? sync_folder(fd, err) : rc;
}

/* Move entries [from, to), which share `shared` bytes beyond the folder's, into their own folder.
 */
static enum kvt_err
move_group(struct g4_tree *tree, int fd, const struct g4_folder_entry *entries, size_t count,
           const char *prefix, size_t depth, struct kvt_error *err)
{
    const char *first = entries[0].rest;
    const char *last = entries[count - 1].rest;
    enum kvt_err rc = KVT_OK;
    char key[KVT_KEY_MAX];
    size_t shared = 0;
    int to;

    while (first[shared] != '\0' && first[shared] == last[shared] && depth + shared < G4_DEPTH_MAX)
        shared++;
    key_of(prefix, depth, &entries[0], key);
    to = g4_tree_folder(tree, key, depth + shared, true);
    if (to < 0)
        return kvt_error_sys(err, errno, "make a folder for %s", key);
    for (size_t i = 0; i < count && rc == KVT_OK; i++)
        rc = move_file(fd, to, entries[i].name, err);
    if (rc == KVT_OK)
        rc = sync_folder(to, err);
    (void)close(to);
    return rc;
}

static enum kvt_err
move_groups(struct g4_tree *tree, int fd, const struct g4_folder *folder, const char *prefix,
            size_t depth, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    size_t end;

    for (size_t i = 0; i < folder->count && rc == KVT_OK; i = end) {
        const struct g4_folder_entry *entries = folder->entries + i;

        for (end = i + 1; end < folder->count; end++)
            if (folder->entries[end].rest[0] != entries->rest[0])
                break;
        /* A group that starts with its branch was tidied; a key that is all used up stays. */
        if (!entries->branch && entries->rest[0] != '\0' && end - i >= GROUP_MIN)
            rc = move_group(tree, fd, entries, end - i, prefix, depth, err);
    }
    return rc;
}

static enum kvt_err
split_folder(struct g4_tree *tree, int fd, const char *prefix, size_t depth, bool grow,
             struct kvt_error *err)
{
    struct g4_folder folder;
    enum kvt_err rc;
    size_t moved;

    rc = g4_folder_read(&folder, fd, prefix, depth, err);
    if (rc != KVT_OK)
        return rc;
    rc = g4_folder_split_tidy(tree, fd, &folder, prefix, depth, &moved, err);
    if (rc == KVT_OK && grow && depth < G4_DEPTH_MAX)
        rc = move_groups(tree, fd, &folder, prefix, depth, err);
    if (rc == KVT_OK && grow)
        rc = sync_folder(fd, err);
    g4_folder_release(&folder);
    return rc;
}

enum kvt_err
g4_folder_split(struct g4_tree *tree, const char *key, size_t depth, struct kvt_error *err)
{
    struct g4_tree_usage *usage = g4_tree_usage(tree);
    enum kvt_err rc = KVT_OK;
    size_t deepest;
    int fd = -1;
    int lock;

    lock = g4_tree_lock(tree, true);
    if (lock >= 0)
        fd = g4_tree_deepest(tree, key, &deepest);
    if (fd < 0) {
        rc = kvt_error_sys(err, errno, "lock the store to split a folder");
        goto done;
    }
    /* Somebody else may have split it while we waited. */
    if (deepest == depth && atomic_load(&usage->splitting) == 0) {
        (void)snprintf(usage->split_prefix, sizeof(usage->split_prefix), "%.*s", (int)depth, key);
        atomic_store(&usage->splitting, 1);
        rc = split_folder(tree, fd, key, depth, true, err);
        /* After a failure it stays marked: the next one to come puts the rest in its place. */
        if (rc == KVT_OK)
            atomic_store(&usage->splitting, 0);
    }

done:
    if (fd >= 0)
        (void)close(fd);
    if (lock >= 0)
        (void)close(lock);
    return rc;
}

/* Finish the split that somebody left behind; 0, or -1 with errno. */
static int
finish_split(struct g4_tree *tree)
{
    struct g4_tree_usage *usage = g4_tree_usage(tree);
    const int lock = g4_tree_lock(tree, true);
    struct kvt_error err = {.sys = 0};
    char prefix[KVT_KEY_MAX];
    int fd;

    if (lock < 0)
        return -1;
    if (atomic_load(&usage->splitting) != 0) {
        memcpy(prefix, usage->split_prefix, sizeof(prefix));
        prefix[sizeof(prefix) - 1] = '\0';
        fd = g4_tree_folder(tree, prefix, strnlen(prefix, G4_DEPTH_MAX), false);
        if (fd < 0)
            err.sys = errno;
        else if (split_folder(tree, fd, prefix, strnlen(prefix, G4_DEPTH_MAX), false, &err) ==
                 KVT_OK)
            atomic_store(&usage->splitting, 0);
        else if (err.sys == 0)
            err.sys = ENOMEM;
        if (fd >= 0)
            (void)close(fd);
    }
    (void)close(lock);
    errno = err.sys;
    return err.sys == 0 ? 0 : -1;
}

int
g4_folder_split_lock(struct g4_tree *tree)
{
    for (;;) {
        const int lock = g4_tree_lock(tree, false);

        if (lock < 0 || atomic_load(&g4_tree_usage(tree)->splitting) == 0)
            return lock;
        (void)close(lock);
        if (finish_split(tree) != 0)
            return -1;
    }
}
