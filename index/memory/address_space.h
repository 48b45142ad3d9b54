/*
 * index/memory/address_space.h -- address space, and memory in parts of it.
 *
 * Why: arrays that grow must not move under their readers, and copying them would take memory
 * twice.  So the address space is taken once, for all the memory there may be, and is filled as
 * needed, in huge pages where the kernel gives them.
 *
 * Ownership: the caller.
 * Limits:    the address space.
 */
#ifndef INDEX_MEMORY_ADDRESS_SPACE_H
#define INDEX_MEMORY_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>

#define INDEX_ADDRESS_SPACE_CHUNK ((size_t)2 << 20) /* a huge page */

/** Address space at a chunk's boundary, zeroed when it is read; `usable` at once, or only after
 *  index_address_space_commit().  NULL: there is none. */
void *index_address_space_reserve(size_t bytes, bool usable);
/** NULL is allowed. */
void index_address_space_release(void *at, size_t bytes);

/** Make whole chunks readable and writable; false: no memory. */
bool index_address_space_commit(void *at, size_t bytes);
/** Give memory of whole pages back; it reads as zero again. */
void index_address_space_decommit(void *at, size_t bytes);

#endif /* INDEX_MEMORY_ADDRESS_SPACE_H */
