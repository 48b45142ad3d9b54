/*
 * advisor/index/evicted_private.h -- what the files evicted*.c share.
 *
 * Why: what answers and what writes are a page each.
 * Threads:   `count` and the filter are read by any; the rest is the engine's.
 */
#ifndef ADVISOR_INDEX_EVICTED_PRIVATE_H
#define ADVISOR_INDEX_EVICTED_PRIVATE_H

#include <stdatomic.h>

#include "advisor/index/evicted.h"
#include "advisor/index/evicted_filter.h"
#include "advisor/store/evicted_rows.h"

enum advisor_evicted_edit_kind {
    ADVISOR_EVICTED_EVICT,
    ADVISOR_EVICTED_REMOVE,
    ADVISOR_EVICTED_STORE,
};

/* What happens to one place of a row. */
struct advisor_evicted_edit {
    uint64_t hash;
    size_t at; /* STORE: of the block in the log, as advisor_event_log_count() counts */
    uint32_t ns;
    uint32_t order;
    uint32_t holder;
    uint32_t ranks;
    uint32_t about; /* EVICT, STORE: the block's row of `abouts` */
    enum advisor_evicted_edit_kind kind;
};

struct advisor_evicted_about {
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint32_t position;
};

/* All a holder has in a namespace goes, in front of the edit `order`. */
struct advisor_evicted_drop {
    uint32_t holder;
    uint32_t ns;
    uint32_t order;
};

/* A place came to a row, or went. */
struct advisor_evicted_change {
    uint32_t holder;
    bool came;
};

struct advisor_evicted_key {
    uint64_t hash;
    uint32_t ns;
};

/* An array that grows. */
struct advisor_evicted_pile {
    void *rows;
    size_t count;
    size_t capacity;
};

struct advisor_evicted {
    struct advisor_evicted_filter *filter;
    _Atomic uint64_t count; /* rows, and what a commit may bring */
    uint64_t rows;          /* that are committed */
    uint64_t number;        /* of the next group that evicts or drops */
    uint64_t *places;       /* of each holder, in all rows */

    /* What is evicted with the next group. */
    struct advisor_evicted_pile leaving; /* struct advisor_evicted_edit */
    struct advisor_evicted_pile abouts;
    struct advisor_evicted_pile coming; /* prints of the blocks, in the filter */
    size_t leaving_abouts;
    size_t log_start; /* hashes at the log's beginning that are evicted */

    /* What the last write did; saved, or done again. */
    struct advisor_evicted_pile edits;
    struct advisor_evicted_pile drops;   /* struct advisor_evicted_drop, of each place the first */
    struct advisor_evicted_pile changes; /* struct advisor_evicted_change */
    struct advisor_evicted_pile came;    /* prints of rows that came */
    struct advisor_evicted_pile went;
    struct advisor_evicted_pile refused; /* struct advisor_evicted_edit: collisions in the log */
    struct advisor_evicted_pile void_rows;
    struct advisor_evicted_row row;
    size_t filtered;     /* of `came`: in the filter already */
    uint32_t collisions; /* left out of the group's log so far */
    bool wrote;

    /* The pass that takes void places away. */
    size_t pass_rows;
    uint64_t pass_from;
    uint64_t pass_number;    /* when it began: drops below it are done with at its end; 0: none */
    uint64_t next_pass_from; /* once saved */
    uint64_t next_pass_number;
};

/** Behind the others. */
KVT_NODISCARD enum kvt_err advisor_evicted_push(struct advisor_evicted_pile *pile,
                                                const struct advisor_evicted_edit *edit);
/** `edits` and `drops` of the group. */
KVT_NODISCARD enum kvt_err advisor_evicted_collect(struct advisor_evicted *evicted,
                                                   const struct advisor_event_log *log);
/** Does the group drop the holder in front of the edit, in its namespace? */
bool advisor_evicted_drops(const struct advisor_evicted *evicted,
                           const struct advisor_evicted_edit *edit, uint32_t holder);
/** The log without the blocks in `refused`.  KVT_OK or KVT_NOMEM: it is as it was. */
KVT_NODISCARD enum kvt_err advisor_evicted_leave_out(struct advisor_evicted *evicted,
                                                     struct advisor_event_log *log);

/** Room for `more` rows of `size` bytes; NULL: no memory. */
void *advisor_evicted_pile_reserve(struct advisor_evicted_pile *pile, size_t more, size_t size);

#endif /* ADVISOR_INDEX_EVICTED_PRIVATE_H */
