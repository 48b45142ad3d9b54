/*
 * advisor/export.h -- the durable index as JSON lines (docs/formats.md, "Index exports").
 *
 * Why: an index must outlive a disk, a machine and a change of the database's format.  Rows name
 * holders and namespaces instead of numbering them, so that they mean the same in any database.
 *
 * Ownership: the caller's buffer gets the lines.
 * Threads:   any; each page is one short read transaction.
 * Limits:    a page ends at the caller's `max` blocks, or with the block that makes it longer than
 *            ADVISOR_EXPORT_PAGE_BYTES.  Beside a running advisor the first page's numbers and
 *            publishers are older than the blocks behind it, never newer: events that are applied
 *            again from there on lead to the same blocks.
 */
#ifndef ADVISOR_EXPORT_H
#define ADVISOR_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/store.h"
#include "base/buffer.h"

#define ADVISOR_EXPORT_VERSION    1
#define ADVISOR_EXPORT_PAGE_BYTES (4u << 20)

/**
 * Append the lines from `cursor` (0 = start) on; `next` 0 = that was all.  Counts are added to.
 *
 * @return KVT_OK; KVT_RANGE (the buffer's limit) or KVT_NOMEM; KVT_CORRUPT
 */
KVT_NODISCARD enum kvt_err advisor_export_page(struct advisor_store *store, uint64_t cursor,
                                               size_t max, struct kvt_buffer *out, uint64_t *next);

#endif /* ADVISOR_EXPORT_H */
