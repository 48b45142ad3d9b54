/* engine/rank/rank.h on real storages. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/rank/rank.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/rank_bed.h"

#define PEER 7

/* Two instances in one process, of so many ranks each. */
struct pair {
    struct engine_fabric *fabric;
    struct kvbm_volumes *volumes;
    struct rank_bed own[4];
    struct rank_bed peer[4];
    uint32_t own_ranks;
    uint32_t peer_ranks;
};

static void
pair_open(struct pair *pair, uint32_t own_ranks, uint32_t peer_ranks)
{
    struct kvt_buffer metadata;

    memset(pair, 0, sizeof(*pair));
    pair->own_ranks = own_ranks;
    pair->peer_ranks = peer_ranks;
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    assert_int_equal(engine_fabric_open(&pair->fabric, &(struct engine_fabric_options){0}, NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_new(&pair->volumes, NULL), KVT_OK);
    for (uint32_t r = 0; r < peer_ranks; r++) {
        const struct kvbm_layout layout = rank_bed_layout(peer_ranks, r);

        assert_int_equal(rank_bed_open(&pair->peer[r], &layout, pair->fabric, NULL), KVT_OK);
        assert_int_equal(engine_worker_describe(pair->peer[r].worker, &metadata, 1000, NULL),
                         KVT_OK);
    }
    for (uint32_t r = 0; r < own_ranks; r++) {
        const struct kvbm_layout layout = rank_bed_layout(own_ranks, r);

        assert_int_equal(rank_bed_open(&pair->own[r], &layout, pair->fabric, pair->volumes),
                         KVT_OK);
        for (unsigned i = 0; i < 2; i++) /* once more says the same */
            assert_int_equal(engine_worker_connect(pair->own[r].worker, PEER, metadata.data,
                                                   metadata.size, 1000, NULL),
                             KVT_OK);
    }
    kvt_buffer_release(&metadata);
}

static void
pair_close(struct pair *pair)
{
    for (uint32_t r = 0; r < pair->own_ranks; r++) {
        if (r % 2 == 0)
            engine_worker_disconnect(pair->own[r].worker, PEER);
        rank_bed_close(&pair->own[r]);
    }
    for (uint32_t r = 0; r < pair->peer_ranks; r++)
        rank_bed_close(&pair->peer[r]);
    kvbm_volumes_free(pair->volumes);
    engine_fabric_close(pair->fabric);
}

static void
does_what_workers_do(void **state)
{
    struct pair pair;
    struct rank_bed_side own = {pair.own, 1};
    struct rank_bed_side peer = {pair.peer, 1};

    (void)state;
    pair_open(&pair, 1, 1);
    worker_suite_run(&(struct suite_world){
        .own = rank_bed_side(pair.own[0].worker, &own),
        .peer = rank_bed_side(pair.peer[0].worker, &peer),
        .peer_number = PEER,
        .seed = test_seed(),
        .steps = 3000,
    });
    pair_close(&pair);
}

static enum kvt_err
run_one(struct engine_worker *worker, enum engine_verb verb, enum kvt_tier to, uint64_t number,
        uint32_t source, uint32_t target)
{
    struct engine_item item = {suite_label(number), source, target, KVT_ERR_COUNT};
    struct engine_job job = {
        .verb = verb,
        .to = to,
        .peer = PEER,
        .wait_ms = 10000,
        .items = &item,
        .count = 1,
    };

    return engine_worker_run(worker, &job, NULL);
}

static bool
is_zero(const struct rank_bed *bed, uint32_t block)
{
    const uint8_t *bytes = kvbm_storage_address(bed->options.tiers[KVT_TIER_G2].storage, block);

    for (size_t i = 0; i < bed->options.layout.block_size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* What four ranks have two can pull, and the other way round, byte for byte. */
static void
pulls_other_tp_sizes(void **state)
{
    static const uint32_t sizes[][2] = {{2, 4}, {4, 2}, {1, 4}, {4, 4}, {2, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct pair pair;
        struct rank_bed_side own = {pair.own, sizes[i][0]};
        struct rank_bed_side peer = {pair.peer, sizes[i][1]};
        struct suite_side ours;
        struct suite_side theirs;
        uint32_t last;

        pair_open(&pair, sizes[i][0], sizes[i][1]);
        ours = rank_bed_side(NULL, &own);
        theirs = rank_bed_side(NULL, &peer);
        for (uint32_t block = 0; block < 4; block++) {
            theirs.write(theirs.arg, KVT_TIER_G2, block, 100 + block);
            for (uint32_t r = 0; r < peer.count; r++)
                assert_int_equal(run_one(pair.peer[r].worker, ENGINE_SHOW, (enum kvt_tier)0,
                                         100 + block, block, 0),
                                 KVT_OK);
        }
        for (uint32_t block = 0; block < 4; block++) {
            for (uint32_t r = 0; r < own.count; r++)
                assert_int_equal(run_one(pair.own[r].worker, ENGINE_PULL, KVT_TIER_G2, 100 + block,
                                         block, 7 - block),
                                 KVT_OK);
            assert_true(ours.is(ours.arg, KVT_TIER_G2, 7 - block, 100 + block));
        }
        /* One rank of theirs has it no more, the last whose heads our first one needs: what the
         * others gave is not left. */
        last = peer.count > own.count ? peer.count / own.count - 1 : 0;
        assert_int_equal(run_one(pair.peer[last].worker, ENGINE_HIDE, (enum kvt_tier)0, 0, 2, 0),
                         KVT_OK);
        assert_int_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 102, 2, 0),
                         KVT_NOTFOUND);
        assert_true(is_zero(&pair.own[0], 0));
        pair_close(&pair);
    }
}

/* Whatever writes into G2 hides what was shown there. */
static void
writing_hides(void **state)
{
    static const enum engine_verb verbs[] = {ENGINE_COPY, ENGINE_LOAD, ENGINE_PULL};
    struct pair pair;
    struct rank_bed_side side = {pair.peer, 1};
    struct suite_side peer;

    (void)state;
    pair_open(&pair, 1, 1);
    peer = rank_bed_side(NULL, &side);
    for (size_t i = 0; i < 3; i++) {
        struct engine_item item = {suite_label(9), 0, 1, KVT_OK};
        struct engine_job job = {
            .verb = verbs[i],
            .from = verbs[i] == ENGINE_COPY ? KVT_TIER_G1 : (enum kvt_tier)0,
            .to = KVT_TIER_G2,
            .peer = 99,
            .wait_ms = 1000,
            .items = &item,
            .count = 1,
        };

        peer.write(peer.arg, KVT_TIER_G2, 1, 5);
        assert_int_equal(run_one(pair.peer[0].worker, ENGINE_SHOW, (enum kvt_tier)0, 5, 1, 0),
                         KVT_OK);
        assert_int_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 5, 1, 0), KVT_OK);
        (void)engine_worker_run(verbs[i] == ENGINE_LOAD ? pair.own[0].worker : pair.peer[0].worker,
                                &job, NULL);
        if (verbs[i] != ENGINE_LOAD)
            assert_int_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 5, 1, 0),
                             KVT_NOTFOUND);
    }
    pair_close(&pair);
}

static void
remake(struct kvbm_layout *layout)
{
    const struct kvt_geometry geometry = layout->geometry;

    assert_int_equal(kvbm_layout_make(layout, &geometry, NULL), KVT_OK);
}

/* A description is refused whole: cut, changed, of another model, of ranks that are not there. */
static void
strangers_are_refused(void **state)
{
    struct kvt_buffer metadata;
    struct kvt_error err;
    struct pair pair;
    struct kvbm_layout layout = rank_bed_layout(1, 0);
    struct rank_bed other;

    (void)state;
    pair_open(&pair, 2, 4);
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(engine_worker_describe(pair.peer[r].worker, &metadata, 1000, NULL),
                         KVT_OK);
    for (size_t cut = 0; cut < metadata.size; cut += 37) {
        const enum kvt_err rc =
            engine_worker_connect(pair.own[0].worker, 1, metadata.data, cut, 1000, &err);

        assert_true(rc == KVT_INVALID || rc == KVT_CORRUPT || rc == KVT_PRECONDITION ||
                    (rc == KVT_OK && cut == metadata.size / 2));
        if (rc == KVT_OK)
            engine_worker_disconnect(pair.own[0].worker, 1);
    }
    /* The first half of their ranks is all that our rank 0 needs, and nothing that rank 1 does. */
    assert_int_equal(
        engine_worker_connect(pair.own[1].worker, 1, metadata.data, metadata.size / 2, 1000, &err),
        KVT_PRECONDITION);
    assert_non_null(strstr(err.text, "rank 2 is needed"));
    for (size_t at = 4; at < metadata.size / 4; at += 97) {
        metadata.data[at] ^= 0x10;
        assert_int_not_equal(
            engine_worker_connect(pair.own[0].worker, 1, metadata.data, metadata.size, 1000, &err),
            KVT_OK);
        metadata.data[at] ^= 0x10;
    }
    assert_int_equal(engine_worker_connect(pair.own[0].worker, PEER, metadata.data,
                                           metadata.size / 2, 1000, &err),
                     KVT_EXISTS);

    layout.geometry.layers = 5;
    layout.geometry.inner_dim = 128;
    remake(&layout);
    assert_int_equal(rank_bed_open(&other, &layout, pair.fabric, NULL), KVT_OK);
    assert_int_equal(
        engine_worker_connect(other.worker, 1, metadata.data, metadata.size, 1000, &err),
        KVT_PRECONDITION);
    assert_non_null(strstr(err.text, "layers is 5 here, 4 there"));
    rank_bed_close(&other);

    layout = rank_bed_layout(1, 0);
    layout.geometry.kind = KVT_LAYOUT_CONTIGUOUS; /* nothing is one run for all heads in it */
    remake(&layout);
    assert_int_equal(rank_bed_open(&other, &layout, pair.fabric, NULL), KVT_OK);
    assert_int_equal(
        engine_worker_connect(other.worker, 1, metadata.data, metadata.size, 1000, &err),
        KVT_PRECONDITION);
    rank_bed_close(&other);
    kvt_buffer_release(&metadata);
    pair_close(&pair);
}

/* Who dropped its set is away, also for those who know it. */
static void
dropped_sets_are_stale(void **state)
{
    struct pair pair;
    struct rank_bed_side side = {pair.peer, 1};

    (void)state;
    pair_open(&pair, 1, 1);
    rank_bed_side(NULL, &side).write(&side, KVT_TIER_G2, 1, 5);
    assert_int_equal(run_one(pair.peer[0].worker, ENGINE_SHOW, (enum kvt_tier)0, 5, 1, 0), KVT_OK);
    assert_int_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 5, 1, 0), KVT_OK);
    rank_bed_close(&pair.peer[0]);
    pair.peer_ranks = 0;
    assert_int_not_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 5, 1, 0), KVT_OK);
    engine_worker_disconnect(pair.own[0].worker, PEER);
    assert_int_equal(run_one(pair.own[0].worker, ENGINE_PULL, KVT_TIER_G2, 5, 1, 0),
                     KVT_UNAVAILABLE);
    pair_close(&pair);
}

static bool
open_and_use(void *arg)
{
    struct pair *pair = arg;
    const struct kvbm_layout layout = rank_bed_layout(1, 0);
    const uint32_t numbers[] = {1, 2};
    struct engine_fabric *fabric;
    struct kvt_buffer metadata;
    struct rank_bed bed;
    bool well = false;

    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    /* A fabric keeps something of every region that there was. */
    if (engine_fabric_open(&fabric, &(struct engine_fabric_options){0}, NULL) != KVT_OK)
        return false;
    if (rank_bed_open(&bed, &layout, fabric, pair->volumes) != KVT_OK)
        goto out;
    for (uint32_t block = 0; block < 2; block++)
        content_fill(&layout, kvbm_storage_address(bed.options.tiers[KVT_TIER_G2].storage, block),
                     numbers[block]);
    well =
        engine_worker_describe(pair->peer[0].worker, &metadata, 1000, NULL) == KVT_OK &&
        engine_worker_connect(bed.worker, PEER, metadata.data, metadata.size, 1000, NULL) == KVT_OK;
    for (uint32_t block = 0; well && block < 2; block++) {
        struct engine_item item = {suite_label(numbers[block]), block, block + 2, KVT_OK};
        struct engine_job job = {.items = &item, .count = 1, .wait_ms = 10000, .peer = PEER};
        static const enum engine_verb verbs[] = {ENGINE_COPY, ENGINE_STORE, ENGINE_LOAD,
                                                 ENGINE_ASK,  ENGINE_SHOW,  ENGINE_PULL};

        for (size_t i = 0; well && i < 6; i++) {
            job.verb = verbs[i];
            job.from = KVT_TIER_G2;
            job.to = verbs[i] == ENGINE_COPY ? KVT_TIER_G1 : KVT_TIER_G2;
            if (verbs[i] == ENGINE_PULL)
                item.label = suite_label(5), item.source = 1;
            well = engine_worker_run(bed.worker, &job, NULL) == KVT_OK;
        }
    }
    rank_bed_close(&bed);
out:
    engine_fabric_close(fabric);
    kvt_buffer_release(&metadata);
    return well;
}

static void
survives_failing_allocations(void **state)
{
    struct pair pair;
    struct rank_bed_side side = {pair.peer, 1};

    (void)state;
    pair_open(&pair, 1, 1);
    rank_bed_side(NULL, &side).write(&side, KVT_TIER_G2, 1, 5);
    assert_int_equal(run_one(pair.peer[0].worker, ENGINE_SHOW, (enum kvt_tier)0, 5, 1, 0), KVT_OK);
    assert_true(open_and_use(&pair)); /* what stays in the object tier is there from now on */
    assert_true(test_sweep_allocations(open_and_use, &pair) > 10);
    pair_close(&pair);
}

static void
count_done(void *arg, const struct engine_outcome *outcome)
{
    (void)outcome;
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static void
wait_done(_Atomic unsigned *done)
{
    for (unsigned i = 0; i < 10000 && atomic_load(done) == 0; i++)
        kvt_clock_sleep_ms(1);
    assert_int_equal(atomic_load(done), 1);
}

/* As many jobs as may be, most of them cancelled or late: each ends once. */
static void
crowds_end(void **state)
{
    static struct engine_item items[2 * ENGINE_JOBS_MAX];
    static struct engine_job jobs[2 * ENGINE_JOBS_MAX];
    _Atomic unsigned done = 0;
    unsigned started = 0;
    struct pair pair;
    uint64_t random = test_seed();

    (void)state;
    pair_open(&pair, 1, 1);
    for (unsigned round = 0; round < 20; round++) {
        const unsigned before = started;

        for (unsigned i = 0; i < 2 * ENGINE_JOBS_MAX; i++) {
            enum kvt_err rc;

            items[i] = (struct engine_item){suite_label(1), 0, i % RANK_BED_BLOCKS, KVT_OK};
            jobs[i] = (struct engine_job){
                .verb = i % 2 == 0 ? ENGINE_PULL : ENGINE_ASK,
                .to = KVT_TIER_G2,
                .peer = PEER + 1, /* nobody: no two write one block */
                .wait_ms = kvt_random_below(&random, 3),
                .items = &items[i],
                .count = 1,
                .done = count_done,
                .arg = &done,
            };
            rc = engine_worker_start(pair.own[0].worker, &jobs[i]);
            assert_true(rc == KVT_OK || rc == KVT_AGAIN);
            started += rc == KVT_OK;
            if (rc == KVT_OK && kvt_random_below(&random, 2) == 0)
                engine_worker_cancel(pair.own[0].worker, &jobs[i]);
        }
        for (unsigned i = 0; atomic_load(&done) < started && i < 10000; i++)
            kvt_clock_sleep_ms(1);
        assert_int_equal(atomic_load(&done), started);
        assert_true(started > before);
    }
    pair_close(&pair);
}

/* A job in pages of its own. */
struct page {
    struct engine_job job;
    struct engine_item item;
    struct engine_worker *worker;
    _Atomic unsigned *done;
};

static void
take_page_away(void *arg, const struct engine_outcome *outcome)
{
    const struct page held = *(struct page *)arg;

    (void)outcome;
    assert_int_equal(munmap(arg, sizeof(struct page)), 0);
    engine_worker_disconnect(held.worker, PEER); /* nobody pulls: it does not wait */
    atomic_fetch_add(held.done, 1);
}

/* A job is its owner's again when he is told of its end. */
static void
ended_jobs_are_not_looked_at(void **state)
{
    struct kvt_buffer metadata;
    struct pair pair;

    (void)state;
    pair_open(&pair, 1, 1);
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    assert_int_equal(engine_worker_describe(pair.peer[0].worker, &metadata, 1000, NULL), KVT_OK);
    for (unsigned i = 0; i < 50; i++) {
        struct engine_worker *worker = pair.own[0].worker;
        _Atomic unsigned done = 0;
        struct page *page =
            mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        assert_true(page != MAP_FAILED);
        assert_int_equal(
            engine_worker_connect(worker, PEER, metadata.data, metadata.size, 1000, NULL), KVT_OK);
        *page = (struct page){{.verb = ENGINE_COPY,
                               .from = KVT_TIER_G1,
                               .to = KVT_TIER_G2,
                               .wait_ms = 10000,
                               .items = &page->item,
                               .count = 1,
                               .done = take_page_away,
                               .arg = page},
                              {suite_label(1), 0, 0, KVT_OK},
                              worker,
                              &done};
        assert_int_equal(engine_worker_start(worker, &page->job), KVT_OK);
        wait_done(&done);
    }
    kvt_buffer_release(&metadata);
    pair_close(&pair);
}

/* A volume that is stuck until it is told. */
struct stuck {
    struct kvbm_volume head;
    _Atomic bool go;
};

static void
stuck_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    while (!atomic_load(&((struct stuck *)volume)->go))
        kvt_clock_sleep_ms(1);
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_NOTFOUND;
}

static void
stuck_close(struct kvbm_volume *volume)
{
    (void)volume;
}

/* What waits behind something that is stuck ends in time, what has begun when it ends. */
static void
deadlines_are_kept(void **state)
{
    static const struct kvbm_volume_driver driver = {
        .kind = "stuck", .get = stuck_get, .put = stuck_get, .close = stuck_close};
    const struct kvbm_layout layout = rank_bed_layout(1, 0);
    struct stuck stuck = {.head = {&driver, layout.block_size}};
    _Atomic unsigned done[3] = {0, 0, 0};
    struct engine_item items[3];
    struct engine_job jobs[3];
    struct kvbm_volumes *volumes;
    struct rank_bed bed;

    (void)state;
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(volumes, 0, &stuck.head, 8, NULL), KVT_OK);
    assert_int_equal(rank_bed_open(&bed, &layout, NULL, volumes), KVT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        items[i] = (struct engine_item){suite_label(1), 0, i, KVT_OK};
        jobs[i] = (struct engine_job){
            .verb = ENGINE_LOAD,
            .to = KVT_TIER_G2,
            .wait_ms = i == 1 ? 50 : UINT64_MAX,
            .items = &items[i],
            .count = 1,
            .done = count_done,
            .arg = &done[i],
        };
        assert_int_equal(engine_worker_start(bed.worker, &jobs[i]), KVT_OK);
        kvt_clock_sleep_ms(i == 0 ? 50 : 0); /* the first is begun */
    }
    wait_done(&done[1]);
    assert_int_equal(items[1].status, KVT_TIMEOUT);
    engine_worker_cancel(bed.worker, &jobs[2]);
    wait_done(&done[2]);
    assert_int_equal(items[2].status, KVT_CANCELLED);
    assert_int_equal(atomic_load(&done[0]), 0);
    atomic_store(&stuck.go, true);
    wait_done(&done[0]);
    rank_bed_close(&bed);
    kvbm_volumes_free(volumes);
}

/* ---- what is stored from a disk ---- */

enum { STORED = 40 }; /* more than one slice of a volume */

static void
names_of(struct engine_item *items, size_t count)
{
    for (uint32_t i = 0; i < count; i++)
        items[i] =
            (struct engine_item){suite_label(1 + i), i % (RANK_BED_BLOCKS - 1), 0, KVT_ERR_COUNT};
}

static void
write_disk(const struct rank_bed *bed)
{
    struct kvbm_storage *disk = bed->options.tiers[KVT_TIER_G3].storage;
    void *bytes = kvt_aligned(KVBM_STORAGE_ALIGN, disk->block_size);

    assert_non_null(bytes);
    for (uint32_t block = 0; block < RANK_BED_BLOCKS - 1; block++) {
        struct kvbm_storage_io io = {.host = bytes, .block = block};

        content_fill(&bed->options.layout, bytes, block);
        kvbm_storage_write(disk, &io, 1);
        assert_int_equal(io.status, KVT_OK);
    }
    kvt_free(bytes);
}

static void
a_disk_is_stored_from(void **state)
{
    const struct kvbm_layout layout = rank_bed_layout(1, 0);
    struct engine_item items[STORED];
    struct engine_job job = {.verb = ENGINE_STORE,
                             .from = KVT_TIER_G3,
                             .wait_ms = 20000,
                             .items = items,
                             .count = STORED};
    struct kvbm_volumes *volumes;
    struct rank_bed bed;

    (void)state;
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    assert_int_equal(rank_bed_open(&bed, &layout, NULL, volumes), KVT_OK);
    write_disk(&bed);
    names_of(items, STORED);
    items[3].source = RANK_BED_BLOCKS - 1; /* nobody wrote it */
    assert_int_equal(engine_worker_run(bed.worker, &job, NULL), KVT_NOTFOUND);
    for (uint32_t i = 0; i < STORED; i++) {
        assert_int_equal(items[i].status, i == 3 ? KVT_NOTFOUND : KVT_OK);
        assert_int_equal(run_one(bed.worker, ENGINE_LOAD, KVT_TIER_G2, 1 + i, 0, 5),
                         i == 3 ? KVT_NOTFOUND : KVT_OK);
        if (i != 3)
            assert_true(content_is(&layout,
                                   kvbm_storage_address(bed.options.tiers[KVT_TIER_G2].storage, 5),
                                   items[i].source));
    }
    names_of(items, STORED);
    assert_int_equal(engine_worker_run(bed.worker, &job, NULL), KVT_OK); /* 3 now, too */
    assert_int_equal(items[0].status, KVT_EXISTS);
    assert_int_equal(items[3].status, KVT_OK);
    rank_bed_close(&bed);
    kvbm_volumes_free(volumes);
}

/* One that is under way ends with what it has begun; what waits behind it at once.  Pulls and what
 * is shown have threads of their own meanwhile. */
static void
what_is_stored_from_a_disk_ends_in_time(void **state)
{
    static const struct kvbm_volume_driver driver = {
        .kind = "stuck", .get = stuck_get, .put = stuck_get, .close = stuck_close};
    const struct kvbm_layout layout = rank_bed_layout(1, 0);
    struct stuck stuck = {.head = {&driver, layout.block_size}};
    _Atomic unsigned done[3] = {0, 0, 0};
    struct engine_item items[3][STORED];
    struct engine_job jobs[3];
    struct kvbm_volumes *volumes;
    struct rank_bed bed;

    (void)state;
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(volumes, 0, &stuck.head, 8, NULL), KVT_OK);
    assert_int_equal(rank_bed_open(&bed, &layout, NULL, volumes), KVT_OK);
    write_disk(&bed);
    for (uint32_t i = 0; i < 3; i++) {
        names_of(items[i], STORED);
        jobs[i] = (struct engine_job){
            .verb = ENGINE_STORE,
            .from = KVT_TIER_G3,
            .wait_ms = i == 2 ? UINT64_MAX : 150,
            .items = items[i],
            .count = STORED,
            .done = count_done,
            .arg = &done[i],
        };
        assert_int_equal(engine_worker_start(bed.worker, &jobs[i]), KVT_OK);
    }
    wait_done(&done[1]);
    assert_int_equal(items[1][0].status, KVT_TIMEOUT); /* behind the first */
    engine_worker_cancel(bed.worker, &jobs[2]);
    wait_done(&done[2]);
    assert_int_equal(items[2][0].status, KVT_CANCELLED);
    assert_int_equal(atomic_load(&done[0]), 0);
    atomic_store(&stuck.go, true);
    wait_done(&done[0]);
    assert_int_equal(items[0][0].status, KVT_NOTFOUND); /* as the volume says */
    assert_int_equal(items[0][STORED - 1].status, KVT_TIMEOUT);
    rank_bed_close(&bed);
    kvbm_volumes_free(volumes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_workers_do),
        cmocka_unit_test(pulls_other_tp_sizes),
        cmocka_unit_test(writing_hides),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(dropped_sets_are_stale),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(crowds_end),
        cmocka_unit_test(ended_jobs_are_not_looked_at),
        cmocka_unit_test(deadlines_are_kept),
        cmocka_unit_test(a_disk_is_stored_from),
        cmocka_unit_test(what_is_stored_from_a_disk_ends_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
