/*
 * tests/unit/index/support/model.h -- an index so simple that it cannot be wrong in the same way.
 *
 * Why: every answer of index/index.h is compared with one found here by looking at all there is.
 *      A forest of blocks is drawn once; of each the model knows who has it, and what the index has
 *      been told about it.  A block that nobody has stays (a ghost) while another hangs on it.
 * Ownership: the test.
 * Threads:   one.
 * Limits:    the sizes below.
 */
#ifndef TESTS_UNIT_INDEX_SUPPORT_MODEL_H
#define TESTS_UNIT_INDEX_SUPPORT_MODEL_H

#include "index/index.h"

enum {
    MODEL_NODES = 1200,
    MODEL_HOLDERS = 300,
    MODEL_NAMESPACES = 3,
    MODEL_DEPTH_MAX = 200,
    MODEL_PAST = 6,
    MODEL_SLOTS = 4096,
};

/* A block as it is drawn: what an honest publisher says of it. */
struct model_node {
    uint64_t hash;
    uint64_t token;
    uint32_t parent; /* node, or MODEL_NODES: a root */
    uint32_t position;
};

/* What the index should know of it in one namespace. */
struct model_block {
    bool exists;     /* somebody has it, or something that exists hangs on it */
    uint32_t count;  /* holders */
    uint64_t parent; /* hash; 0: a root, or not known */
    uint32_t position;
    uint64_t token;
    uint64_t size;
    uint32_t hits;
    uint64_t read_ms; /* 0: never */
    uint64_t stored_ms;
    uint8_t ranks[MODEL_HOLDERS];
    struct index_past past[MODEL_PAST]; /* newest first */
    uint32_t past_count;
};

struct model {
    struct model_node nodes[MODEL_NODES];
    uint16_t slots[MODEL_SLOTS]; /* by hash: node plus 1 */
    struct model_block blocks[MODEL_NAMESPACES][MODEL_NODES];
    uint64_t holder_blocks[MODEL_HOLDERS];
    uint64_t holder_bytes[MODEL_HOLDERS];
    enum kvt_tier tiers[MODEL_HOLDERS];
    uint64_t block_count;
    uint64_t places;
    uint64_t collisions;
    uint64_t changes;
};

/** What it is called tells so, but for those that are far. */
static inline enum index_part
model_part(uint32_t holder)
{
    return (enum index_part)(holder / 4 % INDEX_PARTS);
}

/** Draw the forest. */
void model_draw(struct model *model, uint64_t *random);
/** The node with this hash, or MODEL_NODES. */
uint32_t model_find(const struct model *model, uint64_t hash);
/** Nodes from the root to `node`; returns how many. */
uint32_t model_path(const struct model *model, uint32_t node, uint32_t path[MODEL_DEPTH_MAX]);

enum kvt_err model_store(struct model *model, const struct index_change *change, uint32_t at,
                         bool *added);
/** True: the holder had it. */
bool model_remove(struct model *model, uint32_t ns, uint32_t node, uint32_t holder, uint32_t ranks,
                  uint64_t time_ms);
/** All of a holder in a namespace, or in INDEX_NAMESPACE_ALL; returns how many pairs went. */
size_t model_drop(struct model *model, uint32_t holder, uint32_t ns);
/** The index drops all of a holder in one namespace and says each block that it takes away, as the
 *  model has it before model_drop(); returns how many. */
uint64_t model_lose(const struct model *model, struct index *index, uint32_t holder, uint32_t ns);

bool model_has(const struct model *model, uint32_t ns, uint32_t node, uint32_t holder);
/** Whether `node` is right behind an existing block in the index's forest. */
bool model_is_linked(const struct model *model, uint32_t ns, uint32_t node, uint32_t *parent);
uint64_t model_orphans(const struct model *model);
/** Totals of the block and all below it. */
void model_totals(const struct model *model, uint32_t ns, uint32_t node,
                  struct index_totals *totals);

#endif /* TESTS_UNIT_INDEX_SUPPORT_MODEL_H */
