/*
 * advisor/engine_private.h -- what the files engine*.c share.
 *
 * Why: the round, events and reports are each a page of their own.
 * Ownership: as advisor/engine.h.
 * Threads:   `shared` is guarded by its lock; all else belongs to the engine's thread.
 * Limits:    as advisor/engine.h.
 */
#ifndef ADVISOR_ENGINE_PRIVATE_H
#define ADVISOR_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "advisor/engine.h"
#include "advisor/group.h"
#include "advisor/names.h"
#include "advisor/sweeper.h"
#include "kvtier/event.h"
#include "kvtier/report.h"

/* A group takes no further message beyond this; what one message or page can add fits above it. */
#define ADVISOR_GROUP_ENOUGH (ADVISOR_GROUP_OPS_MAX / 2)

struct advisor_engine {
    struct advisor_engine_options options;
    struct advisor_counters counters;
    struct advisor_feeds feeds;
    struct advisor_memory memory;
    struct advisor_names *names;
    struct advisor_publishers *publishers;
    struct advisor_sweeper *sweeper;
    struct advisor_group *group;

    struct advisor_position events;    /* taken into the group, or before */
    struct advisor_position reports;   /* */
    struct advisor_position committed; /* of events; behind `events` while messages are held back */
    bool moved;                        /* a position changed since the last commit */
    uint64_t moved_ms;                 /* since when */
    uint64_t item_ms;                  /* time of the newest message taken */

    struct kvt_event *decoded; /* KVT_EVENTS_PER_BATCH_MAX */
    struct kvt_report_access *accesses;
    struct kvt_order_result *results;
    uint32_t reclaim_from; /* next holder to look at */
    uint64_t ask_number;
    uint64_t aged_ms;
    uint64_t planned_ms;
    uint64_t unsynced_ms; /* since when something is committed and not synced; 0: nothing is */
    uint64_t retry_at_ms;
    uint64_t goal_seq; /* last sequence of the stream when it was first seen */
    bool goal_known;
    bool was_connected;
    _Atomic bool caught_up;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        bool blocked;
        char text[KVT_ERROR_TEXT_MAX];
    } shared;
};

/* engine_events.c */
void advisor_engine_take_event(struct advisor_engine *engine, struct advisor_item *item);
void advisor_engine_take_letters(struct advisor_engine *engine);
void advisor_engine_drain_held(struct advisor_engine *engine);
void advisor_engine_ask(struct advisor_engine *engine, uint64_t now_ms);
void advisor_engine_age(struct advisor_engine *engine, uint64_t now_ms);

/* engine_reports.c */
void advisor_engine_take_report(struct advisor_engine *engine, struct advisor_item *item);

/* engine_names.c */
/** When numbers run short: look at up to `max` holders for some that hold nothing.  Only right
 *  after a commit or the start, while the group is empty. */
void advisor_engine_reclaim(struct advisor_engine *engine, uint32_t max);

/** Room for another message in this group? */
bool advisor_engine_has_room(const struct advisor_engine *engine);

#endif /* ADVISOR_ENGINE_PRIVATE_H */
