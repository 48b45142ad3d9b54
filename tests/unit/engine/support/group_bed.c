#include "tests/unit/engine/support/group_bed.h"

#include "base/thread/cond.h"

struct kvbm_layout
group_bed_layout(uint32_t tp_size, uint32_t tp_rank)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = BED_LAYERS,
        .outer = 2,
        .page_size = 4,
        .inner_dim = 4 * 16 / tp_size,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = tp_size,
        .tp_rank = tp_rank,
        .heads = 4 / tp_size,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

void
group_bed_open(struct group_bed *bed, uint32_t tp_size, enum fake_ending ending,
               struct fake_objects *objects)
{
    bed->objects = objects;
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        const struct fake_options options = {
            .layout = group_bed_layout(tp_size, tp_size == 1 ? 0 : r),
            .blocks = {[KVT_TIER_G1] = BED_BLOCKS, [KVT_TIER_G2] = BED_BLOCKS + r},
            .objects = objects,
            .ending = ending,
            .delay_us = 1500,
            .seed = test_seed() + r,
        };

        bed->ranks[r] = fake_worker_open(&options);
        assert_non_null(bed->ranks[r]);
    }
}

static void
note_end(void *arg, const struct engine_outcome *outcome)
{
    struct bed_job *job = arg;

    (void)pthread_mutex_lock(&job->lock);
    job->ends++;
    job->outcome = *outcome;
    (void)pthread_cond_signal(&job->ended);
    (void)pthread_mutex_unlock(&job->lock);
}

void
group_bed_job_set(struct bed_job *job, enum engine_verb verb, enum kvt_tier from, enum kvt_tier to,
                  uint64_t number, uint32_t source, uint32_t target, size_t count)
{
    assert_true(count <= BED_ITEMS);
    *job = (struct bed_job){.ends = 0};
    assert_int_equal(pthread_mutex_init(&job->lock, NULL), 0);
    assert_true(kvt_cond_init(&job->ended));
    for (size_t i = 0; i < count; i++)
        job->items[i] = (struct engine_item){
            .label = {.id = {.hash = number + i, .parent = number + i - 1, .position = 1}},
            .source = source + (uint32_t)i,
            .target = target + (uint32_t)i,
            .status = KVT_ERR_COUNT,
        };
    job->job = (struct engine_job){
        .verb = verb,
        .from = from,
        .to = to,
        .priority = KVT_PRIORITY_HIGH,
        .wait_ms = 10000,
        .items = job->items,
        .count = count,
        .done = note_end,
        .arg = job,
    };
}

void
group_bed_job_free(struct bed_job *job)
{
    (void)pthread_cond_destroy(&job->ended);
    (void)pthread_mutex_destroy(&job->lock);
}

unsigned
group_bed_job_ends(struct bed_job *job)
{
    unsigned ends;

    (void)pthread_mutex_lock(&job->lock);
    ends = job->ends;
    (void)pthread_mutex_unlock(&job->lock);
    return ends;
}

void
group_bed_job_wait(struct bed_job *job)
{
    const struct timespec deadline = kvt_cond_deadline(20000);
    bool late = false;

    (void)pthread_mutex_lock(&job->lock);
    while (job->ends == 0 && !late)
        late = !kvt_cond_wait(&job->ended, &job->lock, &deadline);
    assert_int_equal(job->ends, 1);
    (void)pthread_mutex_unlock(&job->lock);
}

enum kvt_err
group_bed_job_run(struct bed_job *job, struct engine_worker *worker)
{
    const enum kvt_err rc = engine_worker_start(worker, &job->job);

    if (rc != KVT_OK) {
        assert_int_equal(group_bed_job_ends(job), 0);
        return rc;
    }
    group_bed_job_wait(job);
    return job->outcome.status;
}
