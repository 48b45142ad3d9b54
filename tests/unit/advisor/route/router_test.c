/*
 * What is tested: advisor/route/router.h, and questions and steps as bytes.
 * How: an index and workers by hand; each decision against what the formula says of it.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/nats_responder.h"
#include "advisor/route/router_thread.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/metrics.h"
#include "wire/message/query.h"

#include "tests/support/seed.h"

enum { BLOCKS = 8, BLOCK_TOKENS = 4, DRAWS = 4000, ASKERS = 4, BOOKINGS = 200 };

static const char space[] = "tenant/model";

struct scene {
    struct index *index;
    struct advisor_ram_index memory;
    struct advisor_finder finder;
    struct kvt_metrics *metrics;
    struct advisor_router *router;
    struct wire_route_question question;
    struct wire_route_answer answer;
    struct kvt_error err;
    uint64_t hashes[BLOCKS];
    char allowed[4][KVT_NAME_MAX];
    uint32_t ns;
};

static struct advisor_router_options
options_of(const struct scene *scene)
{
    return (struct advisor_router_options){
        .weights = router_weights_default(),
        .block_tokens = BLOCK_TOKENS,
        .expiry_ms = 100000,
        .requests_max = 1024,
        .number = 7,
        .seed = 1,
        .metrics = scene->metrics,
    };
}

static void
seen(struct scene *scene, const char *name, uint32_t dp_rank)
{
    struct router_worker worker = {.dp_rank = dp_rank};

    (void)snprintf(worker.name, sizeof(worker.name), "%s", name);
    assert_int_equal(
        router_workers_seen(advisor_router_workers(scene->router), &worker, ROUTER_ORIGIN_EVENTS),
        KVT_OK);
}

static void
gone(struct scene *scene, const char *name)
{
    router_workers_gone_name(advisor_router_workers(scene->router), name);
}

static void
begin_with(struct scene *scene, uint64_t expiry_ms)
{
    struct advisor_router_options options;

    *scene = (struct scene){.index = NULL};
    assert_int_equal(index_new(&scene->index, 64u << 20), KVT_OK);
    scene->memory.index = scene->index;
    scene->finder.memory = &scene->memory;
    assert_int_equal(index_namespace(scene->index, space, &scene->ns), KVT_OK);
    assert_int_equal(kvt_metrics_new(&scene->metrics), KVT_OK);
    options = options_of(scene);
    options.expiry_ms = expiry_ms;
    assert_int_equal(advisor_router_new(&scene->router, &options, &scene->err), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        scene->hashes[i] = 1000 + i;
    scene->question = (struct wire_route_question){
        .kind = WIRE_ROUTE_HASHES, .values = scene->hashes, .value_count = BLOCKS, .explain = true};
    memcpy(scene->question.namespace_, space, sizeof(space));
}

static void
begin(struct scene *scene)
{
    begin_with(scene, 100000);
}

static void
end(struct scene *scene)
{
    wire_route_answer_release(&scene->answer);
    advisor_router_free(scene->router);
    kvt_metrics_free(scene->metrics);
    index_free(scene->index);
}

static void
store(struct scene *scene, const char *name, enum kvt_tier tier, uint32_t from, uint32_t to)
{
    struct index_holder key = {.tier = tier};
    uint32_t holder;

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    assert_int_equal(index_holder(scene->index, &key, &holder), KVT_OK);
    for (uint32_t i = from; i < to; i++) {
        const struct index_block block = {.id = {.hash = scene->hashes[i],
                                                 .parent = i == 0 ? 0 : scene->hashes[i - 1],
                                                 .position = i},
                                          .size = 1,
                                          .ranks = 1};

        assert_int_equal(index_store(scene->index, scene->ns, holder, &block, NULL), KVT_OK);
    }
}

static enum kvt_err
ask(struct scene *scene)
{
    wire_route_answer_release(&scene->answer);
    scene->err.text[0] = '\0';
    return advisor_router_ask(scene->router, &scene->finder, &scene->question, &scene->answer,
                              &scene->err);
}

static void
assert_goes_to(struct scene *scene, const char *worker)
{
    assert_int_equal(ask(scene), KVT_OK);
    assert_string_equal(scene->answer.chosen.worker, worker);
}

static void
name_request(struct scene *scene, const char *id)
{
    (void)snprintf(scene->question.id, sizeof(scene->question.id), "%s", id);
}

static enum kvt_err
step(struct scene *scene, enum wire_route_step_kind kind, const char *id, bool *changed)
{
    struct wire_route_step step = {.kind = kind};

    (void)snprintf(step.id, sizeof(step.id), "%s", id);
    return advisor_router_step(scene->router, &step, changed, &scene->err);
}

/* ---- decisions ---- */

static void
the_worker_that_has_most_is_chosen_and_told_why(void **state)
{
    const struct wire_route_row *rows;
    struct scene scene;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    seen(&scene, "b", 0);
    store(&scene, "b", KVT_TIER_G1, 0, 4);
    store(&scene, "b", KVT_TIER_G2, 0, 6);
    store(&scene, "hot@g", KVT_TIER_G4, 0, 8);
    assert_goes_to(&scene, "b");
    assert_int_equal(scene.answer.why, WIRE_ROUTE_LOWEST);
    assert_int_equal(scene.answer.blocks, BLOCKS);
    assert_int_equal(scene.answer.candidates, 2);
    assert_false(scene.answer.booked);
    assert_int_equal(scene.answer.row_count, 2);
    rows = scene.answer.rows;
    assert_string_equal(rows[0].worker, "b");
    assert_memory_equal(rows[0].cached, ((uint32_t[]){4, 2, 0, 2}), sizeof(rows[0].cached));
    assert_memory_equal(rows[1].cached, ((uint32_t[]){0, 0, 0, 8}), sizeof(rows[1].cached));
    /* 8 blocks less 4 + 0.75 * 2 + 0.1 * 2, and 8 to be kept. */
    assert_true(fabs(rows[0].prefill_blocks - 2.3) < 1e-9);
    assert_true(rows[0].decode_blocks == 8.0);
    assert_true(fabs(rows[0].cost - 10.3) < 1e-9);
    assert_true(fabs(rows[1].cost - 15.2) < 1e-9);
    assert_true(rows[0].probability == 1.0 && rows[1].probability == 0.0);
    end(&scene);
}

/* What no other router sees: the same blocks in the cold tier weigh against a short prefix. */
static void
the_cold_tier_changes_the_choice(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    seen(&scene, "b", 0);
    store(&scene, "a", KVT_TIER_G3, 0, 8);
    store(&scene, "b", KVT_TIER_G1, 0, 1);
    assert_goes_to(&scene, "a");
    /* b: 1 + 7 * 0.3 is more than a's 8 * 0.25. */
    store(&scene, "cold@b", KVT_TIER_G4, 0, 8);
    scene.question.weighted = 1u << WIRE_ROUTE_G4;
    scene.question.weights[WIRE_ROUTE_G4] = 0.3;
    assert_goes_to(&scene, "b");
    scene.question.weights[WIRE_ROUTE_G4] = 0.0;
    assert_goes_to(&scene, "a");
    end(&scene);
}

static void
questions_may_weigh_otherwise_and_allow_some(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    seen(&scene, "b", 0);
    seen(&scene, "b", 1);
    seen(&scene, "c", 0);
    store(&scene, "a", KVT_TIER_G1, 0, 8);
    store(&scene, "c", KVT_TIER_G2, 0, 8);
    scene.question.workers = scene.allowed;
    memcpy(scene.allowed[0], "c", 2);
    memcpy(scene.allowed[1], "b", 2);
    scene.question.worker_count = 2;
    assert_goes_to(&scene, "c");
    assert_int_equal(scene.answer.candidates, 3);
    scene.question.worker_count = 1;
    memcpy(scene.allowed[0], "nobody", 7);
    assert_int_equal(ask(&scene), KVT_NOTFOUND);
    assert_non_null(strstr(scene.err.text, "of the workers that are allowed (1) none is there"));
    scene.question.worker_count = 0;
    assert_goes_to(&scene, "a");
    scene.question.weighted = 1u << WIRE_ROUTE_OVERLAP;
    scene.question.weights[WIRE_ROUTE_OVERLAP] = -1.0;
    assert_int_equal(ask(&scene), KVT_RANGE);
    assert_non_null(strstr(scene.err.text, "overlap_score_weight"));
    end(&scene);
}

static void
without_workers_there_is_no_answer(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(ask(&scene), KVT_NOTFOUND);
    assert_string_equal(scene.err.text, "no worker is known");
    seen(&scene, "a", 0);
    assert_goes_to(&scene, "a");
    gone(&scene, "a");
    assert_int_equal(ask(&scene), KVT_NOTFOUND);
    end(&scene);
}

static void
chance_follows_the_temperature(void **state)
{
    uint32_t times[2] = {0, 0};
    double wanted;
    struct scene scene;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    seen(&scene, "b", 0);
    store(&scene, "a", KVT_TIER_G1, 0, 4);
    scene.question.weighted = 1u << WIRE_ROUTE_TEMPERATURE;
    scene.question.weights[WIRE_ROUTE_TEMPERATURE] = 1.0;
    for (int i = 0; i < DRAWS; i++) {
        assert_int_equal(ask(&scene), KVT_OK);
        assert_int_equal(scene.answer.why, WIRE_ROUTE_SOFTMAX);
        times[scene.answer.chosen.worker[0] - 'a']++;
    }
    wanted = 1.0 / (1.0 + exp(-1.0));
    assert_true(fabs(scene.answer.rows[0].probability - wanted) < 1e-9);
    assert_true(fabs(scene.answer.rows[0].probability + scene.answer.rows[1].probability - 1.0) <
                1e-9);
    /* Four standard deviations of 4,000 draws. */
    assert_true(fabs((double)times[0] / DRAWS - wanted) < 4 * sqrt(wanted * (1 - wanted) / DRAWS));
    end(&scene);
}

/* ---- booking ---- */

static void
bookings_are_seen_by_the_next(void **state)
{
    struct advisor_router_view view;
    struct scene scene;
    uint32_t times[4] = {0};
    bool changed;

    (void)state;
    begin(&scene);
    for (char name[2] = "a"; name[0] < 'e'; name[0]++)
        seen(&scene, name, 0);
    /* Requests that share nothing go round. */
    for (uint32_t i = 0; i < 40; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "r%u", i);
        name_request(&scene, id);
        for (uint32_t b = 0; b < BLOCKS; b++)
            scene.hashes[b] = 5000 + i * BLOCKS + b;
        assert_int_equal(ask(&scene), KVT_OK);
        assert_true(scene.answer.booked);
        times[scene.answer.chosen.worker[0] - 'a']++;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(times[i], 10);
    /* The id runs: it is not given out twice. */
    assert_int_equal(ask(&scene), KVT_EXISTS);
    assert_non_null(strstr(scene.err.text, "r39 runs on"));
    advisor_router_view(scene.router, &view);
    assert_int_equal(view.slots.requests, 40);
    assert_int_equal(view.decisions, 40);
    assert_int_equal(view.workers, 4);

    /* What they do is over step by step. */
    assert_int_equal(step(&scene, WIRE_ROUTE_PREFILLED, "r39", &changed), KVT_OK);
    assert_true(changed);
    assert_int_equal(step(&scene, WIRE_ROUTE_PREFILLED, "r39", &changed), KVT_OK);
    assert_false(changed);
    for (uint32_t i = 0; i < 40; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "r%u", i);
        assert_int_equal(step(&scene, WIRE_ROUTE_FREE, id, &changed), KVT_OK);
    }
    advisor_router_view(scene.router, &view);
    assert_int_equal(view.slots.requests, 0);
    assert_int_equal(step(&scene, WIRE_ROUTE_FREE, "stranger", &changed), KVT_NOTFOUND);
    assert_int_equal(step(&scene, WIRE_ROUTE_FREE, "", &changed), KVT_INVALID);
    end(&scene);
}

static const struct advisor_router_load *
load_of(const struct advisor_router_load *loads, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(loads[i].worker.name, name) == 0)
            return &loads[i];
    fail_msg("no worker %s", name);
    return NULL;
}

static void
a_request_weighs_what_is_not_cached(void **state)
{
    struct advisor_router_load *loads;
    const struct advisor_router_load *load;
    struct scene scene;
    size_t count;
    bool changed;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    store(&scene, "a", KVT_TIER_G1, 0, 5);
    name_request(&scene, "r");
    scene.question.isl_tokens = BLOCKS * BLOCK_TOKENS + 1; /* a ninth block that is not full */
    assert_goes_to(&scene, "a");
    assert_int_equal(scene.answer.blocks, BLOCKS + 1);
    assert_int_equal(advisor_router_loads(scene.router, &loads, &count), KVT_OK);
    load = load_of(loads, count, "a");
    assert_int_equal(load->active_requests, 1);
    assert_int_equal(load->active_prefill_tokens, 3 * BLOCK_TOKENS + 1);
    assert_int_equal(load->decode_blocks, BLOCKS + 1);
    assert_int_equal(load->origins, 1u << ROUTER_ORIGIN_EVENTS);
    kvt_free(loads);
    assert_int_equal(step(&scene, WIRE_ROUTE_PREFILLED, "r", &changed), KVT_OK);
    assert_int_equal(advisor_router_loads(scene.router, &loads, &count), KVT_OK);
    assert_int_equal(load_of(loads, count, "a")->active_prefill_tokens, 0);
    assert_int_equal(load_of(loads, count, "a")->decode_blocks, BLOCKS + 1);
    kvt_free(loads);
    end(&scene);
}

static void
who_left_is_out_and_what_ran_there_is_over(void **state)
{
    const struct wire_route_step add = {
        .kind = WIRE_ROUTE_ADD, .id = "r2", .worker = "a", .blocks = 1};
    struct advisor_router_load *loads;
    struct scene scene;
    size_t count;
    bool changed;

    (void)state;
    begin(&scene);
    seen(&scene, "a", 0);
    seen(&scene, "b", 0);
    store(&scene, "a", KVT_TIER_G1, 0, 8);
    name_request(&scene, "r");
    assert_goes_to(&scene, "a");
    gone(&scene, "a");
    scene.question.id[0] = '\0';
    assert_goes_to(&scene, "b");
    assert_int_equal(scene.answer.candidates, 1);
    seen(&scene, "a", 0);
    assert_goes_to(&scene, "a");
    assert_int_equal(advisor_router_loads(scene.router, &loads, &count), KVT_OK);
    assert_int_equal(load_of(loads, count, "a")->active_requests, 0);
    kvt_free(loads);
    /* Told before anybody asks again: it is of the new life. */
    gone(&scene, "a");
    seen(&scene, "a", 0);
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_OK);
    assert_int_equal(advisor_router_loads(scene.router, &loads, &count), KVT_OK);
    assert_int_equal(load_of(loads, count, "a")->active_requests, 1);
    kvt_free(loads);
    end(&scene);
}

static void
what_nobody_ends_expires(void **state)
{
    struct advisor_router_view view;
    struct scene scene;

    (void)state;
    begin_with(&scene, 20);
    seen(&scene, "a", 0);
    name_request(&scene, "r");
    assert_goes_to(&scene, "a");
    kvt_clock_sleep_ms(40);
    advisor_router_tick(scene.router, true);
    advisor_router_view(scene.router, &view);
    assert_int_equal(view.slots.requests, 0);
    assert_int_equal(view.slots.expired, 1);
    end(&scene);
}

static bool
count_request(void *arg, const struct router_request *request)
{
    uint32_t *count = arg;

    assert_string_equal(request->worker.name, "elsewhere");
    assert_int_equal(request->blocks, 3);
    (*count)++;
    return true;
}

static void
requests_may_be_given_out_elsewhere(void **state)
{
    struct wire_route_step add = {.kind = WIRE_ROUTE_ADD,
                                  .id = "r",
                                  .worker = "elsewhere",
                                  .blocks = 3,
                                  .hash_count = 2,
                                  .prefill_tokens = 5};
    struct scene scene;
    uint64_t cursor = 0;
    uint32_t count = 0;
    bool changed;

    (void)state;
    begin(&scene);
    add.hashes = scene.hashes;
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_OK);
    assert_true(changed);
    while (advisor_router_requests(scene.router, &cursor, count_request, &count)) {
    }
    assert_int_equal(count, 1);

    /* Told again, it is the same; at another worker, or with other blocks, it is another one. */
    kvt_clock_sleep_ms(5); /* of two at once either may be the first */
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_OK);
    assert_false(changed);
    add.worker[0] = 'x';
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_EXISTS);
    add.worker[0] = 'e';
    add.hashes = scene.hashes + 1;
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_EXISTS);
    add.hashes = scene.hashes;
    add.blocks = 1;
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_INVALID);
    add.blocks = 3;
    add.worker[0] = '\0';
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_INVALID);

    /* So many tokens that two of them are none: nobody would seem to have less to do. */
    add.worker[0] = 'e';
    add.id[0] = 's';
    add.prefill_tokens = UINT64_C(1) << 63;
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_RANGE);
    assert_false(changed);
    add.prefill_tokens = WIRE_ROUTE_TOKENS_MAX;
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_OK);
    end(&scene);
}

/* A walk lets decisions in between. */
static void
a_walk_is_made_in_steps(void **state)
{
    struct wire_route_step add = {
        .kind = WIRE_ROUTE_ADD, .worker = "elsewhere", .blocks = 3, .prefill_tokens = 5};
    struct scene scene;
    uint64_t cursor = 0;
    uint32_t count = 0;
    bool changed;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < 2 * ADVISOR_ROUTER_ROWS_MAX + 1; i++) {
        (void)snprintf(add.id, sizeof(add.id), "%u", i);
        assert_int_equal(advisor_router_step(scene.router, &add, &changed, &scene.err), KVT_OK);
    }
    for (uint32_t steps = 1; steps <= 2; steps++) {
        assert_true(advisor_router_requests(scene.router, &cursor, count_request, &count));
        assert_int_equal(count, steps * ADVISOR_ROUTER_ROWS_MAX);
    }
    assert_false(advisor_router_requests(scene.router, &cursor, count_request, &count));
    assert_int_equal(count, 2 * ADVISOR_ROUTER_ROWS_MAX + 1);
    end(&scene);
}

/* Two that come together see each other: however they interleave, nobody gets a request more. */
struct asker {
    struct scene *scene;
    uint32_t number;
};

static void *
ask_much(void *arg)
{
    const struct asker *asker = arg;
    struct wire_route_question question = asker->scene->question;
    uint64_t hashes[BLOCKS];

    question.values = hashes;
    question.explain = false;
    for (uint32_t i = 0; i < BOOKINGS; i++) {
        struct wire_route_answer answer;
        struct kvt_error err;

        for (uint32_t b = 0; b < BLOCKS; b++)
            hashes[b] = 1 + (((uint64_t)asker->number * BOOKINGS + i) * BLOCKS + b);
        (void)snprintf(question.id, sizeof(question.id), "t%u-%u", asker->number, i);
        assert_int_equal(advisor_router_ask(asker->scene->router, &asker->scene->finder, &question,
                                            &answer, &err),
                         KVT_OK);
        wire_route_answer_release(&answer);
    }
    return NULL;
}

static void
askers_at_once_share_the_workers_evenly(void **state)
{
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];
    struct advisor_router_load *loads;
    struct scene scene;
    size_t count;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < 8; i++)
        seen(&scene, "w", i);
    for (uint32_t i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){.scene = &scene, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_much, &askers[i]), 0);
    }
    for (uint32_t i = 0; i < ASKERS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(advisor_router_loads(scene.router, &loads, &count), KVT_OK);
    assert_int_equal(count, 8);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(loads[i].active_requests, ASKERS * BOOKINGS / 8);
    kvt_free(loads);
    end(&scene);
}

/* ---- replicas ---- */

enum { LETTERS = 64, LETTER_MAX = 4096 };

/* What a replica sent, for the others. */
struct mail {
    uint8_t bytes[LETTERS][LETTER_MAX];
    size_t sizes[LETTERS];
    size_t count;
};

static void
post(void *arg, const void *bytes, size_t size)
{
    struct mail *mail = arg;

    assert_true(mail->count < LETTERS && size <= LETTER_MAX);
    memcpy(mail->bytes[mail->count], bytes, size);
    mail->sizes[mail->count++] = size;
}

static void
deliver(struct mail *mail, struct advisor_router *router)
{
    for (size_t i = 0; i < mail->count; i++)
        advisor_router_hear(router, mail->bytes[i], mail->sizes[i]);
    mail->count = 0;
}

static void
what_another_gave_out_weighs_here(void **state)
{
    struct mail *mail = kvt_calloc(2, sizeof(*mail));
    struct advisor_router_options options;
    struct advisor_router_view view;
    struct advisor_router *mine;
    struct advisor_router *other;
    struct scene scene;
    bool changed;

    (void)state;
    begin(&scene);
    assert_non_null(mail);
    mine = scene.router;
    options = options_of(&scene);
    options.send = post;
    for (int i = 0; i < 2; i++) {
        struct advisor_router **router = i == 0 ? &scene.router : &other;

        options.number = 10 + (uint64_t)i;
        options.send_arg = &mail[i];
        assert_int_equal(advisor_router_new(router, &options, &scene.err), KVT_OK);
    }
    seen(&scene, "a", 0);
    name_request(&scene, "r");
    assert_int_equal(ask(&scene), KVT_OK);
    deliver(&mail[0], other);
    advisor_router_view(other, &view);
    assert_true(view.shared);
    assert_int_equal(view.slots.requests, 1);
    assert_int_equal(view.replica.received, 1);
    assert_int_equal(step(&scene, WIRE_ROUTE_FREE, "r", &changed), KVT_OK);
    deliver(&mail[0], other);
    advisor_router_view(other, &view);
    assert_int_equal(view.slots.requests, 0);
    advisor_router_tick(scene.router, true); /* a heartbeat */
    assert_true(mail[0].count > 0);
    advisor_router_free(other);
    advisor_router_free(scene.router);
    scene.router = mine;
    kvt_free(mail);
    end(&scene);
}

/* ---- as bytes ---- */

static void
bytes_are_answered_with_bytes(void **state)
{
    struct wire_route_step free_it = {.kind = WIRE_ROUTE_FREE, .id = "r"};
    struct wire_route_answer answer;
    struct kvt_buffer in;
    struct kvt_buffer out;
    struct scene scene;
    bool changed;

    (void)state;
    begin(&scene);
    kvt_buffer_init(&in, WIRE_ROUTE_MAX);
    kvt_buffer_init(&out, WIRE_ROUTE_MAX);
    seen(&scene, "a", 3);
    name_request(&scene, "r");
    assert_int_equal(wire_route_encode_question(&scene.question, &in), KVT_OK);
    advisor_nats_responder_route(scene.router, &scene.finder, in.data, in.size, &out);
    assert_int_equal(wire_route_decode_answer(out.data, out.size, &answer, &scene.err), KVT_OK);
    assert_string_equal(answer.chosen.worker, "a");
    assert_int_equal(answer.chosen.dp_rank, 3);
    assert_true(answer.booked);
    assert_int_equal(answer.row_count, 1);
    wire_route_answer_release(&answer);
    advisor_nats_responder_route(scene.router, &scene.finder, in.data, in.size, &out);
    assert_int_equal(wire_route_decode_answer(out.data, out.size, &answer, &scene.err), KVT_EXISTS);
    advisor_nats_responder_route(scene.router, &scene.finder, "junk", 4, &out);
    assert_int_equal(wire_route_decode_answer(out.data, out.size, &answer, &scene.err),
                     KVT_INVALID);
    assert_non_null(strstr(scene.err.text, "a question"));

    kvt_buffer_clear(&in);
    assert_int_equal(wire_route_encode_step(&free_it, &in), KVT_OK);
    advisor_router_thread_take(scene.router, in.data, in.size, &out);
    assert_int_equal(wire_route_decode_done(out.data, out.size, &changed, &scene.err), KVT_OK);
    assert_true(changed);
    advisor_router_thread_take(scene.router, "junk", 4, &out);
    assert_int_equal(wire_route_decode_done(out.data, out.size, &changed, &scene.err), KVT_INVALID);
    kvt_buffer_release(&in);
    kvt_buffer_release(&out);
    end(&scene);
}

/* Nobody takes them: the bus is slow, or a flood is fast. */
static void
what_waits_has_so_many_bytes(void **state)
{
    struct advisor_router_thread *thread;
    struct kvt_metrics *metrics;
    struct kvt_buffer text;
    uint8_t *bytes = kvt_calloc(1, ROUTER_MESSAGE_MAX);

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    assert_int_equal(advisor_router_thread_new(&thread, metrics), KVT_OK);
    for (size_t i = 0; i < ADVISOR_ROUTER_WAITING_BYTES / ROUTER_MESSAGE_MAX + 3; i++)
        advisor_router_thread_send(thread, bytes, ROUTER_MESSAGE_MAX);
    kvt_buffer_init(&text, 1u << 20);
    kvt_metrics_format(metrics, &text);
    assert_non_null(strstr(kvt_buffer_text(&text), "route_messages_dropped_total 3\n"));
    kvt_buffer_release(&text);
    advisor_router_thread_free(thread);
    kvt_metrics_free(metrics);
    kvt_free(bytes);
}

/* ---- memory ---- */

static bool
attempt(void *arg)
{
    struct scene *scene = arg;
    const struct advisor_router_options options = options_of(scene);
    struct advisor_router *router;
    struct router_worker worker = {.name = "a"};
    struct wire_route_answer answer = {.row_count = 0};
    struct kvt_error err;
    enum kvt_err rc = advisor_router_new(&router, &options, &err);
    bool whole = false;

    if (rc == KVT_OK)
        rc = router_workers_seen(advisor_router_workers(router), &worker, ROUTER_ORIGIN_CONFIG);
    if (rc == KVT_OK)
        rc = advisor_router_ask(router, &scene->finder, &scene->question, &answer, &err);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM || rc == KVT_FULL);
    if (rc == KVT_OK) {
        assert_string_equal(answer.chosen.worker, "a");
        whole = answer.booked && answer.row_count == 1;
    }
    wire_route_answer_release(&answer);
    advisor_router_free(router);
    return whole;
}

static void
every_allocation_may_fail(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    name_request(&scene, "r");
    assert_true(test_sweep_allocations(attempt, &scene) > 10);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_that_has_most_is_chosen_and_told_why),
        cmocka_unit_test(the_cold_tier_changes_the_choice),
        cmocka_unit_test(questions_may_weigh_otherwise_and_allow_some),
        cmocka_unit_test(without_workers_there_is_no_answer),
        cmocka_unit_test(chance_follows_the_temperature),
        cmocka_unit_test(bookings_are_seen_by_the_next),
        cmocka_unit_test(a_request_weighs_what_is_not_cached),
        cmocka_unit_test(who_left_is_out_and_what_ran_there_is_over),
        cmocka_unit_test(what_nobody_ends_expires),
        cmocka_unit_test(requests_may_be_given_out_elsewhere),
        cmocka_unit_test(a_walk_is_made_in_steps),
        cmocka_unit_test(askers_at_once_share_the_workers_evenly),
        cmocka_unit_test(what_another_gave_out_weighs_here),
        cmocka_unit_test(bytes_are_answered_with_bytes),
        cmocka_unit_test(what_waits_has_so_many_bytes),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
