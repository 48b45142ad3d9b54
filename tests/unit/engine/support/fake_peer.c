#include <string.h>

#include "tests/unit/engine/support/fake_worker_internal.h"

#define MAGIC UINT64_C(0x46414B45)

struct record {
    uint64_t magic;
    uint64_t nonce;
    uint8_t layout[KVBM_LAYOUT_BYTES];
};

/* Processes that live.  Whoever reads another's memory holds the lock, so that it stays. */
static struct {
    pthread_mutex_t lock;
    uint64_t last;
    struct fake *first;
} living = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
fake_live(struct fake *fake)
{
    (void)pthread_mutex_lock(&living.lock);
    fake->nonce = ++living.last;
    fake->next = living.first;
    living.first = fake;
    (void)pthread_mutex_unlock(&living.lock);
}

void
fake_die(struct fake *fake)
{
    (void)pthread_mutex_lock(&living.lock);
    for (struct fake **at = &living.first; *at != NULL; at = &(*at)->next)
        if (*at == fake) {
            *at = fake->next;
            break;
        }
    (void)pthread_mutex_unlock(&living.lock);
}

static struct fake *
find_locked(uint64_t nonce)
{
    for (struct fake *fake = living.first; fake != NULL; fake = fake->next)
        if (fake->nonce == nonce)
            return fake;
    return NULL;
}

enum kvt_err
fake_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
              struct kvt_error *err)
{
    struct fake *fake = (struct fake *)worker;
    struct record record = {.magic = MAGIC};
    bool dead;

    (void)wait_ms;
    (void)pthread_mutex_lock(&fake->lock);
    dead = fake->dead;
    record.nonce = fake->nonce;
    (void)pthread_mutex_unlock(&fake->lock);
    if (dead)
        return kvt_error_set(err, KVT_UNAVAILABLE, "fake: dead");
    kvbm_layout_serialize(&worker->layout, record.layout);
    engine_record_append(out, &record, sizeof(record));
    return kvt_buffer_ok(out) ? KVT_OK : kvt_error_set(err, KVT_NOMEM, "fake: no room");
}

static bool
shares(struct fake *fake)
{
    bool is;

    (void)pthread_mutex_lock(&fake->lock);
    is = fake->shares;
    (void)pthread_mutex_unlock(&fake->lock);
    return is;
}

enum kvt_err
fake_share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
           struct kvt_error *err)
{
    if (!shares((struct fake *)worker))
        return kvt_error_set(err, KVT_UNSUPPORTED, "fake: no device");
    return fake_describe(worker, out, wait_ms, err);
}

/* Each rank in its place. */
static enum kvt_err
read_description(struct fake_peer *peer, const uint8_t *bytes, size_t size, struct kvt_error *err)
{
    const uint8_t *text;
    size_t length;

    while (engine_record_next(&bytes, &size, &text, &length)) {
        struct kvbm_layout layout;
        struct record record;
        enum kvt_err rc;

        if (length != sizeof(record))
            return kvt_error_set(err, KVT_INVALID, "fake: no description");
        memcpy(&record, text, sizeof(record));
        if (record.magic != MAGIC)
            return kvt_error_set(err, KVT_INVALID, "fake: no description");
        rc = kvbm_layout_deserialize(&layout, record.layout, sizeof(record.layout), err);
        if (rc == KVT_OK && peer->ranks > 0)
            rc = kvbm_layout_compatible(&peer->layout, &layout, err);
        if (rc != KVT_OK)
            return rc;
        peer->layout = layout;
        if (peer->nonces[layout.geometry.tp_rank] != 0)
            return kvt_error_set(err, KVT_INVALID, "fake: a rank is there twice");
        peer->nonces[layout.geometry.tp_rank] = record.nonce;
        peer->ranks++;
    }
    if (size > 0 || peer->ranks == 0)
        return kvt_error_set(err, KVT_INVALID, "fake: no description");
    return KVT_OK;
}

/* As a rank does: equal, or mapped, and all that is needed is there. */
static enum kvt_err
map_peer(struct fake_peer *peer, const struct kvbm_layout *ours, struct kvt_error *err)
{
    const struct kvbm_layout *theirs = &peer->layout;
    enum kvt_err rc = kvbm_layout_compatible(ours, theirs, err);

    if (rc == KVT_OK) {
        peer->map.count = 1;
        peer->map.parts[0] = (struct kvbm_rank_part){ours->geometry.tp_rank, 0, 0, ours->heads};
    } else if (ours->geometry.kind == KVT_LAYOUT_UNIVERSAL &&
               theirs->geometry.kind == KVT_LAYOUT_UNIVERSAL) {
        rc = kvbm_rank_map_make(&peer->map, ours, theirs, err);
    }
    for (uint32_t i = 0; rc == KVT_OK && i < peer->map.count; i++)
        if (peer->nonces[peer->map.parts[i].rank] == 0)
            rc = kvt_error_set(err, KVT_PRECONDITION, "fake: rank %u is not described",
                               peer->map.parts[i].rank);
    return rc;
}

static struct fake_peer *
peer_locked(struct fake *fake, uint64_t number)
{
    for (size_t i = 0; i < FAKE_PEERS_MAX; i++)
        if (fake->peers[i].used && fake->peers[i].number == number)
            return &fake->peers[i];
    return NULL;
}

enum kvt_err
fake_connect(struct engine_worker *worker, uint64_t number, const uint8_t *bytes, size_t size,
             uint64_t wait_ms, struct kvt_error *err)
{
    struct fake *fake = (struct fake *)worker;
    struct fake_peer peer = {.used = true, .number = number};
    enum kvt_err rc = read_description(&peer, bytes, size, err);
    const struct fake_peer *old;

    (void)wait_ms;
    if (rc == KVT_OK)
        rc = map_peer(&peer, &worker->layout, err);
    if (rc == KVT_OK && number == ENGINE_PEER_G1 && !shares(fake))
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "fake: no device");
    if (rc != KVT_OK)
        return rc;
    (void)pthread_mutex_lock(&fake->lock);
    old = peer_locked(fake, number);
    if (fake->dead)
        rc = kvt_error_set(err, KVT_UNAVAILABLE, "fake: dead");
    else if (old != NULL)
        rc = old->ranks == peer.ranks && memcmp(old->nonces, peer.nonces, sizeof(peer.nonces)) == 0
                 ? KVT_OK
                 : kvt_error_set(err, KVT_EXISTS, "fake: has another description");
    else
        rc = kvt_error_set(err, KVT_FULL, "fake: %d peers", FAKE_PEERS_MAX);
    for (size_t i = 0; i < FAKE_PEERS_MAX && rc == KVT_FULL; i++)
        if (!fake->peers[i].used) {
            fake->peers[i] = peer;
            rc = KVT_OK;
        }
    (void)pthread_mutex_unlock(&fake->lock);
    return rc;
}

void
fake_disconnect(struct engine_worker *worker, uint64_t number)
{
    struct fake *fake = (struct fake *)worker;
    struct fake_peer *peer;

    (void)pthread_mutex_lock(&fake->lock);
    peer = peer_locked(fake, number);
    if (peer != NULL)
        peer->used = false;
    (void)pthread_mutex_unlock(&fake->lock);
}

static bool
same_label(const struct kvbm_label *a, const struct kvbm_label *b)
{
    return a->id.hash == b->id.hash && a->id.position == b->id.position &&
           a->id.parent == b->id.parent;
}

/* One part out of one rank's G2; the registry's lock is held. */
static enum kvt_err
pull_part(struct fake *fake, const struct kvbm_rank_part *part, struct fake *owner,
          const struct engine_item *item, enum kvt_tier to)
{
    const struct kvbm_layout_memory target = fake_memory(fake, to);
    const struct kvbm_layout_memory source = fake_memory(owner, KVT_TIER_G2);
    struct kvbm_layout_slice slice = kvbm_layout_whole(&fake->head.layout);
    enum kvt_err rc = KVT_NOTFOUND;

    slice.source_head = part->source_head;
    slice.target_head = part->target_head;
    slice.heads = part->heads;
    (void)pthread_mutex_lock(&owner->lock);
    if (item->source < source.blocks && owner->shown[item->source].shown &&
        same_label(&owner->shown[item->source].label, &item->label)) {
        kvbm_layout_copy(&target, item->target, &source, item->source, &slice);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&owner->lock);
    return rc;
}

enum kvt_err
fake_pull(struct fake *fake, uint64_t number, const struct engine_item *item, enum kvt_tier to)
{
    const struct fake_peer *found;
    struct fake_peer peer;
    enum kvt_err rc = KVT_OK;

    (void)pthread_mutex_lock(&fake->lock);
    found = peer_locked(fake, number);
    if (found != NULL)
        peer = *found;
    (void)pthread_mutex_unlock(&fake->lock);
    if (found == NULL)
        return KVT_UNAVAILABLE;
    (void)pthread_mutex_lock(&living.lock);
    for (uint32_t i = 0; i < peer.map.count && rc == KVT_OK; i++) {
        struct fake *owner = find_locked(peer.nonces[peer.map.parts[i].rank]);

        rc = owner == NULL ? KVT_UNAVAILABLE : pull_part(fake, &peer.map.parts[i], owner, item, to);
    }
    (void)pthread_mutex_unlock(&living.lock);
    return rc;
}

/* Nobody writes what others copy from. */
static void
copy_shared(struct fake *fake, struct fake *owner, const struct engine_job *job,
            const struct engine_item *item)
{
    const struct kvbm_layout_memory target = fake_memory(fake, KVT_TIER_G1);
    const struct kvbm_layout_memory source = fake_memory(owner, KVT_TIER_G1);
    const uint32_t all = fake->head.layout.geometry.layers;
    const uint32_t layers = job->layers == 0 ? all : job->layers;
    const struct kvbm_layout_slice slice =
        kvbm_layout_layers(&fake->head.layout, job->layer, layers);

    (void)pthread_mutex_lock(&owner->lock);
    for (uint32_t k = job->layer; k < job->layer + layers; k++) {
        const struct fake_cell *cell =
            &owner->tiers[KVT_TIER_G1].cells[(size_t)item->source * all + k];

        assert(!cell->writer && "reads a block that another job writes");
        assert(cell->written && "reads what nobody wrote");
    }
    kvbm_layout_copy(&target, item->target, &source, item->source, &slice);
    (void)pthread_mutex_unlock(&owner->lock);
}

enum kvt_err
fake_pull_shared(struct fake *fake, const struct engine_job *job, const struct engine_item *item)
{
    const struct fake_peer *peer;
    struct fake *owner = NULL;
    uint64_t nonce = 0;

    (void)pthread_mutex_lock(&fake->lock);
    peer = peer_locked(fake, ENGINE_PEER_G1);
    if (peer != NULL)
        nonce = peer->nonces[peer->map.parts[0].rank];
    (void)pthread_mutex_unlock(&fake->lock);
    (void)pthread_mutex_lock(&living.lock);
    if (peer != NULL)
        owner = find_locked(nonce);
    if (owner != NULL)
        copy_shared(fake, owner, job, item);
    (void)pthread_mutex_unlock(&living.lock);
    return owner == NULL ? KVT_UNAVAILABLE : KVT_OK;
}
