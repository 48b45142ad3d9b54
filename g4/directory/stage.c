#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/core/file.h"
#include "base/core/random.h"
#include "g4/directory/directory_internal.h"
#include "g4/directory/object_file.h"

enum { PROC_PATH_MAX = 40 };

static void
pick_name(struct g4_stage *stage)
{
    uint64_t nonce;

    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(stage->name, sizeof(stage->name), "new-%016" PRIx64, nonce);
}

/* Nameless where the file system can; otherwise under a name in tmp.  Locked, so that the clean-up
 * of another process that starts now leaves it alone. */
static int
open_file(struct g4_stage *stage)
{
    stage->fd = openat(stage->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (stage->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        pick_name(stage);
        stage->fd = openat(stage->tmp, stage->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (stage->fd < 0)
            stage->name[0] = '\0';
    }
    if (stage->fd < 0)
        return -1;
    return flock(stage->fd, LOCK_EX | LOCK_NB);
}

int
g4_stage_write(struct g4_stage *stage, int tmp, const uint8_t *header, const char *attributes,
               const void *body, size_t size)
{
    uint8_t page[G4_OBJECT_FILE_BODY_AT] = {0};
    int sys;

    *stage = (struct g4_stage){.fd = -1, .tmp = tmp};
    if (open_file(stage) != 0)
        return -1;
    memcpy(page, header, G4_OBJECT_FILE_HEADER_SIZE);
    if (attributes != NULL)
        memcpy(page + G4_OBJECT_FILE_HEADER_SIZE, attributes,
               strnlen(attributes, G4_ATTRIBUTES_MAX));
    sys = kvt_file_put(stage->fd, page, sizeof(page));
    if (sys == 0)
        sys = kvt_file_put(stage->fd, body, size);
    if (sys == 0)
        return 0;
    errno = sys;
    return -1;
}

int
g4_stage_sync(const struct g4_stage *stage)
{
    return fsync(stage->fd);
}

/* Link the file, whatever it is called now, to one more name. */
static int
link_to(const struct g4_stage *stage, int folder, const char *name)
{
    char path[PROC_PATH_MAX];

    if (stage->name[0] != '\0')
        return linkat(stage->tmp, stage->name, folder, name, 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", stage->fd);
    return linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW);
}

int
g4_stage_link(struct g4_stage *stage, int folder, const char *name)
{
    return link_to(stage, folder, name);
}

int
g4_stage_rename(struct g4_stage *stage, int folder, const char *name)
{
    if (stage->name[0] == '\0') {
        struct g4_stage named = *stage;

        pick_name(&named);
        if (link_to(stage, stage->tmp, named.name) != 0)
            return -1;
        memcpy(stage->name, named.name, sizeof(stage->name));
    }
    if (renameat(stage->tmp, stage->name, folder, name) != 0)
        return -1;
    stage->name[0] = '\0';
    return 0;
}

void
g4_stage_release(struct g4_stage *stage)
{
    if (stage->name[0] != '\0')
        (void)unlinkat(stage->tmp, stage->name, 0);
    if (stage->fd >= 0)
        (void)close(stage->fd);
    *stage = (struct g4_stage){.fd = -1};
}
