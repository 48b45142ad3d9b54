/*
 * engine/memory/fabric.h -- memory of other processes, read and filled one-sided.
 *
 * Why: what one instance holds another pulls, without the holder's help and without a copy through
 * a socket where the two share a machine.  UCX knows how: shared memory on one machine, RDMA or TCP
 * between two.  A *region* is memory of this process that others may read; its *description* is
 * bytes that travel by whatever channel there is; a *window* is somebody else's region, imported.
 *
 * Memory that is somebody's is only ever read, and changes by its owner's hand alone: a peer that
 * dies in the middle of something leaves no half-written block behind.  What was read is what lay
 * there at that time: whether it is still the block that was asked for, engine/memory/blockset.h
 * finds out.
 * What others put arrives in a *landing*, a region that is for nothing else.  It cannot be taken
 * back from them, so a landing's bytes are worth nothing until they were copied out and found right
 * (engine/grant/grant.h).
 *
 * Rails: two UCX workers.  The near one has shared memory, where reading is a copy of our own and
 * needs nobody; death of the owner goes unnoticed by it, and what it had is still there.  The far
 * one has everything else; a peer that dies fails what is in flight, and over TCP an owner's thread
 * copies what is asked for.  A window takes the near rail when its owner can be reached there.
 *
 * Ownership: a fabric outlives its regions and windows (asserted).  A move's memory is the caller's
 *            until its ticket is finished: not before is it certain that nothing more arrives.
 * Threads:   any; the fabric has one thread, which alone sees UCX's workers.  `done` of a move runs
 *            on it, and must neither wait nor call the fabric.
 * Limits:    ENGINE_FABRIC_REGIONS_MAX regions in a fabric's life, ENGINE_FABRIC_WINDOWS_MAX
 *            windows, ENGINE_FABRIC_WAITING_MAX moves that are not finished, ENGINE_FABRIC_FLIGHT
 *            of their parts asked of UCX at once.  No move waits longer than
 *            ENGINE_FABRIC_WAIT_MAX_MS: an owner that is stopped never says so.
 */
#ifndef ENGINE_MEMORY_FABRIC_H
#define ENGINE_MEMORY_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/ticket.h"

#define ENGINE_FABRIC_REGIONS_MAX     1024
#define ENGINE_FABRIC_WINDOWS_MAX     1024
#define ENGINE_FABRIC_WAITING_MAX     1024
#define ENGINE_FABRIC_FLIGHT          64
#define ENGINE_FABRIC_PARTS_MAX       4096 /* of one move */
#define ENGINE_FABRIC_WAIT_MAX_MS     60000
#define ENGINE_FABRIC_DESCRIPTION_MAX 4096 /* bytes */

struct engine_fabric;
struct engine_region;
struct engine_window;

struct engine_fabric_options {
    /* UCX transports; NULL: those that UCX has here, of "sysv,posix,self" (near) and "tcp,rc,ud,dc"
     * (far); "": no such rail */
    const char *near;
    const char *far;
    uint64_t wait_max_ms; /* instead of ENGINE_FABRIC_WAIT_MAX_MS; 0: that */
};

/** KVT_OK; KVT_UNSUPPORTED (UCX has neither rail here); KVT_NOMEM; the system's. */
KVT_NODISCARD enum kvt_err engine_fabric_open(struct engine_fabric **out,
                                              const struct engine_fabric_options *options,
                                              struct kvt_error *err);

/** NULL is allowed. */
void engine_fabric_close(struct engine_fabric *fabric);

/**
 * Memory that others may read, zeroed, aligned to 4,096.
 *
 * @param size  bytes, a multiple of 4,096
 * @return KVT_OK, KVT_INVALID (size), KVT_FULL, KVT_NOMEM (also: no shared memory left here)
 */
KVT_NODISCARD enum kvt_err engine_region_open(struct engine_region **out,
                                              struct engine_fabric *fabric, size_t size,
                                              struct kvt_error *err);

/** The same, a landing: others may put into it, too. */
KVT_NODISCARD enum kvt_err engine_landing_open(struct engine_region **out,
                                               struct engine_fabric *fabric, size_t size,
                                               struct kvt_error *err);

/** Copy out what others have put, and know to be there.  What is put from afar meanwhile comes
 *  before it or behind it. */
void engine_landing_take(struct engine_region *region, size_t offset, void *into, size_t size);

void *engine_region_address(const struct engine_region *region);

/** What a peer needs to read it.  `*size` is how many bytes of `out` are used.  Who reads with it
 *  sees all that this thread wrote before. */
void engine_region_describe(const struct engine_region *region,
                            uint8_t out[ENGINE_FABRIC_DESCRIPTION_MAX], size_t *size);

/** Moves of others that are on their way fail, or read what lay there before, or zeros: its place
 *  is kept, without memory, while the fabric is open, since who reads from afar is not asked to
 *  stop.  What is put into a landing's place is nobody's.  NULL is allowed. */
void engine_region_close(struct engine_region *region);

/**
 * Import a description.
 *
 * @return KVT_OK; KVT_INVALID (no description, or of another version); KVT_CORRUPT (its checksum);
 *         KVT_UNAVAILABLE (no rail reaches its owner); KVT_FULL; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_window_open(struct engine_window **out,
                                              struct engine_fabric *fabric, const uint8_t *bytes,
                                              size_t size, struct kvt_error *err);

size_t engine_window_size(const struct engine_window *window);

/** Where it lies in this process's memory, to be read there without a move: of the near rail where
 *  UCX can; else NULL.  What the owner writes is seen as it is written. */
const void *engine_window_memory(const struct engine_window *window);

/** Every move of it must be finished (asserted).  NULL is allowed. */
void engine_window_close(struct engine_window *window);

/* One run of bytes. */
struct engine_fabric_part {
    void *host;          /* where to; of a put, where from */
    uint64_t offset;     /* in the window */
    size_t size;         /* bytes; not 0 */
    bool after;          /* begun only when every part before it has arrived */
    enum kvt_err status; /* out: KVT_OK, KVT_UNAVAILABLE (the owner died or cannot be reached),
                            KVT_TIMEOUT, KVT_CANCELLED, KVT_IO; what was to be written is undefined
                            unless OK */
};

struct engine_fabric_move {
    struct engine_window *window;
    struct engine_fabric_part *parts; /* the caller's until the ticket is finished */
    size_t count;
    uint64_t wait_ms;         /* what is not there by then, or ENGINE_FABRIC_WAIT_MAX_MS from now,
                                 is KVT_TIMEOUT */
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
    bool put; /* from `host` into the window; the ticket ends when the bytes are there */
};

/**
 * Begin to read, or to put.  Parts move in any order, but for those that come `after` others.
 *
 * @return KVT_OK; KVT_INVALID (no part, too many, one of 0 bytes); KVT_DENIED (a put into what is
 *         no landing); KVT_RANGE (one beyond the window); KVT_AGAIN (as many wait as may);
 *         KVT_NOMEM.  `*ticket` is NULL on failure.
 */
KVT_NODISCARD enum kvt_err engine_fabric_start(struct engine_fabric *fabric,
                                               const struct engine_fabric_move *move,
                                               struct kvt_ticket **ticket);

/** The same, and wait: the first status that is not KVT_OK. */
enum kvt_err engine_fabric_run(struct engine_fabric *fabric,
                               const struct engine_fabric_move *request);

#endif /* ENGINE_MEMORY_FABRIC_H */
