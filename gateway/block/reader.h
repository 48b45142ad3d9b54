/*
 * gateway/block/reader.h -- a hot block on its way out, piece by piece.
 *
 * Why: a body that is checked as a whole must be in memory as a whole, for as long as its client
 * takes.  A stream holds one piece, and each piece is checked before its first byte goes out.  If
 * a piece turns out bad half-way, the rest comes from the bucket: it is the same block, because the
 * pieces' crcs make the crc that the catalog has.  If it does not come from there either, the
 * stream fails, and the client sees that its answer is cut short.
 *
 * Ownership: owns its file and memory; the context and the key outlive it.
 * Threads:   one at a time; only gateway_reader_open(), gateway_reader_seal() and
 *            gateway_reader_fetch() wait for disk and bucket.
 * Limits:    pieces of GATEWAY_READER_PIECE_MAX; memory beyond a piece is the budget's, or the
 *            bound of gateway/tier/hot_memory.h.
 */
#ifndef GATEWAY_BLOCK_READER_H
#define GATEWAY_BLOCK_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/block/get.h"
#include "gateway/tier/budget.h"

#define GATEWAY_READER_PIECE_MAX (1u << 20)

struct gateway_reader;

/**
 * @param item    found (gateway_get_find()); its key is borrowed, the rest copied
 * @param budget  for the piece held, and for a whole body when it comes to that
 * @return KVT_OK; KVT_UNSUPPORTED: read it whole (gateway_get_bodies()), which also tells why;
 *         KVT_AGAIN: the budget has no room; or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err gateway_reader_open(struct gateway_reader **out,
                                               struct gateway_context *context,
                                               const struct gateway_item *item,
                                               struct gateway_budget *budget);

/**
 * The same without waiting for anything, and then the first bytes are there: all of the body in
 * sealed memory if `seal` allows it, else its first piece.
 *
 * @return KVT_OK, or KVT_AGAIN: gateway_reader_open() knows more
 */
KVT_NODISCARD enum kvt_err gateway_reader_peek(struct gateway_reader **out,
                                               struct gateway_context *context,
                                               const struct gateway_item *item,
                                               struct gateway_budget *budget, bool seal);

/** NULL is allowed. */
void gateway_reader_close(struct gateway_reader *reader);

/** How much room makes gateway_reader_read() give a piece at once. */
size_t gateway_reader_piece(const struct gateway_reader *reader);

/**
 * Copy checked bytes from `at` on, as many as come easily, at least one.
 *
 * @param[out] got  bytes copied; 0 unless KVT_OK
 * @return KVT_OK; KVT_AGAIN: let gateway_reader_fetch() come first; else the stream has failed
 */
KVT_NODISCARD enum kvt_err gateway_reader_read(struct gateway_reader *stream, uint64_t at,
                                               void *buffer, size_t size, size_t *got);

/** Make `at` readable, waiting for the disk, and for the bucket where the hot copy is bad.  Not
 *  KVT_OK: the stream has failed. */
KVT_NODISCARD enum kvt_err gateway_reader_fetch(struct gateway_reader *stream, uint64_t at);

/**
 * Before anything is read: let the body come out of sealed memory (gateway/tier/hot_memory.h), if
 * it is there or may be; else it comes in pieces.  Right where most of it is asked for, and the
 * kernel can send it as it is.
 */
void gateway_reader_seal(struct gateway_reader *reader);

/**
 * All of the body in sealed memory, to be sent from there before the reader is closed.
 *
 * @return a descriptor, the caller's to close from now on, or -1: it comes in pieces
 */
int gateway_reader_take_sealed(struct gateway_reader *reader);

/** These bytes, if all of them are in memory and checked; else NULL.  Valid until the next call. */
const void *gateway_reader_held(const struct gateway_reader *reader, uint64_t at, uint64_t size);

#endif /* GATEWAY_BLOCK_READER_H */
