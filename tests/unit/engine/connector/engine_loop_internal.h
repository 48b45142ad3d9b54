/*
 * tests/unit/engine/connector/engine_loop_internal.h -- what the scheduler's side of the loop and
 * its ranks share.
 *
 * Why:       loop.c has requests and blocks, loop_rank.c the passes.
 * Ownership: as tests/unit/engine/connector/engine_loop.h.
 * Threads:   a pass is written by the scheduler before ranks are told of it, and read by them; each
 *            rank writes its own answer.  The scheduler waits for all ranks.
 * Limits:    the names below.
 */
#ifndef TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_INTERNAL_H
#define TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_INTERNAL_H

#include <pthread.h>

#include "tests/support/seed.h"
#include "tests/unit/engine/connector/engine_loop.h"

enum {
    LOOP_BLOCK = 4, /* tokens */
    LOOP_LAYERS = 3,
    LOOP_RANKS = 4,
    LOOP_G1 = 72, /* blocks */
    LOOP_G2 = 96,
    LOOP_G2_TIGHT = 18,
    LOOP_G3 = 128,
    LOOP_BLOCKS = 24, /* of a request */
    LOOP_TOKENS = LOOP_BLOCK * LOOP_BLOCKS,
    LOOP_RUNNING = 8, /* requests at once */
    LOOP_CHUNK = 10,  /* tokens of a request in one pass: it ends within blocks */
    LOOP_LAG = 3,     /* passes not heard of */
    LOOP_NONE = UINT32_MAX,
};

/* A request in a pass. */
struct loop_entry {
    struct loop_request *request;
    uint32_t epoch; /* the request's: it is another life when that has moved on */
    uint32_t computed, scheduled;
    uint32_t blocks[LOOP_BLOCKS];
    uint64_t before[LOOP_BLOCKS]; /* content by position when the pass begins, */
    uint64_t after[LOOP_BLOCKS];  /* ... and ends */
    uint32_t excused;             /* positions from here on may have been wrong */
};

struct loop_pass {
    struct kvt_buffer meta;
    uint64_t iteration;
    struct loop_entry entries[LOOP_RUNNING];
    uint32_t count;
    uint64_t seed;
    /* By rank. */
    struct kvt_buffer report[LOOP_RANKS];
    uint32_t wrong[LOOP_RANKS][LOOP_RUNNING]; /* first position that was; LOOP_NONE */
};

struct loop_rank {
    uint32_t number;
    bool hurried;
    struct engine_worker *worker;
    struct engine_hook *hook;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct loop_pass *pass; /* NULL: none to be done */
    bool ends;
};

void loop_rank_open(struct loop_rank *rank, uint32_t number, struct engine_worker *worker,
                    bool hurried);
void loop_rank_close(struct loop_rank *rank);

/** Begin it, and wait for its end. */
void loop_rank_tell(struct loop_rank *rank, struct loop_pass *pass);
void loop_rank_wait(struct loop_rank *rank);

#endif /* TESTS_UNIT_ENGINE_CONNECTOR_ENGINE_LOOP_INTERNAL_H */
