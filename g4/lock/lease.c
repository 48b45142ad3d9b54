#include "g4/lock/lease.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { RENEW_PART = 3, STOP_PERCENT = 80 };

/* From before the request on; the rest is for clocks that do not run alike. */
static uint64_t
stop_after_ms(const struct g4_lease *lease)
{
    return lease->ttl_ms * STOP_PERCENT / 100;
}

enum kvt_err
g4_lease_init(struct g4_lease *lease, const struct g4_lease_options *options, struct kvt_error *err)
{
    const size_t key_size = strlen(options->key);
    const size_t name_size = strlen(options->instance);

    memset(lease, 0, sizeof(*lease));
    if (key_size == 0 || key_size >= sizeof(lease->key))
        return kvt_error_set(err, KVT_INVALID, "lock: a key of 1 to %zu bytes, not %zu",
                             sizeof(lease->key) - 1, key_size);
    if (name_size == 0 || name_size >= sizeof(lease->instance))
        return kvt_error_set(err, KVT_INVALID, "lock: a name of 1 to %zu bytes, not %zu",
                             sizeof(lease->instance) - 1, name_size);
    if (options->ttl_ms < G4_LEASE_TTL_MIN_MS || options->ttl_ms > G4_LEASE_TTL_MAX_MS)
        return kvt_error_set(err, KVT_RANGE, "lock: a lease of %d to %d ms, not %" PRIu64,
                             G4_LEASE_TTL_MIN_MS, G4_LEASE_TTL_MAX_MS, options->ttl_ms);
    memcpy(lease->key, options->key, key_size);
    memcpy(lease->instance, options->instance, name_size);
    lease->ttl_ms = options->ttl_ms;
    lease->epoch_min = options->epoch_min;
    return KVT_OK;
}

/* ---- requests ---- */

/* A body that no earlier one equals: `writes` grows with each, and the nonce is of this acquisition
 * alone. */
static void
send_body(struct g4_lease *lease, enum g4_lease_step step, uint64_t now_ms)
{
    size_t size;

    lease->wanted.writes = ++lease->writes;
    lease->request = (struct g4_request){.verb = G4_PUT, .key = lease->key};
    if (step == G4_LEASE_CREATE) {
        lease->request.condition = G4_IF_ABSENT;
    } else {
        lease->request.condition = G4_IF_MATCH;
        memcpy(lease->request.etag, step == G4_LEASE_TAKE ? lease->seen.etag : lease->etag,
               sizeof(lease->request.etag));
    }
    lease->request.body = lease->out;
    lease->step = step;
    lease->sent_ms = now_ms;
    lease->outcome = g4_lock_body_format(&lease->wanted, lease->out, &size);
    lease->request.body_size = size;
    if (lease->outcome != KVT_OK || (step != G4_LEASE_CREATE && lease->request.etag[0] == '\0')) {
        lease->outcome =
            kvt_error_set(&lease->error, KVT_INVALID, "%.80s: %s", lease->key,
                          lease->outcome != KVT_OK ? "this machine's clock is beyond the year 9999"
                                                   : "the store gives no ETag");
        lease->step = G4_LEASE_IDLE;
    }
}

static void
send_look(struct g4_lease *lease)
{
    lease->request = (struct g4_request){.verb = G4_GET,
                                         .key = lease->key,
                                         .buffer = lease->in,
                                         .buffer_capacity = sizeof(lease->in)};
    lease->step = G4_LEASE_LOOK;
}

static void
set_times(struct g4_lease *lease, uint64_t unix_ms)
{
    lease->wanted.acquired_ms = unix_ms;
    lease->wanted.deadline_ms = unix_ms + lease->ttl_ms;
}

/* The deadline lies in the past of any clock, so that KVBM's leaders see a lock they may take. */
static void
send_release(struct g4_lease *lease, uint64_t now_ms)
{
    lease->wanted = lease->body;
    lease->wanted.deadline_ms = 0;
    lease->wanted.released = true;
    send_body(lease, G4_LEASE_RELEASE, now_ms);
}

/* ---- ends ---- */

static void
end(struct g4_lease *lease, enum kvt_err outcome)
{
    lease->step = G4_LEASE_IDLE;
    lease->outcome = outcome;
}

/* The last write is there, as `etag`. */
static void
end_held(struct g4_lease *lease, const char etag[G4_ETAG_MAX], uint64_t now_ms)
{
    lease->held = true;
    lease->body = lease->wanted;
    if (lease->body.epoch > lease->epoch_min)
        lease->epoch_min = lease->body.epoch;
    lease->since_ms = lease->sent_ms;
    memcpy(lease->etag, etag, sizeof(lease->etag));
    if (g4_lease_usable(lease, now_ms)) {
        end(lease, KVT_OK);
        return;
    }
    end(lease, kvt_error_set(&lease->error, KVT_TIMEOUT,
                             "%.80s: the answer came after %" PRIu64
                             " ms, too late for a lease of %" PRIu64 " ms",
                             lease->key, now_ms - lease->sent_ms, lease->ttl_ms));
}

/* The tombstone is there, as `etag`. */
static void
end_released(struct g4_lease *lease, const char etag[G4_ETAG_MAX])
{
    memcpy(lease->etag, etag, sizeof(lease->etag));
    lease->rests = etag[0] != '\0';
    end(lease, KVT_OK);
}

static void
end_lost(struct g4_lease *lease, const char *why)
{
    lease->held = false;
    lease->etag[0] = '\0';
    end(lease, kvt_error_set(&lease->error, KVT_PRECONDITION, "%.80s: lost: %s", lease->key, why));
}

static void
end_busy(struct g4_lease *lease)
{
    const struct g4_lease_seen *seen = &lease->seen;

    end(lease, kvt_error_set(&lease->error, KVT_BUSY,
                             "%.80s: %s%s, written %" PRIu64 " s ago by the server's clock",
                             lease->key, seen->malformed ? "no lock as it should be" : "held by ",
                             seen->malformed ? "" : seen->body.instance, seen->age_ms / 1000));
}

/* Was the write refused because of its condition, and nothing else wrong? */
static bool
was_refused(const struct g4_lease *lease)
{
    return lease->trouble.code == KVT_EXISTS || lease->trouble.code == KVT_PRECONDITION ||
           lease->trouble.code == KVT_NOTFOUND;
}

/* What is there is not known: say what the write was told, or else the look. */
static void
end_unknown(struct g4_lease *lease)
{
    lease->error = lease->request.error;
    if (lease->trouble.code != KVT_OK && !was_refused(lease))
        lease->error = lease->trouble;
    if (lease->error.code == KVT_OK || lease->error.code == KVT_NOTFOUND)
        (void)kvt_error_set(&lease->error, KVT_IO, "%.80s: what it holds cannot be told",
                            lease->key);
    end(lease, lease->error.code);
}

/* The store works, others were quicker each time. */
static void
end_contended(struct g4_lease *lease)
{
    if (was_refused(lease))
        end(lease, kvt_error_set(&lease->error, KVT_BUSY, "%.80s: others came in between %u times",
                                 lease->key, lease->tries));
    else
        end_unknown(lease);
}

/* ---- what was found ---- */

void
g4_lease_judge(struct g4_lease_seen *seen, const struct g4_request *request)
{
    uint64_t ttl_ms;

    memset(seen, 0, sizeof(*seen));
    memcpy(seen->etag, request->etag, sizeof(seen->etag));
    seen->aged = request->server_ms != 0 && request->modified_ms != 0;
    if (seen->aged && request->server_ms > request->modified_ms)
        seen->age_ms = request->server_ms - request->modified_ms;
    seen->malformed =
        request->status != KVT_OK ||
        g4_lock_body_parse(&seen->body, request->buffer, request->buffer_size, NULL) != KVT_OK;
    ttl_ms = g4_lock_body_ttl_ms(&seen->body);
    if (ttl_ms > G4_LEASE_TTL_MAX_MS)
        seen->malformed = true;
    if (seen->malformed) {
        memset(&seen->body, 0, sizeof(seen->body));
        ttl_ms = G4_LEASE_TTL_MAX_MS;
    }
    seen->expired = (seen->body.released && !seen->malformed) ||
                    (seen->aged && seen->age_ms > ttl_ms + G4_LEASE_GRACE_MS);
}

static bool
is_ours(const struct g4_lease *lease)
{
    const struct g4_lock_body *found = &lease->seen.body;

    return !lease->seen.malformed && found->nonce == lease->wanted.nonce &&
           strcmp(found->instance, lease->instance) == 0;
}

/* While acquiring: take what is free, and what was created or taken without our hearing of it. */
static void
acquire_found(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    const struct g4_lease_seen *seen = &lease->seen;

    if (is_ours(lease)) {
        /* One that was sent earlier may have arrived earlier: then its time is counted. */
        if (seen->body.writes != lease->wanted.writes)
            lease->sent_ms = lease->began_ms;
        lease->wanted = seen->body;
        end_held(lease, seen->etag, now_ms);
    } else if (!seen->expired) {
        end_busy(lease);
    } else if (lease->tries >= G4_LEASE_TRIES_MAX) {
        end_contended(lease);
    } else {
        lease->tries++;
        lease->wanted.epoch =
            (seen->body.epoch > lease->epoch_min ? seen->body.epoch : lease->epoch_min) + 1;
        set_times(lease, unix_ms);
        send_body(lease, G4_LEASE_TAKE, now_ms);
    }
}

static void
acquire_found_nothing(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    if (lease->tries >= G4_LEASE_TRIES_MAX || lease->trouble.code == KVT_DENIED) {
        end_contended(lease);
        return;
    }
    lease->tries++;
    lease->wanted.epoch = lease->epoch_min + 1;
    set_times(lease, unix_ms);
    send_body(lease, G4_LEASE_CREATE, now_ms);
}

/* Ours still: did the renewal arrive, or is it the write before? */
static void
renew_found(struct g4_lease *lease, uint64_t now_ms)
{
    if (lease->seen.malformed) {
        end_unknown(lease);
    } else if (!is_ours(lease) || lease->seen.body.released) {
        end_lost(lease, lease->seen.body.instance);
    } else if (lease->seen.body.writes == lease->wanted.writes) {
        end_held(lease, lease->seen.etag, now_ms);
    } else {
        /* A renewal that was given up may have arrived since: its ETag is the handle. */
        memcpy(lease->etag, lease->seen.etag, sizeof(lease->etag));
        lease->body = lease->seen.body;
        if (lease->tries >= G4_LEASE_TRIES_MAX || !was_refused(lease)) {
            end_unknown(lease);
            return;
        }
        lease->tries++;
        send_body(lease, G4_LEASE_RENEW, now_ms);
    }
}

static void
release_found(struct g4_lease *lease, uint64_t now_ms)
{
    if (lease->seen.malformed) {
        end_unknown(lease);
    } else if (!is_ours(lease)) {
        end_lost(lease, lease->seen.body.instance);
    } else if (lease->seen.body.released) {
        end_released(lease, lease->seen.etag);
    } else if (lease->tries >= G4_LEASE_TRIES_MAX) {
        end_unknown(lease);
    } else {
        lease->tries++;
        memcpy(lease->etag, lease->seen.etag, sizeof(lease->etag));
        lease->body = lease->seen.body;
        send_release(lease, now_ms);
    }
}

static void
found_nothing(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    switch (lease->verb) {
    case G4_LEASE_TO_ACQUIRE: acquire_found_nothing(lease, now_ms, unix_ms); break;
    case G4_LEASE_TO_RENEW: end_lost(lease, "the lock object is gone"); break;
    case G4_LEASE_TO_RELEASE: end(lease, KVT_OK); break;
    }
}

static void
looked(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    const struct g4_request *request = &lease->request;

    if (request->status == KVT_NOTFOUND) {
        found_nothing(lease, now_ms, unix_ms);
        return;
    }
    if (request->status != KVT_OK && request->status != KVT_RANGE) {
        end_unknown(lease);
        return;
    }
    g4_lease_judge(&lease->seen, request);
    switch (lease->verb) {
    case G4_LEASE_TO_ACQUIRE: acquire_found(lease, now_ms, unix_ms); break;
    case G4_LEASE_TO_RENEW: renew_found(lease, now_ms); break;
    case G4_LEASE_TO_RELEASE: release_found(lease, now_ms); break;
    }
}

/* ---- the three operations ---- */

static void
begin(struct g4_lease *lease, enum g4_lease_verb verb)
{
    assert(lease->step == G4_LEASE_IDLE);
    lease->verb = verb;
    lease->tries = 1;
    lease->rests = false;
    lease->out_there = false;
    lease->outcome = KVT_OK;
    memset(&lease->error, 0, sizeof(lease->error));
    memset(&lease->trouble, 0, sizeof(lease->trouble));
    memset(&lease->request, 0, sizeof(lease->request));
}

void
g4_lease_acquire(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms, uint64_t nonce)
{
    const bool rests = lease->rests;

    assert(!lease->held && nonce != 0);
    begin(lease, G4_LEASE_TO_ACQUIRE);
    memset(&lease->seen, 0, sizeof(lease->seen));
    if (rests)
        memcpy(lease->seen.etag, lease->etag, sizeof(lease->seen.etag));
    lease->etag[0] = '\0';
    memset(&lease->wanted, 0, sizeof(lease->wanted));
    memcpy(lease->wanted.instance, lease->instance, sizeof(lease->wanted.instance));
    lease->wanted.nonce = nonce;
    lease->wanted.epoch = lease->epoch_min + 1;
    set_times(lease, unix_ms);
    lease->began_ms = now_ms;
    if (!rests && lease->epoch_min > 0)
        send_look(lease); /* it is there already, or was */
    else
        send_body(lease, rests ? G4_LEASE_TAKE : G4_LEASE_CREATE, now_ms);
}

void
g4_lease_renew(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    begin(lease, G4_LEASE_TO_RENEW);
    if (!g4_lease_usable(lease, now_ms)) {
        /* It may still be there: release() may take it away. */
        lease->held = false;
        end(lease, kvt_error_set(&lease->error, KVT_PRECONDITION,
                                 "%.80s: lost: it was not renewed in time", lease->key));
        return;
    }
    lease->wanted = lease->body;
    set_times(lease, unix_ms);
    send_body(lease, G4_LEASE_RENEW, now_ms);
}

void
g4_lease_release(struct g4_lease *lease, uint64_t now_ms)
{
    begin(lease, G4_LEASE_TO_RELEASE);
    lease->held = false;
    lease->wanted = lease->body;
    if (lease->etag[0] == '\0')
        end_lost(lease, "it was never held");
    else
        send_release(lease, now_ms);
}

/* A write was answered. */
static void
wrote(struct g4_lease *lease, uint64_t now_ms)
{
    const struct g4_request *request = &lease->request;

    /* A store that does not say the ETag of what it stored is asked for it. */
    if (request->status != KVT_OK || request->etag[0] == '\0') {
        lease->trouble = request->error;
        lease->trouble.code = request->status;
        send_look(lease);
    } else if (lease->verb == G4_LEASE_TO_RELEASE) {
        end_released(lease, request->etag);
    } else {
        end_held(lease, request->etag, now_ms);
    }
}

struct g4_request *
g4_lease_next(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms)
{
    if (lease->out_there && lease->step == G4_LEASE_LOOK)
        looked(lease, now_ms, unix_ms);
    else if (lease->out_there && lease->step != G4_LEASE_IDLE)
        wrote(lease, now_ms);
    if (lease->step == G4_LEASE_IDLE)
        return NULL;
    lease->out_there = true;
    lease->request.deadline_ms = now_ms + stop_after_ms(lease);
    return &lease->request;
}

/* ---- time ---- */

uint64_t
g4_lease_renew_ms(const struct g4_lease *lease)
{
    return lease->held ? lease->since_ms + lease->ttl_ms / RENEW_PART : 0;
}

uint64_t
g4_lease_stop_ms(const struct g4_lease *lease)
{
    return lease->held ? lease->since_ms + stop_after_ms(lease) : 0;
}

bool
g4_lease_usable(const struct g4_lease *lease, uint64_t now_ms)
{
    return lease->held && now_ms < g4_lease_stop_ms(lease);
}
