/*
 * What is tested: advisor/answer/finder.h: memory, memory with what was evicted from it, and the
 * store alone give the same answers.
 * How: a random store.  An image of it is memory; pieces of chains are evicted from it and changes
 * go on; each answer is compared with that of an image made anew, which has everything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/admin/nats_responder.h"
#include "advisor/answer/finder.h"
#include "advisor/index/evicted.h"
#include "advisor/index/index_image.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/cli/index/index_store.h"

enum {
    HOLDERS_MAX = 16,
    PLACES_MAX = 16,
    EVICTIONS = 12, /* pieces of a round */
    ROUNDS = 8,
    FILTER_BYTES = 1 << 20,
    PAST_MAX = 1000,
    READS = 5, /* of the blocks of the first chain, through a gateway */
};

static const char *const spaces[TEST_STORE_NAMESPACES] = {"", "tenant/model", "a \"quoted\" one"};

struct pair {
    struct test_store *store;
    struct advisor_index_image *memory; /* as an advisor has it */
    struct advisor_evicted *cold;
    struct advisor_finder finder;      /* of both */
    struct advisor_index_image *whole; /* what is right */
    struct advisor_finder right;
    uint64_t random;
};

/* The first chain is in G4 too. */
static void
put_g4(const struct test_store *store)
{
    struct advisor_store_block block = {.size = 100, .hits = READS};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(store->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_block_reserve(&block, 1), KVT_OK);
    block.place_count = 1;
    block.places[0] = (struct advisor_store_place){.holder = TEST_STORE_WORKERS, .ranks = 7};
    for (uint32_t i = 0; i < TEST_STORE_CHAIN; i++) {
        const struct advisor_held held = {.hash = test_store_hash(0, i),
                                          .holder = TEST_STORE_WORKERS};

        block.hash = test_store_hash(0, i);
        block.parent = i == 0 ? 0 : test_store_hash(0, i - 1);
        block.position = i;
        assert_int_equal(advisor_store_put_held(&txn, &held), KVT_OK);
        assert_int_equal(advisor_store_put_block(&txn, &block), KVT_OK);
    }
    advisor_store_block_release(&block);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
}

static struct advisor_index_image *
image_of(const struct test_store *store)
{
    struct advisor_index_image *image;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(store->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_index_image_new(&image, &txn, NULL), KVT_OK);
    advisor_store_end(&txn);
    return image;
}

static void
begin(struct pair *pair, void **state)
{
    *pair = (struct pair){.store = *state, .random = test_seed()};
    put_g4(pair->store);
    assert_int_equal(advisor_evicted_new(&pair->cold, FILTER_BYTES), KVT_OK);
    pair->memory = image_of(pair->store);
    advisor_index_image_memory(pair->memory)->cold = pair->cold;
    pair->finder = (struct advisor_finder){.memory = advisor_index_image_memory(pair->memory),
                                           .store = pair->store->store};
}

static void
end(struct pair *pair)
{
    advisor_index_image_free(pair->memory);
    advisor_index_image_free(pair->whole);
    advisor_evicted_free(pair->cold);
}

/* What is right by now. */
static void
look(struct pair *pair)
{
    advisor_index_image_free(pair->whole);
    pair->whole = image_of(pair->store);
    pair->right = (struct advisor_finder){.memory = advisor_index_image_memory(pair->whole),
                                          .store = pair->store->store};
}

/* ---- answers, compared ---- */

static uint32_t
length_of(const struct wire_query_holder *holders, size_t count,
          const struct wire_query_holder *who)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(holders[i].name, who->name) == 0 && holders[i].dp_rank == who->dp_rank &&
            holders[i].tier == who->tier)
            return holders[i].blocks;
    return 0;
}

static void
same_matches(const struct advisor_finder *left, const struct advisor_finder *right, uint32_t chain,
             uint32_t from)
{
    struct wire_query_holder a[HOLDERS_MAX];
    struct wire_query_holder b[HOLDERS_MAX];
    uint64_t hashes[TEST_STORE_CHAIN];
    struct wire_query query = {.hashes = hashes, .hash_count = TEST_STORE_CHAIN - from};
    size_t a_count;
    size_t b_count;

    (void)snprintf(query.namespace_, sizeof(query.namespace_), "%s",
                   spaces[chain % TEST_STORE_NAMESPACES]);
    for (uint32_t i = from; i < TEST_STORE_CHAIN; i++)
        hashes[i - from] = test_store_hash(chain, i);
    assert_int_equal(advisor_finder_matches(left, &query, a, HOLDERS_MAX, &a_count), KVT_OK);
    assert_int_equal(advisor_finder_matches(right, &query, b, HOLDERS_MAX, &b_count), KVT_OK);
    assert_int_equal(a_count, b_count);
    for (size_t i = 0; i < a_count; i++) {
        assert_int_equal(a[i].blocks, length_of(b, b_count, &a[i]));
        assert_true(i == 0 || a[i - 1].blocks >= a[i].blocks);
    }
    /* Stopping early never says more than there is, and names somebody when there is anybody. */
    query.early_exit = true;
    assert_int_equal(advisor_finder_matches(left, &query, a, HOLDERS_MAX, &a_count), KVT_OK);
    assert_int_equal(a_count > 0, b_count > 0);
    for (size_t i = 0; i < a_count; i++)
        assert_in_range(a[i].blocks, 1, length_of(b, b_count, &a[i]));
}

static void
same_masks(const struct advisor_finder *left, const struct advisor_finder *right, uint32_t chain)
{
    const char *namespace_ = spaces[chain % TEST_STORE_NAMESPACES];
    uint64_t hashes[TEST_STORE_CHAIN + 1];
    uint8_t a[TEST_STORE_CHAIN + 1];
    uint8_t b[TEST_STORE_CHAIN + 1];

    for (uint32_t i = 0; i < TEST_STORE_CHAIN; i++)
        hashes[i] = test_store_hash(chain, i);
    hashes[TEST_STORE_CHAIN] = 12345; /* nobody has it */
    assert_int_equal(advisor_finder_masks(left, namespace_, hashes, TEST_STORE_CHAIN + 1, a),
                     KVT_OK);
    assert_int_equal(advisor_finder_masks(right, namespace_, hashes, TEST_STORE_CHAIN + 1, b),
                     KVT_OK);
    assert_memory_equal(a, b, sizeof(a));
    assert_int_equal(a[TEST_STORE_CHAIN], 0);
}

static uint32_t
ranks_at(const struct advisor_finder_block *block, const struct index_holder *holder)
{
    for (uint32_t i = 0; i < block->place_count; i++)
        if (strcmp(block->places[i].holder.name, holder->name) == 0 &&
            block->places[i].holder.dp_rank == holder->dp_rank &&
            block->places[i].holder.tier == holder->tier)
            return block->places[i].ranks;
    return 0;
}

static void
same_block(const struct advisor_finder *left, const struct advisor_finder *right, uint32_t chain,
           uint32_t position)
{
    struct advisor_finder_block *a = kvt_calloc(1, sizeof(*a));
    struct advisor_finder_block *b = kvt_calloc(1, sizeof(*b));
    const uint64_t hash = test_store_hash(chain, position);
    const char *namespace_ = spaces[chain % TEST_STORE_NAMESPACES];
    enum kvt_err rc;

    assert_non_null(a);
    assert_non_null(b);
    rc = advisor_finder_block(left, namespace_, hash, a);
    assert_int_equal(rc, advisor_finder_block(right, namespace_, hash, b));
    assert_int_equal(a->place_count, b->place_count);
    assert_int_equal(a->ranks, b->ranks);
    for (uint32_t i = 0; i < a->place_count; i++)
        assert_int_equal(a->places[i].ranks, ranks_at(b, &a->places[i].holder));
    if (rc == KVT_OK) {
        assert_true(a->id.hash == hash && b->id.hash == hash);
        assert_int_equal(a->id.position, position);
        assert_int_equal(a->size, b->size);
        assert_int_equal(a->size, 100 + chain);
        assert_int_equal(a->hits, chain == 0 ? READS : 0);
    } else {
        assert_int_equal(rc, KVT_NOTFOUND);
    }
    kvt_free(a);
    kvt_free(b);
}

static void
same_answers(const struct advisor_finder *left, const struct advisor_finder *right)
{
    for (uint32_t chain = 0; chain < TEST_STORE_CHAINS; chain++) {
        same_matches(left, right, chain, 0);
        same_matches(left, right, chain, chain % 7);
        same_masks(left, right, chain);
        for (uint32_t i = chain % 3; i < TEST_STORE_CHAIN; i += 3)
            same_block(left, right, chain, i);
    }
}

/* ---- all places ---- */

struct rows {
    char (*texts)[160];
    size_t count;
    size_t capacity;
};

static void
add_row(void *arg, const struct advisor_finder_row *row)
{
    struct rows *rows = arg;

    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity * 2 + 1024;
        rows->texts = kvt_realloc(rows->texts, rows->capacity, sizeof(*rows->texts));
        assert_non_null(rows->texts);
    }
    (void)snprintf(rows->texts[rows->count++], sizeof(*rows->texts),
                   "%016llx %s/%u %d %08x at %u of %.20s, %llu",
                   (unsigned long long)row->block.id.hash, row->holder.name, row->holder.dp_rank,
                   (int)row->holder.tier, row->block.ranks, row->block.id.position, row->namespace_,
                   (unsigned long long)row->block.size);
}

static int
compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct rows
rows_of(const struct advisor_finder *finder, size_t page)
{
    struct rows rows = {0};
    uint64_t cursor = 0;

    do
        assert_int_equal(advisor_finder_rows(finder, cursor, page, &cursor, add_row, &rows),
                         KVT_OK);
    while (cursor != 0);
    qsort(rows.texts, rows.count, sizeof(*rows.texts), compare_texts);
    return rows;
}

/* Each once or more, and nothing else. */
static void
same_rows(const struct advisor_finder *left, const struct advisor_finder *right, size_t page)
{
    struct rows a = rows_of(left, page);
    struct rows b = rows_of(right, 1000);
    size_t at = 0;

    for (size_t i = 0; i < a.count; i++) {
        if (i > 0 && strcmp(a.texts[i], a.texts[i - 1]) == 0)
            continue;
        assert_true(at < b.count);
        assert_string_equal(a.texts[i], b.texts[at]);
        at++;
    }
    assert_int_equal(at, b.count);
    kvt_free(a.texts);
    kvt_free(b.texts);
}

/* ---- evictions and changes ---- */

/* A piece of a chain leaves memory: what each holder has of it. */
static void
evict(struct pair *pair, struct advisor_event_log *log)
{
    struct index *index = pair->finder.memory->index;
    const uint32_t chain = (uint32_t)kvt_random_below(&pair->random, TEST_STORE_CHAINS);
    const uint32_t from = (uint32_t)kvt_random_below(&pair->random, TEST_STORE_CHAIN);
    const uint32_t ns = chain % TEST_STORE_NAMESPACES;
    struct index_held held[TEST_STORE_CHAIN * TEST_STORE_WORKERS];
    uint64_t hashes[TEST_STORE_CHAIN];
    struct index_run_view run = {.hashes = hashes,
                                 .held = held,
                                 .parent = from == 0 ? 0 : test_store_hash(chain, from - 1),
                                 .size = 100 + chain,
                                 .position = from,
                                 .ns = ns};

    run.count = 1 + (uint32_t)kvt_random_below(&pair->random, TEST_STORE_CHAIN - from);
    for (uint32_t i = 0; i < run.count; i++) {
        struct index_place places[PLACES_MAX];
        size_t count;

        hashes[i] = test_store_hash(chain, from + i);
        count = index_places(index, ns, hashes[i], places, PLACES_MAX);
        for (size_t p = 0; p < count; p++)
            if (places[p].holder < TEST_STORE_WORKERS)
                held[run.held_count++] =
                    (struct index_held){places[p].holder, places[p].ranks, i, 1};
    }
    if (run.held_count > 0)
        assert_int_equal(advisor_evicted_evict(pair->cold, log, &run), KVT_OK);
}

static void
round_of(struct pair *pair, uint32_t changes)
{
    struct advisor_store_log state;
    struct advisor_event_log *log;
    struct advisor_txn txn;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    /* No block twice in a group: nothing is removed from memory before it. */
    evict(pair, log);
    for (uint32_t i = 0; i < changes; i++)
        test_store_change(log, &pair->random);
    assert_int_equal(advisor_store_write(pair->store->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_log_get(&txn, &state), KVT_OK);
    assert_int_equal(advisor_evicted_write(pair->cold, &txn, log), KVT_OK);
    assert_int_equal(advisor_store_log_append(&txn, &state, log), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    advisor_evicted_saved(pair->cold);
    advisor_ram_index_apply(pair->finder.memory, log, NULL, 0);
    advisor_event_log_free(log);
}

static void
what_was_evicted_is_merged(void **state)
{
    struct pair pair;

    begin(&pair, state);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < EVICTIONS; k++)
            round_of(&pair, kvt_random_below(&pair.random, 2) == 0 ? EVICTIONS : 0);
        look(&pair);
        assert_true(advisor_ram_index_whole(pair.finder.memory));
        assert_true(advisor_evicted_count(pair.cold) > 0);
        same_answers(&pair.finder, &pair.right);
        same_rows(&pair.finder, &pair.right, i % 2 == 0 ? 1 : 100);
    }
    end(&pair);
}

/* How many changes of that kind the history has, of all blocks. */
static size_t
count_past(struct index *index, enum index_change_kind kind)
{
    struct index_past past[PAST_MAX];
    size_t found = 0;

    for (uint32_t chain = 0; chain < TEST_STORE_CHAINS; chain++)
        for (uint32_t i = 0; i < TEST_STORE_CHAIN; i++) {
            const size_t count = index_history(index, chain % TEST_STORE_NAMESPACES,
                                               test_store_hash(chain, i), past, PAST_MAX);

            assert_true(count < PAST_MAX);
            for (size_t k = 0; k < count; k++)
                found += past[k].kind == kind;
        }
    return found;
}

/* History is what holders did: live, and when a restart reads the log. */
static void
an_eviction_is_no_removal(void **state)
{
    size_t removed;
    size_t stored;
    struct pair pair;

    begin(&pair, state);
    look(&pair);
    removed = count_past(pair.right.memory->index, INDEX_REMOVE);
    stored = count_past(pair.right.memory->index, INDEX_STORE);
    assert_true(stored > 0 && removed > 0);
    for (uint32_t i = 0; i < EVICTIONS; i++)
        round_of(&pair, 0);
    assert_true(advisor_evicted_count(pair.cold) > 0);
    look(&pair);
    assert_int_equal(count_past(pair.finder.memory->index, INDEX_REMOVE), removed);
    assert_int_equal(count_past(pair.right.memory->index, INDEX_REMOVE), removed);
    assert_int_equal(count_past(pair.finder.memory->index, INDEX_STORE), stored);
    end(&pair);
}

static void
the_store_alone_says_the_same(void **state)
{
    struct advisor_finder alone;
    struct pair pair;

    begin(&pair, state);
    alone = (struct advisor_finder){.store = pair.store->store};
    look(&pair);
    same_answers(&alone, &pair.right);
    for (uint32_t k = 0; k < EVICTIONS; k++)
        round_of(&pair, kvt_random_below(&pair.random, 2) == 0 ? EVICTIONS : 0);
    look(&pair);
    same_answers(&alone, &pair.right);
    end(&pair);
}

/* Half a memory answers nothing: the store does, and pages of all there is there are none. */
static void
while_it_loads_the_store_answers(void **state)
{
    struct advisor_finder finder;
    uint64_t next = 1;
    struct pair pair;

    begin(&pair, state);
    look(&pair);
    finder = pair.finder;
    for (uint64_t cursor = 0;
         index_drop(finder.memory->index, 0, INDEX_NAMESPACE_ALL, &cursor, &(uint64_t){0});) {
    }
    atomic_store(&finder.memory->loading, true);
    same_answers(&finder, &pair.right);
    assert_int_equal(advisor_finder_rows(&finder, 0, 10, &next, add_row, NULL), KVT_AGAIN);
    assert_int_equal(next, 0);
    end(&pair);
}

/* Over the bus too it is said why an answer takes its time. */
static void
answers_say_that_the_index_loads(void **state)
{
    uint64_t hash = test_store_hash(0, 0);
    const struct wire_query query = {.hashes = &hash, .hash_count = 1};
    struct kvt_buffer question;
    struct kvt_buffer answer;
    struct pair pair;

    begin(&pair, state);
    kvt_buffer_init(&question, WIRE_QUERY_MAX);
    kvt_buffer_init(&answer, WIRE_QUERY_MAX);
    assert_int_equal(wire_query_encode(&query, &question), KVT_OK);
    for (unsigned way = 0; way < 4; way++) {
        const bool loading = (way & 1) != 0;

        atomic_store(&pair.finder.memory->loading, loading);
        kvt_buffer_clear(&answer);
        advisor_nats_responder_answer(&pair.finder, (way & 2) != 0, question.data, question.size,
                                      &answer);
        assert_true(answer.size > 0);
        assert_int_equal(wire_query_loading(answer.data, answer.size), loading);
    }
    kvt_buffer_release(&question);
    kvt_buffer_release(&answer);
    end(&pair);
}

static void
unknown_namespaces_have_nothing(void **state)
{
    const struct test_store *store = *state;
    const struct advisor_finder alone = {.store = store->store};
    uint64_t hash = test_store_hash(0, 0);
    const struct wire_query query = {.namespace_ = "nobody", .hashes = &hash, .hash_count = 1};
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));
    struct wire_query_holder holders[2];
    uint8_t mask = 1;
    size_t count = 1;

    assert_non_null(block);
    assert_int_equal(advisor_finder_matches(&alone, &query, holders, 2, &count), KVT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(advisor_finder_masks(&alone, "nobody", &hash, 1, &mask), KVT_OK);
    assert_int_equal(mask, 0);
    assert_int_equal(advisor_finder_block(&alone, "nobody", hash, block), KVT_NOTFOUND);
    kvt_free(block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_store_set_up, test_store_tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_evicted_is_merged),       TEST(an_eviction_is_no_removal),
        TEST(the_store_alone_says_the_same),    TEST(while_it_loads_the_store_answers),
        TEST(answers_say_that_the_index_loads), TEST(unknown_namespaces_have_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
