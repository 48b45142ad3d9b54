#include "tests/unit/engine/support/worker_suite.h"

#include <pthread.h>
#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

#define NUMBERS 24 /* contents there are: 1 .. */
#define ITEMS   4

/* What lies where; 0: nobody can say. */
struct model {
    const struct suite_world *world;
    uint64_t random;
    uint64_t tiers[KVT_TIER_G4][SUITE_BLOCKS];
    bool stored[NUMBERS + 1];
    uint64_t peer[SUITE_BLOCKS];
    bool shown[SUITE_BLOCKS];
    uint64_t seen[ENGINE_VERB_END][KVT_ERR_COUNT];
    struct engine_item items[ITEMS];
    size_t count;
};

struct kvbm_label
suite_label(uint64_t number)
{
    return (struct kvbm_label){
        .id = {.hash = number * 0x9E3779B97F4A7C15u | 1,
               .parent = number * 31,
               .position = (uint32_t)number},
        .prefix_hash = number,
    };
}

static uint32_t
draw(struct model *model, uint32_t bound)
{
    return (uint32_t)kvt_random_below(&model->random, bound);
}

static bool
has_tier(const struct model *model, enum kvt_tier tier)
{
    return model->world->own.worker->blocks[tier] >= SUITE_BLOCKS;
}

/* Some items with targets of their own. */
static void
draw_items(struct model *model)
{
    const uint32_t first = draw(model, SUITE_BLOCKS);

    model->count = 1 + draw(model, ITEMS);
    for (size_t i = 0; i < model->count; i++)
        model->items[i] = (struct engine_item){
            .label = suite_label(1 + draw(model, NUMBERS)),
            .source = draw(model, SUITE_BLOCKS),
            .target = (first + 3 * (uint32_t)i) % SUITE_BLOCKS,
            .status = KVT_ERR_COUNT,
        };
}

/* Only those whose source is known. */
static bool
keep_known(struct model *model, enum kvt_tier from)
{
    size_t kept = 0;

    for (size_t i = 0; i < model->count; i++)
        if (model->tiers[from][model->items[i].source] != 0)
            model->items[kept++] = model->items[i];
    model->count = kept;
    for (size_t i = 0; i < kept; i++)
        model->items[i].label = suite_label(model->tiers[from][model->items[i].source]);
    return kept > 0;
}

static struct engine_job
job_of(struct model *model, enum engine_verb verb, enum kvt_tier from, enum kvt_tier to)
{
    return (struct engine_job){
        .verb = verb,
        .from = from,
        .to = to,
        .peer = model->world->peer_number,
        .priority = (enum kvt_priority)draw(model, KVT_PRIORITY_COUNT),
        .wait_ms = 20000,
        .items = model->items,
        .count = model->count,
    };
}

static bool
is_fault(const struct model *model, enum kvt_err status)
{
    return model->world->faults && (status == KVT_IO || status == KVT_AGAIN ||
                                    status == KVT_TIMEOUT || status == KVT_UNAVAILABLE);
}

/* An outcome says what its items say. */
static void
run(struct model *model, struct engine_worker *worker, struct engine_job *job)
{
    struct engine_outcome outcome;
    const enum kvt_err rc = engine_worker_run(worker, job, &outcome);
    bool well = true;

    assert_int_equal(rc, outcome.status);
    for (size_t i = 0; i < job->count; i++) {
        assert_true(job->items[i].status < KVT_ERR_COUNT);
        model->seen[job->verb][job->items[i].status]++;
        well = well && engine_item_is_well(job->verb, job->items[i].status);
    }
    assert_true(well == (rc == KVT_OK));
    if (rc != KVT_OK)
        assert_true(strlen(outcome.error.text) > 0);
    if (outcome.ranks > 0) {
        assert_int_equal(outcome.ranks, worker->ranks);
        for (uint32_t r = 0; rc == KVT_OK && r < outcome.ranks; r++)
            assert_int_equal(outcome.by_rank[r], KVT_OK);
    }
}

/* What an item's target is from now on. */
static void
judge(struct model *model, enum kvt_tier to, const struct engine_item *item, enum kvt_err expected,
      uint64_t number)
{
    if (!is_fault(model, item->status))
        assert_int_equal(item->status, expected);
    model->tiers[to][item->target] = item->status == KVT_OK ? number : 0;
    if (item->status == KVT_OK)
        assert_true(model->world->own.is(model->world->own.arg, to, item->target, number));
}

/* Steps ------------------------------------------------------------------------------------ */

static void
step_write(struct model *model)
{
    const struct suite_side *own = &model->world->own;
    const uint32_t block = draw(model, SUITE_BLOCKS);
    const uint64_t number = 1 + draw(model, NUMBERS);

    if (!has_tier(model, KVT_TIER_G1))
        return;
    own->write(own->arg, KVT_TIER_G1, block, number);
    model->tiers[KVT_TIER_G1][block] = number;
}

static enum kvt_tier
draw_tier(struct model *model)
{
    enum kvt_tier tier;

    do
        tier = (enum kvt_tier)(1 + draw(model, 3));
    while (!has_tier(model, tier));
    return tier;
}

static void
step_copy(struct model *model)
{
    const enum kvt_tier from = draw_tier(model);
    const enum kvt_tier to = draw_tier(model);
    struct engine_job job;

    draw_items(model);
    if (from == to || !keep_known(model, from))
        return;
    job = job_of(model, ENGINE_COPY, from, to);
    run(model, model->world->own.worker, &job);
    for (size_t i = 0; i < model->count; i++)
        judge(model, to, &model->items[i], KVT_OK, model->tiers[from][model->items[i].source]);
}

/* Between G1 and G2 layers go one by one, in any order, and two at once. */
static void
step_layers(struct model *model)
{
    const bool down = draw(model, 2) == 0;
    const enum kvt_tier from = down ? KVT_TIER_G1 : KVT_TIER_G2;
    const enum kvt_tier to = down ? KVT_TIER_G2 : KVT_TIER_G1;
    const uint32_t layers = model->world->own.worker->layout.geometry.layers;
    bool well[ITEMS] = {true, true, true, true};

    draw_items(model);
    if (!has_tier(model, from) || !has_tier(model, to) || !keep_known(model, from))
        return;
    for (uint32_t layer = 0; layer < layers; layer++) {
        struct engine_job job = job_of(model, ENGINE_COPY, from, to);

        job.layer = down ? layer : layers - 1 - layer;
        job.layers = 1;
        run(model, model->world->own.worker, &job);
        for (size_t i = 0; i < model->count; i++)
            well[i] = well[i] && model->items[i].status == KVT_OK;
    }
    for (size_t i = 0; i < model->count; i++) {
        assert_true(well[i] || model->world->faults);
        model->items[i].status = well[i] ? KVT_OK : KVT_IO;
        judge(model, to, &model->items[i], KVT_OK, model->tiers[from][model->items[i].source]);
    }
}

static uint64_t
number_of(const struct engine_item *item)
{
    return item->label.prefix_hash;
}

/* Of G1 and G2, and what is stored of G3, too. */
static enum kvt_tier
tier_for(struct model *model, enum engine_verb verb)
{
    if (verb == ENGINE_STORE && has_tier(model, KVT_TIER_G3) && draw(model, 3) == 0)
        return KVT_TIER_G3;
    return has_tier(model, KVT_TIER_G1) && draw(model, 2) == 0 ? KVT_TIER_G1 : KVT_TIER_G2;
}

static void
step_objects(struct model *model)
{
    const enum engine_verb verbs[] = {ENGINE_STORE, ENGINE_LOAD, ENGINE_ASK};
    const enum engine_verb verb = verbs[draw(model, 3)];
    const enum kvt_tier tier = tier_for(model, verb);
    struct engine_job job;

    draw_items(model);
    if (!model->world->own.worker->objects || (verb == ENGINE_STORE && !keep_known(model, tier)))
        return;
    job = job_of(model, verb, tier, tier);
    run(model, model->world->own.worker, &job);
    for (size_t i = 0; i < model->count; i++) {
        const struct engine_item *item = &model->items[i];
        const uint64_t number = number_of(item);
        const bool stored = model->stored[number];

        if (verb == ENGINE_LOAD)
            judge(model, tier, item, stored ? KVT_OK : KVT_NOTFOUND, number);
        else if (verb == ENGINE_ASK)
            assert_true(is_fault(model, item->status) ||
                        item->status == (stored ? KVT_OK : KVT_NOTFOUND));
        else
            assert_true(is_fault(model, item->status) || model->world->faults ||
                        item->status == (stored ? KVT_EXISTS : KVT_OK));
        if (verb == ENGINE_STORE && engine_item_is_well(verb, item->status))
            model->stored[number] = true;
    }
}

/* The peer's engine writes, and shows or does not. */
static void
step_peer(struct model *model)
{
    const struct suite_side *peer = &model->world->peer;
    struct engine_item item = {.source = draw(model, SUITE_BLOCKS), .status = KVT_ERR_COUNT};
    struct engine_job job;

    if (peer->worker == NULL)
        return;
    model->count = 1;
    job = job_of(model, ENGINE_HIDE, (enum kvt_tier)0, (enum kvt_tier)0);
    job.items = &item;
    run(model, peer->worker, &job);
    if (job.items[0].status != KVT_OK)
        return;
    model->shown[item.source] = false;
    if (draw(model, 4) == 0)
        return;
    model->peer[item.source] = 1 + draw(model, NUMBERS);
    peer->write(peer->arg, KVT_TIER_G2, item.source, model->peer[item.source]);
    item.label = suite_label(model->peer[item.source]);
    job.verb = ENGINE_SHOW;
    run(model, peer->worker, &job);
    model->shown[item.source] = item.status == KVT_OK;
}

/* Of a group some ranks may show what others could not. */
static void
step_pull(struct model *model)
{
    const enum kvt_tier to =
        has_tier(model, KVT_TIER_G1) && draw(model, 2) == 0 ? KVT_TIER_G1 : KVT_TIER_G2;
    struct engine_job job;

    draw_items(model);
    if (model->world->peer.worker == NULL)
        return;
    for (size_t i = 0; i < model->count; i++)
        if (model->peer[model->items[i].source] != 0 && draw(model, 4) != 0)
            model->items[i].label = suite_label(model->peer[model->items[i].source]);
    job = job_of(model, ENGINE_PULL, (enum kvt_tier)0, to);
    run(model, model->world->own.worker, &job);
    for (size_t i = 0; i < model->count; i++) {
        const struct engine_item *item = &model->items[i];
        const bool there =
            model->shown[item->source] && model->peer[item->source] == number_of(item);

        judge(model, to, item, there ? KVT_OK : KVT_NOTFOUND, number_of(item));
    }
}

struct end {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    unsigned times;
};

static void
note_end(void *arg, const struct engine_outcome *outcome)
{
    struct end *end = arg;

    (void)outcome;
    (void)pthread_mutex_lock(&end->lock);
    end->times++;
    (void)pthread_cond_signal(&end->ended);
    (void)pthread_mutex_unlock(&end->lock);
}

/* Cancelled, or late, at any moment: it ends once, each item well or not done. */
static void
step_break(struct model *model)
{
    struct end end = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    const enum kvt_tier from = draw_tier(model);
    const enum kvt_tier to = draw_tier(model);
    const bool late = draw(model, 2) == 0;
    struct engine_job job;
    enum kvt_err rc;

    draw_items(model);
    if (from == to || !keep_known(model, from))
        return;
    job = job_of(model, ENGINE_COPY, from, to);
    job.done = note_end;
    job.arg = &end;
    job.wait_ms = late ? 0 : 20000;
    rc = engine_worker_start(model->world->own.worker, &job);
    assert_true(rc == KVT_OK || is_fault(model, rc) || (late && rc == KVT_TIMEOUT));
    if (rc == KVT_OK && !late)
        engine_worker_cancel(model->world->own.worker, &job);
    (void)pthread_mutex_lock(&end.lock);
    while (rc == KVT_OK && end.times == 0)
        (void)pthread_cond_wait(&end.ended, &end.lock);
    (void)pthread_mutex_unlock(&end.lock);
    assert_int_equal(end.times, rc == KVT_OK ? 1 : 0);
    for (size_t i = 0; i < model->count; i++) {
        const struct engine_item *item = &model->items[i];

        if (rc != KVT_OK)
            model->tiers[to][item->target] = 0;
        else
            judge(model, to, item,
                  item->status == KVT_OK ? KVT_OK
                  : late                 ? KVT_TIMEOUT
                                         : KVT_CANCELLED,
                  model->tiers[from][item->source]);
    }
}

/* What cannot be is refused, and nothing is done. */
static void
step_refused(struct model *model)
{
    struct engine_job job;

    draw_items(model);
    job = job_of(model, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G2);
    assert_int_equal(engine_worker_run(model->world->own.worker, &job, NULL), KVT_INVALID);
    job = job_of(model, ENGINE_HIDE, (enum kvt_tier)0, (enum kvt_tier)0);
    model->items[0].source = UINT32_MAX;
    assert_int_equal(engine_worker_run(model->world->own.worker, &job, NULL), KVT_INVALID);
    if (model->world->peer.worker == NULL)
        return;
    draw_items(model);
    job = job_of(model, ENGINE_PULL, (enum kvt_tier)0, KVT_TIER_G2);
    job.peer = model->world->peer_number + 1;
    for (size_t i = 0; i < model->count; i++)
        model->tiers[KVT_TIER_G2][model->items[i].target] = 0;
    run(model, model->world->own.worker, &job);
    for (size_t i = 0; i < model->count; i++)
        assert_true(model->items[i].status == KVT_UNAVAILABLE ||
                    is_fault(model, model->items[i].status));
}

void
worker_suite_run(const struct suite_world *world)
{
    static void (*const steps[])(struct model * model) = {
        step_write,   step_write, step_copy, step_copy, step_layers, step_objects,
        step_objects, step_peer,  step_peer, step_pull, step_pull,   step_break,
    };
    struct model model = {.world = world, .random = world->seed};

    for (unsigned i = 0; i < world->steps; i++) {
        steps[draw(&model, sizeof(steps) / sizeof(steps[0]))](&model);
        if (i % 64 == 0)
            step_refused(&model);
    }
    for (enum kvt_tier tier = KVT_TIER_G1; tier <= KVT_TIER_G3; tier++)
        for (uint32_t block = 0; block < SUITE_BLOCKS; block++)
            assert_true(model.tiers[tier][block] == 0 ||
                        world->own.is(world->own.arg, tier, block, model.tiers[tier][block]));
    if (world->steps < 1000)
        return;
    assert_true(model.seen[ENGINE_COPY][KVT_OK] > 0);
    if (world->own.worker->objects) {
        assert_true(model.seen[ENGINE_LOAD][KVT_OK] > 0);
        assert_true(model.seen[ENGINE_STORE][KVT_OK] > 0);
        assert_true(model.seen[ENGINE_ASK][KVT_OK] > 0 && model.seen[ENGINE_ASK][KVT_NOTFOUND] > 0);
    }
    if (world->peer.worker != NULL)
        assert_true(model.seen[ENGINE_PULL][KVT_OK] > 0 &&
                    model.seen[ENGINE_PULL][KVT_NOTFOUND] > 0);
}
