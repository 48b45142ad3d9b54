#include "gateway/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "g4/check.h"

enum {
    SEEN = 4096,     /* files that are remembered as asked for, at most */
    FULL_TAKES = 8,  /* one in so many takes another's place: more asked-for than there is room
                        * for would else be copied in for nothing, again and again */
    FILES_SHARE = 4, /* at most this part of the descriptors a process may have */
    BODY_SHARE = 4,  /* of bytes_max, the largest body */
};

/* Which file, as it was last changed: every write to it, whoever's, makes it another one. */
struct identity {
    dev_t device;
    ino_t inode;
    struct timespec changed;
    char etag[G4_ETAG_MAX];
};

struct body {
    struct identity file;
    int fd; /* -1: a free place */
    uint64_t size;
    uint64_t used; /* when it was last asked for, by `asked` */
};

struct gateway_sealed {
    uint64_t bytes_max;
    unsigned count_max;
    struct {
        pthread_mutex_t lock; /* guards this struct */
        uint64_t asked;
        uint64_t waiting; /* that would take a place */
        uint64_t bytes;
        unsigned count;
        uint64_t seen[SEEN]; /* hashes of files */
        struct body bodies[GATEWAY_SEALED_COUNT];
    } shared;
};

enum kvt_err
gateway_sealed_new(struct gateway_sealed **out, uint64_t bytes_max)
{
    struct gateway_sealed *sealed = kvt_calloc(1, sizeof(*sealed));
    struct rlimit files;

    *out = NULL;
    if (sealed == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&sealed->shared.lock, NULL) != 0) {
        kvt_free(sealed);
        return KVT_NOMEM;
    }
    sealed->bytes_max = bytes_max;
    sealed->count_max = GATEWAY_SEALED_COUNT;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur / FILES_SHARE < GATEWAY_SEALED_COUNT)
        sealed->count_max = (unsigned)(files.rlim_cur / FILES_SHARE);
    for (unsigned i = 0; i < GATEWAY_SEALED_COUNT; i++)
        sealed->shared.bodies[i].fd = -1;
    *out = sealed;
    return KVT_OK;
}

void
gateway_sealed_free(struct gateway_sealed *sealed)
{
    if (sealed == NULL)
        return;
    for (unsigned i = 0; i < GATEWAY_SEALED_COUNT; i++)
        if (sealed->shared.bodies[i].fd >= 0)
            (void)close(sealed->shared.bodies[i].fd);
    (void)pthread_mutex_destroy(&sealed->shared.lock);
    kvt_free(sealed);
}

static bool
identify(const struct g4_body *body, struct identity *file)
{
    struct stat about;

    memset(file, 0, sizeof(*file)); /* it is hashed and compared as bytes */
    if (fstat(body->fd, &about) != 0)
        return false;
    file->device = about.st_dev;
    file->inode = about.st_ino;
    file->changed = about.st_ctim;
    memcpy(file->etag, body->object.etag, strnlen(body->object.etag, sizeof(file->etag) - 1));
    return true;
}

static struct body *
find_locked(struct gateway_sealed *sealed, const struct identity *file)
{
    for (unsigned i = 0; i < GATEWAY_SEALED_COUNT; i++) {
        struct body *body = &sealed->shared.bodies[i];

        if (body->fd >= 0 && memcmp(&body->file, file, sizeof(*file)) == 0)
            return body;
    }
    return NULL;
}

static bool
is_full_locked(const struct gateway_sealed *sealed, uint64_t size)
{
    return sealed->shared.count >= sealed->count_max ||
           sealed->shared.bytes > sealed->bytes_max - size;
}

/* Is it worth a place?  It was asked for before, and others wait for theirs as well. */
static bool
is_wanted_locked(struct gateway_sealed *sealed, const struct identity *file, uint64_t size)
{
    const uint64_t hash = XXH3_64bits(file, sizeof(*file));
    uint64_t *seen = &sealed->shared.seen[hash % SEEN];

    if (sealed->count_max == 0 || size < GATEWAY_SEALED_MIN ||
        size > sealed->bytes_max / BODY_SHARE)
        return false;
    if (*seen != hash) {
        *seen = hash;
        return false;
    }
    return !is_full_locked(sealed, size) || ++sealed->shared.waiting % FULL_TAKES == 0;
}

/* The descriptor of the body, or -1; then: shall it be taken in? */
static int
look_up(struct gateway_sealed *sealed, const struct identity *file, uint64_t size, bool *wanted)
{
    struct body *body;
    int fd = -1;

    (void)pthread_mutex_lock(&sealed->shared.lock);
    body = find_locked(sealed, file);
    *wanted = body == NULL && is_wanted_locked(sealed, file, size);
    if (body != NULL) {
        body->used = ++sealed->shared.asked;
        fd = fcntl(body->fd, F_DUPFD_CLOEXEC, 0);
    }
    (void)pthread_mutex_unlock(&sealed->shared.lock);
    return fd;
}

/* Least recently asked for. */
static struct body *
oldest_locked(struct gateway_sealed *sealed)
{
    struct body *oldest = NULL;

    for (unsigned i = 0; i < GATEWAY_SEALED_COUNT; i++) {
        struct body *body = &sealed->shared.bodies[i];

        if (body->fd >= 0 && (oldest == NULL || body->used < oldest->used))
            oldest = body;
    }
    return oldest;
}

static void
drop_locked(struct gateway_sealed *sealed, struct body *body)
{
    (void)close(body->fd);
    body->fd = -1;
    sealed->shared.bytes -= body->size;
    sealed->shared.count--;
}

/* Keep a descriptor of the memory for those who ask next. */
static void
keep(struct gateway_sealed *sealed, const struct identity *file, int fd, uint64_t size)
{
    const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct body *place = sealed->shared.bodies;

    if (kept < 0)
        return;
    (void)pthread_mutex_lock(&sealed->shared.lock);
    if (find_locked(sealed, file) != NULL) { /* two took it in at once */
        (void)pthread_mutex_unlock(&sealed->shared.lock);
        (void)close(kept);
        return;
    }
    while (is_full_locked(sealed, size))
        drop_locked(sealed, oldest_locked(sealed));
    while (place->fd >= 0)
        place++;
    *place = (struct body){.file = *file, .fd = kept, .size = size, .used = ++sealed->shared.asked};
    sealed->shared.bytes += size;
    sealed->shared.count++;
    (void)pthread_mutex_unlock(&sealed->shared.lock);
}

static bool
copy(int to, const struct g4_body *body)
{
    off_t at = G4_OBJECT_BODY_AT;
    uint64_t left = body->object.meta.length;

    while (left > 0) {
        const ssize_t moved = sendfile(to, body->fd, &at, (size_t)left);

        if (moved == 0 || (moved < 0 && errno != EINTR))
            return false;
        left -= moved > 0 ? (uint64_t)moved : 0;
    }
    return true;
}

/* What is compared here is what will be sent: nobody can change it any more. */
static bool
is_body(int fd, const struct g4_object *object)
{
    const size_t size = (size_t)object->meta.length;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    bool same;

    if (bytes == MAP_FAILED)
        return false;
    same = g4_check_crc32c(bytes, size) == object->body_crc32c;
    (void)munmap(bytes, size);
    return same;
}

/* Whatever goes wrong, who reads the file finds out and tells. */
static int
seal(const struct g4_body *body)
{
    const int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int fd = memfd_create("kvtier-hot", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    if (copy(fd, body) && fcntl(fd, F_ADD_SEALS, seals) == 0 && is_body(fd, &body->object))
        return fd;
    (void)close(fd);
    return -1;
}

int
gateway_sealed_body(struct gateway_sealed *sealed, const struct g4_body *body)
{
    const uint64_t size = body->object.meta.length;
    struct identity file;
    bool wanted;
    int fd;

    if (sealed == NULL || size < GATEWAY_SEALED_MIN || !identify(body, &file))
        return -1;
    fd = look_up(sealed, &file, size, &wanted);
    if (fd >= 0 || !wanted)
        return fd;
    fd = seal(body);
    if (fd >= 0)
        keep(sealed, &file, fd, size);
    return fd;
}
