/*
 * gateway/catalog/catalog.h -- what this gateway stored, durably, and the events that follow from
 * it.
 *
 * Why: caps, reads, orders and events must agree after any crash.  So one LMDB transaction changes
 * an object's row, the byte counters and the outbox of events together, and the events are not
 * composed by callers: they are the difference between what a reader could see before and after.
 *
 * Ownership: changes and rows are the caller's; the catalog owns its environment and writer thread.
 * Threads:   any thread reads in its own short transaction and hands changes to the one writer,
 * which commits many callers' changes as one group.  Changes of one key must be ordered by the
 *            caller (gateway/tier/key_lock.h).
 *            Events of each namespace are one stream, numbered on its own without holes.
 * Limits:    GATEWAY_STREAMS_MAX namespaces: a block of one more is KVT_FULL; `bytes_max` (a full
 *            catalog answers KVT_FULL to changes that reserve, and still takes removals);
 *            GATEWAY_CATALOG_KEEP sent events kept for range(), GATEWAY_CATALOG_BACKLOG unsent
 *            ones: beyond it the oldest are given up and counted.
 *            GATEWAY_CATALOG_ORDERS results of orders, those of the latest ones.  `owed_max` bytes
 *            of blocks that wait for their upload.  The cap of the bucket holds once all that the
 *            bucket has is counted (gateway_adoption_capped()).  Pinned bytes: the hot capacity by
 *            GATEWAY_PIN_SHARE.
 */
#ifndef GATEWAY_CATALOG_CATALOG_H
#define GATEWAY_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/catalog/catalog_record.h"
#include "kvtier/error.h"
#include "kvtier/key.h"
#include "kvtier/order.h"

/* Rows that orders deleted without a cause that can be checked, by minutes (Unix). */
#define GATEWAY_DELETION_SLOTS 61 /* any full hour lies within them */

struct gateway_deletion_slot {
    uint64_t minute;
    uint64_t rows;
};

struct gateway_deletions {
    struct gateway_deletion_slot slots[GATEWAY_DELETION_SLOTS]; /* at minute % SLOTS */
};

/* How far the rows cover what the bucket has; kept with the rows (gateway/care/adoption.h). */
enum gateway_adoption_state {
    GATEWAY_ADOPTION_UNSEEN,  /* the bucket was not looked at yet */
    GATEWAY_ADOPTION_NEEDED,  /* it has objects that no row counts */
    GATEWAY_ADOPTION_RUNNING, /* also after a restart */
    GATEWAY_ADOPTION_STOPPED, /* `why`; goes on when it is asked to */
    GATEWAY_ADOPTION_DONE,
};

#define GATEWAY_ADOPTION_STATES 5

struct gateway_adoption_mark {
    enum gateway_adoption_state state;
    bool whole;       /* a walk came to its end once, or there was nothing to take up */
    enum kvt_err why; /* STOPPED: CANCELLED by somebody, FULL: the catalog is, else why
                         objects could not be asked for */
    uint64_t rate;    /* objects a second */
    uint64_t began_ms;
    uint64_t ended_ms; /* both Unix; 0 = never */
    uint64_t listed;   /* objects passed; each is one of those that follow, or gone meanwhile */
    uint64_t known;    /* had a row */
    uint64_t adopted;  /* have one through this walk */
    uint64_t adopted_bytes;
    uint64_t adopted_foreign; /* of adopted: blocks without our metadata */
    uint64_t adopted_opaque;  /* of adopted: no blocks */
    uint64_t passed;          /* locks, commit records, tombstones, what is the gateway's own */
    uint64_t damaged;         /* blocks that are not what was written: g4 fsck deals with them */
    uint64_t refused;         /* of namespaces for which there is no stream of events left */
    char after[KVT_KEY_MAX];  /* the last key that is done; "" = none */
};

/** Does the cap of the bucket hold?  Not while it has objects that are not counted. */
static inline bool
gateway_adoption_capped(const struct gateway_adoption_mark *mark)
{
    return mark->whole || mark->state == GATEWAY_ADOPTION_UNSEEN;
}

#define GATEWAY_STREAMS_MAX     32
#define GATEWAY_CATALOG_KEEP    65536
#define GATEWAY_CATALOG_BACKLOG 1000000
#define GATEWAY_CATALOG_ORDERS  1024

struct gateway_catalog;

struct gateway_catalog_options {
    const char *path;
    uint64_t bytes_max;
    uint64_t capacity[GATEWAY_TIERS]; /* 0: no such volume; of a bucket: no cap */
    enum kvt_key_revision revision;
    uint64_t owed_max; /* bytes of blocks owed to the bucket; 0: none may be */
    uint64_t keep;     /* 0 = GATEWAY_CATALOG_KEEP */
    uint64_t backlog;  /* 0 = GATEWAY_CATALOG_BACKLOG */
};

KVT_NODISCARD enum kvt_err gateway_catalog_open(struct gateway_catalog **out,
                                                const struct gateway_catalog_options *options,
                                                struct kvt_error *err);
/** Finishes the changes handed in, syncs, frees.  NULL is allowed. */
void gateway_catalog_close(struct gateway_catalog *catalog);

/* One row to be written or erased. */
struct gateway_change {
    const char *key;
    bool erase;
    /* Count against the caps: beyond that of a bucket, or with a full catalog, the row is not
     * written and `status` is KVT_FULL; beyond that of a volume its bit is taken out of
     * record.tiers, and with the last of them, or beyond owed_max, record.owed.  What the old row
     * took of a tier the new one may take. */
    bool reserve;
    bool firm;           /* with `reserve`: beyond a volume's cap it is KVT_FULL too */
    bool only_if_absent; /* an existing row stays as it is: KVT_EXISTS; but a foreign one that is
                            STORED yields to one that is not foreign */
    bool unsynced;       /* with the row goes a note that its hot copy is not synced yet */
    struct gateway_record record;
    enum kvt_err status; /* out */
};

enum gateway_catalog_wait {
    GATEWAY_APPLIED, /* readers see it, and it survives the end of the process */
    GATEWAY_DURABLE, /* it survives a power cut */
};

/** Write the rows as one transaction.  KVT_OK: look at each status; otherwise none was written. */
KVT_NODISCARD enum kvt_err gateway_catalog_change(struct gateway_catalog *catalog,
                                                  struct gateway_change *changes, size_t count,
                                                  enum gateway_catalog_wait wait);

/** KVT_OK, KVT_NOTFOUND or KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_get(struct gateway_catalog *catalog, const char *key,
                                               struct gateway_record *record);

struct gateway_row {
    char key[KVT_KEY_MAX];
    struct gateway_record record;
};

struct gateway_scan {
    char after[KVT_KEY_MAX]; /* in: start behind this key ("" = first); out: the last key visited */
    const char *prefix;      /* NULL: all keys */
    bool pending;            /* only rows that are to be settled */
    unsigned tiers;          /* only rows with one of these tiers; 0 = all */
    struct gateway_row *rows;
    size_t capacity;
    size_t count; /* out */
    bool end;     /* out: nothing follows */
};

/** Next page, in key order.  At most GATEWAY_SCAN_VISITS rows are looked at in one call. */
KVT_NODISCARD enum kvt_err gateway_catalog_scan(struct gateway_catalog *catalog,
                                                struct gateway_scan *scan);

#define GATEWAY_SCAN_VISITS 8192

/* Where a walk through the backlog is. */
struct gateway_backlog_cursor {
    uint64_t modified_ms;
    char key[KVT_KEY_MAX]; /* the row visited last; "" starts with the oldest */
};

/** Next rows that wait for their upload, oldest first; `count` 0: nothing follows.  KVT_OK, KVT_IO.
 */
KVT_NODISCARD enum kvt_err gateway_catalog_backlog(struct gateway_catalog *catalog,
                                                   struct gateway_backlog_cursor *cursor,
                                                   struct gateway_row *rows, size_t capacity,
                                                   size_t *count);

struct gateway_stream {
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t first_seq; /* oldest event kept */
    uint64_t next_seq;
    uint64_t acked_seq;
    uint64_t durable_seq; /* rows read from now on include at least these */
    uint64_t lost;        /* events given up unsent */
};

/** Streams are numbered from 0 in the order their namespaces came.  False: no such stream. */
bool gateway_catalog_stream(struct gateway_catalog *catalog, uint32_t number,
                            struct gateway_stream *stream);

/** Durable events from `from` on, at most `capacity`.  The first may be later than `from`. */
KVT_NODISCARD enum kvt_err gateway_catalog_events(struct gateway_catalog *catalog, uint32_t stream,
                                                  uint64_t from, struct gateway_event *events,
                                                  size_t capacity, size_t *count);

/** Everything of the stream up to `seq` is on the bus; does not wait. */
void gateway_catalog_acked(struct gateway_catalog *catalog, uint32_t stream, uint64_t seq);

/** Make `epoch` the highest one seen, durably.  KVT_DENIED: a higher one is known. */
KVT_NODISCARD enum kvt_err gateway_catalog_epoch(struct gateway_catalog *catalog, uint64_t epoch);

/** Keep what became of an order, durably. */
KVT_NODISCARD enum kvt_err gateway_catalog_finished(struct gateway_catalog *catalog,
                                                    const struct kvt_order_result *result);

/** What became of it: KVT_OK, KVT_NOTFOUND (not finished, or long ago) or KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_recall(struct gateway_catalog *catalog, uint64_t epoch,
                                                  uint64_t id, struct kvt_order_result *result);

/** What was kept last; all 0: nothing was.  KVT_OK or KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_deletions(struct gateway_catalog *catalog,
                                                     struct gateway_deletions *deletions);

/** Keep them, durably. */
KVT_NODISCARD enum kvt_err
gateway_catalog_keep_deletions(struct gateway_catalog *catalog,
                               const struct gateway_deletions *deletions);

/**
 * Write rows of what the bucket has, those that are there already left alone, and how far the walk
 * came, as one transaction.  What became of the rows is added to the mark: adopted, known, refused.
 *
 * @param changes  with `only_if_absent`; may be none
 * @return KVT_OK: gateway_catalog_adoption() tells the new mark; otherwise nothing was written
 */
KVT_NODISCARD enum kvt_err gateway_catalog_adopt(struct gateway_catalog *catalog,
                                                 struct gateway_change *changes, size_t count,
                                                 const struct gateway_adoption_mark *mark,
                                                 enum gateway_catalog_wait wait);

/** How far the rows cover what the bucket has.  A catalog of an older gateway counts as whole. */
void gateway_catalog_adoption(struct gateway_catalog *catalog, struct gateway_adoption_mark *mark);

/* Of the hot capacity one part in so many may be pinned: the rest is for what comes and goes. */
#define GATEWAY_PIN_SHARE 2

/**
 * Keep a block from orders, durably.  A pin that is there already ends when this one says.
 *
 * @param until_ms  Unix; 0: gateway_catalog_unpin() ends it, or the row's removal
 * @return KVT_OK; KVT_NOTFOUND: no such row, or one that is not STORED; KVT_FULL: one more than may
 *         be pinned, or a full catalog; KVT_IO
 */
KVT_NODISCARD enum kvt_err gateway_catalog_pin(struct gateway_catalog *catalog, const char *key,
                                               uint64_t until_ms);

/** KVT_OK also when it was not pinned. */
KVT_NODISCARD enum kvt_err gateway_catalog_unpin(struct gateway_catalog *catalog, const char *key);

/** Is it pinned at this time?  KVT_OK; KVT_NOTFOUND; KVT_IO.  `until_ms`: 0 for one without end. */
KVT_NODISCARD enum kvt_err gateway_catalog_pinned(struct gateway_catalog *catalog, const char *key,
                                                  uint64_t now_ms, uint64_t *until_ms);

/** Called with each pin's key; false: no more. */
typedef bool gateway_pin_fn(void *arg, const char *key, uint64_t until_ms);
/** Pins that did not end by then, in the order of their keys, from behind `after` ("": from the
 *  first).  KVT_OK or KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_pins(struct gateway_catalog *catalog, const char *after,
                                                uint64_t now_ms, gateway_pin_fn *callback,
                                                void *arg);

/** Forget pins that ended by then, a bounded number a call. */
KVT_NODISCARD enum kvt_err gateway_catalog_expire_pins(struct gateway_catalog *catalog,
                                                       uint64_t now_ms);

/* A hot copy that a power cut may take, or leave in part. */
struct gateway_unsynced_row {
    char key[KVT_KEY_MAX];
    uint64_t writing; /* tells it from one that is written later */
    uint64_t length;
};

/** Next ones behind the key `after` ("" = first); `count` 0: nothing follows.  KVT_OK, KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_unsynced(struct gateway_catalog *catalog,
                                                    const char *after,
                                                    struct gateway_unsynced_row *rows,
                                                    size_t capacity, size_t *count);

/** These are synced, or gone. */
KVT_NODISCARD enum kvt_err gateway_catalog_synced(struct gateway_catalog *catalog,
                                                  const struct gateway_unsynced_row *rows,
                                                  size_t count);

#define GATEWAY_VOLUME_ID_TEXT 17

/** The volume, hot or warm, whose blocks these rows tell of.  KVT_OK, else "": KVT_NOTFOUND (none
 *  was named) or KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_catalog_volume(struct gateway_catalog *catalog,
                                                  enum gateway_tier tier,
                                                  char id[GATEWAY_VOLUME_ID_TEXT]);

/** Name it, 16 bytes, durably. */
KVT_NODISCARD enum kvt_err gateway_catalog_name_volume(struct gateway_catalog *catalog,
                                                       enum gateway_tier tier, const char *id,
                                                       struct kvt_error *err);

/** The far bucket that these rows, and events that were not sent yet, tell of.  As above, "" unless
 *  KVT_OK. */
KVT_NODISCARD enum kvt_err gateway_catalog_far(struct gateway_catalog *catalog,
                                               char bucket[KVT_NAME_MAX]);

/** Name it, durably. */
KVT_NODISCARD enum kvt_err gateway_catalog_name_far(struct gateway_catalog *catalog,
                                                    const char *bucket, struct kvt_error *err);

struct gateway_catalog_stats {
    uint64_t entries;
    uint64_t pending;             /* rows that are to be settled */
    uint64_t used[GATEWAY_TIERS]; /* bytes of blocks, reservations included */
    uint64_t blocks[GATEWAY_TIERS];
    uint64_t owed_blocks; /* to the bucket, reservations included */
    uint64_t owed_bytes;
    uint64_t pinned_blocks;
    uint64_t pinned_bytes;
    uint64_t pinned_max;  /* bytes */
    uint64_t pin_end_ms;  /* Unix: no pin ends sooner; 0: none does by itself */
    uint64_t pin_changes; /* pins that came or went, since it was opened */
    uint64_t unsynced_blocks;
    uint64_t unsynced_bytes;
    uint64_t bytes;
    uint64_t bytes_max;
    uint64_t incarnation; /* of all streams */
    uint64_t events;      /* made since the catalog was, all streams together */
    uint64_t events_acked;
    uint64_t events_lost;
    uint64_t epoch;
    bool full;
    bool failed; /* the last group could not be written */
};

void gateway_catalog_stats(struct gateway_catalog *catalog, struct gateway_catalog_stats *stats);

#endif /* GATEWAY_CATALOG_CATALOG_H */
