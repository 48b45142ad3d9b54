/*
 * tests/unit/advisor/support/admin_bed.h -- the advisor in this process on a free port, NATS away;
 * real HTTP.
 *
 * Why: what is asked over HTTP is tested from several sides.
 * Ownership: begin/end; the folder is the scene's.
 * Threads:   the test's.
 * Limits:    answers of 1 MiB.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_ADMIN_BED_H
#define TESTS_UNIT_ADVISOR_SUPPORT_ADMIN_BED_H

#include "advisor/daemon.h"
#include "base/core/buffer.h"

#define TEST_ADMIN_TOKEN "test-token-0123456789"

struct test_admin {
    char folder[256];
    struct advisor_daemon *daemon;
    struct kvt_buffer answer;
    unsigned status; /* of the last answer */
    enum advisor_mode mode;
    bool signs; /* it has a key for orders */
};

/** Settings of a small one in its folder. */
struct advisor_settings test_admin_settings(const struct test_admin *admin);

/** `gateway`: one that reported in a former life; NULL: none did. */
void test_admin_begin(struct test_admin *admin, enum advisor_mode mode, bool signs,
                      const char *gateway);
void test_admin_end(struct test_admin *admin);

/** Start the daemon, and wait until it has read its index; stop it. */
void test_admin_open(struct test_admin *admin);
void test_admin_close(struct test_admin *admin);

/** GET, or POST with a body; the answer's text.  `token` NULL: none. */
const char *test_admin_ask(struct test_admin *admin, const char *path, const char *body,
                           const char *token);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_ADMIN_BED_H */
