/*
 * g4/packed/packed_store_internal.h -- what the parts of g4/packed/packed_store.h share.
 *
 * Why: reading, listing and taking blocks out of the manifest are three files and one state.
 * Ownership: as said in place; a call is its request's until it is completed.
 * Threads:   as g4/packed/packed_store.h; a call belongs to one thread at a time.
 * Limits:    as g4/packed/packed_store.h.
 */
#ifndef G4_PACKED_PACKED_STORE_INTERNAL_H
#define G4_PACKED_PACKED_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/thread/queue.h"
#include "g4/packed/packed_store.h"

/* One packed namespace. */
struct g4_packed_space {
    char name[KVT_NAMESPACE_MAX];
    struct g4_packed *packed;
    _Atomic bool taken; /* somebody in this process has the lock, or tries to get it */
    atomic_bool hurry;  /* and is asked to give it back soon */
    bool settled;       /* a lock that a former life left was looked for; whoever took it */

    /* Of the thread that looks for manifests. */
    bool looked; /* for the calls it has in hand */
    enum kvt_err outcome;
    struct kvt_error error;

    /* Of the thread that takes blocks out of manifests: calls that wait for the lock. */
    struct {
        struct g4_packed_call *first;
        size_t count;
        uint64_t hurry_ms; /* monotonic; from then on who packs here is asked to stop */
        uint64_t try_ms;   /* monotonic; the lock is asked for again */
        uint64_t pause_ms; /* until then; 0: it was not asked for yet */
        struct kvt_error why;
    } waits;
};

struct g4_packed_store {
    struct g4_store *inner;
    struct g4_packed_space spaces[G4_PACKED_STORE_SPACES];
    size_t space_count;
    char instance[KVT_NAME_MAX];
    bool alone;
    uint64_t fresh_ms;
    uint64_t patience_ms;
    uint64_t opened_ms;
    struct kvt_queue *waiting;  /* calls that wait for the newest manifest */
    struct kvt_queue *retiring; /* calls whose block is to be taken out of it */
    uint64_t random;            /* of the thread that does that */
    pthread_t looker;
    pthread_t retirer;
    unsigned threads; /* of these two, that run */
    _Atomic bool stopping;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t changed;
        size_t calls; /* that are not completed */
        bool proved;
        struct g4_selftest selftest;
    } shared;
};

/* What a call does when it has what it waited for. */
enum g4_packed_step {
    G4_PACKED_READ,   /* GET, HEAD */
    G4_PACKED_WRITE,  /* PUT */
    G4_PACKED_DELETE, /* DELETE */
    G4_PACKED_LIST,   /* LIST */
};

/* A request that is not simply passed on. */
struct g4_packed_call {
    struct g4_packed_store *store;
    struct g4_packed_space *space; /* NULL: LIST */
    struct g4_request *request;    /* of whoever asked */
    enum g4_packed_step step;
    struct kvt_key key;
    uint64_t deadline_ms; /* monotonic */

    struct g4_request child; /* to the store below */
    char child_key[KVT_KEY_MAX];
    struct g4_packed_place place; /* READ: where the child reads, if `in_segment` */
    bool in_segment;
    unsigned tries;
    bool own_missing;            /* there was no object with the block's own key */
    bool met;                    /* WRITE: the manifest had the block */
    bool stored;                 /* WRITE: it was put, and the request has the answer */
    struct g4_packed_call *next; /* that waits for the same lock */
    enum kvt_err outcome;        /* what became of its retirement */
    struct kvt_error unseen;     /* why the newest manifest is not known; KVT_OK: it is, so far */
    bool has_bad;                /* READ: the block is lost or damaged in this segment: */
    struct g4_segment_name bad;
};

/** The state behind a store that g4_packed_store_open() made. */
struct g4_packed_store *g4_packed_store_of(struct g4_store *store);

/** Does the listing of this prefix concern the namespace? */
bool g4_packed_space_overlaps(const struct g4_packed_space *space, const char *prefix);

/** Is this a segment, a manifest or a lock of a packed namespace? */
bool g4_packed_store_reserved(const struct g4_packed_store *store, const char *key);

/** Go on with a call once the newest manifest is loaded; never fails. */
void g4_packed_call_wait(struct g4_packed_call *call);

/** Send the child; its answer comes back to g4_packed_call_landed(). */
void g4_packed_call_send(struct g4_packed_call *call);

/** Read by what is loaded of the manifests. */
void g4_packed_call_read(struct g4_packed_call *call);

/** Go on: the manifest is loaded. */
void g4_packed_call_resume(struct g4_packed_call *call);

/** Go on: the manifest could not be loaded.  What needs none of it is done all the same: to read an
 *  object that has its own key, or to put one where none is. */
void g4_packed_call_unseen(struct g4_packed_call *call, enum kvt_err rc,
                           const struct kvt_error *err);

/** What is to leave the manifest for a PUT or DELETE; its PUT is the call's child. */
struct g4_compaction_retirement g4_packed_call_retirement(struct g4_packed_call *call);

/** End a PUT or DELETE whose retirement was done, with its `outcome`, or say why it was not. */
void g4_packed_call_retired(struct g4_packed_call *call, enum kvt_err rc,
                            const struct kvt_error *err);

/** Put packed blocks into the page that the child listed.  KVT_OK; KVT_NOMEM; KVT_AGAIN: the page
 *  had nothing to tell of, or only what is the packer's, and the child is set to list what is
 *  behind that. */
KVT_NODISCARD enum kvt_err g4_packed_call_merge(struct g4_packed_call *call);

/** The thread that takes blocks out of manifests; `arg` is the store. */
void *g4_packed_store_retire(void *arg);

#endif /* G4_PACKED_PACKED_STORE_INTERNAL_H */
