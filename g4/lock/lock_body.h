/*
 * g4/lock/lock_body.h -- what a lock object says, as JSON.
 *
 * Why: KVBM's leaders and ours take the same locks: the members instance_id, acquired_at and
 * deadline are theirs (RFC 3339 times by the holder's clock); nonce, epoch, writes and released are
 * ours, and theirs to ignore.  `deadline - acquired_at` is how long the lease lasts; when it began
 * is for the server's clock to say.
 *
 * Limits:    G4_LOCK_BODY_MAX bytes; years 1970 to 9999; epochs up to G4_LOCK_EPOCH_MAX.
 */
#ifndef G4_LOCK_LOCK_BODY_H
#define G4_LOCK_LOCK_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define G4_LOCK_BODY_MAX  1024
#define G4_LOCK_EPOCH_MAX ((UINT64_C(1) << 62) - 1)

struct g4_lock_body {
    char instance[KVT_NAME_MAX];
    uint64_t acquired_ms; /* Unix, the holder's clock */
    uint64_t deadline_ms; /* the same clock */
    uint64_t nonce;       /* of one acquisition; 0 in a lock of KVBM */
    uint64_t epoch;       /* grows with each holder; 0 in a lock of KVBM */
    uint64_t writes;      /* of this holder, so that no two bodies, and no two ETags, are equal */
    bool released;        /* a tombstone: free for whoever comes */
};

/** How long the lease lasts, in milliseconds; 0 when the deadline does not lie behind the start. */
uint64_t g4_lock_body_ttl_ms(const struct g4_lock_body *body);

/** Writes JSON without NUL; `*size` bytes.  KVT_OK, or KVT_RANGE when a time is beyond 9999. */
KVT_NODISCARD enum kvt_err g4_lock_body_format(const struct g4_lock_body *body,
                                               char out[G4_LOCK_BODY_MAX], size_t *size);

/**
 * Members that are not known are stepped over; known ones may come once.
 *
 * @param[out] body  zero on failure
 * @return KVT_OK, KVT_INVALID (no JSON object, a member missing or of another type) or KVT_RANGE
 *         (more than G4_LOCK_BODY_MAX bytes)
 */
KVT_NODISCARD enum kvt_err g4_lock_body_parse(struct g4_lock_body *body, const char *text,
                                              size_t size, struct kvt_error *err);

#endif /* G4_LOCK_LOCK_BODY_H */
