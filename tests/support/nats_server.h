/*
 * tests/support/nats_server.h -- a real nats-server that a test can kill and bring back.
 *
 * Why: reconnecting, redelivery and loss are properties of the real server, not of a stand-in.
 * Ownership: the test owns the server; test_nats_stop() ends it and removes its folder.  A server
 *            also dies with its test.
 * Threads:   one.
 * Limits:    loopback, one free port, JetStream with a file store in a temporary folder.
 */
#ifndef TESTS_SUPPORT_NATS_SERVER_H
#define TESTS_SUPPORT_NATS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct test_nats {
    char folder[256];
    char url[64];
    char port[8];
    char token[64]; /* demanded of clients; "" = none */
    pid_t pid;      /* 0: not running */
};

/** Call first in main(): ends the program with 77 (skipped) when there is no nats-server, or with a
 *  failure where CI=true demands one. */
void test_nats_require(void);

/** Start with an empty store; asserts (cmocka) that it answers. */
void test_nats_start(struct test_nats *server);

/** The same, for clients that know `token` only. */
void test_nats_start_with_token(struct test_nats *server, const char *token);

/** As `kill -9`. */
void test_nats_kill(struct test_nats *server);

/** Same port, same store. */
void test_nats_restart(struct test_nats *server);

/** Remove the store; only while it is not running. */
void test_nats_forget(struct test_nats *server);

void test_nats_stop(struct test_nats *server);

#endif /* TESTS_SUPPORT_NATS_SERVER_H */
