/*
 * advisor/archive/index_export.h -- the durable index as JSON lines (docs/formats.md, "Index
 * exports").
 *
 * Why: an index must outlive a disk, a machine and a change of the database's format.  Rows name
 * holders and namespaces instead of numbering them, so that they mean the same in any database.
 *
 * Two ways lead to the same lines.  advisor_index_export_all() reads the folder, at one instant,
 * and has everything.  advisor_index_export_page() answers beside the engine, page by page: the
 * first page's numbers and publishers are older than what follows, never newer, so that events
 * that are applied again from there on lead to the same blocks.  Publishers of other systems and
 * what they hold are left out of it: their names of blocks would be of another instant than their
 * numbers.
 *
 * Ownership: the caller's buffer gets the lines.
 * Limits:    a page ends at the caller's `max` rows, or with the row that makes it longer than
 *            ADVISOR_INDEX_EXPORT_PAGE_BYTES.
 */
#ifndef ADVISOR_ARCHIVE_INDEX_EXPORT_H
#define ADVISOR_ARCHIVE_INDEX_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/index/ram_index.h"
#include "advisor/store/durable_store.h"
#include "base/core/buffer.h"

#define ADVISOR_INDEX_EXPORT_VERSION    4
#define ADVISOR_INDEX_EXPORT_PAGE_BYTES (4u << 20)

enum advisor_index_export_part {
    ADVISOR_INDEX_EXPORT_BLOCKS, /* first of all what stands before them */
    ADVISOR_INDEX_EXPORT_RUNS,   /* of workers */
    ADVISOR_INDEX_EXPORT_COLD,   /* those that were evicted from memory */
    ADVISOR_INDEX_EXPORT_DONE,
};

/* Where the next page begins.  All 0: at the start. */
struct advisor_index_export_cursor {
    enum advisor_index_export_part part;
    uint64_t at;
};

/* A number of the store in an export's first row. */
struct advisor_index_export_meta {
    enum advisor_meta which;
    const char *key;
    uint64_t since; /* the version from which on an import needs it; 0: it is only told */
};

#define ADVISOR_INDEX_EXPORT_METAS 10

extern const struct advisor_index_export_meta
    advisor_index_export_metas[ADVISOR_INDEX_EXPORT_METAS];

/**
 * Append the lines from `cursor` on, and move it.
 *
 * @return KVT_OK; KVT_AGAIN: memory is not whole; KVT_RANGE (the buffer's limit) or KVT_NOMEM;
 *         KVT_CORRUPT
 */
KVT_NODISCARD enum kvt_err advisor_index_export_page(struct advisor_store *store,
                                                     struct advisor_ram_index *memory,
                                                     struct advisor_index_export_cursor *cursor,
                                                     size_t max, struct kvt_buffer *out);

/** Takes what is in the buffer, some pages long at most, and clears it. */
typedef enum kvt_err advisor_index_export_fn(void *arg, struct kvt_buffer *lines);

/** All lines, in one read transaction.  What `take` says ends it too. */
KVT_NODISCARD enum kvt_err advisor_index_export_all(struct advisor_store *store,
                                                    advisor_index_export_fn *take, void *arg,
                                                    struct kvt_error *err);

#endif /* ADVISOR_ARCHIVE_INDEX_EXPORT_H */
