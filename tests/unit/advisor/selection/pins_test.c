/*
 * What is tested: advisor/selection/pins.h and advisor/store/pin_rows.c: what gateways told is
 * known, whatever reports are lost; a whole round takes off what it does not name; pins end;
 * silence ends them; the store has what RAM has; and every failing allocation is survived.
 * How: a long random run of rounds of three gateways beside a model of plain arrays (seed printed),
 * with a restart from the store now and then.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/selection/pins.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { GATEWAYS = 3, BLOCKS = 200, SPACES = 2, STEPS = 400, PAGE = 16, NOW = 1000000 };

struct model {
    bool pinned[GATEWAYS][SPACES][BLOCKS]; /* at the gateway */
    uint64_t until[GATEWAYS][SPACES][BLOCKS];
    bool known[GATEWAYS][SPACES][BLOCKS]; /* that the advisor should know */
    uint64_t known_until[GATEWAYS][SPACES][BLOCKS];
    uint64_t round[GATEWAYS];
    uint64_t incarnation[GATEWAYS];
};

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_pins *pins;
    struct model model;
    uint64_t random;
};

static const char *
name_of(const void *arg, uint32_t gateway)
{
    static const char *const names[] = {"gw0", "gateway-1", "g"};

    (void)arg;
    return names[gateway];
}

static enum kvt_err
restore(void *arg, const struct advisor_pin_row *row)
{
    for (uint32_t i = 0; i < GATEWAYS; i++)
        if (strcmp(name_of(NULL, i), row->gateway) == 0)
            return advisor_pins_restore(arg, i, row, NOW);
    fail_msg("a pin of %s", row->gateway);
    return KVT_OK;
}

static void
save(struct scene *scene)
{
    struct advisor_txn txn;
    struct kvt_error err;

    assert_int_equal(advisor_store_write(scene->store, &txn, &err), KVT_OK);
    assert_int_equal(advisor_pins_save(scene->pins, &txn, name_of, NULL), KVT_OK);
    assert_int_equal(advisor_pins_save(scene->pins, &txn, name_of, NULL), KVT_OK); /* repeatable */
    assert_int_equal(advisor_store_commit(&txn, &err), KVT_OK);
    advisor_pins_saved(scene->pins);
    assert_false(advisor_pins_dirty(scene->pins));
}

static void
restart(struct scene *scene)
{
    struct advisor_txn txn;
    struct kvt_error err;

    save(scene);
    advisor_pins_free(scene->pins);
    assert_int_equal(advisor_pins_new(&scene->pins), KVT_OK);
    assert_int_equal(advisor_store_read(scene->store, &txn, &err), KVT_OK);
    assert_int_equal(advisor_store_pins(&txn, restore, scene->pins), KVT_OK);
    advisor_store_end(&txn);
}

/* All that a gateway has pinned, some reports of it lost. */
static void
tell(struct scene *scene, uint32_t gateway, uint32_t losses)
{
    struct model *model = &scene->model;
    struct kvt_report_pin rows[PAGE];
    struct kvt_report_pins told = {.round = ++model->round[gateway], .rows = rows};
    bool whole = true;

    for (uint32_t ns = 0; ns < SPACES; ns++)
        for (uint32_t from = 0; from < BLOCKS; from += PAGE) {
            const bool lost = kvt_random_below(&scene->random, 100) < losses;

            told.count = 0;
            for (uint32_t i = from; i < from + PAGE && i < BLOCKS; i++)
                if (model->pinned[gateway][ns][i])
                    rows[told.count++] = (struct kvt_report_pin){
                        .hash = i + 1, .until_ms = model->until[gateway][ns][i]};
            told.told += told.count;
            told.last = ns == SPACES - 1 && from + PAGE >= BLOCKS;
            if (told.count == 0 && !told.last)
                continue;
            whole = whole && !lost;
            if (lost)
                continue;
            (void)advisor_pins_take(scene->pins, gateway, model->incarnation[gateway], ns, &told,
                                    NOW);
            for (uint32_t i = from; i < from + PAGE && i < BLOCKS; i++)
                if (model->pinned[gateway][ns][i]) {
                    model->known[gateway][ns][i] = true;
                    model->known_until[gateway][ns][i] = model->until[gateway][ns][i];
                }
        }
    if (whole) {
        memcpy(model->known[gateway], model->pinned[gateway], sizeof(model->known[gateway]));
        memcpy(model->known_until[gateway], model->until[gateway],
               sizeof(model->known_until[gateway]));
    }
}

static void
compare(struct scene *scene)
{
    const struct model *model = &scene->model;
    size_t count = 0;

    for (uint32_t ns = 0; ns < SPACES; ns++)
        for (uint32_t i = 0; i < BLOCKS; i++) {
            uint64_t until = 0;
            uint64_t said;
            bool any = false;
            bool endless = false;

            for (uint32_t g = 0; g < GATEWAYS; g++) {
                const uint64_t end = model->known_until[g][ns][i];

                count += model->known[g][ns][i];
                if (!model->known[g][ns][i] || (end != 0 && end <= NOW))
                    continue;
                any = true;
                endless = endless || end == 0;
                until = end > until ? end : until;
            }
            assert_int_equal(advisor_pins_has(scene->pins, ns, i + 1, NOW, &said), any);
            assert_int_equal(said, endless ? 0 : until);
        }
    assert_int_equal(advisor_pins_count(scene->pins), count);
}

static void
begin(struct scene *scene)
{
    struct advisor_store_options options = {.map_bytes = 16u << 20};
    struct kvt_error err;

    memset(scene, 0, sizeof(*scene));
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, &err), KVT_OK);
    assert_int_equal(advisor_pins_new(&scene->pins), KVT_OK);
}

static void
end(struct scene *scene)
{
    advisor_pins_free(scene->pins);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
}

static void
random_rounds_are_as_the_model_says(void **state)
{
    static struct scene scene;

    (void)state;
    begin(&scene);
    scene.random = test_seed();
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t gateway = (uint32_t)kvt_random_below(&scene.random, GATEWAYS);
        struct model *model = &scene.model;

        for (int i = 0; i < 20; i++) {
            const uint32_t ns = (uint32_t)kvt_random_below(&scene.random, SPACES);
            const uint32_t block = (uint32_t)kvt_random_below(&scene.random, BLOCKS);

            model->pinned[gateway][ns][block] = kvt_random_below(&scene.random, 3) > 0;
            model->until[gateway][ns][block] =
                kvt_random_below(&scene.random, 2) == 0
                    ? 0
                    : NOW - 50 + kvt_random_below(&scene.random, 100);
        }
        if (kvt_random_below(&scene.random, 20) == 0) { /* another life counts from 1 */
            model->incarnation[gateway]++;
            model->round[gateway] = 0;
        }
        tell(&scene, gateway, kvt_random_below(&scene.random, 2) == 0 ? 0 : 10);
        if (step % 10 == 0)
            save(&scene);
        if (step % 50 == 49)
            restart(&scene);
        compare(&scene);
    }
    end(&scene);
}

static void
silence_ends_them(void **state)
{
    struct advisor_pins *pins;
    struct kvt_report_pin row = {.hash = 7};
    const struct kvt_report_pins told = {
        .round = 1, .told = 1, .last = true, .rows = &row, .count = 1};

    (void)state;
    assert_int_equal(advisor_pins_new(&pins), KVT_OK);
    assert_false(advisor_pins_take(pins, 0, 1, 3, &told, NOW));
    assert_true(advisor_pins_has(pins, 3, 7, NOW + ADVISOR_PINS_SILENT_MS, NULL));
    assert_false(advisor_pins_has(pins, 3, 7, NOW + ADVISOR_PINS_SILENT_MS + 1, NULL));
    assert_false(advisor_pins_has(pins, 2, 7, NOW, NULL));
    /* A report that is about something else says nothing. */
    assert_false(advisor_pins_take(pins, 0, 1, 3, &(struct kvt_report_pins){.round = 0}, NOW));
    assert_true(advisor_pins_has(pins, 3, 7, NOW, NULL));
    advisor_pins_free(pins);
}

/* A gateway that is gone for good leaves no rows, neither in RAM nor in the store; one that comes
 * back tells them anew. */
static void
silent_gateways_leave_nothing(void **state)
{
    struct scene scene;
    struct kvt_report_pin row = {.hash = 7};
    struct kvt_report_pins told = {.round = 1, .told = 1, .last = true, .rows = &row, .count = 1};
    const uint64_t silent_ms = NOW + ADVISOR_PINS_SILENT_MS;

    (void)state;
    begin(&scene);
    (void)advisor_pins_take(scene.pins, 0, 1, 3, &told, NOW);
    (void)advisor_pins_take(scene.pins, 1, 1, 3, &told, NOW + 1);
    restart(&scene); /* from which its silence counts */
    assert_false(advisor_pins_forget(scene.pins, silent_ms));
    assert_int_equal(advisor_pins_count(scene.pins), 2);
    (void)advisor_pins_take(scene.pins, 1, 1, 3, &told, NOW + 1);
    assert_true(advisor_pins_forget(scene.pins, silent_ms + 1));
    assert_int_equal(advisor_pins_count(scene.pins), 1);
    assert_true(advisor_pins_dirty(scene.pins));
    assert_false(advisor_pins_forget(scene.pins, silent_ms + 1));
    restart(&scene);
    assert_int_equal(advisor_pins_count(scene.pins), 1);
    assert_true(advisor_pins_has(scene.pins, 3, 7, NOW, NULL));
    told.round = 2;
    (void)advisor_pins_take(scene.pins, 0, 1, 3, &told, silent_ms + 2);
    assert_int_equal(advisor_pins_count(scene.pins), 2);
    assert_true(advisor_pins_forget(scene.pins, silent_ms + 2)); /* the other one */
    /* One that is told again before that was written stays. */
    (void)advisor_pins_take(scene.pins, 1, 1, 3, &told, silent_ms + 2);
    restart(&scene);
    assert_int_equal(advisor_pins_count(scene.pins), 2);
    end(&scene);
}

static bool
attempt_life(void *arg)
{
    struct advisor_pins *pins = NULL;
    struct kvt_report_pin rows[PAGE];
    struct kvt_report_pins told = {.round = 1, .rows = rows, .count = PAGE};
    bool whole = advisor_pins_new(&pins) == KVT_OK;

    (void)arg;
    for (uint32_t page = 0; page < 40 && whole; page++) {
        for (uint32_t i = 0; i < PAGE; i++)
            rows[i] = (struct kvt_report_pin){.hash = page * PAGE + i + 1};
        told.told += PAGE;
        told.last = page == 39;
        (void)advisor_pins_take(pins, page % 2, 1, 0, &told, NOW);
    }
    whole = whole && advisor_pins_count(pins) == (size_t)40 * PAGE;
    advisor_pins_free(pins);
    return whole;
}

static void
every_failing_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt_life, NULL) > 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rounds_are_as_the_model_says),
        cmocka_unit_test(silence_ends_them),
        cmocka_unit_test(silent_gateways_leave_nothing),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
