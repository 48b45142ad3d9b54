#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/connector/connector_internal.h"

/* ---- what is loaded ---- */

static enum kvt_err
put_pairs(struct engine_meta *meta, const struct transfer *transfer)
{
    const bool down = transfer->kind == ENGINE_TRANSFER_SAVE;
    enum kvt_err rc = engine_meta_transfer(meta, transfer->id, transfer->kind);

    for (uint32_t i = 0; i < transfer->count && rc == KVT_OK; i++)
        rc = engine_meta_pair(meta, down ? transfer->g1[i] : transfer->g2[i].block,
                              down ? transfer->g2[i].block : transfer->g1[i]);
    return rc;
}

static enum kvt_err
order_load(struct engine_connector *connector, struct engine_request *request,
           struct engine_meta *meta)
{
    const enum engine_transfer kind =
        connector->options.async ? ENGINE_TRANSFER_FETCH : ENGINE_TRANSFER_LOAD;
    const size_t room =
        connector->invalid_count + connector->loading_count + (size_t)request->due_count;
    struct transfer *transfer;
    uint32_t *invalid;
    enum kvt_err rc;

    /* Should it fail, there must be room to say so. */
    invalid = kvt_grow(connector->invalid, &connector->invalid_capacity, room, sizeof(*invalid));
    if (invalid == NULL)
        return KVT_NOMEM;
    connector->invalid = invalid;
    rc = engine_transfer_new(connector, kind, request, request->due_count, &transfer);
    if (rc != KVT_OK)
        return rc;
    for (uint32_t i = 0; i < request->due_count; i++) {
        transfer->g1[i] = request->table[request->due_from + i];
        transfer->g2[i] = request->due[i];
        engine_mark(connector, transfer->g1[i], transfer->id);
    }
    connector->due_blocks -= request->due_count;
    request->due_count = 0; /* they are the transfer's */
    engine_request_drop_due(connector, request);
    return put_pairs(meta, transfer);
}

/* Within the pass: of requests that run in it.  Between iterations: of all. */
static enum kvt_err
order_loads(struct engine_connector *connector, struct engine_meta *meta)
{
    struct engine_request *next;
    enum kvt_err rc = KVT_OK;

    for (struct engine_request *at = connector->due; at != NULL && rc == KVT_OK; at = next) {
        next = at->due_next;
        if (connector->options.async || at->iteration == connector->iteration)
            rc = order_load(connector, at, meta);
    }
    return rc;
}

/* ---- what is saved ---- */

/* Blocks that this iteration computes are what they should be, whatever was to be loaded there. */
static void
clear_marks(struct engine_connector *connector, const struct engine_request *request,
            const struct engine_scheduled *scheduled)
{
    const uint32_t block_tokens = connector->options.block_tokens;
    const size_t from = (scheduled->computed + block_tokens - 1) / block_tokens;
    const size_t end =
        (scheduled->computed + scheduled->scheduled + block_tokens - 1) / block_tokens;

    for (size_t i = from; i < end && i < request->table_count && connector->loading_count > 0; i++)
        engine_mark(connector, request->table[i], 0);
}

/* Positions below this one may be saved when these loads end well. */
static uint32_t
collect_depends(const struct engine_connector *connector, const struct engine_request *request,
                uint32_t end, struct transfer *probe)
{
    probe->depend_count = 0;
    for (uint32_t i = 0; i < end && connector->loading_count > 0; i++) {
        const uint64_t mark = connector->loading[request->table[i]];
        uint32_t j = 0;

        if (mark == 0)
            continue;
        while (j < probe->depend_count && probe->depends[j] != mark)
            j++;
        if (j < probe->depend_count)
            continue;
        if (mark == LOADING_FAILED || j == TRANSFER_DEPENDS_MAX)
            return i;
        probe->depends[probe->depend_count++] = mark;
    }
    return end;
}

/* Does the block of this name lie in G2, or is on its way there? */
static bool
is_known(const struct engine_connector *connector, uint64_t hash)
{
    uint32_t ignored;

    return kvbm_block_map_get(&connector->saving, hash, &ignored) ||
           kvbm_pool_has(connector->options.g2, hash);
}

/* As many blocks of G2 as there is room for, at most `count`. */
static uint32_t
allocate(struct engine_connector *connector, uint32_t count, struct kvt_handle *handles)
{
    if (count > ENGINE_SAVES_MAX - connector->saving.count)
        count = ENGINE_SAVES_MAX - connector->saving.count;
    while (count > 0 &&
           engine_leader_allocate(connector->options.leader, count, handles, 0) != KVT_OK) {
        connector->stats.save_no_room++;
        count /= 2;
    }
    return count;
}

/* The save of `count` blocks at these positions; fewer where G2 has no more room. */
static enum kvt_err
order_save(struct engine_connector *connector, struct engine_request *request,
           const uint32_t *positions, uint32_t count, const struct transfer *probe,
           struct engine_meta *meta)
{
    struct kvt_handle *handles = kvt_calloc(count, sizeof(*handles));
    struct transfer *transfer = NULL;
    uint32_t got = 0;
    enum kvt_err rc = KVT_NOMEM;

    if (handles == NULL)
        return KVT_NOMEM;
    got = allocate(connector, count, handles);
    request->saved = got == count ? positions[count - 1] + 1 : positions[got];
    if (got == 0) {
        kvt_free(handles);
        return KVT_OK;
    }
    rc = engine_transfer_new(connector, ENGINE_TRANSFER_SAVE, request, got, &transfer);
    if (rc != KVT_OK) {
        kvbm_pool_drop_all(connector->options.g2, handles, got);
        kvt_free(handles);
        return rc == KVT_FULL ? KVT_OK : rc;
    }
    memcpy(transfer->depends, probe->depends, sizeof(probe->depends));
    transfer->depend_count = probe->depend_count;
    for (uint32_t i = 0; i < got; i++) {
        const enum kvt_err named =
            engine_request_label(connector, request, positions[i], &transfer->labels[i]);
        const enum kvt_err begun = kvbm_block_begin(connector->options.g2, handles[i], NULL);

        assert(named == KVT_OK && begun == KVT_OK); /* it is full, and nobody else's */
        transfer->g1[i] = request->table[positions[i]];
        transfer->g2[i] = handles[i];
        kvbm_block_map_put(&connector->saving, transfer->labels[i].id.hash, handles[i].block);
    }
    kvt_free(handles);
    return put_pairs(meta, transfer);
}

static enum kvt_err
order_saves(struct engine_connector *connector, struct engine_request *request,
            const struct engine_scheduled *scheduled, struct engine_meta *meta)
{
    const uint32_t block_tokens = connector->options.block_tokens;
    struct transfer probe = {.id = 0};
    uint32_t *positions;
    uint32_t count = 0;
    size_t known;
    const uint64_t *hashes = kvt_sequence_hashes(request->sequence, &known);
    size_t end = (scheduled->computed + scheduled->scheduled) / block_tokens;
    enum kvt_err rc = KVT_OK;

    if (end > known)
        end = known;
    if (end > request->table_count)
        end = request->table_count;
    if (request->saved > scheduled->computed / block_tokens)
        request->saved = (uint32_t)(scheduled->computed / block_tokens);
    while (request->saved < end && is_known(connector, hashes[request->saved]))
        request->saved++;
    if (request->saved >= end || request->forgotten)
        return KVT_OK;
    end = collect_depends(connector, request, (uint32_t)end, &probe);
    if (request->saved >= end)
        return KVT_OK;
    positions = kvt_calloc(end - request->saved, sizeof(*positions));
    if (positions == NULL)
        return KVT_NOMEM;
    for (uint32_t i = request->saved; i < end; i++)
        if (!is_known(connector, hashes[i]))
            positions[count++] = i;
    rc = order_save(connector, request, positions, count, &probe, meta);
    kvt_free(positions);
    return rc;
}

/* ---- the meta ---- */

static enum kvt_err
order_fences(struct engine_connector *connector, struct engine_meta *meta)
{
    enum kvt_err rc = KVT_OK;

    if (connector->fenced == 0)
        return KVT_OK;
    for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX && rc == KVT_OK; i++)
        if (connector->transfers[i] != NULL && connector->transfers[i]->fenced)
            rc = engine_meta_fence(meta, connector->transfers[i]->id);
    return rc;
}

/* Ranks that begin this iteration have waited. */
static void
forget_fences(struct engine_connector *connector)
{
    for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX && connector->fenced > 0; i++) {
        struct transfer *transfer = connector->transfers[i];

        if (transfer == NULL || !transfer->fenced)
            continue;
        transfer->fenced = false;
        connector->fenced--;
        connector->stats.fences++;
    }
}

/* No rank will hear of this iteration. */
static void
take_back(struct engine_connector *connector)
{
    for (int saves = 0; saves < 2; saves++)
        for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX; i++) {
            struct transfer *transfer = connector->transfers[i];

            if (transfer == NULL || transfer->iteration != connector->iteration ||
                (transfer->kind == ENGINE_TRANSFER_SAVE) != (saves == 1))
                continue;
            for (uint32_t j = 0; j < transfer->count; j++)
                engine_transfer_fail(connector, transfer, j, KVT_CANCELLED);
            engine_transfer_end(connector, transfer);
        }
}

static enum kvt_err
order_all(struct engine_connector *connector, const struct engine_scheduled *scheduled,
          size_t count, struct engine_meta *meta)
{
    enum kvt_err rc = order_fences(connector, meta);
    struct engine_request *request;

    for (size_t i = 0; i < count; i++) {
        request = engine_request_find(connector, scheduled[i].request);
        if (request != NULL && !request->over)
            engine_request_schedule(connector, request, &scheduled[i]);
    }
    if (rc == KVT_OK)
        rc = order_loads(connector, meta);
    for (size_t i = 0; i < count; i++) {
        request = engine_request_find(connector, scheduled[i].request);
        if (request != NULL && !request->over)
            clear_marks(connector, request, &scheduled[i]);
    }
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        request = engine_request_find(connector, scheduled[i].request);
        if (request != NULL && !request->over)
            rc = order_saves(connector, request, &scheduled[i], meta);
    }
    return rc;
}

enum kvt_err
engine_connector_build_connector_meta(struct engine_connector *connector, uint64_t iteration,
                                      const struct engine_scheduled *scheduled, size_t count,
                                      struct kvt_buffer *out)
{
    struct engine_meta meta = {.iteration = iteration};
    enum kvt_err rc;

    if (iteration <= connector->iteration)
        return KVT_INVALID;
    connector->iteration = iteration;
    rc = order_all(connector, scheduled, count, &meta);
    if (rc == KVT_OK)
        rc = engine_meta_encode(&meta, out);
    if (rc == KVT_OK)
        forget_fences(connector);
    else
        take_back(connector);
    engine_meta_release(&meta);
    return rc;
}
