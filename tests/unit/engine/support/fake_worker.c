#include "tests/unit/engine/support/fake_worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"

#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker_internal.h"

#define MILLION 1000000u

/* Memory ----------------------------------------------------------------------------------- */

struct kvbm_layout_memory
fake_memory(const struct fake *fake, enum kvt_tier tier)
{
    return (struct kvbm_layout_memory){&fake->head.layout, &fake->tiers[tier].part,
                                       fake->tiers[tier].blocks};
}

uint8_t *
fake_block(struct fake *fake, enum kvt_tier tier, uint32_t block)
{
    assert(tier >= KVT_TIER_G1 && tier <= KVT_TIER_G3 && block < fake->tiers[tier].blocks);
    return fake->tiers[tier].bytes + block * fake->head.layout.block_stride;
}

static struct fake_cell *
cell(struct fake *fake, enum kvt_tier tier, uint32_t block, uint32_t layer)
{
    return &fake->tiers[tier].cells[(size_t)block * fake->head.layout.geometry.layers + layer];
}

/* Bytes that are no content. */
static void
scribble(struct fake *fake, enum kvt_tier tier, uint32_t block, uint32_t layer, uint32_t layers)
{
    content_fill_layers(&fake->head.layout, fake_block(fake, tier, block), ~(uint64_t)block, layer,
                        layers);
}

/* What a job uses -------------------------------------------------------------------------- */

static enum kvt_tier
source_of(const struct engine_job *job)
{
    if (job->verb == ENGINE_COPY || job->verb == ENGINE_STORE)
        return job->from;
    return job->verb == ENGINE_SHOW ? KVT_TIER_G2 : (enum kvt_tier)0;
}

static enum kvt_tier
target_of(const struct engine_job *job)
{
    return job->verb == ENGINE_COPY || job->verb == ENGINE_LOAD || job->verb == ENGINE_PULL
               ? job->to
               : (enum kvt_tier)0;
}

static uint32_t
layers_of(const struct fake *fake, const struct engine_job *job)
{
    return job->layers == 0 ? fake->head.layout.geometry.layers : job->layers;
}

static void
claim_locked(struct fake *fake, const struct engine_job *job)
{
    const enum kvt_tier from = source_of(job);
    const enum kvt_tier to = target_of(job);

    for (size_t i = 0; i < job->count; i++) {
        const struct engine_item *item = &job->items[i];
        bool known = from == 0;

        for (uint32_t k = job->layer; k < job->layer + layers_of(fake, job); k++) {
            if (from != 0) {
                struct fake_cell *source = cell(fake, from, item->source, k);

                assert(!source->writer && "reads a block that another job writes");
                assert((source->written || job->verb == ENGINE_SHOW) && "reads what nobody wrote");
                known = known || source->written;
                source->readers++;
            }
            if (to != 0) {
                struct fake_cell *target = cell(fake, to, item->target, k);

                assert(!target->writer && "two write one block");
                assert(target->readers == 0 && "writes a block that another job reads");
                target->writer = true;
                target->written = false;
            }
        }
        assert(known && "shows what nobody wrote");
        if (to == KVT_TIER_G2 || job->verb == ENGINE_HIDE)
            fake->shown[to == KVT_TIER_G2 ? item->target : item->source].shown = false;
    }
}

static void
release_locked(struct fake *fake, const struct engine_job *job)
{
    const enum kvt_tier from = source_of(job);
    const enum kvt_tier to = target_of(job);

    for (size_t i = 0; i < job->count; i++)
        for (uint32_t k = job->layer; k < job->layer + layers_of(fake, job); k++) {
            if (from != 0)
                cell(fake, from, job->items[i].source, k)->readers--;
            if (to != 0) {
                cell(fake, to, job->items[i].target, k)->writer = false;
                cell(fake, to, job->items[i].target, k)->written = job->items[i].status == KVT_OK;
            }
        }
}

/* What a job does -------------------------------------------------------------------------- */

static enum kvt_err
do_item(struct fake *fake, const struct engine_job *job, const struct engine_item *item)
{
    const struct kvt_block_id *id = &item->label.id;
    const uint32_t rank = fake->head.layout.geometry.tp_rank;
    const size_t size = fake->head.layout.block_size;

    switch (job->verb) {
    case ENGINE_COPY: {
        const struct kvbm_layout_memory target = fake_memory(fake, job->to);
        const struct kvbm_layout_memory source = fake_memory(fake, job->from);
        const struct kvbm_layout_slice slice =
            kvbm_layout_layers(&fake->head.layout, job->layer, layers_of(fake, job));

        kvbm_layout_copy(&target, item->target, &source, item->source, &slice);
        return KVT_OK;
    }
    case ENGINE_LOAD:
        return fake_objects_get(fake->options.objects, rank, id,
                                fake_block(fake, job->to, item->target), size);
    case ENGINE_STORE:
        return fake_objects_put(fake->options.objects, rank, id,
                                fake_block(fake, job->from, item->source), size);
    case ENGINE_PULL:
        return job->peer == ENGINE_PEER_G1 ? fake_pull_shared(fake, job, item)
                                           : fake_pull(fake, job->peer, item, job->to);
    case ENGINE_ASK:
        return fake_objects_has(fake->options.objects, rank, id) ? KVT_OK : KVT_NOTFOUND;
    case ENGINE_SHOW:
        (void)pthread_mutex_lock(&fake->lock);
        fake->shown[item->source] = (struct fake_shown){true, item->label};
        (void)pthread_mutex_unlock(&fake->lock);
        return KVT_OK;
    default: return KVT_OK;
    }
}

static bool
chance_locked(struct fake *fake, uint32_t ppm)
{
    return ppm > 0 && kvt_random_below(&fake->random, MILLION) < ppm;
}

/* Do it, and say so: `made` is out of the list. */
static void
execute(struct fake *fake, struct fake_job *made)
{
    struct engine_job *job = made->job;
    const enum kvt_tier to = target_of(job);

    for (size_t i = 0; i < job->count; i++) {
        struct engine_item *item = &job->items[i];
        bool fails;

        (void)pthread_mutex_lock(&fake->lock);
        fails = chance_locked(fake, fake->options.faults.fail);
        (void)pthread_mutex_unlock(&fake->lock);
        item->status = made->fate != KVT_OK ? made->fate
                       : fails              ? KVT_IO
                                            : do_item(fake, job, item);
        if (to != 0 && item->status != KVT_OK)
            scribble(fake, to, item->target, job->layer, layers_of(fake, job));
    }
    (void)pthread_mutex_lock(&fake->lock);
    release_locked(fake, job);
    for (struct fake_job **at = &fake->jobs; *at != NULL; at = &(*at)->next)
        if (*at == made) {
            *at = made->next;
            break;
        }
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
    kvt_free(made);
    engine_job_finish(&fake->head, job, NULL);
}

/* LATER ------------------------------------------------------------------------------------ */

static uint64_t
due(const struct fake_job *made)
{
    return made->due_ns < made->end_ns ? made->due_ns : made->end_ns;
}

static struct fake_job *
first_due_locked(struct fake *fake)
{
    struct fake_job *first = NULL;

    for (struct fake_job *made = fake->jobs; made != NULL; made = made->next)
        if (!made->begun && (first == NULL || due(made) < due(first)))
            first = made;
    return first;
}

static void *
run_later(void *arg)
{
    struct fake *fake = arg;

    (void)pthread_mutex_lock(&fake->lock);
    while (!fake->closing) {
        struct fake_job *made = first_due_locked(fake);
        const uint64_t now = kvt_clock_mono_ns();

        if (made != NULL && due(made) <= now) {
            if (made->end_ns < made->due_ns && made->fate == KVT_OK)
                made->fate = KVT_TIMEOUT;
            made->begun = true;
            (void)pthread_mutex_unlock(&fake->lock);
            execute(fake, made);
            (void)pthread_mutex_lock(&fake->lock);
        } else {
            const uint64_t wait = made == NULL || due(made) - now > 1000000000u
                                      ? 1000
                                      : (due(made) - now) / 1000000u + 1;
            const struct timespec deadline = kvt_cond_deadline(wait);

            (void)kvt_cond_wait(&fake->changed, &fake->lock, &deadline);
        }
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return NULL;
}

/* The table -------------------------------------------------------------------------------- */

static void
draw_fate_locked(struct fake *fake, const struct engine_job *job, struct fake_job *made)
{
    bool stalls = chance_locked(fake, fake->options.faults.stall);

    made->due_ns = kvt_clock_mono_ns();
    made->end_ns =
        job->wait_ms > UINT64_MAX / 2000000u ? UINT64_MAX : made->due_ns + job->wait_ms * 1000000u;
    made->due_ns += 1000 * kvt_random_below(&fake->random, fake->options.delay_us + 1u);
    if (fake->planned.nth > 0 && (fake->planned.verb == 0 || fake->planned.verb == job->verb) &&
        --fake->planned.nth == 0) {
        made->fate = fake->planned.status;
        stalls = made->fate == KVT_TIMEOUT;
    }
    if (stalls) {
        made->fate = KVT_TIMEOUT;
        made->due_ns = UINT64_MAX;
    }
}

static enum kvt_err
start(struct engine_worker *worker, struct engine_job *job)
{
    struct fake *fake = (struct fake *)worker;
    enum kvt_err rc = engine_job_check(worker, job, NULL);
    struct fake_job *made;
    size_t count = 0;

    if (rc != KVT_OK)
        return rc;
    made = kvt_calloc(1, sizeof(*made));
    if (made == NULL)
        return KVT_NOMEM;
    made->job = job;
    (void)pthread_mutex_lock(&fake->lock);
    for (const struct fake_job *at = fake->jobs; at != NULL; at = at->next)
        count++;
    if (fake->dead)
        rc = KVT_UNAVAILABLE;
    else if (count >= ENGINE_JOBS_MAX || chance_locked(fake, fake->options.faults.refuse))
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        struct fake_job **last = &fake->jobs;

        fake->started[job->verb]++;
        fake->items[job->verb] += job->count;
        claim_locked(fake, job);
        draw_fate_locked(fake, job, made);
        made->begun = fake->options.ending == FAKE_AT_ONCE;
        while (*last != NULL)
            last = &(*last)->next;
        *last = made;
        (void)pthread_cond_broadcast(&fake->changed);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (rc != KVT_OK)
        kvt_free(made);
    else if (fake->options.ending == FAKE_AT_ONCE)
        execute(fake, made);
    return rc;
}

/* End on this thread what has not begun, one job or (NULL) all. */
static void
end_early(struct fake *fake, const struct engine_job *job, enum kvt_err fate)
{
    struct fake_job *made;

    do {
        (void)pthread_mutex_lock(&fake->lock);
        for (made = fake->jobs; made != NULL; made = made->next)
            if (!made->begun && (job == NULL || made->job == job))
                break;
        if (made != NULL) {
            made->begun = true;
            made->fate = fate;
        }
        (void)pthread_mutex_unlock(&fake->lock);
        if (made != NULL)
            execute(fake, made);
    } while (made != NULL && job == NULL);
}

static void
cancel(struct engine_worker *worker, struct engine_job *job)
{
    end_early((struct fake *)worker, job, KVT_CANCELLED);
}

static void
close_fake(struct engine_worker *worker)
{
    struct fake *fake = (struct fake *)worker;

    fake_die(fake);
    (void)pthread_mutex_lock(&fake->lock);
    assert(fake->jobs == NULL && "closed while a job goes on");
    fake->closing = true;
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
    if (fake->options.ending == FAKE_LATER)
        (void)pthread_join(fake->thread, NULL);
    for (size_t i = 0; i < KVT_TIER_G4; i++) {
        free(fake->tiers[i].bytes);
        free(fake->tiers[i].cells);
    }
    free(fake->shown);
    (void)pthread_cond_destroy(&fake->changed);
    (void)pthread_mutex_destroy(&fake->lock);
    kvt_free(fake);
}

static const struct engine_worker_ops fake_ops = {
    .kind = "fake",
    .start = start,
    .cancel = cancel,
    .describe = fake_describe,
    .connect = fake_connect,
    .disconnect = fake_disconnect,
    .share = fake_share,
    .close = close_fake,
};

/* A tier nobody has written yet: rubbish. */
static void
spoil(struct fake *fake, enum kvt_tier tier)
{
    struct fake_tier *at = &fake->tiers[tier];
    const uint32_t layers = fake->head.layout.geometry.layers;

    for (uint32_t block = 0; block < at->blocks; block++) {
        scribble(fake, tier, block, 0, layers);
        for (uint32_t k = 0; k < layers; k++)
            *cell(fake, tier, block, k) = (struct fake_cell){.written = false};
    }
}

static void
open_tiers(struct fake *fake)
{
    const struct kvbm_layout *layout = &fake->head.layout;

    assert(kvbm_layout_parts(layout) == 1);
    for (enum kvt_tier tier = KVT_TIER_G1; tier <= KVT_TIER_G3; tier++) {
        struct fake_tier *at = &fake->tiers[tier];

        at->blocks = fake->head.blocks[tier];
        if (at->blocks == 0)
            continue;
        at->bytes = malloc(kvbm_layout_allocation(layout, at->blocks));
        at->cells = calloc((size_t)at->blocks * layout->geometry.layers, sizeof(*at->cells));
        assert(at->bytes != NULL && at->cells != NULL);
        at->part = (uint64_t)(uintptr_t)at->bytes;
        spoil(fake, tier);
    }
    fake->shown = calloc(fake->head.blocks[KVT_TIER_G2] + 1u, sizeof(*fake->shown));
    assert(fake->shown != NULL);
}

struct engine_worker *
fake_worker_open(const struct fake_options *options)
{
    struct fake *fake = kvt_calloc(1, sizeof(*fake));

    if (fake == NULL)
        return NULL;
    fake->options = *options;
    fake->random = options->seed;
    fake->head = (struct engine_worker){
        .ops = &fake_ops,
        .layout = options->layout,
        .ranks = 1,
        .objects = options->objects != NULL,
    };
    memcpy(fake->head.blocks, options->blocks, sizeof(fake->head.blocks));
    open_tiers(fake);
    assert(pthread_mutex_init(&fake->lock, NULL) == 0 && kvt_cond_init(&fake->changed));
    fake_live(fake);
    if (options->ending == FAKE_LATER)
        assert(pthread_create(&fake->thread, NULL, run_later, fake) == 0);
    return &fake->head;
}

/* For tests -------------------------------------------------------------------------------- */

void
fake_worker_faults(struct engine_worker *worker, const struct fake_faults *faults)
{
    struct fake *fake = (struct fake *)worker;

    (void)pthread_mutex_lock(&fake->lock);
    fake->options.faults = *faults;
    (void)pthread_mutex_unlock(&fake->lock);
}

void
fake_worker_fail(struct engine_worker *worker, enum engine_verb verb, uint32_t nth,
                 enum kvt_err status)
{
    struct fake *fake = (struct fake *)worker;

    (void)pthread_mutex_lock(&fake->lock);
    fake->planned.verb = verb;
    fake->planned.nth = nth;
    fake->planned.status = status;
    (void)pthread_mutex_unlock(&fake->lock);
}

bool
fake_worker_step(struct engine_worker *worker)
{
    struct fake *fake = (struct fake *)worker;
    struct fake_job *made;

    (void)pthread_mutex_lock(&fake->lock);
    made = fake->jobs;
    while (made != NULL && made->begun)
        made = made->next;
    if (made != NULL)
        made->begun = true;
    (void)pthread_mutex_unlock(&fake->lock);
    if (made != NULL)
        execute(fake, made);
    return made != NULL;
}

size_t
fake_worker_waiting(struct engine_worker *worker)
{
    struct fake *fake = (struct fake *)worker;
    size_t count = 0;

    (void)pthread_mutex_lock(&fake->lock);
    for (const struct fake_job *made = fake->jobs; made != NULL; made = made->next)
        count++;
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}

uint64_t
fake_worker_jobs(struct engine_worker *worker, enum engine_verb verb)
{
    struct fake *fake = (struct fake *)worker;
    uint64_t count;

    (void)pthread_mutex_lock(&fake->lock);
    count = fake->started[verb];
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}

uint64_t
fake_worker_items(struct engine_worker *worker, enum engine_verb verb)
{
    struct fake *fake = (struct fake *)worker;
    uint64_t count;

    (void)pthread_mutex_lock(&fake->lock);
    count = fake->items[verb];
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}

void
fake_worker_kill(struct engine_worker *worker)
{
    struct fake *fake = (struct fake *)worker;

    (void)pthread_mutex_lock(&fake->lock);
    fake->dead = true;
    (void)pthread_mutex_unlock(&fake->lock);
    fake_die(fake);
    end_early(fake, NULL, KVT_UNAVAILABLE);
}

void
fake_worker_revive(struct engine_worker *worker)
{
    struct fake *fake = (struct fake *)worker;

    (void)pthread_mutex_lock(&fake->lock);
    assert(fake->dead);
    while (fake->jobs != NULL)
        (void)pthread_cond_wait(&fake->changed, &fake->lock);
    spoil(fake, KVT_TIER_G1);
    spoil(fake, KVT_TIER_G2);
    for (uint32_t i = 0; i < fake->head.blocks[KVT_TIER_G2]; i++)
        fake->shown[i].shown = false;
    memset(fake->peers, 0, sizeof(fake->peers));
    (void)pthread_mutex_unlock(&fake->lock);
    fake_live(fake);
    (void)pthread_mutex_lock(&fake->lock);
    fake->dead = false;
    (void)pthread_mutex_unlock(&fake->lock);
}

void
fake_worker_write(struct engine_worker *worker, enum kvt_tier tier, uint32_t block, uint64_t number,
                  uint32_t layer, uint32_t layers)
{
    struct fake *fake = (struct fake *)worker;
    const uint32_t all = worker->layout.geometry.layers;
    const uint32_t end = layers == 0 ? all : layer + layers;

    (void)pthread_mutex_lock(&fake->lock);
    if (tier == KVT_TIER_G2)
        fake->shown[block].shown = false;
    for (uint32_t k = layer; k < end; k++) {
        assert(!cell(fake, tier, block, k)->writer && "the engine writes what a job writes");
        assert(cell(fake, tier, block, k)->readers == 0 && "the engine writes what a job reads");
        cell(fake, tier, block, k)->written = true;
    }
    content_fill_layers(&worker->layout, fake_block(fake, tier, block), number, layer, end - layer);
    (void)pthread_mutex_unlock(&fake->lock);
}

bool
fake_worker_is(struct engine_worker *worker, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    struct fake *fake = (struct fake *)worker;

    return content_is(&worker->layout, fake_block(fake, tier, block), number);
}

bool
fake_worker_is_shown(struct engine_worker *worker, uint32_t block)
{
    struct fake *fake = (struct fake *)worker;
    bool shown;

    (void)pthread_mutex_lock(&fake->lock);
    shown = fake->shown[block].shown;
    (void)pthread_mutex_unlock(&fake->lock);
    return shown;
}
