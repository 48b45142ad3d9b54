/*
 * kvtier/volume.h -- places blocks are kept in beside the pools, by a logical id.
 *
 * Why: a folder, a file, memory and an object store are asked alike: get, put, remove and look for
 * blocks by their names, several at once, without waiting.  Who asks knows a number; what is behind
 * it can come and go while the program runs.
 *
 * Whatever the kind: what a get returns with KVT_OK is what was put under that name, whole.  Kinds
 * of the library check that by length and crc32c, and a driver of the program must; what is not is
 * KVT_CORRUPT.  A get that was begun and is answered neither KVT_OK nor KVT_NOTFOUND leaves zeroes.
 *
 * Ownership: a registered volume belongs to the set, until it is unregistered.  Items and their
 *            bytes are borrowed until the ticket is finished; a ticket may outlive its volume.
 * Threads:   any; one thread a volume, which alone calls its driver (but `stop`).  A slow volume
 *            holds up nobody but those who ask it.
 * Limits:    KVT_VOLUMES_MAX volumes; `queue_max` tickets wait on one (KVT_AGAIN beyond);
 *            KVT_VOLUME_ITEMS_MAX items a request; all blocks of a volume have one size.
 */
#ifndef KVTIER_VOLUME_H
#define KVTIER_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_VOLUMES_MAX      64
#define KVT_VOLUME_ITEMS_MAX 4096
#define KVT_VOLUME_SLICE     32 /* items a driver is given at once; a ticket can end between two */

enum kvt_volume_verb {
    KVT_VOLUME_GET,
    KVT_VOLUME_PUT,    /* first writer wins; one that is there, whole and durable: KVT_EXISTS */
    KVT_VOLUME_REMOVE, /* that block; another one of its hash stays */
    KVT_VOLUME_HAS,    /* is it there?  Its bytes are not read, and so not checked */
    KVT_VOLUME_VERB_COUNT
};

struct kvt_volume_item {
    struct kvt_block_id id;
    void *bytes;         /* get: filled; put: read from; else NULL */
    size_t size;         /* the volume's block size; remove and has: 0 */
    enum kvt_err status; /* out: KVT_OK, KVT_EXISTS (put), KVT_PRECONDITION (put: a block at another
                            place has this hash), KVT_NOTFOUND, KVT_CORRUPT, KVT_FULL,
                            KVT_CANCELLED (not begun), KVT_IO, KVT_UNAVAILABLE ... */
};

/* ---- volumes ---- */

struct kvt_volume;

enum kvt_volume_kind {
    KVT_VOLUME_RAM = 1,       /* goes with the process */
    KVT_VOLUME_FILE = 2,      /* fixed slots in one file, and an index beside it (`path`.index) */
    KVT_VOLUME_DIRECTORY = 3, /* a file a block, so that other programs can copy and delete them */
    KVT_VOLUME_PEER = 4,      /* a volume of another process, which shows it: kvt_peer_open() */
};

struct kvt_volume_options {
    size_t size; /* of this structure */
    enum kvt_volume_kind kind;
    const char *path;     /* of the file (its folder exists), the folder or the peer's socket */
    uint32_t blocks;      /* the next put is KVT_FULL; not of PEER */
    uint64_t block_size;  /* bytes; a multiple of KVT_STORAGE_ALIGN but for DIRECTORY */
    uint64_t fingerprint; /* of what the blocks mean; what has another one is not found */
    uint64_t number;      /* PEER: of the volume in the peer's set */
    uint64_t timeout_ms;  /* PEER: for each step of a message; 0 = 5000 */
};

/** What is stored in a FILE or DIRECTORY is durable when its put is answered, and found again by
 *  the next process; one process at a time.
 *
 *  @return KVT_OK; KVT_INVALID, KVT_RANGE, KVT_UNSUPPORTED (the file system cannot, members this
 *          library does not know), KVT_BUSY, KVT_IO, KVT_FULL, KVT_NOMEM, with *out NULL */
KVT_NODISCARD enum kvt_err kvt_volume_open(struct kvt_volume **out,
                                           const struct kvt_volume_options *options,
                                           struct kvt_error *err);

/* A kind of the program's own, an object store for example.  At most KVT_VOLUME_SLICE items a call,
 * each of which gets its status. */
struct kvt_volume_driver {
    size_t size; /* of this structure */
    void (*get)(void *context, struct kvt_volume_item *items, size_t count);
    void (*put)(void *context, struct kvt_volume_item *items, size_t count);
    void (*remove)(void *context, struct kvt_volume_item *items, size_t count); /* NULL: cannot */
    void (*stop)(void *context);  /* any thread: end what is under way soon; may be NULL */
    void (*close)(void *context); /* may be NULL */
    void (*has)(void *context, struct kvt_volume_item *items, size_t count); /* NULL: cannot */
};

/** `context` is the driver's on KVT_OK: `close` ends it. */
KVT_NODISCARD enum kvt_err kvt_volume_open_driver(struct kvt_volume **out,
                                                  const struct kvt_volume_driver *driver,
                                                  void *context, uint64_t block_size,
                                                  struct kvt_error *err);

/** For one that is not registered.  NULL is allowed. */
void kvt_volume_close(struct kvt_volume *volume);

/* ---- the set ---- */

struct kvt_volumes;

struct kvt_volume_request {
    size_t size;     /* of this structure */
    uint64_t volume; /* its number */
    enum kvt_volume_verb verb;
    struct kvt_volume_item *items;
    size_t count;             /* 1 .. KVT_VOLUME_ITEMS_MAX */
    int event_fd;             /* of eventfd(2): 1 is added when it ends; 0: none */
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
};

struct kvt_volume_stats {
    size_t size;   /* of this structure, in */
    uint64_t hits; /* items that were got, or are there */
    uint64_t misses;
    uint64_t corrupt;
    uint64_t failed; /* gets, puts and removes that ended in another way */
    uint64_t stored;
    uint64_t existed;
    uint64_t removed;
    uint64_t cancelled; /* items that were not begun */
    uint64_t waiting;   /* tickets */
};

/** KVT_OK, or KVT_NOMEM with *out NULL. */
KVT_NODISCARD enum kvt_err kvt_volumes_new(struct kvt_volumes **out, struct kvt_error *err);

/** Unregisters what is there, cancelling.  NULL is allowed; nobody may be inside another call. */
void kvt_volumes_free(struct kvt_volumes *set);

/**
 * Give a volume a number.  On KVT_OK it is the set's, otherwise still the caller's.
 *
 * @param queue_max  tickets that wait; at least 1
 * @return KVT_OK; KVT_EXISTS (the number is taken, perhaps by one that is just leaving), KVT_FULL,
 *         KVT_INVALID, KVT_NOMEM, KVT_AGAIN (no thread)
 */
KVT_NODISCARD enum kvt_err kvt_volumes_register(struct kvt_volumes *set, uint64_t id,
                                                struct kvt_volume *volume, size_t queue_max,
                                                struct kvt_error *err);

/**
 * Take a volume away and close it.  From now on nobody finds it; what was asked before is finished
 * first, or, with `cancel`, ends as cancelled but for the slice that is under way.  Returns when
 * every ticket is finished and nothing touches items or volume any more.
 *
 * @return KVT_OK or KVT_NOTFOUND
 */
KVT_NODISCARD enum kvt_err kvt_volumes_unregister(struct kvt_volumes *set, uint64_t id,
                                                  bool cancel);

/**
 * Ask, waiting up to `wait_ms` for room in the queue.  The ticket's result is KVT_OK when every
 * item is OK or EXISTS, else the status of the first that is not.
 *
 * @param[out] ticket  NULL on failure
 * @return KVT_OK; KVT_AGAIN (no room), KVT_NOTFOUND (no such volume), KVT_INVALID (no items, too
 *         many, or of another size than the volume's), KVT_UNSUPPORTED (remove, has; members
 *         this library does not know), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_volumes_start(struct kvt_volumes *set,
                                             const struct kvt_volume_request *request,
                                             uint64_t wait_ms, struct kvt_ticket **ticket,
                                             struct kvt_error *err);

/** Start, wait for room and for the end.  What is not started is the status of every item. */
KVT_NODISCARD enum kvt_err kvt_volumes_run(struct kvt_volumes *set,
                                           const struct kvt_volume_request *request,
                                           struct kvt_error *err);

/** KVT_OK, or KVT_NOTFOUND with all zero. */
KVT_NODISCARD enum kvt_err kvt_volumes_stats(struct kvt_volumes *set, uint64_t id,
                                             struct kvt_volume_stats *stats);

/* ---- for other processes ---- */

struct kvt_peer;

struct kvt_peer_options {
    size_t size;             /* of this structure */
    const char *path;        /* of the socket; one that a dead process left is replaced */
    struct kvt_volumes *set; /* borrowed, until the peer is closed */
    uint64_t fingerprint;    /* of what the blocks mean; who asks for another one is refused */
    uint64_t timeout_ms;     /* for a message that has begun; 0 = 5000 */
};

/** Show a set's volumes to processes of this user on this machine, 16 at most at once.
 *
 *  @return KVT_OK; KVT_BUSY (somebody listens there), KVT_INVALID, KVT_RANGE (the path is too
 *          long), KVT_UNSUPPORTED (members this library does not know), KVT_IO, KVT_NOMEM, with
 *          *out NULL */
KVT_NODISCARD enum kvt_err
kvt_peer_open(struct kvt_peer **out, const struct kvt_peer_options *options, struct kvt_error *err);

/** Hangs up, also in the middle of a message.  NULL is allowed. */
void kvt_peer_close(struct kvt_peer *peer);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_VOLUME_H */
