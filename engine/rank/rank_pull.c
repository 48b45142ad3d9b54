/* Other instances: what they may read of us, and what we read of them. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/memory/blockset_wire.h"
#include "engine/rank/rank_internal.h"

#define MS UINT64_C(1000000) /* ns */

/* What may be left of a job's time; 0: none. */
static uint64_t
left_ms(const struct rank_job *made)
{
    const uint64_t now = kvt_clock_mono_ns();

    if (made->end_ns == UINT64_MAX)
        return UINT64_MAX;
    return made->end_ns <= now ? 0 : (made->end_ns - now + MS - 1) / MS;
}

/* Metadata ---------------------------------------------------------------------------------- */

enum kvt_err
engine_rank_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                     struct kvt_error *err)
{
    const struct engine_rank *rank = (struct engine_rank *)worker;
    uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    size_t size;

    (void)wait_ms;
    if (rank->options.shown == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "rank %" PRIu32 ": shows nothing",
                             worker->layout.geometry.tp_rank);
    engine_blockset_describe(rank->options.shown, bytes, &size);
    engine_record_append(out, bytes, size);
    return kvt_buffer_ok(out) ? KVT_OK : kvt_error_set(err, KVT_NOMEM, "rank: description");
}

/* The records of a group, by the rank that each is of. */
struct group {
    struct {
        const uint8_t *bytes;
        size_t size;
    } ranks[KVT_RANKS_MAX];
    struct kvbm_layout layout; /* of the first */
};

static enum kvt_err
read_group(struct group *group, const uint8_t *bytes, size_t size, struct kvt_error *err)
{
    const uint8_t *record;
    size_t length;
    uint32_t count = 0;

    memset(group, 0, sizeof(*group));
    while (engine_record_next(&bytes, &size, &record, &length)) {
        struct engine_blockset_facts facts;
        enum kvt_err rc = engine_blockset_unpack(&facts, record, length, err);
        uint32_t at;

        if (rc != KVT_OK)
            return rc;
        if (count++ == 0)
            group->layout = facts.layout;
        rc = kvbm_layout_compatible(&group->layout, &facts.layout, err);
        if (rc != KVT_OK)
            return rc;
        at = facts.layout.geometry.tp_rank;
        if (group->ranks[at].bytes != NULL)
            return kvt_error_set(err, KVT_INVALID, "description: rank %" PRIu32 " is there twice",
                                 at);
        group->ranks[at].bytes = record;
        group->ranks[at].size = length;
    }
    if (count == 0 || size > 0)
        return kvt_error_set(err, KVT_INVALID, "no description of a worker");
    return KVT_OK;
}

/* The same shards, or heads of several ranks: then both sides must be universal. */
static enum kvt_err
map_group(struct kvbm_rank_map *map, const struct kvbm_layout *ours, const struct group *group,
          struct kvt_error *err)
{
    const struct kvbm_layout *theirs = &group->layout;
    enum kvt_err rc = kvbm_layout_compatible(ours, theirs, err);

    if (rc == KVT_OK) {
        *map = (struct kvbm_rank_map){
            .count = 1,
            .parts[0] = {ours->geometry.tp_rank, 0, 0, ours->heads},
        };
    } else if (ours->geometry.kind == KVT_LAYOUT_UNIVERSAL &&
               theirs->geometry.kind == KVT_LAYOUT_UNIVERSAL) {
        rc = kvbm_rank_map_make(map, ours, theirs, err);
    }
    for (uint32_t i = 0; rc == KVT_OK && i < map->count; i++)
        if (group->ranks[map->parts[i].rank].bytes == NULL)
            rc = kvt_error_set(err, KVT_PRECONDITION,
                               "rank %" PRIu32 " is needed, and not described", map->parts[i].rank);
    return rc;
}

/* Peers ------------------------------------------------------------------------------------- */

static void
free_peer(struct rank_peer *peer)
{
    if (peer == NULL)
        return;
    for (uint32_t i = 0; i < peer->map.count; i++)
        engine_import_close(peer->imports[i]);
    kvbm_storage_close(peer->device);
    kvt_free(peer->description);
    kvt_free(peer);
}

static enum kvt_err
open_imports(struct rank_peer *peer, struct engine_rank *rank, const uint8_t *bytes, size_t size,
             uint64_t wait_ms, struct kvt_error *err)
{
    struct group *group = kvt_calloc(1, sizeof(*group));
    enum kvt_err rc;

    if (group == NULL)
        return kvt_error_set(err, KVT_NOMEM, "rank: peer");
    rc = read_group(group, bytes, size, err);
    if (rc == KVT_OK)
        rc = map_group(&peer->map, &rank->options.layout, group, err);
    for (uint32_t i = 0; rc == KVT_OK && i < peer->map.count; i++) {
        const uint32_t at = peer->map.parts[i].rank;

        rc = engine_import_open(&peer->imports[i], rank->options.fabric, group->ranks[at].bytes,
                                group->ranks[at].size, &rank->options.layout, wait_ms, err);
        if (rc == KVT_NOTFOUND)
            rc = KVT_UNAVAILABLE; /* who described it has closed it since */
    }
    kvt_free(group);
    return rc;
}

static enum kvt_err
open_peer(struct rank_peer **out, struct engine_rank *rank, uint64_t number, const uint8_t *bytes,
          size_t size, uint64_t wait_ms, struct kvt_error *err)
{
    struct rank_peer *peer = kvt_calloc(1, sizeof(*peer));
    enum kvt_err rc;

    *out = NULL;
    if (peer != NULL)
        peer->description = kvt_calloc(1, size + 1);
    if (peer == NULL || peer->description == NULL) {
        free_peer(peer);
        return kvt_error_set(err, KVT_NOMEM, "rank: peer");
    }
    peer->number = number;
    memcpy(peer->description, bytes, size);
    peer->size = size;
    rc = number == ENGINE_PEER_G1 ? engine_rank_open_device(&peer->device, rank, bytes, size, err)
                                  : open_imports(peer, rank, bytes, size, wait_ms, err);
    if (rc != KVT_OK) {
        free_peer(peer);
        return rc;
    }
    *out = peer;
    return KVT_OK;
}

static struct rank_peer **
peer_locked(struct engine_rank *rank, uint64_t number)
{
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++)
        if (rank->peers[i] != NULL && rank->peers[i]->number == number)
            return &rank->peers[i];
    return NULL;
}

/* KVT_NOTFOUND: nobody has that number. */
static enum kvt_err
look_locked(struct engine_rank *rank, uint64_t number, const uint8_t *bytes, size_t size,
            struct kvt_error *err)
{
    struct rank_peer **place = peer_locked(rank, number);

    if (place == NULL)
        return KVT_NOTFOUND;
    if ((*place)->size == size && memcmp((*place)->description, bytes, size) == 0)
        return KVT_OK;
    return kvt_error_set(err, KVT_EXISTS, "peer %" PRIu64 " has another description", number);
}

enum kvt_err
engine_rank_connect(struct engine_worker *worker, uint64_t number, const uint8_t *bytes,
                    size_t size, uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_rank *rank = (struct engine_rank *)worker;
    struct rank_peer *peer;
    enum kvt_err rc;

    if (rank->options.fabric == NULL && number != ENGINE_PEER_G1)
        return kvt_error_set(err, KVT_UNSUPPORTED, "rank: has no fabric");
    (void)pthread_mutex_lock(&rank->lock);
    rc = look_locked(rank, number, bytes, size, err);
    (void)pthread_mutex_unlock(&rank->lock);
    if (rc != KVT_NOTFOUND)
        return rc;
    rc = open_peer(&peer, rank, number, bytes, size, wait_ms, err);
    if (rc != KVT_OK)
        return rc;
    (void)pthread_mutex_lock(&rank->lock);
    rc = look_locked(rank, number, bytes, size, err);
    for (size_t i = 0; i < ENGINE_PEERS_MAX && rc == KVT_NOTFOUND; i++)
        if (rank->peers[i] == NULL) {
            rank->peers[i] = peer;
            peer = NULL;
            rc = KVT_OK;
        }
    (void)pthread_mutex_unlock(&rank->lock);
    free_peer(peer);
    return rc == KVT_NOTFOUND ? kvt_error_set(err, KVT_FULL, "rank: %d peers", ENGINE_PEERS_MAX)
                              : rc;
}

void
engine_rank_disconnect(struct engine_worker *worker, uint64_t number)
{
    struct engine_rank *rank = (struct engine_rank *)worker;
    struct rank_peer *peer = NULL;
    struct rank_peer **place;

    (void)pthread_mutex_lock(&rank->lock);
    place = peer_locked(rank, number);
    if (place != NULL) {
        peer = *place;
        *place = NULL; /* nobody begins with it any more */
        for (struct rank_job *made = rank->jobs; made != NULL; made = made->next)
            if (!made->over && made->begun && /* one that is over is its owner's again */
                made->job->verb == ENGINE_PULL && made->job->peer == number) {
                made->early = made->early == KVT_OK ? KVT_UNAVAILABLE : made->early;
                atomic_store(&made->stop, true);
            }
        while (peer->users > 0)
            (void)pthread_cond_wait(&rank->idle, &rank->lock);
    }
    (void)pthread_mutex_unlock(&rank->lock);
    free_peer(peer);
}

void
engine_rank_forget_peers(struct engine_rank *rank)
{
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++)
        free_peer(rank->peers[i]);
}

/* PULL -------------------------------------------------------------------------------------- */

/* Read one part of the map of every item that is well so far: whole heads of all layers are one run
 * on both sides. */
static enum kvt_err
read_part(struct rank_job *made, struct engine_import *import, const struct kvbm_rank_part *part,
          struct engine_import_read *reads, struct engine_import_run *runs)
{
    const struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;
    const struct engine_import_slice slice = {
        .head = part->source_head, .heads = part->heads, .target_head = part->target_head};
    size_t count = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < job->count && rc == KVT_OK; i++) {
        const struct engine_item *item = &job->items[i];

        if (item->status != KVT_OK)
            continue;
        reads[count] = (struct engine_import_read){
            .ref = {.block = item->source, .hash = item->label.id.hash},
            .runs = &runs[count],
        };
        rc = engine_import_runs(import, &slice, &rank->options.layout,
                                engine_rank_address(rank, job->to, item->target), &runs[count], 1,
                                &reads[count].count, NULL);
        count++;
    }
    if (rc != KVT_OK || count == 0)
        return rc;
    (void)engine_import_run(import,
                            &(struct engine_import_request){
                                .reads = reads,
                                .count = count,
                                .wait_ms = left_ms(made),
                                .stop = &made->stop,
                            },
                            NULL);
    count = 0;
    for (size_t i = 0; i < job->count; i++)
        if (job->items[i].status == KVT_OK)
            job->items[i].status = reads[count++].status;
    return KVT_OK;
}

static void
pull_part(struct rank_job *made, struct engine_import *import, const struct kvbm_rank_part *part)
{
    struct engine_import_read *reads = kvt_calloc(made->job->count, sizeof(*reads));
    struct engine_import_run *runs = kvt_calloc(made->job->count, sizeof(*runs));
    enum kvt_err rc = KVT_NOMEM;

    if (reads != NULL && runs != NULL)
        rc = read_part(made, import, part, reads, runs);
    if (rc != KVT_OK)
        engine_job_fail(made->job, rc);
    kvt_free(reads);
    kvt_free(runs);
}

static struct rank_peer *
take_peer(struct engine_rank *rank, uint64_t number)
{
    struct rank_peer **place;
    struct rank_peer *peer = NULL;

    (void)pthread_mutex_lock(&rank->lock);
    place = peer_locked(rank, number);
    if (place != NULL) {
        peer = *place;
        peer->users++;
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return peer;
}

static void
give_peer_back(struct engine_rank *rank, struct rank_peer *peer)
{
    (void)pthread_mutex_lock(&rank->lock);
    peer->users--;
    (void)pthread_cond_broadcast(&rank->idle);
    (void)pthread_mutex_unlock(&rank->lock);
}

static void
pull_parts(struct rank_job *made, struct rank_peer *peer)
{
    struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;

    for (uint32_t i = 0; i < peer->map.count; i++)
        pull_part(made, peer->imports[i], &peer->map.parts[i]);
    for (size_t i = 0; i < job->count; i++) {
        struct engine_item *item = &job->items[i];

        item->status = engine_rank_status(made, item->status);
        if (item->status != KVT_OK) /* another part may have come */
            memset(engine_rank_address(rank, job->to, item->target), 0,
                   rank->options.layout.block_size);
    }
}

static void
pull(struct rank_job *made)
{
    struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;
    struct rank_peer *peer = take_peer(rank, job->peer);

    engine_job_fail(job, peer == NULL ? KVT_UNAVAILABLE : KVT_OK);
    if (peer == NULL)
        return;
    if (peer->device != NULL)
        engine_rank_pull_device(made, peer->device, left_ms(made));
    else
        pull_parts(made, peer);
    give_peer_back(rank, peer);
}

/* Sums of what is shown take a while. */
static void
show(struct rank_job *made)
{
    struct engine_job *job = made->job;

    for (size_t i = 0; i < job->count; i++) {
        struct engine_item *item = &job->items[i];

        item->status = KVT_OK;
        if (atomic_load(&made->stop))
            item->status = engine_rank_status(made, KVT_CANCELLED);
        else if (left_ms(made) == 0)
            item->status = KVT_TIMEOUT;
        else
            engine_blockset_show(made->rank->options.shown, item->source, item->label.id.hash,
                                 NULL);
    }
}

void
engine_rank_work(struct rank_job *made)
{
    if (made->job->verb == ENGINE_PULL)
        pull(made);
    else
        show(made);
}
