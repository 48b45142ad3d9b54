/*
 * What is tested: index/index.h over long random runs.
 * How: batches of stores, removals in any order, dropped holders and moves between tiers, by 300
 * holders in three namespaces, against model.h; answers are compared after every batch, all of them
 * regularly.  The run proves that it met what it is there for.  KVT_SEED=n replays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/matches.h"
#include "tests/unit/index/support/model.h"

enum {
    BATCHES = 6000 / TEST_ALONE_SHARE,
    CHECK_EVERY = 250,
    CHANGES_MAX = 12,
    PIECE_MAX = 64,
};

#define PLENTY (UINT64_C(256) << 20)
#define TIGHT  (UINT64_C(900) << 10)
#define BEYOND (UINT64_C(64) << 10) /* what removals may take when it is full */

struct counts {
    uint64_t stored;
    uint64_t removed;
    uint64_t collided;
    uint64_t dropped;
    uint64_t moved;
    uint64_t orphans;
    uint64_t ghosts;  /* blocks nobody had, seen while others hung on them */
    uint64_t crowded; /* views with more places than they show */
    uint64_t deep;    /* matches longer than 32 blocks */
    uint64_t unlike;  /* blocks with another size than most */
    uint64_t full;
    uint64_t stored_after_full;
};

struct drawn {
    uint64_t hashes[PIECE_MAX];
    uint64_t tokens[PIECE_MAX];
    uint32_t nodes[PIECE_MAX];
};

struct run {
    struct index *index;
    struct model *model;
    struct counts counts;
    uint64_t random;
    uint64_t time_ms;
    bool tight; /* memory is short: publishers are honest, and a Store may not fit */
    uint32_t ns[MODEL_NAMESPACES];
    char far_names[MODEL_HOLDERS][KVT_NAME_MAX];
    struct index_far far;
    struct index_change changes[CHANGES_MAX];
    struct drawn drawn[CHANGES_MAX];
};

static uint32_t
below(struct run *run, uint64_t bound)
{
    return (uint32_t)kvt_random_below(&run->random, bound);
}

/* Few holders are busy, the rest come now and then. */
static uint32_t
draw_holder(struct run *run)
{
    return below(run, 4) == 0 ? below(run, MODEL_HOLDERS) : below(run, 24);
}

/* A piece of the path to some node into drawn[at], root side first; returns its length. */
static uint32_t
draw_piece(struct run *run, uint32_t at, uint32_t *position)
{
    uint32_t path[MODEL_DEPTH_MAX];
    const uint32_t length = model_path(run->model, below(run, MODEL_NODES), path);
    const uint32_t from = below(run, 3) == 0 ? below(run, length) : 0;
    const uint32_t most = length - from < PIECE_MAX ? length - from : PIECE_MAX;
    const uint32_t count = below(run, 5) == 0 ? 1 : 1 + below(run, most);
    struct drawn *drawn = &run->drawn[at];

    for (uint32_t i = 0; i < count; i++) {
        drawn->nodes[i] = path[from + i];
        drawn->hashes[i] = run->model->nodes[path[from + i]].hash;
        drawn->tokens[i] = run->model->nodes[path[from + i]].token;
    }
    *position = from;
    return count;
}

static void
draw_store(struct run *run, uint32_t at)
{
    const uint32_t ns = below(run, MODEL_NAMESPACES);
    struct drawn *drawn = &run->drawn[at];
    struct index_change *change = &run->changes[at];
    uint32_t position;
    const uint32_t count = draw_piece(run, at, &position);
    const uint32_t parent = run->model->nodes[drawn->nodes[0]].parent;
    const uint32_t way = below(run, 100);

    *change = (struct index_change){
        .kind = INDEX_STORE,
        .hashes = drawn->hashes,
        .tokens = ns == 0 || (ns == 1 && below(run, 2) == 0 && !run->tight) ? drawn->tokens : NULL,
        .parent = parent == MODEL_NODES ? 0 : run->model->nodes[parent].hash,
        .position = position,
        .count = count,
        .size = below(run, 12) == 0 && !run->tight ? 20 * below(run, 2) : 10,
        .time_ms = run->time_ms,
        .ns = run->ns[ns],
        .holder = draw_holder(run),
        .ranks = below(run, 6) == 0 ? 1 + below(run, 7) : 3,
    };
    if (run->tight)
        return;
    if (way < 2)
        change->parent = 999999; /* another sequence with the same hash */
    else if (way < 5)
        change->parent = 0; /* not known, unless this is a root */
    else if (way < 6)
        change->position += 100;
}

/* What was stored somewhere, in the order, or against it, or in none. */
static void
draw_remove(struct run *run, uint32_t at)
{
    struct drawn *drawn = &run->drawn[at];
    uint32_t position;
    const uint32_t count = draw_piece(run, at, &position);
    const uint32_t way = below(run, 3);

    for (uint32_t i = 0; i + 1 < count && way > 0; i++) {
        const uint32_t other = way == 1 ? count - 1 - i : i + below(run, count - i);
        const uint64_t hash = drawn->hashes[i];

        if (way == 1 && other <= i)
            break;
        drawn->hashes[i] = drawn->hashes[other];
        drawn->hashes[other] = hash;
    }
    run->changes[at] = (struct index_change){
        .kind = INDEX_REMOVE,
        .hashes = drawn->hashes,
        .count = count,
        .time_ms = run->time_ms,
        .ns = run->ns[below(run, MODEL_NAMESPACES)],
        .holder = draw_holder(run),
        .ranks = below(run, 6) == 0 ? 1 + below(run, 7) : UINT32_MAX,
    };
}

/* From one holder of a worker to the next, as blocks move from tier to tier. */
static uint32_t
draw_move(struct run *run, uint32_t at)
{
    struct index_change *from = &run->changes[at + 1];

    draw_store(run, at);
    *from = run->changes[at];
    from->kind = INDEX_REMOVE;
    from->ranks = UINT32_MAX;
    from->holder = run->changes[at].holder ^ 1;
    run->counts.moved++;
    return 2;
}

static void
check_store(struct run *run, const struct index_change *change)
{
    uint32_t changed = 0;
    uint32_t done = 0;
    enum kvt_err status = KVT_OK;
    bool added;

    for (; done < change->count; done++) {
        if (change->status == KVT_FULL && done == change->done) {
            assert_true(run->tight);
            run->counts.full++;
            status = KVT_FULL;
            break;
        }
        status = model_store(run->model, change, done, &added);
        if (status != KVT_OK)
            break;
        changed += added;
    }
    assert_int_equal(change->status, status);
    assert_int_equal(change->done, done);
    assert_int_equal(change->changed, changed);
    run->counts.stored += changed;
    run->counts.stored_after_full += run->counts.full > 0 ? changed : 0;
    run->counts.collided += status == KVT_EXISTS;
}

static void
check_remove(struct run *run, const struct index_change *change)
{
    const uint64_t before = run->model->places;

    for (uint32_t i = 0; i < change->count; i++)
        (void)model_remove(run->model, change->ns, model_find(run->model, change->hashes[i]),
                           change->holder, change->ranks, change->time_ms);
    assert_int_equal(change->status, KVT_OK);
    assert_int_equal(change->done, change->count);
    assert_int_equal(change->changed, before - run->model->places);
    run->counts.removed += change->changed;
}

/* One block by the functions for one. */
static void
step_single(struct run *run)
{
    bool added;
    struct index_change *change = &run->changes[0];

    if (below(run, 2) == 0) {
        struct index_block block;

        draw_store(run, 0);
        change->count = 1;
        change->time_ms = 0; /* of which it says nothing */
        block = (struct index_block){.id = {.hash = change->hashes[0],
                                            .parent = change->parent,
                                            .position = change->position},
                                     .tokens_hash = change->tokens == NULL ? 0 : change->tokens[0],
                                     .size = change->size,
                                     .ranks = change->ranks};
        change->status = index_store(run->index, change->ns, change->holder, &block, &added);
        change->done = change->status == KVT_OK;
        change->changed = added;
        check_store(run, change);
        return;
    }
    draw_remove(run, 0);
    assert_int_equal(
        index_remove(run->index, change->ns, change->holder, change->hashes[0], change->ranks),
        model_remove(run->model, change->ns, model_find(run->model, change->hashes[0]),
                     change->holder, change->ranks, 0)
            ? KVT_OK
            : KVT_NOTFOUND);
}

/* How many were applied: as far as the first that is refused. */
static uint32_t
apply_some(struct run *run, uint32_t count)
{
    const uint32_t applied = (uint32_t)index_apply_some(run->index, run->changes, count);

    assert_in_range(applied, 1, count);
    for (uint32_t i = 0; i + 1 < applied; i++)
        assert_int_equal(run->changes[i].status, KVT_OK);
    if (applied < count)
        assert_int_not_equal(run->changes[applied - 1].status, KVT_OK);
    return applied;
}

static void
step_batch(struct run *run)
{
    const uint32_t wanted = 1 + below(run, CHANGES_MAX - 1);
    uint32_t count = 0;

    while (count < wanted) {
        const uint32_t what = below(run, 100);

        if (what < 48) {
            draw_store(run, count++);
        } else if (what < 95) {
            draw_remove(run, count++);
        } else {
            count += draw_move(run, count);
        }
    }
    if (below(run, 2) == 0)
        index_apply(run->index, run->changes, count);
    else
        count = apply_some(run, count);
    for (uint32_t i = 0; i < count; i++) {
        if (run->changes[i].kind == INDEX_STORE)
            check_store(run, &run->changes[i]);
        else
            check_remove(run, &run->changes[i]);
    }
}

/* All of a holder in a namespace goes; how many pairs that were. */
static uint64_t
drop(struct index *index, uint32_t holder, uint32_t ns)
{
    uint64_t cursor = 0;
    uint64_t total = 0;
    uint64_t pairs;
    bool more;

    do {
        more = index_drop(index, holder, ns, &cursor, &pairs);
        total += pairs;
    } while (more);
    return total;
}

/* Namespaces of the index have the model's numbers. */
static void
step_drop(struct run *run)
{
    const uint32_t which = below(run, MODEL_NAMESPACES + 1);
    const uint32_t ns = which == MODEL_NAMESPACES ? INDEX_NAMESPACE_ALL : which;
    const uint32_t holder = draw_holder(run);
    const uint64_t told = ns == INDEX_NAMESPACE_ALL
                              ? drop(run->index, holder, ns)
                              : model_lose(run->model, run->index, holder, ns);
    const size_t held = model_drop(run->model, holder, ns);

    assert_int_equal(told, held);
    assert_int_equal(drop(run->index, holder, ns), 0);
    run->counts.dropped += held > 0;
}

static void
step_touch(struct run *run)
{
    const uint32_t ns = below(run, MODEL_NAMESPACES);
    const uint32_t node = below(run, MODEL_NODES);
    struct model_block *block = &run->model->blocks[ns][node];
    const uint32_t hits = 1 + below(run, 3);

    index_touch(run->index, run->ns[ns], run->model->nodes[node].hash, hits, run->time_ms);
    if (block->count == 0)
        return;
    block->hits += hits;
    block->read_ms = run->time_ms / 1000 * 1000;
}

/* ---- answers ---- */

static uint32_t
prefix_of(const struct run *run, uint32_t ns, uint32_t holder, const uint32_t *path, uint32_t count)
{
    uint32_t length = 0;

    while (length < count && model_has(run->model, ns, path[length], holder))
        length++;
    return length;
}

/* `matches` are all holders with their lengths, longest first. */
static void
check_matches(const struct run *run, uint32_t ns, const uint32_t *path, uint32_t length,
              const struct index_match *matches, size_t count)
{
    size_t expected = 0;

    for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++)
        expected += model_has(run->model, ns, path[0], holder);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(matches[i].blocks, prefix_of(run, ns, matches[i].holder, path, length));
        if (i > 0)
            assert_true(matches[i - 1].blocks >= matches[i].blocks);
    }
}

static void
check_found(struct run *run, uint32_t ns, const uint32_t *path, uint32_t length,
            const uint64_t *hashes, enum index_key key, bool early)
{
    const struct index_question question = {
        .hashes = hashes, .count = length, .ns = run->ns[ns], .key = key, .early_exit = early};
    struct index_match matches[MODEL_HOLDERS];
    struct index_find_result *found = NULL;
    size_t count;

    assert_int_equal(index_find_result_new(&found), KVT_OK);
    assert_int_equal(index_find(run->index, &question, found), KVT_OK);
    count = index_find_result_best(found, matches, MODEL_HOLDERS);
    assert_int_equal(count, index_find_result_count(found));
    assert_int_equal(count > 0 ? matches[0].blocks : 0, index_find_result_length(found));
    if (!early) {
        check_matches(run, ns, path, length, matches, count);
    } else {
        for (size_t i = 0; i < count; i++)
            assert_true(matches[i].blocks <= prefix_of(run, ns, matches[i].holder, path, length));
        /* The best one is the best one. */
        for (uint32_t holder = 0; holder < MODEL_HOLDERS && count > 0; holder++)
            assert_true(prefix_of(run, ns, holder, path, length) <=
                        prefix_of(run, ns, matches[0].holder, path, length));
    }
    index_find_result_free(found);
}

static void
check_masks(const struct run *run, uint32_t ns, const uint32_t *path, const uint64_t *hashes,
            uint32_t length)
{
    uint8_t masks[MODEL_DEPTH_MAX];

    index_match(run->index, run->ns[ns], hashes, length, masks);
    for (uint32_t i = 0; i < length; i++) {
        uint8_t mask = 0;

        for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++)
            if (model_has(run->model, ns, path[i], holder))
                mask |= (uint8_t)KVT_TIER_MASK(run->model->tiers[holder]);
        assert_int_equal(masks[i], mask);
    }
}

static void
check_path(struct run *run)
{
    const uint32_t ns = below(run, MODEL_NAMESPACES);
    struct index_match matches[MODEL_HOLDERS];
    uint32_t path[MODEL_DEPTH_MAX];
    uint64_t hashes[MODEL_DEPTH_MAX];
    uint64_t tokens[MODEL_DEPTH_MAX];
    const uint32_t length = model_path(run->model, below(run, MODEL_NODES), path);
    size_t count;

    for (uint32_t i = 0; i < length; i++) {
        hashes[i] = run->model->nodes[path[i]].hash;
        tokens[i] = run->model->nodes[path[i]].token;
    }
    count = find_matches(run->index, run->ns[ns], hashes, length, matches, MODEL_HOLDERS);
    check_matches(run, ns, path, length, matches, count);
    run->counts.deep += count > 0 && matches[0].blocks > 32;
    check_found(run, ns, path, length, hashes, INDEX_BY_SEQUENCE, false);
    check_found(run, ns, path, length, hashes, INDEX_BY_SEQUENCE, true);
    if (ns == 0) { /* where all token hashes are known */
        check_found(run, ns, path, length, tokens, INDEX_BY_TOKENS, false);
        check_found(run, ns, path, length, tokens, INDEX_BY_TOKENS, true);
    }
    check_masks(run, ns, path, hashes, length);
}

static void
check_view(struct run *run, uint32_t ns, uint32_t node, struct index_view *view)
{
    const struct model_block *block = &run->model->blocks[ns][node];
    const enum kvt_err rc = index_get(run->index, run->ns[ns], run->model->nodes[node].hash, view);
    uint32_t ranks = 0;

    assert_int_equal(rc, block->count > 0 ? KVT_OK : KVT_NOTFOUND);
    run->counts.ghosts += block->exists && block->count == 0;
    if (rc != KVT_OK)
        return;
    run->counts.crowded += block->count > INDEX_PLACES_MAX;
    run->counts.unlike += block->size != 10;
    assert_int_equal(view->place_count, block->count);
    assert_int_equal(view->block.id.parent, block->parent);
    assert_int_equal(view->block.id.position, block->position);
    assert_int_equal(view->block.tokens_hash, block->token);
    assert_int_equal(view->block.size, block->size);
    for (uint32_t i = 0; i < block->count && i < INDEX_PLACES_MAX; i++)
        assert_int_equal(view->places[i].ranks, block->ranks[view->places[i].holder]);
    for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++)
        ranks |= block->ranks[holder];
    assert_int_equal(view->block.ranks, ranks);
}

/* All of them, and as many as fit. */
static void
check_places(const struct run *run, uint32_t ns, uint32_t node)
{
    const struct model_block *block = &run->model->blocks[ns][node];
    const uint64_t hash = run->model->nodes[node].hash;
    struct index_place places[MODEL_HOLDERS];
    struct index_place first = {.holder = INDEX_HOLDERS_MAX};

    assert_int_equal(index_places(run->index, run->ns[ns], hash, places, MODEL_HOLDERS),
                     block->count);
    for (uint32_t i = 0; i < block->count; i++) {
        assert_true(i == 0 || places[i - 1].holder < places[i].holder);
        assert_true(places[i].ranks != 0);
        assert_int_equal(places[i].ranks, block->ranks[places[i].holder]);
    }
    assert_int_equal(index_places(run->index, run->ns[ns], hash, &first, 1), block->count);
    assert_int_equal(first.holder, block->count > 0 ? places[0].holder : INDEX_HOLDERS_MAX);
    for (uint32_t holder = node % 8; holder < MODEL_HOLDERS; holder += 8)
        assert_int_equal(index_has(run->index, run->ns[ns], hash, holder),
                         block->ranks[holder] != 0);
}

static void
check_family(struct run *run, uint32_t ns, uint32_t node)
{
    const uint64_t hash = run->model->nodes[node].hash;
    uint64_t children[MODEL_NODES];
    struct index_totals totals;
    struct index_totals expected;
    size_t count = 0;
    size_t given = index_children(run->index, run->ns[ns], hash, children, MODEL_NODES);

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        bool found = false;

        if (run->model->blocks[ns][i].count == 0 || run->model->blocks[ns][i].parent != hash)
            continue;
        count++;
        for (size_t j = 0; j < given && !found; j++)
            found = children[j] == run->model->nodes[i].hash;
        assert_true(found);
    }
    assert_int_equal(given, count);
    if (run->model->blocks[ns][node].count == 0) {
        assert_int_equal(
            index_subtree(run->index, run->ns[ns], hash, MODEL_NODES, &run->far, &totals),
            KVT_NOTFOUND);
        return;
    }
    model_totals(run->model, ns, node, &expected);
    assert_int_equal(index_subtree(run->index, run->ns[ns], hash, MODEL_NODES, &run->far, &totals),
                     KVT_OK);
    assert_memory_equal(&totals, &expected, sizeof(totals));
    if (expected.blocks > 1)
        assert_int_equal(index_subtree(run->index, run->ns[ns], hash, 0, &run->far, &totals),
                         KVT_FULL);
}

static void
check_past(const struct run *run, uint32_t ns, uint32_t node)
{
    const struct model_block *block = &run->model->blocks[ns][node];
    struct index_past past[MODEL_PAST];
    const size_t count =
        index_history(run->index, run->ns[ns], run->model->nodes[node].hash, past, MODEL_PAST);

    assert_true(count <= block->past_count);
    if (run->model->changes <= INDEX_HISTORY_CHANGES && !run->tight)
        assert_int_equal(count, block->past_count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(past[i].kind, block->past[i].kind);
        assert_int_equal(past[i].holder, block->past[i].holder);
        assert_int_equal(past[i].time_ms, block->past[i].time_ms);
    }
}

/* Which is colder: used earlier, or deeper. */
static bool
is_colder(const struct run *run, const struct index_candidate *a, const struct index_candidate *b)
{
    const struct model_block *first = &run->model->blocks[a->ns][model_find(run->model, a->hash)];
    const struct model_block *second = &run->model->blocks[b->ns][model_find(run->model, b->hash)];

    return a->used_ms != b->used_ms ? a->used_ms < b->used_ms : first->position > second->position;
}

static void
check_candidates(struct run *run, enum kvt_tier tier, bool coldest)
{
    struct index_candidate *all =
        kvt_calloc(MODEL_NODES * MODEL_NAMESPACES, sizeof(struct index_candidate));
    struct index_candidate some[10];
    size_t expected = 0;
    size_t count;

    assert_non_null(all);
    count = index_candidates(run->index, tier, coldest, all, MODEL_NODES * MODEL_NAMESPACES);
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++) {
        for (uint32_t node = 0; node < MODEL_NODES; node++) {
            bool has = false;

            for (uint32_t holder = 0; holder < MODEL_HOLDERS && !has; holder++)
                has = run->model->tiers[holder] == tier && model_has(run->model, ns, node, holder);
            expected += has;
        }
    }
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        const struct model_block *block =
            &run->model->blocks[all[i].ns][model_find(run->model, all[i].hash)];

        assert_int_equal(all[i].hits, block->hits);
        if (block->read_ms != 0)
            assert_int_equal(all[i].used_ms, block->read_ms);
        else /* a neighbour of its run may have been stored later */
            assert_true(all[i].used_ms >= block->stored_ms && all[i].used_ms <= run->time_ms);
        if (i > 0)
            assert_false(coldest ? is_colder(run, &all[i], &all[i - 1])
                                 : is_colder(run, &all[i - 1], &all[i]));
    }
    count = index_candidates(run->index, tier, coldest, some, 10);
    assert_int_equal(count, expected < 10 ? expected : 10);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(&some[i], &all[i], sizeof(some[i]));
    kvt_free(all);
}

struct walked {
    const struct run *run;
    uint64_t pairs;
};

static void
on_pair(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct walked *walked = arg;
    const uint32_t node = model_find(walked->run->model, block->id.hash);
    const struct model_block *model = &walked->run->model->blocks[ns][node];

    assert_int_equal(model->ranks[holder], block->ranks);
    assert_int_equal(model->size, block->size);
    assert_int_equal(model->parent, block->id.parent);
    assert_int_equal(model->position, block->id.position);
    walked->pairs++;
}

static void
check_stats(struct run *run)
{
    struct index_stats stats;
    const uint64_t orphans = model_orphans(run->model);

    index_stats(run->index, &stats);
    assert_int_equal(stats.blocks, run->model->block_count);
    assert_int_equal(stats.places, run->model->places);
    assert_int_equal(stats.collisions, run->model->collisions);
    assert_int_equal(stats.orphans, orphans);
    assert_int_equal(stats.holders, MODEL_HOLDERS);
    assert_true(stats.bytes <= stats.bytes_max + (run->tight ? BEYOND : 0));
    run->counts.orphans += orphans;
}

static void
check_all(struct run *run)
{
    struct walked walked = {.run = run};
    struct index_view *view = kvt_calloc(1, sizeof(*view));
    uint64_t cursor = 0;

    assert_non_null(view);
    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++) {
        for (uint32_t node = 0; node < MODEL_NODES; node++) {
            check_view(run, ns, node, view);
            check_places(run, ns, node);
            if (node % 16 == 0)
                check_past(run, ns, node);
        }
    }
    kvt_free(view);
    do {
        cursor = index_walk(run->index, cursor, 1 + below(run, 500), on_pair, &walked);
    } while (cursor != 0);
    assert_int_equal(walked.pairs, run->model->places);
    for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++) {
        uint64_t blocks;
        uint64_t bytes;

        index_holder_info(run->index, holder, NULL, &blocks, &bytes);
        assert_int_equal(blocks, run->model->holder_blocks[holder]);
        assert_int_equal(bytes, run->model->holder_bytes[holder]);
    }
    for (int tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++)
        check_candidates(run, (enum kvt_tier)tier, tier % 2 == 0);
    check_stats(run);
}

static void
open_run(struct run *run, uint64_t bytes_max)
{
    static const char *const begins[INDEX_PARTS] = {"hot@", "warm@", "cold@", "far@"};
    char name[16];

    run->random = test_seed();
    run->time_ms = 1000000;
    run->far = (struct index_far){.names = run->far_names};
    run->model = kvt_calloc(1, sizeof(*run->model));
    assert_non_null(run->model);
    model_draw(run->model, &run->random);
    assert_int_equal(index_new(&run->index, bytes_max), KVT_OK);
    for (uint32_t i = 0; i < MODEL_NAMESPACES; i++) {
        (void)snprintf(name, sizeof(name), "ns%" PRIu32, i);
        assert_int_equal(index_namespace(run->index, name, &run->ns[i]), KVT_OK);
        assert_int_equal(run->ns[i], i);
    }
    for (uint32_t i = 0; i < MODEL_HOLDERS; i++) {
        struct index_holder key = {.tier = (enum kvt_tier)(KVT_TIER_G1 + i % 4)};
        uint32_t holder;

        (void)snprintf(key.name, sizeof(key.name), "%sw%" PRIu32, begins[model_part(i)], i / 4);
        if (key.tier == KVT_TIER_G4 && model_part(i) == INDEX_FAR)
            memcpy(run->far_names[run->far.count++], key.name, sizeof(key.name));
        assert_int_equal(index_holder(run->index, &key, &holder), KVT_OK);
        assert_int_equal(holder, i);
        run->model->tiers[i] = key.tier;
    }
}

static void
close_run(struct run *run)
{
    /* Nothing is left when all are gone. */
    for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++) {
        (void)model_drop(run->model, holder, INDEX_NAMESPACE_ALL);
        (void)drop(run->index, holder, INDEX_NAMESPACE_ALL);
    }
    check_all(run);
    assert_int_equal(run->model->places, 0);
    assert_int_equal(model_orphans(run->model), 0);
    index_free(run->index);
    kvt_free(run->model);
}

static void
random_against_model(void **state)
{
    struct run *run = kvt_calloc(1, sizeof(*run));

    (void)state;
    assert_non_null(run);
    open_run(run, PLENTY);
    for (int batch = 0; batch < BATCHES; batch++) {
        const uint32_t what = below(run, 100);

        run->time_ms += below(run, 3000);
        if (what < 70)
            step_batch(run);
        else if (what < 90)
            step_single(run);
        else if (what < 98)
            step_touch(run);
        else
            step_drop(run);
        check_path(run);
        check_family(run, below(run, MODEL_NAMESPACES), below(run, MODEL_NODES));
        if (batch % CHECK_EVERY == 0)
            check_all(run);
    }
    check_all(run);
    print_message("stored %" PRIu64 ", removed %" PRIu64 ", collided %" PRIu64 ", dropped %" PRIu64
                  ", moved %" PRIu64 ", orphans %" PRIu64 ", ghosts %" PRIu64 ", crowded %" PRIu64
                  ", deep %" PRIu64 ", unlike %" PRIu64 "\n",
                  run->counts.stored, run->counts.removed, run->counts.collided,
                  run->counts.dropped, run->counts.moved, run->counts.orphans, run->counts.ghosts,
                  run->counts.crowded, run->counts.deep, run->counts.unlike);
    /* The run met what it is there for. */
    assert_true(run->counts.stored > 10000 && run->counts.removed > 5000);
    assert_true(run->counts.collided > 0 && run->counts.dropped > 0 && run->counts.moved > 0);
    assert_true(run->counts.orphans > 0 && run->counts.ghosts > 0);
    assert_true(run->counts.crowded > 0 && run->counts.deep > 0 && run->counts.unlike > 0);
    close_run(run);
    kvt_free(run);
}

/* Full is an answer: nothing changes, removals never fail, and what they free is used again. */
static void
random_with_little_memory(void **state)
{
    struct run *run = kvt_calloc(1, sizeof(*run));

    (void)state;
    assert_non_null(run);
    run->tight = true;
    open_run(run, TIGHT);
    for (int batch = 0; batch < BATCHES / 2; batch++) {
        const uint32_t what = below(run, 100);

        run->time_ms += below(run, 3000);
        if (what < 80)
            step_batch(run);
        else if (what < 98)
            step_single(run);
        else
            step_drop(run);
        check_path(run);
        if (batch % CHECK_EVERY == 0)
            check_all(run);
    }
    check_all(run);
    print_message("stored %" PRIu64 ", full %" PRIu64 ", stored after that %" PRIu64 "\n",
                  run->counts.stored, run->counts.full, run->counts.stored_after_full);
    assert_true(run->counts.full > 100);
    assert_true(run->counts.stored_after_full > 1000);
    close_run(run);
    kvt_free(run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_against_model),
                                       cmocka_unit_test(random_with_little_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
