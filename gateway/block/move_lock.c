#include "gateway/block/move_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "gateway/tier/bucket_tier.h"

enum {
    MARGIN_MS = 2000, /* stores tell whole seconds */
};

/* What an object that is there says. */
struct seen {
    char body[sizeof(((struct gateway_move_lock *)NULL)->body)];
    char etag[G4_ETAG_MAX];
    bool over; /* its lease is */
};

static enum kvt_err
perform(struct gateway_context *context, struct g4_request *request)
{
    request->deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS;
    return gateway_bucket_tier_perform_in(context->tiers.buckets, GATEWAY_COLD, request);
}

/* Whose it is: this catalog's, in this life, at this time.  No two bodies are equal, so no two
 * ETags are. */
static void
describe(struct gateway_context *context, struct gateway_move_lock *lock)
{
    struct gateway_catalog_stats stats;
    uint64_t nonce;

    gateway_catalog_stats(context->catalog, &stats);
    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(lock->body, sizeof(lock->body), "%s %" PRIu64 " %016" PRIx64 " %016" PRIx64,
                   context->identity.name, stats.incarnation, context->identity.life, nonce);
}

/* From now on, where it is absent or what was seen. */
static enum kvt_err
put(struct gateway_context *context, struct gateway_move_lock *lock, const char *seen_etag)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + GATEWAY_MOVE_LOCK_HOLD_MS;
    struct g4_request request = {.verb = G4_PUT,
                                 .key = lock->name,
                                 .condition = seen_etag == NULL ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = lock->body,
                                 .body_size = strlen(lock->body)};
    enum kvt_err rc;

    if (seen_etag != NULL)
        memcpy(request.etag, seen_etag, sizeof(request.etag));
    rc = perform(context, &request);
    if (rc == KVT_OK)
        memcpy(lock->etag, request.etag, sizeof(lock->etag));
    lock->until_ms = until_ms;
    return rc;
}

static enum kvt_err
look(struct gateway_context *context, const char *name, struct seen *seen)
{
    struct g4_request request = {.verb = G4_GET,
                                 .key = name,
                                 .buffer = seen->body,
                                 .buffer_capacity = sizeof(seen->body) - 1};
    const enum kvt_err rc = perform(context, &request);
    const uint64_t now_ms = request.server_ms != 0 ? request.server_ms : kvt_clock_unix_ms();

    seen->body[rc == KVT_OK ? request.buffer_size : 0] = '\0';
    memcpy(seen->etag, request.etag, sizeof(seen->etag));
    seen->over = now_ms > request.modified_ms + GATEWAY_MOVE_LOCK_MS + MARGIN_MS;
    return rc;
}

/* Was it put after all, its answer lost? */
static bool
is_ours(struct gateway_move_lock *lock, const struct seen *seen)
{
    if (strcmp(seen->body, lock->body) != 0)
        return false;
    memcpy(lock->etag, seen->etag, sizeof(lock->etag));
    return true;
}

/* Is it one that an earlier life of this gateway left, whose last request has come by now?  One
 * state folder has one process. */
static bool
is_left(const struct gateway_context *context, const struct gateway_move_lock *lock,
        const char *body)
{
    const char *life = strchr(lock->body, ' ');
    size_t size;

    if (kvt_clock_mono_ms() < context->identity.since_ms + GATEWAY_MOVE_LOCK_LEFT_MS)
        return false;
    life = life == NULL ? NULL : strchr(life + 1, ' ');
    if (life == NULL)
        return false;
    size = (size_t)(life - lock->body) + 1;
    return strncmp(lock->body, body, size) == 0 && strncmp(life + 1, body + size, 16) != 0;
}

enum kvt_err
gateway_move_lock_acquire(struct gateway_context *context, const char *key,
                          struct gateway_move_lock *lock)
{
    const XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    struct seen seen;
    enum kvt_err put_rc;
    enum kvt_err rc;

    (void)snprintf(lock->name, sizeof(lock->name),
                   GATEWAY_MOVE_LOCK_PREFIX "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
    lock->etag[0] = '\0';
    lock->unsure = false;
    describe(context, lock);
    put_rc = put(context, lock, NULL);
    if (put_rc == KVT_OK)
        return KVT_OK;
    rc = look(context, lock->name, &seen);
    if (rc == KVT_OK && is_ours(lock, &seen))
        return KVT_OK;
    if (put_rc != KVT_EXISTS && put_rc != KVT_PRECONDITION)
        return put_rc;
    if (rc == KVT_NOTFOUND)
        return KVT_BUSY; /* its holder was just done */
    if (rc != KVT_OK && rc != KVT_RANGE)
        return rc;
    if (!seen.over && !is_left(context, lock, seen.body))
        return KVT_BUSY;
    kvt_log_info("gateway.move", "lock_taken_over", "%s: it was left by %s", key, seen.body);
    rc = put(context, lock, seen.etag);
    return rc == KVT_PRECONDITION || rc == KVT_NOTFOUND ? KVT_BUSY : rc;
}

enum kvt_err
gateway_move_lock_renew(struct gateway_context *context, struct gateway_move_lock *lock)
{
    struct seen seen;
    enum kvt_err rc;

    describe(context, lock);
    rc = put(context, lock, lock->etag);
    if (rc == KVT_OK || (look(context, lock->name, &seen) == KVT_OK && is_ours(lock, &seen)))
        return KVT_OK;
    lock->until_ms = 0; /* it is no longer known to be there */
    return rc == KVT_PRECONDITION || rc == KVT_NOTFOUND ? KVT_BUSY : rc;
}

bool
gateway_move_lock_unanswered(enum kvt_err status)
{
    return status == KVT_TIMEOUT || status == KVT_UNAVAILABLE || status == KVT_IO;
}

enum kvt_err
gateway_move_lock_sent(struct gateway_move_lock *lock, enum kvt_err status)
{
    if (gateway_move_lock_unanswered(status))
        lock->unsure = true;
    return status;
}

uint64_t
gateway_move_lock_deadline(const struct gateway_move_lock *lock)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (now_ms >= lock->until_ms)
        return 0;
    return now_ms + GATEWAY_BUCKET_TIER_LOOK_MS < lock->until_ms
               ? now_ms + GATEWAY_BUCKET_TIER_LOOK_MS
               : lock->until_ms;
}

/* One DELETE: where a second one was done, the first could still come, and meet another holder's.
 */
void
gateway_move_lock_release(struct gateway_context *context, const struct gateway_move_lock *lock)
{
    struct g4_request drop = {.verb = G4_DELETE, .key = lock->name, .once = true};
    enum kvt_err rc;

    if (!lock->unsure && gateway_move_lock_deadline(lock) != 0) {
        rc = perform(context, &drop);
        if (rc == KVT_OK || rc == KVT_NOTFOUND)
            return;
    }
    kvt_log_warn("gateway.move", "lock_stays", "%s ends with its lease", lock->name);
}

/* ---- of those who never came back ---- */

/* Is it gone now, by us? */
static bool
free_left(struct gateway_context *context, const char *name)
{
    struct gateway_move_lock lock = {.unsure = false};
    struct seen seen;
    enum kvt_err rc;

    if (strlen(name) != sizeof(lock.name) - 1)
        return false; /* somebody else's */
    memcpy(lock.name, name, sizeof(lock.name));
    rc = look(context, name, &seen);
    if ((rc != KVT_OK && rc != KVT_RANGE) || !seen.over)
        return false;
    describe(context, &lock);
    if (put(context, &lock, seen.etag) != KVT_OK)
        return false;
    gateway_move_lock_release(context, &lock);
    return true;
}

/* Is there time for one more?  The keeper has other things to see to. */
static bool
may_look(struct gateway_context *context, size_t looks, uint64_t end_ms)
{
    return looks < GATEWAY_MOVE_LOCK_ROUND && !context->stopping && kvt_clock_mono_ms() < end_ms &&
           gateway_bucket_tier_healthy(context->tiers.buckets);
}

size_t
gateway_move_lock_sweep(struct gateway_context *context, char swept[KVT_KEY_MAX])
{
    const uint64_t end_ms = kvt_clock_mono_ms() + GATEWAY_MOVE_LOCK_SWEEP_MS;
    char after[KVT_KEY_MAX];
    struct g4_request list = {.verb = G4_LIST,
                              .key = GATEWAY_MOVE_LOCK_PREFIX,
                              .after = swept[0] == '\0' ? NULL : after,
                              .listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*list.listed)),
                              .listed_wanted = GATEWAY_MOVE_LOCK_ROUND};
    size_t looks = 0;
    size_t freed = 0;
    bool end = false;

    if (list.listed == NULL)
        return 0;
    memcpy(after, swept, sizeof(after));
    while (!end && may_look(context, looks, end_ms) && perform(context, &list) == KVT_OK) {
        size_t i = 0;

        for (; i < list.listed_count && may_look(context, looks, end_ms); i++, looks++) {
            (void)snprintf(swept, KVT_KEY_MAX, "%s", list.listed[i].key);
            freed += free_left(context, list.listed[i].key) ? 1 : 0;
        }
        if (i < list.listed_count)
            break;
        end = list.token[0] == '\0';
    }
    if (end)
        swept[0] = '\0';
    kvt_free(list.listed);
    if (freed > 0)
        kvt_log_info("gateway.move", "locks_swept", "%zu, of gateways that are no more", freed);
    return freed;
}

enum kvt_err
gateway_move_lock_still_held(const struct gateway_move_lock *lock, uint64_t *deadline_ms)
{
    *deadline_ms = gateway_move_lock_deadline(lock);
    return *deadline_ms == 0 ? KVT_AGAIN : KVT_OK;
}
