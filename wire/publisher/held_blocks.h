/*
 * wire/publisher/held_blocks.h -- what a publisher holds: (location, sequence hash) -> the Store
 * event of it.
 *
 * Why: a dump walks everything while blocks come and go, so a block must stay where the walk will
 * look for it.  Each has a slot that it keeps; growing moves none of them.
 *
 * Ownership: the holding owns its memory; events are copied.
 * Threads:   none; its user locks.
 * Limits:    `blocks_max` entries, given at creation; memory grows with what is held and is kept.
 */
#ifndef WIRE_PUBLISHER_HELD_BLOCKS_H
#define WIRE_PUBLISHER_HELD_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/event.h"

#define WIRE_HELD_BLOCKS_BLOCKS_MAX (UINT32_C(1) << 30)

struct wire_held_blocks;

KVT_NODISCARD enum kvt_err wire_held_blocks_new(struct wire_held_blocks **out, uint32_t blocks_max);

/** NULL is allowed. */
void wire_held_blocks_free(struct wire_held_blocks *holding);

/** Make room for `count` more, so that as many calls of put() succeed.  KVT_OK, KVT_FULL or
 *  KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_held_blocks_reserve(struct wire_held_blocks *holding, size_t count);

/** NULL when it is not there; valid until the next change. */
struct kvt_event *wire_held_blocks_find(struct wire_held_blocks *holding, uint32_t location,
                                        uint64_t hash);

/** Must not be there, and have been reserved (asserted). */
void wire_held_blocks_put(struct wire_held_blocks *holding, const struct kvt_event *event);

/** Must be there (asserted). */
void wire_held_blocks_remove(struct wire_held_blocks *holding, uint32_t location, uint64_t hash);

/** Everything at a location. */
void wire_held_blocks_clear(struct wire_held_blocks *holding, uint32_t location);

uint64_t wire_held_blocks_count(const struct wire_held_blocks *holding);

/** A page of a walk, as wire_event_publisher_snapshot_fn has it. */
size_t wire_held_blocks_walk(const struct wire_held_blocks *holding, uint64_t *cursor,
                             struct kvt_event *events, size_t capacity);

#endif /* WIRE_PUBLISHER_HELD_BLOCKS_H */
