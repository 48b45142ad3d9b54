/*
 * engine/connector/connector_meta.h -- what scheduler and ranks of an inference engine say to each
 * other about blocks.
 *
 * Why: the two sides of a connector (engine/connector/connector.h,
 * engine/connector/forward_hook.h) may be different processes of an engine that carries these
 * bytes for us, and may mix up, cut or repeat them.
 *
 * Two messages, each a msgpack array of positive integers and arrays with a crc32c of it behind it
 * (4 bytes, little-endian).  A pair is two numbers: source and target block.
 *
 *   meta   [version, iteration, [fence ...], [[id, kind, [source, target, ...]] ...]]
 *   heard  [version, [[id, [at, code, ...]] ...]]
 *
 * A *transfer* is blocks of one request that go one way in one iteration; its id is never used
 * again.  A fence is the id of a transfer that must have ended at the rank before the iteration
 * begins.  heard names transfers that have ended at a rank, and of each the pairs that failed, by
 * place, with a number of enum kvt_err.
 *
 * Ownership: what decode fills is the caller's until release, also after a failure.
 * Limits:    the names below.  More, or anything that is not as said, is refused as a whole.
 */
#ifndef ENGINE_CONNECTOR_CONNECTOR_META_H
#define ENGINE_CONNECTOR_CONNECTOR_META_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define ENGINE_META_VERSION       1
#define ENGINE_META_MAX           (4u << 20) /* bytes of either message */
#define ENGINE_META_TRANSFERS_MAX 16384
#define ENGINE_META_PAIRS_MAX     262144 /* of all transfers of a message */

enum engine_transfer {
    ENGINE_TRANSFER_LOAD = 1, /* G2 to G1, before the layers of its iteration are computed */
    ENGINE_TRANSFER_FETCH,    /* G2 to G1, between iterations */
    ENGINE_TRANSFER_SAVE,     /* G1 to G2 */
    ENGINE_TRANSFER_END
};

struct engine_pair {
    uint32_t source;
    uint32_t target;
};

struct engine_meta_transfer {
    uint64_t id;
    enum engine_transfer kind;
    uint32_t first; /* of `pairs` */
    uint32_t count;
};

struct engine_meta {
    uint64_t iteration;
    uint64_t *fences;
    size_t fence_count, fence_capacity;
    struct engine_meta_transfer *transfers;
    size_t transfer_count, transfer_capacity;
    struct engine_pair *pairs; /* each one belongs to one transfer, in their order */
    size_t pair_count, pair_capacity;
};

/* All zero is an empty one. */

/** KVT_OK, KVT_RANGE (as many as there may be) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_meta_fence(struct engine_meta *meta, uint64_t id);
/** Begin another transfer; the pairs that are added next are its. */
KVT_NODISCARD enum kvt_err engine_meta_transfer(struct engine_meta *meta, uint64_t id,
                                                enum engine_transfer kind);
KVT_NODISCARD enum kvt_err engine_meta_pair(struct engine_meta *meta, uint32_t source,
                                            uint32_t target);

/** Append the message to `out`.  KVT_OK; KVT_RANGE, KVT_NOMEM: nothing was appended. */
KVT_NODISCARD enum kvt_err engine_meta_encode(const struct engine_meta *meta,
                                              struct kvt_buffer *out);
/** KVT_OK; KVT_CORRUPT (the checksum); KVT_UNSUPPORTED (another version); KVT_INVALID; KVT_RANGE;
 *  KVT_NOMEM.  `meta` is empty on failure. */
KVT_NODISCARD enum kvt_err engine_meta_decode(struct engine_meta *meta, const uint8_t *bytes,
                                              size_t size, struct kvt_error *err);
/** Empty it. */
void engine_meta_release(struct engine_meta *meta);

struct engine_meta_report_failure {
    uint32_t at;      /* place of the pair in its transfer */
    enum kvt_err why; /* not KVT_OK */
};

struct engine_meta_report_transfer {
    uint64_t id;
    uint32_t first; /* of `failures` */
    uint32_t count;
};

struct engine_meta_report {
    struct engine_meta_report_transfer *transfers;
    size_t transfer_count, transfer_capacity;
    struct engine_meta_report_failure *failures;
    size_t failure_count, failure_capacity;
};

/** As the calls of the same name above. */
KVT_NODISCARD enum kvt_err engine_meta_report_transfer(struct engine_meta_report *report,
                                                       uint64_t id);
KVT_NODISCARD enum kvt_err engine_meta_report_failure(struct engine_meta_report *report,
                                                      uint32_t at, enum kvt_err why);
KVT_NODISCARD enum kvt_err engine_meta_report_encode(const struct engine_meta_report *report,
                                                     struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err engine_meta_report_decode(struct engine_meta_report *report,
                                                     const uint8_t *bytes, size_t size,
                                                     struct kvt_error *err);
void engine_meta_report_release(struct engine_meta_report *report);

#endif /* ENGINE_CONNECTOR_CONNECTOR_META_H */
