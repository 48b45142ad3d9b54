/*
 * g4/object/receive_buffer.h -- memory for a body that comes from a peer.
 *
 * Why: a peer says how long its body is and then sends what it likes.  One place knows how much was
 * allocated, and no byte is copied beyond it, whatever was said.
 *
 * Ownership: memory that it allocated belongs to it until g4_receive_buffer_take(); the caller's
 *            memory stays the caller's.
 * Threads:   none; one owner.
 * Limits:    `limit` bytes, given at init.
 */
#ifndef G4_OBJECT_RECEIVE_BUFFER_H
#define G4_OBJECT_RECEIVE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct g4_receive_buffer {
    uint8_t *bytes;
    size_t size;     /* received */
    size_t capacity; /* of `bytes` */
    size_t limit;
    bool own;
};

/** Into `memory`, which has room for `limit` bytes; NULL: it allocates, up to `limit`. */
void g4_receive_buffer_init(struct g4_receive_buffer *buffer, void *memory, size_t limit);

/** The peer says that `size` bytes come: make room for them at once.  KVT_OK, KVT_RANGE (beyond the
 *  limit) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err g4_receive_buffer_expect(struct g4_receive_buffer *buffer,
                                                    uint64_t size);

/**
 * Copy what came; the copy, or NULL.
 *
 * @param rc  KVT_OK, KVT_RANGE (beyond the limit: nothing was copied) or KVT_NOMEM
 */
const uint8_t *g4_receive_buffer_append(struct g4_receive_buffer *buffer, const void *bytes,
                                        size_t size, enum kvt_err *rc);

/** The memory, for kvt_free() where it was allocated; never NULL but for want of memory.  The
 *  buffer is empty afterwards. */
void *g4_receive_buffer_take(struct g4_receive_buffer *buffer);

/** Free what it allocated. */
void g4_receive_buffer_release(struct g4_receive_buffer *buffer);

#endif /* G4_OBJECT_RECEIVE_BUFFER_H */
