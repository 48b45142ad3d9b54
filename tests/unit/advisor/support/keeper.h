/*
 * tests/unit/advisor/support/keeper.h -- what an engine keeps, without one: store, index, and what
 * goes between.
 *
 * Why: the log, its snapshots and loading are tested as an engine uses them, commit by commit, with
 * a crash wherever the test likes.  Changes of workers' places come from log_model.h; one holder in
 * G4 has rows besides.
 * Ownership: the keeper owns everything; the folder stays until keeper_end().
 * Threads:   one.
 * Limits:    those of log_model.h.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_KEEPER_H
#define TESTS_UNIT_ADVISOR_SUPPORT_KEEPER_H

#include "advisor/index/change_group.h"
#include "advisor/index/index_load.h"
#include "advisor/index/ram_index.h"
#include "advisor/index/ram_snapshot.h"
#include "advisor/store/event_log_table.h"
#include "advisor/store/name_table.h"

#include "tests/unit/advisor/support/log_model.h"

enum { KEEPER_BUCKET = LOG_MODEL_HOLDERS }; /* the number of the holder in G4 */

/* Who has what, as it must be. */
struct keeper_truth {
    struct log_set workers;
    uint32_t bucket[LOG_MODEL_NAMESPACES][LOG_MODEL_BLOCKS];
};

struct keeper {
    char folder[200];
    uint64_t map_bytes; /* of the store */
    struct advisor_store *store;
    struct index *index;
    struct advisor_name_table *names;
    struct advisor_ram_index memory;
    struct advisor_change_group *group;
    struct advisor_ram_snapshot *snapshot;
    struct advisor_store_log log;
    struct keeper_truth *saved; /* committed */
    struct keeper_truth *next;  /* with the group */
};

/** A new folder, opened. */
void keeper_begin(struct keeper *keeper);
void keeper_end(struct keeper *keeper);

/** As a start does: open the folder and load what is there. */
void keeper_open(struct keeper *keeper);
/** As a crash does: what was not committed is lost, and a snapshot is not ended. */
void keeper_crash(struct keeper *keeper);

/** One random change of workers' places for the group. */
void keeper_change(struct keeper *keeper, struct log_step *step, uint64_t *random);
/** A piece of a chain came to a worker, or went. */
void keeper_put(struct keeper *keeper, enum advisor_event_log_kind kind, uint32_t holder,
                uint32_t first, uint32_t count);
/** A block came to the bucket, or went. */
void keeper_bucket(struct keeper *keeper, uint32_t ns, uint32_t block, bool store);

/** Write the group, give the transaction up `aborts` times, then commit; RAM follows. */
void keeper_commit(struct keeper *keeper, unsigned aborts);

/** The index says of every block what the truth does. */
void keeper_check(struct keeper *keeper);
/** Bytes of the store's file. */
uint64_t keeper_used(struct keeper *keeper);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_KEEPER_H */
