/*
 * advisor/archive/index_export_private.h -- what the files export*.c share.
 *
 * Why: rows of the store, rows of other systems' publishers and runs are each a page of their own.
 */
#ifndef ADVISOR_ARCHIVE_INDEX_EXPORT_PRIVATE_H
#define ADVISOR_ARCHIVE_INDEX_EXPORT_PRIVATE_H

#include "advisor/archive/index_export.h"
#include "advisor/store/number_map.h"

struct advisor_index_export {
    const struct advisor_txn *txn;
    struct advisor_ram_index *memory;
    struct kvt_buffer *out;
    struct advisor_number_map *left_out; /* publishers by number; workers by namespace and name */
    advisor_index_export_fn *take;       /* NULL: a page */
    void *arg;
    uint64_t hash; /* of the block before */
    uint64_t next; /* where the page ended for its length; 0: it did not */
    size_t start;  /* bytes of the buffer that were there before */
};

void advisor_index_export_text(struct kvt_buffer *out, const char *key, const char *text);
void advisor_index_export_number(struct kvt_buffer *out, const char *key, uint64_t number);
void advisor_index_export_hash(struct kvt_buffer *out, const char *key, uint64_t hash);

/** Hand over what is there, when it is enough, or `all` of it. */
KVT_NODISCARD enum kvt_err advisor_index_export_flush(const struct advisor_index_export *export,
                                                      bool all);

/* index_export_foreign.c */
KVT_NODISCARD enum kvt_err advisor_index_export_leave_out(struct advisor_index_export *export);
bool advisor_index_export_is_left_out(const struct advisor_index_export *export,
                                      uint32_t publisher);
bool advisor_index_export_worker_is_left_out(const struct advisor_index_export *export,
                                             const char *namespace_, const char *worker);
/** Sources and what other systems' publishers have beside their rows. */
KVT_NODISCARD enum kvt_err
advisor_index_export_foreigners(const struct advisor_index_export *export);
/** Their names of blocks, and what waits for one. */
KVT_NODISCARD enum kvt_err advisor_index_export_named(const struct advisor_index_export *export);

#endif /* ADVISOR_ARCHIVE_INDEX_EXPORT_PRIVATE_H */
