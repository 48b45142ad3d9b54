#include "engine/connector/forward_hook.h"

#include <assert.h>
#include <inttypes.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

#include "engine/connector/forward_hook_internal.h"

enum kvt_err
engine_hook_open(struct engine_hook **out, struct engine_worker *rank, struct kvt_error *err)
{
    struct engine_hook *hook;

    *out = NULL;
    if (rank->blocks[KVT_TIER_G1] == 0 || rank->blocks[KVT_TIER_G2] == 0)
        return kvt_error_set(err, KVT_INVALID, "a hook is of one rank with G1 and G2");
    hook = kvt_calloc(1, sizeof(*hook));
    if (hook == NULL)
        return kvt_error_set(err, KVT_NOMEM, "a hook");
    hook->rank = rank;
    if (pthread_mutex_init(&hook->lock, NULL) != 0) {
        kvt_free(hook);
        return kvt_error_set(err, KVT_NOMEM, "a hook's lock");
    }
    if (!kvt_cond_init(&hook->changed)) {
        (void)pthread_mutex_destroy(&hook->lock);
        kvt_free(hook);
        return kvt_error_set(err, KVT_NOMEM, "a hook's condition");
    }
    *out = hook;
    return KVT_OK;
}

static struct engine_hook_slot *
current(struct engine_hook *hook)
{
    return hook->open ? &hook->slots[hook->slot_count - 1] : NULL;
}

/* Nothing more of this iteration begins. */
static void
end_iteration(struct engine_hook *hook)
{
    struct engine_hook_slot *slot = current(hook);

    if (slot == NULL)
        return;
    engine_hook_stream_stop(slot->load, KVT_PRECONDITION);
    if (slot->save != NULL && slot->save->allowed < slot->save->steps)
        engine_hook_stream_stop(slot->save, KVT_PRECONDITION);
    for (size_t i = 0; i < hook->fetch_count; i++)
        if (hook->fetches[i]->allowed == 0)
            engine_hook_stream_stop(hook->fetches[i], KVT_PRECONDITION);
    hook->open = false;
}

void
engine_hook_close(struct engine_hook *hook)
{
    if (hook == NULL)
        return;
    end_iteration(hook);
    for (uint32_t i = 0; i < hook->slot_count; i++) {
        engine_hook_stream_stop(hook->slots[i].save, KVT_CANCELLED);
        (void)engine_hook_stream_wait(hook->slots[i].load, UINT32_MAX, UINT64_MAX);
        (void)engine_hook_stream_wait(hook->slots[i].save, UINT32_MAX, UINT64_MAX);
    }
    for (size_t i = 0; i < hook->fetch_count; i++)
        (void)engine_hook_stream_wait(hook->fetches[i], UINT32_MAX, UINT64_MAX);

    (void)pthread_mutex_lock(&hook->lock);
    while (hook->inside > 0 || hook->pumping)
        (void)pthread_cond_wait(&hook->changed, &hook->lock);
    (void)pthread_mutex_unlock(&hook->lock);

    for (uint32_t i = 0; i < hook->slot_count; i++) {
        engine_hook_stream_close(hook->slots[i].load);
        engine_hook_stream_close(hook->slots[i].save);
    }
    for (size_t i = 0; i < hook->fetch_count; i++)
        engine_hook_stream_close(hook->fetches[i]);
    (void)pthread_cond_destroy(&hook->changed);
    (void)pthread_mutex_destroy(&hook->lock);
    engine_meta_report_release(&hook->told);
    kvt_free(hook->fetches);
    kvt_free(hook->errors);
    kvt_free(hook);
}

/* ---- what has ended ---- */

static enum kvt_err
tell_transfer(struct engine_hook *hook, const struct engine_hook_stream *stream,
              const struct engine_meta_transfer *transfer)
{
    enum kvt_err rc = engine_meta_report_transfer(&hook->told, transfer->id);
    uint32_t *errors;

    for (uint32_t i = 0; i < transfer->count && rc == KVT_OK; i++) {
        const uint32_t at = transfer->first + i;

        if (stream->status[at] == KVT_OK)
            continue;
        rc = engine_meta_report_failure(&hook->told, i, stream->status[at]);
        if (rc != KVT_OK || stream->to != KVT_TIER_G1)
            continue;
        errors =
            kvt_grow(hook->errors, &hook->error_capacity, hook->error_count + 1, sizeof(*errors));
        if (errors == NULL)
            return KVT_NOMEM;
        hook->errors = errors;
        errors[hook->error_count++] = stream->pairs[at].target;
    }
    return rc;
}

/* A stream that is over, all of it or nothing. */
static enum kvt_err
tell(struct engine_hook *hook, const struct engine_hook_stream *stream)
{
    const struct engine_meta_report before = hook->told;
    const size_t errors = hook->error_count;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; stream != NULL && i < stream->transfer_count && rc == KVT_OK; i++)
        rc = tell_transfer(hook, stream, &stream->transfers[i]);
    if (rc != KVT_OK) {
        hook->told.transfer_count = before.transfer_count;
        hook->told.failure_count = before.failure_count;
        hook->error_count = errors;
    }
    return rc;
}

static void
drop_oldest(struct engine_hook *hook)
{
    engine_hook_stream_close(hook->slots[0].load);
    engine_hook_stream_close(hook->slots[0].save);
    for (uint32_t i = 1; i < hook->slot_count; i++)
        hook->slots[i - 1] = hook->slots[i];
    hook->slot_count--;
}

/* Loads of an iteration are told of when it ends, saves when they have: who hears that a block was
 * saved has heard before whether what it was computed on was loaded. */
static enum kvt_err
collect(struct engine_hook *hook)
{
    const uint32_t closed = hook->slot_count - (hook->open ? 1 : 0);
    enum kvt_err rc = KVT_OK;
    size_t left = 0;

    if (hook->errors_asked)
        hook->error_count = 0;
    hook->errors_asked = false;
    for (uint32_t i = 0; i < closed && rc == KVT_OK; i++) {
        struct engine_hook_slot *slot = &hook->slots[i];

        assert(engine_hook_stream_over(slot->load));
        rc = tell(hook, slot->load);
        if (rc != KVT_OK)
            break;
        engine_hook_stream_close(slot->load);
        slot->load = NULL;
    }
    for (uint32_t i = 0; i < closed && rc == KVT_OK; i++) {
        if (!engine_hook_stream_over(hook->slots[0].save))
            break;
        rc = tell(hook, hook->slots[0].save);
        if (rc == KVT_OK)
            drop_oldest(hook);
    }
    for (size_t i = 0; i < hook->fetch_count; i++) {
        struct engine_hook_stream *fetch = hook->fetches[i];

        if (rc == KVT_OK && engine_hook_stream_over(fetch) && (rc = tell(hook, fetch)) == KVT_OK)
            engine_hook_stream_close(fetch);
        else
            hook->fetches[left++] = fetch;
    }
    hook->fetch_count = left;
    return rc;
}

enum kvt_err
engine_hook_report(struct engine_hook *hook, struct kvt_buffer *out)
{
    enum kvt_err rc;

    engine_hook_pump(hook);
    /* What there is no room for now is told next time. */
    (void)collect(hook);
    rc = engine_meta_report_encode(&hook->told, out);
    if (rc == KVT_OK) {
        engine_meta_report_release(&hook->told);
        hook->errors_asked = true;
    }
    return rc;
}

size_t
engine_hook_load_errors(struct engine_hook *hook, uint32_t *blocks, size_t capacity)
{
    size_t count = 0;

    while (count < capacity && hook->error_count > 0)
        blocks[count++] = hook->errors[--hook->error_count];
    return count;
}

/* ---- the beginning of an iteration ---- */

static enum kvt_err
check(const struct engine_hook *hook, const struct engine_meta *meta, struct kvt_error *err)
{
    const uint32_t *blocks = hook->rank->blocks;

    if (meta->iteration <= hook->iteration)
        return kvt_error_set(err, KVT_PRECONDITION, "iteration %" PRIu64 " came behind %" PRIu64,
                             meta->iteration, hook->iteration);
    for (size_t i = 0; i < meta->transfer_count; i++) {
        const struct engine_meta_transfer *transfer = &meta->transfers[i];
        const bool down = transfer->kind == ENGINE_TRANSFER_SAVE;

        for (uint32_t j = transfer->first; j < transfer->first + transfer->count; j++)
            if (meta->pairs[j].source >= blocks[down ? KVT_TIER_G1 : KVT_TIER_G2] ||
                meta->pairs[j].target >= blocks[down ? KVT_TIER_G2 : KVT_TIER_G1])
                return kvt_error_set(err, KVT_INVALID, "block %" PRIu32 " to %" PRIu32 ": not here",
                                     meta->pairs[j].source, meta->pairs[j].target);
    }
    return KVT_OK;
}

static bool
has_transfer(const struct engine_hook_stream *stream, uint64_t id)
{
    for (uint32_t i = 0; stream != NULL && i < stream->transfer_count; i++)
        if (stream->transfers[i].id == id)
            return true;
    return false;
}

static void
wait_for_transfer(struct engine_hook *hook, uint64_t id)
{
    for (uint32_t i = 0; i < hook->slot_count; i++)
        if (has_transfer(hook->slots[i].save, id))
            (void)engine_hook_stream_wait(hook->slots[i].save, UINT32_MAX, UINT64_MAX);
    for (size_t i = 0; i < hook->fetch_count; i++)
        if (has_transfer(hook->fetches[i], id))
            (void)engine_hook_stream_wait(hook->fetches[i], UINT32_MAX, UINT64_MAX);
}

/* The streams of an iteration, all or none. */
static enum kvt_err
open_streams(struct engine_hook *hook, const struct engine_meta *meta)
{
    struct engine_hook_slot *slot = &hook->slots[hook->slot_count];
    const size_t fetches = hook->fetch_count;
    struct engine_hook_stream **grown;
    enum kvt_err rc;

    *slot = (struct engine_hook_slot){.iteration = meta->iteration};
    rc = engine_hook_stream_open(hook, meta, ENGINE_TRANSFER_LOAD, UINT32_MAX, &slot->load);
    if (rc == KVT_OK)
        rc = engine_hook_stream_open(hook, meta, ENGINE_TRANSFER_SAVE, UINT32_MAX, &slot->save);
    for (uint32_t i = 0; i < meta->transfer_count && rc == KVT_OK; i++) {
        if (meta->transfers[i].kind != ENGINE_TRANSFER_FETCH)
            continue;
        grown = kvt_grow(hook->fetches, &hook->fetch_capacity, hook->fetch_count + 1,
                         sizeof(struct engine_hook_stream *));
        if (grown == NULL) {
            rc = KVT_NOMEM;
            break;
        }
        hook->fetches = grown;
        rc = engine_hook_stream_open(hook, meta, ENGINE_TRANSFER_FETCH, i,
                                     &hook->fetches[hook->fetch_count]);
        if (rc == KVT_OK)
            hook->fetch_count++;
    }
    if (rc == KVT_OK) {
        hook->slot_count++;
        hook->open = true;
        hook->iteration = meta->iteration;
        return KVT_OK;
    }
    engine_hook_stream_close(slot->load);
    engine_hook_stream_close(slot->save);
    while (hook->fetch_count > fetches)
        engine_hook_stream_close(hook->fetches[--hook->fetch_count]);
    return rc;
}

enum kvt_err
engine_hook_begin(struct engine_hook *hook, const uint8_t *bytes, size_t size,
                  struct kvt_error *err)
{
    struct engine_meta meta;
    enum kvt_err rc = engine_meta_decode(&meta, bytes, size, err);

    if (rc != KVT_OK)
        return rc;
    rc = check(hook, &meta, err);
    if (rc != KVT_OK)
        goto done;
    end_iteration(hook);
    for (uint32_t i = 0; i < hook->slot_count; i++)
        (void)engine_hook_stream_wait(hook->slots[i].load, UINT32_MAX, UINT64_MAX);
    for (size_t i = 0; i < meta.fence_count; i++)
        wait_for_transfer(hook, meta.fences[i]);
    if (hook->slot_count == ENGINE_HOOK_ITERATIONS) {
        (void)engine_hook_stream_wait(hook->slots[0].save, UINT32_MAX, UINT64_MAX);
        rc = collect(hook);
        if (hook->slot_count == ENGINE_HOOK_ITERATIONS) {
            (void)kvt_error_set(err, rc, "nobody asks for what has ended");
            goto done;
        }
    }
    rc = open_streams(hook, &meta);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "iteration %" PRIu64 ": %s", meta.iteration, kvt_err_text(rc));

done:
    engine_meta_release(&meta);
    return rc;
}

/* ---- around the layers ---- */

void
engine_hook_start_load(struct engine_hook *hook)
{
    struct engine_hook_slot *slot = current(hook);

    if (slot == NULL)
        return;
    engine_hook_stream_allow(slot->load, UINT32_MAX);
    for (size_t i = 0; i < hook->fetch_count; i++)
        engine_hook_stream_allow(hook->fetches[i], 1);
}

enum kvt_err
engine_hook_wait_for_layer_load(struct engine_hook *hook, uint32_t layer, uint64_t wait_ms)
{
    struct engine_hook_slot *slot = current(hook);
    enum kvt_err rc;

    assert(layer < hook->rank->layout.geometry.layers);
    if (slot == NULL || slot->load == NULL)
        return KVT_OK;
    engine_hook_stream_allow(slot->load, UINT32_MAX);
    if (engine_hook_stream_wait(slot->load, layer + 1, wait_ms) != KVT_OK) {
        /* The engine goes on: what it computes from here on is only safe when nothing writes. */
        engine_hook_stream_stop(slot->load, KVT_TIMEOUT);
        (void)engine_hook_stream_wait(slot->load, UINT32_MAX, UINT64_MAX);
    }
    (void)pthread_mutex_lock(&hook->lock);
    rc = slot->load->failed;
    (void)pthread_mutex_unlock(&hook->lock);
    return rc;
}

void
engine_hook_save_layer(struct engine_hook *hook, uint32_t layer)
{
    struct engine_hook_slot *slot = current(hook);

    assert(layer < hook->rank->layout.geometry.layers);
    if (slot != NULL)
        engine_hook_stream_allow(slot->save, layer + 1);
}

enum kvt_err
engine_hook_wait_for_save(struct engine_hook *hook, uint64_t wait_ms)
{
    struct engine_hook_slot *slot = current(hook);

    if (slot == NULL)
        return KVT_OK;
    end_iteration(hook);
    (void)engine_hook_stream_wait(slot->load, UINT32_MAX, UINT64_MAX);
    return engine_hook_stream_wait(slot->save, UINT32_MAX, wait_ms);
}
