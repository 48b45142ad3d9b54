/*
 * advisor/round/round.h -- the one thread that changes the index.
 *
 * Why: events, reports, answers of publishers, sweeps and plans all change the same tables.  One
 * thread takes them in turn, collects what changes, writes it in one transaction together with the
 * sequences it stands for, and then lets RAM follow.  So a crash at any instant leaves the store at
 * the end of some group, and reading on behind the committed sequence gives what would have been
 * there anyway.
 *
 * Ownership: the round owns its tables; store, index, sources, outbox, planner and jobs are
 *            borrowed.
 * Threads:   advisor_round_step() on one thread; the readers named below on any.
 * Limits:    a group holds ADVISOR_CHANGE_GROUP_OPS_MAX changes.  When the store is full, the
 *            group is kept and tried again, and nothing more is taken from the sources.
 */
#ifndef ADVISOR_ROUND_ROUND_H
#define ADVISOR_ROUND_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/index/advisor_counters.h"
#include "advisor/index/ram_index.h"
#include "advisor/publisher/publishers.h"
#include "advisor/source/source.h"
#include "advisor/source/sources.h"
#include "advisor/store/durable_store.h"
#include "index/index.h"

struct advisor_observed_reports;
struct advisor_outbox;
struct advisor_round;
struct advisor_writer_calls;
struct advisor_jobs;
struct advisor_index_load_progress;
struct advisor_planner;
struct wire_bus;
struct wire_key_ring;
struct kvt_conditions;

struct advisor_round_options {
    struct advisor_store *store;
    struct index *index;
    struct advisor_planner *planner;        /* NULL: plans nothing */
    struct advisor_jobs *jobs;              /* NULL: takes no jobs */
    const struct wire_key_ring *order_keys; /* NULL: no order leaves, and no report is verified */
    struct kvt_conditions *conditions;
    bool observes_unsigned; /* unsigned reports are shown though there are keys */
    const struct advisor_counters *counters;
    uint64_t commit_max_wait_ms;
    uint64_t silent_after_ms;
    uint64_t gone_after_ms;
    uint64_t give_up_after_ms; /* foreign publishers; 0: as soon as somebody does not answer */
    uint64_t plan_interval_ms;
    uint32_t holders_max; /* 0: INDEX_HOLDERS_MAX */
    uint32_t aliases_max; /* 0: ADVISOR_ALIASES_MAX */
    uint64_t cold_bytes;  /* RAM for knowing what was evicted from it; 0: nothing is */
    bool volatile_places; /* workers' places are not written: after a start they are asked for */
};

/** Load what is small.  The index itself is read in the first step; until then questions are
 *  answered from the store. */
KVT_NODISCARD enum kvt_err advisor_round_new(struct advisor_round **out,
                                             const struct advisor_round_options *options,
                                             struct kvt_error *err);
void advisor_round_free(struct advisor_round *round);

void advisor_round_positions(const struct advisor_round *round, struct advisor_position *events,
                             struct advisor_position *reports);

/** The number of a source of another system, and up to where its stream is applied.  KVT_OK, or
 *  KVT_FULL: too many names were used on this store. */
KVT_NODISCARD enum kvt_err advisor_round_source(struct advisor_round *round, const char *name,
                                                uint32_t *number,
                                                struct advisor_position *position);

struct router_workers;

struct advisor_feeds {
    struct advisor_sources *sources;
    struct advisor_source *reports; /* NULL: none */
    struct advisor_outbox *outbox;  /* NULL: nobody is asked, no order leaves */
    struct wire_bus *bus;           /* NULL: taken as connected */
    struct router_workers *workers; /* are told who lives by its events; NULL: nobody routes */
};

/** Before the first step. */
void advisor_round_attach(struct advisor_round *round, const struct advisor_feeds *feeds);

/** One round: take what is there (waiting up to `wait_ms` for it), write it, follow in RAM. */
void advisor_round_step(struct advisor_round *round, uint64_t wait_ms);

/** KVT_OK, or why the index could not be read: no step does anything then.  On the writer's thread,
 *  or behind it. */
KVT_NODISCARD enum kvt_err advisor_round_failed(const struct advisor_round *round,
                                                struct kvt_error *err);

/** Make what was committed durable against power cuts; at the end of the program. */
void advisor_round_flush(struct advisor_round *round);

/* ---- any thread ---- */

/** How far the index is read; `cancel` of it is advisor_round_cancel(). */
const struct advisor_index_load_progress *advisor_round_progress(const struct advisor_round *round);
/** Stop reading it: the program is to end. */
void advisor_round_cancel(struct advisor_round *round);

/** What is handed over is done in the next round. */
struct advisor_writer_calls *advisor_round_writer_calls(struct advisor_round *round);
struct advisor_ram_index *advisor_round_memory(struct advisor_round *round);
struct advisor_publishers *advisor_round_publishers(struct advisor_round *round);

/** True while the store takes nothing; `text` says why. */
bool advisor_round_blocked(struct advisor_round *round, char text[KVT_ERROR_TEXT_MAX]);

/** True once everything that was in the stream at the start is applied. */
bool advisor_round_caught_up(struct advisor_round *round);

/** How full tiers are by reports that are not verified; any thread. */
struct advisor_observed_reports *advisor_round_observed(struct advisor_round *round);

#endif /* ADVISOR_ROUND_ROUND_H */
