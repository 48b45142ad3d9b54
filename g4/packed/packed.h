/*
 * g4/packed/packed.h -- where the blocks of a packed namespace are.
 *
 * Why: where a block is changes under its readers: it is packed, moved to another segment, deleted
 * and put again, by any gateway.  What was loaded of the manifests stays good for as long as the
 * segments it names are there; one that is gone says that there is a newer one.
 *
 * The rule for readers is that of g4/packed/packed_store.h, the one who uses it.
 *
 * Ownership: the store is borrowed for the life of it.
 * Threads:   any; the store is never waited for under a lock.
 * Limits:    memory of two manifests while one takes the place of the other; G4_PACKED_NAME bytes a
 *            packed block more once a manifest is listed.
 */
#ifndef G4_PACKED_PACKED_H
#define G4_PACKED_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/packed/manifest_log.h"
#include "kvtier/error.h"

#define G4_PACKED_TRIES 4  /* manifests that may come while one block is read */
#define G4_PACKED_NAME  40 /* "31/16777215:<base58>:<base58>", and which block that is */

struct g4_packed;

/* Where a block is, as one manifest has it. */
struct g4_packed_place {
    struct g4_manifest_block block;
    struct g4_segment_name segment;
    uint64_t number; /* of the manifest that says so */
};

/* What the manifest that is loaded says of all blocks together. */
struct g4_packed_totals {
    uint64_t number;  /* 0: there is none */
    uint64_t time_ms; /* Unix, when it was made */
    uint64_t blocks;  /* pending ones too */
    uint64_t pending;
    uint64_t segments;
    uint64_t live_bytes;
    uint64_t segment_bytes;
};

/** Nothing is loaded yet.  KVT_OK, KVT_NOMEM, or KVT_INVALID: a namespace that cannot be packed. */
KVT_NODISCARD enum kvt_err g4_packed_new(struct g4_packed **out, struct g4_store *store,
                                         const char *namespace_, uint64_t request_ms);
void g4_packed_free(struct g4_packed *packed);

/** Load the newest manifest when it is not loaded: one LIST, and a GET when there is one. */
KVT_NODISCARD enum kvt_err g4_packed_refresh(struct g4_packed *packed, struct kvt_error *err);

/** Milliseconds since the last look for a newer manifest began; UINT64_MAX: there was none, or
 *  g4_packed_doubt() came after it began. */
uint64_t g4_packed_age_ms(struct g4_packed *packed);

/** There is a newer manifest: somebody here made it. */
void g4_packed_doubt(struct g4_packed *packed);

/** The block in the manifest that is loaded, packed or pending.  False: it is not there. */
bool g4_packed_find(struct g4_packed *packed, const struct kvt_key *key,
                    struct g4_packed_place *place);

void g4_packed_totals(struct g4_packed *packed, struct g4_packed_totals *totals);

/**
 * Packed blocks by key, as a listing shows objects.
 *
 * @param prefix      of the keys
 * @param after       only keys behind it; "" = all
 * @param until       only keys up to it; NULL = all
 * @param[out] rows   room for `capacity`
 * @param[out] count  rows given; fewer than `capacity`: nothing follows
 * @return KVT_OK or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err g4_packed_list(struct g4_packed *packed, const char *prefix,
                                          const char *after, const char *until,
                                          struct g4_listed *rows, size_t capacity, size_t *count);

/** Is it in the manifest that is loaded at all, packed or pending?  A deletion asks that. */
bool g4_packed_knows(struct g4_packed *packed, const struct kvt_key *key);

#endif /* G4_PACKED_PACKED_H */
