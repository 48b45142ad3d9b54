#include "engine/memory/rail.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum {
    CLOSE_WAIT = 500 /* ms for an endpoint to end in good order */
};

/* How often UCX asks a silent peer of a watched rail whether it lives. */
#define KEEPALIVE "2s"

enum kvt_err
engine_rail_err(ucs_status_t status)
{
    switch (status) {
    case UCS_OK: return KVT_OK;
    case UCS_ERR_NO_MEMORY: return KVT_NOMEM;
    case UCS_ERR_TIMED_OUT: return KVT_TIMEOUT;
    case UCS_ERR_UNSUPPORTED: return KVT_UNSUPPORTED;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CANCELED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NO_DEVICE: return KVT_UNAVAILABLE;
    default: return KVT_IO;
    }
}

static ucs_status_t
open_context(struct engine_rail *rail, const char *transports)
{
    /* The region is mapped by whoever opens it, the worker is the fabric's thread's. */
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return status;
    status = ucp_config_modify(config, "TLS", transports);
    if (status == UCS_OK)
        status = ucp_config_modify(config, "KEEPALIVE_INTERVAL", KEEPALIVE);
    if (status == UCS_OK)
        status = ucp_init(&params, config, &rail->context);
    ucp_config_release(config);
    return status;
}

static ucs_status_t
open_worker(struct engine_rail *rail)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucs_status_t status = ucp_worker_create(rail->context, &params, &rail->worker);

    if (status != UCS_OK)
        return status;
    status = ucp_worker_get_address(rail->worker, &rail->address, &rail->address_size);
    if (status == UCS_OK && rail->address_size > ENGINE_RAIL_ADDRESS_MAX) {
        ucp_worker_release_address(rail->worker, rail->address);
        status = UCS_ERR_EXCEEDS_LIMIT;
    }
    if (status == UCS_OK)
        status = ucp_worker_get_efd(rail->worker, &rail->event_fd);
    if (status != UCS_OK)
        ucp_worker_destroy(rail->worker);
    return status;
}

enum kvt_err
engine_rail_open(struct engine_rail *rail, const char *name, const char *transports, bool watched,
                 struct kvt_error *err)
{
    ucs_status_t status;

    *rail = (struct engine_rail){
        .name = name, .watched = watched, .messages = strcmp(transports, "tcp") == 0};
    status = open_context(rail, transports);
    if (status == UCS_OK) {
        status = open_worker(rail);
        if (status != UCS_OK)
            ucp_cleanup(rail->context);
    }
    rail->open = status == UCS_OK;
    if (rail->open)
        return KVT_OK;
    return kvt_error_set(err, status == UCS_ERR_NO_MEMORY ? KVT_NOMEM : KVT_UNSUPPORTED,
                         "%s rail: UCX has none of the transports %s: %s", name, transports,
                         ucs_status_string(status));
}

void
engine_rail_close(struct engine_rail *rail)
{
    if (!rail->open)
        return;
    assert(rail->peers == NULL);
    ucp_worker_release_address(rail->worker, rail->address);
    ucp_worker_destroy(rail->worker);
    ucp_cleanup(rail->context);
    rail->open = false;
}

bool
engine_rail_progress(struct engine_rail *rail)
{
    return rail->open && ucp_worker_progress(rail->worker) != 0;
}

bool
engine_rail_arm(struct engine_rail *rail)
{
    return !rail->open || ucp_worker_arm(rail->worker) == UCS_OK;
}

/* Peers ------------------------------------------------------------------------------------ */

static void
on_error(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    struct engine_peer *peer = arg;

    (void)endpoint;
    if (peer->failed == KVT_OK)
        peer->failed = status == UCS_OK ? KVT_UNAVAILABLE : engine_rail_err(status);
}

static enum kvt_err
peer_new(struct engine_peer **out, struct engine_rail *rail, const uint8_t *address, size_t size)
{
    struct engine_peer *peer = kvt_calloc(1, sizeof(*peer) + size);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
    };
    ucs_status_t status;

    *out = NULL;
    if (peer == NULL)
        return KVT_NOMEM;
    peer->rail = rail;
    peer->address_size = size;
    memcpy(peer->address, address, size);
    params.address = (const ucp_address_t *)peer->address;
    if (rail->watched) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler = (ucp_err_handler_t){on_error, peer};
    }
    status = ucp_ep_create(rail->worker, &params, &peer->endpoint);
    if (status != UCS_OK) {
        kvt_free(peer);
        return status == UCS_ERR_NO_MEMORY ? KVT_NOMEM : KVT_UNAVAILABLE;
    }
    peer->next = rail->peers;
    rail->peers = peer;
    *out = peer;
    return KVT_OK;
}

enum kvt_err
engine_peer_find(struct engine_peer **out, struct engine_rail *rail, const uint8_t *address,
                 size_t size)
{
    enum kvt_err rc = KVT_OK;

    *out = NULL;
    if (!rail->open || size == 0)
        return KVT_UNAVAILABLE;
    for (struct engine_peer *peer = rail->peers; peer != NULL && *out == NULL; peer = peer->next)
        if (peer->failed == KVT_OK && peer->address_size == size &&
            memcmp(peer->address, address, size) == 0)
            *out = peer;
    if (*out == NULL)
        rc = peer_new(out, rail, address, size);
    if (rc == KVT_OK)
        (*out)->users++;
    return rc;
}

/* What is in flight on it ends before this returns when it is forced. */
static void
close_endpoint(struct engine_rail *rail, ucp_ep_h endpoint)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const ucp_request_param_t gentle = {0};
    const uint64_t until = kvt_clock_mono_ms() + CLOSE_WAIT;
    void *request = ucp_ep_close_nbx(endpoint, rail->watched ? &force : &gentle);

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && kvt_clock_mono_ms() < until)
        (void)ucp_worker_progress(rail->worker);
    ucp_request_free(request);
}

void
engine_peer_leave(struct engine_peer *peer)
{
    struct engine_peer **at = &peer->rail->peers;

    if (--peer->users > 0)
        return;
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    if (peer->endpoint != NULL)
        close_endpoint(peer->rail, peer->endpoint);
    kvt_free(peer);
}

void
engine_peer_fail(struct engine_peer *peer)
{
    assert(peer->rail->watched);
    if (peer->failed == KVT_OK)
        peer->failed = KVT_UNAVAILABLE;
    if (peer->endpoint == NULL)
        return;
    close_endpoint(peer->rail, peer->endpoint);
    peer->endpoint = NULL;
}
