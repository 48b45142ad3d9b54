#include "gateway/tier/hot_memory.h"

#include <assert.h>
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

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/object/check.h"

enum {
    SEEN = 4096,     /* files that are remembered as asked for, at most */
    FULL_TAKES = 8,  /* one in so many takes another's place: more asked-for than there is room
                        * for would else be copied in for nothing, again and again */
    FILES_SHARE = 4, /* at most this part of the descriptors a process may have */
    BODY_SHARE = 4,  /* of bytes_max, the largest body */
    SEALS = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Which file, as it was last changed: every write to it, whoever's, makes it another one. */
struct identity {
    dev_t device;
    ino_t inode;
    struct timespec changed;
    char etag[G4_ETAG_MAX];
};

struct gateway_hot_memory_body {
    struct identity file;
    uint64_t size; /* 0: a free place */
    int fd;        /* -1: it is being copied */
    unsigned users;
    uint64_t used_ms; /* when it was last taken or given back; monotonic */
};

/* What lost its place and is to be closed, which frees its memory, when the lock is given up. */
struct dropped {
    int fds[GATEWAY_HOT_MEMORY_COUNT];
    unsigned count;
};

struct gateway_hot_memory {
    uint64_t bytes_max;
    unsigned count_max;
    struct {
        pthread_mutex_t lock; /* guards this struct */
        uint64_t waiting;     /* that would take a place */
        uint64_t bytes;       /* of all bodies, used or not */
        unsigned count;
        uint64_t seen[SEEN]; /* hashes of files */
        struct gateway_hot_memory_body bodies[GATEWAY_HOT_MEMORY_COUNT];
    } shared;
};

/* Some kernels refuse files that could be executed, older ones do not know the word for it. */
static int
make_file(void)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int fd = memfd_create("kvtier-hot", flags | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create("kvtier-hot", flags) : fd;
}

/* What is asked for once, at the start, need not be said with each block. */
static bool
can_seal(void)
{
    const int fd = make_file();
    const bool can = fd >= 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0;
    struct kvt_error err;

    if (!can) {
        (void)kvt_error_sys(&err, errno, "this system seals no memory");
        kvt_log_warn("gateway.sealed", "unsealed",
                     "hot.memory is not used, hot blocks are checked at each GET: %s", err.text);
    }
    if (fd >= 0)
        (void)close(fd);
    return can;
}

/* Bodies at once, each of which is an open file. */
static unsigned
places(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur / FILES_SHARE < GATEWAY_HOT_MEMORY_COUNT)
        return (unsigned)(files.rlim_cur / FILES_SHARE);
    return GATEWAY_HOT_MEMORY_COUNT;
}

enum kvt_err
gateway_hot_memory_new(struct gateway_hot_memory **out, uint64_t bytes_max)
{
    struct gateway_hot_memory *sealed = kvt_calloc(1, sizeof(*sealed));

    *out = NULL;
    if (sealed == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&sealed->shared.lock, NULL) != 0) {
        kvt_free(sealed);
        return KVT_NOMEM;
    }
    sealed->bytes_max = bytes_max;
    sealed->count_max = can_seal() ? places() : 0;
    *out = sealed;
    return KVT_OK;
}

void
gateway_hot_memory_free(struct gateway_hot_memory *sealed)
{
    if (sealed == NULL)
        return;
    for (unsigned i = 0; i < GATEWAY_HOT_MEMORY_COUNT; i++) {
        const struct gateway_hot_memory_body *body = &sealed->shared.bodies[i];

        assert(body->users == 0);
        if (body->size > 0)
            (void)close(body->fd);
    }
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

/* It may be copied still. */
static struct gateway_hot_memory_body *
find_locked(struct gateway_hot_memory *sealed, const struct identity *file)
{
    for (unsigned i = 0; i < GATEWAY_HOT_MEMORY_COUNT; i++) {
        struct gateway_hot_memory_body *body = &sealed->shared.bodies[i];

        if (body->size > 0 && memcmp(&body->file, file, sizeof(*file)) == 0)
            return body;
    }
    return NULL;
}

static bool
is_full_locked(const struct gateway_hot_memory *sealed, uint64_t size)
{
    return sealed->shared.count >= sealed->count_max ||
           sealed->shared.bytes > sealed->bytes_max - size;
}

/* Would there be room if all went that nobody uses? */
static bool
may_fit_locked(const struct gateway_hot_memory *sealed, uint64_t size)
{
    uint64_t bytes = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < GATEWAY_HOT_MEMORY_COUNT; i++)
        if (sealed->shared.bodies[i].users > 0) {
            bytes += sealed->shared.bodies[i].size;
            count++;
        }
    return count < sealed->count_max && bytes <= sealed->bytes_max - size;
}

/* Is it worth a place?  It was asked for before, and others wait for theirs as well. */
static bool
is_wanted_locked(struct gateway_hot_memory *sealed, const struct identity *file, uint64_t size)
{
    const uint64_t hash = XXH3_64bits(file, sizeof(*file));
    uint64_t *seen = &sealed->shared.seen[hash % SEEN];

    if (size > sealed->bytes_max / BODY_SHARE)
        return false;
    if (*seen != hash) {
        *seen = hash;
        return false;
    }
    if (!is_full_locked(sealed, size))
        return true;
    return ++sealed->shared.waiting % FULL_TAKES == 0 && may_fit_locked(sealed, size);
}

static void
free_place_locked(struct gateway_hot_memory *sealed, struct gateway_hot_memory_body *body)
{
    sealed->shared.bytes -= body->size;
    sealed->shared.count--;
    *body = (struct gateway_hot_memory_body){0};
}

static void
drop_locked(struct gateway_hot_memory *sealed, struct gateway_hot_memory_body *body,
            struct dropped *dropped)
{
    dropped->fds[dropped->count++] = body->fd;
    free_place_locked(sealed, body);
}

static void
close_dropped(const struct dropped *dropped)
{
    for (unsigned i = 0; i < dropped->count; i++)
        (void)close(dropped->fds[i]);
}

/* Of those that nobody uses, the one whose last use is longest ago. */
static struct gateway_hot_memory_body *
oldest_locked(struct gateway_hot_memory *sealed)
{
    struct gateway_hot_memory_body *oldest = NULL;

    for (unsigned i = 0; i < GATEWAY_HOT_MEMORY_COUNT; i++) {
        struct gateway_hot_memory_body *body = &sealed->shared.bodies[i];

        if (body->size > 0 && body->users == 0 &&
            (oldest == NULL || body->used_ms < oldest->used_ms))
            oldest = body;
    }
    return oldest;
}

/* The place and the bytes of a body that is copied next; it may fit. */
static struct gateway_hot_memory_body *
reserve_locked(struct gateway_hot_memory *sealed, const struct identity *file, uint64_t size,
               struct dropped *dropped)
{
    struct gateway_hot_memory_body *place = sealed->shared.bodies;

    while (is_full_locked(sealed, size))
        drop_locked(sealed, oldest_locked(sealed), dropped);
    while (place->size > 0)
        place++;
    *place = (struct gateway_hot_memory_body){.file = *file, .size = size, .fd = -1, .users = 1};
    sealed->shared.bytes += size;
    sealed->shared.count++;
    return place;
}

static bool
copy(int to, const struct g4_body *body)
{
    off_t at = G4_OBJECT_FILE_BODY_AT;
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
is_body(int fd, const struct g4_object_file *object)
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

/* Whatever goes wrong with the body, who reads the file finds out and tells. */
static int
seal(const struct g4_body *body)
{
    const int fd = make_file();
    struct kvt_error err;

    if (fd < 0) {
        (void)kvt_error_sys(&err, errno, "memory for a hot block");
        kvt_log_warn("gateway.sealed", "no_file", "it is checked at each GET: %s", err.text);
        return -1;
    }
    if (copy(fd, body) && fcntl(fd, F_ADD_SEALS, SEALS) == 0 && is_body(fd, &body->object))
        return fd;
    (void)close(fd);
    return -1;
}

/* Fill a place that is reserved, or free it. */
static struct gateway_hot_memory_body *
fill(struct gateway_hot_memory *sealed, struct gateway_hot_memory_body *place,
     const struct g4_body *from)
{
    const int fd = seal(from);

    (void)pthread_mutex_lock(&sealed->shared.lock);
    place->fd = fd;
    place->used_ms = kvt_clock_mono_ms();
    if (fd < 0)
        free_place_locked(sealed, place);
    (void)pthread_mutex_unlock(&sealed->shared.lock);
    return fd < 0 ? NULL : place;
}

/* It is there to be used; NULL: it is not, or is being copied. */
static struct gateway_hot_memory_body *
use_locked(struct gateway_hot_memory_body *body)
{
    if (body == NULL || body->fd < 0)
        return NULL;
    body->users++;
    body->used_ms = kvt_clock_mono_ms();
    return body;
}

struct gateway_hot_memory_body *
gateway_hot_memory_peek(struct gateway_hot_memory *sealed, const struct g4_body *from)
{
    struct gateway_hot_memory_body *body;
    struct identity file;

    if (sealed == NULL || from->object.meta.length < GATEWAY_HOT_MEMORY_MIN ||
        !identify(from, &file))
        return NULL;
    (void)pthread_mutex_lock(&sealed->shared.lock);
    body = use_locked(find_locked(sealed, &file));
    (void)pthread_mutex_unlock(&sealed->shared.lock);
    return body;
}

struct gateway_hot_memory_body *
gateway_hot_memory_take(struct gateway_hot_memory *sealed, const struct g4_body *from)
{
    const uint64_t size = from->object.meta.length;
    struct dropped dropped = {.count = 0};
    struct gateway_hot_memory_body *place = NULL;
    struct gateway_hot_memory_body *body;
    struct identity file;

    if (sealed == NULL || size < GATEWAY_HOT_MEMORY_MIN || !identify(from, &file))
        return NULL;
    (void)pthread_mutex_lock(&sealed->shared.lock);
    body = find_locked(sealed, &file);
    if (body == NULL && is_wanted_locked(sealed, &file, size))
        place = reserve_locked(sealed, &file, size, &dropped);
    body = use_locked(body); /* what somebody copies: the file is there sooner */
    (void)pthread_mutex_unlock(&sealed->shared.lock);
    close_dropped(&dropped);
    return place != NULL ? fill(sealed, place, from) : body;
}

void
gateway_hot_memory_give(struct gateway_hot_memory *sealed, struct gateway_hot_memory_body *body)
{
    (void)pthread_mutex_lock(&sealed->shared.lock);
    assert(body->users > 0);
    body->users--;
    body->used_ms = kvt_clock_mono_ms();
    (void)pthread_mutex_unlock(&sealed->shared.lock);
}

int
gateway_hot_memory_fd(const struct gateway_hot_memory_body *body)
{
    return body->fd;
}

void
gateway_hot_memory_expire(struct gateway_hot_memory *sealed, uint64_t now_ms)
{
    struct dropped dropped = {.count = 0};

    if (sealed == NULL)
        return;
    (void)pthread_mutex_lock(&sealed->shared.lock);
    for (unsigned i = 0; i < GATEWAY_HOT_MEMORY_COUNT; i++) {
        struct gateway_hot_memory_body *body = &sealed->shared.bodies[i];

        if (body->size > 0 && body->users == 0 &&
            body->used_ms + GATEWAY_HOT_MEMORY_IDLE_MS <= now_ms)
            drop_locked(sealed, body, &dropped);
    }
    (void)pthread_mutex_unlock(&sealed->shared.lock);
    close_dropped(&dropped);
}
