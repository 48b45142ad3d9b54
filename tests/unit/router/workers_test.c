/* Who is there, next to a model that has a line for every worker there could be. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "router/workers.h"
#include "tests/support/seed.h"

#define EVENTS (1U << ROUTER_ORIGIN_EVENTS)
#define BUCKET (1U << ROUTER_ORIGIN_BUCKET)
#define CONFIG (1U << ROUTER_ORIGIN_CONFIG)

static struct router_worker
worker(const char *name, uint32_t dp_rank)
{
    struct router_worker made = {.dp_rank = dp_rank};

    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    return made;
}

static void
see(struct router_workers *workers, const char *name, uint32_t dp_rank, enum router_origin origin)
{
    struct router_worker seen = worker(name, dp_rank);

    assert_int_equal(router_workers_seen(workers, &seen, origin), KVT_OK);
}

static void
gone(struct router_workers *workers, const char *name, uint32_t dp_rank)
{
    struct router_worker left = worker(name, dp_rank);

    router_workers_gone(workers, &left);
}

/* The row of one that is there; `life` is 0 of one that is not. */
static struct router_worker_row
row_of(struct router_workers *workers, const struct router_worker *asked)
{
    struct router_worker_row rows[32];
    size_t count;

    router_workers_view(workers, rows, 32, &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&rows[i].worker, asked, sizeof(*asked)) == 0)
            return rows[i];
    return (struct router_worker_row){.life = 0};
}

/* The origins of one that is there, 0 of one that is not. */
static uint32_t
origins(struct router_workers *workers, const char *name, uint32_t dp_rank)
{
    struct router_worker asked = worker(name, dp_rank);

    return row_of(workers, &asked).origins;
}

static uint32_t
life(struct router_workers *workers, const char *name)
{
    struct router_worker asked = worker(name, 0);

    return row_of(workers, &asked).life;
}

static struct router_workers *
make(void)
{
    struct router_workers *workers;

    assert_int_equal(router_workers_new(&workers), KVT_OK);
    return workers;
}

static void
one_worker_whoever_names_it(void **state)
{
    struct router_workers *workers = make();
    const uint64_t before = router_workers_version(workers);
    uint64_t once;

    (void)state;
    see(workers, "a", 0, ROUTER_ORIGIN_EVENTS);
    once = router_workers_version(workers);
    assert_true(once > before);
    see(workers, "a", 0, ROUTER_ORIGIN_EVENTS);
    assert_int_equal(router_workers_version(workers), once);
    see(workers, "a", 0, ROUTER_ORIGIN_BUCKET);
    see(workers, "a", 1, ROUTER_ORIGIN_BUCKET);
    assert_int_equal(origins(workers, "a", 0), EVENTS | BUCKET);
    assert_int_equal(origins(workers, "a", 1), BUCKET);
    assert_int_equal(life(workers, "a"), 1);
    router_workers_free(workers);
}

static void
an_end_is_an_end_for_all_until_there_is_news(void **state)
{
    struct router_workers *workers = make();

    (void)state;
    see(workers, "a", 0, ROUTER_ORIGIN_EVENTS);
    see(workers, "a", 0, ROUTER_ORIGIN_BUCKET);
    gone(workers, "a", 0);
    assert_int_equal(origins(workers, "a", 0), 0);
    assert_int_equal(life(workers, "a"), 0);
    see(workers, "a", 0, ROUTER_ORIGIN_EVENTS);
    assert_int_equal(origins(workers, "a", 0), EVENTS);
    assert_int_equal(life(workers, "a"), 2);
    gone(workers, "nobody", 0);
    router_workers_free(workers);
}

static void
configured_ones_are_there_until_they_were_gone(void **state)
{
    struct router_workers *workers = make();
    struct router_worker never = worker("a", 0);

    (void)state;
    see(workers, "a", 0, ROUTER_ORIGIN_CONFIG);
    assert_int_equal(origins(workers, "a", 0), CONFIG);
    gone(workers, "a", 0);
    assert_int_equal(origins(workers, "a", 0), 0);
    see(workers, "a", 0, ROUTER_ORIGIN_BUCKET);
    assert_int_equal(origins(workers, "a", 0), CONFIG | BUCKET);
    assert_int_equal(life(workers, "a"), 2);
    router_workers_forgotten(workers, &never, ROUTER_ORIGIN_BUCKET);
    assert_int_equal(origins(workers, "a", 0), CONFIG);
    router_workers_forgotten(workers, &never, ROUTER_ORIGIN_CONFIG);
    assert_int_equal(origins(workers, "a", 0), 0);
    see(workers, "a", 0, ROUTER_ORIGIN_EVENTS);
    assert_int_equal(origins(workers, "a", 0), EVENTS);
    router_workers_free(workers);
}

static void
what_an_origin_forgets_others_may_still_see(void **state)
{
    struct router_workers *workers = make();
    struct router_worker both = worker("both", 0);
    struct router_worker alone = worker("alone", 0);

    (void)state;
    see(workers, "both", 0, ROUTER_ORIGIN_EVENTS);
    see(workers, "both", 0, ROUTER_ORIGIN_BUCKET);
    see(workers, "alone", 0, ROUTER_ORIGIN_BUCKET);
    router_workers_forgotten(workers, &both, ROUTER_ORIGIN_BUCKET);
    router_workers_forgotten(workers, &alone, ROUTER_ORIGIN_BUCKET);
    assert_int_equal(origins(workers, "both", 0), EVENTS);
    assert_int_equal(life(workers, "both"), 1);
    assert_int_equal(origins(workers, "alone", 0), 0);
    router_workers_free(workers);
}

static void
a_name_goes_with_all_its_ranks_and_no_other(void **state)
{
    struct router_workers *workers = make();

    (void)state;
    see(workers, "w", 0, ROUTER_ORIGIN_CONFIG);
    see(workers, "w", 3, ROUTER_ORIGIN_EVENTS);
    see(workers, "w", UINT32_MAX, ROUTER_ORIGIN_EVENTS);
    see(workers, "w1", 0, ROUTER_ORIGIN_EVENTS);
    see(workers, "v", 0, ROUTER_ORIGIN_EVENTS);
    router_workers_gone_name(workers, "w");
    assert_int_equal(origins(workers, "w", 0), 0);
    assert_int_equal(origins(workers, "w", 3), 0);
    assert_int_equal(origins(workers, "w", UINT32_MAX), 0);
    assert_int_equal(origins(workers, "w1", 0), EVENTS);
    assert_int_equal(origins(workers, "v", 0), EVENTS);
    router_workers_gone_name(workers, "nobody");
    router_workers_free(workers);
}

static void
names_have_bounds(void **state)
{
    struct router_workers *workers = make();
    struct router_worker bad = {0};

    (void)state;
    assert_int_equal(router_workers_seen(workers, &bad, ROUTER_ORIGIN_EVENTS), KVT_INVALID);
    memset(bad.name, 'x', sizeof(bad.name));
    assert_int_equal(router_workers_seen(workers, &bad, ROUTER_ORIGIN_EVENTS), KVT_INVALID);
    bad.name[sizeof(bad.name) - 1] = '\0';
    assert_int_equal(router_workers_seen(workers, &bad, ROUTER_ORIGIN_EVENTS), KVT_OK);
    router_workers_free(workers);
}

static void
a_full_set_says_so_and_takes_more_when_some_left(void **state)
{
    struct router_workers *workers = make();
    struct router_worker_row row;
    size_t count;

    (void)state;
    for (uint32_t i = 0; i < ROUTER_WORKERS_MAX; i++)
        see(workers, i < ROUTER_WORKERS_MAX / 2 ? "low" : "top", i, ROUTER_ORIGIN_EVENTS);
    row.worker = worker("more", 0);
    assert_int_equal(router_workers_seen(workers, &row.worker, ROUTER_ORIGIN_BUCKET), KVT_FULL);
    see(workers, "top", 40000, ROUTER_ORIGIN_BUCKET); /* known */
    gone(workers, "low", 4096);
    assert_int_equal(router_workers_seen(workers, &row.worker, ROUTER_ORIGIN_BUCKET), KVT_OK);
    router_workers_gone_name(workers, "top");
    router_workers_gone_name(workers, "low");
    router_workers_view(workers, &row, 1, &count, NULL);
    assert_int_equal(count, 1);
    assert_string_equal(row.worker.name, "more");
    assert_int_equal(row.slot, 4096);
    assert_int_equal(row.life, 2);
    router_workers_free(workers);
}

static bool
grow_some(void *arg)
{
    struct router_workers *workers;
    size_t count = 0;
    bool all = true;

    (void)arg;
    if (router_workers_new(&workers) != KVT_OK) {
        assert_null(workers);
        return false;
    }
    for (uint32_t i = 0; i < 40; i++) {
        struct router_worker seen = worker("w", i);
        enum kvt_err code = router_workers_seen(workers, &seen, ROUTER_ORIGIN_EVENTS);

        assert_true(code == KVT_OK || code == KVT_NOMEM);
        all = all && code == KVT_OK;
        count += code == KVT_OK;
    }
    {
        size_t there;

        router_workers_view(workers, NULL, 0, &there, NULL);
        assert_int_equal(there, count);
    }
    router_workers_gone_name(workers, "w");
    router_workers_free(workers);
    return all;
}

static void
every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(grow_some, NULL) > 5);
}

/* ---- the model ---- */

enum { NAMES = 5, RANKS = 3, MODEL = NAMES * RANKS, STEPS = 30000 };

struct line {
    struct router_worker worker;
    uint32_t origins;
    bool configured;
    uint32_t slot; /* as the set said when it was last there */
    uint32_t life;
    bool came; /* since the last look */
};

struct model {
    struct line lines[MODEL]; /* by (name, rank) */
};

static void
model_gone(struct line *line)
{
    line->origins = 0;
}

static void
step(struct router_workers *workers, struct model *model, uint64_t *random)
{
    struct line *line = &model->lines[kvt_random_below(random, MODEL)];
    enum router_origin origin = (enum router_origin)kvt_random_below(random, ROUTER_ORIGINS);
    const uint32_t bit = 1U << origin;

    switch (kvt_random_below(random, 10)) {
    case 0:
        router_workers_gone(workers, &line->worker);
        model_gone(line);
        break;
    case 1:
        router_workers_gone_name(workers, line->worker.name);
        for (size_t i = 0; i < MODEL; i++)
            if (strcmp(model->lines[i].worker.name, line->worker.name) == 0)
                model_gone(&model->lines[i]);
        break;
    case 2:
        router_workers_forgotten(workers, &line->worker, origin);
        line->origins &= ~bit;
        if (origin == ROUTER_ORIGIN_CONFIG)
            line->configured = false;
        break;
    default:
        assert_int_equal(router_workers_seen(workers, &line->worker, origin), KVT_OK);
        line->configured = line->configured || origin == ROUTER_ORIGIN_CONFIG;
        line->came = line->came || line->origins == 0;
        line->origins |= bit | (line->configured ? CONFIG : 0);
        break;
    }
}

struct left {
    struct router_worker_row rows[MODEL];
    size_t count;
};

static void
note_left(void *arg, const struct router_worker_row *row)
{
    struct left *left = arg;

    left->rows[left->count++] = *row;
}

/* All that can be asked is as the model has it. */
static void
compare(struct router_workers *workers, struct model *model, struct router_worker_row *before,
        size_t *before_count)
{
    struct router_worker_row rows[MODEL];
    bool slots[MODEL] = {false};
    struct left left = {.count = 0};
    size_t gone_count = 0;
    uint64_t version;
    size_t count;
    size_t at = 0;

    router_workers_view(workers, rows, MODEL, &count, &version);
    assert_int_equal(version, router_workers_version(workers));
    router_workers_left(before, *before_count, rows, count, note_left, &left);
    for (size_t i = 0; i < MODEL; i++) {
        struct line *line = &model->lines[i];
        bool was = false;
        uint32_t slot;

        for (size_t k = 0; k < *before_count; k++)
            was = was || memcmp(&before[k].worker, &line->worker, sizeof(line->worker)) == 0;
        if (was && (line->origins == 0 || line->came)) {
            assert_true(gone_count < left.count);
            assert_memory_equal(&left.rows[gone_count].worker, &line->worker, sizeof(line->worker));
            gone_count++;
        }
        if (line->origins == 0) {
            line->came = false;
            continue;
        }
        assert_true(at < count);
        assert_memory_equal(&rows[at].worker, &line->worker, sizeof(line->worker));
        assert_int_equal(rows[at].origins, line->origins);
        slot = rows[at].slot;
        assert_true(rows[at].life > 0);
        assert_true(slot < MODEL && !slots[slot]);
        slots[slot] = true;
        if (was && !line->came) {
            assert_int_equal(slot, line->slot);
            assert_int_equal(rows[at].life, line->life);
        } else if (slot == line->slot) {
            assert_true(rows[at].life > line->life);
        }
        line->slot = slot;
        line->life = rows[at].life;
        line->came = false;
        at++;
    }
    assert_int_equal(at, count);
    assert_int_equal(gone_count, left.count);
    memcpy(before, rows, count * sizeof(*rows));
    *before_count = count;
}

static void
any_order_of_any_origins_is_as_the_model_has_it(void **state)
{
    uint64_t random = test_seed();
    struct router_workers *workers = make();
    struct router_worker_row before[MODEL];
    size_t before_count = 0;
    struct model model = {0};

    (void)state;
    for (uint32_t i = 0; i < MODEL; i++) {
        char name[2] = {(char)('a' + i / RANKS), '\0'};

        model.lines[i].worker = worker(name, i % RANKS);
    }
    for (int i = 0; i < STEPS / TEST_ALONE_SHARE; i++) {
        const uint64_t version = router_workers_version(workers);
        uint32_t was[MODEL];
        bool changed = false;

        for (size_t k = 0; k < MODEL; k++)
            was[k] = model.lines[k].origins;
        step(workers, &model, &random);
        for (size_t k = 0; k < MODEL; k++)
            changed = changed || was[k] != model.lines[k].origins;
        assert_int_equal(router_workers_version(workers) > version, changed);
        if (kvt_random_below(&random, 3) == 0)
            compare(workers, &model, before, &before_count);
    }
    router_workers_free(workers);
}

/* ---- threads ---- */

struct race {
    struct router_workers *workers;
    atomic_bool stop;
    uint64_t seed;
};

static void *
look(void *arg)
{
    struct race *race = arg;
    struct router_worker_row rows[64];

    while (!race->stop) {
        uint64_t version;
        size_t count;

        router_workers_view(race->workers, rows, 64, &count, &version);
        assert_true(count <= 32);
        for (size_t i = 1; i < count; i++)
            assert_true(rows[i - 1].worker.dp_rank < rows[i].worker.dp_rank);
        assert_true(version <= router_workers_version(race->workers));
    }
    return NULL;
}

static void *
change(void *arg)
{
    struct race *race = arg;
    uint64_t random = race->seed;

    for (int i = 0; i < 6000 / TEST_ALONE_SHARE; i++) {
        struct router_worker one = worker("w", (uint32_t)kvt_random_below(&random, 32));

        if (kvt_random_below(&random, 3) == 0)
            router_workers_gone(race->workers, &one);
        else
            assert_int_equal(
                router_workers_seen(race->workers, &one,
                                    (enum router_origin)kvt_random_below(&random, ROUTER_ORIGINS)),
                KVT_OK);
    }
    return NULL;
}

static void
threads_may_look_and_change(void **state)
{
    struct race race = {.workers = make(), .seed = test_seed()};
    pthread_t changers[2];
    pthread_t looker;

    (void)state;
    assert_int_equal(pthread_create(&looker, NULL, look, &race), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&changers[i], NULL, change, &race), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(changers[i], NULL), 0);
    race.stop = true;
    assert_int_equal(pthread_join(looker, NULL), 0);
    router_workers_free(race.workers);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_whoever_names_it),
        cmocka_unit_test(an_end_is_an_end_for_all_until_there_is_news),
        cmocka_unit_test(configured_ones_are_there_until_they_were_gone),
        cmocka_unit_test(what_an_origin_forgets_others_may_still_see),
        cmocka_unit_test(a_name_goes_with_all_its_ranks_and_no_other),
        cmocka_unit_test(names_have_bounds),
        cmocka_unit_test(a_full_set_says_so_and_takes_more_when_some_left),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(any_order_of_any_origins_is_as_the_model_has_it),
        cmocka_unit_test(threads_may_look_and_change),
    };

    return cmocka_run_group_tests_name("router/workers", tests, NULL, NULL);
}
