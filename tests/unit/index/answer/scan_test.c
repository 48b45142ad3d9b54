/*
 * What is tested: index_scan_new(), _next() and _free(), as a snapshot uses them.
 * How: passes in small slices over a random index that changes after every slice: sequences grow
 * block by block, holders come, go and are dropped, and long sequences of a namespace of their own
 * come and go between them, so that pages are cut anew.  Each run that is given must be what
 * model.h has at that instant; what was there all the time must be given, at the number it always
 * had.  What was given is loaded into a second index, the changes since the pass began are applied
 * over it, and that one must have every place of every block.  KVT_SEED=n replays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/block/run_allocator.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/model.h"

enum {
    PASSES = 150,
    BETWEEN = 60,       /* changes between two passes */
    HOLDERS = 40,       /* of the model's */
    BUSY = 8,           /* that most changes are about */
    JOURNAL_MAX = 1024, /* changes during one */
    LOADER = MODEL_HOLDERS,
    NOISE = 16, /* sequences the model knows nothing of, */
    NOISE_LENGTH_MAX = 900,
    NOISE_NS = MODEL_NAMESPACES, /* their namespace, */
    NOISE_HOLDER = HOLDERS,      /* and who has them */
    PAGES_MAX = 4096,
};

#define PLENTY (UINT64_C(256) << 20)

/* What came to the index since the pass began. */
struct entry {
    struct index_change change;
    bool drop; /* all of change.holder in change.ns */
    uint64_t hashes[MODEL_DEPTH_MAX];
    uint64_t tokens[MODEL_DEPTH_MAX];
};

/* What the passes met. */
struct counts {
    uint64_t slices;
    uint64_t stayed;   /* blocks that were there during a whole pass */
    uint64_t returned; /* came back during one */
    uint64_t late;     /* there at the end, and never given */
    uint64_t ghosts;
    uint64_t unlike; /* runs that go on with another size */
    uint64_t mixed;  /* some token hashes known */
    uint64_t recut;  /* pages */
    uint64_t unsure; /* blocks the second index knows more or less about */
};

struct block_state {
    bool stayed;
    bool given;
    bool there; /* when the pass began */
    uint32_t number;
};

struct test {
    struct index *index;
    struct index *second;
    struct model *model;
    struct entry *journal;
    uint32_t journal_count;
    struct counts counts;
    uint64_t random;
    uint64_t time_ms;
    uint64_t last_hash; /* of the run that was given last */
    uint64_t last_size;
    bool recording;
    uint32_t noise[NOISE];             /* lengths; 0: it is not there */
    uint32_t leaving;                  /* holders that are to be dropped, one after the other */
    uint32_t growing[MODEL_DEPTH_MAX]; /* a path that comes block by block */
    uint32_t growing_count;
    uint32_t grown;
    uint32_t growing_ns;
    uint32_t growing_holder;
    struct block_state blocks[MODEL_NAMESPACES][MODEL_NODES];
    uint8_t classes[PAGES_MAX];
};

static uint32_t
below(struct test *test, uint64_t bound)
{
    return (uint32_t)kvt_random_below(&test->random, bound);
}

static struct index *
open_index(uint32_t holders)
{
    struct index *index = NULL;
    char name[16];
    uint32_t number;

    assert_int_equal(index_new(&index, PLENTY), KVT_OK);
    for (uint32_t i = 0; i <= MODEL_NAMESPACES; i++) {
        (void)snprintf(name, sizeof(name), "ns%" PRIu32, i);
        assert_int_equal(index_namespace(index, name, &number), KVT_OK);
        assert_int_equal(number, i);
    }
    for (uint32_t i = 0; i < holders; i++) {
        struct index_holder key = {.tier = (enum kvt_tier)(KVT_TIER_G1 + i % 4)};

        (void)snprintf(key.name, sizeof(key.name), "w%" PRIu32, i / 4);
        assert_int_equal(index_holder(index, &key, &number), KVT_OK);
        assert_int_equal(number, i);
    }
    return index;
}

/* ---- changes ---- */

static void
drop(struct index *index, uint32_t holder, uint32_t ns)
{
    uint64_t cursor = 0;
    uint64_t pairs;

    while (index_drop(index, holder, ns, &cursor, &pairs))
        continue;
}

/* A piece of the path to some node.  Publishers are honest; but for those of the first namespace
 * some do not know the parent, or token hashes. */
static void
draw_piece(struct test *test, struct entry *entry, uint32_t ns, const uint32_t *path, uint32_t from,
           uint32_t count)
{
    const struct model *model = test->model;
    const uint32_t parent = model->nodes[path[from]].parent;
    const bool knows = ns == 0 || below(test, 20) > 0;

    for (uint32_t i = 0; i < count; i++) {
        entry->hashes[i] = model->nodes[path[from + i]].hash;
        entry->tokens[i] = model->nodes[path[from + i]].token;
    }
    entry->change = (struct index_change){
        .hashes = entry->hashes,
        .tokens = ns == 0 || (ns == 1 && below(test, 2) == 0) ? entry->tokens : NULL,
        .parent = parent == MODEL_NODES || !knows ? 0 : model->nodes[parent].hash,
        .position = from,
        .count = count,
        .size = below(test, 12) == 0 ? 20 + 10 * below(test, 2) : 10,
        .time_ms = test->time_ms,
        .ns = ns,
        .holder = below(test, 8) == 0 ? below(test, HOLDERS) : below(test, BUSY),
        .ranks = below(test, 6) == 0 ? 1 + below(test, 7) : 3,
    };
}

static void
draw_random(struct test *test, struct entry *entry)
{
    uint32_t path[MODEL_DEPTH_MAX];
    const uint32_t length = model_path(test->model, below(test, MODEL_NODES), path);
    const uint32_t from = below(test, 3) == 0 ? below(test, length) : 0;

    draw_piece(test, entry, below(test, MODEL_NAMESPACES), path, from,
               1 + below(test, length - from));
    entry->change.kind = below(test, 2) == 0 ? INDEX_STORE : INDEX_REMOVE;
    if (entry->change.kind == INDEX_REMOVE && below(test, 2) == 0)
        entry->change.ranks = UINT32_MAX;
}

/* The next block of a sequence that comes block by block. */
static void
draw_growing(struct test *test, struct entry *entry)
{
    if (test->grown == test->growing_count) {
        test->growing_count = model_path(test->model, below(test, MODEL_NODES), test->growing);
        test->grown = 0;
        test->growing_ns = below(test, MODEL_NAMESPACES);
        test->growing_holder = below(test, BUSY);
    }
    draw_piece(test, entry, test->growing_ns, test->growing, test->grown++, 1);
    entry->change.kind = INDEX_STORE;
    entry->change.holder = test->growing_holder;
}

static void
apply_to_model(struct test *test, const struct entry *entry)
{
    const struct index_change *change = &entry->change;
    bool added;

    if (entry->drop)
        (void)model_drop(test->model, change->holder, change->ns);
    for (uint32_t i = 0; i < change->count && !entry->drop; i++) {
        if (change->kind == INDEX_STORE)
            assert_int_equal(model_store(test->model, change, i, &added), KVT_OK);
        else
            (void)model_remove(test->model, change->ns, model_find(test->model, change->hashes[i]),
                               change->holder, change->ranks, change->time_ms);
    }
}

static void
apply(struct index *index, struct entry *entry)
{
    if (entry->drop) {
        drop(index, entry->change.holder, entry->change.ns);
        return;
    }
    index_apply(index, &entry->change, 1);
    assert_int_equal(entry->change.status, KVT_OK);
}

/* One long sequence comes, or goes. */
static void
make_noise(struct test *test)
{
    const uint32_t which = below(test, NOISE);
    uint64_t hashes[NOISE_LENGTH_MAX];
    struct index_change change = {.kind = test->noise[which] == 0 ? INDEX_STORE : INDEX_REMOVE,
                                  .hashes = hashes,
                                  .count = test->noise[which],
                                  .ns = NOISE_NS,
                                  .holder = NOISE_HOLDER,
                                  .ranks = 1};

    if (change.kind == INDEX_STORE)
        change.count = NOISE_LENGTH_MAX / (1 + below(test, 8));
    for (uint32_t i = 0; i < change.count; i++)
        hashes[i] = (uint64_t)(which + 1) << 32 | i;
    index_apply(test->index, &change, 1);
    assert_int_equal(change.changed, change.count);
    test->noise[which] = change.kind == INDEX_STORE ? change.count : 0;
}

/* One change, so that what goes and comes back is seen gone. */
static void
change_something(struct test *test)
{
    struct entry *entry = &test->journal[test->journal_count];
    const uint32_t what = below(test, 100);

    test->time_ms += below(test, 3000);
    for (int i = below(test, 10) == 0 ? 3 * NOISE : 2; i > 0; i--)
        make_noise(test);
    entry->drop = what < 2;
    if (what < 50)
        draw_random(test, entry);
    else
        draw_growing(test, entry);
    if (entry->drop && below(test, 3) == 0)
        entry->change.ns = INDEX_NAMESPACE_ALL;
    if (test->leaving > 0) {
        entry->drop = true;
        entry->change.holder = --test->leaving;
        entry->change.ns = INDEX_NAMESPACE_ALL;
    }
    apply(test->index, entry);
    apply_to_model(test, entry);
    if (test->recording)
        test->journal_count++;
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++) {
        for (uint32_t node = 0; node < MODEL_NODES; node++) {
            struct block_state *block = &test->blocks[ns][node];

            if (!test->model->blocks[ns][node].exists)
                block->stayed = false;
        }
    }
}

/* ---- what is given ---- */

static void
check_block(struct test *test, const struct index_run_view *view, uint32_t i)
{
    const uint32_t node = model_find(test->model, view->hashes[i]);
    const struct model_block *block = &test->model->blocks[view->ns][node];
    uint32_t holders = 0;

    assert_true(node < MODEL_NODES && block->exists);
    assert_int_equal(i > 0 ? view->hashes[i - 1] : view->parent, block->parent);
    assert_int_equal(view->position + i, block->position);
    assert_int_equal(view->size, block->size);
    assert_int_equal(view->tokens != NULL ? view->tokens[i] : 0, block->token);
    for (uint32_t j = 0; j < view->held_count; j++) {
        const struct index_held *held = &view->held[j];

        if (i < held->from || held->from + held->count <= i)
            continue;
        assert_int_equal(held->ranks, block->ranks[held->holder]);
        holders++;
    }
    assert_int_equal(holders, block->count);
    test->blocks[view->ns][node].given = true;
    test->counts.ghosts += holders == 0;
}

static void
count_run(struct test *test, const struct index_run_view *view)
{
    const bool on = view->parent == test->last_hash && view->position > 0;
    uint32_t known = 0;

    for (uint32_t i = 0; i < view->count && view->tokens != NULL; i++)
        known += view->tokens[i] != 0;
    test->counts.mixed += known > 0 && known < view->count;
    test->counts.unlike += on && view->size != test->last_size;
    test->last_hash = view->hashes[view->count - 1];
    test->last_size = view->size;
}

static void
load_piece(struct test *test, const struct index_run_view *view, uint32_t holder, uint32_t ranks,
           uint32_t from, uint32_t count)
{
    struct index_change change = {
        .kind = INDEX_STORE,
        .hashes = view->hashes + from,
        .tokens = view->tokens != NULL ? view->tokens + from : NULL,
        .parent = from > 0 ? view->hashes[from - 1] : view->parent,
        .position = view->position + from,
        .count = count,
        .size = view->size,
        .time_ms = UINT64_C(1000) * view->stored_s,
        .ns = view->ns,
        .holder = holder,
        .ranks = ranks,
    };

    index_apply(test->second, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

static void
check_noise(const struct test *test, const struct index_run_view *view)
{
    const uint32_t which = (uint32_t)(view->hashes[0] >> 32) - 1;

    assert_true(which < NOISE && view->position + view->count <= test->noise[which]);
    for (uint32_t i = 0; i < view->count; i++)
        assert_int_equal(view->hashes[i], (uint64_t)(which + 1) << 32 | (view->position + i));
}

static void
on_run(void *arg, const struct index_run_view *view)
{
    struct test *test = arg;

    assert_in_range(view->count, 1, INDEX_RUN_VIEW_MAX);
    if (view->ns == NOISE_NS) {
        check_noise(test, view);
        return;
    }
    for (uint32_t j = 0; j < view->held_count; j++) {
        const struct index_held *held = &view->held[j];

        assert_true(held->count > 0 && held->from + held->count <= view->count);
        assert_true(
            j == 0 || held->holder > held[-1].holder ||
            (held->holder == held[-1].holder && held->from >= held[-1].from + held[-1].count));
    }
    for (uint32_t i = 0; i < view->count; i++)
        check_block(test, view, i);
    count_run(test, view);
    /* What nobody has is kept by one who leaves when all is there. */
    load_piece(test, view, LOADER, 1, 0, view->count);
    for (uint32_t j = 0; j < view->held_count; j++)
        load_piece(test, view, view->held[j].holder, view->held[j].ranks, view->held[j].from,
                   view->held[j].count);
}

/* ---- a pass ---- */

static uint32_t
class_of(const struct index *index, uint32_t page)
{
    return atomic_load(&index->allocator.runs[page]) & 63;
}

static void
begin_pass(struct test *test, struct index_scan **runs)
{
    const uint32_t pages = atomic_load(&test->index->allocator.end);

    test->journal_count = 0;
    test->recording = true;
    test->last_hash = 0;
    test->second = open_index(MODEL_HOLDERS + 4); /* one more worker */
    assert_int_equal(index_scan_new(runs, test->index), KVT_OK);
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++) {
        for (uint32_t node = 0; node < MODEL_NODES; node++) {
            const bool exists = test->model->blocks[ns][node].exists;
            const uint64_t hash = test->model->nodes[node].hash;

            test->blocks[ns][node] = (struct block_state){
                .stayed = exists,
                .there = exists,
                .number = exists ? index_state_find(test->index, ns, hash) : 0};
        }
    }
    assert_true(pages <= PAGES_MAX);
    for (uint32_t page = 1; page < pages; page++)
        test->classes[page] = (uint8_t)class_of(test->index, page);
    for (uint32_t page = pages; page < PAGES_MAX; page++)
        test->classes[page] = 0;
}

static void
check_pass(struct test *test)
{
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++) {
        for (uint32_t node = 0; node < MODEL_NODES; node++) {
            const struct block_state *block = &test->blocks[ns][node];
            const bool exists = test->model->blocks[ns][node].exists;

            test->counts.stayed += block->stayed;
            test->counts.returned += block->there && exists && !block->stayed;
            test->counts.late += exists && !block->given;
            if (!block->stayed)
                continue;
            assert_true(block->given);
            assert_int_equal(index_state_find(test->index, ns, test->model->nodes[node].hash),
                             block->number);
        }
    }
    for (uint32_t page = 1; page < atomic_load(&test->index->allocator.end); page++)
        test->counts.recut += test->classes[page] != 0 && class_of(test->index, page) != 0 &&
                              class_of(test->index, page) != test->classes[page];
}

/* What only a publisher that has left knew is known in one index, and maybe not in the other. */
static void
check_knowledge(struct test *test, uint32_t ns, uint32_t node, const struct index_block *second)
{
    const struct model_node *drawn = &test->model->nodes[node];
    const struct model_block *block = &test->model->blocks[ns][node];
    const uint64_t parent =
        drawn->parent == MODEL_NODES ? 0 : test->model->nodes[drawn->parent].hash;
    const bool equal = second->id.parent == block->parent && second->tokens_hash == block->token;

    assert_true(equal || ns != 0);
    assert_true(second->id.parent == block->parent || second->id.parent == 0 ||
                second->id.parent == parent);
    assert_true(second->tokens_hash == block->token || second->tokens_hash == 0 ||
                second->tokens_hash == drawn->token);
    test->counts.unsure += !equal;
}

static void
check_second_block(struct test *test, uint32_t ns, uint32_t node, struct index_view *view)
{
    const uint64_t hash = test->model->nodes[node].hash;
    const struct model_block *block = &test->model->blocks[ns][node];
    struct index_place places[MODEL_HOLDERS];
    const size_t count = index_places(test->second, ns, hash, places, MODEL_HOLDERS);

    assert_int_equal(count, block->count);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || places[i - 1].holder < places[i].holder);
        assert_int_equal(places[i].ranks, block->ranks[places[i].holder]);
    }
    if (count == 0)
        return;
    assert_int_equal(index_get(test->second, ns, hash, view), KVT_OK);
    assert_int_equal(view->block.id.position, block->position);
    assert_int_equal(view->block.size, block->size);
    check_knowledge(test, ns, node, &view->block);
}

static void
check_second(struct test *test)
{
    struct index_view *view = kvt_calloc(1, sizeof(*view));
    struct index_stats stats;
    uint64_t blocks;
    uint64_t bytes;

    assert_non_null(view);
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++)
        for (uint32_t node = 0; node < MODEL_NODES; node++)
            check_second_block(test, ns, node, view);
    kvt_free(view);
    index_stats(test->second, &stats);
    assert_int_equal(stats.blocks, test->model->block_count);
    assert_int_equal(stats.places, test->model->places);
    assert_int_equal(stats.collisions, 0);
    for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++) {
        index_holder_info(test->second, holder, NULL, &blocks, &bytes);
        assert_int_equal(blocks, test->model->holder_blocks[holder]);
        assert_int_equal(bytes, test->model->holder_bytes[holder]);
    }
}

static void
pass(struct test *test)
{
    struct index_scan *runs = NULL;
    bool done = false;

    begin_pass(test, &runs);
    while (!done) {
        assert_int_equal(index_scan_next(runs, 1 + below(test, 60), on_run, test, &done), KVT_OK);
        if (below(test, 40) == 0)
            test->leaving = below(test, 2) == 0 ? BUSY : HOLDERS;
        for (uint32_t i = below(test, 5); i > 0 && test->journal_count < JOURNAL_MAX; i--)
            change_something(test);
        test->counts.slices++;
    }
    index_scan_free(runs);
    test->recording = false;
    check_pass(test);
    drop(test->second, LOADER, INDEX_NAMESPACE_ALL);
    for (uint32_t i = 0; i < test->journal_count; i++)
        apply(test->second, &test->journal[i]);
    check_second(test);
    index_free(test->second);
}

static void
passes_over_an_index_that_changes(void **state)
{
    struct test *test = kvt_calloc(1, sizeof(*test));
    const struct counts *counts;

    (void)state;
    assert_non_null(test);
    test->random = test_seed();
    test->time_ms = 1000000;
    test->model = kvt_calloc(1, sizeof(*test->model));
    test->journal = kvt_calloc(JOURNAL_MAX + 1, sizeof(*test->journal));
    assert_true(test->model != NULL && test->journal != NULL);
    model_draw(test->model, &test->random);
    test->index = open_index(MODEL_HOLDERS);
    for (int i = 0; i < PASSES; i++) {
        for (int j = 0; j < BETWEEN; j++)
            change_something(test);
        pass(test);
    }
    counts = &test->counts;
    print_message("slices %" PRIu64 ", stayed %" PRIu64 ", returned %" PRIu64 ", late %" PRIu64
                  ", ghosts %" PRIu64 ", unlike %" PRIu64 ", mixed %" PRIu64 ", recut %" PRIu64
                  ", unsure %" PRIu64 "\n",
                  counts->slices, counts->stayed, counts->returned, counts->late, counts->ghosts,
                  counts->unlike, counts->mixed, counts->recut, counts->unsure);
    /* The passes met what they are there for. */
    assert_true(counts->slices > 8 * PASSES && counts->stayed > 10000);
    assert_true(counts->returned > 0 && counts->late > 0 && counts->ghosts > 0);
    assert_true(counts->unlike > 0 && counts->mixed > 0 && counts->recut > 0);
    index_free(test->index);
    kvt_free(test->journal);
    kvt_free(test->model);
    kvt_free(test);
}

/* ---- by hand ---- */

enum { LENGTH = 300, PIECES = 8, HELD = 16 };

struct piece {
    struct index_run_view view;
    struct index_held held[HELD];
    uint64_t first;
    uint64_t token;
};

struct pieces {
    uint32_t count;
    struct piece pieces[PIECES];
};

static void
on_piece(void *arg, const struct index_run_view *view)
{
    struct pieces *pieces = arg;
    struct piece *piece = &pieces->pieces[pieces->count++];

    assert_true(pieces->count <= PIECES && view->held_count <= HELD);
    piece->view = *view;
    piece->first = view->hashes[0];
    piece->token = view->tokens != NULL ? view->tokens[0] : 0;
    for (uint32_t i = 0; i < view->held_count; i++)
        piece->held[i] = view->held[i];
}

static void
change_one(struct index *index, enum index_change_kind kind, uint32_t holder, uint32_t from,
           uint32_t count, uint64_t size)
{
    uint64_t hashes[LENGTH];
    struct index_change change = {.kind = kind,
                                  .hashes = hashes,
                                  .tokens = hashes,
                                  .parent = 1000 + from - 1,
                                  .size = size,
                                  .time_ms = 7000,
                                  .position = 5 + from,
                                  .count = count,
                                  .holder = holder,
                                  .ranks = 3};

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = 1000 + from + i;
    index_apply(index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

static void
check_piece(const struct piece *piece, uint32_t from, uint32_t count, uint64_t size,
            uint32_t held_count)
{
    assert_int_equal(piece->first, 1000 + from);
    assert_int_equal(piece->token, 1000 + from);
    assert_int_equal(piece->view.parent, 1000 + from - 1);
    assert_int_equal(piece->view.position, 5 + from);
    assert_int_equal(piece->view.count, count);
    assert_int_equal(piece->view.size, size);
    assert_int_equal(piece->view.ns, 0);
    assert_int_equal(piece->view.stored_s, 7);
    assert_int_equal(piece->view.held_count, held_count);
}

static void
check_held(const struct index_held *held, uint32_t holder, uint32_t from, uint32_t count)
{
    assert_int_equal(held->holder, holder);
    assert_int_equal(held->ranks, 3);
    assert_int_equal(held->from, from);
    assert_int_equal(held->count, count);
}

/* An orphan of 300 blocks; one of them is larger, a second holder has a part, some nobody. */
static void
a_long_run_is_given_in_pieces(void **state)
{
    struct index *index = open_index(2);
    struct pieces pieces = {.count = 0};
    const struct piece *piece = pieces.pieces;
    struct index_scan *runs = NULL;
    bool done = false;

    (void)state;
    assert_int_equal(index_scan_new(&runs, index), KVT_OK);
    assert_int_equal(index_scan_next(runs, 1, on_piece, &pieces, &done), KVT_OK);
    assert_true(done);
    assert_int_equal(pieces.count, 0);
    index_scan_free(runs);

    change_one(index, INDEX_STORE, 0, 0, LENGTH, 100);
    change_one(index, INDEX_STORE, 1, 100, 100, 100);
    change_one(index, INDEX_STORE, 0, 150, 1, 200);
    change_one(index, INDEX_REMOVE, 0, 0, 10, 0);
    change_one(index, INDEX_REMOVE, 0, 160, 30, 0);
    assert_int_equal(index_scan_new(&runs, index), KVT_OK);
    while (!done || pieces.count == 0)
        assert_int_equal(index_scan_next(runs, 1, on_piece, &pieces, &done), KVT_OK);
    index_scan_free(runs);
    assert_int_equal(pieces.count, 5);
    check_piece(&piece[0], 0, 112, 100, 2);
    check_held(&piece[0].held[0], 0, 10, 102);
    check_held(&piece[0].held[1], 1, 100, 12);
    check_piece(&piece[1], 112, 38, 100, 2);
    check_held(&piece[1].held[0], 0, 0, 38);
    check_held(&piece[1].held[1], 1, 0, 38);
    check_piece(&piece[2], 150, 1, 200, 2);
    check_piece(&piece[3], 151, 112, 100, 3);
    check_held(&piece[3].held[0], 0, 0, 9);
    check_held(&piece[3].held[1], 0, 39, 73);
    check_held(&piece[3].held[2], 1, 0, 49);
    check_piece(&piece[4], 263, 37, 100, 1);
    index_free(index);
}

/* Where memory is out a pass goes on as soon as there is some. */
static void
a_pass_without_memory_goes_on(void **state)
{
    struct index *index = open_index(1);
    struct pieces pieces = {.count = 0};
    struct index_scan *runs = NULL;
    bool done = true;

    (void)state;
    change_one(index, INDEX_STORE, 0, 0, 20, 100);
    kvt_alloc_fail_after(0);
    assert_int_equal(index_scan_new(&runs, index), KVT_NOMEM);
    assert_null(runs);
    for (size_t allocations = 1; allocations < 3; allocations++) {
        kvt_alloc_fail_after(1);
        assert_int_equal(index_scan_new(&runs, index), KVT_OK);
        kvt_alloc_fail_after(allocations - 1);
        assert_int_equal(index_scan_next(runs, 100, on_piece, &pieces, &done), KVT_NOMEM);
        assert_false(done);
        assert_int_equal(pieces.count, 0);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_int_equal(index_scan_next(runs, 100, on_piece, &pieces, &done), KVT_OK);
        assert_int_equal(pieces.count, 1);
        check_held(&pieces.pieces[0].held[0], 0, 0, 20);
        pieces.count = 0;
        index_scan_free(runs);
    }
    index_free(index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_long_run_is_given_in_pieces),
                                       cmocka_unit_test(a_pass_without_memory_goes_on),
                                       cmocka_unit_test(passes_over_an_index_that_changes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
