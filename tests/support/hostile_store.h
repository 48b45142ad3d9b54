/*
 * tests/support/hostile_store.h -- an S3 server, and a gateway's batch face, that lie.
 *
 * Why: whatever a store says, its client ends in time, within its memory, with true bytes or an
 * error.  Each lie is one that a broken or taken over server could tell; the table in
 * hostile_store.c names them.  Anything but the lie is answered as a store would.
 *
 * Ownership: stop what was started.
 * Threads:   `threads` connections at once; the lie may be changed by one other thread.
 * Limits:    HOSTILE_STORE_ANSWER_MAX bytes of an endless answer, then silence until the peer has
 *            enough.
 */
#ifndef TESTS_SUPPORT_HOSTILE_STORE_H
#define TESTS_SUPPORT_HOSTILE_STORE_H

#include <stddef.h>
#include <stdint.h>

#define HOSTILE_STORE_ANSWER_MAX (32u << 20)
#define HOSTILE_STORE_BODY       4000 /* bytes of its one object, under whatever key */
#define HOSTILE_STORE_KEYS       30   /* of its listing, ten a page */
#define HOSTILE_STORE_PREFIX     "in/"

struct hostile_store;

struct hostile_store *hostile_store_start(uint64_t seed, unsigned threads);
void hostile_store_stop(struct hostile_store *store);

/** http://127.0.0.1:port */
const char *hostile_store_url(const struct hostile_store *store);

/** What it lies about from now on, below hostile_store_lies(); 0: it does not lie. */
void hostile_store_lie(struct hostile_store *store, unsigned lie);
unsigned hostile_store_lies(void);
const char *hostile_store_lie_name(unsigned lie);

/** Byte `at` of the object. */
uint8_t hostile_store_byte(size_t at);

/** Requests that were read so far. */
uint64_t hostile_store_asked(struct hostile_store *store);

#endif /* TESTS_SUPPORT_HOSTILE_STORE_H */
