/*
 * gateway/sealed.h -- hot bodies in memory that nobody can write to any more.
 *
 * Why: a block that is asked for again and again would be copied out of its file, checked, and
 * copied into the socket each time.  Here it is copied once into an anonymous file, which the
 * kernel seals: nobody can write to it from there on, this process included.  It is checked behind
 * the seal, and the kernel sends that memory itself, without a copy.
 *
 * Ownership: a descriptor that was given out is the caller's to close; its memory lives as long.
 * Threads:   any.
 * Limits:    `bytes_max` of bodies of GATEWAY_SEALED_MIN bytes and more, none larger than a quarter
 *            of it; GATEWAY_SEALED_COUNT of them, fewer where the process may open few files.  What
 *            is still being sent when its place is taken comes on top.
 */
#ifndef GATEWAY_SEALED_H
#define GATEWAY_SEALED_H

#include <stdint.h>

#include "g4/body.h"
#include "kvtier/error.h"

#define GATEWAY_SEALED_MIN   (512u << 10) /* what is smaller costs more to ask for than to copy */
#define GATEWAY_SEALED_COUNT 256

struct gateway_sealed;

/** @param bytes_max  more than 0 */
KVT_NODISCARD enum kvt_err gateway_sealed_new(struct gateway_sealed **out, uint64_t bytes_max);
void gateway_sealed_free(struct gateway_sealed *sealed);

/**
 * The body of an open object file: all its bytes, checked, from offset 0 on.  A file that was asked
 * for of late is taken in, which waits for the disk; one that was changed since is another file.
 *
 * @param sealed  NULL: there is none
 * @return a descriptor, the caller's to close, or -1: it is not in memory; read the file
 */
int gateway_sealed_body(struct gateway_sealed *sealed, const struct g4_body *body);

#endif /* GATEWAY_SEALED_H */
