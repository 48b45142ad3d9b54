/*
 * tests/unit/advisor/support/rig.h -- an engine without network: the test hands it messages.
 *
 * Why: what the engine does with messages is tested without a server, and exactly.
 * Ownership: the test owns the rig; the folder is the test's.
 * Threads:   one.
 * Limits:    none of its own.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_RIG_H
#define TESTS_UNIT_ADVISOR_SUPPORT_RIG_H

#include "advisor/answer/finder.h"
#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round.h"
#include "advisor/rule/rulebook.h"
#include "advisor/source/source.h"
#include "base/core/metrics.h"
#include "kvtier/event.h"

struct test_rig {
    struct kvt_metrics *metrics;
    struct advisor_counters counters;
    struct advisor_store *store;
    struct index *index;
    struct advisor_rulebook *rulebook;
    struct advisor_planner *planner;
    struct advisor_jobs *jobs;
    struct advisor_round *engine;
    struct advisor_sources *sources;
    struct advisor_source *events; /* of them */
    struct advisor_source *reports;
    struct advisor_source *foreign; /* of another system; NULL: none */
    struct advisor_outbox *outbox;
    struct advisor_finder finder;
};

struct test_rig_options {
    const char *path;
    uint64_t map_bytes;   /* 0: 64 MiB */
    uint64_t index_bytes; /* 0: 64 MiB */
    uint64_t cold_bytes;  /* 0: nothing is evicted */
    uint64_t order_bytes; /* of a tier's ordering; 0: 8 MiB */
    enum advisor_mode mode;
    const struct kvt_ordering *ordering; /* NULL: lru */
    uint64_t idle_ticks;                 /* of it */
    uint64_t promote_after;
    const char *policy;                         /* path of a file; NULL: the usual watermarks */
    uint32_t holders_max;                       /* 0: as many as the index takes */
    uint32_t aliases_max;                       /* 0: as many as there may be */
    const struct advisor_source_ops *foreign;   /* NULL: only our own events */
    bool kept;                                  /* the foreign source reads a stream */
    const struct advisor_source_options *reads; /* what it reads; NULL: what the test hands it */
    uint64_t give_up_after_ms;
    bool volatile_places;           /* workers' places are not written */
    bool asks;                      /* its own workers are asked too */
    struct router_workers *workers; /* NULL: nobody routes */
};

void test_rig_open(struct test_rig *rig, const struct test_rig_options *options);
void test_rig_close(struct test_rig *rig);

/* What a restart would read. */
struct test_rig_copy {
    struct index *index;
    struct advisor_name_table *names;
    struct advisor_ram_index memory;
    struct advisor_finder finder;
};

void test_rig_copy(const struct test_rig *rig, struct test_rig_copy *copy);
void test_rig_copy_free(struct test_rig_copy *copy);

/** Hand over a batch as the message with that stream sequence. */
void test_rig_batch(struct test_rig *rig, uint64_t stream_seq, const struct kvt_event_batch *batch);
void test_rig_bytes(struct test_rig *rig, uint64_t stream_seq, const void *bytes, size_t size);
void test_rig_report(struct test_rig *rig, uint64_t stream_seq, const struct kvt_report *report);

/** Hand over a foreign message; `sequence` as an engine's, UINT64_MAX: none. */
void test_rig_foreign(struct test_rig *rig, uint64_t stream_seq, uint64_t sequence,
                      const struct kvt_buffer *bytes);
/** Hand over whatever it is. */
void test_rig_foreign_item(struct test_rig *rig, struct advisor_inbox_item *item);
/** The foreign source as it is shown. */
struct advisor_source_view test_rig_view(struct test_rig *rig);

/** What kinds of foreign sources need to be opened, and closed. */
enum kvt_err test_rig_source_open(struct advisor_source *source);
void test_rig_source_close(struct advisor_source *source);

/** Rounds until nothing is left to do. */
void test_rig_run(struct test_rig *rig);

/** So much time passes between two looks at the clock of slices; none, until somebody says so. */
void test_rig_slow_down(uint64_t step_ms);

int64_t test_rig_value(struct kvt_metric *metric);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_RIG_H */
