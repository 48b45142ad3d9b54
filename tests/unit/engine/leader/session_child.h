/*
 * tests/unit/engine/leader/session_child.h -- instances in processes of their own, that can be
 * killed.
 *
 * Why: one side of a session is the test, the other such a process, and one more goes on all the
 * time and must notice nothing.  What a child does, and what its test tells it, is on a page that
 * both see; so a stopped child hinders nobody.
 * Ownership: children_close() after children_open(); children end with the test.
 * Threads:   the test's main thread.
 * Limits:    CHILDREN_MAX in a test's life.
 */
#ifndef TESTS_UNIT_ENGINE_LEADER_SESSION_CHILD_H
#define TESTS_UNIT_ENGINE_LEADER_SESSION_CHILD_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tests/unit/engine/leader/leader_node.h"

#define CHILDREN_MAX   32
#define CHILD_BLOCKS   4 /* of the chain of a holder's number, half in G2 and half in G3 */
#define CHILD_OWN      6 /* of the test's chain that pullers bring, all in its G2 */
#define CHILD_TEST     1 /* the test's instance, and its chain */
#define CHILD_FIND_MS  4000
#define CHILD_HOLD_MS  900
#define CHILD_PATIENCE 30000 /* ms: a busy machine */

enum child_kind {
    CHILD_HOLDER, /* has the chain of its number */
    CHILD_ASKER,  /* finds the chain of its number at the test, when told */
    CHILD_PULLER, /* brings the test's chain, again and again */
};

/* Seen by both. */
struct child_page {
    /* what the test says */
    _Atomic uint32_t shut;    /* enum engine_verb its gate keeps back */
    _Atomic uint32_t find;    /* asker: 1 + enum engine_mode; 0: not yet */
    _Atomic uint32_t release; /* asker: it ends its match when that has ended */
    _Atomic uint32_t pause;   /* puller */
    /* what the child says */
    _Atomic uint32_t up;
    _Atomic uint32_t state; /* asker: 1 + enum engine_state of its match; 0: none */
    _Atomic uint32_t ready;
    _Atomic uint32_t why;
    _Atomic uint32_t released; /* asker: and it has ended, with the right bytes */
    _Atomic uint32_t gated;
    _Atomic uint32_t idle;   /* nothing goes on, nothing is held */
    _Atomic uint32_t paused; /* puller: it is not in the middle of anything */
    _Atomic uint64_t rounds; /* puller: the chain came */
    _Atomic uint64_t failed; /* ... or did not; anybody: wrong bytes */
};

struct children {
    char folder[200];
    int file;
    struct child_page *pages; /* CHILDREN_MAX */
    pid_t processes[CHILDREN_MAX];
    size_t count;
};

void children_open(struct children *children);
/** Kills those that are left. */
void children_close(struct children *children);

void child_endpoint(const struct children *children, uint64_t number, char *text, size_t size);
/** Start one; it is up when its page says so. */
struct child_page *child_begin(struct children *children, enum child_kind kind, uint64_t number,
                               bool far);
/** SIGKILL, SIGSTOP or SIGCONT; returns when it has happened to every thread. */
void child_signal(struct children *children, const struct child_page *page, int signal);

/** A child's main, where `argv` is one's; else it returns. */
void child_main(int argc, char **argv);

#endif /* TESTS_UNIT_ENGINE_LEADER_SESSION_CHILD_H */
