/*
 * What is tested: gateway/move/bucket_move.h where two gateways move one block at once, request by
 * request.  In every order of their requests with up to five changes of who is at it, at every
 * instant one of the two buckets has the block whole: so whoever dies, and when, it is there.  And
 * where both die, each at any of its requests, their next lives end with a block that is read, rows
 * that say where it is, and no lock.  What is removed while the far bucket is away stays removed,
 * and what is put behind that stays, in every order with up to three changes.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gateway/block/context_open.h"
#include "gateway/block/move_lock.h"
#include "gateway/block/removal.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/g4/support/memory_bucket.h"
#include "tests/unit/gateway/support/support.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { CHANGES = 4 }; /* of turns: the orders that a fifth adds are tried where they take less */
#else
enum { CHANGES = 5 };
#endif
enum {
    CHANGES_MAX = 5,
    REMOVAL_CHANGES = 3, /* where one of the two removes, or puts again */
};

enum { SIZE = 300, CALLS_MAX = 40, LIFE_MS = GATEWAY_MOVE_LOCK_MS + 5000 };

struct scene;

/* A bucket as one gateway sees it. */
struct view {
    struct scene *scene;
    unsigned who;
    struct memory_bucket_client client;
    struct g4_store *inner;
};

typedef enum kvt_err (*act)(struct scene *scene, unsigned who);

struct scene {
    struct test_gateway base;
    struct test_gateway movers[2];
    char state[2][256];
    char hot[2][256];
    struct view views[2][2]; /* of a gateway: near, far */
    struct memory_bucket memory[2];
    uint8_t body[SIZE];
    char key[KVT_KEY_MAX];
    bool deaf;         /* DELETE heeds no condition, as MinIO's */
    bool watched;      /* there must be a copy after each request */
    unsigned calls;    /* of both */
    unsigned lost_at;  /* the call behind which no bucket had it; 0: none */
    uint64_t lives[2]; /* requests that a gateway is still good for */
    bool away[2];      /* the far bucket, for this gateway */
    bool dead[2];
    struct gateway_record row;     /* of the block, when it was put */
    struct gateway_record last[2]; /* its row when it died: the dead write nothing */

    /* Whose turn it is: `first` has so many requests, then the other one, and so on; the last
     * number has no end. */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool takes_turns;
    unsigned first;
    unsigned at;
    unsigned changes; /* of who is at it, at most */
    unsigned shares[CHANGES_MAX];
    unsigned used; /* of the share at `at` */
    bool over[2];
    enum kvt_err ended[2]; /* what the acts said */
    unsigned acknowledged; /* PUTs */
    char what[160];
};

/* ---- whose turn it is ---- */

static unsigned
whose(const struct scene *scene)
{
    const unsigned who = (scene->first + scene->at) % 2;

    return scene->over[who] ? 1 - who : who;
}

static void
wait_for_turn(struct scene *scene, unsigned who)
{
    pthread_mutex_lock(&scene->lock);
    for (;;) {
        if (whose(scene) != who) {
            pthread_cond_wait(&scene->turn, &scene->lock);
        } else if (scene->at == scene->changes || scene->over[1 - who] ||
                   scene->used < scene->shares[scene->at]) {
            scene->used++;
            break;
        } else {
            scene->at++;
            scene->used = 0;
            pthread_cond_broadcast(&scene->turn);
        }
    }
    pthread_mutex_unlock(&scene->lock);
}

static void
end_turns(struct scene *scene, unsigned who)
{
    pthread_mutex_lock(&scene->lock);
    scene->over[who] = true;
    pthread_cond_broadcast(&scene->turn);
    pthread_mutex_unlock(&scene->lock);
}

/* ---- the buckets ---- */

static bool
has_copy(struct scene *scene, unsigned bucket)
{
    const struct memory_bucket_object *object =
        memory_bucket_find(&scene->memory[bucket], scene->key);

    return object != NULL && object->size == SIZE && memcmp(object->body, scene->body, SIZE) == 0;
}

static void
note_death(struct scene *scene, unsigned who)
{
    if (!scene->dead[who])
        assert_int_equal(
            gateway_catalog_get(scene->movers[who].context->catalog, scene->key, &scene->last[who]),
            KVT_OK);
    scene->dead[who] = true;
    scene->movers[who].context->stopping = true; /* who is dead waits for nothing */
}

/* The next life, when what the last one sent has come. */
static void
live_again(struct scene *scene, unsigned who)
{
    struct gateway_change change = {.key = scene->key, .record = scene->last[who]};

    if (scene->dead[who])
        assert_int_equal(gateway_catalog_change(scene->movers[who].context->catalog, &change, 1,
                                                GATEWAY_APPLIED),
                         KVT_OK);
    scene->dead[who] = false;
    scene->movers[who].context->stopping = false;
    scene->lives[who] = UINT64_MAX;
    scene->movers[who].context->identity.life++;
    scene->movers[who].context->identity.since_ms = 0;
}

static enum kvt_err
view_submit(void *self, struct g4_request *request)
{
    struct view *view = self;
    struct scene *scene = view->scene;
    enum kvt_err rc;

    if (scene->takes_turns)
        wait_for_turn(scene, view->who);
    if (scene->lives[view->who] == 0) {
        note_death(scene, view->who);
        request->status = KVT_UNAVAILABLE;
        (void)kvt_error_set(&request->error, KVT_UNAVAILABLE, "it is dead");
        request->done(request, request->arg);
        return KVT_OK;
    }
    if (scene->away[view->who] && view == &scene->views[view->who][1]) {
        request->status = KVT_UNAVAILABLE;
        (void)kvt_error_set(&request->error, KVT_UNAVAILABLE, "it is away");
        request->done(request, request->arg);
        return KVT_OK;
    }
    scene->lives[view->who]--;
    scene->calls++;
    if (scene->deaf && request->verb == G4_DELETE)
        request->condition = G4_ALWAYS;
    rc = g4_store_submit(view->inner, request);
    if (scene->watched && scene->lost_at == 0 && !has_copy(scene, 0) && !has_copy(scene, 1))
        scene->lost_at = scene->calls;
    return rc;
}

static void
view_close(void *self)
{
    struct view *view = self;

    g4_store_close(view->inner);
}

/* ---- two gateways ---- */

static void
open_mover(struct scene *scene, unsigned who)
{
    static const struct g4_store_driver driver = {
        .name = "view", .submit = view_submit, .close = view_close};
    struct test_gateway *mover = &scene->movers[who];
    struct gateway_context_options *options = &mover->options;
    struct kvt_error err;

    *mover = scene->base;
    (void)snprintf(scene->state[who], sizeof(scene->state[who]), "%s%u", scene->base.state, who);
    (void)snprintf(scene->hot[who], sizeof(scene->hot[who]), "%s%u", scene->base.hot, who);
    options->name = who == 0 ? "gw0" : "gw1";
    options->state_dir = scene->state[who];
    options->hot_dir = scene->hot[who];
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        struct view *view = &scene->views[who][bucket];

        *view =
            (struct view){.scene = scene, .who = who, .client = {.memory = &scene->memory[bucket]}};
        view->inner = memory_bucket_open(&view->client);
        assert_int_equal(
            g4_store_new(bucket == 0 ? &options->cold_store : &options->far_store, &driver, view),
            KVT_OK);
    }
    if (gateway_context_open(&mover->context, options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    gateway_bucket_tier_probe(mover->context->tiers.buckets);
    assert_true(gateway_bucket_tier_takes(mover->context->tiers.buckets, GATEWAY_FAR));
}

static enum kvt_err
move(struct scene *scene, unsigned who, unsigned from, unsigned to, bool keep)
{
    const struct gateway_move what = {.from = from, .to = to, .keep = keep};
    uint64_t bytes;

    return gateway_move(scene->movers[who].context, scene->key, &what, &bytes);
}

static void
open_scene(struct scene *scene, bool deaf)
{
    memset(scene, 0, sizeof(*scene));
    scene->deaf = deaf;
    scene->changes = CHANGES;
    scene->lives[0] = scene->lives[1] = UINT64_MAX;
    pthread_mutex_init(&scene->lock, NULL);
    pthread_cond_init(&scene->turn, NULL);
    pthread_mutex_init(&scene->memory[0].lock, NULL);
    pthread_mutex_init(&scene->memory[1].lock, NULL);
    (void)test_gateway_key(scene->key, 1);
    test_gateway_fill(scene->body, SIZE, 1);
    test_gateway_open(&scene->base, 1 << 20, 0);
    test_gateway_extend(&scene->base, 1 << 20, 0);
    gateway_context_close(scene->base.context);
    scene->base.context = NULL;
    scene->base.options.warm_capacity = 0;
    for (unsigned who = 0; who < 2; who++)
        open_mover(scene, who);
    assert_int_equal(test_gateway_put(&scene->movers[0], 1, SIZE), KVT_OK);
    assert_int_equal(move(scene, 0, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(test_gateway_get(&scene->movers[1], 1, SIZE, NULL), KVT_OK);
    assert_int_equal(
        gateway_catalog_get(scene->movers[0].context->catalog, scene->key, &scene->row), KVT_OK);
}

static void
close_scene(struct scene *scene)
{
    for (unsigned who = 0; who < 2; who++)
        gateway_context_close(scene->movers[who].context);
    test_gateway_close(&scene->base);
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        memory_bucket_clear(&scene->memory[bucket]);
        pthread_mutex_destroy(&scene->memory[bucket].lock);
    }
    pthread_cond_destroy(&scene->turn);
    pthread_mutex_destroy(&scene->lock);
}

static void
set_row(struct scene *scene, unsigned who, unsigned tiers, unsigned moving)
{
    struct gateway_catalog *catalog = scene->movers[who].context->catalog;
    struct gateway_change change = {.key = scene->key, .record = scene->row};

    change.record.tiers = tiers;
    change.record.moving = moving;
    assert_int_equal(gateway_catalog_change(catalog, &change, 1, GATEWAY_APPLIED), KVT_OK);
}

static void
put_copy(struct scene *scene, unsigned bucket)
{
    struct g4_meta meta;

    gateway_record_meta(&scene->row, &meta);
    assert_int_equal(
        test_gateway_store_put(scene->views[0][bucket].inner, scene->key, scene->body, SIZE, &meta),
        KVT_OK);
}

/* What both do, and what they know before. */
struct play {
    const char *name;
    act acts[2];
    unsigned there;    /* buckets that have it */
    unsigned tiers[2]; /* of each one's row */
    unsigned moving[2];
};

/* As if nothing had been. */
static void
set_scene(struct scene *scene, const struct play *play)
{
    scene->watched = false;
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        memory_bucket_clear(&scene->memory[bucket]);
        if ((play->there & (bucket == 0 ? GATEWAY_COLD : GATEWAY_FAR)) != 0)
            put_copy(scene, bucket);
    }
    for (unsigned who = 0; who < 2; who++) {
        scene->lives[who] = UINT64_MAX;
        scene->dead[who] = scene->away[who] = false;
        set_row(scene, who, play->tiers[who], play->moving[who]);
        gateway_bucket_tier_probe(scene->movers[who].context->tiers.buckets);
        scene->over[who] = false;
    }
    scene->at = scene->used = scene->calls = scene->lost_at = 0;
    scene->watched = true;
}

struct role {
    struct scene *scene;
    unsigned who;
    act act;
};

static void *
perform(void *arg)
{
    const struct role *role = arg;

    role->scene->ended[role->who] = role->act(role->scene, role->who);
    end_turns(role->scene, role->who);
    return NULL;
}

static void
play_both(struct scene *scene, const struct play *play)
{
    struct role roles[2];
    pthread_t threads[2];

    scene->takes_turns = true;
    for (unsigned who = 0; who < 2; who++) {
        roles[who] = (struct role){.scene = scene, .who = who, .act = play->acts[who]};
        assert_int_equal(pthread_create(&threads[who], NULL, perform, &roles[who]), 0);
    }
    for (unsigned who = 0; who < 2; who++)
        assert_int_equal(pthread_join(threads[who], NULL), 0);
    scene->takes_turns = false;
}

/* The next lives: what was begun is ended.  Locks of the dead are waited for. */
static void
settle_all(struct scene *scene)
{
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned who = 0; who < 2; who++) {
            gateway_bucket_tier_probe(scene->movers[who].context->tiers.buckets);
            (void)gateway_recover_pending(scene->movers[who].context);
        }
        scene->memory[0].now_ms += LIFE_MS;
        scene->memory[1].now_ms += LIFE_MS;
    }
}

static void
expect_settled(struct scene *scene)
{
    for (unsigned who = 0; who < 2; who++) {
        struct gateway_record record;
        const enum kvt_err rc = test_gateway_get(&scene->movers[who], 1, SIZE, NULL);

        if (rc != KVT_OK)
            fail_msg("%s: gateway %u reads: %s", scene->what, who, kvt_err_text(rc));
        assert_int_equal(
            gateway_catalog_get(scene->movers[who].context->catalog, scene->key, &record), KVT_OK);
        if (record.moving != 0)
            fail_msg("%s: gateway %u is not done", scene->what, who);
    }
    for (unsigned bucket = 0; bucket < 2; bucket++)
        if (memory_bucket_find(&scene->memory[bucket], scene->key) != NULL &&
            !has_copy(scene, bucket))
            fail_msg("%s: something else is in bucket %u", scene->what, bucket);
    if (memory_bucket_count(&scene->memory[0], GATEWAY_MOVE_LOCK_PREFIX) != 0)
        fail_msg("%s: a lock stays", scene->what);
}

/* ---- what they do ---- */

static enum kvt_err
moves_far(struct scene *scene, unsigned who)
{
    return move(scene, who, GATEWAY_COLD, GATEWAY_FAR, false);
}

static enum kvt_err
moves_near(struct scene *scene, unsigned who)
{
    return move(scene, who, GATEWAY_FAR, GATEWAY_COLD, false);
}

static enum kvt_err
settles(struct scene *scene, unsigned who)
{
    return gateway_move_settle(scene->movers[who].context, scene->key);
}

static const struct play plays[] = {
    {"opposite ways",
     {moves_far, moves_near},
     GATEWAY_BUCKETS,
     {GATEWAY_BUCKETS, GATEWAY_BUCKETS},
     {0, 0}},
    {"opposite ways, one copied first",
     {moves_far, moves_near},
     GATEWAY_COLD,
     {GATEWAY_COLD, GATEWAY_BUCKETS},
     {0, 0}},
    {"the same way", {moves_far, moves_far}, GATEWAY_COLD, {GATEWAY_COLD, GATEWAY_COLD}, {0, 0}},
    {"one undoes what the other goes on with",
     {settles, moves_far},
     GATEWAY_BUCKETS,
     {GATEWAY_COLD, GATEWAY_BUCKETS},
     {GATEWAY_FAR, 0}},
    {"both end what they began, opposite ways",
     {settles, settles},
     GATEWAY_BUCKETS,
     {GATEWAY_BUCKETS, GATEWAY_BUCKETS},
     {GATEWAY_FAR, GATEWAY_COLD}},
};

/* ---- every order ---- */

/* The next numbers, the last one first, which begins anew when a share was not used up.  False:
 * those were all. */
static bool
next_shares(struct scene *scene)
{
    for (unsigned i = scene->changes; i-- > 0;) {
        const bool used_up = i < scene->at || (i == scene->at && scene->used == scene->shares[i]);

        if (used_up && scene->shares[i] < CALLS_MAX) {
            scene->shares[i]++;
            return true;
        }
        scene->shares[i] = i == 0 ? 0 : 1;
    }
    return false;
}

static void
expect_never_lost(struct scene *scene)
{
    if (scene->lost_at != 0)
        fail_msg("%s: no bucket has it after request %u", scene->what, scene->lost_at);
}

static unsigned
walk(struct scene *scene, const struct play *play, void (*begin)(struct scene *),
     void (*check)(struct scene *))
{
    unsigned orders = 0;

    for (unsigned first = 0; first < 2; first++) {
        scene->first = first;
        for (unsigned i = 0; i < CHANGES_MAX; i++)
            scene->shares[i] = 1;
        do {
            (void)snprintf(scene->what, sizeof(scene->what), "%s, %s, %u first: %u, %u, %u, %u, %u",
                           play->name, scene->deaf ? "deaf" : "heeding", first, scene->shares[0],
                           scene->shares[1], scene->shares[2], scene->shares[3], scene->shares[4]);
            set_scene(scene, play);
            if (begin != NULL)
                begin(scene);
            play_both(scene, play);
            check(scene);
            orders++;
        } while (next_shares(scene));
    }
    return orders;
}

static void
there_is_a_copy_in_every_order(void **state)
{
    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct scene scene;

        open_scene(&scene, deaf != 0);
        for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++) {
            const unsigned orders = walk(&scene, &plays[i], NULL, expect_never_lost);

            print_message("%s: %u orders\n", plays[i].name, orders);
            assert_true(orders > 50);
            settle_all(&scene);
            expect_settled(&scene);
        }
        close_scene(&scene);
    }
}

/* ---- both die ---- */

/* Each acts until it dies, one after the other; which of them died is in `died`. */
static void
die_both(struct scene *scene, const struct play *play, unsigned first, const unsigned at[2],
         bool died[2])
{
    (void)snprintf(scene->what, sizeof(scene->what), "%s, %s, %u first: deaths at %u, %u",
                   play->name, scene->deaf ? "deaf" : "heeding", first, at[0], at[1]);
    set_scene(scene, play);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned who = (first + i) % 2;

        scene->lives[who] = at[i];
        (void)!play->acts[who](scene, who);
        died[i] = scene->dead[who];
    }
    for (unsigned who = 0; who < 2; who++)
        live_again(scene, who);
    settle_all(scene);
    expect_never_lost(scene);
    expect_settled(scene);
}

static unsigned
every_death(struct scene *scene, const struct play *play, unsigned first)
{
    bool died[2] = {true, true};
    unsigned deaths = 0;
    unsigned at[2];

    for (at[0] = 0; died[0]; at[0]++) {
        died[1] = true;
        for (at[1] = 0; died[1]; at[1]++) {
            assert_true(at[0] < CALLS_MAX && at[1] < CALLS_MAX);
            die_both(scene, play, first, at, died);
            deaths += died[0] && died[1];
        }
    }
    return deaths;
}

static void
two_deaths_leave_the_block(void **state)
{
    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct scene scene;

        open_scene(&scene, deaf != 0);
        for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++)
            for (unsigned first = 0; first < 2; first++)
                assert_true(every_death(&scene, &plays[i], first) > 10);
        close_scene(&scene);
    }
}

/* ---- removed while the far bucket is away ---- */

static enum kvt_err
removes_without_far(struct scene *scene, unsigned who)
{
    scene->away[who] = true;
    return gateway_remove(scene->movers[who].context, scene->key);
}

/* Whatever a move was about to do, what was acknowledged as removed is nowhere in the end, and
 * nobody reads it. */
static void
expect_removed(struct scene *scene)
{
    if (scene->ended[0] != KVT_OK && scene->ended[0] != KVT_AGAIN)
        fail_msg("%s: it says %s", scene->what, kvt_err_text(scene->ended[0]));
    if (scene->ended[0] == KVT_OK) {
        const enum kvt_err rc = test_gateway_get(&scene->movers[0], 1, SIZE, NULL);

        if (rc != KVT_NOTFOUND)
            fail_msg("%s: what was removed: %s", scene->what, kvt_err_text(rc));
    }
    scene->away[0] = false;
    settle_all(scene);
    if (scene->ended[0] != KVT_OK)
        return;
    for (unsigned who = 0; who < 2; who++)
        if (test_gateway_get(&scene->movers[who], 1, SIZE, NULL) != KVT_NOTFOUND)
            fail_msg("%s: gateway %u reads what was removed", scene->what, who);
    for (unsigned bucket = 0; bucket < 2; bucket++)
        if (memory_bucket_find(&scene->memory[bucket], scene->key) != NULL)
            fail_msg("%s: bucket %u has what was removed", scene->what, bucket);
    if (memory_bucket_count(&scene->memory[0], GATEWAY_MOVE_LOCK_PREFIX) != 0)
        fail_msg("%s: a lock stays", scene->what);
}

static void
what_was_removed_is_not_moved_back(void **state)
{
    static const struct play removals[] = {
        {"removed, and moved far",
         {removes_without_far, moves_far},
         GATEWAY_BUCKETS,
         {GATEWAY_COLD, GATEWAY_BUCKETS},
         {0, 0}},
        {"removed, and copied and moved far",
         {removes_without_far, moves_far},
         GATEWAY_COLD,
         {GATEWAY_COLD, GATEWAY_COLD},
         {0, 0}},
        {"removed, and moved near",
         {removes_without_far, moves_near},
         GATEWAY_FAR,
         {GATEWAY_FAR, GATEWAY_FAR},
         {0, 0}},
        {"removed, and a move is ended",
         {removes_without_far, settles},
         GATEWAY_BUCKETS,
         {GATEWAY_FAR, GATEWAY_BUCKETS},
         {0, GATEWAY_COLD}},
        {"removed, and a move is undone",
         {removes_without_far, settles},
         GATEWAY_BUCKETS,
         {GATEWAY_BUCKETS, GATEWAY_COLD},
         {0, GATEWAY_FAR}},
    };

    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct scene scene;

        open_scene(&scene, deaf != 0);
        scene.changes = REMOVAL_CHANGES;
        for (size_t i = 0; i < sizeof(removals) / sizeof(removals[0]); i++)
            assert_true(walk(&scene, &removals[i], NULL, expect_removed) > 10);
        close_scene(&scene);
    }
}

static void
remove_first(struct scene *scene)
{
    scene->watched = false;
    assert_int_equal(removes_without_far(scene, 0), KVT_OK);
    scene->away[0] = false;
    gateway_bucket_tier_probe(scene->movers[0].context->tiers.buckets);
}

static enum kvt_err
ends_removal(struct scene *scene, unsigned who)
{
    return gateway_removal_finish(scene->movers[who].context, scene->key, NULL);
}

static enum kvt_err
stores(struct scene *scene, unsigned who)
{
    return test_gateway_put(&scene->movers[who], 1, SIZE);
}

static enum kvt_err
puts_and_moves_far(struct scene *scene, unsigned who)
{
    const enum kvt_err rc = stores(scene, who);

    if (rc == KVT_OK) {
        (void)!move(scene, who, GATEWAY_HOT, GATEWAY_COLD, false);
        (void)!move(scene, who, GATEWAY_COLD, GATEWAY_FAR, false);
    }
    return rc;
}

/* What was acknowledged behind the removal stays, wherever it was moved meanwhile. */
static void
expect_put(struct scene *scene)
{
    struct gateway_move down = {.from = GATEWAY_HOT, .to = GATEWAY_BUCKETS};
    uint64_t bytes;

    settle_all(scene);
    /* The copy on its volume is another's. */
    (void)!gateway_move(scene->movers[1].context, scene->key, &down, &bytes);
    if (scene->ended[1] != KVT_OK)
        return;
    for (unsigned who = 0; who < 2; who++)
        if (test_gateway_get(&scene->movers[who], 1, SIZE, NULL) != KVT_OK)
            fail_msg("%s: gateway %u does not read it", scene->what, who);
    if (!has_copy(scene, 0) && !has_copy(scene, 1))
        fail_msg("%s: no bucket has it", scene->what);
    scene->acknowledged++;
}

static void
what_is_put_again_is_not_removed(void **state)
{
    static const struct play renewals[] = {
        {"put behind a removal",
         {ends_removal, stores},
         GATEWAY_BUCKETS,
         {GATEWAY_FAR, GATEWAY_COLD},
         {0, 0}},
        {"put and moved behind a removal",
         {ends_removal, puts_and_moves_far},
         GATEWAY_FAR,
         {GATEWAY_FAR, GATEWAY_FAR},
         {0, 0}},
    };

    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct scene scene;

        open_scene(&scene, deaf != 0);
        scene.changes = REMOVAL_CHANGES;
        for (size_t i = 0; i < sizeof(renewals) / sizeof(renewals[0]); i++)
            assert_true(walk(&scene, &renewals[i], remove_first, expect_put) > 10);
        assert_true(scene.acknowledged > 20);
        close_scene(&scene);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_a_copy_in_every_order),
        cmocka_unit_test(two_deaths_leave_the_block),
        cmocka_unit_test(what_was_removed_is_not_moved_back),
        cmocka_unit_test(what_is_put_again_is_not_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
