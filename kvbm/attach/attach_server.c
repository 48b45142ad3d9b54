#include "kvbm/attach/attach_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "kvbm/attach/attach_session.h"
#include "kvbm/attach/channel.h"

enum {
    BACKLOG = 16,
    REAP_EVERY = 200,   /* ms between looks for sessions that have ended */
    ACCEPT_PAUSE = 100, /* ms after the system had nothing left for one more */
    SOCKET_MODE = 0600,
};

struct kvbm_attach {
    struct kvbm_attach_options options;
    char path[KVBM_ATTACH_PATH_MAX];
    struct kvbm_attach_session *sessions[KVBM_ATTACH_ENGINES_MAX]; /* of the thread */
    struct kvbm_attach_session_counts counts;
    pthread_t thread;
    bool started;
    bool bound;
    atomic_bool stop;
    int socket;
};

static bool
address_of(struct sockaddr_un *address, const char *path)
{
    const size_t size = strlen(path);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (size == 0 || size >= sizeof(address->sun_path))
        return false;
    memcpy(address->sun_path, path, size);
    return true;
}

/* Nobody listens any more at a socket that refuses. */
static bool
left_behind(const struct sockaddr_un *address)
{
    const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool dead;

    if (probe < 0)
        return false;
    dead = connect(probe, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
           errno == ECONNREFUSED;
    (void)close(probe);
    return dead;
}

static enum kvt_err
listen_at(struct kvbm_attach *attach, struct kvt_error *err)
{
    struct sockaddr_un address;
    int rc;

    if (!address_of(&address, attach->options.path))
        return kvt_error_set(err, KVT_RANGE, "attach.socket: \"%s\" is no path of 1 to %zu bytes",
                             attach->options.path, sizeof(address.sun_path) - 1);
    memcpy(attach->path, address.sun_path, sizeof(attach->path));
    attach->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Before there is a name: nobody gets in before the mode is right. */
    if (attach->socket < 0 || fchmod(attach->socket, SOCKET_MODE) != 0)
        return kvt_error_sys(err, errno, "attach.socket");
    rc = bind(attach->socket, (const struct sockaddr *)&address, sizeof(address));
    if (rc != 0 && errno == EADDRINUSE) {
        if (!left_behind(&address))
            return kvt_error_set(err, KVT_BUSY, "attach.socket: %s is in use", attach->path);
        (void)unlink(attach->path);
        rc = bind(attach->socket, (const struct sockaddr *)&address, sizeof(address));
    }
    if (rc != 0)
        return kvt_error_sys(err, errno, "attach.socket: %s", attach->path);
    attach->bound = true;
    if (listen(attach->socket, BACKLOG) != 0)
        return kvt_error_sys(err, errno, "attach.socket: %s", attach->path);
    return KVT_OK;
}

static void
reap(struct kvbm_attach *attach)
{
    for (uint32_t i = 0; i < attach->options.engines_max; i++) {
        if (attach->sessions[i] == NULL || !kvbm_attach_session_ended(attach->sessions[i]))
            continue;
        kvbm_attach_session_free(attach->sessions[i]);
        attach->sessions[i] = NULL;
    }
}

/* An answer where a greeting is expected: that is how an engine learns why. */
static void
refuse(struct kvbm_attach *attach, int socket, enum kvt_err status, const char *text)
{
    struct kvbm_attach_answer answer = {
        .head = kvbm_attach_head(KVBM_ATTACH_ANSWER, sizeof(answer)),
        .status = (uint32_t)status,
    };

    (void)snprintf(answer.text, sizeof(answer.text), "%s", text);
    (void)!kvbm_channel_send(socket, &answer, sizeof(answer), -1);
    (void)close(socket);
    atomic_fetch_add(&attach->counts.refused, 1);
    kvt_log_warn("attach", "refused", "%s", text);
}

static bool
is_ours(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void
take(struct kvbm_attach *attach, int socket)
{
    struct kvbm_attach_session_options options = {
        .blocks_max = attach->options.blocks_max,
        .layout = attach->options.layout,
        .counts = &attach->counts,
        .service = {.below = attach->options.below,
                    .on_store = attach->options.on_store,
                    .on_remove = attach->options.on_remove,
                    .watch = attach->options.watch},
    };
    struct kvt_error err;
    uint32_t slot = 0;

    if (!is_ours(socket)) {
        refuse(attach, socket, KVT_DENIED, "an engine of another user");
        return;
    }
    while (slot < attach->options.engines_max && attach->sessions[slot] != NULL)
        slot++;
    if (slot == attach->options.engines_max) {
        refuse(attach, socket, KVT_FULL, "the worker has as many engines as it may");
        return;
    }
    options.slot = slot;
    options.service.arg = attach->options.args[slot];
    if (kvbm_attach_session_start(&attach->sessions[slot], socket, &options, &err) != KVT_OK)
        kvt_log_warn("attach", "refused", "%s", err.text);
}

static void *
run(void *arg)
{
    struct kvbm_attach *attach = arg;
    struct pollfd watched = {.fd = attach->socket, .events = POLLIN};

    while (!atomic_load(&attach->stop)) {
        int socket;

        (void)poll(&watched, 1, REAP_EVERY);
        reap(attach);
        socket = accept4(attach->socket, NULL, NULL, SOCK_CLOEXEC);
        if (socket >= 0)
            take(attach, socket);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            (void)poll(NULL, 0, ACCEPT_PAUSE);
    }
    return NULL;
}

enum kvt_err
kvbm_attach_open(struct kvbm_attach **out, const struct kvbm_attach_options *options,
                 struct kvt_error *err)
{
    struct kvbm_attach *attach;
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (options->engines_max == 0 || options->engines_max > KVBM_ATTACH_ENGINES_MAX)
        return kvt_error_set(err, KVT_RANGE, "attach.engines: not in 1..%d",
                             KVBM_ATTACH_ENGINES_MAX);
    attach = kvt_calloc(1, sizeof(*attach));
    if (attach == NULL)
        return kvt_error_set(err, KVT_NOMEM, "attach.socket");
    attach->options = *options;
    attach->socket = -1;
    rc = listen_at(attach, err);
    if (rc != KVT_OK)
        goto fail;
    sys = pthread_create(&attach->thread, NULL, run, attach);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "attach.socket: thread");
        goto fail;
    }
    attach->started = true;
    *out = attach;
    return KVT_OK;

fail:
    kvbm_attach_close(attach);
    return rc;
}

void
kvbm_attach_close(struct kvbm_attach *attach)
{
    if (attach == NULL)
        return;
    atomic_store(&attach->stop, true);
    if (attach->socket >= 0)
        (void)shutdown(attach->socket, SHUT_RDWR);
    if (attach->started)
        (void)pthread_join(attach->thread, NULL);
    for (uint32_t i = 0; i < attach->options.engines_max; i++)
        kvbm_attach_session_free(attach->sessions[i]);
    if (attach->bound)
        (void)unlink(attach->path);
    if (attach->socket >= 0)
        (void)close(attach->socket);
    kvt_free(attach);
}

void
kvbm_attach_stats(struct kvbm_attach *attach, struct kvbm_attach_stats *stats)
{
    stats->engines = atomic_load(&attach->counts.present);
    stats->attached = atomic_load(&attach->counts.attached);
    stats->refused = atomic_load(&attach->counts.refused);
    stats->broken = atomic_load(&attach->counts.broken);
    for (size_t i = 0; i < KVBM_ATTACH_STATS_COUNT; i++)
        stats->moved[i] = atomic_load(&attach->counts.services[i]);
}
