/*
 * wire/nats/kv_watch_internal.h -- the keys of a bucket that a watch knows, for
 * wire/nats/kv_watch.c alone.
 *
 * Why: what changed is what differs from what is known.
 * Ownership: the list owns its keys; wire_kv_watch_keys_clear() ends all.
 * Threads:   none; one owner.
 * Limits:    WIRE_KV_WATCH_KEYS_MAX keys of WIRE_KV_WATCH_KEY_MAX bytes.
 */
#ifndef WIRE_NATS_KV_WATCH_INTERNAL_H
#define WIRE_NATS_KV_WATCH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define WIRE_KV_WATCH_KEYS_HEADS 4096

struct wire_kv_watch_key {
    struct wire_kv_watch_key *next; /* of the same head */
    uint64_t revision;              /* 0: whatever comes is new */
    uint64_t due_ms;                /* monotonic: its age may be over then; 0: it has none */
    uint64_t over_ms;               /* ... and is for certain */
    uint32_t listing;               /* number of the last one it was in */
    bool excused;                   /* this revision has got one age more already */
    char name[];
};

/* All 0: none. */
struct wire_kv_watch_keys {
    struct wire_kv_watch_key *heads[WIRE_KV_WATCH_KEYS_HEADS];
    size_t count;
};

struct wire_kv_watch_key *wire_kv_watch_keys_find(const struct wire_kv_watch_keys *keys,
                                                  const char *name);
/** One that is not there yet.  KVT_OK, KVT_RANGE (its length), KVT_FULL, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_kv_watch_keys_add(struct wire_kv_watch_keys *keys, const char *name,
                                                  struct wire_kv_watch_key **out);
void wire_kv_watch_keys_remove(struct wire_kv_watch_keys *keys, struct wire_kv_watch_key *key);
void wire_kv_watch_keys_forget_revisions(struct wire_kv_watch_keys *keys);
void wire_kv_watch_keys_clear(struct wire_kv_watch_keys *keys);

/* All of them, in no order; the one that was given last may be removed.  All 0 at first. */
struct wire_kv_watch_walk {
    struct wire_kv_watch_key *next;
    size_t head;
};
/** NULL: that was all. */
struct wire_kv_watch_key *wire_kv_watch_keys_walk(const struct wire_kv_watch_keys *keys,
                                                  struct wire_kv_watch_walk *walk);

#endif /* WIRE_NATS_KV_WATCH_INTERNAL_H */
