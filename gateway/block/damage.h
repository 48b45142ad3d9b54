/*
 * gateway/block/damage.h -- is a copy bad?  Judging it, and keeping the evidence.
 *
 * Why: what a read or a HEAD showed is judged in one way everywhere.  What follows for the row and
 * the object is in gateway/block/repair.h.
 *
 * Limits:    as gateway/tier/quarantine.h.
 */
#ifndef GATEWAY_BLOCK_DAMAGE_H
#define GATEWAY_BLOCK_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"
#include "g4/object/kind.h"
#include "gateway/tier/gateway_context.h"

/** Does what was bad come again?  Byte for byte, under the same ETag; or, where `seen` was too
 *  large to be read, again more than `expected` bytes. */
bool gateway_damage_comes_again(struct gateway_context *context, const char *key,
                                const struct g4_request *seen, const void *body, size_t size,
                                uint64_t expected);

/** Writer of tombstones. */
#define GATEWAY_TOMBSTONE G4_KIND_TOMBSTONE_WRITER

/** Does this HEAD or GET answer show a tombstone? */
bool gateway_damage_is_tombstone(const struct g4_request *seen);

/** Keep the evidence and count it. */
void gateway_damage_keep(struct gateway_context *context, const char *key, unsigned tier,
                         const void *body, size_t size, const char *reason);

/** Does a HEAD or GET answer show this very block, whole? */
bool gateway_damage_shows(const struct g4_request *seen, uint64_t length, uint32_t crc32c,
                          uint64_t fingerprint);

/** Is it an object without our metadata that is not empty?  KVBM writes such. */
bool gateway_damage_is_bare(const struct g4_request *seen);

/** Is it the object without our metadata whose bytes the row knows? */
bool gateway_damage_is_known_bare(const struct g4_request *seen,
                                  const struct gateway_record *record);

/** Does a HEAD or GET answer show the block of this row: by its metadata, or as the object without
 *  our metadata that was compared when the row was made? */
bool gateway_damage_fits(const struct g4_request *seen, const struct gateway_record *record);

/** Did a read show what lies there?  One that failed half-way tells nothing about the object. */
bool gateway_damage_judged(enum kvt_err status);

#endif /* GATEWAY_BLOCK_DAMAGE_H */
