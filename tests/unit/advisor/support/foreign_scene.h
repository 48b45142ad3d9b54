/*
 * tests/unit/advisor/support/foreign_scene.h -- a rig with one foreign source that answers as the
 * test says.
 *
 * Why: what an engine makes of gaps, of silence and of answers is tested from several sides.
 * Ownership: begin/end; the bytes of test_answer belong to the scene.
 * Threads:   the test's; the outbox's reads test_answer.
 * Limits:    one scene at a time; TEST_SCENE_MESSAGE_MAX bytes of a message and of an answer.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_SCENE_H
#define TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_SCENE_H

#include "base/core/buffer.h"

#include "tests/unit/advisor/support/rig.h"

#define TEST_SCENE_MESSAGE_MAX (1u << 20)
#define TEST_SCENE_GIVE_UP_MS  60000

/* What the source answers; at first that nobody can be asked. */
struct test_answer {
    enum kvt_err rc;
    enum advisor_answer_kind kind;
    struct kvt_buffer bytes;
    _Atomic int asked; /* times */
    uint64_t from;     /* of the last question */
    uint64_t to;
};

extern struct test_answer test_answer;

extern const struct advisor_source_ops test_scene_dynamo;
extern const struct advisor_source_ops test_scene_engine;

struct test_scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    struct kvt_buffer bytes;    /* of the next message */
    struct kvt_buffer *written; /* a test's own: messages that wait, by stream sequence; or NULL */
};

/** `kept`: the source reads a stream. */
void test_scene_begin(struct test_scene *scene, const struct advisor_source_ops *ops, bool kept);
/** The program ends and starts again. */
void test_scene_restart(struct test_scene *scene);
void test_scene_end(struct test_scene *scene);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_SCENE_H */
