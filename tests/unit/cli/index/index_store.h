/*
 * tests/unit/cli/index/index_store.h -- a random store, row by row and change by change.
 *
 * Why: what exports, imports and verifies a store is tried on everything a store may have.
 * Ownership: the test owns the scene.
 * Threads:   one.
 * Limits:    none of its own.
 */
#ifndef TESTS_UNIT_CLI_INDEX_INDEX_STORE_H
#define TESTS_UNIT_CLI_INDEX_INDEX_STORE_H

#include "advisor/store/event_log_table.h"

#define TEST_STORE_MAP            (16u << 20)
#define TEST_STORE_WORKERS        4 /* holders below it; the others are of G4 */
#define TEST_STORE_HOLDERS        7
#define TEST_STORE_NAMESPACES     3
#define TEST_STORE_PUBLISHER_NEXT 9
#define TEST_STORE_CHAINS         40
#define TEST_STORE_CHAIN          30 /* blocks of one */

struct test_store {
    char folder[256];
    char state[300]; /* the store's folder */
    char copy[300];  /* another one */
    struct advisor_store *store;
};

/** cmocka's set-up and tear-down; `*state` is the scene.  KVT_SEED makes the same store again. */
int test_store_set_up(void **state);
int test_store_set_up_small(void **state);
int test_store_tear_down(void **state);

struct advisor_store *test_store_open(const char *path, bool read_only);

/** Put a publisher of another system with all that belongs to it: number 3, worker "w-0" in
 *  namespace 1. */
void test_store_put_foreign(const struct advisor_txn *txn);

/** The blocks of chains, which workers have: chain `c` is in namespace `c` modulo their number. */
uint64_t test_store_hash(uint32_t chain, uint32_t position);
/** A piece of a chain comes or goes; now and then all a holder has. */
void test_store_change(struct advisor_event_log *log, uint64_t *random);

/** Append to the journal. */
void test_store_append(const struct advisor_txn *txn, const struct advisor_event_log *log);

#endif /* TESTS_UNIT_CLI_INDEX_INDEX_STORE_H */
