#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "g4/directory/directory_internal.h"
#include "g4/directory/file_name.h"
#include "g4/directory/folder.h"
#include "g4/directory/folder_split.h"
#include "g4/directory/object_file.h"

struct page {
    struct g4_tree *tree;
    struct g4_request *request;
    const char *prefix;
    size_t prefix_size;
    char after[G4_TOKEN_MAX];
    bool more; /* there is a key beyond the full page */
};

/* Can a key that starts with these `size` bytes be on the page? */
static bool
branch_wanted(const struct page *page, const char *key, size_t size)
{
    const size_t both = size < page->prefix_size ? size : page->prefix_size;

    if (memcmp(key, page->prefix, both) != 0)
        return false;
    return strncmp(key, page->after, size) >= 0;
}

static void
list_file(struct page *page, int fd, const char *name, const char *key)
{
    struct g4_request *request = page->request;
    struct g4_object_file object;
    struct g4_listed *row;
    enum kvt_err rc;
    int file;

    if (strncmp(key, page->prefix, page->prefix_size) != 0 || strcmp(key, page->after) <= 0)
        return;
    if (request->listed_count == G4_LIST_KEYS_MAX) {
        page->more = true;
        return;
    }
    file = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return; /* deleted since the folder was read */
    rc = g4_object_file_read(file, key, &object, NULL);
    (void)close(file);
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return;
    row = &request->listed[request->listed_count++];
    memset(row, 0, sizeof(*row));
    memcpy(row->key, key, strlen(key) + 1);
    memcpy(row->etag, object.etag, sizeof(row->etag));
    row->size = object.meta.length;
    row->modified_ms = object.modified_ms;
}

/* The folder for the first `depth` bytes of `key`, whose buffer is used for what is below. */
static enum kvt_err
list_folder(struct page *page, char key[KVT_KEY_MAX], size_t depth)
{
    struct kvt_error *err = &page->request->error;
    struct g4_folder folder;
    enum kvt_err rc;
    int fd;

    fd = g4_tree_folder(page->tree, key, depth, false);
    if (fd < 0)
        return kvt_error_sys(err, errno, "list a folder of the store");
    rc = g4_folder_read(&folder, fd, key, depth, err);
    for (size_t i = 0; rc == KVT_OK && i < folder.count && !page->more; i++) {
        const struct g4_folder_entry *entry = &folder.entries[i];

        (void)snprintf(key + depth, KVT_KEY_MAX - depth, "%s", entry->rest);
        if (!entry->branch)
            list_file(page, fd, entry->name, key);
        else if (depth < G4_DEPTH_MAX && branch_wanted(page, key, depth + 1))
            rc = list_folder(page, key, depth + 1);
    }
    key[depth] = '\0';
    g4_folder_release(&folder);
    (void)close(fd);
    return rc;
}

enum kvt_err
g4_tree_walk_list(struct g4_tree *tree, struct g4_request *request)
{
    struct page page = {.tree = tree,
                        .request = request,
                        .prefix = request->key,
                        .prefix_size = strlen(request->key)};
    char key[KVT_KEY_MAX] = "";
    enum kvt_err rc;
    int lock;

    if (request->token[0] == '\0' && request->after != NULL)
        (void)snprintf(page.after, sizeof(page.after), "%s", request->after);
    else
        memcpy(page.after, request->token, sizeof(page.after));
    memset(request->token, 0, sizeof(request->token));
    lock = g4_folder_split_lock(tree);
    if (lock < 0)
        return kvt_error_sys(&request->error, errno, "lock the store");
    rc = list_folder(&page, key, 0);
    (void)close(lock);
    if (rc != KVT_OK)
        request->listed_count = 0;
    else if (page.more)
        memcpy(request->token, request->listed[G4_LIST_KEYS_MAX - 1].key, KVT_KEY_MAX);
    return rc;
}

/* Whoever writes such a file holds it locked: one that is not locked was left behind. */
static void
clean_tmp(int tmp)
{
    const int own = openat(tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    const struct dirent *entry;

    if (dir == NULL) {
        if (own >= 0)
            (void)close(own);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        const int fd = openat(tmp, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        if (fd >= 0 && entry->d_name[0] != '.' && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(tmp, entry->d_name, 0);
        if (fd >= 0)
            (void)close(fd);
    }
    (void)closedir(dir);
}

static void
count_file(struct g4_tree *tree, int fd, const char *name)
{
    struct stat about;

    if (fstatat(fd, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    atomic_fetch_add(&g4_tree_usage(tree)->bytes,
                     g4_object_file_body_size((uint64_t)about.st_size));
    atomic_fetch_add(&g4_tree_usage(tree)->objects, 1);
}

static enum kvt_err recover_folder(struct g4_tree *tree, char key[KVT_KEY_MAX], size_t depth,
                                   struct kvt_error *err);

static enum kvt_err
recover_entries(struct g4_tree *tree, int fd, char key[KVT_KEY_MAX], size_t depth,
                const struct g4_folder *folder, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < folder->count; i++) {
        const struct g4_folder_entry *entry = &folder->entries[i];

        if (!entry->branch) {
            count_file(tree, fd, entry->name);
        } else if (depth < G4_DEPTH_MAX) {
            key[depth] = entry->rest[0];
            key[depth + 1] = '\0';
            rc = recover_folder(tree, key, depth + 1, err);
            key[depth] = '\0';
            (void)unlinkat(fd, entry->name, AT_REMOVEDIR); /* only when it is empty */
        }
    }
    return rc;
}

static enum kvt_err
recover_folder(struct g4_tree *tree, char key[KVT_KEY_MAX], size_t depth, struct kvt_error *err)
{
    struct g4_folder folder;
    enum kvt_err rc;
    size_t moved = 0;
    int fd;

    fd = g4_tree_folder(tree, key, depth, false);
    if (fd < 0)
        return kvt_error_sys(err, errno, "open a folder of the store");
    rc = g4_folder_read(&folder, fd, key, depth, err);
    if (rc == KVT_OK)
        rc = g4_folder_split_tidy(tree, fd, &folder, key, depth, &moved, err);
    if (rc == KVT_OK && moved > 0) {
        g4_folder_release(&folder);
        rc = g4_folder_read(&folder, fd, key, depth, err);
    }
    if (rc == KVT_OK)
        rc = recover_entries(tree, fd, key, depth, &folder, err);
    g4_folder_release(&folder);
    (void)close(fd);
    return rc;
}

enum kvt_err
g4_tree_walk_recover(struct g4_tree *tree, struct kvt_error *err)
{
    char key[KVT_KEY_MAX] = "";
    enum kvt_err rc;
    int lock;

    lock = g4_tree_lock(tree, true);
    if (lock < 0)
        return kvt_error_sys(err, errno, "lock the store");
    clean_tmp(g4_tree_tmp(tree));
    rc = recover_folder(tree, key, 0, err);
    (void)close(lock);
    return rc;
}
