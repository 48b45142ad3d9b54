/*
 * tests/unit/kvbm/attach/attach_bed.h -- a worker's tiers that engines can attach to, without a
 * worker.
 *
 * Why: what is attached, what it holds and what is told of it must be seen from the worker's side.
 * Ownership: attach_bed_open() to attach_bed_close().
 * Threads:   opening and closing are the test's; the rest is for any.
 * Limits:    ATTACH_BED_ENGINES engines; names below ATTACH_BED_NAMES.
 */
#ifndef TESTS_UNIT_KVBM_ATTACH_ATTACH_BED_H
#define TESTS_UNIT_KVBM_ATTACH_ATTACH_BED_H

#include <pthread.h>

#include "kvbm/attach/attach_server.h"
#include "kvtier/attach.h"

enum {
    ATTACH_BED_ENGINES = 3,
    ATTACH_BED_BLOCKS_MAX = 64,
    ATTACH_BED_NAMES = 4096,
    ATTACH_BED_HONEST = 2048, /* names from here on may have any bytes */
    ATTACH_BED_G2 = 48,
    ATTACH_BED_G3 = 32,
    ATTACH_BED_SIZE = 4096, /* bytes of a block */
};

struct attach_bed;

/* What was told of one engine's blocks. */
struct attach_bed_slot {
    struct attach_bed *bed;
    struct kvbm_pool *pool;         /* watched */
    uint8_t told[ATTACH_BED_NAMES]; /* Stores without their Remove */
};

struct attach_bed {
    char folder[256];
    char path[280];
    struct kvbm_transfer *transfer;
    struct kvbm_volumes *volumes;
    struct kvbm_manager *manager;
    struct kvbm_attach_service_below below;
    struct kvbm_layout layout;
    struct kvbm_attach *attach;
    pthread_mutex_t lock; /* guards what follows */
    struct attach_bed_slot slots[ATTACH_BED_ENGINES];
    unsigned wrong_turns;           /* a Store or Remove that could not be */
    bool objects[ATTACH_BED_NAMES]; /* what the object tier has */
    unsigned wrong_bytes;
};

void attach_bed_open(struct attach_bed *bed);

/** Checks that nothing is held any more. */
void attach_bed_close(struct attach_bed *bed);

/** Wait until no engine is there, and check that all they had is given back and taken back. */
void attach_bed_rest(struct attach_bed *bed);

/** Is what was told of each engine what its pool has?  Only while engines do nothing. */
void attach_bed_compare(struct attach_bed *bed);

struct kvt_attach *attach_bed_engine(const struct attach_bed *bed, uint32_t blocks);

/** A block's bytes are its name, all over. */
void attach_bed_fill(void *bytes, uint64_t hash);
bool attach_bed_filled(const void *bytes, uint64_t hash);

/** What block `position` of chain `chain` is called. */
struct kvt_block_info attach_bed_name(uint32_t chain, uint32_t position);

#endif /* TESTS_UNIT_KVBM_ATTACH_ATTACH_BED_H */
