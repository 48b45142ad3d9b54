#include "advisor/publisher/aliases.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"

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

struct advisor_aliases {
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
advisor_aliases_new(struct advisor_aliases **out, uint32_t aliases_max)
{
    struct advisor_aliases *aliases = kvt_calloc(1, sizeof(*aliases));

    *out = aliases;
    if (aliases == NULL)
        return KVT_NOMEM;
    aliases->free = NOBODY;
    aliases->max = aliases_max;
    return KVT_OK;
}

void
advisor_aliases_free(struct advisor_aliases *aliases)
{
    if (aliases == NULL)
        return;
    kvt_free(aliases->nodes);
    kvt_free(aliases->buckets);
    kvt_free(aliases->changed);
    kvt_free(aliases->gone);
    kvt_free(aliases);
}

/* ---- the table ---- */

static uint32_t
bucket_of(const struct advisor_aliases *aliases, uint32_t publisher, uint64_t hash)
{
    /* Engines' hashes are well mixed, but may be small numbers in tests and in the field. */
    const uint64_t mixed = (hash ^ ((uint64_t)publisher << 40)) * UINT64_C(0x9E3779B97F4A7C15);

    return (uint32_t)(mixed >> 32) & (aliases->capacity - 1);
}

/* NOBODY: there is none. */
static uint32_t
find(const struct advisor_aliases *aliases, uint32_t publisher, uint64_t hash)
{
    if (aliases->capacity == 0)
        return NOBODY;
    for (uint32_t at = aliases->buckets[bucket_of(aliases, publisher, hash)]; at != NOBODY;
         at = aliases->nodes[at].next)
        if (aliases->nodes[at].row.hash == hash && aliases->nodes[at].row.publisher == publisher)
            return at;
    return NOBODY;
}

const struct advisor_alias_row *
advisor_aliases_find(const struct advisor_aliases *aliases, uint32_t publisher, uint64_t hash)
{
    const uint32_t at = find(aliases, publisher, hash);

    return at == NOBODY ? NULL : &aliases->nodes[at].row;
}

static void
link_in(struct advisor_aliases *aliases, uint32_t at)
{
    struct node *node = &aliases->nodes[at];
    uint32_t *head = &aliases->buckets[bucket_of(aliases, node->row.publisher, node->row.hash)];

    node->next = *head;
    *head = at;
}

static enum kvt_err
grow(struct advisor_aliases *aliases)
{
    const uint32_t capacity = aliases->capacity == 0 ? NODES_MIN : aliases->capacity * 2;
    uint32_t *buckets = kvt_realloc(NULL, capacity, sizeof(*buckets));
    void *nodes = kvt_realloc(aliases->nodes, capacity, sizeof(*aliases->nodes));

    if (nodes != NULL)
        aliases->nodes = nodes;
    if (nodes == NULL || buckets == NULL) {
        kvt_free(buckets);
        return KVT_NOMEM;
    }
    kvt_free(aliases->buckets);
    aliases->buckets = buckets;
    aliases->capacity = capacity;
    memset(buckets, 0xFF, capacity * sizeof(*buckets));
    aliases->free = NOBODY;
    for (uint32_t at = 0; at < aliases->used; at++) {
        if (aliases->nodes[at].row.publisher != 0) {
            link_in(aliases, at);
        } else {
            aliases->nodes[at].next = aliases->free;
            aliases->free = at;
        }
    }
    return KVT_OK;
}

static enum kvt_err
add(struct advisor_aliases *aliases, const struct advisor_alias_row *row, struct node **out)
{
    uint32_t at = aliases->free;

    *out = NULL;
    if (aliases->count >= aliases->max)
        return KVT_FULL;
    if (at == NOBODY && aliases->used == aliases->capacity && grow(aliases) != KVT_OK)
        return KVT_NOMEM;
    if (at == NOBODY)
        at = aliases->used++;
    else
        aliases->free = aliases->nodes[at].next;
    aliases->nodes[at] = (struct node){.row = *row};
    link_in(aliases, at);
    aliases->count++;
    *out = &aliases->nodes[at];
    return KVT_OK;
}

static void
take_out(struct advisor_aliases *aliases, struct node *node)
{
    const uint32_t at = (uint32_t)(node - aliases->nodes);
    uint32_t *link = &aliases->buckets[bucket_of(aliases, node->row.publisher, node->row.hash)];

    while (*link != at)
        link = &aliases->nodes[*link].next;
    *link = node->next;
    *node = (struct node){.next = aliases->free};
    aliases->free = at;
    aliases->count--;
}

/* ---- what is to be written ---- */

/* Room to tell of one more change; asked for before the change. */
static enum kvt_err
reserve_changed(struct advisor_aliases *aliases)
{
    void *more = kvt_grow(aliases->changed, &aliases->changed_capacity, aliases->changed_count + 1,
                          sizeof(*aliases->changed));

    if (more == NULL)
        return KVT_NOMEM;
    aliases->changed = more;
    return KVT_OK;
}

static enum kvt_err
reserve_gone(struct advisor_aliases *aliases)
{
    void *more = kvt_grow(aliases->gone, &aliases->gone_capacity, aliases->gone_count + 1,
                          sizeof(*aliases->gone));

    if (more == NULL)
        return KVT_NOMEM;
    aliases->gone = more;
    return KVT_OK;
}

static void
mark(struct advisor_aliases *aliases, struct node *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    aliases->changed[aliases->changed_count++] = (uint32_t)(node - aliases->nodes);
}

enum kvt_err
advisor_aliases_put(struct advisor_aliases *aliases, const struct advisor_alias_row *row)
{
    const uint32_t at = find(aliases, row->publisher, row->hash);
    struct node *node = NULL;
    enum kvt_err rc = reserve_changed(aliases);

    if (rc != KVT_OK)
        return rc;
    if (at == NOBODY) {
        rc = add(aliases, row, &node);
        if (rc != KVT_OK)
            return rc;
    } else {
        node = &aliases->nodes[at];
        node->row = *row;
    }
    mark(aliases, node);
    return KVT_OK;
}

/* Without memory to tell the store, the row stays, which costs room and harms nothing. */
static void
forget(struct advisor_aliases *aliases, struct node *node)
{
    if (reserve_gone(aliases) != KVT_OK)
        return;
    aliases->gone[aliases->gone_count++] =
        (struct gone){.hash = node->row.hash, .publisher = node->row.publisher};
    take_out(aliases, node);
}

void
advisor_aliases_drop(struct advisor_aliases *aliases, uint32_t publisher, uint64_t hash)
{
    const uint32_t at = find(aliases, publisher, hash);

    if (at != NOBODY)
        forget(aliases, &aliases->nodes[at]);
}

const struct advisor_alias_row *
advisor_aliases_at(const struct advisor_aliases *aliases, uint32_t at)
{
    return aliases->nodes[at].row.publisher == 0 ? NULL : &aliases->nodes[at].row;
}

uint32_t
advisor_aliases_end(const struct advisor_aliases *aliases)
{
    return aliases->used;
}

/* ---- durable ---- */

static enum kvt_err
load_row(void *arg, const void *data)
{
    const struct advisor_alias_row *row = data;
    struct advisor_aliases *aliases = arg;
    struct node *node;

    if (row->publisher == 0)
        return KVT_CORRUPT;
    return add(aliases, row, &node);
}

enum kvt_err
advisor_aliases_load(struct advisor_aliases *aliases, const struct advisor_txn *txn)
{
    const enum kvt_err rc = advisor_store_walk(txn, ADVISOR_ROW_ALIAS, load_row, aliases);

    advisor_aliases_void(aliases); /* a purge may have been under way */
    return rc;
}

static const struct node *
node_at(const struct advisor_aliases *aliases, uint32_t at)
{
    return &aliases->nodes[at];
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
advisor_aliases_save(struct advisor_aliases *aliases, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < aliases->gone_count && rc == KVT_OK; i++)
        rc = advisor_store_delete(
            txn, ADVISOR_ROW_ALIAS,
            &(struct advisor_alias_row){.publisher = aliases->gone[i].publisher,
                                        .hash = aliases->gone[i].hash});
    if (aliases->changed_count > 1)
        qsort_r(aliases->changed, aliases->changed_count, sizeof(*aliases->changed),
                compare_changed, aliases);
    for (size_t i = 0; i < aliases->changed_count && rc == KVT_OK; i++) {
        const struct node *node = node_at(aliases, aliases->changed[i]);

        if (node->row.publisher != 0 && node->dirty)
            rc = advisor_store_put(txn, ADVISOR_ROW_ALIAS, &node->row);
    }
    return rc;
}

void
advisor_aliases_saved(struct advisor_aliases *aliases)
{
    for (size_t i = 0; i < aliases->changed_count; i++)
        aliases->nodes[aliases->changed[i]].dirty = false;
    aliases->changed_count = 0;
    aliases->gone_count = 0;
}

bool
advisor_aliases_dirty(const struct advisor_aliases *aliases)
{
    return aliases->changed_count > 0 || aliases->gone_count > 0;
}

/* ---- void rows ---- */

void
advisor_aliases_void(struct advisor_aliases *aliases)
{
    aliases->purge_left = aliases->used;
}

void
advisor_aliases_purge(struct advisor_aliases *aliases, advisor_aliases_floor_fn *floor, void *arg)
{
    for (uint32_t i = 0; i < ADVISOR_ALIASES_STEP && aliases->purge_left > 0; i++) {
        struct node *node;

        if (aliases->purge_at >= aliases->used)
            aliases->purge_at = 0;
        node = &aliases->nodes[aliases->purge_at++];
        aliases->purge_left--;
        if (node->row.publisher != 0 && node->row.gen < floor(arg, node->row.publisher))
            forget(aliases, node);
    }
}
