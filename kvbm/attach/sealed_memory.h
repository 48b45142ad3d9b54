/*
 * kvbm/attach/sealed_memory.h -- memory that two processes share and neither can take away.
 *
 * Why: memory that can shrink, or that has no pages when it is touched, ends whoever touches it.
 * So what is passed between an engine and a worker is a memfd on tmpfs, sealed against shrinking,
 * and as large as it has to be.
 *
 * Ownership: descriptor and mapping are the caller's.
 * Limits:    what the system has.
 */
#ifndef KVBM_ATTACH_SEALED_MEMORY_H
#define KVBM_ATTACH_SEALED_MEMORY_H

#include <stddef.h>

#include "kvtier/error.h"

/** A memfd of `size` bytes, sealed against shrinking and growing; its descriptor, or -1 and
 *  errno. */
int kvbm_sealed_make(const char *name, size_t size);

/** Map `size` bytes of a sealed memfd.  KVT_OK; KVT_INVALID (no memfd, not sealed, too small),
 *  KVT_NOMEM; *out is NULL then. */
KVT_NODISCARD enum kvt_err kvbm_sealed_map(void **out, int fd, size_t size, struct kvt_error *err);

#endif /* KVBM_ATTACH_SEALED_MEMORY_H */
