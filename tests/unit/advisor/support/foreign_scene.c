#include "tests/unit/advisor/support/foreign_scene.h"

#include <string.h>

#include "tests/support/seed.h"

struct test_answer test_answer;

static enum kvt_err
ask(struct advisor_source *source, const struct advisor_ask *question,
    enum advisor_answer_kind *kind, struct kvt_buffer *out, struct kvt_error *err)
{
    (void)source;
    test_answer.from = question->from;
    test_answer.to = question->to;
    *kind = test_answer.kind;
    kvt_buffer_append(out, test_answer.bytes.data, test_answer.bytes.size);
    test_answer.asked++;
    return test_answer.rc == KVT_OK ? KVT_OK
                                    : kvt_error_set(err, test_answer.rc, "as the test says");
}

const struct advisor_source_ops test_scene_dynamo = {.name = "dynamo-test",
                                                     .dialect = WIRE_DIALECT_DYNAMO,
                                                     .open = test_rig_source_open,
                                                     .close = test_rig_source_close,
                                                     .ask = ask};
const struct advisor_source_ops test_scene_engine = {.name = "engine-test",
                                                     .dialect = WIRE_DIALECT_ENGINE,
                                                     .open = test_rig_source_open,
                                                     .close = test_rig_source_close,
                                                     .ask = ask};

void
test_scene_begin(struct test_scene *scene, const struct advisor_source_ops *ops, bool kept)
{
    memset(scene, 0, sizeof(*scene));
    kvt_buffer_init(&scene->bytes, TEST_SCENE_MESSAGE_MAX);
    kvt_buffer_init(&test_answer.bytes, TEST_SCENE_MESSAGE_MAX);
    test_answer.rc = KVT_UNSUPPORTED;
    test_answer.asked = 0;
    scene->options = (struct test_rig_options){.mode = ADVISOR_MODE_OFF,
                                               .foreign = ops,
                                               .kept = kept,
                                               .give_up_after_ms = TEST_SCENE_GIVE_UP_MS};
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &scene->options);
}

void
test_scene_restart(struct test_scene *scene)
{
    test_rig_close(&scene->rig);
    test_rig_open(&scene->rig, &scene->options);
}

void
test_scene_end(struct test_scene *scene)
{
    test_rig_close(&scene->rig);
    kvt_buffer_release(&scene->bytes);
    kvt_buffer_release(&test_answer.bytes);
    test_folder_remove(scene->folder);
}
