/* The volume that asks a peer. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/volume/peer.h"
#include "kvbm/volume/peer_wire.h"
#include "kvtier/layout.h"

struct asking {
    struct kvbm_volume head;
    struct sockaddr_un address;
    uint64_t volume;
    uint64_t fingerprint;
    uint64_t timeout_ms;
    uint32_t tag;

    struct {
        pthread_mutex_t lock; /* guards this struct; a leaf */
        int fd;               /* -1: not connected.  Its thread alone opens and closes it */
        bool stopped;
    } shared;
};

static struct asking *
asking_of(struct kvbm_volume *volume)
{
    return (struct asking *)volume;
}

static void
hang_up(struct asking *asking)
{
    int fd;

    (void)pthread_mutex_lock(&asking->shared.lock);
    fd = asking->shared.fd;
    asking->shared.fd = -1;
    (void)pthread_mutex_unlock(&asking->shared.lock);
    if (fd >= 0)
        (void)close(fd);
}

/* A peer whose queue of connections is full is as good as away. */
static bool
connected(struct asking *asking)
{
    int fd = asking->shared.fd;
    bool good;

    if (fd >= 0)
        return true;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    good = connect(fd, (const struct sockaddr *)&asking->address, sizeof(asking->address)) == 0;
    (void)pthread_mutex_lock(&asking->shared.lock);
    good = good && !asking->shared.stopped;
    if (good)
        asking->shared.fd = fd;
    (void)pthread_mutex_unlock(&asking->shared.lock);
    if (!good)
        (void)close(fd);
    return good;
}

static bool
send_questions(struct asking *asking, enum kvt_volume_verb verb,
               const struct kvt_volume_item *items, size_t count)
{
    const size_t size = asking->head.block_size;
    uint8_t head[KVBM_PEER_QUESTION_BYTES];

    for (size_t i = 0; i < count; i++) {
        const bool put = verb == KVT_VOLUME_PUT;
        const struct kvbm_peer_question question = {
            .verb = verb,
            .tag = asking->tag + (uint32_t)i,
            .volume = asking->volume,
            .fingerprint = asking->fingerprint,
            .id = items[i].id,
            .size = verb == KVT_VOLUME_GET || put ? (uint32_t)size : 0,
            .crc32c = put ? kvbm_crc32c(0, items[i].bytes, size) : 0,
        };

        kvbm_peer_write_question(head, &question);
        if (!kvbm_peer_send(asking->shared.fd, head, sizeof(head), asking->timeout_ms) ||
            (put && !kvbm_peer_send(asking->shared.fd, items[i].bytes, size, asking->timeout_ms)))
            return false;
    }
    return true;
}

/* One answer; false: nobody knows where the next one begins.  KVT_UNAVAILABLE: none came. */
static bool
take_answer(struct asking *asking, enum kvt_volume_verb verb, uint32_t tag,
            struct kvt_volume_item *item)
{
    uint8_t head[KVBM_PEER_ANSWER_BYTES];
    struct kvbm_peer_answer answer;

    item->status = KVT_UNAVAILABLE;
    if (!kvbm_peer_receive(asking->shared.fd, head, sizeof(head), asking->timeout_ms))
        return false;
    item->status = KVT_CORRUPT;
    if (!kvbm_peer_read_answer(&answer, head) || answer.tag != tag ||
        answer.size != (verb == KVT_VOLUME_GET && answer.status == KVT_OK ? item->size : 0))
        return false;
    if (answer.size > 0) {
        if (!kvbm_peer_receive(asking->shared.fd, item->bytes, item->size, asking->timeout_ms)) {
            item->status = KVT_UNAVAILABLE;
            return false;
        }
        if (kvbm_crc32c(0, item->bytes, item->size) != answer.crc32c)
            return false;
    }
    item->status = answer.status;
    return true;
}

/* Ask all, then listen: how many were answered. */
static size_t
converse(struct asking *asking, enum kvt_volume_verb verb, struct kvt_volume_item *items,
         size_t count)
{
    size_t answered = 0;

    asking->tag += KVT_VOLUME_SLICE;
    if (!connected(asking))
        return 0;
    if (send_questions(asking, verb, items, count))
        while (answered < count &&
               take_answer(asking, verb, asking->tag + (uint32_t)answered, &items[answered]))
            answered++;
    if (answered < count)
        hang_up(asking);
    return answered;
}

static void
ask(struct kvbm_volume *volume, enum kvt_volume_verb verb, struct kvt_volume_item *items,
    size_t count)
{
    struct asking *asking = asking_of(volume);
    const bool was_connected = asking->shared.fd >= 0;
    size_t answered;

    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_UNAVAILABLE;
    answered = converse(asking, verb, items, count);
    /* A peer that came anew does not know the old connection.  To ask twice does no harm. */
    if (answered == 0 && was_connected && items[0].status == KVT_UNAVAILABLE)
        (void)converse(asking, verb, items, count);
}

static void
get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    ask(volume, KVT_VOLUME_GET, items, count);
}

static void
put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    ask(volume, KVT_VOLUME_PUT, items, count);
}

static void
take_away(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    ask(volume, KVT_VOLUME_REMOVE, items, count);
}

static void
has(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    ask(volume, KVT_VOLUME_HAS, items, count);
}

static void
stop(struct kvbm_volume *volume)
{
    struct asking *asking = asking_of(volume);

    (void)pthread_mutex_lock(&asking->shared.lock);
    asking->shared.stopped = true;
    if (asking->shared.fd >= 0)
        (void)shutdown(asking->shared.fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&asking->shared.lock);
}

static void
close_asking(struct kvbm_volume *volume)
{
    struct asking *asking = asking_of(volume);

    hang_up(asking);
    (void)pthread_mutex_destroy(&asking->shared.lock);
    kvt_free(asking);
}

static const struct kvbm_volume_driver driver = {
    .kind = "peer",
    .get = get,
    .put = put,
    .remove = take_away,
    .has = has,
    .stop = stop,
    .close = close_asking,
};

enum kvt_err
kvbm_volume_open_peer(struct kvbm_volume **out, const struct kvbm_volume_peer_options *options,
                      struct kvt_error *err)
{
    struct asking *asking;

    *out = NULL;
    if (options->block_size == 0 || options->block_size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "peer: blocks of %zu bytes", options->block_size);
    asking = kvt_calloc(1, sizeof(*asking));
    if (asking == NULL)
        return kvt_error_set(err, KVT_NOMEM, "peer: out of memory");
    asking->address.sun_family = AF_UNIX;
    if ((size_t)snprintf(asking->address.sun_path, sizeof(asking->address.sun_path), "%s",
                         options->path) >= sizeof(asking->address.sun_path)) {
        kvt_free(asking);
        return kvt_error_set(err, KVT_RANGE, "peer %s: the path is too long", options->path);
    }
    asking->head = (struct kvbm_volume){.driver = &driver, .block_size = options->block_size};
    asking->volume = options->volume;
    asking->fingerprint = options->fingerprint;
    asking->timeout_ms = options->timeout_ms;
    asking->shared.fd = -1;
    (void)pthread_mutex_init(&asking->shared.lock, NULL);
    *out = &asking->head;
    return KVT_OK;
}
