/*
 * What is tested: policy/decide/tier_blocks.h: whatever is told, in whatever order, the ordering
 * hears it as kvtier/ordering.h promises; who is in the tier, known and taken is what a simple
 * model says; and memory stays within its bound.
 * How: an ordering that keeps the contract's book and ends the test when it is broken; a model of
 * plain arrays and long random runs (seed printed); exact cases for chains, restarts and bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/decide/tier_blocks.h"
#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"

/* ---- an ordering that checks what it is told ---- */

enum { STRICT_MAX = 4096, HEARD_MAX = 4096 };

struct strict {
    uint32_t reserved;
    bool known[STRICT_MAX];
    bool in[STRICT_MAX];
    bool taken[STRICT_MAX];
    uint64_t tick;
    struct kvt_ordering_use heard[HEARD_MAX]; /* uses, in order */
    uint32_t heard_count;
};

static struct strict *strict_last; /* of this test program's one thread */

static enum kvt_err
strict_init(void **state, const struct kvt_ordering_options *options)
{
    (void)options;
    strict_last = kvt_calloc(1, sizeof(*strict_last));
    *state = strict_last;
    return *state == NULL ? KVT_NOMEM : KVT_OK;
}

static enum kvt_err
strict_reserve(void *state, uint32_t count)
{
    struct strict *strict = state;

    assert_true(count >= strict->reserved && count <= STRICT_MAX);
    strict->reserved = count;
    return KVT_OK;
}

static void
strict_touch(void *state, const struct kvt_ordering_use *use)
{
    struct strict *strict = state;

    assert_true(use->block < strict->reserved);
    assert_true(use->now >= strict->tick);
    if ((use->flags & KVT_ORDERING_RESTORED) == 0)
        assert_int_equal((use->flags & KVT_ORDERING_HOT) != 0, strict->in[use->block]);
    assert_int_equal(use->uses == 1 || strict->known[use->block] ||
                         (use->flags & KVT_ORDERING_RESTORED) != 0,
                     true);
    strict->tick = use->now;
    strict->known[use->block] = true;
    if (strict->heard_count < HEARD_MAX)
        strict->heard[strict->heard_count++] = *use;
}

static void
strict_enter(void *state, const struct kvt_ordering_use *use)
{
    struct strict *strict = state;

    assert_true(strict->known[use->block] && !strict->in[use->block]);
    strict->in[use->block] = true;
}

static bool
strict_victim(void *state, uint64_t now, uint32_t *block)
{
    struct strict *strict = state;

    assert_true(now >= strict->tick);
    for (*block = 0; *block < strict->reserved; (*block)++)
        if (strict->in[*block] && !strict->taken[*block]) {
            strict->taken[*block] = true;
            return true;
        }
    return false;
}

static void
strict_give_back(void *state, uint32_t block)
{
    struct strict *strict = state;

    assert_true(strict->in[block] && strict->taken[block]);
    strict->taken[block] = false;
}

static void
strict_leave(void *state, uint32_t block)
{
    struct strict *strict = state;

    assert_true(strict->in[block]);
    strict->in[block] = strict->taken[block] = false;
}

static void
strict_forget(void *state, uint32_t block)
{
    struct strict *strict = state;

    assert_true(strict->known[block] && !strict->in[block]);
    strict->known[block] = false;
}

static double
strict_value(const void *state, uint32_t block, uint64_t now)
{
    (void)state;
    (void)now;
    return block;
}

static size_t
strict_memory(const void *state)
{
    (void)state;
    return sizeof(struct strict);
}

static const struct kvt_ordering strict_ordering = {
    KVT_ORDERING_HEAD,       .name = "strict",          .text = "keeps the contract's book",
    .init = strict_init,     .reserve = strict_reserve, .touch = strict_touch,
    .enter = strict_enter,   .victim = strict_victim,   .give_back = strict_give_back,
    .leave = strict_leave,   .forget = strict_forget,   .value = strict_value,
    .memory = strict_memory, .free = kvt_free,
};

static struct policy_tier_blocks *
roster_of(const struct kvt_ordering *ordering, uint64_t bytes_max)
{
    const struct policy_tier_blocks_options options = {.ordering = ordering,
                                                       .bytes_max = bytes_max};
    struct policy_tier_blocks *roster;

    assert_int_equal(policy_tier_blocks_new(&roster, &options), KVT_OK);
    return roster;
}

static struct policy_tier_blocks *
roster_of_requests(uint32_t ticks)
{
    const struct policy_tier_blocks_options options = {
        .ordering = &strict_ordering, .bytes_max = 1 << 20, .request_ticks = ticks};
    struct policy_tier_blocks *roster;

    assert_int_equal(policy_tier_blocks_new(&roster, &options), KVT_OK);
    return roster;
}

static struct policy_block
block_of(uint64_t hash, uint64_t parent, uint32_t position)
{
    return (struct policy_block){
        .hash = hash, .parent = parent, .ns = 1, .position = position, .ranks = 1, .size = 100};
}

/* ---- chains ---- */

static void
a_tick_is_heard_from_the_deepest_up(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&strict_ordering, 1 << 20);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) { /* in the order of hashes, which is none */
        const uint32_t depth = (i * 3 + 1) % 4;
        const struct policy_block block = block_of(10 + depth, depth == 0 ? 0 : 9 + depth, depth);

        assert_int_equal(policy_tier_blocks_store(roster, &block, 5), KVT_OK);
    }
    policy_tier_blocks_settle(roster);
    assert_int_equal(strict_last->heard_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(strict_last->heard[i].position, 3 - i);
    policy_tier_blocks_free(roster);
}

static void
a_use_is_one_of_all_before_it_and_once_a_tick(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&strict_ordering, 1 << 20);
    struct policy_standing standing;
    struct policy_block block;

    (void)state;
    for (uint32_t depth = 0; depth < 4; depth++) {
        block = block_of(10 + depth, depth == 0 ? 0 : 9 + depth, depth);
        assert_int_equal(policy_tier_blocks_store(roster, &block, 5), KVT_OK);
    }
    policy_tier_blocks_settle(roster);
    strict_last->heard_count = 0;
    block = block_of(11, 10, 1);
    assert_int_equal(policy_tier_blocks_use(roster, &block, 7), KVT_OK);
    block = block_of(12, 11, 2);
    assert_int_equal(policy_tier_blocks_use(roster, &block, 7), KVT_OK);
    assert_int_equal(policy_tier_blocks_use(roster, &block, 7), KVT_OK);
    policy_tier_blocks_settle(roster);
    assert_int_equal(strict_last->heard_count, 3); /* 12, 11, 10; not 13 */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(strict_last->heard[i].position, 2 - i);
        assert_int_equal(strict_last->heard[i].uses, 2);
        assert_int_equal(strict_last->heard[i].now, 7);
    }
    assert_int_equal(policy_tier_blocks_standing(roster, 1, 13, 9, 1, &standing), KVT_OK);
    assert_int_equal(standing.uses, 1);
    assert_int_equal(standing.tick, 5);
    policy_tier_blocks_free(roster);
}

/* What the ordering heard of the block at this depth last. */
static struct kvt_ordering_use
last_heard(uint32_t position)
{
    for (uint32_t i = strict_last->heard_count; i-- > 0;)
        if (strict_last->heard[i].position == position)
            return strict_last->heard[i];
    fail_msg("nothing was heard of the block at %u", position);
    return (struct kvt_ordering_use){.block = 0};
}

static void
expect_heard(uint32_t position, uint32_t uses, uint64_t now, uint32_t flags)
{
    const struct kvt_ordering_use use = last_heard(position);

    assert_int_equal(use.uses, uses);
    assert_int_equal(use.now, now);
    assert_int_equal(use.flags & ~(uint32_t)KVT_ORDERING_HOT, flags);
}

static void
tell(struct policy_tier_blocks *roster, bool read, uint32_t depth, uint64_t tick)
{
    const struct policy_block block = block_of(10 + depth, depth == 0 ? 0 : 9 + depth, depth);

    assert_int_equal(read ? policy_tier_blocks_use(roster, &block, tick)
                          : policy_tier_blocks_store(roster, &block, tick),
                     KVT_OK);
    policy_tier_blocks_settle(roster);
}

static void
parts_of_a_request_are_one_use_and_have_one_end(void **state)
{
    enum { AGAIN = KVT_ORDERING_AGAIN, LAST = KVT_ORDERING_LAST };
    struct policy_tier_blocks *roster = roster_of_requests(20);

    (void)state;
    tell(roster, false, 0, 100);
    expect_heard(0, 1, 100, LAST);
    tell(roster, false, 1, 100); /* so it was none, in the same tick */
    expect_heard(0, 1, 100, AGAIN);
    expect_heard(1, 1, 100, LAST);

    /* A request reads both and stores a third, of which is heard before the reads. */
    tell(roster, false, 2, 200);
    expect_heard(0, 2, 200, 0);
    expect_heard(1, 2, 200, 0);
    expect_heard(2, 1, 200, LAST);
    tell(roster, true, 1, 210);
    tell(roster, true, 0, 210);
    expect_heard(0, 2, 210, AGAIN);
    expect_heard(1, 2, 210, AGAIN);
    expect_heard(2, 1, 200, LAST);

    /* The same the other way round. */
    tell(roster, true, 2, 300);
    expect_heard(2, 2, 300, LAST);
    tell(roster, false, 3, 315);
    expect_heard(0, 3, 315, AGAIN);
    expect_heard(2, 2, 315, AGAIN);
    expect_heard(3, 1, 315, LAST);

    /* What is itself read twice is used twice, however soon. */
    tell(roster, true, 0, 400);
    tell(roster, true, 0, 401);
    expect_heard(0, 5, 401, LAST);

    /* Later it is another request's. */
    tell(roster, true, 3, 422);
    expect_heard(0, 6, 422, 0);
    policy_tier_blocks_free(roster);
}

/* Stores come in the order of hashes, which is none. */
static void
whoever_is_told_of_first_a_request_has_one_end(void **state)
{
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct policy_tier_blocks *roster = roster_of_requests(20);

        for (size_t k = 0; k < 4; k++) {
            const uint32_t depth = orders[i][k];
            const struct policy_block block =
                block_of(10 + depth, depth == 0 ? 0 : 9 + depth, depth);

            assert_int_equal(policy_tier_blocks_store(roster, &block, 100), KVT_OK);
        }
        policy_tier_blocks_settle(roster);
        for (uint32_t depth = 0; depth < 4; depth++)
            expect_heard(depth, 1, 100, depth == 3 ? KVT_ORDERING_LAST : 0);
        policy_tier_blocks_free(roster);
    }
}

static void
a_block_that_comes_back_is_not_used_by_it(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&strict_ordering, 1 << 20);
    const struct policy_block block = block_of(1, 0, 0);
    struct policy_standing standing;

    (void)state;
    assert_int_equal(policy_tier_blocks_store(roster, &block, 1), KVT_OK);
    policy_tier_blocks_leave(roster, 1, 1);
    assert_int_equal(policy_tier_blocks_use(roster, &block, 2), KVT_OK);
    assert_int_equal(policy_tier_blocks_standing(roster, 1, 1, 2, 1, &standing), KVT_OK);
    assert_false(standing.in_tier);
    assert_int_equal(policy_tier_blocks_store(roster, &block, 3), KVT_OK);
    assert_int_equal(policy_tier_blocks_standing(roster, 1, 1, 3, 1, &standing), KVT_OK);
    assert_true(standing.in_tier);
    assert_int_equal(standing.uses, 2);
    assert_int_equal(standing.tick, 2);
    policy_tier_blocks_free(roster);
}

/* ---- restarts ---- */

static void
a_former_life_leaves_in_the_order_it_would_have(void **state)
{
    struct policy_tier_blocks *before = roster_of(&policy_lru, 1 << 20);
    struct policy_tier_blocks *after = roster_of(&policy_lru, 1 << 20);
    enum { CHAINS = 20, DEPTH = 5 };

    (void)state;
    for (uint64_t i = 0; i < (uint64_t)CHAINS * DEPTH; i++) {
        const uint32_t depth = (uint32_t)(i % DEPTH);
        const struct policy_block block = block_of(1000 + i, depth == 0 ? 0 : 999 + i, depth);

        assert_int_equal(policy_tier_blocks_store(before, &block, 1 + i / DEPTH), KVT_OK);
    }
    for (uint64_t i = 0; i < 30; i++) {
        struct policy_standing standing;
        const uint64_t hash = 1000 + i * 37 % ((uint64_t)CHAINS * DEPTH);

        assert_int_equal(policy_tier_blocks_standing(before, 1, hash, 0, 1, &standing), KVT_OK);
        assert_int_equal(policy_tier_blocks_use(before, &standing.block, CHAINS + 1 + i), KVT_OK);
    }
    /* The store has them in the order of hashes, and children's parents may be younger there. */
    for (uint64_t i = (uint64_t)CHAINS * DEPTH; i-- > 0;) {
        struct policy_standing standing;

        assert_int_equal(policy_tier_blocks_standing(before, 1, 1000 + i, 0, 1, &standing), KVT_OK);
        assert_int_equal(
            policy_tier_blocks_restore(after, &standing.block, standing.uses, standing.tick),
            KVT_OK);
    }
    for (uint32_t i = 0; i < CHAINS * DEPTH; i++) {
        struct policy_block was;
        struct policy_block is;
        struct policy_standing left;
        struct policy_standing right;

        assert_true(policy_tier_blocks_victim(before, 100, &was));
        assert_true(policy_tier_blocks_victim(after, 100, &is));
        assert_int_equal(policy_tier_blocks_standing(before, 1, was.hash, 100, 1, &left), KVT_OK);
        assert_int_equal(policy_tier_blocks_standing(after, 1, is.hash, 100, 1, &right), KVT_OK);
        assert_int_equal(left.tick, right.tick);
        assert_int_equal(left.block.position, right.block.position);
    }
    policy_tier_blocks_free(before);
    policy_tier_blocks_free(after);
}

static void
a_parent_is_restored_as_young_as_its_child(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&policy_lru, 1 << 20);
    const uint64_t ticks[] = {3, 9, 5}; /* of positions 0, 1, 2 */
    struct policy_block block;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        block = block_of(10 + i, i == 0 ? 0 : 9 + i, i);
        assert_int_equal(policy_tier_blocks_restore(roster, &block, 1, ticks[i]), KVT_OK);
    }
    block = block_of(20, 0, 0);
    assert_int_equal(policy_tier_blocks_restore(roster, &block, 1, 7), KVT_OK);
    for (uint32_t i = 0; i < 4; i++) {
        static const uint64_t wanted[] = {12, 20, 11, 10};

        assert_true(policy_tier_blocks_victim(roster, 10, &block));
        assert_int_equal(block.hash, wanted[i]);
    }
    policy_tier_blocks_free(roster);
}

/* ---- bounds ---- */

static void
the_longest_cold_is_forgotten_first_and_what_is_in_the_tier_never(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&strict_ordering, 20000);
    struct policy_tier_blocks_counts counts;
    struct policy_standing standing;
    struct policy_block block;
    enum kvt_err rc = KVT_OK;
    uint32_t room = 0;

    (void)state;
    while (rc == KVT_OK) {
        block = block_of(++room, 0, 0);
        rc = policy_tier_blocks_store(roster, &block, room);
        assert_true(room < STRICT_MAX);
    }
    assert_int_equal(rc, KVT_FULL);
    room--; /* so many there is room for */
    assert_true(room >= 100);
    policy_tier_blocks_leave(roster, 1, 7);
    policy_tier_blocks_leave(roster, 1, 3);
    block = block_of(7000, 0, 0);
    assert_int_equal(policy_tier_blocks_store(roster, &block, room + 1), KVT_OK);
    assert_int_equal(policy_tier_blocks_standing(roster, 1, 7, 0, 1, &standing), KVT_NOTFOUND);
    assert_int_equal(policy_tier_blocks_standing(roster, 1, 3, 0, 1, &standing), KVT_OK);
    policy_tier_blocks_counts(roster, &counts);
    assert_int_equal(counts.known, room);
    assert_int_equal(counts.in_tier, room - 1);
    policy_tier_blocks_free(roster);
}

static bool
attempt_life(void *arg)
{
    const struct policy_tier_blocks_options options = {.ordering = &policy_lru,
                                                       .bytes_max = 1 << 20};
    struct policy_tier_blocks *roster = NULL;
    struct policy_block block;
    bool whole = policy_tier_blocks_new(&roster, &options) == KVT_OK;

    (void)arg;
    if (!whole)
        return false;
    for (uint32_t i = 0; i < 200 && whole; i++) {
        block = block_of(1 + i, i, i);
        whole = policy_tier_blocks_store(roster, &block, i) == KVT_OK;
    }
    while (policy_tier_blocks_victim(roster, 1000, &block))
        policy_tier_blocks_leave(roster, block.ns, block.hash);
    policy_tier_blocks_free(roster);
    return whole;
}

static void
every_failing_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt_life, NULL) > 5);
}

/* ---- against a model ---- */

enum { MODEL_HASHES = 300, MODEL_STEPS = 20000 };

struct model {
    bool in[MODEL_HASHES];
    bool taken[MODEL_HASHES];
    bool known[MODEL_HASHES];
    uint32_t passed[MODEL_HASHES]; /* when it was set aside; 0: it is not */
    uint64_t used[MODEL_HASHES];   /* tick of the last use */
    uint32_t passes;
    uint64_t tick;
};

/* A use is one of all before it, once a tick, and brings back what was set aside. */
static void
model_use(struct model *model, uint32_t number)
{
    for (uint32_t i = number; model->known[i] && model->used[i] != model->tick; i--) {
        model->used[i] = model->tick;
        if (model->passed[i] != 0)
            model->taken[i] = false;
        model->passed[i] = 0;
        if (i % 10 == 0)
            break;
    }
}

static void
model_resume(struct policy_tier_blocks *roster, struct model *model, uint32_t max)
{
    uint32_t count = 0;

    for (; count < max; count++) {
        uint32_t last = MODEL_HASHES;

        for (uint32_t i = 0; i < MODEL_HASHES; i++)
            if (model->passed[i] != 0 &&
                (last == MODEL_HASHES || model->passed[i] > model->passed[last]))
                last = i;
        if (last == MODEL_HASHES)
            break;
        model->passed[last] = 0;
        model->taken[last] = false;
    }
    assert_int_equal(policy_tier_blocks_resume(roster, max), count);
}

static struct policy_block
model_block(uint32_t number)
{
    const uint32_t depth = number % 10;

    return block_of(1 + number, depth == 0 ? 0 : number, depth);
}

static void
model_step(struct policy_tier_blocks *roster, struct model *model, uint32_t verb, uint32_t number)
{
    struct policy_block block = model_block(number);

    switch (verb) {
    case 0:
    case 1:
        assert_int_equal(policy_tier_blocks_store(roster, &block, model->tick), KVT_OK);
        if (!model->known[number]) {
            model->known[number] = true;
            model_use(model, number);
        }
        model->in[number] = true;
        break;
    case 2:
    case 3:
        assert_int_equal(policy_tier_blocks_use(roster, &block, model->tick), KVT_OK);
        model->known[number] = true;
        model_use(model, number);
        break;
    case 4:
    case 5:
        policy_tier_blocks_leave(roster, 1, block.hash);
        model->in[number] = model->taken[number] = false;
        model->passed[number] = 0;
        break;
    case 6:
        if (policy_tier_blocks_victim(roster, model->tick, &block)) {
            assert_true(model->in[block.hash - 1] && !model->taken[block.hash - 1]);
            model->taken[block.hash - 1] = true;
        } else {
            for (uint32_t i = 0; i < MODEL_HASHES; i++)
                assert_true(!model->in[i] || model->taken[i]);
        }
        break;
    case 7:
        policy_tier_blocks_give_back(roster, 1, block.hash);
        model->taken[number] = false;
        model->passed[number] = 0;
        break;
    case 8:
        if (number % 10 != 0)
            break;
        policy_tier_blocks_give_back_all(roster);
        memset(model->taken, 0, sizeof(model->taken));
        memset(model->passed, 0, sizeof(model->passed));
        break;
    case 9:
        policy_tier_blocks_pass(roster, 1, block.hash);
        if (model->taken[number] && model->passed[number] == 0)
            model->passed[number] = ++model->passes;
        break;
    case 10:
        if (number % 10 == 0)
            model_resume(roster, model, number);
        break;
    case 11: {
        const bool free = model->in[number] && (!model->taken[number] || model->passed[number]);

        assert_int_equal(policy_tier_blocks_claim(roster, 1, block.hash), free);
        model->taken[number] = model->taken[number] || free;
        model->passed[number] = 0;
        break;
    }
    default: model->tick++;
    }
}

struct scanned {
    const struct model *model;
    bool seen[MODEL_HASHES];
};

static void
see(void *arg, const struct policy_block *block, uint64_t tick)
{
    struct scanned *scanned = arg;
    const uint64_t number = block->hash - 1;

    assert_true(number < MODEL_HASHES && !scanned->seen[number]);
    assert_int_equal(tick, scanned->model->used[number]);
    scanned->seen[number] = true;
}

/* Each block once that is in the tier and not taken out, or only set aside. */
static void
scan_is_as_the_model_says(const struct policy_tier_blocks *roster, const struct model *model)
{
    struct scanned scanned = {.model = model};
    uint32_t at = 0;

    while (policy_tier_blocks_scan(roster, &at, 7, see, &scanned))
        continue;
    for (uint32_t i = 0; i < MODEL_HASHES; i++)
        assert_int_equal(scanned.seen[i],
                         model->in[i] && (!model->taken[i] || model->passed[i] != 0));
}

static void
random_lives_are_as_the_model_says(void **state)
{
    struct policy_tier_blocks *roster = roster_of(&strict_ordering, 1 << 20);
    struct policy_tier_blocks_counts counts;
    struct model model = {.tick = 1};
    uint64_t random = test_seed();

    (void)state;
    for (uint32_t step = 0; step < MODEL_STEPS; step++) {
        struct policy_standing standing;
        const uint32_t number = (uint32_t)kvt_random_below(&random, MODEL_HASHES);
        uint32_t in = 0;
        uint32_t taken = 0;
        uint32_t known = 0;
        uint32_t passed = 0;

        model_step(roster, &model, (uint32_t)kvt_random_below(&random, 14), number);
        if (step % 50 != 0)
            continue;
        policy_tier_blocks_settle(roster);
        for (uint32_t i = 0; i < MODEL_HASHES; i++) {
            const enum kvt_err rc =
                policy_tier_blocks_standing(roster, 1, 1 + i, model.tick, 1, &standing);

            assert_int_equal(rc == KVT_OK, model.known[i]);
            assert_int_equal(standing.in_tier, model.in[i]);
            assert_int_equal(standing.taken, model.taken[i]);
            assert_int_equal(policy_tier_blocks_has(roster, 1, 1 + i), model.in[i]);
            assert_int_equal(policy_tier_blocks_is_taken(roster, 1, 1 + i), model.taken[i]);
            in += model.in[i];
            taken += model.taken[i];
            known += model.known[i];
            passed += model.passed[i] != 0;
        }
        scan_is_as_the_model_says(roster, &model);
        policy_tier_blocks_counts(roster, &counts);
        assert_int_equal(counts.in_tier, in);
        assert_int_equal(counts.taken, taken);
        assert_int_equal(counts.known, known);
        assert_int_equal(counts.passed, passed);
    }
    policy_tier_blocks_free(roster);
}

/* The oldest leaves first; a sample says about the same of many. */
static void
those_that_leave_before_are_counted(void **state)
{
    static const uint32_t counts[] = {100, 4 * POLICY_TIER_BLOCKS_SAMPLE};

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct policy_tier_blocks *roster = roster_of(&policy_lru, 64u << 20);
        const uint32_t count = counts[c];

        for (uint32_t i = 0; i < count; i++) {
            const struct policy_block block = block_of(1000 + i, 0, 0);

            assert_int_equal(policy_tier_blocks_store(roster, &block, 10 + i), KVT_OK);
        }
        for (uint32_t i = 0; i < count; i += count / 10) {
            struct policy_standing standing;
            uint32_t before;

            assert_int_equal(
                policy_tier_blocks_standing(roster, 1, 1000 + i, 10 + count, 1, &standing), KVT_OK);
            before = policy_tier_blocks_before(roster, standing.value, 10 + count);
            if (c == 0)
                assert_int_equal(before, i);
            else
                assert_in_range(before, i < count / 50 ? 0 : i - count / 50, i + count / 50);
        }
        policy_tier_blocks_free(roster);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tick_is_heard_from_the_deepest_up),
        cmocka_unit_test(a_use_is_one_of_all_before_it_and_once_a_tick),
        cmocka_unit_test(parts_of_a_request_are_one_use_and_have_one_end),
        cmocka_unit_test(whoever_is_told_of_first_a_request_has_one_end),
        cmocka_unit_test(a_block_that_comes_back_is_not_used_by_it),
        cmocka_unit_test(a_former_life_leaves_in_the_order_it_would_have),
        cmocka_unit_test(a_parent_is_restored_as_young_as_its_child),
        cmocka_unit_test(the_longest_cold_is_forgotten_first_and_what_is_in_the_tier_never),
        cmocka_unit_test(those_that_leave_before_are_counted),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(random_lives_are_as_the_model_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
