/*
 * gateway/tier/hot_memory.h -- hot bodies in memory that nobody can write to any more.
 *
 * Why: a block that is asked for again and again would be copied out of its file, checked, and
 * copied into the socket each time.  Here it is copied once into an anonymous file, which the
 * kernel seals: nobody can write to it from there on, this process included.  It is checked behind
 * the seal, and the kernel sends that memory itself, without a copy.
 *
 * Ownership: all bodies are its own; a body that was taken stays until it is given back.
 * Threads:   any; gateway_hot_memory_take() waits for the disk where it copies.
 * Limits:    `bytes_max` of bodies of GATEWAY_HOT_MEMORY_MIN bytes and more, those that are being
 *            sent or copied among them, none larger than a quarter of it; GATEWAY_HOT_MEMORY_COUNT
 *            of them, fewer where the process may open few files; GATEWAY_HOT_MEMORY_IDLE_MS
 *            without use.
 */
#ifndef GATEWAY_TIER_HOT_MEMORY_H
#define GATEWAY_TIER_HOT_MEMORY_H

#include <stdint.h>

#include "g4/directory/body.h"
#include "kvtier/error.h"

#define GATEWAY_HOT_MEMORY_MIN     (512u << 10) /* smaller ones cost less to copy */
#define GATEWAY_HOT_MEMORY_COUNT   256
#define GATEWAY_HOT_MEMORY_IDLE_MS 60000

struct gateway_hot_memory;
struct gateway_hot_memory_body;

/**
 * Where the system cannot seal memory, that is said once, and every body is read from its file.
 *
 * @param bytes_max  more than 0; below four times GATEWAY_HOT_MEMORY_MIN nothing fits
 */
KVT_NODISCARD enum kvt_err gateway_hot_memory_new(struct gateway_hot_memory **out,
                                                  uint64_t bytes_max);

/** All that was taken was given back. */
void gateway_hot_memory_free(struct gateway_hot_memory *sealed);

/**
 * The body of an open object file.  A file that was asked for of late is taken in, which waits for
 * the disk; one that was changed since is another file.  What somebody is taking in is nobody
 * else's yet.
 *
 * @param sealed  NULL: there is none
 * @return a body to be given back, or NULL: it is not in memory; read the file
 */
struct gateway_hot_memory_body *gateway_hot_memory_take(struct gateway_hot_memory *sealed,
                                                        const struct g4_body *from);
/** The same, if it is in memory already. */
struct gateway_hot_memory_body *gateway_hot_memory_peek(struct gateway_hot_memory *sealed,
                                                        const struct g4_body *from);
void gateway_hot_memory_give(struct gateway_hot_memory *sealed,
                             struct gateway_hot_memory_body *body);

/** All bytes of a body that was taken, checked, from offset 0 on: a descriptor that is borrowed. */
int gateway_hot_memory_fd(const struct gateway_hot_memory_body *body);

/**
 * Drop what nobody used for GATEWAY_HOT_MEMORY_IDLE_MS, such as blocks that were removed.
 *
 * @param sealed  NULL: there is none
 * @param now_ms  monotonic
 */
void gateway_hot_memory_expire(struct gateway_hot_memory *sealed, uint64_t now_ms);

#endif /* GATEWAY_TIER_HOT_MEMORY_H */
