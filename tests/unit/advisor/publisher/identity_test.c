/*
 * What is tested: advisor/publisher/identity.h and advisor/publisher/orphans.h: names of blocks,
 * and stores that wait. How: known chains; a random history of stores and removes over tiers
 * against sets; the store between two tables; failing allocations.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "advisor/publisher/identity.h"
#include "advisor/publisher/orphans.h"
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

enum {
    BLOCK_TOKENS = 4,
    CHAINS = 6,
    DEPTH = 12, /* blocks of a chain; those below SHARED are the same in all of them */
    SHARED = 4,
    PUBLISHERS = 3,
    STEPS = 20000,
    MAX = 4096,
};

struct scene {
    struct advisor_aliases *aliases;
    struct wire_raw_batch *batch;
    struct advisor_named named[DEPTH];
    uint32_t nobody; /* calls for a position that were not answered */
};

static uint32_t
count_aliases(const struct advisor_aliases *aliases)
{
    uint32_t count = 0;

    for (uint32_t at = 0; at < advisor_aliases_end(aliases); at++)
        if (advisor_aliases_at(aliases, at) != NULL)
            count++;
    return count;
}

static uint32_t
no_position(void *arg, uint64_t chain)
{
    struct scene *scene = arg;

    (void)chain;
    scene->nobody++;
    return ADVISOR_POSITION_NOBODY;
}

static struct advisor_speaker
speaker_of(struct scene *scene, uint32_t publisher)
{
    return (struct advisor_speaker){
        .publisher = publisher, .gen = 1, .floor = 0, .position = no_position, .arg = scene};
}

static void
begin(struct scene *scene, uint32_t max)
{
    memset(scene, 0, sizeof(*scene));
    assert_int_equal(advisor_aliases_new(&scene->aliases, max), KVT_OK);
    assert_int_equal(wire_raw_batch_new(&scene->batch), KVT_OK);
}

static void
end(struct scene *scene)
{
    wire_raw_batch_free(scene->batch);
    advisor_aliases_free(scene->aliases);
}

/* ---- the world: chains of tokens, and what each engine calls their blocks ---- */

static void
tokens_of(uint32_t chain, uint32_t depth, uint32_t tokens[BLOCK_TOKENS])
{
    for (uint32_t i = 0; i < BLOCK_TOKENS; i++)
        tokens[i] = (depth < SHARED ? 0 : chain) * 1000 + depth * 10 + i;
}

static uint64_t
name_of(uint32_t chain, uint32_t depth, uint64_t seed)
{
    uint32_t tokens[BLOCK_TOKENS];
    uint64_t name = 0;

    for (uint32_t i = 0; i <= depth; i++) {
        tokens_of(chain, i, tokens);
        name = i == 0 ? kvt_token_block(tokens, BLOCK_TOKENS, NULL, 0, seed)
                      : kvt_token_chain(name, kvt_token_block(tokens, BLOCK_TOKENS, NULL, 0, seed));
    }
    return name;
}

/* Publisher 3 calls blocks by their names; the others have hashes of their own. */
static uint64_t
called(uint32_t publisher, uint32_t chain, uint32_t depth)
{
    const uint64_t name = name_of(chain, depth, KVT_TOKEN_SEED);

    return publisher == PUBLISHERS ? name : name * 31 + publisher;
}

/* A store of the blocks from `depth` on, with their tokens. */
static struct wire_raw_event *
store_event(struct scene *scene, uint32_t publisher, uint32_t chain, uint32_t depth, uint32_t count,
            enum kvt_tier tier)
{
    struct wire_raw_batch *batch = scene->batch;
    struct wire_raw_event *event = &batch->events[0];

    wire_raw_batch_clear(batch);
    *event = (struct wire_raw_event){.kind = WIRE_RAW_STORE,
                                     .tier = tier,
                                     .seed = KVT_TOKEN_SEED,
                                     .count = count,
                                     .block_tokens = BLOCK_TOKENS,
                                     .position = WIRE_RAW_POSITION_UNKNOWN,
                                     .ranks = 1};
    if (depth > 0) {
        event->has_parent = true;
        event->parent = called(publisher, chain, depth - 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        batch->blocks[i] = (struct wire_raw_block){.hash = called(publisher, chain, depth + i)};
        tokens_of(chain, depth + i, batch->token_ids + (size_t)i * BLOCK_TOKENS);
    }
    batch->event_count = 1;
    batch->block_count = count;
    batch->token_count = count * BLOCK_TOKENS;
    return event;
}

static enum advisor_naming
store(struct scene *scene, uint32_t publisher, uint32_t chain, uint32_t depth, uint32_t count,
      enum kvt_tier tier)
{
    const struct advisor_speaker speaker = speaker_of(scene, publisher);
    const struct wire_raw_event *event = store_event(scene, publisher, chain, depth, count, tier);
    enum advisor_naming naming;

    assert_int_equal(advisor_identity_store(scene->aliases, &speaker, scene->batch, event,
                                            scene->named, &naming),
                     KVT_OK);
    return naming;
}

/* ---- tests ---- */

static void
chains_have_names_and_places(void **state)
{
    struct scene scene;
    bool known;
    struct advisor_speaker speaker;

    (void)state;
    begin(&scene, MAX);
    assert_int_equal(store(&scene, 1, 2, 0, 3, KVT_TIER_G1), ADVISOR_NAMED);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(scene.named[i].hash, name_of(2, i, KVT_TOKEN_SEED));
        assert_int_equal(scene.named[i].position, i);
        assert_int_equal(scene.named[i].parent, i == 0 ? 0 : name_of(2, i - 1, KVT_TOKEN_SEED));
    }
    assert_int_equal(store(&scene, 1, 2, 3, 2, KVT_TIER_G1), ADVISOR_NAMED);
    assert_int_equal(scene.named[0].position, 3);
    assert_int_equal(scene.named[1].hash, name_of(2, 4, KVT_TOKEN_SEED));
    assert_int_equal(count_aliases(scene.aliases), 5);
    /* Another publisher's hashes are its own. */
    assert_int_equal(store(&scene, 2, 2, 3, 1, KVT_TIER_G1), ADVISOR_ORPHAN);
    /* A row goes with the last tier. */
    assert_int_equal(store(&scene, 1, 2, 4, 1, KVT_TIER_G2), ADVISOR_NAMED);
    speaker = speaker_of(&scene, 1);
    assert_int_equal(
        advisor_identity_remove(scene.aliases, &speaker, KVT_TIER_G1, called(1, 2, 4), &known),
        name_of(2, 4, KVT_TOKEN_SEED));
    assert_true(known);
    assert_int_equal(count_aliases(scene.aliases), 5);
    (void)advisor_identity_remove(scene.aliases, &speaker, KVT_TIER_G2, called(1, 2, 4), &known);
    assert_true(known);
    assert_int_equal(count_aliases(scene.aliases), 4);
    assert_int_equal(
        advisor_identity_remove(scene.aliases, &speaker, KVT_TIER_G2, called(1, 2, 4), &known),
        called(1, 2, 4));
    assert_false(known);
    end(&scene);
}

/* An engine whose hash is the chain costs nothing, with or without its parents. */
static void
own_names_cost_no_row(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, 0);
    assert_int_equal(store(&scene, PUBLISHERS, 1, 0, 5, KVT_TIER_G1), ADVISOR_NAMED);
    assert_int_equal(scene.named[4].hash, name_of(1, 4, KVT_TOKEN_SEED));
    assert_int_equal(store(&scene, PUBLISHERS, 2, 5, 2, KVT_TIER_G1), ADVISOR_NAMED);
    assert_int_equal(scene.named[1].hash, name_of(2, 6, KVT_TOKEN_SEED));
    assert_int_equal(scene.nobody, 1);
    /* Nobody knows where it stands, which collides with nothing. */
    assert_int_equal(scene.named[0].parent, 0);
    assert_int_equal(scene.named[0].position, 1);
    assert_int_equal(count_aliases(scene.aliases), 0);
    end(&scene);
}

/* RouterEvents without the hash of the tokens are named by the producer's. */
static void
without_tokens_by_hash(void **state)
{
    struct scene scene;
    const struct advisor_speaker speaker = speaker_of(&scene, 1);
    struct wire_raw_event *event;
    enum advisor_naming naming;

    (void)state;
    begin(&scene, 0);
    event = store_event(&scene, 1, 1, 2, 2, KVT_TIER_G1);
    event->block_tokens = 0;
    event->position = 2;
    assert_int_equal(
        advisor_identity_store(scene.aliases, &speaker, scene.batch, event, scene.named, &naming),
        KVT_OK);
    assert_int_equal(naming, ADVISOR_NAMED);
    assert_int_equal(scene.named[0].hash, called(1, 1, 2));
    assert_int_equal(scene.named[0].parent, called(1, 1, 1));
    assert_int_equal(scene.named[0].position, 2);
    assert_int_equal(scene.named[1].parent, called(1, 1, 2));
    end(&scene);
}

static void
salt_is_inherited(void **state)
{
    struct scene scene;
    const struct advisor_speaker speaker = speaker_of(&scene, 1);
    const uint64_t seed = kvt_token_seed("", 0, "tenant-a", 8);
    struct wire_raw_event *event;
    enum advisor_naming naming;

    (void)state;
    begin(&scene, MAX);
    event = store_event(&scene, 1, 1, 0, 2, KVT_TIER_G1);
    event->seed = seed;
    event->salted = true;
    assert_int_equal(
        advisor_identity_store(scene.aliases, &speaker, scene.batch, event, scene.named, &naming),
        KVT_OK);
    assert_int_equal(scene.named[1].hash, name_of(1, 1, seed));
    /* The child does not repeat it. */
    assert_int_equal(store(&scene, 1, 1, 2, 1, KVT_TIER_G1), ADVISOR_NAMED);
    assert_int_equal(scene.named[0].hash, name_of(1, 2, seed));
    /* Another salt is a mistake. */
    event = store_event(&scene, 1, 1, 3, 1, KVT_TIER_G1);
    event->seed = kvt_token_seed("", 0, "tenant-b", 8);
    event->salted = true;
    assert_int_equal(
        advisor_identity_store(scene.aliases, &speaker, scene.batch, event, scene.named, &naming),
        KVT_OK);
    assert_int_equal(naming, ADVISOR_CONFLICT);
    end(&scene);
}

static void
bounded(void **state)
{
    struct scene scene;
    const struct advisor_speaker speaker = speaker_of(&scene, 1);
    const struct wire_raw_event *event;
    enum advisor_naming naming;

    (void)state;
    begin(&scene, 3);
    event = store_event(&scene, 1, 1, 0, 4, KVT_TIER_G1);
    assert_int_equal(
        advisor_identity_store(scene.aliases, &speaker, scene.batch, event, scene.named, &naming),
        KVT_FULL);
    assert_int_equal(count_aliases(scene.aliases), 3);
    end(&scene);
}

/* The floor voids at once, the memory comes back a step at a time. */
static uint32_t
floor_two(void *arg, uint32_t publisher)
{
    (void)arg;
    return publisher == 1 ? 2 : 0;
}

static void
void_rows_go(void **state)
{
    struct scene scene;
    struct advisor_speaker speaker = speaker_of(&scene, 1);
    bool known;

    (void)state;
    begin(&scene, MAX);
    (void)store(&scene, 1, 1, 0, 5, KVT_TIER_G1);
    (void)store(&scene, 2, 1, 0, 5, KVT_TIER_G1);
    speaker.gen = 2;
    speaker.floor = 2;
    (void)advisor_identity_remove(scene.aliases, &speaker, KVT_TIER_G1, called(1, 1, 0), &known);
    assert_false(known);
    advisor_aliases_saved(scene.aliases);
    advisor_aliases_void(scene.aliases);
    advisor_aliases_purge(scene.aliases, floor_two, NULL);
    assert_int_equal(count_aliases(scene.aliases), 5);
    assert_true(advisor_aliases_dirty(scene.aliases));
    end(&scene);
}

/* ---- a random history ---- */

struct model {
    uint8_t tiers[PUBLISHERS + 1][CHAINS][DEPTH]; /* mask of tiers; shared blocks under chain 0 */
    uint64_t random;
    uint32_t orphans;
    uint32_t removed;
};

static uint32_t
chain_of(uint32_t chain, uint32_t depth)
{
    return depth < SHARED ? 0 : chain;
}

static uint32_t
rows_wanted(const struct model *model)
{
    uint32_t rows = 0;

    for (uint32_t p = 1; p < PUBLISHERS; p++)
        for (uint32_t c = 0; c < CHAINS; c++)
            for (uint32_t d = 0; d < DEPTH; d++)
                rows += model->tiers[p][c][d] != 0 ? 1 : 0;
    return rows;
}

static void
random_store(struct scene *scene, struct model *model, uint32_t publisher)
{
    const uint32_t chain = (uint32_t)kvt_random_below(&model->random, CHAINS);
    const uint32_t depth = (uint32_t)kvt_random_below(&model->random, DEPTH);
    const uint32_t count = 1 + (uint32_t)kvt_random_below(&model->random, DEPTH - depth);
    const enum kvt_tier tier =
        (enum kvt_tier)(KVT_TIER_G1 + (int)kvt_random_below(&model->random, 3));
    const bool parent_known = publisher == PUBLISHERS || depth == 0 ||
                              model->tiers[publisher][chain_of(chain, depth - 1)][depth - 1] != 0 ||
                              model->tiers[publisher][chain_of(chain, depth)][depth] != 0;

    if (store(scene, publisher, chain, depth, count, tier) == ADVISOR_ORPHAN) {
        assert_false(parent_known);
        model->orphans++;
        return;
    }
    assert_true(parent_known);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(scene->named[i].hash,
                         name_of(chain_of(chain, depth + i), depth + i, KVT_TOKEN_SEED));
        model->tiers[publisher][chain_of(chain, depth + i)][depth + i] |=
            (uint8_t)KVT_TIER_MASK(tier);
    }
}

static void
random_remove(struct scene *scene, struct model *model, uint32_t publisher)
{
    const struct advisor_speaker speaker = speaker_of(scene, publisher);
    const uint32_t depth = (uint32_t)kvt_random_below(&model->random, DEPTH);
    const uint32_t chain = chain_of((uint32_t)kvt_random_below(&model->random, CHAINS), depth);
    const enum kvt_tier tier =
        (enum kvt_tier)(KVT_TIER_G1 + (int)kvt_random_below(&model->random, 3));
    uint8_t *tiers = &model->tiers[publisher][chain][depth];
    bool known;
    const uint64_t name = advisor_identity_remove(scene->aliases, &speaker, tier,
                                                  called(publisher, chain, depth), &known);

    assert_int_equal(known, publisher != PUBLISHERS && *tiers != 0);
    if (known)
        assert_int_equal(name, name_of(chain, depth, KVT_TOKEN_SEED));
    model->removed += *tiers != 0 ? 1 : 0;
    *tiers &= (uint8_t)~KVT_TIER_MASK(tier);
}

/* What the store has is what a table loaded from it has. */
static void
assert_durable(struct scene *scene, struct advisor_store *folder)
{
    const uint32_t count = count_aliases(scene->aliases);
    struct advisor_txn txn;
    struct kvt_error err;

    assert_int_equal(advisor_store_write(folder, &txn, &err), KVT_OK);
    assert_int_equal(advisor_aliases_save(scene->aliases, &txn), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, &err), KVT_OK);
    advisor_aliases_saved(scene->aliases);
    assert_false(advisor_aliases_dirty(scene->aliases));
    advisor_aliases_free(scene->aliases);
    assert_int_equal(advisor_aliases_new(&scene->aliases, MAX), KVT_OK);
    assert_int_equal(advisor_store_read(folder, &txn, &err), KVT_OK);
    assert_int_equal(advisor_aliases_load(scene->aliases, &txn), KVT_OK);
    advisor_store_end(&txn);
    assert_int_equal(count_aliases(scene->aliases), count);
}

static void
random_against_sets(void **state)
{
    static struct model model;
    struct advisor_store_options options = {.map_bytes = 16u << 20};
    struct advisor_store *folder;
    struct kvt_error err;
    struct scene scene;
    char path[256];

    (void)state;
    memset(&model, 0, sizeof(model));
    model.random = test_seed();
    options.path = test_folder_make(path, sizeof(path));
    assert_int_equal(advisor_store_open(&folder, &options, &err), KVT_OK);
    begin(&scene, MAX);
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t publisher = 1 + (uint32_t)kvt_random_below(&model.random, PUBLISHERS);

        if (kvt_random_below(&model.random, 5) == 0)
            random_store(&scene, &model, publisher);
        else
            random_remove(&scene, &model, publisher);
        assert_int_equal(count_aliases(scene.aliases), rows_wanted(&model));
        if (step % 2000 == 1999)
            assert_durable(&scene, folder);
    }
    /* Both kinds of store and real removes have been seen. */
    assert_true(model.orphans > 50);
    assert_true(model.removed > 500);
    end(&scene);
    advisor_store_close(folder);
    test_folder_remove(path);
}

/* ---- what waits ---- */

static void
orphans_wait_and_join(void **state)
{
    struct advisor_orphans *orphans;
    struct advisor_orphan *orphan;
    struct scene scene;

    (void)state;
    begin(&scene, MAX);
    assert_int_equal(advisor_orphans_new(&orphans), KVT_OK);
    assert_int_equal(
        advisor_orphans_add(orphans, 1, scene.batch, store_event(&scene, 1, 1, 5, 3, KVT_TIER_G1)),
        KVT_OK);
    assert_int_equal(
        advisor_orphans_add(orphans, 2, scene.batch, store_event(&scene, 2, 1, 5, 2, KVT_TIER_G2)),
        KVT_OK);
    assert_int_equal(advisor_orphans_waiting(orphans, 1), 3);
    assert_true(advisor_orphans_remove(orphans, 1, KVT_TIER_G1, called(1, 1, 6)));
    assert_false(advisor_orphans_remove(orphans, 1, KVT_TIER_G1, called(1, 1, 6)));
    assert_false(advisor_orphans_remove(orphans, 1, KVT_TIER_G2, called(1, 1, 5)));
    assert_null(advisor_orphans_take(orphans, 1, called(2, 1, 4)));
    orphan = advisor_orphans_take(orphans, 1, called(1, 1, 4));
    assert_non_null(orphan);
    assert_int_equal(orphan->event.count, 3);
    assert_int_equal(orphan->batch.blocks[2].hash, called(1, 1, 7));
    assert_false(orphan->left[0]);
    assert_true(orphan->left[1]);
    assert_int_equal(orphan->batch.token_ids[BLOCK_TOKENS], 1060);
    advisor_orphan_free(orphan);
    assert_null(advisor_orphans_take(orphans, 1, called(1, 1, 4)));
    assert_int_equal(advisor_orphans_waiting(orphans, 1), 0);
    assert_int_equal(advisor_orphans_drop(orphans, 2, KVT_TIER_G1), 0);
    assert_int_equal(advisor_orphans_drop(orphans, 2, WIRE_RAW_TIER_ALL), 1);
    advisor_orphans_free(orphans);
    end(&scene);
}

/* A store of one block of its own, behind a parent of its own. */
static void
add_lonely(struct advisor_orphans *orphans, uint32_t publisher, uint64_t hash, enum kvt_tier tier)
{
    struct wire_raw_block block = {.hash = hash};
    const struct wire_raw_batch batch = {.blocks = &block};
    const struct wire_raw_event event = {
        .kind = WIRE_RAW_STORE, .count = 1, .tier = tier, .has_parent = true, .parent = ~hash};

    assert_int_equal(advisor_orphans_add(orphans, publisher, &batch, &event), KVT_OK);
}

static uint64_t
cpu_ns(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A remove that concerns none of many that wait must not look at all of them. */
static void
removes_are_found_by_hash(void **state)
{
    enum { CROWD = 50, EACH = 1000, REMOVES = 2000, REMOVE_NS = 50000 };
    struct advisor_orphans *orphans;
    uint64_t start;

    (void)state;
    assert_int_equal(advisor_orphans_new(&orphans), KVT_OK);
    for (uint32_t publisher = 1; publisher <= CROWD; publisher++)
        for (uint32_t i = 0; i < EACH; i++)
            add_lonely(orphans, publisher, i, KVT_TIER_G1);
    add_lonely(orphans, 1, 7, KVT_TIER_G1); /* said twice */
    add_lonely(orphans, 1, 7, KVT_TIER_G2);
    start = cpu_ns();
    for (uint32_t i = 0; i < REMOVES; i++)
        assert_false(advisor_orphans_remove(orphans, 1, KVT_TIER_G1, EACH + i));
    assert_true(cpu_ns() - start < (uint64_t)REMOVES * REMOVE_NS);
    /* All that are meant are met, and nobody else's. */
    assert_true(advisor_orphans_remove(orphans, 1, KVT_TIER_G1, 7));
    assert_false(advisor_orphans_remove(orphans, 1, KVT_TIER_G1, 7));
    for (uint32_t at = 0; at < 3; at++) {
        struct advisor_orphan *orphan = advisor_orphans_take(orphans, 1, ~UINT64_C(7));

        assert_non_null(orphan);
        assert_int_equal(orphan->left[0], orphan->event.tier == KVT_TIER_G1);
        advisor_orphan_free(orphan);
    }
    assert_null(advisor_orphans_take(orphans, 1, ~UINT64_C(7)));
    assert_false(advisor_orphans_remove(orphans, 1, KVT_TIER_G2, 7));
    assert_int_equal(advisor_orphans_drop(orphans, 2, WIRE_RAW_TIER_ALL), EACH);
    assert_false(advisor_orphans_remove(orphans, 2, KVT_TIER_G1, 8));
    for (uint32_t i = 0; i < EACH; i++)
        assert_true(advisor_orphans_remove(orphans, CROWD, KVT_TIER_G1, i));
    advisor_orphans_free(orphans);
}

static void
orphans_are_bounded(void **state)
{
    struct advisor_orphans *orphans;
    struct scene scene;
    uint32_t added = 0;
    enum kvt_err rc = KVT_OK;

    (void)state;
    begin(&scene, MAX);
    assert_int_equal(advisor_orphans_new(&orphans), KVT_OK);
    for (; rc == KVT_OK && added < ADVISOR_ORPHANS_EACH; added++)
        rc = advisor_orphans_add(orphans, 1, scene.batch,
                                 store_event(&scene, 1, 1, 1 + added % 4, 5, KVT_TIER_G1));
    assert_int_equal(rc, KVT_FULL);
    assert_int_equal(advisor_orphans_waiting(orphans, 1), ADVISOR_ORPHANS_EACH / 5 * 5);
    /* One that is full leaves room for others. */
    assert_int_equal(
        advisor_orphans_add(orphans, 2, scene.batch, store_event(&scene, 2, 1, 1, 5, KVT_TIER_G1)),
        KVT_OK);
    advisor_orphans_free(orphans);
    end(&scene);
}

static bool
attempt(void *arg)
{
    struct scene *scene = arg;
    const struct advisor_speaker speaker = speaker_of(scene, 1);
    struct advisor_aliases *aliases = NULL;
    struct advisor_orphans *orphans = NULL;
    enum advisor_naming naming;
    enum kvt_err rc = advisor_aliases_new(&aliases, MAX);

    if (rc == KVT_OK)
        rc = advisor_orphans_new(&orphans);
    if (rc == KVT_OK)
        rc = advisor_identity_store(aliases, &speaker, scene->batch,
                                    store_event(scene, 1, 1, 0, 5, KVT_TIER_G1), scene->named,
                                    &naming);
    if (rc == KVT_OK)
        rc = advisor_orphans_add(orphans, 1, scene->batch,
                                 store_event(scene, 1, 2, 5, 3, KVT_TIER_G1));
    advisor_orphans_free(orphans);
    advisor_aliases_free(aliases);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, MAX);
    assert_true(test_sweep_allocations(attempt, &scene) > 5);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_have_names_and_places),
        cmocka_unit_test(own_names_cost_no_row),
        cmocka_unit_test(without_tokens_by_hash),
        cmocka_unit_test(salt_is_inherited),
        cmocka_unit_test(bounded),
        cmocka_unit_test(void_rows_go),
        cmocka_unit_test(random_against_sets),
        cmocka_unit_test(orphans_wait_and_join),
        cmocka_unit_test(removes_are_found_by_hash),
        cmocka_unit_test(orphans_are_bounded),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
