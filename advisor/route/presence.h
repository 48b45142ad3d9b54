/*
 * advisor/route/presence.h -- who the operator and a discovery bucket say is there.
 *
 * Why: a router must know of workers that hold nothing yet, and be told at once when one leaves.
 * Workers are named in the settings, or each writes a key into a bucket of NATS and renews it while
 * it lives; those known by their events the engine tells itself (advisor/round/round_workers.c).
 *
 * In the bucket a key is a worker's name.  Its value is empty, or a JSON object that may say
 * another "name", the "instance_id" that a Dynamo worker's events have, and "dp_ranks": how many,
 * or which.  A key of Dynamo's own records, .../<namespace>/<component>/generate/<instance>, is
 * that instance; other endpoints of it are passed over.  A worker is gone with its key: when it is
 * deleted, purged or grows too old; of several keys that name it, with the last.  A value that
 * cannot be read changes nothing.  A bucket that is deleted says nothing of anybody; when it is
 * made anew, it forgets those who are not in it.
 *
 * Ownership: borrows the set of workers and the bus; owns its thread.
 * Threads:   one of its own while there is a bucket; the calls below: any.
 * Limits:    ADVISOR_PRESENCE_RANKS_MAX ranks of a worker; as wire/nats/kv_watch.h and
 *            router/workers.h.
 */
#ifndef ADVISOR_ROUTE_PRESENCE_H
#define ADVISOR_ROUTE_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "wire/nats/bus.h"
#include "wire/nats/kv_watch.h"

#include "router/workers.h"

#define ADVISOR_PRESENCE_RANKS_MAX 1024

/* A worker as it was named. */
struct advisor_presence_entry {
    char name[KVT_NAME_MAX];
    uint32_t ranks[ADVISOR_PRESENCE_RANKS_MAX];
    uint32_t rank_count;
};

struct kvt_metrics;

struct advisor_presence;

struct advisor_presence_options {
    struct router_workers *workers;
    struct wire_bus *bus;
    const char *configured;      /* "name[:ranks],..."; NULL or "": none */
    const char *bucket;          /* NULL or "": none */
    struct kvt_metrics *metrics; /* of the bucket; NULL: none */
};

/** KVT_OK, KVT_INVALID (the settings; `err` says where), KVT_FULL, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_presence_open(struct advisor_presence **out,
                                                 const struct advisor_presence_options *options,
                                                 struct kvt_error *err);
/** NULL is allowed.  Nobody leaves. */
void advisor_presence_close(struct advisor_presence *presence);

struct advisor_presence_view {
    bool has_bucket;
    struct wire_kv_watch_state bucket;
    uint64_t configured; /* workers, a rank each */
    uint64_t odd;        /* keys and values that could not be read, so far */
    uint64_t refused;    /* workers there was no room for, so far */
};

void advisor_presence_view(struct advisor_presence *presence, struct advisor_presence_view *view);

/* ---- what is read (presence_read.c) ---- */

/** The worker that begins at `*at` of a list, which then is behind it.  KVT_OK; KVT_NOTFOUND: that
 *  was all; KVT_INVALID. */
KVT_NODISCARD enum kvt_err advisor_presence_read_list(const char *list, size_t *at,
                                                      struct advisor_presence_entry *entry,
                                                      struct kvt_error *err);

/** The worker that a key of the bucket is.  KVT_OK; KVT_NOTFOUND: none, and that is as it should
 *  be; KVT_INVALID, KVT_RANGE, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_presence_read_key(const char *key, const void *value,
                                                     size_t size,
                                                     struct advisor_presence_entry *entry,
                                                     struct kvt_error *err);

#endif /* ADVISOR_ROUTE_PRESENCE_H */
