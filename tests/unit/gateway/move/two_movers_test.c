/*
 * What is tested: gateway/move/bucket_move.h where two gateways have the same two buckets.
 * Whatever one of them does between any two calls of the other, the block is there afterwards,
 * whole; no copy goes before the one that stays was read; and one bucket under two names is told.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/directory/directory.h"
#include "gateway/block/context_open.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 3000, CALLS_MAX = 60 };

struct scene;

/* A bucket as one gateway sees it: before one of its calls something else happens. */
struct view {
    struct g4_store *inner;
    struct scene *scene;
};

struct mover {
    struct test_gateway g; /* its context, for the words of support.h */
    struct view views[2];
    struct g4_store *near;
    struct g4_store *far;
    char state[256];
    char hot[256];
};

struct scene {
    struct test_gateway base;
    struct mover movers[2];
    void (*meanwhile)(struct scene *scene); /* once; NULL: nothing */
    unsigned after;                         /* calls that pass before it */
};

static enum kvt_err
view_submit(void *self, struct g4_request *request)
{
    struct view *view = self;
    struct scene *scene = view->scene;
    void (*const meanwhile)(struct scene *) = scene->meanwhile;

    if (meanwhile != NULL && scene->after == 0) {
        scene->meanwhile = NULL;
        meanwhile(scene);
    } else if (meanwhile != NULL) {
        scene->after--;
    }
    return g4_store_submit(view->inner, request);
}

static void
view_close(void *self)
{
    struct view *view = self;

    g4_store_close(view->inner);
}

static const struct g4_store_driver view_driver = {
    .name = "view", .submit = view_submit, .close = view_close};

static void
open_view(struct scene *scene, struct view *view, const char *folder, struct g4_store **faulty,
          struct g4_store **out)
{
    const struct g4_directory_options options = {.path = folder, .threads = 2};
    struct g4_store *inner;
    struct kvt_error err;

    assert_int_equal(g4_directory_open(&inner, &options, &err), KVT_OK);
    assert_int_equal(test_faulty_store_open(faulty, inner), KVT_OK);
    *view = (struct view){.inner = *faulty, .scene = scene};
    assert_int_equal(g4_store_new(out, &view_driver, view), KVT_OK);
}

static void
open_mover(struct scene *scene, unsigned at)
{
    struct mover *mover = &scene->movers[at];
    struct gateway_context_options *options = &mover->g.options;
    struct kvt_error err;

    mover->g = scene->base;
    (void)snprintf(mover->state, sizeof(mover->state), "%s%u", scene->base.state, at);
    (void)snprintf(mover->hot, sizeof(mover->hot), "%s%u", scene->base.hot, at);
    options->name = at == 0 ? "gw0" : "gw1";
    options->state_dir = mover->state;
    options->hot_dir = mover->hot;
    open_view(scene, &mover->views[0], scene->base.cold, &mover->near, &options->cold_store);
    open_view(scene, &mover->views[1], scene->base.far, &mover->far, &options->far_store);
    if (gateway_context_open(&mover->g.context, options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    gateway_bucket_tier_probe(mover->g.context->tiers.buckets);
    assert_true(gateway_bucket_tier_writable(mover->g.context->tiers.buckets));
}

static void
open_base(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    test_gateway_open(&scene->base, 1 << 20, 0);
    test_gateway_extend(&scene->base, 1 << 20, 0);
    gateway_context_close(scene->base.context);
    scene->base.context = NULL;
    scene->base.options.warm_capacity = 0;
}

static void
open_scene(struct scene *scene)
{
    open_base(scene);
    for (unsigned at = 0; at < 2; at++)
        open_mover(scene, at);
}

static void
close_scene(struct scene *scene)
{
    for (unsigned at = 0; at < 2; at++)
        gateway_context_close(scene->movers[at].g.context);
    test_gateway_close(&scene->base);
}

static enum kvt_err
move(struct mover *mover, unsigned from, unsigned to, bool keep)
{
    const struct gateway_move what = {.from = from, .to = to, .keep = keep};
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    return gateway_move(mover->g.context, test_gateway_key(key, 1), &what, &bytes);
}

/* The block in both buckets, and both gateways know that. */
static void
place(struct scene *scene)
{
    assert_int_equal(test_gateway_put(&scene->movers[0].g, 1, SIZE), KVT_OK);
    assert_int_equal(move(&scene->movers[0], GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(test_gateway_get(&scene->movers[1].g, 1, SIZE, NULL), KVT_OK);
    for (unsigned at = 0; at < 2; at++) {
        assert_int_equal(move(&scene->movers[at], GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        assert_int_equal(test_gateway_tiers(&scene->movers[at].g, 1, NULL), GATEWAY_BUCKETS);
    }
}

static void
set_row(struct mover *mover, unsigned tiers, unsigned moving)
{
    char key[KVT_KEY_MAX];
    struct gateway_change change = {.key = test_gateway_key(key, 1)};

    assert_int_equal(gateway_catalog_get(mover->g.context->catalog, key, &change.record), KVT_OK);
    change.record.tiers = tiers;
    change.record.moving = moving;
    assert_int_equal(gateway_catalog_change(mover->g.context->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
}

static enum kvt_err
settle(struct mover *mover)
{
    char key[KVT_KEY_MAX];

    return gateway_move_settle(mover->g.context, test_gateway_key(key, 1));
}

static void
expect_there(struct scene *scene, const char *what, unsigned call)
{
    for (unsigned at = 0; at < 2; at++) {
        const enum kvt_err rc = test_gateway_get(&scene->movers[at].g, 1, SIZE, NULL);

        if (rc != KVT_OK)
            fail_msg("%s, call %u, gateway %u: %s", what, call, at, kvt_err_text(rc));
    }
}

/* ---- two at once ---- */

static void
first_moves_far(struct scene *scene)
{
    (void)!move(&scene->movers[0], GATEWAY_COLD, GATEWAY_FAR, false);
}

static void
first_settles(struct scene *scene)
{
    (void)!settle(&scene->movers[0]);
}

static void
second_moves_far(struct scene *scene)
{
    (void)!move(&scene->movers[1], GATEWAY_COLD, GATEWAY_FAR, false);
}

static void
second_moves_near(struct scene *scene)
{
    (void)!move(&scene->movers[1], GATEWAY_FAR, GATEWAY_COLD, false);
}

/* `one` with `other` in the middle of it, at every place. */
static void
try_all(const char *what, bool crashed, void (*one)(struct scene *), void (*other)(struct scene *))
{
    bool hit = true;

    for (unsigned call = 0; hit; call++) {
        struct scene scene;

        assert_true(call < CALLS_MAX);
        open_scene(&scene);
        place(&scene);
        if (crashed) /* the first had copied it, and not said so */
            set_row(&scene.movers[0], GATEWAY_COLD, GATEWAY_FAR);
        scene.after = call;
        scene.meanwhile = other;
        one(&scene);
        hit = scene.meanwhile == NULL;
        scene.meanwhile = NULL;
        expect_there(&scene, what, call);
        for (unsigned at = 0; at < 2; at++)
            (void)!settle(&scene.movers[at]);
        expect_there(&scene, what, call);
        close_scene(&scene);
    }
}

static void
opposite_moves_leave_a_copy(void **state)
{
    (void)state;
    try_all("far, near within", false, first_moves_far, second_moves_near);
    try_all("near, far within", false, second_moves_near, first_moves_far);
}

static void
an_undone_move_leaves_a_copy(void **state)
{
    (void)state;
    try_all("undo, far within", true, first_settles, second_moves_far);
    try_all("far, undo within", true, second_moves_far, first_settles);
    try_all("undo, near within", true, first_settles, second_moves_near);
}

/* ---- one alone, and a bad or silent bucket ---- */

static bool
is_whole(struct g4_store *store)
{
    char key[KVT_KEY_MAX];
    struct g4_request get = {
        .verb = G4_GET, .key = test_gateway_key(key, 1), .buffer_capacity = SIZE};
    uint8_t body[SIZE];
    bool whole;

    test_gateway_fill(body, sizeof(body), 1);
    whole = g4_store_perform(store, &get) == KVT_OK && get.buffer_size == SIZE &&
            memcmp(get.buffer, body, SIZE) == 0;
    kvt_free(get.buffer);
    return whole;
}

/* Both bits say nothing of the bytes: they are read before the source goes, whatever fails. */
static void
a_damaged_copy_keeps_its_source(void **state)
{
    static const enum g4_fault faults[] = {G4_FAULT_NONE, G4_FAULT_FAIL, G4_FAULT_LOSE};

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct g4_fault_rule damage = {.verb = G4_GET, .fault = G4_FAULT_FLIP, .count = UINT64_MAX};
        const struct g4_fault_rule repair = {
            .verb = G4_PUT, .fault = faults[i], .count = 1, .status = KVT_TIMEOUT};
        struct mover *mover;
        struct scene scene;

        open_scene(&scene);
        place(&scene);
        mover = &scene.movers[0];
        test_faulty_store_set(mover->far, &damage);
        test_faulty_store_set(mover->far, &repair);
        assert_int_not_equal(move(mover, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
        gateway_bucket_tier_probe(mover->g.context->tiers.buckets);
        (void)!settle(mover);
        assert_true(is_whole(mover->near)); /* what the far bucket says is never whole */
        damage.count = 0;
        test_faulty_store_set(mover->far, &damage);
        gateway_bucket_tier_probe(mover->g.context->tiers.buckets);
        assert_int_equal(move(mover, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
        assert_true(is_whole(mover->far));
        expect_there(&scene, "damaged", 0);
        close_scene(&scene);
    }
}

/* No answer is not "nothing there": the row goes on saying where the block is bound to. */
static void
an_unanswered_look_settles_nothing(void **state)
{
    static const enum g4_verb verbs[] = {G4_GET, G4_HEAD};
    struct g4_fault_rule rule = {
        .fault = G4_FAULT_FAIL, .count = UINT64_MAX, .status = KVT_TIMEOUT};
    char key[KVT_KEY_MAX];
    struct g4_request gone = {.verb = G4_DELETE, .key = test_gateway_key(key, 1)};
    struct mover *mover;
    struct scene scene;

    (void)state;
    open_scene(&scene);
    place(&scene);
    mover = &scene.movers[0];
    set_row(mover, GATEWAY_COLD, GATEWAY_FAR);
    assert_int_equal(g4_store_perform(mover->near, &gone), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        rule.verb = verbs[i];
        test_faulty_store_set(mover->far, &rule);
    }
    assert_int_not_equal(settle(mover), KVT_OK);
    rule.count = 0;
    for (size_t i = 0; i < 2; i++) {
        rule.verb = verbs[i];
        test_faulty_store_set(mover->far, &rule);
    }
    gateway_bucket_tier_probe(mover->g.context->tiers.buckets);
    assert_int_equal(settle(mover), KVT_OK);
    assert_int_equal(test_gateway_tiers(&mover->g, 1, NULL), GATEWAY_FAR);
    expect_there(&scene, "unanswered", 0);
    close_scene(&scene);
}

/* Nothing is moved between two names of one bucket. */
static void
one_bucket_is_not_two(void **state)
{
    struct mover *mover;
    struct scene scene;

    (void)state;
    open_base(&scene);
    memcpy(scene.base.far, scene.base.cold, sizeof(scene.base.far));
    open_mover(&scene, 0);
    mover = &scene.movers[0];
    assert_false(gateway_bucket_tier_takes(mover->g.context->tiers.buckets, GATEWAY_FAR));
    assert_int_equal(test_gateway_put(&mover->g, 1, SIZE), KVT_OK);
    assert_int_equal(move(mover, GATEWAY_COLD, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_int_equal(move(mover, GATEWAY_HOT, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_true(is_whole(mover->near));
    assert_int_equal(test_gateway_get(&mover->g, 1, SIZE, NULL), KVT_OK);
    close_scene(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opposite_moves_leave_a_copy),
        cmocka_unit_test(an_undone_move_leaves_a_copy),
        cmocka_unit_test(a_damaged_copy_keeps_its_source),
        cmocka_unit_test(an_unanswered_look_settles_nothing),
        cmocka_unit_test(one_bucket_is_not_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
