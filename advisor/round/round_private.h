/*
 * advisor/round/round_private.h -- what the files round*.c share.
 *
 * Why: the round, events and reports are each a page of their own.
 * Ownership: as advisor/round/round.h.
 * Threads:   `shared` is guarded by its lock; all else belongs to the writer's thread.
 * Limits:    as advisor/round/round.h.
 */
#ifndef ADVISOR_ROUND_ROUND_PRIVATE_H
#define ADVISOR_ROUND_ROUND_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "advisor/index/change_group.h"
#include "advisor/index/evicted.h"
#include "advisor/index/index_eviction.h"
#include "advisor/index/index_load.h"
#include "advisor/index/ram_snapshot.h"
#include "advisor/index/sweeper.h"
#include "advisor/publisher/identity.h"
#include "advisor/publisher/orphans.h"
#include "advisor/round/observed_reports.h"
#include "advisor/round/round.h"
#include "advisor/store/event_log_table.h"
#include "advisor/store/name_table.h"
#include "advisor/store/number_map.h"
#include "advisor/store/writer_calls.h"
#include "kvtier/event.h"
#include "kvtier/report.h"

#include "router/workers.h"

/* A group takes no further message beyond this; what one message or page can add, with the stores
 * that waited for it, fits above it. */
#define ADVISOR_CHANGE_GROUP_ENOUGH (ADVISOR_CHANGE_GROUP_OPS_MAX / 4)
#define ADVISOR_CHANGE_GROUP_ENOUGH_OWN                                                            \
    (ADVISOR_CHANGE_GROUP_OPS_MAX / 2) /* for a message of our own */

#define ADVISOR_SOURCE_ROWS_MAX 256          /* names of sources that are remembered */
#define ADVISOR_RECENT_BLOCKS   65536        /* blocks whose position is remembered */
#define ADVISOR_CLOCK_AHEAD_MS  5000         /* that a sender's clock may be ahead of ours */
#define ADVISOR_LIVES_MAX       16384        /* of publishers with numbered messages */
#define ADVISOR_HELD_BYTES_MAX  (256u << 20) /* of all foreign publishers */

struct advisor_replay;

/* A block named of late: its position may not be in the index yet. */
struct advisor_recent {
    uint64_t hash;
    uint32_t ns;
    uint32_t position;
};

/* The messages of one life of a publisher, by their own numbers. */
struct advisor_life {
    uint64_t last;
};

struct advisor_round {
    struct advisor_round_options options;
    struct advisor_counters counters;
    struct advisor_feeds feeds;
    struct advisor_ram_index memory;
    struct advisor_writer_calls *writer_calls;
    struct advisor_name_table *names;
    struct advisor_evicted *evicted;      /* NULL: nothing is evicted */
    struct advisor_index_eviction *evict; /* the same */
    struct advisor_publishers *publishers;
    struct advisor_sweeper *sweeper;
    struct advisor_change_group *group;
    struct advisor_ram_snapshot *snapshot;
    struct advisor_store_log log;         /* as it is committed */
    struct advisor_event_log *taken_back; /* of `memory`, for the next group */

    struct advisor_index_load_progress progress;
    enum kvt_err failure; /* of the index's loading; `failed` says why */
    struct kvt_error failed;
    bool forgotten; /* workers' places of before are not known, which is not durable yet */

    struct advisor_position events; /* as loaded: where our own source begins */
    struct advisor_position reports;
    uint64_t now_ms;   /* monotonic: when the messages that are taken were polled */
    bool moved;        /* a position changed since the last commit */
    uint64_t moved_ms; /* since when */

    struct kvt_event *decoded; /* KVT_EVENTS_PER_BATCH_MAX */
    struct kvt_report_access *accesses;
    struct kvt_order_result *results;
    struct kvt_report_pin *pins; /* of a report */
    struct advisor_observed_reports observed;
    uint32_t reclaim_from; /* next holder to look at */
    uint32_t reclaim_namespace_from;
    uint64_t namespace_renames; /* as the planner knows it */
    uint64_t ask_number;
    uint64_t aged_ms;
    uint64_t planned_ms;
    uint64_t shown_ms;
    uint64_t unsynced_ms; /* since when something is committed and not synced; 0: nothing is */
    uint64_t retry_at_ms;
    uint64_t recover_at_ms;    /* while RAM is spilled: when it is read anew, if there is room */
    uint64_t recover_after_ms; /* 0: it is not */
    bool was_connected;
    bool deaf; /* for want of room in RAM no messages were taken since publishers were looked at */
    _Atomic bool caught_up;

    /* Other systems' sources. */
    struct advisor_source_row source_rows[ADVISOR_SOURCE_ROWS_MAX];
    size_t source_row_count;
    struct advisor_aliases *aliases;
    struct advisor_orphans *orphans;
    struct wire_raw_batch *raw;
    struct advisor_named *named; /* WIRE_RAW_BLOCKS_MAX */
    struct advisor_recent *recent;
    struct advisor_number_map *lives; /* (source, life) -> one of those below */
    struct advisor_life *life;
    struct advisor_replay *replay;      /* an answer that is being applied; NULL: none */
    struct advisor_publisher *speaking; /* whose blocks are being named */
    size_t poll_from;                   /* counts rounds: which source is polled first */
    size_t held_bytes; /* for other systems' publishers, reckoned anew each round */
    uint64_t message;  /* counts messages taken */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        bool blocked;
        char text[KVT_ERROR_TEXT_MAX];
    } shared;
};

/* round_load.c */
enum kvt_err advisor_round_load_tables(struct advisor_round *round, struct kvt_error *err);
/** The index and the policy's order of blocks; sets `failure`. */
void advisor_round_load(struct advisor_round *round);

/* round_tables.c: the durable tables, each one row there. */
/** Something changed that needs a transaction. */
bool advisor_round_has_changes(struct advisor_round *round);
/** With volatile places: RAM must not follow without a transaction. */
bool advisor_round_must_write(struct advisor_round *round);
/** Write all that is durable together.  `log` is the event log as of this transaction. */
enum kvt_err advisor_round_write_tables(struct advisor_round *round, const struct advisor_txn *txn,
                                        struct advisor_store_log *log);
/** After the commit. */
void advisor_round_tables_saved(struct advisor_round *round);

/* round_commit.c */
/** Write the group and all else that changed, and let RAM follow.  When the store takes nothing,
 *  the group stays as it is and `retry_at_ms` is set. */
void advisor_round_commit(struct advisor_round *round);
/** Let RAM follow without a transaction, where nothing of the group must be durable.  False: it
 *  must be written. */
bool advisor_round_follow(struct advisor_round *round);

/** Put what RAM refused into the group, as gone. */
void advisor_round_take_back(struct advisor_round *round);

/** Nobody was listened to for a while: none of it counts as silence, or as a question without an
 *  answer. */
void advisor_round_forgive(struct advisor_round *round);

/* round_recover.c */
/** When RAM is no copy of the store any more: read it anew once there is room, now and then. */
void advisor_round_recover(struct advisor_round *round);

/* round_events.c */
void advisor_round_take_event(struct advisor_round *round, struct advisor_intake *intake,
                              struct advisor_inbox_item *item);
void advisor_round_drain_held(struct advisor_round *round);
void advisor_round_age(struct advisor_round *round, uint64_t now_ms);
/** A time that a sender told, by our clock: one far ahead is not believed, or what it stored would
 *  be the last to leave.  Of no time it is the present one, so that it is never in the second
 *  0, which says something else in the log. */
uint64_t advisor_round_time(uint64_t time_ms);
/** The events of a batch behind the first `skip`. */
void advisor_round_apply(struct advisor_round *round, struct advisor_publisher *publisher,
                         const struct kvt_event_batch *batch, uint32_t skip);
/** The holder a location of this batch speaks of. */
enum kvt_err advisor_round_resolve(struct advisor_round *round, const struct kvt_event_batch *batch,
                                   uint32_t location, uint32_t *holder);

/* round_places.c */
/** Have rules asked about some of what left with workers.  Only while nothing is in the group: RAM
 *  has all that publishers told. */
void advisor_round_depart(struct advisor_round *round);
/** What the publisher's worker holds in its own tiers goes, now.  KVT_OK or KVT_NOMEM. */
enum kvt_err advisor_round_drop(struct advisor_round *round,
                                const struct advisor_publisher *publisher);
/** What the publisher reported under older generations of its own places in G4 goes. */
enum kvt_err advisor_round_sweep(struct advisor_round *round,
                                 const struct advisor_publisher *publisher);
/** Both. */
enum kvt_err advisor_round_void(struct advisor_round *round,
                                const struct advisor_publisher *publisher);
/** What it reported of one holder in G4 under older generations goes. */
enum kvt_err advisor_round_sweep_holder(struct advisor_round *round,
                                        const struct advisor_publisher *publisher, uint32_t holder);
/** The publisher emptied one holder. */
enum kvt_err advisor_round_clear(struct advisor_round *round, struct advisor_publisher *publisher,
                                 uint32_t holder);

/* round_workers.c */
/** The publisher has places in a tier of its own, of this rank. */
void advisor_round_met(struct advisor_round *round, struct advisor_publisher *publisher,
                       uint32_t dp_rank);
/** It left: its place in the table may be another's before the round ends. */
void advisor_round_parted(struct advisor_round *round, struct advisor_publisher *publisher);
/** Tell routers who came, left or lives anew since the last call. */
void advisor_round_workers(struct advisor_round *round);
/** The same at the start, from what is known. */
void advisor_round_workers_all(struct advisor_round *round);

/* round_answers.c */
void advisor_round_take_messages(struct advisor_round *round);
void advisor_round_ask_publishers(struct advisor_round *round, uint64_t now_ms);

/* round_replay.c */
struct advisor_outbox_message;
/** The answer of another system's worker, or that there was none.  True: the message was kept. */
bool advisor_round_fill(struct advisor_round *round, struct advisor_outbox_message *message);
/** Go on with it, as far as there is room.  False: there is more of it. */
bool advisor_round_replay(struct advisor_round *round);
void advisor_round_replay_free(struct advisor_round *round);

/* round_sources.c */
enum kvt_err advisor_round_load_sources(struct advisor_round *round, const struct advisor_txn *txn);
enum kvt_err advisor_round_save_sources(struct advisor_round *round, const struct advisor_txn *txn);
/** After the commit. */
void advisor_round_sources_saved(struct advisor_round *round);
/** What was committed survives a power cut now: the sources may be told. */
void advisor_round_sources_synced(struct advisor_round *round);
size_t advisor_round_poll(struct advisor_round *round, uint64_t wait_ms);
void advisor_round_show_sources(struct advisor_round *round);
/** Those of sources that are not followed any more leave; those of planes that were not heard
 *  meanwhile are in doubt. */
void advisor_round_doubt_sources(struct advisor_round *round);

/* round_foreign.c */
enum kvt_err advisor_round_foreign_new(struct advisor_round *round);
void advisor_round_foreign_free(struct advisor_round *round);

/* How a message came. */
struct advisor_hearing {
    struct advisor_intake *intake;
    struct advisor_inbox_item *item; /* may be kept: a copy of it */
    struct advisor_publisher *only;  /* held back, or an answer: only this one's events count */
};

enum advisor_heard {
    ADVISOR_HEARD,
    ADVISOR_HEARD_HOLD,      /* `only` still misses something in front of it */
    ADVISOR_HEARD_MALFORMED, /* nothing of it could be read */
};

/** Take another system's message. */
enum advisor_heard advisor_round_hear(struct advisor_round *round,
                                      const struct advisor_hearing *hearing);
/** The same for what is in round->raw. */
enum advisor_heard advisor_round_hear_raw(struct advisor_round *round,
                                          const struct advisor_hearing *hearing);
/** It began anew while it was not heard: what the former life held goes. */
void advisor_round_renewed(struct advisor_round *round, struct advisor_publisher *publisher);
/** Of a message's bytes, never 0. */
uint32_t advisor_round_digest(const struct advisor_inbox_item *item);
/** All it holds is told anew, from here on: what is known of its own tiers goes.  Without memory it
 *  is given up as unanswered. */
void advisor_round_begin_all(struct advisor_round *round, struct advisor_publisher *publisher);
/** ... and was told: the rest is gone.  `number` as advisor_foreign_dump_end(). */
void advisor_round_end_all(struct advisor_round *round, struct advisor_publisher *publisher,
                           uint64_t number);
/** What a cluster keeps of who holds what: for each publisher in it, in place of what was known. */
void advisor_round_take_holds(struct advisor_round *round, struct advisor_intake *intake,
                              const struct advisor_inbox_item *item);
/** That was all of it: its publishers are certain, whatever number is next. */
void advisor_round_take_held(struct advisor_round *round, struct advisor_intake *intake);
/** A worker is gone from its cluster. */
void advisor_round_worker_gone(struct advisor_round *round, const struct advisor_intake *intake,
                               uint64_t worker_id);
/** What it held, what waits of it, what is held back and what was asked of it is void. */
void advisor_round_forget(struct advisor_round *round, struct advisor_publisher *publisher);
void advisor_round_given_up(struct advisor_round *round, struct advisor_publisher *publisher);

/* round_raw.c */
/** Apply one event of round->raw. */
void advisor_round_apply_raw(struct advisor_round *round, struct advisor_intake *intake,
                             struct advisor_publisher *publisher,
                             const struct wire_raw_event *event);

/* round_reports.c */
void advisor_round_take_report(struct advisor_round *round, struct advisor_inbox_item *item);

/* round_names.c */
/** A namespace's number went to another name: the policy follows. */
void advisor_round_follow_names(struct advisor_round *round);
/** When numbers run short: look at up to `max` holders, and namespaces, for some without anything.
 *  Only right after a commit or the start, while the group is empty. */
void advisor_round_reclaim(struct advisor_round *round, uint32_t max);

/** Room for another message in this group? */
bool advisor_round_has_room(const struct advisor_round *round);
/** The same for one that may come while there are fewer than `enough` changes. */
bool advisor_round_has_less(const struct advisor_round *round, size_t enough);

#endif /* ADVISOR_ROUND_ROUND_PRIVATE_H */
