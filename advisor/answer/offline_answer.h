/*
 * advisor/answer/offline_answer.h -- the durable index without the advisor.
 *
 * Why: the CLI must be able to look when the advisor is down; and beside a running one it may.
 * Questions about some blocks read the log through (advisor/answer/store_lookup.h); all places,
 * and what is counted over them, are read into memory first (advisor/index/index_image.h).  Each
 * is one read transaction.
 *
 * Ownership: the reader owns its view of the store.
 * Threads:   none; one owner.
 * Limits:    opens read-only: it never creates, repairs or changes anything.
 */
#ifndef ADVISOR_ANSWER_OFFLINE_ANSWER_H
#define ADVISOR_ANSWER_OFFLINE_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/answer/finder.h"
#include "advisor/store/durable_store.h"

struct advisor_store_reader;

/** `path` is the advisor's state.dir.  KVT_NOTFOUND: there is no index. */
KVT_NODISCARD enum kvt_err advisor_store_read_open(struct advisor_store_reader **out,
                                                   const char *path, struct kvt_error *err);
void advisor_store_read_close(struct advisor_store_reader *reader);

/** For advisor_finder_matches(), _masks() and _block(), and for _rows() once all is loaded; valid
 *  until the reader is closed. */
const struct advisor_finder *advisor_store_read_finder(const struct advisor_store_reader *reader);

/** Read all places into memory, unless they are there: from here on the finder is of this
 *  instant. */
KVT_NODISCARD enum kvt_err advisor_store_read_load(struct advisor_store_reader *reader,
                                                   struct kvt_error *err);

struct advisor_store_stats {
    uint64_t blocks;
    uint64_t places;
    uint64_t holders;
    uint64_t namespaces;
    uint64_t publishers;
    uint64_t db_bytes;
    uint64_t db_max_bytes;
    uint64_t committed_seq;
    uint64_t epoch;
};

struct advisor_store_holder_stats {
    struct index_holder holder;
    uint64_t blocks;
    uint64_t bytes;
};

/**
 * Count everything, loading it.
 *
 * @param[out] holders  made (kvt_free() it), stats->holders rows
 */
KVT_NODISCARD enum kvt_err advisor_store_read_stats(struct advisor_store_reader *reader,
                                                    struct advisor_store_stats *stats,
                                                    struct advisor_store_holder_stats **holders,
                                                    struct kvt_error *err);

#endif /* ADVISOR_ANSWER_OFFLINE_ANSWER_H */
