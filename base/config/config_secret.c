#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config/config_private.h"

/* The service manager hands out credentials in a folder only the service can enter; its files may
 * carry a group bit that is really an access list's mask. */
static bool
is_credential(const char *path)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    const size_t size = folder == NULL ? 0 : strlen(folder);

    return size > 0 && strncmp(path, folder, size) == 0 && path[size] == '/';
}

static enum kvt_err
check_mode(int fd, const char *key, const char *path, struct kvt_error *err)
{
    const mode_t refused = is_credential(path) ? S_IRWXO : S_IRWXG | S_IRWXO;
    struct stat about;

    if (fstat(fd, &about) != 0)
        return kvt_error_sys(err, errno, "%s: look at secret file %s", key, path);
    if (!S_ISREG(about.st_mode))
        return kvt_error_set(err, KVT_INVALID, "%s: secret file %s is no regular file", key, path);
    if ((about.st_mode & refused) != 0)
        return kvt_error_set(err, KVT_DENIED,
                             "%s: secret file %s has mode %04o: others may use it; chmod 600 %s",
                             key, path, (unsigned)(about.st_mode & 07777), path);
    return KVT_OK;
}

/* Straight into the caller's memory: no copy of a secret stays behind on the heap. */
static enum kvt_err
read_secret(int fd, const char *key, const char *path, char *text, size_t size,
            struct kvt_error *err)
{
    size_t count = 0;

    for (;;) {
        const ssize_t got = read(fd, text + count, size - count);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvt_error_sys(err, errno, "%s: read secret file %s", key, path);
        if (got == 0)
            break;
        count += (size_t)got;
        if (count == size)
            return kvt_error_set(err, KVT_RANGE, "%s: secret file %s is longer than %zu bytes", key,
                                 path, size - 1);
    }
    while (count > 0 && (text[count - 1] == '\n' || text[count - 1] == '\r'))
        count--;
    text[count] = '\0';
    if (count == 0)
        return kvt_error_set(err, KVT_INVALID, "%s: secret file %s is empty", key, path);
    if (strlen(text) != count)
        return kvt_error_set(err, KVT_INVALID, "%s: secret file %s holds a NUL byte", key, path);
    return KVT_OK;
}

enum kvt_err
kvt_config_secret_lines(const struct kvt_config *config, size_t index, char *text, size_t size,
                        struct kvt_error *err)
{
    const char *path = kvt_config_string(config, index);
    const char *key = config->params[index].key;
    enum kvt_err rc;
    int fd;

    assert(config->params[index].type == KVT_CONFIG_SECRET);
    assert(size > 1);
    text[0] = '\0';
    if (path[0] == '\0')
        return kvt_error_set(err, KVT_NOTFOUND, "%s is not set", key);
    /* Not blocking: a FIFO in the secret's place must be refused, not waited for. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return kvt_error_sys(err, errno, "%s: open secret file %s", key, path);
    rc = check_mode(fd, key, path, err);
    if (rc == KVT_OK)
        rc = read_secret(fd, key, path, text, size, err);
    if (rc != KVT_OK)
        explicit_bzero(text, size);
    (void)close(fd);
    return rc;
}

enum kvt_err
kvt_config_secret(const struct kvt_config *config, size_t index, char *text, size_t size,
                  struct kvt_error *err)
{
    const enum kvt_err rc = kvt_config_secret_lines(config, index, text, size, err);

    if (rc != KVT_OK || strpbrk(text, "\r\n") == NULL)
        return rc;
    explicit_bzero(text, size);
    return kvt_error_set(err, KVT_INVALID, "%s: secret file %s holds more than one line",
                         config->params[index].key, kvt_config_string(config, index));
}
