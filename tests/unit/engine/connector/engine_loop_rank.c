#include <assert.h>

#include "base/core/random.h"
#include "base/thread/cond.h"

#include "tests/unit/engine/connector/engine_loop_internal.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker_internal.h"

#define WRONG UINT64_C(0xbad0bad0bad0bad0)

static bool
reads(struct loop_rank *rank, uint32_t block, uint64_t number, uint32_t layer)
{
    struct fake *fake = (struct fake *)rank->worker;
    const uint8_t *bytes = fake_block(fake, KVT_TIER_G1, block);

    return content_is_layers(&rank->worker->layout, bytes, number, layer, 1);
}

/* Keys and values of this layer's new tokens: they come from what attention read in the layers
 * before, and are as wrong as that was. */
static void
compute(struct loop_rank *rank, const struct loop_entry *entry, uint32_t layer, bool wrong)
{
    const uint32_t end = (entry->computed + entry->scheduled + LOOP_BLOCK - 1) / LOOP_BLOCK;

    for (uint32_t i = entry->computed / LOOP_BLOCK; i < end; i++)
        fake_worker_write(rank->worker, KVT_TIER_G1, entry->blocks[i],
                          wrong ? entry->after[i] ^ WRONG : entry->after[i], layer, 1);
}

/* Attention reads the whole prefix.  Others may have computed part of it in this pass. */
static void
attend(struct loop_rank *rank, const struct loop_entry *entry, uint32_t layer, uint32_t *wrong)
{
    const uint32_t whole = entry->computed / LOOP_BLOCK;

    for (uint32_t i = 0; i < whole && i < *wrong; i++)
        if (!reads(rank, entry->blocks[i], entry->before[i], layer))
            *wrong = i;
}

/* What of a block that is not full yet was computed before is part of what this pass writes. */
static void
attend_begun(struct loop_rank *rank, const struct loop_entry *entry, uint32_t layer,
             uint32_t *wrong)
{
    const uint32_t at = entry->computed / LOOP_BLOCK;

    if (entry->computed % LOOP_BLOCK != 0 && at < *wrong &&
        !reads(rank, entry->blocks[at], entry->before[at], layer))
        *wrong = at;
}

static void
run_layers(struct loop_rank *rank, struct loop_pass *pass, uint64_t *random)
{
    uint32_t *wrong = pass->wrong[rank->number];
    bool spoilt[LOOP_RUNNING] = {false};

    for (uint32_t layer = 0; layer < LOOP_LAYERS; layer++) {
        const bool short_of_time = rank->hurried && kvt_random_below(random, 16) == 0;

        (void)engine_hook_wait_for_layer_load(rank->hook, layer, short_of_time ? 0 : UINT64_MAX);
        for (uint32_t i = 0; i < pass->count; i++) {
            attend_begun(rank, &pass->entries[i], layer, &wrong[i]);
            compute(rank, &pass->entries[i], layer, spoilt[i]);
        }
        for (uint32_t i = 0; i < pass->count; i++) {
            attend(rank, &pass->entries[i], layer, &wrong[i]);
            spoilt[i] = wrong[i] != LOOP_NONE;
        }
        engine_hook_save_layer(rank->hook, layer);
    }
}

static void
run_pass(struct loop_rank *rank, struct loop_pass *pass)
{
    uint64_t random = pass->seed + rank->number;
    const bool waits = !rank->hurried || kvt_random_below(&random, 2) == 0;
    enum kvt_err rc;

    rc = engine_hook_begin(rank->hook, pass->meta.data, pass->meta.size, NULL);
    assert(rc == KVT_OK);
    engine_hook_start_load(rank->hook);
    if (pass->count > 0) {
        run_layers(rank, pass, &random);
        (void)engine_hook_wait_for_save(rank->hook, waits ? UINT64_MAX : 0);
    }
    rc = engine_hook_report(rank->hook, &pass->report[rank->number]);
    assert(rc == KVT_OK);
}

static void *
run(void *arg)
{
    struct loop_rank *rank = arg;

    (void)pthread_mutex_lock(&rank->lock);
    for (;;) {
        struct loop_pass *pass = rank->pass;

        if (pass == NULL && rank->ends)
            break;
        if (pass == NULL) {
            (void)pthread_cond_wait(&rank->changed, &rank->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&rank->lock);
        run_pass(rank, pass);
        (void)pthread_mutex_lock(&rank->lock);
        rank->pass = NULL;
        (void)pthread_cond_broadcast(&rank->changed);
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return NULL;
}

void
loop_rank_open(struct loop_rank *rank, uint32_t number, struct engine_worker *worker, bool hurried)
{
    *rank = (struct loop_rank){.number = number, .worker = worker, .hurried = hurried};
    assert_int_equal(engine_hook_open(&rank->hook, worker, NULL), KVT_OK);
    assert_int_equal(pthread_mutex_init(&rank->lock, NULL), 0);
    assert_true(kvt_cond_init(&rank->changed));
    assert_int_equal(pthread_create(&rank->thread, NULL, run, rank), 0);
}

void
loop_rank_close(struct loop_rank *rank)
{
    (void)pthread_mutex_lock(&rank->lock);
    rank->ends = true;
    (void)pthread_cond_broadcast(&rank->changed);
    (void)pthread_mutex_unlock(&rank->lock);
    (void)pthread_join(rank->thread, NULL);
    engine_hook_close(rank->hook);
    (void)pthread_cond_destroy(&rank->changed);
    (void)pthread_mutex_destroy(&rank->lock);
}

void
loop_rank_tell(struct loop_rank *rank, struct loop_pass *pass)
{
    (void)pthread_mutex_lock(&rank->lock);
    rank->pass = pass;
    (void)pthread_cond_broadcast(&rank->changed);
    (void)pthread_mutex_unlock(&rank->lock);
}

void
loop_rank_wait(struct loop_rank *rank)
{
    (void)pthread_mutex_lock(&rank->lock);
    while (rank->pass != NULL)
        (void)pthread_cond_wait(&rank->changed, &rank->lock);
    (void)pthread_mutex_unlock(&rank->lock);
}
