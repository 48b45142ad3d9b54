/*
 * advisor/archive/nats_snapshot.h -- snapshots of the index in a NATS object store, and a start
 * from one.
 *
 * Why: an advisor that lost its folder, or a new one, would ask every worker for all it holds, and
 * never learn what those held that are away just then.  So one of the advisors puts an export of
 * its index (advisor/archive/index_export.h) beside the stream now and then, with the sequence of
 * the stream it stands for; who starts with an empty folder imports the newest and follows the
 * stream from there.
 *
 * A bucket has two objects, ADVISOR_NATS_SNAPSHOT_OBJECTS, and the older is replaced: so one that
 * turns out to be broken is not the only one.  Any number of advisors may share a bucket.  Who
 * finds that a snapshot is due, by what lies there, makes one; it counts only if nobody replaced
 * that object meanwhile, and if it stands for more than the other one.
 *
 * Ownership: store, memory and bus are borrowed and outlive the deposit.
 * Threads:   one of its own; start and stop on one thread.
 * Limits:    an object of `size_max` bytes; a page of the export in memory.
 */
#ifndef ADVISOR_ARCHIVE_NATS_SNAPSHOT_H
#define ADVISOR_ARCHIVE_NATS_SNAPSHOT_H

#include <stdint.h>

#include "advisor/index/advisor_counters.h"
#include "advisor/index/ram_index.h"
#include "advisor/store/durable_store.h"
#include "kvtier/error.h"
#include "wire/nats/object.h"

#define ADVISOR_NATS_SNAPSHOT_OBJECTS 2
#define ADVISOR_NATS_SNAPSHOT_FILE    "deposit.part" /* what is fetched, in the folder */

struct wire_bus;
struct advisor_nats_snapshot;

struct advisor_nats_snapshot_options {
    struct wire_bus *bus;
    struct advisor_store *store;
    struct advisor_ram_index *memory;
    const struct advisor_counters *counters;
    const char *bucket;
    uint64_t events;   /* messages of the stream behind the last snapshot until the next */
    uint64_t every_ms; /* the same as a time, where there was any message */
    uint64_t size_max; /* bytes */
};

KVT_NODISCARD enum kvt_err
advisor_nats_snapshot_start(struct advisor_nats_snapshot **out,
                            const struct advisor_nats_snapshot_options *options,
                            struct kvt_error *err);

/** Ends soon, also in the middle of a snapshot, which is not there then.  NULL is allowed. */
void advisor_nats_snapshot_stop(struct advisor_nats_snapshot *deposit);

struct advisor_restore_options {
    struct wire_bus *bus;
    const char *bucket;
    const char *path;   /* the advisor's state.dir */
    uint64_t map_bytes; /* db.max */
    uint64_t size_max;
    uint64_t wait_ms; /* for NATS */
};

/**
 * Before the store is opened: make an index of the newest snapshot that is whole, in a folder that
 * has none.  What comes of it is in the log; without a snapshot the start is the usual one.
 *
 * @return KVT_OK: the index stands for the snapshot; KVT_EXISTS: there is one already; else nothing
 *         was changed: KVT_NOTFOUND (no snapshot that can be followed by the stream), KVT_BUSY (an
 *         advisor runs there), KVT_UNAVAILABLE (NATS), and what importing may give
 */
enum kvt_err advisor_nats_snapshot_restore(const struct advisor_restore_options *options);

/* ---- what both sides know ---- */

/* An object, as it describes itself. */
struct advisor_nats_snapshot_object {
    struct wire_object_info info;
    bool readable;       /* it is a snapshot of some format */
    uint64_t seq;        /* of the stream: what came up to here is in it */
    uint64_t created_ms; /* which stream that was */
    uint64_t format;     /* ADVISOR_INDEX_EXPORT_VERSION of who wrote it */
};

#define ADVISOR_NATS_SNAPSHOT_NAME_MAX 16

/** What lies in the bucket.  KVT_OK, also where nothing does, or NATS' failure. */
KVT_NODISCARD enum kvt_err advisor_nats_snapshot_read(
    struct wire_bus *bus, const char *bucket,
    struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    struct kvt_error *err);

/** Of the stream made at `created_ms` the readable one with the highest sequence below `below`, or
 *  NULL. */
const struct advisor_nats_snapshot_object *advisor_nats_snapshot_newest(
    const struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    uint64_t created_ms, uint64_t below);

#endif /* ADVISOR_ARCHIVE_NATS_SNAPSHOT_H */
