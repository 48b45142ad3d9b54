/*
 * kvbm/volume/volume_set.h -- places blocks are kept in beside the pools, by a logical id.
 *
 * Why: a folder, a file, memory and an object store behind a gateway are asked alike: get, put and
 * remove blocks by their names, several at once, without waiting.  Who asks knows a number; what is
 * behind it can come and go while the program runs.
 *
 * A volume is a table of functions (`struct kvbm_volume_driver`), so that the kinds need not know
 * each other and one that stands on the object tier can live where that may be seen
 * (worker/object/gateway_volume.h).  Whatever the kind: what a get returns with KVT_OK is what was
 * put under that name, whole, by length and crc32c; what is not is KVT_CORRUPT and leaves zeroes,
 * no bytes.
 *
 * Verbs, items, limits and counters are those of kvtier/volume.h.
 *
 * Ownership: a registered volume belongs to the set, until it is unregistered.  Items and their
 *            bytes are borrowed until the ticket is finished.  Tickets: kvtier/ticket.h; one may
 *            outlive its volume.
 * Threads:   any thread may call; one thread a volume, which alone calls its driver (but `stop`).
 *            A slow volume holds up nobody but those who ask it.
 * Limits:    KVT_VOLUMES_MAX volumes; `queue_max` tickets wait on one (KVT_AGAIN beyond);
 *            KVT_VOLUME_ITEMS_MAX items in one request; all blocks of a volume have one size.
 */
#ifndef KVBM_VOLUME_VOLUME_SET_H
#define KVBM_VOLUME_VOLUME_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/volume.h"

struct kvbm_volume;

/* At most KVT_VOLUME_SLICE items, each of which gets its status. */
struct kvbm_volume_driver {
    const char *kind;
    void (*get)(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count);
    void (*put)(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count);
    /** NULL: it cannot. */
    void (*remove)(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count);
    /** Any thread: end what is under way soon.  NULL: it ends soon by itself. */
    void (*stop)(struct kvbm_volume *volume);
    void (*close)(struct kvbm_volume *volume);
    /** NULL: it cannot. */
    void (*has)(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count);
};

/* The head of every kind. */
struct kvbm_volume {
    const struct kvbm_volume_driver *driver;
    size_t block_size;
};

/** NULL is allowed.  For one that is not registered. */
void kvbm_volume_close(struct kvbm_volume *volume);

/* The set ---------------------------------------------------------------------------------- */

struct kvbm_volumes;

struct kvbm_volume_request {
    uint64_t volume;
    enum kvt_volume_verb verb;
    struct kvt_volume_item *items;
    size_t count;
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
    int event_fd; /* of eventfd(2): 1 is added when it ends; 0: none */
};

KVT_NODISCARD enum kvt_err kvbm_volumes_new(struct kvbm_volumes **out, struct kvt_error *err);

/** Unregisters what is there, cancelling.  NULL is allowed; nobody may be inside another call. */
void kvbm_volumes_free(struct kvbm_volumes *set);

/**
 * Give a volume a number.  On KVT_OK it is the set's, otherwise still the caller's.
 *
 * @param queue_max  tickets that wait; at least 1
 * @return KVT_OK, KVT_EXISTS (the number is taken, perhaps by one that is just leaving), KVT_FULL,
 *         KVT_INVALID, KVT_NOMEM, KVT_AGAIN
 */
KVT_NODISCARD enum kvt_err kvbm_volumes_register(struct kvbm_volumes *set, uint64_t id,
                                                 struct kvbm_volume *volume, size_t queue_max,
                                                 struct kvt_error *err);

/**
 * Take a volume away and close it.  From now on nobody finds it; what was asked before is finished
 * first, or, with `cancel`, ends as cancelled but for the slice that is under way.  Returns when
 * every ticket is finished and nothing touches items or volume any more.
 *
 * @return KVT_OK or KVT_NOTFOUND
 */
KVT_NODISCARD enum kvt_err kvbm_volumes_unregister(struct kvbm_volumes *set, uint64_t id,
                                                   bool cancel);

/**
 * Ask, waiting up to `wait_ms` for room in the queue.  The ticket's result is KVT_OK when every
 * item is OK or EXISTS, else the status of the first that is not.
 *
 * @param[out] ticket  NULL on failure
 * @return KVT_OK, KVT_AGAIN (no room), KVT_NOTFOUND (no such volume), KVT_INVALID (no items, too
 *         many, or of another size than the volume's), KVT_UNSUPPORTED (remove, has), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvbm_volumes_start(struct kvbm_volumes *set,
                                              const struct kvbm_volume_request *request,
                                              uint64_t wait_ms, struct kvt_ticket **ticket);

/** Start, wait for room and for the end. */
KVT_NODISCARD enum kvt_err kvbm_volumes_run(struct kvbm_volumes *set,
                                            const struct kvbm_volume_request *request);

/** KVT_OK or KVT_NOTFOUND; `stats` is zero then. */
enum kvt_err kvbm_volumes_stats(struct kvbm_volumes *set, uint64_t id,
                                struct kvt_volume_stats *stats);

#endif /* KVBM_VOLUME_VOLUME_SET_H */
