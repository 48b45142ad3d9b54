/*
 * advisor/source/sources.h -- every source that is open, as the engine drives it and as people see
 * it.
 *
 * Why: an advisor follows several event planes at once; what each of them brings, how far behind it
 * is and what was wrong with it must be told apart.
 *
 * Ownership: the table owns its sources and the servers' connections that only they use; its views
 *            are copies.
 * Threads:   add, at and show on the engine's thread (add before it starts);
 *            advisor_sources_views() and advisor_sources_view() on any.
 * Limits:    ADVISOR_SOURCES_MAX sources, which also bounds the labels of their metrics.
 */
#ifndef ADVISOR_SOURCE_SOURCES_H
#define ADVISOR_SOURCE_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/source/source.h"
#include "base/core/metrics.h"
#include "wire/dialect/raw_batch.h"

/* How far a stream is applied, and which stream that was. */
struct advisor_position {
    uint64_t seq;
    uint64_t created_ms;
};

/* What came from a source since the program started. */
struct advisor_source_counts {
    uint64_t messages; /* decoded, or refused as malformed */
    uint64_t events;   /* applied */
    uint64_t gaps;     /* in numbers of its publishers or of the stream */
    uint64_t duplicates;
    uint64_t number_conflicts;            /* numbers seen twice with other content */
    uint64_t malformed;                   /* messages */
    uint64_t skipped[WIRE_RAW_WHY_COUNT]; /* events left out, by reason */
    uint64_t unmatched;                   /* removes of blocks nobody stored */
    uint64_t orphans;                     /* stores given up because their parent never came */
    uint64_t conflicts;                   /* children whose salt or adapter is not their parent's */
    uint64_t last_message_ms;             /* Unix time; 0: none yet */
    char last_error[KVT_ERROR_TEXT_MAX];
};

#define ADVISOR_INTAKE_READY 64 /* items polled at once */

/* A source as the engine drives it. */
struct advisor_intake {
    struct advisor_source *source; /* NULL: it could not be opened */
    struct wire_bus *bus;          /* its own, or NULL */
    char name[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    const struct advisor_source_ops *ops;
    uint32_t number; /* durable; 0: the first one, which reads the canonical dialect */
    uint32_t block_tokens;
    struct advisor_position taken;     /* into the group, or before */
    struct advisor_position committed; /* behind `taken` while messages are held back */
    struct advisor_inbox_item *ready[ADVISOR_INTAKE_READY]; /* polled, and not taken yet */
    size_t ready_at;
    size_t ready_count;
    struct advisor_source_counts counts;
    uint64_t item_ms;  /* time of the newest message taken */
    uint64_t goal_seq; /* last sequence of the stream when it was first seen */
    bool kept;         /* read from a stream, which keeps what was sent while we were away */
    bool goal_known;
    uint32_t tellings; /* snapshots of its cluster that came */
    bool telling;      /* one of them is on its way */
    bool told;         /* a snapshot came; the stream that follows it did not begin yet */
    bool reached;      /* all that was in the stream at the start is applied */
    uint32_t publishers;
    uint32_t uncertain;
};

struct advisor_sources;

KVT_NODISCARD enum kvt_err advisor_sources_new(struct advisor_sources **out,
                                               struct kvt_metrics *metrics);
/** Whoever waits in one of them returns soon.  NULL is allowed. */
void advisor_sources_stop(struct advisor_sources *sources);
/** Closes them all.  NULL is allowed. */
void advisor_sources_free(struct advisor_sources *sources);

/**
 * Open a source and add it.  One that cannot be opened is added as failed: the others go on.
 *
 * @param own_bus  closed with the table; NULL: the options' bus is another's
 * @return KVT_OK, KVT_FULL (ADVISOR_SOURCES_MAX), KVT_EXISTS (the name is taken), KVT_NOMEM;
 *         `own_bus` is the caller's again then
 */
KVT_NODISCARD enum kvt_err advisor_sources_add(struct advisor_sources *sources,
                                               const struct advisor_source_ops *ops,
                                               const struct advisor_source_options *options,
                                               struct wire_bus *own_bus, uint32_t number,
                                               struct kvt_error *err);

/** Add one that is open already; it is closed with the table. */
KVT_NODISCARD enum kvt_err advisor_sources_adopt(struct advisor_sources *sources,
                                                 struct advisor_source *source, uint32_t number);

size_t advisor_sources_count(const struct advisor_sources *sources);
struct advisor_intake *advisor_sources_at(struct advisor_sources *sources, size_t at);
/** NULL: none of that number is open. */
struct advisor_intake *advisor_sources_by_number(struct advisor_sources *sources, uint32_t number);

/* ---- for people ---- */

enum advisor_source_status {
    ADVISOR_SOURCE_WAITING, /* for its server, its stream, its peers */
    ADVISOR_SOURCE_RUNNING,
    ADVISOR_SOURCE_FAILED, /* could not be opened: the settings are wrong */
};

struct advisor_source_view {
    char name[KVT_NAME_MAX];
    uint32_t number;  /* as publishers name it (advisor_foreign_row.source) */
    const char *kind; /* as in sources.file; constant text */
    char namespace_[KVT_NAMESPACE_MAX];
    enum advisor_source_status status;
    char detail[128]; /* why it is not running; or "" */
    struct advisor_source_counts counts;
    uint64_t received;          /* messages, also those that still wait in its queue */
    uint64_t waiting;           /* of them */
    uint64_t dropped;           /* messages there was no room for */
    uint64_t discovery_skipped; /* records the last scan of the folder could not use */
    uint64_t events_per_second;
    uint64_t applied_seq; /* JetStream */
    uint64_t committed_seq;
    uint64_t last_seq;
    uint64_t lag; /* JetStream: last_seq - applied_seq */
    uint32_t publishers;
    uint32_t uncertain; /* of those */
};

/** "waiting", "running", "failed". */
const char *advisor_source_status_name(enum advisor_source_status status);
/** Name of a reason an event is left out, as in /v1/sources and metrics: "unknown_kind", ... */
const char *advisor_source_why_name(enum wire_raw_why why);

/** Bring what is shown up to date; cheap, once a round. */
void advisor_sources_show(struct advisor_sources *sources, uint64_t now_ms);

/** Copy out, in the order they were added; at most ADVISOR_SOURCES_MAX. */
size_t advisor_sources_views(struct advisor_sources *sources,
                             struct advisor_source_view views[ADVISOR_SOURCES_MAX]);
/** The one called so; false: there is none. */
bool advisor_sources_view(struct advisor_sources *sources, const char *name,
                          struct advisor_source_view *view);

#endif /* ADVISOR_SOURCE_SOURCES_H */
