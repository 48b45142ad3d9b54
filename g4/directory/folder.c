#include "g4/directory/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "g4/directory/file_name.h"
#include "g4/directory/object_file.h"

enum { TEXT_MAX = G4_FOLDER_READ_MAX * 128 };

static DIR *
open_again(int fd)
{
    const int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir;

    if (own < 0)
        return NULL;
    dir = fdopendir(own);
    if (dir == NULL) {
        const int sys = errno;

        (void)close(own);
        errno = sys;
    }
    return dir;
}

/* The next name but "." and ".."; NULL at the end (errno 0) or on an error. */
static const char *
next_name(DIR *dir)
{
    for (;;) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL)
            return NULL;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return entry->d_name;
    }
}

/* A hashed name says nothing: the key is in the header, or nowhere. */
static bool
key_of(int fd, const char *name, char key[KVT_KEY_MAX])
{
    char again[G4_FILE_NAME_MAX];
    struct g4_object_file object;
    int file;
    bool known;

    if (!g4_file_name_parse(name, key))
        return false;
    if (key[0] != '\0')
        return true;
    file = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return false;
    known = g4_object_file_read(file, NULL, &object, NULL) == KVT_OK;
    (void)close(file);
    if (!known)
        return false;
    g4_file_name_format(object.key, again);
    if (strcmp(again, name) != 0)
        return false;
    memcpy(key, object.key, sizeof(object.key));
    return true;
}

/* Remembered as offsets while the text still moves. */
struct found {
    size_t name;
    size_t rest;
    bool branch;
};

static enum kvt_err
add_entry(struct g4_folder *folder, struct kvt_buffer *found, const char *name, const char *rest,
          bool branch)
{
    const struct found one = {folder->text.size, folder->text.size + strlen(name) + 1, branch};

    kvt_buffer_append(&folder->text, name, strlen(name) + 1);
    kvt_buffer_append(&folder->text, rest, strlen(rest) + 1);
    kvt_buffer_append(found, &one, sizeof(one));
    if (!kvt_buffer_ok(&folder->text) || !kvt_buffer_ok(found))
        return KVT_NOMEM;
    return ++folder->count > G4_FOLDER_READ_MAX ? KVT_RANGE : KVT_OK;
}

static enum kvt_err
look_at(struct g4_folder *folder, struct kvt_buffer *found, int fd, const char *name,
        const char *prefix, size_t depth)
{
    const int byte = g4_file_name_folder_parse(name);
    char key[KVT_KEY_MAX];

    if (byte > 0) {
        const char rest[2] = {(char)byte, '\0'};

        folder->branches++;
        return add_entry(folder, found, name, rest, true);
    }
    if (!key_of(fd, name, key) || strncmp(key, prefix, depth) != 0)
        return KVT_OK;
    return add_entry(folder, found, name, key + depth, false);
}

static int
compare_entries(const void *a, const void *b)
{
    const struct g4_folder_entry *x = a;
    const struct g4_folder_entry *y = b;
    const int order = strcmp(x->rest, y->rest);

    return order != 0 ? order : (int)y->branch - (int)x->branch;
}

static enum kvt_err
bind_and_sort(struct g4_folder *folder, const struct kvt_buffer *found)
{
    const char *text = (const char *)folder->text.data;

    folder->entries = kvt_calloc(folder->count, sizeof(*folder->entries));
    if (folder->entries == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < folder->count; i++) {
        struct found one;

        memcpy(&one, found->data + i * sizeof(one), sizeof(one));
        folder->entries[i] = (struct g4_folder_entry){text + one.name, text + one.rest, one.branch};
    }
    if (folder->count > 0)
        qsort(folder->entries, folder->count, sizeof(*folder->entries), compare_entries);
    return KVT_OK;
}

enum kvt_err
g4_folder_read(struct g4_folder *folder, int fd, const char *prefix, size_t depth,
               struct kvt_error *err)
{
    struct kvt_buffer found;
    enum kvt_err rc = KVT_OK;
    const char *name;
    DIR *dir;

    *folder = (struct g4_folder){.count = 0};
    kvt_buffer_init(&folder->text, TEXT_MAX);
    kvt_buffer_init(&found, (G4_FOLDER_READ_MAX + 1) * sizeof(struct found));
    dir = open_again(fd);
    if (dir == NULL) {
        rc = kvt_error_sys(err, errno, "read a folder of the store");
        goto fail;
    }
    while (rc == KVT_OK && (name = next_name(dir)) != NULL)
        rc = look_at(folder, &found, fd, name, prefix, depth);
    if (rc == KVT_OK && errno != 0)
        rc = kvt_error_sys(err, errno, "read a folder of the store");
    else if (rc == KVT_OK)
        rc = bind_and_sort(folder, &found);
    if (rc == KVT_NOMEM || rc == KVT_RANGE)
        (void)kvt_error_set(err, rc, "folder with %zu entries or more", folder->count);
    (void)closedir(dir);
    kvt_buffer_release(&found);
    if (rc == KVT_OK)
        return KVT_OK;

fail:
    kvt_buffer_release(&found);
    g4_folder_release(folder);
    return rc;
}

void
g4_folder_release(struct g4_folder *folder)
{
    kvt_free(folder->entries);
    kvt_buffer_release(&folder->text);
    *folder = (struct g4_folder){.count = 0};
}

enum kvt_err
g4_folder_count(int fd, size_t *count, struct kvt_error *err)
{
    DIR *dir = open_again(fd);
    enum kvt_err rc = KVT_OK;

    *count = 0;
    if (dir == NULL)
        return kvt_error_sys(err, errno, "read a folder of the store");
    while (next_name(dir) != NULL)
        (*count)++;
    if (errno != 0)
        rc = kvt_error_sys(err, errno, "read a folder of the store");
    (void)closedir(dir);
    return rc;
}
