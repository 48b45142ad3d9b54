#include <assert.h>

#include "base/core/alloc.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/connector/connector_internal.h"

enum { ARRIVED_MAX = 64 }; /* blocks the leader is told of at once */

/* ---- transfers ---- */

static struct transfer **
place_of(struct engine_connector *connector, uint64_t id)
{
    return &connector->transfers[id % ENGINE_META_TRANSFERS_MAX];
}

static struct transfer *
transfer_find(struct engine_connector *connector, uint64_t id)
{
    struct transfer *transfer = *place_of(connector, id);

    return transfer != NULL && transfer->id == id ? transfer : NULL;
}

static void
transfer_free(struct transfer *transfer)
{
    if (transfer == NULL)
        return;
    kvt_free(transfer->g1);
    kvt_free(transfer->g2);
    kvt_free(transfer->labels);
    kvt_free(transfer->status);
    kvt_free(transfer);
}

enum kvt_err
engine_transfer_new(struct engine_connector *connector, enum engine_transfer kind,
                    struct engine_request *request, uint32_t count, struct transfer **out)
{
    const uint32_t ranks = connector->options.ranks;
    struct transfer *transfer;

    *out = NULL;
    if (connector->stats.transfers == ENGINE_META_TRANSFERS_MAX)
        return KVT_FULL;
    transfer = kvt_calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return KVT_NOMEM;
    transfer->g1 = kvt_calloc(count, sizeof(*transfer->g1));
    transfer->g2 = kvt_calloc(count, sizeof(*transfer->g2));
    transfer->status = kvt_calloc(count, sizeof(*transfer->status));
    if (kind == ENGINE_TRANSFER_SAVE)
        transfer->labels = kvt_calloc(count, sizeof(*transfer->labels));
    if (transfer->g1 == NULL || transfer->g2 == NULL || transfer->status == NULL ||
        (kind == ENGINE_TRANSFER_SAVE && transfer->labels == NULL)) {
        transfer_free(transfer);
        return KVT_NOMEM;
    }
    while (*place_of(connector, connector->next_id) != NULL)
        connector->next_id++;
    transfer->id = connector->next_id++;
    transfer->iteration = connector->iteration;
    transfer->kind = kind;
    transfer->request = request;
    transfer->count = count;
    transfer->waiting = ranks == 32 ? UINT32_MAX : (1u << ranks) - 1;
    request->transfers++;
    connector->stats.transfers++;
    connector->stats.held += count;
    *place_of(connector, transfer->id) = transfer;
    *out = transfer;
    return KVT_OK;
}

void
engine_mark(struct engine_connector *connector, uint32_t block, uint64_t mark)
{
    uint64_t *at = &connector->loading[block];

    if (*at == 0 && mark != 0)
        connector->loading_count++;
    if (*at != 0 && mark == 0)
        connector->loading_count--;
    *at = mark;
}

void
engine_transfer_fence(struct engine_connector *connector, struct transfer *transfer)
{
    if (!transfer->fenced)
        connector->fenced++;
    transfer->fenced = true;
}

/* What rests on a load that failed must not be found by anybody; and its blocks of G1 are about to
 * be computed anew, under the eyes of ranks that still read them. */
static void
spoil(struct engine_connector *connector, uint64_t load)
{
    for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX; i++) {
        struct transfer *transfer = connector->transfers[i];

        for (uint32_t j = 0; transfer != NULL && j < transfer->depend_count; j++)
            if (transfer->depends[j] == load) {
                transfer->spoilt = true;
                engine_transfer_fence(connector, transfer);
            }
    }
}

void
engine_transfer_fail(struct engine_connector *connector, struct transfer *transfer, uint32_t at,
                     enum kvt_err why)
{
    const uint32_t block = transfer->g1[at];

    if (transfer->status[at] != KVT_OK)
        return;
    transfer->status[at] = why;
    transfer->request->ok = false;
    if (transfer->kind == ENGINE_TRANSFER_SAVE)
        return;
    connector->stats.load_failed++;
    spoil(connector, transfer->id);
    /* A block that was given to somebody else since is not our request's any more. */
    if (connector->loading[block] != transfer->id)
        return;
    engine_mark(connector, block, LOADING_FAILED);
    assert(connector->invalid_count < connector->invalid_capacity);
    connector->invalid[connector->invalid_count++] = block;
}

/* ---- how they end ---- */

static void
end_load(struct engine_connector *connector, struct transfer *transfer)
{
    struct kvbm_pool *pool = connector->options.g2;
    bool ok = true;

    for (uint32_t i = transfer->count; i-- > 0;) {
        const enum kvt_err status = transfer->status[i];

        if (connector->loading[transfer->g1[i]] == transfer->id)
            engine_mark(connector, transfer->g1[i], 0);
        if (status == KVT_CORRUPT || status == KVT_NOTFOUND) /* of no use to anybody else */
            kvbm_pool_discard(pool, transfer->g2[i]);
        else
            kvbm_pool_drop(pool, transfer->g2[i]);
        ok = ok && status == KVT_OK;
        connector->stats.loaded += status == KVT_OK;
    }
    if (transfer->kind == ENGINE_TRANSFER_FETCH && transfer->request->fetching) {
        transfer->request->fetching = false;
        transfer->request->loaded = true;
        transfer->request->loaded_ok = ok;
        engine_request_tell(connector, transfer->request);
    }
}

/* True: `handle` holds what the leader is to be told of. */
static bool
register_one(struct engine_connector *connector, struct kvt_handle *handle,
             const struct kvbm_label *label)
{
    struct kvbm_pool *pool = connector->options.g2;
    enum kvt_err rc = kvbm_block_complete(pool, *handle, label, NULL);

    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, handle, NULL);
    connector->stats.saved += rc == KVT_OK;
    connector->stats.save_known += rc == KVT_EXISTS || rc == KVT_BUSY;
    if (rc == KVT_OK)
        return true;
    kvbm_pool_drop(pool, *handle);
    return false;
}

/* What it rests on has ended well. */
static bool
is_sound(struct engine_connector *connector, const struct transfer *transfer)
{
    for (uint32_t i = 0; i < transfer->depend_count; i++)
        if (transfer_find(connector, transfer->depends[i]) != NULL)
            return false;
    return !transfer->spoilt;
}

static void
end_save(struct engine_connector *connector, struct transfer *transfer)
{
    const bool sound = is_sound(connector, transfer);
    struct kvbm_pool *pool = connector->options.g2;
    struct kvt_handle arrived[ARRIVED_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < transfer->count; i++) {
        kvbm_block_map_remove(&connector->saving, transfer->labels[i].id.hash);
        if (sound && transfer->status[i] == KVT_OK) {
            if (register_one(connector, &transfer->g2[i], &transfer->labels[i]))
                arrived[count++] = transfer->g2[i];
        } else {
            connector->stats.save_failed += sound;
            connector->stats.save_spoilt += !sound;
            kvbm_pool_drop(pool, transfer->g2[i]);
        }
        if (count > 0 && (count == ARRIVED_MAX || i + 1 == transfer->count)) {
            engine_leader_arrived(connector->options.leader, arrived, count);
            kvbm_pool_drop_all(pool, arrived, count);
            count = 0;
        }
    }
}

void
engine_transfer_end(struct engine_connector *connector, struct transfer *transfer)
{
    struct engine_request *request = transfer->request;

    *place_of(connector, transfer->id) = NULL; /* nothing waits for it any more */
    if (transfer->kind == ENGINE_TRANSFER_SAVE)
        end_save(connector, transfer);
    else
        end_load(connector, transfer);
    connector->fenced -= transfer->fenced;
    connector->stats.transfers--;
    connector->stats.held -= transfer->count;
    transfer_free(transfer);
    request->transfers--;
    if (request->over && request->transfers == 0)
        engine_request_tell(connector, request);
}

/* ---- what ranks say ---- */

static void
end_at(struct engine_connector *connector, struct transfer *transfer, uint32_t rank)
{
    transfer->waiting &= ~(1u << rank);
    if (transfer->waiting == 0)
        engine_transfer_end(connector, transfer);
}

/* The transfer that a rank speaks of; NULL: it has said so before. */
static struct transfer *
heard_of(struct engine_connector *connector, uint32_t rank, uint64_t id)
{
    struct transfer *transfer = transfer_find(connector, id);

    return transfer != NULL && (transfer->waiting & 1u << rank) != 0 ? transfer : NULL;
}

enum kvt_err
engine_connector_report(struct engine_connector *connector, uint32_t rank, const uint8_t *bytes,
                        size_t size, struct kvt_error *err)
{
    struct engine_meta_report report;
    enum kvt_err rc;

    if (rank >= connector->options.ranks)
        return kvt_error_set(err, KVT_INVALID, "there is no rank %u", rank);
    rc = engine_meta_report_decode(&report, bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < report.transfer_count; i++) {
        const struct engine_meta_report_transfer *said = &report.transfers[i];
        const struct transfer *transfer = heard_of(connector, rank, said->id);

        for (uint32_t j = said->first; transfer != NULL && j < said->first + said->count; j++)
            if (report.failures[j].at >= transfer->count)
                rc = KVT_INVALID;
    }
    if (rc != KVT_OK) {
        engine_meta_report_release(&report);
        return kvt_error_set(err, rc, "rank %u speaks of blocks that nobody ordered", rank);
    }
    for (size_t i = 0; i < report.transfer_count; i++) {
        const struct engine_meta_report_transfer *said = &report.transfers[i];
        struct transfer *transfer = heard_of(connector, rank, said->id);

        if (transfer == NULL)
            continue;
        for (uint32_t j = said->first; j < said->first + said->count; j++)
            engine_transfer_fail(connector, transfer, report.failures[j].at,
                                 report.failures[j].why);
        end_at(connector, transfer, rank);
    }
    engine_meta_report_release(&report);
    return KVT_OK;
}

/* Loads before what rests on them. */
void
engine_connector_lost(struct engine_connector *connector, uint32_t rank)
{
    assert(rank < connector->options.ranks);
    for (int saves = 0; saves < 2; saves++)
        for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX; i++) {
            struct transfer *transfer = connector->transfers[i];

            if (transfer == NULL || (transfer->waiting & 1u << rank) == 0 ||
                (transfer->kind == ENGINE_TRANSFER_SAVE) != (saves == 1))
                continue;
            for (uint32_t j = 0; j < transfer->count; j++)
                engine_transfer_fail(connector, transfer, j, KVT_UNAVAILABLE);
            end_at(connector, transfer, rank);
        }
}
