#include "gateway/door.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

enum { CONNECTION_MEMORY = 64 << 10 /* the library clears all of it for each request */ };

static size_t
keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text); /* targets are decoded by gateway/target.h, once */
}

static struct MHD_Daemon *
start(struct gateway_door *door, const struct gateway_door_options *options)
{
    const bool tls = door->key != NULL;
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG |
                           MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                           (tls ? MHD_USE_TLS : 0u);
    const struct gateway_door_calls *calls = options->calls;
    const struct MHD_OptionItem with_tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, door->certificate},
                                              {MHD_OPTION_HTTPS_MEM_KEY, 0, door->key},
                                              {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem without[] = {{MHD_OPTION_END, 0, NULL}};

    /* A pool of one thread is no pool. */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, calls->on_request, door, MHD_OPTION_EXTERNAL_LOGGER,
        kvt_http_life_log, "gateway.front", MHD_OPTION_THREAD_POOL_SIZE,
        options->threads < 2 ? 0u : options->threads, MHD_OPTION_CONNECTION_LIMIT,
        options->connections_max, MHD_OPTION_CONNECTION_TIMEOUT, options->stall_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_URI_LOG_CALLBACK,
        calls->on_target, door, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, calls->on_completed, door, MHD_OPTION_NOTIFY_CONNECTION,
        calls->on_connection, door, MHD_OPTION_ARRAY, tls ? with_tls : without, MHD_OPTION_END);
}

enum kvt_err
gateway_door_open(struct gateway_door **out, const struct gateway_door_options *options,
                  struct kvt_error *err)
{
    const bool tls = options->key != NULL && options->key[0] != '\0';
    struct gateway_door *door = kvt_calloc(1, sizeof(*door));
    enum kvt_err rc;

    *out = NULL;
    if (door == NULL)
        return kvt_error_set(err, KVT_NOMEM, "S3 port");
    door->arg = options->arg;
    door->life.fd = -1;
    if (tls) {
        door->certificate = kvt_strdup(options->certificate);
        door->key = kvt_strdup(options->key);
        if (door->certificate == NULL || door->key == NULL) {
            rc = kvt_error_set(err, KVT_NOMEM, "certificate of the S3 port");
            goto fail;
        }
    }
    door->life.daemon = start(door, options);
    if (door->life.daemon == NULL) {
        rc = kvt_error_set(err, tls ? KVT_INVALID : KVT_IO, "start the S3 port%s",
                           tls ? ": is front.tls_certificate_file a PEM certificate, and "
                                 "front.tls_key_file its key?"
                               : "");
        goto fail;
    }
    *out = door;
    return KVT_OK;

fail:
    gateway_door_close(door);
    return rc;
}

void
gateway_door_enter(struct gateway_door *door, int fd, const struct sockaddr *address,
                   socklen_t size)
{
    (void)MHD_add_connection(door->life.daemon, fd, address,
                             size); /* which closes what it refuses */
}

void
gateway_door_retire(struct gateway_door *door)
{
    atomic_store(&door->closing, true);
}

bool
gateway_door_idle(struct gateway_door *door)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(door->life.daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

    return info != NULL && info->num_connections == 0 && atomic_load(&door->life.call_count) == 0;
}

static void
forget(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    kvt_free(secret);
}

void
gateway_door_close(struct gateway_door *door)
{
    if (door == NULL)
        return;
    kvt_http_life_end(&door->life);
    kvt_free(door->certificate);
    forget(door->key);
    kvt_free(door);
}
