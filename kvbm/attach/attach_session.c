#include "kvbm/attach/attach_session.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "kvbm/attach/channel.h"
#include "kvbm/attach/sealed_memory.h"

enum {
    IDLE = 60000,    /* ms: a sleep that is sure to end */
    NO_ROOM = 5,     /* ms between looks at an engine that takes no completions */
    LOOK_EVERY = 64, /* requests between two looks whether the engine lives */
};

struct kvbm_attach_session {
    struct kvbm_attach_session_options options;
    int socket;
    int death; /* a pidfd, or -1: only the socket tells */
    atomic_bool stop;
    atomic_bool ended;
    pthread_t thread;
    struct kvbm_storage *memory;
    void *shared; /* KVBM_ATTACH_MEMORY bytes */
    struct kvbm_ring requests;
    struct kvbm_ring completions;
    struct kvbm_attach_service *service;
    uint64_t told[KVBM_ATTACH_STATS_COUNT]; /* of the service's counts, to the shared ones */
    uint64_t busy;                          /* requests since the last look at the socket */
    struct kvbm_attach_message request;
    struct kvbm_attach_message answer;
};

/* ---- memory ---- */

struct memory {
    struct kvbm_storage head;
    uint8_t *bytes;
    size_t size;
};

static void *
memory_address(struct kvbm_storage *storage, uint32_t block)
{
    return ((struct memory *)storage)->bytes + (size_t)block * storage->block_size;
}

static void
memory_close(struct kvbm_storage *storage)
{
    struct memory *memory = (struct memory *)storage;

    (void)munmap(memory->bytes, memory->size);
    kvt_free(memory);
}

static const struct kvbm_storage_ops memory_ops = {
    .read = kvbm_storage_host_read,
    .write = kvbm_storage_host_write,
    .address = memory_address,
    .close = memory_close,
};

/* An engine's blocks, one after the other from the beginning of `fd` on, which stays the caller's.
 * The engine may write at any time: what is copied out is checked by nobody. */
static enum kvt_err
open_memory(struct kvbm_storage **out, int fd, uint32_t block_count, size_t block_size,
            struct kvt_error *err)
{
    struct memory *memory;
    void *bytes;
    enum kvt_err rc;

    *out = NULL;
    rc = kvbm_storage_check(block_count, block_size, err);
    if (rc != KVT_OK)
        return rc;
    memory = kvt_calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvt_error_set(err, KVT_NOMEM, "an engine's memory");
    rc = kvbm_sealed_map(&bytes, fd, (size_t)block_count * block_size, err);
    if (rc != KVT_OK) {
        kvt_free(memory);
        return rc;
    }
    /* Its place in the ladder, whatever it is made of here. */
    memory->head = (struct kvbm_storage){&memory_ops, KVBM_STORAGE_DEVICE, block_count, block_size};
    memory->bytes = bytes;
    memory->size = (size_t)block_count * block_size;
    *out = &memory->head;
    return KVT_OK;
}

/* ---- hello ---- */

/* The process at the other end, so that its death is seen even where a child of it keeps the
 * socket open. */
static int
open_death(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

static enum kvt_err
greet(const struct kvbm_attach_session *session, struct kvt_error *err)
{
    struct kvbm_attach_greeting greeting = {
        .head = kvbm_attach_head(KVBM_ATTACH_GREETING, sizeof(greeting)),
        .memory = KVBM_ATTACH_MEMORY,
        .ring = KVBM_ATTACH_RING,
        .blocks_max = session->options.blocks_max,
        .request_max = KVBM_ATTACH_REQUEST_MAX,
    };
    enum kvt_err rc;

    kvbm_layout_serialize(session->options.layout, greeting.layout);
    rc = kvbm_channel_send(session->socket, &greeting, sizeof(greeting), -1);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "no greeting");
}

static enum kvt_err
check_hello(const struct kvbm_attach_session *session, const struct kvbm_attach_hello *hello,
            size_t size, struct kvt_error *err)
{
    struct kvbm_layout layout;
    enum kvt_err rc;

    rc = kvbm_attach_head_check(&hello->head, KVBM_ATTACH_HELLO, sizeof(*hello), size);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "that was no hello of version %u", KVBM_ATTACH_VERSION);
    if (hello->block_count == 0 || hello->block_count > session->options.blocks_max)
        return kvt_error_set(err, KVT_RANGE, "%u blocks, not 1 to %u", hello->block_count,
                             session->options.blocks_max);
    rc = kvbm_layout_deserialize(&layout, hello->layout, sizeof(hello->layout), err);
    if (rc == KVT_OK)
        rc = kvbm_layout_compatible(session->options.layout, &layout, err);
    return rc;
}

/* Rings in memory of ours: the engine cannot make it smaller. */
static enum kvt_err
make_rings(struct kvbm_attach_session *session, int *fd, struct kvt_error *err)
{
    struct kvbm_attach_control *control;
    enum kvt_err rc;
    uint8_t *bytes;

    *fd = kvbm_sealed_make("kvtier-rings", KVBM_ATTACH_MEMORY);
    if (*fd < 0)
        return kvt_error_sys(err, errno, "rings");
    rc = kvbm_sealed_map(&session->shared, *fd, KVBM_ATTACH_MEMORY, err);
    if (rc != KVT_OK)
        return rc;
    control = session->shared;
    bytes = (uint8_t *)session->shared + KVBM_ATTACH_CONTROL;
    kvbm_ring_init(&session->requests, &control->requests, bytes, KVBM_ATTACH_RING);
    kvbm_ring_init(&session->completions, &control->completions, bytes + KVBM_ATTACH_RING,
                   KVBM_ATTACH_RING);
    return KVT_OK;
}

static enum kvt_err
answer_hello(const struct kvbm_attach_session *session, enum kvt_err status, const char *text,
             int rings)
{
    struct kvbm_attach_answer answer = {
        .head = kvbm_attach_head(KVBM_ATTACH_ANSWER, sizeof(answer)),
        .status = (uint32_t)status,
        .slot = session->options.slot,
    };

    (void)snprintf(answer.text, sizeof(answer.text), "%s", text);
    return kvbm_channel_send(session->socket, &answer, sizeof(answer), rings);
}

/* From the engine's memory to its service; what was made half stays for take_down(). */
static enum kvt_err
build(struct kvbm_attach_session *session, const struct kvbm_attach_hello *hello, int memory,
      int *rings, struct kvt_error *err)
{
    struct kvbm_attach_service_options service = session->options.service;
    enum kvt_err rc;

    rc = open_memory(&session->memory, memory, hello->block_count,
                     session->options.layout->block_size, err);
    if (rc == KVT_OK)
        rc = make_rings(session, rings, err);
    if (rc != KVT_OK)
        return rc;
    service.memory = session->memory;
    service.stop = &session->stop;
    return kvbm_attach_service_new(&session->service, &service, err);
}

static enum kvt_err
let_in(struct kvbm_attach_session *session, struct kvt_error *err)
{
    struct kvbm_attach_hello hello;
    int memory = -1;
    int rings = -1;
    size_t size;
    enum kvt_err rc;

    rc = greet(session, err);
    if (rc != KVT_OK)
        return rc;
    rc = kvbm_channel_receive(session->socket, &hello, sizeof(hello),
                              kvt_clock_mono_ms() + KVBM_ATTACH_SESSION_HELLO, &size, &memory);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "no hello");
    rc = check_hello(session, &hello, size, err);
    if (rc == KVT_OK)
        rc = build(session, &hello, memory, &rings, err);
    if (rc != KVT_OK)
        (void)answer_hello(session, rc, err->text, -1);
    else if (answer_hello(session, KVT_OK, "", rings) != KVT_OK)
        rc = kvt_error_set(err, KVT_UNAVAILABLE, "it left");
    if (memory >= 0)
        (void)close(memory);
    if (rings >= 0)
        (void)close(rings);
    return rc;
}

/* What the service has counted since, for who looks at all engines. */
static void
tell_counts(struct kvbm_attach_session *session)
{
    const uint64_t *counts = kvbm_attach_service_counts(session->service);

    for (size_t i = 0; i < KVBM_ATTACH_STATS_COUNT; i++)
        if (counts[i] != session->told[i]) {
            atomic_fetch_add(&session->options.counts->services[i], counts[i] - session->told[i]);
            session->told[i] = counts[i];
        }
}

static void
take_down(struct kvbm_attach_session *session)
{
    if (session->service != NULL)
        tell_counts(session);
    kvbm_attach_service_free(session->service);
    session->service = NULL;
    kvbm_storage_close(session->memory);
    session->memory = NULL;
    if (session->shared != NULL)
        (void)munmap(session->shared, KVBM_ATTACH_MEMORY);
    session->shared = NULL;
}

static bool
gone(const struct kvbm_attach_session *session)
{
    return kvbm_channel_wait(session->socket, session->death, 0) == KVT_UNAVAILABLE;
}

/* Nothing to do: sleep until there is.  False: the engine is gone. */
static bool
rest(struct kvbm_attach_session *session, uint64_t wait_ms)
{
    enum kvt_err rc = KVT_OK;

    if (kvbm_ring_sleep(&session->requests))
        rc = kvbm_channel_wait(session->socket, session->death, kvt_clock_mono_ms() + wait_ms);
    kvbm_ring_rouse(&session->requests);
    return rc != KVT_UNAVAILABLE;
}

/* One request.  KVT_AGAIN: there is none; KVT_CORRUPT: the ring is nonsense. */
static enum kvt_err
serve_one(struct kvbm_attach_session *session)
{
    size_t size;
    enum kvt_err rc;

    rc = kvbm_ring_take(&session->requests, &session->request, sizeof(session->request), &size);
    if (rc != KVT_OK)
        return rc;
    size = kvbm_attach_service_serve(session->service, &session->request, size, &session->answer);
    rc = kvbm_ring_put(&session->completions, &session->answer, size);
    assert(rc == KVT_OK); /* there was room for the longest, and only we take of it */
    if (kvbm_ring_wake(&session->completions))
        kvbm_channel_nudge(session->socket);
    return KVT_OK;
}

/* Until the engine is gone, we are told to stop, or a ring is nonsense (false). */
static bool
serve_all(struct kvbm_attach_session *session)
{
    for (session->busy = 0; !atomic_load(&session->stop); session->busy++) {
        enum kvt_err rc = kvbm_ring_room(&session->completions, sizeof(session->answer));
        const bool full = rc == KVT_AGAIN;

        if (rc == KVT_OK)
            rc = serve_one(session);
        if (rc == KVT_CORRUPT)
            return false;
        tell_counts(session);
        if (rc == KVT_OK && session->busy % LOOK_EVERY != 0)
            continue;
        if (rc == KVT_OK || kvbm_attach_service_work(session->service)) {
            if (gone(session))
                return true;
            continue;
        }
        /* Nobody says that completions were taken. */
        if (full)
            kvt_clock_sleep_ms(NO_ROOM);
        if (full ? gone(session) : !rest(session, IDLE))
            return true;
    }
    return true;
}

static void *
run(void *arg)
{
    struct kvbm_attach_session *session = arg;
    struct kvbm_attach_session_counts *counts = session->options.counts;
    struct kvt_error err;

    atomic_fetch_add(&counts->present, 1);
    if (let_in(session, &err) == KVT_OK) {
        atomic_fetch_add(&counts->attached, 1);
        kvt_log_info("attach", "attached", "engine %u: %u blocks", session->options.slot,
                     session->memory->block_count);
        if (!serve_all(session)) {
            atomic_fetch_add(&counts->broken, 1);
            kvt_log_warn("attach", "broken", "engine %u put nonsense into a ring",
                         session->options.slot);
        }
        take_down(session);
        kvt_log_info("attach", "left", "engine %u", session->options.slot);
    } else {
        atomic_fetch_add(&counts->refused, 1);
        kvt_log_warn("attach", "refused", "%s", err.text);
        take_down(session);
    }
    atomic_fetch_sub(&counts->present, 1);
    /* The engine is told by the end of the socket, when nothing of it is held any more. */
    (void)shutdown(session->socket, SHUT_RDWR);
    atomic_store(&session->ended, true);
    return NULL;
}

static void
release(struct kvbm_attach_session *session)
{
    if (session->death >= 0)
        (void)close(session->death);
    (void)close(session->socket);
    kvt_free(session);
}

enum kvt_err
kvbm_attach_session_start(struct kvbm_attach_session **out, int socket,
                          const struct kvbm_attach_session_options *options, struct kvt_error *err)
{
    struct kvbm_attach_session *session = kvt_calloc(1, sizeof(*session));
    int sys;

    *out = NULL;
    if (session == NULL) {
        (void)close(socket);
        return kvt_error_set(err, KVT_NOMEM, "session of an engine");
    }
    session->options = *options;
    session->socket = socket;
    session->death = open_death(socket);
    sys = pthread_create(&session->thread, NULL, run, session);
    if (sys != 0) {
        release(session);
        return kvt_error_sys(err, sys, "thread of an engine");
    }
    *out = session;
    return KVT_OK;
}

bool
kvbm_attach_session_ended(const struct kvbm_attach_session *session)
{
    return atomic_load(&session->ended);
}

void
kvbm_attach_session_free(struct kvbm_attach_session *session)
{
    if (session == NULL)
        return;
    atomic_store(&session->stop, true);
    (void)shutdown(session->socket, SHUT_RDWR); /* whoever waits for it wakes */
    (void)pthread_join(session->thread, NULL);
    release(session);
}
