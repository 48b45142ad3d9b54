/*
 * What is tested: advisor/index/evicted.h and cold_filter.h: what is evicted, removed, dropped and
 * stored again in any order is held where RAM or a row says so, and nowhere else; also after
 * transactions that failed, and after restarts.
 * How: random groups against two arrays: what is held, and what RAM would hold of it.
 */
#include <stdatomic.h>
#include <string.h>

#include "advisor/index/evicted.h"
#include "advisor/index/evicted_filter.h"
#include "advisor/store/evicted_rows.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum {
    CHAINS = 12,
    LENGTH = 9, /* blocks of a chain */
    HOLDERS = 6,
    SPACES = 2,
    GROUPS = 1500,
    CHANGES_MAX = 24, /* of a group */
    FILTER_BYTES = 1 << 20,
    PASS_ROWS = 40, /* a pass takes several commits */
    PASSES = 2,     /* one may be under way */
};

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_evicted *cold;
    struct advisor_event_log *log;
    uint64_t random;
    uint32_t held[SPACES][CHAINS][LENGTH][HOLDERS]; /* shards */
    uint32_t ram[SPACES][CHAINS][LENGTH][HOLDERS];
    uint32_t seen_cold; /* states that must have been there */
    uint32_t seen_both;
    uint32_t seen_void;
    uint32_t seen_failed;
    uint32_t seen_restart;
};

static uint64_t
hash_of(uint32_t chain, uint32_t at)
{
    uint64_t state = (uint64_t)chain * LENGTH + at;

    return kvt_random_next(&state);
}

static void
fill(uint32_t chain, uint64_t hashes[LENGTH])
{
    for (uint32_t i = 0; i < LENGTH; i++)
        hashes[i] = hash_of(chain, i);
}

/* Block of a hash. */
static void
find(uint64_t hash, uint32_t *chain, uint32_t *at)
{
    for (*chain = 0; *chain < CHAINS; (*chain)++)
        for (*at = 0; *at < LENGTH; (*at)++)
            if (hash_of(*chain, *at) == hash)
                return;
    fail();
}

static uint32_t
below(struct scene *scene, uint32_t bound)
{
    return (uint32_t)kvt_random_below(&scene->random, bound);
}

static void
open_cold(struct scene *scene)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_evicted_new(&scene->cold, FILTER_BYTES), KVT_OK);
    advisor_evicted_pass_rows(scene->cold, PASS_ROWS);
    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_evicted_load(scene->cold, &txn, NULL), KVT_OK);
    advisor_store_end(&txn);
}

static void
begin(struct scene *scene)
{
    struct advisor_store_options options = {.map_bytes = 64u << 20};
    struct kvt_error err;

    memset(scene, 0, sizeof(*scene));
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, &err), KVT_OK);
    assert_int_equal(advisor_event_log_new(&scene->log), KVT_OK);
    scene->random = test_seed();
    open_cold(scene);
}

static void
end(struct scene *scene)
{
    advisor_evicted_free(scene->cold);
    advisor_event_log_free(scene->log);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
}

/* ---- a group ---- */

/* A piece of a chain, with whom RAM has for it. */
static void
evict(struct scene *scene)
{
    const uint32_t ns = below(scene, SPACES);
    const uint32_t chain = below(scene, CHAINS);
    const uint32_t from = below(scene, LENGTH);
    const uint32_t count = 1 + below(scene, LENGTH - from);
    struct index_held held[HOLDERS * LENGTH];
    uint64_t hashes[LENGTH];
    struct index_run_view run = {.hashes = hashes + from,
                                 .tokens = chain % 2 == 0 ? hashes + from : NULL,
                                 .held = held,
                                 .parent = from == 0 ? 0 : hash_of(chain, from - 1),
                                 .size = 100 + chain,
                                 .position = from,
                                 .count = count,
                                 .ns = ns};

    fill(chain, hashes);
    for (uint32_t h = 0; h < HOLDERS; h++)
        for (uint32_t i = 0; i < count; i++)
            if (scene->ram[ns][chain][from + i][h] != 0)
                held[run.held_count++] =
                    (struct index_held){h, scene->ram[ns][chain][from + i][h], i, 1};
    assert_int_equal(advisor_evicted_evict(scene->cold, scene->log, &run), KVT_OK);
    /* So that it is not evicted twice in a group: RAM follows below. */
    for (uint32_t i = from; i < from + count; i++)
        memset(scene->ram[ns][chain][i], 0, sizeof(scene->ram[ns][chain][i]));
}

static void
store(struct scene *scene)
{
    const uint32_t chain = below(scene, CHAINS);
    const uint32_t from = below(scene, LENGTH);
    const uint32_t count = 1 + below(scene, LENGTH - from);
    const struct advisor_event_log_place place = {.holder = below(scene, HOLDERS),
                                                  .ns = below(scene, SPACES),
                                                  .ranks = 1 + below(scene, 3),
                                                  .size = 100 + chain};
    uint64_t hashes[LENGTH];

    fill(chain, hashes);
    assert_int_equal(advisor_event_log_store(scene->log, &place, from == 0 ? 0 : hashes[from - 1],
                                             from, hashes + from, NULL, count),
                     KVT_OK);
    for (uint32_t i = from; i < from + count; i++)
        scene->held[place.ns][chain][i][place.holder] |= place.ranks;
}

static void
take(struct scene *scene)
{
    const struct advisor_event_log_place place = {
        .holder = below(scene, HOLDERS), .ns = below(scene, SPACES), .ranks = 1 + below(scene, 3)};
    uint64_t hashes[LENGTH];
    const uint32_t count = 1 + below(scene, LENGTH);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t chain = below(scene, CHAINS);
        const uint32_t at = below(scene, LENGTH);

        hashes[i] = hash_of(chain, at);
        scene->held[place.ns][chain][at][place.holder] &= ~place.ranks;
    }
    assert_int_equal(advisor_event_log_remove(scene->log, &place, hashes, count), KVT_OK);
}

static void
drop(struct scene *scene)
{
    const uint32_t holder = below(scene, HOLDERS);
    const uint32_t ns = below(scene, SPACES);

    assert_int_equal(advisor_event_log_drop(scene->log, holder, ns), KVT_OK);
    for (uint32_t chain = 0; chain < CHAINS; chain++)
        for (uint32_t i = 0; i < LENGTH; i++)
            scene->held[ns][chain][i][holder] = 0;
}

/* What the log says, as RAM would follow it. */
static void
follow(struct scene *scene)
{
    const void *bytes;
    size_t size;

    for (size_t row = 0; advisor_event_log_row(scene->log, row, &bytes, &size); row++) {
        struct advisor_event_log_reader reader;
        struct advisor_event_log_op op;

        assert_int_equal(advisor_event_log_open(&reader, bytes, size), KVT_OK);
        while (advisor_event_log_next(&reader, &op) == KVT_OK) {
            const struct advisor_event_log_place *place = &op.place;
            uint32_t chain;
            uint32_t at;

            for (uint32_t i = 0; i < op.count; i++) {
                find(op.hashes[i], &chain, &at);
                if (op.kind == ADVISOR_EVENT_LOG_STORE)
                    scene->ram[place->ns][chain][at][place->holder] |= place->ranks;
                else
                    scene->ram[place->ns][chain][at][place->holder] &= ~place->ranks;
            }
            for (chain = 0; op.kind == ADVISOR_EVENT_LOG_DROP && chain < CHAINS; chain++)
                for (at = 0; at < LENGTH; at++)
                    scene->ram[place->ns][chain][at][place->holder] = 0;
        }
    }
}

static void
write_group(struct scene *scene, bool fails)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_evicted_write(scene->cold, &txn, scene->log), KVT_OK);
    if (fails) {
        advisor_store_end(&txn);
        scene->seen_failed++;
        return;
    }
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    advisor_evicted_saved(scene->cold);
    follow(scene);
    advisor_event_log_clear(scene->log);
}

/* ---- what is known ---- */

static void
check_block(struct scene *scene, const struct advisor_txn *txn, uint32_t ns, uint32_t chain,
            uint32_t at)
{
    struct advisor_store_block block = {0};
    uint32_t held[HOLDERS];
    const uint64_t hash = hash_of(chain, at);
    const enum kvt_err rc = advisor_evicted_get(txn, ns, hash, &block);

    memcpy(held, scene->ram[ns][chain][at], sizeof(held));
    if (rc == KVT_OK) {
        assert_true(advisor_evicted_may_have(scene->cold, ns, hash));
        assert_true(block.place_count > 0);
        assert_true(block.hash == hash && block.ns == ns && block.position == at);
        assert_true(block.parent == (at == 0 ? 0 : hash_of(chain, at - 1)));
        assert_true(block.tokens_hash == (chain % 2 == 0 ? hash : 0));
        assert_int_equal(block.size, 100 + chain);
        scene->seen_cold++;
    } else {
        assert_int_equal(rc, KVT_NOTFOUND);
        assert_int_equal(block.place_count, 0);
    }
    for (uint32_t i = 0; i < block.place_count; i++) {
        assert_true(block.places[i].ranks != 0 && block.places[i].holder < HOLDERS);
        assert_true(advisor_evicted_holds(scene->cold, block.places[i].holder));
        scene->seen_both += held[block.places[i].holder] != 0;
        held[block.places[i].holder] |= block.places[i].ranks;
    }
    assert_memory_equal(held, scene->held[ns][chain][at], sizeof(held));
    advisor_store_block_release(&block);
}

static enum kvt_err
count_block(void *arg, const struct advisor_store_block *block)
{
    uint32_t *count = arg;

    assert_true(block->place_count > 0);
    (*count)++;
    return KVT_OK;
}

static void
check(struct scene *scene)
{
    uint32_t rows = 0;
    uint32_t walked = 0;
    uint64_t next = 0;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    for (uint32_t ns = 0; ns < SPACES; ns++)
        for (uint32_t chain = 0; chain < CHAINS; chain++)
            for (uint32_t at = 0; at < LENGTH; at++) {
                const uint32_t before = scene->seen_cold;

                check_block(scene, &txn, ns, chain, at);
                rows += scene->seen_cold - before;
            }
    do
        assert_int_equal(advisor_evicted_blocks(&txn, next, 7, &next, count_block, &walked),
                         KVT_OK);
    while (next != 0);
    assert_int_equal(walked, rows);
    assert_true(advisor_evicted_count(scene->cold) >= rows);
    assert_int_equal(advisor_evicted_count(scene->cold), advisor_store_evicted_count(&txn));
    scene->seen_void += advisor_evicted_count(scene->cold) > rows;
    advisor_store_end(&txn);
}

static void
restart(struct scene *scene)
{
    advisor_evicted_free(scene->cold);
    open_cold(scene);
    scene->seen_restart++;
}

/* The pass has gone by: what is void is not there any more. */
static void
check_swept(struct scene *scene)
{
    struct advisor_txn txn;

    for (int i = 0; i < PASSES * (SPACES * CHAINS * LENGTH / PASS_ROWS + 1); i++)
        write_group(scene, false);
    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_evicted_drop_count(&txn), 0);
    advisor_store_end(&txn);
    check(scene);
}

static void
answers_are_the_models(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint32_t group = 0; group < GROUPS; group++) {
        for (uint32_t i = below(&scene, 4); i > 0; i--)
            evict(&scene);
        for (uint32_t i = below(&scene, CHANGES_MAX); i > 0; i--) {
            const uint32_t kind = below(&scene, 20);

            if (kind == 0)
                drop(&scene);
            else if (kind < 12)
                store(&scene);
            else
                take(&scene);
        }
        for (uint32_t i = below(&scene, 12); i > 9; i--)
            write_group(&scene, true);
        write_group(&scene, false);
        check(&scene);
        if (below(&scene, 50) == 0)
            restart(&scene);
        if (below(&scene, 50) == 0)
            check_swept(&scene);
    }
    assert_true(scene.seen_cold > 0 && scene.seen_both > 0 && scene.seen_void > 0);
    assert_true(scene.seen_failed > 0 && scene.seen_restart > 0);
    end(&scene);
}

/* A holder's number is free for another once nothing is under it, void places included. */
static void
numbers_stay_until_nothing_is_here(void **state)
{
    const uint64_t hash = 77;
    const struct index_held held = {.holder = 3, .ranks = 1, .from = 0, .count = 1};
    const struct index_run_view run = {
        .hashes = &hash, .held = &held, .held_count = 1, .count = 1, .size = 1};
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_false(advisor_evicted_holds(scene.cold, 3));
    assert_int_equal(advisor_evicted_evict(scene.cold, scene.log, &run), KVT_OK);
    assert_true(advisor_evicted_may_have(scene.cold, 0, hash));
    assert_int_equal(advisor_event_log_count(scene.log), 1);
    {
        struct advisor_txn txn;
        struct advisor_store_block block = {0};

        assert_int_equal(advisor_store_write(scene.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_evicted_write(scene.cold, &txn, scene.log), KVT_OK);
        assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
        advisor_evicted_saved(scene.cold);
        advisor_event_log_clear(scene.log);
        assert_true(advisor_evicted_holds(scene.cold, 3));
        assert_int_equal(advisor_event_log_drop(scene.log, 3, 0), KVT_OK);
        assert_int_equal(advisor_store_write(scene.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_evicted_write(scene.cold, &txn, scene.log), KVT_OK);
        /* The pass came by at once, as there is one row only. */
        assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
        advisor_evicted_saved(scene.cold);
        assert_int_equal(advisor_store_read(scene.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_evicted_get(&txn, 0, hash, &block), KVT_NOTFOUND);
        advisor_store_end(&txn);
    }
    assert_false(advisor_evicted_holds(scene.cold, 3));
    assert_int_equal(advisor_evicted_count(scene.cold), 0);
    assert_false(advisor_evicted_may_have(scene.cold, 0, hash));
    end(&scene);
}

/* ---- collisions ---- */

/* How many changes of a kind the log has of a block at a holder. */
static uint32_t
count_changes(const struct advisor_event_log *log, enum advisor_event_log_kind kind,
              uint32_t holder, uint64_t hash)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *bytes;
    uint32_t found = 0;
    size_t size;

    for (size_t row = 0; advisor_event_log_row(log, row, &bytes, &size); row++) {
        assert_int_equal(advisor_event_log_open(&reader, bytes, size), KVT_OK);
        while (advisor_event_log_next(&reader, &op) == KVT_OK)
            for (uint32_t i = 0; i < op.count; i++)
                found += op.kind == kind && op.place.holder == holder && op.hashes[i] == hash;
    }
    return found;
}

static void
evict_one(struct scene *scene, uint32_t holder, uint64_t hash, uint64_t parent, uint32_t position)
{
    const struct index_held held = {.holder = holder, .ranks = 1, .from = 0, .count = 1};
    const struct index_run_view run = {.hashes = &hash,
                                       .held = &held,
                                       .held_count = 1,
                                       .count = 1,
                                       .size = 1,
                                       .parent = parent,
                                       .position = position};

    assert_int_equal(advisor_evicted_evict(scene->cold, scene->log, &run), KVT_OK);
}

static void
store_two(struct scene *scene, uint32_t holder, uint64_t parent, uint32_t position)
{
    const struct advisor_event_log_place place = {.holder = holder, .ranks = 3, .size = 1};
    const uint64_t hashes[] = {77, 78};

    assert_int_equal(advisor_event_log_store(scene->log, &place, parent, position, hashes, NULL, 2),
                     KVT_OK);
}

/* As if it was the `attempt`th time, and the last one is committed. */
static void
write_collisions(struct scene *scene, int attempts, uint32_t expected)
{
    struct advisor_txn txn;

    for (int attempt = 1; attempt <= attempts; attempt++) {
        assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_evicted_write(scene->cold, &txn, scene->log), KVT_OK);
        assert_int_equal(advisor_evicted_collisions(scene->cold), expected);
        if (attempt < attempts)
            advisor_store_end(&txn);
        else
            assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    }
    advisor_evicted_saved(scene->cold);
}

/* A store that says another parent of a block that is here does not come; what the same holder
 * stores rightly, before or behind it, does, and so do the blocks behind that one. */
static void
collisions_are_left_out(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    evict_one(&scene, 3, 77, 76, 5);
    store_two(&scene, 4, 76, 5);
    store_two(&scene, 4, 0, 4); /* it does not say which */
    store_two(&scene, 4, 75, 5);
    store_two(&scene, 5, 76, 6);
    store_two(&scene, 4, 76, 5);
    write_collisions(&scene, 3, 2);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_REMOVE, 3, 77), 1);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_REMOVE, 4, 77), 0);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 4, 77), 3);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 4, 78), 4);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 5, 77), 0);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 5, 78), 1);
    advisor_event_log_clear(scene.log);
    store_two(&scene, 4, 76, 5);
    write_collisions(&scene, 1, 0); /* it counts once */
    end(&scene);
}

/* What the same group drops is no reason to refuse what comes behind that, but in front of it. */
static void
what_is_dropped_does_not_collide(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    evict_one(&scene, 3, 77, 76, 5);
    store_two(&scene, 4, 75, 5);
    assert_int_equal(advisor_event_log_drop(scene.log, 3, 1), KVT_OK); /* of another namespace */
    store_two(&scene, 5, 75, 5);
    assert_int_equal(advisor_event_log_drop(scene.log, 3, 0), KVT_OK);
    store_two(&scene, 6, 75, 5);
    assert_int_equal(advisor_event_log_drop(scene.log, 3, 0), KVT_OK); /* the first one counts */
    assert_int_equal(advisor_event_log_drop(scene.log, 2, 0), KVT_OK);
    write_collisions(&scene, 2, 2);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 4, 77), 0);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 5, 77), 0);
    assert_int_equal(count_changes(scene.log, ADVISOR_EVENT_LOG_STORE, 6, 77), 1);
    end(&scene);
}

static void
a_start_can_be_stopped(void **state)
{
    _Atomic bool cancel = true;
    struct advisor_evicted *cold;
    struct advisor_txn txn;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_read(scene.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_evicted_new(&cold, FILTER_BYTES), KVT_OK);
    assert_int_equal(advisor_evicted_load(cold, &txn, &cancel), KVT_CANCELLED);
    advisor_evicted_free(cold);
    atomic_store(&cancel, false);
    assert_int_equal(advisor_evicted_new(&cold, FILTER_BYTES), KVT_OK);
    assert_int_equal(advisor_evicted_load(cold, &txn, &cancel), KVT_OK);
    advisor_evicted_free(cold);
    advisor_store_end(&txn);
    end(&scene);
}

/* ---- the filter ---- */

static bool
has(struct advisor_evicted_filter *filter, uint32_t ns, uint64_t hash)
{
    bool one;

    return advisor_evicted_filter_has(filter, ns, &hash, 1, &one);
}

static void
the_filter_is_what_was_added(void **state)
{
    enum { HASHES = 20000, STEPS = 200000, STRANGERS = 100000 };
    static uint8_t times[HASHES];
    struct advisor_evicted_filter *filter;
    uint64_t random = test_seed();
    size_t strange = 0;

    (void)state;
    memset(times, 0, sizeof(times));
    assert_int_equal(advisor_evicted_filter_new(&filter, FILTER_BYTES), KVT_OK);
    assert_false(has(filter, 0, 1));
    for (int step = 0; step < STEPS; step++) {
        const uint64_t hash = kvt_random_below(&random, HASHES);
        const uint32_t print = advisor_evicted_filter_print(filter, (uint32_t)hash % 3, hash);

        if (times[hash] > 0 && (times[hash] == 3 || kvt_random_below(&random, 2) == 0)) {
            advisor_evicted_filter_remove(filter, &print, 1);
            times[hash]--;
        } else {
            advisor_evicted_filter_add(filter, &print, 1);
            times[hash]++;
        }
        assert_true(times[hash] == 0 || has(filter, (uint32_t)hash % 3, hash));
    }
    for (uint64_t hash = 0; hash < HASHES; hash++) {
        const uint32_t print = advisor_evicted_filter_print(filter, (uint32_t)hash % 3, hash);

        assert_true(times[hash] == 0 || has(filter, (uint32_t)hash % 3, hash));
        for (; times[hash] > 0; times[hash]--)
            advisor_evicted_filter_remove(filter, &print, 1);
    }
    for (uint64_t hash = 0; hash < STRANGERS; hash++)
        strange += has(filter, 0, hash);
    assert_int_equal(strange, 0); /* nothing is left of what came and went */
    assert_false(advisor_evicted_filter_blind(filter));
    advisor_evicted_filter_free(filter);
}

static void
a_full_filter_is_blind(void **state)
{
    enum { SLOTS = 4096 };
    struct advisor_evicted_filter *filter;

    (void)state;
    assert_int_equal(advisor_evicted_filter_new(&filter, SLOTS * sizeof(uint32_t)), KVT_OK);
    for (uint64_t hash = 0; hash < SLOTS; hash++) {
        const uint32_t print = advisor_evicted_filter_print(filter, 0, hash);

        assert_int_equal(advisor_evicted_filter_blind(filter), hash > SLOTS * 7 / 8);
        advisor_evicted_filter_add(filter, &print, 1);
        assert_true(has(filter, 0, hash));
    }
    assert_true(has(filter, 0, SLOTS + 1)); /* for all it knows */
    advisor_evicted_filter_free(filter);
}

static bool
make_all(void *arg)
{
    const struct advisor_txn *txn = arg;
    struct advisor_evicted *cold;
    enum kvt_err rc = advisor_evicted_new(&cold, FILTER_BYTES);

    if (rc == KVT_OK)
        rc = advisor_evicted_load(cold, txn, NULL);
    advisor_evicted_free(cold);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    return rc == KVT_OK;
}

static void
without_memory_it_says_so(void **state)
{
    struct advisor_txn txn;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_read(scene.store, &txn, NULL), KVT_OK);
    assert_true(test_sweep_allocations(make_all, &txn) >= 3);
    advisor_store_end(&txn);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_models),
        cmocka_unit_test(numbers_stay_until_nothing_is_here),
        cmocka_unit_test(collisions_are_left_out),
        cmocka_unit_test(what_is_dropped_does_not_collide),
        cmocka_unit_test(a_start_can_be_stopped),
        cmocka_unit_test(the_filter_is_what_was_added),
        cmocka_unit_test(a_full_filter_is_blind),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
