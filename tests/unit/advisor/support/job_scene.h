/*
 * tests/unit/advisor/support/job_scene.h -- an engine with jobs, and a gateway that is an array of
 * blocks.
 *
 * Why: what jobs do in order, and what they do when much goes wrong, are tested apart.
 * Ownership: test_job_scene_new() and _free(); the scene owns its folder.
 * Threads:   the test's; a question is asked by a thread of its own while the engine goes on.
 * Limits:    TEST_JOB_BLOCKS blocks.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_JOB_SCENE_H
#define TESTS_UNIT_ADVISOR_SUPPORT_JOB_SCENE_H

#include <stdatomic.h>

#include "tests/unit/advisor/support/rig.h"

enum { TEST_JOB_BLOCKS = 6000 };

struct test_job_scene {
    struct test_rig rig;
    char folder[256];
    uint64_t reports;
    uint64_t random;
    unsigned fail_percent;   /* blocks of an order that cannot be done */
    unsigned silent_percent; /* orders that are done, and nobody hears of it */
    unsigned orders;
    unsigned outstanding_max;
    bool demoted[TEST_JOB_BLOCKS + 1];
    struct kvt_order_item items[TEST_JOB_BLOCKS];
    struct kvt_order order;
};

/* A question to the jobs, and its answer. */
struct test_job_asking {
    struct test_job_scene *scene;
    struct advisor_job_request request;
    uint64_t id; /* of a command */
    enum advisor_job_command command;
    int what; /* 0: submit, 1: command, 2: stop, 3: go on */
    enum kvt_err rc;
    struct advisor_job_row row;
    struct kvt_error err;
    _Atomic bool done;
};

struct test_job_scene *test_job_scene_new(enum advisor_mode mode);
void test_job_scene_free(struct test_job_scene *scene);
void test_job_restart(struct test_job_scene *scene);
void *test_job_ask_main(void *arg);
enum kvt_err test_job_ask(struct test_job_asking *asking);
struct advisor_job_moves test_job_moves_of(const struct test_job_scene *scene, size_t from,
                                           size_t count);
uint64_t test_job_submit(struct test_job_scene *scene, size_t from, size_t count);
enum kvt_err test_job_command(struct test_job_scene *scene, uint64_t id,
                              enum advisor_job_command what);
struct advisor_job_row test_job_row_of(struct test_job_scene *scene, uint64_t id);
void test_job_report(struct test_job_scene *scene, struct kvt_order_result *result);
void test_job_obey(struct test_job_scene *scene);
unsigned test_job_serve(struct test_job_scene *scene);
void test_job_pass_time(struct test_job_scene *scene, unsigned round);
uint64_t test_job_demoted(const struct test_job_scene *scene);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_JOB_SCENE_H */
