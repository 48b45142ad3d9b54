/*
 * advisor/publisher/publishers_private.h -- what the files publishers*.c share.
 *
 * Why: finding them, their rows, and what is shown of them are each a page of their own.
 *
 * Threads:   `shared` is guarded by its lock; all else belongs to the engine's thread.
 */
#ifndef ADVISOR_PUBLISHER_PUBLISHERS_PRIVATE_H
#define ADVISOR_PUBLISHER_PUBLISHERS_PRIVATE_H

#include <pthread.h>

#include "advisor/publisher/publishers.h"
#include "advisor/store/number_map.h"

#define ADVISOR_PUBLISHERS_RECENT 1024

struct advisor_publishers {
    struct advisor_number_map *by_name;   /* (ns, worker) -> slot */
    struct advisor_number_map *by_number; /* number -> slot */
    struct advisor_publisher *slots[ADVISOR_PUBLISHERS_MAX];
    size_t count;
    struct advisor_publisher *active[ADVISOR_PUBLISHERS_MAX]; /* with something to do */
    size_t active_count;
    struct advisor_publisher *recent[ADVISOR_PUBLISHERS_RECENT]; /* ours, by hash of the worker */
    uint32_t next_number;
    uint32_t saved_number;                    /* `next_number` in the store */
    uint32_t evicted[ADVISOR_PUBLISHERS_MAX]; /* rows to delete with the next save */
    size_t evicted_count;
    uint64_t seen_key;       /* of digests of events */
    uint64_t saved_seen_key; /* in the store */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        struct advisor_publisher_view *views;
        size_t view_count;
        size_t view_capacity;
        size_t live; /* of the views */
        size_t uncertain;
        size_t silent;
        struct advisor_number_map *doubtful; /* struct doubt_key of the uncertain ones */
        uint32_t doubtful_buckets;           /* the same for what the row's `buckets` says */
        bool stale;                          /* neither is what the views say */
    } shared;
};

/* publishers.c */
/** Make the publisher of a slot, `table->count` or one whose publisher is gone, as `model` says.
 *  KVT_OK or KVT_NOMEM: unchanged then. */
KVT_NODISCARD enum kvt_err advisor_publishers_place(struct advisor_publishers *table,
                                                    const struct advisor_publisher *model,
                                                    size_t slot);

/* publishers_show.c */
/** The publisher of this slot goes, and the last one takes its slot. */
void advisor_publishers_unshow(struct advisor_publishers *table, size_t slot);

#endif /* ADVISOR_PUBLISHER_PUBLISHERS_PRIVATE_H */
