/* Which broadcast ranks in processes of their own get. */
#include <inttypes.h>
#include <stdio.h>

#include "base/core/deadline.h"
#include "base/core/log.h"

#include "engine/replica/broadcast_internal.h"

enum { SHARED_MAX = 4096 /* bytes of what a rank says of its G1 */ };

/* KVT_OK, or why blocks cannot go from device to device. */
static enum kvt_err
ask_all(struct engine_worker *const *ranks, uint32_t count, uint64_t wait_ms, char *why)
{
    const uint64_t deadline = kvt_deadline_in(wait_ms);
    enum kvt_err rc = KVT_OK;

    for (uint32_t r = 0; r < count && rc == KVT_OK; r++) {
        struct kvt_error err = {.text = ""};
        struct kvt_buffer said;

        kvt_buffer_init(&said, SHARED_MAX);
        rc = engine_worker_share(ranks[r], &said, kvt_deadline_left(deadline), &err);
        kvt_buffer_release(&said);
        if (rc != KVT_OK)
            (void)snprintf(why, ENGINE_WHY_MAX, "rank %" PRIu32 ": %.200s", r,
                           err.text[0] != '\0' ? err.text : kvt_err_text(rc));
    }
    return rc;
}

enum kvt_err
engine_broadcast_choose(struct engine_broadcast **out, struct engine_worker *const *ranks,
                        uint32_t count, uint32_t staged, bool devices, uint64_t wait_ms,
                        struct kvt_error *err)
{
    struct engine_broadcast_state state;
    char why[ENGINE_WHY_MAX] = "nothing else is wanted";
    enum kvt_err rc;

    *out = NULL;
    if (count == 1)
        (void)snprintf(why, sizeof(why), "there is one rank");
    else if (devices && ask_all(ranks, count, wait_ms, why) == KVT_OK)
        why[0] = '\0';
    if (why[0] == '\0') {
        rc = engine_broadcast_ipc(out, ranks, count, staged, err);
    } else {
        rc = engine_broadcast_fabric(out, ranks, count, staged, err);
        if (rc == KVT_OK)
            engine_broadcast_goes(*out, ENGINE_BY_FABRIC, "%s", why);
    }
    if (rc != KVT_OK)
        return rc;
    engine_broadcast_state(*out, &state);
    kvt_log_info("engine.broadcast", "way", "blocks go from rank 0 to %" PRIu32 " others by %s: %s",
                 count - 1, engine_way_name(state.way), state.why);
    return KVT_OK;
}
