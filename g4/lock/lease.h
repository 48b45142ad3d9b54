/*
 * g4/lock/lease.h -- one client's side of one lock object: the protocol without store and clock.
 *
 * Why: what makes a lock safe are the rare orders of events (an answer that is lost, a process that
 * sleeps past its lease, two who take over at once), and only a protocol that does no I/O can be
 * driven through all of them.  It says which request comes next and is told how it ended.
 *
 *     g4_lease_acquire(&lease, now_ms, unix_ms, nonce);
 *     while ((request = g4_lease_next(&lease, now_ms, unix_ms)) != NULL)
 *         ... perform *request ...
 *     lease.outcome is KVT_OK and g4_lease_usable(&lease, now_ms), or why not
 *
 * The rules: create with If-None-Match, change with If-Match; judge the age of others by the
 * server's clock alone (Date - Last-Modified of one answer); after any answer but a success read
 * what is there; count the own time from before the request; release by a tombstone.  DELETE
 * If-Match is not used: MinIO ignores it, versitygw checks it and deletes later, so that one which
 * comes late may take away the lock of who took over meanwhile.
 *
 * Who takes a lock again begins with what he knows: the ETag of his own tombstone, so that one
 * request takes it where nobody came in between; else that the object is there.
 *
 * Ownership: the caller owns the struct and must not move it while a request is out: request and
 *            bodies lie in it.
 * Threads:   one owner.
 * Limits:    leases of G4_LEASE_TTL_MIN_MS to G4_LEASE_TTL_MAX_MS; one that says it is longer
 *            counts as malformed.  A malformed lock is held until it is older than the longest
 *            lease.
 */
#ifndef G4_LOCK_LEASE_H
#define G4_LOCK_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/lock/lock_body.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"

#define G4_LEASE_TTL_MIN_MS 1000
#define G4_LEASE_TTL_MAX_MS 3600000
#define G4_LEASE_GRACE_MS   2000 /* both of the server's readings are whole seconds */
#define G4_LEASE_TRIES_MAX  3    /* of one operation, when others come in between */

enum g4_lease_step {
    G4_LEASE_IDLE,
    G4_LEASE_CREATE,  /* PUT If-None-Match: * */
    G4_LEASE_LOOK,    /* GET: whose is it, and how old? */
    G4_LEASE_TAKE,    /* PUT If-Match: what was seen */
    G4_LEASE_RENEW,   /* PUT If-Match: own */
    G4_LEASE_RELEASE, /* PUT If-Match: own, a tombstone */
};

enum g4_lease_verb { G4_LEASE_TO_ACQUIRE, G4_LEASE_TO_RENEW, G4_LEASE_TO_RELEASE };

/* What a lock object was when it was read. */
struct g4_lease_seen {
    struct g4_lock_body body; /* zero when malformed */
    bool malformed;
    bool expired;    /* or released */
    bool aged;       /* the server gave both readings, so that age_ms says something */
    uint64_t age_ms; /* since the last write, by the server's clock */
    char etag[G4_ETAG_MAX];
};

struct g4_lease {
    char key[KVT_KEY_MAX];
    char instance[KVT_NAME_MAX];
    uint64_t ttl_ms;
    uint64_t epoch_min; /* the option, or the last own one if that is larger */

    bool held;                /* until released or lost */
    bool rests;               /* released, and the tombstone's ETag is known */
    char etag[G4_ETAG_MAX];   /* of the own last write known to be there; "" once another's is */
    struct g4_lock_body body; /* the same */
    uint64_t since_ms;        /* monotonic, before the request of that write */
    uint64_t writes;          /* bodies made so far */

    /* The operation under way. */
    enum g4_lease_verb verb;
    enum g4_lease_step step;
    unsigned tries;
    bool out_there;             /* the request was handed out */
    uint64_t began_ms;          /* before the first write of the operation */
    uint64_t sent_ms;           /* before the write that was sent last */
    struct g4_lock_body wanted; /* its body */
    struct g4_lease_seen seen;  /* what the last look found */
    struct kvt_error trouble;   /* of the write that did not succeed */
    struct g4_request request;
    char out[G4_LOCK_BODY_MAX];
    char in[G4_LOCK_BODY_MAX];

    enum kvt_err outcome;
    struct kvt_error error;
};

struct g4_lease_options {
    const char *key;      /* of the lock object, with ".lock" */
    const char *instance; /* who we are, for people and for KVBM */
    uint64_t ttl_ms;
    uint64_t epoch_min; /* the epoch is larger than this one: what the fenced thing has seen */
};

/** KVT_OK, KVT_INVALID or KVT_RANGE (key, name or ttl). */
KVT_NODISCARD enum kvt_err g4_lease_init(struct g4_lease *lease,
                                         const struct g4_lease_options *options,
                                         struct kvt_error *err);

/* Begin; then g4_lease_next() until NULL.  `outcome`:
 * acquire  OK, BUSY (held by seen.body.instance), TIMEOUT (won, but too late to use), or why the
 *          store could not be asked.  `nonce` is random and never used twice.
 * renew    OK, PRECONDITION (lost for good), or why it is not known: the lease goes on until
 *          g4_lease_stop_ms().
 * release  OK (free now), PRECONDITION (another's already), or why it is not known: then it ends by
 *          itself.  `held` is false in any case. */
void g4_lease_acquire(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms, uint64_t nonce);
void g4_lease_renew(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms);
void g4_lease_release(struct g4_lease *lease, uint64_t now_ms);

/** The request to perform, or NULL: done.  Between two calls the request was performed, and its
 *  status, ETag and times are those of the store. */
struct g4_request *g4_lease_next(struct g4_lease *lease, uint64_t now_ms, uint64_t unix_ms);

/** When the next renewal is due, and when work must have stopped (monotonic); 0 when not held. */
uint64_t g4_lease_renew_ms(const struct g4_lease *lease);
uint64_t g4_lease_stop_ms(const struct g4_lease *lease);

/** Held, and before g4_lease_stop_ms(). */
bool g4_lease_usable(const struct g4_lease *lease, uint64_t now_ms);

/** What a GET of a lock object found, which ended OK or RANGE. */
void g4_lease_judge(struct g4_lease_seen *seen, const struct g4_request *request);

#endif /* G4_LOCK_LEASE_H */
