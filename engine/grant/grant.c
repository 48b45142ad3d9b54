#include "engine/grant/grant.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/grant/grant_internal.h"

#define IDLE_WAIT 60000 /* ms the keeper sleeps when nothing is granted */

static bool
is_granted(const struct grant_block *block)
{
    return block->handle.generation != 0;
}

/* Places ----------------------------------------------------------------------------------- */

/* All or none. */
static bool
take_places_locked(struct engine_grants *grants, struct grant *grant)
{
    const uint64_t now = kvt_clock_mono_ms();
    uint32_t at = 0;

    for (size_t i = 0; i < grant->count; i++) {
        if (!is_granted(&grant->blocks[i]))
            continue;
        while (at < grants->options.places &&
               (grants->places[at].taken || grants->places[at].rests_until > now))
            at++;
        if (at == grants->options.places)
            return false;
        grant->blocks[i].place = at++;
    }
    for (size_t i = 0; i < grant->count; i++)
        if (is_granted(&grant->blocks[i])) {
            grants->places[grant->blocks[i].place].taken = true;
            grants->stats.held++;
            grants->stats.granted++;
        }
    return true;
}

/* Who has not said that nothing more is on its way may still be putting. */
static void
leave_places_locked(struct engine_grants *grants, const struct grant *grant, bool settled)
{
    const uint64_t now = kvt_clock_mono_ms();

    for (size_t i = 0; i < grant->count; i++)
        if (is_granted(&grant->blocks[i])) {
            grants->places[grant->blocks[i].place] =
                (struct grant_place){false, settled ? 0 : now + grants->options.rest_ms};
            grants->stats.held--;
        }
}

/* The book --------------------------------------------------------------------------------- */

static bool
is_over(const struct grant *grant, uint64_t now)
{
    return grant->deadline <= now;
}

/* Out of the book: whoever has it now ends it. */
static struct grant *
take_out(struct grant **at)
{
    struct grant *grant = *at;

    *at = grant->next;
    grant->next = NULL;
    return grant;
}

static void
give_back(struct engine_grants *grants, struct grant *grant)
{
    uint64_t held = 0;

    for (size_t i = 0; i < grant->count; i++)
        if (is_granted(&grant->blocks[i])) {
            kvbm_pool_drop(grants->options.pool, grant->blocks[i].handle);
            held++;
        }
    (void)pthread_mutex_lock(&grants->lock);
    leave_places_locked(grants, grant, false);
    grants->stats.lost += held;
    (void)pthread_mutex_unlock(&grants->lock);
    kvt_free(grant);
}

void
engine_grants_lose(struct engine_grants *grants, uint64_t link)
{
    struct grant *grant;

    do {
        grant = NULL;
        (void)pthread_mutex_lock(&grants->lock);
        for (struct grant **at = &grants->book; *at != NULL && grant == NULL;)
            if (link == 0 || (*at)->link == link)
                grant = take_out(at);
            else
                at = &(*at)->next;
        (void)pthread_mutex_unlock(&grants->lock);
        if (grant != NULL)
            give_back(grants, grant);
    } while (grant != NULL);
}

/* What is over, or NULL and how long until something may be. */
static struct grant *
next_over_locked(struct engine_grants *grants, uint64_t *wait_ms)
{
    const uint64_t now = kvt_clock_mono_ms();

    *wait_ms = IDLE_WAIT;
    for (struct grant **at = &grants->book; *at != NULL; at = &(*at)->next) {
        if (is_over(*at, now))
            return take_out(at);
        if ((*at)->deadline - now < *wait_ms)
            *wait_ms = (*at)->deadline - now;
    }
    return NULL;
}

static void *
keep(void *arg)
{
    struct engine_grants *grants = arg;

    (void)pthread_mutex_lock(&grants->lock);
    while (!grants->closing) {
        uint64_t wait_ms;
        struct grant *grant = next_over_locked(grants, &wait_ms);

        if (grant != NULL) {
            (void)pthread_mutex_unlock(&grants->lock);
            give_back(grants, grant);
            (void)pthread_mutex_lock(&grants->lock);
        } else {
            const struct timespec until = kvt_cond_deadline(wait_ms);

            (void)kvt_cond_wait(&grants->keep, &grants->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&grants->lock);
    return NULL;
}

/* Acquire ---------------------------------------------------------------------------------- */

/* A block of the pool for each name that it has not. */
static enum kvt_err
hold_blocks(struct engine_grants *grants, struct grant *grant, size_t *held)
{
    struct kvt_handle handles[ENGINE_GRANT_BLOCKS_MAX];
    size_t missing[ENGINE_GRANT_BLOCKS_MAX];
    size_t count = 0;
    enum kvt_err rc;

    *held = 0;
    for (size_t i = 0; i < grant->count; i++)
        if (!kvbm_pool_has(grants->options.pool, grant->blocks[i].label.id.hash))
            missing[count++] = i;
    if (count == 0)
        return KVT_OK;
    rc = kvbm_pool_allocate(grants->options.pool, count, handles);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < count; i++)
        grant->blocks[missing[i]].handle = handles[i];
    *held = count;
    return KVT_OK;
}

static enum kvt_err
enter(struct engine_grants *grants, struct grant *grant, struct engine_grant_given *given)
{
    enum kvt_err rc = KVT_AGAIN;

    (void)pthread_mutex_lock(&grants->lock);
    if (!grants->closing && take_places_locked(grants, grant)) {
        rc = KVT_OK;
        grant->number = ++grants->last;
        grant->next = grants->book;
        grants->book = grant;
        given->number = grant->number;
        for (size_t i = 0; i < grant->count; i++)
            if (is_granted(&grant->blocks[i]))
                given->places[i] = 1 + grant->blocks[i].place;
        (void)pthread_cond_signal(&grants->keep);
    }
    (void)pthread_mutex_unlock(&grants->lock);
    return rc;
}

/* Once it is in the book it may be over, and gone, at any time. */
static enum kvt_err
give(struct engine_grants *grants, struct grant *grant, struct engine_grant_given *given)
{
    size_t held;
    enum kvt_err rc = hold_blocks(grants, grant, &held);

    if (rc != KVT_OK || held == 0) {
        kvt_free(grant);
        return rc;
    }
    rc = enter(grants, grant, given);
    if (rc == KVT_OK)
        return KVT_OK;
    for (size_t i = 0; i < grant->count; i++)
        if (is_granted(&grant->blocks[i]))
            kvbm_pool_drop(grants->options.pool, grant->blocks[i].handle);
    kvt_free(grant);
    return rc;
}

enum kvt_err
engine_grants_give(struct engine_grants *grants, uint64_t link,
                   const struct engine_grant_wish *wish, struct engine_grant_given *given)
{
    const uint64_t most = grants->options.hold_ms;
    struct grant *grant;
    enum kvt_err rc;

    memset(given, 0, sizeof(*given));
    if (wish->nonce != engine_blockset_nonce(grants->options.set))
        return KVT_NOTFOUND;
    grant = kvt_calloc(1, sizeof(*grant));
    if (grant == NULL)
        return KVT_NOMEM;
    given->count = wish->count;
    given->hold_ms = wish->hold_ms < most ? wish->hold_ms : most;
    grant->link = link;
    grant->deadline = kvt_clock_mono_ms() + given->hold_ms;
    grant->count = wish->count;
    for (size_t i = 0; i < wish->count; i++)
        grant->blocks[i].label = wish->labels[i];
    rc = give(grants, grant, given);
    if (rc != KVT_OK)
        memset(given, 0, sizeof(*given));
    return rc;
}

/* Commit ----------------------------------------------------------------------------------- */

/* Nothing has a name before it is known to be right, nor before it is shown: who finds it may show
 * it, too.  Where somebody else has brought it meanwhile it is free again, and hidden by who writes
 * to it next. */
static void
commit_block(struct engine_grants *grants, struct grant_block *block, uint32_t sum,
             struct engine_grant_result *result)
{
    struct engine_blockset *set = grants->options.set;
    struct kvbm_pool *pool = grants->options.pool;
    const uint32_t number = block->handle.block;
    struct engine_block_ref ref;
    enum kvt_err rc = kvbm_block_begin(pool, block->handle, NULL);

    assert(rc == KVT_OK);
    engine_blockset_hide(set, number);
    engine_landing_take(grants->landing, block->place * grants->shape.block_size,
                        kvbm_storage_address(engine_blockset_storage(set), number),
                        grants->shape.layout.block_size);
    rc = engine_blockset_sum(set, number) == sum ? KVT_OK : KVT_CORRUPT;
    if (rc == KVT_OK) {
        rc = kvbm_block_complete(pool, block->handle, &block->label, NULL);
        assert(rc == KVT_OK);
        engine_blockset_show_summed(set, number, block->label.id.hash, &ref);
        rc = kvbm_pool_register(pool, &block->handle, NULL);
        if (rc != KVT_OK && rc != KVT_EXISTS)
            engine_blockset_hide(set, number);
    }
    if (rc == KVT_OK) {
        result->block = ref.block;
        result->generation = ref.generation;
    }
    result->status = rc;
    kvbm_pool_drop(pool, block->handle);
}

static void
commit(struct engine_grants *grants, struct grant *grant, const struct engine_grant_end *end,
       struct engine_grant_result *results)
{
    struct engine_grants_stats sum = {0};

    for (size_t i = 0; i < grant->count; i++) {
        results[i] = (struct engine_grant_result){.status = KVT_EXISTS};
        if (!is_granted(&grant->blocks[i]))
            continue;
        if (end->sums[i] != 0) {
            commit_block(grants, &grant->blocks[i], (uint32_t)(end->sums[i] - 1), &results[i]);
        } else {
            kvbm_pool_drop(grants->options.pool, grant->blocks[i].handle);
            results[i].status = KVT_CANCELLED;
        }
        sum.committed += results[i].status == KVT_OK || results[i].status == KVT_EXISTS;
        sum.corrupt += results[i].status == KVT_CORRUPT;
        sum.returned += results[i].status == KVT_CANCELLED || results[i].status == KVT_BUSY;
    }
    (void)pthread_mutex_lock(&grants->lock);
    leave_places_locked(grants, grant, end->settled);
    grants->stats.committed += sum.committed;
    grants->stats.corrupt += sum.corrupt;
    grants->stats.returned += sum.returned;
    (void)pthread_mutex_unlock(&grants->lock);
}

/* KVT_NOTFOUND: it is not in the book; one whose deadline has passed is the keeper's. */
static enum kvt_err
find_locked(struct engine_grants *grants, uint64_t link, const struct engine_grant_end *end,
            struct grant **out)
{
    const uint64_t now = kvt_clock_mono_ms();

    *out = NULL;
    for (struct grant **at = &grants->book; *at != NULL; at = &(*at)->next) {
        if ((*at)->number != end->number || (*at)->link != link || is_over(*at, now))
            continue;
        if ((*at)->count != end->count)
            return KVT_INVALID;
        *out = take_out(at);
        return KVT_OK;
    }
    grants->stats.late++;
    return KVT_NOTFOUND;
}

enum kvt_err
engine_grants_end(struct engine_grants *grants, uint64_t link, const struct engine_grant_end *end,
                  struct engine_grant_result *results)
{
    struct grant *grant;
    enum kvt_err rc;

    memset(results, 0, end->count * sizeof(*results));
    (void)pthread_mutex_lock(&grants->lock);
    rc = find_locked(grants, link, end, &grant);
    (void)pthread_mutex_unlock(&grants->lock);
    if (rc != KVT_OK)
        return rc;
    commit(grants, grant, end, results);
    kvt_free(grant);
    return KVT_OK;
}

/* Its life --------------------------------------------------------------------------------- */

static enum kvt_err
open_landing(struct engine_grants *grants, struct kvt_error *err)
{
    const struct kvbm_layout *layout = engine_blockset_layout(grants->options.set);
    const uint32_t places = grants->options.places;
    enum kvt_err rc;

    if (places > ENGINE_GRANT_PLACES_MAX)
        return kvt_error_set(err, KVT_RANGE, "grants: %" PRIu32 " places, at most %d", places,
                             ENGINE_GRANT_PLACES_MAX);
    rc = engine_blockset_shape(&grants->shape, layout, places, err);
    if (rc != KVT_OK)
        return rc;
    grants->places = kvt_calloc(places, sizeof(*grants->places));
    if (grants->places == NULL)
        return kvt_error_set(err, KVT_NOMEM, "grants: out of memory");
    return engine_landing_open(&grants->landing, grants->options.fabric,
                               places * grants->shape.block_size, err);
}

static enum kvt_err
open_keeper(struct engine_grants *grants, struct kvt_error *err)
{
    const int sys = pthread_create(&grants->keeper, NULL, keep, grants);

    grants->keeps = sys == 0;
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "grants: thread");
}

enum kvt_err
engine_grants_open(struct engine_grants **out, const struct engine_grants_options *options,
                   struct kvt_error *err)
{
    struct engine_grants *grants = kvt_calloc(1, sizeof(*grants));
    enum kvt_err rc;

    *out = NULL;
    if (grants == NULL || pthread_mutex_init(&grants->lock, NULL) != 0)
        goto fail_lock;
    if (!kvt_cond_init(&grants->keep))
        goto fail_cond;
    grants->options = *options;
    if (options->places == 0)
        grants->options.places = ENGINE_GRANT_PLACES;
    if (options->hold_ms == 0)
        grants->options.hold_ms = ENGINE_GRANT_HOLD_MS;
    if (options->rest_ms == 0)
        grants->options.rest_ms = ENGINE_GRANT_REST_MS;
    /* Numbers begin anywhere: those of two lives do not meet. */
    kvt_random_system(&grants->last, sizeof(grants->last));
    grants->last >>= 1;
    rc = open_landing(grants, err);
    if (rc == KVT_OK)
        rc = open_keeper(grants, err);
    if (rc == KVT_OK)
        rc = engine_grants_serve(grants, err);
    if (rc != KVT_OK) {
        engine_grants_close(grants);
        return rc;
    }
    *out = grants;
    return KVT_OK;

fail_cond:
    (void)pthread_mutex_destroy(&grants->lock);
fail_lock:
    kvt_free(grants);
    return kvt_error_set(err, KVT_NOMEM, "grants: out of memory");
}

void
engine_grants_close(struct engine_grants *grants)
{
    if (grants == NULL)
        return;
    engine_rpc_server_close(grants->rpc);
    (void)pthread_mutex_lock(&grants->lock);
    grants->closing = true;
    (void)pthread_cond_signal(&grants->keep);
    (void)pthread_mutex_unlock(&grants->lock);
    if (grants->keeps)
        (void)pthread_join(grants->keeper, NULL);
    engine_grants_lose(grants, 0);
    engine_region_close(grants->landing);
    (void)pthread_cond_destroy(&grants->keep);
    (void)pthread_mutex_destroy(&grants->lock);
    kvt_free(grants->places);
    kvt_free(grants);
}

struct engine_grants_stats
engine_grants_stats(struct engine_grants *grants)
{
    const uint64_t now = kvt_clock_mono_ms();
    struct engine_grants_stats stats;

    (void)pthread_mutex_lock(&grants->lock);
    stats = grants->stats;
    for (uint32_t i = 0; i < grants->options.places; i++)
        stats.resting += grants->places[i].rests_until > now;
    (void)pthread_mutex_unlock(&grants->lock);
    return stats;
}
