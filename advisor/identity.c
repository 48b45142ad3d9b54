#include "advisor/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/token.h"

enum { NODES_MIN = 1024 };

#define NOBODY UINT32_MAX

struct node {
    struct advisor_alias_row row; /* publisher 0: free */
    uint32_t next;                /* in its bucket, or in the list of free ones */
    bool dirty;
};

struct gone {
    uint64_t hash;
    uint32_t publisher;
};

struct advisor_identity {
    struct node *nodes;
    uint32_t *buckets; /* as many as there is room for nodes: a power of two */
    uint32_t capacity;
    uint32_t used; /* nodes ever taken */
    uint32_t free;
    uint32_t count;
    uint32_t max;

    uint32_t *changed; /* nodes to be written; some may be free again, some twice */
    size_t changed_count;
    size_t changed_capacity;
    struct gone *gone; /* rows to be deleted before that */
    size_t gone_count;
    size_t gone_capacity;

    uint32_t purge_at;   /* next node to look at */
    uint32_t purge_left; /* nodes to look at */
};

enum kvt_err
advisor_identity_new(struct advisor_identity **out, uint32_t aliases_max)
{
    struct advisor_identity *identity = kvt_calloc(1, sizeof(*identity));

    *out = identity;
    if (identity == NULL)
        return KVT_NOMEM;
    identity->free = NOBODY;
    identity->max = aliases_max;
    return KVT_OK;
}

void
advisor_identity_free(struct advisor_identity *identity)
{
    if (identity == NULL)
        return;
    kvt_free(identity->nodes);
    kvt_free(identity->buckets);
    kvt_free(identity->changed);
    kvt_free(identity->gone);
    kvt_free(identity);
}

uint32_t
advisor_identity_count(const struct advisor_identity *identity)
{
    return identity->count;
}

/* ---- the table ---- */

static uint32_t
bucket_of(const struct advisor_identity *identity, uint32_t publisher, uint64_t hash)
{
    /* Engines' hashes are well mixed, but may be small numbers in tests and in the field. */
    const uint64_t mixed = (hash ^ ((uint64_t)publisher << 40)) * UINT64_C(0x9E3779B97F4A7C15);

    return (uint32_t)(mixed >> 32) & (identity->capacity - 1);
}

static struct node *
find(const struct advisor_identity *identity, uint32_t publisher, uint64_t hash)
{
    if (identity->capacity == 0)
        return NULL;
    for (uint32_t at = identity->buckets[bucket_of(identity, publisher, hash)]; at != NOBODY;
         at = identity->nodes[at].next)
        if (identity->nodes[at].row.hash == hash && identity->nodes[at].row.publisher == publisher)
            return &identity->nodes[at];
    return NULL;
}

static void
link_in(struct advisor_identity *identity, uint32_t at)
{
    struct node *node = &identity->nodes[at];
    uint32_t *head = &identity->buckets[bucket_of(identity, node->row.publisher, node->row.hash)];

    node->next = *head;
    *head = at;
}

static enum kvt_err
grow(struct advisor_identity *identity)
{
    const uint32_t capacity = identity->capacity == 0 ? NODES_MIN : identity->capacity * 2;
    uint32_t *buckets = kvt_realloc(NULL, capacity, sizeof(*buckets));
    void *nodes = kvt_realloc(identity->nodes, capacity, sizeof(*identity->nodes));

    if (nodes != NULL)
        identity->nodes = nodes;
    if (nodes == NULL || buckets == NULL) {
        kvt_free(buckets);
        return KVT_NOMEM;
    }
    kvt_free(identity->buckets);
    identity->buckets = buckets;
    identity->capacity = capacity;
    memset(buckets, 0xFF, capacity * sizeof(*buckets));
    identity->free = NOBODY;
    for (uint32_t at = 0; at < identity->used; at++) {
        if (identity->nodes[at].row.publisher != 0) {
            link_in(identity, at);
        } else {
            identity->nodes[at].next = identity->free;
            identity->free = at;
        }
    }
    return KVT_OK;
}

static enum kvt_err
add(struct advisor_identity *identity, const struct advisor_alias_row *row, struct node **out)
{
    uint32_t at = identity->free;

    *out = NULL;
    if (identity->count >= identity->max)
        return KVT_FULL;
    if (at == NOBODY && identity->used == identity->capacity && grow(identity) != KVT_OK)
        return KVT_NOMEM;
    if (at == NOBODY)
        at = identity->used++;
    else
        identity->free = identity->nodes[at].next;
    identity->nodes[at] = (struct node){.row = *row};
    link_in(identity, at);
    identity->count++;
    *out = &identity->nodes[at];
    return KVT_OK;
}

static void
take_out(struct advisor_identity *identity, struct node *node)
{
    const uint32_t at = (uint32_t)(node - identity->nodes);
    uint32_t *link = &identity->buckets[bucket_of(identity, node->row.publisher, node->row.hash)];

    while (*link != at)
        link = &identity->nodes[*link].next;
    *link = node->next;
    *node = (struct node){.next = identity->free};
    identity->free = at;
    identity->count--;
}

/* ---- what is to be written ---- */

static enum kvt_err
reserve(void **array, size_t *capacity, size_t count, size_t size)
{
    const size_t wanted = *capacity == 0 ? NODES_MIN : *capacity * 2;
    void *more;

    if (count < *capacity)
        return KVT_OK;
    more = kvt_realloc(*array, wanted, size);
    if (more == NULL)
        return KVT_NOMEM;
    *array = more;
    *capacity = wanted;
    return KVT_OK;
}

/* Room to tell of one more change; asked for before the change. */
static enum kvt_err
reserve_changed(struct advisor_identity *identity)
{
    void *array = identity->changed;
    const enum kvt_err rc = reserve(&array, &identity->changed_capacity, identity->changed_count,
                                    sizeof(*identity->changed));

    identity->changed = array;
    return rc;
}

static enum kvt_err
reserve_gone(struct advisor_identity *identity)
{
    void *array = identity->gone;
    const enum kvt_err rc =
        reserve(&array, &identity->gone_capacity, identity->gone_count, sizeof(*identity->gone));

    identity->gone = array;
    return rc;
}

static void
mark(struct advisor_identity *identity, struct node *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    identity->changed[identity->changed_count++] = (uint32_t)(node - identity->nodes);
}

/* Without memory to tell the store, the row stays, which costs room and harms nothing. */
static void
forget(struct advisor_identity *identity, struct node *node)
{
    if (reserve_gone(identity) != KVT_OK)
        return;
    identity->gone[identity->gone_count++] =
        (struct gone){.hash = node->row.hash, .publisher = node->row.publisher};
    take_out(identity, node);
}

static enum kvt_err
load_row(void *arg, const struct advisor_alias_row *row)
{
    struct advisor_identity *identity = arg;
    struct node *node;

    if (row->publisher == 0)
        return KVT_CORRUPT;
    return add(identity, row, &node);
}

enum kvt_err
advisor_identity_load(struct advisor_identity *identity, const struct advisor_txn *txn)
{
    const enum kvt_err rc = advisor_store_aliases(txn, load_row, identity);

    advisor_identity_void(identity); /* a purge may have been under way */
    return rc;
}

static const struct node *
node_at(const struct advisor_identity *identity, uint32_t at)
{
    return &identity->nodes[at];
}

static int
compare_changed(const void *left, const void *right, void *arg)
{
    const struct advisor_alias_row *a = &node_at(arg, *(const uint32_t *)left)->row;
    const struct advisor_alias_row *b = &node_at(arg, *(const uint32_t *)right)->row;

    if (a->publisher != b->publisher)
        return a->publisher < b->publisher ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

enum kvt_err
advisor_identity_save(struct advisor_identity *identity, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < identity->gone_count && rc == KVT_OK; i++)
        rc = advisor_store_delete_alias(txn, identity->gone[i].publisher, identity->gone[i].hash);
    if (identity->changed_count > 1)
        qsort_r(identity->changed, identity->changed_count, sizeof(*identity->changed),
                compare_changed, identity);
    for (size_t i = 0; i < identity->changed_count && rc == KVT_OK; i++) {
        const struct node *node = node_at(identity, identity->changed[i]);

        if (node->row.publisher != 0 && node->dirty)
            rc = advisor_store_put_alias(txn, &node->row);
    }
    return rc;
}

void
advisor_identity_saved(struct advisor_identity *identity)
{
    for (size_t i = 0; i < identity->changed_count; i++)
        identity->nodes[identity->changed[i]].dirty = false;
    identity->changed_count = 0;
    identity->gone_count = 0;
}

bool
advisor_identity_dirty(const struct advisor_identity *identity)
{
    return identity->changed_count > 0 || identity->gone_count > 0;
}

/* ---- void rows ---- */

void
advisor_identity_void(struct advisor_identity *identity)
{
    identity->purge_left = identity->used;
}

void
advisor_identity_purge(struct advisor_identity *identity, advisor_identity_floor_fn *floor,
                       void *arg)
{
    for (uint32_t i = 0; i < ADVISOR_ALIASES_STEP && identity->purge_left > 0; i++) {
        struct node *node;

        if (identity->purge_at >= identity->used)
            identity->purge_at = 0;
        node = &identity->nodes[identity->purge_at++];
        identity->purge_left--;
        if (node->row.publisher != 0 && node->row.gen < floor(arg, node->row.publisher))
            forget(identity, node);
    }
}

/* ---- naming ---- */

/* The speaker's row of a block, if it still holds. */
static struct node *
known(const struct advisor_identity *identity, const struct advisor_speaker *speaker, uint64_t hash)
{
    struct node *node = find(identity, speaker->publisher, hash);

    return node != NULL && node->row.gen >= speaker->floor ? node : NULL;
}

/* What a store begins with. */
struct root {
    uint64_t parent; /* its name */
    uint64_t seed;
    uint32_t position; /* of the first block */
    bool has_parent;
    bool salted;
    bool by_tokens; /* else the producer's hashes are the names */
};

static uint64_t
local_hash(const struct wire_raw_batch *batch, const struct wire_raw_event *event, uint32_t at,
           uint64_t seed)
{
    const struct wire_raw_block *block = &batch->blocks[event->first + at];

    if (block->tokens_hash != 0)
        return block->tokens_hash;
    return wire_token_block(batch->token_ids + event->tokens + (size_t)at * event->block_tokens,
                            event->block_tokens, batch->media + block->media, block->media_count,
                            seed);
}

static bool
has_tokens(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    if (event->block_tokens != 0)
        return true;
    for (uint32_t i = 0; i < event->count; i++)
        if (batch->blocks[event->first + i].tokens_hash == 0)
            return false;
    return true;
}

static uint32_t
behind(uint32_t position)
{
    return position == ADVISOR_POSITION_NOBODY ? ADVISOR_POSITION_NOBODY : position + 1;
}

/* Some producers say 0 for "I do not know". */
static uint32_t
said_position(const struct wire_raw_event *event)
{
    return event->position == WIRE_RAW_POSITION_UNKNOWN ||
                   (event->has_parent && event->position == 0)
               ? ADVISOR_POSITION_NOBODY
               : event->position;
}

/* Salt and adapter are the parent's; a message may leave the salt out behind the first block. */
static bool
inherit(const struct wire_raw_event *event, const struct advisor_alias_row *parent,
        struct root *root)
{
    if (event->block_tokens == 0)
        return true;
    if (!event->salted && parent->salted != 0) {
        root->seed = parent->seed;
        root->salted = true;
        return true;
    }
    return event->seed == parent->seed && event->salted == (parent->salted != 0);
}

/* The parent has no row: is it perhaps named by its own hash?  The first block tells. */
static bool
is_own_name(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
            const struct root *root)
{
    return wire_token_chain(event->parent, local_hash(batch, event, 0, root->seed)) ==
           batch->blocks[event->first].hash;
}

static enum advisor_naming
find_root(const struct advisor_identity *identity, const struct advisor_speaker *speaker,
          const struct wire_raw_batch *batch, const struct wire_raw_event *event, struct root *root)
{
    const struct node *node;

    *root = (struct root){.seed = event->seed,
                          .salted = event->salted,
                          .has_parent = event->has_parent,
                          .by_tokens = has_tokens(batch, event),
                          .position = said_position(event)};
    if (!event->has_parent) {
        if (root->position == ADVISOR_POSITION_NOBODY)
            root->position = 0;
        return ADVISOR_NAMED;
    }
    node = known(identity, speaker, event->parent);
    if (node != NULL) {
        root->parent = node->row.chain;
        if (node->row.position != ADVISOR_POSITION_NOBODY)
            root->position = behind(node->row.position);
        return inherit(event, &node->row, root) ? ADVISOR_NAMED : ADVISOR_CONFLICT;
    }
    root->parent = event->parent;
    if (root->by_tokens && !is_own_name(batch, event, root)) {
        /* A block that is known already, in another tier, brings its own name. */
        node = known(identity, speaker, batch->blocks[event->first].hash);
        if (node == NULL)
            return ADVISOR_ORPHAN;
        root->parent = 0;
        root->position = node->row.position;
        root->seed = node->row.seed;
        root->salted = node->row.salted != 0;
        return ADVISOR_NAMED;
    }
    if (root->position == ADVISOR_POSITION_NOBODY)
        root->position = behind(speaker->position(speaker->arg, event->parent));
    return ADVISOR_NAMED;
}

static enum kvt_err
remember(struct advisor_identity *identity, const struct advisor_speaker *speaker,
         const struct advisor_named *named, uint64_t hash, const struct root *root,
         uint32_t position, enum kvt_tier tier)
{
    const struct advisor_alias_row row = {
        .hash = hash,
        .chain = named->hash,
        .seed = root->seed,
        .publisher = speaker->publisher,
        .gen = speaker->gen,
        .position = position,
        .tiers = KVT_TIER_MASK(tier),
        .salted = root->salted ? 1 : 0,
    };
    struct node *node = find(identity, speaker->publisher, hash);
    enum kvt_err rc = reserve_changed(identity);

    if (rc != KVT_OK)
        return rc;
    if (node == NULL && (named->hash == hash && !root->salted))
        return KVT_OK;
    if (node == NULL) {
        rc = add(identity, &row, &node);
        if (rc != KVT_OK)
            return rc;
    } else {
        const uint32_t tiers =
            node->row.gen >= speaker->floor && node->row.chain == named->hash ? node->row.tiers : 0;

        node->row = row;
        node->row.tiers |= tiers & UINT8_MAX;
    }
    mark(identity, node);
    return KVT_OK;
}

/* The first block's name when its parent is known only through the block itself. */
static uint64_t
first_name(const struct advisor_identity *identity, const struct advisor_speaker *speaker,
           const struct wire_raw_batch *batch, const struct wire_raw_event *event,
           const struct root *root, uint64_t local)
{
    if (!root->has_parent)
        return local;
    if (root->parent == 0)
        return known(identity, speaker, batch->blocks[event->first].hash)->row.chain;
    return wire_token_chain(root->parent, local);
}

enum kvt_err
advisor_identity_store(struct advisor_identity *identity, const struct advisor_speaker *speaker,
                       const struct wire_raw_batch *batch, const struct wire_raw_event *event,
                       struct advisor_named *named, enum advisor_naming *naming)
{
    enum kvt_err rc = KVT_OK;
    struct root root;
    uint64_t parent;

    *naming = ADVISOR_NAMED;
    if (event->count == 0)
        return KVT_OK;
    *naming = find_root(identity, speaker, batch, event, &root);
    parent = root.parent;
    for (uint32_t i = 0; i < event->count && rc == KVT_OK && *naming == ADVISOR_NAMED; i++) {
        const uint64_t hash = batch->blocks[event->first + i].hash;
        const uint32_t position =
            root.position == ADVISOR_POSITION_NOBODY ? ADVISOR_POSITION_NOBODY : root.position + i;
        uint64_t local = batch->blocks[event->first + i].tokens_hash;
        uint64_t name = hash;

        if (root.by_tokens) {
            local = local_hash(batch, event, i, root.seed);
            name = i > 0 ? wire_token_chain(parent, local)
                         : first_name(identity, speaker, batch, event, &root, local);
        }
        named[i] = (struct advisor_named){
            .hash = name, .parent = parent, .tokens_hash = local, .position = position};
        if (position == ADVISOR_POSITION_NOBODY || (position > 0 && parent == 0)) {
            named[i].parent = 0;
            named[i].position = position == ADVISOR_POSITION_NOBODY ? 1 : position;
        }
        rc = remember(identity, speaker, &named[i], hash, &root, position, event->tier);
        parent = name;
    }
    return rc;
}

uint64_t
advisor_identity_remove(struct advisor_identity *identity, const struct advisor_speaker *speaker,
                        enum kvt_tier tier, uint64_t hash, bool *is_known)
{
    struct node *node = known(identity, speaker, hash);
    uint64_t chain = hash;

    *is_known = node != NULL;
    if (node == NULL)
        return hash;
    chain = node->row.chain;
    if ((node->row.tiers & ~(uint32_t)KVT_TIER_MASK(tier)) == 0) {
        forget(identity, node);
    } else if (reserve_changed(identity) == KVT_OK) {
        node->row.tiers &= ~(uint32_t)KVT_TIER_MASK(tier) & UINT8_MAX;
        mark(identity, node);
    }
    return chain;
}

void
advisor_identity_clear(struct advisor_identity *identity, const struct advisor_speaker *speaker,
                       enum kvt_tier tier)
{
    for (uint32_t at = 0; at < identity->used; at++) {
        const struct advisor_alias_row *row = &identity->nodes[at].row;
        bool is_known;

        if (row->publisher == speaker->publisher && (row->tiers & KVT_TIER_MASK(tier)) != 0)
            (void)advisor_identity_remove(identity, speaker, tier, row->hash, &is_known);
    }
}
