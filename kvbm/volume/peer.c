#include "kvbm/volume/peer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/volume/peer_wire.h"
#include "kvtier/layout.h"

enum { BACKLOG = KVBM_PEER_CLIENTS_MAX };

struct client {
    struct kvbm_peer *peer;
    pthread_t thread;
    bool used;          /* the accepting thread's */
    _Atomic bool ended; /* its thread is about to return */
    int fd;             /* closed by who joins the thread: never a number that means another file */
};

struct kvbm_peer {
    struct sockaddr_un address;
    struct kvbm_volumes *set;
    uint64_t fingerprint;
    uint64_t timeout_ms;
    int fd;
    bool bound;
    bool started;
    _Atomic bool closing;
    pthread_t thread;
    struct client clients[KVBM_PEER_CLIENTS_MAX];
};

/* Ask a volume of ours; `bytes` has room for question->size. */
static void
answer_question(struct kvbm_peer *peer, const struct kvbm_peer_question *question, void *bytes,
                struct kvbm_peer_answer *answer)
{
    struct kvt_volume_item item = {
        .id = question->id,
        .bytes = question->size == 0 ? NULL : bytes,
        .size = question->size,
        .status = KVT_IO,
    };
    const struct kvbm_volume_request request = {
        .volume = question->volume,
        .verb = (enum kvt_volume_verb)question->verb,
        .items = &item,
        .count = 1,
    };
    struct kvt_volume_stats stats;

    *answer = (struct kvbm_peer_answer){.tag = question->tag};
    if (question->fingerprint != peer->fingerprint) {
        answer->status = KVT_INVALID;
        return;
    }
    if (question->verb == KVT_VOLUME_PUT &&
        kvbm_crc32c(0, bytes, question->size) != question->crc32c) {
        answer->status = KVT_CORRUPT;
        return;
    }
    /* "No such volume" says nothing of any block. */
    if (kvbm_volumes_stats(peer->set, question->volume, &stats) != KVT_OK) {
        answer->status = KVT_UNAVAILABLE;
        return;
    }
    answer->status = kvbm_volumes_run(peer->set, &request);
    if (answer->status == KVT_OK)
        answer->status = item.status; /* KVT_EXISTS is one, too */
    if (question->verb == KVT_VOLUME_GET && answer->status == KVT_OK) {
        answer->size = question->size;
        answer->crc32c = kvbm_crc32c(0, bytes, question->size);
    }
}

/* One question and its answer; false: the end.  `*bytes` grows to the largest block so far. */
static bool
serve(struct client *client, uint8_t **bytes, size_t *room)
{
    struct kvbm_peer *peer = client->peer;
    uint8_t head[KVBM_PEER_QUESTION_BYTES];
    uint8_t reply[KVBM_PEER_ANSWER_BYTES];
    struct kvbm_peer_question question;
    struct kvbm_peer_answer answer;

    /* Between two questions there is all the time in the world, within one there is not. */
    if (!kvbm_peer_receive(client->fd, head, 1, UINT64_MAX) ||
        !kvbm_peer_receive(client->fd, head + 1, sizeof(head) - 1, peer->timeout_ms) ||
        !kvbm_peer_read_question(&question, head) || question.size > KVT_BLOCK_SIZE_MAX)
        return false;
    if (question.size > *room) {
        kvt_free(*bytes);
        *room = 0;
        *bytes = kvt_aligned(KVBM_STORAGE_ALIGN, question.size);
        if (*bytes == NULL)
            return false;
        *room = question.size;
    }
    if (question.verb == KVT_VOLUME_PUT &&
        !kvbm_peer_receive(client->fd, *bytes, question.size, peer->timeout_ms))
        return false;
    answer_question(peer, &question, *bytes, &answer);
    kvbm_peer_write_answer(reply, &answer);
    return kvbm_peer_send(client->fd, reply, sizeof(reply), peer->timeout_ms) &&
           (answer.size == 0 || kvbm_peer_send(client->fd, *bytes, answer.size, peer->timeout_ms));
}

static void *
client_run(void *arg)
{
    struct client *client = arg;
    uint8_t *bytes = NULL;
    size_t room = 0;

    while (serve(client, &bytes, &room))
        continue;
    kvt_free(bytes);
    (void)shutdown(client->fd, SHUT_RDWR); /* who asked sees the end now, not when we are joined */
    atomic_store(&client->ended, true);
    return NULL;
}

static void
client_join(struct client *client)
{
    (void)pthread_join(client->thread, NULL);
    (void)close(client->fd);
    client->used = false;
}

static void
admit(struct kvbm_peer *peer, int fd)
{
    struct client *place = NULL;

    for (size_t i = 0; i < KVBM_PEER_CLIENTS_MAX; i++) {
        struct client *client = &peer->clients[i];

        if (client->used && atomic_load(&client->ended))
            client_join(client);
        if (!client->used)
            place = client;
    }
    if (place != NULL) {
        place->peer = peer;
        place->fd = fd;
        atomic_store(&place->ended, false);
        place->used = pthread_create(&place->thread, NULL, client_run, place) == 0;
    }
    if (place == NULL || !place->used)
        (void)close(fd);
}

static void *
accept_run(void *arg)
{
    struct kvbm_peer *peer = arg;

    while (!atomic_load(&peer->closing)) {
        const int fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            admit(peer, fd);
        else if (errno != EINTR && errno != ECONNABORTED && errno != EMFILE && errno != ENFILE &&
                 errno != ENOBUFS && errno != ENOMEM)
            break;
    }
    return NULL;
}

/* Is there somebody, or only what is left of him? */
static bool
answers(const struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there;

    if (fd < 0)
        return true;
    there = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    (void)close(fd);
    return there;
}

static enum kvt_err
listen_there(struct kvbm_peer *peer, struct kvt_error *err)
{
    const char *path = peer->address.sun_path;

    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->fd < 0)
        return kvt_error_sys(err, errno, "peer %s", path);
    if (answers(&peer->address))
        return kvt_error_set(err, KVT_BUSY, "peer %s: somebody listens there", path);
    (void)unlink(path);
    /* The mode of the socket is the file's own: set before anybody can connect. */
    if (fchmod(peer->fd, 0600) != 0 ||
        bind(peer->fd, (const struct sockaddr *)&peer->address, sizeof(peer->address)) != 0)
        return kvt_error_sys(err, errno, "peer %s", path);
    peer->bound = true;
    if (chmod(path, 0600) != 0 || listen(peer->fd, BACKLOG) != 0)
        return kvt_error_sys(err, errno, "peer %s", path);
    return KVT_OK;
}

enum kvt_err
kvbm_peer_open(struct kvbm_peer **out, const struct kvbm_peer_options *options,
               struct kvt_error *err)
{
    struct kvbm_peer *peer;
    enum kvt_err rc;

    *out = NULL;
    peer = kvt_calloc(1, sizeof(*peer));
    if (peer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "peer: out of memory");
    peer->fd = -1;
    peer->set = options->set;
    peer->fingerprint = options->fingerprint;
    peer->timeout_ms = options->timeout_ms;
    peer->address.sun_family = AF_UNIX;
    if ((size_t)snprintf(peer->address.sun_path, sizeof(peer->address.sun_path), "%s",
                         options->path) >= sizeof(peer->address.sun_path))
        rc = kvt_error_set(err, KVT_RANGE, "peer %s: the path is too long", options->path);
    else
        rc = listen_there(peer, err);
    if (rc == KVT_OK) {
        const int sys = pthread_create(&peer->thread, NULL, accept_run, peer);

        peer->started = sys == 0;
        if (sys != 0)
            rc = kvt_error_sys(err, sys, "peer: thread");
    }
    if (rc != KVT_OK) {
        kvbm_peer_close(peer);
        return rc;
    }
    *out = peer;
    return KVT_OK;
}

void
kvbm_peer_close(struct kvbm_peer *peer)
{
    if (peer == NULL)
        return;
    atomic_store(&peer->closing, true);
    if (peer->started) {
        (void)shutdown(peer->fd, SHUT_RDWR); /* wakes who accepts */
        (void)pthread_join(peer->thread, NULL);
    }
    for (size_t i = 0; i < KVBM_PEER_CLIENTS_MAX; i++)
        if (peer->clients[i].used) {
            (void)shutdown(peer->clients[i].fd, SHUT_RDWR);
            client_join(&peer->clients[i]);
        }
    if (peer->bound)
        (void)unlink(peer->address.sun_path);
    if (peer->fd >= 0)
        (void)close(peer->fd);
    kvt_free(peer);
}
