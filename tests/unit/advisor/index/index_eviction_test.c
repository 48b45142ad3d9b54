/*
 * What is tested: an advisor that is fed more blocks than fit in RAM
 * (advisor/index/index_eviction.h, cold.h, and find.h over both): every answer is that of a naive
 * model, whatever went where; also after restarts, and when holders' numbers go to others.
 * How: random batches of some workers with lives and tiers, in which most of what is known is
 * evicted; questions about random sequences in between, and about all of them at the end.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/index/evicted.h"
#include "advisor/index/ram_snapshot.h"
#include "advisor/round/round_private.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

#ifdef __SANITIZE_THREAD__
enum { BATCHES = 5000, STRANGERS = 2000 }; /* fifteen times slower */
#elif defined(__SANITIZE_ADDRESS__)
enum { BATCHES = 12000, STRANGERS = 3000 };
#else
enum { BATCHES = 30000, STRANGERS = 6000 };
#endif

enum {
    CHAINS = 20000,
    LENGTH = 64,
    FAMILY = 4, /* chains that have their first half in common */
    WORKERS = 6,
    TIERS = 2,
    HOLDERS = WORKERS * TIERS,
    HOLDERS_MAX = 18, /* numbers: those of workers that left are used again */
    TOGETHER = 20,    /* batches until questions are asked */
    QUESTIONS = 12,
    RESTART_EVERY = BATCHES / 5,
    LIFE_EVERY = BATCHES / 12,
    FILLING = BATCHES / 5,  /* of them first: nothing is removed, so that most is evicted */
    SEQUENCE = 59,          /* of what may be in a batch */
    INDEX_BYTES = 11 << 18, /* of the smallest index.max */
    COLD_BYTES = 1 << 20,
    RANKS_MAX = 3,
};

struct scene {
    char folder[256];
    struct test_rig rig;
    uint64_t random;
    uint64_t time_ms;
    uint64_t seq[WORKERS];
    uint64_t incarnation[WORKERS];
    uint32_t life[WORKERS]; /* of its name */
    uint8_t held[HOLDERS][CHAINS][LENGTH];
    struct kvt_event events[LENGTH];
    struct kvt_event_batch batch;
    uint32_t answers_cold; /* with a block that is not in RAM */
    uint32_t renamed;
    uint64_t cold_most;
};

static const enum kvt_tier tiers[TIERS] = {KVT_TIER_G1, KVT_TIER_G3};

static uint32_t
below(struct scene *scene, uint32_t bound)
{
    return (uint32_t)kvt_random_below(&scene->random, bound);
}

/* Chains of a family are one up to their middle: the chain a block counts for. */
static uint32_t
owner(uint32_t chain, uint32_t at)
{
    return at < LENGTH / 2 ? chain - chain % FAMILY : chain;
}

static uint64_t
hash_of(uint32_t chain, uint32_t at)
{
    uint64_t state = (uint64_t)owner(chain, at) * LENGTH + at;

    return kvt_random_next(&state);
}

static uint8_t *
held(struct scene *scene, uint32_t holder, uint32_t chain, uint32_t at)
{
    return &scene->held[holder][owner(chain, at)][at];
}

static void
name_of(const struct scene *scene, uint32_t worker, char name[KVT_NAME_MAX])
{
    (void)snprintf(name, KVT_NAME_MAX, "w%u.%u", worker, scene->life[worker]);
}

static void
open_rig(struct scene *scene)
{
    const struct test_rig_options options = {.path = scene->folder,
                                             .mode = ADVISOR_MODE_OFF,
                                             .map_bytes = 256u << 20,
                                             .index_bytes = INDEX_BYTES,
                                             .cold_bytes = COLD_BYTES,
                                             .holders_max = HOLDERS_MAX};

    test_rig_open(&scene->rig, &options);
    test_rig_run(&scene->rig);
}

/* ---- batches ---- */

static void
start_batch(struct scene *scene, uint32_t worker)
{
    struct kvt_event_batch *batch = &scene->batch;

    scene->time_ms += 500;
    *batch = (struct kvt_event_batch){.incarnation = scene->incarnation[worker],
                                      .first_seq = scene->seq[worker],
                                      .time_ms = scene->time_ms,
                                      .namespace_ = "ns",
                                      .location_count = TIERS,
                                      .events = scene->events};
    name_of(scene, worker, batch->worker);
    for (uint32_t i = 0; i < TIERS; i++)
        batch->locations[i].tier = tiers[i];
}

static void
add_block(struct scene *scene, uint32_t worker, uint32_t tier, uint32_t chain, uint32_t at,
          bool store, uint32_t ranks)
{
    uint8_t *have = held(scene, worker * TIERS + tier, chain, at);

    scene->events[scene->batch.event_count++] =
        (struct kvt_event){.type = store ? KVT_EVENT_STORE : KVT_EVENT_REMOVE,
                           .sequence_hash = hash_of(chain, at),
                           .parent = at == 0 ? 0 : hash_of(chain, at - 1),
                           .position = at,
                           .block_size = 1000 + at,
                           .ranks = ranks,
                           .location = (uint16_t)tier};
    *have = (uint8_t)(store ? *have | ranks : *have & ~ranks);
}

static void
add_sequence(struct scene *scene, uint32_t worker)
{
    const uint32_t chain = below(scene, CHAINS);
    const uint32_t tier = below(scene, TIERS);
    const uint32_t from = below(scene, 3) == 0 ? below(scene, LENGTH) : 0;
    const uint32_t to =
        from == 0 ? LENGTH - below(scene, LENGTH / 4) : from + 1 + below(scene, LENGTH - from);
    const uint32_t ranks = 1 + below(scene, RANKS_MAX);

    for (uint32_t at = from; at < to; at++)
        add_block(scene, worker, tier, chain, at, true, ranks);
}

/* The end of a sequence, from its end; or any blocks. */
static void
add_removes(struct scene *scene, uint32_t worker)
{
    const bool end = below(scene, 2) == 0;
    const uint32_t tier = below(scene, TIERS);
    const uint32_t count = 1 + below(scene, LENGTH);
    const uint32_t ranks = 1 + below(scene, RANKS_MAX);
    const uint32_t chain = below(scene, CHAINS);

    for (uint32_t i = 0; i < count; i++)
        add_block(scene, worker, tier, end ? chain : below(scene, CHAINS),
                  end ? LENGTH - 1 - i : below(scene, LENGTH), false, ranks);
}

static void
forget(struct scene *scene, uint32_t worker, uint32_t tier)
{
    memset(scene->held[worker * TIERS + tier], 0, sizeof(scene->held[0]));
}

static void
add_clear(struct scene *scene, uint32_t worker)
{
    const uint32_t tier = below(scene, TIERS);

    scene->events[scene->batch.event_count++] =
        (struct kvt_event){.type = KVT_EVENT_CLEAR, .location = (uint16_t)tier, .ranks = 1};
    forget(scene, worker, tier);
}

/* It leaves, and another comes in its stead; or it begins anew. */
static void
end_life(struct scene *scene, uint32_t worker, bool leaves)
{
    for (uint32_t tier = 0; tier < TIERS; tier++)
        forget(scene, worker, tier);
    if (leaves) {
        start_batch(scene, worker);
        scene->events[scene->batch.event_count++] =
            (struct kvt_event){.type = KVT_EVENT_BYE, .ranks = 1};
        test_rig_batch(&scene->rig, 0, &scene->batch);
        scene->life[worker]++;
        scene->renamed++;
    }
    scene->incarnation[worker]++;
    scene->seq[worker] = 1;
}

static void
next_batch(struct scene *scene, uint32_t number)
{
    const uint32_t worker = below(scene, WORKERS);

    if (number % LIFE_EVERY == 0)
        end_life(scene, worker, number / LIFE_EVERY % 2 == 0);
    start_batch(scene, worker);
    switch (number < FILLING ? SEQUENCE : below(scene, 60)) {
    case 0: add_clear(scene, worker); break;
    case 1 ... 6: add_removes(scene, worker); break;
    default: add_sequence(scene, worker); break;
    }
    scene->seq[worker] += scene->batch.event_count;
    test_rig_batch(&scene->rig, 0, &scene->batch);
}

/* ---- answers ---- */

static uint32_t
holder_of(const struct scene *scene, const char *name, enum kvt_tier tier)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        char wanted[KVT_NAME_MAX];

        name_of(scene, worker, wanted);
        if (strcmp(wanted, name) == 0)
            return worker * TIERS + (tier == tiers[1] ? 1 : 0);
    }
    fail_msg("%s holds nothing any more", name);
    return 0;
}

static void
check_prefixes(struct scene *scene, uint32_t chain, const uint64_t hashes[LENGTH])
{
    const struct wire_query query = {
        .namespace_ = "ns", .hashes = (uint64_t *)(uintptr_t)hashes, .hash_count = LENGTH};
    struct wire_query_holder holders[HOLDERS + 1];
    uint32_t length[HOLDERS] = {0};
    size_t expected = 0;
    size_t count;

    assert_int_equal(
        advisor_finder_matches(&scene->rig.finder, &query, holders, HOLDERS + 1, &count), KVT_OK);
    for (uint32_t h = 0; h < HOLDERS; h++) {
        while (length[h] < LENGTH && *held(scene, h, chain, length[h]) != 0)
            length[h]++;
        expected += length[h] > 0;
    }
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(holders[i].blocks,
                         length[holder_of(scene, holders[i].name, holders[i].tier)]);
        assert_true(i == 0 || holders[i - 1].blocks >= holders[i].blocks);
    }
}

static void
check_masks(struct scene *scene, uint32_t chain, const uint64_t hashes[LENGTH])
{
    uint8_t masks[LENGTH];

    assert_int_equal(advisor_finder_masks(&scene->rig.finder, "ns", hashes, LENGTH, masks), KVT_OK);
    for (uint32_t at = 0; at < LENGTH; at++) {
        uint8_t mask = 0;

        for (uint32_t h = 0; h < HOLDERS; h++)
            if (*held(scene, h, chain, at) != 0)
                mask |= (uint8_t)KVT_TIER_MASK(tiers[h % TIERS]);
        assert_int_equal(masks[at], mask);
    }
}

static void
check_block(struct scene *scene, uint32_t chain, uint32_t at)
{
    static struct advisor_finder_block block;
    struct advisor_store_block cold = {0};
    const uint64_t hash = hash_of(chain, at);
    uint32_t places = 0;
    enum kvt_err rc = advisor_finder_block(&scene->rig.finder, "ns", hash, &block);

    for (uint32_t h = 0; h < HOLDERS; h++)
        places += *held(scene, h, chain, at) != 0;
    assert_int_equal(rc, places == 0 ? KVT_NOTFOUND : KVT_OK);
    assert_int_equal(block.place_count, places);
    for (uint32_t i = 0; i < places; i++)
        assert_int_equal(
            block.places[i].ranks,
            *held(scene, holder_of(scene, block.places[i].holder.name, block.places[i].holder.tier),
                  chain, at));
    if (places > 0) {
        struct advisor_txn txn;

        assert_true(block.id.hash == hash && block.id.position == at);
        assert_true(block.id.parent == (at == 0 ? 0 : hash_of(chain, at - 1)));
        assert_int_equal(block.size, 1000 + at);
        assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
        scene->answers_cold += advisor_evicted_get(&txn, 0, hash, &cold) == KVT_OK;
        advisor_store_end(&txn);
        advisor_store_block_release(&cold);
    }
}

/* Any block of the chain; or the next behind it that somebody has, for few of all are held. */
static uint32_t
some_block(struct scene *scene, uint32_t chain)
{
    const uint32_t from = below(scene, LENGTH);

    if (below(scene, 2) == 0)
        return from;
    for (uint32_t i = 0; i < LENGTH; i++)
        for (uint32_t h = 0; h < HOLDERS; h++)
            if (*held(scene, h, chain, (from + i) % LENGTH) != 0)
                return (from + i) % LENGTH;
    return from;
}

static void
check_chain(struct scene *scene, uint32_t chain)
{
    uint64_t hashes[LENGTH];

    for (uint32_t at = 0; at < LENGTH; at++)
        hashes[at] = hash_of(chain, at);
    check_prefixes(scene, chain, hashes);
    check_masks(scene, chain, hashes);
    check_block(scene, chain, some_block(scene, chain));
}

static void
check_health(struct scene *scene)
{
    struct advisor_ram_index *memory = advisor_round_memory(scene->rig.engine);

    assert_true(advisor_ram_index_whole(memory)); /* nothing ever failed to fit */
    assert_int_equal(test_rig_value(scene->rig.counters.collisions), 0);
    assert_int_equal(test_rig_value(scene->rig.counters.refused), 0);
    if (advisor_evicted_count(memory->cold) > scene->cold_most)
        scene->cold_most = advisor_evicted_count(memory->cold);
}

static void
answers_stay_right_above_the_bound(void **state)
{
    static struct scene scene;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    (void)test_folder_make(scene.folder, sizeof(scene.folder));
    scene.random = test_seed();
    scene.time_ms = 1000000;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        scene.seq[worker] = scene.incarnation[worker] = 1;
    open_rig(&scene);
    for (uint32_t batch = 1; batch <= BATCHES; batch++) {
        next_batch(&scene, batch);
        if (batch % TOGETHER == 0) {
            test_rig_run(&scene.rig);
            check_health(&scene);
            for (int i = 0; i < QUESTIONS; i++)
                check_chain(&scene, below(&scene, CHAINS));
        }
        if (batch % RESTART_EVERY == 0) {
            test_rig_close(&scene.rig);
            open_rig(&scene);
        }
    }
    for (uint32_t chain = 0; chain < CHAINS; chain++)
        check_chain(&scene, chain);
    print_message("at most %llu blocks were cold; %u of %u answers had some; %u workers came\n",
                  (unsigned long long)scene.cold_most, scene.answers_cold,
                  BATCHES / TOGETHER * QUESTIONS, scene.renamed);
    assert_true(scene.cold_most > CHAINS / 2 && scene.answers_cold > QUESTIONS);
    assert_true(WORKERS * TIERS + scene.renamed * TIERS > HOLDERS_MAX);
    test_rig_close(&scene.rig);
    test_folder_remove(scene.folder);
}

/* ---- beside the engine ---- */

enum { KEPT = 50 };

struct reader {
    const struct advisor_finder *finder;
    _Atomic bool stop;
    uint64_t asked;
    uint64_t wrong;
};

/* Sequences that are never removed are there at every instant. */
static void *
ask(void *arg)
{
    struct reader *reader = arg;
    uint64_t hashes[LENGTH];
    const struct wire_query query = {.namespace_ = "ns", .hashes = hashes, .hash_count = LENGTH};

    while (!atomic_load(&reader->stop)) {
        const uint32_t chain = (uint32_t)(reader->asked++ % KEPT) * FAMILY;
        struct wire_query_holder holder;
        size_t count;

        for (uint32_t at = 0; at < LENGTH; at++)
            hashes[at] = hash_of(chain, at);
        if (advisor_finder_matches(reader->finder, &query, &holder, 1, &count) != KVT_OK ||
            count != 1 || holder.blocks != LENGTH)
            reader->wrong++;
    }
    return NULL;
}

static void
store_chain(struct scene *scene, uint32_t worker, uint32_t chain)
{
    start_batch(scene, worker);
    for (uint32_t at = 0; at < LENGTH; at++)
        add_block(scene, worker, 0, chain, at, true, 1);
    scene->seq[worker] += LENGTH;
    test_rig_batch(&scene->rig, 0, &scene->batch);
}

static void
what_is_being_evicted_is_found(void **state)
{
    static struct scene scene;
    struct reader reader = {.finder = &scene.rig.finder};
    pthread_t thread;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    (void)test_folder_make(scene.folder, sizeof(scene.folder));
    scene.time_ms = 1000000;
    scene.seq[0] = scene.seq[1] = scene.incarnation[0] = scene.incarnation[1] = 1;
    open_rig(&scene);
    for (uint32_t i = 0; i < KEPT; i++)
        store_chain(&scene, 0, i * FAMILY);
    test_rig_run(&scene.rig);
    assert_int_equal(pthread_create(&thread, NULL, ask, &reader), 0);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        store_chain(&scene, 1, KEPT * FAMILY + i);
        /* Those that were evicted come back, and go again. */
        if (i % 5 == 0)
            store_chain(&scene, 0, i / 5 % KEPT * FAMILY);
        if (i % TOGETHER == 0)
            test_rig_run(&scene.rig);
    }
    test_rig_run(&scene.rig);
    atomic_store(&reader.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(advisor_evicted_count(advisor_round_memory(scene.rig.engine)->cold) > LENGTH);
    assert_true(reader.asked > KEPT);
    assert_int_equal(reader.wrong, 0);
    test_rig_close(&scene.rig);
    test_folder_remove(scene.folder);
}

/* ---- an index that is full ---- */

enum {
    FULL_BYTES = 8 << 20, /* of the index */
    FULL_COLD = 4 << 20,
    FULL_BLOCKS = 2000, /* a batch */
    FULL_LENGTH = 200,  /* of its longest sequence */
    FULL_WORKERS = 16,
    FULL_BATCHES = 10, /* until it starts again */
    FULL_STARTS = 14,
};

struct full {
    const char *folder;
    struct test_rig rig;
    uint64_t random;
    uint64_t batches;
    struct kvt_event events[FULL_BLOCKS];
};

static void
open_full(struct full *full, uint64_t bytes)
{
    const struct test_rig_options options = {.path = full->folder,
                                             .mode = ADVISOR_MODE_OFF,
                                             .map_bytes = 256u << 20,
                                             .index_bytes = bytes,
                                             .cold_bytes = FULL_COLD};

    test_rig_open(&full->rig, &options);
    advisor_ram_snapshot_sizes(full->rig.engine->snapshot, 1u << 20, 32u << 10);
}

static void
make_full(struct full *full)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < FULL_BLOCKS; i++, left--) {
        struct kvt_event *event = &full->events[i];
        const bool root = left == 0;

        if (root)
            left = 1 + (uint32_t)kvt_random_below(&full->random, FULL_LENGTH);
        *event = (struct kvt_event){.type = KVT_EVENT_STORE,
                                    .sequence_hash = kvt_random_next(&full->random) | 1,
                                    .tokens_hash = kvt_random_next(&full->random),
                                    .parent = root ? 0 : event[-1].sequence_hash,
                                    .position = root ? 0 : event[-1].position + 1,
                                    .block_size = 9,
                                    .ranks = 1};
    }
}

static void
send_more(struct full *full)
{
    const uint64_t number = full->batches++;
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = 1 + number / FULL_WORKERS * FULL_BLOCKS,
                                    .time_ms = 1000000 + number * 1000,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2}},
                                    .events = full->events,
                                    .event_count = FULL_BLOCKS};

    (void)snprintf(batch.worker, sizeof(batch.worker), "w%u", (unsigned)(number % FULL_WORKERS));
    make_full(full);
    test_rig_batch(&full->rig, 0, &batch);
}

static void
send_full(struct full *full)
{
    send_more(full);
    for (int step = 0; step < 3; step++)
        advisor_round_step(full->rig.engine, 0);
}

static void
a_full_index_starts_again(void **state)
{
    static struct full full;
    char folder[256];
    struct index_stats stats;

    (void)state;
    full.folder = test_folder_make(folder, sizeof(folder));
    full.random = test_seed();
    open_full(&full, FULL_BYTES);
    for (int start = 0; start < FULL_STARTS; start++) {
        for (int i = 0; i < FULL_BATCHES; i++)
            send_full(&full);
        test_rig_run(&full.rig);
        assert_true(advisor_ram_index_whole(full.rig.finder.memory));
        test_rig_close(&full.rig);
        open_full(&full, FULL_BYTES);
        assert_true(advisor_ram_index_whole(full.rig.finder.memory));
        index_stats(full.rig.index, &stats);
        assert_int_equal(stats.bytes_max, FULL_BYTES);
    }
    assert_true(advisor_evicted_count(full.rig.finder.memory->cold) > FULL_BLOCKS);
    /* One that has less is above its ceiling until some of it is evicted. */
    test_rig_close(&full.rig);
    open_full(&full, FULL_BYTES / 16 * 13);
    assert_true(advisor_ram_index_whole(full.rig.finder.memory));
    for (int i = 0; i < FULL_BATCHES; i++)
        send_full(&full);
    test_rig_run(&full.rig);
    assert_true(advisor_ram_index_whole(full.rig.finder.memory));
    test_rig_close(&full.rig);
    test_folder_remove(folder);
}

/* ---- beside a bucket that is emptied ---- */

enum {
    STEPS = 10, /* of a sweep */
    IN_BUCKET = STEPS * ADVISOR_SWEEP_ROWS - 1,
    TO_BUCKET = 2048, /* a batch */
    BESIDE = 7,       /* batches a round that make blocks leave */
};

/* Of a gateway, to or from a bucket; its hashes are numbers in a row. */
static void
send_bucket(struct full *full, const char *gateway, uint64_t seq, enum kvt_event_type type,
            uint64_t first, uint32_t count)
{
    static struct kvt_event events[TO_BUCKET];
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = seq,
                                    .time_ms = 1000000,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G4, .name = "cold@b"}},
                                    .events = events,
                                    .event_count = count};

    assert_true(count <= TO_BUCKET);
    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", gateway);
    for (uint32_t i = 0; i < count; i++)
        events[i] = (struct kvt_event){
            .type = type, .sequence_hash = first + i, .block_size = 9, .ranks = 1};
    test_rig_batch(&full->rig, 0, &batch);
}

static uint64_t
bucket_count(const struct full *full)
{
    const struct index_holder key = {.name = "cold@b", .tier = KVT_TIER_G4};
    uint32_t holder;
    uint64_t blocks;

    assert_int_equal(index_holder(full->rig.index, &key, &holder), KVT_OK);
    index_holder_info(full->rig.index, holder, NULL, &blocks, NULL);
    return blocks;
}

/* Rounds in which a sweep goes on, until it has ended; `evicted` of them evict too. */
static uint32_t
rounds_to_sweep(struct full *full, uint32_t *evicted)
{
    struct advisor_evicted *cold = full->rig.finder.memory->cold;
    uint32_t rounds = 0;

    for (*evicted = 0; advisor_sweeper_busy(full->rig.engine->sweeper); rounds++) {
        const uint64_t before = advisor_evicted_count(cold);

        assert_true(rounds < 100);
        for (int i = 0; i < BESIDE; i++)
            send_more(full);
        advisor_round_step(full->rig.engine, 0);
        *evicted += advisor_evicted_count(cold) > before;
    }
    print_message("%u of %u rounds evicted\n", *evicted, rounds);
    return rounds;
}

/* What another gateway was the last to report stays, and is looked at all the same. */
static void
sweeps_go_on_while_blocks_leave(void **state)
{
    static struct full full;
    char folder[256];
    uint32_t evicted;

    (void)state;
    full.folder = test_folder_make(folder, sizeof(folder));
    full.random = test_seed();
    open_full(&full, FULL_BYTES);
    for (uint64_t first = 1; first < IN_BUCKET; first += TO_BUCKET)
        send_bucket(&full, "other", first, KVT_EVENT_STORE, first,
                    IN_BUCKET - first < TO_BUCKET ? (uint32_t)(IN_BUCKET - first) : TO_BUCKET);
    send_bucket(&full, "g", 1, KVT_EVENT_STORE, IN_BUCKET, 1);
    test_rig_run(&full.rig);
    assert_int_equal(bucket_count(&full), IN_BUCKET);
    while (advisor_evicted_count(full.rig.finder.memory->cold) == 0)
        send_full(&full);
    test_rig_run(&full.rig);
    send_bucket(&full, "g", 2, KVT_EVENT_CLEAR, 0, 1);
    advisor_round_step(full.rig.engine, 0);
    assert_true(advisor_sweeper_busy(full.rig.engine->sweeper));
    assert_int_equal(rounds_to_sweep(&full, &evicted), STEPS);
    assert_int_equal(bucket_count(&full), IN_BUCKET - 1);
    assert_true(evicted > 0);
    test_rig_close(&full.rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_stay_right_above_the_bound),
        cmocka_unit_test(what_is_being_evicted_is_found),
        cmocka_unit_test(a_full_index_starts_again),
        cmocka_unit_test(sweeps_go_on_while_blocks_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
