/*
 * tests/unit/advisor/support/advisor_program.h -- the real kvtier-advisor as a process a test can
 * kill.
 *
 * Why: what survives kill -9 can only be seen by killing.
 * Ownership: the test owns the process and its folder; test_advisor_stop() ends both.
 * Threads:   one.
 * Limits:    loopback, a free admin port.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_ADVISOR_PROGRAM_H
#define TESTS_UNIT_ADVISOR_SUPPORT_ADVISOR_PROGRAM_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TEST_ADVISOR_ARGS_MAX 40

struct test_advisor {
    char folder[256];
    char nats_url[64];
    const char *more[TEST_ADVISOR_ARGS_MAX]; /* further flags, NULL-terminated */
    pid_t pid;                               /* 0: not running */
    unsigned port;
};

/** An empty state folder; nothing runs yet. */
void test_advisor_init(struct test_advisor *advisor, const char *nats_url);

/** Start it and wait for its ports file. */
void test_advisor_start(struct test_advisor *advisor);
void test_advisor_kill(struct test_advisor *advisor); /* kill -9 */
/** SIGTERM; asserts that it exits 0. */
void test_advisor_end(struct test_advisor *advisor);
/** End it if it runs, remove the folder. */
void test_advisor_stop(struct test_advisor *advisor);

/** GET (or POST when `body` is not NULL); the answer's JSON (json_object_put() it), NULL when it is
 *  none.  `status` may be NULL. */
struct json_object *test_advisor_ask(const struct test_advisor *advisor, const char *path,
                                     const char *body, unsigned *status);

/** Wait until /readyz says so. */
void test_advisor_ready(const struct test_advisor *advisor);

/** A number of /v1/status, e.g. ("events", "gaps"). */
uint64_t test_advisor_number(const struct test_advisor *advisor, const char *part, const char *key);

/** Its log so far contains `text`. */
bool test_advisor_logged(const struct test_advisor *advisor, const char *text);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_ADVISOR_PROGRAM_H */
