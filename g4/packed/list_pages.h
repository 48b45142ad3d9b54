/*
 * g4/packed/list_pages.h -- every object whose key begins with a prefix, page by page.
 *
 * Why: who packs a namespace reads listings of three kinds, and must never take one that broke off
 * for a whole one.
 *
 * Ownership: the store is borrowed; a row lives for the call that is told of it.
 * Threads:   none of its own; calls block.
 * Limits:    one page of G4_LIST_KEYS_MAX rows at a time.
 */
#ifndef G4_PACKED_LIST_PAGES_H
#define G4_PACKED_LIST_PAGES_H

#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

/** Anything but KVT_OK ends the walk, which answers it. */
typedef enum kvt_err g4_list_pages_each(void *arg, const struct g4_listed *row,
                                        struct kvt_error *err);

/**
 * @param after       only keys behind this one; NULL = all
 * @param request_ms  for each page; 0 = the store's default
 * @return KVT_OK: every row was told; what `each` said; KVT_NOMEM; or why the store could not be
 *         asked: then some rows may have been told
 */
KVT_NODISCARD enum kvt_err g4_list_pages_walk(struct g4_store *store, const char *prefix,
                                              const char *after, uint64_t request_ms,
                                              g4_list_pages_each *each, void *arg,
                                              struct kvt_error *err);

#endif /* G4_PACKED_LIST_PAGES_H */
