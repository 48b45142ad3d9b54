/*
 * What is tested: router/prompt_tree.h against lists of prompts and sets of blocks.
 * How: prompts out of a small tree come and go at random; how many nodes there are is known, too.
 */
#include <string.h>

#include "base/core/random.h"

#include "router/prompt_tree.h"
#include "tests/support/seed.h"

enum { PROMPTS = 60, WORKERS = 40, BLOCKS = 24, STEPS = 40000 / TEST_ALONE_SHARE };

struct prompt {
    bool there;
    uint32_t worker;
    uint32_t end;
    uint32_t count;
    uint64_t hashes[BLOCKS];
};

static void
make_prompt(uint64_t *random, struct prompt *prompt)
{
    uint64_t chain = 3;

    prompt->count = (uint32_t)kvt_random_below(random, BLOCKS + 1);
    prompt->worker = (uint32_t)kvt_random_below(random, WORKERS);
    for (uint32_t i = 0; i < prompt->count; i++) {
        chain = chain * 31 + 1 + (kvt_random_below(random, 6) == 0);
        prompt->hashes[i] = chain;
    }
}

static bool
holds(const struct prompt *prompts, int count, uint32_t worker, uint64_t hash)
{
    for (int i = 0; i < count; i++)
        for (uint32_t j = 0;
             prompts[i].there && prompts[i].worker == worker && j < prompts[i].count; j++)
            if (prompts[i].hashes[j] == hash)
                return true;
    return false;
}

static uint32_t
not_held(const struct prompt *prompts, const struct prompt *prompt)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < prompt->count; i++)
        count += !holds(prompts, PROMPTS, prompt->worker, prompt->hashes[i]);
    return count;
}

static void
check(const struct router_prompt_tree *prefixes, const struct prompt *prompts,
      const struct prompt *asked, uint32_t there)
{
    uint32_t places[WORKERS];
    uint64_t columns[WORKERS];

    for (uint32_t i = 0; i < WORKERS; i++) {
        places[i] = WORKERS - 1 - i;
        columns[i] = 1000;
    }
    router_prompt_tree_subtract(prefixes, asked->hashes, asked->count, places, columns);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint64_t expected = 1000;

        for (uint32_t i = 0; i < asked->count; i++)
            expected -= holds(prompts, PROMPTS, worker, asked->hashes[i]);
        assert_int_equal(columns[places[worker]], expected);
    }
    assert_true(prefixes->live <= 2 * there);
}

static void
random_against_sets(void **state)
{
    struct prompt prompts[PROMPTS] = {0};
    struct router_prompt_tree prefixes;
    uint64_t random = test_seed();
    uint32_t there = 0;

    (void)state;
    assert_true(router_prompt_tree_init(&prefixes));
    for (int i = 0; i < STEPS; i++) {
        struct prompt *prompt = &prompts[kvt_random_below(&random, PROMPTS)];
        uint64_t hashes[BLOCKS];
        uint32_t fresh;

        if (prompt->there) {
            prompt->there = false;
            there--;
            assert_int_equal(router_prompt_tree_leave(&prefixes, prompt->end, prompt->worker),
                             not_held(prompts, prompt));
        } else {
            uint32_t expected;

            make_prompt(&random, prompt);
            expected = not_held(prompts, prompt);
            assert_true(router_prompt_tree_enter(&prefixes, prompt->hashes, prompt->count,
                                                 prompt->worker, &prompt->end, &fresh));
            assert_int_equal(fresh, expected);
            prompt->there = true;
            there++;
        }
        prompt = &prompts[kvt_random_below(&random, PROMPTS)];
        if (prompt->there && prompt->count > 0) {
            router_prompt_tree_read(&prefixes, prompt->end, hashes);
            assert_memory_equal(hashes, prompt->hashes, prompt->count * sizeof(hashes[0]));
        }
        check(&prefixes, prompts, prompt, there);
    }
    for (int i = 0; i < PROMPTS; i++)
        if (prompts[i].there)
            (void)router_prompt_tree_leave(&prefixes, prompts[i].end, prompts[i].worker);
    assert_int_equal(prefixes.live, 0);
    router_prompt_tree_release(&prefixes);
}

/* However a long prompt was cut, it is one run when who cut it is gone. */
static void
cuts_heal(void **state)
{
    struct router_prompt_tree prefixes;
    uint64_t hashes[BLOCKS];
    uint32_t ends[BLOCKS + 1];
    uint32_t fresh;

    (void)state;
    assert_true(router_prompt_tree_init(&prefixes));
    for (uint64_t i = 0; i < BLOCKS; i++)
        hashes[i] = i + 1;
    for (uint32_t count = BLOCKS; count > 0; count--)
        assert_true(router_prompt_tree_enter(&prefixes, hashes, count, 1, &ends[count], &fresh));
    assert_int_equal(prefixes.live, BLOCKS);
    for (uint32_t count = 1; count < BLOCKS; count++)
        assert_int_equal(router_prompt_tree_leave(&prefixes, ends[count], 1), 0);
    assert_int_equal(prefixes.live, 1);
    assert_int_equal(router_prompt_tree_leave(&prefixes, ends[BLOCKS], 1), BLOCKS);
    router_prompt_tree_release(&prefixes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_sets),
        cmocka_unit_test(cuts_heal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
