/*
 * wire/nats/kv_watch.h -- following a key-value bucket of NATS: what is put, and what is not there
 * any more.
 *
 * Why: a bucket is where programs of all kinds say that they are there, and a key that goes is the
 * first word of one that went.  What a bucket does by itself it does not tell: keys that grow too
 * old vanish without a message, as do those that an operator removes from the stream beneath.  And
 * who is away from it for a while must not take that for the end of everybody.
 *
 * The watch lists the bucket, then follows it, and lists it again whenever it may have missed
 * something: the connection came back, a message is missing, the bucket is another one; and now and
 * then.  Only what changed is told:
 *
 *   PUT        a key is new, or has another revision
 *   GONE       it was deleted, purged, grew too old, or is missing from a whole listing
 *   FORGOTTEN  the bucket was made anew without it; nobody said anything of the key itself
 *
 * While there is no server or no bucket, nothing is told.  Nobody can renew a key while the server
 * is away: each has one age more from its return on, once a revision.  A key is looked up the
 * moment its age is over, so its end is not told later than the server would know it.
 *
 * Ownership: the watch owns its list of keys; bytes given to the callback live for the call.
 * Threads:   one; the callback runs inside wire_kv_watch_poll() and must not call the watch.
 * Limits:    WIRE_KV_WATCH_KEYS_MAX keys of WIRE_KV_WATCH_KEY_MAX bytes; others are passed over
 *            and counted.
 */
#ifndef WIRE_NATS_KV_WATCH_H
#define WIRE_NATS_KV_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "wire/nats/bus.h"

#define WIRE_KV_WATCH_KEYS_MAX   65536
#define WIRE_KV_WATCH_KEY_MAX    256 /* bytes with the final NUL */
#define WIRE_KV_WATCH_BUCKET_MAX 64  /* as well */

enum wire_kv_watch_what { WIRE_KV_WATCH_PUT, WIRE_KV_WATCH_GONE, WIRE_KV_WATCH_FORGOTTEN };

struct wire_kv_watch_news {
    enum wire_kv_watch_what what;
    const char *key;
    uint64_t revision; /* PUT */
    const void *value; /* PUT; not terminated */
    size_t size;
};

typedef void wire_kv_watch_fn(void *arg, const struct wire_kv_watch_news *news);

struct wire_kv_watch_state {
    bool there;       /* the bucket was there when last looked at */
    bool listed;      /* all of it was told, and it is followed since */
    uint64_t keys;    /* known */
    uint64_t lists;   /* whole listings so far */
    uint64_t over;    /* keys passed over for the limits, so far */
    uint64_t max_age; /* ms a key lives; 0: for ever */
};

struct wire_kv_watch;

/** Is it a name a bucket can have: letters, digits, - and _, below WIRE_KV_WATCH_BUCKET_MAX? */
bool wire_kv_watch_bucket_ok(const char *bucket);

/** Needs neither server nor bucket yet.  KVT_OK, KVT_INVALID (the name) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_kv_watch_open(struct wire_kv_watch **out, struct wire_bus *bus,
                                              const char *bucket, wire_kv_watch_fn *callback,
                                              void *arg);
/** NULL is allowed; nothing is told. */
void wire_kv_watch_close(struct wire_kv_watch *kv);

/** Tell what changed, waiting up to `wait_ms` for the first.
 *
 *  @return KVT_OK; KVT_NOTFOUND (no such bucket), KVT_UNAVAILABLE (no server; both come sooner than
 *          `wait_ms`, but never at once); KVT_NOMEM: it is listed again */
KVT_NODISCARD enum kvt_err wire_kv_watch_poll(struct wire_kv_watch *kv, uint64_t wait_ms);

struct wire_kv_watch_state wire_kv_watch_state(const struct wire_kv_watch *kv);

#endif /* WIRE_NATS_KV_WATCH_H */
