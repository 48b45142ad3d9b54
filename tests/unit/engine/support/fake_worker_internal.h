/*
 * tests/unit/engine/support/fake_worker_internal.h -- what the files of the fake worker know of
 * each other.
 *
 * Why:       fake_worker.c has the jobs, fake_peer.c who pulls from whom, fake_objects.c the object
 *            tier.
 * Ownership: as tests/unit/engine/support/fake_worker.h.  Memory that a real worker has elsewhere
 *            (blocks, objects) comes from libc, so that a test that counts allocations does not
 *            count it.
 * Threads:   `lock` of a fake is a leaf; that of the registry is taken before it.
 * Limits:    as tests/unit/engine/support/fake_worker.h.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_INTERNAL_H
#define TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_INTERNAL_H

#include <assert.h>
#include <pthread.h>

#include "kvbm/layout/layout_walk.h"

#include "tests/unit/engine/support/fake_worker.h"

/* One layer of one block: who uses it, and is it worth reading? */
struct fake_cell {
    uint16_t readers;
    bool writer;
    bool written;
};

struct fake_tier {
    uint32_t blocks;
    uint8_t *bytes; /* layout's allocation, of packed blocks block_stride apart */
    uint64_t part;  /* its address, for walks */
    struct fake_cell *cells;
};

struct fake_shown {
    bool shown;
    struct kvbm_label label;
};

struct fake_peer {
    bool used;
    uint64_t number;
    uint32_t ranks;
    uint64_t nonces[KVT_RANKS_MAX]; /* by rank; 0: not described */
    struct kvbm_layout layout;      /* of one of them */
    struct kvbm_rank_map map;
};

struct fake_job {
    struct engine_job *job;
    uint64_t due_ns;
    uint64_t end_ns;   /* wait_ms after its start; UINT64_MAX: never */
    enum kvt_err fate; /* of every item; KVT_OK: as it comes */
    bool begun;
    struct fake_job *next;
};

struct fake {
    struct engine_worker head;
    struct fake_options options;
    pthread_mutex_t lock; /* guards what follows, but bytes of cells somebody uses; a leaf */
    pthread_cond_t changed;
    pthread_t thread; /* LATER */
    bool closing;
    bool dead;
    bool shares;    /* G1 is as a device's memory: others may have it */
    uint64_t nonce; /* of this life */
    uint64_t random;
    struct fake_tier tiers[KVT_TIER_G4];
    struct fake_shown *shown;
    struct fake_peer peers[FAKE_PEERS_MAX];
    struct fake_job *jobs; /* in the order they were started */
    uint64_t started[ENGINE_VERB_END];
    uint64_t items[ENGINE_VERB_END]; /* of those */
    struct {
        enum engine_verb verb;
        uint32_t nth; /* 0: none */
        enum kvt_err status;
    } planned;
    struct fake *next; /* of the living; the registry's lock */
};

enum kvt_err fake_objects_get(struct fake_objects *objects, uint32_t rank,
                              const struct kvt_block_id *id, void *bytes, size_t size);
enum kvt_err fake_objects_put(struct fake_objects *objects, uint32_t rank,
                              const struct kvt_block_id *id, const void *bytes, size_t size);

/* tests/unit/engine/support/fake_peer.c: who can be pulled from. */
void fake_live(struct fake *fake); /* with another nonce */
void fake_die(struct fake *fake);
enum kvt_err fake_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                           struct kvt_error *err);
enum kvt_err fake_connect(struct engine_worker *worker, uint64_t number, const uint8_t *bytes,
                          size_t size, uint64_t wait_ms, struct kvt_error *err);
enum kvt_err fake_share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                        struct kvt_error *err);
void fake_disconnect(struct engine_worker *worker, uint64_t number);
enum kvt_err fake_pull(struct fake *fake, uint64_t number, const struct engine_item *item,
                       enum kvt_tier to);
/* The same of ENGINE_PEER_G1. */
enum kvt_err fake_pull_shared(struct fake *fake, const struct engine_job *job,
                              const struct engine_item *item);

struct kvbm_layout_memory fake_memory(const struct fake *fake, enum kvt_tier tier);
uint8_t *fake_block(struct fake *fake, enum kvt_tier tier, uint32_t block);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_FAKE_WORKER_INTERNAL_H */
