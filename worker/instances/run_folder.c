#include "worker/instances/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/file.h"

#define PARENT "/tmp"
#define NAME   "kvtier-engine-"

/* Ours are called "0.front", "0-1.work" and so on. */
static bool
is_ours(const char *name)
{
    static const char *const doors[] = {"work", "step", "front", "peer"};
    const char *dot = strchr(name, '.');

    if (dot == NULL || dot == name || strspn(name, "0123456789-") != (size_t)(dot - name))
        return false;
    for (size_t i = 0; i < sizeof(doors) / sizeof(doors[0]); i++)
        if (strcmp(dot + 1, doors[i]) == 0)
            return true;
    return false;
}

static void
remove_sockets(int fd)
{
    const int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    const struct dirent *entry;
    struct stat about;

    if (list == NULL && again >= 0)
        (void)close(again);
    while (list != NULL && (entry = readdir(list)) != NULL)
        if (is_ours(entry->d_name) &&
            fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(about.st_mode))
            (void)unlinkat(fd, entry->d_name, 0);
    if (list != NULL)
        (void)closedir(list);
}

/* This folder's lock, -1: somebody has it, or it cannot be had. */
static int
take(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat opened;
    struct stat named;

    if (fd < 0)
        return -1;
    /* It may have been removed as a dead one's between its making and its lock. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
        return fd;
    (void)close(fd);
    return -1;
}

static void
remove_taken(int fd, const char *path)
{
    remove_sockets(fd);
    (void)rmdir(path);
    (void)close(fd);
}

/* Folders of this user's runs that were killed. */
static void
remove_dead(void)
{
    DIR *list = opendir(PARENT);
    const struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[sizeof(PARENT) + sizeof(entry->d_name)];
        struct stat about;
        int fd;

        if (strncmp(entry->d_name, NAME, strlen(NAME)) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", PARENT, entry->d_name);
        if (lstat(path, &about) != 0 || about.st_uid != geteuid())
            continue;
        fd = take(path);
        if (fd >= 0)
            remove_taken(fd, path);
    }
    if (list != NULL)
        (void)closedir(list);
}

static enum kvt_err
make(struct worker_run_folder *folder, struct kvt_error *err)
{
    enum { TRIES = 16 };

    remove_dead();
    for (int i = 0; i < TRIES && folder->fd < 0; i++) {
        (void)snprintf(folder->path, sizeof(folder->path), "%s/%sXXXXXX", PARENT, NAME);
        if (mkdtemp(folder->path) == NULL)
            return kvt_error_sys(err, errno, "engine.folder: make one in " PARENT);
        folder->fd = take(folder->path);
    }
    folder->made = folder->fd >= 0;
    return folder->made
               ? KVT_OK
               : kvt_error_set(err, KVT_IO, "engine.folder: %s cannot be locked", folder->path);
}

static enum kvt_err
use(struct worker_run_folder *folder, const char *given, struct kvt_error *err)
{
    struct kvt_error why;
    enum kvt_err rc;

    if (strlen(given) > WORKER_RUN_FOLDER_PATH_MAX)
        return kvt_error_set(err, KVT_RANGE,
                             "engine.folder: %zu bytes long; a path that sockets can be in has %d "
                             "at most",
                             strlen(given), WORKER_RUN_FOLDER_PATH_MAX);
    rc = kvt_folder_make(given, &why);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "engine.folder: %s", why.text);
    if (access(given, W_OK | X_OK) != 0)
        return kvt_error_sys(err, errno, "engine.folder: no sockets can be made in %s", given);
    (void)snprintf(folder->path, sizeof(folder->path), "%s", given);
    folder->fd = take(given);
    if (folder->fd < 0)
        return kvt_error_set(err, KVT_BUSY, "engine.folder: %s is in use by another run", given);
    remove_sockets(folder->fd);
    return KVT_OK;
}

enum kvt_err
worker_run_folder_open(struct worker_run_folder *folder, const char *given, struct kvt_error *err)
{
    *folder = (struct worker_run_folder){.fd = -1};
    return given[0] == '\0' ? make(folder, err) : use(folder, given, err);
}

void
worker_run_folder_close(struct worker_run_folder *folder)
{
    if (folder->fd < 0)
        return;
    if (folder->made) {
        remove_taken(folder->fd, folder->path);
    } else {
        remove_sockets(folder->fd);
        (void)close(folder->fd);
    }
    folder->fd = -1;
}
