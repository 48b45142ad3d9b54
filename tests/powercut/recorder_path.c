#include "tests/powercut/recorder_path.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Squeeze "//", "/./" and "/../" out of an absolute path. */
static void
squeeze(char *path)
{
    char *out = path;

    for (const char *in = path; *in != '\0';) {
        const char *end;
        size_t size;

        while (*in == '/')
            in++;
        end = in + strcspn(in, "/");
        size = (size_t)(end - in);
        if (size == 0 || (size == 1 && in[0] == '.')) {
            /* nothing */
        } else if (size == 2 && in[0] == '.' && in[1] == '.') {
            while (out > path && *--out != '/') {
            }
        } else {
            *out++ = '/';
            memmove(out, in, size);
            out += size;
        }
        in = end;
    }
    *out = '\0';
}

const char *
recorder_path_below(const char *root, int at, const char *path, char full[RECORDER_PATH_SIZE])
{
    const size_t root_size = strlen(root);
    size_t size = 0;

    if (path == NULL || strlen(path) >= PATH_MAX)
        return NULL;
    if (path[0] != '/') {
        char link[64];
        ssize_t got;

        (void)snprintf(link, sizeof(link), at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
                       at);
        got = readlink(link, full, PATH_MAX - 1);
        if (got < 0)
            return NULL;
        size = (size_t)got;
        full[size++] = '/';
    }
    memcpy(full + size, path, strlen(path) + 1);
    squeeze(full);
    if (strncmp(full, root, root_size) != 0 || (full[root_size] != '/' && full[root_size] != '\0'))
        return NULL;
    return full[root_size] == '/' ? full + root_size + 1 : full + root_size;
}
